/* Proves when a satellite asks for the chunk after one of its own: each once a period, once more
 * where the answer is no, and not around a turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5};
static const sky_satellite centre = {3, 4};

/* It never turns, and sweeps once a second. */
static void open_sweeping(bench *b) {
    bench_open(b, 8);
    b->config.turning.rotation_ns = SKY_TIME_NEVER;
    b->config.sweep_period_ns = SKY_SECONDS(1);
    sky_node_init(&b->node, &b->config, here, 0, b->memory, b->bytes);
}

static void a_sweep_takes_its_period(void **state) {
    (void)state;
    bench b;
    open_sweeping(&b);
    for (uint32_t i = 1; i <= 8; i++) {
        sky_message m = bench_set(SKY_WIRE_SET, i, here), out;
        m.facts.pinned = i < 7, m.facts.chunk_count = i == 7 ? 1 : 9; /* one chunk: no next */
        bench_tell(&b, 0, &m);
        assert_true(bench_hear(&b, BENCH_TURN_NS, &out));
    }
    uint32_t asked = 0;
    sky_message m;
    for (sky_time at; (at = sky_node_wake(&b.node)) < SKY_SECONDS(10);) {
        sky_node_input(&b.node, at, NULL);
        while (bench_hear(&b, at, &m))
            asked += m.type == SKY_WIRE_HAS;
    }
    assert_in_range(asked, 8, 10);
    bench_close(&b);
}

/* Two answers from its only place that the next chunk is not there, before anything else is asked,
 * and the block is given up; one that it is there, and it stays. So it does by a clock that stands
 * still, as answers come in no time then: there is no second question. */
static void a_doubt_is_settled_at_once(void **state) {
    (void)state;
    static const struct {
        sky_time answer_ns;
        bool there;
    } cases[] = {{SKY_MS(1), false}, {SKY_MS(1), true}, {0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool there = cases[i].there, stands = cases[i].answer_ns == 0;
        bench b;
        open_sweeping(&b);
        sky_message m;
        for (uint32_t number = 1; number <= 3; number++) {
            m = bench_set(SKY_WIRE_MIGRATE, number, here);
            bench_tell_from(&b, 0, &m, centre);
            assert_true(bench_hear(&b, 0, &m));
        }
        sky_time at = sky_node_wake(&b.node);
        sky_node_input(&b.node, at, NULL);
        assert_true(bench_hear(&b, at, &m));
        const sky_chunk_id asked = m.id;
        uint64_t request = 0;
        for (int answers = 1; answers <= (stands ? 1 : 2); answers++) {
            assert_int_equal(m.type, SKY_WIRE_HAS);
            assert_true(sky_chunk_id_equal(&m.id, &asked));
            assert_int_not_equal(m.request, request); /* each question has a name of its own */
            request = m.request;
            sky_message reply = {.type = SKY_WIRE_HAS_REPLY,
                                 .request = m.request,
                                 .id = m.id,
                                 .present = there && answers == 2};
            assert_int_equal(sky_node_chunks(&b.node), 3);
            at += cases[i].answer_ns;
            bench_tell_from(&b, at, &reply, b.to);
            sky_node_input(&b.node, at, NULL);
            assert_int_equal(bench_hear(&b, at, &m), answers < 2 && !stands);
        }
        bool stays = there || stands;
        assert_int_equal(sky_node_chunks(&b.node), stays ? 3 : 2);
        assert_int_equal(b.node.stat.swept, stays ? 0 : 1);
        bench_close(&b);
    }
}

/* Nothing is asked while chunks are on the move by anybody's clock. */
static void sweeps_rest_around_a_turn(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    b.config.sweep_period_ns = SKY_MS(100);
    b.config.sweep_grace_ns = SKY_SECONDS(1);
    sky_node_init(&b.node, &b.config, here, 0, b.memory, b.bytes);
    sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, here);
    m.facts.strategy = SKY_PLACE_HOP; /* it stays where it is */
    m.facts.window_planes = m.facts.window_slots = 0;
    bench_tell_from(&b, 0, &m, centre);
    uint32_t asked = 0;
    for (sky_time at; (at = sky_node_wake(&b.node)) < 3 * BENCH_TURN_NS;) {
        sky_node_input(&b.node, at, NULL);
        while (bench_hear(&b, at, &m)) {
            if (m.type != SKY_WIRE_HAS)
                continue;
            asked++;
            assert_in_range(at % BENCH_TURN_NS, SKY_SECONDS(1), BENCH_TURN_NS - SKY_MS(500) - 1);
        }
    }
    assert_in_range(asked, 3 * 84, 3 * 86); /* a second after each turn, half a second before */
    bench_close(&b);
}

/* Pinned chunks are not asked about: they are looked at once a period. */
static void nothing_to_ask_for_takes_a_period_too(void **state) {
    (void)state;
    bench b;
    open_sweeping(&b);
    sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, here);
    m.facts.pinned = true;
    bench_tell_from(&b, 0, &m, centre);
    assert_true(bench_hear(&b, 0, &m));
    sky_time at = sky_node_wake(&b.node);
    for (uint32_t round = 0; round < 3; round++, at += SKY_SECONDS(1)) {
        bench_silent(&b, at);
        assert_int_equal(sky_node_wake(&b.node), at + SKY_SECONDS(1));
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_takes_its_period),
        cmocka_unit_test(a_doubt_is_settled_at_once),
        cmocka_unit_test(sweeps_rest_around_a_turn),
        cmocka_unit_test(nothing_to_ask_for_takes_a_period_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
