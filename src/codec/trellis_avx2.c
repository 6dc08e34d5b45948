/* The trellis by AVX2: what trellis.c does, eight channels at a time, every float operation in the
 * same order but those that are exact either way. A row's decisions are eight bytes, one a state,
 * of eight channels each; tracing back looks them up by state.
 *
 * Rounding is the scalar text once more, whose loop becomes vectors. */
#define sky__trellis_encode sky__trellis_encode_any_avx2
#define sky__round_encode   sky__round_encode_avx2
#include "codec/trellis.c"
#undef sky__trellis_encode

#include <immintrin.h>

#include "codec/kernels_avx2.h"

#define LANES 8u

static inline __m256 all_lanes(float x) {
    return _mm256_set1_ps(x);
}

static inline __m256 magnitude_of(__m256 x) {
    return _mm256_andnot_ps(all_lanes(-0.0f), x);
}

/* (x − offset) / 4 to nearest, ties to even. */
static inline __m256 nearest_quarter(__m256 x, __m256 offset) {
    const __m256 magic = all_lanes(12582912.0f);
    __m256 y = _mm256_mul_ps(_mm256_sub_ps(x, offset), all_lanes(0.25f));
    return _mm256_sub_ps(_mm256_add_ps(y, magic), magic);
}

/* Squared distance to 4n + c, a whole number that is exact in float. */
static inline __m256 square_to(__m256 x, __m256 n, float c) {
    __m256 d = _mm256_sub_ps(x, _mm256_add_ps(_mm256_mul_ps(n, all_lanes(4.0f)), all_lanes(c)));
    return _mm256_mul_ps(d, d);
}

/* To the nearest level of each subset, 2a + p. */
static inline void measure_eight(__m256 z, __m256 error[4]) {
    __m256 m = magnitude_of(z), zero = _mm256_cmp_ps(m, all_lanes(1.5f), _CMP_LT_OQ);
    error[0] = square_to(z, nearest_quarter(z, all_lanes(0.0f)), 0.0f);
    error[1] = square_to(z, nearest_quarter(z, all_lanes(2.0f)), 2.0f);
    error[2] = _mm256_blendv_ps(square_to(m, nearest_quarter(m, all_lanes(3.0f)), 3.0f),
                                _mm256_mul_ps(m, m), zero);
    error[3] = square_to(m, _mm256_max_ps(nearest_quarter(m, all_lanes(1.0f)), all_lanes(0.0f)),
                         1.0f);
}

/* One state's new cost, from states s and s + 1; decision: the second was better. */
#define NEXT(d, s, first, second)                                                                  \
    do {                                                                                           \
        __m256 v0 = _mm256_add_ps(cost[s], error[first]);                                          \
        __m256 v1 = _mm256_add_ps(cost[(s) + 1], error[second]);                                   \
        decision[d] = (uint8_t)_mm256_movemask_ps(_mm256_cmp_ps(v1, v0, _CMP_LT_OQ));              \
        next[d] = _mm256_min_ps(v1, v0);                                                           \
    } while (0)

static inline void step_eight(__m256 cost[8], const __m256 error[4], uint8_t *decision) {
    __m256 next[8];
    SKY_TRELLIS_STEPS(NEXT);
    for (uint32_t s = 0; s < 8; s++)
        cost[s] = next[s];
}

static inline __m256i best_of(const __m256 cost[8]) {
    __m256 best = _mm256_setzero_ps(), least = cost[0];
    for (int s = 1; s < 8; s++) {
        __m256 less = _mm256_cmp_ps(cost[s], least, _CMP_LT_OQ);
        best = _mm256_blendv_ps(best, _mm256_castsi256_ps(_mm256_set1_epi32(s)), less);
        least = _mm256_min_ps(cost[s], least);
    }
    return _mm256_castps_si256(best);
}

