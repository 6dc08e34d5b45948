/* Parity that was lost with a satellite, stored again. A get reads the payload alone, so it does
 * not notice a lost piece of parity. Therefore the session asks the servers of a block's parity
 * what they hold, after a get, at most once in CHECK_AGAIN_NS. If a stripe lacks pieces, the
 * session reads it, computes these pieces and sets them again (repair.c).
 *
 *     get ──► check: HAS to each server of parity, 64 stripes in one ──► mend, stripe by stripe
 *
 * Both are requests that the session makes itself. Reading stripes takes a tenth of the link: after
 * each, the session waits ten times as long as its pieces take.
 *
 * Surprise: for each column of the stripe the session keeps only the first and the last stripe that
 * lack it, as a satellite that restarted lacks all its pieces. If a piece between is there, it is
 * sent a second time, which does no harm. */
#include "ground/session_state.h"

#define CHECK_AGAIN_NS SKY_SECONDS(60)
#define MENDS_OPEN     4  /* stripes at once; the rest of the room is for gets */
#define SHARE          10 /* one part in so many of the link is for stripes */

/* ---- which pieces ---- */

/* The last stripe may have less data, and its parity other servers. */
static uint32_t stripes_whole(const sky_session *s, const sky__request *r) {
    return sky__data_chunks(&s->core, r->of.info.payload_bytes) / s->core.stripes.data;
}

static uint32_t stripes_all(const sky_session *s, const sky__request *r) {
    return r->of.info.chunk_count / s->core.servers +
           (r->of.info.chunk_count % s->core.servers != 0);
}

static uint32_t check_units(const sky_session *s, const sky__request *r) {
    uint32_t whole = stripes_whole(s, r);
    uint32_t rows = whole / SKY_ROW_MAX + (whole % SKY_ROW_MAX != 0);
    return (rows + (stripes_all(s, r) > whole)) * s->core.stripes.parity;
}

/* First stripe, from 0, and how many. */
static uint32_t check_stripes(const sky_session *s, const sky__request *r, uint32_t unit,
                              uint32_t *count) {
    uint32_t first = unit / s->core.stripes.parity * SKY_ROW_MAX, whole = stripes_whole(s, r);
    if (first >= whole) {
        *count = 1;
        return whole;
    }
    *count = whole - first < SKY_ROW_MAX ? whole - first : SKY_ROW_MAX;
    return first;
}

/* ---- check ---- */

/* A get of the block has ended. */
void sky__check_after_get(sky_session *s, uint32_t block, int64_t wall_ms) {
    sky__block_row *row = &s->blocks.rows[block];
    if (s->core.stripes.parity == 0 || s->core.config.replicas > 1 || row->moving ||
        (row->checked && s->core.now < row->checked + CHECK_AGAIN_NS))
        return;
    row->checked = s->core.now > 0 ? s->core.now : 1;
    sky__submit_own(s, &(sky_request){.mend = true, .key = row->key, .wall_ms = wall_ms});
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

static uint32_t check_first(const sky_session *s, const sky__request *r, uint32_t unit,
                            uint32_t *count) {
    uint32_t stripe = check_stripes(s, r, unit, count);
    uint32_t chunks = sky__data_chunks(&s->core, r->of.info.payload_bytes);
    sky_stripe first = sky_stripe_of(&s->core.stripes, chunks, stripe * s->core.servers + 1);
    return first.first + first.data + unit % s->core.stripes.parity;
}

static bool check_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    uint32_t count;
    o->id.number = check_first(s, r, unit, &count);
    o->copy = unit % s->core.config.replicas;
    return true;
}

static bool check_compose(sky_session *s, const sky__operation *o, sky_message *m,
                          sky_datagram *out) {
    (void)out;
    uint32_t count, first = check_first(s, &s->requests.rows[o->request], o->unit, &count);
    m->last = first + (count - 1) * s->core.servers;
    m->stride = s->core.servers;
    return true;
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
        r->check.lacking |= (uint64_t)1 << o->unit % s->core.stripes.parity;
        r->check.first = stripe + i < r->check.first ? stripe + i : r->check.first;
        r->check.last = stripe + i > r->check.last ? stripe + i : r->check.last;
    }
    sky__operation_done(&s->scheduler, op);
}

/* ---- mend ---- */

/* All servers have been asked: stripe by stripe then, when there is room and it is time. */
static void mend_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    if (!r->check.lacking) {
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

void sky__mends_feed(sky_session *s) {
    uint32_t request;
    while (s->requests.mends_open > 0 && s->mend_next <= s->core.now &&
           s->repairs_open < MENDS_OPEN && (request = mend_next(s)) != SKY__NONE) {
        sky__request *r = &s->requests.rows[request];
        uint64_t bytes = (uint64_t)s->core.servers * s->core.config.chunk_bytes;
        sky__repair_parity(s, request, r->unit_next++ * s->core.servers + 1, r->check.lacking);
        s->mend_next = s->core.now + SHARE * sky_link_busy_ns(s->core.config.link_bits_s, bytes);
    }
}

sky_time sky__mends_wake(const sky_session *s) {
    bool more = s->requests.mends_open > 0 && s->repairs_open < MENDS_OPEN &&
                mend_next(s) != SKY__NONE;
    return more ? s->mend_next : SKY_TIME_NEVER;
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
