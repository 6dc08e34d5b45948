/* Put: a block is done when one tier has it, and is written back to the others; a value under a
 * name and a durable one are written through.
 *
 *   block                                        name, or durable
 *   nearest tier that answers at once            the same
 *     │ took it          │ none, or refused        │
 *     ▼                  ▼                         ▼
 *   write-back to      FIRST: the next tier,     ASKED: all others at once
 *   the others;          until one takes it        │ all have answered
 *   no room: ASKED       └─► write-back to the     ▼
 *     │                      tiers after it      REVOKE: tiers that did not take it drop what they
 *     ▼                                          have of the name; if too few took it, those that
 *   done                                         did drop it again; pins go over to those that
 *                                                have it
 *
 * So no tier keeps a value that is older than one that was acknowledged: a put under a name is
 * acknowledged when each tier that takes part has the new value, or none. Blocks never change, so
 * that a copy of one is never old. */
#include "cache/request_state.h"
#include "cache/write_back.h"

static bool is_named(const sky__request *r, size_t i) {
    return r->items[i].name != NULL;
}

static bool is_written_through(const sky__request *r, size_t i) {
    return r->call.durable || is_named(r, i);
}

static void put_note(sky__progress *p, uint8_t tier, const sky_item *answer) {
    p->parts--;
    p->version = answer->version ? answer->version : p->version;
    if (answer->status == SKY_OK) {
        p->tier = p->tier < tier ? p->tier : tier;
        p->bytes = answer->bytes;
        p->taken |= (uint8_t)(1u << tier);
    } else {
        if (p->verdict != SKY_E_CANCELLED) /* the caller's word is the last */
            p->verdict = answer->status;
        p->refused |= (uint8_t)(1u << tier);
    }
}

/* ---- the end ---- */

/* Did enough tiers take it? Of what is written through one that outlives the process, where there
 * are such. */
static bool is_taken(const sky_cache *c, const sky__request *r, size_t i) {
    uint8_t lasting = sky__request_lasting_tiers(c, r), taken = r->progress[i].taken;
    return is_written_through(r, i) && lasting ? (taken & lasting) != 0 : taken != 0;
}

/* What other tiers took and these did not is counted, but for memory, which may be small. */
static void count_refusals(sky_cache *c, const sky__progress *p) {
    sky_mutex_lock(&c->mutex);
    const uint8_t count = (uint8_t)c->slot_count;
    for (uint8_t t = sky__near_answers(c) ? 1 : 0; t < count; t++)
        if (p->refused >> t & 1)
            sky__write_dropped(c, t, p->verdict);
    sky_mutex_unlock(&c->mutex);
}

static void put_finish(sky_cache *c, sky__request *r, size_t i) {
    const sky__progress *p = &r->progress[i];
    bool late = p->verdict == SKY_E_DEADLINE && sky__request_is_final(c, r, p->verdict);
    bool ok = is_taken(c, r, i) && !p->stale && !late && p->verdict != SKY_E_CANCELLED;
    if (ok && p->refused)
        count_refusals(c, p);
    sky__item_finish(c, r, i, ok ? SKY_OK : p->verdict, p->bytes, p->tier);
    if (ok)
        sky__arrivals_note_put(c, &r->items[i].key, p->bytes, p->tier);
}

/* Ask each of these tiers for something about the item's key. */
static void ask_key(sky_cache *c, sky__request *r, size_t i, sky_op op, uint8_t tiers) {
    sky__progress *p = &r->progress[i];
    p->phase = SKY__REVOKE;
    p->parts = (uint32_t)__builtin_popcount(tiers);
    if (sky__request_send_item(c, r, tiers, op, i, NULL))
        return;
    p->stale = true;
    p->verdict = SKY_E_NOMEM;
    put_finish(c, r, i);
}

/* Tiers must not keep what is older than what others took, nor what is newer than what is
 * acknowledged. */
static void put_revoke(sky_cache *c, sky__request *r, size_t i) {
    uint8_t tiers = r->progress[i].wrong;
    sky__order_revoke(&c->order, &r->items[i].key);
    if (tiers & 1 && sky__near_answers(c)) {
        sky_item one = {.key = r->items[i].key};
        sky__near_answer(c, SKY_OP_REMOVE, &one, 1, NULL);
        tiers &= (uint8_t)~1u;
    }
    if (tiers)
        ask_key(c, r, i, SKY_OP_REMOVE, tiers);
    else
        put_finish(c, r, i);
}

