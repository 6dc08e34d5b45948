/* Proves: for every element, rope, basis and shape, forward and restore are inverses up to
 * rounding, and each channel lands where it came from; the padding is zero. */
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
    size_t head_bytes = dim * fixture_element_bytes(element), token_bytes = head_bytes * heads;
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
    for (size_t i = 0; i < fixture_bytes(&shape) / fixture_element_bytes(element); i++) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_restore_are_inverses),
        cmocka_unit_test(one_row_goes_without_a_partner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
