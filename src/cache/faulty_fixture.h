/* A tier that fails in every way a tier may, by a seed: it answers late and in any order, refuses,
 * forgets, is down for a while, or has done what it then calls a failure. It has no thread; a test
 * lets it go on step by step. What it holds outlives the cache over it, as a disk does. */
#ifndef SKY_CACHE_FAULTY_FIXTURE_H
#define SKY_CACHE_FAULTY_FIXTURE_H

#include "base/clock.h"
#include "base/prng.h"
#include "tier/tier.h"

typedef struct sky_faulty sky_faulty;

typedef struct {
    bool lasting;              /* false: it is emptied when the cache over it closes */
    bool evicts;               /* forgets entries that are not pinned */
    uint32_t failures_percent; /* of what it is asked, while it is well */
} sky_faulty_options;

sky_faulty *sky_faulty_create(const sky_faulty_options *options, sky_prng *prng,
                              const sky_clock *clock, uint8_t place);
void sky_faulty_destroy(sky_faulty *f);
/* For a cache to close; the same after the cache was closed. */
sky_tier *sky_faulty_tier(sky_faulty *f);

/* Something happens to one of the things it was asked: it takes effect, or is answered. False when
 * it was asked for nothing. */
bool sky_faulty_step(sky_faulty *f);
/* From now on everything fails, or nothing but what `failures_percent` says. */
void sky_faulty_set_down(sky_faulty *f, bool down);
/* No failures any more. */
void sky_faulty_set_well(sky_faulty *f);
/* How often it lost the key's entry other than by a removal. */
uint64_t sky_faulty_damage(const sky_faulty *f, const sky_key *key);

#endif
