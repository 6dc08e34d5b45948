/* Announce and withdraw: this cache notes it, and so does every farther tier that can (shm, peer).
 * Await: memory is asked; what it lacks and is announced here is waited for here
 * (cache/arrivals.h), while the other tiers are asked whether they have it. Else tiers are asked as
 * by a has, nearest first; one that can announce waits itself.
 * Expect: as await of what is announced here, but tiers that can announce wait meanwhile.
 *
 * None of these enters the order of its key: a put must not wait for who awaits it. */
#include <stdlib.h>

#include "cache/arrivals.h"
#include "cache/request_state.h"

#define LAPSE_S_MAX 600u /* of an announcement */

static bool can_announce(const sky_cache *c, size_t tier) {
    return c->slots[tier].tier->traits & SKY_TIER_ANNOUNCES;
}

/* ---- waiters that are over ---- */

bool sky__arrivals_step(sky_cache *c) {
    sky__waiter *over = sky__arrivals_take_over(&c->arrivals, sky__cache_now(c));
    if (!over)
        return false;
    for (const sky__waiter *w = over; w; w = w->next)
        sky__request_call_back(c, w->request, w->item);
    sky_mutex_unlock(&c->mutex);
    for (sky__waiter *w = over, *next; w; w = next) {
        next = w->next;
        sky_count(w->status == SKY_OK ? &c->counts.awaits_came : &c->counts.awaits_lost, 1);
        sky__item_finish(c, w->request, w->item, w->status, w->bytes, w->tier);
        sky__request_drop(c, w->request);
        free(w);
    }
    sky_mutex_lock(&c->mutex);
    return true;
}

void sky__arrivals_note_put(sky_cache *c, const sky_key *key, uint64_t bytes, uint8_t tier) {
    if (atomic_load(&c->arrivals.count) == 0 && atomic_load(&c->arrivals.waiter_count) == 0)
        return;
    sky_mutex_lock(&c->mutex);
    uint32_t stored = sky__arrivals_stored(&c->arrivals, key, bytes, tier);
    sky_mutex_unlock(&c->mutex);
    sky_count(&c->counts.announced_stored, stored > 0);
    sky__cache_wake(c);
}

/* ---- announce, withdraw ---- */

static sky_status note_here(sky_cache *c, const sky__request *r, const sky_key *key) {
    if (r->op == SKY_OP_WITHDRAW) {
        sky__arrivals_withdraw(&c->arrivals, r->call.owner, key);
        return SKY_OK;
    }
    uint32_t lapse_s = r->call.ttl_s > 0 && r->call.ttl_s < LAPSE_S_MAX ? r->call.ttl_s
                                                                        : LAPSE_S_MAX;
    sky_time now = sky__cache_now(c);
    sky_status status = sky__arrivals_announce(&c->arrivals, r->call.owner, key, now,
                                               now + SKY_SECONDS(lapse_s));
    sky_count(&c->counts.announcements_refused, status != SKY_OK);
    return status;
}

/* What is refused here is not asked of others. The number of items left, in r->picked. */
static size_t note_all_here(sky_cache *c, sky__request *r, size_t count) {
    size_t left = 0;
    sky_mutex_lock(&c->mutex);
    for (size_t n = 0; n < count; n++) {
        uint32_t i = r->picked[n];
        const sky_item here = {.status = note_here(c, r, &r->items[i].key)};
        sky__item_note(r, i, &here, 0);
        if (here.status == SKY_OK)
            r->picked[left++] = i;
        else
            r->progress[i].phase = SKY__REFUSED;
    }
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
    for (size_t i = 0; i < r->item_count; i++)
        if (r->progress[i].phase == SKY__REFUSED)
            sky__item_finish_noted(c, r, i);
    return left;
}

static void announce_begin(sky_cache *c, sky__request *r, size_t count) {
    sky__sub_group group = {0};
    uint32_t parts = 0;
    size_t left = note_all_here(c, r, count);
    for (size_t t = 0; t < c->slot_count && left > 0; t++)
        if (can_announce(c, t) && sky__request_tiers(c, r) >> t & 1) {
            sky__sub_group_add(&group, r, t, r->op, r->picked, left, NULL);
            parts++;
        }
    for (size_t n = 0; n < left; n++)
        r->progress[r->picked[n]].parts = parts;
    if (!sky__sub_group_send(c, r, &group))
        sky__request_finish_no_memory(c, r, r->picked, left);
    for (size_t n = 0; n < left && parts == 0; n++)
        sky__item_finish_noted(c, r, r->picked[n]);
}

