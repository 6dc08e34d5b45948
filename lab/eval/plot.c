/* The plot of `eval`: bits an element against divergence, both on logarithmic axes, as SVG. A line
 * joins the levels of one way of coding; a reference is a point with its name. */
#include "report.h"

#ifdef SKYMEM_WITH_LLAMA

#include <errno.h>
#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 470, LEFT = 70, RIGHT = 24, TOP = 40, BOTTOM = 50 };

typedef struct {
    FILE *file;
    double x0, x1, y0, y1; /* logarithms at the edges */
} plot;

static double x_of(const plot *p, double bits) {
    return LEFT + (log2(bits) - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const plot *p, double kld) {
    return HEIGHT - BOTTOM - (log10(kld) - p->y0) / (p->y1 - p->y0) * (HEIGHT - TOP - BOTTOM);
}

static double bits_of(const eval_sum *s) {
    return 8 * s->bytes / s->elements;
}

static double kld_of(const eval_sum *s) {
    return fmax(s->kld / s->texts, 1e-7);
}

/* Ways of coding that have a line each; a reference has none. */
static int way_of(const eval_sum *s) {
    const char *name = s->name;
    sky_level level;
    if (strstr(name, "-from-"))
        return 3;
    if (strstr(name, "-uncalibrated"))
        return 2;
    if (strstr(name, "-plain"))
        return 1;
    return sky_level_parse(name, &level) == SKY_OK && level != SKY_LEVEL_ARCHIVE ? 0 : -1;
}

static bool plot_shown(const eval_sum *s) {
    return s->texts > 0 && s->kld > 0 && bits_of(s) < 15.5;
}

static void draw_axes(const plot *p) {
    static const double bits[] = {1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        double x = x_of(p, bits[i]);
        fprintf(p->file,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' class='grid'/>"
                "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
                x, TOP, x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, bits[i]);
    }
    for (int e = (int)p->y0; e <= (int)p->y1; e++) {
        double y = y_of(p, pow(10, e));
        fprintf(p->file,
                "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' class='grid'/>"
                "<text x='%d' y='%.1f' text-anchor='end'>1e%d</text>\n",
                LEFT, y, WIDTH - RIGHT, y, LEFT - 8, y + 4, e);
    }
    fprintf(p->file,
            "<text x='%d' y='%d' text-anchor='middle'>bits stored for an element (f16 is 16), all "
            "side information counted</text>\n"
            "<text transform='translate(16 %d) rotate(-90)' text-anchor='middle'>KL divergence, "
            "nats a token</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, (TOP + HEIGHT - BOTTOM) / 2);
}

/* The next of a way to the right of `bits`, so that a line never turns back; NULL: no more. */
static const eval_sum *next_of(const eval_report *report, int way, double bits) {
    const eval_sum *next = NULL;
    for (size_t i = 0; i < report->count; i++) {
        const eval_sum *s = &report->sums[i];
        if (plot_shown(s) && way_of(s) == way && bits_of(s) > bits &&
            (!next || bits_of(s) < bits_of(next)))
            next = s;
    }
    return next;
}

static void draw_way(const plot *p, const eval_report *report, int way) {
    static const char *const colours[] = {"#0b62a4", "#3f9b0b", "#b5651d", "#7a3db8"};
    static const char *const dashes[] = {"none", "7 3", "none", "2 3"};
    static const char *const labels[] = {"levels 8 to 2", "plain rounding", "uncalibrated",
                                         "lowered"};
    const eval_sum *first = next_of(report, way, 0);
    if (!first)
        return;
    fputs("<polyline points='", p->file);
    for (const eval_sum *s = first; s; s = next_of(report, way, bits_of(s)))
        fprintf(p->file, "%s%.1f,%.1f", s == first ? "" : " ", x_of(p, bits_of(s)),
                y_of(p, kld_of(s)));
    fprintf(p->file, "' fill='none' stroke='%s' stroke-width='2' stroke-dasharray='%s'/>\n",
            colours[way], dashes[way]);
    fprintf(p->file, "<text x='%d' y='%d' fill='%s'>%s</text>\n", LEFT + 10 + 165 * way, TOP - 14,
            colours[way], labels[way]);
    for (const eval_sum *s = first; s; s = next_of(report, way, bits_of(s)))
        fprintf(p->file, "<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'/>\n", x_of(p, bits_of(s)),
                y_of(p, kld_of(s)), colours[way]);
}

static void draw_references(const plot *p, const eval_report *report) {
    double last_x = -100, label_y = -100;
    for (size_t i = 0; i < report->count; i++) {
        const eval_sum *s = &report->sums[i];
        if (!plot_shown(s) || way_of(s) >= 0)
            continue;
        double x = x_of(p, bits_of(s)), y = y_of(p, kld_of(s));
        bool crowded = fabs(x - last_x) < 40 && fabs(y + 4 - label_y) < 12;
        label_y = crowded ? label_y + 12 : y + 4;
        last_x = x;
        fprintf(p->file,
                "<rect x='%.1f' y='%.1f' width='7' height='7' fill='#c00'/>"
                "<text x='%.1f' y='%.1f'>%s</text>\n",
                x - 3.5, y - 3.5, x + 7, label_y, s->name);
    }
}

static void find_edges(plot *p, const eval_report *report) {
    double low = 1, high = 1e-9;
    for (size_t i = 0; i < report->count; i++) {
        if (!plot_shown(&report->sums[i]))
            continue;
        low = fmin(low, kld_of(&report->sums[i]));
        high = fmax(high, kld_of(&report->sums[i]));
    }
    p->x0 = log2(1.4);
    p->x1 = log2(11);
    p->y0 = floor(log10(low));
    p->y1 = fmax(ceil(log10(high)), p->y0 + 1);
}

int eval_plot(const cli *c, const eval_report *report, const char *path) {
    plot p = {.file = fopen(path, "we")};
    if (!p.file)
        return cli_failed(c, "%s: %s", path, strerror(errno));
    find_edges(&p, report);
    fprintf(p.file,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
            "font-size='12'>\n<style>.grid{stroke:#ddd}</style>\n"
            "<rect width='%d' height='%d' fill='#fff'/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_axes(&p);
    for (int way = 0; way < 4; way++)
        draw_way(&p, report, way);
    draw_references(&p, report);
    fprintf(p.file, "</svg>\n");
    if (fclose(p.file) == 0)
        return CLI_OK;
    return cli_failed(c, "%s: %s; is the disk full?", path, strerror(errno));
}

#endif
