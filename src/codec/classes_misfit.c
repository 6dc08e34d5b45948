/* See classes.h. */
#include "codec/classes.h"

/* By channel: the least level a class has a symbol for, how many follow it, both as 2k + a; and
 * whether it has one symbol only. */
typedef struct {
    int16_t least[SKY_WIDTH_MAX];
    uint16_t span[SKY_WIDTH_MAX];
    uint16_t silent[SKY_WIDTH_MAX];
} bounds;

static void bound_classes(const sky_coder *rows, uint32_t half, bounds *b) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++) {
        uint32_t unit = i / SKY_UNIT, channel = rows->channel[half][i];
        uint32_t shift = rows->shift[half][unit];
        bool silent = rows->table[half][unit] == 0;
        b->least[channel] = (int16_t)(silent ? 0 : -(14 << shift));
        b->span[channel] = (uint16_t)(silent ? 1 : (30 << shift) - 1);
        b->silent[channel] = silent;
    }
}

bool sky__classes_misfit(const sky_coder *rows, uint32_t half, const sky_levels *levels) {
    bounds b;
    uint32_t padded = rows->steps * SKY_LANES;
    uint64_t escapes = 0;
    bound_classes(rows, half, &b);
    for (uint32_t t = 0; t < levels->rows; t++) {
        const int16_t *row = levels->packed + t * levels->pitch;
        uint16_t outside = 0, wrong = 0; /* at most SKY_WIDTH_MAX */
        for (uint32_t i = 0; i < padded; i++) {
            uint16_t out = (uint16_t)(row[i] - b.least[i]) > b.span[i];
            outside = (uint16_t)(outside + out);
            wrong |= out & b.silent[i];
        }
        if (wrong)
            return true;
        escapes += outside;
    }
    return escapes * 64 > (uint64_t)levels->rows * rows->width;
}
