/* The session's traffic: one operation per chunk under way.
 *
 *     free ──► asked or sent ──answer──► done, free
 *                  ▲    │ no answer in time, MISS at a place that has another, wrong bytes
 *                  └ again ┘──► the next replica ──► a repair from the stripe ──► lost
 *
 * A request id is  generation | attempt | operation  so that an answer to an earlier life of the
 * operation is told from one to this life, and a MISS to an earlier attempt from one to this.
 *
 * Pacing: every message advances `up_free` by its time on the uplink, every GET advances
 * `down_free` by its answer's time on the downlink. So the terminal's queues hold about one
 * message each and the time a chunk waits for the link is spent here, where it can be counted. */
#include <assert.h>
#include <stdlib.h>

#include <skymem/keys.h>

#include "ground/session_state.h"

#define OPERATION_BITS 20
#define ATTEMPT_BITS   8
#define MISSES_MAX     8
#define CORRUPT_MAX    4

static sky_time later(sky_time a, sky_time b) {
    return a > b ? a : b;
}

uint64_t sky__turns(const sky_session *s, sky_time now) {
    return sky_turns(&s->config.frame->turning, now);
}

/* ---- operations ---- */

bool sky__operation_ready(const sky_session *s) {
    return s->operation_free != SKY__NONE || s->operation_fresh < s->config.operations_max;
}

static uint32_t operation_take(sky_session *s) {
    uint32_t op = s->operation_free;
    if (op == SKY__NONE)
        op = s->operation_fresh++;
    else
        s->operation_free = s->operations[op].after;
    uint64_t generation = s->operations[op].generation + 1;
    s->operations[op] = (sky__operation){
        .generation = generation, .before = SKY__NONE, .after = SKY__NONE, .repair = SKY__NONE};
    s->operations_open++;
    return op;
}

static void again_remove(sky_session *s, uint32_t op) {
    sky__operation *o = &s->operations[op];
    if (!o->again)
        return;
    if (o->before == SKY__NONE)
        s->again.first = o->after;
    else
        s->operations[o->before].after = o->after;
    if (o->after == SKY__NONE)
        s->again.last = o->before;
    else
        s->operations[o->after].before = o->before;
    o->again = false;
}

static void again_append(sky_session *s, uint32_t op) {
    sky__operation *o = &s->operations[op];
    if (o->again)
        return;
    o->again = true;
    o->before = s->again.last;
    o->after = SKY__NONE;
    if (s->again.last == SKY__NONE)
        s->again.first = op;
    else
        s->operations[s->again.last].after = op;
    s->again.last = op;
}

static uint32_t length_of(const sky_session *s, const sky__operation *o) {
    return sky__chunk_length(s, s->requests[o->request].info.payload_bytes, o->number);
}

/* What comes back takes time on the downlink; acknowledgements are small. */
static uint32_t answer_bytes(const sky_session *s, const sky__operation *o) {
    uint32_t head = (uint32_t)sky_message_data_offset(SKY_WIRE_CHUNK);
    if (o->work == WORK_LOOK)
        return head + SKY_HEAD_BYTES;
    return o->work == WORK_GET || o->work == WORK_PIECE ? head + length_of(s, o) : 0;
}

void sky__operation_end(sky_session *s, uint32_t op) {
    sky__operation *o = &s->operations[op];
    again_remove(s, op);
    s->parked -= o->parked;
    s->operations_open--;
    s->requests[o->request].operations--;
    o->request = SKY__NONE;
    o->after = s->operation_free;
    s->operation_free = op;
}

void sky__operations_abandon(sky_session *s, uint32_t request) {
    for (uint32_t op = 0; s->requests[request].operations > 0 && op < s->operation_fresh; op++) {
        if (s->operations[op].request == request)
            sky__operation_end(s, op);
    }
}

/* ---- time the window costs ---- */

sky_time sky__blocked_ns(const sky_session *s, sky_time now) {
    return s->blocked_ns + (s->blocked ? now - s->blocked_since : 0);
}

static void note_blocked(sky_session *s, sky_time now) {
    bool blocked = s->gets.first != SKY__NONE && !sky__operation_ready(s);
    if (blocked && !s->blocked)
        s->blocked_since = now;
    else if (!blocked && s->blocked)
        s->blocked_ns += now - s->blocked_since;
    s->blocked = blocked;
}

/* ---- output ---- */

