/* The public door to what a sky tells about itself. */
#include <skymem/satellite.h>

#include "cache/cache_internal.h"
#include "tier/encoded/encoded.h"
#include "tier/sky/sky.h"

sky_status sky_cache_sky_report(sky_cache *cache, size_t tier, sky_sky_report *out) {
    sky_tier *t = sky__cache_tier(cache, tier);
    return t && out ? sky_sky_tier_report(sky_coded_tier_inner(t), out) : SKY_E_PARAM;
}

sky_status sky_cache_chunks(sky_cache *cache, size_t tier, const sky_key *key, sky_time until,
                            sky_chunk_copy *places, size_t count_max, sky_chunk_report *out) {
    sky_tier *t = sky__cache_tier(cache, tier);
    if (!t || !key || !out || (!places && count_max > 0))
        return SKY_E_PARAM;
    return sky_sky_tier_chunks(sky_coded_tier_inner(t), key, until, places, count_max, out);
}

sky_status sky_cache_satellites(sky_cache *cache, size_t tier, sky_time until,
                                sky_satellite_stat *stats, size_t count_max, size_t *count) {
    sky_tier *t = sky__cache_tier(cache, tier);
    if (!t || !stats || !count)
        return SKY_E_PARAM;
    return sky_sky_tier_satellites(sky_coded_tier_inner(t), until, stats, count_max, count);
}
