/* Proves: streams of every level, element, rope and shape decode to rows close to the originals;
 * what no level can hold and the first token come back bit for bit, what is finite stays finite;
 * neither outliers nor the rows' scale change how good a level is; sizes stay within the bound. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "codec/codec_fixture.h"
#include "codec/profile.h"

static const char *const kernel_names[] = {"scalar", "avx512", "avx2", "neon"};

static sky_stream_shape shape_of(sky_kv kv, uint32_t tokens, uint32_t heads, uint32_t dim) {
    return (sky_stream_shape){0, kv, SKY_ELEMENT_F16, tokens, heads, dim, 1000};
}

/* Encode, decode, compare: rms of the error at most `most`, as a part of the rms about the mean. */
static size_t round_trip(const sky_profile *profile, const sky_stream_shape *shape,
                         const sky_encode_options *options, const void *in, double most) {
    size_t bytes, count = fixture_bytes(shape) / sky_element_bytes(shape->element);
    uint8_t *stream = fixture_encode(profile, shape, options, in, &bytes);
    void *out = malloc(fixture_bytes(shape)), *memory = fixture_work();
    assert_int_equal(
        sky_decode(profile, shape, stream, bytes, sky_stream_packed(shape, out), memory), SKY_OK);
    if (options->level == SKY_LEVEL_LOSSLESS)
        assert_memory_equal(in, out, fixture_bytes(shape));
    double error = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)fixture_value(shape->element, in, i) -
                   (double)fixture_value(shape->element, out, i);
        error += d * d;
    }
    if (!(sqrt(error / (double)count) <= most))
        fail_msg("level %s, %u tokens, %u × %u: error %g", sky_level_name(options->level),
                 shape->token_count, shape->kv_heads, shape->head_dim, sqrt(error / (double)count));
    free(memory);
    free(out);
    free(stream);
    return bytes;
}

/* Of each level, with the fixture's data, whose deviation is about 1.4. */
static const double most_error[SKY_LEVEL_COUNT] = {0, .05, .1, .3, .5, .7, .9, 1.2};

static void every_level_comes_back_close(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_K, 128, 2, 64);
    sky_profile *profile = fixture_profile(&shape, SKY_ROPE_NEOX, true);
    for (int kv = 0; kv < 2; kv++)
        for (int calibrated = 0; calibrated < 2; calibrated++)
            for (int plain = 0; plain < 2; plain++) {
                size_t before = SIZE_MAX;
                shape.kv = (sky_kv)kv;
                void *in = fixture_elements(9, &shape,
                                            kv == SKY_KV_K ? sky_profile_rope(profile, 0) : NULL);
                for (uint32_t level = 0; level < SKY_LEVEL_COUNT; level++) {
                    sky_encode_options how = {.level = (sky_level)level, .plain = plain};
                    size_t bytes = round_trip(calibrated ? profile : NULL, &shape, &how, in,
                                              most_error[level] * 1.4);
                    assert_true(bytes < before || level == SKY_LEVEL_ARCHIVE);
                    before = bytes;
                }
                free(in);
            }
    sky_profile_destroy(profile);
}

static void every_shape_comes_back(void **state) {
    (void)state;
    static const struct {
        uint32_t tokens, heads, dim;
    } shapes[] = {{1, 1, 1},    {2, 1, 2},   {1, 3, 5},    {3, 1, 80},   {127, 1, 80},
                  {5, 3, 128},  {64, 5, 60}, {130, 2, 96}, {512, 1, 64}, {67, 1, 512},
                  {33, 1, 257}, {9, 9, 33},  {300, 1, 256}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t element = SKY_ELEMENT_F16; element <= SKY_ELEMENT_BF16; element++) {
            sky_stream_shape shape = shape_of(SKY_KV_K, shapes[i].tokens, shapes[i].heads,
                                              shapes[i].dim);
            shape.element = (sky_element)element;
            sky_rope_kind kind = i % 2 ? SKY_ROPE_NEOX : SKY_ROPE_INTERLEAVED;
            sky_profile *profile = fixture_profile(&shape, kind, i % 3 == 0 && shapes[i].dim < 100);
            void *in = fixture_elements(i, &shape, sky_profile_rope(profile, 0));
            static const sky_level levels[] = {SKY_LEVEL_LOSSLESS, SKY_LEVEL_4, SKY_LEVEL_ARCHIVE};
            for (uint32_t j = 0; j < 6; j++) {
                sky_encode_options how = {
                    .level = levels[j / 2], .plain = i & 1, .first_token_raw = j & 1};
                round_trip(profile, &shape, &how, in, 3);
                round_trip(NULL, &shape, &how, in, 3);
            }
            free(in);
            sky_profile_destroy(profile);
        }
}

