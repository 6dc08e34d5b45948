/* The memory tier: payloads in one region of this process, copied inside submit. memory.h draws
 * what it holds and says who may touch what; this is what a tier does with it.
 *
 * Surprises:
 *  - A batch is opened without its deadline: submit looks at the clock before each item instead. So
 *    no other thread can end the batch while submit works on the items, and none needs guarding.
 *  - The checksum is taken while a payload is copied in, and looked at only by verify: what is in
 *    memory goes bad through a stray write, such as one through a lease. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/error.h"
#include "base/hash.h"
#include "io/clock.h"
#include "io/pages.h"
#include "io/secret.h"
#include "tier/batch.h"
#include "tier/mem/memory.h"
#include "tier/mem/shared.h"
#include "tier/spans.h"
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
#define LAST_SHARE        2u /* of the region, and of the entries: what SKY_EVICT_LAST may take */
/* What is copied while its stripe is locked, which costs less than a reference: a writer waits for
 * SKY__MEMORY_GETS_AT_ONCE of them at most. */
#define LOCKED_COPY_BYTES 16384u

static sky__memory *memory_of(sky_tier *tier) {
    return (sky__memory *)tier;
}

/* ---- put ---- */

/* Copy the spans, of so many bytes, in and return their checksum. */
static uint64_t copy_in(uint8_t *to, const sky_span *spans, uint32_t span_count, size_t bytes) {
    sky_checksum_state sum;
    sky_checksum_init(&sum, 0);
    for (uint32_t i = 0; i < span_count; i++) {
        if (spans[i].bytes > 0)
            sky_checksum_copy(&sum, to, spans[i].data, spans[i].bytes, bytes);
        to += spans[i].bytes;
    }
    return sky_checksum_end(&sum);
}

/* Into a new extent. False: no eviction makes room. */
static bool copy_new(sky__memory *m, const sky_item *item, sky__memory_entry *new) {
    uint64_t name_bytes = item->name ? item->name_bytes + 1u : 0;
    sky__memory_lock(m);
    new->extent = sky__memory_make_room(m, new->payload_bytes + name_bytes);
    sky__memory_unlock(m);
    if (new->extent == SKY_EXTENT_NONE)
        return false;
    new->checksum = copy_in(sky__memory_bytes(m, new->extent), item->spans, item->span_count,
                            new->payload_bytes);
    return true;
}

static sky_status check_put(const sky_item *item, const sky_call *call, uint64_t bytes) {
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return SKY_E_PARAM;
    bool bad_name = item->name && (item->name_bytes == 0 || item->name_bytes > SKY_NAME_BYTES_MAX);
    bool own_parent = sky_key_equal(&item->key, &item->parent);
    if (bytes > SKY_PAYLOAD_BYTES_MAX || bad_name || own_parent || call->coding > 15 ||
        call->evict > SKY_EVICT_LAST)
        return SKY_E_PARAM;
    return SKY_OK;
}

static sky_status entry_put(sky__memory *m, const sky_item *item, const sky_call *call,
                            uint64_t *bytes) {
    uint64_t payload_bytes = sky_spans_bytes(item->spans, item->span_count);
    sky_status status = check_put(item, call, payload_bytes);
    if (status != SKY_OK)
        return status;
    sky__memory_entry new = {.key = item->key,
                             .parent = item->parent,
                             .payload_bytes = (uint32_t)payload_bytes,
                             .evict = call->evict};
    if (!sky__memory_claim(m, item, &new) && !copy_new(m, item, &new))
        return SKY_E_FULL;
    if (item->name) {
        uint8_t *to = sky__memory_bytes(m, new.extent);
        memcpy(to + payload_bytes, item->name, item->name_bytes);
        to[payload_bytes + item->name_bytes] = 0;
        new.named = true;
        new.name_bytes = (uint16_t)item->name_bytes;
    }
    if (call->ttl_s != 0)
        new.expires_ms = m->env.clock->wall_ms(m->env.clock) + (int64_t)call->ttl_s * 1000;
    sky__memory_lock(m);
    status = sky__memory_publish(m, &new, call->coding);
    if (status != SKY_OK)
        sky__memory_let_go(m, new.extent);
    sky__memory_unlock(m);
    *bytes = payload_bytes;
    return status;
}

/* ---- get, lease ---- */

