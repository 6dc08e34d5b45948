/* Messages between processes of one machine: Unix sockets (SOCK_SEQPACKET) that keep the bounds of
 * messages and carry descriptors. None of these calls blocks, but where it says so.
 *
 * A peer is not trusted: what it sends is cut at the size asked for and told so, and descriptors
 * nobody waits for are closed. */
#ifndef SKY_IO_LOCAL_H
#define SKY_IO_LOCAL_H

#include <skymem/types.h>

/* Who is at the other end, as the kernel says (SO_PEERCRED). */
typedef struct {
    uint32_t uid;
    int32_t pid;
} sky_local_peer;

typedef struct {
    int fd;
    uint64_t device, file; /* of the socket as it was bound */
} sky_local_listener;

#define SKY_LOCAL_PATH_BYTES_MAX 107

/* Listen at `path`, for the user alone. A socket without a listener is what a killed process left,
 * and is replaced; anything else stays. Of several processes that begin at once one listens: the
 * path's folder is locked meanwhile.
 * Errors: SKY_E_PARAM (the path is too long), SKY_E_BUSY (another process listens there),
 *         SKY_E_DENIED, SKY_E_IO; `error` says why */
sky_status sky_local_listen(const char *path, sky_local_listener *out, sky_error *error);
/* Listen on a socket that a service manager made and passed. It is closed with the listener, and
 * its file stays.
 * Errors: SKY_E_PARAM (no Unix socket of this kind that listens); `error` says so */
sky_status sky_local_adopt(int fd, sky_local_listener *out, sky_error *error);
/* Let other users connect: sky_local_accept says who they are. Errors: SKY_E_IO */
sky_status sky_local_admit(const char *path, const sky_local_listener *l);
/* Close, and remove the socket's file unless another took its place. `path` may be NULL. */
void sky_local_unlisten(const char *path, sky_local_listener *l);

/* A connection that waits, or -1. *exhausted: this process has no descriptors or memory for it. */
int sky_local_accept(const sky_local_listener *l, sky_local_peer *peer, bool *exhausted);

/* Errors: SKY_E_PARAM (the path), SKY_MISS (nobody listens there), SKY_E_BUSY (too many wait to be
 *         accepted), SKY_E_DENIED, SKY_E_IO */
sky_status sky_local_connect(const char *path, int *fd, sky_local_peer *peer);
void sky_local_close(int fd); /* -1 is fine */
void sky_local_end(int fd);   /* the peer reads to the end; the connection lasts until it closes */
int sky_local_duplicate(int fd); /* -1: no descriptors are left */
uint32_t sky_local_user(void);   /* of this process */
/* A user's number by its name, or as it is written. */
bool sky_local_find_user(const char *name, uint32_t *uid);

/* Send one message, with a descriptor (-1: none), which stays the caller's.
 * Errors: SKY_E_BUSY (the peer's buffer is full: try when it is writable), SKY_E_FULL (no more
 *         descriptors of this user may be under way: try later, as the socket may be writable all
 *         the time), SKY_E_IO (the peer is gone) */
sky_status sky_local_send(int fd, const void *data, size_t bytes, int passed);
/* Has the peer read all that was sent? */
bool sky_local_is_read(int fd);
/* Receive one message of at most bytes_max. *passed: its descriptor, the caller's; -1: none.
 * Errors: SKY_MISS (none waits), SKY_E_IO (the peer is gone), SKY_E_CORRUPT (too long, empty, or
 *         more than one descriptor) */
sky_status sky_local_receive(int fd, void *data, size_t bytes_max, size_t *bytes, int *passed);
/* As many descriptors as the system lets this process have. */
void sky_descriptors_raise(void);

/* Sleep until a descriptor of `fds` is readable, or writable where `writes` says so, or `until`.
 * ready[i]: it is, or its peer is gone. A descriptor -1 is passed over. */
void sky_local_poll(const int *fds, const bool *writes, bool *ready, size_t count, sky_time until);

/* A descriptor that is readable while the connection watched is readable, if that was asked for,
 * or writable, if that was; or its peer is gone. Errors: SKY_E_IO */
sky_status sky_local_watch_create(int *watch);
/* Watch this connection from now on, for so much. Another thread that sleeps on `watch` is not
 * woken by what is no longer asked for. To be ended before the connection is closed. */
void sky_local_watch(int watch, int fd, bool reads, bool writes);
void sky_local_unwatch(int watch, int fd);

#endif
