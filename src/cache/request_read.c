/* Get and has: from tier to tier until one answers. Lease: from one that leases to the next.
 * Prefetch, and what no tier that leases has: the nearest tier, to which a promotion brings it.
 *
 * An item whose key is being written waits for that; nothing waits for a read. */
#include "cache/promotion.h"
#include "cache/request_state.h"

static void finish_read(sky_cache *c, sky__request *r, size_t i, const sky_item *answer,
                        uint8_t tier) {
    bool answered = answer->status == SKY_OK, far = tier > 0 || !sky__near_answers(c);
    if (answered && far && r->op == SKY_OP_GET)
        sky_count(&c->counts.hits, 1);
    const sky_answer told = {.status = answer->status,
                             .bytes = answered ? answer->bytes : 0,
                             .tier = answered ? tier : SKY_TIER_NONE,
                             .coding = answered ? answer->coding : 0,
                             .ttl_s = answer->ttl_s,
                             .pinned = answer->pinned,
                             .evict = answer->evict,
                             .version = answer->version};
    sky_batches_answer(c->batches, r->batch, i, &told);
}

/* Hand out a lease of a tier, or return it when nobody wants it any more. */
static void finish_lease(sky_cache *c, sky__request *r, size_t i, const sky_item *answer,
                         uint8_t tier) {
    sky_answer told = {.status = SKY_OK,
                       .bytes = answer->bytes,
                       .tier = tier,
                       .coding = answer->coding,
                       .ttl_s = answer->ttl_s,
                       .evict = answer->evict,
                       .view = answer->view};
    bool kept = false;
    sky_mutex_lock(&c->mutex); /* so that giving up comes before or after, not in between */
    if (!r->given_up && sky_leases_full(c->leases)) {
        sky_batches_finish(c->batches, r->batch, i, SKY_E_BUSY, 0, SKY_TIER_NONE);
    } else if (!r->given_up) {
        uint64_t packed = sky__lease_pack(tier, answer->lease);
        told.lease = sky_leases_take(c->leases, packed, r->call.owner);
        kept = sky_batches_answer(c->batches, r->batch, i, &told);
        if (!kept)
            (void)sky_leases_give(c->leases, told.lease, r->call.owner, &packed);
    }
    sky_mutex_unlock(&c->mutex);
    if (!kept)
        c->slots[tier].tier->ops->release(c->slots[tier].tier, answer->lease);
}

static uint8_t leasing_tiers(const sky_cache *c) {
    uint8_t bits = 0;
    for (size_t t = 0; t < c->slot_count; t++)
        bits |= (uint8_t)(sky__tier_leases(c, t) << t);
    return bits;
}

/* Bit i: tier i may be asked for it. */
static uint8_t tiers_to_ask(const sky_cache *c, const sky__request *r) {
    return r->op == SKY_OP_LEASE ? sky__request_tiers(c, r) & leasing_tiers(c)
                                 : sky__request_tiers(c, r);
}

/* The first of these tiers from `tier` on; slot_count when there is none. */
static size_t next_tier(const sky_cache *c, uint8_t tiers, size_t tier) {
    while (tier < c->slot_count && !(tiers >> tier & 1))
        tier++;
    return tier;
}

/* The first tier from which a promotion may bring it; slot_count: none, or it would not help. */
static size_t tier_to_fetch_from(const sky_cache *c, const sky__request *r) {
    uint8_t tiers = sky__request_tiers(c, r);
    if (r->op == SKY_OP_LEASE)
        tiers = sky__near_leases(c) && tiers & 1 ? tiers & (uint8_t)~leasing_tiers(c) : 0;
    return next_tier(c, tiers, 1);
}

static void read_resume(sky_cache *c, sky__request *r, size_t i);

/* No tier has it. But a put may have moved it, while this read was on its way, from a tier not yet
 * asked to one asked before: then everything is asked again. */
static void end_item(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    bool again = false, waits = false;
    if (p->verdict == SKY_MISS &&
        sky__order_revoked_since(&c->order, &r->items[i].key, p->revocations)) {
        sky_mutex_lock(&c->mutex);
        again = !r->given_up;
        p->revocations = sky__order_revocations(&c->order);
        waits = again && sky__order_changing(&c->order, &r->items[i].key) &&
                !sky__item_enter(c, r, i, SKY__ORDER_READ);
        sky_mutex_unlock(&c->mutex);
    }
    if (!again) {
        bool missed = p->verdict == SKY_MISS || p->verdict == SKY_E_CORRUPT;
        sky_count(&c->counts.misses, r->op == SKY_OP_GET && missed);
        sky__item_finish_noted(c, r, i);
    }
    if (again && !waits)
        read_resume(c, r, i);
}

/* The whole payload is in the item's spans, one after the other. */
static bool is_whole(const sky_item *item) {
    uint64_t room = 0;
    if (item->range.offset != 0 || (item->range.bytes != 0 && item->range.bytes != SKY_ALL))
        return false;
    for (uint32_t i = 0; i < item->span_count && room < item->bytes; i++) {
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return false;
        room += item->spans[i].bytes;
    }
    return room == item->bytes;
}

