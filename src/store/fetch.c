/* Fetches: a payload comes from a farther tier to tier 0, through private memory, and from there to
 * the tiers between, as what is written behind does, but only if they lack it.
 *
 *   LOOK_NEAR ──absent──► LOOK (how large?) ──► wait for room ──► LOAD ──► FILL tier 0
 *       │ there             │ miss: next tier                      │ lost: next tier
 *       ▼                   ▼                                      ▼
 *      end                 end            grown since: LOOK      copies behind, end
 *
 * Promotions, which nobody waits for, look at tier 0 first (somebody else may have been faster) and
 * run in the background, reading only while no caller asks that tier. A put or a remove of the key
 * makes every fetch of it forget what it carries: what it read is older. */
#include "store/hierarchy.h"

#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

typedef enum { LOOK_NEAR, LOOK, LOAD, FILL } stage;

struct sky_fetch {
    sky_errand errand;
    sky_fetch *next;
    sky_job *job; /* NULL: a promotion */
    size_t job_item;
    stage stage;
    uint32_t tiers; /* as sky_call's */
    uint8_t from;
    bool starved; /* waits for room to LOAD */
    bool forgotten;
    bool grown;     /* it was larger than it looked, and is looked at once more */
    uint64_t bytes; /* 0: not known yet */
    uint8_t *buffer;
    sky_status verdict;
    sky_item item;
    sky_span span;
    char name[];
};

/* The payload is here, and in tier 0 unless that refused it. */
static void copy_between(sky_cache *c, const sky_fetch *f) {
    sky_mutex_lock(&c->mutex);
    bool older = f->forgotten;
    sky_mutex_unlock(&c->mutex);
    if (older || f->from <= 1)
        return;
    sky_parcel *parcel = NULL;
    if (f->item.status == SKY_OK && c->tiers[0].lends)
        (void)sky_parcel_borrow(c, &f->item, &f->errand.call, &parcel);
    if (!parcel)
        (void)sky_parcel_create(c, &f->item, &f->errand.call, (sky_span){0}, (sky_lease){0},
                                &parcel);
    for (uint8_t t = 1; t < f->from; t++)
        if (f->tiers == 0 || (f->tiers >> t & 1))
            sky_behind(c, parcel, t, true);
    sky_parcel_drop(c, parcel);
}

static void end(sky_cache *c, sky_fetch *f, sky_status status) {
    sky_mutex_lock(&c->mutex);
    if (f->forgotten) /* tier 0 has the last word */
        status = c->tiers[0].lends ? SKY_OK : SKY_MISS;
    sky_fetch **link = &c->fetches;
    while (*link != f)
        link = &(*link)->next;
    *link = f->next;
    c->fetch_count -= f->job == NULL;
    if (c->fetch_count == 0)
        sky_condition_broadcast(&c->quiet);
    if (f->buffer)
        sky_private_give(c, f->bytes);
    sky_mutex_unlock(&c->mutex);
    if (f->job)
        sky_job_fetched(c, f->job, f->job_item, status);
    free(f->buffer);
    free(f);
}

/* Send the fetch's errand to a tier. With the mutex held. */
static void go(sky_cache *c, sky_fetch *f, stage next, uint8_t tier, sky_op op) {
    f->stage = next;
    f->errand.tier = tier;
    f->errand.op = op;
    f->errand.when_idle = !f->job && (next == LOOK || next == LOAD);
    f->errand.given_up |= f->forgotten;
    sky_errand_add(c, &f->errand);
}

/* With the mutex held. */
static void look(sky_cache *c, sky_fetch *f) {
    if (f->bytes > 0)
        f->starved = true; /* its size is known already */
    else
        go(c, f, LOOK, f->from, SKY_OP_HAS);
}

static void free_buffer(sky_cache *c, sky_fetch *f) {
    if (f->buffer)
        sky_private_give(c, f->bytes);
    free(f->buffer);
    f->buffer = NULL;
    f->bytes = 0;
}

/* The tier does not have it, or not intact: the next one, or the end. */
static void look_further(sky_cache *c, sky_fetch *f) {
    sky_status status = f->item.status;
    if (f->verdict == SKY_MISS || status == SKY_E_CORRUPT)
        f->verdict = status;
    sky_mutex_lock(&c->mutex);
    free_buffer(c, f);
    do
        f->from++;
    while (f->from < c->tier_count && f->tiers != 0 && !(f->tiers >> f->from & 1));
    bool more = f->from < c->tier_count && !f->errand.given_up;
    if (more)
        look(c, f);
    sky_mutex_unlock(&c->mutex);
    if (!more)
        end(c, f, f->verdict);
}

