/* Proves: what one sequence pushes while its engine computes comes to another that awaits it, block
 * by block, and the answer is the cold one; when the first gives up, stands still or never was, the
 * second ends its wait, and computes the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "io/sync.h"
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

static void what_nobody_announced_is_not_waited_for(void **state) {
    (void)state;
    uint32_t stored = 77;
    open_both(made_up_layout(2, 0, 0));
    assert_int_equal(sky_sequence_await(consumer.sequence, consumer.prompt, TOKENS, LONG, &stored),
                     SKY_MISS);
    assert_int_equal(stored, 0);
    begin();
    compute(0, TOKENS);
    assert_int_equal(sky_sequence_push_end(producer.sequence, NULL, NULL), SKY_OK);
    assert_int_equal(sky_sequence_await(consumer.sequence, consumer.prompt, TOKENS, LONG, &stored),
                     SKY_OK);
    assert_int_equal(stored, (TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS);
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
        cmocka_unit_test(what_nobody_announced_is_not_waited_for),
        cmocka_unit_test(what_is_stored_is_not_pushed_again),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
