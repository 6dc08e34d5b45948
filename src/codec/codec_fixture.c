/* See codec_fixture.h. */
#include "codec/codec_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "codec/half.h"

/* About normal: twelve uniform numbers less their mean. */
static float normal(uint64_t seed) {
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += (double)(sky_mix64(seed * 12 + i + 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
    return (float)sum;
}

void fixture_rows(uint64_t seed, const sky_stream_shape *shape, const sky_rope *rope, float *out) {
    size_t channels = (size_t)shape->kv_heads * shape->head_dim;
    for (uint32_t t = 0; t < shape->token_count; t++)
        for (size_t i = 0; i < channels; i++) {
            float deviation = exp2f(normal(i + 77)), mean = 2 * normal(i + 99999);
            float *x = &out[t * channels + i];
            *x = normal(seed * 1000003 + t * channels + i);
            if (t)
                *x = 0.6f * (x[-(ptrdiff_t)channels] - mean) / deviation + 0.8f * *x;
            *x = *x * deviation + mean;
        }
    if (rope)
        sky_rope_apply(rope, false, shape->first_position, out, shape->token_count, shape->kv_heads,
                       shape->head_dim);
}

size_t fixture_bytes(const sky_stream_shape *shape) {
    return sky_stream_rows_bytes(shape);
}

void *fixture_elements(uint64_t seed, const sky_stream_shape *shape, const sky_rope *rope) {
    size_t count = (size_t)shape->token_count * shape->kv_heads * shape->head_dim;
    float *rows = malloc(count * sizeof *rows);
    assert_non_null(rows);
    fixture_rows(seed, shape, rope, rows);
    if (shape->element == SKY_ELEMENT_F32)
        return rows;
    uint16_t *out = malloc(count * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        out[i] = shape->element == SKY_ELEMENT_F16 ? sky_f16_of_float(rows[i])
                                                   : sky_bf16_of_float(rows[i]);
    free(rows);
    return out;
}

float fixture_value(sky_element element, const void *elements, size_t i) {
    uint16_t h;
    if (element == SKY_ELEMENT_F32)
        return ((const float *)elements)[i];
    memcpy(&h, (const uint8_t *)elements + 2 * i, 2);
    return element == SKY_ELEMENT_F16 ? sky_float_of_f16(h) : sky_float_of_bf16(h);
}

static const float fixture_steps[SKY_LEVEL_COUNT] = {0, .04f, .1f, .4f, .8f, 1.2f, 1.7f, 2.5f};

/* Turns by an angle of its own in every pair, then stretches: a matrix whose inverse is not its
 * transpose. */
static void set_pairs(sky_profile *p, sky_kv kv, const sky_stream_shape *shape) {
    size_t pairs = (size_t)shape->kv_heads * (shape->head_dim / 2);
    float *g = malloc((4 * pairs + 1) * sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < pairs; i++) {
        float angle = (float)i * 0.7f, c = cosf(angle), s = sinf(angle);
        float m[4] = {c * 1.25f, -s * 1.25f, s, c};
        memcpy(g + 4 * i, m, sizeof m);
    }
    assert_int_equal(sky_profile_set_pairs(p, 0, kv, g), SKY_OK);
    free(g);
}

/* A reflection in each head: its own inverse. */
static void set_klt(sky_profile *p, sky_kv kv, const sky_stream_shape *shape) {
    uint32_t dim = shape->head_dim;
    float *g = calloc((size_t)shape->kv_heads * dim * dim, sizeof *g);
    assert_non_null(g);
    for (uint32_t h = 0; h < shape->kv_heads; h++)
        for (uint32_t i = 0; i < dim; i++)
            for (uint32_t j = 0; j < dim; j++)
                g[((size_t)h * dim + i) * dim + j] = (i == j ? 1.0f : 0.0f) - 2.0f / (float)dim;
    assert_int_equal(sky_profile_set_klt(p, 0, kv, g, g), SKY_OK);
    free(g);
}

static void set_stream(sky_profile *p, const sky_stream_shape *like, sky_kv kv, bool klt) {
    sky_stream_shape shape = *like;
    shape.kv = kv;
    shape.token_count = 256;
    shape.element = SKY_ELEMENT_F32;
    float *rows = fixture_elements(5, &shape, NULL);
    size_t channels = (size_t)shape.kv_heads * shape.head_dim;
    float *mean = calloc(channels, sizeof *mean);
    assert_non_null(mean);
    for (uint32_t t = 0; t < shape.token_count; t++)
        for (size_t i = 0; i < channels; i++)
            mean[i] += rows[t * channels + i] / (float)shape.token_count;
    assert_int_equal(sky_profile_set_mean(p, 0, kv, mean), SKY_OK);
    if (kv == SKY_KV_K)
        set_pairs(p, kv, &shape);
    if (klt)
        set_klt(p, kv, &shape);
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t dependent = 0; dependent < 2; dependent++)
            assert_int_equal(
                sky_profile_set_step(p, 0, kv, (sky_level)level, dependent, fixture_steps[level]),
                SKY_OK);
    assert_int_equal(sky_profile_fit(p, 0, kv, rows, shape.token_count, 64), SKY_OK);
    free(mean);
    free(rows);
}

sky_profile *fixture_profile(const sky_stream_shape *shape, sky_rope_kind kind, bool klt) {
    sky_rope rope;
    sky_profile_layer layer = {shape->kv_heads, shape->head_dim, shape->head_dim, 0};
    uint32_t turned = kind == SKY_ROPE_NONE ? 0 : shape->head_dim / 4 * 2; /* a part */
    sky_profile_shape all = {.layer_count = 1, .layers = &layer, .rope_count = 1, .ropes = &rope};
    sky_profile *p;
    assert_int_equal(sky_rope_init(&rope, kind, turned, 10000, 1, NULL), SKY_OK);
    assert_int_equal(sky_profile_create(&all, &p), SKY_OK);
    set_stream(p, shape, SKY_KV_K, klt);
    set_stream(p, shape, SKY_KV_V, klt);
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    return p;
}

void *fixture_work(void) {
    void *work = aligned_alloc(64, SKY_ENCODE_WORK_BYTES);
    assert_non_null(work);
    memset(work, 0xa5, SKY_ENCODE_WORK_BYTES); /* nothing may rely on what was there */
    return work;
}

uint8_t *fixture_encode(const sky_profile *profile, const sky_stream_shape *shape,
                        const sky_encode_options *options, const void *elements, size_t *bytes) {
    size_t bound = sky_encode_bound(shape);
    uint8_t *dst = malloc(bound);
    void *work = fixture_work();
    assert_non_null(dst);
    assert_int_equal(sky_encode(profile, shape, options, sky_stream_packed(shape, elements), dst,
                                bound, bytes, work),
                     SKY_OK);
    assert_true(*bytes <= bound);
    free(work);
    return dst;
}
