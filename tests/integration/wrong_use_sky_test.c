/* Proves, over the shared libraries: functions of libskymem-sky that are given NULL, or numbers out
 * of range, answer as their headers say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <skymem-sky/skies.h>

#include "refusal.h"

#define DAY_MS 86400000

static const sky_constellation shell = {8, 8, 550, 53, 1, 0, 0, 0};
static const sky_constellation nothing = {0};
static const sky_satellite one = {1, 1}, none = {0, 0}, beyond = {9, 9};
static const sky_observer here = {0, 0, 0, 10};

static sky_fleet *make_fleet(void) {
    sky_fleet *f = NULL;
    assert_int_equal(sky_fleet_walker(&shell, 0, &f, NULL), SKY_OK);
    return f;
}

static void is_none(sky_satellite s) {
    assert_int_equal(s.plane, 0);
    assert_int_equal(s.slot, 0);
}

static void placements_are_refused(void **state) {
    (void)state;
    sky_placement in = {.strategy = SKY_PLACE_ROTATION, .servers = 9}, p, out;
    sky_satellite places[9];
    sky_move moves[9];
    sky_strategy strategy;
    sky_constellation no_height = shell;
    no_height.altitude_km = NAN;
    assert_int_equal(sky_placement_resolve(&shell, &in, &p, NULL), SKY_OK);
    const refusal rows[] = {
        REFUSED(sky_strategy_parse(NULL, &strategy)),
        REFUSED(sky_strategy_parse("hop", NULL)),
        REFUSED(sky_placement_resolve(NULL, &in, &out, NULL)),
        REFUSED(sky_placement_resolve(&shell, NULL, &out, NULL)),
        REFUSED(sky_placement_resolve(&shell, &in, NULL, NULL)),
        REFUSED(sky_placement_resolve(&no_height, &in, &out, NULL)),
        REFUSED(sky_place(NULL, &p, one, places)),
        REFUSED(sky_place(&shell, NULL, one, places)),
        REFUSED(sky_place(&shell, &p, one, NULL)),
        REFUSED(sky_place(&shell, &p, none, places)),
        REFUSED(sky_moves(NULL, &p, one, 1, moves)),
        REFUSED(sky_moves(&shell, NULL, one, 1, moves)),
        REFUSED(sky_moves(&shell, &p, one, 1, NULL)),
        REFUSED(sky_moves(&shell, &p, beyond, 1, moves)),
    };
    ALL_REFUSED(rows);
    is_none(sky_place_shifted(NULL, &p, one, one, 1));
    is_none(sky_place_shifted(&shell, NULL, one, one, 1));
    is_none(sky_place_shifted(&shell, &p, none, one, 1));
    is_none(sky_place_shifted(&shell, &p, one, beyond, UINT64_MAX));
    is_none(sky_place_shifted(&shell, &in, one, one, 1)); /* its window is not resolved */
    is_none(sky_overhead(NULL, one, 1));
    is_none(sky_overhead(&nothing, one, 1));
    is_none(sky_overhead(&shell, none, 1));
    is_none(sky_unwrapped(NULL, 1, 1));
    is_none(sky_unwrapped(&nothing, 1, 1));
}

static void counts_at_their_ends_are_wrapped(void **state) {
    (void)state;
    for (int64_t k = -3; k <= 3; k++) {
        sky_satellite s = sky_unwrapped(&shell, 3 + k * 64, 5 + k * 8);
        assert_int_equal(s.plane, 3);
        assert_int_equal(s.slot, 5);
    }
    sky_satellite s = sky_unwrapped(&shell, INT64_MIN, INT64_MAX);
    assert_in_range(s.plane, 1, 8);
    assert_in_range(s.slot, 1, 8);
}

