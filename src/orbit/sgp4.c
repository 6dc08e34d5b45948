#include "orbit/sgp4.h"

#include <math.h>

#include "orbit/trig.h"
#include "orbit/utc.h"

double sky__xke(void) {
    return 60 / sqrt(SKY__EARTH_KM * SKY__EARTH_KM * SKY__EARTH_KM / SKY__EARTH_MU);
}

double sky__two_thirds(double x) {
    double root = sky__cbrt(x);
    return root * root;
}

/* ---- at epoch ---- */

/* The shape of the orbit at epoch, in the symbols of the report: θ = cos i, β² = 1 − e². */
typedef struct {
    double theta, theta2, sine;
    double beta2, beta;
    double axis; /* a'' */
    double x3thm1, x1m5th;
    double s, qoms4; /* of the atmosphere: from where it thins, and how much */
    double xi, psi2, coefficient, coefficient1;
} shape;

/* Kozai's mean motion holds half of the J2 term; Brouwer's theory wants it without. */
static double brouwer_motion(const sky__elements *e, const shape *k) {
    double a1 = sky__two_thirds(sky__xke() / e->motion);
    double d = 0.75 * SKY__J2 * k->x3thm1 / (k->beta * k->beta2);
    double d1 = d / (a1 * a1);
    double a0 = a1 * (1 - d1 * d1 - d1 * (1.0 / 3 + 134 * d1 * d1 / 81));
    return e->motion / (1 + d / (a0 * a0));
}

static double fourth_power(double x) {
    return x * x * x * x;
}

/* Below 156 km the density model starts lower, below 98 km at 20 km. */
static void choose_atmosphere(shape *k, double eccentricity) {
    double perigee_km = (k->axis * (1 - eccentricity) - 1) * SKY__EARTH_KM;
    double s_km = perigee_km >= 156 ? 78 : perigee_km >= 98 ? perigee_km - 78 : 20;
    k->qoms4 = fourth_power((120 - s_km) / SKY__EARTH_KM);
    k->s = s_km / SKY__EARTH_KM + 1;
}

static shape shape_of(sky__sgp4 *s) {
    const sky__elements *e = &s->at_epoch;
    shape k;
    sky_turn_of tilt = sky__sincos(e->inclination);
    k.theta = tilt.cosine;
    k.sine = tilt.sine;
    k.theta2 = k.theta * k.theta;
    k.beta2 = 1 - e->eccentricity * e->eccentricity;
    k.beta = sqrt(k.beta2);
    k.x3thm1 = 3 * k.theta2 - 1;
    k.x1m5th = 1 - 5 * k.theta2;
    s->motion = brouwer_motion(e, &k);
    k.axis = sky__two_thirds(sky__xke() / s->motion);
    choose_atmosphere(&k, e->eccentricity);
    k.xi = 1 / (k.axis - k.s);
    s->eta = k.axis * e->eccentricity * k.xi;
    k.psi2 = fabs(1 - s->eta * s->eta);
    k.coefficient = k.qoms4 * fourth_power(k.xi);
    k.coefficient1 = k.coefficient / (k.psi2 * k.psi2 * k.psi2 * sqrt(k.psi2));
    return k;
}

static void drag_coefficients(sky__sgp4 *s, const shape *k) {
    const sky__elements *e = &s->at_epoch;
    double eta2 = s->eta * s->eta;
    double e_eta = e->eccentricity * s->eta;
    double c2 = k->coefficient1 * s->motion *
                (k->axis * (1 + 1.5 * eta2 + e_eta * (4 + eta2)) +
                 0.375 * SKY__J2 * k->xi / k->psi2 * k->x3thm1 * (8 + 3 * eta2 * (8 + eta2)));
    double c3 = 0;
    if (e->eccentricity > 1e-4)
        c3 = -2 * k->coefficient * k->xi * (SKY__J3 / SKY__J2) * s->motion * k->sine /
             e->eccentricity;
    s->c1 = e->bstar * c2;
    s->c4 = 2 * s->motion * k->coefficient1 * k->axis * k->beta2 *
            (s->eta * (2 + 0.5 * eta2) + e->eccentricity * (0.5 + 2 * eta2) -
             SKY__J2 * k->xi / (k->axis * k->psi2) *
                 (-3 * k->x3thm1 * (1 - 2 * e_eta + eta2 * (1.5 - 0.5 * e_eta)) +
                  0.75 * (1 - k->theta2) * (2 * eta2 - e_eta * (1 + eta2)) *
                      sky__cos(2 * e->perigee)));
    s->c5 = 2 * k->coefficient1 * k->axis * k->beta2 * (1 + 2.75 * (eta2 + e_eta) + e_eta * eta2);
    s->perigee_drag = e->bstar * c3 * sky__cos(e->perigee);
    s->anomaly_drag = 0;
    if (e->eccentricity > 1e-4)
        s->anomaly_drag = -2.0 / 3 * k->coefficient * e->bstar / e_eta;
    double stretch = 1 + s->eta * sky__cos(e->anomaly);
    s->anomaly_cube = stretch * stretch * stretch;
    s->anomaly_sine = sky__sin(e->anomaly);
}

