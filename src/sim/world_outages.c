/* Lasers that are down at set times, and how messages go then (world_faults.c begins the outages).
 *
 *   datagrams     what goes over a laser that is down is lost; the transport tries other ways
 *   physical      the frame's ways go round it (orbit/true_sky.h)
 *   else          messages go round it here, by the shortest way over the grid that is left
 *
 * Surprise: the ways of an ideal sky are tables by offset, which know of no single laser. So while
 * one is down they are searched for, from the sender to everyone, and kept until a laser goes down
 * or comes back. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "orbit/geometry.h"
#include "sim/world_state.h"

#define ROWS 64 /* of ways that are kept */

typedef struct {
    sky_time since; /* of the lasers that were down then; -1: none */
    uint32_t from;
    double *km; /* [satellites] */
} way_row;

struct sky__grid {
    sky_fleet *fleet; /* only to count its satellites by */
    sky_laser *lasers;
    size_t laser_count;
    sky_time marked; /* since when those that are down are; -1: never */
    uint32_t *before;
    way_row rows[ROWS];
};

static bool is_down_now(const sky_world *w, const sky_outage *o) {
    return o->from_ns <= w->now && w->now < o->to_ns;
}

static bool outage_joins(const sky_outage *o, sky_satellite a, sky_satellite b) {
    return (sky_satellite_equal(o->a, a) && sky_satellite_equal(o->b, b)) ||
           (sky_satellite_equal(o->a, b) && sky_satellite_equal(o->b, a));
}

/* Since when the lasers that are down now are the same ones; *any: there are some. */
static sky_time outages_since(const sky_world *w, bool *any) {
    sky_time last = 0;
    *any = false;
    for (uint32_t i = 0; i < w->scenario.outage_count; i++) {
        const sky_outage *o = &w->scenario.outages[i];
        if (o->kind != SKY_OUTAGE_LINK)
            continue;
        if (o->from_ns <= w->now && o->from_ns > last)
            last = o->from_ns;
        if (o->to_ns <= w->now && o->to_ns > last)
            last = o->to_ns;
        *any |= is_down_now(w, o);
    }
    return last;
}

/* ---- the grid of an ideal sky ---- */

/* Each satellite with the next in its plane, and with the same slot of the plane after. */
static size_t lay_grid(const sky_constellation *c, sky_laser *out) {
    const sky_satellite here = {1, 1};
    double slot_km = c->slots > 1 ? sky_grid_km(c, here, (sky_satellite){1, 2}) : 0;
    double plane_km = c->planes > 1 ? sky_grid_km(c, here, (sky_satellite){2, 1}) : 0;
    size_t count = 0;
    for (uint32_t i = 0; i < c->planes * c->slots; i++) {
        uint32_t plane = i / c->slots, slot = i % c->slots;
        uint32_t ahead = plane * c->slots + (slot + 1) % c->slots;
        uint32_t beside = (plane + 1) % c->planes * c->slots + slot;
        if (c->slots > 2 || slot + 1 < c->slots)
            out[count++] = (sky_laser){.from = i, .to = ahead, .km = slot_km, .up = true};
        if (c->planes > 2 || plane + 1 < c->planes)
            out[count++] = (sky_laser){.from = i, .to = beside, .km = plane_km, .up = true};
    }
    return count;
}

static void grid_free(sky__grid *g) {
    for (uint32_t i = 0; g && i < ROWS; i++)
        free(g->rows[i].km);
    if (g) {
        sky_fleet_destroy(g->fleet);
        free(g->lasers);
        free(g->before);
    }
    free(g);
}

static sky_status grid_create(const sky_world *w, sky__grid **out) {
    const sky_constellation *c = &w->frame.constellation;
    sky__grid *g = calloc(1, sizeof *g);
    if (!g)
        return SKY_E_NOMEM;
    g->marked = -1;
    g->lasers = calloc(2 * (size_t)w->frame.satellite_count, sizeof *g->lasers);
    g->before = calloc(w->frame.satellite_count, sizeof *g->before);
    sky_error why;
    if (!g->lasers || !g->before ||
        sky_fleet_walker(c, w->scenario.time.start_ms, &g->fleet, &why) != SKY_OK) {
        grid_free(g);
        return SKY_E_NOMEM;
    }
    g->laser_count = lay_grid(c, g->lasers);
    *out = g;
    return SKY_OK;
}

static void mark_outages(const sky_world *w, sky__grid *g, sky_time at) {
    for (size_t i = 0; g->marked != at && i < g->laser_count; i++) {
        sky_laser *l = &g->lasers[i];
        l->up = true;
        for (uint32_t k = 0; k < w->scenario.outage_count && l->up; k++) {
            const sky_outage *o = &w->scenario.outages[k];
            l->up = o->kind != SKY_OUTAGE_LINK || !is_down_now(w, o) ||
                    !outage_joins(o, sky_frame_satellite(&w->frame, l->from),
                                  sky_frame_satellite(&w->frame, l->to));
        }
    }
    g->marked = at;
}

/* From one satellite to each; NULL: no memory to know. */
static const double *ways_from(const sky_world *w, uint32_t from, sky_time at) {
    sky__grid *g = w->grid;
    way_row *row = &g->rows[from % ROWS];
    if (row->km && row->from == from && row->since == at)
        return row->km;
    double *km = row->km ? row->km : calloc(w->frame.satellite_count, sizeof *km);
    mark_outages(w, g, at);
    if (!km ||
        sky_fleet_routes(g->fleet, g->lasers, g->laser_count, from, km, g->before) != SKY_OK) {
        free(km);
        row->km = NULL;
        return NULL;
    }
    *row = (way_row){at, from, km};
    return km;
}

/* ---- what the links ask ---- */

/* A satellite's end of a way: aboard, the host is on one. */
static sky_satellite end_of(const sky_world *w, sky_satellite s) {
    return sky__is_ground(s) ? w->frame.centre : s;
}

static bool goes_by_laser(const sky_world *w, sky_satellite from, sky_satellite to) {
    return (!sky__is_ground(from) && !sky__is_ground(to)) ||
           sky_strategy_row_of(w->frame.placement.strategy)->aboard;
}

bool sky__way_of(const sky_world *w, sky_satellite from, sky_satellite to, sky_time *ns) {
    bool any;
    sky_time at = outages_since(w, &any);
    if (!any || !goes_by_laser(w, from, to))
        return true;
    sky_satellite a = end_of(w, from), b = end_of(w, to);
    for (uint32_t i = 0; w->stations && i < w->scenario.outage_count; i++) {
        const sky_outage *o = &w->scenario.outages[i];
        if (o->kind == SKY_OUTAGE_LINK && is_down_now(w, o) && outage_joins(o, a, b))
            return false;
    }
    const double *km = w->grid ? ways_from(w, sky_frame_number(&w->frame, a), at) : NULL;
    if (!km)
        return true;
    double light_km_s = w->frame.constellation.light_km_s;
    double way = km[sky_frame_number(&w->frame, b)];
    if (isinf(way))
        return false;
    *ns = (sky_time)(way / (light_km_s > 0 ? light_km_s : 299792.458) * 1e9 + 0.5);
    return true;
}

sky_status sky__outages_init(sky_world *w) {
    const sky_scenario *s = &w->scenario;
    bool links = false;
    for (uint32_t i = 0; i < s->outage_count; i++)
        links |= s->outages[i].kind == SKY_OUTAGE_LINK;
    return links && !w->frame.physical && !s->links.datagrams ? grid_create(w, &w->grid) : SKY_OK;
}

void sky__outages_deinit(sky_world *w) {
    grid_free(w->grid);
}
