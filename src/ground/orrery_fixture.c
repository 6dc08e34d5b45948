#include "ground/orrery_fixture.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- payloads ---- */

static uint8_t byte_at(const void *context, uint64_t offset) {
    uint64_t x = ((uint64_t)(uintptr_t)context << 40 ^ offset / 8) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint8_t)(x >> (offset % 8 * 8));
}

static bool fetch(void *host, void *context, uint64_t offset, void *data, size_t bytes) {
    (void)host;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = byte_at(context, offset + i);
    return true;
}

static bool deliver(void *host, void *context, uint64_t offset, const void *data, size_t bytes) {
    sky_orrery *o = host;
    for (size_t i = 0; i < bytes; i++)
        o->wrong += ((const uint8_t *)data)[i] != byte_at(context, offset + i);
    o->delivered += bytes;
    return true;
}

/* ---- life ---- */

void sky_orrery_open(sky_orrery *o, sky_strategy strategy) {
    memset(o, 0, sizeof *o);
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550, .inclination_deg = 53};
    sky_placement p = {.strategy = strategy, .servers = 9};
    sky_turning t = {.start_ms = 1795132800000, .rotation_ns = SKY_ORRERY_TURN_NS};
    sky_status status = sky_frame_init(&o->frame, &c, &p, (sky_satellite){3, 4}, &t, NULL);
    assert(status == SKY_OK);
    (void)status;
    o->node_config = (sky_node_config){.constellation = c,
                                       .turning = t,
                                       .processing_ns = SKY_MS(1),
                                       .migrate_gap_ns = 1000,
                                       .migrate_timeout_ns = SKY_MS(100),
                                       .migrate_window = 64,
                                       .queue_max = 256,
                                       .chunk_bytes_max = SKY_ORRERY_CHUNK};
    o->session_config = (sky_session_config){.frame = &o->frame,
                                             .chunk_bytes = SKY_ORRERY_CHUNK,
                                             .link_bits_s = 1000000000,
                                             .processing_ns = SKY_MS(1),
                                             .blocks_max = 64,
                                             .requests_max = 16,
                                             .operations_max = 1024,
                                             .retries_max = 3,
                                             .eviction = SKY_EVICT_LAZY,
                                             .host = o,
                                             .fetch = fetch,
                                             .deliver = deliver};
}

void sky_orrery_begin(sky_orrery *o, uint32_t slots) {
    while (sky_node_slots(&o->node_config) < slots)
        o->node_config.memory_bytes += 64;
    o->session_config.satellite_slots = slots;
    uint32_t count = o->frame.satellite_count;
    o->nodes = calloc(count, sizeof *o->nodes);
    o->memories = calloc(count, sizeof *o->memories);
    assert(o->nodes && o->memories);
    size_t bytes = sky_node_bytes(&o->node_config);
    for (uint32_t i = 0; i < count; i++) {
        o->memories[i] = malloc(bytes);
        assert(o->memories[i]);
        sky_node_init(&o->nodes[i], &o->node_config, sky_frame_satellite(&o->frame, i), 0,
                      o->memories[i], bytes);
    }
    for (uint32_t g = 0; g < SKY_ORRERY_GROUNDS; g++) {
        o->session_config.session_id = (uint64_t)g << 32 | g;
        sky_status status = sky_session_create(&o->session_config, &o->grounds[g]);
        assert(status == SKY_OK);
        (void)status;
    }
}

void sky_orrery_close(sky_orrery *o) {
    for (uint32_t i = 0; i < o->flight_count; i++)
        free(o->flights[i].datagram.data);
    for (uint32_t i = 0; i < o->frame.satellite_count; i++)
        free(o->memories[i]);
    for (uint32_t g = 0; g < SKY_ORRERY_GROUNDS; g++)
        sky_session_destroy(o->grounds[g]);
    free(o->flights);
    free(o->nodes);
    free(o->memories);
    sky_frame_deinit(&o->frame);
}

sky_node *sky_orrery_node(const sky_orrery *o, sky_satellite s) {
    return &o->nodes[sky_frame_number(&o->frame, s)];
}

