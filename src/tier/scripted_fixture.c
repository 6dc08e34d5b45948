/* The scripted tier: a list of entries, a list of answers that wait, one mutex. */
#include "tier/scripted_fixture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "io/sync.h"
#include "tier/batch.h"
#include "tier/spans.h"
#include "tier/tier_fixture.h"

typedef struct entry {
    struct entry *next;
    sky_key key;
    size_t bytes;
    bool pinned;
    uint8_t data[];
} entry;

typedef struct held {
    struct held *next;
    sky_op op;
    sky_batch batch;
    size_t item;
} held;

struct sky_scripted {
    sky_tier tier;
    sky_mutex mutex;
    uint8_t place;
    bool hold;
    bool attempt;
    size_t attempted;
    sky_status say;
    bool passes_on;
    sky_key refused; /* zero: none */
    sky_status refusal;
    entry *entries;
    held *first;
    held *last;
    size_t counts[SKY_OP_EXPECT + 1];
    size_t spans[SKY_OP_EXPECT + 1];
    uint64_t puts;
};

static entry **find(sky_scripted *s, const sky_key *key) {
    entry **e = &s->entries;
    while (*e && !sky_key_equal(&(*e)->key, key))
        e = &(*e)->next;
    return e;
}

static void drop(sky_scripted *s, const sky_key *key) {
    entry **link = find(s, key), *e = *link;
    if (e) {
        *link = e->next;
        free(e);
    }
}

static entry *make(sky_scripted *s, sky_key key, size_t bytes) {
    drop(s, &key);
    entry *e = calloc(1, sizeof *e + bytes);
    assert(e);
    e->key = key;
    e->bytes = bytes;
    e->next = s->entries;
    s->entries = e;
    return e;
}

static sky_status put(sky_scripted *s, const sky_item *item, uint64_t *bytes) {
    entry *e = make(s, item->key, (size_t)sky_spans_bytes(item->spans, item->span_count));
    uint8_t *to = e->data;
    for (uint32_t i = 0; i < item->span_count; i++) {
        memcpy(to, item->spans[i].data, item->spans[i].bytes);
        to += item->spans[i].bytes;
    }
    *bytes = e->bytes;
    s->puts++;
    return SKY_OK;
}

static sky_status act(sky_scripted *s, sky_op op, const sky_item *item, uint64_t *bytes) {
    entry *e = *find(s, &item->key);
    if (op == SKY_OP_PUT && !sky_key_is_zero(&s->refused) &&
        sky_key_equal(&item->key, &s->refused)) {
        s->refused = (sky_key){{0}};
        return s->refusal;
    }
    if (s->say != SKY_OK && (s->say != SKY_E_CORRUPT || (op == SKY_OP_GET && e)))
        return s->say;
    if (op == SKY_OP_PUT)
        return put(s, item, bytes);
    if (op == SKY_OP_LEASE)
        return SKY_E_UNSUPPORTED;
    if (!e)
        return SKY_MISS;
    *bytes = op == SKY_OP_HAS ? e->bytes : 0;
    if (op == SKY_OP_GET)
        return sky_fixture_read(e->data, e->bytes, item, bytes);
    if (op == SKY_OP_PIN || op == SKY_OP_UNPIN)
        e->pinned = op == SKY_OP_PIN;
    if (op == SKY_OP_REMOVE)
        drop(s, &item->key);
    return SKY_OK;
}

/* With the mutex held. */
static void answer(sky_scripted *s, sky_op op, sky_batch batch, size_t i) {
    const sky_item *item = sky_batches_enter(s->tier.batches, batch, i);
    if (!item)
        return;
    uint64_t bytes = 0;
    sky_status status = act(s, op, item, &bytes);
    sky_batches_leave(s->tier.batches, batch);
    sky_batches_finish(s->tier.batches, batch, i, status, bytes,
                       status == SKY_OK || (s->passes_on && status < 0) ? s->place : SKY_TIER_NONE);
}

