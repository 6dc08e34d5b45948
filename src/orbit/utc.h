/* Calendar and sidereal time, inside src/orbit. */
#ifndef SKY_ORBIT_UTC_H
#define SKY_ORBIT_UTC_H

#include <stdbool.h>
#include <stdint.h>

#define SKY__J2000_MS 946728000000 /* 2000-01-01T12:00:00Z */

int64_t sky__days_since_1970(int64_t year, int64_t month, int64_t day);
/* Day since 1970, the part of it that has passed, and both as milliseconds. */
bool sky__utc_split(const char *text, int64_t *day, double *day_part, int64_t *ms);
/* Greenwich mean sidereal time in radians, [0, 2π). Source: IAU 1982 */
double sky_gmst_rad(int64_t ms);
/* The same as SGP4 reckons it: one double for days and fraction. */
double sky__gmst_rad(double days_j2000);

#endif
