/* A link of a given rate, made of a TCP connection over loopback and a thread that paces it. */
#ifndef SKYMEM_CLI_BENCH_STREAM_H
#define SKYMEM_CLI_BENCH_STREAM_H

#include "bench.h"

typedef struct {
    double rate; /* bytes a second */
    sky_time rtt_ns;
} bench_link;

/* Load a context over such a link, the engine's and the decoder's time being slept: the
 * milliseconds until all of it is there. Errors: SKY_E_IO, and what the planner says. */
sky_status bench_link_load(const bench_link *shape, const sky_segment *segments, uint32_t count,
                           sky_link *link, double *ms, sky_pacer_report *report);

#endif
