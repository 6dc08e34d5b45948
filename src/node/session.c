/* The session's requests, its index, and the room it keeps in the sky. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "node/session_state.h"

#define RESTARTS_MAX 3 /* of a get whose block was replaced under it */

/* ---- life ---- */

static void chain_all(sky_session *s) {
    for (uint32_t i = 0; i < s->config.requests_max; i++)
        s->requests[i].next = i + 1 < s->config.requests_max ? i + 1 : SKY__NONE;
    s->request_free = 0;
    s->gets = s->puts = s->done = s->again = (sky__list){SKY__NONE, SKY__NONE};
    s->operation_free = SKY__NONE;
    s->earliest = SKY_TIME_NEVER;
    s->orphans = SKY__NONE;
}

static void number_places(sky_session *s) {
    const sky_frame *f = s->config.frame;
    const sky_placement *p = &f->placement;
    const sky_constellation *c = &f->constellation;
    for (uint32_t i = 0; i < s->servers; i++) {
        sky_satellite at = f->servers[i];
        if (p->strategy == SKY_PLACE_HOP) {
            s->rows_of[i] = i;
            continue;
        }
        s->rows_of[i] = (at.plane + c->planes - f->centre.plane + p->window_planes / 2) % c->planes;
        s->columns_of[i] = (at.slot + c->slots - f->centre.slot + p->window_slots / 2) % c->slots;
    }
}

static uint32_t place_count(const sky_frame *f) {
    const sky_placement *p = &f->placement;
    return p->strategy == SKY_PLACE_HOP ? p->servers : p->window_planes * p->window_slots;
}

static bool take_memory(sky_session *s) {
    const sky_session_config *c = &s->config;
    s->row_max = c->blocks_max + 1;
    s->sides = calloc(c->blocks_max, sizeof *s->sides);
    s->loads = calloc(place_count(c->frame), sizeof *s->loads);
    s->rows_of = calloc(s->servers, sizeof *s->rows_of);
    s->columns_of = calloc(s->servers, sizeof *s->columns_of);
    s->requests = calloc(c->requests_max, sizeof *s->requests);
    s->operations = calloc(c->operations_max, sizeof *s->operations);
    s->rows = calloc(s->row_max, sizeof *s->rows);
    s->open_at = calloc(c->frame->satellite_count, sizeof *s->open_at);
    return s->sides && s->loads && s->rows_of && s->columns_of && s->requests && s->operations &&
           s->rows && s->open_at;
}

sky_status sky_session_create(const sky_session_config *config, sky_session **out) {
    if (config->chunk_bytes < 1 || config->chunk_bytes > SKY_WIRE_DATA_BYTES_MAX ||
        config->satellite_slots < 1 || config->link_bits_s < 1 || config->requests_max < 1 ||
        config->blocks_max < 1 || config->operations_max < 1 || config->operations_max > 1u << 20)
        return SKY_E_PARAM;
    sky_session *s = calloc(1, sizeof *s);
    if (!s)
        return SKY_E_NOMEM;
    s->config = *config;
    s->servers = config->frame->placement.servers;
    sky_status status = sky_index_create(config->blocks_max, &s->index);
    if (status == SKY_OK && !take_memory(s))
        status = SKY_E_NOMEM;
    if (status != SKY_OK) {
        sky_session_destroy(s);
        return status;
    }
    chain_all(s);
    number_places(s);
    *out = s;
    return SKY_OK;
}

void sky_session_destroy(sky_session *s) {
    if (!s)
        return;
    sky_index_destroy(s->index);
    free(s->sides);
    free(s->loads);
    free(s->rows_of);
    free(s->columns_of);
    free(s->requests);
    free(s->operations);
    free(s->rows);
    free(s->open_at);
    free(s);
}

/* ---- chains of requests ---- */

void sky__chain_append(sky_session *s, sky__list *list, uint32_t request) {
    s->requests[request].next = SKY__NONE;
    if (list->last == SKY__NONE)
        list->first = request;
    else
        s->requests[list->last].next = request;
    list->last = request;
}

uint32_t sky__chain_take(sky_session *s, sky__list *list) {
    uint32_t request = list->first;
    list->first = s->requests[request].next;
    if (list->first == SKY__NONE)
        list->last = SKY__NONE;
    return request;
}

