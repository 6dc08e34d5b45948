/* Blocks found by asking: for a ground whose index is empty or stale.
 *
 *   keys   0   1   2   3   4   5   6   7      below `low`: there      from `high` on: not there
 *          └── low ──┘   ?   ?   └─ high
 *
 * Binary: ask for the middle of what is unknown, since a block is there only if those before it
 * are. Sequential: ask for the last, then the one before. Either ends when low meets high; then the
 * heads below that are not known yet are fetched, all at once. The satellite asked is the one
 * overhead: heads lie in a window one satellite wide, so its place does not depend on when a block
 * was set. A head says everything the index would: it is entered there, and the block is read like
 * any other.
 *
 * Surprise: a head is believed as far as it makes sense. What is wrong with it besides shows when
 * its chunks are asked for: they are not there, and the block is a miss. Until it was read once it
 * is unverified, and nothing in the sky is dropped because of it: else a liar could have honest
 * grounds drop what others set.
 *
 * A name's copies are all asked at once, as one may have missed the last put (heads_unit).
 *
 * In a true sky heads stay behind where no laser leads on, and an older one may come to where it
 * belongs before a newer one does. A name's head counts as the newest there only if none that was
 * set later can be where nobody was asked. */
#include <skymem/keys.h>

#include "base/bug.h"
#include "ground/session_state.h"

#define HEAD_PLACES 3 /* of a copy, at most, where a search asks first */

static const sky_key *look_key(const sky__request *r, uint32_t unit) {
    return r->ask.chain ? &r->ask.chain[unit] : &r->ask.key;
}

static uint32_t key_count(const sky__request *r) {
    return r->ask.chain ? r->ask.chain_count : 1;
}

static bool key_known(sky_session *s, const sky__request *r, uint32_t unit) {
    return sky__blocks_find(&s->blocks, r->ask.wall_ms, look_key(r, unit)) != SKY_BLOCK_NONE;
}

/* While filling, heads that are known already are passed over. */
static bool look_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    o->id = (sky_chunk_id){.key = *look_key(r, unit), .version = SKY_VERSION_ANY};
    o->copy = r->look.copy;
    return !r->look.filling || (unit < r->look.low && !key_known(s, r, unit));
}

/* ---- the head of a key, at many places at once ---- */

/* How many steps back a trace begins. An ordinary question goes on to the place before (1 step
 * back) only when the present place has no head. Where lasers may be down the present place may
 * have an older head, and the place before the newest one: so that place is traced too. */
static uint32_t traced_first(const sky_session *s) {
    return sky_frame_whole(s->core.config.frame) ? 2 : 1;
}

/* Of several places, units count the copies, those of the latest place first. */
static sky_satellite traced_place(const sky_session *s, const sky__request *r, uint32_t unit) {
    uint32_t at = unit / s->core.head_copies;
    sky_chunk_facts facts = r->of.facts;
    sky__facts_of(&s->core, &facts, 0, unit % s->core.head_copies);
    if (sky__is_look_of_put(r)) {
        sky_satellite places[SKY__PLACES_MAX];
        return places[at < sky__places(&s->core, &facts, NULL, 0, places) ? at : 0];
    }
    return sky_session_place(s, &facts, sky__turn_back(&s->core, traced_first(s) + at));
}

/* A satellite that stayed overhead for several rotations is one place. Asked once for each, it
 * would serve the questions one after the other, the last of them later than is waited for. */
static bool is_traced_already(const sky_session *s, const sky__request *r, uint32_t unit) {
    sky_satellite place = traced_place(s, r, unit);
    for (uint32_t i = 0; i < unit; i++) {
        if (sky_satellite_equal(traced_place(s, r, i), place))
            return true;
    }
    return false;
}

static bool heads_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    o->id = (sky_chunk_id){.key = r->ask.key, .version = SKY_VERSION_ANY};
    o->copy = unit % s->core.head_copies;
    return !r->look.tracing || !is_traced_already(s, r, unit);
}

