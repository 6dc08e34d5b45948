/* What crashes took of chunks that have copies. Copies are made again in a known time, but only a
 * satellite that has one can make another: where crashes take all of them sooner, none comes back.
 *
 *     both copies ──a crash──► one ──quiet for repair_ns──► both, or they stay away
 *                               └──a crash, sooner────────► none: explained
 *
 * Surprises: a chunk whose last copy goes after such a quiet time is not explained, although a
 * crash took it: the other copy should have been there. And two copies that a MOVE finds on their
 * way become one where they meet, so that from then on it takes as long as after a crash. */
#ifndef SKY_LAB_SIM_CHECK_COPIES_H
#define SKY_LAB_SIM_CHECK_COPIES_H

#include "base/clock.h"
#include <skymem/status.h>

typedef struct {
    uint32_t chunks;    /* of a value */
    uint64_t *lost;     /* [keys] a chunk of this version is gone, and that is explained; 0: none */
    sky_time *thin_at;  /* [keys × chunks] when a crash last took a copy and left another */
    sky_time *moved_at; /* [keys] when a satellite last heard that the value has another place */
    sky_time repair_ns;
    sky_time quiet_at; /* the end of the last quiet time */
} sky_check_copies;

/* Errors: SKY_E_NOMEM; deinit in any case. */
sky_status sky_check_copies_init(sky_check_copies *c, uint32_t keys, uint32_t chunks,
                                 sky_time repair_ns);
void sky_check_copies_deinit(sky_check_copies *c);

/* Until now nothing had gone wrong for repair_ns. */
void sky_check_copies_quiet(sky_check_copies *c, sky_time now);

/* A satellite hears that a value has another place. */
void sky_check_copies_moved(sky_check_copies *c, uint32_t key, sky_time now);

/* A crash takes a copy of a chunk (from 1) of a version of a key, which was set at `set_at`. */
typedef struct {
    uint32_t key, number;
    uint64_t version;
    sky_time set_at;
    bool last; /* no other satellite has a copy */
} sky_check_copy;
void sky_check_copies_taken(sky_check_copies *c, const sky_check_copy *copy, sky_time now);

/* Is it explained that a chunk of this version is nowhere? */
bool sky_check_copies_explained(const sky_check_copies *c, uint32_t key, uint64_t version);

#endif
