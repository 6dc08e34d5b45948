#include "cache/demotion.h"

#include <stdlib.h>

#include <skymem/keys.h>

#include "cache/write_back.h"

#define READ_TRIES 8 /* while something is being removed */

typedef enum { LOOK, LOAD, STORE } stage;

struct sky__demotion {
    sky__sub sub;
    sky__order_entry order;
    sky__demotion *next;
    stage stage;
    uint8_t from;
    uint8_t to;
    bool starved;      /* waits for room to LOAD */
    uint64_t puts;     /* at the tier, when it was offered */
    uint64_t removals; /* so far, when the bytes were asked for */
    uint32_t tries;
    uint64_t bytes; /* as offered */
    uint8_t *buffer;
    sky_item item;
    sky_span span;
};

static void free_buffer(sky_cache *c, sky__demotion *d) {
    if (d->buffer) {
        sky__private_give(c, d->bytes);
        c->slots[d->from].demotions_loaded--;
    }
    free(d->buffer);
    d->buffer = NULL;
}

/* Room for the bytes. The first of a tier has it at once, above the limit: what holds the room may
 * be a write that waits for this tier to have evicted. With the mutex held. */
static bool take_room(sky_cache *c, const sky__demotion *d) {
    if (sky__private_take(c, d->bytes))
        return true;
    if (c->slots[d->from].demotions_loaded > 0)
        return false;
    c->private_bytes += d->bytes;
    return true;
}

/* The list is in the order in which they were offered. With the mutex held. */
static void note_oldest(sky_cache *c, uint8_t from) {
    const sky__demotion *d = c->demotions;
    while (d && d->from != from)
        d = d->next;
    c->slots[from].demotions_behind = d ? d->puts : 0;
}

/* `lost`: no farther tier has it now. */
static void demotion_end(sky_cache *c, sky__demotion *d, bool lost) {
    sky_mutex_lock(&c->mutex);
    sky__demotion **link = &c->demotions;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
    c->slots[d->from].counts.demotions_lost += lost && !d->order.outdated;
    sky__order_leave(&c->order, &d->order);
    free_buffer(c, d);
    c->slots[d->from].demotion_count--;
    note_oldest(c, d->from);
    if (--c->demotion_count == 0)
        sky_condition_broadcast(&c->quiet);
    sky_mutex_unlock(&c->mutex);
    free(d);
}

/* Send it to a tier. With the mutex held. */
static void demotion_ask(sky_cache *c, sky__demotion *d, stage next, uint8_t tier, sky_op op) {
    d->stage = next;
    d->sub.tier = tier;
    d->sub.op = op;
    d->sub.order = next == STORE ? &d->order : NULL; /* what is only read may be read to its end */
    d->sub.call.no_touch = op == SKY_OP_GET;
    sky__slot_queue(c, &d->sub);
}

/* The tier lacks it and does not take it: the one after it, or the end. */
static void try_further(sky_cache *c, sky__demotion *d) {
    sky_mutex_lock(&c->mutex);
    free_buffer(c, d);
    bool more = ++d->to < c->slot_count && !c->stopping;
    if (more)
        demotion_ask(c, d, LOOK, d->to, SKY_OP_HAS);
    sky_mutex_unlock(&c->mutex);
    if (!more)
        demotion_end(c, d, true);
}

/* The bytes are here. What was removed meanwhile must not come back: if anything was, they are read
 * once more. A removal that begins later follows the put at the tier. */
static void demotion_store(sky_cache *c, sky__demotion *d) {
    d->span = (sky_span){d->buffer, d->item.bytes};
    d->sub.call.ttl_s = d->item.ttl_s;
    d->sub.call.coding = d->item.coding;
    d->sub.call.evict = d->item.evict;
    sky_mutex_lock(&c->mutex);
    uint64_t removals = sky__order_removals(&c->order);
    bool outdated = d->order.outdated,
         current = removals == d->removals && removals != SKY__ORDER_UNKNOWN;
    bool again = !outdated && !current && d->tries++ < READ_TRIES;
    if (!outdated && current)
        demotion_ask(c, d, STORE, d->to, SKY_OP_PUT);
    if (again) {
        free_buffer(c, d);
        d->removals = removals;
        demotion_ask(c, d, LOOK, d->to, SKY_OP_HAS);
    }
    sky_mutex_unlock(&c->mutex);
    if (outdated || (!current && !again))
        demotion_end(c, d, true);
}

