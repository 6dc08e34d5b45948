/* What decoding rows by AVX-512 makes of a tile before its first row (rows_decode_avx512.h), four
 * units, a step's, at a time. */
#include <string.h>

#include "codec/kernels_avx512.h"
#include "codec/rows_decode_avx512.h"

static inline __m512i in_units(__m128i x) {
    return _mm512_broadcast_i32x4(x);
}

/* Numbers, by label. */
static inline __m128i lane_numbers(void) {
    return _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
}

/* ---- the search's ---- */

/* Of four tables by number; signs, which end with symbol 10, turned so that this is number 15. */
static inline __m512i frequencies_of(const uint8_t *tables, uint32_t a, bool signs) {
    __m512i f = _mm512_castsi128_si512(_mm_loadu_si128((const void *)sky__bank[tables[0]][a]));
    f = _mm512_inserti32x4(f, _mm_loadu_si128((const void *)sky__bank[tables[1]][a]), 1);
    f = _mm512_inserti32x4(f, _mm_loadu_si128((const void *)sky__bank[tables[2]][a]), 2);
    f = _mm512_inserti32x4(f, _mm_loadu_si128((const void *)sky__bank[tables[3]][a]), 3);
    return signs ? _mm512_alignr_epi8(f, f, 11) : f;
}

/* Starts from frequencies: sums of those before, in each unit. */
static inline __m512i starts_of(__m512i f) {
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 1));
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 2));
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 4));
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 8));
    return _mm512_bslli_epi128(f, 1);
}

/* By index, from by label: those at `at`, which says them for a = 0 and, 4 further, for a = 1. */
static inline __m512i by_index(const __m512i start[2], a_bit a_is, __m128i at) {
    __m512i from = in_units(at), even = _mm512_shuffle_epi8(start[0], from);
    return a_is == A_ZERO ? even
                          : _mm512_mask_shuffle_epi8(even, 0xf0f0f0f0f0f0f0f0u, start[1], from);
}

static inline void make_starts(step_tables *t, const uint8_t *tables, a_bit a_is, bool signs) {
    const __m128i odd = _mm_setr_epi8(4, 5, 6, 7, 4, 5, 6, 7, 12, 13, 14, 15, 12, 13, 14, 15);
    const __m128i middle = _mm_setr_epi8(1, 1, 3, 3, 1, 1, 3, 3, 9, 9, 11, 11, 9, 9, 11, 11);
    const __m128i quarter = _mm_setr_epi8(2, 2, 2, 2, 2, 2, 2, 2, 10, 10, 10, 10, 10, 10, 10, 10);
    __m512i biased[2];
    for (uint32_t a = 0; a < (a_is == A_ZERO ? 1 : 2); a++) {
        __m512i f = frequencies_of(tables, a, signs), label = in_units(lane_numbers());
        t->start[a] = _mm512_shuffle_epi8(starts_of(f), label);
        f = _mm512_shuffle_epi8(f, label);
        t->factor[a] = a_is == A_ZERO ? f : _mm512_sub_epi8(_mm512_setzero_si512(), f);
        biased[a] = _mm512_xor_si512(t->start[a], _mm512_set1_epi8(-128));
    }
    t->odd = by_index(biased, a_is, odd);
    t->middle = by_index(biased, a_is, middle);
    if (a_is == A_ZERO) {
        t->first[0] = _mm512_shuffle_epi8(biased[0], _mm512_set1_epi8(2));
        t->first[1] = _mm512_shuffle_epi8(biased[0], _mm512_set1_epi8(8));
        t->first[2] = _mm512_shuffle_epi8(biased[0], _mm512_set1_epi8(10));
    } else {
        t->first[0] = by_index(biased, a_is, _mm_set1_epi8(8));
        t->first[1] = by_index(biased, a_is, quarter);
    }
}

/* ---- levels ---- */

/* Four numbers, one for each unit, everywhere in it. */
static inline __m512i of_units(const uint8_t *four) {
    const __m512i unit = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi8(0), _mm_set1_epi8(1))),
        _mm256_setr_m128i(_mm_set1_epi8(2), _mm_set1_epi8(3)), 1);
    int32_t x;
    memcpy(&x, four, sizeof x);
    return _mm512_shuffle_epi8(_mm512_set1_epi32(x), unit);
}

static inline __m512i bytes_of(__m512i low, __m512i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)),
                              _mm512_cvtepi16_epi8(high), 1);
}

/* What symbols stand for, as words shifted by `shift`. Table 0 finds 15 always, which is 0. */
static inline void make_levels(step_tables *t, __m512i table, __m512i shift, a_bit a_is,
                               bool signs) {
    const __m512i escaped = _mm512_set1_epi16(a_is == A_ZERO ? ESCAPED : ESCAPED_BY_A);
    __m128i symbols = _mm_sub_epi8(lane_numbers(), _mm_set1_epi8(signs ? 12 : SKY_SYMBOL_ZERO));
    __m512i level[2], of_two = _mm512_cvtepi8_epi16(_mm256_broadcastsi128_si256(symbols));
    uint64_t coded = _mm512_test_epi8_mask(table, table);
    uint64_t escapes = signs ? 0 : coded & 0x8000800080008000u;
    for (uint32_t i = 0; i < 2; i++) {
        __m512i by = _mm512_cvtepu8_epi16(i ? _mm512_extracti64x4_epi64(shift, 1)
                                            : _mm512_castsi512_si256(shift));
        level[i] = _mm512_maskz_sllv_epi16((__mmask32)(coded >> 32 * i), of_two, by);
        level[i] = _mm512_mask_mov_epi16(level[i], (__mmask32)(escapes >> 32 * i), escaped);
    }
    t->level = bytes_of(level[0], level[1]);
    t->level_high = bytes_of(_mm512_srli_epi16(level[0], 8), _mm512_srli_epi16(level[1], 8));
}

