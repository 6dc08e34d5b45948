/* Proves: the monotonic clock runs forward at the pace of the wall clock, which knows the date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "io/clock.h"

static void both_clocks_run_alike(void **state) {
    (void)state;
    const sky_clock *clock = sky_clock_system();
    sky_time begin_ns = clock->now(clock);
    int64_t begin_ms = clock->wall_ms(clock);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    int64_t wall_ms = clock->wall_ms(clock) - begin_ms;
    int64_t elapsed_ms = (clock->now(clock) - begin_ns) / 1000000;
    assert_in_range(elapsed_ms, 20, 60000);
    assert_in_range(wall_ms, 19, elapsed_ms + 1);
}

static void now_is_the_same_clock(void **state) {
    (void)state;
    const sky_clock *clock = sky_clock_system();
    sky_time before = clock->now(clock), between = sky_now(), after = clock->now(clock);
    assert_true(before <= between && between <= after);
}

static void the_wall_clock_counts_from_1970(void **state) {
    (void)state;
    const sky_clock *clock = sky_clock_system();
    int64_t before_s = time(NULL), wall_s = clock->wall_ms(clock) / 1000, after_s = time(NULL);
    assert_true(before_s - 1 <= wall_s && wall_s <= after_s + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_clocks_run_alike),
        cmocka_unit_test(now_is_the_same_clock),
        cmocka_unit_test(the_wall_clock_counts_from_1970),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
