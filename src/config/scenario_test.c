/* Proves that scenario files come to what they say, that nonsense is refused with file, line and
 * what is allowed, and that the scenarios we ship are read. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/sim.h>

#include "base/lines_fixture.h"
#include "config/scenario.h"
#include "io/file.h"

static sky_status parse(const char *text, sky_scenario *out, sky_error *error) {
    return sky_scenario_parse(text, strlen(text), "sky.yaml", out, error);
}

static const char every_key[] =
    "constellation: {planes: 5, slots: 19, altitude_km: 1200, inclination_deg: 81.5, phasing: "
    "3,\n"
    "  earth_radius_km: 6371, light_km_s: 299800}\n"
    "sky: ideal\n"
    "center: [3, 4]\n"
    "observer: {lat_deg: 47.6, lon_deg: -122.3, alt_m: 12, min_elevation_deg: 40}\n"
    "placement: {strategy: hop, servers: 10, window: [3, 5], weights: [1, 2.5], replicas: 2, "
    "parity: 3}\n"
    "chunk: 8KiB\n"
    "satellite: {memory: 1.5MiB, processing_ms: 0.02}\n"
    "links: {isl_gbps: 100, ground_mbps: 200.5, ground_links: each, loss: 0.01, ground_loss: 0.02, "
    "isl_loss: 0.03, jitter_ms: 1, "
    "queue: 2MiB}\n"
    "time: {start: 2028-02-29T23:59:58Z, scale: 30, rotation_s: 2.5}\n"
    "lookup: binary\n"
    "eviction: [gossip, lazy, sweep, broadcast]\n"
    "workload: {keys: 28, chain: 7, gets: 20, value: 2.9MiB, zipf: 1.1, every_ms: 0.5,\n"
    "  arrivals: fixed, removes: 0.1, pins: 0.2, prefetches: 0.3}\n"
    "faults: {crash_per_h: 2, partition_per_h: 1, corrupt: 1e-6, duplicate: 0.001, reorder: "
    "0.01,\n"
    "  skew_ms: 5, liar_satellites: 3}\n"
    "outages:\n"
    "  battery: [satellite, 5, 19, 0s, 90s]\n"
    "  laser: [link, 1, 7, 5, 7, 500ms, 1h]\n"
    "  storm: [station, 2h, 1d]\n"
    "until: 90m\n";

static void every_key_arrives(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    assert_int_equal(parse(every_key, &s, &error), SKY_OK);
    assert_int_equal(s.constellation.planes, 5);
    assert_int_equal(s.constellation.slots, 19);
    assert_int_equal(s.constellation.phasing, 3);
    assert_true(s.constellation.altitude_km == 1200 && s.constellation.inclination_deg == 81.5);
    assert_true(s.constellation.earth_radius_km == 6371 && s.constellation.light_km_s == 299800);
    assert_int_equal(s.centre.plane, 3);
    assert_int_equal(s.centre.slot, 4);
    assert_true(s.observer.latitude_deg == 47.6 && s.observer.longitude_deg == -122.3);
    assert_true(s.observer.altitude_m == 12 && s.observer.min_elevation_deg == 40);
    assert_int_equal(s.placement.strategy, SKY_PLACE_HOP);
    assert_int_equal(s.placement.servers, 10);
    assert_int_equal(s.placement.window_planes, 0); /* hop has none */
    assert_true(s.placement.weight_intra == 1 && s.placement.weight_inter == 2.5);
    assert_int_equal(s.chunk_bytes, 8192);
    assert_int_equal(s.satellite.memory_bytes, 1572864);
    assert_int_equal(s.satellite.processing_ns, 20000);
    assert_int_equal(s.links.isl_bits_s, 100000000000);
    assert_int_equal(s.links.ground_bits_s, 200500000);
    assert_true(s.links.loss == 0.01 && s.links.ground_loss == 0.02 && s.links.isl_loss == 0.03);
    assert_int_equal(s.links.jitter_ns, 1000000);
    assert_int_equal(s.links.queue_bytes, 2097152);
    assert_int_equal(s.time.start_ms, 1835481598000);
    assert_true(s.time.scale == 30);
    assert_int_equal(s.time.rotation_ns, 2500000000);
    assert_int_equal(s.lookup, SKY_LOOKUP_BINARY);
    assert_int_equal(s.eviction,
                     SKY_EVICT_GOSSIP | SKY_EVICT_LAZY | SKY_EVICT_SWEEP | SKY_EVICT_BROADCAST);
    assert_int_equal(s.replicas, 2);
    assert_int_equal(s.parity, 3);
    assert_true(s.links.ground_each);
    assert_int_equal(s.workload.keys, 28);
    assert_int_equal(s.workload.chain, 7);
    assert_int_equal(s.workload.gets, 20);
    assert_int_equal(s.workload.value_bytes, 3040870);
    assert_true(s.workload.zipf == 1.1);
    assert_int_equal(s.workload.every_ns, 500000);
    assert_true(s.workload.fixed);
    assert_true(s.workload.removes == 0.1 && s.workload.pins == 0.2);
    assert_true(s.workload.prefetches == 0.3);
    assert_true(s.faults.crash_per_h == 2 && s.faults.partition_per_h == 1);
    assert_true(s.faults.corrupt == 1e-6 && s.faults.duplicate == 0.001 &&
                s.faults.reorder == 0.01);
    assert_int_equal(s.faults.skew_ns, 5000000);
    assert_int_equal(s.faults.liar_satellites, 3);
    assert_int_equal(s.until_ns, SKY_SECONDS(5400));
}

