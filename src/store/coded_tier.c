/* Two lanes, each a thread: changes (PUT, REMOVE, PIN, UNPIN) and lookups (all else), so that
 * encoding never holds up an answer. A lane takes the items of its requests in order and keeps
 * several at the inner tier at once:
 *
 *   requests ──► begin: copy, encode ──► flights at the inner tier ──► settle: decode, finish
 *                                        oldest … newest, at most FLIGHTS and FLIGHT_BYTES
 *
 * so the next item is encoded while the one before is written, and one is decoded while the next is
 * read. What the inner tier touches is the flight's own: a caller may give up at any time.
 *
 * Concurrency: the mutex guards the queues and the codec's uses; a flight belongs to its lane. */
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

#define FLIGHTS      16
#define FLIGHT_BYTES (32u << 20) /* of all flights of a lane; one of any size is always taken */
#define GIVEN_UP     SKY_MS(20)  /* between two looks whether anybody still waits */
#define WORK_ALIGN   64

typedef struct request {
    struct request *next;
    sky_op op;
    sky_batch batch;
    size_t item_count;
    sky_call call;
} request;

typedef struct {
    sky_op op;
    sky_batch batch; /* the caller's */
    size_t number;
    sky_range range;
    uint64_t room_bytes;
    bool leading; /* get: asked for leading bytes, of which a codec is to make the range */
    sky_call call;
    sky_item item; /* the inner tier's */
    sky_span span;
    sky_batch inner;
    uint8_t *buffer;
    uint64_t buffer_bytes;
    char name[SKY_NAME_BYTES_MAX];
} flight;

typedef struct {
    struct coded *tier;
    sky_thread thread;
    sky_condition changed;
    request *oldest, *newest;
    flight *flights; /* [FLIGHTS], a ring */
    uint32_t first, count;
    uint64_t bytes;
    void *work; /* for the codec, of work_bytes */
    size_t work_bytes;
    const sky_block_codec *codec; /* in use */
} lane;

typedef struct coded {
    sky_tier tier;
    sky_tier *inner;
    uint8_t level;
    sky_batches *batches;
    sky_mutex mutex;
    sky_condition released; /* a lane let go of the codec */
    const sky_block_codec *codec;
    uint64_t moved_bytes;
    bool closing;
    lane changes, lookups;
} coded;

/* ---- the codec, while it is used ---- */

static void release_codec(lane *l, uint64_t moved_bytes) {
    sky_mutex_lock(&l->tier->mutex);
    l->tier->moved_bytes += moved_bytes;
    l->codec = NULL;
    sky_condition_broadcast(&l->tier->released);
    sky_mutex_unlock(&l->tier->mutex);
}

/* The codec, with work memory for it; NULL: none. Errors: SKY_E_NOMEM */
static sky_status use_codec(lane *l, const sky_block_codec **out) {
    sky_mutex_lock(&l->tier->mutex);
    *out = l->codec = l->tier->codec;
    sky_mutex_unlock(&l->tier->mutex);
    if (!l->codec || l->codec->work_bytes <= l->work_bytes)
        return SKY_OK;
    size_t bytes = (l->codec->work_bytes + WORK_ALIGN - 1) / WORK_ALIGN * WORK_ALIGN;
    free(l->work);
    l->work = aligned_alloc(WORK_ALIGN, bytes);
    l->work_bytes = l->work ? bytes : 0;
    if (l->work)
        return SKY_OK;
    release_codec(l, 0);
    *out = NULL;
    return SKY_E_NOMEM;
}

/* ---- flights ---- */

static void give_buffer(lane *l, flight *f) {
    free(f->buffer);
    l->bytes -= f->buffer_bytes;
    f->buffer = NULL;
    f->buffer_bytes = 0;
}

static bool take_buffer(lane *l, flight *f, uint64_t bytes) {
    give_buffer(l, f);
    f->buffer = malloc(bytes ? bytes : 1);
    if (!f->buffer)
        return false;
    f->buffer_bytes = bytes;
    l->bytes += bytes;
    return true;
}

