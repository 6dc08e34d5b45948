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

static void slot_empty(sky__llama_slot *slot) {
    slot->held_tokens = 0;
    slot->window_from = 0;
    slot->restoring_tokens = 0;
    slot->advanced_tokens = 0;
}

void sky__llama_forget(sky__llama_slot *slot) {
    sky_llama *llama = slot->llama;
    llama_memory_t memory = llama_get_memory(llama->context);
    if (llama->slot_count == 1) {
        llama_memory_clear(memory, false);
        llama->lined_tokens = 0;
    } else {
        llama_memory_seq_rm(memory, slot->id, -1, -1);
    }
    slot_empty(slot);
    llama->on_bare &= slot->id != SEQ_PROMPT;
    llama->logits_of = NULL;
}

void sky__llama_forget_all(sky_llama *llama) {
    llama_memory_clear(llama_get_memory(llama->context), false);
    for (uint32_t i = 0; i < llama->slot_count; i++)
        slot_empty(&llama->slots[i]);
    llama->lined_tokens = 0;
    llama->on_bare = false;
    llama->logits_of = NULL;
}

const char *sky__llama_read_state(sky_llama *llama, llama_seq_id sequence, bool learn,
                                  blob_shape *shape, blob_part *parts, sky_tensor *rows) {
    size_t bytes = llama_state_seq_get_size(llama->context, sequence);
    llama->shape.stream = llama->slot_count > 1 ? (uint32_t)sequence : 0;
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

void sky__llama_parts_for(const sky_layout *layout, uint32_t token_count, blob_part *parts) {
    for (uint32_t g = 0; g < layout->group_count; g++) {
        uint32_t window = layout->groups[g].window_tokens;
        uint32_t count = window && window < token_count ? window : token_count;
        parts[g] = (blob_part){token_count - count, count, 1};
    }
}

sky_status sky__llama_prepare(sky_llama *llama) {
    uint32_t token_count = sky_llama_context_tokens(llama);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    sky__llama_parts_for(&llama->shape.layout, token_count, parts);
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
    memcpy(out, ((sky__llama_slot *)self)->llama->fingerprint, 32);
}

static sky_status op_layout(void *self, sky_layout *out, sky_error *error) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
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
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
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

/* Rows of a range alone, by a label on its cells. */
static const char *read_range(sky__llama_slot *slot, uint32_t first_token, uint32_t token_count,
                              sky_tensor *rows) {
    sky_llama *llama = slot->llama;
    llama_memory_t memory = llama_get_memory(llama->context);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    llama_memory_seq_cp(memory, slot->id, SEQ_EXTRACT, (llama_pos)first_token,
                        (llama_pos)(first_token + token_count));
    const char *wrong = sky__llama_read_state(llama, SEQ_EXTRACT, false, &llama->shape, parts,
                                              rows);
    llama_memory_seq_rm(memory, SEQ_EXTRACT, -1, -1);
    for (uint32_t g = 0; !wrong && g < llama->shape.layout.group_count; g++)
        if (parts[g].first_token != first_token || parts[g].token_count != token_count ||
            parts[g].stride != 1)
            wrong = "lacks tokens";
    return wrong;
}

/* The same out of all that the slot holds, which of window layers is their last window. */
static const char *cut_range(sky__llama_slot *slot, uint32_t first_token, uint32_t token_count,
                             sky_tensor *rows) {
    sky_llama *llama = slot->llama;
    const sky_layout *layout = &llama->shape.layout;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    const char *wrong = sky__llama_read_state(llama, slot->id, false, &llama->shape, parts, rows);
    for (uint32_t g = 0, set = 0; !wrong && g < layout->group_count; g++) {
        const sky_layer_group *group = &layout->groups[g];
        uint32_t skipped = first_token - parts[g].first_token;
        if (parts[g].stride != 1 || first_token < parts[g].first_token ||
            skipped > parts[g].token_count || token_count > parts[g].token_count - skipped)
            return "lacks tokens";
        for (uint32_t i = 0; i < 2 * group->layer_count; i++, set++)
            rows[set] = sky_tensor_slice(&rows[set], first_token, token_count);
    }
    return wrong;
}

static sky_status op_extract(void *self, uint32_t first_token, uint32_t token_count,
                             sky_state *out) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
    if (!llama->shape_known || (llama->on_bare && slot->id == SEQ_PROMPT) ||
        out->tensor_count != llama->shape.row_sets)
        return SKY_E_PARAM;
    uint32_t window = sky__llama_window(llama);
    if (token_count == 0 || first_token > slot->held_tokens ||
        token_count > slot->held_tokens - first_token ||
        (window && (token_count > window || first_token < slot->window_from)))
        return SKY_E_PARAM;
    const char *wrong = llama->slot_count == 1
                            ? read_range(slot, first_token, token_count, out->tensors)
                            : cut_range(slot, first_token, token_count, out->tensors);
    return wrong ? SKY_E_PARAM : SKY_OK;
}

static sky_status op_restore_begin(void *self, uint32_t token_count, sky_state *out) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
    slot->held_tokens = 0; /* the cells stay: restore_end makes use of them */
    atomic_store(&llama->interrupted, false);
    llama->on_bare &= slot->id != SEQ_PROMPT;
    llama->logits_of = NULL;
    if (!llama->shape_known || out->tensor_count != llama->shape.row_sets || token_count == 0)
        return SKY_E_PARAM;
    if (token_count > sky_llama_context_tokens(llama))
        return SKY_E_FULL;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    sky__llama_parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = sky__llama_blob_reserve(llama, blob_bytes(&llama->shape, parts));
    if (status != SKY_OK)
        return status;
    llama->shape.stream = llama->slot_count > 1 ? (uint32_t)slot->id : 0;
    blob_compose(&llama->shape, parts, llama->blob, out->tensors);
    slot->restoring_tokens = token_count;
    return SKY_OK;
}

