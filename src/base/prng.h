/* xoshiro256** seeded by splitmix64: the same numbers for the same seed on every machine. Not for
 * secrets. */
#ifndef SKY_BASE_PRNG_H
#define SKY_BASE_PRNG_H

#include <stdint.h>

typedef struct {
    uint64_t s[4];
} sky_prng;

void sky_prng_init(sky_prng *p, uint64_t seed);
uint64_t sky_prng_u64(sky_prng *p);
/* Uniform in [0, bound); 0 when bound is 0. */
uint64_t sky_prng_below(sky_prng *p, uint64_t bound);
/* Uniform in [0, 1), a multiple of 2^-53. */
double sky_prng_unit(sky_prng *p);

#endif
