/* See shaped_fixture.h. One thread is the link. What was given up gives its place on the link up
 * too, though what of it has crossed has taken its time. */
#include "manager/shaped_fixture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "io/sync.h"
#include "tier/batch.h"
#include "tier/spans.h"

#define MOVES_MAX 1024

typedef struct {
    sky_batch batch;
    size_t item;
    sky_time at; /* no byte of it crosses sooner */
} move;

struct shaped {
    sky_tier tier;
    sky_tier *memory;
    sky_mutex mutex;
    sky_condition changed;
    sky_thread thread;
    move moves[MOVES_MAX]; /* a ring */
    size_t first, count;
    double rate, rate_later;
    sky_time delay_ns;
    uint64_t bytes_until_later; /* 0: not any more */
    uint64_t moved;
    sky_key refused; /* zero: none */
    sky_op refused_op;
    sky_status refusal;
    sky_time put_ns;
    bool closing;
};

static void run_in_memory(shaped *s, sky_op op, sky_item *items, size_t count,
                          const sky_call *call) {
    sky_batch batch;
    sky_status status = sky_tier_submit(s->memory, op, items, count, call, &batch);
    assert(status == SKY_OK);
    status = sky_tier_wait(s->memory, batch, SKY_TIME_NEVER);
    assert(status == SKY_OK);
}

/* ---- the link ---- */

/* With the mutex held, which is released while bytes are on their way. */
static void cross(shaped *s, uint64_t bytes, sky_batch batch) {
    sky_time until = sky_now();
    while (bytes > 0 && !s->closing && sky_batches_alive(s->tier.batches, batch)) {
        uint64_t step = bytes < 4096 ? bytes : 4096;
        double rate = s->rate;
        until += (sky_time)((double)step / rate * 1e9);
        while (!s->closing && sky_now() < until) {
            sky_condition_wait(&s->changed, &s->mutex, until);
            if (s->rate != rate) /* changed while nothing came */
                until = sky_now() + (sky_time)((double)step / (rate = s->rate) * 1e9);
        }
        bytes -= step;
        s->moved += step;
        if (s->bytes_until_later > 0 && s->bytes_until_later <= step)
            s->rate = s->rate_later;
        s->bytes_until_later -= s->bytes_until_later < step ? s->bytes_until_later : step;
    }
}

/* A copy of the caller's item, read into memory of our own; false: nobody wants it any more. */
static bool read_aside(shaped *s, move m, sky_item *out, sky_span *aside) {
    const sky_item *item = sky_batches_enter(s->tier.batches, m.batch, m.item);
    if (!item)
        return false;
    *out = (sky_item){.key = item->key, .range = item->range, .spans = aside, .span_count = 1};
    aside->bytes = sky_spans_bytes(item->spans, item->span_count);
    sky_batches_leave(s->tier.batches, m.batch);
    aside->data = malloc(aside->bytes ? aside->bytes : 1);
    run_in_memory(s, SKY_OP_GET, out, 1, NULL);
    return true;
}

static void carry(shaped *s, move m) {
    sky_item item;
    sky_span aside;
    if (!read_aside(s, m, &item, &aside))
        return;
    sky_poll(NULL, 0, m.at);
    sky_mutex_lock(&s->mutex);
    cross(s, item.status == SKY_OK ? item.bytes : 1, m.batch);
    sky_mutex_unlock(&s->mutex);
    const sky_item *to = sky_batches_enter(s->tier.batches, m.batch, m.item);
    if (to && item.status == SKY_OK)
        sky_spans_scatter(to->spans, to->span_count, aside.data, item.bytes);
    if (to)
        sky_batches_leave(s->tier.batches, m.batch);
    const sky_answer answer = {.status = item.status,
                               .bytes = item.status == SKY_OK ? item.bytes : 0,
                               .tier = item.tier,
                               .coding = item.coding};
    sky_batches_answer(s->tier.batches, m.batch, m.item, &answer);
    free(aside.data);
}

static void *link_body(void *argument) {
    shaped *s = argument;
    sky_mutex_lock(&s->mutex);
    while (!s->closing) {
        if (s->count == 0) {
            sky_condition_wait(&s->changed, &s->mutex, SKY_TIME_NEVER);
            continue;
        }
        move m = s->moves[s->first];
        s->first = (s->first + 1) % MOVES_MAX;
        s->count--;
        sky_mutex_unlock(&s->mutex);
        carry(s, m);
        sky_mutex_lock(&s->mutex);
    }
    sky_mutex_unlock(&s->mutex);
    return NULL;
}

/* ---- the tier ---- */

static bool refuses(shaped *s, sky_op op, const sky_item *item) {
    sky_mutex_lock(&s->mutex);
    bool refused = s->refused_op == op && !sky_key_is_zero(&s->refused) &&
                   sky_key_equal(&s->refused, &item->key);
    if (refused)
        s->refused = (sky_key){{0}};
    sky_mutex_unlock(&s->mutex);
    return refused;
}

/* Let it pass, in submit; false: there is no end to it. */
static bool takes_time(shaped *s) {
    sky_mutex_lock(&s->mutex);
    sky_time each = s->put_ns;
    sky_mutex_unlock(&s->mutex);
    if (each > 0 && each != SKY_TIME_NEVER)
        sky_poll(NULL, 0, sky_now() + each);
    return each != SKY_TIME_NEVER;
}

