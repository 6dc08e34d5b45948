/* Proves that several grounds share one sky: each reads what another put, from its own place and
 * over its own link; a station that is down is one of them; what one replaces no other reads any
 * more; and that a first ground with others beside it does what it did alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "sim/world_fixture.h"

static sky_scenario scenario(void) {
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    s.lookup = SKY_LOOKUP_BINARY;
    s.grounds[0] = (sky_scenario_ground){.name = "twin"};
    s.grounds[1] = (sky_scenario_ground){.name = "west", .place = {0, -4}};
    s.grounds[2] = (sky_scenario_ground){.name = "slow", .bits_s = 1000000};
    s.ground_count = 3;
    return s;
}

static sky_result ask(sky_fixture_world *f, uint32_t ground, sky_op op, uint32_t number,
                      uint32_t bytes) {
    sky_request r = {.op = op,
                     .key = sky_fixture_block(number),
                     .context = (void *)(uintptr_t)number,
                     .named = true,
                     .payload_bytes = bytes,
                     .room_bytes = UINT64_MAX};
    sky_result result;
    assert_int_equal(sky_world_submit_at(f->world, ground, &r), SKY_OK);
    while (!sky_world_result_at(f->world, ground, &result))
        assert_true(sky_world_step(f->world));
    assert_int_equal(f->wrong_bytes, 0);
    return result;
}

static sky_time time_of(sky_fixture_world *f, uint32_t ground, uint32_t number) {
    assert_int_equal(ask(f, ground, SKY_OP_GET, number, 0).status, SKY_OK); /* it is found */
    sky_time began = sky_world_now(f->world);
    assert_int_equal(ask(f, ground, SKY_OP_GET, number, 0).status, SKY_OK);
    return sky_world_now(f->world) - began;
}

static sky_time farthest(const sky_fixture_world *f, uint32_t ground) {
    const sky_frame *frame = sky_world_frame_at(f->world, ground);
    sky_time most = 0;
    for (uint32_t i = 1; i <= frame->placement.servers; i++) {
        sky_satellite s = sky_frame_first(frame, frame->centre, i);
        sky_time ns = sky_frame_ground_ns(frame, s, 0);
        most = ns > most ? ns : most;
    }
    return most;
}

/* It knows nothing any more, and finds what it put as another ground would. */
static void a_ground_that_starts_again_finds_what_it_put(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_int_equal(ask(&f, 1, SKY_OP_PUT, 1, 20000).status, SKY_OK);
    assert_int_equal(ask(&f, 1, SKY_OP_PUT, 1, 30000).status, SKY_OK);
    assert_int_equal(sky_index_count(sky_session_index(sky_world_session_at(f.world, 1))), 1);
    assert_int_equal(sky_world_reopen(f.world, 1), SKY_OK);
    assert_int_equal(sky_index_count(sky_session_index(sky_world_session_at(f.world, 1))), 0);
    const sky_result found = ask(&f, 1, SKY_OP_GET, 1, 0);
    assert_int_equal(found.status, SKY_OK);
    assert_int_equal(found.bytes, 30000);
    assert_int_equal(ask(&f, 0, SKY_OP_GET, 1, 0).bytes, 30000);
    sky_fixture_world_close(&f);
}

/* A read is a round trip to the heads and one to the chunks, the link, and little else. */
static void each_ground_reads_from_its_own_place(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_int_equal(sky_world_grounds(f.world), 4);
    assert_int_equal(ask(&f, 0, SKY_OP_PUT, 1, 9 * 1024).status, SKY_OK);
    sky_time home = time_of(&f, 0, 1), twin = time_of(&f, 1, 1), west = time_of(&f, 2, 1),
             slow = time_of(&f, 3, 1);
    sky_time near_ns = farthest(&f, 0), far_ns = farthest(&f, 2);
    assert_int_equal(farthest(&f, 1), near_ns);
    assert_true(far_ns > near_ns + SKY_MS(10));
    assert_in_range(twin - home + SKY_MS(1), 0, SKY_MS(2));
    assert_true(west > 2 * far_ns && west < 4 * far_ns + SKY_MS(20));
    assert_true(west > home + SKY_MS(20));
    assert_true(slow > home + SKY_MS(65)); /* 9 KiB at 1 Mb/s are 74 ms */
    sky_fixture_world_close(&f);
}

