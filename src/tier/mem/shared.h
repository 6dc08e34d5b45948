/* A memory tier for who sends payloads of it elsewhere, and one whose region other processes may be
 * shown: mem:SIZE?shared=yes. */
#ifndef SKY_TIER_MEM_SHARED_H
#define SKY_TIER_MEM_SHARED_H

#include "tier/tier.h"

typedef struct {
    const uint8_t *region; /* payloads lie in it, whole, across segments */
    uint64_t region_bytes;
    uint64_t segment_bytes;
    uint32_t segment_count;
} sky_arena_view;

/* The checksum (seed 0) that the tier keeps of a payload that was leased. False: it does not tell,
 * since `view` is not all of what is stored under the key now, or the tier is of another kind. */
bool sky_memory_tier_checksum(sky_tier *tier, const sky_key *key, const sky_span *view,
                              uint64_t *out);

/* False: this is no such tier. */
bool sky_memory_tier_arena(const sky_tier *tier, sky_arena_view *out);

/* The descriptor of a segment, and its generation, from 1 on; -1 and 0: there is none now. It
 * stays as long as a lease on a payload in it is out; without one the descriptor may be closed at
 * any time. */
int sky_memory_tier_segment(sky_tier *tier, uint32_t index, uint64_t *generation);

/* Bytes of the segments there are now, and how many were given back so far. */
void sky_memory_tier_segments(sky_tier *tier, uint64_t *bytes, uint64_t *gone);

#endif
