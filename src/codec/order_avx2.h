/* Levels into another order by AVX2, up to 256 of them: from positions to channels when decoding,
 * the other way round when encoding. Only for files compiled for it.
 *
 * There is no shuffle of more than 16 bytes, so every vector looks into every unit and keeps what
 * it finds there: a quarter of the time of storing levels one by one. Low and high bytes lie apart.
 */
#ifndef SKY_CODEC_ORDER_AVX2_H
#define SKY_CODEC_ORDER_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "codec/rows.h"

#define ORDER_MAX    256u
#define ORDER_GRAIN  16u
#define ORDER_INLINE static inline __attribute__((always_inline)) /* sums stay in registers */

typedef struct {
    /* [u][i]: where in unit u of the input byte i of the output is; from 128: in another unit */
    _Alignas(32) uint8_t at[ORDER_MAX / SKY_UNIT][ORDER_MAX];
} order;

/* Shape:  from [count]: for each byte of the output where it comes from; count: a multiple of 32 */
static inline void order_init(order *o, const uint8_t *from, uint32_t count) {
    for (uint32_t u = 0; u < count / SKY_UNIT; u++)
        for (uint32_t i = 0; i < count; i += 32) {
            const __m256i all = _mm256_set1_epi8((char)(u * SKY_UNIT));
            __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(from + i)), all);
            _mm256_store_si256((__m256i *)(o->at[u] + i),
                               _mm256_adds_epu8(x, _mm256_set1_epi8(0x70)));
        }
}

static inline __m256i order_unit(const uint8_t *unit) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)unit));
}

/* Vectors of the output, from place `at` on, or'ed with what comes from begin … end. What a unit
 * holds is loaded once for all `vecs`, a constant: two loads a cycle are what it waits for. */
ORDER_INLINE void order_or(const order *o, uint32_t at, const uint8_t *in, uint32_t begin,
                           uint32_t end, uint32_t vecs, __m256i *out) {
    for (uint32_t u = begin / SKY_UNIT; u < end / SKY_UNIT; u++) {
        const __m256i *from = (const __m256i *)(const void *)(o->at[u] + at);
        __m256i x = order_unit(in + u * SKY_UNIT);
        for (uint32_t j = 0; j < vecs; j++)
            out[j] = _mm256_or_si256(out[j], _mm256_shuffle_epi8(x, from[j]));
    }
}

/* The same of two planes. */
ORDER_INLINE void order_or_two(const order *o, uint32_t at, const uint8_t *low, const uint8_t *high,
                               uint32_t begin, uint32_t end, uint32_t vecs, __m256i *out_low,
                               __m256i *out_high) {
    for (uint32_t u = begin / SKY_UNIT; u < end / SKY_UNIT; u++) {
        const __m256i *from = (const __m256i *)(const void *)(o->at[u] + at);
        __m256i x = order_unit(low + u * SKY_UNIT), y = order_unit(high + u * SKY_UNIT);
        for (uint32_t j = 0; j < vecs; j++) {
            out_low[j] = _mm256_or_si256(out_low[j], _mm256_shuffle_epi8(x, from[j]));
            out_high[j] = _mm256_or_si256(out_high[j], _mm256_shuffle_epi8(y, from[j]));
        }
    }
}

/* 64 bytes of the output. */
static inline void order_step(const order *o, uint32_t at, const uint8_t *in, uint32_t count,
                              __m256i out[2]) {
    out[0] = out[1] = _mm256_setzero_si256();
    order_or(o, at, in, 0, count, 2, out);
}

#endif
