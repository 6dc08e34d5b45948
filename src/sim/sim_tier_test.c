/* Proves that a constellation keeps every promise of a tier, and what is its own: real time is the
 * modelled time, the time of a get is explained to the nanosecond, the sky turns while it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "sim/sim_tier_fixture.h"
#include "tier/sky/sky.h"
#include "tier/tier_fixture.h"

static sky_tier *open_sky(void *context, const sky_tier_env *env) {
    return sky_fixture_open_sky(context, env);
}

static void close_sky(void *context, sky_tier *tier) {
    (void)context;
    tier->ops->close(tier);
}

static const sky_tier_env no_env = {.index = 2};

/* A block alone and blocks of a chain tell the level they were stored at. */
static void levels_are_told(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_fast_scenario();
    sky_tier *t = sky_fixture_open_sky(&s, &no_env);
    sky_item items[3] = {0};
    uint8_t bytes[100] = {1};
    sky_span span = {bytes, sizeof bytes};
    for (uint64_t i = 0; i < 3; i++) {
        items[i] = (sky_item){.key = sky_fixture_key(i), .spans = &span, .span_count = 1};
        if (i > 0)
            items[i].parent = items[i - 1].key;
    }
    sky_fixture_run(t, SKY_OP_PUT, items, 3, &(sky_call){.coding = 4});
    for (size_t count = 1; count <= 3; count += 2) {
        sky_fixture_run(t, SKY_OP_HAS, items, count, NULL);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(items[i].status, SKY_OK);
            assert_int_equal(items[i].coding, 4);
        }
    }
    close_sky(NULL, t);
}

/* The modelled time of a get is the time it takes, and the report accounts for all of it. */
static void time_is_real_and_explained(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_fast_scenario();
    s.satellite.processing_ns = SKY_MS(1);
    sky_tier *t = sky_fixture_open_sky(&s, &no_env);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 67000, 1), SKY_OK);
    sky_time begins = sky_now();
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(1), 67000, 1), SKY_OK);
    sky_time took = sky_now() - begins;
    sky_sky_report r;
    assert_int_equal(sky_sky_tier_report(t, &r), SKY_OK);
    assert_int_equal(r.light_ns + r.link_ns + r.processing_ns + r.session_ns, r.total_ns);
    assert_int_equal(r.chunks, 66);
    assert_true(r.processing_ns >= SKY_MS(7)); /* 66 chunks on 9 servers, 1 ms each */
    assert_true(r.light_ns > 0);
    assert_true(took >= r.total_ns - SKY_MS(1) && r.total_ns >= SKY_MS(7));
    assert_int_equal(r.servers, 9);
    close_sky(NULL, t);
}

/* Gets that are under way together are explained together, whether or not they are one batch; one
 * that begins later is explained alone. */
static void gets_under_way_together_are_one_account(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_fast_scenario();
    sky_tier *t = sky_fixture_open_sky(&s, &no_env);
    enum { GETS = 3 };
    static uint8_t bytes[GETS][67000];
    sky_item items[GETS];
    sky_span spans[GETS];
    sky_batch batches[GETS];
    sky_sky_report r;
    for (uint64_t n = 0; n < GETS; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 67000, n), SKY_OK);
    r.chunks = 0; /* on a busy machine the first may be over before the last begins: again then */
    for (int tries = 0; r.chunks != GETS * 66 && tries < 100; tries++) {
        for (uint64_t n = 0; n < GETS; n++) {
            spans[n] = (sky_span){bytes[n], sizeof bytes[n]};
            items[n] = (sky_item){.key = sky_fixture_key(n), .spans = &spans[n], .span_count = 1};
            batches[n] = sky_fixture_submit(t, SKY_OP_GET, &items[n], 1, NULL);
        }
        for (uint64_t n = 0; n < GETS; n++)
            assert_int_equal(sky_tier_wait(t, batches[n], SKY_TIME_NEVER), SKY_OK);
        assert_int_equal(sky_sky_tier_report(t, &r), SKY_OK);
    }
    assert_int_equal(r.chunks, GETS * 66);
    assert_int_equal(r.light_ns + r.link_ns + r.processing_ns + r.session_ns, r.total_ns);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(1), 67000, 1), SKY_OK);
    assert_int_equal(sky_sky_tier_report(t, &r), SKY_OK);
    assert_int_equal(r.chunks, 66);
    close_sky(NULL, t);
}

/* Every satellite says how it is: together they hold and gave what was put and got. */
static void satellites_say_how_they_are(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_fast_scenario();
    sky_tier *t = sky_fixture_open_sky(&s, &no_env);
    const sky_constellation *c = &s.constellation;
    size_t there = (size_t)c->planes * c->slots, count = 0;
    sky_satellite_stat *said = calloc(there, sizeof *said), sum = {0};
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 67000, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(1), 67000, 1), SKY_OK);
    assert_int_equal(sky_sky_tier_satellites(t, 0, said, there, &count), SKY_OK);
    assert_int_equal(count, there);
    for (size_t i = 0; i < there; i++) {
        assert_true(said[i].answered && said[i].ms > 0 && said[i].chunks_max > 0);
        assert_int_equal(said[i].satellite.plane, i / c->slots + 1);
        assert_int_equal(said[i].satellite.slot, i % c->slots + 1);
        sum.chunks += said[i].chunks;
        sum.sets += said[i].sets;
        sum.gets += said[i].gets;
    }
    assert_int_equal(sum.chunks, 66);
    assert_int_equal(sum.sets, 66);
    assert_int_equal(sum.gets, 66);
    assert_int_equal(sky_sky_tier_satellites(t, sky_now() - 1, said, 3, &count), SKY_OK);
    assert_int_equal(count, there);
    assert_false(said[0].answered);
    free(said);
    close_sky(NULL, t);
}

