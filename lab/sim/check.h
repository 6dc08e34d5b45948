/* The ledger of a run: what was set and acknowledged, what went by rule, and what every answer must
 * therefore be. It knows values by name (sim/workload.h) and nothing of satellites.
 *
 *   set_begins ─► set_ends(acknowledged)             a key's versions count from 1
 *   get_begins ─► get_bytes* ─► get_ends             judged by the versions it may show
 *   taken(key)                                       the sky forgot it: by rule, or a loss
 *
 * A get may show the version acknowledged when it began, or any begun since, but one of them whole.
 * Only what lies in its buffer at the end counts: an answer may begin anew, and overwrite.
 *
 * Surprise: a crash waives a key until it is set again, because what the satellite held is known
 * to be gone before anyone asks for it. */
#ifndef SKY_LAB_SIM_CHECK_H
#define SKY_LAB_SIM_CHECK_H

#include "lab/sim/workload.h"

typedef struct {
    uint32_t latest;       /* version begun last; 0: never set */
    uint32_t acknowledged; /* newest version acknowledged; 0: none that must be there */
    bool waived;           /* a satellite that held part of it crashed */
    uint32_t crashes;      /* so often */
    sky_time evicted_at;   /* last, a chunk of it, where there are several grounds */
} sky_check_key;

typedef struct {
    uint64_t seed;
    uint64_t value_bytes;
    uint32_t key_count;
    sky_check_key *keys;
    bool several_grounds; /* which version is too old is check_fresh.h's to say */

    uint64_t sets; /* acknowledged */
    uint64_t gets; /* ended */
    uint64_t hits;
    uint64_t misses;
    uint64_t unanswered;        /* gets that ended in an error: nothing wrong was shown */
    uint64_t wrong_bytes;       /* gets whose bytes are no version they may be */
    uint64_t lost_acknowledged; /* values acknowledged and gone, neither by rule nor waived */
} sky_check;

typedef struct {
    uint32_t key;
    uint32_t floor;   /* first version it may show */
    bool owed;        /* something was acknowledged when it began */
    bool waived;      /* and had gone again */
    bool overrun;     /* bytes past the end were delivered */
    uint8_t *bytes;   /* [value_bytes] */
    uint32_t shown;   /* when it has ended: the version that it showed; 0: none that it may */
    uint32_t crashes; /* of its key, when it began */
} sky_check_get;

/* Errors: SKY_E_NOMEM */
sky_status sky_check_init(sky_check *c, uint64_t seed, uint32_t key_count, uint64_t value_bytes);
void sky_check_deinit(sky_check *c);

/* The value to set: its version is new. */
sky_value sky_check_set_begins(sky_check *c, uint32_t key);
void sky_check_set_ends(sky_check *c, const sky_value *value, sky_status status);

/* Owner:  buffer [value_bytes] is the caller's, and the get's until it ends */
void sky_check_get_begins(const sky_check *c, uint32_t key, uint8_t *buffer, sky_check_get *get);
void sky_check_get_bytes(const sky_check *c, sky_check_get *get, uint64_t offset, const void *data,
                         size_t bytes);
/* `there`: the sky still has the key. A get that sets overtake again and again may miss what is
 * there; that is a miss, and no loss. */
void sky_check_get_ends(sky_check *c, sky_check_get *get, sky_status status, uint64_t bytes,
                        bool there);

void sky_check_waive(sky_check *c, uint32_t key);
/* A satellite that held part of the key's value crashed: a waiver too. */
void sky_check_crashed(sky_check *c, uint32_t key);
/* The sky gave a key up: evicted for room (by_rule), or because a chunk was not to be found. */
void sky_check_taken(sky_check *c, uint32_t key, bool by_rule);

#endif
