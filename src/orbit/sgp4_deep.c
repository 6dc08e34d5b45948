/* SGP4 for periods from 225 minutes on: Sun, Moon, and resonance with the turning Earth.
 *
 *   secular   rates of all elements from both bodies; for one or two revolutions a day the mean
 *             longitude λ and motion n are integrated: n' = Σ a·sin(pω + qλ − φ), λ' = n + rate
 *   periodic  long-period terms of both bodies on e, i, M, and on ω and Ω together
 *
 * The report writes each resonance out; here they are rows of one sum. */
#include <math.h>

#include "orbit/sgp4.h"
#include "orbit/trig.h"

#define EARTH_RATE 4.37526908801129966e-3 /* radians a minute */
#define STEP       720.0

/* ---- Sun and Moon at epoch ---- */

/* The body's orbit as seen from the satellite's: its perigee, inclination and node. */
typedef struct {
    double cos_g, sin_g, cos_i, sin_i, cos_h, sin_h;
    double strength;
    double motion, eccentricity, phase;
} body;

typedef struct {
    sky_turn_of node, perigee, tilt;
    double e, e2, beta2, beta;
} orbit;

/* The Moon's node goes round in 18.6 years, and its inclination to the equator with it. */
static body moon_at(const orbit *o, double day) {
    double ascending = fmod(4.5236020 - 9.2422029e-4 * day, SKY_TWO_PI);
    sky_turn_of a = sky__sincos(ascending);
    body m = {.strength = 4.7968065e-7, .motion = 1.5835218e-4, .eccentricity = 0.05490};
    m.cos_i = 0.91375164 - 0.03568096 * a.cosine;
    m.sin_i = sqrt(1 - m.cos_i * m.cos_i);
    double sin_h = 0.089683511 * a.sine / m.sin_i;
    double cos_h = sqrt(1 - sin_h * sin_h);
    double perigee = 5.8351514 + 0.0019443680 * day;
    double turn = sky__atan2(0.39785416 * a.sine / m.sin_i,
                             cos_h * a.cosine + 0.91744867 * sin_h * a.sine);
    sky_turn_of g = sky__sincos(perigee + turn - ascending);
    m.cos_g = g.cosine;
    m.sin_g = g.sine;
    m.cos_h = cos_h * o->node.cosine + sin_h * o->node.sine;
    m.sin_h = o->node.sine * cos_h - o->node.cosine * sin_h;
    m.phase = fmod(4.7199672 + 0.22997150 * day - perigee, SKY_TWO_PI);
    return m;
}

static body sun_at(const orbit *o, double day) {
    return (body){.cos_g = 0.1945905,
                  .sin_g = -0.98088458,
                  .cos_i = 0.91744867,
                  .sin_i = 0.39785416,
                  .cos_h = o->node.cosine,
                  .sin_h = o->node.sine,
                  .strength = 2.9864797e-6,
                  .motion = 1.19459e-5,
                  .eccentricity = 0.01675,
                  .phase = fmod(6.2565837 + 0.017201977 * day, SKY_TWO_PI)};
}

/* The report's a, X, Z and S for one body; its names, because they have no others. */
typedef struct {
    double s1, s2, s3, s4, s6, s7, s5;
    double z1, z2, z3, z11, z12, z13, z21, z22, z23, z31, z32, z33;
} geometry;

