/* Turns, places and distances of one sky.
 *
 * A torus looks the same from everywhere, so distances are tables by offset: computed once, for the
 * satellite (1, 1). The same holds for the layout: server s of a placement around another centre
 * is the same step away from it. A physical sky has no such table: see true_sky.h. */
#include "orbit/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "orbit/geometry.h"
#include "orbit/torus.h"
#include "orbit/true_sky.h"

#define NS_PER_MS 1000000

/* ---- time ---- */

uint64_t sky_turns(const sky_turning *t, sky_time now) {
    return now > 0 ? (uint64_t)(now / t->rotation_ns) : 0;
}

uint64_t sky_turns_at_ms(const sky_turning *t, int64_t ms) {
    if (ms <= t->start_ms)
        return 0;
    uint64_t since_ms = (uint64_t)ms - (uint64_t)t->start_ms;
    if (since_ms > INT64_MAX / NS_PER_MS) /* 292 years on: no honest time */
        since_ms = INT64_MAX / NS_PER_MS;
    return sky_turns(t, (sky_time)since_ms * NS_PER_MS);
}

sky_time sky_turn_begins(const sky_turning *t, uint64_t turns) {
    if (turns > (uint64_t)(INT64_MAX / t->rotation_ns))
        return SKY_TIME_NEVER;
    return (sky_time)turns * t->rotation_ns;
}

int64_t sky_turning_ms(const sky_turning *t, sky_time now) {
    return t->start_ms + now / NS_PER_MS;
}

/* ---- place ---- */

bool sky_satellite_equal(sky_satellite a, sky_satellite b) {
    return a.plane == b.plane && a.slot == b.slot;
}

bool sky_facts_fit(const sky_constellation *c, const sky_chunk_facts *facts) {
    return sky__on_torus(c, facts->centre) && sky__on_torus(c, facts->first) &&
           facts->window_planes <= c->planes && facts->window_slots <= c->slots;
}

/* The last row that begins at or before a turn. */
static const sky_handover *handover_at(const sky_turning *t, uint64_t turns) {
    size_t low = 0, high = t->handover_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (t->handovers[middle].turn <= turns)
            low = middle;
        else
            high = middle;
    }
    return &t->handovers[low];
}

sky_steps sky_turned(const sky_turning *t, uint64_t turns) {
    if (!t->handovers)
        return (sky_steps){0, turns > INT64_MAX ? -INT64_MAX : -(int64_t)turns};
    const sky_handover *now = handover_at(t, turns), *first = &t->handovers[0];
    return (sky_steps){(int64_t)now->plane - first->plane, (int64_t)now->slot - first->slot};
}

sky_satellite sky_chunk_place(const sky_constellation *c, const sky_turning *t,
                              const sky_chunk_facts *facts, uint64_t turns) {
    uint64_t then = sky_turns_at_ms(t, facts->set_ms);
    sky_placement p = {.strategy = facts->strategy,
                       .window_planes = facts->window_planes,
                       .window_slots = facts->window_slots};
    if (t->handovers) {
        sky_steps from = sky_turned(t, then), to = sky_turned(t, turns > then ? turns : then);
        return sky_place_stepped(c, &p, facts->centre, facts->first, to.planes - from.planes,
                                 to.slots - from.slots);
    }
    return sky_place_shifted(c, &p, facts->centre, facts->first, turns > then ? turns - then : 0);
}

bool sky_turn_before(const sky_turning *t, uint64_t turns, uint64_t *before) {
    uint64_t began = t->handovers ? handover_at(t, turns)->turn : turns;
    *before = began - (began > 0);
    return began > 0;
}

/* A chunk moves at least once in as many steps of the centre as the window has rows and columns. */
bool sky_chunk_place_before(const sky_constellation *c, const sky_turning *t,
                            const sky_chunk_facts *facts, uint64_t turns, sky_satellite *out) {
    uint64_t then = sky_turns_at_ms(t, facts->set_ms);
    sky_satellite now = sky_chunk_place(c, t, facts, turns);
    uint64_t most = (uint64_t)facts->window_slots + facts->window_planes;
    for (uint64_t back = 1; back <= most && sky_turn_before(t, turns, &turns) && turns >= then;
         back++) {
        sky_satellite place = sky_chunk_place(c, t, facts, turns);
        if (!sky_satellite_equal(place, now)) {
            *out = place;
            return true;
        }
    }
    return false;
}

