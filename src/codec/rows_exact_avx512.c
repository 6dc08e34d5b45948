/* Decoding lossless rows by AVX-512: what rows.c and exact.c do, the same bytes.
 *
 * Both halves of a token have one order of positions, in which elements are put together: half 0
 * leaves exponents, half 1 adds signs and mantissas, and two planes of bytes come into the order of
 * channels as elements. f16's low bytes are the stream's, as they come. */
#include "base/bytes.h"
#include "codec/kernels_avx512.h"
#include "codec/rows_decode_avx512.h"

/* Exponents of a step, 0 for the padding, and the bits a that they set. *wrong: which do not
 * exist. */
INLINE void finish_exponents(sky_coder *rows, const step_tables *t, uint32_t step, __m512i symbol,
                             const sky_exact *x, scratch *m, planes *out, __mmask64 *wrong) {
    uint32_t place = step * SKY_LANES, pads = rows->steps * SKY_LANES - rows->width;
    __mmask64 real = step ? ~(uint64_t)0 : ~(uint64_t)0 << pads;
    __mmask64 escapes = _mm512_mask_cmpeq_epi8_mask(t->escaping, symbol,
                                                    _mm512_set1_epi8(SKY_ESCAPE));
    __m512i k = _mm512_shuffle_epi8(t->level, symbol), zero = _mm512_setzero_si512();
    __m512i usual = _mm512_load_si512(x->usual_at + place);
    __m512i less = _mm512_add_epi8(k, _mm512_set1_epi8(SKY_EXACT_BIAS));
    __m512i exponent = _mm512_maskz_sub_epi8(real, usual, less);
    m->escapes[step] = escapes;
    set_contexts(rows, place, k);
    __m512i there = _mm512_subs_epu8(usual, _mm512_max_epi8(less, zero));
    there = _mm512_adds_epu8(there, _mm512_max_epi8(_mm512_sub_epi8(zero, less), zero));
    *wrong |= _mm512_mask_cmpneq_epu8_mask(real & ~escapes, exponent, there);
    if (x->element == SKY_ELEMENT_F16)
        *wrong |= _mm512_mask_cmpgt_epu8_mask(real & ~escapes, exponent, _mm512_set1_epi8(31));
    _mm512_store_si512(out->low + place, exponent);
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

/* Elements from planes; where 16-bit heads are of whole vectors, straight into place. */
static void put_elements(const order_tables *order, const planes *p, const sky_exact *x,
                         const uint8_t *low, uint8_t *out, size_t head_bytes) {
    const uint32_t half_step = SKY_LANES / 2;
    bool straight = !low && x->dim % half_step == 0;
    _Alignas(64) uint16_t top[SKY_WIDTH_MAX];
    uint8_t *head = out;
    uint32_t within = 0;
    __m512i n[2];
    for (uint32_t channel = 0; channel < x->padded; channel += half_step) {
        if (channel % SKY_LANES == 0)
            levels_of(order + channel / SKY_LANES, p, x->padded / SKY_LANES, true, n);
        bool placed = straight && channel < x->width;
        _mm512_storeu_si512(placed ? (void *)(head + 2 * within) : top + channel,
                            n[channel / half_step % 2]);
        within += half_step;
        if (placed && within == x->dim) {
            within = 0;
            head += head_bytes;
        }
    }
    if (!straight)
        sky__exact_scatter(x, top, low, out, head_bytes);
}

/* Decode half 0 into exponents. Returns where half 1 begins; NULL: damage. */
INLINE const uint8_t *decode_exponents(sky_coder *rows, const step_tables *t, const uint8_t *in,
                                       const sky_exact *x, states *s, planes *p) {
    const beside nothing = {.what = NOTHING};
    __mmask64 wrong = 0, escapes = 0;
    __m512i symbol = decode_step(t, rows->trellis[0], A_GIVEN, false, s, &nothing);
    scratch m;
    in = refill(s, in);
    for (uint32_t step = 1; step < rows->steps; step++, t++) {
        const uint8_t *trellis = rows->trellis[0] + step * SKY_LANES;
        __m512i next = decode_step(t + 1, trellis, A_GIVEN, false, s, &nothing);
        in = refill(s, in);
        finish_exponents(rows, t, step - 1, symbol, x, &m, p, &wrong);
        symbol = next;
    }
    finish_exponents(rows, t, rows->steps - 1, symbol, x, &m, p, &wrong);
    for (uint32_t step = 0; step < rows->steps; step++)
        escapes |= m.escapes[step];
    size_t more = escapes ? patch_exponents(rows, x, &m, in, p) : 0;
    return wrong || more == SIZE_MAX ? NULL : in + more;
}

/* Decode half 1, whose low bits begin at `low`. Returns its end. */
INLINE const uint8_t *decode_elements(const sky_coder *rows, const step_tables *t,
                                      const uint8_t *low, sky_exact *x, states *s, planes *p) {
    const beside nothing = {.what = NOTHING};
    const uint8_t *in = low + rows->low_bytes[1];
    __m512i symbol = decode_step(t, rows->trellis[1], A_GIVEN, true, s, &nothing);
    in = refill(s, in);
    for (uint32_t step = 1; step < rows->steps; step++, t++) {
        const uint8_t *trellis = rows->trellis[1] + step * SKY_LANES;
        __m512i next = decode_step(t + 1, trellis, A_GIVEN, true, s, &nothing);
        in = refill(s, in);
        finish_elements(t, step - 1, symbol, low, x, p);
        symbol = next;
    }
    finish_elements(t, rows->steps - 1, symbol, low, x, p);
    return in;
}

size_t sky__exact_decode_avx512(sky_coder *rows, const sky_tables *tables, sky_exact *x,
                                const uint8_t *in, size_t bytes, uint8_t *out, size_t head_bytes) {
    const decode_tables *t = (const decode_tables *)tables;
    size_t low_bytes = x->element == SKY_ELEMENT_F32 ? 2 * (size_t)x->width : 0;
    planes p;
    states s = load_states(rows);
    const uint8_t *end = decode_exponents(rows, t->step[0], in, x, &s, &p);
    if (!end)
        return SIZE_MAX;
    end = decode_elements(rows, t->step[1], end, x, &s, &p);
    store_states(&s, rows);
    size_t used = (size_t)(end - in) + low_bytes;
    if (used > bytes)
        return SIZE_MAX;
    put_elements(t->order[0], &p, x, low_bytes ? end : NULL, out, head_bytes);
    return used;
}
