/* Proves that blocks put into the sky come back: from set time and centre alone, after any number
 * of turns, at every instant of a migration, as fast as light and links allow, and bit for bit
 * again from the same seed; and that what the sky cannot hold or has lost is a miss, never wrong
 * bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "sim/world_fixture.h"

static const sky_strategy strategies[] = {SKY_PLACE_ROTATION, SKY_PLACE_HOP,
                                          SKY_PLACE_ROTATION_HOP};

static sky_result put(sky_fixture_world *f, uint32_t number, uint32_t bytes) {
    return sky_fixture_do(f, SKY_OP_PUT, number, bytes);
}

static void assert_hit(sky_fixture_world *f, uint32_t number, uint32_t bytes) {
    uint64_t before = f->delivered_bytes;
    sky_result r = sky_fixture_do(f, SKY_OP_GET, number, 0);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(r.bytes, bytes);
    assert_int_equal(f->delivered_bytes - before, bytes);
    assert_int_equal(f->wrong_bytes, 0);
}

static sky_world_stat stats(const sky_fixture_world *f) {
    sky_world_stat s;
    sky_world_stats(f->world, &s);
    return s;
}

/* Every chunk of every block is somewhere in orbit, and right wherever it is. */
static void assert_all_copies(const sky_fixture_world *f) {
    sky_world_check c;
    sky_world_verify(f->world, 0, 0, &c);
    assert_int_equal(c.corrupt, 0);
    assert_true(c.copies_min >= 1);
}

static void puts_come_back(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 1, 1023, 1024, 1025, 9 * 1024, 50000};
    for (size_t s = 0; s < 3; s++) {
        sky_scenario scenario = sky_fixture_scenario(strategies[s]);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, 1);
        for (uint32_t i = 0; i < 7; i++)
            assert_int_equal(put(&f, i, sizes[i]).status, SKY_OK);
        for (uint32_t i = 0; i < 7; i++) {
            assert_hit(&f, i, sizes[i]);
            assert_int_equal(sky_fixture_do(&f, SKY_OP_HAS, i, 0).bytes, sizes[i]);
        }
        assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 99, 0).status, SKY_MISS);
        assert_all_copies(&f);
        sky_fixture_world_close(&f);
    }
}

/* Chunk c of a block set under (3,4) is on the satellite that the layout of leo.md gives for it. */
static void chunks_lie_where_the_seed_puts_them(void **state) {
    (void)state;
    static const sky_satellite figure[9] = {{3, 4}, {2, 4}, {3, 5}, {4, 4}, {3, 3},
                                            {2, 5}, {2, 3}, {4, 5}, {4, 3}};
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    assert_int_equal(put(&f, 7, 9 * 1024).status, SKY_OK);
    for (int turn = 0; turn < 2; turn++) {
        uint32_t found = 0;
        for (uint32_t c = 1; c <= 9; c++) {
            sky_chunk_id id;
            sky_chunk_facts facts;
            uint32_t bytes;
            sky_session_chunk(sky_world_session(f.world), 0, c, &id, &facts, &bytes);
            sky_satellite at = figure[c - 1];
            if (turn == 1 && at.slot == 5) /* figure 6 (b): 3, 6 and 8 have moved to slot 2 */
                at.slot = 2;
            const sky_node *node = sky_world_node(f.world, at);
            sky_node_chunk chunk;
            found += node && sky_node_find(node, &id, &chunk);
        }
        assert_int_equal(found, 9);
        assert_int_equal(stats(&f).chunks, 9);
        assert_int_equal(stats(&f).nodes.migrated, turn == 0 ? 0 : 3);
        sky_world_run(f.world, scenario.time.rotation_ns + SKY_SECONDS(1));
    }
    sky_fixture_world_close(&f);
}

