/* skymem orbit windows: how much of the seed's windows stands above the mask, where on Earth,
 * and how often their centre moves. A day of handovers for each shell and latitude; every tenth
 * is looked at closely. */
#include "orbit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TURNS       (86400000 / SKY_HANDOVER_MS)
#define EVERY       10
#define LATITUDES   24
#define WINDOW_ROWS 7

static const uint32_t sides[WINDOW_ROWS][2] = {{1, 1}, {3, 1}, {1, 3}, {3, 3},
                                               {5, 5}, {7, 7}, {9, 9}};

typedef struct {
    const char *shell;
    double latitude_deg;
    double visible;
    double share[WINDOW_ROWS]; /* of a window's satellites; NAN: larger than the shell */
    double whole[WINDOW_ROWS]; /* of the day, in which all of it is above the mask */
    double planes_day, slots_day, moves_day, jumps_day;
} finding;

/* ---- looking ---- */

typedef struct {
    sky_fleet *fleet;
    const sky_constellation *shell;
    sky_observer observer;
    int64_t ms;
} sight;

static bool sight_above(const sight *s, int64_t plane, int64_t slot) {
    sky_motion at;
    uint32_t number = sky_fleet_number(s->fleet, sky_unwrapped(s->shell, plane, slot));
    return sky_fleet_state(s->fleet, number, s->ms, &at) == SKY_ORBIT_FINE &&
           sky_observer_look(&s->observer, s->ms, at.r_km).elevation_deg >=
               s->observer.min_elevation_deg;
}

/* How many satellites of a window around the centre are above the mask. */
static uint32_t window_count(const sight *s, const sky_handover *centre, uint32_t planes,
                             uint32_t slots) {
    int64_t north = planes / 2, west = slots / 2;
    uint32_t seen = 0;
    for (int64_t p = -north; p <= north; p++)
        for (int64_t q = -west; q <= west; q++)
            seen += sight_above(s, centre->plane + p, centre->slot + q);
    return seen;
}

static uint32_t count_above(const sight *s) {
    uint32_t seen = 0;
    for (uint32_t p = 1; p <= s->shell->planes; p++)
        for (uint32_t q = 1; q <= s->shell->slots; q++)
            seen += sight_above(s, p, q);
    return seen;
}

static void sight_look(const sight *s, const sky_handover *centre, finding *out) {
    for (int i = 0; i < WINDOW_ROWS; i++) {
        uint32_t size = sides[i][0] * sides[i][1];
        if (isnan(out->share[i]))
            continue;
        uint32_t seen = window_count(s, centre, sides[i][0], sides[i][1]);
        out->share[i] += (double)seen / size;
        out->whole[i] += seen == size;
    }
}

/* ---- one shell at one latitude ---- */

static void measure_shell(sight *s, const sky_handover *h, size_t count, int64_t start,
                          finding *out) {
    uint64_t looks = 0, counts = 0;
    size_t row = 0;
    for (uint64_t turn = 0; turn < TURNS; turn += EVERY, looks++) {
        while (row + 1 < count && h[row + 1].turn <= turn)
            row++;
        s->ms = start + (int64_t)turn * SKY_HANDOVER_MS;
        sight_look(s, &h[row], out);
        if (looks % 8 == 0) {
            out->visible += count_above(s);
            counts++;
        }
    }
    for (int i = 0; i < WINDOW_ROWS; i++) {
        out->share[i] /= (double)looks;
        out->whole[i] /= (double)looks;
    }
    out->visible /= (double)counts;
    for (size_t i = 1; i < count; i++)
        out->jumps_day += h[i].jump;
    out->moves_day = (double)count - 1;
    out->planes_day = h[count - 1].plane - h[0].plane;
    out->slots_day = h[count - 1].slot - h[0].slot;
}

static int find_window(cli *c, const char *name, const sky_constellation *shell, double latitude,
                       finding *out) {
    sight s = {.shell = shell,
               .observer = {.latitude_deg = latitude,
                            .min_elevation_deg = cli_number(c, "min-elevation")}};
    sky_handover_plan plan = {.start_ms = 1795132800000, /* 2026-11-20 */
                              .slot_ms = SKY_HANDOVER_MS,
                              .turns = TURNS,
                              .hysteresis_deg = cli_number(c, "hysteresis")};
    *out = (finding){.shell = name, .latitude_deg = latitude};
    for (int i = 0; i < WINDOW_ROWS; i++)
        if (sides[i][0] > shell->planes || sides[i][1] > shell->slots)
            out->share[i] = NAN;
    sky_error error = {0};
    sky_handover *h = malloc(TURNS * sizeof *h);
    int code = CLI_OK;
    if (!h || sky_fleet_walker(shell, SKY_SHELL_EPOCH_MS, &s.fleet, &error) != SKY_OK) {
        code = cli_failed(c, "%s", h ? error.text : "out of memory");
    } else {
        size_t count = sky_fleet_handovers(s.fleet, &s.observer, &plan, h, TURNS);
        measure_shell(&s, h, count, plan.start_ms, out);
    }
    sky_fleet_destroy(s.fleet);
    free(h);
    return code;
}