static geometry geometry_of(const orbit *o, const body *b, double motion) {
    double a1 = b->cos_g * b->cos_h + b->sin_g * b->cos_i * b->sin_h;
    double a3 = -b->sin_g * b->cos_h + b->cos_g * b->cos_i * b->sin_h;
    double a7 = -b->cos_g * b->sin_h + b->sin_g * b->cos_i * b->cos_h;
    double a8 = b->sin_g * b->sin_i;
    double a9 = b->sin_g * b->sin_h + b->cos_g * b->cos_i * b->cos_h;
    double a10 = b->cos_g * b->sin_i;
    double a2 = o->tilt.cosine * a7 + o->tilt.sine * a8;
    double a4 = o->tilt.cosine * a9 + o->tilt.sine * a10;
    double a5 = -o->tilt.sine * a7 + o->tilt.cosine * a8;
    double a6 = -o->tilt.sine * a9 + o->tilt.cosine * a10;
    double sw = o->perigee.sine, cw = o->perigee.cosine;
    double x1 = a1 * cw + a2 * sw, x2 = a3 * cw + a4 * sw;
    double x3 = -a1 * sw + a2 * cw, x4 = -a3 * sw + a4 * cw;
    double x5 = a5 * sw, x6 = a6 * sw, x7 = a5 * cw, x8 = a6 * cw;
    geometry g;
    g.z31 = 12 * x1 * x1 - 3 * x3 * x3;
    g.z32 = 24 * x1 * x2 - 6 * x3 * x4;
    g.z33 = 12 * x2 * x2 - 3 * x4 * x4;
    g.z11 = -6 * a1 * a5 + o->e2 * (-24 * x1 * x7 - 6 * x3 * x5);
    g.z12 = -6 * (a1 * a6 + a3 * a5) +
            o->e2 * (-24 * (x2 * x7 + x1 * x8) - 6 * (x3 * x6 + x4 * x5));
    g.z13 = -6 * a3 * a6 + o->e2 * (-24 * x2 * x8 - 6 * x4 * x6);
    g.z21 = 6 * a2 * a5 + o->e2 * (24 * x1 * x5 - 6 * x3 * x7);
    g.z22 = 6 * (a4 * a5 + a2 * a6) + o->e2 * (24 * (x2 * x5 + x1 * x6) - 6 * (x4 * x7 + x3 * x8));
    g.z23 = 6 * a4 * a6 + o->e2 * (24 * x2 * x6 - 6 * x4 * x8);
    g.z1 = 2 * (3 * (a1 * a1 + a2 * a2) + g.z31 * o->e2) + o->beta2 * g.z31;
    g.z2 = 2 * (6 * (a1 * a3 + a2 * a4) + g.z32 * o->e2) + o->beta2 * g.z32;
    g.z3 = 2 * (3 * (a3 * a3 + a4 * a4) + g.z33 * o->e2) + o->beta2 * g.z33;
    g.s3 = b->strength / motion;
    g.s2 = -0.5 * g.s3 / o->beta;
    g.s4 = g.s3 * o->beta;
    g.s1 = -15 * o->e * g.s4;
    g.s5 = x1 * x3 + x2 * x4;
    g.s6 = x2 * x3 + x1 * x4;
    g.s7 = x2 * x4 - x1 * x3;
    return g;
}

static sky__perturber perturber_of(const orbit *o, const body *b, const geometry *g) {
    return (sky__perturber){
        .e2 = 2 * g->s1 * g->s6,
        .e3 = 2 * g->s1 * g->s7,
        .i2 = 2 * g->s2 * g->z12,
        .i3 = 2 * g->s2 * (g->z13 - g->z11),
        .l2 = -2 * g->s3 * g->z2,
        .l3 = -2 * g->s3 * (g->z3 - g->z1),
        .l4 = -2 * g->s3 * (-21 - 9 * o->e2) * b->eccentricity,
        .gh2 = 2 * g->s4 * g->z32,
        .gh3 = 2 * g->s4 * (g->z33 - g->z31),
        .gh4 = -18 * g->s4 * b->eccentricity,
        .h2 = -2 * g->s2 * g->z22,
        .h3 = -2 * g->s2 * (g->z23 - g->z21),
        .phase = b->phase,
        .motion = b->motion,
        .eccentricity = b->eccentricity,
    };
}

/* The node's rate is left out within three degrees of the equator, where it has no meaning. */
static void add_rates(sky__sgp4 *s, const orbit *o, const body *b, const geometry *g) {
    sky__deep *d = &s->far;
    double tilt = s->at_epoch.inclination;
    double n = b->motion;
    double node = 0;
    if (tilt >= 5.2359877e-2 && tilt <= SKY_PI - 5.2359877e-2)
        node = -n * g->s2 * (g->z21 + g->z23) / o->tilt.sine;
    d->e_rate += g->s1 * n * g->s5;
    d->i_rate += g->s2 * n * (g->z11 + g->z13);
    d->anomaly_rate += -n * g->s3 * (g->z1 + g->z3 - 14 - 6 * o->e2);
    d->perigee_rate += g->s4 * n * (g->z31 + g->z33 - 6) - o->tilt.cosine * node;
    d->node_rate += node;
}

/* ---- resonance at epoch ---- */

static double cubic_at(const double c[4], double e) {
    return c[0] + c[1] * e + c[2] * e * e + c[3] * e * e * e;
}

