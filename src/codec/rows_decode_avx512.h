/* What decoding rows by AVX-512 (VBMI, VBMI2) shares: tables, the order of channels, contexts of
 * lossless rows. Only for files compiled for it.
 *
 * A step of 64 symbols is a vector of bytes; a unit of 16 channels is one 128-bit lane of it, so a
 * table of 16 entries is looked up by vpshufb, each unit in its own. The 64 states are planes too,
 * of their low bytes (the slots) and their high bytes. How a symbol is found, and what labels and
 * indices are: rows_chain_avx512.h.
 *
 * One chain leads from state to state and decoding waits for it, so what symbols stand for is made
 * a step later. */
#ifndef SKY_CODEC_ROWS_DECODE_AVX512_H
#define SKY_CODEC_ROWS_DECODE_AVX512_H

#include <immintrin.h>

#include "codec/exact.h"
#include "codec/rows.h"

#define STEPS_MAX (SKY_WIDTH_MAX / SKY_LANES)
/* What is known of a row is constant inside: one body for each kind. */
#define INLINE static inline __attribute__((always_inline))

/* What the levels of escapes are until they are read, by whether there is a: each byte is below any
 * that a symbol gives. */
#define ESCAPED      ((int16_t)0x8080)
#define ESCAPED_BY_A ((int16_t)0xc0c0)

/* What one step of 64 positions looks up, in each unit by index (starts to compare with) or label.
 * Numbers are those of the bank's symbols, but that lossless signs, which end with symbol 10, are 8
 * to 15: the last one has a slot. Starts to compare with are biased (x ^ 128), as that is done with
 * a sign.
 * Without the room at the end these were 1024 bytes each, of which the same lines of all are in few
 * sets of a cache: one lossless stream took a quarter longer. */
typedef struct {
    __m512i first[3]; /* without a: starts of numbers 4, 8 and 12; with: of 8, of 4 and 12 */
    __m512i middle;   /* of the middle of a quarter */
    __m512i odd;
    __m512i factor[2]; /* by a: 256 − frequency; without: the frequency, of which 256 is 0 */
    __m512i start[2];
    __m512i level;       /* (symbol − 7) << shift, its low byte, which may be all of it */
    __m512i level_high;  /* and its high byte */
    __m512i signs;       /* lossless half 1: sign in bit 7, mantissa where the element has it */
    __m512i field_from;  /* a row's low bits for eight fields, in eight bytes */
    __m512i field_shift; /* where in those a field begins */
    __m512i field_mask;
    bool wide;        /* a level without an escape may not fit a byte */
    __mmask64 fields; /* that have bits */
    uint32_t low_at;  /* of the row's low bits */
    bool few_bytes;   /* no more than 32 of them: fewer loads go across a line of the cache */
    __m512i room;
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
    uint8_t wide[2]; /* bits of the steps that are */
} decode_tables;

_Static_assert(sizeof(decode_tables) <= SKY_VECTOR_TABLES_BYTES, "tables are too large");

/* What bit a is, of the trellis or of lossless tables; of signs no number is below 8. */
typedef enum { A_ZERO, A_GIVEN, A_OF_SIGNS, A_STEPPED } a_bit;

static inline a_bit a_of(const sky_coder *rows) {
    return !rows->plain ? A_STEPPED : rows->exact ? A_GIVEN : A_ZERO;
}

/* A row by position: bytes of k where it is plain, of 2k − a sgn k where it is not. High ones are
 * there of the steps that are wide; those of others are the signs of the low ones. */
typedef struct {
    _Alignas(64) uint8_t low[SKY_WIDTH_MAX];
    _Alignas(64) uint8_t high[SKY_WIDTH_MAX];
    uint8_t wide; /* bits of steps; 0: the row is narrow */
} planes;

/* ---- into the order of channels ---- */

/* Bytes of 64 channels, from bytes by position. */
INLINE __m512i reorder_row(const order_tables *o, const __m512i *in, uint32_t steps) {
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

static inline __m512i sign_of(__m512i bytes) {
    return _mm512_movm_epi8(_mm512_movepi8_mask(bytes));
}

/* Levels of 64 channels. Wide: every step is. */
static inline void levels_of(const order_tables *o, const planes *p, uint32_t steps, bool wide,
                             __m512i n[2]) {
    __m512i low = reorder_row(o, (const __m512i *)p->low, steps);
    __m512i high = wide ? reorder_row(o, (const __m512i *)p->high, steps) : sign_of(low);
    n[0] = _mm512_unpacklo_epi8(low, high);
    n[1] = _mm512_unpackhi_epi8(low, high);
}

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
