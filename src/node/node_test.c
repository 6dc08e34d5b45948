/* Proves what one satellite does with each message: serves one chunk after another, evicts by use,
 * and when the sky turns hands its chunks on, keeping each until the other has said that it holds
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/node.h"

#define TURN_NS  SKY_SECONDS(10)
#define SERVE_NS SKY_MS(2)
#define GUARD    64

static const sky_satellite here = {3, 5};
static const sky_satellite centre = {3, 4};

typedef struct {
    sky_node node;
    sky_node_config config;
    uint8_t *memory;
    size_t bytes;
    uint8_t buffer[SKY_WIRE_BYTES_MAX];
    sky_satellite to; /* of the message heard last */
} bench;

static void bench_open(bench *b, uint32_t slots) {
    memset(b, 0, sizeof *b);
    b->config = (sky_node_config){.constellation = {.planes = 5, .slots = 19},
                                  .turning = {.start_ms = 1000, .rotation_ns = TURN_NS},
                                  .processing_ns = SERVE_NS,
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

static void bench_close(bench *b) {
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(b->memory[b->bytes + i], 0xee);
    free(b->memory);
}

static sky_chunk_id name(uint32_t block, uint32_t number) {
    return (sky_chunk_id){.key.bytes = {(uint8_t)block, 1, 2}, .version = 1, .number = number};
}

static uint8_t payload[256];

/* A chunk of `block` whose first place is `first`. */
static sky_message set(sky_wire_type type, uint32_t block, sky_satellite first) {
    sky_message m = {.type = type, .request = block, .id = name(block, 1)};
    memset(payload, (int)block, sizeof payload);
    m.facts = (sky_chunk_facts){.set_ms = 1000,
                                .centre = centre,
                                .first = first,
                                .next = {3, 4},
                                .chunk_count = 9,
                                .window_planes = 3,
                                .window_slots = 3,
                                .strategy = SKY_PLACE_ROTATION};
    m.data = payload;
    m.data_bytes = sizeof payload;
    m.facts.checksum = sky_chunk_checksum(&m.id, payload, sizeof payload);
    return m;
}

static void tell_from(bench *b, sky_time now, const sky_message *m, sky_satellite from) {
    sky_datagram d = {.from = from, .to = here, .data = b->buffer};
    d.bytes = sky_message_encode(m, b->buffer, sizeof b->buffer);
    assert_true(d.bytes > 0);
    sky_node_input(&b->node, now, &d);
}

static void tell(bench *b, sky_time now, const sky_message *m) {
    tell_from(b, now, m, SKY_GROUND);
}

static void ask(bench *b, sky_time now, sky_wire_type type, uint32_t block) {
    sky_message m = {.type = type, .request = 100 + block, .id = name(block, 1)};
    tell(b, now, &m);
}

static bool hear(bench *b, sky_time now, sky_message *m) {
    sky_datagram d = {.data = b->buffer, .bytes_max = sizeof b->buffer};
    if (!sky_node_output(&b->node, now, &d))
        return false;
    assert_true(sky_satellite_equal(d.from, here));
    b->to = d.to;
    assert_int_equal(sky_message_decode(d.data, d.bytes, m), SKY_OK);
    return true;
}

/* Let it do all it has to do up to `until`; what it says on the way is dropped. */
static void run(bench *b, sky_time until) {
    sky_message m;
    for (sky_time at; (at = sky_node_wake(&b->node)) <= until;) {
        sky_node_input(&b->node, at, NULL);
        while (hear(b, at, &m))
            ;
    }
}

static void assert_silent(bench *b, sky_time now) {
    sky_message m;
    assert_false(hear(b, now, &m));
}

/* ---- serving ---- */

static void requests_are_served_one_after_another(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    assert_int_equal(sky_node_wake(&b.node), SKY_TIME_NEVER);
    sky_message in = set(SKY_WIRE_SET, 1, here), out;
    tell(&b, 100, &in);
    ask(&b, 200, SKY_WIRE_GET, 1);
    ask(&b, 300, SKY_WIRE_GET, 9);
    ask(&b, 400, SKY_WIRE_HAS, 1);
    ask(&b, 500, SKY_WIRE_HAS, 9);
    static const sky_wire_type answers[] = {SKY_WIRE_SET_ACK, SKY_WIRE_CHUNK, SKY_WIRE_MISS,
                                            SKY_WIRE_HAS_REPLY, SKY_WIRE_HAS_REPLY};
    for (int i = 0; i < 5; i++) {
        sky_time due = 100 + (i + 1) * SERVE_NS;
        assert_int_equal(sky_node_wake(&b.node), due);
        assert_silent(&b, due - 1);
        assert_true(hear(&b, due, &out));
        assert_true(sky_satellite_equal(b.to, SKY_GROUND));
        assert_int_equal(out.type, answers[i]);
        assert_int_equal(out.spent_ns, due - (i + 1) * 100);
        assert_silent(&b, due);
        if (out.type == SKY_WIRE_CHUNK) {
            assert_int_equal(out.request, 101);
            assert_int_equal(out.data_bytes, sizeof payload);
            assert_memory_equal(out.data, payload, sizeof payload);
            assert_int_equal(out.facts.checksum, in.facts.checksum);
        }
        if (i >= 3)
            assert_int_equal(out.present, i == 3);
    }
    assert_int_equal(sky_node_wake(&b.node), TURN_NS); /* it holds something, so the turn matters */
    bench_close(&b);
}

static void a_full_queue_drops_and_counts(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    for (uint32_t i = 0; i < 12; i++)
        ask(&b, 0, SKY_WIRE_GET, i);
    assert_int_equal(b.node.stat.overflow, 4);
    sky_message m;
    uint32_t answers = 0;
    while (hear(&b, SKY_SECONDS(1), &m))
        assert_int_equal(m.request, 100 + answers++);
    assert_int_equal(answers, 8);
    assert_true(sky_node_idle(&b.node));
    bench_close(&b);
}

static void a_replaced_block_keeps_both_versions(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message old = set(SKY_WIRE_SET, 1, here), new = old, m;
    new.id.version = 2;
    new.facts.checksum = sky_chunk_checksum(&new.id, payload, sizeof payload);
    tell(&b, 0, &old);
    tell(&b, 0, &new);
    assert_int_equal(sky_node_chunks(&b.node), 2);
    m = (sky_message){.type = SKY_WIRE_DROP, .id = old.id, .stride = 9, .last = 1};
    tell(&b, 0, &m);
    sky_node_chunk chunk;
    assert_false(sky_node_find(&b.node, &old.id, &chunk));
    assert_true(sky_node_find(&b.node, &new.id, &chunk));
    bench_close(&b);
}

/* ---- memory pressure ---- */

static sky_message set_acked(bench *b, uint32_t block) {
    sky_message m = set(SKY_WIRE_SET, block, here), out;
    tell(b, 0, &m);
    assert_true(hear(b, TURN_NS - 1, &out));
    assert_int_equal(out.type, SKY_WIRE_SET_ACK);
    return out;
}

static void the_least_recently_used_goes(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 3);
    for (uint32_t i = 1; i <= 3; i++)
        assert_int_equal(set_acked(&b, i).outcome, SKY_STORED);
    sky_message out;
    ask(&b, 0, SKY_WIRE_GET, 1); /* now 2 is the oldest */
    assert_true(hear(&b, TURN_NS - 1, &out));
    out = set_acked(&b, 4);
    assert_int_equal(out.outcome, SKY_STORED_EVICTED);
    sky_chunk_id gone = name(2, 1);
    assert_true(sky_chunk_id_equal(&out.evicted, &gone));
    assert_int_equal(set_acked(&b, 1).outcome, SKY_STORED); /* said twice: there already */
    assert_int_equal(sky_node_chunks(&b.node), 3);
    bench_close(&b);
}

static void pin(bench *b, uint32_t block, bool pinned) {
    sky_message m = {
        .type = SKY_WIRE_PIN, .id = name(block, 1), .facts.pinned = pinned, .stride = 9, .last = 1};
    tell(b, 0, &m);
}

static void pinned_chunks_stay(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2);
    set_acked(&b, 1);
    set_acked(&b, 2);
    pin(&b, 1, true);
    sky_chunk_id two = name(2, 1);
    sky_message out = set_acked(&b, 3);
    assert_true(sky_chunk_id_equal(&out.evicted, &two));
    pin(&b, 3, true);
    assert_int_equal(set_acked(&b, 4).outcome, SKY_NOT_STORED);
    assert_int_equal(b.node.stat.refused, 1);
    pin(&b, 1, false);
    sky_chunk_id one = name(1, 1);
    out = set_acked(&b, 4);
    assert_true(sky_chunk_id_equal(&out.evicted, &one));
    bench_close(&b);
}

