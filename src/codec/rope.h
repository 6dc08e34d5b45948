/* Angles of rope, the same on every machine.
 *
 * An angle is a 32-bit fraction of a turn, so position × frequency wraps by itself. Its sine and
 * cosine come from polynomials in plain float operations in a fixed order (no fused multiply-add):
 *
 *   quarter = (angle + 2^29) >> 30       r = angle − quarter·2^30, in −2^29 … 2^29 (an eighth turn)
 *   t = r · 2^-32 turns, then sin 2πt and cos 2πt, swapped and negated by quarter.
 *
 * Error against libm below 2^-22. What matters more: the encoder's and the decoder's are equal. */
#ifndef SKY_CODEC_ROPE_H
#define SKY_CODEC_ROPE_H

#include <skymem/codec.h>

/* Coefficients, highest power of t² last. sin 2πt = t (S0 + t²(S1 + …)), cos 2πt = C0 + t²(C1 + …),
 * Taylor, which at an eighth of a turn is exact to float's last bits. */
#define SKY_SIN0 6.28318530717958648f
#define SKY_SIN1 (-41.3417022403997574f)
#define SKY_SIN2 81.6052492760750344f
#define SKY_SIN3 (-76.7058597530613956f)
#define SKY_SIN4 42.0586939448845930f
#define SKY_COS0 1.0f
#define SKY_COS1 (-19.7392088021787172f)
#define SKY_COS2 64.9393940226683113f
#define SKY_COS3 (-85.4568172066936921f)
#define SKY_COS4 60.2446413718766336f
#define SKY_COS5 (-26.4262567833744f)

/* Sine and cosine of `position` for pairs 0 … pair_count − 1. */
void sky__rope_angles(const sky_rope *rope, uint32_t position, float *cosine, float *sine);

/* Index in a head of the two channels of pair p, p < dim / 2: the pairs that turn, then those of
 * the rest. */
typedef struct {
    uint32_t first;
    uint32_t second;
} sky_pair;
sky_pair sky__pair_at(const sky_rope *rope, uint32_t dim, uint32_t p);

bool sky__rope_valid(const sky_rope *rope);

#endif
