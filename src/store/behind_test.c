/* Proves: puts reach the farther tiers behind the answer, the queue is bounded and counts what it
 * drops, victims go down one tier unless they are there, and no tier keeps an outdated value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/hierarchy_fixture.h"

static void puts_are_written_behind(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 20; n++)
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(sky_flush(s.cache, sky_now() + SKY_MS(5)), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 20; n++)
        assert_true(sky_setting_far_holds(s.far[0], n, n) && sky_setting_far_holds(s.far[1], n, n));
    assert_int_equal(sky_setting_stat(s.cache, 1).dropped, 0);
    sky_cache_close(s.cache);
}

static void a_full_queue_drops_and_counts(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 1);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 20; n++) /* 50 KiB of 5000 bytes are queued */
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(sky_setting_stat(s.cache, 1).dropped, 10);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 10; n++)
        assert_true(sky_setting_far_holds(s.far[0], n, n));
    sky_scripted_say(s.far[0], SKY_E_FULL);
    assert_int_equal(sky_setting_put(s.cache, 30, 30, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(sky_setting_stat(s.cache, 1).dropped, 11);
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

/* The value of a name changes; a tier that did not get the new one must not keep the old one. */
static void a_dropped_write_leaves_no_older_value(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 1);
    assert_int_equal(put_named(s.cache, 1, 1), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 1));
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 10; n < 20; n++) /* the queue is full */
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(put_named(s.cache, 1, 2), SKY_OK);
    assert_int_equal(sky_setting_stat(s.cache, 1).dropped, 1);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 1));
    assert_int_equal(sky_setting_get(s.cache, 1, 2, NULL), 0);
    sky_cache_close(s.cache);
}

/* The same when the tier itself refuses it; but not when a still newer one is on its way. */
static void a_refused_write_leaves_no_older_value(void **state) {
    (void)state;
    for (int newer = 0; newer < 2; newer++) {
        sky_setting s = sky_setting_open("mem:100KiB", 1);
        assert_int_equal(put_named(s.cache, 1, 1), SKY_OK);
        assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
        sky_scripted_hold(s.far[0], true);
        assert_int_equal(put_named(s.cache, 1, 2), SKY_OK);
        SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
        if (newer)
            assert_int_equal(put_named(s.cache, 1, 3), SKY_OK);
        sky_scripted_say(s.far[0], SKY_E_FULL);
        assert_true(sky_scripted_answer_one(s.far[0]));
        sky_scripted_say(s.far[0], SKY_OK);
        sky_scripted_hold(s.far[0], false);
        assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
        assert_int_equal(sky_setting_far_has(s.far[0], 1), newer);
        assert_int_equal(sky_setting_get(s.cache, 1, newer ? 3 : 2, NULL), 0);
        assert_int_equal(sky_setting_stat(s.cache, 1).dropped, 1);
        sky_cache_close(s.cache);
    }
}

static void victims_go_down_unless_they_are_there(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 2);
    enum { PUTS = 30 };
    for (uint64_t n = 0; n < PUTS; n++)
        assert_int_equal(sky_setting_put(s.cache, n, n, &SKY_NEAR_ONLY), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    uint64_t down = 0;
    for (uint64_t n = 0; n < PUTS; n++) {
        bool near = sky_setting_near_has(s.cache, n);
        assert_int_equal(sky_setting_far_holds(s.far[0], n, n), !near);
        assert_false(sky_setting_far_has(s.far[1], n));
        down += !near;
    }
    assert_true(down >= PUTS / 3);
    size_t looks = sky_scripted_count(s.far[0], SKY_OP_HAS);
    assert_int_equal(looks, down);
    for (uint64_t n = 100; n < 100 + PUTS; n++) { /* written behind, so not even asked for */
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
        assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    }
    assert_true(sky_scripted_count(s.far[0], SKY_OP_HAS) <= PUTS);
    sky_cache_close(s.cache);
}

static void a_removal_takes_a_queued_name_back(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    sky_one o;
    for (uint64_t n = 0; n < 6; n++) {
        sky_one_make(&o, n);
        o.item.name = "name";
        o.item.name_bytes = 4;
        assert_int_equal(sky_one_run(s.cache, SKY_OP_PUT, &o, NULL), SKY_OK);
    }
    sky_one_make(&o, 5);
    sky_batch batch;
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 5));
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_PUT), 5);
    sky_cache_close(s.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_are_written_behind),
        cmocka_unit_test(a_full_queue_drops_and_counts),
        cmocka_unit_test(a_dropped_write_leaves_no_older_value),
        cmocka_unit_test(a_refused_write_leaves_no_older_value),
        cmocka_unit_test(victims_go_down_unless_they_are_there),
        cmocka_unit_test(a_removal_takes_a_queued_name_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
