/* The parts of the study: sim_figures.c (the authors' sweeps, loss, figure 1, maps) and
 * sim_figures_day.c (a day of rotation, the cost of migration). */
#ifndef SKYMEM_CLI_SIM_FIGURES_H
#define SKYMEM_CLI_SIM_FIGURES_H

#include "sim.h"
#include "sim_svg.h"

#define STRATEGIES 3

typedef struct {
    cli *c;
    const char *folder;
    svg_chart *charts; /* [4], emptied before each figure */
} figures;

extern const char *const figures_strategies[STRATEGIES];

/* A table of the study: opened with its head; NULL and a message when it cannot be. */
FILE *figures_csv(const figures *f, const char *name, const char *head);
int figures_csv_close(const figures *f, FILE *csv, const char *name);
/* Empty charts, with one series a strategy. */
void figures_charts_begin(figures *f, size_t count);
int figures_charts_end(const figures *f, const char *name, size_t count, size_t columns);

int figures_day(figures *f);
int figures_migration(figures *f);

#endif