/* Eccentricity functions G of the 12-hour resonance: fits, in ranges of e. */
static void twelve_hour_g(double e, double g[10]) {
    static const double low[6][4] = {{3.616, -13.2470, 16.2900, 0},
                                     {-19.302, 117.3900, -228.4190, 156.5910},
                                     {-18.9068, 109.7927, -214.6334, 146.5816},
                                     {-41.122, 242.6940, -471.0940, 313.9530},
                                     {-146.407, 841.8800, -1629.014, 1083.4350},
                                     {-532.114, 3017.977, -5740.032, 3708.2760}};
    static const double high[6][4] = {
        {-72.099, 331.819, -508.738, 266.724},         {-346.844, 1582.851, -2415.925, 1246.113},
        {-342.585, 1554.908, -2366.899, 1215.972},     {-1052.797, 4758.686, -7193.992, 3651.957},
        {-3581.690, 16178.110, -24462.770, 12422.520}, {1464.74, -4664.75, 3763.64, 0}};
    static const double highest_520[4] = {-5149.66, 29936.92, -54087.36, 31324.56};
    static const double low5[3][4] = {{-853.66600, 4690.2500, -8624.7700, 5341.4},
                                      {-822.71072, 4568.6173, -8491.4146, 5337.524},
                                      {-919.22770, 4988.6100, -9064.7700, 5542.21}};
    static const double high5[3][4] = {{-40023.880, 170470.89, -242699.48, 115605.82},
                                       {-51752.104, 218913.95, -309468.16, 146349.42},
                                       {-37995.780, 161616.52, -229838.20, 109377.94}};
    g[0] = -0.306 - (e - 0.64) * 0.440;
    for (int i = 0; i < 6; i++)
        g[i + 1] = cubic_at(e <= 0.65 ? low[i] : high[i], e);
    if (e > 0.715)
        g[6] = cubic_at(highest_520, e);
    for (int i = 0; i < 3; i++)
        g[i + 7] = cubic_at(e < 0.7 ? low5[i] : high5[i], e);
}

/* Inclination functions F in the order of the terms. */
static void twelve_hour_f(double s, double c, double f[10]) {
    double s2 = s * s, c2 = c * c;
    f[0] = 0.75 * (1 + 2 * c + c2);
    f[1] = 1.5 * s2;
    f[2] = 1.875 * s * (1 - 2 * c - 3 * c2);
    f[3] = -1.875 * s * (1 + 2 * c - 3 * c2);
    f[4] = 35 * s2 * f[0];
    f[5] = 39.3750 * s2 * s2;
    f[6] = 9.84375 * s * (s2 * (1 - 2 * c - 5 * c2) + 0.33333333 * (-2 + 4 * c + 6 * c2));
    f[7] = s * (4.92187512 * s2 * (-2 - 4 * c + 10 * c2) + 6.56250012 * (1 + 2 * c - 3 * c2));
    f[8] = 29.53125 * s * (2 - 8 * c + c2 * (-12 + 8 * c + 10 * c2));
    f[9] = 29.53125 * s * (-2 - 8 * c + c2 * (12 + 8 * c - 10 * c2));
}

/* l m p q = 2201, 2211, 3210, 3222, 4410, 4422, 5220, 5232, 5421, 5433 */
static void twelve_hours(sky__sgp4 *s, const orbit *o, double a_inverse) {
    enum { G22, G32, G44, G52, G54 };
    static const double phase[] = {5.7686396, 0.95240898, 1.8014998, 1.0508330, 4.4108898};
    static const double root[] = {1.7891679e-6, 3.7393792e-7, 2 * 7.3636953e-9, 1.1428639e-7,
                                  2 * 2.1765803e-9};
    static const int degree[] = {2, 3, 4, 5, 5};
    static const struct {
        int kind, perigees, longitudes;
    } rows[10] = {{G22, 2, 1}, {G22, 0, 1}, {G32, 1, 1},  {G32, -1, 1}, {G44, 2, 2},
                  {G44, 0, 2}, {G52, 1, 1}, {G52, -1, 1}, {G54, 1, 2},  {G54, -1, 2}};
    /* g: 201 211 310 322 410 422 520 532 521 533 */
    double f[10], g[10];
    twelve_hour_f(o->tilt.sine, o->tilt.cosine, f);
    twelve_hour_g(s->at_epoch.eccentricity, g);
    sky__deep *d = &s->far;
    d->term_count = 10;
    for (int i = 0; i < 10; i++) {
        double scale = 3 * s->motion * s->motion;
        for (int k = 0; k < degree[rows[i].kind]; k++)
            scale *= a_inverse;
        d->terms[i] = (sky__resonance){scale * root[rows[i].kind] * f[i] * g[i], rows[i].perigees,
                                       rows[i].longitudes, phase[rows[i].kind]};
    }
    const sky__elements *e = &s->at_epoch;
    d->longitude = fmod(e->anomaly + 2 * e->node - 2 * s->gmst, SKY_TWO_PI);
    d->longitude_rate = s->anomaly_rate + d->anomaly_rate +
                        2 * (s->node_rate + d->node_rate - EARTH_RATE) - s->motion;
}

