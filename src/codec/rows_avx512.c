/* Decoding lossy rows by AVX-512: what rows.c does, the same bytes. Tables: its header.
 *
 *   a few pairs of rows ─► planes of bytes ─► order of channels, sums, differences ─► tokens
 *   from state to state    in half steps       levels of tokens                        transform
 *
 * From state to state, 32 of them at a time: comparing 256 bits leaves a vector and takes a cycle,
 * where comparing 512 leaves a mask and takes six until it can be added. A 512-bit operation keeps
 * two of this CPU's pipes busy anyway.
 *
 *   slot ─► quarter 4 ─► starts 2 ─► symbol 3 ─► frequency, start 3 ─► times 5 ─► bytes 2
 *        ─► below 256? and a byte from the stream 12 ─► slot         31 cycles, measured 42
 *
 * Two streams' chains gone together take 28 cycles a step each; then it is the pipes that are
 * full. What comes after the chains is done for several pairs of tokens at once, so that matrices
 * and angles are loaded once for them. */
#include "codec/rows_decode_avx512.h"

#include "base/bytes.h"
#include "codec/kernels_avx512.h"

/* ---- tables ---- */

static bool is_signs(uint32_t table) {
    return table >= SKY_BANK_EXACT + SKY_EXACT_TABLES;
}

/* Frequencies by number. */
static inline __m128i frequencies_of(uint32_t table, uint32_t a) {
    __m128i f = _mm_loadu_si128((const __m128i *)sky__bank[table][a]);
    return is_signs(table) ? _mm_alignr_epi8(f, f, 11) : f;
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

static void make_starts(step_tables *t, const uint8_t *tables, a_bit a_is) {
    __m512i biased[2];
    for (uint32_t a = 0; a < 2; a++) {
        __m512i f = _mm512_castsi128_si512(frequencies_of(tables[0], a));
        f = _mm512_inserti32x4(f, frequencies_of(tables[1], a), 1);
        f = _mm512_inserti32x4(f, frequencies_of(tables[2], a), 2);
        f = _mm512_inserti32x4(f, frequencies_of(tables[3], a), 3);
        t->start[a] = starts_of(f);
        t->less[a] = _mm512_sub_epi8(_mm512_setzero_si512(), f);
        biased[a] = _mm512_xor_si512(t->start[a], _mm512_set1_epi8(-128));
    }
    for (int j = 0; j < 3; j++) { /* without trellis the index is left out */
        const __m512i four = _mm512_set1_epi8((char)(4 * (j + 1)));
        t->quarter[j] = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(biased[0], four),
                                                 a_is == A_ZERO ? 0 : 0x00f000f000f000f0u,
                                                 biased[1], four);
    }
    t->third[0] = gather_starts(biased, 1, 5, 9, 13);
    t->third[1] = gather_starts(biased, 2, 6, 10, 14);
    t->third[2] = gather_starts(biased, 3, 7, 11, 15);
}

/* Unit `u` of the step. Table 0 finds 15 always, which is 0. */
static void make_fields(step_tables *t, uint32_t u, uint32_t table, uint32_t r) {
    const __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const uint64_t ramp = 0x0706050403020100u, bytes = ((uint64_t)1 << r) - 1;
    __m128i symbols = _mm_sub_epi8(numbers, _mm_set1_epi8(is_signs(table) ? 12 : SKY_SYMBOL_ZERO));
    __m256i shift = _mm256_set1_epi16((short)r), level = _mm256_cvtepi8_epi16(symbols);
    level = table == 0 ? _mm256_setzero_si256() : _mm256_sllv_epi16(level, shift);
    ((__m128i *)&t->level)[u] = _mm256_cvtepi16_epi8(level);
    ((__m128i *)&t->level_high)[u] = _mm256_cvtepi16_epi8(_mm256_srli_epi16(level, 8));
    ((__m128i *)&t->field_shift)[u] = _mm_set1_epi64x((long long)(ramp * r));
    ((__m128i *)&t->field_mask)[u] = _mm_set1_epi8((char)((1u << r) - 1));
    t->field_bytes |= bytes * 0x101 << 16 * u;
    __m128i sign = _mm_and_si128(symbols, _mm_set1_epi8(4));
    __m128i mantissa = _mm_and_si128(symbols, _mm_set1_epi8(3));
    sign = _mm_slli_epi16(_mm_xor_si128(sign, _mm_set1_epi8(4)), 5);
    ((__m128i *)&t->signs)[u] = _mm_or_si128(sign, _mm_slli_epi16(mantissa, r < 8 ? 5 : 0));
    if (table != 0 && !is_signs(table))
        t->escaping |= (uint64_t)0xffff << 16 * u;
}

