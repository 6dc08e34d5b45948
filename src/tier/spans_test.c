/* Proves the rules of ranges at their edges, and that counting bytes cannot overflow. */
#include "tier/spans.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void assert_range(sky_range in, uint64_t payload, uint64_t offset, uint64_t bytes) {
    sky_range out;
    assert_int_equal(sky_range_resolve(in, payload, &out), SKY_OK);
    assert_int_equal(out.offset, offset);
    assert_int_equal(out.bytes, bytes);
}

static void ranges_end_with_the_payload(void **state) {
    (void)state;
    assert_range((sky_range){0, 0}, 10, 0, 10);
    assert_range(((sky_range){0, SKY_ALL}), 10, 0, 10);
    assert_range((sky_range){3, 0}, 10, 3, 0);
    assert_range((sky_range){3, 4}, 10, 3, 4);
    assert_range((sky_range){3, 7}, 10, 3, 7);
    assert_range((sky_range){3, 8}, 10, 3, 7);
    assert_range((sky_range){10, SKY_ALL}, 10, 10, 0);
    assert_range((sky_range){0, 0}, 0, 0, 0);
    sky_range out = {77, 78};
    assert_int_equal(sky_range_resolve((sky_range){11, 0}, 10, &out), SKY_E_PARAM);
    assert_int_equal(out.offset, 77);
}

static void bytes_are_counted_without_overflow(void **state) {
    (void)state;
    sky_span spans[3] = {{NULL, 5}, {NULL, SIZE_MAX - 5}, {NULL, 1}};
    assert_int_equal(sky_spans_bytes(spans, 0), 0);
    assert_int_equal(sky_spans_bytes(spans, 1), 5);
    assert_true(sky_spans_bytes(spans, 3) == UINT64_MAX);
}

static void scattering_stops_and_skips(void **state) {
    (void)state;
    char a[4] = "...", b[5] = "....";
    sky_span spans[4] = {{a, 3}, {NULL, 2}, {b, 4}, {a, 3}};
    sky_spans_scatter(spans, 4, "abcdefg", 7);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "fg..");
    sky_spans_scatter(spans, 4, "vwxyzA", 6); /* the last span gets a single byte */
    assert_string_equal(a, "vwx");
    assert_string_equal(b, "Ag..");
    sky_spans_scatter(NULL, 0, "x", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_end_with_the_payload),
        cmocka_unit_test(bytes_are_counted_without_overflow),
        cmocka_unit_test(scattering_stops_and_skips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
