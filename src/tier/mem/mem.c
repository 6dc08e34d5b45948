/* The memory tier: payloads in one region of this process, copied inside submit.
 *
 *   index ──► block number ──► entries[block] ──► extent ──► region  | payload | name NUL |
 *   (keys, LRU, pins, tree)    (32-byte key, …)   refs[extent]
 *
 * Ownership: an extent is free when nobody refers to it. The entry that shows it is one reference,
 * and each copy under way and each lease is one more. So removing or
 * replacing an entry never takes bytes from under a reader: the last one to let go frees them.
 * Eviction passes over entries with readers, as freeing those would make no room.
 *
 * Concurrency: the mutex guards all but the bytes of payloads. Those are written before their entry
 * is published and never after, so that copies need no lock, only a reference.
 *
 * Surprises:
 *  - A batch is opened without its deadline: submit looks at the clock before each item instead. So
 *    no other thread can end the batch while submit works on the items, and none needs guarding.
 *  - Blocks arrive in any order when farther tiers answer. A child that comes before its parent
 *    waits in `orphans`, hashed by the parent it lacks, and is adopted when that comes.
 *  - The checksum is taken while a payload is copied in, and looked at only by verify: what is in
 *    memory goes bad through a stray write, such as one through a lease. */
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/index.h>
#include <skymem/keys.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/clock.h"
#include "io/pages.h"
#include "io/sync.h"
#include "tier/batch.h"
#include "tier/spans.h"
#include "tier/tier.h"
#include "tier/url.h"

#define UNIT_BYTES_MIN   64u
#define REGION_BYTES_MIN (64u << 10)
#define REGION_BYTES_MAX (UINT64_C(1) << 46)
/* One entry for each 4 KiB of the region, within these bounds. An entry takes about 200 bytes
 * beside the region once it is used: 5 % of SIZE if payloads average 4 KiB, nothing to speak of for
 * blocks. */
#define ENTRY_SHARE_BYTES 4096u
#define ENTRIES_MIN       (1u << 10)
#define ENTRIES_MAX       (1u << 24)
#define LEASES_MAX        (1u << 16)
#define COPY_BYTES        (128u << 10) /* checksummed while still in the core's cache */
#define GETS_AT_ONCE      32

typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t checksum;
    uint64_t hits;
    int64_t expires_ms; /* wall; 0: never */
    uint32_t extent;
    uint32_t payload_bytes;
    uint32_t orphan_before; /* in the bucket of `parent`: block + 1, 0: none */
    uint32_t orphan_after;
    uint16_t name_bytes;
    bool named;
    bool orphan;
} entry;

typedef struct {
    uint32_t extent; /* SKY_EXTENT_NONE: not lent */
    uint32_t generation;
    uint32_t next_free;
} lease;

typedef struct {
    sky_tier tier;
    sky_tier_env env;
    sky_mutex mutex;

    uint8_t *region;
    uint64_t region_bytes;
    uint32_t unit_bytes;
    uint32_t units;
    sky_arena *arena;
    _Atomic uint32_t *refs;    /* [extents] */
    uint64_t holds;            /* references besides those of entries: taken so far … */
    _Atomic uint64_t releases; /* … and given back, without the mutex */

    sky_index *index;
    entry *entries;    /* [blocks] */
    uint32_t *orphans; /* [buckets], by hash of the missing parent: first block + 1, 0: none */
    uint32_t orphan_mask;

    lease *leases; /* [LEASES_MAX] */
    uint32_t leases_touched;
    uint32_t lease_free; /* SKY_BLOCK_NONE: none but those never touched */

    sky_tier_stat stat;    /* the counters, url and note; the rest is filled when asked */
    _Atomic uint64_t late; /* answers past their deadline, of no batch */
} memory;

static memory *memory_of(sky_tier *tier) {
    return (memory *)tier;
}

/* ---- extents ---- */

static uint8_t *bytes_of(const memory *m, uint32_t extent) {
    return m->region + (uint64_t)sky_arena_start(m->arena, extent) * m->unit_bytes;
}

/* With the mutex held, as the entry that shows it must not go meanwhile. */
static void hold(memory *m, uint32_t extent) {
    atomic_fetch_add_explicit(&m->refs[extent], 1, memory_order_relaxed);
    m->holds++;
}

