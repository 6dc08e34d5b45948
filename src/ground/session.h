/* The ground session: blocks in, chunks out to the satellites, and back. A state machine like the
 * node, with requests in and results out.
 *
 *   submit ──► request ──cut──► chunks ──window──► operations ══ output/input ══ satellites
 *                                                    │
 *   result ◄── request ◄── all chunks done ◄─────────┘ index: key → set time, centre, chunk count
 *
 * A get needs nothing but the index's facts: from set time and centre it computes where each chunk
 * is after any number of turns. While a chunk migrates it is in the old place, in the new one, or
 * in both: a MISS at one is asked again at the other, and then at the places of the last turns,
 * where migration may lag, before the chunk counts as lost. A lost chunk makes the block a miss,
 * and the index drops the block and all below it. SKY_MISS: every satellite that could hold the
 * block answered that it does not. If one of them does not answer, the result is
 * SKY_E_UNAVAILABLE, and the index keeps the block.
 *
 * Several grounds: a block never changes under its key, so the index is believed. A named value may
 * be replaced by another ground: each read of it asks all copies of its head first, at once, and
 * reads the newest. So no read is older than the last put that was acknowledged before it began, as
 * long as one of the copies that put reached answers.
 *
 * Memory pressure: the session counts the chunks that it put in every place, and makes room by
 * evicting the least recently used leaf of its index that is not pinned. The satellites' own LRU,
 * which knows nothing of prefixes, evicts the rest: chunks of other grounds, or whose DROP was
 * lost.
 *
 * Surprises:
 *  - Nothing is copied: a put's bytes are fetched from the host when a chunk is sent, a get's are
 *    delivered as chunks come, in any order, from inside input.
 *  - A put is visible when its last chunk is acknowledged, with lookup when its heads are; until
 *    then the block it replaces is.
 *  - Requests go out no faster than their answers fit the downlink: the terminal's queue stays
 *    short. */
#ifndef SKY_GROUND_SESSION_H
#define SKY_GROUND_SESSION_H

#include "index/index.h"
#include <skymem/cache.h>

#include "base/metrics.h"
#include "ground/policy.h"
#include "satellite/node.h"

typedef struct sky_session sky_session;

typedef struct {
    const sky_frame *frame; /* must outlive the session */
    uint32_t chunk_bytes;
    uint32_t satellite_slots; /* chunks a satellite holds: sky_node_slots_lent */
    uint64_t link_bits_s;     /* of the terminal, each way; 0: no limit */
    sky_time processing_ns;   /* of a satellite, per chunk */
    sky_time jitter_ns;       /* most a message is late by, each way */
    sky_time skew_ns;         /* most a satellite's clock is off by */
    sky_time late_ns; /* most an answer is late by for reasons not named here; at least 1 ms */
    uint32_t blocks_max;
    uint32_t requests_max;
    uint32_t operations_max; /* chunks asked for or sent and not yet answered; at most 2^20 */
    uint32_t retries_max;    /* unanswered attempts before SKY_E_IO, after the first two */
    sky_time put_ns_max; /* a put that takes longer ends in SKY_E_IO: satellites that sweep may have
                            taken its first chunks for what is left of a block; 0: no limit */

    sky_lookup_kind
        lookup;           /* other than index: blocks get heads, and unknown keys are looked for */
    uint32_t eviction;    /* SKY_EVICT_…: how a block that lost a chunk leaves the sky */
    uint32_t gossip_hops; /* of the PURGEs it starts */
    uint8_t replicas;     /* of each chunk, on different servers; 0 is 1 */
    uint8_t parity;       /* pieces in each stripe; fewer than there are servers */
    uint64_t session_id;  /* by chance: no two grounds of one sky have the same */
    bool sealed; /* the host seals what is sent, and opens what comes (sky_datagram.opened): that
                    is believed of a chunk, and no checksum, which a liar can make */

    /* Is it known that none of the satellites runs? Asked when nothing at all is heard: then
     * silence for two round trips is enough, without the pauses of a host. NULL: never known. */
    bool (*is_down)(void *context);
    void *is_down_context;

    void *host;
    /* A put's payload, read when a chunk is sent (again); false: the caller gave up. */
    bool (*fetch)(void *host, void *context, uint64_t offset, void *data, size_t bytes);
    /* Where a put's bytes lie in one piece, to be sealed from there: they are read until the
     * message that output gave is sent. NULL: nowhere in one, or the caller gave up; then they are
     * fetched. NULL is fine; not used unless `sealed`. */
    const uint8_t *(*lend)(void *host, void *context, uint64_t offset, size_t bytes);
    /* Part of a get's range, offset from its start; false: the caller gave up. */
    bool (*deliver)(void *host, void *context, uint64_t offset, const void *data, size_t bytes);
    /* A block left the index; its number will be used again. NULL is fine. */
    void (*forgotten)(void *host, uint32_t block, const sky_key *key);
} sky_session_config;

