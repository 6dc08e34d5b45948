/* The engine computes a prompt's head while a load brings the tail.
 *
 *   load's loop                     the sequence's thread
 *     sky__head_want(blocks) ─────► sky__head_run: the engine advances
 *     sky__head_done  ◄── event ─── …
 *     sky__head_end  ── interrupt ► returns
 *
 * The engine is called on the thread that its sequence was called on; so the loop goes on
 * on another one as soon as there is something to compute. */
#ifndef SKY_MANAGER_HEAD_H
#define SKY_MANAGER_HEAD_H

#include "manager/blocks.h"

typedef struct {
    sky_sequence *q;
    sky_mutex mutex;
    sky_condition changed;
    bool wanted; /* blocks [first, end) are to be computed, or being so */
    bool done;   /* … were, with `status` */
    bool over;
    uint32_t first, end;
    sky_status status;
    uint32_t computed; /* leading blocks that the engine holds */
} sky__head;

/* Whether the sequence's engine can compute while it is loaded into. */
bool sky__head_can(const sky_sequence *q);

void sky__head_init(sky__head *h, sky_sequence *q);
void sky__head_deinit(sky__head *h);

/* Have blocks computed, on top of all before them; once this is over, the next ones. */
void sky__head_want(sky__head *h, uint32_t first, uint32_t end);
/* Once for each time, when it is over; raises the sequence's event. */
bool sky__head_done(sky__head *h, sky_status *out);
/* Something is to be computed, or being so. */
bool sky__head_computes(sky__head *h);
/* Compute what is wanted, until the end. */
void sky__head_run(sky__head *h);
/* Nothing more is wanted; what is under way is interrupted. */
void sky__head_end(sky__head *h);

#endif
