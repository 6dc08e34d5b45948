/* How a stream's rows are cut: slices of whole heads, segments of tokens, tiles of both.
 *
 *            head 0   head 1 │ head 2   head 3 │ head 4
 *   token 0  ────────────────┼─────────────────┼───────      a tile: one segment of one slice,
 *     …          tile 0      │     tile 1      │ tile 2      coded by itself; in the stream
 *   token 127────────────────┼─────────────────┼───────      segment by segment, slice by slice
 *   token 128     tile 3     │     …
 *
 * A slice is as many heads as fit 256 channels (one, when a head is larger). Coded, it is padded to
 * a multiple of 64 channels with channels that are always zero. A tile holds at most
 * SKY_TILE_ELEMENTS coded elements. */
#ifndef SKY_CODEC_SLICES_H
#define SKY_CODEC_SLICES_H

#include <skymem/codec.h>

#define SKY_LANES          64u
#define SKY_UNIT           16u
#define SKY_SLICE_CHANNELS 256u
#define SKY_WIDTH_MAX      512u
#define SKY_UNITS_MAX      (SKY_WIDTH_MAX / SKY_UNIT)
#define SKY_TILE_ELEMENTS  32768u

typedef struct {
    uint32_t heads_max; /* of a slice */
    uint32_t count;
    uint32_t padded_max;     /* channels of a full slice, padded */
    uint32_t segment_tokens; /* of a tile, even */
} sky_slices;

static inline uint32_t sky_padded(uint32_t width) {
    return (width + SKY_LANES - 1) / SKY_LANES * SKY_LANES;
}

static inline sky_slices sky_slices_of(uint32_t heads, uint32_t dim) {
    sky_slices s;
    s.heads_max = dim >= SKY_SLICE_CHANNELS ? 1 : SKY_SLICE_CHANNELS / dim;
    if (s.heads_max > heads)
        s.heads_max = heads;
    s.count = (heads + s.heads_max - 1) / s.heads_max;
    s.padded_max = sky_padded(s.heads_max * dim);
    s.segment_tokens = SKY_TILE_ELEMENTS / s.padded_max / 2 * 2;
    return s;
}

static inline uint32_t sky_slice_heads(const sky_slices *s, uint32_t heads, uint32_t slice) {
    uint32_t left = heads - slice * s->heads_max;
    return left < s->heads_max ? left : s->heads_max;
}

#endif
