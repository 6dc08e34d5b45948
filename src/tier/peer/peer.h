/* The tier of another host's store, or of those of several: docs/formats/peer.md has their bytes.
 *
 *   submit ──► a job for each lane ──► frames ──► host
 *                  │ put: payloads out of the spans     │
 *                  └ get: payloads into the spans ◄─────┘
 *
 *   skymem://HOST:PORT?key=FILE[&connections=N&cipher=aes|chacha]
 *   skymem://HOST:PORT?…&transport=fabric&provider=NAME    over libfabric instead of TCP
 *   skymem://HOST:PORT?plain=yes[&…]      neither encrypted nor authenticated, only if asked for
 *   skymem://?peers=FILE[&…]              several hosts: set.c, peers_file.h
 *
 * A lane is one connection and its thread. A key always goes over the same lane, so that operations
 * on it stay in order. A lane connects when it has something to do; when its connection ends, what
 * was under way there ends with SKY_E_IO.
 *
 * Difference from other tiers: a put or a removal that was cancelled, or is past its deadline, may
 * still take effect when the host had it already. Later operations on the key come after it, unless
 * the connection broke in between. Of several hosts that take puts none has the tree of blocks:
 * they lie there without parents, and REMOVE takes one key. */
#ifndef SKY_TIER_PEER_PEER_H
#define SKY_TIER_PEER_PEER_H

#include "tier/tier.h"

/* Connects once, so that a wrong address or key shows here. With away=yes nobody need be there yet;
 * a wrong key still shows if somebody is. With away=later nobody is waited for: the first operation
 * connects, within its deadline. Of several hosts one that answers is enough.
 * Errors: SKY_E_SYNTAX, those of sky_secret_read; SKY_E_IO (nobody listens there, or it is gone),
 *         SKY_E_DEADLINE, SKY_E_DENIED (another key), SKY_E_CORRUPT (it is no host),
 *         SKY_E_UNSUPPORTED (another version, or no such transport or cipher here), SKY_E_BUSY */
sky_status sky_peer_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                              sky_error *error);

#endif
