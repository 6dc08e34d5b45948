/* Scenarios, the simulator, and what an embedded sky can tell about itself. */
#ifndef SKYMEM_SIM_H
#define SKYMEM_SIM_H

#include <skymem/cache.h>
#include <skymem/sky.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happened in a part of a run. */
typedef struct {
    double from_s;
    double to_s;
    uint64_t gets; /* ended in it */
    uint64_t hits;
    double p50_ms; /* of the hits */
    double p99_ms;
    uint64_t migrated_bytes;
    uint64_t rotations; /* of the sky, since the start */
} sky_sim_interval;

typedef struct {
    uint64_t seed;
    double until_s;         /* 0: the scenario's own end */
    const char *trace_path; /* NULL: no trace; else one line an event */
    uint64_t events_max;    /* 0: no limit; else more of them end it with SKY_E_BUSY */

    /* NULL: no series; else told each series_s of virtual time. */
    void (*series)(void *context, const sky_sim_interval *interval);
    void *series_context;
    double series_s;
} sky_sim_options;

#define SKY_SIM_CHECKS_MAX 16

typedef struct {
    uint64_t seed;
    uint64_t trace_hash; /* the same for the same file and seed, on every machine */
    double virtual_s;
    double wall_s;
    uint64_t events;
    uint64_t sets;
    uint64_t gets;
    uint64_t hits;
    uint64_t misses;
    uint64_t wrong_bytes;
    uint64_t lost_acknowledged;
    double p50_ms;
    double p99_ms;
    struct {
        char name[48];
        bool passed;
    } checks[SKY_SIM_CHECKS_MAX];
    uint32_t check_count;

    uint64_t unanswered; /* gets that ended in an error */
    uint64_t bytes_read; /* of all hits */
    uint64_t migrated_bytes;
    uint64_t message_bytes; /* of everything sent */
    uint64_t lookups;       /* keys, or prompts, not all in the index and looked for in the sky */
    uint64_t questions;     /* that these asked one after another */
} sky_sim_result;

/* Run a scenario in virtual time: the satellites and the ground session are the ones that fly in
 * the sky tier.
 * Errors: SKY_E_SYNTAX, SKY_E_PARAM (the scenario; `error` has file, line and reason), SKY_E_NOMEM,
 *         SKY_E_IO. A failed check is no error: see result->checks */
SKY_API sky_status sky_sim_run(const char *scenario_path, const sky_sim_options *options,
                               sky_sim_result *result, sky_error *error);

/* The same for a scenario that is no file; messages call it `name`. */
SKY_API sky_status sky_sim_run_text(const char *text, size_t bytes, const char *name,
                                    const sky_sim_options *options, sky_sim_result *result,
                                    sky_error *error);

/* Draw a scenario: a sky, a workload and a mix of faults, the same for the same seed. Each lasts
 * `hours` of virtual time, and asks little enough that many hours pass in a minute.
 * Returns the length of `text`, at most SKY_SIM_DRAWN_MAX - 1 */
#define SKY_SIM_DRAWN_MAX 2048
SKY_API size_t sky_sim_draw(uint64_t seed, double hours, char text[SKY_SIM_DRAWN_MAX]);

/* Make a scenario that fails smaller: leave out keys and halve numbers for as long as the same
 * check fails, in at most `runs` runs.
 * Shape:  text [text_max] holds a scenario, and the smaller one afterwards
 * Errors: SKY_E_PARAM (it does not fail), as sky_sim_run_text */
SKY_API sky_status sky_sim_shrink(char *text, size_t text_max, const sky_sim_options *options,
                                  uint32_t runs, sky_error *error);

/* One point of the study: one block is set and got, by the session and satellites that fly. The
 * sky is the ideal one; with loss 0 and no rates it is the seed authors' own model. */
typedef struct {
    sky_constellation constellation;
    sky_placement placement;
    sky_satellite centre;
    uint32_t chunk_bytes;
    uint64_t block_bytes;
    sky_time processing_ns; /* per chunk */
    uint64_t isl_bits_s;    /* 0: no limit */
    uint64_t ground_bits_s;
    double loss;     /* of a datagram */
    uint32_t parity; /* pieces in each stripe of `servers` chunks */
    uint32_t gets;   /* 0: the formula alone */
    uint64_t seed;
    bool datagrams; /* the transport of real satellites flies, and its datagrams are lost */
} sky_study_point;

typedef struct {
    /* What the authors tell: when each server's satellite had served its last chunk, light to it
     * counted one way. Of the first get; servers without a chunk take their light's time. */
    double served_max_s, served_min_s, served_avg_s;
    /* The same by their formula: distance / light + chunks of the server × processing. */
    double formula_max_s, formula_min_s, formula_avg_s;
    double off_ns_max; /* the largest difference between the two, of any server */
    /* Until the block was there, light counted both ways, and the wait for the link. */
    double get_p50_ms, get_p99_ms, get_max_ms;
    double to_payload; /* bytes of all messages (or datagrams) of the gets to bytes asked for */
    uint32_t answered; /* gets that were */
    uint64_t events;
} sky_study_result;

/* Errors: SKY_E_PARAM (the point cannot be; `error` says why), SKY_E_NOMEM, SKY_E_IO (the set found
 * no answer) */
SKY_API sky_status sky_study_run(const sky_study_point *point, sky_study_result *out,
                                 sky_error *error);

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
SKY_API sky_status sky_replay_run(const sky_replay_request *requests, size_t count,
                                  const sky_replay_options *options, sky_replay_result *out,
                                  sky_error *error);

/* Where the time of the last gets from an embedded sky went, those that were under way together:
 * the path of their last chunk, and what the sky did so far. The four parts add up to total_ns. */
typedef struct {
    sky_time total_ns;
    sky_time light_ns;      /* there and back, at the speed of light */
    sky_time link_ns;       /* serialisation, and waiting for the link behind other chunks */
    sky_time processing_ns; /* at the satellite: its time per chunk, and waiting behind others */
    sky_time session_ns;    /* held back by the session's window */
    uint64_t chunks;
    uint64_t rotations; /* since the tier was opened */
    uint64_t migrated_chunks;
    uint64_t migrated_bytes;
    uint64_t purged_blocks;
    sky_strategy strategy;
    uint32_t servers;
    sky_satellite overhead;
    uint32_t silent;          /* satellites that have not answered for some time */
    sky_satellite silent_one; /* one of them */
    uint64_t refused_stale;   /* datagrams that came to the ground but were sent long before or
                                 after, by its clock */
    uint64_t refused_forged;  /* … that were made under another key, or tampered with */
} sky_sky_report;

/* Errors: SKY_E_PARAM: tier `tier` is no sky */
SKY_API sky_status sky_cache_sky_report(sky_cache *cache, size_t tier, sky_sky_report *out);

/* What of a scenario file describes the sky: for `locate --scenario` and for tools.
 * Errors: as sky_sim_run */
SKY_API sky_status sky_scenario_read(const char *path, sky_constellation *constellation,
                                     sky_placement *placement, sky_satellite *centre,
                                     sky_error *error);

#ifdef __cplusplus
}
#endif
#endif
