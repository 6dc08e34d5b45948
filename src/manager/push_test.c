/* Proves: what one sequence pushes while its engine computes comes to another that awaits it, block
 * by block, and the answer is the cold one; when the first gives up, stands still, never was or has
 * a block no longer, the second ends its wait, and computes the rest; and so it does when computing
 * is sooner, by the rule of await.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "io/sync.h"
#include "manager/blocks.h"
#include "manager/world_fixture.h"
#include "tier/tier_fixture.h"

#define TOKENS       1000
#define BLOCK_TOKENS 32
#define LONG         SKY_SECONDS(60)

static world producer, consumer;
static uint64_t cold;

static void open_both(sky_layout layout) {
    world_open(&producer, layout, BLOCK_TOKENS);
    world_open_on(&consumer, layout, BLOCK_TOKENS, producer.cache);
    cold = world_cold(&consumer, TOKENS);
}

static void close_both(void) {
    consumer.cache = NULL; /* it is the other's */
    world_close(&consumer);
    world_close(&producer);
}

static uint64_t metric(sky_metric_id id) {
    return sky_cache_metric(producer.cache, SKY_TIER_NONE, id);
}

static void compute(uint32_t from, uint32_t to) {
    made_up_engine_answer(&producer.engine, producer.prompt, from, to);
    assert_int_equal(sky_sequence_push(producer.sequence, to), SKY_OK);
}

static void begin(void) {
    assert_int_equal(sky_sequence_push_begin(producer.sequence, producer.prompt, TOKENS), SKY_OK);
    assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED), TOKENS / BLOCK_TOKENS);
}

/* ---- the other side, on a thread ---- */

static struct {
    sky_thread thread;
    sky_time patience_ns;
    sky_status status;
    uint32_t stored_tokens;
} waits;

static void *wait_body(void *unused) {
    (void)unused;
    waits.status = sky_sequence_await(consumer.sequence, consumer.prompt, TOKENS, waits.patience_ns,
                                      &waits.stored_tokens);
    return NULL;
}

static void until_some_wait(void) {
    while (metric(SKY_METRIC_CACHE_AWAITED) == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
}

static void wait_begin(sky_time patience_ns) {
    waits.patience_ns = patience_ns;
    assert_int_equal(sky_thread_start(&waits.thread, "await", wait_body, NULL), SKY_OK);
}

/* It ended so, with so many tokens; and the answer is right. */
static void wait_end(sky_status status, uint32_t stored_tokens) {
    sky_thread_join(&waits.thread);
    assert_int_equal(waits.status, status);
    assert_int_equal(waits.stored_tokens, stored_tokens);
    sky_lookup found = world_expect(&consumer, TOKENS, cold);
    assert_int_equal(found.hit_tokens, stored_tokens);
}

/* ---- tests ---- */

static void push_all(sky_layout layout, uint32_t step) {
    open_both(layout);
    begin();
    wait_begin(LONG);
    for (uint32_t at = 0, to; at < TOKENS; at = to) {
        to = at + step < TOKENS ? at + step : TOKENS;
        compute(at, to);
        assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED),
                         TOKENS / BLOCK_TOKENS - to / BLOCK_TOKENS);
    }
    uint32_t blocks;
    uint64_t bytes;
    assert_int_equal(sky_sequence_push_end(producer.sequence, &blocks, &bytes), SKY_OK);
    assert_int_equal(blocks, TOKENS / BLOCK_TOKENS);
    assert_true(bytes > 0);
    wait_end(SKY_OK, (TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS);
    close_both();
}

static void blocks_come_while_the_rest_is_computed(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    begin();
    compute(0, 100);
    uint32_t stored;
    assert_int_equal(sky_sequence_await(consumer.sequence, consumer.prompt, 97, LONG, &stored),
                     SKY_OK);
    assert_int_equal(stored, 96);
    assert_int_equal(world_look(&consumer, 97, 0).hit_tokens, 96);
    wait_begin(LONG);
    compute(100, 500);
    compute(500, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    wait_end(SKY_OK, (TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS);
    close_both();
}

static void every_layout_is_pushed_whole(void **state) {
    (void)state;
    push_all(made_up_layout(2, 0, 0), 70);
    push_all(made_up_layout(1, 2, 64), 64);
    push_all(made_up_layout(1, 2, 100), 96);
}

static void a_cancelled_push_ends_the_wait(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    begin();
    wait_begin(LONG);
    until_some_wait();
    compute(0, 320);
    sky_sequence_cancel(producer.sequence);
    assert_int_equal(sky_sequence_push(producer.sequence, 500), SKY_E_CANCELLED);
    sky_sequence_close(producer.sequence); /* which withdraws */
    producer.sequence = NULL;
    assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED), 0);
    wait_end(SKY_MISS, 320);
    close_both();
}

