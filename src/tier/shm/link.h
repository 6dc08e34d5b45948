/* A client's connection to a host, and the memory it was shown over it. The host is not trusted:
 * what it says is checked against what is mapped. Not thread-safe. */
#ifndef SKY_TIER_SHM_LINK_H
#define SKY_TIER_SHM_LINK_H

#include "base/arena.h"
#include "io/ring.h"
#include "tier/shared_index.h"
#include "tier/shm/frame.h"

#define SKY__SHM_SEGMENTS_MAX    64u
#define SKY__SHM_STAGE_UNIT      4096u
#define SKY__SHM_STAGE_BYTES_MIN ((uint64_t)64 << 20)

/* A frame that is still to be sent. */
typedef struct sky__shm_letter {
    struct sky__shm_letter *next;
    size_t bytes;
    uint8_t data[];
} sky__shm_letter;

/* What of a host a client wants. */
typedef struct {
    uint32_t tier;                         /* 1 + the store that alone takes part; 0: all */
    char pool[SKY_SHM_POOL_BYTES_MAX + 1]; /* the pool; "": none */
} sky__shm_part;

typedef struct sky__shm_link {
    struct sky__shm_link *next; /* of those with leases out that are no longer connected */
    int fd;                     /* -1: the connection is over */
    int ended_fd;               /* of one that is over, while leases are out; -1: none */
    sky_ring ring;              /* once it is welcome */
    uint64_t serial;            /* of the links of a tier: the owner of its leases */
    uint32_t lease_count;       /* out: the arena stays mapped */
    uint8_t *arena;
    uint64_t arena_bytes, segment_bytes;
    bool mapped[SKY__SHM_SEGMENTS_MAX];
    uint64_t generations[SKY__SHM_SEGMENTS_MAX]; /* of what is mapped */
    sky_shared_reader reader;                    /* of the arena's index, once it came */
    uint8_t *stage;                              /* NULL: none */
    uint64_t stage_bytes;
    sky_arena *stage_places; /* in units of SKY__SHM_STAGE_UNIT */
    uint64_t staging;        /* bytes asked for, and not answered; 0: none */
    sky__shm_letter *first, *last;
} sky__shm_link;

/* Connect and be welcomed by a host of this user, of root or of `user`; waits, at most until
 * `until`.
 * Errors: SKY_E_PARAM (the path, or it has no such part), SKY_MISS (nobody listens there),
 *         SKY_E_DEADLINE, SKY_E_DENIED (it is another user's), SKY_E_CORRUPT (it is no host),
 *         SKY_E_UNSUPPORTED (another version), SKY_E_BUSY (it has too many clients), SKY_E_IO,
 *         SKY_E_NOMEM */
sky_status sky__shm_link_open(const char *path, uint32_t user, const sky__shm_part *part,
                              sky_time until, sky__shm_link **out);
/* Nothing is sent or received over it any more; what is mapped stays. While leases are out the
 * socket is left open, which tells the host that this process may be reading. */
void sky__shm_link_cut(sky__shm_link *l);
/* NULL is fine. */
void sky__shm_link_destroy(sky__shm_link *l);

/* Send a frame, now or when the ring has room.
 * Errors: SKY_E_IO, SKY_E_CORRUPT, SKY_E_NOMEM: the link is broken */
sky_status sky__shm_link_send(sky__shm_link *l, const sky_shm_frame *frame);
/* Send a frame with a descriptor, which stays the caller's, by `until`.
 * Errors: SKY_E_DEADLINE; SKY_E_IO, SKY_E_CORRUPT: the link is broken */
sky_status sky__shm_link_pass(sky__shm_link *l, const sky_shm_frame *frame, int fd, sky_time until);
/* Send what waits. Errors: SKY_E_IO, SKY_E_CORRUPT */
sky_status sky__shm_link_flush(sky__shm_link *l);
/* The next frame; *passed is the caller's, -1: none. Frames of segments and of the index are taken
 * care of here, and not shown.
 * Errors: SKY_MISS (none is there), SKY_E_IO, SKY_E_CORRUPT, SKY_E_NOMEM: the link is broken */
sky_status sky__shm_link_receive(sky__shm_link *l, sky_shm_frame *out, int *passed);
/* The same, by `until`, for who has nothing else to do: it looks for a while, and then sleeps on
 * the ring's word, which takes less to wake than poll on a socket. The end of the host is heard 20
 * ms later at most. Meanwhile it sends what waits. */
sky_status sky__shm_link_await(sky__shm_link *l, sky_time until, sky_shm_frame *out, int *passed);

/* The host made a stage. Errors: SKY_E_CORRUPT, SKY_E_NOMEM */
sky_status sky__shm_link_stage(sky__shm_link *l, int fd, uint64_t bytes);
/* What lies in the arena; NULL: it was never shown. */
const uint8_t *sky__shm_link_view(const sky__shm_link *l, uint64_t at, uint64_t bytes);
/* The same of a block that is kept (tier/shared_index.h); NULL as well where what is mapped is an
 * earlier segment than the block's. */
const uint8_t *sky__shm_link_kept(const sky__shm_link *l, const sky_shared_block *b);

#endif
