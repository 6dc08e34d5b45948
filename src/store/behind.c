/* Writing behind: parcels, and their way to farther tiers.
 *
 *   put into tier 0 ──► lease ─┐
 *   put elsewhere ────► copy ──┼─► parcel (refs) ──► behind at tier 1, behind at tier 2 …
 *   victim of a tier ─► copy ──┘                     HAS first for a victim, then PUT
 *
 * Surprises:
 *  - A parcel on a lease costs no memory of its own but keeps the payload from being evicted, so
 *    the queue holds at most half of the memory tier.
 *  - A victim is copied inside its tier's eviction. So that this is not done for what the next tier
 *    holds anyway (the usual case: it was written behind), each tier has a small table of keys it
 *    was seen to hold. A wrong hint loses a victim, which was about to be lost. */
#include "store/hierarchy.h"

#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "store/spans.h"

struct sky_parcel {
    uint32_t refs;
    bool copied;
    sky_key key;
    sky_key parent;
    sky_call call;
    sky_lease lease;
    sky_span payload;
    const char *name;
    size_t name_bytes;
    uint8_t tail[]; /* the name, and the payload if it is copied */
};

typedef struct {
    sky_errand errand;
    sky_parcel *parcel;
    sky_item item;
} behind;

/* ---- private memory ---- */

bool sky_private_take(sky_cache *c, uint64_t bytes) {
    if (c->private_bytes > 0 && c->private_bytes + bytes > SKY_PRIVATE_BYTES_MAX)
        return false;
    c->private_bytes += bytes;
    return true;
}

void sky_private_give(sky_cache *c, uint64_t bytes) {
    c->private_bytes -= bytes;
    sky_wake(c); /* a fetch may wait for room */
}

/* ---- parcels ---- */

static void copy_spans(uint8_t *to, const sky_span *spans, uint32_t span_count) {
    for (uint32_t i = 0; i < span_count; i++) {
        if (spans[i].bytes > 0)
            memcpy(to, spans[i].data, spans[i].bytes);
        to += spans[i].bytes;
    }
}

static bool can_be_copied(const sky_item *item, uint64_t bytes) {
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return false;
    return bytes <= SKY_PAYLOAD_BYTES_MAX;
}

static sky_status take_room(sky_cache *c, const sky_item *item, uint64_t bytes) {
    if (!can_be_copied(item, bytes))
        return SKY_E_PARAM;
    sky_mutex_lock(&c->mutex);
    bool room = sky_private_take(c, bytes);
    sky_mutex_unlock(&c->mutex);
    return room ? SKY_OK : SKY_E_FULL;
}

static void give_room(sky_cache *c, uint64_t bytes) {
    sky_mutex_lock(&c->mutex);
    sky_private_give(c, bytes);
    sky_mutex_unlock(&c->mutex);
}

sky_status sky_parcel_create(sky_cache *c, const sky_item *item, const sky_call *call,
                             sky_span payload, sky_lease lease, sky_parcel **out) {
    bool copied = lease.id == 0;
    size_t name_bytes = item->name ? item->name_bytes : 0;
    if (name_bytes > SKY_NAME_BYTES_MAX)
        return SKY_E_PARAM;
    uint64_t bytes = copied ? sky_spans_bytes(item->spans, item->span_count) : payload.bytes;
    sky_status status = copied ? take_room(c, item, bytes) : SKY_OK;
    if (status != SKY_OK)
        return status;
    sky_parcel *p = malloc(sizeof *p + name_bytes + (copied ? bytes : 0));
    if (!p) {
        if (copied)
            give_room(c, bytes);
        return SKY_E_NOMEM;
    }
    *p = (sky_parcel){.refs = 1,
                      .copied = copied,
                      .key = item->key,
                      .parent = item->parent,
                      .call = {.ttl_s = call->ttl_s, .coding = call->coding},
                      .lease = lease,
                      .payload = copied ? (sky_span){p->tail + name_bytes, bytes} : payload,
                      .name = name_bytes ? (const char *)p->tail : NULL,
                      .name_bytes = name_bytes};
    if (name_bytes)
        memcpy(p->tail, item->name, name_bytes);
    if (copied)
        copy_spans(p->tail + name_bytes, item->spans, item->span_count);
    *out = p;
    return SKY_OK;
}

