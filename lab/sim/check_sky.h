/* What the sky holds, against what the index on the ground says: copies, bounds, agreement. Looks
 * from outside, at samples; what answers show is sim/check.h's. */
#ifndef SKY_LAB_SIM_CHECK_SKY_H
#define SKY_LAB_SIM_CHECK_SKY_H

#include "sim/world.h"

typedef struct {
    uint32_t row_chunks;  /* most chunks of one block on one satellite */
    uint32_t column_rows; /* satellites that give chunks away at a turn */
    uint64_t samples;
    bool copies_kept;    /* each chunk the index names lies somewhere, whole */
    bool memory_bounded; /* no satellite holds more than its memory */
    bool queues_bounded; /* no more messages wait or fly than there may */
    bool redundancy;     /* what was lost of the copies of a chunk was back in `repair_ns` */
    uint32_t copies;     /* there should be of each chunk */
    sky_time repair_ns;
    bool parity; /* pieces that were lost were back in `mend_ns` */
    sky_time mend_ns;
    bool agrees; /* what no block owns, or owns and lacks, is explained by what went wrong */
    uint64_t block_chunks;  /* of a value, with its copies and parity, at most */
    uint32_t block_numbers; /* of a value's chunks and parity are not higher than this */
} sky_check_sky;

/* What may have taken chunks, or left some behind, so far. */
typedef struct {
    bool chaos;              /* liars, or something cut off or frozen of late: no judgement */
    bool settled;            /* nothing is under way */
    uint64_t crashed_chunks; /* that lay in satellites that crashed */
    uint64_t crashed_heads;  /* those of them that are heads */
    sky_time quiet_ns;       /* since the last one crashed and was back */
} sky_check_sky_waiver;

void sky_check_sky_init(sky_check_sky *c, const sky_scenario *scenario);
/* Errors: SKY_E_NOMEM: nothing was judged */
sky_status sky_check_sky_sample(sky_check_sky *c, const sky_world *w,
                                const sky_check_sky_waiver *waiver);

/* Does chunk 1 of a block that a ground just put begin where the rule of its placement says,
 * computed here from the scenario's own numbers? True also where there is no such rule
 * (predictive), or no such block. */
bool sky_check_placed(const sky_world *w, uint32_t ground, const sky_scenario *s,
                      const sky_key *key);

#endif
