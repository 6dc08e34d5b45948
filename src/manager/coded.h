/* A block's payload as a coded value, and back: what the tiers with a level ask of the manager.
 *
 *   | head (64) | the payload's header | .skv of the first stored group | .skv of the next | …
 *
 * Streams stand as the payload's sections do: full-attention groups first, layer by layer, K before
 * V. So the leading range that an older block is read for is a leading range here too, and a get
 * decodes only the streams it touches. Format: docs/formats/block.md, "Coded". */
#ifndef SKY_MANAGER_CODED_H
#define SKY_MANAGER_CODED_H

#include <stdatomic.h>

#include <skymem/cache.h>
#include <skymem/codec.h>

#include "manager/payload.h"

#define SKY_CODED_MAGIC      0x4c564b53u /* "SKVL"; not a container's, which may be a value too */
#define SKY_CODED_VERSION    1
#define SKY_CODED_HEAD_BYTES 64u

/* Read-only while a cache has it; `codec.self` points here. A value that was coded with another
 * calibration is a miss to it: it is sound, and of no use here. */
typedef struct {
    sky_block_codec codec;
    sky_payload payload;        /* of every block */
    const sky_profile *profile; /* NULL: none */
    uint32_t layer_count;
    uint32_t *layer_of;    /* [row_sets] of a section in stored order: layer in the layout's */
    sky_skv_layer *layers; /* [layer_count], in the layout's order */
    uint64_t section_max;  /* bytes of the longest section */
    atomic_uint *foreign;  /* counts values that are coded with another calibration, or in a way
                              that is not known here; NULL: nobody counts */
} sky_coded;

/* Owner:  profile stays the caller's and must outlive *out; sky_coded_deinit frees the rest
 * Errors: SKY_E_UNSUPPORTED (a layout the codec has no shape for, or the profile is of another),
 *         SKY_E_NOMEM */
sky_status sky_coded_init(sky_coded *out, const sky_payload *payload, const sky_profile *profile);
void sky_coded_deinit(sky_coded *c);

/* How a value says it is coded, unchecked; 0: it is stored as it came. */
sky_coding sky_coded_coding(const void *data, uint64_t bytes);

#endif