static sky_status start(lane *l, flight *f) {
    sky_tier *inner = l->tier->inner;
    f->item.spans = &f->span;
    f->item.span_count = f->buffer ? 1 : 0;
    return inner->ops->submit(inner, f->op, &f->item, 1, &f->call, &f->inner);
}

static void finish(lane *l, const flight *f, sky_status status, uint64_t bytes) {
    bool answered = status == SKY_OK;
    sky_batches_finish(l->tier->batches, f->batch, f->number, status, answered ? bytes : 0,
                       answered ? f->item.tier : SKY_TIER_NONE);
}

/* ---- putting ---- */

/* The payload into the flight's buffer. Called between enter and leave. */
static sky_status copy_payload(lane *l, flight *f, const sky_item *item) {
    uint64_t bytes = sky_spans_bytes(item->spans, item->span_count);
    if (bytes > SKY_PAYLOAD_BYTES_MAX)
        return SKY_E_PARAM;
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return SKY_E_PARAM;
    if (!take_buffer(l, f, bytes))
        return SKY_E_NOMEM;
    uint64_t at = 0;
    for (uint32_t i = 0; i < item->span_count; at += item->spans[i++].bytes)
        if (item->spans[i].bytes > 0)
            memcpy(f->buffer + at, item->spans[i].data, item->spans[i].bytes);
    f->span = (sky_span){f->buffer, bytes};
    return SKY_OK;
}

/* Replace the payload by its code, where there is one and it is smaller. */
static void encode(lane *l, flight *f) {
    const sky_block_codec *codec;
    bool plain = f->item.name || f->call.level != 0;
    if (plain || use_codec(l, &codec) != SKY_OK || !codec)
        return;
    uint8_t *dst = f->span.bytes == codec->payload_bytes ? malloc(codec->coded_bytes_max) : NULL;
    uint64_t bytes = 0;
    if (dst &&
        codec->encode(codec->self, l->tier->level, f->buffer, dst, codec->coded_bytes_max, &bytes,
                      l->work) == SKY_OK &&
        bytes < f->span.bytes) {
        memcpy(f->buffer, dst, bytes);
        f->span.bytes = bytes;
        f->call.level = l->tier->level;
    }
    free(dst);
    release_codec(l, 0);
}

/* ---- getting ---- */

/* Ask for what the range needs; where nothing is coded that is the range itself. */
static sky_status begin_get(lane *l, flight *f) {
    uint64_t bytes = f->room_bytes;
    const sky_block_codec *codec = NULL;
    f->item.range = f->range;
    if (!f->item.name && use_codec(l, &codec) != SKY_OK)
        return SKY_E_NOMEM;
    f->leading = codec != NULL;
    if (codec) {
        bytes = codec->likely_bytes(codec->self, l->tier->level, f->range);
        f->item.range = (sky_range){0, bytes};
        release_codec(l, 0);
    } else if (f->range.bytes != 0 && f->range.bytes < bytes) {
        bytes = f->range.bytes;
    }
    if (bytes > SKY_PAYLOAD_BYTES_MAX)
        bytes = SKY_PAYLOAD_BYTES_MAX;
    if (!take_buffer(l, f, bytes))
        return SKY_E_NOMEM;
    f->span = (sky_span){f->buffer, bytes};
    return SKY_OK;
}

/* The codec went while its bytes were on their way: ask as is done without one. */
static sky_status ask_anew(lane *l, flight *f) {
    sky_status status = begin_get(l, f);
    if (status == SKY_OK)
        status = start(l, f);
    return status == SKY_OK ? SKY_PENDING : status;
}