/* 0 to 200 turns, which is ten times around the plane and more. */
static void gets_find_chunks_after_any_number_of_turns(void **state) {
    (void)state;
    for (size_t s = 0; s < 3; s++) {
        sky_scenario scenario = sky_fixture_scenario(strategies[s]);
        scenario.satellite.processing_ns = 1000;
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, 1);
        for (uint64_t turn = 0; turn <= 200; turn++) {
            sky_time in_turn = (sky_time)turn * scenario.time.rotation_ns + SKY_SECONDS(20);
            sky_world_run(f.world, in_turn);
            if (turn % 10 == 0) /* so that there are blocks of many set times */
                assert_int_equal(put(&f, (uint32_t)turn, 20000).status, SKY_OK);
            assert_hit(&f, 0, 20000);
            assert_hit(&f, (uint32_t)(turn / 10 * 10), 20000);
        }
        for (uint32_t turn = 0; turn <= 200; turn += 10)
            assert_hit(&f, turn, 20000);
        sky_session_stat session;
        sky_session_stats(sky_world_session(f.world), &session);
        assert_int_equal(session.misses + session.retries + session.second_places, 0);
        assert_int_equal(stats(&f).nodes.migrated > 0, strategies[s] != SKY_PLACE_HOP);
        sky_fixture_world_close(&f);
    }
}

/* Replay one world to every event around a turn, and there start a get: it must hit. At each of
 * these events every chunk has a copy. */
static void every_instant_of_a_migration_is_readable(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    scenario.satellite.processing_ns = 100000;
    sky_time turn = scenario.time.rotation_ns;
    uint32_t second_places = 0;
    uint32_t instants = 0;
    for (bool more = true; more; instants++) {
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, 1);
        assert_int_equal(put(&f, 1, 9 * 1024).status, SKY_OK);
        /* A get once started runs over the turn; the later ones start during the migration. */
        sky_world_run(f.world, turn - SKY_MS(8) + (instants < 64 ? instants * SKY_MS(1) / 4 : 0));
        for (uint32_t i = 64; i < instants; i++)
            more = sky_world_step(f.world) && sky_world_now(f.world) < turn + SKY_MS(60);
        assert_all_copies(&f);
        assert_hit(&f, 1, 9 * 1024);
        sky_session_stat session;
        sky_session_stats(sky_world_session(f.world), &session);
        second_places += session.second_places > 0;
        assert_int_equal(session.retries, 0);
        sky_fixture_world_close(&f);
    }
    assert_true(instants > 75);
    assert_true(second_places > 0); /* some were caught between the places */
}

/* The same at every event, over links that lose, repeat, reorder and damage messages, between
 * satellites whose clocks differ by more than light takes. */
static void no_event_ever_leaves_a_chunk_without_a_copy(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION);
        scenario.links.loss = 0.05;
        scenario.links.jitter_ns = SKY_MS(3);
        scenario.faults.duplicate = 0.1;
        scenario.faults.reorder = 0.1;
        scenario.faults.corrupt = 0.02;
        scenario.faults.skew_ns = seed % 2 ? SKY_MS(40) : 0;
        scenario.time.rotation_ns = SKY_SECONDS(2);
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, seed);
        assert_int_equal(put(&f, 1, 20000).status, SKY_OK);
        for (uint32_t i = 0; sky_world_now(f.world) < SKY_SECONDS(30); i++) {
            assert_true(sky_world_step(f.world));
            assert_all_copies(&f);
            if (i % 40 == 0)
                assert_hit(&f, 1, 20000);
        }
        assert_true(stats(&f).nodes.migrate_retries > 0);
        assert_true(stats(&f).corrupted > 0 && stats(&f).duplicated > 0);
        sky_fixture_world_close(&f);
    }
}

/* Where a quarter of all chunks or their answers are lost, four in a row that are lost on the way
 * to one satellite are no silence: all is put, and all is there. */
static void heavy_losses_are_no_silence(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_HOP);
    scenario.links.loss = 0.12;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    for (uint32_t block = 1; block <= 200; block++)
        assert_int_equal(put(&f, block, 9000).status, SKY_OK);
    for (uint32_t block = 1; block <= 200; block++)
        assert_hit(&f, block, 9000);
    sky_fixture_world_close(&f);
}

