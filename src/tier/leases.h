/* A table of the leases that are out: what each lends, and whose it is.
 *
 *   id = generation << 16 | row, so that an id that was returned never means a later lease
 *
 * A lease has an owner, a number that says nothing here. Who returns a lease must name its owner;
 * an owner that died is returned all at once. Rows that were never used take no memory. Not safe
 * from several threads: the table lies under its user's lock. */
#ifndef SKY_TIER_LEASES_H
#define SKY_TIER_LEASES_H

#include <skymem/cache.h>

typedef struct sky_leases sky_leases;

/* Errors: SKY_E_NOMEM */
sky_status sky_leases_create(sky_leases **out);
/* NULL is fine. */
void sky_leases_destroy(sky_leases *l);

bool sky_leases_full(const sky_leases *l);
uint32_t sky_leases_count(const sky_leases *l);
/* A new lease on `what`. Must not be full. Its id is above 0 and below 2^48. */
sky_lease sky_leases_take(sky_leases *l, uint64_t what, uint64_t owner);
/* Return one.
 * Errors: SKY_E_PARAM (no such lease is out), SKY_E_DENIED (it is another owner's) */
sky_status sky_leases_give(sky_leases *l, sky_lease lease, uint64_t owner, uint64_t *what);
/* Return the next of an owner, or of anybody with `owner` NULL; false: there is none left. Begin
 * with *row 0. */
bool sky_leases_give_next(sky_leases *l, const uint64_t *owner, uint32_t *row, uint64_t *what);

#endif
