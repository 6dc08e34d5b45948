/* What a load believes of its engine, and how it plans with that: see planner.h. */
#include "stream/planner.h"

/* Of an engine that has computed nothing yet a block is believed to take no less: what a source
 * brings sooner is left to it. */
#define ENGINE_BLOCK_NS_LEAST SKY_MS(50)
/* Tokens that an engine computes at once at most: it cannot stop in between without losing them. */
#define ENGINE_TOKENS_MOST 512
/* The part of the time for the whole head that an engine waits, at most, for the first bytes of a
 * tier that nothing is known of, and the most of that: where its speed is a guess, and else. */
#define ENGINE_WAIT_SHARE      32
#define ENGINE_WAIT_NS_GUESSED SKY_MS(25)
#define ENGINE_WAIT_NS_MOST    SKY_MS(250)

/* A rate that was measured elsewhere says how long to wait, and which sources are sooner than one
 * block. It is not more than a guess: the first step has one block, and is measured. */
sky__engine_belief sky__engine_believe(uint32_t token_ns, sky_time block_ns, uint32_t block_tokens,
                                       uint32_t block_count) {
    sky__engine_belief b = {.block_ns = block_ns, .measured = block_ns > 0};
    if (!b.measured)
        b.block_ns = token_ns ? (sky_time)token_ns * block_tokens : ENGINE_BLOCK_NS_LEAST;
    sky_time most = b.measured || token_ns ? ENGINE_WAIT_NS_MOST : ENGINE_WAIT_NS_GUESSED;
    double share = (double)b.block_ns * block_count / ENGINE_WAIT_SHARE;
    b.wait_ns = share < (double)most ? (sky_time)share : most;
    return b;
}

sky_pacer_options sky__pacer_options_of_load(const sky__engine_belief *engine,
                                             uint32_t block_tokens) {
    return (sky_pacer_options){.engine_alone = true,
                               .engine_run = ENGINE_TOKENS_MOST / block_tokens,
                               .engine_unknown = !engine->measured,
                               .engine_wait = engine->wait_ns};
}
