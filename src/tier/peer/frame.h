/* What a client and a host say to each other over the network: docs/formats/peer.md.
 *
 *   client                                     host
 *   RUN: one operation on up to 1,024 keys ──►
 *   a put's payloads, one after the other ───►
 *          ◄─────────────────────────────────── DONE: how each item ended
 *          ◄─────────────────────────────────── a get's payloads, one after the other
 *
 * A frame is the content of one record (link.h). Pure, and any bytes may be decoded: a frame is
 * only as long as it must be, and bits without a meaning are zero. */
#ifndef SKY_TIER_PEER_FRAME_H
#define SKY_TIER_PEER_FRAME_H

#include <skymem/cache.h>

#include "tier/remote.h"

#define SKY_PEER_ITEMS_MAX         1024u
#define SKY_PEER_PAYLOAD_ITEMS_MAX 64u                   /* of a get or a put */
#define SKY_PEER_PUT_BYTES_MAX     ((uint64_t)32 << 20)  /* before the last payload of a put */
#define SKY_PEER_SMALL_PUT         ((uint64_t)512 << 10) /* more may wait for room at the host */
#define SKY_PEER_FRAME_BYTES_MAX   (192u << 10)
#define SKY_PEER_NUMBERS           4
#define SKY_PEER_TEXT_BYTES_MAX    ((uint64_t)1 << 30)

typedef enum {
    SKY_PEER_READY = 1, /* client: the first frame; only who has the key can have sealed it */
    SKY_PEER_WELCOME,   /* host: the answer to it */
    SKY_PEER_RUN,       /* client: do this; the payloads of a put follow */
    SKY_PEER_DONE,      /* host: how it ended; the payloads of a get follow */
    SKY_PEER_CANCEL,    /* client: nobody waits for this run any more; it ends all the same */
    SKY_PEER_ASK,       /* client: tell me about yourself */
    SKY_PEER_TOLD,      /* host: numbers; text_bytes of a listing follow as a payload does */
} sky_peer_kind;

typedef enum {
    SKY_PEER_LIST = 1, /* entries as of sky_shm_entry_encode */
    SKY_PEER_VERIFY,   /* numbers: those of sky_verify_report, in its order */
    SKY_PEER_STAT,     /* numbers: entries, bytes, most bytes */
} sky_peer_question;

/* An item of a run. */
typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t offset; /* get: of the range */
    uint64_t bytes;  /* get: of the range; put: of the payload */
    uint64_t room;   /* get: more is not sent */
    uint16_t name_bytes;
    const char *name; /* put: in the frame's bytes; NULL for a block */
} sky_peer_order;

/* How an item of a run ended. */
typedef struct {
    sky_status status;
    uint32_t ttl_s;
    uint64_t bytes; /* get: that follow; has: of the payload */
    sky_coding coding;
    uint8_t evict;
    bool pinned;
} sky_peer_result;

typedef struct {
    sky_peer_kind kind;
    uint32_t id;    /* run, done, cancel, ask, told: which; of the client's choice */
    uint32_t count; /* run, done: items */
    union {
        sky_op op;                  /* run: all but LEASE */
        sky_peer_question question; /* ask, told */
    };
    union {
        struct { /* welcome */
            uint64_t payload_bytes_max;
            uint64_t connection; /* its number, as in the host's log */
        };
        struct { /* run */
            sky__call_fields call;
            sky_peer_order orders[SKY_PEER_ITEMS_MAX];
        };
        struct {           /* done */
            bool payloads; /* it was a get */
            sky_peer_result results[SKY_PEER_ITEMS_MAX];
        };
        struct { /* told */
            sky_status told;
            uint64_t numbers[SKY_PEER_NUMBERS];
            uint64_t text_bytes; /* that follow */
        };
    };
} sky_peer_frame;

/* The bytes it takes, at most SKY_PEER_FRAME_BYTES_MAX. */
size_t sky_peer_encode(const sky_peer_frame *frame, uint8_t out[SKY_PEER_FRAME_BYTES_MAX]);
/* Names of *out lie in `data`. Errors: SKY_E_CORRUPT for anything that encode does not write */
sky_status sky_peer_decode(const uint8_t *data, size_t bytes, sky_peer_frame *out);

#endif
