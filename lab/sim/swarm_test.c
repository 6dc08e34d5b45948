/* Proves that random skies with random mixes of faults lose nothing, that a seed draws the same sky
 * and replays it bit for bit, that the faults do happen, and that seeds which once failed pass. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sim/run.h"
#include "lab/sim/swarm.h"

static sky_sim_result fly(const char *text, uint64_t seed) {
    sky_sim_result r;
    sky_error error = {0};
    sky_sim_options options = {.seed = seed};
    if (sky_sim_run_text(text, strlen(text), "test", &options, &r, &error) != SKY_OK)
        fail_msg("%s\n%s", error.text, text);
    for (uint32_t i = 0; i < r.check_count; i++) {
        if (!r.checks[i].passed)
            fail_msg("seed %" PRIu64 ": %s failed\n%s", seed, r.checks[i].name, text);
    }
    return r;
}

static void random_skies_lose_nothing(void **state) {
    (void)state;
    uint64_t hits = 0;
    uint32_t move = 0, weather = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        char text[SKY_SIM_DRAWN_MAX];
        sky_sim_draw(seed, 0.5, text);
        hits += fly(text, seed).hits;
        move += strstr(text, "prefetches: ") != NULL;
        weather += strstr(text, "weather:") != NULL;
    }
    assert_true(hits > 2000);
    assert_in_range(move, 10, 30);
    assert_in_range(weather, 5, 20);
}

static void a_seed_draws_and_replays_the_same(void **state) {
    (void)state;
    char a[SKY_SIM_DRAWN_MAX];
    char b[SKY_SIM_DRAWN_MAX];
    size_t length = sky_sim_draw(7, 0.2, a);
    assert_int_equal(length, strlen(a));
    sky_sim_draw(7, 0.2, b);
    assert_string_equal(a, b);
    assert_true(fly(a, 7).trace_hash == fly(b, 7).trace_hash);
    sky_sim_draw(8, 0.2, b);
    assert_string_not_equal(a, b);
    /* an hour of a sky, and two: only the length of the run differs */
    sky_sim_draw(7, 0.4, b);
    assert_string_not_equal(a, b);
    assert_memory_equal(a, b, strcspn(a, "\n"));
}

#define SKY_AND_WORK                                                                               \
    "constellation: {planes: 5, slots: 9}\n"                                                       \
    "placement: {strategy: rotation-hop, servers: 9}\n"                                            \
    "chunk: 1KiB\n"                                                                                \
    "time: {rotation_s: 20}\n"                                                                     \
    "workload: {keys: 20, gets: 600, value: 12KiB, every_ms: 500, arrivals: fixed}\n"

/* Each fault alone changes what happens, and breaks nothing. */
static void every_fault_is_survived_alone(void **state) {
    (void)state;
    static const char *const faults[] = {
        "faults: {crash_per_h: 200, restart_s: 5}\n",
        "faults: {partition_per_h: 200}\n",
        "faults: {freeze_per_h: 100}\n",
        "faults: {hostile_per_s: 20}\n",
        "faults: {skew_ms: 500}\n",
        "faults: {corrupt: 0.02}\n",
        "faults: {duplicate: 0.3}\n",
        "faults: {reorder: 0.3}\n",
        "links: {loss: 0.05}\n",
        "links: {ground_mbps: 1, queue: 16KiB}\n",
        "satellite: {memory: 24KiB}\n",
        "faults: {liar_satellites: 2, liar: wrong-bytes}\n",
        "faults: {liar_satellites: 2, liar: wrong-shift}\n",
        "faults: {liar_satellites: 2, liar: black-hole}\n",
    };
    static const char *const ways[] = {"until: 300s\n", "until: 150s\nlinks: {datagrams: true}\n"};
    for (size_t way = 0; way < 2; way++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", SKY_AND_WORK, ways[way]);
        uint64_t quiet = fly(text, 1).trace_hash;
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            bool links = strncmp(faults[i], "links: {", 8) == 0;
            snprintf(text, sizeof text, "%s%.*s%s%s", SKY_AND_WORK, way && links ? 12 : 100,
                     ways[way], way && links ? "links: {datagrams: true, " : "",
                     way && links ? faults[i] + 8 : faults[i]);
            sky_sim_result r = fly(text, 1);
            if (r.trace_hash == quiet)
                fail_msg("%s changed nothing", faults[i]);
            assert_true(r.gets > (way ? 250 : 500));
        }
    }
}

