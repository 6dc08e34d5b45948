/* What the session does with the answers of satellites, and when none comes.
 *
 *   CHUNK ──► delivered ──► the operation is over       MISS ──► the other places ──► another copy
 *   nothing in time ──► again, at another copy          nowhere ──► a repair, or the end of it
 */
#include <skymem/keys.h>

#include "base/clock.h"
#include "ground/session_state.h"

#define MISSES_MAX  16
#define CORRUPT_MAX 4

static uint32_t attempt_of(uint64_t wire_id) {
    return (uint32_t)(wire_id >> SKY__OPERATION_BITS) & ((1u << SKY__ATTEMPT_BITS) - 1);
}

static void account(const sky_session *s, sky_time spent_ns, const sky__operation *o) {
    sky_path_time *t = &s->requests[o->request].result.time;
    sky_time left = s->core.now - t->began;
    t->ended = s->core.now;
    t->session_ns = o->blocked_ns + (o->sent - o->first_sent);
    left -= t->session_ns;
    t->light_ns = 2 * o->light_ns < left ? 2 * o->light_ns : left;
    left -= t->light_ns;
    t->processing_ns = spent_ns < left ? spent_ns : left;
    t->link_ns = left - t->processing_ns;
}

void sky__chunk_lost(sky_session *s, uint32_t op, sky_status status) {
    sky__operation *o = &s->operations[op];
    uint32_t request = o->request;
    o->denied |= (uint32_t)(sky__is_get(o->work) && status != SKY_E_IO) << o->copy;
    o->missed |= o->work == WORK_GET && status == SKY_MISS;
    if (sky__is_get(o->work) && sky__copy_next(s, o)) {
        sky__ask_again(s, op);
        return;
    }
    if (o->work == WORK_HEADS) {
        sky__heads_absent(s, op, status);
        return;
    }
    bool all = o->denied == (1u << sky__copies_of(s, o)) - 1;
    if (o->work == WORK_LOOK && o->denied) {
        s->requests[request].unsure |= !all;
        sky__look_absent(s, op);
        return;
    }
    if (sky__is_get(o->work) && !all && status == SKY_MISS) /* another copy may be there */
        status = SKY_E_IO;
    if (o->work == WORK_CHECK) {
        sky__check_lacks(s, o, status);
        sky__chunk_done(s, op);
        return;
    }
    if (o->work == WORK_PIECE) {
        sky__repair_lost(s, op, status);
        return;
    }
    if (o->work == WORK_GET && sky__repair_begin(s, op, status))
        return;
    if (status == SKY_E_IO || o->work == WORK_PROBE)
        sky__request_finish(s, request, status, 0);
    else
        sky__request_lost(s, request, status);
}

/* The message answers what was asked last and is still open, not an earlier attempt, and is no
 * second copy. */
static bool is_current(const sky_session *s, uint32_t op, const sky_message *m) {
    return m->request == sky__wire_id(s, op) && !s->operations[op].again;
}

/* Wrong bytes. Duplicates of one damaged answer count once. */
static void take_wrong(sky_session *s, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    s->core.stat.corrupt++;
    if (!is_current(s, op, m))
        return;
    sky__suspect(s, o->to);
    if (++o->corrupt >= CORRUPT_MAX)
        sky__chunk_lost(s, op, SKY_E_CORRUPT);
    else
        sky__ask_again(s, op); /* it may have been the link */
}

bool sky__is_genuine(const sky_session *s, const sky_message *m) {
    return s->core.config.sealed
               ? s->opened
               : sky_chunk_checksum(&m->id, m->data, m->data_bytes) == m->facts.checksum;
}

/* A chunk came from one copy, and another copy of it was missed: who has it may see to that. One
 * command for a row: those of a get's first chunks, each of which is in another. */
static void copies_missed(sky_session *s, const sky__operation *o) {
    const sky__request *r = &s->requests[o->request];
    uint32_t first = (uint32_t)(r->range_begin / s->core.config.chunk_bytes) + 1;
    const sky__subject of = {.id = r->id, .facts = r->facts};
    if (o->unit - first < s->core.servers)
        sky__bulk_mend(&s->bulk, &of, (o->number - 1) % s->core.servers + 1, o->copy);
}

