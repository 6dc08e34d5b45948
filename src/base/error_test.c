/* Proves: every status has a name and a sentence, and sizes parse only as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/skymem.h>

#include "base/error.h"

static void every_status_is_named(void **state) {
    (void)state;
    assert_string_equal(sky_status_name(SKY_OK), "SKY_OK");
    assert_string_equal(sky_status_name(SKY_E_CORRUPT), "SKY_E_CORRUPT");
    assert_string_equal(sky_status_name((sky_status)-999), "SKY_E_UNKNOWN");
    assert_true(sky_status_is_known(SKY_OK) && sky_status_is_known(SKY_E_FORKED));
    assert_false(sky_status_is_known((sky_status)-999) || sky_status_is_known((sky_status)3));
    assert_string_equal(sky_status_text(SKY_MISS), "not found");
    assert_non_null(sky_status_text((sky_status)-999));
}

static void failures_carry_text_and_status(void **state) {
    (void)state;
    sky_error error = {SKY_OK, ""};
    assert_int_equal(sky_fail(&error, SKY_E_IO, "%s: %d", "disk", 5), SKY_E_IO);
    assert_int_equal(error.status, SKY_E_IO);
    assert_string_equal(error.text, "disk: 5");
    assert_int_equal(sky_fail(NULL, SKY_E_FULL, "nobody listens"), SKY_E_FULL);
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    sky_fail(&error, SKY_E_IO, "%s", longer);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void sizes_parse(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"512B", 512},
                {"6KiB", 6144},
                {"1.5MiB", 1572864},
                {"2.9MiB", 3040870},
                {"8GiB", 8ull << 30},
                {"2TiB", 2ull << 40}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 1;
        assert_int_equal(sky_size_parse(good[i].text, &bytes), SKY_OK);
        assert_true(bytes == good[i].bytes);
    }
    static const char *const bad[] = {"",     "-1",  "MiB", "5 MiB", "5mb",   "1e400",
                                      "0.3B", "nan", "inf", "+5",    "5KiBx", "99999999999TiB"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        assert_int_equal(sky_size_parse(bad[i], &bytes), SKY_E_SYNTAX);
        assert_true(bytes == 77);
    }
}

static void the_version_is_one(void **state) {
    (void)state;
    char text[32];
    uint32_t n = sky_version_number();
    snprintf(text, sizeof text, "%u.%u.%u", n / 1000000, n / 1000 % 1000, n % 1000);
    assert_string_equal(text, sky_version());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_one),
        cmocka_unit_test(every_status_is_named),
        cmocka_unit_test(failures_carry_text_and_status),
        cmocka_unit_test(sizes_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
