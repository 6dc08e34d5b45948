/* Rows times full matrices, the text that all kernels share. The file that includes it has defined
 * KLT_LANES, the floats of a vector.
 *
 * A matrix of 256 × 256 takes 256 KiB, and to bring it from the second cache takes as long as to
 * multiply by it. So it lies in panels of 64 columns, and what 64 rows of a panel, 16 KiB, have to
 * add is added to one token after the other, its sums in registers:
 *
 *      columns ─►
 *     ┌───────┬───────┐      token 0   0 1 1 0 1 …   rows whose factor is not 0
 *     │ block │       │      token 1   1 0 0 0 1 …
 *     ├───────┤ panel │         …
 *     │       │       │
 *
 * Tokens leave out the rows whose factor is 0. The terms of each sum still come one by one, in the
 * order of rows, as transform.h says. */
#ifndef SKY_CODEC_TRANSFORM_KLT_H
#define SKY_CODEC_TRANSFORM_KLT_H

#include <string.h>

#include "base/bytes.h"
#include "codec/transform.h"

#define KLT_BLOCK 64u
#define KLT_VECS  (KLT_LANES < 8 ? 8 : SKY_KLT_PANEL / KLT_LANES) /* summed up at a time */

typedef float klt_vec __attribute__((vector_size(4 * KLT_LANES), may_alias));

/* A token's: of a head what its rows are multiplied by, and a bit for each that is not 0. */
typedef struct {
    _Alignas(64) float y[SKY_HEAD_DIM_MAX];
    uint64_t rows[SKY_HEAD_DIM_MAX / KLT_BLOCK];
} klt_factors;

/* A token's values of a head, in whole panels. */
typedef struct {
    _Alignas(64) float x[SKY_HEAD_DIM_MAX];
} klt_values;

/* To a token's sums, so many vectors of them. */
static inline void klt_add_rows(const float *block, uint64_t rows, const float *y, float *x) {
    klt_vec sum[KLT_VECS];
    for (uint32_t v = 0; v < KLT_VECS; v++)
        sum[v] = ((const klt_vec *)x)[v];
    for (; rows; rows &= rows - 1) {
        size_t i = (size_t)__builtin_ctzll(rows);
        const klt_vec *g = (const klt_vec *)(block + i * SKY_KLT_PANEL);
        for (uint32_t v = 0; v < KLT_VECS; v++)
            sum[v] += y[i] * g[v];
    }
    for (uint32_t v = 0; v < KLT_VECS; v++)
        ((klt_vec *)x)[v] = sum[v];
}

/* Add a head's products to x. */
static void klt_multiply(const float *panel, size_t dim, const klt_factors *f, uint32_t tokens,
                         klt_values *x) {
    for (size_t column = 0; column < dim; column += SKY_KLT_PANEL, panel += dim * SKY_KLT_PANEL)
        for (size_t row = 0; row < dim; row += KLT_BLOCK)
            for (size_t part = 0; part < SKY_KLT_PANEL; part += KLT_VECS * KLT_LANES)
                for (uint32_t i = 0; i < tokens; i++)
                    klt_add_rows(panel + row * SKY_KLT_PANEL + part, f[i].rows[row / KLT_BLOCK],
                                 f[i].y + row, x[i].x + column + part);
}

/* The rows there are of a block's 64. */
static inline uint64_t klt_rows_below(uint32_t count) {
    return count < KLT_BLOCK ? ((uint64_t)1 << count) - 1 : UINT64_MAX;
}

/* A bit for each of 64 that is not 0: bytes of one bit each, summed up eight by eight. */
static inline uint64_t klt_rows_of(const int16_t *n) {
    uint8_t other[KLT_BLOCK];
    uint64_t rows = 0;
    for (uint32_t i = 0; i < KLT_BLOCK; i++)
        other[i] = n[i] ? 0xff : 0;
    for (uint32_t i = 0; i < KLT_BLOCK; i += 8) {
        uint64_t bits = sky_load_u64(other + i) & 0x8040201008040201u;
        rows |= (bits * 0x0101010101010101u >> 56) << i;
    }
    return rows;
}

/* Shape:  n [whole blocks], whatever is in the last one past dim */
static inline void klt_take_levels(const int16_t *restrict n, uint32_t dim, float scale,
                                   klt_factors *restrict f) {
    float *restrict y = f->y;
    for (uint32_t row = 0; row < dim; row += KLT_BLOCK, n += KLT_BLOCK, y += KLT_BLOCK) {
        for (uint32_t i = 0; i < KLT_BLOCK; i++)
            y[i] = n[i] * scale;
        f->rows[row / KLT_BLOCK] = klt_rows_of(n) & klt_rows_below(dim - row);
    }
}

/* Shape:  x [whole panels] */
static inline void klt_set(const float *in, uint32_t dim, klt_values *x) {
    memset(x->x, 0, sky_klt_floats(dim) / dim * sizeof *in);
    memcpy(x->x, in, dim * sizeof *in);
}

/* Shape:  levels [tokens]; rows [tokens], before rope */
static void klt_restore(const sky_transform *t, const int16_t (*levels)[SKY_WIDTH_MAX],
                        uint32_t tokens, float scale, float (*rows)[SKY_WIDTH_MAX]) {
    klt_factors f[2 * SKY_PAIRS_MAX];
    klt_values x[2 * SKY_PAIRS_MAX];
    size_t bytes = t->dim * sizeof *t->mean;
    const float *g = t->matrix;
    for (uint32_t base = 0; base < t->width; base += t->dim, g += sky_klt_floats(t->dim)) {
        for (uint32_t i = 0; i < tokens; i++) {
            klt_take_levels(levels[i] + base, t->dim, scale, &f[i]);
            klt_set(t->mean + base, t->dim, &x[i]);
        }
        klt_multiply(g, t->dim, f, tokens, x);
        for (uint32_t i = 0; i < tokens; i++)
            memcpy(rows[i] + base, x[i].x, bytes);
    }
}

/* Sums of a part of a panel, all rows of it, of two tokens. */
static inline void klt_sum_two(const float *part, uint32_t dim, const float *x0, const float *x1,
                               float *y0, float *y1) {
    klt_vec a[4] = {0}, b[4] = {0};
    for (uint32_t i = 0; i < dim; i++, part += SKY_KLT_PANEL)
        for (uint32_t v = 0; v < 4; v++) {
            a[v] += x0[i] * ((const klt_vec *)part)[v];
            b[v] += x1[i] * ((const klt_vec *)part)[v];
        }
    for (uint32_t v = 0; v < 4; v++) {
        ((klt_vec *)y0)[v] = a[v];
        ((klt_vec *)y1)[v] = b[v];
    }
}

/* Multiply two tokens' values by the matrices of encoding, in place. */
static void klt_forward(const sky_transform *t, float *row0, float *row1) {
    uint32_t dim = t->dim;
    const float *panel = t->matrix;
    for (uint32_t base = 0; base < t->width; base += dim) {
        klt_values y[2];
        for (uint32_t column = 0; column < dim; column += SKY_KLT_PANEL) {
            for (uint32_t part = 0; part < SKY_KLT_PANEL; part += 4 * KLT_LANES)
                klt_sum_two(panel + part, dim, row0 + base, row1 + base, y[0].x + column + part,
                            y[1].x + column + part);
            panel += (size_t)dim * SKY_KLT_PANEL;
        }
        memcpy(row0 + base, y[0].x, dim * sizeof *row0);
        memcpy(row1 + base, y[1].x, dim * sizeof *row1);
    }
}

#endif
