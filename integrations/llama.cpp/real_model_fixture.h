/* Real models: where they lie, prompts for them, and what every one of them must keep. */
#ifndef SKYMEM_LLAMA_REAL_MODEL_FIXTURE_H
#define SKYMEM_LLAMA_REAL_MODEL_FIXTURE_H

#include "answer_fixture.h"

#define REAL_TOKENS_MAX 2304

typedef struct {
    char path[4096];
    uint32_t threads;                 /* 0: all cores */
    uint32_t prompt[REAL_TOKENS_MAX]; /* set by real_model_open */
} real_model;

/* A model of `skymem model ls` that this machine has, by $SKYMEM_BUILD/model-NAME.path. name NULL:
 * SKYMEM_MODEL, or the demo's, by $SKYMEM_BUILD/model.path. */
bool real_model_find(real_model *m, const char *name);

/* Open it with a manager over a memory tier, blocks of 128 tokens, and make a prompt for it. */
void real_model_open(real_model *m, bench *b, const char *kv_type, uint32_t context_tokens);

/* The calibration that comes along is small, whole and of this model, which finds it so. */
void real_model_expect_calibration(const bench *b, const char *path);

#endif
