/* The seed authors' study, by flying it: a world of one block, set once and got a few times.
 *
 * Their time of a server is one way: light to its satellite plus its chunks one after another. The
 * run tells it too: an answer is delivered one light path after the satellite was done, so the last
 * delivery of each satellite, less its light path, is that server's time. The formula is computed
 * beside it from placement and distances alone; the two may differ by the rounding of one light
 * path to a nanosecond.
 *
 * Surprise: the payload is zeros. Checksums and copies cost the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/sim/study.h"
#include "lab/sim/workload.h"
#include "orbit/geometry.h"
#include "orbit/placement.h"
#include "sim/world.h"

#define PATIENCE_NS SKY_SECONDS(600)

typedef struct {
    const sky_study_point *point;
    sky_world *world;
    sky_latencies *latencies;
    sky_time began;
    bool timing;         /* note deliveries */
    sky_time *served_ns; /* [satellites]; of those that answered */
    sky_time longest;
    sky_study_result result;
} study;

static bool fetch_zeros(void *host, void *request, uint64_t offset, void *data, size_t bytes) {
    (void)host;
    (void)request;
    (void)offset;
    memset(data, 0, bytes);
    return true;
}

static bool deliver_nowhere(void *host, void *request, uint64_t offset, const void *data,
                            size_t bytes) {
    (void)host;
    (void)request;
    (void)offset;
    (void)data;
    (void)bytes;
    return true;
}

static void on_event(void *context, const sky_world_event *e) {
    study *s = context;
    if (!s->timing || e->kind != SKY_EVENT_DELIVERED)
        return;
    const sky_frame *f = sky_world_frame(s->world);
    sky_time light = sky_frame_ground_ns(f, e->from, sky_turns(&f->turning, e->at));
    s->served_ns[sky_frame_number(f, e->from)] = e->at - light - s->began;
}

/* ---- one request after another ---- */

static sky_status study_ask(study *s, sky_op op, sky_result *out) {
    sky_request request = {.op = op,
                           .payload_bytes = (uint32_t)s->point->block_bytes,
                           .room_bytes = s->point->block_bytes};
    memset(request.key.bytes, 1, sizeof request.key.bytes);
    s->began = sky_world_now(s->world);
    sky_status status = sky_world_submit(s->world, &request);
    while (status == SKY_OK && !sky_world_result(s->world, out)) {
        if (sky_world_next(s->world) > s->began + PATIENCE_NS || !sky_world_step(s->world))
            return SKY_E_IO;
    }
    return status == SKY_OK ? out->status : status;
}

static sky_status set_and_get(study *s, sky_error *error) {
    sky_result result;
    sky_status status = study_ask(s, SKY_OP_PUT, &result);
    if (status != SKY_OK)
        return sky_fail(error, status, "the block cannot be set: %s", sky_status_text(status));
    sky_world_loss_set(s->world, s->point->loss); /* gets are what is measured */
    sky_world_stat before;
    sky_world_stats(s->world, &before);
    for (uint32_t i = 0; i < s->point->gets; i++) {
        s->timing = i == 0;
        if (study_ask(s, SKY_OP_GET, &result) != SKY_OK)
            continue;
        sky_time ns = result.time.ended - result.time.began;
        s->longest = ns > s->longest ? ns : s->longest;
        sky_latencies_add(s->latencies, ns);
        s->result.answered++;
    }
    sky_world_stat after;
    sky_world_stats(s->world, &after);
    s->result.to_payload = (double)(after.message_bytes - before.message_bytes) /
                           ((double)s->point->gets * (double)s->point->block_bytes);
    return SKY_OK;
}

/* ---- what came of it ---- */

/* ---- the formula ---- */

static uint64_t chunks_of(const sky_study_point *p, uint32_t server) {
    uint64_t chunks = (p->block_bytes + p->chunk_bytes - 1) / p->chunk_bytes;
    uint32_t servers = p->placement.servers;
    return chunks >= server ? (chunks - server + servers) / servers : 0;
}

static uint32_t steps_between(uint32_t a, uint32_t b, uint32_t count) {
    uint32_t steps = a > b ? a - b : b - a;
    return steps < count - steps ? steps : count - steps;
}

/* Distances of neighbours, computed once for all servers. */
typedef struct {
    double plane_km, slot_km;
} spacing;

static spacing spacing_of(const sky_study_point *p) {
    return (spacing){sky_inter_plane_km(&p->constellation), sky_intra_plane_km(&p->constellation)};
}

/* Light one way, not rounded, and the chunks of the server one after another. */
static double formula_s(const sky_study_point *p, const spacing *between, sky_satellite at,
                        uint32_t server) {
    const sky_constellation *c = &p->constellation;
    double planes_km = between->plane_km * steps_between(at.plane, p->centre.plane, c->planes);
    double slots_km = between->slot_km * steps_between(at.slot, p->centre.slot, c->slots);
    double km = planes_km + slots_km;
    if (!sky_strategy_row_of(p->placement.strategy)->aboard)
        km = sqrt(planes_km * planes_km + slots_km * slots_km + c->altitude_km * c->altitude_km);
    double light_s = km / (c->light_km_s > 0 ? c->light_km_s : 299792.458);
    return light_s + (double)(chunks_of(p, server) * (uint64_t)p->processing_ns) / 1e9;
}