static void a_push_that_stands_still_costs_the_patience(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    begin();
    compute(0, 320);
    wait_begin(SKY_MS(50));
    wait_end(SKY_E_DEADLINE, 320);
    wait_begin(LONG); /* and goes on when it does */
    compute(320, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    wait_end(SKY_OK, (TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS);
    close_both();
}

static void a_cancelled_wait_ends(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    begin();
    wait_begin(LONG);
    compute(0, 64);
    sky_sequence_cancel(consumer.sequence);
    sky_thread_join(&waits.thread);
    assert_int_equal(waits.status, SKY_E_CANCELLED);
    compute(64, TOKENS); /* which the producer does not mind */
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    close_both();
}

static void what_nobody_announces_costs_the_patience(void **state) {
    (void)state;
    uint32_t stored = 77;
    open_both(made_up_layout(2, 0, 0));
    assert_int_equal(
        sky_sequence_await(consumer.sequence, consumer.prompt, TOKENS, SKY_MS(20), &stored),
        SKY_E_DEADLINE);
    assert_int_equal(stored, 0);
    begin();
    compute(0, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    assert_int_equal(sky_sequence_await(consumer.sequence, consumer.prompt, TOKENS, LONG, &stored),
                     SKY_OK);
    assert_int_equal(stored, (TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS);
    close_both();
}

static void who_asks_first_waits_for_the_announcement(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    wait_begin(LONG);
    until_some_wait();
    begin();
    compute(0, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    wait_end(SKY_OK, (TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS);
    assert_int_equal(metric(SKY_METRIC_CACHE_AWAITED), 0);
    close_both();
}

/* Of a producer that is gone before it pushed anything nothing is waited for longer. */
static void who_asks_first_sees_a_withdrawal(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    wait_begin(LONG);
    until_some_wait();
    begin();
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    wait_end(SKY_MISS, 0);
    close_both();
}

static void the_rule_ends_a_wait(void **state) {
    (void)state;
    const sky__arrival_pace none = {.last_at = 1000}, one = {500, 1000, 1};
    const sky__arrival_pace some = {.first_at = 1000, .last_at = 1900, .blocks = 10}; /* 100 each */
    assert_int_equal(sky__await_until(&some, 5, 0), SKY_TIME_NEVER);
    assert_int_equal(sky__await_until(&none, 5, 40), 1000 + 5 * 40);
    assert_int_equal(sky__await_until(&one, 5, 40), 1000 + 5 * 40);
    assert_int_equal(sky__await_until(&some, 5, 99), 0); /* it computes faster than they come */
    assert_int_equal(sky__await_until(&some, 5, 100), 1900 + 5 * 100 + 5 * 100);
    assert_int_equal(sky__await_until(&some, 5, 300), 1900 + 5 * 100 + 5 * 300);
}

static void an_engine_that_is_sooner_does_not_wait(void **state) {
    (void)state;
    const sky_manager_options fast = {.block_tokens = BLOCK_TOKENS, .engine_token_ns = 1};
    sky_awaited awaited;
    open_both(made_up_layout(2, 0, 0));
    world_renew(&consumer, &fast);
    begin();
    compute(0, 320);
    wait_begin(LONG);
    wait_end(SKY_E_DEADLINE, 320);
    assert_int_equal(sky_sequence_awaited(consumer.sequence, &awaited), SKY_OK);
    assert_true(awaited.computing_is_sooner);
    assert_int_equal(awaited.awaited_blocks, 0);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    close_both();
}

static void an_engine_that_is_slower_waits_on(void **state) {
    (void)state;
    const sky_manager_options slow = {.block_tokens = BLOCK_TOKENS,
                                      .engine_token_ns = (uint32_t)SKY_SECONDS(1)};
    sky_awaited awaited;
    open_both(made_up_layout(2, 0, 0));
    world_renew(&consumer, &slow);
    begin();
    compute(0, 320);
    wait_begin(LONG);
    until_some_wait();
    compute(320, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    uint32_t whole = (TOKENS - 1) / BLOCK_TOKENS;
    wait_end(SKY_OK, whole * BLOCK_TOKENS);
    assert_int_equal(sky_sequence_awaited(consumer.sequence, &awaited), SKY_OK);
    assert_false(awaited.computing_is_sooner);
    assert_int_equal(awaited.awaited_blocks, whole - 10);
    assert_int_equal(awaited.stored_tokens, whole * BLOCK_TOKENS);
    assert_int_equal(awaited.tier_blocks[0], whole);
    assert_int_equal(awaited.bytes, whole * consumer.manager->payload.payload_bytes);
    assert_true(awaited.waited_ns > 0);
    close_both();
}

/* As after a host was started again, which knows of no announcement. */
static void a_push_announces_the_rest_again(void **state) {
    (void)state;
    sky_item items[TOKENS / BLOCK_TOKENS] = {0};
    sky_key keys[TOKENS / BLOCK_TOKENS];
    open_both(made_up_layout(2, 0, 0));
    begin();
    sky_block_keys(&producer.manager->ns, producer.prompt, TOKENS, BLOCK_TOKENS, keys,
                   TOKENS / BLOCK_TOKENS);
    for (size_t b = 0; b < TOKENS / BLOCK_TOKENS; b++)
        items[b].key = keys[b];
    const sky_call call = {.owner = (uint64_t)(uintptr_t)producer.sequence};
    assert_int_equal(sky_run(producer.cache, SKY_OP_WITHDRAW, items, TOKENS / BLOCK_TOKENS, &call),
                     SKY_OK);
    assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED), 0);
    compute(0, 320);
    assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED), TOKENS / BLOCK_TOKENS - 10);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    close_both();
}

static void what_is_stored_is_not_pushed_again(void **state) {
    (void)state;
    open_both(made_up_layout(2, 0, 0));
    world_save(&consumer, 320);
    uint32_t blocks;
    assert_int_equal(sky_sequence_push_begin(producer.sequence, producer.prompt, TOKENS), SKY_OK);
    assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED), TOKENS / BLOCK_TOKENS - 10);
    compute(0, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, &blocks, NULL), SKY_OK);
    assert_int_equal(blocks, TOKENS / BLOCK_TOKENS - 10);
    close_both();
}

