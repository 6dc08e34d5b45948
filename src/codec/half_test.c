/* Proves: f16 and bf16 convert as IEEE 754 says: every f16 survives, ties go to even, what
 * overflows is infinite, NaN stays NaN. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/half.h"

static void every_f16_survives(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = sky_float_of_f16((uint16_t)h);
        uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
        if (exponent == 31 && mantissa) {
            assert_true(isnan(x));
            assert_int_equal(sky_f16_of_float(x), h | 0x200);
            continue;
        }
        assert_int_equal(sky_f16_of_float(x), h);
        double value = exponent ? ldexp(1024 + mantissa, (int)exponent - 25) : ldexp(mantissa, -24);
        if (exponent < 31)
            assert_true((double)fabsf(x) == value);
    }
}

static void rounding_goes_to_nearest_and_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = sky_float_of_f16((uint16_t)h), b = sky_float_of_f16((uint16_t)(h + 1));
        float middle = a + (b - a) * 0.5f;
        assert_int_equal(sky_f16_of_float(middle), h & 1 ? h + 1 : h);
        assert_int_equal(sky_f16_of_float(nextafterf(middle, 0)), h);
        assert_int_equal(sky_f16_of_float(-nextafterf(middle, b)), 0x8000 | (h + 1));
    }
    assert_int_equal(sky_f16_of_float(65519.0f), 0x7bff);
    assert_int_equal(sky_f16_of_float(65520.0f), 0x7c00);
    assert_int_equal(sky_f16_of_float(INFINITY), 0x7c00);
}

static void bf16_rounds_to_even(void **state) {
    (void)state;
    assert_int_equal(sky_bf16_of_float(sky_float_of(0x3f808000)), 0x3f80);
    assert_int_equal(sky_bf16_of_float(sky_float_of(0x3f818000)), 0x3f82);
    assert_int_equal(sky_bf16_of_float(sky_float_of(0x3f808001)), 0x3f81);
    assert_int_equal(sky_bf16_of_float(sky_float_of(0x7f7fffff)), 0x7f80);
    assert_int_equal(sky_bf16_of_float(sky_float_of(0x7f800001)), 0x7fc0);
    assert_true(sky_float_of_bf16(0xc040) == -3.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_survives),
        cmocka_unit_test(rounding_goes_to_nearest_and_even),
        cmocka_unit_test(bf16_rounds_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
