/* Proves that of grounds that race for one version of a key one wins, through losses and at any
 * moment of a turn; that the loser learns which version won and leaves nothing behind; and that a
 * change of which nothing is known is said to be that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ground/orrery_fixture.h"

#define CHUNKS 5

static void begin(sky_orrery *o, uint8_t replicas, sky_time rotation_ns) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->frame.turning.rotation_ns = rotation_ns;
    o->node_config.turning = o->frame.turning;
    o->node_config.frame = &o->frame;
    o->node_config.mend_period_ns = SKY_SECONDS(2);
    o->node_config.mend_grace_ns = SKY_MS(500);
    o->node_config.mend_copy_gap_ns = SKY_MS(1);
    o->node_config.sealed = o->session_config.sealed = true;
    o->session_config.replicas = replicas;
    o->session_config.lookup = SKY_LOOKUP_BINARY;
    sky_orrery_begin(o, 64);
}

static sky_request change(sky_op op, uint64_t expected, uint32_t chunks) {
    return (sky_request){.op = op,
                         .key = sky_orrery_key(0),
                         .named = true,
                         .payload_bytes = chunks * SKY_ORRERY_CHUNK,
                         .conditional = true,
                         .expected = expected};
}

static sky_result changed(sky_orrery *o, uint32_t ground, sky_op op, uint64_t expected,
                          uint32_t chunks) {
    const sky_request ask = change(op, expected, chunks);
    return sky_orrery_ask(o, ground, &ask);
}

static void versions_are_told_and_asked_for(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_TIME_NEVER);
    sky_orrery_run(&o, SKY_SECONDS(3)); /* satellites that just started wait for copies */
    sky_result first = changed(&o, 0, SKY_OP_PUT, 0, CHUNKS);
    assert_int_equal(first.status, SKY_OK);
    assert_true(first.version > 0);
    sky_result read = sky_orrery_do(&o, 1, SKY_OP_GET, 0, 0);
    assert_int_equal(read.status, SKY_OK);
    assert_int_equal(read.version, first.version);
    sky_result second = changed(&o, 1, SKY_OP_PUT, read.version, CHUNKS);
    assert_int_equal(second.status, SKY_OK);
    assert_true(second.version > first.version);
    sky_result late = changed(&o, 0, SKY_OP_PUT, first.version, 2 * CHUNKS);
    assert_int_equal(late.status, SKY_E_CONFLICT);
    assert_int_equal(late.version, second.version);
    assert_int_equal(changed(&o, 2, SKY_OP_PUT, 0, CHUNKS).status, SKY_E_CONFLICT);
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    assert_int_equal(sky_orrery_chunks(&o), 2 * (CHUNKS + 1)); /* of the one that won */
    late = changed(&o, 0, SKY_OP_REMOVE, first.version, 0);
    assert_int_equal(late.status, SKY_E_CONFLICT);
    assert_int_equal(late.version, second.version);
    assert_int_equal(changed(&o, 0, SKY_OP_REMOVE, second.version, 0).status, SKY_OK);
    assert_int_equal(sky_orrery_chunks(&o), 0);
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_HAS, 0, 0).status, SKY_MISS);
    for (uint32_t ground = 0; ground < 2;
         ground++) { /* that removed it, and that has it in its index */
        late = changed(&o, ground, SKY_OP_REMOVE, second.version, 0);
        assert_int_equal(late.status, SKY_E_CONFLICT);
        assert_int_equal(late.version, 0);
        assert_int_equal(changed(&o, ground, SKY_OP_REMOVE, 0, 0).status, SKY_MISS);
    }
    assert_int_equal(changed(&o, 1, SKY_OP_PUT, second.version, CHUNKS).status, SKY_E_CONFLICT);
    assert_int_equal(changed(&o, 1, SKY_OP_PUT, 0, CHUNKS).status, SKY_OK);
    assert_int_equal(o.wrong, 0);
    sky_orrery_close(&o);
}

static uint64_t losses;

