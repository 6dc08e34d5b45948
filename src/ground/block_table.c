#include "ground/block_table.h"

#include <stdlib.h>

#include <skymem/keys.h>

/* ---- places ---- */

static void number_places(sky__block_table *t) {
    const sky_frame *f = t->core->config.frame;
    const sky_placement *p = &f->placement;
    const sky_constellation *c = &f->constellation;
    for (uint32_t i = 0; i < t->core->servers; i++) {
        sky_satellite at = f->servers[i];
        if (!sky_strategy_row_of(p->strategy)->migrates) {
            t->rows_of[i] = i;
            continue;
        }
        t->rows_of[i] = (at.plane + c->planes - f->centre.plane + p->window_planes / 2) % c->planes;
        t->columns_of[i] = (at.slot + c->slots - f->centre.slot + p->window_slots / 2) % c->slots;
    }
}

uint32_t sky__places_count(const sky_frame *f) {
    const sky_placement *p = &f->placement;
    const sky_strategy_row *row = sky_strategy_row_of(p->strategy);
    if (row->foresees)
        return f->satellite_count;
    return row->migrates ? p->window_planes * p->window_slots : p->servers;
}

static uint32_t on_ring(int64_t at, uint32_t count) {
    int64_t rest = at % (int64_t)count;
    return (uint32_t)(rest < 0 ? rest + (int64_t)count : rest);
}

static uint32_t place_number(const sky__block_table *t, const sky_block_info *info,
                             uint32_t server) {
    const sky_frame *f = t->core->config.frame;
    const sky_placement *p = &f->placement;
    const sky_strategy_row *strategy = sky_strategy_row_of(p->strategy);
    const sky_satellite centre = {info->centre_plane, info->centre_slot};
    uint32_t row = t->rows_of[server - 1];
    if (strategy->foresees)
        return sky_frame_number(f, sky_frame_first(f, centre, server));
    if (!strategy->migrates)
        return row;
    sky_steps turned = sky_turned(&f->turning, sky_turns_at_ms(&f->turning, info->set_ms));
    return on_ring(row + turned.planes, p->window_planes) * p->window_slots +
           on_ring(t->columns_of[server - 1] + turned.slots, p->window_slots);
}

/* ---- life ---- */

sky_status sky__blocks_init(sky__block_table *t, sky__core *core, sky__bulk *bulk) {
    *t = (sky__block_table){.core = core, .bulk = bulk, .orphans = SKY__NONE};
    t->rows = calloc(core->config.blocks_max, sizeof *t->rows);
    t->loads = calloc(sky__places_count(core->config.frame), sizeof *t->loads);
    t->rows_of = calloc(core->servers, sizeof *t->rows_of);
    t->columns_of = calloc(core->servers, sizeof *t->columns_of);
    if (!t->rows || !t->loads || !t->rows_of || !t->columns_of)
        return SKY_E_NOMEM;
    number_places(t);
    return sky_index_create(core->config.blocks_max, &t->index);
}

void sky__blocks_deinit(sky__block_table *t) {
    sky_index_destroy(t->index);
    free(t->rows);
    free(t->loads);
    free(t->rows_of);
    free(t->columns_of);
}

/* ---- room ---- */

void sky__blocks_load(sky__block_table *t, const sky_block_info *info, bool add) {
    for (uint32_t server = 1; server <= t->core->servers && server <= info->chunk_count; server++) {
        uint32_t chunks = sky__chunks_on(t->core, info->chunk_count, server);
        for (uint32_t copy = 0; copy < t->core->config.replicas; copy++) {
            uint32_t *at = &t->loads[place_number(t, info, sky__server_of(t->core, server, copy))];
            *at = add ? *at + chunks : *at - chunks;
        }
    }
}

void sky__blocks_load_head(sky__block_table *t, bool add) {
    if (t->core->config.lookup != SKY_LOOKUP_INDEX)
        t->heads = add ? t->heads + 1 : t->heads - 1;
}

static uint32_t heads_with_one_more(const sky__block_table *t) {
    return t->core->config.lookup != SKY_LOOKUP_INDEX ? t->heads + 1 : 0;
}

