/* Changes and lookups go separate ways to the inner tier, so that encoding, which is slow, never
 * holds up an answer; what the inner tier answers comes back one way:
 *
 *   PUT, REMOVE, PIN, UNPIN ──► encoder: copy, encode ─┐
 *                                                      ├─► flights at the inner tier, answered in
 *   GET, HAS, PREFETCH ───────► workers: copy ─────────┘   any order ──► workers: decode, finish
 *
 * A flight is one batch at the inner tier: one item that moves a payload, or a whole request that
 * moves none, in the caller's order, which a tier may make use of. What is slow to come occupies
 * its flight and nobody else. What the inner tier touches is the flight's own: a caller may give
 * up at any time.
 *
 * One idle worker at a time leads: it sleeps on the inner tier's descriptor, drains it, and goes to
 * work on what came while another leads.
 *
 * Concurrency: the mutex guards queues, the states of flights and the codec's uses. The inner tier
 * is submitted to with it held, so that whoever drains an id finds its flight. A flight that is
 * STARTING or SETTLING belongs to one thread. */
#include "store/coded_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/codec.h>

#include "io/sync.h"
#include "store/batch.h"
#include "store/spans.h"

#define FLIGHTS         32
#define FLIGHT_BYTES    (32u << 20) /* of all flights of a lane; one of any size is always taken */
#define WORKERS_MAX     4
#define DRAINED_AT_ONCE 32
#define WORK_ALIGN      64

typedef struct request {
    struct request *next;
    sky_op op;
    sky_batch batch;
    size_t item_count;
    size_t begun; /* of them, in order */
    sky_call call;
} request;

typedef enum { FREE, STARTING, ASKED, ANSWERED, SETTLING } flight_state;

typedef struct {
    flight_state state;
    bool given_up;
    sky_op op;
    sky_batch batch; /* the caller's */
    size_t number;   /* in it, of the first item */
    sky_range range;
    uint64_t room_bytes;
    bool leading; /* get: asked for leading bytes, of which a codec is to make the range */
    sky_call call;
    sky_item *items; /* the inner tier's */
    size_t item_count;
    sky_span span;
    sky_batch inner;
    uint8_t *buffer;
    uint64_t buffer_bytes;
} flight;

typedef struct {
    request *oldest, *newest;
    flight flights[FLIGHTS];
    uint32_t count; /* of flights that are not FREE */
    uint64_t bytes; /* of their buffers */
} lane;

/* A thread, and what it codes with. */
typedef struct {
    struct coded *tier;
    sky_thread thread;
    void *work; /* for the codec, of work_bytes */
    size_t work_bytes;
    const sky_block_codec *codec; /* in use */
} worker;

typedef struct coded {
    sky_tier tier;
    sky_tier *inner;
    sky_coding coding; /* of the blocks it codes */
    sky_batches *batches;
    int wake; /* of who leads */
    sky_mutex mutex;
    sky_condition changed; /* a request, room, nobody leads, or a codec was let go of */
    const sky_block_codec *codec;
    uint64_t moved_bytes;
    bool leading;  /* somebody does */
    uint32_t idle; /* workers that wait for something to do */
    bool closing;
    lane changes, lookups;
    worker encoder;
    worker workers[WORKERS_MAX];
} coded;

/* ---- the codec, while it is used ---- */

static void release_codec(worker *w, uint64_t moved_bytes) {
    sky_mutex_lock(&w->tier->mutex);
    w->tier->moved_bytes += moved_bytes;
    w->codec = NULL;
    sky_condition_broadcast(&w->tier->changed);
    sky_mutex_unlock(&w->tier->mutex);
}

/* The codec, with work memory for it; NULL: none. Errors: SKY_E_NOMEM */
static sky_status use_codec(worker *w, const sky_block_codec **out) {
    sky_mutex_lock(&w->tier->mutex);
    *out = w->codec = w->tier->codec;
    sky_mutex_unlock(&w->tier->mutex);
    if (!w->codec || w->codec->work_bytes <= w->work_bytes)
        return SKY_OK;
    size_t bytes = (w->codec->work_bytes + WORK_ALIGN - 1) / WORK_ALIGN * WORK_ALIGN;
    free(w->work);
    w->work = aligned_alloc(WORK_ALIGN, bytes);
    w->work_bytes = w->work ? bytes : 0;
    if (w->work)
        return SKY_OK;
    release_codec(w, 0);
    *out = NULL;
    return SKY_E_NOMEM;
}