static void secular_rates(sky__sgp4 *s, const shape *k) {
    double latus = k->axis * k->beta2;
    double inverse2 = 1 / (latus * latus);
    double theta4 = k->theta2 * k->theta2;
    double t1 = 1.5 * SKY__J2 * inverse2 * s->motion;
    double t2 = 0.5 * t1 * SKY__J2 * inverse2;
    double t3 = -0.46875 * SKY__J4 * inverse2 * inverse2 * s->motion;
    s->anomaly_rate = s->motion + 0.5 * t1 * k->beta * k->x3thm1 +
                      0.0625 * t2 * k->beta * (13 - 78 * k->theta2 + 137 * theta4);
    s->perigee_rate = -0.5 * t1 * k->x1m5th + 0.0625 * t2 * (7 - 114 * k->theta2 + 395 * theta4) +
                      t3 * (3 - 36 * k->theta2 + 49 * theta4);
    double node_first = -t1 * k->theta;
    s->node_rate = node_first +
                   (0.5 * t2 * (4 - 19 * k->theta2) + 2 * t3 * (3 - 7 * k->theta2)) * k->theta;
    s->node_drag = 3.5 * k->beta2 * node_first * s->c1;
}

static void drag_powers(sky__sgp4 *s, const shape *k) {
    s->t2 = 1.5 * s->c1;
    if (s->simple)
        return;
    double c1_2 = s->c1 * s->c1;
    s->d2 = 4 * k->axis * k->xi * c1_2;
    double third = s->d2 * k->xi * s->c1 / 3;
    s->d3 = (17 * k->axis + k->s) * third;
    s->d4 = 0.5 * third * k->axis * k->xi * (221 * k->axis + 31 * k->s) * s->c1;
    s->t3 = s->d2 + 2 * c1_2;
    s->t4 = 0.25 * (3 * s->d3 + s->c1 * (12 * s->d2 + 10 * c1_2));
    s->t5 = 0.2 *
            (3 * s->d4 + 12 * s->c1 * s->d3 + 6 * s->d2 * s->d2 + 15 * c1_2 * (2 * s->d2 + c1_2));
}

static bool in_range(const sky__elements *e) {
    return e->eccentricity >= 0 && e->eccentricity < 1 && e->inclination >= 0 &&
           e->inclination <= SKY_PI && e->motion > 0 && e->motion < 1 && fabs(e->node) <= 10 &&
           fabs(e->perigee) <= 10 && fabs(e->anomaly) <= 10 && fabs(e->bstar) <= 1e3 &&
           e->epoch_days >= 0 && e->epoch_days < 100000;
}

sky_status sky__sgp4_init(sky__sgp4 *out, const sky__elements *e) {
    if (!in_range(e))
        return SKY_E_PARAM;
    sky__sgp4 s = {.at_epoch = *e};
    shape k = shape_of(&s);
    s.deep = SKY_TWO_PI / s.motion >= 225;
    s.simple = s.deep || k.axis * (1 - e->eccentricity) < 220 / SKY__EARTH_KM + 1;
    s.gmst = sky__gmst_rad(e->epoch_days + 2433281.5 - 2451545.0);
    drag_coefficients(&s, &k);
    secular_rates(&s, &k);
    drag_powers(&s, &k);
    if (s.deep)
        sky__deep_init(&s);
    *out = s;
    return SKY_OK;
}

