#include "sim/sim_tier.h"

#include <stdlib.h>

#include "base/error.h"
#include "sim/world.h"
#include "tier/sky/reach.h"
#include "tier/url.h"

typedef struct {
    sky_reach reach;
    sky_world *world;
    const sky_clock *clock;
    sky_time began;   /* real time of virtual 0 */
    int64_t wall_ms;  /* then */
    int64_t start_ms; /* then, by the scenario */
} embedded;

static embedded *embedded_of(const sky_reach *r) {
    return (embedded *)(uintptr_t)r;
}

static sky_time world_now(const sky_reach *r) {
    return embedded_of(r)->clock->now(embedded_of(r)->clock) - embedded_of(r)->began;
}

static void world_run(sky_reach *r, sky_time until) {
    sky_world_run(embedded_of(r)->world, until);
}

static sky_time world_next(const sky_reach *r) {
    return sky_world_next(embedded_of(r)->world);
}

static int world_fd(const sky_reach *r) {
    (void)r;
    return -1;
}

static sky_status world_submit(sky_reach *r, const sky_request *request) {
    return sky_world_submit(embedded_of(r)->world, request);
}

static bool world_result(sky_reach *r, sky_result *out) {
    return sky_world_result(embedded_of(r)->world, out);
}

static const sky_session *world_session(const sky_reach *r) {
    return sky_world_session(embedded_of(r)->world);
}

static int64_t world_wall_ms(const sky_reach *r, int64_t set_ms) {
    return set_ms - embedded_of(r)->start_ms + embedded_of(r)->wall_ms;
}

static void world_stats(const sky_reach *r, sky_reach_stat *out) {
    sky_world_stat w;
    sky_world_stats(embedded_of(r)->world, &w);
    *out = (sky_reach_stat){w.turns, w.overhead, w.nodes, w.transport};
}

static void world_check(const sky_reach *r, sky_reach_check *out) {
    sky_world_check c = {0};
    sky_world_verify(embedded_of(r)->world, 0, 0, &c);
    *out = (sky_reach_check){c.entries, c.bytes, c.corrupt, c.orphans};
}

static void world_destroy(sky_reach *r) {
    sky_world_destroy(embedded_of(r)->world);
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

typedef struct {
    const sky_scenario *scenario;
    uint64_t seed;
} embedding;

/* As sky_reach_open. */
static sky_status open_world(void *context, const sky_clock *clock, const sky_reach_host *host,
                             sky_reach **out, sky_error *error) {
    const embedding *of_what = context;
    const sky_world_host ours = {host->context, host->fetch, host->deliver, host->forgotten};
    embedded *e = calloc(1, sizeof *e);
    if (!e)
        return sky_fail(error, SKY_E_NOMEM, "a sky");
    e->reach.ops = &ops;
    e->clock = clock;
    e->start_ms = of_what->scenario->time.start_ms;
    sky_status status = sky_world_create(of_what->scenario, of_what->seed, &ours, &e->world, error);
    if (status != SKY_OK) {
        free(e);
        return status;
    }
    e->began = clock->now(clock);
    e->wall_ms = clock->wall_ms(clock);
    *out = &e->reach;
    return SKY_OK;
}

sky_status sky_sim_tier_create(const char *url, const sky_scenario *scenario, uint64_t seed,
                               const sky_tier_env *env, sky_tier **out, sky_error *error) {
    embedding e = {scenario, seed};
    return sky_reach_tier_create(url, scenario, open_world, &e, env, out, error);
}

sky_status sky_sim_tier_open(const char *text, const sky_tier_env *env, sky_tier **out,
                             sky_error *error) {
    sky_url url;
    sky_scenario scenario;
    uint64_t seed = 1;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "scale seed", error);
    if (status == SKY_OK)
        status = sky_url_u64(&url, "seed", &seed, error);
    if (status == SKY_OK)
        status = sky_scenario_load(url.path, &scenario, error);
    if (status == SKY_OK)
        status = sky_url_number(&url, "scale", &scenario.time.scale, error);
    if (status != SKY_OK)
        return status;
    if (!(scenario.time.scale > 0 && scenario.time.scale <= 1e9))
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: scale must be above 0, at most 1e9", text);
    return sky_sim_tier_create(text, &scenario, seed, env, out, error);
}
