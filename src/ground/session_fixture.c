#include "ground/session_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t byte_at(const void *context, uint64_t offset) {
    return (uint8_t)((uintptr_t)context * 31 + offset * 7 + (offset >> 8));
}

static bool fetch(void *host, void *context, uint64_t offset, void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = byte_at(context, offset + i);
    return !((sky_ground *)host)->gone;
}

static bool deliver(void *host, void *context, uint64_t offset, const void *data, size_t bytes) {
    sky_ground *g = host;
    for (size_t i = 0; i < bytes; i++)
        g->wrong += ((const uint8_t *)data)[i] != byte_at(context, offset + i);
    g->delivered += bytes;
    return !g->gone;
}

static void forgotten(void *host, uint32_t block, const sky_key *key) {
    (void)block, (void)key;
    ((sky_ground *)host)->forgotten++;
}

static void open_ground(sky_ground *g, uint32_t slots, uint32_t operations, uint8_t parity,
                        bool sealed, uint32_t eviction) {
    memset(g, 0, sizeof *g);
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550, .inclination_deg = 53};
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
    sky_turning t = {.start_ms = 1000000, .rotation_ns = SKY_GROUND_TURN_NS};
    assert_int_equal(sky_frame_init(&g->frame, &c, &p, (sky_satellite){3, 4}, &t, NULL), SKY_OK);
    sky_session_config config = {.frame = &g->frame,
                                 .chunk_bytes = SKY_GROUND_CHUNK,
                                 .satellite_slots = slots,
                                 .link_bits_s = 1000000000,
                                 .processing_ns = SKY_MS(1),
                                 .late_ns = SKY_MS(30), /* tests take their time to answer */
                                 .blocks_max = 16,
                                 .requests_max = 8,
                                 .operations_max = operations,
                                 .retries_max = 3,
                                 .eviction = eviction,
                                 .parity = parity,
                                 .sealed = sealed,
                                 .host = g,
                                 .fetch = fetch,
                                 .deliver = deliver,
                                 .forgotten = forgotten};
    assert_int_equal(sky_session_create(&config, &g->session), SKY_OK);
}

void sky_ground_open(sky_ground *g, uint32_t slots, uint32_t operations) {
    open_ground(g, slots, operations, 0, false, SKY_EVICT_LAZY);
}

void sky_ground_open_evicting(sky_ground *g, uint32_t eviction) {
    open_ground(g, 100, 64, 0, false, eviction);
}

void sky_ground_open_parity(sky_ground *g, uint32_t slots, uint32_t operations, uint8_t parity) {
    open_ground(g, slots, operations, parity, false, SKY_EVICT_LAZY);
}

void sky_ground_open_sealed(sky_ground *g, uint32_t slots, uint32_t operations) {
    open_ground(g, slots, operations, 0, true, SKY_EVICT_LAZY);
}

void sky_ground_close(sky_ground *g) {
    sky_session_destroy(g->session);
    sky_frame_deinit(&g->frame);
}

static sky_key key_of(uint32_t block) {
    return (sky_key){.bytes = {(uint8_t)block, 9, 9}};
}

void sky_ground_ask(sky_ground *g, sky_op op, uint32_t block, uint32_t bytes) {
    sky_request r = {.op = op,
                     .key = key_of(block),
                     .context = (void *)(uintptr_t)block,
                     .payload_bytes = bytes,
                     .room_bytes = UINT64_MAX};
    assert_int_equal(sky_session_submit(g->session, g->now, &r), SKY_OK);
}

void sky_ground_listen(sky_ground *g, sky_time until) {
    static uint8_t buffer[SKY_WIRE_BYTES_MAX];
    for (;;) {
        sky_datagram d = {.data = buffer, .bytes_max = sizeof buffer};
        while (sky_session_output(g->session, g->now, &d)) {
            assert_true(g->sent_count < SKY_GROUND_SENT_MAX);
            sky_ground_sent *s = &g->sent[g->sent_count++];
            *s = (sky_ground_sent){.to = d.to, .at = g->now};
            assert_int_equal(sky_message_decode(d.data, d.bytes, &s->message), SKY_OK);
            if (s->message.data_bytes > 0)
                memcpy(s->data, s->message.data, s->message.data_bytes);
            s->message.data = s->data;
        }
        sky_time wake = sky_session_wake(g->session);
        if (wake > until)
            break;
        g->now = wake > g->now ? wake : g->now;
        sky_session_input(g->session, g->now, NULL);
    }
    g->now = until > g->now ? until : g->now;
}

void sky_ground_say(sky_ground *g, const sky_message *m, sky_satellite from) {
    uint8_t buffer[SKY_WIRE_HEAD_BYTES + SKY_WIRE_BODY_BYTES_MAX + 2 * SKY_GROUND_CHUNK];
    sky_datagram d = {.from = from, .to = SKY_GROUND, .data = buffer, .opened = g->opened};
    d.bytes = sky_message_encode(m, buffer, sizeof buffer);
    assert_true(d.bytes > 0);
    sky_session_input(g->session, g->now, &d);
}

sky_message sky_ground_answer(const sky_ground_sent *s, const sky_ground_sent *stored,
                              uint32_t count) {
    sky_message m = {.request = s->message.request, .id = s->message.id, .spent_ns = SKY_MS(1)};
    m.type = s->message.type == SKY_WIRE_SET ? SKY_WIRE_SET_ACK : SKY_WIRE_MISS;
    for (uint32_t i = 0; m.type == SKY_WIRE_MISS && i < count; i++) {
        if (!sky_chunk_id_equal(&stored[i].message.id, &m.id))
            continue;
        m.type = SKY_WIRE_CHUNK;
        m.facts.checksum = stored[i].message.facts.checksum;
        m.data = stored[i].data;
        m.data_bytes = stored[i].message.data_bytes;
    }
    return m;
}

sky_result sky_ground_result(sky_ground *g) {
    sky_result r;
    assert_true(sky_session_result(g->session, &r));
    return r;
}

bool sky_ground_silent(sky_ground *g) {
    sky_result r;
    return !sky_session_result(g->session, &r);
}

uint32_t sky_ground_put(sky_ground *g, uint32_t block, uint32_t bytes, sky_ground_sent *stored) {
    g->sent_count = 0;
    sky_ground_ask(g, SKY_OP_PUT, block, bytes);
    sky_ground_listen(g, g->now + SKY_MS(20));
    uint32_t count = g->sent_count;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(g->sent[i].message.type, SKY_WIRE_SET);
        if (stored)
            stored[i] = g->sent[i];
        if (stored)
            stored[i].message.data = stored[i].data;
        sky_message m = sky_ground_answer(&g->sent[i], NULL, 0);
        sky_ground_say(g, &m, g->sent[i].to);
    }
    sky_result r = sky_ground_result(g);
    assert_int_equal(r.status, SKY_OK);
    g->sent_count = 0;
    return count;
}

sky_session_stat sky_ground_stat(const sky_ground *g) {
    sky_session_stat s;
    sky_session_stats(g->session, &s);
    return s;
}