/* Unpacking makes words of every other eight channels, from the other half of a vector each. */
static void make_order(order_tables *orders, const sky_coder *rows, uint32_t half) {
    const __m512i eights = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    _Alignas(64) uint8_t from[SKY_WIDTH_MAX], high[SKY_WIDTH_MAX] = {0};
    uint32_t count = rows->steps * SKY_LANES;
    for (uint32_t i = 0; i < count; i++)
        from[rows->channel[half][i]] = (uint8_t)i;
    for (uint32_t i = 256; i < count; i++)
        high[rows->channel[half][i]] = 1;
    for (uint32_t step = 0; step < rows->steps; step++) {
        __m512i low = _mm512_load_si512(from + step * SKY_LANES);
        __m512i above = _mm512_load_si512(high + step * SKY_LANES);
        above = _mm512_permutexvar_epi64(eights, above);
        orders[step].from = _mm512_permutexvar_epi64(eights, low);
        orders[step].odd = _mm512_movepi8_mask(orders[step].from);
        orders[step].high = _mm512_test_epi8_mask(above, above);
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
                make_starts(t, &rows->table[half][unit], a_of(rows));
                t->low_at = low_at;
                t->field_bytes = t->escaping = 0;
            }
            make_fields(t, unit % 4, table, r);
            low_at += 2 * r;
            all->wide[half] |= r > 3 || (rows->exact && half);
        }
        make_order(all->order[half], rows, half);
    }
}

/* ---- from state to state ---- */

/* 64 states, by position: their low and high bytes, in two halves. */
typedef struct {
    __m256i low[2];
    __m256i high[2];
} states;

static inline __m256i half_of(const void *bytes, uint32_t h) {
    return _mm256_load_si256((const __m256i *)bytes + h);
}

static inline states load_states(const sky_coder *rows) {
    const uint8_t *low = rows->state[0], *high = rows->state[1];
    return (states){{half_of(low, 0), half_of(low, 1)}, {half_of(high, 0), half_of(high, 1)}};
}

static inline void store_states(const states *s, sky_coder *rows) {
    for (uint32_t h = 0; h < 2; h++) {
        _mm256_store_si256((__m256i *)rows->state[0] + h, s->low[h]);
        _mm256_store_si256((__m256i *)rows->state[1] + h, s->high[h]);
    }
}

/* Low bytes of words from x, high ones from y. */
static inline __m256i halves_from(__m256i x, __m256i y) {
    return _mm256_ternarylogic_epi64(_mm256_set1_epi16(0x00ff), x, y, 0xca);
}

/* Half a step on its way, from one stage to the next. */
typedef struct {
    __m256i slot;   /* biased */
    __m256i symbol; /* at first which quarter, and 4 where a is set */
} stride;

/* base, less one for each of three starts that is above the slot. */
static inline __m256i count_reached(__m256i slot, const __m256i start[3], __m256i base) {
    __m256i two = _mm256_add_epi8(_mm256_cmpgt_epi8(start[1], slot),
                                  _mm256_cmpgt_epi8(start[2], slot));
    return _mm256_add_epi8(_mm256_add_epi8(base, _mm256_cmpgt_epi8(start[0], slot)), two);
}

