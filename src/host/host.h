/* The host's inside: one thread serves all clients; others do what takes long. The thread looks at
 * the clients' rings (io/ring.h) as long as one has something, and for a while more;
 * then it sleeps in poll.
 *
 *   host.c       the loop: accepts, drains the caches, ends
 *   tenant.c     a user's stores
 *   handover.c   its arena, from the host that ended and to the next
 *   client.c     one client: its frames in, its letters out, its stage
 *   published.c  what clients publish in memory of their own
 *   chores.c     listings, checks and numbers, on threads of each tenant
 *
 * A client is not trusted. What breaks the protocol ends its connection and nothing else: its runs
 * are cancelled, its stage unmapped. What it was lent stays until it has closed the connection too,
 * as one that was ended for want of memory may be reading it. */
#ifndef SKY_HOST_HOST_H
#define SKY_HOST_HOST_H

#include <stdatomic.h>

#include <skymem/host.h>

#include "io/local.h"
#include "io/ring.h"
#include "io/sync.h"
#include "tier/mem/segments.h"
#include "tier/mem/shared.h"
#include "tier/shm/frame.h"

#define SKY__HOST_TENANTS_MAX (1 + SKY_HOST_USERS_MAX)
#define SKY__HOST_RUNS_MAX    128u           /* of a client, under way at once */
#define SKY__HOST_LEASES_MAX  16384u         /* of a client */
#define SKY__HOST_LETTERS_MAX 512u           /* waiting for a client to read */
#define SKY__HOST_PASSED_MAX  80u            /* of these with a descriptor: 64 segments, and some */
#define SKY__HOST_OPENS       64u            /* of a client whose ids are known; 16 are under way */
#define SKY__HOST_STAGES      4u             /* all stages of another user, in arenas of its */
#define SKY__HOST_HELLO_NS    SKY_SECONDS(5) /* until a client has said who it is */

#define SKY__HOST_KEPT_NS SKY_MS(10) /* until what is kept and gone is looked at again */
#define SKY__HOST_SEND_NS SKY_MS(20) /* until a descriptor is sent again that was refused */

/* A frame on its way to a client whose ring is full. */
typedef struct sky__letter {
    struct sky__letter *next;
    int passed; /* ours; -1: none */
    size_t bytes;
    uint8_t data[];
} sky__letter;

struct sky__client;
struct sky__run;
typedef struct sky__published sky__published; /* published.h */
typedef struct sky__block sky__block;

/* What is asked for waits in one of two queues, as a check takes minutes, and numbers are read
 * meanwhile. */
typedef enum { SKY__QUEUE_LISTINGS, SKY__QUEUE_NUMBERS, SKY__QUEUES } sky__queue_kind;

/* A queue of a tenant, and the thread that does what waits in it. */
typedef struct {
    struct sky__host *host;
    sky_thread thread;          /* from the first chore on */
    struct sky__chore *waiting; /* chores that are not begun; with the host's mutex held */
    bool ending;                /* the same: no more are begun */
} sky__queue;

/* A user, or a pool of one, and what it is served from. */
typedef struct {
    uint32_t uid;
    char pool[SKY_SHM_POOL_BYTES_MAX + 1]; /* "": none */
    bool leaving;                          /* it is served no longer */
    uint32_t chores;                       /* under way */
    sky__queue queues[SKY__QUEUES];
    char *stores;         /* its URLs, a line each */
    uint64_t stage_bytes; /* of all its clients */
    uint64_t turn_bytes;  /* copied of its stages in this turn */
    sky_cache *cache;
    sky_tier *arena_tier;
    sky_arena_view arena;
    uint64_t segments_gone;     /* as they were counted when clients were last told */
    uint64_t direct_uses;       /* of clients that asked nothing, counted so far */
    int folders[SKY_TIERS_MAX]; /* those of its stores, locked; -1: none */
    struct sky__run *runs;      /* under way */
    sky__published *blocks;
    sky_host_stat stat; /* connections that are refused are counted of the host's own */
} sky__tenant;