typedef struct {
    sky_op op; /* HAS, GET, PUT, REMOVE, PIN, UNPIN, PREFETCH */
    sky_key key;
    void *context;   /* the host's name for the request */
    int64_t wall_ms; /* the host's calendar, against which ttl_s counts */

    sky_key parent; /* put */
    uint32_t payload_bytes;
    uint8_t level;
    uint32_t ttl_s; /* 0: for ever */

    bool named; /* a name, whose value others may replace; else a block, which stays as it is */

    /* Put of a name, remove: only if the version `expected` is there; 0: if none is. Needs lookup
     * other than index, else SKY_E_UNSUPPORTED. SKY_E_CONFLICT: another is, result.version;
     * SKY_E_UNAVAILABLE: nobody answered, and it may have happened. */
    bool conditional;
    uint64_t expected;

    sky_range range;     /* get; {0, 0} is all */
    uint64_t room_bytes; /* get: what the caller's spans hold */

    /* has: how many leading keys of a chain are there? `key` is not used; result.bytes says how
     * many, and those are in the index then. The keys are read until the result is. */
    const sky_key *chain;
    uint32_t chain_count;

    int64_t at_ms; /* prefetch: wall, when the block is to be overhead */

    bool mend;      /* instead of `op`, the session's own: is the key's parity whole? */
    bool mend_data; /* … and its data */

    bool stat; /* instead of `op`: how is this satellite? */
    sky_satellite satellite;
    sky_time until; /* … asked again until then, however slow it is; 0: until it counts as silent */

    /* Instead of `op`: is copy `probe_copy` (from 0) of chunk `probe` where it should be? The key's
     * block must be in the index. SKY_OK: result.satellite has it; SKY_MISS: nobody has; SKY_E_IO:
     * who should have it is silent. 0: no probe. Nothing is dropped, whatever the answer. */
    uint32_t probe;
    uint32_t probe_copy;
} sky_request;

/* Where the time of a get went, along the path of its last chunk. The parts add up to ended −
 * began. */
typedef struct {
    sky_time began;
    sky_time ended;
    sky_time light_ns;
    sky_time link_ns;
    sky_time processing_ns;
    sky_time session_ns; /* waiting for the window, and for attempts that were not answered */
    uint32_t chunks;
} sky_path_time;

typedef struct {
    sky_op op;
    void *context;
    sky_status
        status;       /* as the tier contract; E_IO: no answer; E_UNAVAILABLE: the same, where a key
                          was looked for or read; E_CANCELLED: the host gave up */
    uint64_t bytes;   /* moved; for has, stored */
    uint8_t level;    /* of what is stored */
    bool pinned;      /* has: by us */
    uint64_t version; /* of a name: of what is stored; it grows with each put */
    uint32_t block;   /* put: number in the index */
    sky_path_time time;      /* get */
    sky_satellite satellite; /* probe */
    uint32_t told_chunks;    /* remove, pin: copies of chunks and heads that it was about, … */
    uint32_t unheard_chunks; /* … of which so many are on satellites that did not answer */
    uint64_t stat[SKY_STAT_COUNT];
} sky_result;

