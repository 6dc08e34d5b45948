/* A grid for satellites known by their elements: planes by their nodes, slots by how far along they
 * are.
 *
 *   nodes, sorted:  ||| |     |||||     ||  ||     → the widest relative step between gaps parts
 * planes
 *   each plane by argument of latitude; M slots, where planes × M is most; planes with fewer are
 * left
 *   out, and in fuller ones those that stand closest behind another
 *
 * Slot 1 of a plane is the satellite that is furthest along with slot 1 of the plane before; what
 * that leaves between the last plane and the first is the phasing. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "orbit/fleet.h"
#include "orbit/torus.h"
#include "orbit/trig.h"

typedef struct {
    uint32_t number;
    uint32_t plane;     /* from 0, in order of nodes */
    double node, along; /* radians, [0, 2π) */
    double radius_km, tilt;
} entry;

static int by_node(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node ? 1 : x->number < y->number ? -1 : 1;
}

static int by_plane(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->plane != y->plane)
        return x->plane < y->plane ? -1 : 1;
    return x->along < y->along ? -1 : x->along > y->along ? 1 : x->number < y->number ? -1 : 1;
}

static int compare_falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y ? 1 : 0;
}

static bool describe_entry(const sky_fleet *f, uint32_t number, int64_t ms, entry *out) {
    sky_motion s;
    if (sky_fleet_state(f, number, ms, &s) != SKY_ORBIT_FINE)
        return false;
    sky_vector r = s.r_km, v = s.v_km_s;
    sky_vector h = {r.y * v.z - r.z * v.y, r.z * v.x - r.x * v.z, r.x * v.y - r.y * v.x};
    double momentum = sqrt(h.x * h.x + h.y * h.y + h.z * h.z);
    double node = sky__atan2(h.x, -h.y);
    sky_turn_of n = sky__sincos(node);
    double up = r.z * sqrt(h.x * h.x + h.y * h.y) / momentum +
                (r.y * n.cosine - r.x * n.sine) * h.z / momentum;
    *out = (entry){.number = number,
                   .node = sky__turned(node),
                   .along = sky__turned(sky__atan2(up, r.x * n.cosine + r.y * n.sine)),
                   .radius_km = sqrt(r.x * r.x + r.y * r.y + r.z * r.z),
                   .tilt = sky__atan2(sqrt(h.x * h.x + h.y * h.y), h.z)};
    return true;
}

static double gap_after(const entry *e, uint32_t i, uint32_t count) {
    return i + 1 < count ? e[i + 1].node - e[i].node : e[0].node + SKY_TWO_PI - e[i].node;
}

/* How many planes: where gaps, from the widest on, drop the most. 0: no two. */
static uint32_t count_planes(const entry *e, uint32_t count, double *gaps) {
    for (uint32_t i = 0; i < count; i++)
        gaps[i] = gap_after(e, i, count);
    qsort(gaps, count, sizeof *gaps, compare_falling);
    uint32_t best = 0;
    double steepest = 2; /* less than that is no step */
    for (uint32_t k = 2; k <= count / 2; k++) {
        double drop = gaps[k - 1] / (gaps[k] + 1e-4);
        if (drop > steepest) {
            steepest = drop;
            best = k;
        }
    }
    return best;
}

/* Number the planes; the first begins after a wide gap. */
static void part_planes(entry *e, uint32_t count, double threshold) {
    uint32_t start = 0;
    while (gap_after(e, (start + count - 1) % count, count) < threshold)
        start++;
    uint32_t plane = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (start + i) % count;
        e[at].plane = plane;
        plane += gap_after(e, at, count) >= threshold;
    }
}

static uint32_t plane_size(const entry *e, uint32_t count, uint32_t from) {
    uint32_t size = 0;
    while (from + size < count && e[from + size].plane == e[from].plane)
        size++;
    return size;
}

