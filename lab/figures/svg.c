/* SVG by printf: a chart is a frame, ticks at round numbers, one line a series with a mark at each
 * point, and a row of names above. */
#include "svg.h"

#include <math.h>

#define CHART_WIDTH  420.0
#define CHART_HEIGHT 300.0
#define LEFT         62.0
#define RIGHT        20.0
#define TOP          48.0
#define BOTTOM       46.0
#define CELL         24.0

static const char *const colours[SVG_SERIES_MAX] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                    "#e69f00", "#56b4e9", "#000000", "#999999"};

/* The first series is drawn first, and so the widest: what coincides with it leaves its edges. */
static const double widths[SVG_SERIES_MAX] = {4.2, 2.6, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3};
static const char *const dashes[SVG_SERIES_MAX] = {"none", "none", "none",  "6 3",
                                                   "2 2",  "8 2",  "1 2.5", "10 4"};
#define MANY_POINTS 30 /* from here on lines are thin and marks small */

typedef struct {
    double low, high, step; /* logarithmic: exponents of ten, step 1 */
    bool log;
} axis;

void svg_add(svg_series *s, double x, double y) {
    if (s->count == SVG_POINTS_MAX)
        return;
    s->x[s->count] = x;
    s->y[s->count++] = y;
}

static void svg_head(FILE *f, double width, double height) {
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
}

static bool svg_end(FILE *f) {
    fputs("</svg>\n", f);
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}

/* ---- charts ---- */

/* 1, 2 or 5 times a power of ten, about five of them. */
static axis round_axis(double low, double high) {
    if (!(high > low))
        high = low + 1;
    double rough = (high - low) / 5;
    double power = pow(10, floor(log10(rough)));
    double unit = rough / power;
    double step = power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
    return (axis){floor(low / step) * step, ceil(high / step) * step, step, false};
}

/* Whole decades. */
static axis log_axis(double low, double high) {
    double from = floor(log10(low)), to = ceil(log10(high));
    return (axis){from, to > from ? to : from + 1, 1, true};
}

static bool svg_drawn(const svg_chart *c, const svg_series *s, size_t i) {
    return !(c->x_log && s->x[i] <= 0) && !(c->y_log && s->y[i] <= 0);
}

static void svg_range(const svg_chart *c, axis *x, axis *y) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            if (!svg_drawn(c, &c->series[s], i))
                continue;
            low[0] = fmin(low[0], c->series[s].x[i]);
            high[0] = fmax(high[0], c->series[s].x[i]);
            low[1] = fmin(low[1], c->series[s].y[i]);
            high[1] = fmax(high[1], c->series[s].y[i]);
        }
    }
    if (c->from_zero)
        low[1] = 0;
    *x = c->x_log ? log_axis(low[0], high[0]) : round_axis(low[0], high[0]);
    *y = c->y_log ? log_axis(low[1], high[1]) : round_axis(low[1], high[1]);
}

static double svg_place(const axis *a, double value, double from, double to) {
    value = a->log ? log10(value) : value;
    return from + (value - a->low) / (a->high - a->low) * (to - from);
}

static int svg_ticks(const axis *a) {
    return (int)lround((a->high - a->low) / a->step);
}

static double svg_tick(const axis *a, int i) {
    double value = a->low + i * a->step;
    if (a->log)
        return pow(10, value);
    return fabs(value) < a->step / 1e6 ? 0 : value;
}

static void draw_frame(FILE *f, const svg_chart *c, const axis *x, const axis *y) {
    double right = CHART_WIDTH - RIGHT, bottom = CHART_HEIGHT - BOTTOM;
    fprintf(f, "<text x=\"%.1f\" y=\"16\" font-size=\"13\" font-weight=\"bold\">%s</text>\n", LEFT,
            c->title);
    for (int i = 0; i <= svg_ticks(x); i++) {
        double v = svg_tick(x, i), at = svg_place(x, v, LEFT, right);
        fprintf(f,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eee\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
                at, TOP, at, bottom, at, bottom + 14, v);
    }
    for (int i = 0; i <= svg_ticks(y); i++) {
        double v = svg_tick(y, i), at = svg_place(y, v, bottom, TOP);
        fprintf(f,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eee\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, at, right, at, LEFT - 5, at + 4, v);
    }
    fprintf(f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
            "stroke=\"#888\"/>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n"
            "<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
            LEFT, TOP, right - LEFT, bottom - TOP, (LEFT + right) / 2, CHART_HEIGHT - 12,
            c->x_label, (TOP + bottom) / 2, c->y_label);
}

/* A circle, a square, a triangle, a diamond; the first is hollow, so that one under it is seen. */
static void draw_mark(FILE *f, size_t series, double x, double y, double size) {
    const char *colour = colours[series];
    double r = 3 * size;
    switch (series % 4) {
    case 0:
        fprintf(f,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"white\" stroke=\"%s\" "
                "stroke-width=\"1.6\"/>\n",
                x, y, 1.7 * r, colour);
        return;
    case 1:
        fprintf(f,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                "fill=\"%s\"/>\n",
                x - r, y - r, 2 * r, 2 * r, colour);
        return;
    case 2:
        fprintf(f, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\" fill=\"%s\"/>\n", x, y - 1.1 * r, r,
                1.8 * r, -2 * r, colour);
        return;
    default:
        fprintf(f, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\" fill=\"%s\"/>\n", x,
                y - r, r, r, -r, r, -r, -r, colour);
    }
}

