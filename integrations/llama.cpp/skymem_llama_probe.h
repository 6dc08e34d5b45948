/* A model watched from within: what its layers are, what they ask of the cache, and what changed
 * rows do to its answers. For calibrating and judging a codec, not for serving.
 *
 *   prefill(tokens) ─► rows ─► (the caller changes some) ─► restore ─► decode(tokens) ─► logits
 *
 * Layers, rope and queries are read from the graph llama.cpp computes, at the operations that write
 * the cache and attend to it; no architecture is known by name.
 *
 * Caveats: a context of its own beside the adapter's; computing stops at every layer, which costs
 * some percent; not thread-safe. */
#ifndef SKYMEM_LLAMA_PROBE_H
#define SKYMEM_LLAMA_PROBE_H

#include "skymem_llama.h"

#define SKY_LLAMA_ROPE_PAIRS_MAX 256

typedef struct sky_llama_probe sky_llama_probe;

/* One layer. Pair i of a head is channels (i, i + rope_dims / 2), or (2i, 2i + 1) when interleaved;
 * at position p rope turns it by p × rope_frequency[i] radians and stretches it by rope_stretch. */
typedef struct {
    uint32_t model_layer; /* its number in the model; the cache orders layers by group */
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t k_width; /* channels of a K head */
    uint32_t v_width;
    uint32_t rope_dims; /* 0: this layer has none */
    bool rope_interleaved;
    double rope_stretch;
    double rope_frequency[SKY_LLAMA_ROPE_PAIRS_MAX];
} sky_llama_layer;

/* A probe of a model that is open, with an f16 cache, for `context_tokens` in all and at most
 * `decode_tokens` in one decode.
 * Owner:  `llama` must live longer
 * Errors: SKY_E_UNSUPPORTED (as the engine's layout), SKY_E_NOMEM; `error` says why */
sky_status sky_llama_probe_open(sky_llama *llama, uint32_t context_tokens, uint32_t decode_tokens,
                                sky_llama_probe **out, sky_error *error);
void sky_llama_probe_close(sky_llama_probe *probe); /* NULL is fine */

/* Compute tokens from nothing and keep the state as llama.cpp saves it.
 * Errors: SKY_E_FULL, SKY_E_IO, SKY_E_NOMEM, SKY_E_UNSUPPORTED (the graph is not as expected) */
sky_status sky_llama_probe_prefill(sky_llama_probe *probe, const uint32_t *tokens,
                                   uint32_t token_count);

/* The layers, in the order of the engine's layout. After a prefill.
 * Shape: [return value's count] */
const sky_llama_layer *sky_llama_probe_layers(const sky_llama_probe *probe, uint32_t *layer_count);

/* The rows of that state, (layer, K then V), which the caller may change in place. Window layers
 * have their last rows only.
 * Owner:  the probe's, until the next prefill */
const sky_tensor *sky_llama_probe_rows(const sky_llama_probe *probe, size_t *row_sets);

/* Take the rows as they stand now for the state. Errors: SKY_E_CORRUPT */
sky_status sky_llama_probe_restore(sky_llama_probe *probe);

/* Compute tokens behind what is held; logits(i) then are those after token i.
 * Shape:  logits [vocabulary]
 * Owner:  the probe's, until the next decode
 * Errors: SKY_E_PARAM (more than decode_tokens), SKY_E_FULL, SKY_E_IO */
sky_status sky_llama_probe_decode(sky_llama_probe *probe, const uint32_t *tokens,
                                  uint32_t token_count);
const float *sky_llama_probe_logits(const sky_llama_probe *probe, uint32_t i, uint32_t *vocabulary);

/* Mean of q qᵀ over the tokens prefilled since the probe was opened, rope undone, summed over the
 * query heads that read one KV head. Every fourth token is taken.
 * Shape: [kv_head, k_width, k_width] */
const double *sky_llama_probe_query_moment(const sky_llama_probe *probe, uint32_t layer);

/* Σ Wᵀ W over the query heads that read one KV head, W being the head's columns of the layer's
 * output projection: how much a change of V weighs.
 * Shape:  out [kv_head, v_width, v_width]
 * Errors: SKY_E_IO, SKY_E_UNSUPPORTED (the file has no such tensor), SKY_E_NOMEM */
sky_status sky_llama_probe_output_moment(const sky_llama_probe *probe, const char *model_path,
                                         uint32_t layer, double *out);

/* Write the model with all weights as F32. On quantised weights the kernels round what they read,
 * and their noise hides a good codec's.
 * Errors: SKY_E_IO */
sky_status sky_llama_dequantise(const char *model_path, const char *out_path);

/* What a llama.cpp cache type makes of numbers: "q8_0", "q5_1", "q5_0", "q4_0".
 * Shape:  values [count], count a multiple of 32; bytes: what they take
 * Errors: SKY_E_PARAM (no such type), SKY_E_NOMEM */
sky_status sky_llama_round_trip(const char *type, float *values, size_t count, size_t *bytes);

#endif
