/* Proves that a scenario with a true sky runs: chunks are found while slots and planes pass, a seed
 * replays, a file of elements makes a sky, and where nothing can be seen nothing is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/physical.h"
#include "lab/sim/run.h"
#include "orbit/hypatia_fixture.h"

static char folder[256];

static const char *write_file(const char *name, const char *text) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

#define REST                                                                                       \
    "satellite: {memory: 1MiB, processing_ms: 0.1}\nchunk: 1KiB\n"                                 \
    "links: {isl_gbps: 10, ground_mbps: 500, queue: 4MiB}\n"                                       \
    "workload: {keys: 20, gets: 150, value: 20KiB, every_ms: 12000}\nuntil: 35m\n"

static sky_sim_result run_text(const char *text) {
    static sky_sim_result r;
    sky_error error = {0};
    sky_sim_options options = {.seed = 5};
    if (sky_sim_run(write_file("s.yaml", text), &options, &r, &error) != SKY_OK)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < r.check_count; i++) {
        if (!r.checks[i].passed)
            fail_msg("check %s", r.checks[i].name);
    }
    assert_int_equal(r.wrong_bytes, 0);
    assert_int_equal(r.lost_acknowledged, 0);
    return r;
}

/* Half an hour: seven slots and a plane or two pass. */
static void chunks_are_found_while_the_sky_moves(void **state) {
    (void)state;
    static const char text[] = "constellation: {shell: starlink-a}\nsky: physical\n"
                               "observer: {lat_deg: 40, lon_deg: 8}\n"
                               "placement: {strategy: rotation-hop, servers: 25}\n" REST;
    sky_sim_result a = run_text(text), b = run_text(text);
    assert_true(a.hits > 100 && a.hits + a.misses == a.gets);
    assert_true(a.trace_hash == b.trace_hash);
}

/* Of ten satellites a plane at 400 km the lasers along a plane hold near the poles only. Datagrams
 * go from satellite to satellite round those that are down, so that what belongs elsewhere gets
 * there: chunks stayed behind without an end when they went by steps of the grid. */
static void datagrams_go_round_lasers_that_are_down(void **state) {
    (void)state;
    static const char text[] =
        "constellation: {planes: 21, slots: 10, altitude_km: 400, phasing: 6}\nsky: physical\n"
        "observer: {lat_deg: 47, min_elevation_deg: 1}\n"
        "placement: {servers: 19, parity: 1}\nlookup: sequential\nlinks: {datagrams: true}\n"
        "workload: {gets: 2880, value: 1, every_ms: 625}\nuntil: 1700s\n";
    assert_true(run_text(text).hits > 1000);
}

/* The same on every machine: nothing in it is libm's. */
static void the_trace_is_the_same_everywhere(void **state) {
    (void)state;
    sky_scenario s;
    sky_error error = {0};
    const char *path = write_file("s.yaml", "constellation: {shell: oneweb}\nsky: physical\n"
                                            "observer: {lat_deg: -33, lon_deg: 151}\n"
                                            "placement: {servers: 9}\n");
    assert_int_equal(sky_scenario_load(path, &s, &error), SKY_OK);
    assert_true(s.physical && s.time.rotation_ns == SKY_SECONDS(15));
    sky_turning turning = {.start_ms = s.time.start_ms, .rotation_ns = s.time.rotation_ns};
    sky_frame f;
    assert_int_equal(sky__physical_frame(&s, &turning, &f, &error), SKY_OK);
    uint64_t sum = 0;
    for (uint64_t turn = 0; turn < 2000; turn++) {
        sky_satellite c = sky_frame_centre(&f, turn);
        sum = sum * 1000003 + c.plane * 64 + c.slot;
        sum = sum * 1000003 + (uint64_t)sky_frame_ground_ns(&f, c, turn);
    }
    assert_true(sum == 0xe3306f24ddc1fd8e);
    sky_frame_deinit(&f);
}

static void nothing_in_sight_answers_nothing(void **state) {
    (void)state;
    sky_sim_result r = run_text("constellation: {shell: kuiper-b}\nsky: physical\n"
                                "observer: {lat_deg: 70, lon_deg: 8}\n"
                                "placement: {servers: 9}\n" REST);
    assert_int_equal(r.hits, 0);
    assert_int_equal(r.sets, 0);
}

