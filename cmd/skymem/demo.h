/* The demo: one shared prefix, several questions, answered cold and from every tier.
 *
 *   tokens  | 2,048 of the handbook            | 32 of a question |
 *             found in a tier, or computed        always computed
 *
 * demo_text.c has the text, demo_measure.c answers and times, demo_host.c runs a host beside it,
 * demo_prefill.c has another process compute, demo_promise.c judges the times, demo_report.c
 * tells. */
#ifndef SKYMEM_CLI_DEMO_H
#define SKYMEM_CLI_DEMO_H

#include "model.h"

#define CLI_DEMO_QUESTIONS 3
extern const char cli_demo_text[];
extern const char *const cli_demo_questions[CLI_DEMO_QUESTIONS];

#ifdef SKYMEM_WITH_LLAMA

#include <sys/types.h>

#define DEMO_SHARED     2048u
#define DEMO_SUFFIX     32u
#define DEMO_PROMPT     (DEMO_SHARED + DEMO_SUFFIX)
#define DEMO_PARTIAL    CLI_DEMO_QUESTIONS /* the prompt that shares only its beginning */
#define DEMO_PROMPTS    (CLI_DEMO_QUESTIONS + 1)
#define DEMO_ROWS_MAX   15
#define DEMO_ROUNDS_MAX 5

/* One answer: what it said, and when its first token was known. */
typedef struct {
    double ttft_ms;
    double load_ms;
    double compute_ms;
    uint32_t hit_tokens;
    uint32_t computed_tokens; /* of hit_tokens: while the others came */
    uint64_t bytes_loaded;
    uint32_t *tokens; /* [predict] */
    uint32_t token_count;
    float *logits; /* [vocabulary] of the first token */
} demo_answer;

typedef struct {
    char source[32];
    double ttft_ms;
    double speedup; /* the cold row's ttft_ms, divided by this one's */
    double bare_ms; /* 0: not measured */
    double load_ms;
    double compute_ms;
    double load_alone_ms;    /* with nothing computed meanwhile; 0: not measured */
    double compute_alone_ms; /* the longer of a run before and one after it */
    double wait_ms;          /* of ttft_ms: for a process that computed the text; 0: none did */
    uint32_t hit_tokens;
    uint32_t computed_tokens; /* of hit_tokens, in the last answer */
    uint64_t bytes_loaded;
    uint64_t bytes_moved; /* for one answer: fewer than loaded where the tier keeps them coded */
    bool lossy;           /* a level: other tokens are no failure */
    bool identical;
    bool logits_equal;
    bool sky;
    sky_sky_report report;
    uint64_t rotations; /* between put and the last get */
} demo_row;

typedef struct {
    cli *c;
    cli_model model;
    uint32_t block_tokens;
    uint32_t predict;
    uint32_t vocabulary;
    uint32_t *prompts[DEMO_PROMPTS]; /* [DEMO_PROMPT + predict] */
    demo_answer cold[DEMO_PROMPTS];
    demo_answer warm; /* scratch */
    void *bare;       /* llama.cpp's own state of the shared tokens */
    size_t bare_bytes;
    double load_alone_ms, compute_alone_ms; /* over the slow link */
    cli_store memory; /* holds the blocks that every other tier is filled from */
    sky_manager *manager;
    sky_sequence *sequence;
    demo_row rows[DEMO_ROWS_MAX];
    size_t row_count;
} demo;

/* demo_measure.c; each returns an exit code after having said why. */
int demo_prepare(demo *d);
int demo_cold(demo *d);
int demo_fill_memory(demo *d);
int demo_warm(demo *d, const char *source, sky_sequence *sequence, size_t first_prompt,
              size_t prompt_count, size_t rounds);
/* level NULL: blocks lie there as they are; else coded, and the row is called SOURCE-LEVEL. */
int demo_disk(demo *d, const char *level);
int demo_sky(demo *d, const char *scenario, const char *time_scale, const char *level);
/* From the memory of a skymemd, which is a process of its own. */
int demo_shm(demo *d);
/* A link so slow that the engine computes the head while the tail is loaded. */
int demo_slow(demo *d, const char *scenario, const char *time_scale);
int demo_udp(demo *d, const char *scenario);
void demo_free(demo *d);

/* demo_prefill.c: another process computes the text; the answer is given as its blocks came, over
 * the socket of a host or over TCP. */
int demo_prefill(demo *d, const char *source, bool tcp);

/* demo_host.c: a process that ends with this one. argv: its program and its arguments, ended by
 * NULL; output: its standard output, -1: what it writes is dropped. Returns 0 or less if it cannot.
 * A stop waits for its end; that of none (0) is fine. */
pid_t demo_process_start(const char *const argv[], int output);
void demo_process_stop(pid_t process);
/* A skymemd at `socket`, whose arena holds 1 GiB; more: other arguments, ended by NULL, or NULL.
 * Says why when it cannot. The caller stops it. */
int demo_host_start(const demo *d, const char *socket, const char *const *more, pid_t *host);

/* demo_promise.c */
#define DEMO_WARNINGS_MAX DEMO_ROWS_MAX /* one for each row, the cold one included */
typedef struct {
    char texts[DEMO_WARNINGS_MAX][200];
    size_t count;
} demo_warnings;
/* The longest time to the first token that a row keeps its promise with; 0 for the cold row. */
double demo_promised_ms(const demo *d, const demo_row *row);
/* The slowest cold question's time, divided by the fastest one's. */
double demo_cold_spread(const demo *d);
/* A sentence for each row that is slower than promised, and for a cold row that is not steady. */
void demo_warn(const demo *d, demo_warnings *warnings);

/* demo_report.c */
void demo_tell(const demo *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void demo_tell_answer(const demo *d, size_t question);
void demo_tell_row(const demo *d);
int demo_report(const demo *d);

#endif
#endif
