/* The sky tier beyond the table of functions every tier has. */
#ifndef SKY_TIER_SKY_SKY_H
#define SKY_TIER_SKY_SKY_H

#include <skymem-sky/satellite.h>
#include <skymem-sky/sim.h>

#include "config/scenario.h"
#include "tier/tier.h"

/* Where the time of the last gets went, those under way together, and what the sky did so far.
 * Errors: SKY_E_PARAM when `tier` is no sky */
sky_status sky_sky_tier_report(sky_tier *tier, sky_sky_report *out);

/* As sky_cache_satellites. */
sky_status sky_sky_tier_satellites(sky_tier *tier, sky_time until, sky_satellite_stat *stats,
                                   size_t count_max, size_t *count);

/* As sky_cache_chunks. */
sky_status sky_sky_tier_chunks(sky_tier *tier, const sky_key *key, sky_time until,
                               sky_chunk_copy *places, size_t count_max, sky_chunk_report *out);

/* What a satellite answered.
 * Shape:  counts [SKY_STAT_COUNT] */
void sky_satellite_answered(sky_satellite_stat *stat, sky_time took_ns, const uint64_t *counts);

#endif
