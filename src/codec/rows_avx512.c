/* Rows of levels by AVX-512 (VBMI, VBMI2, GFNI): what rows.c does, the same bytes.
 *
 * A step of 64 symbols is a vector of bytes; a unit of 16 channels is one 128-bit lane of it, so a
 * table of 16 entries is looked up by vpshufb, each unit in its own. The 64 states are two vectors
 * too, their low bytes (the slots) and their high bytes.
 *
 * A slot's symbol is the number of starts it has reached, found in two rounds of three comparisons:
 * which quarter of the 16 symbols, then which symbol of the quarter. The trellis' bit a is bit 2 of
 * the index of every small table. Comparisons are subtractions that saturate: a vector compared
 * into a mask and back costs 7 cycles, this 4, and decoding is one long chain from state to state:
 *
 *   slot ─► quarter 5 ─► starts 2 ─► symbol 5 ─► frequency 3 ─► times, minus 5 ─► apart 3
 *        ─► below 256? 6 ─► byte from the stream 8 ─► slot                        about 37 cycles
 *
 * Frequencies are kept as 256 − f: the new state is (high, rest) as a word, minus that times high,
 * and 256, of the table that knows one symbol only, is 0. */
#include "codec/rows_avx512.h"
#include "base/bytes.h"
#include "codec/exact.h"
#include "codec/kernels_avx512.h"

/* What one step of 64 positions looks up. */
typedef struct {
    __m512i quarter[3]; /* by unit: [4a] start of symbol 4 (j + 1) */
    __m512i third[3];   /* by unit: [4a + i] start of symbol 4i + 1 + j */
    __m512i less[2];    /* by a, unit: 256 − frequency */
    __m512i start[2];
    __m512i symbol_max; /* by unit: 7 for table 0, which finds 15; 10 for signs; else 15 */
    __m512i level;      /* by unit: (symbol − 7) << shift, its low byte, which may be all of it */
    __m512i level_high; /* and its high byte */
    __m512i field_shift; /* where in its 8 bytes a field begins */
    __m512i field_mask;
    __mmask64 field_bytes;
    uint32_t low_at; /* of the row's low bits */
} step_tables;

/* Where channels come from: a position's low 8 bits, and its bit 8. */
typedef struct {
    __m512i from;
    __mmask64 high;
} order_tables;

typedef struct {
    step_tables step[2][STEPS_MAX];
    order_tables order[2][STEPS_MAX];
    bool wide[2]; /* some level may not fit a byte */
} decode_tables;

_Static_assert(sizeof(decode_tables) <= sizeof(sky_tables), "tables are too large");

/* What bit a is, of the trellis or of lossless tables. */
typedef enum { A_ZERO, A_GIVEN, A_STEPPED } a_bit;

static inline a_bit a_of(const sky_coder *rows) {
    return !rows->plain ? A_STEPPED : rows->exact ? A_GIVEN : A_ZERO;
}

/* ---- tables ---- */

static inline __m512i units_of(const uint8_t *const rows[4]) {
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)rows[0]));
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)rows[1]), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)rows[2]), 2);
    return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)rows[3]), 3);
}

static inline __m512i in_units(__m128i x) {
    return _mm512_broadcast_i32x4(x);
}

/* Starts from frequencies: sums of those before, in each unit. */
static inline __m512i starts_of(__m512i f) {
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 1));
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 2));
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 4));
    f = _mm512_add_epi8(f, _mm512_bslli_epi128(f, 8));
    return _mm512_bslli_epi128(f, 1);
}

/* Four bytes of a = 0's starts, then four of a = 1's, in each unit. */
static inline __m512i gather_starts(const __m512i start[2], int b0, int b1, int b2, int b3) {
    const __m128i four = _mm_setr_epi8((char)b0, (char)b1, (char)b2, (char)b3, -1, -1, -1, -1, -1,
                                       -1, -1, -1, -1, -1, -1, -1);
    __m512i even = _mm512_shuffle_epi8(start[0], in_units(four));
    __m512i odd = _mm512_shuffle_epi8(start[1], in_units(_mm_bslli_si128(four, 4)));
    return _mm512_mask_blend_epi8(0x00f000f000f000f0u, even, odd);
}

