/* The llama.cpp adapter: one model, one context, as an engine for the manager.
 *
 *   sky_llama_open(options) → engine → sky_manager_create(cache, engine, …)
 *
 * Caveats: KV is stored after rope, as llama.cpp keeps it, so it is right on any machine but equal
 * to the last bit only on CPUs that run the same kernels. Not thread-safe: one prompt at a time. */
#ifndef SKYMEM_LLAMA_H
#define SKYMEM_LLAMA_H

#include <skymem/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sky_llama sky_llama;

/* Called during what takes long, on the thread that does it: loading the model (done and total in
 * thousandths) and computing a prompt (in tokens of the call), first with done = 0. */
typedef enum { SKY_LLAMA_LOADING, SKY_LLAMA_COMPUTING } sky_llama_stage;
typedef void (*sky_llama_progress_fn)(void *context, sky_llama_stage stage, uint32_t done,
                                      uint32_t total);

/* Zeros mean defaults. */
typedef struct {
    const char *model_path;   /* a GGUF file */
    uint32_t context_tokens;  /* 0: as sky_llama_reserve asks, 512 until then */
    uint32_t threads;         /* 0: one a core */
    const char *kv_type;      /* "f16" (default), "f32", "bf16", "q8_0", … for K and V alike */
    bool flash_attention_off; /* V is then transposed and cannot be cut into blocks */
    sky_llama_progress_fn progress; /* NULL: none */
    void *progress_context;
} sky_llama_options;

/* Load a model.
 * Errors: SKY_E_IO (cannot read), SKY_E_SYNTAX (not a GGUF, or damaged), SKY_E_UNSUPPORTED
 *         (llama.cpp refuses it), SKY_E_NOMEM; `error` says which file and why */
sky_status sky_llama_open(const sky_llama_options *options, sky_llama **out, sky_error *error);
void sky_llama_close(sky_llama *llama); /* NULL is fine */

/* The engine to hand to sky_manager_create; lives as long as the adapter. */
const sky_engine *sky_llama_engine(sky_llama *llama);

/* Make the context hold at least `tokens`. What the engine held is lost when it must grow.
 * Errors: SKY_E_FULL (more than the model was trained for), SKY_E_NOMEM */
sky_status sky_llama_reserve(sky_llama *llama, uint32_t tokens, sky_error *error);
uint32_t sky_llama_context_tokens(const sky_llama *llama);
uint32_t sky_llama_trained_tokens(const sky_llama *llama);
/* Weights of the model, each a number. */
uint64_t sky_llama_parameter_count(const sky_llama *llama);

/* After prefill: logits of the last token [vocabulary], NULL when there are none; the token with
 * the greatest (lowest id wins a tie). */
const float *sky_llama_logits(const sky_llama *llama, uint32_t *vocabulary);
uint32_t sky_llama_greedy(const sky_llama *llama);

/* Text of a token, not NUL-terminated; returns its bytes, at most out_bytes. */
size_t sky_llama_piece(const sky_llama *llama, uint32_t token, char *out, size_t out_bytes);
bool sky_llama_is_end(const sky_llama *llama, uint32_t token);

/* llama.cpp's own save and restore of the whole sequence, nothing of ours between: the limit that a
 * warm answer is measured against. The restored state lives in a context of its own, taken at the
 * first save and as large as the other; prefill and logits are its until the next lookup or prompt.
 * Owner:  *blob is malloc'ed, free() it
 * Errors: SKY_E_NOMEM, SKY_E_IO; restore: SKY_E_CORRUPT, SKY_E_PARAM (nothing was saved since the
 *         context grew) */
sky_status sky_llama_state_save(sky_llama *llama, void **blob, size_t *blob_bytes);
sky_status sky_llama_state_restore(sky_llama *llama, const void *blob, size_t blob_bytes,
                                   uint32_t token_count);

#ifdef __cplusplus
}
#endif
#endif