static uint32_t heads_places(const sky_session *s, const sky__operation *o, sky_satellite *places) {
    const sky__request *r = &s->requests.rows[o->request];
    if (!r->look.tracing)
        return sky__chunk_places(&s->scheduler, o, NULL, places);
    places[0] = traced_place(s, r, o->unit);
    return 1;
}

/* Where migration lags a head is on one of its last places. False: there are none but those that
 * every search asks. */
static bool trace_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    const sky_frame *f = s->core.config.frame;
    uint64_t turned = sky__rotations(&s->core);
    uint64_t last = turned < SKY_LAST_STEPS ? turned : SKY_LAST_STEPS;
    uint32_t first = traced_first(s);
    bool windowed = sky_strategy_row_of(f->placement.strategy)->windowed;
    bool waited_for = r->own; /* a put waits for what it looks for */
    if (!windowed || last < first || r->look.traced || waited_for)
        return false;
    r->look.tracing = r->look.traced = true;
    sky__requests_work(&s->requests, request, WORK_HEADS, 0,
                       (uint32_t)(last - first + 1) * s->core.head_copies - 1);
    return true;
}

/* Every place that can be asked was asked for the head of a key, and none has it. */
static sky_status absent_status(sky_session *s) {
    return sky__heads_may_be_cut_off(&s->core) ? SKY_E_IO : SKY_MISS;
}

/* Another ground may have replaced what the index knows, or removed it. Without a head in the sky
 * no other ground knows of it. */
bool sky__may_be_outdated(const sky_session *s, const sky__request *r) {
    const sky__block_row *row = &s->blocks.rows[sky_index_find(s->blocks.index, &r->ask.key)];
    bool asks = r->ask.op == SKY_OP_GET || r->ask.op == SKY_OP_HAS ||
                r->ask.op == SKY_OP_PREFETCH || r->ask.conditional || s->core.config.sealed;
    return asks && row->named && row->head_version && s->core.config.lookup != SKY_LOOKUP_INDEX &&
           !SKY_BUG("name-believed", 1);
}

/* One that was silent while others were set has an older head when it is there again. */
static bool copies_may_differ(const sky_session *s) {
    return s->core.head_copies > 1 && !SKY_BUG("one-copy-believed", 1);
}

/* All is known up to `low`. That a single key is not there is said only when no place that could
 * hold its head is silent, or cut off. */
static void look_done(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    bool nothing = r->look.unsure && r->look.low == 0;
    if (r->ask.chain)
        sky__request_finish(s, request,
                            r->look.low > 0 ? SKY_OK
                            : nothing       ? SKY_E_IO
                                            : SKY_MISS,
                            r->look.low);
    else if (key_known(s, r, 0) && !r->own && sky__may_be_outdated(s, r) &&
             (copies_may_differ(s) || !sky_frame_whole(s->core.config.frame)))
        sky__fresh_begin(s, request); /* one copy said so, and may be outdated */
    else if (key_known(s, r, 0))
        sky__request_found(s, request);
    else if (nothing)
        sky__request_finish(s, request, SKY_E_IO, 0);
    else if (s->core.config.lookup == SKY_LOOKUP_INDEX)
        sky__request_finish(s, request, SKY_MISS, 0);
    else if (!trace_begin(s, request))
        sky__request_finish(s, request, absent_status(s), 0);
}

/* Nothing is known of the block yet, nor needs to be: heads lie where any block's do. */
static void search_begin(const sky_session *s, sky__request *r) {
    r->state = REQUEST_RUNNING;
    r->of.facts = sky__block_facts(&s->core, &r->of.info, false);
}

void sky__heads_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    r->look.heard = r->look.unsure = r->look.tracing = false; /* it may be the second time */
    r->look.outdated = r->look.spoke = 0;
    r->look.checked = block == SKY_BLOCK_NONE ? 0 : s->blocks.rows[block].version;
    s->core.stat.questions++;
    sky__requests_work(&s->requests, request, WORK_HEADS, 0, s->core.head_copies - 1);
}

void sky__fresh_begin(sky_session *s, uint32_t request) {
    search_begin(s, &s->requests.rows[request]);
    sky__heads_begin(s, request);
}

