/* What decoding and encoding rows by AVX-512 share. Only for files compiled for it. */
#ifndef SKY_CODEC_ROWS_AVX512_H
#define SKY_CODEC_ROWS_AVX512_H

#include <immintrin.h>

#include "codec/rows.h"

#define STEPS_MAX (SKY_WIDTH_MAX / SKY_LANES)

/* 64 states, by position: low and high bytes. A unit's words 0 … 7 and 8 … 15 come apart by
 * unpacking. */
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

#endif
