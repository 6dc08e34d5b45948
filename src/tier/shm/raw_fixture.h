/* Frames by hand, for tests that are a client or a host themselves: over the socket until the
 * welcome, and then in the rings. A connection is its socket. */
#ifndef SKY_TIER_SHM_RAW_FIXTURE_H
#define SKY_TIER_SHM_RAW_FIXTURE_H

#include "io/ring.h"
#include "tier/shm/frame.h"

/* Sockets below this number. */
#define SKY_RAW_MAX 2048

/* Say HELLO, and hear WELCOME, INDEX and PAGE. */
void sky_raw_greet(int fd);
/* The host's side: make the ring, and say this WELCOME. */
void sky_raw_welcome(int fd, const sky_shm_frame *welcome);
/* NULL: not welcome yet. */
sky_ring *sky_raw_ring(int fd);

/* Errors: those of sky_ring_send and sky_local_send */
sky_status sky_raw_send(int fd, const void *data, size_t bytes, int passed);
/* Send a frame; waits for room. */
void sky_raw_say(int fd, const sky_shm_frame *f, int passed);
/* The next frame, and its descriptor, the caller's (NULL: it is closed); waits. False: the
 * connection ended. */
bool sky_raw_hear(int fd, sky_shm_frame *f, int *passed);
/* Wait until something came, and leave it there. */
void sky_raw_await(int fd);
void sky_raw_close(int fd);

#endif
