/* The session's requests: what each wants done, in which order, and how it ends.
 *
 *   get      ( look ) ──► get ──► done
 *   put       set ──► ( head ) ──► committed
 *   has …    ( look ) ──► answered from the index
 *   prefetch ( look ) ──► ( head again ) ──► move ──► done
 *
 * Steps in brackets are only taken when blocks are looked for in the sky. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/prng.h"
#include "ground/session_state.h"

#define OWN_REQUESTS 64 /* moves of blocks that are used again, and checks; the host has its own */
#define RESTARTS_MAX 3  /* of a get whose block was replaced or moved under it */

/* ---- life ---- */

static void chain_all(sky_session *s) {
    for (uint32_t i = 0; i < s->core.config.requests_max; i++)
        s->requests[i].next = i + 1 < s->core.config.requests_max ? i + 1 : SKY__NONE;
    s->request_free = 0;
    s->gets = s->puts = s->done = s->again = (sky__list){SKY__NONE, SKY__NONE};
    s->operation_free = SKY__NONE;
    s->earliest = SKY_TIME_NEVER;
}

static bool take_memory(sky_session *s) {
    const sky_session_config *c = &s->core.config;
    s->requests = calloc(c->requests_max, sizeof *s->requests);
    s->operations = calloc(c->operations_max, sizeof *s->operations);
    s->served_at = calloc(c->frame->satellite_count, sizeof *s->served_at);
    s->suspicions = calloc(c->frame->satellite_count, sizeof *s->suspicions);
    return s->requests && s->operations && s->served_at && s->suspicions;
}

/* For parity alone: stripes being repaired, and one being made. */
static bool take_stripes(sky_session *s) {
    size_t stripe = (size_t)(s->core.stripes.data + s->core.stripes.parity) *
                    s->core.config.chunk_bytes;
    size_t work = 2 * (size_t)s->core.stripes.data * s->core.stripes.data;
    s->repairs = calloc(SKY__REPAIRS_MAX, sizeof *s->repairs);
    s->repair_bytes = malloc(SKY__REPAIRS_MAX * stripe);
    s->stripe_bytes = malloc(stripe > work ? stripe : work);
    if (!s->repairs || !s->repair_bytes || !s->stripe_bytes)
        return false;
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++)
        s->repairs[i] = (sky__repair){.request = SKY__NONE, .bytes = s->repair_bytes + i * stripe};
    return true;
}

static bool config_ok(const sky_session_config *c) {
    uint32_t servers = c->frame->placement.servers;
    return c->chunk_bytes >= 1 && c->chunk_bytes <= SKY_WIRE_DATA_BYTES_MAX &&
           c->satellite_slots >= 1 && c->requests_max >= 1 && c->blocks_max >= 1 &&
           c->operations_max >= 1 && c->operations_max <= 1u << 20 && c->replicas <= servers &&
           (c->parity == 0 || (c->parity < servers && servers <= SKY_STRIPE_PIECES_MAX));
}

sky_status sky_session_create(const sky_session_config *config, sky_session **out) {
    if (!config_ok(config))
        return SKY_E_PARAM;
    sky_session *s = calloc(1, sizeof *s);
    if (!s)
        return SKY_E_NOMEM;
    sky__core_init(&s->core, config);
    s->room_host = config->requests_max;
    bool foresees = sky_strategy_row_of(config->frame->placement.strategy)->foresees;
    s->room_own = s->own_max = foresees || config->parity > 0 || config->sealed ? OWN_REQUESTS : 0;
    s->core.config.requests_max += s->room_own;
    sky_status status = sky__bulk_init(&s->bulk, &s->core);
    if (status == SKY_OK)
        status = sky__blocks_init(&s->blocks, &s->core, &s->bulk);
    if (status == SKY_OK && (!take_memory(s) || (config->parity > 0 && !take_stripes(s))))
        status = SKY_E_NOMEM;
    if (status != SKY_OK) {
        sky_session_destroy(s);
        return status;
    }
    chain_all(s);
    s->answered_at = -1;
    s->farthest_ns = sky_frame_ground_ns_max(config->frame);
    *out = s;
    return SKY_OK;
}

