/* Proves: what is saved is what no tier has and the engine still holds, generated tokens too, and
 * anew what a tier has of no use; what it does not hold, or no tier takes, is not half stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager/world_fixture.h"

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
    assert_int_equal(sky_manager_add_blocks_tokens(w.manager, w.prompt, 128, &blocks, &bytes),
                     SKY_E_PARAM);
    assert_int_equal(blocks, 3); /* what was stored before */
    assert_true(bytes > 0 && bytes != 77);
    assert_int_equal(sky_manager_add_blocks_tokens(w.manager, w.prompt, 96, NULL, NULL), SKY_OK);
    assert_int_equal(world_save(&w, 96), 0);
    world_close(&w);
}

static void a_cache_without_room_says_so(void **state) {
    (void)state;
    static world w;
    world_open_at(&w, made_up_layout(40, 0, 0), 2048, "mem:256KiB");
    uint64_t answer = world_cold(&w, 2100);
    uint32_t blocks = 77;
    uint64_t bytes;
    assert_int_equal(sky_manager_add_blocks_tokens(w.manager, w.prompt, 2100, &blocks, &bytes),
                     SKY_E_FULL);
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
    assert_int_equal(sky_manager_add_blocks_tokens(w.manager, w.prompt, 96, &blocks, NULL),
                     SKY_E_DENIED);
    assert_int_equal(blocks, 0);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_turn_hits_what_was_generated),
        cmocka_unit_test(a_block_that_goes_after_the_lookup_is_not_saved_from_a_restored_window),
        cmocka_unit_test(a_block_found_damaged_is_stored_anew),
        cmocka_unit_test(tokens_that_were_not_computed_are_not_saved),
        cmocka_unit_test(a_cache_without_room_says_so),
        cmocka_unit_test(a_tier_that_may_not_be_written_says_that_and_not_that_it_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
