#include "tier/disk/segment.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

#define MAGIC UINT64_C(0x31474553594b5389) /* 0x89 "SKYSEG1" */

enum {
    AT_SEQUENCE = SKY_KEY_BYTES,
    AT_UNIT = 40,
    AT_UNIT_COUNT = 44,
    AT_HEADER = 48,
    AT_CHECKSUM = SKY_SEGMENT_ROW_BYTES - 8,
};

static_assert(512 % SKY_SEGMENT_ROW_BYTES == 0 && SKY_SEGMENT_HEAD_BYTES % 512 == 0,
              "a row lies in one sector");
static_assert(SKY_SEGMENT_DATA_OFFSET % SKY_SEGMENT_UNIT_BYTES == 0, "entries are aligned");
static_assert(SKY_SEGMENT_MARK_BYTES <= SKY_SEGMENT_CHANGES_AT, "the count stands behind it");

void sky_segment_head_encode(uint32_t number, uint32_t units, uint8_t out[SKY_SEGMENT_MARK_BYTES]) {
    sky_store_u64(out, MAGIC);
    sky_store_u32(out + 8, number);
    sky_store_u32(out + 12, units);
    sky_store_u64(out + 16, sky_checksum(out, 16, 0));
}

sky_status sky_segment_head_decode(uint32_t number, const uint8_t in[SKY_SEGMENT_MARK_BYTES],
                                   uint32_t *units) {
    uint32_t told = sky_load_u32(in + 12);
    if (sky_load_u64(in) != MAGIC || sky_load_u32(in + 8) != number ||
        sky_load_u64(in + 16) != sky_checksum(in, 16, 0) || told < SKY_SEGMENT_UNITS_MIN ||
        told > SKY_SEGMENT_UNITS_MAX)
        return SKY_E_CORRUPT;
    *units = told;
    return SKY_OK;
}

static uint64_t row_checksum(const uint8_t *bytes, uint32_t segment, uint32_t row) {
    return sky_checksum(bytes, AT_CHECKSUM, (uint64_t)segment << 32 | row);
}

void sky_segment_row_encode(const sky_segment_row *r, uint32_t segment, uint32_t row,
                            uint8_t out[SKY_SEGMENT_ROW_BYTES]) {
    memcpy(out, r->key.bytes, SKY_KEY_BYTES);
    sky_store_u64(out + AT_SEQUENCE, r->sequence);
    sky_store_u32(out + AT_UNIT, r->unit);
    sky_store_u32(out + AT_UNIT_COUNT, r->unit_count);
    sky_store_u64(out + AT_HEADER, r->checksum);
    sky_store_u64(out + AT_CHECKSUM, row_checksum(out, segment, row));
}

sky_status sky_segment_row_decode(const uint8_t in[SKY_SEGMENT_ROW_BYTES], uint32_t segment,
                                  uint32_t row, uint32_t units, sky_segment_row *out) {
    static const uint8_t zeros[SKY_SEGMENT_ROW_BYTES];
    if (memcmp(in, zeros, sizeof zeros) == 0)
        return SKY_MISS;
    sky_segment_row r = {.sequence = sky_load_u64(in + AT_SEQUENCE),
                         .unit = sky_load_u32(in + AT_UNIT),
                         .unit_count = sky_load_u32(in + AT_UNIT_COUNT),
                         .checksum = sky_load_u64(in + AT_HEADER)};
    if (sky_load_u64(in + AT_CHECKSUM) != row_checksum(in, segment, row) || r.sequence == 0 ||
        r.sequence > SKY_SEGMENT_SEQUENCE_MAX || r.unit_count == 0 ||
        r.unit_count > SKY_SEGMENT_ENTRY_UNITS_MAX || r.unit_count > units ||
        r.unit > units - r.unit_count)
        return SKY_E_CORRUPT;
    memcpy(r.key.bytes, in, SKY_KEY_BYTES);
    *out = r;
    return SKY_OK;
}