static void distances_are_0(void **state) {
    (void)state;
    sky_constellation bad[] = {{0}, shell, shell, shell, shell};
    bad[1].altitude_km = NAN;
    bad[2].inclination_deg = INFINITY;
    bad[3].raan_spread_deg = -5;
    bad[4].altitude_km = -1e9;
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        const sky_constellation *c = i ? &bad[i - 1] : NULL;
        double least = 1, most = 1;
        sky_inter_plane_range_km(c, 0, &least, &most);
        assert_true(least == 0 && most == 0);
        assert_true(sky_inter_plane_at_km(c, 0, 0) == 0);
        assert_true(sky_rotation_s(c) == 0);
        assert_true(sky_intra_plane_km(c) == 0);
        assert_true(isfinite(sky_period_s(c)) && isfinite(sky_node_drift_deg_day(c)));
    }
    sky_inter_plane_range_km(&shell, 0, NULL, NULL);
    assert_true(sky_inter_plane_at_km(&shell, 0, NAN) == 0);
    assert_true(sky_inter_plane_at_km(&shell, INT32_MAX, 0) > 0);
}

static void times_are_refused(void **state) {
    (void)state;
    char text[SKY_UTC_BYTES];
    int64_t ms, last = 253402300799999; /* of the year 9999 */
    const refusal rows[] = {
        REFUSED(sky_utc_parse(NULL, &ms)),
        REFUSED(sky_utc_parse("2026-11-20T00:00:00Z", NULL)),
    };
    ALL_REFUSED(rows);
    assert_string_equal(sky_utc_text(0, NULL), "");
    assert_string_equal(sky_utc_text(INT64_MIN, text), "");
    assert_string_equal(sky_utc_text(INT64_MAX, text), "");
    assert_string_equal(sky_utc_text(last, text), "9999-12-31T23:59:59.999Z");
    assert_string_equal(sky_utc_text(last + 1, text), "");
    assert_string_equal(sky_utc_text(-1, text), "1969-12-31T23:59:59.999Z");
    sky_vector v = sky_earth_fixed(INT64_MIN, (sky_vector){1, 2, 3});
    assert_true(isfinite(v.x) && isfinite(v.y) && v.z == 3);
}

static void no_fleet_is_made(void **state) {
    (void)state;
    sky_fleet *f = NULL;
    sky_constellation bad[] = {shell, shell, shell, shell, shell};
    bad[0].phasing = 64;
    bad[1].raan_spread_deg = -5;
    bad[2].raan_spread_deg = 361;
    bad[3].altitude_km = NAN;
    bad[4].earth_radius_km = INFINITY;
    const refusal rows[] = {
        REFUSED(sky_fleet_walker(NULL, 0, &f, NULL)),
        REFUSED(sky_fleet_walker(&shell, 0, NULL, NULL)),
        REFUSED(sky_fleet_walker(&bad[0], 0, &f, NULL)),
        REFUSED(sky_fleet_walker(&bad[1], 0, &f, NULL)),
        REFUSED(sky_fleet_walker(&bad[2], 0, &f, NULL)),
        REFUSED(sky_fleet_walker(&bad[3], 0, &f, NULL)),
        REFUSED(sky_fleet_walker(&bad[4], 0, &f, NULL)),
        REFUSED(sky_fleet_parse(NULL, 5, "p", &f, NULL)),
        REFUSED(sky_fleet_parse("", 0, NULL, &f, NULL)),
        REFUSED(sky_fleet_parse("", 0, "p", NULL, NULL)),
        REFUSED(sky_fleet_arrange(NULL, 0, NULL)),
    };
    ALL_REFUSED(rows);
    assert_null(f);
    assert_null(sky_shell_find(NULL));
    assert_non_null(sky_shells(NULL));
    sky_fleet_destroy(NULL);
}

