/* Announce and withdraw: this cache notes it, and so does every farther tier that can (shm, peer).
 * Await: memory is asked; what it lacks and is announced here is waited for here
 * (cache/arrivals.h). Else tiers are asked as by a has, nearest first; one that can announce waits
 * itself.
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
    sky_mutex_unlock(&c->mutex);
    for (sky__waiter *w = over, *next; w; w = next) {
        next = w->next;
        sky_count(w->status == SKY_OK ? &c->counts.awaits_came : &c->counts.awaits_lost, 1);
        sky__item_finish(c, w->request, w->item, w->status, 0, 0);
        sky__request_drop(c, w->request);
        free(w);
    }
    sky_mutex_lock(&c->mutex);
    return true;
}

void sky__arrivals_note_put(sky_cache *c, const sky_key *key) {
    if (atomic_load(&c->arrivals.count) == 0)
        return;
    sky_mutex_lock(&c->mutex);
    sky__arrivals_stored(&c->arrivals, key);
    sky_mutex_unlock(&c->mutex);
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

/* Which wait here: SKY_OK in their status; SKY_MISS: tiers are to be asked. */
static void wait_here(sky_cache *c, sky__request *r, size_t count) {
    sky_mutex_lock(&c->mutex);
    sky_time now = sky__cache_now(c);
    for (size_t n = 0; n < count; n++)
        r->items[r->picked[n]].status = sky__arrivals_wait(&c->arrivals, r, r->picked[n], now);
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c); /* to look at their deadlines */
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
    sky__sub_group_add(&group, r, tier, can_announce(c, tier) ? SKY_OP_AWAIT : SKY_OP_HAS, origin,
                       count, NULL);
    if (!sky__sub_group_send(c, r, &group))
        sky__request_finish_no_memory(c, r, origin, count);
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

/* True when memory does not have it. */
static bool ask_near(sky_cache *c, sky__request *r, size_t i) {
    sky_item item = {.key = r->items[i].key};
    sky__near_answer(c, SKY_OP_HAS, &item, 1, &r->call);
    return take_answer(c, r, i, &item, 0);
}

/* Nobody waits for a key that memory has, although it is announced: who announced it may find it
 * there too, and never put it. The number of items left, in r->picked. */
static size_t look_near(sky_cache *c, sky__request *r, size_t count) {
    size_t left = 0;
    for (size_t n = 0; n < count; n++)
        if (ask_near(c, r, r->picked[n]))
            r->picked[left++] = r->picked[n];
    return left;
}

/* Memory is asked again after the wait was refused, as a put may have ended in between. */
static void await_begin(sky_cache *c, sky__request *r, size_t count) {
    bool near = sky__request_asks_near(c, r);
    size_t left = 0;
    if (near && atomic_load(&c->arrivals.count) > 0)
        count = look_near(c, r, count);
    if (count == 0)
        return;
    wait_here(c, r, count);
    for (size_t n = 0; n < count; n++) {
        uint32_t i = r->picked[n];
        sky_status here = r->items[i].status;
        if (here == SKY_MISS && (!near || ask_near(c, r, i)))
            r->picked[left++] = i;
        else if (here != SKY_OK && here != SKY_MISS)
            sky__item_finish(c, r, i, here, 0, SKY_TIER_NONE);
    }
    if (left > 0)
        ask_tier(c, r, near ? 1 : 0, r->picked, left);
}

static void await_answered(sky_cache *c, sky__request *r, sky__part *part) {
    size_t left = 0;
    for (size_t n = 0; n < part->sub.item_count; n++) {
        uint32_t i = part->origin[n];
        if (take_answer(c, r, i, &part->items[n], part->sub.tier))
            part->origin[left++] = i;
    }
    if (left > 0)
        ask_tier(c, r, part->sub.tier + 1u, part->origin, left);
}

const sky__way sky__way_await = {await_begin, never_resumed, await_answered};
