/* What `eval` and `calibrate` share: a model with full-precision weights, texts, the state of a
 * prefix taken apart into streams, and what changed streams do to the next tokens.
 *
 *   text ─► prefix │ continuation
 *             │            │
 *             ▼            ▼
 *          streams ─► logits (the reference)
 *             │ coded and decoded
 *             ▼
 *          streams ─► logits ─► compared, token by token
 *
 * A stream is one layer's K or V. What the prefix's streams hold is what a cache must keep for the
 * model to go on: window layers have their last rows only. */
#ifndef SKYMEM_CLI_EVAL_H
#define SKYMEM_CLI_EVAL_H

#include "cli.h"

#include <skymem/codec.h>

#ifdef SKYMEM_WITH_LLAMA
#include <skymem_llama.h>
#include <skymem_llama_probe.h>

/* ---- eval_model.c ---- */

typedef struct {
    sky_llama *llama;
    sky_llama_probe *probe;
    const sky_engine *engine;
    char path[4096];         /* as named */
    char weights_path[4096]; /* what is computed with: the same weights as F32 */
    uint64_t weights_bytes;  /* of these */
    uint8_t fingerprint[32]; /* of the model as named */
    uint32_t vocabulary;
} eval_model;

/* Open the model of the settings for contexts of `context_tokens` and decodes of `decode_tokens`.
 * Its weights are dequantised once, into the cache folder; as_it_is: used as they are. */
int eval_model_open(cli *c, uint32_t context_tokens, uint32_t decode_tokens, bool as_it_is,
                    eval_model *out);
void eval_model_close(eval_model *m);

/* ---- eval_text.c ---- */

typedef struct {
    const sky_llama_layer *layer;
    bool is_k;
    uint32_t first_token;
    uint32_t token_count;
    uint32_t heads;
    uint32_t dim;
    const uint16_t *original; /* [token, head, dim] f16, as the model wrote it */
    uint16_t *rows;           /* the same, to be changed: what the model is given back */
} eval_stream;

typedef struct {
    char name[64];
    uint32_t *tokens; /* [prefix + next + 1] */
    uint32_t prefix;
    uint32_t next;

    eval_stream *streams; /* layer by layer in the cache's order, K then V */
    size_t stream_count;
    uint64_t element_count;
    uint16_t *originals;

    uint32_t vocabulary;
    float *logits;   /* [next, vocabulary] with the rows as they were */
    double *log_sum; /* [next] of their exponentials */
    uint32_t *best;  /* [next] */
    double nll;      /* of the text's own next tokens, mean */

    /* Planted facts: instead of going on with the text, each scored token stands behind a question
     * asked of the prefix, and is the right answer. */
    uint32_t **questions; /* [next]; NULL for a text that goes on */
    uint32_t *question_tokens;
    uint32_t *choices; /* the tokens an answer is chosen from */
    size_t choice_count;
    uint32_t right; /* answers chosen rightly with the rows as they were */
} eval_text;

/* Paths of the .txt files of a folder, sorted; the caller frees them. */
int eval_folder_texts(const cli *c, const char *folder, char ***paths, size_t *count);
/* Tokens of a file. Owner: the caller frees *tokens */
int eval_tokens(const cli *c, const eval_model *m, const char *path, uint32_t **tokens,
                size_t *count);

/* Read a text, compute its first `prefix` tokens and the reference for the `next` after them. One
 * text at a time: the streams are the probe's. Frees what *t held. */
int eval_text_load(const cli *c, eval_model *m, const char *path, uint32_t prefix, uint32_t next,
                   eval_text *t);
/* The same for tokens at hand, which are copied. */
int eval_text_take(const cli *c, eval_model *m, const uint32_t *tokens, uint32_t prefix,
                   uint32_t next, eval_text *t);
/* Have the streams be this text's again, after another of an equal prefix. */
void eval_text_resume(const eval_model *m, eval_text *t);
void eval_text_free(eval_text *t);
/* Undo all changes. */
void eval_text_reset(const eval_text *t);

/* ---- eval_score.c ---- */

typedef struct {
    double kld_mean; /* KL(reference ‖ changed) per token, nats */
    double kld_p999; /* the value 99.9 % of the tokens stay below */
    double top1;     /* share of tokens whose likeliest successor stayed */
    double ppl_ratio;
    double rms_dp;  /* of the probability of the text's own next token */
    uint32_t right; /* planted facts: answers chosen rightly */
} eval_score;

/* Logits for scored token i with the rows as they stand, i counting up from 0; NULL: failed. */
const float *eval_logits(eval_model *m, const eval_text *t, uint32_t i);
/* The choice the logits favour. */
uint32_t eval_choice(const eval_text *t, const float *logits);
/* Give the model its rows as they stand and compare. */
int eval_measure(const cli *c, eval_model *m, const eval_text *t, eval_score *out);

/* ---- eval_rows.c ---- */

/* f16 to f32 and back, of a whole stream. */
void eval_rows_read(const eval_stream *s, float *out);
void eval_rows_write(const eval_stream *s, const float *values);
/* A layer's rope as the codec takes it; false: it has none. What stretches keys stays in them. */
bool eval_rope_of(const sky_llama_layer *layer, sky_rope *out);
/* Turn the keys of a stream back; nothing happens to V. Shape: values [token, head, dim] */
void eval_unrope(const eval_stream *s, float *values);
static inline size_t eval_width(const eval_stream *s) {
    return (size_t)s->heads * s->dim;
}
static inline size_t eval_elements(const eval_stream *s) {
    return eval_width(s) * s->token_count;
}

/* ---- schemes: eval_levels.c ---- */

/* A way to store rows: rewrites a text's streams, and says how many bytes they would take. */
typedef struct eval_scheme eval_scheme;
struct eval_scheme {
    const char *name;
    int (*code)(const cli *c, eval_scheme *scheme, eval_text *t, double *bytes);
    /* One stream's values in place, as the cache holds them; bits it would take. */
    void (*stream)(const eval_scheme *scheme, const eval_stream *s, float *values, double *bits);
    int bits;             /* of a reference with a fixed number of them */
    int group;            /* values that share a scale */
    uint32_t layer_count; /* of the text's model: set by coding */

    /* of a level of the codec */
    bool calibrated;            /* asks for a profile, if there is one */
    const sky_profile *profile; /* NULL: codes without */
    sky_level level;
    sky_level from; /* coded at this level first, then lowered */
    bool lowered;
    bool plain;
    sky_level finer; /* of the first or last blocks of a prefix; their numbers: */
    uint32_t finer_first, finer_last;
    float step_scale; /* 0: as the level has it */
    uint32_t block_tokens;
    double encode_s, decode_s; /* set by coding */
};

/* LEVEL[-xSCALE][-plain][-uncalibrated], LEVEL-from-LEVEL, each with +LEVEL@last[N] or @first[N]
 * behind it. Returns NULL, or what is wrong with it: "is neither …". */
const char *eval_scheme_parse(const char *name, const sky_profile *profile, uint32_t block_tokens,
                              eval_scheme *out);
/* One stream of a text through the codec and back into its rows. */
int eval_code_one(const cli *c, const eval_scheme *scheme, const eval_text *t, size_t stream,
                  float step_scale, double *bytes);

#endif
#endif
