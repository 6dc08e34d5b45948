/* The codec: rows of a KV cache to fewer bytes and back. Bytes to bytes: no allocation while it
 * codes, no global state, no I/O; the same bytes on every machine, and in every thread, whatever it
 * does with subnormals.
 *
 *   rows [token, head, dim] ──► keys: rope undone ─► mean off ─► 2×2 per pair ─┐
 *                                                                              ▼
 *   stream ◄── rANS, a table per class ◄── levels k ◄── quantise ◄── sums and differences
 *              of channels                  (8-state trellis         of two tokens
 *                                            or plain rounding)
 *
 * A **stream** is one layer's K or V of one block of tokens, and decodes alone. A **profile** is
 * what calibration knows of a model: means, matrices, steps, classes; made once per model, side
 * data of its namespace. Without one everything works, worse. A **container** (.skv) holds the
 * streams of a block, layer by layer, each at its own level.
 *
 * Surprises: decoding needs the profile the encoder had; it is named by an id in every stream and a
 * wrong one is refused. In lossy levels elements that no level can hold (NaN, infinities, values so
 * near the type's largest that their error could make them infinite) travel as they are and come
 * back bit for bit; the first token of a context travels as it is too, when asked. Zeros and
 * subnormals are values like others: a lossy level returns something near them. How near: plain
 * rounding is at most step / √2 off, the trellis twice that, in the basis of the levels; the
 * profile's matrices and rope spread that over channels. Weights of tokens make a pair's step up to
 * √2 times as large, or half. No step is below 2·10^-36 before that.
 * SKY_LEVEL_LOSSLESS returns every bit. A bare stream carries no checksum: flipped bits in it may
 * decode to other rows. The container has one for each stream; a program that stores streams
 * without a container must bring one.
 *
 * Without a profile the step is a part of the block's own rms. Values that stand out of it by far
 * (128 times the mean distance, no more than one in 1024) are left out of the rms; where more are,
 * they make it coarse for all.
 *
 * Wrong use (NULL but where a declaration allows it, a shape or number out of range): SKY_E_PARAM
 * where there is a status; else 0, NULL, SKY_LAYER_NONE, or nothing is done.
 *
 * Formats: docs/formats/skv.md (streams, container), docs/formats/skycal.md (profile). */
#ifndef SKYMEM_CODEC_H
#define SKYMEM_CODEC_H

#include <skymem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- levels ---- */

/* From exact to smallest, and their names in this order. */
#define SKY_LEVEL_NAMES "lossless|8|6|4|3|2.5|2|archive"
typedef enum {
    SKY_LEVEL_LOSSLESS = 0,
    SKY_LEVEL_8 = 1,
    SKY_LEVEL_6 = 2,
    SKY_LEVEL_4 = 3,
    SKY_LEVEL_3 = 4,
    SKY_LEVEL_2_5 = 5,
    SKY_LEVEL_2 = 6,
    SKY_LEVEL_ARCHIVE = 7, /* a full matrix per head: slow, smallest at equal quality */
} sky_level;
#define SKY_LEVEL_COUNT 8

/* "4", "2.5", …; NULL for no level. */
SKY_API const char *sky_level_name(sky_level level);
/* Errors: SKY_E_SYNTAX, SKY_E_PARAM (NULL) */
SKY_API sky_status sky_level_parse(const char *name, sky_level *level);
/* Bits an element takes, typically, f16 in, with a profile. */
SKY_API double sky_level_bits_typical(sky_level level);

/* ---- rope ---- */

#define SKY_HEAD_DIM_MAX      512
#define SKY_ROW_ELEMENTS_MAX  65536 /* kv_heads × head_dim */
#define SKY_STREAM_TOKENS_MAX 512
#define SKY_ROPE_PAIRS_MAX    (SKY_HEAD_DIM_MAX / 2)

typedef enum {
    SKY_ROPE_NONE = 0,
    SKY_ROPE_NEOX = 1,        /* pairs (i, i + pair_count) */
    SKY_ROPE_INTERLEAVED = 2, /* pairs (2i, 2i + 1) */
} sky_rope_kind;

/* How positions turn keys: pair i by position × turns[i] / 2^32 of a full turn, modulo one turn.
 * Dimensions from 2 × pair_count on are not turned. Whole numbers, so that angles are the same
 * everywhere. A magnitude the model puts on top (YaRN's) is not undone and need not be. */
typedef struct {
    sky_rope_kind kind;
    uint32_t pair_count; /* rotated dimensions / 2 */
    uint32_t turns[SKY_ROPE_PAIRS_MAX];
} sky_rope;

