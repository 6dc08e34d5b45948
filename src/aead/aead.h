/* The two cipher suites, AES-256-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), by
 * libcrypto. Both work in every build and on every machine: libcrypto picks the instructions. Where
 * ipsec-mb is built in and the machine has instructions for AES, it does AES-256-GCM instead: the
 * same bytes, sooner (aead_gcm.h).
 *
 *   sky_aead ─► { AES, ChaCha } × { seal, open }:  a context each, and the key it was given last
 *
 * A context keeps its key, so a run of calls under one key sets nothing but a nonce. Another key
 * costs about 130 ns more. Who seals under one key and tags under another uses two of these.
 *
 * Keys and tags are compared in constant time. What the ciphers leave in a context is wiped when it
 * is destroyed.
 *
 * Surprise: on a machine without instructions for AES, AES-256-GCM works but is slow, and its hash
 * reads tables: sky_suite_best() then says ChaCha20-Poly1305. */
#ifndef SKY_AEAD_AEAD_H
#define SKY_AEAD_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <skymem/status.h>

/* The numbers stand in datagrams and seals. */
typedef enum {
    SKY_SUITE_PLAIN,  /* no cipher but a checksum: for simulations, where there is no adversary */
    SKY_SUITE_AES,    /* AES-256-GCM */
    SKY_SUITE_CHACHA, /* ChaCha20-Poly1305 */
    SKY_SUITE_END
} sky_suite;

/* The faster suite on this machine: AES where it has instructions for it, else ChaCha. */
sky_suite sky_suite_best(void);
const char *sky_suite_name(sky_suite suite); /* "plain", "aes", "chacha" */

#define SKY_SECRET_BYTES 32
#define SKY_NONCE_BYTES  12
#define SKY_TAG_BYTES    16

typedef struct sky_aead sky_aead;

/* Allocates all it will ever need. One thread at a time uses it.
 * Owner:  the caller destroys *out
 * Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED (a libcrypto that was built without a suite) */
sky_status sky_aead_create(sky_aead **out, sky_error *error);
/* The same without ipsec-mb, to compare with. */
sky_status sky_aead_create_by_libcrypto(sky_aead **out, sky_error *error);
/* Wipes its keys. NULL is fine. */
void sky_aead_destroy(sky_aead *a);

/* What one call works under. A nonce must differ for each seal under a key. */
typedef struct {
    const uint8_t *key;   /* [SKY_SECRET_BYTES] */
    const uint8_t *nonce; /* [SKY_NONCE_BYTES] */
    const void *aad;      /* authenticated, not encrypted; at most INT_MAX bytes, as data is */
    size_t aad_bytes;
} sky_aead_input;

/* Encrypt src to dst, which is the same or does not overlap it; 0 bytes: only tag the aad. The
 * tag is over both. `suite` is not plain. */
void sky_aead_seal(sky_aead *a, sky_suite suite, const sky_aead_input *x, const uint8_t *src,
                   uint8_t *dst, size_t bytes, uint8_t tag[SKY_TAG_BYTES]);
/* Decrypt in place. False, and the data wiped, when the tag is wrong. */
bool sky_aead_open(sky_aead *a, sky_suite suite, const sky_aead_input *x, uint8_t *data,
                   size_t bytes, const uint8_t tag[SKY_TAG_BYTES]);

#endif
