/* Messages between the ground session and satellites, and from satellite to satellite, as bytes.
 *
 *    0        4   5   6       8          12           16            24           32
 *   | magic  |ver|type| flags | bytes    | data_bytes | request     | check      |
 *   | key (32)                                                                   | 64
 *   | version (8)       | chunk (4) | body, a fixed length for each type | data …
 *
 * `bytes` is a message's whole length, so that messages laid end to end still come apart. Where
 * datagrams are small a message travels in several (packet.h). `check` covers all but itself and
 * the data; a chunk has a checksum of its own in the body, made where it was cut and carried
 * unchanged from SET to CHUNK, however often it migrates. A PURGE's data is covered too.
 * docs/formats/wire.md has every field.
 *
 * Surprises:
 *  - A chunk is named by (key, version, chunk), not by (key, chunk). Two versions of one key are
 *    strangers to each other: a block being replaced stays whole until its successor is.
 *  - Chunk 0 is the block's head: what a ground needs to find and read a block it never set. It
 *    lies in a window one satellite wide, so it is always on the satellite overhead, and a GET of
 *    chunk 0 with version 0 asks that one for the newest version of a key.
 *  - A block's chunks form a ring: each knows where the next one lies (`next`), so that satellites
 *    can look after each other's without knowing the ground's layout. */
#ifndef SKY_WIRE_MESSAGE_H
#define SKY_WIRE_MESSAGE_H

#include <skymem-sky/sky.h>

#define SKY_WIRE_VERSION        4
#define SKY_WIRE_HEAD_BYTES     76
#define SKY_WIRE_BODY_BYTES_MAX 160
#define SKY_WIRE_DATA_BYTES_MAX 32768
#define SKY_WIRE_CHUNKS_MAX     16777215u /* of a block */
#define SKY_WIRE_BYTES_MAX      33004     /* all three */

/* A new type is also a row of `types`, a case of put_body and one of take_body in message.c, and a
 * row of docs/formats/wire.md. A satellite takes it in sky_node_input; a ground asks by a client of
 * the scheduler (ground/scheduler.h). */
typedef enum {
    SKY_WIRE_SET = 1, /* ground → satellite: store this chunk */
    SKY_WIRE_SET_ACK, /* what came of it */
    SKY_WIRE_GET,     /* send this chunk */
    SKY_WIRE_CHUNK,   /* here it is */
    SKY_WIRE_MISS,    /* not here */
    SKY_WIRE_HAS,     /* which of chunks chunk, chunk+stride … last do you hold? */
    SKY_WIRE_HAS_REPLY,
    SKY_WIRE_DROP,    /* forget chunks chunk, chunk+stride … last; answered if it has a request */
    SKY_WIRE_PIN,     /* the same chunks: never evict them, or do again; answered as DROP */
    SKY_WIRE_MIGRATE, /* satellite → satellite: this chunk is yours from now on */
    SKY_WIRE_MIGRATE_ACK, /* what came of it: only now may the sender drop its copy */
    SKY_WIRE_PURGE, /* satellite → satellite: these blocks lost a chunk, drop them, pass it on */
    SKY_WIRE_GONE,  /* satellite → ground: I had to give up this chunk; no answer */
    SKY_WIRE_MOVE,  /* ground → satellite: the same chunks as DROP's belong elsewhere now */
    SKY_WIRE_ROW_ACK, /* to DROP, PIN or MOVE: how many were here */
    SKY_WIRE_STAT,    /* how are you? */
    SKY_WIRE_STAT_REPLY,
    SKY_WIRE_COPIES, /* satellite → satellite: a digest of what both of us should hold */
    SKY_WIRE_MEND,   /* ground → satellite: other copies of these chunks were missed; no answer */
    SKY_WIRE_SET_IF, /* ground → satellite: store this head, or remove it, if the one that is here
                        has the version that is expected. Answered as SET */
    SKY_WIRE_TYPE_END
} sky_wire_type;

typedef enum {
    SKY_STORED,         /* stored, or was there before */
    SKY_STORED_EVICTED, /* stored; the chunk named in the message had to go for it */
    SKY_NOT_STORED,     /* full of pinned chunks; MIGRATE_ACK: or for now, a third copy */
    SKY_REMOVED,        /* MIGRATE_ACK: not stored, as a ground removed it: nobody needs it */
    SKY_OTHER_VERSION,  /* SET_IF: another is here, which the message names; 0: none */
    SKY_UNDECIDED,      /* SET_IF: it is not for this satellite to decide, or not yet */
    SKY_OUTCOME_END
} sky_outcome;

