/* What a client and skymemd tell each other over its socket: docs/formats/shm.md.
 *
 *   client                                  host
 *   HELLO ────────────────────────────────►        (SO_PEERCRED says whose process it is)
 *         ◄──────────────────────────────── WELCOME, or REFUSED and the end
 *         ◄──────────────────────────────── INDEX, PAGE + descriptors: what is found without a RUN
 *   RUN: one operation on up to 64 keys ──►
 *         ◄──────────────────────────────── SEGMENT + descriptor, for each the answer needs
 *         ◄──────────────────────────────── DONE: how each ended, and where what was lent lies
 *   RELEASE: leases ──────────────────────►
 *
 *   REGISTER + descriptor ────────────────►        (memory of the client's own)
 *         ◄──────────────────────────────── REGISTERED: its number
 *   LAYOUT: a block's buffers in it ──────►        (in parts of up to 200 buffers)
 *         ◄──────────────────────────────── ANSWERED
 *   BLOCK: open, remove, release ─────────►
 *         ◄──────────────────────────────── REGION + descriptor, then LAYOUT; or ANSWERED
 *
 * A frame is one message of the socket. Payloads are not in frames: what is read lies in the host's
 * arena, what is written in the client's stage, both shared memory. Pure, and any bytes may be
 * decoded: a frame is only as long as it must be, bits without a meaning are zero. Offsets and
 * sizes are checked by who knows the memory they are in. */
#ifndef SKY_TIER_SHM_FRAME_H
#define SKY_TIER_SHM_FRAME_H

#include <skymem/cache.h>

#include "tier/remote.h"

#define SKY_SHM_VERSION         6
#define SKY_SHM_ITEMS_MAX       64
#define SKY_SHM_FRAME_BYTES_MAX 8192
#define SKY_SHM_NUMBERS         8
#define SKY_SHM_ROWS_MAX        200
#define SKY_SHM_BUFFERS_MAX     4096u /* of a block */
#define SKY_SHM_POOL_BYTES_MAX  64u   /* a pool's name: letters, digits, '.', '_', '-' */

typedef enum {
    SKY_SHM_HELLO = 1,   /* client: magic, version */
    SKY_SHM_WELCOME,     /* host: the arena's size */
    SKY_SHM_REFUSED,     /* host: why; it closes then */
    SKY_SHM_RUN,         /* client: do this */
    SKY_SHM_DONE,        /* host: how it ended */
    SKY_SHM_RELEASE,     /* client: leases come back */
    SKY_SHM_CANCEL,      /* client: nobody waits for this run any more, which ends all the same, or
                          * for this open, whose lease ends */
    SKY_SHM_STAGE,       /* client: memory to write into, so large, instead of what there was */
    SKY_SHM_STAGED,      /* host: it, with a descriptor, or why not */
    SKY_SHM_SEGMENT,     /* host: a segment of the arena, with a descriptor */
    SKY_SHM_RETIRED,     /* host: a segment is gone */
    SKY_SHM_ASK,         /* client: tell me about yourself */
    SKY_SHM_TOLD,        /* host: numbers, and perhaps a descriptor with more */
    SKY_SHM_REGISTER,    /* client: memory of its own, with a descriptor */
    SKY_SHM_REGISTERED,  /* host: its number, or why not */
    SKY_SHM_LAYOUT,      /* both: where a block's buffers lie in a region */
    SKY_SHM_BLOCK,       /* client: do this with a published block */
    SKY_SHM_ANSWERED,    /* host: how that ended, or the publishing of a block */
    SKY_SHM_REGION,      /* host: a region, with a descriptor */
    SKY_SHM_REGION_GONE, /* host: its owner is; what was lent of it stays */
    SKY_SHM_INDEX,       /* host: the index of the arena, with a descriptor */
    SKY_SHM_PAGE,        /* host: this client's page as a reader of it, with a descriptor */
} sky_shm_kind;

typedef enum {
    SKY_SHM_LIST = 1, /* descriptor: entries, sky_shm_entry_decode */
    SKY_SHM_VERIFY,   /* numbers: those of sky_verify_report, in its order */
    SKY_SHM_STAT,     /* numbers: entries, bytes, most bytes */
    SKY_SHM_TEXT,     /* descriptor: what the daemon says of itself, JSON */
} sky_shm_question;

typedef enum {
    SKY_SHM_BLOCK_OPEN = 1, /* LAYOUT with a lease, or ANSWERED */
    SKY_SHM_BLOCK_REMOVE,   /* the client's own: ANSWERED, SKY_E_BUSY while it is open */
    SKY_SHM_BLOCK_RELEASE,  /* this lease; no answer */
} sky_shm_block_op;

