#include "cache/request_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static bool has_good_name(const sky_item *item) {
    return item->name && item->name_bytes <= SKY_NAME_BYTES_MAX;
}

/* Names are copied, as promotions outlive the call. One too long stays so, for a tier to refuse. */
static void copy_names(sky__request *r, char *to) {
    for (size_t i = 0; i < r->item_count; i++) {
        sky_item *item = &r->items[i];
        if (!item->name)
            continue;
        if (has_good_name(item))
            memcpy(to, item->name, item->name_bytes);
        item->name = to;
        to += has_good_name(item) ? item->name_bytes : 0;
    }
}

sky_status sky__request_create(sky_op op, const sky_item *items, size_t item_count,
                               const sky_call *call, sky__request **out) {
    size_t bytes = item_count * (sizeof(sky_item) + sizeof(sky__progress) + sizeof(uint32_t));
    for (size_t i = 0; i < item_count; i++)
        bytes += has_good_name(&items[i]) ? items[i].name_bytes : 0;
    sky__request *r = malloc(sizeof *r + bytes);
    if (!r)
        return SKY_E_NOMEM;
    *r = (sky__request){.op = op, .call = *call, .refs = 1, .item_count = item_count};
    r->items = (sky_item *)(void *)(r + 1);
    r->progress = (sky__progress *)(void *)(r->items + item_count);
    r->picked = (uint32_t *)(void *)(r->progress + item_count);
    memcpy(r->items, items, item_count * sizeof *items);
    for (size_t i = 0; i < item_count; i++)
        r->progress[i] = (sky__progress){.verdict = SKY_MISS, .tier = SKY_TIER_NONE};
    copy_names(r, (char *)(r->picked + item_count));
    *out = r;
    return SKY_OK;
}

/* With the mutex held. True when it was the last reference: free it without the mutex. */
static bool request_unref(sky_cache *c, sky__request *r) {
    if (--r->refs > 0)
        return false;
    sky__request **link = &c->requests;
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    return true;
}

void sky__request_drop(sky_cache *c, sky__request *r) {
    sky_mutex_lock(&c->mutex);
    bool last = request_unref(c, r);
    sky_mutex_unlock(&c->mutex);
    if (!last)
        return;
    if (r->trace) {
        const sky_trace_event done = sky__request_event(r, &r->items[0].key);
        sky_trace_end(&done, sky__cache_now(c));
        sky_trace_flush(SKY_TRACE_FLUSH_NS);
    }
    free(r);
}

sky_trace_event sky__request_event(const sky__request *r, const sky_key *key) {
    return (sky_trace_event){.category = "request",
                             .name = sky__op_name(r->op),
                             .id = r->trace,
                             .request = r->trace,
                             .key = key,
                             .items = r->item_count};
}

/* ---- the order of a key ---- */

static void item_go(sky_cache *c, sky__order_entry *entry) {
    sky__request *r = entry->owner;
    sky_mutex_lock(&c->mutex);
    r->refs++; /* the entry's own goes when it leaves the order */
    sky_mutex_unlock(&c->mutex);
    r->way->resume(c, r, (size_t)((sky__progress *)(void *)entry - r->progress));
    sky__request_drop(c, r);
}

bool sky__item_enter(sky_cache *c, sky__request *r, size_t i, sky__order_kind kind) {
    sky__progress *p = &r->progress[i];
    p->order = (sky__order_entry){.key = r->items[i].key,
                                  .kind = kind,
                                  .named = r->items[i].name != NULL,
                                  .go = item_go,
                                  .owner = r,
                                  .trace = r->trace};
    p->ordered = true;
    r->refs++;
    bool free_way = sky__order_enter(&c->order, &p->order);
    if (!free_way) { /* perhaps for what is outdated now */
        sky__slots_check(c);
        sky__cache_wake(c);
    }
    return free_way;
}

void sky__item_leave(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    if (!p->ordered)
        return;
    p->ordered = false;
    sky_mutex_lock(&c->mutex);
    sky__order_leave(&c->order, &p->order);
    bool ready = c->order.ready_first != NULL;
    r->refs--; /* not the last: the caller has one */
    sky_mutex_unlock(&c->mutex);
    if (ready)
        sky__cache_wake(c);
}

/* ---- answers ---- */

void sky__item_finish(sky_cache *c, sky__request *r, size_t i, sky_status status, uint64_t bytes,
                      uint8_t tier) {
    sky__item_leave(c, r, i);
    bool answered = status == SKY_OK;
    const sky_answer answer = {.status = status,
                               .bytes = answered ? bytes : 0,
                               .tier = answered ? tier : SKY_TIER_NONE,
                               .version = r->progress[i].version};
    sky_batches_answer(c->batches, r->batch, i, &answer);
}

/* Which of two answers about one item says more; reads want to know of damage, removals of what may
 * be left, pins of any success, and of a tier that has the key and no pins. */
static int status_weight(sky_op op, sky_status status) {
    bool pin = op == SKY_OP_PIN || op == SKY_OP_UNPIN, read = op == SKY_OP_GET || op == SKY_OP_HAS;
    if (status == SKY_MISS || status == SKY_E_UNSUPPORTED)
        return pin && status == SKY_E_UNSUPPORTED;
    if (status == SKY_OK)
        return pin ? 3 : 1;
    return read && status == SKY_E_CORRUPT ? 3 : 2;
}

void sky__item_note(sky__request *r, size_t i, const sky_item *answer, uint8_t tier) {
    sky__progress *p = &r->progress[i];
    int says = status_weight(r->op, answer->status);
    p->version = answer->version ? answer->version : p->version;
    if (says > p->weight) {
        p->weight = says;
        p->verdict = answer->status;
    }
    if (answer->status == SKY_OK && p->tier == SKY_TIER_NONE) {
        p->tier = tier;
        p->bytes = answer->bytes;
    }
}

