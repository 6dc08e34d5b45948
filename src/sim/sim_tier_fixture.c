#include "sim/sim_tier_fixture.h"

#include <assert.h>
#include <stdio.h>

/* A full sky sends a third of 11,500 chunks on at each turn. It turns so seldom that slow programs
 * (under sanitizers, on a busy machine) still simulate that in less time than passes between turns:
 * they would fall behind for ever. */
#define ROTATION_NS SKY_SECONDS(2)

sky_scenario sky_fixture_fast_scenario(void) {
    sky_scenario s = {.constellation = {.planes = 64,
                                        .slots = 64,
                                        .altitude_km = 10,
                                        .inclination_deg = 53,
                                        .earth_radius_km = 50,
                                        .light_km_s = 299792.458},
                      .centre = {3, 4},
                      .placement = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9},
                      .chunk_bytes = 1024,
                      .satellite = {.memory_bytes = 3 << 19, .processing_ns = 100},
                      .links = {.isl_bits_s = 100000000000,
                                .ground_bits_s = 100000000000,
                                .queue_bytes = 16 << 20},
                      .time = {.scale = 1, .rotation_ns = ROTATION_NS}};
    return s;
}

sky_tier *sky_fixture_open_sky(const sky_scenario *scenario, const sky_tier_env *env) {
    sky_tier *tier = NULL;
    sky_error error = {0};
    if (sky_sim_tier_create("sky:test", scenario, 1, env, &tier, &error) != SKY_OK)
        fprintf(stderr, "%s\n", error.text);
    assert(tier);
    return tier;
}
