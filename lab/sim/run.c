/* The simulator: a workload over the ground session of a world, in virtual time, judged as it goes.
 *
 *   workload ──► submit ──► [ world ] ──► results ──► ledger (sim/check.h)
 *                              │
 *                              └── every event ──► hash, and one line in the trace
 *
 * A run is a cache at work: get a key by popularity; what is missed is set; one request in 16 sets
 * anew whatever there is. With workload.chain keys are the blocks of prompts, one after another: a
 * request looks for a prompt's beginning, gets the blocks that are there and sets the others. Where
 * the workload says so some are something else: a key is removed, pinned, unpinned, or moved to
 * where it will be overhead in some turns. It ends at `until`, when nothing new is asked and what
 * is open comes in.
 *
 * What comes of it is judged in run_judge.c. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/file.h"
#include "lab/sim/run_state.h"
#include "lab/sim/trace.h"

#define SAMPLES_MAX  64 /* times the satellites' memory is compared with the index */
#define SAMPLES_MIN  12 /* in a large sky, where each takes long */
#define DRAIN_NS     SKY_SECONDS(120)
#define DRAIN_QUEUES 8 /* besides: full queues that a request may have to wait through */

#define OPEN_BYTES_MAX (512ull << 20) /* of values under way */

typedef sky__run run;
typedef sky__run_request request;

/* ---- trace ---- */

/* Another satellite holds the chunk. */
static bool has_another(const run *r, const sky_chunk_id *id) {
    uint32_t copies = 0;
    sky_node_chunk found;
    for (uint32_t i = 0; i < sky_world_alive(r->world) && copies < 2; i++)
        copies += sky_node_find(sky_world_alive_node(r->world, i), id, &found);
    return copies > 1;
}

/* Satellites had the time that it takes to make copies again. */
static void note_quiet(run *r) {
    sky_time now = sky_world_now(r->world);
    if (!sky__run_anything_goes(r) && now - r->crashed_until > r->sky.repair_ns)
        sky_check_copies_quiet(&r->copies, now);
}

static void note_copy_taken(run *r, const sky_node_chunk *chunk, bool last) {
    int64_t start_ms = sky_world_frame(r->world)->turning.start_ms;
    bool moved = chunk->facts.moves > 0; /* set_ms is the time that it is meant for */
    const sky_check_copy copy = {.key = sky_value_key_number(&chunk->id.key),
                                 .number = chunk->id.number,
                                 .version = chunk->id.version,
                                 .set_at = moved ? 0 : (chunk->facts.set_ms - start_ms) * SKY_MS(1),
                                 .last = last};
    if (r->copies_noted && copy.number > 0)
        sky_check_copies_taken(&r->copies, &copy, sky_world_now(r->world));
}

static bool is_loss_known(void *context, const sky_key *key, uint64_t version) {
    const run *r = context;
    return r->copies_noted &&
           sky_check_copies_explained(&r->copies, sky_value_key_number(key), version);
}

/* What has another copy in a satellite that can be asked is not lost. */
static void waive_chunk(void *context, const sky_node_chunk *chunk) {
    run *r = context;
    bool last = r->sky.copies == 1 || !has_another(r, &chunk->id);
    r->crashed_chunks++;
    r->crashed_heads += chunk->id.number == 0;
    note_copy_taken(r, chunk, last);
    if (last || sky__run_anything_goes(r)) {
        uint32_t key = sky_value_key_number(&chunk->id.key);
        sky_check_crashed(&r->check, key);
        if (sky__run_several(r))
            sky_check_fresh_forget(&r->fresh, key, sky_world_now(r->world));
    }
}

