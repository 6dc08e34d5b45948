/* The session's insides, shared by its parts:
 *
 *   session.c       requests and results
 *   session_look.c  what it tells of itself
 *   transfer.c      operations, pacing
 *   transfer_answers.c  what comes back, or does not
 *   session_patience.c  how long an answer is waited for
 *   session_silence.c   satellites that do not answer
 *   lookup.c        blocks found by asking satellites
 *   move.c          blocks that move in the sky
 *   foresight.c     where a block goes before it is used next
 *   repair.c        chunks computed again from their stripe
 *   mend.c          parity that a satellite lost, stored again
 */
#ifndef SKY_GROUND_SESSION_STATE_H
#define SKY_GROUND_SESSION_STATE_H

#include "ground/block_table.h"

/* Requests and operations are in arrays; lists are chains of their indices. */
typedef struct {
    uint32_t first, last;
} sky__list;

typedef enum { REQUEST_FREE, REQUEST_QUEUED, REQUEST_RUNNING, REQUEST_DONE } sky__request_state;

/* What a request's operations are about, one after the other. */
typedef enum {
    WORK_LOOK,   /* heads of keys not in the index */
    WORK_HEADS,  /* the head of a key, at all places it may be at once */
    WORK_GET,    /* data chunks of a range */
    WORK_SET,    /* chunks, each as often as there are replicas */
    WORK_HEAD,   /* the head, when all chunks are stored */
    WORK_MOVE,   /* MOVE for each server and replica */
    WORK_REHEAD, /* the head of a moved block, before anything moves */
    WORK_PIECE,  /* chunks of a stripe, for a repair */
    WORK_STAT,
    WORK_PROBE, /* HAS for one chunk */
    WORK_CHECK, /* HAS for the pieces of parity that a server has */
    WORK_MEND,  /* stripes that lack some: mend.c */
} sky__work;

/* What a MOVE is for: rows.c. */
typedef enum { MOVE_SETTLES, MOVE_GATHERS, MOVE_GOES } sky__move_step;

typedef struct {
    sky__request_state state;
    uint32_t next; /* in the free list, gets, puts or done */
    sky_request ask;
    sky__work work;
    sky_chunk_id id;       /* key and version; number unused */
    sky_chunk_facts facts; /* of the block: all but first, next and checksum */
    sky_block_info info;
    uint64_t head_version;
    sky__epoch before;     /* get: where chunks may be that a MOVE did not reach */
    uint32_t parent_block; /* put: pinned while under way */
    uint64_t parent_version;
    uint64_t range_begin, range_end; /* get */
    uint32_t unit_next;              /* of the work: to be asked for or sent next */
    uint32_t unit_last;
    uint32_t units_left; /* not yet done */
    uint32_t restarts;
    uint32_t operations;    /* under way */
    sky_time latest;        /* of their expected ends */
    bool listed;            /* in gets or puts */
    sky__skipped skipped;   /* put */
    uint32_t heads_skipped; /* put: bits of the head's copies */
    uint64_t lost_version;  /* get: of the block we knew and could not read */
    int64_t lost_ms;
    sky__move_step step; /* prefetch */
    bool own;            /* nobody asked for it: a move to where the block is expected, a check */
    bool held;           /* put: stored, and waits for what is known of an older value */
    uint64_t lacking;    /* check: columns of parity, a bit each … */
    uint32_t lack_first, lack_last; /* … in these stripes */
    bool moves;                     /* … its block counts in both homes for its sake */
    bool missed;                    /* … not all chunks were where they should be */
    bool settled;                   /* … but now all are */
    bool searched;                  /* nothing more to learn from satellites about this key */
    bool tracing;                   /* heads: at the last places, where migration may lag */
    bool traced;                    /* … they were asked */
    bool heard;                     /* … somebody has one */
    uint64_t checked;    /* … of this version, which the index has; 0: the index had none */
    bool unsure;         /* look, heads: one who may have it did not answer */
    bool thorough;       /* get: each chunk is asked for at its last places too */
    uint32_t outdated;   /* heads: bits of the copies that are not what they should be */
    bool filling;        /* look: the prefix is known, its other heads are being fetched */
    uint32_t low, high;  /* look: keys below low are there, those from high on are not */
    sky_time blocked_ns; /* the window's blocked time when it began */
    sky_result result;
} sky__request;

