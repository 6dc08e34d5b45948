#include "orbit/true_sky.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "orbit/fleet.h"
#include "orbit/ground.h"

#define ROWS_MIN    64 /* of ways that are kept */
#define ROWS_MAX    1024
#define ROOM        (1u << 17) /* satellites in all rows, but for the fewest: 1.5 MiB */
#define ROUNDING_NS 1000       /* of orbits and hops */

/* Ways from one satellite to each. */
typedef struct {
    uint64_t turns;
    uint32_t from;
    double *km;       /* [satellites]; NULL: nothing yet */
    uint32_t *before; /* [satellites]: the one before it on the way */
} way_row;

typedef struct {
    uint64_t asked; /* turns + 1; 0: never */
    sky_look look;
} seen;

struct sky__ways {
    uint64_t lasers_at; /* turns + 1; 0: never */
    sky_laser *lasers;
    size_t laser_count;
    seen *looks;         /* [satellites] */
    uint64_t highest_at; /* turns + 1; 0: never */
    uint32_t highest;
    uint64_t observed_at; /* turns + 1; 0: never */
    sky_observer observer;
    way_row *rows; /* [row_count] */
    uint32_t row_count;
};

static sky_time round_time(double ns) {
    return (sky_time)(ns + 0.5);
}

/* Who is overhead at a place in turns [first, end): rows behind those that are there. */
static void tabulate_place(sky_true_sky *t, const sky_observer *at, uint64_t first, uint64_t end) {
    sky_handover_plan plan = {.start_ms = t->given.start_ms + (int64_t)first * t->given.slot_ms,
                              .slot_ms = t->given.slot_ms,
                              .turns = end - first,
                              .hysteresis_deg = t->given.hysteresis_deg};
    sky_handover *rows = t->handovers + t->handover_count;
    size_t count = sky_fleet_handovers(t->given.fleet, at, &plan, rows, plan.turns);
    for (size_t i = 0; i < count; i++)
        rows[i].turn += first;
    t->handover_count += count;
}

static sky_status tabulate_sky(sky_true_sky *t) {
    uint64_t turns = t->given.turns > 0 ? t->given.turns : 1, first = 0;
    const sky_observer *at = &t->given.observer;
    t->handovers = calloc(turns, sizeof *t->handovers);
    if (!t->handovers)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < t->given.anchor_count && t->given.anchors[i].turn < turns; i++) {
        const sky_anchor *next = &t->given.anchors[i];
        if (next->turn > first)
            tabulate_place(t, at, first, next->turn);
        first = next->turn;
        at = &next->observer;
    }
    tabulate_place(t, at, first, turns);
    sky_handover *less = realloc(t->handovers, t->handover_count * sizeof *less);
    t->handovers = less ? less : t->handovers;
    return SKY_OK;
}

#define HOP_LOOKS 16  /* at a told grid's lasers, in a turn round the Earth */
#define HOP_SLACK 1.1 /* between looks, and for what drifts */

/* Of a told grid: no formula knows how its planes are phased. */
static void measure_told_hops(sky_true_sky *t) {
    const sky_constellation *c = sky_fleet_shell(t->given.fleet);
    double plane_km = 0, slot_km = 0;
    for (int look = 0; look < HOP_LOOKS; look++) {
        int64_t ms = t->given.start_ms + (int64_t)(sky_period_s(c) * 1000 * look / HOP_LOOKS);
        size_t count = sky_fleet_links(t->given.fleet, ms, SKY__GRAZING_KM, t->ways->lasers);
        for (size_t i = 0; i < count; i++) {
            const sky_laser *l = &t->ways->lasers[i];
            double *most = l->from / c->slots == l->to / c->slots ? &slot_km : &plane_km;
            *most = l->up && l->km > *most ? l->km : *most;
        }
    }
    t->plane_ns = round_time(plane_km * HOP_SLACK * t->ns_per_km);
    t->slot_ns = round_time(slot_km * HOP_SLACK * t->ns_per_km);
    /* where lasers are missing, or hidden by the Earth: half round either way */
    t->detour_ns = c->planes / 2 * t->plane_ns + c->slots / 2 * t->slot_ns;
}