/* Tables of signs end with symbol 10 and slot 255: what lies beyond begins at 256, which is no
 * byte. It begins at 255 instead, and symbol 15, which slot 255 then makes, stands for 10. */
static void make_symbols(step_tables *t, const uint8_t *tables, a_bit a_is) {
    const __m512i ten = _mm512_set1_epi8(10);
    __mmask64 beyond = 0, last;
    for (uint32_t u = 0; u < 4; u++)
        if (tables[u] >= SKY_BANK_EXACT + SKY_EXACT_TABLES)
            beyond |= (uint64_t)0xf800 << 16 * u;
    last = beyond & 0x8000800080008000u;
    for (uint32_t a = 0; a < 2; a++) {
        const uint8_t *rows[4];
        for (uint32_t u = 0; u < 4; u++)
            rows[u] = sky__bank[tables[u]][a];
        __m512i f = units_of(rows);
        t->less[a] = _mm512_sub_epi8(_mm512_setzero_si512(), f);
        t->less[a] = _mm512_mask_shuffle_epi8(t->less[a], last, t->less[a], ten);
        t->start[a] = _mm512_mask_mov_epi8(starts_of(f), beyond, _mm512_set1_epi8(-1));
    }
    for (int j = 0; j < 3; j++) { /* without trellis the index is left out */
        const __m512i four = _mm512_set1_epi8((char)(4 * (j + 1)));
        t->quarter[j] = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(t->start[0], four),
                                                 a_is == A_ZERO ? 0 : 0x00f000f000f000f0u,
                                                 t->start[1], four);
    }
    t->third[0] = gather_starts(t->start, 1, 5, 9, 13);
    t->third[1] = gather_starts(t->start, 2, 6, 10, 14);
    t->third[2] = gather_starts(t->start, 3, 7, 11, 15);
    for (uint32_t a = 0; a < 2; a++)
        t->start[a] = _mm512_mask_shuffle_epi8(t->start[a], last, t->start[a], ten);
}

/* Unit `u` of the step. */
static void make_fields(step_tables *t, uint32_t u, uint32_t table, uint32_t r) {
    const __m128i symbols = _mm_setr_epi8(-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    const uint64_t ramp = 0x0706050403020100u, bytes = ((uint64_t)1 << r) - 1;
    __m256i shift = _mm256_set1_epi16((short)r);
    __m256i level = _mm256_sllv_epi16(_mm256_cvtepi8_epi16(symbols), shift);
    ((__m128i *)&t->level)[u] = _mm256_cvtepi16_epi8(level);
    ((__m128i *)&t->field_shift)[u] = _mm_set1_epi64x((long long)(ramp * r));
    ((__m128i *)&t->field_mask)[u] = _mm_set1_epi8((char)((1u << r) - 1));
    ((__m128i *)&t->level_high)[u] = _mm256_cvtepi16_epi8(_mm256_srli_epi16(level, 8));
    t->field_bytes |= bytes * 0x101 << 16 * u;
    ((__m128i *)&t->symbol_max)[u] = _mm_set1_epi8(table == 0 ? SKY_SYMBOL_ZERO
                                                   : table >= SKY_BANK_EXACT + SKY_EXACT_TABLES
                                                       ? 10
                                                       : SKY_ESCAPE);
}

static void make_order(order_tables *orders, const sky_coder *rows, uint32_t half) {
    uint8_t from[SKY_WIDTH_MAX], high[SKY_WIDTH_MAX];
    uint32_t count = rows->steps * SKY_LANES;
    for (uint32_t i = 0; i < count; i++) {
        from[rows->channel[half][i]] = (uint8_t)i;
        high[rows->channel[half][i]] = (uint8_t)(i >> 8);
    }
    for (uint32_t step = 0; step < rows->steps; step++) {
        orders[step].from = _mm512_loadu_si512(from + step * SKY_LANES);
        __m512i h = _mm512_loadu_si512(high + step * SKY_LANES);
        orders[step].high = _mm512_test_epi8_mask(h, h);
    }
}

void sky__decode_prepare_avx512(sky_tables *tables, const sky_coder *rows) {
    decode_tables *all = (decode_tables *)tables;
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t low_at = 0;
        all->wide[half] = false;
        for (uint32_t unit = 0; unit < sky_rows_units(rows); unit++) {
            step_tables *t = &all->step[half][unit / 4];
            uint32_t table = rows->table[half][unit], r = rows->shift[half][unit];
            if (unit % 4 == 0) {
                make_symbols(t, &rows->table[half][unit], a_of(rows));
                t->low_at = low_at;
                t->field_bytes = 0;
            }
            make_fields(t, unit % 4, table, r);
            low_at += 2 * r;
            all->wide[half] |= r > 3 || (rows->exact && half);
        }
        make_order(all->order[half], rows, half);
    }
}

