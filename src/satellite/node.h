/* A satellite that keeps chunks: a state machine without clock, socket, thread or allocation.
 *
 *     datagram ──► input(now) ──► [ store ]  [ queue of answers, served one after another ]
 *                                    │               │
 *     datagram ◄── output(now) ◄─────┴── migrations ─┘        wake: when to call input(NULL) next
 *
 * The memory it is given, and all it will ever use:
 *
 *     | buckets, twice | slots: id, facts, links | queue | gossip  | bytes of each slot …
 *
 * Each slot is on one of its tenant's two use lists (lru: evictable; pinned), and on at most one of
 * three move lists: those of chunks on their way, and that of chunks of which another copy may be
 * missing (doubted).
 *
 *     held ──turn──► waiting ──MIGRATE out──► sent ──MIGRATE_ACK──► gone
 *                        ▲                     │
 *                        └──── no answer ──────┘
 *
 * Invariants: a chunk whose place is another satellite is on a move list, but for one that came
 * from there: its giver's clock is ahead, and it is held until the next turn (node_store.c). It
 * leaves this memory only when the other has said that it holds a copy, when DROP says so, or as
 * the least recently used of a full satellite (node_table.c). It is answered from here for as long
 * as it is here: a chunk may be in two places, never in none.
 *
 * What takes `processing_ns` is answering the ground: SET, GET and HAS wait for each other in
 * arrival order. Everything else does not: it is no chunk served.
 *
 * A block that lost a chunk is cleared away by gossip and by sweeps: gossip.c. Copies that went
 * with another satellite are made again: copies.c. MOVE gives chunks another set time and centre, a
 * time to come most of all: what belongs elsewhere then migrates as usual. No libc beyond mem*: it
 * is to fly (tests/integration/freestanding_test.sh). */
#ifndef SKY_SATELLITE_NODE_H
#define SKY_SATELLITE_NODE_H

#include "base/hash.h"
#include "orbit/frame.h"
#include "wire/datagram.h"

/* Shared by all satellites of a sky; must outlive them. */
typedef struct {
    sky_constellation constellation;
    sky_turning turning;
    sky_time processing_ns;      /* per chunk served */
    sky_time migrate_gap_ns;     /* between two chunks sent away: their time on the link */
    sky_time migrate_timeout_ns; /* send again when unacknowledged for so long */
    uint32_t migrate_window;     /* unacknowledged at most */
    uint32_t queue_max;          /* answers waiting; more requests are dropped and counted */
    uint32_t chunk_bytes_max;
    uint64_t memory_bytes; /* for chunks and what is kept about each */
    bool sealed;           /* chunks' checksums are for who has the tenant's key, not for us */
    sky_hash_key hash_key; /* of its table; real satellites: by chance, so that nobody can choose
                              names that all meet in one place */

    /* How blocks that lost a chunk are found. All 0: not at all by satellites. */
    uint32_t gossip_hops;     /* how far a PURGE goes; 0: no gossip */
    bool tell_ground;         /* GONE for each chunk given up */
    sky_time sweep_period_ns; /* a round over all chunks held; 0: none */
    sky_time sweep_grace_ns;  /* after a turn nothing is swept */
    sky_time sweep_ripe_ns; /* nor is a block until so long after it was set: it may be under way */

    /* How copies that went with a satellite are made again: copies.c. */
    const sky_frame *frame;    /* where copies lie; NULL: nowhere. Must outlive the satellite */
    sky_time mend_period_ns;   /* a round of questions to all that hold the same; 0: none */
    sky_time mend_grace_ns;    /* none so long after a turn, and half so long before */
    sky_time mend_copy_gap_ns; /* between two copies sent: the share of the link they may take */
} sky_node_config;