/* A run under way in the cache. */
typedef struct sky__run {
    struct sky__run *next;
    struct sky__client *client;
    uint32_t id;
    sky_op op;
    sky_call call;
    sky_batch batch;
    uint32_t count;
    uint64_t withdrawn; /* removal, bit i: something was published under the key of item i */
    sky_item items[SKY_SHM_ITEMS_MAX];
    sky_span spans[SKY_SHM_ITEMS_MAX];
    char names[]; /* copies: a stage may change while it is read */
} sky__run;
_Static_assert(SKY_SHM_ITEMS_MAX <= 64, "`withdrawn` has a bit for each");

/* What opened a published block, and its lease; 0: it was lent nothing. */
typedef struct {
    uint32_t id;
    uint64_t lease;
} sky__open;

typedef struct sky__client {
    int fd;        /* -1: none */
    int ended_fd;  /* of one that was ended and may still read what it was lent; -1: none */
    sky_ring ring; /* once it is greeted */
    sky__tenant *tenant;
    uint64_t number; /* the owner of its leases */
    sky_local_peer peer;
    uint32_t tier; /* 1 + the store that alone takes part in what it asks for; 0: all */
    bool greeted;
    bool reads; /* it may find and keep what lies in the arena, as this reader */
    uint32_t reader;
    bool asking[SKY__QUEUES]; /* a chore is under way for it */
    bool listed; /* it may not have read a listing or text yet, which take memory until then */
    sky_time greet_by;
    sky_time send_at; /* letters: not before; 0: when there is room */
    uint8_t *stage;   /* NULL: none */
    uint64_t stage_bytes;
    uint32_t run_count, lease_count, letter_count, passed_count, region_count, block_leases;
    sky__block *publishing;           /* parts of it came; NULL: none */
    sky__open opens[SKY__HOST_OPENS]; /* the last of each id % SKY__HOST_OPENS */
    sky__run *stalled; /* the cache had no room for it; nothing more is read until it has */
    sky__letter *first, *last;
    uint64_t shown[SKY_SEGMENTS_MAX]; /* the generation of each segment that it was sent; 0: none */
} sky__client;

typedef struct sky__chore {
    struct sky__chore *next;
    sky__tenant *tenant;
    uint64_t client;
    uint32_t tier; /* the client's */
    uint32_t id;
    sky_shm_question question;
    sky_host_stat stat; /* the tenant's, when it was asked */
    sky_status status;
    uint64_t numbers[SKY_SHM_NUMBERS];
    uint8_t *text;
    size_t text_bytes;
} sky__chore;

typedef struct sky__host {
    sky_host_options options;
    sky_host_settings settings;                  /* as they are now */
    sky__tenant *tenants[SKY__HOST_TENANTS_MAX]; /* the first is the host's own user */
    size_t tenant_count;
    sky_local_listener listener;
    sky_time accept_at;   /* not before */
    sky_time empty_since; /* when the last client left, if that counts; 0: it does not */
    uint64_t numbers;     /* of clients so far */
    uint32_t region_numbers;
    sky__client *clients; /* [SKY_HOST_CLIENTS_MAX] */
    size_t places;        /* clients from here on were never used */
    size_t turns;         /* so far */
    sky_spin spin;
    sky_time sweep_at;    /* what clients keep is looked at again */
    sky_time busy_until;  /* the thread looks at rings so long, before it sleeps; 0: not now */
    sky_time complain_at; /* lines for the log: so many in a second */
    uint32_t complaints;

    sky_mutex mutex; /* the lists of chores, and the queues' `ending` */
    sky_condition changed;
    int chores_event;
    atomic_bool checks_end;
    sky__chore *finished;
} sky__host;

/* ---- tenant.c ---- */

/* Open a user's stores. Errors: as those of sky_host_run; `error` says what and why */
sky_status sky__tenant_open(sky__host *h, const sky_host_user *user, sky_error *error);
/* Nobody uses it any more. */
void sky__tenant_close(sky__host *h, size_t index);
/* pool: the pool; "" or NULL: none. NULL: this user or pool is not served. */
sky__tenant *sky__tenant_of(const sky__host *h, uint32_t uid, const char *pool);
/* Whether one more client may be of it: no user takes the places of the others. */
bool sky__tenant_has_place(const sky__host *h, const sky__tenant *t);
/* Open those of the settings, and let them connect. */
sky_status sky__tenants_open(sky__host *h, sky_error *error);
/* The settings changed: mark those that leave. When their clients are gone, update: users come and
 * go. */