void sky_session_destroy(sky_session *s) {
    if (!s)
        return;
    sky__blocks_deinit(&s->blocks);
    sky__bulk_deinit(&s->bulk);
    free(s->requests);
    free(s->operations);
    free(s->served_at);
    free(s->suspicions);
    free(s->repairs);
    free(s->repair_bytes);
    free(s->stripe_bytes);
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
    if (!s->requests[request].listed)
        return;
    s->requests[request].listed = false;
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

static bool sets(const sky__request *r) {
    return r->ask.op == SKY_OP_PUT;
}

/* Heads do not wait behind puts that wait for room: the put they end may be what they wait for. */
static sky__list *list_of(sky_session *s, const sky__request *r) {
    return sets(r) && r->work != WORK_HEAD ? &s->puts : &s->gets;
}

/* ---- work ---- */

void sky__work_begin(sky_session *s, uint32_t request, sky__work work, uint32_t first,
                     uint32_t last) {
    sky__request *r = &s->requests[request];
    sky__list *before = list_of(s, r);
    r->work = work;
    r->unit_next = first;
    r->unit_last = last;
    r->units_left = last - first + 1;
    r->latest = 0;
    if (r->listed && before == list_of(s, r))
        return;
    chain_remove(s, before, request);
    r->listed = true;
    sky__chain_append(s, list_of(s, r), request);
}

static void put_commit(sky_session *s, uint32_t request);

/* Where there are other grounds (chunks are sealed there), one of them may have put the key, or an
 * earlier process of this one: what it put is looked for while the new value goes out, so that it
 * can be dropped when that is there. */
static void look_for_older(sky_session *s, const sky__request *r) {
    if (s->core.config.lookup == SKY_LOOKUP_INDEX || !s->core.config.sealed || s->room_own == 0)
        return;
    s->looks_open++;
    sky__submit_own(s,
                    &(sky_request){.op = SKY_OP_HAS, .key = r->ask.key, .wall_ms = r->ask.wall_ms});
}

static bool is_look(const sky__request *r) {
    return r->own && r->ask.op == SKY_OP_HAS && !r->ask.mend;
}

static bool being_looked_for(const sky_session *s, const sky_key *key) {
    for (uint32_t i = 0; s->looks_open > 0 && i < s->core.config.requests_max; i++) {
        const sky__request *r = &s->requests[i];
        if (r->state == REQUEST_RUNNING && is_look(r) && sky_key_equal(&r->ask.key, key))
            return true;
    }
    return false;
}

static void chunks_stored(sky_session *s, uint32_t request) {
    s->requests[request].held = being_looked_for(s, &s->requests[request].ask.key);
    if (s->requests[request].held)
        return;
    if (s->core.config.lookup == SKY_LOOKUP_INDEX)
        put_commit(s, request);
    else
        sky__work_begin(s, request, WORK_HEAD, 0, s->core.head_copies - 1);
}

/* No unverified any more. */
static void read_once(sky_session *s, uint32_t block) {
    s->blocks.rows[block].unverified = false;
    sky__blocks_mend_heads(&s->blocks, block);
}

void sky__work_done(sky_session *s, uint32_t request) {
    const sky__request *r = &s->requests[request];
    uint32_t block;
    switch (r->work) {
    case WORK_SET:
        chunks_stored(s, request);
        break;
    case WORK_HEAD:
        put_commit(s, request);
        break;
    case WORK_REHEAD:
        sky__move_go(s, request);
        break;
    case WORK_MOVE:
        sky__move_done(s, request);
        break;
    case WORK_GET:
        block = sky_index_find(s->blocks.index, &r->ask.key);
        if (block != SKY_BLOCK_NONE && s->blocks.rows[block].version == r->id.version)
            read_once(s, block);
        sky__request_finish(s, request, SKY_OK, r->range_end - r->range_begin);
        if (block != SKY_BLOCK_NONE) {
            sky__foresee_next(s, block);
            sky__check_after_get(s, block, r->ask.wall_ms);
        }
        break;
    case WORK_CHECK:
        sky__mend_begin(s, request);
        break;
    default:
        sky__request_finish(s, request, SKY_OK, r->info.payload_bytes);
    }
}

/* ---- requests that end ---- */

static void unpin_parent(sky_session *s, sky__request *r) {
    if (r->parent_block != SKY__NONE &&
        s->blocks.rows[r->parent_block].version == r->parent_version)
        sky_index_unpin(s->blocks.index, r->parent_block);
    r->parent_block = SKY__NONE;
}

/* A put that ends without being committed takes back what it sent. */
static void put_undo(sky_session *s, sky__request *r) {
    sky__blocks_load(&s->blocks, &r->info, false);
    sky__blocks_load_head(&s->blocks, false);
    sky__bulk_push(&s->bulk, SKY_WIRE_DROP, &r->id, r->head_version, &r->info, false);
}

static void put_end(sky_session *s, sky__request *r, sky_status status) {
    if (r->state == REQUEST_RUNNING) {
        if (status != SKY_OK)
            put_undo(s, r);
        unpin_parent(s, r);
        s->puts_running--;
    }
    s->puts_stalled = false;
    s->core.stat.puts += status == SKY_OK;
}

static bool reads(const sky__request *r) {
    return (r->ask.op == SKY_OP_GET || r->ask.op == SKY_OP_HAS || r->ask.op == SKY_OP_REMOVE) &&
           !r->ask.stat && !r->ask.probe;
}

static void request_free(sky_session *s, uint32_t request) {
    ++*(s->requests[request].own ? &s->room_own : &s->room_host);
    s->requests[request].state = REQUEST_FREE;
    s->requests[request].next = s->request_free;
    s->request_free = request;
}

/* Its head may be set now. */
static void look_over(sky_session *s, const sky_key *key) {
    s->looks_open--;
    for (uint32_t i = 0; i < s->core.config.requests_max; i++) {
        sky__request *r = &s->requests[i];
        if (r->state == REQUEST_RUNNING && sets(r) && r->held && sky_key_equal(&r->ask.key, key))
            chunks_stored(s, i);
    }
}

void sky__request_finish(sky_session *s, uint32_t request, sky_status status, uint64_t bytes) {
    sky__request *r = &s->requests[request];
    sky_op op = r->ask.op;
    if (status == SKY_E_IO && reads(r)) /* it may be there */
        status = SKY_E_UNAVAILABLE;
    sky__operations_abandon(s, request);
    sky__repairs_abandon(s, request);
    chain_remove(s, list_of(s, r), request);
    s->mends_open -= r->work == WORK_MEND;
    if (op == SKY_OP_PUT)
        put_end(s, r, status);
    if (op == SKY_OP_PREFETCH)
        sky__move_end(s, request);
    s->core.stat.hits += op == SKY_OP_GET && status == SKY_OK;
    s->core.stat.misses += op == SKY_OP_GET && status == SKY_MISS;
    if (r->own) {
        const sky_key key = r->ask.key;
        bool look = is_look(r);
        request_free(s, request);
        if (look)
            look_over(s, &key);
        return;
    }
    r->state = REQUEST_DONE;
    r->result.op = op;
    r->result.context = r->ask.context;
    r->result.status = status;
    r->result.bytes = bytes;
    r->result.level = status == SKY_OK ? r->info.coding : 0;
    sky__chain_append(s, &s->done, request);
}

bool sky_session_result(sky_session *s, sky_result *out) {
    if (s->done.first == SKY__NONE)
        return false;
    uint32_t request = sky__chain_take(s, &s->done);
    *out = s->requests[request].result;
    request_free(s, request);
    return true;
}

/* ---- get ---- */

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
static void get_begin(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests[request];
    sky_index_info(s->blocks.index, block, &r->info);
    sky_index_touch(s->blocks.index, block);
    s->blocks.rows[block].hits++;
    sky_status status = resolve_range(r);
    if (status != SKY_OK || r->range_begin == r->range_end) {
        sky__request_finish(s, request, status, 0);
        return;
    }
    r->id = (sky_chunk_id){.key = r->ask.key, .version = s->blocks.rows[block].version};
    r->facts = sky__block_facts(&s->core, &r->info, false);
    r->before = s->blocks.rows[block].before;
    r->state = REQUEST_RUNNING;
    uint32_t first = (uint32_t)(r->range_begin / s->core.config.chunk_bytes) + 1;
    uint32_t last = (uint32_t)((r->range_end - 1) / s->core.config.chunk_bytes) + 1;
    r->result.time.chunks = last - first + 1;
    sky__work_begin(s, request, WORK_GET, first, last);
}

static void start_over(sky_session *s, uint32_t request) {
    sky__operations_abandon(s, request);
    sky__repairs_abandon(s, request);
    chain_remove(s, &s->gets, request);
    s->requests[request].restarts++;
}

/* A chunk of the block is nowhere. Where another ground may have moved it, the block is unverified
 * until the sky was asked and says what we knew. */
static void give_up(sky_session *s, sky__request *r, uint32_t block, bool look) {
    sky__block_row *row = &s->blocks.rows[block];
    if (look && !row->unverified) {
        r->lost_version = row->version;
        r->lost_ms = r->info.set_ms;
        row->unverified = true;
    } else if (row->version == r->lost_version && r->info.set_ms == r->lost_ms) {
        row->unverified = false;
    }
    sky__blocks_lose(&s->blocks, block);
}

/* Is this no longer what the request began with, but a newer value, or the same in a new home? */
static bool is_another(const sky_session *s, const sky__request *r, uint32_t block) {
    sky_block_info is;
    sky_index_info(s->blocks.index, block, &is);
    return s->blocks.rows[block].version != r->id.version || is.set_ms != r->info.set_ms;
}

/* A chunk that is not where it should be may be at a place of the last turns, if it had any. */
static bool may_lag(const sky_session *s, const sky__request *r) {
    const sky_frame *f = s->core.config.frame;
    bool migrates = sky_strategy_row_of(f->placement.strategy)->migrates;
    uint64_t set = sky_turns_at_ms(&f->turning, r->info.set_ms);
    return !r->thorough && migrates && sky__rotations(&s->core) >= set + 2;
}

void sky__request_lost(sky_session *s, uint32_t request, sky_status status) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    bool replaced = block != SKY_BLOCK_NONE && is_another(s, r, block);
    if (replaced && r->restarts < RESTARTS_MAX) {
        start_over(s, request);
        get_begin(s, request, block);
        return;
    }
    if (block != SKY_BLOCK_NONE && !replaced && status == SKY_MISS && may_lag(s, r)) {
        r->thorough = true;
        start_over(s, request);
        get_begin(s, request, block);
        return;
    }
    bool look = s->core.config.lookup != SKY_LOOKUP_INDEX && !r->searched && status == SKY_MISS;
    if (block != SKY_BLOCK_NONE && !replaced)
        give_up(s, r, block, look);
    if (look) {
        start_over(s, request); /* another ground may have moved or replaced it */
        sky__look_begin(s, request);
        return;
    }
    sky__request_finish(s, request, status, 0);
}

