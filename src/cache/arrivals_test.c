/* Proves, step by step in virtual time: what is announced is waited for until it is stored; a wait
 * ends when nobody is to put it any more, at its deadline and by a cancel; who expects a key waits
 * for its announcement too; what a tier below memory has is not waited for; a tier that announces
 * is asked to wait itself; and announcements without end are refused and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "cache/arrivals.h"
#include "cache/cache_internal.h"
#include "cache/hierarchy_fixture.h"

typedef struct {
    sky_clock clock;
    sky_time now;
    sky_cache *cache;
    sky_scripted *far;
} world;

static sky_time world_now(const sky_clock *clock) {
    return ((const world *)clock)->now;
}

static int64_t world_wall_ms(const sky_clock *clock) {
    return ((const world *)clock)->now / 1000000;
}

/* far: a tier behind memory, with these traits; NULL: none. */
static void open_world_over(world *w, const uint32_t *far) {
    *w = (world){.clock = {world_now, world_wall_ms}, .now = sky_now()};
    sky_tier *tier;
    assert_int_equal(sky__cache_create(&w->clock, &w->cache), SKY_OK);
    sky_tier_env env = sky__cache_env(w->cache);
    env.clock = &w->clock;
    assert_int_equal(sky_memory_tier_open("mem:1MiB", &env, &tier, NULL), SKY_OK);
    sky__cache_add(w->cache, tier);
    if (far) {
        w->far = sky_scripted_open(1);
        tier = sky_scripted_tier(w->far);
        tier->traits |= *far;
        sky__cache_add(w->cache, tier);
    }
    assert_int_equal(sky__cache_start_stepped(w->cache), SKY_OK);
}

static void open_world(world *w, bool far) {
    static const uint32_t announces = SKY_TIER_ANNOUNCES;
    open_world_over(w, far ? &announces : NULL);
}

/* All that can be done now; when there is more. */
static sky_time step(world *w) {
    sky_time until;
    while ((until = sky__cache_step(w->cache)) == 0)
        ;
    return until;
}

static uint64_t metric(const world *w, sky_metric_id id) {
    return sky_cache_metric(w->cache, SKY_TIER_NONE, id);
}

/* Nothing is left of requests or announcements. */
static void close_world(world *w) {
    step(w);
    assert_int_equal(metric(w, SKY_METRIC_CACHE_REQUESTS_ACTIVE), 0);
    assert_int_equal(metric(w, SKY_METRIC_CACHE_ANNOUNCED), 0);
    assert_int_equal(metric(w, SKY_METRIC_CACHE_AWAITED), 0);
    sky__cache_abandon(w->cache);
}

static sky_status do_one(world *w, sky_op op, uint64_t n, uint64_t owner, uint32_t ttl_s) {
    sky_item item = {.key = sky_fixture_key(n)};
    sky_batch batch;
    const sky_call call = {.owner = owner, .ttl_s = ttl_s};
    assert_int_equal(sky_submit(w->cache, op, &item, 1, &call, &batch), SKY_OK);
    step(w);
    assert_int_equal(sky_wait(w->cache, batch, 1), SKY_OK);
    return item.status;
}

