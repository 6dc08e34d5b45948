#include "cache/promotion.h"

#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "io/trace.h"

#define LOOKS_MAX 8 /* at what was read, while something is being removed */

typedef enum { LOOK_NEAR, LOOK, LOAD, FILL } stage;

struct sky__promotion {
    sky__sub sub;
    sky__order_entry order;
    sky__promotion *next;
    sky__promotion_waiter waiter;
    stage stage;
    uint32_t tiers; /* as sky_call's */
    uint8_t from;
    bool starved;         /* waits for room to LOAD */
    bool grown;           /* it was larger than it looked, and is looked at once more */
    uint64_t removals;    /* so far, when the tier was asked last */
    uint32_t looks;       /* at what was read: is it still there? */
    sky_time deadline_ns; /* the waiter's */
    sky_time began;       /* while a trace is on */
    uint64_t bytes;       /* 0: not known yet */
    uint8_t *buffer;
    sky_status verdict;
    sky_item item;
    sky_span span;
    char name[];
};

static bool takes_part(const sky__promotion *p, uint8_t tier) {
    return p->tiers == 0 || (p->tiers >> tier & 1);
}

/* Something was removed since the tier was asked, and this may have hung below it. A name hangs
 * below nothing. */
static bool may_be_removed(const sky_cache *c, const sky__promotion *p) {
    uint64_t removals = sky__order_removals(&c->order);
    return !p->item.name && (removals == SKY__ORDER_UNKNOWN || removals != p->removals);
}

/* The payload is here, and in the nearest tier unless that refused it. */
static void copy_between(sky_cache *c, sky__promotion *p) {
    if (p->from <= 1 || may_be_removed(c, p))
        return;
    sky__payload *payload = NULL;
    if (p->item.status == SKY_OK && sky__near_leases(c))
        (void)sky__payload_lease(c, &p->item, &p->sub.call, &payload);
    if (!payload)
        (void)sky__payload_copy(c, &p->item, &p->sub.call, &payload);
    for (uint8_t t = 1; payload && t < p->from; t++)
        if (takes_part(p, t) && !(sky__victim_tiers(c) >> t & 1))
            (void)sky__write_back(c, payload, t, &p->order);
    sky__payload_drop(c, payload);
}

static void free_buffer(sky_cache *c, sky__promotion *p) {
    if (p->buffer)
        sky__private_give(c, p->bytes);
    free(p->buffer);
    p->buffer = NULL;
    p->bytes = 0;
}

static void trace_end(const sky_cache *c, const sky__promotion *p, sky_status status) {
    if (!sky_trace_on() || p->began == 0)
        return;
    const sky_trace_event e = {.category = "promotion",
                               .name = SKY__FOR_PROMOTION,
                               .status = sky_status_name(status),
                               .id = sky_trace_id(),
                               .request = p->order.trace,
                               .key = &p->item.key,
                               .items = 1,
                               .bytes = status == SKY_OK ? p->item.bytes : 0};
    sky_trace_span(&e, p->began, sky__cache_now(c));
}

static void promotion_end(sky_cache *c, sky__promotion *p, sky_status status) {
    sky_mutex_lock(&c->mutex);
    sky__promotion **link = &c->promotions;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    if (p->order.outdated) /* the nearest tier has the last word */
        status = sky__near_answers(c) ? SKY_OK : SKY_MISS;
    else if (p->verdict == SKY_E_NOMEM)
        status = SKY_E_NOMEM;
    if (p->stage == FILL && status == SKY_OK)
        sky_count(&c->counts.promotions, 1);
    else if (p->stage != LOOK_NEAR)
        sky_count(&c->counts.promotions_lost, 1);
    sky__order_leave(&c->order, &p->order);
    c->promotion_count -= p->waiter.owner == NULL;
    if (c->promotion_count == 0)
        sky_condition_broadcast(&c->quiet);
    free_buffer(c, p);
    sky_mutex_unlock(&c->mutex);
    trace_end(c, p, status);
    if (p->waiter.owner)
        p->waiter.done(c, p->waiter.owner, p->waiter.item, status);
    free(p);
}

/* Send it to a tier. With the mutex held. */
static void promotion_ask(sky_cache *c, sky__promotion *p, stage next, uint8_t tier, sky_op op) {
    p->stage = next;
    p->removals = next == FILL ? p->removals : sky__order_removals(&c->order);
    p->sub.tier = tier;
    p->sub.op = op;
    p->sub.call.deadline_ns = p->deadline_ns;
    p->sub.order = next == FILL ? &p->order : NULL; /* what is only read may be read to its end */
    p->sub.when_idle = !p->waiter.owner && (next == LOOK || next == LOAD);
    sky__slot_queue(c, &p->sub);
}

