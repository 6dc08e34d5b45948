/* AES-256-GCM by the faster of two libraries, with the same bytes from either.
 *
 *   sky_gcm_key ─► ipsec-mb: VAES and VPCLMULQDQ, AVX2 or SSE, whatever the machine has
 *              └─► libsodium: where the other is not built in, as on ARM, or fails to start
 *
 * Which one is chosen when a key is made and kept in the key. Neither works on a machine without
 * instructions for AES: sky_gcm_works() says so.
 *
 * Surprise: a key must lie on 64 bytes, and so must all that contains one. */
#ifndef SKY_WIRE_GCM_H
#define SKY_WIRE_GCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKY_GCM_SECRET_BYTES 32
#define SKY_GCM_NONCE_BYTES  12
#define SKY_GCM_TAG_BYTES    16

/* Expanded: round keys and powers of the hash key. Fields are gcm.c's own. */
typedef struct {
    _Alignas(64) uint8_t expanded[1024];
    const void *library; /* NULL: libsodium's */
} sky_gcm_key;

bool sky_gcm_works(void);
const char *sky_gcm_library(void); /* "ipsec-mb", "libsodium" */

void sky_gcm_key_init(sky_gcm_key *k, const uint8_t secret[SKY_GCM_SECRET_BYTES]);
/* The same by libsodium, whatever else there is: to compare with. */
void sky_gcm_key_init_plainly(sky_gcm_key *k, const uint8_t secret[SKY_GCM_SECRET_BYTES]);

/* Encrypt in place; the tag is over `aad` and what came of it. A nonce must differ for each use. */
void sky_gcm_seal(const sky_gcm_key *k, const uint8_t nonce[SKY_GCM_NONCE_BYTES], const void *aad,
                  size_t aad_bytes, uint8_t *data, size_t bytes, uint8_t tag[SKY_GCM_TAG_BYTES]);
/* Decrypt in place. False, and no data, when the tag is wrong. */
bool sky_gcm_open(const sky_gcm_key *k, const uint8_t nonce[SKY_GCM_NONCE_BYTES], const void *aad,
                  size_t aad_bytes, uint8_t *data, size_t bytes,
                  const uint8_t tag[SKY_GCM_TAG_BYTES]);

#endif
