/* Proves: a fitted profile makes streams of the same source smaller than one that was not fitted,
 * at the same error, with nothing of its own in the tiles; sources of another kind still
 * code; and which blocks samples may be cut into. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec_fixture.h"

static sky_profile *make(const sky_stream_shape *shape, bool fitted) {
    sky_profile_layer layer = {shape->kv_heads, shape->head_dim, shape->head_dim, SKY_ROPE_OF_NONE};
    sky_profile_shape all = {.layer_count = 1, .layers = &layer};
    sky_stream_shape samples = *shape;
    sky_profile *p;
    float *zero = calloc((size_t)shape->kv_heads * shape->head_dim, sizeof *zero);
    samples.element = SKY_ELEMENT_F32;
    samples.token_count = 512;
    float *rows = fixture_elements(70, &samples, NULL);
    assert_int_equal(sky_profile_create(&all, &p), SKY_OK);
    assert_int_equal(sky_profile_set_mean(p, 0, SKY_KV_V, zero), SKY_OK);
    assert_int_equal(sky_profile_set_step(p, 0, SKY_KV_V, SKY_LEVEL_4, true, 0.3f), SKY_OK);
    if (fitted)
        assert_int_equal(sky_profile_fit(p, 0, SKY_KV_V, rows, 512, 128), SKY_OK);
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    free(zero);
    free(rows);
    return p;
}

static void fitting_pays(void **state) {
    (void)state;
    sky_stream_shape shape = {0, SKY_KV_V, SKY_ELEMENT_F16, 128, 4, 64, 0};
    sky_profile *with = make(&shape, true), *without = make(&shape, false);
    void *in = fixture_elements(71, &shape, NULL), *memory = fixture_work();
    uint8_t *a = malloc(fixture_bytes(&shape)), *b = malloc(fixture_bytes(&shape));
    sky_encode_options how = {.level = SKY_LEVEL_4};
    size_t with_bytes, without_bytes, exact_bytes, blind_bytes;
    uint8_t *s = fixture_encode(with, &shape, &how, in, &with_bytes);
    uint8_t *t = fixture_encode(without, &shape, &how, in, &without_bytes);
    assert_true(with_bytes + 200 < without_bytes);
    assert_int_equal(s[SKY_STREAM_HEADER_BYTES], 0); /* nothing of its own */
    assert_int_equal(sky_decode(with, &shape, s, with_bytes, sky_stream_packed(&shape, a), memory),
                     SKY_OK);
    assert_int_equal(
        sky_decode(without, &shape, t, without_bytes, sky_stream_packed(&shape, b), memory),
        SKY_OK);
    assert_memory_equal(a, b, fixture_bytes(&shape));
    free(s);
    free(t);
    how.level = SKY_LEVEL_LOSSLESS;
    s = fixture_encode(with, &shape, &how, in, &exact_bytes);
    t = fixture_encode(NULL, &shape, &how, in, &blind_bytes);
    assert_true(exact_bytes + 200 < blind_bytes && blind_bytes < fixture_bytes(&shape) * 15 / 16);
    free(s);
    free(t);
    free(a);
    free(b);
    free(in);
    free(memory);
    sky_profile_destroy(with);
    sky_profile_destroy(without);
}

static void another_source_still_codes(void **state) {
    (void)state;
    sky_stream_shape shape = {0, SKY_KV_V, SKY_ELEMENT_F32, 100, 1, 96, 0};
    sky_profile *p = make(&shape, true);
    float *in = fixture_elements(72, &shape, NULL), *out = malloc(fixture_bytes(&shape));
    void *memory = fixture_work();
    for (size_t i = 0; i < 9600; i++)
        in[i] *= i % 96 < 48 ? 100 : 0.001f;
    for (uint32_t plain = 0; plain < 2; plain++) {
        sky_encode_options how = {.level = SKY_LEVEL_4, .plain = plain};
        size_t bytes;
        uint8_t *s = fixture_encode(p, &shape, &how, in, &bytes);
        assert_true(bytes < fixture_bytes(&shape) / 2);
        assert_int_equal(sky_decode(p, &shape, s, bytes, sky_stream_packed(&shape, out), memory),
                         SKY_OK);
        for (size_t i = 0; i < 9600; i++)
            assert_true(fabsf(in[i] - out[i]) < (plain ? 150.0f : 2.0f) + 1e-3f * fabsf(in[i]));
        free(s);
    }
    free(in);
    free(out);
    free(memory);
    sky_profile_destroy(p);
}

static void blocks_have_two_tokens_or_more(void **state) {
    (void)state;
    sky_profile_layer layer = {1, 16, 16, SKY_ROPE_OF_NONE};
    sky_profile *p;
    assert_int_equal(sky_profile_create(&(sky_profile_shape){1, &layer, 0, NULL, {0}}, &p), SKY_OK);
    float *rows = calloc(600 * 16, sizeof *rows);
    const uint32_t wrong[] = {0, 1, SKY_STREAM_TOKENS_MAX + 1}, right[] = {2, 3, 128, 512};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sky_profile_fit(p, 0, SKY_KV_V, rows, 600, wrong[i]), SKY_E_PARAM);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sky_profile_fit(p, 0, SKY_KV_V, rows, right[i], right[i]), SKY_OK);
    assert_int_equal(sky_profile_fit(p, 0, SKY_KV_V, rows, 127, 128), SKY_E_PARAM);
    free(rows);
    sky_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitting_pays),
        cmocka_unit_test(another_source_still_codes),
        cmocka_unit_test(blocks_have_two_tokens_or_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
