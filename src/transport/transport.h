/* Messages over datagrams: cutting, pacing, acknowledging, sending again, relaying, authenticating.
 * A state machine like the node: no clock, socket, thread or allocation.
 *
 *   node or session                 transport                                 the link
 *     output ──► begin, send ──►  [ sending: pieces, bitmap ] ──► output(now) ──► datagram
 *     input  ◄── receive ◄──────  [ receiving: pieces, bitmap ] ◄── input(now) ◄── datagram
 *                                 [ relay: for others ] ──────┘      wake: when to call again
 *
 * How to host it, for a node and a session alike:
 *
 *     t = sky_transport_init(&config, now, memory, bytes);     // t lies in memory
 *     on a datagram, or when sky_transport_wake(t) or the node's wake comes:
 *         sky_transport_input(t, now, &datagram or NULL, &neighbour or NULL);
 *         while (sky_transport_receive(t, &m))           // whole messages, from their origin
 *             sky_node_input(&node, now, &m);
 *         while (sky_transport_begin(t, &m) && sky_node_output(&node, now, &m))
 *             sky_transport_send(t, now, &m);
 *         while (sky_transport_output(t, now, &d))       // d.from → d.to is one hop
 *             … carry d.data, d.bytes over that hop …
 *
 * A datagram's `from` and `to` are neighbours: the ends of one light path, which is how long the
 * host lets it travel (sky_frame_ground_ns or sky_frame_link_ns). A message's `from` and `to` are
 * its ends. Way between them: between the ground and a satellite of the window directly, else over
 * the satellite overhead (hop placements: always over the host) and from neighbour to neighbour.
 * In a true sky the next is the one on the shortest way over lasers that hold.
 *
 * A message is sent until it is acknowledged or deadline_ns have passed, and then forgotten, or
 * sooner, when there is no room for others and its station does not answer: node and session ask
 * again by themselves. It is delivered once or, after long silence, twice; never
 * in part. Its acknowledgement says that it is whole at the other end, not that it was acted on.
 *
 *     queued ──all pieces out──► flying ──bitmap whole──► free
 *        ▲                         │ bitmap with gaps: those again, at once
 *        └─────────────────────────┘ nothing in time: what is missing, patience doubled
 *
 * What is sent again leaves twice (an echo), where it is a small message or at most half of a large
 * one: lost once more it would cost another round. A ground that finds gaps in many answers sends
 * small messages, which are its requests, twice from the start; nobody makes a satellite do so.
 *
 * Patience: twice the light time of the way (the ephemeris knows it), and beyond it what answers
 * to first attempts took lately, mean and four deviations; at least slack_ns. Where messages to a
 * station wait in vain in a row, each is given twice as long, until one that was sent once is
 * answered; and who was not heard for several waits is sent to last.
 *
 * Who is believed: a datagram is taken when its tag is right under the key of its hop and sender's
 * epoch, its counter was not seen (a window of 4,096 back), its epoch is not older than the
 * newest from that sender, and it was sent neither before this transport started nor further than
 * skew_ns_max ahead nor longer than age_ns_max ago. Everything else is counted and dropped: no
 * answer, no state. A sender not heard for long loses its place in the table; then what it sent
 * before that is too old.
 *
 * Room is shared by origin. Where a new message needs the place of half of another, it takes the
 * oldest of the origin that has most of them. Of the room for datagrams that wait to go on, an
 * origin gets at most twice what is free: two thirds when it is alone, two fifths each of two. */
#ifndef SKY_TRANSPORT_TRANSPORT_H
#define SKY_TRANSPORT_TRANSPORT_H

#include "base/metrics.h"
#include "orbit/frame.h"
#include "wire/datagram.h"
#include "wire/packet.h"

/* What a datagram may take: the way between the farthest two, and some more. Wider skies than that
 * are not for datagrams. */
#define SKY_TRANSPORT_HOPS_MAX  255u
#define SKY_TRANSPORT_HOPS_MORE 4u

typedef struct {
    const sky_frame *frame; /* must outlive the transport, as must `key` */
    sky_satellite self;     /* {0, n}, n in 1 … SKY_PACKET_GROUND_MAX: a ground; any two differ */
    const uint8_t *key;     /* [SKY_SECRET_BYTES], of the constellation */
    sky_suites suites;
    sky_aead *aead; /* for tags alone; one's own until the transport ends. Plain: NULL */
    uint64_t epoch; /* grows with each start of this station and is never used twice:
                       wall milliseconds << 16 | 16 random bits */

    uint64_t ground_bits_s; /* pace between the ground and a satellite; 0: none */
    uint64_t isl_bits_s;    /* pace between two satellites */
    sky_time burst_ns;      /* how far ahead of its pace it may send: 0 in virtual time; with a real
                               clock as long as the host may oversleep */
    sky_time slack_ns;      /* least patience beyond light */
    sky_time jitter_ns;     /* most a datagram is late by on a hop */
    sky_time deadline_ns;   /* a message is given up after this */
    sky_time age_ns_max;    /* of a datagram; and how long half a message is kept */
    sky_time skew_ns_max;
    sky_time floor; /* nothing sent before this is taken from who was not heard since the start, as
                       nothing is that was sent before the start; 0: none */

    bool direct; /* a ground that reaches every satellite without relays: maintenance */

    uint32_t message_bytes_max; /* at most SKY_PACKET_MESSAGE_MAX */
    uint32_t sending_max;       /* messages; at most 4096 */
    uint32_t receiving_max;     /* messages coming in pieces, or whole and not yet received */
    uint32_t window_max;        /* datagrams sent and not yet acknowledged */
    uint32_t peers_max;         /* neighbours whose keys and counters are kept; at least 2 */
    uint32_t relay_max;         /* datagrams waiting to go on, for each kind of link; at least 1 */
} sky_transport_config;

