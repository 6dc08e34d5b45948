/* AEGIS-256X4 (draft-irtf-cfrg-aegis-aead) by libaegis: an AEAD made of nothing but AES rounds,
 * four of its states side by side, so that they fill the widest registers there are. With AES
 * instructions 512 bits wide it is more than twice as fast as AES-256-GCM, with narrower ones a
 * little slower.
 *
 * Keys and nonces are 256 bits; a nonce must differ for each use of its key.
 *
 * Surprise: a build without libaegis (tools/get-aegis) has none of it. */
#ifndef SKY_WIRE_AEGIS_H
#define SKY_WIRE_AEGIS_H

#include <stdbool.h>

#include "wire/pieces.h"

#define SKY_AEGIS_SECRET_BYTES 32
#define SKY_AEGIS_NONCE_BYTES  32
#define SKY_AEGIS_TAG_BYTES    16

/* Is it built in? If so, it is made ready, which must happen before the first use. */
bool sky_aegis_works(void);
/* ... and has this machine the instructions that make it the fastest? */
bool sky_aegis_is_fast(void);

typedef struct {
    const uint8_t *key;   /* [SKY_AEGIS_SECRET_BYTES] */
    const uint8_t *nonce; /* [SKY_AEGIS_NONCE_BYTES] */
    const void *aad;
    size_t aad_bytes;
} sky_aegis_context;

/* Encrypt in place; the tag is over `aad` and the data. */
void sky_aegis_seal(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                    uint8_t tag[SKY_AEGIS_TAG_BYTES]);
/* The same, from `data` to byte `offset` and on of a message in pieces: sealed and cut at once. */
void sky_aegis_seal_into(const sky_aegis_context *x, const uint8_t *data, size_t bytes,
                         const sky_pieces *to, uint32_t offset, uint8_t tag[SKY_AEGIS_TAG_BYTES]);
/* Decrypt in place. False, and the data wiped, when the tag is wrong or nothing is built in. */
bool sky_aegis_open(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                    const uint8_t tag[SKY_AEGIS_TAG_BYTES]);

#endif
