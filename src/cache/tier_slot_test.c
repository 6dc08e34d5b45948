/* Proves: a tier that hangs costs the deadline and no more, one that fails is left out and tried
 * again, and at one tier an older write never comes after a newer one or a removal. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_internal.h"
#include "cache/hierarchy_fixture.h"

static void a_hanging_tier_costs_the_deadline(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, &SKY_NEAR_ONLY), SKY_OK);
    sky_one here, there;
    sky_one_make(&here, 1);
    sky_one_make(&there, 2);
    sky_item items[2] = {here.item, there.item};
    sky_time start = sky_now();
    sky_call call = {.deadline_ns = start + SKY_MS(60)};
    assert_int_equal(sky_run(s.cache, SKY_OP_GET, items, 2, &call), SKY_OK);
    assert_true(sky_now() - start >= SKY_MS(60) && sky_now() - start < SKY_SECONDS(5));
    assert_int_equal(items[0].status, SKY_OK);
    assert_true(sky_fixture_holds(here.data, SKY_ONE_BYTES, 1));
    assert_int_equal(items[1].status, SKY_E_DEADLINE);
    memset(there.data, 0x5a, SKY_ONE_BYTES);
    sky_setting_plant(s.far[0], 2, 2); /* and now it answers, too late */
    sky_scripted_hold(s.far[0], false);
    sky_setting_nap();
    for (size_t i = 0; i < SKY_ONE_BYTES; i++)
        assert_int_equal(there.data[i], 0x5a);
    assert_true(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_LATE) > 0);
    sky_cache_close(s.cache);
}

static void a_cancelled_batch_lets_go_of_its_buffers(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    sky_one o;
    sky_one_make(&o, 1);
    sky_batch batch, done;
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    sky_cancel(s.cache, batch);
    assert_int_equal(o.item.status, SKY_E_CANCELLED);
    memset(o.data, 0x5a, SKY_ONE_BYTES);
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < SKY_ONE_BYTES; i++)
        assert_int_equal(o.data[i], 0x5a);
    assert_int_equal(sky_drain(s.cache, &done, 1), 0);
    sky_cancel(s.cache, batch);
    sky_cancel(s.cache, (sky_batch){0});
    sky_cache_close(s.cache);
}

static void a_failing_tier_is_left_out_and_tried_again(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[1], 1, 1);
    sky_setting_plant(s.far[0], 2, 2);
    sky_scripted_say(s.far[0], SKY_E_IO);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(sky_setting_get(s.cache, 1, 1, &(sky_call){.tiers = 6}), 2);
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_GET), 3);
    sky_tier_stat stat = sky_setting_stat(s.cache, 1);
    assert_true(stat.failing);
    assert_non_null(strstr(stat.note, "3 failures"));
    assert_false(sky_setting_stat(s.cache, 2).failing);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 2, NULL), SKY_E_UNAVAILABLE); /* or not */
    assert_int_equal(sky_setting_put(s.cache, 3, 3, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_E_IO);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_DROPPED), 1);
    assert_true(sky_setting_far_holds(s.far[1], 3, 3));
    sky_scripted_say(s.far[0], SKY_OK);
    SKY_EVENTUALLY(!sky_setting_stat(s.cache, 1).failing);
    assert_int_equal(sky_setting_get(s.cache, 2, 2, NULL), 1);
    sky_cache_close(s.cache);
}

/* A host that answers for a sky that does not is asked for what it has itself. */
static void what_fails_behind_a_tier_is_no_failure_of_it(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_pass_on(s.far[0], SKY_E_IO);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 1, NULL), SKY_E_IO);
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_GET), 5);
    assert_false(sky_setting_stat(s.cache, 1).failing);
    sky_scripted_pass_on(s.far[0], SKY_OK);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 1);
    sky_cache_close(s.cache);
}