static void one_day(sky__sgp4 *s, const orbit *o, double a_inverse) {
    double c = o->tilt.cosine, e2 = o->e2;
    double g200 = 1 + e2 * (-2.5 + 0.8125 * e2);
    double g310 = 1 + 2 * e2;
    double g300 = 1 + e2 * (-6 + 6.60937 * e2);
    double f220 = 0.75 * (1 + c) * (1 + c);
    double f311 = 0.9375 * o->tilt.sine * o->tilt.sine * (1 + 3 * c) - 0.75 * (1 + c);
    double f330 = 1.875 * (1 + c) * (1 + c) * (1 + c);
    double scale = 3 * s->motion * s->motion * a_inverse * a_inverse;
    sky__deep *d = &s->far;
    d->term_count = 3;
    d->terms[0] = (sky__resonance){scale * f311 * g310 * 2.1460748e-6 * a_inverse, 0, 1,
                                   0.13130908};
    d->terms[1] = (sky__resonance){2 * scale * f220 * g200 * 1.7891679e-6, 0, 2, 2 * 2.8843198};
    d->terms[2] = (sky__resonance){3 * scale * f330 * g300 * 2.2123015e-7 * a_inverse, 0, 3,
                                   3 * 0.37448087};
    const sky__elements *e = &s->at_epoch;
    d->longitude = fmod(e->anomaly + e->node + e->perigee - s->gmst, SKY_TWO_PI);
    d->longitude_rate = s->anomaly_rate + s->perigee_rate + s->node_rate - EARTH_RATE +
                        d->anomaly_rate + d->perigee_rate + d->node_rate - s->motion;
}

void sky__deep_init(sky__sgp4 *s) {
    const sky__elements *e = &s->at_epoch;
    orbit o = {.node = sky__sincos(e->node),
               .perigee = sky__sincos(e->perigee),
               .tilt = sky__sincos(e->inclination),
               .e = e->eccentricity,
               .e2 = e->eccentricity * e->eccentricity};
    o.beta2 = 1 - o.e2;
    o.beta = sqrt(o.beta2);
    /* As one Julian date, which keeps 40 µs: so it was when the verification set was made, and near
     * a perigee of e = 0.99 the difference is 4 mm. */
    double julian = e->epoch_days + 2433281.5;
    double day = julian - 2433281.5 + 18261.5; /* since 1899-12-31T12 */
    body bodies[2] = {sun_at(&o, day), moon_at(&o, day)};
    s->far = (sky__deep){.term_count = 0};
    for (int i = 0; i < 2; i++) {
        geometry g = geometry_of(&o, &bodies[i], s->motion);
        s->far.bodies[i] = perturber_of(&o, &bodies[i], &g);
        add_rates(s, &o, &bodies[i], &g);
    }
    double a_inverse = sky__two_thirds(s->motion / sky__xke());
    if (s->motion > 0.0034906585 && s->motion < 0.0052359877)
        one_day(s, &o, a_inverse);
    else if (s->motion >= 8.26e-3 && s->motion <= 9.24e-3 && e->eccentricity >= 0.5)
        twelve_hours(s, &o, a_inverse);
}

/* ---- at a time ---- */

typedef struct {
    double longitude, motion;
} resonant;

