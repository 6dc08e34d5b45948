/* Proves: what is saved is what no tier has and the engine still holds, generated tokens too, and
 * anew what a tier has of no use; what it does not hold, or no tier takes, is not half stored; and
 * of a block that a tier has at some of its levels those that lack are added, each made of what is
 * as good; and that a put is given up when nothing comes of it any more, not before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/stream.h>

#include "cache/cache_internal.h"
#include "manager/blocks.h"
#include "manager/shaped_fixture.h"
#include "manager/world_fixture.h"
#include "tier/encoded/encoded.h"

static void the_next_turn_hits_what_was_generated(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 100), 32);
    world_cold(&w, 500);
    assert_int_equal(world_save(&w, 500), 15);
    sky_lookup found = world_look(&w, 500, 0);
    made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, 700); /* 200 of them generated */
    assert_int_equal(world_save(&w, 700), 6);
    assert_int_equal(world_save(&w, 700), 0);
    uint64_t answer = world_cold(&w, 740);
    found = world_expect(&w, 740, answer);
    assert_int_equal(found.hit_tokens, 672);
    assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
    world_close(&w);
}

/* The rows of a block that went between lookup and saving are no more: nothing wrong is stored. */
static void a_block_that_goes_after_the_lookup_is_not_saved_from_a_restored_window(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    sky_lookup found = world_look(&w, 330, 0);
    made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, 330);
    world_remove(&w, 330, 32, 1);
    assert_int_equal(world_save(&w, 330), 0);
    found = world_expect(&w, 330, answer);
    assert_int_equal(found.hit_tokens, 32);
    assert_int_equal(world_save(&w, 330), 9);
    world_close(&w);
}

/* A tier says that it has such a block. What follows it could not be used either. */
static void a_block_found_damaged_is_stored_anew(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    stored_block b = world_fetch(&w, 330, 32, 4);
    b.bytes[20] ^= 1;
    world_put_back(&w, &b, 4);
    sky_lookup found = world_expect(&w, 330, answer);
    assert_int_equal(found.hit_tokens, 128);
    assert_int_equal(world_save(&w, 330), 6);
    assert_int_equal(world_save(&w, 330), 0); /* once is enough */
    found = world_expect(&w, 330, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    world_close(&w);
}

static void tokens_that_were_not_computed_are_not_saved(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 1, 50), 32);
    world_cold(&w, 100);
    uint32_t blocks = 77;
    uint64_t bytes = 77;
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 128, &blocks, &bytes), SKY_E_PARAM);
    assert_int_equal(blocks, 3); /* what was stored before */
    assert_true(bytes > 0 && bytes != 77);
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 96, NULL, NULL), SKY_OK);
    assert_int_equal(world_save(&w, 96), 0);
    /* Nor those that begin where what was restored ends. */
    assert_int_equal(world_look(&w, 129, 0).hit_tokens, 96);
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 128, &blocks, NULL), SKY_E_PARAM);
    assert_int_equal(blocks, 0);
    world_close(&w);
}

/* ---- what an engine hands out ---- */

static void hand_out_all(const made_up_engine *e, sky_state *state) {
    for (uint32_t i = 0; e->restoring_tokens == 0 && i < e->row_sets; i++)
        state->tensors[i] = sky_tensor_packed(e->rows[i], state->tensors[i].element, 1,
                                              state->tensors[i].dim, 0, e->held_tokens);
}

static void rows_that_begin_before_those_asked_for_are_saved_right(void **state) {
    (void)state;
    static const uint32_t block_tokens[] = {32, 1024}; /* 1024: more than one extraction */
    for (size_t i = 0; i < 2; i++) {
        static world w;
        world_open(&w, made_up_layout(2, 0, 0), block_tokens[i]);
        uint64_t answer = world_cold(&w, 2100);
        w.engine.change = hand_out_all;
        world_save(&w, 2100);
        sky_lookup found = world_expect(&w, 2100, answer);
        assert_int_equal(found.verdict, SKY_VERDICT_HIT);
        world_close(&w);
    }
}

