/* Proves that a habit is learnt from gaps: the next use of what comes at regular times is hit, a
 * change of rhythm is followed within some uses, and a block that nobody knows is expected as all
 * others are. */
#include "ground/habit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_rhythm_is_learnt(void **state) {
    (void)state;
    sky_habit own = {0}, all = {0};
    int64_t now = 1000000;
    assert_int_equal(sky_habit_next_ms(&own, &all, now), now);
    for (int i = 0; i < 5; i++, now += 60000)
        sky_habit_note(&own, &all, now);
    now -= 60000;
    assert_int_equal(sky_habit_next_ms(&own, &all, now), now + 60000);
    for (int i = 0; i < 20; i++)
        sky_habit_note(&own, &all, now += 10000);
    int64_t next = sky_habit_next_ms(&own, &all, now);
    assert_in_range(next, now + 10000, now + 10500);
}

static void a_stranger_is_expected_as_all_are(void **state) {
    (void)state;
    sky_habit known = {0}, stranger = {0}, all = {0};
    sky_habit_note(&known, &all, 5000);
    sky_habit_note(&known, &all, 8000);
    sky_habit_note(&stranger, &all, 9000);
    assert_int_equal(stranger.gap_ms, 0);
    assert_int_equal(sky_habit_next_ms(&stranger, &all, 9000), 12000);
}

static void clocks_that_go_back_teach_nothing(void **state) {
    (void)state;
    sky_habit own = {0}, all = {0};
    sky_habit_note(&own, &all, 9000);
    sky_habit_note(&own, &all, 4000);
    assert_int_equal(own.gap_ms, 0);
    sky_habit_note(&own, &all, 6000);
    sky_habit_note(&own, &all, 6000); /* twice at once */
    assert_int_equal(own.gap_ms, 2000);
    own.gap_ms = INT64_MAX - 5;
    assert_int_equal(sky_habit_next_ms(&own, &all, 6000), INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rhythm_is_learnt),
        cmocka_unit_test(a_stranger_is_expected_as_all_are),
        cmocka_unit_test(clocks_that_go_back_teach_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
