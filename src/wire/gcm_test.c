/* Proves that AES-256-GCM is the published one, that both libraries give the same bytes for every
 * length, and that what does not open is wiped. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/gcm.h"

#define BYTES_MAX 1300

static const uint8_t secret[SKY_GCM_SECRET_BYTES] = "thirty-two bytes of a secret key";
static const uint8_t nonce[SKY_GCM_NONCE_BYTES] = "twelve bytes";

/* Test case 14 of McGrew and Viega, "The Galois/Counter Mode of Operation". */
static void it_is_the_published_one(void **state) {
    (void)state;
    static const uint8_t zeros[SKY_GCM_SECRET_BYTES];
    static const uint8_t cipher[] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e,
                                     0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18};
    static const uint8_t right[] = {0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0,
                                    0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    for (int plainly = 0; plainly < 2; plainly++) {
        sky_gcm_key key;
        uint8_t data[16] = {0}, tag[SKY_GCM_TAG_BYTES];
        (plainly ? sky_gcm_key_init_plainly : sky_gcm_key_init)(&key, zeros);
        sky_gcm_seal(&key, zeros, NULL, 0, data, sizeof data, tag);
        assert_memory_equal(data, cipher, sizeof cipher);
        assert_memory_equal(tag, right, sizeof right);
    }
}

static void both_libraries_agree(void **state) {
    (void)state;
    static uint8_t a[BYTES_MAX], b[BYTES_MAX], aad[BYTES_MAX];
    sky_gcm_key fast, plain;
    sky_gcm_key_init(&fast, secret);
    sky_gcm_key_init_plainly(&plain, secret);
    for (size_t i = 0; i < sizeof aad; i++)
        aad[i] = (uint8_t)(i * 11);
    for (size_t bytes = 0; bytes <= BYTES_MAX; bytes += bytes < 300 ? 1 : 97) {
        size_t aad_bytes = bytes * 7 % BYTES_MAX;
        uint8_t tag_a[SKY_GCM_TAG_BYTES], tag_b[SKY_GCM_TAG_BYTES];
        for (size_t i = 0; i < bytes; i++)
            a[i] = b[i] = (uint8_t)(i * 5 + bytes);
        sky_gcm_seal(&fast, nonce, aad, aad_bytes, a, bytes, tag_a);
        sky_gcm_seal(&plain, nonce, aad, aad_bytes, b, bytes, tag_b);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(tag_a, tag_b, sizeof tag_a);
        assert_true(sky_gcm_open(&fast, nonce, aad, aad_bytes, b, bytes, tag_b));
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(b[i], (uint8_t)(i * 5 + bytes));
    }
}

/* Open a copy, which must not open and be wiped, by either library. */
static void refuse(const uint8_t sealed[700], const char *aad, const uint8_t *tag) {
    static const uint8_t nothing[700];
    sky_gcm_key keys[2];
    sky_gcm_key_init(&keys[0], secret);
    sky_gcm_key_init_plainly(&keys[1], secret);
    for (int i = 0; i < 2; i++) {
        uint8_t data[700];
        memcpy(data, sealed, sizeof data);
        assert_false(sky_gcm_open(&keys[i], nonce, aad, 4, data, sizeof data, tag));
        assert_memory_equal(data, nothing, sizeof data);
    }
}

static void what_does_not_open_is_wiped(void **state) {
    (void)state;
    sky_gcm_key key;
    uint8_t sealed[700], tag[SKY_GCM_TAG_BYTES];
    sky_gcm_key_init(&key, secret);
    memset(sealed, 0x42, sizeof sealed);
    sky_gcm_seal(&key, nonce, "name", 4, sealed, sizeof sealed, tag);
    for (size_t bit = 0; bit < sizeof tag * 8; bit++) {
        tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refuse(sealed, "name", tag);
        tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    refuse(sealed, "eman", tag);
    assert_true(sky_gcm_open(&key, nonce, "name", 4, sealed, sizeof sealed, tag));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_published_one),
        cmocka_unit_test(both_libraries_agree),
        cmocka_unit_test(what_does_not_open_is_wiped),
    };
    if (!sky_gcm_works()) {
        print_message("skipped: this machine has no instructions for AES\n");
        return 77;
    }
    print_message("the faster library: %s\n", sky_gcm_library());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