static void on_event(void *context, const sky_world_event *e) {
    run *r = context;
    uint8_t record[40];
    sky_store_u64(record, (uint64_t)e->at);
    sky_store_u32(record + 8, (uint32_t)e->kind);
    sky_store_u32(record + 12, e->from.plane);
    sky_store_u32(record + 16, e->from.slot);
    sky_store_u32(record + 20, e->to.plane);
    sky_store_u32(record + 24, e->to.slot);
    sky_store_u32(record + 28, e->bytes);
    sky_store_u64(record + 32, e->digest);
    sky_checksum_add(&r->hash, record, sizeof record);
    trace_line(&r->trace, e);
    if (e->kind == SKY_EVENT_CRASHED || e->kind == SKY_EVENT_PARTITIONED ||
        e->kind == SKY_EVENT_FROZEN)
        note_quiet(r);
    if (e->kind == SKY_EVENT_CRASHED) {
        const sky_node *node = sky_world_node(r->world, e->from);
        r->crashes++;
        r->crashed_until = e->at + r->scenario.faults.restart_ns;
        sky_check_nodes_crashed(&r->nodes, sky_frame_number(sky_world_frame(r->world), e->from));
        if (node)
            sky_node_each(node, waive_chunk, r);
    } else if ((e->kind == SKY_EVENT_PARTITIONED || e->kind == SKY_EVENT_FROZEN) &&
               e->from.plane > 0) { /* a station that is down loses nothing */
        sky__run_disturbed(r, e);
        if (r->scenario.outage_count > 0)
            r->crashed_until = sky__later(e->until, r->crashed_until);
    }
}

static void note_move(run *r, const sky_message *m) {
    if (m->type == SKY_WIRE_MOVE)
        sky_check_copies_moved(&r->copies, sky_value_key_number(&m->id.key),
                               sky_world_now(r->world));
}

/* A satellite says that it evicted a chunk: for another ground perhaps. */
static void note_evicted(run *r, const sky_message *m) {
    bool set = m->type == SKY_WIRE_SET_ACK && m->outcome == SKY_STORED_EVICTED;
    uint32_t key = sky_value_key_number(set ? &m->evicted.key : &m->id.key);
    if ((set || m->type == SKY_WIRE_GONE) && key < r->check.key_count)
        r->check.keys[key].evicted_at = sky_world_now(r->world);
}

static void on_message(void *context, sky_world_tap_kind kind, const sky_node *node,
                       const sky_datagram *message) {
    run *r = context;
    sky_message m;
    if (kind == SKY_TAP_ASKED) {
        sky_request_log_said(&r->log, sky_world_now(r->world),
                             message->from.slot > 0 ? message->from.slot - 1 : 0, message);
        return;
    }
    sky_check_nodes_tap(&r->nodes, kind, node, message);
    bool heard = kind == SKY_TAP_HEARD && r->copies_noted;
    bool said = kind == SKY_TAP_SAID && sky__run_several(r);
    if ((heard || said) && sky_message_decode(message->data, message->bytes, &m) == SKY_OK)
        (heard ? note_move : note_evicted)(r, &m);
}

/* ---- what the world asks of us ---- */

static bool run_fetch(void *host, void *context, uint64_t offset, void *data, size_t bytes) {
    (void)host;
    const request *q = context;
    sky_value_fill(&q->value, offset, data, bytes);
    return true;
}

static bool run_deliver(void *host, void *context, uint64_t offset, const void *data,
                        size_t bytes) {
    run *r = host;
    request *q = context;
    sky_check_get_bytes(&r->check, &q->get, offset, data, bytes);
    return true;
}

static void on_forgotten(void *host, uint32_t block, const sky_key *key) {
    run *r = host;
    assert(r->forgotten_count <= r->scenario.workload.keys);
    (void)block;
    sky_session_stat stat;
    sky_session_stats(sky_world_session(r->world), &stat);
    r->forgotten[r->forgotten_count++] = (sky__run_loss){sky_value_key_number(key), stat.purged};
}

