/* The parts of the study: figures.c (the authors' sweeps, loss, figure 1, maps),
 * day.c (a day of rotation, the cost of migration; in the ideal sky and in the physical
 * one) and physical.c (the sweeps in the physical sky) write tables;
 * draw.c draws them. */
#ifndef SKYMEM_LAB_FIGURES_H
#define SKYMEM_LAB_FIGURES_H

#include "lab/sim.h"
#include "svg.h"

#define STRATEGIES         3
#define FIGURES_CHARTS_MAX 8

/* The first lines of a scenario in the physical sky: over Seattle. */
#define FIGURES_PHYSICAL                                                                           \
    "sky: physical\nobserver: {lat_deg: 47.6, lon_deg: -122.3, min_elevation_deg: 25}\n"

typedef struct {
    cli *c;
    const char *folder;
    svg_chart *charts; /* [FIGURES_CHARTS_MAX], emptied before each picture */
} figures;

extern const char *const figures_strategies[STRATEGIES];

/* A table of the study: opened with its head; NULL and a message when it cannot be. */
FILE *figures_csv(const figures *f, const char *name, const char *head);
/* A quantile's three columns: itself, and what bounds it at 95 %; an empty one where there are too
 * few to say. `name` is get_p50 or the like. */
#define FIGURES_QUANTILE(name) name "_ms," name "_low_ms," name "_high_ms"
typedef struct {
    char text[96];
} figures_columns;
figures_columns figures_quantile(const sky_quantile *q);
int figures_csv_close(const figures *f, FILE *csv, const char *name);
/* All pictures but the maps, from the tables in the folder. */
int figures_draw(const figures *f);

/* Run a scenario; a check that fails is a failure of the study. */
int figures_run(figures *f, const char *text, const sky_sim_options *options,
                sky_sim_result *result);

/* `whole` gets a line for each strategy: the day in one. */
int figures_day(figures *f, bool physical, FILE *whole);
int figures_migration(figures *f, bool physical);
int figures_physical(figures *f);
/* Two cities, and the window that goes from one to the other. */
int figures_handover(figures *f);
/* What windows cost in both skies. */
int figures_servers(figures *f);

#endif
