#include "cache/write_back.h"

#include <stdlib.h>
#include <string.h>

#include "tier/spans.h"

struct sky__payload {
    uint32_t refs;
    bool copied;
    sky_key key;
    sky_key parent;
    sky_call call;
    sky_lease lease;
    sky_span bytes;
    const char *name;
    size_t name_bytes;
    uint8_t tail[]; /* the name, and the bytes if they are copied */
};

typedef struct {
    sky__sub sub;
    sky__order_entry order;
    sky__payload *payload;
    sky_item item;
} entry;

/* ---- private memory ---- */

bool sky__private_take(sky_cache *c, uint64_t bytes) {
    if (c->private_bytes > 0 && c->private_bytes + bytes > SKY__PRIVATE_BYTES_MAX)
        return false;
    c->private_bytes += bytes;
    return true;
}

void sky__private_give(sky_cache *c, uint64_t bytes) {
    c->private_bytes -= bytes;
    sky__cache_wake(c); /* a promotion may wait for room */
}

/* ---- payloads ---- */

static sky_status payload_create(const sky_item *item, const sky_call *call, uint64_t copied_bytes,
                                 sky__payload **out) {
    size_t name_bytes = item->name ? item->name_bytes : 0;
    if (name_bytes > SKY_NAME_BYTES_MAX)
        return SKY_E_PARAM;
    sky__payload *p = malloc(sizeof *p + name_bytes + copied_bytes);
    if (!p)
        return SKY_E_NOMEM;
    *p = (sky__payload){
        .refs = 1,
        .key = item->key,
        .parent = item->parent,
        .call = {.ttl_s = call->ttl_s, .coding = call->coding, .evict = call->evict},
        .name = name_bytes ? (const char *)p->tail : NULL,
        .name_bytes = name_bytes};
    if (name_bytes)
        memcpy(p->tail, item->name, name_bytes);
    *out = p;
    return SKY_OK;
}

sky_status sky__payload_lease(sky_cache *c, const sky_item *item, const sky_call *call,
                              sky__payload **out) {
    sky_tier *near = c->slots[0].tier;
    sky_item lent = {.key = item->key};
    sky__near_answer(c, SKY_OP_LEASE, &lent, 1, NULL);
    if (lent.status != SKY_OK)
        return SKY_MISS;
    sky__payload *p;
    sky_status status = payload_create(item, call, 0, &p);
    if (status != SKY_OK) {
        near->ops->release(near, lent.lease);
        return status;
    }
    p->lease = lent.lease;
    p->bytes = lent.view;
    *out = p;
    return SKY_OK;
}

static bool can_be_copied(const sky_item *item, uint64_t bytes) {
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return false;
    return bytes <= SKY_PAYLOAD_BYTES_MAX;
}

static void copy_spans(uint8_t *to, const sky_span *spans, uint32_t span_count) {
    for (uint32_t i = 0; i < span_count; i++) {
        if (spans[i].bytes > 0)
            memcpy(to, spans[i].data, spans[i].bytes);
        to += spans[i].bytes;
    }
}

sky_status sky__payload_copy(sky_cache *c, const sky_item *item, const sky_call *call,
                             sky__payload **out) {
    uint64_t bytes = sky_spans_bytes(item->spans, item->span_count);
    if (!can_be_copied(item, bytes))
        return SKY_E_PARAM;
    sky_mutex_lock(&c->mutex);
    bool room = sky__private_take(c, bytes);
    sky_mutex_unlock(&c->mutex);
    if (!room)
        return SKY_E_FULL;
    sky__payload *p;
    sky_status status = payload_create(item, call, bytes, &p);
    if (status != SKY_OK) {
        sky_mutex_lock(&c->mutex);
        sky__private_give(c, bytes);
        sky_mutex_unlock(&c->mutex);
        return status;
    }
    p->copied = true;
    p->bytes = (sky_span){p->tail + p->name_bytes, bytes};
    copy_spans(p->bytes.data, item->spans, item->span_count);
    *out = p;
    return SKY_OK;
}

void sky__payload_drop(sky_cache *c, sky__payload *p) {
    if (!p)
        return;
    sky_mutex_lock(&c->mutex);
    bool last = --p->refs == 0;
    if (last && p->copied)
        sky__private_give(c, p->bytes.bytes);
    sky_mutex_unlock(&c->mutex);
    if (last && !p->copied)
        c->slots[0].tier->ops->release(c->slots[0].tier, p->lease);
    if (last)
        free(p);
}

/* ---- the queue ---- */

void sky__write_dropped(sky_cache *c, uint8_t tier, sky_status why) {
    c->slots[tier].counts.dropped++;
    c->dropped++;
    c->dropped_why = why;
}

static void entry_uncount(sky_cache *c, const entry *e) {
    sky__slot *s = &c->slots[e->sub.tier];
    s->write_back_count--;
    s->write_back_bytes -= e->payload->bytes.bytes;
    if (s->write_back_count == 0)
        sky_condition_broadcast(&c->quiet);
}

static void entry_done(sky_cache *c, sky__sub *sub) {
    entry *e = (entry *)sub;
    sky_mutex_lock(&c->mutex);
    if (e->item.status != SKY_OK && !e->order.outdated)
        sky__write_dropped(c, sub->tier, e->item.status);
    c->slots[sub->tier].counts.write_backs += e->item.status == SKY_OK;
    sky__order_leave(&c->order, &e->order);
    entry_uncount(c, e);
    sky_mutex_unlock(&c->mutex);
    sky__payload_drop(c, e->payload);
    free(e);
}

static entry *entry_create(sky__payload *p, uint8_t tier) {
    entry *e = malloc(sizeof *e);
    if (!e)
        return NULL;
    *e = (entry){.sub = {.tier = tier,
                         .background = true,
                         .why = SKY__FOR_WRITE_BACK,
                         .order = &e->order,
                         .op = SKY_OP_PUT,
                         .call = p->call,
                         .items = &e->item,
                         .item_count = 1,
                         .done = entry_done},
                 .order = {.key = p->key, .kind = SKY__ORDER_COPY, .named = p->name != NULL},
                 .payload = p,
                 .item = {.key = p->key,
                          .parent = p->parent,
                          .name = p->name,
                          .name_bytes = p->name_bytes,
                          .spans = &p->bytes,
                          .span_count = 1}};
    return e;
}

static sky_status find_room(const sky_cache *c, const sky__slot *s, uint64_t bytes) {
    bool fits = s->write_back_count == 0 || s->write_back_bytes + bytes <= s->write_back_bytes_max;
    if (sky__slot_skipped(c, s))
        return SKY_E_IO;
    return fits && s->write_back_count < SKY__WRITE_BACKS_MAX ? SKY_OK : SKY_E_FULL;
}

sky_status sky__write_back(sky_cache *c, sky__payload *p, uint8_t tier, sky__order_entry *leader) {
    sky__slot *s = &c->slots[tier];
    entry *e = entry_create(p, tier);
    if (!e)
        return SKY_E_NOMEM;
    sky_mutex_lock(&c->mutex);
    sky_status status = leader->outdated ? SKY_E_CANCELLED : find_room(c, s, p->bytes.bytes);
    if (status == SKY_OK) {
        p->refs++;
        s->write_back_count++;
        s->write_back_bytes += p->bytes.bytes;
        e->sub.trace = e->order.trace = leader->trace;
        sky__order_follow(&e->order, leader);
        sky__slot_queue(c, &e->sub);
    }
    sky_mutex_unlock(&c->mutex);
    if (status == SKY_OK)
        sky__cache_wake(c);
    else
        free(e);
    return status;
}
