/* Restoring two tokens by AVX-512, 32 channels at a time, so that decoding the rows of the next two
 * can do it in its pauses (rows_avx512.c). Only for files compiled for it. */
#ifndef SKY_CODEC_TRANSFORM_AVX512_H
#define SKY_CODEC_TRANSFORM_AVX512_H

#include <immintrin.h>

#include "codec/transform.h"

#define LANES 16u
/* Elements and number of tokens are constants inside: one body for each. */
#define INLINE static inline __attribute__((always_inline))

INLINE __m512 sum_of_products(__m512 a, __m512 f, __m512 b, __m512 g) {
    return _mm512_add_ps(_mm512_mul_ps(a, f), _mm512_mul_ps(b, g));
}

/* Turn sixteen angles on by two tokens. */
INLINE void turn_on(sky_transform *t, uint32_t which, uint32_t pair) {
    __m512 step_c = _mm512_load_ps(t->cosine[2] + pair), step_s = _mm512_load_ps(t->sine[2] + pair);
    __m512 c = _mm512_load_ps(t->cosine[which] + pair), s = _mm512_load_ps(t->sine[which] + pair);
    _mm512_store_ps(t->cosine[which] + pair,
                    _mm512_sub_ps(_mm512_mul_ps(c, step_c), _mm512_mul_ps(s, step_s)));
    _mm512_store_ps(t->sine[which] + pair, sum_of_products(s, step_c, c, step_s));
}

/* Heads whose first half and second half are partners, of whole vectors: 16 pairs make a chunk. */
static inline bool restores_by_chunks(const sky_transform *t) {
    bool partners = !t->rope ||
                    (t->rope->kind == SKY_ROPE_NEOX && t->rope->pair_count == t->dim / 2);
    return t->element == SKY_ELEMENT_F16 && !t->klt && t->dim % (2 * LANES) == 0 && partners;
}

/* Where restoring two tokens stands, of whose levels sums and differences are taken already. */
typedef struct {
    const int16_t (*levels)[SKY_WIDTH_MAX]; /* of each token */
    uint8_t *out[2];                        /* of the head at hand */
    uint32_t head;                          /* its first channel */
    uint32_t pair;                          /* of the head */
} chunk;

INLINE chunk first_chunk(const sky_waiting *waiting, const int16_t (*levels)[SKY_WIDTH_MAX]) {
    return (chunk){levels, {waiting->out[0], waiting->out[1]}, 0, 0};
}

INLINE void next_chunk(const sky_waiting *w, chunk *at) {
    at->pair += LANES;
    if (at->pair == w->t->dim / 2) {
        at->pair = 0;
        at->head += w->t->dim;
        at->out[0] += w->head_bytes;
        at->out[1] += w->head_bytes;
    }
}

INLINE __m512 float_of_levels(const int16_t *n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)n)));
}

INLINE void store_f16(__m512 x, uint8_t *out) {
    _mm256_storeu_si256((__m256i *)out,
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* 16 pairs of channels of token i. */
INLINE void restore_chunk(const sky_waiting *w, const chunk *at, uint32_t i, bool turned) {
    sky_transform *t = w->t;
    uint32_t half = t->dim / 2, first = at->head + at->pair, second = first + half;
    const float *g = t->scaled[0] + at->head / 2 + at->pair;
    __m512 a = float_of_levels(at->levels[i] + first), x = _mm512_set1_ps(t->scale[0]);
    __m512 b = float_of_levels(at->levels[i] + second), y = x;
    if (t->pairs) {
        x = sum_of_products(a, _mm512_loadu_ps(g), b, _mm512_loadu_ps(g + SKY_WIDTH_MAX));
        y = sum_of_products(a, _mm512_loadu_ps(g + SKY_WIDTH_MAX / 2), b,
                            _mm512_loadu_ps(g + SKY_WIDTH_MAX / 2 * 3));
    } else {
        x = _mm512_mul_ps(a, x);
        y = _mm512_mul_ps(b, y);
    }
    x = _mm512_add_ps(x, _mm512_loadu_ps(t->mean + first));
    y = _mm512_add_ps(y, _mm512_loadu_ps(t->mean + second));
    if (turned) {
        __m512 c = _mm512_load_ps(t->cosine[i] + at->pair);
        __m512 s = _mm512_load_ps(t->sine[i] + at->pair);
        a = x, b = y;
        x = _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s));
        y = sum_of_products(a, s, b, c);
    }
    store_f16(x, at->out[i] + 2 * at->pair);
    store_f16(y, at->out[i] + 2 * (at->pair + half));
}

#endif