/* The index has what nobody in the sky has a head of: another ground removed it. Its chunks are
 * left alone, as they are not ours to count any more. */
static void forget_block(sky_session *s, uint32_t block) {
    s->blocks.rows[block].unverified = true;
    sky__blocks_lose(&s->blocks, block);
}

/* May a newer head than the one that was found be where nobody was asked, or can be asked? */
static bool newer_may_hide(sky_session *s, const sky__request *r, uint32_t block) {
    const sky__block_row *row = &s->blocks.rows[block];
    bool all_spoke = r->look.traced && !r->look.unsure;
    return row->named && !r->own &&
           sky__newer_head_may_hide(&s->core, row->head_version, all_spoke);
}

/* Copies that are not the newest, or not there, are set again. Of a sealed head it is sure that a
 * ground made it; others must have been read once. */
static void mend_heads(sky_session *s, const sky__request *r, uint32_t block) {
    sky__block_row *row = &s->blocks.rows[block];
    if (!r->look.heard || r->look.tracing || (row->unverified && !s->core.config.sealed))
        return;
    row->heads_lost |= r->look.outdated;
    sky__blocks_mend_heads(&s->blocks, block);
}

static void heads_done(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    bool there = block != SKY_BLOCK_NONE;
    bool doubted = there && s->blocks.rows[block].version == r->look.checked;
    if (there)
        mend_heads(s, r, block);
    if (sky__is_put(r)) {
        sky__request_found(s, request);
        return;
    }
    if (there && (r->look.heard || !doubted)) { /* it may have come meanwhile */
        if (!newer_may_hide(s, r, block))
            sky__request_found(s, request);
        else if (trace_begin(s, request))
            r->look.unsure = false; /* of the last places, from here on */
        else
            sky__request_finish(s, request, SKY_E_IO, 0);
    } else if (r->look.unsure) {
        sky__request_finish(s, request, SKY_E_IO, 0);
    } else if (!trace_begin(s, request)) {
        sky_status status = absent_status(s);
        if (there && status == SKY_MISS)
            forget_block(s, block);
        sky__request_finish(s, request, status, 0);
    }
}

static void heads_lost(sky_session *s, uint32_t op, sky_status status) {
    const sky__operation *o = &s->scheduler.operations[op];
    sky__request *r = &s->requests.rows[o->request];
    r->look.unsure |= status == SKY_E_IO;
    r->look.outdated |= (uint32_t)(status != SKY_E_IO) << o->copy;
    sky__operation_done(&s->scheduler, op);
}

static void fill_heads(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    bool missing = false;
    for (uint32_t i = 0; i < r->look.low && !missing; i++)
        missing = !key_known(s, r, i);
    r->look.filling = true;
    if (!missing) {
        look_done(s, request);
        return;
    }
    sky__requests_work(&s->requests, request, WORK_LOOK, 0, r->look.low - 1);
}

/* Ask for the next key; the index is asked first, it answers at once. */
static void search_next(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    bool halve = s->core.config.lookup == SKY_LOOKUP_BINARY;
    while (r->look.low < r->look.high) {
        uint32_t unit = halve ? r->look.low + (r->look.high - r->look.low) / 2 : r->look.high - 1;
        if (!key_known(s, r, unit)) {
            s->core.stat.questions++;
            sky__requests_work(&s->requests, request, WORK_LOOK, unit, unit);
            return;
        }
        r->look.low = unit + 1;
    }
    fill_heads(s, request);
}

/* A put waits for what it looks for. So the places where a head is looked for first are asked at
 * once here, and not one after the other and the first of them twice. A head on its way between two
 * of them may be missed. Then its chunks stay until they are evicted, and our value counts as the
 * newer one unless the other's clock is ahead by more than the time since that was put. */
static void look_for_put(sky_session *s, uint32_t request) {
    s->core.stat.questions++;
    s->requests.rows[request].look.tracing = s->requests.rows[request].look.traced = true;
    sky__requests_work(&s->requests, request, WORK_HEADS, 0, HEAD_PLACES * s->core.head_copies - 1);
}

