/* Checking tensors, cutting them into pieces, copying between them and packed rows; see tensor.h.
 *
 * A tensor has up to four dimensions: element, head, token and page. Taken from the smallest stride
 * to the largest, no stride may be less than what all before it span. So no two elements share a
 * byte, and the last one's place bounds all. */
#include "base/tensor.h"

#include <string.h>

#include "base/error.h"

/* ---- checking ---- */

typedef struct {
    const char *name;
    uint64_t count;
    size_t bytes; /* stride */
} dimension;

/* Entries of the page table that hold the tensor's tokens. */
static const uint32_t *pages_used(const sky_tensor *t, uint32_t *count) {
    uint32_t first = t->first_token / t->page_tokens;
    *count = (t->first_token + (t->token_count - 1)) / t->page_tokens - first + 1;
    return t->pages + first;
}

/* No page twice: a set of SEEN numbers at a time, from the lowest on that is not looked at yet. The
 * pages lie within the tensor's bytes, which bounds how often that is. */
#define SEEN 32768u

static sky_status check_pages_differ(const sky_tensor *t, sky_error *why) {
    uint32_t count;
    const uint32_t *pages = pages_used(t, &count);
    for (uint64_t from = 0, next; from != UINT64_MAX; from = next) {
        uint64_t seen[SEEN / 64] = {0};
        next = UINT64_MAX;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t place = pages[i] - from;
            if (pages[i] < from)
                continue;
            if (place >= SEEN) {
                next = pages[i] < next ? pages[i] : next;
                continue;
            }
            if (seen[place / 64] >> place % 64 & 1)
                return sky_fail(why, SKY_E_PARAM, "tensor: a page is twice in pages");
            seen[place / 64] |= UINT64_C(1) << place % 64;
        }
    }
    return SKY_OK;
}

static sky_status highest_page(const sky_tensor *t, uint32_t *highest, sky_error *why) {
    if (t->page_tokens == 0)
        return sky_fail(why, SKY_E_PARAM, "tensor: page_tokens is 0");
    uint32_t last = (t->first_token + (t->token_count - 1)) / t->page_tokens, count;
    if (last >= t->page_count)
        return sky_fail(why, SKY_E_PARAM, "tensor: page_count is %u: its tokens need %u",
                        t->page_count, last + 1);
    const uint32_t *pages = pages_used(t, &count);
    for (uint32_t i = 0; i < count; i++)
        *highest = pages[i] > *highest ? pages[i] : *highest;
    return SKY_OK;
}

static void sort_dimensions(dimension *d, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = i; j > 0 && d[j].bytes < d[j - 1].bytes; j--) {
            dimension swap = d[j];
            d[j] = d[j - 1];
            d[j - 1] = swap;
        }
}

/* Dimensions of one step take no room. */
static sky_status check_strides(const sky_tensor *t, dimension *d, uint32_t count, sky_error *why) {
    size_t size = sky_element_bytes(t->element), span = size, step;
    sort_dimensions(d, count);
    bool within = true;
    for (uint32_t i = 0; i < count && within; i++) {
        if (d[i].count == 1)
            continue;
        if (d[i].bytes % size != 0 || d[i].bytes < span)
            return sky_fail(why, SKY_E_PARAM, "tensor: %s is %zu: at least %zu, a multiple of %zu",
                            d[i].name, d[i].bytes, span, size);
        within = !__builtin_mul_overflow(d[i].bytes, d[i].count - 1, &step) &&
                 !__builtin_add_overflow(span, step, &span);
    }
    if (!within || span > t->bytes || (uintptr_t)t->data > UINTPTR_MAX - t->bytes)
        return sky_fail(why, SKY_E_PARAM, "tensor: elements lie beyond its %zu bytes", t->bytes);
    return SKY_OK;
}

sky_status sky_tensor_check(const sky_tensor *t, sky_error *why) {
    if (!t || !t->data)
        return sky_fail(why, SKY_E_PARAM, "tensor: no data");
    if (!sky_element_is_known(t->element))
        return sky_fail(why, SKY_E_PARAM, "tensor: element is %d: none", (int)t->element);
    if (t->heads == 0 || t->dim == 0 || t->token_count == 0 ||
        t->token_count - 1 > UINT32_MAX - t->first_token)
        return sky_fail(why, SKY_E_PARAM, "tensor: %u tokens from %u on, %u heads, %u dimensions",
                        t->token_count, t->first_token, t->heads, t->dim);
    if (t->heads > SKY_ROW_BYTES_MAX || t->dim > SKY_ROW_BYTES_MAX ||
        (uint64_t)t->heads * t->dim * sky_element_bytes(t->element) > SKY_ROW_BYTES_MAX)
        return sky_fail(why, SKY_E_PARAM, "tensor: a row is longer than %u bytes",
                        SKY_ROW_BYTES_MAX);
    uint32_t page = 0;
    sky_status status = t->pages ? highest_page(t, &page, why) : SKY_OK;
    dimension d[] = {{"element_bytes", t->dim, t->element_bytes},
                     {"head_bytes", t->heads, t->head_bytes},
                     {"token_bytes", t->pages ? t->page_tokens : t->token_count, t->token_bytes},
                     {"page_bytes", (uint64_t)page + 1, t->page_bytes}};
    if (status == SKY_OK)
        status = check_strides(t, d, t->pages ? 4 : 3, why);
    return status == SKY_OK && t->pages ? check_pages_differ(t, why) : status;
}

