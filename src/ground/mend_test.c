/* Proves that parity which went with a satellite is there again after the block was read, in every
 * stripe and at its place, whether stripes are whole or the last is short; that a healthy block
 * costs a question to each server of parity and no more; and that nothing is made again for who is
 * only silent, nor waited for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ground/orrery_fixture.h"
#include "ground/session_state.h"

#define PARITY 2
#define DATA   7 /* of nine servers */

static bool told;

static void begin_with(sky_orrery *o, uint8_t parity) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->frame.turning.rotation_ns = SKY_TIME_NEVER;
    o->node_config.turning = o->frame.turning;
    o->session_config.parity = parity;
    o->session_config.retries_max = 6;
    o->session_config.late_ns = SKY_MS(50);
    sky_orrery_begin(o, 300);
}

static void begin(sky_orrery *o) {
    begin_with(o, PARITY);
}

/* Pieces of a block that are where they should be. */
static uint32_t in_place(const sky_orrery *o, uint32_t chunk_count) {
    uint32_t there = 0;
    for (uint32_t number = 1; number <= chunk_count; number++) {
        sky_chunk_id id;
        sky_chunk_facts facts;
        uint32_t bytes;
        sky_node_chunk found;
        sky_session_chunk(o->grounds[0], 0, number, &id, &facts, &bytes);
        there += sky_node_find(sky_orrery_node(o, facts.first), &id, &found) &&
                 found.bytes == bytes &&
                 sky_chunk_checksum(&id, found.data, bytes) == found.facts.checksum;
    }
    return there;
}

/* Payload chunks: one, whole stripes, a short one, more stripes than one question names. */
static const uint32_t sizes[] = {1, DATA, 3 * DATA, 3 * DATA + 2, 70 * DATA + 1};

static void what_a_satellite_lost_is_back_after_a_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sky_orrery o;
        begin(&o);
        uint32_t bytes = sizes[i] * SKY_ORRERY_CHUNK - 5;
        uint32_t stripes = sizes[i] / DATA + (sizes[i] % DATA != 0);
        uint32_t chunks = sizes[i] + stripes * PARITY;
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, bytes).status, SKY_OK);
        assert_int_equal(in_place(&o, chunks), chunks);
        for (uint32_t server = 0; server < 9; server++) {
            sky_orrery_crash(&o, o.frame.servers[server]);
            sky_orrery_run(&o, o.now + SKY_SECONDS(61)); /* it is not asked more often */
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_OK);
            sky_orrery_run(&o, o.now + SKY_SECONDS(5));
            if (in_place(&o, chunks) != chunks)
                fail_msg("%u chunks, server %u: %u of %u", sizes[i], server, in_place(&o, chunks),
                         chunks);
            assert_true(sky_session_settled(o.grounds[0], &told));
        }
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

static void look_after(uint8_t parity, uint32_t data_chunks) {
    sky_orrery o;
    begin_with(&o, parity);
    uint32_t data = 9 - parity, stripes = data_chunks / data + (data_chunks % data != 0);
    uint32_t chunks = data_chunks + stripes * parity;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, data_chunks * SKY_ORRERY_CHUNK - 5).status,
                     SKY_OK);
    for (uint32_t server = 0; server < 9; server++) {
        memset(o.sent, 0, sizeof o.sent);
        sky_orrery_crash(&o, o.frame.servers[server]);
        sky_orrery_run(&o, o.now + SKY_SECONDS(605));
        if (in_place(&o, chunks) != chunks)
            fail_msg("parity %u, %u chunks, server %u: %u of %u", parity, data_chunks, server,
                     in_place(&o, chunks), chunks);
        assert_true(o.sent[SKY_WIRE_HAS] <= 3 * 9 * (stripes / 64 + 2)); /* places included */
        assert_true(sky_session_settled(o.grounds[0], &told));
    }
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_OK);
    assert_int_equal(o.wrong, 0);
    sky_orrery_close(&o);
}

/* A ground that stays open looks after what nobody reads: each satellite may start again, one after
 * the other, and no piece of payload or parity stays away. Of a short stripe its server may hold
 * parity, and payload of the others: with one piece of parity these are more than one may lack. */
static void what_nobody_reads_is_looked_after(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint8_t parity = 1; parity <= PARITY; parity++)
            look_after(parity, sizes[i]);
}

/* So many blocks, and not more than one a second. */
static void a_patrol_has_a_rate(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o);
    for (uint32_t block = 0; block < 60; block++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, block, 7 * SKY_ORRERY_CHUNK).status,
                         SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(600));
    memset(o.sent, 0, sizeof o.sent);
    sky_orrery_run(&o, o.now + SKY_SECONDS(600));
    assert_int_equal(o.sent[SKY_WIRE_HAS], 60 * 9);
    assert_int_equal(o.sent[SKY_WIRE_SET] + o.sent[SKY_WIRE_GET], 0);
    sky_orrery_close(&o);
}

