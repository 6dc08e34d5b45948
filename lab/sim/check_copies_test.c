/* Proves that a chunk is explained to be gone when crashes took all its copies before one could be
 * made again, or soon after it was set, and not when there was time to make one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/sim/check_copies.h"

enum { KEY = 2, OTHER = 1, KEYS = 4, CHUNKS = 3, VERSION = 7, REPAIR = 100 };

static sky_check_copies begin(void) {
    sky_check_copies c;
    assert_int_equal(sky_check_copies_init(&c, KEYS, CHUNKS, REPAIR), SKY_OK);
    return c;
}

static void crash(sky_check_copies *c, uint32_t number, sky_time set_at, bool last, sky_time now) {
    const sky_check_copy copy = {KEY, number, VERSION, set_at, last};
    sky_check_copies_taken(c, &copy, now);
}

static void two_crashes_at_a_time_explain_a_loss(void **state) {
    (void)state;
    sky_check_copies c = begin();
    sky_check_copies_quiet(&c, 1000);
    crash(&c, 3, 10, false, 1000);
    assert_false(sky_check_copies_explained(&c, KEY, VERSION));
    crash(&c, 3, 10, true, 1018);
    assert_true(sky_check_copies_explained(&c, KEY, VERSION));
    assert_false(sky_check_copies_explained(&c, KEY, VERSION + 1));
    assert_false(sky_check_copies_explained(&c, OTHER, VERSION));
    sky_check_copies_deinit(&c);
}

/* There was time for the other copy, although others crashed shortly before the last one went. */
static void a_copy_that_stayed_away_explains_nothing(void **state) {
    (void)state;
    sky_check_copies c = begin();
    crash(&c, 3, 10, false, 1000);
    crash(&c, 2, 10, false, 1000);
    sky_check_copies_quiet(&c, 1200);
    crash(&c, 1, 10, false, 1200);
    crash(&c, 3, 10, true, 1218);
    assert_false(sky_check_copies_explained(&c, KEY, VERSION));
    crash(&c, 2, 10, false, 1230); /* it was made again, and goes again */
    crash(&c, 2, 10, true, 1240);
    assert_true(sky_check_copies_explained(&c, KEY, VERSION));
    sky_check_copies_deinit(&c);
}

static void a_value_just_set_may_have_one_copy(void **state) {
    (void)state;
    for (int fresh = 0; fresh < 2; fresh++) {
        sky_check_copies c = begin();
        sky_check_copies_quiet(&c, 1000);
        crash(&c, 1, 1000 - REPAIR - !fresh, true, 1000);
        assert_int_equal(sky_check_copies_explained(&c, KEY, VERSION), fresh);
        sky_check_copies_deinit(&c);
    }
}

/* Copies that were moved may have met on one satellite. */
static void a_value_just_moved_may_have_one_copy(void **state) {
    (void)state;
    for (int fresh = 0; fresh < 2; fresh++) {
        sky_check_copies c = begin();
        sky_check_copies_moved(&c, KEY, 1000 - REPAIR - !fresh);
        sky_check_copies_moved(&c, OTHER, 1000);
        sky_check_copies_quiet(&c, 1000);
        crash(&c, 1, 10, true, 1000);
        assert_int_equal(sky_check_copies_explained(&c, KEY, VERSION), fresh);
        sky_check_copies_deinit(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_crashes_at_a_time_explain_a_loss),
        cmocka_unit_test(a_copy_that_stayed_away_explains_nothing),
        cmocka_unit_test(a_value_just_set_may_have_one_copy),
        cmocka_unit_test(a_value_just_moved_may_have_one_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