sky_status sky_parcel_borrow(sky_cache *c, const sky_item *item, const sky_call *call,
                             sky_parcel **out) {
    sky_tier *near = c->tiers[0].tier;
    sky_item lent = *item;
    sky_rung_ask(&c->tiers[0], SKY_OP_LEASE, &lent, 1, NULL);
    if (lent.status != SKY_OK)
        return SKY_MISS; /* evicted at once */
    sky_status status = sky_parcel_create(c, &lent, call, lent.view, lent.lease, out);
    if (status != SKY_OK)
        near->ops->release(near, lent.lease);
    return status;
}

void sky_parcel_drop(sky_cache *c, sky_parcel *p) {
    if (!p)
        return;
    sky_mutex_lock(&c->mutex);
    bool last = --p->refs == 0;
    if (last && p->copied)
        sky_private_give(c, p->payload.bytes);
    sky_mutex_unlock(&c->mutex);
    if (last && !p->copied)
        c->tiers[0].tier->ops->release(c->tiers[0].tier, p->lease);
    if (last)
        free(p);
}

/* ---- hints ---- */

static uint64_t *known_slot(const sky_rung *r, const sky_key *key) {
    return &r->known[sky_load_u32(key->bytes + 8) % SKY_KNOWN_SLOTS];
}

void sky_known_set(sky_rung *r, const sky_key *key, bool present) {
    uint64_t print = sky_load_u64(key->bytes);
    if (!r->known)
        return;
    if (present)
        *known_slot(r, key) = print;
    else if (*known_slot(r, key) == print)
        *known_slot(r, key) = 0;
}

static bool is_known(const sky_rung *r, const sky_key *key) {
    return r->known && *known_slot(r, key) == sky_load_u64(key->bytes);
}

/* ---- the queue ---- */

static void uncount(sky_cache *c, const behind *b) {
    sky_rung *r = &c->tiers[b->errand.tier];
    r->behind_count--;
    r->behind_bytes -= b->parcel->payload.bytes;
    if (r->behind_count == 0)
        sky_condition_broadcast(&c->quiet);
}

/* The tier refused what a nearer one has taken, and nothing newer is on its way. */
static bool leaves_older(const sky_cache *c, const behind *b) {
    const sky_errand *e = &b->errand;
    return b->item.name && b->item.status != SKY_OK && e->op == SKY_OP_PUT && !e->if_absent &&
           !e->given_up && !sky_errand_changing(c, e->tier, &b->item);
}

static void behind_done(sky_cache *c, sky_errand *e) {
    behind *b = (behind *)e;
    sky_rung *r = &c->tiers[e->tier];
    sky_status status = b->item.status;
    sky_mutex_lock(&c->mutex);
    bool removal = e->op == SKY_OP_REMOVE;
    bool stored = status == SKY_OK && !e->given_up && !removal;
    bool go_on = status == SKY_MISS && e->op == SKY_OP_HAS && !e->given_up;
    sky_known_set(r, &b->item.key, stored);
    r->dropped += !stored && !removal && !go_on && !e->given_up;
    if (leaves_older(c, b)) {
        go_on = true;
        e->op = SKY_OP_REMOVE;
        sky_errand_add(c, e);
    } else if (go_on) {
        uint64_t number = e->number;
        e->op = SKY_OP_PUT;
        sky_errand_add(c, e);
        e->number = number; /* a removal queued meanwhile waits for it */
    } else {
        uncount(c, b);
    }
    sky_mutex_unlock(&c->mutex);
    if (go_on)
        return;
    sky_parcel_drop(c, b->parcel);
    free(b);
}

static behind *behind_create(sky_parcel *p, uint8_t tier, sky_op first) {
    behind *b = malloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (behind){.errand = {.tier = tier,
                             .background = true,
                             .if_absent = first == SKY_OP_HAS,
                             .op = first,
                             .call = p->call,
                             .items = &b->item,
                             .item_count = 1,
                             .done = behind_done},
                  .parcel = p,
                  .item = {.key = p->key,
                           .parent = p->parent,
                           .name = p->name,
                           .name_bytes = p->name_bytes,
                           .spans = &p->payload,
                           .span_count = 1}};
    return b;
}

static bool has_place(const sky_rung *r, uint64_t bytes) {
    bool fits = r->behind_count == 0 || r->behind_bytes + bytes <= r->behind_bytes_max;
    return fits && r->behind_count < SKY_BEHIND_COUNT_MAX && !sky_rung_skipped(r);
}