static void put(world *w, uint64_t n) {
    uint8_t data[100] = {1};
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_batch batch;
    assert_int_equal(sky_submit(w->cache, SKY_OP_PUT, &item, 1, &(sky_call){.tiers = 1}, &batch),
                     SKY_OK);
    step(w);
    assert_int_equal(sky_wait(w->cache, batch, 1), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
}

/* Somebody waits for a key. */
typedef struct {
    sky_item item;
    sky_batch batch;
} waiter;

static void wait_by(world *w, sky_op op, waiter *a, uint64_t n, sky_time for_ns) {
    a->item = (sky_item){.key = sky_fixture_key(n)};
    const sky_call call = {.deadline_ns = w->now + for_ns};
    assert_int_equal(sky_submit(w->cache, op, &a->item, 1, &call, &a->batch), SKY_OK);
    step(w);
}

static void await(world *w, waiter *a, uint64_t n, sky_time for_ns) {
    wait_by(w, SKY_OP_AWAIT, a, n, for_ns);
}

static void expect(world *w, waiter *a, uint64_t n, sky_time for_ns) {
    wait_by(w, SKY_OP_EXPECT, a, n, for_ns);
}

/* How it ended; SKY_PENDING: it has not. */
static sky_status ended(world *w, waiter *a) {
    step(w);
    return sky_wait(w->cache, a->batch, 1) == SKY_OK ? a->item.status : SKY_PENDING;
}

static void what_nobody_announced_is_not_waited_for(void **state) {
    (void)state;
    world w;
    waiter a;
    open_world(&w, false);
    await(&w, &a, 1, SKY_SECONDS(9));
    assert_int_equal(ended(&w, &a), SKY_MISS);
    put(&w, 1);
    await(&w, &a, 1, SKY_SECONDS(9));
    assert_int_equal(ended(&w, &a), SKY_OK);
    sky_item item = {.key = sky_fixture_key(1)};
    assert_int_equal(sky_submit(w.cache, SKY_OP_AWAIT, &item, 1, NULL, &a.batch), SKY_E_PARAM);
    close_world(&w);
}

static void a_put_ends_the_wait_of_all(void **state) {
    (void)state;
    world w;
    waiter a, b, other;
    open_world(&w, false);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 2, 7, 0), SKY_OK);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_ANNOUNCED), 2);
    await(&w, &a, 1, SKY_SECONDS(9));
    await(&w, &b, 1, SKY_SECONDS(9));
    await(&w, &other, 2, SKY_SECONDS(9));
    assert_int_equal(ended(&w, &a), SKY_PENDING);
    put(&w, 1);
    assert_int_equal(ended(&w, &a), SKY_OK);
    assert_int_equal(ended(&w, &b), SKY_OK);
    assert_int_equal(ended(&w, &other), SKY_PENDING);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_AWAITS_CAME), 2);
    put(&w, 2);
    assert_int_equal(ended(&w, &other), SKY_OK);
    close_world(&w);
}

static void what_memory_has_is_not_waited_for(void **state) {
    (void)state;
    world w;
    open_world(&w, false);
    put(&w, 1);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK); /* it did not look */
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 2, 7, 0), SKY_OK);
    waiter there, coming;
    await(&w, &there, 1, SKY_SECONDS(5));
    await(&w, &coming, 2, SKY_SECONDS(5));
    assert_int_equal(ended(&w, &there), SKY_OK);
    assert_int_equal(there.item.bytes, 100);
    assert_int_equal(ended(&w, &coming), SKY_PENDING);
    sky_release_owner(w.cache, 7, NULL);
    assert_int_equal(ended(&w, &coming), SKY_MISS);
    close_world(&w);
}

static void who_expects_a_key_waits_for_its_announcement(void **state) {
    (void)state;
    world w;
    waiter comes, withdrawn, unannounced, late, cancelled, there;
    open_world(&w, false);
    put(&w, 6);
    expect(&w, &there, 6, SKY_SECONDS(9));
    assert_int_equal(ended(&w, &there), SKY_OK);
    assert_int_equal(there.item.bytes, 100);
    expect(&w, &comes, 1, SKY_SECONDS(9));
    expect(&w, &withdrawn, 2, SKY_SECONDS(9));
    expect(&w, &unannounced, 3, SKY_SECONDS(9)); /* is put all the same */
    expect(&w, &late, 4, SKY_SECONDS(2));
    expect(&w, &cancelled, 5, SKY_SECONDS(9));
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_AWAITED), 5);
    sky_cancel(w.cache, cancelled.batch);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 2, 7, 0), SKY_OK);
    assert_int_equal(ended(&w, &comes), SKY_PENDING);
    assert_int_equal(ended(&w, &withdrawn), SKY_PENDING);
    assert_int_equal(do_one(&w, SKY_OP_WITHDRAW, 2, 7, 0), SKY_OK);
    assert_int_equal(ended(&w, &withdrawn), SKY_MISS);
    put(&w, 1);
    put(&w, 3);
    assert_int_equal(ended(&w, &comes), SKY_OK);
    assert_int_equal(comes.item.bytes, 100);
    assert_int_equal(comes.item.tier, 0);
    assert_int_equal(ended(&w, &unannounced), SKY_OK);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_ANNOUNCED_STORED), 1);
    assert_int_equal(ended(&w, &late), SKY_PENDING);
    w.now += SKY_SECONDS(2);
    assert_int_equal(ended(&w, &late), SKY_E_DEADLINE);
    close_world(&w);
}