/* Store what the caller's spans hold in the nearest tier. False: that takes another read. So does
 * what was asked for at one level, as memory is to have the best. */
static bool store_near(sky_cache *c, sky__request *r, size_t i, size_t tier, const sky_item *item) {
    if (r->call.wanted != 0 || !sky__near_answers(c) || !sky_batches_enter(c->batches, r->batch, i))
        return false; /* no memory, or the spans are the caller's again */
    bool stored = is_whole(item) && sky__promotion_store(c, item, &r->call, (uint8_t)tier,
                                                         r->progress[i].writes, r->trace);
    sky_batches_leave(c->batches, r->batch);
    return stored;
}

/* Bring what a far tier had nearer. The cache's thread may have something to do for it then. */
static void promote_in_background(sky_cache *c, sky__request *r, size_t tier, size_t i,
                                  const sky_item *item) {
    if (r->op != SKY_OP_GET || tier == 0 || !(sky__request_tiers(c, r) & 1) || r->call.no_touch ||
        item->status != SKY_OK || store_near(c, r, i, tier, item))
        return;
    sky_mutex_lock(&c->mutex);
    (void)sky__promotion_start(c, item, &r->call, (uint8_t)tier, NULL, r->trace);
    sky_mutex_unlock(&c->mutex);
}

/* Have the tier answer item i if that waits for nothing. True when the item is over. */
static bool read_at_once(sky_cache *c, sky__request *r, size_t tier, size_t i) {
    sky_tier *t = c->slots[tier].tier;
    sky_item item = r->items[i];
    if (!sky_batches_enter(c->batches, r->batch, i))
        return true; /* nobody listens any more */
    sky_time began = sky__cache_now(c);
    bool answered = t->ops->attempt(t, &item, &r->call);
    sky_batches_leave(c->batches, r->batch);
    if (answered) {
        const sky__sub sub = {.tier = (uint8_t)tier, .op = r->op, .items = &item, .item_count = 1};
        sky_time took = sky__cache_now(c) - began;
        sky_histogram_add(&c->times[tier].answer[r->op], took);
        sky__sub_log(&sub, took);
        sky__tier_trace(c, tier, r->op, &item, 1, began, began + took);
        promote_in_background(c, r, tier, i, &item);
        sky__cache_wake(c); /* this is the caller's thread */
        finish_read(c, r, i, &item, (uint8_t)tier);
    }
    return answered;
}

/* How many items are left. */
static size_t attempt_all(sky_cache *c, sky__request *r, size_t tier, uint32_t *origin,
                          size_t count) {
    size_t left = 0;
    if (r->op != SKY_OP_GET || !c->slots[tier].tier->ops->attempt)
        return count;
    for (size_t i = 0; i < count; i++)
        if (!read_at_once(c, r, tier, origin[i]))
            origin[left++] = origin[i];
    return left;
}

/* ---- bringing it nearer ---- */

static void read_promoted(sky_cache *c, void *owner, size_t item, sky_status status) {
    sky__request *r = owner;
    sky_item answer = r->items[item];
    answer.status = status;
    answer.bytes = 0;
    if (status == SKY_OK && sky__near_answers(c))
        sky__near_answer(c, r->op, &answer, 1, NULL);
    if (r->op == SKY_OP_LEASE && answer.status == SKY_OK)
        finish_lease(c, r, item, &answer, 0);
    else
        sky__item_finish(c, r, item, answer.status, answer.bytes, 0);
    sky__request_drop(c, r);
}

/* What the nearest tier lacks is fetched from the others, unless the key is being written now: then
 * that comes first. */
static void lease_promote(sky_cache *c, sky__request *r, size_t i, size_t from) {
    const sky__promotion_waiter waiter = {read_promoted, r, i, NULL};
    sky_status status = SKY_OK;
    sky_mutex_lock(&c->mutex);
    bool waits = sky__order_changing(&c->order, &r->items[i].key) &&
                 !sky__item_enter(c, r, i, SKY__ORDER_READ);
    if (!waits) {
        status = sky__promotion_start(c, &r->items[i], &r->call, (uint8_t)from, &waiter, r->trace);
        r->refs += status == SKY_OK;
    }
    sky_mutex_unlock(&c->mutex);
    if (status != SKY_OK)
        sky__item_finish(c, r, i, status, 0, SKY_TIER_NONE);
    sky__cache_wake(c);
}

/* ---- from tier to tier ---- */

