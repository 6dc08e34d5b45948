/* The study's pictures, drawn from its tables: NAME.svg from NAME.csv, so that a picture shows what
 * its table says, and can be drawn again without a run. */
#include "figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX    16
#define LINE_BYTES_MAX 512

/* A chart: which rows, and which column upwards. */
typedef struct {
    const char *title, *x_label, *y, *y_label;
    const char *where[2][2]; /* columns and what stands there; NULL: any row */
} panel;

typedef struct {
    const char *name, *series, *x;
    const char *prefix; /* before the name of a series */
    double x_scale;
    size_t charts_abreast;
    bool log; /* both axes; else y begins at 0 */
    panel panels[FIGURES_CHARTS_MAX];
} picture;

#define SWEEP(title, parameter, x_label, y, y_label)                                               \
    {                                                                                              \
        title, x_label, y, y_label, {                                                              \
            { "parameter", parameter }                                                             \
        }                                                                                          \
    }
#define SWEEPS(what, y, y_label)                                                                   \
    {                                                                                              \
        SWEEP(what " by servers", "servers", "servers", y, y_label),                               \
            SWEEP(what " by processing", "processing_ms", "processing, ms a chunk", y, y_label),   \
            SWEEP(what " by altitude", "altitude_km", "altitude, km", y, y_label),                 \
            SWEEP(what " by size", "block_mib", "block, MiB", y, y_label)                          \
    }
#define PHYSICAL(what, sky, parameter, x_label)                                                    \
    {                                                                                              \
        sky " planes x slots, by " what, x_label, "get_p50_ms", "median get, ms", {                \
            {"sky", sky}, {                                                                        \
                "parameter", parameter                                                             \
            }                                                                                      \
        }                                                                                          \
    }
#define LOSS(title, mbps, parity)                                                                  \
    {                                                                                              \
        title, "loss of a datagram, %", "to_loss_free", "p99 of a get / p99 without loss", {       \
            {"ground_mbps", mbps}, {                                                               \
                "parity_of_25", parity                                                             \
            }                                                                                      \
        }                                                                                          \
    }
#define DAY                                                                                        \
    {                                                                                              \
        {.title = "Hits of all gets, through a day",                                               \
         .x_label = "time, hours",                                                                 \
         .y = "hit_ratio",                                                                         \
         .y_label = "hits / gets"},                                                                \
        {                                                                                          \
            .title = "Median of a hit, through a day", .x_label = "time, hours",                   \
            .y = "get_p50_ms", .y_label = "median get, ms"                                         \
        }                                                                                          \
    }
#define MIGRATION                                                                                  \
    {                                                                                              \
        {                                                                                          \
            .title = "Bytes migrated for each byte read (hop: none)", .x_label = "gets an hour",   \
            .y = "migrated_per_byte_read", .y_label = "bytes migrated / bytes read"                \
        }                                                                                          \
    }

static const picture pictures[] = {
    {"neighbours",
     "satellites_per_plane",
     "altitude_km",
     "M=",
     1,
     1,
     false,
     {{.title = "Light to the neighbour in the plane (figure 1)",
       .x_label = "altitude, km",
       .y = "latency_ms",
       .y_label = "one way, ms"}}},
    {"authors", "strategy", "value", "", 1, 2, false,
     SWEEPS("Slowest server", "max_s", "light one way and its chunks, s")},
    {"links", "strategy", "value", "", 1, 2, false, SWEEPS("Get", "get_p50_ms", "median get, ms")},
    {"loss",
     "strategy",
     "loss",
     "",
     100,
     2,
     false,
     {LOSS("Gateway, 10 Gb/s", "10000", "0"), LOSS("User terminal, 200 Mb/s", "200", "0"),
      LOSS("Gateway, 6 of 25 are parity", "10000", "6"),
      LOSS("Terminal, 6 of 25 are parity", "200", "6")}},
    {"day", "strategy", "hour", "", 1, 2, false, DAY},
    {"physical-day", "strategy", "hour", "", 1, 2, false, DAY},
    {"migration", "strategy", "gets_per_h", "", 1, 1, true, MIGRATION},
    {"physical-migration", "strategy", "gets_per_h", "", 1, 1, true, MIGRATION},
    {"handover",
     "ground",
     "minute",
     "",
     1,
     2,
     false,
     {{.title = "A window that goes to another city",
       .x_label = "time, minutes",
       .y = "get_p50_ms",
       .y_label = "median get, ms"},
      {.title = "What the satellites move for it",
       .x_label = "time, minutes",
       .y = "migrated_mib",
       .y_label = "MiB in ten minutes"}}},
    {"physical-sweeps",
     "strategy",
     "value",
     "",
     1,
     4,
     false,
     {PHYSICAL("servers", "15x15", "servers", "servers"),
      PHYSICAL("processing", "15x15", "processing_ms", "processing, ms a chunk"),
      PHYSICAL("altitude", "15x15", "altitude_km", "altitude, km"),
      PHYSICAL("size", "15x15", "block_mib", "block, MiB"),
      PHYSICAL("servers", "72x22", "servers", "servers"),
      PHYSICAL("processing", "72x22", "processing_ms", "processing, ms a chunk"),
      PHYSICAL("altitude", "72x22", "altitude_km", "altitude, km"),
      PHYSICAL("size", "72x22", "block_mib", "block, MiB")}},
};
#define PICTURES (sizeof pictures / sizeof pictures[0])