INLINE void find_quarters(const step_tables *t, const uint8_t *trellis, a_bit a_is, uint32_t h,
                          const states *s, stride *x) {
    __m256i a4 = _mm256_setzero_si256(), start[3], base = _mm256_set1_epi8(3);
    x->slot = _mm256_xor_si256(s->low[h], _mm256_set1_epi8(-128));
    if (a_is != A_ZERO) {
        a4 = _mm256_and_si256(half_of(trellis, h), _mm256_set1_epi8(4));
        base = _mm256_or_si256(base, a4);
    }
    for (int j = 0; j < 3; j++) {
        start[j] = half_of(&t->quarter[j], h);
        if (a_is != A_ZERO)
            start[j] = _mm256_shuffle_epi8(start[j], a4);
    }
    x->symbol = count_reached(x->slot, start, base);
}

INLINE void find_symbols(const step_tables *t, uint32_t h, stride *x) {
    const __m256i twelve = _mm256_set1_epi8(12), three = _mm256_set1_epi8(3);
    __m256i base = _mm256_slli_epi16(x->symbol, 2), start[3];
    for (int j = 0; j < 3; j++)
        start[j] = _mm256_shuffle_epi8(half_of(&t->third[j], h), x->symbol);
    x->symbol = count_reached(x->slot, start, _mm256_ternarylogic_epi64(base, twelve, three, 0xea));
}

INLINE __m256i look_up(const __m512i table[2], uint32_t h, __m256i symbol, a_bit a_is,
                       __mmask32 a) {
    __m256i x = _mm256_shuffle_epi8(half_of(&table[0], h), symbol);
    return a_is == A_ZERO ? x : _mm256_mask_shuffle_epi8(x, a, half_of(&table[1], h), symbol);
}

/* The states are stepped, all but the bytes from the stream: (high, slot − start) −
 * (256 − frequency) × high, as words. */
INLINE void find_states(const step_tables *t, const uint8_t *trellis, a_bit a_is, uint32_t h,
                        const stride *x, states *s) {
    const __m256i low_bytes = _mm256_set1_epi16(0x00ff);
    __mmask32 a = 0;
    if (a_is != A_ZERO)
        a = _mm256_test_epi8_mask(half_of(trellis, h), _mm256_set1_epi8(4));
    __m256i less = look_up(t->less, h, x->symbol, a_is, a);
    __m256i rest = _mm256_sub_epi8(s->low[h], look_up(t->start, h, x->symbol, a_is, a));
    __m256i high = s->high[h], odd = _mm256_srli_epi16(high, 8);
    __m256i u = halves_from(rest, _mm256_slli_epi16(high, 8));
    __m256i v = halves_from(_mm256_srli_epi16(rest, 8), high);
    u = _mm256_sub_epi16(u, _mm256_mullo_epi16(_mm256_and_si256(high, low_bytes),
                                               _mm256_and_si256(less, low_bytes)));
    v = _mm256_sub_epi16(v, _mm256_mullo_epi16(odd, _mm256_srli_epi16(less, 8)));
    s->high[h] = halves_from(_mm256_srli_epi16(u, 8), v);
    s->low[h] = halves_from(u, _mm256_slli_epi16(v, 8));
}

/* A byte for every state below 256. */
INLINE const uint8_t *refill(states *s, uint32_t h, const uint8_t *in) {
    __mmask32 short_ones = _mm256_testn_epi8_mask(s->high[h], s->high[h]);
    s->high[h] = _mm256_mask_mov_epi8(s->high[h], short_ones, s->low[h]);
    s->low[h] = _mm256_mask_expand_epi8(s->low[h], short_ones,
                                        _mm256_loadu_si256((const __m256i *)in));
    return in + __builtin_popcount(short_ones);
}

INLINE __m512i symbols_of(const stride x[2]) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(x[0].symbol), x[1].symbol, 1);
}

/* A stream's way from state to state. Those of two streams are gone together, so that neither waits
 * alone; what takes chains `a` and `b` goes only a's where `two` is false. */
typedef struct {
    const step_tables *t; /* of the step at hand */
    const uint8_t *trellis;
    const uint8_t *in; /* the next byte for a state */
    states s;
    __m512i symbol; /* of the step at hand */
} chain;

