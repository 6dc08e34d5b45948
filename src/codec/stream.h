/* The bytes of a stream (docs/formats/skv.md), shared by encoder and decoder.
 *
 *   | header 24 | fineness of pairs, if so flagged | first token as it is, if so flagged | tile | …
 *
 * A lossy tile:
 *   flags u8 │ 0 u8 │ exceptions u16 │ D f32 │ exceptions: token u16, channel u16, element │
 *   mean f16 [width], unless the profile's │ order keys, if own: a nibble a channel, two halves │
 *   classes, if own: a byte a unit, two halves │ 64 states u16 │ rows
 * A lossless tile: the same with D 1 and no exceptions; in place of the mean, if own order, usual
 * exponents [width], and keys for one half.
 * A raw tile: flags u8 │ elements [token, head, dim]. */
#ifndef SKY_CODEC_STREAM_H
#define SKY_CODEC_STREAM_H

#include "base/tensor.h"
#include "codec/exact.h"
#include "codec/profile.h"
#include "codec/rows.h"
#include "codec/transform.h"

/* Version 2 has what 1 has and fineness, which it is for: a stream without is of version 1. */
#define SKY_STREAM_VERSION   2
#define SKY_STREAM_BYTES_MAX UINT32_MAX /* as a container's directory says it */

enum {
    SKY_STREAM_PLAIN = 1,      /* rounding instead of the trellis */
    SKY_STREAM_FIRST_RAW = 2,  /* token 0 travels as it is */
    SKY_STREAM_ROPE = 4,       /* turned back by the profile's rope */
    SKY_STREAM_MEAN = 8,       /* the profile's mean */
    SKY_STREAM_PAIRS = 16,     /* the profile's pairs */
    SKY_STREAM_KLT = 32,       /* the profile's full matrix */
    SKY_STREAM_TABLES = 64,    /* the profile's tables (lossless) */
    SKY_STREAM_FINENESS = 128, /* pairs of tokens have steps of their own (fineness.h) */
    SKY_STREAM_FLAGS = 255,
};
#define SKY_STREAM_OF_PROFILE                                                                      \
    (SKY_STREAM_ROPE | SKY_STREAM_MEAN | SKY_STREAM_PAIRS | SKY_STREAM_KLT | SKY_STREAM_TABLES)

enum {
    SKY_TILE_RAW = 1,
    SKY_TILE_OWN_ORDER = 2,   /* else the profile's, or none when it has none */
    SKY_TILE_OWN_CLASSES = 4, /* else the profile's */
    SKY_TILE_FLAGS = 7,
};
#define SKY_TILE_HEAD_BYTES 8 /* flags … D */
#define SKY_EXCEPTIONS_MAX  512

typedef struct {
    uint8_t level;
    uint8_t flags;
    uint64_t profile_id;
} sky_stream_header;

void sky__stream_header_write(const sky_stream_header *header, const sky_stream_shape *shape,
                              uint8_t *out);
/* Errors: SKY_E_CORRUPT (also: a header of another shape), SKY_E_UNSUPPORTED */
sky_status sky__stream_header_read(const uint8_t *in, size_t bytes, const sky_stream_shape *shape,
                                   sky_stream_header *out);

bool sky__stream_shape_valid(const sky_stream_shape *shape);
/* A stream that is all there, and where its tokens' rows go, anywhere: heads lie head_bytes apart.
 * Shape:  rows [token_count] */
typedef struct {
    sky_stream_shape shape;
    const void *data;
    size_t bytes;
    uint8_t *const *rows;
    size_t head_bytes;
} sky__stream_to;

/* sky_decode of one of them, or sky_decode_two of two. libskymem calls it, in libskymem-codec. */
SKY_API sky_status sky__decode_rows(const sky_profile *profile, const sky__stream_to *streams,
                                    uint32_t count, void *work);

/* Can a valid shape's rows lie there? */
bool sky__tensor_holds(const sky_tensor *tensor, const sky_stream_shape *shape);

/* Bytes of a coded tile's head behind its first SKY_TILE_HEAD_BYTES: exceptions … states. A
 * lossless one has no exceptions. */
size_t sky__tile_head_bytes(const sky_stream_header *header, sky_element element, uint32_t width,
                            uint8_t tile_flags, uint32_t exceptions);

/* What a profile says about a stream, taken apart. All NULL and 0 for no profile. */
typedef struct {
    const sky_profile_stream *stream;
    const sky_rope *rope;
    uint64_t id;
} sky_stream_profile;

/* Errors: SKY_E_PARAM: the profile is not sealed, or of another shape */
sky_status sky__stream_profile(const sky_profile *profile, const sky_stream_shape *shape,
                               sky_stream_profile *out);

/* Where a tile lies in its stream. */
typedef struct {
    uint32_t token; /* of the stream, and how many */
    uint32_t tokens;
    uint32_t slice;
    uint32_t head; /* first head, and how many */
    uint32_t heads;
    uint32_t width;
} sky_tile;

/* The tile after *tile, which begins as {0} with `first` the first coded token; false after the
 * last. */
typedef struct {
    sky_slices slices;
    uint32_t heads;
    uint32_t dim;
    uint32_t tokens;
    uint32_t token;
    uint32_t slice;
} sky_tiles;

sky_tiles sky__tiles_of(const sky_stream_shape *shape, bool first_raw);
bool sky__tiles_next(sky_tiles *tiles, sky_tile *out);

/* Fill in all of a tile's transform but mean and scale. `flags` of the stream. */
void sky__tile_transform(const sky_stream_profile *profile, const sky_stream_shape *shape,
                         uint8_t flags, const sky_tile *tile, bool encode, sky_transform *out);

/* Order a tile's rows by the profile, or not at all. */
void sky__tile_order(const sky_stream_profile *profile, const sky_stream_shape *shape,
                     const sky_tile *tile, sky_basis basis, sky_coder *rows);

/* A tile's lossless coder: its shape, and when `calibrated` usual exponents, order and classes. */
void sky__tile_exact(const sky_stream_profile *profile, const sky_stream_shape *shape,
                     const sky_tile *tile, bool calibrated, sky_exact *out, sky_coder *rows);

/* The profile's classes of a tile's half; NULL when it has none. */
const uint8_t *sky__tile_classes(const sky_stream_profile *profile, const sky_stream_shape *shape,
                                 const sky_tile *tile, sky_level level, bool dependent,
                                 uint32_t half);

#endif
