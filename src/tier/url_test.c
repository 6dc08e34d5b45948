/* Proves: store URLs are cut where the header says, and every malformed one is refused with a
 * sentence that quotes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tier/url.h"

static void parts_are_cut(void **state) {
    (void)state;
    sky_url url;
    assert_int_equal(sky_url_parse("disk:/a/b:c?max=8GiB&ttl=60", &url, NULL), SKY_OK);
    assert_string_equal(url.scheme, "disk");
    assert_string_equal(url.path, "/a/b:c");
    assert_int_equal(url.query_count, 2);
    assert_string_equal(sky_url_value(&url, "max"), "8GiB");
    assert_string_equal(sky_url_value(&url, "ttl"), "60");
    assert_null(sky_url_value(&url, "direct"));
    assert_int_equal(sky_url_parse("mem:1MiB", &url, NULL), SKY_OK);
    assert_int_equal(url.query_count, 0);
}

static void malformed_ones_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "mem",
        ":",
        "mem:",
        "mem:?a=1",
        ":8MiB",
        "a:b?c",
        "a:b?=1",
        "a:b?c=",
        "a:b?c=1&d",
        "a:b?&",
        "averyverylongscheme:x",
        "a:b?1=1&2=1&3=1&4=1&5=1&6=1&7=1&8=1&9=1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sky_url url = {.scheme = "same"};
        sky_error error = {.status = SKY_OK};
        assert_int_equal(sky_url_parse(bad[i], &url, &error), SKY_E_SYNTAX);
        assert_int_equal(error.status, SKY_E_SYNTAX);
        assert_non_null(strstr(error.text, bad[i]));
        assert_string_equal(url.scheme, "same");
    }
    static char path[5000] = "disk:";
    memset(path + 5, 'x', sizeof path - 6);
    sky_url url;
    assert_int_equal(sky_url_parse(path, &url, NULL), SKY_E_SYNTAX);
}

static void unknown_and_repeated_settings_are_named(void **state) {
    (void)state;
    sky_url url;
    sky_error error;
    assert_int_equal(sky_url_parse("disk:/x?max=1&tt=2", &url, NULL), SKY_OK);
    assert_int_equal(sky_url_expect(&url, "max ttl direct", &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "unknown setting 'tt'; known: max ttl direct"));
    assert_int_equal(sky_url_expect(&url, "max tt", NULL), SKY_OK);
    assert_int_equal(sky_url_parse("disk:/x?max=1&max=2", &url, NULL), SKY_OK);
    assert_int_equal(sky_url_expect(&url, "max", &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "twice"));
}

static void values_are_checked(void **state) {
    (void)state;
    sky_url url;
    uint64_t size = 7, whole = 7;
    double number = 7;
    assert_int_equal(sky_url_parse("a:b?s=2KiB&u=12&n=0.5&bad=-1x", &url, NULL), SKY_OK);
    assert_int_equal(sky_url_size(&url, "s", &size, NULL), SKY_OK);
    assert_int_equal(sky_url_u64(&url, "u", &whole, NULL), SKY_OK);
    assert_int_equal(sky_url_number(&url, "n", &number, NULL), SKY_OK);
    assert_true(size == 2048 && whole == 12 && number == 0.5);
    assert_int_equal(sky_url_size(&url, "absent", &size, NULL), SKY_OK);
    assert_int_equal(size, 2048);
    sky_error error;
    assert_int_equal(sky_url_size(&url, "bad", &size, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "bad=-1x is not a size"));
    assert_int_equal(sky_url_u64(&url, "bad", &whole, NULL), SKY_E_SYNTAX);
    assert_int_equal(sky_url_u64(&url, "n", &whole, NULL), SKY_E_SYNTAX);
    assert_int_equal(sky_url_number(&url, "bad", &number, NULL), SKY_E_SYNTAX);
    assert_true(size == 2048 && whole == 12 && number == 0.5);
}

static void passwords_are_not_shown(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"redis://me:secret@host:6379/0?level=4", "redis://***@host:6379/0?level=4"},
        {"redis://me:se@cret@host", "redis://***@host"},
        {"disk:/srv/a@b?max=1GiB", "disk:/srv/a@b?max=1GiB"},
        {"redis://host/0", "redis://host/0"},
        {"mem", "mem"},
        {"", ""},
    };
    char shown[64];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        sky_url_shown(pairs[i][0], shown, sizeof shown);
        assert_string_equal(shown, pairs[i][1]);
    }
    sky_url_shown("redis://me:secret@host", shown, 12);
    assert_string_equal(shown, "redis://***");
    sky_url url;
    sky_error error;
    assert_int_equal(sky_url_parse("redis://me:secret@host?level", &url, &error), SKY_E_SYNTAX);
    assert_null(strstr(error.text, "secret"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_cut),
        cmocka_unit_test(malformed_ones_are_refused),
        cmocka_unit_test(unknown_and_repeated_settings_are_named),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(passwords_are_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
