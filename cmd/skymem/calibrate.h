/* What `calibrate` learns of a model, step by step.
 *
 *   texts ─► segments of 516 tokens ─► means, covariances ─► a basis for each stream
 *        └─► queries, output weights ──────────────────────────┘
 *   texts ─► prefixes ─► each stream coded alone ─► how much it harms ─► its step
 *   segments, steps ─► classes ─► bits of each level ─► steps again ─► .skycal */
#ifndef SKYMEM_CLI_CALIBRATE_H
#define SKYMEM_CLI_CALIBRATE_H

#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

/* The first tokens of a context are unlike all others: they draw the attention nobody needs. */
#define CALIBRATE_SKIP_TOKENS  4u
#define CALIBRATE_ROWS         512u
#define CALIBRATE_BLOCK_TOKENS 128u
#define CALIBRATE_PREFIXES_MAX 3

/* One layer's K or V. */
typedef struct {
    uint32_t layer; /* in the cache's order */
    sky_kv kv;
    uint32_t heads;
    uint32_t dim;
    float *mean;  /* [heads, dim] */
    float *pairs; /* [heads, dim / 2][4] as sky_profile_set_pairs; NULL: identity */
    float *klt_f; /* [heads, dim, dim]; NULL: not asked for */
    float *klt_g;
    double spread; /* mean variance of what is quantised, pair basis and klt */
    double klt_spread;
    double relative[2]; /* step at level 3 over the common one, by sky_basis */
} calibrate_stream;

typedef struct {
    eval_model model;
    sky_llama_layer *layers; /* [layer_count], of the probe */
    uint32_t layer_count;
    calibrate_stream *streams; /* [2 × layer_count] */
    size_t stream_count;

    eval_text *segments; /* originals only: what the cache held of each */
    size_t segment_count;
    eval_text prefixes[CALIBRATE_PREFIXES_MAX]; /* that harm is measured on */
    size_t prefix_count;
    char **texts;
    size_t text_count;
    double step[2][SKY_LEVEL_COUNT]; /* common step: trellis, plain */
    double bits[2][SKY_LEVEL_COUNT]; /* measured with them */
    bool archive;
} calibration;

static inline size_t calibrate_width(const calibrate_stream *s) {
    return (size_t)s->heads * s->dim;
}

/* ---- calibrate_samples.c ---- */

/* Compute all segments of all texts; those shorter than one are told, and taken off the list. */
int calibrate_collect(const cli *c, calibration *k);
void calibrate_free(calibration *k);
/* A stream's rows of all segments, keys turned back, the first tokens left out; each segment gives
 * the same number of rows.
 * Shape: *values [*row_count, heads, dim]. Owner: the caller frees it */
int calibrate_rows(const cli *c, const calibration *k, const calibrate_stream *s, float **values,
                   size_t *row_count);

/* ---- calibrate_basis.c ---- */

/* Means, and the matrices in which to quantise. */
int calibrate_bases(const cli *c, calibration *k);

/* ---- calibrate_matrix.c ---- */

/* Given a covariance and how much errors weigh, the basis y = x F, x = y G in which the channels
 * are uncorrelated and an error of one weighs as much as of another.
 * Shape: all [n, n]. Returns false when out of memory */
bool calibrate_weighted_klt(size_t n, const double *covariance, const double *weight, double *f,
                            double *g);

/* ---- calibrate_steps.c ---- */

/* relative[basis] of all streams, by what each does to the model's answers alone. */
int calibrate_allocate(const cli *c, calibration *k, sky_basis basis);
/* The common steps at which the levels take the bits they are meant to. */
int calibrate_levels(const cli *c, calibration *k);
/* A sealed profile of what is known so far; fitted: with classes for the steps that are set.
 * only_level: set the steps of this level alone; SKY_LEVEL_COUNT: of all. */
int calibrate_profile(const cli *c, const calibration *k, bool fitted, int only_level,
                      sky_profile **out);

#endif
#endif
