/* Which satellite a server is, and how that changes as the sky turns.
 *
 *   slots, unwrapped:   … 2   3 [ 4   5   6 ] 7 …      window W = 3, centre 5, one plane
 *   after one rotation  … 2 [ 3   4   5 ] 6   7 …      what was on 6 is on 3: 6 ≡ 3 (mod 3)
 *
 * Surprise: "congruent modulo W" is meant on slots that are not wrapped. The centre goes c, c−1,
 * c−2 … below 1 and on; only the result is wrapped onto the ring. With slots reduced first the rule
 * would break each time the centre passes slot 1, because W need not divide M: servers would jump,
 * and two could meet. Unwrapped, each rotation moves the servers of one column of the window and
 * nobody else, for ever. When the window is as wide as the constellation the column re-enters where
 * it left, and nothing moves at all.
 *
 * Invariants: servers of one placement are on distinct satellites at any shift; inside the window
 * unless the strategy is hop; with W < M each server moves exactly once in W rotations. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "orbit/geometry.h"
#include "orbit/placement.h"
#include "orbit/torus.h"

/* ---- resolve ---- */

sky_status sky__constellation_check(const sky_constellation *c, sky_error *error) {
    if (!c)
        return sky_fail(error, SKY_E_PARAM, "no constellation given");
    if (c->planes < 1 || c->planes > SKY_PLANES_MAX)
        return sky_fail(error, SKY_E_PARAM, "planes is %u: 1 to %d", c->planes, SKY_PLANES_MAX);
    if (c->slots < 1 || c->slots > SKY_SLOTS_MAX)
        return sky_fail(error, SKY_E_PARAM, "slots is %u: 1 to %d", c->slots, SKY_SLOTS_MAX);
    if (!sky__orbit_valid(c))
        return sky_fail(error, SKY_E_PARAM,
                        "altitude %g km, inclination %g degrees, planes over %g degrees: out of "
                        "range, or no numbers",
                        c->altitude_km, c->inclination_deg, c->raan_spread_deg);
    return SKY_OK;
}

static sky_status check_weights(const sky_placement *p, sky_error *error) {
    bool unset = p->weight_intra == 0 && p->weight_inter == 0;
    bool positive = p->weight_intra > 0 && p->weight_inter > 0 &&
                    p->weight_intra <= DBL_MAX / 1e6 && p->weight_inter <= DBL_MAX / 1e6;
    if (!unset && !positive)
        return sky_fail(error, SKY_E_PARAM, "weights %g,%g: both greater than zero, or none given",
                        p->weight_intra, p->weight_inter);
    return SKY_OK;
}

/* 1×1, 1×3, 3×3, 3×5, 5×5 …: the first that holds the servers. */
static void smallest_window(sky_placement *p) {
    uint32_t height = 1;
    uint32_t width = 1;
    while (height * width < p->servers) {
        if (width == height)
            width += 2;
        else
            height += 2;
    }
    p->window_planes = height;
    p->window_slots = width;
}

static sky_status check_window(const sky_constellation *c, const sky_placement *p, bool given,
                               sky_error *error) {
    uint32_t height = p->window_planes;
    uint32_t width = p->window_slots;
    if (height % 2 == 0 || width % 2 == 0)
        return sky_fail(error, SKY_E_PARAM, "window %ux%u: both sides must be odd", height, width);
    if (height > c->planes || width > c->slots)
        return sky_fail(
            error, SKY_E_PARAM,
            given ? "window %ux%u is larger than the constellation of %u planes x %u slots"
                  : "the smallest window that holds the servers is %ux%u, larger than the "
                    "constellation of %u planes x %u slots: give a window, or fewer servers",
            height, width, c->planes, c->slots);
    if (p->servers > height * width)
        return sky_fail(error, SKY_E_PARAM, "%u servers: the window %ux%u holds %u", p->servers,
                        height, width, height * width);
    return SKY_OK;
}

