/* Proves: two ends with one key come to the same secrets, which no other connection has; another
 * key, a changed or repeated greeting and a plain one that was not asked for are refused; and the
 * greetings keep their bytes (golden vectors). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tier/peer/hello.h"

static const uint8_t keys[2][SKY_SECRET_BYTES] = {{1, 2, 3}, {4, 5, 6}};
static const uint8_t chances[3][32] = {{16}, {24}, {32}};
static const sky_peer_rules sealed = {keys, 2, false}, only_first = {keys, 1, false},
                            plain = {NULL, 0, true};

static void assert_hex(const uint8_t *bytes, const char *hex) {
    char text[3];
    for (size_t i = 0; hex[2 * i]; i++) {
        snprintf(text, sizeof text, "%02x", bytes[i]);
        if (memcmp(text, hex + 2 * i, 2) != 0)
            fail_msg("byte %zu is %s, not %.2s", i, text, hex + 2 * i);
    }
}

typedef struct {
    sky_peer_hello hello;
    uint8_t sent[SKY_PEER_HELLO_BYTES], answer[SKY_PEER_HELLO_BYTES];
    sky_peer_secrets client, host;
} meeting;

static sky_status greet(meeting *m, sky_suite suite, const uint8_t *key,
                        const sky_peer_rules *rules, const uint8_t *client_chance,
                        const uint8_t *host_chance) {
    memset(m, 0, sizeof *m);
    sky_peer_hello_make(&m->hello, suite, key, client_chance);
    memcpy(m->sent, m->hello.hello, sizeof m->sent);
    return sky_peer_hello_answer(m->sent, rules, host_chance, m->answer, &m->host);
}

static void ends_with_one_key_share_secrets(void **state) {
    (void)state;
    meeting m, other;
    for (int which = 0; which < 2; which++) {
        assert_int_equal(greet(&m, SKY_SUITE_AES, keys[which], &sealed, chances[0], chances[1]),
                         SKY_OK);
        assert_int_equal(sky_peer_hello_end(&m.hello, m.answer, &m.client), SKY_OK);
        assert_memory_equal(&m.client, &m.host, sizeof m.host);
        assert_memory_not_equal(m.host.client_key, m.host.host_key, sizeof m.host.host_key);
    }
    assert_int_equal(greet(&other, SKY_SUITE_AES, keys[1], &sealed, chances[0], chances[2]),
                     SKY_OK);
    assert_memory_not_equal(m.host.client_key, other.host.client_key, SKY_SECRET_BYTES);
    assert_memory_not_equal(m.host.host_key, other.host.host_key, SKY_SECRET_BYTES);
}

static void strangers_are_refused(void **state) {
    (void)state;
    meeting m;
    assert_int_equal(greet(&m, SKY_SUITE_AES, keys[1], &only_first, chances[0], chances[1]),
                     SKY_E_DENIED);
    assert_int_equal(sky_peer_hello_end(&m.hello, m.answer, &m.client), SKY_E_DENIED);
    assert_int_equal(greet(&m, SKY_SUITE_PLAIN, NULL, &sealed, chances[0], chances[1]),
                     SKY_E_DENIED);
    assert_int_equal(greet(&m, SKY_SUITE_AES, keys[0], &plain, chances[0], chances[1]),
                     SKY_E_DENIED);
    assert_int_equal(greet(&m, SKY_SUITE_PLAIN, NULL, &plain, chances[0], chances[1]), SKY_OK);
    assert_int_equal(sky_peer_hello_end(&m.hello, m.answer, &m.client), SKY_OK);
    assert_int_equal(m.client.suite, SKY_SUITE_PLAIN);
}

/* Any changed byte of either greeting is noticed by who gets it. */
static void changed_greetings_are_refused(void **state) {
    (void)state;
    meeting m, good;
    assert_int_equal(greet(&good, SKY_SUITE_CHACHA, keys[0], &sealed, chances[0], chances[1]),
                     SKY_OK);
    for (size_t i = 0; i < SKY_PEER_HELLO_BYTES; i++) {
        uint8_t hello[SKY_PEER_HELLO_BYTES], answer[SKY_PEER_HELLO_BYTES];
        memcpy(hello, good.sent, sizeof hello);
        hello[i] ^= 1;
        assert_int_not_equal(sky_peer_hello_answer(hello, &sealed, chances[1], answer, &m.host),
                             SKY_OK);
        sky_peer_hello_make(&m.hello, SKY_SUITE_CHACHA, keys[0], chances[0]);
        memcpy(answer, good.answer, sizeof answer);
        answer[i] ^= 1;
        assert_int_not_equal(sky_peer_hello_end(&m.hello, answer, &m.client), SKY_OK);
    }
}