/* How the payload is coded, and how long it is still kept. */
static void entry_describe(const sky__memory *m, const sky__memory_entry *e, sky_item *item) {
    sky_block_info info;
    sky_index_info(m->index, (uint32_t)(e - m->entries), &info);
    item->coding = info.coding;
    item->evict = info.evict;
    if (e->expires_ms != 0) {
        int64_t left_ms = e->expires_ms - m->env.clock->wall_ms(m->env.clock);
        int64_t left_s = left_ms > 0 ? (left_ms + 999) / 1000 : 1;
        item->ttl_s = left_s < UINT32_MAX ? (uint32_t)left_s : UINT32_MAX;
    }
}

/* The entry of a key that an answer is about to be given from: a use or a miss of this stripe. NULL
 * when it is absent. */
static const sky__memory_entry *entry_seek(const sky__memory *m, sky__stripe *s, sky_item *item,
                                           bool *late) {
    uint32_t block = sky__memory_find(m, &item->key, late);
    if (block == SKY_BLOCK_NONE) {
        s->misses++;
        return NULL;
    }
    s->uses[s->use_count++] = block;
    entry_describe(m, &m->entries[block], item);
    return &m->entries[block];
}

/* What is still to be copied: held, but for an extent that is SKY_EXTENT_NONE. */
typedef struct {
    uint32_t extent;
    sky_range range;
} copy;

static void copy_out(const sky__memory *m, uint32_t extent, const sky_range *range,
                     sky_item *item) {
    const uint8_t *from = sky__memory_bytes(m, extent) + range->offset;
    sky_spans_scatter(item->spans, item->span_count, from, range->bytes);
    item->bytes = range->bytes;
}

/* Find an item's payload, and copy it or hold it. With the stripe held. */
static sky_status find_copy(sky__memory *m, sky__stripe *s, sky_item *item, bool touch, bool *late,
                            copy *out) {
    uint64_t room = sky_spans_bytes(item->spans, item->span_count);
    out->extent = SKY_EXTENT_NONE;
    uint32_t uses_before = s->use_count;
    const sky__memory_entry *e = entry_seek(m, s, item, late);
    if (!e)
        return SKY_MISS;
    sky_status status = sky_range_resolve(item->range, e->payload_bytes, &out->range);
    if (status == SKY_OK && out->range.bytes > room)
        status = SKY_E_DST_SMALL;
    if (status != SKY_OK || !touch)
        s->use_count = uses_before;
    if (status != SKY_OK)
        return status;
    s->read_bytes += out->range.bytes;
    if (out->range.bytes <= LOCKED_COPY_BYTES) {
        copy_out(m, e->extent, &out->range, item);
    } else {
        out->extent = e->extent;
        sky__memory_hold(m, e->extent);
    }
    return SKY_OK;
}

