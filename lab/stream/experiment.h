/* Experiments with the planner in virtual time: contexts one after another over links that vary, by
 * the planner, by the loops it is compared with and by an oracle. All times are virtual
 * nanoseconds. */
#ifndef SKY_LAB_STREAM_EXPERIMENT_H
#define SKY_LAB_STREAM_EXPERIMENT_H

#include "base/prng.h"
#include "stream/planner.h"

/* A link's rate over time: samples of step_ns each; past the end it starts again. */
typedef struct {
    const double *rates; /* bytes a second */
    uint32_t count;
    sky_time step_ns;
} sky_trace;

typedef enum {
    SKY_TRACE_STEADY,
    SKY_TRACE_STEPS,    /* a new rate every 2 to 20 s */
    SKY_TRACE_SAWTOOTH, /* climbs for 8 s, falls to a quarter */
    SKY_TRACE_HANDOVER, /* every 15 s 0.1 to 1 s of silence and a new rate */
    SKY_TRACE_WALK,     /* random walk, as recorded on mobile links, with fades */
} sky_trace_kind;
#define SKY_TRACE_KINDS 5

/* "steady", "steps", "sawtooth", "handover", "walk". */
const char *sky_trace_name(sky_trace_kind kind);
/* The same numbers for the same seed on every machine, around `rate` bytes a second.
 * Shape:  rates [count] */
void sky_trace_fill(sky_trace_kind kind, uint64_t seed, double rate, sky_time step_ns,
                    double *rates, uint32_t count);

typedef enum {
    SKY_POLICY_PACER,            /* this file's */
    SKY_POLICY_CACHEGEN_WRITTEN, /* the loop as the source prints it */
    SKY_POLICY_CACHEGEN_MEANT,   /* the loop as its text says */
    SKY_POLICY_ORACLE,           /* knows the trace */
} sky_policy;
#define SKY_POLICIES 4
/* "pacer", "cachegen-written", "cachegen-meant", "oracle". */
const char *sky_policy_name(sky_policy policy);

/* Contexts one after another over one link, each with its deadline after it begins. */
typedef struct {
    const sky_segment *segments;
    uint32_t segment_count;
    sky_trace traces[SKY_PACER_SOURCES_MAX];
    uint32_t source_count;
    sky_time delay_ns; /* from asking to the first byte */
    double slow_share; /* of requests whose answer takes slow_ns longer to begin */
    sky_time slow_ns;
    double busy_share; /* of segments that the engine begins late, having others to serve */
    sky_time busy_ns;  /* by how much at most */
    sky_time pause_ns; /* between a context's end and the next */
    bool unknown;      /* nothing is known of the links before the first context */
    uint32_t contexts;
    uint64_t seed;             /* of slow answers and of a busy engine */
    sky_pacer_options options; /* deadline_ns: relative to a context's beginning */
} sky_experiment;

typedef struct {
    uint32_t contexts;
    uint32_t late;         /* not complete by the deadline */
    uint32_t impossible;   /* of those, late for the oracle too */
    double loss;           /* a token, mean over contexts that were in time */
    double loss_oracle;    /* the oracle's over the same contexts */
    double complete_ms;    /* mean time until complete, over the same contexts */
    double computed_share; /* of segments */
    double
        leading_share;   /* of segments: what the engine is given, in time or not; 0 of baselines */
    double wasted_share; /* of bytes */
    uint32_t given_up;
    uint32_t hedged;
} sky_experiment_result;

/* Errors: SKY_E_PARAM (no deadline where the policy needs one, no trace), SKY_E_NOMEM */
sky_status sky_experiment_run(const sky_experiment *experiment, sky_policy policy,
                              sky_experiment_result *out);

/* ---- inside: how one context fares. experiment.c runs the planner, baseline.c the others ---- */

typedef struct {
    sky_time complete_at; /* SKY_TIME_NEVER: not by its deadline */
    double loss;          /* a token */
    uint64_t bytes;
    sky_pacer_report report; /* the planner's */
} sky_outcome;

/* Rate of source `s` at `t`. */
double sky__experiment_rate(const sky_experiment *experiment, uint32_t s, sky_time t);
/* When `bytes` that begin to flow at `from` have arrived, alone on source 0. */
sky_time sky__experiment_arrival(const sky_experiment *experiment, sky_time from, double bytes);

/* How long the engine has others to serve before it begins a segment of the context that began at
 * `start`: the same for every policy. */
sky_time sky__experiment_wait(const sky_experiment *experiment, sky_time start, uint32_t segment);

/* CacheGen's loop; *rate is what the last chunk saw, kept from context to context. */
void sky__baseline_run(const sky_experiment *experiment, bool as_written, sky_time start,
                       double *rate, sky_prng *slow, sky_outcome *out);
void sky__oracle_run(const sky_experiment *experiment, sky_time start, sky_outcome *out);

#endif
