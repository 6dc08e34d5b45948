/* Proves that decimal numbers, and nothing else, are read from cells and columns. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "orbit/decimal.h"

static void decimals_are_decimals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},
                {"-1.5", -1.5},
                {" +.25 ", 0.25},
                {"1e3", 1000},
                {"2.8098e-5", 2.8098e-5},
                {"10.82419157", 10.82419157},
                {"5.", 5},
                {"123456789012345678901234567890", 123456789012345678901234567890.0}};
    double value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(sky__decimal(good[i].text, strlen(good[i].text), &value));
        assert_true(fabs(value - good[i].value) <= fabs(good[i].value) * 3e-16);
    }
    static const char *const bad[] = {"",    ".",    "-",   "1.2.3", "1e",  "1e+", "inf",
                                      "nan", "0x10", "1 2", "1e999", "--1", "1e 2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(sky__decimal(bad[i], strlen(bad[i]), &value));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals_are_decimals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
