/* What carries a connection between hosts: a stream of bytes each way. `tcp` is one. Another, such
 * as libfabric, is a table more and a name for `?transport=`: nothing above it changes.
 *
 * A name that this build does not have is refused: there is no other that is taken instead. */
#ifndef SKY_TIER_PEER_TRANSPORT_H
#define SKY_TIER_PEER_TRANSPORT_H

#include <skymem/types.h>

#include "io/udp.h"

#define SKY_PEER_SPANS_MAX 64u /* of one send or receive */

typedef struct {
    const char *name;
    /* As sky_tcp_listen, sky_tcp_accept and sky_tcp_connect of io/tcp.h. Descriptors of listeners
     * and connections are polled: readable when there is something to accept or receive, writable
     * when there is room to send. */
    sky_status (*listen)(const sky_address *at, int *fd, sky_address *bound, sky_error *error);
    int (*accept)(int listener, sky_address *peer, bool *exhausted);
    sky_status (*connect)(const sky_address *to, sky_time until, int *fd);
    /* As sky_tcp_send and sky_tcp_receive: neither waits. */
    sky_status (*send)(int fd, const sky_span *spans, uint32_t span_count, size_t *sent);
    sky_status (*receive)(int fd, const sky_span *spans, uint32_t span_count, size_t *received);
    void (*close)(int fd);
} sky_peer_transport;

/* By its name, NULL: tcp. NULL when there is none of that name. */
const sky_peer_transport *sky_peer_transport_find(const char *name);

#endif
