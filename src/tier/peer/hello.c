#include "tier/peer/hello.h"

#include <string.h>

#include <sodium.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"

#define MAGIC UINT64_C(0x52454550594b5389) /* 0x89 "SKYPEER" */

enum { WORD_AT = 12, PUBLIC_AT = 16, MAC_AT = 48 };

_Static_assert(MAC_AT + 32 == SKY_PEER_HELLO_BYTES, "the mac is last");
_Static_assert(crypto_scalarmult_BYTES == 32 && crypto_scalarmult_SCALARBYTES == 32, "X25519");

/* magic, version, a word and a public key (NULL: zeros); the mac is zero. */
static void write_head(uint8_t out[SKY_PEER_HELLO_BYTES], uint32_t word, const uint8_t *public) {
    memset(out, 0, SKY_PEER_HELLO_BYTES);
    sky_store_u64(out, MAGIC);
    sky_store_u32(out + 8, SKY_PEER_VERSION);
    sky_store_u32(out + WORD_AT, word);
    if (public)
        memcpy(out + PUBLIC_AT, public, 32);
}

static void keyed_hash(const uint8_t *key, const char *label, const void *a, size_t a_bytes,
                       const void *b, size_t b_bytes, uint8_t out[32]) {
    sky_blake2b h;
    sky_blake2b_init(&h, key);
    sky_blake2b_add(&h, label, strlen(label) + 1);
    sky_blake2b_add(&h, a, a_bytes);
    sky_blake2b_add(&h, b, b_bytes);
    sky_blake2b_end(&h, out);
    sodium_memzero(&h, sizeof h);
}

static void hello_mac(const uint8_t *key, const uint8_t *hello, uint8_t out[32]) {
    keyed_hash(key, "skymem peer hello", hello, MAC_AT, NULL, 0, out);
}

static void answer_mac(const uint8_t *key, const uint8_t *hello, const uint8_t *answer,
                       uint8_t out[32]) {
    keyed_hash(key, "skymem peer answer", hello, SKY_PEER_HELLO_BYTES, answer, MAC_AT, out);
}

/* False: the other's public key is none. */
static bool make_secrets(const uint8_t *key, const uint8_t private_key[32], const uint8_t other[32],
                         const uint8_t *hello, const uint8_t *answer, sky_peer_secrets *out) {
    uint8_t shared[32], root[32];
    if (crypto_scalarmult(shared, private_key, other) != 0)
        return false;
    keyed_hash(key, "skymem peer shared", shared, sizeof shared, hello, SKY_PEER_HELLO_BYTES, root);
    keyed_hash(root, "skymem peer client", answer, SKY_PEER_HELLO_BYTES, NULL, 0, out->client_key);
    keyed_hash(root, "skymem peer host", answer, SKY_PEER_HELLO_BYTES, NULL, 0, out->host_key);
    sodium_memzero(shared, sizeof shared);
    sodium_memzero(root, sizeof root);
    return true;
}

static sky_status check_head(const uint8_t *data) {
    if (sky_load_u64(data) != MAGIC)
        return SKY_E_CORRUPT;
    return sky_load_u32(data + 8) == SKY_PEER_VERSION ? SKY_OK : SKY_E_UNSUPPORTED;
}

static bool all_zero(const uint8_t *data, size_t bytes) {
    return sodium_is_zero(data, bytes);
}

/* ---- the client ---- */

void sky_peer_hello_make(sky_peer_hello *h, sky_suite suite, const uint8_t *key,
                         const uint8_t chance[32]) {
    uint8_t public[32];
    *h = (sky_peer_hello){.suite = suite};
    if (suite == SKY_SUITE_PLAIN) {
        write_head(h->hello, suite, NULL);
        return;
    }
    memcpy(h->key, key, sizeof h->key);
    memcpy(h->private_key, chance, sizeof h->private_key);
    (void)crypto_scalarmult_base(public, h->private_key);
    write_head(h->hello, suite, public);
    hello_mac(h->key, h->hello, h->hello + MAC_AT);
}

