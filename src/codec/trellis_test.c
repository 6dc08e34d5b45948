/* Proves: the trellis finds the best of all paths, its levels dequantise as the decoder does, and
 * it beats plain rounding at equal steps; plain rounding is to nearest, ties to even. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/rows.h"
#include "codec/trellis.h"

static float value(uint64_t i) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    return (float)((double)(x >> 11) * 0x1p-53 * 24 - 12);
}

static float dequantised(int16_t packed) {
    int32_t k = packed >> 1, a = packed & 1;
    return (float)(2 * k - a * ((k > 0) - (k < 0)));
}

/* Squared error of a path, and that its bits a are what its levels make them. */
static double error_of(const float *z, const int16_t *packed, uint32_t rows, size_t pitch) {
    double error = 0;
    uint32_t state = 0;
    for (uint32_t t = 0; t < rows; t++) {
        assert_int_equal(packed[t * pitch] & 1, state >> 2);
        double d = (double)z[t * pitch] - (double)dequantised(packed[t * pitch]);
        error += d * d;
        state = sky__trellis_next[state | (uint32_t)((packed[t * pitch] >> 1) & 1) << 3];
    }
    return error;
}

/* The least error of any path, by trying them all. */
static double best_of_all(const float *z, uint32_t rows, size_t pitch, uint32_t state) {
    double least = 1e30;
    if (rows == 0)
        return 0;
    for (int32_t k = -8; k <= 8; k++) {
        double d = (double)*z - (double)dequantised((int16_t)(2 * k + (int32_t)(state >> 2)));
        if (fabs(d) > 4.1)
            continue;
        double rest = best_of_all(z + pitch, rows - 1, pitch,
                                  sky__trellis_next[state | (uint32_t)(k & 1) << 3]);
        least = d * d + rest < least ? d * d + rest : least;
    }
    return least;
}

static void no_path_is_better(void **state) {
    (void)state;
    float z[6 * 16];
    int16_t packed[6 * 16];
    uint8_t decisions[6 * 16];
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 96; i++)
            z[i] = value(round * 96 + i);
        sky__trellis_encode(z, 6, 16, 16, packed, decisions);
        for (uint32_t i = 0; i < 16; i++)
            assert_true(error_of(z + i, packed + i, 6, 16) < best_of_all(z + i, 6, 16, 0) + 1e-4);
    }
}

static void it_beats_rounding(void **state) {
    (void)state;
    enum { ROWS = 128, LANES = 32, PITCH = 70 };
    float *z = malloc(ROWS * PITCH * sizeof *z);
    int16_t *packed = calloc(ROWS * PITCH, sizeof *packed), *plain = malloc(ROWS * PITCH * 2);
    uint8_t decisions[ROWS * SKY_LANE_GROUP];
    double ours = 0, theirs = 0;
    for (uint32_t i = 0; i < ROWS * PITCH; i++)
        z[i] = value(i);
    sky__trellis_encode(z, ROWS, PITCH, LANES, packed, decisions);
    sky__round_encode(z, ROWS, PITCH, LANES, plain);
    for (uint32_t i = 0; i < LANES; i++) {
        ours += error_of(z + i, packed + i, ROWS, PITCH);
        for (uint32_t t = 0; t < ROWS; t++)
            theirs += pow((double)z[t * PITCH + i] - (double)dequantised(plain[t * PITCH + i]), 2);
    }
    assert_true(ours < 0.8 * theirs);
    assert_int_equal(packed[LANES], 0); /* nothing beside its lanes is touched */
    free(z);
    free(packed);
    free(plain);
}

static void rounding_is_to_even(void **state) {
    (void)state;
    float z[16] = {1, 3, -1, -3, 0.99f, 1.01f, 2, -2, 16000, -16000, 0, 5, 7, -5, -0.0f, 2.9f};
    static const int32_t expected[16] = {0, 2, 0, -2, 0, 1, 1, -1, 8000, -8000, 0, 2, 4, -2, 0, 1};
    int16_t packed[16];
    sky__round_encode(z, 1, 16, 16, packed);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(packed[i], 2 * expected[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_path_is_better),
        cmocka_unit_test(it_beats_rounding),
        cmocka_unit_test(rounding_is_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
