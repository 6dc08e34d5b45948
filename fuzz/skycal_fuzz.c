/* Proves: no bytes make the calibration's reader read past them, and what it accepts it would write
 * again, and codes with. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/codec.h>

#include "base/bytes.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void code(const sky_profile *profile) {
    sky_profile_layer layer;
    sky_profile_layer_get(profile, 0, &layer);
    sky_stream_shape shape = {0, SKY_KV_K, SKY_ELEMENT_F16, 5, layer.kv_heads, layer.k_dim, 3};
    size_t count = (size_t)5 * layer.kv_heads * layer.k_dim;
    size_t bound = sky_encode_bound(&shape), used;
    if (count > 1u << 14)
        return;
    uint16_t *rows = malloc(2 * count);
    uint8_t *stream = malloc(bound);
    void *memory = aligned_alloc(64, SKY_ENCODE_WORK_BYTES);
    for (size_t i = 0; i < count; i++)
        rows[i] = (uint16_t)(i * 40503u);
    sky_encode_options how = {.level = SKY_LEVEL_3};
    sky_tensor packed = sky_stream_packed(&shape, rows);
    if (sky_encode(profile, &shape, &how, packed, stream, bound, &used, memory) != SKY_OK ||
        sky_decode(profile, &shape, stream, used, packed, memory) != SKY_OK)
        abort();
    free(memory);
    free(stream);
    free(rows);
}

/* The checksum would stop every mutation at the door, so it is put right first. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_profile *profile;
    if (bytes < 16)
        return 0;
    uint8_t *copy = malloc(bytes), *again = malloc(bytes);
    memcpy(copy, data, bytes);
    sky_store_u64(copy + bytes - 8, sky_checksum(copy, bytes - 8, 0));
    if (sky_profile_read(copy, bytes, &profile, NULL) == SKY_OK) {
        if (sky_profile_bytes(profile) != bytes ||
            sky_profile_write(profile, again, bytes) != SKY_OK || memcmp(copy, again, bytes) != 0)
            abort();
        code(profile);
        sky_profile_destroy(profile);
    }
    free(copy);
    free(again);
    return 0;
}
