/* Proves SGP4 against the verification set of its authors, faults included: near the Earth and deep
 * in space, drag, resonance, Sun and Moon, to a millimetre and a micrometre per second. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/sgp4.h"

typedef struct {
    double km, km_s;
    int rows, faults, satellites;
} worst;

static void widen(double *most, double value) {
    *most = fabs(value) > *most ? fabs(value) : *most;
}

static void check_row(const sky_fleet *f, const char *line, worst *w) {
    double t, r[3], v[3];
    int fault;
    sky_motion s = {{0, 0, 0}, {0, 0, 0}};
    if (sscanf(line, "%lf fault %d", &t, &fault) == 2) {
        sky_orbit_fault found = sky_fleet_state_after(f, 0, t, &s);
        if ((int)found != fault)
            fail_msg("at %s: %s (%d)", line, sky_orbit_fault_text(found), (int)found);
        assert_true(s.r_km.x == 0 && s.v_km_s.z == 0); /* untouched */
        w->faults++;
        return;
    }
    assert_int_equal(
        sscanf(line, "%lf %lf %lf %lf %lf %lf %lf", &t, &r[0], &r[1], &r[2], &v[0], &v[1], &v[2]),
        7);
    assert_int_equal(sky_fleet_state_after(f, 0, t, &s), SKY_ORBIT_FINE);
    const double km[] = {s.r_km.x - r[0], s.r_km.y - r[1], s.r_km.z - r[2]};
    const double km_s[] = {s.v_km_s.x - v[0], s.v_km_s.y - v[1], s.v_km_s.z - v[2]};
    for (int i = 0; i < 3; i++) {
        widen(&w->km, km[i]);
        widen(&w->km_s, km_s[i]);
        if (!(fabs(km[i]) <= 1e-6 && fabs(km_s[i]) <= 1e-9))
            fail_msg("off by %g km, %g km/s in %s", km[i], km_s[i], line);
    }
    w->rows++;
}

static void the_verification_set_holds(void **state) {
    (void)state;
    FILE *file = fopen("tests/golden/sgp4.txt", "r");
    assert_non_null(file);
    char line[256], pair[512] = "";
    sky_fleet *fleet = NULL;
    worst w = {0};
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        if (strlen(line) == 70 && line[1] == ' ' && line[0] == '1') {
            snprintf(pair, sizeof pair, "%s", line);
        } else if (strlen(line) == 70 && line[1] == ' ' && line[0] == '2' && pair[0]) {
            sky_error error = {0};
            strncat(pair, line, sizeof pair - strlen(pair) - 1);
            sky_fleet_destroy(fleet);
            fleet = NULL;
            if (sky_fleet_parse(pair, strlen(pair), "golden", &fleet, &error) != SKY_OK)
                fail_msg("%s: %s", error.text, pair);
            pair[0] = 0;
            w.satellites++;
        } else {
            check_row(fleet, line, &w);
        }
    }
    sky_fleet_destroy(fleet);
    fclose(file);
    print_message("%d satellites, %d rows, %d faults: at most %.2g mm and %.2g um/s off\n",
                  w.satellites, w.rows, w.faults, w.km * 1e6, w.km_s * 1e9);
    assert_int_equal(w.satellites, 33);
    assert_int_equal(w.rows, 666);
    assert_int_equal(w.faults, 7);
}

static const sky__elements vanguard = {.number = 5,
                                       .epoch_days = 18441.78495062,
                                       .bstar = 0.28098e-4,
                                       .inclination = 0.598092919,
                                       .node = 6.08638547138,
                                       .eccentricity = 0.1859667,
                                       .perigee = 5.7904160274,
                                       .anomaly = 0.3373093125,
                                       .motion = 0.0472294454};

static void elements_out_of_range_are_refused(void **state) {
    (void)state;
    sky__sgp4 s;
    sky__elements e = vanguard;
    assert_int_equal(sky__sgp4_init(&s, &e), SKY_OK);
    e.eccentricity = 1;
    assert_int_equal(sky__sgp4_init(&s, &e), SKY_E_PARAM);
    e = vanguard;
    e.motion = 0;
    assert_int_equal(sky__sgp4_init(&s, &e), SKY_E_PARAM);
    e = vanguard;
    e.anomaly = NAN;
    assert_int_equal(sky__sgp4_init(&s, &e), SKY_E_PARAM);
    e = vanguard;
    e.bstar = 1e9;
    assert_int_equal(sky__sgp4_init(&s, &e), SKY_E_PARAM);
}

static void a_propagator_keeps_no_state(void **state) {
    (void)state;
    sky__sgp4 s;
    sky__elements e = vanguard;
    e.motion = 0.00437; /* a turn a day: resonant */
    assert_int_equal(sky__sgp4_init(&s, &e), SKY_OK);
    assert_int_equal(s.far.term_count, 3);
    sky_motion first, again;
    assert_int_equal(sky__sgp4_at(&s, 40000, &first), SKY_ORBIT_FINE);
    assert_int_equal(sky__sgp4_at(&s, -7000, &again), SKY_ORBIT_FINE);
    assert_int_equal(sky__sgp4_at(&s, 40000, &again), SKY_ORBIT_FINE);
    assert_memory_equal(&first, &again, sizeof first);
    assert_int_equal(sky__sgp4_at(&s, 1e9, &again), SKY_ORBIT_FAR);
    assert_int_equal(sky__sgp4_at(&s, NAN, &again), SKY_ORBIT_FAR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verification_set_holds),
        cmocka_unit_test(elements_out_of_range_are_refused),
        cmocka_unit_test(a_propagator_keeps_no_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
