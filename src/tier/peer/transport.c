#include "tier/peer/transport.h"

#include <string.h>

#include "io/tcp.h"

static const sky_peer_transport transports[] = {{.name = "tcp",
                                                 .listen = sky_tcp_listen,
                                                 .accept = sky_tcp_accept,
                                                 .connect = sky_tcp_connect,
                                                 .send = sky_tcp_send,
                                                 .receive = sky_tcp_receive,
                                                 .close = sky_tcp_close}};

_Static_assert(SKY_PEER_SPANS_MAX <= SKY_TCP_SPANS_MAX, "what a connection may hand over at once");

const sky_peer_transport *sky_peer_transport_find(const char *name) {
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (!name || strcmp(transports[i].name, name) == 0)
            return &transports[i];
    return NULL;
}
