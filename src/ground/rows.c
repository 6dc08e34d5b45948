/* What is said to all servers of a block at once: forget, pin, move. One datagram a server, since
 * its chunks are an arithmetic row. And what is said beside: this copy of its head was lost.
 *
 * DROP and PIN are not answered; where much is lost a DROP is said again after what waits with it,
 * and what it misses nevertheless the satellites' own LRU finds. MOVE is answered, as every chunk
 * it misses is one that is read more slowly: the block's index entry keeps the home it came from,
 * and what is not in the new one is asked for in the old one.
 *
 *     before ─ MOVE ─► satellites give the chunks their new home and migrate them ─► at T overhead
 *
 * A block has two homes at most, and before it gets another all its chunks must have come to the
 * one it has. Told is not there: a chunk may still lie where it was sent from.
 *
 *     ( settle ──► ( gather ) ) ──► go
 *
 *   settle  MOVE to the home it has, a row at a time: are all there? For a block that was moved
 *           before; and where satellites sweep, for from then on it is spare. A satellite that
 *           finds the next chunk moved away, and has not heard of it, would take it for lost
 *   gather  when they are not (a turn split the row, a satellite had not heard): the same chunk by
 *           chunk, in both homes, until all are there
 *   go      MOVE to the new home
 *
 * So the satellites do not clear away what is left of a moved block: the ground does.
 *
 * Surprise: the last chunk has a MOVE of its own. Its successor is chunk 1 and not, as for the rest
 * of its row, the chunk on the next server. */
#include "ground/session_state.h"

#define DROPS_UNHEARD 0.001 /* of all, at most, … */
#define ROUNDS_MAX    2     /* … as far as so many more of each can do */
#define GATHERS_MAX   8     /* each takes a round trip; what moves takes a few */

/* ---- DROP, PIN, PURGE ---- */

/* When the queue is full the satellites are not told: what they keep in vain their own LRU will
 * find. */
static void push(sky_session *s, const sky__row *row) {
    if (s->row_count == s->row_max)
        return;
    if (s->row_count == 0)
        s->row_first = 0;
    s->rows[(s->row_first + s->row_count++) % s->row_max] = *row;
}

/* More DROPs of the same, by the loss seen lately: what no DROP reached is in the way until the
 * satellite is full, and then something else may go for it. */
static uint32_t rounds_of(const sky_session *s) {
    uint32_t rounds = 0;
    double unheard = s->loss;
    for (; unheard > DROPS_UNHEARD && rounds < ROUNDS_MAX; rounds++)
        unheard *= s->loss;
    return rounds;
}

static sky__row row_for(const sky_session *s, sky_wire_type type, const sky__side *side,
                        const sky_block_info *info) {
    return (sky__row){.id = {.key = side->key, .version = side->version},
                      .facts = sky__block_facts(s, info, false),
                      .type = type,
                      .head_version = side->head_version,
                      .server = side->head_version ? 0 : 1,
                      .rounds = type == SKY_WIRE_DROP ? rounds_of(s) : 0};
}

void sky__row_push(sky_session *s, sky_wire_type type, const sky__side *side,
                   const sky_block_info *info, bool pinned) {
    sky__row row = row_for(s, type, side, info);
    row.facts.pinned = pinned;
    if (info->chunk_count > 0 || side->head_version)
        push(s, &row);
}

void sky__purge_push(sky_session *s, const sky__side *side, const sky_block_info *info) {
    if (side->head_version) {
        sky__row head = row_for(s, SKY_WIRE_DROP, side, info);
        head.head_only = true;
        push(s, &head);
    }
    sky__row row = row_for(s, SKY_WIRE_PURGE, side, info);
    row.server = 1;
    if (info->chunk_count > 0 && s->config.eviction & SKY_EVICT_GOSSIP)
        push(s, &row);
}

void sky__heads_mend(sky_session *s, uint32_t block) {
    sky__side *side = &s->sides[block];
    for (uint32_t copy = 0; copy < s->head_copies; copy++) {
        const sky__row row = {.id = {.key = side->key, .version = side->version},
                              .type = SKY_WIRE_SET,
                              .head_version = side->head_version,
                              .copy = copy};
        if (side->heads_lost >> copy & 1)
            push(s, &row);
    }
    side->heads_lost = 0;
}

static bool row_over(const sky_session *s, const sky__row *row) {
    uint32_t count = row->facts.chunk_count;
    uint32_t servers = count < s->servers ? count : s->servers;
    return row->server > servers || (row->head_only && row->server > 0);
}

