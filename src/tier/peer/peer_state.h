/* The inside of the tier skymem://: see peer.h.
 *
 *   peer.c    the table of functions, opening and closing
 *   lane.c    one connection: its thread, connecting, questions
 *   job.c     jobs to frames, and answers to items */
#ifndef SKY_TIER_PEER_PEER_STATE_H
#define SKY_TIER_PEER_PEER_STATE_H

#include <stdatomic.h>

#include "io/sync.h"
#include "tier/peer/link.h"
#include "tier/tier.h"

#define SKY__PEER_LANES_MAX   8u
#define SKY__PEER_FLIGHTS_MAX 32u /* frames under way on a lane; a host takes 64 */
#define SKY__PEER_CONNECT_NS  SKY_SECONDS(5)

typedef struct sky__peer_lane sky__peer_lane;

/* What one batch has for one lane. */
typedef struct sky__peer_job {
    struct sky__peer_job *next;
    sky_op op;
    sky_batch batch;
    sky_call call;
    uint32_t count;
    uint32_t sent;    /* items before this one are in frames, or over */
    uint32_t flights; /* frames under way */
    uint32_t index[]; /* of the batch's items */
} sky__peer_job;

/* A frame under way. */
typedef struct {
    sky__peer_job *job; /* NULL: free */
    uint32_t id;
    uint32_t count;
    bool cancelled;
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

typedef struct {
    sky_tier tier;
    sky_tier_env env;
    char url[256];
    sky_address address;
    const sky_peer_transport *transport;
    sky_suite suite;
    uint8_t *key; /* NULL: plain */
    uint32_t lane_count;
    sky__peer_lane *lanes;
    bool may_be_away;                   /* when it is opened */
    _Atomic uint64_t payload_bytes_max; /* as the host said last */

    sky_mutex mutex; /* all that follows, and the queues of the lanes */
    sky_condition changed;
    bool closing;
    bool asking; /* one question at a time */
    sky__peer_asked *asked;
    size_t job_count;
    sky_tier_counts counts;
} sky__peer;

struct sky__peer_lane {
    sky__peer *peer;
    int event; /* the thread has something to do */
    int watch; /* on the link */
    bool watched_reads, watched_writes;
    sky_thread thread;
    sky__peer_job *first, *last; /* not sent whole; under the peer's mutex */
    _Atomic bool cancels;        /* some batch was cancelled */

    sky_peer_link *link; /* the rest is the thread's alone. NULL: not connected */
    bool welcomed;
    uint32_t frame_count; /* so far */
    sky__peer_flight flights[SKY__PEER_FLIGHTS_MAX];
    sky__peer_moving writing, reading;
    sky_peer_frame frame;                                /* one that is made, or has come */
    sky_peer_result results[SKY_PEER_PAYLOAD_ITEMS_MAX]; /* of what is read */
    char names[SKY_PEER_PAYLOAD_ITEMS_MAX][SKY_NAME_BYTES_MAX];
};

/* ---- lane.c ---- */

/* The thread of a lane. */
void *sky__peer_lane_body(void *lane);
/* Connect now, on the caller's thread, before the lane's own thread runs. Errors: as of the tier's
 * open */
sky_status sky__peer_lane_connect(sky__peer_lane *l, sky_time until);

/* ---- job.c: on the lane's thread, without the mutex ---- */

/* Write records as long as there is room. False: there was none, or nothing to write. */
bool sky__peer_write(sky__peer_lane *l);
bool sky__peer_has_to_write(sky__peer_lane *l);
/* What the sink of a link needs, of runs. */
sky_status sky__peer_take_done(sky__peer_lane *l);
uint64_t sky__peer_expected(const sky__peer_lane *l);
uint32_t sky__peer_place(sky__peer_lane *l, size_t bytes, sky_span *spans);
void sky__peer_placed(sky__peer_lane *l, size_t bytes);
sky_status sky__peer_take_piece(sky__peer_lane *l, size_t bytes);
/* End all that is under way or waits on the lane. */
void sky__peer_fail_all(sky__peer_lane *l, sky_status status);

#endif
