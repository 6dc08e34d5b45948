/* Encoding rows of levels by AVX-512: what rows.c does, the same bytes. Tables and states are laid
 * out as in rows_avx512.c.
 *
 * Two passes over a row: levels come into the coder's order and split into symbol, low bits and
 * escapes; then the states take the symbols, last step first. Dividing a state by a frequency is a
 * multiplication by floor(65536 / f) (65535 for 1), which gives the quotient or one less.
 *
 * Bytes for the stream are compressed to one end of a vector, turned to the other end and stored
 * in front of what is there: a row has room for a whole vector below every step. */
#include <immintrin.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/kernels_avx512.h"

#define STEPS_MAX (SKY_WIDTH_MAX / SKY_LANES)

/* 64 states, by position: low and high bytes. A unit's words 0 … 7 and 8 … 15 come apart by
 * unpacking. */
typedef struct {
    __m512i low;
    __m512i high;
} states;

static inline states load_states(const sky_coder *rows) {
    return (states){_mm512_load_si512(rows->state[0]), _mm512_load_si512(rows->state[1])};
}

static inline void store_states(const states *s, sky_coder *rows) {
    _mm512_store_si512(rows->state[0], s->low);
    _mm512_store_si512(rows->state[1], s->high);
}

/* Of one step. Symbols that have no slot look up what the escape has. */
typedef struct {
    __m512i freq[2]; /* by a, unit */
    __m512i start[2];
    __m512i reciprocal_low[2];
    __m512i reciprocal_high[2];
    __m512i escapes[2]; /* −1: coded as an escape */
    __m512i shift[2];   /* by position, words */
    __mmask64 silent;   /* positions of table 0 */
    uint64_t field[4];  /* by unit: low bits of eight bytes */
} step_tables;

/* Channels of 64 positions, words. */
typedef struct {
    __m512i from[2];
    __mmask32 here[STEPS_MAX][2]; /* by 64 channels: those among them */
} order_tables;

typedef struct {
    step_tables step[2][STEPS_MAX];
    order_tables order[2][STEPS_MAX];
} encode_tables;

_Static_assert(sizeof(encode_tables) <= sizeof(sky_encode_tables), "tables are too large");

/* floor(65536 / f), 65535 for 1; nothing for 0, which is not looked up. The quotient of floats is
 * rounded far from any whole number that it is not. */
static inline __m512i reciprocals_of(__m128i f) {
    __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(f));
    __m512i r = _mm512_cvttps_epi32(_mm512_div_ps(_mm512_set1_ps(65536.0f), x));
    return _mm512_min_epu32(r, _mm512_set1_epi32(65535));
}

static inline __m128i starts_of(__m128i f) {
    f = _mm_add_epi8(f, _mm_bslli_si128(f, 1));
    f = _mm_add_epi8(f, _mm_bslli_si128(f, 2));
    f = _mm_add_epi8(f, _mm_bslli_si128(f, 4));
    f = _mm_add_epi8(f, _mm_bslli_si128(f, 8));
    return _mm_bslli_si128(f, 1);
}

static void make_unit(step_tables *t, uint32_t u, uint32_t table, uint32_t shift, bool by_a) {
    const __m128i last = _mm_set1_epi8(SKY_ESCAPE);
    const __mmask16 escape = 1u << SKY_ESCAPE;
    for (uint32_t a = 0; a < (by_a ? 2 : 1); a++) {
        __m128i f = _mm_loadu_si128((const __m128i *)sky__bank[table][a]), start = starts_of(f);
        __mmask16 none = _mm_testn_epi8_mask(f, f);
        f = _mm_mask_shuffle_epi8(f, none, f, last);
        start = _mm_mask_shuffle_epi8(start, none, start, last);
        __m512i r = reciprocals_of(f);
        ((__m128i *)&t->freq[a])[u] = f;
        ((__m128i *)&t->start[a])[u] = start;
        ((__m128i *)&t->reciprocal_low[a])[u] = _mm512_cvtepi32_epi8(r);
        ((__m128i *)&t->reciprocal_high[a])[u] = _mm512_cvtepi32_epi8(_mm512_srli_epi32(r, 8));
        ((__m128i *)&t->escapes[a])[u] = _mm_movm_epi8(none | escape);
    }
    ((__m256i *)t->shift)[u] = _mm256_set1_epi16((short)shift);
    t->field[u] = 0x0101010101010101u * ((1u << shift) - 1);
    if (table == 0)
        t->silent |= (uint64_t)0xffff << 16 * u;
}

