#include "cache/key_order.h"

#include <assert.h>

#include <skymem/keys.h>

#include "base/bytes.h"

static uint32_t bucket_number(const sky_key *key) {
    return sky_load_u32(key->bytes + 12) % SKY__ORDER_BUCKETS;
}

static sky__order_entry **bucket_of(sky__order *o, const sky_key *key) {
    return &o->buckets[bucket_number(key)];
}

static bool is_change(const sky__order_entry *e) {
    return e->kind == SKY__ORDER_PUT || e->kind == SKY__ORDER_REMOVE;
}

/* What a read that comes later is to see. */
static bool is_seen(const sky__order_entry *e) {
    return is_change(e) || e->kind == SKY__ORDER_PIN;
}

/* Bytes of a value that a later write replaces. */
static bool can_be_outdated(const sky__order_entry *e) {
    return e->kind == SKY__ORDER_PROMOTION || (e->kind == SKY__ORDER_COPY && e->named);
}

static bool must_wait(const sky__order_entry *later, const sky__order_entry *earlier) {
    bool change = is_change(earlier), pin = earlier->kind == SKY__ORDER_PIN;
    bool copy = earlier->kind == SKY__ORDER_COPY;
    bool storing = can_be_outdated(earlier) && earlier->working;
    switch (later->kind) {
    case SKY__ORDER_READ:
        return change || pin;
    case SKY__ORDER_PUT: /* a name may be given to a key that was a block's */
        return change || pin || storing || (later->named && copy && !earlier->named);
    case SKY__ORDER_REMOVE:
        return change || pin || storing;
    case SKY__ORDER_PIN:
        return change || pin || (copy && !earlier->outdated);
    default:
        return false;
    }
}

static bool has_to_wait(sky__order *o, const sky__order_entry *entry) {
    if (entry->kind == SKY__ORDER_REMOVE && o->filling > 0)
        return true;
    for (const sky__order_entry *e = *bucket_of(o, &entry->key); e != entry; e = e->next)
        if (sky_key_equal(&e->key, &entry->key) && must_wait(entry, e))
            return true;
    return false;
}

static void outdate_earlier(sky__order *o, const sky__order_entry *change) {
    for (sky__order_entry *e = *bucket_of(o, &change->key); e != change; e = e->next)
        if (can_be_outdated(e) && sky_key_equal(&e->key, &change->key))
            e->outdated = true;
}

bool sky__order_enter(sky__order *o, sky__order_entry *entry) {
    sky__order_entry **link = bucket_of(o, &entry->key);
    entry->next = entry->next_ready = NULL;
    entry->working = entry->outdated = entry->filling = false;
    while (*link)
        link = &(*link)->next;
    *link = entry;
    if (is_change(entry)) {
        outdate_earlier(o, entry);
        atomic_fetch_add(&o->begun[bucket_number(&entry->key)], 1);
    }
    if (entry->kind == SKY__ORDER_REMOVE) {
        atomic_fetch_add(&o->removing, 1);
        atomic_fetch_add(&o->removes, 1);
    }
    entry->waiting = has_to_wait(o, entry);
    if (is_seen(entry))
        atomic_fetch_add(&o->changes[bucket_number(&entry->key)], 1);
    return !entry->waiting;
}

void sky__order_follow(sky__order_entry *copy, sky__order_entry *leader) {
    assert(sky_key_equal(&copy->key, &leader->key) && !leader->outdated);
    assert(copy->kind == SKY__ORDER_COPY || copy->kind == SKY__ORDER_PROMOTION);
    copy->next_ready = NULL;
    copy->working = copy->outdated = copy->waiting = copy->filling = false;
    copy->next = leader->next;
    leader->next = copy;
}

/* Something about the key has changed: who waits may go on now. */
static void release_waiting(sky__order *o, const sky_key *key) {
    for (sky__order_entry *e = *bucket_of(o, key); e; e = e->next) {
        if (!e->waiting || !sky_key_equal(&e->key, key) || has_to_wait(o, e))
            continue;
        e->waiting = false;
        if (is_change(e))
            outdate_earlier(o, e); /* what took a place before it while it waited */
        e->next_ready = NULL;
        *(o->ready_first ? &o->ready_last->next_ready : &o->ready_first) = e;
        o->ready_last = e;
    }
}

/* No promotion stores any more. */
static void release_removals(sky__order *o) {
    for (size_t b = 0; b < SKY__ORDER_BUCKETS && atomic_load(&o->removing) > 0; b++)
        for (const sky__order_entry *e = o->buckets[b]; e; e = e->next)
            if (e->waiting && e->kind == SKY__ORDER_REMOVE)
                release_waiting(o, &e->key);
}

void sky__order_leave(sky__order *o, sky__order_entry *entry) {
    sky__order_entry **link = bucket_of(o, &entry->key);
    while (*link != entry) {
        assert(*link);
        link = &(*link)->next;
    }
    *link = entry->next;
    if (is_seen(entry))
        atomic_fetch_sub(&o->changes[bucket_number(&entry->key)], 1);
    if (entry->kind == SKY__ORDER_REMOVE)
        atomic_fetch_sub(&o->removing, 1);
    release_waiting(o, &entry->key);
    if (entry->filling && --o->filling == 0)
        release_removals(o);
}

void sky__order_fill(sky__order *o, sky__order_entry *promotion) {
    promotion->filling = true;
    o->filling++;
}

void sky__order_work(sky__order *o, sky__order_entry *entry, bool working) {
    entry->working = working;
    if (!working)
        release_waiting(o, &entry->key);
}

bool sky__order_changing(const sky__order *o, const sky_key *key) {
    if (sky__order_quiet(o, key))
        return false;
    const sky__order_entry *e = o->buckets[bucket_number(key)];
    while (e && !(is_seen(e) && sky_key_equal(&e->key, key)))
        e = e->next;
    return e != NULL;
}

bool sky__order_quiet(const sky__order *o, const sky_key *key) {
    return atomic_load(&o->changes[bucket_number(key)]) == 0;
}

uint64_t sky__order_writes(const sky__order *o, const sky_key *key) {
    uint64_t writes = atomic_load(&o->removes) + atomic_load(&o->begun[bucket_number(key)]);
    return atomic_load(&o->removing) > 0 ? SKY__ORDER_UNKNOWN : writes;
}

uint64_t sky__order_removals(const sky__order *o) {
    uint64_t removes = atomic_load(&o->removes);
    return atomic_load(&o->removing) > 0 ? SKY__ORDER_UNKNOWN : removes;
}

void sky__order_revoke(sky__order *o, const sky_key *key) {
    atomic_store(&o->revoked_at[bucket_number(key)], atomic_fetch_add(&o->revocations, 1) + 1);
}

uint64_t sky__order_revocations(const sky__order *o) {
    return atomic_load(&o->revocations);
}

bool sky__order_revoked_since(const sky__order *o, const sky_key *key, uint64_t since) {
    return atomic_load(&o->revoked_at[bucket_number(key)]) > since;
}

sky__order_entry *sky__order_next_ready(sky__order *o) {
    sky__order_entry *e = o->ready_first;
    if (e)
        o->ready_first = e->next_ready;
    return e;
}
