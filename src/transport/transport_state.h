/* The transport's insides, shared by transport.c (memory, what arrives), transport_out.c (what is
 * sent) and transport_link.c (who is a neighbour, what is believed, which way). */
#ifndef SKY_TRANSPORT_TRANSPORT_STATE_H
#define SKY_TRANSPORT_TRANSPORT_STATE_H

#include "transport/transport.h"

#define SKY__T_NONE       UINT32_MAX
#define SKY__T_SEEN_BITS  4096u
#define SKY__T_ACKS_MAX   1024u
#define SKY__T_DONE_MAX   4096u
#define SKY__T_INDEX_BITS 12 /* of a message number: its place in `sending` */
#define SKY__T_GAPS_ONE   65536u
#define SKY__T_HABITS     64
#define SKY__T_SHARES     256

/* A station at the other end of a light path. */
typedef struct {
    sky_time used; /* last */
    sky_time heard_at;
    bool heard; /* key_in and what follows it hold */
    bool told;  /* key_out holds */
    sky_cipher_key key_in;
    sky_cipher_key key_out;
    uint64_t epoch;
    uint64_t counter;                     /* the highest taken */
    sky_time sent;                        /* the latest taken */
    uint64_t seen[SKY__T_SEEN_BITS / 64]; /* counter modulo the window */
} sky__peer;

/* The two kinds of link a station sends on, each with a pace of its own. */
typedef enum { SKY__LINK_GROUND, SKY__LINK_ISL, SKY__LINKS } sky__link;

typedef struct {
    uint32_t first, last;
} sky__t_list;

typedef enum { SENDING_FREE, SENDING_QUEUED, SENDING_FLYING } sky__sending_state;

/* What goes first: pieces sent again, then new ones. Last, and only while not much is flying, what
 * goes to a station that did not answer lately: who is dead must not keep the window from the
 * others, who would look dead too. Of what goes to the dead the oldest makes room for others. */
typedef enum { SKY__T_AGAIN, SKY__T_FRESH, SKY__T_DOUBTFUL, SKY__T_QUEUES } sky__t_queue;

/* A message on its way out. Of its pieces, `pending` are to be sent, `flying` were and are waited
 * for, `acked` are there. */
typedef struct {
    sky__sending_state state;
    sky__link link;
    sky__t_queue queue;
    bool clean; /* no piece was sent twice: its acknowledgement tells how long one takes */
    sky_satellite to;
    uint64_t number;
    uint32_t bytes, stride;               /* stride: of a piece */
    uint32_t all, pending, flying, acked; /* bitmaps */
    uint32_t echo;                        /* bitmap: to be sent a second time after the pending */
    uint32_t timeouts;
    uint32_t doublings; /* of the wait for the last piece */
    uint8_t way;        /* of the last one sent */
    sky_time begun;
    sky_time sent;     /* the last piece */
    sky_time deadline; /* for an acknowledgement; SKY_TIME_NEVER: nothing is flying */
    sky_time way_ns;   /* light and lateness, one way */
    uint32_t before, after;
} sky__sending;

typedef enum { RECEIVING_FREE, RECEIVING_PART, RECEIVING_WHOLE } sky__receiving_state;

typedef struct {
    sky__receiving_state state;
    sky_satellite from;
    uint64_t number;
    uint32_t bytes;
    uint32_t all, have;
    sky_time last; /* a piece came */
    bool told;     /* what is missing, since then */
    bool gap;      /* told at all */
    uint8_t way;   /* the last piece came */
    uint32_t chain;
    uint32_t next; /* free or whole */
} sky__receiving;

typedef struct {
    sky_satellite to;
    uint64_t number;
    uint32_t bitmap;
    uint8_t way; /* as what it answers came */
} sky__ack;

typedef struct {
    sky_satellite from;
    uint64_t number; /* 0: none */
} sky__done;

typedef struct {
    uint32_t bytes;
    uint8_t data[SKY_PACKET_BYTES_MAX];
} sky__relayed;

/* The way to a station, from `from` until the sky turns. */
typedef struct {
    sky_satellite destination;
    uint8_t way;
    sky_time from, until;
    sky_satellite hop;
    sky__link link;
    sky_time way_ns; /* light, and what each hop may be late by; one way */
} sky__route;

/* What messages to a station found out, until the sky turns, so that not each has to. Another way
 * than way 0 is tried first where on that one they died one after the other. What is sent twice
 * tells nothing of the time it takes (Karn): where a queue holds every message longer than is
 * waited for, each would be sent again and again, and make it longer. So the wait doubles for all
 * to that station until one is answered that was sent once. */
typedef struct {
    sky_satellite to;
    uint8_t way;
    uint8_t doubts; /* messages in a row of which nothing was heard */
    uint8_t doublings;
    uint32_t unheard; /* waits in vain since anything was heard */
    sky_time until;
} sky__habit;

/* What waits for one kind of link. */
typedef struct {
    sky_time free_at;
    sky__t_list queues[SKY__T_QUEUES]; /* messages */
    sky__ack *acks;                    /* [SKY__T_ACKS_MAX], the first ack_count of it */
    uint32_t ack_count;
    sky__relayed *relayed; /* [relay_max], a ring */
    uint32_t relay_first, relay_count;
    uint32_t shares[SKY__T_SHARES]; /* of them, by sky__share_of their origin */
} sky__outlet;

