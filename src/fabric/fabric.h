/* Connections over libfabric's message endpoints: streams of bytes, by a provider that is named.
 *
 *   an end = endpoint + events + completions + one descriptor to poll
 *          + 8 registered buffers of 64 KiB to receive into, and as many to send from
 *
 * Bytes are copied once at each end: from the caller's spans into a buffer that is sent, and out of
 * one that was received. Who does not receive stops who sends (flow.h). Nothing goes on but within
 * these calls: a provider that has threads of its own is not asked to use them.
 *
 * One thread at a time uses an end; different ends are used by different threads. What one
 * provider needs (libfabric itself, its providers' memory) stays until the process ends. */
#ifndef SKY_FABRIC_FABRIC_H
#define SKY_FABRIC_FABRIC_H

#include <skymem/types.h>

#include "io/udp.h"

typedef struct sky_fabric_end sky_fabric_end; /* of a connection, or a listener */

/* Is there such a provider, with message endpoints? Errors: SKY_E_UNSUPPORTED (none of that name,
 * or no libfabric), SKY_E_SYNTAX (NULL or empty); `error` says which there are */
sky_status sky_fabric_check(const char *provider, sky_error *error);

/* As of a transport (tier/peer/transport.h), as all that follows. */
sky_status sky_fabric_listen(const char *provider, const sky_address *at, sky_fabric_end **out,
                             sky_address *bound, sky_error *error);
sky_fabric_end *sky_fabric_accept(sky_fabric_end *listener, sky_address *peer, bool *exhausted);
sky_status sky_fabric_connect(const char *provider, const sky_address *to, sky_time until, int stop,
                              sky_fabric_end **out);
sky_status sky_fabric_send(sky_fabric_end *e, const sky_span *spans, uint32_t span_count,
                           size_t *sent);
sky_status sky_fabric_receive(sky_fabric_end *e, const sky_span *spans, uint32_t span_count,
                              size_t *received);
/* Poll sky_fabric_fd for reading alone, whatever is wanted, when this says SKY_OK. */
sky_status sky_fabric_arm(sky_fabric_end *e, bool reads, bool writes);
int sky_fabric_fd(const sky_fabric_end *e);
/* Waits for what was sent, if the other end takes it, at most a second. NULL is fine. */
void sky_fabric_close(sky_fabric_end *e);

#endif
