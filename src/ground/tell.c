/* Removals and pins that are acknowledged: where satellites outlive the session, it ends only when
 * every satellite that should hold a part of the block has answered, or had all its time.
 *
 *     units   the head's copies, then a row for each server and replica
 *     place   where the part belongs; the one it came from, when not all of it was there
 *
 * The heads go first: what no head names is not found by anybody who begins to look.
 *
 * A satellite that is cut off keeps its part. What it should know is told it by those that hold the
 * same (satellite/removed.c), if there are any; the rest its own LRU finds. */
#include "ground/session_state.h"

static uint32_t servers_of(const sky_session *s, const sky__request *r) {
    uint32_t count = r->of.info.chunk_count;
    return count < s->core.servers ? count : s->core.servers;
}

/* Chunks that a unit is about. */
static uint32_t chunks_of(const sky_session *s, const sky__request *r, uint32_t number) {
    return number == 0 ? 1 : sky__chunks_on(&s->core, r->of.info.chunk_count, number);
}

void sky__tell_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t rows = servers_of(s, r) * s->core.config.replicas;
    r->state = REQUEST_RUNNING;
    sky__requests_work(&s->requests, request, WORK_TELL, 0, s->core.head_copies + rows - 1);
}

static bool tell_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    uint32_t row = unit - s->core.head_copies;
    bool head = unit < s->core.head_copies;
    o->id.number = head ? 0 : row / s->core.config.replicas + 1;
    o->id.version = head ? r->head_version : r->of.id.version;
    o->copy = head ? unit : row % s->core.config.replicas;
    if (head && r->head_version == 0)
        return false;
    r->tell.chunks += chunks_of(s, r, o->id.number);
    return true;
}

static uint32_t tell_places(const sky_session *s, const sky__operation *o, sky_satellite *places) {
    const sky__request *r = &s->requests.rows[o->request];
    return sky__chunk_places(&s->scheduler, o, o->id.number ? &r->of.before : NULL, places);
}

static bool tell_compose(sky_session *s, const sky__operation *o, sky_message *m,
                         sky_datagram *out) {
    (void)out;
    const sky__request *r = &s->requests.rows[o->request];
    uint32_t count = r->of.info.chunk_count;
    bool removes = r->ask.op == SKY_OP_REMOVE;
    m->type = removes ? SKY_WIRE_DROP : SKY_WIRE_PIN;
    m->facts.pinned = r->ask.op == SKY_OP_PIN;
    m->older = removes && o->id.number == 0;
    m->stride = s->core.servers;
    if (o->id.number > 0)
        m->last = count - (count - o->id.number) % s->core.servers;
    return true;
}

/* Some of it may be at another place, where it comes from. */
static void tell_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    const sky__request *r = &s->requests.rows[o->request];
    bool all = m->moved >= chunks_of(s, r, o->id.number);
    if (all || !sky__ask_elsewhere(&s->scheduler, op))
        sky__operation_done(&s->scheduler, op);
}

static bool tell_skipped(sky_session *s, const sky__operation *o) {
    sky__request *r = &s->requests.rows[o->request];
    r->tell.unheard += chunks_of(s, r, o->id.number);
    return true;
}

static void tell_done(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    r->result.told_chunks = r->tell.chunks;
    r->result.unheard_chunks = r->tell.unheard;
    sky__request_finish(s, request, r->tell.unheard ? SKY_E_UNAVAILABLE : SKY_OK, 0);
}

const sky__client sky__tell_client = {.asks = SKY_WIRE_DROP,
                                      .answers = SKY_WIRE_ROW_ACK,
                                      .stores = true,
                                      .unit = tell_unit,
                                      .places = tell_places,
                                      .compose = tell_compose,
                                      .taken = tell_taken,
                                      .skipped = tell_skipped,
                                      .done = tell_done};
