/* Scenarios, the simulator, and what an embedded sky can tell about itself. */
#ifndef SKYMEM_SIM_H
#define SKYMEM_SIM_H

#include <skymem/cache.h>
#include <skymem/sky.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint64_t seed;
    double until_s;         /* 0: the scenario's own end */
    const char *trace_path; /* NULL: no trace; else one line an event */
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
} sky_sim_result;

/* Run a scenario in virtual time: the satellites and the ground session are the ones that fly in
 * the sky tier.
 * Errors: SKY_E_SYNTAX, SKY_E_PARAM (the scenario; `error` has file, line and reason), SKY_E_NOMEM,
 *         SKY_E_IO. A failed check is no error: see result->checks */
SKY_API sky_status sky_sim_run(const char *scenario_path, const sky_sim_options *options,
                               sky_sim_result *result, sky_error *error);

/* Where the time of the last batch of gets from an embedded sky went: the path of its last chunk,
 * and what the sky did so far. The four parts add up to total_ns. */
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
} sky_sky_report;

/* Errors: SKY_E_PARAM: tier `tier` is not an embedded sky */
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
