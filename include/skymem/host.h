/* The host store: one cache for every process of a user on this machine.
 *
 *   sky_host_run ── socket ──► process A: sky_cache_open("shm:SOCKET", …)
 *        │  mem:SIZE is the arena: shared memory, lent read-only, read in place
 *        │  disk:…, sky:… below it
 *        └──── socket ───────► process B
 *
 * The daemon skymemd is this function and a command line. A process that ends, however it ends,
 * gives back what it was lent. */
#ifndef SKYMEM_HOST_H
#define SKYMEM_HOST_H

#include <skymem/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_HOST_CLIENTS_MAX 256 /* at once; each user at most its part of them */
#define SKY_HOST_USERS_MAX   32  /* besides the host's own; pools count too */

/* What a host has counted of a user. */
typedef struct {
    uint64_t clients;         /* connected now */
    uint64_t connections;     /* so far */
    uint64_t refused;         /* turned away: another user's, or too many; 0 of other users */
    uint64_t disconnected;    /* clients that broke the protocol, or did not read */
    uint64_t committed_bytes; /* segments of the arena that there are now */
    uint64_t hits;            /* payloads lent to clients: what a get of theirs reads */
    uint64_t misses;          /* asked for, and in none of its stores */
    /* What clients published in memory of their own (skymem/blob.h). */
    uint64_t regions; /* registered now */
    uint64_t region_bytes;
    uint64_t blocks; /* published now */
    uint64_t block_bytes;
    uint64_t block_puts;         /* published so far */
    uint64_t block_copied_bytes; /* of them, into the arena, for who asked in the ordinary way */
    uint64_t block_corrupt;      /* withdrawn, as their bytes were not those published */
    const char *pool;            /* the pool whose counters these are, borrowed; "": none */
    uint64_t direct_leases;      /* what clients keep of the arena now without having asked for it:
                                    besides SKY_METRIC_CACHE_LEASES, and counted in `hits` */
} sky_host_stat;

/* Another user that is served, or a pool of a user, from stores of its own: nothing of one is
 * shown to another, and the sizes in its URLs are what it may use. A pool is for clients that
 * name it, shm:SOCKET?pool=NAME; its user must be served too. */
typedef struct {
    uint32_t uid;
    const char *const *urls; /* as the host's: the first is mem:SIZE */
    size_t url_count;
    const char *pool; /* the pool: 1 to 64 letters, digits and . _ -; NULL: none */
} sky_host_user;

/* What may change while a host runs. */
typedef struct {
    uint32_t idle_s; /* end when no client was there for so long; 0: never */
    const sky_host_user *users;
    size_t user_count; /* at most SKY_HOST_USERS_MAX */
} sky_host_settings;

/* Memory that an earlier host handed over, as a service manager held it meanwhile. */
typedef struct {
    const char *name; /* as it was kept under */
    int fd;           /* closed by the host, if it starts */
} sky_host_kept;

/* Zero what you do not set. */
typedef struct {
    size_t struct_bytes;     /* sizeof(sky_host_options) of the caller's header */
    const char *socket_path; /* at most 107 bytes */
    const char *const *urls; /* as of sky_cache_open; the first is mem:SIZE, the arena */
    size_t url_count;
    int stop_fd;                  /* readable: end. 0 or -1: never */
    void (*ready)(void *context); /* clients may come now; NULL is fine */
    /* What sky_host_text brings, made by malloc; NULL: nothing. It is called on a thread of the
     * user or pool that is asked about: of several at once, perhaps, and none once `closing` is
     * called. During a call each store is asked for its numbers once; `stat` is from when the
     * client asked. */
    char *(*text)(void *context, sky_cache *cache, const sky_host_stat *stat);
    void *context;
    /* A Unix socket (SOCK_SEQPACKET) that listens, from a service manager: it is used instead of
     * socket_path, and closed at the end. 0 or -1: none */
    int listen_fd;
    int reload_fd; /* readable: call reload, which makes it unreadable. 0 or -1: never */
    /* Sets what changed; false: nothing did. What it points to stays until the next call, and the
     * end. The stores of a user who was served before do not change. */
    bool (*reload)(void *context, sky_host_settings *settings);
    sky_host_settings settings; /* to begin with */
    /* The host's own cache is open, before `ready`: to serve it to others (skymem/peer.h). It may
     * fail, and the host ends then. closing: it is used no more after this. NULL is fine. */
    sky_status (*opened)(void *context, sky_cache *cache, sky_error *error);
    void (*closing)(void *context);
    /* Hand the arenas of a host that ends to the next one (sd_pid_notify_with_fds(3)).
     * keep:   called at the end, once for each descriptor. name: letters, digits and . at most 40
     *         bytes. The host closes fd afterwards; keep may send or duplicate it. NULL: nothing is
     *         kept.
     * kept:   what an earlier host gave to keep. It is copied before `opened`.
     * forget: a kept descriptor is needed no longer: whatever holds a copy should close it, which
     *         frees the memory. NULL is fine.
     * An arena comes back once, even where nothing was forgotten. */
    void (*keep)(void *context, const char *name, int fd);
    void (*forget)(void *context, const char *name);
    const sky_host_kept *kept;
    size_t kept_count;
} sky_host_options;

/* Serve clients until stop_fd is readable, or none was there for settings.idle_s. Then answer what
 * was asked, at most 10 s, write out what is queued, at most 10 s, and return. Processes of users
 * that are not served are refused.
 * Errors: SKY_E_PARAM (NULL, the socket's path, the first URL is no mem:, a user or pool is
 *         there twice, a pool's name or user),
 *         SKY_E_BUSY (another host has the socket, or the folder of a disk:), those of
 *         sky_cache_open; SKY_E_DEADLINE: it served, and not everything queued was written at the
 *         end; `error` says what and why */
SKY_API sky_status sky_host_run(const sky_host_options *options, sky_error *error);

/* Where shm:auto listens: skymem/skymemd.sock in $XDG_RUNTIME_DIR, or /tmp/skymem-UID/skymemd.sock.
 * The folder is made; it is of this user alone.
 * Errors: SKY_E_PARAM (out_bytes; the path is too long for a socket), SKY_E_DENIED (the folder is
 *         another's, or others may write there); `error` says why */
SKY_API sky_status sky_host_path(char *out, size_t out_bytes, sky_error *error);

/* What the host at a socket says of itself: JSON, if it is skymemd. socket_path: what may stand
 * behind `shm:` in a store's URL; "auto" is started by nobody here.
 * Owner:  *text is NUL-terminated; the caller frees it
 * Errors: SKY_E_PARAM (NULL, the path), SKY_MISS (nobody listens there), SKY_E_DEADLINE (no answer
 *         by `until`), SKY_E_DENIED (it is another user's), SKY_E_CORRUPT (it is no host),
 *         SKY_E_UNSUPPORTED (it is one of another version), SKY_E_BUSY (it has too many clients),
 *         SKY_E_IO, SKY_E_NOMEM */
SKY_API sky_status sky_host_text(const char *socket_path, sky_time until, char **text);

#ifdef __cplusplus
}
#endif
#endif
