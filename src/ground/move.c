/* Blocks that move in the sky, to be overhead at a time to come.
 *
 *     before ─ MOVE ─► satellites give the chunks their new epoch and migrate them ─► at T overhead
 *
 * MOVE is answered, as every chunk it misses is one that is read more slowly: the block's row keeps
 * the epoch it came from, and what is not in the new one is asked for in the old one.
 *
 * A block has two epochs at most, and before it gets another all its chunks must have come to the
 * one it has: an acknowledged MOVE is not yet an arrival.
 *
 *     ( settle ──► ( gather ) ) ──► go
 *
 *   settle  MOVE to the epoch it has, a row at a time: are all there? For a block that was moved
 *           before; and where satellites sweep, for from then on it is spare. A satellite that
 *           finds the next chunk moved away, and has not heard of it, would take it for lost
 *   gather  when they are not (a rotation split the row, a satellite had not heard): the same chunk
 *           by chunk, in both epochs, until all are there
 *   go      MOVE to the new epoch
 *
 * So the satellites do not clear away what is left of a moved block: the ground does.
 *
 * Surprise: the last chunk has a MOVE of its own. Its successor is chunk 1 and not, as for the rest
 * of its row, the chunk on the next server. */
#include "ground/session_state.h"

#define GATHERS_MAX 8 /* each takes a round trip; what moves takes a few */

static uint32_t rows_of_move(const sky_session *s, const sky__request *r) {
    uint32_t others = r->info.chunk_count - 1;
    return others < s->core.servers ? others : s->core.servers;
}

sky__span sky__span_of(const sky_session *s, const sky__request *r, uint32_t unit) {
    if (r->work == WORK_CHECK)
        return sky__check_span(s, r, unit);
    uint32_t count = r->info.chunk_count;
    uint32_t row = unit / s->core.config.replicas;
    sky__span span = {.copy = unit % s->core.config.replicas, .first = count, .last = count};
    if (r->step == MOVE_GATHERS)
        span.first = span.last = row + 1;
    else if (row < rows_of_move(s, r)) {
        span.first = row + 1;
        span.last = count - 1 - (count - 1 - span.first) % s->core.servers;
    }
    return span;
}

/* Of two homes satellites believe the one of the later time. Where a place turns with the time, it
 * is that for which it is meant; else it only has to be later than the one before. */
static int64_t home_ms(const sky_session *s, const sky_block_info *info, int64_t at_ms) {
    const sky_frame *f = s->core.config.frame;
    int64_t now_ms = sky__calendar_ms(&s->core);
    if (sky_strategy_row_of(f->placement.strategy)->migrates)
        return at_ms;
    return now_ms > info->set_ms ? now_ms : info->set_ms + 1;
}

/* Count the block in its new home too, and write the old one down. */
static sky_status take_home(sky_session *s, sky__request *r, uint32_t block, int64_t at_ms) {
    const sky_frame *f = s->core.config.frame;
    sky_satellite centre = sky_frame_centre(f, sky_turns_at_ms(&f->turning, at_ms));
    const sky__epoch home = {home_ms(s, &r->info, at_ms), centre};
    sky_block_info there = sky__info_at(&r->info, &home);
    sky__block_row *row = &s->blocks.rows[block];
    if (sky_index_pin(s->blocks.index, block) != SKY_OK)
        return SKY_E_BUSY;
    bool room = sky__blocks_make_room(&s->blocks, &there, false);
    (void)sky_index_unpin(s->blocks.index, block);
    if (!room)
        return SKY_E_FULL;
    sky_status status = sky_index_insert(s->blocks.index, &row->key, NULL, &there, &block);
    if (status != SKY_OK)
        return status;
    row->before = (sky__epoch){r->info.set_ms, {r->info.centre_plane, r->info.centre_slot}};
    row->moving = row->scattered = r->moves = true;
    sky__blocks_load(&s->blocks, &there, true);
    r->before = row->before;
    r->info = there;
    r->facts = sky__block_facts(&s->core, &there, row->pinned);
    return SKY_OK;
}

static void move_rows(sky_session *s, uint32_t request, sky__move_step step) {
    sky__request *r = &s->requests[request];
    uint32_t rows = step == MOVE_GATHERS ? r->info.chunk_count : rows_of_move(s, r) + 1;
    r->step = step;
    r->missed = false;
    r->facts.spare = true;
    sky__work_begin(s, request, WORK_MOVE, 0, rows * s->core.config.replicas - 1);
}

