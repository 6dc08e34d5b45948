/* Proves: for every element, rope, basis and shape, forward and restore are inverses up to
 * rounding, and each channel lands where it came from; the padding is zero; full matrices are
 * summed up in the order that is laid down, by every set of kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec_fixture.h"
#include "codec/half.h"
#include "codec/kernels.h"
#include "codec/stream.h"
#include "codec/transform.h"

static void round_trip(sky_rope_kind kind, uint32_t flags, uint32_t heads, uint32_t dim,
                       sky_element element) {
    sky_stream_shape shape = {0, SKY_KV_K, element, 2, heads, dim, 9};
    sky_profile *profile = fixture_profile(&shape, kind, true);
    sky_stream_profile taken;
    assert_int_equal(sky__stream_profile(profile, &shape, &taken), SKY_OK);
    if (!taken.rope)
        flags &= ~(uint32_t)SKY_STREAM_ROPE;
    uint8_t *in = fixture_elements(1, &shape, NULL), *out = malloc(fixture_bytes(&shape));
    size_t head_bytes = dim * sky_element_bytes(element), token_bytes = head_bytes * heads;
    sky_tile tile = {0, 2, 0, 0, heads, heads * dim};
    static sky_transform t;
    float row[2][SKY_WIDTH_MAX], z[2][SKY_WIDTH_MAX];
    int16_t levels[2][SKY_WIDTH_MAX];
    const float D = 0.002f;

    sky__tile_transform(&taken, &shape, (uint8_t)flags, &tile, true, &t);
    t.scale[0] = SKY_SQRT_HALF / D;
    t.scale[1] = 1 / D;
    sky__transform_angles(&t, 9);
    for (uint32_t i = 0; i < 2; i++)
        sky__transform_load(&t, i, in + i * token_bytes, head_bytes, row[i]);
    sky__transform_forward(&t, row[0], row[1], z[0], z[1]);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t j = 0; j < t.padded; j++) {
            assert_true(j < t.width || z[i][j] == 0);
            levels[i][j] = (int16_t)lrintf(z[i][j]);
        }
    sky__tile_transform(&taken, &shape, (uint8_t)flags, &tile, false, &t);
    t.scale[0] = D * SKY_SQRT_HALF;
    t.scale[1] = D;
    sky__transform_scale(&t, 0);
    sky__transform_angles(&t, 9);
    uint8_t *const rows[2] = {out, out + token_bytes};
    sky__transform_restore(&t, levels[0], levels[1], rows, head_bytes);
    for (size_t i = 0; i < fixture_bytes(&shape) / sky_element_bytes(element); i++) {
        float a = fixture_value(element, in, i), b = fixture_value(element, out, i);
        float ulp = element == SKY_ELEMENT_BF16 ? 0.01f : 0.001f;
        assert_true(fabsf(a - b) <= 0.02f + ulp * fabsf(a));
    }
    free(in);
    free(out);
    sky_profile_destroy(profile);
}

static void forward_and_restore_are_inverses(void **state) {
    (void)state;
    static const uint32_t bases[] = {0, SKY_STREAM_PAIRS, SKY_STREAM_KLT};
    static const struct { uint32_t heads, dim; } shapes[] = {{1, 1}, {1, 2}, {2, 17}, {3, 40}};
    for (uint32_t kind = SKY_ROPE_NONE; kind <= SKY_ROPE_INTERLEAVED; kind++)
        for (uint32_t basis = 0; basis < 3; basis++)
            for (uint32_t s = 0; s < 4; s++)
                round_trip((sky_rope_kind)kind, bases[basis] | SKY_STREAM_ROPE | SKY_STREAM_MEAN,
                           shapes[s].heads, shapes[s].dim,
                           (sky_element)(1 + (kind + basis + s) % 3));
}

static void one_row_goes_without_a_partner(void **state) {
    (void)state;
    static sky_transform t;
    t = (sky_transform){.element = SKY_ELEMENT_F32, .heads = 1, .dim = 3, .width = 3, .padded = 64};
    t.scale[1] = 2;
    float row[3] = {1, -2, 0.5f}, z[64], out[3];
    int16_t levels[64];
    sky__transform_forward(&t, row, NULL, z, NULL);
    for (uint32_t i = 0; i < 64; i++)
        levels[i] = (int16_t)z[i];
    assert_int_equal(levels[1], -4);
    t.scale[1] = 0.5f;
    uint8_t *const rows[2] = {(uint8_t *)out, NULL};
    sky__transform_restore(&t, levels, NULL, rows, 12);
    assert_true(out[0] == 1 && out[1] == -2 && out[2] == 0.5f);
}

/* ---- full matrices ---- */

