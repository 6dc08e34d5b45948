/* Which channels share a unit, lossless: sixteen of them have one table of exponents and one of
 * signs and mantissas, so they should like the same two. */
#ifndef SKY_CODEC_FIT_UNITS_H
#define SKY_CODEC_FIT_UNITS_H

#include "codec/bank.h"
#include "codec/slices.h"

typedef struct {
    uint32_t width;
    uint64_t cost[SKY_WIDTH_MAX][2][SKY_EXACT_TABLES]; /* of a channel under each table */
    uint8_t unit[SKY_WIDTH_MAX];                       /* of each channel */
    uint8_t table[2][SKY_UNITS_MAX];                   /* of each unit */
} sky_fit_units;

/* From the units as they are, exchange channels and choose tables in turns for as long as bits are
 * saved; units keep their numbers of channels. Returns the cost.
 * Shape:  width, cost and unit are set, table is an output */
uint64_t sky__fit_units(sky_fit_units *f);

#endif
