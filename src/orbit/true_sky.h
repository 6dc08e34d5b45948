/* A physical sky behind a frame: the table of who is overhead, and true distances.
 *
 *   fleet, observer ──► handovers (given to every node) ──► where the window is
 *                  ├──► range at the beginning of a turn ──► light time to the ground
 *                  └──► lasers that see each other then ──► the shortest way over them
 *
 * Surprises: a laser whose line of sight comes within SKY__GRAZING_KM of the ground is down, and
 * ways go round it; where none is left, or only one that takes far longer than any way should, two
 * satellites are not joined. What was computed for a turn is kept for the next question, behind the
 * pointer to a sky that is const: one thread at a time. */
#ifndef SKY_ORBIT_TRUE_SKY_H
#define SKY_ORBIT_TRUE_SKY_H

#include "orbit/frame.h"

#define SKY__GRAZING_KM 80

typedef struct sky__ways sky__ways;

typedef struct sky_true_sky {
    sky_physical given;
    sky_handover *handovers;
    size_t handover_count;
    int32_t link_offset; /* slots a link to the next plane goes on */
    sky_time plane_ns;   /* one hop, as long as it ever is */
    sky_time slot_ns;
    sky_time detour_ns; /* round lasers that are down: along a plane to where planes are close */
    double ns_per_km;
    sky_dead_laser *dead; /* [given.dead_count] */
    sky__ways *ways;
} sky_true_sky;

/* Errors: SKY_E_PARAM (the fleet has no grid), SKY_E_NOMEM. Owner: the fleet goes with it */
sky_status sky__true_create(const sky_physical *given, sky_true_sky **out, sky_error *error);
void sky__true_destroy(sky_true_sky *t);

sky_time sky__true_ground_ns(const sky_true_sky *t, sky_satellite centre, sky_satellite s,
                             uint64_t turns);
/* Of satellites that are not joined: as long as the longest way. */
sky_time sky__true_link_ns(const sky_true_sky *t, sky_satellite a, sky_satellite b, uint64_t turns);
bool sky__true_joined(const sky_true_sky *t, sky_satellite a, sky_satellite b, uint64_t turns);
/* The next satellite on the shortest way from `a` to `b`; false: no laser leads there. */
bool sky__true_hop(const sky_true_sky *t, sky_satellite a, sky_satellite b, uint64_t turns,
                   sky_satellite *hop);
/* No laser is ever down, by any cause that is known here: all satellites are always joined. */
bool sky__true_whole(const sky_true_sky *t);
/* No way takes longer: between two satellites at any time, and any two. */
sky_time sky__true_way_ns_max(const sky_true_sky *t, sky_satellite a, sky_satellite b);
sky_time sky__true_link_ns_max(const sky_true_sky *t);
sky_time sky__true_ground_ns_max(const sky_true_sky *t); /* straight, at the horizon */
/* Number of the satellite that stands highest in the observer's sky. */
uint32_t sky__true_highest(const sky_true_sky *t, uint64_t turns);
double sky__true_elevation_deg(const sky_true_sky *t, sky_satellite s, uint64_t turns);
bool sky__true_in_sight(const sky_true_sky *t, sky_satellite s, uint64_t turns);

#endif