/* On to the next place, replica, server. */
static void row_step(const sky_session *s, sky__row *row, bool two) {
    row->second = two && !row->second;
    if (row->second)
        return;
    row->copy++;
    if (row->copy < (row->server > 0 ? s->config.replicas : s->head_copies))
        return;
    row->copy = 0;
    row->server++;
}

static void pop(sky_session *s) {
    s->row_first = (s->row_first + 1) % s->row_max;
    s->row_count--;
}

/* One word for a row: those of a get's first chunks, each of which is in another. */
void sky__copies_missed(sky_session *s, const sky__operation *o) {
    const sky__request *r = &s->requests[o->request];
    uint32_t first = (uint32_t)(r->range_begin / s->config.chunk_bytes) + 1;
    if (o->unit - first >= s->servers)
        return;
    const sky__row row = {.id = r->id,
                          .facts = r->facts,
                          .type = SKY_WIRE_MEND,
                          .server = (o->number - 1) % s->servers + 1,
                          .copy = o->copy};
    push(s, &row);
}

static void mend_send(sky_session *s, sky_time now, sky_datagram *out) {
    const sky__row row = s->rows[s->row_first];
    uint32_t count = row.facts.chunk_count;
    sky_chunk_facts facts = row.facts;
    pop(s);
    sky_message m = {.type = SKY_WIRE_MEND,
                     .id = row.id,
                     .stride = s->servers,
                     .last = count - (count - row.server) % s->servers};
    m.id.number = row.server;
    sky__facts_of(s, &facts, row.server, row.copy);
    s->stat.copies_missed++;
    sky__send(s, now, &m, sky_session_place(s, &facts, sky__turns(s, now)), out);
}

/* The first is over; what comes after it goes before it is said once more. */
static void row_again(sky_session *s) {
    sky__row row = s->rows[s->row_first];
    pop(s);
    if (row.rounds-- == 0)
        return;
    row.server = row.head_version ? 0 : 1;
    push(s, &row);
}

/* The blocks of the PURGEs that come next, for as long as they go to the same satellite. */
static uint32_t take_purges(sky_session *s, sky_time now, sky_satellite to, uint8_t *data,
                            size_t data_bytes_max) {
    uint32_t bytes = 0;
    while (s->row_count > 0 && bytes + SKY_LOST_BLOCK_BYTES <= data_bytes_max) {
        const sky__row *row = &s->rows[s->row_first];
        sky_chunk_facts facts = row->facts;
        if (row->type != SKY_WIRE_PURGE)
            break;
        sky__facts_of(s, &facts, row->server, row->copy);
        if (!sky_satellite_equal(sky_session_place(s, &facts, sky__turns(s, now)), to))
            break;
        const sky_lost_block b = {row->id.key, row->id.version, facts.chunk_count,
                                  s->config.gossip_hops};
        sky_lost_block_encode(&b, data + bytes);
        bytes += SKY_LOST_BLOCK_BYTES;
        pop(s);
    }
    return bytes;
}

static void purge_send(sky_session *s, sky_time now, sky_datagram *out) {
    const size_t offset = sky_message_data_offset(SKY_WIRE_PURGE);
    size_t room = out->bytes_max - offset;
    if (room > SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES)
        room = SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES;
    const sky__row row = s->rows[s->row_first];
    sky_chunk_facts facts = row.facts;
    sky__facts_of(s, &facts, row.server, row.copy);
    const sky_satellite to = sky_session_place(s, &facts, sky__turns(s, now));
    sky_message m = {.type = SKY_WIRE_PURGE,
                     .id = row.id,
                     .facts.chunk_count = facts.chunk_count,
                     .hops = s->config.gossip_hops,
                     .data = out->data + offset};
    m.id.number = row.server;
    pop(s);
    m.data_bytes = take_purges(s, now, to, out->data + offset, room);
    sky__send(s, now, &m, to, out);
}

/* As the index has it by now. A satellite that got a newer one meanwhile keeps that. */
static bool head_send(sky_session *s, sky_time now, sky_datagram *out) {
    const sky__row row = s->rows[s->row_first];
    uint32_t block = sky_index_find(s->index, &row.id.key);
    pop(s);
    if (block == SKY_BLOCK_NONE || s->sides[block].version != row.id.version ||
        s->sides[block].head_version != row.head_version)
        return false;
    const sky__side *side = &s->sides[block];
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET);
    sky_block_head head = sky__head_of(s, &info, side->version, &side->before, side->named);
    sky_head_encode(&head, data);
    sky_message m = {.type = SKY_WIRE_SET,
                     .id = {.key = side->key, .version = row.head_version},
                     .facts = sky__block_facts(s, &info, side->pinned),
                     .data = data,
                     .data_bytes = SKY_HEAD_BYTES};
    sky__facts_of(s, &m.facts, 0, row.copy);
    if (!s->config.sealed)
        m.facts.checksum = sky_chunk_checksum(&m.id, data, SKY_HEAD_BYTES);
    sky__send(s, now, &m, sky_session_place(s, &m.facts, sky__turns(s, now)), out);
    s->stat.heads_mended++;
    return true;
}

