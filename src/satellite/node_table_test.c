/* Proves what a satellite that is full does for whom: each tenant has a share, and nobody's pins
 * keep another from it; that pins lapse, however often their chunk is handed on; that what is said
 * about a block costs by what is here of it, and counts only from whom it concerns; and that chosen
 * names do not make the table slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "satellite/node.h"

#define TURN_NS SKY_SECONDS(1000000000)

static const sky_satellite here = {3, 5}, giver = {3, 6}, stranger = {4, 5};

typedef struct {
    sky_node node;
    sky_node_config config;
    void *memory;
    sky_time now;
    uint8_t buffer[SKY_WIRE_BYTES_MAX];
} bench;

static void bench_open(bench *b, uint32_t slots) {
    memset(b, 0, sizeof *b);
    b->config = (sky_node_config){.constellation = {.planes = 5, .slots = 19},
                                  .turning = {.start_ms = 1000, .rotation_ns = TURN_NS},
                                  .migrate_window = 2,
                                  .migrate_timeout_ns = SKY_MS(50),
                                  .queue_max = 8,
                                  .chunk_bytes_max = 64,
                                  .gossip_hops = 1,
                                  .sealed = true};
    while (sky_node_slots(&b->config) < slots)
        b->config.memory_bytes += 64;
    size_t bytes = sky_node_bytes(&b->config);
    b->memory = malloc(bytes);
    assert_non_null(b->memory);
    memset(b->memory, 0xee, bytes);
    sky_node_init(&b->node, &b->config, here, 0, b->memory, bytes);
}

static void bench_close(bench *b) {
    free(b->memory);
}

/* Chunk `number` of a tenant's block. */
static sky_chunk_id name(char tenant, uint32_t block, uint32_t number) {
    sky_chunk_id id = {.version = 1, .number = number};
    memset(id.key.bytes, tenant, SKY_TENANT_BYTES);
    sky_store_u32(id.key.bytes + SKY_TENANT_BYTES, block);
    return id;
}

static void tell(bench *b, const sky_message *m, sky_satellite from) {
    sky_datagram d = {.from = from, .to = here, .data = b->buffer};
    d.bytes = sky_message_encode(m, b->buffer, sizeof b->buffer);
    assert_true(d.bytes > 0);
    sky_node_input(&b->node, b->now, &d);
}

static bool hear(bench *b, sky_message *m) {
    sky_datagram d = {.data = b->buffer, .bytes_max = sizeof b->buffer};
    if (!sky_node_output(&b->node, b->now, &d))
        return false;
    assert_int_equal(sky_message_decode(d.data, d.bytes, m), SKY_OK);
    return true;
}

static sky_message chunk(sky_wire_type type, sky_chunk_id id) {
    static const uint8_t data[64] = {1};
    return (sky_message){.type = type,
                         .request = type == SKY_WIRE_SET,
                         .id = id,
                         .facts = {.set_ms = 1000,
                                   .centre = here,
                                   .first = here,
                                   .next = here,
                                   .chunk_count = SKY_WIRE_CHUNKS_MAX,
                                   .window_planes = 1,
                                   .window_slots = 1},
                         .data = data,
                         .data_bytes = sizeof data};
}

static sky_message put(bench *b, char tenant, uint32_t block) {
    sky_message m = chunk(SKY_WIRE_SET, name(tenant, block, 1)), out;
    tell(b, &m, SKY_GROUND);
    do
        assert_true(hear(b, &out));
    while (out.type != SKY_WIRE_SET_ACK);
    return out;
}

static void say(bench *b, sky_wire_type type, sky_chunk_id id, uint32_t last, sky_satellite from) {
    sky_message m = chunk(type, id);
    m.facts.pinned = true;
    m.stride = 1;
    m.last = last;
    tell(b, &m, from);
}

static void pin(bench *b, char tenant, uint32_t block) {
    say(b, SKY_WIRE_PIN, name(tenant, block, 1), 1, SKY_GROUND);
}

