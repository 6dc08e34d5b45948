/* Proves: fingerprints are plain BLAKE2b-256 and XXH3-64, and pieces are hashed as if they were
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/keys.h>

static void digests_are_blake2b(void **state) {
    (void)state;
    sky_key digest; /* for its hex digits */
    char hex[SKY_KEY_BYTES * 2 + 1];
    sky_span whole = {"abc", 3};
    sky_digest(&whole, 1, digest.bytes);
    sky_key_hex(&digest, hex);
    assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    sky_span pieces[] = {{"a", 1}, {NULL, 0}, {"bc", 2}};
    uint8_t again[32];
    sky_digest(pieces, 3, again);
    assert_memory_equal(again, digest.bytes, 32);
}

static bool next_letter(void *context, sky_span *piece) {
    char **at = context;
    *piece = (sky_span){*at, 1};
    return *(*at)++ != 0;
}

static void pieces_may_come_one_at_a_time(void **state) {
    (void)state;
    char text[] = "abc", *at = text;
    uint8_t whole[32], each[32];
    sky_digest(&(sky_span){text, 3}, 1, whole);
    sky_digest_each(next_letter, &at, each);
    assert_memory_equal(whole, each, 32);
    assert_ptr_equal(at, text + 4);
}

static void content_hashes_are_xxh3(void **state) {
    (void)state;
    assert_true(sky_content_hash("", 0, 0) == 0x2d06800538d394c2u);
    assert_true(sky_content_hash("abc", 3, 0) == 0x78af5f94892f3950u);
    assert_true(sky_content_hash("abc", 3, 1) != sky_content_hash("abc", 3, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_blake2b),
        cmocka_unit_test(pieces_may_come_one_at_a_time),
        cmocka_unit_test(content_hashes_are_xxh3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
