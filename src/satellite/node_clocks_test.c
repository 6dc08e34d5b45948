/* Proves that satellites whose clocks differ do not give a chunk to and fro around a turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5};
static const sky_satellite centre = {3, 4};

/* A chunk that is on `giver` in the first turn, and here in the next. */
static sky_message soon_here(const sky_satellite giver) {
    sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, giver);
    m.facts.centre = (sky_satellite){3, 7};
    return m;
}

static void given(bench *b, sky_time now, const sky_message *m, sky_satellite giver) {
    sky_message out;
    bench_tell_from(b, now, m, giver);
    assert_true(bench_hear(b, now, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE_ACK);
    assert_int_equal(out.outcome, SKY_STORED);
}

/* To us it is still the giver's, whose clock is ahead: it stays. Another giver's clock says nothing
 * about that place, so then the chunk goes to where it belongs. */
static void what_stayed_for_one_giver_moves_on_for_another(void **state) {
    (void)state;
    const sky_satellite ahead = {3, 8};
    bench b;
    bench_open(&b, 4);
    sky_message in = soon_here(ahead), out;
    for (int said = 0; said < 2; said++) {
        given(&b, 0, &in, ahead);
        bench_silent(&b, 0);
    }
    given(&b, 0, &in, centre);
    assert_true(bench_hear(&b, 0, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(sky_satellite_equal(b.to, ahead));
    assert_int_equal(sky_node_chunks(&b.node), 1);
    bench_close(&b);
}

/* Each has a copy, and each clock says that the other should. The one that is behind keeps its own,
 * whatever it hears of what it had sent, and by its next turn it is right. */
static void of_two_that_give_each_other_one_keeps(void **state) {
    (void)state;
    const sky_satellite ahead = {3, 8};
    bench b;
    bench_open(&b, 4);
    sky_message in = soon_here(ahead), acknowledged;
    given(&b, 0, &in, centre);
    acknowledged = bench_taken(&b, 0);
    assert_true(sky_satellite_equal(b.to, ahead));
    given(&b, 0, &in, ahead);
    bench_tell_from(&b, 0, &acknowledged, ahead);
    bench_run(&b, BENCH_TURN_NS);
    bench_silent(&b, BENCH_TURN_NS);
    assert_int_equal(sky_node_chunks(&b.node), 1);
    assert_int_equal(b.node.stat.migrate_retries, 0);
    bench_close(&b);
}

/* It was here, and by now is the giver's, whose clock is behind: it goes back, once for each time
 * that it comes. */
static void what_comes_from_a_clock_behind_goes_back(void **state) {
    (void)state;
    const sky_satellite behind = {3, 2}; /* its place in this turn */
    bench b;
    bench_open(&b, 4);
    sky_message in = bench_set(SKY_WIRE_MIGRATE, 1, here), taken;
    for (int said = 0; said < 2; said++) {
        given(&b, BENCH_TURN_NS, &in, behind);
        taken = bench_taken(&b, BENCH_TURN_NS + said * SKY_MS(1));
        assert_true(sky_satellite_equal(b.to, behind));
        bench_silent(&b, BENCH_TURN_NS + SKY_MS(1));
    }
    bench_tell_from(&b, BENCH_TURN_NS + SKY_MS(1), &taken, behind);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    given(&b, 2 * BENCH_TURN_NS - 1, &in, behind); /* who comes back soon has a clock ahead */
    bench_silent(&b, 2 * BENCH_TURN_NS - 1);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stayed_for_one_giver_moves_on_for_another),
        cmocka_unit_test(of_two_that_give_each_other_one_keeps),
        cmocka_unit_test(what_comes_from_a_clock_behind_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
