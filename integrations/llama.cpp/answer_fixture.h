/* A model, a cache and a manager, and answers as hashes of logits: equal means equal to the last
 * bit. */
#ifndef SKYMEM_LLAMA_ANSWER_FIXTURE_H
#define SKYMEM_LLAMA_ANSWER_FIXTURE_H

#include <skymem/skymem.h>

#include "skymem_llama.h"

#define GENERATED_MAX 64

typedef struct {
    sky_llama *llama;
    const sky_engine *engine;
    sky_cache *cache;
    sky_manager *manager;
    sky_sequence *sequence;
    bool shares; /* another's cache */
} bench;

typedef struct {
    uint32_t tokens[GENERATED_MAX];
    uint64_t logits[GENERATED_MAX]; /* hash of the logits that chose tokens[i] */
    uint32_t count;
} answer;

/* context_tokens are reserved before the manager learns the layout; block_tokens 0: the default. */
void bench_open(bench *b, const sky_llama_options *options, uint32_t context_tokens,
                uint32_t block_tokens);
void bench_close(bench *b);

/* Another manager, over the same cache. */
void bench_manager(bench *b, const sky_manager_options *options);
void bench_block_tokens(bench *b, uint32_t block_tokens);

/* Another manager, over the cache of `owner`, which is closed after it. */
void bench_share(bench *b, const bench *owner, uint32_t block_tokens);

/* Compute tokens [first_token, token_count) and go on greedily for `generated` tokens. */
answer bench_answer(bench *b, const uint32_t *tokens, uint32_t first_token, uint32_t token_count,
                    uint32_t generated);
void expect_same(const answer *a, const answer *b);

uint32_t bench_save(bench *b, const uint32_t *tokens, uint32_t token_count);
sky_lookup bench_look(bench *b, const uint32_t *tokens, uint32_t token_count);

/* Look up, expect hit_tokens, answer, and expect the same as `cold`. */
void bench_expect(bench *b, const uint32_t *tokens, uint32_t token_count, uint32_t hit_tokens,
                  const answer *cold);

/* The engine holds the prompt, as a cold run left it. For each number in `computed`, it computes so
 * many first tokens of the prompt while rows of that cold run, up to `prefix`, are written behind
 * them, and goes on as a cold run does. 64 divides all of them. */
void bench_expect_met(bench *b, const uint32_t *tokens, uint32_t token_count, uint32_t prefix,
                      const uint32_t *computed, size_t computed_count, const answer *cold);

/* Four prompts share their first `common` tokens: prompt n goes on with the tokens from number
 * common + n × 16 on. In one context with four slots, as sequences over one manager, the first
 * computes and saves, the others find what is common, and they generate in turns. Each must get the
 * logits that it gets in a context of its own, to the last bit. */
void expect_slots(const sky_llama_options *options, const uint32_t *tokens, uint32_t common,
                  uint32_t token_count, uint32_t block_tokens, uint32_t generated);

#endif
