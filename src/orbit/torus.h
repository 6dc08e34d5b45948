/* Steps on the torus of planes × slots, inside src/orbit. */
#ifndef SKY_ORBIT_TORUS_H
#define SKY_ORBIT_TORUS_H

#include <assert.h>

#include <skymem-sky/sky.h>

/* `number` counts from 1 on a ring of `count`; `steps` east or south of it, any sign. */
static inline uint32_t sky__ring_step(uint32_t number, int64_t steps, uint32_t count) {
    int64_t at = ((int64_t)number - 1 + steps) % (int64_t)count;
    return (uint32_t)(at < 0 ? at + (int64_t)count : at) + 1;
}

/* The shorter way between two numbers of a ring. */
static inline uint32_t sky__ring_distance(uint32_t a, uint32_t b, uint32_t count) {
    uint32_t way = a > b ? a - b : b - a;
    return way <= count - way ? way : count - way;
}

/* A plane and slot that were counted on without wrapping: past the last plane comes the first, its
 * slots `phasing` further on, so that neighbours in the sky stay neighbours in numbers. */
static inline sky_satellite sky__untwist(const sky_constellation *c, int64_t plane, int64_t slot) {
    int64_t planes = (int64_t)c->planes;
    int64_t rounds = (plane - 1) / planes - ((plane - 1) % planes < 0);
    return (sky_satellite){(uint32_t)(plane - rounds * planes),
                           sky__ring_step(1, slot - 1 + rounds * (int64_t)c->phasing, c->slots)};
}

static inline bool sky__on_torus(const sky_constellation *c, sky_satellite s) {
    return s.plane >= 1 && s.plane <= c->planes && s.slot >= 1 && s.slot <= c->slots;
}

static inline void sky__assert_on_torus(const sky_constellation *c, sky_satellite s) {
    assert(sky__on_torus(c, s));
    (void)c, (void)s;
}

/* What public functions ask of a caller's constellation: that it has planes and slots to count. */
static inline bool sky__torus_valid(const sky_constellation *c) {
    return c && c->planes >= 1 && c->planes <= SKY_PLANES_MAX && c->slots >= 1 &&
           c->slots <= SKY_SLOTS_MAX;
}

#endif
