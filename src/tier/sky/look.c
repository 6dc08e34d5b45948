/* Looking at a sky: what it holds, whether it is sound, what it did, and how its satellites are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "ground/redundancy.h"
#include "tier/sky/state.h"

#define PAGE_ENTRIES 64

typedef struct sky_tier_sky sky;

/* ---- entries ---- */

/* Entries copied out under the lock, so that the callback may call the tier. */
typedef struct {
    sky_entry entries[PAGE_ENTRIES];
    char names[PAGE_ENTRIES][SKY_NAME_BYTES_MAX + 1];
    uint32_t count;
} page;

static void copy_entry(const sky *s, uint32_t block, page *to) {
    sky_session_entry e;
    sky_session_look(sky__tier_session(s), block, &e);
    const sky__tier_name *name = &s->names[block];
    if (e.expires_ms <= s->env.clock->wall_ms(s->env.clock) || sky_key_is_zero(&name->key))
        return;
    uint32_t parent = sky_index_parent(sky_session_index(sky__tier_session(s)), block);
    uint32_t i = to->count++;
    if (name->text)
        memcpy(to->names[i], name->text, name->bytes + 1);
    to->entries[i] = (sky_entry){
        .key = name->key,
        .name = name->text ? to->names[i] : NULL,
        .name_bytes = name->bytes,
        .bytes = e.info.payload_bytes,
        .set_ms = s->reach->ops->wall_ms(s->reach, e.info.set_ms),
        .hits = e.hits,
        .tier = s->env.index,
        .pinned = e.pinned,
        .coding = e.info.coding,
    };
    if (parent != SKY_BLOCK_NONE)
        to->entries[i].parent = s->names[parent].key;
}

/* The entries from `block` on; returns where to go on. */
static uint32_t fill_page(sky *s, uint32_t block, page *to) {
    to->count = 0;
    sky_mutex_lock(&s->world_lock);
    const sky_index *index = sky_session_index(sky__tier_session(s));
    block = sky_index_next(index, block);
    for (; block != SKY_BLOCK_NONE && to->count < PAGE_ENTRIES;
         block = sky_index_next(index, block + 1))
        copy_entry(s, block, to);
    sky_mutex_unlock(&s->world_lock);
    return block;
}

sky_status sky__tier_list(sky_tier *tier, sky_entry_fn each, void *context) {
    page *p = malloc(sizeof *p);
    if (!p)
        return SKY_E_NOMEM;
    bool more = true;
    for (uint32_t block = 0; more && block != SKY_BLOCK_NONE;) {
        block = fill_page(sky__tier_of(tier), block, p);
        for (uint32_t i = 0; more && i < p->count; i++)
            more = each(context, &p->entries[i]);
    }
    free(p);
    return SKY_OK;
}

/* ---- soundness ---- */

/* Where nobody can look into the satellites: get every block, into nowhere. */
typedef struct {
    sky_tier *tier;
    sky_reach_check *sum;
} reading;

static bool read_one(void *context, const sky_entry *entry) {
    reading *r = context;
    sky_span nowhere = {NULL, (size_t)entry->bytes};
    sky_item item = {.key = entry->key, .spans = &nowhere, .span_count = 1};
    sky_batch batch;
    sky_status status = sky_tier_submit(r->tier, SKY_OP_GET, &item, 1, NULL, &batch);
    if (status == SKY_OK)
        status = sky_tier_wait(r->tier, batch, SKY_TIME_NEVER);
    r->sum->entries++;
    r->sum->bytes += entry->bytes;
    r->sum->corrupt += status != SKY_OK || item.status != SKY_OK;
    return true;
}

static sky_status check_by_reading(sky_tier *tier, sky_reach_check *out) {
    reading r = {tier, out};
    return tier->ops->list(tier, read_one, &r);
}

sky_status sky__tier_verify(sky_tier *tier, sky_verify_report *out) {
    sky *s = sky__tier_of(tier);
    sky_reach_check check = {0};
    sky_status status = SKY_OK;
    if (s->reach->ops->check) {
        sky_mutex_lock(&s->world_lock);
        s->reach->ops->check(s->reach, &check);
        sky_mutex_unlock(&s->world_lock);
    } else {
        status = check_by_reading(tier, &check);
    }
    if (status != SKY_OK)
        return status;
    out->entries += check.entries;
    out->bytes += check.bytes;
    out->corrupt += check.corrupt;
    out->orphans += check.orphans;
    return SKY_OK;
}