/* ---- put ---- */

/* A chunk went for another's sake: its block is no more, unless it can do without. */
void sky__evicted(sky_session *s, const sky_chunk_id *id) {
    if (s->core.config.replicas > 1 || s->core.config.parity > 0)
        return;
    uint32_t block = sky_index_find(s->blocks.index, &id->key);
    if (id->number == 0) { /* found by the index alone from now on */
        if (block != SKY_BLOCK_NONE && s->blocks.rows[block].head_version == id->version) {
            s->blocks.rows[block].head_version = 0;
            sky__blocks_load_head(&s->blocks, false);
        }
        return;
    }
    bool ours = block != SKY_BLOCK_NONE && s->blocks.rows[block].version == id->version;
    if (ours &&
        s->blocks.rows[block].before.set_ms == 0) /* of a moved one it may be a second copy */
        sky__blocks_lose(&s->blocks, block);
    for (uint32_t i = 0; i < s->core.config.requests_max; i++) {
        sky__request *r = &s->requests[i];
        if (r->state == REQUEST_RUNNING && sets(r) && r->id.version == id->version)
            sky__request_finish(s, i, SKY_E_FULL, 0);
    }
}

static bool key_being_put(const sky_session *s, const sky_key *key) {
    uint32_t left = s->puts_running;
    for (uint32_t i = 0; left > 0; i++) {
        const sky__request *r = &s->requests[i];
        if (r->state != REQUEST_RUNNING || !sets(r))
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
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.parent);
    if (block == SKY_BLOCK_NONE || sky_index_pin(s->blocks.index, block) != SKY_OK)
        return;
    r->parent_block = block;
    r->parent_version = s->blocks.rows[block].version;
}