/* Words of 64 positions are looked up among 64 channels at a time. */
static void make_order(order_tables *t, const uint16_t *channel, uint32_t steps) {
    memcpy(t->from, channel, sizeof t->from);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t step = 0; step < steps; step++)
            t->here[step][i] = _mm512_cmpeq_epi16_mask(_mm512_srli_epi16(t->from[i], 6),
                                                       _mm512_set1_epi16((short)step));
}

void sky__encode_prepare_avx512(sky_encode_tables *tables, const sky_coder *rows) {
    encode_tables *all = (encode_tables *)tables;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t unit = 0; unit < sky_rows_units(rows); unit++) {
            step_tables *t = &all->step[half][unit / 4];
            if (unit % 4 == 0) {
                t->silent = 0;
                make_order(&all->order[half][unit / 4], rows->channel[half] + unit * SKY_UNIT,
                           rows->steps);
            }
            make_unit(t, unit % 4, rows->table[half][unit], rows->shift[half][unit],
                      sky_rows_by_a(rows));
        }
}

/* ---- first pass ---- */

typedef struct {
    _Alignas(64) uint8_t symbols[SKY_WIDTH_MAX];
    _Alignas(64) int16_t levels[SKY_WIDTH_MAX]; /* by position */
    __mmask64 a[STEPS_MAX];
    uint8_t low[SKY_WIDTH_MAX + 8]; /* all low bits */
} scratch;

/* Words of 32 positions, from words by channel. */
static inline __m512i reorder_row(const order_tables *t, uint32_t i, const int16_t *row,
                                  uint32_t steps) {
    const __m512i *in = (const __m512i *)row;
    __m512i out = _mm512_permutex2var_epi16(_mm512_loadu_si512(in), t->from[i],
                                            _mm512_loadu_si512(in + 1));
    for (uint32_t step = 1; step < steps; step++) {
        __m512i some = _mm512_permutex2var_epi16(_mm512_loadu_si512(in + 2 * step), t->from[i],
                                                 _mm512_loadu_si512(in + 2 * step + 1));
        out = _mm512_mask_mov_epi16(out, t->here[step][i], some);
    }
    return out;
}

static inline __m512i bytes_of_words(__m512i low, __m512i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)),
                              _mm512_cvtepi16_epi8(high), 1);
}

static inline __m512i symbols_of(__m512i k, __m512i shift) {
    __m512i u = _mm512_add_epi16(_mm512_srav_epi16(k, shift), _mm512_set1_epi16(SKY_SYMBOL_ZERO));
    return _mm512_min_epu16(u, _mm512_set1_epi16(SKY_ESCAPE));
}

/* Low bits of a step's 64 levels; returns their end. */
static inline uint8_t *put_low_bits(const step_tables *t, __m512i bytes, uint8_t *out) {
    uint64_t eight[8];
    _mm512_storeu_si512(eight, bytes);
    for (uint32_t g = 0; g < 8; g++) {
        uint64_t field = t->field[g / 2], packed = _pext_u64(eight[g], field);
        memcpy(out, &packed, 8);
        out += (uint32_t)__builtin_popcountll(field) / 8;
    }
    return out;
}

/* Levels in order, symbols and low bits; returns how many bytes those take. */
static inline size_t split_row(const sky_coder *rows, const encode_tables *t, uint32_t half,
                               const int16_t *packed, scratch *m) {
    uint8_t *low = m->low;
    bool shifted = rows->low_bytes[half] != 0;
    for (uint32_t step = 0; step < rows->steps; step++) {
        const step_tables *s = &t->step[half][step];
        const order_tables *order = &t->order[half][step];
        const __m512i one = _mm512_set1_epi16(1);
        __m512i x = reorder_row(order, 0, packed, rows->steps);
        __m512i y = reorder_row(order, 1, packed, rows->steps);
        __mmask32 ax = _mm512_test_epi16_mask(x, one), ay = _mm512_test_epi16_mask(y, one);
        x = _mm512_srai_epi16(x, 1);
        y = _mm512_srai_epi16(y, 1);
        m->a[step] = _mm512_kunpackd(ay, ax);
        _mm512_store_si512(m->levels + step * SKY_LANES, x);
        _mm512_store_si512(m->levels + step * SKY_LANES + 32, y);
        _mm512_store_si512(m->symbols + step * SKY_LANES,
                           bytes_of_words(symbols_of(x, s->shift[0]), symbols_of(y, s->shift[1])));
        if (shifted)
            low = put_low_bits(s, bytes_of_words(x, y), low);
    }
    return (size_t)(low - m->low);
}

static uint8_t *put_escapes(const scratch *m, uint32_t step, uint64_t which, uint8_t *end) {
    while (which) {
        uint32_t i = 63 - (uint32_t)__builtin_clzll(which);
        which ^= (uint64_t)1 << i;
        end -= 2;
        sky_store_u16(end, (uint16_t)m->levels[step * SKY_LANES + i]);
    }
    return end;
}

