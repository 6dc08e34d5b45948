/* Proves what one satellite does with each message: serves one chunk after another, evicts by use,
 * and when the sky turns hands its chunks on, keeping each until the other has said that it holds
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5};
static const sky_satellite centre = {3, 4};

/* ---- serving ---- */

static void requests_are_served_one_after_another(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    assert_int_equal(sky_node_wake(&b.node), SKY_TIME_NEVER);
    sky_message in = bench_set(SKY_WIRE_SET, 1, here), out;
    bench_tell(&b, 100, &in);
    bench_ask(&b, 200, SKY_WIRE_GET, 1);
    bench_ask(&b, 300, SKY_WIRE_GET, 9);
    bench_ask(&b, 400, SKY_WIRE_HAS, 1);
    bench_ask(&b, 500, SKY_WIRE_HAS, 9);
    static const sky_wire_type answers[] = {SKY_WIRE_SET_ACK, SKY_WIRE_CHUNK, SKY_WIRE_MISS,
                                            SKY_WIRE_HAS_REPLY, SKY_WIRE_HAS_REPLY};
    for (int i = 0; i < 5; i++) {
        sky_time due = 100 + (i + 1) * BENCH_SERVE_NS;
        assert_int_equal(sky_node_wake(&b.node), due);
        bench_silent(&b, due - 1);
        assert_true(bench_hear(&b, due, &out));
        assert_true(sky_satellite_equal(b.to, SKY_GROUND));
        assert_int_equal(out.type, answers[i]);
        assert_int_equal(out.spent_ns, due - (i + 1) * 100);
        bench_silent(&b, due);
        if (out.type == SKY_WIRE_CHUNK) {
            assert_int_equal(out.request, 101);
            assert_int_equal(out.data_bytes, sizeof bench_payload);
            assert_memory_equal(out.data, bench_payload, sizeof bench_payload);
            assert_int_equal(out.facts.checksum, in.facts.checksum);
        }
        if (i >= 3)
            assert_int_equal(out.present, i == 3);
    }
    assert_int_equal(sky_node_wake(&b.node),
                     BENCH_TURN_NS); /* it holds something, so the turn matters */
    bench_close(&b);
}

static void a_full_queue_drops_and_counts(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    for (uint32_t i = 0; i < 12; i++)
        bench_ask(&b, 0, SKY_WIRE_GET, i);
    assert_int_equal(b.node.stat.overflow, 4);
    sky_message m;
    uint32_t answers = 0;
    while (bench_hear(&b, SKY_SECONDS(1), &m))
        assert_int_equal(m.request, 100 + answers++);
    assert_int_equal(answers, 8);
    assert_true(sky_node_idle(&b.node));
    bench_close(&b);
}

static void a_replaced_block_keeps_both_versions(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message old = bench_set(SKY_WIRE_SET, 1, here), new = old, m;
    new.id.version = 2;
    new.facts.checksum = sky_chunk_checksum(&new.id, bench_payload, sizeof bench_payload);
    bench_tell(&b, 0, &old);
    bench_tell(&b, 0, &new);
    assert_int_equal(sky_node_chunks(&b.node), 2);
    m = (sky_message){.type = SKY_WIRE_DROP, .id = old.id, .stride = 9, .last = 1};
    bench_tell(&b, 0, &m);
    sky_node_chunk chunk;
    assert_false(sky_node_find(&b.node, &old.id, &chunk));
    assert_true(sky_node_find(&b.node, &new.id, &chunk));
    bench_close(&b);
}

/* ---- memory pressure ---- */

static sky_message set_acked(bench *b, uint32_t block) {
    sky_message m = bench_set(SKY_WIRE_SET, block, here), out;
    bench_tell(b, 0, &m);
    assert_true(bench_hear(b, BENCH_TURN_NS - 1, &out));
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
    bench_ask(&b, 0, SKY_WIRE_GET, 1); /* now 2 is the oldest */
    assert_true(bench_hear(&b, BENCH_TURN_NS - 1, &out));
    out = set_acked(&b, 4);
    assert_int_equal(out.outcome, SKY_STORED_EVICTED);
    sky_chunk_id gone = bench_name(2, 1);
    assert_true(sky_chunk_id_equal(&out.evicted, &gone));
    assert_int_equal(set_acked(&b, 1).outcome, SKY_STORED); /* repeated: there already */
    assert_int_equal(sky_node_chunks(&b.node), 3);
    bench_close(&b);
}