/* The version of a put's chunks is a name no other put has, of this ground or another: chunks of
 * two puts must never pass for each other's. Mixed one to one, so one ground's never repeat; those
 * of two differ as their ids do. */
static uint64_t version_next(sky_session *s) {
    uint64_t name;
    do {
        name = sky_mix64(s->core.config.session_id + ++s->puts_named * 0x9e3779b97f4a7c15u);
    } while (name == 0);
    return name;
}

static void put_describe(sky_session *s, sky__request *r) {
    int64_t set_ms = sky__calendar_ms(&s->core);
    sky_satellite centre = sky__foresee_centre(s, set_ms);
    uint32_t data_chunks = sky__data_chunks(&s->core, r->ask.payload_bytes);
    r->info = (sky_block_info){.payload_bytes = r->ask.payload_bytes,
                               .chunk_count = sky_stripes_chunks(&s->core.stripes, data_chunks),
                               .set_ms = set_ms,
                               .centre_plane = (uint16_t)centre.plane,
                               .centre_slot = (uint16_t)centre.slot,
                               .coding = r->ask.level};
}

/* Room for a put, or the reason why there is none. */
static bool put_room(sky_session *s, uint32_t request, bool new_block) {
    sky__request *r = &s->requests[request];
    bool holdable = sky__blocks_holdable(&s->blocks, &r->info);
    if (holdable && sky__blocks_make_room(&s->blocks, &r->info, new_block))
        return true;
    unpin_parent(s, r);
    if (holdable && s->puts_running > 0)
        s->puts_stalled = true; /* they may be evicted once they are there */
    else
        sky__request_finish(s, request, SKY_E_FULL, 0);
    return false;
}

