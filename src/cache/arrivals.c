#include "cache/arrivals.h"

#include <stdlib.h>

#include <skymem/keys.h>

#include "cache/request_state.h"
#include "io/secret.h"

#define SWEEP_NS SKY_MS(100) /* a full table is looked through so often at most */

struct sky__announcer {
    sky__announcer *next;
    uint64_t owner;
    uint32_t count;
    sky__announcement *first;
};

struct sky__announcement {
    sky__announcement *next; /* of its bucket */
    sky__announcement *next_own, *last_own;
    sky__announcer *announcer;
    sky_key key;
    sky_time until;
};

static const sky_key *key_of(const sky__waiter *w) {
    return &w->request->items[w->item].key;
}

/* ---- announcements ---- */

static sky__announcement **bucket_of(const sky__arrivals *a, const sky_key *key) {
    uint64_t hash = sky_siphash(&a->hash_key, key->bytes, sizeof key->bytes);
    return &a->buckets[hash % SKY__ARRIVALS_BUCKETS];
}

/* Of any owner (NULL), or of this one. */
static sky__announcement *find_announcement(const sky__arrivals *a, const sky_key *key,
                                            const sky__announcer *by) {
    sky__announcement *n = a->buckets ? *bucket_of(a, key) : NULL;
    while (n && ((by && n->announcer != by) || !sky_key_equal(&n->key, key)))
        n = n->next;
    return n;
}

static sky__announcer *find_announcer(const sky__arrivals *a, uint64_t owner) {
    sky__announcer *by = a->announcers;
    while (by && by->owner != owner)
        by = by->next;
    return by;
}

static void drop_announcer_if_idle(sky__arrivals *a, sky__announcer *by) {
    if (by->count > 0)
        return;
    sky__announcer **link = &a->announcers;
    while (*link != by)
        link = &(*link)->next;
    *link = by->next;
    free(by);
}

/* Its announcer stays, for the caller to look at. */
static void forget_announcement(sky__arrivals *a, sky__announcement *n) {
    sky__announcement **link = bucket_of(a, &n->key);
    while (*link != n)
        link = &(*link)->next;
    *link = n->next;
    *(n->last_own ? &n->last_own->next_own : &n->announcer->first) = n->next_own;
    if (n->next_own)
        n->next_own->last_own = n->last_own;
    n->announcer->count--;
    atomic_fetch_sub(&a->count, 1);
    a->check_now = true;
    free(n);
}

/* Who expected the key waits for it now. */
static void tell_expecting(sky__arrivals *a, const sky_key *key) {
    for (sky__waiter *w = a->waiters; w && a->expecting > 0; w = w->next)
        if (w->expects && sky_key_equal(key_of(w), key)) {
            w->expects = false;
            a->expecting--;
            a->check_now = true; /* by when it lapses */
        }
}

static void forget_late(sky__arrivals *a, sky__announcer *by, sky_time now) {
    for (sky__announcement *n = by->first, *next; n; n = next) {
        next = n->next_own;
        if (n->until <= now)
            forget_announcement(a, n);
    }
}

/* What was announced for a time that is over makes room, of any owner. `keep` is not dropped. */
static void sweep_late(sky__arrivals *a, const sky__announcer *keep, sky_time now) {
    if (now < a->sweep_at)
        return;
    a->sweep_at = now + SWEEP_NS;
    for (sky__announcer *by = a->announcers, *next; by; by = next) {
        next = by->next;
        forget_late(a, by, now);
        if (by != keep)
            drop_announcer_if_idle(a, by);
    }
}

static bool is_full(const sky__arrivals *a, const sky__announcer *by) {
    return by->count >= SKY_ANNOUNCED_OWNER_MAX || atomic_load(&a->count) >= SKY_ANNOUNCED_MAX;
}

static bool make_buckets(sky__arrivals *a) {
    if (!a->buckets)
        sky_random(&a->hash_key, sizeof a->hash_key);
    return a->buckets || (a->buckets = calloc(SKY__ARRIVALS_BUCKETS, sizeof(sky__announcement *)));
}

static sky__announcer *make_announcer(sky__arrivals *a, uint64_t owner) {
    sky__announcer *by = find_announcer(a, owner);
    if (by || !(by = calloc(1, sizeof *by)))
        return by;
    by->owner = owner;
    by->next = a->announcers;
    a->announcers = by;
    return by;
}

static sky_status add_announcement(sky__arrivals *a, sky__announcer *by, const sky_key *key,
                                   sky_time until) {
    if (is_full(a, by))
        return SKY_E_BUSY;
    sky__announcement *n = malloc(sizeof *n);
    if (!n)
        return SKY_E_NOMEM;
    sky__announcement **bucket = bucket_of(a, key);
    *n = (sky__announcement){
        .next = *bucket, .next_own = by->first, .announcer = by, .key = *key, .until = until};
    if (by->first)
        by->first->last_own = n;
    by->first = n;
    by->count++;
    *bucket = n;
    atomic_fetch_add(&a->count, 1);
    tell_expecting(a, key);
    return SKY_OK;
}

