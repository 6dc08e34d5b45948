/* Scenarios at random, one a seed: each a small sky whose faults are a mix of its own. Half of all
 * faults are absent from any one scenario, so that each kind is also seen without the others.
 *
 * Surprise: skies are small and ask little (some thousand events an hour), because what is looked
 * for needs many different hours, not much traffic in each. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <skymem/sim.h>

#include "base/prng.h"

typedef struct {
    sky_prng prng;
    sky_prng datagrams; /* by itself: one sky, carried one way or the other */
    char *text;
    size_t used;
} drawing;

static void say(drawing *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(drawing *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(d->text + d->used, SKY_SIM_DRAWN_MAX - d->used, format, args);
    va_end(args);
    d->used += n > 0 ? (size_t)n : 0;
}

static uint64_t below(drawing *d, uint64_t bound) {
    return sky_prng_below(&d->prng, bound);
}

static uint64_t pick(drawing *d, const uint64_t *choices, uint64_t count) {
    return choices[below(d, count)];
}
#define PICK(d, ...)                                                                               \
    pick(d, (const uint64_t[]){__VA_ARGS__},                                                       \
         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void draw_sky(drawing *d) {
    static const char *const strategies[] = {"rotation", "hop", "rotation-hop"};
    static const char *const evictions[] = {"gossip", "lazy", "sweep", "broadcast",
                                            "[gossip, lazy, sweep, broadcast]"};
    static const char *const lookups[] = {"index", "index", "binary", "sequential"};
    uint64_t planes = 5 + below(d, 4);
    uint64_t slots = 5 + below(d, 12);
    say(d, "constellation: {planes: %" PRIu64 ", slots: %" PRIu64 ", altitude_km: %" PRIu64 "}\n",
        planes, slots, PICK(d, 400, 550, 1200));
    say(d, "center: [%" PRIu64 ", %" PRIu64 "]\n", 1 + below(d, planes), 1 + below(d, slots));
    uint64_t servers = 2 + below(d, 20);
    uint64_t parity = PICK(d, 0, 0, 0, 1, 2);
    say(d, "placement: {strategy: %s, servers: %" PRIu64, strategies[below(d, 3)], servers);
    say(d, ", replicas: %" PRIu64 ", parity: %" PRIu64 "}\n", PICK(d, 1, 1, 1, 2),
        parity < servers ? parity : 0);
    say(d, "chunk: %" PRIu64 "\n", PICK(d, 512, 1024, 2048, 6144));
    say(d, "satellite: {memory: %" PRIu64 "KiB, processing_ms: %" PRIu64 "}\n",
        PICK(d, 32, 80, 256, 4096), PICK(d, 0, 1, 2, 20));
    say(d, "eviction: %s\n", evictions[below(d, 5)]);
    say(d, "lookup: %s\n", lookups[below(d, 4)]);
}

static void draw_links(drawing *d) {
    say(d,
        "links: {isl_gbps: %" PRIu64 ", ground_mbps: %" PRIu64 ", loss: %.4f, jitter_ms: %" PRIu64
        ", queue: %" PRIu64 "KiB, datagrams: %s}\n",
        PICK(d, 1, 10, 100), PICK(d, 2, 20, 200, 10000),
        (double)PICK(d, 0, 0, 10, 50, 200) / 1e4 * (double)PICK(d, 1, 5), PICK(d, 0, 0, 1, 20),
        PICK(d, 64, 1024, 16384), sky_prng_below(&d->datagrams, 4) == 0 ? "true" : "false");
}

static void draw_workload(drawing *d, double hours) {
    uint64_t every_s = PICK(d, 5, 20, 60);
    say(d, "time: {rotation_s: %" PRIu64 "}\n", PICK(d, 20, 120, 300, 600));
    say(d,
        "workload: {keys: %" PRIu64 ", gets: %.0f, value: %" PRIu64 ", zipf: %.1f, every_ms: "
        "%" PRIu64 "}\n",
        3 + below(d, 60), hours * 3600 / (double)every_s, 1 + below(d, PICK(d, 600, 9000, 40000)),
        (double)below(d, 15) / 10, every_s * 1000 - below(d, 2) * below(d, every_s * 900));
}

static void draw_faults(drawing *d) {
    static const char *const liars[] = {"wrong-bytes", "wrong-shift", "black-hole", "mixed"};
    say(d, "faults: {crash_per_h: %" PRIu64 ", restart_s: %" PRIu64 ", partition_per_h: %" PRIu64,
        PICK(d, 0, 0, 2, 20), PICK(d, 0, 1, 30), PICK(d, 0, 0, 2, 20));
    say(d, ", freeze_per_h: %" PRIu64 ", hostile_per_s: %.2f", PICK(d, 0, 0, 0, 2, 10),
        (double)PICK(d, 0, 0, 5, 50) / 100);
    say(d, ", corrupt: %.4f, duplicate: %.4f, reorder: %.4f", (double)PICK(d, 0, 0, 1, 50) / 1e4,
        (double)PICK(d, 0, 0, 100, 3000) / 1e4, (double)PICK(d, 0, 0, 500, 3000) / 1e4);
    say(d, ", skew_ms: %" PRIu64 ", liar_satellites: %" PRIu64 ", liar: %s}\n",
        PICK(d, 0, 0, 5, 500), PICK(d, 0, 0, 0, 0, 1, 3), liars[below(d, 4)]);
}

size_t sky_sim_draw(uint64_t seed, double hours, char text[SKY_SIM_DRAWN_MAX]) {
    drawing d = {.text = text};
    sky_prng_init(&d.prng, seed);
    sky_prng_init(&d.datagrams, ~seed);
    draw_sky(&d);
    draw_links(&d);
    draw_workload(&d, hours);
    draw_faults(&d);
    say(&d, "until: %.0fs\n", hours * 3600);
    return d.used;
}