/* The usual frequencies: base^(−i / pair_count) radians a position, times frequency_scale (1 / the
 * linear scaling factor; 1 for none), divided by factors[i] when there are (Llama 3's and YaRN's
 * corrections, as ggml's freq_factors).
 * Shape:  factors [rotated_dims / 2] or NULL
 * Errors: SKY_E_PARAM (odd or more than SKY_HEAD_DIM_MAX, base, scale or a factor not above
 *         0) */
SKY_API sky_status sky_rope_init(sky_rope *rope, sky_rope_kind kind, uint32_t rotated_dims,
                                 double base, double frequency_scale, const float *factors);

/* Turn the rows of consecutive positions back (undo) or forth, for those who calibrate. What the
 * codec does but for some 2^-16: within a tile it takes a position's angles from those of the
 * position two before, this computes each. Nothing is done with a rope of more dimensions than
 * head_dim.
 * Shape:  rows [token_count, kv_heads, head_dim] f32 */
SKY_API void sky_rope_apply(const sky_rope *rope, bool undo, uint32_t first_position, float *rows,
                            uint32_t token_count, uint32_t kv_heads, uint32_t head_dim);

/* ---- profile ---- */

/* Two bases in which streams are quantised: pairs for the levels 8 … 2, a full matrix per head for
 * the archive level. */
typedef enum { SKY_BASIS_PAIR = 0, SKY_BASIS_KLT = 1 } sky_basis;

typedef struct {
    uint32_t kv_heads;
    uint32_t k_dim; /* per head, K and V: 1 … SKY_HEAD_DIM_MAX */
    uint32_t v_dim;
    uint32_t rope; /* index into ropes; SKY_ROPE_OF_NONE: keys are not turned */
} sky_profile_layer;
#define SKY_ROPE_OF_NONE UINT32_MAX
#define SKY_ROPES_MAX    16

typedef struct {
    uint32_t layer_count; /* 1 … SKY_LAYERS_MAX */
    const sky_profile_layer *layers;
    uint32_t rope_count;
    const sky_rope *ropes;
    uint8_t fingerprint[32]; /* of the model, as its engine adapter tells */
} sky_profile_shape;

/* What calibration knows of a model. Built by the setters, or read from a .skycal; then sealed, and
 * from then on read-only and free to be used from many threads. */
typedef struct sky_profile sky_profile;

/* A profile that knows the shape and the ropes, nothing else yet. The shape is copied.
 * Errors: SKY_E_PARAM, SKY_E_NOMEM */
SKY_API sky_status sky_profile_create(const sky_profile_shape *shape, sky_profile **out);
SKY_API void sky_profile_destroy(sky_profile *profile);

/* Setters, before sealing. Each copies; what is never set takes the value in brackets.
 * Errors: SKY_E_PARAM (sealed already, no such stream or level, not finite, no inverse),
 *         SKY_E_NOMEM */

/* Channel mean, keys before rope. [zeros]
 * Shape:  mean [kv_heads, dim] */
SKY_API sky_status sky_profile_set_mean(sky_profile *profile, uint32_t layer, sky_kv kv,
                                        const float *mean);

/* A 2×2 matrix per pair of channels: for a channel pair (i, j), x_i = y_i g[0] + y_j g[2] and
 * x_j = y_i g[1] + y_j g[3] takes quantised y back to x (keys before rope), mean apart; the encoder
 * uses the inverse. Pairs are those of the layer's rope, then (rotated + i, rotated + n/2 + i) of
 * the n dimensions that are not turned (and, n odd, the last one is left alone); V, and K without
 * rope: (i, dim/2 + i). [identity]
 * Shape:  g [kv_heads, dim / 2][4], rows of dim / 2 rounded down */
SKY_API sky_status sky_profile_set_pairs(sky_profile *profile, uint32_t layer, sky_kv kv,
                                         const float *g);

/* The archive level's matrix: x = y G per head (row vectors), and y = x F; F the inverse of G,
 * as near as 32-bit floats come, else SKY_E_PARAM. [none: the archive level then uses the pairs]
 * Shape:  f, g [kv_heads, dim, dim] */
SKY_API sky_status sky_profile_set_klt(sky_profile *profile, uint32_t layer, sky_kv kv,
                                       const float *f, const float *g);

