/* A trace against two tiers: a memory (a list of block numbers by use) and the sky, flown.
 *
 *   request ──► leading blocks held? ── memory: at once
 *                      │             └─ sky: a get each, all at once; the slowest one counts
 *                      └──► the rest is computed ──► memory, and a set each to the sky
 *
 * Requests overlap as they did in the service: nothing waits for anything but its own blocks.
 * Surprise: a sky that loses a block it was thought to hold ends the prefix there, late. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/sync.h"
#include "lab/sim/replay.h"
#include "lab/sim/workload.h"
#include "sim/world.h"

#define NOBODY UINT32_MAX

/* Block numbers by use; the links of `memory_max` blocks, found by number. */
typedef struct {
    uint32_t *before, *after; /* [block_end + 1]; the last is the list's head */
    bool *held;
    uint32_t head;
    uint32_t count, max;
} memory;

/* A request whose sky blocks are on their way. */
typedef struct flying {
    const sky_replay_request *request;
    bool *from_memory; /* [blocks of the request] the rest came, or was to come, from the sky */
    uint32_t open;     /* gets without a result */
    uint32_t whole;    /* leading blocks there, if all gets succeed */
    sky_time began;
} flying;

/* A get or a set under way: which request (NULL: a set) and which of its blocks. */
typedef struct {
    flying *of;
    uint32_t index;
    bool used;
} errand;

typedef struct {
    const sky_replay_options *options;
    sky_world *world; /* NULL: none */
    uint32_t block_bytes;
    memory memory;
    errand *errands; /* [errand_max] */
    uint32_t *free_errands;
    uint32_t free_count;
    flying *flights;   /* [count], by request */
    bool *from_memory; /* of all requests' blocks, one request after the other */
    sky_latencies *ttft;
    double ttft_sum_s;
    sky_replay_result result;
} replay;

#define ERRANDS_MAX 1024

/* ---- memory ---- */

static bool memory_init(memory *m, uint32_t block_end, uint32_t max) {
    m->before = calloc((size_t)block_end + 1, sizeof *m->before);
    m->after = calloc((size_t)block_end + 1, sizeof *m->after);
    m->held = calloc((size_t)block_end + 1, sizeof *m->held);
    m->head = block_end;
    m->max = max;
    if (!m->before || !m->after || !m->held)
        return false;
    m->before[m->head] = m->after[m->head] = m->head;
    return true;
}

static void memory_deinit(memory *m) {
    free(m->before);
    free(m->after);
    free(m->held);
}

static void memory_take(memory *m, uint32_t block) {
    m->after[m->before[block]] = m->after[block];
    m->before[m->after[block]] = m->before[block];
    m->held[block] = false;
    m->count--;
}

/* Used now: first in the list, and if need be the last one goes. */
static void memory_use(memory *m, uint32_t block) {
    if (m->held[block])
        memory_take(m, block);
    else if (m->count == m->max && m->max > 0)
        memory_take(m, m->before[m->head]);
    if (m->max == 0)
        return;
    m->before[block] = m->head;
    m->after[block] = m->after[m->head];
    m->before[m->after[m->head]] = block;
    m->after[m->head] = block;
    m->held[block] = true;
    m->count++;
}

/* ---- the sky ---- */

static sky_key key_of(uint32_t block) {
    sky_value name = {.seed = 0x7265706c6179, .key = block};
    return sky_value_key(&name);
}

static bool in_sky(const replay *r, uint32_t block) {
    sky_key key = key_of(block);
    return r->world &&
           sky_index_find(sky_session_index(sky_world_session(r->world)), &key) != SKY_BLOCK_NONE;
}

