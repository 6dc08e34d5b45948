/* Proves that a run is the same for the same seed on every machine, differs with the seed, passes
 * its own checks without faults and with them, and that its trace is what was hashed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lines_fixture.h"
#include "base/prng.h"
#include "io/file.h"
#include "lab/sim/run.h"

static sky_sim_result simulate(const char *path, const sky_sim_options *options) {
    sky_sim_result result;
    sky_error error = {0};
    if (sky_sim_run(path, options, &result, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return result;
}

static void expect_checks(const sky_sim_result *r) {
    assert_true(r->check_count >= 5);
    for (uint32_t i = 0; i < r->check_count; i++) {
        if (!r->checks[i].passed)
            fail_msg("%s failed: seed %" PRIu64, r->checks[i].name, r->seed);
    }
    assert_int_equal(r->wrong_bytes, 0);
    assert_int_equal(r->lost_acknowledged, 0);
    assert_int_equal(r->hits + r->misses, r->gets);
}

static void a_seed_replays_a_run(void **state) {
    (void)state;
    sky_sim_options options = {.seed = 1, .until_s = 10};
    sky_sim_result a = simulate("scenarios/sim-smoke.yaml", &options);
    sky_sim_result b = simulate("scenarios/sim-smoke.yaml", &options);
    a.wall_s = b.wall_s = 0;
    assert_int_equal(a.trace_hash, b.trace_hash);
    assert_memory_equal(&a, &b, sizeof a);
    options.seed = 2;
    sky_sim_result c = simulate("scenarios/sim-smoke.yaml", &options);
    assert_true(c.trace_hash != a.trace_hash);
    options = (sky_sim_options){.seed = 1, .until_s = 11};
    sky_sim_result d = simulate("scenarios/sim-smoke.yaml", &options);
    assert_true(d.trace_hash != a.trace_hash);
}

/* tests/golden/sim.txt: scenario, seed, seconds, hash. */
static void golden_hashes_hold(void **state) {
    (void)state;
    sky_lines vectors;
    int runs = 0, others = 0;
    sky_lines_open(&vectors, "tests/golden/sim.txt");
    for (char *line; (line = sky_lines_next(&vectors));) {
        char path[128];
        uint64_t hash;
        sky_sim_options options = {0};
        assert_int_equal(sscanf(line, "%127s %" SCNu64 " %lf %" SCNx64, path, &options.seed,
                                &options.until_s, &hash),
                         4);
        sky_sim_result r = simulate(path, &options);
        print_message("%s %" PRIu64 " %g %016" PRIx64 "\n", path, options.seed, options.until_s,
                      r.trace_hash);
        expect_checks(&r);
        others += r.trace_hash != hash;
        runs++;
    }
    assert_true(runs >= 5);
    assert_int_equal(others, 0); /* the new ones are printed above */
}

static void a_quiet_sky_loses_nothing(void **state) {
    (void)state;
    sky_sim_options options = {.seed = 3, .until_s = 60};
    sky_sim_result r = simulate("scenarios/sim-smoke.yaml", &options);
    expect_checks(&r);
    assert_int_equal(r.gets, 500);
    assert_true(r.hits > 300 && r.sets > 30 && r.misses > 0);
    assert_true(r.p50.ms > 3.6 && r.p50.ms <= r.p99.ms); /* light alone: 2 × 550 km */
    assert_true(r.virtual_s == 60 && r.closing_s >= 1 && r.closing_s < 2);
    assert_true(r.events > r.gets * 20);
}

/* One satellite after another starts again empty, and every copy comes back; without repair the
 * check says so. */
static void redundancy_comes_back(void **state) {
    (void)state;
    sky_sim_options options = {.seed = 5, .until_s = 1800};
    sky_sim_result r = simulate("scenarios/restarts.yaml", &options);
    expect_checks(&r);
    assert_int_equal(r.lost_acknowledged, 0);
    sky_error error;
    FILE *f = fopen("scenarios/restarts.yaml", "r");
    char text[4096];
    assert_non_null(f);
    size_t bytes = fread(text, 1, sizeof text - 64, f);
    fclose(f);
    char *at = memmem(text, bytes, "processing_ms: 0.1", 18);
    assert_non_null(at);
    memmove(at + 35, at + 18, bytes - (size_t)(at + 18 - text));
    memcpy(at, "processing_ms: 0.1, repair_share: 0", 35);
    sky_status status = sky_sim_run_text(text, bytes + 17, "without repair", &options, &r, &error);
    assert_int_equal(status, SKY_OK);
    bool back = true;
    for (uint32_t i = 0; i < r.check_count; i++)
        back &= r.checks[i].passed || strcmp(r.checks[i].name, "redundancy_returns") != 0;
    assert_false(back);
}