/* The first put of the queue begins. False: it has no chunks to send, now or at all. */
bool sky__put_start(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    if (key_being_put(s, &r->ask.key)) {
        s->puts_stalled = true;
        return false;
    }
    put_describe(s, r);
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    pin_parent(s, r);
    if (!put_room(s, request, block == SKY_BLOCK_NONE))
        return false;
    block = sky__blocks_find(&s->blocks, r->ask.wall_ms,
                             &r->ask.key); /* it may have made room itself */
    sky__blocks_load(&s->blocks, &r->info, true);
    sky__blocks_load_head(&s->blocks, true);
    s->puts_running++;
    r->id = (sky_chunk_id){.key = r->ask.key, .version = version_next(s)};
    if (s->core.config.lookup != SKY_LOOKUP_INDEX)
        r->head_version = sky__blocks_head_version(&s->blocks, r->info.set_ms);
    bool pinned = block != SKY_BLOCK_NONE && s->blocks.rows[block].pinned;
    r->facts = sky__block_facts(&s->core, &r->info, pinned);
    r->state = REQUEST_RUNNING;
    if (block == SKY_BLOCK_NONE)
        look_for_older(s, r);
    if (r->info.chunk_count > 0)
        sky__work_begin(s, request, WORK_SET, 0, r->info.chunk_count * s->core.config.replicas - 1);
    else
        chunks_stored(s, request);
    return r->state == REQUEST_RUNNING && r->work == WORK_SET;
}