/* Held while the sky turns: chunks migrate on their own, and what comes back is right. They are so
 * few that a slow program simulates a turn in less time than it lasts. */
static void the_sky_turns_while_it_holds(void **state) {
    (void)state;
    sky_scenario s = sky_fixture_fast_scenario();
    s.time.rotation_ns = SKY_MS(20);
    sky_tier *t = sky_fixture_open_sky(&s, &no_env);
    for (uint64_t n = 0; n < 10; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 10000, n), SKY_OK);
    sky_sky_report r = {0};
    for (sky_time until = sky_now() + SKY_SECONDS(20); r.rotations < 15 && sky_now() < until;) {
        for (uint64_t n = 0; n < 10; n++)
            assert_int_equal(sky_fixture_check(t, sky_fixture_key(n), 10000, n), SKY_OK);
        assert_int_equal(sky_sky_tier_report(t, &r), SKY_OK);
    }
    assert_true(r.rotations >= 15);
    assert_true(r.migrated_chunks >= 100);
    assert_int_equal(r.purged_blocks, 0);
    sky_tier_counts counts = sky_fixture_counts(t);
    assert_int_equal(counts.corrupt + counts.errors, 0);
    assert_non_null(strstr(sky_fixture_stat(t).note, "rotation-hop over 9 servers"));
    close_sky(NULL, t);
}

/* A chain of keys is one search, another order of them is asked one by one; a block moved for a
 * time to come is still there. */
static void chains_and_moves_reach_the_sky(void **state) {
    (void)state;
    for (int kind = SKY_LOOKUP_INDEX; kind <= SKY_LOOKUP_SEQUENTIAL; kind++) {
        sky_scenario s = sky_fixture_fast_scenario();
        s.lookup = (sky_lookup_kind)kind;
        sky_tier *t = sky_fixture_open_sky(&s, &no_env);
        sky_item items[6] = {{.key = sky_fixture_key(1)}};
        for (uint32_t i = 1; i <= 4; i++)
            assert_int_equal(sky_fixture_put(t, sky_fixture_key(i), NULL, 100 * i, i), SKY_OK);
        for (uint32_t i = 1; i < 6; i++)
            items[i] = (sky_item){.key = sky_fixture_key(i + 1), .parent = sky_fixture_key(i)};
        for (int chained = 1; chained >= 0; chained--) {
            if (!chained)
                items[3].parent = sky_fixture_key(9);
            sky_fixture_run(t, SKY_OP_HAS, items, 6, NULL);
            for (uint32_t i = 0; i < 6; i++) {
                assert_int_equal(items[i].status, i < 4 ? SKY_OK : SKY_MISS);
                assert_int_equal(items[i].bytes, i < 4 ? 100 * (i + 1) : 0);
            }
        }
        const sky_clock *clock = sky_clock_system();
        sky_call later = {.at_ms = clock->wall_ms(clock) + 1200};
        sky_fixture_run(t, SKY_OP_PREFETCH, items, 1, &later);
        assert_int_equal(items[0].status, SKY_OK);
        assert_int_equal(sky_fixture_one(t, SKY_OP_HAS, sky_fixture_key(1)), SKY_OK);
        t->ops->close(t);
    }
}

static sky_status open_url(const char *url, sky_tier **out, sky_error *error) {
    return sky_sim_tier_open(url, &no_env, out, error);
}

static void urls_are_read(void **state) {
    (void)state;
    char path[] = "/tmp/skymem-scenario-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "constellation: {planes: 5, slots: 19}\ncenter: [3, 4]\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    char url[256];
    sky_tier *tier = NULL;
    sky_error error;
    snprintf(url, sizeof url, "sky:%s?scale=100&seed=7", path);
    assert_int_equal(open_url(url, &tier, &error), SKY_OK);
    assert_string_equal(sky_fixture_stat(tier).url, url);
    assert_true(sky_fixture_counts(tier).bytes_max > 0);
    tier->ops->close(tier);
    snprintf(url, sizeof url, "sky:%s?scale=0", path);
    assert_int_equal(open_url(url, &tier, &error), SKY_E_SYNTAX);
    snprintf(url, sizeof url, "sky:%s?speed=1", path);
    assert_int_equal(open_url(url, &tier, &error), SKY_E_SYNTAX);
    unlink(path);
    snprintf(url, sizeof url, "sky:%s", path);
    assert_int_equal(open_url(url, &tier, &error), SKY_E_IO);
    assert_non_null(strstr(error.text, path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_told),
        cmocka_unit_test(time_is_real_and_explained),
        cmocka_unit_test(gets_under_way_together_are_one_account),
        cmocka_unit_test(satellites_say_how_they_are),
        cmocka_unit_test(the_sky_turns_while_it_holds),
        cmocka_unit_test(chains_and_moves_reach_the_sky),
        cmocka_unit_test(urls_are_read),
    };
    sky_scenario scenario = sky_fixture_fast_scenario();
    const sky_tier_fixture sky_fixture = {.name = "sky",
                                          .context = &scenario,
                                          .open = open_sky,
                                          .close = close_sky,
                                          .capacity_bytes = 11500000,
                                          .pins = true,
                                          .ttl = true,
                                          .adopts = true};
    return sky_tier_conformance(&sky_fixture) + cmocka_run_group_tests(tests, NULL, NULL);
}
