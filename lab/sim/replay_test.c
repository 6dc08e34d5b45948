/* Proves that a replayed trace counts as computed by hand: what memory holds, what it lets go, what
 * the sky brings back, and what is left to compute. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab/sim/replay.h"

static const uint32_t abc[] = {0, 1, 2};
static const uint32_t abd[] = {0, 1, 3};
static const uint32_t efg[] = {4, 5, 6};

static const sky_replay_request requests[] = {
    {.at_s = 0, .tokens = 1200, .blocks = abc, .block_count = 3},
    {.at_s = 10, .tokens = 1536, .blocks = abd, .block_count = 3},
    {.at_s = 20, .tokens = 1536, .blocks = efg, .block_count = 3},
    {.at_s = 30, .tokens = 1536, .blocks = abc, .block_count = 3},
};
#define REQUESTS (sizeof requests / sizeof requests[0])

static sky_replay_result play(uint32_t memory_blocks, const char *scenario) {
    sky_replay_options options = {.scenario_path = scenario,
                                  .block_tokens = 512,
                                  .block_end = 7,
                                  .memory_blocks = memory_blocks,
                                  .prefill_tokens_s = 512,
                                  .seed = 1};
    sky_replay_result r;
    sky_error error = {0};
    if (sky_replay_run(requests, REQUESTS, &options, &r, &error) != SKY_OK)
        fail_msg("%s", error.text);
    assert_int_equal(r.requests, REQUESTS);
    assert_int_equal(r.blocks, 12);
    return r;
}

static void a_large_memory_hits_what_came_before(void **state) {
    (void)state;
    sky_replay_result r = play(100, NULL);
    assert_int_equal(r.memory_hits, 2 + 3);
    assert_int_equal(r.sky_hits, 0);
    assert_true(fabs(r.computed_s - (1200.0 / 512 + 1 + 3 + 0)) < 1e-9);
    assert_true(fabs(r.ttft_mean_s - r.computed_s / 4) < 1e-9);
}

static void a_small_memory_lets_go(void **state) {
    (void)state;
    assert_int_equal(play(3, NULL).memory_hits, 2); /* e, f, g took the place of a, b, d */
    assert_int_equal(play(0, NULL).memory_hits, 0);
}

static void the_sky_brings_back_what_memory_let_go(void **state) {
    (void)state;
    sky_replay_result r = play(3, "scenarios/sim-smoke.yaml");
    assert_int_equal(r.memory_hits, 2);
    assert_int_equal(r.sky_hits, 3);
    assert_int_equal(r.sky_sets, 7);
    assert_int_equal(r.dropped_sets, 0);
    assert_true(fabs(r.computed_s - (1200.0 / 512 + 1 + 3)) < 1e-9);
    assert_true(r.loaded_s > 0.0036 && r.loaded_s < 0.5); /* light twice over 550 km at least */
    sky_replay_result again = play(3, "scenarios/sim-smoke.yaml");
    again.wall_s = r.wall_s;
    assert_memory_equal(&r, &again, sizeof r);
}

static const char *write_scenario(const char *text) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/skymem-replay-%d.yaml", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* A sky that is full all the time, with messages that overtake each other: the ground makes room,
 * satellites need not choose, and what goes is not told from one to the next without end. */
