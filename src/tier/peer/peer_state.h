/* The inside of the tier skymem://: see peer.h.
 *
 *   peer.c    the table of functions, questions, closing
 *   open.c    what a URL says, opening
 *   set.c     operations over several hosts
 *   lane.c    one connection: its thread, connecting
 *   job.c     jobs to frames, and answers to items
 *   queue.c   which lane an operation goes over, and what waits for it: all of them call it
 *
 *   a tier ──► hosts (one, or those of a file) ──► lanes of each ──► jobs */
#ifndef SKY_TIER_PEER_PEER_STATE_H
#define SKY_TIER_PEER_PEER_STATE_H

#include <stdatomic.h>

#include "io/sync.h"
#include "io/tcp.h"
#include "tier/peer/link.h"
#include "tier/peer/peers_file.h"
#include "tier/tier.h"

#define SKY__PEER_LANES_MAX   8u
#define SKY__PEER_FLIGHTS_MAX 96u /* frames under way on a lane; a host takes 128 */
#define SKY__PEER_CONNECT_NS  SKY_SECONDS(5)
#define SKY__PEER_OTHERS_NS   SKY_SECONDS(1) /* opening: for so long once one of several answered */
#define SKY__PEER_SILENT_NS   SKY_SECONDS(5) /* one of several that says nothing so long is down */
#define SKY__PEER_LIST_NS     SKY_SECONDS(60) /* until a listing, or its next bytes */
#define SKY__PEER_RETRY_NS    SKY_SECONDS(2)  /* for so long one of several that is down rests */
#define SKY__PEER_HINTS       16384u
#define SKY__PEER_ROUTES      4096u

typedef struct sky__peer_lane sky__peer_lane;
typedef struct sky__peer_request sky__peer_request;

/* The route that an operation takes, and what it adds to the load of the lane. */
typedef struct {
    uint32_t route; /* index in `routes` */
    uint64_t load;  /* bytes */
} sky__peer_ride;

/* An item of a batch, and the route that it took. */
typedef struct {
    uint32_t item;
    sky__peer_ride ride;
} sky__peer_part;

/* What one batch has for one lane. */
typedef struct sky__peer_job {
    struct sky__peer_job *next;
    sky__peer_request *request; /* it is a part of; NULL: there is one host alone */
    uint32_t host;
    bool orphans; /* blocks are put without their parents, which lie elsewhere */
    sky_op op;
    sky_batch batch;
    sky_call call;
    uint32_t count;
    uint32_t sent;    /* items before this one are in frames, or over */
    uint32_t flights; /* frames under way */
    sky__peer_part parts[];
} sky__peer_job;

/* A frame under way. */
typedef struct {
    sky__peer_job *job; /* NULL: free */
    uint32_t id;
    uint32_t count;
    bool cancelled;
    sky_time made_at;
    uint32_t origin[SKY_PEER_ITEMS_MAX];        /* item of the batch */
    uint64_t bytes[SKY_PEER_PAYLOAD_ITEMS_MAX]; /* put: of the payload; get: room for it */
} sky__peer_flight;

/* Somebody waits for what the host says of itself. */
typedef struct {
    sky_peer_question what;
    uint32_t id;
    bool sent, answered;
    sky_status status;
    uint64_t numbers[SKY_PEER_NUMBERS];
    uint8_t *text;
    uint64_t text_bytes, text_got;
} sky__peer_asked;

/* A payload under way: item n of a flight, of which `at` bytes are done. */
typedef struct {
    sky__peer_flight *flight; /* NULL: none */
    uint32_t n;
    uint64_t at;
    bool guarded; /* between enter and leave */
} sky__peer_moving;

/* A host, and what is known of it. */
typedef struct {
    struct sky__peer *peer;
    uint32_t index;
    const char *name; /* for messages: the tier's URL, or what the file says */
    uint64_t id;      /* of its name: sky_peer_id */
    bool read_only;
    sky_addresses addresses;
    _Atomic uint32_t answers; /* the number of the one that connected last */
    sky_suite suite;
    uint8_t *key; /* NULL: plain */
    sky__peer_lane *lanes;
    _Atomic uint64_t payload_bytes_max; /* as it said last */

    bool down, probing; /* the rest under the peer's mutex. probing: the first lane is to connect */
    sky_status last;    /* of connecting */
    sky_time retry_at;
    uint64_t round_trip_ns;
    sky__peer_asked *asked;
} sky__peer_host;

/* Which hosts had a key when they were asked last; may be wrong. */
typedef struct {
    uint64_t key; /* a part of it */
    uint32_t hosts;
} sky__peer_hint;

/* The lane of all operations under way on some keys, so that those on a key take effect in the
 * order in which they were asked for. */
typedef struct {
    uint32_t users; /* operations under way; 0: the next goes over the lane with the least to do */
    uint32_t lane;  /* its number among those of each host */
} sky__peer_route;

/* For whom is waited how long. */
typedef struct {
    sky_time connect_ns, others_ns;
    _Atomic sky_time silent_ns;
} sky__peer_patience;

