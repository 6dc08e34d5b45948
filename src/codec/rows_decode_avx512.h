/* What decoding rows by AVX-512 (VBMI, VBMI2) shares: from state to state, and what is done beside
 * it. Only for files compiled for it.
 *
 * A step of 64 symbols is a vector of bytes; a unit of 16 channels is one 128-bit lane of it, so a
 * table of 16 entries is looked up by vpshufb, each unit in its own. The 64 states are two vectors
 * too, their low bytes (the slots) and their high bytes.
 *
 * One chain leads from state to state and decoding waits for it, so that it takes the shortest way.
 * With x the slot and d_j = x − start_j, modulo 256, over all starts (0 and 256 are one of them):
 *
 *   least d_j   how far x is above its symbol's start, since starts above x wrap to more than x
 *   most d_j    the same from the next symbol's start, less 256
 *   most − least = 256 − frequency
 *
 * No symbol is needed to step the state, nor its frequency to be looked up. Two rounds of three
 * starts do: those of the quarters of the 16 symbols, then, looked up by the quarter, those within
 * it. The trellis' bit a is bit 2 of the index of every small table. Even and odd states are
 * multiplied apart, since their bytes come out of words by shifts alone:
 *
 *   slot ─► quarter 8 ─► starts 4 ─► least, most 4 ─► times 6 ─► bytes 3 ─► below 256? 5
 *        ─► byte from the stream 8 ─► slot                          38 cycles, measured 48
 *
 * Everything else finds room beside the chain when its operands are there already: a scheduler full
 * of what waits for the chain holds up what comes after it. So levels are made a step later, and
 * rows come into the order of channels and tokens are restored while the next ones are decoded. */
#ifndef SKY_CODEC_ROWS_DECODE_AVX512_H
#define SKY_CODEC_ROWS_DECODE_AVX512_H

#include "codec/exact.h"
#include "codec/rows_avx512.h"
#include "codec/transform_avx512.h"

/* What one step of 64 positions looks up. Symbols are those of the bank, but that lossless signs,
 * which end with symbol 10, are 8 to 15: the last one has a slot. */
typedef struct {
    __m512i quarter[3]; /* by unit: [4a] start of symbol 4 (j + 1) */
    __m512i third[3];   /* by unit: [4a + i] start of symbol 4i + 1 + j */
    __m512i level;      /* by unit: (symbol − 7) << shift, its low byte, which may be all of it */
    __m512i level_high; /* and its high byte */
    __m512i signs;      /* lossless half 1: sign in bit 7, mantissa where the element has it */
    __m512i field_shift; /* where in its 8 bytes a field begins */
    __m512i field_mask;
    __mmask64 field_bytes;
    __mmask64 escaping; /* units whose symbol 15 is the escape */
    uint32_t low_at;    /* of the row's low bits */
} step_tables;

/* Where channels come from, in the order in which unpacking bytes makes words of them: a position's
 * low 8 bits, and its bit 8. */