uint32_t sky_chunk_last_places(const sky_constellation *c, const sky_turning *t,
                               const sky_chunk_facts *facts, uint64_t turns,
                               sky_satellite out[SKY_LAST_STEPS]) {
    const uint64_t set = sky_turns_at_ms(t, facts->set_ms);
    sky_satellite later = sky_chunk_place(c, t, facts, turns);
    uint32_t count = 0;
    for (uint32_t back = 1; back <= SKY_LAST_STEPS; back++) {
        if (!sky_turn_before(t, turns, &turns) || turns < set)
            break;
        sky_satellite place = sky_chunk_place(c, t, facts, turns);
        if (!sky_satellite_equal(place, later))
            out[count++] = place;
        later = place;
    }
    return count;
}

/* ---- the frame ---- */

static uint32_t step_ring(uint32_t from, uint32_t offset, uint32_t count) {
    return (from - 1 + offset) % count + 1;
}

static bool is_aboard(const sky_frame *f) {
    return sky_strategy_row_of(f->placement.strategy)->aboard;
}

static uint32_t offset_index(const sky_frame *f, sky_satellite from, sky_satellite to) {
    const sky_constellation *c = &f->constellation;
    uint32_t plane = (to.plane + c->planes - from.plane) % c->planes;
    uint32_t slot = (to.slot + c->slots - from.slot) % c->slots;
    return plane * c->slots + slot;
}

/* What waits outside the window is reached through the satellite overhead. */
static bool is_beyond(const sky_frame *f, sky_satellite from, sky_satellite s) {
    const sky_placement *p = &f->placement;
    return sky_strategy_row_of(p->strategy)->foresees &&
           (sky__ring_distance(from.plane, s.plane, f->constellation.planes) >
                p->window_planes / 2 ||
            sky__ring_distance(from.slot, s.slot, f->constellation.slots) > p->window_slots / 2);
}

static void measure_frame(sky_frame *f) {
    const sky_constellation *c = &f->constellation;
    const sky_satellite origin = {1, 1};
    double light_km_s = c->light_km_s > 0 ? c->light_km_s : 299792.458;
    bool aboard = is_aboard(f);
    for (uint32_t i = 0; i < f->satellite_count; i++) {
        sky_satellite s = sky_frame_satellite(f, i);
        double grid_s = sky_grid_km(c, origin, s) / light_km_s;
        double slant_s = sky_slant_km(c, origin, s) / light_km_s;
        if (is_beyond(f, origin, s))
            slant_s = c->altitude_km / light_km_s + grid_s;
        f->links_ns[i] = (sky_time)(grid_s * 1e9 + 0.5);
        f->ground_ns[i] = aboard ? f->links_ns[i] : (sky_time)(slant_s * 1e9 + 0.5);
    }
}

/* All but distances; `made` has constellation, centre and turning. */
static sky_status lay_out(sky_frame *made, const sky_placement *placement, sky_error *error) {
    const sky_constellation *c = &made->constellation;
    sky_status status = sky_placement_resolve(c, placement, &made->placement, error);
    if (status != SKY_OK)
        return status;
    made->satellite_count = c->planes * c->slots;
    if (made->satellite_count > SKY_FRAME_SATELLITES_MAX)
        return sky_fail(error, SKY_E_PARAM,
                        "%u satellites: at most %d in one sky; take fewer planes or slots",
                        made->satellite_count, SKY_FRAME_SATELLITES_MAX);
    if (!sky__on_torus(c, made->centre) || made->turning.rotation_ns < 1)
        return sky_fail(error, SKY_E_PARAM, "the centre %u,%u or the rotation time is out of range",
                        made->centre.plane, made->centre.slot);
    made->servers = calloc(made->placement.servers, sizeof *made->servers);
    status = SKY_E_NOMEM;
    if (made->servers)
        status = sky_place(c, &made->placement, made->centre, made->servers);
    return status == SKY_OK
               ? SKY_OK
               : sky_fail(error, status, "the placement of %u servers", made->placement.servers);
}

