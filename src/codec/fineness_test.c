/* Proves: pairs of tokens that a calibration's weights point at are coded with finer steps, for
 * which their rows pay, and others with coarser ones; every set of kernels gives the same bytes and
 * the same rows; a class moved by a factor of √2 suits rows scaled by it; what is no such stream is
 * refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/fineness.h"
#include "codec/stream.h"

#define TOKENS 131
#define HEADS  3
#define DIM    96
#define WIDTH  (HEADS * DIM)

static float rows[TOKENS][WIDTH];

static float uniform(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) / 8388608.0f - 1.0f;
}

/* Channel 5 says how fine a pair is to be: −2 … 3 by turns. */
static void make_rows(uint64_t seed) {
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t i = 0; i < WIDTH; i++)
            rows[t][i] = i == 5 ? (float)(t / 2 % 6) - 2.0f
                                : uniform(&seed) + uniform(&seed) + uniform(&seed);
}

static sky_profile *make_profile(bool weights) {
    sky_profile_layer layer = {HEADS, DIM, DIM, 0};
    sky_rope rope;
    sky_profile *p;
    static float w[WIDTH];
    w[5] = 1;
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, DIM, 10000, 1, NULL), SKY_OK);
    sky_profile_shape shape = {1, &layer, 1, &rope, {0}};
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    for (int kv = 0; kv < 2; kv++) {
        if (weights)
            assert_int_equal(sky_profile_set_weights(p, 0, (sky_kv)kv, w), SKY_OK);
        for (int dependent = 0; dependent < 2; dependent++)
            assert_int_equal(sky_profile_set_step(p, 0, (sky_kv)kv, SKY_LEVEL_4, dependent, 0.4f),
                             SKY_OK);
        assert_int_equal(sky_profile_fit(p, 0, (sky_kv)kv, rows[0], TOKENS, 128), SKY_OK);
    }
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    return p;
}

static const sky_stream_shape shape = {0, SKY_KV_V, SKY_ELEMENT_F32, TOKENS, HEADS, DIM, 0};
static _Alignas(64) uint8_t work[SKY_ENCODE_WORK_BYTES];

static size_t encode(const sky_profile *p, bool plain, bool first, uint8_t *out) {
    sky_encode_options how = {SKY_LEVEL_4, plain, first, 0};
    size_t bytes;
    assert_int_equal(sky_encode(p, &shape, &how, sky_stream_packed(&shape, rows), out,
                                sky_encode_bound(&shape), &bytes, work),
                     SKY_OK);
    return bytes;
}

/* Squared error of pairs that say so. */
static double error_of(float (*got)[WIDTH], uint32_t first, int says) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t t = first; t + 1 < TOKENS; t += 2) {
        float wanted = (rows[t][5] + rows[t + 1][5]) / 2;
        if (wanted != (float)says)
            continue;
        for (uint32_t i = 0; i < WIDTH; i++)
            sum += pow(rows[t][i] - got[t][i], 2) + pow(rows[t + 1][i] - got[t + 1][i], 2);
        count += 2 * WIDTH;
    }
    return sum / count;
}

static void pairs_have_steps_of_their_own(void **state) {
    (void)state;
    static const char *const kernels[] = {"scalar", "avx2", "avx512", "neon"};
    static float got[TOKENS][WIDTH], again[TOKENS][WIDTH];
    uint8_t *out[2] = {malloc(sky_encode_bound(&shape)), malloc(sky_encode_bound(&shape))};
    make_rows(7);
    sky_profile *p = make_profile(true);
    for (uint32_t how = 0; how < 4; how++) {
        assert_int_equal(sky_codec_kernels_use("scalar"), SKY_OK);
        size_t bytes = encode(p, how & 1, how >> 1, out[0]);
        assert_int_equal(out[0][0], 2);
        assert_int_equal(sky_decode(p, &shape, out[0], bytes, sky_stream_packed(&shape, got), work),
                         SKY_OK);
        for (size_t k = 1; k < 4; k++) {
            if (sky_codec_kernels_use(kernels[k]) != SKY_OK)
                continue;
            assert_int_equal(encode(p, how & 1, how >> 1, out[1]), bytes);
            assert_memory_equal(out[0], out[1], bytes);
            assert_int_equal(
                sky_decode(p, &shape, out[1], bytes, sky_stream_packed(&shape, again), work),
                SKY_OK);
            assert_memory_equal(got, again, sizeof got);
        }
        double usual = error_of(got, how >> 1, 0), part[] = {4, 2, 1, 0.5, 0.25, 0.25};
        for (int says = how < 2 ? -2 : 0; says < (how < 2 ? 4 : 0); says++) {
            double expected = usual * (says < -1 ? 2 : part[says + 2]);
            assert_true(fabs(error_of(got, 0, says) / expected - 1) < 0.12);
        }
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
    sky_profile_destroy(p);
    free(out[0]);
    free(out[1]);
}

/* The bytes are those that the steps ask for: half a bit an element for each factor of √2. */
static void classes_follow_steps(void **state) {
    (void)state;
    uint8_t *out = malloc(sky_encode_bound(&shape));
    make_rows(8);
    sky_profile *p = make_profile(true), *alike = make_profile(false);
    double with = (double)encode(p, false, false, out), count = TOKENS * WIDTH;
    double without = (double)encode(alike, false, false, out);
    double finer = (-1 - 1 + 0 + 1 + 2 + 2) / 6.0 / 2;
    assert_true(fabs(8 * (with - without) / count - finer) < 0.04);
    sky_profile_destroy(p);
    sky_profile_destroy(alike);
    free(out);
}

static void other_streams_are_refused(void **state) {
    (void)state;
    static float got[TOKENS][WIDTH];
    uint8_t *out = malloc(sky_encode_bound(&shape));
    sky_tensor to = sky_stream_packed(&shape, got);
    make_rows(9);
    sky_profile *p = make_profile(true);
    size_t bytes = encode(p, false, false, out);
    out[0] = 1; /* which has no fineness */
    assert_int_equal(sky_decode(p, &shape, out, bytes, to, work), SKY_E_CORRUPT);
    out[0] = 3;
    assert_int_equal(sky_decode(p, &shape, out, bytes, to, work), SKY_E_UNSUPPORTED);
    out[0] = 2;
    out[SKY_STREAM_HEADER_BYTES + sky_fineness_bytes(TOKENS) - 1] ^= 0x80; /* of no pair */
    assert_int_equal(sky_decode(p, &shape, out, bytes, to, work), SKY_E_CORRUPT);
    out[SKY_STREAM_HEADER_BYTES + sky_fineness_bytes(TOKENS) - 1] ^= 0x80;
    assert_int_equal(sky_decode(p, &shape, out, bytes, to, work), SKY_OK);
    for (size_t cut = 0; cut < bytes; cut += cut < 64 ? 1 : 97)
        assert_true(sky_decode(p, &shape, out, cut, to, work) < 0);
    sky_profile_destroy(p);
    free(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_have_steps_of_their_own),
        cmocka_unit_test(classes_follow_steps),
        cmocka_unit_test(other_streams_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
