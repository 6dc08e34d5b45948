/* Walking over tensors that sky_tensor_check has found right. */
#ifndef SKY_BASE_TENSOR_H
#define SKY_BASE_TENSOR_H

#include <skymem/tensor.h>

static inline size_t sky__tensor_row_bytes(const sky_tensor *t) {
    return (size_t)t->heads * t->dim * sky_element_bytes(t->element);
}

/* A token's first element. */
static inline uint8_t *sky__tensor_row(const sky_tensor *t, uint32_t token) {
    if (!t->pages)
        return (uint8_t *)t->data + (token - t->first_token) * t->token_bytes;
    return (uint8_t *)t->data + t->pages[token / t->page_tokens] * t->page_bytes +
           token % t->page_tokens * t->token_bytes;
}

/* A head's elements lie together. */
static inline bool sky__tensor_has_heads(const sky_tensor *t) {
    return t->dim == 1 || t->element_bytes == sky_element_bytes(t->element);
}

/* A token's do. */
static inline bool sky__tensor_has_rows(const sky_tensor *t) {
    return sky__tensor_has_heads(t) &&
           (t->heads == 1 || t->head_bytes == (size_t)t->dim * sky_element_bytes(t->element));
}

/* Cut packed rows [first_token, first_token + token_count) into pieces that lie together, in order,
 * as few as there are.
 * Shape:  pieces [sky__tensor_pieces_max(token_count)]
 * Returns how many */
uint32_t sky__tensor_pieces(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                            sky_span *pieces);
size_t sky__tensor_pieces_max(const sky_tensor *t, uint32_t token_count);

/* As sky_tensor_read and sky_tensor_write, of tokens that are there. */
void sky__tensor_gather(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                        uint8_t *rows);
void sky__tensor_scatter(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                         const uint8_t *rows);

#endif