/* How fine a pair of tokens is coded: its steps are 1 / √2^w of the usual ones. w is the sum over
 * channels of weight × (mean of the pair's two rows − the channel's mean), rounded, and −1 to 2 at
 * most; keys count before rope. Weights are kept as whole numbers of one unit, 127 the largest.
 * [none: all pairs alike]
 * Shape:  weights [kv_heads, dim] */
SKY_API sky_status sky_profile_set_weights(sky_profile *profile, uint32_t layer, sky_kv kv,
                                           const float *weights);

/* Step of a lossy level: distance of two neighbouring levels of plain rounding; with the trellis
 * (dependent) twice the distance of the finest grid. [step from the block's own rms] */
SKY_API sky_status sky_profile_set_step(sky_profile *profile, uint32_t layer, sky_kv kv,
                                        sky_level level, bool dependent, float step);

/* Which layer of the model each layer is, where the cache keeps them in another order (llama.cpp:
 * full layers first, then those with a window). Not part of the id. [0, 1, 2, …]
 * Shape:  model_layers [layer_count], each of 0 … layer_count − 1 once */
SKY_API sky_status sky_profile_set_order(sky_profile *profile, const uint32_t *model_layers);

/* Fit what the entropy coder needs of one stream (order of channels and classes, for every level
 * whose step is set, and tables for lossless) to samples; after mean, matrices and steps, before
 * sealing.
 * Samples are cut into blocks of block_tokens (2 … SKY_STREAM_TOKENS_MAX; of an odd number, one
 * less), the rest is left out; blocks are contiguous tokens.
 * Shape:  rows [token_count, kv_heads, dim] f32, keys before rope
 * Errors: SKY_E_PARAM (sealed already, no such stream, no such block, fewer tokens than one),
 *         SKY_E_NOMEM */
SKY_API sky_status sky_profile_fit(sky_profile *profile, uint32_t layer, sky_kv kv,
                                   const float *rows, uint32_t token_count, uint32_t block_tokens);

/* Derive what coding needs (inverses, id). After it the profile no longer changes; sealing twice is
 * fine. Coding calls refuse a profile that is not sealed.
 * Errors: SKY_E_NOMEM */
SKY_API sky_status sky_profile_seal(sky_profile *profile);

/* Eight bytes that name a sealed profile: streams remember them. 0 stands for no profile. */
SKY_API uint64_t sky_profile_id(const sky_profile *profile);
SKY_API void sky_profile_fingerprint(const sky_profile *profile, uint8_t out[32]);
SKY_API uint32_t sky_profile_layer_count(const sky_profile *profile);
/* Errors: SKY_E_PARAM */
SKY_API sky_status sky_profile_layer_get(const sky_profile *profile, uint32_t layer,
                                         sky_profile_layer *out);
/* How the keys of a layer are rotated. It lives as long as the profile. NULL: they are not rotated,
 * or there is no such layer. */
SKY_API const sky_rope *sky_profile_rope(const sky_profile *profile, uint32_t layer);
/* The model's number of a layer, and the layer that has a number; SKY_LAYER_NONE: there is none. */
SKY_API uint32_t sky_profile_model_layer(const sky_profile *profile, uint32_t layer);
SKY_API uint32_t sky_profile_layer_of(const sky_profile *profile, uint32_t model_layer);
#define SKY_LAYER_NONE UINT32_MAX

/* A sealed profile as bytes (.skycal) and back.
 * Owner:  read copies; the profile is the caller's
 * Errors: write: SKY_E_DST_SMALL, SKY_E_PARAM (not sealed; bytes of NULL: 0)
 *         read: SKY_E_CORRUPT, SKY_E_UNSUPPORTED (a later version), SKY_E_NOMEM */
SKY_API size_t sky_profile_bytes(const sky_profile *profile);
SKY_API sky_status sky_profile_write(const sky_profile *profile, void *dst, size_t dst_bytes_max);
SKY_API sky_status sky_profile_read(const void *data, size_t bytes, sky_profile **out,
                                    sky_error *error);

/* A copy of a sealed profile whose means and matrices of pairs are f16 where those hold them, and
 * which takes about two thirds of the bytes in a file. Its numbers are others, so it is another
 * profile, with an id of its own: what is coded with one is not decoded with the other.
 * Owner:  *out is the caller's, sealed
 * Errors: SKY_E_PARAM (not sealed), SKY_E_NOMEM */
SKY_API sky_status sky_profile_round(const sky_profile *profile, sky_profile **out);

/* ---- streams ---- */

/* Which rows a stream holds. With a profile, heads and dim must be those of its layer. Its rows in
 * memory are a tensor of the same element, heads, dim and number of tokens, in pages or not, a
 * head's elements together; the tensor's first token is the stream's, whatever its number. */
