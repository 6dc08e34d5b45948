/* Write-back: blocks on their way to farther tiers, behind the answer.
 *
 *   put into the nearest tier ──► lease ─┐
 *   put elsewhere, promotion ───► copy ──┴─► payload (refs) ──► write-back at slot 1, slot 2 …
 *
 * A payload on a lease costs no memory of its own, but keeps the nearest tier from evicting it. So
 * a queue holds at most half of that tier, and copies are bounded too; who finds no room writes
 * through instead. Values under names are written through always: only promotions make copies of
 * them, and a later write takes those back (key_order.h). */
#ifndef SKY_CACHE_WRITE_BACK_H
#define SKY_CACHE_WRITE_BACK_H

#include "cache/tier_slot.h"

typedef struct sky__payload sky__payload;

/* Hold what the nearest tier, which leases, has under the item's key; or copy the item's spans into
 * private memory. item: key, parent, name, and the spans for a copy; call: ttl_s, coding,
 * evict.
 * Owner:  one reference, dropped with sky__payload_drop
 * Errors: SKY_MISS (evicted at once), SKY_E_FULL (no room), SKY_E_PARAM, SKY_E_NOMEM
 * Without the mutex. */
sky_status sky__payload_lease(sky_cache *c, const sky_item *item, const sky_call *call,
                              sky__payload **out);
sky_status sky__payload_copy(sky_cache *c, const sky_item *item, const sky_call *call,
                             sky__payload **out);
/* Without the mutex. NULL is fine. */
void sky__payload_drop(sky_cache *c, sky__payload *p);

/* Queue a payload for a tier, right behind `leader` in the order of its key.
 * Errors: SKY_E_FULL (no room in the queue), SKY_E_IO (the tier is being skipped), SKY_E_NOMEM
 * Without the mutex. */
sky_status sky__write_back(sky_cache *c, sky__payload *p, uint8_t tier, sky__order_entry *leader);
/* A tier did not take a write that nobody waits for. With the mutex held. */
void sky__write_dropped(sky_cache *c, uint8_t tier, sky_status why);

/* Room for private copies: false when there is none. One payload of any size fits an empty pool.
 * With the mutex held. */
bool sky__private_take(sky_cache *c, uint64_t bytes);
void sky__private_give(sky_cache *c, uint64_t bytes);

#endif
