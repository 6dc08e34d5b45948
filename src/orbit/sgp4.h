/* SGP4: mean elements, as tracking publishes them, to a place at a time.
 *
 *   elements ──init──► coefficients ──┬─ period below 225 min: drag and the Earth's J2 … J4
 *                                     └─ else also Sun and Moon, and resonance with the
 *                                        Earth's turn at 24 h and 12 h (sgp4_deep.c)
 *
 * Units inside are the theory's: Earth radii, radians, minutes; constants are WGS72's, since the
 * elements are made with them. Source: Hoots & Roehrich, Spacetrack Report 3, 1980; Hoots,
 * Schumacher & Glover 2004; Vallado, Crawford, Hujsak & Kelso, AIAA 2006-6753.
 *
 * Surprise: the resonance integrator keeps no state between calls; each starts at epoch, half a
 * day a step, so a propagator is constant after init and may be shared. */
#ifndef SKY_ORBIT_SGP4_H
#define SKY_ORBIT_SGP4_H

#include <skymem-sky/orbit.h>

#define SKY__SGP4_MINUTES_MAX 1e8 /* 190 years */

/* Mean elements at epoch. */
typedef struct {
    uint32_t number;     /* in the catalogue */
    double epoch_days;   /* since 1949-12-31T00:00Z */
    double bstar;        /* 1 / Earth radii */
    double inclination;  /* radians, all angles */
    double node;         /* right ascension of the ascending node */
    double eccentricity; /* 0 … 1 */
    double perigee;      /* argument of perigee */
    double anomaly;      /* mean anomaly */
    double motion;       /* mean motion after Kozai, radians a minute, > 0 */
} sky__elements;

/* What Sun or Moon does: amplitudes of the long-period terms, and the phase of its orbit. */
typedef struct {
    double e2, e3, i2, i3, l2, l3, l4, gh2, gh3, gh4, h2, h3;
    double phase, motion, eccentricity;
} sky__perturber;

/* amplitude · sin(perigees·ω + longitudes·λ − phase) */
typedef struct {
    double amplitude;
    double perigees;
    double longitudes;
    double phase;
} sky__resonance;

typedef struct {
    sky__perturber bodies[2]; /* Sun, Moon */
    double e_rate, i_rate, anomaly_rate, node_rate, perigee_rate;
    sky__resonance terms[10];
    int term_count; /* 0: none; 3: one turn a day; 10: two */
    double longitude, longitude_rate;
} sky__deep;

typedef struct {
    sky__elements at_epoch;
    double motion; /* Brouwer's, from Kozai's */
    bool deep;
    bool simple; /* perigee below 220 km, or deep: drag to first order only */
    double gmst;
    double anomaly_rate, perigee_rate, node_rate, node_drag;
    double c1, c4, c5, d2, d3, d4;
    double t2, t3, t4, t5; /* factors of powers of time in the longitude */
    double perigee_drag, anomaly_drag, eta, anomaly_cube, anomaly_sine;
    sky__deep far;
} sky__sgp4;

/* Errors: SKY_E_PARAM: elements out of their ranges */
sky_status sky__sgp4_init(sky__sgp4 *s, const sky__elements *e);
sky_orbit_fault sky__sgp4_at(const sky__sgp4 *s, double minutes, sky_motion *out);

/* Mean elements on their way through a call. */
typedef struct {
    double motion, eccentricity, inclination, node, perigee, anomaly;
} sky__mean;

/* sgp4_deep.c */
void sky__deep_init(sky__sgp4 *s);
void sky__deep_secular(const sky__sgp4 *s, double minutes, sky__mean *m);
void sky__deep_periodic(const sky__sgp4 *s, double minutes, sky__mean *m);

/* WGS72 */
#define SKY__EARTH_KM 6378.135
#define SKY__EARTH_MU 398600.8
#define SKY__J2       0.001082616
#define SKY__J3       (-0.00000253881)
#define SKY__J4       (-0.00000165597)
double sky__xke(void);            /* radians a minute at one Earth radius */
double sky__two_thirds(double x); /* x^(2/3) */

#endif
