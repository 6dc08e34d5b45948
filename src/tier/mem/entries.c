/* The entries of the memory tier: found, shown, used, evicted. Surprise: a reader that finds its
 * list of uses half full tells the index itself, but waits for the mutex only when it is full. */
#include "tier/mem/memory.h"

#include <skymem/keys.h>

/* ---- locks ---- */

void sky__memory_settle(sky__memory *m, sky__stripe *s) {
    for (uint32_t i = 0; i < s->use_count; i++)
        __builtin_prefetch(&m->entries[s->uses[i]].hits, 1);
    for (uint32_t i = 0; i < s->use_count; i++) {
        sky_index_touch(m->index, s->uses[i]);
        m->entries[s->uses[i]].hits++;
    }
    m->counts.hits += s->use_count - s->lease_count;
    m->counts.leases += s->lease_count;
    m->counts.misses += s->misses;
    m->counts.read_bytes += s->read_bytes;
    s->use_count = s->lease_count = 0;
    s->misses = s->read_bytes = 0;
}

void sky__memory_lock(sky__memory *m) {
    sky_mutex_lock(&m->mutex);
    sky__stripes_lock_all(&m->stripes);
    for (uint32_t i = 0; i < m->stripes.count; i++)
        sky__memory_settle(m, &m->stripes.stripes[i]);
    (void)sky__memory_take_uses(m);
}

void sky__memory_unlock(sky__memory *m) {
    sky__stripes_unlock_all(&m->stripes);
    sky_mutex_unlock(&m->mutex);
}

sky__stripe *sky__memory_lock_stripe(sky__memory *m, uint32_t use_count) {
    sky__stripe *s = sky__stripe_lock(&m->stripes);
    if (s->use_count < SKY__STRIPE_USES_MAX / 2)
        return s;
    bool owned = sky_mutex_try_lock(&m->mutex);
    if (!owned && s->use_count + use_count > SKY__STRIPE_USES_MAX) {
        sky__stripe_unlock(s);
        sky_mutex_lock(&m->mutex);
        s = sky__stripe_lock(&m->stripes);
        owned = true;
    }
    if (owned) {
        sky__memory_settle(m, s);
        sky_mutex_unlock(&m->mutex);
    }
    return s;
}
_Static_assert(SKY__MEMORY_GETS_AT_ONCE <= SKY__STRIPE_USES_MAX / 2,
               "half a stripe has room for them");

/* ---- extents ---- */

static uint64_t extent_start(const sky__memory *m, uint32_t extent) {
    return (uint64_t)sky_arena_start(m->arena, extent) * m->unit_bytes;
}

static uint64_t extent_bytes(const sky__memory *m, uint32_t extent) {
    return (uint64_t)sky_arena_units(m->arena, extent) * m->unit_bytes;
}

void sky__memory_hold(sky__memory *m, uint32_t extent) {
    atomic_fetch_add_explicit(&m->refs[extent], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->holds, 1, memory_order_relaxed);
}

/* True when it was the last reference. */
static bool drop_reference(sky__memory *m, uint32_t extent) {
    return atomic_fetch_sub_explicit(&m->refs[extent], 1, memory_order_acq_rel) == 1;
}

/* Nothing refers to it, and nobody keeps it. With the mutex held. */
static void extent_give(sky__memory *m, uint32_t extent) {
    if (m->shared) {
        sky_segments_give(&m->segments, extent_start(m, extent), extent_bytes(m, extent));
        sky__memory_show_segments(m, extent_start(m, extent), extent_bytes(m, extent));
    }
    sky_arena_give(m->arena, extent);
}

/* With the mutex held. False: the machine has no memory for it. */
static bool extent_commit(sky__memory *m, uint32_t extent) {
    if (!m->shared)
        return true;
    uint64_t start = extent_start(m, extent), bytes = extent_bytes(m, extent);
    if (sky_segments_take(&m->segments, start, bytes) != SKY_OK) {
        sky_arena_give(m->arena, extent);
        return false;
    }
    sky__memory_show_segments(m, start, bytes);
    return true;
}

void sky__memory_let_go(sky__memory *m, uint32_t extent) {
    if (drop_reference(m, extent) && !sky__memory_keep(m, extent))
        extent_give(m, extent);
}

