/* Proves what is seen from the ground: elevation, azimuth and range by construction, how many
 * satellites stand above a mask against published counts, and passes against a second-by-second
 * look. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/ground.h"
#include "orbit/trig.h"
#include "orbit/utc.h"

static const int64_t start = 1795132800000; /* 2026-11-20T00:00:00Z */

static void close_to(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.12g is not within %g of %.12g", value, tolerance, expected);
}

static void looks_are_as_constructed(void **state) {
    (void)state;
    for (double latitude = -80; latitude <= 80; latitude += 20) {
        sky_observer o = {.latitude_deg = latitude, .longitude_deg = 100, .altitude_m = 300};
        sky__station s = sky__station_at(&o, start);
        for (double azimuth = 5; azimuth < 360; azimuth += 50) {
            for (double elevation = -30; elevation < 90; elevation += 17) {
                double a = azimuth * SKY_DEGREE, e = elevation * SKY_DEGREE, km = 1000;
                double n = cos(e) * cos(a) * km, t = cos(e) * sin(a) * km, u = sin(e) * km;
                sky_vector r = {s.place_km.x + n * s.north.x + t * s.east.x + u * s.up.x,
                                s.place_km.y + n * s.north.y + t * s.east.y + u * s.up.y,
                                s.place_km.z + n * s.north.z + t * s.east.z + u * s.up.z};
                sky_look look = sky_observer_look(&o, start, r);
                close_to(look.elevation_deg, elevation, 1e-9);
                close_to(look.azimuth_deg, azimuth, 1e-9);
                close_to(look.range_km, km, 1e-9);
            }
        }
    }
}

/* Source: Vallado, Fundamentals of Astrodynamics, example 3-1 (site at 39.007 N, 2187 m) */
static void stations_stand_on_the_ellipsoid(void **state) {
    (void)state;
    sky_observer o = {.latitude_deg = 39.007, .longitude_deg = -104.883, .altitude_m = 2187};
    sky_vector place = sky__station_at(&o, start).place_km;
    close_to(hypot(place.x, place.y), 4964.5377, 2e-3);
    close_to(place.z, 3994.2955, 2e-3);
    o.longitude_deg = 0; /* where Greenwich is */
    place = sky__station_at(&o, start).place_km;
    close_to(sky__turned(atan2(place.y, place.x)), sky_gmst_rad(start), 1e-12);
}

/* Distance and first bearing on a sphere, by the usual formulas. */
static void expect_way(const sky_observer *from, const sky_observer *to, double km, double course) {
    double a = from->latitude_deg * SKY_DEGREE, b = to->latitude_deg * SKY_DEGREE;
    double d = (to->longitude_deg - from->longitude_deg) * SKY_DEGREE;
    double angle = acos(sin(a) * sin(b) + cos(a) * cos(b) * cos(d));
    double bearing = atan2(sin(d) * cos(b), cos(a) * sin(b) - sin(a) * cos(b) * cos(d));
    close_to(angle * 6371.0088, km, 1e-6);
    close_to(remainder(bearing / SKY_DEGREE - course, 360), 0, 1e-6);
}

static void observers_move_on_great_circles(void **state) {
    (void)state;
    const double quarter = 6371.0088 * SKY_PI / 2;
    sky_observer o = {.altitude_m = 300, .min_elevation_deg = 25};
    sky_observer east = sky__observer_moved(&o, quarter, 90);
    close_to(east.latitude_deg, 0, 1e-9);
    close_to(east.longitude_deg, 90, 1e-9);
    assert_true(east.altitude_m == 300 && east.min_elevation_deg == 25);
    close_to(sky__observer_moved(&o, quarter, 0).latitude_deg, 90, 1e-6);
    sky_observer over = sky__observer_moved(&o, 1.5 * quarter, 0); /* and down behind the pole */
    close_to(over.latitude_deg, 45, 1e-9);
    close_to(fabs(over.longitude_deg), 180, 1e-9);
    for (double course = -170; course < 190; course += 40) {
        o = (sky_observer){.latitude_deg = 47.6, .longitude_deg = -122.3};
        sky_observer moved = sky__observer_moved(&o, 5000, course);
        expect_way(&o, &moved, 5000, course);
        moved = sky__observer_moved(&o, 0, course);
        close_to(moved.latitude_deg, 47.6, 1e-12);
        close_to(moved.longitude_deg, -122.3, 1e-12);
    }
}

static int64_t utc(const char *text) {
    int64_t ms;
    assert_int_equal(sky_utc_parse(text, &ms), SKY_OK);
    return ms;
}

/* Exact where UT1 is given (here as UTC, to the millisecond, 0.3 m), and within what UT1 - UTC and
 * the pole's motion come to where it is not.
 * Source: Vallado, example 3-15 (UT1 - UTC -0.439961 s); astropy 8.0, TEME to ITRS */
