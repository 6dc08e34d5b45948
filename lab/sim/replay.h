/* Requests of a real service against a memory and a sky. */
#ifndef SKY_LAB_SIM_REPLAY_H
#define SKY_LAB_SIM_REPLAY_H

#include <skymem/types.h>

#define SKY_REPLAY_S_MAX 31622400.0 /* 366 days */

/* Requests of a real service, replayed against a memory of some blocks, with or without a sky
 * behind it. A request's prompt is a chain of blocks; its leading blocks that are held are loaded,
 * the rest is computed, and what is new goes to memory at once and to the sky behind it. */
typedef struct {
    double at_s; /* from 0 to SKY_REPLAY_S_MAX */
    uint32_t tokens;
    const uint32_t *blocks; /* the same number: the same block after the same ones */
    uint32_t block_count;
} sky_replay_request;

typedef struct {
    const char *scenario_path; /* NULL: no sky. workload.value is a block's bytes */
    uint32_t block_tokens;
    uint32_t block_end;      /* every block's number is below */
    uint32_t memory_blocks;  /* the least recently used goes first */
    double prefill_tokens_s; /* what the engine computes */
    uint64_t seed;
} sky_replay_options;

typedef struct {
    uint64_t requests;
    uint64_t blocks;
    uint64_t memory_hits; /* leading blocks that were there, none behind a hole */
    uint64_t sky_hits;
    uint64_t sky_misses; /* thought to be there */
    uint64_t sky_sets;
    uint64_t dropped_sets; /* the sky was busy */
    uint64_t evictions;    /* chunks that satellites gave up by themselves */
    uint64_t gossip;       /* messages in which they told each other */
    double computed_s;     /* by the engine, of all requests */
    double loaded_s;       /* waiting for the sky */
    double ttft_mean_s;    /* both, per request */
    double ttft_p50_s;
    double ttft_p99_s;
    double virtual_s;
    double wall_s;
    uint64_t events;
} sky_replay_result;

/* Shape:  requests [count], in order of time
 * Errors: SKY_E_PARAM, SKY_E_NOMEM, and those of the scenario */
sky_status sky_replay_run(const sky_replay_request *requests, size_t count,
                          const sky_replay_options *options, sky_replay_result *out,
                          sky_error *error);

#endif
