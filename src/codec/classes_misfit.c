/* See classes.h. */
#include "codec/classes.h"
#include "codec/fineness.h"

/* By channel: the least level a class has a symbol for, how many follow it, both as 2k + a; and
 * whether it has one symbol only. */
typedef struct {
    int16_t least[SKY_WIDTH_MAX];
    uint16_t span[SKY_WIDTH_MAX];
    uint16_t silent[SKY_WIDTH_MAX];
} bounds;

static void bound_classes(const sky_coder *rows, uint32_t half, uint32_t fineness, bounds *b) {
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        uint8_t class = sky__class_finer(rows->classes[half][u],
                                         (int32_t)fineness - SKY_FINENESS_USUAL);
        uint32_t shift = sky_class_shift(class);
        bool silent = class == 0;
        for (uint32_t i = u * SKY_UNIT; i < (u + 1) * SKY_UNIT; i++) {
            uint32_t channel = rows->channel[half][i];
            b->least[channel] = (int16_t)(silent ? 0 : -(14 << shift));
            b->span[channel] = (uint16_t)(silent ? 1 : (30 << shift) - 1);
            b->silent[channel] = silent;
        }
    }
}

bool sky__classes_misfit(const sky_coder *rows, uint32_t half, const sky_levels *levels) {
    bounds all[SKY_FINENESS_COUNT];
    const uint8_t *fineness = levels->fineness;
    uint32_t padded = rows->steps * SKY_LANES;
    uint32_t used = fineness ? sky__fineness_used(fineness, levels->rows) : 1 << SKY_FINENESS_USUAL;
    uint64_t escapes = 0;
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        if (used >> s & 1)
            bound_classes(rows, half, s, &all[s]);
    for (uint32_t t = 0; t < levels->rows; t++) {
        const bounds *b = &all[fineness ? fineness[t] : SKY_FINENESS_USUAL];
        const int16_t *row = levels->packed + t * levels->pitch;
        uint16_t outside = 0, wrong = 0; /* at most SKY_WIDTH_MAX */
        for (uint32_t i = 0; i < padded; i++) {
            uint16_t out = (uint16_t)(row[i] - b->least[i]) > b->span[i];
            outside = (uint16_t)(outside + out);
            wrong |= out & b->silent[i];
        }
        if (wrong)
            return true;
        escapes += outside;
    }
    return escapes * 64 > (uint64_t)levels->rows * rows->width;
}