/* Announced and lapsed, or put, while nobody looked: the wait ends as if it had been seen. */
static void an_announcement_that_was_short_is_seen(void **state) {
    (void)state;
    world w;
    waiter a;
    open_world(&w, false);
    expect(&w, &a, 1, SKY_SECONDS(9));
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 1), SKY_OK);
    assert_int_equal(step(&w), w.now + SKY_SECONDS(1));
    w.now += SKY_SECONDS(1);
    assert_int_equal(ended(&w, &a), SKY_MISS);
    assert_int_equal(do_one(&w, SKY_OP_WITHDRAW, 1, 7, 0), SKY_OK);
    close_world(&w);
}

/* It is asked while the wait is under way, and says where it lies. */
static void what_a_tier_below_memory_has_is_not_waited_for(void **state) {
    (void)state;
    static const uint32_t plain = 0;
    world w;
    waiter there, coming, expected;
    open_world_over(&w, &plain);
    sky_scripted_plant(w.far, sky_fixture_key(1), "payload", 7);
    sky_scripted_plant(w.far, sky_fixture_key(3), "payload", 7);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 2, 7, 0), SKY_OK);
    await(&w, &there, 1, SKY_SECONDS(9));
    await(&w, &coming, 2, SKY_SECONDS(9));
    expect(&w, &expected, 3, SKY_SECONDS(9));
    assert_int_equal(ended(&w, &there), SKY_OK);
    assert_int_equal(there.item.tier, 1);
    assert_int_equal(there.item.bytes, 7);
    assert_int_equal(ended(&w, &expected), SKY_OK);
    assert_int_equal(expected.item.tier, 1);
    assert_int_equal(ended(&w, &coming), SKY_PENDING);
    put(&w, 2);
    assert_int_equal(ended(&w, &coming), SKY_OK);
    sky_scripted_hold(w.far, true); /* one that is slow holds no wait up */
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 4, 7, 0), SKY_OK);
    await(&w, &coming, 4, SKY_SECONDS(9));
    put(&w, 4);
    assert_int_equal(ended(&w, &coming), SKY_OK);
    assert_int_equal(coming.item.tier, 0);
    sky_scripted_hold(w.far, false);
    sky_release_owner(w.cache, 7, NULL);
    close_world(&w);
}

static void the_wait_ends_when_nobody_is_to_put_it(void **state) {
    (void)state;
    world w;
    waiter a;
    open_world(&w, false);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 8, 0), SKY_OK);
    await(&w, &a, 1, SKY_SECONDS(9));
    assert_int_equal(do_one(&w, SKY_OP_WITHDRAW, 1, 9, 0), SKY_OK);
    assert_int_equal(do_one(&w, SKY_OP_WITHDRAW, 1, 7, 0), SKY_OK);
    assert_int_equal(ended(&w, &a), SKY_PENDING); /* the other may still */
    assert_int_equal(sky_release_owner(w.cache, 8, NULL), SKY_OK);
    assert_int_equal(ended(&w, &a), SKY_MISS);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_AWAITS_LOST), 1);
    close_world(&w);
}