static bool put_too_late(const sky_session *s, const sky__request *r) {
    int64_t now_ms = sky__calendar_ms(&s->core);
    return s->core.config.put_ns_max > 0 &&
           now_ms - r->info.set_ms > s->core.config.put_ns_max / SKY_MS(1);
}

static void put_commit(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    if (put_too_late(s, r)) {
        sky__request_finish(s, request, SKY_E_IO, 0);
        return;
    }
    sky__block_row row = {.key = r->ask.key,
                          .version = r->id.version,
                          .head_version = r->head_version,
                          .skipped = r->skipped,
                          .named = r->ask.named,
                          .parent = r->ask.parent,
                          .habit.used_ms = sky__calendar_ms(&s->core),
                          .expires_ms = r->ask.ttl_s ? r->ask.wall_ms + (int64_t)r->ask.ttl_s * 1000
                                                     : INT64_MAX};
    sky_status status = sky__blocks_enter(&s->blocks, &r->info, &row, &r->result.block);
    sky__request_finish(s, request, status, status == SKY_OK ? r->info.payload_bytes : 0);
}

/* ---- the rest ---- */

static sky_status pin(sky_session *s, uint32_t block, bool pinned) {
    sky__block_row *row = &s->blocks.rows[block];
    bool changes = pinned != row->pinned;
    sky_status status = SKY_OK;
    if (!changes && !row->adopted) /* what others put, others may have pinned */
        return pinned ? SKY_OK : SKY_E_PARAM;
    if (changes)
        status = pinned ? sky_index_pin(s->blocks.index, block)
                        : sky_index_unpin(s->blocks.index, block);
    if (status != SKY_OK)
        return status;
    row->pinned = pinned;
    sky_block_info info;
    sky_index_info(s->blocks.index, block, &info);
    const sky_chunk_id id = {.key = row->key, .version = row->version};
    sky__bulk_push(&s->bulk, SKY_WIRE_PIN, &id, row->head_version, &info, pinned);
    return SKY_OK;
}

/* What the index alone answers. */
static void answer(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests[request];
    sky_index_info(s->blocks.index, block, &r->info);
    sky_status status = SKY_OK;
    uint64_t bytes = 0;
    if (r->ask.op == SKY_OP_HAS) {
        bytes = r->info.payload_bytes;
        r->result.pinned = s->blocks.rows[block].pinned;
    } else if (r->ask.op == SKY_OP_REMOVE)
        sky__blocks_remove(&s->blocks, block);
    else
        status = pin(s, block, r->ask.op == SKY_OP_PIN);
    sky__request_finish(s, request, status, bytes);
}

/* The index has the block, or the sky was asked and nobody has. */
void sky__request_found(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (block == SKY_BLOCK_NONE)
        sky__request_finish(s, request, SKY_MISS, 0);
    else if (r->ask.op == SKY_OP_GET)
        get_begin(s, request, block);
    else if (r->ask.op == SKY_OP_PREFETCH)
        sky__move_begin(s, request);
    else
        answer(s, request, block);
}

/* Another ground may have replaced what the index knows, or removed it. Without a head in the sky
 * no other ground knows of it. */