static void announce_answered(sky_cache *c, sky__request *r, sky__part *part) {
    for (size_t n = 0; n < part->sub.item_count; n++) {
        uint32_t i = part->origin[n];
        sky__item_note(r, i, &part->items[n], part->sub.tier);
        if (--r->progress[i].parts == 0)
            sky__item_finish_noted(c, r, i);
    }
}

static void never_resumed(sky_cache *c, sky__request *r, size_t i) {
    sky__item_finish(c, r, i, SKY_E_CANCELLED, 0, SKY_TIER_NONE);
}

const sky__way sky__way_announce = {announce_begin, never_resumed, announce_answered};

/* ---- await ---- */

static void note_found(sky_cache *c, const sky__request *r, size_t i, const sky_item *answer,
                       uint8_t tier) {
    sky_mutex_lock(&c->mutex);
    sky__arrivals_found(&c->arrivals, r, i, answer->status, answer->bytes, tier, sky__cache_now(c));
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
}

/* Those that wait here get SKY__WAITS. SKY_MISS in their status: they need not. */
static void wait_here(sky_cache *c, sky__request *r, size_t count) {
    bool expects = r->op == SKY_OP_EXPECT;
    sky_mutex_lock(&c->mutex);
    sky_time now = sky__cache_now(c);
    for (size_t n = 0; n < count; n++) {
        uint32_t i = r->picked[n];
        sky_status status = sky__arrivals_wait(&c->arrivals, r, i, expects, now);
        r->items[i].status = status;
        if (status == SKY_OK)
            r->progress[i].phase = SKY__WAITS;
    }
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c); /* to look at their deadlines */
}

/* The op that a tier is asked with: it waits itself, if it can and may. */
static sky_op op_for(const sky_cache *c, const sky__request *r, size_t tier, bool may_wait) {
    return may_wait && can_announce(c, tier) ? r->op : SKY_OP_HAS;
}

/* Ask the next tier that takes part, or end the items. */
static void ask_tier(sky_cache *c, sky__request *r, size_t tier, uint32_t *origin, size_t count) {
    while (tier < c->slot_count && !(sky__request_tiers(c, r) >> tier & 1))
        tier++;
    if (tier == c->slot_count) {
        for (size_t n = 0; n < count; n++)
            sky__item_finish_noted(c, r, origin[n]);
        return;
    }
    sky__sub_group group = {0};
    sky__sub_group_add(&group, r, tier, op_for(c, r, tier, true), origin, count, NULL);
    if (!sky__sub_group_send(c, r, &group))
        sky__request_finish_no_memory(c, r, origin, count);
}

/* Ask all tiers from `first` on at once about items that wait here. What is announced here is put
 * through here, so that tiers need not wait too. Those that do are asked for each item by itself,
 * to be called back when it comes another way. */
static void ask_while_waiting(sky_cache *c, sky__request *r, size_t first, const uint32_t *items,
                              size_t count) {
    sky__sub_group group = {0};
    uint32_t parts = 0;
    for (size_t t = first; t < c->slot_count; t++) {
        if (!(sky__request_tiers(c, r) >> t & 1))
            continue;
        sky_op op = op_for(c, r, t, r->op == SKY_OP_EXPECT);
        size_t step = op == SKY_OP_HAS ? count : 1;
        for (size_t n = 0; n < count; n += step)
            sky__sub_group_add(&group, r, t, op, items + n, step, NULL);
        parts++;
    }
    for (size_t n = 0; n < count; n++)
        r->progress[items[n]].parts = parts;
    const sky_item failed = {.status = SKY_E_NOMEM};
    if (!sky__sub_group_send(c, r, &group))
        for (size_t n = 0; n < count; n++)
            note_found(c, r, items[n], &failed, SKY_TIER_NONE);
}

