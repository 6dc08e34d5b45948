/* Does it pay to store a prefix, and at which level. docs/streaming.md has the formulas. */
#ifndef SKYMEM_STREAM_H
#define SKYMEM_STREAM_H

#include <skymem/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a level typically costs: bits an element of f16 rows, and mean KL divergence. */
typedef struct {
    const char *name;
    double bits;
    double loss;
} sky_level_cost;
/* lossless … archive, as sky_level of skymem/codec.h counts. `count` may be NULL: there are
 * SKY_WORTH_LEVELS. */
SKY_API const sky_level_cost *sky_level_costs(size_t *count);

typedef struct {
    double tokens;          /* of the prefix */
    double bytes_per_token; /* of its f16 rows */
    double compute_ms;      /* a token, by the engine */
    double bandwidth;       /* bits a second from the store to the engine */
    double rtt_ms;
    double reuses; /* answers that begin with it while it is kept */
    double keep_hours;
    double storage_price;      /* a GiB kept for 30 days */
    double compute_price;      /* an hour of the engine */
    double transfer_price;     /* a GiB moved */
    double deadline_ms;        /* 0: none */
    double loss_max;           /* that an answer may have */
    bool overlap;              /* the engine computes a head while the rest is loaded, as a load
                              without a deadline does */
    double loading_compute_ms; /* with overlap: a token, while the rest is loaded, as
                                  sky_lookup.transfer_ns / computed_tokens of such a load measures
                                  it; 0: compute_ms */
} sky_worth_question;

/* One level's side of it. Break-evens are INFINITY when there is none. */
typedef struct {
    double bytes;
    double load_ms;              /* all of it from the store */
    double first_token_ms;       /* the same; with overlap when the manager's planner, over such a
                                    link, has loaded some and computed the rest */
    double computed_tokens;      /* of that head; 0 without overlap */
    double cost_stored;          /* all answers, the storage included */
    double break_even_reuses;    /* it costs less than computing from this many on */
    double break_even_bandwidth; /* loading is faster than computing from this many bits/s on */
    bool acceptable;             /* its loss */
    bool in_time;                /* its deadline */
    bool cheaper;                /* than computing */
    bool faster;                 /* than computing */
} sky_worth_level;

#define SKY_WORTH_LEVELS 8
typedef struct {
    double compute_ms;   /* the prefix from text */
    double cost_compute; /* all answers from text */
    sky_worth_level levels[SKY_WORTH_LEVELS];
    bool store;
    uint32_t level;  /* if store */
    const char *why; /* a sentence without its full stop */
} sky_worth;

/* Store, at which level, or not. Formulas: docs/streaming.md.
 * Errors: SKY_E_PARAM: NULL, or a number that is negative, not finite, 0 where something is
 *         divided, or so large that a sum is no number */
SKY_API sky_status sky_worth_judge(const sky_worth_question *question, sky_worth *out);

#ifdef __cplusplus
}
#endif
#endif
