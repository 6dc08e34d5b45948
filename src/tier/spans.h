/* Moving bytes between a payload and a caller's spans; the rules of ranges. */
#ifndef SKY_TIER_SPANS_H
#define SKY_TIER_SPANS_H

#include <skymem/cache.h>

/* Bytes the spans hold, those with data == NULL included; UINT64_MAX when that is beyond
 * counting. */
uint64_t sky_spans_bytes(const sky_span *spans, uint32_t span_count);

/* What a get of `range` from a payload means: {0, 0} is all of it, and the end is where the payload
 * ends at the latest.
 * Errors: SKY_E_PARAM when the range starts past the end */
sky_status sky_range_resolve(sky_range range, uint64_t payload_bytes, sky_range *out);

/* Copy `bytes` bytes of `src` into the spans, passing over those with data == NULL.
 * The spans hold at least `bytes`. */
void sky_spans_scatter(const sky_span *spans, uint32_t span_count, const void *src, uint64_t bytes);

#endif
