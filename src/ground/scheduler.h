/* The scheduler of operations: one message to a satellite each, and what becomes of it. All that
 * asks satellites for something and waits for an answer goes this way.
 *
 *     free ──► asked or sent ──answer──► the client's `taken`
 *                  ▲    │ no answer in time, MISS at a place that has another, wrong bytes
 *                  └ again ┘──► another copy ──► the client's `lost`
 *
 * What is asked for and what an answer means is the client's matter, a row of the table of clients
 * for each kind of work. The scheduler knows the rest:
 *
 *   scheduler.c  window and pacing; messages out, answers in, attempts
 *   route.c      which copy is asked, at which of its places
 *   timeout.c    how long an answer is waited for
 *   detector.c   satellites that do not answer
 *
 * A request id is  generation | attempt | operation  so that an answer to an earlier life of the
 * operation is told from one to this life, and a MISS to an earlier attempt from one to this.
 * Generations begin elsewhere in each session.
 *
 * Pacing: every message advances `up_free` by its time on the uplink, every GET advances
 * `down_free` by its answer's time on the downlink. So the terminal's queues hold about one
 * message each and the time a chunk waits for the link is spent here, where it can be counted. */
#ifndef SKY_GROUND_SCHEDULER_H
#define SKY_GROUND_SCHEDULER_H

#include "ground/request_table.h"

typedef struct {
    uint32_t request; /* SKY__NONE: free */
    sky__work work;
    uint32_t unit;
    sky_chunk_id id; /* what it is about; version SKY_VERSION_ANY: any */
    uint32_t copy;   /* which replica, from 0 */
    uint32_t tried;  /* bits of the copies that are not to be had */
    uint32_t denied; /* bits of the copies that are not where they should be */
    uint32_t aside;  /* bits of the copies that are to be asked besides */
    uint32_t repair; /* that the chunk is a piece of; SKY__NONE: of none */
    uint32_t answer_bytes;
    uint32_t before, after; /* in `again`; after also chains the free ones */
    uint64_t generation;
    sky_satellite to;
    sky_satellite asked; /* by the last attempt, and by all since asked_since */
    uint32_t asked_since;
    sky_time asked_first; /* the first of these was sent */
    uint32_t attempt;
    uint32_t unanswered;
    uint32_t misses;
    uint32_t corrupt;
    uint32_t speculative; /* sent again, and to be sent so often more at once */
    bool again;           /* waiting to be sent again, to `to` */
    bool missed;          /* a copy asked for before this one is not there */
    bool parked;          /* its chunk is lost here; waiting for a repair */
    sky_status parked_for;
    uint64_t here;            /* CHECK: pieces of the row that were found, a bit each */
    sky_time undecided_until; /* SET_IF: its satellite may decide until then; 0: it may now */
    sky_time first_sent;
    sky_time sent;
    sky_time due;       /* when the answer should be here */
    sky_time first_due; /* … to the first attempt */
    sky_time deadline;
    sky_time light_ns;
    sky_time blocked_ns; /* held back by the window before the first attempt */
} sky__operation;

/* A kind of work. Functions that are NULL have the default that is named. */
typedef struct {
    sky_wire_type asks;    /* GET, SET, MOVE, HAS, STAT */
    sky_wire_type answers; /* CHUNK (GET may be answered by MISS too), SET_ACK … */
    bool reads;            /* any copy will do, at any place, and the first answer counts */
    bool stores;           /* goes where it belongs, and nowhere else */
    bool carries;          /* a chunk, one way or the other: what it takes to lose one is counted */
    bool moved;            /* the chunk may be where the block was before it moved */
    bool single;           /* each copy has an operation of its own */
    bool spreads;          /* what one copy did not answer in time all others are asked, at once;
                              none of them is asked several times at once */
    /* What a unit is about: number and copy, and what else is not of the request's block. False:
     * nothing, and the unit is over. Default: the head. */
    bool (*unit)(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o);
    /* Places where it may be, the likeliest first. Default: those of its chunk. */
    uint32_t (*places)(const sky_session *s, const sky__operation *o, sky_satellite *places);
    /* The message but for its type, name and request id. False: the host gave up. Default: name
     * alone. */
    bool (*compose)(sky_session *s, const sky__operation *o, sky_message *m, sky_datagram *out);
    /* It begins, before it is sent first. */
    void (*begun)(sky_session *s, uint32_t op);
    /* The answer, as the client wanted it; a chunk is genuine. */
    void (*taken)(sky_session *s, uint32_t op, const sky_message *m);
    /* Not to be had: SKY_MISS when all copies are not where they should be, SKY_E_IO when one that
     * may have it did not answer, SKY_E_CORRUPT. Default: the request ends with that. */
    void (*lost)(sky_session *s, uint32_t op, sky_status status);
    /* An attempt was not answered, and others follow; or will hardly be, as its satellite is silent
     * and this tries it. */
    void (*late)(sky_session *s, uint32_t op);
    /* Its satellite is silent, or had all its time: can, and will, its request do without? */
    bool (*skipped)(sky_session *s, const sky__operation *o);
    /* All units are over. */
    void (*done)(sky_session *s, uint32_t request);
} sky__client;

