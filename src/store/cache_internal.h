/* Building a cache from tiers instead of URLs, for tests and compositions.
 *
 *   sky_cache_create(&c);
 *   env = sky_cache_env(c, last);  sky_…_tier_open(url, &env, &tier, &error);
 *   sky_cache_add(c, tier);                                 … once for each tier
 *   sky_cache_start(c);                                     then as after sky_cache_open */
#ifndef SKY_STORE_CACHE_INTERNAL_H
#define SKY_STORE_CACHE_INTERNAL_H

#include "store/tier.h"

/* Errors: SKY_E_NOMEM, SKY_E_IO */
sky_status sky_cache_create(sky_cache **out);
/* What the next tier is opened with: its place, and where its victims go unless it is the last. */
sky_tier_env sky_cache_env(sky_cache *cache, bool last);
/* Add the next tier, nearest first; the cache closes it. At most SKY_TIERS_MAX. */
void sky_cache_add(sky_cache *cache, sky_tier *tier);
/* Errors: SKY_E_NOMEM; the cache is then to be closed. At least one tier. */
sky_status sky_cache_start(sky_cache *cache);

/* All of it for tiers that need no env of ours. On failure they are closed too. */
sky_status sky_cache_over_tiers(sky_tier *const *tiers, size_t tier_count, sky_cache **out);

#endif