/* Of a key's heads there is one at most, in whatever order they come. */
static void heads_do_not_pile_up(void **state) {
    (void)state;
    static const uint64_t versions[] = {5, 4, 3, 7, 6, 7};
    bench b;
    bench_open(&b, 8);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        sky_message m = set(SKY_WIRE_SET, 1, here), out;
        m.id.number = 0;
        m.id.version = versions[i];
        m.facts.checksum = sky_chunk_checksum(&m.id, payload, sizeof payload);
        tell(&b, 0, &m);
        assert_true(hear(&b, TURN_NS - 1, &out));
        assert_int_equal(out.outcome, SKY_STORED);
        assert_int_equal(sky_node_chunks(&b.node), 1);
    }
    sky_message get = {.type = SKY_WIRE_GET, .id = name(1, 0)}, out;
    get.id.version = SKY_VERSION_ANY;
    tell(&b, 0, &get);
    assert_true(hear(&b, TURN_NS - 1, &out));
    assert_int_equal(out.id.version, 7);
    bench_close(&b);
}

static void satellites_do_not_rule_each_other(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2);
    set_acked(&b, 1);
    sky_message m = {
        .type = SKY_WIRE_PIN, .id = name(1, 1), .facts.pinned = true, .stride = 9, .last = 1};
    tell_from(&b, 0, &m, centre);
    m = set(SKY_WIRE_SET, 2, here);
    tell_from(&b, 0, &m, centre);
    assert_int_equal(b.node.stat.malformed, 2);
    assert_int_equal(sky_node_chunks(&b.node), 1);
    const sky_chunk_id one = name(1, 1);
    sky_node_chunk chunk;
    assert_true(sky_node_find(&b.node, &one, &chunk));
    assert_false(chunk.facts.pinned);
    assert_true(sky_satellite_equal(chunk.facts.first, here));
    bench_close(&b);
}

