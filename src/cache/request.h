/* A caller's batch on its way through the tiers.
 *
 *   GET, HAS           nearest tier ─miss─► next tier ─miss─► …
 *   PUT of a block     nearest tier, then write-back to all others; where that has no room, through
 *   PUT of a name,     all tiers; then a tier that did not take it drops what it has
 *   PUT durable
 *   REMOVE, PIN, UNPIN all tiers, one answer made of theirs
 *   PREFETCH           nearest tier ─miss─► a promotion brings it there
 *   ANNOUNCE, WITHDRAW this cache, and all tiers that keep announcements
 *   AWAIT              this cache, if it is announced here; else as HAS
 *   LEASE              nearest tier that leases ─miss─► next that leases ─miss─► … ─► as PREFETCH
 *
 * Items are copied into the request, and the copies go to the tiers: a caller's item is written
 * only through the batch, which knows whether it is still the cache's. The spans in the copies are
 * the caller's own, so each sub-request guards the batch while a tier has them.
 *
 * An item's way is one state at a time, on one thread at a time: the submitting one until it was
 * sent to a tier or must wait for its key, the cache's from then on. */
#ifndef SKY_CACHE_REQUEST_H
#define SKY_CACHE_REQUEST_H

#include "cache/cache_state.h"

/* As sky_submit. `kept`: only sky_wait and sky_cancel take the batch, no drain; out->id is then 0
 * when everything was answered already. */
sky_status sky__request_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                               const sky_call *call, bool kept, sky_batch *out);
/* No more answers to this batch, or to any. With the mutex held. */
void sky__request_give_up(sky_cache *c, sky_batch batch);
void sky__requests_give_up(sky_cache *c);
/* End the leases that an owner's calls are still to bring. With the mutex held. */
void sky__requests_give_up_owner(sky_cache *c, uint64_t owner);
/* End what awaits a key and is over. True when something did. With the mutex held, which is
 * released meanwhile. */
bool sky__arrivals_step(sky_cache *c);
/* End leases past their deadline; returns the next deadline. With the mutex held. */
sky_time sky__requests_expire(sky_cache *c);

#endif
