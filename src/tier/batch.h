/* Batches under way in one tier: ids, deadlines, cancellation, and the guard that keeps a tier's
 * thread out of buffers that have gone back to the caller. Every tier embeds one.
 *
 *   caller                                   tier (any thread)
 *   open ──► id, items SKY_PENDING ────────► enter(id, i) → the item, or NULL: given up, forget it
 *                                              … touch its spans, for a short while …
 *                                            leave(id)
 *   drain / wait ◄── all items finished ◄─── finish(id, i, status, bytes)
 *   cancel, or the deadline passes: unfinished items end; waits for whoever is between enter and
 *   leave
 *
 * Concurrency: one mutex. A batch's items may be touched (a) by the caller before open and after
 * the batch was drained, waited for or cancelled, (b) by a tier between enter and leave, (c) here,
 * under the mutex, to set status, bytes and tier. Expiry runs inside drain and wait, so no thread
 * is needed for deadlines: the descriptor becomes readable when the earliest one passes. */
#ifndef SKY_TIER_BATCH_H
#define SKY_TIER_BATCH_H

#include <skymem/cache.h>

#include "base/clock.h"

typedef struct sky_batches sky_batches;

/* Room for SKY_BATCHES_MAX batches. Errors: SKY_E_NOMEM, SKY_E_IO */
sky_status sky_batches_create(const sky_clock *clock, sky_batches **out);
/* All batches must be over or cancelled. NULL is fine. */
void sky_batches_destroy(sky_batches *b);

/* Start a batch of item_count >= 1 items: each becomes SKY_PENDING, 0 bytes, SKY_TIER_NONE.
 * deadline 0: none. Errors: SKY_E_BUSY (no room) */
sky_status sky_batches_open(sky_batches *b, sky_item *items, size_t item_count, sky_time deadline,
                            sky_batch *out);

/* The same, for a caller who waits for this batch alone: only wait and cancel take it, it is never
 * drained, and the descriptor does not tell of it. `event`, if above 0, is raised when it is done,
 * but for a deadline, which is seen by who looks. */
sky_status sky_batches_open_kept(sky_batches *b, sky_item *items, size_t item_count,
                                 sky_time deadline, int event, sky_batch *out);

/* A batch whose items are all answered already. kept: as above, otherwise it is drained. event:
 * with `kept` alone. Errors: SKY_E_BUSY (no room) */
sky_status sky_batches_open_done(sky_batches *b, sky_item *items, size_t item_count, bool kept,
                                 int event, sky_batch *out);

/* The item, guarded until leave; NULL when the batch is over or the item is finished. Never
 * nest. */
sky_item *sky_batches_enter(sky_batches *b, sky_batch batch, size_t item);
void sky_batches_leave(sky_batches *b, sky_batch batch);

/* What a tier answers for one item: the members of the same names in sky_item. */
typedef struct {
    sky_status status;
    uint8_t tier; /* index; SKY_TIER_NONE: no tier has it */
    bool pinned;
    uint8_t evict;
    sky_coding coding;
    uint32_t ttl_s;
    uint64_t bytes;
    uint64_t version;
    sky_span view; /* with a lease */
    sky_lease lease;
} sky_answer;

/* Finish one item. False, and nothing happens, when the batch is over or the item was finished
 * before: who answered with a lease has it back. Not between enter and leave. */
bool sky_batches_answer(sky_batches *b, sky_batch batch, size_t item, const sky_answer *answer);
/* The same, for an answer of these three alone. */
void sky_batches_finish(sky_batches *b, sky_batch batch, size_t item, sky_status status,
                        uint64_t bytes, uint8_t tier);

/* Items of a batch that are not finished yet; 0 when it is over. */
size_t sky_batches_unfinished(sky_batches *b, sky_batch batch);
/* True while the batch is neither over nor past its deadline: worth starting work for. */
bool sky_batches_alive(sky_batches *b, sky_batch batch);

/* The caller's side: as sky_event_fd, sky_drain, sky_wait, sky_cancel. The descriptor may be
 * readable once for a deadline whose batch ended in time; drain then returns 0 and calms it. */
int sky_batches_event_fd(const sky_batches *b);
size_t sky_batches_drain(sky_batches *b, sky_batch *done, size_t max);
sky_status sky_batches_wait(sky_batches *b, sky_batch batch, sky_time until);
void sky_batches_cancel(sky_batches *b, sky_batch batch);
/* The caller of a kept batch waits for it no longer. True: it was done, and is handed out. False:
 * from now on it is as one that was not kept, and will be drained. */
bool sky_batches_leave_to_drain(sky_batches *b, sky_batch batch);
/* Cancel all, for close. */
void sky_batches_cancel_all(sky_batches *b);
/* Items that ended SKY_E_DEADLINE so far. */
uint64_t sky_batches_late(sky_batches *b);

#endif
