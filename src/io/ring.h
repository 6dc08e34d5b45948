/* A connection of two processes of one machine whose messages go through shared memory. The bytes
 * are in docs/formats/ring.md.
 *
 *   maker                       one memfd, sealed                       opener
 *   send ──► | tail | bytes of the maker's messages … | head | ──► receive
 *   receive ◄── | head | … bytes of the opener's messages | tail | ◄── send
 *      ╰────────── a Unix socket: descriptors, wake-ups, and the end ──────────╯
 *
 * While both sides look (spin, or work) a message takes no system call. A side that sleeps says so
 * in the memory (rest), looks once more, and is woken by the next message: on a word of the memory
 * (wait), or by a byte on the socket, for who sleeps in poll.
 *
 * The peer is not trusted. Each side keeps its own places to itself and reads the peer's once; a
 * message is copied out before anybody looks at it. What does not fit is SKY_E_CORRUPT, and the
 * connection is to be ended then.
 *
 * Not thread-safe, but for sky_ring_wait: another thread may send, hear and kick meanwhile. */
#ifndef SKY_IO_RING_H
#define SKY_IO_RING_H

#include <skymem/types.h>

#define SKY_RING_BYTES         65536u /* of each direction */
#define SKY_RING_MEMORY_BYTES  (4096u + 2 * SKY_RING_BYTES)
#define SKY_RING_MESSAGE_BYTES 8192u /* the largest message */
#define SKY_RING_HELD_MAX      96u   /* descriptors that came before their messages were received */

struct sky__ring_side;

/* How long a side looks before it sleeps: some tens of microseconds where that was long enough the
 * last times, else less and less, so that it costs a busy machine little; now and then it tries
 * again. Zeros to begin with. */
typedef struct {
    uint32_t failures; /* in a row */
} sky_spin;

/* Nanoseconds to look now; 0 where the peer cannot run meanwhile. */
sky_time sky_spin_ns(const sky_spin *s);
/* It looked so long, and something came, or it did not. */
void sky_spin_done(sky_spin *s, bool came);

typedef struct {
    int socket;      /* the caller's; -1: closed */
    uint8_t *memory; /* NULL: none */
    struct sky__ring_side *in, *out;
    uint8_t *in_bytes, *out_bytes;
    uint32_t head;        /* of `in`: bytes received so far */
    uint32_t tail;        /* of `out`: bytes sent so far */
    _Atomic bool blocked; /* the last send found no room */
    _Atomic bool kicked;
    sky_spin spin;
    int held[SKY_RING_HELD_MAX];
    uint32_t held_count;
} sky_ring;

/* How a side sleeps. */
typedef enum {
    SKY_RING_AWAKE,
    SKY_RING_ON_WORD,   /* in sky_ring_wait */
    SKY_RING_ON_SOCKET, /* in poll, on the socket */
} sky_ring_rest;

/* Make the memory over a connected socket of this process (sky_local_connect, _accept).
 * Owner:  *fd, which is to be sent to the peer, is the caller's; the socket too
 * Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED */
sky_status sky_ring_make(int socket, sky_ring *out, int *fd);
/* The other side, with what its peer made. The descriptor stays the caller's.
 * Errors: SKY_E_CORRUPT (no such memory), SKY_E_NOMEM */
sky_status sky_ring_open(int socket, int fd, sky_ring *out);
/* Unmap, and close what was held. The socket stays. Fine on zeros and twice. */
void sky_ring_deinit(sky_ring *r);

/* Send one message of 1 to SKY_RING_MESSAGE_BYTES bytes, with a descriptor (-1: none), which stays
 * the caller's.
 * Errors: SKY_E_BUSY (no room: sky_ring_has_work says when there is some), SKY_E_FULL (no room for
 *         the descriptor: try later), SKY_E_IO (the peer is gone), SKY_E_CORRUPT */
sky_status sky_ring_send(sky_ring *r, const void *data, size_t bytes, int passed);
/* Receive one message of at most bytes_max bytes. *passed: its descriptor, the caller's; -1: none.
 * Errors: SKY_MISS (none is there), SKY_E_IO (the peer is gone), SKY_E_CORRUPT */
sky_status sky_ring_receive(sky_ring *r, void *data, size_t bytes_max, size_t *bytes, int *passed);
/* A message is there, or room for one that could not be sent. */
bool sky_ring_has_work(const sky_ring *r);
/* The peer says that it has received all that was sent. */
bool sky_ring_is_read(const sky_ring *r);

/* This side is about to sleep. False: there is something to do, and it is awake. */
bool sky_ring_sleep(sky_ring *r, sky_ring_rest how);
/* It is awake. */
void sky_ring_rise(sky_ring *r);
/* Look for a while, by `until`; true: there is something to do. */
bool sky_ring_look(sky_ring *r, sky_time until);
/* Look for a while, then sleep, until there is something to do, or `until`; may return early. The
 * side is awake then. */
void sky_ring_wait(sky_ring *r, sky_time until);
/* Every sky_ring_wait, also of another thread, ends at once from now on. */
void sky_ring_kick(sky_ring *r);
/* The socket is readable: take some of what is there. A peer that fills it without end holds
 * nobody up: it stays readable. Errors: SKY_E_IO (the peer is
 * gone), SKY_E_CORRUPT */
sky_status sky_ring_hear(sky_ring *r);
/* A moment's rest for a loop that looks. */
void sky_ring_pause(void);

#endif
