/* Changes and lookups go separate ways to the inner tier, so that encoding, which is slow, never
 * holds up an answer; what the inner tier answers comes back one way:
 *
 *   PUT, REMOVE, PIN, UNPIN ──► encoder: copy, encode ─┐
 *                                                      ├─► sub-batches at the inner tier,
 *   GET, HAS, PREFETCH ───────► workers: copy ─────────┘   answered in any order ──► workers:
 *                                                          decode, finish
 *
 * A sub-batch is one batch at the inner tier (sub_batch.h). What is slow to come occupies its
 * sub-batch and nobody else; a put at several levels goes back to the encoder for each. What the
 * inner tier touches is the sub-batch's own: a caller may give up at any time.
 *
 * One idle worker at a time leads: it sleeps on the inner tier's descriptor, drains it, and goes to
 * work on what came while another leads.
 *
 * Concurrency: the mutex guards queues, the states of sub-batches and the codec's uses. The inner
 * tier is submitted to with it held, so that the thread that drains an id finds its sub-batch. A
 * sub-batch that is STARTING or SETTLING belongs to one thread. */
#include "tier/encoded/encoded.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/codec.h>

#include "tier/encoded/sub_batch.h"

#define SUB_BATCH_BYTES                                                                            \
    (32u << 20) /* of all sub-batches of a queue; one of any size is always taken */
#define DRAINED_AT_ONCE 32

typedef sky__coded coded;
typedef sky__coded_worker worker;
typedef sky__coded_queue queue;
typedef sky__coded_sub_batch sub_batch;
typedef sky__coded_request request;

struct sky__coded_request {
    request *next;
    sky_op op;
    sky_batch batch;
    size_t item_count;
    size_t begun; /* of them, in order */
    sky_call call;
};

/* ---- what there is to do; all with the mutex held ---- */

static sub_batch *find_sub_batch(queue *l, sky__coded_progress state) {
    for (uint32_t i = 0; i < SKY__CODED_SUB_BATCHES && l->count > 0; i++)
        if (l->sub_batches[i].state == state)
            return &l->sub_batches[i];
    return NULL;
}

static bool has_room(const queue *l) {
    return l->count == 0 || (l->count < SKY__CODED_SUB_BATCHES && l->bytes < SUB_BATCH_BYTES);
}

/* A sub-batch for the queue's next item, or next request; NULL: none, or no room. */
static sub_batch *next_sub_batch(queue *l) {
    request *r = l->oldest;
    if (!r || !has_room(l))
        return NULL;
    sub_batch *f = l->sub_batches;
    while (f->state != FREE)
        f++;
    *f = (sub_batch){.state = STARTING,
                     .op = r->op,
                     .batch = r->batch,
                     .number = r->begun,
                     .item_count = sky__coded_moves_payload(r->op) ? 1 : r->item_count,
                     .call = r->call};
    l->count++;
    r->begun += f->item_count;
    if (r->begun == r->item_count) {
        l->oldest = r->next;
        free(r);
    }
    return f;
}

/* One that was answered. */
static sub_batch *next_answer(coded *t) {
    sub_batch *f = find_sub_batch(&t->lookups, ANSWERED);
    if (!f)
        f = find_sub_batch(&t->changes, ANSWERED);
    if (f)
        f->state = SETTLING;
    return f;
}

static bool is_over(const coded *t) {
    return t->closing && !t->changes.oldest && !t->lookups.oldest && t->changes.count == 0 &&
           t->lookups.count == 0;
}

static void mark_answered(queue *l, const sky_batch *done, size_t count) {
    for (uint32_t i = 0; i < SKY__CODED_SUB_BATCHES; i++)
        for (size_t n = 0; n < count; n++)
            if (l->sub_batches[i].state == ASKED && l->sub_batches[i].inner.id == done[n].id)
                l->sub_batches[i].state = ANSWERED;
}

/* Call back what nobody waits for any more. */
static void call_back(coded *t, queue *l) {
    for (uint32_t i = 0; i < SKY__CODED_SUB_BATCHES; i++) {
        sub_batch *f = &l->sub_batches[i];
        if (f->state != ASKED || !f->given_up)
            continue;
        f->state = SETTLING;
        sky_mutex_unlock(&t->mutex);
        sky_tier_cancel(t->inner, f->inner);
        sky_mutex_lock(&t->mutex);
        f->state = ANSWERED;
    }
}

static bool has_given_up(const queue *l) {
    for (uint32_t i = 0; i < SKY__CODED_SUB_BATCHES; i++)
        if (l->sub_batches[i].state == ASKED && l->sub_batches[i].given_up)
            return true;
    return false;
}

/* As sky_idle_fn: nothing for the one who leads, nor for a worker that would find all others at
 * work. */
