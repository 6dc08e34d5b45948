/* Proves the +GRID at a moment: lengths, the twisted torus, the seam of polar shells, the grazing
 * height, and least-latency routes against a naive relaxation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/fleet.h"

#define MANY 4096

static void close_to(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.12g is not within %g of %.12g", value, tolerance, expected);
}

static sky_fleet *fleet_of(sky_constellation c) {
    sky_fleet *f;
    assert_int_equal(sky_fleet_walker(&c, 0, &f, NULL), SKY_OK);
    return f;
}

static void neighbours_are_near_on_both_sides_of_the_wrap(void **state) {
    (void)state;
    sky_constellation c = sky_shell_find("starlink-a")->constellation;
    sky_fleet *f = fleet_of(c);
    static sky_laser links[MANY];
    double min, max;
    sky_inter_plane_range_km(&c, sky_fleet_link_offset(f), &min, &max);
    assert_int_equal(sky_fleet_link_offset(f), 0);
    size_t count = sky_fleet_links(f, 1234567, SKY_GRAZING_KM, links);
    assert_int_equal(count, 2 * 72 * 22);
    for (size_t i = 0; i < count; i++) {
        sky_satellite a = sky_fleet_place(f, links[i].from), b = sky_fleet_place(f, links[i].to);
        assert_true(links[i].up && !links[i].seam);
        if (a.plane == b.plane)
            close_to(links[i].km, sky_intra_plane_km(&c), 1e-6);
        else
            assert_true(links[i].km >= min - 1e-6 && links[i].km <= max + 1e-6);
        if (a.plane == 72 && b.plane == 1)
            assert_int_equal(b.slot, (a.slot + 17 - 1) % 22 + 1);
    }
    sky_fleet_destroy(f);
}

static void polar_shells_have_a_seam(void **state) {
    (void)state;
    sky_fleet *f = fleet_of(sky_shell_find("oneweb")->constellation);
    static sky_laser links[MANY];
    static double km[MANY];
    static uint32_t before[MANY];
    size_t count = sky_fleet_links(f, 0, SKY_GRAZING_KM, links);
    uint32_t seams = 0;
    for (size_t i = 0; i < count; i++) {
        seams += links[i].seam;
        assert_true(links[i].up != links[i].seam);
    }
    assert_int_equal(seams, 49);
    uint32_t from = sky_fleet_number(f, (sky_satellite){12, 1});
    assert_int_equal(sky_fleet_routes(f, links, count, from, km, before), SKY_OK);
    /* To the first plane it is eleven planes the other way. */
    uint32_t at = sky_fleet_number(f, (sky_satellite){1, 1}), planes = 0;
    for (; at != from; at = before[at])
        planes += sky_fleet_place(f, at).plane != sky_fleet_place(f, before[at]).plane;
    assert_int_equal(planes, 11);
    sky_fleet_destroy(f);
}

/* Source: the reference values: 5410.5 km grazing the ground, 5016.6 km grazing 80 km at 550 km. */
static void lasers_do_not_pass_the_atmosphere(void **state) {
    (void)state;
    static sky_laser links[64];
    for (uint32_t slots = 7; slots <= 9; slots++) {
        sky_constellation c = {.planes = 1, .slots = slots, .altitude_km = 550};
        sky_fleet *f = fleet_of(c);
        assert_int_equal(sky_fleet_links(f, 0, 0, links), slots);
        assert_int_equal(links[0].up, links[0].km < 5410.5);
        assert_int_equal(sky_fleet_links(f, 0, SKY_GRAZING_KM, links), slots);
        assert_int_equal(links[0].up, links[0].km < 5016.6);
        sky_fleet_destroy(f);
    }
}

/* Bellman and Ford's: until nothing improves. */
static void relax(const sky_laser *links, size_t count, double *km) {
    bool better = true;
    while (better) {
        better = false;
        for (size_t i = 0; i < 2 * count; i++) {
            uint32_t a = i % 2 ? links[i / 2].from : links[i / 2].to;
            uint32_t b = i % 2 ? links[i / 2].to : links[i / 2].from;
            if (links[i / 2].up && km[a] + links[i / 2].km < km[b]) {
                km[b] = km[a] + links[i / 2].km;
                better = true;
            }
        }
    }
}

static void routes_are_the_quickest(void **state) {
    (void)state;
    static sky_laser links[MANY];
    static double km[MANY], naive[MANY];
    static uint32_t before[MANY];
    static const sky_constellation shells[] = {
        {.planes = 12, .slots = 11, .altitude_km = 550, .inclination_deg = 53, .phasing = 5},
        {.planes = 1, .slots = 2, .altitude_km = 36000},
        {.planes = 2, .slots = 9, .altitude_km = 2000, .inclination_deg = 70},
        {.planes = 9, .slots = 1, .altitude_km = 9000, .inclination_deg = 60, .phasing = 2},
        {.planes = 1, .slots = 1, .altitude_km = 600},
        {.planes = 6,
         .slots = 12,
         .altitude_km = 800,
         .inclination_deg = 88,
         .raan_spread_deg = 180}};
    for (size_t k = 0; k < sizeof shells / sizeof *shells; k++) {
        sky_fleet *f = fleet_of(shells[k]);
        uint32_t count = sky_fleet_count(f), from = count / 3;
        size_t link_count = sky_fleet_links(f, 777777, SKY_GRAZING_KM, links);
        assert_int_equal(sky_fleet_routes(f, links, link_count, from, km, before), SKY_OK);
        for (uint32_t i = 0; i < count; i++)
            naive[i] = i == from ? 0 : INFINITY;
        relax(links, link_count, naive);
        for (uint32_t i = 0; i < count; i++) {
            if (naive[i] == INFINITY)
                assert_true(km[i] == INFINITY && before[i] == i);
            else
                close_to(km[i], naive[i], 1e-6);
        }
        assert_int_equal(sky_fleet_routes(f, links, link_count, count, km, before), SKY_E_PARAM);
        sky_fleet_destroy(f);
    }
}

/* Near the poles planes crowd together: the quickest way across goes up there. */
static void the_quickest_way_is_not_the_one_of_least_hops(void **state) {
    (void)state;
    static sky_laser links[MANY];
    static double km[MANY];
    static uint32_t before[MANY];
    sky_constellation c = {.planes = 12,
                           .slots = 40,
                           .altitude_km = 1200,
                           .inclination_deg = 87.9,
                           .raan_spread_deg = 180};
    sky_fleet *f = fleet_of(c);
    size_t count = sky_fleet_links(f, 0, SKY_GRAZING_KM, links);
    uint32_t from = sky_fleet_number(f, (sky_satellite){2, 7});
    uint32_t to = sky_fleet_number(f, (sky_satellite){12, 7});
    assert_int_equal(sky_fleet_routes(f, links, count, from, km, before), SKY_OK);
    uint32_t hops = 0;
    for (uint32_t at = to; at != from; at = before[at])
        hops++;
    assert_true(hops > 10);
    sky_fleet_destroy(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_near_on_both_sides_of_the_wrap),
        cmocka_unit_test(polar_shells_have_a_seam),
        cmocka_unit_test(lasers_do_not_pass_the_atmosphere),
        cmocka_unit_test(routes_are_the_quickest),
        cmocka_unit_test(the_quickest_way_is_not_the_one_of_least_hops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
