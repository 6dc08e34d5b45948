/* Decoding lossy rows by AVX-512: what rows.c does, the same bytes. Tables: rows_tables_avx512.c.
 *
 *   a few pairs of rows ─► planes of bytes ─► order of channels, sums, differences ─► tokens
 *   from state to state    in (half) steps     levels of tokens                        transform
 *
 * What comes after the chains (rows_chain_avx512.h) is done for several pairs of tokens at once, so
 * that matrices and angles are loaded once for them. Planes are of half steps, 2k − a sgn k, but
 * those of plain rows, which are of steps: one shift more fits a byte then.
 *
 * An escape is told by its level, which is below any other's until it is read: planes need no masks
 * of where escapes are unless there are some. */
#include "codec/rows_chain_avx512.h"

#include "base/bytes.h"
#include "codec/kernels_avx512.h"

/* ---- from symbols to levels ---- */

/* What an escape's level is read as, and twice that with a: below what a symbol's low byte can be
 * where planes are narrow, and below its high byte where they are wide. */
static inline __mmask64 escapes_among(__m512i x) {
    return _mm512_cmplt_epi8_mask(x, _mm512_set1_epi8(-112));
}

/* The trellis' next states, from parities of levels in bit 0. */
static inline __m512i step_trellis(__m512i trellis, __m512i k) {
    const __m512i next = _mm512_broadcast_i32x4(
        _mm_loadu_si128((const __m128i *)sky__trellis_next));
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

/* Adds fields to levels' low bytes, which never carry into their symbols. */
INLINE __m512i add_fields(const step_tables *t, const uint8_t *low, __m512i k) {
    const uint8_t *in = low + t->low_at;
    __m512i bytes = t->few_bytes ? _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)in))
                                 : _mm512_loadu_si512(in);
    bytes = _mm512_permutexvar_epi8(t->field_from, bytes);
    __m512i fields = _mm512_multishift_epi64_epi8(t->field_shift, bytes);
    return _mm512_ternarylogic_epi64(k, fields, t->field_mask, 0xf8);
}

/* A step's symbols to its planes; the trellis goes on. Returns the bytes that tell of escapes. */
INLINE __m512i finish_step(sky_coder *rows, const step_tables *t, uint32_t half, uint32_t place,
                           __m512i label, const uint8_t *low, a_bit a_is, planes *out) {
    bool wide = t->wide;
    __m512i k = _mm512_shuffle_epi8(t->level, label);
    __m512i high = wide ? _mm512_shuffle_epi8(t->level_high, label) : k;
    if (t->fields)
        k = add_fields(t, low, k);
    if (a_is != A_ZERO) {
        uint8_t *trellis = rows->trellis[half] + place;
        __m512i state = _mm512_load_si512(trellis);
        __mmask64 a = _mm512_test_epi8_mask(state, _mm512_set1_epi8(4));
        if (a_is == A_STEPPED)
            _mm512_store_si512(trellis, step_trellis(state, k));
        if (wide)
            halves_of_words(&k, &high, a);
        else
            k = halves_of_bytes(k, a);
    }
    _mm512_store_si512(out->low + place, k);
    if (wide)
        _mm512_store_si512(out->high + place, high);
    if (a_is == A_GIVEN && half == 0)
        set_contexts(rows, place, _mm512_shuffle_epi8(t->level, label));
    return wide ? high : k;
}

/* High bytes of all steps. */
static void planes_widen(planes *p, uint32_t steps) {
    for (uint32_t step = 0; step < steps; step++)
        if (!(p->wide >> step & 1))
            _mm512_store_si512(p->high + step * SKY_LANES,
                               sign_of(_mm512_load_si512(p->low + step * SKY_LANES)));
    p->wide = UINT8_MAX;
}

