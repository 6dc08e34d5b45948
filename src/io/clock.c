#include "io/clock.h"

#include <time.h>

static int64_t read_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static sky_time system_now(const sky_clock *clock) {
    (void)clock;
    return read_ns(CLOCK_MONOTONIC);
}

static int64_t system_wall_ms(const sky_clock *clock) {
    (void)clock;
    return read_ns(CLOCK_REALTIME) / 1000000;
}

const sky_clock *sky_clock_system(void) {
    static const sky_clock system_clock = {system_now, system_wall_ms};
    return &system_clock;
}

sky_time sky_now(void) {
    return read_ns(CLOCK_MONOTONIC);
}

sky_time sky_thread_time(void) {
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}
