/* Building a cache from tiers instead of URLs, and running it step by step, for tests and
 * compositions.
 *
 *   sky__cache_create(NULL, &c);
 *   sky__cache_add(c, tier);                                … once for each tier, nearest first
 *   sky__cache_start(c);                                    then as after sky_cache_open */
#ifndef SKY_CACHE_INTERNAL_H
#define SKY_CACHE_INTERNAL_H

#include <stdatomic.h>

#include "base/metrics.h"
#include "tier/tier.h"

/* clock: NULL for the system's. Errors: SKY_E_NOMEM, SKY_E_IO */
sky_status sky__cache_create(const sky_clock *clock, sky_cache **out);
/* What the next tier is opened with. */
sky_tier_env sky__cache_env(sky_cache *cache);
/* Add the next tier; the cache closes it. At most SKY_TIERS_MAX. */
void sky__cache_add(sky_cache *cache, sky_tier *tier);
/* Errors: SKY_E_NOMEM; the cache is then to be closed. At least one tier. */
sky_status sky__cache_start(sky_cache *cache);
/* The same without a thread: only sky__cache_step moves what is not done in submit, and calls that
 * block must not be used. */
sky_status sky__cache_start_stepped(sky_cache *cache);
/* All that can be done now; returns when there may be more, or 0 when something moved. */
sky_time sky__cache_step(sky_cache *cache);
/* As sky_cancel, but for the waiting: the next step calls back what tiers are at. */
void sky__cache_give_up(sky_cache *cache, sky_batch batch);
/* True when nothing is on its way to farther tiers or nearer. */
bool sky__cache_quiet(sky_cache *cache);
/* Close at once, as a crash would: what is queued is lost. */
void sky__cache_abandon(sky_cache *cache);

/* What a tier has counted, and what the cache counted of it. Errors: SKY_E_PARAM, SKY_E_FORKED */
sky_status sky__cache_tier_counts(sky_cache *cache, size_t tier, sky_tier_counts *out);
/* Call `body`. All that this thread reads of the cache's tiers meanwhile (sky_cache_stat, _metric,
 * _metrics, _prometheus) is of one moment for each tier, which is asked once. */
void sky__cache_read_once(sky_cache *cache, void (*body)(void *context), void *context);
/* Values that tiers have taken so far, whoever gave them; never waits for a tier. 0 for NULL. */
uint64_t sky__cache_put_count(sky_cache *cache);
/* What the manager adds to: see sky_count. NULL only for NULL. */
sky_cache_counts *sky__cache_counts(sky_cache *cache);

/* Who brings a codec for the blocks of a cache. */
typedef struct sky__codec_user {
    struct sky__codec_user *next;
    const sky_block_codec *codec;
    uint8_t id[32]; /* equal for codecs of which each may stand for the other */
} sky__codec_user;
/* From now on tiers with a level use this user's codec; when it leaves, that of the one before.
 * Owner:  user and codec stay until the user has left
 * Errors: SKY_E_BUSY (such tiers use a codec with another id) */
sky_status sky__cache_codec_enter(sky_cache *cache, sky__codec_user *user);
/* One that did not enter is fine. */
void sky__cache_codec_leave(sky_cache *cache, sky__codec_user *user);
/* How many coded values managers have met so far that no codec here can undo. */
atomic_uint *sky__cache_foreign(sky_cache *cache);

/* The tier at a place, or NULL. */
sky_tier *sky__cache_tier(sky_cache *cache, size_t place);
/* Wait until nothing is on its way. False when `until` came first. What sky_flush tells stays for
 * the next sky_flush. */
bool sky__cache_settle(sky_cache *cache, sky_time until);

#endif