/* One chunk on its way there or back. */
typedef struct {
    uint32_t request; /* SKY__NONE: free */
    sky__work work;
    uint32_t unit;
    uint32_t number; /* chunk; MOVE: server */
    uint32_t copy;   /* which replica, from 0 */
    uint32_t tried;  /* bits of the copies that are not to be had */
    uint32_t repair; /* that the chunk is a piece of; SKY__NONE: of none */
    uint32_t answer_bytes;
    uint32_t before, after; /* in `again`; after also chains the free ones */
    uint64_t generation;
    sky_satellite to;
    uint32_t attempt;
    uint32_t unanswered;
    uint32_t misses;
    uint32_t corrupt;
    uint32_t echoes; /* sent again, and to be sent so often more at once */
    bool again;      /* waiting to be sent again, to `to` */
    uint32_t denied; /* bits of the copies of which who should have it said that he has not */
    uint64_t here;   /* CHECK: pieces of the row that were found, a bit each */
    bool missed;     /* a copy asked for before this one is not there */
    bool parked;     /* its chunk is lost here; waiting for a repair */
    sky_status parked_for;
    sky_time first_sent;
    sky_time sent;
    sky_time due;       /* when the answer should be here */
    sky_time first_due; /* … to the first attempt */
    sky_time deadline;
    sky_time light_ns;
    sky_time blocked_ns; /* held back by the window before the first attempt */
} sky__operation;

/* A stripe of which as many pieces are wanted as it has data, and a few to spare: one that lost a
 * piece, or (guarded) one that is read where links lose. */
typedef struct {
    uint32_t request; /* SKY__NONE: free, or only healing is left */
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky_block_info info;
    sky__epoch before;
    sky_stripe stripe;
    uint32_t unknown, asked, have, lost; /* pieces; those that are late are in none */
    uint32_t spare;                      /* to be asked for beside */
    uint32_t heal;                       /* wanted pieces not yet sent back */
    bool open;
    bool guarded;                         /* the get asks for its data itself */
    bool ripe;                            /* and has: now for parity */
    uint8_t state[SKY_STRIPE_PIECES_MAX]; /* PIECE_…, by place */
    bool wanted[SKY_STRIPE_PIECES_MAX];
    uint32_t ops[SKY_STRIPE_PIECES_MAX]; /* operations that ask for them */
    bool silent;    /* a piece was given up for want of an answer: nothing says that it is gone */
    uint8_t *bytes; /* by place */
} sky__repair;

typedef struct {
    uint32_t wrong;        /* answers that were lies, or damaged on the way */
    uint32_t silent;       /* requests it let go unanswered */
    uint32_t row;          /* how often it was waited for since it last answered */
    uint32_t unheard;      /* and with how many requests */
    sky_time silent_since; /* the first of them was sent */
    sky_time silent_at;
    sky_time probe_at; /* silent: it is tried again then */
} sky__suspicion;

struct sky_session {
    sky__core core;
    sky__bulk bulk;
    sky__block_table blocks;
    uint64_t puts_named;
    bool opened; /* the chunk that is being taken in, under the tenant's key */

    sky__request *requests;
    uint32_t request_free;
    uint32_t room_host, room_own; /* requests that may still be begun, of the host and of ours */
    uint32_t own_max;
    sky__list gets; /* with chunks to ask for */
    sky__list puts; /* to start, or with chunks to send */
    sky__list done;
    bool puts_stalled; /* the first must wait until another put has ended */
    uint32_t puts_running;

    sky__operation *operations;
    uint32_t operation_free;
    uint32_t operation_fresh; /* those from here on were never used */
    uint32_t operations_open;
    sky__list again;
    sky_time earliest; /* no deadline is before this */

    sky__repair *repairs; /* [SKY__REPAIRS_MAX], only with parity */
    uint8_t *repair_bytes;
    uint8_t *stripe_bytes; /* one stripe's data, for the parity of a put; and the code's work */
    uint32_t repairs_open, parked;
    uint32_t looks_open; /* requests that look for what a put replaces */
    uint32_t mends_open; /* requests that make parity again */
    sky_time mend_next;  /* a stripe of them */

    sky__suspicion *suspicions; /* by satellite */
    sky_time answered_at;       /* any of them said anything, last */
    bool late_known;            /* how much later than due answers are: */
    sky_time late_ns, late_deviation_ns;
    sky_time farthest_ns; /* light one way, to any satellite */

    sky_time up_free;    /* when the terminal may send the next message */
    sky_time down_free;  /* when the next answer may be asked for */
    sky_time *served_at; /* by satellite: when it will have served what it was sent */
    sky_time heard_at;   /* when a chunk came last */
    sky_time heard_due;  /* of those that came, the latest `due` */
    bool blocked;
    sky_time blocked_since;
    sky_time blocked_ns;
};

#define SKY__REPAIRS_MAX      64
#define SKY__PATIENT_ATTEMPTS 2         /* whose wait is not doubled */
#define SKY__SLACK_NS         SKY_MS(1) /* an answer may be late by, at least */