/* A buffer of a block. */
typedef struct {
    uint64_t offset; /* in the region */
    uint64_t checksum;
    uint32_t bytes;
} sky_shm_row;

/* A block's buffers, or some of them: those from `first` on, as many as the frame's count. */
typedef struct {
    sky_key key;
    uint64_t lease;    /* of the host; 0: the client publishes it */
    uint32_t shape[3]; /* buffers along each axis, SKY_SHM_BUFFERS_MAX in all */
    uint32_t layer_axis;
    uint32_t first;
    sky_shm_row rows[SKY_SHM_ROWS_MAX];
} sky_shm_layout;

/* An item of a run. */
typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t at;         /* put: where in the stage the payload lies, the name behind it */
    uint64_t bytes;      /* put: of the payload */
    uint32_t name_bytes; /* put: 0 for a block */
} sky_shm_order;

/* How an item of a run ended. */
typedef struct {
    sky_status status;
    uint32_t ttl_s;
    uint64_t bytes;
    uint64_t at;    /* lease: where in the arena the payload lies */
    uint64_t lease; /* lease: what RELEASE names */
    sky_coding coding;
    uint8_t evict;
    bool pinned;
} sky_shm_result;

typedef struct {
    sky_shm_kind kind;
    uint32_t id;    /* run, done, cancel, ask, told: which; of the client's choice */
    uint32_t count; /* run, done: items; release: leases; layout: rows; hello: 1 + the store of the
                       host that alone takes part, 0: all */
    union {
        uint32_t version;          /* hello */
        sky_status status;         /* refused, staged, registered, answered */
        sky_op op;                 /* run: all but GET, for which a client leases */
        sky_shm_question question; /* ask, told */
        uint32_t segment;          /* segment, retired */
        uint32_t region;           /* register (0), layout, region, region gone */
        sky_shm_block_op block_op; /* block */
    };
    union {
        struct {                    /* welcome */
            uint64_t arena_bytes;   /* whole segments */
            uint64_t segment_bytes; /* a power of two */
            uint64_t client;        /* its number, as in the daemon's log */
        };
        struct { /* run */
            sky__call_fields call;
            sky_shm_order orders[SKY_SHM_ITEMS_MAX];
        };
        sky_shm_result results[SKY_SHM_ITEMS_MAX]; /* done */
        uint64_t leases[SKY_SHM_ITEMS_MAX];        /* release */
        char pool[SKY_SHM_POOL_BYTES_MAX + 1];     /* hello: the pool; "": none */
        uint64_t stage_bytes;                      /* stage, staged */
        sky_shm_layout layout;                     /* layout */
        struct {                                   /* block */
            sky_key key;                           /* zero for a release */
            uint64_t lease;                        /* release; else 0 */
        };
        uint64_t generation;   /* segment */
        uint64_t region_bytes; /* register, region */
        uint64_t number;       /* registered: the region's; answered: 0 */
        struct {               /* told */
            sky_status told;
            uint64_t numbers[SKY_SHM_NUMBERS];
            uint64_t text_bytes; /* behind the descriptor; 0: there is none */
        };
    };
} sky_shm_frame;

/* A name that a pool may have. */
bool sky_shm_is_pool(const char *name);

/* Buffers of a block of this shape; 0: it is none. */
uint32_t sky_shm_buffers(const uint32_t shape[3], uint32_t layer_axis);

/* The bytes it takes, at most SKY_SHM_FRAME_BYTES_MAX. */
size_t sky_shm_encode(const sky_shm_frame *frame, uint8_t out[SKY_SHM_FRAME_BYTES_MAX]);
/* Errors: SKY_E_CORRUPT for anything that encode does not write */
sky_status sky_shm_decode(const uint8_t *data, size_t bytes, sky_shm_frame *out);

/* An entry of a listing, appended to what was encoded before: *used bytes of `out` are in use then.
 * False: there is no room. */
bool sky_shm_entry_encode(const sky_entry *entry, uint8_t *out, size_t room, size_t *used);
#define SKY_SHM_ENTRY_BYTES_MAX (112u + SKY_NAME_BYTES_MAX)
/* The entry at *at, which then is that of the next. The name is copied to `name`.
 * Errors: SKY_MISS (there are no more), SKY_E_CORRUPT */
sky_status sky_shm_entry_decode(const uint8_t *data, size_t bytes, size_t *at,
                                char name[SKY_NAME_BYTES_MAX + 1], sky_entry *out);

#endif
