/* The world: who gets which message when. See world.h for the picture.
 *
 * Ids in the schedule: one per satellite (its wake time), one for the session, two for faults, and
 * one per message in flight, which is always on the way to exactly one next point. */
#include "sim/world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/prng.h"
#include "sim/schedule.h"

#define REQUESTS_MAX   1024
#define BLOCKS_MAX     65536u
#define OPERATIONS_MIN 8192u
#define OPERATIONS_MAX 65536u
#define RETRIES_MAX    6
#define MIGRATE_WINDOW 1024
#define BUFFERS_KEPT   2560
#define SMALL_BYTES    192 /* all messages without data */
#define PARTITION_NS   SKY_SECONDS(10)
#define RETRY_NS       SKY_MS(1) /* when there was no buffer left to send with */
#define NONE           UINT32_MAX

typedef struct {
    sky_node node;
    void *memory; /* NULL: holds nothing, does not exist */
    sky_time link_free;
    sky_time cut_until;
    sky_time skew_ns; /* its clock is ahead by this */
    bool liar;
} site;

/* A message on its way. */
typedef struct {
    sky_satellite from, to;
    uint8_t *data;
    uint32_t bytes;
    uint32_t next; /* in the free list */
    bool small;
    bool at_terminal; /* light is behind it; it waits for the downlink */
} flight;

/* Buffers of one size, made when first needed, some kept for the next message. */
typedef struct {
    size_t bytes;
    uint32_t max, made, free_count;
    uint8_t **free_list;
} pool;

struct sky_world {
    sky_scenario scenario;
    sky_frame frame;
    sky_node_config node_config;
    sky_session *session;
    site *sites;
    sky_schedule schedule;
    sky_prng prng;
    sky_time now;

    flight *flights;
    uint32_t flight_max, flight_fresh, flight_free;
    pool large, small;

    uint64_t terminal_bits_s;
    sky_time up_free, down_free;
    sky_time terminal_queue_ns, link_queue_ns; /* what a full queue takes to send */
    sky_time light_extra_ns;                   /* most a reordered message is held back */

    sky_world_trace trace;
    void *trace_context;
    sky_world_stat stat; /* nodes: of satellites that are gone */
};

/* ---- buffers ---- */

static bool pool_init(pool *p, size_t bytes, uint32_t max) {
    *p = (pool){.bytes = bytes, .max = max};
    p->free_list = calloc(BUFFERS_KEPT, sizeof *p->free_list);
    return p->free_list;
}

static uint8_t *pool_take(pool *p) {
    if (p->free_count > 0)
        return p->free_list[--p->free_count];
    if (p->made == p->max)
        return NULL;
    uint8_t *buffer = malloc(p->bytes);
    p->made += buffer != NULL;
    return buffer;
}

static void pool_give(pool *p, uint8_t *buffer) {
    if (p->free_count < BUFFERS_KEPT) {
        p->free_list[p->free_count++] = buffer;
    } else { /* a burst is over */
        p->made--;
        free(buffer);
    }
}

static void pool_deinit(pool *p) {
    while (p->free_count > 0)
        free(p->free_list[--p->free_count]);
    free(p->free_list);
}

/* ---- ids ---- */

static uint32_t session_id(const sky_world *w) {
    return w->frame.satellite_count;
}

static uint32_t crash_id(const sky_world *w) {
    return w->frame.satellite_count + 1;
}

static uint32_t partition_id(const sky_world *w) {
    return w->frame.satellite_count + 2;
}

static uint32_t flight_id(const sky_world *w, uint32_t f) {
    return w->frame.satellite_count + 3 + f;
}

static bool is_ground(sky_satellite s) {
    return s.plane == 0;
}

static site *site_of(const sky_world *w, sky_satellite s) {
    return &w->sites[sky_frame_number(&w->frame, s)];
}

