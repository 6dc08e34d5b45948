/* Satellites in this process: a world in virtual time, led along the real clock. */
#include <stdlib.h>

#include "base/error.h"
#include "tier/sky/reach.h"

typedef struct {
    sky_reach reach;
    sky_world *world;
    const sky_clock *clock;
    sky_time began;   /* real time of virtual 0 */
    int64_t wall_ms;  /* then */
    int64_t start_ms; /* then, by the scenario */
} embedded;

static embedded *of(const sky_reach *r) {
    return (embedded *)(uintptr_t)r;
}

static sky_time world_now(const sky_reach *r) {
    return of(r)->clock->now(of(r)->clock) - of(r)->began;
}

static void world_run(sky_reach *r, sky_time until) {
    sky_world_run(of(r)->world, until);
}

static sky_time world_next(const sky_reach *r) {
    return sky_world_next(of(r)->world);
}

static int world_fd(const sky_reach *r) {
    (void)r;
    return -1;
}

static sky_status world_submit(sky_reach *r, const sky_request *request) {
    return sky_world_submit(of(r)->world, request);
}

static bool world_result(sky_reach *r, sky_result *out) {
    return sky_world_result(of(r)->world, out);
}

static const sky_session *world_session(const sky_reach *r) {
    return sky_world_session(of(r)->world);
}

static int64_t world_wall_ms(const sky_reach *r, int64_t set_ms) {
    return set_ms - of(r)->start_ms + of(r)->wall_ms;
}

static void world_stats(const sky_reach *r, sky_world_stat *out) {
    sky_world_stats(of(r)->world, out);
}

static void world_check(const sky_reach *r, sky_world_check *out) {
    sky_world_verify(of(r)->world, out);
}

static void world_destroy(sky_reach *r) {
    sky_world_destroy(of(r)->world);
    free(r);
}

static const sky_reach_ops ops = {
    .now = world_now,
    .run = world_run,
    .next = world_next,
    .fd = world_fd,
    .submit = world_submit,
    .result = world_result,
    .session = world_session,
    .wall_ms = world_wall_ms,
    .stats = world_stats,
    .check = world_check,
    .destroy = world_destroy,
};

sky_status sky_reach_world(const sky_scenario *scenario, uint64_t seed, const sky_clock *clock,
                           const sky_world_host *host, sky_reach **out, sky_error *error) {
    embedded *e = calloc(1, sizeof *e);
    if (!e)
        return sky_fail(error, SKY_E_NOMEM, "a sky");
    e->reach.ops = &ops;
    e->clock = clock;
    e->start_ms = scenario->time.start_ms;
    sky_status status = sky_world_create(scenario, seed, host, &e->world, error);
    if (status != SKY_OK) {
        free(e);
        return status;
    }
    e->began = clock->now(clock);
    e->wall_ms = clock->wall_ms(clock);
    *out = &e->reach;
    return SKY_OK;
}
