/* Proves that copies which went with a satellite are made again, wherever it stood and whatever
 * became of it; that a sky in which nothing is missing says next to nothing; that what is made
 * again keeps to its share of a link and takes no other chunk's room; and that only those who
 * should hold a chunk can have it given to them, or give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ground/orrery_fixture.h"

#define BLOCK_BYTES (20 * SKY_ORRERY_CHUNK)
#define BLOCKS      4
#define COPY_GAP_NS SKY_MS(2)
#define PERIOD_NS   SKY_SECONDS(2)

static void begin_slots(sky_orrery *o, uint8_t replicas, sky_time rotation_ns, uint32_t slots) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->frame.turning.rotation_ns = rotation_ns;
    o->node_config.turning = o->frame.turning;
    o->node_config.frame = &o->frame;
    o->node_config.mend_period_ns = PERIOD_NS;
    o->node_config.mend_grace_ns = SKY_MS(500);
    o->node_config.mend_copy_gap_ns = COPY_GAP_NS;
    o->session_config.replicas = replicas;
    o->session_config.lookup = SKY_LOOKUP_BINARY;
    sky_orrery_begin(o, slots);
}

static void begin(sky_orrery *o, uint8_t replicas, sky_time rotation_ns) {
    begin_slots(o, replicas, rotation_ns, 64);
}

static void put_all(sky_orrery *o) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(sky_orrery_do(o, 0, SKY_OP_PUT, i, BLOCK_BYTES).status, SKY_OK);
}

/* By a ground that must find them first. */
static void assert_all_there(sky_orrery *o) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(sky_orrery_do(o, 1, SKY_OP_GET, i, 0).status, SKY_OK);
    assert_int_equal(o->wrong, 0);
}

static uint64_t mended(const sky_orrery *o) {
    uint64_t copies = 0;
    for (uint32_t i = 0; i < o->frame.satellite_count; i++)
        copies += o->nodes[i].stat.mended;
    return copies;
}

/* Every satellite, one after the other, and each as soon as the last one's copies are back. */
static void no_restart_of_all_in_turn_loses_anything(void **state) {
    (void)state;
    static const sky_time rotations[] = {SKY_TIME_NEVER, SKY_ORRERY_TURN_NS};
    for (uint8_t replicas = 2; replicas <= 4; replicas++) {
        sky_orrery o;
        begin(&o, replicas, rotations[replicas % 2]);
        put_all(&o);
        const uint32_t whole = sky_orrery_chunks(&o);
        assert_int_equal(whole, BLOCKS * (20 + 1) * replicas);
        for (uint32_t i = 0; i < o.frame.satellite_count; i++) {
            sky_orrery_crash(&o, sky_frame_satellite(&o.frame, i));
            sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS / 2 + 2 * PERIOD_NS);
        }
        sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS / 2);
        assert_int_equal(sky_orrery_chunks(&o), whole);
        assert_all_there(&o);
        sky_orrery_close(&o);
    }
}

/* One that never comes back: what it held is made again where the next turns put it. */
static void what_the_dead_held_comes_back_with_the_turns(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_ORRERY_TURN_NS);
    put_all(&o);
    const uint32_t whole = sky_orrery_chunks(&o);
    sky_satellite dead = o.frame.servers[4];
    o.ear_context = &dead;
    o.ear = sky_orrery_cut_off;
    sky_orrery_crash(&o, dead);
    assert_true(sky_orrery_chunks(&o) < whole);
    sky_orrery_run(&o, o.now + 6 * SKY_ORRERY_TURN_NS); /* past the window's width */
    assert_int_equal(sky_orrery_chunks(&o), whole);
    sky_orrery_close(&o);
}

static uint64_t short_puts(const sky_orrery *o) {
    sky_session_stat stat;
    sky_session_stats(o->grounds[0], &stat);
    return stat.puts_short;
}

/* What is put while a satellite is silent has one copy of the chunks that should lie there. */
static void a_put_without_all_copies_is_counted(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_TIME_NEVER);
    put_all(&o);
    const uint32_t whole = sky_orrery_chunks(&o);
    assert_int_equal(short_puts(&o), 0);
    sky_satellite dead = o.frame.servers[4];
    o.ear_context = &dead;
    o.ear = sky_orrery_cut_off;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, BLOCKS, BLOCK_BYTES).status, SKY_OK);
    assert_int_equal(short_puts(&o), 1);
    assert_true(sky_orrery_chunks(&o) < whole + whole / BLOCKS);
    sky_orrery_close(&o);
}