static void keep(sky_scripted *s, sky_op op, sky_batch batch, size_t i) {
    held *h = calloc(1, sizeof *h);
    assert(h);
    *h = (held){.op = op, .batch = batch, .item = i};
    if (s->last)
        s->last->next = h;
    else
        s->first = h;
    s->last = h;
}

static sky_status scripted_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                  const sky_call *call, sky_batch *out) {
    sky_scripted *s = (sky_scripted *)tier;
    sky_time deadline = call ? call->deadline_ns : 0;
    sky_status status = sky_batches_open(s->tier.batches, items, item_count, deadline, out);
    if (status != SKY_OK)
        return status;
    sky_mutex_lock(&s->mutex);
    s->counts[op] += item_count;
    for (size_t i = 0; i < item_count; i++) {
        s->spans[op] += items[i].span_count;
        if (s->hold)
            keep(s, op, *out, i);
        else
            answer(s, op, *out, i);
    }
    sky_mutex_unlock(&s->mutex);
    return SKY_OK;
}

static bool scripted_attempt(sky_tier *tier, sky_item *item, const sky_call *call) {
    sky_scripted *s = (sky_scripted *)tier;
    uint64_t bytes = 0;
    (void)call;
    sky_mutex_lock(&s->mutex);
    bool answered = s->attempt && act(s, SKY_OP_GET, item, &bytes) == SKY_OK;
    s->attempted += answered;
    sky_mutex_unlock(&s->mutex);
    if (answered) {
        item->status = SKY_OK;
        item->bytes = bytes;
        item->tier = s->place;
    }
    return answered;
}

/* With the mutex held. */
static bool answer_first(sky_scripted *s) {
    held *h = s->first;
    if (!h)
        return false;
    s->first = h->next;
    if (!s->first)
        s->last = NULL;
    answer(s, h->op, h->batch, h->item);
    free(h);
    return true;
}

bool sky_scripted_answer_one(sky_scripted *s) {
    sky_mutex_lock(&s->mutex);
    bool answered = answer_first(s);
    sky_mutex_unlock(&s->mutex);
    return answered;
}

void sky_scripted_answer_later(sky_scripted *s) {
    sky_mutex_lock(&s->mutex);
    held *oldest = s->first;
    if (oldest) {
        s->first = oldest->next;
        while (answer_first(s)) {
        }
        oldest->next = NULL;
        s->first = s->last = oldest;
    }
    sky_mutex_unlock(&s->mutex);
}

void sky_scripted_hold(sky_scripted *s, bool hold) {
    sky_mutex_lock(&s->mutex);
    s->hold = hold;
    while (!hold && answer_first(s)) {
    }
    sky_mutex_unlock(&s->mutex);
}

void sky_scripted_attempt(sky_scripted *s, bool attempt) {
    sky_mutex_lock(&s->mutex);
    s->attempt = attempt;
    sky_mutex_unlock(&s->mutex);
}

size_t sky_scripted_attempted(sky_scripted *s) {
    sky_mutex_lock(&s->mutex);
    size_t count = s->attempted;
    sky_mutex_unlock(&s->mutex);
    return count;
}

void sky_scripted_say(sky_scripted *s, sky_status status) {
    sky_mutex_lock(&s->mutex);
    s->say = status;
    sky_mutex_unlock(&s->mutex);
}

void sky_scripted_pass_on(sky_scripted *s, sky_status status) {
    sky_scripted_say(s, status);
    s->passes_on = status != SKY_OK;
}

void sky_scripted_refuse(sky_scripted *s, const sky_key *key, sky_status status) {
    sky_mutex_lock(&s->mutex);
    s->refused = *key;
    s->refusal = status;
    sky_mutex_unlock(&s->mutex);
}

size_t sky_scripted_count(sky_scripted *s, sky_op op) {
    sky_mutex_lock(&s->mutex);
    size_t count = s->counts[op];
    sky_mutex_unlock(&s->mutex);
    return count;
}