typedef struct {
    const sky__client *of[WORK_COUNT];
    /* A request ends. */
    void (*finish)(sky_session *s, uint32_t request, sky_status status, uint64_t bytes);
} sky__clients;

/* Of a satellite: what it did not answer, and what it did. */
typedef struct {
    uint32_t wrong;         /* answers that were lies, or damaged on the way */
    uint32_t silent;        /* requests it let go unanswered */
    uint32_t waits;         /* how often it was waited for since it last answered */
    uint32_t unheard;       /* and with how many requests */
    sky_time unheard_since; /* the first of them was sent */
    sky_time unheard_until; /* the last of them was given up */
    sky_time served_at;     /* it answered something last */
    sky_time served;        /* the latest that it answered was sent then, or later */
    sky_time probe_at;      /* silent: it is tried again then */
} sky__suspicion;

typedef struct {
    sky_session *session; /* for clients */
    const sky__clients *clients;
    sky__core *core;
    sky__request_table *requests;

    sky__operation *operations;
    uint32_t operation_free;
    uint32_t operation_fresh; /* those from here on were never used */
    uint32_t operations_open;
    uint32_t parked;
    sky__list again;
    sky_time earliest; /* no deadline is before this */

    sky_time up_free;    /* when the terminal may send the next message */
    sky_time down_free;  /* when the next answer may be asked for */
    sky_time *served_at; /* by satellite: when it will have served what it was sent */
    sky_time heard_at;   /* when a chunk came last */
    sky_time heard_due;  /* of those that came, the latest `due` */
    bool blocked;        /* by the window */
    sky_time blocked_since;
    sky_time blocked_ns;

    sky__suspicion *suspicions; /* by satellite */
    sky_time answered_at;       /* any of them said anything, last */
    bool down;                  /* none has since down_since, and the host says that none runs */
    sky_time down_since;        /* the first request in vain was sent then */
    sky_time probe_at;          /* down: it is tried again then */
    sky_time host_asked;        /* whether any runs, last */
    bool late_known;            /* how much later than due answers are: */
    sky_time late_ns, late_deviation_ns;
    sky_time farthest_ns; /* light one way, to any satellite */

    sky_satellite from; /* of the message that is being taken in, */
    bool opened;        /* which opened under the tenant's key */
} sky__scheduler;

#define SKY__PATIENT_ATTEMPTS 2         /* whose wait is not doubled */
#define SKY__SILENT_WAITS     4         /* in a row and in vain: it may be silent */
#define SKY__SLACK_NS         SKY_MS(1) /* an answer may be late by, at least */

/* ---- scheduler.c: life ---- */

/* Errors: SKY_E_NOMEM; deinit in any case. */
sky_status sky__scheduler_init(sky__scheduler *q, sky_session *session, const sky__clients *clients,
                               sky__core *core, sky__request_table *requests);
void sky__scheduler_deinit(sky__scheduler *q);

static inline const sky__client *sky__client_of(const sky__scheduler *q, const sky__operation *o) {
    return q->clients->of[o->work];
}

/* ---- scheduler.c: out ---- */

/* May an operation begin? */
bool sky__operation_ready(const sky__scheduler *q);
/* Send a message now. */
void sky__send(sky__scheduler *q, const sky_message *m, sky_satellite to, sky_datagram *out);
/* Send the next unit of a list's first request; or an operation of a request's other work (a
 * repair's), of which `*op` is the number; or the next of those to be sent again. False: nothing
 * was sent, and more may follow. */
bool sky__send_unit(sky__scheduler *q, sky__list *list, sky_datagram *out);
bool sky__send_piece(sky__scheduler *q, uint32_t request, uint32_t number, uint32_t repair,
                     uint32_t *op, sky_datagram *out);
bool sky__send_again(sky__scheduler *q, sky_datagram *out);
/* Notes whether gets wait for the window. */
void sky__note_blocked(sky__scheduler *q);
sky_time sky__blocked_ns(const sky__scheduler *q);

/* ---- scheduler.c: in ---- */

/* Take a message in. True: nobody asked for it (GONE), and it is in *m. */
bool sky__scheduler_input(sky__scheduler *q, const sky_datagram *in, sky_message *m);
/* What was not answered in time is asked for again, or lost. */
void sky__scheduler_expire(sky__scheduler *q);
/* The bytes that just came are those that were put under their name. */
bool sky__is_genuine(const sky__scheduler *q, const sky_message *m);
/* It is not at the place that was asked: the next place, or the next copy, or it is lost. */
void sky__operation_missed(sky__scheduler *q, uint32_t op);
/* The answer's bytes are wrong. The link may have damaged them, so the satellite is asked a few
 * times more before this copy counts as lost. Duplicates of one damaged answer count once. */
