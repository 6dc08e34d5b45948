/* Proves: every set of kernels this CPU runs makes the scalar ones' bytes, encoding and decoding,
 * of any shape, level and element, of streams that were damaged, also two at once, and of rows of
 * noise. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "codec/codec_fixture.h"
#include "codec/kernels.h"
#include "codec/profile.h"

static uint64_t seed;

static uint32_t chance(uint32_t below) {
    return (uint32_t)(sky_mix64(seed += 0x9e3779b97f4a7c15u) % below);
}

static const char *const others[] = {"avx512", "avx2", "neon"};
#define OTHERS (sizeof others / sizeof others[0])

/* ---- streams ---- */

typedef struct {
    sky_stream_shape shape;
    sky_profile *profile;
    sky_encode_options how;
    uint8_t *elements;
    uint8_t *stream;
    size_t bytes;
} world;

static world make(uint32_t round, uint32_t dim) {
    seed = round * 7919u;
    uint32_t heads = dim <= 64 ? 1 + chance(6) : 1 + chance(2);
    world w = {.shape = {0, (sky_kv)chance(2), (sky_element)(1 + chance(3)), 1 + chance(40), heads,
                         dim, chance(100000)}};
    if (chance(5))
        w.profile = fixture_profile(&w.shape, (sky_rope_kind)chance(3), dim <= 40 || dim % 5 == 0);
    const sky_rope *rope = w.profile && w.shape.kv == SKY_KV_K ? sky_profile_rope(w.profile, 0)
                                                               : NULL;
    w.elements = fixture_elements(round, &w.shape, rope);
    for (uint32_t i = chance(3) ? 0 : 20; i; i--) /* NaN, infinities, wide values */
        w.elements[chance((uint32_t)fixture_bytes(&w.shape))] = (uint8_t)chance(256);
    w.how = (sky_encode_options){
        .level = (sky_level)(chance(3) ? chance(SKY_LEVEL_COUNT) : SKY_LEVEL_LOSSLESS),
        .first_token_raw = chance(2),
        .step_scale = chance(3)   ? 0
                      : chance(2) ? 0.05f
                                  : 3};
    w.how.plain = w.how.level != SKY_LEVEL_LOSSLESS && chance(2);
    assert_int_equal(sky_codec_kernels_use("scalar"), SKY_OK);
    w.stream = fixture_encode(w.profile, &w.shape, &w.how, w.elements, &w.bytes);
    return w;
}

static void drop(world *w) {
    sky_profile_destroy(w->profile);
    free(w->elements);
    free(w->stream);
}

static uint8_t *decode(const world *w, const char *kernels, sky_status *status) {
    uint8_t *out = calloc(1, fixture_bytes(&w->shape)), *exact = malloc(w->bytes);
    void *memory = fixture_work();
    assert_non_null(out);
    assert_int_equal(sky_codec_kernels_use(kernels), SKY_OK);
    memcpy(exact, w->stream, w->bytes); /* a read past the end shows under a sanitizer */
    *status = sky_decode(w->profile, &w->shape, exact, w->bytes, sky_stream_packed(&w->shape, out),
                         memory);
    free(memory);
    free(exact);
    return out;
}

static void check_decode(const world *w, const char *kernels) {
    sky_status expected, status;
    uint8_t *a = decode(w, "scalar", &expected), *b = decode(w, kernels, &status);
    assert_int_equal(status, expected);
    assert_memory_equal(a, b, fixture_bytes(&w->shape));
    free(a);
    free(b);
}

/* Two at once are what each is alone, whatever is wrong with the other. */
static void check_two(const world *a, const world *b, const char *kernels) {
    const world *const w[2] = {a, b};
    uint8_t *alone[2], *out[2], *exact[2], *memory = aligned_alloc(64, 2 * SKY_DECODER_BYTES);
    sky_status status[2];
    sky_stream_in in[2];
    assert_non_null(memory);
    for (int i = 0; i < 2; i++) {
        alone[i] = decode(w[i], "scalar", &status[i]);
        out[i] = calloc(1, fixture_bytes(&w[i]->shape));
        exact[i] = malloc(w[i]->bytes);
        assert_non_null(out[i]);
        assert_non_null(exact[i]);
        memcpy(exact[i], w[i]->stream, w[i]->bytes);
        in[i] = (sky_stream_in){w[i]->shape, exact[i], w[i]->bytes,
                                sky_stream_packed(&w[i]->shape, out[i])};
    }
    assert_int_equal(sky_codec_kernels_use(kernels), SKY_OK);
    assert_int_equal(sky_decode_two(a->profile, in, memory),
                     status[0] != SKY_OK ? status[0] : status[1]);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(out[i], alone[i], fixture_bytes(&w[i]->shape));
        free(alone[i]);
        free(out[i]);
        free(exact[i]);
    }
    free(memory);
}