/* All that were asked have answered. */
static void put_settle(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    bool taken = is_taken(c, r, i);
    if (is_named(r, i))
        p->wrong = taken ? p->refused : p->taken;
    uint8_t lasting = p->wrong & sky__request_lasting_tiers(c, r);
    if (p->wrong == 0)
        put_finish(c, r, i);
    else if (taken && lasting) /* a pin there must not go with the value */
        ask_key(c, r, i, SKY_OP_HAS, lasting);
    else
        put_revoke(c, r, i);
}

/* A tier whose value is wrong, or one that takes over its pin, has answered. */
static void note_revoked(sky_cache *c, sky__request *r, size_t i, sky_op op,
                         const sky_item *answer) {
    sky__progress *p = &r->progress[i];
    sky_status status = answer->status;
    p->pinned |= op == SKY_OP_HAS && status == SKY_OK && answer->pinned;
    if (status != SKY_OK && (status != SKY_MISS || op == SKY_OP_PIN)) {
        p->stale = true;
        p->verdict = status;
    }
    if (--p->parts > 0)
        return;
    if (op == SKY_OP_REMOVE || p->stale)
        put_finish(c, r, i);
    else if (op == SKY_OP_HAS && p->pinned)
        ask_key(c, r, i, SKY_OP_PIN, p->taken & sky__request_lasting_tiers(c, r));
    else
        put_revoke(c, r, i);
}

/* ---- to the farther tiers ---- */

/* Queue a block for the tiers in `tiers`, behind the answer. Those left over have no room, and are
 * to be written through; what a tier that is skipped does not get is counted. */
static uint8_t write_back(sky_cache *c, sky__request *r, size_t i, uint8_t tiers) {
    sky__progress *p = &r->progress[i];
    sky__payload *payload = NULL;
    uint8_t left = 0;
    sky_status status = SKY_E_UNSUPPORTED;
    if (tiers == 0)
        return 0;
    if (p->taken & 1 && sky__near_leases(c))
        status = sky__payload_lease(c, &r->items[i], &r->call, &payload);
    else
        status = sky__payload_copy(c, &r->items[i], &r->call, &payload);
    const uint8_t count = (uint8_t)c->slot_count;
    for (uint8_t t = 0; t < count; t++) {
        if (!(tiers >> t & 1))
            continue;
        sky_status queued = payload ? sky__write_back(c, payload, t, &p->order) : status;
        if (queued == SKY_OK)
            continue;
        if (queued != SKY_E_IO && !r->call.drop) {
            left |= (uint8_t)(1u << t);
            continue;
        }
        sky_mutex_lock(&c->mutex);
        sky__write_dropped(c, t, queued);
        sky_mutex_unlock(&c->mutex);
    }
    sky__payload_drop(c, payload);
    return left;
}

/* A block goes to tiers that are filled by evictions only if none of the others is left for it. */
static uint8_t pass_over_victims(const sky_cache *c, const sky__progress *p, uint8_t others) {
    uint8_t victims = sky__victim_tiers(c), rest = others & (uint8_t)~victims;
    return p->taken == 0 && rest == 0 ? others : rest;
}

/* The nearest tier has answered, or was not asked. Returns the tiers to be asked now: they are in
 * p->parts. 0: the item is settled. Between enter and leave of its batch. */
static uint8_t put_spread(sky_cache *c, sky__request *r, size_t i) {
    sky__progress *p = &r->progress[i];
    uint8_t tiers = sky__request_tiers(c, r);
    uint8_t others = (uint8_t)(tiers & ~(p->taken | p->refused));
    p->phase = SKY__ASKED;
    if (!is_written_through(r, i))
        others = pass_over_victims(c, p, others);
    if (!is_written_through(r, i) && p->taken == 0) {
        p->phase = SKY__FIRST;
        others &= (uint8_t)-others; /* the nearest of them */
    } else if (!is_written_through(r, i)) {
        others = write_back(c, r, i, others);
    }
    p->parts = (uint32_t)__builtin_popcount(others);
    return others;
}

/* Ask each of these tiers for the item, or end it when there is none. */
static void ask_tiers(sky_cache *c, sky__request *r, size_t i, uint8_t to_ask) {
    const uint32_t item = (uint32_t)i;
    if (to_ask == 0)
        put_settle(c, r, i);
    else if (!sky__request_send_item(c, r, to_ask, SKY_OP_PUT, i, NULL))
        sky__request_finish_no_memory(c, r, &item, 1);
}

/* A tier took the block, or did not: behind the answer to those after it, or on to the next. */
static void first_answered(sky_cache *c, sky__request *r, size_t i) {
    uint8_t to_ask = 0;
    if (sky_batches_enter(c->batches, r->batch, i)) {
        to_ask = put_spread(c, r, i);
        sky_batches_leave(c->batches, r->batch);
    }
    ask_tiers(c, r, i, to_ask);
}