static void the_first_token_comes_back_bit_for_bit(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_V, 20, 2, 40);
    uint16_t *in = fixture_elements(3, &shape, NULL), out[20 * 80];
    sky_encode_options how = {.level = SKY_LEVEL_2, .first_token_raw = true};
    size_t bytes;
    uint8_t *stream = fixture_encode(NULL, &shape, &how, in, &bytes);
    void *memory = fixture_work();
    sky_stream_info info;
    assert_int_equal(sky_stream_info_read(stream, bytes, &info), SKY_OK);
    assert_true(info.first_token_raw && !info.calibrated && info.level == SKY_LEVEL_2);
    assert_int_equal(
        sky_decode(NULL, &shape, stream, bytes, sky_stream_packed(&shape, out), memory), SKY_OK);
    assert_memory_equal(in, out, 160);
    assert_memory_not_equal(in + 80, out + 80, 160);
    free(memory);
    free(stream);
    free(in);
}

/* Elements that are no quantity, or near the type's end, in keys and values, at every level. */
static void what_no_level_holds_comes_back_as_it_is(void **state) {
    (void)state;
    static const uint16_t odd[] = {0x7c00, 0xfc00, 0x7e01, 0xfd23, 0x7bff, 0xfbff};
    sky_stream_shape shape = shape_of(SKY_KV_K, 31, 2, 64);
    sky_profile *profile = fixture_profile(&shape, SKY_ROPE_INTERLEAVED, true);
    for (uint32_t level = 0; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t kind = 0; kind < 3; kind++) {
            uint16_t *in = fixture_elements(4, &shape, sky_profile_rope(profile, 0));
            uint16_t *out = malloc(fixture_bytes(&shape));
            void *memory = fixture_work();
            for (size_t i = 0; i < 6; i++)
                in[i * 600 + 17 * i] = odd[i];
            in[31 * 128 - 1] = 0x7c00;
            sky_encode_options how = {.level = (sky_level)level, .plain = kind == 2};
            const sky_profile *p = kind ? profile : NULL;
            size_t bytes;
            uint8_t *stream = fixture_encode(p, &shape, &how, in, &bytes);
            assert_int_equal(
                sky_decode(p, &shape, stream, bytes, sky_stream_packed(&shape, out), memory),
                SKY_OK);
            for (size_t i = 0; i < 6; i++)
                assert_int_equal(out[i * 600 + 17 * i], odd[i]);
            assert_int_equal(out[31 * 128 - 1], 0x7c00);
            for (size_t i = 0; i < 31 * 128; i++)
                assert_true((out[i] & 0x7c00) != 0x7c00 || in[i] == out[i]);
            free(memory);
            free(stream);
            free(out);
            free(in);
        }
    sky_profile_destroy(profile);
}

/* Rows that are all alike, zero, tiny or huge. */
static void rows_without_information_are_small_and_exact_enough(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_V, 128, 1, 256);
    shape.element = SKY_ELEMENT_F32;
    static const float values[] = {0, 1, -1e-44f, 3e-39f, 1e30f, 1e38f};
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        float *in = malloc(fixture_bytes(&shape));
        for (size_t i = 0; i < 128 * 256; i++)
            in[i] = values[v];
        sky_encode_options how = {.level = SKY_LEVEL_4};
        size_t bytes = round_trip(NULL, &shape, &how, in, (double)fabsf(values[v]) * 1e-3 + 1e-19);
        assert_true(values[v] != 0 || bytes < 2048);
        free(in);
    }
}

/* Every f16 that went in finite comes out finite, whatever the step is against its range: rows next
 * to the largest f16 everywhere, and here and there among small ones with a coarse step. */
