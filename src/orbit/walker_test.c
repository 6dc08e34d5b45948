/* Proves shells, D_N(t), UTC and our own trigonometry against published reference values and
 * against libm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/geometry.h"
#include "orbit/trig.h"
#include "orbit/walker.h"

static void close_to(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.12g is not within %g of %.12g", value, tolerance, expected);
}

static const sky_constellation starlink = {
    .planes = 72, .slots = 22, .altitude_km = 550, .inclination_deg = 53};

/* Source: the closed form in the seed's "Motivation", on its Earth of 6371 km. */
static void the_seeds_distance_between_planes_holds(void **state) {
    (void)state;
    sky_constellation c = starlink;
    c.earth_radius_km = 6371;
    double min, max;
    sky_inter_plane_range_km(&c, 0, &min, &max);
    close_to(min, 363.364, 0.001);
    close_to(max, 603.780, 0.001);
    double period = sky_period_s(&c), tilt = cos(c.inclination_deg * SKY_DEGREE);
    for (int i = 0; i < 1000; i++) {
        double u = 2 * SKY_PI * i / 1000;
        double root = sqrt(cos(u) * cos(u) + tilt * tilt * sin(u) * sin(u));
        close_to(sky_inter_plane_at_km(&c, 0, period * i / 1000),
                 (6371 + 550) * sqrt(2 * (1 - cos(2 * SKY_PI / 72))) * root, 1e-6);
    }
    close_to(sky_inter_plane_at_km(&c, 0, 0), sky_inter_plane_km(&c), 1e-9);
}

static void phasing_moves_the_neighbour(void **state) {
    (void)state;
    static const struct {
        uint32_t phasing;
        int32_t offset;
        double min, max, within;
    } rows[] = {{0, 0, 363.7, 604.4, 0.1},
                {17, 0, 830.2, 960.3, 0.1},
                {36, 0, 1350, 1434, 1},
                {36, -1, 625, 789, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sky_constellation c = starlink;
        c.phasing = rows[i].phasing;
        double min, max;
        sky_inter_plane_range_km(&c, rows[i].offset, &min, &max);
        close_to(min, rows[i].min, rows[i].within);
        close_to(max, rows[i].max, rows[i].within);
        for (int k = 0; k < 500; k++) {
            double km = sky_inter_plane_at_km(&c, rows[i].offset, sky_period_s(&c) * k / 500);
            assert_true(km >= min - 1e-6 && km <= max + 1e-6);
        }
    }
}

/* Plane 1 against all others, which by symmetry is all against all. */
static double closest_approach_km(const sky_constellation *c) {
    sky__walker w;
    sky__walker_init(&w, c);
    double least = INFINITY;
    for (uint32_t plane = 2; plane <= c->planes; plane++) {
        for (uint32_t slot = 1; slot <= c->slots; slot++) {
            double d[3];
            for (int i = 0; i < 3; i++) {
                double t = w.period_s * i / 8;
                double km = sky__distance_km(
                    sky__walker_at(&w, (sky_satellite){1, 1}, t, 0).r_km,
                    sky__walker_at(&w, (sky_satellite){plane, slot}, t, 0).r_km);
                d[i] = km * km;
            }
            double middle = (d[0] + d[2]) / 2;
            double swing = hypot((d[0] - d[2]) / 2, d[1] - middle);
            least = fmin(least, sqrt(fmax(middle - swing, 0)));
        }
    }
    return least;
}

/* Source: arXiv 2109.13994 */
static void closest_approaches_are_the_published_ones(void **state) {
    (void)state;
    sky_constellation c = sky_shell_find("kuiper-c")->constellation;
    close_to(closest_approach_km(&c), 55.89, 0.01);
    c = (sky_constellation){
        .planes = 22, .slots = 72, .altitude_km = 550, .inclination_deg = 53, .phasing = 17};
    close_to(closest_approach_km(&c), 61.83, 0.01);
    c = sky_shell_find("starlink-a")->constellation;
    close_to(closest_approach_km(&c), 20.17, 0.01);
}

static void states_are_orbits(void **state) {
    (void)state;
    size_t count;
    const sky_shell *shells = sky_shells(&count);
    assert_true(count >= 6);
    for (size_t i = 0; i < count; i++) {
        const sky_constellation *c = &shells[i].constellation;
        sky_satellite s = {c->planes, c->slots / 2 + 1};
        sky__walker w;
        sky__walker_init(&w, c);
        for (double t = 0; t < 9000; t += 1234.5) {
            sky_motion a = sky__walker_at(&w, s, t, 0), b = sky__walker_at(&w, s, t + 1e-3, 0);
            close_to(sqrt(a.r_km.x * a.r_km.x + a.r_km.y * a.r_km.y + a.r_km.z * a.r_km.z),
                     6378.137 + c->altitude_km, 1e-9);
            close_to((b.r_km.x - a.r_km.x) / 1e-3, a.v_km_s.x, 1e-4);
            close_to((b.r_km.y - a.r_km.y) / 1e-3, a.v_km_s.y, 1e-4);
            close_to((b.r_km.z - a.r_km.z) / 1e-3, a.v_km_s.z, 1e-4);
        }
    }
    close_to(sky_node_drift_deg_day(&starlink), -4.489, 0.001);
    assert_null(sky_shell_find("no such shell"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seeds_distance_between_planes_holds),
        cmocka_unit_test(phasing_moves_the_neighbour),
        cmocka_unit_test(closest_approaches_are_the_published_ones),
        cmocka_unit_test(states_are_orbits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
