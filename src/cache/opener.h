/* Which schemes of URLs there are, and who opens them.
 *
 * `mem`, `disk`, `shm` and `skymem` are this library's. Those of libskymem-sky come to it from
 * outside: it has its own copy of what lies below a tier, so both must be of one version. These two
 * functions are all that it calls here besides the public ones and the log's (base/log.h). */
#ifndef SKY_CACHE_OPENER_H
#define SKY_CACHE_OPENER_H

#include "tier/tier.h"

typedef sky_status (*sky_tier_opener)(const char *url, const sky_tier_env *env, sky_tier **out,
                                      sky_error *error);

#define SKY_OPENERS_MAX 8

/* From now on `scheme` is opened so; the string must stay. `version`: SKY_VERSION_NUMBER of the
 * library that `opens` is in.
 * Errors: SKY_E_UNSUPPORTED (another version), SKY_E_FULL (SKY_OPENERS_MAX schemes) */
SKY_API sky_status sky__opener_set(const char *scheme, sky_tier_opener opens, uint32_t version);

/* The tier at a place of a hierarchy, below its levels.
 * Errors: SKY_E_PARAM (no cache, or no such place), SKY_E_FORKED */
SKY_API sky_status sky__opened_tier(sky_cache *cache, size_t place, sky_tier **out);

/* As sky_submit, but a batch that was over at once is not drained, and no event is raised for it:
 * out->id is 0 then. */
sky_status sky__submit_here(sky_cache *cache, sky_op op, sky_item *items, size_t item_count,
                            const sky_call *call, sky_batch *out);

/* NULL: there is no such scheme. */
sky_tier_opener sky__opener_find(const char *scheme, size_t scheme_bytes);

#endif
