/* Lossless coding: an element's exponent, its sign and two bits of mantissa as symbols, the rest as
 * it is.
 *
 *   f16   s eeeee mm mmmmmmmm        a token makes two rows of levels, in one order of channels:
 *   bf16  s eeeeeeee mm mmmmm          half 0   E − e − 3, E the channel's usual exponent
 *   f32   bf16, then 16 bits           half 1   ((s ⊕ s of the token before, mm) − 4) · 2^r + low
 *
 * r is 8 for f16, 5 for bf16 and f32; f32's last 16 bits follow the two rows as they are. The bit a
 * that selects a table is, for half 0, whether the token before had e ≥ E; for half 1, whether this
 * one has e > E. A tile's first token follows one of exponent below E and sign 0. Keys are coded as
 * they come, after rope: signs of slowly turning channels persist. */
#ifndef SKY_CODEC_EXACT_H
#define SKY_CODEC_EXACT_H

#include <string.h>

#include "codec/classes.h"
#include "codec/rows.h"

#define SKY_EXACT_BIAS 3

typedef struct {
    sky_element element;
    uint32_t heads;
    uint32_t dim;
    uint32_t width;
    uint32_t padded;
    uint8_t usual[SKY_WIDTH_MAX];                 /* E, of the element's own bias */
    _Alignas(64) uint8_t before[SKY_WIDTH_MAX];   /* sign of the token before */
    _Alignas(64) uint8_t usual_at[SKY_WIDTH_MAX]; /* decode: E by position */
} sky_exact;

/* Low mantissa bits that are in half 1's levels. */
static inline uint32_t sky_exact_shift(sky_element element) {
    return element == SKY_ELEMENT_F16 ? 8 : 5;
}

/* A row's top 16 bits, gathered from heads that lie head_bytes apart, and f32's low ones.
 * Shape:  top, low [width]; low NULL for 16-bit elements */
void sky__exact_gather(const sky_exact *x, const uint8_t *row, size_t head_bytes, uint16_t *top,
                       uint16_t *low);

/* Two rows of levels of a token; before NULL: the tile's first.
 * Shape:  top, before [width]; packed [2][padded]: 2k + a */
void sky__exact_split(const sky_exact *x, const uint16_t *top, const uint16_t *before,
                      int16_t *packed);

/* The tables' bits for the token after (half 0) and for half 1 from half 0's level at position i;
 * from all of them: decoding a lossless row of half 0 sets these. The padding, which comes first,
 * has none.
 * Shape:  k [steps × 64], by position */
static inline void sky_exact_context(sky_coder *rows, uint32_t i, int32_t k) {
    bool real = rows->channel[0][i] < rows->width;
    rows->trellis[0][i] = real && k <= -SKY_EXACT_BIAS ? 4 : 0;
    rows->trellis[1][i] = real && k < -SKY_EXACT_BIAS ? 4 : 0;
}
static inline void sky_exact_pads(sky_coder *rows) {
    uint32_t pads = rows->steps * SKY_LANES - rows->width;
    memset(rows->trellis[0], 0, pads);
    memset(rows->trellis[1], 0, pads);
}
void sky__exact_contexts(sky_coder *rows, const int16_t *k);

/* Decode: set usual_at, before a tile's first row. */
void sky__exact_prepare(sky_exact *x, const sky_coder *rows);

/* A row from its elements' top 16 bits and f32's low ones. */
void sky__exact_scatter(const sky_exact *x, const uint16_t *top, const uint8_t *low, uint8_t *out,
                        size_t head_bytes);

/* Elements from the levels of both halves, as row decoding gives them; steps x->before.
 * Shape:  levels0, levels1 [padded]; low [width] little-endian, or NULL; out: a row
 * Errors: false: an exponent that does not exist */
bool sky__exact_join(sky_exact *x, const int16_t *levels0, const int16_t *levels1,
                     const uint8_t *low, uint8_t *out, size_t head_bytes);

/* Usual exponents and sort keys, whose upper half alone will do, from sums over tokens.
 * Shape:  sums, spreads [width]; usual, keys [width] */
void sky__exact_usual(const uint32_t *sums, uint32_t tokens, uint32_t width, uint8_t *usual);
void sky__exact_keys(const uint32_t *sums, const uint32_t *spreads, uint32_t tokens, uint32_t width,
                     uint8_t *keys);

static inline uint32_t sky_exact_exponent(sky_element element, uint16_t top) {
    return element == SKY_ELEMENT_F16 ? top >> 10 & 31 : top >> 7 & 255;
}

#endif
