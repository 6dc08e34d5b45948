/* Proves that blocks live in a sky whose links carry datagrams: set, read and migrated over the
 * real transport, with datagrams lost, doubled, damaged, held back and made up; that what it
 * refuses it counts; that a satellite which restarts is believed again; and that a seed replays
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "sim/world_fixture.h"

#define BLOCKS 12
#define BYTES  30000

static sky_scenario scenario_of(sky_strategy strategy) {
    sky_scenario s = sky_fixture_scenario(strategy);
    s.links.datagrams = true;
    s.chunk_bytes = 6144; /* six datagrams */
    s.time.rotation_ns = SKY_SECONDS(30);
    return s;
}

static sky_world_stat stats(const sky_fixture_world *f) {
    sky_world_stat s;
    sky_world_stats(f->world, &s);
    return s;
}

static void put_all(sky_fixture_world *f) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(sky_fixture_do(f, SKY_OP_PUT, i, BYTES).status, SKY_OK);
}

/* How many come back; whatever comes is right. */
static uint32_t get_all(sky_fixture_world *f) {
    uint32_t hits = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        sky_result r = sky_fixture_do(f, SKY_OP_GET, i, 0);
        hits += r.status == SKY_OK;
        assert_true(r.status != SKY_OK || r.bytes == BYTES);
    }
    assert_int_equal(f->wrong_bytes, 0);
    return hits;
}

static void blocks_come_back_over_datagrams(void **state) {
    (void)state;
    for (int strategy = 0; strategy < 3; strategy++) {
        sky_scenario s = scenario_of((sky_strategy)strategy);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        put_all(&f);
        for (uint32_t turn = 0; turn < 8; turn += 3) {
            sky_world_run(f.world, turn * s.time.rotation_ns + SKY_SECONDS(15));
            assert_int_equal(get_all(&f), BLOCKS);
        }
        sky_world_stat stat = stats(&f);
        assert_true(stat.transport.messages_taken > 4 * BLOCKS * 5);
        assert_int_equal(stat.transport.datagrams_sent, stat.messages);
        assert_true(stat.transport.datagrams_sent > 6 * stat.transport.messages_taken / 2);
        assert_true(strategy == SKY_PLACE_HOP ? stat.transport.relayed > 0
                                              : stat.nodes.migrated > 0);
        assert_int_equal(stat.transport.forged + stat.transport.replayed + stat.transport.stale +
                             stat.transport.foreign + stat.transport.malformed +
                             stat.transport.given_up,
                         0);
        sky_world_check c;
        assert_int_equal(sky_world_verify(f.world, 0, 0, &c), SKY_OK);
        assert_int_equal(c.corrupt, 0);
        sky_fixture_world_close(&f);
    }
}

static void links_that_do_everything_wrong_cost_time(void **state) {
    (void)state;
    for (int strategy = 0; strategy < 3; strategy++) {
        sky_scenario s = scenario_of((sky_strategy)strategy);
        s.links.loss = 0.05;
        s.links.jitter_ns = SKY_MS(2);
        s.faults.corrupt = 0.01;
        s.faults.duplicate = 0.1;
        s.faults.reorder = 0.1;
        s.faults.skew_ns = SKY_MS(300);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &s, 1);
        put_all(&f);
        sky_world_run(f.world, 4 * s.time.rotation_ns);
        assert_int_equal(get_all(&f), BLOCKS);
        sky_world_stat stat = stats(&f);
        assert_true(stat.transport.pieces_again > 0 && stat.transport.replayed > 0);
        assert_true(stat.transport.forged + stat.transport.foreign + stat.transport.stale > 0);
        assert_true(stat.lost > 0 && stat.duplicated > 0 && stat.corrupted > 0);
        assert_int_equal(stat.nodes.corrupt, 0); /* what is damaged never gets so far */
        sky_fixture_world_close(&f);
    }
}

/* An adversary that repeats, damages and makes up datagrams, a thousand a second. */
static void made_up_datagrams_are_counted_and_dropped(void **state) {
    (void)state;
    sky_scenario s = scenario_of(SKY_PLACE_ROTATION_HOP);
    s.faults.hostile_per_s = 1000;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    put_all(&f);
    sky_world_run(f.world, SKY_SECONDS(20));
    assert_int_equal(get_all(&f), BLOCKS);
    sky_world_stat stat = stats(&f);
    assert_true(stat.hostile > 19000);
    uint64_t refused = stat.transport.forged + stat.transport.replayed + stat.transport.stale +
                       stat.transport.foreign;
    assert_true(refused > stat.hostile * 9 / 10 && refused <= stat.hostile);
    assert_true(stat.transport.replayed > 0 && stat.transport.forged > 0);
    assert_int_equal(stat.nodes.malformed, 0);
    sky_fixture_world_close(&f);
}

/* It comes back with nothing, under a new epoch, and its neighbours and the ground believe it. */
static void who_restarts_is_heard_again(void **state) {
    (void)state;
    sky_scenario s = scenario_of(SKY_PLACE_ROTATION_HOP);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    put_all(&f);
    sky_world_run(f.world, SKY_SECONDS(2));
    sky_world_crash(f.world, (sky_satellite){3, 5});
    sky_world_run(f.world, SKY_SECONDS(4));
    assert_int_equal(get_all(&f), 0); /* five chunks a block; one of them was there */
    put_all(&f);
    sky_world_run(f.world, SKY_SECONDS(200));
    assert_int_equal(get_all(&f), BLOCKS);
    assert_int_equal(stats(&f).transport.stale, 0);
    sky_fixture_world_close(&f);
}

typedef struct {
    uint64_t sum, events;
} digest;

static void on_event(void *context, const sky_world_event *e) {
    digest *d = context;
    d->events++;
    d->sum = (d->sum ^ (uint64_t)e->at ^ e->digest) * 0x9e3779b97f4a7c15u + (uint64_t)e->kind;
}

static digest fly(uint64_t seed) {
    sky_scenario s = scenario_of(SKY_PLACE_ROTATION);
    s.links.loss = 0.02;
    s.faults.reorder = 0.1;
    s.faults.hostile_per_s = 10;
    sky_fixture_world f;
    digest d = {0};
    sky_fixture_world_open(&f, &s, seed);
    sky_world_trace_set(f.world, on_event, &d);
    put_all(&f);
    sky_world_run(f.world, SKY_SECONDS(70));
    get_all(&f);
    sky_fixture_world_close(&f);
    return d;
}

static void a_seed_replays_every_datagram(void **state) {
    (void)state;
    digest a = fly(5), b = fly(5), c = fly(6);
    assert_true(a.events > 1000 && a.events == b.events && a.sum == b.sum);
    assert_true(a.sum != c.sum);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back_over_datagrams),
        cmocka_unit_test(links_that_do_everything_wrong_cost_time),
        cmocka_unit_test(made_up_datagrams_are_counted_and_dropped),
        cmocka_unit_test(who_restarts_is_heard_again),
        cmocka_unit_test(a_seed_replays_every_datagram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