/* A restored block went, and its rows with it: nobody is to put it, nor what follows it. */
static void what_cannot_be_put_any_more_is_withdrawn(void **state) {
    (void)state;
    const uint32_t block = 3, end = TOKENS / BLOCK_TOKENS * BLOCK_TOKENS;
    open_both(made_up_layout(1, 2, 64));
    world_cold(&producer, end);
    assert_int_equal(world_save(&producer, 640), 640 / BLOCK_TOKENS);
    sky_lookup found = world_look(&producer, TOKENS, 0);
    assert_int_equal(found.hit_tokens, 640);
    world_remove(&producer, 512, BLOCK_TOKENS, block);
    assert_int_equal(sky_sequence_push_begin(producer.sequence, producer.prompt, TOKENS), SKY_OK);
    wait_begin(LONG);
    until_some_wait();
    compute(640, 800);
    assert_int_equal(metric(SKY_METRIC_CACHE_ANNOUNCED), 0);
    wait_end(SKY_MISS, block * BLOCK_TOKENS);
    compute(800, TOKENS); /* which is fine, and puts nothing */
    uint32_t blocks;
    assert_int_equal(sky_sequence_push_end(producer.sequence, &blocks, NULL), SKY_OK);
    assert_int_equal(blocks, 0);
    close_both();
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    uint32_t stored;
    open_both(made_up_layout(2, 0, 0));
    sky_sequence *q = producer.sequence;
    const uint32_t *prompt = producer.prompt;
    assert_int_equal(sky_sequence_push(q, 100), SKY_E_PARAM);
    assert_int_equal(sky_sequence_push_end(q, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_push_begin(NULL, prompt, TOKENS), SKY_E_PARAM);
    assert_int_equal(sky_sequence_push_begin(q, NULL, TOKENS), SKY_E_PARAM);
    assert_int_equal(sky_sequence_await(q, prompt, TOKENS, 0, &stored), SKY_E_PARAM);
    assert_int_equal(sky_sequence_await(q, prompt, TOKENS, SKY_AWAIT_NS_MAX + 1, &stored),
                     SKY_E_PARAM);
    assert_int_equal(sky_sequence_await(q, prompt, 0, LONG, &stored), SKY_E_PARAM);
    assert_int_equal(sky_sequence_awaited(q, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_push_begin(q, prompt, TOKENS), SKY_OK);
    assert_int_equal(sky_sequence_push_begin(q, prompt, TOKENS), SKY_E_PARAM);
    assert_int_equal(sky_sequence_await(q, prompt, TOKENS, LONG, &stored), SKY_E_PARAM);
    /* Blocks that the engine does not hold are not put. */
    assert_int_not_equal(sky_sequence_push(q, TOKENS), SKY_OK);
    assert_int_equal(sky_sequence_push_end(q, &stored, NULL), SKY_OK);
    assert_int_equal(stored, 0);
    close_both();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_while_the_rest_is_computed),
        cmocka_unit_test(every_layout_is_pushed_whole),
        cmocka_unit_test(a_cancelled_push_ends_the_wait),
        cmocka_unit_test(a_push_that_stands_still_costs_the_patience),
        cmocka_unit_test(a_cancelled_wait_ends),
        cmocka_unit_test(what_nobody_announces_costs_the_patience),
        cmocka_unit_test(who_asks_first_waits_for_the_announcement),
        cmocka_unit_test(who_asks_first_sees_a_withdrawal),
        cmocka_unit_test(the_rule_ends_a_wait),
        cmocka_unit_test(an_engine_that_is_sooner_does_not_wait),
        cmocka_unit_test(an_engine_that_is_slower_waits_on),
        cmocka_unit_test(a_push_announces_the_rest_again),
        cmocka_unit_test(what_is_stored_is_not_pushed_again),
        cmocka_unit_test(what_cannot_be_put_any_more_is_withdrawn),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
