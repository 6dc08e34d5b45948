/* What a unit costs under each class of a shift, by AVX2: one multiplication of pairs, counts of
 * both a's by their bits, for eight tables. Counts and bits are below 2^15, and the sums, no more
 * than 2^15 symbols of 24 bits × 1024, below 2^31. */
#include <immintrin.h>

#include "codec/kernels_avx2.h"

#define TABLES 8u /* of a vector */

/* Shape: bits [SKY_SYMBOLS][tables][2]; cost [tables]; `tables` is known where this is inlined */
static inline __attribute__((always_inline)) void add_symbols(const sky_histogram *h,
                                                              const int16_t *bits, uint32_t tables,
                                                              uint32_t more, uint64_t *cost) {
    __m256i sums[SKY_BANK_NARROW / TABLES];
    for (uint32_t v = 0; v < tables / TABLES; v++)
        sums[v] = _mm256_set1_epi32((int32_t)more);
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
        uint32_t counts = h->count[0][s] | h->count[1][s] << 16;
        const __m256i *from = (const __m256i *)(bits + (size_t)s * tables * 2);
        if (counts == 0)
            continue;
        for (uint32_t v = 0; v < tables / TABLES; v++)
            sums[v] = _mm256_add_epi32(
                sums[v], _mm256_madd_epi16(_mm256_set1_epi32((int32_t)counts), from[v]));
    }
    for (uint32_t v = 0; v < tables / TABLES; v++) {
        __m256i *to = (__m256i *)(cost + (size_t)v * TABLES);
        _mm256_storeu_si256(to, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(sums[v])));
        _mm256_storeu_si256(to + 1, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(sums[v], 1)));
    }
}

void sky__classes_costs_avx2(const sky_histogram *h, uint32_t shift, uint64_t *cost) {
    const sky_bank_bits *bits = &sky__bank_bits;
    uint64_t all = 0;
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
        all += h->count[0][s] + (uint64_t)h->count[1][s];
    if (all > INT16_MAX) {
        sky__classes_costs(h, shift, cost);
        return;
    }
    if (shift) {
        add_symbols(h, bits->wide[0][0], SKY_BANK_WIDE, (uint32_t)all * shift * 1024, cost);
        return;
    }
    add_symbols(h, bits->narrow[0][0], SKY_BANK_NARROW, 0, cost);
    cost[0] = h->count[0][SKY_SYMBOL_ZERO] + h->count[1][SKY_SYMBOL_ZERO] < all ? SKY_COST_NEVER
                                                                                : 0;
}