/* ---- what happened ---- */

/* What its ground session counts, as a tier. */
static sky_tier_counts tier_counts(const sky *s, const sky_session_stat *t,
                                   const sky_reach_stat *w) {
    const sky_session *session = sky__tier_session(s);
    return (sky_tier_counts){
        .entries = sky_index_count(sky_session_index(session)),
        .bytes_used = t->bytes,
        .bytes_max = sky_session_bytes_max(session),
        .hits = t->hits,
        .misses = t->misses,
        .puts = t->puts,
        .evictions = t->evicted + t->evicted_others + t->purged,
        .corrupt = t->corrupt + w->nodes.corrupt,
        .errors = s->errors,
        .read_bytes = s->read_bytes,
        .written_bytes = s->written_bytes,
        .late = sky_batches_late(s->tier.batches),
    };
}

void sky__tier_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky *s = sky__tier_of(tier);
    sky_reach_stat w;
    sky_mutex_lock(&s->world_lock);
    s->reach->ops->stats(s->reach, &w);
    sky_session_stats(sky__tier_session(s), &counts->session);
    counts->transport = w.transport;
    counts->tier = tier_counts(s, &counts->session, &w);
    *out = (sky_tier_stat){.failing = s->failures >= SKY__TIER_FAILURES_IN_A_ROW};
    sky_satellite one = SKY_GROUND;
    uint32_t silent = sky_session_silent(sky__tier_session(s), &one);
    sky_mutex_unlock(&s->world_lock);
    snprintf(out->url, sizeof out->url, "%s", s->url);
    const sky_placement *p = &s->scenario.placement;
    bool inside = s->reach->ops->check; /* what satellites did is known of those in this process */
    const sky_node_stat *n = &w.nodes;
    snprintf(out->note, sizeof out->note,
             "%s over %" PRIu32 " servers, %" PRIu32 ",%" PRIu32 " overhead, %" PRIu64
             " rotations, %" PRIu64 " %s",
             sky_strategy_name(p->strategy), p->servers, w.overhead.plane, w.overhead.slot, w.turns,
             inside ? n->migrated : n->foreign + n->stale + n->replayed + n->forged,
             inside ? "chunks migrated" : "datagrams refused");
    size_t length = strlen(out->note);
    if (silent > 0)
        snprintf(out->note + length, sizeof out->note - length,
                 "; %" PRIu32 " silent, such as %" PRIu32 ",%" PRIu32, silent, one.plane, one.slot);
}

sky_status sky_sky_tier_report(sky_tier *tier, sky_sky_report *out) {
    sky *s = sky__tier_of(tier);
    if (!s)
        return SKY_E_PARAM;
    sky_reach_stat w;
    sky_session_stat t;
    sky_mutex_lock(&s->world_lock);
    s->reach->ops->stats(s->reach, &w);
    sky_session_stats(sky__tier_session(s), &t);
    *out = s->report;
    out->silent_one = SKY_GROUND;
    out->silent = sky_session_silent(sky__tier_session(s), &out->silent_one);
    sky_mutex_unlock(&s->world_lock);
    out->rotations = w.turns;
    out->migrated_chunks = w.nodes.migrated;
    out->migrated_bytes = w.nodes.migrated_bytes;
    out->purged_blocks = t.purged;
    out->strategy = s->scenario.placement.strategy;
    out->servers = s->scenario.placement.servers;
    out->overhead = w.overhead;
    bool outside = !s->reach->ops->check; /* then the counts are the ground's own */
    out->refused_stale = outside ? w.nodes.stale : 0;
    out->refused_forged = outside ? w.nodes.forged : 0;
    out->refused_unsupported = outside ? w.transport.unsupported : 0;
    return SKY_OK;
}

/* ---- its satellites ---- */

