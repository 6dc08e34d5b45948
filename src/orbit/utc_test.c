/* Proves that UTC is read and written, nonsense refused, and that the Earth turns as published. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/trig.h"
#include "orbit/utc.h"

static void close_to(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.12g is not within %g of %.12g", value, tolerance, expected);
}

static void utc_is_read_and_written(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {{"1970-01-01T00:00:00.000Z", 0},
                {"2000-01-01T12:00:00.000Z", 946728000000},
                {"2024-02-29T23:59:59.999Z", 1709251199999},
                {"1957-10-04T19:28:34.000Z", -386310686000}};
    char text[SKY_UTC_BYTES];
    int64_t ms = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(sky_utc_parse(rows[i].text, &ms), SKY_OK);
        assert_int_equal(ms, rows[i].ms);
        assert_string_equal(sky_utc_text(ms, text), rows[i].text);
    }
    for (int64_t day = -4000; day < 40000; day += 7) {
        assert_int_equal(sky_utc_parse(sky_utc_text(day * 86400000 + 1, text), &ms), SKY_OK);
        assert_int_equal(ms, day * 86400000 + 1);
    }
    assert_int_equal(sky_utc_parse("2026-11-20T00:00:00", &ms), SKY_OK);
    assert_int_equal(sky_utc_parse("2026-11-20T00:00:00.5", &ms), SKY_OK);
    assert_int_equal(ms % 1000, 500);
    static const char *const wrong[] = {"",
                                        "2026-11-20",
                                        "2026-11-20 00:00:00",
                                        "2026-02-29T00:00:00Z",
                                        "2026-13-01T00:00:00Z",
                                        "2026-11-20T24:00:00Z",
                                        "2026-11-20T00:00:00.Z",
                                        "2026-11-20T00:00:00ZZ",
                                        "1956-01-01T00:00:00Z"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sky_utc_parse(wrong[i], &ms), SKY_E_SYNTAX);
}

/* Source: Vallado, Fundamentals of Astrodynamics, example 3-5 */
static void the_earth_turns(void **state) {
    (void)state;
    int64_t ms = 0;
    assert_int_equal(sky_utc_parse("1992-08-20T12:14:00Z", &ms), SKY_OK);
    close_to(sky_gmst_rad(ms) / SKY_DEGREE, 152.578787810, 1e-7);
    close_to(sky_gmst_rad(ms + 86164091) / SKY_DEGREE, 152.578787810, 1e-5); /* a sidereal day */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utc_is_read_and_written),
        cmocka_unit_test(the_earth_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
