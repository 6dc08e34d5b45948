/* See exact.h. */
#include "codec/exact.h"

#include <string.h>

#include "base/bytes.h"

void sky__exact_gather(const sky_exact *x, const uint8_t *row, size_t head_bytes, uint16_t *top,
                       uint16_t *low) {
    for (uint32_t h = 0; h < x->heads; h++, row += head_bytes, top += x->dim) {
        if (x->element != SKY_ELEMENT_F32) {
            for (uint32_t i = 0; i < x->dim; i++)
                top[i] = sky_load_u16(row + 2 * (size_t)i);
            continue;
        }
        for (uint32_t i = 0; i < x->dim; i++) {
            *low++ = sky_load_u16(row + 4 * (size_t)i);
            top[i] = sky_load_u16(row + 4 * (size_t)i + 2);
        }
    }
}

static inline int32_t exponent_level(const sky_exact *x, uint32_t i, uint16_t top) {
    return (int32_t)x->usual[i] - (int32_t)sky_exact_exponent(x->element, top) - SKY_EXACT_BIAS;
}

void sky__exact_split(const sky_exact *x, const uint16_t *top, const uint16_t *before,
                      int16_t *packed) {
    static const uint16_t none[SKY_WIDTH_MAX];
    uint32_t shift = sky_exact_shift(x->element);
    int16_t *restrict first = packed, *restrict second = packed + x->padded;
    memset(packed, 0, 2 * (size_t)x->padded * sizeof *packed);
    const uint16_t *restrict last = before ? before : none;
    for (uint32_t i = 0; i < x->width; i++) {
        int32_t level = exponent_level(x, i, top[i]);
        int32_t a = (before != NULL) & (exponent_level(x, i, last[i]) <= -SKY_EXACT_BIAS);
        uint32_t sign = top[i] >> 15 ^ last[i] >> 15;
        uint32_t rest = top[i] & ((4u << shift) - 1);
        int32_t other = (int32_t)(sign << (shift + 2) | rest) - (4 << shift);
        first[i] = (int16_t)(2 * level + a);
        second[i] = (int16_t)(2 * other + (level < -SKY_EXACT_BIAS));
    }
}

/* A level out of what row decoding makes of it, 2k or one nearer to zero. */
static inline int16_t level_of(int16_t value) {
    return (int16_t)((int16_t)(value + (value > 0)) >> 1);
}

void sky__exact_contexts(sky_coder *rows, const int16_t *k) {
    uint8_t *restrict next_row = rows->trellis[0], *restrict next_half = rows->trellis[1];
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++) {
        next_row[i] = k[i] <= -SKY_EXACT_BIAS ? 4 : 0;
        next_half[i] = k[i] < -SKY_EXACT_BIAS ? 4 : 0;
    }
    sky_exact_pads(rows);
}

/* Both levels back to an element's top bits; false: no such exponent. In words throughout, as
 * vectors hold twice as many. */
static bool join_tops(sky_exact *x, const int16_t *restrict levels0,
                      const int16_t *restrict levels1, uint16_t *restrict top) {
    uint32_t shift = sky_exact_shift(x->element), width = x->width;
    uint16_t exponent_max = x->element == SKY_ELEMENT_F16 ? 31 : 255, wrong = 0;
    uint16_t middle = (uint16_t)(4u << shift), rest = (uint16_t)(middle - 1);
    uint8_t *restrict before = x->before;
    const uint8_t *restrict usual = x->usual;
    for (uint32_t i = 0; i < width; i++) {
        uint16_t e = (uint16_t)(usual[i] - SKY_EXACT_BIAS - level_of(levels0[i]));
        uint16_t other = (uint16_t)(level_of(levels1[i]) + middle);
        uint16_t sign = (uint16_t)((uint16_t)(other >> (shift + 2)) ^ before[i]) & 1;
        wrong |= e > exponent_max;
        before[i] = (uint8_t)sign;
        top[i] = (uint16_t)((uint16_t)(sign << 15) | (uint16_t)(e << (shift + 2)) |
                            (uint16_t)(other & rest));
    }
    return !wrong;
}

void sky__exact_prepare(sky_exact *x, const sky_coder *rows) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++)
        x->usual_at[i] = rows->channel[0][i] < x->width ? x->usual[rows->channel[0][i]] : 0;
}

void sky__exact_scatter(const sky_exact *x, const uint16_t *top, const uint8_t *low, uint8_t *out,
                        size_t head_bytes) {
    uint32_t dim = x->dim;
    for (uint32_t h = 0; h < x->heads; h++, out += head_bytes, top += dim) {
        if (!low)
            memcpy(out, top, dim * sizeof *top);
        for (uint32_t i = 0; low && i < dim; i++, low += 2) {
            uint32_t element = sky_load_u16(low) | (uint32_t)top[i] << 16;
            memcpy(out + 4 * (size_t)i, &element, 4);
        }
    }
}

bool sky__exact_join(sky_exact *x, const int16_t *levels0, const int16_t *levels1,
                     const uint8_t *low, uint8_t *out, size_t head_bytes) {
    uint16_t top[SKY_WIDTH_MAX] = {0};
    if (!join_tops(x, levels0, levels1, top))
        return false;
    sky__exact_scatter(x, top, low, out, head_bytes);
    return true;
}

void sky__exact_usual(const uint32_t *sums, uint32_t tokens, uint32_t width, uint8_t *usual) {
    for (uint32_t i = 0; i < width; i++)
        usual[i] = (uint8_t)(sums[i] / tokens);
}

/* Alike are channels at the same place within an octave, and as wide. */
void sky__exact_keys(const uint32_t *sums, const uint32_t *spreads, uint32_t tokens, uint32_t width,
                     uint8_t *keys) {
    for (uint32_t i = 0; i < width; i++) {
        uint32_t phase = (uint32_t)((uint64_t)sums[i] * 4 / tokens) & 3;
        uint32_t spread = (uint32_t)((uint64_t)spreads[i] * 20 / tokens);
        keys[i] = (uint8_t)(phase * 64 + (spread > 63 ? 63 : spread));
    }
}
