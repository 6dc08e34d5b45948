/* The engine's functions: rows in and out of llama.cpp, see skymem/engine.h and state_blob.h.
 *
 * Restore composes one blob from all rows and hands it over once: the cells then lie as llama.cpp
 * itself would restore them. Appending block by block gives other cell orders and other low bits; a
 * sliding-window state that was restored and then cut shorter is silently wrong, so it is refused.
 * */
#include "adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model's window, 0 when it has none. Groups with a window share it. */
static uint32_t window_tokens(const sky_layout *layout) {
    uint32_t window = 0;
    for (uint32_t g = 0; g < layout->group_count; g++)
        if (layout->groups[g].window_tokens)
            window = layout->groups[g].window_tokens;
    return window;
}

void sky__llama_forget(sky_llama *llama) {
    llama_memory_clear(llama_get_memory(llama->context), false);
    llama->held_tokens = 0;
    llama->window_from = 0;
    llama->lined_tokens = 0;
    llama->restoring_tokens = 0;
    llama->has_logits = false;
    llama->on_bare = false;
}

static void op_fingerprint(void *self, uint8_t out[32]) {
    memcpy(out, ((sky_llama *)self)->fingerprint, 32);
}

/* ---- layout: what the state looks like, learned from the state itself ---- */

/* Why no state of this model can be cut by tokens, whatever it looks like; NULL if it may. */
static const char *refused_by_kind(const sky_llama *llama) {
    const struct llama_model *model = llama->model;
    if (llama_model_is_recurrent(model) || llama_model_is_hybrid(model))
        return "the model is recurrent: its state cannot be cut into blocks of tokens";
    if (llama_model_has_encoder(model) || llama_model_is_diffusion(model))
        return "the model does not read its prompt from left to right";
    enum llama_rope_type rope = llama_model_rope_type(model);
    if (rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE ||
        rope == LLAMA_ROPE_TYPE_VISION)
        return "the model's positions have several dimensions (M-RoPE)";
    if (!llama->flash_attention)
        return "flash attention is off: llama.cpp then keeps V transposed, which cannot be cut "
               "into "
               "blocks";
    if (ggml_is_quantized(llama->kv_type))
        return "the KV cache is quantised: llama.cpp rotates it, use f16, f32 or bf16";
    return NULL;
}

static const char *read_state(sky_llama *llama, llama_seq_id sequence, bool learn,
                              blob_shape *shape, blob_part *parts, sky_rows *rows) {
    size_t bytes = llama_state_seq_get_size(llama->context, sequence);
    if (sky__llama_blob_reserve(llama, bytes) != SKY_OK)
        return "does not fit in memory";
    if (llama_state_seq_get_data(llama->context, llama->blob, bytes, sequence) != bytes)
        return "cannot be read";
    return blob_parse(llama->blob, bytes, learn, shape, parts, rows);
}

/* Which parts keep only a window: give them two tokens `stride` apart and see what they write. */
static const char *tokens_kept(sky_llama *llama, uint32_t window, uint32_t stride,
                               uint32_t kept[SKY_LAYER_GROUPS_MAX]) {
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    uint32_t last = window + window / 2; /* so that windows that move in chunks show */
    for (uint32_t g = 0; g < llama->shape.layout.group_count; g++)
        parts[g] = (blob_part){last - stride, 2, stride};
    size_t bytes = blob_bytes(&llama->shape, parts);
    if (sky__llama_blob_reserve(llama, bytes) != SKY_OK)
        return "does not fit in memory";
    memset(llama->blob, 0, bytes);
    blob_compose(&llama->shape, parts, llama->blob, NULL);
    sky__llama_forget(llama);
    if (llama_state_seq_set_data(llama->context, llama->blob, bytes, SEQ_PROMPT) != bytes)
        return "is not taken back";
    const char *wrong = read_state(llama, SEQ_PROMPT, false, &llama->shape, parts, NULL);
    for (uint32_t g = 0; !wrong && g < llama->shape.layout.group_count; g++)
        kept[g] = parts[g].token_count;
    return wrong;
}

static const char *learn_windows(sky_llama *llama) {
    int32_t model_window = llama_model_n_swa(llama->model);
    if (model_window <= 0)
        return NULL;
    uint32_t window = (uint32_t)model_window;
    if (window < 4 || window > INT32_MAX / 4)
        return "has a window of an unlikely size";
    uint32_t beyond[SKY_LAYER_GROUPS_MAX], within[SKY_LAYER_GROUPS_MAX];
    const char *wrong = tokens_kept(llama, window, window, beyond);
    if (!wrong)
        wrong = tokens_kept(llama, window, window - 1, within);
    for (uint32_t g = 0; !wrong && g < llama->shape.layout.group_count; g++) {
        sky_layer_group *group = &llama->shape.layout.groups[g];
        if (within[g] != 2)
            wrong = "attends in chunks, or around a token";
        if (beyond[g] == 1) {
            group->kind = SKY_LAYER_WINDOW;
            group->window_tokens = window;
        }
    }
    return wrong;
}