INLINE void next_step(chain *c) {
    c->t++;
    c->trellis += SKY_LANES;
}

/* Stage by stage, half by half. */
INLINE void step_chains(chain *a, chain *b, bool two, a_bit a_is) {
    stride x[2], y[2];
    for (uint32_t h = 0; h < 2; h++)
        find_quarters(a->t, a->trellis, a_is, h, &a->s, &x[h]);
    for (uint32_t h = 0; two && h < 2; h++)
        find_quarters(b->t, b->trellis, a_is, h, &b->s, &y[h]);
    for (uint32_t h = 0; h < 2; h++)
        find_symbols(a->t, h, &x[h]);
    for (uint32_t h = 0; two && h < 2; h++)
        find_symbols(b->t, h, &y[h]);
    for (uint32_t h = 0; h < 2; h++)
        find_states(a->t, a->trellis, a_is, h, &x[h], &a->s);
    for (uint32_t h = 0; two && h < 2; h++)
        find_states(b->t, b->trellis, a_is, h, &y[h], &b->s);
    for (uint32_t h = 0; h < 2; h++)
        a->in = refill(&a->s, h, a->in);
    for (uint32_t h = 0; two && h < 2; h++)
        b->in = refill(&b->s, h, b->in);
    a->symbol = symbols_of(x);
    if (two)
        b->symbol = symbols_of(y);
}

/* ---- from symbols to levels ---- */

/* Levels, whose low bytes have the fields added: a field never carries into its symbol. */
static inline __m512i levels_low(const step_tables *t, const uint8_t *low, __m512i symbol) {
    __m512i k = _mm512_shuffle_epi8(t->level, symbol);
    if (!t->field_bytes)
        return k;
    __m512i bytes = _mm512_maskz_expand_epi8(t->field_bytes, _mm512_loadu_si512(low + t->low_at));
    __m512i fields = _mm512_multishift_epi64_epi8(t->field_shift, bytes);
    return _mm512_ternarylogic_epi64(k, fields, t->field_mask, 0xf8);
}

/* The trellis' next states, from parities of levels in bit 0. */
static inline __m512i step_trellis(__m512i trellis, __m512i k) {
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
    __m512i k = levels_low(t, low, s);
    __mmask64 a = 0;
    if (a_is != A_ZERO) {
        __m512i state = _mm512_load_si512(trellis);
        a = _mm512_test_epi8_mask(state, _mm512_set1_epi8(4));
        if (a_is == A_STEPPED)
            _mm512_store_si512(trellis, step_trellis(state, k));
    }
    _mm512_store_si512(n, a_is == A_ZERO ? _mm512_add_epi8(k, k) : halves_of_bytes(k, a));
}

/* The same in words, low and high bytes apart: a field never carries into its symbol. */
static inline void step_wide(const step_tables *t, const uint8_t *low, __m512i s, a_bit a_is,
                             uint8_t *trellis, uint8_t *n_low, uint8_t *n_high) {
    __m512i k = levels_low(t, low, s);
    __m512i high = _mm512_shuffle_epi8(t->level_high, s);
    __mmask64 a = 0;
    if (a_is != A_ZERO) {
        __m512i state = _mm512_load_si512(trellis);
        a = _mm512_test_epi8_mask(state, _mm512_set1_epi8(4));
        if (a_is == A_STEPPED)
            _mm512_store_si512(trellis, step_trellis(state, k));
    }
    halves_of_words(&k, &high, a);
    _mm512_store_si512(n_low, k);
    _mm512_store_si512(n_high, high);
}