sky_status sky_frame_init_physical(sky_frame *f, const sky_placement *placement,
                                   const sky_physical *physical, const sky_turning *turning,
                                   sky_error *error) {
    sky_frame made = {.constellation = *sky_fleet_shell(physical->fleet), .turning = *turning};
    sky_status status = sky__true_create(physical, &made.physical, error);
    if (status != SKY_OK)
        return status;
    made.turning.handovers = made.physical->handovers;
    made.turning.handover_count = made.physical->handover_count;
    const sky_handover *first = &made.turning.handovers[0];
    made.centre = sky_strategy_row_of(placement->strategy)->aboard
                      ? physical->aboard
                      : sky__untwist(&made.constellation, first->plane, first->slot);
    status = lay_out(&made, placement, error);
    if (status != SKY_OK) {
        sky_frame_deinit(&made);
        return status;
    }
    *f = made;
    return SKY_OK;
}

sky_status sky_frame_init(sky_frame *f, const sky_constellation *constellation,
                          const sky_placement *placement, sky_satellite centre,
                          const sky_turning *turning, sky_error *error) {
    sky_frame made = {.constellation = *constellation, .centre = centre, .turning = *turning};
    sky_status status = lay_out(&made, placement, error);
    if (status == SKY_OK) {
        made.ground_ns = calloc(made.satellite_count, sizeof *made.ground_ns);
        made.links_ns = calloc(made.satellite_count, sizeof *made.links_ns);
        if (!made.ground_ns || !made.links_ns)
            status = sky_fail(error, SKY_E_NOMEM, "a sky of %u satellites", made.satellite_count);
    }
    if (status != SKY_OK) {
        sky_frame_deinit(&made);
        return status;
    }
    measure_frame(&made);
    *f = made;
    return SKY_OK;
}

void sky_frame_deinit(sky_frame *f) {
    free(f->servers);
    free(f->ground_ns);
    free(f->links_ns);
    sky__true_destroy(f->physical);
    memset(f, 0, sizeof *f);
}

sky_status sky_frame_init_ground(sky_frame *f, const sky_frame *home, sky_steps away,
                                 const sky_physical *physical, sky_error *error) {
    sky_frame made = *home;
    made.elsewhere = true;
    made.away = away;
    made.physical = NULL;
    if (home->physical) {
        sky_status status = sky__true_create(physical, &made.physical, error);
        if (status != SKY_OK)
            return status;
    }
    *f = made;
    return SKY_OK;
}

void sky_frame_deinit_ground(sky_frame *f) {
    sky__true_destroy(f->physical);
    memset(f, 0, sizeof *f);
}

uint32_t sky_frame_number(const sky_frame *f, sky_satellite s) {
    assert(sky__on_torus(&f->constellation, s));
    return (s.plane - 1) * f->constellation.slots + (s.slot - 1);
}

sky_satellite sky_frame_satellite(const sky_frame *f, uint32_t number) {
    return (sky_satellite){number / f->constellation.slots + 1,
                           number % f->constellation.slots + 1};
}

sky_satellite sky_frame_centre(const sky_frame *f, uint64_t turns) {
    if (is_aboard(f))
        return f->centre;
    if (f->physical) {
        sky_steps gone = sky_turned(&f->turning, turns);
        return sky__untwist(&f->constellation, f->centre.plane + gone.planes,
                            f->centre.slot + gone.slots);
    }
    return sky_overhead(&f->constellation, f->centre, turns);
}

sky_satellite sky_frame_access(const sky_frame *f, uint64_t turns) {
    sky_satellite centre = sky_frame_centre(f, turns);
    if (!f->elsewhere || is_aboard(f))
        return centre;
    if (f->physical)
        return sky_frame_satellite(f, sky__true_highest(f->physical, turns));
    return (sky_satellite){
        sky__ring_step(centre.plane, f->away.planes, f->constellation.planes),
        sky__ring_step(centre.slot, f->away.slots, f->constellation.slots),
    };
}