static void take_chunk(sky_session *s, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    const sky__request *r = &s->requests[o->request];
    uint32_t length = sky__length_of(s, o);
    if (m->data_bytes != length || !sky__is_genuine(s, m)) {
        take_wrong(s, op, m);
        return;
    }
    if (is_current(s, op, m)) {
        s->heard_due = sky__later(s->heard_due, o->due);
        s->heard_at = s->core.now;
    }
    if (o->unanswered == 0)
        sky__loss_note(&s->core, true, false);
    if (o->work == WORK_PIECE) {
        sky__repair_piece(s, op, m);
        return;
    }
    uint64_t at = (uint64_t)(o->unit - 1) * s->core.config.chunk_bytes;
    uint64_t begin = at > r->range_begin ? at : r->range_begin;
    uint64_t end = at + length < r->range_end ? at + length : r->range_end;
    account(s, m->spent_ns, o);
    if (o->missed)
        copies_missed(s, o);
    if (s->core.config.deliver(s->core.config.host, r->ask.context, begin - r->range_begin,
                               m->data + (begin - at), (size_t)(end - begin))) {
        uint32_t request = o->request;
        sky__repair *p = sky__repair_keep(s, op, m);
        sky__chunk_done(s, op);
        if (p)
            sky__repair_check(s, p, request);
    } else {
        sky__request_finish(s, o->request, SKY_E_CANCELLED, 0);
    }
}

/* The chunk is not where the session asked: ask the other places in turn. False: the chunk is gone.
 * That is certain when the first place was asked twice and all others between, because a satellite
 * that hands a chunk over drops it only when the next one has it. */
static bool ask_elsewhere(sky_session *s, uint32_t op) {
    sky__operation *o = &s->operations[op];
    if (o->work == WORK_LOOK && o->denied)
        return false; /* one word is enough of a second */
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__places_to_ask(s, o, places);
    uint32_t asked = 0;
    while (asked < count && !sky_satellite_equal(o->to, places[asked]))
        asked++;
    bool moved = asked == count; /* since it was asked */
    o->misses++;
    uint32_t most = s->requests[o->request].thorough ? count + 1 : 2 * count - 1;
    if ((!moved && o->misses >= most) || o->misses >= MISSES_MAX)
        return false;
    sky_satellite next = places[moved ? 0 : (asked + 1) % count];
    if (sky__rather_another(s, o, next) || (o->unanswered > 0 && sky__is_silent(s, next)))
        return false;
    s->core.stat.second_places++;
    o->to = next;
    sky__ask_again(s, op);
    return true;
}

static void take_miss(sky_session *s, uint32_t op) {
    if (!ask_elsewhere(s, op))
        sky__chunk_lost(s, op, sky__hides(s, &s->operations[op]) ? SKY_E_IO : SKY_MISS);
}

/* Was that one of the places the chunk has in the home its MOVE names? */
static bool is_home(const sky_session *s, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    sky_chunk_facts facts = sky__places_facts(s, o);
    uint32_t count = sky__places(&s->core, &facts, NULL, 0, places);
    for (uint32_t i = 0; i < count; i++) {
        if (sky_satellite_equal(places[i], o->to))
            return true;
    }
    return false;
}

/* Some of the row may be on its way between two places, and of those the one has some and the other
 * the rest. A single chunk that is nowhere is gone. */
static void take_move_ack(sky_session *s, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    sky__request *r = &s->requests[o->request];
    sky__span span = sky__span_of(s, r, o->unit);
    uint32_t expected = (span.last - span.first) / s->core.servers + 1;
    bool all = m->moved >= expected;
    if (r->step == MOVE_GOES)
        s->core.stat.moved += all ? expected : m->moved;
    if (!all && ask_elsewhere(s, op))
        return;
    if (r->step == MOVE_GATHERS)
        r->missed |= all && !is_home(s, o);
    else
        r->missed |= !all;
    sky__chunk_done(s, op);
}