void sky__look_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    search_begin(s, r);
    r->look.searched = true;
    r->look.filling = r->look.tracing = false; /* it may be the second time */
    r->look.low = 0;
    r->look.high = key_count(r);
    if (s->core.config.lookup == SKY_LOOKUP_INDEX) {
        while (r->look.low < r->look.high && key_known(s, r, r->look.low))
            r->look.low++;
        look_done(s, request);
        return;
    }
    s->core.stat.lookups++;
    if (sky__is_look_of_put(r))
        look_for_put(s, request);
    else if (r->ask.named && !r->ask.chain && copies_may_differ(s) && !key_known(s, r, 0))
        sky__heads_begin(s, request); /* one copy may be outdated */
    else
        search_next(s, request);
}

/* ---- what satellites say ---- */

static bool head_plausible(const sky_session *s, const sky_block_head *h, const sky_message *m) {
    const sky_session_config *c = &s->core.config;
    const sky_placement *p = &c->frame->placement;
    sky_chunk_facts facts = {.centre = h->centre, .first = h->centre};
    sky_chunk_facts before = {.centre = h->before_centre, .first = h->before_centre};
    return h->strategy == p->strategy && h->window_planes == p->window_planes &&
           h->window_slots == p->window_slots && h->servers == s->core.servers &&
           h->chunk_bytes == c->chunk_bytes && h->replicas == c->replicas &&
           h->parity == c->parity && h->version > 0 &&
           !sky__version_too_new(&s->core, m->id.version) &&
           h->chunk_count ==
               sky_stripes_chunks(&s->core.stripes, sky__data_chunks(&s->core, h->payload_bytes)) &&
           sky_facts_fit(&c->frame->constellation, &facts) &&
           sky_facts_fit(&c->frame->constellation, &before);
}

/* The head of a put of ours that has not heard yet that it is stored. */
static bool is_being_put(const sky_session *s, const sky_key *key, uint64_t version) {
    uint32_t put = sky__requests_put_of(&s->requests, key);
    return put != SKY__NONE && s->requests.rows[put].of.id.version == version;
}

static sky_status adopt_head(sky_session *s, const sky__operation *o, const sky_block_head *h,
                             uint64_t head_version) {
    const sky__request *r = &s->requests.rows[o->request];
    uint32_t unit = o->unit;
    sky_block_info info = {.payload_bytes = h->payload_bytes,
                           .chunk_count = h->chunk_count,
                           .set_ms = h->set_ms,
                           .centre_plane = (uint16_t)h->centre.plane,
                           .centre_slot = (uint16_t)h->centre.slot,
                           .coding = h->level};
    sky__block_row row = {.key = *look_key(r, unit),
                          .version = h->version,
                          .head_version = head_version,
                          .before = {h->before_ms, h->before_centre},
                          .moves = h->moves,
                          .scattered = h->before_ms != 0,
                          .named = h->named,
                          .adopted = true,
                          .heads_lost = o->denied,
                          .unverified = true,
                          .being_put = is_being_put(s, look_key(r, unit), h->version),
                          .expires_ms = INT64_MAX};
    if (r->ask.chain && unit > 0)
        row.parent = r->ask.chain[unit - 1];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &row.key);
    const sky__block_row *mine = block == SKY_BLOCK_NONE ? NULL : &s->blocks.rows[block];
    if (mine && (!mine->head_version || mine->head_version >= head_version))
        return SKY_OK; /* another request asked for it too, or it is ours */
    sky_status status = sky__blocks_enter(&s->blocks, &info, &row, &block);
    if (status != SKY_OK)
        return status;
    sky__blocks_load(&s->blocks, &info, true);
    sky__blocks_load_head(&s->blocks, true);
    s->core.stat.adopted++;
    if (s->core.config.sealed) /* one who can read it wrote it */
        sky__blocks_mend_heads(&s->blocks, block);
    if (head_version > s->blocks.head_version)
        s->blocks.head_version = head_version; /* what is put from now on is newer */
    return SKY_OK;
}

