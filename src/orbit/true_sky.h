/* A physical sky behind a frame: the table of who is overhead, and true distances.
 *
 *   fleet, observer ──► handovers (given to every node) ──► where the window is
 *                  └──► range at the beginning of a turn ──► light time to the ground
 *
 * Surprise: between satellites each hop counts as long as it is at its longest in the orbit, so
 * that a link's time needs no date; the truth is shorter by up to the share the planes close up
 * towards the poles (docs/physical-sky.md). */
#ifndef SKY_ORBIT_TRUE_SKY_H
#define SKY_ORBIT_TRUE_SKY_H

#include "orbit/frame.h"

typedef struct sky_true_sky {
    sky_physical given;
    sky_handover *handovers;
    size_t handover_count;
    int32_t link_offset; /* slots a link to the next plane goes on */
    sky_time plane_ns;   /* one hop */
    sky_time slot_ns;
    double ns_per_km;
} sky_true_sky;

/* Errors: SKY_E_PARAM (the fleet has no grid), SKY_E_NOMEM. Owner: the fleet goes with it */
sky_status sky__true_create(const sky_physical *given, sky_true_sky **out, sky_error *error);
void sky__true_destroy(sky_true_sky *t);

sky_time sky__true_ground_ns(const sky_true_sky *t, sky_satellite centre, sky_satellite s,
                             uint64_t turns);
sky_time sky__true_link_ns(const sky_true_sky *t, sky_satellite a, sky_satellite b);
sky_time sky__true_link_ns_max(const sky_true_sky *t);   /* across the whole torus */
sky_time sky__true_ground_ns_max(const sky_true_sky *t); /* straight, at the horizon */
bool sky__true_in_sight(const sky_true_sky *t, sky_satellite s, uint64_t turns);

#endif
