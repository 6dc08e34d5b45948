/* Proves that a sky's frame places as the orbit does, measures what the orbit measures, and counts
 * turns the same from a clock and from a set time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "orbit/frame.h"
#include "orbit/geometry.h"

static const sky_satellite centre = {3, 4};

static void a_frame_places_as_the_orbit_does(void **state) {
    (void)state;
    sky_constellation c = {.planes = 7, .slots = 19, .altitude_km = 550, .inclination_deg = 53};
    sky_turning turning = {.start_ms = 5000, .rotation_ns = SKY_SECONDS(3)};
    for (int strategy = SKY_PLACE_ROTATION; strategy <= SKY_PLACE_ROTATION_HOP; strategy++) {
        sky_placement p = {.strategy = (sky_strategy)strategy, .servers = 14};
        sky_frame f;
        assert_int_equal(sky_frame_init(&f, &c, &p, centre, &turning, NULL), SKY_OK);
        for (uint32_t i = 0; i < f.satellite_count; i++) {
            sky_satellite at = sky_frame_satellite(&f, i);
            sky_satellite servers[14];
            assert_int_equal(sky_frame_number(&f, at), i);
            assert_int_equal(sky_place(&c, &f.placement, at, servers), SKY_OK);
            for (uint32_t s = 1; s <= 14; s++)
                assert_true(sky_satellite_equal(sky_frame_first(&f, at, s), servers[s - 1]));
        }
        bool hop = strategy == SKY_PLACE_HOP;
        sky_satellite later = sky_frame_centre(&f, 4);
        assert_int_equal(later.slot, hop ? 4 : 19);
        sky_satellite far = {5, 6};
        double km = hop ? sky_grid_km(&c, centre, far) : sky_slant_km(&c, centre, far);
        sky_time ns = sky_frame_ground_ns(&f, far, 0);
        assert_true((double)ns > km / 299792.458e-9 - 1 && (double)ns < km / 299792.458e-9 + 1);
        sky_frame_deinit(&f);
    }
    sky_frame f;
    sky_placement p = {.strategy = SKY_PLACE_HOP, .servers = 9};
    c.planes = c.slots = 4096;
    assert_int_equal(sky_frame_init(&f, &c, &p, centre, &turning, NULL), SKY_E_PARAM);
}

static void turns_count_from_whole_milliseconds(void **state) {
    (void)state;
    sky_turning t = {.start_ms = 5000, .rotation_ns = 1500500};
    assert_int_equal(sky_turns(&t, 1500499), 0);
    assert_int_equal(sky_turns(&t, 1500500), 1);
    assert_int_equal(sky_turn_begins(&t, 1), 1500500);
    int64_t set_ms = sky_turning_ms(&t, 1999999); /* after the turn … */
    assert_int_equal(set_ms, 5001);
    assert_int_equal(sky_turns_at_ms(&t, set_ms), 0); /* … but its millisecond was before */
    assert_int_equal(sky_turns_at_ms(&t, 5003), 1);
    assert_int_equal(sky_turns_at_ms(&t, 0), 0);
    assert_true(sky_turns_at_ms(&t, INT64_MAX) > 0);
    assert_int_equal(sky_turn_begins(&t, UINT64_MAX), SKY_TIME_NEVER);
    sky_turning still = {.rotation_ns = SKY_TIME_NEVER};
    assert_int_equal(sky_turns(&still, SKY_TIME_NEVER - 1), 0);
    assert_int_equal(sky_turn_begins(&still, 1), SKY_TIME_NEVER);
}

/* A chunk rests from its set time on, then goes one column west a turn where the window leaves it;
 * where it was before is found up to as many turns back as a whole round of the window takes. */
