/* See classes.h. Row by row and all units at once: loops over channels become vectors, but for the
 * counting itself, and no two neighbours count in the same place. */
#include <string.h>

#include "codec/classes.h"
#include "codec/fineness.h"

void sky__classes_sums(const sky_levels *levels, uint32_t padded, uint32_t *restrict sums) {
    static const uint8_t part[SKY_FINENESS_COUNT] = {181, 128, 91, 64}; /* of 128 */
    memset(sums, 0, padded * sizeof *sums);
    for (uint32_t t = 0; t < levels->rows; t++) {
        const int16_t *row = levels->packed + t * levels->pitch;
        int32_t weight = part[levels->fineness ? levels->fineness[t] : SKY_FINENESS_USUAL];
        for (uint32_t i = 0; i < padded; i++) {
            int32_t k = row[i] >> 1;
            sums[i] += (uint32_t)((k < 0 ? -k : k) * weight);
        }
    }
}

/* (2k + a) >> 1 >> least is 4k × 2^(14 − least) >> 16. */
static void count_row(const int16_t *row, const uint16_t *at, const int16_t *factor,
                      uint32_t padded, uint16_t *restrict counts) {
    const int32_t most = SKY_WINDOW_BINS / 2;
    uint16_t index[SKY_WIDTH_MAX];
    for (uint32_t i = 0; i < padded; i++) {
        int16_t four = (int16_t)((row[i] & ~1) * 2);
        int16_t u = (int16_t)(four * factor[i] >> 16);
        u = (int16_t)(u < -most ? -most : u > most ? most : u);
        index[i] = (uint16_t)(at[i] + (uint16_t)(2 * (u + most)) + (uint16_t)(row[i] & 1));
    }
    for (uint32_t i = 0; i < padded; i++)
        counts[index[i]]++;
}

void sky__classes_count(const sky_coder *rows, uint32_t half, const sky_levels *levels,
                        sky_windows *w) {
    int16_t factor[SKY_FINENESS_COUNT][SKY_WIDTH_MAX];
    uint16_t at[SKY_WIDTH_MAX];
    uint32_t padded = rows->steps * SKY_LANES;
    for (uint32_t i = 0; i < padded; i++) {
        uint32_t channel = rows->channel[half][i], u = i / SKY_UNIT;
        at[channel] = (uint16_t)(u * (sizeof w->count[0][0] / sizeof w->count[0][0][0][0]));
        for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
            factor[s][channel] = (int16_t)(1 << (14 - w->least[s][u]));
    }
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        memset(w->count[s], 0, sky_rows_units(rows) * sizeof w->count[s][0]);
    for (uint32_t t = 0; t < levels->rows; t++) {
        uint32_t s = levels->fineness ? levels->fineness[t] : SKY_FINENESS_USUAL;
        count_row(levels->packed + t * levels->pitch, at, factor[s], padded, &w->count[s][0][0][0]);
    }
}
