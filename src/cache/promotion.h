/* Promotions: a payload comes from a farther tier to the nearest, through private memory, and from
 * there, by write-back, to the tiers between.
 *
 *   LOOK_NEAR ──absent──► LOOK (how large?) ──► wait for room ──► LOAD ──► FILL the nearest tier
 *       │ there             │ miss: next tier                      │ lost: next tier
 *       ▼                   ▼                                      ▼
 *      end                 end            grown since: LOOK      copies, end
 *
 * A get of a whole payload leaves it in the caller's spans, from where it goes straight to FILL,
 * before the get ends. Another one that nobody waits for looks at the nearest tier first (somebody
 * else may have been faster) and runs in the background, reading only while no caller asks that
 * tier. A later put or remove of the key outdates it: what it read is older, and goes nowhere.
 */
#ifndef SKY_CACHE_PROMOTION_H
#define SKY_CACHE_PROMOTION_H

#include "cache/write_back.h"

/* Somebody waits: told on the cache's thread, without the mutex, when the payload is in the nearest
 * tier (SKY_OK), nowhere (SKY_MISS), or lost on the way. */
typedef struct {
    void (*done)(sky_cache *c, void *owner, size_t item, sky_status status);
    void *owner; /* NULL: nobody waits */
    size_t item;
    /* Of the pin that the promotion serves: writes that wait for the pin are newer than the bytes
     * that the promotion carries. NULL: it comes after all that is under way. */
    sky__order_entry *leader;
} sky__promotion_waiter;

/* Bring the item's payload from tier `from` or beyond, as far as call->tiers allows. item: key,
 * parent and name for the copies; bytes and range tell how large it is, if it is read whole.
 * One that nobody waits for is left out when there are too many, it is under way already, or the
 * key is being written. trace: id of the request in a trace. With the mutex held; wake the thread
 * afterwards.
 * Errors: SKY_E_NOMEM, SKY_E_BUSY (left out) */
sky_status sky__promotion_start(sky_cache *c, const sky_item *item, const sky_call *call,
                                uint8_t from, const sky__promotion_waiter *waiter, uint64_t trace);
/* Store an item that was read from tier `from` whole, from its spans, which the caller guards: now,
 * and without a second read. since: sky__order_writes of its key before it was read. False: a write
 * may have come since, the nearest tier did not take it, or somebody else brings it. Without the
 * mutex, on any thread; wake the cache's thread afterwards. */
bool sky__promotion_store(sky_cache *c, const sky_item *item, const sky_call *call, uint8_t from,
                          uint64_t since, uint64_t trace);
/* The owner waits no more. With the mutex held. */
void sky__promotion_give_up(sky_cache *c, const void *owner);
/* The cache's thread: start those that waited for room. True when one did. With the mutex held. */
bool sky__promotion_step(sky_cache *c);

#endif
