/* A tier around a tier that keeps blocks coded.
 *
 *   put   payload ── encode, on a thread of its own ──► inner tier
 *   get   inner tier ── the leading bytes the range needs ── decode ──► caller's spans
 *
 * Only blocks are coded (keys without a name), and only those of the size the codec expects; what
 * it declines is stored as it came. What is read tells whether it is coded: a tier may hold both.
 *
 * Surprises: a get asks the inner tier for the bytes it will most likely need, and once more when
 * that was too little; a pin of the codec is what sky_cache_codec_set waits for. Leases are
 * refused: nothing here lies in memory as the caller wants it. */
#ifndef SKY_TIER_ENCODED_ENCODED_H
#define SKY_TIER_ENCODED_ENCODED_H

#include "tier/encoded/level_set.h"
#include "tier/tier.h"

/* Owner:  inner is this tier's, and closed with it, also when this fails
 * Errors: SKY_E_NOMEM, SKY_E_IO */
sky_status sky_coded_tier_open(sky_tier *inner, const sky_level_set *levels, sky_tier **out);

/* NULL is fine, and so is a tier that is no coded one. Waits for coding under way. */
void sky_coded_tier_set(sky_tier *tier, const sky_block_codec *codec);

/* The tier inside, or the tier itself when it is no coded one. */
sky_tier *sky_coded_tier_inner(sky_tier *tier);

#endif
