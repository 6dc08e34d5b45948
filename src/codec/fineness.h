/* Steps of pairs of tokens: which tokens a model will look at again shows in their rows, so a
 * profile may say by a vector of weights how much finer than the others they are coded.
 *
 *   fineness s of a pair of tokens   0       1 (usual)   2        3
 *   its half step                    √2 D    D           D / √2   D / 2
 *
 * A stream with it begins, behind its header, with two bits for each pair, the first lowest. Pairs
 * are those of its coded tokens in order, a last one alone too. */
#ifndef SKY_CODEC_FINENESS_H
#define SKY_CODEC_FINENESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/slices.h"

#define SKY_FINENESS_COUNT 4
#define SKY_FINENESS_USUAL 1
#define SKY_FINENESS_PAIRS ((SKY_STREAM_TOKENS_MAX + 1) / 2)

extern const float sky__fineness_step[SKY_FINENESS_COUNT]; /* of D */

static inline uint32_t sky_fineness_pairs(uint32_t tokens) {
    return (tokens + 1) / 2;
}
static inline size_t sky_fineness_bytes(uint32_t tokens) {
    return (sky_fineness_pairs(tokens) + 3) / 4;
}

/* Shape:  fineness [pairs]; out, in [sky_fineness_bytes] */
void sky__fineness_write(const uint8_t *fineness, uint32_t pairs, uint8_t *out);
/* False: bits behind the last pair's are not 0. */
bool sky__fineness_read(const uint8_t *in, uint32_t pairs, uint8_t *fineness);

/* How much finer a token wants to be, in steps of √2, if all its channels are given in turn.
 * Shape:  weights, mean, row [width]; mean NULL: zeros */
float sky__fineness_wanted(const int8_t *weights, const float *mean, const float *row,
                           uint32_t width);

/* From what a pair wants. */
uint8_t sky__fineness_of(float wanted);

/* Those that occur, a bit each. */
uint32_t sky__fineness_used(const uint8_t *fineness, uint32_t pairs);

#endif
