/* Proves: many sequences share one manager and one cache; what several want at once is read from a
 * far tier once; a cancel or a deadline of one never harms another, nor the bytes of any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/skymem.h>

#include "base/prng.h"
#include "cache/cache_internal.h"
#include "cache/hierarchy_fixture.h"
#include "cache/opener.h"
#include "io/clock.h"
#include "manager/blocks.h"
#include "manager/engine_fixture.h"
#include "sim/sim_tier.h"

#define BLOCK_TOKENS  8u
#define SHARED_BLOCKS 20u
#define DISK_BLOCKS   10u /* of these; the others, and all tails, lie in the sky alone */
#define TAIL_BLOCKS   4u
#define PROMPT_TOKENS ((SHARED_BLOCKS + TAIL_BLOCKS) * BLOCK_TOKENS + 5)
#define CROWD         64u

#define NEAR                                                                                       \
    (sky_call) {                                                                                   \
        .tiers = 1                                                                                 \
    }
#define DISK                                                                                       \
    (sky_call) {                                                                                   \
        .tiers = 2                                                                                 \
    }

/* A request's engine, prompt and answer. */
typedef struct {
    made_up_engine engine;
    sky_engine adapter;
    sky_sequence *sequence;
    uint32_t prompt[PROMPT_TOKENS];
    uint64_t answer;
    sky_status status;
    sky_lookup found;
    bool wrong;
} request;

typedef struct {
    char folder[32];
    sky_cache *cache;
    sky_manager *manager;
    sky_key keys[SHARED_BLOCKS];
    request requests[CROWD];
} crowd;

/* Light and satellites take a tenth of their time, which is enough for requests to meet. */
static const char scenario[] = "constellation: {planes: 5, slots: 19, altitude_km: 550}\n"
                               "center: [3, 4]\n"
                               "placement: {strategy: rotation-hop, servers: 9}\n"
                               "links: {queue: 16MiB}\n";

static void request_init(request *r, uint32_t number, const sky_layout *layout) {
    sky_prng random;
    sky_prng_init(&random, 1);
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++) {
        if (i == SHARED_BLOCKS * BLOCK_TOKENS)
            sky_prng_init(&random, 100 + number);
        r->prompt[i] = (uint32_t)sky_prng_below(&random, 50000);
    }
    made_up_engine_init(&r->engine, layout, PROMPT_TOKENS);
    r->adapter = made_up_engine_ops(&r->engine);
    r->answer = made_up_engine_answer(&r->engine, r->prompt, 0, PROMPT_TOKENS);
}

/* Drop a block, and those after it, from a tier. */
static void drop_from(const crowd *c, uint32_t block, const sky_call *call) {
    sky_item item = {.key = c->keys[block]};
    assert_int_equal(sky_run(c->cache, SKY_OP_REMOVE, &item, 1, call), SKY_OK);
}