/* At most 5 % over what nobody could beat: the farthest chunk's way there and back, all bytes
 * through the downlink, the chunks of the busiest server one after another. The latter two
 * overlap. */
static void a_get_takes_what_light_and_links_take(void **state) {
    (void)state;
    static const struct {
        uint64_t bits_s;
        sky_time processing_ns;
    } cases[] = {{200000000, 1000}, {10000000000, 1000}, {10000000000, SKY_MS(2)}};
    for (size_t i = 0; i < 9; i++) {
        sky_scenario scenario = sky_fixture_scenario(strategies[i % 3]);
        scenario.chunk_bytes = 6144;
        scenario.satellite.memory_bytes = 64 << 20;
        scenario.links.ground_bits_s = scenario.links.isl_bits_s = cases[i / 3].bits_s;
        scenario.satellite.processing_ns = cases[i / 3].processing_ns;
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, 1);
        uint32_t bytes = 2359296;
        assert_int_equal(put(&f, 1, bytes).status, SKY_OK);
        sky_result r = sky_fixture_do(&f, SKY_OP_GET, 1, 0);
        assert_int_equal(r.status, SKY_OK);
        uint64_t chunks = (bytes + 6143) / 6144;
        sky_time light = 2 * sky_frame_ground_ns_max(sky_world_frame(f.world));
        sky_time link = sky_link_busy_ns(cases[i / 3].bits_s, bytes + chunks * 100);
        sky_time served = (sky_time)((chunks + 8) / 9) * cases[i / 3].processing_ns;
        sky_time ideal = light + (link > served ? link : served);
        sky_time took = r.time.ended - r.time.began;
        if (took > ideal + ideal / 20)
            fail_msg("strategy %zu, case %zu: %.3f ms instead of %.3f", i % 3, i / 3,
                     (double)took / 1e6, (double)ideal / 1e6);
        assert_int_equal(
            r.time.light_ns + r.time.link_ns + r.time.processing_ns + r.time.session_ns, took);
        assert_int_equal(r.time.session_ns, 0);
        sky_fixture_world_close(&f);
    }
}

/* 16 blocks at once arrive at link rate. */
static void many_gets_fill_the_link(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    scenario.chunk_bytes = 6144;
    scenario.satellite.memory_bytes = 64 << 20;
    scenario.satellite.processing_ns = 1000;
    scenario.links.ground_bits_s = 10000000000;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    uint32_t bytes = 2359296;
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(put(&f, i, bytes).status, SKY_OK);
    sky_time begins = sky_world_now(f.world);
    for (uint32_t i = 0; i < 16; i++)
        sky_world_fixture_submit(&f, SKY_OP_GET, i, 0);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(sky_fixture_finish(&f).status, SKY_OK);
    sky_time took = sky_world_now(f.world) - begins;
    sky_time ideal = 2 * sky_frame_ground_ns_max(sky_world_frame(f.world)) +
                     sky_link_busy_ns(10000000000, 16 * (bytes + bytes / 60));
    assert_true(took <= ideal + ideal / 20);
    assert_int_equal(stats(&f).overflowed, 0);
    assert_int_equal(f.wrong_bytes, 0);
    sky_fixture_world_close(&f);
}

/* More than the satellites hold: the least recently used blocks make room, whole, and are misses.
 * */
