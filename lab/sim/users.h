/* Users of the grounds: who asks next, through which gateway, and what the way over land costs.
 *
 *   user ──[its uplink]── land ──► gateway ══ sky ══        a ground's session
 *   user ◄─[its downlink]── land ──┘
 *
 * A user's link serves one message after another; the land between has no rate, and takes the time
 * of links.land_km_s along the great circle. Requests have no bytes: only payloads take time on a
 * user's link. */
#ifndef SKY_LAB_SIM_USERS_H
#define SKY_LAB_SIM_USERS_H

#include "base/prng.h"
#include "config/scenario.h"

#define SKY_USER_NONE UINT32_MAX /* the ground asks for itself */

typedef struct {
    const sky_scenario *scenario;
    sky_prng prng;
    double weight_to[SKY_USERS_MAX]; /* sums of the weights */
    sky_time up_free[SKY_USERS_MAX], down_free[SKY_USERS_MAX];
} sky_users;

/* Owner: the scenario outlives it */
void sky_users_init(sky_users *u, const sky_scenario *scenario, uint64_t seed);
/* Shape: the scenario has users */
uint32_t sky_users_draw(sky_users *u);
/* The number of the ground that a user's requests go to at a time. */
uint32_t sky_users_gateway(const sky_users *u, uint32_t user, sky_time now);
/* When what a user sends is at a ground, and what the ground sends is with the user. */
sky_time sky_users_up(sky_users *u, uint32_t user, uint32_t ground, sky_time now, uint64_t bytes);
sky_time sky_users_down(sky_users *u, uint32_t user, uint32_t ground, sky_time now, uint64_t bytes);

#endif