/* A shell of 6 x 8 as two-line elements, its checksums computed. */
static void write_elements(void) {
    static char text[48 * 160];
    size_t at = 0;
    for (int i = 0; i < 48; i++) {
        char line[2][80];
        snprintf(line[0], 80, "1 %05dU 26001A   26324.00000000  .00000000  00000-0  00000-0 0  999",
                 i + 1);
        snprintf(line[1], 80, "2 %05d  60.0000 %8.4f 0001000   0.0000 %8.4f 13.50000000    1",
                 i + 1, i / 8 * 60.0, i % 8 * 45.0 + i / 8 * 7.5);
        for (int k = 0; k < 2; k++) {
            int sum = 0;
            for (const char *p = line[k]; *p; p++)
                sum += *p == '-' ? 1 : *p >= '0' && *p <= '9' ? *p - '0' : 0;
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d\n", line[k], sum % 10);
        }
    }
    write_file("shell.tle", text);
}

static void elements_make_a_sky(void **state) {
    (void)state;
    write_elements();
    sky_sim_result r = run_text("constellation: {tle: shell.tle}\nsky: physical\n"
                                "observer: {lat_deg: 45, lon_deg: 8, min_elevation_deg: 5}\n"
                                "placement: {servers: 9}\n" REST);
    assert_true(r.gets > 0);
    sky_scenario s;
    sky_error error = {0};
    const char *path = write_file("s.yaml", "constellation: {tle: shell.tle}\nsky: physical\n");
    assert_int_equal(sky_scenario_load(path, &s, &error), SKY_OK);
    assert_int_equal(s.constellation.planes, 6);
    assert_int_equal(s.constellation.slots, 8);
}

/* Hypatia's files: a grid told by its first line, its lasers, and two of
 * its stations. Without lasers hardly anything is reached. */
static void hypatia_states_make_a_sky(void **state) {
    (void)state;
    static char text[1 << 18];
    static const char sky[] =
        "constellation: {tle: tles.txt, isls: isls.txt}\nsky: physical\nlookup: binary\n"
        "stations: ground_stations.txt\nobserver: {station: Lyon, min_elevation_deg: 10}\n"
        "grounds: {bern: [station, 1]}\ntime: {start: 2000-01-01T00:00:00Z}\n"
        "placement: {servers: 9}\n" REST;
    sky_hypatia_tles(16, 18, 13.5, text, sizeof text);
    write_file("tles.txt", text);
    write_file("ground_stations.txt", "0,Lyon,45.76,4.84,0.0\n1,Bern,46.95,7.44,0.0\n");
    sky_hypatia_isls(16, 18, 0, text, sizeof text);
    write_file("isls.txt", text);
    sky_sim_result r = run_text(sky);
    assert_int_equal(r.ground_count, 2);
    assert_true(r.hits > 100 && r.grounds[1].hits > 30);
    write_file("isls.txt", "0 1\n");
    assert_true(run_text(sky).hits < r.hits / 2);
}

static void expect_refused(const char *text, const char *reason) {
    sky_scenario s;
    sky_error error = {0};
    assert_int_not_equal(sky_scenario_load(write_file("bad.yaml", text), &s, &error), SKY_OK);
    if (!strstr(error.text, reason))
        fail_msg("\"%s\" lacks \"%s\"", error.text, reason);
}

static void bad_elements_are_refused(void **state) {
    (void)state;
    write_elements();
    expect_refused("constellation: {tle: absent.tle}\nsky: physical\n", "bad.yaml:1: ");
    expect_refused("constellation: {tle: shell.tle}\n", "needs sky: physical");
    write_file("one.tle", "1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753\n"
                          "2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.8241\n");
    expect_refused("sky: physical\nconstellation: {tle: one.tle}\n", "one.tle:2: a line");
    expect_refused("constellation: {tle: shell.tle, planes: 5}\nsky: physical\n",
                   "one or the other");
}

static int make_folder(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/sky-XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_found_while_the_sky_moves),
        cmocka_unit_test(datagrams_go_round_lasers_that_are_down),
        cmocka_unit_test(the_trace_is_the_same_everywhere),
        cmocka_unit_test(nothing_in_sight_answers_nothing),
        cmocka_unit_test(elements_make_a_sky),
        cmocka_unit_test(hypatia_states_make_a_sky),
        cmocka_unit_test(bad_elements_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