/* What came, to the caller. SKY_PENDING: more of it is on its way. */
static sky_status deliver(lane *l, flight *f, uint64_t *moved) {
    const sky_block_codec *codec = NULL;
    if (f->leading && use_codec(l, &codec) != SKY_OK)
        return SKY_E_NOMEM;
    if (f->leading && !codec)
        return ask_anew(l, f);
    const sky_item *to = sky_batches_enter(l->tier->batches, f->batch, f->number);
    uint64_t came = f->item.bytes, needed = 0;
    sky_status status = SKY_E_CANCELLED;
    if (to && codec) {
        bool whole = came < f->span.bytes || came == SKY_PAYLOAD_BYTES_MAX;
        status = codec->decode(codec->self, f->buffer, came, whole, f->range, to->spans,
                               to->span_count, moved, &needed, l->work);
    } else if (to) {
        sky_spans_scatter(to->spans, to->span_count, f->buffer, came);
        *moved = came;
        status = SKY_OK;
    }
    if (to)
        sky_batches_leave(l->tier->batches, f->batch);
    if (codec)
        release_codec(l, came);
    if (status != SKY_PENDING)
        return status;
    if (needed > SKY_PAYLOAD_BYTES_MAX)
        needed = SKY_PAYLOAD_BYTES_MAX;
    assert(needed > f->span.bytes);
    if (!take_buffer(l, f, needed))
        return SKY_E_NOMEM;
    f->span = (sky_span){f->buffer, needed};
    f->item.range = (sky_range){0, needed};
    status = start(l, f);
    return status == SKY_OK ? SKY_PENDING : status;
}

/* ---- a lane ---- */

/* Wait for the inner tier, as long as somebody waits for us. False: nobody does. */
static bool await(lane *l, sky_batch batch, sky_batch caller) {
    sky_tier *inner = l->tier->inner;
    while (inner->ops->wait(inner, batch, sky_now() + GIVEN_UP) == SKY_E_DEADLINE) {
        if (sky_batches_alive(l->tier->batches, caller))
            continue;
        inner->ops->cancel(inner, batch);
        return false;
    }
    return true;
}

static sky_status outcome(lane *l, flight *f, uint64_t *bytes) {
    for (;;) {
        sky_status status = await(l, f->inner, f->batch) ? f->item.status : SKY_E_CANCELLED;
        *bytes = f->item.bytes;
        if (status != SKY_OK || f->op != SKY_OP_GET)
            return status;
        status = deliver(l, f, bytes);
        if (status != SKY_PENDING)
            return status;
    }
}

static void settle_oldest(lane *l) {
    flight *f = &l->flights[l->first];
    uint64_t bytes;
    uint64_t payload_bytes = f->op == SKY_OP_PUT ? f->buffer_bytes : 0;
    sky_status status = outcome(l, f, &bytes);
    if (status == SKY_OK && f->op == SKY_OP_PUT)
        bytes = payload_bytes;
    give_buffer(l, f);
    finish(l, f, status, bytes);
    l->first = (l->first + 1) % FLIGHTS;
    l->count--;
}

/* Take what is needed of the caller's item. False: nobody waits for it any more. */
static bool copy_item(lane *l, const request *r, size_t number, flight *f, sky_status *status) {
    const sky_item *item = sky_batches_enter(l->tier->batches, r->batch, number);
    if (!item)
        return false;
    *f = (flight){
        .op = r->op, .batch = r->batch, .number = number, .range = item->range, .call = r->call};
    f->item = (sky_item){.key = item->key, .parent = item->parent, .range = item->range};
    *status = SKY_OK;
    if (item->name && (item->name_bytes == 0 || item->name_bytes > SKY_NAME_BYTES_MAX)) {
        *status = SKY_E_PARAM;
    } else if (item->name) {
        memcpy(f->name, item->name, item->name_bytes);
        f->item.name = f->name;
        f->item.name_bytes = item->name_bytes;
    }
    if (*status == SKY_OK && r->op == SKY_OP_PUT)
        *status = copy_payload(l, f, item);
    f->room_bytes = sky_spans_bytes(item->spans, item->span_count);
    sky_batches_leave(l->tier->batches, r->batch);
    return true;
}

