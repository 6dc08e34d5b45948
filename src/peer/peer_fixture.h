/* A server over a cache of its own, for tests. */
#ifndef SKY_PEER_PEER_FIXTURE_H
#define SKY_PEER_PEER_FIXTURE_H

#include <skymem/skymem.h>

typedef struct {
    sky_cache *cache;
    sky_peer_server *server;
    char key_path[64]; /* of what it takes */
} sky_peer_fixture;

/* By what connections of fixtures are carried from now on: "tcp", as at first, or "fabric:tcp".
 * False: not on this machine, and it prints why. */
bool sky_peer_fixture_carry(const char *word);
const char *sky_peer_fixture_carrier(void);
/* What a URL needs for that, with a "&" before it; or "". */
const char *sky_peer_fixture_query(void);

/* Start one over these stores, at a port of its own. sealed: by a new key, else plain alone. */
void sky_peer_fixture_start(sky_peer_fixture *p, const char *const *urls, size_t url_count,
                            bool sealed);
void sky_peer_fixture_stop(sky_peer_fixture *p);
/* The URL of it as a tier, with more of a query behind (NULL: nothing). */
void sky_peer_fixture_url(const sky_peer_fixture *p, const char *more, char out[256]);

#endif