static bool replay_submit(replay *r, sky_op op, const sky_replay_request *q, uint32_t index,
                          flying *of) {
    if (r->free_count == 0)
        return false;
    uint32_t e = r->free_errands[--r->free_count];
    r->errands[e] = (errand){.of = of, .index = index, .used = true};
    sky_request ask = {.op = op,
                       .key = key_of(q->blocks[index]),
                       .context = &r->errands[e],
                       .payload_bytes = r->block_bytes,
                       .room_bytes = r->block_bytes};
    if (op == SKY_OP_PUT && index > 0)
        ask.parent = key_of(q->blocks[index - 1]);
    if (sky_world_submit(r->world, &ask) == SKY_OK)
        return true;
    r->free_errands[r->free_count++] = e;
    return false;
}

static bool replay_fetch(void *host, void *request, uint64_t offset, void *data, size_t bytes) {
    (void)host;
    (void)request;
    (void)offset;
    memset(data, 0, bytes);
    return true;
}

static bool replay_deliver(void *host, void *request, uint64_t offset, const void *data,
                           size_t bytes) {
    (void)host;
    (void)request;
    (void)offset;
    (void)data;
    (void)bytes;
    return true;
}

/* ---- one request ---- */

/* All of its blocks that come at all are there: compute the rest, and keep what is new. */
static void replay_finish(replay *r, flying *f, sky_time now) {
    const sky_replay_request *q = f->request;
    uint64_t held_tokens = (uint64_t)f->whole * r->options->block_tokens;
    uint64_t left = q->tokens > held_tokens ? q->tokens - held_tokens : 0;
    double computed_s = (double)left / r->options->prefill_tokens_s;
    double loaded_s = (double)(now - f->began) / 1e9;
    r->result.computed_s += computed_s;
    r->result.loaded_s += loaded_s;
    r->ttft_sum_s += computed_s + loaded_s;
    sky_latencies_add(r->ttft, (sky_time)((computed_s + loaded_s) * 1e9));
    for (uint32_t i = 0; i < f->whole; i++) /* what is behind a hole was of no use */
        ++*(f->from_memory[i] ? &r->result.memory_hits : &r->result.sky_hits);
    for (uint32_t i = 0; i < q->block_count; i++) {
        memory_use(&r->memory, q->blocks[i]);
        if (!r->world || in_sky(r, q->blocks[i]))
            continue;
        if (replay_submit(r, SKY_OP_PUT, q, i, NULL))
            r->result.sky_sets++;
        else
            r->result.dropped_sets++;
    }
}

static void replay_begin(replay *r, flying *f, sky_time now) {
    const sky_replay_request *q = f->request;
    f->began = now;
    r->result.requests++;
    r->result.blocks += q->block_count;
    f->open = 1; /* so that it does not end while it begins */
    for (uint32_t i = 0; i < q->block_count; i++, f->whole++) {
        f->from_memory[i] = r->memory.held[q->blocks[i]];
        if (f->from_memory[i])
            continue;
        if (!in_sky(r, q->blocks[i]) || !replay_submit(r, SKY_OP_GET, q, i, f))
            break;
        f->open++;
    }
    if (--f->open == 0)
        replay_finish(r, f, now);
}

static void replay_collect(replay *r) {
    sky_result done;
    while (sky_world_result(r->world, &done)) {
        errand *e = done.context;
        flying *f = e->of;
        r->free_errands[r->free_count++] = (uint32_t)(e - r->errands);
        if (!f)
            continue;
        if (done.status != SKY_OK) {
            r->result.sky_misses++;
            f->whole = e->index < f->whole ? e->index : f->whole;
        }
        if (--f->open == 0)
            replay_finish(r, f, sky_world_now(r->world));
    }
}

/* ---- all ---- */

static void pass_time(replay *r, sky_time to) {
    if (!r->world)
        return;
    while (sky_world_next(r->world) <= to && sky_world_step(r->world))
        replay_collect(r);
    sky_world_run(r->world, to);
}

static bool any_open(const replay *r) {
    return r->world && r->free_count < ERRANDS_MAX;
}