static void a_cache_without_room_says_so(void **state) {
    (void)state;
    static world w;
    world_open_at(&w, made_up_layout(40, 0, 0), 2048, "mem:256KiB");
    uint64_t answer = world_cold(&w, 2100);
    uint32_t blocks = 77;
    uint64_t bytes;
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 2100, &blocks, &bytes), SKY_E_FULL);
    assert_int_equal(blocks, 0);
    sky_lookup found = world_expect(&w, 2100, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_MISS);
    world_close(&w);
}

/* Any folder that was never a cache: looking at one makes none of it. */
static void a_tier_that_may_not_be_written_says_that_and_not_that_it_is_full(void **state) {
    (void)state;
    static world w;
    world_open_at(&w, made_up_layout(1, 1, 50), 32, "disk:scenarios?create=no");
    world_cold(&w, 100);
    uint32_t blocks = 77;
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 96, &blocks, NULL), SKY_E_DENIED);
    assert_int_equal(blocks, 0);
    world_close(&w);
}

/* ---- levels ---- */

#define LEVEL_BLOCKS 10
#define LEVEL_TOKENS (LEVEL_BLOCKS * 32 + 10)
#define LEVEL_8      (SKY_LEVEL_8 + 1)
#define LEVEL_4      (SKY_LEVEL_4 + 1)
#define LEVEL_2      (SKY_LEVEL_2 + 1)

static const sky_level_set three = {{LEVEL_8, LEVEL_4, LEVEL_2}, 3};
static const sky_layout half_window = {
    .group_count = 2,
    .groups = {{SKY_LAYER_WINDOW, 64, 2, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 128, 128},
               {SKY_LAYER_FULL, 0, 2, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 128, 128}}};
static const sky_layout no_window = {
    .group_count = 1,
    .groups = {{SKY_LAYER_FULL, 0, 2, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 128, 128}}};

static bool count_entry(void *context, const sky_entry *entry) {
    ((uint32_t *)context)[entry->coding]++;
    return true;
}

static void expect_levels(world *w, uint32_t at_8, uint32_t at_4, uint32_t at_2) {
    uint32_t counts[UINT8_MAX + 1] = {0};
    assert_int_equal(sky_list(w->cache, count_entry, counts), SKY_OK);
    assert_int_equal(counts[LEVEL_8], at_8);
    assert_int_equal(counts[LEVEL_4], at_4);
    assert_int_equal(counts[LEVEL_2], at_2);
}

static void open_levels(world *w, sky_layout layout, const char *folder, const char *levels,
                        bool memory) {
    char url[128];
    const char *urls[] = {"mem:16MiB", url};
    snprintf(url, sizeof url, "disk:%s?max=64MiB&level=%s", folder, levels);
    world_open_over(w, layout, 32, memory ? urls : urls + 1, memory ? 2 : 1);
    w->engine.tame = true;
}

/* A folder that was used with one level and now has three, by somebody who looks first or not,
 * with memory before it or not. The window is gone past most blocks when they were restored. */
static void levels_that_a_tier_did_not_have_before_are_added(void **state) {
    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        bool looks = n & 1, memory = n & 2;
        sky_layout layout = n & 4 ? half_window : no_window;
        char folder[] = "/tmp/skymem-levels-XXXXXX", command[64];
        static world w;
        assert_non_null(mkdtemp(folder));
        open_levels(&w, layout, folder, "8", false);
        world_cold(&w, LEVEL_TOKENS);
        assert_int_equal(world_save(&w, LEVEL_TOKENS), LEVEL_BLOCKS);
        expect_levels(&w, LEVEL_BLOCKS, 0, 0);
        world_close(&w);
        open_levels(&w, layout, folder, "8,4,2", memory);
        uint32_t hit = 0;
        if (looks)
            hit = world_look(&w, LEVEL_TOKENS, 0).hit_tokens;
        assert_int_equal(hit, looks ? LEVEL_BLOCKS * 32 : 0);
        made_up_engine_answer(&w.engine, w.prompt, hit, LEVEL_TOKENS);
        assert_int_equal(sky_flush(w.cache, SKY_TIME_NEVER, NULL), SKY_OK); /* copies to memory */
        assert_int_equal(world_save(&w, LEVEL_TOKENS), LEVEL_BLOCKS);
        world_close(&w);
        open_levels(&w, layout, folder, "8,4,2", false);
        expect_levels(&w, LEVEL_BLOCKS, LEVEL_BLOCKS, LEVEL_BLOCKS);
        world_cold(&w, LEVEL_TOKENS);
        assert_int_equal(world_save(&w, LEVEL_TOKENS), 0);
        world_close(&w);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        assert_int_equal(system(command), 0);
    }
}

