/* NumPy's .npy arrays [layer, 2, token, kv_head, dim] of rows: what `codec` and `--dump-kv` speak.
 * */
#ifndef SKYMEM_CLI_NPY_H
#define SKYMEM_CLI_NPY_H

#include "cli.h"

typedef struct {
    sky_element element; /* <f2, <f4; <u2 is bf16 */
    uint32_t layers;
    uint32_t tokens;
    uint32_t heads;
    uint32_t dim;
    cli_blob file; /* owns `data`, when read */
    uint8_t *data;
} npy_array;

static inline size_t npy_token_bytes(const npy_array *a) {
    return (size_t)a->heads * a->dim * sky_element_bytes(a->element);
}
static inline size_t npy_bytes(const npy_array *a) {
    return (size_t)a->layers * 2 * a->tokens * npy_token_bytes(a);
}
/* First row of layer `layer`, K (0) or V (1). */
static inline uint8_t *npy_rows(const npy_array *a, uint32_t layer, uint32_t kv) {
    return a->data + ((size_t)layer * 2 + kv) * a->tokens * npy_token_bytes(a);
}

/* Read one; says why when it cannot. The caller frees with cli_blob_free(&out->file). */
int npy_read(const cli *c, const char *path, npy_array *out);
int npy_write(const cli *c, const char *path, const npy_array *a);

#endif