/* ---- pieces ---- */

size_t sky__tensor_pieces_max(const sky_tensor *t, uint32_t token_count) {
    if (!sky__tensor_has_heads(t))
        return (size_t)token_count * t->heads * t->dim;
    if (!sky__tensor_has_rows(t))
        return (size_t)token_count * t->heads;
    return t->pages || t->token_bytes != sky__tensor_row_bytes(t) ? token_count : 1;
}

/* A walk over packed rows, piece by piece. */
typedef struct {
    const sky_tensor *t;
    uint32_t token; /* what comes next */
    uint32_t head;
    uint32_t element;
    uint32_t left; /* tokens */
    bool rows;     /* a token's elements lie together … */
    bool runs;     /* … and the next token's follow them */
    uint32_t elements;
} walk;

static walk walk_over(const sky_tensor *t, uint32_t first_token, uint32_t token_count) {
    bool rows = sky__tensor_has_rows(t);
    return (walk){.t = t,
                  .token = first_token,
                  .left = token_count,
                  .rows = rows,
                  .runs = rows && t->token_bytes == sky__tensor_row_bytes(t),
                  .elements = sky__tensor_has_heads(t) ? t->dim : 1};
}

static bool walk_next(walk *w, sky_span *piece) {
    const sky_tensor *t = w->t;
    if (w->left == 0)
        return false;
    uint8_t *row = sky__tensor_row(t, w->token);
    uint32_t step = 1;
    if (w->runs) {
        step = t->pages ? t->page_tokens - w->token % t->page_tokens : w->left;
        step = step < w->left ? step : w->left;
    }
    if (w->rows) {
        *piece = (sky_span){row, step * sky__tensor_row_bytes(t)};
    } else {
        *piece = (sky_span){row + w->head * t->head_bytes + w->element * t->element_bytes,
                            (size_t)w->elements * sky_element_bytes(t->element)};
        w->element = (w->element + w->elements) % t->dim;
        w->head = (w->head + (w->element == 0)) % t->heads;
        step = w->element == 0 && w->head == 0;
    }
    w->token += step;
    w->left -= step;
    return true;
}

uint32_t sky__tensor_pieces(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                            sky_span *pieces) {
    walk w = walk_over(t, first_token, token_count);
    uint32_t count = 0;
    for (sky_span next; walk_next(&w, &next);) {
        sky_span *last = count > 0 ? &pieces[count - 1] : NULL;
        if (last && (uint8_t *)last->data + last->bytes == next.data)
            last->bytes += next.bytes;
        else
            pieces[count++] = next;
    }
    return count;
}

/* ---- copying ---- */

void sky__tensor_gather(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                        uint8_t *rows) {
    walk w = walk_over(t, first_token, token_count);
    for (sky_span piece; walk_next(&w, &piece); rows += piece.bytes)
        memcpy(rows, piece.data, piece.bytes);
}

void sky__tensor_scatter(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                         const uint8_t *rows) {
    walk w = walk_over(t, first_token, token_count);
    for (sky_span piece; walk_next(&w, &piece); rows += piece.bytes)
        memcpy(piece.data, rows, piece.bytes);
}

static sky_status check_tokens(const sky_tensor *t, uint32_t first_token, uint32_t token_count,
                               const void *rows) {
    sky_status status = rows ? sky_tensor_check(t, NULL) : SKY_E_PARAM;
    if (status == SKY_OK && (first_token < t->first_token || token_count > t->token_count ||
                             first_token - t->first_token > t->token_count - token_count))
        status = SKY_E_PARAM;
    return status;
}

sky_status sky_tensor_read(const sky_tensor *tensor, uint32_t first_token, uint32_t token_count,
                           void *rows) {
    sky_status status = check_tokens(tensor, first_token, token_count, rows);
    if (status == SKY_OK)
        sky__tensor_gather(tensor, first_token, token_count, rows);
    return status;
}

sky_status sky_tensor_write(const sky_tensor *tensor, uint32_t first_token, uint32_t token_count,
                            const void *rows) {
    sky_status status = check_tokens(tensor, first_token, token_count, rows);
    if (status == SKY_OK)
        sky__tensor_scatter(tensor, first_token, token_count, rows);
    return status;
}
