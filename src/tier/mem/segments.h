/* The memory behind a region, as segments that can be lent to other processes (io/shared.h).
 *
 *   region | segment 0 | segment 1 |  none  | segment 3 | …   each made when the first extent in it
 *                                                            is taken, and gone with the last
 *
 * A segment that was given back and made again is another one: its generation is higher.
 * Not thread-safe: it lies under its user's lock. */
#ifndef SKY_TIER_MEM_SEGMENTS_H
#define SKY_TIER_MEM_SEGMENTS_H

#include <skymem/types.h>

#define SKY_SEGMENTS_MAX 64u

typedef struct {
    uint8_t *region;
    uint64_t region_bytes;  /* whole segments */
    uint64_t segment_bytes; /* a power of two, at least 4 KiB */
    uint32_t count;
    uint64_t made_bytes;  /* of segments there are now */
    uint64_t generations; /* made so far */
    uint64_t gone;        /* given back so far */
    struct {
        int fd; /* -1: none */
        uint64_t generation;
        uint32_t users; /* extents that lie in it, whole or in part */
    } segments[SKY_SEGMENTS_MAX];
} sky_segments;

/* Errors: SKY_E_NOMEM */
sky_status sky_segments_init(sky_segments *s, uint64_t bytes);
/* Fine on one that is all zeros. */
void sky_segments_deinit(sky_segments *s);

/* An extent is taken: make the segments it lies in. Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED; nothing
 * is changed then */
sky_status sky_segments_take(sky_segments *s, uint64_t offset, uint64_t bytes);
/* It is given back, and so are segments that nobody uses any more. */
void sky_segments_give(sky_segments *s, uint64_t offset, uint64_t bytes);

#endif