/* Compare index and memory. A sample for which there is no memory is left out. */
static void run_sample(run *r, bool settled) {
    sky_check_sky_waiver waiver = {.chaos = sky__run_anything_goes(r),
                                   .settled = settled,
                                   .crashed_chunks = r->crashed_chunks,
                                   .crashed_heads = r->crashed_heads};
    waiver.quiet_ns = sky_world_now(r->world) - r->crashed_until;
    sky_check_sky_sample(&r->sky, r->world, &waiver);
    sky_world_stat stat;
    sky_world_stats(r->world, &stat);
    r->places_kept &= sky_world_places_taken(r->world) == stat.in_flight;
    sky_check_nodes_places(&r->nodes, r->world);
}

/* ---- the series ---- */

static void tell_interval(run *r, sky_time now) {
    sky_sim_interval *i = &r->interval;
    sky_world_stat stat;
    sky_world_stats(r->world, &stat);
    i->to_s = (double)now / 1e9;
    i->p50 = sky_latencies_quantile(r->interval_latencies, 0.5);
    i->p99 = sky_latencies_quantile(r->interval_latencies, 0.99);
    i->migrated_bytes = stat.nodes.migrated_bytes - r->migrated_before;
    i->rotations = stat.turns;
    i->ground_count = sky_world_grounds(r->world);
    for (uint32_t k = 0; k < i->ground_count; k++) {
        i->grounds[k].name = k > 0 ? r->scenario.grounds[k - 1].name : SKY_OBSERVER_NAME;
        i->grounds[k].p50 = sky_latencies_quantile(r->at[k].of_interval, 0.5);
        memset(r->at[k].of_interval, 0, sizeof *r->at[k].of_interval);
    }
    r->options->series(r->options->series_context, i);
    r->migrated_before = stat.nodes.migrated_bytes;
    *i = (sky_sim_interval){.from_s = i->to_s};
    memset(r->interval_latencies, 0, sizeof *r->interval_latencies);
    r->series_next = now + (sky_time)(r->options->series_s * 1e9);
}

static uint32_t judge_all_but_gets(run *r) {
    uint32_t count = 0;
    for (uint32_t ground = 0; ground < sky_world_grounds(r->world); ground++) {
        while (sky_world_result_at(r->world, ground, &r->results[count])) {
            if (((const request *)r->results[count].context)->op != SKY_OP_GET)
                sky__run_judge(r, &r->results[count]);
            else
                count++;
        }
    }
    return count;
}

/* After each call that lets the world act. Sets are judged before what was forgotten: in one call a
 * set may end, and the next one, which waited for room, take its place. Gets are judged after: a
 * block is forgotten first, and then missed. What is missed is set, which may end at once. */
static void run_collect(run *r) {
    uint32_t missed_count, used;
    do {
        uint32_t get_count = judge_all_but_gets(r);
        sky__run_judge_forgotten(r);
        missed_count = 0;
        for (uint32_t i = 0; i < get_count; i++) {
            const request *q = r->results[i].context;
            sky__run_judge(r, &r->results[i]);
            if (r->results[i].status != SKY_MISS)
                continue;
            r->missed[missed_count].who = q->who;
            r->missed[missed_count++].key = q->get.key;
        }
        for (uint32_t i = 0; i < missed_count; i++)
            sky__run_missed(r, &r->missed[i].who, r->missed[i].key);
        used = r->prompt_count;
        for (uint32_t i = 0; i < used; i++)
            sky__run_use_prompt(r, &r->prompts[i]);
        r->prompt_count = 0;
    } while (missed_count + used > 0);
}

/* ---- time ---- */

/* More is not worth waiting for, or would never end. */
static bool run_stops(const run *r) {
    return r->too_long || !r->nodes.calm;
}

/* Not past what a user asks meanwhile. */
static void run_advance(run *r, sky_time to) {
    while (!run_stops(r) && sky_world_next(r->world) <= sky__sooner(to, sky__run_wish_next(r)) &&
           sky_world_step(r->world)) {
        r->too_long = ++r->steps == r->options->events_max;
        run_collect(r);
    }
    if (!run_stops(r))
        sky_world_run(r->world, sky__sooner(to, sky__run_wish_next(r)));
}

