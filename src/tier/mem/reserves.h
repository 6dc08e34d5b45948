/* Room in a memory tier for a payload that comes piece by piece, and is put without a copy.
 *
 *   take ──► write to `data` ──► fill ──► put of one span, `data` and all bytes ──► give
 *                                 │
 *                                 └─► nothing is written from here on: others may read it
 *
 * Until that put nobody finds it. Given back without one, the room is free again. All reserves of a
 * tier have an eighth of it at most, so that a writer that stops in the middle keeps no more from
 * others. Thread-safe. */
#ifndef SKY_TIER_MEM_RESERVES_H
#define SKY_TIER_MEM_RESERVES_H

#include "tier/tier.h"

typedef struct {
    uint8_t *data; /* NULL: none */
    uint32_t index;
} sky_memory_reserve;

/* Room for a payload and a name of so many bytes (0: none). It is made as for a put, by evicting.
 * Errors: SKY_E_UNSUPPORTED (the tier is of another kind), SKY_E_FULL */
sky_status sky_memory_reserve_take(sky_tier *tier, uint64_t bytes, uint32_t name_bytes,
                                   sky_memory_reserve *out);
/* All of the payload is there, and its checksum (seed 0) is this. A put without it copies. */
void sky_memory_reserve_fill(sky_tier *tier, const sky_memory_reserve *r, uint64_t checksum);
/* Once, and when no put of it is under way. What was put stays. */
void sky_memory_reserve_give(sky_tier *tier, const sky_memory_reserve *r);

#endif