/* The longest hops of a shell. Elements have no formula: half as much again as their shell. */
static void measure_hops(sky_true_sky *t) {
    const sky_constellation *c = sky_fleet_shell(t->given.fleet);
    double least, plane_km, slot_km = sky_intra_plane_km(c);
    t->link_offset = sky_fleet_link_offset(t->given.fleet);
    if (sky__fleet_is_told(t->given.fleet)) {
        measure_told_hops(t);
        return;
    }
    sky_inter_plane_range_km(c, t->link_offset, &least, &plane_km);
    double slack = sky_fleet_has_elements(t->given.fleet) ? 1.5 : 1;
    t->plane_ns = round_time(plane_km * slack * t->ns_per_km);
    t->slot_ns = round_time(slot_km * slack * t->ns_per_km);
    double longest = fmax(plane_km, slot_km) * slack / 2;
    double radius = 6378.137 + c->altitude_km, clear = 6378.137 + SKY__GRAZING_KM;
    if (radius * radius - longest * longest < clear * clear)
        t->detour_ns = c->slots / 2 * t->slot_ns;
    if (t->given.dead_count > 0)
        t->detour_ns += 2 * (t->plane_ns + t->slot_ns);
}

/* ---- lasers that are down though they see each other ---- */

static bool is_between(const sky_true_sky *t, const sky_laser *l, const sky_dead_laser *d) {
    uint32_t a = sky__fleet_number(t->given.fleet, d->a),
             b = sky__fleet_number(t->given.fleet, d->b);
    return (l->from == a && l->to == b) || (l->from == b && l->to == a);
}

static void take_down(const sky_true_sky *t, uint64_t turns) {
    for (uint32_t i = 0; i < t->given.dead_count; i++) {
        const sky_dead_laser *d = &t->dead[i];
        for (size_t k = 0;
             turns >= d->first_turn && turns <= d->last_turn && k < t->ways->laser_count; k++)
            t->ways->lasers[k].up &= !is_between(t, &t->ways->lasers[k], d);
    }
}

/* Keep those that are given, each of which must be there. */
static sky_status keep_dead(sky_true_sky *t, sky_error *error) {
    t->dead = calloc(t->given.dead_count + 1u, sizeof *t->dead);
    if (!t->dead)
        return sky_fail(error, SKY_E_NOMEM, "out of memory");
    size_t count = sky_fleet_links(t->given.fleet, t->given.start_ms, SKY__GRAZING_KM,
                                   t->ways->lasers);
    for (uint32_t i = 0; i < t->given.dead_count; i++) {
        const sky_dead_laser *d = &t->given.dead[i];
        bool found = false;
        for (size_t k = 0; k < count && !found; k++)
            found = is_between(t, &t->ways->lasers[k], d);
        if (!found)
            return sky_fail(error, SKY_E_PARAM, "no laser joins %u,%u and %u,%u", d->a.plane,
                            d->a.slot, d->b.plane, d->b.slot);
        t->dead[i] = *d;
    }
    t->given.dead = t->dead;
    return SKY_OK;
}

static sky_status make_ways(sky_true_sky *t) {
    uint32_t count = sky_fleet_count(t->given.fleet);
    t->ways = calloc(1, sizeof *t->ways);
    if (!t->ways)
        return SKY_E_NOMEM;
    t->ways->lasers = calloc(2 * (size_t)count, sizeof *t->ways->lasers);
    t->ways->looks = calloc(count, sizeof *t->ways->looks);
    uint32_t rows = ROOM / count;
    t->ways->row_count = rows < ROWS_MIN ? ROWS_MIN : rows > ROWS_MAX ? ROWS_MAX : rows;
    t->ways->rows = calloc(t->ways->row_count, sizeof *t->ways->rows);
    return t->ways->lasers && t->ways->looks && t->ways->rows ? SKY_OK : SKY_E_NOMEM;
}

sky_status sky__true_create(const sky_physical *given, sky_true_sky **out, sky_error *error) {
    const sky_constellation *c = sky_fleet_shell(given->fleet);
    sky_true_sky *t = calloc(1, sizeof *t);
    sky_status status = t ? SKY_OK : SKY_E_NOMEM;
    if (t)
        t->given = *given;
    else
        sky_fleet_destroy(given->fleet);
    if (status == SKY_OK && (c->planes == 0 || given->slot_ms < 1))
        status = SKY_E_PARAM;
    if (status == SKY_OK)
        status = make_ways(t);
    if (status == SKY_OK)
        status = tabulate_sky(t);
    if (status != SKY_OK) {
        sky__true_destroy(t);
        return sky_fail(error, status,
                        status == SKY_E_NOMEM
                            ? "out of memory"
                            : "the satellites make no grid of planes and slots, or a turn is 0 ms");
    }
    status = keep_dead(t, error);
    if (status != SKY_OK) {
        sky__true_destroy(t);
        return status;
    }
    t->ns_per_km = 1e9 / (c->light_km_s > 0 ? c->light_km_s : 299792.458);
    measure_hops(t);
    *out = t;
    return SKY_OK;
}

static void row_forget(way_row *row) {
    free(row->km);
    free(row->before);
    *row = (way_row){0};
}