static void grounds_arrive(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    char text[4096] = "constellation: {shell: oneweb}\nsky: physical\nlookup: binary\n"
                      "outages: {flood: [station, ship, 1s, 2s], x: [station, observer, 1s, 2s]}\n"
                      "grounds:\n  london: [51.5, -0.1]\n  ship: [40, -40, 50.5, 30, 270]\n";
    assert_int_equal(parse(text, &s, &error), SKY_OK);
    assert_int_equal(s.ground_count, 2);
    const sky_scenario_ground *g = s.grounds;
    assert_string_equal(g[0].name, "london");
    assert_true(g[0].place[0] == 51.5 && g[0].place[1] == -0.1 && g[0].bits_s == 0);
    assert_true(g[0].speed_km_h == 0 && g[1].speed_km_h == 30 && g[1].course_deg == 270);
    assert_int_equal(g[1].bits_s, 50500000);
    assert_int_equal(s.outages[0].ground, 2);
    assert_int_equal(s.outages[1].ground, 0);
    const char anchored[] = "constellation: {shell: oneweb}\nsky: physical\nlookup: binary\n"
                            "grounds: {london: [51.5, -0.1]}\nanchor: {london: 2h, observer: 1d}";
    sky_scenario moved;
    assert_int_equal(parse(anchored, &moved, &error), SKY_OK);
    assert_true(moved.anchor_count == 2 && moved.anchors[0].ground == 1);
    assert_true(moved.anchors[0].from_ns == SKY_SECONDS(7200) && moved.anchors[1].ground == 0);
    for (int i = 2; i < SKY_GROUNDS_MAX; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "  g%d: [1, 2]\n", i);
        sky_status wanted = i < SKY_GROUNDS_MAX - 1 ? SKY_OK : SKY_E_PARAM;
        assert_int_equal(parse(text, &s, &error), wanted);
    }
    assert_non_null(strstr(error.text, "more than 15 grounds"));
}

