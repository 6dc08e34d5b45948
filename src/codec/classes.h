/* Which class each unit of channels takes: costs counted from the levels themselves. */
#ifndef SKY_CODEC_CLASSES_H
#define SKY_CODEC_CLASSES_H

#include "codec/rows.h"

/* Occurrences by (a, symbol) of one unit under one shift. */
typedef struct {
    uint32_t count[2][SKY_SYMBOLS];
} sky_histogram;

/* Rows of one half: row t at packed + t × pitch, by channel, 2k + a. */
typedef struct {
    const int16_t *packed;
    uint32_t rows;
    size_t pitch;
    const uint8_t *fineness; /* of each row (fineness.h); NULL: all usual */
} sky_levels;

static inline void sky__histogram_add_one(sky_histogram *h, int32_t value, uint32_t shift) {
    uint32_t u = (uint32_t)((value >> 1 >> shift) + SKY_SYMBOL_ZERO);
    h->count[value & 1][u < SKY_ESCAPE ? u : SKY_ESCAPE]++;
}

/* Add one unit's 16 channels, of all rows. */
void sky__histogram_add(sky_histogram *h, const sky_levels *levels, const uint16_t *channels,
                        uint32_t shift);

/* Occurrences in all units of a half, by fineness, of levels >> least: the bins of a window hold
 * what histograms of three shifts need, least and the two after it. A level of bin b, but for the
 * first and the last, which have all that is beyond, is b − SKY_WINDOW_BINS / 2. */
#define SKY_WINDOW_BINS  64u
#define SKY_WINDOW_ROWS  512u /* at most: so counts and sums have room */
#define SKY_WINDOW_UNITS (SKY_WIDTH_MAX / SKY_UNIT)
typedef struct {
    uint8_t least[4][SKY_WINDOW_UNITS];                          /* [fineness][unit] */
    uint16_t count[4][SKY_WINDOW_UNITS][SKY_WINDOW_BINS + 2][2]; /* [bin][a]; the last is none */
} sky_windows;

/* Sums of magnitudes, by channel, times 128 and as if steps were usual.
 * Shape:  sums [padded] */
void sky__classes_sums(const sky_levels *levels, uint32_t padded, uint32_t *sums);

/* Count rows, at most SKY_WINDOW_ROWS, with w->least set. */
void sky__classes_count(const sky_coder *rows, uint32_t half, const sky_levels *levels,
                        sky_windows *w);

/* What table 0 costs where there is something it cannot say: more than anything else, also four
 * times. */
#define SKY_COST_NEVER (UINT64_MAX / 4)

static inline uint32_t sky_classes_of_shift(uint32_t shift) {
    return shift ? SKY_BANK_WIDE : SKY_BANK_NARROW;
}
static inline uint32_t sky_class_first(uint32_t shift) {
    return shift ? SKY_BANK_NARROW + (shift - 1) * SKY_BANK_WIDE : 0;
}

/* Bits × 1024 under each class of a shift. Shape: cost [sky_classes_of_shift] */
void sky__classes_costs(const sky_histogram *h, uint32_t shift, uint64_t *cost);

/* The same under one class; UINT64_MAX when table 0 cannot say it. */
uint64_t sky__class_cost(const sky_histogram *h, uint8_t class);

/* The cheapest class of a shift; its cost in *cost. */
uint8_t sky__class_best(const sky_histogram *h, uint32_t shift, uint64_t *cost);

/* Bits × 1024 under one of the 32 tables of a half, lossless; and the cheapest of them. */
uint64_t sky__class_exact_cost(const sky_histogram *h, uint32_t half, uint32_t class);
uint8_t sky__class_exact(const sky_histogram *h, uint32_t half);

/* Cost of a half under rows->classes. */
uint64_t sky__classes_cost(const sky_coder *rows, uint32_t half, const sky_levels *levels);

/* What the cheapest classes would save against rows->classes, where their shifts are about right;
 * UINT64_MAX when a table 0 cannot say it. */
uint64_t sky__classes_saved(const sky_coder *rows, uint32_t half, const sky_levels *levels);

/* The cheapest classes in rows' order, and their cost.
 * Shape:  classes [units] */
uint64_t sky__classes_choose(const sky_coder *rows, uint32_t half, const sky_levels *levels,
                             uint8_t *classes);

/* Shift at which sum / count, the mean magnitude of a level, suits the wide tables. */
uint32_t sky__shift_for(uint64_t sum, uint64_t count);

/* Sort keys of `width` channels from their sums of magnitudes, spread over 0 … key_max. */
void sky__order_keys(const uint32_t *sums, uint32_t width, uint32_t key_max, uint8_t *keys);

/* Sums of magnitudes of one half. Shape: sums [width], added to */
void sky__magnitudes_add(const sky_levels *levels, uint32_t width, uint32_t *sums);

/* More escapes than one in 64 under rows' classes? */
bool sky__classes_misfit(const sky_coder *rows, uint32_t half, const sky_levels *levels);

#endif
