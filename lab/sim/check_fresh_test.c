/* Proves that the checker of freshness knows what is too old: by an acknowledged put of any ground,
 * by what another get showed, and not where puts overlap, nothing is known yet, or a fault took
 * what was known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/sim/check_fresh.h"

enum { KEY = 2, OTHER = 1 };

static sky_check_fresh begin(void) {
    sky_check_fresh c;
    assert_int_equal(sky_check_fresh_init(&c, 4), SKY_OK);
    return c;
}

static void put(sky_check_fresh *c, uint32_t version, sky_time from, sky_time to, bool stored) {
    assert_int_equal(sky_check_fresh_put_begins(c, KEY, version, from), SKY_OK);
    sky_check_fresh_put_ends(c, KEY, version, to, stored);
}

static bool get(sky_check_fresh *c, uint32_t version) {
    return sky_check_fresh_shown(c, KEY, version, sky_check_fresh_floor(c, KEY));
}

static void what_was_over_before_a_known_put_is_too_old(void **state) {
    (void)state;
    sky_check_fresh c = begin();
    put(&c, 1, 10, 20, true);
    assert_true(get(&c, 1));
    sky_time floor = sky_check_fresh_floor(&c, KEY);
    put(&c, 2, 30, 40, true);
    assert_true(sky_check_fresh_shown(&c, KEY, 1, floor)); /* it began before 2 was known */
    assert_true(get(&c, 2));
    assert_false(get(&c, 1));
    assert_int_equal(c.older, 1);
    assert_int_equal(c.judged, 4);
    assert_int_equal(sky_check_fresh_floor(&c, OTHER), -1);
    sky_check_fresh_deinit(&c);
}

static void of_puts_that_overlap_either_may_be_later(void **state) {
    (void)state;
    sky_check_fresh c = begin();
    assert_int_equal(sky_check_fresh_put_begins(&c, KEY, 1, 10), SKY_OK);
    assert_int_equal(sky_check_fresh_put_begins(&c, KEY, 2, 15), SKY_OK);
    sky_check_fresh_put_ends(&c, KEY, 2, 18, true);
    sky_check_fresh_put_ends(&c, KEY, 1, 20, true);
    assert_true(get(&c, 1) && get(&c, 2) && get(&c, 1));
    put(&c, 3, 19, 30, true); /* after 2, not after 1 */
    assert_true(get(&c, 1));
    assert_false(get(&c, 2));
    sky_check_fresh_deinit(&c);
}

static void what_a_get_showed_is_known(void **state) {
    (void)state;
    sky_check_fresh c = begin();
    put(&c, 1, 10, 20, true);
    assert_int_equal(sky_check_fresh_put_begins(&c, KEY, 2, 30), SKY_OK);
    assert_true(get(&c, 1)); /* 2 is under way */
    assert_true(get(&c, 2));
    assert_false(get(&c, 1)); /* another ground, later, sees less */
    sky_check_fresh_deinit(&c);
}

static void a_put_that_failed_is_over_and_tells_nothing(void **state) {
    (void)state;
    sky_check_fresh c = begin();
    put(&c, 1, 10, 20, true);
    put(&c, 2, 30, 40, false);
    assert_true(get(&c, 1));
    put(&c, 3, 50, 60, true);
    assert_false(get(&c, 2));
    assert_true(get(&c, 3));
    sky_check_fresh_deinit(&c);
}

static void a_fault_may_bring_the_old_to_light(void **state) {
    (void)state;
    sky_check_fresh c = begin();
    put(&c, 1, 10, 20, true);
    put(&c, 2, 30, 40, true);
    sky_time floor = sky_check_fresh_floor(&c, KEY);
    sky_check_fresh_forget(&c, KEY, 50);
    assert_true(get(&c, 1) && sky_check_fresh_shown(&c, KEY, 1, floor));
    put(&c, 3, 60, 70, true);
    assert_false(get(&c, 1));
    sky_check_fresh_deinit(&c);
}

static void versions_without_number_are_kept(void **state) {
    (void)state;
    sky_check_fresh c = begin();
    for (uint32_t v = 1; v <= 1000; v++)
        put(&c, v, 10 * v, 10 * v + 5, true);
    assert_true(get(&c, 1000));
    assert_false(get(&c, 999) || get(&c, 1));
    sky_check_fresh_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_over_before_a_known_put_is_too_old),
        cmocka_unit_test(of_puts_that_overlap_either_may_be_later),
        cmocka_unit_test(what_a_get_showed_is_known),
        cmocka_unit_test(a_put_that_failed_is_over_and_tells_nothing),
        cmocka_unit_test(a_fault_may_bring_the_old_to_light),
        cmocka_unit_test(versions_without_number_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
