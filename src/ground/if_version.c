/* Puts and removals under the condition of a version: the satellite that holds the first copy of
 * the key's head decides (satellite/decide.c), and the session does the rest around that.
 *
 *     put      chunks ──► look ──► decide ──stored──► its other copies ──► committed
 *     remove   look ──► decide ──removed──► all that is left (tell.c) ──► done
 *                         │ another version is there: SKY_E_CONFLICT
 *                         │ nobody decides, or no answer: SKY_E_UNAVAILABLE, it may have happened
 *
 * The satellite that decides may have been silent while a put without a condition went to the
 * other copies. So these are asked first. What they know ends a put that expects an older version,
 * and is set where the first copy belongs. A put without a condition that passes by that satellite
 * just then may still be overwritten.
 *
 * A put that lost drops its chunks. One of which nothing is known leaves them: their head may be
 * there. */
#include "ground/session_state.h"

/* A satellite decides again 2 s after a turn at the latest (satellite/decide.c), and half as long
 * again. What it never decides, for want of knowledge, ends then. */
#define UNDECIDED_NS SKY_SECONDS(3)

void sky__decide_begin(sky_session *s, uint32_t request) {
    s->requests.rows[request].state = REQUEST_RUNNING;
    sky__requests_work(&s->requests, request, WORK_DECIDE, 0, 0);
}

void sky__decide_look(sky_session *s, uint32_t request) {
    if (s->core.head_copies > 1)
        sky__heads_begin(s, request);
    else
        sky__decide_begin(s, request);
}

void sky__decide_looked(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests.rows[request];
    bool heard = r->look.heard && block != SKY_BLOCK_NONE;
    r->spare = false;
    if (heard && s->blocks.rows[block].head_version > r->ask.expected) {
        r->result.version = s->blocks.rows[block].head_version;
        sky__request_finish(s, request, SKY_E_CONFLICT, 0);
    } else {
        sky__decide_begin(s, request);
    }
}

static bool decide_compose(sky_session *s, const sky__operation *o, sky_message *m,
                           sky_datagram *out) {
    sky__request *r = &s->requests.rows[o->request];
    const sky_chunk_id id = {.key = r->of.id.key, .version = r->head_version};
    uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET_IF);
    sky_block_head head = sky__head_of(&s->core, &r->of.info, r->of.id.version, &r->of.before,
                                       true);
    sky_head_encode(&head, data);
    m->id = id;
    m->facts = r->of.facts;
    sky__facts_of(&s->core, &m->facts, 0, 0);
    m->data = data;
    m->data_bytes = SKY_HEAD_BYTES;
    m->older = r->ask.op == SKY_OP_REMOVE;
    m->expected = r->ask.expected;
    m->name = r->change;
    if (!s->core.config.sealed)
        m->facts.checksum = sky_chunk_checksum(&id, data, SKY_HEAD_BYTES);
    r->put.unsure = true;
    return true;
}

/* Another version is there. Where it is not older than ours, and we asked more than once, ours may
 * have been there before it. */
static void finish_conflict(sky_session *s, uint32_t request, uint64_t version, bool asked_once) {
    sky__request *r = &s->requests.rows[request];
    bool removes = r->ask.op == SKY_OP_REMOVE;
    r->put.unsure = !asked_once && (removes || version == 0 || version >= r->head_version);
    r->result.version = version;
    sky__request_finish(s, request, r->put.unsure ? SKY_E_UNAVAILABLE : SKY_E_CONFLICT, 0);
}

/* The satellite has an older one than what is expected, which was found at another. */
static bool is_behind(const sky_session *s, const sky__request *r, uint32_t block,
                      const sky_message *m) {
    return m->outcome == SKY_OTHER_VERSION && m->evicted.version < r->ask.expected &&
           r->look.heard && (r->look.outdated & 1) && block != SKY_BLOCK_NONE &&
           s->blocks.rows[block].head_version == r->ask.expected;
}

/* It will decide later. What it lacks is set there; that may have been lost the first time. */
static void wait_for_decision(sky_session *s, sky__operation *o, uint32_t block, bool behind) {
    if (behind) {
        s->blocks.rows[block].heads_lost |= 1;
        sky__blocks_mend_heads(&s->blocks, block);
    }
    if (o->undecided_until == 0)
        o->undecided_until = s->core.now + UNDECIDED_NS;
}

static void decide_taken(sky_session *s, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->scheduler.operations[op];
    uint32_t request = o->request;
    sky__request *r = &s->requests.rows[request];
    if (m->outcome == SKY_OTHER_VERSION && sky__version_too_new(&s->core, m->evicted.version)) {
        sky__operation_wrong(&s->scheduler, op, m); /* no ground made it */
        return;
    }
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool behind = is_behind(s, r, block, m);
    if (behind || m->outcome == SKY_UNDECIDED) { /* asked again when its time is over */
        wait_for_decision(s, o, block, behind);
        return;
    }
    if (m->outcome == SKY_OTHER_VERSION) {
        finish_conflict(s, request, m->evicted.version, o->attempt == 1);
        return;
    }
    r->put.unsure = false;
    r->put.decided = m->outcome != SKY_NOT_STORED;
    sky__put_taken(s, op, m);
}

static void decide_done(sky_session *s, uint32_t request) {
    const sky__request *r = &s->requests.rows[request];
    if (r->ask.op == SKY_OP_REMOVE)
        sky__request_remove(s, request);
    else if (s->core.head_copies > 1)
        sky__requests_work(&s->requests, request, WORK_HEAD, 1, s->core.head_copies - 1);
    else
        sky__put_commit(s, request);
}

const sky__client sky__decide_client = {.asks = SKY_WIRE_SET_IF,
                                        .answers = SKY_WIRE_SET_ACK,
                                        .stores = true,
                                        .unit = sky__head_unit,
                                        .compose = decide_compose,
                                        .taken = decide_taken,
                                        .done = decide_done};
