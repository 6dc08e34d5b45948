/* For tests of a simulated constellation as a tier: one that is quick. */
#ifndef SKY_SIM_SIM_TIER_FIXTURE_H
#define SKY_SIM_SIM_TIER_FIXTURE_H

#include "sim/sim_tier.h"

/* Low and dense, so that light takes tens of microseconds, and turning four times a second. */
sky_scenario sky_fixture_fast_scenario(void);
/* A tier of it, seed 1. It asserts, rather than fails. */
sky_tier *sky_fixture_open_sky(const sky_scenario *scenario, const sky_tier_env *env);

#endif