static void what_is_finite_stays_finite(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_K, 128, 1, 64);
    sky_profile *profile = fixture_profile(&shape, SKY_ROPE_NEOX, true);
    uint16_t *rows[2] = {fixture_elements(6, &shape, NULL), fixture_elements(7, &shape, NULL)};
    uint16_t *out = malloc(fixture_bytes(&shape));
    void *memory = fixture_work();
    for (size_t i = 0; i < 128 * 64; i++) {
        rows[0][i] = (uint16_t)(0x7ab7 | (rows[0][i] & 0x8000)); /* ±55,008 */
        if (i % 401 == 17)
            rows[1][i] = (uint16_t)(0x7b40 | (i % 2 ? 0x8000 : 0)); /* ±59,392 */
    }
    for (uint32_t level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t kind = 0; kind < 8; kind++) {
            uint16_t *in = rows[kind & 1];
            const sky_profile *p = kind & 4 ? profile : NULL;
            sky_encode_options how = {.level = (sky_level)level, .plain = kind & 2};
            how.step_scale = p || kind & 1 ? 1e4f
                                           : 1; /* a calibrated step is made for smaller ones */
            size_t bytes;
            uint8_t *stream = fixture_encode(p, &shape, &how, in, &bytes);
            assert_int_equal(
                sky_decode(p, &shape, stream, bytes, sky_stream_packed(&shape, out), memory),
                SKY_OK);
            for (size_t i = 0; i < 128 * 64; i++)
                assert_true((out[i] & 0x7c00) != 0x7c00);
            free(stream);
        }
    free(memory);
    free(out);
    free(rows[0]);
    free(rows[1]);
    sky_profile_destroy(profile);
}

/* Error of the elements that are no outlier. */
static double error_of_the_others(sky_level level, bool plain, const sky_stream_shape *shape,
                                  uint16_t *in, uint32_t outliers) {
    size_t count = fixture_bytes(shape) / 2, bytes, others = 0;
    uint16_t *out = malloc(fixture_bytes(shape));
    void *memory = fixture_work();
    double error = 0;
    for (size_t i = 0; i < outliers; i++)
        in[(i * 1009 + 77) % count] = 0x7a1a; /* 50,000 */
    sky_encode_options how = {.level = level, .plain = plain};
    uint8_t *stream = fixture_encode(NULL, shape, &how, in, &bytes);
    assert_int_equal(sky_decode(NULL, shape, stream, bytes, sky_stream_packed(shape, out), memory),
                     SKY_OK);
    assert_true(bytes < fixture_bytes(shape) * 3 / 4); /* it is not that they travel raw */
    for (size_t i = 0; i < count; i++) {
        if (in[i] == 0x7a1a)
            continue;
        double d = (double)fixture_value(SKY_ELEMENT_F16, in, i) -
                   (double)fixture_value(SKY_ELEMENT_F16, out, i);
        error += d * d;
        others++;
    }
    free(stream);
    free(memory);
    free(out);
    return sqrt(error / (double)others);
}

static void an_outlier_does_not_make_the_others_coarse(void **state) {
    (void)state;
    static const struct { uint32_t tokens, outliers; } tries[] = {{16, 1}, {128, 1}, {128, 20}};
    for (size_t i = 0; i < 3; i++)
        for (uint32_t level = SKY_LEVEL_4; level < SKY_LEVEL_COUNT; level++) {
            sky_stream_shape shape = shape_of(SKY_KV_V, tries[i].tokens, 1, 256);
            uint16_t *in = fixture_elements(3, &shape, NULL);
            double without = error_of_the_others((sky_level)level, level & 1, &shape, in, 0);
            double with = error_of_the_others((sky_level)level, level & 1, &shape, in,
                                              tries[i].outliers);
            if (!(with < 1.1 * without))
                fail_msg("level %s, %u tokens: error %g beside %u outliers, %g without",
                         sky_level_name((sky_level)level), tries[i].tokens, with, tries[i].outliers,
                         without);
            free(in);
        }
}

/* The step follows the rows over the range of floats. */
static void scale_does_not_matter(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_V, 64, 1, 128);
    shape.element = SKY_ELEMENT_F32;
    static const float scales[] = {1e-33f, 1e-30f, 1e-12f, 1e12f};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        float *in = fixture_elements(3, &shape, NULL);
        for (size_t j = 0; j < 64 * 128; j++)
            in[j] *= scales[i];
        sky_encode_options how = {.level = SKY_LEVEL_4};
        size_t bytes = round_trip(NULL, &shape, &how, in, 0.6 * (double)scales[i]);
        assert_true(bytes < fixture_bytes(&shape) / 4);
        free(in);
    }
}

/* [head, token, dim + 8] of f16 */
static sky_tensor by_head(const sky_stream_shape *shape, uint16_t *rows) {
    sky_tensor t = sky_stream_packed(shape, rows);
    t.token_bytes = 2 * (shape->head_dim + 8);
    t.head_bytes = shape->token_count * t.token_bytes;
    t.bytes = shape->kv_heads * t.head_bytes;
    return t;
}