/* At most SKY__MEMORY_GETS_AT_ONCE: the stripe is locked once for all of them. */
static void get_some(sky__memory *m, sky_item *items, size_t count, bool touch) {
    copy copies[SKY__MEMORY_GETS_AT_ONCE];
    bool late = false;
    sky__stripe *s = sky__memory_lock_stripe(m, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        items[i].status = find_copy(m, s, &items[i], touch, &late, &copies[i]);
    sky__stripe_unlock(s);
    for (size_t i = 0; i < count; i++) {
        if (late && items[i].status == SKY_MISS)
            sky__memory_drop_expired(m, &items[i].key);
        if (items[i].status != SKY_OK || copies[i].extent == SKY_EXTENT_NONE)
            continue;
        copy_out(m, copies[i].extent, &copies[i].range, &items[i]);
        sky__memory_unhold(m, copies[i].extent);
    }
}

static sky_status entry_lease(sky__memory *m, sky_item *item, uint64_t *bytes) {
    bool late = false;
    item->view = (sky_span){0};
    item->lease = (sky_lease){0};
    sky_mutex_lock(&m->mutex);
    bool full = sky_leases_full(m->leases);
    sky__stripe *s = sky__stripe_lock(&m->stripes);
    sky__memory_settle(m, s);
    (void)sky__memory_take_uses(m);
    const sky__memory_entry *e = full ? NULL : entry_seek(m, s, item, &late);
    if (e) {
        s->lease_count++;
        sky__memory_hold(m, e->extent);
        item->parent = e->parent;
        item->name = sky__memory_name(m, e);
        item->name_bytes = e->name_bytes;
        item->view = (sky_span){sky__memory_bytes(m, e->extent), e->payload_bytes};
        item->lease = sky_leases_take(m->leases, e->extent, 0);
        *bytes = e->payload_bytes;
    }
    sky__stripe_unlock(s);
    sky_mutex_unlock(&m->mutex);
    if (late)
        sky__memory_drop_expired(m, &item->key);
    return full ? SKY_E_BUSY : e ? SKY_OK : SKY_MISS;
}

static void memory_release(sky_tier *tier, sky_lease lease) {
    sky__memory *m = memory_of(tier);
    uint64_t extent;
    sky_mutex_lock(&m->mutex);
    sky_status status = sky_leases_give(m->leases, lease, 0, &extent);
    sky_mutex_unlock(&m->mutex);
    if (status == SKY_OK)
        sky__memory_unhold(m, (uint32_t)extent);
}

/* ---- what needs no copy ---- */

static sky_status entry_has(sky__memory *m, sky_item *item, uint64_t *bytes) {
    bool late = false;
    sky__stripe *s = sky__memory_lock_stripe(m, 0);
    uint32_t block = sky__memory_find(m, &item->key, &late);
    if (block != SKY_BLOCK_NONE) {
        *bytes = m->entries[block].payload_bytes;
        item->pinned = sky_index_pinned(m->index, block);
        entry_describe(m, &m->entries[block], item);
    }
    sky__stripe_unlock(s);
    if (late)
        sky__memory_drop_expired(m, &item->key);
    return block == SKY_BLOCK_NONE ? SKY_MISS : SKY_OK;
}

static sky_status entry_change(sky__memory *m, sky_op op, const sky_key *key) {
    bool late = false;
    sky__memory_lock(m);
    uint32_t block = sky__memory_find(m, key, &late);
    sky_status status = block == SKY_BLOCK_NONE ? SKY_MISS : SKY_OK;
    if (status == SKY_OK && op == SKY_OP_REMOVE)
        sky__memory_take_out(m, block);
    else if (op == SKY_OP_REMOVE)
        sky__memory_take_out_orphans(m, key);
    else if (status == SKY_OK && op == SKY_OP_PREFETCH)
        sky_index_touch(m->index, block);
    else if (status == SKY_OK && op == SKY_OP_PIN && !sky_index_pinned(m->index, block))
        status = sky_index_pin(m->index, block);
    else if (status == SKY_OK && op == SKY_OP_UNPIN)
        status = sky_index_unpin(m->index, block);
    if (op == SKY_OP_PIN || op == SKY_OP_UNPIN)
        sky__memory_show_changes(m, block);
    sky__memory_unlock(m);
    if (late)
        sky__memory_drop_expired(m, key);
    return status;
}

static sky_status run_item(sky__memory *m, sky_op op, sky_item *item, const sky_call *call) {
    if (op == SKY_OP_PUT)
        return entry_put(m, item, call, &item->bytes);
    if (op == SKY_OP_LEASE)
        return entry_lease(m, item, &item->bytes);
    return op == SKY_OP_HAS ? entry_has(m, item, &item->bytes) : entry_change(m, op, &item->key);
}

static bool is_late(const sky__memory *m, const sky_call *call) {
    return call->deadline_ns != 0 && m->env.clock->now(m->env.clock) >= call->deadline_ns;
}

/* Answer items [0, count): several gets, or one of anything else. */
static void answer_some(sky__memory *m, sky_op op, sky_item *items, size_t count,
                        const sky_call *call) {
    bool late = is_late(m, call);
    for (size_t i = 0; i < count; i++) {
        items[i].bytes = 0;
        items[i].coding = 0;
        items[i].ttl_s = 0;
        items[i].pinned = false;
        items[i].evict = 0;
        items[i].status = SKY_E_DEADLINE;
    }
    if (!late && op == SKY_OP_GET)
        get_some(m, items, count, !call->no_touch);
    else if (!late)
        items->status = run_item(m, op, items, call);
    for (size_t i = 0; i < count; i++)
        items[i].tier = items[i].status == SKY_OK ? m->env.index : SKY_TIER_NONE;
}

static void memory_answer(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                          const sky_call *call) {
    sky__memory *m = memory_of(tier);
    size_t most = op == SKY_OP_GET ? SKY__MEMORY_GETS_AT_ONCE : 1;
    for (size_t i = 0, step; i < item_count; i += step) {
        step = item_count - i < most ? item_count - i : most;
        answer_some(m, op, items + i, step, call);
        if (items[i].status == SKY_E_DEADLINE)
            sky_count(&m->late, step);
    }
}

static sky_status memory_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, sky_batch *out) {
    sky__memory *m = memory_of(tier);
    sky_batch batch;
    sky_status status = sky_batches_open(m->tier.batches, items, item_count, 0, &batch);
    if (status != SKY_OK)
        return status;
    for (size_t i = 0; i < item_count; i++) {
        sky_item answer = items[i];
        answer_some(m, op, &answer, 1, call);
        const sky_answer told = {.status = answer.status,
                                 .bytes = answer.bytes,
                                 .tier = answer.tier,
                                 .coding = answer.coding,
                                 .ttl_s = answer.ttl_s,
                                 .pinned = answer.pinned,
                                 .evict = answer.evict,
                                 .view = answer.view,
                                 .lease = answer.lease};
        sky_batches_answer(m->tier.batches, batch, i, &told);
    }
    *out = batch;
    return SKY_OK;
}