/* Half of the samples are evenly spaced; half follow a turn closely, when chunks are on the way. */
static void plan_sample(run *r, sky_time until) {
    const sky_frame *f = sky_world_frame(r->world);
    sky_time spacing = until / (f->satellite_count <= 256 ? SAMPLES_MAX : SAMPLES_MIN);
    r->samples++;
    r->sample_next = spacing * (sky_time)r->samples;
    uint64_t turns = sky_turns(&f->turning, sky_world_now(r->world));
    sky_time soon = sky_turn_begins(&f->turning, turns + 1) +
                    (sky_time)sky_prng_below(&r->sample_prng, (uint64_t)SKY_MS(20));
    if (r->samples % 2 == 0 && soon < r->sample_next)
        r->sample_next = soon;
}

/* When to ask next: at every_ns, or, when that is 0, as soon as the last request is answered. */
static sky_time next_request(const run *r) {
    if (r->asked + sky__run_wishes_asking(r) >= r->scenario.workload.gets)
        return SKY_TIME_NEVER;
    if (r->scenario.workload.every_ns > 0)
        return r->request_next;
    return r->open_count + r->wish_count == 0 ? sky_world_now(r->world) : sky_world_next(r->world);
}

static sky_time run_gap(run *r) {
    const sky_scenario *s = &r->scenario;
    return s->workload.fixed ? s->workload.every_ns
                             : sky_gap_draw(&r->gap_prng, s->workload.every_ns);
}

static sky_time next_happening(const run *r) {
    return sky__sooner(sky_world_next(r->world), sky__run_wish_next(r));
}

/* What users asked arrives. */
static void run_land(run *r) {
    if (sky__run_wish_next(r) > sky_world_now(r->world))
        return;
    sky__run_wishes_arrive(r);
    run_collect(r);
}

/* What is open ends, and each end shows that the rest may: puts that wait for one another end one
 * after the other. */
static void run_drain(run *r, sky_time until) {
    const sky_time patience = DRAIN_NS +
                              DRAIN_QUEUES * sky_link_busy_ns(sky__run_slowest_bits_s(&r->scenario),
                                                              r->scenario.links.queue_bytes);
    sky_time end = until + patience;
    while (!run_stops(r) && r->open_count + r->wish_count > 0 && next_happening(r) < end) {
        const uint32_t open = r->open_count + r->wish_count;
        run_advance(r, next_happening(r));
        run_land(r);
        if (r->open_count + r->wish_count < open)
            end = sky_world_now(r->world) + patience;
    }
}

static void let_time_pass(run *r, sky_time until) {
    bool at_leisure = r->scenario.workload.every_ns == 0;
    plan_sample(r, until);
    r->request_next = r->scenario.workload.fixed ? 0 : run_gap(r);
    while (sky_world_now(r->world) < until && !run_stops(r)) {
        sky_time request_at = next_request(r);
        sky_time look_at = sky__sooner(sky__sooner(r->sample_next, r->series_next), r->reopen_next);
        run_advance(r, sky__sooner(sky__sooner(request_at, look_at), until));
        sky_time now = sky_world_now(r->world);
        sky__run_reopen(r);
        run_land(r);
        if (request_at <= now && !(at_leisure && r->open_count + r->wish_count > 0)) {
            sky__run_ask(r);
            run_collect(r);
            r->request_next += run_gap(r);
        }
        if (r->sample_next <= now) {
            run_sample(r, false);
            plan_sample(r, until);
        }
        if (r->series_next <= now)
            tell_interval(r, now);
    }
    run_drain(r, until);
    sky_time quiet = sky_world_now(r->world) + SKY_SECONDS(1); /* the last DROPs arrive */
    if (r->open_count == 0)
        run_advance(r, quiet);
    run_sample(r, r->open_count == 0);
}

/* ---- a run ---- */