static void strides_are_the_callers(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_V, 10, 3, 40);
    uint16_t *in = fixture_elements(3, &shape, NULL);
    /* [head, token, dim + 8], and room around. */
    uint16_t *wide = malloc(3 * 10 * 48 * 2), *out = malloc(3 * 10 * 48 * 2), tight[10 * 120];
    void *memory = fixture_work();
    memset(wide, 0x11, 3 * 10 * 48 * 2);
    memset(out, 0x22, 3 * 10 * 48 * 2);
    for (size_t t = 0; t < 10; t++)
        for (size_t h = 0; h < 3; h++)
            memcpy(wide + (h * 10 + t) * 48, in + (t * 3 + h) * 40, 80);
    sky_encode_options how = {.level = SKY_LEVEL_3, .first_token_raw = true};
    uint8_t a[4096], b[4096];
    size_t a_bytes, b_bytes;
    assert_int_equal(sky_encode(NULL, &shape, &how, sky_stream_packed(&shape, in), a, sizeof a,
                                &a_bytes, memory),
                     SKY_OK);
    assert_int_equal(
        sky_encode(NULL, &shape, &how, by_head(&shape, wide), b, sizeof b, &b_bytes, memory),
        SKY_OK);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a, b, a_bytes);
    assert_int_equal(sky_decode(NULL, &shape, a, a_bytes, by_head(&shape, out), memory), SKY_OK);
    assert_int_equal(sky_decode(NULL, &shape, a, a_bytes, sky_stream_packed(&shape, tight), memory),
                     SKY_OK);
    for (size_t t = 0; t < 10; t++)
        for (size_t h = 0; h < 3; h++) {
            assert_memory_equal(tight + (t * 3 + h) * 40, out + (h * 10 + t) * 48, 80);
            for (size_t i = 40; i < 48; i++)
                assert_int_equal(out[(h * 10 + t) * 48 + i], 0x2222);
        }
    free(memory);
    free(out);
    free(wide);
    free(in);
}

/* A stream of an odd number of tokens, the last of which ends the page table, and memory. */
static void the_page_table_is_not_read_past_its_end(void **state) {
    (void)state;
    enum { TOKENS = 5, DIM = 64 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0),
            a[4096], b[4096];
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    uint32_t *table = (uint32_t *)(void *)(memory + page) - 1;
    *table = 0;
    sky_stream_shape shape = shape_of(SKY_KV_V, TOKENS, 1, DIM);
    void *in = fixture_elements(6, &shape, NULL), *work = fixture_work();
    sky_tensor packed = sky_stream_packed(&shape, in), paged = packed;
    paged.pages = table;
    paged.page_count = 1;
    paged.page_tokens = TOKENS;
    paged.page_bytes = paged.bytes;
    for (int plain = 0; plain < 2; plain++) {
        sky_encode_options how = {.level = SKY_LEVEL_4, .plain = plain};
        size_t a_bytes, b_bytes;
        assert_int_equal(sky_encode(NULL, &shape, &how, packed, a, sizeof a, &a_bytes, work),
                         SKY_OK);
        assert_int_equal(sky_encode(NULL, &shape, &how, paged, b, sizeof b, &b_bytes, work),
                         SKY_OK);
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a, b, a_bytes);
    }
    free(work);
    free(in);
    munmap(memory, 2 * page);
}

/* A thread may round upwards, or (on x86) take subnormals for zeros. */
static void set_floats_unusual(void) {
    assert_int_equal(fesetround(FE_UPWARD), 0);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
}