typedef struct {
    uint64_t sets;
    uint64_t gets;
    uint64_t misses;
    uint64_t evictions;
    uint64_t refused;  /* a tenant's share was full of what it pinned */
    uint64_t lapsed;   /* pins that nobody renewed */
    uint64_t looked;   /* chunks looked at for what was said about whole blocks */
    uint64_t migrated; /* chunks sent away, acknowledged and dropped here */
    uint64_t migrated_bytes;
    uint64_t migrate_retries;
    uint64_t malformed; /* datagrams that do not decode, or do not concern a satellite */
    uint64_t corrupt;   /* chunks that came with wrong bytes: not stored, not acknowledged */
    uint64_t overflow;  /* requests dropped because the queue was full */
    uint64_t purged;    /* chunks dropped on a neighbour's word */
    uint64_t swept;     /* chunks dropped because the one after was gone */
    uint64_t gossip;    /* PURGEs sent, of many blocks each, and their bytes */
    uint64_t gossip_bytes;
    uint64_t gossip_refused;       /* gossip messages beyond what is believed in a time */
    uint64_t sweeps;               /* HAS sent */
    uint64_t moved;                /* chunks that MOVE gave another place */
    uint64_t mended, mended_bytes; /* copies sent to satellites that lacked them */
    uint64_t copies_asked;         /* COPIES and HAS sent for them */
    uint64_t foreign, stale, replayed, forged; /* datagrams refused for it, by its host's count */
} sky_node_stat;

typedef struct {
    uint32_t first, last; /* slot + 1; 0: empty */
    uint32_t count;
} sky_node_list;

#define SKY_NODE_ACKS_MAX    16
#define SKY_NODE_GOSSIP_MAX  128
#define SKY_NODE_TENANTS_MAX 64                /* told apart; more share a place */
#define SKY_NODE_SENDERS_MAX 64                /* of COPIES, counted each */
#define SKY_NODE_DECISIONS   64                /* the last, known again: decide.c */
#define SKY_NODE_REMOVED_MAX 512               /* removals remembered … */
#define SKY_NODE_REMOVED_NS  SKY_SECONDS(3600) /* … so long */
#define SKY_NODE_PIN_HOURS   168               /* a pin holds that nobody renews */

/* What is held for one tenant. */
typedef struct {
    uint64_t name;     /* the first bytes of its blocks' names */
    sky_node_list lru; /* first: used last */
    sky_node_list pinned;
} sky_node_tenant;

/* A satellite that sent COPIES. */
typedef struct {
    uint32_t number; /* plane and slot; 0: none */
    sky_time credit;
} sky_node_sender;

/* What a ground removed: removed.c. */
typedef struct {
    uint64_t name; /* a keyed hash */
    uint64_t version;
    sky_time until;
} sky_node_removed;

