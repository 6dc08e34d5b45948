/* What the probe takes from the model file, and ggml's own cache types. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gguf.h>

#include "probe.h"

sky_status sky_llama_dequantise(const char *model_path, const char *out_path) {
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    p.ftype = LLAMA_FTYPE_ALL_F32;
    p.output_tensor_type = GGML_TYPE_F32;
    p.token_embedding_type = GGML_TYPE_F32;
    p.allow_requantize = true;
    return llama_model_quantize(model_path, out_path, &p) == 0 ? SKY_OK : SKY_E_IO;
}

sky_status sky_llama_round_trip(const char *type, float *values, size_t count, size_t *bytes) {
    static const enum ggml_type types[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,
                                           GGML_TYPE_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, ggml_type_name(types[i])) != 0)
            continue;
        size_t need = ggml_row_size(types[i], (int64_t)count);
        void *packed = malloc(need);
        if (!packed)
            return SKY_E_NOMEM;
        ggml_quantize_chunk(types[i], values, packed, 0, 1, (int64_t)count, NULL);
        ggml_get_type_traits(types[i])->to_float(packed, values, (int64_t)count);
        free(packed);
        *bytes = need;
        return SKY_OK;
    }
    return SKY_E_PARAM;
}

/* A matrix of the file, as floats. Shape: [rows, columns] */
static sky_status read_matrix(const char *path, const char *name, float **out, int64_t *columns,
                              int64_t *rows) {
    struct ggml_context *tensors = NULL;
    struct gguf_context *file = gguf_init_from_file(path,
                                                    (struct gguf_init_params){.ctx = &tensors});
    if (!file)
        return SKY_E_IO;
    const struct ggml_tensor *t = ggml_get_tensor(tensors, name);
    sky_status status = t ? SKY_E_NOMEM : SKY_E_UNSUPPORTED;
    float *values = t ? malloc((size_t)ggml_nelements(t) * sizeof *values) : NULL;
    if (values) {
        if (t->type == GGML_TYPE_F32)
            memcpy(values, t->data, (size_t)ggml_nelements(t) * sizeof *values);
        else
            ggml_get_type_traits(t->type)->to_float(t->data, values, ggml_nelements(t));
        *columns = t->ne[0];
        *rows = t->ne[1];
        *out = values;
        status = SKY_OK;
    }
    gguf_free(file);
    ggml_free(tensors);
    return status;
}

sky_status sky_llama_probe_output_moment(const sky_llama_probe *probe, const char *model_path,
                                         uint32_t layer, double *out) {
    const sky_llama_layer *l = &probe->layers[layer];
    char name[64];
    float *weights;
    int64_t columns, rows;
    snprintf(name, sizeof name, "blk.%u.attn_output.weight", l->model_layer);
    sky_status status = read_matrix(model_path, name, &weights, &columns, &rows);
    if (status != SKY_OK)
        return status;
    size_t width = l->v_width, square = width * width;
    if (columns != (int64_t)(l->query_heads * width)) {
        free(weights);
        return SKY_E_UNSUPPORTED;
    }
    memset(out, 0, l->kv_heads * square * sizeof *out);
    uint32_t each = l->query_heads / l->kv_heads;
    for (int64_t r = 0; r < rows; r++) {
        for (uint32_t h = 0; h < l->query_heads; h++) {
            const float *w = weights + r * columns + h * width;
            double *sum = out + h / each * square;
            for (size_t i = 0; i < width; i++)
                for (size_t j = 0; j < width; j++)
                    sum[i * width + j] += (double)w[i] * (double)w[j];
        }
    }
    free(weights);
    return SKY_OK;
}