/* ---- list, verify, stat ---- */

/* A copy of an entry, its extent held: what it points to stays. */
typedef struct {
    uint32_t block; /* SKY_BLOCK_NONE: none */
    sky__memory_entry entry;
    int64_t set_ms;
    sky_coding coding;
    uint8_t evict;
    bool pinned;
} glimpse;

/* Let go of the entry in *g, if any, and take hold of the next at or after `block`. */
static void glimpse_step(sky__memory *m, glimpse *g, uint32_t block) {
    if (g->block != SKY_BLOCK_NONE)
        sky__memory_unhold(m, g->entry.extent);
    sky__memory_lock(m);
    block = sky_index_next(m->index, block);
    while (block != SKY_BLOCK_NONE && sky__memory_expired(m, &m->entries[block]))
        block = sky_index_next(m->index, block + 1);
    g->block = block;
    if (block != SKY_BLOCK_NONE) {
        sky_block_info info;
        sky_index_info(m->index, block, &info);
        g->entry = m->entries[block];
        g->set_ms = info.set_ms;
        g->coding = info.coding;
        g->evict = info.evict;
        g->pinned = sky_index_pinned(m->index, block);
        sky__memory_hold(m, g->entry.extent);
    }
    sky__memory_unlock(m);
}

static sky_status memory_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky__memory *m = memory_of(tier);
    glimpse g = {.block = SKY_BLOCK_NONE};
    bool go_on = true;
    for (glimpse_step(m, &g, 0); g.block != SKY_BLOCK_NONE;
         glimpse_step(m, &g, go_on ? g.block + 1 : SKY_BLOCK_NONE)) {
        sky_entry told = {.key = g.entry.key,
                          .name = sky__memory_name(m, &g.entry),
                          .name_bytes = g.entry.name_bytes,
                          .bytes = g.entry.payload_bytes,
                          .set_ms = g.set_ms,
                          .hits = g.entry.hits,
                          .tier = m->env.index,
                          .pinned = g.pinned,
                          .coding = g.coding,
                          .parent = g.entry.parent,
                          .evict = g.evict};
        go_on = each(context, &told);
    }
    return SKY_OK;
}

/* A damaged payload goes, with all blocks that only it makes reachable. */
static void drop_damaged(sky__memory *m, const sky__memory_entry *e, sky_verify_report *report) {
    sky__memory_lock(m);
    uint32_t block = sky_index_find(m->index, &e->key);
    if (block != SKY_BLOCK_NONE && m->entries[block].extent == e->extent)
        report->orphans += sky__memory_take_out(m, block) - 1;
    m->counts.corrupt++;
    report->corrupt++;
    sky__memory_unlock(m);
}

static sky_status memory_verify(sky_tier *tier, sky_verify_report *out) {
    sky__memory *m = memory_of(tier);
    glimpse g = {.block = SKY_BLOCK_NONE};
    for (glimpse_step(m, &g, 0); g.block != SKY_BLOCK_NONE; glimpse_step(m, &g, g.block + 1)) {
        const sky__memory_entry *e = &g.entry;
        if (sky_tier_verify_cancelled(&m->env))
            return SKY_E_CANCELLED;
        if (sky_checksum(sky__memory_bytes(m, e->extent), e->payload_bytes, 0) != e->checksum) {
            drop_damaged(m, e, out);
            continue;
        }
        out->entries++;
        out->bytes += e->payload_bytes;
    }
    return SKY_OK;
}

static void memory_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky__memory *m = memory_of(tier);
    sky_tier_counts *t = &counts->tier;
    *out = m->stat;
    sky__memory_lock(m);
    *t = m->counts;
    t->entries = sky_index_count(m->index);
    t->bytes_used = (uint64_t)sky_arena_used_units(m->arena) * m->unit_bytes;
    sky__memory_unlock(m);
    t->bytes_max = m->region_bytes;
    t->late = sky_batches_late(m->tier.batches) + sky_count_read(&m->late);
}

