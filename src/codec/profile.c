/* A profile: its shape, its setters, sealing. As bytes: profile_bytes.c. */
#include "codec/profile.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/float_env.h"
#include "codec/rows.h"

#define MAGNITUDE_MAX 1e18f /* of any number in a profile: products stay finite */

static bool layer_valid(const sky_profile_layer *l, const sky_profile_shape *shape) {
    uint32_t dim = l->k_dim > l->v_dim ? l->k_dim : l->v_dim;
    if (!l->kv_heads || !l->k_dim || !l->v_dim || dim > SKY_HEAD_DIM_MAX ||
        l->kv_heads > SKY_ROW_ELEMENTS_MAX / dim)
        return false;
    return l->rope == SKY_ROPE_OF_NONE ||
           (l->rope < shape->rope_count && 2 * shape->ropes[l->rope].pair_count <= l->k_dim);
}

static bool shape_valid(const sky_profile_shape *shape) {
    if (!shape || !shape->layers || (!shape->ropes && shape->rope_count > 0) ||
        !shape->layer_count || shape->layer_count > SKY_LAYERS_MAX ||
        shape->rope_count > SKY_ROPES_MAX)
        return false;
    for (uint32_t i = 0; i < shape->rope_count; i++)
        if (!sky__rope_valid(&shape->ropes[i]))
            return false;
    for (uint32_t i = 0; i < shape->layer_count; i++)
        if (!layer_valid(&shape->layers[i], shape))
            return false;
    return true;
}

static void stream_init(sky_profile_stream *s, uint32_t heads, uint32_t dim) {
    sky_slices slices = sky_slices_of(heads, dim);
    s->heads = heads;
    s->dim = dim;
    s->channels = heads * dim;
    s->units = slices.count * slices.padded_max / SKY_UNIT;
}

sky_status sky_profile_create(const sky_profile_shape *shape, sky_profile **out) {
    if (!out || !shape_valid(shape))
        return SKY_E_PARAM;
    sky_profile *p = calloc(1, sizeof *p);
    if (!p)
        return SKY_E_NOMEM;
    p->layer_count = shape->layer_count;
    p->rope_count = shape->rope_count;
    p->layers = malloc(shape->layer_count * sizeof *p->layers);
    p->ropes = malloc((shape->rope_count + 1) * sizeof *p->ropes);
    p->streams = calloc(2 * (size_t)shape->layer_count, sizeof *p->streams);
    if (!p->layers || !p->ropes || !p->streams) {
        sky_profile_destroy(p);
        return SKY_E_NOMEM;
    }
    memcpy(p->layers, shape->layers, shape->layer_count * sizeof *p->layers);
    if (shape->rope_count)
        memcpy(p->ropes, shape->ropes, shape->rope_count * sizeof *p->ropes);
    memcpy(p->fingerprint, shape->fingerprint, sizeof p->fingerprint);
    for (uint32_t i = 0; i < shape->layer_count; i++) {
        stream_init(&p->streams[2 * i], p->layers[i].kv_heads, p->layers[i].k_dim);
        stream_init(&p->streams[2 * i + 1], p->layers[i].kv_heads, p->layers[i].v_dim);
    }
    *out = p;
    return SKY_OK;
}

void sky_profile_destroy(sky_profile *p) {
    if (!p)
        return;
    for (uint32_t i = 0; p->streams && i < 2 * p->layer_count; i++) {
        sky_profile_stream *s = &p->streams[i];
        void *parts[] = {s->mean,     s->g,       s->f,     s->klt_g,     s->klt_f,     s->order[0],
                         s->order[1], s->classes, s->exact, s->sorted[0], s->sorted[1], s->weights};
        for (size_t j = 0; j < sizeof parts / sizeof parts[0]; j++)
            free(parts[j]);
    }
    free(p->layers);
    free(p->ropes);
    free(p->streams);
    free(p->model_layers);
    free(p);
}

/* ---- reading ---- */

const sky_profile_stream *sky__profile_stream(const sky_profile *profile, uint32_t layer,
                                              sky_kv kv) {
    if (layer >= profile->layer_count || !sky_kv_valid(kv))
        return NULL;
    return &profile->streams[2 * layer + (uint32_t)kv];
}

const sky_rope *sky__profile_rope_of(const sky_profile *profile, uint32_t layer, sky_kv kv) {
    uint32_t rope = profile->layers[layer].rope;
    if (kv == SKY_KV_V || rope == SKY_ROPE_OF_NONE || profile->ropes[rope].pair_count == 0)
        return NULL;
    return &profile->ropes[rope];
}

const uint8_t *sky__profile_classes(const sky_profile_stream *stream, sky_level level,
                                    bool dependent, uint32_t half) {
    if (!stream->classes || level == SKY_LEVEL_LOSSLESS || !stream->fitted[level][dependent])
        return NULL;
    return stream->classes +
           ((((size_t)level - 1) * 2 + dependent) * 2 + half) * (size_t)stream->units;
}

uint64_t sky_profile_id(const sky_profile *profile) {
    return profile ? profile->id : 0;
}

