/* Scenarios at random, one a seed: each a small sky whose faults are a mix of its own. Half of all
 * faults are absent from any one scenario, so that each kind is also seen without the others.
 *
 * Surprises: skies are small and ask little (some thousand events an hour), because what is looked
 * for needs many different hours, not much traffic in each. Each draw is a statement of its own,
 * since compilers take arguments in any order and a seed must be the same sky for all; what order
 * they are in is kept for the seeds that failed once. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "lab/sim/swarm.h"

typedef struct {
    sky_prng prng;
    sky_prng datagrams; /* by itself: one sky, carried one way or the other */
    sky_prng shape;     /* by itself: true orbits, another window, removals and pins */
    sky_prng moves;     /* by itself: half of all skies have prefetches */
    sky_prng arrivals;  /* by itself: in half of them requests come by the clock */
    sky_prng grounds;   /* by itself: half of the skies that may, have several */
    sky_prng weather;   /* by itself: a third of the skies with ground links have some */
    bool shaped;        /* as one sky of three is */
    bool alone;         /* its strategy, lookup or links are for one ground */
    bool aboard;
    bool datagrams_fly;
    bool several;
    bool physical;
    char *text;
    size_t used;
} drawing;

/* With these, shape, moves, arrivals, grounds and weather leave the seeds of swarm_test.c as they
 * were when they failed. */
#define SHAPE_SALT    85
#define MOVES_SALT    440
#define ARRIVALS_SALT 23707
#define GROUNDS_SALT  97
#define WEATHER_SALT  296

