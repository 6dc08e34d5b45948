/* The study: the seed authors' sweeps flown by the real session and satellites, the same with rates
 * and loss, their figure 1, and maps of where things lie. Every figure has its table beside it. */
#include "figures.h"

#include "lab/sim/study.h"
#include "orbit/placement.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB             1048576.0
#define AUTHORS_GETS    1
#define LINKS_GETS      11
#define LOSS_GETS       400 /* fewer do not bound a 99th percentile */
#define LOSS_WAYS       4
#define LOSS_PARITY_MAX 7

const char *const figures_strategies[STRATEGIES] = {"rotation", "hop", "rotation-hop"};

/* ---- tables ---- */

FILE *figures_csv(const figures *f, const char *name, const char *head) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.csv", f->folder, name);
    FILE *csv = fopen(path, "w");
    if (!csv)
        cli_failed(f->c, "%s: %s", path, strerror(errno));
    else
        fprintf(csv, "%s\n", head);
    cli_progress("%s", name);
    return csv;
}

figures_columns figures_quantile(const sky_quantile *q) {
    figures_columns c;
    int used = snprintf(c.text, sizeof c.text, "%.3f,%.3f,", q->ms, q->low_ms);
    if (!isinf(q->high_ms))
        snprintf(c.text + used, sizeof c.text - (size_t)used, "%.3f", q->high_ms);
    return c;
}

int figures_csv_close(const figures *f, FILE *csv, const char *name) {
    bool ok = !ferror(csv);
    ok = fclose(csv) == 0 && ok;
    return ok ? CLI_OK : cli_failed(f->c, "%s/%s.csv: %s", f->folder, name, strerror(errno));
}

/* ---- the authors' sweeps ---- */

/* Their torus: one distance for both axes, light at 2.998e8 m/s; each sweep pins the others at 81
 * servers, 20 ms, 1920 km and 21 MiB. */
static sky_study_point authors_point(sky_strategy strategy) {
    return (sky_study_point){.constellation = {.planes = 15,
                                               .slots = 15,
                                               .altitude_km = 1920,
                                               .inclination_deg = 53,
                                               .earth_radius_km = 6371,
                                               .light_km_s = 299800},
                             .placement = {.strategy = strategy, .servers = 81},
                             .centre = {8, 8},
                             .chunk_bytes = 12288,
                             .block_bytes = 21u << 20,
                             .processing_ns = SKY_MS(20),
                             .seed = 1};
}

enum { SERVERS, PROCESSING, ALTITUDE, BYTES, SWEEPS };
static const struct {
    const char *name;
    unsigned steps;
} sweeps[SWEEPS] = {{"servers", 4}, {"processing_ms", 10}, {"altitude_km", 9}, {"block_mib", 21}};

/* Set step `i` of a sweep and return its value on the axis. */
static double sweep_step(sky_study_point *p, int sweep, unsigned i) {
    switch (sweep) {
    case SERVERS:
        p->placement.servers = (2 * i + 3) * (2 * i + 3);
        return p->placement.servers;
    case PROCESSING:
        p->processing_ns = SKY_MS(2) * (i + 1);
        return 2.0 * (i + 1);
    case ALTITUDE:
        p->constellation.altitude_km = 160 + 220.0 * i;
        return p->constellation.altitude_km;
    default:
        p->block_bytes = (uint64_t)(i + 1) << 20;
        return i + 1;
    }
}

static void authors_row(FILE *csv, const sky_study_result *r) {
    fprintf(csv, "%.10f,%.10f,%.10f,%.10f,%.2f,%.6f\n", r->served_max_s, r->served_min_s,
            r->served_avg_s, r->formula_max_s, r->off_ns_max, r->get_max_ms);
}

static void links_row(FILE *csv, const sky_study_result *r) {
    fprintf(csv, "%s,%.3f,%.3f,%u,%llu\n", figures_quantile(&r->get_p50).text, r->get_max_ms,
            1e3 * r->formula_max_s, r->answered, (unsigned long long)r->events);
}

