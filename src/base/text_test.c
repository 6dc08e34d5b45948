/* Proves: text that is shown has no control characters and no bytes that are not UTF-8, whatever it
 * was made of, and is cut between characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/log.h>

static void characters_are_those_of_the_standard(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {{"a", 1},
                 {"\xc3\xa9", 2},
                 {"\xe2\x82\xac", 3},
                 {"\xf0\x9f\x9b\xb0", 4},
                 {"\x80", 0},                 /* a continuation */
                 {"\xc0\xaf", 0},             /* overlong */
                 {"\xe0\x80\xaf", 0},         /* overlong */
                 {"\xed\xa0\x80", 0},         /* a surrogate */
                 {"\xf4\x90\x80\x80", 0},     /* beyond the last */
                 {"\xf8\x88\x80\x80\x80", 0}, /* five bytes */
                 {"\xc3(", 0},
                 {"\xe2\x82", 0}}; /* cut short */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sky_utf8_bytes(cases[i].text, strlen(cases[i].text)), cases[i].bytes);
    assert_int_equal(sky_utf8_bytes("", 0), 0);
    assert_int_equal(sky_utf8_bytes("", 1), 1);
}

static void what_no_line_can_show_is_escaped(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool exact;
        const char *shown;
    } cases[] = {
        {"plain \xc3\xa9 \xf0\x9f\x9b\xb0", false, "plain \xc3\xa9 \xf0\x9f\x9b\xb0"},
        {"a\nb\r\tc", false, "a\\x0ab\\x0d\\x09c"},
        {"\x1b[31mred\x7f", false, "\\x1b[31mred\\x7f"},
        {"\xc2\x9b"
         "31m",
         false, "\\xc2\\x9b31m"}, /* the same of one byte */
        {"\xff\xe2\x82", false, "\\xff\\xe2\\x82"},
        {"a\\b", false, "a\\b"},
        {"a\\b", true, "a\\\\b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        size_t bytes = sky_text_escape(cases[i].text, strlen(cases[i].text), cases[i].exact, out,
                                       sizeof out);
        assert_string_equal(out, cases[i].shown);
        assert_int_equal(bytes, strlen(out));
    }
}

static void a_text_is_cut_between_characters(void **state) {
    (void)state;
    char out[8];
    assert_int_equal(sky_text_escape("abc\xe2\x82\xac", 6, false, out, 6), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(sky_text_escape("abc\xe2\x82\xac", 6, false, out, 7), 6);
    assert_int_equal(sky_text_escape("abc\n", 4, false, out, 7), 3);
    assert_int_equal(sky_text_escape("abc", 3, false, out, 1), 0);
    assert_string_equal(out, "");
    assert_int_equal(sky_text_escape("\0", 1, true, out, sizeof out), 4);
    assert_string_equal(out, "\\x00");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_those_of_the_standard),
        cmocka_unit_test(what_no_line_can_show_is_escaped),
        cmocka_unit_test(a_text_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