/* What is to be done before the block may go; false when nothing is. While chunks come home from
 * where they were before they count in both. */
static bool prepare(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests[request];
    sky__block_row *row = &s->blocks.rows[block];
    bool swept = s->core.config.eviction & SKY_EVICT_SWEEP && !r->facts.spare;
    if (r->settled || !(row->scattered || swept))
        return false;
    r->before = row->before;
    if (r->missed && row->before.set_ms) {
        sky_block_info there = sky__info_at(&r->info, &row->before);
        sky__blocks_load(&s->blocks, &there, true);
        row->moving = r->moves = true;
    }
    move_rows(s, request, r->missed ? MOVE_GATHERS : MOVE_SETTLES);
    return true;
}

static void go(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests[request];
    sky__block_row *row = &s->blocks.rows[block];
    sky_status status = take_home(s, r, block, r->ask.at_ms);
    if (status != SKY_OK) {
        sky__request_finish(s, request, status, r->info.payload_bytes);
        return;
    }
    if (s->core.config.lookup == SKY_LOOKUP_INDEX) {
        sky__move_go(s, request);
        return;
    }
    if (!row->head_version) /* the one it had was given up */
        sky__blocks_load_head(&s->blocks, true);
    row->head_version = sky__blocks_head_version(&s->blocks, sky__calendar_ms(&s->core));
    r->head_version = row->head_version;
    sky__work_begin(s, request, WORK_REHEAD, 0, s->core.head_copies - 1);
}

/* Nothing need move for a block to be overhead at at_ms. */
static bool is_there(const sky_session *s, const sky_block_info *info, int64_t at_ms) {
    const sky_frame *f = s->core.config.frame;
    const sky_strategy_row *row = sky_strategy_row_of(f->placement.strategy);
    const sky_satellite home = {info->centre_plane, info->centre_slot};
    uint64_t then = sky_turns_at_ms(&f->turning, at_ms);
    if (row->migrates) /* what is overhead now stays so */
        return then <= sky__rotations(&s->core) ||
               then == sky_turns_at_ms(&f->turning, info->set_ms);
    return row->aboard || sky_satellite_equal(sky_frame_centre(f, then), home);
}

/* The block is to be overhead at at_ms: its chunks go where the window will be then, and wait. The
 * head goes first, so that who finds the block by it knows both homes. */
void sky__move_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (block == SKY_BLOCK_NONE) {
        sky__request_finish(s, request, SKY_MISS, 0);
        return;
    }
    sky_index_info(s->blocks.index, block, &r->info);
    const sky__block_row *row = &s->blocks.rows[block];
    bool there = r->info.chunk_count == 0 || is_there(s, &r->info, r->ask.at_ms);
    if (row->moving || there) {
        sky__request_finish(s, request, row->moving ? SKY_E_BUSY : SKY_OK, r->info.payload_bytes);
        return;
    }
    if (r->id.version != row->version) /* it is another */
        r->settled = r->missed = false;
    r->id = (sky_chunk_id){.key = r->ask.key, .version = row->version};
    r->facts = sky__block_facts(&s->core, &r->info, row->pinned);
    r->state = REQUEST_RUNNING;
    if (!prepare(s, request, block))
        go(s, request, block);
}

void sky__move_go(sky_session *s, uint32_t request) {
    move_rows(s, request, MOVE_GOES);
}

/* All rows were heard of. */
void sky__move_done(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool goes = r->step == MOVE_GOES;
    if (goes || (r->missed && r->restarts++ == GATHERS_MAX)) {
        sky__request_finish(s, request, goes ? SKY_OK : SKY_E_BUSY, r->info.payload_bytes);
        return;
    }
    r->settled = !r->missed;
    if (r->settled && block != SKY_BLOCK_NONE && s->blocks.rows[block].version == r->id.version)
        s->blocks.rows[block].scattered = false;
    sky__move_end(s, request);
    sky__move_begin(s, request);
}

/* Told or not, from now on the block counts in its new home alone. */
void sky__move_end(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool moves = r->moves;
    r->moves = false;
    if (!moves || block == SKY_BLOCK_NONE || s->blocks.rows[block].version != r->id.version)
        return; /* gone or replaced meanwhile, and uncounted then */
    sky_block_info there = sky__info_at(&r->info, &s->blocks.rows[block].before);
    s->blocks.rows[block].moving = false;
    sky__blocks_load(&s->blocks, &there, false);
}