static void what_one_replaces_no_other_reads(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t bytes = 1000 + round;
        assert_int_equal(ask(&f, round % 4, SKY_OP_PUT, 7, bytes).status, SKY_OK);
        for (uint32_t ground = 0; ground < 4; ground++)
            assert_int_equal(ask(&f, ground, SKY_OP_GET, 7, 0).bytes, bytes);
        sky_world_run(f.world, sky_world_now(f.world) + s.time.rotation_ns / 3);
    }
    assert_int_equal(ask(&f, 2, SKY_OP_REMOVE, 7, 0).status, SKY_OK);
    sky_world_run(f.world, sky_world_now(f.world) + SKY_SECONDS(1));
    for (uint32_t ground = 0; ground < 4; ground++)
        assert_int_equal(ask(&f, ground, SKY_OP_GET, 7, 0).status, SKY_MISS);
    sky_fixture_world_close(&f);
}

static void one_station_is_down_and_the_others_are_not(void **state) {
    (void)state;
    sky_scenario s = scenario();
    s.outages[0] = (sky_outage){.kind = SKY_OUTAGE_STATION,
                                .ground = 2,
                                .from_ns = SKY_SECONDS(10),
                                .to_ns = SKY_SECONDS(60)};
    s.outage_count = 1;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_int_equal(ask(&f, 2, SKY_OP_PUT, 1, 5000).status, SKY_OK);
    sky_world_run(f.world, SKY_SECONDS(10));
    assert_int_equal(ask(&f, 2, SKY_OP_GET, 1, 0).status, SKY_E_UNAVAILABLE);
    assert_int_equal(ask(&f, 0, SKY_OP_GET, 1, 0).status, SKY_OK);
    assert_int_equal(ask(&f, 1, SKY_OP_GET, 1, 0).status, SKY_OK);
    sky_world_run(f.world, SKY_SECONDS(70));
    assert_int_equal(ask(&f, 2, SKY_OP_GET, 1, 0).status, SKY_OK);
    sky_fixture_world_close(&f);
}

/* ---- true skies ---- */

/* Two grounds in one place. */
static sky_scenario true_sky(uint32_t planes, uint32_t slots, double altitude_km) {
    sky_scenario s = scenario();
    s.physical = true;
    s.constellation.planes = planes;
    s.constellation.slots = slots;
    s.constellation.altitude_km = altitude_km;
    s.observer.min_elevation_deg = 5;
    s.observer.hysteresis_deg = 10;
    s.time.rotation_ns = SKY_SECONDS(15);
    s.until_ns = SKY_SECONDS(3600);
    s.ground_count = 1;
    return s;
}

/* Lasers within a plane of ten satellites pass behind the Earth: as the centre moves along a plane
 * no head can follow. A ground that finds none cannot know that there is none. */
static void a_head_that_stayed_behind_is_not_absent(void **state) {
    (void)state;
    sky_scenario s = true_sky(21, 10, 400);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_int_equal(ask(&f, 0, SKY_OP_PUT, 1, 500).status, SKY_OK);
    assert_int_equal(ask(&f, 1, SKY_OP_GET, 2, 0).status, SKY_MISS); /* nothing has moved yet */
    uint32_t unavailable = 0;
    for (sky_time at = SKY_SECONDS(60); at < SKY_SECONDS(3600); at += SKY_SECONDS(60)) {
        sky_world_run(f.world, at);
        sky_status status = ask(&f, 1, SKY_OP_HAS, 1, 0).status;
        assert_true(status == SKY_OK || status == SKY_E_UNAVAILABLE);
        unavailable += status == SKY_E_UNAVAILABLE;
    }
    assert_true(unavailable > 0);
    sky_fixture_world_close(&f);
}

