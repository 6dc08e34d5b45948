/* Proves that what strangers say of copies leaves a satellite working, and that two copies may
 * change places. The work itself is proved in ground/session_copies_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5};

#define PERIOD_NS SKY_SECONDS(8)

/* One satellite that looks after copies, in a sky with one server. */
static void open_sky(bench *b, sky_frame *frame) {
    bench_open(b, 8);
    const sky_placement one = {.strategy = SKY_PLACE_ROTATION, .servers = 1};
    const sky_constellation *c = &b->config.constellation;
    sky_constellation sky = {.planes = c->planes, .slots = c->slots, .altitude_km = 550};
    assert_int_equal(sky_frame_init(frame, &sky, &one, here, &b->config.turning, NULL), SKY_OK);
    b->config.frame = frame;
    b->config.mend_period_ns = PERIOD_NS;
    sky_node_init(&b->node, &b->config, here, 0, b->memory, b->bytes);
}

/* Copies in a sky with one server, which are its own: a chunk has one place there. */
static void copies_that_have_no_place_are_not_looked_for(void **state) {
    (void)state;
    bench b;
    sky_frame frame;
    open_sky(&b, &frame);
    sky_message m = bench_set(SKY_WIRE_SET, 1, here);
    m.facts.centre = here;
    m.facts.window_planes = m.facts.window_slots = 1;
    m.facts.copies = 16;
    bench_tell(&b, 0, &m);
    assert_true(bench_hear(&b, BENCH_SERVE_NS, &m));
    m = (sky_message){.type = SKY_WIRE_MEND, .id = bench_name(1, 1), .stride = 1, .last = 1};
    bench_tell(&b, BENCH_SERVE_NS, &m);
    bench_silent(&b, BENCH_SERVE_NS);
    assert_int_equal(b.node.doubted.count, 0);
    sky_frame_deinit(&frame);
    bench_close(&b);
}

/* COPIES that differ from what is held, as one chunk is: each that is taken is answered. */
static uint32_t answers_to(bench *b, sky_time now, sky_satellite from, uint32_t count) {
    const sky_message copies = {.type = SKY_WIRE_COPIES, .digest = 1};
    sky_message m;
    uint32_t answers = 0;
    for (uint32_t i = 0; i < count; i++) {
        bench_tell_from(b, now, &copies, from);
        if (!bench_hear(b, now, &m))
            continue;
        assert_int_equal(m.type, SKY_WIRE_COPIES);
        assert_true(sky_satellite_equal(b->to, from));
        answers++;
    }
    return answers;
}

/* One that sends without end has its share, and others go on being heard; also when there are more
 * of them than are remembered. */
static void a_sender_of_copies_uses_up_its_own_share_alone(void **state) {
    (void)state;
    bench b;
    sky_frame frame;
    open_sky(&b, &frame);
    const sky_satellite liar = {1, 1}, honest = {3, 4};
    uint32_t heard = answers_to(&b, 0, liar, 1000);
    assert_in_range(heard, 1, 64);
    assert_int_equal(answers_to(&b, 0, honest, 2), 2);
    assert_int_equal(answers_to(&b, PERIOD_NS / 2, liar, 1000), heard / 2);
    assert_int_equal(answers_to(&b, PERIOD_NS / 2, honest, 2), 2);
    uint32_t others = 0;
    for (uint32_t i = 0; i < 3 * SKY_NODE_SENDERS_MAX; i++)
        others += answers_to(&b, PERIOD_NS, (sky_satellite){1 + i % 5, 1 + i / 5}, 1000);
    assert_true(others <= heard * SKY_NODE_SENDERS_MAX); /* whatever names there are */
    sky_frame_deinit(&frame);
    bench_close(&b);
}

/* A move lets two copies change places: each satellite gives the other its copy, and keeps the
 * chunk as the other's. Neither sends what it gave once more, or both would without end. */
static void copies_change_places(void **state) {
    (void)state;
    for (int sent_first = 0; sent_first < 2; sent_first++) {
        bench b;
        bench_open(&b, 4);
        sky_satellite there = {2, 5};
        sky_message mine = bench_set(SKY_WIRE_SET, 1, here), ack, out;
        sky_message m = bench_set(SKY_WIRE_MOVE, 1, there);
        sky_message given = bench_set(SKY_WIRE_MIGRATE, 1, here);
        m.data_bytes = 0;
        m.stride = m.last = 1;
        m.facts.moves = given.facts.moves = 1;
        bench_tell(&b, 0, &mine);
        bench_run(&b, SKY_MS(100));
        bench_tell(&b, SKY_MS(101), &m);
        if (sent_first)
            ack = bench_taken(&b, SKY_MS(101));
        bench_tell_from(&b, SKY_MS(102), &given, there);
        if (!sent_first)
            ack = bench_taken(&b, SKY_MS(102));
        else
            assert_true(bench_hear(&b, SKY_MS(102), &out) && out.type == SKY_WIRE_MIGRATE_ACK);
        bench_silent(&b, SKY_MS(102));
        bench_tell_from(&b, SKY_MS(103), &ack, there);
        assert_int_equal(sky_node_chunks(&b.node), 1);
        bench_silent(&b, SKY_MS(103)); /* at home */
        bench_tell_from(&b, SKY_MS(104), &given, there);
        assert_true(bench_hear(&b, SKY_MS(104), &out) && out.type == SKY_WIRE_MIGRATE_ACK);
        bench_silent(&b, BENCH_TURN_NS / 2);
        assert_int_equal(sky_node_chunks(&b.node), 1);
        bench_close(&b);
    }
}

/* Of three copies two may come while the own one is to leave. There is a place for one: the giver
 * of the other keeps it, and gives it again. */
static void a_third_copy_stays_with_its_giver(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 4);
    const sky_satellite there = {2, 5}, third = {4, 5};
    sky_message own = bench_set(SKY_WIRE_SET, 1, there), ack, out;
    sky_message given = bench_set(SKY_WIRE_MIGRATE, 1, here), also = given;
    also.facts.first = third;
    bench_tell(&b, 0, &own);
    ack = bench_taken(&b, SKY_MS(100));
    bench_tell_from(&b, SKY_MS(101), &given, there);
    assert_true(bench_hear(&b, SKY_MS(101), &out) && out.outcome == SKY_STORED);
    bench_tell_from(&b, SKY_MS(102), &also, third);
    assert_true(bench_hear(&b, SKY_MS(102), &out) && out.type == SKY_WIRE_MIGRATE_ACK);
    assert_int_equal(out.outcome, SKY_NOT_STORED);
    bench_tell_from(&b, SKY_MS(103), &given, there); /* repeated */
    assert_true(bench_hear(&b, SKY_MS(103), &out) && out.outcome == SKY_STORED);
    bench_tell_from(&b, SKY_MS(104), &ack, there);
    assert_int_equal(sky_node_chunks(&b.node), 1);
    bench_silent(&b, SKY_MS(104)); /* at home */
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_that_have_no_place_are_not_looked_for),
        cmocka_unit_test(a_sender_of_copies_uses_up_its_own_share_alone),
        cmocka_unit_test(copies_change_places),
        cmocka_unit_test(a_third_copy_stays_with_its_giver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
