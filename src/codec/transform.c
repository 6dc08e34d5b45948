/* See transform.h. The scalar kernels. */
#include "codec/transform.h"

#include <math.h>
#include <string.h>

#include "codec/half.h"

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

void sky__transform_turn_on(sky_transform *t) {
    const float *step_cosine = t->cosine[2], *step_sine = t->sine[2];
    for (uint32_t i = 0; t->rope && i < 2; i++)
        for (uint32_t p = 0; p < t->rope->pair_count; p++) {
            float c = t->cosine[i][p], s = t->sine[i][p];
            t->cosine[i][p] = c * step_cosine[p] - s * step_sine[p];
            t->sine[i][p] = s * step_cosine[p] + c * step_sine[p];
        }
}

/* ---- elements ---- */

static void load_elements(sky_element element, const uint8_t *in, uint32_t count, float *out) {
    for (uint32_t i = 0; i < count; i++) {
        uint16_t h;
        if (element == SKY_ELEMENT_F32) {
            memcpy(&out[i], in + 4 * (size_t)i, 4);
            continue;
        }
        memcpy(&h, in + 2 * (size_t)i, 2);
        out[i] = element == SKY_ELEMENT_F16 ? sky_float_of_f16(h) : sky_float_of_bf16(h);
    }
}

static void store_elements(sky_element element, const float *x, uint32_t count, uint8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        if (element == SKY_ELEMENT_F32) {
            memcpy(out + 4 * (size_t)i, &x[i], 4);
            continue;
        }
        uint16_t h = element == SKY_ELEMENT_F16 ? sky_f16_of_float(x[i]) : sky_bf16_of_float(x[i]);
        memcpy(out + 2 * (size_t)i, &h, 2);
    }
}

/* ---- rope ---- */

static void turn(const sky_transform *t, uint32_t which, bool undo, float *row) {
    const float *cosine = t->cosine[which], *sine = t->sine[which];
    uint32_t turned = t->rope->pair_count, stride = 1, apart = turned;
    if (t->rope->kind == SKY_ROPE_INTERLEAVED) {
        stride = 2;
        apart = 1;
    }
    for (uint32_t h = 0; h < t->heads; h++) {
        float *first = row + (size_t)h * t->dim, *second = first + apart;
        for (uint32_t p = 0; p < turned; p++) {
            float a = first[p * stride], b = second[p * stride], s = undo ? -sine[p] : sine[p];
            first[p * stride] = a * cosine[p] - b * s;
            second[p * stride] = a * s + b * cosine[p];
        }
    }
}

/* ---- decoding ---- */

static void restore_pairs(const sky_transform *t, const int32_t *n, float *row) {
    uint32_t pairs = t->dim / 2;
    for (uint32_t h = 0; h < t->heads; h++) {
        const int32_t *in = n + h * t->dim;
        const float *mean = t->mean + h * t->dim;
        float *out = row + h * t->dim;
        for (uint32_t p = 0; p < pairs; p++) {
            sky_pair at = sky__pair_at(t->rope, t->dim, p);
            uint32_t m = h * pairs + p;
            float a = (float)in[at.first], b = (float)in[at.second];
            out[at.first] = (a * t->scaled[0][m] + b * t->scaled[2][m]) + mean[at.first];
            out[at.second] = (a * t->scaled[1][m] + b * t->scaled[3][m]) + mean[at.second];
        }
    }
}

static void restore_odd_channels(const sky_transform *t, const int32_t *n, float scale,
                                 float *row) {
    for (uint32_t h = 0; h < t->heads && t->dim % 2; h++) {
        uint32_t i = h * t->dim + t->dim - 1;
        row[i] = (float)n[i] * scale + t->mean[i];
    }
}

static void restore_klt(const sky_transform *t, const int32_t *n, float scale, float *row) {
    for (uint32_t h = 0; h < t->heads; h++) {
        const float *g = t->matrix + (size_t)h * t->dim * t->dim;
        float *out = row + h * t->dim;
        memcpy(out, t->mean + h * t->dim, t->dim * sizeof *out);
        for (uint32_t i = 0; i < t->dim; i++, g += t->dim) {
            if (n[h * t->dim + i] == 0)
                continue;
            float y = (float)n[h * t->dim + i] * scale;
            for (uint32_t j = 0; j < t->dim; j++)
                out[j] += y * g[j];
        }
    }
}

