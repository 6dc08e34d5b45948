/* The faulty tier: a table of entries by key, a list of what it was asked. */
#include "cache/faulty_fixture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "tier/batch.h"
#include "tier/spans.h"
#include "tier/tier_fixture.h"

#define KEYS_MAX 32

typedef struct {
    sky_key key;
    uint8_t *data; /* NULL: no such entry */
    size_t bytes;
    bool pinned;
    uint64_t damage;
} entry;

typedef struct asked {
    struct asked *next;
    sky_op op;
    sky_batch batch;
    size_t item;
    bool done; /* it took effect, or failed: to be answered */
    sky_status status;
    uint64_t bytes;
    bool pinned;
} asked;

struct sky_faulty {
    sky_tier tier;
    sky_faulty_options options;
    sky_prng *prng;
    uint8_t place;
    bool down, well;
    entry entries[KEYS_MAX];
    size_t entry_count;
    asked *first;
    size_t asked_count;
};

static sky_faulty *of(sky_tier *tier) {
    return (sky_faulty *)(void *)tier;
}

static bool chance(sky_faulty *f, uint32_t percent) {
    return sky_prng_below(f->prng, 100) < percent;
}

static entry *entry_of(sky_faulty *f, const sky_key *key) {
    for (size_t i = 0; i < f->entry_count; i++)
        if (sky_key_equal(&f->entries[i].key, key))
            return &f->entries[i];
    assert(f->entry_count < KEYS_MAX);
    f->entries[f->entry_count] = (entry){.key = *key};
    return &f->entries[f->entry_count++];
}

static void forget(entry *e) {
    free(e->data);
    e->data = NULL;
    e->pinned = false;
}

/* ---- effects ---- */

static void store(entry *e, const sky_item *item) {
    size_t bytes = (size_t)sky_spans_bytes(item->spans, item->span_count);
    uint8_t *data = malloc(bytes + 1), *to = data;
    assert(data);
    for (uint32_t i = 0; i < item->span_count; i++) {
        memcpy(to, item->spans[i].data, item->spans[i].bytes);
        to += item->spans[i].bytes;
    }
    free(e->data);
    e->data = data;
    e->bytes = bytes;
}

/* How it fails, if it does. */
static sky_status failure(sky_faulty *f, sky_op op, entry *e, const sky_item *item) {
    static const sky_status kinds[] = {SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM, SKY_E_BUSY};
    if (f->well || (!f->down && !chance(f, f->options.failures_percent)))
        return SKY_OK;
    if (op == SKY_OP_PUT) {
        if (!f->down && chance(f, 20))
            store(e, item); /* it did it, and could not say so */
        return chance(f, 40) ? SKY_E_FULL : kinds[sky_prng_below(f->prng, 4)];
    }
    if (op == SKY_OP_GET && e->data && !f->down && chance(f, 20)) {
        forget(e);
        e->damage++;
        return SKY_E_CORRUPT;
    }
    if (op == SKY_OP_REMOVE && !f->down && chance(f, 30))
        forget(e);
    return kinds[sky_prng_below(f->prng, 4)];
}

static sky_status act(sky_faulty *f, sky_op op, const sky_item *item, uint64_t *bytes) {
    entry *e = entry_of(f, &item->key);
    sky_status status = failure(f, op, e, item);
    if (status != SKY_OK)
        return status;
    if (op == SKY_OP_PUT) {
        store(e, item);
        *bytes = e->bytes;
        return SKY_OK;
    }
    if (!e->data)
        return SKY_MISS;
    *bytes = op == SKY_OP_HAS ? e->bytes : 0;
    if (op == SKY_OP_GET)
        return sky_fixture_read(e->data, e->bytes, item, bytes);
    if (op == SKY_OP_UNPIN && !e->pinned)
        return SKY_E_PARAM;
    if (op == SKY_OP_PIN || op == SKY_OP_UNPIN)
        e->pinned = op == SKY_OP_PIN;
    if (op == SKY_OP_REMOVE)
        forget(e);
    return SKY_OK;
}

static void take_effect(sky_faulty *f, asked *a) {
    const sky_item *item = sky_batches_enter(f->tier.batches, a->batch, a->item);
    a->done = true;
    if (!item)
        return; /* it was called back */
    a->status = act(f, a->op, item, &a->bytes);
    a->pinned = entry_of(f, &item->key)->pinned;
    if (getenv("SKY_TEST_TRACE"))
        fprintf(stderr, "            tier %u: op %d key %02x: %s\n", f->place, a->op,
                item->key.bytes[0], sky_status_name(a->status));
    sky_batches_leave(f->tier.batches, a->batch);
}