/* ---- open, close ---- */

static void memory_close(sky_tier *tier) {
    if (!tier)
        return;
    sky__memory *m = memory_of(tier);
    if (m->tier.batches)
        sky_batches_cancel_all(m->tier.batches);
    sky_batches_destroy(m->tier.batches);
    sky__stripes_deinit(&m->stripes);
    sky_mutex_deinit(&m->mutex);
    sky__memory_show_deinit(m);
    sky_index_destroy(m->index);
    sky_arena_destroy(m->arena);
    free(m->refs);
    free(m->entries);
    free(m->orphans);
    sky_leases_destroy(m->leases);
    if (m->shared)
        sky_segments_deinit(&m->segments);
    else
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
static sky_status parse_url(const char *text, uint64_t *bytes, bool *shared, sky_error *error) {
    sky_url url;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "shared", error);
    if (status != SKY_OK)
        return status;
    const char *share = sky_url_value(&url, "shared");
    *shared = share && strcmp(share, "yes") == 0;
    if (share && !*shared && strcmp(share, "no") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: shared is yes or no", text);
    if (strcmp(url.scheme, "mem") != 0 || sky_size_parse(url.path, bytes) != SKY_OK)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: a memory tier is mem:SIZE, such as mem:2GiB",
                        text);
    if (*bytes < REGION_BYTES_MIN || *bytes > REGION_BYTES_MAX)
        return sky_fail(error, SKY_E_PARAM,
                        "mem:%.200s: memory is 64KiB to 64TiB, such as mem:1GiB", url.path);
    uint64_t machine = sky_pages_machine_bytes();
    if (machine != 0 && *bytes > machine)
        return sky_fail(error, SKY_E_NOMEM,
                        "mem:%.200s: this machine has %llu MiB of memory in all; name less",
                        url.path, (unsigned long long)(machine >> 20));
    return SKY_OK;
}

static uint32_t entries_for(uint64_t bytes) {
    uint64_t entries = bytes / ENTRY_SHARE_BYTES;
    if (entries < ENTRIES_MIN)
        return ENTRIES_MIN;
    return entries > ENTRIES_MAX ? ENTRIES_MAX : (uint32_t)entries;
}

/* All memory this tier will ever use; untouched memory costs nothing yet. */
static sky_status memory_reserve(sky__memory *m, uint64_t bytes) {
    m->unit_bytes = UNIT_BYTES_MIN;
    while (bytes / m->unit_bytes >= UINT32_MAX)
        m->unit_bytes *= 2;
    m->units = (uint32_t)(bytes / m->unit_bytes);
    m->region_bytes = (uint64_t)m->units * m->unit_bytes;
    uint32_t blocks = entries_for(bytes), buckets = 1;
    uint64_t secret[2];
    while (buckets < blocks)
        buckets *= 2;
    m->orphan_mask = buckets - 1;
    /* Besides the entries': extents that are lent and no longer shown, or not shown yet; and as
     * many free ones between. None is smaller than a unit. */
    uint32_t extents = 2 * (blocks + SKY_LEASES_MAX) + 1;
    extents = m->units < extents ? m->units : extents;
    bool huge = true;
    sky_status status = m->shared ? sky_segments_init(&m->segments, m->region_bytes)
                                  : sky_pages_reserve(m->region_bytes, (void **)&m->region, &huge);
    if (m->shared)
        m->region = m->segments.region;
    if (status == SKY_OK && !huge)
        snprintf(m->stat.note, sizeof m->stat.note, "the kernel gives no huge pages");
    if (status == SKY_OK)
        status = sky_arena_create(m->units, extents, &m->arena);
    if (status == SKY_OK)
        status = sky_index_create(blocks, &m->index);
    if (status == SKY_OK) {
        sky_random(secret, sizeof secret);
        sky_index_set_secret(m->index, secret);
        sky_index_last_max(m->index, m->region_bytes / LAST_SHARE, blocks / LAST_SHARE);
    }
    m->refs = calloc(extents, sizeof *m->refs);
    m->entries = calloc(blocks, sizeof *m->entries);
    m->orphans = calloc(buckets, sizeof *m->orphans);
    if (status == SKY_OK)
        status = sky_leases_create(&m->leases);
    if (status == SKY_OK && m->shared)
        status = sky__memory_show_init(m, blocks, extents);
    bool all = m->refs && m->entries && m->orphans;
    return status == SKY_OK && !all ? SKY_E_NOMEM : status;
}