/* One of seven messages that decide, or say what was decided, is lost. */
static bool some_are_lost(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    bool decides = m->type == SKY_WIRE_SET_IF || m->type == SKY_WIRE_SET_ACK;
    return !decides || losses++ % 7 != 3;
}

/* Four grounds ask for one version, all at once. Where answers are lost one may not learn if it
 * won, but then it did not. */
static uint32_t race(sky_orrery *o, uint64_t expected, uint64_t *won) {
    uint32_t winners = 0, answered = 0;
    for (uint32_t ground = 0; ground < SKY_ORRERY_GROUNDS; ground++) {
        const sky_request ask = change(SKY_OP_PUT, expected, CHUNKS + ground);
        assert_int_equal(sky_session_submit(o->grounds[ground], o->now, &ask), SKY_OK);
    }
    const sky_time until = o->now + SKY_SECONDS(60);
    while (answered < SKY_ORRERY_GROUNDS) {
        sky_result r;
        assert_true(o->now < until);
        sky_orrery_run(o, o->now + SKY_MS(1));
        for (uint32_t ground = 0; ground < SKY_ORRERY_GROUNDS; ground++) {
            while (sky_session_result(o->grounds[ground], &r)) {
                assert_true(r.status == SKY_OK || r.status == SKY_E_CONFLICT ||
                            (o->ear && r.status == SKY_E_UNAVAILABLE));
                winners += r.status == SKY_OK;
                *won = r.status == SKY_OK ? r.version : *won;
                answered++;
            }
        }
    }
    return winners;
}

static void one_of_four_wins(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 40; round++) {
        sky_orrery o;
        uint64_t version = 0, won = 0;
        begin(&o, (uint8_t)(1 + round % 2), SKY_ORRERY_TURN_NS);
        o.ear = round % 4 < 2 ? NULL : some_are_lost;
        sky_orrery_run(&o, SKY_SECONDS(3));
        assert_int_equal(race(&o, 0, &version), 1);
        sky_orrery_run(&o, SKY_ORRERY_TURN_NS - SKY_MS(20) + SKY_MS(1) * round);
        assert_int_equal(race(&o, version, &won), 1); /* while the sky turns */
        assert_true(won > version);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        for (uint32_t ground = 0; ground < SKY_ORRERY_GROUNDS; ground++)
            assert_int_equal(sky_orrery_do(&o, ground, SKY_OP_GET, 0, 0).version, won);
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

/* For half a second after a turn nobody knows if a head is still to come. That is waited for. */
static void a_turn_is_waited_for(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, SKY_SECONDS(20));
    for (uint32_t turn = 1; turn < 4; turn++) {
        sky_orrery_run(&o, sky_turn_begins(&o.frame.turning, turn) + SKY_MS(1));
        sky_request ask = change(SKY_OP_PUT, 0, CHUNKS);
        ask.key = sky_orrery_key(turn);
        assert_int_equal(sky_orrery_ask(&o, 0, &ask).status, SKY_OK);
    }
    sky_orrery_close(&o);
}

static bool deciders_are_silent(sky_orrery *o, sky_satellite from, sky_satellite to,
                                sky_message *m) {
    (void)o, (void)to;
    return m->type != SKY_WIRE_SET_ACK || m->id.number > 0 || from.plane == 0;
}

/* It may have happened, and did: what is there afterwards is whole. */
static void what_is_not_answered_is_unavailable(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 1, SKY_TIME_NEVER);
    sky_orrery_run(&o, SKY_SECONDS(3));
    o.ear = deciders_are_silent;
    assert_int_equal(changed(&o, 0, SKY_OP_PUT, 0, CHUNKS).status, SKY_E_UNAVAILABLE);
    o.ear = NULL;
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 0, 0).status, SKY_OK);
    assert_int_equal(o.wrong, 0);
    sky_orrery_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_told_and_asked_for),
        cmocka_unit_test(one_of_four_wins),
        cmocka_unit_test(a_turn_is_waited_for),
        cmocka_unit_test(what_is_not_answered_is_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
