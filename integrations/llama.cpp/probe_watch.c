/* What the probe sees while llama.cpp computes.
 *
 *   … ─► ROPE ─► (views) ─► SET_ROWS cache_k_l5      K as it is stored, and how it was turned
 *        ROPE ─► (views) ─► FLASH_ATTN_EXT           q, and which layer's cache it reads
 *
 * Surprise: an operation's inputs are still in memory right after it ran, and no later: buffers are
 * taken again. So everything is read at that moment, and rope is undone by arithmetic instead of
 * looked up before it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

#define MOMENT_EVERY 4 /* tokens */

/* Which layer's K cache a tensor is, or is a view of; -1: none. */
static int k_cache_layer(const struct ggml_tensor *t) {
    const struct ggml_tensor *root = t->view_src ? t->view_src : t;
    int layer, end = 0;
    if (sscanf(root->name, "cache_k_l%d%n", &layer, &end) != 1 || root->name[end])
        return -1;
    return layer;
}

/* The rope a tensor came out of, through views, copies of shape and scalings; NULL: none. */
static const struct ggml_tensor *rope_of(const struct ggml_tensor *t) {
    while (t && t->op != GGML_OP_ROPE) {
        switch (t->op) {
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE:
        case GGML_OP_CONT:
        case GGML_OP_CPY:
        case GGML_OP_SCALE:
            t = t->src[0];
            break;
        default:
            return NULL;
        }
    }
    return t;
}

static double op_number(const struct ggml_tensor *t, int index) {
    float value;
    memcpy(&value, &t->op_params[index], sizeof value);
    return (double)value;
}

/* op_params as ggml_rope_ext lays them out; YaRN's blend of stretched and plain frequencies. */
static bool read_rope(const struct ggml_tensor *rope, sky_llama_layer *out) {
    int32_t dims = rope->op_params[1], mode = rope->op_params[2], trained = rope->op_params[4];
    double base = op_number(rope, 5), scale = op_number(rope, 6), blend = op_number(rope, 7);
    if ((mode != GGML_ROPE_TYPE_NORMAL && mode != GGML_ROPE_TYPE_NEOX) || dims < 2 ||
        dims % 2 != 0 || dims / 2 > SKY_LLAMA_ROPE_PAIRS_MAX || rope->op_params[15] != 0)
        return false;
    const float *divisors = rope->src[2] ? rope->src[2]->data : NULL;
    float edges[2] = {0, 0};
    ggml_rope_yarn_corr_dims(dims, trained, (float)base, (float)op_number(rope, 9),
                             (float)op_number(rope, 10), edges);
    out->rope_dims = (uint32_t)dims;
    out->rope_interleaved = mode == GGML_ROPE_TYPE_NORMAL;
    out->rope_stretch = op_number(rope, 8);
    if (blend != 0)
        out->rope_stretch *= 1 + 0.1 * log(1 / scale);
    for (int i = 0; i < dims / 2; i++) {
        double plain = pow(base, -2.0 * i / dims) / (divisors ? (double)divisors[i] : 1);
        double along = (i - (double)edges[0]) / fmax(0.001, (double)edges[1] - (double)edges[0]);
        double mix = blend * (1 - fmin(1, fmax(0, along)));
        out->rope_frequency[i] = plain * (scale * (1 - mix) + mix);
    }
    return true;
}

static probe_seen *seen_layer(sky_llama_probe *probe, int layer) {
    return layer >= 0 && (uint32_t)layer < probe->layer_count ? &probe->seen[layer] : NULL;
}

static void see_stored_k(sky_llama_probe *probe, const struct ggml_tensor *t) {
    const struct ggml_tensor *k = t->src[0];
    probe_seen *seen = seen_layer(probe, k_cache_layer(t));
    if (!seen || k->type != GGML_TYPE_F32 || k->nb[0] != sizeof(float)) {
        probe->unexpected = true;
        return;
    }
    if (!seen->k_known) {
        const struct ggml_tensor *rope = rope_of(k);
        if (rope && !read_rope(rope, &seen->layer))
            probe->unexpected = true;
        seen->last_k = calloc((size_t)k->ne[0], sizeof *seen->last_k);
        seen->k_known = seen->last_k != NULL;
    }
    if (seen->k_known)
        ggml_fp32_to_fp16_row((const float *)(const void *)((const char *)k->data +
                                                            (size_t)(k->ne[1] - 1) * k->nb[1]),
                              seen->last_k, k->ne[0]);
}

