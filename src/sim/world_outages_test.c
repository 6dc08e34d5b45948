/* Proves that what a scenario takes down at a time is down from then until it is back, and no
 * longer: a satellite, which loses its memory; a station, which neither sends nor hears, and loses
 * nothing; a laser, which messages go round, by exactly the way that is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "sim/world_fixture.h"
#include "sim/world_state.h"

#define FROM SKY_SECONDS(100)
#define TO   SKY_SECONDS(160)

static void take_down(sky_scenario *s, sky_outage_kind kind, sky_satellite a, sky_satellite b) {
    s->outages[s->outage_count++] = (sky_outage){
        .kind = kind, .a = a, .b = b, .from_ns = FROM, .to_ns = TO};
}

static sky_status get(sky_fixture_world *f, uint32_t number) {
    sky_status status = sky_fixture_do(f, SKY_OP_GET, number, 0).status;
    assert_int_equal(f->wrong_bytes, 0);
    return status;
}

static uint64_t stat_of(const sky_fixture_world *f, bool crashes) {
    sky_world_stat s;
    sky_world_stats(f->world, &s);
    return crashes ? s.crashes : s.partitions;
}

static void a_satellite_is_silent_and_has_lost_its_memory(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    s.satellite.repair_share = 0;
    take_down(&s, SKY_OUTAGE_SATELLITE, (sky_satellite){3, 5}, (sky_satellite){0, 0});
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 1, 9 * 1024).status, SKY_OK);
    assert_int_equal(get(&f, 1), SKY_OK);
    sky_world_run(f.world, FROM - 1);
    assert_int_equal(stat_of(&f, true), 0);
    assert_non_null(sky_world_node(f.world, (sky_satellite){3, 5}));
    sky_world_run(f.world, FROM);
    assert_int_equal(stat_of(&f, true), 1);
    assert_null(sky_world_node(f.world, (sky_satellite){3, 5}));
    assert_int_equal(get(&f, 1), SKY_E_UNAVAILABLE);
    sky_world_run(f.world, TO + SKY_SECONDS(5));
    assert_int_equal(get(&f, 1), SKY_MISS);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 2, 9 * 1024).status, SKY_OK);
    assert_int_equal(get(&f, 2), SKY_OK);
    sky_fixture_world_close(&f);
}

static void a_station_is_deaf_and_mute_and_loses_nothing(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    take_down(&s, SKY_OUTAGE_STATION, SKY_GROUND, SKY_GROUND);
    for (int datagrams = 0; datagrams < 2; datagrams++) {
        s.links.datagrams = datagrams;
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 1, 9 * 1024).status, SKY_OK);
        sky_world_run(f.world, FROM);
        uint64_t delivered = f.delivered_bytes;
        assert_int_equal(get(&f, 1), SKY_E_UNAVAILABLE);
        assert_int_equal(f.delivered_bytes, delivered);
        assert_true(sky_world_now(f.world) < TO);
        sky_world_run(f.world, TO + SKY_SECONDS(5));
        assert_int_equal(get(&f, 1), SKY_OK);
        sky_fixture_world_close(&f);
    }
}

/* ---- lasers ---- */

static sky_time way(const sky_fixture_world *f, sky_satellite a, sky_satellite b) {
    sky_time ns = sky_frame_link_ns(sky_world_frame(f->world), a, b, 0);
    return sky__way_of(f->world, a, b, &ns) ? ns : SKY_TIME_NEVER;
}

static bool nearly(sky_time a, sky_time b) {
    return a - b <= 2 && b - a <= 2; /* each hop is rounded by itself */
}

/* One laser less: between its ends a side step and back, the same beyond them, nothing for those
 * who are not in line; two more, and the step goes to the other side. */
static void messages_go_round_a_laser(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    take_down(&s, SKY_OUTAGE_LINK, (sky_satellite){3, 4}, (sky_satellite){3, 5});
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    const sky_satellite a = {3, 4}, b = {3, 5}, past = {3, 6}, up = {2, 4}, side = {2, 5};
    sky_time slot = way(&f, a, b), plane = way(&f, a, up);
    assert_true(slot > 0 && plane > 0 && slot != plane);
    sky_world_run(f.world, FROM);
    assert_true(nearly(way(&f, a, b), slot + 2 * plane) && nearly(way(&f, b, a), slot + 2 * plane));
    assert_true(nearly(way(&f, a, past), 2 * slot + 2 * plane));
    assert_true(nearly(way(&f, a, side), slot + plane) && nearly(way(&f, a, up), plane));
    sky_world_run(f.world, TO);
    assert_int_equal(way(&f, a, b), slot);
    sky_fixture_world_close(&f);
}

