/* Elements as float and back, by integer arithmetic alone: what vcvtps2ph and its kin give, bit for
 * bit, on machines that lack them. Rounds to nearest, ties to even; NaN keeps the high bits of its
 * payload and becomes quiet. */
#ifndef SKY_CODEC_HALF_H
#define SKY_CODEC_HALF_H

#include <stdint.h>
#include <string.h>

#include <skymem/engine.h>

static inline uint32_t sky_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float sky_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline float sky_float_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) /* infinity; NaN, quiet */
        return sky_float_of(sign | 0x7f800000u | (rest & 0x3ff) << 13 |
                            (rest > 0x7c00 ? 0x400000u : 0));
    /* Exact for normals and subnormals alike: the exponent is moved by a power of two. */
    float magnitude = sky_float_of(rest << 13) * 0x1p112f;
    return sky_float_of(sign | sky_bits_of(magnitude));
}

static inline uint16_t sky_f16_of_float(float x) {
    uint32_t bits = sky_bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    uint32_t out;
    if (rest > 0x7f800000u)
        out = 0x7e00 | (rest >> 13 & 0x3ff);
    else if (rest >= 0x47800000u)
        out = 0x7c00;
    else if (rest < 0x38800000u) /* subnormal: adding 0.5 aligns the last bit to 2^-24 */
        out = sky_bits_of(sky_float_of(rest) + 0.5f) - 0x3f000000u;
    else
        out = (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
    return (uint16_t)(sign | out);
}

static inline float sky_float_of_bf16(uint16_t h) {
    return sky_float_of((uint32_t)h << 16);
}

static inline uint16_t sky_bf16_of_float(float x) {
    uint32_t bits = sky_bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline uint32_t sky_element_bytes(sky_element element) {
    return element == SKY_ELEMENT_F32 ? 4 : 2;
}

#endif
