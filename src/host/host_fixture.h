/* A host on a thread of a test, at a socket of its own. */
#ifndef SKY_HOST_HOST_FIXTURE_H
#define SKY_HOST_HOST_FIXTURE_H

#include <skymem/blob.h>
#include <skymem/skymem.h>

#include "io/sync.h"

typedef struct {
    sky_host_options options;
    char socket_path[64];
    const char *urls[SKY_TIERS_MAX];
    int stop, up;
    int reload; /* for a test of its own */
    void *user;
    sky_thread thread;
    sky_status status;
    sky_error error;
} sky_host_fixture;

/* The two halves of a start: options with these stores, which may be changed, and the rest. */
void sky_host_fixture_prepare(sky_host_fixture *h, const char *const *urls, size_t url_count);
void sky_host_fixture_run(sky_host_fixture *h);
/* Start one with these stores and wait until it takes clients. */
void sky_host_fixture_start(sky_host_fixture *h, const char *const *urls, size_t url_count);
/* A region of so many bytes, registered with this host. */
sky_blob *sky_host_fixture_blob(const sky_host_fixture *h, uint64_t bytes);
/* End it; it must have ended well. */
void sky_host_fixture_stop(sky_host_fixture *h);

#endif
