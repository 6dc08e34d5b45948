/* Proves that tags and seals hold what they promise in every suite: what was changed, renamed or
 * sealed by another does not pass; no two seals share a nonce, whatever is sealed under whatever
 * name; salts that somebody made up push no kept key out; names belong to one tenant; what is cut
 * on the way is the same seal; tests/golden/seal.txt has the bytes, and those of the versions
 * before, which stay shut; and Poly1305 tags are those of the published algorithm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "wire/golden_fixture.h"
#include "wire/seal.h"

static const uint8_t secret[SKY_SECRET_BYTES] = "thirty-two bytes of tenant key";
static sky_aead *ciphers;

static void tags_tell_every_bit(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        sky_cipher_key key, other;
        uint8_t data[200], tag[SKY_TAG_BYTES], again[SKY_TAG_BYTES];
        memset(data, 0x3c, sizeof data);
        sky_cipher_key_init(&key, suite, secret, "link", 4);
        sky_cipher_key_init(&other, suite, secret, "knil", 4);
        sky_tag_make(ciphers, &key, 5, data, sizeof data, tag);
        assert_true(sky_tag_check(ciphers, &key, 5, data, sizeof data, tag));
        sky_tag_make(ciphers, &key, 6, data, sizeof data, again);
        assert_memory_not_equal(tag, again, sizeof tag);
        assert_false(sky_tag_check(ciphers, &key, 6, data, sizeof data, tag));
        assert_false(sky_tag_check(ciphers, &key, 5, data, sizeof data - 1, tag));
        if (suite != SKY_SUITE_PLAIN)
            assert_false(sky_tag_check(ciphers, &other, 5, data, sizeof data, tag));
        for (size_t bit = 0; bit < sizeof data * 8; bit++) {
            data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(sky_tag_check(ciphers, &key, 5, data, sizeof data, tag));
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
    sky_tag_make(ciphers, &key, 0x0102030405060708, data, sizeof data, tag);
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

static sky_seal *open_seal_taking(sky_suites suites, const char *salt) {
    uint8_t bytes[SKY_SEAL_SALT_BYTES] = {0};
    memcpy(bytes, salt, strlen(salt));
    sky_seal *s = malloc(sizeof *s);
    assert_non_null(s);
    sky_seal_init(s, ciphers, suites, secret, bytes);
    return s;
}

static sky_seal *open_seal(sky_suite suite, const char *salt) {
    return open_seal_taking((sky_suites){.own = suite}, salt);
}

static void close_seal(sky_seal *s) {
    sky_seal_deinit(s);
    free(s);
}

static void sealed_chunks_open_again(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
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

/* Two chunks of 512 bytes sealed in a row: is one's ciphertext beside the other's what their texts
 * are beside each other? Then one nonce was used for both. */
static bool share_a_nonce(sky_seal *s, message a, message b) {
    size_t offset = sky_message_data_offset(SKY_WIRE_SET);
    message x = a, y = b;
    assert_int_equal(sky_seal_message(s, x.bytes, sizeof x.bytes, &x.used), SKY_OK);
    assert_int_equal(sky_seal_message(s, y.bytes, sizeof y.bytes, &y.used), SKY_OK);
    uint32_t same = 0;
    for (size_t i = offset; i < offset + 512; i++)
        same += (x.bytes[i] ^ y.bytes[i]) == (a.bytes[i] ^ b.bytes[i]);
    return same > 256;
}

/* Another text under the same name, as when a chunk is put again with other content or what is
 * sent once more is not what it was; another block under the same version and number, as when a
 * piece of another session's block is repaired; the same text twice; and a session that was
 * started again. */
static void no_nonce_is_used_twice(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_AES; suite < SKY_SUITE_END; suite++) {
        sky_seal *s = open_seal(suite, "ours"), *later = open_seal(suite, "later");
        message a, other_text, other_block;
        size_t offset = sky_message_data_offset(SKY_WIRE_SET);
        make_set(&a, 5, 1, 512);
        message x = a, y = a;
        sky_seal_message(s, x.bytes, sizeof x.bytes, &x.used); /* both count from the start */
        sky_seal_message(later, y.bytes, sizeof y.bytes, &y.used);
        assert_memory_not_equal(x.bytes + offset, y.bytes + offset, 512);
        other_text = other_block = a;
        for (size_t i = 0; i < 512; i++)
            other_text.bytes[offset + i] = (uint8_t)(i * i);
        other_block.bytes[32] ^= 1; /* of the block key */
        memset(other_block.bytes + offset, 0, 512);
        assert_false(share_a_nonce(s, a, other_text));
        assert_false(share_a_nonce(s, a, other_block));
        x = y = a;
        sky_seal_message(s, x.bytes, sizeof x.bytes, &x.used);
        sky_seal_message(s, y.bytes, sizeof y.bytes, &y.used);
        assert_memory_not_equal(x.bytes + offset, y.bytes + offset, 512);
        close_seal(s);
        close_seal(later);
    }
}