struct sky_transport {
    const sky_transport_config *config;
    sky_time floor; /* nothing sent before this is taken from who is not in the table */
    uint64_t counter;
    uint64_t number; /* of the last message, without its index bits */
    sky_time now;    /* of the last input */
    sky_transport_stat stat;

    sky__peer *peers;
    uint32_t *peer_names; /* beside them, to be searched; 0: none */
    uint32_t peer_count;
    uint32_t peer_last; /* found last */
    sky_cipher_key scratch;
    sky__route route;                 /* asked for last */
    sky__habit habits[SKY__T_HABITS]; /* where the station's name says; who comes later takes it */
    sky_satellite ground;             /* the one whose message came last; {0, 0}: none */
    sky_packet_frame token;           /* of the datagram believed last */

    sky__sending *sending;
    uint8_t *sending_bytes; /* the datagrams they are cut into */
    size_t sending_stride;  /* from one message's to the next one's */
    uint8_t *room;          /* for the next message, whole */
    uint32_t sending_free, sending_fresh;
    uint32_t flying;       /* datagrams */
    sky_time earliest_out; /* no deadline is before this */
    sky_time excess_ns;    /* of an acknowledgement beyond light: mean, and mean deviation */
    sky_time deviation_ns;
    sky__outlet outlets[SKY__LINKS];

    sky__receiving *receiving;
    uint32_t shares[SKY__T_SHARES]; /* places in it that are taken, by sky__share_of the origin */
    uint8_t *receiving_bytes;
    uint32_t *buckets;
    uint32_t bucket_mask;
    uint32_t receiving_free, receiving_fresh;
    sky__t_list whole;
    uint32_t delivered; /* its bytes are with the host until the next receive */
    sky_time earliest_in;
    uint32_t gaps; /* share of messages of which a piece was missing, lately; of SKY__T_GAPS_ONE */
    sky__done *done;
};

/* transport_out.c */
size_t sky__sending_bytes(const sky_transport_config *c); /* of memory, for one message */
void sky__acknowledged(sky_transport *t, sky_time now, sky_satellite from, uint64_t number,
                       uint32_t bitmap);
void sky__look_after_messages(sky_transport *t, sky_time now);

/* transport_link.c */
/* As sky_satellite_equal, where a call would be felt: several times for each datagram. */
static inline bool sky__same(sky_satellite a, sky_satellite b) {
    return a.plane == b.plane && a.slot == b.slot;
}
static inline bool sky__is_ground(sky_satellite s) {
    return s.plane == 0;
}
/* Where an origin's room is counted; few share a place. */
static inline uint32_t sky__share_of(sky_satellite origin) {
    return sky_packet_station(origin) * 0x9e3779b9u >> 24;
}
bool sky__is_station(const sky_transport *t, sky_satellite s);
uint8_t sky__usual_way(const sky_transport *t, sky_time now, sky_satellite to);
/* A message that went this way: nothing was heard of it, or something was. */
void sky__way_doubted(sky_transport *t, sky_time now, sky_satellite to, uint8_t way);
void sky__way_proven(sky_transport *t, sky_time now, sky_satellite to, uint8_t way);
/* Waits in vain since that station was heard. */
uint32_t sky__unheard(const sky_transport *t, sky_time now, sky_satellite to);
uint32_t sky__usual_doublings(const sky_transport *t, sky_time now, sky_satellite to);
/* A message waited in vain, with its wait doubled so often. */
void sky__wait_in_vain(sky_transport *t, sky_time now, sky_satellite to, uint32_t doublings);
/* One that was sent once is acknowledged. */
void sky__wait_sufficed(sky_transport *t, sky_time now, sky_satellite to);
/* Where a datagram that goes this way, 0 to SKY_PACKET_WAYS - 1, goes from here. */
sky_satellite sky__next_hop(sky_transport *t, sky_time now, sky_satellite destination, uint8_t way);
const sky__route *sky__route_find(sky_transport *t, sky_time now, sky_satellite destination,
                                  uint8_t way);
/* Borrowed until the next call. Pieces go to one place many times in a row, and ways change only as
 * the sky turns, or as the ground is heard. */
static inline const sky__route *sky__route_to(sky_transport *t, sky_time now,
                                              sky_satellite destination, uint8_t way) {
    const sky__route *r = &t->route;
    bool same = sky__same(r->destination, destination) && r->way == way;
    if (same && now >= r->from && now < r->until)
        return r;
    return sky__route_find(t, now, destination, way);
}
/* Decode and believe; false: counted. */
bool sky__link_accept(sky_transport *t, sky_time now, const uint8_t *bytes, size_t byte_count,
                      sky_packet_head *head);
/* Fill in this hop of `head`, write it in front of each of a row of datagrams, `byte_count` long
 * without the tags behind them, and tag them. */
void sky__link_stamp(sky_transport *t, sky_time now, sky_packet_head *head, uint8_t *row,
                     size_t byte_count, uint32_t count);

#endif