/* Of tiers that are opened from now on: as above at first; tests are more patient, or less. */
extern sky__peer_patience sky__peer_patience_of_new;

typedef struct sky__peer {
    sky_tier tier;
    sky_tier_env env;
    char url[256];
    sky_peer_carrier by; /* what its connections are carried by */
    bool may_be_away;    /* when it is opened */
    bool unasked;        /* when it is opened: the first operation connects */
    uint32_t lane_count; /* of each host */
    uint32_t host_count;
    sky__peer_host *hosts;
    sky__peer_lane *lanes; /* [host_count * lane_count]: of the first host, of the second, … */
    sky_peers_file *file;  /* NULL: there is one host alone */
    sky__peer_hint *hints; /* with a file: [SKY__PEER_HINTS], under the mutex */
    sky__peer_patience patience;
    int stop; /* readable when it closes: nobody connects any more */

    sky_mutex mutex; /* all that follows, and the queues of the lanes */
    sky_condition changed;
    bool closing;
    bool asking; /* one question at a time */
    size_t job_count;
    sky__peer_route routes[SKY__PEER_ROUTES]; /* by a part of the key */
    uint64_t loads[SKY__PEER_LANES_MAX];      /* bytes, of operations under way over each lane */
    sky_tier_counts counts;
} sky__peer;

struct sky__peer_lane {
    sky__peer *peer;
    sky__peer_host *host;
    int event; /* the thread has something to do */
    int watch; /* on the link */
    bool watched_reads, watched_writes;
    sky_thread thread;
    sky__peer_job *first, *last; /* not sent whole; under the peer's mutex */
    _Atomic bool cancels;        /* some batch was cancelled */

    sky_peer_link *link; /* the rest is the thread's alone. NULL: not connected */
    bool welcomed;
    bool asks; /* a question went out that was not answered, whether or not somebody still waits */
    sky_time heard_at;    /* when a byte came */
    sky_time got_at;      /* when a get was answered, or a byte of one came */
    uint32_t frame_count; /* so far */
    sky__peer_flight flights[SKY__PEER_FLIGHTS_MAX];
    sky__peer_moving writing, reading;
    sky_peer_frame frame;                                /* one that is made, or has come */
    sky_peer_result results[SKY_PEER_PAYLOAD_ITEMS_MAX]; /* of what is read */
    char names[SKY_PEER_PAYLOAD_ITEMS_MAX][SKY_NAME_BYTES_MAX];
};

/* ---- open.c ---- */

/* Fill in what a URL says, and connect. */
sky_status sky__peer_open(const char *url, sky__peer *p, sky_error *error);
/* Why a host was not reached, and what to do. */
const char *sky__peer_advice(sky_status status, bool plain);

/* ---- lane.c ---- */

/* The thread of a lane. */
void *sky__peer_lane_body(void *lane);
/* Connect now, on the caller's thread, before the lane's own thread runs. Errors: as of the tier's
 * open */
sky_status sky__peer_lane_connect(sky__peer_lane *l, sky_time until);

/* ---- queue.c ---- */

/* With the mutex held. */
void sky__peer_queue(sky__peer_lane *l, sky__peer_job *j);
/* An operation has its route until it is given back, which is when the host has answered, or will
 * not. With the mutex held. */
sky__peer_ride sky__peer_route_take(sky__peer *p, sky_op op, const sky_item *item);
void sky__peer_route_give(sky__peer *p, const sky__peer_ride *ride);
/* Free a job whose routes are its own. With the mutex held; NULL is fine. */
void sky__peer_job_free(sky__peer *p, sky__peer_job *j);
void sky__peer_note_round_trip(sky__peer_lane *l, sky_time took);

/* ---- set.c ---- */

/* As the submit of a tier, over the hosts of a file. */
sky_status sky__peer_set_submit(sky__peer *p, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, sky_batch *out);
/* One host has answered for an item of a job. */
void sky__peer_set_note(sky__peer *p, const sky__peer_job *j, uint32_t item, const sky_answer *a);
/* A job is over. */
void sky__peer_set_end_job(sky__peer_request *r);

/* ---- job.c: on the lane's thread, without the mutex ---- */

/* Write records as long as there is room. False: there was none, or nothing to write. */
bool sky__peer_write(sky__peer_lane *l);
bool sky__peer_has_to_write(sky__peer_lane *l);
/* Until when a host may say nothing to lookups, or send nothing of gets; SKY_TIME_NEVER: there are
 * none. */
sky_time sky__peer_silent_at(const sky__peer_lane *l);
/* What the sink of a link needs, of runs. */
sky_status sky__peer_take_done(sky__peer_lane *l);
uint64_t sky__peer_expected(const sky__peer_lane *l);
uint32_t sky__peer_place(sky__peer_lane *l, size_t bytes, sky_span *spans);
void sky__peer_placed(sky__peer_lane *l, size_t bytes);
sky_status sky__peer_take_piece(sky__peer_lane *l, size_t bytes, const sky_peer_sum *sum);
/* End all that is under way or waits on the lane. */
void sky__peer_fail_all(sky__peer_lane *l, sky_status status);

#endif