/* ---- flights ---- */

/* Everybody is to look what has changed; who leads too. With the mutex held. */
static void wake_all(coded *t) {
    sky_condition_broadcast(&t->changed);
    sky_event_raise(t->wake);
}

static bool moves_payload(sky_op op) {
    return op == SKY_OP_GET || op == SKY_OP_PUT;
}

static bool is_change(sky_op op) {
    return op == SKY_OP_PUT || op == SKY_OP_REMOVE || op == SKY_OP_PIN || op == SKY_OP_UNPIN;
}

static lane *lane_of(coded *t, sky_op op) {
    return is_change(op) ? &t->changes : &t->lookups;
}

/* Another buffer instead of the one before; bytes 0: none. */
static bool take_buffer(coded *t, flight *f, uint64_t bytes) {
    free(f->buffer);
    f->buffer = bytes ? malloc(bytes) : NULL;
    uint64_t before = f->buffer_bytes;
    f->buffer_bytes = f->buffer ? bytes : 0;
    f->span = (sky_span){f->buffer, f->buffer_bytes};
    sky_mutex_lock(&t->mutex);
    lane *l = lane_of(t, f->op);
    l->bytes = l->bytes - before + f->buffer_bytes;
    sky_mutex_unlock(&t->mutex);
    return f->buffer || bytes == 0;
}

/* Ask the inner tier. On failure the flight stays with this thread. */
static sky_status start(coded *t, flight *f) {
    if (moves_payload(f->op)) {
        f->items->spans = &f->span;
        f->items->span_count = 1;
    }
    sky_mutex_lock(&t->mutex);
    sky_status status = f->given_up ? SKY_E_CANCELLED
                                    : t->inner->ops->submit(t->inner, f->op, f->items,
                                                            f->item_count, &f->call, &f->inner);
    if (status == SKY_OK)
        f->state = ASKED;
    sky_mutex_unlock(&t->mutex);
    return status;
}

static void give_flight(coded *t, flight *f) {
    take_buffer(t, f, 0);
    for (size_t i = 0; f->items && i < f->item_count; i++)
        free((char *)(uintptr_t)f->items[i].name);
    free(f->items);
    sky_mutex_lock(&t->mutex);
    f->items = NULL;
    f->state = FREE;
    lane_of(t, f->op)->count--;
    sky_condition_broadcast(&t->changed);
    if (t->closing)
        wake_all(t);
    sky_mutex_unlock(&t->mutex);
}

/* ---- beginning a flight ---- */

/* A copy of a caller's item, with a name of its own.
 * Errors: SKY_E_CANCELLED (nobody waits for it any more), SKY_E_NOMEM */
static sky_status copy_item(coded *t, flight *f, size_t i) {
    sky_item *to = &f->items[i];
    const sky_item *item = sky_batches_enter(t->batches, f->batch, f->number + i);
    if (!item)
        return SKY_E_CANCELLED;
    *to = (sky_item){.key = item->key, .parent = item->parent};
    f->range = item->range;
    f->room_bytes = sky_spans_bytes(item->spans, item->span_count);
    size_t max = SKY_NAME_BYTES_MAX, bytes = item->name_bytes < max ? item->name_bytes : max;
    bool named = item->name != NULL;
    char *name = named ? malloc(bytes + 1) : NULL;
    if (name) {
        memcpy(name, item->name, bytes);
        to->name = name;
        to->name_bytes = item->name_bytes; /* one too long is refused so */
    }
    sky_batches_leave(t->batches, f->batch);
    return named && !name ? SKY_E_NOMEM : SKY_OK;
}

/* The payload of a put into the flight's buffer. */
static sky_status copy_payload(coded *t, flight *f) {
    const sky_item *item = sky_batches_enter(t->batches, f->batch, f->number);
    if (!item)
        return SKY_E_CANCELLED;
    uint64_t bytes = f->room_bytes, at = 0;
    sky_status status = bytes > SKY_PAYLOAD_BYTES_MAX ? SKY_E_PARAM : SKY_OK;
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            status = SKY_E_PARAM;
    if (status == SKY_OK && !take_buffer(t, f, bytes))
        status = SKY_E_NOMEM;
    for (uint32_t i = 0; status == SKY_OK && i < item->span_count; at += item->spans[i++].bytes)
        if (item->spans[i].bytes > 0)
            memcpy(f->buffer + at, item->spans[i].data, item->spans[i].bytes);
    sky_batches_leave(t->batches, f->batch);
    return status;
}

