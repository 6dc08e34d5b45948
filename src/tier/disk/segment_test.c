/* Segments as bytes: heads and rows of another program are read and written alike, what breaks a
 * rule is refused, and no flipped bit of either passes. */
#include "tier/disk/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void parse_hex(const char *text, uint8_t *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned value;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        out[i] = (uint8_t)value;
    }
}

static void expect_head(const char *line, const char *hex, bool good) {
    uint8_t bytes[SKY_SEGMENT_MARK_BYTES], again[SKY_SEGMENT_MARK_BYTES];
    unsigned number, units;
    uint32_t told = 7;
    parse_hex(hex, bytes, sizeof bytes);
    assert_int_equal(sscanf(line, "%*s %*s %u %u", &number, &units), 2);
    sky_status status = sky_segment_head_decode(number, bytes, &told);
    if (status != (good ? SKY_OK : SKY_E_CORRUPT) || told != (good ? units : 7))
        fail_msg("%s: %.40s", sky_status_name(status), line);
    sky_segment_head_encode(number, units, again);
    if (good)
        assert_memory_equal(again, bytes, sizeof again);
}

static void expect_row(const char *line, const char *hex, bool good) {
    uint8_t bytes[SKY_SEGMENT_ROW_BYTES], again[SKY_SEGMENT_ROW_BYTES];
    unsigned segment, row, units;
    unsigned long long sequence, checksum;
    sky_segment_row r = {0}, told = {0};
    parse_hex(hex, bytes, sizeof bytes);
    assert_int_equal(sscanf(line, "%*s %*s %u %u %u %llu %u %u %llu", &segment, &row, &units,
                            &sequence, &r.unit, &r.unit_count, &checksum),
                     7);
    sky_status status = sky_segment_row_decode(bytes, segment, row, units, &told);
    if (status != (good ? SKY_OK : SKY_E_CORRUPT))
        fail_msg("%s: %.40s", sky_status_name(status), line);
    for (uint8_t i = 0; i < SKY_KEY_BYTES; i++)
        r.key.bytes[i] = (uint8_t)(i + 1);
    r.sequence = sequence;
    r.checksum = checksum;
    sky_segment_row_encode(&r, segment, row, again);
    if (good) {
        assert_memory_equal(&told, &r, sizeof r);
        assert_memory_equal(again, bytes, sizeof again);
    }
}

static void golden_bytes_hold(void **state) {
    (void)state;
    static char line[1024];
    FILE *golden = fopen("tests/golden/segment.txt", "r");
    assert_non_null(golden);
    int heads = 0, rows = 0;
    while (fgets(line, sizeof line, golden)) {
        const char *equals = strstr(line, " = ");
        if (line[0] == '#' || !equals)
            continue;
        bool good = strncmp(line, "no-", 3) != 0, head = strstr(line, "head ") != NULL;
        (head ? expect_head : expect_row)(line, equals + 3, good);
        heads += head;
        rows += !head;
    }
    fclose(golden);
    assert_int_equal(heads, 9);
    assert_int_equal(rows, 15);
}

static void no_flipped_bit_passes(void **state) {
    (void)state;
    uint8_t row[SKY_SEGMENT_ROW_BYTES], head[SKY_SEGMENT_MARK_BYTES];
    sky_segment_row r = {.sequence = 9, .unit = 3, .unit_count = 17, .checksum = 1}, out;
    uint32_t units;
    sky_segment_row_encode(&r, 2, 3, row);
    sky_segment_head_encode(2, 128, head);
    for (size_t bit = 0; bit < 8 * sizeof row; bit++) {
        row[bit / 8] = (uint8_t)(row[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(sky_segment_row_decode(row, 2, 3, 128, &out), SKY_E_CORRUPT);
        row[bit / 8] = (uint8_t)(row[bit / 8] ^ 1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof head; bit++) {
        head[bit / 8] = (uint8_t)(head[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(sky_segment_head_decode(2, head, &units), SKY_E_CORRUPT);
        head[bit / 8] = (uint8_t)(head[bit / 8] ^ 1u << bit % 8);
    }
    assert_int_equal(sky_segment_row_decode(row, 2, 3, 128, &out), SKY_OK);
    memset(row, 0, sizeof row);
    assert_int_equal(sky_segment_row_decode(row, 2, 3, 128, &out), SKY_MISS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_bytes_hold),
        cmocka_unit_test(no_flipped_bit_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
