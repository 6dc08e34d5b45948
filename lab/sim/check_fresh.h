/* Is what a ground reads ever older than what it must have known? Knows when each put of every
 * ground began, and when it was acknowledged.
 *
 *   put A   |----------|
 *   put B                 |------|
 *   get                              |----|      A is over before B, B is known: A is too old
 *
 * A version is known when its put was acknowledged, or when a get that showed it ended, whichever
 * ground that was. A get must not show a version whose put was over before the put of one began
 * that was known when the get began. Of puts that overlap either may be the later one. So each key
 * is a register that is linearizable as far as times tell.
 *
 * A put that failed is over when it failed: the versions of heads grow with time, so that what
 * arrives late of it hides nothing newer. */
#ifndef SKY_LAB_SIM_CHECK_FRESH_H
#define SKY_LAB_SIM_CHECK_FRESH_H

#include <skymem/types.h>

typedef struct sky__fresh_key sky__fresh_key;

typedef struct {
    sky__fresh_key *keys; /* [key_count] */
    uint32_t key_count;
    uint64_t judged; /* gets */
    uint64_t older;  /* gets that showed what was too old */
} sky_check_fresh;

/* Errors: SKY_E_NOMEM */
sky_status sky_check_fresh_init(sky_check_fresh *c, uint32_t key_count);
void sky_check_fresh_deinit(sky_check_fresh *c);

/* Versions of a key count from 1, in the order in which their puts begin.
 * Errors: SKY_E_NOMEM: the key is not judged any more */
sky_status sky_check_fresh_put_begins(sky_check_fresh *c, uint32_t key, uint32_t version,
                                      sky_time now);
void sky_check_fresh_put_ends(sky_check_fresh *c, uint32_t key, uint32_t version, sky_time now,
                              bool acknowledged);
/* When a get begins: what its end is judged by. */
sky_time sky_check_fresh_floor(const sky_check_fresh *c, uint32_t key);
/* The get has shown this version; false: it is too old. */
bool sky_check_fresh_shown(sky_check_fresh *c, uint32_t key, uint32_t version, sky_time floor);
/* A fault took some of the key: what is older may come to light. Nothing is known of it until the
 * next put is acknowledged. Also of gets under way. */
void sky_check_fresh_forget(sky_check_fresh *c, uint32_t key, sky_time now);

#endif