/* All sweeps of all strategies, with what `change` makes of each point. */
static int fly_sweeps(figures *f, FILE *csv, bool links) {
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int s = 0; s < STRATEGIES; s++) {
            for (unsigned i = 0; i < sweeps[sweep].steps; i++) {
                sky_study_point p = authors_point((sky_strategy)s);
                sky_study_result r;
                sky_error error = {0};
                double x = sweep_step(&p, sweep, i);
                p.gets = links ? LINKS_GETS : AUTHORS_GETS;
                p.isl_bits_s = links ? 10000000000u : 0;
                p.ground_bits_s = links ? 1000000000u : 0;
                p.loss = links ? 0.01 : 0;
                sky_status status = sky_study_run(&p, &r, &error);
                if (status != SKY_OK)
                    return cli_refused(f->c, status, &error);
                fprintf(csv, "%s,%s,%g,", figures_strategies[s], sweeps[sweep].name, x);
                (links ? links_row : authors_row)(csv, &r);
            }
        }
    }
    return CLI_OK;
}

static int sweeps_figure(figures *f, const char *name, bool links) {
    FILE *csv = figures_csv(f, name,
                            links ? "strategy,parameter,value," FIGURES_QUANTILE(
                                        "get_p50") ",get_max_ms,"
                                                   "formula_max_ms,answered,events"
                                  : "strategy,parameter,value,max_s,min_s,avg_s,formula_max_s,"
                                    "off_ns,get_ms");
    if (!csv)
        return CLI_FAILED;
    int code = fly_sweeps(f, csv, links);
    int closed = figures_csv_close(f, csv, name);
    return code == CLI_OK ? closed : code;
}

/* ---- loss ---- */

static const struct {
    uint64_t bits_s;
    uint32_t parity;
} loss_ways[LOSS_WAYS] = {{10000000000u, 0}, {200000000u, 0}, {10000000000u, 6}, {200000000u, 6}};

/* A block of 2.9 MiB in 6 KiB chunks, six datagrams each, over 25 servers of Starlink's first
 * shell. */
static sky_study_point loss_point(sky_strategy strategy, uint64_t bits_s, uint32_t parity,
                                  double loss) {
    return (sky_study_point){
        .constellation = {.planes = 72, .slots = 22, .altitude_km = 550, .phasing = 17},
        .placement = {.strategy = strategy, .servers = 25},
        .centre = {36, 11},
        .chunk_bytes = 6144,
        .block_bytes = (uint64_t)(2.9 * MIB),
        .processing_ns = SKY_MS(1) / 50,
        .isl_bits_s = sky_strategy_row_of(strategy)->aboard ? bits_s : 100000000000u,
        .ground_bits_s = bits_s,
        .loss = loss,
        .parity = parity,
        .gets = LOSS_GETS,
        .seed = 1};
}

/* Through a gateway's dish and on a user's terminal, without parity and with some. */
static int loss_rows(figures *f, FILE *csv) {
    static const double losses[] = {0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05};
    for (int way = 0; way < LOSS_WAYS; way++) {
        const uint64_t bits_s = loss_ways[way].bits_s;
        for (int s = 0; s < STRATEGIES; s++) {
            double free_ms = 0;
            for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
                sky_study_point p = loss_point((sky_strategy)s, bits_s, loss_ways[way].parity,
                                               losses[i]);
                sky_study_result r;
                sky_error error = {0};
                sky_status status = sky_study_run(&p, &r, &error);
                if (status != SKY_OK)
                    return cli_refused(f->c, status, &error);
                free_ms = i == 0 ? r.get_p99.ms : free_ms;
                fprintf(csv, "%s,%g,%u,%g,%s,%s,%.3f,%.3f,%u\n", figures_strategies[s],
                        (double)bits_s / 1e6, loss_ways[way].parity, losses[i],
                        figures_quantile(&r.get_p50).text, figures_quantile(&r.get_p99).text,
                        r.get_p99.ms / free_ms, r.to_payload, r.answered);
            }
        }
    }
    return CLI_OK;
}

static int loss_figure(figures *f) {
    FILE *csv = figures_csv(
        f, "loss",
        "strategy,ground_mbps,parity_of_25,loss," FIGURES_QUANTILE("get_p50") "," FIGURES_QUANTILE(
            "get_p99") ","
                       "to_loss_free,bytes_to_payload,answered_of_400");
    if (!csv)
        return CLI_FAILED;
    int code = loss_rows(f, csv);
    int closed = figures_csv_close(f, csv, "loss");
    return code == CLI_OK ? closed : code;
}

