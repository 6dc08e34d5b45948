/* Gets: the chunks of a range, and what becomes of a block that lost one.
 *
 *     block in the index ──► a chunk a unit ──delivered──► done
 *                                 │ nowhere
 *                                 └► repair.c, or: another value meanwhile ──► once more
 *                                                  migration may lag ────────► at the last places
 *                                                  another ground moved it ──► looked for
 *                                                  else a miss, and the block leaves the index */
#include "ground/session_state.h"

#define RESTARTS_MAX 3 /* of a get whose block was replaced or moved under it */

static sky_status resolve_range(sky__request *r) {
    const sky_range *range = &r->ask.range;
    bool all = range->offset == 0 && range->bytes == 0;
    uint64_t payload = r->of.info.payload_bytes;
    if (range->offset > payload)
        return SKY_E_PARAM;
    uint64_t left = payload - range->offset;
    uint64_t bytes = all || range->bytes > left ? left : range->bytes;
    r->get.begin = range->offset;
    r->get.end = range->offset + bytes;
    return bytes > r->ask.room_bytes ? SKY_E_DST_SMALL : SKY_OK;
}

void sky__get_begin(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests.rows[request];
    r->of = sky__blocks_subject(&s->blocks, block);
    r->head_version = s->blocks.rows[block].head_version;
    r->named = s->blocks.rows[block].named;
    sky_index_touch(s->blocks.index, block);
    s->blocks.rows[block].hits++;
    sky_status status = resolve_range(r);
    if (status != SKY_OK || r->get.begin == r->get.end) {
        sky__request_finish(s, request, status, 0);
        return;
    }
    r->state = REQUEST_RUNNING;
    uint32_t first = (uint32_t)(r->get.begin / s->core.config.chunk_bytes) + 1;
    uint32_t last = (uint32_t)((r->get.end - 1) / s->core.config.chunk_bytes) + 1;
    r->result.time.chunks = last - first + 1;
    sky__requests_work(&s->requests, request, WORK_GET, first, last);
}

static void start_over(sky_session *s, uint32_t request) {
    sky__operations_abandon(&s->scheduler, request);
    sky__repairs_abandon(s, request);
    sky__requests_stand_down(&s->requests, request);
    s->requests.rows[request].restarts++;
}

/* A chunk of the block is nowhere. Where another ground may have moved it, the block is unverified
 * until the sky was asked and says what we knew. */
static void give_up(sky_session *s, sky__request *r, uint32_t block, bool look) {
    sky__block_row *row = &s->blocks.rows[block];
    if (look && !row->unverified) {
        r->get.lost_version = row->version;
        r->get.lost_ms = r->of.info.set_ms;
        row->unverified = true;
    } else if (row->version == r->get.lost_version && r->of.info.set_ms == r->get.lost_ms) {
        row->unverified = false;
    }
    sky__blocks_lose(&s->blocks, block);
}

/* Is this no longer what the request began with, but a newer value, or the same in a new home? */
static bool is_another(const sky_session *s, const sky__request *r, uint32_t block) {
    sky_block_info is;
    sky_index_info(s->blocks.index, block, &is);
    return s->blocks.rows[block].version != r->of.id.version || is.set_ms != r->of.info.set_ms;
}

/* A chunk that is not where it should be may be at a place of the last turns, if it had any. */
static bool may_lag(const sky_session *s, const sky__request *r) {
    const sky_frame *f = s->core.config.frame;
    bool migrates = sky_strategy_row_of(f->placement.strategy)->migrates;
    int64_t moved_ms = r->of.before.set_ms, set_ms = r->of.info.set_ms;
    uint64_t set = sky_turns_at_ms(&f->turning, moved_ms && moved_ms < set_ms ? moved_ms : set_ms);
    return !r->thorough && migrates && sky__rotations(&s->core) >= set + 2;
}

/* Is the value that cannot be read not the one of which that was said before? */
static bool is_other_value(const sky__request *r) {
    return r->named && r->look.searched && r->of.id.version != r->get.looked_version;
}

/* What others put under a name may be replaced once more before it is read. */
static bool may_look(const sky_session *s, const sky__request *r) {
    bool again = is_other_value(r) && r->restarts < RESTARTS_MAX;
    return s->core.config.lookup != SKY_LOOKUP_INDEX && (!r->look.searched || again);
}

