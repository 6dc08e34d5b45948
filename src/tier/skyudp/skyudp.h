/* Real satellites as a tier: "sky+udp:SCENARIO.yaml". */
#ifndef SKY_TIER_SKYUDP_SKYUDP_H
#define SKY_TIER_SKYUDP_SKYUDP_H

#include "tier/tier.h"

/* Open a ground station to the satellites of a scenario, running or not. Errors: as sky_cache_open,
 * SKY_E_DENIED (a key file open to others) */
sky_status sky_udp_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                             sky_error *error);

#endif
