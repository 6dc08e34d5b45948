/* Demotion: blocks that a tier is about to evict, on their way to the next tier that lacks them.
 *
 *   tier offers ──► HAS at the next tier ─has it─► done
 *                      │ lacks it
 *                      ▼
 *                   GET here, no_touch ──► PUT there ──► done
 *                                            │ refused: the tier after it
 *
 * The tier offers ahead of its need. While several of these copies are under way, background puts
 * to the tier wait (tier_slot.c), and so do copies to it: that is asked before they take memory, so
 * that those of the farthest tiers go on. What goes all the same before it was read, as callers
 * wait for puts, is lost, and counted of that tier.
 *
 * Only blocks are demoted: a value under a name stands in each tier, or was given up there
 * (request_put.c). */
#ifndef SKY_CACHE_DEMOTION_H
#define SKY_CACHE_DEMOTION_H

#include "cache/tier_slot.h"

/* As sky_tier_env.offer; `cache` is one. From the last tier it takes all, and does nothing. Without
 * the mutex; a lock of the tier may be held. */
uint32_t sky__demotion_offer(void *cache, uint8_t from, const sky_victim *victims, size_t count);
/* Go on with those that wait for memory. With the mutex held. */
bool sky__demotion_step(sky_cache *c);

#endif