/* ---- scenarios of the test's own ---- */

static const char *scenario_file(const char *text) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/skymem-run-test-%d.yaml", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static sky_sim_result simulate_text(const char *text, uint64_t seed) {
    const char *path = scenario_file(text);
    const sky_sim_options options = {.seed = seed};
    sky_sim_result r = simulate(path, &options);
    unlink(path);
    return r;
}

static unsigned pick(sky_prng *p, const unsigned *choices, unsigned count) {
    return choices[sky_prng_below(p, count)];
}

/* A sky at random: crowded or roomy, quick or slow, over good links and bad ones. Faults in ppm. */
static void draw_scenario(sky_prng *p, char *text, size_t bytes) {
    static const char *const strategies[] = {"rotation", "hop", "rotation-hop", "predictive"};
    static const unsigned memory_kib[] = {40, 80, 1024};
    static const unsigned rotation_s[] = {2, 5, 15, 30};
    static const unsigned every_ms[] = {5, 20, 100, 300};
    static const unsigned loss[] = {0, 0, 20000, 100000};
    static const unsigned corrupt[] = {0, 0, 1000, 5000};
    static const unsigned duplicate[] = {0, 0, 10000, 300000};
    static const unsigned reorder[] = {0, 0, 50000, 300000};
    static const unsigned faults_per_h[] = {0, 0, 300, 900};
    snprintf(text, bytes,
             "constellation: {planes: 5, slots: %u}\n"
             "placement: {strategy: %s, servers: %u}\n"
             "chunk: 1KiB\n"
             "satellite: {memory: %uKiB, processing_ms: 0.1}\n"
             "links: {isl_gbps: 1, ground_mbps: 100, loss: %.6f, jitter_ms: %u}\n"
             "time: {rotation_s: %u}\n"
             "workload: {keys: 30, gets: 250, value: %u, every_ms: %u}\n"
             "faults: {crash_per_h: %u, partition_per_h: %u, corrupt: %.6f, duplicate: %.6f,\n"
             "  reorder: %.6f, liar_satellites: %u}\n"
             "until: 40s\n",
             8 + (unsigned)sky_prng_below(p, 5), strategies[sky_prng_below(p, 4)],
             4 + (unsigned)sky_prng_below(p, 11), pick(p, memory_kib, 3), pick(p, loss, 4) / 1e6,
             (unsigned)sky_prng_below(p, 3), pick(p, rotation_s, 4),
             1 + (unsigned)sky_prng_below(p, 30000), pick(p, every_ms, 4), pick(p, faults_per_h, 4),
             pick(p, faults_per_h, 4) / 3, pick(p, corrupt, 4) / 1e6, pick(p, duplicate, 4) / 1e6,
             pick(p, reorder, 4) / 1e6, (unsigned)sky_prng_below(p, 5) / 4);
}

static void random_skies_lose_nothing(void **state) {
    (void)state;
    uint64_t hits = 0;
    /* 607 once purged an intact block over copies of one damaged answer. */
    for (uint64_t n = 1; n <= 41; n++) {
        uint64_t seed = n <= 40 ? n : 607;
        sky_prng prng;
        sky_prng_init(&prng, seed);
        char text[1024];
        draw_scenario(&prng, text, sizeof text);
        sky_sim_result r = simulate_text(text, seed);
        for (uint32_t i = 0; i < r.check_count; i++) {
            if (!r.checks[i].passed)
                print_message("%s", text); /* with this seed it fails again */
        }
        expect_checks(&r);
        hits += r.hits;
    }
    assert_true(hits > 4000);
}