/* ---- first pass: states to symbols ---- */

/* 1 where x < start, else 0. */
static inline __m512i below(__m512i x, __m512i start) {
    return _mm512_min_epu8(_mm512_subs_epu8(start, x), _mm512_set1_epi8(1));
}

/* How many of three starts x has reached, onto `base`. */
static inline __m512i reached(__m512i x, __m512i s0, __m512i s1, __m512i s2, __m512i base) {
    __m512i two = _mm512_add_epi8(below(x, s0), below(x, s1));
    __m512i rest = _mm512_sub_epi8(_mm512_add_epi8(base, _mm512_set1_epi8(3)), below(x, s2));
    return _mm512_sub_epi8(rest, two);
}

/* The symbols of a step; *s becomes the states after them, without the bytes from the stream. */
static inline __m512i decode_step(const step_tables *t, __m512i trellis, a_bit a_is, states *s) {
    const __m512i bytes = _mm512_set1_epi16(0x00ff), zero = _mm512_setzero_si512();
    const bool tables = a_is != A_ZERO;
    __m512i a4 = tables ? _mm512_and_si512(trellis, _mm512_set1_epi8(4)) : zero, slot = s->low;
    __mmask64 a = tables ? _mm512_test_epi8_mask(a4, a4) : 0;
    __m512i quarter[3];
    for (int j = 0; j < 3; j++)
        quarter[j] = tables ? _mm512_shuffle_epi8(t->quarter[j], a4) : t->quarter[j];
    __m512i at = reached(slot, quarter[0], quarter[1], quarter[2], a4);
    __m512i symbol = reached(slot, _mm512_shuffle_epi8(t->third[0], at),
                             _mm512_shuffle_epi8(t->third[1], at),
                             _mm512_shuffle_epi8(t->third[2], at), _mm512_slli_epi16(at, 2));
    __m512i less = _mm512_shuffle_epi8(t->less[0], symbol);
    __m512i start = _mm512_shuffle_epi8(t->start[0], symbol);
    if (tables) {
        less = _mm512_mask_blend_epi8(a, less, _mm512_shuffle_epi8(t->less[1], symbol));
        start = _mm512_mask_blend_epi8(a, start, _mm512_shuffle_epi8(t->start[1], symbol));
    }
    __m512i rest = _mm512_sub_epi8(slot, start);
    __m512i x = _mm512_unpacklo_epi8(rest, s->high), y = _mm512_unpackhi_epi8(rest, s->high);
    x = _mm512_sub_epi16(
        x, _mm512_mullo_epi16(_mm512_srli_epi16(x, 8), _mm512_unpacklo_epi8(less, zero)));
    y = _mm512_sub_epi16(
        y, _mm512_mullo_epi16(_mm512_srli_epi16(y, 8), _mm512_unpackhi_epi8(less, zero)));
    s->high = _mm512_packus_epi16(_mm512_srli_epi16(x, 8), _mm512_srli_epi16(y, 8));
    s->low = _mm512_packus_epi16(_mm512_and_si512(x, bytes), _mm512_and_si512(y, bytes));
    return symbol;
}

