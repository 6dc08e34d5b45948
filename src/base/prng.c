#include "base/prng.h"

static uint64_t next_splitmix64(uint64_t *x) {
    return sky_mix64(*x += 0x9e3779b97f4a7c15u);
}

static uint64_t rotate_left(uint64_t x, int k) {
    return x << k | x >> (64 - k);
}

void sky_prng_init(sky_prng *p, uint64_t seed) {
    for (int i = 0; i < 4; i++)
        p->s[i] = next_splitmix64(&seed);
}

uint64_t sky_prng_u64(sky_prng *p) {
    uint64_t *s = p->s, out = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return out;
}

uint64_t sky_prng_below(sky_prng *p, uint64_t bound) {
    if (bound == 0)
        return 0;
    uint64_t reject_below = (0 - bound) % bound, x;
    do
        x = sky_prng_u64(p);
    while (x < reject_below);
    return x % bound;
}

double sky_prng_unit(sky_prng *p) {
    return (double)(sky_prng_u64(p) >> 11) * 0x1p-53;
}