/* How much parity it takes, and the same get as datagrams of real satellites: rotation-hop. */
static int loss_more_rows(figures *f, FILE *csv) {
    static const double losses[] = {0, 0.01, 0.02, 0.05};
    for (uint32_t way = 0; way <= LOSS_PARITY_MAX + 2; way++) {
        bool datagrams = way > LOSS_PARITY_MAX, terminal = way > LOSS_PARITY_MAX + 1;
        uint32_t parity = datagrams ? 0 : way;
        double free_ms = 0;
        for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
            sky_study_point p = loss_point(SKY_PLACE_ROTATION_HOP,
                                           terminal ? 200000000u : 10000000000u, parity, losses[i]);
            sky_study_result r;
            sky_error error = {0};
            p.datagrams = datagrams;
            sky_status status = sky_study_run(&p, &r, &error);
            if (status != SKY_OK)
                return cli_refused(f->c, status, &error);
            free_ms = i == 0 ? r.get_p99.ms : free_ms;
            fprintf(csv, "%s,%g,%u,%g,%s,%s,%.3f,%.3f,%u\n", datagrams ? "yes" : "no",
                    (double)p.ground_bits_s / 1e6, parity, losses[i],
                    figures_quantile(&r.get_p50).text, figures_quantile(&r.get_p99).text,
                    r.get_p99.ms / free_ms, r.to_payload, r.answered);
        }
    }
    return CLI_OK;
}

static int loss_more_figure(figures *f) {
    FILE *csv = figures_csv(
        f, "loss-more",
        "datagrams,ground_mbps,parity_of_25,loss," FIGURES_QUANTILE("get_p50") "," FIGURES_QUANTILE(
            "get_p99") ","
                       "to_loss_free,bytes_to_payload,answered_of_400");
    if (!csv)
        return CLI_FAILED;
    int code = loss_more_rows(f, csv);
    int closed = figures_csv_close(f, csv, "loss-more");
    return code == CLI_OK ? closed : code;
}

/* ---- the seed's figure 1 ---- */

static int neighbours_figure(figures *f) {
    static const unsigned slots[] = {10, 15, 20, 30, 40, 60};
    FILE *csv = figures_csv(f, "neighbours", "altitude_km,satellites_per_plane,km,latency_ms");
    if (!csv)
        return CLI_FAILED;
    for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
        for (unsigned altitude = 160; altitude <= 2000; altitude += 40) {
            sky_constellation c = {
                .planes = 1, .slots = slots[s], .altitude_km = altitude, .earth_radius_km = 6371};
            double km = sky_intra_plane_km(&c);
            fprintf(csv, "%u,%u,%.6f,%.6f\n", altitude, slots[s], km, km / 299792.458 * 1e3);
        }
    }
    return figures_csv_close(f, csv, "neighbours");
}

/* ---- maps ---- */

#define MAP_PLANES  5u
#define MAP_SLOTS   19u
#define MAP_SERVERS 9u

typedef struct {
    int label[MAP_PLANES * MAP_SLOTS];
    bool moved[MAP_PLANES * MAP_SLOTS];
    char title[80];
} map_cells;

/* The seed's 5 x 19 satellites and 9 servers, `shift` rotations after they were set. */
static int draw_placement(const figures *f, FILE *csv, sky_strategy strategy, uint64_t shift,
                          map_cells *cells, svg_map *map) {
    sky_constellation c = {.planes = MAP_PLANES, .slots = MAP_SLOTS, .altitude_km = 550};
    sky_placement wanted = {.strategy = strategy, .servers = MAP_SERVERS}, placement;
    sky_satellite centre = {3, 4}, first[MAP_SERVERS];
    sky_error error = {0};
    sky_status status = sky_placement_resolve(&c, &wanted, &placement, &error);
    if (status == SKY_OK)
        status = sky_place(&c, &placement, centre, first);
    if (status != SKY_OK)
        return cli_refused(f->c, status, &error);
    for (uint32_t i = 0; i < MAP_SERVERS; i++) {
        sky_satellite now = sky_place_shifted(&c, &placement, centre, first[i], shift);
        size_t cell = (now.plane - 1) * MAP_SLOTS + now.slot - 1;
        cells->label[cell] = (int)i + 1;
        cells->moved[cell] = now.slot != first[i].slot;
        fprintf(csv, "%s,%llu,%u,%u,%u\n", sky_strategy_name(strategy), (unsigned long long)shift,
                i + 1, now.plane, now.slot);
    }
    snprintf(cells->title, sizeof cells->title, "%s, after %llu rotations",
             sky_strategy_name(strategy), (unsigned long long)shift);
    sky_satellite overhead = sky_strategy_row_of(strategy)->aboard
                                 ? centre
                                 : sky_overhead(&c, centre, shift);
    *map = (svg_map){cells->title, MAP_PLANES,     MAP_SLOTS,    cells->label,
                     cells->moved, overhead.plane, overhead.slot};
    return CLI_OK;
}