static void swarm_say(drawing *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void swarm_say(drawing *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(d->text + d->used, SKY_SIM_DRAWN_MAX - d->used, format, args);
    va_end(args);
    d->used += n > 0 ? (size_t)n : 0;
}

static uint64_t swarm_below(drawing *d, uint64_t bound) {
    return sky_prng_below(&d->prng, bound);
}

static uint64_t swarm_pick(drawing *d, const uint64_t *choices, uint64_t count) {
    return choices[swarm_below(d, count)];
}
#define PICK(d, ...)                                                                               \
    swarm_pick(d, (const uint64_t[]){__VA_ARGS__},                                                 \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t of_shape(drawing *d, uint64_t bound) {
    return sky_prng_below(&d->shape, bound);
}

/* True orbits take three times the planes and twice the slots, so that mostly something is in
 * sight. There orbits say who is overhead: only hop has a centre. */
static void draw_constellation(drawing *d, uint64_t planes, uint64_t slots) {
    uint64_t altitude_km = PICK(d, 400, 550, 1200);
    d->shaped = of_shape(d, 3) == 0;
    d->physical = d->shaped && of_shape(d, 2) == 0;
    swarm_say(d, "constellation: {planes: %" PRIu64 ", slots: %" PRIu64 ", altitude_km: %" PRIu64,
              planes * (d->physical ? 3 : 1), slots * (d->physical ? 2 : 1), altitude_km);
    if (d->shaped)
        swarm_say(d, ", phasing: %" PRIu64, of_shape(d, planes));
    swarm_say(d, "}\n");
    if (!d->physical)
        return;
    uint64_t latitude = of_shape(d, 60), mask = 5 + of_shape(d, 21);
    swarm_say(d,
              "sky: physical\nobserver: {lat_deg: %" PRIu64 ", min_elevation_deg: %" PRIu64 "}\n",
              latitude, mask);
}

static void draw_window(drawing *d, uint64_t planes, uint64_t slots, uint64_t servers) {
    uint64_t height = 1 + 2 * of_shape(d, (planes + 1) / 2);
    uint64_t width = 1 + 2 * of_shape(d, (slots + 1) / 2);
    uint64_t intra = of_shape(d, 3), inter = 1 + of_shape(d, 3);
    if (height * width >= servers)
        swarm_say(d, ", window: [%" PRIu64 ", %" PRIu64 "]", height, width);
    if (intra > 0)
        swarm_say(d, ", weights: [%" PRIu64 ", %" PRIu64 "]", intra, inter);
}

static void draw_sky(drawing *d) {
    static const char *const strategies[] = {"rotation", "hop", "rotation-hop", "predictive"};
    static const char *const evictions[] = {"gossip", "lazy", "sweep", "broadcast",
                                            "[gossip, lazy, sweep, broadcast]"};
    static const char *const lookups[] = {"index", "index", "binary", "sequential"};
    uint64_t planes = 5 + swarm_below(d, 4);
    uint64_t slots = 5 + swarm_below(d, 12);
    draw_constellation(d, planes, slots);
    uint64_t slot = 1 + swarm_below(d, slots);
    uint64_t plane = 1 + swarm_below(d, planes);
    uint64_t servers = 2 + swarm_below(d, 20);
    uint64_t parity = PICK(d, 0, 0, 0, 1, 2);
    const char *strategy = strategies[swarm_below(d, d->physical ? 3 : 4)];
    d->aboard = strcmp(strategy, "hop") == 0;
    d->alone = strncmp(strategy, "rotation", 8) != 0;
    if (!d->physical || d->aboard)
        swarm_say(d, "center: [%" PRIu64 ", %" PRIu64 "]\n", plane, slot);
    swarm_say(d, "placement: {strategy: %s, servers: %" PRIu64, strategy, servers);
    if (d->shaped)
        draw_window(d, planes, slots, servers);
    swarm_say(d, ", replicas: %" PRIu64 ", parity: %" PRIu64 "}\n", PICK(d, 1, 1, 1, 2),
              parity < servers ? parity : 0);
    swarm_say(d, "chunk: %" PRIu64 "\n", PICK(d, 512, 1024, 2048, 6144));
    uint64_t processing_ms = PICK(d, 0, 1, 2, 20);
    swarm_say(d, "satellite: {memory: %" PRIu64 "KiB, processing_ms: %" PRIu64 "}\n",
              PICK(d, 32, 80, 256, 4096), processing_ms);
    swarm_say(d, "eviction: %s\n", evictions[swarm_below(d, 5)]);
    const char *lookup = lookups[swarm_below(d, 4)];
    d->alone |= strcmp(lookup, "index") == 0;
    swarm_say(d, "lookup: %s\n", lookup);
}

static void draw_links(drawing *d) {
    bool datagrams = sky_prng_below(&d->datagrams, 4) == 0;
    d->alone |= datagrams;
    d->datagrams_fly = datagrams;
    uint64_t queue_kib = PICK(d, 64, 1024, 16384);
    uint64_t jitter_ms = PICK(d, 0, 0, 1, 20);
    double loss = (double)PICK(d, 0, 0, 10, 50, 200) / 1e4;
    loss *= (double)PICK(d, 1, 5);
    uint64_t ground_mbps = PICK(d, 2, 20, 200, 10000);
    swarm_say(d,
              "links: {isl_gbps: %" PRIu64 ", ground_mbps: %" PRIu64
              ", loss: %.4f, jitter_ms: %" PRIu64 ", queue: %" PRIu64 "KiB, datagrams: %s}\n",
              PICK(d, 1, 10, 100), ground_mbps, loss, jitter_ms, queue_kib,
              datagrams ? "true" : "false");
}

/* The same numbers in true orbits, where a satellite is gone within minutes, are 30 s and less. */
static uint64_t draw_rotation_s(drawing *d) {
    uint64_t rotation_s = PICK(d, 20, 120, 300, 600);
    return d->physical ? 15 + rotation_s % 17 : rotation_s;
}

static void draw_workload(drawing *d, double hours) {
    uint64_t every_s = PICK(d, 5, 20, 60);
    swarm_say(d, "time: {rotation_s: %" PRIu64 "}\n", draw_rotation_s(d));
    bool sooner = swarm_below(d, 2) == 1;
    uint64_t sooner_ms = swarm_below(d, every_s * 900);
    double zipf = (double)swarm_below(d, 15) / 10;
    uint64_t value_bytes = 1 + swarm_below(d, PICK(d, 600, 9000, 40000));
    swarm_say(d,
              "workload: {keys: %" PRIu64 ", gets: %.0f, value: %" PRIu64 ", zipf: %.1f, every_ms: "
              "%" PRIu64,
              3 + swarm_below(d, 60), hours * 3600 / (double)every_s, value_bytes, zipf,
              every_s * 1000 - (sooner ? sooner_ms : 0));
    if (d->shaped) {
        uint64_t removes = 5 * of_shape(d, 3), pins = 10 * of_shape(d, 3);
        swarm_say(d, ", removes: %.2f, pins: %.2f", (double)removes / 100, (double)pins / 100);
    }
    if (sky_prng_below(&d->moves, 2) == 0) {
        uint64_t prefetches = 1 + sky_prng_below(&d->moves, 10);
        swarm_say(d, ", prefetches: %.2f", (double)prefetches / 100);
    }
    if (sky_prng_below(&d->arrivals, 2) == 0)
        swarm_say(d, ", arrivals: fixed");
    swarm_say(d, "}\n");
}

static uint64_t of_grounds(drawing *d, uint64_t bound) {
    return sky_prng_below(&d->grounds, bound);
}

static void draw_grounds(drawing *d) {
    if (of_grounds(d, 2) == 0 || d->alone)
        return;
    uint64_t count = 1 + of_grounds(d, 3);
    d->several = true;
    swarm_say(d, "grounds:\n");
    for (uint64_t i = 0; i < count; i++) {
        int64_t planes = (int64_t)of_grounds(d, 5) - 2;
        int64_t slots = (int64_t)of_grounds(d, 5) - 2;
        uint64_t mbps = of_grounds(d, 3) == 0 ? 5 + of_grounds(d, 200) : 0;
        swarm_say(d, "  g%" PRIu64 ": [%" PRId64 ", %" PRId64 ", %" PRIu64 "]\n", i + 1, planes,
                  slots, mbps);
    }
}

static uint64_t of_weather(drawing *d, uint64_t bound) {
    return sky_prng_below(&d->weather, bound);
}

/* The transport of datagrams sends at one rate: there only losses vary. */
static void say_quality(drawing *d, const char *end) {
    uint64_t rate = 10 + of_weather(d, 91), loss = of_weather(d, 4) == 0 ? of_weather(d, 300) : 0;
    swarm_say(d, "%.2f, %.3f]%s", d->datagrams_fly ? 1 : (double)rate / 100, (double)loss / 1000,
              end);
}

static void draw_weather(drawing *d, double hours) {
    if (of_weather(d, 3) > 0 || d->aboard)
        return;
    if (d->physical) {
        swarm_say(d, "elevation: {20: [");
        say_quality(d, ", 70: [");
        say_quality(d, "}\n");
    }
    uint64_t count = 1 + of_weather(d, 3), end_s = (uint64_t)(hours * 3600);
    swarm_say(d, "weather:\n");
    for (uint64_t i = 0; i < count; i++) {
        const char *over = of_weather(d, 2) == 0 && d->several ? "g1" : "observer";
        uint64_t from_s = of_weather(d, end_s), length_s = 1 + of_weather(d, 1200);
        swarm_say(d, "  w%" PRIu64 ": [%s, %" PRIu64 "s, %" PRIu64 "s, ", i + 1, over, from_s,
                  from_s + length_s);
        say_quality(d, "\n");
    }
}

static void draw_faults(drawing *d) {
    static const char *const liars[] = {"wrong-bytes", "wrong-shift", "black-hole", "mixed"};
    uint64_t partition_per_h = PICK(d, 0, 0, 2, 20);
    uint64_t restart_s = PICK(d, 0, 1, 30);
    swarm_say(
        d, "faults: {crash_per_h: %" PRIu64 ", restart_s: %" PRIu64 ", partition_per_h: %" PRIu64,
        PICK(d, 0, 0, 2, 20), restart_s, partition_per_h);
    double hostile_per_s = (double)PICK(d, 0, 0, 5, 50) / 100;
    swarm_say(d, ", freeze_per_h: %" PRIu64 ", hostile_per_s: %.2f", PICK(d, 0, 0, 0, 2, 10),
              hostile_per_s);
    double reorder = (double)PICK(d, 0, 0, 500, 3000) / 1e4;
    double duplicate = (double)PICK(d, 0, 0, 100, 3000) / 1e4;
    swarm_say(d, ", corrupt: %.4f, duplicate: %.4f, reorder: %.4f",
              (double)PICK(d, 0, 0, 1, 50) / 1e4, duplicate, reorder);
    const char *liar = liars[swarm_below(d, 4)];
    uint64_t liar_satellites = PICK(d, 0, 0, 0, 0, 1, 3);
    swarm_say(d, ", skew_ms: %" PRIu64 ", liar_satellites: %" PRIu64 ", liar: %s",
              PICK(d, 0, 0, 5, 500), liar_satellites, liar);
    if (d->several && of_grounds(d, 2) == 0)
        swarm_say(d, ", reopen_per_h: %" PRIu64, 1 + of_grounds(d, 60));
    swarm_say(d, "}\n");
}

size_t sky_sim_draw(uint64_t seed, double hours, char text[SKY_SIM_DRAWN_MAX]) {
    drawing d = {.text = text};
    sky_prng_init(&d.prng, seed);
    sky_prng_init(&d.datagrams, ~seed);
    sky_prng_init(&d.shape, seed ^ SHAPE_SALT);
    sky_prng_init(&d.moves, seed ^ MOVES_SALT);
    sky_prng_init(&d.arrivals, seed ^ ARRIVALS_SALT);
    sky_prng_init(&d.grounds, seed ^ GROUNDS_SALT);
    sky_prng_init(&d.weather, seed ^ WEATHER_SALT);
    draw_sky(&d);
    draw_links(&d);
    draw_workload(&d, hours);
    draw_grounds(&d);
    draw_weather(&d, hours);
    draw_faults(&d);
    swarm_say(&d, "until: %.0fs\n", hours * 3600);
    return d.used;
}