void sky__send(sky_session *s, sky_time now, const sky_message *m, sky_satellite to,
               sky_datagram *out) {
    out->from = SKY_GROUND;
    out->to = to;
    out->bytes = sky_message_encode(m, out->data, out->bytes_max);
    assert(out->bytes > 0);
    s->up_free = later(s->up_free, now) + sky_link_busy_ns(s->config.link_bits_s, out->bytes);
}

static uint64_t wire_id(const sky_session *s, uint32_t op) {
    const sky__operation *o = &s->operations[op];
    uint64_t attempt = o->attempt & ((1u << ATTEMPT_BITS) - 1);
    return (o->generation << ATTEMPT_BITS | attempt) << OPERATION_BITS | op;
}

static bool is_get(sky__work work) {
    return work == WORK_LOOK || work == WORK_GET || work == WORK_PIECE;
}

/* A chunk, one way or the other: what it takes to lose one is what is counted. */
static bool carries(sky__work work) {
    return work == WORK_GET || work == WORK_PIECE || work == WORK_SET;
}

/* Name and facts of what an operation is about. */
static void describe(const sky_session *s, const sky__operation *o, sky_message *m) {
    const sky__request *r = &s->requests[o->request];
    m->id = r->id;
    m->id.number = o->number;
    m->facts = r->facts;
    sky__facts_of(s, &m->facts, o->number, o->copy);
    if (o->work == WORK_HEAD || o->work == WORK_REHEAD)
        m->id.version = r->head_version;
}

/* The facts by which an operation's places are computed. The last MOVE goes to where the chunks
 * were. */
static sky_chunk_facts places_facts(const sky_session *s, const sky__operation *o) {
    const sky__request *r = &s->requests[o->request];
    sky_chunk_facts facts = r->facts;
    if (o->work == WORK_LOOK) /* nothing is known of the block yet, nor needs to be */
        facts = sky__block_facts(s, &r->info, false);
    if (o->work == WORK_MOVE && r->step == MOVE_GOES) {
        facts.set_ms = r->before.set_ms;
        facts.centre = r->before.centre;
    }
    sky__facts_of(s, &facts, o->number, o->copy);
    return facts;
}

uint32_t sky__operation_places(const sky_session *s, sky_time now, const sky__operation *o,
                               sky_satellite places[SKY__PLACES_MAX]) {
    const sky__request *r = &s->requests[o->request];
    bool moved_block = o->work == WORK_GET || o->work == WORK_PIECE || o->work == WORK_PROBE ||
                       (o->work == WORK_MOVE && r->step == MOVE_GATHERS);
    places[0] = r->ask.satellite;
    if (o->work == WORK_STAT)
        return 1;
    sky_chunk_facts facts = places_facts(s, o);
    uint32_t server = moved_block ? sky__server_of(s, o->number, o->copy) : 0;
    return sky__places(s, now, &facts, moved_block ? &r->before : NULL, server, places);
}

/* A chunk of a put's payload, where it goes in the message, or where the host has it. */
static bool fill_data(sky_session *s, const sky__request *r, uint32_t number, sky_message *m,
                      sky_datagram *out) {
    const sky_session_config *c = &s->config;
    uint64_t offset = (uint64_t)(number - 1) * c->chunk_bytes;
    uint8_t *room = out->data + sky_message_data_offset(SKY_WIRE_SET);
    if (c->sealed && c->lend)
        out->chunk = c->lend(c->host, r->ask.context, offset, m->data_bytes);
    if (out->chunk)
        m->data = NULL;
    return out->chunk || c->fetch(c->host, r->ask.context, offset, room, m->data_bytes);
}

/* A SET's bytes. False when the host no longer has them. */
static bool fill(sky_session *s, const sky__operation *o, sky_message *m, sky_datagram *out) {
    const sky__request *r = &s->requests[o->request];
    uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET);
    m->type = SKY_WIRE_SET;
    m->data_bytes = length_of(s, o);
    m->data = data;
    assert(out->bytes_max >= sky_message_bytes(m));
    bool there = true;
    uint32_t chunks = sky__data_chunks(s, r->info.payload_bytes);
    if (o->number == 0) {
        sky_block_head head = sky__head_of(s, &r->info, r->id.version, &r->before);
        sky_head_encode(&head, data);
    } else {
        uint32_t number = sky_stripes_data_number(&s->stripes, chunks, o->number);
        there = number ? fill_data(s, r, number, m, out) : sky__parity_make(s, r, o->number, data);
    }
    if (!s->config.sealed)
        m->facts.checksum = sky_chunk_checksum(&m->id, data, m->data_bytes);
    return there;
}

