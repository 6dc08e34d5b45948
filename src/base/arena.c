#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>

#define NONE SKY_EXTENT_NONE
#define USED (UINT32_MAX - 1) /* in `left`: not in the tree */

typedef struct {
    uint32_t start;
    uint32_t units;
    uint32_t before; /* the neighbour below, and above */
    uint32_t after;
    uint32_t left; /* in the tree; USED */
    uint32_t right;
} extent;

struct sky_arena {
    uint32_t root;
    uint32_t used_units;
    uint32_t extents_max;
    uint32_t touched; /* numbers from here on were never used */
    uint32_t spare;   /* numbers given back, linked through `after` */
    extent extents[];
};

/* The finaliser of MurmurHash3: neighbouring starts get unrelated priorities. */
static uint32_t extent_priority(const sky_arena *a, uint32_t n) {
    uint32_t h = a->extents[n].start;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static bool extent_is_smaller(const extent *x, const extent *y) {
    return x->units < y->units || (x->units == y->units && x->start < y->start);
}

static void tree_insert(sky_arena *a, uint32_t n) {
    extent *e = a->extents, *x = &e[n];
    uint32_t *link = &a->root;
    while (*link != NONE && extent_priority(a, *link) >= extent_priority(a, n))
        link = extent_is_smaller(x, &e[*link]) ? &e[*link].left : &e[*link].right;
    /* Split what hangs there into what is smaller than x and what is larger. */
    uint32_t rest = *link, *less = &x->left, *more = &x->right;
    *link = n;
    while (rest != NONE) {
        uint32_t **side = extent_is_smaller(x, &e[rest]) ? &more : &less;
        **side = rest;
        *side = side == &more ? &e[rest].left : &e[rest].right;
        rest = **side;
    }
    *less = *more = NONE;
}

static void tree_remove(sky_arena *a, uint32_t n) {
    extent *e = a->extents, *x = &e[n];
    uint32_t *link = &a->root;
    while (*link != n)
        link = extent_is_smaller(x, &e[*link]) ? &e[*link].left : &e[*link].right;
    /* Merge its subtrees in its place. */
    uint32_t left = x->left, right = x->right;
    while (left != NONE && right != NONE) {
        bool left_first = extent_priority(a, left) >= extent_priority(a, right);
        *link = left_first ? left : right;
        link = left_first ? &e[left].right : &e[right].left;
        *(left_first ? &left : &right) = *link;
    }
    *link = left != NONE ? left : right;
    x->left = USED;
}

static uint32_t best_fit(const sky_arena *a, uint32_t units) {
    uint32_t best = NONE;
    for (uint32_t n = a->root; n != NONE;) {
        bool fits = a->extents[n].units >= units;
        if (fits)
            best = n;
        n = fits ? a->extents[n].left : a->extents[n].right;
    }
    return best;
}

static uint32_t number_take(sky_arena *a) {
    if (a->spare == NONE)
        return a->touched < a->extents_max ? a->touched++ : NONE;
    uint32_t n = a->spare;
    a->spare = a->extents[n].after;
    return n;
}

static void number_give(sky_arena *a, uint32_t n) {
    a->extents[n].after = a->spare;
    a->spare = n;
}

sky_status sky_arena_create(uint32_t units, uint32_t extents_max, sky_arena **out) {
    if (units == 0 || extents_max == 0 || extents_max > 1u << 31)
        return SKY_E_PARAM;
    sky_arena *a = calloc(1, sizeof *a + extents_max * sizeof *a->extents);
    if (!a)
        return SKY_E_NOMEM;
    a->extents_max = extents_max;
    a->touched = 1;
    a->spare = a->root = NONE;
    a->extents[0] = (extent){.units = units, .before = NONE, .after = NONE};
    tree_insert(a, 0);
    *out = a;
    return SKY_OK;
}

void sky_arena_destroy(sky_arena *a) {
    free(a);
}

uint32_t sky_arena_take(sky_arena *a, uint32_t units) {
    assert(units > 0);
    uint32_t n = best_fit(a, units);
    if (n == NONE)
        return NONE;
    extent *e = a->extents, *x = &e[n];
    uint32_t rest = NONE;
    if (x->units > units && (rest = number_take(a)) == NONE)
        return NONE;
    tree_remove(a, n);
    if (rest != NONE) {
        e[rest] = (extent){x->start + units, x->units - units, n, x->after, NONE, NONE};
        if (x->after != NONE)
            e[x->after].before = rest;
        x->after = rest;
        x->units = units;
        tree_insert(a, rest);
    }
    a->used_units += units;
    return n;
}

/* Let x swallow the free neighbour above it. */
static void extent_merge(sky_arena *a, uint32_t n, uint32_t above) {
    extent *e = a->extents;
    e[n].units += e[above].units;
    e[n].after = e[above].after;
    if (e[n].after != NONE)
        e[e[n].after].before = n;
    number_give(a, above);
}

void sky_arena_give(sky_arena *a, uint32_t n) {
    extent *e = a->extents;
    assert(n < a->touched && e[n].left == USED);
    a->used_units -= e[n].units;
    uint32_t before = e[n].before, after = e[n].after;
    if (after != NONE && e[after].left != USED) {
        tree_remove(a, after);
        extent_merge(a, n, after);
    }
    if (before != NONE && e[before].left != USED) {
        tree_remove(a, before);
        extent_merge(a, before, n);
        n = before;
    }
    tree_insert(a, n);
}

uint32_t sky_arena_start(const sky_arena *a, uint32_t n) {
    return a->extents[n].start;
}

uint32_t sky_arena_units(const sky_arena *a, uint32_t n) {
    return a->extents[n].units;
}

uint32_t sky_arena_used_units(const sky_arena *a) {
    return a->used_units;
}