/* What an answer makes known: that the prefix is shorter, or, by what was adopted, longer. */
static void learn_answer(sky_session *s, uint32_t op, bool present) {
    uint32_t request = s->scheduler.operations[op].request;
    uint32_t unit = s->scheduler.operations[op].unit;
    sky__request *r = &s->requests.rows[request];
    sky__operation_end(&s->scheduler, op);
    r->units_left--;
    if (!present && !r->look.filling)
        r->look.high = unit;
    else if (!present && unit < r->look.low)
        r->look.low = unit;
    if (r->units_left > 0)
        return;
    if (r->look.filling)
        look_done(s, request);
    else
        search_next(s, request);
}

/* What came as a head is one. What the link may have damaged is asked for again; other nonsense
 * loses the copy that is waited for, if that sent it. */
static bool take_head(sky_session *s, uint32_t op, const sky_message *m, sky_block_head *head) {
    if (!sky__is_genuine(&s->scheduler, m)) {
        sky__operation_wrong(&s->scheduler, op, m);
        return false;
    }
    if (m->data_bytes == SKY_HEAD_BYTES &&
        sky_head_decode(m->data, m->data_bytes, head) == SKY_OK && head_plausible(s, head, m))
        return true;
    s->core.stat.corrupt++;
    if (!sky_satellite_equal(s->scheduler.from, s->scheduler.operations[op].to))
        return false;
    sky__suspect(&s->scheduler, s->scheduler.from);
    /* one that a ground of the tenant sealed is of another scenario: its value may well be there */
    sky__operation_lost(&s->scheduler, op, s->core.config.sealed ? SKY_E_IO : SKY_MISS);
    return false;
}

static void look_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    sky_block_head head;
    if (!take_head(s, op, m, &head))
        return;
    s->requests.rows[o->request].look.copy = sky__copy_at(&s->scheduler, o, s->scheduler.from);
    learn_answer(s, op, adopt_head(s, o, &head, m->id.version) == SKY_OK);
}

/* Of the head that the index has; 0: none. */
static uint64_t known_version(const sky_session *s, const sky__request *r) {
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    return block == SKY_BLOCK_NONE ? 0 : s->blocks.rows[block].head_version;
}

static void heads_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    sky__request *r = &s->requests.rows[o->request];
    sky_block_head head;
    if (!take_head(s, op, m, &head))
        return;
    uint64_t before = known_version(s, r);
    r->look.heard |= adopt_head(s, o, &head, m->id.version) == SKY_OK;
    r->spare = r->look.heard && !r->look.tracing; /* the other copies */
    if (known_version(s, r) > before)
        r->look.outdated |= r->look.spoke;
    r->look.outdated |= (uint32_t)(known_version(s, r) > m->id.version) << o->copy;
    r->look.spoke |= 1u << o->copy;
    if (r->look.heard && sky__is_look_of_put(r))
        heads_done(s, o->request); /* one is enough */
    else
        sky__operation_done(&s->scheduler, op);
}

static void look_lost(sky_session *s, uint32_t op, sky_status status) {
    const sky__operation *o = &s->scheduler.operations[op];
    if (!o->denied) {
        sky__request_finish(s, o->request, status, 0);
        return;
    }
    s->requests.rows[o->request].look.unsure |= status == SKY_E_IO;
    learn_answer(s, op, false);
}

const sky__client sky__look_client = {.asks = SKY_WIRE_GET,
                                      .answers = SKY_WIRE_CHUNK,
                                      .reads = true,
                                      .spreads = true,
                                      .unit = look_unit,
                                      .taken = look_taken,
                                      .lost = look_lost,
                                      .done = look_done};

const sky__client sky__heads_client = {.asks = SKY_WIRE_GET,
                                       .answers = SKY_WIRE_CHUNK,
                                       .reads = true,
                                       .single = true,
                                       .unit = heads_unit,
                                       .places = heads_places,
                                       .taken = heads_taken,
                                       .lost = heads_lost,
                                       .done = heads_done};
