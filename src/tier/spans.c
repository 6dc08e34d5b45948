#include "tier/spans.h"

#include <assert.h>
#include <string.h>

uint64_t sky_spans_bytes(const sky_span *spans, uint32_t span_count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < span_count; i++)
        if (__builtin_add_overflow(bytes, spans[i].bytes, &bytes))
            return UINT64_MAX;
    return bytes;
}

sky_status sky_range_resolve(sky_range range, uint64_t payload_bytes, sky_range *out) {
    if (range.offset > payload_bytes)
        return SKY_E_PARAM;
    uint64_t left = payload_bytes - range.offset;
    bool all = range.offset == 0 && range.bytes == 0;
    *out = (sky_range){range.offset, all || range.bytes > left ? left : range.bytes};
    return SKY_OK;
}

void sky_spans_scatter(const sky_span *spans, uint32_t span_count, const void *src,
                       uint64_t bytes) {
    const uint8_t *from = src;
    for (uint32_t i = 0; i < span_count && bytes > 0; i++) {
        size_t piece = spans[i].bytes < bytes ? spans[i].bytes : (size_t)bytes;
        if (spans[i].data)
            memcpy(spans[i].data, from, piece);
        from += piece;
        bytes -= piece;
    }
    assert(bytes == 0);
}
