/* Proves that a block is in the index when all of it is stored and not before, that its chunks are
 * found from the facts of the index alone, that one chunk which is gone ends its block, and that
 * room is made by whole blocks, oldest leaves first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ground/session_fixture.h"
#include "ground/session_state.h"

static void a_put_is_visible_when_all_of_it_is_stored(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_ask(&g, SKY_OP_PUT, 1, 10 * SKY_GROUND_CHUNK - 1);
    sky_ground_listen(&g, SKY_MS(1));
    assert_int_equal(g.sent_count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        const sky_message *m = &g.sent[i].message;
        assert_int_equal(m->id.number, i + 1);
        assert_int_equal(m->data_bytes, i < 9 ? SKY_GROUND_CHUNK : SKY_GROUND_CHUNK - 1);
        assert_int_equal(m->facts.chunk_count, 10);
        assert_true(sky_satellite_equal(m->facts.centre, (sky_satellite){3, 4}));
        sky_satellite place = sky_frame_first(&g.frame, m->facts.centre, i % 9 + 1);
        assert_true(sky_satellite_equal(m->facts.first, place));
        assert_true(sky_satellite_equal(g.sent[i].to, place));
    }
    for (uint32_t i = 0; i < 10; i++) {
        sky_ground_ask(&g, SKY_OP_HAS, 1, 0);
        assert_int_equal(sky_ground_result(&g).status, SKY_MISS);
        sky_message m = sky_ground_answer(&g.sent[9 - i], NULL, 0); /* in any order */
        sky_ground_say(&g, &m, g.sent[9 - i].to);
        sky_ground_say(&g, &m, g.sent[9 - i].to); /* said twice */
    }
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    assert_int_equal(sky_ground_stat(&g).stray, 10);
    sky_ground_ask(&g, SKY_OP_HAS, 1, 0);
    assert_int_equal(sky_ground_result(&g).bytes, 10 * SKY_GROUND_CHUNK - 1);
    sky_ground_close(&g);
}

static void places_follow_from_the_index_alone(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, 9 * SKY_GROUND_CHUNK, NULL);
    for (uint64_t turn = 0; turn < 240; turn += 4) { /* by then it is forgotten who was silent */
        g.now = (sky_time)turn * SKY_GROUND_TURN_NS + SKY_SECONDS(1);
        g.sent_count = 0;
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        assert_int_equal(g.sent_count, 9);
        for (uint32_t i = 0; i < 9; i++) {
            sky_satellite first = sky_frame_first(&g.frame, (sky_satellite){3, 4}, i + 1);
            sky_satellite place = sky_place_shifted(&g.frame.constellation, &g.frame.placement,
                                                    (sky_satellite){3, 4}, first, turn);
            assert_true(sky_satellite_equal(g.sent[i].to, place));
        }
        sky_ground_listen(&g, g.now + SKY_SECONDS(8)); /* unanswered, to its end */
        assert_int_equal(sky_ground_result(&g).status, SKY_E_UNAVAILABLE);
    }
    sky_ground_close(&g);
}

static void what_a_satellite_evicts_is_no_block_any_more(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    static sky_ground_sent stored[4];
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    g.sent_count = 0;
    sky_ground_ask(&g, SKY_OP_PUT, 2, 2 * SKY_GROUND_CHUNK);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(g.sent_count, 2);
    sky_message m = sky_ground_answer(&g.sent[0], NULL, 0);
    m.outcome = SKY_STORED_EVICTED;
    m.evicted = stored[0].message.id;
    sky_ground_say(&g, &m, g.sent[0].to);
    assert_int_equal(sky_ground_stat(&g).purged, 1);
    m = sky_ground_answer(&g.sent[1], NULL, 0);
    m.outcome = SKY_STORED_EVICTED; /* a chunk of this very put */
    m.evicted = g.sent[0].message.id;
    sky_ground_say(&g, &m, g.sent[1].to);
    sky_result r = sky_ground_result(&g);
    assert_int_equal(r.op, SKY_OP_PUT);
    assert_int_equal(r.status, SKY_E_FULL);
    sky_ground_ask(&g, SKY_OP_PUT, 3, SKY_GROUND_CHUNK);
    g.sent_count = 0;
    sky_ground_listen(&g, g.now + SKY_MS(1));
    m = sky_ground_answer(&g.sent[g.sent_count - 1], NULL, 0);
    assert_int_equal(g.sent[g.sent_count - 1].message.type, SKY_WIRE_SET);
    m.outcome = SKY_NOT_STORED;
    sky_ground_say(&g, &m, g.sent[g.sent_count - 1].to);
    assert_int_equal(sky_ground_result(&g).status, SKY_E_FULL);
    assert_int_equal(sky_index_count(sky_session_index(g.session)), 0);
    sky_ground_close(&g);
}

