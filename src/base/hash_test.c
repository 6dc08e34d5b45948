/* Proves: the hashes give the published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

static void blake2b_gives_the_known_digest(void **state) {
    (void)state;
    /* BLAKE2b-256 of "abc" without a key. */
    static const uint8_t known[32] = {0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72,
                                      0x31, 0x71, 0xef, 0x3f, 0xee, 0x98, 0x57, 0x9b,
                                      0x94, 0x96, 0x4e, 0x3b, 0xb1, 0xcb, 0x3e, 0x42,
                                      0x72, 0x62, 0xc8, 0xc0, 0x68, 0xd5, 0x23, 0x19};
    uint8_t digest[32];
    sky_blake2b h;
    sky_blake2b_init(&h, NULL);
    sky_blake2b_add(&h, "abc", 3);
    sky_blake2b_end(&h, digest);
    assert_memory_equal(digest, known, 32);
}

static void a_key_changes_the_digest(void **state) {
    (void)state;
    uint8_t key[32] = {0}, plain[32], keyed[32];
    sky_blake2b h;
    sky_blake2b_init(&h, NULL);
    sky_blake2b_end(&h, plain);
    sky_blake2b_init(&h, key);
    sky_blake2b_end(&h, keyed);
    assert_memory_not_equal(plain, keyed, 32);
}

/* The key 0, 1 … 15 and inputs of 0, 1, 8 and 15 bytes that count up, as its authors have it. */
static void siphash_gives_the_known_digests(void **state) {
    (void)state;
    static const sky_hash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
    static const struct {
        size_t bytes;
        uint64_t digest;
    } known[] = {{0, 0x726fdb47dd0e0e31},
                 {1, 0x74f839c593dc67fd},
                 {8, 0x93f5f5799a932462},
                 {15, 0xa129ca6149be45e5}};
    uint8_t data[16];
    for (uint8_t i = 0; i < sizeof data; i++)
        data[i] = i;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(sky_siphash(&key, data, known[i].bytes) == known[i].digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blake2b_gives_the_known_digest),
        cmocka_unit_test(a_key_changes_the_digest),
        cmocka_unit_test(siphash_gives_the_known_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