static sky_key level_key(const world *w, uint32_t block, sky_coding coding) {
    sky_namespace ns;
    sky_key keys[LEVEL_BLOCKS], own;
    sky_manager_namespace(w->manager, &ns);
    sky_block_keys(&ns, w->prompt, LEVEL_BLOCKS * 32, 32, keys, LEVEL_BLOCKS);
    sky_level_key(&keys[block], coding, &own);
    return coding == LEVEL_8 ? keys[block] : own;
}

static void open_far(world *w, shaped **far, sky_layout layout) {
    sky_cache *c;
    sky_tier *tier;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    const sky_tier_env env = sky__cache_env(c);
    *far = shaped_open(&env);
    assert_int_equal(sky_coded_tier_open(shaped_tier(*far), &three, &tier), SKY_OK);
    sky__cache_add(c, tier);
    assert_int_equal(sky__cache_start(c), SKY_OK);
    world_open_on(w, layout, 32, c);
    w->engine.tame = true;
}

static void lose(shaped *far, const world *w, uint32_t block, sky_coding coding) {
    sky_tier *memory = shaped_memory(far);
    sky_item item = {.key = level_key(w, block, coding)};
    sky_batch batch;
    assert_int_equal(sky_tier_submit(memory, SKY_OP_REMOVE, &item, 1, NULL, &batch), SKY_OK);
    assert_int_equal(sky_tier_wait(memory, batch, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
}

/* Memory before a far tier that takes 20 ms a put; half of memory may wait for it. */
static uint64_t save_into_a_slow_tier(bool drop) {
    enum { BLOCKS = 20, BLOCK_TOKENS = 64 };
    sky_cache *c;
    sky_tier *memory;
    static world w;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    assert_int_equal(sky_memory_tier_open("mem:1MiB", &env, &memory, NULL), SKY_OK);
    sky__cache_add(c, memory);
    env = sky__cache_env(c);
    shaped *far = shaped_open(&env);
    shaped_puts_take(far, SKY_MS(20));
    sky__cache_add(c, shaped_tier(far));
    assert_int_equal(sky__cache_start(c), SKY_OK);
    static const sky_layout layout = {
        .group_count = 1,
        .groups = {{SKY_LAYER_FULL, 0, 2, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 512, 512}}};
    world_open_on(&w, layout, BLOCK_TOKENS, c);
    const sky_manager_options options = {.block_tokens = BLOCK_TOKENS, .drop = drop};
    world_renew(&w, &options);
    world_cold(&w, BLOCKS * BLOCK_TOKENS);
    assert_true(world_payload(&w, BLOCK_TOKENS).payload_bytes * BLOCKS >
                1u << 20); /* more than memory holds */
    assert_int_equal(world_save(&w, BLOCKS * BLOCK_TOKENS), BLOCKS);
    uint64_t dropped;
    sky_status status = sky_flush(c, sky_now() + SKY_SECONDS(30), &dropped);
    assert_int_equal(status, dropped ? SKY_E_FULL : SKY_OK);
    assert_int_equal(sky_cache_metric(c, 1, SKY_METRIC_TIER_ENTRIES) + dropped, BLOCKS);
    world_close(&w);
    return dropped;
}

static void a_full_queue_is_waited_for_or_gone_without(void **state) {
    (void)state;
    assert_int_equal(save_into_a_slow_tier(false), 0);
    assert_true(save_into_a_slow_tier(true) > 0);
}

/* Rows that came at level 4 are not kept as level 8; computed ones are. */
static void no_level_is_made_of_a_lower_one(void **state) {
    (void)state;
    static world w;
    shaped *far;
    open_far(&w, &far, half_window);
    world_cold(&w, LEVEL_TOKENS);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), LEVEL_BLOCKS);
    lose(far, &w, LEVEL_BLOCKS - 1, LEVEL_8); /* no parent of others, which would go too */
    lose(far, &w, LEVEL_BLOCKS - 1, LEVEL_2);
    expect_levels(&w, LEVEL_BLOCKS - 1, LEVEL_BLOCKS, LEVEL_BLOCKS - 1);
    sky_lookup found = world_look(&w, LEVEL_TOKENS, 0);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.level_blocks[LEVEL_4], 1);
    made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, LEVEL_TOKENS);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), 1);
    expect_levels(&w, LEVEL_BLOCKS - 1, LEVEL_BLOCKS, LEVEL_BLOCKS);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), 0);
    world_look(&w, 20, 0); /* nothing is restored */
    world_cold(&w, LEVEL_TOKENS);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), 1);
    expect_levels(&w, LEVEL_BLOCKS, LEVEL_BLOCKS, LEVEL_BLOCKS);
    world_close(&w);
}

