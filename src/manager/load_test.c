/* Proves: an answer on top of a restored prefix is the answer of a cold run, whatever the layout,
 * the block length and the prompt's; as little is read as the model needs; damage and deadlines
 * cost time, never a wrong row; and over a slow tier a deadline gets the prefix that fits
 * in it, or another tier's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "manager/world_fixture.h"

/* What a restore of block_count blocks must read: header and full layers of each, and of window
 * layers the last W rows. */
static uint64_t bytes_needed(const world *w, uint32_t block_tokens, uint32_t block_count) {
    uint64_t bytes = (uint64_t)world_payload(w, block_tokens).header_bytes * block_count;
    for (uint32_t g = 0; g < w->engine.layout.group_count; g++) {
        const sky_layer_group *group = &w->engine.layout.groups[g];
        uint64_t rows = (uint64_t)block_tokens * block_count;
        if (group->window_tokens && group->window_tokens < rows)
            rows = group->window_tokens;
        bytes += rows * group->layer_count * (group->k_row_bytes + group->v_row_bytes);
    }
    return bytes;
}

/* ---- the same answer ---- */

static void a_restored_prefix_answers_like_a_cold_run(void **state) {
    (void)state;
    static const struct {
        uint32_t full, layers, window, block_tokens, token_count;
    } cases[] = {
        {2, 0, 0, 128, 1025},   {2, 3, 512, 128, 2080},  {1, 2, 100, 128, 1024},
        {1, 2, 100, 64, 1000},  {1, 1, 100, 30, 301},    {1, 1, 50, 1024, 2100},
        {0, 2, 128, 128, 700},  {2, 1, 4096, 256, 2000}, {1, 1, 1, 16, 100},
        {1, 1, 700, 512, 1537}, {1, 1, 512, 1, 40},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static world w;
        world_open(&w, made_up_layout(cases[i].full, cases[i].layers, cases[i].window),
                   cases[i].block_tokens);
        uint32_t token_count = cases[i].token_count;
        uint64_t answer = world_cold(&w, token_count);
        assert_int_equal(world_save(&w, token_count), token_count / cases[i].block_tokens);
        sky_lookup found = world_expect(&w, token_count, answer);
        uint32_t blocks = (token_count - 1) / cases[i].block_tokens;
        assert_int_equal(found.verdict, SKY_VERDICT_HIT);
        assert_int_equal(found.block_count, blocks);
        assert_int_equal(found.tier_blocks[0], blocks);
        assert_int_equal(found.bytes_loaded, bytes_needed(&w, cases[i].block_tokens, blocks));
        world_close(&w);
    }
}

static void every_prompt_length_is_right(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 20), 16);
    static uint64_t answers[130];
    for (uint32_t n = 1; n < 130; n++)
        answers[n] = world_cold(&w, n);
    world_cold(&w, 129);
    assert_int_equal(world_save(&w, 129), 8);
    for (uint32_t n = 1; n < 130; n++) {
        sky_lookup found = world_expect(&w, n, answers[n]);
        assert_int_equal(found.hit_tokens, (n - 1) / 16 * 16);
        assert_int_equal(found.verdict, n <= 16 ? SKY_VERDICT_MISS : SKY_VERDICT_HIT);
    }
    world_close(&w);
}