static void chain_remove(sky_session *s, sky__list *list, uint32_t request) {
    uint32_t before = SKY__NONE;
    for (uint32_t i = list->first; i != SKY__NONE; before = i, i = s->requests[i].next) {
        if (i != request)
            continue;
        uint32_t after = s->requests[i].next;
        if (before == SKY__NONE)
            list->first = after;
        else
            s->requests[before].next = after;
        if (list->last == i)
            list->last = before;
        return;
    }
}

/* ---- chunks ---- */

uint32_t sky__chunk_length(const sky_session *s, uint32_t payload_bytes, uint32_t number) {
    uint64_t begin = (uint64_t)(number - 1) * s->config.chunk_bytes;
    uint64_t left = payload_bytes - begin;
    return left < s->config.chunk_bytes ? (uint32_t)left : s->config.chunk_bytes;
}

static uint32_t chunk_count(const sky_session *s, uint32_t payload_bytes) {
    uint32_t size = s->config.chunk_bytes;
    return payload_bytes / size + (payload_bytes % size != 0);
}

/* What is the same for all chunks of a block. */
static sky_chunk_facts block_facts(const sky_session *s, const sky_block_info *info, bool pinned) {
    const sky_placement *p = &s->config.frame->placement;
    return (sky_chunk_facts){.set_ms = info->set_ms,
                             .centre = {info->centre_plane, info->centre_slot},
                             .chunk_count = info->chunk_count,
                             .window_slots = (uint16_t)p->window_slots,
                             .strategy = p->strategy,
                             .pinned = pinned};
}

static void set_first(const sky_session *s, sky_chunk_facts *facts, uint32_t number) {
    facts->first = sky_frame_first(s->config.frame, facts->centre, (number - 1) % s->servers + 1);
}

void sky__chunk_facts(const sky_session *s, const sky__request *r, uint32_t number,
                      sky_chunk_id *id, sky_chunk_facts *facts) {
    *id = r->id;
    id->number = number;
    *facts = r->facts;
    set_first(s, facts, number);
}

/* ---- room ---- */

/* Chunks of a block on one server, from 1. */
static uint32_t chunks_on(const sky_session *s, uint32_t chunks, uint32_t server) {
    return (chunks - server) / s->servers + 1;
}

/* A place turns with the sky: its row of the window, and its slot, unwrapped, modulo the window's
 * width. What is in one place now stays together for ever. */
static uint32_t place_number(const sky_session *s, uint64_t set_turns, uint32_t server) {
    const sky_placement *p = &s->config.frame->placement;
    uint32_t row = s->rows_of[server - 1];
    if (p->strategy == SKY_PLACE_HOP)
        return row;
    uint32_t width = p->window_slots;
    uint32_t turned = (uint32_t)(set_turns % width);
    return row * width + (s->columns_of[server - 1] + width - turned) % width;
}

static uint64_t set_turns(const sky_session *s, const sky_block_info *info) {
    return sky_turns_at_ms(&s->config.frame->turning, info->set_ms);
}

static void load(sky_session *s, const sky_block_info *info, bool add) {
    uint64_t turns = set_turns(s, info);
    for (uint32_t server = 1; server <= s->servers && server <= info->chunk_count; server++) {
        uint32_t chunks = chunks_on(s, info->chunk_count, server);
        uint32_t *at = &s->loads[place_number(s, turns, server)];
        *at = add ? *at + chunks : *at - chunks;
    }
}

static bool fits(const sky_session *s, const sky_block_info *info) {
    uint64_t turns = set_turns(s, info);
    for (uint32_t server = 1; server <= s->servers && server <= info->chunk_count; server++) {
        uint64_t held = s->loads[place_number(s, turns, server)];
        if (held + chunks_on(s, info->chunk_count, server) > s->config.satellite_slots)
            return false;
    }
    return true;
}

uint64_t sky_session_bytes_max(const sky_session *s) {
    return (uint64_t)s->servers * s->config.satellite_slots * s->config.chunk_bytes;
}

/* ---- blocks that go ---- */

/* When the queue is full the satellites are not told: what they keep in vain their own LRU will
 * find. */
