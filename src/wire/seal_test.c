/* Proves that tags and seals hold what they promise in every suite: what was changed, renamed or
 * sealed by another does not pass; the same chunk of two sessions is two ciphertexts; and GMAC and
 * Poly1305 tags are those of the published algorithms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "wire/seal.h"

static const uint8_t secret[SKY_SECRET_BYTES] = "thirty-two bytes of tenant key";

static void tags_tell_every_bit(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        if (!sky_suite_works(suite))
            continue;
        sky_cipher_key key, other;
        uint8_t data[200], tag[SKY_TAG_BYTES], again[SKY_TAG_BYTES];
        memset(data, 0x3c, sizeof data);
        sky_cipher_key_init(&key, suite, secret, "link", 4);
        sky_cipher_key_init(&other, suite, secret, "knil", 4);
        sky_tag_make(&key, 5, data, sizeof data, tag);
        assert_true(sky_tag_check(&key, 5, data, sizeof data, tag));
        sky_tag_make(&key, 6, data, sizeof data, again);
        assert_memory_not_equal(tag, again, sizeof tag);
        assert_false(sky_tag_check(&key, 6, data, sizeof data, tag));
        assert_false(sky_tag_check(&key, 5, data, sizeof data - 1, tag));
        if (suite != SKY_SUITE_PLAIN)
            assert_false(sky_tag_check(&other, 5, data, sizeof data, tag));
        for (size_t bit = 0; bit < sizeof data * 8; bit++) {
            data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(sky_tag_check(&key, 5, data, sizeof data, tag));
            data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        sky_cipher_key_wipe(&key);
        assert_int_equal(key.bytes[0], 0);
    }
}

/* Against the primitives: Poly1305 by hand over RFC 8439's construction. */
static void tags_are_the_published_ones(void **state) {
    (void)state;
    sky_cipher_key key;
    uint8_t data[48], tag[SKY_TAG_BYTES], expected[SKY_TAG_BYTES];
    uint8_t nonce[12] = {0}, block[64] = {0}, padded[64] = {0};
    memset(data, 7, sizeof data);
    sky_cipher_key_init(&key, SKY_SUITE_CHACHA, secret, "x", 1);
    sky_tag_make(&key, 0x0102030405060708, data, sizeof data, tag);
    sky_store_u64(nonce + 4, 0x0102030405060708);
    crypto_stream_chacha20_ietf(block, sizeof block, nonce, key.bytes);
    memcpy(padded, data, sizeof data); /* a multiple of 16 long; then the two lengths */
    sky_store_u64(padded + 48, sizeof data);
    crypto_onetimeauth(expected, padded, sizeof padded, block);
    assert_memory_equal(tag, expected, sizeof tag);
}

typedef struct {
    _Alignas(16) uint8_t bytes[2048];
    size_t used;
} message;

static void make_set(message *m, uint64_t version, uint32_t number, size_t bytes) {
    static uint8_t data[1024];
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + version);
    sky_message set = {.type = SKY_WIRE_SET,
                       .request = 9,
                       .id = {.key = {{1, 2, 3}}, .version = version, .number = number},
                       .facts = {.centre = {1, 1},
                                 .first = {1, 1},
                                 .next = {1, 1},
                                 .chunk_count = 3,
                                 .window_planes = 1,
                                 .window_slots = 1},
                       .data = data,
                       .data_bytes = (uint32_t)bytes};
    m->used = sky_message_encode(&set, m->bytes, sizeof m->bytes);
    assert_true(m->used > 0);
}

static sky_seal *open_seal(sky_suite suite, const char *salt) {
    uint8_t bytes[SKY_SEAL_SALT_BYTES] = {0};
    memcpy(bytes, salt, strlen(salt));
    sky_seal *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    assert_non_null(s);
    sky_seal_init(s, suite, secret, bytes);
    return s;
}

static void close_seal(sky_seal *s) {
    sky_seal_deinit(s);
    free(s);
}

static void sealed_chunks_open_again(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        if (!sky_suite_works(suite))
            continue;
        sky_seal *ours = open_seal(suite, "ours"), *later = open_seal(suite, "later");
        for (size_t bytes = 1; bytes <= 1000; bytes += 111) {
            message plain, m, n;
            sky_message decoded;
            make_set(&plain, 5, 1, bytes);
            m = n = plain;
            assert_int_equal(sky_seal_message(ours, m.bytes, sizeof m.bytes, &m.used), SKY_OK);
            assert_int_equal(m.used, plain.used + SKY_SEAL_BYTES);
            assert_int_equal(sky_message_decode(m.bytes, m.used, &decoded), SKY_OK);
            assert_int_equal(decoded.data_bytes, bytes + SKY_SEAL_BYTES);
            const uint8_t *end = m.bytes + m.used;
            assert_true(decoded.facts.checksum == sky_load_u64(end - SKY_TAG_BYTES));
            sky_seal_message(later, n.bytes, sizeof n.bytes, &n.used);
            assert_memory_not_equal(m.bytes, n.bytes, m.used);
            assert_int_equal(sky_seal_open(later, m.bytes, &m.used), SKY_OK); /* another session */
            assert_int_equal(m.used, plain.used);
            assert_memory_equal(m.bytes, plain.bytes, m.used);
        }
        close_seal(ours);
        close_seal(later);
    }
}

