/* Proves that users are drawn by their weights, that the nearest gateway is the one that is nearest
 * when a user asks, that the way over land takes the time of the great circle, and that a user's
 * link serves one payload after another. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sim/users.h"

#define HOUR SKY_SECONDS(3600)

static sky_scenario scenario(void) {
    sky_scenario s = {.physical = true, .time = {.scale = 1}, .links = {.land_km_s = 100000}};
    s.observer.latitude_deg = 0;
    s.observer.longitude_deg = 0;
    s.grounds[0] = (sky_scenario_ground){.name = "east", .place = {0, 90}};
    s.grounds[1] = (sky_scenario_ground){
        .name = "plane", .place = {0, -90}, .speed_km_h = 1000, .course_deg = 90};
    s.ground_count = 2;
    s.users[0] = (sky_scenario_user){.name = "near", .weight = 1, .delay_ns = SKY_MS(7)};
    s.users[1] = (sky_scenario_user){
        .name = "quarter", .weight = 5, .has_place = true, .place = {90, 0}, .bits_s = 8000000};
    s.users[2] = (sky_scenario_user){.name = "runner",
                                     .weight = 2,
                                     .nearest = true,
                                     .has_place = true,
                                     .speed_km_h = 1000,
                                     .course_deg = 90};
    s.user_count = 3;
    return s;
}

static void users_are_drawn_by_weight(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_users u;
    sky_users_init(&u, &s, 1);
    uint32_t drawn[3] = {0};
    for (int i = 0; i < 80000; i++)
        drawn[sky_users_draw(&u)]++;
    assert_in_range(drawn[0], 9600, 10400);
    assert_in_range(drawn[1], 49400, 50600);
    assert_in_range(drawn[2], 19500, 20500);
}

/* A quarter of the Earth is 10,007.5 km: the runner is half way to the ground in the east after
 * 5.004 h. The plane comes no nearer than it set out. */
static void the_nearest_changes_as_they_move(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_users u;
    sky_users_init(&u, &s, 1);
    assert_int_equal(sky_users_gateway(&u, 2, 0), 0);
    assert_int_equal(sky_users_gateway(&u, 2, 5 * HOUR), 0);
    assert_int_equal(sky_users_gateway(&u, 2, 5 * HOUR + HOUR / 100), 1);
    assert_int_equal(sky_users_gateway(&u, 1, 0), 0);
    s.time.scale = 10; /* the sky's time */
    assert_int_equal(sky_users_gateway(&u, 2, HOUR / 2), 0);
    assert_int_equal(sky_users_gateway(&u, 2, HOUR / 2 + HOUR / 1000), 1);
    s.time.scale = 1;
    s.users[2].speed_km_h = 0;
    assert_int_equal(sky_users_gateway(&u, 2, 20 * HOUR), 0);
    s.observer.longitude_deg = 180; /* and the plane is over the runner by then */
    assert_int_equal(sky_users_gateway(&u, 2, 10 * HOUR), 2);
}

static void the_way_is_the_great_circle(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_users u;
    sky_users_init(&u, &s, 1);
    const double quarter_ns = 6371.0088 * 3.14159265358979 / 2 / 100000 * 1e9;
    for (uint32_t ground = 0; ground < 2; ground++)
        assert_true(fabs((double)sky_users_up(&u, 1, ground, 50, 0) - 50 - quarter_ns) < 1000);
    assert_int_equal(sky_users_up(&u, 0, 1, 100, 0), 100 + SKY_MS(7));
    assert_int_equal(sky_users_down(&u, 0, 1, 100, 1 << 20), 100 + SKY_MS(7));
}

/* 1 MB a second: what is sent at once comes one after the other, each way by itself. */
static void a_link_serves_one_after_another(void **state) {
    (void)state;
    sky_scenario s = scenario();
    sky_users u;
    sky_users_init(&u, &s, 1);
    sky_time way = sky_users_up(&u, 1, 0, 0, 0);
    assert_int_equal(sky_users_up(&u, 1, 0, 0, 1000), way + SKY_MS(1));
    assert_int_equal(sky_users_up(&u, 1, 0, 0, 2000), way + SKY_MS(3));
    assert_int_equal(sky_users_up(&u, 1, 0, 0, 0), way); /* a question is no load */
    assert_int_equal(sky_users_down(&u, 1, 0, 0, 1000), way + SKY_MS(1));
    assert_int_equal(sky_users_up(&u, 1, 0, SKY_MS(10), 1000), way + SKY_MS(11));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_are_drawn_by_weight),
        cmocka_unit_test(the_nearest_changes_as_they_move),
        cmocka_unit_test(the_way_is_the_great_circle),
        cmocka_unit_test(a_link_serves_one_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
