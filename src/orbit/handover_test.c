/* Proves who is overhead: the window's centre follows its mesh in both directions, at the rate the
 * orbits give, over the wrap of planes and slots, and says when nothing can be seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/ground.h"
#include "orbit/torus.h"

#define ROWS 8192
static const int64_t start = 1795132800000;

static void neighbours_stay_neighbours_over_the_wrap(void **state) {
    (void)state;
    sky_constellation c = {.planes = 72, .slots = 22, .phasing = 17};
    sky_satellite s = sky__untwist(&c, 73, 1);
    assert_true(s.plane == 1 && s.slot == 18);
    s = sky__untwist(&c, 0, 5);
    assert_true(s.plane == 72 && s.slot == 10);
    s = sky__untwist(&c, 1 + 72 * 22, 3);
    assert_true(s.plane == 1 && s.slot == 3);
    s = sky__untwist(&c, -1000000 * 72LL + 1, -22000001);
    assert_true(s.plane >= 1 && s.plane <= 72 && s.slot >= 1 && s.slot <= 22);
    for (int64_t plane = -200; plane < 200; plane++) {
        for (int64_t slot = -50; slot < 50; slot += 7) {
            sky_satellite a = sky__untwist(&c, plane, slot);
            sky_satellite b = sky__untwist(&c, plane + 72, slot - 17);
            assert_true(a.plane == b.plane && a.slot == b.slot);
        }
    }
}

static size_t follow_day(const char *shell, double latitude, double mask, double hysteresis,
                         sky_handover *rows, sky_handover_plan *plan) {
    sky_fleet *f;
    assert_int_equal(sky_fleet_walker(&sky_shell_find(shell)->constellation, start, &f, NULL),
                     SKY_OK);
    sky_observer o = {.latitude_deg = latitude, .longitude_deg = 8, .min_elevation_deg = mask};
    *plan = (sky_handover_plan){
        .start_ms = start, .slot_ms = SKY_HANDOVER_MS, .turns = 5760, .hysteresis_deg = hysteresis};
    size_t count = sky_fleet_handovers(f, &o, plan, rows, ROWS);
    sky_fleet_destroy(f);
    assert_in_range(count, 1, ROWS);
    return count;
}

/* In a day 331 slots pass (one each 260.9 s) and 73 planes (one each 1182 s). */
static void the_centre_moves_as_the_orbits_say(void **state) {
    (void)state;
    static sky_handover rows[ROWS];
    static const double latitudes[] = {-40, 0, 30, 47.6};
    for (size_t i = 0; i < 4; i++) {
        sky_handover_plan plan;
        size_t count = follow_day("starlink-a", latitudes[i], 25, 3, rows, &plan);
        assert_int_equal(plan.blind_turns, 0);
        for (size_t k = 1; k < count; k++) {
            assert_true(rows[k].turn > rows[k - 1].turn);
            assert_false(rows[k].jump);
        }
        int planes = rows[count - 1].plane - rows[0].plane;
        int slots = rows[count - 1].slot - rows[0].slot;
        /* Planes lead by F slots a round: 73 planes are 73·17/72 slots more to come by. */
        assert_in_range(planes, 71, 75);
        assert_in_range(-slots, 331 + 17 - 4, 331 + 17 + 4);
    }
}

static void nothing_is_seen_from_the_pole(void **state) {
    (void)state;
    static sky_handover rows[ROWS];
    sky_handover_plan plan;
    assert_int_equal(follow_day("kuiper-b", 85, 25, 3, rows, &plan), 1);
    assert_int_equal(plan.blind_turns, 5760);
}

static void a_polar_shell_jumps_at_its_seam(void **state) {
    (void)state;
    static sky_handover rows[ROWS];
    sky_handover_plan plan;
    size_t count = follow_day("oneweb", 30, 25, 3, rows, &plan);
    uint32_t jumps = 0;
    for (size_t k = 0; k < count; k++)
        jumps += rows[k].jump;
    assert_in_range(jumps, 1, 40); /* the seam passes twice a day */
    assert_int_equal(plan.blind_turns, 0);
}

static void hysteresis_spares_moves(void **state) {
    (void)state;
    static sky_handover rows[ROWS];
    sky_handover_plan plan;
    size_t restless = follow_day("starlink-a", 30, 25, 0, rows, &plan);
    size_t calm = follow_day("starlink-a", 30, 25, 10, rows, &plan);
    assert_true(calm < restless);
}

static void a_centre_is_above_the_mask(void **state) {
    (void)state;
    static sky_handover rows[ROWS];
    sky_handover_plan plan;
    size_t count = follow_day("kuiper-a", 45, 25, 3, rows, &plan);
    sky_fleet *f;
    const sky_constellation *c = &sky_shell_find("kuiper-a")->constellation;
    assert_int_equal(sky_fleet_walker(c, start, &f, NULL), SKY_OK);
    sky_observer o = {.latitude_deg = 45, .longitude_deg = 8, .min_elevation_deg = 25};
    uint64_t below = 0;
    size_t row = 0;
    for (uint64_t turn = 0; turn < plan.turns; turn++) {
        row += row + 1 < count && rows[row + 1].turn <= turn;
        uint32_t n = sky_fleet_number(f, sky__untwist(c, rows[row].plane, rows[row].slot));
        sky_motion s;
        int64_t ms = start + (int64_t)turn * SKY_HANDOVER_MS;
        assert_int_equal(sky_fleet_state(f, n, ms, &s), SKY_ORBIT_FINE);
        below += sky_observer_look(&o, ms, s.r_km).elevation_deg < 25;
    }
    assert_int_equal(below, plan.blind_turns);
    sky_fleet_destroy(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_stay_neighbours_over_the_wrap),
        cmocka_unit_test(the_centre_moves_as_the_orbits_say),
        cmocka_unit_test(nothing_is_seen_from_the_pole),
        cmocka_unit_test(a_polar_shell_jumps_at_its_seam),
        cmocka_unit_test(hysteresis_spares_moves),
        cmocka_unit_test(a_centre_is_above_the_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
