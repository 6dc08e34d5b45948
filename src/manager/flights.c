#include "manager/flights.h"

#include <assert.h>

#include <skymem/keys.h>

#include "base/bytes.h"

void sky__flights_init(sky__flights *f) {
    *f = (sky__flights){0};
    sky_mutex_init(&f->mutex);
    sky_condition_init(&f->changed);
}

void sky__flights_deinit(sky__flights *f) {
    for (uint32_t i = 0; i < SKY__FLIGHT_BUCKETS; i++)
        assert(!f->buckets[i]);
    sky_condition_deinit(&f->changed);
    sky_mutex_deinit(&f->mutex);
}

static sky__claim **bucket_of(sky__flights *f, const sky_key *key) {
    return &f->buckets[sky_load_u32(key->bytes + 8) % SKY__FLIGHT_BUCKETS];
}

static sky__claim *find_owner(sky__flights *f, const sky_key *key) {
    sky__claim *c = *bucket_of(f, key);
    while (c && !sky_key_equal(&c->key, key))
        c = c->next;
    return c;
}

sky__claim_state sky__flights_claim(sky__flights *f, sky__claim *claim, const sky_key *key,
                                    int event) {
    sky_mutex_lock(&f->mutex);
    if (claim->state == SKY__CLAIM_NONE || claim->state == SKY__CLAIM_FAILED) {
        sky__claim *owner = find_owner(f, key),
                   **list = owner ? &owner->waiting : bucket_of(f, key);
        *claim = (sky__claim){.key = *key,
                              .state = owner ? SKY__CLAIM_WAITING : SKY__CLAIM_OWNED,
                              .next = *list,
                              .owner = owner,
                              .event = event};
        *list = claim;
    }
    sky__claim_state state = claim->state;
    sky_mutex_unlock(&f->mutex);
    return state;
}

static void unlink_claim(sky__claim **list, const sky__claim *claim) {
    while (*list != claim) {
        assert(*list);
        list = &(*list)->next;
    }
    *list = claim->next;
}

static void tell_waiting(sky__claim *owner, bool delivered) {
    for (sky__claim *next, *w = owner->waiting; w; w = next) {
        next = w->next;
        w->state = delivered ? SKY__CLAIM_DELIVERED : SKY__CLAIM_FAILED;
        w->owner = NULL;
        if (w->event >= 0)
            sky_event_raise_foreign(w->event);
    }
}

void sky__flights_release(sky__flights *f, sky__claim *claim, bool delivered) {
    sky_mutex_lock(&f->mutex);
    if (claim->state == SKY__CLAIM_OWNED) {
        unlink_claim(bucket_of(f, &claim->key), claim);
        tell_waiting(claim, delivered);
        sky_condition_broadcast(&f->changed);
    } else if (claim->state == SKY__CLAIM_WAITING) {
        unlink_claim(&claim->owner->waiting, claim);
    }
    if (claim->state != SKY__CLAIM_DELIVERED)
        *claim = (sky__claim){.state = SKY__CLAIM_NONE};
    sky_mutex_unlock(&f->mutex);
}

sky__claim_state sky__flights_state(sky__flights *f, const sky__claim *claim) {
    sky_mutex_lock(&f->mutex);
    sky__claim_state state = claim->state;
    sky_mutex_unlock(&f->mutex);
    return state;
}

static bool any_waits(const sky__claim *claims, uint32_t count) {
    uint32_t i = 0;
    while (i < count && claims[i].state != SKY__CLAIM_WAITING)
        i++;
    return i < count;
}

void sky__flights_wait(sky__flights *f, const sky__claim *claims, uint32_t count,
                       const atomic_bool *over) {
    sky_mutex_lock(&f->mutex);
    while (any_waits(claims, count) && !atomic_load(over))
        (void)sky_condition_wait(&f->changed, &f->mutex, SKY_TIME_NEVER);
    sky_mutex_unlock(&f->mutex);
}

void sky__flights_wake(sky__flights *f) {
    sky_mutex_lock(&f->mutex);
    sky_condition_broadcast(&f->changed);
    sky_mutex_unlock(&f->mutex);
}
