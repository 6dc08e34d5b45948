/* The session's objects, and its clients of the scheduler:
 *
 *   core.h, block_table.h, bulk.h, request_table.h, scheduler.h   the objects
 *
 *   session.c    requests begin and end; which kind of work is whose; what goes out next
 *   steps.c      what clients have the session do next about a request
 *   session_look.c  what it tells of itself
 *   get.c        chunks of a block, and what becomes of one that lost some
 *   put.c        chunks and heads to satellites
 *   lookup.c     blocks found by asking satellites
 *   tell.c       removals and pins that are acknowledged
 *   if_version.c puts and removals under the condition of a version
 *   move.c       blocks that move in the sky
 *   foresight.c  where a block goes before it is used next
 *   repair.c     chunks computed again from their stripe
 *   mend.c       parity that a satellite lost, stored again
 *
 * Each client ends with what the scheduler knows of it: a sky__client for each of its works. */
#ifndef SKY_GROUND_SESSION_STATE_H
#define SKY_GROUND_SESSION_STATE_H

#include "ground/scheduler.h"

#define SKY__REPAIRS_MAX 64

/* A stripe of which as many pieces are wanted as it has data, and a few to spare: one that lost a
 * piece, or (guarded) one that is read where links lose. */
typedef struct {
    uint32_t request; /* SKY__NONE: free, or only pieces to be stored again are left */
    sky__subject of;
    sky_stripe stripe;
    uint32_t unknown, asked, have, lost; /* pieces; those that are late are in none */
    uint32_t spare;                      /* to be asked for more than the data */
    uint32_t to_restore;                 /* wanted pieces not yet sent back */
    uint32_t sends_more;                 /* of the next of them, before the one after it */
    bool open;
    bool guarded;                         /* the get asks for its data itself */
    bool eligible;                        /* and has: now for parity */
    uint8_t state[SKY_STRIPE_PIECES_MAX]; /* PIECE_…, by place */
    bool wanted[SKY_STRIPE_PIECES_MAX];
    uint32_t ops[SKY_STRIPE_PIECES_MAX]; /* operations that ask for them */
    bool silent;    /* a piece was given up for want of an answer: nothing says that it is gone */
    uint8_t *bytes; /* by place */
} sky__repair;

struct sky_session {
    sky__core core;
    sky__bulk bulk;
    sky__block_table blocks;
    sky__request_table requests;
    sky__scheduler scheduler;
    uint64_t puts_named;

    sky__repair *repairs; /* [SKY__REPAIRS_MAX], only with parity */
    uint8_t *repair_bytes;
    uint8_t *stripe_bytes; /* one stripe's data, for the parity of a put; and the code's work */
    uint32_t repairs_open;
    sky_time mend_next;    /* a stripe is made again */
    sky_time patrol_at;    /* the next block is looked after, of its own accord; 0: there is none */
    uint32_t patrol_block; /* … which is the first from here on */
};

extern const sky__client sky__look_client, sky__heads_client, sky__get_client, sky__piece_client,
    sky__set_client, sky__head_client, sky__rehead_client, sky__move_client, sky__check_client,
    sky__mend_client, sky__tell_client, sky__decide_client;

/* ---- steps.c ---- */

/* It ends, with what its result says. */
void sky__request_finish(sky_session *s, uint32_t request, sky_status status, uint64_t bytes);
/* … as all of its work is done. */
void sky__work_done(sky_session *s, uint32_t request);
/* A chunk of the block that it reads is nowhere: get.c, sky__block_lost. */
void sky__request_lost(sky_session *s, uint32_t request);
/* The index has the block, or the sky was asked and nobody has. */
void sky__request_found(sky_session *s, uint32_t request);
/* Out of the index, if it is there still, and out of the sky: the request's block. */
void sky__request_remove(sky_session *s, uint32_t request);
/* A request of the session's own, whose result nobody gets; not begun where there is no room. */
void sky__submit_own(sky_session *s, const sky_request *ask);

/* ---- get.c ---- */

/* Take the facts from the index and line up the chunks of the range. */
void sky__get_begin(sky_session *s, uint32_t request, uint32_t block);
/* A chunk of its block is nowhere. */
void sky__block_lost(sky_session *s, uint32_t request, sky_status status);

/* ---- put.c ---- */

