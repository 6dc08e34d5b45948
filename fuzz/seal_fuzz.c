/* Fuzzes what opens seals: first a message as it comes, then the bytes as the chunk of one that
 * parses, under a session of each suite. What opens must be a seal shorter and a message again, and
 * nothing may be read beyond its end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wire/seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static sky_seal seals[SKY_SUITE_END];

static void open_all(const uint8_t *message, size_t bytes) {
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        uint8_t *copy = malloc(bytes); /* of its own, so that a step too far is seen */
        size_t left = bytes;
        assert(copy);
        memcpy(copy, message, bytes);
        sky_status status = sky_seal_open(&seals[suite], copy, &left);
        sky_message m;
        assert(left == bytes || (status == SKY_OK && left == bytes - SKY_SEAL_BYTES));
        assert(status != SKY_OK || sky_message_decode(copy, left, &m) == SKY_OK);
        free(copy);
    }
}

static void begin(void) {
    static const uint8_t secret[SKY_SECRET_BYTES] = "a key", salt[SKY_SEAL_SALT_BYTES] = "salt";
    static bool begun;
    static sky_aead *ciphers;
    if (begun)
        return;
    sky_status status = sky_aead_create(&ciphers, NULL);
    assert(status == SKY_OK);
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++)
        sky_seal_init(&seals[suite], ciphers, (sky_suites){.own = suite, .both = suite % 2}, secret,
                      salt);
    begun = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    begin();
    if (bytes == 0 || bytes > SKY_WIRE_DATA_BYTES_MAX)
        return 0;
    open_all(data, bytes);
    sky_message m = {.type = SKY_WIRE_CHUNK,
                     .id = {.key = {{1}}, .version = 2, .number = 3},
                     .data = data,
                     .data_bytes = (uint32_t)bytes};
    size_t room = sky_message_bytes(&m);
    uint8_t *message = malloc(room);
    assert(message);
    size_t encoded = sky_message_encode(&m, message, room);
    assert(encoded == room);
    open_all(message, encoded);
    free(message);
    return 0;
}
