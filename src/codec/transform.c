/* See transform.h. The scalar kernels. */
#include "codec/transform.h"

#include <math.h>
#include <string.h>

#include "codec/half.h"

#ifndef KLT_LANES
#define KLT_LANES 4u /* SSE2, NEON */
#endif
#include "codec/transform_klt.h"

void sky__transform_scale(sky_transform *t, uint32_t which) {
    uint32_t pairs = t->heads * (t->dim / 2);
    for (uint32_t c = 0; t->pairs && c < 4; c++)
        for (uint32_t p = 0; p < pairs; p++)
            t->scaled[c][p] = t->matrix[c * t->matrix_pitch + p] * t->scale[which];
}

void sky__transform_angles(sky_transform *t, uint32_t position) {
    if (!t->rope)
        return;
    sky__rope_angles(t->rope, position, t->cosine[0], t->sine[0]);
    sky__rope_angles(t->rope, position + 1, t->cosine[1], t->sine[1]);
    sky__rope_angles(t->rope, 2, t->cosine[2], t->sine[2]);
}

static void turn_angles(const float *restrict step_cosine, const float *restrict step_sine,
                        uint32_t count, float *restrict cosine, float *restrict sine) {
    for (uint32_t p = 0; p < count; p++) {
        float c = cosine[p], s = sine[p];
        cosine[p] = c * step_cosine[p] - s * step_sine[p];
        sine[p] = s * step_cosine[p] + c * step_sine[p];
    }
}

void sky__transform_turn_on(sky_transform *t) {
    for (uint32_t i = 0; t->rope && i < 2; i++)
        turn_angles(t->cosine[2], t->sine[2], t->rope->pair_count, t->cosine[i], t->sine[i]);
}

/* ---- elements ---- */

static float quiet_nan(void) {
    return sky_float_of(0x7fc00000u);
}

/* As float; what is next to the type's largest, or none, becomes NaN, and so an exception: rounding
 * up would overflow. */
static void load_elements(sky_element element, const uint8_t *restrict in, uint32_t count,
                          float *restrict out) {
    const float limit = element == SKY_ELEMENT_F16 ? 60000.0f : 1e38f;
    uint16_t h;
    if (element == SKY_ELEMENT_F32)
        memcpy(out, in, 4 * (size_t)count);
    for (uint32_t i = 0; element == SKY_ELEMENT_F16 && i < count; i++) {
        memcpy(&h, in + 2 * (size_t)i, 2);
        out[i] = sky_float_of_finite(h);
    }
    for (uint32_t i = 0; element == SKY_ELEMENT_BF16 && i < count; i++) {
        memcpy(&h, in + 2 * (size_t)i, 2);
        out[i] = sky_float_of_bf16(h);
    }
    for (uint32_t i = 0; i < count; i++)
        out[i] = fabsf(out[i]) <= limit ? out[i] : quiet_nan();
}

/* Most rows have ordinary numbers only, which are rounded in half the time. */
static void store_halves(const float *restrict x, uint32_t count, uint8_t *restrict out) {
    uint32_t others = 0;
    uint16_t h;
    for (uint32_t i = 0; i < count; i++) {
        others |= (int32_t)(sky_bits_of(x[i]) & 0x7fffffff) > SKY_F16_ORDINARY;
        h = sky_f16_of_ordinary(x[i]);
        memcpy(out + 2 * (size_t)i, &h, 2);
    }
    for (uint32_t i = 0; others && i < count; i++) {
        h = sky_f16_of_float(x[i]);
        memcpy(out + 2 * (size_t)i, &h, 2);
    }
}

static void store_elements(sky_element element, const float *restrict x, uint32_t count,
                           uint8_t *restrict out) {
    uint16_t h;
    if (element == SKY_ELEMENT_F32)
        memcpy(out, x, 4 * (size_t)count);
    if (element == SKY_ELEMENT_F16)
        store_halves(x, count, out);
    for (uint32_t i = 0; element == SKY_ELEMENT_BF16 && i < count; i++) {
        h = sky_bf16_of_float(x[i]);
        memcpy(out + 2 * (size_t)i, &h, 2);
    }
}

/* ---- pairs ---- */

/* By rope: x c − y s, x s + y c. A stride is 1 or 2, known where this is inlined. */
static inline void turn_run(const float *restrict cosine, const float *restrict sine, bool undo,
                            float *restrict x, float *restrict y, uint32_t stride, uint32_t count) {
    for (uint32_t p = 0; p < count; p++) {
        float a = x[p * stride], b = y[p * stride], s = undo ? -sine[p] : sine[p];
        x[p * stride] = a * cosine[p] - b * s;
        y[p * stride] = a * s + b * cosine[p];
    }
}