static void a_block_of_which_a_level_was_refused_is_not_saved_until_it_is(void **state) {
    (void)state;
    static world w;
    shaped *far;
    open_far(&w, &far, half_window);
    const sky_key refused = level_key(&w, 4, LEVEL_2);
    shaped_refuse(far, SKY_OP_PUT, &refused, SKY_E_IO);
    world_cold(&w, LEVEL_TOKENS);
    uint32_t blocks = 77;
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, LEVEL_TOKENS, &blocks, NULL),
                     SKY_E_IO);
    assert_int_equal(blocks, 4);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), LEVEL_BLOCKS - 5); /* 5 went with 4 */
    expect_levels(&w, LEVEL_BLOCKS, LEVEL_BLOCKS, LEVEL_BLOCKS);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), 0);
    world_close(&w);
}

/* One put of five blocks at three levels, which takes three times the patience, is waited for; one
 * of which nothing comes is not, and what was stored by then stays. */
static void a_put_may_take_as_long_as_something_comes_of_it(void **state) {
    (void)state;
    static world w;
    shaped *far;
    uint32_t blocks = 77;
    open_far(&w, &far, no_window);
    w.manager->patience_ns = SKY_MS(700);
    world_cold(&w, LEVEL_TOKENS);
    shaped_puts_take(far, SKY_MS(150));
    assert_int_equal(world_save(&w, 5 * 32), 5);
    shaped_puts_take(far, SKY_TIME_NEVER);
    sky_time start = sky_now();
    assert_int_equal(sky_sequence_save(w.sequence, w.prompt, LEVEL_TOKENS, &blocks, NULL),
                     SKY_E_DEADLINE);
    assert_true(sky_now() - start >= SKY_MS(700));
    assert_int_equal(blocks, 0);
    expect_levels(&w, 5, 5, 5);
    shaped_puts_take(far, 0);
    assert_int_equal(world_save(&w, LEVEL_TOKENS), LEVEL_BLOCKS - 5);
    expect_levels(&w, LEVEL_BLOCKS, LEVEL_BLOCKS, LEVEL_BLOCKS);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_turn_hits_what_was_generated),
        cmocka_unit_test(a_block_that_goes_after_the_lookup_is_not_saved_from_a_restored_window),
        cmocka_unit_test(a_block_found_damaged_is_stored_anew),
        cmocka_unit_test(tokens_that_were_not_computed_are_not_saved),
        cmocka_unit_test(rows_that_begin_before_those_asked_for_are_saved_right),
        cmocka_unit_test(a_cache_without_room_says_so),
        cmocka_unit_test(a_tier_that_may_not_be_written_says_that_and_not_that_it_is_full),
        cmocka_unit_test(levels_that_a_tier_did_not_have_before_are_added),
        cmocka_unit_test(a_full_queue_is_waited_for_or_gone_without),
        cmocka_unit_test(no_level_is_made_of_a_lower_one),
        cmocka_unit_test(a_block_of_which_a_level_was_refused_is_not_saved_until_it_is),
        cmocka_unit_test(a_put_may_take_as_long_as_something_comes_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