static uint32_t held(const bench *b, char tenant) {
    uint32_t count = 0;
    for (uint32_t block = 0; block < 100; block++) {
        sky_chunk_id id = name(tenant, block, 1);
        sky_node_chunk c;
        count += sky_node_find(&b->node, &id, &c);
    }
    return count;
}

/* ---- shares ---- */

static void nobody_fills_anothers_share(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 12);
    for (uint32_t i = 0; i < 12; i++) {
        put(&b, 'a', i);
        pin(&b, 'a', i);
    }
    sky_message out = put(&b, 'a', 12); /* of one's own pins none goes */
    assert_int_equal(out.outcome, SKY_NOT_STORED);
    for (uint32_t i = 0; i < 12; i++) {
        out = put(&b, 'b', i);
        assert_int_equal(out.outcome, i < 6 ? SKY_STORED : SKY_STORED_EVICTED);
        if (out.outcome == SKY_STORED_EVICTED) /* another's block is never named */
            assert_int_equal(out.evicted.key.bytes[0], 'b');
    }
    assert_int_equal(held(&b, 'a'), 6);
    assert_int_equal(held(&b, 'b'), 6);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(put(&b, 'c', i).outcome, SKY_STORED);
    assert_int_equal(held(&b, 'a'), 4);
    assert_int_equal(held(&b, 'b'), 4);
    bench_close(&b);
}

/* A newcomer's room comes from who holds most, and of two who hold alike from the first. */
static void the_first_of_equals_makes_room(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    for (uint32_t i = 0; i < 4; i++) {
        put(&b, 'a', i);
        put(&b, 'b', i);
    }
    put(&b, 'c', 0);
    assert_int_equal(held(&b, 'a'), 3);
    assert_int_equal(held(&b, 'b'), 4);
    put(&b, 'c', 1);
    assert_int_equal(held(&b, 'a'), 3);
    assert_int_equal(held(&b, 'b'), 3);
    bench_close(&b);
}

/* Room that nobody else asks for is anybody's. */
static void one_tenant_alone_has_all(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    put(&b, 'b', 1);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(put(&b, 'a', i).outcome, SKY_STORED);
    assert_int_equal(held(&b, 'a'), 7);
    assert_int_equal(put(&b, 'a', 7).outcome, SKY_STORED_EVICTED);
    assert_int_equal(held(&b, 'b'), 1);
    bench_close(&b);
}

/* More tenants than are told apart share a place, and nothing breaks. */
static void there_may_be_any_number_of_tenants(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2 * SKY_NODE_TENANTS_MAX);
    for (int round = 0; round < 3; round++)
        for (int tenant = 1; tenant < 128; tenant++)
            put(&b, (char)tenant, (uint32_t)round);
    assert_true(sky_node_chunks(&b.node) >= 2 * SKY_NODE_TENANTS_MAX);
    assert_int_equal(b.node.tenant_count, SKY_NODE_TENANTS_MAX);
    bench_close(&b);
}

/* ---- pins ---- */

/* The flags of the MIGRATE that carries a chunk on say how old its pin is. */
static void pins_lapse(void **state) {
    (void)state;
    const sky_time hour = SKY_SECONDS(3600);
    bench b;
    bench_open(&b, 2);
    b.config.turning.start_ms = 1767225600000; /* any */
    b.now = 1000 * hour;
    put(&b, 'a', 1);
    put(&b, 'a', 2);
    pin(&b, 'a', 1);
    pin(&b, 'a', 2);
    b.now += (SKY_NODE_PIN_HOURS - 1) * hour;
    assert_int_equal(put(&b, 'a', 3).outcome, SKY_NOT_STORED);
    sky_message get = {.type = SKY_WIRE_GET, .id = name('a', 2, 1)}, out;
    tell(&b, &get, SKY_GROUND); /* a read renews it */
    assert_true(hear(&b, &out));
    b.now += hour;
    assert_int_equal(put(&b, 'a', 3).outcome, SKY_STORED_EVICTED);
    assert_int_equal(b.node.stat.lapsed, 1);
    assert_int_equal(put(&b, 'a', 4).outcome, SKY_STORED_EVICTED);
    sky_chunk_id kept = name('a', 2, 1);
    sky_node_chunk c;
    assert_true(sky_node_find(&b.node, &kept, &c));
    bench_close(&b);
}

