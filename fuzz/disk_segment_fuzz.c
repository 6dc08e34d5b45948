/* Proves: no bytes in place of a segment's head or row lead out of its file, and what is accepted
 * is what would be written again, byte for byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tier/disk/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void expect(bool true_thing) {
    if (!true_thing)
        abort();
}

static void check_row(const uint8_t bytes[SKY_SEGMENT_ROW_BYTES], uint32_t segment, uint32_t row,
                      uint32_t units) {
    sky_segment_row r;
    uint8_t again[SKY_SEGMENT_ROW_BYTES];
    if (sky_segment_row_decode(bytes, segment, row, units, &r) != SKY_OK)
        return;
    expect(r.unit_count >= 1 && r.unit_count <= SKY_SEGMENT_ENTRY_UNITS_MAX);
    expect((uint64_t)r.unit + r.unit_count <= units);
    sky_segment_row_encode(&r, segment, row, again);
    expect(memcmp(again, bytes, sizeof again) == 0);
}

static void check_head(const uint8_t bytes[SKY_SEGMENT_MARK_BYTES], uint32_t number) {
    uint8_t again[SKY_SEGMENT_MARK_BYTES];
    uint32_t units;
    if (sky_segment_head_decode(number, bytes, &units) != SKY_OK)
        return;
    expect(units >= SKY_SEGMENT_UNITS_MIN && units <= SKY_SEGMENT_UNITS_MAX);
    sky_segment_head_encode(number, units, again);
    expect(memcmp(again, bytes, sizeof again) == 0);
}

/* As it is, and with the checksum mended: a fuzzer does not guess it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint8_t copy[SKY_SEGMENT_ROW_BYTES];
    if (bytes < 2 + sizeof copy)
        return 0;
    const uint32_t segment = data[0] % SKY_SEGMENTS_MAX, row = data[1];
    const uint32_t units = SKY_SEGMENT_UNITS_MIN << data[1] % 8;
    memcpy(copy, data + 2, sizeof copy);
    check_row(copy, segment, row, units);
    check_head(copy, segment);
    const size_t at = SKY_SEGMENT_ROW_BYTES - 8;
    uint64_t sum = sky_checksum(copy, at, (uint64_t)segment << 32 | row);
    for (size_t i = 0; i < 8; i++)
        copy[at + i] = (uint8_t)(sum >> 8 * i);
    check_row(copy, segment, row, units);
    sum = sky_checksum(copy, 16, 0);
    for (size_t i = 0; i < 8; i++)
        copy[16 + i] = (uint8_t)(sum >> 8 * i);
    check_head(copy, segment);
    return 0;
}