static void a_prompt_that_shares_five_blocks_of_sixteen_hits_five(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(2, 3, 512), 128);
    world_cold(&w, 2048);
    assert_int_equal(world_save(&w, 2048), 16);
    w.prompt[5 * 128] ^= 1;
    uint64_t answer = world_cold(&w, 2048);
    sky_lookup found = world_expect(&w, 2048, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
    assert_int_equal(found.hit_tokens, 640);
    assert_int_equal(world_save(&w, 2048), 11);
    found = world_expect(&w, 2048, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    w.prompt[5 * 128] ^= 1;
    world_close(&w);
}

/* Tokens as vLLM counts them, and blocks. */
static void lookups_are_counted(void **state) {
    (void)state;
    static const sky_metric_id metrics[] = {
        SKY_METRIC_CACHE_PREFIX_QUERIES,       SKY_METRIC_CACHE_PREFIX_HITS,
        SKY_METRIC_CACHE_PREFIX_BLOCK_QUERIES, SKY_METRIC_CACHE_PREFIX_BLOCK_HITS,
        SKY_METRIC_CACHE_LOOKUPS_HIT,          SKY_METRIC_CACHE_LOOKUPS_PARTIAL,
        SKY_METRIC_CACHE_LOOKUPS_MISS,         SKY_METRIC_CACHE_LOOKUPS_RECOMPUTE,
        SKY_METRIC_CACHE_SAVED_BLOCKS};
    /* miss, save, hit; then another token in block 5 of 0 to 14, so that five are found */
    static const uint64_t counted[] = {3 * 2000, (15 + 5) * 128, 3 * 15, 15 + 5, 1, 1, 1, 0, 15};
    static world w;
    world_open(&w, made_up_layout(2, 3, 512), 128);
    world_look(&w, 2000, 0);
    world_cold(&w, 2000);
    assert_int_equal(world_save(&w, 2000), 15);
    world_look(&w, 2000, 0);
    w.prompt[5 * 128] ^= 1;
    world_look(&w, 2000, 0);
    w.prompt[5 * 128] ^= 1;
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        assert_int_equal(sky_cache_metric(w.cache, SKY_TIER_NONE, metrics[i]), counted[i]);
    world_close(&w);
}

/* ---- damage ---- */

typedef void (*damage_fn)(stored_block *b);

static void flip_the_header(stored_block *b) {
    b->bytes[20] ^= 1;
}

static void cut_it_short(stored_block *b) {
    b->byte_count -= 1;
}

static void make_it_longer(stored_block *b) {
    b->bytes = realloc(b->bytes, b->byte_count + 8);
    memset(b->bytes + b->byte_count, 0, 8);
    b->byte_count += 8;
}

static void put_zeros(stored_block *b) {
    memset(b->bytes, 0, b->byte_count);
}

static void a_damaged_block_ends_the_prefix(void **state) {
    (void)state;
    static const damage_fn damages[] = {flip_the_header, cut_it_short, make_it_longer, put_zeros};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        for (uint32_t block = 0; block < 10; block += 3) {
            static world w;
            world_open(&w, made_up_layout(1, 2, 50), 32);
            uint64_t answer = world_cold(&w, 330);
            world_save(&w, 330);
            stored_block b = world_fetch(&w, 330, 32, block);
            damages[i](&b);
            world_put_back(&w, &b, block);
            sky_lookup found = world_expect(&w, 330, answer);
            assert_int_equal(found.hit_tokens, block * 32);
            assert_int_equal(found.corrupt_blocks, 1);
            assert_int_equal(found.verdict, block ? SKY_VERDICT_PARTIAL : SKY_VERDICT_RECOMPUTE);
            world_close(&w);
        }
    }
}

/* Whole and well-formed, but another block of the same w.prompt. */
static void a_block_in_the_wrong_place_is_damage(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    stored_block b = world_fetch(&w, 330, 32, 4);
    world_put_back(&w, &b, 7);
    sky_lookup found = world_expect(&w, 330, answer);
    assert_int_equal(found.hit_tokens, 7 * 32);
    assert_int_equal(found.corrupt_blocks, 1);
    world_close(&w);
}

