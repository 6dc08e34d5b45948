/* Proves that a scenario's words reach satellites and ground, and that with every way of lookup,
 * eviction and redundancy a get over ideal links takes what light, link and processing take, for
 * each strategy and after any rotation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/physical.h"
#include "config/policy.h"
#include "sim/world_fixture.h"

static const sky_strategy strategies[] = {SKY_PLACE_ROTATION, SKY_PLACE_HOP,
                                          SKY_PLACE_ROTATION_HOP};

static void open_frame(sky_frame *f, sky_strategy strategy) {
    sky_scenario s = sky_fixture_scenario(strategy);
    sky_turning t = {.rotation_ns = SKY_SECONDS(80)};
    assert_int_equal(sky_frame_init(f, &s.constellation, &s.placement, s.centre, &t, NULL), SKY_OK);
}

static void words_reach_their_configuration(void **state) {
    (void)state;
    static const uint32_t hops[] = {4, 4, 4}; /* from end to end of the servers */
    for (size_t i = 0; i < 3; i++) {
        sky_frame f;
        open_frame(&f, strategies[i]);
        sky_scenario s = sky_fixture_scenario(strategies[i]);
        sky_node_config node = {.queue_max = 7};
        sky_session_config session = {.requests_max = 7};
        sky_policy_node(&s, &f, &node);
        sky_policy_session(&s, &f, &session);
        assert_int_equal(node.gossip_hops + node.sweep_period_ns + node.tell_ground, 0);
        assert_int_equal(session.eviction, SKY_EVICT_LAZY); /* unless told otherwise */
        assert_int_equal(session.replicas, 1);
        s.eviction = SKY_EVICT_GOSSIP | SKY_EVICT_SWEEP | SKY_EVICT_BROADCAST;
        s.lookup = SKY_LOOKUP_SEQUENTIAL;
        s.replicas = 2;
        s.parity = 3;
        sky_policy_node(&s, &f, &node);
        sky_policy_session(&s, &f, &session);
        assert_int_equal(node.gossip_hops, hops[i]);
        assert_int_equal(session.gossip_hops, hops[i]);
        assert_true(node.tell_ground);
        assert_int_equal(node.sweep_period_ns, SKY_SECONDS(40));
        assert_int_equal(node.sweep_grace_ns, SKY_SECONDS(10));
        assert_true(node.sweep_ripe_ns > session.put_ns_max && session.put_ns_max > 0);
        assert_int_equal(session.eviction, s.eviction);
        assert_int_equal(session.lookup, SKY_LOOKUP_SEQUENTIAL);
        assert_int_equal(session.replicas, 2);
        assert_int_equal(session.parity, 3);
        assert_int_equal(node.queue_max + session.requests_max, 14); /* the others stay */
        sky_frame_deinit(&f);
    }
}

/* In a true sky whose lasers are down at times who gets clears away, and nobody sweeps. */
static void what_is_cut_off_is_not_swept(void **state) {
    (void)state;
    static const char text[] =
        "constellation: {planes: 24, slots: 10, altitude_km: 400, phasing: 3}\n"
        "sky: physical\nobserver: {lat_deg: 55, min_elevation_deg: 6}\n"
        "time: {rotation_s: 13}\nuntil: 600s\neviction: [gossip, sweep]\n";
    sky_scenario s;
    sky_frame f;
    sky_error error = {0};
    assert_int_equal(sky_scenario_parse(text, strlen(text), "test", &s, &error), SKY_OK);
    const sky_turning t = {.rotation_ns = SKY_SECONDS(13)};
    assert_int_equal(sky__physical_frame(&s, &t, &f, &error), SKY_OK);
    assert_false(sky_frame_whole(&f));
    sky_node_config node = {.queue_max = 7};
    sky_session_config session = {.requests_max = 7};
    sky_policy_node(&s, &f, &node);
    sky_policy_session(&s, &f, &session);
    assert_int_equal(node.sweep_period_ns + session.put_ns_max, 0);
    assert_int_equal(session.eviction, SKY_EVICT_GOSSIP | SKY_EVICT_LAZY);
    sky_frame_deinit(&f);
}

