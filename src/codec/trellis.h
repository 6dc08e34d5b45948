/* Quantising a tile: plain rounding, or dependent quantisation by an 8-state trellis.
 *
 * The trellis (as in VVC) has two quantisers on a grid of D, half a step:
 *   a = 0:  2k                       … −4 −2  0  2  4 …
 *   a = 1:  2k − sgn k               … −3 −1  0  1  3 …
 * and the parity p of each level k drives the state: (a, b, c) ← (a ⊕ b, c ⊕ p, a). A path has
 * half the choices of the full grid at each row, so it costs the bits of the coarse one, and the
 * Viterbi search finds the path nearest to the values. Each channel and half is a path of its own,
 * from state 0. Costs are floats, added in one order; ties go to the lower state. */
#ifndef SKY_CODEC_TRELLIS_H
#define SKY_CODEC_TRELLIS_H

#include <stddef.h>
#include <stdint.h>

#define SKY_LANE_GROUP 16u /* channels quantised together; strides are multiples of it */

/* The trellis as NEXT(state, from, first, second): the state is reached from states `from` and
 * `from` + 1, at the errors of the subsets first and second. */
#define SKY_TRELLIS_STEPS(NEXT)                                                                    \
    NEXT(0, 0, 0, 1);                                                                              \
    NEXT(1, 6, 2, 3);                                                                              \
    NEXT(2, 0, 1, 0);                                                                              \
    NEXT(3, 6, 3, 2);                                                                              \
    NEXT(4, 2, 0, 1);                                                                              \
    NEXT(5, 4, 2, 3);                                                                              \
    NEXT(6, 2, 1, 0);                                                                              \
    NEXT(7, 4, 3, 2)

/* Quantise rows 0, stride_rows, 2 × stride_rows … of z: `rows` of them.
 * Shape:  z [row, stride], in units of D, |z| at most 16000; packed [row, stride]: 2k + a;
 *         decisions [rows × SKY_LANE_GROUP], aligned for a uint16_t
 *         rows of z and packed lie `pitch` elements apart */
void sky__trellis_encode(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                         int16_t *packed, uint8_t *decisions);

/* The same with k = z / 2 rounded to nearest, ties to even, and a = 0. */
void sky__round_encode(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                       int16_t *packed);

#endif
