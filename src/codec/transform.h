/* Between rows of elements and rows of values to quantise, both ways, for one slice.
 *
 *   elements ─► f32 ─► rope undone ─► − mean ─► · f ─► sum and difference of two tokens ─► z
 *   elements ◄─ f32 ◄─ rope ◄── + mean ◄── · g·scale ◄── sums and differences of levels ◄─ levels
 *
 * z is in units of D, half a step. Decoding adds and subtracts levels as whole numbers, so D and
 * the 1/√2 of the pair are in the matrix. Orders that every kernel keeps, no multiply-add fused:
 *   x_i = (n_i g0 + n_j g2) + mean_i      x_j = (n_i g1 + n_j g3) + mean_j       with pairs
 *   x_i = n_i scale + mean_i                                                     without
 *   x_j = (…((mean_j + n_0' G[0][j]) + n_1' G[1][j]) + …), n' = n scale, n = 0 left out  klt
 *   o_i = x_i c − x_j s                   o_j = x_i s + x_j c             rope, then rounded */
#ifndef SKY_CODEC_TRANSFORM_H
#define SKY_CODEC_TRANSFORM_H

#include "codec/profile.h"

#define SKY_SQRT_HALF 0.70710678118654752440f

typedef struct {
    sky_element element;
    uint32_t heads;
    uint32_t dim;
    uint32_t width;       /* heads × dim */
    uint32_t padded;      /* what rows of levels and z have */
    const sky_rope *rope; /* NULL: rows are not turned */
    const float *matrix;  /* pairs: 4 arrays, `matrix_pitch` apart, of heads × pairs; klt: of each
                             head; encode: f, decode: g */
    size_t matrix_pitch;
    bool pairs;
    bool klt;
    bool large; /* decode, pairs: something of `scaled` may not be doubled (AVX-512 alone asks) */
    float scale[2]; /* encode: of a pair, of a single row: 1/√2/D, 1/D; decode: D/√2, D */
    _Alignas(64) float mean[SKY_WIDTH_MAX];
    _Alignas(64) float scaled[4][SKY_WIDTH_MAX / 2];  /* decode, pairs: matrix × scale */
    _Alignas(64) float cosine[3][SKY_ROPE_PAIRS_MAX]; /* of the two tokens at hand; of two tokens */
    _Alignas(64) float sine[3][SKY_ROPE_PAIRS_MAX];
} sky_transform;

/* Decode: set scale from D and `scaled` for pairs of tokens (which 0) or a single one (which 1). */
void sky__transform_scale(sky_transform *t, uint32_t which);

/* Angles of a tile's first two tokens, the first at `position`; then, two by two, of those after:
 * c' = c C − s S, s' = s C + c S, where C and S turn by two tokens. They drift from the true angles
 * by up to some 2^-16 in the longest tile, the same in the encoder and the decoder. */
void sky__transform_angles(sky_transform *t, uint32_t position);
void sky__transform_turn_on(sky_transform *t);

/* Decode two rows of levels into two rows of elements; difference NULL: one row into out[0].
 * Shape:  sum, difference [padded]; heads of out lie head_bytes apart */
void sky__transform_restore(const sky_transform *t, const int16_t *sum, const int16_t *difference,
                            uint8_t *const out[2], size_t head_bytes);

#define SKY_PAIRS_MAX 8

/* Where pairs of tokens go. */
typedef struct {
    uint32_t pairs;
    bool turn_on; /* the angles are still those of the two tokens before */
    uint8_t *out; /* the first token's */
    ptrdiff_t token_bytes;
    size_t head_bytes;
} sky_pairs_out;

/* Decode several pairs, turning angles on from one to the next.
 * Shape:  rows [2 × pairs][padded], of sums and of differences by turns; they are overwritten */
void sky__transform_restore_pairs(sky_transform *t, int16_t (*rows)[SKY_WIDTH_MAX],
                                  const sky_pairs_out *to);

/* One token's row as float, keys before rope; which: 0 or 1 of the angles.
 * Shape:  row [width] */
void sky__transform_load(const sky_transform *t, uint32_t which, const uint8_t *in,
                         size_t head_bytes, float *row);

#define SKY_Z_MAX 16000.0f

/* Two rows as loaded (they are overwritten) into z; row1 NULL: one into sum.
 * Shape:  sum, difference [padded]; the padding is set to 0
 * Returns whether all can be quantised: numbers, none above SKY_Z_MAX in magnitude */
bool sky__transform_forward(const sky_transform *t, float *row0, float *row1, float *sum,
                            float *difference);

#endif
