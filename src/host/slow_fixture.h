/* A driver for stores below the arena of a test's host: they have nothing, take everything, and
 * read as slowly as the test wants. */
#ifndef SKY_HOST_SLOW_FIXTURE_H
#define SKY_HOST_SLOW_FIXTURE_H

#include <stdatomic.h>

#include <skymem/skymem.h>

/* While it is set, reads do not end. */
extern _Atomic bool sky_slow_fixture_held;
/* A read has begun. */
extern _Atomic bool sky_slow_fixture_asked;

/* As a read waits; for functions that a test adds. */
void sky_slow_fixture_wait(void);
/* For sky_tier_register; a test may add functions to its copy. */
sky_tier_driver sky_slow_fixture_driver(void);

#endif