/* The sealed bytes of one message under the head of another. */
static sky_status transplant(sky_seal *s, const message *from, const message *into) {
    message m = *into;
    size_t offset = sky_message_data_offset(SKY_WIRE_SET);
    memcpy(m.bytes + offset, from->bytes + offset, from->used - offset);
    return sky_seal_open(s, m.bytes, &m.used);
}

static void what_is_not_ours_stays_shut(void **state) {
    (void)state;
    sky_seal *s = open_seal(SKY_SUITE_CHACHA, "ours");
    sky_seal *other = open_seal(SKY_SUITE_CHACHA, "ours");
    other->secret[0] ^= 1;
    uint8_t changed[SKY_SECRET_BYTES], salt[SKY_SEAL_SALT_BYTES] = "ours";
    memcpy(changed, other->secret, sizeof changed);
    sky_seal_init(other, SKY_SUITE_CHACHA, changed, salt);
    message one, two, old, foreign;
    make_set(&one, 5, 1, 300);
    make_set(&two, 5, 2, 300);
    make_set(&old, 4, 1, 300);
    foreign = one;
    sky_seal_message(s, one.bytes, sizeof one.bytes, &one.used);
    sky_seal_message(s, two.bytes, sizeof two.bytes, &two.used);
    sky_seal_message(s, old.bytes, sizeof old.bytes, &old.used);
    sky_seal_message(other, foreign.bytes, sizeof foreign.bytes, &foreign.used);
    assert_int_equal(transplant(s, &one, &one), SKY_OK);
    assert_int_equal(transplant(s, &two, &one), SKY_E_CORRUPT);     /* another chunk */
    assert_int_equal(transplant(s, &old, &one), SKY_E_CORRUPT);     /* an older version */
    assert_int_equal(transplant(s, &foreign, &one), SKY_E_CORRUPT); /* another tenant */
    size_t offset = sky_message_data_offset(SKY_WIRE_SET);
    for (size_t i = offset; i < one.used; i += 3) {
        message m = one;
        m.bytes[i] ^= 0x40;
        assert_int_equal(sky_seal_open(s, m.bytes, &m.used), SKY_E_CORRUPT);
    }
    message plain;
    make_set(&plain, 6, 1, 20); /* shorter than a seal */
    assert_int_equal(sky_seal_open(s, plain.bytes, &plain.used), SKY_E_CORRUPT);
    assert_true(s->forged >= 4);
    close_seal(s);
    close_seal(other);
}

/* A session that seals does not read what somebody put in the open. */
static void nobody_is_talked_into_plain(void **state) {
    (void)state;
    sky_seal *s = open_seal(SKY_SUITE_CHACHA, "ours"), *p = open_seal(SKY_SUITE_PLAIN, "ours");
    message m;
    make_set(&m, 5, 1, 300);
    sky_seal_message(p, m.bytes, sizeof m.bytes, &m.used);
    assert_int_equal(sky_seal_open(s, m.bytes, &m.used), SKY_E_CORRUPT);
    close_seal(s);
    close_seal(p);
}

static void what_has_no_data_passes(void **state) {
    (void)state;
    sky_seal *s = open_seal(SKY_SUITE_CHACHA, "ours");
    message m = {.used = 0};
    sky_message get = {.type = SKY_WIRE_GET, .request = 1, .id = {.version = 1, .number = 1}};
    m.used = sky_message_encode(&get, m.bytes, sizeof m.bytes);
    size_t before = m.used;
    assert_int_equal(sky_seal_message(s, m.bytes, sizeof m.bytes, &m.used), SKY_OK);
    assert_int_equal(sky_seal_open(s, m.bytes, &m.used), SKY_OK);
    assert_int_equal(m.used, before);
    m.bytes[0] ^= 1;
    assert_int_equal(sky_seal_open(s, m.bytes, &m.used), SKY_E_CORRUPT);
    make_set(&m, 5, 1, 300);
    assert_int_equal(sky_seal_message(s, m.bytes, m.used + SKY_SEAL_BYTES - 1, &m.used),
                     SKY_E_DST_SMALL);
    close_seal(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_tell_every_bit),
        cmocka_unit_test(tags_are_the_published_ones),
        cmocka_unit_test(sealed_chunks_open_again),
        cmocka_unit_test(what_is_not_ours_stays_shut),
        cmocka_unit_test(nobody_is_talked_into_plain),
        cmocka_unit_test(what_has_no_data_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