static void restore_row(const sky_transform *t, uint32_t which, const int32_t *n, float scale,
                        uint8_t *out, size_t head_bytes) {
    float row[SKY_WIDTH_MAX];
    if (t->klt) {
        restore_klt(t, n, scale, row);
    } else if (t->pairs) {
        restore_pairs(t, n, row);
        restore_odd_channels(t, n, scale, row);
    } else {
        for (uint32_t i = 0; i < t->width; i++)
            row[i] = (float)n[i] * scale + t->mean[i];
    }
    if (t->rope)
        turn(t, which, false, row);
    for (uint32_t h = 0; h < t->heads; h++)
        store_elements(t->element, row + h * t->dim, t->dim, out + h * head_bytes);
}

void sky__transform_restore(const sky_transform *t, const int16_t *sum, const int16_t *difference,
                            uint8_t *const out[2], size_t head_bytes) {
    int32_t n[SKY_WIDTH_MAX];
    for (uint32_t i = 0; i < t->width; i++)
        n[i] = sum[i] + (difference ? difference[i] : 0);
    restore_row(t, 0, n, t->scale[difference ? 0 : 1], out[0], head_bytes);
    if (!difference)
        return;
    for (uint32_t i = 0; i < t->width; i++)
        n[i] = sum[i] - difference[i];
    restore_row(t, 1, n, t->scale[0], out[1], head_bytes);
}

/* ---- encoding ---- */

/* Values next to the type's largest become NaN, and so exceptions: rounding up would overflow. */
static void hide_the_largest(sky_element element, uint32_t count, float *row) {
    float limit = element == SKY_ELEMENT_F16 ? 60000.0f : 1e38f;
    for (uint32_t i = 0; i < count; i++)
        row[i] = row[i] >= -limit && row[i] <= limit ? row[i] : sky_float_of(0x7fc00000u);
}

void sky__transform_load(const sky_transform *t, uint32_t which, const uint8_t *in,
                         size_t head_bytes, float *row) {
    for (uint32_t h = 0; h < t->heads; h++)
        load_elements(t->element, in + h * head_bytes, t->dim, row + h * t->dim);
    hide_the_largest(t->element, t->width, row);
    if (t->rope)
        turn(t, which, true, row);
}

static void forward_pairs(const sky_transform *t, float *row) {
    uint32_t pairs = t->dim / 2;
    const float *f0 = t->matrix, *f1 = f0 + t->matrix_pitch, *f2 = f1 + t->matrix_pitch,
                *f3 = f2 + t->matrix_pitch;
    for (uint32_t h = 0; h < t->heads; h++)
        for (uint32_t p = 0; p < pairs; p++) {
            sky_pair at = sky__pair_at(t->rope, t->dim, p);
            uint32_t m = h * pairs + p;
            float *x = row + h * t->dim, a = x[at.first], b = x[at.second];
            x[at.first] = a * f0[m] + b * f2[m];
            x[at.second] = a * f1[m] + b * f3[m];
        }
}

static void forward_klt(const sky_transform *t, float *row) {
    float y[SKY_HEAD_DIM_MAX];
    for (uint32_t h = 0; h < t->heads; h++) {
        const float *f = t->matrix + (size_t)h * t->dim * t->dim;
        float *x = row + h * t->dim;
        memset(y, 0, sizeof y);
        for (uint32_t i = 0; i < t->dim; i++, f += t->dim)
            for (uint32_t j = 0; j < t->dim; j++)
                y[j] += x[i] * f[j];
        memcpy(x, y, t->dim * sizeof *x);
    }
}

static void decorrelate(const sky_transform *t, float *row) {
    for (uint32_t i = 0; i < t->width; i++)
        row[i] -= t->mean[i];
    if (t->klt)
        forward_klt(t, row);
    else if (t->pairs)
        forward_pairs(t, row);
}

static bool fits(float z) {
    return fabsf(z) <= SKY_Z_MAX;
}

bool sky__transform_forward(const sky_transform *t, float *row0, float *row1, float *sum,
                            float *difference) {
    size_t padding = (t->padded - t->width) * sizeof *sum;
    bool all = true;
    decorrelate(t, row0);
    memset(sum + t->width, 0, padding);
    if (!row1) {
        for (uint32_t i = 0; i < t->width; i++) {
            sum[i] = row0[i] * t->scale[1];
            all &= fits(sum[i]);
        }
        return all;
    }
    decorrelate(t, row1);
    memset(difference + t->width, 0, padding);
    for (uint32_t i = 0; i < t->width; i++) {
        sum[i] = (row0[i] + row1[i]) * t->scale[0];
        difference[i] = (row0[i] - row1[i]) * t->scale[0];
        all &= fits(sum[i]) & fits(difference[i]);
    }
    return all;
}