/* The same sky, its messages carried the other way. */
static void carry_otherwise(char *text) {
    char *at = strstr(text, "datagrams: ") + 11;
    bool was = strncmp(at, "true", 4) == 0;
    memmove(at + (was ? 5 : 4), at + (was ? 4 : 5), strlen(at + (was ? 4 : 5)) + 1);
    memcpy(at, was ? "false" : "true", was ? 5 : 4);
}

/* 306: a chunk was given up when an answer of its old place was lost between two MISSes of the new
 * one. 20016, 20019: a stripe whose pieces were silent was taken for lost. 20296: a piece that came
 * twice counted twice. 100095: between clocks that differ a chunk was given to and fro, and asked
 * for where it just was not. 101177, 101377: a sweep took a chunk for gone that was late on its way
 * twice. 100275: a head whose DROP was lost speaks of chunks that were dropped: no loss. 701601:
 * with broadcast alone nobody dropped the rest of a block that a crash had broken. 102389:
 * what nobody had been promised used up another's waiver. 800469: the head of a put was found
 * before its acknowledgement came, and the put then dropped its own chunks. 1101634: a put waited
 * for a satellite that was cut off, and others swept what was stored of it. 7700046, 7700044: a
 * DROP followed a chunk that was moved while it was on its way into its new home. 8810688: a block
 * had a third home, and chunks in the first. 8830339: over the seam of planes of a true sky the
 * home before was computed wrongly. 8811643: a queue held all that was sent longer than it was
 * waited for, so that all was sent again, for good. 1241: the whole sky has no room for a value, so
 * that each put ends in an error with a cause. 990065: what stayed for one giver's clock stayed for
 * another's too. 990109: no laser led to where a copy belonged. 15100052: nor did one for all the
 * time that a value was there, and then its only copy was lost.
 * 990116: a piece was lost each time that it was sent back. 3000175: all that was left was pinned,
 * and a put found no room. 3200108: a removed head was set again, which is not answered.
 * 3000114: waits for the silent doubled, and a request took minutes to fail. 3400584: no laser led
 * from where a chunk was for longer than the last turns, and the block was given up. 3400643: a
 * liar took heads along to where nobody asks. 11000057: with replicas and parity, a piece that lost
 * both copies was not made again. 12000021: who answered a little later than was waited for was
 * asked seventeen times, and never believed. 15100208: a second ground could ask liars alone. */
static void seeds_that_failed_once_pass(void **state) {
    (void)state;
    char text[SKY_SIM_DRAWN_MAX];
    fly("constellation: {planes: 3, slots: 6}\n"
        "placement: {strategy: rotation, servers: 10}\n"
        "links: {loss: 0.1, jitter_ms: 1}\n"
        "time: {rotation_s: 300}\n"
        "workload: {keys: 30, value: 1, zipf: 0.1, every_ms: 60000, arrivals: fixed}\n"
        "faults: {duplicate: 0.01, reorder: 0.000196}\n",
        306);
    static const struct {
        uint64_t seed;
        double hours;
    } seeds[] = {{306, 1},    {20016, 1},   {20019, 1},   {20296, 1},   {100095, 4},
                 {100275, 4}, {101177, 4},  {101377, 4},  {701601, 4},  {102389, 4},
                 {800469, 4}, {8830339, 4}, {8811643, 1}, {1241, 0.5},  {990109, 2},
                 {990116, 2}, {3000175, 2}, {3000114, 2}, {3400584, 2}, {12000021, 4}};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        sky_sim_draw(seeds[i].seed, seeds[i].hours, text);
        fly(text, seeds[i].seed);
        sky_sim_draw(seeds[i].seed, 0.1, text);
        carry_otherwise(text);
        fly(text, seeds[i].seed);
    }
    sky_sim_draw(990065, 2, text);
    fly(text, 990065); /* several grounds: without datagrams alone */
    sky_sim_draw(3200108, 2, text);
    fly(text, 3200108);
    sky_sim_draw(3400643, 2, text);
    fly(text, 3400643);
    sky_sim_draw(11000057, 4, text);
    fly(text, 11000057); /* weather: without datagrams alone */
    fly("constellation: {planes: 5, slots: 8}\ncenter: [4, 7]\nplacement: {strategy: rotation}\n"
        "lookup: binary\nworkload: {value: 99}\ngrounds: {g1: [-2, 2, 0]}\n"
        "faults: {liar_satellites: 3}\n",
        15100208);
    fly("constellation: {planes: 21, slots: 10, altitude_km: 200, phasing: 4}\nsky: physical\n"
        "observer: {min_elevation_deg: 7}\nplacement: {replicas: 2}\nworkload: {value: 1}\n"
        "faults: {crash_per_h: 20}\nuntil: 7200s\n",
        15100052);
    fly("constellation: {planes: 3, slots: 4}\n"
        "eviction: [gossip, lazy, sweep, broadcast]\n"
        "time: {rotation_s: 1}\n"
        "workload: {keys: 3, value: 9611, arrivals: fixed}\n"
        "faults: {skew_ms: 250}\n",
        1101634);
    fly("constellation: {planes: 3, slots: 5}\n"
        "satellite: {memory: 32KiB}\n"
        "eviction: sweep\n"
        "links: {loss: 0.05}\n"
        "time: {rotation_s: 1}\n"
        "workload: {value: 7139, every_ms: 937, arrivals: fixed}\n"
        "until: 1000s\n",
        101177);
    fly("constellation: {planes: 10, slots: 5}\n"
        "chunk: 512\n"
        "links: {ground_mbps: 1, jitter_ms: 1}\n"
        "workload: {value: 2751, prefetches: 0.01, arrivals: fixed}\n",
        7700046);
    fly("constellation: {planes: 3, slots: 4}\n"
        "links: {loss: 0.05, jitter_ms: 1}\n"
        "workload: {value: 1, prefetches: 0.02, arrivals: fixed}\n",
        7700044);
    fly("constellation: {planes: 5, slots: 6}\n"
        "sky: physical\n"
        "workload: {value: 1, every_ms: 760, prefetches: 0.05, arrivals: fixed}\n",
        8810688);
}