static void push_row(sky_session *s, sky_wire_type type, const sky__side *side,
                     const sky_block_info *info, bool pinned) {
    if (info->chunk_count == 0 || s->row_count == s->row_max)
        return;
    if (s->row_count == 0)
        s->row_first = 0;
    s->rows[(s->row_first + s->row_count++) % s->row_max] = (sky__row){
        .id = {.key = side->key, .version = side->version},
        .facts = block_facts(s, info, pinned),
        .type = type,
        .server = 1};
}

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

static void gone(void *context, uint32_t block, const sky_block_info *info) {
    sky_session *s = context;
    orphan_forget(s, block);
    load(s, info, false);
    s->stat.bytes -= info->payload_bytes;
    push_row(s, SKY_WIRE_DROP, &s->sides[block], info, false);
    s->sides[block].version = 0;
    if (s->config.forgotten)
        s->config.forgotten(s->config.host, block, &s->sides[block].key);
}

static size_t purge(sky_session *s, uint32_t block) {
    return sky_index_remove(s->index, block, gone, s);
}

/* Would an empty sky hold it? The first server has most chunks. */
static bool holdable(const sky_session *s, const sky_block_info *info) {
    return info->chunk_count == 0 ||
           chunks_on(s, info->chunk_count, 1) <= s->config.satellite_slots;
}

static bool make_room(sky_session *s, const sky_block_info *info, bool new_block) {
    while (!fits(s, info) || (new_block && sky_index_count(s->index) == s->config.blocks_max)) {
        uint32_t victim = sky_index_victim(s->index);
        if (victim == SKY_BLOCK_NONE)
            return false;
        s->stat.evicted += purge(s, victim);
    }
    return true;
}

/* ---- requests that end ---- */

static void unpin_parent(sky_session *s, sky__request *r) {
    if (r->parent_block != SKY__NONE && s->sides[r->parent_block].version == r->parent_version)
        sky_index_unpin(s->index, r->parent_block);
    r->parent_block = SKY__NONE;
}

/* A put that ends without being committed takes back what it sent. */
static void put_undo(sky_session *s, sky__request *r) {
    sky__side side = {.key = r->id.key, .version = r->id.version};
    load(s, &r->info, false);
    push_row(s, SKY_WIRE_DROP, &side, &r->info, false);
}

void sky__request_finish(sky_session *s, uint32_t request, sky_status status, uint64_t bytes) {
    sky__request *r = &s->requests[request];
    sky_op op = r->ask.op;
    if (r->state == REQUEST_RUNNING) {
        sky__operations_abandon(s, request);
        if (op == SKY_OP_PUT && status != SKY_OK)
            put_undo(s, r);
    }
    if (op == SKY_OP_PUT) {
        if (r->state == REQUEST_RUNNING) {
            unpin_parent(s, r);
            s->puts_running--;
        }
        chain_remove(s, &s->puts, request);
        s->puts_stalled = false;
    } else if (op == SKY_OP_GET && r->state == REQUEST_RUNNING) {
        chain_remove(s, &s->gets, request);
    }
    s->stat.hits += op == SKY_OP_GET && status == SKY_OK;
    s->stat.misses += op == SKY_OP_GET && status == SKY_MISS;
    s->stat.puts += op == SKY_OP_PUT && status == SKY_OK;
    r->state = REQUEST_DONE;
    r->result.op = op;
    r->result.context = r->ask.context;
    r->result.status = status;
    r->result.bytes = bytes;
    sky__chain_append(s, &s->done, request);
}

bool sky_session_result(sky_session *s, sky_result *out) {
    if (s->done.first == SKY__NONE)
        return false;
    uint32_t request = sky__chain_take(s, &s->done);
    *out = s->requests[request].result;
    s->requests[request].state = REQUEST_FREE;
    s->requests[request].next = s->request_free;
    s->request_free = request;
    return true;
}

/* ---- get ---- */

/* The block under a key, all 32 bytes of it; blocks past their time go. */
static uint32_t find_block(sky_session *s, int64_t wall_ms, const sky_key *key) {
    uint32_t block = sky_index_find(s->index, key);
    if (block == SKY_BLOCK_NONE || !sky_key_equal(&s->sides[block].key, key))
        return SKY_BLOCK_NONE;
    if (s->sides[block].expires_ms <= wall_ms) {
        purge(s, block);
        return SKY_BLOCK_NONE;
    }
    return block;
}