sky_status sky_placement_resolve(const sky_constellation *c, const sky_placement *in,
                                 sky_placement *out, sky_error *error) {
    sky_status status = sky__constellation_check(c, error);
    if (status != SKY_OK)
        return status;
    if (!in || !out)
        return sky_fail(error, SKY_E_PARAM, "no placement given");
    sky_placement p = *in;
    if ((size_t)p.strategy >= SKY_STRATEGIES)
        return sky_fail(error, SKY_E_PARAM, "unknown strategy %d", (int)p.strategy);
    if (p.servers < 1 || p.servers > SKY_SERVERS_MAX)
        return sky_fail(error, SKY_E_PARAM, "servers is %u: 1 to %d", p.servers, SKY_SERVERS_MAX);
    if (p.servers > c->planes * c->slots)
        return sky_fail(error, SKY_E_PARAM,
                        "%u servers: the constellation of %u planes x %u slots has %u "
                        "satellites",
                        p.servers, c->planes, c->slots, c->planes * c->slots);
    status = check_weights(&p, error);
    if (status != SKY_OK)
        return status;
    if (!sky_strategy_row_of(p.strategy)->windowed) {
        p.window_planes = p.window_slots = 0;
    } else {
        bool given = p.window_planes != 0 || p.window_slots != 0;
        if (!given)
            smallest_window(&p);
        status = check_window(c, &p, given, error);
        if (status != SKY_OK)
            return status;
    }
    *out = p;
    return SKY_OK;
}

/* ---- place ---- */

static sky_status place_rows(const sky_constellation *c, const sky_placement *p,
                             sky_satellite centre, sky_satellite *out) {
    int64_t north = p->window_planes / 2;
    int64_t west = p->window_slots / 2;
    for (uint32_t i = 0; i < p->servers; i++) {
        int64_t row = i / p->window_slots;
        int64_t column = i % p->window_slots;
        out[i] = (sky_satellite){sky__ring_step(centre.plane, row - north, c->planes),
                                 sky__ring_step(centre.slot, column - west, c->slots)};
    }
    return SKY_OK;
}

/* A satellite the flood has reached but not yet placed, in a binary heap: least cost first, then
 * the one reached first. Where hops are counted that is exactly breadth-first order, for which a
 * queue will do. */
typedef struct {
    double cost;
    uint64_t order;
    sky_satellite at;
} candidate;

typedef struct {
    const sky_constellation *sky;
    const sky_placement *placement;
    sky_satellite centre;
    candidate *heap; /* where hops are counted a queue, from heap_first on */
    size_t heap_count, heap_first;
    bool even;
    uint64_t reached_count;
    uint8_t *reached; /* one bit a satellite */
} flood;

static bool candidate_before(const candidate *a, const candidate *b) {
    return a->cost < b->cost || (a->cost == b->cost && a->order < b->order);
}

static void heap_push(flood *f, candidate c) {
    size_t i = f->heap_count++;
    while (i > 0 && candidate_before(&c, &f->heap[(i - 1) / 2])) {
        f->heap[i] = f->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    f->heap[i] = c;
}

static candidate heap_pop(flood *f) {
    candidate top = f->heap[0];
    candidate last = f->heap[--f->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= f->heap_count)
            break;
        if (child + 1 < f->heap_count && candidate_before(&f->heap[child + 1], &f->heap[child]))
            child++;
        if (!candidate_before(&f->heap[child], &last))
            break;
        f->heap[i] = f->heap[child];
        i = child;
    }
    f->heap[i] = last;
    return top;
}

static uint32_t planes_out(const flood *f, sky_satellite s) {
    return sky__ring_distance(f->centre.plane, s.plane, f->sky->planes);
}

static uint32_t slots_out(const flood *f, sky_satellite s) {
    return sky__ring_distance(f->centre.slot, s.slot, f->sky->slots);
}

static bool in_window(const flood *f, sky_satellite s) {
    const sky_placement *p = f->placement;
    return !sky_strategy_row_of(p->strategy)->windowed ||
           (planes_out(f, s) <= p->window_planes / 2 && slots_out(f, s) <= p->window_slots / 2);
}

/* The cost of the cheapest path from the centre: on a torus that is the sum over both axes, and
 * computed so it does not depend on the order of additions. */
static double path_cost(const flood *f, sky_satellite s) {
    const sky_placement *p = f->placement;
    return slots_out(f, s) * p->weight_intra + planes_out(f, s) * p->weight_inter;
}

static void flood_reach(flood *f, sky_satellite s) {
    uint32_t bit = (s.plane - 1) * f->sky->slots + (s.slot - 1);
    if (f->reached[bit / 8] & (1u << bit % 8))
        return;
    f->reached[bit / 8] |= (uint8_t)(1u << bit % 8);
    if (f->even)
        f->heap[f->heap_count++].at = s;
    else
        heap_push(f, (candidate){path_cost(f, s), f->reached_count++, s});
}