static bool compose(sky_session *s, const sky__operation *o, sky_message *m, sky_datagram *out) {
    const sky__request *r = &s->requests[o->request];
    sky__span span;
    switch (o->work) {
    case WORK_SET:
    case WORK_HEAD:
    case WORK_REHEAD:
        describe(s, o, m);
        return fill(s, o, m, out);
    case WORK_LOOK:
        m->type = SKY_WIRE_GET;
        m->id = (sky_chunk_id){.key = *sky__look_key(r, o->unit), .version = SKY_VERSION_ANY};
        return true;
    case WORK_MOVE:
        describe(s, o, m);
        span = sky__move_span(s, r, o->unit);
        m->type = SKY_WIRE_MOVE;
        m->last = span.last;
        m->stride = s->servers;
        return true;
    case WORK_STAT:
        m->type = SKY_WIRE_STAT;
        return true;
    default:
        m->type = o->work == WORK_PROBE ? SKY_WIRE_HAS : SKY_WIRE_GET;
        m->id = r->id;
        m->id.number = m->last = o->number;
        m->stride = 1;
        return true;
    }
}

/* Send an operation's message to o->to. False when the host no longer has the bytes. */
static bool operation_send(sky_session *s, sky_time now, uint32_t op, sky_datagram *out) {
    sky__operation *o = &s->operations[op];
    sky_message m = {.type = SKY_WIRE_GET};
    o->attempt++;
    if (!compose(s, o, &m, out))
        return false;
    m.request = wire_id(s, op);
    if (o->answer_bytes > 0)
        s->down_free = later(s->down_free, now) +
                       sky_link_busy_ns(s->config.link_bits_s, o->answer_bytes);
    o->sent = now;
    if (o->attempt == 1)
        o->first_sent = now;
    o->light_ns = sky_frame_ground_ns(s->config.frame, o->to, sky__turns(s, now));
    sky__send(s, now, &m, o->to, out);
    o->deadline = sky__deadline_of(s, now, s->up_free, o);
    if (o->deadline < s->earliest)
        s->earliest = o->deadline;
    if (o->echoes > 0)
        o->echoes--, s->stat.echoes++;
    else if (is_get(o->work) && o->unanswered > 0)
        o->echoes = sky__echoes(s, o);
    if (o->echoes > 0)
        again_append(s, op);
    sky__request *r = &s->requests[o->request];
    r->latest = later(r->latest, sky__expected_end(s, o));
    return true;
}

/* An operation of a request's work on one unit, not yet sent. */
static uint32_t operation_begin(sky_session *s, sky_time now, uint32_t request, sky__work work,
                                uint32_t unit, uint32_t number, uint32_t copy) {
    uint32_t op = operation_take(s);
    sky__operation *o = &s->operations[op];
    o->request = request;
    o->work = work;
    o->unit = unit;
    o->number = number;
    o->copy = copy;
    o->blocked_ns = sky__blocked_ns(s, now) - s->requests[request].blocked_ns;
    o->to = is_get(work) ? sky__copy_first(s, now, o) : sky__place_to_ask(s, now, o);
    o->answer_bytes = answer_bytes(s, o);
    s->requests[request].operations++;
    return op;
}

/* What the next unit of a request is about. False: nothing, go on to the next. */
static bool unit_take(sky_session *s, sky__request *r, uint32_t unit, uint32_t *number,
                      uint32_t *copy) {
    *number = *copy = 0;
    switch (r->work) {
    case WORK_LOOK:
        return sky__look_wanted(s, r, unit);
    case WORK_GET:
        *number = sky_stripes_number(&s->stripes, unit);
        return true;
    case WORK_SET:
        *number = unit / s->config.replicas + 1;
        *copy = unit % s->config.replicas;
        return true;
    case WORK_HEAD:
    case WORK_REHEAD:
        *copy = unit;
        return true;
    case WORK_MOVE:
        *number = sky__move_span(s, r, unit).first;
        *copy = unit % s->config.replicas;
        return true;
    case WORK_PROBE:
        *number = r->ask.probe;
        *copy = r->ask.probe_copy;
        return true;
    default:
        return true;
    }
}

