/* Keys on their way: who announced them, and who waits for them.
 *
 *   ANNOUNCE ──► owner ──► key, until          AWAIT ──► announced? ── no ──► look into the tiers
 *                           │                              │ yes           EXPECT ──┐
 *                           ▼                              ▼                        ▼
 *   a put of the key ends: the announcements go,        waiter ──► SKY_OK    waiter that expects
 *   a tier has it (they are asked meanwhile):           waiter ──► SKY_OK           │ ANNOUNCE
 *   WITHDRAW, the owner is gone, time is up:            waiter ──► SKY_MISS  ◄───────┘ a waiter
 *   its deadline, a cancel:                             waiter ──► SKY_E_DEADLINE, SKY_E_CANCELLED
 *
 * A waiter enters the table before any tier is asked. So a put that ends meanwhile is not
 * missed, whichever tier takes it.
 *
 * Concurrency: the cache's mutex guards all of it, but for the two counts, which let a put pass
 * without the mutex while nothing is announced and nobody waits. Waiters end without the mutex. */
#ifndef SKY_CACHE_ARRIVALS_H
#define SKY_CACHE_ARRIVALS_H

#include <stdatomic.h>

#include <skymem/cache.h>

#include "base/hash.h"

#define SKY__ARRIVALS_BUCKETS 4096u

typedef struct sky__announcement sky__announcement;
typedef struct sky__announcer sky__announcer;
typedef struct sky__waiter sky__waiter;
struct sky__request;

typedef struct {
    sky__announcement **buckets; /* [SKY__ARRIVALS_BUCKETS]; NULL until the first announcement */
    sky_hash_key hash_key;       /* by chance: who announces must not choose the bucket */
    sky__announcer *announcers;
    sky__waiter *waiters;
    uint32_t expecting;            /* waiters whose key nobody has announced */
    _Atomic uint32_t waiter_count; /* atomic, as the count of announcements, for puts to read */
    _Atomic uint32_t count;        /* announcements */
    sky_time sweep_at;             /* what lapsed is not looked for before */
    bool check_now;                /* waiters may have to end */
    sky_time check_at;             /* … and not before, otherwise */
} sky__arrivals;

/* A new one is all zeros. Frees announcements; there are no waiters. */
void sky__arrivals_deinit(sky__arrivals *a);

/* With the mutex held, as the three that follow. An owner that announces a key again says once more
 * until when. Errors: SKY_E_BUSY (too many), SKY_E_NOMEM */
sky_status sky__arrivals_announce(sky__arrivals *a, uint64_t owner, const sky_key *key,
                                  sky_time now, sky_time until);
/* One that was not announced is fine. */
void sky__arrivals_withdraw(sky__arrivals *a, uint64_t owner, const sky_key *key);
void sky__arrivals_withdraw_owner(sky__arrivals *a, uint64_t owner);
/* Have item `item` of a request wait for its key, which takes a reference to the request; expects:
 * also if it is not announced yet.
 * Errors: SKY_MISS (it is not announced), SKY_E_BUSY (too many wait), SKY_E_NOMEM */
sky_status sky__arrivals_wait(sky__arrivals *a, struct sky__request *r, size_t item, bool expects,
                              sky_time now);

/* A waiter that is over, and how. */
struct sky__waiter {
    sky__waiter *next;
    struct sky__request *request;
    uint32_t item;
    bool expects;      /* nobody has announced its key yet */
    sky_status status; /* SKY_PENDING: it waits */
    uint64_t bytes;    /* of what came */
    uint8_t tier;      /* … and where it lies */
};

/* A put of the key ended, into this tier: mark its waiters, and forget its announcements. How many
 * these were. With the mutex held. */
uint32_t sky__arrivals_stored(sky__arrivals *a, const sky_key *key, uint64_t bytes, uint8_t tier);
/* A tier has what this item waits for, or (SKY_MISS and errors) no tier does that would know of
 * more: one that is announced here goes on. Nothing when the wait is over. With the mutex held. */
void sky__arrivals_found(sky__arrivals *a, const struct sky__request *r, size_t item,
                         sky_status status, uint64_t bytes, uint8_t tier, sky_time now);
/* Take out the waiters that are over. The caller ends their items and drops their requests, without
 * the mutex. With the mutex held. */
sky__waiter *sky__arrivals_take_over(sky__arrivals *a, sky_time now);

#endif
