/* Inside a coded tier (its drawing: encoded.c): what is under way at the inner tier.
 *
 *   STARTING ──asked──► ASKED ──drained──► ANSWERED ──► SETTLING ─┬─ answer known ──► FREE
 *                         ▲                                       ├─ more bytes, or a lower level
 *                         └───────────────────────────────────────┤
 *                         └── STARTING, by the encoder ◄── DUE ◄──┘  a put's next level
 *
 * A sub-batch is one batch at the inner tier: one item that moves a payload, or a whole request
 * that moves none, in the caller's order, which a tier may make use of. Where there are several
 * levels (tier/encoded/level_set.h), it asks at one after the other, best first, until its answer
 * is known:
 *
 *   op            after this the next level is asked    the caller is told
 *   get, has      a miss, damage                        the best that is there; else damage
 *   put           all but cancelled and late            ok when all took it, else what one said
 *   rm            the same                              ok when all said so or had none
 *   pin, unpin,   the same                              ok when one said so
 *   prefetch
 *
 * With sky_call.wanted get, has and put ask at that level and at no other. A put keeps its payload
 * until the last level has its code; a level that has none, as it would be no smaller, is passed
 * over.
 *
 * A sub-batch that is STARTING or SETTLING belongs to one thread; of the others only `state` and
 * `given_up` change, under the tier's mutex. */
#ifndef SKY_TIER_ENCODED_SUB_BATCH_H
#define SKY_TIER_ENCODED_SUB_BATCH_H

#include "io/sync.h"
#include "tier/batch.h"
#include "tier/encoded/level_set.h"
#include "tier/tier.h"

#define SKY__CODED_SUB_BATCHES 32
#define SKY__CODED_WORKERS_MAX 4

typedef enum { FREE, STARTING, ASKED, ANSWERED, SETTLING, DUE } sky__coded_progress;

/* A caller's item, and the best answer to it so far. */
typedef struct {
    size_t number; /* in the caller's batch */
    sky_key key, parent;
    sky_answer answer;
} sky__coded_question;

typedef struct {
    sky__coded_progress state;
    bool given_up;
    sky_op op;
    sky_batch batch;   /* the caller's */
    size_t number;     /* in it, of the first item */
    uint32_t step;     /* in the level set */
    sky_coding coding; /* put: of the caller's bytes */
    sky_range range;
    uint64_t room_bytes;
    bool leading; /* get: asked for leading bytes, of which a codec is to make the range */
    sky_call call;
    sky_item *items;                /* the inner tier's */
    sky__coded_question *questions; /* [item_count], beside the items */
    size_t item_count;
    sky_span span;
    sky_batch inner;
    uint8_t *buffer;
    uint64_t buffer_bytes;
    uint8_t *code; /* put: made of what is in the buffer, which is still needed */
} sky__coded_sub_batch;

typedef struct sky__coded_request sky__coded_request;

typedef struct {
    sky__coded_request *oldest, *newest;
    sky__coded_sub_batch sub_batches[SKY__CODED_SUB_BATCHES];
    uint32_t count; /* of sub-batches that are not FREE */
    uint64_t bytes; /* of their buffers */
} sky__coded_queue;

/* A thread, and what it codes with. */
typedef struct {
    struct sky__coded *tier;
    sky_thread thread;
    void *work; /* for the codec, of work_bytes */
    size_t work_bytes;
    const sky_block_codec *codec; /* in use */
} sky__coded_worker;

typedef struct sky__coded {
    sky_tier tier;
    sky_tier *inner;
    sky_level_set levels; /* the levels of the blocks it codes */
    int wake;             /* of who leads */
    sky_mutex mutex;
    sky_condition changed; /* a request, room, nobody leads, or a codec was let go of */
    const sky_block_codec *codec;
    uint64_t moved_bytes;
    bool leading;  /* somebody does */
    uint32_t idle; /* workers that wait for something to do */
    bool closing;
    sky__coded_queue changes, lookups;
    sky__coded_worker encoder;
    sky__coded_worker workers[SKY__CODED_WORKERS_MAX];
} sky__coded;

static inline bool sky__coded_moves_payload(sky_op op) {
    return op == SKY_OP_GET || op == SKY_OP_PUT;
}

sky__coded_queue *sky__coded_queue_of(sky__coded *t, sky_op op);
/* Everybody is to look what has changed; who leads too. With the mutex held. */
void sky__coded_wake_all(sky__coded *t);

/* The three things to do with a sub-batch; each owns it, and has asked, ended or handed it back
 * when it returns. Without the mutex. */
void sky__coded_begin(sky__coded_worker *w, sky__coded_sub_batch *f);     /* STARTING, a new one */
void sky__coded_put_lower(sky__coded_worker *w, sky__coded_sub_batch *f); /* STARTING, was DUE */
void sky__coded_settle(sky__coded_worker *w, sky__coded_sub_batch *f);    /* SETTLING */

#endif