static void begin(lane *l, const request *r, size_t number) {
    while (l->count > 0 && (l->count == FLIGHTS || l->bytes >= FLIGHT_BYTES))
        settle_oldest(l);
    flight *f = &l->flights[(l->first + l->count) % FLIGHTS];
    sky_status status;
    if (!copy_item(l, r, number, f, &status))
        return;
    if (status == SKY_OK && r->op == SKY_OP_PUT)
        encode(l, f);
    if (status == SKY_OK && r->op == SKY_OP_GET)
        status = begin_get(l, f);
    if (status == SKY_OK)
        status = start(l, f);
    if (status == SKY_OK) {
        l->count++;
        return;
    }
    give_buffer(l, f);
    finish(l, f, status, 0);
}

/* ---- whole batches, that move no payload ---- */

/* Copies of the caller's items, with their names behind them; NULL: nobody waits, or no memory. */
static sky_item *copy_items(lane *l, const request *r) {
    sky_item *items = calloc(r->item_count, sizeof *items);
    for (size_t i = 0; items && i < r->item_count; i++) {
        const sky_item *item = sky_batches_enter(l->tier->batches, r->batch, i);
        if (item) {
            size_t bytes = item->name_bytes < SKY_NAME_BYTES_MAX ? item->name_bytes
                                                                 : SKY_NAME_BYTES_MAX;
            char *name = item->name ? malloc(bytes + 1) : NULL;
            items[i] = (sky_item){.key = item->key, .parent = item->parent, .name = name};
            items[i].name_bytes = name ? item->name_bytes : 0; /* too long ones are refused so */
            if (name)
                memcpy(name, item->name, bytes);
            sky_batches_leave(l->tier->batches, r->batch);
        }
    }
    return items;
}

/* Bytes of a payload that is stored at a level. */
static uint64_t payload_bytes(lane *l, const sky_item *item) {
    const sky_block_codec *codec = NULL;
    if (item->level == 0 || use_codec(l, &codec) != SKY_OK)
        return item->bytes;
    uint64_t bytes = codec ? codec->payload_bytes : item->bytes;
    if (codec)
        release_codec(l, 0);
    return bytes;
}

/* As one batch, in the caller's order, which a tier may make use of. */
static void forward(lane *l, const request *r) {
    sky_tier *inner = l->tier->inner;
    sky_item *items = copy_items(l, r);
    sky_batch batch;
    sky_status status = SKY_E_NOMEM;
    if (items)
        status = inner->ops->submit(inner, r->op, items, r->item_count, &r->call, &batch);
    if (status == SKY_OK && !await(l, batch, r->batch))
        status = SKY_E_CANCELLED;
    for (size_t i = 0; i < r->item_count; i++) {
        const sky_item *item = items ? &items[i] : &(sky_item){.tier = SKY_TIER_NONE};
        uint64_t bytes = status == SKY_OK ? payload_bytes(l, item) : 0;
        sky_batches_finish_level(l->tier->batches, r->batch, i,
                                 status == SKY_OK ? item->status : status, bytes, item->tier,
                                 item->level);
        free((char *)(uintptr_t)item->name);
    }
    free(items);
}

/* ---- a lane's life ---- */

/* The next request; NULL: none, and nothing under way either: the end. */
static request *next_request(lane *l) {
    coded *t = l->tier;
    sky_mutex_lock(&t->mutex);
    while (!l->oldest && l->count == 0 && !t->closing)
        sky_condition_wait(&l->changed, &t->mutex, SKY_TIME_NEVER);
    request *r = l->oldest;
    if (r)
        l->oldest = r->next;
    sky_mutex_unlock(&t->mutex);
    return r;
}

static void *run(void *argument) {
    lane *l = argument;
    for (;;) {
        request *r = next_request(l);
        if (!r && l->count == 0)
            return NULL;
        if (!r) {
            settle_oldest(l);
            continue;
        }
        bool moves = r->op == SKY_OP_GET || r->op == SKY_OP_PUT;
        for (size_t i = 0; moves && i < r->item_count; i++)
            begin(l, r, i);
        if (!moves)
            forward(l, r);
        free(r);
    }
}

