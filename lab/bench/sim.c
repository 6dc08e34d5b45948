/* The simulator's speed: events a second with every check on, hours of random skies a minute, and
 * the seed authors' sweep. And the sky's: what loss does to a get, in virtual time. */
#include "bench.h"

#include "lab/sim/run.h"
#include "lab/sim/study.h"
#include "lab/sim/swarm.h"

#include <string.h>
#include <time.h>

#define ROUNDS 5

/* Chunks of 6 KiB, small blocks under popular keys: what the link and the satellites do. */
static const char busy_sky[] = "constellation: {planes: 15, slots: 15}\n"
                               "placement: {strategy: %s, servers: 25}\n"
                               "satellite: {memory: 16MiB, processing_ms: 0.02}\n"
                               "links: {isl_gbps: 100, ground_mbps: 10000, queue: 64MiB}\n"
                               "workload: {keys: 20, gets: %u, value: 600KiB, every_ms: 20}\n"
                               "until: 1h\n";

/* Of this process, which has one thread here: a figure for a core holds on a busy machine too. */
static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

/* An event is a step of the scheduler: somebody woke, or a message got to the ground's queue, or to
 * its end. How many of them are the latter, by the trace of the same run. */
static int sim_arrivals(bench *b, const char *text, sky_sim_options options, double *share) {
    static sky_sim_result r;
    char folder[4096], path[4200], line[256], kind[16];
    uint64_t arrived = 0;
    sky_error error = {0};
    int code = cli_scratch_make(b->c, cli_text(b->c, "folder"), "bench", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(path, sizeof path, "%s/trace", folder);
    options.trace_path = path;
    sky_status status = sky_sim_run_text(text, strlen(text), "bench", &options, &r, &error);
    FILE *trace = status == SKY_OK ? fopen(path, "r") : NULL;
    while (trace && fgets(line, sizeof line, trace))
        arrived += sscanf(line, "%*s %15s", kind) == 1 &&
                   (strcmp(kind, "arrived") == 0 || strcmp(kind, "delivered") == 0);
    if (trace)
        fclose(trace);
    else
        code = status == SKY_OK ? cli_failed(b->c, "%s: cannot be read", path)
                                : cli_refused(b->c, status, &error);
    cli_scratch_remove(folder);
    *share = (double)arrived / (double)r.events;
    return code;
}

static int events_row(bench *b, const char *strategy, unsigned gets) {
    static sky_sim_result r;
    char text[1024], name[64];
    double best = 0, share;
    sky_sim_options options = {.seed = 1, .until_s = gets * 0.02 + 1};
    snprintf(text, sizeof text, busy_sky, strategy, gets);
    for (int i = 0; i < ROUNDS; i++) {
        sky_error error = {0};
        double start = cpu_seconds();
        sky_status status = sky_sim_run_text(text, strlen(text), "bench", &options, &r, &error);
        if (status != SKY_OK)
            return cli_refused(b->c, status, &error);
        double rate = (double)r.events / (cpu_seconds() - start);
        best = rate > best ? rate : best;
    }
    snprintf(name, sizeof name, "%s, 6 KiB chunks", strategy);
    int code = bench_row(b, name, best / 1e6, "M events/s", "one million", 1);
    if (code == CLI_OK)
        code = sim_arrivals(b, text, options, &share);
    snprintf(name, sizeof name, "%s, of these messages at their end", strategy);
    return code == CLI_OK ? bench_row(b, name, best * share / 1e6, "M/s", "one million", 1) : code;
}

static int swarm_row(bench *b, unsigned skies) {
    static sky_sim_result r;
    char text[SKY_SIM_DRAWN_MAX];
    double hours = 0;
    uint64_t events = 0;
    double start = cpu_seconds();
    for (unsigned seed = 1; seed <= skies; seed++) {
        sky_error error = {0};
        sky_sim_options options = {.seed = seed};
        size_t bytes = sky_sim_draw(seed, 1, text);
        sky_status status = sky_sim_run_text(text, bytes, "swarm", &options, &r, &error);
        if (status != SKY_OK)
            return cli_refused(b->c, status, &error);
        hours += r.virtual_s / 3600;
        events += r.events;
    }
    double seconds = cpu_seconds() - start;
    int code = bench_row(b, "random skies", hours / seconds * 60, "h/min", NULL, 0);
    return code == CLI_OK ? bench_row(b, "random skies, all checks", (double)events / seconds / 1e6,
                                      "M events/s", NULL, 0)
                          : code;
}

/* One point of the authors' sweeps: each pins the others at its last value. */
static sky_study_point sweep_point(int strategy, int sweep, unsigned i) {
    sky_study_point p = {.constellation = {.planes = 15,
                                           .slots = 15,
                                           .altitude_km = 1920,
                                           .earth_radius_km = 6371,
                                           .light_km_s = 299800},
                         .placement = {.strategy = (sky_strategy)strategy, .servers = 81},
                         .centre = {8, 8},
                         .chunk_bytes = 12288,
                         .block_bytes = 21u << 20,
                         .processing_ns = 20000000,
                         .seed = 1};
    if (sweep == 0)
        p.placement.servers = (2 * i + 3) * (2 * i + 3);
    else if (sweep == 1)
        p.processing_ns = 2000000 * (sky_time)(i + 1);
    else if (sweep == 2)
        p.constellation.altitude_km = 160 + 220.0 * i;
    else
        p.block_bytes = (uint64_t)(i + 1) << 20;
    return p;
}

/* All 132 points; the formula alone, or flown too. */
static int sweep_row(bench *b, const char *name, uint32_t gets) {
    static const unsigned steps[] = {4, 10, 9, 21};
    double best = 1e9;
    for (int round = 0; round < (gets ? 1 : ROUNDS); round++) {
        double start = cpu_seconds();
        for (int strategy = 0; strategy < 3; strategy++) {
            for (int sweep = 0; sweep < 4; sweep++) {
                for (unsigned i = 0; i < steps[sweep]; i++) {
                    sky_study_point p = sweep_point(strategy, sweep, i);
                    sky_study_result r;
                    sky_error error = {0};
                    p.gets = gets;
                    sky_status status = sky_study_run(&p, &r, &error);
                    if (status != SKY_OK)
                        return cli_refused(b->c, status, &error);
                }
            }
        }
        double ms = (cpu_seconds() - start) * 1e3;
        best = ms < best ? ms : best;
    }
    return bench_row(b, name, best, "ms", NULL, 0);
}

int bench_sim(bench *b) {
    int code = events_row(b, "rotation-hop", b->quick ? 500 : 4000);
    if (code == CLI_OK)
        code = events_row(b, "hop", b->quick ? 500 : 4000);
    if (code == CLI_OK)
        code = swarm_row(b, b->quick ? 20 : 200);
    if (code == CLI_OK)
        code = sweep_row(b, "authors' sweep, formula", 0);
    return code == CLI_OK ? sweep_row(b, "authors' sweep, flown", 1) : code;
}

/* ---- the sky ---- */

static int loss_row(bench *b, const char *link, uint64_t bits_s, uint32_t parity, double loss,
                    double *free_ms) {
    sky_study_point p = sky_study_starlink(bits_s, parity, b->quick ? 200 : 400);
    p.loss = loss;
    sky_study_result r;
    sky_error error = {0};
    char name[96], beside[32] = "";
    sky_status status = sky_study_run(&p, &r, &error);
    if (status != SKY_OK)
        return cli_refused(b->c, status, &error);
    if (parity > 0)
        snprintf(beside, sizeof beside, " parity %u of 25,", parity);
    snprintf(name, sizeof name, "get 2.9 MiB, %s,%s %g %% loss, p99", link, beside, 100 * loss);
    if (loss == 0)
        *free_ms = r.get_p99.ms;
    int code = bench_row(b, name, r.get_p99.ms, "ms", loss > 0 ? "loss-free" : NULL, *free_ms);
    snprintf(name, sizeof name, "get 2.9 MiB, %s,%s %g %% loss, answered", link, beside,
             100 * loss);
    return code == CLI_OK ? bench_row(b, name, r.answered, "gets", "asked", p.gets) : code;
}

int bench_sky(bench *b) {
    static const double losses[] = {0, 0.01, 0.02, 0.05};
    int code = CLI_OK;
    double free_ms = 0;
    for (int i = 0; i < 4 && code == CLI_OK; i++)
        code = loss_row(b, "200 Mb/s", 200000000u, 0, losses[i], &free_ms);
    for (uint32_t parity = 0; parity <= 6; parity += 6)
        for (int i = 0; i < 4 && code == CLI_OK; i++)
            code = loss_row(b, "10 Gb/s", 10000000000u, parity, losses[i], &free_ms);
    return code;
}