static void a_fleet_says_what_it_has_not(void **state) {
    (void)state;
    sky_fleet *f = make_fleet();
    char name[SKY_FLEET_NAME_BYTES];
    sky_motion m;
    assert_int_equal(sky_fleet_count(NULL), 0);
    assert_null(sky_fleet_shell(NULL));
    assert_string_equal(sky_fleet_name(NULL, 0, name), "");
    assert_string_equal(sky_fleet_name(f, 0, NULL), "");
    assert_string_equal(sky_fleet_name(f, 64, name), "");
    is_none(sky_fleet_place(NULL, 0));
    is_none(sky_fleet_place(f, 64));
    assert_int_equal(sky_fleet_number(NULL, one), UINT32_MAX);
    assert_int_equal(sky_fleet_number(f, none), UINT32_MAX);
    assert_int_equal(sky_fleet_number(f, beyond), UINT32_MAX);
    assert_int_equal(sky_fleet_state(NULL, 0, 0, &m), SKY_ORBIT_FAR);
    assert_int_equal(sky_fleet_state(f, 64, 0, &m), SKY_ORBIT_FAR);
    assert_int_equal(sky_fleet_state(f, 0, 0, NULL), SKY_ORBIT_FAR);
    assert_int_equal(sky_fleet_state(f, 0, INT64_MIN, &m), SKY_ORBIT_FINE);
    assert_true(isfinite(m.r_km.x));
    assert_int_equal(sky_fleet_state_after(NULL, 0, 0, &m), SKY_ORBIT_FAR);
    assert_int_equal(sky_fleet_state_after(f, 0, NAN, &m), SKY_ORBIT_FAR);
    assert_int_equal(sky_fleet_state_after(f, 0, 0, NULL), SKY_ORBIT_FAR);
    assert_int_equal(sky_fleet_epoch_ms(NULL, 0), 0);
    sky_fleet_destroy(f);
}

static void nothing_is_seen_from_nowhere(void **state) {
    (void)state;
    sky_fleet *f = make_fleet();
    sky_pass passes[4];
    sky_observer bad[] = {here, here, here, here};
    bad[0].latitude_deg = NAN;
    bad[1].longitude_deg = INFINITY;
    bad[2].altitude_m = -1e300;
    bad[3].min_elevation_deg = NAN;
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        const sky_observer *o = i ? &bad[i - 1] : NULL;
        sky_handover_plan plan = {0, SKY_HANDOVER_MS, 4, 3, 0};
        sky_handover rows[4];
        sky_look look = sky_observer_look(o, 0, (sky_vector){1, 2, 3});
        assert_true(look.elevation_deg == -90 && look.range_km == 0);
        assert_int_equal(sky_fleet_passes(f, 0, o, 0, DAY_MS, passes, 4), 0);
        assert_int_equal(sky_fleet_handovers(f, o, &plan, rows, 4), 0);
    }
    assert_true(sky_observer_look(&here, 0, (sky_vector){NAN, 0, 0}).range_km == 0);
    assert_int_equal(sky_fleet_passes(NULL, 0, &here, 0, DAY_MS, passes, 4), 0);
    assert_int_equal(sky_fleet_passes(f, 64, &here, 0, DAY_MS, passes, 4), 0);
    assert_int_equal(sky_fleet_passes(f, 0, &here, 0, DAY_MS, NULL, 4), 0);
    assert_int_equal(sky_fleet_passes(f, 0, &here, 0, -1, passes, 4), 0);
    assert_int_equal(sky_fleet_passes(f, 0, &here, INT64_MIN, INT64_MAX, passes, 4), 0);
    assert_int_equal(sky_fleet_passes(f, 0, &here, 0, SKY_PASSES_SPAN_MS_MAX + 1, passes, 4), 0);
    assert_true(sky_fleet_passes(f, 0, &here, 0, DAY_MS, NULL, 0) > 0);
    (void)sky_fleet_passes(f, 0, &here, INT64_MAX - 1000, INT64_MAX, passes, 4);
    sky_fleet_destroy(f);
}

static void no_plan_means_no_handovers(void **state) {
    (void)state;
    sky_fleet *f = make_fleet();
    sky_handover rows[4];
    sky_handover_plan plan = {0, SKY_HANDOVER_MS, 4, 3, 0};
    sky_handover_plan bad[] = {plan, plan, plan, plan, plan};
    bad[0].slot_ms = 0;
    bad[1].slot_ms = -1;
    bad[2].slot_ms = INT64_MAX;
    bad[3].hysteresis_deg = NAN;
    bad[4].start_ms = INT64_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sky_fleet_handovers(f, &here, &bad[i], rows, 4), 0);
    assert_int_equal(sky_fleet_handovers(NULL, &here, &plan, rows, 4), 0);
    assert_int_equal(sky_fleet_handovers(f, &here, NULL, rows, 4), 0);
    assert_int_equal(sky_fleet_handovers(f, &here, &plan, NULL, 4), 0);
    assert_true(sky_fleet_handovers(f, &here, &plan, NULL, 0) > 0);
    sky_fleet_destroy(f);
}

