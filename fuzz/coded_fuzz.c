/* Proves: no bytes in place of a coded value make the manager's decoder read past them or write
 * past the caller's spans, whole or in part, and none it is asked to lower outgrow their room.
 *
 * The first four bytes of an input say how it is asked for; the value follows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "manager/coded.h"

#define TOKENS 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const sky_layout layout = {
    .group_count = 2,
    .groups = {{SKY_LAYER_WINDOW, 32, 1, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 64, 128},
               {SKY_LAYER_FULL, 0, 1, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F32, 128, 256}}};

static void check(const sky_coded *coded, const uint8_t how[4], const uint8_t *value,
                  uint64_t bytes) {
    const sky_block_codec *c = &coded->codec;
    uint64_t payload = c->payload_bytes, moved = 0, needed = 0, lowered = 0;
    uint8_t *back = malloc(payload), *lower = malloc(c->coded_bytes_max);
    void *work = aligned_alloc(64, (c->work_bytes + 63) / 64 * 64);
    sky_range range = {how[0] * payload / 256, how[1] * payload / 256};
    uint64_t first = how[2] * payload / 256;
    sky_span spans[2] = {{how[3] & 1 ? back : NULL, first}, {back + first, payload - first}};
    if (back && lower && work) {
        sky_status status = c->decode(c->self, value, bytes, how[3] & 2, range, spans, 2, &moved,
                                      &needed, work);
        if ((status == SKY_OK && moved > payload) || (status == SKY_PENDING && needed <= bytes))
            abort();
        sky_coding coding = (sky_coding)(1 + how[3] / 4 % SKY_LEVEL_COUNT);
        status = c->lower(c->self, coding, value, bytes, lower, c->coded_bytes_max, &lowered, work);
        if (status == SKY_OK && lowered > c->coded_bytes_max)
            abort();
    }
    free(back);
    free(lower);
    free(work);
}

/* A fuzzer does not guess checksums: mend that of the head. */
static void mend(uint8_t *value) {
    uint64_t sum = sky_checksum(value, SKY_CODED_HEAD_BYTES - 8, 0);
    for (size_t i = 0; i < 8; i++)
        value[SKY_CODED_HEAD_BYTES - 8 + i] = (uint8_t)(sum >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_payload payload;
    sky_coded coded;
    if (bytes < 4 || sky_payload_init(&payload, &layout, TOKENS) != SKY_OK ||
        sky_coded_init(&coded, &payload, NULL) != SKY_OK)
        return 0;
    coded.codec.self = &coded;
    uint64_t value_bytes = bytes - 4;
    uint8_t *value = malloc(value_bytes ? value_bytes : 1); /* exactly, so that reading on shows */
    if (value) {
        memcpy(value, data + 4, value_bytes);
        check(&coded, data, value, value_bytes);
        if (value_bytes >= SKY_CODED_HEAD_BYTES) {
            mend(value);
            check(&coded, data, value, value_bytes);
        }
    }
    free(value);
    sky_coded_deinit(&coded);
    return 0;
}
