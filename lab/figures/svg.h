/* Line charts and grids as SVG: what the study's figures need and no more. Text is the viewer's
 * sans-serif; colours are told apart by those who see few; nothing refers to the network. Each
 * series has a width, a dash and a mark of its own, so that lines which coincide are all seen. */
#ifndef SKYMEM_LAB_SVG_H
#define SKYMEM_LAB_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SVG_POINTS_MAX 2048
#define SVG_SERIES_MAX 8

typedef struct {
    char name[32];
    double x[SVG_POINTS_MAX], y[SVG_POINTS_MAX];
    size_t count;
} svg_series;

typedef struct {
    const char *title, *x_label, *y_label;
    svg_series series[SVG_SERIES_MAX];
    size_t series_count;
    bool from_zero; /* the y axis begins at 0 */
    bool x_log,
        y_log; /* decades, ticks in the axis's own unit; points at or below 0 are left out */
} svg_chart;

/* Charts beside each other, `columns` in a row. Returns false when the file cannot be written. */
bool svg_charts_write(const char *path, const svg_chart *charts, size_t count, size_t columns);

typedef struct {
    const char *title;
    unsigned planes, slots;
    int *label;                             /* [planes * slots]: number of a server, 0 none */
    bool *moved;                            /* … that has just migrated */
    unsigned overhead_plane, overhead_slot; /* from 1 */
} svg_map;

bool svg_maps_write(const char *path, const svg_map *maps, size_t count);

void svg_add(svg_series *s, double x, double y);

#endif