/* x where −1, else y. */
static inline __m256i select_lanes(__m256i where, __m256i x, __m256i y) {
    return _mm256_blendv_epi8(y, x, where);
}

/* 2k + a of the nearest level in the subsets a, p, which are −1 or 0. */
static inline __m256i level_eight(__m256 z, __m256i a, __m256i p) {
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi32(1);
    __m256 m = magnitude_of(z), x = _mm256_blendv_ps(z, m, _mm256_castsi256_ps(a));
    /* the offset is 0, 2 for a = 0 and 3, 1 for a = 1 */
    __m256i offset = _mm256_andnot_si256(p, _mm256_and_si256(a, _mm256_set1_epi32(3)));
    __m256i odd = select_lanes(a, one, _mm256_set1_epi32(2));
    offset = _mm256_or_si256(offset, _mm256_and_si256(p, odd));
    __m256i n = _mm256_cvtps_epi32(nearest_quarter(x, _mm256_cvtepi32_ps(offset)));
    /* with a: k = 2n + 1 of n at least 0, or 2n + 2 of n at least −1 */
    __m256i least = _mm256_andnot_si256(p, _mm256_set1_epi32(-1));
    n = select_lanes(a, _mm256_max_epi32(n, least), n);
    __m256i k = _mm256_sub_epi32(_mm256_add_epi32(n, n), p);
    __m256i even = _mm256_andnot_si256(p, a);
    k = _mm256_sub_epi32(k, _mm256_add_epi32(even, even));
    __m256i small = _mm256_castps_si256(_mm256_cmp_ps(m, all_lanes(1.5f), _CMP_LT_OQ));
    k = _mm256_andnot_si256(_mm256_and_si256(even, small), k);
    __m256i negative = _mm256_and_si256(a, _mm256_srai_epi32(_mm256_castps_si256(z), 31));
    k = select_lanes(negative, _mm256_sub_epi32(zero, k), k);
    return _mm256_sub_epi32(_mm256_add_epi32(k, k), a);
}

/* Bit `bit` of each word, as −1 or 0. */
static inline __m256i bit_of(__m256i x, int bit) {
    return _mm256_srai_epi32(_mm256_slli_epi32(x, 31 - bit), 31);
}

static inline void trace_eight(const float *z, uint32_t rows, size_t pitch,
                               const uint8_t *decisions, __m256i state, int16_t *packed) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i before = _mm256_setr_epi32(0, 6, 0, 6, 2, 4, 2, 4);
    for (uint32_t t = rows; t-- > 0;) {
        __m256i masks = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)(decisions + (size_t)t * LANES)));
        __m256i mask = _mm256_permutevar8x32_epi32(masks, state);
        __m256i second = _mm256_cmpeq_epi32(_mm256_and_si256(mask, lane), lane);
        __m256i parity = _mm256_xor_si256(bit_of(state, 1), second), a = bit_of(state, 0);
        __m256i level = level_eight(_mm256_loadu_ps(z + t * pitch), a, parity);
        _mm_storeu_si128(
            (__m128i *)(void *)(packed + t * pitch),
            _mm_packs_epi32(_mm256_castsi256_si128(level), _mm256_extracti128_si256(level, 1)));
        state = _mm256_sub_epi32(_mm256_permutevar8x32_epi32(before, state), second);
    }
}

void sky__trellis_encode_avx2(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                              int16_t *packed, uint8_t *decisions) {
    for (uint32_t group = 0; group < stride; group += LANES) {
        __m256 cost[8], error[4];
        for (uint32_t s = 0; s < 8; s++)
            cost[s] = all_lanes(s ? 1e30f : 0.0f);
        for (uint32_t t = 0; t < rows; t++) {
            measure_eight(_mm256_loadu_ps(z + t * pitch + group), error);
            step_eight(cost, error, decisions + (size_t)t * LANES);
        }
        trace_eight(z + group, rows, pitch, decisions, best_of(cost), packed + group);
    }
}
