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
 *           by chunk, in both epochs and at the places of the last turns, until all are there. The
 *           block stays while one may be where nobody can be asked
 *   go      MOVE to the new epoch
 *
 * So the satellites do not clear away what is left of a moved block: the ground does.
 *
 * Surprise: the last chunk has a MOVE of its own. Its successor is chunk 1 and not, as for the rest
 * of its row, the chunk on the next server. */
#include "ground/session_state.h"

#define GATHERS_MAX 8 /* each takes a round trip; what moves takes a few */

static uint32_t rows_of_move(const sky_session *s, const sky__request *r) {
    uint32_t others = r->of.info.chunk_count - 1;
    return others < s->core.servers ? others : s->core.servers;
}

/* The row of chunks that one MOVE is about. */
typedef struct {
    uint32_t first, last;
} span;

static span span_of(const sky_session *s, const sky__request *r, uint32_t unit) {
    uint32_t count = r->of.info.chunk_count;
    uint32_t number = unit / s->core.config.replicas;
    span row = {count, count};
    if (r->move.step == MOVE_GATHERS)
        row.first = row.last = number + 1;
    else if (number < rows_of_move(s, r)) {
        row.first = number + 1;
        row.last = count - 1 - (count - 1 - row.first) % s->core.servers;
    }
    return row;
}

/* Of two homes satellites believe the one of the later time. Where a place turns with the time, it
 * is that for which it is meant; else it only has to be later than the one before. */
static int64_t epoch_ms(const sky_session *s, const sky_block_info *info, int64_t at_ms) {
    const sky_frame *f = s->core.config.frame;
    int64_t now_ms = sky__calendar_ms(&s->core);
    if (sky_strategy_row_of(f->placement.strategy)->migrates)
        return at_ms;
    return now_ms > info->set_ms ? now_ms : info->set_ms + 1;
}

/* Count the block in its new home too, and write the old one down. */
static sky_status take_epoch(sky_session *s, sky__request *r, uint32_t block, int64_t at_ms) {
    const sky_frame *f = s->core.config.frame;
    sky_satellite centre = sky_frame_centre(f, sky_turns_at_ms(&f->turning, at_ms));
    const sky__epoch epoch = {epoch_ms(s, &r->of.info, at_ms), centre};
    sky_block_info there = sky__info_at(&r->of.info, &epoch);
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
    row->before = (sky__epoch){r->of.info.set_ms,
                               {r->of.info.centre_plane, r->of.info.centre_slot}};
    row->moving = row->scattered = r->move.counted = true;
    sky__blocks_load(&s->blocks, &there, true);
    r->of.before = row->before;
    r->of.info = there;
    r->of.facts = sky__block_facts(&s->core, &there, row->pinned);
    r->of.facts.moves = ++row->moves;
    return SKY_OK;
}

static void move_rows(sky_session *s, uint32_t request, sky__move_step step) {
    sky__request *r = &s->requests.rows[request];
    uint32_t rows = step == MOVE_GATHERS ? r->of.info.chunk_count : rows_of_move(s, r) + 1;
    r->move.step = step;
    r->move.missed = false;
    r->of.facts.spare = true;
    r->thorough = step == MOVE_GATHERS;
    sky__requests_work(&s->requests, request, WORK_MOVE, 0, rows * s->core.config.replicas - 1);
}

/* What is to be done before the block may go; false when nothing is. While chunks come home from
 * where they were before they count in both. */
static bool move_prepare(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests.rows[request];
    sky__block_row *row = &s->blocks.rows[block];
    bool swept = s->core.config.eviction & SKY_EVICT_SWEEP && !r->of.facts.spare;
    if (r->move.settled || !(row->scattered || swept))
        return false;
    r->of.before = row->before;
    if (r->move.missed && row->before.set_ms) {
        sky_block_info there = sky__info_at(&r->of.info, &row->before);
        sky__blocks_load(&s->blocks, &there, true);
        row->moving = r->move.counted = true;
    }
    move_rows(s, request, r->move.missed ? MOVE_GATHERS : MOVE_SETTLES);
    return true;
}

static void move_go(sky_session *s, uint32_t request) {
    move_rows(s, request, MOVE_GOES);
}

static void go_to_epoch(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests.rows[request];
    sky__block_row *row = &s->blocks.rows[block];
    sky_status status = take_epoch(s, r, block, r->ask.at_ms);
    if (status != SKY_OK) {
        sky__request_finish(s, request, status, r->of.info.payload_bytes);
        return;
    }
    if (s->core.config.lookup == SKY_LOOKUP_INDEX) {
        move_go(s, request);
        return;
    }
    if (!row->head_version) { /* the one it had was given up */
        sky__blocks_load_head(&s->blocks, true);
        row->head_version = sky__blocks_head_version(&s->blocks, sky__calendar_ms(&s->core));
    }
    row->head_version = sky__blocks_head_moved(&s->blocks, row->head_version);
    r->head_version = row->head_version;
    sky__requests_work(&s->requests, request, WORK_REHEAD, 0, s->core.head_copies - 1);
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

/* It moves already; or its put is under way, and a lookup found its head. The put will enter the
 * block where it set it, so the block must stay there until then. */
static bool is_moving(const sky__block_row *row) {
    return row->moving || row->being_put;
}

/* It is the block that the request has asked satellites about, in the same home: two requests may
 * settle one block at once, and then the first moves it on. */
static bool is_as_asked(const sky_session *s, const sky__request *r, uint32_t block) {
    const sky__block_row *row = &s->blocks.rows[block];
    return row->version == r->of.id.version && row->moves == r->of.facts.moves;
}

/* The block is to be overhead at at_ms: its chunks go where the window will be then, and wait. The
 * head goes first, so that who finds the block by it knows both homes. */
void sky__move_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (block == SKY_BLOCK_NONE) {
        sky__request_finish(s, request, SKY_MISS, 0);
        return;
    }
    const sky__block_row *row = &s->blocks.rows[block];
    if (!is_as_asked(s, r, block))
        r->move.settled = r->move.missed = false;
    r->of = sky__blocks_subject(&s->blocks, block);
    bool there = r->of.info.chunk_count == 0 || is_there(s, &r->of.info, r->ask.at_ms);
    bool moving = is_moving(row);
    if (moving || there) {
        sky__request_finish(s, request, moving ? SKY_E_BUSY : SKY_OK, r->of.info.payload_bytes);
        return;
    }
    r->state = REQUEST_RUNNING;
    if (!move_prepare(s, request, block))
        go_to_epoch(s, request, block);
}

