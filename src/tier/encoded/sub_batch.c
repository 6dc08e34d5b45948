#include "tier/encoded/sub_batch.h"

#include <stdlib.h>
#include <string.h>

#include "io/trace.h"
#include "tier/spans.h"

#define WORK_ALIGN 64

typedef sky__coded coded;
typedef sky__coded_worker worker;
typedef sky__coded_queue queue;
typedef sky__coded_sub_batch sub_batch;
typedef sky__coded_question question;

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

/* ---- sub-batches ---- */

void sky__coded_wake_all(coded *t) {
    sky_condition_broadcast(&t->changed);
    sky_event_raise(t->wake);
}

static bool is_change(sky_op op) {
    return op == SKY_OP_PUT || op == SKY_OP_REMOVE || op == SKY_OP_PIN || op == SKY_OP_UNPIN;
}

queue *sky__coded_queue_of(coded *t, sky_op op) {
    return is_change(op) ? &t->changes : &t->lookups;
}

/* This buffer instead of the one before. */
static void set_buffer(coded *t, sub_batch *f, uint8_t *buffer, uint64_t bytes) {
    uint64_t before = f->buffer_bytes;
    free(f->buffer);
    f->buffer = buffer;
    f->buffer_bytes = buffer ? bytes : 0;
    f->span = (sky_span){f->buffer, f->buffer_bytes};
    sky_mutex_lock(&t->mutex);
    queue *l = sky__coded_queue_of(t, f->op);
    l->bytes = l->bytes - before + f->buffer_bytes;
    sky_mutex_unlock(&t->mutex);
}

/* A new one; bytes 0: none. */
static bool take_buffer(coded *t, sub_batch *f, uint64_t bytes) {
    set_buffer(t, f, NULL, 0); /* never both at once */
    set_buffer(t, f, bytes ? malloc(bytes) : NULL, bytes);
    return f->buffer || bytes == 0;
}

/* Ask the inner tier, at the sub-batch's step. On failure the sub-batch stays with this thread. */
static sky_status step_start(coded *t, sub_batch *f) {
    for (size_t i = 0; i < f->item_count; i++) {
        f->items[i].key = sky_level_set_key(&t->levels, f->step, &f->questions[i].key);
        f->items[i].parent = sky_level_set_key(&t->levels, f->step, &f->questions[i].parent);
    }
    if (sky__coded_moves_payload(f->op)) {
        f->items->spans = &f->span;
        f->items->span_count = 1;
    }
    sky_mutex_lock(&t->mutex);
    sky_status status = f->given_up ? SKY_E_CANCELLED
                                    : sky_tier_submit(t->inner, f->op, f->items, f->item_count,
                                                      &f->call, &f->inner);
    if (status == SKY_OK)
        f->state = ASKED;
    sky_mutex_unlock(&t->mutex);
    return status;
}

static void give_sub_batch(coded *t, sub_batch *f) {
    take_buffer(t, f, 0);
    for (size_t i = 0; f->items && i < f->item_count; i++)
        free((char *)(uintptr_t)f->items[i].name);
    free(f->items);
    free(f->questions);
    free(f->code);
    sky_mutex_lock(&t->mutex);
    f->items = NULL;
    f->questions = NULL;
    f->code = NULL;
    f->state = FREE;
    sky__coded_queue_of(t, f->op)->count--;
    sky_condition_broadcast(&t->changed);
    if (t->closing)
        sky__coded_wake_all(t);
    sky_mutex_unlock(&t->mutex);
}

/* The caller may want one level alone. */
static bool takes_level(sky_op op) {
    return op == SKY_OP_HAS || op == SKY_OP_GET || op == SKY_OP_PUT;
}

/* ---- beginning a sub-batch ---- */

/* A copy of a caller's item, with a name of its own.
 * Errors: SKY_E_CANCELLED (nobody waits for it any more), SKY_E_NOMEM */
static sky_status copy_item(coded *t, sub_batch *f, size_t i) {
    sky_item *to = &f->items[i];
    const sky_item *item = sky_batches_enter(t->tier.batches, f->batch, f->number + i);
    if (!item)
        return SKY_E_CANCELLED;
    f->questions[i] = (question){.number = f->number + i,
                                 .key = item->key,
                                 .parent = item->parent,
                                 .answer = {.status = SKY_MISS, .tier = SKY_TIER_NONE}};
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
    sky_batches_leave(t->tier.batches, f->batch);
    return named && !name ? SKY_E_NOMEM : SKY_OK;
}

