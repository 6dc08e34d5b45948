/* The planner over a link and an engine that are only numbers: what a load would come to. */
#ifndef SKY_STREAM_REHEARSE_H
#define SKY_STREAM_REHEARSE_H

#include "stream/planner.h"

/* A fresh process loads a prefix from one source, of which it knows nothing yet. */
typedef struct {
    double tokens;
    double bytes;
    double bytes_per_s; /* that the link carries */
    double delay_ns;    /* from asking to the first byte */
    double token_ns;    /* the engine takes, and was measured at, while the rest is loaded; 0: it
                           computes nothing */
} sky__rehearsal;

typedef struct {
    double end_ns;          /* the load is over */
    double computed_tokens; /* by the engine, of those that are there */
} sky__rehearsed;

/* Errors: SKY_E_NOMEM; SKY_E_PARAM: numbers that are no time or size */
sky_status sky__rehearse(const sky__rehearsal *r, sky__rehearsed *out);

#endif