static void places_turn_with_the_earth(void **state) {
    (void)state;
    static const struct {
        const char *at;
        sky_vector teme, fixed;
        double off_km;
    } rows[] = {
        {"2004-04-06T07:51:27.946Z",
         {5094.18016210, 6127.64465950, 6380.34453270},
         {-1033.47503130, 7901.30558560, 6380.34453270},
         3e-4},
        {"2004-04-06T07:51:28.386Z",
         {5094.18016210, 6127.64465950, 6380.34453270},
         {-1033.4793830, 7901.2952754, 6380.3565958},
         0.3},
        {"2026-11-20T00:00:00Z",
         {4000, -5000, 2500},
         {-2228.264367, -6002.905863, 2499.991821},
         0.1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sky_vector r = sky_earth_fixed(utc(rows[i].at), rows[i].teme);
        close_to(r.x, rows[i].fixed.x, rows[i].off_km);
        close_to(r.y, rows[i].fixed.y, rows[i].off_km);
        close_to(r.z, rows[i].fixed.z, rows[i].off_km);
    }
    sky_observer o = {.latitude_deg = 47.6, .longitude_deg = -122.3, .altitude_m = 60};
    sky_vector then = sky_earth_fixed(start, sky__station_at(&o, start).place_km);
    sky_vector later = sky_earth_fixed(start + 40000000,
                                       sky__station_at(&o, start + 40000000).place_km);
    close_to(then.x, later.x, 1e-8);
    close_to(then.y, later.y, 1e-8);
}

/* Over the zenith on a sphere: slant of 550 km at an elevation. Source: the reference values. */
static void slants_are_the_reference_ones(void **state) {
    (void)state;
    static const double rows[][3] = {
        {0, 22.984, 2705.3}, {10, 14.957, 1815.7}, {25, 8.451, 1123.4}, {40, 5.152, 812.1}};
    sky_observer o = {0};
    sky__station s = sky__station_at(&o, start);
    for (size_t i = 0; i < 4; i++) { /* along the equator, where the ellipsoid is a circle */
        sky_turn_of turn = sky__sincos(rows[i][1] * SKY_DEGREE);
        double r = 6928.137;
        sky_vector at = {r * (turn.cosine * s.up.x + turn.sine * s.east.x),
                         r * (turn.cosine * s.up.y + turn.sine * s.east.y), 0};
        sky_look look = sky_observer_look(&o, start, at);
        close_to(look.elevation_deg, rows[i][0], 0.005);
        close_to(look.range_km, rows[i][2], 0.2);
    }
}

/* Over a day, from a sphere as the reference values are. */
static void as_many_stand_above_the_mask(void **state) {
    (void)state;
    static const struct {
        double latitude, mask, mean;
        int min, max;
    } rows[] = {{0, 25, 6.9, 5, 9},     {30, 25, 8.9, 7, 12}, {40, 25, 12.0, 10, 15},
                {50, 25, 19.3, 18, 22}, {60, 25, 3.8, 2, 6},  {40, 40, 4.4, 2, 7},
                {50, 40, 9.5, 8, 11},   {60, 40, 0, 0, 0}};
    sky_fleet *f;
    assert_int_equal(
        sky_fleet_walker(&sky_shell_find("starlink-a")->constellation, start, &f, NULL), SKY_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sky_observer o = {.latitude_deg = rows[i].latitude};
        double threshold = sky__sin(rows[i].mask * SKY_DEGREE), sum = 0;
        for (int k = 0; k < 120; k++) {
            int64_t ms = start + k * 719000LL;
            sky__station s = sky__station_at(&o, ms);
            s.place_km = (sky_vector){6378.137 * s.up.x, 6378.137 * s.up.y, 6378.137 * s.up.z};
            int seen = 0;
            for (uint32_t n = 0; n < sky_fleet_count(f); n++) {
                sky_motion at;
                assert_int_equal(sky_fleet_state(f, n, ms, &at), SKY_ORBIT_FINE);
                seen += sky__sine_elevation(&s, at.r_km) >= threshold;
            }
            assert_in_range(seen, rows[i].min, rows[i].max);
            sum += seen;
        }
        close_to(sum / 120, rows[i].mean, 0.1);
    }
    sky_fleet_destroy(f);
}

static double elevation(const sky_fleet *f, uint32_t n, const sky_observer *o, int64_t ms) {
    sky_motion s;
    assert_int_equal(sky_fleet_state(f, n, ms, &s), SKY_ORBIT_FINE);
    return sky_observer_look(o, ms, s.r_km).elevation_deg;
}

static void passes_are_what_a_patient_observer_sees(void **state) {
    (void)state;
    sky_fleet *f;
    assert_int_equal(
        sky_fleet_walker(&sky_shell_find("starlink-a")->constellation, start, &f, NULL), SKY_OK);
    sky_observer o = {.latitude_deg = 47.6, .longitude_deg = -122.3, .min_elevation_deg = 10};
    size_t found = 0;
    for (uint32_t n = 0; n < sky_fleet_count(f); n += 311) {
        sky_pass passes[64];
        size_t count = sky_fleet_passes(f, n, &o, start, start + 86400000, passes, 64);
        assert_in_range(count, 1, 20);
        found += count;
        size_t at = 0;
        for (int64_t ms = start; ms < start + 86400000; ms += 5000) {
            while (at < count && passes[at].set_ms < ms)
                at++;
            bool within = at < count && ms >= passes[at].rise_ms;
            double height = elevation(f, n, &o, ms);
            if (within != (height >= 10) && fabs(height - 10) > 1e-3)
                fail_msg("satellite %u, %lld: %.4f", n, (long long)(ms - start), height);
            if (within)
                assert_true(height <= passes[at].max_elevation_deg + 1e-6);
        }
        for (size_t i = 0; i < count; i++) {
            close_to(elevation(f, n, &o, passes[i].culminate_ms), passes[i].max_elevation_deg,
                     1e-3);
            if (passes[i].rise_ms > start)
                close_to(elevation(f, n, &o, passes[i].rise_ms), 10, 1e-3);
        }
    }
    assert_true(found > 10);
    sky_fleet_destroy(f);
}

/* A span may end anywhere in a pass: the pass then has what was seen until then. */
static void the_last_look_hides_no_peak(void **state) {
    (void)state;
    sky_fleet *f;
    assert_int_equal(
        sky_fleet_walker(&sky_shell_find("starlink-a")->constellation, start, &f, NULL), SKY_OK);
    sky_observer o = {.latitude_deg = 48, .min_elevation_deg = 60};
    uint32_t n = 0;
    sky_pass whole;
    while (sky_fleet_passes(f, n, &o, start, start + 7200000, &whole, 1) != 1 ||
           whole.max_elevation_deg < 80 || whole.rise_ms == start)
        n++;
    int64_t end = whole.rise_ms;
    for (; end < whole.set_ms; end += 1000) {
        sky_pass cut;
        double highest = -90;
        assert_int_equal(sky_fleet_passes(f, n, &o, start, end, &cut, 1), 1);
        for (int64_t ms = whole.rise_ms; ms <= end; ms += 100)
            highest = fmax(highest, elevation(f, n, &o, ms));
        close_to(cut.max_elevation_deg, highest, 0.05);
    }
    o.min_elevation_deg = whole.max_elevation_deg - 1; /* a pass between two looks */
    sky_pass brief;
    assert_int_equal(sky_fleet_passes(f, n, &o, start, start + 7200000, &brief, 1), 1);
    assert_true(brief.set_ms - brief.rise_ms < 15000);
    for (end = brief.set_ms + 1; end < brief.set_ms + 30000; end += 500)
        assert_int_equal(sky_fleet_passes(f, n, &o, start, end, NULL, 0), 1);
    sky_fleet_destroy(f);
}

static void what_never_sets_is_one_pass(void **state) {
    (void)state;
    static const char tle[] =
        "1 28626U 05008A   06176.46683397 -.00000205  00000-0  10000-3 0  2190\n"
        "2 28626   0.0019 286.9433 0000335  13.7918  55.6504  1.00270176  4891\n";
    sky_fleet *f;
    assert_int_equal(sky_fleet_parse(tle, strlen(tle), "x", &f, NULL), SKY_OK);
    int64_t ms = sky_fleet_epoch_ms(f, 0);
    sky_motion s;
    assert_int_equal(sky_fleet_state(f, 0, ms, &s), SKY_ORBIT_FINE);
    double east = (atan2(s.r_km.y, s.r_km.x) - sky_gmst_rad(ms)) / SKY_DEGREE;
    sky_observer o = {.latitude_deg = 10, .longitude_deg = east, .min_elevation_deg = 30};
    sky_pass p[2];
    assert_int_equal(sky_fleet_passes(f, 0, &o, ms, ms + 43200000, p, 2), 1);
    assert_int_equal(p[0].rise_ms, ms);
    assert_int_equal(p[0].set_ms, ms + 43200000);
    o.longitude_deg = east + 180;
    assert_int_equal(sky_fleet_passes(f, 0, &o, ms, ms + 43200000, p, 2), 0);
    sky_fleet_destroy(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_are_as_constructed),
        cmocka_unit_test(stations_stand_on_the_ellipsoid),
        cmocka_unit_test(observers_move_on_great_circles),
        cmocka_unit_test(places_turn_with_the_earth),
        cmocka_unit_test(slants_are_the_reference_ones),
        cmocka_unit_test(as_many_stand_above_the_mask),
        cmocka_unit_test(passes_are_what_a_patient_observer_sees),
        cmocka_unit_test(the_last_look_hides_no_peak),
        cmocka_unit_test(what_never_sets_is_one_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
