/* A lock for what is looked at far more often than changed, and the list of what was looked at.
 *
 *   thread 1 ──► stripe 0  mutex │ uses: 17, 4, 90 …           a reader locks one stripe, its
 *   thread 2 ──► stripe 1  mutex │ uses: 4, 4 …                thread's own
 *   thread 3 ──► stripe 2  mutex │ uses:                       a writer locks all of them, after
 *        …                                                     the owner's mutex
 *
 * Readers on different stripes share no cache line that either writes. What reading changes (which
 * block was used, counts) waits in the stripe until somebody who holds the owner's mutex takes it
 * over. A writer does so first, so that the numbers in `uses` never outlive what they stand for.
 *
 * Lock order: the owner's mutex, then stripes by number. A reader who holds a stripe may only try
 * to lock the owner's mutex. */
#ifndef SKY_TIER_MEM_STRIPES_H
#define SKY_TIER_MEM_STRIPES_H

#include "io/sync.h"

#define SKY__STRIPE_USES_MAX 128u
#define SKY__STRIPES_MAX     32u

typedef struct {
    _Alignas(128) sky_mutex mutex;
    uint32_t use_count;
    uint32_t lease_count; /* of these uses */
    uint64_t misses;
    uint64_t read_bytes;
    uint32_t uses[SKY__STRIPE_USES_MAX]; /* blocks served, earliest first */
} sky__stripe;

typedef struct {
    sky__stripe *stripes; /* [count] */
    uint32_t count;       /* a power of two */
} sky__stripes;

/* Twice as many stripes as this process has processors, up to SKY__STRIPES_MAX.
 * Errors: SKY_E_NOMEM */
sky_status sky__stripes_init(sky__stripes *s);
/* Fine on one that is all zeros. */
void sky__stripes_deinit(sky__stripes *s);

/* The calling thread's stripe, locked. */
sky__stripe *sky__stripe_lock(sky__stripes *s);
void sky__stripe_unlock(sky__stripe *stripe);

void sky__stripes_lock_all(sky__stripes *s);
void sky__stripes_unlock_all(sky__stripes *s);

#endif