static void outages_arrive(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    assert_int_equal(parse(every_key, &s, &error), SKY_OK);
    const sky_outage *o = s.outages;
    assert_int_equal(s.outage_count, 3);
    assert_string_equal(o[0].name, "battery");
    assert_true(o[0].kind == SKY_OUTAGE_SATELLITE && o[0].a.plane == 5 && o[0].a.slot == 19);
    assert_true(o[0].from_ns == 0 && o[0].to_ns == SKY_SECONDS(90));
    assert_true(o[1].kind == SKY_OUTAGE_LINK && o[1].a.plane == 1 && o[1].b.plane == 5);
    assert_true(o[1].a.slot == 7 && o[1].b.slot == 7 && o[1].from_ns == SKY_MS(500));
    assert_true(o[2].kind == SKY_OUTAGE_STATION && o[2].to_ns == SKY_SECONDS(86400));
    char text[8192] = "constellation: {planes: 5, slots: 19}\noutages:\n";
    for (int i = 0; i <= SKY_OUTAGES_MAX; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "  o%d: [station, 1s, 2s]\n", i);
        sky_status wanted = i < SKY_OUTAGES_MAX ? SKY_OK : SKY_E_PARAM;
        assert_int_equal(parse(text, &s, &error), wanted);
    }
    assert_non_null(strstr(error.text, "sky.yaml:67: more than 64 outages"));
}

static void constellation_is_enough(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    assert_int_equal(parse("constellation: {planes: 5, slots: 19}", &s, &error), SKY_OK);
    assert_int_equal(s.centre.plane, 3);
    assert_int_equal(s.centre.slot, 10);
    assert_int_equal(s.placement.strategy, SKY_PLACE_ROTATION_HOP);
    assert_int_equal(s.placement.window_planes, 3);
    assert_int_equal(s.chunk_bytes, 6144);
    assert_int_equal(s.time.rotation_ns / 100000000, 3020); /* 302.1 s */
    assert_int_equal(s.time.start_ms, 1795132800000);
    assert_int_equal(s.eviction, SKY_EVICT_GOSSIP);

    assert_int_equal(parse("constellation: {earth_radius_km: 6371, shell: kuiper-b}", &s, &error),
                     SKY_OK);
    assert_int_equal(s.constellation.planes, 28);
    assert_int_equal(s.constellation.slots, 28);
    assert_true(s.constellation.earth_radius_km == 6371);
    assert_true(s.constellation.light_km_s == 299792.458);
}

static void a_program_with_commas_reads_the_same(void **state) {
    (void)state;
    static const char *const places[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < 3 && !found; i++)
        found = setlocale(LC_NUMERIC, places[i]) != NULL;
    if (!found)
        skip();
    sky_scenario s;
    sky_error error = {0};
    const char *text =
        "constellation: {planes: 5, slots: 19}\nsatellite: {memory: 1.5MiB, processing_ms: 0.5}";
    assert_int_equal(parse(text, &s, &error), SKY_OK);
    assert_int_equal(s.satellite.memory_bytes, 1572864);
    assert_int_equal(s.satellite.processing_ns, 500000);
    setlocale(LC_NUMERIC, "C");
}

static void users_are_read(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    assert_int_equal(parse("constellation: {shell: oneweb}\nsky: physical\nlookup: binary\n"
                           "grounds: {denver: [39.7, -105]}\nlinks: {land_km_s: 200000}\n"
                           "users:\n  office: [denver, 2.5]\n  farm: [observer, 1, 12.5]\n"
                           "  bank: [denver, 1, 40, -105.5, 20]\n"
                           "  flight: [nearest, 3, -41, 12, 0, 900, 75]\n",
                           &s, &error),
                     SKY_OK);
    assert_true(s.links.land_km_s == 200000);
    assert_int_equal(s.user_count, 4);
    const sky_scenario_user *u = s.users;
    assert_true(u[0].gateway == 1 && u[0].weight == 2.5 && u[0].delay_ns == 0 && !u[0].has_place);
    assert_true(u[1].gateway == 0 && u[1].delay_ns == SKY_MS(25) / 2 && !u[1].has_place);
    assert_true(u[2].has_place && u[2].place[0] == 40 && u[2].place[1] == -105.5);
    assert_true(u[2].bits_s == 20000000 && u[2].speed_km_h == 0 && !u[2].nearest);
    assert_true(u[3].nearest && u[3].place[0] == -41 && u[3].bits_s == 0);
    assert_true(u[3].speed_km_h == 900 && u[3].course_deg == 75);
    assert_string_equal(u[3].name, "flight");
}

