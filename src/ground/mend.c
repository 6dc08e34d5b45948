/* Pieces that were lost with a satellite, stored again. A get reads the payload alone, so it does
 * not notice a lost piece of parity. Therefore the session asks the servers of a block's parity
 * what they hold, after a get, at most once in CHECK_AGAIN_NS. If a stripe lacks pieces, the
 * session reads it, computes these pieces and sets them again (repair.c). Where a piece of payload
 * was rebuilt because it was late, all servers are asked: it may be lost.
 *
 *     get ──► check: HAS to each server of parity, 64 stripes in one ──► mend, stripe by stripe
 *
 * A session that stays open also looks after blocks that nobody reads: one after the other, all
 * within PATROL_NS, and of each all columns, data too. So a stripe does not lose two pieces to two
 * satellites that start again one after the other, unless that is sooner. In a gap of a true sky it
 * waits: what it asked there would be in vain, and come up again only a round later.
 *
 * Both are requests that the session makes itself. Reading stripes takes a tenth of the link: after
 * each, the session waits ten times as long as its pieces take.
 *
 * With replicas too the first copy of each piece is asked for, and set again: satellites see to the
 * others (satellite/copies.c), unless all of a piece are gone.
 *
 * Surprise: for each column of the stripe the session keeps only the first and the last stripe that
 * lack it, as a satellite that restarted lacks all its pieces. If a piece between is there, it is
 * sent a second time, which does no harm. The short stripe at the end has its parity on other
 * servers, so its columns are kept apart. */
#include "base/bug.h"
#include "base/clock.h"
#include "ground/session_state.h"

#define CHECK_AGAIN_NS SKY_SECONDS(60)
#define PATROL_NS      SKY_SECONDS(600) /* all blocks are looked after once in so long, … */
#define PATROL_GAP_NS  SKY_SECONDS(1)   /* … but no more than one in so long */
#define MENDS_OPEN     4                /* stripes at once; the rest of the room is for gets */
#define SHARE          10               /* one part in so many of the link is for stripes */

/* ---- which pieces ---- */

/* The last stripe may have less data, and its parity other servers. */
static uint32_t stripes_whole(const sky_session *s, const sky__request *r) {
    return sky__data_chunks(&s->core, r->of.info.payload_bytes) / s->core.stripes.data;
}

static uint32_t stripes_all(const sky_session *s, const sky__request *r) {
    return r->of.info.chunk_count / s->core.servers +
           (r->of.info.chunk_count % s->core.servers != 0);
}

/* That are asked for. */
static uint32_t columns_of(const sky_session *s, const sky__request *r) {
    return r->ask.mend_data ? s->core.servers : s->core.stripes.parity;
}

static uint32_t check_units(const sky_session *s, const sky__request *r) {
    uint32_t whole = stripes_whole(s, r);
    uint32_t rows = whole / SKY_ROW_MAX + (whole % SKY_ROW_MAX != 0);
    return (rows + (stripes_all(s, r) > whole)) * columns_of(s, r);
}

/* The columns of a stripe that lack a piece: the short one has its own. */
static sky__columns *lacking_of(const sky_session *s, sky__request *r, uint32_t stripe) {
    return &r->check.lacking[stripe == stripes_whole(s, r)];
}

/* First stripe, from 0, and how many. */
static uint32_t check_stripes(const sky_session *s, const sky__request *r, uint32_t unit,
                              uint32_t *count) {
    uint32_t first = unit / columns_of(s, r) * SKY_ROW_MAX, whole = stripes_whole(s, r);
    if (first >= whole) {
        *count = 1;
        return whole;
    }
    *count = whole - first < SKY_ROW_MAX ? whole - first : SKY_ROW_MAX;
    return first;
}

/* ---- check ---- */

/* A get of the block has ended. */
void sky__check_after_get(sky_session *s, uint32_t block, const sky__request *get) {
    sky__block_row *row = &s->blocks.rows[block];
    if (s->core.stripes.parity == 0 || row->moving ||
        (row->checked && s->core.now < row->checked + CHECK_AGAIN_NS))
        return;
    row->checked = s->core.now > 0 ? s->core.now : 1;
    sky__submit_own(s, &(sky_request){.mend = true,
                                      .mend_data = get->get.unheard,
                                      .key = row->key,
                                      .wall_ms = get->ask.wall_ms});
}

void sky__check_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (block != SKY_BLOCK_NONE)
        r->of = sky__blocks_subject(&s->blocks, block);
    if (block == SKY_BLOCK_NONE || r->of.info.chunk_count == 0) {
        sky__request_finish(s, request, SKY_MISS, 0);
        return;
    }
    r->state = REQUEST_RUNNING;
    r->check.first = UINT32_MAX;
    sky__requests_work(&s->requests, request, WORK_CHECK, 0, check_units(s, r) - 1);
    r->spare = true; /* nobody waits for it */
}

/* The first chunk; 0: the short stripe at the end has no such column. */
static uint32_t check_first(const sky_session *s, const sky__request *r, uint32_t unit,
                            uint32_t *count) {
    uint32_t stripe = check_stripes(s, r, unit, count);
    uint32_t column = unit % columns_of(s, r), parity = s->core.stripes.parity;
    uint32_t chunks = sky__data_chunks(&s->core, r->of.info.payload_bytes);
    sky_stripe first = sky_stripe_of(&s->core.stripes, chunks, stripe * s->core.servers + 1);
    if (column >= first.pieces)
        return 0;
    return first.first + (column < parity ? first.data + column : column - parity);
}

static bool check_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    uint32_t count;
    o->id.number = check_first(s, r, unit, &count);
    return o->id.number > 0;
}

