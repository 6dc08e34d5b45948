/* Entries as bytes: golden files of another program are read and written alike, the others refused;
 * no flipped bit of a header passes; page sizes follow from payload and file alike. */
#include "tier/disk/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/cache.h>

#define FILE_BYTES_MAX (SKY_DISK_HEADER_BYTES + 2 * SKY_DISK_PAGE_BYTES_MIN)

/* Hex, and *N for N zero bytes. */
static size_t parse_file(const char *text, uint8_t *out) {
    size_t bytes = 0;
    unsigned value;
    int used;
    for (; *text && *text != '\n'; text += used) {
        used = 1;
        if (*text == ' ')
            continue;
        if (sscanf(text, "*%u%n", &value, &used) == 1) {
            memset(out + bytes, 0, value);
            bytes += value;
        } else {
            assert_int_equal(sscanf(text, "%2x%n", &value, &used), 1);
            out[bytes++] = (uint8_t)value;
        }
        assert_true(bytes <= FILE_BYTES_MAX);
    }
    return bytes;
}

static bool pages_hold(sky_disk_header *header, const uint8_t *file) {
    sky_disk_pages pages;
    sky_disk_geometry geometry = sky_disk_geometry_of(header->payload_bytes);
    sky_disk_pages_begin(&pages, header, 0);
    return sky_disk_pages_check(&pages, file + SKY_DISK_HEADER_BYTES,
                                (size_t)geometry.padded_bytes);
}

static void expect_accepted(const char *line, const uint8_t *file, size_t bytes) {
    unsigned payload_bytes, page_count, hits, pinned;
    assert_int_equal(
        sscanf(line, "accept %*s %u %u %u %u", &payload_bytes, &page_count, &hits, &pinned), 4);
    sky_disk_header header;
    uint8_t again[SKY_DISK_HEADER_BYTES];
    assert_int_equal(sky_disk_header_decode(file, &header), SKY_OK);
    assert_int_equal(header.payload_bytes, payload_bytes);
    assert_int_equal(header.access.hits, hits);
    assert_int_equal(header.access.pinned, pinned);
    sky_disk_geometry geometry;
    assert_int_equal(sky_disk_geometry_of_file(bytes, &geometry), SKY_OK);
    assert_int_equal(geometry.page_count, page_count);
    assert_true(pages_hold(&header, file));
    sky_disk_header_encode(&header, again);
    assert_memory_equal(again, file, sizeof again);
}

static void golden_files_hold(void **state) {
    (void)state;
    static char line[1 << 16];
    static uint8_t file[FILE_BYTES_MAX];
    FILE *golden = fopen("tests/golden/disk.txt", "r");
    assert_non_null(golden);
    int accepted = 0, rejected = 0;
    while (fgets(line, sizeof line, golden)) {
        const char *text = strstr(line, " = ");
        if (line[0] == '#' || !text)
            continue;
        sky_disk_header header;
        size_t bytes = parse_file(text + 3, file);
        if (line[0] == 'a') {
            expect_accepted(line, file, bytes);
            accepted++;
        } else {
            sky_status status = sky_disk_header_decode(file, &header);
            if (status != SKY_E_CORRUPT && (status != SKY_OK || pages_hold(&header, file)))
                fail_msg("accepted: %.40s", line);
            rejected++;
        }
    }
    fclose(golden);
    assert_int_equal(accepted, 6);
    assert_int_equal(rejected, 29);
}

static sky_disk_header sample(void) {
    sky_disk_header header = {.payload_bytes = 3 * SKY_DISK_PAGE_BYTES_MIN - 1,
                              .set_ms = 1,
                              .expire_ms = SKY_DISK_MS_MAX,
                              .level = SKY_DISK_LEVEL_MAX,
                              .evict = SKY_EVICT_LAST,
                              .name_bytes = 5,
                              .name = "hello",
                              .page_checksums = {1, 2, 3},
                              .access = {UINT64_MAX, SKY_DISK_MS_MAX, true}};
    memset(header.key.bytes, 0xab, sizeof header.key.bytes);
    memset(header.parent.bytes, 0xcd, sizeof header.parent.bytes);
    return header;
}

static void every_flipped_bit_is_refused(void **state) {
    (void)state;
    uint8_t bytes[SKY_DISK_HEADER_BYTES];
    sky_disk_header header = sample(), out;
    sky_disk_header_encode(&header, bytes);
    assert_int_equal(sky_disk_header_decode(bytes, &out), SKY_OK);
    assert_int_equal(out.checksum, sky_disk_header_checksum(bytes));
    header.checksum = out.checksum;
    assert_memory_equal(&out, &header, sizeof out);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(sky_disk_header_decode(bytes, &out), SKY_E_CORRUPT);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
    }
}

