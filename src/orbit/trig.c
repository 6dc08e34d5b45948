#include "orbit/trig.h"

#include <math.h>

/* π/2 in three parts; the first two have so few bits that their products with a quadrant number of
 * up to 2^20 are exact. */
#define HALF_PI_1 1.57079632673412561417e+00
#define HALF_PI_2 6.07710050630396597660e-11
#define HALF_PI_3 2.02226624879595063154e-21

/* Taylor, for |x| <= π/4: the first term left out is below 1e-17. */
static double near_sine(double x) {
    double square = x * x;
    double sum = 0;
    for (int k = 8; k >= 1; k--)
        sum = -square / (2.0 * k * (2.0 * k + 1.0)) * (1 + sum);
    return x + x * sum;
}

static double near_cosine(double x) {
    double square = x * x;
    double sum = 0;
    for (int k = 8; k >= 2; k--)
        sum = -square / (2.0 * k * (2.0 * k - 1.0)) * (1 + sum);
    return 1 - square / 2 * (1 + sum);
}

sky_turn_of sky__sincos(double x) {
    if (fabs(x) > 1e5)
        x = fmod(x, SKY_TWO_PI);
    double quadrant = floor(x * (2 / SKY_PI) + 0.5);
    double rest = ((x - quadrant * HALF_PI_1) - quadrant * HALF_PI_2) - quadrant * HALF_PI_3;
    double s = near_sine(rest);
    double c = near_cosine(rest);
    switch ((long)quadrant & 3) {
    case 0:
        return (sky_turn_of){s, c};
    case 1:
        return (sky_turn_of){c, -s};
    case 2:
        return (sky_turn_of){-s, -c};
    default:
        return (sky_turn_of){-c, s};
    }
}

double sky__sin(double x) {
    return sky__sincos(x).sine;
}

double sky__cos(double x) {
    return sky__sincos(x).cosine;
}

/* atan(x) for 0 <= x <= 1: from the nearest eighth, by atan x = atan k + atan((x−k)/(1+xk)). */
static double near_arc(double x) {
    static const double eighths[] = {0,
                                     0.1243549945467614350313548,
                                     0.2449786631268641541720825,
                                     0.3587706702705722203959201,
                                     0.4636476090008061162142562,
                                     0.5585993153435624359715082,
                                     0.6435011087932843868028092,
                                     0.7188299996216245054170142,
                                     0.7853981633974483096156608};
    int k = (int)(x * 8 + 0.5);
    double d = (x - k / 8.0) / (1 + x * (k / 8.0));
    double square = d * d;
    double sum = 0;
    for (int i = 8; i >= 1; i--)
        sum = -square * (1 / (2.0 * i + 1.0) + sum);
    return eighths[k] + (d + d * sum);
}

double sky__atan2(double y, double x) {
    double high = fabs(y) > fabs(x) ? fabs(y) : fabs(x);
    double low = fabs(y) > fabs(x) ? fabs(x) : fabs(y);
    if (high == 0)
        return 0;
    double angle = near_arc(low / high);
    if (fabs(y) > fabs(x))
        angle = SKY_PI / 2 - angle;
    if (x < 0)
        angle = SKY_PI - angle;
    return y < 0 ? -angle : angle;
}

double sky__asin(double x) {
    x = x > 1 ? 1 : x < -1 ? -1 : x;
    return sky__atan2(x, sqrt((1 - x) * (1 + x)));
}

double sky__cbrt(double x) {
    int exponent;
    double part = frexp(x, &exponent); /* [0.5, 1) */
    int left = exponent % 3;
    part = ldexp(part, left);
    double root = 0.6 + 0.4 * part;
    for (int i = 0; i < 8; i++) /* Newton: from within a factor of two, eight is plenty */
        root -= (root - part / (root * root)) / 3;
    return ldexp(root, (exponent - left) / 3);
}

double sky__turned(double x) {
    x = fmod(x, SKY_TWO_PI);
    return x < 0 ? x + SKY_TWO_PI : x;
}