static void time_ends_announcements_and_waits(void **state) {
    (void)state;
    world w;
    waiter lapses, late;
    open_world(&w, false);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 5), SKY_OK);
    await(&w, &lapses, 1, SKY_SECONDS(9));
    await(&w, &late, 1, SKY_SECONDS(2));
    assert_int_equal(step(&w), w.now + SKY_SECONDS(2));
    w.now += SKY_SECONDS(2);
    assert_int_equal(ended(&w, &late), SKY_E_DEADLINE);
    assert_int_equal(step(&w), w.now + SKY_SECONDS(3));
    w.now += SKY_SECONDS(3) - 1;
    assert_int_equal(ended(&w, &lapses), SKY_PENDING);
    w.now += 1;
    assert_int_equal(ended(&w, &lapses), SKY_MISS);
    await(&w, &lapses, 1, SKY_SECONDS(9));
    assert_int_equal(ended(&w, &lapses), SKY_MISS);
    assert_int_equal(do_one(&w, SKY_OP_WITHDRAW, 1, 7, 0), SKY_OK);
    close_world(&w);
}

static void a_cancelled_wait_leaves_nothing(void **state) {
    (void)state;
    world w;
    waiter a;
    open_world(&w, false);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    await(&w, &a, 1, SKY_SECONDS(9));
    sky_cancel(w.cache, a.batch);
    assert_int_equal(a.item.status, SKY_E_CANCELLED);
    step(&w);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_REQUESTS_ACTIVE), 0);
    put(&w, 1);
    close_world(&w);
}

static void a_close_ends_who_waits(void **state) {
    (void)state;
    world w;
    waiter a;
    open_world(&w, false);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    await(&w, &a, 1, SKY_SECONDS(9));
    sky__cache_abandon(w.cache);
    assert_int_equal(a.item.status, SKY_E_CANCELLED);
}

/* As sky_cancel, which waits for the tier, that only a step calls back. */
static void give_up(world *w, sky_batch batch) {
    sky__cache_give_up(w->cache, batch);
    step(w);
    sky_cancel(w->cache, batch);
}

static void a_tier_that_announces_is_told_and_asked(void **state) {
    (void)state;
    world w;
    waiter a;
    open_world(&w, true);
    sky_scripted_say(w.far, SKY_OK);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    assert_int_equal(sky_scripted_count(w.far, SKY_OP_ANNOUNCE), 1);
    assert_int_equal(do_one(&w, SKY_OP_WITHDRAW, 1, 7, 0), SKY_OK);
    assert_int_equal(sky_scripted_count(w.far, SKY_OP_WITHDRAW), 1);
    sky_scripted_hold(w.far, true);
    await(&w, &a, 2, SKY_SECONDS(9000)); /* announced there alone */
    assert_int_equal(sky_scripted_count(w.far, SKY_OP_AWAIT), 1);
    assert_int_equal(ended(&w, &a), SKY_PENDING);
    give_up(&w, a.batch);
    sky_scripted_hold(w.far, false);
    close_world(&w);
}

/* Who expects a key has such a tier wait, and waits here too; what ends first ends both. */
static void a_tier_that_announces_expects_too(void **state) {
    (void)state;
    world w;
    waiter here, there, nobody, gone;
    open_world(&w, true);
    sky_scripted_hold(w.far, true);
    expect(&w, &here, 1, SKY_SECONDS(9));
    expect(&w, &there, 2, SKY_SECONDS(9));
    expect(&w, &nobody, 3, SKY_SECONDS(9));
    assert_int_equal(sky_scripted_count(w.far, SKY_OP_EXPECT), 3);
    put(&w, 1);
    assert_int_equal(ended(&w, &here), SKY_OK);
    assert_int_equal(here.item.tier, 0);
    assert_int_equal(ended(&w, &there), SKY_PENDING);
    sky_scripted_plant(w.far, sky_fixture_key(2), "payload", 7);
    sky_scripted_hold(w.far, false); /* what is held is answered */
    assert_int_equal(ended(&w, &there), SKY_OK);
    assert_int_equal(there.item.tier, 1);
    assert_int_equal(ended(&w, &nobody), SKY_MISS); /* who announced it there is gone */
    sky_scripted_say(w.far, SKY_E_IO);
    expect(&w, &gone, 4, SKY_SECONDS(9)); /* so is the host */
    assert_int_equal(ended(&w, &gone), SKY_E_IO);
    close_world(&w);
}