void sky__block_lost(sky_session *s, uint32_t request, sky_status status) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    bool replaced = block != SKY_BLOCK_NONE && is_another(s, r, block);
    if (replaced && r->restarts < RESTARTS_MAX) {
        start_over(s, request);
        sky__get_begin(s, request, block);
        return;
    }
    if (block != SKY_BLOCK_NONE && !replaced && status == SKY_MISS && may_lag(s, r)) {
        r->thorough = true;
        start_over(s, request);
        sky__get_begin(s, request, block);
        return;
    }
    bool look = may_look(s, r) && status == SKY_MISS;
    if (status == SKY_MISS && !look && is_other_value(r))
        status = SKY_E_IO; /* there is one, and then another */
    if (block != SKY_BLOCK_NONE && !replaced)
        give_up(s, r, block, look);
    if (look) {
        r->get.looked_version = r->of.id.version;
        start_over(s, request); /* another ground may have moved or replaced it */
        sky__look_begin(s, request);
        return;
    }
    sky__request_finish(s, request, status, 0);
}

/* ---- chunks ---- */

static bool get_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    (void)r;
    o->id.number = sky_stripes_number(&s->core.stripes, unit);
    return true;
}

static void get_lost(sky_session *s, uint32_t op, sky_status status) {
    uint32_t request = s->scheduler.operations[op].request;
    if (sky__repair_begin(s, op, status))
        return;
    if (status == SKY_E_IO)
        sky__request_finish(s, request, status, 0);
    else
        sky__block_lost(s, request, status);
}

static void account_time(sky_path_time *t, sky_time now, sky_time spent_ns,
                         const sky__operation *o) {
    sky_time left = now - t->began;
    t->ended = now;
    t->session_ns = o->blocked_ns + (o->sent - o->first_sent);
    left -= t->session_ns;
    t->light_ns = 2 * o->light_ns < left ? 2 * o->light_ns : left;
    left -= t->light_ns;
    t->processing_ns = spent_ns < left ? spent_ns : left;
    t->link_ns = left - t->processing_ns;
}

/* A chunk came from one copy, and another copy of it was missed: who has it may see to that. One
 * command for a row: those of a get's first chunks, each of which is in another. */
static void copies_missed(sky_session *s, const sky__request *r, const sky__operation *o) {
    uint32_t first = (uint32_t)(r->get.begin / s->core.config.chunk_bytes) + 1;
    if (o->unit - first < s->core.servers)
        sky__bulk_mend(&s->bulk, &r->of, (o->id.number - 1) % s->core.servers + 1, o->copy);
}

static void get_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    uint32_t request = o->request;
    sky__request *r = &s->requests.rows[request];
    uint64_t at = (uint64_t)(o->unit - 1) * s->core.config.chunk_bytes, end = at + m->data_bytes;
    uint64_t begin = at > r->get.begin ? at : r->get.begin;
    end = end < r->get.end ? end : r->get.end;
    account_time(&r->result.time, s->core.now, m->spent_ns, o);
    if (o->missed)
        copies_missed(s, r, o);
    if (!s->core.config.deliver(s->core.config.host, r->ask.context, begin - r->get.begin,
                                m->data + (begin - at), (size_t)(end - begin))) {
        sky__request_finish(s, request, SKY_E_CANCELLED, 0);
        return;
    }
    sky__repair *p = sky__repair_keep(s, op, m);
    sky__operation_done(&s->scheduler, op);
    if (p)
        sky__repair_check(s, p, request);
}

/* All of the range came. Once read, the block is verified. */
static void get_done(sky_session *s, uint32_t request) {
    const sky__request *r = &s->requests.rows[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    if (block != SKY_BLOCK_NONE && s->blocks.rows[block].version == r->of.id.version) {
        s->blocks.rows[block].unverified = false;
        sky__blocks_mend_heads(&s->blocks, block);
    }
    sky__request_finish(s, request, SKY_OK, r->get.end - r->get.begin);
    if (block == SKY_BLOCK_NONE)
        return;
    sky__foresee_next(s, block);
    sky__check_after_get(s, block, r);
}

const sky__client sky__get_client = {.asks = SKY_WIRE_GET,
                                     .answers = SKY_WIRE_CHUNK,
                                     .reads = true,
                                     .carries = true,
                                     .moved = true,
                                     .unit = get_unit,
                                     .begun = sky__repair_guard,
                                     .taken = get_taken,
                                     .late = sky__repair_late,
                                     .lost = get_lost,
                                     .done = get_done};