/* Replace the payload by its code, or what is coded higher than here by a lower code, where there
 * is one and it is smaller. */
static void encode(worker *w, flight *f) {
    const sky_block_codec *codec;
    sky_coding own = w->tier->coding;
    bool higher = f->call.coding != 0;
    if (f->items->name || f->call.coding >= own || use_codec(w, &codec) != SKY_OK || !codec)
        return;
    bool fits = higher || f->span.bytes == codec->payload_bytes;
    uint64_t max = codec->coded_bytes_max, bytes = 0;
    uint8_t *dst = fits ? malloc(max) : NULL;
    sky_status status = SKY_E_UNSUPPORTED;
    if (dst && higher)
        status = codec->lower(codec->self, own, f->buffer, f->span.bytes, dst, max, &bytes,
                              w->work);
    else if (dst)
        status = codec->encode(codec->self, own, f->buffer, dst, max, &bytes, w->work);
    if (status == SKY_OK && bytes < f->span.bytes) {
        memcpy(f->buffer, dst, bytes);
        f->span.bytes = bytes;
        f->call.coding = own;
    }
    free(dst);
    release_codec(w, 0);
}

/* A get asks for what its range needs; where nothing is coded that is the range itself. */
static sky_status make_room(worker *w, flight *f) {
    uint64_t bytes = f->room_bytes;
    const sky_block_codec *codec = NULL;
    f->items->range = f->range;
    if (!f->items->name && use_codec(w, &codec) != SKY_OK)
        return SKY_E_NOMEM;
    f->leading = codec != NULL;
    if (codec) {
        bytes = codec->likely_bytes(codec->self, w->tier->coding, f->range);
        f->items->range = (sky_range){0, bytes};
        release_codec(w, 0);
    } else if (f->range.bytes != 0 && f->range.bytes < bytes) {
        bytes = f->range.bytes;
    }
    if (bytes > SKY_PAYLOAD_BYTES_MAX)
        bytes = SKY_PAYLOAD_BYTES_MAX;
    return take_buffer(w->tier, f, bytes) ? SKY_OK : SKY_E_NOMEM;
}

static sky_status copy_items(coded *t, flight *f) {
    f->items = calloc(f->item_count, sizeof *f->items);
    sky_status status = f->items ? SKY_OK : SKY_E_NOMEM;
    for (size_t i = 0; status == SKY_OK && i < f->item_count; i++)
        status = copy_item(t, f, i);
    return status;
}

static void begin(worker *w, flight *f) {
    coded *t = w->tier;
    sky_status status = copy_items(t, f);
    if (status == SKY_OK && f->op == SKY_OP_PUT) {
        status = copy_payload(t, f);
        if (status == SKY_OK)
            encode(w, f);
    }
    if (status == SKY_OK && f->op == SKY_OP_GET)
        status = make_room(w, f);
    if (status == SKY_OK)
        status = start(t, f);
    if (status == SKY_OK)
        return;
    for (size_t i = 0; i < f->item_count; i++)
        sky_batches_finish(t->batches, f->batch, f->number + i, status, 0, SKY_TIER_NONE);
    give_flight(t, f);
}

/* ---- settling it ---- */

/* The codec went while its bytes were on their way: ask as is done without one. */
static sky_status ask_anew(worker *w, flight *f) {
    sky_status status = make_room(w, f);
    if (status == SKY_OK)
        status = start(w->tier, f);
    return status == SKY_OK ? SKY_PENDING : status;
}

/* The first guess was short. A codec that asks for what it has would ask forever. */
static sky_status ask_more(coded *t, flight *f, uint64_t needed) {
    if (needed > SKY_PAYLOAD_BYTES_MAX)
        needed = SKY_PAYLOAD_BYTES_MAX;
    if (needed <= f->span.bytes)
        return SKY_E_CORRUPT;
    if (!take_buffer(t, f, needed))
        return SKY_E_NOMEM;
    f->items->range = (sky_range){0, needed};
    sky_status status = start(t, f);
    return status == SKY_OK ? SKY_PENDING : status;
}