/* True when it was the last reference. */
static bool drop_reference(memory *m, uint32_t extent) {
    return atomic_fetch_sub_explicit(&m->refs[extent], 1, memory_order_acq_rel) == 1;
}

/* With the mutex held. */
static void let_go(memory *m, uint32_t extent) {
    if (drop_reference(m, extent))
        sky_arena_give(m->arena, extent);
}

/* Without the mutex, which only the last one to let go of an entry that is gone needs. */
static void unhold(memory *m, uint32_t extent) {
    bool last = drop_reference(m, extent);
    atomic_fetch_add_explicit(&m->releases, 1, memory_order_relaxed);
    if (!last)
        return;
    sky_mutex_lock(&m->mutex);
    sky_arena_give(m->arena, extent);
    sky_mutex_unlock(&m->mutex);
}

/* ---- blocks whose parent is not here ---- */

static uint32_t *orphan_bucket(memory *m, const sky_key *parent) {
    return &m->orphans[sky_load_u32(parent->bytes) & m->orphan_mask];
}

static void orphan_add(memory *m, uint32_t block) {
    entry *e = &m->entries[block];
    uint32_t *bucket = orphan_bucket(m, &e->parent);
    e->orphan = true;
    e->orphan_before = 0;
    e->orphan_after = *bucket;
    if (*bucket != 0)
        m->entries[*bucket - 1].orphan_before = block + 1;
    *bucket = block + 1;
}

static void orphan_forget(memory *m, uint32_t block) {
    entry *e = &m->entries[block];
    if (!e->orphan)
        return;
    uint32_t before = e->orphan_before, after = e->orphan_after;
    *(before ? &m->entries[before - 1].orphan_after : orphan_bucket(m, &e->parent)) = after;
    if (after != 0)
        m->entries[after - 1].orphan_before = before;
    e->orphan = false;
}

static void orphans_adopt(memory *m, const sky_key *parent) {
    for (uint32_t next, at = *orphan_bucket(m, parent); at != 0; at = next) {
        entry *e = &m->entries[at - 1];
        next = e->orphan_after;
        if (!sky_key_equal(&e->parent, parent))
            continue;
        orphan_forget(m, at - 1);
        /* A circle of parents can only be made by hand; such a block stays alone. */
        (void)sky_index_adopt(m->index, &e->key, parent);
    }
}

/* ---- entries ---- */

static void removed(void *context, uint32_t block, const sky_block_info *info) {
    (void)info;
    memory *m = context;
    orphan_forget(m, block);
    let_go(m, m->entries[block].extent);
}

/* Take out a block and all that it makes reachable. */
static size_t take_out(memory *m, uint32_t block) {
    return sky_index_remove(m->index, block, removed, m);
}

static bool expired(const memory *m, const entry *e) {
    return e->expires_ms != 0 && m->env.clock->wall_ms(m->env.clock) >= e->expires_ms;
}

/* The block of a key, SKY_BLOCK_NONE when it is absent; what is past its time goes now. */
static uint32_t find(memory *m, const sky_key *key) {
    uint32_t block = sky_index_find(m->index, key);
    if (block == SKY_BLOCK_NONE || !sky_key_equal(&m->entries[block].key, key))
        return SKY_BLOCK_NONE;
    if (!expired(m, &m->entries[block]))
        return block;
    take_out(m, block);
    return SKY_BLOCK_NONE;
}

static const char *name_of(const memory *m, const entry *e) {
    return e->named ? (const char *)bytes_of(m, e->extent) + e->payload_bytes : NULL;
}

static void evict(memory *m, uint32_t block) {
    take_out(m, block);
    m->stat.evictions++;
}

/* Evict the least recently used leaf that nobody reads. One that is read counts as used now.
 * False when there is none. */
static bool evict_one(memory *m) {
    uint64_t readers = m->holds - atomic_load_explicit(&m->releases, memory_order_relaxed);
    for (uint64_t tries = readers + 1; tries > 0; tries--) {
        uint32_t block = sky_index_victim(m->index);
        if (block == SKY_BLOCK_NONE)
            return false;
        if (atomic_load(&m->refs[m->entries[block].extent]) == 1) {
            evict(m, block);
            return true;
        }
        sky_index_touch(m->index, block);
    }
    return false;
}

/* ---- put ---- */