INLINE void finish_step(sky_coder *rows, const step_tables *t, uint32_t half, uint32_t step,
                        __m512i symbol, const uint8_t *in, a_bit a_is, bool wide, scratch *m,
                        planes *out) {
    uint32_t place = step * SKY_LANES;
    uint8_t *trellis = rows->trellis[half] + place;
    if (a_is != A_ZERO)
        _mm512_store_si512(m->trellis + place, _mm512_load_si512(trellis));
    m->escapes[step] = _mm512_mask_cmpeq_epi8_mask(t->escaping, symbol,
                                                   _mm512_set1_epi8(SKY_ESCAPE));
    if (wide)
        step_wide(t, in, symbol, a_is, trellis, out->low + place, out->high + place);
    else
        step_narrow(t, in, symbol, a_is, trellis, out->low + place);
    if (a_is == A_GIVEN && half == 0)
        set_contexts(rows, place, _mm512_shuffle_epi8(t->level, symbol));
}

/* Levels that travel whole, into planes that are wide. SIZE_MAX: one is too large. */
static size_t patch_escapes(sky_coder *rows, uint32_t half, const scratch *m, const uint8_t *in,
                            planes *out) {
    size_t used = 0;
    for (uint32_t step = 0; step < rows->steps; step++)
        for (uint64_t left = m->escapes[step]; left; left &= left - 1, used += 2) {
            uint32_t i = step * SKY_LANES + (uint32_t)__builtin_ctzll(left);
            int32_t k = (int16_t)sky_load_u16(in + used), sign = (k > 0) - (k < 0);
            if (k > SKY_LEVEL_MAX || k < -SKY_LEVEL_MAX)
                return SIZE_MAX;
            int32_t n = 2 * k - (a_of(rows) == A_ZERO ? 0 : m->trellis[i] >> 2) * sign;
            out->low[i] = (uint8_t)n;
            out->high[i] = (uint8_t)((uint32_t)n >> 8);
            if (rows->exact && half == 0)
                set_context(rows, i, k);
            if (!rows->plain)
                rows->trellis[half][i] = sky__trellis_next[m->trellis[i] | (k & 1) << 3];
        }
    return used;
}

static void widen(planes *p, uint32_t steps) {
    for (uint32_t place = 0; place < steps * SKY_LANES; place += SKY_LANES)
        _mm512_store_si512(p->high + place, _mm512_movm_epi8(_mm512_movepi8_mask(
                                                _mm512_load_si512(p->low + place))));
}

/* ---- rows: one of a stream, or one each of two ---- */

/* A row on its way. */
typedef struct {
    sky_coder *rows;
    const decode_tables *tables;
    const uint8_t *low; /* its low bits */
    planes *out;
    bool failed;
    scratch m;
} row;

INLINE void begin_rows(row *r, chain *c, sky_coder *rows, const sky_tables *tables,
                       const uint8_t *in) {
    r->rows = rows;
    r->tables = (const decode_tables *)tables;
    r->failed = false;
    c->s = load_states(rows);
    c->in = in;
}

INLINE void begin_row(row *r, chain *c, uint32_t half, planes *out) {
    c->t = r->tables->step[half];
    c->trellis = r->rows->trellis[half];
    r->low = c->in;
    r->out = out;
    c->in += r->rows->low_bytes[half];
}

/* `symbol` is of a step whose tables are `back` behind the chain's. */
INLINE void finish(row *r, const chain *c, uint32_t back, uint32_t half, uint32_t step,
                   __m512i symbol, a_bit a_is) {
    finish_step(r->rows, c->t - back, half, step, symbol, r->low, a_is, r->tables->wide[half],
                &r->m, r->out);
}

/* Damage is remembered, as the other stream goes on. */
INLINE void end_row(row *r, chain *c, uint32_t half) {
    uint64_t escapes = 0;
    for (uint32_t step = 0; step < r->rows->steps; step++)
        escapes |= r->m.escapes[step];
    r->out->wide = r->tables->wide[half] || escapes;
    if (!escapes)
        return;
    if (!r->tables->wide[half])
        widen(r->out, r->rows->steps);
    size_t more = patch_escapes(r->rows, half, &r->m, c->in, r->out);
    r->failed |= more == SIZE_MAX;
    c->in += more == SIZE_MAX ? 0 : more;
}