/* What it counts: a row of SKY_METRICS_SESSION each. */
typedef sky_session_counts sky_session_stat;

/* Errors: SKY_E_PARAM (a bound of 0 or out of range), SKY_E_NOMEM */
sky_status sky_session_create(const sky_session_config *config, sky_session **out);
void sky_session_destroy(sky_session *s);

/* Errors: SKY_E_BUSY (requests_max under way or unread). Everything else is a result. */
sky_status sky_session_submit(sky_session *s, sky_time now, const sky_request *request);
/* The next result; false when there is none. */
bool sky_session_result(sky_session *s, sky_result *out);

/* The terminal's link carries this from now on, each way: instead of config.link_bits_s. */
void sky_session_link_set(sky_session *s, uint64_t bits_s);

/* True when nothing is left to send but answers to requests (no DROP, no repair), or the sky does
 * not run. *told: something was sent that no satellite answers. */
bool sky_session_settled(const sky_session *s, bool *told);

/* As a node's. */
void sky_session_input(sky_session *s, sky_time now, const sky_datagram *in);
bool sky_session_output(sky_session *s, sky_time now, sky_datagram *out);
sky_time sky_session_wake(const sky_session *s);

void sky_session_stats(const sky_session *s, sky_session_stat *out);
const sky_index *sky_session_index(const sky_session *s);
/* Payload bytes this sky can hold. */
uint64_t sky_session_bytes_max(const sky_session *s);
/* Is there room for a block of so many bytes in a sky that holds nothing else? */
bool sky_session_holdable(const sky_session *s, uint32_t payload_bytes);

/* Wrong answers of a satellite, and in *silent requests it let go unanswered. A link that damages
 * messages looks the same: it is for people to judge. */
uint32_t sky_session_suspicion(const sky_session *s, sky_satellite satellite, uint32_t *silent);

/* How many satellites let request after request go unanswered, lately; in *one, one of them. */
uint32_t sky_session_silent(const sky_session *s, sky_satellite *one);

/* What the session keeps of a block in the index. */
typedef struct {
    sky_key key;
    sky_block_info info;
    uint64_t version;
    uint64_t hits;
    int64_t expires_ms; /* INT64_MAX: never */
    bool pinned;
    bool adopted;   /* known from its head alone */
    uint64_t turns; /* rotations since it was set, or last moved */
} sky_session_entry;
void sky_session_look(const sky_session *s, uint32_t block, sky_session_entry *out);

/* Was this chunk put nowhere? Those who should have it were silent, and the block is whole without
 * it. */
bool sky_session_lacks(const sky_session *s, uint32_t block, uint32_t number);

/* Is a chunk with this name part of a block in the index, or of a put under way? */
bool sky_session_owns(const sky_session *s, const sky_chunk_id *id);

/* Name, facts and length of one chunk of a block, from the index alone (all but the checksum). */
void sky_session_chunk(const sky_session *s, uint32_t block, uint32_t number, sky_chunk_id *id,
                       sky_chunk_facts *facts, uint32_t *bytes);
/* Of each chunk, 1: without replicas. */
uint32_t sky_session_copies(const sky_session *s);
/* Where a copy (from 0) of a chunk of a block should be by now. */
sky_satellite sky_session_home(const sky_session *s, uint32_t block, uint32_t number,
                               uint32_t copy);
/* … and where it should be after `turns`. */
sky_satellite sky_session_home_at(const sky_session *s, uint32_t block, uint32_t number,
                                  uint32_t copy, uint64_t turns);
/* Where a chunk is after `turns`. */
sky_satellite sky_session_place(const sky_session *s, const sky_chunk_facts *facts, uint64_t turns);

#endif