static void pin(bench *b, uint32_t block, bool pinned) {
    sky_message m = {.type = SKY_WIRE_PIN,
                     .id = bench_name(block, 1),
                     .facts.pinned = pinned,
                     .stride = 9,
                     .last = 1};
    bench_tell(b, 0, &m);
}

static void pinned_chunks_stay(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2);
    set_acked(&b, 1);
    set_acked(&b, 2);
    pin(&b, 1, true);
    sky_chunk_id two = bench_name(2, 1);
    sky_message out = set_acked(&b, 3);
    assert_true(sky_chunk_id_equal(&out.evicted, &two));
    pin(&b, 3, true);
    assert_int_equal(set_acked(&b, 4).outcome, SKY_NOT_STORED);
    assert_int_equal(b.node.stat.refused, 1);
    pin(&b, 1, false);
    sky_chunk_id one = bench_name(1, 1);
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
        sky_message m = bench_set(SKY_WIRE_SET, 1, here), out;
        m.id.number = 0;
        m.id.version = versions[i];
        m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
        bench_tell(&b, 0, &m);
        assert_true(bench_hear(&b, BENCH_TURN_NS - 1, &out));
        assert_int_equal(out.outcome, SKY_STORED);
        assert_int_equal(sky_node_chunks(&b.node), 1);
    }
    sky_message get = {.type = SKY_WIRE_GET, .id = bench_name(1, 0)}, out;
    get.id.version = SKY_VERSION_ANY;
    bench_tell(&b, 0, &get);
    assert_true(bench_hear(&b, BENCH_TURN_NS - 1, &out));
    assert_int_equal(out.id.version, 7);
    bench_close(&b);
}

static void satellites_do_not_rule_each_other(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2);
    set_acked(&b, 1);
    sky_message m = {
        .type = SKY_WIRE_PIN, .id = bench_name(1, 1), .facts.pinned = true, .stride = 9, .last = 1};
    bench_tell_from(&b, 0, &m, centre);
    m = bench_set(SKY_WIRE_SET, 2, here);
    bench_tell_from(&b, 0, &m, centre);
    assert_int_equal(b.node.stat.malformed, 2);
    assert_int_equal(sky_node_chunks(&b.node), 1);
    const sky_chunk_id one = bench_name(1, 1);
    sky_node_chunk chunk;
    assert_true(sky_node_find(&b.node, &one, &chunk));
    assert_false(chunk.facts.pinned);
    assert_true(sky_satellite_equal(chunk.facts.first, here));
    bench_close(&b);
}

/* An answer that is not ready yet does not hold back what may leave before it: a host that sleeps
 * until the node's wake says the gossip message then. */