static void memory_pressure_makes_old_blocks_misses(void **state) {
    (void)state;
    for (size_t s = 0; s < 3; s++) {
        sky_scenario scenario = sky_fixture_scenario(strategies[s]);
        scenario.satellite.memory_bytes = 64 << 10;
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, 1);
        uint32_t bytes = (uint32_t)(sky_world_bytes_max(f.world) / 10);
        for (uint32_t i = 0; i < 40; i++) {
            assert_int_equal(put(&f, i, bytes).status, SKY_OK);
            sky_world_run(f.world, sky_world_now(f.world) + scenario.time.rotation_ns / 3);
            assert_hit(&f, 0, bytes); /* used all the time, so it stays */
        }
        uint32_t held = 0;
        for (uint32_t i = 1; i < 40; i++) {
            sky_result r = sky_fixture_do(&f, SKY_OP_GET, i, 0);
            assert_true(r.status == SKY_OK || r.status == SKY_MISS);
            assert_true(r.status == SKY_OK || held == 0);
            held += r.status == SKY_OK;
        }
        assert_true(held >= 5 && held <= 9);
        assert_int_equal(stats(&f).nodes.evictions, 0); /* room was made in time */
        assert_int_equal(f.wrong_bytes, 0);
        sky_world_check c;
        sky_world_run(f.world, sky_world_now(f.world) + SKY_SECONDS(5));
        sky_world_verify(f.world, 0, 0, &c);
        assert_int_equal(c.orphans, 0); /* what left the index left the sky */
        assert_int_equal(put(&f, 99, bytes * 11).status, SKY_E_FULL);
        assert_hit(&f, 0, bytes);
        sky_fixture_world_close(&f);
    }
}

/* A chunk that is gone makes its block a miss, and the rest of it leaves the sky. */
static void a_lost_chunk_purges_its_block(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    assert_int_equal(put(&f, 1, 20000).status, SKY_OK);
    assert_int_equal(put(&f, 2, 1000).status, SKY_OK); /* on (3,4) alone */
    sky_world_crash(f.world, (sky_satellite){2, 5});
    assert_hit(&f, 2, 1000);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, 0).status, SKY_MISS);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_HAS, 1, 0).status, SKY_MISS);
    assert_int_equal(f.forgotten, 1);
    sky_world_run(f.world, SKY_SECONDS(5));
    assert_int_equal(stats(&f).chunks, 1);
    assert_hit(&f, 2, 1000);
    sky_fixture_world_close(&f);
}

/* Nobody answers: an error in bounded time, and the block is kept for when the satellite is back.
 * */
static void silence_is_an_error_not_a_loss(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    assert_int_equal(put(&f, 1, 20000).status, SKY_OK);
    sky_world_partition(f.world, (sky_satellite){4, 5}, SKY_SECONDS(100));
    assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, 0).status, SKY_E_UNAVAILABLE);
    assert_int_equal(put(&f, 2, 20000).status, SKY_E_IO);
    assert_true(sky_world_now(f.world) < SKY_SECONDS(60));
    sky_world_run(f.world, SKY_SECONDS(101));
    assert_hit(&f, 1, 20000);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 2, 0).status, SKY_MISS);
    sky_fixture_world_close(&f);
}

static void liars_are_found_out(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION);
    scenario.faults.liar_satellites = 95;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    assert_int_equal(put(&f, 1, 20000).status, SKY_OK);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, 0).status, SKY_E_CORRUPT);
    assert_int_equal(f.delivered_bytes, 0);
    assert_int_equal(sky_fixture_do(&f, SKY_OP_HAS, 1, 0).status, SKY_MISS);
    sky_fixture_world_close(&f);
}

/* Replaced under its readers: they get the old or the new, whole. */
static void a_get_of_a_replaced_block_starts_over(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    for (sky_time head_start = 0; head_start < SKY_MS(40); head_start += SKY_MS(1) / 2) {
        sky_fixture_world f;
        sky_fixture_world_open(&f, &scenario, 1);
        assert_int_equal(put(&f, 1, 50000).status, SKY_OK);
        sky_world_fixture_submit(&f, SKY_OP_PUT, 1, 30000);
        sky_world_run(f.world, sky_world_now(f.world) + head_start);
        sky_world_fixture_submit(&f, SKY_OP_GET, 1, 0);
        for (int i = 0; i < 2; i++) {
            sky_result r = sky_fixture_finish(&f);
            assert_int_equal(r.status, SKY_OK);
            assert_true(r.op == SKY_OP_PUT || r.bytes == 30000 || r.bytes == 50000);
        }
        assert_int_equal(f.wrong_bytes, 0);
        sky_world_run(f.world, SKY_SECONDS(1));
        assert_int_equal(stats(&f).chunks, 30); /* the old ones are gone */
        assert_hit(&f, 1, 30000);
        sky_fixture_world_close(&f);
    }
}