static void chunk_done(sky_session *s, uint32_t op) {
    uint32_t request = s->operations[op].request;
    sky__operation_end(s, op);
    if (--s->requests[request].units_left == 0)
        sky__work_done(s, request);
}

/* The next chunk of the first request of a list. */
static bool send_next(sky_session *s, sky_time now, sky__list *list, sky_datagram *out) {
    uint32_t request = list->first;
    sky__request *r = &s->requests[request];
    uint32_t unit = r->unit_next++;
    uint32_t number;
    uint32_t copy;
    bool wanted = unit_take(s, r, unit, &number, &copy);
    if (r->unit_next > r->unit_last) {
        sky__chain_take(s, list);
        r->listed = false;
    }
    if (!wanted) {
        sky__look_passed(s, request);
        return false;
    }
    uint32_t op = operation_begin(s, now, request, r->work, unit, number, copy);
    if (sky__goes_without(s, &s->operations[op])) {
        chunk_done(s, op);
        return false;
    }
    if (r->work == WORK_GET && s->stripes.parity > 0)
        sky__repair_guard(s, op);
    if (operation_send(s, now, op, out))
        return true;
    sky__request_finish(s, request, SKY_E_CANCELLED, 0);
    return false;
}

bool sky__piece_ask(sky_session *s, sky_time now, uint32_t repair, uint32_t number,
                    sky_datagram *out) {
    uint32_t request = s->repairs[repair].request;
    uint32_t op = operation_begin(s, now, request, WORK_PIECE, 0, number, 0);
    s->operations[op].repair = repair;
    s->repairs[repair].ops[number - s->repairs[repair].stripe.first] = op;
    return operation_send(s, now, op, out);
}

static bool send_again(sky_session *s, sky_time now, sky_datagram *out) {
    uint32_t op = s->again.first;
    again_remove(s, op);
    if (operation_send(s, now, op, out))
        return true;
    sky__request_finish(s, s->operations[op].request, SKY_E_CANCELLED, 0);
    return false;
}

typedef enum { SEND_NOTHING, SEND_ROW, SEND_AGAIN, SEND_REPAIR, SEND_GET, SEND_SET } action;

/* What asks for something next. Gets come first: somebody waits for them; and of them what was
 * asked for in vain. */
static action next_ask(const sky_session *s) {
    if (s->again.first != SKY__NONE)
        return SEND_AGAIN;
    if (s->repairs_open > 0 && sky__operation_ready(s) && sky__repair_has_output(s))
        return SEND_REPAIR;
    return s->gets.first != SKY__NONE && sky__operation_ready(s) ? SEND_GET : SEND_NOTHING;
}

/* What goes out next, and when at the soonest. Whatever is asked for, again or not, waits until its
 * answer fits the downlink: one that is only queued must not look lost. DROPs come before SETs,
 * which need the room. */
static action next_action(const sky_session *s, sky_time *at) {
    action ask = next_ask(s);
    bool set = s->puts.first != SKY__NONE && sky__operation_ready(s) && !s->puts_stalled;
    bool paced = ask != SEND_AGAIN || s->operations[s->again.first].answer_bytes > 0;
    *at = s->up_free;
    if (ask != SEND_NOTHING && (!paced || s->down_free <= s->up_free))
        return ask;
    if (s->row_count > 0)
        return SEND_ROW;
    if (set)
        return SEND_SET;
    *at = later(s->up_free, s->down_free);
    return ask;
}

static bool perform(sky_session *s, sky_time now, action what, sky_datagram *out) {
    switch (what) {
    case SEND_ROW:
        return sky__row_send(s, now, out);
    case SEND_REPAIR:
        return sky__repair_output(s, now, out);
    case SEND_AGAIN:
        return send_again(s, now, out);
    case SEND_GET:
        return send_next(s, now, &s->gets, out);
    default:
        if (s->requests[s->puts.first].state == REQUEST_QUEUED &&
            (!sky__put_start(s, now, s->puts.first) || s->row_count > 0))
            return false; /* what makes room for it goes first */
        return send_next(s, now, &s->puts, out);
    }
}

bool sky_session_output(sky_session *s, sky_time now, sky_datagram *out) {
    bool sent = false;
    s->now = now;
    out->chunk = NULL;
    sky_time at;
    action what;
    if (s->parked > 0)
        sky__repairs_unpark(s);
    while (!sent && (what = next_action(s, &at)) != SEND_NOTHING && at <= now)
        sent = perform(s, now, what, out);
    note_blocked(s, now);
    return sent;
}