static sky_status resolve_range(sky__request *r) {
    const sky_range *range = &r->ask.range;
    bool all = range->offset == 0 && range->bytes == 0;
    uint64_t payload = r->info.payload_bytes;
    if (range->offset > payload)
        return SKY_E_PARAM;
    uint64_t left = payload - range->offset;
    uint64_t bytes = all || range->bytes > left ? left : range->bytes;
    r->range_begin = range->offset;
    r->range_end = range->offset + bytes;
    return bytes > r->ask.room_bytes ? SKY_E_DST_SMALL : SKY_OK;
}

/* Take the facts from the index and line up the chunks of the range. */
static void get_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = find_block(s, r->ask.wall_ms, &r->ask.key);
    if (block == SKY_BLOCK_NONE) {
        sky__request_finish(s, request, SKY_MISS, 0);
        return;
    }
    sky_index_info(s->index, block, &r->info);
    sky_index_touch(s->index, block);
    s->sides[block].hits++;
    sky_status status = resolve_range(r);
    if (status != SKY_OK || r->range_begin == r->range_end) {
        sky__request_finish(s, request, status, 0);
        return;
    }
    r->id = (sky_chunk_id){.key = r->ask.key, .version = s->sides[block].version};
    r->facts = block_facts(s, &r->info, false);
    r->chunk_next = (uint32_t)(r->range_begin / s->config.chunk_bytes) + 1;
    r->chunk_last = (uint32_t)((r->range_end - 1) / s->config.chunk_bytes) + 1;
    r->chunks_left = r->chunk_last - r->chunk_next + 1;
    r->result.time.chunks = r->chunks_left;
    r->state = REQUEST_RUNNING;
    sky__chain_append(s, &s->gets, request);
}

void sky__request_lost(sky_session *s, uint32_t request, sky_status status) {
    sky__request *r = &s->requests[request];
    uint32_t block = find_block(s, r->ask.wall_ms, &r->ask.key);
    bool replaced = block != SKY_BLOCK_NONE && s->sides[block].version != r->id.version;
    if (replaced && r->restarts < RESTARTS_MAX) {
        r->restarts++;
        sky__operations_abandon(s, request);
        chain_remove(s, &s->gets, request);
        get_begin(s, request);
        return;
    }
    if (block != SKY_BLOCK_NONE && !replaced)
        s->stat.purged += purge(s, block);
    sky__request_finish(s, request, status, 0);
}

/* ---- put ---- */

/* A chunk went for another's sake: its block is no more. */
void sky__evicted(sky_session *s, const sky_chunk_id *id) {
    uint32_t block = sky_index_find(s->index, &id->key);
    if (block != SKY_BLOCK_NONE && s->sides[block].version == id->version)
        s->stat.purged += purge(s, block);
    for (uint32_t i = 0; i < s->config.requests_max; i++) {
        sky__request *r = &s->requests[i];
        if (r->state == REQUEST_RUNNING && r->ask.op == SKY_OP_PUT && r->id.version == id->version)
            sky__request_finish(s, i, SKY_E_FULL, 0);
    }
}

static bool key_being_put(const sky_session *s, const sky_key *key) {
    uint32_t left = s->puts_running;
    for (uint32_t i = 0; left > 0; i++) {
        const sky__request *r = &s->requests[i];
        if (r->state != REQUEST_RUNNING || r->ask.op != SKY_OP_PUT)
            continue;
        if (sky_key_equal(&r->ask.key, key))
            return true;
        left--;
    }
    return false;
}

static void pin_parent(sky_session *s, sky__request *r) {
    r->parent_block = SKY__NONE;
    if (sky_key_is_zero(&r->ask.parent))
        return;
    uint32_t block = find_block(s, r->ask.wall_ms, &r->ask.parent);
    if (block == SKY_BLOCK_NONE || sky_index_pin(s->index, block) != SKY_OK)
        return;
    r->parent_block = block;
    r->parent_version = s->sides[block].version;
}

