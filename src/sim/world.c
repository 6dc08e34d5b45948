/* The world: who gets which message when. See world.h for the picture. */
#include "sim/world.h"
#include "config/physical.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "config/policy.h"
#include "sim/world_state.h"

#define REQUESTS_MAX   1024
#define BLOCKS_MAX     65536u
#define OPERATIONS_MIN 8192u
#define OPERATIONS_MAX 65536u
#define RETRIES_MAX    6
#define MIGRATE_WINDOW 1024

/* Send everything a sender has to say; false when there is no room for all of it. */
static bool launch_all(sky_world *w, sky__output output, void *sender, const sky__site *liar) {
    for (;;) {
        uint8_t *buffer = sky__buffer_take(w);
        if (!buffer) /* everything is in the air: the sender keeps the rest */
            return false;
        sky_datagram d = {.data = buffer, .bytes_max = w->large.bytes};
        bool more = output(w, sender, &d);
        if (more && (!liar || sky__byzantine_alter(w, liar, &d)))
            sky__set_out(w, &d);
        else
            sky__buffer_give(w, buffer);
        if (!more)
            return true;
    }
}

static bool node_output(const sky_world *w, void *sender, sky_datagram *out) {
    sky__site *s = sender;
    bool said = sky_node_output(&s->node, sky__clock(w, s), out);
    if (said && w->tap)
        w->tap(w->tap_context, SKY_TAP_SAID, &s->node, out);
    return said;
}

static bool session_output(const sky_world *w, void *sender, sky_datagram *out) {
    const sky__ground *g = sender;
    uint32_t number = (uint32_t)(g - w->grounds);
    bool said = sky_session_output(g->session, w->now, out);
    if (said && number > 0)
        out->from.slot = number + 1;
    if (said && w->tap)
        w->tap(w->tap_context, SKY_TAP_ASKED, NULL, out);
    return said;
}

/* ---- satellites and sessions ---- */

/* Send what a station has to say. True: its node or session (NULL: nobody) has said everything. At
 * *wake_at, by its clock, there may be room for more. */
static bool speak_node(sky_world *w, uint32_t number, sky__output output, void *sender,
                       const sky__site *liar, sky_time clock, sky_time *wake_at) {
    if (w->stations)
        return sky__station_send(w, number, output, sender, liar, wake_at);
    bool all = launch_all(w, output, sender, liar);
    *wake_at = all ? SKY_TIME_NEVER : clock + SKY__RETRY_NS;
    return all;
}

/* After anything happened to a satellite: send what it has, and note when it wants to be woken. */
static void settle_node(sky_world *w, uint32_t number) {
    sky__site *s = &w->sites[number];
    sky__site *lives = s->memory ? s : NULL;
    sky_time wake_at;
    if (speak_node(w, number, node_output, lives, s->liar ? s : NULL, sky__clock(w, s), &wake_at) &&
        lives)
        wake_at = sky__sooner(wake_at, sky_node_wake(&s->node));
    sky_schedule_set(&w->schedule, number, sky__when(w, s, wake_at));
    if (lives && sky_node_idle(&s->node) && !s->in_idle)
        sky__keep_idle(w, number);
}

/* How many ground links the session counts on: it asks the servers in turn. */
static uint32_t ground_links(const sky_world *w) {
    return w->ground_each ? w->frame.placement.servers : 1;
}

static void settle_session(sky_world *w, sky__ground *g) {
    sky_time wake_at;
    sky__tell_rate(w, g, sky__station_payload_bits_s(w, g) * ground_links(w));
    if (speak_node(w, sky__ground_number(w), session_output, g, NULL, w->now, &wake_at))
        wake_at = sky__sooner(wake_at, sky_session_wake(g->session));
    sky_schedule_set(&w->schedule, sky__session_id(w, (uint32_t)(g - w->grounds)), wake_at);
}

static void node_input(sky_world *w, sky__site *s, const sky_datagram *d) {
    if (sky__is_full(&s->node))
        s->full_at = w->now;
    sky_node_input(&s->node, sky__clock(w, s), d);
}

static void node_hears(sky_world *w, uint32_t number, const sky_datagram *d) {
    sky__site *s = &w->sites[number];
    if (!s->memory && !sky__light_up(w, number)) /* as good as lost: it will be sent again */
        return;
    if (w->tap)
        w->tap(w->tap_context, SKY_TAP_HEARS, &s->node, d);
    node_input(w, s, d);
    if (w->tap)
        w->tap(w->tap_context, SKY_TAP_HEARD, &s->node, d);
}