void sky__memory_unhold(sky__memory *m, uint32_t extent) {
    bool last = drop_reference(m, extent);
    atomic_fetch_sub_explicit(&m->holds, 1, memory_order_relaxed);
    if (!last)
        return;
    sky_mutex_lock(&m->mutex);
    if (!sky__memory_keep(m, extent))
        extent_give(m, extent);
    sky_mutex_unlock(&m->mutex);
}

void sky__memory_sweep(sky__memory *m) {
    if (m->kept_count == 0)
        return;
    (void)sky_shared_index_survey(m->shown);
    for (uint32_t *at = &m->kept; *at != 0;) {
        const uint32_t extent = *at - 1;
        if (sky_shared_index_seems_kept(m->shown, m->stamps[extent])) {
            at = &m->kept_after[extent];
            continue;
        }
        *at = m->kept_after[extent];
        m->stamps[extent] = 0;
        m->kept_count--;
        extent_give(m, extent);
    }
}

/* ---- blocks whose parent is not here ---- */

static uint32_t *orphan_bucket(sky__memory *m, const sky_key *parent) {
    return &m->orphans[sky_index_hash(m->index, parent) & m->orphan_mask];
}

static void orphan_add(sky__memory *m, uint32_t block) {
    sky__memory_entry *e = &m->entries[block];
    uint32_t *bucket = orphan_bucket(m, &e->parent);
    e->orphan = true;
    e->orphan_before = 0;
    e->orphan_after = *bucket;
    if (*bucket != 0)
        m->entries[*bucket - 1].orphan_before = block + 1;
    *bucket = block + 1;
}

static void orphan_forget(sky__memory *m, uint32_t block) {
    sky__memory_entry *e = &m->entries[block];
    if (!e->orphan)
        return;
    uint32_t before = e->orphan_before, after = e->orphan_after;
    *(before ? &m->entries[before - 1].orphan_after : orphan_bucket(m, &e->parent)) = after;
    if (after != 0)
        m->entries[after - 1].orphan_before = before;
    e->orphan = false;
}

static void orphans_adopt(sky__memory *m, const sky_key *parent) {
    for (uint32_t next, at = *orphan_bucket(m, parent); at != 0; at = next) {
        sky__memory_entry *e = &m->entries[at - 1];
        next = e->orphan_after;
        if (!sky_key_equal(&e->parent, parent))
            continue;
        orphan_forget(m, at - 1);
        /* A circle of parents can only be made by hand; such a block stays alone. */
        (void)sky_index_adopt(m->index, &e->key, parent);
    }
}

/* ---- entries ---- */

static void entry_removed(void *context, uint32_t block, const sky_block_info *info) {
    (void)info;
    sky__memory *m = context;
    orphan_forget(m, block);
    sky__memory_hide(m, block);
    sky__memory_let_go(m, m->entries[block].extent);
}

size_t sky__memory_take_out(sky__memory *m, uint32_t block) {
    return sky_index_remove(m->index, block, entry_removed, m);
}

void sky__memory_take_out_orphans(sky__memory *m, const sky_key *parent) {
    for (uint32_t next, at = *orphan_bucket(m, parent); at != 0; at = next) {
        const sky__memory_entry *e = &m->entries[at - 1];
        next = e->orphan_after;
        if (sky_key_equal(&e->parent, parent))
            sky__memory_take_out(m, at - 1);
    }
}

bool sky__memory_expired(const sky__memory *m, const sky__memory_entry *e) {
    return e->expires_ms != 0 && m->env.clock->wall_ms(m->env.clock) >= e->expires_ms;
}

uint32_t sky__memory_find(const sky__memory *m, const sky_key *key, bool *late) {
    uint32_t block = sky_index_find(m->index, key);
    if (block == SKY_BLOCK_NONE || !sky_key_equal(&m->entries[block].key, key))
        return SKY_BLOCK_NONE;
    bool is_late = sky__memory_expired(m, &m->entries[block]);
    *late |= is_late;
    return is_late ? SKY_BLOCK_NONE : block;
}