/* Send items to the next tier that takes part, or end them. */
static void send_on(sky_cache *c, sky__request *r, size_t tier, uint32_t *origin, size_t count) {
    tier = next_tier(c, tiers_to_ask(c, r), tier);
    if (tier < c->slot_count && (count = attempt_all(c, r, tier, origin, count)) == 0)
        return;
    if (tier < c->slot_count) {
        sky__sub_group group = {0};
        sky__sub_group_add(&group, r, tier, r->op, origin, count, NULL);
        if (!sky__sub_group_send(c, r, &group))
            sky__request_finish_no_memory(c, r, origin, count);
        return;
    }
    size_t from = r->op == SKY_OP_LEASE ? tier_to_fetch_from(c, r) : c->slot_count;
    for (size_t i = 0; i < count; i++)
        if (from < c->slot_count)
            lease_promote(c, r, origin[i], from);
        else
            end_item(c, r, origin[i]);
}

/* The nearest tier has answered about item i. True when the item goes on to the next tier. */
static bool take_near_answer(sky_cache *c, sky__request *r, size_t i, const sky_item *answer) {
    if (r->op == SKY_OP_LEASE && answer->status == SKY_OK) {
        finish_lease(c, r, i, answer, 0);
    } else if (sky__request_is_final(c, r, answer->status)) {
        finish_read(c, r, i, answer, 0);
    } else if (r->op != SKY_OP_PREFETCH) {
        sky__item_note(r, i, answer, 0);
        return true;
    } else if (tier_to_fetch_from(c, r) == c->slot_count) {
        sky__item_finish(c, r, i, answer->status, 0, SKY_TIER_NONE);
    } else {
        lease_promote(c, r, i, tier_to_fetch_from(c, r));
    }
    return false;
}

/* Ask the nearest tier for item i. True when the item goes on to the next one. */
static bool ask_near(sky_cache *c, sky__request *r, size_t i) {
    if (!sky_batches_enter(c->batches, r->batch, i))
        return false; /* nobody listens any more */
    sky__near_answer(c, r->op, &r->items[i], 1, &r->call);
    sky_batches_leave(c->batches, r->batch);
    return take_near_answer(c, r, i, &r->items[i]);
}

static void read_answered(sky_cache *c, sky__request *r, sky__part *part) {
    uint8_t tier = part->sub.tier;
    size_t left = 0;
    for (size_t n = 0; n < part->sub.item_count; n++) {
        uint32_t i = part->origin[n];
        const sky_item *answer = &part->items[n];
        promote_in_background(c, r, tier, i, answer);
        if (r->op == SKY_OP_PREFETCH) {
            (void)take_near_answer(c, r, i, answer);
        } else if (r->op == SKY_OP_LEASE && answer->status == SKY_OK) {
            finish_lease(c, r, i, answer, tier);
        } else if (sky__request_is_final(c, r, answer->status)) {
            finish_read(c, r, i, answer, tier);
        } else {
            sky__item_note(r, i, answer, tier);
            part->origin[left++] = i;
        }
    }
    if (left > 0)
        send_on(c, r, tier + 1u, part->origin, left);
}

static void read_resume(sky_cache *c, sky__request *r, size_t i) {
    uint32_t origin = (uint32_t)i;
    sky__item_leave(c, r, i); /* nothing waits for a read */
    if (!sky__request_asks_near(c, r))
        send_on(c, r, 0, &origin, 1);
    else if (ask_near(c, r, i))
        send_on(c, r, 1, &origin, 1);
}

/* Items whose keys are being written wait; the number of the others, which stay in r->picked. */
static size_t hold_back(sky_cache *c, sky__request *r, size_t count) {
    size_t left = 0, quiet = 0;
    while (quiet < count && sky__order_quiet(&c->order, &r->items[r->picked[quiet]].key))
        quiet++;
    if (quiet == count)
        return count;
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = r->picked[i];
        if (sky__request_is_final(c, r, r->items[at].status) ||
            !sky__order_changing(&c->order, &r->items[at].key) ||
            sky__item_enter(c, r, at, SKY__ORDER_READ))
            r->picked[left++] = at;
    }
    sky_mutex_unlock(&c->mutex);
    return left;
}

static bool is_possible(const sky_cache *c, const sky__request *r) {
    uint8_t tiers = tiers_to_ask(c, r);
    return r->op == SKY_OP_PREFETCH ? tiers & 1 : tiers != 0;
}

/* An item that is not SKY_PENDING was answered by the nearest tier before the request was made. */
static void read_begin(sky_cache *c, sky__request *r, size_t count) {
    bool near = sky__request_asks_near(c, r);
    if (!is_possible(c, r)) {
        for (size_t i = 0; i < count; i++)
            sky__item_finish(c, r, r->picked[i], SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
        return;
    }
    size_t left = 0;
    bool asked = r->items[0].status != SKY_PENDING; /* all of them, or none */
    count = hold_back(c, r, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = r->picked[i];
        if (asked ? take_near_answer(c, r, at, &r->items[at]) : !near || ask_near(c, r, at))
            r->picked[left++] = at;
    }
    if (left > 0)
        send_on(c, r, asked || near ? 1 : 0, r->picked, left);
}

const sky__way sky__way_read = {read_begin, read_resume, read_answered};