static bool may_be_outdated(const sky_session *s, const sky__request *r) {
    const sky__block_row *row = &s->blocks.rows[sky_index_find(s->blocks.index, &r->ask.key)];
    bool asks = r->ask.op == SKY_OP_GET || r->ask.op == SKY_OP_HAS;
    return asks && row->named && row->head_version && s->core.config.lookup != SKY_LOOKUP_INDEX;
}

static void find(sky_session *s, uint32_t request) {
    const sky__request *r = &s->requests[request];
    bool known = !r->ask.chain &&
                 sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key) != SKY_BLOCK_NONE;
    if (known && may_be_outdated(s, r))
        sky__fresh_begin(s, request);
    else if (known || (!r->ask.chain && s->core.config.lookup == SKY_LOOKUP_INDEX))
        sky__request_found(s, request);
    else
        sky__look_begin(s, request);
}

static void stat_begin(sky_session *s, uint32_t request) {
    const sky_constellation *c = &s->core.config.frame->constellation;
    sky__request *r = &s->requests[request];
    sky_satellite at = r->ask.satellite;
    if (at.plane < 1 || at.plane > c->planes || at.slot < 1 || at.slot > c->slots) {
        sky__request_finish(s, request, SKY_E_PARAM, 0);
        return;
    }
    r->state = REQUEST_RUNNING;
    sky__work_begin(s, request, WORK_STAT, 0, 0);
}

static void probe_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (block != SKY_BLOCK_NONE)
        sky_index_info(s->blocks.index, block, &r->info);
    if (block == SKY_BLOCK_NONE || r->ask.probe > r->info.chunk_count ||
        r->ask.probe_copy >= s->core.config.replicas) {
        sky__request_finish(s, request, block == SKY_BLOCK_NONE ? SKY_MISS : SKY_E_PARAM, 0);
        return;
    }
    r->id = (sky_chunk_id){.key = r->ask.key, .version = s->blocks.rows[block].version};
    r->facts = sky__block_facts(&s->core, &r->info, false);
    r->before = s->blocks.rows[block].before;
    r->state = REQUEST_RUNNING;
    sky__work_begin(s, request, WORK_PROBE, 0, 0);
}

static sky_status begin(sky_session *s, const sky_request *ask, bool own) {
    uint32_t request = s->request_free, *room = own ? &s->room_own : &s->room_host;
    if (*room == 0)
        return SKY_E_BUSY;
    --*room;
    sky__request *r = &s->requests[request];
    s->request_free = r->next;
    *r = (sky__request){.state = REQUEST_QUEUED,
                        .next = SKY__NONE,
                        .ask = *ask,
                        .own = own,
                        .parent_block = SKY__NONE,
                        .blocked_ns = sky__blocked_ns(s)};
    r->result.time.began = r->result.time.ended = s->core.now;
    if (ask->stat || ask->probe || ask->mend) {
        r->ask.op = SKY_OP_HAS; /* whatever it was: nothing is put */
        (ask->stat ? stat_begin : ask->probe ? probe_begin : sky__check_begin)(s, request);
        return SKY_OK;
    }
    switch (ask->op) {
    case SKY_OP_PUT:
        r->listed = true;
        sky__chain_append(s, &s->puts, request);
        break;
    case SKY_OP_PREFETCH:
    case SKY_OP_GET:
    case SKY_OP_HAS:
    case SKY_OP_REMOVE:
    case SKY_OP_PIN:
    case SKY_OP_UNPIN:
        find(s, request);
        break;
    default:
        sky__request_finish(s, request, SKY_E_UNSUPPORTED, 0);
    }
    return SKY_OK;
}

sky_status sky_session_submit(sky_session *s, sky_time now, const sky_request *ask) {
    s->core.now = now;
    return begin(s, ask, false);
}

void sky__submit_own(sky_session *s, const sky_request *ask) {
    (void)begin(s, ask, true);
}