/* At its place and then where it was before: the chunks may be in both. */
bool sky__row_send(sky_session *s, sky_time now, sky_datagram *out) {
    s->told = true;
    sky__row *row = &s->rows[s->row_first];
    if (row->type == SKY_WIRE_SET)
        return head_send(s, now, out);
    if (row->type == SKY_WIRE_PURGE) {
        purge_send(s, now, out);
        return true;
    }
    if (row->type == SKY_WIRE_MEND) {
        mend_send(s, now, out);
        return true;
    }
    uint32_t count = row->facts.chunk_count;
    uint32_t server = row->server;
    sky_message m = {.type = row->type,
                     .id = row->id,
                     .facts.pinned = row->facts.pinned,
                     .stride = s->servers,
                     .last = server ? count - (count - server) % s->servers : 0};
    m.id.number = server;
    if (server == 0)
        m.id.version = row->head_version;
    sky_chunk_facts facts = row->facts;
    sky__facts_of(s, &facts, server, row->copy);
    uint64_t turns = sky__turns(s, now);
    sky_satellite places[2] = {sky_session_place(s, &facts, turns)};
    bool two = sky_session_place_before(s, &facts, turns, &places[1]);
    sky__send(s, now, &m, places[two && row->second], out);
    row_step(s, row, two);
    if (row_over(s, row))
        row_again(s);
    return true;
}

/* ---- MOVE ---- */

static uint32_t rows_of_move(const sky_session *s, const sky__request *r) {
    uint32_t others = r->info.chunk_count - 1;
    return others < s->servers ? others : s->servers;
}

sky__span sky__span_of(const sky_session *s, const sky__request *r, uint32_t unit) {
    if (r->work == WORK_CHECK)
        return sky__check_span(s, r, unit);
    uint32_t count = r->info.chunk_count;
    uint32_t row = unit / s->config.replicas;
    sky__span span = {.copy = unit % s->config.replicas, .first = count, .last = count};
    if (r->step == MOVE_GATHERS)
        span.first = span.last = row + 1;
    else if (row < rows_of_move(s, r)) {
        span.first = row + 1;
        span.last = count - 1 - (count - 1 - span.first) % s->servers;
    }
    return span;
}

/* Of two homes satellites believe the one of the later time. Where a place turns with the time, it
 * is that for which it is meant; else it only has to be later than the one before. */
static int64_t home_ms(const sky_session *s, const sky_block_info *info, int64_t at_ms) {
    const sky_frame *f = s->config.frame;
    int64_t now_ms = sky_turning_ms(&f->turning, s->now);
    if (sky_strategy_row_of(f->placement.strategy)->migrates)
        return at_ms;
    return now_ms > info->set_ms ? now_ms : info->set_ms + 1;
}

/* Count the block in its new home too, and write the old one down. */
static sky_status take_home(sky_session *s, sky__request *r, uint32_t block, int64_t at_ms) {
    const sky_frame *f = s->config.frame;
    sky_satellite centre = sky_frame_centre(f, sky_turns_at_ms(&f->turning, at_ms));
    const sky__home home = {home_ms(s, &r->info, at_ms), centre};
    sky_block_info there = sky__info_at(&r->info, &home);
    sky__side *side = &s->sides[block];
    if (sky_index_pin(s->index, block) != SKY_OK)
        return SKY_E_BUSY;
    bool room = sky__make_room(s, &there, false);
    (void)sky_index_unpin(s->index, block);
    if (!room)
        return SKY_E_FULL;
    sky_status status = sky_index_insert(s->index, &side->key, NULL, &there, &block);
    if (status != SKY_OK)
        return status;
    side->before = (sky__home){r->info.set_ms, {r->info.centre_plane, r->info.centre_slot}};
    side->moving = side->scattered = r->moves = true;
    sky__load(s, &there, true);
    r->before = side->before;
    r->info = there;
    r->facts = sky__block_facts(s, &there, side->pinned);
    return SKY_OK;
}