/* A message for each pair of satellites that hold the same, in each round; no question about any
 * chunk. */
static void a_whole_sky_says_next_to_nothing(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_TIME_NEVER);
    put_all(&o);
    memset(o.sent, 0, sizeof o.sent);
    sky_orrery_run(&o, o.now + 20 * PERIOD_NS);
    assert_in_range(o.sent[SKY_WIRE_COPIES], 1, 21 * (9 + 2) * 2);
    assert_int_equal(o.sent[SKY_WIRE_HAS] + o.sent[SKY_WIRE_MIGRATE], 0);
    sky_orrery_close(&o);
}

static sky_time given_last[5 * 19 + 1];
static uint32_t given_too_soon;

static bool note_pace(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)to;
    if (m->type != SKY_WIRE_MIGRATE)
        return true;
    sky_time *last = &given_last[sky_frame_number(&o->frame, from)];
    given_too_soon += *last != 0 && o->now - *last < COPY_GAP_NS;
    *last = o->now;
    return true;
}

/* Half the servers at once: each of the others gives at its pace, and what had copies on both
 * sides is whole again. */
static void half_a_sky_comes_back_without_a_storm(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_TIME_NEVER);
    put_all(&o);
    memset(given_last, 0, sizeof given_last);
    given_too_soon = 0;
    o.ear = note_pace;
    for (uint32_t i = 0; i < 4; i++)
        sky_orrery_crash(&o, o.frame.servers[i]); /* a copy is four servers on */
    uint32_t left = sky_orrery_chunks(&o);
    sky_orrery_run(&o, o.now + 4 * PERIOD_NS);
    assert_int_equal(given_too_soon, 0);
    assert_true(mended(&o) > 0 && sky_orrery_chunks(&o) > left);
    memset(o.sent, 0, sizeof o.sent);
    sky_orrery_run(&o, o.now + 4 * PERIOD_NS);
    assert_int_equal(o.sent[SKY_WIRE_HAS] + o.sent[SKY_WIRE_MIGRATE], 0); /* it is over */
    sky_orrery_close(&o);
}

/* Another ground fills what the lost copies would need: they do not come back for its chunks. */
static void no_copy_takes_anothers_room(void **state) {
    (void)state;
    sky_orrery o;
    begin_slots(&o, 2, SKY_TIME_NEVER, 24);
    put_all(&o);
    sky_orrery_crash(&o, o.frame.servers[4]);
    o.nodes[sky_frame_number(&o.frame, o.frame.servers[4])].slot_count = 3;
    sky_orrery_run(&o, o.now + 4 * PERIOD_NS);
    const sky_node *filled = sky_orrery_node(&o, o.frame.servers[4]);
    assert_int_equal(sky_node_chunks(filled), 3);
    assert_int_equal(filled->stat.evictions + filled->stat.refused, 0);
    memset(o.sent, 0, sizeof o.sent);
    sky_orrery_run(&o, o.now + 4 * PERIOD_NS);
    assert_int_equal(o.sent[SKY_WIRE_MIGRATE], 0);
    sky_orrery_close(&o);
}

static bool no_rounds(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    return m->type != SKY_WIRE_COPIES;
}

/* Where no round comes to it, who reads has what it missed put back. */
static void a_read_puts_back_what_it_missed(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_TIME_NEVER);
    put_all(&o);
    const uint32_t whole = sky_orrery_chunks_of(&o, 0);
    o.ear = no_rounds;
    sky_orrery_crash(&o, o.frame.servers[5]);
    assert_true(sky_orrery_chunks_of(&o, 0) < whole);
    sky_orrery_run(&o, o.now + 3 * PERIOD_NS);
    assert_true(sky_orrery_chunks_of(&o, 0) < whole);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_OK);
    assert_in_range(o.sent[SKY_WIRE_MEND], 1, 2);
    sky_orrery_run(&o, o.now + PERIOD_NS);
    uint32_t first_copies = 0;
    for (uint32_t number = 1; number <= 20; number++) {
        sky_chunk_id id;
        sky_chunk_facts facts;
        uint32_t bytes;
        sky_node_chunk found;
        sky_session_chunk(o.grounds[0], 0, number, &id, &facts, &bytes);
        first_copies += sky_node_find(sky_orrery_node(&o, facts.first), &id, &found);
    }
    assert_int_equal(first_copies, 20);
    sky_orrery_close(&o);
}

/* A satellite that is cut off while a block is removed has its copies still. Nobody takes them from
 * it, and who knows better has it drop them too. */
