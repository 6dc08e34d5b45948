/* Serving a cache to other hosts, as stores `skymem://HOST:PORT` of theirs, over TCP or libfabric.
 *
 *   host A                                     host B
 *   sky_peer_serve(cache, …) ◄─ TCP, sealed ── sky_cache_open("skymem://A:7700?key=FILE", …)
 *
 * skymemd --listen is this, over the cache of a host's store (skymem/host.h). */
#ifndef SKYMEM_PEER_H
#define SKYMEM_PEER_H

#include <skymem/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_PEER_CONNECTIONS_MAX 128 /* at once; each has a thread */
#define SKY_PEER_KEYS_MAX        16

/* Zero what you do not set. */
typedef struct {
    size_t struct_bytes;          /* sizeof(sky_peer_options) of the caller's header */
    const char *address;          /* "PORT" of 127.0.0.1, or "HOST:PORT"; port 0: any */
    const char *const *key_paths; /* files of 64 hexadecimal digits that only their owner reads.
                                     Who has one of these keys is served, all of them alike */
    size_t key_count;
    bool plain;            /* take connections that are neither encrypted nor authenticated, too */
    const char *transport; /* "tcp" (NULL too), or "fabric:PROVIDER": over libfabric, where this
                              build has it, by its provider of that name, such as tcp or verbs */
} sky_peer_options;

/* What a server has counted. */
typedef struct {
    uint64_t connections;  /* now */
    uint64_t accepted;     /* so far: those that had a key, or were plain where that is taken */
    uint64_t denied;       /* no or another key, no hello in time, another version */
    uint64_t refused;      /* for want of a place */
    uint64_t disconnected; /* for what they sent, or did not read */
    uint64_t sent_bytes;   /* of payloads */
    uint64_t received_bytes;
} sky_peer_stat;

typedef struct sky_peer_server sky_peer_server;

/* Serve a cache, on threads of its own, until sky_peer_stop. Its nearest tier must lease, as mem
 * does. Its tiers that are other hosts' (skymem://) take no part, so that two hosts may have each
 * other; who has such tiers cannot be listed and verified by others.
 * fork:   it serves in this process alone. In a child its counts are zeros, and sky_peer_stop does
 *         nothing
 * Owner:  options are copied; the cache stays the caller's, and must stay open
 * Errors: SKY_E_PARAM (NULL, neither key nor plain, too many keys, a cache whose nearest tier does
 *         not lease), SKY_E_SYNTAX (the address; a fabric: without a provider), SKY_E_BUSY (it is
 *         taken), SKY_E_UNSUPPORTED (no such transport), SKY_E_DENIED and SKY_E_CORRUPT (a key's
 *         file), SKY_E_IO, SKY_E_NOMEM, SKY_E_FORKED (the cache is of a parent process); `error`
 *         says what and why */
SKY_API sky_status sky_peer_serve(sky_cache *cache, const sky_peer_options *options,
                                  sky_peer_server **out, sky_error *error);
/* Where it listens, as "ADDRESS:PORT"; "" of NULL. Lives as long as the server. */
SKY_API const char *sky_peer_address(const sky_peer_server *server);
/* Zeros of NULL. */
SKY_API void sky_peer_stats(sky_peer_server *server, sky_peer_stat *out);
/* End all connections. What they had under way in the cache is cancelled; while one of them
 * verifies it, so is every sky_verify of it. NULL is fine. */
SKY_API void sky_peer_stop(sky_peer_server *server);

#ifdef __cplusplus
}
#endif
#endif
