/* A tier: a place for payloads. One small table of functions; memory, disk and sky are tiers, and
 * the hierarchy is a tier made of tiers. All functions are safe from any thread.
 *
 * What every tier promises (tier_fixture.c checks it on each, and on compositions):
 *  - publish after commit: a payload is visible only when all of it is stored, under its 32-byte
 *    key;
 *  - a put replaces; of two puts of one key at once, one wins whole;
 *  - a get copies exactly the range into the spans, or ends SKY_MISS / SKY_E_CORRUPT /
 *    SKY_E_DEADLINE; SKY_E_DST_SMALL when the spans hold less than the range, SKY_E_PARAM when it
 *    starts past the end; spans larger than what is there are fine: `bytes` tells;
 *  - damaged bytes are counted, dropped, and end SKY_E_CORRUPT: a miss to the hierarchy;
 *  - what the tier cannot do (LEASE on a disk) ends SKY_E_UNSUPPORTED;
 *  - a key is pinned or not: a second PIN changes nothing, UNPIN of what is not ends SKY_E_PARAM;
 *  - a cancelled or late put or removal that has not taken effect when the batch is over never
 *    will;
 *  - bounded: when full it evicts the least recently used unpinned leaf, or ends SKY_E_FULL. */
#ifndef SKY_TIER_TIER_H
#define SKY_TIER_TIER_H

#include <stdatomic.h>

#include <skymem/cache.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "tier/batch.h"

typedef struct sky_tier sky_tier;

/* A block that a tier evicts soon. Nothing but the key binds: the tier may evict it before it is
 * read, or keep it. */
typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t bytes;
    sky_coding coding;
    uint32_t ttl_s; /* how long it is still kept; 0: no end */
} sky_victim;

#define SKY_VICTIMS_AT_ONCE 32

/* What a tier gets from outside, so that tests replace it. */
typedef struct {
    const sky_clock *clock; /* NULL: the system's */
    uint8_t index;          /* this tier's place in the hierarchy: what items report in `tier` */
    const atomic_bool *verify_cancelled; /* a verify under way is to end; NULL: never */
    /* NULL, or: the tier is nearly full, and evicts these blocks next. The hierarchy copies them to
     * the next tier that lacks them, by a get with `no_touch`, and tells which it took: bit i, of
     * the ith. These are offered again when they were used since, the others with the next put. A
     * put that brings the tier so far offers before it is answered, so that a flush waits for the
     * copies. At most SKY_VICTIMS_AT_ONCE. By any thread; it does not call the tier, which may hold
     * its locks. */
    uint32_t (*offer)(void *context, uint8_t index, const sky_victim *victims, size_t count);
    void *offer_context;
} sky_tier_env;

static inline bool sky_tier_verify_cancelled(const sky_tier_env *env) {
    return env->verify_cancelled && atomic_load(env->verify_cancelled);
}

typedef struct {
    /* As sky_submit, of 1 to SKY_BATCH_ITEMS_MAX items, an op there is and a call. Statuses are
     * filled as items finish; the batch may be over before this returns. Batches are those of
     * tier->batches. */
    sky_status (*submit)(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                         const sky_call *call, sky_batch *out);
    /* NULL, or the tier never waits: this does a whole batch now, on the caller's thread, and fills
     * in each item's status, bytes, tier, coding and ttl_s. Past call->deadline_ns what is left
     * ends SKY_E_DEADLINE. A LEASE also tells the entry's parent, name, coding and ttl_s; the name
     * is valid as long as the lease. Whoever uses it needs neither submit nor wait. */
    void (*answer)(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                   const sky_call *call);
    /* NULL, or: GET one item on the caller's thread if that waits for nothing, neither a disk nor
     * another thread. True: the item is answered as by `answer`, SKY_OK. False: it is as it was but
     * for the bytes of its spans, and submit is to be asked. */
    bool (*attempt)(sky_tier *tier, sky_item *item, const sky_call *call);
    /* NULL, or: as submit and then wait for the batch's end, on the caller's thread alone, sooner
     * than another thread would hand it over. Items are as after wait. Errors: as submit */
    sky_status (*run)(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                      const sky_call *call);
    /* NULL, or: the batch was cancelled, so that nobody waits for its work any more. */
    void (*cancelled)(sky_tier *tier, sky_batch batch);
    /* A tier with SKY_TIER_LEASES has it; its leases have ids below 2^48. Of one that is not out
     * nothing happens. */
    void (*release)(sky_tier *tier, sky_lease lease);
    sky_status (*list)(sky_tier *tier, sky_entry_fn each, void *context);
    /* Adds to *out. Errors: SKY_E_CANCELLED, between two entries: sky_tier_verify_cancelled */
    sky_status (*verify)(sky_tier *tier, sky_verify_report *out);
    /* What it is, but for traits, and what it has counted: *counts starts as zeros. */
    void (*stat)(sky_tier *tier, sky_tier_stat *out, sky_counts *counts);
    /* NULL: `stat` waits for nothing. Or: the puts that it has counted, without asking a store or
     * another process. */
    uint64_t (*put_count)(sky_tier *tier);
    void (*close)(sky_tier *tier);
} sky_tier_ops;

struct sky_tier {
    const sky_tier_ops *ops;
    sky_batches *batches; /* those under way; the tier makes and destroys them */
    uint32_t traits;      /* SKY_TIER_LEASES and the others of skymem/cache.h */
    bool offers;          /* calls env.offer before it evicts */
};

/* Puts that it has counted so far; never waits for a store or another process. */
static inline uint64_t sky_tier_put_count(sky_tier *tier) {
    sky_tier_stat stat;
    sky_counts counts = {0};
    if (tier->ops->put_count)
        return tier->ops->put_count(tier);
    tier->ops->stat(tier, &stat, &counts);
    return counts.tier.puts;
}

/* As sky_submit, sky_event_fd, sky_drain, sky_wait and sky_cancel, of one tier. */
static inline sky_status sky_tier_submit(sky_tier *tier, sky_op op, sky_item *items,
                                         size_t item_count, const sky_call *call, sky_batch *out) {
    static const sky_call plain;
    if (item_count == 0 || item_count > SKY_BATCH_ITEMS_MAX || op < SKY_OP_HAS || op > SKY_OP_LEASE)
        return SKY_E_PARAM;
    return tier->ops->submit(tier, op, items, item_count, call ? call : &plain, out);
}

static inline int sky_tier_event_fd(const sky_tier *tier) {
    return sky_batches_event_fd(tier->batches);
}

static inline size_t sky_tier_drain(sky_tier *tier, sky_batch *done, size_t max) {
    return sky_batches_drain(tier->batches, done, max);
}

static inline sky_status sky_tier_wait(sky_tier *tier, sky_batch batch, sky_time until) {
    return sky_batches_wait(tier->batches, batch, until);
}

static inline void sky_tier_cancel(sky_tier *tier, sky_batch batch) {
    sky_batches_cancel(tier->batches, batch);
    if (tier->ops->cancelled)
        tier->ops->cancelled(tier, batch);
}

/* Parse `url` (its scheme included) and open. env is copied. Errors: as sky_cache_open. */
sky_status sky_memory_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                                sky_error *error);
sky_status sky_disk_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                              sky_error *error);

#endif
