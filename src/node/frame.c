/* Turns, places and distances of one sky.
 *
 * A torus looks the same from everywhere, so distances are tables by offset: computed once, for the
 * satellite (1, 1). The same holds for the layout: server s of a placement around another centre
 * is the same step away from it. */
#include "node/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

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

static bool on_torus(const sky_constellation *c, sky_satellite s) {
    return s.plane >= 1 && s.plane <= c->planes && s.slot >= 1 && s.slot <= c->slots;
}

bool sky_facts_fit(const sky_constellation *c, const sky_chunk_facts *facts) {
    return on_torus(c, facts->centre) && on_torus(c, facts->first) &&
           facts->window_slots <= c->slots;
}

sky_satellite sky_chunk_place(const sky_constellation *c, const sky_turning *t,
                              const sky_chunk_facts *facts, uint64_t turns) {
    uint64_t then = sky_turns_at_ms(t, facts->set_ms);
    sky_placement p = {.strategy = facts->strategy, .window_slots = facts->window_slots};
    return sky_place_shifted(c, &p, facts->centre, facts->first, turns > then ? turns - then : 0);
}

/* ---- the frame ---- */

static uint32_t step(uint32_t from, uint32_t offset, uint32_t count) {
    return (from - 1 + offset) % count + 1;
}

static uint32_t offset_index(const sky_frame *f, sky_satellite from, sky_satellite to) {
    const sky_constellation *c = &f->constellation;
    uint32_t plane = (to.plane + c->planes - from.plane) % c->planes;
    uint32_t slot = (to.slot + c->slots - from.slot) % c->slots;
    return plane * c->slots + slot;
}

static void measure(sky_frame *f) {
    const sky_constellation *c = &f->constellation;
    const sky_satellite origin = {1, 1};
    double light_km_s = c->light_km_s > 0 ? c->light_km_s : 299792.458;
    for (uint32_t i = 0; i < f->satellite_count; i++) {
        sky_satellite s = sky_frame_satellite(f, i);
        double grid_s = sky_grid_km(c, origin, s) / light_km_s;
        double slant_s = sky_slant_km(c, origin, s) / light_km_s;
        f->links_ns[i] = (sky_time)(grid_s * 1e9 + 0.5);
        f->ground_ns[i] = f->placement.strategy == SKY_PLACE_HOP ? f->links_ns[i]
                                                                 : (sky_time)(slant_s * 1e9 + 0.5);
    }
}

sky_status sky_frame_init(sky_frame *f, const sky_constellation *constellation,
                          const sky_placement *placement, sky_satellite centre,
                          const sky_turning *turning, sky_error *error) {
    sky_frame made = {.constellation = *constellation, .centre = centre, .turning = *turning};
    sky_status status = sky_placement_resolve(constellation, placement, &made.placement, error);
    if (status != SKY_OK)
        return status;
    made.satellite_count = constellation->planes * constellation->slots;
    if (made.satellite_count > SKY_FRAME_SATELLITES_MAX)
        return sky_fail(error, SKY_E_PARAM,
                        "%u satellites: at most %d in one sky; take fewer planes or slots",
                        made.satellite_count, SKY_FRAME_SATELLITES_MAX);
    if (!on_torus(constellation, centre) || turning->rotation_ns < 1)
        return sky_fail(error, SKY_E_PARAM, "the centre %u,%u or the rotation time is out of range",
                        centre.plane, centre.slot);
    made.servers = calloc(made.placement.servers, sizeof *made.servers);
    made.ground_ns = calloc(made.satellite_count, sizeof *made.ground_ns);
    made.links_ns = calloc(made.satellite_count, sizeof *made.links_ns);
    status = SKY_E_NOMEM;
    if (made.servers && made.ground_ns && made.links_ns)
        status = sky_place(constellation, &made.placement, centre, made.servers);
    if (status != SKY_OK) {
        sky_frame_deinit(&made);
        return sky_fail(error, status, "the placement of %u servers", made.placement.servers);
    }
    measure(&made);
    *f = made;
    return SKY_OK;
}

void sky_frame_deinit(sky_frame *f) {
    free(f->servers);
    free(f->ground_ns);
    free(f->links_ns);
    memset(f, 0, sizeof *f);
}

uint32_t sky_frame_number(const sky_frame *f, sky_satellite s) {
    assert(on_torus(&f->constellation, s));
    return (s.plane - 1) * f->constellation.slots + (s.slot - 1);
}

sky_satellite sky_frame_satellite(const sky_frame *f, uint32_t number) {
    return (sky_satellite){number / f->constellation.slots + 1,
                           number % f->constellation.slots + 1};
}

sky_satellite sky_frame_centre(const sky_frame *f, uint64_t turns) {
    if (f->placement.strategy == SKY_PLACE_HOP)
        return f->centre;
    return sky_overhead(&f->constellation, f->centre, turns);
}

sky_satellite sky_frame_first(const sky_frame *f, sky_satellite centre, uint32_t server) {
    const sky_constellation *c = &f->constellation;
    sky_satellite s = f->servers[server - 1];
    return (sky_satellite){
        step(centre.plane, s.plane + c->planes - f->centre.plane, c->planes),
        step(centre.slot, s.slot + c->slots - f->centre.slot, c->slots),
    };
}

sky_time sky_frame_ground_ns(const sky_frame *f, sky_satellite s, uint64_t turns) {
    return f->ground_ns[offset_index(f, sky_frame_centre(f, turns), s)];
}

sky_time sky_frame_link_ns(const sky_frame *f, sky_satellite a, sky_satellite b) {
    return f->links_ns[offset_index(f, a, b)];
}

/* As the sky turns a server visits every column of its row of the window. */
sky_time sky_frame_ground_ns_max(const sky_frame *f) {
    const sky_constellation *c = &f->constellation;
    uint32_t reach = f->placement.window_slots / 2;
    sky_time most = 0;
    for (uint32_t i = 0; i < f->placement.servers; i++) {
        sky_satellite s = f->servers[i];
        if (f->placement.strategy != SKY_PLACE_HOP)
            s.slot = step(f->centre.slot, reach % c->slots, c->slots);
        sky_time ns = f->ground_ns[offset_index(f, f->centre, s)];
        most = ns > most ? ns : most;
    }
    return most;
}

sky_time sky_frame_link_ns_max(const sky_frame *f) {
    uint32_t steps = f->placement.window_slots; /* a chunk moves at most one window to the west */
    sky_time most = 0;
    for (uint32_t i = 0; i <= steps && i < f->constellation.slots; i++)
        most = f->links_ns[i] > most ? f->links_ns[i] : most;
    return most;
}

sky_time sky_link_busy_ns(uint64_t bits_s, uint64_t bytes) {
    unsigned __int128 ns = (unsigned __int128)bytes * 8 * 1000000000u;
    return (sky_time)((ns + bits_s - 1) / bits_s);
}