static void a_host_that_gives_up_is_left_alone(void **state) {
    (void)state;
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    sky_fixture_world f;
    sky_fixture_world_open(&f, &scenario, 1);
    assert_int_equal(put(&f, 1, 20000).status, SKY_OK);
    sky_world_fixture_submit(&f, SKY_OP_GET, 1, 0);
    f.give_up = true;
    assert_int_equal(sky_fixture_finish(&f).status, SKY_E_CANCELLED);
    assert_int_equal(put(&f, 2, 20000).status, SKY_E_CANCELLED);
    f.give_up = false;
    f.delivered_bytes = 0;
    sky_world_run(f.world, SKY_SECONDS(1));
    assert_int_equal(f.delivered_bytes, 0);
    assert_int_equal(stats(&f).chunks, 20);
    assert_hit(&f, 1, 20000);
    sky_fixture_world_close(&f);
}

static void hash_event(void *context, const sky_world_event *e) {
    uint64_t *hash = context;
    uint64_t words[] = {(uint64_t)e->at, (uint64_t)e->kind, e->from.plane, e->from.slot,
                        e->to.plane,     e->to.slot,        e->bytes,      e->digest};
    *hash = sky_checksum(words, sizeof words, *hash);
}

static uint64_t run_hashed(uint64_t seed, uint64_t *events) {
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    scenario.links.loss = 0.05;
    scenario.links.jitter_ns = SKY_MS(1);
    scenario.faults.duplicate = 0.02;
    scenario.faults.reorder = 0.02;
    scenario.faults.crash_per_h = 3600;
    scenario.faults.partition_per_h = 3600;
    scenario.time.rotation_ns = SKY_SECONDS(1);
    sky_fixture_world f;
    uint64_t hash = 0;
    sky_fixture_world_open(&f, &scenario, seed);
    sky_world_trace_set(f.world, hash_event, &hash);
    for (uint32_t i = 0; i < 60; i++) {
        sky_world_fixture_submit(&f, i % 3 ? SKY_OP_GET : SKY_OP_PUT, i / 3 % 7,
                                 5000 + i / 3 % 7 * 1000);
        sky_world_run(f.world, (sky_time)i * SKY_MS(100));
    }
    sky_world_run(f.world, SKY_SECONDS(20));
    assert_int_equal(f.wrong_bytes, 0);
    *events = stats(&f).events;
    assert_true(stats(&f).crashes > 0 && stats(&f).partitions > 0);
    sky_fixture_world_close(&f);
    return hash;
}

static void a_seed_replays_bit_for_bit(void **state) {
    (void)state;
    uint64_t events[3];
    uint64_t hash = run_hashed(42, &events[0]);
    assert_int_equal(run_hashed(42, &events[1]), hash);
    assert_int_equal(events[1], events[0]);
    assert_int_not_equal(run_hashed(43, &events[2]), hash);
}

static void worlds_that_cannot_be_are_refused(void **state) {
    (void)state;
    sky_world_host host = {0};
    sky_world *w = NULL;
    sky_error error;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION);
    s.chunk_bytes = 40000;
    assert_int_equal(sky_world_create(&s, 1, &host, &w, &error), SKY_E_PARAM);
    s = sky_fixture_scenario(SKY_PLACE_ROTATION);
    s.satellite.memory_bytes = 1000;
    assert_int_equal(sky_world_create(&s, 1, &host, &w, &error), SKY_E_PARAM);
    s = sky_fixture_scenario(SKY_PLACE_ROTATION);
    s.time.scale = 1e6;
    assert_int_equal(sky_world_create(&s, 1, &host, &w, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "scale"));
    s = sky_fixture_scenario(SKY_PLACE_ROTATION);
    s.placement.servers = 500;
    assert_int_equal(sky_world_create(&s, 1, &host, &w, &error), SKY_E_PARAM);
    assert_null(w);
}

/* What is lost, by the link it was on. */
typedef struct {
    uint64_t up_or_down, between;
} lost_on;