/* A byte for every state below 256. */
static inline const uint8_t *refill(states *s, const uint8_t *in) {
    __mmask64 short_ones = _mm512_testn_epi8_mask(s->high, s->high);
    s->high = _mm512_mask_mov_epi8(s->high, short_ones, s->low);
    s->low = _mm512_mask_expand_epi8(s->low, short_ones, _mm512_loadu_si512(in));
    return in + __builtin_popcountll(short_ones);
}

/* ---- second pass: symbols to levels ---- */

static inline __m512i fields_of(const step_tables *t, const uint8_t *low) {
    __m512i bytes = _mm512_maskz_expand_epi8(t->field_bytes, _mm512_loadu_si512(low + t->low_at));
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(t->field_shift, bytes), t->field_mask);
}

/* The trellis' next states, from parities of levels in bit 0. */
static inline __m512i next_states(__m512i trellis, __m512i k) {
    const __m512i next = in_units(_mm_loadu_si128((const __m128i *)sky__trellis_next));
    __m512i parity = _mm512_slli_epi16(k, 3);
    return _mm512_shuffle_epi8(
        next, _mm512_ternarylogic_epi64(trellis, parity, _mm512_set1_epi8(8), 0xf8));
}

/* 2k − (a ? sgn k : 0), of bytes. */
static inline __m512i halves_of_bytes(__m512i k, __mmask64 a) {
    const __m512i one = _mm512_set1_epi8(1);
    __mmask64 below = _mm512_movepi8_mask(k), other = _mm512_test_epi8_mask(k, k);
    __m512i n = _mm512_add_epi8(k, k);
    n = _mm512_mask_add_epi8(n, below & a, n, one);
    return _mm512_mask_sub_epi8(n, other & ~below & a, n, one);
}

/* The same of words, whose low and high bytes are apart. */
static inline void halves_of_words(__m512i *low, __m512i *high, __mmask64 a) {
    const __m512i one = _mm512_set1_epi8(1);
    __mmask64 carry = _mm512_movepi8_mask(*low), below = _mm512_movepi8_mask(*high);
    __m512i any = _mm512_or_si512(*low, *high);
    __mmask64 above = _mm512_test_epi8_mask(any, any) & ~below & a;
    __m512i n = _mm512_add_epi8(*low, *low), top = _mm512_add_epi8(*high, *high);
    top = _mm512_mask_add_epi8(top, carry, top, one);
    __mmask64 borrow = _mm512_mask_testn_epi8_mask(above, n, n);
    *low = _mm512_mask_sub_epi8(_mm512_mask_add_epi8(n, below & a, n, one), above, n, one);
    *high = _mm512_mask_sub_epi8(top, borrow, top, one);
}

static inline void step_narrow(const step_tables *t, const uint8_t *low, __m512i s, a_bit a_is,
                               uint8_t *trellis, uint8_t *n) {
    __m512i k = _mm512_add_epi8(_mm512_shuffle_epi8(t->level, s), fields_of(t, low));
    __mmask64 a = 0;
    if (a_is != A_ZERO) {
        __m512i state = _mm512_load_si512(trellis);
        a = _mm512_test_epi8_mask(state, _mm512_set1_epi8(4));
        if (a_is == A_STEPPED)
            _mm512_store_si512(trellis, next_states(state, k));
    }
    _mm512_store_si512(n, a_is == A_ZERO ? _mm512_add_epi8(k, k) : halves_of_bytes(k, a));
}