/* A recorded answer is of no use to another hello, and a public key that is none to nobody. */
static void repeated_answers_are_refused(void **state) {
    (void)state;
    meeting m, before;
    assert_int_equal(greet(&before, SKY_SUITE_AES, keys[0], &sealed, chances[0], chances[1]),
                     SKY_OK);
    assert_int_equal(greet(&m, SKY_SUITE_AES, keys[0], &sealed, chances[2], chances[1]), SKY_OK);
    assert_int_equal(sky_peer_hello_end(&m.hello, before.answer, &m.client), SKY_E_DENIED);
}

/* Such as 1, which took an answer with an eviction class for damage, and 2, which had a sum in each
 * piece. The answer has the version of the host, by which a client of that version knows too. */
static void other_versions_are_told(void **state) {
    (void)state;
    static const uint8_t versions[] = {0, 1, 2, SKY_PEER_VERSION + 1, 255};
    meeting m;
    for (size_t i = 0; i < sizeof versions; i++) {
        assert_int_equal(greet(&m, SKY_SUITE_PLAIN, NULL, &plain, chances[0], chances[1]), SKY_OK);
        m.sent[8] = versions[i];
        assert_int_equal(sky_peer_hello_answer(m.sent, &plain, chances[1], m.answer, &m.host),
                         SKY_E_UNSUPPORTED);
        assert_hex(m.answer, "89534b595045455203000000f8ffffff");
        sky_peer_hello client = m.hello;
        assert_int_equal(sky_peer_hello_end(&client, m.answer, &m.client), SKY_E_UNSUPPORTED);
        m.answer[8] = versions[i]; /* a host of that version, whatever its verdict */
        memset(m.answer + 12, 0, 4);
        assert_int_equal(sky_peer_hello_end(&m.hello, m.answer, &m.client), SKY_E_UNSUPPORTED);
    }
    sky_peer_hello_make(&m.hello, SKY_SUITE_PLAIN, NULL, chances[0]);
    sky_peer_hello_refuse(SKY_E_BUSY, m.answer);
    assert_int_equal(sky_peer_hello_end(&m.hello, m.answer, &m.client), SKY_E_BUSY);
}

/* The vectors are from another implementation, of BLAKE2b and X25519 in Python. */
static void greetings_keep_their_bytes(void **state) {
    (void)state;
    meeting m;
    assert_int_equal(greet(&m, SKY_SUITE_AES, keys[0], &sealed, chances[0], chances[1]), SKY_OK);
    assert_hex(m.sent, "89534b59504545520300000001000000");
    assert_hex(m.sent + 16, "8d20f8c7bbfb9af3da4ef532ed44efc68ce642bc5d0c5cb1d7b91b96c74edf02"
                            "1e769d08cc27adbe44bd509223fde5e9f792ba296e8f5f0d1782fe2261db0bde");
    assert_hex(m.answer, "89534b59504545520300000000000000");
    assert_hex(m.answer + 16, "ae8b046f96cb5841c86fd8b63d3d6265b209dfa0df66bdaa42b7a9fc59779523"
                              "7c06446c3e86f6273ce02e1c6dbdcbb9d03494780b6e0e1ae72c5754e6fced4f");
    assert_hex(m.host.client_key,
               "be701fc7c7296c633d0de85e8c1fa1f989b76e1999811dc8cbafcac47128dd96");
    assert_hex(m.host.host_key, "79c3864703fce12d14f9dc44201dec675fcac109b230a9919ffc434c23658cf2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_one_key_share_secrets),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(changed_greetings_are_refused),
        cmocka_unit_test(repeated_answers_are_refused),
        cmocka_unit_test(other_versions_are_told),
        cmocka_unit_test(greetings_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