/* What symbols stand for is made one step behind the chain. */
INLINE void decode_row(row *r, row *q, chain *a, chain *b, bool two, a_bit a_is, uint32_t half) {
    uint32_t steps = r->rows->steps;
    step_chains(a, b, two, a_is);
    for (uint32_t step = 1; step < steps; step++) {
        __m512i symbol = a->symbol, symbol_b = two ? b->symbol : symbol;
        next_step(a);
        if (two)
            next_step(b);
        step_chains(a, b, two, a_is);
        finish(r, a, 1, half, step - 1, symbol, a_is);
        if (two)
            finish(q, b, 1, half, step - 1, symbol_b, a_is);
    }
    finish(r, a, 0, half, steps - 1, a->symbol, a_is);
    if (two)
        finish(q, b, 0, half, steps - 1, b->symbol, a_is);
    end_row(r, a, half);
    if (two)
        end_row(q, b, half);
}

static void levels_by_channel(const decode_tables *t, uint32_t half, const planes *p,
                              uint32_t steps, int16_t *levels) {
    for (uint32_t step = 0; step < steps; step++, levels += SKY_LANES) {
        __m512i n[2];
        levels_of(&t->order[half][step], p, steps, p->wide, n);
        _mm512_storeu_si512(levels, n[0]);
        _mm512_storeu_si512(levels + 32, n[1]);
    }
}

size_t sky__row_decode_avx512(sky_coder *rows, const sky_tables *tables, uint32_t half,
                              const uint8_t *in, int16_t *levels) {
    row r;
    chain c;
    planes p;
    begin_rows(&r, &c, rows, tables, in);
    begin_row(&r, &c, half, &p);
    switch (a_of(rows)) {
    case A_ZERO:
        decode_row(&r, NULL, &c, NULL, false, A_ZERO, half);
        break;
    case A_GIVEN:
        decode_row(&r, NULL, &c, NULL, false, A_GIVEN, half);
        break;
    case A_STEPPED:
        decode_row(&r, NULL, &c, NULL, false, A_STEPPED, half);
    }
    store_states(&c.s, rows);
    levels_by_channel(r.tables, half, &p, rows->steps, levels);
    return r.failed ? SIZE_MAX : (size_t)(c.in - in);
}

/* ---- from rows to tokens ---- */

