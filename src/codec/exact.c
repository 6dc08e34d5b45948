/* See exact.h. */
#include "codec/exact.h"

#include <string.h>

#include "base/bytes.h"

void sky__exact_gather(const sky_exact *x, const uint8_t *row, size_t head_bytes, uint16_t *top,
                       uint16_t *low) {
    for (uint32_t h = 0, at = 0; h < x->heads; h++, row += head_bytes)
        for (uint32_t i = 0; i < x->dim; i++, at++) {
            if (x->element == SKY_ELEMENT_F32) {
                low[at] = sky_load_u16(row + 4 * (size_t)i);
                top[at] = sky_load_u16(row + 4 * (size_t)i + 2);
            } else {
                top[at] = sky_load_u16(row + 2 * (size_t)i);
            }
        }
}

static inline int32_t exponent_level(const sky_exact *x, uint32_t i, uint16_t top) {
    return (int32_t)x->usual[i] - (int32_t)sky_exact_exponent(x->element, top) - SKY_EXACT_BIAS;
}

void sky__exact_split(const sky_exact *x, const uint16_t *top, const uint16_t *before,
                      int16_t *packed) {
    uint32_t shift = sky_exact_shift(x->element);
    memset(packed, 0, 2 * (size_t)x->padded * sizeof *packed);
    for (uint32_t i = 0; i < x->width; i++) {
        int32_t level = exponent_level(x, i, top[i]);
        int32_t a = before && exponent_level(x, i, before[i]) <= -SKY_EXACT_BIAS;
        uint32_t sign = top[i] >> 15 ^ (before ? before[i] >> 15 : 0);
        uint32_t rest = top[i] & ((4u << shift) - 1);
        int32_t other = (int32_t)(sign << (shift + 2) | rest) - (4 << shift);
        packed[i] = (int16_t)(2 * level + a);
        packed[x->padded + i] = (int16_t)(2 * other + (level < -SKY_EXACT_BIAS));
    }
}

/* A level out of what row decoding makes of it, 2k or one nearer to zero. */
static inline int32_t level_of(int16_t value) {
    return (value + (value > 0)) >> 1;
}

void sky__exact_contexts(sky_coder *rows, const int16_t *levels) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++) {
        int32_t level = level_of(levels[rows->channel[0][i]]);
        bool real = rows->channel[0][i] < rows->width;
        rows->trellis[0][i] = real && level <= -SKY_EXACT_BIAS ? 4 : 0;
        rows->trellis[1][i] = real && level < -SKY_EXACT_BIAS ? 4 : 0;
    }
}

bool sky__exact_join(sky_exact *x, const int16_t *levels0, const int16_t *levels1,
                     const uint8_t *low, uint8_t *out, size_t head_bytes) {
    uint32_t shift = sky_exact_shift(x->element), size = low ? 4 : 2;
    int32_t exponent_max = x->element == SKY_ELEMENT_F16 ? 31 : 255;
    for (uint32_t h = 0, at = 0; h < x->heads; h++, out += head_bytes)
        for (uint32_t i = 0; i < x->dim; i++, at++) {
            int32_t e = (int32_t)x->usual[at] - SKY_EXACT_BIAS - level_of(levels0[at]);
            uint32_t other = (uint32_t)(level_of(levels1[at]) + (4 << shift));
            uint32_t sign = (other >> (shift + 2) ^ x->before[at]) & 1;
            if (e < 0 || e > exponent_max)
                return false;
            x->before[at] = (uint8_t)sign;
            uint32_t top = sign << 15 | (uint32_t)e << (shift + 2) | (other & ((4u << shift) - 1));
            uint8_t *element = out + size * (size_t)i;
            if (low)
                memcpy(element, low + 2 * (size_t)at, 2);
            sky_store_u16(element + size - 2, (uint16_t)top);
        }
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
