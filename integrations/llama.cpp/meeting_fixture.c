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
    uint32_t stops_at;     /* a token: the engine computes those before it … */
    bool fails;            /* … and then fails, instead of waiting for an interrupt */
    sky_sequence *cancels; /* … after it has cancelled this request */
    bool dead;             /* the store */
    sky_key bad;           /* what it has damaged; zero: nothing */
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
    if (bytes > HEAD_BYTES && gate.dead)
        return SKY_E_IO;
    sky_status status = tier_heap.read(self, key, offset, data, bytes, value_bytes);
    if (status == SKY_OK && bytes > HEAD_BYTES && sky_key_equal(key, &gate.bad))
        ((uint8_t *)data)[HEAD_BYTES] ^= 1;
    return status;
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

/* What earlier loads asked for and gave up is answered first: else it would wait at the gate, and
 * the next load's questions behind it. */
static void shut_gate(sky_cache *cache) {
    sky_item item = {.key = {{1}}};
    assert_int_equal(sky_run(cache, SKY_OP_HAS, &item, 1, NULL), SKY_OK);
    set_gate(&gate.shut, true);
}

/* ---- the engine ---- */

/* At the stop it goes on when it is interrupted, so that the adapter's own advance says what that
 * means to it. */
static sky_status gated_advance(void *self, const uint32_t *tokens, uint32_t first,
                                uint32_t count) {
    if (first + count > gate.stops_at) {
        set_gate(&gate.shut, false);
        if (gate.cancels)
            sky_sequence_cancel(gate.cancels);
        if (gate.fails)
            return SKY_E_IO;
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
    shut_gate(b->cache);
    sky_lookup found = bench_look(b, tokens, token_count);
    set_gate(&gate.shut, false);
    assert_int_equal(found.hit_tokens, prefix);
    assert_in_range(found.computed_tokens, all ? prefix : block_tokens, all ? prefix : stops_at);
    assert_int_equal(found.bytes_loaded > 0, !all);
    answer met = bench_answer(b, tokens, prefix, token_count, cold->count);
    expect_same(&met, cold);
}

/* An engine and a store with the gate between them. */
typedef struct {
    sky_engine_ops ops;
    sky_engine engine;
    bench b;
} gated;

/* The whole blocks of a prompt, from cache to cache. */
static void copy_blocks(const bench *to, const bench *from, const uint32_t *tokens,
                        uint32_t token_count, uint32_t block_tokens) {
    sky_namespace ns;
    sky_key keys[64];
    sky_manager_namespace(from->manager, &ns);
    size_t count = sky_block_keys(&ns, tokens, token_count, block_tokens, keys, 64);
    assert_int_equal(count, token_count / block_tokens);
    for (size_t i = 0; i < count; i++) {
        sky_item lent = {.key = keys[i]}, put = {.key = keys[i]};
        assert_int_equal(sky_run(from->cache, SKY_OP_LEASE, &lent, 1, NULL), SKY_OK);
        assert_int_equal(lent.status, SKY_OK);
        put.spans = &lent.view;
        put.span_count = 1;
        if (i > 0)
            put.parent = keys[i - 1];
        assert_int_equal(sky_run(to->cache, SKY_OP_PUT, &put, 1, NULL), SKY_OK);
        assert_int_equal(put.status, SKY_OK);
        sky_release(from->cache, lent.lease);
    }
}

static void gated_open(gated *g, const bench *b, const uint32_t *tokens, uint32_t token_count,
                       uint32_t block_tokens) {
    gate.inner = b->engine->ops;
    g->ops = *gate.inner;
    g->ops.advance = gated_advance;
    g->ops.interrupt = gated_interrupt;
    g->engine = (sky_engine){&g->ops, b->engine->self};
    g->b = (bench){.llama = b->llama, .engine = &g->engine, .cache = open_store()};
    bench_block_tokens(&g->b, block_tokens);
    copy_blocks(&g->b, b, tokens, token_count, block_tokens);
}

static void gated_close(gated *g) {
    sky_sequence_close(g->b.sequence);
    sky_manager_destroy(g->b.manager);
    sky_cache_close(g->b.cache);
}

void bench_expect_meetings(bench *b, const uint32_t *tokens, uint32_t token_count,
                           uint32_t block_tokens, uint32_t step, const answer *cold) {
    gated g;
    uint32_t blocks = (token_count - 1) / block_tokens;
    gated_open(&g, b, tokens, token_count, block_tokens);
    for (uint32_t at = step; at < blocks + step; at += step)
        expect_meeting(&g.b, tokens, token_count, block_tokens, at * block_tokens, cold);
    gated_close(&g);
}

/* ---- trouble ---- */

#define HOUR_NS     (3600 * (sky_time)1000000000)
#define UNTIL_BLOCK 2u /* the engine has computed as many */

/* One thing that goes wrong, and what is there then. */
typedef struct {
    const char *what;
    uint32_t bad_block;  /* 0: none is damaged */
    bool dead, shut;     /* the store; shut: it never opens */
    bool fails, goes_on; /* the engine fails, or is not stopped */
    bool timed;          /* against a deadline that is an hour away */
    uint32_t said_ns;    /* that the engine takes for a token; 0: nobody says */
    uint32_t blocks;     /* of the prefix; 0: all */
} trouble;

static const trouble troubles[] = {
    {.what = "a damaged block is computed through", .bad_block = 5, .goes_on = true},
    {.what = "a store that stays shut", .shut = true, .goes_on = true},
    {.what = "an engine that fails", .fails = true},
    {.what = "an engine that fails before damage", .fails = true, .bad_block = 5, .blocks = 5},
    {.what = "damage and a failure against a deadline",
     .fails = true,
     .bad_block = 6,
     .timed = true,
     .blocks = 6},
    {.what = "a deadline, and a store that opens late", .timed = true, .fails = true},
    {.what = "a deadline, and a store that stays shut",
     .timed = true,
     .shut = true,
     .goes_on = true},
    {.what = "an engine that is much slower than said",
     .said_ns = 1,
     .shut = true,
     .goes_on = true},
    {.what = "an engine that is much faster than said", .said_ns = UINT32_MAX, .fails = true},
};

static void gate_set(const trouble *t, const bench *b, const uint32_t *tokens, uint32_t token_count,
                     uint32_t block_tokens) {
    sky_namespace ns;
    sky_key keys[64];
    sky_manager_namespace(b->manager, &ns);
    sky_block_keys(&ns, tokens, token_count, block_tokens, keys, 64);
    memset(&gate.bad, 0, sizeof gate.bad);
    if (t->bad_block)
        gate.bad = keys[t->bad_block];
    gate.dead = t->dead;
    gate.fails = t->fails;
    gate.stops_at = t->goes_on && t->shut ? UINT32_MAX : UNTIL_BLOCK * block_tokens;
    set_gate(&gate.interrupted, t->goes_on); /* it waits for nobody then */
    shut_gate(b->cache);
}

/* The blocks of a prompt that the store lacks; returns how many. */
static uint32_t save_cold(bench *b, const uint32_t *tokens, uint32_t token_count) {
    bench_answer(b, tokens, 0, token_count, 1);
    return bench_save(b, tokens, token_count);
}

static void expect_trouble(bench *b, const uint32_t *tokens, uint32_t token_count,
                           uint32_t block_tokens, const trouble *t, const answer *cold) {
    const sky_manager_options options = {.block_tokens = block_tokens,
                                         .engine_token_ns = t->said_ns};
    uint32_t blocks = t->blocks ? t->blocks : (token_count - 1) / block_tokens;
    sky_lookup found;
    bench_manager(b, &options);
    gate_set(t, b, tokens, token_count, block_tokens);
    sky_status status = sky_sequence_load(b->sequence, tokens, token_count,
                                          t->timed ? sky_now() + HOUR_NS : 0, &found);
    set_gate(&gate.shut, false);
    gate.dead = false;
    if (status != SKY_OK || found.hit_tokens != blocks * block_tokens)
        fail_msg("%s: %s, %u tokens, %u of them computed, %u blocks damaged", t->what,
                 sky_status_text(status), found.hit_tokens, found.computed_tokens,
                 found.corrupt_blocks);
    answer met = bench_answer(b, tokens, found.hit_tokens, token_count, cold->count);
    expect_same(&met, cold);
    if (t->bad_block) { /* what is damaged goes */
        gate_set(&(trouble){.goes_on = true}, b, tokens, token_count, block_tokens);
        set_gate(&gate.shut, false);
        assert_in_range(save_cold(b, tokens, token_count), 1, blocks + 1);
    }
}

/* At the engine's first step, and when it has computed some blocks: nothing is there, and the next
 * load is right. */
static void expect_cancelled(bench *b, const uint32_t *tokens, uint32_t token_count,
                             uint32_t block_tokens, const answer *cold) {
    static const trouble none = {.what = "after a cancel"};
    for (uint32_t at = 0; at <= UNTIL_BLOCK; at++) {
        sky_lookup found;
        bench_block_tokens(b, block_tokens);
        gate_set(&none, b, tokens, token_count, block_tokens);
        gate.stops_at = at * block_tokens;
        gate.cancels = b->sequence;
        assert_int_equal(sky_sequence_load(b->sequence, tokens, token_count, 0, &found),
                         SKY_E_CANCELLED);
        gate.cancels = NULL;
        expect_trouble(b, tokens, token_count, block_tokens, &none, cold);
    }
}

void bench_expect_trouble(bench *b, const uint32_t *tokens, uint32_t token_count,
                          uint32_t block_tokens, const answer *cold) {
    gated g;
    gated_open(&g, b, tokens, token_count, block_tokens);
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
        expect_trouble(&g.b, tokens, token_count, block_tokens, &troubles[i], cold);
    expect_cancelled(&g.b, tokens, token_count, block_tokens, cold);
    const trouble dies = {.what = "a store that dies", .dead = true, .goes_on = true};
    expect_trouble(&g.b, tokens, token_count, block_tokens, &dies, cold); /* shunned from then on */
    gate_set(&troubles[0], &g.b, tokens, token_count, block_tokens);
    memset(&gate.bad, 0, sizeof gate.bad);
    gate.fails = false;
    set_gate(&gate.shut, false);
    gated_close(&g);
}