static void arrive_at_satellite(sky_world *w, const sky__flight *x) {
    uint32_t number = sky_frame_number(&w->frame, x->to);
    sky_datagram d = {.from = x->from, .to = x->to, .data = x->data, .bytes = x->bytes};
    if (!w->stations) {
        node_hears(w, number, &d);
    } else {
        sky__station_hears(w, number, &d);
        while (sky__station_receive(w, number, &d))
            node_hears(w, number, &d);
    }
    if (w->stations || w->sites[number].memory)
        settle_node(w, number);
}

static void arrive_at_session(sky_world *w, const sky__flight *x) {
    sky__ground *g = sky__ground_of(w, x->to);
    sky_datagram d = {.from = x->from, .to = x->to, .data = x->data, .bytes = x->bytes};
    if (!w->stations) {
        sky_session_input(g->session, w->now, &d);
    } else {
        sky__station_hears(w, sky__ground_number(w), &d);
        while (sky__station_receive(w, sky__ground_number(w), &d))
            sky_session_input(g->session, w->now, &d);
    }
    settle_session(w, g);
}

static void deliver_flight(sky_world *w, uint32_t f) {
    sky__flight *x = &w->flights[f];
    if (sky__cut_off(w, x->from) || sky__cut_off(w, x->to)) {
        sky__drop(w, f, SKY_EVENT_CUT, &w->stat.cut);
        return;
    }
    if (!sky__is_ground(x->to)) {
        sky__tell(w, SKY_EVENT_ARRIVED, x, SKY_GROUND);
        arrive_at_satellite(w, x);
    } else if (!x->at_terminal) {
        x->at_terminal = true;
        sky__ground *g = sky__ground_of(w, x->to);
        sky_time *free_at = w->ground_each ? &sky__site_of(w, x->from)->down_free : &g->down_free;
        uint64_t bits_s;
        sky_time queue_ns = sky__ground_link(w, g, x->from, &bits_s);
        if (sky__pass_queue(w, free_at, queue_ns, bits_s, x->bytes))
            sky_schedule_set(&w->schedule, sky__flight_id(w, f), *free_at);
        else
            sky__drop(w, f, SKY_EVENT_OVERFLOW, &w->stat.overflowed);
        return;
    } else {
        sky__tell(w, SKY_EVENT_DELIVERED, x, SKY_GROUND);
        arrive_at_session(w, x);
    }
    sky__flight_end(w, f);
}

/* ---- time ---- */

static void wake_ground(sky_world *w, uint32_t number) {
    sky__ground *g = &w->grounds[number];
    sky__tell(w, SKY_EVENT_WOKE, NULL, (sky_satellite){0, number > 0 ? number + 1 : 0});
    sky__station_wake(w, sky__ground_number(w));
    sky_session_input(g->session, w->now, NULL);
    settle_session(w, g);
}

static void wake_node(sky_world *w, uint32_t id) {
    if (id == sky__session_id(w, 0)) {
        wake_ground(w, 0);
        return;
    }
    sky__tell(w, SKY_EVENT_WOKE, NULL, sky_frame_satellite(&w->frame, id));
    sky__station_wake(w, id);
    if (w->sites[id].memory)
        node_input(w, &w->sites[id], NULL);
    settle_node(w, id);
}

