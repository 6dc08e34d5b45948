/* A host on a thread of a test, at a socket of its own. */
#ifndef SKY_HOST_HOST_FIXTURE_H
#define SKY_HOST_HOST_FIXTURE_H

#include <skymem/skymem.h>

#include "io/sync.h"

typedef struct {
    sky_host_options options;
    char socket_path[64];
    const char *urls[SKY_TIERS_MAX];
    int stop, up;
    sky_thread thread;
    sky_status status;
    sky_error error;
} sky_host_fixture;

/* Start one with these stores and wait until it takes clients. */
void sky_host_fixture_start(sky_host_fixture *h, const char *const *urls, size_t url_count);
/* End it; it must have ended well. */
void sky_host_fixture_stop(sky_host_fixture *h);

#endif