static void links_that_vary_are_read(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    assert_int_equal(parse("constellation: {shell: oneweb}\nsky: physical\nlookup: binary\n"
                           "grounds: {denver: [39.7, -105, 0, 0, 0, 40]}\n"
                           "elevation:\n  25: [0.25, 0.02]\n  60: [1, 0]\n"
                           "weather:\n  rain: [denver, 10m, 40m, 0.4, 0.05]\n"
                           "  fog: [observer, 0s, 1h, 1, 0.5]\n",
                           &s, &error),
                     SKY_OK);
    assert_int_equal(s.elevation_count, 2);
    assert_true(s.elevations[0].deg == 25 && s.elevations[0].quality.rate == 0.25 &&
                s.elevations[0].quality.loss == 0.02);
    assert_true(s.elevations[1].deg == 60 && s.elevations[1].quality.rate == 1);
    assert_int_equal(s.weather_count, 2);
    assert_string_equal(s.weathers[0].name, "rain");
    assert_int_equal(s.weathers[0].ground, 1);
    assert_true(s.weathers[0].from_ns == SKY_SECONDS(600) &&
                s.weathers[0].to_ns == SKY_SECONDS(2400));
    assert_true(s.weathers[0].quality.rate == 0.4 && s.weathers[0].quality.loss == 0.05);
    assert_int_equal(s.weathers[1].ground, 0);
    assert_true(s.grounds[0].min_elevation_deg == 40);
}

/* tests/golden/scenario-rejects.txt: "LINE · part of the message · the file, \n for newlines". */
static void nonsense_is_refused_with_line_and_reason(void **state) {
    (void)state;
    sky_lines rejects;
    int cases = 0;
    sky_lines_open(&rejects, "tests/golden/scenario-rejects.txt");
    for (char *line; (line = sky_lines_next(&rejects));) {
        char *where = strtok(line, "|");
        char *reason = strtok(NULL, "|");
        char *text = strtok(NULL, "");
        assert_non_null(text);
        for (char *escape; (escape = strstr(text, "\\n"));) {
            *escape = '\n';
            memmove(escape + 1, escape + 2, strlen(escape + 2) + 1);
        }
        sky_scenario s;
        memset(&s, 0x5a, sizeof s);
        sky_scenario untouched = s;
        sky_error error = {0};
        sky_status status = parse(text, &s, &error);
        print_message("  → %s: %s\n", sky_status_name(status), error.text);
        assert_true(status == SKY_E_PARAM || status == SKY_E_SYNTAX || status == SKY_E_UNSUPPORTED);
        assert_int_equal(error.status, status);
        assert_memory_equal(&s, &untouched, sizeof s);
        char prefix[32];
        snprintf(prefix, sizeof prefix, "sky.yaml:%s: ", where);
        assert_int_equal(strncmp(error.text, prefix, strlen(prefix)), 0);
        assert_non_null(strstr(error.text, reason));
        cases++;
    }
    assert_true(cases >= 60);
}

static void hostile_bytes_are_refused(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    static char big[SKY_SCENARIO_BYTES_MAX + 1];
    memset(big, ' ', sizeof big);
    assert_int_equal(sky_scenario_parse(big, sizeof big, "big", &s, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "at most 65536"));
    memset(big, '[', sizeof big - 1);
    assert_int_equal(sky_scenario_parse(big, sizeof big - 1, "deep", &s, &error), SKY_E_SYNTAX);
    memset(big, '{', sizeof big - 1);
    assert_int_equal(sky_scenario_parse(big, sizeof big - 1, "deep", &s, &error), SKY_E_SYNTAX);
    static const char nul[] = "until: 2h\0\nchunk: 6KiB\n";
    assert_int_equal(sky_scenario_parse(nul, sizeof nul - 1, "nul", &s, &error), SKY_E_SYNTAX);
    static const char latin[] = "until: \xe9\n";
    assert_int_equal(sky_scenario_parse(latin, sizeof latin - 1, "latin", &s, &error),
                     SKY_E_SYNTAX);
    assert_int_equal(sky_scenario_parse(NULL, 0, "empty", &s, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "constellation needs planes and slots"));
    assert_int_equal(parse("constellation: {planes: 5, slots: 0x13}", &s, NULL), SKY_E_PARAM);
}