/* ---- the tier ---- */

static void queue(lane *l, request *r) {
    sky_mutex_lock(&l->tier->mutex);
    *(l->oldest ? &l->newest->next : &l->oldest) = r;
    l->newest = r;
    sky_condition_broadcast(&l->changed);
    sky_mutex_unlock(&l->tier->mutex);
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
    bool change = op == SKY_OP_PUT || op == SKY_OP_REMOVE || op == SKY_OP_PIN || op == SKY_OP_UNPIN;
    if (op == SKY_OP_LEASE) {
        for (size_t i = 0; i < item_count; i++)
            sky_batches_finish(t->batches, *out, i, SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
        free(r);
    } else {
        queue(change ? &t->changes : &t->lookups, r);
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

static void op_cancel(sky_tier *tier, sky_batch batch) {
    sky_batches_cancel(((coded *)tier)->batches, batch);
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
             sky_level_name((sky_level)(t->level - 1)));
    out->late += sky_batches_late(t->batches);
    sky_mutex_lock(&t->mutex);
    out->moved_bytes = t->moved_bytes;
    sky_mutex_unlock(&t->mutex);
}

static void lane_stop(coded *t, lane *l) {
    sky_mutex_lock(&t->mutex);
    t->closing = true;
    sky_condition_broadcast(&l->changed);
    sky_mutex_unlock(&t->mutex);
    sky_thread_join(&l->thread);
    free(l->flights);
    free(l->work);
    sky_condition_deinit(&l->changed);
}

static void op_close(sky_tier *tier) {
    coded *t = (coded *)tier;
    if (t->batches)
        sky_batches_cancel_all(t->batches);
    lane_stop(t, &t->changes);
    lane_stop(t, &t->lookups);
    sky_batches_destroy(t->batches);
    sky_condition_deinit(&t->released);
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

static sky_status lane_start(coded *t, lane *l, const char *name) {
    l->tier = t;
    l->flights = calloc(FLIGHTS, sizeof *l->flights);
    return l->flights ? sky_thread_start(&l->thread, name, run, l) : SKY_E_NOMEM;
}

sky_status sky_coded_tier_open(sky_tier *inner, uint8_t level, sky_tier **out) {
    assert(level >= 1 && level <= SKY_LEVEL_COUNT);
    coded *t = calloc(1, sizeof *t);
    if (!t) {
        inner->ops->close(inner);
        return SKY_E_NOMEM;
    }
    t->tier.ops = &coded_ops;
    t->inner = inner;
    t->level = level;
    sky_mutex_init(&t->mutex);
    sky_condition_init(&t->released);
    sky_condition_init(&t->changes.changed);
    sky_condition_init(&t->lookups.changed);
    sky_status status = sky_batches_create(NULL, &t->batches);
    if (status == SKY_OK)
        status = lane_start(t, &t->changes, "skymem-encode");
    if (status == SKY_OK)
        status = lane_start(t, &t->lookups, "skymem-decode");
    if (status == SKY_OK)
        *out = &t->tier;
    else
        op_close(&t->tier);
    return status;
}

sky_tier *sky_coded_tier_inner(sky_tier *tier) {
    return tier->ops == &coded_ops ? ((coded *)tier)->inner : tier;
}

void sky_coded_tier_set(sky_tier *tier, const sky_block_codec *codec) {
    if (!tier || tier->ops != &coded_ops)
        return;
    coded *t = (coded *)tier;
    sky_mutex_lock(&t->mutex);
    const sky_block_codec *before = t->codec;
    t->codec = codec;
    while (before && before != codec && (t->changes.codec == before || t->lookups.codec == before))
        sky_condition_wait(&t->released, &t->mutex, SKY_TIME_NEVER);
    sky_mutex_unlock(&t->mutex);
}