static void check_encode(const world *w, const char *kernels) {
    size_t bytes;
    assert_int_equal(sky_codec_kernels_use(kernels), SKY_OK);
    uint8_t *again = fixture_encode(w->profile, &w->shape, &w->how, w->elements, &bytes);
    assert_int_equal(bytes, w->bytes);
    assert_memory_equal(again, w->stream, bytes);
    free(again);
}

static void check(uint32_t round, uint32_t dim) {
    world w = make(round, dim), whole = w;
    whole.stream = malloc(w.bytes);
    assert_non_null(whole.stream);
    memcpy(whole.stream, w.stream, w.bytes);
    for (size_t i = 0; i < OTHERS; i++)
        if (sky_codec_kernels_use(others[i]) == SKY_OK)
            check_encode(&w, others[i]);
    for (uint32_t damage = 0; damage < 4; damage++) {
        for (size_t i = 0; i < OTHERS; i++)
            if (sky_codec_kernels_use(others[i]) == SKY_OK) {
                check_decode(&w, others[i]);
                check_two(&w, &whole, others[i]);
                check_two(&whole, &w, others[i]);
            }
        if (w.bytes == SKY_STREAM_HEADER_BYTES)
            break;
        uint32_t room = (uint32_t)w.bytes - SKY_STREAM_HEADER_BYTES;
        w.stream[SKY_STREAM_HEADER_BYTES + chance(room)] = (uint8_t)chance(256);
    }
    free(whole.stream);
    drop(&w);
}

static void streams_are_the_same_of_every_head_dim(void **state) {
    (void)state;
    for (uint32_t dim = 1; dim <= 512; dim += dim < 36 ? 1 : 1 + dim % 41)
        check(dim, dim);
    for (uint32_t round = 1000; round < 1060; round++)
        check(round, round % 5 ? 64u << round % 3 : 1 + round % 300);
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

/* D × matrix is a number here and 2 D × matrix is none: kernels that double it must not. */
static void matrices_that_cannot_be_doubled(void **state) {
    (void)state;
    enum { DIM = 64, AT_D = SKY_STREAM_HEADER_BYTES + 4 };
    const float huge = 1e36f;
    float g[DIM / 2][4];
    world w = {.shape = {0, SKY_KV_V, SKY_ELEMENT_F16, 6, 1, DIM, 0},
               .how = {.level = SKY_LEVEL_8, .plain = true}};
    sky_profile_layer layer = {1, DIM, DIM, 0};
    sky_rope rope;
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, DIM, 10000, 1, NULL), SKY_OK);
    for (uint32_t i = 0; i < DIM / 2; i++)
        memcpy(g[i], (float[4]){300, 0, 0, 300}, sizeof g[i]);
    assert_int_equal(sky_profile_create(&(sky_profile_shape){1, &layer, 1, &rope, {0}}, &w.profile),
                     SKY_OK);
    assert_int_equal(sky_profile_set_pairs(w.profile, 0, SKY_KV_V, &g[0][0]), SKY_OK);
    assert_int_equal(sky_profile_seal(w.profile), SKY_OK);
    w.elements = fixture_elements(1, &w.shape, NULL);
    assert_int_equal(sky_codec_kernels_use("scalar"), SKY_OK);
    w.stream = fixture_encode(w.profile, &w.shape, &w.how, w.elements, &w.bytes);
    memcpy(w.stream + AT_D, &huge, sizeof huge);
    for (size_t i = 0; i < OTHERS; i++)
        if (sky_codec_kernels_use(others[i]) == SKY_OK)
            check_decode(&w, others[i]);
    drop(&w);
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

/* ---- rows of noise, in which every byte means something ---- */

