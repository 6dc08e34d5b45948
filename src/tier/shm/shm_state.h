/* The inside of the tier shm: see shm.h.
 *
 *   shm.c     the table of functions, its thread, opening and closing
 *   job.c     jobs to frames, and answers to items
 *   direct.c  answers that need no frame
 *   link.c    one connection, and the memory behind it */
#ifndef SKY_TIER_SHM_SHM_STATE_H
#define SKY_TIER_SHM_SHM_STATE_H

#include "io/sync.h"
#include "tier/leases.h"
#include "tier/shm/place.h"
#include "tier/tier.h"

#define SKY__SHM_FLIGHTS_MAX 96u       /* frames under way; a host takes 128 of a client */
#define SKY__SHM_RETURN_NS   SKY_MS(2) /* a host keeps what was lent so much longer */
#define SKY__SHM_DIRECT      (UINT64_C(1) << 63) /* | hazard: a lease that the host did not give */

typedef struct sky__shm_job {
    struct sky__shm_job *next;
    sky_op op;
    sky_batch batch;
    sky_call call;
    size_t count;
    size_t sent;    /* items before this one are in frames, or over */
    size_t asked;   /* 1 + the last item that asked for a stage; 0: none did */
    size_t flights; /* frames under way */
    sky_item *items;
} sky__shm_job;

/* A frame under way. */
typedef struct {
    sky__shm_job *job; /* NULL: free */
    uint32_t id;
    uint32_t count;
    size_t origin[SKY_SHM_ITEMS_MAX];   /* item of the job */
    uint32_t extent[SKY_SHM_ITEMS_MAX]; /* put: in the stage */
    uint64_t bytes[SKY_SHM_ITEMS_MAX];  /* put: of the payload */
} sky__shm_flight;

/* Somebody waits for what the host says of itself. */
typedef struct sky__shm_question {
    struct sky__shm_question *next;
    uint32_t id;
    bool answered;
    sky_status status;
    uint64_t numbers[SKY_SHM_NUMBERS];
    int fd; /* -1: none; the waiter's */
    uint64_t text_bytes;
} sky__shm_question;

typedef struct {
    sky_tier tier;
    sky_tier_env env;
    char url[256];
    sky__shm_place place;
    int event; /* the thread has something to do */
    sky_thread thread;

    sky_mutex mutex; /* all that follows */
    sky_condition changed;
    bool closing;
    bool broken;         /* the link failed under a caller: the thread ends it */
    bool reading;        /* a thread takes frames; it alone maps, unmaps and ends the link */
    uint32_t callers;    /* in run: one of them reads */
    sky__shm_link *link; /* NULL: not connected */
    sky__shm_link *old;  /* those whose leases are still out */
    uint64_t serials;
    uint64_t returns[SKY_SHM_ITEMS_MAX]; /* leases that go back with the next frame, or soon */
    uint32_t return_count;
    bool returned;              /* some did since the thread looked */
    sky_time return_at;         /* when the thread sends them; 0: it need not look */
    sky__shm_job *first, *last; /* not sent whole */
    size_t job_count;
    uint32_t frame_count; /* so far */
    sky__shm_flight flights[SKY__SHM_FLIGHTS_MAX];
    sky__shm_question *questions;
    sky_leases
        *leases; /* on what the host calls them, or SKY__SHM_DIRECT; owner: the link's serial */
    sky_tier_counts counts;
} sky__shm;

/* Send what can be sent. With the mutex held. */
void sky__shm_pump(sky__shm *t);
/* The host answers a run. With the mutex held, which is released while bytes are copied. */
sky_status sky__shm_take_done(sky__shm *t, const sky_shm_frame *done);
/* Answer one item of a job from a lent payload: it is copied or handed on. True: the lease goes
 * back. With the mutex held, which is released while bytes are copied. */
bool sky__shm_take_lent(sky__shm *t, const sky__shm_job *j, size_t i, const sky_shm_result *r,
                        const uint8_t *payload);
/* Answer what a job that is not queued yet wants and the index of the arena shows. Returns how many
 * of its items are over. With the mutex held, which is released while bytes are copied. */
size_t sky__shm_direct(sky__shm *t, const sky__shm_job *j);
/* One lease of a link less. Returns the link if it is to be destroyed now, else NULL. With the
 * mutex held. */
sky__shm_link *sky__shm_link_unlease(sky__shm *t, sky__shm_link *l);
/* The host made the stage, or not. With the mutex held. */
sky_status sky__shm_take_staged(sky__shm *t, const sky_shm_frame *staged, int fd);
/* End all that is under way or waits. With the mutex held. */
void sky__shm_fail_all(sky__shm *t, sky_status status);
/* These leases are over: tell the host with the next frame, or within SKY__SHM_RETURN_NS. With the
 * mutex held. */
void sky__shm_return(sky__shm *t, const uint64_t *leases, uint32_t count);
/* Tell it now. With the mutex held. */
void sky__shm_send_returns(sky__shm *t);
/* The same, and wake it if there are none: it takes the uses that the index's page tells. */
void sky__shm_call_host(sky__shm *t);

#endif
