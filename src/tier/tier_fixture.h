/* The conformance suite: what every tier promises in tier.h, checked from outside, byte for byte.
 *
 * To add a tier, write foo_test.c with
 *
 *   static sky_tier *open_foo(void *context, const sky_tier_env *env) { … an empty tier … }
 *   static void close_foo(void *context, sky_tier *tier) { tier->ops->close(tier); … }
 *
 *   int main(void) {
 *       const sky_tier_fixture foo = {.name = "foo", .open = open_foo, .close = close_foo};
 *       return sky_tier_conformance(&foo);
 *   }
 *
 * and switch on what it can do. What is switched off is either not run or, for leases, checked to
 * be refused. A hierarchy takes part through a sky_tier whose functions call sky_cache_*. */
#ifndef SKY_TIER_TIER_FIXTURE_H
#define SKY_TIER_TIER_FIXTURE_H

#include "tier/tier.h"

typedef struct {
    const char *name;
    void *context; /* handed to the three functions */

    /* An empty tier. They assert, rather than fail. `env` lives until close. */
    sky_tier *(*open)(void *context, const sky_tier_env *env);
    void (*close)(void *context, sky_tier *tier);
    /* Close, and open again on what was stored; NULL: what it holds goes with it. */
    sky_tier *(*reopen)(void *context, sky_tier *tier, const sky_tier_env *env);

    /* Payload bytes it holds before it evicts, more or less; 1 MiB to 64 MiB, so that filling it is
     * quick. 0: it cannot be filled here, and eviction is not checked. */
    uint64_t capacity_bytes;
    uint64_t payload_bytes_max; /* largest payload to try; 0: some over 3 MiB */
    uint32_t items_max;         /* in the large batches; 0: 1000 */
    bool leases;
    bool pins;          /* PIN and UNPIN */
    bool ttl;           /* forgets by env->clock's wall time */
    bool flat;          /* REMOVE removes one key, and leaves the blocks below it */
    bool unlisted;      /* `list` and `verify` see nothing */
    bool uncounted;     /* it does not know how many payloads it holds */
    bool adopts;        /* a child stored before its parent is removed with it */
    bool drops_orphans; /* … and with one that is not there */
    bool composite;     /* may hold a payload more than once: counts are lower bounds */
} sky_tier_fixture;

/* Run all that applies; the number of tests that failed. The first is the other two. */
int sky_tier_conformance(const sky_tier_fixture *fixture);
int sky_tier_payload_conformance(const sky_tier_fixture *fixture);
int sky_tier_batch_conformance(const sky_tier_fixture *fixture);

/* For tests of one tier beside the suite: a key and a content for each number. */
sky_key sky_fixture_key(uint64_t n);
void sky_fixture_fill(void *data, size_t bytes, uint64_t seed);
bool sky_fixture_holds(const void *data, size_t bytes, uint64_t seed);

/* For tiers made for tests: answer a get of a payload as every tier does. The bytes that were read
 * are in *read.
 * Errors: SKY_E_PARAM, SKY_E_DST_SMALL */
sky_status sky_fixture_read(const void *payload, size_t bytes, const sky_item *item,
                            uint64_t *read);

/* The system's clock, whose wall time a test turns while others read it. */
typedef struct {
    sky_clock clock;
    _Atomic int64_t ahead_ms;
} sky_fixture_clock;
#define SKY_FIXTURE_CLOCK(ahead)                                                                   \
    { {sky_fixture_now, sky_fixture_wall_ms}, ahead }
sky_time sky_fixture_now(const sky_clock *clock);
int64_t sky_fixture_wall_ms(const sky_clock *clock);

/* What the tier is, and what it has counted. */
sky_tier_stat sky_fixture_stat(sky_tier *tier);
sky_tier_counts sky_fixture_counts(sky_tier *tier);

/* While it is set, puts without a call are durable. */
extern bool sky_fixture_durable;
/* Submit, which must succeed. */
sky_batch sky_fixture_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call);
/* Submit and wait; the batch must end. */
void sky_fixture_run(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                     const sky_call *call);
/* One item: a payload of sky_fixture_fill(seed), below `parent` (NULL: none). */
sky_status sky_fixture_put(sky_tier *tier, sky_key key, const sky_key *parent, size_t bytes,
                           uint64_t seed);
/* SKY_OK when the payload is exactly that; SKY_E_CORRUPT when it is there and differs. */
sky_status sky_fixture_check(sky_tier *tier, sky_key key, size_t bytes, uint64_t seed);
/* One item of HAS, REMOVE, PIN, UNPIN, PREFETCH. */
sky_status sky_fixture_one(sky_tier *tier, sky_op op, sky_key key);

#endif