void sky__tenants_mark(sky__host *h);
void sky__tenants_update(sky__host *h);
/* Close those that leave, and of which nothing is under way. */
void sky__tenants_sweep(sky__host *h);

/* ---- handover.c ---- */

/* Take what an earlier host kept of its users' arenas. All of options.kept is closed. */
void sky__tenants_take_over(sky__host *h);
/* Nobody uses the caches any more: keep the arenas for the next host. */
void sky__tenants_hand_over(sky__host *h);

/* ---- client.c ---- */

/* A new connection in a free place. Its frames are read from now on. */
void sky__client_open(sky__tenant *t, sky__client *c, uint64_t number, int fd,
                      const sky_local_peer *peer);
/* Of who is in this place, or was ended there and still has leases; -1: nobody. */
static inline int sky__client_socket(const sky__client *c) {
    return c->fd >= 0 ? c->fd : c->ended_fd;
}
static inline bool sky__client_is_here(const sky__client *c) {
    return sky__client_socket(c) >= 0;
}
/* End it: cancel, release, unmap. `why`: what it did wrong, for the log; NULL: it left. The leases
 * of one that did not leave last until it does: it may be reading. */
void sky__client_close(sky__host *h, sky__client *c, const char *why);
/* End those of tenants that leave. */
void sky__clients_dismiss(sky__host *h);
/* Its socket is ready: it says who it is, wakes this host, or is gone. */
void sky__client_hear(sky__host *h, sky__client *c);
/* Something is in its ring, or there is room for what waits. */
bool sky__client_has_work(const sky__client *c);
/* Send what waits, take some of what came. */
void sky__client_serve(sky__host *h, sky__client *c);
/* A turn of all that have work; false: none had. A user's turn ends with the bytes that its clients
 * have copied, perhaps before the last of them, so another client begins each time. */
bool sky__clients_serve(sky__host *h, sky__client *const *clients, size_t count);
/* Whether a line about a bad client may go to the log: a flood of them is no flood of lines. */
bool sky__host_may_log(sky__host *h);
/* Send a frame, with a descriptor (-1: none), which stays the caller's, now or when it reads. */
void sky__client_send(sky__host *h, sky__client *c, const sky_shm_frame *frame, int passed);
/* Answer what is finished. */
void sky__clients_answer(sky__host *h);
/* A run is over: answer it and free it. */
void sky__run_end(sky__host *h, sky__run *run);
/* Hand a run to the cache; it may be over then. */
void sky__run_start(sky__host *h, sky__run *run);
/* Free what clients kept and let go, and tell them which segments are gone. Returns when to look
 * again. */
sky_time sky__clients_retire(sky__host *h);

/* ---- chores.c ---- */

/* Errors: SKY_E_IO */
sky_status sky__chores_init(sky__host *h);
void sky__chores_deinit(sky__host *h);
/* The host ends: checks end too, those that wait included, SKY_E_CANCELLED. One that just begins is
 * not reached by the call: repeat it until they are over. */
void sky__chores_cancel(sky__host *h);
/* The queue in which a question waits. */
sky__queue_kind sky__chore_queue(sky_shm_question question);
/* False: there is no memory, or no thread. */
bool sky__chore_add(sky__host *h, sky__client *c, const sky_shm_frame *ask);
/* A queue ends: nothing of it is begun any more, and what was under way is over. */
void sky__chores_end(sky__queue *queue);
/* This client goes: what it asked for is not begun any more. */
void sky__chores_forget(sky__host *h, sky__client *c);
/* What is finished; it is the caller's. */
sky__chore *sky__chores_take(sky__host *h);
/* A list of them. */
void sky__chores_free(sky__chore *chores);

#endif