/* Levels of 64 channels of two tokens: sums and differences of their rows'. */
static inline void levels_of_tokens(const decode_tables *t, uint32_t step, uint32_t steps,
                                    const planes p[2], int16_t (*levels)[SKY_WIDTH_MAX]) {
    const order_tables *o[2] = {&t->order[0][step], &t->order[1][step]};
    const __m512i ones = _mm512_set1_epi8(1), sign = _mm512_set1_epi8(-128);
    const __m512i by_turns = _mm512_set1_epi16((short)0xff01);
    int16_t *out[2] = {levels[0] + step * SKY_LANES, levels[1] + step * SKY_LANES};
    __m512i n[2][2];
    if (p[0].wide || p[1].wide) {
        levels_of(o[0], &p[0], steps, p[0].wide, n[0]);
        levels_of(o[1], &p[1], steps, p[1].wide, n[1]);
        for (uint32_t i = 0; i < 2; i++) {
            __m512i sum = n[0][i];
            n[0][i] = _mm512_add_epi16(sum, n[1][i]);
            n[1][i] = _mm512_sub_epi16(sum, n[1][i]);
        }
    } else {
        __m512i sum = reorder(o[0], p[0].low, steps);
        __m512i difference = reorder(o[1], p[1].low, steps);
        n[0][0] = _mm512_unpacklo_epi8(sum, difference);
        n[0][1] = _mm512_unpackhi_epi8(sum, difference);
        for (uint32_t i = 0; i < 2; i++) {
            n[1][i] = _mm512_maddubs_epi16(_mm512_xor_si512(n[0][i], sign), by_turns);
            n[0][i] = _mm512_maddubs_epi16(ones, n[0][i]);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        _mm512_store_si512(out[0] + 32 * i, n[0][i]);
        _mm512_store_si512(out[1] + 32 * i, n[1][i]);
    }
}

/* Tokens of one stream on their way: rows of sums and of differences. */
typedef struct {
    const decode_tables *tables;
    planes p[SKY_PAIRS_MAX][2];
} tokens;

static void restore_one_by_one(const tokens *k, const sky_pairs_job *job) {
    _Alignas(64) int16_t levels[2][SKY_WIDTH_MAX];
    for (uint32_t i = 0; i < job->pairs; i++) {
        uint8_t *out = job->out + 2 * i * job->token_bytes;
        uint8_t *const both[2] = {out, out + job->token_bytes};
        for (uint32_t half = 0; half < 2; half++)
            levels_by_channel(k->tables, half, &k->p[i][half], job->rows->steps, levels[half]);
        if (i || job->turn_on)
            sky__transform_turn_on_avx512(job->t);
        sky__transform_restore_avx512(job->t, levels[0], levels[1], both, job->head_bytes);
    }
}

static void restore(const tokens *k, const sky_pairs_job *job) {
    _Alignas(64) int16_t levels[2 * SKY_PAIRS_MAX][SKY_WIDTH_MAX];
    uint32_t steps = job->rows->steps;
    if (!sky__restores_by_chunks(job->t)) {
        restore_one_by_one(k, job);
        return;
    }
    for (uint32_t i = 0; i < job->pairs; i++)
        for (uint32_t step = 0; step < steps; step++)
            levels_of_tokens(k->tables, step, steps, k->p[i], levels + 2 * i);
    sky__tokens_restore_avx512(job, levels);
}

INLINE void begin_tokens(const sky_pairs_job *job, tokens *k, row *r, chain *c) {
    begin_rows(r, c, job->rows, job->tables, job->in);
    k->tables = r->tables;
}

INLINE bool goes_on(const sky_pairs_job *job, const row *r, const chain *c, uint32_t pairs) {
    return !r->failed && pairs < job->pairs &&
           (size_t)(c->in - job->in) + job->pair_bytes_max <= job->bytes;
}

INLINE void end_tokens(const tokens *k, const row *r, const chain *c, uint32_t pairs,
                       sky_pairs_job *job) {
    size_t used = (size_t)(c->in - job->in);
    bool damaged = r->failed || used > job->bytes;
    store_states(&c->s, job->rows);
    job->pairs = damaged ? pairs - 1 : pairs;
    job->used = damaged ? SIZE_MAX : used;
    restore(k, job);
}

INLINE void decode_tokens(sky_pairs_job *jobs, bool two, a_bit a_is) {
    tokens k, l;
    row r, q;
    chain a, b;
    uint32_t pair = 0;
    bool more;
    begin_tokens(&jobs[0], &k, &r, &a);
    if (two)
        begin_tokens(&jobs[1], &l, &q, &b);
    do {
        for (uint32_t half = 0; half < 2; half++) {
            begin_row(&r, &a, half, &k.p[pair][half]);
            if (two)
                begin_row(&q, &b, half, &l.p[pair][half]);
            decode_row(&r, &q, &a, &b, two, a_is, half);
        }
        pair++;
        more = goes_on(&jobs[0], &r, &a, pair) && (!two || goes_on(&jobs[1], &q, &b, pair));
    } while (more);
    end_tokens(&k, &r, &a, pair, &jobs[0]);
    if (two)
        end_tokens(&l, &q, &b, pair, &jobs[1]);
}

void sky__pairs_decode_avx512(sky_pairs_job *jobs, uint32_t count) {
    const sky_coder *a = jobs[0].rows, *b = jobs[count - 1].rows;
    if (count == 2 && a->steps == b->steps && a->plain == b->plain) {
        if (a->plain)
            decode_tokens(jobs, true, A_ZERO);
        else
            decode_tokens(jobs, true, A_STEPPED);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (jobs[i].rows->plain)
            decode_tokens(&jobs[i], false, A_ZERO);
        else
            decode_tokens(&jobs[i], false, A_STEPPED);
}