/* ---- at a time ---- */

/* Mean elements with drag; the axis is shrunk by a factor. */
static sky__mean with_drag(const sky__sgp4 *s, double t, double *shrink, double *e_loss,
                           double *longitude) {
    const sky__elements *e = &s->at_epoch;
    sky__mean m = {.motion = s->motion,
                   .eccentricity = e->eccentricity,
                   .inclination = e->inclination,
                   .anomaly = e->anomaly + s->anomaly_rate * t,
                   .perigee = e->perigee + s->perigee_rate * t,
                   .node = e->node + s->node_rate * t + s->node_drag * t * t};
    *shrink = 1 - s->c1 * t;
    *e_loss = e->bstar * s->c4 * t;
    *longitude = s->t2 * t * t;
    if (s->simple)
        return m;
    double stretch = 1 + s->eta * sky__cos(m.anomaly);
    double swing = s->perigee_drag * t +
                   s->anomaly_drag * (stretch * stretch * stretch - s->anomaly_cube);
    m.anomaly += swing;
    m.perigee -= swing;
    double t3 = t * t * t;
    *shrink -= s->d2 * t * t + s->d3 * t3 + s->d4 * t3 * t;
    *e_loss += e->bstar * s->c5 * (sky__sin(m.anomaly) - s->anomaly_sine);
    *longitude += s->t3 * t3 + t3 * t * (s->t4 + t * s->t5);
    return m;
}

/* What is left of the elements once the long-period terms are in. */
typedef struct {
    double axis, motion;
    double axn, ayn;  /* e cos ω and e sin ω, with J3 */
    double longitude; /* u: argument of latitude by mean anomaly */
    double node, inclination, sine, theta;
} lengthened;

static lengthened long_period(const sky__mean *m, double axis, double motion) {
    lengthened l = {.axis = axis, .motion = motion, .node = m->node, .inclination = m->inclination};
    sky_turn_of tilt = sky__sincos(m->inclination);
    sky_turn_of perigee = sky__sincos(m->perigee);
    l.sine = tilt.sine;
    l.theta = tilt.cosine;
    double j3 = SKY__J3 / SKY__J2;
    double below = fabs(l.theta + 1) > 1.5e-12 ? 1 + l.theta : 1.5e-12;
    double inverse = 1 / (axis * (1 - m->eccentricity * m->eccentricity));
    l.axn = m->eccentricity * perigee.cosine;
    l.ayn = m->eccentricity * perigee.sine - inverse * 0.5 * j3 * l.sine;
    double longitude = m->anomaly + m->perigee + m->node -
                       inverse * 0.25 * j3 * l.sine * (3 + 5 * l.theta) / below * l.axn;
    l.longitude = fmod(longitude - m->node, SKY_TWO_PI);
    return l;
}

/* Kepler's equation for E + ω, by Newton with bounded steps. */
static sky_turn_of solve_kepler(const lengthened *l) {
    double angle = l->longitude;
    sky_turn_of at = {0, 1};
    double step = 1;
    for (int i = 0; i < 10 && fabs(step) >= 1e-12; i++) {
        at = sky__sincos(angle);
        step = (l->longitude - l->ayn * at.cosine + l->axn * at.sine - angle) /
               (1 - at.cosine * l->axn - at.sine * l->ayn);
        step = step > 0.95 ? 0.95 : step < -0.95 ? -0.95 : step;
        angle += step;
    }
    return at;
}

/* Distance, argument of latitude and their rates, in Earth radii and in units of xke. */
typedef struct {
    double r, r_rate, rv, u, node, inclination;
} polar;

static void place_motion(const polar *p, sky_motion *out) {
    sky_turn_of u = sky__sincos(p->u), node = sky__sincos(p->node), i = sky__sincos(p->inclination);
    sky_vector m = {-node.sine * i.cosine, node.cosine * i.cosine, i.sine};
    sky_vector toward = {m.x * u.sine + node.cosine * u.cosine, m.y * u.sine + node.sine * u.cosine,
                         m.z * u.sine};
    sky_vector along = {m.x * u.cosine - node.cosine * u.sine, m.y * u.cosine - node.sine * u.sine,
                        m.z * u.cosine};
    double km_s = SKY__EARTH_KM * sky__xke() / 60;
    double r = p->r * SKY__EARTH_KM;
    *out = (sky_motion){{r * toward.x, r * toward.y, r * toward.z},
                        {km_s * (p->r_rate * toward.x + p->rv * along.x),
                         km_s * (p->r_rate * toward.y + p->rv * along.y),
                         km_s * (p->r_rate * toward.z + p->rv * along.z)}};
}