void sky_profile_fingerprint(const sky_profile *profile, uint8_t out[32]) {
    if (profile && out)
        memcpy(out, profile->fingerprint, 32);
}

uint32_t sky_profile_layer_count(const sky_profile *profile) {
    return profile ? profile->layer_count : 0;
}

sky_status sky_profile_layer_get(const sky_profile *profile, uint32_t layer,
                                 sky_profile_layer *out) {
    if (!profile || !out || layer >= profile->layer_count)
        return SKY_E_PARAM;
    *out = profile->layers[layer];
    return SKY_OK;
}

const sky_rope *sky_profile_rope(const sky_profile *profile, uint32_t layer) {
    bool there = profile && layer < profile->layer_count;
    return there ? sky__profile_rope_of(profile, layer, SKY_KV_K) : NULL;
}

float sky_profile_step(const sky_profile *profile, uint32_t layer, sky_kv kv, sky_level level,
                       bool dependent) {
    const sky_profile_stream *s = sky__profile_stream(profile, layer, kv);
    return s && (uint32_t)level < SKY_LEVEL_COUNT ? s->step[level][dependent] : 0;
}

/* ---- setting ---- */

/* NULL: no such stream, or no longer. */
static sky_profile_stream *to_set(sky_profile *profile, uint32_t layer, sky_kv kv) {
    if (!profile || profile->sealed || layer >= profile->layer_count || !sky_kv_valid(kv))
        return NULL;
    return &profile->streams[2 * layer + (uint32_t)kv];
}

static bool all_usable(const float *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(x[i]) <= MAGNITUDE_MAX))
            return false;
    return true;
}

static sky_status set_floats(float **place, const float *x, size_t count) {
    if (!all_usable(x, count))
        return SKY_E_PARAM;
    float *copy = malloc((count ? count : 1) * sizeof *copy);
    if (!copy)
        return SKY_E_NOMEM;
    memcpy(copy, x, count * sizeof *copy);
    free(*place);
    *place = copy;
    return SKY_OK;
}

sky_status sky_profile_set_mean(sky_profile *profile, uint32_t layer, sky_kv kv,
                                const float *mean) {
    sky_profile_stream *s = to_set(profile, layer, kv);
    return s && mean ? set_floats(&s->mean, mean, s->channels) : SKY_E_PARAM;
}

sky_status sky_profile_set_weights(sky_profile *profile, uint32_t layer, sky_kv kv,
                                   const float *weights) {
    sky_profile_stream *s = to_set(profile, layer, kv);
    float most = 0;
    if (!s || s->channels == 0 || !weights || !all_usable(weights, s->channels))
        return SKY_E_PARAM;
    for (uint32_t i = 0; i < s->channels; i++)
        most = fmaxf(most, fabsf(weights[i]));
    int8_t *whole = malloc(s->channels);
    if (!whole)
        return SKY_E_NOMEM;
    const fenv_t before = sky_floats_begin();
    s->weight_unit = fmaxf(most / 127, 1e-18f);
    for (uint32_t i = 0; i < s->channels; i++)
        whole[i] = (int8_t)lrintf(weights[i] / s->weight_unit);
    sky_floats_restore(&before);
    free(s->weights);
    s->weights = whole;
    return SKY_OK;
}

/* Inverses of the 2×2 matrices: f g = 1 for row vectors. */
static bool invert_pairs(const float *g, size_t pairs, float *f) {
    for (size_t p = 0; p < pairs; p++) {
        double a = (double)g[p], b = (double)g[pairs + p], c = (double)g[2 * pairs + p],
               d = (double)g[3 * pairs + p];
        double det = a * d - b * c;
        f[p] = (float)(d / det);
        f[pairs + p] = (float)(-b / det);
        f[2 * pairs + p] = (float)(-c / det);
        f[3 * pairs + p] = (float)(a / det);
    }
    return all_usable(f, 4 * pairs);
}

sky_status sky__profile_pairs(sky_profile_stream *s, const float *g) {
    size_t pairs = (size_t)s->heads * (s->dim / 2);
    float *f = malloc((4 * pairs + 1) * sizeof *f);
    if (!f)
        return SKY_E_NOMEM;
    sky_status status = SKY_E_PARAM;
    const fenv_t before = sky_floats_begin();
    bool invertible = all_usable(g, 4 * pairs) && invert_pairs(g, pairs, f);
    sky_floats_restore(&before);
    if (invertible)
        status = set_floats(&s->g, g, 4 * pairs);
    if (status != SKY_OK) {
        free(f);
        return status;
    }
    free(s->f);
    s->f = f;
    return SKY_OK;
}

sky_status sky_profile_set_pairs(sky_profile *profile, uint32_t layer, sky_kv kv, const float *g) {
    sky_profile_stream *s = to_set(profile, layer, kv);
    if (!s || !g)
        return SKY_E_PARAM;
    size_t pairs = (size_t)s->heads * (s->dim / 2);
    float *apart = malloc((4 * pairs + 1) * sizeof *apart);
    if (!apart)
        return SKY_E_NOMEM;
    for (size_t p = 0; p < pairs; p++)
        for (size_t c = 0; c < 4; c++)
            apart[c * pairs + p] = g[4 * p + c];
    sky_status status = sky__profile_pairs(s, apart);
    free(apart);
    return status;
}

