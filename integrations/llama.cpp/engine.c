/* The engine's functions: rows in and out of llama.cpp, see skymem/engine.h and state_blob.h.
 *
 * Restore composes one blob from all rows and hands it over once: appending block by block gives
 * another order of cells and other low bits (1e-3). A sliding-window state that was restored and
 * then cut shorter is silently wrong, so that is refused. */
#include "adapter.h"

#include <string.h>

uint32_t sky__llama_window(const sky_llama *llama) {
    uint32_t window = 0;
    for (uint32_t g = 0; g < llama->shape.layout.group_count; g++)
        if (llama->shape.layout.groups[g].window_tokens)
            window = llama->shape.layout.groups[g].window_tokens;
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

const char *sky__llama_read_state(sky_llama *llama, llama_seq_id sequence, bool learn,
                                  blob_shape *shape, blob_part *parts, sky_rows *rows) {
    size_t bytes = llama_state_seq_get_size(llama->context, sequence);
    if (sky__llama_blob_reserve(llama, bytes) != SKY_OK)
        return "does not fit in memory";
    if (llama_state_seq_get_data(llama->context, llama->blob, bytes, sequence) != bytes)
        return "cannot be read";
    return blob_parse(llama->blob, bytes, learn, shape, parts, rows);
}

sky_status sky__llama_take_blob(sky_llama *llama, llama_seq_id sequence, const blob_part *parts,
                                const uint8_t *blob) {
    size_t bytes = blob_bytes(&llama->shape, parts);
    return llama_state_seq_set_data(llama->context, blob, bytes, sequence) == bytes ? SKY_OK
                                                                                    : SKY_E_CORRUPT;
}

static void parts_for(const sky_layout *layout, uint32_t token_count, blob_part *parts) {
    for (uint32_t g = 0; g < layout->group_count; g++) {
        uint32_t window = layout->groups[g].window_tokens;
        uint32_t count = window && window < token_count ? window : token_count;
        parts[g] = (blob_part){token_count - count, count, 1};
    }
}

sky_status sky__llama_prepare(sky_llama *llama) {
    uint32_t token_count = llama_n_ctx(llama->context);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = sky__llama_blob_reserve(llama, blob_bytes(&llama->shape, parts));
    uint32_t passed = sky__llama_cells_passed(llama, token_count);
    if (status != SKY_OK || passed == 0)
        return status;
    status = sky__llama_pass_cells(llama, passed);
    if (status == SKY_OK)
        llama->lined_tokens = passed;
    return status;
}

static void op_fingerprint(void *self, uint8_t out[32]) {
    memcpy(out, ((sky_llama *)self)->fingerprint, 32);
}

static sky_status op_layout(void *self, sky_layout *out, sky_error *error) {
    sky_llama *llama = self;
    bool known = llama->shape_known;
    sky__llama_learn(llama);
    if (!llama->shape_known)
        return sky__llama_fail(error, SKY_E_UNSUPPORTED, "%s", llama->refusal);
    if (!known && sky__llama_prepare(llama) != SKY_OK)
        return sky__llama_fail(error, SKY_E_NOMEM, "no memory for the model's state");
    *out = llama->shape.layout;
    return SKY_OK;
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
    uint32_t window = sky__llama_window(llama);
    if (token_count == 0 || first_token > llama->held_tokens ||
        token_count > llama->held_tokens - first_token ||
        (window && (token_count > window || first_token < llama->window_from)))
        return SKY_E_PARAM;

    llama_memory_t memory = llama_get_memory(llama->context);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    llama_memory_seq_cp(memory, SEQ_PROMPT, SEQ_EXTRACT, (llama_pos)first_token,
                        (llama_pos)(first_token + token_count));
    const char *wrong = sky__llama_read_state(llama, SEQ_EXTRACT, false, &llama->shape, parts,
                                              out->rows);
    llama_memory_seq_rm(memory, SEQ_EXTRACT, -1, -1);
    for (uint32_t g = 0; !wrong && g < shape->layout.group_count; g++)
        if (parts[g].first_token != first_token || parts[g].token_count != token_count ||
            parts[g].stride != 1)
            wrong = "lacks tokens";
    return wrong ? SKY_E_PARAM : SKY_OK;
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

static sky_status op_restore_end(void *self, bool commit) {
    sky_llama *llama = self;
    uint32_t token_count = llama->restoring_tokens;
    if (!commit || token_count == 0) {
        sky__llama_forget(llama);
        return commit ? SKY_E_PARAM : SKY_OK;
    }
    uint32_t window = sky__llama_window(llama);
    uint32_t window_from = window && token_count > window ? token_count - window : 0;
    uint32_t passed = sky__llama_cells_passed(llama, token_count);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = sky__llama_pass_cells(llama, passed);
    if (status == SKY_OK)
        status = sky__llama_take_blob(llama, SEQ_PROMPT, parts, llama->blob);
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

/* ---- computing ---- */

/* Drop what is held from first_token on. Before a restored window nothing is held. */
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
        sky__llama_tell(llama, SKY_LLAMA_COMPUTING, at - first_token, token_count);
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