static sky_orbit_fault short_period(const lengthened *l, sky_motion *out) {
    sky_turn_of k = solve_kepler(l);
    double e_cos = l->axn * k.cosine + l->ayn * k.sine;
    double e_sin = l->axn * k.sine - l->ayn * k.cosine;
    double e2 = l->axn * l->axn + l->ayn * l->ayn;
    double latus = l->axis * (1 - e2);
    if (latus < 0)
        return SKY_ORBIT_LATUS;
    double r = l->axis * (1 - e_cos);
    double beta = sqrt(1 - e2);
    double share = e_sin / (1 + beta);
    double sine = l->axis / r * (k.sine - l->ayn - l->axn * share);
    double cosine = l->axis / r * (k.cosine - l->axn + l->ayn * share);
    double sine2 = 2 * cosine * sine;
    double cosine2 = 1 - 2 * sine * sine;
    double k1 = 0.5 * SKY__J2 / latus;
    double k2 = k1 / latus;
    double theta2 = l->theta * l->theta;
    double rate = l->motion * k1 / sky__xke();
    polar p = {
        .r = r * (1 - 1.5 * k2 * beta * (3 * theta2 - 1)) + 0.5 * k1 * (1 - theta2) * cosine2,
        .u = sky__atan2(sine, cosine) - 0.25 * k2 * (7 * theta2 - 1) * sine2,
        .node = l->node + 1.5 * k2 * l->theta * sine2,
        .inclination = l->inclination + 1.5 * k2 * l->theta * l->sine * cosine2,
        .r_rate = sqrt(l->axis) * e_sin / r - rate * (1 - theta2) * sine2,
        .rv = sqrt(latus) / r + rate * ((1 - theta2) * cosine2 + 1.5 * (3 * theta2 - 1)),
    };
    if (!(p.r >= 1))
        return SKY_ORBIT_DECAYED;
    place_motion(&p, out);
    return SKY_ORBIT_FINE;
}

sky_orbit_fault sky__sgp4_at(const sky__sgp4 *s, double t, sky_motion *out) {
    if (!(fabs(t) <= SKY__SGP4_MINUTES_MAX))
        return SKY_ORBIT_FAR;
    double shrink, e_loss, longitude;
    sky__mean m = with_drag(s, t, &shrink, &e_loss, &longitude);
    if (s->deep)
        sky__deep_secular(s, t, &m);
    if (!(m.motion > 0))
        return SKY_ORBIT_MOTION;
    double axis = sky__two_thirds(sky__xke() / m.motion) * shrink * shrink;
    double motion = sky__xke() / (axis * sqrt(axis));
    m.eccentricity -= e_loss;
    if (!(m.eccentricity < 1 && m.eccentricity >= -0.001))
        return SKY_ORBIT_ECCENTRICITY;
    if (m.eccentricity < 1e-6)
        m.eccentricity = 1e-6;
    m.anomaly += s->motion * longitude;
    double mean_longitude = fmod(m.anomaly + m.perigee + m.node, SKY_TWO_PI);
    m.node = fmod(m.node, SKY_TWO_PI);
    m.perigee = fmod(m.perigee, SKY_TWO_PI);
    m.anomaly = fmod(mean_longitude - m.perigee - m.node, SKY_TWO_PI);
    if (s->deep)
        sky__deep_periodic(s, t, &m);
    if (!(m.eccentricity >= 0 && m.eccentricity <= 1))
        return SKY_ORBIT_PERTURBED;
    lengthened l = long_period(&m, axis, motion);
    sky_motion found;
    sky_orbit_fault fault = short_period(&l, &found);
    if (fault == SKY_ORBIT_FINE)
        *out = found;
    return fault;
}