/* Levels that travel whole, into planes that become wide. SIZE_MAX: one is too large. */
static size_t patch_escapes(sky_coder *rows, uint32_t half, const uint8_t *in, planes *out) {
    uint64_t escapes[STEPS_MAX];
    size_t used = 0;
    for (uint32_t step = 0; step < rows->steps; step++) {
        const uint8_t *told = out->wide >> step & 1 ? out->high : out->low;
        escapes[step] = escapes_among(_mm512_load_si512(told + step * SKY_LANES));
    }
    planes_widen(out, rows->steps);
    for (uint32_t step = 0; step < rows->steps; step++)
        for (uint64_t left = escapes[step]; left; left &= left - 1, used += 2) {
            uint32_t i = step * SKY_LANES + (uint32_t)__builtin_ctzll(left);
            int32_t k = (int16_t)sky_load_u16(in + used), sign = (k > 0) - (k < 0);
            if (k > SKY_LEVEL_MAX || k < -SKY_LEVEL_MAX)
                return SIZE_MAX;
            uint32_t before = out->low[i]; /* 2k + a of another level */
            int32_t n = a_of(rows) == A_ZERO ? k : 2 * k - (int32_t)(before & 1) * sign;
            out->low[i] = (uint8_t)n;
            out->high[i] = (uint8_t)((uint32_t)n >> 8);
            if (rows->exact && half == 0)
                set_context(rows, i, k);
            if (!rows->plain)
                rows->trellis[half][i] ^= (uint8_t)((before ^ (uint32_t)k << 1) & 2);
        }
    return used;
}

/* ---- rows: one of a stream, or one each of two ---- */

/* A row on its way. */
typedef struct {
    sky_coder *rows;
    const decode_tables *tables;
    const uint8_t *low; /* its low bits */
    planes *out;
    __m512i least; /* of what tells of escapes */
    bool failed;
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
    r->least = _mm512_setzero_si512();
    c->in += r->rows->low_bytes[half];
}

/* `label` is of a step whose tables are `back` behind the chain's. */
INLINE void finish(row *r, const chain *c, uint32_t back, uint32_t half, uint32_t step,
                   __m512i label, a_bit a_is) {
    __m512i told = finish_step(r->rows, c->t - back, half, step * SKY_LANES, label, r->low, a_is,
                               r->out);
    r->least = _mm512_min_epi8(r->least, told);
}

/* Damage is remembered, as the other stream goes on. */
INLINE void end_row(row *r, chain *c, uint32_t half) {
    r->out->wide = r->tables->wide[half];
    if (!escapes_among(r->least))
        return;
    size_t more = patch_escapes(r->rows, half, c->in, r->out);
    r->failed |= more == SIZE_MAX;
    c->in += more == SIZE_MAX ? 0 : more;
}

/* What symbols stand for is made one step behind the chain. */
INLINE void decode_row(row *r, row *q, chain *a, chain *b, bool two, a_bit a_is, uint32_t half) {
    uint32_t steps = r->rows->steps;
    step_chains(a, b, two, a_is);
    for (uint32_t step = 1; step < steps; step++) {
        __m512i label = a->label, label_b = two ? b->label : label;
        next_step(a);
        if (two)
            next_step(b);
        step_chains(a, b, two, a_is);
        finish(r, a, 1, half, step - 1, label, a_is);
        if (two)
            finish(q, b, 1, half, step - 1, label_b, a_is);
    }
    finish(r, a, 0, half, steps - 1, a->label, a_is);
    if (two)
        finish(q, b, 0, half, steps - 1, b->label, a_is);
    end_row(r, a, half);
    if (two)
        end_row(q, b, half);
}

/* Half steps. */
static void levels_by_channel(const decode_tables *t, uint32_t half, planes *p,
                              const sky_coder *rows, int16_t *levels) {
    bool wide = p->wide;
    if (wide)
        planes_widen(p, rows->steps);
    for (uint32_t step = 0; step < rows->steps; step++, levels += SKY_LANES) {
        __m512i n[2];
        levels_of(&t->order[half][step], p, rows->steps, wide, n);
        for (uint32_t i = 0; i < 2; i++) {
            if (a_of(rows) == A_ZERO)
                n[i] = _mm512_add_epi16(n[i], n[i]);
            _mm512_storeu_si512(levels + 32 * i, n[i]);
        }
    }
}