/* 28002793: a satellite that held parity of the short stripe and payload of the others took more of
 * each than one piece may replace, as it seemed, and nothing was made again. */
static void a_seed_with_parity_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 1, slots: 5}\nplacement: {servers: 3, parity: 1}\nchunk: 512\n"
        "workload: {keys: 13, gets: 240, value: 3362}\n"
        "faults: {crash_per_h: 1, reorder: 0.3000}\nuntil: 7200s\n",
        28002793);
}

/* 42016286: each patrol of a ground came to a block in a gap of a true sky, and nobody heard it. */
static void a_seed_with_parity_and_gaps_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 18, slots: 12, phasing: 2}\nsky: physical\n"
        "observer: {lat_deg: 11, min_elevation_deg: 24}\n"
        "placement: {servers: 21, weights: [2, 3], parity: 1}\nchunk: 2048\nlookup: binary\n"
        "links: {ground_mbps: 2}\ntime: {rotation_s: 20}\nworkload: {keys: 31, value: 5779, "
        "zipf: 1.4, every_ms: 17081, removes: 0.10, pins: 0.20, prefetches: 0.10}\n"
        "elevation: {20: [0.48, 0.000], 70: [0.76, 0.089]}\n"
        "faults: {hostile_per_s: 0.50, duplicate: 0.0100}\nuntil: 7200s\n",
        42016286);
}

/* 22003497: a move set the head of an older value again. 22001462: all heads went with one crash.
 * 25000174: a block that was found again during its move was uncounted where it never was, until no
 * put had room. 32005464: a block moved without a chunk of a satellite that was cut off. 33005346:
 * a chunk stayed behind for two moves, and was not looked for there. 32006079: a block was moved
 * before its put had heard that its head was stored; then the put entered it where it had set
 * it. 32006736, 32004654: a chunk that no laser led away from was taken for gone by the second
 * move of its block. */
