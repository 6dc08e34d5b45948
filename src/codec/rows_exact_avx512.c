/* Decoding lossless rows by AVX-512: what rows.c and exact.c do, the same bytes.
 *
 * Both halves of a token have one order of positions, in which elements are put together: half 0
 * leaves exponents, half 1 adds signs and mantissas, and two planes of bytes come into the order of
 * channels as elements. f16's low bytes are the stream's, as they come.
 *
 * Here every table is one of two by bit a, and looking up frequency and start in both would take as
 * many operations as doing without. With x the slot and d_j = x − start_j, modulo 256, over all
 * starts (0 and 256 are one of them):
 *
 *   least d_j   how far x is above its symbol's start, since starts above x wrap to more than x
 *   most d_j    the same from the next symbol's start, less 256
 *   most − least = 256 − frequency
 *
 * so that the state is stepped without its symbol. Even and odd states are multiplied apart, since
 * their bytes come out of words by shifts alone. */
#include "base/bytes.h"
#include "codec/kernels_avx512.h"
#include "codec/rows_decode_avx512.h"

/* ---- from state to state ---- */

/* 64 states, by position: low and high bytes. */
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

/* Low bytes of words from x, high ones from y. */
static inline __m512i halves_from(__m512i x, __m512i y) {
    return _mm512_ternarylogic_epi64(_mm512_set1_epi16(0x00ff), x, y, 0xca);
}

/* `x`, and one more for each of some starts that the slot has reached. */
static inline __m512i count_reached(__m512i slot, const __m512i *start, int count, __m512i x) {
    const __m512i one = _mm512_set1_epi8(1);
    for (int j = 0; j < count; j++)
        x = _mm512_mask_add_epi8(x, _mm512_cmpge_epi8_mask(slot, start[j]), x, one);
    return x;
}

/* How far a slot is from starts. */
typedef struct {
    __m512i least;
    __m512i most;
} distances;

static inline void measure(__m512i slot, const __m512i *start, int count, distances *d) {
    for (int j = 0; j < count; j++) {
        __m512i x = _mm512_sub_epi8(slot, start[j]);
        d->least = _mm512_min_epu8(d->least, x);
        d->most = _mm512_max_epu8(d->most, x);
    }
}

/* (high, least) − (most − least) × high, as words. */
static inline void next_states(states *s, const distances *d) {
    const __m512i low_bytes = _mm512_set1_epi16(0x00ff);
    __m512i even = _mm512_and_si512(s->high, low_bytes), odd = _mm512_srli_epi16(s->high, 8);
    __m512i less = _mm512_sub_epi8(d->most, d->least);
    __m512i x = halves_from(d->least, _mm512_slli_epi16(s->high, 8));
    __m512i y = _mm512_shrdi_epi16(d->least, odd, 8);
    x = _mm512_sub_epi16(x, _mm512_mullo_epi16(even, _mm512_and_si512(less, low_bytes)));
    y = _mm512_sub_epi16(y, _mm512_mullo_epi16(odd, _mm512_srli_epi16(less, 8)));
    s->high = halves_from(_mm512_srli_epi16(x, 8), y);
    s->low = halves_from(x, _mm512_slli_epi16(y, 8));
}

/* A step on its way, from one stage to the next. `signs`: half 1, which has no symbol below 8. */
typedef struct {
    __m512i slot; /* biased */
    __m512i at;   /* the quarter, and 4 where a is set */
    __m512i start[3];
    distances d;
} stride;

INLINE void find_quarters(const step_tables *t, const uint8_t *trellis, bool signs, const states *s,
                          stride *x) {
    const int first = signs ? 2 : 0;
    __m512i a4 = _mm512_and_si512(_mm512_load_si512(trellis), _mm512_set1_epi8(4));
    x->slot = _mm512_xor_si512(s->low, _mm512_set1_epi8(-128));
    x->d = (distances){s->low, s->low};
    for (int j = first; j < 3; j++)
        x->start[j] = _mm512_shuffle_epi8(t->quarter[j], a4);
    x->at = signs ? _mm512_or_si512(a4, _mm512_set1_epi8(2)) : a4;
    x->at = count_reached(x->slot, x->start + first, 3 - first, x->at);
}