void sky_orrery_crash(sky_orrery *o, sky_satellite s) {
    sky_node_init(sky_orrery_node(o, s), &o->node_config, s, o->now,
                  o->memories[sky_frame_number(&o->frame, s)], sky_node_bytes(&o->node_config));
}

/* ---- links ---- */

static sky_time way(const sky_orrery *o, sky_satellite from, sky_satellite to) {
    uint64_t turns = sky_turns(&o->frame.turning, o->now);
    if (from.plane == 0 || to.plane == 0)
        return sky_frame_ground_ns(&o->frame, from.plane ? from : to, turns);
    return sky_frame_link_ns(&o->frame, from, to, turns);
}

static void launch(sky_orrery *o, const sky_datagram *d) {
    sky_message m;
    sky_status status = sky_message_decode(d->data, d->bytes, &m);
    assert(status == SKY_OK);
    (void)status;
    o->sent[m.type]++;
    o->sent_bytes[m.type] += d->bytes;
    if (o->ear && !o->ear(o, d->from, d->to, &m))
        return;
    if (o->flight_count == o->flight_max) {
        o->flight_max = o->flight_max ? 2 * o->flight_max : 256;
        o->flights = realloc(o->flights, o->flight_max * sizeof *o->flights);
        assert(o->flights);
    }
    sky_orrery_flight *f = &o->flights[o->flight_count++];
    *f = (sky_orrery_flight){o->now + way(o, d->from, d->to) + o->late_ns, o->order++, *d};
    if (m.type == SKY_WIRE_GONE) /* said to all who listen; the first does */
        f->datagram.to = SKY_GROUND;
    f->datagram.data = malloc(d->bytes);
    assert(f->datagram.data);
    f->datagram.bytes = sky_message_encode(&m, f->datagram.data, d->bytes);
    assert(f->datagram.bytes == d->bytes);
}

static void drain_ground(sky_orrery *o, uint32_t ground) {
    static uint8_t buffer[SKY_WIRE_BYTES_MAX];
    sky_datagram d = {.data = buffer, .bytes_max = sizeof buffer};
    while (sky_session_output(o->grounds[ground], o->now, &d)) {
        d.from.slot = ground + 1; /* satellites answer whoever asked */
        launch(o, &d);
    }
}

static void drain_node(sky_orrery *o, uint32_t number) {
    static uint8_t buffer[SKY_WIRE_BYTES_MAX];
    sky_datagram d = {.data = buffer, .bytes_max = sizeof buffer};
    while (sky_node_output(&o->nodes[number], o->now, &d))
        launch(o, &d);
}

static void arrive(sky_orrery *o, uint32_t i) {
    sky_orrery_flight f = o->flights[i];
    o->flights[i] = o->flights[--o->flight_count];
    if (f.datagram.to.plane == 0) {
        uint32_t ground = f.datagram.to.slot ? f.datagram.to.slot - 1 : 0;
        f.datagram.opened = true; /* of a sealed session: nobody here has another key */
        sky_session_input(o->grounds[ground], o->now, &f.datagram);
        drain_ground(o, ground);
    } else {
        uint32_t number = sky_frame_number(&o->frame, f.datagram.to);
        sky_node_input(&o->nodes[number], o->now, &f.datagram);
        drain_node(o, number);
    }
    free(f.datagram.data);
}

/* The next flight to arrive; UINT32_MAX: none. */
static uint32_t next_flight(const sky_orrery *o) {
    uint32_t next = UINT32_MAX;
    for (uint32_t i = 0; i < o->flight_count; i++) {
        const sky_orrery_flight *f = &o->flights[i];
        const sky_orrery_flight *n = next == UINT32_MAX ? NULL : &o->flights[next];
        if (!n || f->at < n->at || (f->at == n->at && f->order < n->order))
            next = i;
    }
    return next;
}

