/* Proves distances and periods against published reference values, and placement with distances
 * against the result tables of the seed authors' own simulator. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/sky.h>

#include "base/lines_fixture.h"
#include "orbit/geometry.h"

static void close_to(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.12g is not within %g of %.12g", value, tolerance, expected);
}

static void reference_values_hold(void **state) {
    (void)state;
    sky_constellation starlink = {.planes = 72, .slots = 22, .altitude_km = 550};
    close_to(sky_period_s(&starlink), 5739.0, 0.05);
    close_to(sky_rotation_s(&starlink), 260.9, 0.05);
    starlink.earth_radius_km = 6371;
    close_to(sky_period_s(&starlink), 5730.1, 0.05);
    close_to(sky_intra_plane_km(&starlink), 1969.922, 0.0005); /* the seed's figure */
    close_to(sky_inter_plane_km(&starlink), 603.780, 0.0005);  /* and this */
    static const double periods[][2] = {
        {590, 5788.8}, {610, 5813.7}, {630, 5838.7}, {1200, 6565.3}};
    for (size_t i = 0; i < 4; i++) {
        sky_constellation c = {.planes = 1, .slots = 1, .altitude_km = periods[i][0]};
        close_to(sky_period_s(&c), periods[i][1], 0.05);
    }
    static const double rotations[][2] = {{22, 260.9}, {19, 302.1}, {15, 382.6}};
    for (size_t i = 0; i < 3; i++) {
        sky_constellation c = {.planes = 5, .slots = (uint32_t)rotations[i][0], .altitude_km = 550};
        close_to(sky_rotation_s(&c), rotations[i][1], 0.06);
    }
}

/* What docs/paper-map.md says of the seed's Table 1 and figure 1. */
static void the_seeds_thresholds_are_where_we_say(void **state) {
    (void)state;
    const double light_km_ms = 299.792458;
    sky_constellation c = {.planes = 5, .slots = 50, .altitude_km = 550, .earth_radius_km = 6371};
    close_to(sky_intra_plane_km(&c) / light_km_ms, 2.90, 0.005); /* not below 2 ms */
    c.slots = 72;
    assert_true(sky_intra_plane_km(&c) / light_km_ms > 2);
    c.slots = 73;
    assert_true(sky_intra_plane_km(&c) / light_km_ms < 2);
    close_to(2 * sky_slant_km(&c, (sky_satellite){1, 1}, (sky_satellite){1, 1}) / light_km_ms, 3.67,
             0.005);
}

static void our_sine_is_the_sine(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= SKY_SLOTS_MAX; n++) {
        sky_constellation c = {.planes = n, .slots = n, .altitude_km = 550};
        double chord = 2 * 6928.137 * sin(3.14159265358979323846 / n);
        close_to(sky_intra_plane_km(&c), chord, chord * 4e-16);
        close_to(sky_inter_plane_km(&c), chord, chord * 4e-16);
    }
}

static void distances_take_the_shorter_way(void **state) {
    (void)state;
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
    double along = sky_intra_plane_km(&c);
    double across = sky_inter_plane_km(&c);
    sky_satellite corner = {1, 1};
    close_to(sky_slant_km(&c, corner, corner), 550, 0);
    close_to(sky_grid_km(&c, corner, corner), 0, 0);
    close_to(sky_grid_km(&c, corner, (sky_satellite){5, 19}), along + across, 1e-9);
    close_to(sky_grid_km(&c, (sky_satellite){5, 19}, corner), along + across, 1e-9);
    close_to(sky_grid_km(&c, corner, (sky_satellite){3, 10}), 9 * along + 2 * across, 1e-9);
    close_to(sky_grid_km(&c, corner, (sky_satellite){4, 11}), 9 * along + 2 * across, 1e-9);
    close_to(sky_slant_km(&c, corner, (sky_satellite){2, 18}),
             sqrt(across * across + 4 * along * along + 550 * 550), 1e-9);
}

static void a_lone_satellite_has_no_neighbours(void **state) {
    (void)state;
    sky_constellation c = {.planes = 1, .slots = 1, .altitude_km = 550};
    close_to(sky_intra_plane_km(&c), 0, 0);
    close_to(sky_inter_plane_km(&c), 0, 0);
    close_to(sky_slant_km(&c, (sky_satellite){1, 1}, (sky_satellite){1, 1}), 550, 0);
}

static void centre_goes_west(void **state) {
    (void)state;
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
    sky_satellite centre = {3, 4};
    static const uint32_t slots[] = {4, 3, 2, 1, 19, 18};
    for (uint64_t k = 0; k < 6; k++) {
        assert_int_equal(sky_overhead(&c, centre, k).slot, slots[k]);
        assert_int_equal(sky_overhead(&c, centre, k + 19000000019).slot, slots[k]);
    }
    assert_int_equal(sky_overhead(&c, centre, 7).plane, 3);
}

typedef struct {
    sky_placement placement;
    double processing_s;
    double altitude_km;
    uint64_t block_bytes;
    double max_s, min_s, avg_s;
} study_row;

static void expect_row(const study_row *row) {
    sky_constellation c = {.planes = 15,
                           .slots = 15,
                           .altitude_km = row->altitude_km,
                           .earth_radius_km = 6371,
                           .light_km_s = 299800};
    sky_satellite centre = {8, 8};
    sky_placement p;
    sky_satellite at[81];
    assert_int_equal(sky_placement_resolve(&c, &row->placement, &p, NULL), SKY_OK);
    assert_int_equal(sky_place(&c, &p, centre, at), SKY_OK);
    uint64_t chunks = (row->block_bytes + 12287) / 12288;
    double most = 0;
    double least = INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < p.servers; i++) {
        uint64_t here = (chunks - i + p.servers - 1) / p.servers;
        double km = p.strategy == SKY_PLACE_HOP ? sky_grid_km(&c, centre, at[i])
                                                : sky_slant_km(&c, centre, at[i]);
        double time = km / c.light_km_s + row->processing_s * (double)here;
        most = fmax(most, time);
        least = fmin(least, time);
        sum += time;
    }
    close_to(most, row->max_s, 1e-10);
    close_to(least, row->min_s, 1e-10);
    close_to(sum / p.servers, row->avg_s, 1e-10);
}

static void authors_tables_hold(void **state) {
    (void)state;
    sky_lines tables;
    int rows = 0;
    sky_lines_open(&tables, "tests/golden/authors.txt");
    for (char *line; (line = sky_lines_next(&tables));) {
        char strategy[16];
        study_row row = {0};
        unsigned long long bytes;
        assert_int_equal(sscanf(line, "%15s %u %lf %lf %llu %lf %lf %lf", strategy,
                                &row.placement.servers, &row.processing_s, &row.altitude_km, &bytes,
                                &row.max_s, &row.min_s, &row.avg_s),
                         8);
        row.block_bytes = bytes;
        row.processing_s /= 1000;
        assert_int_equal(sky_strategy_parse(strategy, &row.placement.strategy), SKY_OK);
        print_message("%s", line); /* the last one printed is the one that failed */
        expect_row(&row);
        rows++;
    }
    assert_true(rows >= 45);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_values_hold),
        cmocka_unit_test(the_seeds_thresholds_are_where_we_say),
        cmocka_unit_test(our_sine_is_the_sine),
        cmocka_unit_test(distances_take_the_shorter_way),
        cmocka_unit_test(a_lone_satellite_has_no_neighbours),
        cmocka_unit_test(centre_goes_west),
        cmocka_unit_test(authors_tables_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
