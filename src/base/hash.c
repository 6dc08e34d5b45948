#include "base/hash.h"

#include <assert.h>

#include <sodium.h>

#include "base/bytes.h"

static_assert(sizeof(crypto_generichash_state) + SKY_HASH_ALIGN <= sizeof(sky_blake2b),
              "BLAKE2b state fits");

static crypto_generichash_state *blake2b_state(sky_blake2b *h) {
    return sky__hash_state(h->opaque);
}

void sky_blake2b_init(sky_blake2b *h, const uint8_t key[32]) {
    int rc = crypto_generichash_init(blake2b_state(h), key, key ? 32 : 0, 32);
    assert(rc == 0);
    (void)rc;
}

void sky_blake2b_add(sky_blake2b *h, const void *data, size_t bytes) {
    crypto_generichash_update(blake2b_state(h), data, bytes);
}

void sky_blake2b_end(sky_blake2b *h, uint8_t digest[32]) {
    crypto_generichash_final(blake2b_state(h), digest, 32);
}

typedef struct {
    uint64_t a, b, c, d;
} sip;

static uint64_t rotate_left(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

static void sip_round(sip *s) {
    s->a += s->b, s->b = rotate_left(s->b, 13) ^ s->a, s->a = rotate_left(s->a, 32);
    s->c += s->d, s->d = rotate_left(s->d, 16) ^ s->c;
    s->a += s->d, s->d = rotate_left(s->d, 21) ^ s->a;
    s->c += s->b, s->b = rotate_left(s->b, 17) ^ s->c, s->c = rotate_left(s->c, 32);
}

static void sip_add(sip *s, uint64_t word) {
    s->d ^= word;
    sip_round(s);
    sip_round(s);
    s->a ^= word;
}

/* Our own, since a satellite has no library to take it from. */
uint64_t sky_siphash(const sky_hash_key *key, const void *data, size_t bytes) {
    const uint8_t *p = data;
    sip s = {key->words[0] ^ 0x736f6d6570736575, key->words[1] ^ 0x646f72616e646f6d,
             key->words[0] ^ 0x6c7967656e657261, key->words[1] ^ 0x7465646279746573};
    uint64_t last = (uint64_t)bytes << 56;
    for (; bytes >= 8; p += 8, bytes -= 8)
        sip_add(&s, sky_load_u64(p));
    for (size_t i = 0; i < bytes; i++)
        last |= (uint64_t)p[i] << 8 * i;
    sip_add(&s, last);
    s.c ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}