static void without_any_laser_there_is_no_way(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    const sky_satellite at = {3, 4}, beside[] = {{2, 4}, {4, 4}, {3, 3}, {3, 5}};
    for (int i = 0; i < 4; i++)
        take_down(&s, SKY_OUTAGE_LINK, at, beside[i]);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    sky_world_run(f.world, FROM);
    assert_int_equal(stat_of(&f, false), 4);
    assert_int_equal(way(&f, at, beside[0]), SKY_TIME_NEVER);
    assert_int_equal(way(&f, beside[2], at), SKY_TIME_NEVER);
    assert_true(way(&f, beside[0], beside[3]) < SKY_TIME_NEVER);
    sky_fixture_world_close(&f);
}

/* What migrates to a satellite without lasers waits until they are back, and is there then. */
static void nothing_is_lost_by_lasers_that_are_down(void **state) {
    (void)state;
    for (int datagrams = 0; datagrams < 2; datagrams++) {
        sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
        const sky_satellite at = {3, 2}, beside[] = {{2, 2}, {4, 2}, {3, 1}, {3, 3}};
        s.links.datagrams = datagrams;
        s.time.rotation_ns = SKY_SECONDS(110); /* once within the outage */
        for (int i = 0; i < 4; i++)
            take_down(&s, SKY_OUTAGE_LINK, at, beside[i]);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 1, 9 * 1024).status, SKY_OK);
        sky_world_run(f.world, FROM + SKY_SECONDS(20));
        assert_null(sky_world_node(f.world, at));
        sky_world_check found;
        assert_int_equal(sky_world_verify(f.world, 0, 0, &found), SKY_OK);
        assert_true(found.corrupt == 0 && found.copies_min >= 1);
        sky_world_run(f.world, TO + SKY_SECONDS(20));
        assert_non_null(sky_world_node(f.world, at));
        assert_int_equal(get(&f, 1), SKY_OK);
        sky_fixture_world_close(&f);
    }
}

static void a_true_sky_goes_round_too(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    s.physical = true;
    s.constellation.planes = 24;
    s.constellation.slots = 22;
    s.centre = (sky_satellite){0, 0};
    s.observer.min_elevation_deg = 25;
    s.observer.hysteresis_deg = 10;
    s.time.rotation_ns = SKY_SECONDS(15);
    const sky_satellite a = {3, 4}, b = {3, 5};
    take_down(&s, SKY_OUTAGE_LINK, a, b);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    const sky_frame *frame = sky_world_frame(f.world);
    uint64_t first = FROM / SKY_SECONDS(15), last = (TO - 1) / SKY_SECONDS(15);
    sky_time before = sky_frame_link_ns(frame, a, b, first - 1);
    for (uint64_t turn = first; turn <= last; turn++) {
        assert_true(sky_frame_joined(frame, a, b, turn));
        assert_true(sky_frame_link_ns(frame, a, b, turn) > before + SKY_MS(2));
    }
    assert_true(nearly(sky_frame_link_ns(frame, a, b, last + 1) / 1000, before / 1000));
    sky_fixture_world_close(&f);
    s.outages[0].b = (sky_satellite){3, 6};
    sky_world_host host = {0};
    sky_world *none = NULL;
    sky_error error = {0};
    assert_int_equal(sky_world_create(&s, 1, &host, &none, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "no laser joins 3,4 and 3,6"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_satellite_is_silent_and_has_lost_its_memory),
        cmocka_unit_test(a_station_is_deaf_and_mute_and_loses_nothing),
        cmocka_unit_test(messages_go_round_a_laser),
        cmocka_unit_test(without_any_laser_there_is_no_way),
        cmocka_unit_test(nothing_is_lost_by_lasers_that_are_down),
        cmocka_unit_test(a_true_sky_goes_round_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