typedef struct {
    uint32_t layer;
    sky_kv kv;
    sky_element element;
    uint32_t token_count; /* 1 … SKY_STREAM_TOKENS_MAX */
    uint32_t kv_heads;
    uint32_t head_dim; /* 1 … SKY_HEAD_DIM_MAX */
    uint32_t first_position;
} sky_stream_shape;

/* Bytes of its rows, packed. 0: no valid shape. */
SKY_API size_t sky_stream_rows_bytes(const sky_stream_shape *shape);

/* The tensor of its rows, packed. Shape: rows [token_count, kv_heads, head_dim] */
static inline sky_tensor sky_stream_packed(const sky_stream_shape *shape, const void *rows) {
    return sky_tensor_packed((void *)rows, shape->element, shape->kv_heads, shape->head_dim, 0,
                             shape->token_count);
}

/* Whose rows are these? Squared distances of their channel means from those of a profile's layers
 * of the same shape; INFINITY: this one has no means, or the rows are not finite. */
typedef struct {
    uint32_t layer; /* the nearest; SKY_LAYER_NONE: no layer of this shape has means */
    double distance;
    double own_distance; /* of the layer they are given out for */
} sky_profile_match;

/* Match rows of V, which no rope turns, so that a wrong order of layers is noticed before it costs
 * bits. `shape` says what they are given out for.
 * Errors: SKY_E_PARAM (shape, tensor; not V), SKY_E_NOMEM */
SKY_API sky_status sky_profile_match_rows(const sky_profile *profile, const sky_stream_shape *shape,
                                          sky_tensor rows, sky_profile_match *out);

typedef struct {
    sky_level level;
    bool plain;           /* round each element by itself: twenty times faster, 0.2 bit worse */
    bool first_token_raw; /* the block's first token is the context's first: keep it as it is */
    float step_scale;     /* finer or coarser than the level, 1e-6 … 1e6; 0 is 1 */
} sky_encode_options;

/* `work` is working memory of a call, aligned to 64 bytes, the caller's: nothing in it outlives the
 * call. A decoder's `memory` is the decoder, as long as it is fed. */
#define SKY_ENCODE_WORK_BYTES (256u << 10)
SKY_API size_t sky_encode_work_bytes(void);

/* The most bytes a stream of this shape takes. 0: no valid shape. */
SKY_API size_t sky_encode_bound(const sky_stream_shape *shape);

/* Encode one stream.
 * Shape:  work [SKY_ENCODE_WORK_BYTES]
 * Owner:  caller owns all; nothing retained. `dst` may be scribbled on up to dst_bytes_max
 * Errors: SKY_E_PARAM (shape, tensor, options, profile of another shape or not sealed),
 *         SKY_E_DST_SMALL (dst_bytes_max below sky_encode_bound)
 * Source: CacheGen §5; differs: docs/formats/skv.md */
SKY_API sky_status sky_encode(const sky_profile *profile, const sky_stream_shape *shape,
                              const sky_encode_options *options, sky_tensor src, void *dst,
                              size_t dst_bytes_max, size_t *dst_bytes, void *work);

/* What a stream says of itself in its first bytes. */
typedef struct {
    sky_level level;
    bool plain;
    bool first_token_raw;
    bool calibrated; /* needs the profile of this id */
    uint64_t profile_id;
} sky_stream_info;
#define SKY_STREAM_HEADER_BYTES 24
/* Shape:  data [at least SKY_STREAM_HEADER_BYTES]
 * Errors: SKY_E_CORRUPT, SKY_E_UNSUPPORTED */
SKY_API sky_status sky_stream_info_read(const void *data, size_t bytes, sky_stream_info *info);

/* Decoding as bytes arrive: feed pieces of any size, in order; rows are written as soon as they can
 * be. The decoder's state is the caller's memory, aligned to 64 bytes; it needs no release.
 * A stream that fails leaves the destination with some rows written. */
#define SKY_DECODER_BYTES (256u << 10)
typedef struct sky_decoder sky_decoder;
SKY_API size_t sky_decoder_bytes(void);

/* Begin. `profile` may be NULL; a stream that needs one is then refused.
 * `stream_bytes` is the stream's length, as the container's directory has it: 1 … UINT32_MAX.
 * Owner:  memory [SKY_DECODER_BYTES], *shape is copied, profile and dst's bytes stay the caller's
 *         and must outlive the decoder; the tensor and its page table need not
 * Errors: SKY_E_PARAM (shape, tensor, length, memory not aligned) */
