/* Proves our own sine, cosine, arc tangent, arc sine and cube root against libm, to the last bits.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "orbit/trig.h"

static void close_to(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.12g is not within %g of %.12g", value, tolerance, expected);
}

static void our_functions_are_libms(void **state) {
    (void)state;
    for (int i = -200000; i < 200000; i++) {
        double x = i * 0.031234567;
        close_to(sky__sin(x), sin(x), 3e-16);
        close_to(sky__cos(x), cos(x), 3e-16);
        close_to(sky__atan2(sin(x), cos(1.7 * x)), atan2(sin(x), cos(1.7 * x)), 5e-16);
        close_to(sky__asin(sin(x)), asin(sin(x)), 1e-15);
        double y = ldexp(1 + fabs(sin(x)), i % 300);
        close_to(sky__cbrt(y) / cbrt(y), 1, 1e-15);
    }
    close_to(sky__sin(1e9 + 0.5), sin(fmod(1e9 + 0.5, SKY_TWO_PI)), 3e-16);
    close_to(sky__atan2(0, -1), SKY_PI, 0);
    close_to(sky__atan2(0, 0), 0, 0);
    close_to(sky__asin(1.5), SKY_PI / 2, 0);
    close_to(sky__turned(-0.5), SKY_TWO_PI - 0.5, 1e-15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_functions_are_libms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
