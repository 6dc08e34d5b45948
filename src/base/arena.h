/* Handing out parts of a region: an allocator that never touches the region.
 *
 *   region  |  used 0  |   free 4   | used 1 | used 2 |      free 3        |      in units
 *              ◄──────── neighbours, linked both ways ───────────────►
 *   tree    free extents ordered by (units, start):  4 < 3
 *
 * Best fit, lowest address first: take finds the smallest free extent that is large enough, so that
 * a hole left by one block fits the next of its size exactly, and untouched memory is used last.
 * Give merges with free neighbours at once. Both take O(log n) steps.
 *
 * Invariants: extents cover the region without gap or overlap; no two free neighbours; every free
 * extent is in the tree. The tree is a treap whose priorities are a hash of the start: balanced on
 * average, without anything random.
 *
 * Not thread-safe. All memory is taken at creation: 24 bytes an extent, touched only as far as
 * used. */
#ifndef SKY_BASE_ARENA_H
#define SKY_BASE_ARENA_H

#include <skymem/types.h>

typedef struct sky_arena sky_arena;

/* Extents are numbered 0 … extents_max-1; a number is free again after give, so that owners may
 * keep arrays beside the arena. */
#define SKY_EXTENT_NONE UINT32_MAX

/* Manage `units` units in at most extents_max extents, free ones included: n in use never need more
 * than 2n+1.
 * Errors: SKY_E_PARAM (units or extents_max is 0, or extents_max is over 2^31), SKY_E_NOMEM */
sky_status sky_arena_create(uint32_t units, uint32_t extents_max, sky_arena **out);
void sky_arena_destroy(sky_arena *a);

/* `units` >= 1 adjacent units; SKY_EXTENT_NONE when there is no such room, or no extent number. */
uint32_t sky_arena_take(sky_arena *a, uint32_t units);
void sky_arena_give(sky_arena *a, uint32_t extent);

uint32_t sky_arena_start(const sky_arena *a, uint32_t extent);
uint32_t sky_arena_units(const sky_arena *a, uint32_t extent);
uint32_t sky_arena_used_units(const sky_arena *a);

#endif
