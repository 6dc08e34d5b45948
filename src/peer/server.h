/* The inside of a server of other hosts (skymem/peer.h).
 *
 *   server.c       listens, accepts; a thread for each connection
 *   connection.c   one connection: greeting, its loop
 *   runs.c         its runs: from frames to the cache, and answers back
 *   questions.c    what it asks of the host itself
 *   shared.c       what all have: counts, lines for the log, memory for small puts
 *
 * A connection shares nothing with others but counts and the cache, so that none waits for another.
 * Where there is no place for a new one, it gets that of who has not shown a key for longest, or of
 * who has had nothing to do for longest, for a minute at least. A client that comes back connects
 * again.
 * What breaks the protocol ends its connection: its runs are cancelled, its leases released. */
#ifndef SKY_PEER_SERVER_H
#define SKY_PEER_SERVER_H

#include <stdatomic.h>

#include <skymem/peer.h>

#include "base/hash.h"
#include "io/sync.h"
#include "tier/mem/reserves.h"
#include "tier/peer/link.h"

#define SKY__PEER_RUNS_MAX      128u            /* of a connection, until they are answered */
#define SKY__PEER_STRANGERS_MAX 32u             /* that have not shown a key yet */
#define SKY__PEER_HELLO_NS      SKY_SECONDS(5)  /* until a connection has shown its key */
#define SKY__PEER_IDLE_NS       SKY_SECONDS(60) /* then its place may be given to another */
#define SKY__PEER_STUCK_NS      SKY_SECONDS(30) /* without a byte in the middle of something */
#define SKY__PEER_STAGED_MAX    ((uint64_t)256 << 20) /* large puts that have not come whole */
#define SKY__PEER_PUT_BYTES_S   ((uint64_t)8 << 20)   /* at least, while others wait for its room */
#define SKY__PEER_AGAIN_NS      SKY_MS(5)             /* where the cache, or staging, had no room */
#define SKY__PEER_RESERVE_MIN   ((uint64_t)64 << 10)  /* smaller payloads are copied */

#define SKY__PEER_LISTINGS_MAX 4u /* at a time: each is a text of all entries */

#define SKY__PEER_KEPT_MAX       2u /* of staging that is over */
#define SKY__PEER_KEPT_BYTES_MAX ((uint64_t)32 << 20)

/* One operation that a client asked for. */
typedef struct sky__peer_run {
    struct sky__peer_run *next;
    uint32_t id, count;
    sky_op op;
    sky_call call;
    sky_batch batch; /* 0: not begun */
    bool cancelled;
    uint64_t damaged;             /* put: a bit for each item whose bytes are not those sent */
    sky_peer_order *orders;       /* [count]; get: ranges */
    sky_item *items;              /* [count]; put: those that are not damaged come first */
    sky_span *spans;              /* [count]; put: where payloads come; get: what is to be sent */
    sky_memory_reserve *reserves; /* [count]; put: of large payloads, in the nearest tier, … */
    uint8_t *staged;              /* … and of the others, one behind the other */
    uint64_t staged_room, put_bytes; /* put_bytes: of all payloads */
    bool placed;                     /* they have room */
    char *names;
} sky__peer_run;

/* One direction of a connection, as it was seen last. */
typedef struct {
    uint64_t bytes;
    sky_time moved_at, free_at; /* when a byte moved; or nothing was in the middle */
} sky__peer_way;

typedef struct sky__peer_connection {
    sky_peer_server *server;
    bool taken, over, greeted;   /* taken: the place; under the server's mutex, … */
    bool displaced;              /* … like this: its place is given to another */
    int stop;                    /* raised: it is to end */
    _Atomic sky_time idle_since; /* SKY_TIME_NEVER: it has something to do */
    sky_peer_socket socket;      /* until there is a link */
    uint64_t number;
    char from[SKY_ADDRESS_TEXT_BYTES];
    sky_thread thread;

    /* the thread's alone */
    sky_peer_link *link;
    const char *why; /* what it did wrong */
    int event, watch;
    bool watched, watched_reads, watched_writes;
    bool ready;               /* its first frame came */
    sky_time announced_until; /* it may be computing what it announced */
    uint64_t owner;
    sky_peer_frame *frame;
    sky__peer_run *runs;   /* in the cache */
    uint32_t run_count;    /* those, and those that are not answered yet */
    sky__peer_run *coming; /* a put whose payloads come: item n, of which `at` bytes came */
    uint32_t coming_n;
    uint64_t coming_at;
    sky_checksum_state coming_sum; /* sealed: of what came of it, in a reserve */
    sky__peer_run *stalled;        /* the cache had no room for it */
    bool waits_for_room;   /* for one of these two: nothing more is received until it is there */
    uint64_t ticket;       /* in the queue for room; 0: not in it; under the server's mutex */
    sky_time coming_since; /* when the put that comes got its room */
    sky__peer_run *first, *last; /* answered; payloads of the first are being sent */
    bool announced;              /* its frame is sent: now item n, from `at` */
    uint32_t sending_n;
    uint64_t sending_at;
    bool sum_known;       /* the nearest tier told the checksum of that payload: … */
    uint64_t sending_sum; /* … this */
    bool asked;
    sky_peer_question question;
    uint32_t question_id;
    bool lists, waits_to_list; /* it has, or waits for, one of the listings of its server */
    uint8_t *text;             /* a listing that is to be sent; NULL: none */
    uint64_t text_bytes, text_at;
    sky_thread verifier; /* runs: a question whether all is whole is not answered yet */
    _Atomic bool verified;
    sky_status verify_status;
    sky_verify_report report;
    sky__peer_way in, out;
} sky__peer_connection;