/* Of others' blocks each counts once, however many of its chunks go; heads do not, nor what this
 * session put, removed or gave up itself. */
static void what_satellites_evict_of_others_is_counted(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    static sky_ground_sent stored[4];
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    sky_ground_ask(&g, SKY_OP_REMOVE, 1, 0);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    const sky_chunk_id evicted[] = {{{{9}}, 17, 1}, {{{9}}, 17, 2}, {{{8}}, 18, 1},
                                    {{{9}}, 17, 1}, {{{7}}, 19, 0}, stored[0].message.id};
    const uint32_t count = sizeof evicted / sizeof evicted[0];
    g.sent_count = 0;
    sky_ground_ask(&g, SKY_OP_PUT, 2, count * SKY_GROUND_CHUNK);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    uint32_t said = 0;
    for (uint32_t i = 0; i < g.sent_count; i++) {
        if (g.sent[i].message.type != SKY_WIRE_SET)
            continue;
        sky_message m = sky_ground_answer(&g.sent[i], NULL, 0);
        m.outcome = SKY_STORED_EVICTED;
        m.evicted = evicted[said++];
        sky_ground_say(&g, &m, g.sent[i].to);
    }
    assert_int_equal(said, count);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    assert_int_equal(sky_ground_stat(&g).evicted_others, 2);
    sky_ground_close(&g);
}

/* A liar that names what others hold would else have us drop it. */
static void only_a_holder_gives_up_a_chunk(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    static sky_ground_sent stored[4];
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    sky_ground_ask(&g, SKY_OP_PUT, 2, 2 * SKY_GROUND_CHUNK);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    sky_message m = sky_ground_answer(&g.sent[1], NULL, 0);
    assert_false(g.sent[1].to.plane == stored[0].to.plane &&
                 g.sent[1].to.slot == stored[0].to.slot);
    m.outcome = SKY_STORED_EVICTED;
    m.evicted = stored[0].message.id;
    sky_ground_say(&g, &m, g.sent[1].to);
    assert_int_equal(sky_ground_stat(&g).purged, 0);
    assert_int_equal(sky_ground_stat(&g).suspects, 1);
    m = sky_ground_answer(&g.sent[0], NULL, 0);
    sky_ground_say(&g, &m, g.sent[0].to);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK); /* stored it was */
    assert_int_equal(sky_index_count(sky_session_index(g.session)), 2);
    sky_ground_close(&g);
}

/* Get block 1 of 9 chunks while satellites lack its chunk `gone`, and say nothing of the others. */
static sky_status get_without(sky_ground *g, uint32_t gone) {
    sky_result r;
    g->sent_count = 0;
    sky_ground_ask(g, SKY_OP_GET, 1, 0);
    for (uint32_t told = 0; !sky_session_result(g->session, &r); told++) {
        sky_ground_listen(g, g->now + SKY_MS(1));
        assert_true(told < 100);
        for (; told < g->sent_count; told++) {
            const sky_ground_sent *s = &g->sent[told];
            sky_message m = sky_ground_answer(s, NULL, 0);
            if (s->message.type == SKY_WIRE_GET && m.id.number == gone)
                sky_ground_say(g, &m, s->to);
        }
    }
    assert_int_equal(r.bytes, 0);
    return r.status;
}

static uint32_t count_sent(sky_ground *g, sky_wire_type type) {
    uint32_t count = 0;
    sky_ground_listen(g, g->now + SKY_MS(5));
    for (uint32_t i = 0; i < g->sent_count; i++)
        count += g->sent[i].message.type == type && g->sent[i].message.id.key.bytes[0] == 1;
    return count;
}