/* Fields of `width` bits. */
static inline void make_fields(step_tables *t, const uint8_t *widths) {
    const uint8_t before[4] = {0, (uint8_t)(2 * widths[0]), (uint8_t)(2 * (widths[0] + widths[1])),
                               (uint8_t)(2 * (widths[0] + widths[1] + widths[2]))};
    __m512i width = of_units(widths), from;
    const __m512i place = _mm512_set1_epi64(0x0706050403020100);
    const __m128i masks = _mm_setr_epi8(0, 1, 3, 7, 15, 31, 63, 127, -1, 0, 0, 0, 0, 0, 0, 0);
    __m512i two = _mm512_add_epi8(width, width), four = _mm512_add_epi8(two, two);
    __m512i at = _mm512_maskz_mov_epi8(0xaaaaaaaaaaaaaaaau, width);
    at = _mm512_mask_add_epi8(at, 0xccccccccccccccccu, at, two);
    at = _mm512_mask_add_epi8(at, 0xf0f0f0f0f0f0f0f0u, at, four);
    from = _mm512_add_epi8(of_units(before), place);
    t->field_from = _mm512_mask_add_epi8(from, 0xff00ff00ff00ff00u, from, width);
    t->fields = _mm512_test_epi8_mask(width, width);
    t->field_shift = at;
    t->field_mask = _mm512_shuffle_epi8(in_units(masks), width);
}

/* Lossless half 1. */
static inline void make_signs(step_tables *t, uint32_t shift) {
    __m128i symbols = _mm_sub_epi8(lane_numbers(), _mm_set1_epi8(12));
    __m128i sign = _mm_and_si128(symbols, _mm_set1_epi8(4));
    __m128i mantissa = _mm_and_si128(symbols, _mm_set1_epi8(3));
    sign = _mm_slli_epi16(_mm_xor_si128(sign, _mm_set1_epi8(4)), 5);
    t->signs = in_units(_mm_or_si128(sign, _mm_slli_epi16(mantissa, shift < 8 ? 5 : 0)));
}

/* Bits of the steps that have a shift above `most`. */
static inline uint8_t steps_above(const sky_coder *rows, uint32_t half, uint32_t most) {
    uint32_t steps = 0;
    for (uint32_t unit = 0; unit < sky_rows_units(rows); unit++)
        steps |= (uint32_t)(rows->shift[half][unit] > most) << unit / 4;
    return (uint8_t)steps;
}

/* Half steps need a bit more than steps, which plain rows are of. */
static inline uint8_t wide_steps(const sky_coder *rows, uint32_t half, a_bit a_is) {
    return rows->exact && half ? UINT8_MAX : steps_above(rows, half, a_is == A_ZERO ? 4 : 3);
}

static inline void make_steps(decode_tables *all, const sky_coder *rows, uint32_t half,
                              a_bit a_is) {
    bool signs = rows->exact && half;
    uint32_t low_at = 0;
    all->wide[half] = wide_steps(rows, half, a_is);
    for (uint32_t step = 0; step < rows->steps; step++) {
        step_tables *t = &all->step[half][step];
        const uint8_t *tables = &rows->table[half][4 * step],
                      *shifts = &rows->shift[half][4 * step];
        make_starts(t, tables, a_is, signs);
        make_levels(t, of_units(tables), of_units(shifts), a_is, signs);
        make_fields(t, shifts);
        if (signs)
            make_signs(t, shifts[0]);
        t->wide = all->wide[half] >> step & 1;
        t->low_at = low_at;
        uint32_t low_bytes = 2u * ((uint32_t)shifts[0] + shifts[1] + shifts[2] + shifts[3]);
        t->few_bytes = low_bytes <= 32;
        low_at += low_bytes;
    }
}

/* ---- the order of channels ---- */

/* Unpacking makes words of every other eight channels, from the other half of a vector each. */
static inline void make_order(order_tables *orders, const sky_coder *rows, uint32_t half) {
    const __m512i eights = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const uint16_t *place = rows->place[half];
    for (uint32_t step = 0; step < rows->steps; step++, place += SKY_LANES) {
        __m512i x = _mm512_loadu_si512(place), y = _mm512_loadu_si512(place + 32);
        __m512i above = bytes_of(_mm512_srli_epi16(x, 8), _mm512_srli_epi16(y, 8));
        above = _mm512_permutexvar_epi64(eights, above);
        orders[step].from = _mm512_permutexvar_epi64(eights, bytes_of(x, y));
        orders[step].odd = _mm512_movepi8_mask(orders[step].from);
        orders[step].high = _mm512_test_epi8_mask(above, above);
    }
}

void sky__decode_prepare_avx512(sky_tables *tables, const sky_coder *rows) {
    decode_tables *all = (decode_tables *)tables;
    for (uint32_t half = 0; half < 2; half++) {
        if (a_of(rows) == A_ZERO)
            make_steps(all, rows, half, A_ZERO);
        else
            make_steps(all, rows, half, a_of(rows));
        make_order(all->order[half], rows, half);
    }
}
