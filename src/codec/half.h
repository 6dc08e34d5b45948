/* Elements as float and back, by integer arithmetic alone: what vcvtps2ph and its kin give, bit for
 * bit, on machines that lack them. Rounds to nearest, ties to even; NaN keeps the high bits of its
 * payload and becomes quiet. Without branches, so that loops over them become vectors. */
#ifndef SKY_CODEC_HALF_H
#define SKY_CODEC_HALF_H

#include <stdint.h>
#include <string.h>

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
    /* Exact for normals and subnormals alike: the exponent is moved by a power of two. */
    uint32_t finite = sky_bits_of(sky_float_of(rest << 13) * 0x1p112f);
    uint32_t other = 0x7f800000u | rest << 13 | (rest > 0x7c00 ? 0x400000u : 0); /* quiet */
    return sky_float_of(sign | (rest < 0x7c00 ? finite : other));
}

/* The same of numbers; infinities and NaN become something from 65536 up. */
static inline float sky_float_of_finite(uint16_t h) {
    uint32_t rest = h & 0x7fff, finite = sky_bits_of(sky_float_of(rest << 13) * 0x1p112f);
    return sky_float_of((uint32_t)(h & 0x8000) << 16 | finite);
}

/* The float unit rounds: added to a power of two that is 2^13 times the value's (2^-1 times, where
 * the result is subnormal), the value keeps ten bits of mantissa. Too large becomes infinity by the
 * multiplication. */
static inline uint16_t sky_f16_of_float(float x) {
    uint32_t bits = sky_bits_of(x), rest = bits & 0x7fffffff, power = bits & 0x7f800000;
    float value = (sky_float_of(rest) * 0x1p112f) * 0x1p-110f;
    power = (int32_t)power < 0x38800000 ? 0x38800000 : power;
    uint32_t sum = sky_bits_of(sky_float_of(power + 0x07800000) + value);
    uint32_t out = (sum >> 13 & 0x7c00) + (sum & 0xfff);
    out = (int32_t)rest > 0x7f800000 ? 0x7e00 | (rest >> 13 & 0x3ff) : out;
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)out;
}

/* The same of what lies between −65504 and 65504, its bits up to this. */
#define SKY_F16_ORDINARY 0x477fe000
static inline uint16_t sky_f16_of_ordinary(float x) {
    uint32_t bits = sky_bits_of(x);
    float value = sky_float_of(bits & 0x7fffffff), power = sky_float_of(bits & 0x7f800000);
    power = power > 0x1p-14f ? power : 0x1p-14f;
    uint32_t sum = sky_bits_of(power * 0x1p15f + value * 4.0f);
    return (uint16_t)((bits >> 16 & 0x8000) | ((sum >> 13 & 0x7c00) + (sum & 0xfff)));
}

static inline float sky_float_of_bf16(uint16_t h) {
    return sky_float_of((uint32_t)h << 16);
}

static inline uint16_t sky_bf16_of_float(float x) {
    uint32_t bits = sky_bits_of(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000u ? bits >> 16 | 0x40 : rounded);
}

#endif