static uint32_t make_room(memory *m, uint64_t bytes) {
    uint64_t units = bytes / m->unit_bytes + (bytes % m->unit_bytes != 0);
    if (units > m->units)
        return SKY_EXTENT_NONE;
    uint32_t extent;
    do
        extent = sky_arena_take(m->arena, units ? (uint32_t)units : 1);
    while (extent == SKY_EXTENT_NONE && evict_one(m));
    if (extent != SKY_EXTENT_NONE)
        atomic_store(&m->refs[extent], 1);
    return extent;
}

/* Copy the spans in and return their checksum. */
static uint64_t copy_in(uint8_t *to, const sky_span *spans, uint32_t span_count) {
    sky_checksum_state sum;
    sky_checksum_init(&sum, 0);
    for (uint32_t i = 0; i < span_count; i++) {
        const uint8_t *from = spans[i].data;
        for (size_t left = spans[i].bytes; left > 0;) {
            size_t piece = left < COPY_BYTES ? left : COPY_BYTES;
            memcpy(to, from, piece);
            sky_checksum_add(&sum, to, piece);
            to += piece;
            from += piece;
            left -= piece;
        }
    }
    return sky_checksum_end(&sum);
}

static sky_status check_put(const sky_item *item, const sky_call *call, uint64_t bytes) {
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return SKY_E_PARAM;
    bool bad_name = item->name && (item->name_bytes == 0 || item->name_bytes > SKY_NAME_BYTES_MAX);
    bool own_parent = sky_key_equal(&item->key, &item->parent);
    if (bytes > SKY_PAYLOAD_BYTES_MAX || bad_name || own_parent || call->coding > 15)
        return SKY_E_PARAM;
    return SKY_OK;
}

/* Show a finished entry; it takes over the reference to its extent. Errors: SKY_E_FULL */
static sky_status publish(memory *m, const entry *new, sky_coding coding) {
    sky_block_info info = {.payload_bytes = new->payload_bytes,
                           .set_ms = m->env.clock->wall_ms(m->env.clock),
                           .coding = coding};
    uint32_t block, old;
    sky_status status;
    do {
        old = sky_index_find(m->index, &new->key);
        if (old != SKY_BLOCK_NONE && !sky_key_equal(&m->entries[old].key, &new->key)) {
            take_out(m, old); /* a key alike in what the index keeps of it */
            old = SKY_BLOCK_NONE;
        }
        status = sky_index_insert(m->index, &new->key, &new->parent, &info, &block);
    } while (status == SKY_E_FULL && evict_one(m));
    if (status != SKY_OK)
        return status;
    if (old != SKY_BLOCK_NONE) { /* pins stay, hits start again */
        orphan_forget(m, block);
        let_go(m, m->entries[block].extent);
    }
    m->entries[block] = *new;
    if (!sky_key_is_zero(&new->parent) && sky_index_parent(m->index, block) == SKY_BLOCK_NONE)
        orphan_add(m, block);
    orphans_adopt(m, &new->key);
    m->stat.puts++;
    return SKY_OK;
}

static sky_status put(memory *m, const sky_item *item, const sky_call *call, uint64_t *bytes) {
    uint64_t payload_bytes = sky_spans_bytes(item->spans, item->span_count);
    sky_status status = check_put(item, call, payload_bytes);
    if (status != SKY_OK)
        return status;
    sky_mutex_lock(&m->mutex);
    uint32_t extent = make_room(m, payload_bytes + (item->name ? item->name_bytes + 1 : 0));
    sky_mutex_unlock(&m->mutex);
    if (extent == SKY_EXTENT_NONE)
        return SKY_E_FULL;
    uint8_t *to = bytes_of(m, extent);
    entry new = {.key = item->key,
                 .parent = item->parent,
                 .checksum = copy_in(to, item->spans, item->span_count),
                 .extent = extent,
                 .payload_bytes = (uint32_t)payload_bytes};
    if (item->name) {
        memcpy(to + payload_bytes, item->name, item->name_bytes);
        to[payload_bytes + item->name_bytes] = 0;
        new.named = true;
        new.name_bytes = (uint16_t)item->name_bytes;
    }
    if (call->ttl_s != 0)
        new.expires_ms = m->env.clock->wall_ms(m->env.clock) + (int64_t)call->ttl_s * 1000;
    sky_mutex_lock(&m->mutex);
    status = publish(m, &new, call->coding);
    if (status != SKY_OK)
        let_go(m, extent);
    sky_mutex_unlock(&m->mutex);
    *bytes = payload_bytes;
    return status;
}

