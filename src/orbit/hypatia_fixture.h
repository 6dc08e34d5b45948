/* For tests: a constellation as Hypatia's generator writes it, tles.txt and isls.txt. */
#ifndef SKY_ORBIT_HYPATIA_FIXTURE_H
#define SKY_ORBIT_HYPATIA_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

/* At 53 degrees and so many turns a day; planes spread over 360 degrees, each odd one half a slot
 * ahead. The epoch is 2000-01-01. Returns the length. */
size_t sky_hypatia_tles(uint32_t planes, uint32_t slots, double motion, char *out, size_t bytes);
/* A +GRID whose lasers between planes go `offset` slots on. */
size_t sky_hypatia_isls(uint32_t planes, uint32_t slots, uint32_t offset, char *out, size_t bytes);

#endif