/* A tier has answered. True when the item goes on to the next one. */
static bool take_answer(sky_cache *c, sky__request *r, size_t i, const sky_item *answer,
                        uint8_t tier) {
    sky__item_note(r, i, answer, tier);
    bool final = sky__request_is_final(c, r, answer->status);
    if (final)
        sky__item_finish(c, r, i, answer->status, answer->bytes, tier);
    return !final;
}

/* A tier has answered about an item that waits here. When all that expect it have said that nobody
 * is to put it, the wait is over, unless it is announced here. */
static void take_answer_waiting(sky_cache *c, sky__request *r, size_t i, const sky_item *answer,
                                const sky__part *part) {
    sky__progress *p = &r->progress[i];
    sky__item_note(r, i, answer, part->sub.tier);
    p->taken |= (uint8_t)((part->sub.op == SKY_OP_EXPECT) << part->sub.tier);
    bool last = --p->parts == 0;
    if (answer->status == SKY_OK)
        note_found(c, r, i, answer, part->sub.tier);
    else if (last && p->taken)
        note_found(c, r, i, &(sky_item){.status = p->verdict}, SKY_TIER_NONE);
}

/* True when memory does not have it. */
static bool ask_near(sky_cache *c, sky__request *r, size_t i) {
    sky_item item = {.key = r->items[i].key};
    sky__near_answer(c, SKY_OP_HAS, &item, 1, &r->call);
    if (r->progress[i].phase != SKY__WAITS)
        return take_answer(c, r, i, &item, 0);
    if (item.status == SKY_OK)
        note_found(c, r, i, &item, 0);
    return item.status != SKY_OK;
}

/* The number of items that memory does not have, in r->picked. */
static size_t look_near(sky_cache *c, sky__request *r, size_t count) {
    size_t left = 0;
    for (size_t n = 0; n < count; n++)
        if (ask_near(c, r, r->picked[n]))
            r->picked[left++] = r->picked[n];
    return left;
}

/* Sorts r->picked: those that wait first; ends those that cannot. How many wait; *left: all. */
static size_t sort_waiting(sky_cache *c, sky__request *r, size_t count, size_t *left) {
    size_t waiting = 0;
    *left = 0;
    for (size_t n = 0; n < count; n++) {
        uint32_t i = r->picked[n];
        sky_status here = r->items[i].status;
        if (here != SKY_OK && here != SKY_MISS) {
            sky__item_finish(c, r, i, here, 0, SKY_TIER_NONE);
            continue;
        }
        r->picked[(*left)++] = i;
        if (here == SKY_OK) {
            r->picked[*left - 1] = r->picked[waiting];
            r->picked[waiting++] = i;
        }
    }
    return waiting;
}

/* Memory is asked first, as it needs no wake-up; and again after the wait began or was refused, as
 * a put may have ended in between. */
static void await_begin(sky_cache *c, sky__request *r, size_t count) {
    bool near = sky__request_asks_near(c, r);
    size_t first = near ? 1 : 0, left;
    if (near && (count = look_near(c, r, count)) == 0)
        return;
    wait_here(c, r, count);
    size_t waiting = sort_waiting(c, r, count, &left);
    if (near) {
        uint32_t *all = r->picked;
        size_t still = look_near(c, r, waiting);
        size_t others = 0;
        for (size_t n = waiting; n < left; n++)
            if (ask_near(c, r, all[n]))
                all[still + others++] = all[n];
        waiting = still;
        left = still + others;
    }
    if (waiting > 0)
        ask_while_waiting(c, r, first, r->picked, waiting);
    if (left > waiting)
        ask_tier(c, r, first, r->picked + waiting, left - waiting);
}

static void await_answered(sky_cache *c, sky__request *r, sky__part *part) {
    size_t left = 0;
    for (size_t n = 0; n < part->sub.item_count; n++) {
        uint32_t i = part->origin[n];
        if (r->progress[i].phase == SKY__WAITS)
            take_answer_waiting(c, r, i, &part->items[n], part);
        else if (take_answer(c, r, i, &part->items[n], part->sub.tier))
            part->origin[left++] = i;
    }
    if (left > 0)
        ask_tier(c, r, part->sub.tier + 1u, part->origin, left);
}

const sky__way sky__way_await = {await_begin, never_resumed, await_answered};