static void a_gossip_message_does_not_wait_for_an_answer(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    b.config.gossip_hops = 2;
    set_acked(&b, 1);
    const sky_time now = SKY_SECONDS(1);
    bench_ask(&b, now, SKY_WIRE_GET, 1);
    assert_int_equal(sky_node_wake(&b.node), now + BENCH_SERVE_NS);
    sky_message purge = {.type = SKY_WIRE_PURGE, .id = bench_name(9, 1), .hops = 2}, out;
    purge.facts.chunk_count = 9;
    bench_tell_from(&b, now, &purge, centre);
    assert_true(sky_node_wake(&b.node) <= now);
    assert_true(bench_hear(&b, now, &out));
    assert_int_equal(out.type, SKY_WIRE_PURGE);
    while (bench_hear(&b, now, &out))
        assert_int_equal(out.type, SKY_WIRE_PURGE);
    assert_int_equal(sky_node_wake(&b.node), now + BENCH_SERVE_NS);
    assert_true(bench_hear(&b, now + BENCH_SERVE_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_CHUNK);
    bench_close(&b);
}

/* Pinned neighbours are not asked for; the one that is is asked for once a round all the same. */
static void rows_are_dropped(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 20);
    for (uint32_t number = 1; number <= 9; number++) {
        sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, here);
        m.id.number = number;
        m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
        bench_tell_from(&b, 0, &m, centre);
        assert_true(bench_hear(&b, 0, &m));
    }
    sky_message drop = {.type = SKY_WIRE_DROP, .id = bench_name(1, 2), .stride = 3, .last = 8};
    bench_tell(&b, 0, &drop);
    for (uint32_t number = 1; number <= 9; number++) {
        sky_chunk_id id = bench_name(1, number);
        sky_node_chunk chunk;
        assert_int_equal(sky_node_find(&b.node, &id, &chunk), number % 3 != 2);
    }
    drop.id.number = drop.stride = 1;
    drop.last = 1u << 23; /* more than fit: nobody's chunks, only work */
    bench_tell(&b, 0, &drop);
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
    sky_message in = bench_set(SKY_WIRE_SET, 1, here), out;
    bench_tell(&b, 0, &in);
    bench_run(&b, BENCH_TURN_NS - 1);
    sky_node_input(&b.node, BENCH_TURN_NS, NULL);
    assert_true(bench_hear(&b, BENCH_TURN_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(sky_satellite_equal(b.to, (sky_satellite){3, 2}));
    assert_memory_equal(out.data, bench_payload, sizeof bench_payload);
    assert_int_equal(out.facts.set_ms, 1000);
    uint64_t first_request = out.request;
    bench_ask(&b, BENCH_TURN_NS + 1, SKY_WIRE_GET, 1); /* still answered from here */
    assert_true(bench_hear(&b, BENCH_TURN_NS + 1 + BENCH_SERVE_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_CHUNK);

    sky_time late = BENCH_TURN_NS + b.config.migrate_timeout_ns; /* nobody answered */
    assert_int_equal(sky_node_wake(&b.node), late);
    sky_node_input(&b.node, late, NULL);
    assert_true(bench_hear(&b, late, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(out.request != first_request);

    sky_message ack = {.type = SKY_WIRE_MIGRATE_ACK, .request = first_request, .id = in.id};
    bench_tell_from(&b, late + 1, &ack,
                    (sky_satellite){3, 2}); /* an answer to the first: too old */
    ack.request = out.request;
    ack.outcome = SKY_NOT_STORED; /* no room there */
    bench_tell_from(&b, late + 2, &ack, (sky_satellite){3, 2});
    assert_int_equal(sky_node_chunks(&b.node), 1);
    ack.outcome = SKY_STORED;
    bench_tell_from(&b, late + 3, &ack, (sky_satellite){1, 1}); /* nobody sent it there */
    assert_int_equal(sky_node_chunks(&b.node), 1);
    bench_tell_from(&b, late + 3, &ack, (sky_satellite){3, 2});
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_true(sky_node_idle(&b.node));
    assert_int_equal(sky_node_wake(&b.node), SKY_TIME_NEVER);
    assert_int_equal(b.node.stat.migrated, 1);
    assert_int_equal(b.node.stat.migrated_bytes, sizeof bench_payload);
    bench_close(&b);
}

static void migration_keeps_to_its_window_and_pace(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    sky_message out;
    for (uint32_t i = 1; i <= 5; i++)
        set_acked(&b, i);
    sky_node_input(&b.node, BENCH_TURN_NS, NULL);
    uint64_t requests[2];
    for (uint32_t i = 0; i < 2; i++) {
        sky_time due = BENCH_TURN_NS + i * b.config.migrate_gap_ns;
        if (i > 0)
            bench_silent(&b, due - 1);
        assert_true(bench_hear(&b, due, &out));
        assert_int_equal(out.id.key.bytes[0], i + 1); /* oldest first: the order of use survives */
        requests[i] = out.request;
    }
    bench_silent(&b, BENCH_TURN_NS + SKY_MS(1)); /* two on the way, no more */
    sky_message ack = {
        .type = SKY_WIRE_MIGRATE_ACK, .request = requests[0], .id = bench_name(1, 1)};
    bench_tell_from(&b, BENCH_TURN_NS + SKY_MS(1), &ack, (sky_satellite){3, 2});
    assert_true(bench_hear(&b, BENCH_TURN_NS + SKY_MS(1), &out));
    assert_int_equal(out.id.key.bytes[0], 3);
    bench_close(&b);
}

/* Unanswered, a MIGRATE is sent again after twice as long each time, up to 64 times as long: the
 * other may be far. */
static void migration_waits_longer_each_time(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    sky_message out;
    set_acked(&b, 1);
    sky_time wait_ns = b.config.migrate_timeout_ns, sent = BENCH_TURN_NS;
    sky_node_input(&b.node, BENCH_TURN_NS, NULL);
    assert_true(bench_hear(&b, BENCH_TURN_NS, &out));
    for (int again = 0; again < 8; again++, wait_ns *= again < 7 ? 2 : 1) {
        sky_time due = sent + wait_ns;
        assert_int_equal(sky_node_wake(&b.node), due);
        sky_node_input(&b.node, due - 1, NULL);
        bench_silent(&b, due - 1);
        sky_node_input(&b.node, due, NULL);
        assert_true(bench_hear(&b, due, &out));
        assert_int_equal(out.type, SKY_WIRE_MIGRATE);
        sent = due;
    }
    bench_close(&b);
}

/* Who is asked in another turn is another, and may answer at once. */
static void a_turn_begins_the_waits_anew(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    sky_message out;
    set_acked(&b, 1);
    bench_run(&b, 4 * BENCH_TURN_NS - 1); /* its place was one slot for three turns */
    assert_true(sky_node_wake(&b.node) > 4 * BENCH_TURN_NS - 1);
    assert_true(b.node.stat.migrate_retries > 4);
    sky_node_input(&b.node, 4 * BENCH_TURN_NS, NULL);
    assert_true(bench_hear(&b, 4 * BENCH_TURN_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_int_equal(b.to.slot, 18);
    assert_int_equal(sky_node_wake(&b.node), 4 * BENCH_TURN_NS + b.config.migrate_timeout_ns);
    bench_close(&b);
}

static void chunks_that_come_late_move_on_at_once(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message in = bench_set(SKY_WIRE_SET, 1, here), out;
    bench_tell(&b, BENCH_TURN_NS + 5, &in); /* sent before the turn, here after it */
    assert_true(bench_hear(&b, BENCH_TURN_NS + 5, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE);
    assert_true(bench_hear(&b, BENCH_TURN_NS + 5 + BENCH_SERVE_NS, &out));
    assert_int_equal(out.type, SKY_WIRE_SET_ACK);
    bench_close(&b);
}

static void arrivals_are_acknowledged_each_time(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_satellite from = {3, 8};
    sky_message in = bench_set(SKY_WIRE_MIGRATE, 1, here), out;
    for (uint64_t request = 5; request < 8; request++) {
        in.request = request;
        bench_tell_from(&b, 0, &in, from);
        assert_int_equal(sky_node_wake(&b.node), 0);
        assert_true(bench_hear(&b, 0, &out));
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
    bench_tell_from(b, 0, in, (sky_satellite){3, 8});
    do
        assert_true(bench_hear(b, 0, &out));
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
    sky_message purge = {.type = SKY_WIRE_PURGE, .id = bench_name(1, 1), .hops = 1};
    purge.facts.chunk_count = 9;
    bench_tell_from(&b, 0, &purge, centre);
    sky_message in = bench_set(SKY_WIRE_MIGRATE, 1, here);
    assert_int_equal(chunks_after_move(&b, &in), 0);
    assert_int_equal(b.node.stat.purged, 1);
    in = bench_set(SKY_WIRE_MIGRATE, 2, here); /* another block */
    assert_int_equal(chunks_after_move(&b, &in), 1);
    in = bench_set(SKY_WIRE_MIGRATE, 1, here);
    in.facts.pinned = true;
    assert_int_equal(chunks_after_move(&b, &in), 2);
    assert_int_equal(b.node.stat.purged, 1);
    static const uint64_t versions[] = {5, 5, 4, 6}; /* the same again is no older one */
    for (size_t i = 0; i < 4; i++) {
        in = bench_set(SKY_WIRE_MIGRATE, 3, here);
        in.id.number = 0;
        in.id.version = versions[i];
        in.facts.checksum = sky_chunk_checksum(&in.id, bench_payload, sizeof bench_payload);
        assert_int_equal(chunks_after_move(&b, &in), 3);
        assert_int_equal(b.node.stat.purged, i < 2 ? 1 : 2);
    }
    bench_close(&b);
}

/* A satellite answers what it took, and takes nothing that it has no room to answer: the giver
 * would drop the only copy, or keep two for good. */
static void what_cannot_be_answered_is_not_taken(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 2 * SKY_NODE_ACKS_MAX);
    sky_message out;
    for (uint32_t i = 0; i < SKY_NODE_ACKS_MAX + 3; i++) {
        sky_message in = bench_set(SKY_WIRE_MIGRATE, i, here);
        bench_tell_from(&b, 0, &in, (sky_satellite){3, 8});
    }
    assert_int_equal(sky_node_chunks(&b.node), SKY_NODE_ACKS_MAX);
    uint32_t answers = 0;
    while (bench_hear(&b, 0, &out))
        answers += out.type == SKY_WIRE_MIGRATE_ACK;
    assert_int_equal(answers, SKY_NODE_ACKS_MAX);
    /* one with a wrong checksum is neither answered nor taken */
    sky_message in = bench_set(SKY_WIRE_MIGRATE, 200, here);
    in.facts.checksum++;
    bench_tell_from(&b, 0, &in, (sky_satellite){3, 8});
    assert_int_equal(sky_node_chunks(&b.node), SKY_NODE_ACKS_MAX);
    bench_silent(&b, 0);
    bench_close(&b);
}

#define SENT   (2 * BENCH_TURN_NS - SKY_MS(10))
#define TURNED (2 * BENCH_TURN_NS + SKY_MS(1))

/* Chunk 1 on its way: sent before a turn, and the answer, which is returned, comes after it. */
static sky_message on_its_way(bench *b) {
    bench_open(b, 4);
    sky_message in = bench_set(SKY_WIRE_SET, 1, here);
    bench_tell(b, BENCH_TURN_NS + 1, &in);
    return bench_taken(b, SENT);
}

/* A sends to B, and before the answer is here B, for reasons of its own, gives the chunk back and
 * is told "stored": then A's word is newer than B's, and B's old word must not make A drop the
 * last copy. */
static void two_givers_do_not_drop_the_last_copy(void **state) {
    (void)state;
    bench b;
    sky_message old_word = on_its_way(&b), out;
    sky_satellite there = b.to;
    sky_message back = bench_set(SKY_WIRE_MIGRATE, 1, here);
    bench_tell_from(&b, SENT + 1, &back, there);
    assert_true(bench_hear(&b, SENT + 1, &out));
    assert_int_equal(out.type, SKY_WIRE_MIGRATE_ACK);
    bench_tell_from(&b, SENT + 2, &old_word, there);
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
            bench_tell(&b, late, &drop);
        } else {
            bench_tell(&b, TURNED, &drop);
            bench_silent(&b, TURNED);
            if (answered)
                bench_tell_from(&b, TURNED, &ack, there);
            else
                sky_node_input(&b.node, late, NULL);
        }
        assert_true(bench_hear(&b, late, &out));
        assert_int_equal(out.type, SKY_WIRE_DROP);
        assert_true(sky_satellite_equal(b.to, there));
        assert_int_equal(sky_node_chunks(&b.node), 0);
        bench_silent(&b, late);
        bench_close(&b);
    }
}

/* Where room is needed, what was dropped on its way goes first: that is no eviction, nobody is told
 * of one, and who was sent the chunk hears of the drop. */
static void what_is_dropped_makes_room_first(void **state) {
    (void)state;
    bench b;
    sky_message ack = on_its_way(&b), out;
    sky_satellite there = b.to;
    sky_message drop = {.type = SKY_WIRE_DROP, .id = ack.id, .stride = 1, .last = 1};
    bench_tell(&b, TURNED, &drop);
    uint32_t drops = 0, slots = sky_node_slots(&b.config);
    for (uint32_t i = 0; i < slots; i++) {
        sky_message in = bench_set(SKY_WIRE_MIGRATE, 10 + i, here);
        in.facts.pinned = true; /* nothing else can go */
        bench_tell_from(&b, TURNED, &in, centre);
        while (bench_hear(&b, TURNED, &out)) {
            drops += out.type == SKY_WIRE_DROP;
            assert_true(out.type != SKY_WIRE_DROP || sky_satellite_equal(b.to, there));
            assert_true(out.type != SKY_WIRE_MIGRATE_ACK || out.outcome == SKY_STORED);
        }
    }
    assert_int_equal(drops, 1);
    assert_int_equal(b.node.stat.evictions, 0);
    assert_int_equal(sky_node_chunks(&b.node), slots);
    bench_close(&b);
}

/* A chunk that is dropped while it is on its way, and then set again or moved, is there again: its
 * acknowledgement must hold. */
static void what_is_set_again_is_not_dropped(void **state) {
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        bench b;
        sky_message ack = on_its_way(&b), in = bench_set(SKY_WIRE_SET, 1, here);
        sky_message drop = {.type = SKY_WIRE_DROP, .id = in.id, .stride = 1, .last = 1};
        bench_tell(&b, TURNED, &drop);
        in.type = moved ? SKY_WIRE_MOVE : SKY_WIRE_SET;
        in.stride = in.last = 1;
        bench_tell(&b, TURNED, &in);
        if (!moved)
            ack = bench_taken(&b, TURNED + BENCH_SERVE_NS);
        bench_tell_from(&b, TURNED + BENCH_SERVE_NS, &ack, b.to);
        if (moved) { /* where it should be is where it was sent: that is all */
            assert_true(bench_hear(&b, TURNED + BENCH_SERVE_NS, &in));
            assert_int_equal(in.type, SKY_WIRE_ROW_ACK);
        }
        bench_silent(&b, TURNED + BENCH_SERVE_NS); /* no DROP for what was just handed over */
        assert_int_equal(sky_node_chunks(&b.node), 0);
        bench_close(&b);
    }
}

/* A MOVE of that chunk to a time to come, and what it says where it is told it. */
static sky_message move(void) {
    sky_message m = bench_set(SKY_WIRE_MOVE, 1, (sky_satellite){2, 9});
    m.data_bytes = 0;
    m.facts.set_ms += 9 * BENCH_TURN_NS / SKY_MS(1);
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
            bench_tell(&b, answered < 2 ? TURNED : late, &m);
            assert_true(bench_hear(&b, answered < 2 ? TURNED : late, &out));
            assert_int_equal(out.type, SKY_WIRE_ROW_ACK);
            assert_int_equal(out.moved, 1);
            if (answered == 2)
                break;
            bench_silent(&b, TURNED);
        }
        if (answered == 1)
            bench_tell_from(&b, TURNED, &ack, there);
        else if (answered == 0)
            sky_node_input(&b.node, late, NULL);
        assert_true(bench_hear(&b, late, &out));
        assert_int_equal(out.type, SKY_WIRE_MOVE);
        assert_true(sky_satellite_equal(b.to, there));
        assert_int_equal(out.facts.set_ms, m.facts.set_ms);
        bench_tell_from(&b, late, &ack, there); /* an old word */
        assert_int_equal(sky_node_chunks(&b.node), 1);
        ack = bench_taken(&b, late);
        assert_true(sky_satellite_equal(b.to, m.facts.first));
        bench_tell_from(&b, late, &ack, b.to);
        assert_int_equal(sky_node_chunks(&b.node), 0);
        bench_silent(&b, late);
        bench_close(&b);
    }
}

/* Who is told so by a satellite moves what it has, and need not say how much that was. */
static void a_move_is_passed_on_without_an_answer(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message given = bench_set(SKY_WIRE_MIGRATE, 1, here), out;
    bench_tell_from(&b, 0, &given, centre);
    assert_true(bench_hear(&b, 0, &out));
    sky_message m = move();
    bench_tell_from(&b, BENCH_TURN_NS / 2, &m, centre);
    sky_message ack = bench_taken(&b, BENCH_TURN_NS / 2);
    assert_true(sky_satellite_equal(b.to, m.facts.first));
    bench_tell_from(&b, BENCH_TURN_NS / 2, &ack, b.to);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_int_equal(b.node.stat.malformed, 0);
    bench_silent(&b, BENCH_TURN_NS / 2);
    bench_close(&b);
}

/* A block that is moved to a time to come and then to an earlier one is where the second MOVE says,
 * in whatever order the two arrive. */
static void moves_may_overtake_each_other(void **state) {
    (void)state;
    for (int overtaken = 0; overtaken < 2; overtaken++) {
        bench b;
        bench_open(&b, 4);
        sky_message chunk = bench_set(SKY_WIRE_SET, 1, here), out;
        bench_tell(&b, 0, &chunk);
        assert_true(bench_hear(&b, BENCH_SERVE_NS, &out));
        sky_message far = move(), near = move();
        far.facts.moves = 1;
        near.facts.moves = 2;
        near.facts.set_ms = chunk.facts.set_ms;
        near.facts.first = (sky_satellite){3, 7};
        for (int i = 0; i < 2; i++) {
            bench_tell(&b, BENCH_SERVE_NS, i == overtaken ? &far : &near);
            assert_true(bench_hear(&b, BENCH_SERVE_NS, &out));
            if (out.type == SKY_WIRE_MIGRATE) /* it sets out, and the next move is announced */
                assert_true(bench_hear(&b, BENCH_SERVE_NS, &out));
            assert_int_equal(out.type, SKY_WIRE_ROW_ACK);
            assert_int_equal(out.moved, 1);
        }
        sky_node_chunk found;
        assert_true(sky_node_find(&b.node, &chunk.id, &found));
        assert_int_equal(found.facts.moves, 2);
        assert_true(sky_satellite_equal(found.facts.first, near.facts.first));
        bench_close(&b);
    }
}

/* A head lies where the time says. A giver that names another time would take it away. */
static void heads_are_given_for_their_place_alone(void **state) {
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        bench b;
        bench_open(&b, 4);
        sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, here), out;
        m.id.number = 0;
        m.facts.set_ms = b.config.turning.start_ms + moved;
        m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
        bench_tell_from(&b, 0, &m, centre);
        assert_int_equal(bench_hear(&b, 0, &out), !moved);
        assert_int_equal(sky_node_chunks(&b.node), !moved);
        assert_int_equal(b.node.stat.malformed, moved);
        bench_close(&b);
    }
}

