/* See tiny_model_fixture.h. */
#include "tiny_model_fixture.h"

#include <assert.h>
#include <gguf.h>
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 64, INNER = 96, HEADS = 2, HEAD_WIDTH = 32, LAYERS = 7 };

typedef struct {
    struct ggml_context *tensors;
    struct gguf_context *file;
    uint64_t random;
} writer;

/* splitmix64, as a number around zero. */
static float next_weight(writer *w) {
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((float)(z >> 40) / 16777216.0f - 0.5f) * 0.4f;
}

static void add(writer *w, const char *name, int64_t columns, int64_t rows) {
    struct ggml_tensor *t = rows ? ggml_new_tensor_2d(w->tensors, GGML_TYPE_F32, columns, rows)
                                 : ggml_new_tensor_1d(w->tensors, GGML_TYPE_F32, columns);
    ggml_set_name(t, name);
    float *values = t->data;
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        values[i] = rows ? next_weight(w) : 1.0f;
    gguf_add_tensor(w->file, t);
}

static void set_number(writer *w, const char *architecture, const char *key, uint32_t value) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    gguf_set_val_u32(w->file, name, value);
}

/* By what each pair of a key's dimensions is slowed down. */
static void add_factors(writer *w, const char *name, float factor) {
    struct ggml_tensor *t = ggml_new_tensor_1d(w->tensors, GGML_TYPE_F32, HEAD_WIDTH / 2);
    ggml_set_name(t, name);
    for (int i = 0; i < HEAD_WIDTH / 2; i++)
        ((float *)t->data)[i] = factor;
    gguf_add_tensor(w->file, t);
}

static void add_longrope(writer *w) {
    gguf_set_val_str(w->file, "llama.rope.scaling.type", "longrope");
    set_number(w, "llama", "rope.scaling.original_context_length", 1024);
    add_factors(w, "rope_factors_long.weight", 4);
    add_factors(w, "rope_factors_short.weight", 1);
}

static void add_to_layer(writer *w, int layer, const char *part, int64_t columns, int64_t rows) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
    add(w, name, columns, rows);
}

static void set_metadata(writer *w, const char *architecture, uint32_t window_tokens) {
    char name[64];
    gguf_set_val_str(w->file, "general.architecture", architecture);
    gguf_set_val_str(w->file, "tokenizer.ggml.model", "no_vocab");
    set_number(w, architecture, "vocab_size", TINY_VOCABULARY);
    set_number(w, architecture, "context_length", 4096);
    set_number(w, architecture, "embedding_length", WIDTH);
    set_number(w, architecture, "block_count", LAYERS);
    set_number(w, architecture, "feed_forward_length", INNER);
    set_number(w, architecture, "attention.head_count", HEADS);
    set_number(w, architecture, "attention.head_count_kv", 1);
    set_number(w, architecture, "attention.key_length", HEAD_WIDTH);
    set_number(w, architecture, "attention.value_length", HEAD_WIDTH);
    set_number(w, architecture, "rope.dimension_count", HEAD_WIDTH);
    if (window_tokens)
        set_number(w, architecture, "attention.sliding_window", window_tokens);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", architecture);
    gguf_set_val_f32(w->file, name, 1e-6f);
}

static void add_layer(writer *w, int layer, bool gemma) {
    add_to_layer(w, layer, "attn_norm", WIDTH, 0);
    add_to_layer(w, layer, "attn_q", WIDTH, HEADS * HEAD_WIDTH);
    add_to_layer(w, layer, "attn_k", WIDTH, HEAD_WIDTH);
    add_to_layer(w, layer, "attn_v", WIDTH, HEAD_WIDTH);
    add_to_layer(w, layer, "attn_output", HEADS * HEAD_WIDTH, WIDTH);
    add_to_layer(w, layer, "ffn_norm", WIDTH, 0);
    add_to_layer(w, layer, "ffn_gate", WIDTH, INNER);
    add_to_layer(w, layer, "ffn_up", WIDTH, INNER);
    add_to_layer(w, layer, "ffn_down", INNER, WIDTH);
    if (!gemma)
        return;
    add_to_layer(w, layer, "attn_q_norm", HEAD_WIDTH, 0);
    add_to_layer(w, layer, "attn_k_norm", HEAD_WIDTH, 0);
    add_to_layer(w, layer, "post_attention_norm", WIDTH, 0);
    add_to_layer(w, layer, "post_ffw_norm", WIDTH, 0);
}

void tiny_model_write(const char *architecture, uint32_t window_tokens, uint64_t seed, char *path,
                      uint32_t path_bytes) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, path_bytes, "%s/skymem-tiny-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert(fd >= 0);
    close(fd);
    writer w = {ggml_init((struct ggml_init_params){.mem_size = 16u << 20}), gguf_init_empty(),
                seed};
    assert(w.tensors && w.file);
    if (strcmp(architecture, "longrope") == 0) {
        architecture = "llama";
        add_longrope(&w);
    }
    set_metadata(&w, architecture, window_tokens);
    add(&w, "token_embd.weight", WIDTH, TINY_VOCABULARY);
    add(&w, "output_norm.weight", WIDTH, 0);
    add(&w, "output.weight", WIDTH, TINY_VOCABULARY);
    for (int layer = 0; layer < LAYERS; layer++)
        add_layer(&w, layer, strcmp(architecture, "gemma3") == 0);
    bool written = gguf_write_to_file(w.file, path, false);
    assert(written);
    (void)written;
    gguf_free(w.file);
    ggml_free(w.tensors);
}
