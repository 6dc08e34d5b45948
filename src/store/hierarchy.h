/* The inside of sky_cache, shared by its files.
 *
 *   caller's thread                                    the hierarchy's thread
 *   submit ─ job ─ near tier, at once ─ all hit? done
 *                         │ the rest                    ┌───────────── errands ──────────────┐
 *                         └── legs ────────────────────►│ tier 0: waiting… │ active…         │
 *   put ──── parcel ── behind ─────────────────────────►│ tier 1: waiting… │ active… ─► done │
 *   a far tier answered ── fetch (promotion) ──────────►│ tier 2: …        │                 │
 *                                                       └────────────────────────────────────┘
 *   cache.c    the public calls, opening and closing
 *   errand.c   the thread: errands to tiers, their order, deadlines, and the tiers' health
 *   job.c      a caller's batch on its way through the tiers
 *   behind.c   parcels (payloads that outlive the call) and writing them to farther tiers
 *   fetch.c    bringing payloads from a farther tier to the nearest
 *
 * Concurrency: `mutex` guards everything here; it is never held while a tier is called, as tiers
 * call back with victims. Errands are submitted, completed and freed by the thread alone; others
 * only queue them, take waiting ones out, or mark them given up. A tier that lends (has a release)
 * answers inside its submit, so callers ask it directly; all others are asked by the thread only.
 *
 * Order: at one tier, errands that write (PUT, REMOVE) the same key run one after the other, in the
 * order of queueing, and callers' reads of it after the callers' writes queued before them. A put
 * first takes queued writes of its keys back. A remove does so for general keys; but it lets the
 * blocks queued before it arrive, as a tier only finds what to drop below a block when the block is
 * there. */
#ifndef SKY_STORE_HIERARCHY_H
#define SKY_STORE_HIERARCHY_H

#include <skymem/cache.h>

#include "io/sync.h"
#include "store/batch.h"
#include "store/tier.h"

#define SKY_ERRANDS_ACTIVE_MAX    64              /* at one tier, for callers */
#define SKY_BACKGROUND_ACTIVE_MAX 4               /* at one tier, for everything else */
#define SKY_PATIENCE_NS           SKY_SECONDS(60) /* with a tier, when the caller set no deadline */
#define SKY_BEHIND_COUNT_MAX      1024            /* writes queued for one tier */
#define SKY_FETCHES_MAX           256             /* promotions nobody waits for */
#define SKY_PRIVATE_BYTES_MAX     (16u << 20)
#define SKY_KNOWN_SLOTS           65536u

typedef struct sky_errand sky_errand;
typedef struct sky_job sky_job;
typedef struct sky_fetch sky_fetch;
typedef struct sky_parcel sky_parcel;

/* One sub-batch for one tier. Embedded at the start of legs, behinds and fetches. */
struct sky_errand {
    sky_errand *next;
    uint64_t number; /* in the order of queueing */
    uint8_t tier;
    bool background; /* after callers' errands, with a deadline of its own */
    bool when_idle;  /* only while no caller's errand is at the tier */
    bool if_absent;  /* brings what may be older: given up when a write of its key is queued */
    bool active;
    bool given_up; /* by someone under the mutex; the thread then ends it */
    sky_op op;
    sky_call call;
    sky_item *items;
    size_t item_count;
    sky_batch caller;   /* whose buffers the items point to: guarded while at the tier */
    size_t caller_item; /* any unfinished item of it */
    sky_batch sub;
    sky_time started;
    void (*done)(sky_cache *c, sky_errand *e); /* on the thread, without the mutex; may free e */
};

typedef struct {
    sky_errand *first;
    sky_errand *last;
} sky_errand_list;

/* A tier in its place in the hierarchy. Health: `failures` errands in a row failed; from three on
 * the tier is skipped until retry_at, then tried again. */
typedef struct {
    sky_cache *cache;
    sky_tier *tier;
    bool lends;
    sky_errand_list waiting;
    sky_errand_list waiting_behind;
    sky_errand_list active;
    size_t active_count;
    size_t background_count; /* of the active ones */
    uint32_t failures;
    sky_status last_failure;
    sky_time backoff;
    sky_time retry_at;
    size_t behind_count;
    uint64_t behind_bytes;
    uint64_t behind_bytes_max;
    uint64_t dropped;
    uint64_t late;   /* items whose time was over before the tier could say so */
    uint64_t *known; /* [SKY_KNOWN_SLOTS]: keys that this tier was seen to hold; a hint */
} sky_rung;

/* A batch that a caller is putting into the near tier right now. */
typedef struct sky_near_put {
    struct sky_near_put *next;
    const sky_item *items;
    size_t item_count;
} sky_near_put;

struct sky_cache {
    sky_mutex mutex;
    sky_condition quiet; /* a tier has nothing queued behind any more, or no promotion is left */
    sky_batches *batches;
    int wake;
    sky_thread thread;
    bool stopping;
    bool closed; /* victims are no longer taken */
    sky_rung tiers[SKY_TIERS_MAX];
    size_t tier_count;
    uint64_t errand_count; /* queued so far */
    sky_job *jobs;
    size_t refusals; /* jobs of which a tier refused something that another may still take */
    sky_fetch *fetches;
    size_t fetch_count; /* of those nobody waits for */
    uint64_t private_bytes;
    sky_near_put *near_puts;
};

/* ---- errand.c ---- */

