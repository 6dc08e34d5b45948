/* Proves that a removal and a pin over satellites that outlive the session end when all that hold
 * a part of the block have answered, however many messages are lost; and that of those who do not
 * answer it is known how much they have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ground/orrery_fixture.h"

#define CHUNKS 20
#define COPIES (2 * (CHUNKS + 1)) /* heads too */

static void begin(sky_orrery *o, sky_time rotation_ns) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->frame.turning.rotation_ns = rotation_ns;
    o->node_config.turning = o->frame.turning;
    o->node_config.sealed = o->session_config.sealed = true;
    o->session_config.replicas = 2;
    o->session_config.lookup = SKY_LOOKUP_BINARY;
    sky_orrery_begin(o, 64);
    assert_int_equal(sky_orrery_do(o, 0, SKY_OP_PUT, 0, CHUNKS * SKY_ORRERY_CHUNK).status, SKY_OK);
    assert_int_equal(sky_orrery_chunks(o), COPIES);
}

static uint32_t pinned(const sky_orrery *o) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->frame.satellite_count; i++)
        count += o->nodes[i].tenants[0].pinned.count;
    return count;
}

static void nothing_is_left_when_it_is_said(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_TIME_NEVER);
    sky_result r = sky_orrery_do(&o, 0, SKY_OP_PIN, 0, 0);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(pinned(&o), COPIES);
    r = sky_orrery_do(&o, 1, SKY_OP_UNPIN, 0, 0); /* another ground */
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(pinned(&o), 0);
    r = sky_orrery_do(&o, 1, SKY_OP_REMOVE, 0, 0);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(r.told_chunks, COPIES);
    assert_int_equal(r.unheard_chunks, 0);
    assert_int_equal(sky_orrery_chunks(&o), 0);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 0, 0).status, SKY_MISS);
    sky_orrery_close(&o);
}

static uint32_t rows_lost;

/* One of five of them is, whichever way it goes. */
static bool rows_are_lost(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    bool row = m->type == SKY_WIRE_DROP || m->type == SKY_WIRE_PIN || m->type == SKY_WIRE_ROW_ACK;
    return !row || rows_lost++ % 5 != 1;
}

static void what_is_lost_on_the_way_is_said_again(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_TIME_NEVER);
    o.ear = rows_are_lost;
    rows_lost = 0;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PIN, 0, 0).status, SKY_OK);
    assert_int_equal(pinned(&o), COPIES);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 0, 0).status, SKY_OK);
    assert_int_equal(sky_orrery_chunks(&o), 0);
    sky_orrery_close(&o);
}

static void what_the_silent_hold_is_counted(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        sky_orrery o;
        begin(&o, SKY_TIME_NEVER);
        sky_satellite dead = o.frame.servers[i];
        o.ear_context = &dead;
        const uint32_t held = sky_node_chunks(sky_orrery_node(&o, dead));
        o.ear = sky_orrery_cut_off;
        sky_result r = sky_orrery_do(&o, 0, SKY_OP_PIN, 0, 0);
        assert_int_equal(r.status, SKY_E_UNAVAILABLE);
        assert_int_equal(r.unheard_chunks, held);
        assert_int_equal(pinned(&o), COPIES - held);
        r = sky_orrery_do(&o, 0, SKY_OP_REMOVE, 0, 0);
        assert_int_equal(r.status, SKY_E_UNAVAILABLE);
        assert_int_equal(r.told_chunks, COPIES);
        assert_int_equal(r.unheard_chunks, held);
        assert_int_equal(sky_orrery_chunks(&o), held);
        sky_orrery_close(&o);
    }
}

/* At any moment of a turn, when parts are between two places. */
static void a_turn_hides_nothing(void **state) {
    (void)state;
    for (sky_time at = 0; at < SKY_MS(20); at += SKY_MS(1)) {
        sky_orrery o;
        begin(&o, SKY_ORRERY_TURN_NS);
        sky_orrery_run(&o, SKY_ORRERY_TURN_NS - SKY_MS(8) + at);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 0, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(sky_orrery_chunks(&o), 0);
        sky_orrery_close(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_when_it_is_said),
        cmocka_unit_test(what_is_lost_on_the_way_is_said_again),
        cmocka_unit_test(what_the_silent_hold_is_counted),
        cmocka_unit_test(a_turn_hides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