/* ---- get, lease ---- */

/* The entry of a key; NULL and a miss when it is absent. */
static entry *seek(memory *m, const sky_key *key) {
    uint32_t block = find(m, key);
    m->stat.misses += block == SKY_BLOCK_NONE;
    return block == SKY_BLOCK_NONE ? NULL : &m->entries[block];
}

/* How the payload is coded, and how long it is still kept. */
static void tell(const memory *m, const entry *e, sky_item *item) {
    sky_block_info info;
    sky_index_info(m->index, (uint32_t)(e - m->entries), &info);
    item->coding = info.coding;
    if (e->expires_ms != 0) {
        int64_t left_ms = e->expires_ms - m->env.clock->wall_ms(m->env.clock);
        int64_t left_s = left_ms > 0 ? (left_ms + 999) / 1000 : 1;
        item->ttl_s = left_s < UINT32_MAX ? (uint32_t)left_s : UINT32_MAX;
    }
}

/* An answer is about to be given: it counts as a use, and its bytes are held. */
static void serve(memory *m, entry *e, sky_item *item) {
    sky_index_touch(m->index, (uint32_t)(e - m->entries));
    m->stat.hits++;
    e->hits++;
    hold(m, e->extent);
    tell(m, e, item);
}

/* What a get is to copy: held, unless bytes is 0. */
typedef struct {
    uint32_t extent;
    sky_range range;
} copy;

/* Find an item's payload and hold it. With the mutex held. */
static sky_status find_copy(memory *m, sky_item *item, copy *out) {
    uint64_t room = sky_spans_bytes(item->spans, item->span_count);
    entry *e = seek(m, &item->key);
    sky_status status = e ? sky_range_resolve(item->range, e->payload_bytes, &out->range)
                          : SKY_MISS;
    if (status == SKY_OK && out->range.bytes > room)
        status = SKY_E_DST_SMALL;
    if (status == SKY_OK) {
        serve(m, e, item);
        out->extent = e->extent;
    }
    return status;
}

/* At most GETS_AT_ONCE: the mutex is taken once for all of them, and not held while they copy. */
static void get_some(memory *m, sky_item *items, size_t count) {
    copy copies[GETS_AT_ONCE];
    sky_mutex_lock(&m->mutex);
    for (size_t i = 0; i < count; i++)
        items[i].status = find_copy(m, &items[i], &copies[i]);
    sky_mutex_unlock(&m->mutex);
    for (size_t i = 0; i < count; i++) {
        if (items[i].status != SKY_OK)
            continue;
        const uint8_t *from = bytes_of(m, copies[i].extent) + copies[i].range.offset;
        sky_spans_scatter(items[i].spans, items[i].span_count, from, copies[i].range.bytes);
        unhold(m, copies[i].extent);
        items[i].bytes = copies[i].range.bytes;
    }
}

/* A lease's id is generation << 16 | number: below 2^48, never 0. */
static uint32_t lease_take(memory *m) {
    uint32_t n = m->lease_free;
    if (n != SKY_BLOCK_NONE) {
        m->lease_free = m->leases[n].next_free;
        return n;
    }
    if (m->leases_touched == LEASES_MAX)
        return SKY_BLOCK_NONE;
    m->leases[m->leases_touched].generation = 1;
    return m->leases_touched++;
}

static sky_status lend(memory *m, sky_item *item, uint64_t *bytes) {
    sky_mutex_lock(&m->mutex);
    sky_status status = SKY_MISS;
    entry *e = seek(m, &item->key);
    if (!e)
        goto cleanup;
    uint32_t n = lease_take(m);
    status = SKY_E_BUSY;
    if (n == SKY_BLOCK_NONE)
        goto cleanup;
    serve(m, e, item);
    item->parent = e->parent;
    item->name = name_of(m, e);
    item->name_bytes = e->name_bytes;
    m->leases[n].extent = e->extent;
    item->view = (sky_span){bytes_of(m, e->extent), e->payload_bytes};
    item->lease = (sky_lease){(uint64_t)m->leases[n].generation << 16 | n};
    *bytes = e->payload_bytes;
    status = SKY_OK;
cleanup:
    sky_mutex_unlock(&m->mutex);
    return status;
}