/* Queue an errand; the thread takes it from here. With the mutex held; wake it afterwards. */
void sky_errand_add(sky_cache *c, sky_errand *e);
/* True when an active errand at the tier writes one of the items' keys. With the mutex held. */
bool sky_errand_conflict(const sky_cache *c, uint8_t tier, const sky_item *items,
                         size_t item_count);
/* True when a caller's write of one of the items' keys is queued or under way at the tier. With the
 * mutex held. */
bool sky_errand_written(const sky_cache *c, uint8_t tier, const sky_item *items, size_t item_count);
/* Give up all errands that touch the buffers of a caller's batch. With the mutex held. */
void sky_errands_give_up(sky_cache *c, sky_batch caller);
/* True when a write of the item's key is queued or under way at the tier, or a caller's removal of
 * it at any. With the mutex held. */
bool sky_errand_changing(const sky_cache *c, uint8_t tier, const sky_item *item);
/* True while the tier is skipped. With the mutex held. */
bool sky_rung_skipped(const sky_rung *r);
/* Ask a tier that lends, which answers at once. Without the mutex. */
void sky_rung_ask(const sky_rung *r, sky_op op, sky_item *items, size_t item_count,
                  const sky_call *call);
void sky_wake(sky_cache *c);
/* The thread's body. */
void *sky_errands_run(void *cache);

/* ---- job.c ---- */

/* As sky_submit; `kept`: only sky_wait and sky_cancel take the batch, no drain. */
sky_status sky_job_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                          const sky_call *call, bool kept, sky_batch *out);
/* No more answers to this batch. With the mutex held. */
void sky_job_give_up(sky_cache *c, sky_batch batch);
void sky_jobs_give_up(sky_cache *c); /* of all */
/* True when the tier refused a put of one of the items' keys that another may still take: what it
 * holds may be about to go. With the mutex held. */
bool sky_job_refused(const sky_cache *c, uint8_t tier, const sky_item *items, size_t item_count);
/* End what is past its deadline; returns the next one. With the mutex held. */
sky_time sky_jobs_expire(sky_cache *c);
/* A fetch for item `item` of a job ended; the payload is in the nearest tier if status is SKY_OK.
 * On the thread. */
void sky_job_fetched(sky_cache *c, sky_job *job, size_t item, sky_status status);

/* ---- behind.c ---- */

/* A payload that outlives the call: in a lease of tier 0, or in private memory.
 * `lease` {0}: the payload is copied, SKY_E_FULL when there is no room for that.
 * Owner:  the caller has one reference; the lease, if any, goes with it when SKY_OK
 * Without the mutex. */
sky_status sky_parcel_create(sky_cache *c, const sky_item *item, const sky_call *call,
                             sky_span payload, sky_lease lease, sky_parcel **out);
/* A parcel on a lease of what tier 0, which lends, holds under the item's key. Without the mutex.
 * Errors: SKY_MISS, SKY_E_NOMEM */
sky_status sky_parcel_borrow(sky_cache *c, const sky_item *item, const sky_call *call,
                             sky_parcel **out);
/* Drop one reference. Without the mutex. NULL is fine. */
void sky_parcel_drop(sky_cache *c, sky_parcel *parcel);
/* Queue a parcel for a tier, which takes a reference; counted as dropped when the queue is full,
 * the tier is failing, or parcel is NULL. `only_if_absent`: not where the key is being written, nor
 * once it is. Without the mutex. */
void sky_behind(sky_cache *c, sky_parcel *parcel, uint8_t tier, bool only_if_absent);
/* Queue the removal of what a tier may still hold of a general key whose newer payload it did not
 * get. Blocks never change, so there is nothing to do for them. Without the mutex. */
void sky_behind_outdated(sky_cache *c, const sky_key *key, const char *name, size_t name_bytes,
                         uint8_t tier);
/* Take back queued writes of a key, or only those of general keys. With the mutex held; adds what
 * must be dropped to *freed. */
void sky_behind_forget(sky_cache *c, const sky_key *key, bool named_only, sky_errand **freed);
/* Without the mutex. */
void sky_behind_free(sky_cache *c, sky_errand *freed);
/* The victim callback of every tier; context is its sky_rung. */
void sky_behind_victim(void *context, const sky_victim *victim);
/* Hints of what a tier holds. With the mutex held. */
void sky_known_set(sky_rung *r, const sky_key *key, bool present);
/* Room for private copies: false when there is none. One payload of any size fits an empty pool.
 * With the mutex held. */
bool sky_private_take(sky_cache *c, uint64_t bytes);
void sky_private_give(sky_cache *c, uint64_t bytes);

/* ---- fetch.c ---- */

/* Bring a payload to tier 0 from tier `from` or beyond, and a copy of it to the tiers between that
 * lack it, as far as call->tiers allows; the job is told before those have it. `job` NULL: a
 * promotion that nobody waits for, dropped when there are too many or it is already under way.
 * With the mutex held; wake afterwards. Errors: SKY_E_NOMEM, SKY_E_BUSY (dropped) */
sky_status sky_fetch_start(sky_cache *c, const sky_item *item, const sky_call *call, uint8_t from,
                           sky_job *job, size_t job_item);
/* Payloads of this key that are on their way must not be put into tier 0. With the mutex held. */
void sky_fetch_forget(sky_cache *c, const sky_key *key);
/* Nobody waits for these any more. With the mutex held. */
void sky_fetch_give_up(sky_cache *c, const sky_job *job);
/* Start what waited for room. With the mutex held. True when something started. */
bool sky_fetch_step(sky_cache *c);

#endif