bool sky__put_start(sky_session *s, sky_time now, uint32_t request) {
    sky__request *r = &s->requests[request];
    if (key_being_put(s, &r->ask.key)) {
        s->puts_stalled = true;
        return false;
    }
    const sky_frame *f = s->config.frame;
    int64_t set_ms = sky_turning_ms(&f->turning, now);
    sky_satellite centre = sky_frame_centre(f, sky_turns_at_ms(&f->turning, set_ms));
    r->info = (sky_block_info){.payload_bytes = r->ask.payload_bytes,
                               .chunk_count = chunk_count(s, r->ask.payload_bytes),
                               .set_ms = set_ms,
                               .centre_plane = (uint16_t)centre.plane,
                               .centre_slot = (uint16_t)centre.slot,
                               .level = r->ask.level};
    uint32_t block = find_block(s, r->ask.wall_ms, &r->ask.key);
    pin_parent(s, r);
    if (!holdable(s, &r->info) || !make_room(s, &r->info, block == SKY_BLOCK_NONE)) {
        unpin_parent(s, r);
        if (holdable(s, &r->info) && s->puts_running > 0)
            s->puts_stalled = true; /* they may be evicted once they are there */
        else
            sky__request_finish(s, request, SKY_E_FULL, 0);
        return false;
    }
    block = find_block(s, r->ask.wall_ms, &r->ask.key); /* it may have made room itself */
    load(s, &r->info, true);
    s->puts_running++;
    r->id = (sky_chunk_id){.key = r->ask.key, .version = ++s->version};
    r->facts = block_facts(s, &r->info, block != SKY_BLOCK_NONE && s->sides[block].pins > 0);
    r->chunk_next = 1;
    r->chunk_last = r->chunks_left = r->info.chunk_count;
    r->state = REQUEST_RUNNING;
    if (r->chunks_left == 0)
        sky__put_commit(s, request);
    return r->state == REQUEST_RUNNING;
}

/* What the block was before goes; its number and pins stay. */
static void retire(sky_session *s, uint32_t block, const sky_block_info *old) {
    orphan_forget(s, block);
    load(s, old, false);
    s->stat.bytes -= old->payload_bytes;
    push_row(s, SKY_WIRE_DROP, &s->sides[block], old, false);
}

void sky__put_commit(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky_index_find(s->index, &r->ask.key);
    bool fresh = block == SKY_BLOCK_NONE;
    sky_block_info old;
    if (!fresh)
        sky_index_info(s->index, block, &old);
    else
        while (sky_index_count(s->index) == s->config.blocks_max &&
               sky_index_victim(s->index) != SKY_BLOCK_NONE)
            s->stat.evicted += purge(s, sky_index_victim(s->index));
    const sky_key *parent = sky_key_is_zero(&r->ask.parent) ? NULL : &r->ask.parent;
    sky_status status = sky_index_insert(s->index, &r->ask.key, parent, &r->info, &block);
    if (status != SKY_OK) {
        sky__request_finish(s, request, status, 0);
        return;
    }
    sky__side *side = &s->sides[block];
    if (!fresh)
        retire(s, block, &old);
    *side = (sky__side){.key = r->ask.key,
                        .version = r->id.version,
                        .parent = r->ask.parent,
                        .expires_ms = r->ask.ttl_s ? r->ask.wall_ms + (int64_t)r->ask.ttl_s * 1000
                                                   : INT64_MAX,
                        .pins = fresh ? 0 : side->pins};
    if (parent && sky_index_parent(s->index, block) == SKY_BLOCK_NONE)
        orphan_add(s, block);
    orphans_adopt(s, &r->ask.key);
    s->stat.bytes += r->info.payload_bytes;
    r->result.block = block;
    sky__request_finish(s, request, SKY_OK, r->info.payload_bytes);
}

/* ---- the rest ---- */

static sky_status pin(sky_session *s, uint32_t block, bool pinned) {
    sky__side *side = &s->sides[block];
    sky_status status = SKY_E_PARAM;
    if (pinned || side->pins > 0)
        status = pinned ? sky_index_pin(s->index, block) : sky_index_unpin(s->index, block);
    if (status != SKY_OK)
        return status;
    side->pins = pinned ? side->pins + 1 : side->pins - 1;
    if (side->pins == (pinned ? 1 : 0)) { /* pins nest; satellites know only whether */
        sky_block_info info;
        sky_index_info(s->index, block, &info);
        push_row(s, SKY_WIRE_PIN, side, &info, pinned);
    }
    return SKY_OK;
}