static sky_status check_answer(const sky_peer_hello *h, const uint8_t *answer,
                               sky_peer_secrets *out) {
    uint8_t mac[32];
    sky_status status = check_head(answer);
    if (status != SKY_OK)
        return status;
    sky_status verdict = (sky_status)(int32_t)sky_load_u32(answer + WORD_AT);
    if (verdict != SKY_OK)
        return sky_status_is_known(verdict) && verdict != SKY_PENDING ? verdict : SKY_E_CORRUPT;
    out->suite = h->suite;
    if (h->suite == SKY_SUITE_PLAIN)
        return all_zero(answer + PUBLIC_AT, SKY_PEER_HELLO_BYTES - PUBLIC_AT) ? SKY_OK
                                                                              : SKY_E_CORRUPT;
    answer_mac(h->key, h->hello, answer, mac);
    bool knows = sodium_memcmp(mac, answer + MAC_AT, sizeof mac) == 0;
    return knows && make_secrets(h->key, h->private_key, answer + PUBLIC_AT, h->hello, answer, out)
               ? SKY_OK
               : SKY_E_DENIED;
}

sky_status sky_peer_hello_end(sky_peer_hello *h, const uint8_t answer[SKY_PEER_HELLO_BYTES],
                              sky_peer_secrets *out) {
    sky_status status = check_answer(h, answer, out);
    sodium_memzero(h, sizeof *h);
    return status;
}

/* ---- the host ---- */

void sky_peer_hello_refuse(sky_status why, uint8_t answer[SKY_PEER_HELLO_BYTES]) {
    write_head(answer, (uint32_t)why, NULL);
}

/* The key that a hello was made with, or NULL. */
static const uint8_t *find_key(const uint8_t *hello, const sky_peer_rules *rules) {
    const uint8_t *found = NULL;
    uint8_t mac[32];
    for (size_t i = 0; i < rules->key_count; i++) {
        hello_mac(rules->keys[i], hello, mac);
        if (sodium_memcmp(mac, hello + MAC_AT, sizeof mac) == 0)
            found = rules->keys[i];
    }
    return found;
}

static sky_status answer_sealed(const uint8_t *hello, const uint8_t *key, const uint8_t chance[32],
                                uint8_t *answer, sky_peer_secrets *out) {
    uint8_t public[32];
    (void)crypto_scalarmult_base(public, chance);
    write_head(answer, SKY_OK, public);
    answer_mac(key, hello, answer, answer + MAC_AT);
    return make_secrets(key, chance, hello + PUBLIC_AT, hello, answer, out) ? SKY_OK : SKY_E_DENIED;
}

static sky_status take_hello(const uint8_t *hello, const sky_peer_rules *rules,
                             const uint8_t chance[32], uint8_t *answer, sky_peer_secrets *out) {
    sky_status status = check_head(hello);
    uint32_t suite = sky_load_u32(hello + WORD_AT);
    if (status != SKY_OK)
        return status;
    if (suite >= SKY_SUITE_END)
        return SKY_E_UNSUPPORTED;
    out->suite = (sky_suite)suite;
    if (suite != SKY_SUITE_PLAIN) {
        const uint8_t *key = find_key(hello, rules);
        return key ? answer_sealed(hello, key, chance, answer, out) : SKY_E_DENIED;
    }
    if (!all_zero(hello + PUBLIC_AT, SKY_PEER_HELLO_BYTES - PUBLIC_AT))
        return SKY_E_CORRUPT;
    write_head(answer, SKY_OK, NULL);
    return rules->plain ? SKY_OK : SKY_E_DENIED;
}

sky_status sky_peer_hello_answer(const uint8_t hello[SKY_PEER_HELLO_BYTES],
                                 const sky_peer_rules *rules, const uint8_t chance[32],
                                 uint8_t answer[SKY_PEER_HELLO_BYTES], sky_peer_secrets *out) {
    sky_status status = take_hello(hello, rules, chance, answer, out);
    if (status != SKY_OK)
        sky_peer_hello_refuse(status, answer);
    return status;
}