/* What came, to the caller. SKY_PENDING: more of it is on its way. */
static sky_status deliver(worker *w, flight *f, uint64_t *moved) {
    coded *t = w->tier;
    const sky_block_codec *codec = NULL;
    if (f->leading && use_codec(w, &codec) != SKY_OK)
        return SKY_E_NOMEM;
    if (f->leading && !codec)
        return ask_anew(w, f);
    const sky_item *to = sky_batches_enter(t->batches, f->batch, f->number);
    uint64_t came = f->items->bytes, needed = 0;
    sky_status status = SKY_E_CANCELLED;
    if (to && codec) {
        bool whole = came < f->span.bytes || came == SKY_PAYLOAD_BYTES_MAX;
        status = codec->decode(codec->self, f->buffer, came, whole, f->range, to->spans,
                               to->span_count, moved, &needed, w->work);
    } else if (to) {
        sky_spans_scatter(to->spans, to->span_count, f->buffer, came);
        *moved = came;
        status = SKY_OK;
    }
    if (to)
        sky_batches_leave(t->batches, f->batch);
    if (codec)
        release_codec(w, came);
    return status == SKY_PENDING ? ask_more(t, f, needed) : status;
}

/* A payload went there or came. */
static void settle_one(worker *w, flight *f) {
    coded *t = w->tier;
    const sky_item *item = f->items;
    sky_status status = item->status;
    uint64_t bytes = f->op == SKY_OP_PUT ? f->room_bytes : item->bytes;
    if (status == SKY_OK && f->op == SKY_OP_GET)
        status = deliver(w, f, &bytes);
    if (status == SKY_PENDING)
        return;
    bool answered = status == SKY_OK;
    if (answered && f->op == SKY_OP_GET)
        sky_batches_tell_ttl(t->batches, f->batch, f->number, item->ttl_s);
    sky_batches_finish(t->batches, f->batch, f->number, status, answered ? bytes : 0,
                       answered ? item->tier : SKY_TIER_NONE);
    give_flight(t, f);
}

/* Bytes of a payload that is stored at a level. */
static uint64_t payload_bytes(worker *w, const sky_item *item) {
    const sky_block_codec *codec = NULL;
    if (item->coding == 0 || use_codec(w, &codec) != SKY_OK)
        return item->bytes;
    uint64_t bytes = codec ? codec->payload_bytes : item->bytes;
    if (codec)
        release_codec(w, 0);
    return bytes;
}

static void settle_all(worker *w, flight *f) {
    coded *t = w->tier;
    for (size_t i = 0; i < f->item_count; i++) {
        const sky_item *item = &f->items[i];
        sky_batches_finish_coded(t->batches, f->batch, i, item->status, payload_bytes(w, item),
                                 item->tier, item->coding);
    }
    give_flight(t, f);
}

static void settle(worker *w, flight *f) {
    if (moves_payload(f->op))
        settle_one(w, f);
    else
        settle_all(w, f);
}

/* ---- what there is to do; all with the mutex held ---- */

static flight *find_flight(lane *l, flight_state state) {
    for (uint32_t i = 0; i < FLIGHTS && l->count > 0; i++)
        if (l->flights[i].state == state)
            return &l->flights[i];
    return NULL;
}