static int maps_figure(figures *f) {
    static map_cells cells[2 * STRATEGIES];
    svg_map maps[2 * STRATEGIES];
    char path[4096];
    FILE *csv = figures_csv(f, "placement", "strategy,rotations,server,plane,slot");
    if (!csv)
        return CLI_FAILED;
    int code = CLI_OK;
    memset(cells, 0, sizeof cells);
    for (int i = 0; i < 2 * STRATEGIES && code == CLI_OK; i++)
        code = draw_placement(f, csv, (sky_strategy)(i / 2), (uint64_t)i % 2, &cells[i], &maps[i]);
    int closed = figures_csv_close(f, csv, "placement");
    if (code == CLI_OK)
        code = closed;
    snprintf(path, sizeof path, "%s/placement.svg", f->folder);
    if (code == CLI_OK && !svg_maps_write(path, maps, 2 * STRATEGIES))
        code = cli_failed(f->c, "%s: %s", path, strerror(errno));
    return code;
}

/* ---- all ---- */

static int days_figure(figures *f) {
    static const char name[] = "day-whole";
    FILE *whole = figures_csv(f, name,
                              "sky,strategy,gets,hits," FIGURES_QUANTILE(
                                  "get_p50") "," FIGURES_QUANTILE("get_p99") ",bytes_read,"
                                                                             "migrated_bytes");
    if (!whole)
        return CLI_FAILED;
    int code = figures_day(f, false, whole);
    if (code == CLI_OK)
        code = figures_day(f, true, whole);
    int closed = figures_csv_close(f, whole, name);
    return code == CLI_OK ? closed : code;
}

/* The tables that take minutes of flight. */
static int fly_figures(figures *f) {
    int code = sweeps_figure(f, "authors", false);
    if (code == CLI_OK)
        code = sweeps_figure(f, "links", true);
    if (code == CLI_OK)
        code = loss_figure(f);
    if (code == CLI_OK)
        code = loss_more_figure(f);
    if (code == CLI_OK)
        code = figures_physical(f);
    if (code == CLI_OK)
        code = figures_servers(f);
    if (code == CLI_OK)
        code = figures_handover(f);
    if (code == CLI_OK)
        code = days_figure(f);
    for (int physical = 0; physical < 2 && code == CLI_OK; physical++)
        code = figures_migration(f, physical);
    return code;
}

int sim_figures(cli *c) {
    figures f = {.c = c, .folder = cli_text(c, "figures")};
    if (mkdir(f.folder, 0777) != 0 && errno != EEXIST)
        return cli_failed(c, "%s: %s", f.folder, strerror(errno));
    f.charts = calloc(FIGURES_CHARTS_MAX, sizeof *f.charts);
    if (!f.charts)
        return cli_failed(c, "out of memory");
    int code = maps_figure(&f);
    if (code == CLI_OK)
        code = neighbours_figure(&f);
    if (code == CLI_OK && !cli_flag(c, "redraw"))
        code = fly_figures(&f);
    if (code == CLI_OK)
        code = figures_draw(&f);
    cli_progress(NULL);
    free(f.charts);
    if (code == CLI_OK && c->json)
        code = cli_json_print(c, json_pack("{s:o}", "folder", cli_json_text(f.folder)));
    else if (code == CLI_OK)
        printf("the study is in %s\n", f.folder);
    return code;
}