void sky__memory_drop_expired(sky__memory *m, const sky_key *key) {
    sky__memory_lock(m);
    uint32_t block = sky_index_find(m->index, key);
    if (block != SKY_BLOCK_NONE && sky__memory_expired(m, &m->entries[block]))
        sky__memory_take_out(m, block);
    sky__memory_unlock(m);
}

const char *sky__memory_name(const sky__memory *m, const sky__memory_entry *e) {
    return e->named ? (const char *)sky__memory_bytes(m, e->extent) + e->payload_bytes : NULL;
}

static void entry_evict(sky__memory *m, uint32_t block) {
    sky__memory_take_out(m, block);
    m->counts.evictions++;
}

/* Evict the least recently used leaf that nobody reads. One that is read counts as used now, so
 * that it comes last of its class, and a class of which all are read leaves it to the next. False
 * when there is none. */
static bool evict_one(sky__memory *m) {
    uint64_t readers = atomic_load_explicit(&m->holds, memory_order_relaxed);
    readers += m->shown ? sky_shared_index_survey(m->shown) : 0;
    for (uint32_t rank = 0; rank < SKY_INDEX_RANKS; rank++) {
        for (uint64_t tries = readers + 1; tries > 0; tries--) {
            uint32_t block = sky_index_victim_of(m->index, rank);
            if (block == SKY_BLOCK_NONE)
                break;
            const uint32_t extent = m->entries[block].extent;
            bool kept = m->shown && sky_shared_index_seems_kept(m->shown, m->stamps[extent]);
            if (atomic_load(&m->refs[extent]) == 1 && !kept) {
                entry_evict(m, block);
                return true;
            }
            sky_index_touch(m->index, block);
        }
    }
    return false;
}

uint64_t sky__memory_units(const sky__memory *m, uint64_t bytes) {
    return bytes > 0 ? bytes / m->unit_bytes + (bytes % m->unit_bytes != 0) : 1;
}

uint32_t sky__memory_make_room(sky__memory *m, uint64_t bytes) {
    uint64_t units = sky__memory_units(m, bytes);
    if (units > m->units)
        return SKY_EXTENT_NONE;
    uint32_t extent;
    sky__memory_sweep(m);
    do
        extent = sky_arena_take(m->arena, (uint32_t)units);
    while (extent == SKY_EXTENT_NONE && evict_one(m));
    if (extent == SKY_EXTENT_NONE || !extent_commit(m, extent))
        return SKY_EXTENT_NONE;
    atomic_store(&m->refs[extent], 1);
    return extent;
}

/* What the index keeps of an entry, whose room is its extent: whole units, with the name. */
static sky_block_info info_of(const sky__memory *m, const sky__memory_entry *e, sky_coding coding) {
    const uint64_t bytes = extent_bytes(m, e->extent);
    return (sky_block_info){.payload_bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX,
                            .set_ms = m->env.clock->wall_ms(m->env.clock),
                            .coding = coding,
                            .evict = e->evict};
}

sky_status sky__memory_publish(sky__memory *m, const sky__memory_entry *new, sky_coding coding) {
    const sky_block_info info = info_of(m, new, coding);
    uint32_t block, old;
    sky_status status;
    do {
        old = sky_index_find(m->index, &new->key);
        if (old != SKY_BLOCK_NONE && !sky_key_equal(&m->entries[old].key, &new->key)) {
            sky__memory_take_out(m, old); /* a key alike in what the index keeps of it */
            old = SKY_BLOCK_NONE;
        }
        status = sky_index_insert(m->index, &new->key, &new->parent, &info, &block);
    } while (status == SKY_E_FULL && evict_one(m));
    if (status != SKY_OK)
        return status;
    if (old != SKY_BLOCK_NONE) { /* pins stay, hits start again */
        orphan_forget(m, block);
        sky__memory_hide(m, block);
        sky__memory_let_go(m, m->entries[block].extent);
    }
    m->entries[block] = *new;
    sky__memory_show(m, block);
    if (!sky_key_is_zero(&new->parent) && sky_index_parent(m->index, block) == SKY_BLOCK_NONE)
        orphan_add(m, block);
    orphans_adopt(m, &new->key);
    sky__memory_show_changes(m, block);
    m->counts.puts++;
    m->counts.written_bytes += new->payload_bytes;
    return SKY_OK;
}