/* What it counts: a row of SKY_METRICS_TRANSPORT each. */
typedef sky_transport_counts sky_transport_stat;

typedef struct sky_transport sky_transport;

/* Bytes of memory a configuration takes; pages of it are touched as they come to be used. */
size_t sky_transport_bytes(const sky_transport_config *config);

/* Start, with nothing sent or known. Returns the transport, which lies in `memory`.
 * Owner: memory (aligned for any object, sky_transport_bytes(config)) is the transport's until it
 *        is thrown away; config and what it points to must outlive it */
sky_transport *sky_transport_init(const sky_transport_config *config, sky_time now, void *memory,
                                  size_t bytes);
/* Wipe its keys. */
void sky_transport_deinit(sky_transport *t);

/* Room for one message to send: out->data, out->bytes_max; false when all is under way. Nothing
 * happens until send, and two begins give the same room. */
bool sky_transport_begin(sky_transport *t, sky_datagram *out);
/* Messages to stations that answer, of which not all is acknowledged or given up. */
uint32_t sky_transport_under_way(const sky_transport *t);

/* Send the message written into the room begin gave: bytes, to; `from` is not looked at. SKY_GROUND
 * is the ground station heard last. What is for nobody, or for this station, is counted in
 * undeliverable and forgotten. */
void sky_transport_send(sky_transport *t, sky_time now, const sky_datagram *message);
/* The same, and its chunk is sealed on the way: what is sent is longer by SKY_SEAL_BYTES. */
void sky_transport_send_sealed(sky_transport *t, sky_time now, const sky_datagram *message,
                               sky_seal *seal);

/* The next whole message; its bytes stay until the next call. `to` is this station. */
bool sky_transport_receive(sky_transport *t, sky_datagram *out);

/* Take a datagram, or NULL because the wake time came. True when it was believed: then
 * *neighbour (NULL is fine) is who sent it over this hop, so that a host learns where to answer. */
bool sky_transport_input(sky_transport *t, sky_time now, const sky_datagram *in,
                         sky_satellite *neighbour);
/* The two halves of that, for a host that lets time pass between them: is it believed (it counts as
 * come from here on, and is not believed again)? And take one that was. */
bool sky_transport_believe(sky_transport *t, sky_time now, const sky_datagram *in);
void sky_transport_take(sky_transport *t, sky_time now, const sky_datagram *in,
                        sky_satellite *neighbour);
/* The next datagram, into out->data (out->bytes_max at least SKY_PACKET_BYTES_MAX); false when
 * there is none at `now`. */
bool sky_transport_output(sky_transport *t, sky_time now, sky_datagram *out);
/* Datagrams over one hop, of one length, one behind the other. */
typedef struct {
    sky_satellite to;
    uint8_t *data;
    size_t bytes;   /* of each */
    uint32_t count; /* at least 1 */
} sky_datagram_row;
/* The same for a host that sends from anywhere, and many at once: all pieces of a message that may
 * leave, where they lie.
 * Owner: room is for a datagram, of at least SKY_PACKET_BYTES_MAX; out->data is there, or in the
 *        transport's memory, until the next send or input */
bool sky_transport_offer(sky_transport *t, sky_time now, uint8_t *room, sky_datagram_row *out);
/* Call input(NULL) and output no later than this; SKY_TIME_NEVER when nothing is to come. */
sky_time sky_transport_wake(const sky_transport *t);

/* The ASK or PROOF (wire/packet.h) in the datagram that was believed last, if its sender put it
 * there: type, number. False: there was none. Nothing is done about it: addresses are the host's
 * affair. */
bool sky_transport_token(const sky_transport *t, sky_packet_frame *out);
/* A datagram with one into out->data, to be sent at once; it waits for nothing and is not sent
 * again. It is filled up to `bytes`, at least SKY_TRANSPORT_TOKEN_BYTES. */
void sky_transport_send_token(sky_transport *t, sky_time now, sky_satellite neighbour,
                              const sky_packet_frame *token, size_t bytes, sky_datagram *out);
#define SKY_TRANSPORT_TOKEN_BYTES (SKY_PACKET_HEAD_BYTES + SKY_PACKET_TOKEN_BYTES + SKY_TAG_BYTES)

void sky_transport_stats(const sky_transport *t, sky_transport_stat *out);

#endif