static void count_lost(void *context, const sky_world_event *e) {
    lost_on *lost = context;
    bool laser = e->from.plane > 0 && e->to.plane > 0;
    if (e->kind == SKY_EVENT_LOST)
        (*(laser ? &lost->between : &lost->up_or_down))++;
}

static void lasers_and_ground_links_lose_apart(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
        sky_fixture_world f;
        lost_on lost = {0};
        scenario.links.ground_loss = which == 0 ? 0.1 : 0;
        scenario.links.isl_loss = which == 1 ? 0.1 : 0;
        scenario.links.loss = which == 2 ? 0.1 : 0;
        sky_fixture_world_open(&f, &scenario, 1);
        sky_world_trace_set(f.world, count_lost, &lost);
        for (uint32_t i = 0; i < 8; i++)
            put(&f, i, 50000);
        sky_world_run(f.world, 6 * scenario.time.rotation_ns);
        assert_int_equal(lost.up_or_down > 0, which != 1);
        assert_int_equal(lost.between > 0, which != 0);
        sky_fixture_world_close(&f);
    }
}

/* How often the centre moved in the turns since `set`. */
static uint32_t steps_since(const sky_turning *t, uint64_t set, uint64_t turn) {
    uint32_t steps = 0;
    while (sky_turn_before(t, turn, &turn) && turn >= set)
        steps++;
    return steps;
}

/* Lasers lose all, so chunks stay where they were set. In a true sky the centre moves once in many
 * turns: they are found after as many of its steps as in an ideal one, however long those take. */
static void what_lags_is_found_after_many_turns_of_a_true_sky(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    s.physical = true;
    s.constellation.planes = s.constellation.slots = 12;
    s.constellation.altitude_km = 1200;
    s.observer.min_elevation_deg = 5;
    s.observer.hysteresis_deg = 10;
    s.time.rotation_ns = SKY_SECONDS(15);
    s.until_ns = SKY_SECONDS(3600);
    s.links.isl_loss = 1;
    sky_fixture_world f;
    sky_fixture_world_open(&f, &s, 1);
    const sky_frame *frame = sky_world_frame(f.world);
    assert_int_equal(put(&f, 1, 20000).status, SKY_OK);
    uint64_t turn = 0;
    uint32_t steps = 0;
    for (; turn < 240 && steps <= 5; turn++) {
        sky_world_run(f.world, (sky_time)turn * s.time.rotation_ns + SKY_SECONDS(1));
        steps = steps_since(&frame->turning, 0, turn);
        if (sky_frame_in_sight(frame, turn))
            assert_int_equal(sky_fixture_do(&f, SKY_OP_GET, 1, 0).status, SKY_OK);
    }
    assert_true(turn > 60); /* and many turns */
    sky_fixture_world_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_come_back),
        cmocka_unit_test(chunks_lie_where_the_seed_puts_them),
        cmocka_unit_test(gets_find_chunks_after_any_number_of_turns),
        cmocka_unit_test(every_instant_of_a_migration_is_readable),
        cmocka_unit_test(no_event_ever_leaves_a_chunk_without_a_copy),
        cmocka_unit_test(a_get_takes_what_light_and_links_take),
        cmocka_unit_test(many_gets_fill_the_link),
        cmocka_unit_test(memory_pressure_makes_old_blocks_misses),
        cmocka_unit_test(a_lost_chunk_purges_its_block),
        cmocka_unit_test(silence_is_an_error_not_a_loss),
        cmocka_unit_test(heavy_losses_are_no_silence),
        cmocka_unit_test(liars_are_found_out),
        cmocka_unit_test(a_get_of_a_replaced_block_starts_over),
        cmocka_unit_test(a_host_that_gives_up_is_left_alone),
        cmocka_unit_test(a_seed_replays_bit_for_bit),
        cmocka_unit_test(worlds_that_cannot_be_are_refused),
        cmocka_unit_test(lasers_and_ground_links_lose_apart),
        cmocka_unit_test(what_lags_is_found_after_many_turns_of_a_true_sky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