static void a_full_sky_evicts_by_rule(void **state) {
    (void)state;
    sky_sim_result r = simulate_text("constellation: {planes: 5, slots: 8}\n"
                                     "chunk: 1KiB\n"
                                     "satellite: {memory: 40KiB, processing_ms: 0.01}\n"
                                     "time: {rotation_s: 1}\n"
                                     "workload: {keys: 60, gets: 600, value: 20KiB, every_ms: 20}\n"
                                     "until: 15s\n",
                                     4);
    expect_checks(&r);
    assert_true(r.sets > 80); /* more than once for many a key */
    assert_true(r.hits > 0);
}

/* Blocks that are used every ten rotations wait where the sky will be: they are read as near as
 * those that follow it, nearly always from overhead, and move once a use. */
static void what_comes_at_regular_times_is_foreseen(void **state) {
    (void)state;
    static const char *const strategies[] = {"rotation-hop", "predictive"};
    sky_sim_result r[2];
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "constellation: {planes: 15, slots: 40}\n"
                 "placement: {strategy: %s, servers: 25}\n"
                 "satellite: {processing_ms: 0.02}\n"
                 "links: {isl_gbps: 100, ground_mbps: 1000}\n"
                 "time: {rotation_s: 60}\n"
                 "workload: {keys: 10, gets: 500, value: 100KiB, every_ms: 60000, regular: true}\n"
                 "until: 9h\n",
                 strategies[i]);
        r[i] = simulate_text(text, 2);
        expect_checks(&r[i]);
        assert_true(r[i].hits > 300);
    }
    assert_true(r[1].p50.ms < 1.01 * r[0].p50.ms);
    assert_true(r[1].migrated_bytes < r[0].migrated_bytes * 6 / 10);
}

/* Keys that are removed are missed and no loss; pins and moves change what happens, not what is
 * there. */
static void what_is_no_get_and_no_set_loses_nothing(void **state) {
    (void)state;
    static const char *const others[] = {"", ", removes: 0.2", ", pins: 0.3", ", prefetches: 0.1"};
    sky_sim_result runs[4];
    for (size_t i = 0; i < 4; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "constellation: {planes: 5, slots: 20}\n"
                 "chunk: 1KiB\n"
                 "satellite: {memory: %s, processing_ms: 0}\n"
                 "links: {isl_gbps: 10, ground_mbps: 1000}\n"
                 "time: {rotation_s: 5}\n"
                 "workload: {keys: 16, gets: 400, value: 20KiB, every_ms: 200%s}\n"
                 "until: 240s\n",
                 i == 2 ? "24KiB" : "8MiB", others[i]);
        runs[i] = simulate_text(text, 2);
        expect_checks(&runs[i]);
        assert_int_equal(runs[i].gets, 400);
        for (size_t k = 0; k < i; k++)
            assert_true(runs[i].trace_hash != runs[k].trace_hash);
    }
    assert_true(runs[0].misses <= 16); /* of each key the first, unless it was set anew before */
    assert_true(runs[1].misses > 50);
    assert_true(runs[3].misses <= 16);
    assert_true(runs[3].migrated_bytes > runs[0].migrated_bytes);
}

/* Gets that began before the block was told to move find it in its new home. */
static void what_moves_under_a_get_is_found(void **state) {
    (void)state;
    const char *path = scenario_file(
        "constellation: {planes: 5, slots: 4}\n"
        "workload: {value: 1KiB, prefetches: 0.003125, every_ms: 1}\n");
    for (uint64_t seed = 1; seed <= 20; seed++) {
        sky_sim_options options = {.seed = seed};
        sky_sim_result r = simulate(path, &options);
        expect_checks(&r);
    }
    unlink(path);
}

/* Nine planes of twelve leave gaps at the equator, and gets unanswered, which is no fault; twice as
 * many leave none, and each must be answered. */
static void a_true_sky_answers_where_it_has_no_gaps(void **state) {
    (void)state;
    static const uint32_t planes[] = {9, 18}, checks[] = {16, 17};
    for (size_t i = 0; i < 2; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "constellation: {planes: %u, slots: 12}\n"
                 "sky: physical\n"
                 "observer: {lat_deg: 1}\n"
                 "workload: {value: 1}\n",
                 planes[i]);
        sky_sim_result r = simulate_text(text, 4100623);
        expect_checks(&r);
        assert_int_equal(r.check_count, checks[i]);
    }
}

/* The same prompts, looked for by halving and from the last key on: what is found is the same, what
 * is asked is not. */
