/* A tier over the functions of a program's own store (skymem/tier.h).
 *
 *   submit ──job──► queues of the workers ──► driver ──► answer
 *                   a key always goes to the same worker, so that its operations keep their order
 *
 * Each worker has a buffer of its own, in which values are put together and checked: the driver
 * never sees a caller's memory, so that a late driver writes into nobody's. */
#ifndef SKY_TIER_DRIVER_DRIVER_H
#define SKY_TIER_DRIVER_DRIVER_H

#include <skymem/tier.h>

#include "tier/tier.h"

/* A driver as sky_tier_register takes it: of this header or an earlier one, with what that did not
 * have zero, and at least one thread. False: it is wrong. */
bool sky_driver_read(const sky_tier_driver *driver, sky_tier_driver *out);

/* The driver of a scheme that sky_tier_register was given; false: there is none. */
bool sky_driver_find(const char *scheme, size_t scheme_bytes, sky_tier_driver *out);

/* Call whichever of its two functions opens a store. Errors: what it says */
sky_status sky_driver_open(const sky_tier_driver *driver, const char *where, void **self,
                           sky_error *error);

/* Errors: what driver->open says, SKY_E_NOMEM, SKY_E_IO; `error` begins with the URL */
sky_status sky_driver_tier_open(const sky_tier_driver *driver, const char *url,
                                const sky_tier_env *env, sky_tier **out, sky_error *error);

#endif
