/* The engine's rows as one NumPy array [layer, 2, token, kv_head, dim], K first: run --dump-kv.
 *
 * Layers stand in the model's order. The engine's layout has them group by group, so a model with
 * several groups is watched while it computes a few tokens. Rows come out of the engine a few
 * tokens at a time, because a window layer lends at most its window. */
#include "model.h"

#ifdef SKYMEM_WITH_LLAMA

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <skymem_llama_probe.h>

#define STEP_TOKENS    128u
#define WATCHED_TOKENS 8u

typedef struct {
    uint32_t layers;
    uint32_t model_layer[SKY_LAYERS_MAX]; /* of the engine's layers */
    uint32_t row_bytes;
    uint32_t tokens;
    uint8_t *data;
} array;

static const char *element_code(sky_element element) {
    return element == SKY_ELEMENT_F32 ? "<f4" : element == SKY_ELEMENT_F16 ? "<f2" : "<u2";
}

/* All groups must be alike for one array to hold them. */
static int check_layout(const cli *c, const sky_layout *layout) {
    const sky_layer_group *first = &layout->groups[0];
    if (first->kv_heads == 0)
        cli_note(c, "--dump-kv: the engine does not tell its KV heads: written as one");
    for (uint32_t g = 0; g < layout->group_count; g++) {
        const sky_layer_group *group = &layout->groups[g];
        if (group->kv_heads != first->kv_heads || group->k_row_bytes != first->k_row_bytes ||
            group->v_row_bytes != first->k_row_bytes || group->k_element != first->k_element ||
            group->v_element != first->k_element)
            return cli_failed(c,
                              "--dump-kv: layers of this model differ in shape, so that one array "
                              "cannot hold them");
    }
    return CLI_OK;
}

static sky_status copy_rows(array *a, const sky_state *state, uint32_t first, uint32_t count) {
    sky_status status = SKY_OK;
    for (size_t i = 0; status == SKY_OK && i < state->tensor_count; i++) {
        uint64_t to = (2 * (uint64_t)a->model_layer[i / 2] + i % 2) * a->tokens + first;
        status = sky_tensor_read(&state->tensors[i], first, count, a->data + to * a->row_bytes);
    }
    return status;
}

static sky_status watch_layers(const cli_model *m, array *a, sky_error *error) {
    const uint32_t tokens[WATCHED_TOKENS] = {2, 3, 5, 7, 11, 13, 17, 19};
    sky_llama_probe *probe = NULL;
    sky_status status = sky_llama_probe_open(m->llama, 64, WATCHED_TOKENS, &probe, error);
    if (status == SKY_OK)
        status = sky_llama_probe_prefill(probe, tokens, WATCHED_TOKENS);
    uint32_t count = 0;
    const sky_llama_layer *layers = status == SKY_OK ? sky_llama_probe_layers(probe, &count) : NULL;
    for (uint32_t i = 0; i < count && i < a->layers; i++)
        a->model_layer[i] = layers[i].model_layer;
    sky_llama_probe_close(probe);
    return status;
}

/* One group has its layers in the model's order. */
static int find_order(const cli *c, const cli_model *m, const sky_layout *layout, array *a) {
    sky_error error = {0};
    for (uint32_t i = 0; i < a->layers; i++)
        a->model_layer[i] = i;
    sky_status status = layout->group_count > 1 ? watch_layers(m, a, &error) : SKY_OK;
    return status == SKY_OK ? CLI_OK
                            : cli_failed(c,
                                         "--dump-kv: the order of the model's layers cannot be "
                                         "found: %s",
                                         error.text[0] ? error.text : sky_status_text(status));
}

static sky_status fill_array(const cli_model *m, array *a) {
    sky_state state = {calloc(2 * a->layers, sizeof(sky_tensor)), 2 * a->layers};
    sky_status status = state.tensors ? SKY_OK : SKY_E_NOMEM;
    for (uint32_t first = 0; first < a->tokens && status == SKY_OK; first += STEP_TOKENS) {
        uint32_t left = a->tokens - first, count = left < STEP_TOKENS ? left : STEP_TOKENS;
        status = m->engine->ops->extract(m->engine->self, first, count, &state);
        if (status == SKY_OK)
            status = copy_rows(a, &state, first, count);
    }
    free(state.tensors);
    return status;
}

/* The .npy head: magic, version 1.0, length, a Python dictionary padded to 64 bytes. */
static size_t npy_head(const sky_layer_group *g, const array *a, char out[256]) {
    uint32_t element_bytes = sky_element_bytes(g->k_element);
    uint32_t heads = g->kv_heads ? g->kv_heads : 1;
    char text[200];
    int bytes = snprintf(text, sizeof text,
                         "{'descr': '%s', 'fortran_order': False, 'shape': (%u, 2, %u, %u, %u), }",
                         element_code(g->k_element), a->layers, a->tokens, heads,
                         a->row_bytes / heads / element_bytes);
    size_t padded = ((size_t)bytes + 1 + 10 + 63) / 64 * 64;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((padded - 10) & 0xff);
    out[9] = (char)((padded - 10) >> 8);
    memset(out + 10, ' ', padded - 10);
    memcpy(out + 10, text, (size_t)bytes);
    out[padded - 1] = '\n';
    return padded;
}

static int write_array(const cli *c, const sky_layer_group *g, const array *a, size_t bytes,
                       const char *path) {
    char head[256];
    size_t head_bytes = npy_head(g, a, head);
    FILE *file = fopen(path, "we");
    if (!file)
        return cli_failed(c, "--dump-kv %s: %s", path, strerror(errno));
    bool whole = fwrite(head, 1, head_bytes, file) == head_bytes &&
                 fwrite(a->data, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !whole)
        return cli_failed(c, "--dump-kv %s: %s; is the disk full?", path, strerror(errno));
    return CLI_OK;
}

int cli_dump_kv(const cli *c, const cli_model *m, const sky_layout *layout, uint32_t tokens,
                const char *path) {
    int code = check_layout(c, layout);
    if (code != CLI_OK)
        return code;
    array a = {.row_bytes = layout->groups[0].k_row_bytes, .tokens = tokens};
    for (uint32_t g = 0; g < layout->group_count; g++)
        a.layers += layout->groups[g].layer_count;
    code = find_order(c, m, layout, &a);
    if (code != CLI_OK)
        return code;
    size_t bytes = (size_t)2 * a.layers * tokens * a.row_bytes;
    a.data = malloc(bytes ? bytes : 1);
    if (!a.data)
        return cli_failed(c, "--dump-kv: out of memory");
    sky_status status = fill_array(m, &a);
    if (status == SKY_OK)
        code = write_array(c, &layout->groups[0], &a, bytes, path);
    else
        code = cli_failed(c,
                          "--dump-kv: the engine holds only the window of the restored tokens; add "
                          "--no-load to compute them all");
    free(a.data);
    return code;
}

#endif
