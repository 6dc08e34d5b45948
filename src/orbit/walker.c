/* Walker shells: planes evenly spread, satellites evenly spaced in each, each plane a little ahead
 * of the one before it.
 *
 *   argument of latitude  u = 2π(s−1)/M + 2πF(p−1)/(N·M) + 2πt/T        right ascension Ω =
 * spread·(p−1)/N
 *
 * Surprise: past plane N comes plane 1, but F slots on. (N+1, s) is (1, s+F): the torus is twisted.
 * With the planes spread over 180 degrees (polar shells) it does not close at all: plane N+1 would
 * fly the other way. */
#include <math.h>
#include <string.h>

#include <skymem-sky/orbit.h>

#include "orbit/geometry.h"
#include "orbit/torus.h"
#include "orbit/trig.h"
#include "orbit/walker.h"

#define EARTH_MU_KM3_S2 398600.4418
#define EARTH_RADIUS_KM 6378.137
#define EARTH_J2        1.08262668e-3

/* Phasing where it is public. */
static const sky_shell shells[] = {
    {"starlink-a", "Starlink shell 1, seed's Starlink A", {72, 22, 550, 53, 17, 0, 0, 0}},
    {"starlink-b", "the seed's Starlink B; phasing not public", {5, 75, 1275, 81, 0, 0, 0, 0}},
    {"kuiper-a", "Kuiper shell K1; phasing not public", {34, 34, 630, 51.9, 0, 0, 0, 0}},
    {"kuiper-b", "Kuiper shell K3; phasing not public", {28, 28, 590, 33, 0, 0, 0, 0}},
    {"kuiper-c", "Kuiper shell K2", {36, 36, 610, 42, 11, 0, 0, 0}},
    {"oneweb", "OneWeb, planes over 180 degrees", {12, 49, 1200, 87.9, 0, 0, 0, 180}},
};
#define SHELL_COUNT (sizeof shells / sizeof *shells)

const sky_shell *sky_shells(size_t *count) {
    if (count)
        *count = SHELL_COUNT;
    return shells;
}

const sky_shell *sky_shell_find(const char *name) {
    for (size_t i = 0; name && i < SHELL_COUNT; i++) {
        if (strcmp(shells[i].name, name) == 0)
            return &shells[i];
    }
    return NULL;
}

double sky_node_drift_deg_day(const sky_constellation *c) {
    if (!sky__orbit_valid(c))
        return 0;
    double a = EARTH_RADIUS_KM + c->altitude_km;
    double motion = sqrt(EARTH_MU_KM3_S2 / (a * a * a));
    double flat = EARTH_RADIUS_KM / a;
    return -1.5 * EARTH_J2 * flat * flat * motion * sky__cos(c->inclination_deg * SKY_DEGREE) *
           86400 / SKY_DEGREE;
}

void sky__walker_init(sky__walker *w, const sky_constellation *c) {
    sky_turn_of tilt = sky__sincos(c->inclination_deg * SKY_DEGREE);
    double spread = c->raan_spread_deg > 0 ? c->raan_spread_deg * SKY_DEGREE : SKY_TWO_PI;
    double earth = c->earth_radius_km > 0 ? c->earth_radius_km : EARTH_RADIUS_KM;
    *w = (sky__walker){.radius_km = earth + c->altitude_km,
                       .period_s = sky_period_s(c),
                       .cos_tilt = tilt.cosine,
                       .sin_tilt = tilt.sine,
                       .plane_step = spread / c->planes,
                       .slot_step = SKY_TWO_PI / c->slots,
                       .phase_step = SKY_TWO_PI * c->phasing / ((double)c->planes * c->slots)};
}

/* Whole periods are taken off before they become radians. */
sky_motion sky__walker_at(const sky__walker *w, sky_satellite s, double t_s, double drift) {
    double turned = fmod(t_s, w->period_s) / w->period_s * SKY_TWO_PI;
    double latitude = (s.slot - 1.0) * w->slot_step + (s.plane - 1.0) * w->phase_step + turned;
    sky_turn_of node = sky__sincos((s.plane - 1.0) * w->plane_step + drift);
    sky_turn_of u = sky__sincos(latitude);
    double speed = SKY_TWO_PI * w->radius_km / w->period_s;
    double r = w->radius_km;
    double across = w->cos_tilt * u.sine;
    double across_v = w->cos_tilt * u.cosine;
    return (sky_motion){
        .r_km = {r * (node.cosine * u.cosine - node.sine * across),
                 r * (node.sine * u.cosine + node.cosine * across), r * w->sin_tilt * u.sine},
        .v_km_s = {speed * (-node.cosine * u.sine - node.sine * across_v),
                   speed * (-node.sine * u.sine + node.cosine * across_v),
                   speed * w->sin_tilt * u.cosine},
    };
}

double sky__distance_km(sky_vector a, sky_vector b) {
    double x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return sqrt(x * x + y * y + z * z);
}

/* Slots are not wrapped: the formula takes any number. */
static double neighbour_km(const sky__walker *w, int32_t slot_offset, double t_s) {
    double shift_s = w->period_s * (slot_offset * w->slot_step / SKY_TWO_PI);
    sky_vector here = sky__walker_at(w, (sky_satellite){1, 1}, t_s, 0).r_km;
    sky_vector next = sky__walker_at(w, (sky_satellite){2, 1}, t_s + shift_s, 0).r_km;
    return sky__distance_km(here, next);
}

double sky_inter_plane_at_km(const sky_constellation *c, int32_t slot_offset, double t_s) {
    sky__walker w;
    if (!sky__orbit_valid(c) || !sky__torus_valid(c) || !isfinite(t_s))
        return 0;
    sky__walker_init(&w, c);
    return neighbour_km(&w, slot_offset, t_s);
}

/* The squared distance of two such satellites is a + b·cos(2u + φ): its extremes are a quarter of
 * an orbit apart. Three samples an eighth apart give a, b and the extremes exactly. */
void sky_inter_plane_range_km(const sky_constellation *c, int32_t slot_offset, double *min,
                              double *max) {
    sky__walker w;
    if (!min || !max)
        return;
    *min = *max = 0;
    if (!sky__orbit_valid(c) || !sky__torus_valid(c))
        return;
    sky__walker_init(&w, c);
    double d[3];
    for (int i = 0; i < 3; i++) {
        double km = neighbour_km(&w, slot_offset, w.period_s * i / 8);
        d[i] = km * km;
    }
    double middle = (d[0] + d[2]) / 2;
    double cosine = (d[0] - d[2]) / 2;
    double sine = d[1] - middle;
    double swing = sqrt(cosine * cosine + sine * sine);
    *min = sqrt(middle > swing ? middle - swing : 0);
    *max = sqrt(middle + swing);
}
