/* Distances and periods of the ideal sky.
 *
 * Surprise: the sine is our own. Basic arithmetic and sqrt round the same way on every machine,
 * libm's sin() does not, and a distance ends up as nanoseconds in the simulator's trace, whose hash
 * must be the same everywhere. (It needs -ffp-contract=off.) */
#include <math.h>

#include "orbit/geometry.h"
#include "orbit/torus.h"

#define PI              3.14159265358979323846
#define EARTH_MU_KM3_S2 398600.4418
#define EARTH_RADIUS_KM 6378.137
#define RADIUS_KM_MAX   1e9

static double orbit_radius_km(const sky_constellation *c) {
    return (c->earth_radius_km > 0 ? c->earth_radius_km : EARTH_RADIUS_KM) + c->altitude_km;
}

bool sky__orbit_valid(const sky_constellation *c) {
    double radius = c ? orbit_radius_km(c) : 0;
    return radius > 0 && radius <= RADIUS_KM_MAX && isfinite(c->inclination_deg) &&
           c->raan_spread_deg >= 0 && c->raan_spread_deg <= 360 && c->earth_radius_km >= 0 &&
           c->light_km_s >= 0 && isfinite(c->light_km_s);
}

/* sin(π/n) for n >= 1, by the Taylor series: at most π/2, where 13 terms leave less than 1e-20. */
static double sin_pi_over(uint32_t n) {
    if (n == 1)
        return 0; /* a ring of one has no neighbour */
    double x = PI / n;
    double term = x;
    double sum = x;
    for (int k = 1; k <= 13; k++) {
        term *= -(x * x) / (2.0 * k * (2.0 * k + 1.0));
        sum += term;
    }
    return sum;
}

double sky_period_s(const sky_constellation *c) {
    if (!sky__orbit_valid(c))
        return 0;
    double a = orbit_radius_km(c);
    return 2 * PI * sqrt(a * a * a / EARTH_MU_KM3_S2);
}

double sky_rotation_s(const sky_constellation *c) {
    return c && c->slots > 0 ? sky_period_s(c) / c->slots : 0;
}

/* The seed writes a·√(2(1−cos(2π/M))), which is the chord 2a·sin(π/M). */
double sky_intra_plane_km(const sky_constellation *c) {
    if (!sky__orbit_valid(c) || c->slots == 0)
        return 0;
    return 2 * orbit_radius_km(c) * sin_pi_over(c->slots);
}

/* D_N(0): the second root is cos²(0) + cos²(i)·sin²(0) = 1. */
double sky_inter_plane_km(const sky_constellation *c) {
    return 2 * orbit_radius_km(c) * sin_pi_over(c->planes);
}

double sky_slant_km(const sky_constellation *c, sky_satellite centre, sky_satellite satellite) {
    sky__assert_on_torus(c, centre);
    sky__assert_on_torus(c, satellite);
    double across = sky__ring_distance(centre.plane, satellite.plane, c->planes) *
                    sky_inter_plane_km(c);
    double along = sky__ring_distance(centre.slot, satellite.slot, c->slots) *
                   sky_intra_plane_km(c);
    return sqrt(across * across + along * along + c->altitude_km * c->altitude_km);
}

double sky_grid_km(const sky_constellation *c, sky_satellite from, sky_satellite to) {
    sky__assert_on_torus(c, from);
    sky__assert_on_torus(c, to);
    return sky__ring_distance(from.plane, to.plane, c->planes) * sky_inter_plane_km(c) +
           sky__ring_distance(from.slot, to.slot, c->slots) * sky_intra_plane_km(c);
}