static void a_block_of_another_layout_is_damage(void **state) {
    (void)state;
    static world w, other;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    world_open(&other, made_up_layout(1, 2, 51), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    world_cold(&other, 330);
    world_save(&other, 330);
    stored_block mine = world_fetch(&w, 330, 32, 2), theirs = world_fetch(&other, 330, 32, 2);
    assert_int_equal(mine.byte_count, theirs.byte_count);
    memcpy(mine.bytes, theirs.bytes, mine.byte_count);
    world_put_back(&w, &mine, 2);
    free(theirs.bytes);
    sky_lookup found = world_expect(&w, 330, answer);
    assert_int_equal(found.hit_tokens, 64);
    assert_int_equal(found.corrupt_blocks, 1);
    world_close(&w);
    world_close(&other);
}

static void a_removed_block_ends_the_prefix(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    world_remove(&w, 330, 32, 6);
    sky_lookup found = world_expect(&w, 330, answer);
    assert_int_equal(found.hit_tokens, 6 * 32);
    assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
    assert_int_equal(world_save(&w, 330), 4);
    world_close(&w);
}

static void rows_that_the_engine_refuses_are_computed(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    w.engine.refuse_rows = true;
    sky_lookup found = world_expect(&w, 330, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    found = world_expect(&w, 330, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    world_close(&w);
}

/* ---- limits ---- */

static void without_time_the_engine_is_empty(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    uint64_t answer = world_cold(&w, 330);
    world_save(&w, 330);
    sky_lookup found = world_look(&w, 330, 1);
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(found.hit_tokens, 0);
    assert_int_equal(found.bytes_loaded, 0);
    assert_true(made_up_engine_answer(&w.engine, w.prompt, 0, 330) == answer);
    found = world_look(&w, 330, sky_now() + SKY_SECONDS(60));
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    world_close(&w);
}

/* 40 Mb/s to the sky: all 16 blocks take 0.2 s. */
static const char slow_sky[] = "constellation: {planes: 5, slots: 19, altitude_km: 550}\n"
                               "center: [3, 4]\n"
                               "placement: {strategy: rotation-hop, servers: 9}\n"
                               "links: {ground_mbps: 40, queue: 16MiB}\n";

/* Lookups with a deadline that is too short for all, until one brings a part. */
static sky_lookup look_until_part(world *w, uint32_t token_count) {
    sky_lookup found = {.verdict = SKY_VERDICT_RECOMPUTE};
    for (int i = 0; i < 20 && found.verdict != SKY_VERDICT_PARTIAL; i++) {
        sky_time began = sky_now();
        found = world_look(w, token_count, began + SKY_MS(150));
        assert_true(sky_now() - began < SKY_MS(150) + SKY_SECONDS(1));
        assert_true(found.hit_tokens < 2048 && found.corrupt_blocks == 0);
        assert_int_equal(found.verdict == SKY_VERDICT_PARTIAL, found.hit_tokens > 0);
    }
    return found;
}

static void a_slow_tier_gives_what_fits_in_the_time(void **state) {
    (void)state;
    static world w;
    char path[] = "/tmp/skymem-load-XXXXXX", url[64];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, slow_sky, sizeof slow_sky - 1), sizeof slow_sky - 1);
    close(fd);
    snprintf(url, sizeof url, "sky:%s", path);
    for (int windows = 0; windows < 2; windows++) {
        world_open_at(&w, made_up_layout(windows ? 24 : 40, windows ? 24 : 0, 300), 128, url);
        uint64_t answer = world_cold(&w, 2050);
        assert_int_equal(world_save(&w, 2050), 16);
        sky_lookup found = look_until_part(&w, 2050);
        assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
        assert_true(made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, 2050) == answer);
        /* No time for anything: said at once. */
        sky_time began = sky_now();
        found = world_look(&w, 2050, began + SKY_MS(3));
        assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
        assert_int_equal(found.bytes_loaded, 0);
        /* Enough time, or no deadline: all of it, though it is known to be slow. */
        for (int limited = 0; limited < 2; limited++) {
            found = world_look(&w, 2050, limited ? sky_now() + SKY_SECONDS(60) : 0);
            assert_int_equal(found.verdict, SKY_VERDICT_HIT);
            assert_int_equal(found.block_count, 16);
            assert_true(made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, 2050) ==
                        answer);
        }
        world_close(&w);
    }
    unlink(path);
}