/* Every prompt is stored in the sky, some of them on disk, none in memory. */
static void crowd_open(crowd *c, sky_layout layout) {
    sky_namespace ns;
    char disk[64], sky[64], path[40];
    const char *const urls[] = {"mem:16MiB", disk, sky};
    snprintf(c->folder, sizeof c->folder, "/tmp/skymem-seq-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    snprintf(disk, sizeof disk, "disk:%s", c->folder);
    snprintf(path, sizeof path, "%s.yaml", c->folder);
    snprintf(sky, sizeof sky, "sky:%s?scale=0.1", path);
    FILE *file = fopen(path, "w");
    assert_true(file && fputs(scenario, file) >= 0 && fclose(file) == 0);
    sky_error error;
    assert_int_equal(sky__opener_set("sky", sky_sim_tier_open, SKY_VERSION_NUMBER), SKY_OK);
    if (sky_cache_open(urls, 3, &c->cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    unlink(path);
    for (uint32_t i = 0; i < CROWD; i++)
        request_init(&c->requests[i], i, &layout);
    const sky_manager_options options = {.block_tokens = BLOCK_TOKENS};
    assert_int_equal(
        sky_manager_create(c->cache, &c->requests[0].adapter, &options, &c->manager, NULL), SKY_OK);
    for (uint32_t i = 0; i < CROWD; i++) {
        request *r = &c->requests[i];
        assert_int_equal(sky_sequence_open(c->manager, &r->adapter, &r->sequence), SKY_OK);
        assert_int_equal(sky_sequence_save(r->sequence, r->prompt, PROMPT_TOKENS, NULL, NULL),
                         SKY_OK);
    }
    assert_int_equal(sky_setting_flush(c->cache), SKY_OK);
    sky_manager_namespace(c->manager, &ns);
    sky_block_keys(&ns, c->requests[0].prompt, SHARED_BLOCKS * BLOCK_TOKENS, BLOCK_TOKENS, c->keys,
                   SHARED_BLOCKS);
    drop_from(c, 0, &NEAR);
    drop_from(c, DISK_BLOCKS, &DISK);
}

static void crowd_close(crowd *c) {
    for (uint32_t i = 0; i < CROWD; i++) {
        sky_sequence_close(c->requests[i].sequence);
        made_up_engine_deinit(&c->requests[i].engine);
    }
    sky_manager_destroy(c->manager);
    sky_cache_close(c->cache);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", c->folder);
    assert_int_equal(system(command), 0);
}

/* Load, and, if it was not cancelled, compute the rest: the answer must be that of a cold run. */
static void request_run(request *r, sky_time deadline) {
    r->status = sky_sequence_load(r->sequence, r->prompt, PROMPT_TOKENS, deadline, &r->found);
    if (r->status == SKY_E_CANCELLED) {
        r->wrong |= r->engine.held_tokens != 0;
        return;
    }
    r->wrong |= r->status != SKY_OK || r->engine.held_tokens != r->found.hit_tokens ||
                r->found.corrupt_blocks > 0;
    if (!r->wrong)
        r->wrong = made_up_engine_answer(&r->engine, r->prompt, r->found.hit_tokens,
                                         PROMPT_TOKENS) != r->answer;
}

static void *run_body(void *argument) {
    request_run(argument, 0);
    return NULL;
}

static void start_all(crowd *c, sky_thread *threads, void *(*body)(void *)) {
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(sky_thread_start(&threads[i], "request", body, &c->requests[i]), SKY_OK);
}

static void join_all(sky_thread *threads) {
    for (uint32_t i = 0; i < CROWD; i++)
        sky_thread_join(&threads[i]);
}

static uint64_t count_hits(sky_cache *c, size_t tier) {
    sky_tier_counts counts = {0};
    assert_int_equal(sky__cache_tier_counts(c, tier, &counts), SKY_OK);
    return counts.hits;
}

static void what_many_want_is_read_once(void **state) {
    (void)state;
    static crowd c;
    sky_thread threads[CROWD];
    crowd_open(&c, made_up_layout(2, 0, 0));
    uint64_t disk = count_hits(c.cache, 1), sky = count_hits(c.cache, 2);
    start_all(&c, threads, run_body);
    join_all(threads);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_false(c.requests[i].wrong);
        assert_int_equal(c.requests[i].found.verdict, SKY_VERDICT_HIT);
    }
    assert_int_equal(count_hits(c.cache, 1) - disk, DISK_BLOCKS);
    assert_int_equal(count_hits(c.cache, 2) - sky,
                     SHARED_BLOCKS - DISK_BLOCKS + CROWD * TAIL_BLOCKS);
    crowd_close(&c);
}

/* The first to read is cancelled, at once and again and again: the others go on without it. */
static void a_cancelled_reader_is_replaced(void **state) {
    (void)state;
    static crowd c;
    sky_thread threads[CROWD];
    crowd_open(&c, made_up_layout(2, 0, 0));
    start_all(&c, threads, run_body);
    for (uint32_t i = 0; i < CROWD / 2; i++)
        sky_sequence_cancel(c.requests[i].sequence);
    join_all(threads);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_false(c.requests[i].wrong);
        if (i >= CROWD / 2)
            assert_int_equal(c.requests[i].found.verdict, SKY_VERDICT_HIT);
    }
    request *first = &c.requests[0];
    assert_int_equal(
        sky_sequence_load(first->sequence, first->prompt, PROMPT_TOKENS, 0, &first->found),
        SKY_E_CANCELLED);
    made_up_engine_answer(&first->engine, first->prompt, 0, PROMPT_TOKENS);
    assert_int_equal(sky_sequence_save(first->sequence, first->prompt, PROMPT_TOKENS, NULL, NULL),
                     SKY_E_CANCELLED);
    crowd_close(&c);
}

/* ---- cancels, deadlines, and memory that forgets ---- */

#define ROUNDS 12

static struct {
    crowd *crowd;
    sky_mutex mutexes[CROWD]; /* a sequence is not cancelled while it is closed */
    atomic_bool over;
    atomic_uint cancelled, late, whole;
} storm;

/* Close what was cancelled, and open another. */
static void renew(request *r, sky_mutex *mutex) {
    sky_mutex_lock(mutex);
    sky_sequence_close(r->sequence);
    r->wrong |= sky_sequence_open(storm.crowd->manager, &r->adapter, &r->sequence) != SKY_OK;
    sky_mutex_unlock(mutex);
}

static void *storm_body(void *argument) {
    request *r = argument;
    uint32_t number = (uint32_t)(r - storm.crowd->requests);
    sky_prng random;
    sky_prng_init(&random, number);
    for (int round = 0; round < ROUNDS && !r->wrong; round++) {
        sky_time deadline = sky_now() + (sky_time)sky_prng_below(&random, SKY_MS(20));
        request_run(r, sky_prng_below(&random, 2) ? deadline : 0);
        if (r->status == SKY_E_CANCELLED) {
            atomic_fetch_add(&storm.cancelled, 1);
            renew(r, &storm.mutexes[number]);
            continue;
        }
        atomic_fetch_add(r->found.verdict == SKY_VERDICT_HIT ? &storm.whole : &storm.late, 1);
        sky_status saved = sky_sequence_save(r->sequence, r->prompt, PROMPT_TOKENS, NULL, NULL);
        r->wrong |= saved != SKY_OK && saved != SKY_E_CANCELLED;
    }
    return NULL;
}

static void *weather_body(void *argument) {
    (void)argument;
    sky_prng random;
    sky_prng_init(&random, 1000);
    while (!atomic_load(&storm.over)) {
        uint32_t i = (uint32_t)sky_prng_below(&random, CROWD);
        sky_mutex_lock(&storm.mutexes[i]);
        sky_sequence_cancel(storm.crowd->requests[i].sequence);
        sky_mutex_unlock(&storm.mutexes[i]);
        sky_item item = {.key = storm.crowd->keys[sky_prng_below(&random, SHARED_BLOCKS)]};
        (void)sky_run(storm.crowd->cache, SKY_OP_REMOVE, &item, 1, &NEAR);
        sky_poll(NULL, 0, sky_now() + SKY_MS(2));
    }
    return NULL;
}

static void a_storm_leaves_every_answer_right(void **state) {
    (void)state;
    static crowd c;
    static const uint32_t windows[] = {0, 3}; /* layers */
    for (size_t n = 0; n < 2; n++) {
        sky_thread threads[CROWD], weather;
        crowd_open(&c, made_up_layout(2, windows[n], 20));
        storm.crowd = &c;
        atomic_store(&storm.over, false);
        for (uint32_t i = 0; i < CROWD; i++)
            sky_mutex_init(&storm.mutexes[i]);
        assert_int_equal(sky_thread_start(&weather, "weather", weather_body, NULL), SKY_OK);
        start_all(&c, threads, storm_body);
        join_all(threads);
        atomic_store(&storm.over, true);
        sky_thread_join(&weather);
        for (uint32_t i = 0; i < CROWD; i++) {
            assert_false(c.requests[i].wrong);
            sky_mutex_deinit(&storm.mutexes[i]);
        }
        crowd_close(&c);
    }
    assert_true(atomic_load(&storm.cancelled) > 0 && atomic_load(&storm.whole) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_many_want_is_read_once),
        cmocka_unit_test(a_cancelled_reader_is_replaced),
        cmocka_unit_test(a_storm_leaves_every_answer_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