/* The payload of a put into the sub-batch's buffer. */
static sky_status copy_payload(coded *t, sub_batch *f) {
    const sky_item *item = sky_batches_enter(t->tier.batches, f->batch, f->number);
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
    sky_batches_leave(t->tier.batches, f->batch);
    return status;
}

/* What is put at this step: the payload's code, or what is coded higher than this step coded lower.
 * False: there is none, or it is no smaller. */
static bool step_encode(worker *w, sub_batch *f) {
    coded *t = w->tier;
    const sky_block_codec *codec;
    sky_coding own = t->levels.codings[f->step];
    bool higher = f->coding != 0;
    if (f->items->name || f->coding >= own || use_codec(w, &codec) != SKY_OK || !codec)
        return false;
    bool fits = higher || f->room_bytes == codec->payload_bytes;
    uint64_t max = codec->coded_bytes_max, bytes = 0;
    uint8_t *dst = fits ? malloc(max) : NULL;
    sky_status status = SKY_E_UNSUPPORTED;
    sky_time began = sky_trace_now();
    if (dst && higher)
        status = codec->lower(codec->self, own, f->buffer, f->room_bytes, dst, max, &bytes,
                              w->work);
    else if (dst)
        status = codec->encode(codec->self, own, f->buffer, dst, max, &bytes, w->work);
    if (dst)
        sky_trace_call("codec", "encode", &f->questions->key, bytes, status, began);
    release_codec(w, 0);
    if (status != SKY_OK || bytes >= f->room_bytes) {
        free(dst);
        return false;
    }
    uint8_t *tight = realloc(dst, bytes);
    free(f->code);
    f->code = tight ? tight : dst;
    f->span = (sky_span){f->code, bytes};
    f->call.coding = sky_level_set_coding(&t->levels, f->step);
    return true;
}

/* There is a step after the sub-batch's, and the caller did not want this one alone. */
static bool has_next(const coded *t, const sub_batch *f) {
    bool alone = takes_level(f->op) && f->call.wanted == t->levels.codings[f->step];
    return f->step + 1 < t->levels.count && !alone;
}

/* Ask for the put at the next step that there is a code for. SKY_MISS: at none. */
static sky_status put_next(worker *w, sub_batch *f) {
    coded *t = w->tier;
    bool any = step_encode(w, f) || f->step == 0; /* as it came, or it would be nowhere */
    while (!any && has_next(t, f)) {
        f->step++;
        any = step_encode(w, f);
    }
    if (any && !has_next(t, f) && f->code) { /* the payload is not needed again */
        uint64_t bytes = f->span.bytes;
        set_buffer(t, f, f->code, bytes);
        f->code = NULL;
    }
    return any ? step_start(t, f) : SKY_MISS;
}

/* A get asks for what its range needs; where nothing is coded that is the range itself. */
static sky_status make_room(worker *w, sub_batch *f) {
    uint64_t bytes = f->room_bytes;
    const sky_block_codec *codec = NULL;
    f->items->range = f->range;
    if (!f->items->name && use_codec(w, &codec) != SKY_OK)
        return SKY_E_NOMEM;
    f->leading = codec != NULL;
    if (codec) {
        bytes = codec->likely_bytes(codec->self, w->tier->levels.codings[f->step], f->range);
        f->items->range = (sky_range){0, bytes};
        release_codec(w, 0);
    } else if (f->range.bytes != 0 && f->range.bytes < bytes) {
        bytes = f->range.bytes;
    }
    if (bytes > SKY_PAYLOAD_BYTES_MAX)
        bytes = SKY_PAYLOAD_BYTES_MAX;
    return take_buffer(w->tier, f, bytes) ? SKY_OK : SKY_E_NOMEM;
}

static sky_status copy_items(coded *t, sub_batch *f) {
    f->items = calloc(f->item_count, sizeof *f->items);
    f->questions = calloc(f->item_count, sizeof *f->questions);
    sky_status status = f->items && f->questions ? SKY_OK : SKY_E_NOMEM;
    for (size_t i = 0; status == SKY_OK && i < f->item_count; i++)
        status = copy_item(t, f, i);
    return status;
}

