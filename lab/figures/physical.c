/* The authors' sweeps in the physical sky: a block set once and read for half an hour while
 * satellites rise and set, over links with rate and loss. Once with their torus of 15 x 15, of
 * which a handful is ever in sight, once with the planes and slots of Starlink's first shell. */
#include "figures.h"

#define GETS         40   /* of each point: a median with bounds, and no more */
#define SERVERS_GETS 2000 /* enough to bound a 99th percentile */

/* What a sweep pins while it varies another: the authors' own last values. */
typedef struct {
    unsigned servers, processing_ms, altitude_km, block_mib;
} point;

static const struct {
    const char *name;
    unsigned values[6]; /* up to a 0 */
} sweeps[] = {{"servers", {9, 25, 49, 81}},
              {"processing_ms", {2, 6, 10, 14, 20}},
              {"altitude_km", {380, 600, 820, 1260, 1920}},
              {"block_mib", {1, 5, 9, 13, 17, 21}}};
#define SWEEPS (sizeof sweeps / sizeof sweeps[0])

static const struct {
    const char *name, *grid;
} skies[] = {{"15x15", "planes: 15, slots: 15"}, {"72x22", "planes: 72, slots: 22, phasing: 17"}};
#define SKIES (sizeof skies / sizeof skies[0])

static point point_of(size_t sweep, unsigned value) {
    point p = {81, 20, 1920, 21};
    unsigned *const varied[] = {&p.servers, &p.processing_ms, &p.altitude_km, &p.block_mib};
    *varied[sweep] = value;
    return p;
}

static void scenario_of(char *text, size_t bytes, size_t sky, int strategy, const point *p) {
    snprintf(text, bytes,
             FIGURES_PHYSICAL "constellation: {%s, altitude_km: %u, inclination_deg: 53}\n"
                              "placement: {strategy: %s, servers: %u}\n"
                              "chunk: 12KiB\n"
                              "satellite: {memory: 64MiB, processing_ms: %u}\n"
                              "links: {isl_gbps: 10, ground_mbps: 1000, queue: 64MiB, loss: 0.01}\n"
                              "workload: {keys: 1, gets: %u, value: %uMiB, every_ms: %u}\n"
                              "until: 30m\n",
             skies[sky].grid, p->altitude_km, figures_strategies[strategy], p->servers,
             p->processing_ms, GETS, p->block_mib, 1800000u / GETS);
}

static int fly_one(figures *f, FILE *csv, size_t sky, size_t sweep, int strategy, unsigned value) {
    static sky_sim_result r;
    char text[1024];
    point p = point_of(sweep, value);
    sky_sim_options options = {.seed = 1};
    scenario_of(text, sizeof text, sky, strategy, &p);
    int code = figures_run(f, text, &options, &r);
    if (code != CLI_OK)
        return code;
    fprintf(csv, "%s,%s,%s,%u,%llu,%llu,%llu,%s,%s,%llu\n", skies[sky].name,
            figures_strategies[strategy], sweeps[sweep].name, value, (unsigned long long)r.gets,
            (unsigned long long)r.hits, (unsigned long long)r.unanswered,
            figures_quantile(&r.p50).text, figures_quantile(&r.p99).text,
            (unsigned long long)r.migrated_bytes);
    return CLI_OK;
}

/* scenarios/physical.yaml with more gets, and other windows; the same in the ideal sky. */
static const struct {
    unsigned servers, planes, slots;
} windows[] = {{1, 1, 1}, {9, 3, 3}, {9, 9, 1}, {25, 5, 5}, {81, 9, 9}};

static int fly_window(figures *f, FILE *csv, size_t i, bool physical) {
    static sky_sim_result r;
    char text[1024];
    sky_sim_options options = {.seed = 1};
    snprintf(text, sizeof text,
             "%sconstellation: {shell: starlink-a}\n"
             "placement: {strategy: rotation-hop, servers: %u, window: [%u, %u]}\n"
             "satellite: {memory: 64MiB, processing_ms: 0.02}\n"
             "links: {isl_gbps: 100, ground_mbps: 10000, queue: 64MiB}\n"
             "workload: {keys: 20, gets: %u, value: 2.9MiB, every_ms: %u}\n"
             "until: 30m\n",
             physical ? FIGURES_PHYSICAL : "", windows[i].servers, windows[i].planes,
             windows[i].slots, SERVERS_GETS, 1800000u / SERVERS_GETS);
    int code = figures_run(f, text, &options, &r);
    if (code == CLI_OK)
        fprintf(csv, "%s,%u,%u,%u,%llu,%llu,%s,%s\n", physical ? "physical" : "ideal",
                windows[i].servers, windows[i].planes, windows[i].slots, (unsigned long long)r.gets,
                (unsigned long long)r.hits, figures_quantile(&r.p50).text,
                figures_quantile(&r.p99).text);
    return code;
}

int figures_servers(figures *f) {
    static const char name[] = "physical-servers";
    FILE *csv = figures_csv(f, name,
                            "sky,servers,window_planes,window_slots,gets,hits," FIGURES_QUANTILE(
                                "get_p50") "," FIGURES_QUANTILE("get_p99"));
    if (!csv)
        return CLI_FAILED;
    int code = CLI_OK;
    for (size_t i = 0; i < 2 * sizeof windows / sizeof windows[0] && code == CLI_OK; i++)
        code = fly_window(f, csv, i / 2, i % 2);
    int closed = figures_csv_close(f, csv, name);
    return code == CLI_OK ? closed : code;
}

static int fly_all(figures *f, FILE *csv) {
    int code = CLI_OK;
    for (size_t sky = 0; sky < SKIES; sky++) {
        for (size_t sweep = 0; sweep < SWEEPS; sweep++) {
            for (int s = 0; s < STRATEGIES; s++)
                for (size_t i = 0; i < 6 && sweeps[sweep].values[i] && code == CLI_OK; i++)
                    code = fly_one(f, csv, sky, sweep, s, sweeps[sweep].values[i]);
        }
    }
    return code;
}

int figures_physical(figures *f) {
    static const char name[] = "physical-sweeps";
    FILE *csv = figures_csv(f, name,
                            "sky,strategy,parameter,value,gets,hits,unanswered," FIGURES_QUANTILE(
                                "get_p50") "," FIGURES_QUANTILE("get_p99") ",migrated_bytes");
    if (!csv)
        return CLI_FAILED;
    int code = fly_all(f, csv);
    int closed = figures_csv_close(f, csv, name);
    return code == CLI_OK ? closed : code;
}