size_t sky__row_decode_avx512(sky_coder *rows, const sky_tables *tables, uint32_t half,
                              const uint8_t *in, int16_t *levels) {
    row r;
    chain c;
    planes p;
    begin_rows(&r, &c, rows, tables, in);
    begin_row(&r, &c, half, &p);
    if (a_of(rows) == A_ZERO)
        decode_row(&r, NULL, &c, NULL, false, A_ZERO, half);
    else if (a_of(rows) == A_GIVEN)
        decode_row(&r, NULL, &c, NULL, false, A_GIVEN, half);
    else
        decode_row(&r, NULL, &c, NULL, false, A_STEPPED, half);
    store_states(&c.s, rows);
    levels_by_channel(r.tables, half, &p, rows, levels);
    return r.failed ? SIZE_MAX : (size_t)(c.in - in);
}

/* ---- from rows to tokens ---- */

/* A row's planes as they are put in order: high bytes too where they are `wide`. */
typedef struct {
    __m512i low[STEPS_MAX];
    __m512i high[STEPS_MAX];
} row_planes;

INLINE void load_planes(const planes *p, uint32_t steps, bool wide, row_planes *out) {
    for (uint32_t step = 0; step < steps; step++) {
        __m512i low = out->low[step] = _mm512_load_si512(p->low + step * SKY_LANES);
        if (wide && p->wide >> step & 1)
            out->high[step] = _mm512_load_si512(p->high + step * SKY_LANES);
        else if (wide)
            out->high[step] = sign_of(low);
    }
}

/* Sums and differences of 64 channels of two tokens, or twice these, from two planes each. */
INLINE void wide_levels(const order_tables *const o[2], uint32_t steps, bool twice,
                        const row_planes p[2], __m512i n[2][2]) {
    __m512i low[2], high[2];
    for (uint32_t half = 0; half < 2; half++) {
        low[half] = reorder_row(o[half], p[half].low, steps);
        high[half] = reorder_row(o[half], p[half].high, steps);
    }
    __m512i sum[2] = {_mm512_unpacklo_epi8(low[0], high[0]), _mm512_unpackhi_epi8(low[0], high[0])};
    __m512i difference[2] = {_mm512_unpacklo_epi8(low[1], high[1]),
                             _mm512_unpackhi_epi8(low[1], high[1])};
    for (uint32_t i = 0; i < 2; i++) {
        n[0][i] = _mm512_add_epi16(sum[i], difference[i]);
        n[1][i] = _mm512_sub_epi16(sum[i], difference[i]);
    }
    for (uint32_t i = 0; twice && i < 2; i++) {
        n[0][i] = _mm512_add_epi16(n[0][i], n[0][i]);
        n[1][i] = _mm512_add_epi16(n[1][i], n[1][i]);
    }
}

/* The same from one plane each. */
INLINE void narrow_levels(const order_tables *const o[2], uint32_t steps, bool twice,
                          const row_planes p[2], __m512i n[2][2]) {
    const __m512i sign = _mm512_set1_epi8(-128), ones = _mm512_set1_epi8(twice ? 2 : 1);
    const __m512i by_turns = _mm512_set1_epi16(twice ? (short)0xfe02 : (short)0xff01);
    __m512i sum = reorder_row(o[0], p[0].low, steps),
            difference = reorder_row(o[1], p[1].low, steps);
    __m512i both[2] = {_mm512_unpacklo_epi8(sum, difference),
                       _mm512_unpackhi_epi8(sum, difference)};
    for (uint32_t i = 0; i < 2; i++) {
        n[0][i] = _mm512_maddubs_epi16(ones, both[i]);
        n[1][i] = _mm512_maddubs_epi16(_mm512_xor_si512(both[i], sign), by_turns);
    }
}

/* Levels of two tokens: sums and differences of their rows'. Planes are loaded once and stay in
 * registers, where there are enough and the loop is not unrolled; they are `most` steps, a constant
 * and a power of two, of which the row has `steps`. */
