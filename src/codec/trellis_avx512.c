/* The trellis by AVX-512: what trellis.c does, sixteen channels at a time. A row's decisions are
 * kept as eight masks of sixteen channels, one a state; tracing back looks them up by state.
 *
 * Whole numbers up to 2^24 times 4 are exact in float, so that the fused operations here round as
 * the separate ones there. */
#include <immintrin.h>

#include "codec/kernels_avx512.h"

#define N SKY_LANE_GROUP

static inline __m512 all_lanes(float x) {
    return _mm512_set1_ps(x);
}

/* (x − offset) / 4 to nearest, ties to even. */
static inline __m512 nearest_quarter(__m512 x, __m512 offset) {
    const __m512 magic = all_lanes(12582912.0f);
    __m512 y = _mm512_mul_ps(_mm512_sub_ps(x, offset), all_lanes(0.25f));
    return _mm512_sub_ps(_mm512_add_ps(y, magic), magic);
}

/* Squared distance to 4n + c. */
static inline __m512 square_to(__m512 x, __m512 n, float c) {
    __m512 d = _mm512_sub_ps(x, _mm512_fmadd_ps(n, all_lanes(4.0f), all_lanes(c)));
    return _mm512_mul_ps(d, d);
}

/* To the nearest level of each subset, 2a + p. */
static inline void measure_errors(__m512 z, __m512 error[4]) {
    __m512 m = _mm512_abs_ps(z), odd = nearest_quarter(m, all_lanes(1.0f));
    error[0] = square_to(z, nearest_quarter(z, all_lanes(0.0f)), 0.0f);
    error[1] = square_to(z, nearest_quarter(z, all_lanes(2.0f)), 2.0f);
    __mmask16 zero = _mm512_cmp_ps_mask(m, all_lanes(1.5f), _CMP_LT_OQ);
    error[2] = _mm512_mask_mul_ps(square_to(m, nearest_quarter(m, all_lanes(3.0f)), 3.0f), zero, m,
                                  m);
    error[3] = square_to(m, _mm512_max_ps(odd, all_lanes(0.0f)), 1.0f);
}

/* One state's new cost, from states s and s + 1; decision: the second was better. */
#define NEXT(d, s, first, second)                                                                  \
    do {                                                                                           \
        __m512 v0 = _mm512_add_ps(cost[s], error[first]);                                          \
        __m512 v1 = _mm512_add_ps(cost[(s) + 1], error[second]);                                   \
        decision[d] = (uint16_t)_mm512_cmp_ps_mask(v1, v0, _CMP_LT_OQ);                            \
        next[d] = _mm512_min_ps(v1, v0);                                                           \
    } while (0)

static inline void step_costs(__m512 cost[8], const __m512 error[4], uint16_t *decision) {
    __m512 next[8];
    SKY_TRELLIS_STEPS(NEXT);
    for (uint32_t s = 0; s < 8; s++)
        cost[s] = next[s];
}

static inline __m512i best_of(const __m512 cost[8]) {
    __m512i best = _mm512_setzero_si512();
    __m512 least = cost[0];
    for (uint32_t s = 1; s < 8; s++) {
        __mmask16 less = _mm512_cmp_ps_mask(cost[s], least, _CMP_LT_OQ);
        best = _mm512_mask_mov_epi32(best, less, _mm512_set1_epi32((int32_t)s));
        least = _mm512_min_ps(cost[s], least);
    }
    return best;
}

/* 2k + a of the nearest level in the subsets a, p. */
static inline __m512i level_of(__m512 z, __mmask16 a, __mmask16 p) {
    __m512 m = _mm512_abs_ps(z), x = _mm512_mask_mov_ps(z, a, m);
    __m512 offset = _mm512_maskz_mov_ps(a | p, all_lanes(2.0f)); /* 0, 2 │ 3, 1 */
    offset = _mm512_mask_add_ps(offset, a & ~p, offset, all_lanes(1.0f));
    offset = _mm512_mask_sub_ps(offset, a & p, offset, all_lanes(1.0f));
    __m512 n = nearest_quarter(x, offset);
    n = _mm512_mask_max_ps(n, a, n, _mm512_maskz_mov_ps(~p, all_lanes(-1.0f)));
    __m512i k = _mm512_cvtps_epi32(n);
    k = _mm512_add_epi32(k, k);
    k = _mm512_mask_add_epi32(k, p, k, _mm512_set1_epi32(1));
    k = _mm512_mask_add_epi32(k, a & ~p, k, _mm512_set1_epi32(2));
    __mmask16 zero = a & ~p & _mm512_cmp_ps_mask(m, all_lanes(1.5f), _CMP_LT_OQ);
    k = _mm512_mask_mov_epi32(k, zero, _mm512_setzero_si512());
    __mmask16 negative = a & _mm512_movepi32_mask(_mm512_castps_si512(z));
    k = _mm512_mask_sub_epi32(k, negative, _mm512_setzero_si512(), k);
    k = _mm512_add_epi32(k, k);
    return _mm512_mask_add_epi32(k, a, k, _mm512_set1_epi32(1));
}

static inline void trace_back(const float *z, uint32_t rows, size_t pitch,
                              const uint16_t *decisions, __m512i state, int16_t *packed) {
    const __m512i lane = _mm512_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                           8192, 16384, 32768);
    const __m512i before = _mm512_setr_epi32(0, 6, 0, 6, 2, 4, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
    for (uint32_t t = rows; t-- > 0;) {
        __m512i masks = _mm512_broadcast_i32x4(
            _mm_loadu_si128((const __m128i *)(decisions + (size_t)t * 8)));
        __mmask16 second = _mm512_test_epi32_mask(_mm512_permutexvar_epi16(state, masks), lane);
        __mmask16 parity = _mm512_test_epi32_mask(state, two) ^ second;
        __mmask16 a = _mm512_test_epi32_mask(state, one);
        __m512i level = level_of(_mm512_loadu_ps(z + t * pitch), a, parity);
        _mm256_storeu_si256((__m256i *)(packed + t * pitch), _mm512_cvtepi32_epi16(level));
        state = _mm512_permutexvar_epi32(state, before);
        state = _mm512_mask_add_epi32(state, second, state, one);
    }
}

void sky__trellis_encode_avx512(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                                int16_t *packed, uint8_t *decisions) {
    uint16_t *masks = (uint16_t *)decisions;
    for (uint32_t group = 0; group < stride; group += N) {
        __m512 cost[8], error[4];
        for (uint32_t s = 0; s < 8; s++)
            cost[s] = all_lanes(s ? 1e30f : 0.0f);
        for (uint32_t t = 0; t < rows; t++) {
            measure_errors(_mm512_loadu_ps(z + t * pitch + group), error);
            step_costs(cost, error, masks + (size_t)t * 8);
        }
        trace_back(z + group, rows, pitch, masks, best_of(cost), packed + group);
    }
}