/* What there is to do before a new sub-batch is asked. */
static sky_status step_prepare(worker *w, sub_batch *f) {
    coded *t = w->tier;
    f->coding = f->call.coding;
    f->step = takes_level(f->op) ? sky_level_set_step(&t->levels, f->call.wanted) : 0;
    sky_status status = copy_items(t, f);
    if (status == SKY_OK && f->op == SKY_OP_PUT)
        status = copy_payload(t, f);
    if (status == SKY_OK && f->op == SKY_OP_GET)
        status = make_room(w, f);
    return status;
}

void sky__coded_begin(worker *w, sub_batch *f) {
    coded *t = w->tier;
    sky_status status = step_prepare(w, f);
    if (status == SKY_OK)
        status = f->op == SKY_OP_PUT ? put_next(w, f) : step_start(t, f);
    if (status == SKY_OK)
        return;
    if (status == SKY_MISS) /* a put at one level, of what has no code there */
        status = SKY_E_UNSUPPORTED;
    for (size_t i = 0; i < f->item_count; i++)
        sky_batches_finish(t->tier.batches, f->batch, f->number + i, status, 0, SKY_TIER_NONE);
    give_sub_batch(t, f);
}

/* ---- settling it ---- */

/* Which of two steps' answers says more: of removals what may be left, of puts what may be lacking,
 * else any success. */
static int status_weight(sky_op op, sky_status status) {
    if (status == SKY_MISS)
        return 0;
    if (status == SKY_OK)
        return op == SKY_OP_REMOVE || op == SKY_OP_PUT ? 1 : 3;
    return 2;
}

/* This step's answer about item i. */
static void step_note(const coded *t, sub_batch *f, size_t i, sky_status status, uint64_t bytes) {
    sky_answer *best = &f->questions[i].answer;
    const sky_item *item = &f->items[i];
    if (status_weight(f->op, status) <= status_weight(f->op, best->status))
        return;
    best->status = status;
    best->pinned = item->pinned;
    best->evict = item->evict;
    best->ttl_s = item->ttl_s;
    best->bytes = status == SKY_OK ? bytes : 0;
    best->tier = status == SKY_MISS ? SKY_TIER_NONE : item->tier;
    if (status == SKY_OK && (f->op == SKY_OP_GET || f->op == SKY_OP_HAS))
        best->coding = f->step > 0 ? t->levels.codings[f->step]
                                   : sky_level_set_unmark(item->coding);
}

/* The next step is to be asked, after this one said `status`. */
static bool goes_on(const coded *t, const sub_batch *f, size_t i, sky_status status) {
    bool reads = f->op == SKY_OP_GET || f->op == SKY_OP_HAS;
    if (!has_next(t, f) || f->items[i].name)
        return false;
    return reads ? status == SKY_MISS || status == SKY_E_CORRUPT
                 : status != SKY_E_CANCELLED && status != SKY_E_DEADLINE;
}

static void item_finish(coded *t, const sub_batch *f, size_t i) {
    sky_batches_answer(t->tier.batches, f->batch, f->questions[i].number, &f->questions[i].answer);
}

/* The sub-batch is over: its callers get what is known. */
static void sub_batch_end(coded *t, sub_batch *f) {
    for (size_t i = 0; i < f->item_count; i++)
        item_finish(t, f, i);
    give_sub_batch(t, f);
}

/* No further step could be asked. */
static void end_early(coded *t, sub_batch *f, sky_status status) {
    for (size_t i = 0; i < f->item_count; i++)
        step_note(t, f, i, status, 0);
    sub_batch_end(t, f);
}

/* The codec went while its bytes were on their way: ask as is done without one. */
static sky_status ask_anew(worker *w, sub_batch *f) {
    sky_status status = make_room(w, f);
    if (status == SKY_OK)
        status = step_start(w->tier, f);
    return status == SKY_OK ? SKY_PENDING : status;
}

/* The first guess was short. A codec that asks for what it has would ask forever. */
static sky_status ask_more(coded *t, sub_batch *f, uint64_t needed) {
    if (needed > SKY_PAYLOAD_BYTES_MAX)
        needed = SKY_PAYLOAD_BYTES_MAX;
    if (needed <= f->span.bytes)
        return SKY_E_CORRUPT;
    if (!take_buffer(t, f, needed))
        return SKY_E_NOMEM;
    f->items->range = (sky_range){0, needed};
    sky_status status = step_start(t, f);
    return status == SKY_OK ? SKY_PENDING : status;
}

