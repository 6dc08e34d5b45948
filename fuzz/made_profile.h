/* A profile for fuzz targets: made up, but with all that one can know, so that streams that need
 * one are coded too. */
#ifndef SKYMEM_FUZZ_MADE_PROFILE_H
#define SKYMEM_FUZZ_MADE_PROFILE_H

#include <stdint.h>
#include <stdlib.h>

#include <skymem/codec.h>

enum {
    MADE_MEAN = 1,
    MADE_PAIRS = 2,
    MADE_KLT = 4,
    MADE_TABLES = 8,
    MADE_WEIGHTS = 16,
    MADE_ALL = 31
};

#define MADE_TOKENS 8

static inline float made_value(uint32_t i) {
    return (float)((i * 2654435761u >> 8 & 1023) + 1) / 512 - 1;
}

static inline void made_matrices(sky_profile *p, uint32_t layer, sky_kv kv, uint32_t heads,
                                 uint32_t dim, uint32_t knows) {
    size_t pairs = (size_t)heads * (dim / 2), all = (size_t)heads * dim * dim;
    float *g = calloc(4 * pairs + all, sizeof *g);
    for (size_t i = 0; i < pairs; i++) { /* of determinant 1 + x² / 2 */
        g[4 * i] = g[4 * i + 3] = 1;
        g[4 * i + 1] = made_value((uint32_t)i);
        g[4 * i + 2] = -0.5f * g[4 * i + 1];
    }
    if (knows & MADE_PAIRS)
        sky_profile_set_pairs(p, layer, kv, g);
    for (size_t i = 0; i < all; i++) /* a reflection, which is its own inverse */
        g[i] = (float)(i % dim == i / dim % dim) - 2.0f / (float)dim;
    if (knows & MADE_KLT)
        sky_profile_set_klt(p, layer, kv, g, g);
    free(g);
}

static inline void made_stream(sky_profile *p, uint32_t layer, sky_kv kv, uint32_t heads,
                               uint32_t dim, uint32_t knows, uint32_t levels) {
    size_t count = (size_t)MADE_TOKENS * heads * dim;
    float *rows = malloc(count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = made_value((uint32_t)i) * (float)(1 + i % dim % 5);
    if (knows & MADE_MEAN)
        sky_profile_set_mean(p, layer, kv, rows);
    if (knows & MADE_WEIGHTS)
        sky_profile_set_weights(p, layer, kv, rows);
    made_matrices(p, layer, kv, heads, dim, knows);
    for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT && (knows & MADE_TABLES); level++)
        for (int dependent = 0; dependent < 2 && (levels >> level & 1); dependent++)
            sky_profile_set_step(p, layer, kv, (sky_level)level, dependent,
                                 0.02f * (float)(1 << level));
    if (knows & MADE_TABLES)
        sky_profile_fit(p, layer, kv, rows, MADE_TOKENS, MADE_TOKENS);
    free(rows);
}

/* Sealed; `turned` dimensions of keys by rope, of layers that have as many; tables for `levels`, a
 * bit each, which is what takes time. NULL: no such shape. */
static inline sky_profile *made_profile(sky_profile_layer *layers, uint32_t layer_count,
                                        sky_rope_kind kind, uint32_t turned, uint32_t knows,
                                        uint32_t levels) {
    sky_rope rope;
    sky_profile *p = NULL;
    if (sky_rope_init(&rope, kind, kind == SKY_ROPE_NONE ? 0 : turned, 10000, 1, NULL) != SKY_OK)
        return NULL;
    for (uint32_t i = 0; i < layer_count; i++)
        layers[i].rope = layers[i].k_dim >= turned ? 0 : SKY_ROPE_OF_NONE;
    sky_profile_shape shape = {layer_count, layers, 1, &rope, {0}};
    if (sky_profile_create(&shape, &p) != SKY_OK)
        return NULL;
    for (uint32_t i = 0; i < layer_count; i++) {
        made_stream(p, i, SKY_KV_K, layers[i].kv_heads, layers[i].k_dim, knows, levels);
        made_stream(p, i, SKY_KV_V, layers[i].kv_heads, layers[i].v_dim, knows, levels);
    }
    if (sky_profile_seal(p) != SKY_OK)
        abort();
    return p;
}

#endif
