/* From state to state by AVX-512 (on 256 bits): what decoding lossy rows and lossless ones waits
 * for. Only for files compiled for it.
 *
 *   slot ─► quarter 4 ─► half of it 4 ─► symbol 4 ─► 256 − frequency, start 2 ─► times 5
 *        ─► bytes apart 3 ─► below 256? and a byte from the stream 12 ─► slot
 *                                                              34 cycles, measured 42
 *
 * The symbol is looked for by halves: a start that the slot has reached sets a bit of its label,
 * and the label so far looks up the next start. The trellis' bit a, where there is one, is bit 2 of
 * these indices, as it lies in the trellis' states, until the last bit found takes its place:
 *
 *   number  8 h + 4 i + 2 j + k        label  8 h + 4 k + 2 i + j        index  8 h + 4 a + 2 i + j
 *
 * Comparing 256 bits leaves a vector and takes a cycle, where comparing 512 leaves a mask and takes
 * six until it can be used; a 512-bit operation keeps two of this CPU's pipes busy anyway. */
#ifndef SKY_CODEC_ROWS_CHAIN_AVX512_H
#define SKY_CODEC_ROWS_CHAIN_AVX512_H

#include "codec/rows_decode_avx512.h"

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

/* Half a step on its way, from one stage to the next. */
typedef struct {
    __m256i slot;  /* biased */
    __m256i label; /* as far as it is known */
} stride;

/* The label has `bit` too where the slot has reached the start. */
INLINE __m256i reach(__m256i label, __m256i start, __m256i slot, char bit) {
    __m256i above = _mm256_cmpgt_epi8(start, slot);
    return _mm256_ternarylogic_epi64(label, above, _mm256_set1_epi8(bit), 0xf2);
}

/* Bits 8 and 2: which quarter of the numbers. Without a its three starts, which rise, are compared
 * at once: bit 8 is there where the one between is not above the slot, bit 2 where an even number
 * is, that is where the outer two agree and it is not above, or they differ and it is. */
INLINE void find_quarters(const step_tables *t, const uint8_t *trellis, a_bit a_is, uint32_t h,
                          const states *s, stride *x) {
    x->slot = _mm256_xor_si256(s->low[h], _mm256_set1_epi8(-128));
    if (a_is == A_ZERO) {
        __m256i above[3];
        for (int j = 0; j < 3; j++)
            above[j] = _mm256_cmpgt_epi8(half_of(&t->first[j], h), x->slot);
        /* all other bits, and bit 2 where the outer two agree */
        __m256i agree = _mm256_ternarylogic_epi64(above[0], above[2], _mm256_set1_epi8(2), 0xf7);
        x->label = _mm256_ternarylogic_epi64(agree, above[1], _mm256_set1_epi8(10), 0x28);
        return;
    }
    __m256i a4 = _mm256_and_si256(half_of(trellis, h), _mm256_set1_epi8(4));
    if (a_is == A_OF_SIGNS)
        x->label = _mm256_or_si256(a4, _mm256_set1_epi8(8));
    else
        x->label = reach(a4, _mm256_shuffle_epi8(half_of(&t->first[0], h), a4), x->slot, 8);
    x->label = reach(x->label, _mm256_shuffle_epi8(half_of(&t->first[1], h), x->label), x->slot, 2);
}

/* Bit 1, and 4, which was a. */
INLINE void find_symbols(const step_tables *t, uint32_t h, stride *x) {
    __m256i start = _mm256_shuffle_epi8(half_of(&t->middle, h), x->label);
    x->label = reach(x->label, start, x->slot, 1);
    start = _mm256_shuffle_epi8(half_of(&t->odd, h), x->label);
    __m256i above = _mm256_cmpgt_epi8(start, x->slot);
    x->label = _mm256_ternarylogic_epi64(x->label, above, _mm256_set1_epi8(4), 0x72);
}

INLINE __m256i look_up(const __m512i table[2], uint32_t h, __m256i label, __mmask32 a) {
    __m256i x = _mm256_shuffle_epi8(half_of(&table[0], h), label);
    return _mm256_mask_shuffle_epi8(x, a, half_of(&table[1], h), label);
}

/* Words of states, as their low and high bytes. */
INLINE void take_words_apart(__m256i u, __m256i v, __m256i *low, __m256i *high) {
    const __m256i apart = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    u = _mm256_shuffle_epi8(u, apart);
    v = _mm256_shuffle_epi8(v, apart);
    *low = _mm256_unpacklo_epi64(u, v);
    *high = _mm256_unpackhi_epi64(u, v);
}

