#include "codec/levels.h"

#include <assert.h>
#include <string.h>

#include <skymem/codec.h>

#define NAME(name, bits, loss, step) name,
#define BITS(name, bits, loss, step) bits,
static const char *const level_names[] = {SKY_LEVELS(NAME)};
static const double level_bits[] = {SKY_LEVELS(BITS)};
static_assert(sizeof level_names / sizeof *level_names == SKY_LEVEL_COUNT, "a row for each level");

const char *sky_level_name(sky_level level) {
    return (uint32_t)level < SKY_LEVEL_COUNT ? level_names[level] : NULL;
}

sky_status sky_level_parse(const char *name, sky_level *level) {
    if (!name || !level)
        return SKY_E_PARAM;
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (sky_level)i;
            return SKY_OK;
        }
    return SKY_E_SYNTAX;
}

double sky_level_bits_typical(sky_level level) {
    return (uint32_t)level < SKY_LEVEL_COUNT ? level_bits[level] : 0;
}
