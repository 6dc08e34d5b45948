/* What a memory tier of segments holds, handed to the next process that opens one like it, as
 * descriptors of memory: no payload is written for that.
 *
 *   index     | head | row | row | …    a row for each payload, in the order of eviction; it can be
 *                       │                 read once, by whatever process comes first
 *                       └ key, parent, place, checksum, class, end, …
 *   segments  | 0 | 1 |   | 3 | …       as they are; a place is an offset over all of them
 *
 * No process can write to another's segments any more (io/shared.h), so the next one copies what
 * is in them, segment by segment, and lets each go: one of them is there twice at a time. Neither
 * rows nor segments are trusted. A payload that lies nowhere, or is not that of its checksum, is
 * passed over and counted.
 *
 * Where there is no room for all, those that would be evicted last come back.
 *
 * What is not kept: hits, and when a payload was set. */
#ifndef SKY_TIER_MEM_KEPT_H
#define SKY_TIER_MEM_KEPT_H

#include "tier/mem/segments.h"
#include "tier/tier.h"

/* An index of all that is there now. From here on nothing is to be put, until the tier is closed.
 * Owner:  *index is a descriptor of the caller's
 * Errors: SKY_E_UNSUPPORTED (the tier has no segments), SKY_E_NOMEM */
sky_status sky_memory_tier_keep(sky_tier *tier, int *index);

typedef struct {
    int index;
    int segments[SKY_SEGMENTS_MAX]; /* -1: none */
    /* A segment was let go. NULL is fine. */
    void (*gone)(void *context, uint32_t segment);
    void *context;
} sky_memory_kept;

typedef struct {
    uint64_t entries, bytes; /* that are there again */
    uint64_t ended;          /* past their time */
    uint64_t left_out;       /* without room */
    uint64_t lost;           /* wrong in some way */
} sky_memory_restored;

/* Put what was kept into a tier. All descriptors are closed, and the segments gone, whatever is
 * returned.
 * Errors: SKY_E_CORRUPT (what should be the index is none, or was read before), SKY_E_NOMEM */
sky_status sky_memory_tier_restore(sky_tier *tier, const sky_memory_kept *kept,
                                   sky_memory_restored *out);

#endif