/* The same in words, low and high bytes apart: a field never carries into its symbol. */
static inline void step_wide(const step_tables *t, const uint8_t *low, __m512i s, a_bit a_is,
                             uint8_t *trellis, uint8_t *n_low, uint8_t *n_high) {
    __m512i k = _mm512_or_si512(_mm512_shuffle_epi8(t->level, s), fields_of(t, low));
    __m512i high = _mm512_shuffle_epi8(t->level_high, s);
    __mmask64 a = 0;
    if (a_is != A_ZERO) {
        __m512i state = _mm512_load_si512(trellis);
        a = _mm512_test_epi8_mask(state, _mm512_set1_epi8(4));
        if (a_is == A_STEPPED)
            _mm512_store_si512(trellis, next_states(state, k));
    }
    halves_of_words(&k, &high, a);
    _mm512_store_si512(n_low, k);
    _mm512_store_si512(n_high, high);
}

/* Bytes of 64 channels, from bytes by position. */
static inline __m512i reorder(const order_tables *o, const uint8_t *n, uint32_t steps) {
    const __m512i *in = (const __m512i *)n;
    __m512i out = _mm512_permutex2var_epi8(in[0], o->from, in[1]);
    if (steps > 2) {
        __mmask64 odd = _mm512_movepi8_mask(o->from);
        out = _mm512_mask_blend_epi8(odd, out, _mm512_permutex2var_epi8(in[2], o->from, in[3]));
        if (steps > 4) {
            __m512i high = _mm512_permutex2var_epi8(in[4], o->from, in[5]);
            high = _mm512_mask_blend_epi8(odd, high,
                                          _mm512_permutex2var_epi8(in[6], o->from, in[7]));
            out = _mm512_mask_blend_epi8(o->high, out, high);
        }
    }
    return out;
}

typedef struct {
    _Alignas(64) uint8_t low[SKY_WIDTH_MAX]; /* of 2k − a sgn k, by position */
    _Alignas(64) uint8_t high[SKY_WIDTH_MAX];
    _Alignas(64) uint8_t trellis[SKY_WIDTH_MAX]; /* before the row */
    __mmask64 escapes[STEPS_MAX];
} scratch;

/* Bits a that half 0 of a lossless row sets: of the next row, and of half 1. */
static inline void set_contexts(sky_coder *rows, uint32_t place, uint32_t pads, __m512i k) {
    const __m512i four = _mm512_set1_epi8(4), bias = _mm512_set1_epi8(-SKY_EXACT_BIAS);
    __mmask64 real = place ? ~(uint64_t)0 : ~(uint64_t)0 << pads;
    _mm512_store_si512(rows->trellis[0] + place,
                       _mm512_maskz_mov_epi8(real & _mm512_cmple_epi8_mask(k, bias), four));
    _mm512_store_si512(rows->trellis[1] + place,
                       _mm512_maskz_mov_epi8(real & _mm512_cmplt_epi8_mask(k, bias), four));
}

static inline void set_context(sky_coder *rows, uint32_t i, int32_t k) {
    bool real = rows->channel[0][i] < rows->width;
    rows->trellis[0][i] = real && k <= -SKY_EXACT_BIAS ? 4 : 0;
    rows->trellis[1][i] = real && k < -SKY_EXACT_BIAS ? 4 : 0;
}

/* Levels that travel whole. SIZE_MAX: one is too large. */
static size_t patch_escapes(sky_coder *rows, uint32_t half, const scratch *m, const uint8_t *in,
                            int16_t *levels) {
    size_t used = 0;
    for (uint32_t step = 0; step < rows->steps; step++)
        for (uint64_t left = m->escapes[step]; left; left &= left - 1, used += 2) {
            uint32_t i = step * SKY_LANES + (uint32_t)__builtin_ctzll(left);
            int32_t k = (int16_t)sky_load_u16(in + used), sign = (k > 0) - (k < 0);
            if (k > SKY_LEVEL_MAX || k < -SKY_LEVEL_MAX)
                return SIZE_MAX;
            int32_t a = a_of(rows) == A_ZERO ? 0 : m->trellis[i] >> 2;
            levels[rows->channel[half][i]] = (int16_t)(2 * k - a * sign);
            if (rows->exact && half == 0)
                set_context(rows, i, k);
            if (!rows->plain)
                rows->trellis[half][i] = sky__trellis_next[m->trellis[i] | (k & 1) << 3];
        }
    return used;
}