/* Where it would be in this turn and was before it, nobody has it: the block is gone, whatever the
 * others would say. What is left of it goes as the policy says: the client drops it, or satellites
 * tell each other. */
static void one_chunk_that_is_gone_ends_its_block(void **state) {
    (void)state;
    static const uint32_t policies[] = {SKY_EVICT_LAZY, SKY_EVICT_GOSSIP,
                                        SKY_EVICT_LAZY | SKY_EVICT_GOSSIP};
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t gone = 1; gone <= 9; gone += 4) {
            sky_ground g;
            sky_ground_open_evicting(&g, policies[i]);
            sky_ground_put(&g, 1, 9 * SKY_GROUND_CHUNK, NULL);
            sky_ground_put(&g, 2, 9 * SKY_GROUND_CHUNK, NULL);
            assert_int_equal(get_without(&g, gone), SKY_MISS);
            assert_int_equal(g.delivered, 0);
            assert_int_equal(sky_index_count(sky_session_index(g.session)), 1);
            assert_int_equal(sky_ground_stat(&g).purged, 1);
            bool lazy = policies[i] & SKY_EVICT_LAZY;
            assert_int_equal(count_sent(&g, SKY_WIRE_DROP), lazy ? 9 : 0);
            assert_int_equal(count_sent(&g, SKY_WIRE_PURGE), lazy ? 0 : 1);
            uint32_t asked = g.sent_count;
            sky_ground_ask(&g, SKY_OP_GET, 1, 0); /* the index knows: nobody is asked */
            assert_int_equal(sky_ground_result(&g).status, SKY_MISS);
            sky_ground_listen(&g, g.now + SKY_MS(5));
            assert_int_equal(g.sent_count, asked);
            sky_ground_ask(&g, SKY_OP_HAS, 2, 0);
            assert_int_equal(sky_ground_result(&g).status, SKY_OK);
            sky_ground_close(&g);
        }
    }
}

static void room_is_made_on_the_ground(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 8, 64);
    for (uint32_t i = 1; i <= 4; i++)
        sky_ground_put(&g, i, 18 * SKY_GROUND_CHUNK, NULL); /* two chunks on each server */
    sky_ground_ask(&g, SKY_OP_PIN, 1, 0);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    sky_ground_ask(&g, SKY_OP_PUT, 5, 18 * SKY_GROUND_CHUNK);
    sky_ground_listen(&g, g.now + SKY_MS(5));
    uint32_t drops = 0, sets = 0, pins = 0;
    for (uint32_t i = 0; i < g.sent_count; i++) {
        drops += g.sent[i].message.type == SKY_WIRE_DROP;
        sets += g.sent[i].message.type == SKY_WIRE_SET;
        pins += g.sent[i].message.type == SKY_WIRE_PIN;
        assert_true(g.sent[i].message.type != SKY_WIRE_DROP ||
                    g.sent[i].message.id.key.bytes[0] == 2);
    }
    assert_int_equal(drops, 9);
    assert_int_equal(pins, 9);
    assert_int_equal(sets, 18);
    assert_int_equal(g.forgotten, 1);
    sky_ground_ask(&g, SKY_OP_PUT, 6,
                   73 * SKY_GROUND_CHUNK); /* more than an empty sky holds: nothing goes for it */
    sky_ground_ask(&g, SKY_OP_HAS, 3, 0);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    sky_ground_close(&g);
}