static void routes_take_a_fleets_links_only(void **state) {
    (void)state;
    sky_fleet *f = make_fleet();
    static sky_laser links[128];
    double km[64];
    uint32_t before[64];
    assert_int_equal(sky_fleet_links(NULL, 0, SKY_GRAZING_KM, links), 0);
    assert_int_equal(sky_fleet_links(f, 0, SKY_GRAZING_KM, NULL), 0);
    size_t count = sky_fleet_links(f, 0, SKY_GRAZING_KM, links);
    assert_int_equal(count, 128);
    const refusal rows[] = {
        REFUSED(sky_fleet_routes(NULL, links, count, 0, km, before)),
        REFUSED(sky_fleet_routes(f, NULL, count, 0, km, before)),
        REFUSED(sky_fleet_routes(f, links, count, 64, km, before)),
        REFUSED(sky_fleet_routes(f, links, count, 0, NULL, before)),
        REFUSED(sky_fleet_routes(f, links, count, 0, km, NULL)),
    };
    ALL_REFUSED(rows);
    const sky_laser bad[] = {{.from = 5000000, .to = 1, .km = 1, .up = true},
                             {.from = 5000000, .to = 1, .km = 1},
                             {.from = 1, .to = 64, .km = 1, .up = true},
                             {.from = 0, .to = 1, .km = -1, .up = true},
                             {.from = 0, .to = 1, .km = NAN, .up = true}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sky_fleet_routes(f, &bad[i], 1, 0, km, before), SKY_E_PARAM);
    sky_laser same[5];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        same[i] = (sky_laser){.from = 0, .to = 1, .km = 1, .up = true};
    assert_int_equal(sky_fleet_routes(f, same, 5, 0, km, before), SKY_E_PARAM);
    assert_int_equal(sky_fleet_routes(f, same, 4, 0, km, before), SKY_OK);
    assert_int_equal(sky_fleet_routes(f, NULL, 0, 0, km, before), SKY_OK);
    sky_fleet_destroy(f);
}

static void no_scenario(void **state) {
    (void)state;
    const char *path = "scenarios/seed.yaml";
    sky_constellation c;
    sky_placement p;
    sky_satellite s;
    sky_satellite_site site;
    sky_satellite_options no_path = {.stop_fd = -1};
    sky_sky_report report;
    size_t n;
    const refusal rows[] = {
        REFUSED(sky_scenario_read(NULL, &c, &p, &s, NULL)),
        REFUSED(sky_scenario_read(path, NULL, &p, &s, NULL)),
        REFUSED(sky_scenario_read(path, &c, NULL, &s, NULL)),
        REFUSED(sky_scenario_read(path, &c, &p, NULL, NULL)),
        REFUSED(sky_satellite_run(NULL, NULL)),
        REFUSED(sky_satellite_run(&no_path, NULL)),
        REFUSED(sky_satellite_ask(NULL, NULL, 0, 0, NULL)),
        REFUSED(sky_satellite_ask(path, NULL, 1, 0, NULL)),
        REFUSED(sky_satellite_site_read(NULL, &site, NULL)),
        REFUSED(sky_satellite_site_read(path, NULL, NULL)),
        REFUSED(sky_satellite_key_make(NULL, NULL)),
        REFUSED(sky_cache_sky_report(NULL, 0, &report)),
        REFUSED(sky_cache_satellites(NULL, 0, 0, NULL, 0, &n)),
        REFUSED(sky_cache_chunks(NULL, 0, NULL, 0, NULL, 0, NULL)),
    };
    ALL_REFUSED(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_are_refused),
        cmocka_unit_test(counts_at_their_ends_are_wrapped),
        cmocka_unit_test(distances_are_0),
        cmocka_unit_test(times_are_refused),
        cmocka_unit_test(no_fleet_is_made),
        cmocka_unit_test(a_fleet_says_what_it_has_not),
        cmocka_unit_test(nothing_is_seen_from_nowhere),
        cmocka_unit_test(no_plan_means_no_handovers),
        cmocka_unit_test(routes_take_a_fleets_links_only),
        cmocka_unit_test(no_scenario),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
