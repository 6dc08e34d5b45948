/* Choosing classes by AVX-512: what classes.c does. */
#include <immintrin.h>

#include "codec/kernels_avx512.h"

/* By channel: the least level a class has a symbol for, how many from there on, both as 2k + a; and
 * whether it has one symbol only. */
typedef struct {
    _Alignas(64) int16_t least[SKY_WIDTH_MAX];
    _Alignas(64) uint16_t span[SKY_WIDTH_MAX];
    _Alignas(64) uint16_t silent[SKY_WIDTH_MAX];
} bounds;

static void bound(const sky_coder *rows, uint32_t half, bounds *b) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++) {
        uint32_t unit = i / SKY_UNIT, channel = rows->channel[half][i];
        uint32_t shift = rows->shift[half][unit];
        bool silent = rows->table[half][unit] == 0;
        b->least[channel] = silent ? 0 : (int16_t) - (14 << shift);
        b->span[channel] = silent ? 1 : (uint16_t)((30 << shift) - 1);
        b->silent[channel] = silent ? 0xffff : 0;
    }
}

bool sky__classes_misfit_avx512(const sky_coder *rows, uint32_t half, const sky_levels *levels) {
    bounds b;
    uint64_t escapes = 0;
    uint32_t padded = rows->steps * SKY_LANES;
    bound(rows, half, &b);
    for (uint32_t i = 0; i < padded; i += 32) {
        __m512i least = _mm512_load_si512(b.least + i), span = _mm512_load_si512(b.span + i);
        __m512i silent = _mm512_load_si512(b.silent + i);
        __mmask32 wrong = 0, alone = _mm512_test_epi16_mask(silent, silent);
        for (uint32_t t = 0; t < levels->rows; t++) {
            __m512i x = _mm512_loadu_si512(levels->packed + t * levels->pitch + i);
            __mmask32 out = _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(x, least), span);
            escapes += (uint32_t)__builtin_popcount(out);
            wrong |= out;
        }
        if (wrong & alone)
            return true;
    }
    return escapes * 64 > (uint64_t)levels->rows * rows->width;
}