/* The states are stepped, all but the bytes from the stream: (high, slot − start) −
 * (256 − frequency) × high, as words. */
INLINE void find_states(const step_tables *t, const uint8_t *trellis, uint32_t h, const stride *x,
                        states *s) {
    const __m256i zero = _mm256_setzero_si256();
    __mmask32 a = _mm256_test_epi8_mask(half_of(trellis, h), _mm256_set1_epi8(4));
    __m256i less = look_up(t->factor, h, x->label, a);
    __m256i rest = _mm256_sub_epi8(s->low[h], look_up(t->start, h, x->label, a));
    __m256i high = s->high[h];
    __m256i u = _mm256_mullo_epi16(_mm256_unpacklo_epi8(high, zero),
                                   _mm256_unpacklo_epi8(less, zero));
    __m256i v = _mm256_mullo_epi16(_mm256_unpackhi_epi8(high, zero),
                                   _mm256_unpackhi_epi8(less, zero));
    u = _mm256_sub_epi16(_mm256_unpacklo_epi8(rest, high), u);
    v = _mm256_sub_epi16(_mm256_unpackhi_epi8(rest, high), v);
    take_words_apart(u, v, &s->low[h], &s->high[h]);
}

/* The same without a, in three operations less: slot − start + frequency × high, where a frequency
 * above 127 is 256 less as a signed byte, so that 256 × high are missing. */
INLINE void find_plain_states(const step_tables *t, uint32_t h, const stride *x, states *s) {
    const __m256i one = _mm256_set1_epi8(1);
    __m256i f = _mm256_shuffle_epi8(half_of(&t->factor[0], h), x->label);
    __m256i start = _mm256_shuffle_epi8(half_of(&t->start[0], h), x->label);
    __m256i rest = _mm256_sub_epi8(s->low[h], start), high = s->high[h], top;
    __mmask32 missing = _mm256_cmple_epi8_mask(f, _mm256_setzero_si256());
    __m256i u = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(rest, high),
                                     _mm256_unpacklo_epi8(one, f));
    __m256i v = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(rest, high),
                                     _mm256_unpackhi_epi8(one, f));
    take_words_apart(u, v, &s->low[h], &top);
    s->high[h] = _mm256_mask_add_epi8(top, missing, top, high);
}

INLINE void step_states(const step_tables *t, const uint8_t *trellis, a_bit a_is, uint32_t h,
                        const stride *x, states *s) {
    if (a_is == A_ZERO)
        find_plain_states(t, h, x, s);
    else
        find_states(t, trellis, h, x, s);
}

/* A byte for every state below 256. */
INLINE const uint8_t *refill(states *s, uint32_t h, const uint8_t *in) {
    __mmask32 short_ones = _mm256_testn_epi8_mask(s->high[h], s->high[h]);
    s->high[h] = _mm256_mask_mov_epi8(s->high[h], short_ones, s->low[h]);
    s->low[h] = _mm256_mask_expand_epi8(s->low[h], short_ones,
                                        _mm256_loadu_si256((const __m256i *)in));
    return in + __builtin_popcount(short_ones);
}

/* A stream's way from state to state. Those of two streams are gone together, so that neither waits
 * alone; what takes chains `a` and `b` goes only a's where `two` is false. */
typedef struct {
    const step_tables *t; /* of the step at hand */
    const uint8_t *trellis;
    const uint8_t *in; /* the next byte for a state */
    states s;
    __m512i label; /* of the step at hand */
} chain;

INLINE void next_step(chain *c) {
    c->t++;
    c->trellis += SKY_LANES;
}

INLINE __m512i labels_of(const stride x[2]) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(x[0].label), x[1].label, 1);
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
        step_states(a->t, a->trellis, a_is, h, &x[h], &a->s);
    for (uint32_t h = 0; two && h < 2; h++)
        step_states(b->t, b->trellis, a_is, h, &y[h], &b->s);
    for (uint32_t h = 0; h < 2; h++)
        a->in = refill(&a->s, h, a->in);
    for (uint32_t h = 0; two && h < 2; h++)
        b->in = refill(&b->s, h, b->in);
    a->label = labels_of(x);
    if (two)
        b->label = labels_of(y);
}

#endif
