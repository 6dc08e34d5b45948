/* AES-256-GCM by Intel's ipsec-mb, for aead.c alone: the same bytes as libcrypto's, several times
 * sooner where data is as short as a datagram. A build has it where the library is installed
 * (x86-64 only), a process where the machine has instructions for AES. */
#ifndef SKY_AEAD_AEAD_GCM_H
#define SKY_AEAD_AEAD_GCM_H

#include "aead/aead.h"

typedef struct sky__gcm sky__gcm;

/* NULL: there is none here, or no memory for it; then libcrypto does as well. */
sky__gcm *sky__gcm_create(void);
void sky__gcm_destroy(sky__gcm *g);
/* The key of what follows; the input's is not looked at. */
void sky__gcm_set_key(sky__gcm *g, const uint8_t key[SKY_SECRET_BYTES]);
void sky__gcm_seal(const sky__gcm *g, const sky_aead_input *x, const uint8_t *src, uint8_t *dst,
                   size_t bytes, uint8_t tag[SKY_TAG_BYTES]);
/* Decrypts before anybody knows whether it is right: `tag` is what it should be. */
void sky__gcm_open(const sky__gcm *g, const sky_aead_input *x, uint8_t *data, size_t bytes,
                   uint8_t tag[SKY_TAG_BYTES]);

#endif