sky_time sky_session_wake(const sky_session *s) {
    sky_time at;
    sky_time wake = s->earliest;
    if (next_action(s, &at) != SEND_NOTHING && at < wake)
        wake = at;
    return wake;
}

/* ---- input ---- */

static void account(const sky_session *s, sky_time now, sky_time spent_ns,
                    const sky__operation *o) {
    sky_path_time *t = &s->requests[o->request].result.time;
    sky_time left = now - t->began;
    t->ended = now;
    t->session_ns = o->blocked_ns + (o->sent - o->first_sent);
    left -= t->session_ns;
    t->light_ns = 2 * o->light_ns < left ? 2 * o->light_ns : left;
    left -= t->light_ns;
    t->processing_ns = spent_ns < left ? spent_ns : left;
    t->link_ns = left - t->processing_ns;
}

void sky__chunk_lost(sky_session *s, sky_time now, uint32_t op, sky_status status) {
    sky__operation *o = &s->operations[op];
    uint32_t request = o->request;
    o->denied |= (uint32_t)(o->work == WORK_LOOK && status == SKY_MISS) << o->copy;
    o->unheard |= status == SKY_E_IO;
    o->missed |= o->work == WORK_GET && status == SKY_MISS;
    if (is_get(o->work) && sky__copy_next(s, now, o)) {
        again_append(s, op);
        return;
    }
    if (o->work == WORK_LOOK && o->denied) {
        sky__look_absent(s, op);
        return;
    }
    if (o->unheard && status == SKY_MISS)
        status = SKY_E_IO;
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
    return m->request == wire_id(s, op) && !s->operations[op].again;
}

/* Bytes that are not what they should be. Copies of one damaged answer are one evidence. */
static void take_wrong(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    s->stat.corrupt++;
    if (!is_current(s, op, m))
        return;
    sky__suspect(s, o->to);
    if (++o->corrupt >= CORRUPT_MAX)
        sky__chunk_lost(s, now, op, SKY_E_CORRUPT);
    else
        again_append(s, op); /* it may have been the link */
}

bool sky__is_genuine(const sky_session *s, const sky_message *m) {
    return s->config.sealed
               ? s->opened
               : sky_chunk_checksum(&m->id, m->data, m->data_bytes) == m->facts.checksum;
}

static void take_chunk(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    const sky__request *r = &s->requests[o->request];
    uint32_t length = length_of(s, o);
    if (m->data_bytes != length || !sky__is_genuine(s, m)) {
        take_wrong(s, now, op, m);
        return;
    }
    if (is_current(s, op, m)) {
        s->heard_due = later(s->heard_due, o->due);
        s->heard_at = now;
    }
    if (o->unanswered == 0)
        sky__loss_note(s, o->work, false);
    if (o->work == WORK_PIECE) {
        sky__repair_piece(s, now, op, m);
        return;
    }
    uint64_t at = (uint64_t)(o->unit - 1) * s->config.chunk_bytes;
    uint64_t begin = at > r->range_begin ? at : r->range_begin;
    uint64_t end = at + length < r->range_end ? at + length : r->range_end;
    account(s, now, m->spent_ns, o);
    if (o->missed)
        sky__copies_missed(s, o);
    if (s->config.deliver(s->config.host, r->ask.context, begin - r->range_begin,
                          m->data + (begin - at), (size_t)(end - begin))) {
        uint32_t request = o->request;
        sky__repair *p = sky__repair_keep(s, op, m);
        chunk_done(s, op);
        if (p)
            sky__repair_check(s, now, p, request);
    } else {
        sky__request_finish(s, o->request, SKY_E_CANCELLED, 0);
    }
}

/* Not where we asked: ask at the other places in turn. When the first was asked twice and all
 * others between, the chunk is gone: whoever gives a chunk away drops it only when the next one
 * has it. False: it is. */