sky_status sky__arrivals_announce(sky__arrivals *a, uint64_t owner, const sky_key *key,
                                  sky_time now, sky_time until) {
    if (!make_buckets(a))
        return SKY_E_NOMEM;
    sky__announcer *by = make_announcer(a, owner);
    sky__announcement *there = by ? find_announcement(a, key, by) : NULL;
    if (there) {
        there->until = until;
        return SKY_OK;
    }
    if (!by)
        return SKY_E_NOMEM;
    if (is_full(a, by))
        sweep_late(a, by, now);
    sky_status status = add_announcement(a, by, key, until);
    drop_announcer_if_idle(a, by);
    return status;
}

void sky__arrivals_withdraw(sky__arrivals *a, uint64_t owner, const sky_key *key) {
    sky__announcer *by = find_announcer(a, owner);
    sky__announcement *n = by ? find_announcement(a, key, by) : NULL;
    if (!n)
        return;
    forget_announcement(a, n);
    drop_announcer_if_idle(a, by);
}

void sky__arrivals_withdraw_owner(sky__arrivals *a, uint64_t owner) {
    sky__announcer *by = find_announcer(a, owner);
    if (!by)
        return;
    while (by->first)
        forget_announcement(a, by->first);
    drop_announcer_if_idle(a, by);
}

void sky__arrivals_deinit(sky__arrivals *a) {
    while (a->announcers)
        sky__arrivals_withdraw_owner(a, a->announcers->owner);
    free(a->buckets);
}

/* ---- waiters ---- */

/* Until when the key is announced; 0: it is not. */
static sky_time announced_until(const sky__arrivals *a, const sky_key *key, sky_time now) {
    sky_time until = 0;
    for (const sky__announcement *n = a->buckets ? *bucket_of(a, key) : NULL; n; n = n->next)
        if (n->until > now && n->until > until && sky_key_equal(&n->key, key))
            until = n->until;
    return until;
}

static void check_by(sky__arrivals *a, sky_time at) {
    a->check_at = at < a->check_at ? at : a->check_at;
}

sky_status sky__arrivals_wait(sky__arrivals *a, sky__request *r, size_t item, bool expects,
                              sky_time now) {
    sky_time until = announced_until(a, &r->items[item].key, now);
    if (until == 0 && !expects)
        return SKY_MISS;
    if (atomic_load(&a->waiter_count) >= SKY_AWAITED_MAX)
        return SKY_E_BUSY;
    sky__waiter *w = malloc(sizeof *w);
    if (!w)
        return SKY_E_NOMEM;
    *w = (sky__waiter){.next = a->waiters,
                       .request = r,
                       .item = (uint32_t)item,
                       .expects = until == 0,
                       .status = SKY_PENDING,
                       .tier = SKY_TIER_NONE};
    a->waiters = w;
    a->expecting += w->expects;
    atomic_fetch_add(&a->waiter_count, 1);
    r->refs++;
    check_by(a, until != 0 && until < r->call.deadline_ns ? until : r->call.deadline_ns);
    return SKY_OK;
}

static void waiter_end(sky__waiter *w, sky_status status, uint64_t bytes, uint8_t tier) {
    w->status = status;
    w->bytes = bytes;
    w->tier = tier;
}

uint32_t sky__arrivals_stored(sky__arrivals *a, const sky_key *key, uint64_t bytes, uint8_t tier) {
    uint32_t stored = 0;
    for (sky__announcement *n; (n = find_announcement(a, key, NULL)); stored++) {
        sky__announcer *by = n->announcer;
        forget_announcement(a, n);
        drop_announcer_if_idle(a, by);
    }
    for (sky__waiter *w = a->waiters; w; w = w->next)
        if (w->status == SKY_PENDING && sky_key_equal(key_of(w), key))
            waiter_end(w, SKY_OK, bytes, tier);
    a->check_now = true;
    return stored;
}

void sky__arrivals_found(sky__arrivals *a, const sky__request *r, size_t item, sky_status status,
                         uint64_t bytes, uint8_t tier, sky_time now) {
    sky__waiter *w = a->waiters;
    while (w && (w->request != r || w->item != item))
        w = w->next;
    if (!w || w->status != SKY_PENDING ||
        (status != SKY_OK && announced_until(a, key_of(w), now) != 0))
        return;
    waiter_end(w, status, bytes, tier);
    a->check_now = true;
}

static sky_status state_of(sky__arrivals *a, const sky__waiter *w, sky_time now) {
    const sky__request *r = w->request;
    if (w->status != SKY_PENDING)
        return w->status;
    if (r->given_up)
        return SKY_E_CANCELLED;
    if (now >= r->call.deadline_ns)
        return SKY_E_DEADLINE;
    sky_time until = announced_until(a, key_of(w), now);
    if (until == 0 && !w->expects)
        return SKY_MISS;
    check_by(a, until != 0 && until < r->call.deadline_ns ? until : r->call.deadline_ns);
    return SKY_PENDING;
}

sky__waiter *sky__arrivals_take_over(sky__arrivals *a, sky_time now) {
    sky__waiter *over = NULL;
    if (!a->check_now && now < a->check_at)
        return NULL;
    a->check_now = false;
    a->check_at = SKY_TIME_NEVER;
    for (sky__waiter **link = &a->waiters, *w; (w = *link);) {
        w->status = state_of(a, w, now);
        if (w->status == SKY_PENDING) {
            link = &w->next;
            continue;
        }
        *link = w->next;
        a->expecting -= w->expects;
        atomic_fetch_sub(&a->waiter_count, 1);
        w->next = over;
        over = w;
    }
    return over;
}