typedef struct {
    __m512i from;
    __mmask64 odd;  /* of pairs of steps */
    __mmask64 high; /* above 256 */
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

/* A row by position: bytes of 2k − a sgn k. The high ones are there if it is wide. */
typedef struct {
    _Alignas(64) uint8_t low[SKY_WIDTH_MAX];
    _Alignas(64) uint8_t high[SKY_WIDTH_MAX];
} planes;

/* Rows wait as planes where levels have room. */
_Static_assert(sizeof(planes) == sizeof(int16_t[SKY_WIDTH_MAX]), "planes do not fit");

/* ---- into the order of channels ---- */

/* Bytes of 64 channels, from bytes by position. */
static inline __m512i reorder(const order_tables *o, const uint8_t *n, uint32_t steps) {
    const __m512i *in = (const __m512i *)n;
    __m512i out = _mm512_permutex2var_epi8(in[0], o->from, in[1]);
    if (steps > 2) {
        out = _mm512_mask_blend_epi8(o->odd, out, _mm512_permutex2var_epi8(in[2], o->from, in[3]));
        if (steps > 4) {
            __m512i high = _mm512_permutex2var_epi8(in[4], o->from, in[5]);
            high = _mm512_mask_blend_epi8(o->odd, high,
                                          _mm512_permutex2var_epi8(in[6], o->from, in[7]));
            out = _mm512_mask_blend_epi8(o->high, out, high);
        }
    }
    return out;
}

/* Levels of 64 channels. */
static inline void levels_of(const order_tables *o, const planes *p, uint32_t steps, bool wide,
                             __m512i n[2]) {
    __m512i low = reorder(o, p->low, steps);
    __m512i high = wide ? reorder(o, p->high, steps) : _mm512_movm_epi8(_mm512_movepi8_mask(low));
    n[0] = _mm512_unpacklo_epi8(low, high);
    n[1] = _mm512_unpackhi_epi8(low, high);
}

/* ---- beside the chain ---- */

/* Two rows that wait come into the order of channels while one row is decoded, and are restored
 * while the next one is: four pieces of work a step. */
typedef enum { NOTHING, ORDERING, SCALING, TURNING } occupation;

typedef struct {
    const sky_waiting *of; /* NULL: none */
    const decode_tables *tables;
    uint32_t steps;
    chunk at;
    uint32_t left;                                 /* chunks */
    uint32_t angles;                               /* to turn on */
    _Alignas(64) int16_t levels[2][SKY_WIDTH_MAX]; /* of token 0 and 1 */
} waiting_rows;

/* Levels of 64 channels of both tokens. */
INLINE void order_step(waiting_rows *w, uint32_t step) {
    const order_tables *o[2] = {&w->tables->order[0][step], &w->tables->order[1][step]};
    const planes *rows[2] = {(const planes *)w->of->levels[0], (const planes *)w->of->levels[1]};
    const __m512i ones = _mm512_set1_epi8(1), sign = _mm512_set1_epi8(-128);
    const __m512i by_turns = _mm512_set1_epi16((short)0xff01);
    int16_t *out[2] = {w->levels[0] + step * SKY_LANES, w->levels[1] + step * SKY_LANES};
    __m512i n[2][2];
    if (w->of->wide[0] || w->of->wide[1]) {
        levels_of(o[0], rows[0], w->steps, w->of->wide[0], n[0]);
        levels_of(o[1], rows[1], w->steps, w->of->wide[1], n[1]);
        for (uint32_t i = 0; i < 2; i++) {
            __m512i sum = n[0][i];
            n[0][i] = _mm512_add_epi16(sum, n[1][i]);
            n[1][i] = _mm512_sub_epi16(sum, n[1][i]);
        }
    } else {
        __m512i sum = reorder(o[0], rows[0]->low, w->steps);
        __m512i difference = reorder(o[1], rows[1]->low, w->steps);
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

/* What is done beside a step. */
typedef struct {
    occupation what;
    uint32_t step;
    waiting_rows *rows;
} beside;

INLINE void do_beside(const beside *b, uint32_t piece) {
    waiting_rows *w = b->rows;
    if (b->what == ORDERING && piece == 0 && w->of)
        order_step(w, b->step);
    if (b->what == ORDERING && piece >= 2)
        for (uint32_t pair = 2 * b->step * LANES; pair < 2 * (b->step + 1) * LANES; pair += LANES)
            if (pair < w->angles)
                turn_on(w->of->t, piece - 2, pair);
    if (b->what >= SCALING && w->left) {
        restore_chunk(w->of, &w->at, piece % 2, b->what == TURNING);
        if (piece % 2) {
            next_chunk(w->of, &w->at);
            w->left--;
        }
    }
}

/* ---- from state to state ---- */

/* Low bytes of words from x, high ones from y. */
static inline __m512i halves_from(__m512i x, __m512i y) {
    return _mm512_ternarylogic_epi64(_mm512_set1_epi16(0x00ff), x, y, 0xca);
}

/* `x`, and `one` more for each of some starts that the slot has reached. */
static inline __m512i count_reached(__m512i slot, const __m512i *start, int count, __m512i x,
                                    __m512i one) {
    for (int j = 0; j < count; j++)
        x = _mm512_mask_add_epi8(x, _mm512_cmpge_epu8_mask(slot, start[j]), x, one);
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

/* A step on its way, from one stage to the next. `signs` are of lossless half 1, which has no
 * symbol below 8. */
typedef struct {
    __m512i slot;
    __m512i at; /* the quarter, and 4 where a is set */
    __m512i start[3];
    distances d;
} stride;

INLINE void find_quarters(const step_tables *t, const uint8_t *trellis, a_bit a_is, bool signs,
                          const states *s, stride *x) {
    const int first = signs ? 2 : 0;
    __m512i a4 = _mm512_setzero_si512();
    x->slot = s->low;
    x->d = (distances){s->low, s->low};
    if (a_is != A_ZERO)
        a4 = _mm512_and_si512(_mm512_load_si512(trellis), _mm512_set1_epi8(4));
    for (int j = first; j < 3; j++)
        x->start[j] = a_is != A_ZERO ? _mm512_shuffle_epi8(t->quarter[j], a4) : t->quarter[j];
    x->at = signs ? _mm512_or_si512(a4, _mm512_set1_epi8(2)) : a4;
    x->at = count_reached(x->slot, x->start + first, 3 - first, x->at, _mm512_set1_epi8(1));
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

/* Numbers of symbols: i + 4c for symbol 4i + c. */
INLINE __m512i symbols_of(const stride *x, a_bit a_is) {
    __m512i at = a_is != A_ZERO ? _mm512_and_si512(x->at, _mm512_set1_epi8(3)) : x->at;
    return count_reached(x->slot, x->start, 3, at, _mm512_set1_epi8(4));
}

/* Step the states, all but the bytes from the stream. Returns symbols_of. */
INLINE __m512i decode_step(const step_tables *t, const uint8_t *trellis, a_bit a_is, states *s,
                           const beside *b) {
    stride x;
    find_quarters(t, trellis, a_is, false, s, &x);
    do_beside(b, 0);
    find_starts(t, false, &x);
    do_beside(b, 1);
    measure(x.slot, x.start, 3, &x.d);
    do_beside(b, 2);
    next_states(s, &x.d);
    do_beside(b, 3);
    return symbols_of(&x, a_is);
}

/* A byte for every state below 256. */
static inline const uint8_t *refill(states *s, const uint8_t *in) {
    __mmask64 short_ones = _mm512_testn_epi8_mask(s->high, s->high);
    s->high = _mm512_mask_mov_epi8(s->high, short_ones, s->low);
    s->low = _mm512_mask_expand_epi8(s->low, short_ones, _mm512_loadu_si512(in));
    return in + __builtin_popcountll(short_ones);
}

/* What escapes need to know of the row. */
typedef struct {
    _Alignas(64) uint8_t trellis[SKY_WIDTH_MAX]; /* before it */
    __mmask64 escapes[STEPS_MAX];
} scratch;

/* Bits a that half 0 of a lossless row sets: of the next row, and of half 1. */
static inline void set_contexts(sky_coder *rows, uint32_t place, __m512i k) {
    const __m512i four = _mm512_set1_epi8(4), bias = _mm512_set1_epi8(-SKY_EXACT_BIAS);
    uint32_t pads = rows->steps * SKY_LANES - rows->width;
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

#endif
