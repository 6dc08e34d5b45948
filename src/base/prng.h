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

/* The finisher of splitmix64: one to one, and each bit of x changes half of the result's. */
static inline uint64_t sky_mix64(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
