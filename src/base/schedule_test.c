/* Proves that events come in order of time and then of setting, whatever is set, moved and taken
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/schedule.h"

#define IDS 200u

static void events_come_in_order(void **state) {
    (void)state;
    sky_schedule s;
    assert_int_equal(sky_schedule_init(&s, IDS), SKY_OK);
    assert_int_equal(sky_schedule_next(&s), SKY_TIME_NEVER);
    for (uint32_t id = 0; id < IDS; id++)
        sky_schedule_set(&s, id, id * 7 % 10);
    for (uint32_t id = 0; id < IDS; id++)
        sky_schedule_set(&s, id, id * 7 % 10); /* the same again keeps its turn */
    sky_schedule_set(&s, 3, SKY_TIME_NEVER);
    sky_schedule_set(&s, 3, SKY_TIME_NEVER);
    sky_event last = {.at = -1};
    for (uint32_t i = 0; i + 1 < IDS; i++) {
        assert_true(sky_schedule_next(&s) >= last.at);
        sky_event e = sky_schedule_pop(&s);
        assert_true(e.at > last.at || (e.at == last.at && e.id > last.id));
        assert_int_equal(e.at, e.id * 7 % 10);
        last = e;
    }
    assert_int_equal(s.count, 0);
    sky_schedule_deinit(&s);
}

/* Against a table that is searched from end to end. */
static void it_agrees_with_a_plain_table(void **state) {
    (void)state;
    sky_schedule s;
    sky_time at[IDS];
    uint64_t order[IDS], orders = 0;
    sky_prng prng;
    sky_prng_init(&prng, 5);
    assert_int_equal(sky_schedule_init(&s, IDS), SKY_OK);
    for (uint32_t id = 0; id < IDS; id++)
        at[id] = SKY_TIME_NEVER;
    for (int round = 0; round < 50000; round++) {
        uint32_t id = (uint32_t)sky_prng_below(&prng, IDS);
        uint64_t what = sky_prng_below(&prng, 8);
        if (what < 5 || (what == 5 && at[id] != SKY_TIME_NEVER)) {
            sky_time when = what == 5 ? SKY_TIME_NEVER : (sky_time)sky_prng_below(&prng, 100);
            sky_schedule_set(&s, id, when);
            if (when != at[id])
                order[id] = orders++;
            at[id] = when;
            continue;
        }
        uint32_t first = IDS;
        for (uint32_t i = 0; i < IDS; i++) {
            if (at[i] != SKY_TIME_NEVER && (first == IDS || at[i] < at[first] ||
                                            (at[i] == at[first] && order[i] < order[first])))
                first = i;
        }
        assert_int_equal(sky_schedule_next(&s), first == IDS ? SKY_TIME_NEVER : at[first]);
        if (first == IDS)
            continue;
        assert_int_equal(sky_schedule_pop(&s).id, first);
        at[first] = SKY_TIME_NEVER;
    }
    sky_schedule_deinit(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_in_order),
        cmocka_unit_test(it_agrees_with_a_plain_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
