/* Proves that what is to be made again is given as many rounds as leave hardly anything to chance:
 * few where nothing gets lost, more the more is lost and the longer the messages are, and no more
 * than that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lab/sim/check_rounds.h"

/* A turn every two minutes: a round takes one, and the first comes 10 s after a turn. */
static sky_scenario scenario_with(double loss) {
    sky_scenario s = {.chunk_bytes = 6144, .time = {.rotation_ns = SKY_SECONDS(120)}};
    s.workload.keys = 30;
    s.workload.value_bytes = 20000;
    s.links.loss = loss;
    return s;
}

static uint32_t repairs(const sky_scenario *s) {
    return (uint32_t)((sky_check_repair_ns(s) - SKY_SECONDS(20)) / SKY_SECONDS(60));
}

static void copies_are_given_rounds(void **state) {
    (void)state;
    sky_scenario s = scenario_with(0);
    assert_int_equal(repairs(&s), 3);
    s = scenario_with(0.001);
    assert_int_equal(repairs(&s), 10);
    s = scenario_with(0.1);
    assert_int_equal(repairs(&s), 49); /* 1 - 0.9^10 = 0.651, and its 48th power is 1.1e-9 */
    s.links.datagrams = true;
    assert_int_equal(repairs(&s), 10);
    s.links.datagrams = false;
    s.workload.value_bytes = 100;
    assert_int_equal(repairs(&s), 24); /* the same of 1 - 0.9^5 = 0.410 */
    s.links.isl_loss = 0.001;
    assert_int_equal(repairs(&s), 10);
    s = scenario_with(0.99);
    assert_true(sky_check_repair_ns(&s) > SKY_SECONDS(1000 * 3600)); /* for good */
}

static uint32_t patrols(const sky_scenario *s) {
    return (uint32_t)(sky_check_mend_ns(s) / SKY_SECONDS(600));
}

static void pieces_are_given_rounds(void **state) {
    (void)state;
    sky_scenario s = scenario_with(0);
    assert_int_equal(patrols(&s), 2);
    s.elevation_count = 2;
    s.elevations[1].quality.loss = 0.1;
    assert_int_equal(patrols(&s), 7); /* of four pieces, 0.9^6 each, none arrives: 0.048 */
    s.workload.value_bytes = 2048;
    assert_int_equal(patrols(&s), 4);
    s.elevations[1].quality.loss = 0.283; /* 0.9 of the checks, and 0.94 of the pieces: 0.85 */
    assert_int_equal(patrols(&s), 11);
    s.links.datagrams = true;
    assert_int_equal(patrols(&s), 4);
    s.weather_count = 1;
    s.weathers[0].to_ns = SKY_SECONDS(1200);
    assert_int_equal(patrols(&s), 6);
    s.workload.keys = 1200;
    assert_int_equal(patrols(&s), 4 * 2 + 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_given_rounds),
        cmocka_unit_test(pieces_are_given_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
