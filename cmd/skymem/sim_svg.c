/* SVG by printf: a chart is a frame, ticks at round numbers, one line a series, its name beside the
 * last point of the legend's row. */
#include "sim_svg.h"

#include <math.h>

#define CHART_WIDTH  420.0
#define CHART_HEIGHT 300.0
#define LEFT         62.0
#define RIGHT        14.0
#define TOP          48.0
#define BOTTOM       46.0
#define CELL         24.0

static const char *const colours[SVG_SERIES_MAX] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                    "#e69f00", "#56b4e9", "#000000", "#999999"};

typedef struct {
    double low, high, step;
} axis;

void svg_add(svg_series *s, double x, double y) {
    if (s->count == SVG_POINTS_MAX)
        return;
    s->x[s->count] = x;
    s->y[s->count++] = y;
}

static void head(FILE *f, double width, double height) {
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
}

static bool end(FILE *f) {
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
    return (axis){floor(low / step) * step, ceil(high / step) * step, step};
}

static void range(const svg_chart *c, axis *x, axis *y) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            low[0] = fmin(low[0], c->series[s].x[i]);
            high[0] = fmax(high[0], c->series[s].x[i]);
            low[1] = fmin(low[1], c->series[s].y[i]);
            high[1] = fmax(high[1], c->series[s].y[i]);
        }
    }
    if (c->from_zero)
        low[1] = 0;
    *x = round_axis(low[0], high[0]);
    *y = round_axis(low[1], high[1]);
}

static double place(const axis *a, double value, double from, double to) {
    return from + (value - a->low) / (a->high - a->low) * (to - from);
}

static int ticks(const axis *a) {
    return (int)lround((a->high - a->low) / a->step);
}

static double tick(const axis *a, int i) {
    double value = a->low + i * a->step;
    return fabs(value) < a->step / 1e6 ? 0 : value;
}

static void draw_frame(FILE *f, const svg_chart *c, const axis *x, const axis *y) {
    double right = CHART_WIDTH - RIGHT, bottom = CHART_HEIGHT - BOTTOM;
    fprintf(f, "<text x=\"%.1f\" y=\"16\" font-size=\"13\" font-weight=\"bold\">%s</text>\n", LEFT,
            c->title);
    for (int i = 0; i <= ticks(x); i++) {
        double v = tick(x, i), at = place(x, v, LEFT, right);
        fprintf(f,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eee\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
                at, TOP, at, bottom, at, bottom + 14, v);
    }
    for (int i = 0; i <= ticks(y); i++) {
        double v = tick(y, i), at = place(y, v, bottom, TOP);
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

static void draw_chart(FILE *f, const svg_chart *c) {
    axis x, y;
    range(c, &x, &y);
    draw_frame(f, c, &x, &y);
    double right = CHART_WIDTH - RIGHT, bottom = CHART_HEIGHT - BOTTOM;
    double legend_step = (right - LEFT) / (double)(c->series_count ? c->series_count : 1);
    for (size_t s = 0; s < c->series_count; s++) {
        const svg_series *line = &c->series[s];
        double at = LEFT + legend_step * (double)s;
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"",
                colours[s]);
        for (size_t i = 0; i < line->count; i++)
            fprintf(f, "%.1f,%.1f ", place(&x, line->x[i], LEFT, right),
                    place(&y, line->y[i], bottom, TOP));
        fprintf(f,
                "\"/>\n<line x1=\"%.1f\" y1=\"34\" x2=\"%.1f\" y2=\"34\" stroke=\"%s\" "
                "stroke-width=\"3\"/><text x=\"%.1f\" y=\"38\">%s</text>\n",
                at, at + 14, colours[s], at + 18, line->name);
    }
}

bool svg_charts_write(const char *path, const svg_chart *charts, size_t count, size_t columns) {
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    size_t rows = (count + columns - 1) / columns;
    head(f, CHART_WIDTH * (double)columns, CHART_HEIGHT * (double)rows);
    for (size_t i = 0; i < count; i++) {
        size_t row = i / columns, column = i % columns;
        fprintf(f, "<g transform=\"translate(%.0f %.0f)\">\n", CHART_WIDTH * (double)column,
                CHART_HEIGHT * (double)row);
        draw_chart(f, &charts[i]);
        fputs("</g>\n", f);
    }
    return end(f);
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
    head(f, width, height);
    double y = 0;
    for (size_t i = 0; i < count; i++) {
        fprintf(f, "<g transform=\"translate(0 %.0f)\">\n", y);
        draw_map(f, &maps[i]);
        fputs("</g>\n", f);
        y += 56 + CELL * maps[i].planes;
    }
    return end(f);
}
