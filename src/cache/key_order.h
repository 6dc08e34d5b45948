/* Keys in flight: which operation on a key waits for which.
 *
 *   later \ earlier   put     remove   pin, unpin   copy of a block   copy of a name   promotion
 *   read              waits   waits    waits        –                 –                –
 *   put               waits   waits    waits        – (a name: waits) outdates         outdates
 *   remove            waits   waits    waits        at the tier       outdates         outdates
 *   pin, unpin        waits   waits    waits        waits             waits            –
 *   copy, promotion   –       –        –            –                 –                –
 *
 * A copy is a write-back to one tier; the copies of a name come from promotions, as puts of names
 * are not written back. What is outdated carries older bytes: it must not reach a tier any more. A
 * write waits for it only while it is `working`, which means that a tier is storing its bytes. A
 * removal follows the copies of blocks tier by tier (tier_slot.h), as it concerns those below the
 * block too. So it also waits for promotions of any key that are `filling` the nearest tier.
 * Only reads that wait stand here: one that began before a write may see either value.
 *
 * All functions but sky__order_quiet are called with the cache's mutex held. Entries belong to
 * their callers and are linked here from enter to leave. */
#ifndef SKY_CACHE_KEY_ORDER_H
#define SKY_CACHE_KEY_ORDER_H

#include <stdatomic.h>

#include <skymem/cache.h>

#define SKY__ORDER_BUCKETS 1024u

typedef enum {
    SKY__ORDER_READ,
    SKY__ORDER_PUT,
    SKY__ORDER_REMOVE,
    SKY__ORDER_PIN, /* and unpin */
    SKY__ORDER_COPY,
    SKY__ORDER_PROMOTION,
} sky__order_kind;

typedef struct sky__order_entry {
    struct sky__order_entry *next; /* in its bucket, earliest first */
    struct sky__order_entry *next_ready;
    sky_key key;
    sky__order_kind kind;
    bool named;    /* a put, a copy: its key has a name, so that its value may change */
    bool working;  /* see above; set by the owner through sky__order_work */
    bool waiting;  /* for an earlier entry */
    bool outdated; /* by a later entry */
    bool filling;  /* a promotion that stores: sky__order_fill */
    /* Called on the cache's thread, without the mutex, when an entry that had to wait may go on. */
    void (*go)(sky_cache *cache, struct sky__order_entry *entry);
    void *owner;
    uint64_t trace; /* the request's id in a trace; 0: none */
} sky__order_entry;

typedef struct {
    sky__order_entry *buckets[SKY__ORDER_BUCKETS];
    sky__order_entry *ready_first, *ready_last; /* they waited, and may go on */
    /* Puts, removes and pins that are not over, of a bucket. */
    _Atomic uint32_t changes[SKY__ORDER_BUCKETS];
    /* Puts and removes that ever began, of a bucket; removes of all, and those not over. */
    _Atomic uint64_t begun[SKY__ORDER_BUCKETS];
    _Atomic uint64_t removes;
    _Atomic uint64_t removing;
    uint32_t filling; /* promotions that store */
    /* Values that were dropped because another tier has a newer one: how many, and how many there
     * were when the last one of a bucket was. */
    _Atomic uint64_t revocations;
    _Atomic uint64_t revoked_at[SKY__ORDER_BUCKETS];
} sky__order;

/* Line an entry up behind the earlier ones of its key; key, kind, named, go and owner are set.
 * False when it must wait for `go`. */
bool sky__order_enter(sky__order *o, sky__order_entry *entry);
/* The same for a copy, which takes the place right behind `leader`, whose bytes it carries, and for
 * the promotion that a pin needs: what came after the leader comes after the copy too, and outdates
 * it when its turn comes. The leader must not be outdated. */
void sky__order_follow(sky__order_entry *copy, sky__order_entry *leader);
/* The operation is over. */
void sky__order_leave(sky__order *o, sky__order_entry *entry);
/* A copy or promotion begins or stops to store its bytes. */
void sky__order_work(sky__order *o, sky__order_entry *entry, bool working);

/* A promotion stores what it read from now on, until it leaves. A removal of any key waits for it:
 * what is stored may hang below what is removed, and would be found by nobody. */
void sky__order_fill(sky__order *o, sky__order_entry *promotion);

/* True when a put, remove, pin or unpin of the key is not over. */
bool sky__order_changing(const sky__order *o, const sky_key *key);
/* True when none is under way, of this key or another of its bucket. Without the mutex: as of some
 * moment during the call. */
bool sky__order_quiet(const sky__order *o, const sky_key *key);

/* How often the key may have been written or removed so far, with all that leads to it. What was
 * read while this number stayed the same is not older than what is there now.
 * SKY__ORDER_UNKNOWN: something is being removed. Without the mutex. */
#define SKY__ORDER_UNKNOWN UINT64_MAX
uint64_t sky__order_writes(const sky__order *o, const sky_key *key);

/* How often anything was removed so far. SKY__ORDER_UNKNOWN: something is being removed. Without
 * the mutex. */
uint64_t sky__order_removals(const sky__order *o);

/* A tier is about to drop its value of a key for a newer one elsewhere: a read on its way may miss
 * both. It takes the number of revocations before it asks, and asks again when its key, or one of
 * the same bucket, was among those since. Without the mutex. */
void sky__order_revoke(sky__order *o, const sky_key *key);
uint64_t sky__order_revocations(const sky__order *o);
bool sky__order_revoked_since(const sky__order *o, const sky_key *key, uint64_t since);

/* The next entry whose `go` is due, or NULL. */
sky__order_entry *sky__order_next_ready(sky__order *o);

#endif