/* session.c */
void sky__request_finish(sky_session *s, uint32_t request, sky_status status, uint64_t bytes);
void sky__request_lost(sky_session *s, uint32_t request, sky_status status);
void sky__request_found(sky_session *s, uint32_t request);
void sky__work_begin(sky_session *s, uint32_t request, sky__work work, uint32_t first,
                     uint32_t last);
void sky__work_done(sky_session *s, uint32_t request);
bool sky__put_start(sky_session *s, uint32_t request);
void sky__evicted(sky_session *s, const sky_chunk_id *id);
void sky__chain_append(sky_session *s, sky__list *list, uint32_t request);
uint32_t sky__chain_take(sky_session *s, sky__list *list);
/* A request of the session's own, whose result nobody gets; not begun where there is no room. */
void sky__submit_own(sky_session *s, const sky_request *ask);

/* transfer.c */
/* Of a request id, from the lowest: the operation, which attempt of it. */
#define SKY__OPERATION_BITS 20
#define SKY__ATTEMPT_BITS   8
static inline bool sky__is_get(sky__work work) {
    return work == WORK_LOOK || work == WORK_HEADS || work == WORK_GET || work == WORK_PIECE;
}

/* A chunk, one way or the other: what it takes to lose one is what is counted. */
static inline bool sky__carries(sky__work work) {
    return work == WORK_GET || work == WORK_PIECE || work == WORK_SET;
}
uint64_t sky__wire_id(const sky_session *s, uint32_t op);
/* To be sent again, to its `to`. */
void sky__ask_again(sky_session *s, uint32_t op);
uint32_t sky__length_of(const sky_session *s, const sky__operation *o);
/* The facts by which an operation's places are computed. */
sky_chunk_facts sky__places_facts(const sky_session *s, const sky__operation *o);
void sky__note_blocked(sky_session *s);
/* An operation is over; with the last of them its request's work is. */
void sky__chunk_done(sky_session *s, uint32_t op);
bool sky__operation_ready(const sky_session *s);
void sky__operations_abandon(sky_session *s, uint32_t request);
void sky__operation_end(sky_session *s, uint32_t op);
sky_time sky__blocked_ns(const sky_session *s);
void sky__send(sky_session *s, const sky_message *m, sky_satellite to, sky_datagram *out);
bool sky__piece_ask(sky_session *s, uint32_t repair, uint32_t number, sky_datagram *out);
/* Where an operation's chunk may be, the likeliest first. */
uint32_t sky__operation_places(const sky_session *s, const sky__operation *o,
                               sky_satellite places[SKY__PLACES_MAX]);

/* transfer_answers.c */
/* An operation's chunk is not to be had where it was asked for: the next replica, the stripe, or
 * the request is over. */
void sky__chunk_lost(sky_session *s, uint32_t op, sky_status status);
/* The bytes that just came are those that were put under their name. */
bool sky__is_genuine(const sky_session *s, const sky_message *m);

/* session_patience.c */
/* When the answer to what is asked at `leaves` should be here, if the downlink is free; o->due is
 * without patience. */
sky_time sky__deadline_of(sky_session *s, sky_time leaves, sky__operation *o);
/* Until when a late answer may still wait behind others; `at`: no longer. */
sky_time sky__undecided_until(const sky_session *s, sky_time at, const sky__operation *o);
/* Asked for, and the answer should have come by `at`. */
bool sky__overdue(const sky_session *s, sky_time at, const sky__operation *o);
/* An answer came at s->now, to the first attempt or to the one that is waited for. */
void sky__answer_timed(sky_session *s, const sky__operation *o, bool first, bool current);
/* So long nothing must be heard of a satellite before it is called silent. */
sky_time sky__silence_ns(const sky_session *s);

/* session_silence.c */
/* It said something wrong. */
void sky__suspect(sky_session *s, sky_satellite satellite);
/* It let this go unanswered. */
void sky__unanswered(sky_session *s, const sky__operation *o);
/* It said something about what was asked, late perhaps: it is there. */
void sky__answered(sky_session *s, sky_satellite satellite);
/* The same, those who are silent last. What is set goes where it belongs. */
uint32_t sky__places_to_ask(const sky_session *s, const sky__operation *o,
                            sky_satellite places[SKY__PLACES_MAX]);
sky_satellite sky__place_to_ask(const sky_session *s, const sky__operation *o);
/* One who may have it is silent: that the others have not does not say that it is gone. */
bool sky__hides(const sky_session *s, const sky__operation *o);
/* Where to ask again for what was not answered, and for which copy: that becomes its `to`. */
void sky__ask_again_at(sky_session *s, sky__operation *o);
/* `to` is silent, and there is another copy. */
bool sky__rather_another(const sky_session *s, const sky__operation *o, sky_satellite to);
bool sky__is_silent(const sky_session *s, sky_satellite satellite);
/* It is not silent, or it is time to try it again: with this one, or (not `alone`) with another
 * that has just begun to. */