/* Sealed into pieces, and sealed whole by a session that counted as far: the same bytes, wherever
 * the chunk lay. */
static void what_is_cut_on_the_way_is_the_same(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        sky_seal *one = open_seal(suite, "ours"), *two = open_seal(suite, "ours");
        for (size_t bytes = 0; bytes <= 1000; bytes += bytes < 8 ? 1 : 31) {
            message whole, source;
            static uint8_t cut[4096], chunk[1000];
            const uint8_t *elsewhere = bytes % 2 ? chunk : NULL;
            make_set(&whole, 5, 1, bytes);
            source = whole;
            sky_pieces to = {cut, (uint32_t)(bytes % 7 * 50 + 200), 600};
            assert_int_equal(sky_seal_message(one, whole.bytes, sizeof whole.bytes, &whole.used),
                             SKY_OK);
            assert_int_equal(sky_seal_message_bytes(source.bytes, source.used), whole.used);
            if (elsewhere) {
                memcpy(chunk, source.bytes + source.used - bytes, bytes);
                memset(source.bytes + source.used - bytes, 0xee, bytes);
            }
            sky_seal_into(two, source.bytes, source.used, elsewhere, &to);
            for (size_t i = 0; i < whole.used; i++)
                assert_int_equal(cut[i / to.bytes * to.step + i % to.bytes], whole.bytes[i]);
        }
        close_seal(one);
        close_seal(two);
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
    sky_seal_init(other, ciphers, other->suites, changed, salt);
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

/* A process and its copy, such as of a virtual machine: from the next renewal on they share no
 * nonce, and both read what was sealed before. */
static void copies_part_at_their_next_salt(void **state) {
    (void)state;
    static const uint8_t salts[2][SKY_SEAL_SALT_BYTES] = {"its own", "the copy's"};
    sky_seal *s = open_seal(SKY_SUITE_AES, "ours"), *copy = open_seal(SKY_SUITE_AES, "");
    message a, b, before;
    make_set(&a, 5, 1, 512);
    make_set(&b, 6, 1, 512);
    before = a;
    sky_seal_renew(s, salts[0]); /* nothing was sealed: no reason to */
    assert_int_equal(s->other_count, 0);
    sky_seal_message(s, before.bytes, sizeof before.bytes, &before.used);
    *copy = *s;
    sky_seal_renew(s, salts[0]);
    sky_seal_renew(copy, salts[1]);
    message x = a, y = b;
    sky_seal_message(s, x.bytes, sizeof x.bytes, &x.used);
    sky_seal_message(copy, y.bytes, sizeof y.bytes, &y.used);
    size_t offset = sky_message_data_offset(SKY_WIRE_SET);
    uint32_t same = 0;
    for (size_t i = offset; i < offset + 512; i++)
        same += (x.bytes[i] ^ y.bytes[i]) == (a.bytes[i] ^ b.bytes[i]);
    assert_true(same < 64);
    assert_int_equal(sky_seal_open(copy, before.bytes, &before.used), SKY_OK);
    assert_int_equal(sky_seal_open(copy, x.bytes, &x.used), SKY_OK);
    close_seal(s);
    close_seal(copy);
}

/* Salts that somebody made up cost a derivation each, and no session its kept key. */
static void made_up_salts_evict_nobody(void **state) {
    (void)state;
    sky_suite suite = SKY_SUITE_CHACHA;
    sky_seal *ours = open_seal(suite, "ours"), *other = open_seal(suite, "other");
    message plain, m;
    make_set(&plain, 5, 1, 100);
    m = plain;
    sky_seal_message(other, m.bytes, sizeof m.bytes, &m.used);
    message again = m;
    assert_int_equal(sky_seal_open(ours, m.bytes, &m.used), SKY_OK);
    assert_int_equal(ours->other_count, 1);
    for (uint8_t i = 1; i <= 3 * SKY_SEAL_OPENERS_MAX; i++) {
        m = again;
        m.bytes[m.used - SKY_SEAL_BYTES + 1] ^= i;
        assert_int_equal(sky_seal_open(ours, m.bytes, &m.used), SKY_E_CORRUPT);
    }
    assert_int_equal(ours->other_count, 1);
    assert_int_equal(ours->forged, 3 * SKY_SEAL_OPENERS_MAX);
    assert_int_equal(sky_seal_open(ours, again.bytes, &again.used), SKY_OK);
    close_seal(ours);
    close_seal(other);
}

/* Sessions of a tenant agree on a block's name, no other tenant does, and no two keys share one. */
static void names_are_the_tenants_own(void **state) {
    (void)state;
    static const uint8_t theirs[SKY_SECRET_BYTES] = "another tenant's key";
    uint8_t salt[SKY_SEAL_SALT_BYTES] = {1};
    sky_seal *a = open_seal(SKY_SUITE_AES, "one"), *b = open_seal(SKY_SUITE_AES, "two");
    sky_key key = {{1, 2, 3}}, next = {{1, 2, 4}}, zero = {{0}}, x, y;
    sky_seal_name(a, &key, &x);
    sky_seal_name(b, &key, &y);
    assert_memory_equal(x.bytes, y.bytes, sizeof x.bytes);
    assert_memory_not_equal(x.bytes, key.bytes, sizeof x.bytes);
    sky_seal_name(a, &next, &y);
    assert_memory_not_equal(x.bytes, y.bytes, sizeof x.bytes);
    sky_seal_name(a, &zero, &y);
    assert_memory_equal(y.bytes, zero.bytes, sizeof y.bytes);
    close_seal(b);
    b = open_seal(SKY_SUITE_AES, "two");
    sky_seal_init(b, ciphers, b->suites, theirs, salt);
    sky_seal_name(b, &key, &y);
    assert_memory_not_equal(x.bytes, y.bytes, sizeof x.bytes);
    close_seal(a);
    close_seal(b);
}

/* Sealed by one suite, and opened by a session that takes these. */
static sky_status opens(sky_suite sealed_by, sky_suites taken) {
    sky_seal *from = open_seal(sealed_by, "theirs"), *to = open_seal_taking(taken, "ours");
    message m;
    make_set(&m, 5, 1, 300);
    sky_seal_message(from, m.bytes, sizeof m.bytes, &m.used);
    sky_status status = sky_seal_open(to, m.bytes, &m.used);
    assert_int_equal(to->forged, status != SKY_OK);
    close_seal(from);
    close_seal(to);
    return status;
}

/* Any two that take both open each other's seals; who is configured for one takes no other; and
 * nobody is talked into plain, or out of it. */
static void a_session_opens_what_it_takes(void **state) {
    (void)state;
    for (sky_suite by = SKY_SUITE_PLAIN; by < SKY_SUITE_END; by++) {
        for (sky_suite own = SKY_SUITE_PLAIN; own < SKY_SUITE_END; own++) {
            bool ciphered = by != SKY_SUITE_PLAIN && own != SKY_SUITE_PLAIN;
            sky_suites any = {.own = own, .both = true}, one = {.own = own};
            assert_int_equal(opens(by, one), by == own ? SKY_OK : SKY_E_CORRUPT);
            assert_int_equal(opens(by, any), by == own || ciphered ? SKY_OK : SKY_E_CORRUPT);
        }
    }
    sky_suites any = sky_suites_wanted(SKY_SUITE_PLAIN), one = sky_suites_wanted(SKY_SUITE_CHACHA);
    assert_true(any.both && any.own == sky_suite_best());
    assert_true(!one.both && one.own == SKY_SUITE_CHACHA);
    for (unsigned suite = 0; suite < 256; suite++)
        assert_int_equal(sky_suites_take(any, (sky_suite)suite), suite == 1 || suite == 2);
}

/* Under one salt, too, each suite has its own key. */
static void suites_share_no_key(void **state) {
    (void)state;
    sky_seal *aes = open_seal(SKY_SUITE_AES, "one"), *chacha = open_seal(SKY_SUITE_CHACHA, "one");
    assert_memory_equal(aes->own.salt, chacha->own.salt, SKY_SEAL_SALT_BYTES);
    assert_memory_not_equal(aes->own.key.bytes, chacha->own.key.bytes, SKY_SECRET_BYTES);
    close_seal(aes);
    close_seal(chacha);
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

/* ---- the bytes ---- */

static const char text[] = "nineteen bytes long";

/* What the golden accepts carry, sealed: one for each suite, the third that its session seals. */
static size_t make_golden(sky_suite suite, uint8_t out[512]) {
    sky_seal *s = open_seal(suite, "a session");
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        sky_message m = {.type = SKY_WIRE_CHUNK,
                         .request = 0x1122334455667788,
                         .id = {.version = 0x8877665544332211, .number = 7},
                         .spent_ns = 1000,
                         .data = (const uint8_t *)text,
                         .data_bytes = sizeof text - 1};
        for (uint8_t k = 0; k < SKY_KEY_BYTES; k++)
            m.id.key.bytes[k] = (uint8_t)(k + 1);
        bytes = sky_message_encode(&m, out, 512);
        assert_int_equal(sky_seal_message(s, out, 512, &bytes), SKY_OK);
    }
    close_seal(s);
    return bytes;
}

static sky_suite suite_named(const char *name) {
    sky_suite suite = SKY_SUITE_PLAIN;
    while (suite < SKY_SUITE_END &&
           strncmp(name, sky_suite_name(suite), strlen(sky_suite_name(suite))) != 0)
        suite++;
    assert_true(suite < SKY_SUITE_END);
    return suite;
}

/* One line: an accept is what this version seals, and opens; a reject is a message as any other,
 * and does not open. */
static void check_golden(sky_suite suite, bool accept, const uint8_t *golden, size_t bytes) {
    uint8_t made[512];
    sky_message m;
    assert_int_equal(sky_message_decode(golden, bytes, &m), SKY_OK);
    if (accept) {
        assert_int_equal(make_golden(suite, made), bytes);
        assert_memory_equal(made, golden, bytes);
    }
    sky_seal *s = open_seal(suite, "another session");
    memcpy(made, golden, bytes);
    sky_status status = sky_seal_open(s, made, &bytes);
    assert_int_equal(status, accept ? SKY_OK : SKY_E_CORRUPT);
    if (accept)
        assert_memory_equal(made + bytes - (sizeof text - 1), text, sizeof text - 1);
    close_seal(s);
}

/* A name begins with its suite's. */
static void golden_vectors_hold(void **state) {
    (void)state;
    sky_golden g;
    sky_golden_open(&g, "tests/golden/seal.txt");
    while (sky_golden_next(&g)) {
        check_golden(suite_named(g.name), g.accept, g.bytes, g.byte_count);
    }
    assert_int_equal(g.accepted, SKY_SUITE_END);
    assert_true(g.rejected >= 8);
}

/* `seal_test print` writes the golden accepts: for when the seal gets a new version. */
static int print_golden(void) {
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        uint8_t bytes[512];
        sky_golden_print(sky_suite_name(suite), bytes, make_golden(suite, bytes));
    }
    return 0;
}

static int create(void **state) {
    (void)state;
    return sky_aead_create(&ciphers, NULL) == SKY_OK ? 0 : -1;
}

static int destroy(void **state) {
    (void)state;
    sky_aead_destroy(ciphers);
    return 0;
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "print") == 0)
        return create(NULL) || print_golden() || destroy(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_tell_every_bit),
        cmocka_unit_test(tags_are_the_published_ones),
        cmocka_unit_test(sealed_chunks_open_again),
        cmocka_unit_test(no_nonce_is_used_twice),
        cmocka_unit_test(what_is_cut_on_the_way_is_the_same),
        cmocka_unit_test(what_is_not_ours_stays_shut),
        cmocka_unit_test(copies_part_at_their_next_salt),
        cmocka_unit_test(made_up_salts_evict_nobody),
        cmocka_unit_test(names_are_the_tenants_own),
        cmocka_unit_test(a_session_opens_what_it_takes),
        cmocka_unit_test(suites_share_no_key),
        cmocka_unit_test(what_has_no_data_passes),
        cmocka_unit_test(golden_vectors_hold),
    };
    return cmocka_run_group_tests(tests, create, destroy);
}