/* ---- second pass ---- */

static inline __m512i look_up(const __m512i table[2], __m512i symbol, bool by_a, __mmask64 a) {
    __m512i x = _mm512_shuffle_epi8(table[0], symbol);
    return by_a ? _mm512_mask_shuffle_epi8(x, a, table[1], symbol) : x;
}

/* x by f: the quotient, and in *rest what remains. */
static inline __m512i divide_lanes(__m512i x, __m512i f, __m512i reciprocal, __m512i *rest) {
    __m512i quotient = _mm512_mulhi_epu16(x, reciprocal);
    __m512i above = _mm512_sub_epi16(x, _mm512_mullo_epi16(quotient, f));
    *rest = _mm512_min_epu16(above, _mm512_sub_epi16(above, f));
    __m512i more = _mm512_min_epu16(_mm512_sub_epi16(above, *rest), _mm512_set1_epi16(1));
    return _mm512_add_epi16(quotient, more);
}

static inline uint8_t *encode_step(const step_tables *t, __m512i symbol, bool by_a, __mmask64 a,
                                   states *s, uint8_t *end) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i places = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41,
        40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
        17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i f = look_up(t->freq, symbol, by_a, a), start = look_up(t->start, symbol, by_a, a);
    __m512i r0 = look_up(t->reciprocal_low, symbol, by_a, a),
            r1 = look_up(t->reciprocal_high, symbol, by_a, a);
    __mmask64 full = _mm512_cmpge_epu8_mask(s->high, f) & ~t->silent;
    int count = __builtin_popcountll(full);
    __m512i bytes = _mm512_maskz_compress_epi8(full, s->low);
    bytes = _mm512_permutexvar_epi8(_mm512_add_epi8(places, _mm512_set1_epi8((char)count)), bytes);
    _mm512_storeu_si512(end - 64, bytes);
    __m512i low = _mm512_mask_mov_epi8(s->low, full, s->high);
    __m512i high = _mm512_mask_mov_epi8(s->high, full, zero), rest_x, rest_y;
    __m512i x = divide_lanes(_mm512_unpacklo_epi8(low, high), _mm512_unpacklo_epi8(f, zero),
                             _mm512_unpacklo_epi8(r0, r1), &rest_x);
    __m512i y = divide_lanes(_mm512_unpackhi_epi8(low, high), _mm512_unpackhi_epi8(f, zero),
                             _mm512_unpackhi_epi8(r0, r1), &rest_y);
    low = _mm512_add_epi8(_mm512_packus_epi16(rest_x, rest_y), start);
    s->low = _mm512_mask_mov_epi8(low, t->silent, s->low);
    s->high = _mm512_mask_mov_epi8(_mm512_packus_epi16(x, y), t->silent, s->high);
    return end - count;
}

static inline uint8_t *encode_row(sky_coder *rows, const encode_tables *t, uint32_t half,
                                  const int16_t *packed, bool by_a, uint8_t *end) {
    scratch m;
    size_t low_bytes = split_row(rows, t, half, packed, &m);
    for (uint32_t step = rows->steps; step-- > 0;) {
        const step_tables *s = &t->step[half][step];
        __m512i symbol = _mm512_load_si512(m.symbols + step * SKY_LANES);
        __mmask64 escapes = _mm512_movepi8_mask(look_up(s->escapes, symbol, by_a, m.a[step]));
        end = put_escapes(&m, step, escapes & ~s->silent, end);
    }
    states x = load_states(rows);
    for (uint32_t step = rows->steps; step-- > 0;)
        end = encode_step(&t->step[half][step], _mm512_load_si512(m.symbols + step * SKY_LANES),
                          by_a, m.a[step], &x, end);
    store_states(&x, rows);
    end -= low_bytes;
    memcpy(end, m.low, low_bytes);
    return end;
}

uint8_t *sky__row_encode_avx512(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                                const int16_t *packed, uint8_t *end) {
    const encode_tables *t = (const encode_tables *)tables;
    return sky_rows_by_a(rows) ? encode_row(rows, t, half, packed, true, end)
                               : encode_row(rows, t, half, packed, false, end);
}

/* ---- quantising by rounding ---- */

void sky__round_encode_avx512(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                              int16_t *packed) {
    const __m512 half = _mm512_set1_ps(0.5f);
    for (uint32_t t = 0; t < rows; t++, z += pitch, packed += pitch)
        for (uint32_t i = 0; i < stride; i += 16) {
            __m512i k = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(z + i), half));
            _mm256_storeu_si256((__m256i *)(packed + i),
                                _mm512_cvtepi32_epi16(_mm512_add_epi32(k, k)));
        }
}