/* What came, to the caller. SKY_PENDING: more of it is on its way. */
static sky_status payload_deliver(worker *w, sub_batch *f, uint64_t *moved) {
    coded *t = w->tier;
    const sky_block_codec *codec = NULL;
    if (f->leading && use_codec(w, &codec) != SKY_OK)
        return SKY_E_NOMEM;
    if (f->leading && !codec)
        return ask_anew(w, f);
    const sky_item *to = sky_batches_enter(t->tier.batches, f->batch, f->number);
    uint64_t came = f->items->bytes, needed = 0;
    sky_status status = SKY_E_CANCELLED;
    if (to && codec) {
        bool whole = came < f->span.bytes || came == SKY_PAYLOAD_BYTES_MAX;
        sky_time began = sky_trace_now();
        status = codec->decode(codec->self, f->buffer, came, whole, f->range, to->spans,
                               to->span_count, moved, &needed, w->work);
        sky_trace_call("codec", "decode", &f->questions->key, came, status, began);
    } else if (to) {
        sky_spans_scatter(to->spans, to->span_count, f->buffer, came);
        *moved = came;
        status = SKY_OK;
    }
    if (to)
        sky_batches_leave(t->tier.batches, f->batch);
    if (codec)
        release_codec(w, came);
    return status == SKY_PENDING ? ask_more(t, f, needed) : status;
}

/* It waits for the encoder, for the next step. */
static void hand_back(coded *t, sub_batch *f) {
    sky_mutex_lock(&t->mutex);
    f->state = DUE;
    sky_condition_broadcast(&t->changed);
    sky_mutex_unlock(&t->mutex);
}

static void ask_lower(worker *w, sub_batch *f) {
    f->step++;
    sky_status status = f->op == SKY_OP_GET ? make_room(w, f) : SKY_OK;
    if (status == SKY_OK)
        status = step_start(w->tier, f);
    if (status != SKY_OK)
        end_early(w->tier, f, status);
}

/* A payload went there or came. */
static void settle_one(worker *w, sub_batch *f) {
    coded *t = w->tier;
    const sky_item *item = f->items;
    sky_status status = item->status;
    uint64_t bytes = f->op == SKY_OP_PUT ? f->room_bytes : item->bytes;
    if (status == SKY_OK && f->op == SKY_OP_GET)
        status = payload_deliver(w, f, &bytes);
    if (status == SKY_PENDING)
        return;
    step_note(t, f, 0, status, bytes);
    if (!goes_on(t, f, 0, status))
        sub_batch_end(t, f);
    else if (f->op == SKY_OP_PUT)
        hand_back(t, f);
    else
        ask_lower(w, f);
}

/* Bytes of a payload that is stored at a level. */
static uint64_t payload_bytes(worker *w, const sub_batch *f, const sky_item *item) {
    const sky_block_codec *codec = NULL;
    bool is_code = item->coding != 0 || f->step > 0;
    if (!is_code || use_codec(w, &codec) != SKY_OK)
        return item->bytes;
    uint64_t bytes = codec ? codec->payload_bytes : item->bytes;
    if (codec)
        release_codec(w, 0);
    return bytes;
}

/* Nothing moved: what is known is told, the rest asked for at the next step. */
static void settle_all(worker *w, sub_batch *f) {
    coded *t = w->tier;
    size_t left = 0;
    for (size_t i = 0; i < f->item_count; i++) {
        sky_item *item = &f->items[i];
        step_note(t, f, i, item->status, payload_bytes(w, f, item));
        if (goes_on(t, f, i, item->status)) {
            f->items[left] = *item; /* without a name: those that have one do not go on */
            f->questions[left++] = f->questions[i];
        } else {
            item_finish(t, f, i);
            free((char *)(uintptr_t)item->name);
            item->name = NULL;
        }
    }
    f->item_count = left;
    if (left > 0)
        ask_lower(w, f);
    else
        give_sub_batch(t, f);
}

void sky__coded_settle(worker *w, sub_batch *f) {
    if (sky__coded_moves_payload(f->op))
        settle_one(w, f);
    else
        settle_all(w, f);
}

void sky__coded_put_lower(worker *w, sub_batch *f) {
    f->step++;
    sky_status status = put_next(w, f);
    if (status != SKY_OK)
        end_early(w->tier, f, status);
}