static void a_new_access_record_belongs_to_its_header_only(void **state) {
    (void)state;
    uint8_t bytes[SKY_DISK_HEADER_BYTES], other[SKY_DISK_HEADER_BYTES];
    sky_disk_header header = sample(), out;
    sky_disk_header_encode(&header, bytes);
    sky_disk_access access = {7, 8, false};
    sky_disk_access_encode(&access, bytes, bytes + SKY_DISK_ACCESS_OFFSET);
    assert_int_equal(sky_disk_header_decode(bytes, &out), SKY_OK);
    assert_int_equal(out.access.hits, 7);
    assert_int_equal(out.access.used_ms, 8);
    assert_false(out.access.pinned);
    header.level = 0;
    sky_disk_header_encode(&header, other);
    memcpy(other + SKY_DISK_ACCESS_OFFSET, bytes + SKY_DISK_ACCESS_OFFSET, SKY_DISK_ACCESS_BYTES);
    assert_int_equal(sky_disk_header_decode(other, &out), SKY_E_CORRUPT);
}

static void sizes_follow_from_payload_and_file_alike(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0,       1,        4096,     4097,     65536,     65537,
                                     2359296, 16777215, 16777216, 16777217, 100000000, 4294967295};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sky_disk_geometry a = sky_disk_geometry_of(sizes[i]), b;
        uint64_t file_bytes = SKY_DISK_HEADER_BYTES + a.padded_bytes;
        assert_int_equal(sky_disk_geometry_of_file(file_bytes, &b), SKY_OK);
        assert_int_equal(a.padded_bytes, b.padded_bytes);
        assert_int_equal(a.page_bytes, b.page_bytes);
        assert_int_equal(a.page_count, b.page_count);
        assert_true(a.padded_bytes >= sizes[i] && a.padded_bytes < sizes[i] + SKY_DISK_ALIGN);
        assert_true(a.page_count <= SKY_DISK_PAGES_MAX);
        assert_true(a.page_bytes == SKY_DISK_PAGE_BYTES_MIN || a.page_count > 128);
        assert_int_equal(sky_disk_geometry_of_file(file_bytes + 1, &b), SKY_E_CORRUPT);
    }
    sky_disk_geometry g;
    assert_int_equal(sky_disk_geometry_of_file(0, &g), SKY_E_CORRUPT);
    assert_int_equal(sky_disk_geometry_of_file(UINT64_MAX - 4095, &g), SKY_E_CORRUPT);
    assert_int_equal(sky_disk_geometry_of_file((1ull << 32) + 8192, &g), SKY_E_CORRUPT);
}

static void pages_do_not_care_how_they_are_cut(void **state) {
    (void)state;
    enum { BYTES = 3 * SKY_DISK_PAGE_BYTES_MIN - SKY_DISK_ALIGN };
    static uint8_t data[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    sky_disk_header whole = {.payload_bytes = BYTES}, cut = whole;
    sky_disk_pages pages;
    sky_disk_pages_begin(&pages, &whole, 0);
    sky_disk_pages_note(&pages, data, BYTES);
    sky_disk_pages_begin(&pages, &cut, 0);
    for (size_t at = 0, n = 0; at < BYTES; at += n) {
        n = 1 + at % 30011 < BYTES - at ? 1 + at % 30011 : BYTES - at;
        sky_disk_pages_note(&pages, data + at, n);
    }
    assert_memory_equal(&whole.page_checksums, &cut.page_checksums, sizeof cut.page_checksums);
    sky_disk_pages_begin(&pages, &whole, SKY_DISK_PAGE_BYTES_MIN); /* the second page alone */
    assert_true(sky_disk_pages_check(&pages, data + SKY_DISK_PAGE_BYTES_MIN, 65536));
    sky_disk_pages_begin(&pages, &whole, SKY_DISK_PAGE_BYTES_MIN);
    assert_false(sky_disk_pages_check(&pages, data, 65536));
}

static void paths_come_from_keys(void **state) {
    (void)state;
    sky_key key = {{0xab, 0xcd, 0xef}};
    char path[SKY_DISK_PATH_BYTES];
    sky_disk_path(&key, path);
    assert_string_equal(path,
                        "ab/cd/abcdef0000000000000000000000000000000000000000000000000000000000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files_hold),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_new_access_record_belongs_to_its_header_only),
        cmocka_unit_test(sizes_follow_from_payload_and_file_alike),
        cmocka_unit_test(pages_do_not_care_how_they_are_cut),
        cmocka_unit_test(paths_come_from_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
