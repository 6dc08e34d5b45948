/* Tags on datagrams and seals on chunks.
 *
 *   constellation key ──BLAKE2b(from, to, epoch, suite)─► link key ─► tag over a whole datagram
 *   tenant key ──BLAKE2b(suite, session's salt)──► seal key ─► ciphertext ‖ salt, counter, tag
 *   tenant key ──BLAKE2b("names: ")──────────────► name key ─► a block's name in the sky
 *
 * The tag authenticates and hides nothing: chunks are sealed already, and an AEAD over nothing but
 * associated data costs less than one that encrypts what is ciphertext anyway. A link key lives for
 * one start of one sender, and its nonce is the datagram's counter: no pair is ever used twice.
 *
 * A seal's nonce counts what the session sealed, under a key of that session, and travels with the
 * chunk. No two seals share a nonce, whatever is sealed and under whatever name: a second copy has
 * its own, and so has a chunk repaired for another session. The chunk's name is authenticated with
 * the bytes: the right ciphertext under another name does not open.
 *
 * Each suite has keys of its own, so that no nonce meets the same key in both. A datagram and a
 * seal name their suite; which are taken is the receiver's to say (sky_suites). */
#ifndef SKY_WIRE_SEAL_H
#define SKY_WIRE_SEAL_H

#include "aead/aead.h"
#include "wire/message.h"
#include "wire/pieces.h"

/* Which suites a station uses. */
typedef struct {
    sky_suite own; /* of what it sends and seals */
    bool both;     /* it takes AES and ChaCha, whichever it sends; else its own alone */
} sky_suites;

/* Of a station that was configured to use `wanted` alone; plain: both, and its own is the best. */
sky_suites sky_suites_wanted(sky_suite wanted);
/* Plain is taken only where it is one's own. */
bool sky_suites_take(sky_suites s, sky_suite suite);

/* A key, and the suite it is for. */
typedef struct {
    uint8_t bytes[SKY_SECRET_BYTES];
    sky_suite suite;
} sky_cipher_key;

/* Derive the key called `name` (at most 64 bytes, which name the suite) from a secret. */
void sky_cipher_key_init(sky_cipher_key *k, sky_suite suite, const uint8_t secret[SKY_SECRET_BYTES],
                         const void *name, size_t name_bytes);
void sky_cipher_key_wipe(sky_cipher_key *k);

/* The tag of some bytes; `counter` must differ for each use of the key. `a` is not used where the
 * key's suite is plain, here and in all that follows. */
void sky_tag_make(sky_aead *a, const sky_cipher_key *k, uint64_t counter, const void *data,
                  size_t bytes, uint8_t tag[SKY_TAG_BYTES]);
bool sky_tag_check(sky_aead *a, const sky_cipher_key *k, uint64_t counter, const void *data,
                   size_t bytes, const uint8_t tag[SKY_TAG_BYTES]);

/* ---- chunks ---- */

#define SKY_SEAL_BYTES       40 /* what a sealed chunk is longer by */
#define SKY_SEAL_SALT_BYTES  15
#define SKY_SEAL_OPENERS_MAX 8 /* keys of other sessions kept ready */

typedef struct {
    sky_cipher_key key;
    uint8_t salt[SKY_SEAL_SALT_BYTES];
} sky_seal_session;

/* A tenant's ground session. Fields are seal.c's own. */
typedef struct {
    sky_aead *aead;
    sky_suites suites;
    uint8_t secret[SKY_SECRET_BYTES];
    uint8_t names[SKY_SECRET_BYTES]; /* the key of names */
    uint8_t tenant[SKY_TENANT_BYTES];
    sky_seal_session own;
    uint64_t counter; /* of what `own` sealed */
    sky_seal_session others[SKY_SEAL_OPENERS_MAX];
    uint32_t other_next, other_count;
    uint64_t forged; /* chunks that did not open */
} sky_seal;

/* `salt` is fresh random bytes: two sessions of a tenant must not share it.
 * Owner: `a` is the caller's and must outlive the session; not the one that makes tags, for each
 *        would take the other's key out of it */
void sky_seal_init(sky_seal *s, sky_aead *a, sky_suites suites,
                   const uint8_t secret[SKY_SECRET_BYTES], const uint8_t salt[SKY_SEAL_SALT_BYTES]);
void sky_seal_deinit(sky_seal *s);

/* Go on under a key of another salt, if anything was sealed under this one. What was opens still.
 * Two copies of a process (a virtual machine that was copied while it ran) count on from the same
 * counter under the same key: each is safe from its next renewal on. */
void sky_seal_renew(sky_seal *s, const uint8_t salt[SKY_SEAL_SALT_BYTES]);

/* The name of a block in the sky: SKY_TENANT_BYTES that are the tenant's in all its names, then a
 * hash of its key under the tenant's key. Two tenants never share a name, and who has not the
 * tenant's key cannot tell which key a name belongs to. Sessions of one tenant agree on it. The key
 * of 32 zero bytes stays as it is. */
void sky_seal_name(const sky_seal *s, const sky_key *key, sky_key *name);

/* Seal the chunk in a message this side encoded, in place; one without stays as it is. The chunk's
 * checksum is made of the seal's tag: who can verify it at all verifies every byte.
 * Errors: SKY_E_DST_SMALL (needs SKY_SEAL_BYTES more) */
sky_status sky_seal_message(sky_seal *s, uint8_t *bytes, size_t bytes_max, size_t *byte_count);

/* How long a message will be that this seals. */
size_t sky_seal_message_bytes(const uint8_t *bytes, size_t byte_count);
/* Seal it on the way to where it lies in pieces, with room for sky_seal_message_bytes; one without
 * a chunk is copied. `chunk` is where its chunk lies, NULL: in the message. `bytes` is scratch
 * afterwards. */
void sky_seal_into(sky_seal *s, uint8_t *bytes, size_t byte_count, const uint8_t *chunk,
                   const sky_pieces *to);

/* Open the chunk in a message that came, in place; one without passes. SKY_OK is what stands for
 * the checksum from here on: the message's own is 0. Of one that does not open the chunk may be
 * wiped, and nothing in it, its checksum included, says that it is right.
 * Errors: SKY_E_CORRUPT (no message; or not sealed by this tenant, by a suite this session takes:
 *         counted in `forged`) */
sky_status sky_seal_open(sky_seal *s, uint8_t *bytes, size_t *byte_count);

#endif
