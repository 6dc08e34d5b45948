/* What a token wants, by AVX2: sixteen sums in two vectors. AVX-512's set has this one
 * too. */
#include <immintrin.h>
#include <math.h>

#include "codec/kernels_avx2.h"

/* weight × (x − mean), eight times; nothing where x is no number. */
static inline __m256 wanted_terms(const int8_t *weights, const float *mean, const float *row) {
    __m256 x = _mm256_loadu_ps(row);
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    x = _mm256_and_ps(x, _mm256_cmp_ps(size, _mm256_set1_ps(1e30f), _CMP_LE_OQ));
    if (mean)
        x = _mm256_sub_ps(x, _mm256_loadu_ps(mean));
    __m256i w = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)weights));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(w), x);
}

float sky__fineness_wanted_avx2(const int8_t *weights, const float *mean, const float *row,
                                uint32_t width) {
    _Alignas(32) float sums[16];
    __m256 low = _mm256_setzero_ps(), high = low;
    float sum = 0;
    uint32_t whole = width / 16 * 16;
    for (uint32_t i = 0; i < whole; i += 16) {
        low = _mm256_add_ps(low, wanted_terms(weights + i, mean ? mean + i : NULL, row + i));
        high = _mm256_add_ps(
            high, wanted_terms(weights + i + 8, mean ? mean + i + 8 : NULL, row + i + 8));
    }
    _mm256_store_ps(sums, low);
    _mm256_store_ps(sums + 8, high);
    for (uint32_t i = whole; i < width; i++) {
        float x = fabsf(row[i]) <= 1e30f ? row[i] : 0.0f;
        sums[i - whole] += (float)weights[i] * (x - (mean ? mean[i] : 0.0f));
    }
    for (uint32_t j = 0; j < 16; j++)
        sum += sums[j];
    return sum;
}
