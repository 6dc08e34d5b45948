/* See rope.h. */
#include "codec/rope.h"

#include <math.h>

static void sine_cosine(uint32_t angle, float *cosine, float *sine) {
    uint32_t quarter = (angle + (1u << 29)) >> 30;
    int32_t r = (int32_t)(angle - (quarter << 30));
    float t = (float)r * 0x1p-32f, t2 = t * t;
    float s = SKY_SIN4, c = SKY_COS5;
    s = s * t2 + SKY_SIN3;
    s = s * t2 + SKY_SIN2;
    s = s * t2 + SKY_SIN1;
    s = s * t2 + SKY_SIN0;
    s = s * t;
    c = c * t2 + SKY_COS4;
    c = c * t2 + SKY_COS3;
    c = c * t2 + SKY_COS2;
    c = c * t2 + SKY_COS1;
    c = c * t2 + SKY_COS0;
    float a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
    *cosine = ((quarter + 1) & 2) ? -a : a;
    *sine = (quarter & 2) ? -b : b;
}

void sky__rope_angles(const sky_rope *rope, uint32_t position, float *cosine, float *sine) {
    for (uint32_t p = 0; p < rope->pair_count; p++)
        sine_cosine(position * rope->turns[p], &cosine[p], &sine[p]);
}

sky_pair sky__pair_at(const sky_rope *rope, uint32_t dim, uint32_t p) {
    uint32_t turned = rope ? rope->pair_count : 0;
    if (p >= turned) {
        uint32_t rest = (dim - 2 * turned) / 2;
        return (sky_pair){turned + p, turned + p + rest};
    }
    if (rope->kind == SKY_ROPE_INTERLEAVED)
        return (sky_pair){2 * p, 2 * p + 1};
    return (sky_pair){p, p + turned};
}

bool sky__rope_valid(const sky_rope *rope) {
    if (rope->pair_count > SKY_ROPE_PAIRS_MAX)
        return false;
    return rope->kind == SKY_ROPE_NEOX || rope->kind == SKY_ROPE_INTERLEAVED ||
           (rope->kind == SKY_ROPE_NONE && rope->pair_count == 0);
}

sky_status sky_rope_init(sky_rope *rope, sky_rope_kind kind, uint32_t rotated_dims, double base,
                         double frequency_scale, const float *factors) {
    sky_rope out = {.kind = kind, .pair_count = rotated_dims / 2};
    if (!rope || rotated_dims % 2 || rotated_dims > SKY_HEAD_DIM_MAX || !(base > 0) ||
        isinf(base) || !(frequency_scale > 0) || !sky__rope_valid(&out))
        return SKY_E_PARAM;
    for (uint32_t p = 0; p < out.pair_count; p++) {
        double radians = pow(base, -(double)p / out.pair_count) * frequency_scale;
        if (factors)
            radians = factors[p] > 0 ? radians / (double)factors[p] : NAN;
        double turns = radians / 6.283185307179586476925;
        if (!isfinite(turns))
            return SKY_E_PARAM;
        turns -= floor(turns);
        out.turns[p] = (uint32_t)(uint64_t)(turns * 0x1p32 + 0.5);
    }
    *rope = out;
    return SKY_OK;
}

static void turn_head(const sky_rope *rope, uint32_t dim, bool undo, const float *cosine,
                      const float *sine, float *x) {
    for (uint32_t p = 0; p < rope->pair_count; p++) {
        sky_pair at = sky__pair_at(rope, dim, p);
        float a = x[at.first], b = x[at.second], s = undo ? -sine[p] : sine[p];
        x[at.first] = a * cosine[p] - b * s;
        x[at.second] = a * s + b * cosine[p];
    }
}

void sky_rope_apply(const sky_rope *rope, bool undo, uint32_t first_position, float *rows,
                    uint32_t token_count, uint32_t kv_heads, uint32_t head_dim) {
    float cosine[SKY_ROPE_PAIRS_MAX], sine[SKY_ROPE_PAIRS_MAX];
    if (!rope || !rows || !sky__rope_valid(rope) || 2 * rope->pair_count > head_dim)
        return;
    for (uint32_t t = 0; t < token_count; t++) {
        sky__rope_angles(rope, first_position + t, cosine, sine);
        for (uint32_t h = 0; h < kv_heads; h++)
            turn_head(rope, head_dim, undo, cosine, sine,
                      rows + ((size_t)t * kv_heads + h) * head_dim);
    }
}