static sky_status op_restore_end(void *self, bool commit) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
    uint32_t token_count = slot->restoring_tokens;
    if (!commit || token_count == 0) {
        sky__llama_forget(slot);
        return commit ? SKY_E_PARAM : SKY_OK;
    }
    uint32_t window = sky__llama_window(llama);
    uint32_t window_from = window && token_count > window ? token_count - window : 0;
    uint32_t passed = sky__llama_cells_passed(llama, token_count);
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    sky__llama_parts_for(&llama->shape.layout, token_count, parts);
    sky_status status = llama->slot_count == 1 ? sky__llama_pass_cells(llama, passed) : SKY_OK;
    if (status == SKY_OK)
        status = sky__llama_take_blob(llama, slot->id, parts, llama->blob);
    if (status != SKY_OK) {
        sky__llama_forget(slot);
        return status;
    }
    slot->held_tokens = token_count;
    llama->lined_tokens = passed < window_from ? passed : token_count;
    slot->window_from = window_from;
    slot->restoring_tokens = slot->advanced_tokens = 0;
    return SKY_OK;
}

/* ---- computing ---- */

sky_status sky__llama_crop(sky__llama_slot *slot, uint32_t first_token) {
    sky_llama *llama = slot->llama;
    if (first_token == 0) {
        sky__llama_forget(slot);
        return SKY_OK;
    }
    if (first_token == slot->held_tokens)
        return SKY_OK;
    if (first_token > slot->held_tokens)
        return SKY_E_PARAM;
    uint32_t window = (uint32_t)llama_model_n_swa(llama->model);
    uint32_t needed_from = first_token > window ? first_token - window : 0;
    if (llama_model_n_swa(llama->model) > 0 && needed_from < slot->window_from)
        return SKY_E_PARAM;
    llama_memory_t memory = llama_get_memory(sky__llama_context(slot));
    if (!llama_memory_seq_rm(memory, slot->id, (llama_pos)first_token, -1))
        return SKY_E_PARAM;
    slot->held_tokens = first_token;
    if (sky__llama_context(slot) == llama->context && llama->lined_tokens > first_token)
        llama->lined_tokens = first_token;
    return SKY_OK;
}

sky_status sky__llama_decode(sky__llama_slot *slot, const uint32_t *tokens, uint32_t token_count,
                             bool last) {
    sky_llama *llama = slot->llama;
    struct llama_context *context = sky__llama_context(slot);
    struct llama_batch *batch = &llama->batch;
    batch->n_tokens = (int32_t)token_count;
    for (uint32_t i = 0; i < token_count; i++) {
        batch->token[i] = (llama_token)tokens[i];
        batch->pos[i] = (llama_pos)(slot->held_tokens + i);
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = slot->id;
        batch->logits[i] = last && i + 1 == token_count;
    }
    llama->logits_of = NULL;
    switch (llama_decode(context, *batch)) {
    case 0:
        if (context == llama->context && llama->lined_tokens == slot->held_tokens)
            llama->lined_tokens += token_count;
        llama->logits_of = last ? context : NULL;
        slot->held_tokens += token_count;
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

sky_status sky__llama_check_tokens(const sky_llama *llama, const uint32_t *tokens,
                                   uint32_t first_token, uint32_t token_count) {
    if (token_count == 0)
        return SKY_E_PARAM;
    uint32_t room = sky_llama_context_tokens(llama);
    if (first_token > room || token_count > room - first_token)
        return SKY_E_FULL;
    uint32_t vocabulary = (uint32_t)llama_vocab_n_tokens(llama->vocab);
    for (uint32_t i = 0; i < token_count; i++)
        if (tokens[i] >= vocabulary)
            return SKY_E_PARAM;
    return SKY_OK;
}

static sky_status op_prefill(void *self, const uint32_t *tokens, uint32_t first_token,
                             uint32_t token_count) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
    sky_status status = sky__llama_check_tokens(llama, tokens, first_token, token_count);
    if (status == SKY_OK)
        status = sky__llama_crop(slot, first_token);
    slot->advanced_tokens = 0;
    uint32_t end = first_token + token_count;
    while (status == SKY_OK && slot->held_tokens < end) {
        uint32_t at = slot->held_tokens, step = next_step(at, end);
        sky__llama_tell(llama, SKY_LLAMA_COMPUTING, at - first_token, token_count);
        status = sky__llama_decode(slot, tokens + (at - first_token), step, at + step == end);
    }
    return status;
}

#define OPS                                                                                        \
    .fingerprint = op_fingerprint, .layout = op_layout, .tokenize = op_tokenize,                   \
    .extract = op_extract, .restore_begin = op_restore_begin, .restore_end = op_restore_end,       \
    .prefill = op_prefill

const sky_engine_ops sky__llama_ops = {OPS, .advance = sky__llama_advance,
                                       .interrupt = sky__llama_interrupt,
                                       .place_advanced = sky__llama_place_advanced};
const sky_engine_ops sky__llama_ops_of_many = {OPS};