/* What all copies of a block put on one server: the most any server gets, for the first ones. */
static uint32_t chunks_most(const sky__block_table *t, uint32_t chunks) {
    uint32_t most = 0;
    for (uint32_t copy = 0; copy < t->core->config.replicas; copy++)
        most += sky__chunks_on(t->core, chunks, 1);
    return most;
}

static bool block_fits(const sky__block_table *t, const sky_block_info *info) {
    uint32_t heads = heads_with_one_more(t);
    for (uint32_t server = 1; server <= t->core->servers; server++) {
        uint64_t held = t->loads[place_number(t, info, server)];
        uint64_t added = 0;
        for (uint32_t copy = 0; copy < t->core->config.replicas; copy++) {
            uint32_t apart = t->core->servers / t->core->config.replicas * copy;
            uint32_t source = (server - 1 + t->core->servers - apart) % t->core->servers + 1;
            added += sky__chunks_on(t->core, info->chunk_count, source);
        }
        if (added > 0 && held + added + heads > t->core->config.satellite_slots)
            return false;
    }
    return heads <= t->core->config.satellite_slots;
}

bool sky__blocks_holdable(const sky__block_table *t, const sky_block_info *info) {
    uint32_t head = t->core->config.lookup != SKY_LOOKUP_INDEX;
    return info->chunk_count == 0 ||
           chunks_most(t, info->chunk_count) + head <= t->core->config.satellite_slots;
}

/* One whose put is under way counts twice, and its chunks are that put's. */
static void evict_block(sky__block_table *t, uint32_t victim) {
    size_t count = 1;
    if (t->rows[victim].being_put)
        sky__blocks_forget(t, victim);
    else
        count = sky__blocks_remove(t, victim);
    t->core->stat.evicted += count;
}

bool sky__blocks_make_room(sky__block_table *t, const sky_block_info *info, bool new_block) {
    while (!block_fits(t, info) ||
           (new_block && sky_index_count(t->index) == t->core->config.blocks_max)) {
        uint32_t victim = sky_index_victim(t->index);
        if (victim == SKY_BLOCK_NONE)
            return false;
        evict_block(t, victim);
    }
    return true;
}

/* Satellites that may hold something at one time. */
static uint32_t places_at_once(const sky__block_table *t) {
    const sky_frame *f = t->core->config.frame;
    return sky_strategy_row_of(f->placement.strategy)->foresees ? f->satellite_count
                                                                : t->core->servers;
}

uint64_t sky__blocks_bytes_max(const sky__block_table *t) {
    uint64_t chunks = (uint64_t)places_at_once(t) * t->core->config.satellite_slots /
                      t->core->config.replicas;
    uint64_t data = chunks / (t->core->stripes.data + t->core->stripes.parity) *
                    t->core->stripes.data;
    return (t->core->stripes.parity > 0 ? data : chunks) * t->core->config.chunk_bytes;
}

/* ---- blocks whose parent is not there yet ---- */

static void orphan_forget(sky__block_table *t, uint32_t block) {
    sky__block_row *row = &t->rows[block];
    if (!row->orphan)
        return;
    row->orphan = false;
    if (row->orphan_before == SKY__NONE)
        t->orphans = row->orphan_after;
    else
        t->rows[row->orphan_before].orphan_after = row->orphan_after;
    if (row->orphan_after != SKY__NONE)
        t->rows[row->orphan_after].orphan_before = row->orphan_before;
}

static void orphan_add(sky__block_table *t, uint32_t block) {
    sky__block_row *row = &t->rows[block];
    row->orphan = true;
    row->orphan_before = SKY__NONE;
    row->orphan_after = t->orphans;
    if (t->orphans != SKY__NONE)
        t->rows[t->orphans].orphan_before = block;
    t->orphans = block;
}

static void orphans_adopt(sky__block_table *t, const sky_key *parent) {
    for (uint32_t next, at = t->orphans; at != SKY__NONE; at = next) {
        next = t->rows[at].orphan_after;
        if (!sky_key_equal(&t->rows[at].parent, parent))
            continue;
        orphan_forget(t, at);
        /* A circle of parents can only be made by hand; such a block stays alone. */
        (void)sky_index_adopt(t->index, &t->rows[at].key, parent);
    }
}