static sky_status study_compute(const sky_study_point *p, sky_study_result *r, sky_error *error) {
    sky_placement placement;
    sky_status status = sky_placement_resolve(&p->constellation, &p->placement, &placement, error);
    if (status != SKY_OK)
        return status;
    sky_satellite *servers = calloc(placement.servers, sizeof *servers);
    status = servers ? sky_place(&p->constellation, &placement, p->centre, servers) : SKY_E_NOMEM;
    spacing between = spacing_of(p);
    r->formula_min_s = INFINITY;
    for (uint32_t i = 0; status == SKY_OK && i < placement.servers; i++) {
        double s = formula_s(p, &between, servers[i], i + 1);
        r->formula_max_s = s > r->formula_max_s ? s : r->formula_max_s;
        r->formula_min_s = s < r->formula_min_s ? s : r->formula_min_s;
        r->formula_avg_s += s / placement.servers;
    }
    free(servers);
    return status == SKY_OK ? status : sky_fail(error, status, "a placement");
}

/* ---- what came of the flight ---- */

static void study_judge(study *s) {
    const sky_study_point *p = s->point;
    const sky_frame *f = sky_world_frame(s->world);
    sky_study_result *r = &s->result;
    spacing between = spacing_of(p);
    r->served_min_s = INFINITY;
    for (uint32_t i = 0; i < p->placement.servers; i++) {
        sky_satellite at = f->servers[i];
        sky_time served = s->served_ns[sky_frame_number(f, at)];
        if (chunks_of(p, i + 1) == 0)
            served = sky_frame_ground_ns(f, at, 0);
        r->served_max_s = fmax(r->served_max_s, (double)served / 1e9);
        r->served_min_s = fmin(r->served_min_s, (double)served / 1e9);
        r->served_avg_s += (double)served / 1e9 / p->placement.servers;
        double off_ns = fabs((double)served - formula_s(p, &between, at, i + 1) * 1e9);
        r->off_ns_max = fmax(r->off_ns_max, off_ns);
    }
    r->get_p50 = sky_latencies_quantile(s->latencies, 0.5);
    r->get_p99 = sky_latencies_quantile(s->latencies, 0.99);
    r->get_max_ms = (double)s->longest / 1e6;
    sky_world_stat stat;
    sky_world_stats(s->world, &stat);
    r->events = stat.events;
}

static sky_scenario scenario_of(const sky_study_point *p) {
    uint64_t chunks = (p->block_bytes + p->chunk_bytes - 1) / p->chunk_bytes;
    uint64_t share = chunks / (p->placement.servers - p->parity) + 2;
    return (sky_scenario){
        .constellation = p->constellation,
        .placement = p->placement,
        .centre = p->centre,
        .chunk_bytes = p->chunk_bytes,
        .satellite = {.memory_bytes = share * (p->chunk_bytes + 1024u),
                      .processing_ns = p->processing_ns},
        .links = {.isl_bits_s = p->isl_bits_s,
                  .ground_bits_s = p->ground_bits_s,
                  .queue_bytes = 1u << 30,
                  .datagrams = p->datagrams},
        .time = {.scale = 1, .rotation_ns = SKY_SECONDS(1000000)},
        .eviction = SKY_EVICT_GOSSIP,
        .parity = p->parity,
    };
}

static sky_status study_fly(study *s, sky_error *error) {
    sky_scenario scenario = scenario_of(s->point);
    sky_world_host host = {s, fetch_zeros, deliver_nowhere, NULL};
    sky_status status = sky_world_create(&scenario, s->point->seed, &host, &s->world, error);
    if (status != SKY_OK)
        return status;
    s->latencies = calloc(1, sizeof *s->latencies);
    s->served_ns = calloc(sky_world_frame(s->world)->satellite_count, sizeof *s->served_ns);
    if (!s->latencies || !s->served_ns)
        return sky_fail(error, SKY_E_NOMEM, "a point of the study");
    sky_world_trace_set(s->world, on_event, s);
    status = set_and_get(s, error);
    if (status == SKY_OK)
        study_judge(s);
    return status;
}

sky_status sky_study_run(const sky_study_point *point, sky_study_result *out, sky_error *error) {
    if (point->block_bytes < 1 || point->block_bytes > UINT32_MAX || point->chunk_bytes < 1 ||
        point->placement.servers < 1)
        return sky_fail(error, SKY_E_PARAM, "a block, a chunk and a server at least");
    if (point->parity >= point->placement.servers)
        return sky_fail(error, SKY_E_PARAM, "fewer pieces of parity than servers");
    study s = {.point = point};
    sky_status status = study_compute(point, &s.result, error);
    if (status == SKY_OK && point->gets > 0)
        status = study_fly(&s, error);
    if (status == SKY_OK)
        *out = s.result;
    sky_world_destroy(s.world);
    free(s.latencies);
    free(s.served_ns);
    return status;
}

sky_study_point sky_study_starlink(uint64_t ground_bits_s, uint32_t parity, uint32_t gets) {
    return (sky_study_point){
        .constellation = {.planes = 72, .slots = 22, .altitude_km = 550, .phasing = 17},
        .placement = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 25},
        .centre = {36, 11},
        .chunk_bytes = 6144,
        .block_bytes = 3040870,
        .processing_ns = 20000,
        .isl_bits_s = 100000000000u,
        .ground_bits_s = ground_bits_s,
        .parity = parity,
        .gets = gets,
        .seed = 1};
}