static bool ask_elsewhere(sky_session *s, sky_time now, uint32_t op) {
    sky__operation *o = &s->operations[op];
    if (o->work == WORK_LOOK && o->denied)
        return false; /* one word is enough of a second */
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__places_to_ask(s, now, o, places);
    uint32_t asked = 0;
    while (asked < count && !sky_satellite_equal(o->to, places[asked]))
        asked++;
    bool moved = asked == count; /* since it was asked */
    o->misses++;
    if ((!moved && o->misses >= 2 * count - 1) || o->misses >= MISSES_MAX)
        return false;
    sky_satellite next = places[moved ? 0 : (asked + 1) % count];
    if (sky__rather_another(s, o, next))
        return false;
    s->stat.second_places++;
    o->to = next;
    again_append(s, op);
    return true;
}

static void take_miss(sky_session *s, sky_time now, uint32_t op) {
    if (!ask_elsewhere(s, now, op))
        sky__chunk_lost(s, now, op, sky__hides(s, now, &s->operations[op]) ? SKY_E_IO : SKY_MISS);
}

/* Was that one of the places the chunk has in the home its MOVE names? */
static bool is_home(const sky_session *s, sky_time now, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    sky_chunk_facts facts = places_facts(s, o);
    uint32_t count = sky__places(s, now, &facts, NULL, 0, places);
    for (uint32_t i = 0; i < count; i++) {
        if (sky_satellite_equal(places[i], o->to))
            return true;
    }
    return false;
}

/* Some of the row may be on its way between two places, and of those the one has some and the other
 * the rest. A single chunk that is nowhere is gone. */
static void take_move_ack(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    sky__request *r = &s->requests[o->request];
    sky__span span = sky__move_span(s, r, o->unit);
    uint32_t expected = (span.last - span.first) / s->servers + 1;
    bool all = m->moved >= expected;
    if (r->step == MOVE_GOES)
        s->stat.moved += all ? expected : m->moved;
    if (!all && ask_elsewhere(s, now, op))
        return;
    if (r->step == MOVE_GATHERS)
        r->missed |= all && !is_home(s, now, o);
    else
        r->missed |= !all;
    chunk_done(s, op);
}

static void take_has(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->operations[op];
    if (!(m->present & 1)) {
        take_miss(s, now, op);
        return;
    }
    s->requests[o->request].result.satellite = o->to;
    chunk_done(s, op);
}

static void take_stat(sky_session *s, uint32_t op, const sky_message *m) {
    sky__request *r = &s->requests[s->operations[op].request];
    for (uint32_t i = 0; i < SKY_STAT_COUNT; i++)
        r->result.stat[i] = m->stat[i];
    chunk_done(s, op);
}

static void take_set_ack(sky_session *s, sky_time now, sky_satellite from, uint32_t op,
                         const sky_message *m) {
    uint32_t request = s->operations[op].request;
    uint64_t generation = s->operations[op].generation;
    if (s->operations[op].work == WORK_SET && s->operations[op].unanswered == 0)
        sky__loss_note(s, WORK_SET, false);
    if (m->outcome == SKY_NOT_STORED) {
        sky__request_finish(s, request, SKY_E_FULL, 0);
        return;
    }
    if (m->outcome == SKY_STORED_EVICTED && sky__may_give_up(s, now, from, &m->evicted))
        sky__evicted(s, &m->evicted); /* may end this very put */
    if (s->operations[op].request == request && s->operations[op].generation == generation)
        chunk_done(s, op);
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
        return m->type == SKY_WIRE_MOVE_ACK && is_current(s, op, m) &&
               sky_chunk_id_equal(&id, &m->id);
    case WORK_STAT:
        return m->type == SKY_WIRE_STAT_REPLY;
    case WORK_PROBE:
        return m->type == SKY_WIRE_HAS_REPLY && is_current(s, op, m) &&
               sky_chunk_id_equal(&id, &m->id);
    case WORK_LOOK:
        return (m->type == SKY_WIRE_CHUNK || (m->type == SKY_WIRE_MISS && is_current(s, op, m))) &&
               m->id.number == 0 && sky_key_equal(&m->id.key, sky__look_key(r, o->unit));
    default:
        return (m->type == SKY_WIRE_CHUNK || (m->type == SKY_WIRE_MISS && is_current(s, op, m))) &&
               sky_chunk_id_equal(&id, &m->id);
    }
}

/* The operation a message is about, whichever attempt of it; SKY__NONE when there is none. */
static uint32_t named_operation(const sky_session *s, const sky_message *m) {
    uint32_t op = (uint32_t)(m->request & ((1u << OPERATION_BITS) - 1));
    if (op >= s->operation_fresh)
        return SKY__NONE;
    const sky__operation *o = &s->operations[op];
    uint64_t generation = m->request >> (OPERATION_BITS + ATTEMPT_BITS);
    uint64_t generations = UINT64_MAX >> (OPERATION_BITS + ATTEMPT_BITS);
    if (o->request == SKY__NONE || generation != (o->generation & generations) || o->attempt == 0)
        return SKY__NONE;
    return op;
}