static void a_chunk_has_a_place_at_every_turn(void **state) {
    (void)state;
    sky_constellation c = {.planes = 7, .slots = 19, .altitude_km = 550, .inclination_deg = 53};
    sky_turning turning = {.start_ms = 5000, .rotation_ns = SKY_SECONDS(3)};
    sky_chunk_facts facts = {.set_ms = 5000 + 10 * 3000 + 1,
                             .centre = {3, 4},
                             .first = {3, 5},
                             .window_planes = 3,
                             .window_slots = 3,
                             .strategy = SKY_PLACE_ROTATION};
    sky_placement p = {.strategy = SKY_PLACE_ROTATION, .window_planes = 3, .window_slots = 3};
    assert_int_equal(sky_turns_at_ms(&turning, facts.set_ms), 10);
    for (uint64_t turn = 0; turn < 70; turn++) {
        uint64_t on = turn > 10 ? turn - 10 : 0;
        sky_satellite place = sky_chunk_place(&c, &turning, &facts, turn), before = {99, 99};
        assert_true(
            sky_satellite_equal(place, sky_place_shifted(&c, &p, facts.centre, facts.first, on)));
        assert_true(turn > 10 || sky_satellite_equal(place, facts.first));
        bool moved = sky_chunk_place_before(&c, &turning, &facts, turn, &before);
        uint64_t back = on; /* the turn it came here at */
        while (back > 0 && sky_satellite_equal(
                               place, sky_place_shifted(&c, &p, facts.centre, facts.first, back)))
            back--;
        bool came = !sky_satellite_equal(
            place, sky_place_shifted(&c, &p, facts.centre, facts.first, back));
        assert_int_equal(moved, came);
        if (came)
            assert_true(sky_satellite_equal(
                before, sky_place_shifted(&c, &p, facts.centre, facts.first, back)));
        else
            assert_int_equal(before.plane, 99); /* untouched */
    }
    sky_steps steps = sky_turned(&turning, 0);
    assert_true(steps.planes == 0 && steps.slots == 0);
    steps = sky_turned(&turning, 41);
    assert_true(steps.planes == 0 && steps.slots == -41);
    steps = sky_turned(&turning, (uint64_t)INT64_MAX + 1);
    assert_true(steps.planes == 0 && steps.slots == -INT64_MAX);
}

/* In a physical sky the centre stays for many turns. A chunk was before where it was until the
 * centre's last step, however long ago that is; but never before it was set. */
static void a_chunk_rests_between_steps_of_a_physical_sky(void **state) {
    (void)state;
    sky_constellation c = {.planes = 7, .slots = 19, .altitude_km = 550, .inclination_deg = 53};
    const sky_handover rows[] = {{0, 3, 4, false}, {30, 3, 3, false}, {90, 3, 2, false}};
    sky_turning turning = {.rotation_ns = SKY_SECONDS(15), .handovers = rows, .handover_count = 3};
    sky_chunk_facts facts = {.set_ms = 10 * 15000,
                             .centre = {3, 4},
                             .first = {3, 4},
                             .window_planes = 1,
                             .window_slots = 1,
                             .strategy = SKY_PLACE_ROTATION_HOP};
    uint64_t back = 7;
    assert_false(sky_turn_before(&turning, 29, &back));
    assert_true(sky_turn_before(&turning, 89, &back) && back == 29);
    assert_true(sky_turn_before(&turning, 200, &back) && back == 89);
    for (uint64_t turn = 10; turn < 200; turn++) {
        sky_satellite before = {99, 99};
        bool moved = sky_chunk_place_before(&c, &turning, &facts, turn, &before);
        assert_int_equal(moved, turn >= 30);
        assert_int_equal(before.slot, turn < 30 ? 99 : turn < 90 ? 4 : 3);
    }
    facts.set_ms = 30 * 15000;
    assert_false(sky_chunk_place_before(&c, &turning, &facts, 89, &(sky_satellite){0}));
}

static void links_are_busy_to_the_nanosecond(void **state) {
    (void)state;
    assert_int_equal(sky_link_busy_ns(8000000000, 6144), 6144);
    assert_int_equal(sky_link_busy_ns(3, 1), 2666666667);
    assert_int_equal(sky_link_busy_ns(1000000000000, UINT32_MAX), 34359739);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_places_as_the_orbit_does),
        cmocka_unit_test(turns_count_from_whole_milliseconds),
        cmocka_unit_test(a_chunk_has_a_place_at_every_turn),
        cmocka_unit_test(a_chunk_rests_between_steps_of_a_physical_sky),
        cmocka_unit_test(links_are_busy_to_the_nanosecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
