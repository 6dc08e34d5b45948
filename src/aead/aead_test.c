/* Proves that the suites are the published ones (RFC 8439, NIST's GCM, by way of vectors), by
 * libcrypto alone and by the libraries that are used here, which give the same bytes; that a key, a
 * nonce and a direction given in any order are those used; that what was changed in any bit does
 * not open and is wiped; and that nothing is left in libcrypto's queue of errors, which may be the
 * program's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/err.h>

#include "aead/aead.h"

#define BYTES_MAX 1452

static sky_aead *a;     /* of the libraries under test */
static sky_aead *plain; /* libcrypto's */

static const uint8_t key[SKY_SECRET_BYTES] = "thirty-two bytes of a secret key";
static const uint8_t nonce[SKY_NONCE_BYTES] = "twelve bytes";

typedef struct {
    const char *name;
    sky_suite suite;
    const char *key, *nonce, *aad, *plain, *sealed, *tag; /* hexadecimal */
} vector;

/* GCM: test cases 13, 14 and 16 of McGrew and Viega, "The Galois/Counter Mode of Operation", as
 * submitted to NIST. ChaCha20-Poly1305: RFC 8439, 2.8.2. */
static const vector vectors[] = {
    {"GCM 13", SKY_SUITE_AES, "0000000000000000000000000000000000000000000000000000000000000000",
     "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {"GCM 14", SKY_SUITE_AES, "0000000000000000000000000000000000000000000000000000000000000000",
     "000000000000000000000000", "", "00000000000000000000000000000000",
     "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {"GCM 16", SKY_SUITE_AES, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
     "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b"
     "5"
     "25b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828"
     "838"
     "c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
    {"RFC 8439", SKY_SUITE_CHACHA,
     "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", "070000004041424344454647",
     "50515253c0c1c2c3c4c5c6c7",
     "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a20496620492"
     "0"
     "636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c20737"
     "5"
     "6e73637265656e20776f756c642062652069742e",
     "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da927"
     "2"
     "8b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b483"
     "1"
     "d7bc3ff4def08e4b7a9de576d26586cec64b6116",
     "1ae10b594f09e26a7e902ecbd0600691"},
};

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t n = 0;
    unsigned byte;
    for (; sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (uint8_t)byte;
    assert_int_equal(hex[2 * n], 0);
    return n;
}

static void they_are_the_published_ones(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const vector *v = &vectors[i];
        uint8_t k[32], n[12], aad[64], data[256], sealed[256], out[256], tag[16], right[16];
        sky_aead_input x = {.key = k, .nonce = n, .aad = aad};
        assert_int_equal(from_hex(v->key, k), sizeof k);
        assert_int_equal(from_hex(v->nonce, n), sizeof n);
        assert_int_equal(from_hex(v->tag, right), sizeof right);
        x.aad_bytes = from_hex(v->aad, aad);
        size_t bytes = from_hex(v->plain, data);
        assert_int_equal(from_hex(v->sealed, sealed), bytes);
        print_message("%s\n", v->name);
        sky_aead_seal(a, v->suite, &x, data, out, bytes, tag);
        assert_memory_equal(out, sealed, bytes);
        assert_memory_equal(tag, right, sizeof right);
        assert_true(sky_aead_open(a, v->suite, &x, out, bytes, tag));
        assert_memory_equal(out, data, bytes);
    }
}

static void fill(uint8_t *p, size_t bytes, size_t seed) {
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(i * 5 + seed);
}

/* In place or not, with the key of before or another, after a failure or a success: what comes out
 * depends on what goes in alone. */
static void a_context_remembers_nothing(void **state) {
    (void)state;
    static uint8_t data[BYTES_MAX], one[BYTES_MAX], two[BYTES_MAX], aad[BYTES_MAX];
    for (sky_suite suite = SKY_SUITE_AES; suite < SKY_SUITE_END; suite++) {
        for (size_t bytes = 0; bytes <= BYTES_MAX; bytes += bytes < 100 ? 1 : 97) {
            uint8_t other[SKY_SECRET_BYTES], tag[SKY_TAG_BYTES], again[SKY_TAG_BYTES];
            sky_aead_input x = {key, nonce, aad, bytes * 7 % BYTES_MAX}, y = x;
            memcpy(other, key, sizeof other);
            other[bytes % 32] ^= 1;
            y.key = other;
            fill(aad, sizeof aad, bytes);
            fill(data, bytes, bytes);
            sky_aead_seal(plain, suite, &x, data, one, bytes, tag);
            sky_aead_seal(a, suite, &y, data, two, bytes, again);
            assert_memory_not_equal(tag, again, sizeof tag);
            assert_false(sky_aead_open(a, suite, &x, two, bytes, again));
            memcpy(two, data, bytes);
            sky_aead_seal(a, suite, &x, two, two, bytes, again);
            assert_memory_equal(one, two, bytes);
            assert_memory_equal(tag, again, sizeof tag);
            assert_true(sky_aead_open(a, suite, &x, two, bytes, tag));
            assert_memory_equal(data, two, bytes);
        }
    }
}

/* Open a copy, which must not open, and be wiped. */
static void refuse(sky_suite suite, const sky_aead_input *x, const uint8_t sealed[300],
                   const uint8_t *tag) {
    static const uint8_t nothing[300];
    uint8_t data[300];
    memcpy(data, sealed, sizeof data);
    assert_false(sky_aead_open(a, suite, x, data, sizeof data, tag));
    assert_memory_equal(data, nothing, sizeof data);
}

static void what_does_not_open_is_wiped(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_AES; suite < SKY_SUITE_END; suite++) {
        uint8_t sealed[300], tag[SKY_TAG_BYTES];
        sky_aead_input x = {key, nonce, "name", 4}, renamed = {key, nonce, "eman", 4};
        sky_aead_input later = {key, (const uint8_t *)"TWELVE bytes", "name", 4};
        fill(sealed, sizeof sealed, 9);
        sky_aead_seal(a, suite, &x, sealed, sealed, sizeof sealed, tag);
        for (size_t bit = 0; bit < sizeof tag * 8; bit++) {
            tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
            refuse(suite, &x, sealed, tag);
            tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t bit = 0; bit < sizeof sealed * 8; bit += 7) {
            sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
            refuse(suite, &x, sealed, tag);
            sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        refuse(suite, &renamed, sealed, tag);
        refuse(suite, &later, sealed, tag);
        refuse(SKY_SUITE_AES + SKY_SUITE_CHACHA - suite, &x, sealed, tag);
        assert_true(sky_aead_open(a, suite, &x, sealed, sizeof sealed, tag));
    }
    assert_int_equal(ERR_peek_error(), 0);
}

static int create(void **state) {
    (void)state;
    return sky_aead_create(&a, NULL) == SKY_OK ? 0 : -1;
}

static int create_by_libcrypto(void **state) {
    (void)state;
    return sky_aead_create_by_libcrypto(&a, NULL) == SKY_OK ? 0 : -1;
}

static int destroy(void **state) {
    (void)state;
    sky_aead_destroy(a);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_the_published_ones),
        cmocka_unit_test(a_context_remembers_nothing),
        cmocka_unit_test(what_does_not_open_is_wiped),
    };
    sky_error error;
    if (sky_aead_create_by_libcrypto(&plain, &error) != SKY_OK) {
        print_message("%s\n", error.text);
        return 1;
    }
    int failed = cmocka_run_group_tests_name("libcrypto", tests, create_by_libcrypto, destroy) +
                 cmocka_run_group_tests_name("those used here", tests, create, destroy);
    sky_aead_destroy(plain);
    sky_aead_destroy(NULL);
    return failed;
}