static void add_check(sky_sim_result *result, const char *name, bool passed) {
    assert(result->check_count < SKY_SIM_CHECKS_MAX);
    snprintf(result->checks[result->check_count].name, sizeof result->checks[0].name, "%s", name);
    result->checks[result->check_count++].passed = passed;
}

static bool run_faultless(const sky_scenario *s) {
    return s->links.loss == 0 && s->links.ground_loss == 0 && s->links.isl_loss == 0 &&
           s->faults.crash_per_h == 0 && s->faults.partition_per_h == 0 && s->faults.corrupt == 0 &&
           s->faults.liar_satellites == 0 && s->faults.freeze_per_h == 0 &&
           s->faults.hostile_per_s == 0 && s->faults.skew_ns == 0 &&
           s->faults.reorder == 0 && /* answers come when nobody expects */
           s->outage_count == 0 && s->elevation_count == 0 && s->weather_count == 0;
}

static void report_grounds(const run *r, sky_sim_result *out) {
    out->ground_count = sky_world_grounds(r->world);
    for (uint32_t i = 0; i < out->ground_count; i++) {
        const char *name = i > 0 ? r->scenario.grounds[i - 1].name : SKY_OBSERVER_NAME;
        out->grounds[i] = (sky_sim_ground){
            .gets = r->at[i].gets,
            .hits = r->at[i].hits,
            .sets = r->at[i].sets,
            .unanswered = r->at[i].unanswered,
            .p50 = sky_latencies_quantile(r->at[i].latencies, 0.5),
            .p99 = sky_latencies_quantile(r->at[i].latencies, 0.99),
        };
        snprintf(out->grounds[i].name, sizeof out->grounds[i].name, "%s", name);
    }
}

static void run_report(const run *r, sky_time until, sky_sim_result *out) {
    sky_world_stat stat;
    sky_world_stats(r->world, &stat);
    sky_session_stat session;
    sky_session_stats(sky_world_session(r->world), &session);
    const sky_check *c = &r->check;
    *out = (sky_sim_result){.seed = c->seed,
                            .trace_hash = sky_checksum_end(&r->hash),
                            .virtual_s = (double)until / 1e9,
                            .closing_s = (double)(sky_world_now(r->world) - until) / 1e9,
                            .events = stat.events,
                            .sets = c->sets,
                            .gets = c->gets,
                            .hits = c->hits,
                            .misses = c->gets - c->hits,
                            .wrong_bytes = c->wrong_bytes,
                            .lost_acknowledged = c->lost_acknowledged,
                            .p50 = sky_latencies_quantile(r->latencies, 0.5),
                            .p99 = sky_latencies_quantile(r->latencies, 0.99),
                            .unanswered = c->unanswered,
                            .bytes_read = r->bytes_read,
                            .migrated_bytes = stat.nodes.migrated_bytes,
                            .message_bytes = stat.message_bytes,
                            .lookups = session.lookups,
                            .questions = session.questions};
    report_grounds(r, out);
    sky__run_land_report(r, out);
    add_check(out, "no_wrong_bytes", c->wrong_bytes == 0);
    add_check(out, "acknowledged_stays", c->lost_acknowledged == 0);
    if (!sky__run_several(r)) /* one index does not say what all of them put */
        add_check(out, "always_a_copy", r->sky.copies_kept);
    if (!sky__run_several(r) && r->sky.copies > 1)
        add_check(out, "redundancy_returns", r->sky.redundancy);
    if (!sky__run_several(r) && r->scenario.parity > 0)
        add_check(out, "parity_returns", r->sky.parity);
    if (sky__run_several(r))
        add_check(out, "no_older_value", r->fresh.older == 0);
    add_check(out, "memory_bounded", r->sky.memory_bounded);
    add_check(out, "queues_bounded", r->sky.queues_bounded);
    if (!sky__run_several(r))
        add_check(out, "index_and_sky_agree", r->sky.agrees);
    add_check(out, "every_request_ends", r->open_count == 0);
    add_check(out, "no_error_without_cause", r->unexcused == 0);
    add_check(out, "placed_by_rule", r->placed);
    add_check(out, "no_place_lost_in_flight", r->places_kept);
    add_check(out, "stored_when_acknowledged", r->nodes.stores);
    add_check(out, "every_request_answered_once", r->nodes.answers);
    add_check(out, "memory_keeps_bytes", r->nodes.sound);
    add_check(out, "dropped_when_told", r->nodes.drops);
    add_check(out, "turns_move_chunks", r->nodes.moves);
    add_check(out, "migration_ends", r->nodes.calm);
    if (run_faultless(&r->scenario) && stat.lost == 0 && /* a true sky's gaps lose messages */
        sky_frame_whole(sky_world_frame(r->world)))
        add_check(out, "every_get_answered", c->unanswered == 0);
}