static void what_was_removed_does_not_come_back(void **state) {
    (void)state;
    static const sky_time rotations[] = {SKY_TIME_NEVER, SKY_ORRERY_TURN_NS};
    for (uint32_t i = 0; i < 2 * 9; i++) {
        sky_orrery o;
        begin(&o, 2, rotations[i % 2]);
        put_all(&o);
        sky_satellite dead = o.frame.servers[i / 2];
        o.ear_context = &dead;
        o.ear = sky_orrery_cut_off;
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 0, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        const uint32_t left = sky_orrery_chunks_of(&o, 0);
        assert_in_range(left, 4, 6); /* of 20 chunks twice, on 9 servers */
        o.ear = NULL;
        sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS + 3 * PERIOD_NS);
        assert_int_equal(sky_orrery_chunks_of(&o, 0), 0);
        assert_int_equal(sky_orrery_chunks(&o), (BLOCKS - 1) * (20 + 1) * 2);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 0, 0).status, SKY_MISS);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_PUT, 0, BLOCK_BYTES).status, SKY_OK);
        sky_orrery_run(&o, o.now + 3 * SKY_ORRERY_TURN_NS);
        assert_all_there(&o); /* what is put again is wanted again */
        sky_orrery_close(&o);
    }
}

static void say(sky_orrery *o, sky_satellite from, sky_satellite to, const sky_message *m) {
    static uint8_t bytes[SKY_WIRE_BYTES_MAX];
    sky_datagram d = {.from = from, .to = to, .data = bytes};
    d.bytes = sky_message_encode(m, bytes, sizeof bytes);
    assert_true(d.bytes > 0);
    sky_node_input(sky_orrery_node(o, to), o->now, &d);
}

/* A copy from who should not have one; one for who should not; MEND from a satellite; and COPIES
 * without end. */
static void strangers_are_not_obeyed(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_TIME_NEVER);
    put_all(&o);
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint32_t bytes;
    static const uint8_t data[SKY_ORRERY_CHUNK];
    sky_session_chunk(o.grounds[0], 0, 3, &id, &facts, &bytes);
    id.version++;
    sky_message m = {.type = SKY_WIRE_MIGRATE, .id = id, .facts = facts, .copy = true};
    m.data = data;
    m.data_bytes = bytes;
    m.facts.checksum = sky_chunk_checksum(&id, data, bytes);
    sky_node *at = sky_orrery_node(&o, facts.first);
    sky_satellite stranger = {1, 12}, peer = sky_frame_first(&o.frame, facts.centre,
                                                             sky_frame_server(&o.frame, 3, 2, 1));
    uint32_t before = sky_node_chunks(at);
    say(&o, stranger, facts.first, &m);
    assert_int_equal(sky_node_chunks(at), before);
    say(&o, peer, stranger, &m);
    assert_int_equal(sky_node_chunks(sky_orrery_node(&o, stranger)), 0);
    say(&o, peer, facts.first, &m);
    assert_int_equal(sky_node_chunks(at), before + 1);
    assert_int_equal(at->stat.malformed, 1);
    const sky_message mend = {.type = SKY_WIRE_MEND, .id = id, .stride = 9, .last = 3};
    say(&o, peer, facts.first, &mend);
    assert_int_equal(at->stat.malformed, 2);
    assert_int_equal(at->doubted.count, 0);
    sky_orrery_run(&o, o.now + PERIOD_NS);
    for (uint64_t i = 0; i < 1000; i++) {
        const sky_message copies = {.type = SKY_WIRE_COPIES, .request = i, .digest = i};
        static uint8_t out[SKY_WIRE_BYTES_MAX];
        sky_datagram d = {.data = out, .bytes_max = sizeof out};
        say(&o, stranger, facts.first, &copies);
        o.sent[0] += sky_node_output(at, o.now, &d);
    }
    assert_in_range(o.sent[0], 0, 70);
    sky_orrery_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_restart_of_all_in_turn_loses_anything),
        cmocka_unit_test(what_the_dead_held_comes_back_with_the_turns),
        cmocka_unit_test(a_put_without_all_copies_is_counted),
        cmocka_unit_test(a_whole_sky_says_next_to_nothing),
        cmocka_unit_test(half_a_sky_comes_back_without_a_storm),
        cmocka_unit_test(no_copy_takes_anothers_room),
        cmocka_unit_test(a_read_puts_back_what_it_missed),
        cmocka_unit_test(what_was_removed_does_not_come_back),
        cmocka_unit_test(strangers_are_not_obeyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