/* All rows were heard of. */
static void move_done(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool goes = r->move.step == MOVE_GOES;
    if (goes || (r->move.missed && r->restarts++ == GATHERS_MAX)) {
        sky__request_finish(s, request, goes ? SKY_OK : SKY_E_BUSY, r->of.info.payload_bytes);
        return;
    }
    r->move.settled = !r->move.missed;
    if (r->move.settled && block != SKY_BLOCK_NONE && is_as_asked(s, r, block))
        s->blocks.rows[block].scattered = false;
    sky__move_end(s, request);
    sky__move_begin(s, request);
}

/* Told or not, from now on the block counts in its new home alone. */
void sky__move_end(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool moves = r->move.counted;
    r->move.counted = false;
    if (!moves || block == SKY_BLOCK_NONE || s->blocks.rows[block].version != r->of.id.version ||
        !s->blocks.rows[block].moving)
        return; /* gone or replaced meanwhile, or found again: uncounted then */
    sky_block_info there = sky__info_at(&r->of.info, &s->blocks.rows[block].before);
    s->blocks.rows[block].moving = false;
    sky__blocks_load(&s->blocks, &there, false);
}

/* ---- messages ---- */

static bool move_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    o->id.number = span_of(s, r, unit).first;
    o->copy = unit % s->core.config.replicas;
    return true;
}

/* The last MOVE goes to where the chunks were. */
static uint32_t move_places(const sky_session *s, const sky__operation *o, sky_satellite *places) {
    const sky__request *r = &s->requests.rows[o->request];
    bool gathers = r->move.step == MOVE_GATHERS;
    if (r->move.step != MOVE_GOES)
        return sky__chunk_places(&s->scheduler, o, gathers ? &r->of.before : NULL, places);
    sky_chunk_facts facts = r->of.facts;
    facts.set_ms = r->of.before.set_ms;
    facts.centre = r->of.before.centre;
    sky__facts_of(&s->core, &facts, o->id.number, o->copy);
    return sky__places(&s->core, &facts, NULL, 0, places);
}

static bool move_compose(sky_session *s, const sky__operation *o, sky_message *m,
                         sky_datagram *out) {
    (void)out;
    const sky__request *r = &s->requests.rows[o->request];
    m->facts = r->of.facts; /* of the new epoch */
    sky__facts_of(&s->core, &m->facts, o->id.number, o->copy);
    m->last = span_of(s, r, o->unit).last;
    m->stride = s->core.servers;
    return true;
}

/* Was that one of the places the chunk has in the epoch its MOVE names? */
static bool is_home(const sky_session *s, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__chunk_places(&s->scheduler, o, NULL, places);
    for (uint32_t i = 0; i < count; i++) {
        if (sky_satellite_equal(places[i], o->to))
            return true;
    }
    return false;
}

/* Some of the row may be on its way between two places, and of those the one has some and the other
 * the rest. A single chunk that is nowhere is gone. It is not known to be gone while it may be
 * where nobody can be asked: then the block stays, or that chunk would be left behind. */
static void move_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    sky__request *r = &s->requests.rows[o->request];
    span row = span_of(s, r, o->unit);
    uint32_t expected = (row.last - row.first) / s->core.servers + 1;
    bool all = m->moved >= expected;
    if (r->move.step == MOVE_GOES)
        s->core.stat.moved += all ? expected : m->moved;
    if (!all && sky__ask_elsewhere(&s->scheduler, op))
        return;
    if (!all && r->move.step == MOVE_GATHERS && sky__hides(&s->scheduler, o)) {
        sky__operation_lost(&s->scheduler, op, SKY_E_IO);
        return;
    }
    r->move.missed |= r->move.step == MOVE_GATHERS ? all && !is_home(s, o) : !all;
    sky__operation_done(&s->scheduler, op);
}

const sky__client sky__move_client = {.asks = SKY_WIRE_MOVE,
                                      .answers = SKY_WIRE_ROW_ACK,
                                      .unit = move_unit,
                                      .places = move_places,
                                      .compose = move_compose,
                                      .taken = move_taken,
                                      .done = move_done};

const sky__client sky__rehead_client = {.asks = SKY_WIRE_SET,
                                        .answers = SKY_WIRE_SET_ACK,
                                        .stores = true,
                                        .unit = sky__head_unit,
                                        .compose = sky__put_compose,
                                        .taken = sky__put_taken,
                                        .skipped = sky__head_skipped,
                                        .done = move_go};