static void run_all(replay *r, const sky_replay_request *requests, size_t count) {
    sky_time now = 0;
    bool *from_memory = r->from_memory;
    for (size_t i = 0; i < count; i++) {
        sky_time at = (sky_time)(requests[i].at_s * 1e9);
        now = at > now ? at : now;
        pass_time(r, now);
        r->flights[i] = (flying){.request = &requests[i], .from_memory = from_memory};
        from_memory += requests[i].block_count;
        replay_begin(r, &r->flights[i], now);
    }
    for (int second = 0; second < 600 && any_open(r); second++)
        pass_time(r, now += SKY_SECONDS(1));
    r->result.virtual_s = (double)now / 1e9;
}

static sky_status replay_prepare(replay *r, const sky_replay_request *requests, size_t count,
                                 sky_error *error) {
    const sky_replay_options *o = r->options;
    size_t blocks = 1;
    for (size_t i = 0; i < count; i++)
        blocks += requests[i].block_count;
    r->flights = calloc(count + 1, sizeof *r->flights);
    r->from_memory = calloc(blocks, sizeof *r->from_memory);
    r->errands = calloc(ERRANDS_MAX, sizeof *r->errands);
    r->free_errands = calloc(ERRANDS_MAX, sizeof *r->free_errands);
    r->ttft = calloc(1, sizeof *r->ttft);
    if (!r->flights || !r->from_memory || !r->errands || !r->free_errands || !r->ttft ||
        !memory_init(&r->memory, o->block_end, o->memory_blocks))
        return sky_fail(error, SKY_E_NOMEM, "memory for %zu requests", count);
    for (uint32_t i = 0; i < ERRANDS_MAX; i++)
        r->free_errands[r->free_count++] = i;
    if (!o->scenario_path)
        return SKY_OK;
    sky_scenario scenario;
    sky_status status = sky_scenario_load(o->scenario_path, &scenario, error);
    if (status != SKY_OK)
        return status;
    r->block_bytes = (uint32_t)scenario.workload.value_bytes;
    sky_world_host host = {r, replay_fetch, replay_deliver, NULL};
    return sky_world_create(&scenario, o->seed, &host, &r->world, error);
}

static bool requests_fit(const sky_replay_request *requests, size_t count, uint32_t end) {
    for (size_t i = 0; i < count; i++) {
        if (!(requests[i].at_s >= 0 && requests[i].at_s <= SKY_REPLAY_S_MAX))
            return false;
        for (uint32_t b = 0; b < requests[i].block_count; b++)
            if (requests[i].blocks[b] >= end)
                return false;
    }
    return true;
}

sky_status sky_replay_run(const sky_replay_request *requests, size_t count,
                          const sky_replay_options *options, sky_replay_result *out,
                          sky_error *error) {
    if (!(options->prefill_tokens_s > 0) || options->block_tokens < 1 ||
        !requests_fit(requests, count, options->block_end))
        return sky_fail(error, SKY_E_PARAM,
                        "a request's time, a block's number, its tokens or the speed of prefill");
    sky_time began = sky_now();
    replay r = {.options = options};
    sky_status status = replay_prepare(&r, requests, count, error);
    if (status != SKY_OK)
        goto cleanup;
    run_all(&r, requests, count);
    if (r.world) {
        sky_world_stat stat;
        sky_world_stats(r.world, &stat);
        r.result.events = stat.events;
        r.result.evictions = stat.nodes.evictions;
        r.result.gossip = stat.nodes.gossip;
    }
    r.result.ttft_mean_s = count ? r.ttft_sum_s / (double)count : 0;
    r.result.ttft_p50_s = sky_latencies_ms(r.ttft, 0.5) / 1e3;
    r.result.ttft_p99_s = sky_latencies_ms(r.ttft, 0.99) / 1e3;
    r.result.wall_s = (double)(sky_now() - began) / 1e9;
    *out = r.result;
cleanup:
    sky_world_destroy(r.world);
    memory_deinit(&r.memory);
    free(r.flights);
    free(r.from_memory);
    free(r.errands);
    free(r.free_errands);
    free(r.ttft);
    return status;
}