/* ---- blocks that come and go ---- */

/* What counted a block no longer does: its chunks in one epoch or, while it moves, in both. */
static void unload_block(sky__block_table *t, const sky__block_row *row,
                         const sky_block_info *info) {
    sky__blocks_load(t, info, false);
    if (row->head_version)
        sky__blocks_load_head(t, false);
    if (row->moving) {
        sky_block_info there = sky__info_at(info, &row->before);
        sky__blocks_load(t, &there, false);
    }
    t->core->stat.bytes -= info->payload_bytes;
}

static void drop_block(sky__block_table *t, const sky__block_row *row, const sky_block_info *info) {
    const sky_chunk_id id = {.key = row->key, .version = row->version};
    sky__bulk_push(t->bulk, SKY_WIRE_DROP, &id, row->head_version, info, false);
    if (row->before.set_ms == 0)
        return;
    sky_block_info there = sky__info_at(info, &row->before);
    sky__bulk_push(t->bulk, SKY_WIRE_DROP, &id, row->head_version, &there, false);
}

/* A block that lost a chunk: by us, or by the satellites among themselves. Its head in any case. */
static void clear_away(sky__block_table *t, const sky__block_row *row, const sky_block_info *info) {
    const uint32_t theirs = SKY_EVICT_GOSSIP | SKY_EVICT_SWEEP, how = t->core->config.eviction;
    const sky_chunk_id id = {.key = row->key, .version = row->version};
    bool moved = row->before.set_ms != 0; /* such a one they leave alone: move.c */
    if (moved || how & SKY_EVICT_LAZY || !(how & theirs))
        drop_block(t, row, info); /* or nobody would */
    else
        sky__bulk_purge(t->bulk, &id, row->head_version, info);
}

typedef struct {
    sky__block_table *table;
    uint32_t lost; /* block: a chunk of it is, and the satellites may see to the rest themselves */
    uint32_t kept; /* block: what the sky has of it is the caller's to drop */
} removal;

static void block_gone(void *context, uint32_t block, const sky_block_info *info) {
    const removal *r = context;
    sky__block_table *t = r->table;
    sky__block_row *row = &t->rows[block];
    orphan_forget(t, block);
    unload_block(t, row, info);
    bool unknown = r->lost != SKY_BLOCK_NONE && row->unverified;
    if (block == r->lost && !unknown)
        clear_away(t, row, info);
    else if (block != r->kept && !unknown)
        drop_block(t, row, info); /* whole, as far as we know: no satellite would find out */
    (void)sky__block_ended(t->core, row->version);
    row->version = 0;
    if (t->core->config.forgotten)
        t->core->config.forgotten(t->core->config.host, block, &row->key);
}

size_t sky__blocks_remove(sky__block_table *t, uint32_t block) {
    removal r = {.table = t, .lost = SKY_BLOCK_NONE, .kept = SKY_BLOCK_NONE};
    return sky_index_remove(t->index, block, block_gone, &r);
}

void sky__blocks_forget(sky__block_table *t, uint32_t block) {
    removal r = {.table = t, .lost = SKY_BLOCK_NONE, .kept = block};
    (void)sky_index_remove(t->index, block, block_gone, &r);
}

size_t sky__blocks_lose(sky__block_table *t, uint32_t block) {
    removal r = {.table = t, .lost = block, .kept = SKY_BLOCK_NONE};
    size_t count = sky_index_remove(t->index, block, block_gone, &r);
    t->core->stat.purged += count;
    return count;
}

uint32_t sky__blocks_find(sky__block_table *t, int64_t wall_ms, const sky_key *key) {
    uint32_t block = sky_index_find(t->index, key);
    if (block == SKY_BLOCK_NONE || !sky_key_equal(&t->rows[block].key, key))
        return SKY_BLOCK_NONE;
    if (t->rows[block].expires_ms <= wall_ms) {
        sky__blocks_remove(t, block);
        return SKY_BLOCK_NONE;
    }
    return block;
}

/* What the block was before goes; its number and its pin stay. It may be what it is now: a head of
 * ours was found in the sky before we heard that it is there. */
