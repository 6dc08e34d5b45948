/* A constellation in virtual time: satellites, the grounds' sessions, and the links between them.
 *
 *      session ──► [uplink queue] ──light──► satellite ══ light ══ satellite
 *      session ◄── [downlink queue] ◄─light──┘    each satellite: [link queue]
 *
 * One schedule, integer nanoseconds, one seeded generator: the same scenario, seed and calls give
 * the same events bit for bit. Nothing happens between events; the host says how far time goes, as
 * fast as it likes (the simulator) or along the real clock (the sky tier).
 *
 * Links: a ground has one terminal. Its uplink and its downlink each serve one message after
 * another at links.ground_bits_s (for hop, where the model is on board, links.isl_bits_s) and hold
 * links.queue_bytes; each satellite has one such queue for what it sends to other satellites.
 * Several grounds share the satellites, and find each other's values by looking for their heads.
 * Light takes its way between the terminal and the satellite: the slant range from under the
 * overhead satellite, for hop the +GRID path from the host.
 *
 * With links.datagrams what travels is not the message but the datagrams the real transport makes
 * of it, one hop at a time; world_stations.c hosts one transport for each station.
 *
 * Satellites cost memory only while they hold something: a satellite that has given everything
 * away is freed and made anew when the next message arrives. */
#ifndef SKY_SIM_WORLD_H
#define SKY_SIM_WORLD_H

#include "config/scenario.h"
#include "ground/session.h"
#include "transport/transport.h"

typedef struct sky_world sky_world;

/* Where payloads come from and go to: see sky_session_config. */
typedef struct {
    void *context;
    bool (*fetch)(void *host, void *request, uint64_t offset, void *data, size_t bytes);
    bool (*deliver)(void *host, void *request, uint64_t offset, const void *data, size_t bytes);
    void (*forgotten)(void *host, uint32_t block, const sky_key *key); /* NULL is fine */
} sky_world_host;

typedef enum {
    SKY_EVENT_ARRIVED,   /* a message reached a satellite */
    SKY_EVENT_DELIVERED, /* … the session, through the downlink queue */
    SKY_EVENT_LOST,      /* on the link, at random */
    SKY_EVENT_OVERFLOW,  /* a queue was full */
    SKY_EVENT_CUT,       /* the satellite is partitioned off */
    SKY_EVENT_CRASHED,   /* a satellite lost its memory: `from` */
    SKY_EVENT_PARTITIONED,
    SKY_EVENT_WOKE,      /* a satellite or the session did something because it was time */
    SKY_EVENT_FROZEN,    /* a satellite's clock stands still */
    SKY_EVENT_LINK_DOWN, /* the laser between `from` and `to` */
    SKY_EVENT_REOPENED,  /* a ground knows nothing any more: `from` */
} sky_event_kind;

typedef struct {
    sky_time at;
    sky_event_kind kind;
    sky_satellite from; /* plane 0: a ground, slot its number from 1; the first says 0 */
    sky_satellite to;
    uint32_t bytes;
    uint64_t digest; /* of the message */
    sky_time until;  /* of a partition, freeze or outage */
} sky_world_event;

typedef struct {
    uint64_t events;
    uint64_t messages;
    uint64_t message_bytes;
    uint64_t lost;
    uint64_t overflowed;
    uint64_t duplicated;
    uint64_t held_back; /* reordered */
    uint64_t corrupted;
    uint64_t crashes;
    uint64_t partitions; /* and stations and lasers that went down */
    uint64_t freezes;
    uint64_t hostile; /* datagrams an adversary sent */
    uint64_t cut;     /* messages from and to those cut off */
    uint64_t in_flight;
    uint64_t in_flight_max;
    uint64_t turns;
    sky_satellite overhead;
    uint64_t chunks;              /* held by all satellites now */
    uint64_t satellites_used;     /* holding any now */
    sky_node_stat nodes;          /* all satellites together, since the start */
    sky_transport_stat transport; /* links.datagrams: all stations together */
} sky_world_stat;

/* Errors: SKY_E_PARAM (a scenario this world cannot hold; `error` says what), SKY_E_NOMEM */
sky_status sky_world_create(const sky_scenario *scenario, uint64_t seed, const sky_world_host *host,
                            sky_world **out, sky_error *error);
void sky_world_destroy(sky_world *w);

/* Time starts at 0. */
sky_time sky_world_now(const sky_world *w);
/* When the next event is; SKY_TIME_NEVER when nothing is to come. */
sky_time sky_world_next(const sky_world *w);
/* Let one event happen; false when there is none. */
bool sky_world_step(sky_world *w);
/* Let everything up to and including `until` happen; then it is `until`. */
void sky_world_run(sky_world *w, sky_time until);

