/* Proves: blocks reach the farther tiers behind the answer; where a queue is full a put waits for
 * the tier, or goes without it if its caller wants that; what tiers do not take is counted and told
 * by flush; and values under names are in every tier, or not older anywhere, when a put is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache/hierarchy_fixture.h"

static void blocks_are_written_back(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 20; n++)
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(sky_flush(s.cache, sky_now() + SKY_MS(5), NULL), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 20; n++)
        assert_true(sky_setting_far_holds(s.far[0], n, n) && sky_setting_far_holds(s.far[1], n, n));
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_DROPPED), 0);
    sky_cache_close(s.cache);
}

static uint64_t flush_dropped(sky_cache *c, sky_status wanted) {
    uint64_t dropped = UINT64_MAX;
    assert_int_equal(sky_flush(c, sky_now() + SKY_TEST_PATIENCE, &dropped), wanted);
    return dropped;
}

static void a_full_queue_drops_for_those_who_want_it(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 1);
    sky_scripted_hold(s.far[0], true);
    const sky_call drop = {.drop = true};
    for (uint64_t n = 0; n < 20; n++) /* 50 KiB of 5000 bytes are queued */
        assert_int_equal(sky_setting_put(s.cache, n, n, &drop), SKY_OK);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_DROPPED), 10);
    uint64_t dropped = 0;
    assert_int_equal(sky_flush(s.cache, sky_now() + SKY_MS(5), &dropped), SKY_E_DEADLINE);
    assert_int_equal(dropped, 10);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(flush_dropped(s.cache, SKY_E_FULL), 10); /* it was not the end of that flush */
    assert_int_equal(flush_dropped(s.cache, SKY_OK), 0);      /* told once */
    for (uint64_t n = 0; n < 10; n++)
        assert_true(sky_setting_far_holds(s.far[0], n, n));
    sky_scripted_say(s.far[0], SKY_E_IO);
    assert_int_equal(sky_setting_put(s.cache, 30, 30, NULL), SKY_OK);
    assert_int_equal(flush_dropped(s.cache, SKY_E_IO), 1);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_DROPPED), 11);
    sky_cache_close(s.cache);
}

/* Puts as fast as possible into a tier that takes one at a time: all arrive. */
static void a_full_queue_makes_puts_wait(void **state) {
    (void)state;
    enum { PUTS = 40 };
    sky_setting s = sky_setting_open("mem:100KiB", 1);
    sky_scripted_hold(s.far[0], true);
    static sky_one ones[PUTS];
    sky_batch batches[PUTS];
    size_t done = 0;
    for (uint64_t n = 0; n < PUTS; n++) {
        sky_one_make(&ones[n], n);
        sky_fixture_fill(ones[n].data, SKY_ONE_BYTES, n);
        assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &ones[n].item, 1, NULL, &batches[n]),
                         SKY_OK);
        done += ones[n].item.status == SKY_OK;
    }
    assert_int_equal(done, 10); /* that is what half of memory holds */
    sky_call soon = {.deadline_ns = sky_now() + SKY_MS(20)};
    assert_int_equal(sky_setting_put(s.cache, 100, 100, &soon), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[0], false);
    for (uint64_t n = 0; n < PUTS; n++) {
        assert_int_equal(sky_wait(s.cache, batches[n], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(ones[n].item.status, SKY_OK);
    }
    assert_int_equal(flush_dropped(s.cache, SKY_OK), 0);
    for (uint64_t n = 0; n < PUTS; n++)
        assert_true(sky_setting_far_holds(s.far[0], n, n));
    sky_cache_close(s.cache);
}

static sky_status put_named(sky_cache *c, uint64_t n, uint64_t seed) {
    sky_one o;
    sky_one_make(&o, n);
    o.item.name = "name";
    o.item.name_bytes = 4;
    sky_fixture_fill(o.data, SKY_ONE_BYTES, seed);
    return sky_one_run(c, SKY_OP_PUT, &o, NULL);
}

/* A full queue is no reason to leave an older value where it is. */
static void a_name_is_written_past_a_full_queue(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 1);
    assert_int_equal(put_named(s.cache, 1, 1), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 1)); /* nothing to wait for */
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 10; n < 20; n++)
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    o.item.name = "name";
    o.item.name_bytes = 4;
    sky_fixture_fill(o.data, SKY_ONE_BYTES, 2);
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &o.item, 1, &(sky_call){.drop = true}, &batch),
                     SKY_OK);
    sky_setting_nap();
    assert_int_equal(o.item.status, SKY_PENDING);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 2));
    sky_cache_close(s.cache);
}

/* A tier that refuses the new value gives up the old one, if another one keeps the new; if that
 * fails, or there is no other, the put has failed. */
static void a_refused_name_leaves_no_older_value(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 2);
    sky_key key = sky_fixture_key(1);
    assert_int_equal(put_named(s.cache, 1, 1), SKY_OK);
    sky_scripted_refuse(s.far[0], &key, SKY_E_FULL);
    assert_int_equal(put_named(s.cache, 1, 2), SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 1));
    assert_true(sky_setting_far_holds(s.far[1], 1, 2));
    assert_int_equal(sky_setting_get(s.cache, 1, 2, NULL), 0);
    sky_scripted_refuse(s.far[0], &key, SKY_E_FULL);
    sky_scripted_refuse(s.far[1], &key, SKY_E_FULL);
    assert_int_equal(put_named(s.cache, 1, 3), SKY_E_FULL);
    assert_int_equal(sky_setting_get(s.cache, 1, 2, NULL), 2); /* as it was */
    sky_scripted_say(s.far[0], SKY_E_IO);
    assert_int_equal(put_named(s.cache, 1, 4), SKY_E_IO); /* an old one may be left there */
    sky_cache_close(s.cache);
}

/* One put, tier by tier down, while nobody is there to remind it. */
static void a_skipped_tier_costs_names_their_put(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_say(s.far[0], SKY_E_IO);
    for (uint64_t n = 0; n < 3; n++)
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, n, NULL), SKY_E_IO);
    assert_true(sky_setting_stat(s.cache, 1).failing);
    assert_int_equal(put_named(s.cache, 1, 1), SKY_E_IO); /* it may have an older value */
    assert_int_equal(sky_setting_put(s.cache, 2, 2, NULL), SKY_OK);
    assert_int_equal(flush_dropped(s.cache, SKY_E_IO), 1);
    sky_cache_close(s.cache);
}

static void a_removal_comes_after_a_name_under_way(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    sky_one put, rm;
    sky_batch batches[2];
    sky_one_make(&put, 5);
    put.item.name = "name";
    put.item.name_bytes = 4;
    rm = put;
    rm.item.spans = NULL;
    rm.item.span_count = 0;
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &put.item, 1, NULL, &batches[0]), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &rm.item, 1, NULL, &batches[1]), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sky_wait(s.cache, batches[i], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(put.item.status, SKY_OK);
    assert_int_equal(rm.item.status, SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 5));
    assert_false(sky_setting_near_has(s.cache, 5));
    sky_cache_close(s.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_written_back),
        cmocka_unit_test(a_full_queue_drops_for_those_who_want_it),
        cmocka_unit_test(a_full_queue_makes_puts_wait),
        cmocka_unit_test(a_name_is_written_past_a_full_queue),
        cmocka_unit_test(a_refused_name_leaves_no_older_value),
        cmocka_unit_test(a_skipped_tier_costs_names_their_put),
        cmocka_unit_test(a_removal_comes_after_a_name_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
