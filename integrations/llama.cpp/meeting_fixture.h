/* Where a manager lets a computed head and a loaded tail meet, without leaving it to a clock: a
 * store that reads nothing until the engine is far enough, and an engine that waits there. */
#ifndef SKYMEM_LLAMA_MEETING_FIXTURE_H
#define SKYMEM_LLAMA_MEETING_FIXTURE_H

#include "answer_fixture.h"

/* Stores the whole blocks of a prompt, and answers it over and over: the store opens and the engine
 * stops when it is asked for more than the first `step` blocks, then 2 × `step`, and so on; at last
 * the store stays shut. Each answer must be `cold` to the last bit, with everything known and some
 * of it computed, but no more than up to the stop. */
void bench_expect_meetings(bench *b, const uint32_t *tokens, uint32_t token_count,
                           uint32_t block_tokens, uint32_t step, const answer *cold);

#endif
