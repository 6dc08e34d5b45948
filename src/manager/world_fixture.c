/* See world_fixture.h. */
#include "manager/world_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/skymem.h>

#include "base/prng.h"
#include "cache/opener.h"
#include "sim/sim_tier.h"

void world_renew(world *w, const sky_manager_options *options) {
    sky_engine engine = made_up_engine_ops(&w->engine);
    sky_sequence_close(w->sequence);
    sky_manager_destroy(w->manager);
    assert_int_equal(sky_manager_create(w->cache, &engine, options, &w->manager, NULL), SKY_OK);
    assert_int_equal(sky_sequence_open(w->manager, &engine, &w->sequence), SKY_OK);
}

void world_open_on(world *w, sky_layout layout, uint32_t block_tokens, sky_cache *cache) {
    sky_prng random;
    sky_prng_init(&random, 7);
    for (uint32_t i = 0; i < WORLD_TOKENS_MAX; i++)
        w->prompt[i] = (uint32_t)sky_prng_below(&random, 50000);
    made_up_engine_init(&w->engine, &layout, WORLD_TOKENS_MAX);
    w->cache = cache;
    w->manager = NULL;
    w->sequence = NULL;
    world_renew(w, &(sky_manager_options){.block_tokens = block_tokens});
}

void world_open_over(world *w, sky_layout layout, uint32_t block_tokens, const char *const *urls,
                     size_t url_count) {
    sky_error error;
    sky_cache *cache;
    assert_int_equal(sky__opener_set("sky", sky_sim_tier_open, SKY_VERSION_NUMBER), SKY_OK);
    if (sky_cache_open(urls, url_count, &cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    world_open_on(w, layout, block_tokens, cache);
}

void world_open_at(world *w, sky_layout layout, uint32_t block_tokens, const char *url) {
    world_open_over(w, layout, block_tokens, &url, 1);
}

void world_open(world *w, sky_layout layout, uint32_t block_tokens) {
    world_open_at(w, layout, block_tokens, "mem:16MiB");
}

void world_close(world *w) {
    sky_sequence_close(w->sequence);
    sky_manager_destroy(w->manager);
    sky_cache_close(w->cache);
    made_up_engine_deinit(&w->engine);
}

uint64_t world_cold(world *w, uint32_t token_count) {
    return made_up_engine_answer(&w->engine, w->prompt, 0, token_count);
}

uint32_t world_save(world *w, uint32_t token_count) {
    uint32_t blocks;
    uint64_t bytes;
    assert_int_equal(sky_sequence_save(w->sequence, w->prompt, token_count, &blocks, &bytes),
                     SKY_OK);
    assert_true((bytes > 0) == (blocks > 0));
    return blocks;
}

sky_lookup world_look(world *w, uint32_t token_count, sky_time deadline) {
    sky_lookup found;
    assert_int_equal(sky_sequence_load(w->sequence, w->prompt, token_count, deadline, &found),
                     SKY_OK);
    assert_int_equal(w->engine.held_tokens, found.hit_tokens);
    assert_int_equal(found.prompt_tokens, token_count);
    return found;
}

sky_lookup world_expect(world *w, uint32_t token_count, uint64_t answer) {
    sky_lookup found = world_look(w, token_count, 0);
    assert_true(made_up_engine_answer(&w->engine, w->prompt, found.hit_tokens, token_count) ==
                answer);
    return found;
}

sky_payload world_payload(const world *w, uint32_t block_tokens) {
    sky_payload payload;
    assert_int_equal(sky_payload_init(&payload, &w->engine.layout, block_tokens), SKY_OK);
    return payload;
}

stored_block world_fetch(world *w, uint32_t token_count, uint32_t block_tokens, uint32_t block) {
    stored_block b = {.byte_count = world_payload(w, block_tokens).payload_bytes};
    sky_namespace ns;
    sky_manager_namespace(w->manager, &ns);
    sky_block_keys(&ns, w->prompt, token_count, block_tokens, b.keys, 16);
    b.bytes = malloc(b.byte_count);
    sky_span span = {b.bytes, b.byte_count};
    sky_item item = {.key = b.keys[block], .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(w->cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    return b;
}

void world_put_back(world *w, stored_block *b, uint32_t block) {
    sky_span span = {b->bytes, b->byte_count};
    sky_item item = {.key = b->keys[block], .spans = &span, .span_count = 1};
    if (block > 0)
        item.parent = b->keys[block - 1];
    assert_int_equal(sky_run(w->cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    free(b->bytes);
}

void world_remove(world *w, uint32_t token_count, uint32_t block_tokens, uint32_t block) {
    stored_block b = world_fetch(w, token_count, block_tokens, block);
    free(b.bytes);
    sky_item item = {.key = b.keys[block]};
    assert_int_equal(sky_run(w->cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
}
