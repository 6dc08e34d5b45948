/* The hashes of the project: BLAKE2b where an adversary may choose the input, SipHash where it may
 * choose what goes into a table or must not guess a short token, XXH3 against accidents. */
#ifndef SKY_BASE_HASH_H
#define SKY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The states here may lie anywhere, also in what calloc gave, which knows of 16 bytes only: what
 * needs 64 begins at the next such address within. So a state is used where it was begun, and never
 * copied. */
#define SKY_HASH_ALIGN 64u
static inline void *sky__hash_state(const void *opaque) {
    return (void *)(((uintptr_t)opaque + SKY_HASH_ALIGN - 1) & ~(uintptr_t)(SKY_HASH_ALIGN - 1));
}

/* BLAKE2b with a 32-byte digest, fed piece by piece. `key` is 32 bytes, or NULL for none.
 * The state is opaque; it needs no release. */
typedef struct {
    uint8_t opaque[384 + SKY_HASH_ALIGN];
} sky_blake2b;

void sky_blake2b_init(sky_blake2b *h, const uint8_t key[32]);
void sky_blake2b_add(sky_blake2b *h, const void *data, size_t bytes);
void sky_blake2b_end(sky_blake2b *h, uint8_t digest[32]);

/* SipHash-2-4 under a secret key (Aumasson and Bernstein, 2012). Who does not know the key cannot
 * find inputs that collide, nor guess a digest. */
typedef struct {
    uint64_t words[2];
} sky_hash_key;
uint64_t sky_siphash(const sky_hash_key *key, const void *data, size_t bytes);

/* XXH3-64 with a seed: checksums of payloads, pages, chunks. */
uint64_t sky_checksum(const void *data, size_t bytes, uint64_t seed);

/* The same, fed piece by piece (no allocation). */
typedef struct {
    uint8_t opaque[576 + SKY_HASH_ALIGN];
} sky_checksum_state;

void sky_checksum_init(sky_checksum_state *s, uint64_t seed);
void sky_checksum_add(sky_checksum_state *s, const void *data, size_t bytes);
/* Copies, and adds the copy, also where another process changes `from` meanwhile. The two do not
 * overlap. all_bytes: of the whole that this is a piece of; what is large goes past the processor's
 * caches, which then need not read the place that is written to. */
void sky_checksum_copy(sky_checksum_state *s, void *to, const void *from, size_t bytes,
                       size_t all_bytes);
uint64_t sky_checksum_end(const sky_checksum_state *s);

#endif
