/* The request table: what callers asked for, and how far each request is.
 *
 *     take ──► QUEUED ──► RUNNING ──► ENDING ──► DONE ──result──► free
 *              (puts)        │                     └─ requests of the session's own have no result
 *                            └─ work: units from unit_next to unit_last, for the scheduler
 *
 * The table stores requests and their order. What is done for one is its client's (scheduler.h): a
 * request has one work at a time, and each client keeps its notes in a member of its own. Requests
 * are named by their number in the table. */
#ifndef SKY_GROUND_REQUEST_TABLE_H
#define SKY_GROUND_REQUEST_TABLE_H

#include "ground/block_table.h"

typedef enum {
    REQUEST_FREE,
    REQUEST_QUEUED,
    REQUEST_RUNNING,
    REQUEST_ENDING,
    REQUEST_DONE
} sky__request_state;

/* What the session does next about a request: session.c, advance_requests. */
typedef enum {
    STEP_NONE,   /* none is due: it is not in stepping */
    STEP_BEGIN,  /* one of the session's own */
    STEP_FOUND,  /* the index has its block, or the sky was asked and nobody has */
    STEP_LOST,   /* a chunk of the block that it reads is nowhere */
    STEP_REMOVE, /* its block, out of the index and out of the sky */
    STEP_END
} sky__step;

/* What a request's operations are about, one work after the other. */
typedef enum {
    WORK_LOOK,   /* heads of keys not in the index */
    WORK_HEADS,  /* the head of a key, at all places it may be at once */
    WORK_GET,    /* data chunks of a range */
    WORK_SET,    /* chunks, each as often as there are replicas */
    WORK_HEAD,   /* the head, when all chunks are stored */
    WORK_MOVE,   /* MOVE for each server and replica */
    WORK_REHEAD, /* the head of a moved block, before anything moves */
    WORK_DECIDE, /* the head's first copy, under the condition of a version */
    WORK_TELL,   /* DROP or PIN for each copy of the head, and for each server and replica */
    WORK_PIECE,  /* chunks of a stripe, for a repair */
    WORK_STAT,
    WORK_PROBE, /* HAS for one chunk */
    WORK_CHECK, /* HAS for the pieces of parity that a server has */
    WORK_MEND,  /* stripes that lack some: mend.c */
    WORK_COUNT
} sky__work;

/* What a MOVE is for: move.c. */
typedef enum { MOVE_SETTLES, MOVE_GATHERS, MOVE_GOES } sky__move_step;

/* Columns of stripes, a bit each: those of parity, then those of data. */
typedef struct {
    uint64_t bits[(SKY_STRIPE_PIECES_MAX + 63) / 64];
} sky__columns;

