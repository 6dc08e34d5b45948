/* Proves: every bit pattern of every element type comes back from its symbols, wherever it stands
 * and whatever the channel's usual exponent. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/exact.h"

static void round_trip(sky_element element, uint8_t usual, uint32_t seed) {
    enum { ROWS = 64, WIDTH = 50 };
    sky_exact x = {.element = element, .heads = 2, .dim = 25, .width = WIDTH, .padded = 64};
    uint32_t size = sky_element_bytes(element);
    uint8_t in[ROWS][WIDTH * 4], out[WIDTH * 4], low_bytes[WIDTH * 2];
    uint16_t top[2][WIDTH], low[WIDTH];
    int16_t packed[128], levels[128];
    memset(x.usual, usual, sizeof x.usual);
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t i = 0; i < WIDTH * size; i++)
            in[t][i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
    for (uint32_t t = 0; t < ROWS; t++) {
        sky__exact_gather(&x, in[t], 25 * size, top[t & 1], low);
        sky__exact_split(&x, top[t & 1], t ? top[~t & 1] : NULL, packed);
        for (uint32_t i = 0; i < 128; i++) {
            int32_t k = packed[i] >> 1, a = packed[i] & 1;
            assert_true(k >= -SKY_LEVEL_MAX && k <= SKY_LEVEL_MAX);
            levels[i] = (int16_t)(2 * k - a * ((k > 0) - (k < 0)));
        }
        memcpy(low_bytes, low, sizeof low_bytes);
        assert_true(sky__exact_join(&x, levels, levels + 64,
                                    element == SKY_ELEMENT_F32 ? low_bytes : NULL, out, 25 * size));
        assert_memory_equal(in[t], out, WIDTH * size);
    }
}

static void every_pattern_comes_back(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 20; seed++)
        for (uint32_t element = SKY_ELEMENT_F16; element <= SKY_ELEMENT_BF16; element++) {
            round_trip((sky_element)element, 0, seed);
            round_trip((sky_element)element, 31, seed);
            round_trip((sky_element)element, (uint8_t)(seed * 13), seed);
        }
}

static void an_exponent_that_does_not_exist_is_refused(void **state) {
    (void)state;
    sky_exact x = {.element = SKY_ELEMENT_F16, .heads = 1, .dim = 1, .width = 1, .padded = 64};
    int16_t levels[64] = {2 * -40}, other[64] = {0};
    uint8_t out[2];
    assert_false(sky__exact_join(&x, levels, other, NULL, out, 2));
    levels[0] = 2 * 10;
    assert_false(sky__exact_join(&x, levels, other, NULL, out, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_comes_back),
        cmocka_unit_test(an_exponent_that_does_not_exist_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