/* Whether it is skipped yet or not: what it may hold is not known. */
static void a_store_of_others_that_is_away_is_unavailable(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_scripted_tier(s.far[1])->traits |= SKY_TIER_REMOTE;
    sky_scripted_say(s.far[1], SKY_E_IO);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 1, NULL), SKY_E_UNAVAILABLE);
    assert_int_equal(sky_scripted_count(s.far[1], SKY_OP_GET), 3);
    assert_true(sky_setting_stat(s.cache, 2).failing);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_REMOVE, 1, NULL), SKY_E_UNAVAILABLE);
    sky_one put;
    sky_one_make(&put, 1);
    put.item.name = "name";
    put.item.name_bytes = 4;
    assert_int_equal(sky_one_run(s.cache, SKY_OP_PUT, &put, NULL), SKY_E_UNAVAILABLE);
    assert_true(sky_setting_far_has(s.far[0], 1)); /* but an older one may be left there */
    put.item.name = NULL;
    put.item.name_bytes = 0;
    assert_int_equal(sky_one_run(s.cache, SKY_OP_PUT, &put, &(sky_call){.tiers = 4}), SKY_E_IO);
    sky_cache_close(s.cache);
}

static void a_newer_put_wins_in_every_tier(void **state) {
    (void)state;
    enum { PUTS = 10 };
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    static sky_one puts[PUTS];
    sky_batch batches[PUTS];
    sky_scripted_hold(s.far[0], true);
    for (uint64_t seed = 0; seed < PUTS; seed++) { /* each waits for the one before */
        sky_one_make(&puts[seed], 1);
        puts[seed].item.name = "name";
        puts[seed].item.name_bytes = 4;
        sky_fixture_fill(puts[seed].data, SKY_ONE_BYTES, seed);
        assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &puts[seed].item, 1, NULL, &batches[seed]),
                         SKY_OK);
    }
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    for (int i = 0; i < 5; i++)
        sky_setting_nap();
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_PUT), 1);
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < PUTS; i++) {
        assert_int_equal(sky_wait(s.cache, batches[i], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(puts[i].item.status, SKY_OK);
    }
    assert_true(sky_setting_far_holds(s.far[0], 1, PUTS - 1));
    assert_int_equal(sky_setting_get(s.cache, 1, PUTS - 1, NULL), 0);
    sky_cache_close(s.cache);
}

/* A tier that needs 100 ms is not at fault when it is given 20, however often. */
static void short_deadlines_say_nothing_against_a_tier(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    for (int i = 0; i < 100; i++)
        sky_setting_nap();
    assert_true(sky_scripted_answer_one(s.far[0]));
    assert_int_equal(sky_wait(s.cache, batch, SKY_TIME_NEVER), SKY_OK);
    for (uint64_t n = 2; n < 8; n++) {
        sky_call soon = {.deadline_ns = sky_now() + SKY_MS(60)};
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, n, &soon), SKY_E_DEADLINE);
    }
    assert_false(sky_setting_stat(s.cache, 1).failing);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, &(sky_call){.tiers = 2}), 1);
    sky_cache_close(s.cache);
}

static void a_removal_beats_what_is_queued(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 12; n++) /* four are on their way, eight wait */
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    sky_one first, last;
    sky_one_make(&first, 0);
    sky_one_make(&last, 11);
    sky_batch batches[2];
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &first.item, 1, NULL, &batches[0]), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &last.item, 1, NULL, &batches[1]), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sky_wait(s.cache, batches[i], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(first.item.status, SKY_OK);
    assert_int_equal(last.item.status, SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 12; n++)
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_HAS, n, NULL),
                         n == 0 || n == 11 ? SKY_MISS : SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 0) || sky_setting_far_has(s.far[0], 11));
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_REMOVE, 0, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

