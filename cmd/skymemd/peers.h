/* What of the command line is about other hosts, and the server that it makes. */
#ifndef SKYMEMD_PEERS_H
#define SKYMEMD_PEERS_H

#include <jansson.h>

#include <skymem/skymem.h>

typedef struct {
    sky_peer_options options; /* address NULL: no other hosts are served */
    const char *keys[SKY_PEER_KEYS_MAX];
    sky_peer_server *server; /* NULL: none */
} daemon_peers;

/* These two say what is wrong, and return an exit code. */
int peers_add_key(daemon_peers *p, const char *path);
int peers_check(const daemon_peers *p);

/* Errors: as of sky_peer_serve; without an address nothing happens */
sky_status peers_start(daemon_peers *p, sky_cache *cache, sky_error *error);
void peers_stop(daemon_peers *p);
json_t *peers_json(const daemon_peers *p);

#endif