static void fill(sky_cache *c, sky_fetch *f) {
    f->span = (sky_span){f->buffer, f->item.bytes};
    f->errand.call.ttl_s = f->item.ttl_s; /* a copy lives no longer than what it was made of */
    sky_mutex_lock(&c->mutex);
    go(c, f, FILL, 0, SKY_OP_PUT);
    sky_mutex_unlock(&c->mutex);
}

static void look_again(sky_cache *c, sky_fetch *f) {
    sky_mutex_lock(&c->mutex);
    f->grown = true;
    free_buffer(c, f);
    look(c, f);
    sky_mutex_unlock(&c->mutex);
}

static void want_room(sky_cache *c, sky_fetch *f) {
    sky_mutex_lock(&c->mutex);
    f->bytes = f->item.bytes;
    f->starved = true;
    sky_mutex_unlock(&c->mutex);
}

static void fetch_done(sky_cache *c, sky_errand *e) {
    sky_fetch *f = (sky_fetch *)e;
    bool ok = f->item.status == SKY_OK;
    if (f->stage == FILL && f->item.status != SKY_E_CANCELLED)
        copy_between(c, f);
    if (f->stage == FILL || (f->stage == LOOK_NEAR && ok) || f->item.status == SKY_E_CANCELLED) {
        end(c, f, f->item.status);
    } else if (f->stage == LOOK_NEAR) {
        sky_mutex_lock(&c->mutex);
        look(c, f);
        sky_mutex_unlock(&c->mutex);
    } else if (f->stage == LOAD && f->item.status == SKY_E_DST_SMALL && !f->grown) {
        look_again(c, f);
    } else if (!ok) {
        look_further(c, f);
    } else if (f->stage == LOOK) {
        want_room(c, f);
    } else {
        fill(c, f);
    }
}

static bool is_promoting(const sky_cache *c, const sky_key *key) {
    for (const sky_fetch *f = c->fetches; f; f = f->next)
        if (sky_key_equal(&f->item.key, key))
            return true;
    return false;
}

sky_status sky_fetch_start(sky_cache *c, const sky_item *item, const sky_call *call, uint8_t from,
                           sky_job *job, size_t job_item) {
    if (!job && (c->fetch_count == SKY_FETCHES_MAX || is_promoting(c, &item->key)))
        return SKY_E_BUSY;
    size_t name_bytes = item->name && item->name_bytes <= SKY_NAME_BYTES_MAX ? item->name_bytes : 0;
    sky_fetch *f = malloc(sizeof *f + name_bytes);
    if (!f)
        return SKY_E_NOMEM;
    *f = (sky_fetch){.errand = {.background = job == NULL,
                                .call = {.deadline_ns = call->deadline_ns, .coding = call->coding},
                                .items = &f->item,
                                .item_count = 1,
                                .done = fetch_done},
                     .next = c->fetches,
                     .job = job,
                     .job_item = job_item,
                     .tiers = call->tiers,
                     .from = from,
                     .verdict = SKY_MISS,
                     .item = {.key = item->key,
                              .parent = item->parent,
                              .name = name_bytes ? f->name : NULL,
                              .name_bytes = name_bytes,
                              .spans = &f->span,
                              .span_count = 1}};
    if (name_bytes)
        memcpy(f->name, item->name, name_bytes);
    bool whole = item->range.offset == 0 &&
                 (item->range.bytes == 0 || item->range.bytes == SKY_ALL);
    if (!job && whole)
        f->bytes = item->bytes;
    c->fetches = f;
    c->fetch_count += job == NULL;
    if (job)
        look(c, f);
    else
        go(c, f, LOOK_NEAR, 0, SKY_OP_HAS);
    return SKY_OK;
}

void sky_fetch_forget(sky_cache *c, const sky_key *key) {
    for (sky_fetch *f = c->fetches; f; f = f->next) {
        if (!sky_key_equal(&f->item.key, key))
            continue;
        f->forgotten = true;
        if (f->stage != FILL || !f->errand.active)
            f->errand.given_up = true;
    }
}

void sky_fetch_give_up(sky_cache *c, const sky_job *job) {
    for (sky_fetch *f = c->fetches; f; f = f->next)
        f->errand.given_up |= f->job == job;
}

bool sky_fetch_step(sky_cache *c) {
    bool moved = false;
    for (sky_fetch *f = c->fetches; f; f = f->next) {
        if (!f->starved)
            continue;
        bool over = c->stopping || f->forgotten || f->errand.given_up;
        if (!over && !sky_private_take(c, f->bytes))
            continue;
        f->starved = false;
        f->buffer = over ? NULL : malloc(f->bytes ? f->bytes : 1);
        if (!over && !f->buffer)
            sky_private_give(c, f->bytes);
        f->errand.given_up |= !f->buffer; /* ends on its way */
        f->span = (sky_span){f->buffer, f->bytes};
        go(c, f, LOAD, f->from, SKY_OP_GET);
        moved = true;
    }
    return moved;
}