/* Fields are the node's own; look through the functions. */
typedef struct {
    const sky_node_config *config;
    sky_satellite self;
    sky_satellite ground; /* the one heard last: who is told what happens here */

    uint32_t *buckets; /* slot + 1, chained through the slots, by chunk */
    uint32_t *blocks;  /* the same by block */
    struct sky_node_slot *slots;
    struct sky_node_job *jobs;
    struct sky_gossip_message *gossip_ring;
    uint8_t *bytes;
    uint32_t bucket_mask;
    uint32_t slot_count;
    uint32_t slot_fresh; /* slots from here on were never used */
    uint32_t slot_free;  /* slot + 1 of a chain */
    uint32_t slot_left;  /* chunks that went since the last trim */

    sky_node_tenant tenants[SKY_NODE_TENANTS_MAX];
    uint32_t tenant_count; /* those from here on were never used */
    uint32_t chunk_count;
    sky_node_list waiting;
    sky_node_list sent;
    sky_node_list doubted; /* of which another copy may be missing */

    uint32_t job_first;
    uint32_t job_count;
    sky_time busy_until;

    struct {
        sky_satellite to;
        uint64_t request;
        sky_chunk_id id;
        sky_wire_type type;
        uint64_t value;        /* MIGRATE_ACK: outcome; HAS_REPLY: present; ROW_ACK: moved */
    } acks[SKY_NODE_ACKS_MAX]; /* answers at once, and what is passed on; not yet sent */
    uint32_t ack_count;

    uint32_t gossip_count, gossip_place;
    uint32_t gossip_open, gone_open; /* not yet told to all neighbours; to the ground */
    uint32_t gossip_way;             /* of this round, the neighbour to tell next */
    sky_time gossip_credit, gossip_next;
    uint32_t sweep_at, sweep_request;
    sky_time sweep_next;
    uint32_t copied_count;          /* chunks that have copies elsewhere */
    uint32_t mend_peer;             /* of this round: asked last */
    sky_time mend_began, mend_next; /* the round; the next question of it */
    sky_time mend_copy_next, mend_credit;
    sky_node_sender mend_senders[SKY_NODE_SENDERS_MAX];
    uint64_t decisions[SKY_NODE_DECISIONS]; /* names; 0: none */
    uint32_t decision_next;
    sky_time born; /* it started then */
    sky_node_removed removed[SKY_NODE_REMOVED_MAX];
    sky_time removed_until; /* the last of them counts; 0: there is none */

    sky_time now; /* of the last input */
    uint64_t turns;
    sky_time turn_began, turn_ends;
    uint8_t lapse_hour; /* pins were looked through in it, modulo 256 */
    sky_time migrate_next;
    uint64_t migrate_request;
    sky_node_stat stat;
} sky_node;

/* Chunks a satellite holds under a configuration, and bytes of memory it takes altogether. */
uint32_t sky_node_slots(const sky_node_config *config);
/* Of these, what a ground may count on. The rest is for chunks whose DROP was lost, or overtaken by
 * the SET it made room for: without it each would evict what is least used here, the roots of
 * prefixes that every cache above keeps. */
uint32_t sky_node_slots_lent(const sky_node_config *config);
size_t sky_node_bytes(const sky_node_config *config);

/* Start with nothing stored. Only what comes to be used of `memory` is touched.
 * Owner: memory (aligned for any object, sky_node_bytes(config)) is the node's until it is thrown
 * away */
void sky_node_init(sky_node *node, const sky_node_config *config, sky_satellite self, sky_time now,
                   void *memory, size_t bytes);
/* The same in memory of a node of this configuration that held nothing when it ended: its table is
 * empty, and need not be cleared. */
void sky_node_init_again(sky_node *n, const sky_node_config *config, sky_satellite self,
                         sky_time now, void *memory, size_t bytes);

/* Take a datagram, or NULL because the wake time came. */
void sky_node_input(sky_node *node, sky_time now, const sky_datagram *in);

/* The next datagram to send, into out->data; false when there is none at `now`. */
bool sky_node_output(sky_node *node, sky_time now, sky_datagram *out);

/* Call input(NULL) no later than this; SKY_TIME_NEVER when nothing is to come. */
sky_time sky_node_wake(const sky_node *node);

/* Nothing held, nothing to send: its memory may be given back and the node initialised again
 * later. */
bool sky_node_idle(const sky_node *node);

uint32_t sky_node_chunks(const sky_node *node);
/* When enough chunks have left, or the last one, hand the host the memory that nothing lies in
 * any more: `give` may give its pages back, and what it gives must read as zeros, or as it was. */
void sky_node_trim(sky_node *node, void (*give)(void *from, size_t bytes));

/* For checkers: a chunk's bytes and checksum as they lie in memory; false when it is not here. */
typedef struct {
    sky_chunk_id id;
    sky_chunk_facts facts;
    const uint8_t *data;
    uint32_t bytes;
} sky_node_chunk;
bool sky_node_find(const sky_node *node, const sky_chunk_id *id, sky_node_chunk *out);
/* Every chunk held, in no particular order. */
void sky_node_each(const sky_node *node, void (*each)(void *context, const sky_node_chunk *chunk),
                   void *context);

#endif
