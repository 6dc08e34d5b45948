/* Blocks on their way from a far tier: who brings which, and who waits for it.
 *
 *   claim ──► OWNED: nobody brings the block ─── read, it goes to memory ──► release
 *        └──► WAITING: another sequence does ──┬─ it came ───► DELIVERED: memory has it
 *                                              └─ it did not ► FAILED: claim again
 *
 * So sequences that want the same block at once read it once. Who owns a claim never waits for
 * another's: it releases all of its own first, and no two can wait for each other. A block that was
 * delivered is asked for without a claim: where memory keeps it not, everybody reads for itself.
 *
 * Thread-safe. Claims belong to their callers, and stay where they are from claim until release, or
 * leave. */
#ifndef SKY_MANAGER_FLIGHTS_H
#define SKY_MANAGER_FLIGHTS_H

#include <stdatomic.h>

#include "io/sync.h"

typedef enum {
    SKY__CLAIM_NONE,
    SKY__CLAIM_OWNED,
    SKY__CLAIM_WAITING,
    SKY__CLAIM_DELIVERED,
    SKY__CLAIM_FAILED,
} sky__claim_state;

typedef struct sky__claim {
    sky_key key;
    sky__claim_state state;
    struct sky__claim *next;    /* OWNED: in its bucket; WAITING: of the same owner */
    struct sky__claim *waiting; /* OWNED: the first that waits for it */
    struct sky__claim *owner;   /* WAITING: for whom */
    int event;                  /* WAITING: raised when that is over; below 0: none */
} sky__claim;

#define SKY__FLIGHT_BUCKETS 512u

typedef struct {
    sky_mutex mutex;
    sky_condition changed;
    sky__claim *buckets[SKY__FLIGHT_BUCKETS];
} sky__flights;

void sky__flights_init(sky__flights *f);
/* Nothing is claimed any more. */
void sky__flights_deinit(sky__flights *f);

/* Claim a key, if this claim is NONE or FAILED: then it is OWNED or WAITING. `event`: see above. */
sky__claim_state sky__flights_claim(sky__flights *f, sky__claim *claim, const sky_key *key,
                                    int event);
/* Of an OWNED one: the block is in memory now, if `delivered`. Of a WAITING one: wait no more. Then
 * it is NONE, but for a DELIVERED one, which stays so. */
void sky__flights_release(sky__flights *f, sky__claim *claim, bool delivered);
/* What the claim is now. */
sky__claim_state sky__flights_state(sky__flights *f, const sky__claim *claim);
/* Wait until none of these is WAITING, or *over is set; who sets it calls sky__flights_wake. */
void sky__flights_wait(sky__flights *f, const sky__claim *claims, uint32_t count,
                       const atomic_bool *over);
void sky__flights_wake(sky__flights *f);

#endif