/* False when there is no place. */
static bool queue(sky_cache *c, sky_parcel *p, uint8_t tier, sky_op first) {
    sky_rung *r = &c->tiers[tier];
    behind *b = p ? behind_create(p, tier, first) : NULL;
    sky_mutex_lock(&c->mutex);
    bool wanted = first != SKY_OP_HAS || !b || !sky_errand_changing(c, tier, &b->item);
    bool taken = wanted && b && has_place(r, p->payload.bytes);
    if (taken) {
        p->refs++;
        r->behind_count++;
        r->behind_bytes += p->payload.bytes;
        sky_errand_add(c, &b->errand);
    }
    r->dropped += wanted && !taken && first != SKY_OP_REMOVE;
    sky_mutex_unlock(&c->mutex);
    if (taken)
        sky_wake(c);
    else
        free(b);
    return taken;
}

void sky_behind_outdated(sky_cache *c, const sky_key *key, const char *name, size_t name_bytes,
                         uint8_t tier) {
    if (!name)
        return;
    sky_item item = {.key = *key, .name = name, .name_bytes = name_bytes};
    sky_parcel *p = NULL;
    if (sky_parcel_create(c, &item, &(sky_call){0}, (sky_span){0}, (sky_lease){0}, &p) != SKY_OK)
        return;
    (void)queue(c, p, tier, SKY_OP_REMOVE);
    sky_parcel_drop(c, p);
}

void sky_behind(sky_cache *c, sky_parcel *p, uint8_t tier, bool only_if_absent) {
    bool taken = queue(c, p, tier, only_if_absent ? SKY_OP_HAS : SKY_OP_PUT);
    if (!taken && p && !only_if_absent)
        sky_behind_outdated(c, &p->key, p->name, p->name_bytes, tier);
}

static bool is_about(const sky_errand *e, const sky_key *key, bool named_only) {
    return e->done == behind_done && (e->items[0].name || !named_only) &&
           sky_key_equal(&e->items[0].key, key);
}

/* Take the waiting ones for a key out of a tier's queue, and stop looks before a put. */
static void forget_at(sky_cache *c, sky_rung *r, const sky_key *key, bool named_only,
                      sky_errand **freed) {
    sky_errand *before = NULL;
    for (sky_errand *e = r->waiting_behind.first, *next; e; e = next) {
        next = e->next;
        if (!is_about(e, key, named_only)) {
            before = e;
            continue;
        }
        if (before)
            before->next = next;
        else
            r->waiting_behind.first = next;
        if (r->waiting_behind.last == e)
            r->waiting_behind.last = before;
        uncount(c, (behind *)e);
        e->next = *freed;
        *freed = e;
    }
    for (sky_errand *e = r->active.first; e; e = e->next)
        if (e->done == behind_done && e->op == SKY_OP_HAS && sky_key_equal(&e->items[0].key, key))
            e->given_up = true;
    sky_known_set(r, key, false);
}

void sky_behind_forget(sky_cache *c, const sky_key *key, bool named_only, sky_errand **freed) {
    for (size_t t = 0; t < c->tier_count; t++)
        forget_at(c, &c->tiers[t], key, named_only, freed);
}

void sky_behind_free(sky_cache *c, sky_errand *freed) {
    while (freed) {
        behind *b = (behind *)freed;
        freed = freed->next;
        sky_parcel_drop(c, b->parcel);
        free(b);
    }
}

/* ---- victims ---- */

static bool is_waiting(const sky_rung *r, const sky_key *key) {
    for (const sky_errand *e = r->waiting_behind.first; e; e = e->next)
        if (is_about(e, key, false))
            return true;
    return false;
}

void sky_behind_victim(void *context, const sky_victim *victim) {
    sky_rung *from = context;
    sky_cache *c = from->cache;
    size_t below = (size_t)(from - c->tiers) + 1;
    sky_mutex_lock(&c->mutex);
    bool wanted = !c->closed && below < c->tier_count &&
                  !is_known(&c->tiers[below], &victim->key) &&
                  !is_waiting(&c->tiers[below], &victim->key);
    sky_mutex_unlock(&c->mutex);
    if (!wanted)
        return;
    sky_item item = {.key = victim->key,
                     .parent = victim->parent,
                     .name = victim->name,
                     .name_bytes = victim->name_bytes,
                     .spans = &victim->payload,
                     .span_count = 1};
    sky_call call = {.coding = victim->coding};
    sky_parcel *p = NULL;
    (void)sky_parcel_create(c, &item, &call, (sky_span){0}, (sky_lease){0}, &p);
    sky_behind(c, p, (uint8_t)below, true);
    sky_parcel_drop(c, p);
}
