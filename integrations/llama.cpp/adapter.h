/* Inside the llama.cpp adapter: one model, one context, its slots, and the buffer that their state
 * passes through. */
#ifndef SKYMEM_LLAMA_ADAPTER_H
#define SKYMEM_LLAMA_ADAPTER_H

#include <stdatomic.h>

#include <llama.h>

#include "skymem_llama.h"
#include "state_blob.h"

/* Where prefill cuts a prompt: at absolute multiples of STEP_TOKENS, and before its last
 * TAIL_TOKENS or fewer, at an absolute multiple too. llama.cpp's kernels differ in low bits by the
 * size of a step (64 rows and more run tiled, fewer do not, one alone yet another way), so a prompt
 * must be cut in the same places whether or not its beginning was restored. Blocks of a multiple of
 * TAIL_TOKENS fit. */
#define STEP_TOKENS 512u
#define TAIL_TOKENS 64u

/* llama.cpp's sequences in a context with one slot, where they are labels on cells. The prompt; the
 * range of it that is being extracted; and the window layers' cells that a restored prompt has
 * passed, see window_cells.c. With several slots each has a sequence of its own number, whose cells
 * are its own too: what a prompt computes does not depend on the others. */
enum { SEQ_PROMPT, SEQ_EXTRACT, SEQ_PASSED, SEQ_COUNT };

/* A place for one prompt in the context.
 * What the context holds of it: full layers all of [0, held_tokens), window layers only from
 * window_from. Anything else must not be extracted or cropped to: llama.cpp would not notice. */
typedef struct {
    sky_llama *llama;
    sky_engine engine;
    llama_seq_id id;
    uint32_t held_tokens;
    uint32_t window_from;
    uint32_t restoring_tokens; /* between restore_begin and restore_end */
    uint32_t advanced_tokens;  /* … computed: restore_begin lets go of none of them */
} sky__llama_slot;

struct sky_llama {
    struct llama_model *model;
    const struct llama_vocab *vocab;
    struct llama_context *context;
    struct llama_context *bare; /* for sky_llama_state_restore alone; NULL until a state is saved */
    bool on_bare;               /* slot 0 is bare's */
    struct llama_context *logits_of; /* the context of the last prefill; NULL: none has logits */
    uint32_t threads;
    enum ggml_type kv_type;
    bool flash_attention;
    sky__llama_slot *slots; /* [slot_count] */
    uint32_t slot_count;
    sky_llama_progress_fn progress; /* NULL: none */
    void *progress_context;
    uint8_t fingerprint[32];
    bool rope_by_context; /* keys turn by the size of the context */

    bool shape_known; /* else `refusal` is why not, or nobody asked yet */
    blob_shape shape;
    char refusal[256];

    /* Of an only slot: window cells [0, lined_tokens) are taken, at the index of their position. */
    uint32_t lined_tokens;

    /* One state blob: rows are written into it and read out of it in place. Kept between prompts,
     * because the first touch of its pages costs more than the copy. */
    uint8_t *blob;
    size_t blob_bytes_max;
    struct llama_batch batch;

    /* llama.cpp asks while it computes whether to stop; advance alone is stopped so. */
    atomic_bool advancing, interrupted;
};

/* Of an only slot, and of one of many: these do not advance, as what one has computed can then not
 * be read out whole. */
extern const sky_engine_ops sky__llama_ops, sky__llama_ops_of_many;

static inline struct llama_context *sky__llama_context(const sky__llama_slot *slot) {
    return slot->llama->on_bare && slot->id == SEQ_PROMPT ? slot->llama->bare
                                                          : slot->llama->context;
}

static inline void sky__llama_tell(const sky_llama *llama, sky_llama_stage stage, uint32_t done,
                                   uint32_t total) {
    if (llama->progress)
        llama->progress(llama->progress_context, stage, done, total);
}

/* Empty a slot, and go on with it in the context. */
void sky__llama_forget(sky__llama_slot *slot);
/* Empty all slots, of a new context too. */
void sky__llama_forget_all(sky_llama *llama);

/* The model's window, 0 when it has none; groups with a window share it. */
uint32_t sky__llama_window(const sky_llama *llama);

/* Fill in shape, or refusal, once. The context is then empty. */
void sky__llama_learn(sky_llama *llama);

/* One sequence's state, in llama->blob and taken apart; as blob_parse. */
const char *sky__llama_read_state(sky_llama *llama, llama_seq_id sequence, bool learn,
                                  blob_shape *shape, blob_part *parts, sky_tensor *rows);

/* Hand a composed blob over. Errors: SKY_E_CORRUPT */
sky_status sky__llama_take_blob(sky_llama *llama, llama_seq_id sequence, const blob_part *parts,
                                const uint8_t *blob);

/* What a blob has of a prefix of so many tokens. */
void sky__llama_parts_for(const sky_layout *layout, uint32_t token_count, blob_part *parts);

/* There are some, they fit, and they are in the vocabulary. Errors: SKY_E_PARAM, SKY_E_FULL */
sky_status sky__llama_check_tokens(const sky_llama *llama, const uint32_t *tokens,
                                   uint32_t first_token, uint32_t token_count);
/* Drop what is held from first_token on. Before a restored window nothing is held.
 * Errors: SKY_E_PARAM */
sky_status sky__llama_crop(sky__llama_slot *slot, uint32_t first_token);
/* Compute one step on top of what is held; last: with logits of its last token.
 * Errors: SKY_E_FULL, SKY_E_CANCELLED, SKY_E_IO */
sky_status sky__llama_decode(sky__llama_slot *slot, const uint32_t *tokens, uint32_t token_count,
                             bool last);

/* advance.c: as in skymem/engine.h. */
sky_status sky__llama_advance(void *self, const uint32_t *tokens, uint32_t first_token,
                              uint32_t token_count);
void sky__llama_interrupt(void *self);
sky_status sky__llama_place_advanced(void *self, uint32_t token_count);

/* How many window cells must be taken before a restored prompt's window; see window_cells.c. */
uint32_t sky__llama_cells_passed(const sky_llama *llama, uint32_t token_count);
/* Empty the context but for window cells [0, passed).
 * Errors: SKY_E_NOMEM, SKY_E_CORRUPT */
sky_status sky__llama_pass_cells(sky_llama *llama, uint32_t passed);

/* Take what the first restore would otherwise have to: a blob's pages and window cells. The context
 * must be empty, the shape known.
 * Errors: SKY_E_NOMEM, SKY_E_CORRUPT */
sky_status sky__llama_prepare(sky_llama *llama);

/* Make room for a blob, its pages touched. Errors: SKY_E_NOMEM */
sky_status sky__llama_blob_reserve(sky_llama *llama, size_t bytes);

/* 32 bytes that change with the model file's content or the settings; and whether llama.cpp turns
 * the model's keys by the size of the context.
 * Errors: SKY_E_IO, SKY_E_SYNTAX (not a GGUF, or shorter than it says), SKY_E_NOMEM */
sky_status sky__llama_fingerprint(const char *model_path, const char *settings, uint8_t out[32],
                                  bool *rope_by_context, sky_error *error);

/* Fill in *error (NULL is fine) and return status. */
sky_status sky__llama_fail(sky_error *error, sky_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
