/* Decoding lossless rows by AVX-512: what rows.c and exact.c do, the same bytes.
 *
 * Both halves of a token have one order of positions, in which elements are put together: half 0
 * leaves exponents, half 1 adds signs and mantissas, and two planes of bytes come into the order of
 * channels as elements. f16's low bytes are the stream's, as they come. */
#include "base/bytes.h"
#include "codec/kernels_avx512.h"
#include "codec/rows_chain_avx512.h"

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
INLINE void finish_exponents(sky_coder *rows, const step_tables *t, uint32_t step, __m512i label,
                             const sky_exact *x, __mmask64 *all_escapes, planes *out,
                             __mmask64 *wrong) {
    uint32_t place = step * SKY_LANES, pads = rows->steps * SKY_LANES - rows->width;
    __mmask64 real = step ? ~(uint64_t)0 : ~(uint64_t)0 << pads;
    __m512i k = _mm512_shuffle_epi8(t->level, label);
    __mmask64 escapes = _mm512_cmpeq_epi8_mask(k, _mm512_set1_epi8((char)ESCAPED_BY_A));
    __m512i usual = _mm512_load_si512(x->usual_at + place);
    __m512i less = _mm512_add_epi8(k, _mm512_set1_epi8(SKY_EXACT_BIAS));
    if (x->element == SKY_ELEMENT_F16)
        usual = _mm512_min_epu8(usual, _mm512_set1_epi8(127));
    __m512i exponent = _mm512_sub_epi8(usual, less);
    all_escapes[step] = escapes;
    set_contexts(rows, place, k);
    *wrong |= no_exponents(x->element, usual, less, exponent) & real & ~escapes;
    _mm512_store_si512(out->low + place, _mm512_maskz_mov_epi8(real, exponent));
}

