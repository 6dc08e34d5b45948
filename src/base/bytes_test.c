/* Proves: integers are little-endian, a cursor never passes its end, and a failure sticks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"

static void integers_are_little_endian(void **state) {
    (void)state;
    uint8_t buffer[15];
    sky_writer w = sky_writer_over(buffer, sizeof buffer);
    sky_write_u8(&w, 0x01);
    sky_write_u16(&w, 0x0302);
    sky_write_u32(&w, 0x07060504);
    sky_write_u64(&w, 0x0f0e0d0c0b0a0908);
    assert_false(w.failed);
    assert_int_equal(w.left, 0);
    for (uint8_t i = 0; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], i + 1);

    sky_reader r = sky_reader_over(buffer, sizeof buffer);
    assert_int_equal(sky_read_u8(&r), 0x01);
    assert_int_equal(sky_read_u16(&r), 0x0302);
    assert_int_equal(sky_read_u32(&r), 0x07060504);
    assert_true(sky_read_u64(&r) == 0x0f0e0d0c0b0a0908);
    assert_true(sky_reader_done(&r));
}

static void reading_past_the_end_fails_for_good(void **state) {
    (void)state;
    const uint8_t buffer[3] = {1, 2, 3};
    sky_reader r = sky_reader_over(buffer, sizeof buffer);
    assert_int_equal(sky_read_u32(&r), 0);
    assert_true(r.failed);
    assert_int_equal(sky_read_u8(&r), 0); /* would fit, but the parse is already lost */
    assert_null(sky_read_bytes(&r, 0));
    assert_false(sky_reader_done(&r));
}

static void leftover_bytes_are_not_done(void **state) {
    (void)state;
    const uint8_t buffer[3] = {1, 2, 3};
    sky_reader r = sky_reader_over(buffer, sizeof buffer);
    assert_int_equal(sky_read_u16(&r), 0x0201);
    assert_false(sky_reader_done(&r));
    assert_non_null(sky_read_bytes(&r, 1));
    assert_true(sky_reader_done(&r));
}

static void writing_past_the_end_writes_nothing(void **state) {
    (void)state;
    uint8_t buffer[8];
    memset(buffer, 0xee, sizeof buffer);
    sky_writer w = sky_writer_over(buffer, 3);
    sky_write_u32(&w, 0x11111111);
    assert_true(w.failed);
    sky_write_u8(&w, 0x22);
    for (size_t i = 0; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], 0xee);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(reading_past_the_end_fails_for_good),
        cmocka_unit_test(leftover_bytes_are_not_done),
        cmocka_unit_test(writing_past_the_end_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
