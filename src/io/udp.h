/* A UDP socket that moves datagrams in batches: many in one system call, and where the kernel can,
 * many of one length as one piece of memory (UDP_SEGMENT, UDP_GRO), which it cuts and joins.
 *
 *   put, put, … flush                                       receive ─► next, next, …
 *   [ run to A: 6 × 1116 ][ run to B: 1 × 140 ][ …          [ run from A: 52 × 1116 ][ …
 *
 * What is sent may lie anywhere, and is not copied before the kernel does; a run is gathered from
 * as many places as it lies in.
 *
 * Datagrams are lost when the kernel has no room for them, counted and not told otherwise: who
 * sends must be ready for that anyway. Belongs to one thread. */
#ifndef SKY_IO_UDP_H
#define SKY_IO_UDP_H

#include <skymem/types.h>

/* An address and a port, of either family. */
typedef struct {
    _Alignas(8) uint8_t raw[32];
    uint32_t bytes;
} sky_address;

/* "127.0.0.1:7600", "[::1]:7600", "[::]:0": numbers, no names.
 * Errors: SKY_E_SYNTAX */
sky_status sky_address_parse(const char *text, sky_address *out, sky_error *error);
#define SKY_ADDRESS_TEXT_BYTES 64
void sky_address_text(const sky_address *a, char out[SKY_ADDRESS_TEXT_BYTES]);
bool sky_address_equal(const sky_address *a, const sky_address *b);
bool sky_address_is_loopback(const sky_address *a);
uint16_t sky_address_port(const sky_address *a);
void sky_address_set_port(sky_address *a, uint16_t port);
/* Nobody has this port of this machine: the kernel refuses an empty datagram that is sent there.
 * False: somebody has, who may be stopped or busy, or it is not known. An address that is not
 * loopback's is never known: a refusal from elsewhere may be forged, or a router's. */
bool sky_address_is_vacant(const sky_address *a);
/* Any port of any address of this machine, in the same family; of loopback only, when `a` is. */
sky_address sky_address_towards(const sky_address *a);

typedef struct {
    uint32_t datagram_bytes_max; /* longer ones are neither sent nor received */
    uint32_t buffer_bytes;       /* wanted for what waits to be received; the kernel may cap it */
    bool no_offloads;            /* one datagram is one piece of memory */
} sky_udp_options;

typedef struct {
    uint64_t sent, received; /* datagrams */
    uint64_t send_calls, receive_calls;
    uint64_t unsent; /* the kernel had no room, or no way */
} sky_udp_stat;

typedef struct sky_udp sky_udp;

/* Open and bind. Errors: SKY_E_BUSY (the address is taken), SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM;
 * `error` says why */
sky_status sky_udp_open(const sky_address *at, const sky_udp_options *options, sky_udp **out,
                        sky_error *error);
void sky_udp_close(sky_udp *u); /* NULL is fine */

int sky_udp_fd(const sky_udp *u); /* readable: receive will find something */
sky_address sky_udp_address(const sky_udp *u);
uint32_t sky_udp_buffer_bytes(const sky_udp *u); /* granted */
const char *sky_udp_offloads(const sky_udp *u);  /* "gso+gro", "gso", "gro", "none" */
sky_udp_stat sky_udp_stats(const sky_udp *u);

/* Room to write one datagram. */
uint8_t *sky_udp_room(sky_udp *u);
/* Send a datagram, at the latest with the next flush.
 * Owner: data is what room gave, or memory of the caller's that stays as it is until the flush */
void sky_udp_put(sky_udp *u, const sky_address *to, const uint8_t *data, size_t bytes);
/* `count` of one length, one behind the other. */
void sky_udp_put_row(sky_udp *u, const sky_address *to, const uint8_t *data, size_t bytes,
                     uint32_t count);
void sky_udp_flush(sky_udp *u);

/* Fetch a batch of datagrams; false: none wait. Never blocks. */
bool sky_udp_receive(sky_udp *u);
/* The next of the batch, until false; it may have no bytes. They stay until the next receive. */
bool sky_udp_next(sky_udp *u, uint8_t **data, size_t *bytes, const sky_address **from);

#endif