struct sky_peer_server {
    sky_cache *cache;
    sky_tier *nearest;   /* of the cache: puts are received into it where it has room */
    uint64_t forks;      /* of the process that serves */
    sky_peer_carrier by; /* what its connections are carried by */
    uint8_t (*keys)[SKY_SECRET_BYTES];
    size_t key_count;
    bool plain;
    sky_peer_socket listener;
    int stop;
    char address[SKY_ADDRESS_TEXT_BYTES];
    uint64_t payload_bytes_max;
    uint32_t tiers; /* that take part: none that is another host's, so that none asks in a circle */
    bool has_peers; /* there is such a one */
    _Atomic sky_time hello_ns, stuck_ns, idle_ns; /* as above at first; tests are less patient */
    sky_thread thread;
    _Atomic uint64_t staged_bytes, sent_bytes, received_bytes;
    _Atomic uint64_t run_count;   /* frames of operations that came */
    _Atomic uint32_t queue_count; /* connections that wait for room */
    _Atomic uint32_t listing_count;

    sky_mutex mutex; /* all that follows */
    struct { /* staging of puts that are over, for the next: new pages cost as much as copying */
        uint8_t *data; /* NULL: none */
        uint64_t room;
    } kept[SKY__PEER_KEPT_MAX];
    uint64_t numbers, tickets;
    uint32_t stranger_count;
    sky_peer_stat stat;
    sky_time complain_at; /* lines for the log: so many in a second */
    uint32_t complaints;
    sky__peer_connection places[SKY_PEER_CONNECTIONS_MAX];
};

/* ---- connection.c ---- */

/* The thread of a connection. */
void *sky__peer_connection_body(void *connection);
/* Do what there is to do, without waiting. *unsent: the kernel takes no more now.
 * Errors: SKY_MISS (nothing more is to be done now), others: the connection is over, c->why says
 *         why if it is to blame */
sky_status sky__peer_step(sky__peer_connection *c, bool *unsent);

/* ---- shared.c ---- */

/* It has shown a key, or is plain where that is taken. */
void sky__peer_note_greeted(sky__peer_connection *c);
/* It ends: count it, and say why in the log. denied: before it was greeted. */
void sky__peer_note_end(sky__peer_connection *c, bool denied, const char *why);

/* Memory for the payloads of a put, of *room bytes at least; NULL: there is none. */
uint8_t *sky__peer_staging_take(sky_peer_server *s, uint64_t bytes, uint64_t *room);
void sky__peer_staging_give(sky_peer_server *s, uint8_t *staging, uint64_t room); /* NULL is fine */

/* ---- questions.c ---- */

/* The frame in c->frame is a question. Errors: SKY_E_CORRUPT */
sky_status sky__peer_take_ask(sky__peer_connection *c);
/* Answer it. False: not yet. */
bool sky__peer_tell(sky__peer_connection *c);
/* The listing is sent. Fine without one. */
void sky__peer_give_listing(sky__peer_connection *c);
void sky__peer_questions_end(sky__peer_connection *c);

/* ---- runs.c ---- */

/* The frame in c->frame is a run. Errors: SKY_E_CORRUPT, SKY_E_NOMEM; SKY_E_BUSY: it is taken, and
 * no more is to be received until sky__peer_find_room says so */
sky_status sky__peer_take_run(sky__peer_connection *c);
bool sky__peer_find_room(sky__peer_connection *c);
/* By when the put that comes is to be whole; SKY_TIME_NEVER: nobody waits for its room. */
sky_time sky__peer_coming_by(const sky__peer_connection *c);
void sky__peer_take_cancel(sky__peer_connection *c);
/* The payload of a put that is coming, as a sink has it. */
uint64_t sky__peer_coming(const sky__peer_connection *c);
uint32_t sky__peer_coming_place(const sky__peer_connection *c, size_t bytes, sky_span *spans);
void sky__peer_coming_placed(sky__peer_connection *c, size_t bytes);
sky_status sky__peer_take_coming(sky__peer_connection *c, size_t bytes, const sky_peer_sum *sum);
/* Take runs that the cache has done. */
void sky__peer_collect(sky__peer_connection *c);
/* Write answers and their payloads as long as there is room. True: something was written. */
bool sky__peer_answer(sky__peer_connection *c);
/* The link has sent all that it was lent. */
void sky__peer_note_flushed(sky__peer_connection *c);
/* When the first deadline of a run passes, of which nothing else tells. */
sky_time sky__peer_next_deadline(const sky__peer_connection *c);
void sky__peer_runs_end(sky__peer_connection *c);

#endif