/* What was asked last is answered by whom it was asked: ids are easily guessed. */
static bool is_answer(const sky_session *s, sky_satellite from, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->operations[op];
    bool stranger = is_current(s, op, m) && !sky_satellite_equal(from, o->to);
    return !o->parked && !stranger && answers(s, op, m);
}

static void take_gone(sky_session *s, sky_time now, const sky_datagram *in, const sky_message *m) {
    uint32_t block = sky_index_find(s->index, &m->id.key);
    if (in->from.plane == 0 || m->id.number == 0 || block == SKY_BLOCK_NONE ||
        s->sides[block].version != m->id.version || !sky__may_give_up(s, now, in->from, &m->id) ||
        !(s->config.eviction & SKY_EVICT_BROADCAST))
        return;
    s->stat.gone++;
    sky__evicted(s, &m->id);
}

static void take(sky_session *s, sky_time now, const sky_datagram *in) {
    sky_message m;
    s->opened = in->opened;
    if (sky_message_decode(in->data, in->bytes, &m) != SKY_OK) {
        s->stat.malformed++;
        return;
    }
    uint32_t op = named_operation(s, &m);
    sky__answered(s, in->from);
    if (op != SKY__NONE && !is_answer(s, in->from, op, &m))
        op = SKY__NONE;
    if (m.type == SKY_WIRE_GONE)
        take_gone(s, now, in, &m);
    else if (op == SKY__NONE)
        s->stat.stray++;
    else if (m.type == SKY_WIRE_CHUNK && s->operations[op].work == WORK_LOOK)
        sky__look_found(s, op, &m);
    else if (m.type == SKY_WIRE_CHUNK)
        take_chunk(s, now, op, &m);
    else if (m.type == SKY_WIRE_MISS)
        take_miss(s, now, op);
    else if (m.type == SKY_WIRE_MOVE_ACK)
        take_move_ack(s, now, op, &m);
    else if (m.type == SKY_WIRE_STAT_REPLY)
        take_stat(s, op, &m);
    else if (m.type == SKY_WIRE_HAS_REPLY)
        take_has(s, now, op, &m);
    else
        take_set_ack(s, now, in->from, op, &m);
}

/* Nobody answered: ask again, at the place the chunk has by now. A stripe does not wait, but goes
 * on asking beside it (sky__repair_late). */
static void expire(sky_session *s, sky_time now, uint32_t op) {
    sky__operation *o = &s->operations[op];
    s->stat.retries++;
    o->misses = 0; /* a silence between two MISSes: the chunk may have passed by meanwhile */
    sky__unanswered(s, o);
    if (sky__goes_without(s, o)) {
        chunk_done(s, op);
        return;
    }
    if (++o->unanswered > sky__attempts_max(s, now, o)) {
        sky__chunk_lost(s, now, op, SKY_E_IO);
        return;
    }
    if (carries(o->work) && o->unanswered == 1)
        sky__loss_note(s, o->work, true);
    if (o->work == WORK_GET || o->work == WORK_PIECE)
        sky__repair_late(s, op);
    sky__ask_again_at(s, now, o);
    again_append(s, op);
}

/* `earliest` is a bound, not exact: it is made so by a walk over all operations, which happens
 * about once per patience, not once per answer. */
static void expire_all(sky_session *s, sky_time now) {
    sky_time earliest = SKY_TIME_NEVER;
    for (uint32_t op = 0; op < s->operation_fresh; op++) {
        const sky__operation *o = &s->operations[op];
        if (o->request == SKY__NONE || o->again || o->parked)
            continue;
        sky_time next = o->deadline <= now ? sky__undecided_until(s, now, o) : o->deadline;
        if (next <= now)
            expire(s, now, op);
        else if (next < earliest)
            earliest = next;
    }
    s->earliest = earliest;
}

void sky_session_input(sky_session *s, sky_time now, const sky_datagram *in) {
    s->now = now;
    if (in)
        take(s, now, in);
    if (s->earliest <= now)
        expire_all(s, now);
    note_blocked(s, now);
}