#define SKY_TENANT_BYTES 8 /* of a block's name on real links say whose it is: seal.h */

/* What names a chunk. */
typedef struct {
    sky_key key;
    uint64_t version; /* a name no other put shares; of a head: grows with time */
    uint32_t number;  /* chunks count from 1; 0: the block's head */
} sky_chunk_id;

#define SKY_VERSION_ANY 0 /* in a GET of a head: the newest one there is */

/* What a satellite must know to compute by itself where a chunk is at any time, and to check it. */
typedef struct {
    int64_t set_ms;         /* wall */
    sky_satellite centre;   /* overhead at set_ms */
    sky_satellite first;    /* the chunk's satellite at set_ms */
    sky_satellite next;     /* that of the chunk after it; after the last comes chunk 1 */
    uint32_t chunk_count;   /* of the block, without its head */
    uint64_t checksum;      /* sky_chunk_checksum of the data */
    uint16_t window_planes; /* 0 for hop */
    uint16_t window_slots;
    sky_strategy strategy;
    bool pinned;
    uint8_t pin_hour; /* MIGRATE of what is pinned: wall hour it was last used in, modulo 256 */
    bool spare;       /* the block outlives the loss of this chunk: no reason to purge it */
    uint8_t copies;   /* of the chunk, on different satellites; 0 is 1 */
    uint16_t moves;   /* how often its block was moved, modulo 65,536: of two places a chunk may
                         have, the one of the later move counts */
} sky_chunk_facts;

/* What chunk 0 holds, so that a ground whose index is empty can read the block. A head has a
 * version of its own, at least the block's: a block that is moved gets a newer head. */
typedef struct {
    uint64_t version; /* of chunks 1 … chunk_count */
    int64_t set_ms;
    sky_satellite centre;
    int64_t before_ms; /* where chunks may still be that a MOVE did not reach; 0: nowhere */
    sky_satellite before_centre;
    uint32_t payload_bytes;
    uint32_t chunk_bytes;
    uint32_t chunk_count; /* parity included */
    uint32_t servers;
    uint16_t window_planes;
    uint16_t window_slots;
    sky_strategy strategy;
    uint8_t replicas;
    uint8_t parity;
    uint8_t level;  /* at most 15 */
    bool named;     /* its value may be replaced */
    uint16_t moves; /* as of its chunks */
} sky_block_head;

#define SKY_HEAD_BYTES 56
/* Its version is a time in ms × 2^16, and more; by so much a ground's clock may be ahead. */
#define SKY_HEAD_AHEAD_MS (24 * 3600 * 1000)

#define SKY_COPIES_MAX 16 /* of a chunk */
#define SKY_ROW_MAX    64 /* chunks that one HAS asks for */

/* What a satellite tells about itself: counts since it started, but for the first two and the
 * last. */
typedef enum {
    SKY_STAT_CHUNKS, /* held now */
    SKY_STAT_SLOTS,  /* that it can hold */
    SKY_STAT_SETS,
    SKY_STAT_GETS,
    SKY_STAT_MISSES,
    SKY_STAT_EVICTIONS,
    SKY_STAT_REFUSED,
    SKY_STAT_MIGRATED,
    SKY_STAT_PURGED, /* chunks dropped on a neighbour's word */
    SKY_STAT_SWEPT,  /* chunks dropped because the next one was gone */
    SKY_STAT_GOSSIP, /* PURGEs sent */
    SKY_STAT_MALFORMED,
    SKY_STAT_CORRUPT,
    SKY_STAT_OVERFLOW,
    SKY_STAT_FOREIGN, /* datagrams refused, by reason: transport/transport.h */
    SKY_STAT_STALE,
    SKY_STAT_REPLAYED,
    SKY_STAT_FORGED,
    SKY_STAT_MENDED,  /* copies sent to satellites that lacked them */
    SKY_STAT_MENDING, /* chunks held now of which another copy may be missing */
    SKY_STAT_COUNT
} sky_wire_stat;

