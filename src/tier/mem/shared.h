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

/* One more process may find and keep what lies in the arena (tier/shared_index.h).
 * Owner:  *index stays the tier's, *page is the caller's; both are to be sent to that process
 * Errors: SKY_E_UNSUPPORTED (the tier is not shared), SKY_E_BUSY (there are too many),
 *         SKY_E_NOMEM */
sky_status sky_memory_tier_join(sky_tier *tier, uint32_t *reader, int *index, int *page);
/* It finds nothing from now on. True: it keeps something still. */
bool sky_memory_tier_end(sky_tier *tier, uint32_t reader);
/* It is gone, or it was ended and kept nothing then. */
void sky_memory_tier_leave(sky_tier *tier, uint32_t reader);
/* Free what such processes let go, and count what they used: *uses so far; *more: not all of it was
 * looked at. True: they keep payloads that are gone from the tier, whose room is free when they let
 * go. */
bool sky_memory_tier_sweep(sky_tier *tier, uint64_t *uses, bool *more);
/* How many payloads they keep now. */
uint32_t sky_memory_tier_kept(sky_tier *tier);

/* Bytes of the segments there are now, and how many were given back so far. */
void sky_memory_tier_segments(sky_tier *tier, uint64_t *bytes, uint64_t *gone);

#endif
