/* GMAC under AES-256: the tag of AES-256-GCM over associated data alone, of many datagrams of one
 * length at once. The same tags as wire/gcm.h gives, sooner.
 *
 *   | datagram 0 | tag | datagram 1 | tag | …          each: Σ block_i · H^(n+1−i)  +  AES(nonce)
 *
 * A library must take one block after the other in, or keep few powers of H. Here lengths are known
 * and short: a key keeps all powers a datagram needs, so all its blocks are multiplied
 * independently, and reduced once. Four datagrams go side by side: what each does once at its end
 * (a reduction, an AES block) is done for four in the time of one.
 *
 * Surprise: it works only with VPCLMULQDQ and VAES on 512 bits; sky_gmac_works() says so. */
#ifndef SKY_WIRE_GMAC_H
#define SKY_WIRE_GMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKY_GMAC_SECRET_BYTES 32
#define SKY_GMAC_TAG_BYTES    16
#define SKY_GMAC_GROUPS       20 /* of four powers */
#define SKY_GMAC_BYTES_MAX    (SKY_GMAC_GROUPS * 64)

/* Group g holds H^(4g+5) … H^(4g+2); H itself is for the lengths, the last block. */
typedef struct {
    _Alignas(64) uint8_t powers[SKY_GMAC_GROUPS][64];
    uint8_t round_keys[15][16];
    uint8_t h[16];
} sky_gmac_key;

bool sky_gmac_works(void);
void sky_gmac_key_init(sky_gmac_key *k, const uint8_t secret[SKY_GMAC_SECRET_BYTES]);

/* Tags of `count` datagrams of `bytes` (at most SKY_GMAC_BYTES_MAX) each, SKY_GMAC_TAG_BYTES apart;
 * tag i goes as far behind tags as datagram i lies behind data. The nonce of datagram i is 4 zero
 * bytes and counter + i, which must differ for each use of the key. */
void sky_gmac_row(const sky_gmac_key *k, uint64_t counter, const uint8_t *data, size_t bytes,
                  uint32_t count, uint8_t *tags);

#endif