/* What the index alone answers. */
static void answer(sky_session *s, uint32_t request) {
    const sky__request *r = &s->requests[request];
    uint32_t block = find_block(s, r->ask.wall_ms, &r->ask.key);
    if (block == SKY_BLOCK_NONE) {
        sky__request_finish(s, request, SKY_MISS, 0);
        return;
    }
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    sky_status status = SKY_OK;
    uint64_t bytes = 0;
    if (r->ask.op == SKY_OP_HAS)
        bytes = info.payload_bytes;
    else if (r->ask.op == SKY_OP_REMOVE)
        purge(s, block);
    else
        status = pin(s, block, r->ask.op == SKY_OP_PIN);
    sky__request_finish(s, request, status, bytes);
}

sky_status sky_session_submit(sky_session *s, sky_time now, const sky_request *ask) {
    uint32_t request = s->request_free;
    if (request == SKY__NONE)
        return SKY_E_BUSY;
    sky__request *r = &s->requests[request];
    s->request_free = r->next;
    *r = (sky__request){.state = REQUEST_QUEUED,
                        .next = SKY__NONE,
                        .ask = *ask,
                        .parent_block = SKY__NONE,
                        .blocked_ns = sky__blocked_ns(s, now)};
    r->result.time.began = r->result.time.ended = now;
    switch (ask->op) {
    case SKY_OP_GET:
        get_begin(s, request);
        break;
    case SKY_OP_PUT:
        sky__chain_append(s, &s->puts, request);
        break;
    case SKY_OP_HAS:
    case SKY_OP_REMOVE:
    case SKY_OP_PIN:
    case SKY_OP_UNPIN:
        answer(s, request);
        break;
    default:
        sky__request_finish(s, request, SKY_E_UNSUPPORTED, 0);
    }
    return SKY_OK;
}

/* ---- looking in ---- */

void sky_session_stats(const sky_session *s, sky_session_stat *out) {
    *out = s->stat;
}

const sky_index *sky_session_index(const sky_session *s) {
    return s->index;
}

void sky_session_look(const sky_session *s, uint32_t block, sky_session_entry *out) {
    const sky__side *side = &s->sides[block];
    *out = (sky_session_entry){.key = side->key,
                               .version = side->version,
                               .hits = side->hits,
                               .expires_ms = side->expires_ms,
                               .pinned = side->pins > 0};
    sky_index_info(s->index, block, &out->info);
}

bool sky_session_owns(const sky_session *s, const sky_chunk_id *id) {
    uint32_t block = sky_index_find(s->index, &id->key);
    if (block != SKY_BLOCK_NONE && s->sides[block].version == id->version)
        return true;
    for (uint32_t i = 0; i < s->config.requests_max; i++) {
        const sky__request *r = &s->requests[i];
        if (r->state == REQUEST_RUNNING && r->ask.op == SKY_OP_PUT && r->id.version == id->version)
            return true;
    }
    return false;
}

void sky_session_chunk(const sky_session *s, uint32_t block, uint32_t number, sky_chunk_id *id,
                       sky_chunk_facts *facts, uint32_t *bytes) {
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    *id = (sky_chunk_id){s->sides[block].key, s->sides[block].version, number};
    *facts = block_facts(s, &info, s->sides[block].pins > 0);
    set_first(s, facts, number);
    *bytes = sky__chunk_length(s, info.payload_bytes, number);
}

sky_satellite sky_session_place(const sky_session *s, const sky_chunk_facts *facts,
                                uint64_t turns) {
    const sky_frame *f = s->config.frame;
    return sky_chunk_place(&f->constellation, &f->turning, facts, turns);
}

/* A chunk moves once in as many turns as the window is wide. */
bool sky_session_place_before(const sky_session *s, const sky_chunk_facts *facts, uint64_t turns,
                              sky_satellite *out) {
    uint64_t then = sky_turns_at_ms(&s->config.frame->turning, facts->set_ms);
    sky_satellite now = sky_session_place(s, facts, turns);
    for (uint64_t back = 1; back <= facts->window_slots && turns >= then + back; back++) {
        sky_satellite place = sky_session_place(s, facts, turns - back);
        if (!sky_satellite_equal(place, now)) {
            *out = place;
            return true;
        }
    }
    return false;
}
