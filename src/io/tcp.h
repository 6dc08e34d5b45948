/* TCP connections: streams of bytes from and into many places at once. No call blocks, but where it
 * says so. Addresses are those of io/udp.h. */
#ifndef SKY_IO_TCP_H
#define SKY_IO_TCP_H

#include <skymem/types.h>

#include "io/udp.h"

#define SKY_TCP_SPANS_MAX     64u
#define SKY_TCP_ADDRESSES_MAX 8u

/* Of a name, in the order in which they are to be tried: a host may listen at one of them alone. */
typedef struct {
    sky_address at[SKY_TCP_ADDRESSES_MAX];
    uint32_t count; /* one at least */
} sky_addresses;

/* "localhost:7700", "10.0.0.7:7700", "[::1]:7700". Blocks while a name is looked up.
 * Errors: SKY_E_SYNTAX (no port), SKY_E_IO (no such name); `error` says why */
sky_status sky_tcp_resolve(const char *text, sky_addresses *out, sky_error *error);
/* They have one in common. */
bool sky_addresses_meet(const sky_addresses *a, const sky_addresses *b);

/* Listen at an address; port 0: any, which *bound then tells.
 * Errors: SKY_E_BUSY (the address is taken), SKY_E_DENIED, SKY_E_IO; `error` says why */
sky_status sky_tcp_listen(const sky_address *at, int *fd, sky_address *bound, sky_error *error);
/* A connection that waits, or -1. *exhausted: this process has no descriptors or memory for it. */
int sky_tcp_accept(int listener, sky_address *peer, bool *exhausted);
/* Blocks, at most until `until`, or until `stop` is readable (-1: none).
 * Errors: SKY_MISS (nobody listens there), SKY_E_DEADLINE, SKY_E_CANCELLED (stop), SKY_E_IO */
sky_status sky_tcp_connect(const sky_address *to, sky_time until, int stop, int *fd);
/* What connections made here have: frames are sent at once, and a peer whose machine is gone is
 * noticed, within a minute of something sent and two of nothing. No error on what is no TCP. */
void sky_tcp_prepare(int fd);
bool sky_tcp_is_over(int fd); /* the peer is gone, also while nothing is sent or received */
void sky_tcp_close(int fd);   /* -1 is fine */

/* Send from at most SKY_TCP_SPANS_MAX spans; *sent: how many bytes the kernel took.
 * Errors: SKY_E_BUSY (its buffer is full), SKY_E_IO (the peer is gone) */
sky_status sky_tcp_send(int fd, const sky_span *spans, uint32_t span_count, size_t *sent);
/* Receive into at most SKY_TCP_SPANS_MAX spans; *received: how many bytes came.
 * Errors: SKY_MISS (none wait), SKY_E_IO (the peer is gone) */
sky_status sky_tcp_receive(int fd, const sky_span *spans, uint32_t span_count, size_t *received);

#endif