/* All of a row but its escapes and order. Returns where the escapes begin. */
static inline const uint8_t *decode_steps(sky_coder *rows, const step_tables *t, uint32_t half,
                                          const uint8_t *in, a_bit a_is, bool wide, scratch *m) {
    states x = load_states(rows);
    const uint8_t *at = in + rows->low_bytes[half];
    uint32_t pads = rows->steps * SKY_LANES - rows->width;
    for (uint32_t step = 0; step < rows->steps; step++, t++) {
        uint32_t place = step * SKY_LANES;
        uint8_t *trellis = rows->trellis[half] + place;
        __m512i before = _mm512_load_si512(trellis);
        __m512i s = decode_step(t, before, a_is, &x);
        at = refill(&x, at);
        s = _mm512_min_epu8(_mm512_and_si512(s, _mm512_set1_epi8(15)), t->symbol_max);
        m->escapes[step] = _mm512_cmpeq_epi8_mask(s, _mm512_set1_epi8(SKY_ESCAPE));
        if (a_is != A_ZERO)
            _mm512_store_si512(m->trellis + place, before);
        if (wide)
            step_wide(t, in, s, a_is, trellis, m->low + place, m->high + place);
        else
            step_narrow(t, in, s, a_is, trellis, m->low + place);
        if (a_is == A_GIVEN && half == 0)
            set_contexts(rows, place, pads, _mm512_shuffle_epi8(t->level, s));
    }
    store_states(&x, rows);
    return at;
}

static inline void put_in_order(const order_tables *order, uint32_t steps, bool wide,
                                const scratch *m, int16_t *levels) {
    const __m512i bytes = _mm512_set1_epi16(0x00ff);
    for (uint32_t step = 0; step < steps; step++, order++, levels += SKY_LANES) {
        __m512i low = reorder(order, m->low, steps);
        __m512i first = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(low));
        __m512i second = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(low, 1));
        if (wide) {
            __m512i high = reorder(order, m->high, steps);
            __m512i h0 = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(high));
            __m512i h1 = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(high, 1));
            first = _mm512_ternarylogic_epi64(first, _mm512_slli_epi16(h0, 8), bytes, 0xe4);
            second = _mm512_ternarylogic_epi64(second, _mm512_slli_epi16(h1, 8), bytes, 0xe4);
        }
        _mm512_storeu_si512(levels, first);
        _mm512_storeu_si512(levels + 32, second);
    }
}

static inline size_t decode_row(sky_coder *rows, const decode_tables *t, uint32_t half,
                                const uint8_t *in, a_bit a_is, bool wide, int16_t *levels) {
    scratch m;
    const uint8_t *end = decode_steps(rows, t->step[half], half, in, a_is, wide, &m);
    put_in_order(t->order[half], rows->steps, wide, &m, levels);
    size_t used = (size_t)(end - in);
    size_t more = patch_escapes(rows, half, &m, end, levels);
    return more == SIZE_MAX ? SIZE_MAX : used + more;
}

size_t sky__row_decode_avx512(sky_coder *rows, const sky_tables *tables, uint32_t half,
                              const uint8_t *in, int16_t *levels) {
    const decode_tables *t = (const decode_tables *)tables;
    switch (a_of(rows)) {
    case A_ZERO:
        return t->wide[half] ? decode_row(rows, t, half, in, A_ZERO, true, levels)
                             : decode_row(rows, t, half, in, A_ZERO, false, levels);
    case A_GIVEN:
        return half ? decode_row(rows, t, 1, in, A_GIVEN, true, levels)
                    : decode_row(rows, t, 0, in, A_GIVEN, false, levels);
    case A_STEPPED:
        break;
    }
    return t->wide[half] ? decode_row(rows, t, half, in, A_STEPPED, true, levels)
                         : decode_row(rows, t, half, in, A_STEPPED, false, levels);
}