static void a_pin_that_is_handed_on_gets_no_younger(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2);
    b.now = SKY_SECONDS(3600) * 1000;
    uint8_t now = (uint8_t)(sky_turning_ms(&b.config.turning, b.now) / 3600000);
    sky_message m = chunk(SKY_WIRE_MIGRATE, name('a', 1, 1)), out;
    m.facts.pinned = true;
    m.facts.pin_hour = (uint8_t)(now + 2); /* a clock ahead of ours */
    tell(&b, &m, giver);
    assert_true(hear(&b, &out));
    m.id = name('a', 2, 1); /* comes later, and is older */
    m.facts.pin_hour = (uint8_t)(now - SKY_NODE_PIN_HOURS);
    tell(&b, &m, giver);
    assert_true(hear(&b, &out));
    b.now += SKY_SECONDS(3600); /* they are looked at once an hour */
    sky_node_input(&b.node, b.now, NULL);
    assert_int_equal(b.node.stat.lapsed, 1);
    sky_chunk_id younger = name('a', 1, 1), older = name('a', 2, 1);
    sky_node_chunk c;
    assert_true(sky_node_find(&b.node, &younger, &c) && c.facts.pinned);
    assert_true(sky_node_find(&b.node, &older, &c) && !c.facts.pinned);
    bench_close(&b);
}

/* ---- what is said about blocks ---- */

static void only_whom_it_concerns_may_say_it(void **state) {
    (void)state;
    static const sky_wire_type types[] = {SKY_WIRE_DROP, SKY_WIRE_MOVE};
    for (size_t i = 0; i < 2; i++) {
        bench b;
        bench_open(&b, 4);
        sky_chunk_id id = name('a', 1, 1);
        sky_message m = chunk(SKY_WIRE_MIGRATE, id), out;
        m.facts.pinned = m.facts.spare = true;
        tell(&b, &m, giver);
        assert_true(hear(&b, &out));
        say(&b, types[i], id, 1, stranger);
        assert_int_equal(b.node.stat.malformed, 1);
        assert_int_equal(b.node.stat.moved, 0);
        assert_int_equal(held(&b, 'a'), 1);
        say(&b, types[i], id, 1, giver);
        assert_int_equal(b.node.stat.malformed, 1);
        assert_true(held(&b, 'a') == 0 || b.node.stat.moved == 1);
        bench_close(&b);
    }
}

/* However many chunks a message names, those that are here are looked at. */
static void what_is_said_costs_by_what_is_here(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4000);
    b.config.hash_key = (sky_hash_key){{1, 2}};
    for (uint32_t i = 0; i < 4000; i++)
        put(&b, 'a', i);
    assert_int_equal(b.node.stat.looked, 0);
    for (uint32_t i = 4000; i < 4100; i++) {
        say(&b, SKY_WIRE_DROP, name('a', i, 1), 3900, SKY_GROUND);
        sky_message m = {.type = SKY_WIRE_PURGE,
                         .id = name('a', i, 1),
                         .facts.chunk_count = SKY_WIRE_CHUNKS_MAX};
        b.now += SKY_MS(10);
        tell(&b, &m, SKY_GROUND);
    }
    assert_int_equal(b.node.stat.gossip_refused, 0);
    assert_true(b.node.stat.looked < 200 * 4);
    assert_int_equal(sky_node_chunks(&b.node), b.node.slot_count < 4000 ? b.node.slot_count : 4000);
    bench_close(&b);
}