static void step_done(sky_cache *c, sky__sub *sub) {
    sky__demotion *d = (sky__demotion *)sub;
    sky_status status = d->item.status;
    if (status == SKY_E_CANCELLED || (d->stage == LOOK && status == SKY_OK)) {
        demotion_end(c, d, status == SKY_E_CANCELLED);
    } else if (d->stage == LOOK && (status == SKY_MISS || status == SKY_E_CORRUPT)) {
        sky_mutex_lock(&c->mutex);
        d->starved = true;
        sky_mutex_unlock(&c->mutex);
    } else if (d->stage == LOAD && status == SKY_OK) {
        demotion_store(c, d);
    } else if (d->stage == LOAD) { /* it went before its turn, or cannot be read */
        demotion_end(c, d, true);
    } else if (status == SKY_OK) {
        sky_mutex_lock(&c->mutex);
        c->slots[d->to].counts.demoted++;
        sky_mutex_unlock(&c->mutex);
        demotion_end(c, d, false);
    } else {
        try_further(c, d);
    }
}

static const sky__demotion *find_demotion(const sky_cache *c, const sky_key *key) {
    const sky__demotion *d = c->demotions;
    while (d && !sky_key_equal(&d->item.key, key))
        d = d->next;
    return d;
}

/* With the mutex held. False for want of memory. */
static bool demotion_start(sky_cache *c, uint8_t from, const sky_victim *v, uint64_t removals) {
    sky__demotion *d = malloc(sizeof *d);
    if (!d)
        return false;
    *d = (sky__demotion){
        .sub = {.background = true,
                .items = &d->item,
                .item_count = 1,
                .why = SKY__FOR_DEMOTION,
                .done = step_done},
        .order = {.key = v->key, .kind = SKY__ORDER_PROMOTION},
        .from = from,
        .to = (uint8_t)(from + 1),
        .puts = c->slots[from].puts,
        .removals = removals,
        .bytes = v->bytes,
        .item = {.key = v->key, .parent = v->parent, .spans = &d->span, .span_count = 1}};
    sky__order_enter(&c->order, &d->order);
    sky__demotion **link = &c->demotions;
    while (*link)
        link = &(*link)->next;
    *link = d;
    c->demotion_count++;
    c->slots[from].demotion_count++;
    note_oldest(c, from);
    demotion_ask(c, d, LOOK, d->to, SKY_OP_HAS);
    return true;
}

/* Take one that is offered; false: it is to be offered again. With the mutex held. */
static bool take_victim(sky_cache *c, uint8_t from, const sky_victim *v) {
    const sky__demotion *other = find_demotion(c, &v->key);
    uint64_t removals = sky__order_removals(&c->order);
    if (other)
        return other->from == from;
    return removals != SKY__ORDER_UNKNOWN && !sky__order_changing(&c->order, &v->key) &&
           c->demotion_count < SKY__DEMOTIONS_MAX && demotion_start(c, from, v, removals);
}

uint32_t sky__demotion_offer(void *cache, uint8_t from, const sky_victim *victims, size_t count) {
    sky_cache *c = cache;
    uint32_t taken = 0;
    sky_mutex_lock(&c->mutex);
    bool wanted = !c->stopping && from + 1u < c->slot_count;
    for (size_t i = 0; wanted && i < count; i++)
        taken |= (uint32_t)take_victim(c, from, &victims[i]) << i;
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
    return wanted ? taken : UINT32_MAX;
}

bool sky__demotion_step(sky_cache *c) {
    bool moved = false;
    for (sky__demotion *d = c->demotions; d; d = d->next) {
        if (!d->starved)
            continue;
        bool over = c->stopping || d->order.outdated;
        if (!over && sky__slot_evicting(&c->slots[d->to]))
            continue;
        if (!over && !take_room(c, d))
            continue;
        d->starved = false;
        d->buffer = over ? NULL : malloc(d->bytes ? d->bytes : 1);
        if (!over && !d->buffer)
            sky__private_give(c, d->bytes);
        c->slots[d->from].demotions_loaded += d->buffer != NULL;
        d->sub.given_up = !d->buffer; /* ends on its way */
        d->span = (sky_span){d->buffer, d->bytes};
        demotion_ask(c, d, LOAD, d->from, SKY_OP_GET);
        moved = true;
    }
    return moved;
}
