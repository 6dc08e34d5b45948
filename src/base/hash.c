#include "base/hash.h"

#include <assert.h>
#include <string.h>

#include <sodium.h>
#define XXH_STATIC_LINKING_ONLY
#include "base/bytes.h"
#include "base/hash_avx2.h"
#include <xxhash.h>

#define COPY_BYTES 4096u /* checksummed while still in the core's nearest cache */

static_assert(sizeof(crypto_generichash_state) <= sizeof(sky_blake2b), "BLAKE2b state fits");
static_assert(sizeof(XXH3_state_t) <= sizeof(sky_checksum_state), "XXH3 state fits");

static crypto_generichash_state *blake2b_state(sky_blake2b *h) {
    return (crypto_generichash_state *)(void *)h->opaque;
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

/* The same sums at another speed: hash_avx2.c where this processor has what it is compiled for,
 * else the library. 512-bit vectors were measured to be no faster. */
#if defined(__x86_64__) && !defined(XXH_INLINE_ALL)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
#define CHOOSE(avx2, other) (has_avx2() ? (avx2) : (other))
#else
#define CHOOSE(avx2, other) (other)
#endif

uint64_t sky_checksum(const void *data, size_t bytes, uint64_t seed) {
    return CHOOSE(sky__checksum_avx2, XXH3_64bits_withSeed)(data, bytes, seed);
}

static XXH3_state_t *checksum_state(sky_checksum_state *s) {
    return (XXH3_state_t *)(void *)s->opaque;
}

void sky_checksum_init(sky_checksum_state *s, uint64_t seed) {
    XXH3_INITSTATE(checksum_state(s));
    XXH3_64bits_reset_withSeed(checksum_state(s), seed);
}

static void checksum_add_plain(sky_checksum_state *s, const void *data, size_t bytes) {
    XXH3_64bits_update(checksum_state(s), data, bytes);
}

void sky_checksum_add(sky_checksum_state *s, const void *data, size_t bytes) {
    CHOOSE(sky__checksum_add_avx2, checksum_add_plain)(s, data, bytes);
}

static void checksum_copy_plain(sky_checksum_state *s, void *to, const void *from, size_t bytes) {
    const uint8_t *source = from;
    for (uint8_t *at = to; bytes > 0;) {
        const size_t piece = bytes < COPY_BYTES ? bytes : COPY_BYTES;
        memcpy(at, source, piece);
        checksum_add_plain(s, at, piece);
        at += piece;
        source += piece;
        bytes -= piece;
    }
}

void sky_checksum_copy(sky_checksum_state *s, void *to, const void *from, size_t bytes) {
    CHOOSE(sky__checksum_copy_avx2, checksum_copy_plain)(s, to, from, bytes);
}

uint64_t sky_checksum_end(const sky_checksum_state *s) {
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)s->opaque);
}
