/* Proves that a ground link carries what elevation and weather leave of it: the table is linear
 * between its points, weathers that overlap add up, a get takes as much longer as the rate is less,
 * because the session knows it, and what is lost is lost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "sim/world_fixture.h"
#include "sim/world_state.h"

#define FROM  SKY_SECONDS(20)
#define TO    SKY_SECONDS(40)
#define BYTES (400u << 10)

static sky_scenario physical(void) {
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    s.physical = true;
    s.constellation.planes = 24;
    s.constellation.slots = 22;
    s.centre = (sky_satellite){0, 0};
    s.observer.min_elevation_deg = 10;
    s.observer.hysteresis_deg = 10;
    s.time.rotation_ns = SKY_SECONDS(15);
    return s;
}

static void add_weather(sky_scenario *s, sky_time from, sky_time to, double rate, double loss) {
    s->weathers[s->weather_count++] = (sky_weather){
        .from_ns = from, .to_ns = to, .quality = {.rate = rate, .loss = loss}};
}

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

/* Satellites that are seen have their own elevation, others that of the one overhead. */
static void a_table_is_linear_between_its_points(void **state) {
    (void)state;
    sky_scenario s = physical();
    s.elevations[0].deg = 20;
    s.elevations[0].quality = (sky_link_quality){0.25, 0.5};
    s.elevations[1].deg = 60;
    s.elevations[1].quality = (sky_link_quality){0.75, 0.1};
    s.elevation_count = 2;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    const sky_frame *frame = sky_world_frame(f.world);
    double over = sky_frame_elevation_deg(frame, sky_frame_centre(frame, 0), 0);
    int low = 0, between = 0, hidden = 0;
    for (uint32_t i = 0; i < frame->satellite_count; i++) {
        sky_satellite at = sky_frame_satellite(frame, i);
        double deg = sky_frame_elevation_deg(frame, at, 0);
        sky_link_quality q = sky__ground_quality(f.world, &f.world->grounds[0], at);
        double part = deg < 20 ? 0 : deg > 60 ? 1 : (deg - 20) / 40;
        assert_true(is_near(q.rate, 0.25 + part * 0.5) && is_near(q.loss, 0.5 - part * 0.4));
        assert_true(deg >= 10);
        low += deg < 20;
        between += deg > 20 && deg < 60;
        hidden += deg == over;
    }
    assert_true(low > 0 && between > 0 && hidden > 400);
    uint64_t bits_s;
    sky_satellite first = sky_frame_centre(frame, 0);
    sky_time full = sky__ground_link(f.world, &f.world->grounds[0], first, &bits_s);
    double rate = sky__ground_quality(f.world, &f.world->grounds[0], first).rate;
    assert_true(fabs((double)bits_s - 1e9 * rate) < 2);
    assert_int_equal(full, sky_link_busy_ns(bits_s, s.links.queue_bytes));
    sky_fixture_world_close(&f);
}

static void weathers_add_up_while_they_last(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    add_weather(&s, FROM, TO, 0.5, 0.2);
    add_weather(&s, FROM + SKY_SECONDS(10), TO, 0.5, 0.5);
    add_weather(&s, 0, TO, 0.1, 0.9);
    s.weathers[2].ground = 1; /* over another */
    s.lookup = SKY_LOOKUP_BINARY;
    s.grounds[0] = (sky_scenario_ground){.name = "twin"};
    s.ground_count = 1;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    static const struct {
        sky_time at;
        sky_link_quality q;
    } times[] = {{0, {1, 0}},           {FROM - 1, {1, 0}},
                 {FROM, {0.5, 0.2}},    {FROM + SKY_SECONDS(10), {0.25, 0.6}},
                 {TO - 1, {0.25, 0.6}}, {TO, {1, 0}}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        sky_world_run(f.world, times[i].at);
        sky_link_quality q = sky__ground_quality(f.world, &f.world->grounds[0], s.centre);
        assert_true(is_near(q.rate, times[i].q.rate) && is_near(q.loss, times[i].q.loss));
        q = sky__ground_quality(f.world, &f.world->grounds[1], s.centre);
        assert_true(is_near(q.rate, times[i].at < TO ? 0.1 : 1));
    }
    sky_fixture_world_close(&f);
}

static uint64_t messages_of(const sky_fixture_world *f) {
    sky_world_stat stat;
    sky_world_stats(f->world, &stat);
    assert_int_equal(stat.overflowed + stat.lost, 0);
    return stat.messages;
}

/* 400 KiB at 100 Mb/s, then at a tenth of it. The queue holds a tenth of that: a session that asked
 * at the full rate would overflow it, and ask again. */
static void a_get_takes_as_long_as_the_rate_says(void **state) {
    (void)state;
    for (int each = 0; each < 2; each++) {
        sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
        s.links.ground_bits_s = 100000000;
        s.links.queue_bytes = 40 << 10;
        s.links.ground_each = each;
        s.satellite.processing_ns = SKY_MS(1) / 50;
        add_weather(&s, FROM, TO, 0.1, 0);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 1, BYTES).status, SKY_OK);
        sky_time took[3];
        uint64_t sent[3];
        for (int i = 0; i < 3; i++) {
            sky_time at = i == 0 ? SKY_SECONDS(10) : i == 1 ? FROM : TO;
            sky_world_run(f.world, at);
            uint64_t before = messages_of(&f);
            assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, BYTES).status, SKY_OK);
            took[i] = sky_world_now(f.world) - at;
            sent[i] = messages_of(&f) - before;
        }
        assert_int_equal(took[0], took[2]);
        assert_int_equal(sent[0], sent[1]);
        sky_time bare = sky_link_busy_ns(s.links.ground_bits_s, BYTES) / (each ? 9 : 1);
        assert_true(took[0] > bare && took[0] < bare + SKY_MS(60));
        assert_true(took[1] > 10 * bare && took[1] < 12 * bare + SKY_MS(80));
        sky_fixture_world_close(&f);
    }
}

/* Also of datagrams; and nothing once it is over. */
static void what_the_weather_takes_is_lost(void **state) {
    (void)state;
    for (int datagrams = 0; datagrams < 2; datagrams++) {
        sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
        s.links.datagrams = datagrams;
        add_weather(&s, FROM, TO, 1, 0.1);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 1, BYTES).status, SKY_OK);
        messages_of(&f);
        sky_world_run(f.world, FROM);
        assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, BYTES).status, SKY_OK);
        sky_world_stat during, after;
        sky_world_stats(f.world, &during);
        assert_in_range(during.lost, 40, 400); /* of 400 chunks and as many questions */
        sky_world_run(f.world, TO);
        sky_world_stats(f.world, &during);
        assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, BYTES).status, SKY_OK);
        sky_world_stats(f.world, &after);
        assert_int_equal(after.lost, during.lost);
        assert_int_equal(f.wrong_bytes, 0);
        sky_fixture_world_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_linear_between_its_points),
        cmocka_unit_test(weathers_add_up_while_they_last),
        cmocka_unit_test(a_get_takes_as_long_as_the_rate_says),
        cmocka_unit_test(what_the_weather_takes_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