/* Only links that lead outward are followed: the others are on no cheapest path, and on the far
 * side of the torus they are what would lead to a satellite a second time. */
static void reach_outward(flood *f, sky_satellite from) {
    uint32_t north = sky__ring_step(from.plane, -1, f->sky->planes);
    uint32_t south = sky__ring_step(from.plane, 1, f->sky->planes);
    uint32_t east = sky__ring_step(from.slot, 1, f->sky->slots);
    uint32_t west = sky__ring_step(from.slot, -1, f->sky->slots);
    const sky_satellite links[] = {
        {north, from.slot}, {from.plane, east}, {south, from.slot}, {from.plane, west}};
    uint32_t out = planes_out(f, from) + slots_out(f, from);
    for (size_t i = 0; i < 4; i++) {
        if (planes_out(f, links[i]) + slots_out(f, links[i]) > out && in_window(f, links[i]))
            flood_reach(f, links[i]);
    }
}

static sky_status place_flood(const sky_constellation *c, const sky_placement *p,
                              sky_satellite centre, sky_satellite *out) {
    sky_status status = SKY_OK;
    size_t satellites = (size_t)c->planes * c->slots;
    size_t heap_max = 4 * (size_t)p->servers + 1; /* each satellite placed reaches at most four */
    flood f = {.sky = c,
               .placement = p,
               .centre = centre,
               .even = p->weight_intra == 0}; /* hops are counted, and sums are exact */
    f.heap = malloc((heap_max < satellites ? heap_max : satellites) * sizeof *f.heap);
    f.reached = calloc((satellites + 7) / 8, 1);
    if (!f.heap || !f.reached) {
        status = SKY_E_NOMEM;
        goto cleanup;
    }
    flood_reach(&f, centre);
    for (uint32_t i = 0; i < p->servers; i++) {
        assert(f.heap_count > f.heap_first); /* a resolved placement fits */
        out[i] = f.even ? f.heap[f.heap_first++].at : heap_pop(&f).at;
        reach_outward(&f, out[i]);
    }
cleanup:
    free(f.heap);
    free(f.reached);
    return status;
}

/* ---- strategies ---- */

static const sky_strategy_row rows[SKY_STRATEGIES] = {
    [SKY_PLACE_ROTATION] = {"rotation", .windowed = true, .migrates = true},
    [SKY_PLACE_HOP] = {"hop", .aboard = true},
    [SKY_PLACE_ROTATION_HOP] = {"rotation-hop", .windowed = true, .migrates = true},
    [SKY_PLACE_PREDICTIVE] = {"predictive", .windowed = true, .foresees = true},
};

/* Apart from the rows: a satellite reads those, and has no memory to place by. */
static sky_status (*const placers[SKY_STRATEGIES])(const sky_constellation *c,
                                                   const sky_placement *p, sky_satellite centre,
                                                   sky_satellite *out) = {
    [SKY_PLACE_ROTATION] = place_rows,
    [SKY_PLACE_HOP] = place_flood,
    [SKY_PLACE_ROTATION_HOP] = place_flood,
    [SKY_PLACE_PREDICTIVE] = place_flood,
};

const sky_strategy_row *sky_strategy_row_of(sky_strategy strategy) {
    assert((size_t)strategy < SKY_STRATEGIES);
    return &rows[strategy];
}

const char *sky_strategy_name(sky_strategy strategy) {
    return (size_t)strategy < SKY_STRATEGIES ? rows[strategy].name : "unknown";
}

sky_status sky_strategy_parse(const char *text, sky_strategy *out) {
    if (!text || !out)
        return SKY_E_PARAM;
    for (size_t i = 0; i < SKY_STRATEGIES; i++) {
        if (strcmp(text, rows[i].name) == 0) {
            *out = (sky_strategy)i;
            return SKY_OK;
        }
    }
    return SKY_E_SYNTAX;
}

sky_status sky_place(const sky_constellation *c, const sky_placement *placement,
                     sky_satellite centre, sky_satellite *out) {
    sky_placement resolved;
    if (!out || sky_placement_resolve(c, placement, &resolved, NULL) != SKY_OK ||
        !sky__on_torus(c, centre))
        return SKY_E_PARAM;
    return placers[resolved.strategy](c, &resolved, centre, out);
}

