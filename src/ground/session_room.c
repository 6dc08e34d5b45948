/* The session's index and the room it keeps in the sky: what is where, counted by place.
 *
 * A place turns with the sky: its plane and its slot, unwrapped, modulo the window's sides. What is
 * in one place now stays together for ever, so chunks are counted by place and no satellite is ever
 * asked how full it is. Where nothing turns a place is a server, or, where blocks wait anywhere, a
 * satellite.
 *
 * Surprise: a block parked for a time to come is counted where it will be then; the satellites it
 * waits on hold nothing else of ours. Heads are counted in every place, for they visit all. */
#include <assert.h>
#include <string.h>

#include <skymem/keys.h>

#include "ground/session_state.h"

/* ---- places ---- */

void sky__places_number(sky_session *s) {
    const sky_frame *f = s->config.frame;
    const sky_placement *p = &f->placement;
    const sky_constellation *c = &f->constellation;
    for (uint32_t i = 0; i < s->servers; i++) {
        sky_satellite at = f->servers[i];
        if (!sky_strategy_row_of(p->strategy)->migrates) {
            s->rows_of[i] = i;
            continue;
        }
        s->rows_of[i] = (at.plane + c->planes - f->centre.plane + p->window_planes / 2) % c->planes;
        s->columns_of[i] = (at.slot + c->slots - f->centre.slot + p->window_slots / 2) % c->slots;
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

static uint32_t place_number(const sky_session *s, const sky_block_info *info, uint32_t server) {
    const sky_frame *f = s->config.frame;
    const sky_placement *p = &f->placement;
    const sky_strategy_row *strategy = sky_strategy_row_of(p->strategy);
    const sky_satellite centre = {info->centre_plane, info->centre_slot};
    uint32_t row = s->rows_of[server - 1];
    if (strategy->foresees)
        return sky_frame_number(f, sky_frame_first(f, centre, server));
    if (!strategy->migrates)
        return row;
    sky_steps turned = sky_turned(&f->turning, sky_turns_at_ms(&f->turning, info->set_ms));
    return on_ring(row + turned.planes, p->window_planes) * p->window_slots +
           on_ring(s->columns_of[server - 1] + turned.slots, p->window_slots);
}

/* ---- chunks ---- */

uint32_t sky__data_chunks(const sky_session *s, uint32_t payload_bytes) {
    uint32_t size = s->config.chunk_bytes;
    return payload_bytes / size + (payload_bytes % size != 0);
}

uint32_t sky__chunk_length(const sky_session *s, uint32_t payload_bytes, uint32_t number) {
    if (number == 0)
        return SKY_HEAD_BYTES;
    uint32_t chunks = sky__data_chunks(s, payload_bytes);
    uint32_t data = sky_stripes_data_number(&s->stripes, chunks, number);
    if (data == 0) /* parity is as long as its stripe's first */
        data = sky_stripes_data_number(&s->stripes, chunks,
                                       sky_stripe_of(&s->stripes, chunks, number).first);
    uint64_t begin = (uint64_t)(data - 1) * s->config.chunk_bytes;
    uint64_t left = payload_bytes - begin;
    return left < s->config.chunk_bytes ? (uint32_t)left : s->config.chunk_bytes;
}

uint32_t sky__server_of(const sky_session *s, uint32_t number, uint32_t copy) {
    return sky_frame_server(s->config.frame, number, s->config.replicas, copy);
}

/* Chunks of one copy of a block that are on its server `server`, from 1. */
uint32_t sky__chunks_on(const sky_session *s, uint32_t chunks, uint32_t server) {
    return (chunks + s->servers - server) / s->servers;
}

/* What is the same for all chunks of a block. */
sky_chunk_facts sky__block_facts(const sky_session *s, const sky_block_info *info, bool pinned) {
    const sky_placement *p = &s->config.frame->placement;
    return (sky_chunk_facts){.set_ms = info->set_ms,
                             .centre = {info->centre_plane, info->centre_slot},
                             .chunk_count = info->chunk_count,
                             .window_planes = (uint16_t)p->window_planes,
                             .window_slots = (uint16_t)p->window_slots,
                             .strategy = p->strategy,
                             .pinned = pinned,
                             .copies = s->config.replicas,
                             .spare = s->config.replicas > 1 || s->config.parity > 0};
}

/* Where chunks have company, heads have it too: as many satellites may go with theirs, as far as
 * the sky is wide. */
uint32_t sky__head_copies(const sky_session_config *c) {
    uint32_t wanted = c->parity + 1 > c->replicas ? c->parity + 1u : c->replicas;
    uint32_t room = sky_frame_heads_max(c->frame);
    return wanted < room ? wanted : room;
}

/* The head lies in a window one satellite wide, on whatever is overhead or, a copy, beside it, and
 * that from the start of time: whoever looks for it does not know when its block was set, or for
 * when. */
static void head_facts(const sky_frame *f, sky_chunk_facts *facts, uint32_t copy) {
    facts->set_ms = f->turning.start_ms;
    facts->centre = facts->first = facts->next = sky_frame_head(f, copy);
    if (!sky_strategy_row_of(facts->strategy)->windowed)
        return;
    facts->window_planes = facts->window_slots = 1;
    if (!sky_strategy_row_of(facts->strategy)->migrates)
        facts->strategy = SKY_PLACE_ROTATION_HOP; /* heads turn with the sky in any case */
}

void sky__facts_of(const sky_session *s, sky_chunk_facts *facts, uint32_t number, uint32_t copy) {
    const sky_frame *f = s->config.frame;
    if (number == 0) {
        facts->copies = (uint8_t)s->head_copies;
        head_facts(f, facts, copy);
        return;
    }
    uint32_t after = number < facts->chunk_count ? number + 1 : 1;
    facts->first = sky_frame_first(f, facts->centre, sky__server_of(s, number, copy));
    facts->next = sky_frame_first(f, facts->centre, sky__server_of(s, after, copy));
}

static void add_place(sky_satellite places[SKY__PLACES_MAX], uint32_t *count, sky_satellite place) {
    for (uint32_t i = 0; i < *count; i++) {
        if (sky_satellite_equal(places[i], place))
            return;
    }
    places[(*count)++] = place;
}

/* Where a chunk may be: at its place, if it is on its way still at the place before, where clocks
 * differ it may have left for the next one early; and if the block was moved and the chunk did not
 * hear of it, in its old home. */
uint32_t sky__places(const sky_session *s, sky_time now, const sky_chunk_facts *facts,
                     const sky__home *before, uint32_t server,
                     sky_satellite places[SKY__PLACES_MAX]) {
    uint64_t turns = sky__turns(s, now);
    uint32_t count = 0;
    sky_satellite place;
    add_place(places, &count, sky_session_place(s, facts, turns));
    if (sky_session_place_before(s, facts, turns, &place))
        add_place(places, &count, place);
    sky_time turn_in = sky_turn_begins(&s->config.frame->turning, turns + 1) - now;
    if (turn_in <= 2 * s->config.skew_ns)
        add_place(places, &count, sky_session_place(s, facts, turns + 1));
    if (before && before->set_ms) {
        sky_chunk_facts old = *facts;
        old.set_ms = before->set_ms;
        old.centre = before->centre;
        old.first = sky_frame_first(s->config.frame, before->centre, server);
        add_place(places, &count, sky_session_place(s, &old, turns));
        if (sky_session_place_before(s, &old, turns, &place))
            add_place(places, &count, place);
    }
    return count;
}

void sky__last_places(const sky_session *s, sky_time now, const sky_chunk_facts *facts,
                      sky_satellite places[SKY__PLACES_MAX], uint32_t *count) {
    const sky_turning *turning = &s->config.frame->turning;
    uint64_t turns = sky__turns(s, now), set = sky_turns_at_ms(turning, facts->set_ms);
    for (uint64_t back = 2; back <= SKY__LAST_TURNS && set + back <= turns; back++)
        add_place(places, count, sky_session_place(s, facts, turns - back));
}

bool sky__may_give_up(sky_session *s, sky_time now, sky_satellite who, const sky_chunk_id *id) {
    uint32_t block = sky_index_find(s->index, &id->key);
    if (block == SKY_BLOCK_NONE)
        return true;
    const sky__side *side = &s->sides[block];
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    if (id->version != (id->number ? side->version : side->head_version) ||
        id->number > info.chunk_count)
        return true;
    sky_chunk_id its;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_satellite places[SKY__PLACES_MAX];
    sky_session_chunk(s, block, id->number, &its, &facts, &bytes);
    uint32_t copies = id->number ? s->config.replicas : s->head_copies;
    for (uint32_t copy = 0; copy < copies; copy++) {
        sky__facts_of(s, &facts, id->number, copy);
        uint32_t server = id->number ? sky__server_of(s, id->number, copy) : 0;
        uint32_t count = sky__places(s, now, &facts, server ? &side->before : NULL, server, places);
        for (uint32_t i = 0; i < count; i++) {
            if (sky_satellite_equal(who, places[i]))
                return true;
        }
    }
    sky__suspect(s, who);
    return false;
}

/* ---- room ---- */

void sky__load(sky_session *s, const sky_block_info *info, bool add) {
    for (uint32_t server = 1; server <= s->servers && server <= info->chunk_count; server++) {
        uint32_t chunks = sky__chunks_on(s, info->chunk_count, server);
        for (uint32_t copy = 0; copy < s->config.replicas; copy++) {
            uint32_t *at = &s->loads[place_number(s, info, sky__server_of(s, server, copy))];
            *at = add ? *at + chunks : *at - chunks;
        }
    }
}

void sky__load_head(sky_session *s, bool add) {
    if (s->config.lookup != SKY_LOOKUP_INDEX)
        s->heads = add ? s->heads + 1 : s->heads - 1;
}

static uint32_t heads_with_one_more(const sky_session *s) {
    return s->config.lookup != SKY_LOOKUP_INDEX ? s->heads + 1 : 0;
}

/* What all copies of a block put on one server: the most any server gets, for the first ones. */
static uint32_t chunks_most(const sky_session *s, uint32_t chunks) {
    uint32_t most = 0;
    for (uint32_t copy = 0; copy < s->config.replicas; copy++)
        most += sky__chunks_on(s, chunks, 1);
    return most;
}

static bool fits(const sky_session *s, const sky_block_info *info) {
    uint32_t heads = heads_with_one_more(s);
    for (uint32_t server = 1; server <= s->servers; server++) {
        uint64_t held = s->loads[place_number(s, info, server)];
        uint64_t added = 0;
        for (uint32_t copy = 0; copy < s->config.replicas; copy++) {
            uint32_t apart = s->servers / s->config.replicas * copy;
            uint32_t source = (server - 1 + s->servers - apart) % s->servers + 1;
            added += sky__chunks_on(s, info->chunk_count, source);
        }
        if (added > 0 && held + added + heads > s->config.satellite_slots)
            return false;
    }
    return heads <= s->config.satellite_slots;
}

/* Would an empty sky hold it? */
bool sky__holdable(const sky_session *s, const sky_block_info *info) {
    uint32_t head = s->config.lookup != SKY_LOOKUP_INDEX;
    return info->chunk_count == 0 ||
           chunks_most(s, info->chunk_count) + head <= s->config.satellite_slots;
}

bool sky__make_room(sky_session *s, const sky_block_info *info, bool new_block) {
    while (!fits(s, info) || (new_block && sky_index_count(s->index) == s->config.blocks_max)) {
        uint32_t victim = sky_index_victim(s->index);
        if (victim == SKY_BLOCK_NONE)
            return false;
        s->stat.evicted += sky__purge(s, victim);
    }
    return true;
}

/* Satellites that may hold something at one time. */
static uint32_t places_at_once(const sky_session *s) {
    const sky_frame *f = s->config.frame;
    return sky_strategy_row_of(f->placement.strategy)->foresees ? f->satellite_count : s->servers;
}

uint64_t sky_session_bytes_max(const sky_session *s) {
    uint64_t chunks = (uint64_t)places_at_once(s) * s->config.satellite_slots / s->config.replicas;
    uint64_t data = chunks / (s->stripes.data + s->stripes.parity) * s->stripes.data;
    return (s->stripes.parity > 0 ? data : chunks) * s->config.chunk_bytes;
}

/* ---- blocks whose parent is not there yet ---- */

static void orphan_forget(sky_session *s, uint32_t block) {
    sky__side *side = &s->sides[block];
    if (!side->orphan)
        return;
    side->orphan = false;
    if (side->orphan_before == SKY__NONE)
        s->orphans = side->orphan_after;
    else
        s->sides[side->orphan_before].orphan_after = side->orphan_after;
    if (side->orphan_after != SKY__NONE)
        s->sides[side->orphan_after].orphan_before = side->orphan_before;
}

static void orphan_add(sky_session *s, uint32_t block) {
    sky__side *side = &s->sides[block];
    side->orphan = true;
    side->orphan_before = SKY__NONE;
    side->orphan_after = s->orphans;
    if (s->orphans != SKY__NONE)
        s->sides[s->orphans].orphan_before = block;
    s->orphans = block;
}

static void orphans_adopt(sky_session *s, const sky_key *parent) {
    for (uint32_t next, at = s->orphans; at != SKY__NONE; at = next) {
        next = s->sides[at].orphan_after;
        if (!sky_key_equal(&s->sides[at].parent, parent))
            continue;
        orphan_forget(s, at);
        /* A circle of parents can only be made by hand; such a block stays alone. */
        (void)sky_index_adopt(s->index, &s->sides[at].key, parent);
    }
}

/* ---- blocks that come and go ---- */

sky_block_info sky__info_at(const sky_block_info *info, const sky__home *home) {
    sky_block_info there = *info;
    there.set_ms = home->set_ms;
    there.centre_plane = (uint16_t)home->centre.plane;
    there.centre_slot = (uint16_t)home->centre.slot;
    return there;
}

/* What counted a block no longer does: its chunks in one home or, while it moves, in both. */
static void unload(sky_session *s, const sky__side *side, const sky_block_info *info) {
    sky__load(s, info, false);
    if (side->head_version)
        sky__load_head(s, false);
    if (side->moving) {
        sky_block_info there = sky__info_at(info, &side->before);
        sky__load(s, &there, false);
    }
    s->stat.bytes -= info->payload_bytes;
}

static void drop(sky_session *s, const sky__side *side, const sky_block_info *info) {
    sky__row_push(s, SKY_WIRE_DROP, side, info, false);
    if (side->before.set_ms == 0)
        return;
    sky_block_info there = sky__info_at(info, &side->before);
    sky__row_push(s, SKY_WIRE_DROP, side, &there, false);
}

/* A block that lost a chunk: by us, or by the satellites among themselves. Its head in any case. */
static void clear_away(sky_session *s, const sky__side *side, const sky_block_info *info) {
    const uint32_t theirs = SKY_EVICT_GOSSIP | SKY_EVICT_SWEEP;
    bool moved = side->before.set_ms != 0; /* such a one they leave alone: rows.c */
    if (moved || s->config.eviction & SKY_EVICT_LAZY || !(s->config.eviction & theirs))
        drop(s, side, info); /* or nobody would */
    else
        sky__purge_push(s, side, info);
}

typedef struct {
    sky_session *session;
    uint32_t lost; /* block: a chunk of it is, and the satellites may see to the rest themselves */
} removal;

static void gone(void *context, uint32_t block, const sky_block_info *info) {
    const removal *r = context;
    sky_session *s = r->session;
    sky__side *side = &s->sides[block];
    orphan_forget(s, block);
    unload(s, side, info);
    if (r->lost == SKY_BLOCK_NONE)
        drop(s, side, info);
    else if (!side->hearsay && block != r->lost)
        drop(s, side, info); /* whole, as far as we know: no satellite would find out */
    else if (!side->hearsay)
        clear_away(s, side, info);
    side->version = 0;
    if (s->config.forgotten)
        s->config.forgotten(s->config.host, block, &side->key);
}

size_t sky__purge(sky_session *s, uint32_t block) {
    removal r = {.session = s, .lost = SKY_BLOCK_NONE};
    return sky_index_remove(s->index, block, gone, &r);
}

size_t sky__purge_lost(sky_session *s, uint32_t block) {
    removal r = {.session = s, .lost = block};
    size_t count = sky_index_remove(s->index, block, gone, &r);
    s->stat.purged += count;
    return count;
}

/* The block under a key, all 32 bytes of it; blocks past their time go. */
uint32_t sky__find_block(sky_session *s, int64_t wall_ms, const sky_key *key) {
    uint32_t block = sky_index_find(s->index, key);
    if (block == SKY_BLOCK_NONE || !sky_key_equal(&s->sides[block].key, key))
        return SKY_BLOCK_NONE;
    if (s->sides[block].expires_ms <= wall_ms) {
        sky__purge(s, block);
        return SKY_BLOCK_NONE;
    }
    return block;
}

/* What the block was before goes; its number and its pin stay. It may be what it is now: a head of
 * ours was found in the sky before we heard that it is there. */
static void retire(sky_session *s, uint32_t block, const sky_block_info *old, uint64_t version) {
    sky__side side = s->sides[block];
    orphan_forget(s, block);
    unload(s, &side, old);
    side.head_version = 0; /* the new head took its place */
    if (side.version != version)
        drop(s, &side, old);
}

sky_status sky__block_enter(sky_session *s, const sky_block_info *info, const sky__side *made,
                            uint32_t *block) {
    *block = sky_index_find(s->index, &made->key);
    bool fresh = *block == SKY_BLOCK_NONE;
    sky_block_info old;
    if (!fresh)
        sky_index_info(s->index, *block, &old);
    else
        while (sky_index_count(s->index) == s->config.blocks_max &&
               sky_index_victim(s->index) != SKY_BLOCK_NONE)
            s->stat.evicted += sky__purge(s, sky_index_victim(s->index));
    const sky_key *parent = sky_key_is_zero(&made->parent) ? NULL : &made->parent;
    sky_status status = sky_index_insert(s->index, &made->key, parent, info, block);
    if (status != SKY_OK)
        return status;
    if (!fresh)
        retire(s, *block, &old, made->version);
    bool pinned = !fresh && s->sides[*block].pinned;
    s->sides[*block] = *made;
    s->sides[*block].pinned = pinned;
    if (parent && sky_index_parent(s->index, *block) == SKY_BLOCK_NONE)
        orphan_add(s, *block);
    orphans_adopt(s, &made->key);
    s->stat.bytes += info->payload_bytes;
    return SKY_OK;
}