static void prompts_are_found_by_few_questions(void **state) {
    (void)state;
    static const char *const lookups[] = {"binary", "sequential", "index"};
    sky_sim_result r[3];
    for (size_t i = 0; i < 3; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "constellation: {planes: 5, slots: 8}\n"
                 "chunk: 1KiB\n"
                 "satellite: {processing_ms: 0.1}\n"
                 "links: {isl_gbps: 1, ground_mbps: 1000}\n"
                 "time: {rotation_s: 600}\n"
                 "lookup: %s\n"
                 "workload: {keys: 1280, chain: 32, gets: 150, value: 3000, zipf: 0.5, every_ms: "
                 "300}\n"
                 "until: 60s\n",
                 lookups[i]);
        r[i] = simulate_text(text, 6);
        expect_checks(&r[i]);
        assert_int_equal(r[i].misses, 0); /* blocks that are not there are not got */
    }
    assert_int_equal(r[0].lookups, 150);
    assert_int_equal(r[1].lookups, 150);
    assert_in_range(r[0].questions, 1, r[0].lookups * 6); /* 33 lengths */
    assert_true(r[1].questions > 2 * r[0].questions);
    assert_int_equal(r[2].lookups + r[2].questions, 0);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(r[i].gets, r[0].gets);
        assert_int_equal(r[i].sets, r[0].sets);
        assert_true(r[i].trace_hash != r[0].trace_hash);
    }
    assert_true(r[0].gets > 150 && r[0].sets > 400);
    assert_true(r[1].trace_hash != r[2].trace_hash);
}

/* Nine servers over one link of 10 Mb/s, or over one each: a block of 90 chunks comes in about a
 * ninth of the time. Aboard, where hop has its model, there is one link. */
static void each_satellite_may_have_a_ground_link(void **state) {
    (void)state;
    sky_sim_result r[4];
    for (size_t i = 0; i < 4; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "constellation: {planes: 72, slots: 72}\n"
                 "placement: {strategy: %s, servers: 9}\n"
                 "chunk: 1KiB\n"
                 "satellite: {processing_ms: 0}\n"
                 "links: {isl_gbps: 0.01, ground_mbps: 10, ground_links: %s}\n"
                 "time: {rotation_s: 600}\n"
                 "workload: {keys: 3, gets: 40, value: 90KiB, every_ms: 1000}\n"
                 "until: 60s\n",
                 i < 2 ? "rotation-hop" : "hop", i % 2 ? "each" : "one");
        r[i] = simulate_text(text, 8);
        expect_checks(&r[i]);
        print_message("median %.1f ms\n", r[i].p50.ms);
    }
    assert_true(r[0].p50.ms > 74 && r[0].p50.ms < 110); /* 90 KiB and heads at 10 Mb/s, and light */
    assert_true(r[1].p50.ms > 8 && r[1].p50.ms < 35);
    assert_int_equal(r[2].trace_hash, r[3].trace_hash);
}

/* Blocks below one that lost a chunk go with it, and no check takes that for a loss. */
static void prompts_survive_faults(void **state) {
    (void)state;
    static const char *const evictions[] = {"gossip", "lazy", "sweep", "broadcast"};
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        char text[640];
        snprintf(text, sizeof text,
                 "constellation: {planes: 5, slots: 8}\n"
                 "chunk: 1KiB\n"
                 "satellite: {memory: %uKiB, processing_ms: 0.1}\n"
                 "links: {isl_gbps: 1, ground_mbps: 100, loss: 0.01, jitter_ms: 1}\n"
                 "time: {rotation_s: 5}\n"
                 "lookup: %s\n"
                 "eviction: %s\n"
                 "workload: {keys: 320, chain: 16, gets: 200, value: 5000, every_ms: 150, removes: "
                 "0.02,\n"
                 "  pins: 0.02, prefetches: 0.02}\n"
                 "faults: {crash_per_h: 600, partition_per_h: %u}\n"
                 "until: 40s\n",
                 seed % 2 ? 96 : 512, seed % 3 ? "binary" : "sequential", evictions[seed % 4],
                 seed % 5 ? 0 : 300);
        sky_sim_result r = simulate_text(text, seed);
        expect_checks(&r);
        hits += r.hits;
    }
    assert_true(hits > 1000);
}

/* Satellites that hold nothing still know what they passed on: else each would do it again, and
 * this sky would see 900,000 events. */