static void memory_release(sky_tier *tier, sky_lease id) {
    memory *m = memory_of(tier);
    uint32_t n = (uint32_t)(id.id & (LEASES_MAX - 1)), extent = SKY_EXTENT_NONE;
    sky_mutex_lock(&m->mutex);
    lease *l = &m->leases[n];
    if (n < m->leases_touched && l->extent != SKY_EXTENT_NONE && l->generation == id.id >> 16) {
        extent = l->extent;
        l->extent = SKY_EXTENT_NONE;
        l->generation = l->generation == UINT32_MAX ? 1 : l->generation + 1;
        l->next_free = m->lease_free;
        m->lease_free = n;
    }
    sky_mutex_unlock(&m->mutex);
    if (extent != SKY_EXTENT_NONE)
        unhold(m, extent);
}

/* ---- what needs no copy ---- */

static sky_status look(memory *m, sky_op op, sky_item *item, uint64_t *bytes) {
    sky_mutex_lock(&m->mutex);
    uint32_t block = find(m, &item->key);
    sky_status status = block == SKY_BLOCK_NONE ? SKY_MISS : SKY_OK;
    if (status == SKY_OK && op == SKY_OP_HAS) {
        *bytes = m->entries[block].payload_bytes;
        item->pinned = sky_index_pinned(m->index, block);
        tell(m, &m->entries[block], item);
    } else if (status == SKY_OK && op == SKY_OP_REMOVE) {
        take_out(m, block);
    } else if (status == SKY_OK && op == SKY_OP_PREFETCH) {
        sky_index_touch(m->index, block);
    } else if (status == SKY_OK && op == SKY_OP_PIN && !sky_index_pinned(m->index, block)) {
        status = sky_index_pin(m->index, block);
    } else if (status == SKY_OK && op == SKY_OP_UNPIN) {
        status = sky_index_unpin(m->index, block);
    }
    sky_mutex_unlock(&m->mutex);
    return status;
}

static sky_status run_item(memory *m, sky_op op, sky_item *item, const sky_call *call) {
    if (op == SKY_OP_PUT)
        return put(m, item, call, &item->bytes);
    return op == SKY_OP_LEASE ? lend(m, item, &item->bytes) : look(m, op, item, &item->bytes);
}

static bool is_late(const memory *m, const sky_call *call) {
    return call->deadline_ns != 0 && m->env.clock->now(m->env.clock) >= call->deadline_ns;
}

/* Answer items [0, count): several gets, or one of anything else. */
static void answer_some(memory *m, sky_op op, sky_item *items, size_t count, const sky_call *call) {
    bool late = is_late(m, call);
    for (size_t i = 0; i < count; i++) {
        items[i].bytes = 0;
        items[i].coding = 0;
        items[i].ttl_s = 0;
        items[i].pinned = false;
        items[i].status = SKY_E_DEADLINE;
    }
    if (!late && op == SKY_OP_GET)
        get_some(m, items, count);
    else if (!late)
        items->status = run_item(m, op, items, call);
    for (size_t i = 0; i < count; i++)
        items[i].tier = items[i].status == SKY_OK ? m->env.index : SKY_TIER_NONE;
}

static void memory_answer(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                          const sky_call *call) {
    memory *m = memory_of(tier);
    size_t most = op == SKY_OP_GET ? GETS_AT_ONCE : 1;
    for (size_t i = 0, step; i < item_count; i += step) {
        step = item_count - i < most ? item_count - i : most;
        answer_some(m, op, items + i, step, call);
        if (items[i].status == SKY_E_DEADLINE)
            atomic_fetch_add(&m->late, step);
    }
}

static sky_status memory_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, sky_batch *out) {
    memory *m = memory_of(tier);
    sky_batch batch;
    sky_status status = sky_batches_open(m->tier.batches, items, item_count, 0, &batch);
    if (status != SKY_OK)
        return status;
    for (size_t i = 0; i < item_count; i++) {
        sky_item answer = items[i];
        answer_some(m, op, &answer, 1, call);
        items[i].view = answer.view;
        items[i].lease = answer.lease;
        const sky_answer told = {.status = answer.status,
                                 .bytes = answer.bytes,
                                 .tier = answer.tier,
                                 .coding = answer.coding,
                                 .ttl_s = answer.ttl_s,
                                 .pinned = answer.pinned};
        sky_batches_answer(m->tier.batches, batch, i, &told);
    }
    *out = batch;
    return SKY_OK;
}