static int print_finding(orbit_rows *rows, const finding *f) {
    json_t *row = json_pack("{s:s, s:o, s:o}", "shell", f->shell, "lat_deg",
                            orbit_real(f->latitude_deg, 3), "visible", orbit_real(f->visible, 2));
    for (int i = 0; i < WINDOW_ROWS; i++) {
        char key[24];
        snprintf(key, sizeof key, "%ux%u", sides[i][0], sides[i][1]);
        json_object_set_new(row, key, orbit_real(f->share[i], 3));
        if (sides[i][0] * sides[i][1] == 1 || sides[i][0] > 3)
            continue; /* of one the same, of more there is nothing to tell */
        snprintf(key, sizeof key, "%ux%u_whole", sides[i][0], sides[i][1]);
        json_object_set_new(row, key, orbit_real(f->whole[i], 3));
    }
    json_object_set_new(row, "planes_day", orbit_real(f->planes_day, 0));
    json_object_set_new(row, "slots_day", orbit_real(f->slots_day, 0));
    json_object_set_new(row, "moves_day", orbit_real(f->moves_day, 0));
    json_object_set_new(row, "jumps_day", orbit_real(f->jumps_day, 0));
    return orbit_row(rows, row);
}

/* ---- the drawing ---- */

#define CELL_W 30
#define CELL_H 20
#define LEFT   64
#define TOP    52

static void draw_shell(FILE *to, const finding *f, size_t latitudes, int x, int y) {
    fprintf(to,
            "<g transform=\"translate(%d,%d)\"><text x=\"%d\" y=\"-22\" class=\"h\">%s</text>\n", x,
            y, LEFT, f[0].shell);
    for (int i = 0; i < WINDOW_ROWS; i++)
        fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"r\">%u×%u</text>\n", LEFT - 6, i * CELL_H + 14,
                sides[i][0], sides[i][1]);
    for (size_t k = 0; k < latitudes; k++) {
        int left = LEFT + (int)k * CELL_W;
        fprintf(to, "<text x=\"%d\" y=\"-6\" class=\"c\">%g°</text>\n", left + CELL_W / 2,
                f[k].latitude_deg);
        for (int i = 0; i < WINDOW_ROWS; i++) {
            double share = f[k].share[i];
            int percent = isnan(share) ? -1 : (int)floor(share * 100 + 0.5);
            fprintf(to,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#1b5e9b\" "
                    "fill-opacity=\"%.2f\"/>",
                    left, i * CELL_H, CELL_W - 1, CELL_H - 1,
                    percent < 0 ? 0.0 : 0.05 + 0.95 * share);
            if (percent >= 0)
                fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"c\" fill=\"%s\">%d</text>",
                        left + CELL_W / 2, i * CELL_H + 14, share > 0.5 ? "#fff" : "#333", percent);
            fputc('\n', to);
        }
    }
    fputs("</g>\n", to);
}

static int draw_windows(cli *c, const finding *f, size_t shells, size_t latitudes) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return cli_failed(c, "out of memory");
    int panel_w = LEFT + (int)latitudes * CELL_W + 24, panel_h = WINDOW_ROWS * CELL_H + TOP + 12;
    size_t across = shells > 1 ? 2 : 1, down = (shells + across - 1) / across;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<style>.h{font-size:14px;font-weight:"
            "bold}.r{text-anchor:end}.c{text-anchor:middle}</style>\n<rect width=\"100%%\" "
            "height=\"100%%\" fill=\"#fff\"/>\n<text x=\"12\" y=\"18\">Percent of the window\'s "
            "satellites (planes × slots) that stand above %g°, mean of a day, by latitude</text>\n",
            (int)across * panel_w, (int)down * panel_h + 30, cli_number(c, "min-elevation"));
    for (size_t i = 0; i < shells; i++)
        draw_shell(to, f + i * latitudes, latitudes, (int)(i % across) * panel_w,
                   (int)(i / across) * panel_h + TOP + 24);
    fputs("</svg>\n", to);
    fclose(to);
    int code = cli_file_write(c, cli_text(c, "output"), text, bytes);
    free(text);
    return code;
}

/* ---- all ---- */

static int run_shells(cli *c, const sky_shell *shells, size_t count, const double *latitudes,
                      size_t latitude_count) {
    finding *f = calloc(count, sizeof(finding[LATITUDES]));
    int code = f ? CLI_OK : cli_failed(c, "out of memory");
    orbit_rows rows;
    orbit_rows_begin(&rows, c);
    for (size_t i = 0; i < count * latitude_count && code == CLI_OK; i++) {
        const sky_shell *shell = &shells[i / latitude_count];
        cli_progress("windows: %s at %g degrees", shell->name, latitudes[i % latitude_count]);
        code = find_window(c, shell->name, &shell->constellation, latitudes[i % latitude_count],
                           &f[i]);
        cli_progress(NULL);
        if (code == CLI_OK)
            code = print_finding(&rows, &f[i]);
    }
    orbit_rows_end(&rows);
    if (code == CLI_OK && cli_given(c, "output"))
        code = draw_windows(c, f, count, latitude_count);
    free(f);
    return code;
}

int orbit_windows(cli *c) {
    double latitudes[LATITUDES] = {0, 10, 20, 30, 40, 50, 60, 70, 80};
    size_t latitude_count = 9, count;
    if (cli_given(c, "lat")) {
        int code = orbit_reals(c, "lat", latitudes, LATITUDES, &latitude_count);
        if (code != CLI_OK)
            return code;
    }
    for (size_t i = 0; i < latitude_count; i++)
        if (fabs(latitudes[i]) > 90)
            return cli_usage(c, "--lat %g: must be from -90 to 90", latitudes[i]);
    const sky_shell *shells = sky_shells(&count);
    if (!cli_given(c, "shell") && !cli_given(c, "planes"))
        return run_shells(c, shells, count, latitudes, latitude_count);
    sky_shell one = {.name = cli_given(c, "shell") ? cli_text(c, "shell") : "given"};
    int code = orbit_shell(c, &one.constellation);
    return code == CLI_OK ? run_shells(c, &one, 1, latitudes, latitude_count) : code;
}
