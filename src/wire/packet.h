/* The datagrams that carry messages between stations: at most 1,232 bytes each, so that they pass
 * any IPv6 path whole.
 *
 *    0       4   5     6   7      8           12          16          20          24
 *   | magic |ver|suite|ttl| way  | hop: from | hop: to   | origin    | destination|
 *   | epoch (8)           | counter (8)      | sent (8)                            | 48
 *   | frame | frame | … | zeros                                             | tag 16 |
 *
 *   DATA   | 1 | index | count | 0 | message bytes u32 | number u64 | its bytes …
 *   ACK    | 2 | entries | 0 | 0 |  { number u64 | bitmap u32 } …
 *   ASK    | 3 | 0 | 0 | 0 | token u64
 *   PROOF  | 4 | 0 | 0 | 0 | token u64
 *
 * A station is four bytes: of a satellite plane and slot, of a ground station a set bit and the 31
 * bits that tell it from others. `hop` is this light path, `origin` and `destination` are the ends:
 * a satellite in between takes the datagram apart no further than its header, checks the tag, and
 * sends it on under a tag of its own.
 *
 * A message of n bytes is cut into `count` equal pieces (the last may be shorter), so that the
 * place of a piece follows from its index, and a bitmap of 32 bits says which have come.
 *
 * A tag says who speaks, not where from. To find out whether a station can be reached at an address
 * an ASK goes there with a token, and a PROOF brings the token back.
 *
 * Surprise: nothing here is encrypted. What is worth hiding, the content of chunks, is sealed
 * before it becomes a message (wire/seal.h); everything else is authenticated. */
#ifndef SKY_WIRE_PACKET_H
#define SKY_WIRE_PACKET_H

#include "wire/message.h"
#include "wire/seal.h"

#define SKY_PACKET_VERSION     5
#define SKY_PACKET_WAYS        5
#define SKY_PACKET_BYTES_MAX   1232
#define SKY_PACKET_HEAD_BYTES  48
#define SKY_PACKET_FRAME_BYTES 16 /* of a DATA frame, before its bytes */
#define SKY_PACKET_PIECE_MAX                                                                       \
    (SKY_PACKET_BYTES_MAX - SKY_PACKET_HEAD_BYTES - SKY_PACKET_FRAME_BYTES - SKY_TAG_BYTES)
#define SKY_PACKET_PIECES_MAX  32
#define SKY_PACKET_MESSAGE_MAX (SKY_PACKET_PIECE_MAX * SKY_PACKET_PIECES_MAX)
#define SKY_PACKET_ACK_BYTES   12 /* an entry */
#define SKY_PACKET_ACKS_MAX    96 /* entries of one frame that fit a datagram */
#define SKY_PACKET_WHOLE       UINT32_MAX
#define SKY_PACKET_TOKEN_BYTES 12 /* an ASK or a PROOF */

typedef struct {
    sky_suite suite;
    uint8_t ttl;        /* hops it may still take after this one */
    uint8_t way;        /* which over the grid, below SKY_PACKET_WAYS */
    sky_satellite from; /* this hop; plane 0: a ground station */
    sky_satellite to;
    sky_satellite origin; /* the ends */
    sky_satellite destination;
    uint64_t epoch;   /* of `from`: grows with each start of it */
    uint64_t counter; /* of datagrams from `from` to `to` in this epoch, from 1 */
    sky_time sent;    /* sky time at `from` */
} sky_packet_head;

/* Ground stations choose their ids by chance from 1 to this. */
#define SKY_PACKET_GROUND_MAX 0x7fffffffu
/* A station in four bytes: plane << 16 | slot, or 1 << 31 | slot where the plane is 0. */
static inline uint32_t sky_packet_station(sky_satellite s) {
    return s.plane ? s.plane << 16 | s.slot : 1u << 31 | s.slot;
}

/* Write the head. `dst` has SKY_PACKET_HEAD_BYTES. */
void sky_packet_head_encode(const sky_packet_head *h, uint8_t *dst);
/* The same head, but for its counter, from where it was written before. */
void sky_packet_head_next(const uint8_t *written, uint64_t counter, uint8_t *dst);
/* The tag is not looked at.
 * Errors: SKY_E_CORRUPT (too short or too long, a foreign magic, an unknown way, plane 0, a time
 *         before 0), SKY_E_UNSUPPORTED (another version of this format, or an unknown suite) */
sky_status sky_packet_head_decode(const uint8_t *bytes, size_t byte_count, sky_packet_head *out);

/* The key of the tags of one hop: from, to, epoch and suite of `h`, under the sky's key. */
void sky_packet_link_key(const sky_packet_head *h, const uint8_t key[SKY_SECRET_BYTES],
                         sky_cipher_key *out);

typedef enum {
    SKY_FRAME_PADDING,
    SKY_FRAME_DATA,
    SKY_FRAME_ACK,
    SKY_FRAME_ASK,
    SKY_FRAME_PROOF
} sky_packet_frame_type;

typedef struct {
    sky_packet_frame_type type;
    uint64_t number;        /* DATA: of the message; ASK, PROOF: the token */
    uint32_t index, count;  /* DATA: piece `index` of `count` */
    uint32_t offset;        /* DATA: of the piece in the message */
    uint32_t message_bytes; /* DATA */
    const uint8_t *data;    /* DATA: the piece; ACK: its entries */
    uint32_t data_bytes;
    uint32_t entries; /* ACK */
} sky_packet_frame;

/* How a message of `bytes` (1 … SKY_PACKET_MESSAGE_MAX) is cut: pieces, and the length of each but
 * the last. */
static inline uint32_t sky_packet_pieces(uint32_t bytes) {
    return (bytes + SKY_PACKET_PIECE_MAX - 1) / SKY_PACKET_PIECE_MAX;
}

static inline uint32_t sky_packet_stride(uint32_t bytes) {
    uint32_t pieces = sky_packet_pieces(bytes);
    return (bytes + pieces - 1) / pieces;
}

static inline uint32_t sky_packet_piece_bytes(uint32_t bytes, uint32_t index) {
    uint32_t stride = sky_packet_stride(bytes);
    uint32_t left = bytes - index * stride;
    return left < stride ? left : stride;
}

/* Write the 16 bytes before a piece. */
void sky_packet_data_encode(uint64_t number, uint32_t message_bytes, uint32_t index, uint8_t *dst);
/* Write the 4 bytes before the entries of an ACK, and one entry. */
void sky_packet_ack_encode(uint32_t entries, uint8_t *dst);
void sky_packet_ack_entry_encode(uint64_t number, uint32_t bitmap, uint8_t *dst);
void sky_packet_ack_entry_decode(const sky_packet_frame *ack, uint32_t entry, uint64_t *number,
                                 uint32_t *bitmap);

/* Write an ASK or a PROOF. `dst` has SKY_PACKET_TOKEN_BYTES. */
void sky_packet_token_encode(sky_packet_frame_type type, uint64_t token, uint8_t *dst);

/* The next frame between head and tag; *at starts at SKY_PACKET_HEAD_BYTES and moves on. SKY_MISS:
 * there is none left, or only padding.
 * Owner:  out->data points into `bytes`
 * Errors: SKY_E_CORRUPT */
sky_status sky_packet_frame_next(const uint8_t *bytes, size_t byte_count, size_t *at,
                                 sky_packet_frame *out);

#endif
