/* Proves that AEGIS-256X4 gives the published vectors' bytes; that every length comes back; and
 * that what was changed does not open and is wiped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "wire/aegis.h"

/* The key and nonce of draft-irtf-cfrg-aegis-aead's vectors. */
static void published(uint8_t key[32], uint8_t nonce[32]) {
    for (uint8_t i = 0; i < 32; i++) {
        key[i] = i;
        nonce[i] = (uint8_t)(i + 16);
    }
}

static const uint8_t published_text[120] = {
    0xbf, 0xc2, 0x08, 0x5b, 0x7e, 0x80, 0x17, 0xda, 0x99, 0xb0, 0xb6, 0xd6, 0x46, 0xae, 0x4d,
    0x01, 0xf4, 0xba, 0x8f, 0x2e, 0x7d, 0xfc, 0xa1, 0xd7, 0x59, 0xae, 0x48, 0xa1, 0x35, 0x13,
    0x9b, 0x9a, 0xaa, 0xc6, 0xb4, 0xf5, 0xdb, 0x81, 0x0d, 0x42, 0x6b, 0xe1, 0xfd, 0xaf, 0xf4,
    0xe1, 0x45, 0x41, 0x53, 0xa3, 0x4b, 0x11, 0xda, 0x78, 0xed, 0x7e, 0x41, 0x8e, 0xe2, 0xee,
    0x98, 0x53, 0x04, 0x2e, 0x95, 0x53, 0x6a, 0xec, 0xbb, 0x69, 0x4c, 0xea, 0x1b, 0x16, 0xa4,
    0x78, 0xeb, 0x0d, 0x4d, 0x1b, 0xf6, 0x50, 0x9b, 0x1c, 0xe6, 0x52, 0xa4, 0x5a, 0xf5, 0x8e,
    0x0e, 0x46, 0xff, 0xcc, 0xfa, 0x2d, 0x04, 0x26, 0xe7, 0x02, 0x39, 0x1d, 0x2f, 0xf5, 0x81,
    0x38, 0x08, 0xb8, 0x17, 0x48, 0xa4, 0x90, 0xdd, 0x65, 0x64, 0x65, 0xfe, 0xd6, 0x1f, 0x09};
static const uint8_t published_tag[16] = {0xb6, 0x3b, 0x61, 0x1b, 0x13, 0x97, 0x5e, 0x2f,
                                          0x3d, 0xc3, 0xcb, 0x6c, 0x23, 0x97, 0xbf, 0xcd};
static const uint8_t empty_tag[16] = {0x3b, 0x7f, 0xee, 0x6c, 0xee, 0x7b, 0xf1, 0x78,
                                      0x88, 0xad, 0x11, 0xed, 0x23, 0x97, 0xbe, 0xb4};

static void the_published_bytes(void **state) {
    (void)state;
    static const uint8_t aad[8] = {1, 2, 3, 4, 1, 2, 3, 4};
    uint8_t key[32], nonce[32], data[120], tag[16];
    published(key, nonce);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(4 + i % 4);
    sky_aegis_context x = {.key = key, .nonce = nonce, .aad = aad, .aad_bytes = sizeof aad};
    sky_aegis_seal(&x, data, sizeof data, tag);
    assert_memory_equal(data, published_text, sizeof data);
    assert_memory_equal(tag, published_tag, sizeof tag);
    assert_true(sky_aegis_open(&x, data, sizeof data, tag));
    assert_int_equal(data[119], 7);
    x.aad_bytes = 0;
    sky_aegis_seal(&x, data, 0, tag);
    assert_memory_equal(tag, empty_tag, sizeof tag);
}

static void random_bytes(sky_prng *prng, uint8_t *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)sky_prng_u64(prng);
}

static void make_context(sky_prng *prng, uint8_t bytes[64 + 200], sky_aegis_context *x) {
    random_bytes(prng, bytes, 64 + 200);
    *x = (sky_aegis_context){.key = bytes,
                             .nonce = bytes + 32,
                             .aad = bytes + 64,
                             .aad_bytes = sky_prng_below(prng, 200)};
}

static void every_length_comes_back(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 5);
    for (size_t bytes = 0; bytes < 400; bytes += bytes < 130 ? 1 : 17) {
        uint8_t secrets[64 + 200], text[400], data[400], tag[16];
        sky_aegis_context x;
        make_context(&prng, secrets, &x);
        random_bytes(&prng, text, bytes);
        memcpy(data, text, bytes);
        sky_aegis_seal(&x, data, bytes, tag);
        assert_true(bytes < 8 || memcmp(data, text, bytes) != 0);
        assert_true(sky_aegis_open(&x, data, bytes, tag));
        assert_memory_equal(data, text, bytes);
    }
}

/* What is sealed on the way into pieces is what is sealed in one, wherever it is cut. */
static void pieces_are_the_whole(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 7);
    for (int round = 0; round < 300; round++) {
        uint8_t secrets[64 + 200], text[1000], whole[1000], cut[3200], tag[16], cut_tag[16];
        sky_aegis_context x;
        make_context(&prng, secrets, &x);
        uint32_t piece = 64 + (uint32_t)sky_prng_below(&prng, 300);
        uint32_t offset = (uint32_t)sky_prng_below(&prng, 200);
        uint32_t bytes = (uint32_t)sky_prng_below(&prng, 1000 - 200);
        sky_pieces to = {cut, piece, piece + SKY_PIECES_GAP_MIN + (uint32_t)round % 20};
        random_bytes(&prng, text, bytes);
        memcpy(whole, text, bytes);
        sky_aegis_seal(&x, whole, bytes, tag);
        sky_aegis_seal_into(&x, text, bytes, &to, offset, cut_tag);
        assert_memory_equal(tag, cut_tag, sizeof tag);
        for (uint32_t i = 0; i < bytes; i++)
            assert_int_equal(cut[(offset + i) / piece * to.step + (offset + i) % piece], whole[i]);
    }
}

/* Open a copy, which must not open and be wiped. */
static void refuse(const sky_aegis_context *x, const uint8_t *sealed, size_t bytes,
                   const uint8_t *tag) {
    static const uint8_t nothing[150];
    uint8_t data[150];
    memcpy(data, sealed, bytes);
    assert_false(sky_aegis_open(x, data, bytes, tag));
    assert_memory_equal(data, nothing, bytes);
}

static void what_was_changed_stays_shut(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 6);
    uint8_t secrets[64 + 200], sealed[150], tag[16];
    sky_aegis_context x;
    make_context(&prng, secrets, &x);
    x.aad_bytes = 48;
    memset(sealed, 1, sizeof sealed);
    sky_aegis_seal(&x, sealed, sizeof sealed, tag);
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit += 3) {
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refuse(&x, sealed, sizeof sealed, tag);
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t i = 0; i < 64 + 48; i++) { /* key, nonce and associated data */
        secrets[i] ^= 4;
        refuse(&x, sealed, sizeof sealed, tag);
        secrets[i] ^= 4;
    }
    for (size_t i = 0; i < 16; i++) {
        tag[i] ^= 0x10;
        refuse(&x, sealed, sizeof sealed, tag);
        tag[i] ^= 0x10;
    }
    refuse(&x, sealed, sizeof sealed - 1, tag);
    assert_true(sky_aegis_open(&x, sealed, sizeof sealed, tag));
}

int main(void) {
    if (!sky_aegis_works()) {
        puts("not built in (tools/get-aegis)");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_bytes),
        cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(what_was_changed_stays_shut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
