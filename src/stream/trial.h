/* Inside the trials: how one context fares. trial.c runs the planner, rival.c the
 * loops it is compared with and the oracle. All times are virtual nanoseconds. */
#ifndef SKY_STREAM_TRIAL_H
#define SKY_STREAM_TRIAL_H

#include <skymem/stream.h>

#include "base/prng.h"

typedef struct {
    sky_time complete_at; /* SKY_TIME_NEVER: not by its deadline */
    double loss;          /* a token */
    uint64_t bytes;
    sky_pacer_report report; /* the planner's */
} sky_outcome;

/* Rate of source `s` at `t`. */
double sky__trial_rate(const sky_trial *trial, uint32_t s, sky_time t);
/* When `bytes` that begin to flow at `from` have arrived, alone on source 0. */
sky_time sky__trial_arrival(const sky_trial *trial, sky_time from, double bytes);

/* How long the engine has others to serve before it begins a segment of the context that began at
 * `start`: the same for every policy. */
sky_time sky__trial_wait(const sky_trial *trial, sky_time start, uint32_t segment);

/* CacheGen's loop; *rate is what the last chunk saw, kept from context to context. */
void sky__rival_run(const sky_trial *trial, bool as_written, sky_time start, double *rate,
                    sky_prng *slow, sky_outcome *out);
void sky__oracle_run(const sky_trial *trial, sky_time start, sky_outcome *out);

#endif
