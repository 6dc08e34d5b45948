/* Messages between the ground session and satellites, and from satellite to satellite, as bytes.
 *
 *    0        4   5   6       8          12           16            24           32
 *   | magic  |ver|type| flags | bytes    | data_bytes | request     | check      |
 *   | key (32)                                                                   | 64
 *   | version (8)       | chunk (4) | body, a fixed length for each type | data …
 *
 * One datagram is one message: `bytes` is its whole length, so that messages laid end to end still
 * come apart. `check` covers all but itself and the data; the data has a checksum of its own in
 * the body, made where the chunk was cut and carried unchanged from SET to CHUNK, however often it
 * migrates. docs/formats/wire.md has every field.
 *
 * Surprise: a chunk is named by (key, version, chunk), not by (key, chunk). Two versions of one key
 * are strangers to each other: a block being replaced stays whole until its successor is. */
#ifndef SKY_WIRE_MESSAGE_H
#define SKY_WIRE_MESSAGE_H

#include <skymem/sky.h>

#define SKY_WIRE_VERSION        1
#define SKY_WIRE_HEAD_BYTES     76
#define SKY_WIRE_BODY_BYTES_MAX 56
#define SKY_WIRE_DATA_BYTES_MAX 32768
#define SKY_WIRE_BYTES_MAX      32900 /* all three */

typedef enum {
    SKY_WIRE_SET = 1, /* ground → satellite: store this chunk */
    SKY_WIRE_SET_ACK, /* what came of it */
    SKY_WIRE_GET,     /* send this chunk */
    SKY_WIRE_CHUNK,   /* here it is */
    SKY_WIRE_MISS,    /* not here */
    SKY_WIRE_HAS,     /* do you hold this chunk? */
    SKY_WIRE_HAS_REPLY,
    SKY_WIRE_DROP,        /* forget chunks chunk, chunk+stride … last; no answer */
    SKY_WIRE_PIN,         /* the same chunks: never evict them, or do again; no answer */
    SKY_WIRE_MIGRATE,     /* satellite → satellite: this chunk is yours from now on */
    SKY_WIRE_MIGRATE_ACK, /* what came of it: only now may the sender drop its copy */
    SKY_WIRE_TYPE_END
} sky_wire_type;

typedef enum {
    SKY_STORED,         /* stored, or was there before */
    SKY_STORED_EVICTED, /* stored; the chunk named in the message had to go for it */
    SKY_NOT_STORED,     /* full of pinned chunks */
    SKY_OUTCOME_END
} sky_outcome;

/* What names a chunk. */
typedef struct {
    sky_key key;
    uint64_t version; /* of the block: grows with each put of the session */
    uint32_t number;  /* chunks count from 1 */
} sky_chunk_id;

/* What a satellite must know to compute by itself where a chunk is at any time, and to check it. */
typedef struct {
    int64_t set_ms;        /* wall */
    sky_satellite centre;  /* overhead at set_ms */
    sky_satellite first;   /* the chunk's satellite at set_ms */
    uint32_t chunk_count;  /* of the block */
    uint64_t checksum;     /* sky_chunk_checksum of the data */
    uint16_t window_slots; /* 0 for hop */
    sky_strategy strategy;
    bool pinned;
} sky_chunk_facts;

typedef struct {
    sky_wire_type type;
    uint64_t request; /* chosen by the asker, returned in the answer */
    sky_chunk_id id;
    sky_chunk_facts
        facts; /* SET, MIGRATE: all; CHUNK: checksum; HAS_REPLY: chunk_count; PIN: pinned */
    sky_time
        spent_ns; /* SET_ACK, CHUNK, MISS, HAS_REPLY: from arrival to answer, queueing included */
    sky_outcome outcome;  /* SET_ACK, MIGRATE_ACK */
    sky_chunk_id evicted; /* with SKY_STORED_EVICTED */
    bool present;         /* HAS_REPLY */
    uint32_t stride;      /* DROP, PIN: at least 1 */
    uint32_t last;        /* DROP, PIN: at least id.number */
    const uint8_t *data;  /* SET, CHUNK, MIGRATE */
    uint32_t data_bytes;
} sky_message;

/* Where a type's data begin: a sender may fill them in place and pass the pointer to encode. */
size_t sky_message_data_offset(sky_wire_type type);

/* Length of an encoded message. */
size_t sky_message_bytes(const sky_message *m);

/* Encode; the message must obey what decode checks. `m->data` may point to where it goes in `dst`.
 * Returns the bytes written, or 0 when dst_bytes_max is less than sky_message_bytes. */
size_t sky_message_encode(const sky_message *m, uint8_t *dst, size_t dst_bytes_max);

/* Decode one datagram, exactly.
 * Owner:  out->data points into `bytes`
 * Errors: SKY_E_CORRUPT: truncated, too long, a foreign magic or version, a failed check, a value
 * out of
 *         range, an unknown flag. The data's own checksum is the receiver's to verify */
sky_status sky_message_decode(const uint8_t *bytes, size_t byte_count, sky_message *out);

/* Checksum of a chunk's data: XXH3 seeded with its name, so that the right bytes under the wrong
 * name fail too. */
uint64_t sky_chunk_checksum(const sky_chunk_id *id, const void *data, size_t bytes);

bool sky_chunk_id_equal(const sky_chunk_id *a, const sky_chunk_id *b);

#endif