void sky__true_destroy(sky_true_sky *t) {
    if (!t)
        return;
    if (t->ways) {
        for (uint32_t i = 0; t->ways->rows && i < t->ways->row_count; i++)
            row_forget(&t->ways->rows[i]);
        free(t->ways->rows);
        free(t->ways->lasers);
        free(t->ways->looks);
    }
    free(t->ways);
    sky_fleet_destroy(t->given.fleet);
    free(t->handovers);
    free(t->dead);
    free(t);
}

/* A turn far beyond any time there is counts as the last. */
static int64_t time_of(const sky_true_sky *t, uint64_t turns) {
    uint64_t most = (uint64_t)(INT64_MAX / 4 / t->given.slot_ms);
    return t->given.start_ms + (int64_t)(turns < most ? turns : most) * t->given.slot_ms;
}

/* Where one that moves is. */
static const sky_observer *observer_at(const sky_true_sky *t, uint64_t turns) {
    sky__ways *w = t->ways;
    if (t->given.speed_km_h == 0)
        return &t->given.observer;
    double hours = (double)(time_of(t, turns) - t->given.start_ms) / 3.6e6;
    if (w->observed_at != turns + 1)
        w->observer = sky__observer_moved(&t->given.observer, t->given.speed_km_h * hours,
                                          t->given.course_deg);
    w->observed_at = turns + 1;
    return &w->observer;
}

/* A satellite that has no place any more is at the end of the world: its chunks are late, not
 * wrong. */
static sky_look compute_look(const sky_true_sky *t, uint32_t number, uint64_t turns) {
    sky_motion at;
    int64_t ms = time_of(t, turns);
    if (sky_fleet_state(t->given.fleet, number, ms, &at) != SKY_ORBIT_FINE)
        return (sky_look){.elevation_deg = -90, .range_km = 2 * 6378.137};
    return sky_observer_look(observer_at(t, turns), ms, at.r_km);
}

static sky_look look_at_number(const sky_true_sky *t, uint32_t number, uint64_t turns) {
    seen *kept = &t->ways->looks[number];
    if (kept->asked != turns + 1)
        *kept = (seen){turns + 1, compute_look(t, number, turns)};
    return kept->look;
}

static sky_look look_at(const sky_true_sky *t, sky_satellite s, uint64_t turns) {
    return look_at_number(t, sky__fleet_number(t->given.fleet, s), turns);
}

uint32_t sky__true_highest(const sky_true_sky *t, uint64_t turns) {
    sky__ways *w = t->ways;
    uint32_t count = sky_fleet_count(t->given.fleet);
    double best = -INFINITY;
    for (uint32_t i = 0; w->highest_at != turns + 1 && i < count; i++) {
        double elevation = look_at_number(t, i, turns).elevation_deg;
        if (elevation > best) {
            best = elevation;
            w->highest = i;
        }
    }
    w->highest_at = turns + 1;
    return w->highest;
}

double sky__true_elevation_deg(const sky_true_sky *t, sky_satellite s, uint64_t turns) {
    return look_at(t, s, turns).elevation_deg;
}

bool sky__true_in_sight(const sky_true_sky *t, sky_satellite s, uint64_t turns) {
    return sky__true_elevation_deg(t, s, turns) >= t->given.observer.min_elevation_deg;
}

sky_time sky__true_ground_ns(const sky_true_sky *t, sky_satellite centre, sky_satellite s,
                             uint64_t turns) {
    sky_look straight = look_at(t, s, turns);
    if (straight.elevation_deg >= t->given.observer.min_elevation_deg)
        return round_time(straight.range_km * t->ns_per_km);
    return round_time(look_at(t, centre, turns).range_km * t->ns_per_km) +
           sky__true_link_ns(t, centre, s, turns);
}

/* ---- ways over lasers ---- */

static int64_t ring_distance(int64_t steps, int64_t count) {
    steps %= count;
    steps = steps < 0 ? steps + count : steps;
    return steps <= count - steps ? steps : count - steps;
}

/* By its steps, each as long as it ever is: straight on, or over the seam of planes either way,
 * where the slots are moved on. A polar seam is never crossed. */
static sky_time straight_ns(const sky_true_sky *t, sky_satellite a, sky_satellite b) {
    const sky_constellation *c = sky_fleet_shell(t->given.fleet);
    bool open = c->raan_spread_deg > 0 && c->raan_spread_deg <= 180 && !t->given.fleet->lasers;
    sky_time best = SKY_TIME_NEVER;
    for (int64_t round = open ? 0 : -1; round <= (open ? 0 : 1); round++) {
        int64_t planes = (int64_t)b.plane - a.plane + round * (int64_t)c->planes;
        int64_t slots = (int64_t)b.slot - a.slot - round * (int64_t)c->phasing -
                        planes * t->link_offset;
        sky_time ns = (planes < 0 ? -planes : planes) * t->plane_ns +
                      ring_distance(slots, c->slots) * t->slot_ns;
        best = ns < best ? ns : best;
    }
    return best;
}