/* As the session's, at the world's now: of the observer's ground, and of any. Grounds count from 0,
 * the observer's. */
sky_status sky_world_submit(sky_world *w, const sky_request *request);
bool sky_world_result(sky_world *w, sky_result *out);
uint32_t sky_world_grounds(const sky_world *w);
sky_status sky_world_submit_at(sky_world *w, uint32_t ground, const sky_request *request);
bool sky_world_result_at(sky_world *w, uint32_t ground, sky_result *out);
const sky_session *sky_world_session_at(const sky_world *w, uint32_t ground);
/* The sky as it is from there. */
const sky_frame *sky_world_frame_at(const sky_world *w, uint32_t ground);

/* Told of every event, before it has its effect. */
typedef void (*sky_world_trace)(void *context, const sky_world_event *event);
void sky_world_trace_set(sky_world *w, sky_world_trace trace, void *context);

/* Told of every message where a satellite takes it, before and after, and says it, and where a
 * ground says it (ASKED, without a node), before any link or liar does something to it. */
typedef enum { SKY_TAP_HEARS, SKY_TAP_HEARD, SKY_TAP_SAID, SKY_TAP_ASKED } sky_world_tap_kind;
typedef void (*sky_world_tap)(void *context, sky_world_tap_kind kind, const sky_node *node,
                              const sky_datagram *message);
void sky_world_tap_set(sky_world *w, sky_world_tap tap, void *context);

/* A ground whose requests have all ended starts again, knows nothing, and what it had still to say
 * is not said. Errors: SKY_E_NOMEM: it goes on as it was */
sky_status sky_world_reopen(sky_world *w, uint32_t ground);
/* A satellite forgets everything; is out of reach until a time; has a clock that stands still until
 * then. */
void sky_world_crash(sky_world *w, sky_satellite satellite);
void sky_world_partition(sky_world *w, sky_satellite satellite, sky_time until);
void sky_world_freeze(sky_world *w, sky_satellite satellite, sky_time until);
/* The probability that a datagram is lost is this from now on. */
void sky_world_loss_set(sky_world *w, double datagram_loss);

void sky_world_stats(const sky_world *w, sky_world_stat *out);
const sky_session *sky_world_session(const sky_world *w);
const sky_frame *sky_world_frame(const sky_world *w);
/* The satellites that exist now, in no order that matters: how many, and each by 0 … count-1. */
uint32_t sky_world_alive(const sky_world *w);
const sky_node *sky_world_alive_node(const sky_world *w, uint32_t i);
/* NULL while it holds nothing. */
const sky_node *sky_world_node(const sky_world *w, sky_satellite satellite);
/* Messages that hold a place among those in the air, by the list of free places: as many as are in
 * flight, or places are lost. */
uint32_t sky_world_places_taken(const sky_world *w);
/* Bytes of payload the sky holds at most. */
uint64_t sky_world_bytes_max(const sky_world *w);

/* Compare what the index says with what lies in the satellites' memory, checksums included,
 * without the links and without disturbing anything. */
typedef struct {
    uint64_t entries;
    uint64_t bytes;
    uint64_t corrupt;      /* blocks with a chunk that is missing or wrong */
    uint64_t orphans;      /* chunks in orbit that no block and no put under way owns */
    uint32_t copies_min;   /* of any chunk the index names; UINT32_MAX when it names none */
    int64_t thin_set_ms;   /* the oldest block with a chunk that lacks a copy, where lasers led
                              from one that has it to its place; INT64_MAX: none */
    int64_t broken_set_ms; /* … with a stripe that lacks pieces, not too many to be mended, where
                              lasers led to all of its places; INT64_MAX: none */
} sky_world_check;
/* In a true sky a copy counts as lacking where it could be made for `repair_ns` until now, a piece
 * of a stripe where it could be for `mend_ns`.
 * Errors: SKY_E_NOMEM */
sky_status sky_world_verify(const sky_world *w, sky_time repair_ns, sky_time mend_ns,
                            sky_world_check *out);
/* The same without the checksums: bytes in memory do not change by themselves. */
sky_status sky_world_count(const sky_world *w, sky_time repair_ns, sky_time mend_ns,
                           sky_world_check *out);
/* Is a chunk of this block known to be lost, so that nobody can make its copies again? If so,
 * verify and count do not take a chunk of the block that is nowhere for one that lacks copies. */
typedef bool (*sky_world_loss_known)(void *context, const sky_key *key, uint64_t version);
void sky_world_loss_known_set(sky_world *w, sky_world_loss_known known, void *context);

#endif
