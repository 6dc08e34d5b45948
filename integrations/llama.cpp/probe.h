/* Inside the probe: what was seen of the graph, layer by layer of the model. */
#ifndef SKYMEM_LLAMA_PROBE_INSIDE_H
#define SKYMEM_LLAMA_PROBE_INSIDE_H

#include "adapter.h"
#include "skymem_llama_probe.h"

/* By the model's number of a layer. */
typedef struct {
    sky_llama_layer layer;
    bool k_known, q_known;
    uint16_t *last_k; /* [kv_heads × k_width] the last row that went into the cache, f16 */
    double *moment;   /* [kv_head, k_width, k_width] a mean over moment_tokens */
    uint64_t moment_tokens;
} probe_seen;

struct sky_llama_probe {
    sky_llama *llama;
    struct llama_context *context;
    struct llama_batch batch;
    uint32_t decode_tokens_max;
    uint32_t held_tokens;
    uint32_t layer_count;

    bool watching;
    bool unexpected;         /* the graph held something this code does not know */
    probe_seen *seen;        /* [layer_count] by the model's number */
    sky_llama_layer *layers; /* [layer_count] in the cache's order */

    uint8_t *blob;
    size_t blob_bytes;
    size_t blob_bytes_max;
    sky_tensor *rows; /* [2 × layer_count] into blob */
};

/* llama.cpp's callback, of every operation. */
bool sky__probe_watch(struct ggml_tensor *t, bool ask, void *self);

/* Fill in layers. Errors: SKY_E_UNSUPPORTED */
sky_status sky__probe_match_layers(sky_llama_probe *probe);

#endif
