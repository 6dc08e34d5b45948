/* What of the memory tier other processes find and keep: tier/shared_index.h. Only blocks that do
 * not expire are shown: their payload is the same for good, and nobody has to look at the clock.
 *
 * An entry is hidden before its extent is let go. An extent to which nothing refers any more, and
 * which a process keeps, waits in a list until that lets it go. */
#include <stdlib.h>

#include "tier/mem/memory.h"

#define SHOWN_SHARE 4u /* of the entries, which are made for payloads of 4 KiB: blocks are larger */

_Static_assert(SKY_SEGMENTS_MAX <= SKY_SHARED_SEGMENTS, "each has a generation there");

sky_status sky__memory_show_init(sky__memory *m, uint32_t blocks, uint32_t extents) {
    m->stamps = calloc(extents, sizeof *m->stamps);
    m->kept_after = calloc(extents, sizeof *m->kept_after);
    if (!m->stamps || !m->kept_after)
        return SKY_E_NOMEM;
    return sky_shared_index_create(blocks / SHOWN_SHARE, &m->shown);
}

void sky__memory_show_deinit(sky__memory *m) {
    sky_shared_index_destroy(m->shown);
    free(m->stamps);
    free(m->kept_after);
}

/* ---- blocks ---- */

void sky__memory_show(sky__memory *m, uint32_t block) {
    const sky__memory_entry *e = &m->entries[block];
    if (!m->shown || e->named || e->expires_ms != 0)
        return;
    sky_block_info info;
    sky_index_info(m->index, block, &info);
    const sky_shared_block shown = {.at = (uint64_t)(sky__memory_bytes(m, e->extent) - m->region),
                                    .bytes = e->payload_bytes,
                                    .number = block,
                                    .coding = info.coding,
                                    .evict = info.evict,
                                    .pinned = sky_index_pinned(m->index, block)};
    m->stamps[e->extent] = sky_shared_index_show(m->shown, &e->key, &shown);
}

void sky__memory_hide(sky__memory *m, uint32_t block) {
    const sky__memory_entry *e = &m->entries[block];
    if (m->shown)
        sky_shared_index_hide(m->shown, &e->key, m->stamps[e->extent]);
}

/* True: those above it may have changed too. Of a block that is not shown this is known for the
 * class alone that few have. */
static bool mark_block(sky__memory *m, uint32_t block) {
    const sky__memory_entry *e = &m->entries[block];
    const uint64_t stamp = m->stamps[e->extent];
    sky_block_info info;
    sky_index_info(m->index, block, &info);
    if (stamp == 0)
        return info.evict == SKY_EVICT_LAST;
    return sky_shared_index_mark(m->shown, &e->key, stamp, info.evict,
                                 sky_index_pinned(m->index, block));
}

void sky__memory_show_changes(sky__memory *m, uint32_t block) {
    if (!m->shown || block == SKY_BLOCK_NONE)
        return;
    (void)mark_block(m, block);
    do
        block = sky_index_parent(m->index, block);
    while (block != SKY_BLOCK_NONE && mark_block(m, block));
}

void sky__memory_show_segments(sky__memory *m, uint64_t start, uint64_t bytes) {
    const sky_segments *s = &m->segments;
    uint64_t last = (start + bytes - 1) / s->segment_bytes;
    for (uint64_t i = start / s->segment_bytes; m->shown && i <= last; i++)
        sky_shared_index_segment(m->shown, (uint32_t)i,
                                 s->segments[i].fd < 0 ? 0 : s->segments[i].generation);
}

/* ---- what readers do ---- */

static void block_used(void *context, uint32_t block) {
    sky__memory *m = context;
    sky_index_touch(m->index, block);
    m->entries[block].hits++;
}

bool sky__memory_take_uses(sky__memory *m) {
    uint64_t uses = 0;
    const bool more = m->shown && sky_shared_index_uses(m->shown, block_used, m, &uses);
    m->shown_uses += uses;
    m->counts.leases += uses;
    return more;
}

bool sky__memory_keep(sky__memory *m, uint32_t extent) {
    if (!m->shown || m->stamps[extent] == 0)
        return false;
    if (!sky_shared_index_is_kept(m->shown, m->stamps[extent])) {
        m->stamps[extent] = 0;
        return false;
    }
    m->kept_after[extent] = m->kept;
    m->kept = extent + 1;
    m->kept_count++;
    return true;
}