/* Exponents that travel whole. SIZE_MAX: one does not exist. */
static size_t patch_exponents(sky_coder *rows, const sky_exact *x, const __mmask64 *escapes,
                              const uint8_t *in, planes *out) {
    int32_t exponent_max = x->element == SKY_ELEMENT_F16 ? 31 : 255;
    size_t used = 0;
    for (uint32_t step = 0; step < rows->steps; step++)
        for (uint64_t left = escapes[step]; left; left &= left - 1, used += 2) {
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
INLINE void finish_elements(const step_tables *t, uint32_t step, __m512i label, const uint8_t *in,
                            sky_exact *x, planes *out) {
    const __m512i top = _mm512_set1_epi8(-128);
    uint32_t place = step * SKY_LANES;
    __m512i bits = _mm512_shuffle_epi8(t->signs, label), low;
    __m512i exponent = _mm512_load_si512(out->low + place);
    __m512i before = _mm512_load_si512(x->before + place);
    if (x->element == SKY_ELEMENT_F16) {
        low = _mm512_loadu_si512(in + place);
        exponent = _mm512_slli_epi16(exponent, 2);
        bits = _mm512_xor_si512(bits, before);
    } else {
        __m512i fields = _mm512_permutexvar_epi8(t->field_from, _mm512_loadu_si512(in + t->low_at));
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

/* Tokens of one stream, the one at hand on its way. */
typedef struct {
    sky_exact_job *of;
    const decode_tables *tables;
    const uint8_t *low; /* half 1's low bits */
    uint32_t done;
    bool failed;
    __mmask64 wrong;
    planes p;
    __mmask64 escapes[STEPS_MAX];
} token;

/* A token's rows, step by step: what a half's symbols stand for is put together one step behind. */
INLINE void begin_half(token *k, chain *c, uint32_t half) {
    c->t = k->tables->step[half];
    c->trellis = k->of->rows->trellis[half];
    k->low = c->in;
    c->in += k->of->rows->low_bytes[half];
}

/* `label` is of a step whose tables are `back` behind the chain's. */
INLINE void finish(token *k, const chain *c, uint32_t back, uint32_t half, uint32_t step,
                   __m512i label) {
    if (half == 0)
        finish_exponents(k->of->rows, c->t - back, step, label, k->of->exact, k->escapes, &k->p,
                         &k->wrong);
    else
        finish_elements(c->t - back, step, label, k->low, k->of->exact, &k->p);
}

INLINE void decode_half(token *k, token *l, chain *a, chain *b, bool two, uint32_t half) {
    uint32_t steps = k->of->rows->steps;
    begin_half(k, a, half);
    if (two)
        begin_half(l, b, half);
    step_chains(a, b, two, half ? A_OF_SIGNS : A_GIVEN);
    for (uint32_t step = 1; step < steps; step++) {
        __m512i label = a->label, label_b = two ? b->label : label;
        next_step(a);
        if (two)
            next_step(b);
        step_chains(a, b, two, half ? A_OF_SIGNS : A_GIVEN);
        finish(k, a, 1, half, step - 1, label);
        if (two)
            finish(l, b, 1, half, step - 1, label_b);
    }
    finish(k, a, 0, half, steps - 1, a->label);
    if (two)
        finish(l, b, 0, half, steps - 1, b->label);
}

/* Damage is remembered and the token decoded all the same, as the other stream goes on. */
INLINE void end_exponents(token *k, chain *c) {
    uint64_t escapes = 0;
    size_t more = 0;
    for (uint32_t step = 0; step < k->of->rows->steps; step++)
        escapes |= k->escapes[step];
    if (escapes)
        more = patch_exponents(k->of->rows, k->of->exact, k->escapes, c->in, &k->p);
    k->failed = k->wrong || more == SIZE_MAX;
    c->in += more == SIZE_MAX ? 0 : more;
}

INLINE void begin_tokens(sky_exact_job *job, token *k, chain *c) {
    k->of = job;
    k->tables = (const decode_tables *)job->tables;
    k->done = 0;
    k->wrong = 0;
    k->failed = false;
    c->s = load_states(job->rows);
    c->in = job->in;
}

INLINE void finish_token(token *k, chain *c) {
    sky_exact_job *job = k->of;
    const uint8_t *low = c->in;
    size_t low_bytes = job->exact->element == SKY_ELEMENT_F32 ? 2 * (size_t)job->exact->width : 0;
    c->in += low_bytes;
    k->failed |= (size_t)(c->in - job->in) > job->bytes;
    if (k->failed)
        return;
    put_elements(k->tables->order[0], &k->p, job->exact, low_bytes ? low : NULL,
                 job->out + k->done * job->token_bytes, job->head_bytes);
    k->done++;
}

INLINE bool goes_on(const token *k, const chain *c) {
    return !k->failed && k->done < k->of->tokens &&
           (size_t)(c->in - k->of->in) + k->of->token_bytes_max <= k->of->room;
}

INLINE void end_tokens(const token *k, const chain *c) {
    sky_exact_job *job = k->of;
    store_states(&c->s, job->rows);
    job->tokens = k->done;
    job->used = k->failed ? SIZE_MAX : (size_t)(c->in - job->in);
}

INLINE void decode_tokens(sky_exact_job *jobs, bool two) {
    token k, l;
    chain a, b;
    begin_tokens(&jobs[0], &k, &a);
    if (two)
        begin_tokens(&jobs[1], &l, &b);
    do {
        decode_half(&k, &l, &a, &b, two, 0);
        end_exponents(&k, &a);
        if (two)
            end_exponents(&l, &b);
        decode_half(&k, &l, &a, &b, two, 1);
        finish_token(&k, &a);
        if (two)
            finish_token(&l, &b);
    } while (goes_on(&k, &a) && (!two || goes_on(&l, &b)));
    end_tokens(&k, &a);
    if (two)
        end_tokens(&l, &b);
}

void sky__exact_decode_avx512(sky_exact_job *jobs, uint32_t count) {
    if (count == 2 && jobs[0].rows->steps == jobs[1].rows->steps) {
        decode_tokens(jobs, true);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        decode_tokens(jobs + i, false);
}
