/* Which host's store an URL names: shm:SOCKET[?user=NAME&pool=NAME&tier=N&evict=CLASS], or
 * shm:auto, the user's own, which is started where it is first used. */
#ifndef SKY_TIER_SHM_PLACE_H
#define SKY_TIER_SHM_PLACE_H

#include <skymem/types.h>

#include "io/local.h"
#include "tier/shm/link.h"

typedef struct {
    char path[SKY_LOCAL_PATH_BYTES_MAX + 1];
    uint32_t user;  /* whose host it may be, besides this user's and root's */
    bool automatic; /* it is started if nobody listens there */
    uint8_t evict;  /* the class of puts that name none */
    sky__shm_part part;
} sky__shm_place;

/* Errors: SKY_E_SYNTAX, SKY_E_DENIED (the folder of shm:auto is another's); `error` says why */
sky_status sky__shm_place_read(const char *url, sky__shm_place *out, sky_error *error);

/* A connection to it; waits at most until `until`, and for a start of its own. Errors: those of
 * sky__shm_link_open; `error` is set where a start failed */
sky_status sky__shm_place_open(const sky__shm_place *p, sky_time until, sky__shm_link **out,
                               sky_error *error);

/* What to do when that failed. */
const char *sky__shm_place_advice(sky_status status);

#endif
