#include "cache/request.h"

#include <stdlib.h>

#include <skymem/keys.h>

#include "cache/promotion.h"
#include "cache/request_state.h"

static bool takes_no_tier(const sky_cache *c, const sky_call *call) {
    uint32_t all = (1u << c->slot_count) - 1;
    return call->tiers != 0 && (call->tiers & all) == 0;
}

static bool is_sound(sky_op op, const sky_item *item) {
    bool nameless = !item->name && item->name_bytes > 0;
    bool named_child = op == SKY_OP_PUT && item->name && !sky_key_is_zero(&item->parent);
    return (item->spans || item->span_count == 0) && !nameless && !named_child;
}

/* One tier decides whether a version is the one that is asked for. */
static sky_status check_condition(const sky_cache *c, sky_op op, const sky_item *items,
                                  size_t item_count, const sky_call *call) {
    uint32_t all = (1u << c->slot_count) - 1, tiers = call->tiers ? call->tiers & all : all;
    if (op != SKY_OP_PUT && op != SKY_OP_REMOVE)
        return SKY_E_PARAM;
    for (size_t i = 0; i < item_count && op == SKY_OP_PUT; i++)
        if (!items[i].name)
            return SKY_E_PARAM;
    bool one = (tiers & (tiers - 1)) == 0;
    return one && c->slots[__builtin_ctz(tiers)].tier->traits & SKY_TIER_VERSIONS
               ? SKY_OK
               : SKY_E_UNSUPPORTED;
}

static sky_status check_call(const sky_cache *c, sky_op op, const sky_item *items,
                             size_t item_count, const sky_call *call) {
    if (!items || item_count < 1 || item_count > SKY_BATCH_ITEMS_MAX || op < SKY_OP_HAS ||
        op > SKY_OP_EXPECT || takes_no_tier(c, call))
        return SKY_E_PARAM;
    if (call->coding > SKY_CODINGS_MAX || call->wanted > SKY_CODINGS_MAX ||
        call->evict > SKY_EVICT_LAST)
        return SKY_E_PARAM;
    for (size_t i = 0; i < item_count; i++)
        if (!is_sound(op, &items[i]))
            return SKY_E_PARAM;
    if ((op == SKY_OP_AWAIT || op == SKY_OP_EXPECT) && call->deadline_ns == 0)
        return SKY_E_PARAM;
    if (call->event_fd > 0 && !sky_event_valid(call->event_fd))
        return SKY_E_PARAM;
    return call->if_version ? check_condition(c, op, items, item_count, call) : SKY_OK;
}

static const sky__way *way_of(sky_op op, const sky_call *call) {
    if (op == SKY_OP_PUT)
        return &sky__way_put;
    if (op == SKY_OP_ANNOUNCE || op == SKY_OP_WITHDRAW)
        return &sky__way_announce;
    if (op == SKY_OP_AWAIT || op == SKY_OP_EXPECT)
        return &sky__way_await;
    bool all = op == SKY_OP_REMOVE || op == SKY_OP_PIN || op == SKY_OP_UNPIN ||
               (op == SKY_OP_PREFETCH && call->at_ms);
    return all ? &sky__way_all : &sky__way_read;
}

/* The caller may wait for the nearest tier itself. A lease of an owner may be called back by
 * sky_release_owner meanwhile, so it goes the longer way. */
static bool may_run_near(const sky_cache *c, sky_op op, const sky_call *call, bool waits) {
    bool reads = op == SKY_OP_GET || op == SKY_OP_HAS || (op == SKY_OP_LEASE && call->owner == 0);
    return waits && reads && c->slots[0].tier->ops->run;
}

/* Have the nearest tier answer reads straight into the caller's items. False when it is not asked:
 * it does not answer on this thread, or a key may be under change. */
static bool ask_near(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                     const sky_call *call, bool waits) {
    bool reads = op == SKY_OP_GET || op == SKY_OP_HAS;
    bool part = call->tiers == 0 || (call->tiers & 1);
    bool answers = reads && sky__near_answers(c);
    if (!part || (!answers && !may_run_near(c, op, call, waits)))
        return false;
    for (size_t i = 0; i < item_count; i++) {
        if (!sky__order_quiet(&c->order, &items[i].key))
            return false;
        items[i].version = 0;
    }
    if (!answers)
        return sky__near_run(c, op, items, item_count, call);
    sky__near_answer(c, op, items, item_count, call);
    return true;
}

static bool all_ok(const sky_item *items, size_t item_count) {
    size_t i = 0;
    while (i < item_count && items[i].status == SKY_OK)
        i++;
    return i == item_count;
}

static sky_status open_batch(sky_cache *c, sky_item *items, bool kept, sky__request *r) {
    /* A lease must not be lost between being handed out and the deadline: sky__requests_expire. */
    sky_time deadline = r->op == SKY_OP_LEASE ? 0 : r->call.deadline_ns;
    int event = r->call.event_fd;
    if (kept || event > 0)
        return sky_batches_open_kept(c->batches, items, r->item_count, deadline, event, &r->batch);
    return sky_batches_open(c->batches, items, r->item_count, deadline, &r->batch);
}

static void link_request(sky_cache *c, sky__request *r) {
    sky_mutex_lock(&c->mutex);
    r->next = c->requests;
    c->requests = r;
    sky_mutex_unlock(&c->mutex);
}

