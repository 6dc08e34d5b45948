/* skymem orbit passes, visible, overhead: what an observer has above. */
#include "orbit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PASSES_MAX 4096
#define LONG_H     1e6 /* of satellites: ten thousand are a second or so */

typedef struct {
    sky_fleet *fleet;
    sky_observer observer;
    int64_t from_ms, to_ms;
} watch;

/* --start and --hours. */
static int read_watch(cli *c, watch *w) {
    int code = orbit_observer(c, &w->observer);
    if (code == CLI_OK)
        code = orbit_time(c, "start", &w->from_ms);
    if (code == CLI_OK)
        code = orbit_fleet(c, &w->fleet);
    w->to_ms = w->from_ms + (int64_t)(cli_number(c, "hours") * 3600000);
    return code == CLI_OK ? orbit_places(c, w->fleet, w->from_ms, w->to_ms) : code;
}

/* ---- passes ---- */

static int by_rise(const void *a, const void *b) {
    const sky_pass *x = a, *y = b;
    if (x->rise_ms != y->rise_ms)
        return x->rise_ms < y->rise_ms ? -1 : 1;
    return x->satellite < y->satellite ? -1 : x->satellite > y->satellite;
}

typedef struct {
    sky_pass *passes;
    size_t count, max;
} pass_list;

/* Passes of one satellite, at the end of the list. */
static bool collect_passes(const watch *w, uint32_t number, pass_list *l) {
    size_t room = l->max - l->count;
    size_t found = sky_fleet_passes(w->fleet, number, &w->observer, w->from_ms, w->to_ms,
                                    l->passes + l->count, room);
    if (found > room) {
        size_t more = 2 * (l->count + found);
        sky_pass *passes = realloc(l->passes, more * sizeof *passes);
        if (!passes)
            return false;
        l->passes = passes;
        l->max = more;
        return collect_passes(w, number, l);
    }
    l->count += found;
    return true;
}

static int print_passes(cli *c, const watch *w, const pass_list *l) {
    orbit_rows rows;
    int code = CLI_OK;
    orbit_rows_begin(&rows, c);
    for (size_t i = 0; i < l->count && code == CLI_OK; i++) {
        const sky_pass *p = &l->passes[i];
        char name[SKY_FLEET_NAME_BYTES], t[3][SKY_UTC_BYTES];
        code = orbit_row(&rows,
                         json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:b}", "satellite",
                                   sky_fleet_name(w->fleet, p->satellite, name), "rise",
                                   sky_utc_text(p->rise_ms, t[0]), "culminate",
                                   sky_utc_text(p->culminate_ms, t[1]), "set",
                                   sky_utc_text(p->set_ms, t[2]), "max_elevation_deg",
                                   orbit_real(p->max_elevation_deg, 4), "up_at_start",
                                   p->rise_ms == w->from_ms, "up_at_end", p->set_ms == w->to_ms));
    }
    orbit_rows_end(&rows);
    return code;
}

int orbit_passes(cli *c) {
    watch w = {0};
    pass_list l = {.max = PASSES_MAX};
    int code = read_watch(c, &w);
    if (code == CLI_OK) {
        l.passes = malloc(l.max * sizeof *l.passes);
        bool ok = l.passes != NULL;
        if (sky_fleet_count(w.fleet) * cli_number(c, "hours") > LONG_H)
            cli_note(c,
                     "%u satellites for %g hours take minutes, and rows come in order, when all "
                     "are found",
                     sky_fleet_count(w.fleet), cli_number(c, "hours"));
        for (uint32_t i = 0; ok && i < sky_fleet_count(w.fleet); i++) {
            cli_progress("passes: %u of %u satellites", i, sky_fleet_count(w.fleet));
            ok = collect_passes(&w, i, &l);
        }
        cli_progress(NULL);
        if (ok)
            qsort(l.passes, l.count, sizeof *l.passes, by_rise);
        code = ok ? print_passes(c, &w, &l) : cli_failed(c, "out of memory");
    }
    free(l.passes);
    sky_fleet_destroy(w.fleet);
    return code;
}

/* ---- visible ---- */

typedef struct {
    uint32_t number;
    sky_look look;
} sighting;