static sky_status op_submit(sky_tier *tier, sky_op op, sky_item *items, size_t count,
                            const sky_call *call, sky_batch *out) {
    shaped *s = (shaped *)tier;
    sky_item *asked = malloc(count * sizeof *asked); /* once open, a batch may end at any time */
    assert(asked);
    memcpy(asked, items, count * sizeof *asked);
    sky_status status = sky_batches_open(s->tier.batches, items, count,
                                         call ? call->deadline_ns : 0, out);
    if (status != SKY_OK) {
        free(asked);
        return status;
    }
    for (size_t i = 0; i < count && op == SKY_OP_GET; i++) {
        if (refuses(s, op, &asked[i])) {
            sky_batches_finish(s->tier.batches, *out, i, s->refusal, 0, SKY_TIER_NONE);
            continue;
        }
        sky_mutex_lock(&s->mutex);
        assert(s->count < MOVES_MAX);
        s->moves[(s->first + s->count++) % MOVES_MAX] = (move){*out, i, sky_now() + s->delay_ns};
        sky_condition_broadcast(&s->changed);
        sky_mutex_unlock(&s->mutex);
    }
    for (size_t i = 0; i < count && op != SKY_OP_GET; i++) {
        sky_item copy = asked[i];
        if (op == SKY_OP_PUT && refuses(s, op, &copy)) {
            sky_batches_finish(s->tier.batches, *out, i, s->refusal, 0, SKY_TIER_NONE);
            continue;
        }
        if (op == SKY_OP_PUT && !takes_time(s))
            continue;
        run_in_memory(s, op, &copy, 1, call);
        const sky_answer answer = {
            .status = copy.status, .bytes = copy.bytes, .tier = copy.tier, .coding = copy.coding};
        sky_batches_answer(s->tier.batches, *out, i, &answer);
    }
    free(asked);
    return SKY_OK;
}

static sky_status op_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky_tier *memory = ((shaped *)tier)->memory;
    return memory->ops->list(memory, each, context);
}

static sky_status op_verify(sky_tier *tier, sky_verify_report *out) {
    sky_tier *memory = ((shaped *)tier)->memory;
    return memory->ops->verify(memory, out);
}

static void op_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky_tier *memory = ((shaped *)tier)->memory;
    memory->ops->stat(memory, out, counts);
    snprintf(out->url, sizeof out->url, "shaped:");
    out->traits &= ~(uint32_t)SKY_TIER_LEASES;
}

static void op_close(sky_tier *tier) {
    shaped *s = (shaped *)tier;
    sky_mutex_lock(&s->mutex);
    s->closing = true;
    sky_condition_broadcast(&s->changed);
    sky_mutex_unlock(&s->mutex);
    sky_thread_join(&s->thread);
    sky_batches_cancel_all(s->tier.batches);
    sky_batches_destroy(s->tier.batches);
    sky_condition_deinit(&s->changed);
    sky_mutex_deinit(&s->mutex);
    s->memory->ops->close(s->memory);
    free(s);
}

static const sky_tier_ops ops = {
    .submit = op_submit,
    .list = op_list,
    .verify = op_verify,
    .stat = op_stat,
    .close = op_close,
};

shaped *shaped_open(const sky_tier_env *env) {
    shaped *s = calloc(1, sizeof *s);
    sky_error error;
    assert(s);
    s->tier.ops = &ops;
    s->rate = 1e12;
    sky_mutex_init(&s->mutex);
    sky_condition_init(&s->changed);
    sky_status status = sky_batches_create(NULL, &s->tier.batches);
    assert(status == SKY_OK);
    status = sky_memory_tier_open("mem:64MiB", env, &s->memory, &error);
    assert(status == SKY_OK);
    status = sky_thread_start(&s->thread, "shaped-link", link_body, s);
    assert(status == SKY_OK);
    return s;
}

sky_tier *shaped_tier(shaped *s) {
    return &s->tier;
}

sky_tier *shaped_memory(shaped *s) {
    return s->memory;
}

void shaped_rate(shaped *s, double bytes_per_s) {
    shaped_rate_after(s, bytes_per_s, 0);
}

void shaped_rate_after(shaped *s, double bytes_per_s, uint64_t bytes) {
    sky_mutex_lock(&s->mutex);
    s->rate_later = bytes_per_s;
    s->bytes_until_later = bytes;
    if (bytes == 0)
        s->rate = bytes_per_s;
    sky_condition_broadcast(&s->changed);
    sky_mutex_unlock(&s->mutex);
}

void shaped_delay(shaped *s, sky_time delay_ns) {
    sky_mutex_lock(&s->mutex);
    s->delay_ns = delay_ns;
    sky_mutex_unlock(&s->mutex);
}

void shaped_refuse(shaped *s, sky_op op, const sky_key *key, sky_status status) {
    sky_mutex_lock(&s->mutex);
    s->refused = *key;
    s->refused_op = op;
    s->refusal = status;
    sky_mutex_unlock(&s->mutex);
}

void shaped_puts_take(shaped *s, sky_time each_ns) {
    sky_mutex_lock(&s->mutex);
    s->put_ns = each_ns;
    sky_mutex_unlock(&s->mutex);
}

uint64_t shaped_moved(shaped *s) {
    sky_mutex_lock(&s->mutex);
    uint64_t moved = s->moved;
    s->moved = 0;
    sky_mutex_unlock(&s->mutex);
    return moved;
}