static bool check_compose(sky_session *s, const sky__operation *o, sky_message *m,
                          sky_datagram *out) {
    (void)out;
    uint32_t count, first = check_first(s, &s->requests.rows[o->request], o->unit, &count);
    m->last = first + (count - 1) * s->core.servers;
    m->stride = s->core.servers;
    return true;
}

void sky__has_taken(sky_session *s, uint32_t op, const sky_message *m, uint64_t wanted) {
    sky__operation *o = &s->scheduler.operations[op];
    o->here |= m->present & wanted;
    if (o->here != wanted) {
        sky__operation_missed(&s->scheduler, op);
        return;
    }
    s->requests.rows[o->request].result.satellite = o->to;
    sky__operation_done(&s->scheduler, op);
}

/* The pieces of its row, a bit each. */
static void check_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    uint32_t count;
    check_stripes(s, &s->requests.rows[o->request], o->unit, &count);
    sky__has_taken(s, op, m, UINT64_MAX >> (SKY_ROW_MAX - count));
}

/* All places were asked: what is in none of them is gone, but for what the silent may have. */
static void check_lost(sky_session *s, uint32_t op, sky_status status) {
    const sky__operation *o = &s->scheduler.operations[op];
    sky__request *r = &s->requests.rows[o->request];
    uint32_t count, stripe = check_stripes(s, r, o->unit, &count);
    for (uint32_t i = 0; i < count && status == SKY_MISS; i++) {
        if (o->here >> i & 1)
            continue;
        uint32_t column = o->unit % columns_of(s, r);
        lacking_of(s, r, stripe)->bits[column / 64] |= (uint64_t)1 << column % 64;
        r->check.any = true;
        r->check.first = stripe + i < r->check.first ? stripe + i : r->check.first;
        r->check.last = stripe + i > r->check.last ? stripe + i : r->check.last;
    }
    sky__operation_done(&s->scheduler, op);
}

/* ---- mend ---- */

/* All servers have been asked: stripe by stripe then, when there is room and it is time. */
static void mend_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    if (!r->check.any || SKY_BUG("pieces-not-mended", 1)) {
        sky__request_finish(s, request, SKY_OK, 0);
        return;
    }
    r->work = WORK_MEND;
    r->unit_next = r->check.first;
    r->unit_last = r->check.last;
    r->units_left = r->check.last - r->check.first + 1;
    s->requests.mends_open++;
}

static uint32_t mend_next(const sky_session *s) {
    for (uint32_t i = 0; i < s->requests.max; i++) {
        const sky__request *r = &s->requests.rows[i];
        if (r->state == REQUEST_RUNNING && r->work == WORK_MEND && r->unit_next <= r->unit_last)
            return i;
    }
    return SKY__NONE;
}

/* ---- patrol ---- */

/* From one block to the next. */
static sky_time patrol_gap(const sky_session *s) {
    return sky__later(PATROL_NS / sky_index_count(s->blocks.index), PATROL_GAP_NS);
}

static bool patrol_due(const sky_session *s) {
    return s->core.stripes.parity > 0 && sky_index_count(s->blocks.index) > 0;
}

/* The next block after the last one, wall clock or not: what is past its time goes at its next
 * use. */
static void patrol_next(sky_session *s) {
    const uint32_t blocks = s->core.config.blocks_max;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t block = (s->patrol_block + i) % blocks;
        const sky__block_row *row = &s->blocks.rows[block];
        if (row->version == 0 || row->moving || row->unverified)
            continue;
        s->patrol_block = block + 1;
        sky__submit_own(
            s,
            &(sky_request){.mend = true, .mend_data = true, .key = row->key, .wall_ms = INT64_MIN});
        return;
    }
}

static void look_after_next(sky_session *s) {
    if (!patrol_due(s)) {
        s->patrol_at = 0;
        return;
    }
    const sky_frame *f = s->core.config.frame;
    uint64_t turns = sky__rotations(&s->core);
    if (s->patrol_at > s->core.now)
        return;
    if (s->patrol_at > 0 && !sky_frame_in_sight(f, turns)) {
        s->patrol_at = sky_turn_begins(&f->turning, turns + 1);
        return;
    }
    if (s->patrol_at > 0)
        patrol_next(s);
    s->patrol_at = s->core.now + patrol_gap(s);
}

void sky__mends_feed(sky_session *s) {
    uint32_t request;
    look_after_next(s);
    while (s->requests.mends_open > 0 && s->mend_next <= s->core.now &&
           s->repairs_open < MENDS_OPEN && (request = mend_next(s)) != SKY__NONE) {
        sky__request *r = &s->requests.rows[request];
        uint64_t bytes = (uint64_t)s->core.servers * s->core.config.chunk_bytes;
        uint32_t stripe = r->unit_next++;
        sky__repair_columns(s, request, stripe * s->core.servers + 1, lacking_of(s, r, stripe));
        s->mend_next = s->core.now + SHARE * sky_link_busy_ns(s->core.config.link_bits_s, bytes);
    }
}

sky_time sky__mends_wake(const sky_session *s) {
    bool more = s->requests.mends_open > 0 && s->repairs_open < MENDS_OPEN &&
                mend_next(s) != SKY__NONE;
    sky_time patrol_at = s->patrol_at > 0 && patrol_due(s) ? s->patrol_at : SKY_TIME_NEVER;
    return sky__sooner(more ? s->mend_next : SKY_TIME_NEVER, patrol_at);
}

const sky__client sky__check_client = {.asks = SKY_WIRE_HAS,
                                       .answers = SKY_WIRE_HAS_REPLY,
                                       .moved = true,
                                       .unit = check_unit,
                                       .compose = check_compose,
                                       .taken = check_taken,
                                       .lost = check_lost,
                                       .done = mend_begin};

const sky__client sky__mend_client = {.done = sky__work_done};
