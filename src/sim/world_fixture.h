/* For tests of the world: a small sky that is quick, and payloads that anyone can recompute. */
#ifndef SKY_SIM_WORLD_FIXTURE_H
#define SKY_SIM_WORLD_FIXTURE_H

#include "sim/world.h"

/* 5 planes × 19 slots, the window of the seed's figure 6, 9 servers, 1 Gb/s, chunks of 1 KiB, no
 * faults. */
sky_scenario sky_fixture_scenario(sky_strategy strategy);

/* A world with a host that makes and checks payloads by number. */
typedef struct {
    sky_world *world;
    uint64_t delivered_bytes;
    uint64_t wrong_bytes;
    bool give_up; /* fetch and deliver say no */
    uint32_t forgotten;
} sky_fixture_world;

void sky_fixture_world_open(sky_fixture_world *f, const sky_scenario *scenario, uint64_t seed);
void sky_fixture_world_close(sky_fixture_world *f);

sky_key sky_fixture_block(uint32_t number);
void sky_world_fixture_submit(sky_fixture_world *f, sky_op op, uint32_t number, uint32_t bytes);
/* Run until a result is there, one event after another. */
sky_result sky_fixture_finish(sky_fixture_world *f);
sky_result sky_fixture_do(sky_fixture_world *f, sky_op op, uint32_t number, uint32_t bytes);

#endif