/* ---- tables ---- */

typedef struct {
    char text[LINE_BYTES_MAX];
    const char *cells[COLUMNS_MAX];
    size_t count;
} row;

static bool row_read(FILE *csv, row *r) {
    r->count = 0;
    if (!fgets(r->text, sizeof r->text, csv))
        return false;
    r->text[strcspn(r->text, "\r\n")] = '\0';
    for (char *at = r->text; at && r->count < COLUMNS_MAX;) {
        r->cells[r->count++] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    return true;
}

/* The cell below a heading; NULL when the table has no such column, or the row is too short. */
static const char *cell_of(const row *head, const row *r, const char *column) {
    for (size_t i = 0; i < head->count && i < r->count; i++)
        if (strcmp(head->cells[i], column) == 0)
            return r->cells[i];
    return NULL;
}

static svg_series *series_of(svg_chart *c, const char *prefix, const char *value) {
    char name[sizeof c->series[0].name];
    snprintf(name, sizeof name, "%s%s", prefix, value);
    for (size_t i = 0; i < c->series_count; i++)
        if (strcmp(c->series[i].name, name) == 0)
            return &c->series[i];
    if (c->series_count == SVG_SERIES_MAX)
        return NULL;
    svg_series *added = &c->series[c->series_count++];
    memcpy(added->name, name, sizeof name);
    return added;
}

static bool draw_shows(const panel *p, const row *head, const row *r) {
    for (size_t i = 0; i < 2 && p->where[i][0]; i++) {
        const char *cell = cell_of(head, r, p->where[i][0]);
        if (!cell || strcmp(cell, p->where[i][1]) != 0)
            return false;
    }
    return true;
}

/* False: the row lacks a column, or there are too many series. */
static bool take_row(const picture *p, svg_chart *charts, const row *head, const row *r) {
    const char *name = cell_of(head, r, p->series), *x = cell_of(head, r, p->x);
    const char *hits = cell_of(head, r, "hits");
    if (hits && strcmp(hits, "0") == 0)
        return true; /* no get was answered, so none took any time */
    for (size_t i = 0; i < FIGURES_CHARTS_MAX && p->panels[i].title; i++) {
        const char *y = cell_of(head, r, p->panels[i].y);
        if (!name || !x || !y)
            return false;
        if (!draw_shows(&p->panels[i], head, r))
            continue;
        svg_series *s = series_of(&charts[i], p->prefix, name);
        if (!s)
            return false;
        svg_add(s, strtod(x, NULL) * p->x_scale, strtod(y, NULL));
    }
    return true;
}

/* ---- pictures ---- */

static size_t set_charts(const picture *p, svg_chart *charts) {
    size_t count = 0;
    memset(charts, 0, FIGURES_CHARTS_MAX * sizeof *charts);
    for (; count < FIGURES_CHARTS_MAX && p->panels[count].title; count++) {
        svg_chart *c = &charts[count];
        c->title = p->panels[count].title;
        c->x_label = p->panels[count].x_label;
        c->y_label = p->panels[count].y_label;
        c->x_log = c->y_log = p->log;
        c->from_zero = !p->log;
    }
    return count;
}

static int draw_picture(const figures *f, const picture *p) {
    char table[4096], path[4096];
    row head, r;
    snprintf(table, sizeof table, "%s/%s.csv", f->folder, p->name);
    snprintf(path, sizeof path, "%s/%s.svg", f->folder, p->name);
    FILE *csv = fopen(table, "re");
    if (!csv)
        return cli_failed(f->c, "%s: %s; skymem sim --figures measures it", table, strerror(errno));
    size_t count = set_charts(p, f->charts), lines = 1;
    bool good = row_read(csv, &head);
    while (good && row_read(csv, &r)) {
        lines++;
        good = take_row(p, f->charts, &head, &r);
    }
    fclose(csv);
    if (!good || lines < 2)
        return cli_failed(f->c, "%s:%zu: not a row of this table; skymem sim --figures measures it",
                          table, lines);
    return svg_charts_write(path, f->charts, count, p->charts_abreast)
               ? CLI_OK
               : cli_failed(f->c, "%s: %s", path, strerror(errno));
}

int figures_draw(const figures *f) {
    int code = CLI_OK;
    for (size_t i = 0; i < PICTURES && code == CLI_OK; i++)
        code = draw_picture(f, &pictures[i]);
    return code;
}
