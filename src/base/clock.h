/* The two clocks a module may ask for, handed in so that tests and the simulator replace them, and
 * the order of times. The real clocks are sky_clock_system() in io/clock.h. */
#ifndef SKY_BASE_CLOCK_H
#define SKY_BASE_CLOCK_H

#include <skymem/types.h>

typedef struct sky_clock {
    sky_time (*now)(const struct sky_clock *clock);    /* monotonic ns */
    int64_t (*wall_ms)(const struct sky_clock *clock); /* ms since 1970 */
} sky_clock;

static inline sky_time sky__later(sky_time a, sky_time b) {
    return a > b ? a : b;
}

static inline sky_time sky__sooner(sky_time a, sky_time b) {
    return a < b ? a : b;
}

#endif