/* Waiting takes no place from reads at the tier, and says nothing against it. */
static void many_waits_hold_nothing_up(void **state) {
    (void)state;
    enum { WAITS = 80 };
    static waiter waits[WAITS];
    world w;
    open_world(&w, true);
    sky_scripted_hold(w.far, true);
    for (uint64_t i = 0; i < WAITS; i++)
        await(&w, &waits[i], 100 + i, SKY_SECONDS(9000));
    size_t at_tier = sky_scripted_count(w.far, SKY_OP_AWAIT);
    assert_true(at_tier >= 64 && at_tier < 96); /* frames that a client has at a host */
    sky_item item = {.key = sky_fixture_key(1)};
    sky_batch batch;
    assert_int_equal(sky_submit(w.cache, SKY_OP_HAS, &item, 1, NULL, &batch), SKY_OK);
    step(&w);
    assert_int_equal(sky_scripted_count(w.far, SKY_OP_HAS), 1);
    give_up(&w, batch);
    w.now += SKY_SECONDS(9000);
    for (size_t i = 0; i < WAITS; i++)
        assert_int_equal(ended(&w, &waits[i]), SKY_E_DEADLINE);
    assert_int_equal(sky_cache_metric(w.cache, 1, SKY_METRIC_TIER_FAILURES), 0);
    assert_int_equal(sky_cache_metric(w.cache, 1, SKY_METRIC_TIER_LATE), 0);
    sky_scripted_hold(w.far, false);
    close_world(&w);
}

static size_t announce_many(world *w, uint64_t owner, uint64_t first, size_t count) {
    sky_item *items = calloc(count, sizeof *items);
    sky_batch batch;
    size_t taken = 0;
    for (size_t i = 0; i < count; i++)
        items[i].key = sky_fixture_key(first + i);
    const sky_call call = {.owner = owner, .ttl_s = 60};
    assert_int_equal(sky_submit(w->cache, SKY_OP_ANNOUNCE, items, count, &call, &batch), SKY_OK);
    assert_int_equal(sky_wait(w->cache, batch, 1), SKY_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(items[i].status == SKY_OK || items[i].status == SKY_E_BUSY);
        taken += items[i].status == SKY_OK;
    }
    free(items);
    return taken;
}

static void announcements_are_bounded(void **state) {
    (void)state;
    enum { OWNERS = SKY_ANNOUNCED_MAX / SKY_ANNOUNCED_OWNER_MAX };
    const uint64_t step_keys = SKY_ANNOUNCED_OWNER_MAX + 100;
    world w;
    open_world(&w, false);
    for (uint64_t owner = 1; owner <= OWNERS; owner++)
        assert_int_equal(announce_many(&w, owner, owner * step_keys, step_keys),
                         SKY_ANNOUNCED_OWNER_MAX);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_ANNOUNCEMENTS_REFUSED), OWNERS * 100);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_ANNOUNCED), SKY_ANNOUNCED_MAX);
    assert_int_equal(announce_many(&w, OWNERS + 1, 1, 10), 0);
    assert_int_equal(announce_many(&w, 1, step_keys, 10), 10); /* they are announced already */
    w.now += SKY_SECONDS(60);
    assert_int_equal(announce_many(&w, 1, 1, 10), 10); /* what lapsed made room */
    for (uint64_t owner = 1; owner <= OWNERS; owner++)
        assert_int_equal(sky_release_owner(w.cache, owner, NULL), SKY_OK);
    close_world(&w);
}

