/* What of a Walker shell is computed once, inside src/orbit. */
#ifndef SKY_ORBIT_WALKER_H
#define SKY_ORBIT_WALKER_H

#include <skymem-sky/orbit.h>

typedef struct {
    double radius_km;
    double period_s;
    double cos_tilt, sin_tilt;
    double plane_step; /* radians */
    double slot_step;
    double phase_step; /* from plane to plane */
} sky__walker;

void sky__walker_init(sky__walker *w, const sky_constellation *c);
/* Where satellite `s` is `t_s` seconds after (1,1) passed its first node, when all nodes have moved
 * on by `drift` radians.
 * Source: plane p at right ascension spread·(p−1)/N; argument of latitude
 *         2π(s−1)/M + 2πF(p−1)/(N·M) + 2πt/T */
sky_motion sky__walker_at(const sky__walker *w, sky_satellite s, double t_s, double drift);

double sky__distance_km(sky_vector a, sky_vector b);

#endif