/* Slots per plane that make the largest grid. */
static uint32_t choose_slots(const entry *e, uint32_t count, uint32_t *planes) {
    uint32_t of_size[SKY_SLOTS_MAX + 1] = {0}; /* planes; those with more count as full */
    uint32_t holds = 0, best = 0, most = 0;
    for (uint32_t i = 0, size; i < count; i += size) {
        size = plane_size(e, count, i);
        of_size[size < SKY_SLOTS_MAX ? size : SKY_SLOTS_MAX]++;
        holds += size >= 2;
    }
    for (uint32_t slots = 2; slots <= SKY_SLOTS_MAX && slots <= count; slots++) {
        if (holds >= 2 && holds <= SKY_PLANES_MAX && holds * slots > most) {
            most = holds * slots;
            best = slots;
            *planes = holds;
        }
        holds -= of_size[slots];
    }
    return best;
}

/* Those of a plane that are left, as a ring; and a heap of them by the gap to the next one. */
typedef struct {
    uint32_t before, after;
    double gap; /* as it was when last looked at: it only grows */
} neighbour;

typedef struct {
    neighbour *ring; /* [size] */
    uint32_t *heap;  /* [count] */
    uint32_t count;
} thinning;

static double gap_behind(const thinning *t, const entry *e, uint32_t i) {
    uint32_t next = t->ring[i].after;
    return e[next].along - e[i].along + (next <= i ? SKY_TWO_PI : 0);
}

static bool is_closer(const thinning *t, uint32_t a, uint32_t b) {
    return t->ring[a].gap < t->ring[b].gap || (t->ring[a].gap == t->ring[b].gap && a < b);
}

static void thinning_sink(thinning *t, uint32_t at) {
    const uint32_t moved = t->heap[at];
    for (uint32_t child; (child = 2 * at + 1) < t->count; at = child) {
        if (child + 1 < t->count && is_closer(t, t->heap[child + 1], t->heap[child]))
            child++;
        if (!is_closer(t, t->heap[child], moved))
            break;
        t->heap[at] = t->heap[child];
    }
    t->heap[at] = moved;
}

/* Leave out whoever stands closest behind another, until as many are left as there are slots;
 * what is behind them is then of no use. */
static void thin_plane(thinning *t, entry *e, uint32_t size, uint32_t slots) {
    t->count = size;
    for (uint32_t i = 0; i < size; i++) {
        t->heap[i] = i;
        t->ring[i] = (neighbour){.before = (i + size - 1) % size, .after = (i + 1) % size};
        t->ring[i].gap = gap_behind(t, e, i);
    }
    for (uint32_t i = size / 2; i-- > 0;)
        thinning_sink(t, i);
    while (t->count > slots) {
        neighbour *closest = &t->ring[t->heap[0]];
        double gap = gap_behind(t, e, t->heap[0]);
        if (gap > closest->gap) { /* the next one is gone */
            closest->gap = gap;
        } else {
            t->ring[closest->before].after = closest->after;
            t->ring[closest->after].before = closest->before;
            closest->gap = -1;
            t->heap[0] = t->heap[--t->count];
        }
        thinning_sink(t, 0);
    }
    for (uint32_t i = 0, left = 0; i < size; i++) {
        if (t->ring[i].gap >= 0)
            e[left++] = e[i];
    }
}

/* Which of a plane's satellites is nearest to `along`. */
static uint32_t nearest_along(const entry *e, uint32_t slots, double along) {
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < slots; i++) {
        double away = fabs(sky__turned(e[i].along - along + SKY_PI) - SKY_PI);
        if (away < least) {
            least = away;
            best = i;
        }
    }
    return best;
}

/* Fill the grid; returns the phasing. */
static uint32_t fill_grid(sky_fleet *f, thinning *t, entry *e, uint32_t count, uint32_t slots) {
    double along = 0;
    uint32_t plane = 0, first_start = 0;
    const entry *first = NULL;
    for (uint32_t i = 0, size; i < count; i += size) {
        size = plane_size(e, count, i);
        if (size < slots)
            continue;
        thin_plane(t, &e[i], size, slots);
        uint32_t start = nearest_along(&e[i], slots, along);
        along = e[i + start].along;
        if (!first) {
            first = &e[i];
            first_start = start;
        }
        for (uint32_t k = 0; k < slots; k++) {
            uint32_t number = e[i + (start + k) % slots].number;
            f->numbers[plane * slots + k] = number;
            f->members[number].place = (sky_satellite){plane + 1, k + 1};
        }
        plane++;
    }
    return (nearest_along(first, slots, along) + slots - first_start) % slots;
}

