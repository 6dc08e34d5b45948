/* Values that stand in scenario files, and what is said of those that do not fit.
 *
 * Surprise: `inf`, `nan` and hex are no numbers here. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/scenario_reader.h"

typedef sky__scenario_reader reader;

sky_status sky__scenario_refuse(reader *r, sky_status status, int line, const char *format, ...) {
    char reason[400];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return sky_fail(r->error, status, "%s:%d: %s", r->path, line, reason);
}

sky_status sky__scenario_refuse_value(reader *r, const sky_yaml_entry *e, const char *allowed) {
    char value[64] = ""; /* as it stood; a long one is cut */
    for (unsigned i = 0; i < e->value_count; i++) {
        size_t used = strlen(value);
        snprintf(value + used, sizeof value - used, "%s%.60s%s",
                 !e->list ? ""
                 : i == 0 ? "["
                          : ", ",
                 e->values[i], e->list && i + 1 == e->value_count ? "]" : "");
    }
    return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "%s%s%s is '%s': %s", e->section,
                                e->section[0] ? "." : "", e->key, value, allowed);
}

bool sky__scenario_number(const char *text, double *out) {
    if (!text[0] || text[strspn(text, "0123456789.eE+-")])
        return false;
    char *end;
    double value = strtod(text, &end);
    if (*end || !isfinite(value))
        return false;
    *out = value;
    return true;
}

bool sky__scenario_whole(const char *text, uint64_t max, uint64_t *out) {
    if (!text[0] || text[strspn(text, "0123456789")] || strlen(text) > 19)
        return false;
    uint64_t value = strtoull(text, NULL, 10);
    if (value > max)
        return false;
    *out = value;
    return true;
}

bool sky__scenario_duration(const char *text, sky_time *ns) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    sky_yaml_text digits;
    snprintf(digits, sizeof digits, "%s", text);
    size_t length = strcspn(digits, "mshd");
    const char *unit = text + length;
    digits[length] = 0;
    double value;
    if (!sky__scenario_number(digits, &value))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double seconds = value * units[i].seconds;
        if (strcmp(unit, units[i].unit) == 0 && seconds >= 0 && seconds <= 366 * 86400.0) {
            *ns = (sky_time)(seconds * 1e9 + 0.5);
            return true;
        }
    }
    return false;
}

bool sky__scenario_satellite(const char *plane, const char *slot, sky_satellite *out) {
    uint64_t p, s;
    if (!sky__scenario_whole(plane, SKY_PLANES_MAX, &p) ||
        !sky__scenario_whole(slot, SKY_SLOTS_MAX, &s) || p == 0 || s == 0)
        return false;
    *out = (sky_satellite){(uint32_t)p, (uint32_t)s};
    return true;
}
