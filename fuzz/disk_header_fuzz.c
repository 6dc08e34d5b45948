/* Proves: no bytes make the disk tier's header decoder read past them, and what it accepts it would
 * write again, byte for byte, with sizes that fit each other. The bytes behind the header, if there
 * are a payload's worth of them, go through the page check. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tier/disk/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A fuzzer does not guess checksums: mend them, so that what stands behind them is reached too. */
static void mend(uint8_t header[SKY_DISK_HEADER_BYTES]) {
    const size_t at = SKY_DISK_ACCESS_OFFSET - 8, last = SKY_DISK_HEADER_BYTES - 8;
    uint64_t sum = sky_checksum(header, at, 1);
    for (size_t i = 0; i < 8; i++)
        header[at + i] = (uint8_t)(sum >> 8 * i);
    sum = sky_checksum(header + SKY_DISK_ACCESS_OFFSET, SKY_DISK_ACCESS_BYTES - 8, sum);
    for (size_t i = 0; i < 8; i++)
        header[last + i] = (uint8_t)(sum >> 8 * i);
}

static void check(const uint8_t *file, size_t bytes) {
    sky_disk_header header;
    if (sky_disk_header_decode(file, &header) != SKY_OK)
        return;
    uint8_t again[SKY_DISK_HEADER_BYTES];
    sky_disk_header_encode(&header, again);
    sky_disk_geometry by_payload = sky_disk_geometry_of(header.payload_bytes), by_file;
    if (memcmp(again, file, sizeof again) != 0 ||
        sky_disk_geometry_of_file(SKY_DISK_HEADER_BYTES + by_payload.padded_bytes, &by_file) !=
            SKY_OK ||
        by_file.page_bytes != by_payload.page_bytes || by_file.page_count != by_payload.page_count)
        abort();
    size_t behind = bytes - SKY_DISK_HEADER_BYTES;
    if (behind > by_payload.padded_bytes)
        behind = (size_t)by_payload.padded_bytes;
    sky_disk_pages pages;
    sky_disk_pages_begin(&pages, &header, 0);
    sky_disk_pages_check(&pages, file + SKY_DISK_HEADER_BYTES, behind / 2);
    sky_disk_pages_check(&pages, file + SKY_DISK_HEADER_BYTES + behind / 2, behind - behind / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    size_t room = bytes > SKY_DISK_HEADER_BYTES ? bytes : SKY_DISK_HEADER_BYTES;
    uint8_t *file = calloc(1, room);
    if (!file)
        return 0;
    if (bytes > 0)
        memcpy(file, data, bytes);
    check(file, room);
    mend(file);
    check(file, room);
    free(file);
    return 0;
}