/* A flight for the lane's next item, or next request; NULL: none, or no room. */
static flight *next_flight(lane *l) {
    request *r = l->oldest;
    if (!r || l->count == FLIGHTS || (l->count > 0 && l->bytes >= FLIGHT_BYTES))
        return NULL;
    flight *f = l->flights;
    while (f->state != FREE)
        f++;
    *f = (flight){.state = STARTING,
                  .op = r->op,
                  .batch = r->batch,
                  .number = r->begun,
                  .item_count = moves_payload(r->op) ? 1 : r->item_count,
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
static flight *next_answer(coded *t) {
    flight *f = find_flight(&t->lookups, ANSWERED);
    if (!f)
        f = find_flight(&t->changes, ANSWERED);
    if (f)
        f->state = SETTLING;
    return f;
}

static bool is_over(const coded *t) {
    return t->closing && !t->changes.oldest && !t->lookups.oldest && t->changes.count == 0 &&
           t->lookups.count == 0;
}

static void mark_answered(lane *l, const sky_batch *done, size_t count) {
    for (uint32_t i = 0; i < FLIGHTS; i++)
        for (size_t n = 0; n < count; n++)
            if (l->flights[i].state == ASKED && l->flights[i].inner.id == done[n].id)
                l->flights[i].state = ANSWERED;
}

/* Call back what nobody waits for any more. */
static void call_back(coded *t, lane *l) {
    for (uint32_t i = 0; i < FLIGHTS; i++) {
        flight *f = &l->flights[i];
        if (f->state != ASKED || !f->given_up)
            continue;
        f->state = SETTLING;
        sky_mutex_unlock(&t->mutex);
        t->inner->ops->cancel(t->inner, f->inner);
        sky_mutex_lock(&t->mutex);
        f->state = ANSWERED;
    }
}

/* Sleep until something comes from the inner tier or a caller, and sort it. */
static void lead(coded *t) {
    sky_batch done[DRAINED_AT_ONCE];
    const int fds[] = {t->wake, t->inner->ops->event_fd(t->inner)};
    t->leading = true;
    sky_mutex_unlock(&t->mutex);
    if (sky_poll(fds, 2, SKY_TIME_NEVER) & 1)
        sky_event_clear(t->wake);
    size_t count = t->inner->ops->drain(t->inner, done, DRAINED_AT_ONCE);
    sky_mutex_lock(&t->mutex);
    mark_answered(&t->changes, done, count);
    mark_answered(&t->lookups, done, count);
    call_back(t, &t->changes);
    call_back(t, &t->lookups);
    t->leading = false;
    sky_condition_broadcast(&t->changed);
}

/* ---- threads ---- */

static void *work(void *argument) {
    worker *w = argument;
    coded *t = w->tier;
    sky_mutex_lock(&t->mutex);
    while (!is_over(t)) {
        flight *asked = next_flight(&t->lookups), *answered = asked ? NULL : next_answer(t);
        if (!asked && !answered && !t->leading) {
            lead(t);
        } else if (!asked && !answered) {
            t->idle++;
            sky_condition_wait(&t->changed, &t->mutex, SKY_TIME_NEVER);
            t->idle--;
        } else {
            sky_mutex_unlock(&t->mutex);
            if (asked)
                begin(w, asked);
            else
                settle(w, answered);
            sky_mutex_lock(&t->mutex);
        }
    }
    wake_all(t);
    sky_mutex_unlock(&t->mutex);
    return NULL;
}

static void *work_on_changes(void *argument) {
    worker *w = argument;
    coded *t = w->tier;
    sky_mutex_lock(&t->mutex);
    while (!t->closing || t->changes.oldest) {
        flight *f = next_flight(&t->changes);
        if (!f) {
            sky_condition_wait(&t->changed, &t->mutex, SKY_TIME_NEVER);
            continue;
        }
        sky_mutex_unlock(&t->mutex);
        begin(w, f);
        sky_mutex_lock(&t->mutex);
    }
    sky_mutex_unlock(&t->mutex);
    return NULL;
}

/* ---- the tier ---- */

static void queue(coded *t, request *r) {
    sky_mutex_lock(&t->mutex);
    lane *l = lane_of(t, r->op);
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
    if (item_count == 0 || item_count > SKY_BATCH_ITEMS_MAX || op > SKY_OP_LEASE)
        return SKY_E_PARAM;
    request *r = malloc(sizeof *r);
    if (!r)
        return SKY_E_NOMEM;
    *r = (request){.op = op, .item_count = item_count, .call = call ? *call : (sky_call){0}};
    sky_status status = sky_batches_open(t->batches, items, item_count, r->call.deadline_ns,
                                         &r->batch);
    if (status != SKY_OK) {
        free(r);
        return status;
    }
    *out = r->batch;
    if (op == SKY_OP_LEASE) {
        for (size_t i = 0; i < item_count; i++)
            sky_batches_finish(t->batches, *out, i, SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
        free(r);
    } else {
        queue(t, r);
    }
    return SKY_OK;
}

static int op_event_fd(const sky_tier *tier) {
    return sky_batches_event_fd(((const coded *)tier)->batches);
}

static size_t op_drain(sky_tier *tier, sky_batch *done, size_t max) {
    return sky_batches_drain(((coded *)tier)->batches, done, max);
}

static sky_status op_wait(sky_tier *tier, sky_batch batch, sky_time until) {
    return sky_batches_wait(((coded *)tier)->batches, batch, until);
}

/* With the mutex held. id 0: of all batches. */
static void give_up(coded *t, uint64_t id) {
    for (uint32_t i = 0; i < FLIGHTS; i++) {
        t->changes.flights[i].given_up |= id == 0 || t->changes.flights[i].batch.id == id;
        t->lookups.flights[i].given_up |= id == 0 || t->lookups.flights[i].batch.id == id;
    }
    wake_all(t);
}

static void op_cancel(sky_tier *tier, sky_batch batch) {
    coded *t = (coded *)tier;
    sky_batches_cancel(t->batches, batch);
    sky_mutex_lock(&t->mutex);
    give_up(t, batch.id);
    sky_mutex_unlock(&t->mutex);
}

static sky_status op_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky_tier *inner = ((coded *)tier)->inner;
    return inner->ops->list(inner, each, context);
}

static sky_status op_verify(sky_tier *tier, sky_verify_report *out) {
    sky_tier *inner = ((coded *)tier)->inner;
    return inner->ops->verify(inner, out);
}

static void op_stat(sky_tier *tier, sky_tier_stat *out) {
    coded *t = (coded *)tier;
    t->inner->ops->stat(t->inner, out);
    size_t used = strlen(out->note);
    snprintf(out->note + used, sizeof out->note - used, "%slevel %s", used ? ", " : "",
             sky_level_name((sky_level)(t->coding - 1)));
    out->late += sky_batches_late(t->batches);
    sky_mutex_lock(&t->mutex);
    out->moved_bytes = t->moved_bytes;
    sky_mutex_unlock(&t->mutex);
}

static void op_close(sky_tier *tier) {
    coded *t = (coded *)tier;
    if (t->batches)
        sky_batches_cancel_all(t->batches);
    sky_mutex_lock(&t->mutex);
    t->closing = true;
    give_up(t, 0);
    sky_mutex_unlock(&t->mutex);
    sky_thread_join(&t->encoder.thread);
    free(t->encoder.work);
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        sky_thread_join(&t->workers[i].thread);
        free(t->workers[i].work);
    }
    sky_batches_destroy(t->batches);
    if (t->wake >= 0)
        sky_event_close(t->wake);
    sky_condition_deinit(&t->changed);
    sky_mutex_deinit(&t->mutex);
    t->inner->ops->close(t->inner);
    free(t);
}

static const sky_tier_ops coded_ops = {
    .submit = op_submit,
    .event_fd = op_event_fd,
    .drain = op_drain,
    .wait = op_wait,
    .cancel = op_cancel,
    .list = op_list,
    .verify = op_verify,
    .stat = op_stat,
    .close = op_close,
};

static sky_status start_threads(coded *t) {
    uint32_t cores = sky_cpu_count();
    t->encoder.tier = t;
    sky_status status = sky_thread_start(&t->encoder.thread, "skymem-encode", work_on_changes,
                                         &t->encoder);
    for (uint32_t i = 0; status == SKY_OK && i < cores && i < WORKERS_MAX; i++) {
        t->workers[i].tier = t;
        status = sky_thread_start(&t->workers[i].thread, "skymem-decode", work, &t->workers[i]);
    }
    return status;
}

sky_status sky_coded_tier_open(sky_tier *inner, sky_coding coding, sky_tier **out) {
    assert(coding >= 1 && coding <= SKY_LEVEL_COUNT);
    coded *t = calloc(1, sizeof *t);
    if (!t) {
        inner->ops->close(inner);
        return SKY_E_NOMEM;
    }
    t->tier.ops = &coded_ops;
    t->inner = inner;
    t->coding = coding;
    t->wake = -1;
    sky_mutex_init(&t->mutex);
    sky_condition_init(&t->changed);
    sky_status status = sky_batches_create(NULL, &t->batches);
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
    for (size_t i = 0; i < WORKERS_MAX; i++)
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