static void unusual_threads_code_the_same(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_V, 40, 2, 40);
    uint16_t small[40 * 2 * 40];
    uint8_t *streams[2], *rows[2] = {malloc(sizeof small), malloc(sizeof small)};
    size_t bytes[2];
    void *work = fixture_work();
    sky_profile *profile = fixture_profile(&shape, SKY_ROPE_NONE, false), *rounded;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        small[i] = (uint16_t)(i * 40503 % 1024 | (i & 1) << 15); /* subnormal as f16 */
    for (size_t k = 0; k < sizeof kernel_names / sizeof *kernel_names; k++)
        for (sky_level level = SKY_LEVEL_8; level <= SKY_LEVEL_4; level++) {
            const sky_encode_options how = {.level = level, .plain = k % 2};
            if (sky_codec_kernels_use(kernel_names[k]) != SKY_OK)
                continue;
            for (int unusual = 0; unusual < 2; unusual++) {
                fenv_t before;
                fegetenv(&before);
                if (unusual)
                    set_floats_unusual();
                assert_int_equal(sky_profile_round(profile, &rounded), SKY_OK);
                const sky_profile *used = level == SKY_LEVEL_8 ? NULL : rounded;
                streams[unusual] = fixture_encode(used, &shape, &how, small, &bytes[unusual]);
                assert_int_equal(sky_decode(used, &shape, streams[unusual], bytes[unusual],
                                            sky_stream_packed(&shape, rows[unusual]), work),
                                 SKY_OK);
                assert_int_equal(fegetround(), unusual ? FE_UPWARD : FE_TONEAREST);
                fesetenv(&before);
                sky_profile_destroy(rounded);
            }
            assert_int_equal(bytes[0], bytes[1]);
            assert_memory_equal(streams[0], streams[1], bytes[0]);
            assert_memory_equal(rows[0], rows[1], sizeof small);
            free(streams[0]);
            free(streams[1]);
        }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
    sky_profile_destroy(profile);
    free(work);
    free(rows[0]);
    free(rows[1]);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    sky_stream_shape shape = shape_of(SKY_KV_V, 4, 1, 16), bad;
    sky_encode_options how = {.level = SKY_LEVEL_4};
    uint16_t rows[64] = {0};
    uint8_t dst[512];
    size_t bytes = 77;
    void *work = fixture_work();
    sky_tensor in = sky_stream_packed(&shape, rows);
    assert_int_equal(sky_encode(NULL, &shape, &how, in, dst, 20, &bytes, work), SKY_E_DST_SMALL);
    bad = shape;
    bad.token_count = 513;
    assert_int_equal(sky_encode_bound(&bad), 0);
    assert_int_equal(sky_encode(NULL, &bad, &how, in, dst, sizeof dst, &bytes, work), SKY_E_PARAM);
    bad = shape;
    bad.head_dim = 0;
    assert_int_equal(sky_encode(NULL, &bad, &how, in, dst, sizeof dst, &bytes, work), SKY_E_PARAM);
    const float scales[] = {NAN, -1, 0.9e-6f, 1.1e6f, INFINITY};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        how.step_scale = scales[i];
        assert_int_equal(sky_encode(NULL, &shape, &how, in, dst, sizeof dst, &bytes, work),
                         SKY_E_PARAM);
    }
    how = (sky_encode_options){.level = (sky_level)9};
    assert_int_equal(sky_encode(NULL, &shape, &how, in, dst, sizeof dst, &bytes, work),
                     SKY_E_PARAM);
    how.level = SKY_LEVEL_4;
    sky_profile *profile = fixture_profile(&shape, SKY_ROPE_NEOX, false);
    bad = shape;
    bad.head_dim = 8;
    assert_int_equal(sky_encode(profile, &bad, &how, in, dst, sizeof dst, &bytes, work),
                     SKY_E_PARAM);
    assert_int_equal(bytes, 77);
    sky_profile_destroy(profile);
    free(work);
}

static void levels_have_names(void **state) {
    (void)state;
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++) {
        sky_level level = SKY_LEVEL_COUNT;
        assert_int_equal(sky_level_parse(sky_level_name((sky_level)i), &level), SKY_OK);
        assert_int_equal(level, i);
        assert_true(i == 0 || sky_level_bits_typical((sky_level)i) <
                                  sky_level_bits_typical((sky_level)(i - 1)));
    }
    sky_level level;
    char names[128] = "";
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "|" : "",
                 sky_level_name((sky_level)i));
    assert_string_equal(names, SKY_LEVEL_NAMES);
    assert_int_equal(sky_level_parse("5", &level), SKY_E_SYNTAX);
    assert_null(sky_level_name((sky_level)8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_comes_back_close),
        cmocka_unit_test(every_shape_comes_back),
        cmocka_unit_test(the_first_token_comes_back_bit_for_bit),
        cmocka_unit_test(what_no_level_holds_comes_back_as_it_is),
        cmocka_unit_test(rows_without_information_are_small_and_exact_enough),
        cmocka_unit_test(what_is_finite_stays_finite),
        cmocka_unit_test(an_outlier_does_not_make_the_others_coarse),
        cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(strides_are_the_callers),
        cmocka_unit_test(the_page_table_is_not_read_past_its_end),
        cmocka_unit_test(unusual_threads_code_the_same),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