static const char *learn_shape(sky_llama *llama) {
    const uint32_t token = 0;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    if (sky__llama_ops.prefill(llama, &token, 0, 1) != SKY_OK)
        return "cannot be computed";
    const char *wrong = read_state(llama, SEQ_PROMPT, true, &llama->shape, parts, NULL);
    for (uint32_t g = 0; !wrong && g < llama->shape.layout.group_count; g++)
        if (parts[g].first_token != 0 || parts[g].token_count != 1)
            wrong = "does not hold the token that was computed";
    if (!wrong)
        wrong = learn_windows(llama);
    return wrong;
}

/* ---- rows out and in ---- */

static sky_status op_tokenize(void *self, const char *text, size_t text_bytes, uint32_t *tokens,
                              size_t token_count_max, size_t *token_count) {
    sky_llama *llama = self;
    if (llama_vocab_type(llama->vocab) == LLAMA_VOCAB_TYPE_NONE)
        return SKY_E_UNSUPPORTED;
    if (text_bytes > INT32_MAX || token_count_max > INT32_MAX)
        return SKY_E_PARAM;
    int32_t count = llama_tokenize(llama->vocab, text, (int32_t)text_bytes, (llama_token *)tokens,
                                   (int32_t)token_count_max, true, true);
    if (count == INT32_MIN)
        return SKY_E_PARAM;
    *token_count = (size_t)(count < 0 ? -count : count);
    return count < 0 ? SKY_E_DST_SMALL : SKY_OK;
}

static sky_status op_extract(void *self, uint32_t first_token, uint32_t token_count,
                             sky_state *out) {
    sky_llama *llama = self;
    const blob_shape *shape = &llama->shape;
    if (!llama->shape_known || llama->on_bare || out->row_sets != shape->row_sets)
        return SKY_E_PARAM;
    uint32_t window = window_tokens(&shape->layout);
    if (token_count == 0 || first_token > llama->held_tokens ||
        token_count > llama->held_tokens - first_token ||
        (window && (token_count > window || first_token < llama->window_from)))
        return SKY_E_PARAM;

    llama_memory_t memory = llama_get_memory(llama->context);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    llama_memory_seq_cp(memory, SEQ_PROMPT, SEQ_EXTRACT, (llama_pos)first_token,
                        (llama_pos)(first_token + token_count));
    const char *wrong = read_state(llama, SEQ_EXTRACT, false, &llama->shape, parts, out->rows);
    llama_memory_seq_rm(memory, SEQ_EXTRACT, -1, -1);
    for (uint32_t g = 0; !wrong && g < shape->layout.group_count; g++)
        if (parts[g].first_token != first_token || parts[g].token_count != token_count ||
            parts[g].stride != 1)
            wrong = "lacks tokens";
    return wrong ? SKY_E_PARAM : SKY_OK;
}

static void parts_for(const sky_layout *layout, uint32_t token_count, blob_part *parts) {
    for (uint32_t g = 0; g < layout->group_count; g++) {
        uint32_t window = layout->groups[g].window_tokens;
        uint32_t count = window && window < token_count ? window : token_count;
        parts[g] = (blob_part){token_count - count, count, 1};
    }
}

static sky_status op_restore_begin(void *self, uint32_t token_count, sky_state *out) {
    sky_llama *llama = self;
    llama->held_tokens = 0; /* the cells stay: restore_end makes use of them */
    llama->on_bare = false;
    llama->has_logits = false;
    if (!llama->shape_known || out->row_sets != llama->shape.row_sets || token_count == 0)
        return SKY_E_PARAM;
    if (token_count > llama_n_ctx(llama->context))
        return SKY_E_FULL;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = sky__llama_blob_reserve(llama, blob_bytes(&llama->shape, parts));
    if (status != SKY_OK)
        return status;
    blob_compose(&llama->shape, parts, llama->blob, out->rows);
    llama->restoring_tokens = token_count;
    return SKY_OK;
}

/* ---- window cells ----
 *
 * A cold run leaves the window layers' cells where they were computed; llama.cpp's own restore
 * packs the last W into cells 0 … W-1:
 *
 *     cold      |passed ............................|last W|free ...
 *     packed    |last W|free ...
 *     restored  |passed, any rows ......|last W|free ...
 *
 * Both are right, but attention for a single token cuts all cells into one run a thread and adds
 * the partial sums in f16. Cold, the whole window lies in the last run (once the prompt is long
 * enough); packed, it is cut in the middle, and the low bits differ from the second token on, soon
 * the greedy answer too. So as many cells as it takes are kept before the window, under a sequence
 * of their own that nobody attends to: all of them for a short prompt, and for a long one enough
 * that the last run holds the window. Usually they are there already, from the prompt before, and
 * only change their label; else they are written once, as zeros. */