static void take_has(sky_session *s, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    uint64_t wanted = o->work == WORK_CHECK ? sky__check_wanted(s, o) : 1;
    o->here |= m->present & wanted;
    if (o->here != wanted) {
        take_miss(s, op);
        return;
    }
    s->requests[o->request].result.satellite = o->to;
    sky__chunk_done(s, op);
}

static void take_stat(sky_session *s, uint32_t op, const sky_message *m) {
    sky__request *r = &s->requests[s->operations[op].request];
    for (uint32_t i = 0; i < SKY_STAT_COUNT; i++)
        r->result.stat[i] = m->stat[i];
    sky__chunk_done(s, op);
}

static bool may_give_up(sky_session *s, sky_satellite by, const sky_chunk_id *id) {
    bool may = sky__blocks_may_give_up(&s->blocks, by, id);
    if (!may)
        sky__suspect(s, by);
    return may;
}

static void take_set_ack(sky_session *s, sky_satellite from, uint32_t op, const sky_message *m) {
    uint32_t request = s->operations[op].request;
    uint64_t generation = s->operations[op].generation;
    if (s->operations[op].work == WORK_SET && s->operations[op].unanswered == 0)
        sky__loss_note(&s->core, false, false);
    if (m->outcome == SKY_NOT_STORED) {
        sky__request_finish(s, request, SKY_E_FULL, 0);
        return;
    }
    if (m->outcome == SKY_STORED_EVICTED && may_give_up(s, from, &m->evicted))
        sky__evicted(s, &m->evicted); /* may end this very put */
    if (s->operations[op].request == request && s->operations[op].generation == generation)
        sky__chunk_done(s, op);
}

/* Is it an answer of the kind an operation waits for, about the right thing? */
static bool answers(const sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->operations[op];
    const sky__request *r = &s->requests[o->request];
    sky_chunk_id id = {.version = r->id.version, .key = r->id.key, .number = o->number};
    switch (o->work) {
    case WORK_SET:
        return m->type == SKY_WIRE_SET_ACK && sky_chunk_id_equal(&id, &m->id);
    case WORK_HEAD:
    case WORK_REHEAD:
        id.version = r->head_version;
        return m->type == SKY_WIRE_SET_ACK && sky_chunk_id_equal(&id, &m->id);
    case WORK_MOVE:
        return m->type == SKY_WIRE_ROW_ACK && is_current(s, op, m) &&
               sky_chunk_id_equal(&id, &m->id);
    case WORK_STAT:
        return m->type == SKY_WIRE_STAT_REPLY;
    case WORK_PROBE:
    case WORK_CHECK:
        return m->type == SKY_WIRE_HAS_REPLY && is_current(s, op, m) &&
               sky_chunk_id_equal(&id, &m->id);
    case WORK_LOOK:
    case WORK_HEADS:
        return (m->type == SKY_WIRE_CHUNK || (m->type == SKY_WIRE_MISS && is_current(s, op, m))) &&
               m->id.number == 0 && sky_key_equal(&m->id.key, sky__look_key(r, o->unit));
    default:
        return (m->type == SKY_WIRE_CHUNK || (m->type == SKY_WIRE_MISS && is_current(s, op, m))) &&
               sky_chunk_id_equal(&id, &m->id);
    }
}

/* The operation a message is about, whichever attempt of it; SKY__NONE when there is none. */
static uint32_t named_operation(const sky_session *s, const sky_message *m) {
    uint32_t op = (uint32_t)(m->request & ((1u << SKY__OPERATION_BITS) - 1));
    if (op >= s->operation_fresh)
        return SKY__NONE;
    const sky__operation *o = &s->operations[op];
    uint64_t generation = m->request >> (SKY__OPERATION_BITS + SKY__ATTEMPT_BITS);
    uint64_t generations = UINT64_MAX >> (SKY__OPERATION_BITS + SKY__ATTEMPT_BITS);
    if (o->request == SKY__NONE || generation != (o->generation & generations) || o->attempt == 0)
        return SKY__NONE;
    return op;
}

/* An answer to the last attempt must come from the satellite that was asked: ids are easy to
 * guess. */
static bool is_answer(const sky_session *s, sky_satellite from, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->operations[op];
    bool stranger = is_current(s, op, m) && !sky_satellite_equal(from, o->to);
    return !o->parked && !stranger && answers(s, op, m);
}

