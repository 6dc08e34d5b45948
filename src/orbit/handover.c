/* Who is overhead, slot by slot: the table that satellites are given so that they need no
 * trigonometry to know where the window is.
 *
 *   mesh of one shell as an observer sees it (planes and slots are counted on, never wrapped):
 *
 *        plane 12   ·   ·   ·   ·         satellites move this way →: the slot before comes next
 *        plane 13   ·  [C]  ·   ·         the Earth turns: the plane after comes next
 *        plane 14   ·   ·   ·   ·
 *
 * Surprise: at most latitudes two meshes cross overhead, one going north, one going south.
 * Whichever satellite is highest changes from one to the other every minute or so, and these are
 * far apart in plane and slot. So the centre keeps to its mesh: only neighbours of the satellite
 * that is overhead are candidates, and the other mesh gets a chance when this one is lost. */
#include <math.h>
#include <stdlib.h>

#include <skymem-sky/orbit.h>

#include "orbit/fleet.h"
#include "orbit/ground.h"
#include "orbit/torus.h"
#include "orbit/trig.h"

#define REACH 3 /* planes and slots */

typedef struct {
    const sky_fleet *fleet;
    const sky_observer *observer;
    sky__station station;
    int64_t ms;
    bool hopeful; /* something may be above the mask somewhen */
} scene;

typedef struct {
    int64_t plane, slot; /* counted on */
    double elevation_deg;
} candidate;

static double elevation_of(const scene *s, uint32_t number) {
    sky_motion state;
    if (sky_fleet_state(s->fleet, number, s->ms, &state) != SKY_ORBIT_FINE)
        return -90;
    return sky__asin(sky__sine_elevation(&s->station, state.r_km)) / SKY_DEGREE;
}

static double elevation_at(const scene *s, int64_t plane, int64_t slot) {
    return elevation_of(s,
                        sky__fleet_number(s->fleet, sky__untwist(&s->fleet->shell, plane, slot)));
}

/* The neighbour that is worth most: its height, less what each step to it costs. Itself when
 * none is better. */
static candidate best_neighbour(const scene *s, const candidate *now, double step_deg) {
    double mask = s->observer->min_elevation_deg;
    double most = now->elevation_deg >= mask ? now->elevation_deg : -INFINITY;
    candidate best = *now;
    for (int plane = -REACH; plane <= REACH; plane++) {
        for (int slot = -REACH; slot <= REACH; slot++) {
            candidate c = {now->plane + plane, now->slot + slot, 0};
            c.elevation_deg = elevation_at(s, c.plane, c.slot);
            double worth = c.elevation_deg - step_deg * (abs(plane) + abs(slot));
            if (c.elevation_deg >= mask && worth > most) {
                most = worth;
                best = c;
            }
        }
    }
    return best;
}

/* The torus repeats after so many planes as it has satellites, so that any count can be cut. */
sky_satellite sky_unwrapped(const sky_constellation *c, int64_t plane, int64_t slot) {
    if (!sky__torus_valid(c))
        return (sky_satellite){0, 0};
    return sky__untwist(c, plane % ((int64_t)c->planes * c->slots), slot % c->slots);
}

/* The shorter way round a ring, with its sign. */
static int64_t ring_steps(int64_t steps, int64_t count) {
    steps %= count;
    if (steps > count / 2)
        return steps - count;
    return steps < -(count / 2) ? steps + count : steps;
}

/* The highest of all, counted on from where the centre is. */
static candidate best_of_all(const scene *s, const candidate *now) {
    const sky_constellation *c = &s->fleet->shell;
    sky_satellite best = {1, 1};
    double highest = -91;
    for (uint32_t i = 0; i < c->planes * c->slots; i++) {
        sky_satellite at = {i / c->slots + 1, i % c->slots + 1};
        double elevation = elevation_of(s, sky__fleet_number(s->fleet, at));
        if (elevation > highest) {
            highest = elevation;
            best = at;
        }
    }
    sky_satellite here = sky__untwist(c, now->plane, now->slot);
    int64_t planes = ring_steps((int64_t)best.plane - (int64_t)here.plane, c->planes);
    int64_t wrapped = sky__untwist(c, now->plane + planes, now->slot).slot;
    int64_t slots = ring_steps((int64_t)best.slot - wrapped, c->slots);
    return (candidate){now->plane + planes, now->slot + slots, highest};
}

/* Whether the shell ever comes that far from the equator, with two degrees to spare: where it never
 * does there is no use in searching it slot by slot. On a sphere: a satellite at the mask is
 * 90° − ε − asin(R/(R+h)·cos ε) away. */
static bool ever_in_sight(const sky_fleet *f, const sky_observer *o) {
    double tilt = f->shell.inclination_deg;
    double radius = 6378.137 + f->shell.altitude_km;
    double lean = sky__asin(6378.137 / radius * sky__cos(o->min_elevation_deg * SKY_DEGREE));
    double reach = 90 - o->min_elevation_deg - lean / SKY_DEGREE;
    return fabs(o->latitude_deg) <= (tilt > 90 ? 180 - tilt : tilt) + reach + 2;
}

/* Where the centre is in this slot. */
static candidate follow_centre(const scene *s, const candidate *before, double step_deg,
                               uint64_t *blind, bool *jump) {
    double mask = s->observer->min_elevation_deg;
    candidate now = *before;
    now.elevation_deg = elevation_at(s, now.plane, now.slot);
    candidate best = best_neighbour(s, &now, step_deg);
    if (best.elevation_deg >= mask)
        return best;
    if (s->hopeful)
        best = best_of_all(s, &now);
    if (best.elevation_deg < mask) {
        ++*blind;
        return now;
    }
    *jump = true;
    return best;
}

/* Whether all its slots can be counted in milliseconds. */
static bool plan_valid(const sky_handover_plan *plan) {
    return plan && plan->slot_ms >= 1 && plan->hysteresis_deg >= 0 &&
           isfinite(plan->hysteresis_deg) &&
           plan->turns <=
               (uint64_t)((INT64_MAX - (plan->start_ms > 0 ? plan->start_ms : 0)) / plan->slot_ms);
}

size_t sky_fleet_handovers(const sky_fleet *f, const sky_observer *o, sky_handover_plan *plan,
                           sky_handover *out, size_t max) {
    if (!f || f->shell.planes == 0 || !sky__observer_valid(o) || !plan_valid(plan) ||
        (!out && max > 0))
        return 0;
    scene s = {.fleet = f, .observer = o, .hopeful = ever_in_sight(f, o)};
    candidate now = {1, 1, -90};
    size_t count = 0;
    plan->blind_turns = 0;
    for (uint64_t turn = 0; turn < plan->turns || turn == 0; turn++) {
        s.ms = plan->start_ms + (int64_t)turn * plan->slot_ms;
        s.station = sky__station_at(o, s.ms);
        candidate before = now;
        bool jump = false;
        if (turn == 0) {
            now = best_of_all(&s, &now);
            sky_satellite first = sky__untwist(&f->shell, now.plane, now.slot);
            now = (candidate){first.plane, first.slot, now.elevation_deg};
            plan->blind_turns += now.elevation_deg < o->min_elevation_deg;
        } else {
            now = follow_centre(&s, &before, plan->hysteresis_deg, &plan->blind_turns, &jump);
        }
        if (turn > 0 && now.plane == before.plane && now.slot == before.slot)
            continue;
        if (count < max)
            out[count] = (sky_handover){turn, (int32_t)now.plane, (int32_t)now.slot, jump};
        count++;
    }
    return count;
}