/* Undo rope on one head's query at a position. */
static void undo_rope(const sky_llama_layer *layer, uint32_t position, const float *q, float *out) {
    memcpy(out, q, layer->k_width * sizeof *out);
    uint32_t pairs = layer->rope_dims / 2;
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t a = layer->rope_interleaved ? 2 * i : i;
        uint32_t b = layer->rope_interleaved ? 2 * i + 1 : i + pairs;
        double angle = position * layer->rope_frequency[i];
        float c = (float)(cos(angle) / layer->rope_stretch);
        float s = (float)(sin(angle) / layer->rope_stretch);
        out[a] = q[a] * c + q[b] * s;
        out[b] = q[b] * c - q[a] * s;
    }
}

static void add_square(const float *x, uint32_t width, float *sum) {
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t j = 0; j < width; j++)
            sum[(size_t)i * width + j] += x[i] * x[j];
}

/* Shape: q [head, token, width] by its strides, the batch's tokens from position `first`. */
static void add_queries(probe_seen *seen, const struct ggml_tensor *q, uint32_t first) {
    const sky_llama_layer *layer = &seen->layer;
    size_t width = layer->k_width, square = width * width, all = layer->kv_heads * square;
    float *sum = calloc(all + width, sizeof *sum);
    if (!sum)
        return;
    float *flat = sum + all;
    uint32_t each = layer->query_heads / layer->kv_heads;
    uint64_t tokens = 0;
    for (int64_t t = 0; t < q->ne[1]; t += MOMENT_EVERY, tokens++) {
        for (uint32_t h = 0; h < layer->query_heads; h++) {
            const char *at = (const char *)q->data + (size_t)t * q->nb[1] + h * q->nb[2];
            undo_rope(layer, first + (uint32_t)t, (const float *)(const void *)at, flat);
            add_square(flat, layer->k_width, sum + h / each * square);
        }
    }
    double before = (double)seen->moment_tokens, after = before + (double)tokens;
    for (size_t i = 0; i < all; i++)
        seen->moment[i] = (seen->moment[i] * before + (double)sum[i]) / after;
    seen->moment_tokens += tokens;
    free(sum);
}

static void see_attention(sky_llama_probe *probe, const struct ggml_tensor *t) {
    const struct ggml_tensor *q = t->src[0], *k = t->src[1], *v = t->src[2];
    probe_seen *seen = seen_layer(probe, k_cache_layer(k));
    if (!seen || q->type != GGML_TYPE_F32 || q->nb[0] != sizeof(float) || q->ne[3] != 1 ||
        q->ne[2] % k->ne[2] != 0) {
        probe->unexpected = true;
        return;
    }
    if (!seen->q_known) {
        seen->layer.query_heads = (uint32_t)q->ne[2];
        seen->layer.kv_heads = (uint32_t)k->ne[2];
        seen->layer.k_width = (uint32_t)k->ne[0];
        seen->layer.v_width = (uint32_t)v->ne[0];
        seen->moment = calloc((size_t)(k->ne[2] * k->ne[0] * k->ne[0]), sizeof *seen->moment);
        seen->q_known = seen->moment != NULL;
    }
    if (seen->q_known)
        add_queries(seen, q, probe->held_tokens);
}

bool sky__probe_watch(struct ggml_tensor *t, bool ask, void *self) {
    sky_llama_probe *probe = self;
    bool stored = t->op == GGML_OP_SET_ROWS && k_cache_layer(t) >= 0;
    bool wanted = probe->watching && (stored || t->op == GGML_OP_FLASH_ATTN_EXT);
    if (ask || !wanted)
        return ask ? wanted : true;
    if (stored)
        see_stored_k(probe, t);
    else
        see_attention(probe, t);
    return true;
}

sky_status sky__probe_match_layers(sky_llama_probe *probe) {
    if (probe->unexpected)
        return SKY_E_UNSUPPORTED;
    for (uint32_t i = 0; i < probe->layer_count; i++) {
        const sky_tensor *k = &probe->rows[2 * (size_t)i];
        uint32_t found = UINT32_MAX;
        for (uint32_t l = 0; l < probe->layer_count; l++) {
            const probe_seen *seen = &probe->seen[l];
            if (!seen->k_known || !seen->q_known)
                return SKY_E_UNSUPPORTED;
            size_t bytes = (size_t)2 * seen->layer.kv_heads * seen->layer.k_width;
            if (memcmp((uint8_t *)k->data + (k->token_count - 1) * bytes, seen->last_k, bytes) == 0)
                found = l;
        }
        if (found == UINT32_MAX)
            return SKY_E_UNSUPPORTED;
        probe->layers[i] = probe->seen[found].layer;
        probe->layers[i].model_layer = found;
    }
    return SKY_OK;
}
