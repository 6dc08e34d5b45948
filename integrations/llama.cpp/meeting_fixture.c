/* See meeting_fixture.h. */
#include "meeting_fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/tier.h>

#include "../../examples/tier_heap.c"

#define HEAD_BYTES 4096 /* a lookup reads no more of a value */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool shut;
    bool interrupted;
    uint32_t stops_at; /* a token: the engine computes those before it */
    const sky_engine_ops *inner;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set_gate(bool *flag, bool to) {
    pthread_mutex_lock(&gate.mutex);
    *flag = to;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void wait_until(const bool *flag, bool is) {
    pthread_mutex_lock(&gate.mutex);
    while (*flag != is)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

/* ---- the store ---- */

static sky_status store_read(void *self, const sky_key *key, uint64_t offset, void *data,
                             uint64_t bytes, uint64_t *value_bytes) {
    if (bytes > HEAD_BYTES)
        wait_until(&gate.shut, false);
    return tier_heap.read(self, key, offset, data, bytes, value_bytes);
}

static sky_cache *open_store(void) {
    sky_tier_driver driver = tier_heap;
    driver.traits |= SKY_TIER_REMOTE;
    driver.read = store_read;
    driver.lease = NULL;
    driver.release = NULL;
    const char *url = "gate:1000000000";
    sky_cache *cache = NULL;
    sky_error error = {0};
    sky_tier_register("gate", &driver); /* unless an earlier test did */
    if (sky_cache_open(&url, 1, &cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return cache;
}

/* ---- the engine ---- */

/* At the stop it goes on when it is interrupted, so that the adapter's own advance says what that
 * means to it. */
static sky_status gated_advance(void *self, const uint32_t *tokens, uint32_t first,
                                uint32_t count) {
    if (first + count > gate.stops_at) {
        set_gate(&gate.shut, false);
        wait_until(&gate.interrupted, true);
    }
    return gate.inner->advance(self, tokens, first, count);
}

static void gated_interrupt(void *self) {
    gate.inner->interrupt(self);
    set_gate(&gate.interrupted, true);
}

/* ---- meetings ---- */

static void expect_meeting(bench *b, const uint32_t *tokens, uint32_t token_count,
                           uint32_t block_tokens, uint32_t stops_at, const answer *cold) {
    uint32_t prefix = (token_count - 1) / block_tokens * block_tokens;
    bool all = stops_at >= prefix;
    bench_block_tokens(b, block_tokens); /* who knows of no link and no engine yet */
    gate.stops_at = all ? UINT32_MAX : stops_at;
    set_gate(&gate.interrupted, false);
    set_gate(&gate.shut, true);
    sky_lookup found = bench_look(b, tokens, token_count);
    set_gate(&gate.shut, false);
    assert_int_equal(found.hit_tokens, prefix);
    assert_in_range(found.computed_tokens, all ? prefix : block_tokens, all ? prefix : stops_at);
    assert_int_equal(found.bytes_loaded > 0, !all);
    answer met = bench_answer(b, tokens, prefix, token_count, cold->count);
    expect_same(&met, cold);
}

void bench_expect_meetings(bench *b, const uint32_t *tokens, uint32_t token_count,
                           uint32_t block_tokens, uint32_t step, const answer *cold) {
    gate.inner = b->engine->ops;
    sky_engine_ops ops = *gate.inner;
    ops.advance = gated_advance;
    ops.interrupt = gated_interrupt;
    const sky_engine engine = {&ops, b->engine->self};
    bench met = {.llama = b->llama, .engine = &engine, .cache = open_store()};
    uint32_t blocks = (token_count - 1) / block_tokens;
    bench_block_tokens(&met, block_tokens);
    bench_answer(&met, tokens, 0, token_count, 1);
    assert_int_equal(bench_save(&met, tokens, token_count), token_count / block_tokens);
    for (uint32_t at = step; at < blocks + step; at += step)
        expect_meeting(&met, tokens, token_count, block_tokens, at * block_tokens, cold);
    sky_sequence_close(met.sequence);
    sky_manager_destroy(met.manager);
    sky_cache_close(met.cache);
}