static sky_time idle_until(void *tier) {
    coded *t = tier;
    sky_mutex_lock(&t->mutex);
    bool over = is_over(t) || has_given_up(&t->changes) || has_given_up(&t->lookups);
    bool begun = t->idle == 0 && t->lookups.oldest && has_room(&t->lookups);
    bool answered = t->idle == 0 && (find_sub_batch(&t->lookups, ANSWERED) ||
                                     find_sub_batch(&t->changes, ANSWERED));
    sky_mutex_unlock(&t->mutex);
    return over || begun || answered ? 0 : SKY_TIME_NEVER;
}

/* Sleep until something comes from the inner tier or a caller, and sort it. */
static void coded_poll(coded *t) {
    sky_batch done[DRAINED_AT_ONCE];
    const int inner = sky_tier_event_fd(t->inner);
    t->leading = true;
    sky_mutex_unlock(&t->mutex);
    sky_event_wait(t->wake, &inner, 1, idle_until, t);
    size_t count = sky_tier_drain(t->inner, done, DRAINED_AT_ONCE);
    sky_mutex_lock(&t->mutex);
    mark_answered(&t->changes, done, count);
    mark_answered(&t->lookups, done, count);
    call_back(t, &t->changes);
    call_back(t, &t->lookups);
    t->leading = false;
    sky_condition_broadcast(&t->changed);
}

/* ---- threads ---- */

static void *worker_run(void *argument) {
    worker *w = argument;
    coded *t = w->tier;
    sky_mutex_lock(&t->mutex);
    while (!is_over(t)) {
        sub_batch *asked = next_sub_batch(&t->lookups), *answered = asked ? NULL : next_answer(t);
        if (!asked && !answered && !t->leading) {
            coded_poll(t);
        } else if (!asked && !answered) {
            t->idle++;
            sky_condition_wait(&t->changed, &t->mutex, SKY_TIME_NEVER);
            t->idle--;
        } else {
            sky_mutex_unlock(&t->mutex);
            if (asked)
                sky__coded_begin(w, asked);
            else
                sky__coded_settle(w, answered);
            sky_mutex_lock(&t->mutex);
        }
    }
    sky__coded_wake_all(t);
    sky_mutex_unlock(&t->mutex);
    return NULL;
}

static void *work_on_changes(void *argument) {
    worker *w = argument;
    coded *t = w->tier;
    sky_mutex_lock(&t->mutex);
    while (!t->closing || t->changes.oldest || t->changes.count > 0) {
        sub_batch *due = find_sub_batch(&t->changes, DUE),
                  *f = due ? due : next_sub_batch(&t->changes);
        if (!f) {
            sky_condition_wait(&t->changed, &t->mutex, SKY_TIME_NEVER);
            continue;
        }
        f->state = STARTING;
        sky_mutex_unlock(&t->mutex);
        if (due)
            sky__coded_put_lower(w, f);
        else
            sky__coded_begin(w, f);
        sky_mutex_lock(&t->mutex);
    }
    sky_mutex_unlock(&t->mutex);
    return NULL;
}

/* ---- the tier ---- */

static void request_queue(coded *t, request *r) {
    sky_mutex_lock(&t->mutex);
    queue *l = sky__coded_queue_of(t, r->op);
    *(l->oldest ? &l->newest->next : &l->oldest) = r;
    l->newest = r;
    sky_condition_broadcast(&t->changed);
    if (l == &t->lookups && t->idle == 0)
        sky_event_raise(t->wake); /* who leads is to take it */
    sky_mutex_unlock(&t->mutex);
}

static sky_status op_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                            const sky_call *call, sky_batch *out) {
    coded *t = (coded *)tier;
    request *r = malloc(sizeof *r);
    if (!r)
        return SKY_E_NOMEM;
    *r = (request){.op = op, .item_count = item_count, .call = *call};
    sky_status status = sky_batches_open(t->tier.batches, items, item_count, r->call.deadline_ns,
                                         &r->batch);
    if (status != SKY_OK) {
        free(r);
        return status;
    }
    *out = r->batch;
    if (op == SKY_OP_LEASE) {
        for (size_t i = 0; i < item_count; i++)
            sky_batches_finish(t->tier.batches, *out, i, SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
        free(r);
    } else {
        request_queue(t, r);
    }
    return SKY_OK;
}

/* With the mutex held. id 0: of all batches. */
static void give_up(coded *t, uint64_t id) {
    for (uint32_t i = 0; i < SKY__CODED_SUB_BATCHES; i++) {
        t->changes.sub_batches[i].given_up |= id == 0 || t->changes.sub_batches[i].batch.id == id;
        t->lookups.sub_batches[i].given_up |= id == 0 || t->lookups.sub_batches[i].batch.id == id;
    }
    sky__coded_wake_all(t);
}

static void op_cancelled(sky_tier *tier, sky_batch batch) {
    coded *t = (coded *)tier;
    sky_mutex_lock(&t->mutex);
    give_up(t, batch.id);
    sky_mutex_unlock(&t->mutex);
}

typedef struct {
    sky_entry_fn each;
    void *context;
} listing;

static bool list_one(void *context, const sky_entry *entry) {
    const listing *l = context;
    sky_entry own = *entry;
    sky_level_set_entry(&own);
    return l->each(l->context, &own);
}

static sky_status op_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky_tier *inner = ((coded *)tier)->inner;
    listing l = {each, context};
    return inner->ops->list(inner, list_one, &l);
}