/* Steps from b to a on a ring of `count`, the shorter way. */
static int64_t shortest_steps(uint32_t a, uint32_t b, uint32_t count) {
    int64_t ahead = (a + count - b) % count;
    return ahead > count / 2 ? ahead - count : ahead;
}

sky_satellite sky_frame_first(const sky_frame *f, sky_satellite centre, uint32_t server) {
    const sky_constellation *c = &f->constellation;
    sky_satellite s = f->servers[server - 1];
    s.slot = SKY_BUG("window-off", 1) ? s.slot % c->slots + 1 : s.slot;
    if (f->physical)
        return sky__untwist(c, centre.plane + shortest_steps(s.plane, f->centre.plane, c->planes),
                            centre.slot + shortest_steps(s.slot, f->centre.slot, c->slots));
    return (sky_satellite){
        step_ring(centre.plane, s.plane + c->planes - f->centre.plane, c->planes),
        step_ring(centre.slot, s.slot + c->slots - f->centre.slot, c->slots),
    };
}

uint32_t sky_frame_server(const sky_frame *f, uint32_t number, uint32_t copies, uint32_t copy) {
    uint32_t servers = f->placement.servers;
    return (number - 1 + copy * (servers / copies)) % servers + 1;
}

/* ---- heads ---- */

#define HEADS_APART 2 /* slots */

/* Of those beside each other, as far as the sky is wide. */
static uint32_t heads_abreast(const sky_frame *f) {
    return f->placement.window_planes >= 3 ? 3 : 1;
}

uint32_t sky_frame_heads_max(const sky_frame *f) {
    uint32_t in_line = (f->constellation.slots - 1) / (2 * HEADS_APART) * 2;
    uint32_t room = heads_abreast(f) + in_line;
    if (!sky_strategy_row_of(f->placement.strategy)->windowed)
        return 1;
    return room < SKY_FRAME_HEADS_MAX ? room : SKY_FRAME_HEADS_MAX;
}

/* 0, 1, -1, 2, -2, ... as a step round a ring. */
static uint32_t sideways_step(uint32_t nth, uint32_t ring) {
    uint32_t step_out = (nth + 1) / 2;
    return nth % 2 ? step_out : (ring - step_out) % ring;
}

/* Beside the satellite overhead, where the ground still sees it; in its plane not next to it, for
 * that is where the head goes when the sky turns. */
sky_satellite sky_frame_head(const sky_frame *f, uint32_t copy) {
    const sky_constellation *c = &f->constellation;
    sky_satellite at = f->centre;
    uint32_t abreast = heads_abreast(f);
    if (copy < abreast)
        at.plane = (at.plane - 1 + sideways_step(copy, c->planes)) % c->planes + 1;
    else
        at.slot = (at.slot - 1 + HEADS_APART * sideways_step(copy - abreast + 1, c->slots)) %
                      c->slots +
                  1;
    return at;
}

bool sky_frame_in_sight(const sky_frame *f, uint64_t turns) {
    return !f->physical || is_aboard(f) ||
           sky__true_in_sight(f->physical, sky_frame_access(f, turns), turns);
}

double sky_frame_elevation_deg(const sky_frame *f, sky_satellite s, uint64_t turns) {
    if (!f->physical || is_aboard(f))
        return 90;
    bool straight = sky__true_in_sight(f->physical, s, turns);
    return sky__true_elevation_deg(f->physical, straight ? s : sky_frame_access(f, turns), turns);
}

bool sky_frame_joined(const sky_frame *f, sky_satellite a, sky_satellite b, uint64_t turns) {
    if (!f->physical)
        return true;
    if (a.plane && b.plane)
        return sky__true_joined(f->physical, a, b, turns);
    sky_satellite s = a.plane ? a : b, access = sky_frame_access(f, turns);
    if (is_aboard(f))
        return sky__true_joined(f->physical, access, s, turns);
    return sky__true_in_sight(f->physical, access, turns) &&
           (sky__true_in_sight(f->physical, s, turns) ||
            sky__true_joined(f->physical, access, s, turns));
}

