#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/skymem.h>

const char *sky_status_name(sky_status status) {
    switch (status) {
#define SKY_STATUS_NAME(name, value, sentence)                                                     \
    case name:                                                                                     \
        return #name;
        SKY_STATUS_MAP(SKY_STATUS_NAME)
#undef SKY_STATUS_NAME
    }
    return "SKY_E_UNKNOWN";
}

const char *sky_status_text(sky_status status) {
    switch (status) {
#define SKY_STATUS_TEXT(name, value, sentence)                                                     \
    case name:                                                                                     \
        return sentence;
        SKY_STATUS_MAP(SKY_STATUS_TEXT)
#undef SKY_STATUS_TEXT
    }
    return "unknown status";
}

bool sky_status_is_known(sky_status status) {
    switch (status) {
#define SKY_STATUS_KNOWN(name, value, sentence) case name:
        SKY_STATUS_MAP(SKY_STATUS_KNOWN)
#undef SKY_STATUS_KNOWN
        return true;
    }
    return false;
}

const char *sky_version(void) {
    return SKY_VERSION;
}

uint32_t sky_version_number(void) {
    return SKY_VERSION_NUMBER;
}

sky_status sky_fail(sky_error *error, sky_status status, const char *format, ...) {
    if (!error)
        return status;
    error->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}

sky_status sky_size_parse(const char *text, uint64_t *bytes) {
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10},
                 {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    if (*text < '0' || *text > '9')
        return SKY_E_SYNTAX;
    char *unit;
    double number = strtod(text, &unit);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) != 0)
            continue;
        double value = number * units[i].factor;
        if (!(value >= 0 && value < 0x1p63) || (units[i].factor == 1 && value != floor(value)))
            return SKY_E_SYNTAX;
        *bytes = (uint64_t)value; /* "2.9MiB" is no whole number of bytes: rounded down */
        return SKY_OK;
    }
    return SKY_E_SYNTAX;
}