static sky_status op_verify(sky_tier *tier, sky_verify_report *out) {
    sky_tier *inner = ((coded *)tier)->inner;
    return inner->ops->verify(inner, out);
}

static void op_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    coded *t = (coded *)tier;
    t->inner->ops->stat(t->inner, out, counts);
    char text[64];
    size_t used = strlen(out->note);
    sky_level_set_text(&t->levels, text, sizeof text);
    snprintf(out->note + used, sizeof out->note - used, "%slevel %s", used ? ", " : "", text);
    memcpy(out->codings, t->levels.codings, sizeof out->codings);
    counts->tier.late += sky_batches_late(t->tier.batches);
    sky_mutex_lock(&t->mutex);
    counts->tier.moved_bytes = t->moved_bytes;
    sky_mutex_unlock(&t->mutex);
}

static uint64_t op_put_count(sky_tier *tier) {
    return sky_tier_put_count(((coded *)tier)->inner);
}

static void op_close(sky_tier *tier) {
    coded *t = (coded *)tier;
    if (t->tier.batches)
        sky_batches_cancel_all(t->tier.batches);
    sky_mutex_lock(&t->mutex);
    t->closing = true;
    give_up(t, 0);
    sky_mutex_unlock(&t->mutex);
    sky_thread_join(&t->encoder.thread);
    free(t->encoder.work);
    for (size_t i = 0; i < SKY__CODED_WORKERS_MAX; i++) {
        sky_thread_join(&t->workers[i].thread);
        free(t->workers[i].work);
    }
    sky_batches_destroy(t->tier.batches);
    if (t->wake >= 0)
        sky_event_close(t->wake);
    sky_condition_deinit(&t->changed);
    sky_mutex_deinit(&t->mutex);
    t->inner->ops->close(t->inner);
    free(t);
}

static const sky_tier_ops coded_ops = {
    .submit = op_submit,
    .cancelled = op_cancelled,
    .list = op_list,
    .verify = op_verify,
    .stat = op_stat,
    .put_count = op_put_count,
    .close = op_close,
};

static sky_status start_threads(coded *t) {
    uint32_t cores = sky_cpu_count();
    t->encoder.tier = t;
    sky_status status = sky_thread_start(&t->encoder.thread, "skymem-encode", work_on_changes,
                                         &t->encoder);
    for (uint32_t i = 0; status == SKY_OK && i < cores && i < SKY__CODED_WORKERS_MAX; i++) {
        t->workers[i].tier = t;
        status = sky_thread_start(&t->workers[i].thread, "skymem-decode", worker_run,
                                  &t->workers[i]);
    }
    return status;
}

sky_status sky_coded_tier_open(sky_tier *inner, const sky_level_set *levels, sky_tier **out) {
    assert(levels->count >= 1 && levels->count <= SKY_LEVEL_COUNT);
    coded *t = calloc(1, sizeof *t);
    if (!t) {
        inner->ops->close(inner);
        return SKY_E_NOMEM;
    }
    t->tier.ops = &coded_ops;
    t->tier.traits = inner->traits & ~(SKY_TIER_LEASES | SKY_TIER_SYNCHRONOUS | SKY_TIER_VERSIONS |
                                       SKY_TIER_ANNOUNCES);
    t->inner = inner;
    t->levels = *levels;
    t->wake = -1;
    sky_mutex_init(&t->mutex);
    sky_condition_init(&t->changed);
    sky_status status = sky_batches_create(NULL, &t->tier.batches);
    if (status == SKY_OK)
        status = sky_event_create(&t->wake);
    if (status == SKY_OK)
        status = start_threads(t);
    if (status == SKY_OK)
        *out = &t->tier;
    else
        op_close(&t->tier);
    return status;
}

sky_tier *sky_coded_tier_inner(sky_tier *tier) {
    return tier->ops == &coded_ops ? ((coded *)tier)->inner : tier;
}

/* With the mutex held. */
static bool is_used(const coded *t, const sky_block_codec *codec) {
    bool used = t->encoder.codec == codec;
    for (size_t i = 0; i < SKY__CODED_WORKERS_MAX; i++)
        used |= t->workers[i].codec == codec;
    return used;
}

void sky_coded_tier_set(sky_tier *tier, const sky_block_codec *codec) {
    if (!tier || tier->ops != &coded_ops)
        return;
    coded *t = (coded *)tier;
    sky_mutex_lock(&t->mutex);
    const sky_block_codec *before = t->codec;
    t->codec = codec;
    while (before && before != codec && is_used(t, before))
        sky_condition_wait(&t->changed, &t->mutex, SKY_TIME_NEVER);
    sky_mutex_unlock(&t->mutex);
}