static uint32_t hash(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* As transform.h writes it; g by rows. Shape:  g [heads][dim][dim] */
static void sum_up(const sky_transform *t, const float *g, const int16_t *n, float scale,
                   float *row) {
    for (uint32_t c = 0; c < t->width; c++) {
        uint32_t head = c / t->dim, j = c % t->dim;
        row[c] = t->mean[c];
        for (uint32_t i = 0; i < t->dim; i++)
            if (n[head * t->dim + i]) {
                float product = (float)n[head * t->dim + i] * scale *
                                g[((size_t)head * t->dim + i) * t->dim + j];
                row[c] += product;
            }
    }
}

static void check_full(sky_transform *t, const float *g, const char *kernels) {
    int16_t sum[SKY_WIDTH_MAX] = {0}, difference[SKY_WIDTH_MAX] = {0}, of[2][SKY_WIDTH_MAX];
    float out[2][SKY_WIDTH_MAX], expected[SKY_WIDTH_MAX];
    uint8_t *const rows[2] = {(uint8_t *)out[0], (uint8_t *)out[1]};
    size_t head_bytes = t->dim * sizeof(float);
    if (sky_codec_kernels_use(kernels) != SKY_OK)
        return;
    for (uint32_t i = 0; i < t->width; i++) {
        sum[i] = (int16_t)(hash(i) % 7 < 3 ? 0 : (int)(hash(i + 1000) % 9) - 4);
        difference[i] = (int16_t)(i % 3 ? 0 : (int)(hash(i + 2000) % 5) - 2);
        of[0][i] = (int16_t)(sum[i] + difference[i]);
        of[1][i] = (int16_t)(sum[i] - difference[i]);
    }
    sky__kernels()->restore(t, sum, difference, rows, head_bytes);
    for (uint32_t i = 0; i < 2; i++) {
        sum_up(t, g, of[i], t->scale[0], expected);
        assert_memory_equal(out[i], expected, t->width * sizeof(float));
    }
    sky__kernels()->restore(t, sum, NULL, rows, head_bytes);
    sum_up(t, g, sum, t->scale[1], expected);
    assert_memory_equal(out[0], expected, t->width * sizeof(float));
}

static void full_matrices_are_summed_in_the_order_of_rows(void **state) {
    (void)state;
    static const char *const all[] = {"scalar", "avx2", "avx512", "neon"};
    static const struct {
        uint32_t heads, dim;
    } shapes[] = {{1, 1}, {5, 51}, {1, 64}, {2, 80}, {1, 256}, {1, 500}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        static sky_transform t;
        uint32_t heads = shapes[s].heads, dim = shapes[s].dim, width = heads * dim;
        sky_profile_stream stream = {.heads = heads, .dim = dim};
        float *panels = NULL, *g = malloc((size_t)heads * dim * dim * sizeof(float));
        assert_non_null(g);
        for (uint32_t i = 0; i < heads * dim * dim; i++)
            g[i] = (float)(hash(i) % 2001) * 1e-3f - 1;
        assert_int_equal(sky__profile_klt(&stream, &panels, g), SKY_OK);
        t = (sky_transform){.element = SKY_ELEMENT_F32,
                            .heads = heads,
                            .dim = dim,
                            .width = width,
                            .padded = sky_padded(width),
                            .klt = true,
                            .matrix = panels,
                            .scale = {0.7f, 1.1f}};
        for (uint32_t c = 0; c < width; c++)
            t.mean[c] = c % 4 ? (float)c * 0.01f : -0.0f;
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            check_full(&t, g, all[k]);
        free(panels);
        free(g);
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_restore_are_inverses),
        cmocka_unit_test(one_row_goes_without_a_partner),
        cmocka_unit_test(full_matrices_are_summed_in_the_order_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