bool sky_frame_hop(const sky_frame *f, sky_satellite from, sky_satellite to, uint64_t turns,
                   sky_satellite *hop) {
    return f->physical && sky__true_hop(f->physical, from, to, turns, hop);
}

uint32_t sky_frame_hops_max(const sky_frame *f) {
    const sky_constellation *c = &f->constellation;
    return (c->planes / 2 + c->slots / 2) * (f->physical ? 2 : 1);
}

bool sky_frame_whole(const sky_frame *f) {
    return !f->physical || sky__true_whole(f->physical);
}

sky_time sky_frame_ground_ns(const sky_frame *f, sky_satellite s, uint64_t turns) {
    if (f->physical && is_aboard(f))
        return sky__true_link_ns(f->physical, f->centre, s, turns);
    if (f->physical)
        return sky__true_ground_ns(f->physical, sky_frame_access(f, turns), s, turns);
    return f->ground_ns[offset_index(f, sky_frame_access(f, turns), s)];
}

sky_time sky_frame_link_ns(const sky_frame *f, sky_satellite a, sky_satellite b, uint64_t turns) {
    if (f->physical)
        return sky__true_link_ns(f->physical, a, b, turns);
    return f->links_ns[offset_index(f, a, b)];
}

/* Straight down at the horizon, and through the centre to the farthest corner of the window. */
static sky_time physical_ground_ns_max(const sky_frame *f) {
    sky_time most = 0;
    for (uint32_t i = 1; i <= f->placement.servers; i++) {
        sky_time ns = sky__true_way_ns_max(f->physical, f->centre,
                                           sky_frame_first(f, f->centre, i));
        most = ns > most ? ns : most;
    }
    if (f->elsewhere)
        most = sky__true_link_ns_max(f->physical);
    return most + (is_aboard(f) ? 0 : sky__true_ground_ns_max(f->physical));
}

/* Where a block waits anywhere in the sky. */
static sky_time farthest_ns(const sky_time *ns, uint32_t count) {
    sky_time most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = ns[i] > most ? ns[i] : most;
    return most;
}

/* As the sky turns a server visits every column of its row of the window. */
sky_time sky_frame_ground_ns_max(const sky_frame *f) {
    if (f->physical)
        return physical_ground_ns_max(f);
    const sky_constellation *c = &f->constellation;
    uint32_t reach = f->placement.window_slots / 2;
    sky_time most = 0;
    if (sky_strategy_row_of(f->placement.strategy)->foresees || f->elsewhere)
        return farthest_ns(f->ground_ns, f->satellite_count);
    for (uint32_t i = 0; i < f->placement.servers; i++) {
        sky_satellite s = f->servers[i];
        if (sky_strategy_row_of(f->placement.strategy)->migrates)
            s.slot = step_ring(f->centre.slot, reach % c->slots, c->slots);
        sky_time ns = f->ground_ns[offset_index(f, f->centre, s)];
        most = ns > most ? ns : most;
    }
    return most;
}

sky_time sky_frame_link_ns_max(const sky_frame *f) {
    if (f->physical)
        return sky__true_link_ns_max(f->physical);
    if (sky_strategy_row_of(f->placement.strategy)->foresees)
        return farthest_ns(f->links_ns, f->satellite_count);
    uint32_t steps = f->placement.window_slots; /* a chunk moves at most one window to the west */
    sky_time most = 0;
    for (uint32_t i = 0; i <= steps && i < f->constellation.slots; i++)
        most = f->links_ns[i] > most ? f->links_ns[i] : most;
    return most;
}

sky_time sky_link_busy_ns(uint64_t bits_s, uint64_t bytes) {
    if (bits_s == 0) /* no limit */
        return 0;
    unsigned __int128 ns = (unsigned __int128)bytes * 8 * 1000000000u;
    return (sky_time)((ns + bits_s - 1) / bits_s);
}