static void seeds_with_moves_pass(void **state) {
    (void)state;
    fly("constellation: {planes: 3, slots: 16}\nsky: physical\nobserver: {min_elevation_deg: 0}\n"
        "satellite: {memory: 80KiB}\nlookup: binary\n"
        "workload: {keys: 17, value: 1, pins: 0.10, prefetches: 0.050000}\n"
        "grounds: {g1: [-2, 2, 94], g2: [-2, 1, 0], g3: [1, 1, 0]}\nuntil: 14400s\n",
        22003497);
    fly("constellation: {planes: 5, slots: 7}\ncenter: [2, 1]\nplacement: {strategy: hop}\n"
        "lookup: binary\nworkload: {keys: 24, value: 20171, zipf: 1.4, every_ms: 19136, "
        "prefetches: 0.035000, arrivals: fixed}\n"
        "faults: {crash_per_h: 1, duplicate: 0.0100}\nuntil: 14400s\n",
        22001462);
    fly("constellation: {planes: 3, slots: 15, altitude_km: 1200}\nplacement: {parity: 1}\n"
        "chunk: 512\nsatellite: {memory: 8KiB}\nlookup: sequential\n"
        "links: {loss: 0.001250, jitter_ms: 1}\nworkload: {value: 1645, zipf: 1.0, every_ms: 267, "
        "prefetches: 0.05, arrivals: fixed}\nuntil: 14400s\n",
        25000174);
    fly("constellation: {planes: 8, slots: 8, altitude_km: 400}\ncenter: [5, 8]\n"
        "placement: {servers: 17}\nchunk: 512\neviction: sweep\nlookup: binary\n"
        "links: {isl_gbps: 100, ground_mbps: 2, jitter_ms: 1}\ntime: {rotation_s: 120}\n"
        "workload: {keys: 42, value: 4526, zipf: 0.2, every_ms: 1696, prefetches: 0.03, "
        "arrivals: fixed}\nfaults: {partition_per_h: 2, freeze_per_h: 2, corrupt: 0.0001, "
        "duplicate: 0.0100, skew_ms: 500}\n",
        32005464);
    fly("constellation: {planes: 3, slots: 6}\nplacement: {servers: 10}\neviction: sweep\n"
        "time: {rotation_s: 1}\n"
        "workload: {keys: 25, value: 23851, every_ms: 156, prefetches: 0.040000}\n"
        "faults: {partition_per_h: 2}\n",
        33005346);
    fly("constellation: {planes: 4, slots: 10, altitude_km: 300}\nplacement: {parity: 2}\n"
        "lookup: binary\nlinks: {ground_mbps: 1}\nworkload: {value: 467, prefetches: 0.06}\n"
        "faults: {corrupt: 0.000078, reorder: 0.3000}\n",
        32006079);
    fly("constellation: {planes: 18, slots: 5, altitude_km: 400}\nsky: physical\n"
        "workload: {keys: 6, value: 1, every_ms: 1250, prefetches: 0.005625}\n",
        32006736);
    fly("constellation: {planes: 21, slots: 5, altitude_km: 200}\nsky: physical\n"
        "observer: {min_elevation_deg: 0}\n"
        "workload: {gets: 2880, value: 1, prefetches: 0.010000}\n",
        32004654);
}

/* 62006134: a satellite that a put went without, as it was cut off, was full when it was back. */
static void a_seed_with_a_full_home_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 6, slots: 9, altitude_km: 400}\ncenter: [5, 4]\n"
        "placement: {strategy: hop, servers: 20, weights: [2, 3], replicas: 2}\nchunk: 2048\n"
        "satellite: {memory: 80KiB}\nlinks: {loss: 0.0200}\ntime: {rotation_s: 20}\n"
        "workload: {keys: 52, value: 1, zipf: 0.0, every_ms: 38138, pins: 0.10, arrivals: fixed}\n"
        "faults: {crash_per_h: 20, partition_per_h: 20, corrupt: 0.000050, duplicate: 0.3000, "
        "reorder: 0.3000}\nuntil: 14400s\n",
        62006134);
}

/* 62002323: two grounds put at once into satellites of two slots, and one's chunk was evicted for
 * the other's before its put had ended: an error with a cause. */
static void a_seed_with_two_slots_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 3, slots: 3}\nsatellite: {memory: 16KiB}\nlookup: binary\n"
        "workload: {value: 1}\ngrounds: {g1: [0, 2, 0]}\n",
        62002323);
}

/* 32004725: in a true sky chunks were late for longer than the last turns, as half of all datagrams
 * were lost between satellites, and nobody asked where they were. */
static void a_seed_with_late_chunks_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 15, slots: 26, altitude_km: 400, phasing: 3}\nsky: physical\n"
        "observer: {lat_deg: 14, min_elevation_deg: 17}\n"
        "placement: {strategy: rotation, servers: 13, window: [3, 7]}\nlinks: {isl_loss: 0.5}\n"
        "time: {rotation_s: 20}\nworkload: {keys: 5, gets: 240, value: 16329, every_ms: 50219, "
        "arrivals: fixed}\nuntil: 14400s\n",
        32004725);
}

/* 40001147: in a true sky whose lasers all hold datagrams went by steps of the grid, where lasers
 * join other slots: three times as far as the ground reckoned with. Who was asked far away answered
 * later than was waited for, and gets ended in errors. */
