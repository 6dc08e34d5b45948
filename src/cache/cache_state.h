/* The inside of sky_cache, shared by its files.
 *
 *   caller's thread                                      the cache's thread
 *   submit ─ request ─ nearest tier, at once ─ all hit? done
 *                         │ the rest                      ┌────────── sub-requests ───────────┐
 *                         └── by key order ──────────────►│ slot 0: waiting… │ active…        │
 *   put of a block ── payload ── write-back ─────────────►│ slot 1: waiting… │ active… ─► done │
 *   a far tier answered ── promotion ────────────────────►│ slot 2: …        │                │
 *                                                         └───────────────────────────────────┘
 *   cache.c       the public calls, opening and closing, the thread
 *   metrics.c     what it and its tiers have counted
 *   request.c     a caller's batch on its way through the tiers
 *   promotion.c   bringing payloads from a farther tier to the nearest
 *   demotion.c    blocks that a tier is about to evict, on their way to the next one
 *   write_back.c  blocks on their way to farther tiers behind the answer
 *   tier_slot.c   sub-requests to tiers, deadlines, and the tiers' health
 *   key_order.c   which operation on a key waits for which
 *   arrivals.c    keys that are announced, and who awaits them
 * Each calls those below it only; the way up is a function pointer in what it was given.
 *
 * Concurrency: `mutex` guards everything here; it is never held while a tier is called. Tiers that
 * answer at once (ops->answer) are called by whichever thread is at work; of all others submit,
 * drain and cancel are called by the cache's thread only. That thread alone submits, completes and
 * frees sub-requests; others queue them or mark them given up. */
#ifndef SKY_CACHE_STATE_H
#define SKY_CACHE_STATE_H

#include <skymem/tier.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "cache/arrivals.h"
#include "cache/key_order.h"
#include "io/sync.h"
#include "tier/batch.h"
#include "tier/leases.h"
#include "tier/tier.h"

#define SKY__WRITE_BACKS_MAX   1024 /* queued for one tier */
#define SKY__PROMOTIONS_MAX    256  /* that nobody waits for */
#define SKY__DEMOTIONS_MAX     256  /* of all tiers */
#define SKY__DEMOTIONS_BEHIND  4    /* of a tier, or puts since the oldest, while more puts start */
#define SKY__PRIVATE_BYTES_MAX (16u << 20)

typedef struct sky__sub sky__sub;
typedef struct sky__request sky__request;
typedef struct sky__promotion sky__promotion;
typedef struct sky__demotion sky__demotion;

typedef struct {
    sky__sub *first;
    sky__sub *last;
} sky__sub_list;

/* A tier in its place in the hierarchy. Health: `failures` sub-requests in a row failed; from three
 * on the tier is skipped until retry_at, then tried again. */
typedef struct {
    sky_tier *tier;
    char kind[SKY_TIER_SCHEME_BYTES_MAX + 1]; /* the scheme of its URL */
    sky__sub_list waiting;
    sky__sub_list waiting_background;
    sky__sub_list active;
    size_t active_count;
    size_t background_count; /* of the active ones */
    size_t await_count;      /* of the active ones */
    sky_time check_at;       /* no deadline of a sub-request here comes before */
    bool check_now;          /* one was given up */
    uint32_t failures;
    sky_status last_failure;
    sky_time slowest_ns; /* that a recent sub-request which ended well took */
    sky_time retry_at;
    size_t write_back_count;
    uint64_t write_back_bytes;
    uint64_t write_back_bytes_max;
    size_t demotion_count;     /* of blocks that it is about to evict */
    size_t demotions_loaded;   /* … whose bytes are in memory */
    uint64_t puts;             /* started here so far */
    uint64_t demotions_behind; /* what `puts` was when the oldest of these was offered */
    sky_tier_counts counts;    /* what the tier itself does not see: dropped, late, write_backs,
                               demoted, demotions_lost */
} sky__slot;

struct sky_cache {
    sky_mutex mutex;
    sky_condition quiet; /* nothing is written back or promoted any more */
    atomic_bool verify_cancelled;
    int verify_count; /* under way */
    const sky_clock *clock;
    sky_batches *batches;
    int wake; /* event of the cache's thread */
    sky_thread thread;
    bool stopping;
    uint64_t forks; /* of this process's ancestors and itself, when the cache was opened */
    sky__slot slots[SKY_TIERS_MAX];
    size_t slot_count;
    uint64_t sub_count; /* queued so far */
    sky__order order;
    sky__arrivals arrivals;
    sky_mutex codec_mutex; /* guards codec_users, and their codec's change; locked before any */
    struct sky__codec_user *codec_users; /* the latest first */
    atomic_uint foreign;                 /* as sky__cache_foreign tells */
    sky__request *requests;
    sky_leases *leases; /* that callers have: on sky__lease_pack */
    sky__promotion *promotions;
    size_t promotion_count; /* of those nobody waits for */
    sky__demotion *demotions;
    size_t demotion_count;
    uint64_t private_bytes;
    uint64_t dropped;        /* writes not stored since the last flush */
    sky_status dropped_why;  /* of the last of them */
    sky_cache_counts counts; /* nothing guards them: sky_count. Hits are those beyond a nearest tier
                                that answers at once, and gauges are filled in when asked */
    sky_tier_times times[SKY_TIERS_MAX]; /* of the slots; nothing guards them */
};

static inline void sky__cache_wake(sky_cache *c) {
    sky_event_raise(c->wake);
}

static inline sky_time sky__cache_now(const sky_cache *c) {
    return c->clock->now(c->clock);
}

/* SKY_OK: calls may use it; SKY_E_PARAM for NULL; SKY_E_FORKED in a child of fork(), where the
 * cache's threads are not. */
sky_status sky__cache_check(const sky_cache *c);

/* True when the nearest tier answers at once. */
static inline bool sky__near_answers(const sky_cache *c) {
    return c->slots[0].tier->ops->answer != NULL;
}

static inline bool sky__tier_leases(const sky_cache *c, size_t tier) {
    return (c->slots[tier].tier->traits & SKY_TIER_LEASES) != 0;
}

/* Bit i: blocks come to tier i as nearer tiers evict them. */
static inline uint8_t sky__victim_tiers(const sky_cache *c) {
    uint8_t bits = 0;
    for (size_t t = 0; t < c->slot_count; t++)
        bits |= (uint8_t)(((c->slots[t].tier->traits & SKY_TIER_VICTIMS) != 0) << t);
    return bits;
}

/* A lease of a tier, and which. */
static inline uint64_t sky__lease_pack(uint8_t tier, sky_lease lease) {
    return (uint64_t)tier << 48 | lease.id;
}

/* True when the nearest tier leases at once. */
static inline bool sky__near_leases(const sky_cache *c) {
    return sky__near_answers(c) && sky__tier_leases(c, 0);
}

#endif