void sky_satellite_answered(sky_satellite_stat *stat, sky_time took_ns, const uint64_t *counts) {
    *stat = (sky_satellite_stat){.satellite = stat->satellite,
                                 .answered = true,
                                 .ms = (double)took_ns / 1e6,
                                 .chunks = counts[SKY_STAT_CHUNKS],
                                 .chunks_max = counts[SKY_STAT_SLOTS],
                                 .sets = counts[SKY_STAT_SETS],
                                 .gets = counts[SKY_STAT_GETS],
                                 .misses = counts[SKY_STAT_MISSES],
                                 .evictions = counts[SKY_STAT_EVICTIONS],
                                 .refused = counts[SKY_STAT_REFUSED],
                                 .migrated = counts[SKY_STAT_MIGRATED],
                                 .purged = counts[SKY_STAT_PURGED],
                                 .swept = counts[SKY_STAT_SWEPT],
                                 .gossip = counts[SKY_STAT_GOSSIP],
                                 .malformed = counts[SKY_STAT_MALFORMED],
                                 .corrupt = counts[SKY_STAT_CORRUPT],
                                 .overflow = counts[SKY_STAT_OVERFLOW],
                                 .foreign = counts[SKY_STAT_FOREIGN],
                                 .stale = counts[SKY_STAT_STALE],
                                 .replayed = counts[SKY_STAT_REPLAYED],
                                 .forged = counts[SKY_STAT_FORGED],
                                 .mended = counts[SKY_STAT_MENDED],
                                 .mending = counts[SKY_STAT_MENDING]};
}

/* One batch, of an item for each satellite, is what guards `stats`. */
sky_status sky_sky_tier_satellites(sky_tier *tier, sky_time until, sky_satellite_stat *stats,
                                   size_t count_max, size_t *count) {
    sky *s = sky__tier_of(tier);
    if (!s)
        return SKY_E_PARAM;
    const sky_constellation *c = &s->scenario.constellation;
    size_t there = (size_t)c->planes * c->slots, asked = there < count_max ? there : count_max;
    asked = asked < SKY_BATCH_ITEMS_MAX ? asked : SKY_BATCH_ITEMS_MAX;
    sky_item *items = calloc(asked + 1, sizeof *items);
    if (!items)
        return SKY_E_NOMEM;
    for (size_t i = 0; i < asked; i++)
        stats[i] = (sky_satellite_stat){
            .satellite = {(uint32_t)(i / c->slots) + 1, (uint32_t)(i % c->slots) + 1}};
    const sky__tier_job kind = {.item_count = asked, .asked = stats};
    sky_batch batch;
    sky_status status = asked > 0 ? sky__tier_queue(s, kind, items, until, &batch) : SKY_OK;
    if (status == SKY_OK && asked > 0)
        sky_batches_wait(s->tier.batches, batch, SKY_TIME_NEVER);
    free(items);
    if (status == SKY_OK)
        *count = there;
    return status;
}

/* ---- the chunks of a value ---- */

/* Make sure that the index knows the key: HAS looks for it in the sky. */
static sky_status find_value(sky_tier *tier, const sky_key *key, sky_time until) {
    const sky_call call = {.deadline_ns = until};
    sky_item item = {.key = *key};
    sky_batch batch;
    sky_status status = sky_tier_submit(tier, SKY_OP_HAS, &item, 1, &call, &batch);
    if (status == SKY_OK)
        status = sky_tier_wait(tier, batch, SKY_TIME_NEVER);
    return status == SKY_OK ? item.status : status;
}

/* Where the index says that each chunk should be by now. */
static sky_status expect_chunks(sky *s, const sky_key *key, sky_chunk_copy *places,
                                size_t count_max, sky_chunk_report *out) {
    const sky_session *session = sky__tier_session(s);
    sky_key name = sky__tier_sky_name(s, key);
    sky_session_entry e;
    sky_reach_stat w;
    sky_mutex_lock(&s->world_lock);
    uint32_t block = sky_index_find(sky_session_index(session), &name);
    if (block == SKY_BLOCK_NONE) {
        sky_mutex_unlock(&s->world_lock);
        return SKY_MISS;
    }
    sky_session_look(session, block, &e);
    s->reach->ops->stats(s->reach, &w);
    *out = (sky_chunk_report){.chunks = e.info.chunk_count,
                              .copies = sky_session_copies(session),
                              .parity = s->scenario.parity,
                              .bytes = e.info.payload_bytes,
                              .set_ms = s->reach->ops->wall_ms(s->reach, e.info.set_ms),
                              .rotations = e.turns,
                              .overhead = w.overhead};
    for (size_t i = 0; i < count_max && i < (size_t)out->chunks * out->copies; i++) {
        uint32_t number = (uint32_t)(i / out->copies) + 1, copy = (uint32_t)(i % out->copies);
        places[i] = (sky_chunk_copy){.number = number,
                                     .copy = copy + 1,
                                     .satellite = sky_session_home(session, block, number, copy)};
    }
    sky_mutex_unlock(&s->world_lock);
    return SKY_OK;
}