static void a_healthy_block_costs_a_question_a_server(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, 21 * SKY_ORRERY_CHUNK).status, SKY_OK);
    memset(o.sent, 0, sizeof o.sent);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(5));
    assert_int_equal(o.sent[SKY_WIRE_HAS], PARITY);
    assert_int_equal(o.sent[SKY_WIRE_GET], 3 * 21);
    assert_int_equal(o.sent[SKY_WIRE_SET], 0);
    sky_orrery_close(&o);
}

static sky_satellite silent;

static bool one_is_silent(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)m, (void)to;
    return !sky_satellite_equal(from, silent);
}

static void nothing_is_made_for_the_silent(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, 21 * SKY_ORRERY_CHUNK).status, SKY_OK);
    silent = o.frame.servers[8];
    o.ear = one_is_silent;
    memset(o.sent, 0, sizeof o.sent);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_MS(400)); /* a process that ends waits for this */
    assert_true(sky_session_settled(o.grounds[0], &told));
    sky_orrery_run(&o, o.now + SKY_SECONDS(30));
    assert_int_equal(o.sent[SKY_WIRE_SET], 0);
    assert_true(sky_session_settled(o.grounds[0], &told));
    sky_orrery_close(&o);
}

static bool one_never_says_miss(sky_orrery *o, sky_satellite from, sky_satellite to,
                                sky_message *m) {
    (void)o, (void)to;
    return !sky_satellite_equal(from, silent) || m->type != SKY_WIRE_MISS;
}

/* A get is over as soon as enough of each stripe came, before the satellite that started again says
 * what it no longer has. These pieces are looked after then, parity or not. */
static void what_was_only_late_when_a_get_ended_is_back(void **state) {
    (void)state;
    for (uint32_t server = 0; server < 9; server++) {
        sky_orrery o;
        begin(&o);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, 3 * DATA * SKY_ORRERY_CHUNK).status,
                         SKY_OK);
        silent = o.frame.servers[server];
        sky_orrery_crash(&o, silent);
        o.ear = one_never_says_miss;
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_OK);
        o.ear = NULL;
        sky_orrery_run(&o, o.now + SKY_SECONDS(5));
        assert_int_equal(in_place(&o, 27), 27);
        assert_true(sky_session_settled(o.grounds[0], &told));
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

/* The first SET from now on is lost. */
static bool first_set_is_lost(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)from, (void)to;
    return m->type != SKY_WIRE_SET || o->sent[SKY_WIRE_SET] > 1;
}

/* Nobody acknowledges a piece that is sent back: where links lose, it is sent more than once. */
static void a_piece_that_is_lost_on_its_way_back_is_there(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, DATA * SKY_ORRERY_CHUNK).status, SKY_OK);
    o.grounds[0]->core.loss.gets = 0.1;
    o.grounds[0]->core.loss.samples = 256;
    sky_orrery_crash(&o, o.frame.servers[8]);
    memset(o.sent, 0, sizeof o.sent);
    o.ear = first_set_is_lost;
    sky_orrery_run(&o, o.now + SKY_SECONDS(605)); /* one patrol */
    assert_int_equal(o.sent[SKY_WIRE_SET], 2);
    assert_int_equal(in_place(&o, 9), 9);
    assert_true(sky_session_settled(o.grounds[0], &told));
    sky_orrery_close(&o);
}

static uint32_t questions_lost;

static bool some_questions_are_lost(sky_orrery *o, sky_satellite from, sky_satellite to,
                                    sky_message *m) {
    (void)o, (void)from;
    bool lost = m->type == SKY_WIRE_HAS && sky_satellite_equal(to, silent) && questions_lost > 0;
    questions_lost -= lost;
    return !lost;
}

/* Where links lose much, silence is no reason to leave it to the next patrol. */
static void questions_that_are_lost_are_asked_again(void **state) {
    (void)state;
    for (int lossy = 0; lossy < 2; lossy++) {
        sky_orrery o;
        begin(&o);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 0, DATA * SKY_ORRERY_CHUNK).status,
                         SKY_OK);
        o.grounds[0]->core.loss.all = lossy ? 0.5 : 0;
        silent = o.frame.servers[8];
        sky_orrery_crash(&o, silent);
        questions_lost = 6;
        o.ear = some_questions_are_lost;
        sky_orrery_run(&o, o.now + SKY_SECONDS(605)); /* one patrol */
        assert_int_equal(in_place(&o, 9), lossy ? 9 : 8);
        sky_orrery_close(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_that_are_lost_are_asked_again),
        cmocka_unit_test(what_a_satellite_lost_is_back_after_a_read),
        cmocka_unit_test(what_nobody_reads_is_looked_after),
        cmocka_unit_test(a_patrol_has_a_rate),
        cmocka_unit_test(a_healthy_block_costs_a_question_a_server),
        cmocka_unit_test(nothing_is_made_for_the_silent),
        cmocka_unit_test(what_was_only_late_when_a_get_ended_is_back),
        cmocka_unit_test(a_piece_that_is_lost_on_its_way_back_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
