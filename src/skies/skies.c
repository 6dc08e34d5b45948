/* The front door of libskymem-sky: it registers its tiers where it is loaded, and answers what the
 * public functions ask of a sky that is a tier. */
#include <skymem-sky/skies.h>

#include <skymem/skymem.h>

#include "base/log.h"
#include "cache/opener.h"
#include "sim/sim_tier.h"
#include "tier/sky/sky.h"
#include "tier/skyudp/skyudp.h"

sky_status sky_skies_register(void) {
    sky_status status = sky__opener_set("sky", sky_sim_tier_open, SKY_VERSION_NUMBER);
    if (status == SKY_OK)
        status = sky__opener_set("sky+udp", sky_udp_tier_open, SKY_VERSION_NUMBER);
    if (status != SKY_OK)
        sky_log(SKY_LOG_WARNING,
                "libskymem-sky %s does not fit libskymem %s: no sky: and no sky+udp:", SKY_VERSION,
                sky_version());
    return status;
}

__attribute__((constructor)) static void when_loaded(void) {
    (void)sky_skies_register();
}

sky_status sky_cache_sky_report(sky_cache *cache, size_t tier, sky_sky_report *out) {
    sky_tier *t;
    sky_status status = out ? sky__opened_tier(cache, tier, &t) : SKY_E_PARAM;
    return status == SKY_OK ? sky_sky_tier_report(t, out) : status;
}

sky_status sky_cache_chunks(sky_cache *cache, size_t tier, const sky_key *key, sky_time until,
                            sky_chunk_copy *places, size_t count_max, sky_chunk_report *out) {
    sky_tier *t;
    if (!key || !out || (!places && count_max > 0))
        return SKY_E_PARAM;
    sky_status status = sky__opened_tier(cache, tier, &t);
    return status == SKY_OK ? sky_sky_tier_chunks(t, key, until, places, count_max, out) : status;
}

sky_status sky_cache_satellites(sky_cache *cache, size_t tier, sky_time until,
                                sky_satellite_stat *stats, size_t count_max, size_t *count) {
    sky_tier *t;
    if (!count || (!stats && count_max > 0))
        return SKY_E_PARAM;
    sky_status status = sky__opened_tier(cache, tier, &t);
    return status == SKY_OK ? sky_sky_tier_satellites(t, until, stats, count_max, count) : status;
}