typedef struct {
    sky_coder rows;
    sky_tables tables;
} coder;

static void noise(coder *c) {
    uint8_t keys[SKY_WIDTH_MAX], classes[SKY_UNITS_MAX];
    bool exact = chance(4) == 0;
    sky__rows_init(&c->rows, 1 + chance(SKY_WIDTH_MAX), exact || chance(2));
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t first = chance(256), span = 1 + chance(256 - first);
        for (uint32_t i = 0; i < SKY_WIDTH_MAX; i++) {
            keys[i] = (uint8_t)chance(256);
            c->rows.trellis[half][i] = (uint8_t)(exact           ? 4 * chance(2)
                                                 : c->rows.plain ? 0
                                                                 : chance(8));
        }
        for (uint32_t u = 0; u < SKY_UNITS_MAX; u++)
            classes[u] = (uint8_t)(chance(9) ? first + chance(span) : 0);
        sky__rows_order(&c->rows, half, chance(4) ? keys : NULL);
        if (exact)
            sky__rows_exact_classes(&c->rows, half, classes, chance(2) ? 8 : 5);
        else
            sky__rows_classes(&c->rows, half, classes);
    }
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        sky_rows_set_state(&c->rows, lane, SKY_STATE_LOW + chance(65536 - SKY_STATE_LOW));
    memset(&c->tables, 0, sizeof c->tables);
}

static void decode_noise(const sky_codec_kernels *kernels, const uint8_t *in) {
    static coder a, b;
    static _Alignas(64) int16_t expected[SKY_WIDTH_MAX], levels[SKY_WIDTH_MAX];
    noise(&a);
    b = a;
    sky__decode_prepare(&a.tables, &a.rows);
    kernels->prepare(&b.tables, &b.rows);
    for (uint32_t row = 0; row < 6; row++) {
        size_t took = sky__row_decode(&a.rows, &a.tables, row & 1, in, expected);
        assert_int_equal(kernels->row_decode(&b.rows, &b.tables, row & 1, in, levels), took);
        if (took == SIZE_MAX)
            return;
        assert_true(took <= sky_rows_bytes_max(&a.rows, row & 1));
        assert_memory_equal(levels, expected, a.rows.steps * SKY_LANES * sizeof *levels);
        assert_memory_equal(&b.rows, &a.rows, sizeof a.rows);
        in += took;
    }
}

