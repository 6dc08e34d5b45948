/* The inside of a request, shared by its ways: its items, its references, and how items are sent to
 * tiers and finished.
 *
 *   request.c        a submit: checks, the first look at the nearest tier, which way
 *   request_read.c   get, has, prefetch, lease
 *   request_put.c    put
 *   request_all.c    remove, pin, unpin, prefetch in skies: every tier is asked
 *   request_arrival.c  announce, await, withdraw
 *   request_state.c  what they share
 *
 * A request lives as long as `refs`: its submit, its sub-requests, its promotions, and its items in
 * the key order. */
#ifndef SKY_CACHE_REQUEST_STATE_H
#define SKY_CACHE_REQUEST_STATE_H

#include "cache/tier_slot.h"
#include "io/trace.h"

#define SKY__PART_ITEMS_MAX 32

/* What an item's put or pin is waiting for. */
typedef enum {
    SKY__ASKED,   /* the answers of the tiers that were asked */
    SKY__FIRST,   /* put of a block: the nearest tier that takes it, one after the other */
    SKY__REVOKE,  /* put: tiers drop what they have of the key */
    SKY__REFUSED, /* announce: here already */
    SKY__WAITS,   /* await: here, while tiers are asked */
    SKY__STORE,   /* pin: tiers that outlive the process are given what only others have */
} sky__phase;

/* What is known of an item so far. */
typedef struct {
    sky__order_entry order;
    bool ordered; /* is in the key order */
    sky__phase phase;
    uint32_t parts; /* answers still to come */
    sky_status verdict;
    int weight; /* of the verdict */
    uint64_t bytes;
    uint64_t version; /* write: of what is stored */
    uint8_t tier;
    uint8_t taken;   /* bit i: tier i did it */
    uint8_t refused; /* bit i: tier i did not; of a pin: it has no such key */
    uint8_t to_ask;  /* put: bit i: tier i, on the submitting thread */
    uint8_t wrong;   /* put: bit i: tier i must drop what it has of the key */
    bool pinned;     /* put: one of these has it pinned */
    bool stale;      /* put: some tier may keep what was there before */
    sky_status
        failure;   /* pin: what a tier said that neither did it nor lacks the key; SKY_OK: none */
    sky_item held; /* pin: a lease on what is being stored */
    uint64_t revocations; /* read: of the cache, when it began */
    uint64_t writes;      /* read: of the key, when it began: sky__order_writes */
} sky__progress;
_Static_assert(SKY_TIERS_MAX <= 8, "a bit for each tier");

typedef struct sky__part sky__part;

/* How requests of some operations go. */
typedef struct {
    /* On the submitting thread: items that lie in `r->picked` may go. */
    void (*begin)(sky_cache *c, sky__request *r, size_t count);
    /* On the cache's thread: item i need not wait any more. */
    void (*resume)(sky_cache *c, sky__request *r, size_t i);
    /* On the cache's thread: a tier has answered. */
    void (*answered)(sky_cache *c, sky__request *r, sky__part *part);
} sky__way;

extern const sky__way sky__way_read, sky__way_put, sky__way_all, sky__way_announce, sky__way_await;

struct sky__request {
    sky__request *next;
    const sky__way *way;
    sky_batch batch;
    sky_op op;
    sky_call call;
    uint32_t refs;
    bool given_up;
    bool waits;     /* its caller does, and may wait for a tier itself */
    uint64_t trace; /* its id in a trace; 0: none */
    size_t item_count;
    sky_item *items;
    sky__progress *progress;
    uint32_t *picked; /* [item_count]: work memory of the submitting thread */
};

/* Items of a request at a tier. */
struct sky__part {
    sky__sub sub;
    sky__request *request;
    uint32_t origin[SKY__PART_ITEMS_MAX]; /* the request's number of each item */
    sky_item items[];
};

/* Copies the items and their names; one reference. Errors: SKY_E_NOMEM */
sky_status sky__request_create(sky_op op, const sky_item *items, size_t item_count,
                               const sky_call *call, sky__request **out);
/* As it begins and ends in a trace. */
sky_trace_event sky__request_event(const sky__request *r, const sky_key *key);
/* A put of the key has ended well: whoever awaits it is answered. Without the mutex. */
void sky__arrivals_note_put(sky_cache *c, const sky_key *key, uint64_t bytes, uint8_t tier);

/* Without the mutex. */
void sky__request_drop(sky_cache *c, sky__request *r);

/* Line an item up behind the earlier operations on its key. False when it must wait, and goes on in
 * its way's resume. With the mutex held. */
bool sky__item_enter(sky_cache *c, sky__request *r, size_t i, sky__order_kind kind);
/* Leave the order: the operation on the key is over. Nothing when it is not in it. The caller holds
 * a reference to the request. Without the mutex. */
void sky__item_leave(sky_cache *c, sky__request *r, size_t i);
/* End an item: first in the key order, then for the caller. Without the mutex. */
void sky__item_finish(sky_cache *c, sky__request *r, size_t i, sky_status status, uint64_t bytes,
                      uint8_t tier);
/* The same with the verdict of what tiers answered. */
void sky__item_finish_noted(sky_cache *c, sky__request *r, size_t i);
/* Remember what an answer adds to what is known. */
void sky__item_note(sky__request *r, size_t i, const sky_item *answer, uint8_t tier);

/* Bit i: tier i takes part. */
uint8_t sky__request_tiers(const sky_cache *c, const sky__request *r);
/* The same of those whose content outlives the process. */
uint8_t sky__request_lasting_tiers(const sky_cache *c, const sky__request *r);
/* True when the nearest tier takes part and answers at once. */
bool sky__request_asks_near(const sky_cache *c, const sky__request *r);
/* The answer is about the request, not the tier: no other tier would help. */
bool sky__request_is_final(const sky_cache *c, const sky__request *r, sky_status status);
/* Items on their way to tiers, collected first: memory is found for all of them, or nothing is
 * sent. Starts as {0}. */
typedef struct {
    sky__sub *first;
    bool no_memory;
} sky__sub_group;

/* `other`: what is sent instead of the caller's item, with spans and a name of the cache's own; one
 * item then. NULL: the caller's. */
void sky__sub_group_add(sky__sub_group *l, sky__request *r, size_t tier, sky_op op,
                        const uint32_t *origin, size_t count, const sky_item *other);
/* Send all: answers come to the way's answered, and the request may be gone. False for want of
 * memory: the group is empty then. Without the mutex. */
bool sky__sub_group_send(sky_cache *c, sky__request *r, sky__sub_group *l);
/* One item to each of `tiers` (bits). As sky__sub_group_send. */
bool sky__request_send_item(sky_cache *c, sky__request *r, uint8_t tiers, sky_op op, size_t i,
                            const sky_item *other);
/* Call back what tiers are asked about this item alone, with the request's own operation: the
 * answer came another way. With the mutex held. */
void sky__request_call_back(sky_cache *c, const sky__request *r, size_t i);
/* End items for want of memory. */
void sky__request_finish_no_memory(sky_cache *c, sky__request *r, const uint32_t *items,
                                   size_t count);

#endif
