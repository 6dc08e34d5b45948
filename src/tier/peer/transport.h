/* What carries a connection between hosts: a stream of bytes each way, over TCP, or over libfabric
 * by the provider that is named. Another is a table more and a name for `?transport=`: nothing
 * above it changes.
 *
 * A name that this build does not have is refused: there is no other that is taken instead. */
#ifndef SKY_TIER_PEER_TRANSPORT_H
#define SKY_TIER_PEER_TRANSPORT_H

#include <skymem/types.h>

#include "io/udp.h"

#define SKY_PEER_SPANS_MAX      64u /* of one send or receive */
#define SKY_PEER_PROVIDER_BYTES 32u /* the name of one, with its zero byte */

typedef struct sky_peer_transport sky_peer_transport;

/* An end of a connection, or a listener. A handle: it may be copied, and is closed once. One thread
 * at a time uses it. */
typedef struct {
    const sky_peer_transport *transport;
    int fd;      /* to be polled as `arm` says, and for nothing else; -1: none */
    void *state; /* the transport's own */
} sky_peer_socket;

#define SKY_PEER_SOCKET_NONE ((sky_peer_socket){.fd = -1})

/* None of these calls waits, but connect and close. */
struct sky_peer_transport {
    const char *name;
    /* Listen at an address; port 0: any, which *bound then tells. provider: "" of a transport that
     * has none.
     * Errors: SKY_E_BUSY (the address is taken), SKY_E_DENIED, SKY_E_IO; `error` says why */
    sky_status (*listen)(const char *provider, const sky_address *at, sky_peer_socket *out,
                         sky_address *bound, sky_error *error);
    /* A connection that waits; false: none does. *exhausted: this process has no descriptors or
     * memory for it. */
    bool (*accept)(const sky_peer_socket *listener, sky_peer_socket *out, sky_address *peer,
                   bool *exhausted);
    /* Waits, at most until `until`, or until `stop` is readable (-1: none).
     * Errors: SKY_MISS (nobody listens there), SKY_E_DEADLINE, SKY_E_CANCELLED (stop), SKY_E_IO */
    sky_status (*connect)(const char *provider, const sky_address *to, sky_time until, int stop,
                          sky_peer_socket *out);
    /* From at most SKY_PEER_SPANS_MAX spans; *sent: how many bytes were taken. They are the
     * caller's again. Errors: SKY_E_BUSY (none are taken now), SKY_E_IO (the peer is gone) */
    sky_status (*send)(const sky_peer_socket *s, const sky_span *spans, uint32_t span_count,
                       size_t *sent);
    /* Into at most SKY_PEER_SPANS_MAX spans; *received: how many bytes came, at least 1.
     * Errors: SKY_MISS (none wait), SKY_E_IO (the peer is gone) */
    sky_status (*receive)(const sky_peer_socket *s, const sky_span *spans, uint32_t span_count,
                          size_t *received);
    /* To be called before a thread sleeps until there is something to receive (*reads; of a
     * listener: to accept) or room to send (*writes), or the peer is gone. What it answers holds
     * until the next other call.
     * Out:    for what to poll the descriptor; neither: for errors alone. It may wake for nothing
     * Errors: SKY_E_BUSY (do not sleep: try now), SKY_E_IO (the peer is gone; only told where
     *         neither is wanted, as receive and send tell it else) */
    sky_status (*arm)(const sky_peer_socket *s, bool *reads, bool *writes);
    /* What was sent still goes out, if the peer takes it soon. Sets it to SKY_PEER_SOCKET_NONE;
     * fine on that. */
    void (*close)(sky_peer_socket *s);
};

extern const sky_peer_transport sky_peer_tcp;

/* What a user chose: a transport, and of libfabric its provider. */
typedef struct {
    const sky_peer_transport *transport;
    char provider[SKY_PEER_PROVIDER_BYTES]; /* "": none */
} sky_peer_carrier;

/* By their names. name NULL: tcp; provider NULL: none.
 * Errors: SKY_E_UNSUPPORTED (this build or this machine has no such transport or provider),
 *         SKY_E_SYNTAX (a provider is needed, or there are none); `error` says which there are */
sky_status sky_peer_carrier_find(const char *name, const char *provider, sky_peer_carrier *out,
                                 sky_error *error);
/* The same of "tcp" or "fabric:PROVIDER" as one word; NULL: tcp. */
sky_status sky_peer_carrier_parse(const char *word, sky_peer_carrier *out, sky_error *error);

/* Sleep until there may be something to receive (or accept), room to send, or `until`.
 * stop: another descriptor, -1: none.
 * Errors: SKY_E_CANCELLED (`stop` is readable), SKY_E_IO (as of arm) */
sky_status sky_peer_socket_wait(const sky_peer_socket *s, bool reads, bool writes, int stop,
                                sky_time until);
/* Send or receive all of it; waits, at most until `until`, or until `stop` is readable (-1: none).
 * Errors: SKY_E_DEADLINE, SKY_E_IO, SKY_E_CANCELLED (stop) */
sky_status sky_peer_exchange(const sky_peer_socket *s, bool sends, uint8_t *data, size_t bytes,
                             sky_time until, int stop);

#endif