/* ---- hostile ---- */

static void bad_messages_are_counted(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    sky_message m = bench_set(SKY_WIRE_SET, 1, here);
    m.facts.checksum ^= 1;
    bench_tell(&b, 0, &m);
    assert_int_equal(b.node.stat.corrupt, 1);
    m = bench_set(SKY_WIRE_SET, 1, (sky_satellite){6, 1}); /* five planes here */
    bench_tell(&b, 0, &m);
    m = bench_set(SKY_WIRE_SET, 1, here);
    m.facts.window_slots = 21; /* nineteen slots */
    bench_tell(&b, 0, &m);
    uint8_t large[300] = {0};
    m = bench_set(SKY_WIRE_SET, 1, here);
    m.data = large;
    m.data_bytes = sizeof large;
    m.facts.checksum = sky_chunk_checksum(&m.id, large, sizeof large);
    bench_tell(&b, 0, &m);
    m = (sky_message){.type = SKY_WIRE_MISS, .id = bench_name(1, 1)};
    bench_tell(&b, 0, &m);
    sky_datagram noise = {.from = SKY_GROUND, .to = here, .data = b.buffer, .bytes = 20};
    sky_node_input(&b.node, 0, &noise);
    assert_int_equal(b.node.stat.malformed, 5);
    assert_true(sky_node_idle(&b.node));
    bench_silent(&b, SKY_SECONDS(1));
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
        cmocka_unit_test(a_gossip_message_does_not_wait_for_an_answer),
        cmocka_unit_test(rows_are_dropped),
        cmocka_unit_test(chunks_are_copied_before_they_are_dropped),
        cmocka_unit_test(migration_keeps_to_its_window_and_pace),
        cmocka_unit_test(migration_waits_longer_each_time),
        cmocka_unit_test(a_turn_begins_the_waits_anew),
        cmocka_unit_test(chunks_that_come_late_move_on_at_once),
        cmocka_unit_test(arrivals_are_acknowledged_each_time),
        cmocka_unit_test(what_is_gone_does_not_move_in),
        cmocka_unit_test(what_cannot_be_answered_is_not_taken),
        cmocka_unit_test(two_givers_do_not_drop_the_last_copy),
        cmocka_unit_test(a_drop_follows_the_chunk),
        cmocka_unit_test(what_is_dropped_makes_room_first),
        cmocka_unit_test(what_is_set_again_is_not_dropped),
        cmocka_unit_test(a_move_follows_the_chunk),
        cmocka_unit_test(a_move_is_passed_on_without_an_answer),
        cmocka_unit_test(moves_may_overtake_each_other),
        cmocka_unit_test(heads_are_given_for_their_place_alone),
        cmocka_unit_test(bad_messages_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