static void stay_quiet(const char *loss) {
    static const char format[] = "constellation: {planes: 9, slots: 9, altitude_km: 550}\n"
                                 "placement: {strategy: rotation-hop, servers: 9}\n"
                                 "chunk: 512\n"
                                 "satellite: {memory: 128KiB, processing_ms: 0}\n"
                                 "links: {ground_mbps: 100, jitter_ms: 1, loss: %s}\n"
                                 "eviction: gossip\n"
                                 "workload: {keys: 9, gets: 1, value: 4608, every_ms: 1}\n";
    enum { ASKED = 3000, BLOCKS = 600 };
    char scenario[sizeof format + 16];
    snprintf(scenario, sizeof scenario, format, loss);
    static sky_replay_request asked[ASKED];
    static uint32_t blocks[ASKED];
    for (uint32_t i = 0; i < ASKED; i++) { /* block 0 is the root of all, and always in memory */
        uint32_t draw = i * 2654435761u >> 8 & 1023;
        blocks[i] = i % 2 == 0 ? 0 : 1 + draw * draw % (BLOCKS - 1);
        if (i % 2 == 1)
            asked[i / 2] = (sky_replay_request){i * 0.005, 1024, &blocks[i - 1], 2};
    }
    sky_replay_options options = {.scenario_path = write_scenario(scenario),
                                  .block_tokens = 512,
                                  .block_end = BLOCKS,
                                  .memory_blocks = 2,
                                  .prefill_tokens_s = 512,
                                  .seed = 1};
    sky_replay_result r;
    sky_error error = {0};
    if (sky_replay_run(asked, ASKED / 2, &options, &r, &error) != SKY_OK)
        fail_msg("%s", error.text);
    unlink(options.scenario_path);
    assert_true(r.sky_sets > 3 * 180); /* what there is room for, several times over */
    assert_true(r.sky_hits > 150);
    assert_true(r.evictions <= 4);
    assert_true(r.gossip <= r.evictions * 600);
    assert_true(r.events < r.sky_sets * 9 * 16);
}

static void a_full_sky_stays_quiet(void **state) {
    (void)state;
    stay_quiet("0.001");
}

/* What a DROP did not reach is in the way, so where much is lost it is said more than once. */
static void a_full_sky_that_loses_much_stays_quiet(void **state) {
    (void)state;
    stay_quiet("0.03");
}

/* Satellites crash, so the sky misses what it was thought to have, and block 0 is in memory behind
 * it: every block is either a hit or computed, so the one that was of no use is none. */
static void a_hole_ends_the_hits(void **state) {
    (void)state;
    static const char scenario[] = "constellation: {planes: 9, slots: 9, altitude_km: 550}\n"
                                   "placement: {strategy: rotation-hop, servers: 9}\n"
                                   "chunk: 512\n"
                                   "workload: {keys: 9, gets: 1, value: 4608, every_ms: 1}\n"
                                   "faults: {crash_per_h: 10000}\n";
    enum { ASKED = 200 };
    static sky_replay_request asked[ASKED];
    static uint32_t blocks[2 * ASKED]; /* the second of each request is block 0 */
    for (uint32_t i = 0; i < ASKED; i++) {
        blocks[2 * i] = 1 + i % 5;
        asked[i] = (sky_replay_request){i, 1024, &blocks[2 * i], 2};
    }
    sky_replay_options options = {.scenario_path = write_scenario(scenario),
                                  .block_tokens = 512,
                                  .block_end = 6,
                                  .memory_blocks = 2,
                                  .prefill_tokens_s = 512,
                                  .seed = 1};
    sky_replay_result r;
    sky_error error = {0};
    if (sky_replay_run(asked, ASKED, &options, &r, &error) != SKY_OK)
        fail_msg("%s", error.text);
    unlink(options.scenario_path);
    assert_true(r.sky_misses > 5 && r.sky_hits > 20 && r.memory_hits > 20);
    assert_true(fabs((double)(r.blocks - r.memory_hits - r.sky_hits) - r.computed_s) < 1e-6);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    sky_replay_options options = {.block_tokens = 512, .block_end = 6, .prefill_tokens_s = 1};
    sky_replay_result r;
    sky_error error = {0};
    assert_int_equal(sky_replay_run(requests, REQUESTS, &options, &r, &error), SKY_E_PARAM);
    options.block_end = 7;
    static const double never[] = {1e300, -1, NAN};
    for (size_t i = 0; i < 3; i++) {
        sky_replay_request odd = {never[i], 512, abc, 3};
        assert_int_equal(sky_replay_run(&odd, 1, &options, &r, &error), SKY_E_PARAM);
    }
    options.scenario_path = "scenarios/absent.yaml";
    assert_true(sky_replay_run(requests, REQUESTS, &options, &r, &error) < 0);
    assert_non_null(strstr(error.text, "absent.yaml"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_memory_hits_what_came_before),
        cmocka_unit_test(a_small_memory_lets_go),
        cmocka_unit_test(the_sky_brings_back_what_memory_let_go),
        cmocka_unit_test(a_full_sky_stays_quiet),
        cmocka_unit_test(a_full_sky_that_loses_much_stays_quiet),
        cmocka_unit_test(a_hole_ends_the_hits),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