static int by_height(const void *a, const void *b) {
    const sighting *x = a, *y = b;
    if (x->look.elevation_deg != y->look.elevation_deg)
        return x->look.elevation_deg > y->look.elevation_deg ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static json_t *plane_or_null(uint32_t number) {
    return number ? json_integer(number) : json_null();
}

static int print_sightings(cli *c, const sky_fleet *f, const sighting *s, size_t count) {
    orbit_rows rows;
    int code = CLI_OK;
    orbit_rows_begin(&rows, c);
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        char name[SKY_FLEET_NAME_BYTES];
        sky_satellite at = sky_fleet_place(f, s[i].number);
        code = orbit_row(
            &rows,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "satellite",
                      sky_fleet_name(f, s[i].number, name), "plane", plane_or_null(at.plane),
                      "slot", plane_or_null(at.slot), "elevation_deg",
                      orbit_real(s[i].look.elevation_deg, 4), "azimuth_deg",
                      orbit_real(s[i].look.azimuth_deg, 4), "range_km",
                      orbit_real(s[i].look.range_km, 3), "one_way_ms",
                      orbit_real(orbit_light_ms(sky_fleet_shell(f), s[i].look.range_km), 6)));
    }
    orbit_rows_end(&rows);
    return code;
}

int orbit_visible(cli *c) {
    sky_fleet *f = NULL;
    sky_observer o;
    int64_t ms;
    sighting *seen = NULL;
    int code = orbit_observer(c, &o);
    if (code == CLI_OK)
        code = orbit_time(c, "at", &ms);
    if (code == CLI_OK)
        code = orbit_fleet(c, &f);
    if (code == CLI_OK)
        code = orbit_places(c, f, ms, ms);
    if (code == CLI_OK) {
        size_t count = 0;
        seen = malloc(sky_fleet_count(f) * sizeof *seen);
        for (uint32_t i = 0; seen && i < sky_fleet_count(f); i++) {
            sky_motion s;
            if (sky_fleet_state(f, i, ms, &s) != SKY_ORBIT_FINE)
                continue;
            seen[count] = (sighting){i, sky_observer_look(&o, ms, s.r_km)};
            count += seen[count].look.elevation_deg >= o.min_elevation_deg;
        }
        if (seen)
            qsort(seen, count, sizeof *seen, by_height);
        code = seen ? print_sightings(c, f, seen, count) : cli_failed(c, "out of memory");
    }
    free(seen);
    sky_fleet_destroy(f);
    return code;
}

/* ---- overhead ---- */

static int print_handovers(cli *c, const watch *w, const sky_handover *h, size_t count) {
    orbit_rows rows;
    int code = CLI_OK;
    const sky_constellation *k = sky_fleet_shell(w->fleet);
    orbit_rows_begin(&rows, c);
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        char at[SKY_UTC_BYTES], name[SKY_FLEET_NAME_BYTES];
        sky_satellite s = sky_unwrapped(k, h[i].plane, h[i].slot);
        code = orbit_row(
            &rows,
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "at",
                      sky_utc_text(w->from_ms + (int64_t)h[i].turn * SKY_HANDOVER_MS, at),
                      "satellite", sky_fleet_name(w->fleet, sky_fleet_number(w->fleet, s), name),
                      "plane", (json_int_t)s.plane, "slot", (json_int_t)s.slot, "plane_steps",
                      (json_int_t)(i ? h[i].plane - h[i - 1].plane : 0), "slot_steps",
                      (json_int_t)(i ? h[i].slot - h[i - 1].slot : 0), "jump", h[i].jump));
    }
    orbit_rows_end(&rows);
    return code;
}

int orbit_overhead(cli *c) {
    watch w = {0};
    int code = read_watch(c, &w);
    if (code == CLI_OK && sky_fleet_shell(w.fleet)->planes == 0)
        code = cli_failed(c, "%s: its satellites make no grid of planes and slots",
                          cli_text(c, "tle"));
    if (code == CLI_OK) {
        sky_handover_plan plan = {.start_ms = w.from_ms,
                                  .slot_ms = SKY_HANDOVER_MS,
                                  .turns = (uint64_t)((w.to_ms - w.from_ms) / SKY_HANDOVER_MS + 1),
                                  .hysteresis_deg = cli_number(c, "hysteresis")};
        sky_handover *h = malloc(plan.turns * sizeof *h);
        size_t count = h ? sky_fleet_handovers(w.fleet, &w.observer, &plan, h, plan.turns) : 0;
        code = h ? print_handovers(c, &w, h, count) : cli_failed(c, "out of memory");
        if (code == CLI_OK && plan.blind_turns)
            cli_note(c, "in %llu of %llu slots nothing stands above %g degrees",
                     (unsigned long long)plan.blind_turns, (unsigned long long)plan.turns,
                     w.observer.min_elevation_deg);
        free(h);
    }
    sky_fleet_destroy(w.fleet);
    return code;
}
