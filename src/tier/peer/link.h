/* One connection between hosts, as records: what both ends use once they have greeted each other.
 *
 *   record = | length u32 | tag 16 B | content |        length: of the content
 *   content of a record: one frame, or a piece of one payload that a frame announced
 *
 * A tag is of the content, its length and its number in this direction, so that records that are
 * changed, repeated, dropped or exchanged end the connection. Sealed, the content is encrypted; in
 * plain the tag is a checksum. But in plain the tag of a piece is of the length and the number
 * alone, and the last piece's has the checksum of the whole payload, which its sender may know
 * without a look at the bytes. A payload with another checksum is the sink's to refuse.
 *
 * In plain a payload is sent from where it lies and received where it belongs: behind a piece of it
 * only the head of the next is received. Sealed, it is encrypted from where it lies into the buffer
 * that is sent, and decrypted in the buffer that was received before a byte of it goes where it
 * belongs.
 *
 * Not thread-safe. No call waits, but where it says so. */
#ifndef SKY_TIER_PEER_LINK_H
#define SKY_TIER_PEER_LINK_H

#include "tier/peer/frame.h"
#include "tier/peer/hello.h"
#include "tier/peer/transport.h"

#define SKY_PEER_RECORD_HEAD_BYTES 20u
#define SKY_PEER_PIECE_BYTES_MAX   (128u << 10) /* of a payload, in one record */

typedef struct sky_peer_link sky_peer_link;

/* What a piece is of its payload. */
typedef struct {
    bool first, last;
    const uint64_t *sum; /* checksum (seed 0) of the whole payload, where the sender knows it, for
                            each of its pieces; NULL: in plain it is taken of what is sent */
} sky_peer_part;

/* In plain: of a payload that has come whole. */
typedef struct {
    uint64_t sum; /* of what came */
    bool right;   /* that is what was sent */
} sky_peer_sum;

/* Who takes what comes. A status that is not SKY_OK ends the connection. */
typedef struct {
    void *self;
    /* How many bytes of a payload are still to come; 0: a frame is next. */
    uint64_t (*expected)(void *self);
    sky_status (*frame)(void *self, const uint8_t *data, size_t bytes);
    /* Where the next bytes of the payload go, at most `bytes` of them: fewer than
     * SKY_PEER_SPANS_MAX spans, at least one; data NULL: away. They are written between this and
     * `placed`, which says how many were. */
    uint32_t (*place)(void *self, size_t bytes, sky_span *spans);
    void (*placed)(void *self, size_t bytes);
    /* A piece came whole: it is placed. 0: the other end gives the payload up. sum: of the payload
     * that ends with it; NULL: more is to come, or what came was sealed, and is unchanged. */
    sky_status (*piece)(void *self, size_t bytes, const sky_peer_sum *sum);
} sky_peer_sink;

/* Take over a connection: *socket is none afterwards. client: which end this is. secrets are
 * copied. Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED; the connection is then still the caller's */
sky_status sky_peer_link_create(sky_peer_socket *socket, bool client,
                                const sky_peer_secrets *secrets, sky_peer_link **out);
/* Closes the connection. NULL is fine. */
void sky_peer_link_destroy(sky_peer_link *l);
/* To wait on; it stays the link's. */
const sky_peer_socket *sky_peer_link_socket(const sky_peer_link *l);
bool sky_peer_link_is_plain(const sky_peer_link *l);

/* Room for the content of a frame's record; NULL: flush first. `bytes`: at most
 * SKY_PEER_FRAME_BYTES_MAX. What is written there is sent as the record of so many bytes by `end`.
 */
uint8_t *sky_peer_link_begin(sky_peer_link *l, size_t bytes);
void sky_peer_link_end(sky_peer_link *l, size_t bytes);
/* A frame. False: flush first. */
bool sky_peer_link_send(sky_peer_link *l, const sky_peer_frame *frame);
/* A piece from where it lies, at most SKY_PEER_PIECE_BYTES_MAX. It stays there until a flush ends
 * SKY_OK. False: flush first. */
bool sky_peer_link_lend(sky_peer_link *l, const uint8_t *data, size_t bytes,
                        const sky_peer_part *part);
/* A piece of the `bytes` bytes of these spans, at most SKY_PEER_SPANS_MAX - 1, which are the
 * caller's again when this returns: what the kernel does not take at once is copied. False: flush
 * first. */
bool sky_peer_link_pass(sky_peer_link *l, const sky_span *spans, uint32_t span_count, size_t bytes,
                        const sky_peer_part *part);
/* A piece of no bytes: the payload is given up. False: flush first. */
bool sky_peer_link_give_up(sky_peer_link *l);
/* Send what waits. Errors: SKY_E_BUSY (not all is sent), SKY_E_IO */
sky_status sky_peer_link_flush(sky_peer_link *l);

/* Hand what came to the sink, as long as it does, and not for long.
 * Errors: SKY_MISS (nothing more has come), SKY_E_IO (the other end is gone), SKY_E_CORRUPT (what
 *         came is no record that it may send), what the sink says */
sky_status sky_peer_link_receive(sky_peer_link *l, const sky_peer_sink *sink);

/* How far one direction of it is. */
typedef struct {
    uint64_t bytes; /* so far */
    bool midway;    /* a record has come, or gone, in part */
} sky_peer_progress;

sky_peer_progress sky_peer_link_received(const sky_peer_link *l);
sky_peer_progress sky_peer_link_sent(const sky_peer_link *l);

#endif