static void tell(const sky_world *w, sky_event_kind kind, const flight *f, sky_satellite from) {
    if (!w->trace)
        return;
    sky_world_event e = {.at = w->now, .kind = kind, .from = from};
    if (f) {
        e.from = f->from;
        e.to = f->to;
        e.bytes = f->bytes;
        e.digest = sky_checksum(f->data, f->bytes, 0);
    }
    w->trace(w->trace_context, &e);
}

/* ---- links ---- */

static bool chance(sky_world *w, double probability) {
    return probability > 0 && sky_prng_unit(&w->prng) < probability;
}

static pool *pool_of(sky_world *w, bool small) {
    return small ? &w->small : &w->large;
}

/* A flight that owns `data`, a buffer of its pool; NONE, and the buffer back in the pool, when
 * there are too many. */
static uint32_t flight_begin(sky_world *w, uint8_t *data, bool small) {
    uint32_t f = w->flight_free;
    if (f != NONE) {
        w->flight_free = w->flights[f].next;
    } else if (w->flight_fresh < w->flight_max) {
        f = w->flight_fresh++;
    } else {
        pool_give(pool_of(w, small), data);
        return NONE;
    }
    w->flights[f] = (flight){.data = data, .small = small};
    return f;
}

static void flight_end(sky_world *w, uint32_t f) {
    flight *x = &w->flights[f];
    pool_give(pool_of(w, x->small), x->data);
    x->next = w->flight_free;
    w->flight_free = f;
}

/* Take a place in a queue that serves one message after another; false when it is full. */
static bool pass_queue(sky_world *w, sky_time *free_at, sky_time queue_ns, uint64_t bits_s,
                       uint32_t bytes) {
    sky_time begins = *free_at > w->now ? *free_at : w->now;
    if (begins - w->now > queue_ns)
        return false;
    *free_at = begins + sky_link_busy_ns(bits_s, bytes);
    return true;
}

static void drop(sky_world *w, uint32_t f, sky_event_kind kind, uint64_t *count) {
    ++*count;
    tell(w, kind, &w->flights[f], SKY_GROUND);
    flight_end(w, f);
}

static sky_time extra_delay(sky_world *w) {
    sky_time ns = (sky_time)sky_prng_below(&w->prng, (uint64_t)w->scenario.links.jitter_ns);
    if (chance(w, w->scenario.faults.reorder))
        ns += (sky_time)sky_prng_below(&w->prng, (uint64_t)w->light_extra_ns);
    return ns;
}

/* When the message is at the other end of its light path; it has left its queue at `leaves`. */
static sky_time light_ends(sky_world *w, const flight *x, sky_time leaves) {
    sky_time ns;
    if (is_ground(x->from) || is_ground(x->to)) {
        uint64_t turns = sky_turns(&w->frame.turning, w->now);
        ns = sky_frame_ground_ns(&w->frame, is_ground(x->from) ? x->to : x->from, turns);
    } else {
        ns = sky_frame_link_ns(&w->frame, x->from, x->to);
    }
    return leaves + ns + extra_delay(w);
}