/* The first put of the queue begins. False: it has no chunks to send, now or at all. */
bool sky__put_start(sky_session *s, uint32_t request);
void sky__put_end(sky_session *s, sky__request *r, sky_status status);
/* What was looked for while a put went out is known: its head may be set now. */
void sky__look_of_put_done(sky_session *s, const sky_key *key);
/* May who says that it gave a chunk up have held it? Else it is suspected. */
bool sky__may_give_up(sky_session *s, const sky_chunk_id *id);
/* A chunk went for another's sake: its block is no more, unless it can do without. */
void sky__evicted(sky_session *s, const sky_chunk_id *id);
bool sky__put_compose(sky_session *s, const sky__operation *o, sky_message *m, sky_datagram *out);
void sky__put_taken(sky_session *s, uint32_t op, const sky_message *m);
/* A name that no other put or change has, of this ground or another. */
uint64_t sky__change_name(sky_session *s);
bool sky__head_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o);
bool sky__head_skipped(sky_session *s, const sky__operation *o);
/* All copies of its head are set: it is visible. */
void sky__put_commit(sky_session *s, uint32_t request);

/* ---- lookup.c ---- */

void sky__look_begin(sky_session *s, uint32_t request);
/* The index has a name that the request reads: another ground may have replaced or removed it. */
bool sky__may_be_outdated(const sky_session *s, const sky__request *r);
/* A named key in the index: is its head in the sky still the one we know? */
void sky__fresh_begin(sky_session *s, uint32_t request);
/* Ask all copies of the head of the request's key, at once. */
void sky__heads_begin(sky_session *s, uint32_t request);

/* ---- if_version.c ---- */

/* A put under a condition, whose chunks are stored: what do the copies of the head know? */
void sky__decide_look(sky_session *s, uint32_t request);
/* They have been asked, and the index has what they know. */
void sky__decide_looked(sky_session *s, uint32_t request, uint32_t block);
/* Ask the satellite that decides about the request's key. */
void sky__decide_begin(sky_session *s, uint32_t request);

/* ---- tell.c ---- */

/* Have all satellites drop what they hold of the request's block, or pin it. The index is changed
 * already, or will be by the caller. */
void sky__tell_begin(sky_session *s, uint32_t request);

/* ---- move.c ---- */

void sky__move_begin(sky_session *s, uint32_t request);
/* Arrived or not, from now on the block counts in its new epoch alone. */
void sky__move_end(sky_session *s, uint32_t request);

/* ---- foresight.c ---- */

/* The satellite that a block which is put now is placed around. */
sky_satellite sky__foresee_centre(const sky_session *s, int64_t now_ms);
/* A block was read just now: it goes where it is expected to be used next. */
void sky__foresee_next(sky_session *s, uint32_t block);

/* ---- mend.c ---- */

/* An answer to HAS, of which these bits are wanted. */
void sky__has_taken(sky_session *s, uint32_t op, const sky_message *m, uint64_t wanted);
/* A get of the block has ended. */
void sky__check_after_get(sky_session *s, uint32_t block, const sky__request *get);
void sky__check_begin(sky_session *s, uint32_t request);
void sky__mends_feed(sky_session *s);
sky_time sky__mends_wake(const sky_session *s);

/* ---- repair.c ---- */

/* Read a stripe, and make those of its pieces again that are in these columns. */
void sky__repair_columns(sky_session *s, uint32_t request, uint32_t first,
                         const sky__columns *columns);
/* An operation's chunk is lost. True: a repair sees to it, or will when there is room for one; the
 * operation is over or parked. */
bool sky__repair_begin(sky_session *s, uint32_t op, sky_status status);
/* A get is about to ask for a chunk. */
void sky__repair_guard(sky_session *s, uint32_t op);
/* A chunk of a get that came: kept where it is a piece of a stripe under repair; that, or NULL. */
sky__repair *sky__repair_keep(sky_session *s, uint32_t op, const sky_message *m);
/* When the get has had it: are there enough now? */
void sky__repair_check(sky_session *s, sky__repair *p, uint32_t request);
/* The attempts go on, but another piece may be sooner. */
void sky__repair_late(sky_session *s, uint32_t op);
bool sky__repair_output(sky_session *s, sky_datagram *out);
bool sky__repair_has_output(const sky_session *s);
/* When there is room for a repair again. */
void sky__repairs_unpark(sky_session *s);
void sky__repairs_abandon(sky_session *s, uint32_t request);

#endif