static void gossip_in_a_wide_sky_ends(void **state) {
    (void)state;
    sky_sim_result r = simulate_text(
        "constellation: {planes: 24, slots: 32}\n"
        "placement: {strategy: rotation, servers: 10, window: [7, 13]}\n"
        "chunk: 512\n"
        "satellite: {memory: 32KiB, processing_ms: 20}\n"
        "eviction: gossip\n"
        "links: {isl_gbps: 1, ground_mbps: 10000, jitter_ms: 20}\n"
        "time: {rotation_s: 16}\n"
        "workload: {keys: 22, gets: 20, value: 31449, every_ms: 1000}\n"
        "until: 40s\n",
        1);
    expect_checks(&r);
    assert_true(r.sets > 10);
    assert_true(r.events < 30000);
}

static void as_fast_as_answers_come(void **state) {
    (void)state;
    sky_sim_result r = simulate_text("constellation: {planes: 5, slots: 8}\n"
                                     "chunk: 1KiB\n"
                                     "satellite: {processing_ms: 0}\n"
                                     "workload: {keys: 5, gets: 200, value: 3000, every_ms: 0}\n"
                                     "until: 20s\n",
                                     5);
    expect_checks(&r);
    assert_int_equal(r.gets, 200);
}

static void the_trace_has_a_line_an_event(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/skymem-run-test-%d.trace", (int)getpid());
    sky_sim_options options = {.seed = 1, .until_s = 2, .trace_path = path};
    sky_sim_result traced = simulate("scenarios/sim-smoke.yaml", &options);
    options.trace_path = NULL;
    sky_sim_result untraced = simulate("scenarios/sim-smoke.yaml", &options);
    assert_int_equal(traced.trace_hash, untraced.trace_hash);
    char *text;
    size_t bytes;
    assert_int_equal(sky_file_read_all(path, 64u << 20, &text, &bytes, NULL), SKY_OK);
    unlink(path);
    uint64_t lines = 0;
    int64_t last = 0;
    for (char *at = text; *at; at = strchr(at, '\n') + 1) {
        int64_t when;
        char kind[16];
        assert_int_equal(sscanf(at, "%" SCNd64 " %15s", &when, kind), 2);
        assert_true(when >= last);
        last = when;
        lines++;
    }
    assert_true(lines > 500);
    free(text);
}

static void a_run_that_cannot_be_says_why(void **state) {
    (void)state;
    sky_sim_options options = {.seed = 1};
    sky_sim_result r = {.seed = 77};
    sky_error error = {0};
    assert_true(sky_sim_run("scenarios/absent.yaml", &options, &r, &error) < 0);
    assert_non_null(strstr(error.text, "scenarios/absent.yaml"));
    const char *path = scenario_file("constellation: {planes: 0, slots: 8}\n");
    assert_int_equal(sky_sim_run(path, &options, &r, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, ":1: constellation.planes is '0'"));
    unlink(path);
    options.trace_path = "/nowhere/at/all.trace";
    assert_true(sky_sim_run("scenarios/sim-smoke.yaml", &options, &r, &error) < 0);
    assert_non_null(strstr(error.text, "/nowhere/at/all.trace"));
    assert_int_equal(r.seed, 77); /* untouched */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_replays_a_run),
        cmocka_unit_test(golden_hashes_hold),
        cmocka_unit_test(redundancy_comes_back),
        cmocka_unit_test(a_quiet_sky_loses_nothing),
        cmocka_unit_test(random_skies_lose_nothing),
        cmocka_unit_test(a_full_sky_evicts_by_rule),
        cmocka_unit_test(what_comes_at_regular_times_is_foreseen),
        cmocka_unit_test(what_is_no_get_and_no_set_loses_nothing),
        cmocka_unit_test(what_moves_under_a_get_is_found),
        cmocka_unit_test(a_true_sky_answers_where_it_has_no_gaps),
        cmocka_unit_test(prompts_are_found_by_few_questions),
        cmocka_unit_test(prompts_survive_faults),
        cmocka_unit_test(each_satellite_may_have_a_ground_link),
        cmocka_unit_test(gossip_in_a_wide_sky_ends),
        cmocka_unit_test(as_fast_as_answers_come),
        cmocka_unit_test(the_trace_has_a_line_an_event),
        cmocka_unit_test(a_run_that_cannot_be_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