/* ---- time ---- */

sky_satellite sky_overhead(const sky_constellation *c, sky_satellite centre, uint64_t shift) {
    if (!sky__torus_valid(c) || !sky__on_torus(c, centre))
        return (sky_satellite){0, 0};
    int64_t west = (int64_t)(shift % c->slots);
    return (sky_satellite){centre.plane, sky__ring_step(centre.slot, -west, c->slots)};
}

/* Unwrapped: the window is [c−k−r, c−k+r] with r = W/2, the first slot is u = c−r + column with
 * column in [0, W), and the slot of the window congruent to u mod W is (c−k−r) + ((column + k) mod
 * W). */
sky_satellite sky_place_shifted(const sky_constellation *c, const sky_placement *p,
                                sky_satellite centre, sky_satellite first, uint64_t shift) {
    if (!sky__torus_valid(c) || !sky__on_torus(c, centre) || !sky__on_torus(c, first) || !p ||
        (size_t)p->strategy >= SKY_STRATEGIES)
        return (sky_satellite){0, 0};
    if (!sky_strategy_row_of(p->strategy)->migrates)
        return first;
    if (p->window_slots < 1 || p->window_slots > c->slots)
        return (sky_satellite){0, 0};
    int64_t width = p->window_slots;
    int64_t reach_slots = width / 2;
    int64_t column = ((int64_t)first.slot + c->slots - centre.slot + reach_slots) % c->slots;
    int64_t today = (column + (int64_t)(shift % (uint64_t)width)) % width;
    sky_satellite overhead = sky_overhead(c, centre, shift);
    return (sky_satellite){first.plane,
                           sky__ring_step(overhead.slot, today - reach_slots, c->slots)};
}

static int64_t floor_modulo(int64_t a, int64_t n) {
    int64_t rest = a % n;
    return rest < 0 ? rest + n : rest;
}

/* Where `to` is as seen from `from`, in steps of the plane ring and of the slot ring; over the seam
 * the slots are counted as the torus is twisted there. */
static void offset_of(const sky_constellation *c, sky_satellite from, sky_satellite to,
                      int64_t *planes, int64_t *slots) {
    int64_t ring = c->planes;
    *planes = floor_modulo((int64_t)to.plane - from.plane + ring / 2, ring) - ring / 2;
    sky_satellite beside = sky__untwist(c, (int64_t)from.plane + *planes, from.slot);
    *slots = (int64_t)to.slot - beside.slot;
}

/* As above, in two directions. `first` may be a stranger's word and outside the window: then the
 * result is some satellite all agree on. */
sky_satellite sky_place_stepped(const sky_constellation *c, const sky_placement *p,
                                sky_satellite centre, sky_satellite first, int64_t planes,
                                int64_t slots) {
    sky__assert_on_torus(c, centre);
    sky__assert_on_torus(c, first);
    if (!sky_strategy_row_of(p->strategy)->migrates || p->window_planes == 0 ||
        p->window_slots == 0)
        return first;
    int64_t height = p->window_planes, width = p->window_slots, row, column;
    offset_of(c, centre, first, &row, &column);
    column = floor_modulo(column + width / 2, c->slots);
    row = floor_modulo(row + height / 2 - planes, height);
    column = floor_modulo(column - slots, width);
    return sky__untwist(c, (int64_t)centre.plane + planes - height / 2 + row,
                        (int64_t)centre.slot + slots - width / 2 + column);
}

int64_t sky_moves(const sky_constellation *c, const sky_placement *placement, sky_satellite centre,
                  uint64_t shift, sky_move *out) {
    sky_placement p;
    if (!out || shift < 1 || sky_placement_resolve(c, placement, &p, NULL) != SKY_OK)
        return SKY_E_PARAM;
    sky_satellite *first = malloc(p.servers * sizeof *first);
    if (!first)
        return SKY_E_NOMEM;
    int64_t count = sky_place(c, &p, centre, first);
    if (count != SKY_OK)
        goto cleanup;
    for (uint32_t i = 0; i < p.servers; i++) {
        sky_satellite from = sky_place_shifted(c, &p, centre, first[i], shift - 1);
        sky_satellite to = sky_place_shifted(c, &p, centre, first[i], shift);
        if (from.slot != to.slot)
            out[count++] = (sky_move){.from = from, .to = to, .server = i + 1};
    }
cleanup:
    free(first);
    return count;
}