/* ---- list, verify, stat ---- */

/* A copy of an entry, its extent held: what it points to stays. */
typedef struct {
    uint32_t block; /* SKY_BLOCK_NONE: none */
    entry entry;
    int64_t set_ms;
    sky_coding coding;
    bool pinned;
} glimpse;

/* Let go of the entry in *g, if any, and take hold of the next at or after `block`. */
static void step(memory *m, glimpse *g, uint32_t block) {
    if (g->block != SKY_BLOCK_NONE)
        unhold(m, g->entry.extent);
    sky_mutex_lock(&m->mutex);
    block = sky_index_next(m->index, block);
    while (block != SKY_BLOCK_NONE && expired(m, &m->entries[block]))
        block = sky_index_next(m->index, block + 1);
    g->block = block;
    if (block != SKY_BLOCK_NONE) {
        sky_block_info info;
        sky_index_info(m->index, block, &info);
        g->entry = m->entries[block];
        g->set_ms = info.set_ms;
        g->coding = info.coding;
        g->pinned = sky_index_pinned(m->index, block);
        hold(m, g->entry.extent);
    }
    sky_mutex_unlock(&m->mutex);
}

static sky_status memory_list(sky_tier *tier, sky_entry_fn each, void *context) {
    memory *m = memory_of(tier);
    glimpse g = {.block = SKY_BLOCK_NONE};
    bool go_on = true;
    for (step(m, &g, 0); g.block != SKY_BLOCK_NONE;
         step(m, &g, go_on ? g.block + 1 : SKY_BLOCK_NONE)) {
        sky_entry told = {.key = g.entry.key,
                          .name = name_of(m, &g.entry),
                          .name_bytes = g.entry.name_bytes,
                          .bytes = g.entry.payload_bytes,
                          .set_ms = g.set_ms,
                          .hits = g.entry.hits,
                          .tier = m->env.index,
                          .pinned = g.pinned,
                          .coding = g.coding,
                          .parent = g.entry.parent};
        go_on = each(context, &told);
    }
    return SKY_OK;
}

/* A damaged payload goes, with all blocks that only it makes reachable. */
static void drop_damaged(memory *m, const entry *e, sky_verify_report *report) {
    sky_mutex_lock(&m->mutex);
    uint32_t block = sky_index_find(m->index, &e->key);
    if (block != SKY_BLOCK_NONE && m->entries[block].extent == e->extent)
        report->orphans += take_out(m, block) - 1;
    m->stat.corrupt++;
    report->corrupt++;
    sky_mutex_unlock(&m->mutex);
}

static sky_status memory_verify(sky_tier *tier, sky_verify_report *out) {
    memory *m = memory_of(tier);
    glimpse g = {.block = SKY_BLOCK_NONE};
    for (step(m, &g, 0); g.block != SKY_BLOCK_NONE; step(m, &g, g.block + 1)) {
        const entry *e = &g.entry;
        if (sky_checksum(bytes_of(m, e->extent), e->payload_bytes, 0) != e->checksum) {
            drop_damaged(m, e, out);
            continue;
        }
        out->entries++;
        out->bytes += e->payload_bytes;
    }
    return SKY_OK;
}

static void memory_stat(sky_tier *tier, sky_tier_stat *out) {
    memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    *out = m->stat;
    out->entries = sky_index_count(m->index);
    out->bytes_used = (uint64_t)sky_arena_used_units(m->arena) * m->unit_bytes;
    out->bytes_max = m->region_bytes;
    sky_mutex_unlock(&m->mutex);
    out->late = sky_batches_late(m->tier.batches) + atomic_load(&m->late);
}

/* ---- open, close ---- */

static void memory_close(sky_tier *tier) {
    if (!tier)
        return;
    memory *m = memory_of(tier);
    if (m->tier.batches)
        sky_batches_cancel_all(m->tier.batches);
    sky_batches_destroy(m->tier.batches);
    sky_mutex_deinit(&m->mutex);
    sky_index_destroy(m->index);
    sky_arena_destroy(m->arena);
    free(m->refs);
    free(m->entries);
    free(m->orphans);
    free(m->leases);
    sky_pages_release(m->region, m->region_bytes);
    free(m);
}

