/* The tier of a host's store: shm:SOCKET. See docs/formats/shm.md for what goes over the socket.
 *
 *   submit ──► queue of jobs ──► frames of up to 64 items ──► host ──► DONE
 *                  │ put: the payload is copied into the stage      │
 *                  └ get: leased, copied out of the arena, returned ┘ by who reads
 *
 * A caller that waits (run) sends its job's frames and reads the socket itself, one caller for all;
 * the tier's thread sleeps meanwhile. Otherwise the thread reads. A job's frames are sent on the
 * caller's thread while there is room, and by who reads when answers make room. A host that is gone
 * ends what is under way with SKY_E_IO; the next job connects again. What was lent stays mapped
 * until it is returned, whatever became of the host.
 *
 * Difference from other tiers: a put or a removal that was cancelled, or is past its deadline, may
 * still take effect when the host had it already. Later operations on the key come after it. */
#ifndef SKY_TIER_SHM_SHM_H
#define SKY_TIER_SHM_SHM_H

#include "tier/tier.h"

/* Errors: SKY_E_SYNTAX, and those of sky__shm_link_open, but SKY_E_IO when nobody listens there */
sky_status sky_shm_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                             sky_error *error);

#endif
