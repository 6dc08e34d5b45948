/* The +GRID as it is at a moment, and the quickest ways through it.
 *
 *      plane p     (p, s−1) ── (p, s) ── (p, s+1)           ahead and behind, in the same plane
 *                                │
 *      plane p+1             (p+1, s+offset)                 and one of the plane after
 *
 * Surprise: the last plane's neighbour is the first, its slots moved on by the phasing; in polar
 * shells those two fly against each other (the seam), and no laser holds. */
#include <math.h>
#include <stdlib.h>

#include <skymem-sky/orbit.h>

#include "orbit/fleet.h"
#include "orbit/torus.h"

#define EARTH_RADIUS_KM 6378.137
#define OFFSETS         3 /* slots to either side that are tried */
#define DEGREE_MAX      4
#define NOBODY          UINT32_MAX

static bool has_seam(const sky_constellation *c) {
    return c->raan_spread_deg > 0 && c->raan_spread_deg <= 180;
}

int32_t sky_link_offset(const sky_constellation *c) {
    if (!c || c->planes < 2)
        return 0;
    int32_t best = 0;
    double best_km = INFINITY;
    for (int32_t k = -OFFSETS; k <= OFFSETS; k++) {
        double least, most;
        sky_inter_plane_range_km(c, k, &least, &most);
        if (most < best_km - 1e-6 || (most < best_km + 1e-6 && abs(k) < abs(best))) {
            best = k;
            best_km = most;
        }
    }
    return best;
}

/* Arranged elements are aligned already; of lasers that were given it is theirs. */
int32_t sky_fleet_link_offset(const sky_fleet *f) {
    return f->members ? f->link_offset : sky_link_offset(&f->shell);
}