static void answer(sky_faulty *f, asked *a) {
    asked **link = &f->first;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    f->asked_count--;
    const sky_answer told = {.status = a->status,
                             .bytes = a->bytes,
                             .tier = a->status == SKY_OK ? f->place : SKY_TIER_NONE,
                             .pinned = a->pinned && a->op == SKY_OP_HAS};
    sky_batches_answer(f->tier.batches, a->batch, a->item, &told);
    free(a);
}

static void evict_one(sky_faulty *f) {
    entry *e = &f->entries[sky_prng_below(f->prng, f->entry_count)];
    if (f->entry_count > 0 && e->data && !e->pinned)
        forget(e);
}

bool sky_faulty_step(sky_faulty *f) {
    if (f->options.evicts && f->entry_count > 0 && chance(f, 5))
        evict_one(f);
    if (!f->first)
        return false;
    asked *a = f->first;
    for (uint64_t n = sky_prng_below(f->prng, f->asked_count); n > 0; n--)
        a = a->next;
    if (!a->done)
        take_effect(f, a);
    if (f->well || chance(f, 60))
        answer(f, a);
    return true;
}

/* ---- the tier ---- */

static sky_status faulty_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, sky_batch *out) {
    sky_faulty *f = of(tier);
    sky_status status = sky_batches_open(f->tier.batches, items, item_count,
                                         call ? call->deadline_ns : 0, out);
    for (size_t i = 0; status == SKY_OK && i < item_count; i++) {
        asked *a = calloc(1, sizeof *a);
        assert(a);
        *a = (asked){.next = f->first, .op = op, .batch = *out, .item = i};
        f->first = a;
        f->asked_count++;
    }
    return status;
}

/* Now and then a get needs no waiting. */
static bool faulty_attempt(sky_tier *tier, sky_item *item, const sky_call *call) {
    (void)call;
    sky_faulty *f = of(tier);
    const entry *e = entry_of(f, &item->key);
    uint64_t bytes;
    if (f->down || !chance(f, 30) || !e->data ||
        sky_fixture_read(e->data, e->bytes, item, &bytes) != SKY_OK)
        return false;
    item->status = SKY_OK;
    item->bytes = bytes;
    item->tier = f->place;
    return true;
}

static sky_status faulty_list(sky_tier *tier, sky_entry_fn each, void *context) {
    (void)tier, (void)each, (void)context;
    return SKY_OK;
}

static sky_status faulty_verify(sky_tier *tier, sky_verify_report *out) {
    (void)tier, (void)out;
    return SKY_OK;
}

static void faulty_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    (void)tier;
    *out = (sky_tier_stat){0};
    counts->tier.bytes_max = UINT64_MAX;
}

/* The cache over it has gone. */
static void faulty_close(sky_tier *tier) {
    sky_faulty *f = of(tier);
    sky_batches_cancel_all(f->tier.batches);
    while (f->first)
        answer(f, f->first); /* nobody listens */
    for (size_t i = 0; i < f->entry_count && !f->options.lasting; i++)
        forget(&f->entries[i]);
}

static const sky_tier_ops ops = {
    .submit = faulty_submit,
    .attempt = faulty_attempt,
    .list = faulty_list,
    .verify = faulty_verify,
    .stat = faulty_stat,
    .close = faulty_close,
};

sky_faulty *sky_faulty_create(const sky_faulty_options *options, sky_prng *prng,
                              const sky_clock *clock, uint8_t place) {
    sky_faulty *f = calloc(1, sizeof *f);
    assert(f);
    f->tier = (sky_tier){.ops = &ops, .traits = options->lasting ? 0 : SKY_TIER_VOLATILE};
    f->options = *options;
    f->prng = prng;
    f->place = place;
    sky_status status = sky_batches_create(clock, &f->tier.batches);
    assert(status == SKY_OK);
    (void)status;
    return f;
}

void sky_faulty_destroy(sky_faulty *f) {
    faulty_close(&f->tier);
    for (size_t i = 0; i < f->entry_count; i++)
        forget(&f->entries[i]);
    sky_batches_destroy(f->tier.batches);
    free(f);
}

sky_tier *sky_faulty_tier(sky_faulty *f) {
    return &f->tier;
}

void sky_faulty_set_down(sky_faulty *f, bool down) {
    f->down = down;
}

void sky_faulty_set_well(sky_faulty *f) {
    f->well = true;
    f->down = false;
}

uint64_t sky_faulty_damage(const sky_faulty *f, const sky_key *key) {
    return entry_of((sky_faulty *)f, key)->damage;
}
