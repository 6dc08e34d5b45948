#include "tier/mem/reserves.h"

#include "tier/mem/memory.h"

#define SHARE 8u /* of the region: what reserves may take */

/* With the mutex held; NULL: all are taken. */
static sky__memory_reserve *free_reserve(sky__memory *m) {
    for (uint32_t i = 0; i < SKY__MEMORY_RESERVES_MAX; i++)
        if (m->reserves[i].room == 0)
            return &m->reserves[i];
    return NULL;
}

sky_status sky_memory_reserve_take(sky_tier *tier, uint64_t bytes, uint32_t name_bytes,
                                   sky_memory_reserve *out) {
    sky__memory *m = sky__memory_of(tier);
    if (!m)
        return SKY_E_UNSUPPORTED;
    const uint64_t room = bytes + name_bytes + 1;
    uint32_t extent = SKY_EXTENT_NONE;
    sky__memory_lock(m);
    sky__memory_reserve *r = free_reserve(m);
    if (r && bytes <= SKY_PAYLOAD_BYTES_MAX && room <= m->region_bytes / SHARE - m->reserved_bytes)
        extent = sky__memory_make_room(m, room);
    if (extent != SKY_EXTENT_NONE) {
        *r = (sky__memory_reserve){.extent = extent, .room = room, .payload_bytes = bytes};
        m->reserved_bytes += room;
        *out = (sky_memory_reserve){sky__memory_bytes(m, extent), (uint32_t)(r - m->reserves)};
    }
    sky__memory_unlock(m);
    return extent != SKY_EXTENT_NONE ? SKY_OK : SKY_E_FULL;
}

void sky_memory_reserve_fill(sky_tier *tier, const sky_memory_reserve *r, uint64_t checksum) {
    sky__memory *m = sky__memory_of(tier);
    sky_mutex_lock(&m->mutex);
    m->reserves[r->index].checksum = checksum;
    m->reserves[r->index].filled = true;
    sky_mutex_unlock(&m->mutex);
}

void sky_memory_reserve_give(sky_tier *tier, const sky_memory_reserve *r) {
    sky__memory *m = sky__memory_of(tier);
    sky_mutex_lock(&m->mutex);
    const sky__memory_reserve was = m->reserves[r->index];
    m->reserves[r->index].room = 0;
    m->reserved_bytes -= was.room;
    if (!was.claimed)
        sky__memory_let_go(m, was.extent);
    sky_mutex_unlock(&m->mutex);
    if (was.claimed)
        sky__memory_unhold(m, was.extent);
}

bool sky__memory_claim(sky__memory *m, const sky_item *item, sky__memory_entry *new) {
    const uint8_t *data = item->span_count == 1 ? item->spans->data : NULL;
    bool found = false;
    if (!data || data < m->region || data >= m->region + m->region_bytes)
        return false;
    sky_mutex_lock(&m->mutex);
    for (uint32_t i = 0; i < SKY__MEMORY_RESERVES_MAX && !found; i++) {
        sky__memory_reserve *r = &m->reserves[i];
        found = r->room > 0 && r->filled && !r->claimed && r->payload_bytes == item->spans->bytes &&
                r->payload_bytes + item->name_bytes < r->room &&
                data == sky__memory_bytes(m, r->extent);
        if (!found)
            continue;
        r->claimed = true;
        sky__memory_hold(m, r->extent); /* the first reference is then the entry's */
        new->extent = r->extent;
        new->checksum = r->checksum;
    }
    sky_mutex_unlock(&m->mutex);
    return found;
}
