/* Remove, pin, unpin, and prefetch to where a sky will be: every tier that takes part is asked, and
 * their answers become one.
 *
 * A pin that only tiers hold whose content ends with the process is no pin: what they have is
 * stored in the others first, and pinned there. */
#include "cache/promotion.h"
#include "cache/request_state.h"

static sky__order_kind kind_of(sky_op op) {
    return op == SKY_OP_REMOVE ? SKY__ORDER_REMOVE : SKY__ORDER_PIN;
}

static void all_note(sky__request *r, size_t i, const sky_item *answer, uint8_t tier) {
    sky__progress *p = &r->progress[i];
    p->parts--;
    sky__item_note(r, i, answer, tier);
    if (answer->status == SKY_OK)
        p->taken |= (uint8_t)(1u << tier);
    else if (answer->status == SKY_MISS)
        p->refused |= (uint8_t)(1u << tier);
    else if (answer->status != SKY_E_UNSUPPORTED)
        p->failure = answer->status;
}

/* ---- a pin that must outlive the process ---- */

static void pin_fail(sky_cache *c, sky__request *r, size_t i, sky_status status) {
    r->progress[i].verdict = status;
    sky__item_finish_noted(c, r, i);
}

/* It is pinned, but in no tier that outlives the process, though such take part. */
static bool is_passing(const sky_cache *c, const sky__request *r, const sky__progress *p) {
    uint8_t lasting = sky__request_lasting_tiers(c, r);
    return r->op == SKY_OP_PIN && lasting && p->taken && !(p->taken & lasting);
}

/* Store what the nearest tier holds in the nearest tier that outlives the process. */
static void pin_store(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    uint8_t tiers = (uint8_t)(sky__request_lasting_tiers(c, r) & p->refused);
    p->held = (sky_item){.key = r->items[i].key};
    sky__near_answer(c, SKY_OP_LEASE, &p->held, 1, NULL);
    if (tiers == 0 || p->held.status != SKY_OK) {
        pin_fail(c, r, i, p->held.status);
        return;
    }
    p->phase = SKY__STORE;
    sky_item item = p->held;
    item.spans = &p->held.view;
    item.span_count = 1;
    tiers &= (uint8_t)-tiers; /* the nearest of them */
    if (sky__request_send_item(c, r, tiers, SKY_OP_PUT, i, &item))
        return;
    c->slots[0].tier->ops->release(c->slots[0].tier, p->held.lease);
    pin_fail(c, r, i, SKY_E_NOMEM);
}

static void pin_promoted(sky_cache *c, void *owner, size_t item, sky_status status) {
    sky__request *r = owner;
    if (status == SKY_OK)
        pin_store(c, r, item);
    else
        pin_fail(c, r, item, status);
    sky__request_drop(c, r);
}

/* Only a farther tier has it: bring it to the nearest one, which leases. */
static void pin_promote(sky_cache *c, sky__request *r, size_t i) {
    const sky__promotion_waiter waiter = {pin_promoted, r, i, &r->progress[i].order};
    sky_mutex_lock(&c->mutex);
    sky_status status = sky__promotion_start(c, &r->items[i], &r->call, 1, &waiter, r->trace);
    r->refs += status == SKY_OK;
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
    if (status != SKY_OK)
        pin_fail(c, r, i, status);
}

/* It is stored, or not: pin it there, or tell why not. */
static void pin_stored(sky_cache *c, sky__request *r, size_t i, const sky__part *part,
                       const sky_item *answer) {
    sky__progress *p = &r->progress[i];
    c->slots[0].tier->ops->release(c->slots[0].tier, p->held.lease);
    uint8_t tier = (uint8_t)(1u << part->sub.tier);
    sky_status status = answer->status;
    p->parts = 1;
    if (status == SKY_OK && !sky__request_send_item(c, r, tier, SKY_OP_PIN, i, NULL))
        status = SKY_E_NOMEM;
    if (status != SKY_OK)
        pin_fail(c, r, i, status);
}

/* ---- all ---- */

static void all_settle(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    bool near = sky__request_asks_near(c, r) && sky__near_leases(c);
    if (!is_passing(c, r, p))
        sky__item_finish_noted(c, r, i);
    else if (p->failure != SKY_OK || p->phase == SKY__STORE || !near)
        pin_fail(c, r, i, p->failure != SKY_OK ? p->failure : SKY_E_UNSUPPORTED);
    else if (p->taken & 1)
        pin_store(c, r, i);
    else
        pin_promote(c, r, i);
}

static void all_answered(sky_cache *c, sky__request *r, sky__part *part) {
    for (size_t n = 0; n < part->sub.item_count; n++) {
        uint32_t i = part->origin[n];
        if (part->sub.op != r->op) {
            pin_stored(c, r, i, part, &part->items[n]);
            continue;
        }
        all_note(r, i, &part->items[n], part->sub.tier);
        if (r->progress[i].parts == 0)
            all_settle(c, r, i);
    }
}

/* Ask the nearest tier for item i, if it answers at once. The number of others to be asked. */
static uint32_t ask_near(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    p->parts = (uint32_t)__builtin_popcount(sky__request_tiers(c, r));
    if (sky__request_asks_near(c, r)) {
        sky__near_answer(c, r->op, &r->items[i], 1, &r->call);
        all_note(r, i, &r->items[i], 0);
    }
    return p->parts;
}

/* Ask the picked items' other tiers, each for all of them together. */
static void ask_others(sky_cache *c, sky__request *r, const uint32_t *items, size_t count) {
    uint8_t tiers = sky__request_tiers(c, r);
    sky__sub_group group = {0};
    for (size_t t = sky__near_answers(c) ? 1 : 0; t < c->slot_count; t++)
        if (tiers >> t & 1)
            sky__sub_group_add(&group, r, t, r->op, items, count, NULL);
    if (!sky__sub_group_send(c, r, &group))
        sky__request_finish_no_memory(c, r, items, count);
}

static void all_resume(sky_cache *c, sky__request *r, size_t i) {
    const uint32_t item = (uint32_t)i;
    if (!sky_batches_enter(c->batches, r->batch, i)) { /* cancelled while it waited: not done */
        sky__item_finish(c, r, i, SKY_E_CANCELLED, 0, SKY_TIER_NONE);
        return;
    }
    uint32_t others = ask_near(c, r, i);
    sky_batches_leave(c->batches, r->batch);
    if (others > 0)
        ask_others(c, r, &item, 1);
    else
        all_settle(c, r, i);
}

static void all_begin(sky_cache *c, sky__request *r, size_t count) {
    size_t free_count = 0, left = 0;
    sky_mutex_lock(&c->mutex);
    for (size_t n = 0; n < count; n++)
        if (r->op == SKY_OP_PREFETCH || sky__item_enter(c, r, r->picked[n], kind_of(r->op)))
            r->picked[free_count++] = r->picked[n];
    sky_mutex_unlock(&c->mutex);
    for (size_t n = 0; n < free_count; n++) {
        uint32_t i = r->picked[n];
        if (ask_near(c, r, i) > 0)
            r->picked[left++] = i;
        else
            all_settle(c, r, i);
    }
    ask_others(c, r, r->picked, left);
}

const sky__way sky__way_all = {all_begin, all_resume, all_answered};