/* What the nearest tier lent for a request that could not be made. */
static sky_status return_lent(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                              sky_status status) {
    sky_tier *near = c->slots[0].tier;
    for (size_t i = 0; i < item_count && op == SKY_OP_LEASE; i++)
        if (items[i].status == SKY_OK) {
            near->ops->release(near, items[i].lease);
            items[i].lease = (sky_lease){0};
            items[i].view = (sky_span){0};
        }
    return status;
}

/* A request for what the nearest tier did not answer alone. */
static sky_status begin_request(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, bool kept, bool asked, uint64_t revocations,
                                uint64_t trace, sky_batch *out) {
    sky__request *r;
    sky_status status = sky__request_create(op, items, item_count, call, &r);
    if (status == SKY_OK && (status = open_batch(c, items, kept, r)) != SKY_OK)
        free(r);
    if (status != SKY_OK)
        return asked ? return_lent(c, op, items, item_count, status) : status;
    *out = r->batch;
    r->trace = trace;
    r->waits = kept && call->event_fd <= 0;
    if (trace) {
        const sky_trace_event began = sky__request_event(r, &items[0].key);
        sky_trace_begin(&began, sky__cache_now(c));
    }
    r->way = way_of(op, call);
    for (size_t i = 0; i < item_count; i++) {
        r->picked[i] = (uint32_t)i;
        r->items[i].version = 0;
        r->progress[i].revocations = revocations;
        r->progress[i].writes = sky__order_writes(&c->order, &items[i].key);
        if (!asked)
            r->items[i].status = SKY_PENDING;
        if (op == SKY_OP_LEASE) { /* a miss must not show what an earlier call lent */
            items[i].view = (sky_span){0};
            items[i].lease = (sky_lease){0};
        }
    }
    link_request(c, r);
    r->way->begin(c, r, item_count);
    sky__request_drop(c, r);
    return SKY_OK;
}

static inline sky_status submit_checked(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                                        const sky_call *call, bool kept, uint64_t trace,
                                        sky_batch *out) {
    static const sky_call plain;
    call = call ? call : &plain;
    sky_status status = check_call(c, op, items, item_count, call);
    if (status != SKY_OK)
        return status;
    uint64_t revocations = sky__order_revocations(&c->order);
    bool waits = kept && call->event_fd <= 0;
    bool asked = ask_near(c, op, items, item_count, call, waits);
    if (!asked || op == SKY_OP_LEASE || !all_ok(items, item_count))
        return begin_request(c, op, items, item_count, call, kept, asked, revocations, trace, out);
    *out = (sky_batch){0};
    if (op == SKY_OP_GET && !sky__near_answers(c))
        sky_count(&c->counts.hits, item_count);
    kept |= call->event_fd > 0;
    return waits ? SKY_OK
                 : sky_batches_open_done(c->batches, items, item_count, kept, call->event_fd, out);
}

__attribute__((cold)) static sky_status submit_traced(sky_cache *c, sky_op op, sky_item *items,
                                                      size_t item_count, const sky_call *call,
                                                      bool kept, sky_batch *out) {
    const char *name = sky__op_name(op);
    sky_trace_event e = {.category = "submit",
                         .tier = "submit",
                         .name = name ? name : "of no operation",
                         .request = sky_trace_id()};
    sky_key key = items && item_count > 0 ? items[0].key : (sky_key){{0}};
    e.key = &key;
    e.items = item_count;
    sky_time began = sky__cache_now(c);
    sky_status status = submit_checked(c, op, items, item_count, call, kept, e.request, out);
    e.status = sky_status_name(status);
    sky_trace_span(&e, began, sky__cache_now(c));
    sky_trace_flush(SKY_TRACE_FLUSH_NS);
    return status;
}

sky_status sky__request_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                               const sky_call *call, bool kept, sky_batch *out) {
    return sky_trace_on() ? submit_traced(c, op, items, item_count, call, kept, out)
                          : submit_checked(c, op, items, item_count, call, kept, 0, out);
}

/* ---- giving up ---- */

static void give_up(sky_cache *c, sky__request *r) {
    r->given_up = true;
    c->arrivals.check_now = true;
    sky__promotion_give_up(c, r);
    sky__slots_give_up(c, r->batch);
}

void sky__request_give_up(sky_cache *c, sky_batch batch) {
    for (sky__request *r = c->requests; r; r = r->next)
        if (r->batch.id == batch.id)
            give_up(c, r);
}

void sky__requests_give_up(sky_cache *c) {
    for (sky__request *r = c->requests; r; r = r->next)
        give_up(c, r);
}

/* Its items end, whatever the tiers are still at. */
static void end_lease(sky_cache *c, sky__request *r, sky_status status) {
    give_up(c, r);
    for (size_t i = 0; i < r->item_count; i++)
        sky_batches_finish(c->batches, r->batch, i, status, 0, SKY_TIER_NONE);
}

void sky__requests_give_up_owner(sky_cache *c, uint64_t owner) {
    for (sky__request *r = c->requests; r; r = r->next)
        if (r->op == SKY_OP_LEASE && r->call.owner == owner && !r->given_up)
            end_lease(c, r, SKY_E_CANCELLED);
}

sky_time sky__requests_expire(sky_cache *c) {
    sky_time next = SKY_TIME_NEVER, now = sky__cache_now(c);
    for (sky__request *r = c->requests; r; r = r->next) {
        if (r->op != SKY_OP_LEASE || r->call.deadline_ns == 0 || r->given_up)
            continue;
        if (now < r->call.deadline_ns) {
            next = r->call.deadline_ns < next ? r->call.deadline_ns : next;
            continue;
        }
        end_lease(c, r, SKY_E_DEADLINE);
    }
    return next;
}