/* n' and n''/λ' at a time since epoch. */
static void resonance_pull(const sky__sgp4 *s, double t, const resonant *r, double *first,
                           double *second) {
    const sky__deep *d = &s->far;
    double perigee = s->at_epoch.perigee + s->perigee_rate * t;
    *first = *second = 0;
    for (int i = 0; i < d->term_count; i++) {
        const sky__resonance *k = &d->terms[i];
        sky_turn_of a = sky__sincos(k->perigees * perigee + k->longitudes * r->longitude -
                                    k->phase);
        *first += k->amplitude * a.sine;
        *second += k->amplitude * k->longitudes * a.cosine;
    }
}

/* Euler–Maclaurin, half a day at a time, then what is left. */
static resonant resonance_integrate(const sky__sgp4 *s, double t) {
    resonant r = {s->far.longitude, s->motion};
    double at = 0, first, second;
    double step = t > 0 ? STEP : -STEP;
    for (;;) {
        resonance_pull(s, at, &r, &first, &second);
        double rate = r.motion + s->far.longitude_rate;
        second *= rate;
        double h = fabs(t - at) >= STEP ? step : t - at;
        double half = h * h / 2;
        r.longitude += rate * h + first * half;
        r.motion += first * h + second * half;
        if (h != step)
            return r;
        at += step;
    }
}

void sky__deep_secular(const sky__sgp4 *s, double t, sky__mean *m) {
    const sky__deep *d = &s->far;
    m->eccentricity += d->e_rate * t;
    m->inclination += d->i_rate * t;
    m->perigee += d->perigee_rate * t;
    m->node += d->node_rate * t;
    m->anomaly += d->anomaly_rate * t;
    if (d->term_count == 0)
        return;
    double gmst = fmod(s->gmst + t * EARTH_RATE, SKY_TWO_PI);
    resonant r = resonance_integrate(s, t);
    m->motion = r.motion;
    m->anomaly = d->term_count == 3 ? r.longitude - m->node - m->perigee + gmst
                                    : r.longitude - 2 * m->node + 2 * gmst;
}

/* Below 0.2 rad of inclination node and perigee are moved together, through the pole's place. */
static void turn_pole(sky__mean *m, double inclination, double longitude, double gh, double h) {
    sky_turn_of tilt = sky__sincos(m->inclination);
    sky_turn_of node = sky__sincos(m->node);
    double alpha = tilt.sine * node.sine + h * node.cosine + inclination * tilt.cosine * node.sine;
    double beta = tilt.sine * node.cosine - h * node.sine + inclination * tilt.cosine * node.cosine;
    double before = fmod(m->node, SKY_TWO_PI);
    double sum = m->anomaly + m->perigee + tilt.cosine * before + longitude + gh -
                 inclination * before * tilt.sine;
    m->node = sky__atan2(alpha, beta);
    if (fabs(before - m->node) > SKY_PI)
        m->node += m->node < before ? SKY_TWO_PI : -SKY_TWO_PI;
    m->anomaly += longitude;
    m->perigee = sum - m->anomaly - tilt.cosine * m->node;
}

void sky__deep_periodic(const sky__sgp4 *s, double t, sky__mean *m) {
    double e = 0, inclination = 0, longitude = 0, gh = 0, h = 0;
    for (int i = 0; i < 2; i++) {
        const sky__perturber *p = &s->far.bodies[i];
        double mean = p->phase + p->motion * t;
        sky_turn_of f = sky__sincos(mean + 2 * p->eccentricity * sky__sin(mean));
        double f2 = 0.5 * f.sine * f.sine - 0.25;
        double f3 = -0.5 * f.sine * f.cosine;
        e += p->e2 * f2 + p->e3 * f3;
        inclination += p->i2 * f2 + p->i3 * f3;
        longitude += p->l2 * f2 + p->l3 * f3 + p->l4 * f.sine;
        gh += p->gh2 * f2 + p->gh3 * f3 + p->gh4 * f.sine;
        h += p->h2 * f2 + p->h3 * f3;
    }
    m->inclination += inclination;
    m->eccentricity += e;
    if (m->inclination >= 0.2) {
        sky_turn_of tilt = sky__sincos(m->inclination);
        m->perigee += gh - tilt.cosine * (h / tilt.sine);
        m->node += h / tilt.sine;
        m->anomaly += longitude;
    } else {
        turn_pole(m, inclination, longitude, gh, h);
    }
    if (m->inclination < 0) {
        m->inclination = -m->inclination;
        m->node += SKY_PI;
        m->perigee -= SKY_PI;
    }
}
