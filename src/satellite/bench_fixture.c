#include "satellite/bench_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD 64

static const sky_satellite here = {3, 5};
static const sky_satellite centre = {3, 4};

void bench_open(bench *b, uint32_t slots) {
    memset(b, 0, sizeof *b);
    b->config = (sky_node_config){.constellation = {.planes = 5, .slots = 19},
                                  .turning = {.start_ms = 1000, .rotation_ns = BENCH_TURN_NS},
                                  .processing_ns = BENCH_SERVE_NS,
                                  .migrate_gap_ns = 1000,
                                  .migrate_timeout_ns = SKY_MS(50),
                                  .migrate_window = 2,
                                  .queue_max = 8,
                                  .chunk_bytes_max = 256};
    while (sky_node_slots(&b->config) < slots)
        b->config.memory_bytes++;
    b->bytes = sky_node_bytes(&b->config);
    b->memory = malloc(b->bytes + GUARD);
    assert_non_null(b->memory);
    memset(b->memory, 0xee, b->bytes + GUARD); /* nothing may depend on zeros */
    sky_node_init(&b->node, &b->config, here, 0, b->memory, b->bytes);
}

void bench_close(bench *b) {
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(b->memory[b->bytes + i], 0xee);
    free(b->memory);
}

sky_chunk_id bench_name(uint32_t block, uint32_t number) {
    return (sky_chunk_id){.key.bytes = {(uint8_t)block, 1, 2}, .version = 1, .number = number};
}

uint8_t bench_payload[256];

sky_message bench_set(sky_wire_type type, uint32_t block, sky_satellite first) {
    sky_message m = {.type = type, .request = block, .id = bench_name(block, 1)};
    memset(bench_payload, (int)block, sizeof bench_payload);
    m.facts = (sky_chunk_facts){.set_ms = 1000,
                                .centre = centre,
                                .first = first,
                                .next = {3, 4},
                                .chunk_count = 9,
                                .window_planes = 3,
                                .window_slots = 3,
                                .strategy = SKY_PLACE_ROTATION};
    m.data = bench_payload;
    m.data_bytes = sizeof bench_payload;
    m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
    return m;
}

void bench_tell_from(bench *b, sky_time now, const sky_message *m, sky_satellite from) {
    sky_datagram d = {.from = from, .to = here, .data = b->buffer};
    d.bytes = sky_message_encode(m, b->buffer, sizeof b->buffer);
    assert_true(d.bytes > 0);
    sky_node_input(&b->node, now, &d);
}

void bench_tell(bench *b, sky_time now, const sky_message *m) {
    bench_tell_from(b, now, m, SKY_GROUND);
}

void bench_ask(bench *b, sky_time now, sky_wire_type type, uint32_t block) {
    sky_message m = {.type = type, .request = 100 + block, .id = bench_name(block, 1)};
    m.stride = m.last = 1; /* of a HAS */
    bench_tell(b, now, &m);
}

bool bench_hear(bench *b, sky_time now, sky_message *m) {
    sky_datagram d = {.data = b->buffer, .bytes_max = sizeof b->buffer};
    if (!sky_node_output(&b->node, now, &d))
        return false;
    assert_true(sky_satellite_equal(d.from, here));
    b->to = d.to;
    assert_int_equal(sky_message_decode(d.data, d.bytes, m), SKY_OK);
    return true;
}

sky_message bench_taken(bench *b, sky_time now) {
    sky_message out;
    do
        assert_true(bench_hear(b, now, &out));
    while (out.type != SKY_WIRE_MIGRATE);
    return (sky_message){
        .type = SKY_WIRE_MIGRATE_ACK, .request = out.request, .id = out.id, .outcome = SKY_STORED};
}

void bench_run(bench *b, sky_time until) {
    sky_message m;
    for (sky_time at; (at = sky_node_wake(&b->node)) <= until;) {
        sky_node_input(&b->node, at, NULL);
        while (bench_hear(b, at, &m))
            ;
    }
}

void bench_silent(bench *b, sky_time now) {
    sky_message m;
    assert_false(bench_hear(b, now, &m));
}
