/* The public door to what an embedded sky tells about itself. */
#include "store/hierarchy.h"
#include "store/sky_tier.h"

sky_status sky_cache_sky_report(sky_cache *cache, size_t tier, sky_sky_report *out) {
    return tier < cache->tier_count ? sky_sky_tier_report(cache->tiers[tier].tier, out)
                                    : SKY_E_PARAM;
}