static void a_seed_with_far_satellites_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 15, slots: 14, altitude_km: 400}\nsky: physical\n"
        "observer: {lat_deg: 31, min_elevation_deg: 18}\nplacement: {servers: 15}\nchunk: 512\n"
        "satellite: {memory: 80KiB, processing_ms: 20}\nlookup: sequential\n"
        "links: {isl_gbps: 1, ground_mbps: 2, queue: 64KiB, datagrams: true}\n"
        "time: {rotation_s: 26}\nworkload: {keys: 59, value: 13176, zipf: 1.2, every_ms: 3433, "
        "removes: 0.05, arrivals: fixed}\nuntil: 1500s\n",
        40001147);
}

/* 1097: a satellite had been out of reach for ten seconds, and was not asked for a minute. One
 * answer that was late then made it count as silent. */
static void a_seed_with_an_old_silence_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 7, slots: 15}\ncenter: [6, 4]\n"
        "placement: {strategy: rotation, parity: 2}\nchunk: 512\nlookup: sequential\n"
        "links: {datagrams: true}\ntime: {rotation_s: 20}\n"
        "workload: {keys: 29, value: 1, zipf: 0.2, every_ms: 10944, prefetches: 0.025, "
        "arrivals: fixed}\nfaults: {partition_per_h: 20, duplicate: 0.000078}\nuntil: 600s\n",
        1097);
}

/* 62154516: around a turn two satellites whose clocks were half a second apart gave chunks to and
 * fro, and messages that arrived twice made ever more of them. */
static void a_seed_with_clocks_apart_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 5, slots: 15, altitude_km: 400}\ncenter: [2, 1]\n"
        "placement: {strategy: rotation, servers: 11, replicas: 2, parity: 2}\nchunk: 2048\n"
        "satellite: {memory: 32KiB}\nlookup: sequential\nlinks: {loss: 0.0050}\n"
        "time: {rotation_s: 300}\nworkload: {keys: 33, value: 176, zipf: 1.4, every_ms: 13681, "
        "prefetches: 0.02, arrivals: fixed}\n"
        "grounds: {g1: [-1, -1, 0], g2: [-2, 0, 0], g3: [2, 1, 0]}\n"
        "faults: {crash_per_h: 20, restart_s: 1, hostile_per_s: 0.50, duplicate: 0.3000, "
        "reorder: 0.3000, skew_ms: 500}\nuntil: 14400s\n",
        62154516);
}

/* 42015801: a copy was missing for thirteen rounds. In each of them a message that it takes to make
 * it again was lost. */
static void a_seed_with_heavy_losses_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 7, slots: 8, altitude_km: 1200}\n"
        "placement: {strategy: predictive, replicas: 2}\nlinks: {loss: 0.1}\n"
        "time: {rotation_s: 120}\nworkload: {keys: 30, value: 6144, every_ms: 2500}\n",
        1);
}

/* 32005137: in a true sky a newer head stayed behind where no laser led on, or was where none led
 * to from the ground that asked, and an older one was read. */
static void a_seed_with_heads_left_behind_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 12, slots: 10, altitude_km: 400, phasing: 5}\nsky: physical\n"
        "observer: {lat_deg: 28, min_elevation_deg: 0}\nlookup: binary\nworkload: {value: 1}\n"
        "grounds: {g1: [0, -1, 0]}\n",
        32005137);
}

/* 32004218: the two satellites that held a chunk crashed 18 s apart, and what was lost with them
 * counted as copies that stay away. 36001413: a value that a crash took was put again by another
 * ground while it was asked for, and the get's miss counted as the loss of the new one. */
static void seeds_with_crashes_pass(void **state) {
    (void)state;
    fly("constellation: {planes: 3, slots: 3}\nplacement: {strategy: hop, replicas: 2}\n"
        "time: {rotation_s: 20}\n"
        "workload: {keys: 34, gets: 240, value: 27509, every_ms: 60000}\n"
        "faults: {crash_per_h: 20, restart_s: 30}\nuntil: 14400s\n",
        32004218);
    fly("constellation: {planes: 5, slots: 16}\ncenter: [1, 14]\n"
        "placement: {strategy: rotation}\nsatellite: {processing_ms: 0}\neviction: lazy\n"
        "lookup: binary\nlinks: {loss: 0.0200}\ntime: {rotation_s: 20}\n"
        "workload: {keys: 61, gets: 2880, value: 7407, zipf: 0.8, every_ms: 941}\n"
        "grounds: {g1: [2, -1, 0], g2: [-2, 1, 72], g3: [-1, -1, 0]}\n"
        "faults: {crash_per_h: 20, freeze_per_h: 1, hostile_per_s: 0.50, duplicate: 0.3000, "
        "reorder: 0.3000, skew_ms: 5}\n",
        36001413);
}