sky_status sky__profile_klt(const sky_profile_stream *s, float **place, const float *x) {
    size_t floats = sky_klt_floats(s->dim), bytes = s->heads * floats * sizeof *x;
    float *panels = aligned_alloc(64, bytes), *head = panels;
    if (!panels)
        return SKY_E_NOMEM;
    memset(panels, 0, bytes);
    for (uint32_t h = 0; h < s->heads; h++, head += floats)
        for (uint32_t i = 0; i < s->dim; i++)
            for (uint32_t j = 0; j < s->dim; j++)
                head[sky_klt_at(s->dim, i, j)] = *x++;
    free(*place);
    *place = panels;
    return SKY_OK;
}

/* Is G the inverse of F? Each number of the two was rounded to a float at least, which moves a sum
 * of n products by up to a float's epsilon times their magnitudes; an inverse that was computed in
 * floats, by up to n times that. */
static bool are_inverses(const float *f, const float *g, uint32_t n) {
    double sum[SKY_HEAD_DIM_MAX], room[SKY_HEAD_DIM_MAX];
    for (uint32_t i = 0; i < n; i++) {
        memset(sum, 0, sizeof sum);
        memset(room, 0, sizeof room);
        sum[i] = -1;
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t j = 0; j < n; j++) {
                double product = (double)f[(size_t)i * n + k] * (double)g[(size_t)k * n + j];
                sum[j] += product;
                room[j] += fabs(product);
            }
        for (uint32_t j = 0; j < n; j++)
            if (fabs(sum[j]) > n * (double)FLT_EPSILON * room[j])
                return false;
    }
    return true;
}

sky_status sky_profile_set_klt(sky_profile *profile, uint32_t layer, sky_kv kv, const float *f,
                               const float *g) {
    sky_profile_stream *s = to_set(profile, layer, kv);
    if (!s || !f || !g)
        return SKY_E_PARAM;
    size_t count = (size_t)s->heads * s->dim * s->dim;
    if (!all_usable(f, count) || !all_usable(g, count))
        return SKY_E_PARAM;
    for (size_t head = 0; head < count; head += (size_t)s->dim * s->dim)
        if (!are_inverses(f + head, g + head, s->dim))
            return SKY_E_PARAM;
    sky_status status = sky__profile_klt(s, &s->klt_f, f);
    return status == SKY_OK ? sky__profile_klt(s, &s->klt_g, g) : status;
}

sky_status sky_profile_set_step(sky_profile *profile, uint32_t layer, sky_kv kv, sky_level level,
                                bool dependent, float step) {
    sky_profile_stream *s = to_set(profile, layer, kv);
    if (!s || level == SKY_LEVEL_LOSSLESS || !sky_level_name(level) ||
        !(step >= 1e-18f && step <= MAGNITUDE_MAX))
        return SKY_E_PARAM;
    s->step[level][dependent] = step;
    return SKY_OK;
}

sky_status sky__profile_room(sky_profile_stream *s) {
    for (uint32_t basis = 0; basis < 2; basis++)
        if (!s->order[basis])
            s->order[basis] = calloc(2, s->channels);
    if (!s->classes)
        s->classes = calloc(4 * SKY_LOSSY_LEVELS, s->units);
    return s->order[0] && s->order[1] && s->classes ? SKY_OK : SKY_E_NOMEM;
}

/* Channels of every slice in order, so that tiles need not sort them. */
static sky_status sort_channels(sky_profile_stream *s, sky_basis basis) {
    sky_slices slices = sky_slices_of(s->heads, s->dim);
    size_t padded = (size_t)s->units * SKY_UNIT;
    if (!s->order[basis] || s->sorted[basis])
        return SKY_OK;
    s->sorted[basis] = calloc(4 * padded, sizeof *s->sorted[basis]);
    if (!s->sorted[basis])
        return SKY_E_NOMEM;
    for (uint32_t slice = 0; slice < slices.count; slice++) {
        uint32_t heads = sky_slice_heads(&slices, s->heads, slice);
        sky_coder rows;
        sky__rows_init(&rows, heads * s->dim, true);
        for (uint32_t half = 0; half < 2; half++) {
            sky__rows_order(&rows, half,
                            s->order[basis] + half * (size_t)s->channels +
                                (size_t)slice * slices.heads_max * s->dim);
            uint16_t *to = s->sorted[basis] + 2 * half * padded + (size_t)slice * slices.padded_max;
            memcpy(to, rows.channel[half], rows.steps * SKY_LANES * sizeof *to);
            memcpy(to + padded, rows.place[half], rows.steps * SKY_LANES * sizeof *to);
        }
    }
    return SKY_OK;
}

sky_status sky__profile_sort(sky_profile *profile) {
    for (uint32_t i = 0; i < 4 * profile->layer_count; i++)
        if (sort_channels(&profile->streams[i / 2], (sky_basis)(i % 2)) != SKY_OK)
            return SKY_E_NOMEM;
    return SKY_OK;
}