/* The window lies in the last of T runs for good when W ≤ n/T - slack, n the cells up to its end:
 * n grows in steps of 256, and runs are rounded up. 64 cells are one tile of longer steps. */
static uint32_t cells_passed(const sky_llama *llama, uint32_t token_count) {
    uint64_t window = window_tokens(&llama->shape.layout), threads = llama->threads;
    if (window == 0 || token_count <= window)
        return 0;
    uint64_t enough = threads * window + (threads - 1) * (256 + threads);
    enough = (enough + 63) / 64 * 64 - window;
    return token_count - window < enough ? token_count - (uint32_t)window : (uint32_t)enough;
}

static sky_status take_blob(sky_llama *llama, llama_seq_id sequence, const blob_part *parts,
                            const uint8_t *blob) {
    size_t bytes = blob_bytes(&llama->shape, parts);
    return llama_state_seq_set_data(llama->context, blob, bytes, sequence) == bytes ? SKY_OK
                                                                                    : SKY_E_CORRUPT;
}

/* `passed` cells for window layers and `full_tokens` for the others, all zeros. */
static sky_status take_zeros(sky_llama *llama, uint32_t full_tokens, uint32_t full_first,
                             uint32_t passed) {
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    for (uint32_t g = 0; g < llama->shape.layout.group_count; g++) {
        bool window = llama->shape.layout.groups[g].kind == SKY_LAYER_WINDOW;
        parts[g] = window ? (blob_part){0, passed, 1} : (blob_part){full_first, full_tokens, 1};
    }
    uint8_t *zeros = calloc(1, blob_bytes(&llama->shape, parts));
    if (!zeros)
        return SKY_E_NOMEM;
    blob_compose(&llama->shape, parts, zeros, NULL);
    sky_status status = take_blob(llama, SEQ_PASSED, parts, zeros);
    free(zeros);
    return status;
}

/* Empty the context but for window cells [0, passed), labelled SEQ_PASSED. */
static sky_status pass_window_cells(sky_llama *llama, uint32_t passed) {
    llama_memory_t memory = llama_get_memory(llama->context);
    if (llama->lined_tokens < passed || passed == 0) {
        llama_memory_clear(memory, false);
        return passed ? take_zeros(llama, 0, 0, passed) : SKY_OK;
    }
    /* Labels go on full layers' cells too. Reading one far-off token into SEQ_PASSED there, and
     * none for window layers, takes them off again; then that token goes. */
    const uint32_t far_off = INT32_MAX - 1;
    llama_memory_seq_cp(memory, SEQ_PROMPT, SEQ_PASSED, 0, (llama_pos)passed);
    llama_memory_seq_rm(memory, SEQ_PROMPT, -1, -1);
    llama_memory_seq_rm(memory, SEQ_PASSED, (llama_pos)passed, -1);
    sky_status status = take_zeros(llama, 1, far_off, 0);
    llama_memory_seq_rm(memory, SEQ_PASSED, (llama_pos)far_off, -1);
    return status;
}

static sky_status op_restore_end(void *self, bool commit) {
    sky_llama *llama = self;
    uint32_t token_count = llama->restoring_tokens;
    if (!commit || token_count == 0) {
        sky__llama_forget(llama);
        return commit ? SKY_E_PARAM : SKY_OK;
    }
    uint32_t window = window_tokens(&llama->shape.layout);
    uint32_t window_from = window && token_count > window ? token_count - window : 0;
    uint32_t passed = cells_passed(llama, token_count);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = pass_window_cells(llama, passed);
    if (status == SKY_OK)
        status = take_blob(llama, SEQ_PROMPT, parts, llama->blob);
    if (status != SKY_OK) {
        sky__llama_forget(llama);
        return status;
    }
    llama->held_tokens = token_count;
    llama->lined_tokens = passed < window_from ? passed : token_count;
    llama->window_from = window_from;
    llama->restoring_tokens = 0;
    return SKY_OK;
}

sky_status sky__llama_prepare(sky_llama *llama) {
    uint32_t token_count = llama_n_ctx(llama->context);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = sky__llama_blob_reserve(llama, blob_bytes(&llama->shape, parts));
    uint32_t passed = cells_passed(llama, token_count);
    if (status != SKY_OK || passed == 0)
        return status;
    status = pass_window_cells(llama, passed);
    if (status == SKY_OK)
        llama->lined_tokens = passed;
    return status;
}

