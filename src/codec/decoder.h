/* What a decoder keeps between the pieces of a stream (decode.c), and where rows go. */
#ifndef SKY_CODEC_DECODER_H
#define SKY_CODEC_DECODER_H

#include <assert.h>

#include "codec/fineness.h"
#include "codec/kernels.h"
#include "codec/stream.h"

#define SLACK          64 /* kernels may read this far past a unit */
#define UNIT_BYTES_MAX 8192

typedef enum {
    AT_HEADER,
    AT_FINENESS,
    AT_FIRST_TOKEN,
    AT_TILE,
    AT_TILE_HEAD,
    AT_RAW_ROW,
    AT_ROWS,
    AT_EXACT_ROW,
    AT_END
} stage;

typedef struct {
    uint16_t token;
    uint16_t channel;
    uint8_t element[4];
} exception;

struct sky_decoder {
    sky_coder rows;
    sky_transform transform;
    sky_exact exact;
    _Alignas(64) int16_t levels[2 * SKY_PAIRS_MAX][SKY_WIDTH_MAX]; /* of rows */
    sky_tables tables;
    exception exceptions[SKY_EXCEPTIONS_MAX];
    _Alignas(64) uint8_t carry[2 * UNIT_BYTES_MAX + SLACK]; /* a unit begins in its first half */

    const sky_codec_kernels *kernels;
    const sky_profile *profile;
    sky_stream_profile taken;
    sky_stream_shape shape;
    uint8_t *row_at[SKY_STREAM_TOKENS_MAX]; /* where each token's goes */
    size_t row_head_bytes;
    sky_stream_header header;
    sky_tiles tiles;
    sky_tile tile;
    stage at;
    sky_status failed; /* SKY_OK, or what every later call returns */
    size_t left;       /* bytes of the stream not decoded yet, carry's among them */
    size_t carried;
    uint32_t token; /* of the tile, or head of the first token: next to decode */
    uint32_t head;  /* of a raw row */
    uint32_t exception_count;
    uint32_t exception_next;
    uint32_t done_tokens; /* every row before is written */
    uint8_t tile_flags;
    float D;
    uint8_t fineness[SKY_FINENESS_PAIRS]; /* all usual, where there is none */
    uint8_t fineness_used;                /* that rows and scales are of */
};

static_assert(sizeof(sky_decoder) <= SKY_DECODER_BYTES, "the decoder is too large");
static_assert(SKY_TILE_HEAD_BYTES + SKY_EXCEPTIONS_MAX * 8 + SKY_WIDTH_MAX * 3 + 2 * SKY_UNITS_MAX +
                      SKY_STATE_BYTES <=
                  UNIT_BYTES_MAX,
              "a tile's head is too long");
static_assert(2 * (3 * SKY_WIDTH_MAX + 2 * SKY_SHIFT_MAX * SKY_UNITS_MAX) <= UNIT_BYTES_MAX,
              "a pair of rows is too long");

static inline size_t head_bytes(const sky_decoder *d) {
    return (size_t)d->shape.head_dim * sky_element_bytes(d->shape.element);
}

static inline uint8_t *row_at(const sky_decoder *d, uint32_t token, uint32_t head) {
    return d->row_at[token] + head * d->row_head_bytes;
}

/* How many tokens, of at most so many, follow each other at one stride from this one on: all, but
 * where pages end. */
static inline uint32_t run_at(const sky_decoder *d, uint32_t token, uint32_t most,
                              ptrdiff_t *stride) {
    uint8_t *const *at = d->row_at + token;
    uint32_t count = most < 2 ? most : 2;
    *stride = count < 2 ? 0 : (ptrdiff_t)((uintptr_t)at[1] - (uintptr_t)at[0]);
    while (count < most && (ptrdiff_t)((uintptr_t)at[count] - (uintptr_t)at[count - 1]) == *stride)
        count++;
    return count;
}

#endif
