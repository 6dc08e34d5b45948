/* How two ends begin: whether they have the same key, and which keys they seal by then.
 *
 *   client                                              host
 *   magic, version, suite, E, mac(K; this) ───────────►
 *       ◄── magic, version, verdict, S, mac(K; hello, this)
 *
 * E, S: public keys that are made for this connection alone. Both seal by
 *   keys = H(K; DH(E, S), hello, answer), one each way
 *
 * K is the secret of both. Who records a connection and learns K later cannot read it, since E and
 * S are forgotten. Who sends a recorded hello again gets an answer, and cannot seal what must
 * follow. With the suite plain there is no key, no mac and no secret. Pure; docs/formats/peer.md
 * has the bytes. */
#ifndef SKY_TIER_PEER_HELLO_H
#define SKY_TIER_PEER_HELLO_H

#include <skymem/types.h>

#include "aead/aead.h"

#define SKY_PEER_VERSION     3u
#define SKY_PEER_HELLO_BYTES 80u /* of either */

/* What a record is sealed by. */
typedef struct {
    sky_suite suite;
    uint8_t client_key[SKY_SECRET_BYTES]; /* what the client sends */
    uint8_t host_key[SKY_SECRET_BYTES];
} sky_peer_secrets;

/* What a client keeps until it is answered. */
typedef struct {
    sky_suite suite;
    uint8_t key[SKY_SECRET_BYTES];
    uint8_t private_key[32];
    uint8_t hello[SKY_PEER_HELLO_BYTES];
} sky_peer_hello;

/* Begin. key: NULL with the suite plain. chance: 32 bytes that nobody can guess, for this alone. */
void sky_peer_hello_make(sky_peer_hello *h, sky_suite suite, const uint8_t *key,
                         const uint8_t chance[32]);
/* A host's answer came. Wipes *h.
 * Errors: SKY_E_CORRUPT (it is no host), SKY_E_UNSUPPORTED (of another version), SKY_E_DENIED (it
 *         has not the key, or says that we have not), SKY_E_BUSY, and what else it refuses with */
sky_status sky_peer_hello_end(sky_peer_hello *h, const uint8_t answer[SKY_PEER_HELLO_BYTES],
                              sky_peer_secrets *out);

/* What a host takes. */
typedef struct {
    const uint8_t (*keys)[SKY_SECRET_BYTES];
    size_t key_count;
    bool plain;
} sky_peer_rules;

/* Answer a hello; `answer` is to be sent in any case.
 * Errors: SKY_E_CORRUPT (it is no hello), SKY_E_UNSUPPORTED (another version), SKY_E_DENIED (not
 *         made with one of the keys, or plain where that is not taken): end the connection */
sky_status sky_peer_hello_answer(const uint8_t hello[SKY_PEER_HELLO_BYTES],
                                 const sky_peer_rules *rules, const uint8_t chance[32],
                                 uint8_t answer[SKY_PEER_HELLO_BYTES], sky_peer_secrets *out);
/* The answer to a connection for which there is no place. */
void sky_peer_hello_refuse(sky_status why, uint8_t answer[SKY_PEER_HELLO_BYTES]);

#endif