typedef struct {
    uint64_t bits_s;
    sky_time processing_ns;
    uint32_t replicas, parity;
    sky_lookup_kind lookup;
    uint32_t eviction;
} ideal_case;

/* The farthest server's light both ways, and whichever takes longer: the link to carry everything,
 * or a satellite to serve its share. */
static sky_time ideal_ns(const sky_world *w, const ideal_case *c, uint64_t bytes) {
    uint32_t servers = 9 - c->parity;
    uint64_t chunks = (bytes + 6143) / 6144;
    sky_time light = 2 * sky_frame_ground_ns_max(sky_world_frame(w));
    sky_time link = sky_link_busy_ns(c->bits_s, bytes + chunks * 100);
    sky_time served = (sky_time)((chunks + servers - 1) / servers) * c->processing_ns;
    return light + (link > served ? link : served);
}

static void check_get(sky_fixture_world *f, const ideal_case *c, sky_strategy strategy,
                      uint32_t turns, uint32_t bytes) {
    sky_result r = sky_fixture_do(f, SKY_OP_GET, 1, 0);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(f->wrong_bytes, 0);
    sky_time took = r.time.ended - r.time.began, ideal = ideal_ns(f->world, c, bytes);
    if (took > ideal + ideal / 20)
        fail_msg("%s after %u turns: %.3f ms instead of %.3f", sky_strategy_name(strategy), turns,
                 (double)took / 1e6, (double)ideal / 1e6);
}

/* One put, and a get after each of these turns. */
static void check_case(sky_strategy strategy, const ideal_case *c) {
    static const uint32_t turns[] = {0, 1, 2, 3, 7, 19, 40};
    const uint32_t bytes = 3040870;
    sky_scenario s = sky_fixture_scenario(strategy);
    s.chunk_bytes = 6144;
    s.satellite.memory_bytes = 64 << 20;
    s.satellite.processing_ns = c->processing_ns;
    s.links.ground_bits_s = s.links.isl_bits_s = c->bits_s;
    s.time.rotation_ns = SKY_SECONDS(30);
    s.replicas = c->replicas;
    s.parity = c->parity;
    s.lookup = c->lookup;
    s.eviction = c->eviction;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_PUT, 1, bytes).status, SKY_OK);
    for (size_t t = 0; t < sizeof turns / sizeof *turns; t++) {
        sky_world_run(f.world, turns[t] * s.time.rotation_ns + SKY_SECONDS(15));
        check_get(&f, c, strategy, turns[t], bytes);
    }
    sky_session_stat stat;
    sky_session_stats(sky_world_session(f.world), &stat);
    assert_int_equal(stat.retries + stat.second_places + stat.other_copies + stat.rebuilt, 0);
    sky_fixture_world_close(&f);
}

static void a_get_takes_no_longer_than_it_must(void **state) {
    (void)state;
    static const ideal_case cases[] = {
        {200000000, SKY_MS(2), 1, 0, SKY_LOOKUP_INDEX, SKY_EVICT_GOSSIP},
        {10000000000, SKY_MS(2), 1, 0, SKY_LOOKUP_INDEX, SKY_EVICT_LAZY},
        {10000000000, 1000, 1, 0, SKY_LOOKUP_BINARY, SKY_EVICT_SWEEP},
        {1000000000, 1000, 2, 0, SKY_LOOKUP_INDEX, SKY_EVICT_BROADCAST},
        {1000000000, SKY_MS(2), 1, 2, SKY_LOOKUP_SEQUENTIAL, SKY_EVICT_GOSSIP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t s = 0; s < 3; s++)
            check_case(strategies[s], &cases[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_reach_their_configuration),
        cmocka_unit_test(what_is_cut_off_is_not_swept),
        cmocka_unit_test(a_get_takes_no_longer_than_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