/* The tier's timer goes on after the answer, and fires when nobody waits for it. */
static void a_deadline_that_is_over_does_not_keep_the_cache_awake(void **state) {
    (void)state;
    sky_cache *c;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_scripted *far = sky_scripted_open(0);
    sky_tier *tier = sky_scripted_tier(far);
    sky__cache_add(c, tier);
    assert_int_equal(sky__cache_start_stepped(c), SKY_OK);
    sky_one o;
    sky_one_make(&o, 1);
    sky_batch batch;
    const sky_call call = {.deadline_ns = sky_now() + SKY_MS(20)};
    assert_int_equal(sky_submit(c, SKY_OP_GET, &o.item, 1, &call, &batch), SKY_OK);
    SKY_EVENTUALLY(sky__cache_step(c) != 0 && o.item.status != SKY_PENDING);
    struct pollfd event = {.fd = sky_tier_event_fd(tier), .events = POLLIN};
    assert_int_equal(poll(&event, 1, -1), 1);
    (void)sky__cache_step(c);
    assert_int_equal(poll(&event, 1, 0), 0);
    sky__cache_abandon(c);
}

typedef struct {
    sky_clock clock;
    sky_time now;
} test_clock;

static sky_time test_now(const sky_clock *clock) {
    return ((const test_clock *)(const void *)clock)->now;
}

static int64_t test_wall_ms(const sky_clock *clock) {
    return test_now(clock) / 1000000;
}

static void step_later(sky_cache *c, test_clock *clock, sky_time ns) {
    clock->now += ns;
    while (sky__cache_step(c) == 0)
        ;
}

/* A tier that takes 50 s for each of four values is slow. If it then brings nothing, it hangs. */
static void what_gets_on_is_not_given_up(void **state) {
    (void)state;
    enum { VALUES = 5 };
    test_clock clock = {{test_now, test_wall_ms}, sky_now()};
    sky_cache *c;
    assert_int_equal(sky__cache_create(&clock.clock, &c), SKY_OK);
    sky_scripted *far = sky_scripted_open(0);
    sky__cache_add(c, sky_scripted_tier(far));
    assert_int_equal(sky__cache_start_stepped(c), SKY_OK);
    sky_one ones[VALUES];
    sky_item items[VALUES];
    for (uint64_t n = 0; n < VALUES; n++) {
        sky_setting_plant(far, n, n);
        sky_one_make(&ones[n], n);
        items[n] = ones[n].item;
    }
    sky_scripted_hold(far, true);
    sky_batch batch;
    assert_int_equal(sky_submit(c, SKY_OP_GET, items, VALUES, NULL, &batch), SKY_OK);
    step_later(c, &clock, 0);
    for (size_t n = 0; n + 1 < VALUES; n++) {
        step_later(c, &clock, SKY_SECONDS(50));
        assert_int_equal(sky_scripted_held(far), VALUES - n);
        assert_true(sky_scripted_answer_one(far));
    }
    for (int looks = 0; looks < 4; looks++)
        step_later(c, &clock, SKY_SECONDS(50));
    assert_int_equal(sky_wait(c, batch, 1), SKY_OK);
    for (size_t n = 0; n < VALUES; n++)
        assert_int_equal(items[n].status, n + 1 < VALUES ? SKY_OK : SKY_E_DEADLINE);
    sky__cache_abandon(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hanging_tier_costs_the_deadline),
        cmocka_unit_test(a_cancelled_batch_lets_go_of_its_buffers),
        cmocka_unit_test(a_failing_tier_is_left_out_and_tried_again),
        cmocka_unit_test(what_fails_behind_a_tier_is_no_failure_of_it),
        cmocka_unit_test(a_store_of_others_that_is_away_is_unavailable),
        cmocka_unit_test(a_newer_put_wins_in_every_tier),
        cmocka_unit_test(a_deadline_that_is_over_does_not_keep_the_cache_awake),
        cmocka_unit_test(short_deadlines_say_nothing_against_a_tier),
        cmocka_unit_test(a_removal_beats_what_is_queued),
        cmocka_unit_test(what_gets_on_is_not_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