static void move_rows(sky_session *s, uint32_t request, sky__move_step step) {
    sky__request *r = &s->requests[request];
    uint32_t rows = step == MOVE_GATHERS ? r->info.chunk_count : rows_of_move(s, r) + 1;
    r->step = step;
    r->missed = false;
    r->facts.spare = true;
    sky__work_begin(s, request, WORK_MOVE, 0, rows * s->config.replicas - 1);
}

/* What is to be done before the block may go; false when nothing is. While chunks come home from
 * where they were before they count in both. */
static bool prepare(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests[request];
    sky__side *side = &s->sides[block];
    bool swept = s->config.eviction & SKY_EVICT_SWEEP && !r->facts.spare;
    if (r->settled || !(side->scattered || swept))
        return false;
    r->before = side->before;
    if (r->missed && side->before.set_ms) {
        sky_block_info there = sky__info_at(&r->info, &side->before);
        sky__load(s, &there, true);
        side->moving = r->moves = true;
    }
    move_rows(s, request, r->missed ? MOVE_GATHERS : MOVE_SETTLES);
    return true;
}

static void go(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests[request];
    sky__side *side = &s->sides[block];
    sky_status status = take_home(s, r, block, r->ask.at_ms);
    if (status != SKY_OK) {
        sky__request_finish(s, request, status, r->info.payload_bytes);
        return;
    }
    if (s->config.lookup == SKY_LOOKUP_INDEX) {
        sky__move_go(s, request);
        return;
    }
    if (!side->head_version) /* the one it had was given up */
        sky__load_head(s, true);
    side->head_version = sky__head_version_next(s,
                                                sky_turning_ms(&s->config.frame->turning, s->now));
    r->head_version = side->head_version;
    sky__work_begin(s, request, WORK_REHEAD, 0, s->head_copies - 1);
}

/* Nothing need move for a block to be overhead at at_ms. */
static bool is_there(const sky_session *s, const sky_block_info *info, int64_t at_ms) {
    const sky_frame *f = s->config.frame;
    const sky_strategy_row *row = sky_strategy_row_of(f->placement.strategy);
    const sky_satellite home = {info->centre_plane, info->centre_slot};
    uint64_t then = sky_turns_at_ms(&f->turning, at_ms);
    if (row->migrates) /* what is overhead now stays so */
        return then <= sky__turns(s, s->now) || then == sky_turns_at_ms(&f->turning, info->set_ms);
    return row->aboard || sky_satellite_equal(sky_frame_centre(f, then), home);
}

/* The block is to be overhead at at_ms: its chunks go where the window will be then, and wait. The
 * head goes first, so that who finds the block by it knows both homes. */
void sky__move_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky__find_block(s, r->ask.wall_ms, &r->ask.key);
    if (block == SKY_BLOCK_NONE) {
        sky__request_finish(s, request, SKY_MISS, 0);
        return;
    }
    sky_index_info(s->index, block, &r->info);
    const sky__side *side = &s->sides[block];
    bool there = r->info.chunk_count == 0 || is_there(s, &r->info, r->ask.at_ms);
    if (side->moving || there) {
        sky__request_finish(s, request, side->moving ? SKY_E_BUSY : SKY_OK, r->info.payload_bytes);
        return;
    }
    if (r->id.version != side->version) /* it is another */
        r->settled = r->missed = false;
    r->id = (sky_chunk_id){.key = r->ask.key, .version = side->version};
    r->facts = sky__block_facts(s, &r->info, side->pinned);
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
    uint32_t block = sky_index_find(s->index, &r->ask.key);
    bool goes = r->step == MOVE_GOES;
    if (goes || (r->missed && r->restarts++ == GATHERS_MAX)) {
        sky__request_finish(s, request, goes ? SKY_OK : SKY_E_BUSY, r->info.payload_bytes);
        return;
    }
    r->settled = !r->missed;
    if (r->settled && block != SKY_BLOCK_NONE && s->sides[block].version == r->id.version)
        s->sides[block].scattered = false;
    sky__move_end(s, request);
    sky__move_begin(s, request);
}

/* Told or not, from now on the block counts in its new home alone. */
void sky__move_end(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests[request];
    uint32_t block = sky_index_find(s->index, &r->ask.key);
    bool moves = r->moves;
    r->moves = false;
    if (!moves || block == SKY_BLOCK_NONE || s->sides[block].version != r->id.version)
        return; /* gone or replaced meanwhile, and uncounted then */
    sky_block_info there = sky__info_at(&r->info, &s->sides[block].before);
    s->sides[block].moving = false;
    sky__load(s, &there, false);
}
