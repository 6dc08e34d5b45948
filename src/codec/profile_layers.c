/* Which layer of the model a profile's layer is, and which layer rows look like. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/half.h"
#include "codec/profile.h"
#include "codec/stream.h"

sky_status sky_profile_set_order(sky_profile *profile, const uint32_t *model_layers) {
    if (!profile || !model_layers || profile->sealed)
        return SKY_E_PARAM;
    uint32_t count = profile->layer_count;
    for (uint32_t i = 0; i < count; i++) {
        if (model_layers[i] >= count)
            return SKY_E_PARAM;
        for (uint32_t j = 0; j < i; j++)
            if (model_layers[j] == model_layers[i])
                return SKY_E_PARAM;
    }
    uint32_t *copy = malloc(count * sizeof *copy);
    if (!copy)
        return SKY_E_NOMEM;
    memcpy(copy, model_layers, count * sizeof *copy);
    free(profile->model_layers);
    profile->model_layers = copy;
    return SKY_OK;
}

uint32_t sky_profile_model_layer(const sky_profile *profile, uint32_t layer) {
    if (!profile || layer >= profile->layer_count)
        return SKY_LAYER_NONE;
    return profile->model_layers ? profile->model_layers[layer] : layer;
}

uint32_t sky_profile_layer_of(const sky_profile *profile, uint32_t model_layer) {
    for (uint32_t i = 0; profile && i < profile->layer_count; i++)
        if (sky_profile_model_layer(profile, i) == model_layer)
            return i;
    return SKY_LAYER_NONE;
}

/* ---- whose rows ---- */

static double element_at(sky_element element, const uint8_t *at) {
    uint16_t half;
    float whole;
    memcpy(&half, at, sizeof half);
    if (element == SKY_ELEMENT_F16)
        return sky_float_of_f16(half);
    if (element == SKY_ELEMENT_BF16)
        return sky_float_of_bf16(half);
    memcpy(&whole, at, sizeof whole);
    return whole;
}

/* Shape: mean [kv_heads, head_dim] */
static void mean_of_rows(const sky_stream_shape *s, const sky_tensor *rows, double *mean) {
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            size_t at = h * rows->head_bytes + i * rows->element_bytes;
            double sum = 0;
            for (uint32_t t = 0; t < s->token_count; t++)
                sum += element_at(s->element, sky__tensor_row(rows, rows->first_token + t) + at);
            mean[h * (size_t)s->head_dim + i] = sum / s->token_count;
        }
}

/* INFINITY also of a mean that is no number. */
static double distance_of(const sky_profile_stream *s, const double *mean) {
    double sum = 0;
    for (uint32_t i = 0; i < s->channels; i++)
        sum += (mean[i] - s->mean[i]) * (mean[i] - s->mean[i]);
    return sum <= DBL_MAX ? sum : INFINITY;
}

sky_status sky_profile_match_rows(const sky_profile *profile, const sky_stream_shape *shape,
                                  sky_tensor rows, sky_profile_match *out) {
    if (!profile || !out || !sky__stream_shape_valid(shape) || shape->kv != SKY_KV_V ||
        !sky__tensor_holds(&rows, shape))
        return SKY_E_PARAM;
    double *mean = malloc((size_t)shape->kv_heads * shape->head_dim * sizeof *mean);
    if (!mean)
        return SKY_E_NOMEM;
    sky_profile_match match = {SKY_LAYER_NONE, INFINITY, INFINITY};
    mean_of_rows(shape, &rows, mean);
    for (uint32_t i = 0; i < profile->layer_count; i++) {
        const sky_profile_stream *s = sky__profile_stream(profile, i, SKY_KV_V);
        bool alike = s->heads == shape->kv_heads && s->dim == shape->head_dim;
        double distance = alike && s->mean ? distance_of(s, mean) : INFINITY;
        if (i == shape->layer)
            match.own_distance = distance;
        if (distance < match.distance) {
            match.distance = distance;
            match.layer = i;
        }
    }
    free(mean);
    *out = match;
    return SKY_OK;
}