/* A prefix of a scenario either is one or is refused; it never crashes and never reads past its
 * end. */
static void every_prefix_is_judged(void **state) {
    (void)state;
    char *text;
    size_t bytes;
    assert_int_equal(sky_file_read_all("scenarios/seed.yaml", 65536, &text, &bytes, NULL), SKY_OK);
    for (size_t i = 0; i <= bytes; i++) {
        char *exact = malloc(i + 1);
        assert_non_null(exact);
        memcpy(exact, text, i);
        sky_scenario s;
        sky_error error = {0};
        sky_status status = sky_scenario_parse(exact, i, "prefix", &s, &error);
        assert_true(status == SKY_OK || error.text[0]);
        free(exact);
    }
    free(text);
}

static bool try_scenario(void *context, const char *name, char kind) {
    (void)kind;
    if (!strstr(name, ".yaml"))
        return true;
    char path[300];
    snprintf(path, sizeof path, "scenarios/%s", name);
    sky_scenario s;
    sky_error error = {0};
    if (sky_scenario_load(path, &s, &error) != SKY_OK)
        fail_msg("%s", error.text);
    ++*(int *)context;
    return true;
}

static void shipped_scenarios_are_read(void **state) {
    (void)state;
    int count = 0;
    assert_int_equal(sky_folder_each(SKY_FOLDER_HERE, "scenarios", try_scenario, &count), SKY_OK);
    assert_true(count >= 6);
}

static void the_public_call_tells_of_the_sky(void **state) {
    (void)state;
    sky_constellation c;
    sky_placement p;
    sky_satellite centre;
    sky_error error = {0};
    assert_int_equal(sky_scenario_read("scenarios/seed.yaml", &c, &p, &centre, &error), SKY_OK);
    assert_int_equal(c.planes, 5);
    assert_int_equal(p.servers, 9);
    assert_int_equal(p.window_slots, 3);
    assert_int_equal(centre.slot, 4);
    sky_move moves[9];
    assert_int_equal(sky_moves(&c, &p, centre, 1, moves), 3); /* figure 6 */
    assert_true(sky_scenario_read("scenarios/absent.yaml", &c, &p, &centre, &error) < 0);
    assert_non_null(strstr(error.text, "scenarios/absent.yaml"));
}

/* Users know nothing of each other, and of the sky's turns; only what is regular keeps time. */
static void arrivals_are_drawn_unless_they_keep_time(void **state) {
    (void)state;
    static const struct {
        const char *workload;
        bool fixed;
    } rows[] = {{"zipf: 1", false},
                {"regular: true", true},
                {"arrivals: fixed", true},
                {"arrivals: drawn, regular: true", false},
                {"regular: false", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        sky_scenario s;
        sky_error error = {0};
        snprintf(text, sizeof text, "constellation: {planes: 5, slots: 19}\nworkload: {%s}\n",
                 rows[i].workload);
        assert_int_equal(parse(text, &s, &error), SKY_OK);
        assert_int_equal(s.workload.fixed, rows[i].fixed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_arrives),
        cmocka_unit_test(arrivals_are_drawn_unless_they_keep_time),
        cmocka_unit_test(grounds_arrive),
        cmocka_unit_test(outages_arrive),
        cmocka_unit_test(constellation_is_enough),
        cmocka_unit_test(a_program_with_commas_reads_the_same),
        cmocka_unit_test(users_are_read),
        cmocka_unit_test(links_that_vary_are_read),
        cmocka_unit_test(nonsense_is_refused_with_line_and_reason),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(every_prefix_is_judged),
        cmocka_unit_test(shipped_scenarios_are_read),
        cmocka_unit_test(the_public_call_tells_of_the_sky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