/* The first tier is slow, one behind it is not: when it has shown that, the other is asked. */
static void a_farther_tier_is_asked_when_it_brings_more(void **state) {
    (void)state;
    static world w;
    char path[] = "/tmp/skymem-load-XXXXXX", folder[] = "/tmp/skymem-load-XXXXXX", urls[2][64];
    const char *const both[] = {urls[0], urls[1]};
    int fd = mkstemp(path);
    assert_int_equal(write(fd, slow_sky, sizeof slow_sky - 1), sizeof slow_sky - 1);
    close(fd);
    assert_non_null(mkdtemp(folder));
    snprintf(urls[0], sizeof urls[0], "sky:%s", path);
    snprintf(urls[1], sizeof urls[1], "disk:%s", folder);
    world_open_over(&w, made_up_layout(40, 0, 0), 128, both, 2);
    uint64_t answer = world_cold(&w, 2050);
    assert_int_equal(world_save(&w, 2050), 16);
    assert_int_equal(sky_flush(w.cache, sky_now() + SKY_SECONDS(20), NULL), SKY_OK);
    sky_lookup found = world_look(&w, 2050, sky_now() + SKY_MS(100));
    assert_true(found.hit_tokens < 2048); /* it was believed to be fast */
    for (int i = 0; i < 20 && found.verdict != SKY_VERDICT_HIT; i++)
        found = world_look(&w, 2050, sky_now() + SKY_MS(100));
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.tier_blocks[1], 16);
    assert_true(made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, 2050) == answer);
    world_close(&w);
    unlink(path);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* The rest is too slow: the deadline passes, and what memory has goes to the engine, whatever rows
 * of the shorter prefix' windows came of it. */
static void after_the_deadline_memory_is_left(void **state) {
    (void)state;
    static world w;
    char path[] = "/tmp/skymem-load-XXXXXX", url[64];
    const char *const both[] = {"mem:64MiB", url};
    int fd = mkstemp(path);
    assert_int_equal(write(fd, slow_sky, sizeof slow_sky - 1), sizeof slow_sky - 1);
    close(fd);
    snprintf(url, sizeof url, "sky:%s", path);
    world_open_over(&w, made_up_layout(24, 24, 300), 128, both, 2);
    uint64_t answer = world_cold(&w, 2050);
    assert_int_equal(world_save(&w, 2050), 16);
    assert_int_equal(sky_flush(w.cache, sky_now() + SKY_SECONDS(20), NULL), SKY_OK);
    sky_namespace ns;
    sky_key keys[6];
    sky_manager_namespace(w.manager, &ns);
    sky_block_keys(&ns, w.prompt, 6 * 128, 128, keys, 6);
    sky_item item = {.key = keys[5]};
    const sky_call near = {.tiers = 1};
    assert_int_equal(sky_run(w.cache, SKY_OP_REMOVE, &item, 1, &near), SKY_OK);
    sky_lookup found = world_look(&w, 2050, sky_now() + SKY_MS(80)); /* believed to be fast */
    assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
    assert_in_range(found.block_count, 5, 15);
    assert_int_equal(found.tier_blocks[0], 5);
    assert_true(made_up_engine_answer(&w.engine, w.prompt, found.hit_tokens, 2050) == answer);
    world_close(&w);
    unlink(path);
}

static void prompts_too_short_or_too_long_are_answered(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 1, 50), 32);
    sky_lookup found;
    world_cold(&w, 330);
    assert_int_equal(sky_sequence_load(w.sequence, w.prompt, 0, 0, &found), SKY_E_PARAM);
    assert_int_equal(w.engine.held_tokens, 0);
    world_cold(&w, 330);
    world_save(&w, 330);
    found = world_look(&w, 32, 0); /* the one block is the one that must be computed */
    assert_int_equal(found.verdict, SKY_VERDICT_MISS);
    w.engine.context_tokens = 100;
    found = world_look(&w, 330, 0);
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(world_save(&w, 31), 0);
    w.engine.context_tokens = WORLD_TOKENS_MAX;
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restored_prefix_answers_like_a_cold_run),
        cmocka_unit_test(every_prompt_length_is_right),
        cmocka_unit_test(a_prompt_that_shares_five_blocks_of_sixteen_hits_five),
        cmocka_unit_test(lookups_are_counted),
        cmocka_unit_test(a_damaged_block_ends_the_prefix),
        cmocka_unit_test(a_block_in_the_wrong_place_is_damage),
        cmocka_unit_test(a_block_of_another_layout_is_damage),
        cmocka_unit_test(a_removed_block_ends_the_prefix),
        cmocka_unit_test(rows_that_the_engine_refuses_are_computed),
        cmocka_unit_test(without_time_the_engine_is_empty),
        cmocka_unit_test(a_slow_tier_gives_what_fits_in_the_time),
        cmocka_unit_test(a_farther_tier_is_asked_when_it_brings_more),
        cmocka_unit_test(after_the_deadline_memory_is_left),
        cmocka_unit_test(prompts_too_short_or_too_long_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