/* 62205560: two grounds asked a slow satellite again before it could answer, for seconds. */
static void a_seed_with_busy_grounds_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 5, slots: 9}\nsatellite: {memory: 20KiB, processing_ms: 20}\n"
        "lookup: binary\nworkload: {every_ms: 395}\ngrounds: {g1: [0, 0, 60]}\nuntil: 900s\n",
        62205560);
}

/* 40011888: `eviction: sweep`. By the clock of a satellite, which stood still, a chunk was missing
 * that had moved on with the turn. */
static void a_seed_with_a_clock_that_stands_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 5, slots: 6}\nplacement: {servers: 15, weights: [2, 3]}\n"
        "satellite: {processing_ms: 0}\neviction: sweep\nlookup: sequential\n"
        "links: {loss: 0.000250}\ntime: {rotation_s: 20}\n"
        "workload: {keys: 8, value: 29568, zipf: 0.0, every_ms: 10000, prefetches: 0.007500}\n"
        "faults: {freeze_per_h: 5, hostile_per_s: 0.05}\n",
        40011888);
}

/* 36001052: a put made room of a block whose own put had not heard yet that its head was stored,
 * and then it was acknowledged. 40014013: of several grounds one was told that its value is stored,
 * and made room of it for the next in the same call. */
static void a_seed_with_little_room_passes(void **state) {
    (void)state;
    fly("constellation: {planes: 3, slots: 3}\nsatellite: {memory: 32KiB}\nlookup: binary\n"
        "workload: {keys: 3, value: 1}\n",
        36001052);
    fly("constellation: {planes: 4, slots: 3}\nplacement: {strategy: rotation}\n"
        "satellite: {memory: 16KiB}\nlookup: sequential\nworkload: {value: 1}\n"
        "grounds: {g1: [1, 1, 184]}\n",
        40014013);
}

/* 40015660: two grounds asked one satellite for a little more than it served in a second. What was
 * late was asked for again, so it had more to serve, and from then on nearly no get succeeded. */
static void a_seed_with_a_busy_satellite_passes(void **state) {
    (void)state;
    sky_sim_result r = fly("constellation: {planes: 4, slots: 3}\n"
                           "satellite: {processing_ms: 20}\nlookup: binary\n"
                           "workload: {value: 1}\ngrounds: {g1: [-2, 1, 0]}\n",
                           40015660);
    assert_true(r.p99.ms < 1000);
}

/* 42006792: the whole sky had room for a value, and the satellites that one is spread over had not:
 * its put is refused for good. */
static void a_seed_with_too_large_values_passes(void **state) {
    (void)state;
    sky_sim_result r = fly("constellation: {planes: 6, slots: 3}\n"
                           "placement: {strategy: predictive}\nchunk: 512\n"
                           "satellite: {memory: 1KiB}\nworkload: {value: 9118}\n",
                           42006792);
    assert_int_equal(r.sets, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_skies_lose_nothing),
        cmocka_unit_test(a_seed_draws_and_replays_the_same),
        cmocka_unit_test(every_fault_is_survived_alone),
        cmocka_unit_test(seeds_that_failed_once_pass),
        cmocka_unit_test(a_seed_with_busy_grounds_passes),
        cmocka_unit_test(a_seed_with_parity_passes),
        cmocka_unit_test(a_seed_with_parity_and_gaps_passes),
        cmocka_unit_test(seeds_with_moves_pass),
        cmocka_unit_test(a_seed_with_a_full_home_passes),
        cmocka_unit_test(a_seed_with_two_slots_passes),
        cmocka_unit_test(a_seed_with_late_chunks_passes),
        cmocka_unit_test(a_seed_with_far_satellites_passes),
        cmocka_unit_test(a_seed_with_an_old_silence_passes),
        cmocka_unit_test(a_seed_with_clocks_apart_passes),
        cmocka_unit_test(a_seed_with_heavy_losses_passes),
        cmocka_unit_test(a_seed_with_heads_left_behind_passes),
        cmocka_unit_test(seeds_with_crashes_pass),
        cmocka_unit_test(a_seed_with_a_clock_that_stands_passes),
        cmocka_unit_test(a_seed_with_little_room_passes),
        cmocka_unit_test(a_seed_with_a_busy_satellite_passes),
        cmocka_unit_test(a_seed_with_too_large_values_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