static double dot_product(sky_vector a, sky_vector b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

/* How near the line between two satellites comes to the centre of the Earth. */
static double closest_km(sky_vector a, sky_vector b) {
    sky_vector way = {b.x - a.x, b.y - a.y, b.z - a.z};
    double length2 = dot_product(way, way);
    double along = length2 > 0 ? -dot_product(a, way) / length2 : 0;
    along = along < 0 ? 0 : along > 1 ? 1 : along;
    sky_vector near = {a.x + along * way.x, a.y + along * way.y, a.z + along * way.z};
    return sqrt(dot_product(near, near));
}

static sky_laser make_link(const sky_fleet *f, int64_t ms, double grazing_km, sky_satellite from,
                           sky_satellite to, bool seam) {
    sky_laser l = {
        .from = sky__fleet_number(f, from), .to = sky__fleet_number(f, to), .seam = seam};
    sky_motion a, b;
    if (sky_fleet_state(f, l.from, ms, &a) != SKY_ORBIT_FINE ||
        sky_fleet_state(f, l.to, ms, &b) != SKY_ORBIT_FINE) {
        l.km = INFINITY;
        return l;
    }
    double earth = f->shell.earth_radius_km > 0 ? f->shell.earth_radius_km : EARTH_RADIUS_KM;
    l.km = sky__distance_km(a.r_km, b.r_km);
    l.up = !seam && closest_km(a.r_km, b.r_km) >= earth + grazing_km;
    return l;
}

static bool has_laser(const sky_fleet *f, sky_satellite from, uint8_t which) {
    return !f->lasers || f->lasers[sky__fleet_number(f, from)] & which;
}

size_t sky_fleet_links(const sky_fleet *f, int64_t ms, double grazing_km, sky_laser *out) {
    if (!f || !out)
        return 0;
    const sky_constellation *c = &f->shell;
    int32_t offset = sky_fleet_link_offset(f);
    size_t count = 0;
    for (uint32_t plane = 1; plane <= c->planes; plane++) {
        for (uint32_t slot = 1; slot <= c->slots; slot++) {
            sky_satellite here = {plane, slot};
            sky_satellite ahead = {plane, sky__ring_step(slot, 1, c->slots)};
            sky_satellite beside = sky__untwist(c, plane + 1, (int64_t)slot + offset);
            bool around = plane == c->planes;
            if (c->slots > 1 && !(c->slots == 2 && slot == 2)) {
                out[count] = make_link(f, ms, grazing_km, here, ahead, false);
                out[count++].up &= has_laser(f, here, SKY__LASER_AHEAD);
            }
            if (c->planes > 1 && !(c->planes == 2 && around)) {
                bool seam = around && has_seam(c) && !f->lasers;
                out[count] = make_link(f, ms, grazing_km, here, beside, seam);
                out[count++].up &= has_laser(f, here, SKY__LASER_BESIDE);
            }
        }
    }
    return count;
}

/* ---- routes ---- */

typedef struct {
    uint32_t to;
    double km;
} edge;

typedef struct {
    edge *edges; /* [count][DEGREE_MAX] */
    uint32_t *heap;
    uint32_t *at; /* where in the heap a satellite is; NOBODY: not in it */
    uint32_t heap_count;
    double *km;
} search;

/* One direction; false: a fleet's satellite has no more than four links. */
static bool join_link(search *s, uint32_t from, uint32_t to, double km) {
    edge *e = &s->edges[(size_t)from * DEGREE_MAX];
    int i = 0;
    while (i < DEGREE_MAX && e[i].to != NOBODY)
        i++;
    if (i == DEGREE_MAX)
        return false;
    e[i] = (edge){to, km};
    return true;
}

/* A link in both directions, if it is up; false: it is no link of a fleet of `count`. */
static bool join_both(search *s, const sky_laser *l, uint32_t count) {
    if (l->from >= count || l->to >= count)
        return false;
    return !l->up || (l->km >= 0 && join_link(s, l->from, l->to, l->km) &&
                      join_link(s, l->to, l->from, l->km));
}

static void heap_put(search *s, uint32_t place, uint32_t satellite) {
    s->heap[place] = satellite;
    s->at[satellite] = place;
}

static void heap_rise(search *s, uint32_t satellite) {
    uint32_t i = s->at[satellite];
    while (i > 0 && s->km[satellite] < s->km[s->heap[(i - 1) / 2]]) {
        heap_put(s, i, s->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_put(s, i, satellite);
}

static uint32_t take_nearest(search *s) {
    uint32_t nearest = s->heap[0];
    uint32_t last = s->heap[--s->heap_count];
    uint32_t i = 0;
    s->at[nearest] = NOBODY;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && s->km[s->heap[child + 1]] < s->km[s->heap[child]])
            child++;
        if (s->km[s->heap[child]] >= s->km[last])
            break;
        heap_put(s, i, s->heap[child]);
        i = child;
    }
    if (s->heap_count > 0 && last != nearest)
        heap_put(s, i, last);
    return nearest;
}

static void reach_from(search *s, uint32_t from, uint32_t *before) {
    for (int i = 0; i < DEGREE_MAX; i++) {
        edge e = s->edges[(size_t)from * DEGREE_MAX + (size_t)i];
        if (e.to == NOBODY || s->km[from] + e.km >= s->km[e.to])
            continue;
        if (s->km[e.to] == INFINITY) {
            s->at[e.to] = s->heap_count;
            s->heap[s->heap_count++] = e.to;
        }
        s->km[e.to] = s->km[from] + e.km;
        before[e.to] = from;
        heap_rise(s, e.to);
    }
}

sky_status sky_fleet_routes(const sky_fleet *f, const sky_laser *links, size_t link_count,
                            uint32_t from, double *km, uint32_t *before) {
    if (!f || from >= f->count || (!links && link_count > 0) || !km || !before)
        return SKY_E_PARAM;
    sky_status status = SKY_E_NOMEM;
    search s = {.km = km};
    s.edges = malloc((size_t)f->count * DEGREE_MAX * sizeof *s.edges);
    s.heap = malloc(f->count * sizeof *s.heap);
    s.at = malloc(f->count * sizeof *s.at);
    if (!s.edges || !s.heap || !s.at)
        goto cleanup;
    for (uint32_t i = 0; i < f->count; i++) {
        for (int k = 0; k < DEGREE_MAX; k++)
            s.edges[(size_t)i * DEGREE_MAX + (size_t)k].to = NOBODY;
        s.at[i] = NOBODY;
    }
    status = SKY_E_PARAM;
    for (size_t i = 0; i < link_count; i++) {
        if (!join_both(&s, &links[i], f->count))
            goto cleanup;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        km[i] = INFINITY;
        before[i] = i;
    }
    km[from] = 0;
    s.heap[0] = from;
    s.at[from] = 0;
    s.heap_count = 1;
    while (s.heap_count > 0)
        reach_from(&s, take_nearest(&s), before);
    status = SKY_OK;
cleanup:
    free(s.edges);
    free(s.heap);
    free(s.at);
    return status;
}