sky_status sky_memory_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                                sky_error *error) {
    uint64_t bytes;
    bool shared;
    sky_status status = parse_url(url, &bytes, &shared, error);
    if (status != SKY_OK)
        return status;
    sky__memory *m = calloc(1, sizeof *m);
    if (!m)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", url);
    m->tier.ops = &memory_ops;
    m->tier.traits = SKY_TIER_SYNCHRONOUS | SKY_TIER_LEASES | SKY_TIER_VOLATILE;
    m->shared = shared;
    m->env = *env;
    m->env.clock = env->clock ? env->clock : sky_clock_system();
    snprintf(m->stat.url, sizeof m->stat.url, "%s", url);
    sky_mutex_init(&m->mutex);
    status = memory_reserve(m, bytes);
    if (status == SKY_OK)
        status = sky__stripes_init(&m->stripes);
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

sky__memory *sky__memory_of(sky_tier *tier) {
    return tier->ops == &memory_ops ? memory_of(tier) : NULL;
}

bool sky_memory_tier_checksum(sky_tier *tier, const sky_key *key, const sky_span *view,
                              uint64_t *out) {
    sky__memory *m = sky__memory_of(tier);
    bool late = false, known = false;
    if (!m)
        return false;
    sky__stripe *s = sky__stripe_lock(&m->stripes);
    uint32_t block = sky__memory_find(m, key, &late);
    if (block != SKY_BLOCK_NONE) {
        const sky__memory_entry *e = &m->entries[block];
        known = e->payload_bytes == view->bytes && sky__memory_bytes(m, e->extent) == view->data;
        *out = known ? e->checksum : *out;
    }
    sky__stripe_unlock(s);
    return known;
}

/* ---- segments ---- */

bool sky_memory_tier_arena(const sky_tier *tier, sky_arena_view *out) {
    if (tier->ops != &memory_ops || !((const sky__memory *)tier)->shared)
        return false;
    const sky_segments *s = &((const sky__memory *)tier)->segments;
    *out = (sky_arena_view){s->region, s->region_bytes, s->segment_bytes, s->count};
    return true;
}

int sky_memory_tier_segment(sky_tier *tier, uint32_t index, uint64_t *generation) {
    sky__memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    int fd = m->segments.segments[index].fd;
    *generation = fd < 0 ? 0 : m->segments.segments[index].generation;
    sky_mutex_unlock(&m->mutex);
    return fd;
}

void sky_memory_tier_segments(sky_tier *tier, uint64_t *bytes, uint64_t *gone) {
    sky__memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    *bytes = m->segments.made_bytes;
    *gone = m->segments.gone;
    sky_mutex_unlock(&m->mutex);
}

/* ---- processes that find what is shown ---- */

sky_status sky_memory_tier_join(sky_tier *tier, uint32_t *reader, int *index, int *page) {
    sky__memory *m = sky__memory_of(tier);
    if (!m || !m->shown)
        return SKY_E_UNSUPPORTED;
    sky_mutex_lock(&m->mutex);
    sky_status status = sky_shared_index_join(m->shown, reader, page);
    *index = sky_shared_index_fd(m->shown);
    sky_mutex_unlock(&m->mutex);
    return status;
}

bool sky_memory_tier_end(sky_tier *tier, uint32_t reader) {
    sky__memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    bool keeps = sky_shared_index_end(m->shown, reader);
    sky_mutex_unlock(&m->mutex);
    return keeps;
}

void sky_memory_tier_leave(sky_tier *tier, uint32_t reader) {
    sky__memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    (void)sky__memory_take_uses(m);
    sky_shared_index_leave(m->shown, reader);
    sky__memory_sweep(m);
    sky_mutex_unlock(&m->mutex);
}

bool sky_memory_tier_sweep(sky_tier *tier, uint64_t *uses, bool *more) {
    sky__memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    *more = sky__memory_take_uses(m);
    sky__memory_sweep(m);
    *uses = m->shown_uses;
    bool gone = m->kept_count > 0;
    sky_mutex_unlock(&m->mutex);
    return gone;
}

uint32_t sky_memory_tier_kept(sky_tier *tier) {
    sky__memory *m = memory_of(tier);
    sky_mutex_lock(&m->mutex);
    const uint32_t kept = sky_shared_index_survey(m->shown);
    sky_mutex_unlock(&m->mutex);
    return kept;
}