typedef struct {
    sky_wire_type type;
    uint64_t request; /* chosen by the asker, returned in the answer */
    sky_chunk_id id;
    sky_chunk_facts facts; /* SET, MIGRATE: all; MOVE: all but the checksum; CHUNK: checksum;
                              PURGE: chunk_count; PIN: pinned */
    sky_time spent_ns;     /* answers to the ground: from arrival to answer, queueing included */
    sky_outcome outcome;   /* SET_ACK, MIGRATE_ACK */
    sky_chunk_id evicted;  /* with SKY_STORED_EVICTED; with SKY_OTHER_VERSION its version alone */
    bool copy;             /* MIGRATE: the sender keeps the chunk, and this is another copy */
    bool older;            /* DROP of a head from a ground: those of older versions too; SET_IF:
                              remove */
    uint64_t expected;     /* SET_IF: version of the head that is to be here; 0: none is */
    uint64_t name;         /* SET_IF: of this change, in all attempts; not 0 */
    uint64_t present;      /* HAS_REPLY: bit i: chunk id.number + i·stride is here */
    uint64_t digest;       /* COPIES */
    bool differs;          /* COPIES: the answer to another, whose digest is not ours */
    uint32_t stride;       /* DROP, PIN, MOVE, HAS, MEND: at least 1 */
    uint32_t last;         /* the same: at least id.number; HAS: SKY_ROW_MAX chunks at most */
    uint32_t hops;         /* PURGE: how much farther it goes */
    uint32_t moved;        /* ROW_ACK */
    uint64_t stat[SKY_STAT_COUNT]; /* STAT_REPLY */
    const uint8_t *data;           /* SET, CHUNK, MIGRATE; PURGE: further blocks */
    uint32_t data_bytes;
} sky_message;

/* A block that lost a chunk. A PURGE names its first by id, chunk_count and hops, and further ones
 * in its data: as many as the transport carries in one datagram. */
typedef struct {
    sky_key key;
    uint64_t version;
    uint32_t chunk_count;
    uint32_t hops;
} sky_lost_block;

#define SKY_LOST_BLOCK_BYTES 48
#define SKY_LOST_BLOCKS_MAX  22 /* in the data of one PURGE */

/* Where a type's data begin: a sender may fill them in place and pass the pointer to encode. */
size_t sky_message_data_offset(sky_wire_type type);

/* Length of an encoded message. */
size_t sky_message_bytes(const sky_message *m);

/* Encode; the message must obey what decode checks. `m->data` may point to where it goes in `dst`,
 * or be NULL for a chunk that lies elsewhere: its place and the check are left as they are, for
 * sky_message_set_chunk.
 * Returns the bytes written, or 0 when dst_bytes_max is less than sky_message_bytes. */
size_t sky_message_encode(const sky_message *m, uint8_t *dst, size_t dst_bytes_max);

/* For what changes the chunk in a message where it lies, such as a seal. Find the chunk of one that
 * this side encoded: type, id, data and data_bytes of `out` hold. False: it carries none, or its
 * lengths contradict each other. */
bool sky_message_chunk(const uint8_t *bytes, size_t byte_count, sky_message *out);
/* Write down what became of it: its length, and what `checksum` is now. Returns the message's
 * length; there must be room. */
size_t sky_message_set_chunk(uint8_t *bytes, const sky_message *m, uint32_t data_bytes,
                             uint64_t checksum);

/* Decode one datagram, exactly.
 * Owner:  out->data points into `bytes`
 * Errors: SKY_E_CORRUPT: truncated, too long, a foreign magic or version, a failed check, a value
 *         out of range, an unknown flag. The data's own checksum is the receiver's to verify */
sky_status sky_message_decode(const uint8_t *bytes, size_t byte_count, sky_message *out);

/* Checksum of a chunk's data: XXH3 seeded with its name, so that the right bytes under the wrong
 * name fail too. */
uint64_t sky_chunk_checksum(const sky_chunk_id *id, const void *data, size_t bytes);

/* Does the place in `a` count, and that in `b` no more? The later move does; of as many moves the
 * later time. */
bool sky_facts_later(const sky_chunk_facts *a, const sky_chunk_facts *b);

bool sky_chunk_id_equal(const sky_chunk_id *a, const sky_chunk_id *b);
bool sky_chunk_same_block(const sky_chunk_id *a, const sky_chunk_id *b); /* key and version */

/* One of a PURGE's further blocks, as it lies in the data. Decode needs no check: that of the
 * message has seen to it. */
void sky_lost_block_encode(const sky_lost_block *block, uint8_t out[SKY_LOST_BLOCK_BYTES]);
void sky_lost_block_decode(const uint8_t data[SKY_LOST_BLOCK_BYTES], sky_lost_block *out);

/* The data of chunk 0. Decode checks what stands in it against itself, not against a sky.
 * Errors: SKY_E_CORRUPT */
void sky_head_encode(const sky_block_head *head, uint8_t out[SKY_HEAD_BYTES]);
sky_status sky_head_decode(const uint8_t *data, size_t bytes, sky_block_head *out);

#endif