void sky__operation_wrong(sky__scheduler *q, uint32_t op, const sky_message *m);
/* Ask its other places in turn. False: all were asked. */
bool sky__ask_elsewhere(sky__scheduler *q, uint32_t op);
/* This copy is not to be had: the next one, or it is lost. */
void sky__operation_lost(sky__scheduler *q, uint32_t op, sky_status status);
/* An operation is over. */
void sky__operation_end(sky__scheduler *q, uint32_t op);
/* … and with the last of its units its request's work is. */
void sky__operation_done(sky__scheduler *q, uint32_t op);
void sky__units_over(sky__scheduler *q, uint32_t request, uint32_t count);
void sky__operations_abandon(sky__scheduler *q, uint32_t request);

/* ---- route.c ---- */

/* Where a chunk of its request's block is now; `before` NULL: in its present epoch alone. */
uint32_t sky__chunk_places(const sky__scheduler *q, const sky__operation *o,
                           const sky__epoch *before, sky_satellite places[SKY__PLACES_MAX]);
/* The same as the first, those that are silent last. What is set goes where it belongs. */
uint32_t sky__places_to_ask(const sky__scheduler *q, const sky__operation *o,
                            sky_satellite places[SKY__PLACES_MAX]);
/* Choose copy and place to be asked first: the copy that o->copy names, or one after it. */
void sky__route_first(const sky__scheduler *q, sky__operation *o);
/* The next copy of what an operation asks for; false: there is none. */
bool sky__route_next_copy(sky__scheduler *q, sky__operation *o);
/* Where to ask again for what was not answered, and for which copy: that becomes its `to`. */
void sky__route_again(sky__scheduler *q, sky__operation *o);
/* Copies still to be had, but for the one that is asked now and the one that was waited for. */
uint32_t sky__copies_aside(const sky__scheduler *q, const sky__operation *o, uint32_t waited);
/* Of the copies that are to be asked besides, one and its place. */
void sky__route_aside(sky__scheduler *q, sky__operation *o);
/* Of which copy a satellite is the place. Default: o->copy. */
uint32_t sky__copy_at(const sky__scheduler *q, const sky__operation *o, sky_satellite satellite);
/* `to` is silent, and there is another copy. */
bool sky__rather_another(const sky__scheduler *q, const sky__operation *o, sky_satellite to);
/* One that may have it is silent, or no laser led away from where it was: that the others have not
 * does not say that it is gone. */
bool sky__hides(const sky__scheduler *q, const sky__operation *o);
/* Copies that there are of what it asks for, each at a place of its own. */
uint32_t sky__copies_of(const sky__scheduler *q, const sky__operation *o);
/* It was asked in vain for long enough, and is lost. */
bool sky__is_given_up(const sky__scheduler *q, const sky__operation *o);

/* ---- timeout.c ---- */

/* When the answer to what is asked at `leaves` should be here, if the downlink is free; o->due is
 * the same without slack. */
sky_time sky__deadline_of(sky__scheduler *q, sky_time leaves, sky__operation *o);
/* Until when a late answer may still wait behind others, or its request at the satellite; `at`: no
 * longer. */
sky_time sky__undecided_until(const sky__scheduler *q, sky_time at, const sky__operation *o);
/* Asked for, and the answer should have come by `at`. */
bool sky__overdue(const sky__scheduler *q, sky_time at, const sky__operation *o);
/* An answer came, to the first attempt or to the one that is waited for. */
void sky__answer_timed(sky__scheduler *q, const sky__operation *o, bool first, bool current);
/* So long nothing must be heard of a satellite before it is called silent. */
sky_time sky__silence_ns(const sky__scheduler *q);

/* ---- detector.c ---- */

/* It said something wrong. */
void sky__suspect(sky__scheduler *q, sky_satellite satellite);
/* It let this go unanswered. */
void sky__unanswered(sky__scheduler *q, const sky__operation *o);
/* It said something about what was asked, late perhaps: it is there. */
void sky__answered(sky__scheduler *q, sky_satellite satellite);
/* The answer that came is to this, of its last attempt (`current`) or of any. */
void sky__served(sky__scheduler *q, const sky__operation *o, bool current);
bool sky__is_silent(const sky__scheduler *q, sky_satellite satellite);
/* The sky does not run, and two round trips have passed. Then all are silent. */
bool sky__is_down(const sky__scheduler *q);
/* Nothing was heard of the satellite that is asked, or of any since it was: in so long it counts as
 * silent. 0: it does already, or answered. */
sky_time sky__undecided_ns(const sky__scheduler *q, const sky__operation *o);
/* It is not silent, or it is time to try it again: with this one, or (not `alone`) with another
 * that has just begun to. */
bool sky__may_ask(sky__scheduler *q, sky_satellite satellite, bool alone);

#endif
