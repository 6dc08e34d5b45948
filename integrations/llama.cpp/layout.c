/* What a model's state looks like, learned from the state itself: one token is computed and its
 * blob taken apart; two made-up tokens a window apart show which parts keep only a window. Whatever
 * does not parse to its last byte is refused, with a sentence. */
#include "adapter.h"

#include <stdio.h>
#include <string.h>

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
    if (llama->rope_by_context)
        return "llama.cpp turns the model's keys by the size of the context (longrope): rows of "
               "one size are wrong in another";
    if (!llama->flash_attention)
        return "flash attention is off: llama.cpp then keeps V transposed, which cannot be cut "
               "into blocks";
    if (ggml_is_quantized(llama->kv_type))
        return "the KV cache is quantised: llama.cpp rotates it, use f16, f32 or bf16";
    return NULL;
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
    sky__llama_forget_all(llama);
    if (llama_state_seq_set_data(llama->context, llama->blob, bytes, SEQ_PROMPT) != bytes)
        return "is not taken back";
    const char *wrong = sky__llama_read_state(llama, SEQ_PROMPT, false, &llama->shape, parts, NULL);
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

/* Heads, where one number is true for all layers. */
static void learn_heads(sky_llama *llama) {
    int32_t heads = llama_model_n_head_kv(llama->model);
    sky_layout *layout = &llama->shape.layout;
    for (uint32_t g = 0; g < layout->group_count; g++) {
        const sky_layer_group *group = &layout->groups[g];
        if (heads <= 0 || group->k_row_bytes % (uint32_t)heads != 0 ||
            group->k_row_bytes != layout->groups[0].k_row_bytes)
            return;
    }
    for (uint32_t g = 0; g < layout->group_count; g++)
        layout->groups[g].kv_heads = (uint32_t)heads;
}

static const char *learn_shape(sky_llama *llama) {
    const uint32_t token = 0;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    if (sky__llama_ops.prefill(&llama->slots[0], &token, 0, 1) != SKY_OK)
        return "cannot be computed";
    const char *wrong = sky__llama_read_state(llama, SEQ_PROMPT, true, &llama->shape, parts, NULL);
    for (uint32_t g = 0; !wrong && g < llama->shape.layout.group_count; g++)
        if (parts[g].first_token != 0 || parts[g].token_count != 1)
            wrong = "does not hold the token that was computed";
    if (!wrong)
        wrong = learn_windows(llama);
    if (!wrong)
        learn_heads(llama);
    return wrong;
}

void sky__llama_learn(sky_llama *llama) {
    if (llama->shape_known || llama->refusal[0])
        return;
    const char *kind = refused_by_kind(llama);
    const char *wrong = kind ? NULL : learn_shape(llama);
    sky__llama_forget_all(llama);
    if (kind)
        snprintf(llama->refusal, sizeof llama->refusal, "%s", kind);
    else if (wrong)
        snprintf(llama->refusal, sizeof llama->refusal,
                 "the model's state %s, which this adapter does not know", wrong);
    llama->shape_known = !kind && !wrong;
}
