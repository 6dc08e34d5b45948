/* One layer's K or V in memory: the layout that engines use, and that the codec reads and writes.
 * Tokens have numbers, positions in the prompt; element i of a head of a token is at
 *
 *   data + (token − first_token) × token_bytes + head × head_bytes + i × element_bytes
 *
 * or, where memory is paged, as the table says, by the token's number alone:
 *
 *   data + pages[token / page_tokens] × page_bytes
 *        + (token % page_tokens) × token_bytes + head × head_bytes + i × element_bytes
 *
 *                                           token_bytes   head_bytes   page_bytes   (elements)
 *   llama.cpp     [token, head, dim]        H·D           D            –
 *   Transformers  [head, token, dim]        D             T·D          –
 *   vLLM          [page, head, 128, K|V]    2·D           128·2·D      H·128·2·D
 *                 of K; V is the same, with data D elements on
 *
 * Packed rows are the first of these without gaps. A payload stores packed rows, so its bytes do
 * not depend on the layout of an engine's memory.
 *
 * Surprise: only the table's entries for tokens of this tensor are read. Other entries may have any
 * value, such as the pages of tokens that have left a window. */
#ifndef SKYMEM_TENSOR_H
#define SKYMEM_TENSOR_H

#include <string.h>

#include <skymem/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which of a layer's two. */
typedef enum { SKY_KV_K = 0, SKY_KV_V = 1 } sky_kv;

#define SKY_ROW_BYTES_MAX (1u << 20)

/* Elements [token, head, dim]. All sizes and strides are in bytes, multiples of the element's size;
 * each stride is at least as large as what it steps over, so that no two elements share a byte.
 * Functions that read a tensor do not write to data. */
typedef struct {
    void *data;
    size_t bytes; /* of the memory at data: no element lies beyond */
    sky_element element;
    uint32_t heads;
    uint32_t dim; /* elements of a head */
    uint32_t first_token;
    uint32_t token_count; /* at least 1 */
    size_t token_bytes;   /* from a token to the next; and so on */
    size_t head_bytes;
    size_t element_bytes;
    const uint32_t *pages; /* [page_count] numbers of pages; NULL: not paged, and the rest unused */
    uint32_t page_count;
    uint32_t page_tokens; /* of a page */
    size_t page_bytes;    /* from page n to page n + 1 */
} sky_tensor;

/* Packed rows. Shape: data [token_count, heads, dim] */
static inline sky_tensor sky_tensor_packed(void *data, sky_element element, uint32_t heads,
                                           uint32_t dim, uint32_t first_token,
                                           uint32_t token_count) {
    sky_tensor t;
    memset(&t, 0, sizeof t);
    t.data = data;
    t.element = element;
    t.heads = heads;
    t.dim = dim;
    t.first_token = first_token;
    t.token_count = token_count;
    t.element_bytes = sky_element_bytes(element);
    t.head_bytes = dim * t.element_bytes;
    t.token_bytes = heads * t.head_bytes;
    t.bytes = token_count * t.token_bytes;
    return t;
}

/* Tokens [first_token, first_token + token_count) of a tensor that has them; the same memory. */
static inline sky_tensor sky_tensor_slice(const sky_tensor *tensor, uint32_t first_token,
                                          uint32_t token_count) {
    sky_tensor t = *tensor;
    size_t skipped = t.pages ? 0 : (first_token - t.first_token) * t.token_bytes;
    t.data = (uint8_t *)t.data + skipped;
    t.bytes -= skipped;
    t.first_token = first_token;
    t.token_count = token_count;
    return t;
}

/* Check the members; data is not read. `why` (NULL is fine) names the member that is wrong.
 * Errors: SKY_E_PARAM: NULL, a number out of range, strides whose elements overlap or that are no
 *         multiples, a page that is not in the table, in it twice, or beyond the memory */
SKY_API sky_status sky_tensor_check(const sky_tensor *tensor, sky_error *why);

/* Copy tokens [first_token, first_token + token_count) to, or from, packed rows elsewhere.
 * Shape:  rows [token_count, heads, dim]
 * Errors: SKY_E_PARAM: as sky_tensor_check, or tokens outside the tensor; nothing was copied */
SKY_API sky_status sky_tensor_read(const sky_tensor *tensor, uint32_t first_token,
                                   uint32_t token_count, void *rows);
SKY_API sky_status sky_tensor_write(const sky_tensor *tensor, uint32_t first_token,
                                    uint32_t token_count, const void *rows);

#ifdef __cplusplus
}
#endif
#endif