static void flip_a_bit(sky_world *w, flight *x) {
    uint64_t bit = sky_prng_below(&w->prng, (uint64_t)x->bytes * 8);
    x->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static bool cut_off(const sky_world *w, sky_satellite s) {
    return !is_ground(s) && site_of(w, s)->cut_until > w->now;
}

static void duplicate(sky_world *w, const flight *x, sky_time leaves) {
    uint8_t *data = pool_take(pool_of(w, x->small));
    uint32_t f = data ? flight_begin(w, data, x->small) : NONE;
    if (f == NONE)
        return;
    w->flights[f] = *x;
    w->flights[f].data = memcpy(data, x->data, x->bytes);
    w->stat.duplicated++;
    sky_schedule_set(&w->schedule, flight_id(w, f), light_ends(w, x, leaves));
}

/* Send a message: through the sender's queue, then at the speed of light. What comes down goes
 * through the terminal's queue at the end of its way. */
static void launch(sky_world *w, uint32_t f) {
    flight *x = &w->flights[f];
    const sky_scenario *c = &w->scenario;
    bool down = is_ground(x->to);
    bool queued = true;
    sky_time leaves = w->now;
    w->stat.messages++;
    w->stat.message_bytes += x->bytes;
    if (is_ground(x->from)) {
        queued = pass_queue(w, &w->up_free, w->terminal_queue_ns, w->terminal_bits_s, x->bytes);
        leaves = w->up_free;
    } else if (!down) {
        sky_time *link_free = &site_of(w, x->from)->link_free;
        queued = pass_queue(w, link_free, w->link_queue_ns, c->links.isl_bits_s, x->bytes);
        leaves = *link_free;
    }
    if (!queued) {
        drop(w, f, SKY_EVENT_OVERFLOW, &w->stat.overflowed);
        return;
    }
    if (chance(w, c->links.loss)) {
        drop(w, f, SKY_EVENT_LOST, &w->stat.lost);
        return;
    }
    if (chance(w, c->faults.corrupt)) {
        w->stat.corrupted++;
        flip_a_bit(w, x);
    }
    if (chance(w, c->faults.duplicate))
        duplicate(w, x, leaves);
    sky_schedule_set(&w->schedule, flight_id(w, f), light_ends(w, x, leaves));
}

/* A message that a sender wrote into a large buffer sets out. Those without data move to a small
 * one: there may be thousands. */
static void set_out(sky_world *w, const sky_datagram *d) {
    bool small = d->bytes <= SMALL_BYTES;
    uint8_t *data = d->data;
    if (small) {
        data = pool_take(&w->small);
        if (data)
            memcpy(data, d->data, d->bytes);
        pool_give(&w->large, d->data);
    }
    uint32_t f = data ? flight_begin(w, data, small) : NONE;
    if (f == NONE) {
        w->stat.overflowed++;
        return;
    }
    w->flights[f].from = d->from;
    w->flights[f].to = d->to;
    w->flights[f].bytes = (uint32_t)d->bytes;
    launch(w, f);
}

/* Send everything a sender has to say; false when there is no room for all of it. */
typedef bool (*output_fn)(void *sender, sky_time now, sky_datagram *out);

static bool launch_all(sky_world *w, output_fn output, void *sender, bool liar) {
    for (;;) {
        uint8_t *buffer = pool_take(&w->large);
        if (!buffer) /* everything is in the air: the sender keeps the rest */
            return false;
        sky_datagram d = {.data = buffer, .bytes_max = w->large.bytes};
        if (!output(sender, w->now, &d)) {
            pool_give(&w->large, buffer);
            return true;
        }
        if (liar && d.bytes > SMALL_BYTES)
            d.data[d.bytes - 1] ^= 1;
        set_out(w, &d);
    }
}

/* ---- satellites ---- */

static bool node_output(void *sender, sky_time now, sky_datagram *out) {
    site *s = sender;
    return sky_node_output(&s->node, now + s->skew_ns, out);
}

static bool session_output(void *sender, sky_time now, sky_datagram *out) {
    return sky_session_output(sender, now, out);
}

static void add_stat(sky_node_stat *sum, const sky_node_stat *s) {
    sum->sets += s->sets;
    sum->gets += s->gets;
    sum->misses += s->misses;
    sum->evictions += s->evictions;
    sum->refused += s->refused;
    sum->migrated += s->migrated;
    sum->migrated_bytes += s->migrated_bytes;
    sum->migrate_retries += s->migrate_retries;
    sum->malformed += s->malformed;
    sum->corrupt += s->corrupt;
    sum->overflow += s->overflow;
}

static void put_out(sky_world *w, uint32_t number) {
    site *s = &w->sites[number];
    if (!s->memory)
        return;
    add_stat(&w->stat.nodes, &s->node.stat);
    free(s->memory);
    s->memory = NULL;
    sky_schedule_set(&w->schedule, number, SKY_TIME_NEVER);
}

/* After anything happened to a satellite: send what it has, and note when it wants to be woken. */
static void settle(sky_world *w, uint32_t number) {
    site *s = &w->sites[number];
    bool all = launch_all(w, node_output, s, s->liar);
    sky_time wake_at = sky_node_wake(&s->node);
    if (wake_at != SKY_TIME_NEVER)
        wake_at -= s->skew_ns;
    if (sky_node_idle(&s->node))
        put_out(w, number);
    else
        sky_schedule_set(&w->schedule, number, all ? wake_at : w->now + RETRY_NS);
}

static void settle_session(sky_world *w) {
    bool all = launch_all(w, session_output, w->session, false);
    sky_time wake_at = all ? sky_session_wake(w->session) : w->now + RETRY_NS;
    sky_schedule_set(&w->schedule, session_id(w), wake_at);
}

static void arrive_at_satellite(sky_world *w, const flight *x) {
    uint32_t number = sky_frame_number(&w->frame, x->to);
    site *s = &w->sites[number];
    if (!s->memory) {
        size_t bytes = sky_node_bytes(&w->node_config);
        s->memory = malloc(bytes);
        if (!s->memory) /* as good as lost: it will be sent again */
            return;
        sky_node_init(&s->node, &w->node_config, x->to, w->now + s->skew_ns, s->memory, bytes);
    }
    sky_datagram d = {.from = x->from, .to = x->to, .data = x->data, .bytes = x->bytes};
    sky_node_input(&s->node, w->now + s->skew_ns, &d);
    settle(w, number);
}

static void arrive(sky_world *w, uint32_t f) {
    flight *x = &w->flights[f];
    if (cut_off(w, x->from) || cut_off(w, x->to)) {
        uint64_t count = 0;
        drop(w, f, SKY_EVENT_CUT, &count);
        return;
    }
    if (!is_ground(x->to)) {
        tell(w, SKY_EVENT_ARRIVED, x, SKY_GROUND);
        arrive_at_satellite(w, x);
    } else if (!x->at_terminal) {
        x->at_terminal = true;
        if (pass_queue(w, &w->down_free, w->terminal_queue_ns, w->terminal_bits_s, x->bytes))
            sky_schedule_set(&w->schedule, flight_id(w, f), w->down_free);
        else
            drop(w, f, SKY_EVENT_OVERFLOW, &w->stat.overflowed);
        return;
    } else {
        tell(w, SKY_EVENT_DELIVERED, x, SKY_GROUND);
        sky_datagram d = {.from = x->from, .to = x->to, .data = x->data, .bytes = x->bytes};
        sky_session_input(w->session, w->now, &d);
        settle_session(w);
    }
    flight_end(w, f);
}

/* ---- faults ---- */

void sky_world_crash(sky_world *w, sky_satellite satellite) {
    w->stat.crashes++;
    tell(w, SKY_EVENT_CRASHED, NULL, satellite);
    put_out(w, sky_frame_number(&w->frame, satellite));
}

void sky_world_partition(sky_world *w, sky_satellite satellite, sky_time until) {
    w->stat.partitions++;
    tell(w, SKY_EVENT_PARTITIONED, NULL, satellite);
    site_of(w, satellite)->cut_until = until;
}

/* The time between two faults is uniform around its mean: no libm, the same on every machine. */
static void fault_again(sky_world *w, uint32_t id, double per_h) {
    if (per_h <= 0)
        return;
    uint64_t span = (uint64_t)(2 * 3600e9 / per_h);
    sky_time in = 1 + (sky_time)sky_prng_below(&w->prng, span);
    sky_schedule_set(&w->schedule, id, w->now + in);
}

static void strike(sky_world *w, bool crash) {
    uint32_t number = (uint32_t)sky_prng_below(&w->prng, w->frame.satellite_count);
    sky_satellite s = sky_frame_satellite(&w->frame, number);
    if (crash) {
        sky_world_crash(w, s);
        fault_again(w, crash_id(w), w->scenario.faults.crash_per_h);
    } else {
        sky_world_partition(w, s, w->now + PARTITION_NS);
        fault_again(w, partition_id(w), w->scenario.faults.partition_per_h);
    }
}

static void choose_liars(sky_world *w) {
    uint32_t liars = w->scenario.faults.liar_satellites;
    for (uint32_t i = 0; i < liars && i < w->frame.satellite_count;) {
        uint32_t number = (uint32_t)sky_prng_below(&w->prng, w->frame.satellite_count);
        i += !w->sites[number].liar;
        w->sites[number].liar = true;
    }
}

static void skew_clocks(sky_world *w) {
    sky_time most = w->scenario.faults.skew_ns;
    for (uint32_t i = 0; most > 0 && i < w->frame.satellite_count; i++)
        w->sites[i].skew_ns = (sky_time)sky_prng_below(&w->prng, (uint64_t)(2 * most + 1)) - most;
}

/* ---- time ---- */

static void wake(sky_world *w, uint32_t id) {
    if (id == session_id(w)) {
        tell(w, SKY_EVENT_WOKE, NULL, SKY_GROUND);
        sky_session_input(w->session, w->now, NULL);
        settle_session(w);
        return;
    }
    tell(w, SKY_EVENT_WOKE, NULL, sky_frame_satellite(&w->frame, id));
    sky_node_input(&w->sites[id].node, w->now + w->sites[id].skew_ns, NULL);
    settle(w, id);
}

bool sky_world_step(sky_world *w) {
    if (sky_schedule_next(&w->schedule) == SKY_TIME_NEVER)
        return false;
    sky_event e = sky_schedule_pop(&w->schedule);
    if (e.at > w->now) /* a wake time may have passed before it was asked for */
        w->now = e.at;
    w->stat.events++;
    if (e.id >= flight_id(w, 0))
        arrive(w, e.id - flight_id(w, 0));
    else if (e.id == crash_id(w) || e.id == partition_id(w))
        strike(w, e.id == crash_id(w));
    else
        wake(w, e.id);
    return true;
}

void sky_world_run(sky_world *w, sky_time until) {
    while (sky_schedule_next(&w->schedule) <= until && sky_world_step(w))
        ;
    if (until > w->now)
        w->now = until;
}

sky_time sky_world_now(const sky_world *w) {
    return w->now;
}

sky_time sky_world_next(const sky_world *w) {
    return sky_schedule_next(&w->schedule);
}

sky_status sky_world_submit(sky_world *w, const sky_request *request) {
    sky_status status = sky_session_submit(w->session, w->now, request);
    if (status == SKY_OK)
        settle_session(w);
    return status;
}

bool sky_world_result(sky_world *w, sky_result *out) {
    return sky_session_result(w->session, out);
}

void sky_world_trace_set(sky_world *w, sky_world_trace trace, void *context) {
    w->trace = trace;
    w->trace_context = context;
}

/* ---- life ---- */

static uint32_t clamp(uint64_t v, uint32_t low, uint32_t high) {
    if (v < low)
        return low;
    return v > high ? high : (uint32_t)v;
}

/* As many chunks as the terminal's link holds on the longest way, and a quarter more. */
static uint32_t window_chunks(const sky_world *w) {
    const sky_scenario *c = &w->scenario;
    sky_time round_trip = 2 * sky_frame_ground_ns_max(&w->frame) + c->satellite.processing_ns;
    sky_time chunk_ns = sky_link_busy_ns(w->terminal_bits_s, c->chunk_bytes);
    return clamp((uint64_t)(round_trip / chunk_ns * 5 / 4), OPERATIONS_MIN, OPERATIONS_MAX);
}

static sky_status check(const sky_scenario *c, sky_error *error) {
    if (c->chunk_bytes > SKY_WIRE_DATA_BYTES_MAX)
        return sky_fail(error, SKY_E_PARAM, "chunk is %u bytes: a message carries at most %d",
                        c->chunk_bytes, SKY_WIRE_DATA_BYTES_MAX);
    return SKY_OK;
}

static sky_status make_frame(sky_world *w, sky_error *error) {
    const sky_scenario *c = &w->scenario;
    double rotation_ns = (double)c->time.rotation_ns / (c->time.scale > 0 ? c->time.scale : 1);
    sky_turning turning = {.start_ms = c->time.start_ms, .rotation_ns = (sky_time)rotation_ns};
    sky_status status = sky_frame_init(&w->frame, &c->constellation, &c->placement, c->centre,
                                       &turning, error);
    if (status != SKY_OK)
        return status;
    sky_time least = 2 * (sky_frame_link_ns_max(&w->frame) + c->faults.skew_ns);
    if (c->placement.strategy != SKY_PLACE_HOP && turning.rotation_ns < least)
        return sky_fail(error, SKY_E_PARAM,
                        "a rotation takes %.3f ms; light and clocks that differ need %.3f ms to "
                        "bring a chunk to its next place and tell: lower time.scale",
                        (double)turning.rotation_ns / 1e6, (double)least / 1e6);
    return SKY_OK;
}

static sky_status configure_nodes(sky_world *w, uint32_t operations, sky_error *error) {
    const sky_scenario *c = &w->scenario;
    uint64_t set_bytes = sky_message_data_offset(SKY_WIRE_MIGRATE) + c->chunk_bytes;
    sky_time gap = sky_link_busy_ns(c->links.isl_bits_s, set_bytes);
    sky_time way = sky_frame_link_ns_max(&w->frame) + c->links.jitter_ns + w->light_extra_ns;
    w->node_config = (sky_node_config){.constellation = c->constellation,
                                       .turning = w->frame.turning,
                                       .processing_ns = c->satellite.processing_ns,
                                       .migrate_gap_ns = gap,
                                       .migrate_timeout_ns = 4 * way + 2 * gap + SKY_MS(1),
                                       .migrate_window = MIGRATE_WINDOW,
                                       .queue_max = operations + operations / 4,
                                       .chunk_bytes_max = c->chunk_bytes,
                                       .memory_bytes = c->satellite.memory_bytes};
    if (sky_node_slots(&w->node_config) < 1)
        return sky_fail(error, SKY_E_PARAM,
                        "satellite.memory is %llu bytes: not one chunk of %u and what is kept "
                        "about it",
                        (unsigned long long)c->satellite.memory_bytes, c->chunk_bytes);
    return SKY_OK;
}

static sky_status open_session(sky_world *w, const sky_world_host *host, uint32_t operations) {
    const sky_scenario *c = &w->scenario;
    uint32_t slots = sky_node_slots(&w->node_config);
    uint64_t chunks = (uint64_t)slots * w->frame.placement.servers;
    sky_session_config config = {.frame = &w->frame,
                                 .chunk_bytes = c->chunk_bytes,
                                 .satellite_slots = slots,
                                 .link_bits_s = w->terminal_bits_s,
                                 .processing_ns = c->satellite.processing_ns,
                                 .jitter_ns = c->links.jitter_ns,
                                 .skew_ns = c->faults.skew_ns,
                                 .blocks_max = clamp(chunks, 1, BLOCKS_MAX),
                                 .requests_max = REQUESTS_MAX,
                                 .operations_max = operations,
                                 .retries_max = RETRIES_MAX,
                                 .host = host->context,
                                 .fetch = host->fetch,
                                 .deliver = host->deliver,
                                 .forgotten = host->forgotten};
    return sky_session_create(&config, &w->session);
}

static sky_status take_memory(sky_world *w, uint32_t operations) {
    w->flight_max = 4 * operations + 65536;
    size_t large = (sky_message_data_offset(SKY_WIRE_SET) + w->scenario.chunk_bytes + 63) & ~63ull;
    w->sites = calloc(w->frame.satellite_count, sizeof *w->sites);
    w->flights = calloc(w->flight_max, sizeof *w->flights);
    w->flight_free = NONE;
    bool ok = w->sites && w->flights && pool_init(&w->large, large, w->flight_max) &&
              pool_init(&w->small, SMALL_BYTES, w->flight_max);
    return ok ? sky_schedule_init(&w->schedule, flight_id(w, w->flight_max)) : SKY_E_NOMEM;
}

sky_status sky_world_create(const sky_scenario *scenario, uint64_t seed, const sky_world_host *host,
                            sky_world **out, sky_error *error) {
    sky_status status = check(scenario, error);
    if (status != SKY_OK)
        return status;
    sky_world *w = calloc(1, sizeof *w);
    if (!w)
        return sky_fail(error, SKY_E_NOMEM, "a world");
    w->scenario = *scenario;
    status = make_frame(w, error);
    if (status != SKY_OK)
        goto cleanup;
    bool aboard = w->frame.placement.strategy == SKY_PLACE_HOP;
    w->terminal_bits_s = aboard ? scenario->links.isl_bits_s : scenario->links.ground_bits_s;
    w->terminal_queue_ns = sky_link_busy_ns(w->terminal_bits_s, scenario->links.queue_bytes);
    w->link_queue_ns = sky_link_busy_ns(scenario->links.isl_bits_s, scenario->links.queue_bytes);
    w->light_extra_ns = scenario->faults.reorder > 0 ? sky_frame_ground_ns_max(&w->frame) : 0;
    sky_prng_init(&w->prng, seed);
    uint32_t operations = window_chunks(w);
    status = configure_nodes(w, operations, error);
    if (status != SKY_OK)
        goto cleanup;
    status = take_memory(w, operations);
    if (status == SKY_OK)
        status = open_session(w, host, operations);
    if (status != SKY_OK) {
        sky_fail(error, status, "memory for a sky of %u satellites", w->frame.satellite_count);
        goto cleanup;
    }
    choose_liars(w);
    skew_clocks(w);
    fault_again(w, crash_id(w), scenario->faults.crash_per_h);
    fault_again(w, partition_id(w), scenario->faults.partition_per_h);
    *out = w;
    w = NULL;
cleanup:
    sky_world_destroy(w);
    return status;
}

void sky_world_destroy(sky_world *w) {
    if (!w)
        return;
    for (uint32_t id = flight_id(w, 0); w->schedule.count > 0;) {
        sky_event e = sky_schedule_pop(&w->schedule);
        if (e.id >= id)
            flight_end(w, e.id - id);
    }
    for (uint32_t i = 0; w->sites && i < w->frame.satellite_count; i++)
        free(w->sites[i].memory);
    pool_deinit(&w->large);
    pool_deinit(&w->small);
    sky_schedule_deinit(&w->schedule);
    sky_session_destroy(w->session);
    sky_frame_deinit(&w->frame);
    free(w->sites);
    free(w->flights);
    free(w);
}

/* ---- looking in ---- */

void sky_world_stats(const sky_world *w, sky_world_stat *out) {
    *out = w->stat;
    out->turns = sky_turns(&w->frame.turning, w->now);
    out->overhead = sky_frame_centre(&w->frame, out->turns);
    for (uint32_t i = 0; i < w->frame.satellite_count; i++) {
        const site *s = &w->sites[i];
        if (!s->memory)
            continue;
        add_stat(&out->nodes, &s->node.stat);
        out->chunks += sky_node_chunks(&s->node);
        out->satellites_used++;
    }
}

const sky_session *sky_world_session(const sky_world *w) {
    return w->session;
}

const sky_frame *sky_world_frame(const sky_world *w) {
    return &w->frame;
}

const sky_node *sky_world_node(const sky_world *w, sky_satellite s) {
    const site *at = site_of(w, s);
    return at->memory ? &at->node : NULL;
}

uint64_t sky_world_bytes_max(const sky_world *w) {
    return sky_session_bytes_max(w->session);
}