SKY_API sky_status sky_decoder_init(void *memory, const sky_profile *profile,
                                    const sky_stream_shape *shape, size_t stream_bytes,
                                    sky_tensor dst, sky_decoder **out);

/* Take the next piece. SKY_PENDING: give more. SKY_OK: all rows are written.
 * Errors: SKY_E_CORRUPT (also: more bytes than the stream has), SKY_E_UNSUPPORTED,
 *         SKY_E_PARAM (the stream was made with another profile) */
SKY_API sky_status sky_decoder_feed(sky_decoder *decoder, const void *data, size_t bytes);

/* Tokens of which every row is written so far: a piece of the answer before the end. */
SKY_API uint32_t sky_decoder_tokens(const sky_decoder *decoder);

/* The same in one call.
 * Shape:  work [SKY_DECODER_BYTES], aligned to 64 bytes
 * Errors: as sky_decoder_init and sky_decoder_feed; SKY_E_CORRUPT when bytes are missing */
SKY_API sky_status sky_decode(const sky_profile *profile, const sky_stream_shape *shape,
                              const void *data, size_t bytes, sky_tensor dst, void *work);

/* A stream that is all there, and where its rows go. */
typedef struct {
    sky_stream_shape shape;
    const void *data;
    size_t bytes;
    sky_tensor dst;
} sky_stream_in;

/* Two streams at once, a layer's K and V or any others: what sky_decode makes of each, in less time
 * than one after the other, since each fills the other's waiting.
 * Shape:  work [2 × SKY_DECODER_BYTES], aligned to 64 bytes
 * Errors: as sky_decode: the first stream's, or else the second's. The one that has none is decoded
 *         whole */
SKY_API sky_status sky_decode_two(const sky_profile *profile, const sky_stream_in streams[2],
                                  void *work);

/* ---- container ---- */

/* Heads and elements of one layer. */
typedef struct {
    uint32_t kv_heads;
    uint32_t k_dim;
    uint32_t v_dim;
    sky_element k_element;
    sky_element v_element;
} sky_skv_layer;

typedef struct {
    uint32_t token_count;
    uint32_t first_position;
    uint32_t layer_count;
    const sky_skv_layer *layers;
    uint8_t fingerprint[32]; /* of the model; zeros: not told */
} sky_skv_shape;

/* One stream of a container; bytes 0: this layer's K or V is not there. */
typedef struct {
    uint64_t offset; /* from the container's first byte */
    uint64_t bytes;
    sky_level level;
    uint64_t checksum; /* XXH3-64 of the stream, seeded with its place */
} sky_skv_entry;

/* Bytes before the first stream, and the most a whole container takes. 0: no valid shape. */
SKY_API size_t sky_skv_header_bytes(const sky_skv_shape *shape);
SKY_API size_t sky_skv_bound(const sky_skv_shape *shape);

/* Writing: streams in order (layer, K then V), each put once or skipped, then end.
 * The writer's fields are its own. */
typedef struct {
    sky_skv_shape shape;
    const sky_profile *profile;
    uint8_t *dst;
    size_t dst_bytes_max;
    size_t at;
    uint32_t next; /* 2 × layer + kv */
} sky_skv_writer;

/* Owner:  shape->layers, profile (or NULL) and dst stay the caller's until end
 * Errors: SKY_E_PARAM, SKY_E_DST_SMALL (less than the header) */
SKY_API sky_status sky_skv_begin(sky_skv_writer *writer, const sky_skv_shape *shape,
                                 const sky_profile *profile, void *dst, size_t dst_bytes_max);
/* Encode the next stream; streams passed over are left out.
 * Errors: as sky_encode; SKY_E_PARAM when (layer, kv) was passed already or is none */
SKY_API sky_status sky_skv_put(sky_skv_writer *writer, uint32_t layer, sky_kv kv,
                               const sky_encode_options *options, sky_tensor src, void *work);
/* The same from a stream that is encoded already.
 * Errors: SKY_E_CORRUPT (no stream, or one of another shape, layer half or position),
 *         SKY_E_UNSUPPORTED, SKY_E_DST_SMALL, SKY_E_PARAM (passed already; of another profile) */
SKY_API sky_status sky_skv_put_stream(sky_skv_writer *writer, uint32_t layer, sky_kv kv,
                                      const void *stream, size_t bytes);
SKY_API sky_status sky_skv_end(sky_skv_writer *writer, size_t *dst_bytes);