static void summarise_fleet(sky_fleet *f, const entry *e, uint32_t count, double widest_gap) {
    double radius = 0, tilt = 0;
    for (uint32_t i = 0; i < count; i++) {
        radius += e[i].radius_km / count;
        tilt += e[i].tilt / count;
    }
    f->shell.altitude_km = radius - 6378.137;
    f->shell.inclination_deg = tilt / SKY_DEGREE;
    f->shell.raan_spread_deg = widest_gap > SKY_PI / 2 ? 180 : 0;
}

static sky_status make_grid(sky_fleet *f, thinning *t, entry *e, uint32_t count, double *gaps) {
    qsort(e, count, sizeof *e, by_node);
    uint32_t planes = count >= 4 ? count_planes(e, count, gaps) : 0;
    if (planes < 2)
        return SKY_E_PARAM;
    part_planes(e, count, gaps[planes - 1]);
    qsort(e, count, sizeof *e, by_plane);
    uint32_t slots = choose_slots(e, count, &planes);
    if (slots == 0)
        return SKY_E_PARAM;
    uint32_t *numbers = calloc((size_t)planes * slots, sizeof *numbers);
    if (!numbers)
        return SKY_E_NOMEM;
    free(f->numbers);
    f->numbers = numbers;
    for (uint32_t i = 0; i < f->count; i++)
        f->members[i].place = (sky_satellite){0, 0};
    summarise_fleet(f, e, count, gaps[0]);
    f->shell.planes = planes;
    f->shell.slots = slots;
    f->shell.phasing = fill_grid(f, t, e, count, slots);
    return SKY_OK;
}

/* As the file has them; the phasing is in the satellites' places. Nobody is left out. */
static sky_status make_told_grid(sky_fleet *f, entry *e, uint32_t count, double *gaps) {
    uint32_t *numbers = f->numbers ? f->numbers : calloc(f->count, sizeof *numbers);
    if (!numbers)
        return SKY_E_NOMEM;
    f->numbers = numbers;
    if (count < f->count)
        return SKY_E_PARAM;
    qsort(e, count, sizeof *e, by_node);
    for (uint32_t i = 0; i < count; i++)
        gaps[i] = gap_after(e, i, count);
    qsort(gaps, count, sizeof *gaps, compare_falling);
    summarise_fleet(f, e, count, gaps[0]);
    f->shell.planes = f->told_planes;
    f->shell.slots = f->told_slots;
    f->shell.phasing = 0;
    for (uint32_t i = 0; i < count; i++) {
        f->numbers[i] = i;
        f->members[i].place = (sky_satellite){i / f->told_slots + 1, i % f->told_slots + 1};
    }
    return SKY_OK;
}

sky_status sky_fleet_arrange(sky_fleet *f, int64_t ms, sky_error *error) {
    if (!f)
        return sky_fail(error, SKY_E_PARAM, "no fleet given");
    if (!f->members)
        return SKY_OK; /* a shell is a grid */
    entry *e = calloc(f->count, sizeof *e);
    double *gaps = calloc(f->count, sizeof *gaps);
    thinning t = {.ring = calloc(f->count, sizeof *t.ring),
                  .heap = calloc(f->count, sizeof *t.heap)};
    sky_status status = SKY_E_NOMEM;
    uint32_t count = 0;
    if (!e || !gaps || !t.ring || !t.heap)
        goto cleanup;
    for (uint32_t i = 0; i < f->count; i++)
        count += describe_entry(f, i, ms, &e[count]);
    status = sky__fleet_is_told(f) ? make_told_grid(f, e, count, gaps)
                                   : make_grid(f, &t, e, count, gaps);
cleanup:
    free(e);
    free(gaps);
    free(t.ring);
    free(t.heap);
    if (status != SKY_OK)
        return sky_fail(error, status,
                        status == SKY_E_NOMEM ? "out of memory"
                        : sky__fleet_is_told(f)
                            ? "of the grid's satellites only %u have a place at that time"
                            : "%u satellites make no grid: at least two planes of two are needed",
                        count);
    return status;
}
