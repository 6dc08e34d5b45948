/* Where a manager lets a computed head and a loaded tail meet, without leaving it to a clock: a
 * store that reads nothing until the engine is far enough, and an engine that waits there. And what
 * becomes of an answer when either goes wrong meanwhile. */
#ifndef SKYMEM_LLAMA_MEETING_FIXTURE_H
#define SKYMEM_LLAMA_MEETING_FIXTURE_H

#include "answer_fixture.h"

/* A prompt whose whole blocks are in the cache of `b`, and are copied to the store: it is answered
 * over and over. The store opens and the engine stops when it is asked for more than the first
 * `step` blocks, then 2 × `step`, and so on; at last the store stays shut. Each answer must be
 * `cold` to the last bit, with everything known and some of it computed, but no more than up to the
 * stop. */
void bench_expect_meetings(bench *b, const uint32_t *tokens, uint32_t token_count,
                           uint32_t block_tokens, uint32_t step, const answer *cold);

/* The same with a prompt of eight blocks or more, while things go wrong after the engine has
 * computed two blocks at most: the store has a damaged block, dies, or stays shut; the engine
 * fails, with and without a deadline, or is said to be much faster or slower than it is; the
 * request is cancelled. Each answer must be `cold` to the last bit, on top of as much as can be
 * there. */
void bench_expect_trouble(bench *b, const uint32_t *tokens, uint32_t token_count,
                          uint32_t block_tokens, const answer *cold);

#endif
