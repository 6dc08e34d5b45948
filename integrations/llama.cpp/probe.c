/* See skymem_llama_probe.h: a context of its own, and rows in and out of it. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_TOKENS 512u

static struct llama_context *probe_context(sky_llama_probe *probe, uint32_t tokens,
                                           uint32_t decode_tokens) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (tokens + 255) / 256 * 256;
    p.n_batch = BATCH_TOKENS;
    p.n_ubatch = BATCH_TOKENS;
    p.n_seq_max = SEQ_COUNT;
    p.n_outputs_max = decode_tokens;
    p.n_threads = (int32_t)probe->llama->threads;
    p.n_threads_batch = (int32_t)probe->llama->threads;
    p.type_k = GGML_TYPE_F16;
    p.type_v = GGML_TYPE_F16;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    p.kv_unified = true;
    p.swa_full = true;
    p.cb_eval = sky__probe_watch;
    p.cb_eval_user_data = probe;
    return llama_init_from_model(probe->llama->model, p);
}

sky_status sky_llama_probe_open(sky_llama *llama, uint32_t context_tokens, uint32_t decode_tokens,
                                sky_llama_probe **out, sky_error *error) {
    sky__llama_learn(llama);
    if (!llama->shape_known)
        return sky__llama_fail(error, SKY_E_UNSUPPORTED, "%s", llama->refusal);
    if (llama->slot_count > 1)
        return sky__llama_fail(error, SKY_E_UNSUPPORTED, "a probe needs an adapter with one slot");
    if (llama->kv_type != GGML_TYPE_F16)
        return sky__llama_fail(error, SKY_E_UNSUPPORTED, "a probe needs an f16 cache");
    sky_llama_probe *probe = calloc(1, sizeof *probe);
    if (!probe)
        return sky__llama_fail(error, SKY_E_NOMEM, "no memory for a probe");
    probe->llama = llama;
    probe->decode_tokens_max = decode_tokens < BATCH_TOKENS ? decode_tokens : BATCH_TOKENS;
    probe->layer_count = llama->shape.row_sets / 2;
    probe->context = probe_context(probe, context_tokens, probe->decode_tokens_max);
    probe->batch = llama_batch_init((int32_t)BATCH_TOKENS, 0, 1);
    probe->layers = calloc(probe->layer_count, sizeof *probe->layers);
    probe->seen = calloc(probe->layer_count, sizeof *probe->seen);
    probe->rows = calloc(llama->shape.row_sets, sizeof *probe->rows);
    if (!probe->context || !probe->layers || !probe->seen || !probe->rows) {
        sky_llama_probe_close(probe);
        return sky__llama_fail(error, SKY_E_NOMEM, "no memory for a context of %u tokens",
                               context_tokens);
    }
    *out = probe;
    return SKY_OK;
}

void sky_llama_probe_close(sky_llama_probe *probe) {
    if (!probe)
        return;
    for (uint32_t i = 0; probe->seen && i < probe->layer_count; i++) {
        free(probe->seen[i].last_k);
        free(probe->seen[i].moment);
    }
    llama_batch_free(probe->batch);
    llama_free(probe->context);
    free(probe->layers);
    free(probe->seen);
    free(probe->rows);
    free(probe->blob);
    free(probe);
}

static sky_status probe_compute(sky_llama_probe *probe, const uint32_t *tokens,
                                uint32_t token_count, bool scored) {
    for (uint32_t done = 0; done < token_count;) {
        uint32_t left = token_count - done, step = left < BATCH_TOKENS ? left : BATCH_TOKENS;
        struct llama_batch *batch = &probe->batch;
        batch->n_tokens = (int32_t)step;
        for (uint32_t i = 0; i < step; i++) {
            batch->token[i] = (llama_token)tokens[done + i];
            batch->pos[i] = (llama_pos)(probe->held_tokens + i);
            batch->n_seq_id[i] = 1;
            batch->seq_id[i][0] = SEQ_PROMPT;
            batch->logits[i] = scored || i + 1 == step;
        }
        int code = llama_decode(probe->context, *batch);
        if (code != 0)
            return code == 1 ? SKY_E_FULL : SKY_E_IO;
        probe->held_tokens += step;
        done += step;
    }
    return SKY_OK;
}

/* Take the state's bytes, and find each layer's number by the last row it wrote. */
static sky_status keep_state(sky_llama_probe *probe) {
    size_t bytes = llama_state_seq_get_size(probe->context, SEQ_PROMPT);
    if (bytes > probe->blob_bytes_max) {
        free(probe->blob);
        probe->blob = malloc(bytes);
        probe->blob_bytes_max = probe->blob ? bytes : 0;
        if (!probe->blob)
            return SKY_E_NOMEM;
    }
    probe->blob_bytes = bytes;
    if (llama_state_seq_get_data(probe->context, probe->blob, bytes, SEQ_PROMPT) != bytes)
        return SKY_E_IO;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    if (blob_parse(probe->blob, bytes, false, &probe->llama->shape, parts, probe->rows))
        return SKY_E_UNSUPPORTED;
    return sky__probe_match_layers(probe);
}

sky_status sky_llama_probe_prefill(sky_llama_probe *probe, const uint32_t *tokens,
                                   uint32_t token_count) {
    llama_memory_clear(llama_get_memory(probe->context), true);
    probe->held_tokens = 0;
    probe->watching = true;
    sky_status status = probe_compute(probe, tokens, token_count, false);
    probe->watching = false;
    return status == SKY_OK ? keep_state(probe) : status;
}

const sky_llama_layer *sky_llama_probe_layers(const sky_llama_probe *probe, uint32_t *layer_count) {
    *layer_count = probe->layer_count;
    return probe->layers;
}

const sky_tensor *sky_llama_probe_rows(const sky_llama_probe *probe, size_t *row_sets) {
    *row_sets = 2 * (size_t)probe->layer_count;
    return probe->rows;
}

sky_status sky_llama_probe_restore(sky_llama_probe *probe) {
    const sky_tensor *full = &probe->rows[0];
    llama_memory_clear(llama_get_memory(probe->context), true);
    probe->held_tokens = full->first_token + full->token_count;
    return llama_state_seq_set_data(probe->context, probe->blob, probe->blob_bytes, SEQ_PROMPT) ==
                   probe->blob_bytes
               ? SKY_OK
               : SKY_E_CORRUPT;
}

sky_status sky_llama_probe_decode(sky_llama_probe *probe, const uint32_t *tokens,
                                  uint32_t token_count) {
    if (token_count > probe->decode_tokens_max)
        return SKY_E_PARAM;
    return probe_compute(probe, tokens, token_count, true);
}

const float *sky_llama_probe_logits(const sky_llama_probe *probe, uint32_t i,
                                    uint32_t *vocabulary) {
    *vocabulary = (uint32_t)llama_vocab_n_tokens(probe->llama->vocab);
    return llama_get_logits_ith(probe->context, (int32_t)i);
}

const double *sky_llama_probe_query_moment(const sky_llama_probe *probe, uint32_t layer) {
    return probe->seen[probe->layers[layer].model_layer].moment;
}
