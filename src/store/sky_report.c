/* The public door to what a sky tells about itself. */
#include <skymem/satellite.h>

#include "store/coded_tier.h"
#include "store/hierarchy.h"
#include "store/sky_tier.h"

sky_status sky_cache_sky_report(sky_cache *cache, size_t tier, sky_sky_report *out) {
    if (tier >= cache->tier_count)
        return SKY_E_PARAM;
    return sky_sky_tier_report(sky_coded_tier_inner(cache->tiers[tier].tier), out);
}

sky_status sky_cache_satellites(sky_cache *cache, size_t tier, sky_time until,
                                sky_satellite_stat *stats, size_t count_max, size_t *count) {
    if (tier >= cache->tier_count)
        return SKY_E_PARAM;
    return sky_sky_tier_satellites(sky_coded_tier_inner(cache->tiers[tier].tier), until, stats,
                                   count_max, count);
}