/* One batch, of an item for each, is what guards `places`. */
static sky_status ask_chunks(sky *s, const sky_key *key, sky_time until, sky_chunk_copy *places,
                             size_t count) {
    sky_item *items = calloc(count, sizeof *items);
    sky_batch batch;
    if (!items)
        return SKY_E_NOMEM;
    for (size_t i = 0; i < count; i++)
        items[i].key = *key;
    const sky__tier_job kind = {.op = SKY_OP_HAS, .item_count = count, .probed = places};
    sky_status status = sky__tier_queue(s, kind, items, until, &batch);
    if (status == SKY_OK)
        sky_batches_wait(s->tier.batches, batch, SKY_TIME_NEVER);
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        if (items[i].status == SKY_E_DEADLINE)
            status = SKY_E_DEADLINE;
    free(items);
    return status;
}

/* Chunks that are there and have no other to replace them: of places[count], copies together. */
static uint32_t on_the_last(const sky *s, const sky_chunk_copy *places, size_t count,
                            const sky_chunk_report *r) {
    const sky_stripes stripes = {s->scenario.placement.servers - r->parity, r->parity};
    const uint32_t data_chunks = r->parity && s->scenario.chunk_bytes
                                     ? (uint32_t)((r->bytes + s->scenario.chunk_bytes - 1) /
                                                  s->scenario.chunk_bytes)
                                     : r->chunks;
    uint32_t last = 0;
    for (uint32_t first = 1; first <= r->chunks;) {
        sky_stripe stripe = sky_stripe_of(&stripes, data_chunks, first);
        uint32_t pieces = r->parity ? stripe.pieces : 1, needed = r->parity ? stripe.data : 1;
        uint32_t live = 0, here = 0;
        for (uint32_t i = 0; i < pieces; i++) {
            uint32_t copies = 0;
            size_t at = (size_t)(first - 1 + i) * r->copies;
            for (size_t copy = at; copy < at + r->copies && copy < count; copy++)
                copies += places[copy].live;
            live += copies;
            here += copies > 0;
        }
        last += here >= needed && live == needed ? here : 0;
        first += pieces;
    }
    return last;
}

sky_status sky_sky_tier_chunks(sky_tier *tier, const sky_key *key, sky_time until,
                               sky_chunk_copy *places, size_t count_max, sky_chunk_report *out) {
    sky *s = sky__tier_of(tier);
    if (!s)
        return SKY_E_PARAM;
    sky_chunk_report found = {0};
    sky_status status = find_value(tier, key, until);
    if (status == SKY_OK)
        status = expect_chunks(s, key, places, count_max, &found);
    size_t there = (size_t)found.chunks * found.copies, count = there;
    count = count < count_max ? count : count_max;
    count = count < SKY_BATCH_ITEMS_MAX ? count : SKY_BATCH_ITEMS_MAX;
    if (status == SKY_OK && count > 0)
        status = ask_chunks(s, key, until, places, count);
    for (size_t i = 0; status == SKY_OK && i < count; i += found.copies) {
        bool live = false, silent = false;
        for (size_t copy = i; copy < i + found.copies && copy < count; copy++) {
            live |= places[copy].live;
            silent |= places[copy].silent;
        }
        found.live += live;
        found.silent += !live && silent;
    }
    if (status == SKY_OK && (found.copies > 1 || found.parity > 0))
        found.last = on_the_last(s, places, count, &found);
    if (status == SKY_OK)
        *out = found;
    return status;
}