/* By four arrays of matrices: x m0 + y m2, x m1 + y m3. */
static inline void mix_run(const float *restrict m, size_t pitch, float *restrict x,
                           float *restrict y, uint32_t stride, uint32_t count) {
    const float *restrict m1 = m + pitch, *restrict m2 = m1 + pitch, *restrict m3 = m2 + pitch;
    for (uint32_t p = 0; p < count; p++) {
        float a = x[p * stride], b = y[p * stride];
        x[p * stride] = a * m[p] + b * m2[p];
        y[p * stride] = a * m1[p] + b * m3[p];
    }
}

static void rope_turn(const sky_transform *t, uint32_t which, bool undo, float *row) {
    const float *cosine = t->cosine[which], *sine = t->sine[which];
    uint32_t turned = t->rope->pair_count;
    bool neighbours = t->rope->kind == SKY_ROPE_INTERLEAVED;
    for (uint32_t h = 0; h < t->heads; h++, row += t->dim) {
        if (neighbours)
            turn_run(cosine, sine, undo, row, row + 1, 2, turned);
        else if (undo)
            turn_run(cosine, sine, true, row, row + turned, 1, turned);
        else
            turn_run(cosine, sine, false, row, row + turned, 1, turned);
    }
}

static void matrix_mix(const sky_transform *t, const float *m, size_t pitch, float *row) {
    uint32_t turned = t->rope ? t->rope->pair_count : 0, rest = t->dim / 2 - turned;
    bool neighbours = turned && t->rope->kind == SKY_ROPE_INTERLEAVED;
    for (uint32_t h = 0; h < t->heads; h++, row += t->dim, m += t->dim / 2) {
        float *unturned = row + 2 * turned;
        if (neighbours)
            mix_run(m, pitch, row, row + 1, 2, turned);
        else
            mix_run(m, pitch, row, row + turned, 1, turned);
        mix_run(m + turned, pitch, unturned, unturned + rest, 1, rest);
    }
}

/* ---- decoding ---- */

/* Sums and differences of levels to those of one token. */
static void levels_of(const int16_t *restrict sum, const int16_t *restrict difference,
                      uint32_t which, uint32_t count, float *restrict row) {
    for (uint32_t i = 0; !difference && i < count; i++)
        row[i] = sum[i];
    for (uint32_t i = 0; difference && which == 0 && i < count; i++)
        row[i] = (float)(sum[i] + difference[i]);
    for (uint32_t i = 0; difference && which == 1 && i < count; i++)
        row[i] = (float)(sum[i] - difference[i]);
}

static void scale_row(uint32_t count, float scale, float *restrict row) {
    for (uint32_t i = 0; i < count; i++)
        row[i] *= scale;
}

static void add_row(uint32_t count, const float *restrict x, float *restrict row) {
    for (uint32_t i = 0; i < count; i++)
        row[i] += x[i];
}

static void restore_pairs(const sky_transform *t, float scale, float *row) {
    if (t->pairs)
        matrix_mix(t, t->scaled[0], SKY_WIDTH_MAX / 2, row);
    else
        scale_row(t->width, scale, row);
    for (uint32_t h = 1; t->pairs && t->dim % 2 && h <= t->heads; h++)
        row[h * t->dim - 1] *= scale; /* the channel without a partner */
    add_row(t->width, t->mean, row);
}

static void finish_row(const sky_transform *t, uint32_t which, float *row, uint8_t *out,
                       size_t head_bytes) {
    if (t->rope)
        rope_turn(t, which, false, row);
    for (uint32_t h = 0; h < t->heads; h++)
        store_elements(t->element, row + h * t->dim, t->dim, out + h * head_bytes);
}

/* Sums and differences to levels of tokens, in place. */
static void tokens_part(uint32_t count, int16_t *restrict sum, int16_t *restrict difference) {
    for (uint32_t i = 0; i < count; i++) {
        int16_t s = sum[i], d = difference[i];
        sum[i] = (int16_t)(s + d);
        difference[i] = (int16_t)(s - d);
    }
}