/* One event; false when there is none up to `until`. */
static bool step(sky_orrery *o, sky_time until) {
    uint32_t flight = next_flight(o);
    sky_time at = flight == UINT32_MAX ? SKY_TIME_NEVER : o->flights[flight].at;
    uint32_t sleeper = UINT32_MAX;
    uint32_t nodes = o->frame.satellite_count;
    for (uint32_t i = 0; i < nodes + SKY_ORRERY_GROUNDS; i++) {
        sky_time wake = i < nodes ? sky_node_wake(&o->nodes[i])
                                  : sky_session_wake(o->grounds[i - nodes]);
        if (wake < at) {
            at = wake;
            sleeper = i;
        }
    }
    if (at > until)
        return false;
    o->now = at > o->now ? at : o->now;
    if (sleeper == UINT32_MAX) {
        arrive(o, flight);
    } else if (sleeper < nodes) {
        sky_node_input(&o->nodes[sleeper], o->now, NULL);
        drain_node(o, sleeper);
    } else {
        sky_session_input(o->grounds[sleeper - nodes], o->now, NULL);
        drain_ground(o, sleeper - nodes);
    }
    return true;
}

void sky_orrery_run(sky_orrery *o, sky_time until) {
    while (step(o, until))
        ;
    o->now = until > o->now ? until : o->now;
}

uint32_t sky_orrery_holder(const sky_orrery *o, uint32_t n, sky_satellite *out) {
    uint32_t holders = 0;
    for (uint32_t i = 0; i < o->frame.satellite_count; i++) {
        if (sky_node_chunks(&o->nodes[i]) > 0 && holders++ == n)
            *out = sky_frame_satellite(&o->frame, i);
    }
    return holders;
}

/* ---- ears ---- */

bool sky_orrery_cut_off(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    const sky_satellite *away = o->ear_context;
    (void)m;
    return !sky_satellite_equal(from, *away) && !sky_satellite_equal(to, *away);
}

bool sky_orrery_no_migration(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    return m->type != SKY_WIRE_MIGRATE;
}

bool sky_orrery_no_head_ack(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    return m->type != SKY_WIRE_SET_ACK || m->id.number > 0;
}

/* ---- asking ---- */

sky_key sky_orrery_key(uint32_t block) {
    sky_key key = {{0}};
    for (size_t i = 0; i < SKY_KEY_BYTES; i++)
        key.bytes[i] = (uint8_t)(block * 2654435761u >> (i % 4 * 8)) ^ (uint8_t)i;
    return key;
}

sky_result sky_orrery_ask(sky_orrery *o, uint32_t ground, const sky_request *request) {
    sky_status status = sky_session_submit(o->grounds[ground], o->now, request);
    assert(status == SKY_OK);
    (void)status;
    sky_result result;
    drain_ground(o, ground);
    while (!sky_session_result(o->grounds[ground], &result)) {
        bool more = step(o, SKY_TIME_NEVER - 1);
        assert(more);
        (void)more;
    }
    return result;
}

sky_result sky_orrery_do(sky_orrery *o, uint32_t ground, sky_op op, uint32_t block,
                         uint32_t bytes) {
    sky_request request = {.op = op,
                           .key = sky_orrery_key(block),
                           .context = (void *)(uintptr_t)block,
                           .payload_bytes = bytes,
                           .room_bytes = UINT64_MAX};
    return sky_orrery_ask(o, ground, &request);
}

uint32_t sky_orrery_chunks(const sky_orrery *o) {
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < o->frame.satellite_count; i++)
        chunks += sky_node_chunks(&o->nodes[i]);
    return chunks;
}

typedef struct {
    sky_key key;
    uint32_t count;
} census;

static void count_one(void *context, const sky_node_chunk *chunk) {
    census *c = context;
    c->count += chunk->id.number > 0 &&
                memcmp(chunk->id.key.bytes, c->key.bytes, SKY_KEY_BYTES) == 0;
}

uint32_t sky_orrery_chunks_of(const sky_orrery *o, uint32_t block) {
    census c = {sky_orrery_key(block), 0};
    for (uint32_t i = 0; i < o->frame.satellite_count; i++)
        sky_node_each(&o->nodes[i], count_one, &c);
    return c.count;
}