/* An answer that is not ready yet does not hold back what may leave before it: a host that sleeps
 * until the node's wake says the rumour then. */
static void a_rumour_does_not_wait_for_an_answer(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    b.config.gossip_hops = 2;
    set_acked(&b, 1);
    const sky_time now = SKY_SECONDS(1);
    ask(&b, now, SKY_WIRE_GET, 1);
    assert_int_equal(sky_node_wake(&b.node), now + SERVE_NS);
    sky_message purge = {.type = SKY_WIRE_PURGE, .id = name(9, 1), .hops = 2}, out;
    purge.facts.chunk_count = 9;
    tell_from(&b, now, &purge, centre);
    assert_true(sky_node_wake(&b.node) <= now);
    assert_true(hear(&b, now, &out));
    assert_int_equal(out.type, SKY_WIRE_PURGE);
    while (hear(&b, now, &out))
        assert_int_equal(out.type, SKY_WIRE_PURGE);
    assert_int_equal(sky_node_wake(&b.node), now + SERVE_NS);
    assert_true(hear(&b, now + SERVE_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_CHUNK);
    bench_close(&b);
}

/* Pinned neighbours are not asked for; the one that is is asked for once a round all the same. */
static void a_sweep_takes_its_period(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    b.config.turning.rotation_ns = SKY_TIME_NEVER;
    b.config.sweep_period_ns = SKY_SECONDS(1);
    sky_node_init(&b.node, &b.config, here, 0, b.memory, b.bytes);
    for (uint32_t i = 1; i <= 8; i++) {
        sky_message m = set(SKY_WIRE_SET, i, here), out;
        m.facts.pinned = i < 8;
        tell(&b, 0, &m);
        assert_true(hear(&b, TURN_NS, &out));
    }
    uint32_t asked = 0;
    sky_message m;
    for (sky_time at; (at = sky_node_wake(&b.node)) < SKY_SECONDS(10);) {
        sky_node_input(&b.node, at, NULL);
        while (hear(&b, at, &m))
            asked += m.type == SKY_WIRE_HAS;
    }
    assert_in_range(asked, 8, 10);
    bench_close(&b);
}

static void rows_are_dropped(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 20);
    for (uint32_t number = 1; number <= 9; number++) {
        sky_message m = set(SKY_WIRE_MIGRATE, 1, here);
        m.id.number = number;
        m.facts.checksum = sky_chunk_checksum(&m.id, payload, sizeof payload);
        tell_from(&b, 0, &m, centre);
        assert_true(hear(&b, 0, &m));
    }
    sky_message drop = {.type = SKY_WIRE_DROP, .id = name(1, 2), .stride = 3, .last = 8};
    tell(&b, 0, &drop);
    for (uint32_t number = 1; number <= 9; number++) {
        sky_chunk_id id = name(1, number);
        sky_node_chunk chunk;
        assert_int_equal(sky_node_find(&b.node, &id, &chunk), number % 3 != 2);
    }
    drop.id.number = drop.stride = 1;
    drop.last = 1u << 23; /* more than fit: nobody's chunks, only work */
    tell(&b, 0, &drop);
    assert_int_equal(sky_node_chunks(&b.node), 6);
    assert_int_equal(b.node.stat.malformed, 1);
    bench_close(&b);
}