typedef struct {
    sky__request_state state;
    uint32_t next;  /* in the free list, reading, storing, stepping or done */
    sky__step step; /* STEP_NONE but in stepping */
    bool ran;       /* ENDING: it was RUNNING before */
    sky_request ask;
    bool own;       /* nobody asked for it: a move to where it is expected, a check, a put's look */
    bool listed;    /* in reading or storing */
    sky__work work; /* what follows is about this work */
    uint32_t unit_next, unit_last; /* to be asked for or sent next; */
    uint32_t units_left;           /* not yet done */
    uint32_t operations;           /* under way */
    sky_time latest;               /* of their expected ends */
    sky_time blocked_ns;           /* the window's blocked time when it began */
    bool spare;                    /* its operations can be done without */
    bool thorough;                 /* each chunk is asked for at its last places too */
    uint32_t restarts;
    sky__subject of; /* the block it is about, once that is known */
    uint64_t head_version;
    bool named;      /* its block: a name */
    uint64_t change; /* under a condition: its name, in all attempts */
    sky_result result;

    struct {
        uint64_t begin, end;   /* range of the payload */
        uint64_t lost_version; /* of the block we knew and could not read */
        int64_t lost_ms;
        uint64_t looked_version; /* of the one that could not be read when the sky was asked last */
        bool unheard; /* a piece was made again whose server had not said that it lacks it */
    } get;
    struct {
        uint32_t parent_block; /* pinned while under way */
        uint64_t parent_version;
        sky__skipped skipped;
        uint32_t heads_skipped; /* bits of the head's copies */
        bool held;              /* stored, and waits for what is known of an older value */
        bool overtaken;         /* done, and replaced by another ground's at once */
        bool unsure;            /* a head may be set; under a condition: granted, … */
        bool decided;           /* … and was */
    } put;
    struct {
        uint32_t low, high; /* keys below low are there, those from high on are not */
        bool filling;       /* the prefix is known, its other heads are being fetched */
        bool searched;      /* nothing more to learn from satellites about this key */
        bool unsure;        /* one who may have it did not answer */
        bool heard;         /* heads: somebody has one */
        bool tracing;       /* heads: at the last places, where migration may lag */
        bool traced;        /* … they were asked */
        uint32_t copy;      /* the last head came from this one: it is asked first for the next */
        uint32_t spoke;     /* heads: bits of the copies that were there, … */
        uint32_t outdated;  /* … and of those that are not what they should be */
        uint64_t checked;   /* heads: of this version, which the index has; 0: it had none */
    } look;
    struct {
        sky__move_step step;
        bool counted; /* the block counts in both epochs for its sake */
        bool missed;  /* not all chunks were where they should be */
        bool settled; /* but now all are */
    } move;
    struct {
        uint32_t chunks;  /* copies of chunks and heads that it is about, */
        uint32_t unheard; /* … of which so many are on satellites that did not answer */
    } tell;
    struct {
        sky__columns lacking[2]; /* these columns: of whole stripes, of the short one … */
        uint32_t first, last;    /* … in these stripes */
        bool any;
    } check;
} sky__request;

/* A chain of requests. */
typedef struct {
    uint32_t first, last;
} sky__list;

typedef struct {
    sky__request *rows;
    uint32_t max;
    uint32_t free;                /* first of a chain */
    uint32_t room_host, room_own; /* that may still be begun, of the host and of the session */
    uint32_t own_max;
    sky__list reading;  /* with chunks to ask for */
    sky__list storing;  /* puts to start, or with chunks to send */
    sky__list stepping; /* with a step to take */
    sky__list done;     /* with a result to take */
    bool puts_stalled;  /* the first must wait until another put has ended */
    uint32_t puts_running;
    uint32_t looks_open; /* requests that look for what a put replaces */
    uint32_t mends_open; /* requests that make parity again */
} sky__request_table;

/* Errors: SKY_E_NOMEM; deinit in any case. */
sky_status sky__requests_init(sky__request_table *t, uint32_t host_max, uint32_t own_max);
void sky__requests_deinit(sky__request_table *t);

/* A new request, QUEUED; SKY__NONE: no room. */
uint32_t sky__requests_take(sky__request_table *t, const sky_request *ask, bool own);
void sky__requests_free(sky__request_table *t, uint32_t request);

/* At the end of the list its work belongs to. Heads do not wait behind puts that wait for room: the
 * put they end may be what they wait for. */
void sky__requests_line_up(sky__request_table *t, uint32_t request);
/* Give a request its next work, and line it up for it. */
void sky__requests_work(sky__request_table *t, uint32_t request, sky__work work, uint32_t first,
                        uint32_t last);
/* Nothing more is to be asked for it, for now. */
void sky__requests_stand_down(sky__request_table *t, uint32_t request);
/* Its next step, which the session takes. It is in no list, and no step is due. With STEP_END it is
 * ENDING. */
void sky__requests_step(sky__request_table *t, uint32_t request, sky__step step);
/* Its result may be taken. */
void sky__requests_done(sky__request_table *t, uint32_t request);
/* The first of a list leaves it. */
uint32_t sky__list_take(sky__request_table *t, sky__list *list);

/* The running put of a key, or of a version; SKY__NONE: none. */
uint32_t sky__requests_put_of(const sky__request_table *t, const sky_key *key);
static inline bool sky__is_put(const sky__request *r) {
    return r->ask.op == SKY_OP_PUT;
}
/* Looks for what a put replaces. */
static inline bool sky__is_look_of_put(const sky__request *r) {
    return r->own && r->ask.op == SKY_OP_HAS && !r->ask.mend;
}

#endif