static void put_answered(sky_cache *c, sky__request *r, sky__part *part) {
    for (size_t n = 0; n < part->sub.item_count; n++) {
        uint32_t i = part->origin[n];
        sky__progress *p = &r->progress[i];
        if (p->phase == SKY__REVOKE) {
            note_revoked(c, r, i, part->sub.op, &part->items[n]);
            continue;
        }
        put_note(p, part->sub.tier, &part->items[n]);
        if (p->phase == SKY__FIRST)
            first_answered(c, r, i);
        else if (p->parts == 0)
            put_settle(c, r, i);
    }
}

/* ---- the nearest tier ---- */

/* The nearest tier has answered about item i, if it was asked. Returns the tiers to be asked now,
 * as spread; none when no tier would take the item. */
static uint8_t take_near_answer(sky_cache *c, sky__request *r, size_t i, bool asked) {
    const sky_item *answer = &r->items[i];
    if (asked) {
        r->progress[i].parts = 1;
        put_note(&r->progress[i], 0, answer);
        if (answer->status != SKY_OK && sky__request_is_final(c, r, answer->status))
            return 0;
    }
    return put_spread(c, r, i);
}

static void put_resume(sky_cache *c, sky__request *r, size_t i) {
    uint8_t to_ask = 0;
    if (sky_batches_enter(c->batches, r->batch, i)) {
        bool asks = sky__request_asks_near(c, r);
        if (asks)
            sky__near_answer(c, SKY_OP_PUT, &r->items[i], 1, &r->call);
        to_ask = take_near_answer(c, r, i, asks);
        sky_batches_leave(c->batches, r->batch);
    }
    ask_tiers(c, r, i, to_ask);
}

/* Line the picked items up; the number of those that need not wait, which stay in r->picked. */
static size_t enter_order(sky_cache *c, sky__request *r, size_t count) {
    size_t left = 0;
    sky_mutex_lock(&c->mutex);
    for (size_t n = 0; n < count; n++)
        if (sky__item_enter(c, r, r->picked[n], SKY__ORDER_PUT))
            r->picked[left++] = r->picked[n];
    sky_mutex_unlock(&c->mutex);
    return left;
}

/* Put the picked items into the nearest tier, if it answers on this thread: in one call if they are
 * all, as is usual. False: it was not asked. */
static bool put_near(sky_cache *c, sky__request *r, size_t count) {
    bool all = count == r->item_count, near = sky__request_tiers(c, r) & 1;
    if (near && all && r->waits && c->slots[0].tier->ops->run)
        return sky__near_run(c, SKY_OP_PUT, r->items, count, &r->call);
    if (!sky__request_asks_near(c, r))
        return false;
    if (all)
        sky__near_answer(c, SKY_OP_PUT, r->items, count, &r->call);
    for (size_t n = 0; n < count && !all; n++)
        sky__near_answer(c, SKY_OP_PUT, &r->items[r->picked[n]], 1, &r->call);
    return true;
}

/* Collect the items for a tier, all together. */
static void put_collect(sky__sub_group *group, sky__request *r, size_t tier, size_t count) {
    uint32_t together[SKY__PART_ITEMS_MAX];
    size_t found = 0;
    for (size_t n = 0; n < count; n++) {
        if (r->progress[r->picked[n]].to_ask >> tier & 1)
            together[found++] = r->picked[n];
        if (found == SKY__PART_ITEMS_MAX || n + 1 == count) {
            sky__sub_group_add(group, r, tier, SKY_OP_PUT, together, found, NULL);
            found = 0;
        }
    }
}

/* Ask the tiers of to_ask, each for all of its items together, and end the items that ask none. */
static void ask_all(sky_cache *c, sky__request *r, size_t count) {
    sky__sub_group group = {0};
    for (size_t t = 0; t < c->slot_count; t++)
        put_collect(&group, r, t, count);
    bool sent = sky__sub_group_send(c, r, &group);
    for (size_t n = 0; n < count; n++)
        if (r->progress[r->picked[n]].to_ask == 0)
            put_settle(c, r, r->picked[n]);
        else if (!sent)
            sky__request_finish_no_memory(c, r, &r->picked[n], 1);
}

static void put_begin(sky_cache *c, sky__request *r, size_t count) {
    count = enter_order(c, r, count);
    if (count > 0 && sky_batches_enter(c->batches, r->batch, r->picked[0])) {
        bool asked = put_near(c, r, count);
        for (size_t n = 0; n < count; n++)
            r->progress[r->picked[n]].to_ask = take_near_answer(c, r, r->picked[n], asked);
        sky_batches_leave(c->batches, r->batch);
    }
    ask_all(c, r, count);
}

const sky__way sky__way_put = {put_begin, put_resume, put_answered};