/* ---- migration ---- */

/* After the turn slot 5 of the window around (3,4) is out of it, and slot 2 is in. */
static void chunks_are_copied_before_they_are_dropped(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message in = set(SKY_WIRE_SET, 1, here), out;
    tell(&b, 0, &in);
    run(&b, TURN_NS - 1);
    sky_node_input(&b.node, TURN_NS, NULL);
    assert_true(hear(&b, TURN_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(sky_satellite_equal(b.to, (sky_satellite){3, 2}));
    assert_memory_equal(out.data, payload, sizeof payload);
    assert_int_equal(out.facts.set_ms, 1000);
    uint64_t first_request = out.request;
    ask(&b, TURN_NS + 1, SKY_WIRE_GET, 1); /* still answered from here */
    assert_true(hear(&b, TURN_NS + 1 + SERVE_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_CHUNK);

    sky_time late = TURN_NS + b.config.migrate_timeout_ns; /* nobody answered */
    assert_int_equal(sky_node_wake(&b.node), late);
    sky_node_input(&b.node, late, NULL);
    assert_true(hear(&b, late, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(out.request != first_request);

    sky_message ack = {.type = SKY_WIRE_MIGRATE_ACK, .request = first_request, .id = in.id};
    tell_from(&b, late + 1, &ack, (sky_satellite){3, 2}); /* an answer to the first: too old */
    ack.request = out.request;
    ack.outcome = SKY_NOT_STORED; /* no room there */
    tell_from(&b, late + 2, &ack, (sky_satellite){3, 2});
    assert_int_equal(sky_node_chunks(&b.node), 1);
    ack.outcome = SKY_STORED;
    tell_from(&b, late + 3, &ack, (sky_satellite){1, 1}); /* nobody sent it there */
    assert_int_equal(sky_node_chunks(&b.node), 1);
    tell_from(&b, late + 3, &ack, (sky_satellite){3, 2});
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_true(sky_node_idle(&b.node));
    assert_int_equal(sky_node_wake(&b.node), SKY_TIME_NEVER);
    assert_int_equal(b.node.stat.migrated, 1);
    assert_int_equal(b.node.stat.migrated_bytes, sizeof payload);
    bench_close(&b);
}

static void migration_keeps_to_its_window_and_pace(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    sky_message out;
    for (uint32_t i = 1; i <= 5; i++)
        set_acked(&b, i);
    sky_node_input(&b.node, TURN_NS, NULL);
    uint64_t requests[2];
    for (uint32_t i = 0; i < 2; i++) {
        sky_time due = TURN_NS + i * b.config.migrate_gap_ns;
        if (i > 0)
            assert_silent(&b, due - 1);
        assert_true(hear(&b, due, &out));
        assert_int_equal(out.id.key.bytes[0], i + 1); /* oldest first: the order of use survives */
        requests[i] = out.request;
    }
    assert_silent(&b, TURN_NS + SKY_MS(1)); /* two on the way, no more */
    sky_message ack = {.type = SKY_WIRE_MIGRATE_ACK, .request = requests[0], .id = name(1, 1)};
    tell_from(&b, TURN_NS + SKY_MS(1), &ack, (sky_satellite){3, 2});
    assert_true(hear(&b, TURN_NS + SKY_MS(1), &out));
    assert_int_equal(out.id.key.bytes[0], 3);
    bench_close(&b);
}

static void chunks_that_come_late_move_on_at_once(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message in = set(SKY_WIRE_SET, 1, here), out;
    tell(&b, TURN_NS + 5, &in); /* sent before the turn, here after it */
    assert_true(hear(&b, TURN_NS + 5, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(hear(&b, TURN_NS + 5 + SERVE_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_SET_ACK);
    bench_close(&b);
}

static void arrivals_are_acknowledged_each_time(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_satellite from = {3, 8};
    sky_message in = set(SKY_WIRE_MIGRATE, 1, here), out;
    for (uint64_t request = 5; request < 8; request++) {
        in.request = request;
        tell_from(&b, 0, &in, from);
        assert_int_equal(sky_node_wake(&b.node), 0);
        assert_true(hear(&b, 0, &out));
        assert_int_equal(out.type, SKY_WIRE_MIGRATE_ACK);
        assert_int_equal(out.request, request);
        assert_int_equal(out.outcome, SKY_STORED);
        assert_true(sky_satellite_equal(b.to, from));
    }
    assert_int_equal(sky_node_chunks(&b.node), 1);
    bench_close(&b);
}

/* A chunk moves in: how many the satellite has then. The giver is told that it may let go. */
static uint32_t chunks_after_move(bench *b, const sky_message *in) {
    sky_message out;
    tell_from(b, 0, in, (sky_satellite){3, 8});
    do
        assert_true(hear(b, 0, &out));
    while (out.type != SKY_WIRE_MIGRATE_ACK);
    assert_int_equal(out.outcome, SKY_STORED);
    return sky_node_chunks(&b->node);
}

/* Natural eviction: what is left of a block that is gone ends where it would move to, and so does a
 * head that has a newer one there. */
static void what_is_gone_does_not_move_in(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    b.config.gossip_hops = 2;
    sky_message purge = {.type = SKY_WIRE_PURGE, .id = name(1, 1), .hops = 1};
    purge.facts.chunk_count = 9;
    tell_from(&b, 0, &purge, centre);
    sky_message in = set(SKY_WIRE_MIGRATE, 1, here);
    assert_int_equal(chunks_after_move(&b, &in), 0);
    assert_int_equal(b.node.stat.purged, 1);
    in = set(SKY_WIRE_MIGRATE, 2, here); /* another block */
    assert_int_equal(chunks_after_move(&b, &in), 1);
    in = set(SKY_WIRE_MIGRATE, 1, here);
    in.facts.pinned = true;
    assert_int_equal(chunks_after_move(&b, &in), 2);
    assert_int_equal(b.node.stat.purged, 1);
    static const uint64_t versions[] = {5, 4, 6};
    for (size_t i = 0; i < 3; i++) {
        in = set(SKY_WIRE_MIGRATE, 3, here);
        in.id.number = 0;
        in.id.version = versions[i];
        in.facts.checksum = sky_chunk_checksum(&in.id, payload, sizeof payload);
        assert_int_equal(chunks_after_move(&b, &in), 3);
        assert_int_equal(b.node.stat.purged, i == 0 ? 1 : 2);
    }
    bench_close(&b);
}

/* The acknowledgement of the MIGRATE it sends next, to b->to. */
static sky_message taken(bench *b, sky_time now) {
    sky_message out;
    do
        assert_true(hear(b, now, &out));
    while (out.type != SKY_WIRE_MIGRATE);
    return (sky_message){
        .type = SKY_WIRE_MIGRATE_ACK, .request = out.request, .id = out.id, .outcome = SKY_STORED};
}

#define SENT   (2 * TURN_NS - SKY_MS(10))
#define TURNED (2 * TURN_NS + SKY_MS(1))

/* Chunk 1 on its way: sent before a turn, and the answer, which is returned, comes after it. */
static sky_message on_its_way(bench *b) {
    bench_open(b, 4);
    sky_message in = set(SKY_WIRE_SET, 1, here);
    tell(b, TURN_NS + 1, &in);
    return taken(b, SENT);
}

/* A sends to B, and before the answer is here B, for reasons of its own, gives the chunk back and
 * is told "stored": then A's word is newer than B's, and B's old word must not make A drop the
 * last copy. */
static void two_givers_do_not_drop_the_last_copy(void **state) {
    (void)state;
    bench b;
    sky_message old_word = on_its_way(&b), out;
    sky_satellite there = b.to;
    sky_message back = set(SKY_WIRE_MIGRATE, 1, here);
    tell_from(&b, SENT + 1, &back, there);
    assert_true(hear(&b, SENT + 1, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE_ACK);
    tell_from(&b, SENT + 2, &old_word, there);
    assert_int_equal(sky_node_chunks(&b.node), 1);
    bench_close(&b);
}

/* A chunk dropped while it is on its way is dropped where it was sent, not where it would belong by
 * then; also when nobody answers, or has answered in vain. */
static void a_drop_follows_the_chunk(void **state) {
    (void)state;
    for (int answered = 0; answered < 3; answered++) {
        bench b;
        sky_message ack = on_its_way(&b), out;
        sky_satellite there = b.to;
        sky_message drop = {.type = SKY_WIRE_DROP, .id = ack.id, .stride = 1, .last = 1};
        sky_time late = SENT + b.config.migrate_timeout_ns;
        if (answered == 2) { /* too late: it was to be sent again, and is not */
            sky_node_input(&b.node, late, NULL);
            tell(&b, late, &drop);
        } else {
            tell(&b, TURNED, &drop);
            assert_silent(&b, TURNED);
            if (answered)
                tell_from(&b, TURNED, &ack, there);
            else
                sky_node_input(&b.node, late, NULL);
        }
        assert_true(hear(&b, late, &out));
        assert_int_equal(out.type, SKY_WIRE_DROP);
        assert_true(sky_satellite_equal(b.to, there));
        assert_int_equal(sky_node_chunks(&b.node), 0);
        assert_silent(&b, late);
        bench_close(&b);
    }
}

/* A chunk that is dropped while it is on its way, and then set again or moved, is there again: its
 * acknowledgement must hold. */
static void what_is_set_again_is_not_dropped(void **state) {
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        bench b;
        sky_message ack = on_its_way(&b), in = set(SKY_WIRE_SET, 1, here);
        sky_message drop = {.type = SKY_WIRE_DROP, .id = in.id, .stride = 1, .last = 1};
        tell(&b, TURNED, &drop);
        in.type = moved ? SKY_WIRE_MOVE : SKY_WIRE_SET;
        in.stride = in.last = 1;
        tell(&b, TURNED, &in);
        if (!moved)
            ack = taken(&b, TURNED + SERVE_NS);
        tell_from(&b, TURNED + SERVE_NS, &ack, b.to);
        if (moved) { /* where it should be is where it was sent: that is all */
            assert_true(hear(&b, TURNED + SERVE_NS, &in));
            assert_int_equal(in.type, SKY_WIRE_MOVE_ACK);
        }
        assert_silent(&b, TURNED + SERVE_NS); /* no DROP for what was just handed over */
        assert_int_equal(sky_node_chunks(&b.node), 0);
        bench_close(&b);
    }
}

/* A MOVE of that chunk to a time to come, and what it says where it is told it. */
static sky_message move(void) {
    sky_message m = set(SKY_WIRE_MOVE, 1, (sky_satellite){2, 9});
    m.data_bytes = 0;
    m.facts.set_ms += 9 * TURN_NS / SKY_MS(1);
    m.facts.centre.slot = 9;
    m.stride = m.last = 1;
    return m;
}

/* A chunk moved while it is on its way is never taken back from where it was sent: whoever took it
 * may have heard of the move himself, and given it on. He is told of the move when he says that he
 * has it, or when it is clear that he does not say so, and the chunk is kept until the new place
 * has it. */
static void a_move_follows_the_chunk(void **state) {
    (void)state;
    for (int answered = 0; answered < 3; answered++) {
        bench b;
        sky_message ack = on_its_way(&b), m = move(), out;
        sky_satellite there = b.to;
        sky_time late = SENT + b.config.migrate_timeout_ns;
        if (answered == 2)
            sky_node_input(&b.node, late, NULL);
        for (int twice = 0; twice < 2; twice++) { /* the answer to the first may be lost */
            tell(&b, answered < 2 ? TURNED : late, &m);
            assert_true(hear(&b, answered < 2 ? TURNED : late, &out));
            assert_int_equal(out.type, SKY_WIRE_MOVE_ACK);
            assert_int_equal(out.moved, 1);
            if (answered == 2)
                break;
            assert_silent(&b, TURNED);
        }
        if (answered == 1)
            tell_from(&b, TURNED, &ack, there);
        else if (answered == 0)
            sky_node_input(&b.node, late, NULL);
        assert_true(hear(&b, late, &out));
        assert_int_equal(out.type, SKY_WIRE_MOVE);
        assert_true(sky_satellite_equal(b.to, there));
        assert_int_equal(out.facts.set_ms, m.facts.set_ms);
        tell_from(&b, late, &ack, there); /* an old word */
        assert_int_equal(sky_node_chunks(&b.node), 1);
        ack = taken(&b, late);
        assert_true(sky_satellite_equal(b.to, m.facts.first));
        tell_from(&b, late, &ack, b.to);
        assert_int_equal(sky_node_chunks(&b.node), 0);
        assert_silent(&b, late);
        bench_close(&b);
    }
}

/* Who is told so by a satellite moves what it has, and need not say how much that was. */
static void a_move_is_passed_on_without_an_answer(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message given = set(SKY_WIRE_MIGRATE, 1, here), out;
    tell_from(&b, 0, &given, centre);
    assert_true(hear(&b, 0, &out));
    sky_message m = move();
    tell_from(&b, TURN_NS / 2, &m, centre);
    sky_message ack = taken(&b, TURN_NS / 2);
    assert_true(sky_satellite_equal(b.to, m.facts.first));
    tell_from(&b, TURN_NS / 2, &ack, b.to);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_int_equal(b.node.stat.malformed, 0);
    assert_silent(&b, TURN_NS / 2);
    bench_close(&b);
}

/* ---- hostile ---- */

static void bad_messages_are_counted(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message m = set(SKY_WIRE_SET, 1, here);
    m.facts.checksum ^= 1;
    tell(&b, 0, &m);
    assert_int_equal(b.node.stat.corrupt, 1);
    m = set(SKY_WIRE_SET, 1, (sky_satellite){6, 1}); /* five planes here */
    tell(&b, 0, &m);
    m = set(SKY_WIRE_SET, 1, here);
    m.facts.window_slots = 21; /* nineteen slots */
    tell(&b, 0, &m);
    uint8_t large[300] = {0};
    m = set(SKY_WIRE_SET, 1, here);
    m.data = large;
    m.data_bytes = sizeof large;
    m.facts.checksum = sky_chunk_checksum(&m.id, large, sizeof large);
    tell(&b, 0, &m);
    m = (sky_message){.type = SKY_WIRE_MISS, .id = name(1, 1)};
    tell(&b, 0, &m);
    sky_datagram noise = {.from = SKY_GROUND, .to = here, .data = b.buffer, .bytes = 20};
    sky_node_input(&b.node, 0, &noise);
    assert_int_equal(b.node.stat.malformed, 5);
    assert_true(sky_node_idle(&b.node));
    assert_silent(&b, SKY_SECONDS(1));
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_served_one_after_another),
        cmocka_unit_test(a_full_queue_drops_and_counts),
        cmocka_unit_test(a_replaced_block_keeps_both_versions),
        cmocka_unit_test(the_least_recently_used_goes),
        cmocka_unit_test(pinned_chunks_stay),
        cmocka_unit_test(heads_do_not_pile_up),
        cmocka_unit_test(satellites_do_not_rule_each_other),
        cmocka_unit_test(a_rumour_does_not_wait_for_an_answer),
        cmocka_unit_test(a_sweep_takes_its_period),
        cmocka_unit_test(rows_are_dropped),
        cmocka_unit_test(chunks_are_copied_before_they_are_dropped),
        cmocka_unit_test(migration_keeps_to_its_window_and_pace),
        cmocka_unit_test(chunks_that_come_late_move_on_at_once),
        cmocka_unit_test(arrivals_are_acknowledged_each_time),
        cmocka_unit_test(what_is_gone_does_not_move_in),
        cmocka_unit_test(two_givers_do_not_drop_the_last_copy),
        cmocka_unit_test(a_drop_follows_the_chunk),
        cmocka_unit_test(what_is_set_again_is_not_dropped),
        cmocka_unit_test(a_move_follows_the_chunk),
        cmocka_unit_test(a_move_is_passed_on_without_an_answer),
        cmocka_unit_test(bad_messages_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