sky_time sky__true_way_ns_max(const sky_true_sky *t, sky_satellite a, sky_satellite b) {
    return straight_ns(t, a, b) + t->detour_ns + ROUNDING_NS;
}

sky_time sky__true_link_ns_max(const sky_true_sky *t) {
    const sky_constellation *c = sky_fleet_shell(t->given.fleet);
    return (sky_time)c->planes * t->plane_ns + (sky_time)(c->slots / 2) * t->slot_ns +
           t->detour_ns + ROUNDING_NS;
}

static way_row *row_at(const sky_true_sky *t, uint32_t from, uint64_t turns) {
    return &t->ways->rows[(from + 7 * turns) % t->ways->row_count];
}

static const way_row *row_of(const sky_true_sky *t, uint32_t from, uint64_t turns) {
    const way_row *row = row_at(t, from, turns);
    return row->km && row->from == from && row->turns == turns ? row : NULL;
}

static void find_lasers(const sky_true_sky *t, uint64_t turns) {
    sky__ways *w = t->ways;
    if (w->lasers_at == turns + 1)
        return;
    w->laser_count = sky_fleet_links(t->given.fleet, time_of(t, turns), SKY__GRAZING_KM, w->lasers);
    take_down(t, turns);
    w->lasers_at = turns + 1;
}

/* NULL: no memory for it. */
static const way_row *compute_row(const sky_true_sky *t, uint32_t from, uint64_t turns) {
    sky__ways *w = t->ways;
    const sky_fleet *fleet = t->given.fleet;
    uint32_t count = sky_fleet_count(fleet);
    way_row *row = row_at(t, from, turns);
    find_lasers(t, turns);
    if (!row->km) {
        row->km = calloc(count, sizeof *row->km);
        row->before = calloc(count, sizeof *row->before);
    }
    if (!row->km || !row->before ||
        sky_fleet_routes(fleet, w->lasers, w->laser_count, from, row->km, row->before) != SKY_OK) {
        row_forget(row);
        return NULL;
    }
    row->turns = turns;
    row->from = from;
    return row;
}

/* INFINITY: there is none, or none that is taken. Without memory to know, as if all lasers held. */
static double way_ns(const sky_true_sky *t, sky_satellite a, sky_satellite b, uint64_t turns) {
    uint32_t from = sky__fleet_number(t->given.fleet, a), to = sky__fleet_number(t->given.fleet, b);
    const way_row *row = row_of(t, to, turns);
    uint32_t end = from;
    if (!row) {
        row = row_of(t, from, turns);
        end = to;
    }
    row = row ? row : compute_row(t, from, turns);
    if (!row)
        return (double)straight_ns(t, a, b);
    double ns = row->km[end] * t->ns_per_km;
    return ns <= (double)sky__true_way_ns_max(t, a, b) ? ns : INFINITY;
}

/* Every satellite on a way asks the row of its end, so that all go by the same tree. */
bool sky__true_hop(const sky_true_sky *t, sky_satellite a, sky_satellite b, uint64_t turns,
                   sky_satellite *hop) {
    uint32_t from = sky__fleet_number(t->given.fleet, a), to = sky__fleet_number(t->given.fleet, b);
    const way_row *row = row_of(t, to, turns);
    row = row ? row : compute_row(t, to, turns);
    if (!row || isinf(row->km[from]))
        return false;
    uint32_t slots = sky_fleet_shell(t->given.fleet)->slots, next = row->before[from];
    *hop = (sky_satellite){next / slots + 1, next % slots + 1};
    return true;
}

bool sky__true_joined(const sky_true_sky *t, sky_satellite a, sky_satellite b, uint64_t turns) {
    return !isinf(way_ns(t, a, b, turns));
}

bool sky__true_whole(const sky_true_sky *t) {
    return t->detour_ns == 0;
}

sky_time sky__true_link_ns(const sky_true_sky *t, sky_satellite a, sky_satellite b,
                           uint64_t turns) {
    double ns = way_ns(t, a, b, turns);
    return isinf(ns) ? sky__true_way_ns_max(t, a, b) : round_time(ns);
}

/* To the horizon, which no mask lies below; of the highest satellites, for the ellipsoid and
 * eccentric orbits are within 100 km. */
sky_time sky__true_ground_ns_max(const sky_true_sky *t) {
    double earth = 6378.137;
    double radius = earth + sky_fleet_shell(t->given.fleet)->altitude_km + 100;
    return round_time(sqrt(radius * radius - earth * earth) * t->ns_per_km);
}