bool sky_world_step(sky_world *w) {
    if (sky_schedule_next(&w->schedule) == SKY_TIME_NEVER)
        return false;
    sky_event e = sky_schedule_pop(&w->schedule);
    if (e.at > w->now) /* a wake time may have passed before it was asked for */
        w->now = e.at;
    w->stat.events++;
    if (e.id >= sky__flight_id(w, w->flight_max))
        wake_ground(w, e.id - sky__flight_id(w, w->flight_max) + 1);
    else if (e.id >= sky__flight_id(w, 0))
        deliver_flight(w, e.id - sky__flight_id(w, 0));
    else if (e.id > sky__session_id(w, 0))
        sky__strike_falls(w, (sky__strike)(e.id - sky__strike_id(w, 0)));
    else
        wake_node(w, e.id);
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

sky_status sky_world_submit_at(sky_world *w, uint32_t ground, const sky_request *request) {
    sky__ground *g = &w->grounds[ground];
    sky_status status = sky_session_submit(g->session, w->now, request);
    if (status == SKY_OK)
        settle_session(w, g);
    return status;
}

sky_status sky_world_submit(sky_world *w, const sky_request *request) {
    return sky_world_submit_at(w, 0, request);
}

bool sky_world_result_at(sky_world *w, uint32_t ground, sky_result *out) {
    return sky_session_result(w->grounds[ground].session, out);
}

bool sky_world_result(sky_world *w, sky_result *out) {
    return sky_world_result_at(w, 0, out);
}

void sky_world_trace_set(sky_world *w, sky_world_trace trace, void *context) {
    w->trace = trace;
    w->trace_context = context;
}

void sky_world_tap_set(sky_world *w, sky_world_tap tap, void *context) {
    w->tap = tap;
    w->tap_context = context;
}

/* ---- life ---- */

static uint32_t clamp_count(uint64_t v, uint32_t low, uint32_t high) {
    if (v < low)
        return low;
    return v > high ? high : (uint32_t)v;
}

/* Servers that are asked in turn may get two chunks more than their share of a moment. */
static sky_time late_ns(const sky_world *w, const sky__ground *g) {
    sky_time chunk_ns = sky_link_busy_ns(g->bits_s, w->scenario.chunk_bytes);
    return sky__station_late_ns(w) + (w->ground_each ? 2 * chunk_ns : 0);
}

/* As many chunks as the terminal's link holds on the longest way, and a quarter more. */
static uint32_t window_chunks(const sky_world *w, const sky__ground *g) {
    const sky_scenario *c = &w->scenario;
    sky_time round_trip = 2 * sky_frame_ground_ns_max(g->frame) + c->satellite.processing_ns;
    sky_time chunk_ns = sky_link_busy_ns(g->bits_s * ground_links(w), c->chunk_bytes);
    if (chunk_ns == 0) /* no limit */
        return OPERATIONS_MAX;
    return clamp_count((uint64_t)(round_trip / chunk_ns * 5 / 4), OPERATIONS_MIN, OPERATIONS_MAX);
}

static sky_status check_scenario(const sky_scenario *c, sky_error *error) {
    if (c->chunk_bytes > SKY_WIRE_DATA_BYTES_MAX)
        return sky_fail(error, SKY_E_PARAM, "chunk is %u bytes: a message carries at most %d",
                        c->chunk_bytes, SKY_WIRE_DATA_BYTES_MAX);
    return SKY_OK;
}

static sky_status make_frame(sky_world *w, sky_error *error) {
    const sky_scenario *c = &w->scenario;
    double rotation_ns = (double)c->time.rotation_ns / (c->time.scale > 0 ? c->time.scale : 1);
    sky_turning turning = {.start_ms = c->time.start_ms, .rotation_ns = (sky_time)rotation_ns};
    sky_status status = c->physical ? sky__physical_frame(c, &turning, &w->frame, error)
                                    : sky_frame_init(&w->frame, &c->constellation, &c->placement,
                                                     c->centre, &turning, error);
    if (status != SKY_OK)
        return status;
    sky_time least = 2 * (sky_frame_link_ns_max(&w->frame) + c->faults.skew_ns);
    if (sky_strategy_row_of(c->placement.strategy)->migrates && turning.rotation_ns < least)
        return sky_fail(error, SKY_E_PARAM,
                        "a rotation takes %.3f ms; light and clocks that differ need %.3f ms to "
                        "bring a chunk to its next place and tell: lower time.scale",
                        (double)turning.rotation_ns / 1e6, (double)least / 1e6);
    return SKY_OK;
}

/* The observer's, and those of the scenario. */
static sky_status make_grounds(sky_world *w, sky_error *error) {
    const sky_scenario *s = &w->scenario;
    bool aboard = sky_strategy_row_of(w->frame.placement.strategy)->aboard;
    w->grounds = calloc(s->ground_count + 1u, sizeof *w->grounds);
    if (!w->grounds)
        return sky_fail(error, SKY_E_NOMEM, "memory for %u grounds", s->ground_count + 1);
    w->ground_each = s->links.ground_each && !aboard;
    for (; w->ground_count <= s->ground_count; w->ground_count++) {
        uint32_t i = w->ground_count;
        sky__ground *g = &w->grounds[i];
        uint64_t own_bits_s = i > 0 ? s->grounds[i - 1].bits_s : 0;
        bool elsewhere = i > 0 || s->anchor_count > 0; /* the window goes, the observer stays */
        g->frame = elsewhere ? &g->own : &w->frame;
        g->bits_s = aboard           ? s->links.isl_bits_s
                    : own_bits_s > 0 ? own_bits_s
                                     : s->links.ground_bits_s;
        g->queue_ns = sky_link_busy_ns(g->bits_s, s->links.queue_bytes);
        sky_status status = elsewhere ? sky__ground_frame(s, &w->frame, i, &g->own, error) : SKY_OK;
        if (status != SKY_OK)
            return status;
    }
    return SKY_OK;
}

static sky_status configure_nodes(sky_world *w, uint32_t operations, sky_error *error) {
    const sky_scenario *c = &w->scenario;
    uint64_t set_bytes = sky_message_data_offset(SKY_WIRE_MIGRATE) + c->chunk_bytes;
    sky_time gap = sky_link_busy_ns(c->links.isl_bits_s, set_bytes);
    sky_time way = sky_frame_link_ns_max(&w->frame) + c->links.jitter_ns + w->light_extra_ns +
                   sky__station_late_ns(w);
    w->node_config = (sky_node_config){.constellation = c->constellation,
                                       .turning = w->frame.turning,
                                       .processing_ns = c->satellite.processing_ns,
                                       .migrate_gap_ns = gap,
                                       .migrate_timeout_ns = 4 * way + 2 * gap + SKY_MS(1),
                                       .migrate_window = MIGRATE_WINDOW,
                                       .queue_max = operations + operations / 4,
                                       .chunk_bytes_max = c->chunk_bytes,
                                       .memory_bytes = c->satellite.memory_bytes};
    sky_policy_node(c, &w->frame, &w->node_config);
    if (sky_node_slots(&w->node_config) < 1)
        return sky_fail(error, SKY_E_PARAM,
                        "satellite.memory is %llu bytes: not one chunk of %u and what is kept "
                        "about it",
                        (unsigned long long)c->satellite.memory_bytes, c->chunk_bytes);
    return SKY_OK;
}

static sky_status open_session(sky_world *w, sky__ground *g) {
    const sky_scenario *c = &w->scenario;
    const sky_world_host *host = &w->host;
    uint32_t slots = sky_node_slots_lent(&w->node_config);
    uint64_t chunks = (uint64_t)slots * w->frame.placement.servers;
    sky_session_config config = {.frame = g->frame,
                                 .chunk_bytes = c->chunk_bytes,
                                 .satellite_slots = slots,
                                 .link_bits_s = sky__station_payload_bits_s(w, g) * ground_links(w),
                                 .processing_ns = c->satellite.processing_ns,
                                 .jitter_ns = c->links.jitter_ns,
                                 .skew_ns = c->faults.skew_ns,
                                 .late_ns = late_ns(w, g),
                                 .blocks_max = clamp_count(chunks, 1, BLOCKS_MAX),
                                 .requests_max = REQUESTS_MAX,
                                 .operations_max = window_chunks(w, g),
                                 .retries_max = RETRIES_MAX,
                                 .session_id = (uint64_t)(g - w->grounds) << 32 |
                                               (uint64_t)g->openings << 8,
                                 .host = host->context,
                                 .fetch = host->fetch,
                                 .deliver = host->deliver,
                                 .forgotten = host->forgotten};
    sky_policy_session(c, &w->frame, &config);
    return sky_session_create(&config, &g->session);
}

sky_status sky_world_reopen(sky_world *w, uint32_t ground) {
    sky__ground *g = &w->grounds[ground];
    sky_session *before = g->session;
    g->openings++;
    sky_status status = open_session(w, g);
    if (status != SKY_OK)
        return status;
    sky_session_destroy(before);
    g->rate_until = 0; /* it has to hear of it again */
    sky__tell(w, SKY_EVENT_REOPENED, NULL, (sky_satellite){0, ground + 1});
    settle_session(w, g);
    return SKY_OK;
}

static sky_status take_memory(sky_world *w, uint32_t operations) {
    uint32_t flight_max = 4 * operations + 65536;
    uint32_t count = w->frame.satellite_count;
    w->node_bytes = sky_node_bytes(&w->node_config);
    w->sites = calloc(count, sizeof *w->sites);
    w->alive = calloc(count, sizeof *w->alive);
    if (!sky__links_init(w, flight_max) || !w->sites || !w->alive ||
        sky__stations_init(w) != SKY_OK)
        return SKY_E_NOMEM;
    return sky_schedule_init(&w->schedule, sky__flight_id(w, flight_max) + w->ground_count - 1);
}

sky_status sky_world_create(const sky_scenario *scenario, uint64_t seed, const sky_world_host *host,
                            sky_world **out, sky_error *error) {
    sky_status status = check_scenario(scenario, error);
    if (status != SKY_OK)
        return status;
    sky_world *w = calloc(1, sizeof *w);
    if (!w)
        return sky_fail(error, SKY_E_NOMEM, "a world");
    w->scenario = *scenario;
    w->host = *host;
    status = make_frame(w, error);
    if (status != SKY_OK)
        goto cleanup;
    status = make_grounds(w, error);
    if (status != SKY_OK)
        goto cleanup;
    w->link_queue_ns = sky_link_busy_ns(scenario->links.isl_bits_s, scenario->links.queue_bytes);
    w->light_extra_ns = scenario->faults.reorder > 0 ? sky_frame_ground_ns_max(&w->frame) : 0;
    sky_prng_init(&w->prng, seed);
    uint32_t operations = 0;
    for (uint32_t i = 0; i < w->ground_count; i++)
        operations += window_chunks(w, &w->grounds[i]);
    status = configure_nodes(w, operations, error);
    if (status != SKY_OK)
        goto cleanup;
    status = take_memory(w, operations);
    for (uint32_t i = 0; i < w->ground_count && status == SKY_OK; i++)
        status = open_session(w, &w->grounds[i]);
    if (status != SKY_OK) {
        sky_fail(error, status, "memory for a sky of %u satellites", w->frame.satellite_count);
        goto cleanup;
    }
    sky__faults_init(w);
    status = sky__outages_init(w);
    if (status != SKY_OK) {
        sky_fail(error, status, "memory for the lasers of a sky");
        goto cleanup;
    }
    *out = w;
    w = NULL;
cleanup:
    sky_world_destroy(w);
    return status;
}

void sky_world_destroy(sky_world *w) {
    if (!w)
        return;
    sky__links_deinit(w);
    sky__outages_deinit(w);
    sky__stations_deinit(w);
    while (w->alive_count > 0)
        free(w->sites[w->alive[--w->alive_count]].memory);
    while (w->spare_count > 0)
        free(w->spares[--w->spare_count]);
    sky_schedule_deinit(&w->schedule);
    for (uint32_t i = 0; i < w->ground_count; i++) {
        sky_session_destroy(w->grounds[i].session);
        if (w->grounds[i].frame == &w->grounds[i].own)
            sky_frame_deinit_ground(&w->grounds[i].own);
    }
    free(w->grounds);
    sky_frame_deinit(&w->frame);
    free(w->sites);
    free(w->alive);
    free(w);
}

/* ---- looking in ---- */

void sky_world_stats(const sky_world *w, sky_world_stat *out) {
    *out = w->stat;
    out->turns = sky_turns(&w->frame.turning, w->now);
    out->overhead = sky_frame_centre(&w->frame, out->turns);
    out->in_flight_max = w->flight_max;
    sky__stations_stat(w, &out->transport);
    for (uint32_t i = 0; i < w->alive_count; i++) {
        const sky_node *node = &w->sites[w->alive[i]].node;
        sky__node_stat_add(&out->nodes, &node->stat);
        out->chunks += sky_node_chunks(node);
        out->satellites_used += sky_node_chunks(node) > 0;
    }
}

uint32_t sky_world_alive(const sky_world *w) {
    return w->alive_count;
}

const sky_node *sky_world_alive_node(const sky_world *w, uint32_t i) {
    return &w->sites[w->alive[i]].node;
}

uint32_t sky_world_grounds(const sky_world *w) {
    return w->ground_count;
}

const sky_session *sky_world_session_at(const sky_world *w, uint32_t ground) {
    return w->grounds[ground].session;
}

const sky_frame *sky_world_frame_at(const sky_world *w, uint32_t ground) {
    return w->grounds[ground].frame;
}

const sky_session *sky_world_session(const sky_world *w) {
    return sky_world_session_at(w, 0);
}

const sky_frame *sky_world_frame(const sky_world *w) {
    return &w->frame;
}

const sky_node *sky_world_node(const sky_world *w, sky_satellite s) {
    const sky__site *at = sky__site_of(w, s);
    return at->memory ? &at->node : NULL;
}

uint64_t sky_world_bytes_max(const sky_world *w) {
    return sky_session_bytes_max(w->grounds[0].session);
}
