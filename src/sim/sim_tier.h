/* A sky of satellites in this process, as a tier: a world in virtual time, led along the real
 * clock. */
#ifndef SKY_SIM_SIM_TIER_H
#define SKY_SIM_SIM_TIER_H

#include "config/scenario.h"
#include "tier/tier.h"

/* Parse a URL sky:SCENARIO.yaml[?scale=X&seed=N] and open. Errors: as sky_cache_open */
sky_status sky_sim_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                             sky_error *error);

/* The same once the URL and the file are read; `url` is for messages and stat.
 * Errors: as sky_world_create, and SKY_E_IO */
sky_status sky_sim_tier_create(const char *url, const sky_scenario *scenario, uint64_t seed,
                               const sky_tier_env *env, sky_tier **out, sky_error *error);

#endif
