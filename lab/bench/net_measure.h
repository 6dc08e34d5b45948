/* Chunks and bare datagrams over loopback, timed: what `skymem bench net` has its rows from. */
#ifndef SKYMEM_LAB_BENCH_NET_MEASURE_H
#define SKYMEM_LAB_BENCH_NET_MEASURE_H

#include <skymem/types.h>

/* What to measure over loopback, from one thread to another. */
typedef enum {
    SKY_NET_BARE,    /* datagrams of the same length, sent and counted */
    SKY_NET_TOUCHED, /* … each filled and summed by the sender, summed by the receiver */
    SKY_NET_PLAIN,   /* chunks of 6 KiB by the transport, with a checksum for a tag */
    SKY_NET_AES,     /* … with tags of AES-256-GCM */
    SKY_NET_CHACHA,  /* … with tags of ChaCha20-Poly1305 */
    SKY_NET_SEALED,  /* … with the fastest tags, each chunk sealed by the sender: a put */
    SKY_NET_OPENED,  /* … sealed before, and opened by the receiver: a get */
    SKY_NET_WHOLE,   /* … sealed by the sender and opened by the receiver */
    SKY_NET_END
} sky_net_kind;

/* What came of it. */
typedef struct {
    double gigabytes_per_s; /* of datagrams received, or of chunks delivered */
    double seconds;
    uint64_t datagrams;
    uint64_t again; /* pieces sent more than once */
    uint32_t datagram_bytes;
    double sender_ns; /* processor time for a datagram, of which other work takes nothing */
    double receiver_ns;
    char offloads[16]; /* "gso+gro" */
} sky_net_result;

/* Errors: SKY_E_UNSUPPORTED (libcrypto lacks a cipher), SKY_E_IO, SKY_E_NOMEM */
sky_status sky_net_measure(sky_net_kind kind, double seconds, bool offloads, sky_net_result *out,
                           sky_error *error);

#endif
