/* What a sealed profile holds, for the encoder and the decoder.
 *
 *   profile ─ streams[2 × layer + kv] ─ mean, matrices g (decode) and f (encode), steps
 *                                    ├─ order keys by basis and half
 *                                    └─ classes by level, trellis, half
 *
 * Invariants: every float is finite; order keys may be any bytes (they are sorted by, not indexed
 * with); classes may be any bytes. A pointer is NULL when the profile says nothing about it. */
#ifndef SKY_CODEC_PROFILE_H
#define SKY_CODEC_PROFILE_H

#include "codec/rope.h"
#include "codec/slices.h"

#define SKY_LOSSY_LEVELS (SKY_LEVEL_COUNT - 1) /* all but SKY_LEVEL_LOSSLESS */

#define SKY_KLT_PANEL 64u

/* Floats of a head's full matrix, which lies in panels of columns: [panel][row][column]. */
static inline size_t sky_klt_floats(uint32_t dim) {
    return (size_t)dim * ((dim + SKY_KLT_PANEL - 1) / SKY_KLT_PANEL * SKY_KLT_PANEL);
}
static inline size_t sky_klt_at(uint32_t dim, uint32_t row, uint32_t column) {
    uint32_t panel = column / SKY_KLT_PANEL;
    return ((size_t)panel * dim + row) * SKY_KLT_PANEL + column % SKY_KLT_PANEL;
}

typedef struct {
    uint32_t heads;
    uint32_t dim;
    uint32_t channels; /* heads × dim */
    uint32_t units;    /* of all slices, padded: slice s begins at s × padded_max / 16 */
    float *mean;       /* [channels] */
    float *g;          /* [4][heads × pairs], pairs = dim / 2 rounded down */
    float *f;          /* its inverses; derived */
    float *klt_g;      /* [heads] of sky_klt_floats, aligned to 64 bytes, 0 past the last column */
    float *klt_f;
    float step[SKY_LEVEL_COUNT][2]; /* by level and dependent; 0: none */
    uint8_t *order[2];              /* by basis: [half][channels] */
    uint16_t *sorted[2];            /* by basis: [half][channels by order, then the place of each]
                                       [units × 16]; derived */
    uint8_t *classes;               /* [level − 1][dependent][half][units] */
    bool fitted[SKY_LEVEL_COUNT][2];
    int8_t *weights;   /* [channels]: fineness of tokens (fineness.h) by rows without their mean */
    float weight_unit; /* of weights, in steps of √2 */
    uint8_t *exact;    /* lossless: usual exponents (f32's), sort keys, classes: sky_exact_bytes */
    uint32_t short_parts; /* flags of what a file has in less bytes; 0: nothing */
} sky_profile_stream;

/* Of a stream's flags in a file (docs/formats/skycal.md). */
enum {
    SKY_SHORT_MEAN = 32,  /* every number of mean is an f16 */
    SKY_SHORT_PAIRS = 64, /* … of g */
    SKY_SHORT_ORDER = 128 /* order keys of the full matrix are 0 */
};

struct sky_profile {
    uint32_t layer_count;
    uint32_t rope_count;
    sky_profile_layer *layers;
    sky_rope *ropes;
    sky_profile_stream *streams; /* [2 × layer_count] */
    uint32_t *model_layers;      /* [layer_count]; NULL: layer i is the model's layer i */
    uint8_t fingerprint[32];
    uint64_t id; /* 0 until sealed */
    bool sealed;
    bool rounded; /* short_parts may be set, and a file has them so */
};

static inline bool sky_kv_valid(sky_kv kv) {
    return kv == SKY_KV_K || kv == SKY_KV_V;
}

/* The stream, or NULL when the profile has no such layer, or it is neither K nor V. */
const sky_profile_stream *sky__profile_stream(const sky_profile *profile, uint32_t layer,
                                              sky_kv kv);
/* Step that is set, 0 when none is. */
float sky_profile_step(const sky_profile *profile, uint32_t layer, sky_kv kv, sky_level level,
                       bool dependent);
/* The rope that turns this stream's rows; NULL for V. */
const sky_rope *sky__profile_rope_of(const sky_profile *profile, uint32_t layer, sky_kv kv);

/* Classes of one half of a level, slice 0 first; NULL when they were not fitted. */
const uint8_t *sky__profile_classes(const sky_profile_stream *stream, sky_level level,
                                    bool dependent, uint32_t half);

static inline sky_basis sky_basis_of(const sky_profile_stream *stream, sky_level level) {
    return level == SKY_LEVEL_ARCHIVE && stream && stream->klt_g ? SKY_BASIS_KLT : SKY_BASIS_PAIR;
}

/* Set g, as four arrays, and f from it. Errors: SKY_E_PARAM, SKY_E_NOMEM */
sky_status sky__profile_pairs(sky_profile_stream *stream, const float *g);

/* Set a full matrix from rows of each head. Shape: x [heads, dim, dim]. Errors: SKY_E_NOMEM */
sky_status sky__profile_klt(const sky_profile_stream *stream, float **place, const float *x);

/* Channels of every slice in order, for a profile that is sealed. Errors: SKY_E_NOMEM */
sky_status sky__profile_sort(sky_profile *profile);

/* Bytes of `exact`. */
static inline size_t sky_exact_bytes(const sky_profile_stream *s) {
    return 2 * (size_t)s->channels + 2 * (size_t)s->units;
}

/* For the fitting of a stream: room for its tables, which it may then write. */
sky_status sky__profile_room(sky_profile_stream *stream);

#endif