static sky_status run_prepare(run *r, const sky_sim_options *options, sky_error *error) {
    const sky_scenario *s = &r->scenario;
    r->options = options;
    uint64_t open_max = OPEN_BYTES_MAX / s->workload.value_bytes;
    r->open_max = open_max < 2                   ? 2
                  : open_max < SKY__RUN_OPEN_MAX ? (uint32_t)open_max
                                                 : SKY__RUN_OPEN_MAX;
    sky_prng_init(&r->prng, options->seed);
    sky_prng_init(&r->sample_prng, ~options->seed);
    sky_prng_init(&r->gap_prng, options->seed ^ 0x676170);          /* "gap" */
    sky_prng_init(&r->other_prng, options->seed ^ 0x6f74686572);    /* "other" */
    sky_prng_init(&r->ground_prng, options->seed ^ 0x67726f756e64); /* "ground" */
    sky__run_reopen_init(r);
    sky_checksum_init(&r->hash, 0);
    sky_check_sky_init(&r->sky, s);
    r->series_next = SKY_TIME_NEVER;
    if (options->series) {
        r->series_next = (sky_time)(options->series_s * 1e9);
        r->interval_latencies = calloc(1, sizeof *r->interval_latencies);
    }
    bool fine = sky__run_land_init(r) == SKY_OK;
    fine &= sky_check_fresh_init(&r->fresh, s->workload.keys) == SKY_OK;
    r->copies_noted = r->sky.copies > 1 && !sky__run_several(r);
    if (r->copies_noted)
        fine &= sky_check_copies_init(&r->copies, s->workload.keys, r->sky.block_numbers,
                                      r->sky.repair_ns) == SKY_OK;
    for (uint32_t i = 0; i <= s->ground_count; i++) {
        r->at[i].latencies = calloc(1, sizeof *r->at[i].latencies);
        r->at[i].of_interval = options->series ? calloc(1, sizeof *r->at[i].of_interval) : NULL;
        fine &= r->at[i].latencies && (!options->series || r->at[i].of_interval);
    }
    r->forgotten = malloc((s->workload.keys + 1u) * sizeof *r->forgotten);
    r->latencies = calloc(1, sizeof *r->latencies);
    if (!fine || !r->forgotten || !r->latencies || (options->series && !r->interval_latencies) ||
        sky_check_init(&r->check, options->seed, s->workload.keys, s->workload.value_bytes) !=
            SKY_OK ||
        sky_zipf_init(&r->zipf, s->workload.keys / s->workload.chain, s->workload.zipf) != SKY_OK)
        return sky_fail(error, SKY_E_NOMEM, "memory for %u keys", s->workload.keys);
    r->check.several_grounds = sky__run_several(r);
    sky_world_host host = {r, run_fetch, run_deliver, on_forgotten};
    sky_status status = sky_world_create(s, sky_prng_u64(&r->prng), &host, &r->world, error);
    if (status != SKY_OK)
        return status;
    sky_world_trace_set(r->world, on_event, r);
    sky_world_loss_known_set(r->world, is_loss_known, r);
    r->placed = r->places_kept = true;
    if (sky_check_nodes_init(&r->nodes, sky_world_frame(r->world)->satellite_count) != SKY_OK)
        return sky_fail(error, SKY_E_NOMEM, "memory to check satellites with");
    sky_world_tap_set(r->world, on_message, r);
    return SKY_OK;
}

