/* The sky tier beyond the table of functions every tier has. */
#ifndef SKY_STORE_SKY_TIER_H
#define SKY_STORE_SKY_TIER_H

#include <skymem/sim.h>

#include "sim/scenario.h"
#include "store/tier.h"

/* What sky_sky_tier_open does once the URL and the file are read; `url` is for messages and stat.
 * Errors: as sky_world_create, and SKY_E_IO */
sky_status sky_sky_tier_create(const char *url, const sky_scenario *scenario, uint64_t seed,
                               const sky_tier_env *env, sky_tier **out, sky_error *error);

/* Where the time of the last batch of gets went, and what the sky did so far.
 * Errors: SKY_E_PARAM when `tier` is no sky */
sky_status sky_sky_tier_report(sky_tier *tier, sky_sky_report *out);

#endif