static void take_gone(sky_session *s, const sky_datagram *in, const sky_message *m) {
    uint32_t block = sky_index_find(s->blocks.index, &m->id.key);
    if (in->from.plane == 0 || m->id.number == 0 || block == SKY_BLOCK_NONE ||
        s->blocks.rows[block].version != m->id.version || !may_give_up(s, in->from, &m->id) ||
        !(s->core.config.eviction & SKY_EVICT_BROADCAST))
        return;
    s->core.stat.gone++;
    sky__evicted(s, &m->id);
}

static void take(sky_session *s, const sky_datagram *in) {
    sky_message m;
    s->opened = in->opened;
    if (sky_message_decode(in->data, in->bytes, &m) != SKY_OK) {
        s->core.stat.malformed++;
        return;
    }
    uint32_t op = named_operation(s, &m);
    sky__answered(s, in->from);
    if (op != SKY__NONE && !is_answer(s, in->from, op, &m))
        op = SKY__NONE;
    if (op != SKY__NONE)
        sky__answer_timed(s, &s->operations[op], attempt_of(m.request) == 1, is_current(s, op, &m));
    if (m.type == SKY_WIRE_GONE)
        take_gone(s, in, &m);
    else if (op == SKY__NONE)
        s->core.stat.stray++;
    else if (m.type == SKY_WIRE_CHUNK && s->operations[op].work == WORK_LOOK)
        sky__look_found(s, op, &m);
    else if (m.type == SKY_WIRE_CHUNK && s->operations[op].work == WORK_HEADS)
        sky__heads_found(s, op, &m);
    else if (m.type == SKY_WIRE_CHUNK)
        take_chunk(s, op, &m);
    else if (m.type == SKY_WIRE_MISS)
        take_miss(s, op);
    else if (m.type == SKY_WIRE_ROW_ACK)
        take_move_ack(s, op, &m);
    else if (m.type == SKY_WIRE_STAT_REPLY)
        take_stat(s, op, &m);
    else if (m.type == SKY_WIRE_HAS_REPLY)
        take_has(s, op, &m);
    else
        take_set_ack(s, in->from, op, &m);
}

/* No answer came: ask again, at the place that the chunk has by now. A stripe does not wait for it,
 * but asks for other pieces meanwhile (sky__repair_late). */
static void expire(sky_session *s, uint32_t op) {
    sky__operation *o = &s->operations[op];
    s->core.stat.retries++;
    o->misses = 0; /* a silence between two MISSes: the chunk may have passed by meanwhile */
    sky__unanswered(s, o);
    bool given_up = ++o->unanswered > sky__attempts_max(s, o);
    if (sky__goes_without(s, o, given_up)) {
        sky__chunk_done(s, op);
        return;
    }
    if (given_up) {
        sky__chunk_lost(s, op, SKY_E_IO);
        return;
    }
    if (sky__carries(o->work) && o->unanswered == 1)
        sky__loss_note(&s->core, o->work != WORK_SET, true);
    if (o->work == WORK_GET || o->work == WORK_PIECE)
        sky__repair_late(s, op);
    sky__ask_again_at(s, o);
    sky__ask_again(s, op);
}

/* `earliest` is a lower bound. A walk over all operations makes it exact, about once in the time
 * that an answer is waited for, not at each answer. */
static void expire_all(sky_session *s) {
    sky_time earliest = SKY_TIME_NEVER;
    for (uint32_t op = 0; op < s->operation_fresh; op++) {
        const sky__operation *o = &s->operations[op];
        if (o->request == SKY__NONE || o->again || o->parked)
            continue;
        sky_time next = o->deadline <= s->core.now ? sky__undecided_until(s, s->core.now, o)
                                                   : o->deadline;
        if (next <= s->core.now)
            expire(s, op);
        else if (next < earliest)
            earliest = next;
    }
    s->earliest = earliest;
}

void sky_session_input(sky_session *s, sky_time now, const sky_datagram *in) {
    s->core.now = now;
    if (in)
        take(s, in);
    if (s->earliest <= now)
        expire_all(s);
    sky__note_blocked(s);
}