static void retire_block(sky__block_table *t, uint32_t block, const sky_block_info *old,
                         uint64_t version) {
    sky__block_row row = t->rows[block];
    orphan_forget(t, block);
    unload_block(t, &row, old);
    row.head_version = 0; /* the new head took its place */
    if (row.version != version && !row.being_put)
        drop_block(t, &row, old);
}

sky_status sky__blocks_enter(sky__block_table *t, const sky_block_info *info,
                             const sky__block_row *made, uint32_t *block) {
    *block = sky_index_find(t->index, &made->key);
    bool fresh = *block == SKY_BLOCK_NONE;
    sky_block_info old;
    if (!fresh)
        sky_index_info(t->index, *block, &old);
    else
        while (sky_index_count(t->index) == t->core->config.blocks_max &&
               sky_index_victim(t->index) != SKY_BLOCK_NONE)
            evict_block(t, sky_index_victim(t->index));
    const sky_key *parent = sky_key_is_zero(&made->parent) ? NULL : &made->parent;
    sky_status status = sky_index_insert(t->index, &made->key, parent, info, block);
    if (status != SKY_OK)
        return status;
    if (!fresh)
        retire_block(t, *block, &old, made->version);
    bool pinned = !fresh && t->rows[*block].pinned;
    t->rows[*block] = *made;
    t->rows[*block].pinned = pinned;
    if (parent && sky_index_parent(t->index, *block) == SKY_BLOCK_NONE)
        orphan_add(t, *block);
    orphans_adopt(t, &made->key);
    t->core->stat.bytes += info->payload_bytes;
    return SKY_OK;
}

sky__subject sky__blocks_subject(const sky__block_table *t, uint32_t block) {
    const sky__block_row *row = &t->rows[block];
    sky__subject of = {.id = {.key = row->key, .version = row->version}, .before = row->before};
    sky_index_info(t->index, block, &of.info);
    of.facts = sky__block_facts(t->core, &of.info, row->pinned);
    of.facts.moves = row->moves;
    return of;
}

void sky__blocks_mend_heads(sky__block_table *t, uint32_t block) {
    sky__block_row *row = &t->rows[block];
    const sky_chunk_id id = {.key = row->key, .version = row->version};
    sky__bulk_heads(t->bulk, &id, row->head_version, row->heads_lost);
    row->heads_lost = 0;
}

uint64_t sky__blocks_head_version(sky__block_table *t, int64_t set_ms) {
    uint8_t ground = (uint8_t)t->core->config.session_id;
    uint64_t version = (uint64_t)set_ms << 16 | ground;
    if (version <= t->head_version)
        version = (t->head_version & ~(uint64_t)0xff) + 0x100 + ground;
    t->head_version = version;
    return version;
}

uint64_t sky__blocks_head_moved(sky__block_table *t, uint64_t head_version) {
    uint8_t ground = (uint8_t)t->core->config.session_id;
    uint64_t version = (head_version & ~(uint64_t)0xff) + 0x100 + ground;
    t->head_version = version > t->head_version ? version : t->head_version;
    return version;
}

bool sky__blocks_may_give_up(const sky__block_table *t, sky_satellite by, const sky_chunk_id *id) {
    const sky__core *c = t->core;
    uint32_t block = sky_index_find(t->index, &id->key);
    if (block == SKY_BLOCK_NONE)
        return true;
    const sky__block_row *row = &t->rows[block];
    sky__subject of = sky__blocks_subject(t, block);
    if (id->version != (id->number ? row->version : row->head_version) ||
        id->number > of.info.chunk_count)
        return true;
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t copies = id->number ? c->config.replicas : c->head_copies;
    for (uint32_t copy = 0; copy < copies; copy++) {
        sky__facts_of(c, &of.facts, id->number, copy);
        uint32_t server = id->number ? sky__server_of(c, id->number, copy) : 0;
        uint32_t count = sky__places(c, &of.facts, server ? &of.before : NULL, server, places);
        for (uint32_t i = 0; i < count; i++) {
            if (sky_satellite_equal(by, places[i]))
                return true;
        }
    }
    return false;
}