static void draw_series(FILE *f, const svg_chart *c, size_t s, const axis *x, const axis *y) {
    const svg_series *line = &c->series[s];
    double right = CHART_WIDTH - RIGHT, bottom = CHART_HEIGHT - BOTTOM;
    bool many = line->count > MANY_POINTS;
    fprintf(f,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" "
            "stroke-dasharray=\"%s\" points=\"",
            colours[s], many ? 1.3 : widths[s], dashes[s]);
    for (size_t i = 0; i < line->count; i++)
        if (svg_drawn(c, line, i))
            fprintf(f, "%.1f,%.1f ", svg_place(x, line->x[i], LEFT, right),
                    svg_place(y, line->y[i], bottom, TOP));
    fputs("\"/>\n", f);
    for (size_t i = 0; i < line->count; i++)
        if (svg_drawn(c, line, i))
            draw_mark(f, s, svg_place(x, line->x[i], LEFT, right),
                      svg_place(y, line->y[i], bottom, TOP), many ? 0.5 : 1);
}

static void draw_chart(FILE *f, const svg_chart *c) {
    axis x, y;
    svg_range(c, &x, &y);
    draw_frame(f, c, &x, &y);
    double step = (CHART_WIDTH - RIGHT - LEFT) / (double)(c->series_count ? c->series_count : 1);
    double sample = c->series_count > 4 ? 14 : 20;
    for (size_t s = 0; s < c->series_count; s++) {
        double at = LEFT + step * (double)s;
        draw_series(f, c, s, &x, &y);
        fprintf(f,
                "<line x1=\"%.1f\" y1=\"34\" x2=\"%.1f\" y2=\"34\" stroke=\"%s\" "
                "stroke-width=\"%.1f\" stroke-dasharray=\"%s\"/>\n",
                at, at + sample, colours[s], widths[s], dashes[s]);
        draw_mark(f, s, at + sample / 2, 34, 1);
        fprintf(f, "<text x=\"%.1f\" y=\"38\">%s</text>\n", at + sample + 4, c->series[s].name);
    }
}

bool svg_charts_write(const char *path, const svg_chart *charts, size_t count, size_t columns) {
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    size_t rows = (count + columns - 1) / columns;
    svg_head(f, CHART_WIDTH * (double)columns, CHART_HEIGHT * (double)rows);
    for (size_t i = 0; i < count; i++) {
        size_t row = i / columns, column = i % columns;
        fprintf(f, "<g transform=\"translate(%.0f %.0f)\">\n", CHART_WIDTH * (double)column,
                CHART_HEIGHT * (double)row);
        draw_chart(f, &charts[i]);
        fputs("</g>\n", f);
    }
    return svg_end(f);
}

/* ---- maps ---- */

static void draw_map(FILE *f, const svg_map *m) {
    fprintf(f, "<text x=\"40\" y=\"16\" font-size=\"13\" font-weight=\"bold\">%s</text>\n",
            m->title);
    for (unsigned slot = 1; slot <= m->slots; slot++)
        fprintf(f, "<text x=\"%.1f\" y=\"34\" fill=\"#888\" text-anchor=\"middle\">%u</text>\n",
                40 + CELL * (slot - 0.5), slot);
    for (unsigned plane = 1; plane <= m->planes; plane++) {
        double y = 40 + CELL * (plane - 1);
        fprintf(f, "<text x=\"34\" y=\"%.1f\" fill=\"#888\" text-anchor=\"end\">%u</text>\n",
                y + 16, plane);
        for (unsigned slot = 1; slot <= m->slots; slot++) {
            size_t i = (size_t)(plane - 1) * m->slots + slot - 1;
            bool overhead = plane == m->overhead_plane && slot == m->overhead_slot;
            double x = 40 + CELL * (slot - 1);
            fprintf(f,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" fill=\"%s\" "
                    "stroke=\"%s\" stroke-width=\"%s\"/>\n",
                    x + 1, y + 1, CELL - 2, CELL - 2,
                    !m->label[i]  ? "#f6f6f6"
                    : m->moved[i] ? "#e69f00"
                                  : "#9fd0ee",
                    overhead ? "#000" : "#ccc", overhead ? "2" : "0.5");
            if (m->label[i])
                fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
                        x + CELL / 2, y + 16, m->label[i]);
        }
    }
}

bool svg_maps_write(const char *path, const svg_map *maps, size_t count) {
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    double height = 0, width = 0;
    for (size_t i = 0; i < count; i++) {
        height += 56 + CELL * maps[i].planes;
        width = fmax(width, 52 + CELL * maps[i].slots);
    }
    svg_head(f, width, height);
    double y = 0;
    for (size_t i = 0; i < count; i++) {
        fprintf(f, "<g transform=\"translate(0 %.0f)\">\n", y);
        draw_map(f, &maps[i]);
        fputs("</g>\n", f);
        y += 56 + CELL * maps[i].planes;
    }
    return svg_end(f);
}
