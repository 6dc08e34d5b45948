/* A scenario in virtual time. */
#ifndef SKY_LAB_SIM_RUN_H
#define SKY_LAB_SIM_RUN_H

#include <skymem/types.h>

#include "lab/sim/workload.h"

#define SKY_SIM_CHECKS_MAX  24
#define SKY_SIM_GROUNDS_MAX 16
#define SKY_SIM_USERS_MAX   64

/* What happened in a part of a run. */
typedef struct {
    double from_s;
    double to_s;
    uint64_t gets; /* ended in it */
    uint64_t hits;
    sky_quantile p50; /* of the hits */
    sky_quantile p99;
    uint64_t migrated_bytes;
    uint64_t rotations; /* of the sky, since the start */
    struct {
        const char *name;
        uint64_t gets, hits;
        sky_quantile p50;
    } grounds[SKY_SIM_GROUNDS_MAX];
    uint32_t ground_count;
} sky_sim_interval;

typedef struct {
    uint64_t seed;
    double until_s;         /* 0: the scenario's own end */
    const char *trace_path; /* NULL: no trace; else one line an event */
    const char *csv_path;   /* NULL: none; else one line a request (lab/sim/request_log.h) */
    uint64_t events_max;    /* 0: no limit; else more of them end it with SKY_E_BUSY */

    /* NULL: no series; else told each series_s of virtual time. */
    void (*series)(void *context, const sky_sim_interval *interval);
    void *series_context;
    double series_s;
} sky_sim_options;

/* What one of the grounds did, or one of the users, whose times are with the way over land. */
typedef struct {
    char name[32];
    uint64_t gets, hits, sets;
    uint64_t unanswered; /* gets that ended in an error */
    sky_quantile p50;    /* of the hits' times */
    sky_quantile p99;
} sky_sim_ground;

typedef struct {
    uint64_t seed;
    uint64_t trace_hash; /* the same for the same file and seed, on every machine */
    double virtual_s;    /* until no more was asked */
    double closing_s;    /* from then until all was quiet: what was open came in */
    double wall_s;
    uint64_t events;
    uint64_t sets;
    uint64_t gets;
    uint64_t hits;
    uint64_t misses;
    uint64_t wrong_bytes;
    uint64_t lost_acknowledged;
    sky_quantile p50; /* of the hits' times */
    sky_quantile p99;
    struct {
        char name[48];
        bool passed;
    } checks[SKY_SIM_CHECKS_MAX];
    uint32_t check_count;

    sky_sim_ground grounds[SKY_SIM_GROUNDS_MAX]; /* the first is the observer's */
    uint32_t ground_count;
    sky_sim_ground users[SKY_SIM_USERS_MAX];
    uint32_t user_count;

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
sky_status sky_sim_run(const char *scenario_path, const sky_sim_options *options,
                       sky_sim_result *result, sky_error *error);

/* The same for a scenario that is no file; messages call it `name`. */
sky_status sky_sim_run_text(const char *text, size_t bytes, const char *name,
                            const sky_sim_options *options, sky_sim_result *result,
                            sky_error *error);

#endif