/* As many satellites may go with theirs as with a chunk's; where the sky is narrow, fewer. */
static void heads_are_where_chunks_have_company(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_session_config c = {.frame = &g.frame, .replicas = 1};
    assert_int_equal(sky__head_copies(&c), 1);
    c.replicas = 2;
    assert_int_equal(sky__head_copies(&c), 2);
    c.parity = 2;
    assert_int_equal(sky__head_copies(&c), 3);
    c.replicas = 1, c.parity = 1;
    assert_int_equal(sky__head_copies(&c), 2);
    c.parity = 9; /* the fifth is the last */
    assert_int_equal(sky__head_copies(&c), 5);
    static const sky_satellite wide[] = {{3, 4}, {4, 4}, {2, 4}, {3, 6}, {3, 2}};
    static const sky_satellite narrow[] = {{3, 4}, {3, 6}, {3, 2}, {3, 8}, {3, 19}};
    for (uint32_t copy = 0; copy < 5; copy++) {
        sky_chunk_facts facts = {.strategy = SKY_PLACE_ROTATION_HOP};
        sky__facts_of(&g.session->core, &facts, 0, copy);
        assert_true(sky_satellite_equal(facts.centre, wide[copy]));
    }
    g.frame.placement.window_planes = 1; /* no planes beside the one overhead are in sight */
    for (uint32_t copy = 0; copy < 5; copy++) {
        sky_chunk_facts facts = {.strategy = SKY_PLACE_ROTATION_HOP};
        sky__facts_of(&g.session->core, &facts, 0, copy);
        assert_true(sky_satellite_equal(facts.centre, narrow[copy]));
        assert_true(sky_satellite_equal(facts.first, narrow[copy]));
    }
    static const uint32_t room[][2] = {{4, 1}, {5, 3}, {8, 3}, {9, 5}}; /* slots, heads apart */
    for (size_t i = 0; i < 4; i++) {
        g.frame.constellation.slots = room[i][0];
        assert_int_equal(sky__head_copies(&c), room[i][1]);
    }
    g.frame.placement.strategy = SKY_PLACE_HOP;
    assert_int_equal(sky__head_copies(&c), 1);
    sky_ground_close(&g);
}

/* All data chunks are full but the last; parity is as long as its stripe's first. */
static void chunks_have_their_lengths(void **state) {
    (void)state;
    static const struct {
        uint32_t payload_bytes, lengths[6]; /* of chunks 1 to 6 */
    } cases[] = {{5, {5, 5, 5}},
                 {SKY_GROUND_CHUNK, {SKY_GROUND_CHUNK, SKY_GROUND_CHUNK, SKY_GROUND_CHUNK}},
                 {3 * SKY_GROUND_CHUNK + 5,
                  {SKY_GROUND_CHUNK, SKY_GROUND_CHUNK, SKY_GROUND_CHUNK, 5, SKY_GROUND_CHUNK,
                   SKY_GROUND_CHUNK}}};
    sky_ground g;
    sky_ground_open_parity(&g, 100, 64, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t bytes = cases[i].payload_bytes;
        assert_int_equal(sky__chunk_length(&g.session->core, bytes, 0), SKY_HEAD_BYTES);
        for (uint32_t n = 1; n <= 6 && cases[i].lengths[n - 1]; n++)
            assert_int_equal(sky__chunk_length(&g.session->core, bytes, n),
                             cases[i].lengths[n - 1]);
    }
    sky_ground_close(&g);
}

static void bad_configurations_are_refused(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 8);
    sky_session_config config = {.frame = &g.frame,
                                 .chunk_bytes = SKY_GROUND_CHUNK,
                                 .satellite_slots = 1,
                                 .link_bits_s = 1,
                                 .blocks_max = 1,
                                 .requests_max = 1,
                                 .operations_max = (1u << 20) + 1};
    sky_session *s;
    assert_int_equal(sky_session_create(&config, &s), SKY_E_PARAM);
    config.operations_max = 1;
    config.chunk_bytes = SKY_WIRE_DATA_BYTES_MAX + 1;
    assert_int_equal(sky_session_create(&config, &s), SKY_E_PARAM);
    for (uint32_t i = 0; i < 8; i++)
        sky_ground_ask(&g, SKY_OP_HAS, i, 0);
    sky_request more = {.op = SKY_OP_HAS};
    assert_int_equal(sky_session_submit(g.session, 0, &more), SKY_E_BUSY);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal((uintptr_t)sky_ground_result(&g).context, i);
    assert_true(sky_ground_silent(&g));
    sky_ground_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_is_visible_when_all_of_it_is_stored),
        cmocka_unit_test(places_follow_from_the_index_alone),
        cmocka_unit_test(what_a_satellite_evicts_is_no_block_any_more),
        cmocka_unit_test(what_satellites_evict_of_others_is_counted),
        cmocka_unit_test(only_a_holder_gives_up_a_chunk),
        cmocka_unit_test(one_chunk_that_is_gone_ends_its_block),
        cmocka_unit_test(room_is_made_on_the_ground),
        cmocka_unit_test(heads_are_where_chunks_have_company),
        cmocka_unit_test(chunks_have_their_lengths),
        cmocka_unit_test(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