/* What stayed behind may be newer than what came to where it belongs. Two grounds in turn put
 * values of names: what the other reads is no older than what was put before, or unavailable. */
static void a_head_that_stayed_behind_may_be_newer(void **state) {
    (void)state;
    for (uint32_t replicas = 1; replicas <= 3; replicas++) {
        sky_scenario s = true_sky(12, 10, 400);
        s.observer.latitude_deg = 28;
        s.grounds[0].place[1] = -1;
        s.replicas = replicas;
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        uint32_t newest[8] = {0}, read = 0;
        for (uint32_t step = 1; step < 700; step++) {
            uint32_t key = step % 8, ground = step / 8 % 2;
            sky_world_run(f.world, step * SKY_SECONDS(5));
            if (step % 3 == 0 && ask(&f, ground, SKY_OP_PUT, key, step).status == SKY_OK)
                newest[key] = step;
            sky_result r = ask(&f, 1 - ground, SKY_OP_GET, key, 0);
            assert_true(r.status != SKY_OK || r.bytes >= newest[key]);
            assert_true(r.status != SKY_MISS || newest[key] == 0);
            read += r.status == SKY_OK;
        }
        assert_true(read > 350);
        sky_fixture_world_close(&f);
    }
}

/* Where no laser is ever down, what is not found is not there. */
static void a_key_nobody_put_is_absent_from_a_whole_sky(void **state) {
    (void)state;
    sky_scenario s = true_sky(12, 12, 1200);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_true(sky_frame_whole(sky_world_frame(f.world)));
    assert_int_equal(ask(&f, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
    for (sky_time at = SKY_SECONDS(60); at < SKY_SECONDS(3600); at += SKY_SECONDS(60)) {
        sky_world_run(f.world, at);
        if (!sky_frame_in_sight(sky_world_frame_at(f.world, 1), (uint64_t)(at / SKY_SECONDS(15))))
            continue;
        assert_int_equal(ask(&f, 1, SKY_OP_HAS, 1, 0).status, SKY_OK);
        assert_int_equal(ask(&f, 1, SKY_OP_HAS, 2, 0).status, SKY_MISS);
    }
    sky_fixture_world_close(&f);
}

/* Others that ask for nothing change nothing. */
static void count_event(void *context, const sky_world_event *e) {
    uint64_t *sum = context;
    *sum = *sum * 31 + (uint64_t)e->at + e->digest + e->from.slot + (uint64_t)e->kind;
}

static uint64_t events_of(const sky_scenario *s) {
    sky_fixture_world f;
    uint64_t sum = 0;
    sky_fixture_world_open(&f, s, 1);
    sky_world_trace_set(f.world, count_event, &sum);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(ask(&f, 0, SKY_OP_PUT, i, 20000).status, SKY_OK);
        assert_int_equal(ask(&f, 0, SKY_OP_GET, i, 0).status, SKY_OK);
    }
    sky_world_run(f.world, 3 * s->time.rotation_ns);
    sky_fixture_world_close(&f);
    return sum;
}

static void the_first_ground_does_what_it_did_alone(void **state) {
    (void)state;
    sky_scenario several = scenario(), alone = scenario();
    alone.ground_count = 0;
    several.links.jitter_ns = alone.links.jitter_ns = SKY_MS(1);
    assert_true(events_of(&alone) == events_of(&several));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ground_reads_from_its_own_place),
        cmocka_unit_test(what_one_replaces_no_other_reads),
        cmocka_unit_test(a_ground_that_starts_again_finds_what_it_put),
        cmocka_unit_test(one_station_is_down_and_the_others_are_not),
        cmocka_unit_test(a_head_that_stayed_behind_is_not_absent),
        cmocka_unit_test(a_head_that_stayed_behind_may_be_newer),
        cmocka_unit_test(a_key_nobody_put_is_absent_from_a_whole_sky),
        cmocka_unit_test(the_first_ground_does_what_it_did_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