/* Reading. Opening checks the header and the directory against each other and against `bytes`;
 * a stream's own checksum is checked when it is decoded or verified. */
typedef struct {
    const uint8_t *data;
    size_t held_bytes; /* at data: the whole, or the header */
    uint64_t bytes;    /* of the container */
    size_t header_bytes;
    uint32_t token_count;
    uint32_t first_position;
    uint32_t layer_count;
    uint64_t profile_id; /* 0: streams were made without a profile */
    uint8_t fingerprint[32];
} sky_skv;

/* Owner:  data stays the caller's and must outlive *out
 * Errors: SKY_E_CORRUPT, SKY_E_UNSUPPORTED (a later version) */
SKY_API sky_status sky_skv_open(const void *data, size_t bytes, sky_skv *out);
/* The same from the first bytes only, enough to plan ranges. `total_bytes` is the container's
 * length, or 0: what the directory says, for containers that follow each other in a file.
 * SKY_PENDING: more are needed, *header_bytes says how many (the first 64 tell).
 * Errors: as sky_skv_open */
SKY_API sky_status sky_skv_open_header(const void *data, size_t bytes, uint64_t total_bytes,
                                       sky_skv *out, size_t *header_bytes);
/* What the header says of a layer, and of a stream.
 * Errors: SKY_E_PARAM (no such layer, neither K nor V) */
SKY_API sky_status sky_skv_layer_at(const sky_skv *skv, uint32_t layer, sky_skv_layer *out);
SKY_API sky_status sky_skv_entry_at(const sky_skv *skv, uint32_t layer, sky_kv kv,
                                    sky_skv_entry *out);
/* The shape of a stream, ready for sky_decoder_init. Errors: as sky_skv_entry_at */
SKY_API sky_status sky_skv_stream_shape(const sky_skv *skv, uint32_t layer, sky_kv kv,
                                        sky_stream_shape *out);
/* Do this stream's checksum and header say that it is the one meant? That its rows decode, only
 * decoding tells. `stream` is its bytes, wherever they are.
 * Errors: SKY_E_CORRUPT, SKY_E_UNSUPPORTED */
SKY_API sky_status sky_skv_stream_check(const sky_skv *skv, uint32_t layer, sky_kv kv,
                                        const void *stream, size_t bytes);
/* Check and decode one stream.
 * Shape:  work [SKY_DECODER_BYTES], aligned to 64 bytes
 * Errors: SKY_MISS (not in the container), SKY_E_CORRUPT, as sky_decode */
SKY_API sky_status sky_skv_decode(const sky_skv *skv, const sky_profile *profile, uint32_t layer,
                                  sky_kv kv, sky_tensor dst, void *work);
/* sky_skv_stream_check of all streams that are there. Errors: as it, SKY_E_PARAM (they are not at
 * skv->data: opened from the header alone) */
SKY_API sky_status sky_skv_verify(const sky_skv *skv);

/* Lower the streams that are above `options->level` to it, without the original: decode, encode
 * again. Streams at or below the level are copied; where all are, the container is, and no profile
 * is needed. first_token_raw is kept as each stream has it. Lossless keys are turned back by the
 * profile given, whichever it is: without one they are lowered rope and all, though
 * skv->profile_id may tell that there was one.
 * Shape:  work [sky_skv_lower_bytes], aligned to 64 bytes; dst [sky_skv_lower_bound]. Streams that
 *         are not there take no room
 * Errors: SKY_E_DST_SMALL, SKY_E_CORRUPT, SKY_E_PARAM */
SKY_API size_t sky_skv_lower_bytes(const sky_skv *skv);
SKY_API size_t sky_skv_lower_bound(const sky_skv *skv, sky_level level);
SKY_API sky_status sky_skv_lower(const sky_skv *skv, const sky_profile *profile,
                                 const sky_encode_options *options, void *dst, size_t dst_bytes_max,
                                 size_t *dst_bytes, void *work);

/* ---- kernels ---- */

/* "scalar", "avx2", "avx512", "neon": what this machine codes with. All give the same bytes. */
SKY_API const char *sky_codec_kernels_name(void);
/* Kernels to use from now on, for tests and measurements: a name above; NULL chooses again.
 * Not to be called while another thread codes.
 * Errors: SKY_E_UNSUPPORTED (not on this machine), SKY_E_PARAM (no such name) */
SKY_API sky_status sky_codec_kernels_use(const char *name);

#ifdef __cplusplus
}
#endif
#endif
