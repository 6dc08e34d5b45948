/* Sub-requests: batches of one tier, queued, started, watched and ended.
 *
 *   waiting (callers' first, then the background's) ──start──► active ──► done(): its owner goes on
 *
 * Surprises:
 *  - A sub-request that cannot start (tier skipped, given up, past its deadline) also ends in
 *    done(), with the reason in all its items, so that its owner has one place to go on.
 *  - A tier's health is counted in sub-requests, not items. One that ends late counts against its
 *    tier only when it had more time than the tier took for others.
 *  - One without a deadline is looked at once a minute, and given up when none of its items ended
 *    since. So a tier that hangs costs a minute, or two if it hangs later, and a large request at a
 *    slow one takes as long as it takes.
 *  - A removal waits for the background writes queued before it: a tier finds the blocks below a
 *    block only when that block is there. */
#ifndef SKY_CACHE_TIER_SLOT_H
#define SKY_CACHE_TIER_SLOT_H

#include "cache/cache_state.h"

struct sky__sub {
    sky__sub *next;
    uint64_t number; /* in the order of queueing */
    uint8_t tier;
    bool background; /* behind callers' sub-requests, with a deadline of its own */
    bool when_idle;  /* only while no caller's sub-request is at the tier */
    bool given_up;   /* by anyone under the mutex; the thread then ends it */
    sky_op op;
    sky_call call;
    sky_item *items;
    size_t item_count;
    sky_batch caller; /* whose buffers the items point to: guarded while at the tier; id 0: none */
    size_t caller_item;      /* any unfinished item of it */
    sky__order_entry *order; /* of bytes that a later write may outdate: it then ends; NULL: none */
    sky_batch batch;         /* at the tier */
    size_t unfinished;       /* without a deadline: of its items, when last looked at; */
    sky_time patience_until; /* … one must end by then; 0: it has a deadline, or has not started */
    const char *why;         /* NULL, or what it is for, in a trace */
    uint64_t trace;          /* id of the request there; 0: none */
    sky_time queued_at;
    sky_time started_at;
    void (*done)(sky_cache *c, sky__sub *sub); /* on the thread, without the mutex; may free it */
};

/* Queue a sub-request; the thread takes it from here. With the mutex held; wake it afterwards. */
void sky__slot_queue(sky_cache *c, sky__sub *sub);
/* What sub-requests are for that no caller waits for. */
#define SKY__FOR_WRITE_BACK "write-back"
#define SKY__FOR_PROMOTION  "promotion"
#define SKY__FOR_DEMOTION   "demotion"
/* One line of the debug log about a sub-request that a tier answered. */
void sky__sub_log(const sky__sub *sub, sky_time took);
/* As in metrics and traces; NULL for none. */
const char *sky__op_name(sky_op op);
/* Give one up, or all that touch the buffers of a caller's batch. With the mutex held. */
void sky__slot_give_up(sky_cache *c, sky__sub *sub);
void sky__slots_give_up(sky_cache *c, sky_batch caller);
/* What is outdated by a write that waits for it ends now. With the mutex held. */
void sky__slots_check(sky_cache *c);
/* True while copies of what the tier will evict are behind: what is put there in the background
 * waits for them, as it would drive those blocks out. With the mutex held. */
static inline bool sky__slot_evicting(const sky__slot *s) {
    return s->demotion_count >= SKY__DEMOTIONS_BEHIND ||
           (s->demotion_count > 0 && s->puts - s->demotions_behind >= SKY__DEMOTIONS_BEHIND);
}
/* True while the tier is skipped. With the mutex held. */
bool sky__slot_skipped(const sky_cache *c, const sky__slot *s);
/* What a tier did on the calling thread, for a trace. */
void sky__tier_trace(const sky_cache *c, size_t tier, sky_op op, const sky_item *items,
                     size_t item_count, sky_time began, sky_time ended);
/* Have the nearest tier, which answers at once, do it. Without the mutex. */
void sky__near_answer(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                      const sky_call *call);
/* Have the nearest tier do it while this thread waits. False: it is not to be asked now, or has no
 * room. Without the mutex. */
bool sky__near_run(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                   const sky_call *call);

/* The cache's thread: take what the tier finished, end what is over, start what may start. True
 * when something moved. With the mutex held, which is released around calls of the tier. */
bool sky__slot_step(sky_cache *c, sky__slot *s);
/* When it is to look again, unless something comes first. With the mutex held. */
sky_time sky__slot_wake_at(const sky__slot *s);
/* Give up everything, for a stop; true when nothing is left. With the mutex held. */
bool sky__slot_empty(sky_cache *c, sky__slot *s);

#endif