INLINE void find_starts(const step_tables *t, bool signs, stride *x) {
    const int first = signs ? 2 : 0;
    measure(x->slot, x->start + first, 3 - first, &x->d);
    for (int j = 0; j < 3; j++)
        x->start[j] = _mm512_shuffle_epi8(t->third[j], x->at);
}

INLINE void find_states(stride *x, states *s) {
    measure(x->slot, x->start, 3, &x->d);
    next_states(s, &x->d);
}

INLINE __m512i symbols_of(const stride *x) {
    __m512i four_quarters = _mm512_slli_epi16(x->at, 2);
    four_quarters = _mm512_and_si512(four_quarters, _mm512_set1_epi8(12));
    return count_reached(x->slot, x->start, 3, four_quarters);
}

/* A byte for every state below 256. */
static inline const uint8_t *refill(states *s, const uint8_t *in) {
    __mmask64 short_ones = _mm512_testn_epi8_mask(s->high, s->high);
    s->high = _mm512_mask_mov_epi8(s->high, short_ones, s->low);
    s->low = _mm512_mask_expand_epi8(s->low, short_ones, _mm512_loadu_si512(in));
    return in + __builtin_popcountll(short_ones);
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

INLINE void find_symbols(chain *c, const stride *x) {
    c->symbol = symbols_of(x);
    c->in = refill(&c->s, c->in);
}

/* Stage by stage. */
INLINE void step_chains(chain *a, chain *b, bool two, bool signs) {
    stride x, y;
    find_quarters(a->t, a->trellis, signs, &a->s, &x);
    if (two)
        find_quarters(b->t, b->trellis, signs, &b->s, &y);
    find_starts(a->t, signs, &x);
    if (two)
        find_starts(b->t, signs, &y);
    find_states(&x, &a->s);
    if (two)
        find_states(&y, &b->s);
    find_symbols(a, &x);
    if (two)
        find_symbols(b, &y);
}

/* ---- from symbols to elements ---- */

/* Which exponents, of usual ones less some, do not exist. f16's usual one is read as 127 where it
 * is above, whose exponents are all too large, so that one comparison finds all and no byte wraps
 * round to what is allowed. */
INLINE __mmask64 no_exponents(sky_element element, __m512i usual, __m512i less, __m512i exponent) {
    const __m512i zero = _mm512_setzero_si512();
    if (element == SKY_ELEMENT_F16)
        return _mm512_cmpgt_epu8_mask(exponent, _mm512_set1_epi8(31));
    __m512i there = _mm512_subs_epu8(usual, _mm512_max_epi8(less, zero));
    there = _mm512_adds_epu8(there, _mm512_max_epi8(_mm512_sub_epi8(zero, less), zero));
    return _mm512_cmpneq_epu8_mask(exponent, there);
}

/* Exponents of a step, 0 for the padding, and the bits a that they set. *wrong: which do not
 * exist. */
INLINE void finish_exponents(sky_coder *rows, const step_tables *t, uint32_t step, __m512i symbol,
                             const sky_exact *x, scratch *m, planes *out, __mmask64 *wrong) {
    uint32_t place = step * SKY_LANES, pads = rows->steps * SKY_LANES - rows->width;
    __mmask64 real = step ? ~(uint64_t)0 : ~(uint64_t)0 << pads;
    __mmask64 escapes = _mm512_mask_cmpeq_epi8_mask(t->escaping, symbol,
                                                    _mm512_set1_epi8(SKY_ESCAPE));
    __m512i k = _mm512_shuffle_epi8(t->level, symbol);
    __m512i usual = _mm512_load_si512(x->usual_at + place);
    __m512i less = _mm512_add_epi8(k, _mm512_set1_epi8(SKY_EXACT_BIAS));
    if (x->element == SKY_ELEMENT_F16)
        usual = _mm512_min_epu8(usual, _mm512_set1_epi8(127));
    __m512i exponent = _mm512_sub_epi8(usual, less);
    m->escapes[step] = escapes;
    set_contexts(rows, place, k);
    *wrong |= no_exponents(x->element, usual, less, exponent) & real & ~escapes;
    _mm512_store_si512(out->low + place, _mm512_maskz_mov_epi8(real, exponent));
}

/* Exponents that travel whole. SIZE_MAX: one does not exist. */
static size_t patch_exponents(sky_coder *rows, const sky_exact *x, const scratch *m,
                              const uint8_t *in, planes *out) {
    int32_t exponent_max = x->element == SKY_ELEMENT_F16 ? 31 : 255;
    size_t used = 0;
    for (uint32_t step = 0; step < rows->steps; step++)
        for (uint64_t left = m->escapes[step]; left; left &= left - 1, used += 2) {
            uint32_t i = step * SKY_LANES + (uint32_t)__builtin_ctzll(left);
            int32_t k = (int16_t)sky_load_u16(in + used);
            int32_t exponent = x->usual_at[i] - SKY_EXACT_BIAS - k;
            bool real = rows->channel[0][i] < rows->width;
            if (k > SKY_LEVEL_MAX || k < -SKY_LEVEL_MAX ||
                (real && (exponent < 0 || exponent > exponent_max)))
                return SIZE_MAX;
            set_context(rows, i, k);
            out->low[i] = real ? (uint8_t)exponent : 0;
        }
    return used;
}

/* Elements of a step, in place of exponents. */
INLINE void finish_elements(const step_tables *t, uint32_t step, __m512i symbol, const uint8_t *in,
                            sky_exact *x, planes *out) {
    const __m512i top = _mm512_set1_epi8(-128);
    uint32_t place = step * SKY_LANES;
    __m512i bits = _mm512_shuffle_epi8(t->signs, symbol), low;
    __m512i exponent = _mm512_load_si512(out->low + place);
    __m512i before = _mm512_load_si512(x->before + place);
    if (x->element == SKY_ELEMENT_F16) {
        low = _mm512_loadu_si512(in + place);
        exponent = _mm512_slli_epi16(exponent, 2);
        bits = _mm512_xor_si512(bits, before);
    } else {
        __m512i fields = _mm512_maskz_expand_epi8(t->field_bytes,
                                                  _mm512_loadu_si512(in + t->low_at));
        fields = _mm512_multishift_epi64_epi8(t->field_shift, fields);
        low = _mm512_ternarylogic_epi64(bits, fields, t->field_mask, 0xf8);
        low = _mm512_ternarylogic_epi64(top, _mm512_slli_epi16(exponent, 7), low, 0xca);
        bits = _mm512_and_si512(_mm512_xor_si512(bits, before), top);
        exponent = _mm512_andnot_si512(top, _mm512_srli_epi16(exponent, 1));
    }
    __m512i high = _mm512_or_si512(bits, exponent);
    _mm512_store_si512(x->before + place, _mm512_and_si512(high, top));
    _mm512_store_si512(out->low + place, low);
    _mm512_store_si512(out->high + place, high);
}

/* 64 elements from planes. */
INLINE void elements_of(const order_tables *order, const planes *p, const sky_exact *x,
                        uint32_t channel, uint8_t *out) {
    __m512i n[2];
    levels_of(order + channel / SKY_LANES, p, x->padded / SKY_LANES, true, n);
    _mm512_storeu_si512(out, n[0]);
    _mm512_storeu_si512(out + 64, n[1]);
}

/* Elements from planes; where 16-bit heads are of whole steps, straight into place. */
static void put_elements(const order_tables *order, const planes *p, const sky_exact *x,
                         const uint8_t *low, uint8_t *out, size_t head_bytes) {
    _Alignas(64) uint16_t top[SKY_WIDTH_MAX];
    if (low || x->dim % SKY_LANES) {
        for (uint32_t channel = 0; channel < x->padded; channel += SKY_LANES)
            elements_of(order, p, x, channel, (uint8_t *)(top + channel));
        sky__exact_scatter(x, top, low, out, head_bytes);
        return;
    }
    for (uint32_t head = 0; head < x->width; head += x->dim, out += head_bytes)
        for (uint32_t i = 0; i < x->dim; i += SKY_LANES)
            elements_of(order, p, x, head + i, out + 2 * (size_t)i);
}

/* ---- tokens: one of a stream, or one each of two ---- */

/* A token of one stream on its way. */
typedef struct {
    sky_exact_job *of;
    const decode_tables *tables;
    const uint8_t *low; /* half 1's low bits */
    bool failed;
    __mmask64 wrong;
    planes p;
    scratch m;
} token;

/* A token's rows, step by step: what a half's symbols stand for is put together one step behind. */
INLINE void begin_half(token *k, chain *c, uint32_t half) {
    c->t = k->tables->step[half];
    c->trellis = k->of->rows->trellis[half];
    k->low = c->in;
    c->in += k->of->rows->low_bytes[half];
}

/* `symbol` is of a step whose tables are `back` behind the chain's. */
INLINE void finish(token *k, const chain *c, uint32_t back, uint32_t half, uint32_t step,
                   __m512i symbol) {
    if (half == 0)
        finish_exponents(k->of->rows, c->t - back, step, symbol, k->of->exact, &k->m, &k->p,
                         &k->wrong);
    else
        finish_elements(c->t - back, step, symbol, k->low, k->of->exact, &k->p);
}

INLINE void decode_half(token *k, token *l, chain *a, chain *b, bool two, uint32_t half) {
    uint32_t steps = k->of->rows->steps;
    begin_half(k, a, half);
    if (two)
        begin_half(l, b, half);
    step_chains(a, b, two, half);
    for (uint32_t step = 1; step < steps; step++) {
        __m512i symbol = a->symbol, symbol_b = two ? b->symbol : symbol;
        next_step(a);
        if (two)
            next_step(b);
        step_chains(a, b, two, half);
        finish(k, a, 1, half, step - 1, symbol);
        if (two)
            finish(l, b, 1, half, step - 1, symbol_b);
    }
    finish(k, a, 0, half, steps - 1, a->symbol);
    if (two)
        finish(l, b, 0, half, steps - 1, b->symbol);
}

/* Damage is remembered and the token decoded all the same, as the other stream goes on. */
INLINE void end_exponents(token *k, chain *c) {
    uint64_t escapes = 0;
    size_t more = 0;
    for (uint32_t step = 0; step < k->of->rows->steps; step++)
        escapes |= k->m.escapes[step];
    if (escapes)
        more = patch_exponents(k->of->rows, k->of->exact, &k->m, c->in, &k->p);
    k->failed = k->wrong || more == SIZE_MAX;
    c->in += more == SIZE_MAX ? 0 : more;
}

INLINE void begin_token(sky_exact_job *job, token *k, chain *c) {
    k->of = job;
    k->tables = (const decode_tables *)job->tables;
    k->wrong = 0;
    c->s = load_states(job->rows);
    c->in = job->in;
}

INLINE void finish_token(token *k, const chain *c) {
    sky_exact_job *job = k->of;
    const uint8_t *end = c->in;
    store_states(&c->s, job->rows);
    size_t low_bytes = job->exact->element == SKY_ELEMENT_F32 ? 2 * (size_t)job->exact->width : 0;
    job->used = (size_t)(end - job->in) + low_bytes;
    if (k->failed || job->used > job->bytes)
        job->used = SIZE_MAX;
    else
        put_elements(k->tables->order[0], &k->p, job->exact, low_bytes ? end : NULL, job->out,
                     job->head_bytes);
}

INLINE void decode_tokens(sky_exact_job *jobs, bool two) {
    token k, l;
    chain a, b;
    begin_token(&jobs[0], &k, &a);
    if (two)
        begin_token(&jobs[1], &l, &b);
    decode_half(&k, &l, &a, &b, two, 0);
    end_exponents(&k, &a);
    if (two)
        end_exponents(&l, &b);
    decode_half(&k, &l, &a, &b, two, 1);
    finish_token(&k, &a);
    if (two)
        finish_token(&l, &b);
}

void sky__exact_decode_avx512(sky_exact_job *jobs, uint32_t count) {
    if (count == 2 && jobs[0].rows->steps == jobs[1].rows->steps) {
        decode_tokens(jobs, true);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        decode_tokens(jobs + i, false);
}
