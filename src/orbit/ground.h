/* A station and its horizon, inside src/orbit. */
#ifndef SKY_ORBIT_GROUND_H
#define SKY_ORBIT_GROUND_H

#include <skymem-sky/orbit.h>

/* Where it is in TEME, and its axes there: up is the normal of the ellipsoid. */
typedef struct {
    sky_vector place_km;
    sky_vector up, north, east;
} sky__station;

/* Whether a caller's observer is a place on the Earth with a mask. */
bool sky__observer_valid(const sky_observer *o);

/* Where an observer is that went so far on a great circle, which sets out on a course (from north
 * over east); on a sphere. */
sky_observer sky__observer_moved(const sky_observer *o, double km, double course_deg);

/* How far two observers are apart along the great circle, on the same sphere. */
double sky__ground_km(const sky_observer *a, const sky_observer *b);

sky__station sky__station_at(const sky_observer *o, int64_t ms);

/* Sine of the elevation: what comparisons need, without an arc. */
double sky__sine_elevation(const sky__station *s, sky_vector satellite_km);

#endif