static void restore_full_pairs(sky_transform *t, int16_t (*rows)[SKY_WIDTH_MAX],
                               const sky_pairs_out *to) {
    float x[2 * SKY_PAIRS_MAX][SKY_WIDTH_MAX];
    for (uint32_t i = 0; i < to->pairs; i++)
        tokens_part(t->width, rows[2 * i], rows[2 * i + 1]);
    klt_restore(t, (const int16_t(*)[SKY_WIDTH_MAX])rows, 2 * to->pairs, t->scale[0], x);
    for (uint32_t i = 0; i < 2 * to->pairs; i++) {
        if (i % 2 == 0 && (i || to->turn_on))
            sky__transform_turn_on(t);
        finish_row(t, i % 2, x[i], to->out + i * to->token_bytes, to->head_bytes);
    }
}

static void restore_full(const sky_transform *t, const int16_t *sum, const int16_t *difference,
                         uint8_t *const out[2], size_t head_bytes) {
    int16_t n[2][SKY_WIDTH_MAX];
    float x[2][SKY_WIDTH_MAX];
    uint32_t tokens = difference ? 2 : 1;
    memcpy(n[0], sum, t->padded * sizeof *sum);
    if (difference) {
        memcpy(n[1], difference, t->padded * sizeof *difference);
        tokens_part(t->width, n[0], n[1]);
    }
    klt_restore(t, (const int16_t(*)[SKY_WIDTH_MAX])n, tokens, t->scale[2 - tokens], x);
    for (uint32_t i = 0; i < tokens; i++)
        finish_row(t, i, x[i], out[i], head_bytes);
}

void sky__transform_restore(const sky_transform *t, const int16_t *sum, const int16_t *difference,
                            uint8_t *const out[2], size_t head_bytes) {
    if (t->klt) {
        restore_full(t, sum, difference, out, head_bytes);
        return;
    }
    float row[SKY_WIDTH_MAX], scale = t->scale[difference ? 0 : 1];
    for (uint32_t which = 0; which < (difference ? 2 : 1); which++) {
        levels_of(sum, difference, which, t->width, row);
        restore_pairs(t, scale, row);
        finish_row(t, which, row, out[which], head_bytes);
    }
}

void sky__transform_restore_pairs(sky_transform *t, int16_t (*rows)[SKY_WIDTH_MAX],
                                  const sky_pairs_out *to) {
    if (t->klt) {
        restore_full_pairs(t, rows, to);
        return;
    }
    for (uint32_t i = 0; i < to->pairs; i++) {
        uint8_t *out = to->out + 2 * i * to->token_bytes;
        uint8_t *const both[2] = {out, out + to->token_bytes};
        if (i || to->turn_on)
            sky__transform_turn_on(t);
        sky__transform_restore(t, rows[2 * i], rows[2 * i + 1], both, to->head_bytes);
    }
}

/* ---- encoding ---- */

void sky__transform_load(const sky_transform *t, uint32_t which, const uint8_t *in,
                         size_t head_bytes, float *row) {
    for (uint32_t h = 0; h < t->heads; h++)
        load_elements(t->element, in + h * head_bytes, t->dim, row + h * t->dim);
    if (t->rope)
        rope_turn(t, which, true, row);
}

static void subtract_row(uint32_t count, const float *restrict x, float *restrict row) {
    for (uint32_t i = 0; i < count; i++)
        row[i] -= x[i];
}

static void tokens_decorrelate(const sky_transform *t, float *row) {
    subtract_row(t->width, t->mean, row);
    if (t->pairs)
        matrix_mix(t, t->matrix, t->matrix_pitch, row);
}

static bool row_fits(uint32_t count, const float *restrict z) {
    bool all = true;
    for (uint32_t i = 0; i < count; i++)
        all &= fabsf(z[i]) <= SKY_Z_MAX;
    return all;
}

static void put_sums(uint32_t count, float scale, const float *restrict x, const float *restrict y,
                     float *restrict sum, float *restrict difference) {
    for (uint32_t i = 0; i < count; i++) {
        sum[i] = (x[i] + y[i]) * scale;
        difference[i] = (x[i] - y[i]) * scale;
    }
}

bool sky__transform_forward(const sky_transform *t, float *row0, float *row1, float *sum,
                            float *difference) {
    uint32_t width = t->width;
    size_t padding = (t->padded - width) * sizeof *sum;
    memset(sum + width, 0, padding);
    tokens_decorrelate(t, row0);
    if (row1)
        tokens_decorrelate(t, row1);
    if (t->klt)
        klt_forward(t, row0, row1 ? row1 : row0);
    if (!row1) {
        memcpy(sum, row0, width * sizeof *sum);
        scale_row(width, t->scale[1], sum);
        return row_fits(width, sum);
    }
    memset(difference + width, 0, padding);
    put_sums(width, t->scale[0], row0, row1, sum, difference);
    return row_fits(width, sum) && row_fits(width, difference);
}