static void run_free(run *r) {
    sky_world_destroy(r->world);
    for (uint32_t i = 0; i < SKY__RUN_OPEN_MAX; i++) {
        free(r->requests[i].buffer);
        free(r->requests[i].chain);
    }
    sky_check_deinit(&r->check);
    sky_check_nodes_deinit(&r->nodes);
    sky_zipf_deinit(&r->zipf);
    sky_check_fresh_deinit(&r->fresh);
    sky_check_copies_deinit(&r->copies);
    sky__run_land_deinit(r);
    for (uint32_t i = 0; i < SKY_GROUNDS_MAX; i++) {
        free(r->at[i].latencies);
        free(r->at[i].of_interval);
    }
    free(r->forgotten);
    free(r->latencies);
    free(r->interval_latencies);
    free(r->trace.text);
    sky_request_log_deinit(&r->log);
    free(r);
}

/* What is wrong with a world stands in no one line of the file. */
static sky_status name_file(const char *name, sky_status status, sky_error *error) {
    sky_error why = *error;
    if (strncmp(why.text, name, strlen(name)) == 0)
        return status;
    return sky_fail(error, status, "%s: %s", name, why.text);
}

static sky_status run_scenario(run *r, const char *name, const sky_sim_options *options,
                               sky_sim_result *result, sky_error *error) {
    sky_time began = sky_now();
    sky_time until = r->scenario.until_ns;
    if (options->until_s > 0 && options->until_s < 366 * 86400.0)
        until = (sky_time)(options->until_s * 1e9 + 0.5);
    sky_status status = run_prepare(r, options, error);
    if (status != SKY_OK)
        return name_file(name, status, error);
    status = text_file_open(&r->trace, options->trace_path, error);
    if (status == SKY_OK)
        status = sky_request_log_open(&r->log, options->csv_path, sky_world_frame(r->world),
                                      SKY__RUN_OPEN_MAX, error);
    if (status != SKY_OK)
        return status;
    let_time_pass(r, until);
    status = text_file_close(&r->trace, options->trace_path, error);
    if (status == SKY_OK)
        status = sky_request_log_close(&r->log, options->csv_path, error);
    if (status != SKY_OK)
        return status;
    if (r->too_long)
        return sky_fail(error, SKY_E_BUSY, "%s: more than %" PRIu64 " events", name, r->steps - 1);
    run_report(r, until, result);
    result->wall_s = (double)(sky_now() - began) / 1e9;
    return SKY_OK;
}

sky_status sky_sim_run_text(const char *text, size_t bytes, const char *name,
                            const sky_sim_options *options, sky_sim_result *result,
                            sky_error *error) {
    sky_error unread;
    error = error ? error : &unread;
    run *r = calloc(1, sizeof *r);
    if (!r)
        return sky_fail(error, SKY_E_NOMEM, "%s: a run", name);
    r->trace.fd = r->log.file.fd = SKY_FILE_NONE;
    sky_status status = sky_scenario_parse_file(text, bytes, name, &r->scenario, error);
    if (status == SKY_OK)
        status = run_scenario(r, name, options, result, error);
    run_free(r);
    return status;
}

sky_status sky_sim_run(const char *scenario_path, const sky_sim_options *options,
                       sky_sim_result *result, sky_error *error) {
    char *text;
    size_t bytes;
    sky_status status = sky_file_read_all(scenario_path, SKY_SCENARIO_BYTES_MAX, &text, &bytes,
                                          error);
    if (status != SKY_OK)
        return status;
    status = sky_sim_run_text(text, bytes, scenario_path, options, result, error);
    free(text);
    return status;
}