static sky_status op_layout(void *self, sky_layout *out, sky_error *error) {
    sky_llama *llama = self;
    if (!llama->shape_known && !llama->refusal[0]) {
        const char *kind = refused_by_kind(llama);
        const char *wrong = kind ? NULL : learn_shape(llama);
        sky__llama_forget(llama);
        if (kind)
            snprintf(llama->refusal, sizeof llama->refusal, "%s", kind);
        else if (wrong)
            snprintf(llama->refusal, sizeof llama->refusal,
                     "the model's state %s, which this adapter does not know", wrong);
        llama->shape_known = !kind && !wrong;
        if (llama->shape_known && sky__llama_prepare(llama) != SKY_OK)
            return sky__llama_fail(error, SKY_E_NOMEM, "no memory for a state");
    }
    if (!llama->shape_known)
        return sky__llama_fail(error, SKY_E_UNSUPPORTED, "%s", llama->refusal);
    *out = llama->shape.layout;
    return SKY_OK;
}

/* ---- computing ---- */

/* Drop what is held from first_token on. A restored window has nothing before it to fall back on.
 * */
static sky_status crop(sky_llama *llama, uint32_t first_token) {
    if (first_token == 0) {
        sky__llama_forget(llama);
        return SKY_OK;
    }
    if (first_token == llama->held_tokens)
        return SKY_OK;
    if (first_token > llama->held_tokens)
        return SKY_E_PARAM;
    uint32_t window = (uint32_t)llama_model_n_swa(llama->model);
    uint32_t needed_from = first_token > window ? first_token - window : 0;
    if (llama_model_n_swa(llama->model) > 0 && needed_from < llama->window_from)
        return SKY_E_PARAM;
    llama_memory_t memory = llama_get_memory(sky__llama_context(llama));
    if (!llama_memory_seq_rm(memory, SEQ_PROMPT, (llama_pos)first_token, -1))
        return SKY_E_PARAM;
    llama->held_tokens = first_token;
    if (!llama->on_bare && llama->lined_tokens > first_token)
        llama->lined_tokens = first_token;
    return SKY_OK;
}

static sky_status decode(sky_llama *llama, const uint32_t *tokens, uint32_t token_count,
                         bool last) {
    struct llama_batch *batch = &llama->batch;
    batch->n_tokens = (int32_t)token_count;
    for (uint32_t i = 0; i < token_count; i++) {
        batch->token[i] = (llama_token)tokens[i];
        batch->pos[i] = (llama_pos)(llama->held_tokens + i);
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = SEQ_PROMPT;
        batch->logits[i] = last && i + 1 == token_count;
    }
    llama->has_logits = false;
    switch (llama_decode(sky__llama_context(llama), *batch)) {
    case 0:
        if (!llama->on_bare && llama->lined_tokens == llama->held_tokens)
            llama->lined_tokens += token_count;
        llama->has_logits = last;
        llama->held_tokens += token_count;
        return SKY_OK;
    case 1:
        return SKY_E_FULL;
    case 2:
        return SKY_E_CANCELLED;
    default:
        return SKY_E_IO;
    }
}

/* Tokens of the next step; see STEP_TOKENS. */
static uint32_t next_step(uint32_t at, uint32_t end) {
    uint32_t step_end = (at / STEP_TOKENS + 1) * STEP_TOKENS;
    uint32_t tail = (end - 1) / TAIL_TOKENS * TAIL_TOKENS;
    if (tail > at && tail < step_end)
        step_end = tail;
    return (step_end < end ? step_end : end) - at;
}

static sky_status op_prefill(void *self, const uint32_t *tokens, uint32_t first_token,
                             uint32_t token_count) {
    sky_llama *llama = self;
    if (token_count == 0)
        return SKY_E_PARAM;
    uint32_t room = llama_n_ctx(llama->context);
    if (first_token > room || token_count > room - first_token)
        return SKY_E_FULL;
    uint32_t vocabulary = (uint32_t)llama_vocab_n_tokens(llama->vocab);
    for (uint32_t i = 0; i < token_count; i++)
        if (tokens[i] >= vocabulary)
            return SKY_E_PARAM;
    sky_status status = crop(llama, first_token);
    uint32_t end = first_token + token_count;
    while (status == SKY_OK && llama->held_tokens < end) {
        uint32_t at = llama->held_tokens, step = next_step(at, end);
        status = decode(llama, tokens + (at - first_token), step, at + step == end);
    }
    return status;
}

const sky_engine_ops sky__llama_ops = {
    .fingerprint = op_fingerprint,
    .layout = op_layout,
    .tokenize = op_tokenize,
    .extract = op_extract,
    .restore_begin = op_restore_begin,
    .restore_end = op_restore_end,
    .prefill = op_prefill,
};
