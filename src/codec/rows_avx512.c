/* Decoding rows of levels by AVX-512: what rows.c does, the same bytes. How: its header. */
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
    __m512i start[2];
    for (uint32_t a = 0; a < 2; a++) {
        __m512i f = _mm512_castsi128_si512(frequencies_of(tables[0], a));
        f = _mm512_inserti32x4(f, frequencies_of(tables[1], a), 1);
        f = _mm512_inserti32x4(f, frequencies_of(tables[2], a), 2);
        start[a] = starts_of(_mm512_inserti32x4(f, frequencies_of(tables[3], a), 3));
    }
    for (int j = 0; j < 3; j++) { /* without trellis the index is left out */
        const __m512i four = _mm512_set1_epi8((char)(4 * (j + 1)));
        t->quarter[j] = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(start[0], four),
                                                 a_is == A_ZERO ? 0 : 0x00f000f000f000f0u, start[1],
                                                 four);
    }
    t->third[0] = gather_starts(start, 1, 5, 9, 13);
    t->third[1] = gather_starts(start, 2, 6, 10, 14);
    t->third[2] = gather_starts(start, 3, 7, 11, 15);
}

/* Unit `u` of the step. Table 0 finds 15 always, which is 0. */
static void make_fields(step_tables *t, uint32_t u, uint32_t table, uint32_t r) {
    const __m128i numbers = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
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

/* ---- rows ---- */

/* All of a row but its escapes. Returns where they begin. */
INLINE const uint8_t *decode_steps(sky_coder *rows, const decode_tables *tables, uint32_t half,
                                   const uint8_t *in, a_bit a_is, scratch *m, planes *out,
                                   states *x, beside b) {
    const uint8_t *at = in + rows->low_bytes[half], *trellis = rows->trellis[half];
    const step_tables *t = tables->step[half];
    bool wide = tables->wide[half];
    uint32_t steps = rows->steps;
    __m512i symbol = decode_step(t, trellis, a_is, x, &b);
    at = refill(x, at);
    for (b.step = 1; b.step < steps; b.step++, t++) {
        __m512i next = decode_step(t + 1, trellis + b.step * SKY_LANES, a_is, x, &b);
        at = refill(x, at);
        finish_step(rows, t, half, b.step - 1, symbol, in, a_is, wide, m, out);
        symbol = next;
    }
    finish_step(rows, t, half, steps - 1, symbol, in, a_is, wide, m, out);
    return at;
}

/* *wide: whether the row's planes are, which escapes make them. */
INLINE size_t decode_planes(sky_coder *rows, const decode_tables *t, uint32_t half,
                            const uint8_t *in, a_bit a_is, planes *out, bool *wide, states *x,
                            beside b) {
    scratch m;
    const uint8_t *end = decode_steps(rows, t, half, in, a_is, &m, out, x, b);
    uint64_t escapes = 0;
    for (uint32_t step = 0; step < rows->steps; step++)
        escapes |= m.escapes[step];
    *wide = t->wide[half] || escapes;
    size_t used = (size_t)(end - in), more = 0;
    if (escapes) {
        if (!t->wide[half])
            widen(out, rows->steps);
        more = patch_escapes(rows, half, &m, end, out);
    }
    return more == SIZE_MAX ? SIZE_MAX : used + more;
}

size_t sky__row_decode_avx512(sky_coder *rows, const sky_tables *tables, uint32_t half,
                              const uint8_t *in, int16_t *levels) {
    const decode_tables *t = (const decode_tables *)tables;
    planes p;
    bool wide;
    const beside b = {.what = NOTHING};
    states x = load_states(rows);
    size_t used = 0;
    switch (a_of(rows)) {
    case A_ZERO:
        used = decode_planes(rows, t, half, in, A_ZERO, &p, &wide, &x, b);
        break;
    case A_GIVEN:
        used = decode_planes(rows, t, half, in, A_GIVEN, &p, &wide, &x, b);
        break;
    case A_STEPPED:
        used = decode_planes(rows, t, half, in, A_STEPPED, &p, &wide, &x, b);
    }
    store_states(&x, rows);
    for (uint32_t step = 0; step < rows->steps; step++, levels += SKY_LANES) {
        __m512i n[2];
        levels_of(&t->order[half][step], &p, rows->steps, wide, n);
        _mm512_storeu_si512(levels, n[0]);
        _mm512_storeu_si512(levels + 32, n[1]);
    }
    return used;
}

/* ---- pairs of rows ---- */

static void wait_for(waiting_rows *w, const sky_tables *tables, const sky_waiting *waiting) {
    w->of = waiting;
    w->steps = w->left = w->angles = 0;
    if (!waiting)
        return;
    w->tables = (const decode_tables *)tables;
    w->steps = waiting->t->padded / SKY_LANES;
    w->at = first_chunk(waiting, (const int16_t(*)[SKY_WIDTH_MAX])w->levels);
    w->left = waiting->t->width / (2 * LANES);
    if (waiting->turn_on && waiting->t->rope)
        w->angles = waiting->t->rope->pair_count;
}

static void restore_chunks(waiting_rows *w) {
    for (; w->left; w->left--) {
        restore_chunk(w->of, &w->at, 0, w->of->t->rope);
        restore_chunk(w->of, &w->at, 1, w->of->t->rope);
        next_chunk(w->of, &w->at);
    }
}

void sky__pair_restore_avx512(const sky_tables *tables, const sky_waiting *waiting) {
    waiting_rows w;
    if (waiting->turn_on)
        sky__transform_turn_on_avx512(waiting->t);
    if (!restores_by_chunks(waiting->t)) {
        sky__transform_restore_avx512(waiting->t, waiting->levels[0], waiting->levels[1],
                                      waiting->out, waiting->head_bytes);
        return;
    }
    wait_for(&w, tables, waiting);
    for (uint32_t step = 0; step < w.steps; step++)
        order_step(&w, step);
    restore_chunks(&w);
}

/* Rows that chunks do not fit. */
static size_t decode_one_by_one(sky_coder *rows, const sky_tables *tables, const uint8_t *in,
                                sky_waiting *next) {
    size_t first = sky__row_decode_avx512(rows, tables, 0, in, next->levels[0]), second;
    if (first == SIZE_MAX)
        return SIZE_MAX;
    second = sky__row_decode_avx512(rows, tables, 1, in + first, next->levels[1]);
    return second == SIZE_MAX ? SIZE_MAX : first + second;
}

INLINE size_t decode_two(sky_coder *rows, const decode_tables *t, const uint8_t *in, a_bit a_is,
                         sky_waiting *next, occupation restoring, waiting_rows *w) {
    const beside first = {ORDERING, 0, w}, second = {restoring, 0, w};
    states x = load_states(rows);
    size_t used = decode_planes(rows, t, 0, in, a_is, (planes *)next->levels[0], &next->wide[0], &x,
                                first);
    if (used == SIZE_MAX)
        return used;
    size_t more = decode_planes(rows, t, 1, in + used, a_is, (planes *)next->levels[1],
                                &next->wide[1], &x, second);
    store_states(&x, rows);
    return more == SIZE_MAX ? SIZE_MAX : used + more;
}

size_t sky__pair_decode_avx512(sky_coder *rows, const sky_tables *tables, const uint8_t *in,
                               sky_waiting *next, const sky_waiting *waiting) {
    const decode_tables *t = (const decode_tables *)tables;
    waiting_rows w;
    if (!restores_by_chunks(next->t)) {
        if (waiting)
            sky__pair_restore_avx512(tables, waiting);
        return decode_one_by_one(rows, tables, in, next);
    }
    wait_for(&w, tables, waiting);
    bool turned = next->t->rope;
    size_t used;
    if (rows->plain)
        used = turned ? decode_two(rows, t, in, A_ZERO, next, TURNING, &w)
                      : decode_two(rows, t, in, A_ZERO, next, SCALING, &w);
    else
        used = turned ? decode_two(rows, t, in, A_STEPPED, next, TURNING, &w)
                      : decode_two(rows, t, in, A_STEPPED, next, SCALING, &w);
    restore_chunks(&w);
    return used;
}
