#include "tier/mem/segments.h"

#include <string.h>

#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"

#define SEGMENT_BYTES_MIN ((uint64_t)64 << 20)
#define PAGE_BYTES        4096u

sky_status sky_segments_init(sky_segments *s, uint64_t bytes) {
    uint64_t segment = PAGE_BYTES;
    while (segment < bytes && (segment < SEGMENT_BYTES_MIN || segment * SKY_SEGMENTS_MAX < bytes))
        segment *= 2;
    memset(s, 0, sizeof *s);
    s->segment_bytes = segment;
    s->count = (uint32_t)((bytes + segment - 1) / segment);
    for (uint32_t i = 0; i < s->count; i++)
        s->segments[i].fd = -1;
    s->region_bytes = s->count * segment;
    return sky_pages_reserve(s->region_bytes, (void **)&s->region, NULL);
}

void sky_segments_deinit(sky_segments *s) {
    for (uint32_t i = 0; i < s->count; i++)
        sky_local_close(s->segments[i].fd);
    sky_pages_release(s->region, s->region_bytes);
}

static void segment_leave(sky_segments *s, uint32_t i) {
    if (--s->segments[i].users > 0)
        return;
    /* Where the kernel has no room to unmap it, the segment stays for its next user. */
    if (sky_shared_unmap(s->region + i * s->segment_bytes, s->segment_bytes) != SKY_OK)
        return;
    sky_local_close(s->segments[i].fd);
    s->segments[i].fd = -1;
    s->made_bytes -= s->segment_bytes;
    s->gone++;
}

static sky_status segment_enter(sky_segments *s, uint32_t i) {
    if (s->segments[i].fd < 0) {
        sky_status status = sky_shared_make(s->region + i * s->segment_bytes, s->segment_bytes,
                                            SKY_SHARED_READ, &s->segments[i].fd);
        if (status != SKY_OK)
            return status;
        s->segments[i].generation = ++s->generations;
        s->made_bytes += s->segment_bytes;
    }
    s->segments[i].users++;
    return SKY_OK;
}

sky_status sky_segments_take(sky_segments *s, uint64_t offset, uint64_t bytes) {
    uint32_t first = (uint32_t)(offset / s->segment_bytes);
    uint32_t last = (uint32_t)((offset + bytes - 1) / s->segment_bytes);
    for (uint32_t i = first; i <= last; i++) {
        sky_status status = segment_enter(s, i);
        if (status == SKY_OK)
            continue;
        while (i-- > first)
            segment_leave(s, i);
        return status;
    }
    return SKY_OK;
}

void sky_segments_give(sky_segments *s, uint64_t offset, uint64_t bytes) {
    uint64_t last = (offset + bytes - 1) / s->segment_bytes;
    for (uint64_t i = offset / s->segment_bytes; i <= last; i++)
        segment_leave(s, (uint32_t)i);
}