INLINE void levels_of_tokens(const decode_tables *t, uint32_t steps, uint32_t most, bool twice,
                             bool wide, const planes p[2], int16_t (*levels)[SKY_WIDTH_MAX]) {
    row_planes rows[2];
    load_planes(&p[0], most, wide, &rows[0]);
    load_planes(&p[1], most, wide, &rows[1]);
#pragma GCC unroll 1
    for (uint32_t step = 0; step < steps; step++) {
        const order_tables *const o[2] = {&t->order[0][step], &t->order[1][step]};
        __m512i n[2][2];
        if (wide)
            wide_levels(o, most, twice, rows, n);
        else
            narrow_levels(o, most, twice, rows, n);
        for (uint32_t i = 0; i < 2; i++) {
            _mm512_store_si512(levels[0] + step * SKY_LANES + 32 * i, n[0][i]);
            _mm512_store_si512(levels[1] + step * SKY_LANES + 32 * i, n[1][i]);
        }
    }
}

/* Tokens of one stream on their way: rows of sums and of differences. */
typedef struct {
    const decode_tables *tables;
    planes p[SKY_PAIRS_MAX][2];
} tokens;

static void restore_one_by_one(tokens *k, const sky_pairs_job *job) {
    _Alignas(64) int16_t levels[2][SKY_WIDTH_MAX];
    for (uint32_t i = 0; i < job->pairs; i++) {
        uint8_t *out = job->out + 2 * i * job->token_bytes;
        uint8_t *const both[2] = {out, out + job->token_bytes};
        for (uint32_t half = 0; half < 2; half++)
            levels_by_channel(k->tables, half, &k->p[i][half], job->rows, levels[half]);
        if (i || job->turn_on)
            sky__transform_turn_on_avx512(job->t);
        sky__transform_restore_avx512(job->t, levels[0], levels[1], both, job->head_bytes);
    }
}

INLINE void levels_of_pairs(const tokens *k, const sky_pairs_job *job, uint32_t most,
                            int16_t (*levels)[SKY_WIDTH_MAX]) {
    uint32_t steps = job->rows->steps;
    bool twice = job->rows->plain && !sky__restores_steps(job);
    for (uint32_t i = 0; i < job->pairs; i++, levels += 2)
        if (k->p[i][0].wide || k->p[i][1].wide)
            levels_of_tokens(k->tables, steps, most, twice, true, k->p[i], levels);
        else
            levels_of_tokens(k->tables, steps, most, twice, false, k->p[i], levels);
}

static void tokens_restore(tokens *k, const sky_pairs_job *job) {
    _Alignas(64) int16_t levels[2 * SKY_PAIRS_MAX][SKY_WIDTH_MAX];
    uint32_t steps = job->rows->steps;
    if (!sky__restores_by_chunks(job->t)) {
        restore_one_by_one(k, job);
        return;
    }
    if (steps > 4)
        levels_of_pairs(k, job, 8, levels);
    else if (steps > 2)
        levels_of_pairs(k, job, 4, levels);
    else
        levels_of_pairs(k, job, 2, levels);
    sky__tokens_restore_avx512(job, levels);
}

INLINE void begin_tokens(const sky_pairs_job *job, tokens *k, row *r, chain *c) {
    begin_rows(r, c, job->rows, job->tables, job->in);
    k->tables = r->tables;
}

INLINE bool goes_on(const sky_pairs_job *job, const row *r, const chain *c, uint32_t pairs) {
    size_t used = (size_t)(c->in - job->in);
    return !r->failed && pairs < job->pairs && used <= job->bytes &&
           used + job->pair_bytes_max <= job->room;
}

INLINE void end_tokens(tokens *k, const row *r, const chain *c, uint32_t pairs,
                       sky_pairs_job *job) {
    size_t used = (size_t)(c->in - job->in);
    bool damaged = r->failed || used > job->bytes;
    store_states(&c->s, job->rows);
    job->pairs = damaged ? pairs - 1 : pairs;
    job->used = damaged ? SIZE_MAX : used;
    tokens_restore(k, job);
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