static const sky_tier_ops memory_ops = {
    .submit = memory_submit,
    .answer = memory_answer,
    .release = memory_release,
    .list = memory_list,
    .verify = memory_verify,
    .stat = memory_stat,
    .close = memory_close,
};

/* Errors: SKY_E_SYNTAX, SKY_E_PARAM */
static sky_status parse(const char *text, uint64_t *bytes, sky_error *error) {
    sky_url url;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "", error);
    if (status != SKY_OK)
        return status;
    if (strcmp(url.scheme, "mem") != 0 || sky_size_parse(url.path, bytes) != SKY_OK)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: a memory tier is mem:SIZE, such as mem:2GiB",
                        text);
    if (*bytes < REGION_BYTES_MIN || *bytes > REGION_BYTES_MAX)
        return sky_fail(error, SKY_E_PARAM, "%.200s: a memory tier has 64KiB to 64TiB", text);
    uint64_t machine = sky_pages_machine_bytes();
    if (machine != 0 && *bytes > machine)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: this machine has %llu MiB of memory", text,
                        (unsigned long long)(machine >> 20));
    return SKY_OK;
}

static uint32_t entries_for(uint64_t bytes) {
    uint64_t entries = bytes / ENTRY_SHARE_BYTES;
    if (entries < ENTRIES_MIN)
        return ENTRIES_MIN;
    return entries > ENTRIES_MAX ? ENTRIES_MAX : (uint32_t)entries;
}

/* All memory this tier will ever use; untouched memory costs nothing yet. */
static sky_status reserve(memory *m, uint64_t bytes) {
    m->unit_bytes = UNIT_BYTES_MIN;
    while (bytes / m->unit_bytes >= UINT32_MAX)
        m->unit_bytes *= 2;
    m->units = (uint32_t)(bytes / m->unit_bytes);
    m->region_bytes = (uint64_t)m->units * m->unit_bytes;
    uint32_t blocks = entries_for(bytes), buckets = 1;
    while (buckets < blocks)
        buckets *= 2;
    m->orphan_mask = buckets - 1;
    /* Besides the entries': extents that are lent and no longer shown, or not shown yet; and as
     * many free ones between. None is smaller than a unit. */
    uint32_t extents = 2 * (blocks + LEASES_MAX) + 1;
    extents = m->units < extents ? m->units : extents;
    bool huge;
    sky_status status = sky_pages_reserve(m->region_bytes, (void **)&m->region, &huge);
    if (status == SKY_OK && !huge)
        snprintf(m->stat.note, sizeof m->stat.note, "the kernel gives no huge pages");
    if (status == SKY_OK)
        status = sky_arena_create(m->units, extents, &m->arena);
    if (status == SKY_OK)
        status = sky_index_create(blocks, &m->index);
    m->refs = calloc(extents, sizeof *m->refs);
    m->entries = calloc(blocks, sizeof *m->entries);
    m->orphans = calloc(buckets, sizeof *m->orphans);
    m->leases = calloc(LEASES_MAX, sizeof *m->leases);
    bool all = m->refs && m->entries && m->orphans && m->leases;
    return status == SKY_OK && !all ? SKY_E_NOMEM : status;
}

sky_status sky_memory_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                                sky_error *error) {
    uint64_t bytes;
    sky_status status = parse(url, &bytes, error);
    if (status != SKY_OK)
        return status;
    memory *m = calloc(1, sizeof *m);
    if (!m)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", url);
    m->tier.ops = &memory_ops;
    m->tier.traits = SKY_TIER_LEASES | SKY_TIER_VOLATILE;
    m->env = *env;
    m->env.clock = env->clock ? env->clock : sky_clock_system();
    m->lease_free = SKY_BLOCK_NONE;
    snprintf(m->stat.url, sizeof m->stat.url, "%s", url);
    sky_mutex_init(&m->mutex);
    status = reserve(m, bytes);
    if (status == SKY_OK)
        status = sky_batches_create(m->env.clock, &m->tier.batches);
    if (status != SKY_OK) {
        memory_close(&m->tier);
        return sky_fail(error, status, "%.200s: could not reserve it: %s", url,
                        sky_status_text(status));
    }
    *out = &m->tier;
    return SKY_OK;
}
