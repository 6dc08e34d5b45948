/* See answer_fixture.h. */
#include "answer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void close_manager(bench *b) {
    sky_sequence_close(b->sequence);
    sky_manager_destroy(b->manager);
    b->sequence = NULL;
    b->manager = NULL;
}

void bench_block_tokens(bench *b, uint32_t block_tokens) {
    sky_error error = {0};
    sky_manager_options options = {.block_tokens = block_tokens};
    close_manager(b);
    if (sky_manager_create(b->cache, b->engine, &options, &b->manager, &error) != SKY_OK ||
        sky_sequence_open(b->manager, b->engine, &b->sequence) != SKY_OK)
        fail_msg("%s", error.text);
}

void bench_share(bench *b, const bench *owner, uint32_t block_tokens) {
    close_manager(b);
    sky_cache_close(b->cache);
    b->cache = owner->cache;
    b->shares = true;
    bench_block_tokens(b, block_tokens);
}

void bench_open(bench *b, const sky_llama_options *options, uint32_t context_tokens,
                uint32_t block_tokens) {
    sky_error error = {0};
    const char *url = "mem:192MiB";
    *b = (bench){0};
    if (sky_llama_open(options, &b->llama, &error) != SKY_OK ||
        sky_llama_reserve(b->llama, context_tokens, &error) != SKY_OK ||
        sky_cache_open(&url, 1, &b->cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    b->engine = sky_llama_engine(b->llama);
    bench_block_tokens(b, block_tokens);
}

void bench_close(bench *b) {
    close_manager(b);
    if (!b->shares)
        sky_cache_close(b->cache);
    sky_llama_close(b->llama);
}

answer bench_answer(bench *b, const uint32_t *tokens, uint32_t first_token, uint32_t token_count,
                    uint32_t generated) {
    answer a = {.count = generated};
    const sky_engine_ops *ops = b->engine->ops;
    assert_int_equal(
        ops->prefill(b->engine->self, tokens + first_token, first_token, token_count - first_token),
        SKY_OK);
    for (uint32_t i = 0; i < generated; i++) {
        uint32_t vocabulary;
        const float *logits = sky_llama_logits(b->llama, &vocabulary);
        assert_non_null(logits);
        a.logits[i] = sky_content_hash(logits, vocabulary * sizeof *logits, 0);
        a.tokens[i] = sky_llama_greedy(b->llama);
        if (i + 1 < generated)
            assert_int_equal(ops->prefill(b->engine->self, &a.tokens[i], token_count + i, 1),
                             SKY_OK);
    }
    return a;
}

void expect_same(const answer *a, const answer *b) {
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->logits[i] != b->logits[i])
            fail_msg("the logits of generated token %u are not the same (tokens %u and %u)", i,
                     a->tokens[i], b->tokens[i]);
        assert_int_equal(a->tokens[i], b->tokens[i]);
    }
}

uint32_t bench_save(bench *b, const uint32_t *tokens, uint32_t token_count) {
    uint32_t blocks;
    uint64_t bytes;
    assert_int_equal(sky_sequence_save(b->sequence, tokens, token_count, &blocks, &bytes), SKY_OK);
    return blocks;
}

sky_lookup bench_look(bench *b, const uint32_t *tokens, uint32_t token_count) {
    sky_lookup found;
    assert_int_equal(sky_sequence_load(b->sequence, tokens, token_count, 0, &found), SKY_OK);
    assert_int_equal(found.corrupt_blocks, 0);
    return found;
}

void bench_expect(bench *b, const uint32_t *tokens, uint32_t token_count, uint32_t hit_tokens,
                  const answer *cold) {
    sky_lookup found = bench_look(b, tokens, token_count);
    assert_int_equal(found.hit_tokens, hit_tokens);
    answer warm = bench_answer(b, tokens, hit_tokens, token_count, cold->count);
    expect_same(&warm, cold);
}