void sky__item_finish_noted(sky_cache *c, sky__request *r, size_t i) {
    const sky__progress *p = &r->progress[i];
    sky__item_finish(c, r, i, p->verdict, p->bytes, p->tier);
}

bool sky__request_is_final(const sky_cache *c, const sky__request *r, sky_status status) {
    if (status == SKY_E_DEADLINE)
        return r->call.deadline_ns != 0 && sky__cache_now(c) >= r->call.deadline_ns;
    return status == SKY_OK || status == SKY_E_PARAM || status == SKY_E_DST_SMALL ||
           status == SKY_E_CANCELLED;
}

/* ---- sub-requests ---- */

uint8_t sky__request_tiers(const sky_cache *c, const sky__request *r) {
    uint8_t all = (uint8_t)((1u << c->slot_count) - 1);
    return r->call.tiers ? (uint8_t)(r->call.tiers & all) : all;
}

uint8_t sky__request_lasting_tiers(const sky_cache *c, const sky__request *r) {
    uint8_t bits = 0;
    for (size_t t = 0; t < c->slot_count; t++)
        bits |= (uint8_t)(!(c->slots[t].tier->traits & SKY_TIER_VOLATILE) << t);
    return bits & sky__request_tiers(c, r);
}

bool sky__request_asks_near(const sky_cache *c, const sky__request *r) {
    return sky__near_answers(c) && (sky__request_tiers(c, r) & 1);
}

static void part_done(sky_cache *c, sky__sub *sub) {
    sky__part *p = (sky__part *)sub;
    p->request->way->answered(c, p->request, p);
    sky__request_drop(c, p->request);
    free(p);
}

static sky__part *part_create(sky__request *r, size_t tier, sky_op op, const uint32_t *origin,
                              size_t count, const sky_item *other) {
    sky__part *p = malloc(sizeof *p + count * sizeof *p->items);
    if (!p)
        return NULL;
    *p = (sky__part){.sub = {.tier = (uint8_t)tier,
                             .op = op,
                             .call = r->call,
                             .items = p->items,
                             .item_count = count,
                             .caller = r->batch,
                             .caller_item = origin[0],
                             .trace = r->trace,
                             .done = part_done},
                     .request = r};
    for (size_t i = 0; i < count; i++) {
        p->origin[i] = origin[i];
        p->items[i] = other ? *other : r->items[origin[i]];
        p->items[i].status = SKY_E_NOMEM;
        p->items[i].tier = SKY_TIER_NONE;
        if (!other && op != r->op) { /* outlives the caller's buffers; the name is the request's */
            p->items[i].spans = NULL;
            p->items[i].span_count = 0;
        }
    }
    if (op != r->op) { /* for the key's sake, whether the caller still waits or not */
        p->sub.caller = (sky_batch){0};
        p->sub.call = (sky_call){
            .ttl_s = p->items[0].ttl_s, .coding = p->items[0].coding, .evict = p->items[0].evict};
    }
    return p;
}

void sky__sub_group_add(sky__sub_group *l, sky__request *r, size_t tier, sky_op op,
                        const uint32_t *origin, size_t count, const sky_item *other) {
    for (size_t step; count > 0; origin += step, count -= step) {
        step = count < SKY__PART_ITEMS_MAX ? count : SKY__PART_ITEMS_MAX;
        sky__part *p = part_create(r, tier, op, origin, step, other);
        l->no_memory |= !p;
        if (!p)
            return;
        p->sub.next = l->first;
        l->first = &p->sub;
    }
}

static void sub_group_free(sky__sub_group *l) {
    for (sky__sub *sub; (sub = l->first) != NULL; free(sub))
        l->first = sub->next;
}

bool sky__sub_group_send(sky_cache *c, sky__request *r, sky__sub_group *l) {
    if (l->no_memory)
        sub_group_free(l);
    if (!l->first)
        return !l->no_memory;
    sky_mutex_lock(&c->mutex);
    for (sky__sub *sub; (sub = l->first) != NULL;) {
        l->first = sub->next;
        r->refs++;
        sub->given_up = r->given_up && sub->op == r->op;
        sky__slot_queue(c, sub);
    }
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
    return true;
}

static bool is_about(const sky__sub *sub, const sky__request *r, size_t i) {
    const sky__part *p = (const sky__part *)sub;
    return sub->done == part_done && p->request == r && sub->op == r->op && sub->item_count == 1 &&
           p->origin[0] == i;
}

void sky__request_call_back(sky_cache *c, const sky__request *r, size_t i) {
    for (size_t t = 0; t < c->slot_count; t++) {
        sky__sub *const lists[] = {c->slots[t].waiting.first, c->slots[t].active.first};
        for (size_t l = 0; l < 2; l++)
            for (sky__sub *sub = lists[l]; sub; sub = sub->next)
                if (is_about(sub, r, i))
                    sky__slot_give_up(c, sub);
    }
}

bool sky__request_send_item(sky_cache *c, sky__request *r, uint8_t tiers, sky_op op, size_t i,
                            const sky_item *other) {
    const uint32_t origin = (uint32_t)i;
    sky__sub_group group = {0};
    for (size_t t = 0; t < c->slot_count; t++)
        if (tiers >> t & 1)
            sky__sub_group_add(&group, r, t, op, &origin, 1, other);
    return sky__sub_group_send(c, r, &group);
}

void sky__request_finish_no_memory(sky_cache *c, sky__request *r, const uint32_t *items,
                                   size_t count) {
    for (size_t i = 0; i < count; i++)
        sky__item_finish(c, r, items[i], SKY_E_NOMEM, 0, SKY_TIER_NONE);
}
