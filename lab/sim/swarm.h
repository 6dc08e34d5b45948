/* Scenarios drawn at random. */
#ifndef SKY_LAB_SIM_SWARM_H
#define SKY_LAB_SIM_SWARM_H

#include <stddef.h>
#include <stdint.h>

/* Draw a scenario: a sky, a workload and a mix of faults, the same for the same seed. Each lasts
 * `hours` of virtual time, and asks little enough that many hours pass in a minute.
 * Returns the length of `text`, at most SKY_SIM_DRAWN_MAX - 1 */
#define SKY_SIM_DRAWN_MAX 2048
size_t sky_sim_draw(uint64_t seed, double hours, char text[SKY_SIM_DRAWN_MAX]);

#endif
