/* Steps on the torus of planes × slots, inside src/orbit. */
#ifndef SKY_ORBIT_TORUS_H
#define SKY_ORBIT_TORUS_H

#include <assert.h>

#include <skymem/sky.h>

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

static inline void sky__assert_on_torus(const sky_constellation *c, sky_satellite s) {
    assert(s.plane >= 1 && s.plane <= c->planes && s.slot >= 1 && s.slot <= c->slots);
    (void)c, (void)s;
}

#endif