/* With the mutex held. */
static void promotion_look_up(sky_cache *c, sky__promotion *p) {
    if (p->bytes > 0)
        p->starved = true; /* its size is known already */
    else
        promotion_ask(c, p, LOOK, p->from, SKY_OP_HAS);
}

/* The tier does not have it, or not intact: the next one, or the end. */
static void look_further(sky_cache *c, sky__promotion *p) {
    sky_status status = p->item.status;
    if (p->verdict == SKY_MISS || status == SKY_E_CORRUPT)
        p->verdict = status;
    sky_mutex_lock(&c->mutex);
    free_buffer(c, p);
    do
        p->from++;
    while (p->from < c->slot_count && !takes_part(p, p->from));
    bool more = p->from < c->slot_count && !p->sub.given_up;
    if (more)
        promotion_look_up(c, p);
    sky_mutex_unlock(&c->mutex);
    if (!more)
        promotion_end(c, p, p->verdict);
}

/* The bytes are here. What was removed meanwhile must not come back: if anything was, the tier is
 * asked whether it still has them, and if there is no end of removals only a waiter gets them. */
static void promotion_store(sky_cache *c, sky__promotion *p) {
    sky_mutex_lock(&c->mutex);
    bool doubtful = !p->order.outdated && may_be_removed(c, p);
    bool again = doubtful && p->looks++ < LOOKS_MAX;
    bool lost = doubtful && !again && !p->waiter.owner;
    if (again)
        promotion_ask(c, p, LOOK, p->from, SKY_OP_HAS);
    else if (!lost) {
        sky__order_fill(&c->order, &p->order);
        promotion_ask(c, p, FILL, 0, SKY_OP_PUT);
    }
    sky_mutex_unlock(&c->mutex);
    if (lost)
        promotion_end(c, p, SKY_E_BUSY);
}

static void promotion_loaded(sky_cache *c, sky__promotion *p) {
    p->span = (sky_span){p->buffer, p->item.bytes};
    p->sub.call.ttl_s = p->item.ttl_s; /* a copy lives no longer than what it was made of */
    p->sub.call.evict = p->item.evict;
    promotion_store(c, p);
}

static void look_again(sky_cache *c, sky__promotion *p) {
    sky_mutex_lock(&c->mutex);
    p->grown = true;
    free_buffer(c, p);
    promotion_look_up(c, p);
    sky_mutex_unlock(&c->mutex);
}

static void want_room(sky_cache *c, sky__promotion *p) {
    sky_mutex_lock(&c->mutex);
    p->bytes = p->item.bytes;
    p->starved = true;
    sky_mutex_unlock(&c->mutex);
}

static void step_done(sky_cache *c, sky__sub *sub) {
    sky__promotion *p = (sky__promotion *)sub;
    sky_status status = p->item.status;
    if (p->stage == FILL && status != SKY_E_CANCELLED)
        copy_between(c, p);
    if (p->stage == FILL || (p->stage == LOOK_NEAR && status == SKY_OK) ||
        status == SKY_E_CANCELLED) {
        promotion_end(c, p, status);
    } else if (p->stage == LOOK_NEAR) {
        sky_mutex_lock(&c->mutex);
        promotion_look_up(c, p);
        sky_mutex_unlock(&c->mutex);
    } else if (p->stage == LOAD && status == SKY_E_DST_SMALL && !p->grown) {
        look_again(c, p);
    } else if (status != SKY_OK) {
        look_further(c, p);
    } else if (p->stage == LOAD) {
        promotion_loaded(c, p);
    } else if (p->buffer) {
        promotion_store(c, p);
    } else {
        want_room(c, p);
    }
}

static bool is_under_way(const sky_cache *c, const sky_key *key) {
    for (const sky__promotion *p = c->promotions; p; p = p->next)
        if (sky_key_equal(&p->item.key, key))
            return true;
    return false;
}

static sky__promotion *promotion_create(const sky_item *item, const sky_call *call, uint8_t from,
                                        const sky__promotion_waiter *waiter, uint64_t trace) {
    size_t name_bytes = item->name && item->name_bytes <= SKY_NAME_BYTES_MAX ? item->name_bytes : 0;
    sky__promotion *p = malloc(sizeof *p + name_bytes);
    if (!p)
        return NULL;
    *p = (sky__promotion){.sub = {.background = waiter == NULL,
                                  .items = &p->item,
                                  .item_count = 1,
                                  .why = SKY__FOR_PROMOTION,
                                  .trace = trace,
                                  .done = step_done},
                          .order = {.key = item->key, .kind = SKY__ORDER_PROMOTION, .trace = trace},
                          .tiers = call->tiers,
                          .from = from,
                          .deadline_ns = call->deadline_ns,
                          .verdict = SKY_MISS,
                          .item = {.key = item->key,
                                   .parent = item->parent,
                                   .name = name_bytes ? p->name : NULL,
                                   .name_bytes = name_bytes,
                                   .spans = &p->span,
                                   .span_count = 1}};
    if (name_bytes)
        memcpy(p->name, item->name, name_bytes);
    bool whole = item->range.offset == 0 &&
                 (item->range.bytes == 0 || item->range.bytes == SKY_ALL);
    if (waiter)
        p->waiter = *waiter;
    else if (whole)
        p->bytes = item->bytes;
    return p;
}

