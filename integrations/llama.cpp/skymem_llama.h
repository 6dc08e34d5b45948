/* The llama.cpp adapter: one model, one context, as an engine for a manager and its sequences.
 *
 *   sky_llama_open(options) ─► sky_llama_engine       → sky_manager_create(cache, engine, …)
 *                                                       sky_sequence_open(manager, engine, …)
 *   with options.slots = 4  ─► sky_llama_slot_engine  → a sequence for each of four prompts in one
 *                              0 … 3                    llama_context
 *
 * Threads: a llama_context is not thread-safe, and all state passes through one buffer. So a single
 * call that touches an adapter may be under way at a time: its own functions, those of its engines,
 * and with them sky_sequence_load and sky_sequence_save of sequences on its slots. The caller sees
 * to that. sky_sequence_cancel may come at any time. Different adapters work in parallel.
 *
 * Caveats: KV is stored after rope, as llama.cpp keeps it, so it is right on any machine but equal
 * to the last bit only on CPUs that run the same kernels. A model with longrope is not cached, as
 * llama.cpp turns its keys by the size of the context, which grows with the prompts.
 *
 * Several slots and a model with a window: a restored prompt that is longer than the window goes
 * on with other low bits than a cold one. Rows that have left the window cannot be stored any more,
 * so that sky_sequence_save of a longer prompt ends SKY_E_PARAM, unless its blocks are stored
 * already. Neither concerns models without windows, nor one slot. */
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

#define SKY_LLAMA_SLOTS_MAX 32

/* Zeros mean defaults. */
typedef struct {
    const char *model_path;  /* a GGUF file */
    uint32_t context_tokens; /* 0: as sky_llama_reserve asks, 512 until then */
    uint32_t threads;        /* 0: one a core */
    const char *kv_type;     /* "f16" (default), "f32", "bf16", "q8_0", … for K and V alike */
    uint32_t slots;          /* prompts in the context at once; 0: 1, at most SKY_LLAMA_SLOTS_MAX */
    bool flash_attention_off;       /* V is then transposed and cannot be cut into blocks */
    sky_llama_progress_fn progress; /* NULL: none */
    void *progress_context;
} sky_llama_options;

/* Load a model.
 * Errors: SKY_E_IO (cannot read), SKY_E_SYNTAX (not a GGUF, or damaged), SKY_E_UNSUPPORTED
 *         (llama.cpp refuses it), SKY_E_NOMEM; `error` says which file and why */
sky_status sky_llama_open(const sky_llama_options *options, sky_llama **out, sky_error *error);
void sky_llama_close(sky_llama *llama); /* NULL is fine */

/* The engine to hand to sky_manager_create and sky_sequence_open, of slot 0; lives as long as the
 * adapter. */
const sky_engine *sky_llama_engine(sky_llama *llama);
/* The engine of a slot; NULL when there is none of this number. */
const sky_engine *sky_llama_slot_engine(sky_llama *llama, uint32_t slot);

/* Make each slot hold at least `tokens`. What the slots held is lost when the context must grow.
 * Errors: SKY_E_FULL (more than the model was trained for), SKY_E_NOMEM */
sky_status sky_llama_reserve(sky_llama *llama, uint32_t tokens, sky_error *error);
uint32_t sky_llama_context_tokens(const sky_llama *llama);
uint32_t sky_llama_trained_tokens(const sky_llama *llama);
/* Weights of the model, each a number. */
uint64_t sky_llama_parameter_count(const sky_llama *llama);

/* After prefill on any slot: logits of its last token [vocabulary], until the next call of the
 * adapter or its engines; NULL when there are none. The token with the greatest (lowest id wins a
 * tie). */
const float *sky_llama_logits(const sky_llama *llama, uint32_t *vocabulary);
uint32_t sky_llama_greedy(const sky_llama *llama);

/* Text of a token, not NUL-terminated; returns its bytes, at most out_bytes. */
size_t sky_llama_piece(const sky_llama *llama, uint32_t token, char *out, size_t out_bytes);
bool sky_llama_is_end(const sky_llama *llama, uint32_t token);

/* llama.cpp's own save and restore of the whole sequence in slot 0, nothing of ours between: the
 * limit that a warm answer is measured against. The restored state lives in a context of its own,
 * taken at the first save and as large as a slot; slot 0's prefill and logits are its until the
 * slot's next lookup or prompt.
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
