/* The life of a cache: sessions that come back, answered cold and from each tier and level.
 *
 *   kind              prompts                                      what is found again
 *   multi-turn        document, question, answer, question, …      the conversation so far
 *   multi-request     document, question | document, question      the document
 *   shared-document   as multi-turn, of users over one document    the document, and each one's own
 *
 * Sessions take turns, so that what one left is not the newest when it comes back. The cold run
 * fixes all prompts: a conversation goes on with the answers of the cold run, so that each request
 * can be compared with it.
 *
 * workload_sessions.c makes the prompts, workload_replay.c answers them, verb_workload.c tells. */
#ifndef SKYMEM_CLI_WORKLOAD_H
#define SKYMEM_CLI_WORKLOAD_H

#include "model.h"

#ifdef SKYMEM_WITH_LLAMA

#define WORKLOAD_STORE        "store" /* the tier that stands for those of --store */
#define WORKLOAD_SESSIONS_MAX 64
#define WORKLOAD_TURNS_MAX    64
#define WORKLOAD_REQUESTS_MAX (WORKLOAD_SESSIONS_MAX * WORKLOAD_TURNS_MAX)

typedef enum { WORKLOAD_TURNS, WORKLOAD_REQUESTS, WORKLOAD_SHARED, WORKLOAD_KINDS } workload_kind;
extern const char *const workload_kind_names[WORKLOAD_KINDS];

typedef struct {
    uint32_t *tokens;
    size_t count;
} workload_text;

/* One answer: when its first token was known, and how long it kept the model busy. */
typedef struct {
    sky_lookup lookup;
    double ttft_ms;
    double busy_ms;   /* with storing what is new */
    uint32_t *tokens; /* [predict] */
    size_t count;
    size_t held; /* tokens of prompt and answer that the engine holds afterwards */
} workload_answer;

typedef struct {
    workload_text prompt; /* and room for an answer */
    workload_answer cold;
} workload_request;

typedef struct {
    cli *c;
    cli_model model;
    uint32_t block_tokens, predict, context, sessions, turns;
    workload_text documents[WORKLOAD_SESSIONS_MAX]; /* `context` tokens each */
    workload_text *questions;
    size_t question_count;
    double *arrivals_ms; /* [WORKLOAD_REQUESTS_MAX], of the first requests; NULL: one by one */
    workload_kind kind;  /* of the requests below */
    workload_request requests[WORKLOAD_REQUESTS_MAX];
    size_t request_count;
    workload_answer warm; /* scratch */
} workload;

/* A tier at a level, over all requests of a kind. */
typedef struct {
    const char *tier;
    const char *level; /* "none": as the engine has it; "own": as the URLs of --store say */
    uint64_t prompt_tokens, hit_tokens, overlapped_tokens;
    uint64_t bytes_moved, bytes_stored;
    uint32_t corrupt_blocks;
    uint32_t answers_changed;
    double ttft_ms, cold_ttft_ms;         /* medians */
    double response_ms, cold_response_ms; /* the same with the wait for those before it */
} workload_row;

/* workload_sessions.c; each returns an exit code after having said why. */
int workload_read_arrivals(workload *w, const char *path, double speed);
/* Documents and questions as tokens of the model. */
int workload_prepare(workload *w);
/* Answer all requests of a kind cold. */
int workload_cold(workload *w, workload_kind kind);
void workload_free(workload *w);

/* workload_replay.c */
/* Answer a request with what the sequence finds (NULL: cold). */
int workload_answer_one(workload *w, sky_sequence *sequence, const workload_text *prompt,
                        workload_answer *a);
/* The requests of workload_cold once more, from one tier, which is empty at first; NULL: from the
 * tiers of --store, as they are. */
int workload_replay(workload *w, const char *url, workload_row *row);

#endif
#endif