bool sky__may_ask(sky_session *s, sky_satellite satellite, bool alone);
/* That there are of what it asks for, each at a place of its own. */
uint32_t sky__copies_of(const sky_session *s, const sky__operation *o);
/* Choose the copy to be asked for first; where it is. */
sky_satellite sky__copy_first(const sky_session *s, sky__operation *o);
/* The next copy of what an operation asks for; false: there is none. */
bool sky__copy_next(sky_session *s, sky__operation *o);
/* Unanswered, before an operation's chunk is lost. */
uint32_t sky__attempts_max(const sky_session *s, const sky__operation *o);
/* Can, and will, its put do without this one? `given_up`: its satellite had all its time. */
bool sky__goes_without(sky_session *s, const sky__operation *o, bool given_up);

/* lookup.c */
void sky__look_begin(sky_session *s, uint32_t request);
const sky_key *sky__look_key(const sky__request *r, uint32_t unit);
bool sky__look_wanted(sky_session *s, const sky__request *r, uint32_t unit);
void sky__look_passed(sky_session *s, uint32_t request);
void sky__look_found(sky_session *s, uint32_t op, const sky_message *m);
void sky__look_absent(sky_session *s, uint32_t op);
/* A named key in the index: is its head in the sky still the one we know? */
void sky__fresh_begin(sky_session *s, uint32_t request);
void sky__heads_found(sky_session *s, uint32_t op, const sky_message *m);
/* SKY_MISS: it is not there; SKY_E_IO: nobody says. */
void sky__heads_absent(sky_session *s, uint32_t op, sky_status status);
/* move.c */
void sky__move_begin(sky_session *s, uint32_t request);
/* The row of chunks a unit of a move or check is about; a move's facts are the new home's. */
typedef struct {
    uint32_t first, last;
    uint32_t copy;
} sky__span;
sky__span sky__span_of(const sky_session *s, const sky__request *r, uint32_t unit);
void sky__move_go(sky_session *s, uint32_t request);
void sky__move_done(sky_session *s, uint32_t request);
void sky__move_end(sky_session *s, uint32_t request);

/* foresight.c */
/* The satellite that a block which is put now is placed around. */
sky_satellite sky__foresee_centre(const sky_session *s, int64_t now_ms);
/* A block was read, at s->now: it goes where it is expected to be used next. */
void sky__foresee_next(sky_session *s, uint32_t block);

/* mend.c */
void sky__check_after_get(sky_session *s, uint32_t block, int64_t wall_ms);
void sky__check_begin(sky_session *s, uint32_t request);
sky__span sky__check_span(const sky_session *s, const sky__request *r, uint32_t unit);
uint64_t sky__check_wanted(const sky_session *s, const sky__operation *o);
void sky__check_lacks(sky_session *s, const sky__operation *o, sky_status status);
void sky__mend_begin(sky_session *s, uint32_t request);
void sky__mends_feed(sky_session *s);
sky_time sky__mends_wake(const sky_session *s);

/* repair.c */
/* Read a stripe, and make those of its pieces of parity again that `columns` names, a bit each. */
void sky__repair_parity(sky_session *s, uint32_t request, uint32_t first, uint64_t columns);
bool sky__repair_begin(sky_session *s, uint32_t op, sky_status status);
/* A get is about to ask for a chunk. */
void sky__repair_guard(sky_session *s, uint32_t op);
/* A chunk of a get that came: kept where it is a piece of a stripe under repair; that, or NULL. */
sky__repair *sky__repair_keep(sky_session *s, uint32_t op, const sky_message *m);
/* When the get has had it: are there enough now? */
void sky__repair_check(sky_session *s, sky__repair *p, uint32_t request);
/* Nobody answered in time. */
void sky__repair_late(sky_session *s, uint32_t op);
/* When what an operation asks for will be there; with a second round, where much is lost. */
sky_time sky__expected_end(const sky_session *s, const sky__operation *o);
/* How often more to ask at once for what was asked for in vain. */
uint32_t sky__echoes(const sky_session *s, const sky__operation *o);
void sky__repair_piece(sky_session *s, uint32_t op, const sky_message *m);
void sky__repair_lost(sky_session *s, uint32_t op, sky_status status);
bool sky__repair_output(sky_session *s, sky_datagram *out);
bool sky__repair_has_output(const sky_session *s);
void sky__repairs_unpark(sky_session *s);
void sky__repairs_abandon(sky_session *s, uint32_t request);
bool sky__parity_make(sky_session *s, const sky__request *r, uint32_t number, uint8_t *out);

#endif