size_t sky_scripted_spans(sky_scripted *s, sky_op op) {
    sky_mutex_lock(&s->mutex);
    size_t count = s->spans[op];
    sky_mutex_unlock(&s->mutex);
    return count;
}

size_t sky_scripted_held(sky_scripted *s) {
    sky_mutex_lock(&s->mutex);
    size_t count = 0;
    for (const held *h = s->first; h; h = h->next)
        count++;
    sky_mutex_unlock(&s->mutex);
    return count;
}

const void *sky_scripted_peek(sky_scripted *s, const sky_key *key, size_t *bytes) {
    sky_mutex_lock(&s->mutex);
    const entry *e = *find(s, key);
    if (e)
        *bytes = e->bytes;
    sky_mutex_unlock(&s->mutex);
    return e ? e->data : NULL;
}

bool sky_scripted_pinned(sky_scripted *s, sky_key key) {
    sky_mutex_lock(&s->mutex);
    const entry *e = *find(s, &key);
    bool pinned = e && e->pinned;
    sky_mutex_unlock(&s->mutex);
    return pinned;
}

void sky_scripted_plant(sky_scripted *s, sky_key key, const void *data, size_t bytes) {
    sky_mutex_lock(&s->mutex);
    memcpy(make(s, key, bytes)->data, data, bytes);
    sky_mutex_unlock(&s->mutex);
}

void sky_scripted_drop(sky_scripted *s, sky_key key) {
    sky_mutex_lock(&s->mutex);
    drop(s, &key);
    sky_mutex_unlock(&s->mutex);
}

static sky_status scripted_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky_scripted *s = (sky_scripted *)tier;
    sky_mutex_lock(&s->mutex);
    for (const entry *e = s->entries; e; e = e->next)
        if (!each(context,
                  &(sky_entry){
                      .key = e->key, .bytes = e->bytes, .tier = s->place, .pinned = e->pinned}))
            break;
    sky_mutex_unlock(&s->mutex);
    return SKY_OK;
}

static sky_status scripted_verify(sky_tier *tier, sky_verify_report *out) {
    sky_scripted *s = (sky_scripted *)tier;
    sky_mutex_lock(&s->mutex);
    for (const entry *e = s->entries; e; e = e->next) {
        out->entries++;
        out->bytes += e->bytes;
    }
    sky_mutex_unlock(&s->mutex);
    return SKY_OK;
}

static void scripted_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky_scripted *s = (sky_scripted *)tier;
    *out = (sky_tier_stat){0};
    counts->tier.bytes_max = UINT64_MAX;
    sky_mutex_lock(&s->mutex);
    snprintf(out->url, sizeof out->url, "scripted:%u", s->place);
    counts->tier.puts = s->puts;
    sky_mutex_unlock(&s->mutex);
    counts->tier.late = sky_batches_late(s->tier.batches);
}

static void scripted_close(sky_tier *tier) {
    sky_scripted *s = (sky_scripted *)tier;
    sky_batches_cancel_all(s->tier.batches);
    while (answer_first(s)) { /* nobody waits any more: this frees them */
    }
    while (s->entries)
        drop(s, &s->entries->key);
    sky_batches_destroy(s->tier.batches);
    sky_mutex_deinit(&s->mutex);
    free(s);
}

static const sky_tier_ops scripted_ops = {
    .submit = scripted_submit,
    .attempt = scripted_attempt,
    .list = scripted_list,
    .verify = scripted_verify,
    .stat = scripted_stat,
    .close = scripted_close,
};

sky_scripted *sky_scripted_open(uint8_t place) {
    sky_scripted *s = calloc(1, sizeof *s);
    assert(s);
    s->tier.ops = &scripted_ops;
    s->place = place;
    sky_mutex_init(&s->mutex);
    sky_status status = sky_batches_create(NULL, &s->tier.batches);
    assert(status == SKY_OK);
    (void)status;
    return s;
}

sky_tier *sky_scripted_tier(sky_scripted *s) {
    return &s->tier;
}
