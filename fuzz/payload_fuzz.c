/* Proves: no bytes make the payload parser read past them, and what it accepts it would write
 * again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manager/payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_payload payload;
    uint32_t first_token;
    if (sky_payload_header_read(data, bytes, &payload, &first_token) != SKY_OK)
        return 0;
    uint8_t *again = malloc(payload.header_bytes);
    if (!again)
        return 0;
    sky_payload_header_write(&payload, first_token, again);
    if (memcmp(again, data, payload.header_bytes) != 0)
        abort();
    uint64_t end = payload.header_bytes;
    for (uint32_t i = 0; i < payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&payload, i);
        if (s.offset != end)
            abort();
        end += s.bytes;
    }
    if (end != payload.payload_bytes)
        abort();
    free(again);
    return 0;
}