/* Owners that stay and say nothing more keep no room from others. */
static void what_lapsed_makes_room_for_others(void **state) {
    (void)state;
    world w;
    open_world(&w, false);
    uint64_t owners = SKY_ANNOUNCED_MAX / SKY_ANNOUNCED_OWNER_MAX;
    for (uint64_t owner = 1; owner <= owners; owner++)
        assert_int_equal(
            announce_many(&w, owner, owner * SKY_ANNOUNCED_OWNER_MAX, SKY_ANNOUNCED_OWNER_MAX),
            SKY_ANNOUNCED_OWNER_MAX);
    assert_int_equal(announce_many(&w, owners + 1, 1, 10), 0);
    w.now += SKY_SECONDS(60);
    assert_int_equal(announce_many(&w, owners + 1, 1, 10), 10);
    assert_int_equal(metric(&w, SKY_METRIC_CACHE_ANNOUNCED), 10);
    assert_int_equal(sky_release_owner(w.cache, owners + 1, NULL), SKY_OK);
    close_world(&w);
}

/* An adversary finds no keys that lie in one bucket: those that are alike in bytes lie in most. */
static void nobody_chooses_a_bucket(void **state) {
    (void)state;
    enum { KEYS = 4 * SKY__ARRIVALS_BUCKETS };
    static const uint32_t seen_at[] = {0, 8, 16, 24, 28}; /* where keys differ */
    for (size_t k = 0; k < sizeof seen_at / sizeof *seen_at; k++) {
        sky__arrivals a = {0};
        for (uint32_t i = 0; i < KEYS; i++) {
            sky_key key = {{0}};
            memcpy(key.bytes + seen_at[k], &i, sizeof i);
            assert_int_equal(sky__arrivals_announce(&a, 1, &key, 1, 2), SKY_OK);
        }
        size_t used = 0;
        for (size_t i = 0; i < SKY__ARRIVALS_BUCKETS; i++)
            used += a.buckets[i] != NULL;
        assert_true(used > SKY__ARRIVALS_BUCKETS / 2);
        sky__arrivals_deinit(&a);
    }
}

static void waits_are_bounded(void **state) {
    (void)state;
    static sky_item items[SKY_AWAITED_MAX + 5];
    world w;
    sky_batch batch;
    size_t refused = 0;
    open_world(&w, false);
    assert_int_equal(do_one(&w, SKY_OP_ANNOUNCE, 1, 7, 0), SKY_OK);
    for (size_t i = 0; i < SKY_AWAITED_MAX + 5; i++)
        items[i] = (sky_item){.key = sky_fixture_key(1)};
    const sky_call call = {.deadline_ns = w.now + SKY_SECONDS(9)};
    assert_int_equal(sky_submit(w.cache, SKY_OP_AWAIT, items, SKY_AWAITED_MAX + 5, &call, &batch),
                     SKY_OK);
    put(&w, 1);
    assert_int_equal(sky_wait(w.cache, batch, 1), SKY_OK);
    for (size_t i = 0; i < SKY_AWAITED_MAX + 5; i++)
        refused += items[i].status == SKY_E_BUSY;
    assert_int_equal(refused, 5);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_announced_is_not_waited_for),
        cmocka_unit_test(a_put_ends_the_wait_of_all),
        cmocka_unit_test(what_memory_has_is_not_waited_for),
        cmocka_unit_test(who_expects_a_key_waits_for_its_announcement),
        cmocka_unit_test(an_announcement_that_was_short_is_seen),
        cmocka_unit_test(what_a_tier_below_memory_has_is_not_waited_for),
        cmocka_unit_test(the_wait_ends_when_nobody_is_to_put_it),
        cmocka_unit_test(time_ends_announcements_and_waits),
        cmocka_unit_test(a_cancelled_wait_leaves_nothing),
        cmocka_unit_test(a_close_ends_who_waits),
        cmocka_unit_test(a_tier_that_announces_is_told_and_asked),
        cmocka_unit_test(a_tier_that_announces_expects_too),
        cmocka_unit_test(many_waits_hold_nothing_up),
        cmocka_unit_test(announcements_are_bounded),
        cmocka_unit_test(what_lapsed_makes_room_for_others),
        cmocka_unit_test(nobody_chooses_a_bucket),
        cmocka_unit_test(waits_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