/* Behind the others. With the mutex held. */
static void link_promotion(sky_cache *c, sky__promotion *p) {
    p->began = sky_trace_on() ? sky__cache_now(c) : 0;
    sky__promotion **link = &c->promotions;
    while (*link)
        link = &(*link)->next;
    *link = p;
    c->promotion_count += p->waiter.owner == NULL;
}

/* The promotion of an item that was read whole, linked and storing; NULL: it may not be stored, or
 * there is no memory. */
static sky__promotion *begin_store(sky_cache *c, const sky_item *item, const sky_call *call,
                                   uint8_t from, uint64_t since, uint64_t trace) {
    sky__promotion *p = NULL;
    sky_mutex_lock(&c->mutex);
    if (since != SKY__ORDER_UNKNOWN && !is_under_way(c, &item->key) &&
        sky__order_writes(&c->order, &item->key) == since)
        p = promotion_create(item, call, from, NULL, trace);
    if (p) {
        sky__order_enter(&c->order, &p->order);
        sky__order_work(&c->order, &p->order, true); /* a later write waits */
        sky__order_fill(&c->order, &p->order);
        p->removals = sky__order_removals(&c->order);
        link_promotion(c, p);
    }
    sky_mutex_unlock(&c->mutex);
    return p;
}

bool sky__promotion_store(sky_cache *c, const sky_item *item, const sky_call *call, uint8_t from,
                          uint64_t since, uint64_t trace) {
    sky__promotion *p = begin_store(c, item, call, from, since, trace);
    if (!p)
        return false;
    p->item.spans = item->spans;
    p->item.span_count = item->span_count;
    p->sub.call.ttl_s = item->ttl_s;
    p->sub.call.evict = item->evict;
    p->stage = FILL;
    sky__near_answer(c, SKY_OP_PUT, &p->item, 1, &p->sub.call);
    bool stored = p->item.status == SKY_OK;
    if (stored)
        copy_between(c, p);
    promotion_end(c, p, p->item.status);
    return stored;
}

sky_status sky__promotion_start(sky_cache *c, const sky_item *item, const sky_call *call,
                                uint8_t from, const sky__promotion_waiter *waiter, uint64_t trace) {
    if (!waiter && (c->promotion_count == SKY__PROMOTIONS_MAX || is_under_way(c, &item->key) ||
                    sky__order_changing(&c->order, &item->key)))
        return SKY_E_BUSY;
    sky__promotion *p = promotion_create(item, call, from, waiter, trace);
    if (!p)
        return SKY_E_NOMEM;
    if (waiter && waiter->leader)
        sky__order_follow(&p->order, waiter->leader);
    else
        sky__order_enter(&c->order, &p->order);
    link_promotion(c, p);
    if (waiter)
        promotion_look_up(c, p);
    else
        promotion_ask(c, p, LOOK_NEAR, 0, SKY_OP_HAS);
    return SKY_OK;
}

void sky__promotion_give_up(sky_cache *c, const void *owner) {
    for (sky__promotion *p = c->promotions; p; p = p->next)
        if (p->waiter.owner == owner)
            sky__slot_give_up(c, &p->sub);
}

bool sky__promotion_step(sky_cache *c) {
    bool moved = false, room = true; /* those that wait longest come first */
    for (sky__promotion *p = c->promotions; p; p = p->next) {
        if (!p->starved)
            continue;
        bool over = c->stopping || p->order.outdated || p->sub.given_up;
        if (!over && !(room = room && sky__private_take(c, p->bytes)))
            continue;
        p->starved = false;
        p->buffer = over ? NULL : malloc(p->bytes ? p->bytes : 1);
        if (!over && !p->buffer) {
            sky__private_give(c, p->bytes);
            p->verdict = SKY_E_NOMEM;
        }
        p->sub.given_up |= !p->buffer; /* ends on its way */
        p->span = (sky_span){p->buffer, p->bytes};
        promotion_ask(c, p, LOAD, p->from, SKY_OP_GET);
        moved = true;
    }
    return moved;
}
