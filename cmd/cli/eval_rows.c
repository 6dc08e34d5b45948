/* Rows as numbers. f16 here is read and written bit by bit: a few million values, and exact. */
#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <string.h>

static float from_half(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 0) {
        float value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even: adding 2^k cuts the bits below the last kept one. */
static uint16_t to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u)
        return (uint16_t)(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        float small = fabsf(value) + 0x1p-1f;
        memcpy(&bits, &small, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

void eval_rows_read(const eval_stream *s, float *out) {
    for (size_t i = 0; i < eval_elements(s); i++)
        out[i] = from_half(s->original[i]);
}

void eval_rows_write(const eval_stream *s, const float *values) {
    for (size_t i = 0; i < eval_elements(s); i++)
        s->rows[i] = to_half(values[i]);
}

bool eval_rope_of(const sky_llama_layer *layer, sky_rope *out) {
    const double turn = 6.283185307179586476925;
    *out = (sky_rope){.kind = SKY_ROPE_NONE};
    if (layer->rope_dims == 0)
        return false;
    out->kind = layer->rope_interleaved ? SKY_ROPE_INTERLEAVED : SKY_ROPE_NEOX;
    out->pair_count = layer->rope_dims / 2;
    for (uint32_t i = 0; i < out->pair_count; i++)
        out->turns[i] = (uint32_t)llround(fmod(layer->rope_frequency[i] / turn, 1) * 0x1p32);
    return true;
}

void eval_unrope(const eval_stream *s, float *values) {
    sky_rope rope;
    if (s->is_k && eval_rope_of(s->layer, &rope))
        sky_rope_apply(&rope, true, s->first_token, values, s->token_count, s->heads, s->dim);
}

#endif