static void rows_of_noise_are_the_same(void **state) {
    (void)state;
    static uint8_t in[6 * 4096];
    for (size_t i = 0; i < OTHERS; i++) {
        if (sky_codec_kernels_use(others[i]) != SKY_OK)
            continue;
        const sky_codec_kernels *kernels = sky__kernels();
        for (uint32_t round = 0; round < 500; round++) {
            seed = round;
            for (size_t at = 0; at < sizeof in; at++) /* small, or escapes end it soon */
                in[at] = (uint8_t)(round % 2 ? chance(32) : chance(256));
            decode_noise(kernels, in);
        }
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

/* ---- choosing ---- */

/* ---- crafted rows ---- */

#define LOWEST (-7) /* of the levels that have a symbol */

/* A row of 64 elements whose exponents would be `usual - k`, past the end of the byte. */
static size_t craft(sky_coder *rows, sky_exact *x, int class, int k, uint8_t *end) {
    static sky_encode_tables tables;
    const uint8_t classes[4] = {(uint8_t) class, (uint8_t) class, (uint8_t) class, (uint8_t) class};
    int16_t tops[64], rests[64];
    sky__rows_init(rows, 64, true);
    for (uint32_t half = 0; half < 2; half++) {
        sky__rows_order(rows, half, NULL);
        sky__rows_exact_classes(rows, half, classes, 8);
    }
    *x = (sky_exact){.element = SKY_ELEMENT_F16, .heads = 1, .dim = 64, .width = 64, .padded = 64};
    memset(x->usual, 255, 64);
    for (int i = 0; i < 64; i++) {
        tops[i] = (int16_t)(2 * k);
        rests[i] = 2 * (-1024 + 5) + 1;
    }
    sky__encode_prepare(&tables, rows);
    uint8_t *at = sky__row_encode(rows, &tables, 1, rests, end);
    at = sky__row_encode(rows, &tables, 0, tops, at);
    sky__exact_prepare(x, rows);
    return (size_t)(end - at);
}

static void exponents_past_the_byte_are_refused(void **state) {
    (void)state;
    static sky_coder rows;
    static sky_exact x;
    static sky_tables tables;
    static uint8_t buffer[8192], out[256];
    static int16_t levels[2][512];
    uint8_t *end = buffer + sizeof buffer / 2;
    int tried = 0;
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
    const sky_codec_kernels *best = sky__kernels();
    for (int class = 0; class < 32; class ++)
        for (int k = -4; k >= LOWEST; k--) {
            if (!sky__bank[88 + class][0][k - LOWEST])
                continue;
            size_t bytes = craft(&rows, &x, class, k, end);
            const uint8_t *at = end - bytes;
            sky_coder again = rows;
            sky__decode_prepare(&tables, &rows);
            size_t used = sky__row_decode(&rows, &tables, 0, at, levels[0]);
            used += sky__row_decode(&rows, &tables, 1, at + used, levels[1]);
            assert_int_equal(used, bytes);
            assert_false(sky__exact_join(&x, levels[0], levels[1], NULL, out, 128));
            tried++;
            if (!best->exact_decode)
                continue;
            best->prepare(&tables, &again);
            sky_exact_job job = {.rows = &again,
                                 .tables = &tables,
                                 .exact = &x,
                                 .tokens = 1,
                                 .in = at,
                                 .bytes = bytes,
                                 .room = bytes,
                                 .out = out,
                                 .head_bytes = 128};
            best->exact_decode(&job, 1);
            assert_int_equal(job.used, SIZE_MAX);
            assert_int_equal(job.tokens, 0);
        }
    assert_true(tried > 0);
}

static void what_a_token_wants_is_the_same(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e31f, -1e30f, -0.0f, 1e-40f};
    float row[SKY_WIDTH_MAX], mean[SKY_WIDTH_MAX];
    int8_t weights[SKY_WIDTH_MAX];
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t width = 1 + chance(SKY_WIDTH_MAX);
        for (uint32_t i = 0; i < width; i++) {
            row[i] = chance(50) ? (float)chance(1000) / 7 - 70 : odd[chance(sizeof odd / 4)];
            mean[i] = (float)chance(1000) / 9 - 50;
            weights[i] = (int8_t)(chance(255) - 127);
        }
        const float *means = round % 3 ? mean : NULL;
        float expected = sky__fineness_wanted(weights, means, row, width);
        for (size_t i = 0; i < OTHERS; i++) {
            if (sky_codec_kernels_use(others[i]) != SKY_OK)
                continue;
            float wanted = sky__kernels()->wanted(weights, means, row, width);
            assert_memory_equal(&wanted, &expected, sizeof wanted);
        }
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

/* Of each class what sky__class_cost says, also of more than vectors have room for. */
static void costs_are_the_same(void **state) {
    (void)state;
    uint64_t costs[SKY_BANK_NARROW];
    for (uint32_t round = 0; round < 400; round++) {
        sky_histogram h = {0};
        uint32_t most = 2u << round % 19, shift = round % 3 ? chance(SKY_SHIFT_MAX + 1) : 0;
        bool zeros = round % 5 == 0;
        for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
            for (uint32_t a = 0; a < 2; a++)
                if (zeros ? s == SKY_SYMBOL_ZERO : chance(2))
                    h.count[a][s] = chance(most);
        for (size_t i = 0; i <= OTHERS; i++) {
            if (sky_codec_kernels_use(i < OTHERS ? others[i] : "scalar") != SKY_OK)
                continue;
            sky__kernels()->costs(&h, shift, costs);
            for (uint32_t c = 0; c < sky_classes_of_shift(shift); c++) {
                uint64_t cost = sky__class_cost(&h, (uint8_t)(sky_class_first(shift) + c));
                assert_true(costs[c] == (cost == UINT64_MAX ? SKY_COST_NEVER : cost));
            }
        }
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

/* What classes.h says of windows, level by level. */
static void check_counts(const sky_coder *rows, const sky_levels *l, const sky_windows *w) {
    static sky_windows all;
    memset(&all, 0, sizeof all);
    for (uint32_t i = 0; i < l->rows * rows->steps * SKY_LANES; i++) {
        uint32_t t = i / (rows->steps * SKY_LANES), channel = i % (rows->steps * SKY_LANES);
        uint32_t s = l->fineness ? l->fineness[t] : SKY_FINENESS_USUAL;
        uint32_t u = rows->place[1][channel] / SKY_UNIT;
        int32_t most = SKY_WINDOW_BINS / 2, bin = l->packed[i] >> 1 >> w->least[s][u];
        bin = bin < -most ? -most : bin > most ? most : bin;
        all.count[s][u][bin + most][l->packed[i] & 1]++;
    }
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        assert_memory_equal(all.count[s], w->count[s],
                            sky_rows_units(rows) * sizeof all.count[s][0]);
}

/* Levels of any size, counted and added up. */
static void counts_are_the_same(void **state) {
    (void)state;
    enum { ROWS = 70 };
    static int16_t packed[ROWS * SKY_WIDTH_MAX];
    static sky_windows w[2];
    static uint32_t sums[2][SKY_WIDTH_MAX];
    uint8_t fineness[ROWS], keys[SKY_WIDTH_MAX];
    sky_coder rows;
    for (uint32_t round = 0; round < 60; round++) {
        sky__rows_init(&rows, 1 + chance(SKY_WIDTH_MAX), false);
        uint32_t padded = rows.steps * SKY_LANES, most = 2u << round % 14;
        sky_levels levels = {packed, 1 + chance(ROWS), padded, round % 3 ? fineness : NULL};
        for (uint32_t i = 0; i < rows.width; i++)
            keys[i] = (uint8_t)chance(16);
        sky__rows_order(&rows, 1, keys);
        for (uint32_t i = 0; i < levels.rows * padded; i++)
            packed[i] = (int16_t)((int32_t)chance(2 * most) - (int32_t)most);
        for (uint32_t t = 0; t < levels.rows; t++)
            fineness[t] = (uint8_t)chance(SKY_FINENESS_COUNT);
        for (uint32_t i = 0; i < sizeof w[0].least; i++)
            w[0].least[i / SKY_WINDOW_UNITS][i % SKY_WINDOW_UNITS] = (uint8_t)chance(SKY_SHIFT_MAX +
                                                                                     1);
        w[1] = w[0];
        sky__classes_count(&rows, 1, &levels, &w[0]);
        sky__classes_sums(&levels, padded, sums[0]);
        check_counts(&rows, &levels, &w[0]);
        for (size_t i = 0; i < OTHERS; i++) {
            if (sky_codec_kernels_use(others[i]) != SKY_OK)
                continue;
            sky__kernels()->count(&rows, 1, &levels, &w[1]);
            sky__kernels()->sums(&levels, padded, sums[1]);
            assert_memory_equal(&w[0], &w[1], sizeof w[0]);
            assert_memory_equal(sums[0], sums[1], padded * sizeof sums[0][0]);
        }
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

static void the_best_is_chosen_and_names_are_checked(void **state) {
    (void)state;
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
    const char *best = sky_codec_kernels_name();
    print_message("kernels in use: %s\n", best);
    assert_int_equal(sky_codec_kernels_use(best), SKY_OK);
    assert_int_equal(sky_codec_kernels_use("mmx"), SKY_E_PARAM);
    assert_int_equal(sky_codec_kernels_use("scalar"), SKY_OK);
    assert_string_equal(sky_codec_kernels_name(), "scalar");
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
    assert_string_equal(sky_codec_kernels_name(), best);
#if defined(__x86_64__)
    assert_int_equal(sky_codec_kernels_use("neon"), SKY_E_UNSUPPORTED);
#else
    assert_int_equal(sky_codec_kernels_use("avx512"), SKY_E_UNSUPPORTED);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_the_same_of_every_head_dim),
        cmocka_unit_test(matrices_that_cannot_be_doubled),
        cmocka_unit_test(rows_of_noise_are_the_same),
        cmocka_unit_test(exponents_past_the_byte_are_refused),
        cmocka_unit_test(what_a_token_wants_is_the_same),
        cmocka_unit_test(costs_are_the_same),
        cmocka_unit_test(counts_are_the_same),
        cmocka_unit_test(the_best_is_chosen_and_names_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
