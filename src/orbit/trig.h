/* Sine, cosine, arc tangent and cube root that round the same way on every machine.
 *
 * libm's differ in the last bit from one library to the next; a range ends up as nanoseconds in the
 * simulator's trace, whose hash must be the same everywhere. Only + − × ÷ and sqrt, floor, fmod,
 * frexp, ldexp (exact by IEEE 754) are used. Errors: below 2e-16 absolute for arguments up to 1e5,
 * 1e-15 relative for the cube root. */
#ifndef SKY_ORBIT_TRIG_H
#define SKY_ORBIT_TRIG_H

#define SKY_PI     3.14159265358979323846
#define SKY_TWO_PI (2 * SKY_PI)
#define SKY_DEGREE (SKY_PI / 180)

typedef struct {
    double sine;
    double cosine;
} sky_turn_of;

sky_turn_of sky__sincos(double x);
double sky__sin(double x);
double sky__cos(double x);
double sky__atan2(double y, double x);
double sky__asin(double x);   /* |x| beyond 1 is taken as 1 */
double sky__cbrt(double x);   /* x > 0 */
double sky__turned(double x); /* x mod 2π, in [0, 2π) */

#endif