/* Of names that all meet in one place of a table whose key is known, a satellite whose key is not
 * has few in each. */
static void nobody_chooses_a_place_in_the_table(void **state) {
    (void)state;
    enum { NAMES = 48 };
    bench b;
    bench_open(&b, NAMES);
    const uint32_t places = b.node.bucket_mask + 1;
    b.config.hash_key = (sky_hash_key){{0x243f6a8885a308d3, 0x13198a2e03707344}};
    uint32_t stored = 0;
    for (uint32_t block = 1; stored < NAMES; block++) {
        sky_chunk_id id = name('a', block, 1);
        uint8_t bytes[SKY_KEY_BYTES + 12];
        memcpy(bytes, id.key.bytes, SKY_KEY_BYTES);
        sky_store_u64(bytes + SKY_KEY_BYTES, id.version);
        sky_store_u32(bytes + SKY_KEY_BYTES + 8, id.number);
        if (sky_siphash(&(sky_hash_key){{0, 0}}, bytes, sizeof bytes) & (places - 1))
            continue;
        put(&b, 'a', block);
        stored++;
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < places; i++)
        used += b.node.buckets[i] != 0;
    assert_true(used > places / 4);
    bench_close(&b);
}

static size_t given;

/* What is given back may read as zeros. */
static void give(void *from, size_t bytes) {
    memset(from, 0, bytes);
    given += bytes;
}

static void drop_all_but(bench *b, uint32_t count, uint32_t kept) {
    for (uint32_t i = 0; i < count; i++) {
        if (i % kept)
            say(b, SKY_WIRE_DROP, name('a', i, 1), 1, SKY_GROUND);
    }
}

/* Bytes of chunks that left are given back, once, and never those of one that is held; when the
 * last has left, all there is, and the satellite goes on. */
static void memory_follows_what_is_held(void **state) {
    (void)state;
    const uint32_t slots = 20000, kept = 7; /* every seventh stays */
    static const uint8_t data[64] = {1};
    bench b;
    bench_open(&b, slots);
    given = 0;
    for (uint32_t i = 0; i < slots; i++)
        put(&b, 'a', i);
    sky_node_trim(&b.node, give);
    assert_int_equal(given, 0);
    drop_all_but(&b, slots, kept);
    sky_node_trim(&b.node, give);
    uint32_t left = (slots + kept - 1) / kept;
    assert_int_equal(sky_node_chunks(&b.node), left);
    assert_int_equal(given, (size_t)64 * (slots - left));
    sky_node_trim(&b.node, give);
    assert_int_equal(given, (size_t)64 * (slots - left));
    for (uint32_t i = 0; i < slots; i += kept) {
        const sky_chunk_id id = name('a', i, 1);
        sky_node_chunk found;
        assert_true(sky_node_find(&b.node, &id, &found));
        assert_memory_equal(found.data, data, sizeof data);
        say(&b, SKY_WIRE_DROP, id, 1, SKY_GROUND);
    }
    sky_node_trim(&b.node, give);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_true(given > (size_t)64 * (2 * slots - left)); /* the tables too */
    for (uint32_t i = 0; i < 100; i++)
        put(&b, 'a', i);
    assert_int_equal(held(&b, 'a'), 100);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_follows_what_is_held),
        cmocka_unit_test(nobody_fills_anothers_share),
        cmocka_unit_test(the_first_of_equals_makes_room),
        cmocka_unit_test(one_tenant_alone_has_all),
        cmocka_unit_test(there_may_be_any_number_of_tenants),
        cmocka_unit_test(pins_lapse),
        cmocka_unit_test(a_pin_that_is_handed_on_gets_no_younger),
        cmocka_unit_test(only_whom_it_concerns_may_say_it),
        cmocka_unit_test(what_is_said_costs_by_what_is_here),
        cmocka_unit_test(nobody_chooses_a_place_in_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
