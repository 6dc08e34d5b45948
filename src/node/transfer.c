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

#include "node/session_state.h"

#define OPERATION_BITS   20
#define ATTEMPT_BITS     8
#define MISSES_MAX       8
#define CORRUPT_MAX      4
#define PATIENT_ATTEMPTS 2 /* whose wait is not doubled */

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

/* When the answer to a message that leaves at `leaves` is overdue. Everything on its way is known:
 * light both ways (the sky may turn meanwhile, and the satellite be farther off), when the
 * satellite will have served those we sent it before, when the downlink will have carried the
 * answers that come before: those asked for before, or at most all that are open. What is not
 * known, the host says (late_ns). So a loss is noticed as soon as it can be; only after some
 * attempts in vain is the wait doubled, for then something else is wrong. */
static sky_time overdue(sky_session *s, sky_time now, sky_time leaves, const sky__operation *o) {
    const sky_session_config *c = &s->config;
    sky_time *served = &s->served_at[sky_frame_number(c->frame, o->to)];
    sky_time turned_ns = sky_frame_ground_ns(c->frame, o->to, sky__turns(s, now) + 1);
    sky_time way = later(o->light_ns, turned_ns) + c->jitter_ns;
    *served = later(*served, leaves + way) + c->processing_ns;
    sky_time back = *served + way;
    s->carried_at = later(s->carried_at, back) + sky_link_busy_ns(c->link_bits_s, o->answer_bytes);
    if (o->answer_bytes > 0) {
        back += s->operations_open * sky_link_busy_ns(c->link_bits_s, o->answer_bytes);
        back = back < s->carried_at ? back : s->carried_at;
    }
    sky_time wait = back + later(c->late_ns, SKY__SLACK_NS) - now;
    uint32_t doublings = o->unanswered > PATIENT_ATTEMPTS ? o->unanswered - PATIENT_ATTEMPTS : 0;
    return now + (wait << (doublings < 10 ? doublings : 10));
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

/* The facts by which an operation's places are computed. A MOVE goes to where the chunks were. */
static sky_chunk_facts places_facts(const sky_session *s, const sky__operation *o) {
    const sky__request *r = &s->requests[o->request];
    sky_chunk_facts facts = r->facts;
    if (o->work == WORK_LOOK) /* nothing is known of the block yet, nor needs to be */
        facts = sky__block_facts(s, &r->info, false);
    if (o->work == WORK_MOVE) {
        facts.set_ms = r->before.set_ms;
        facts.centre = r->before.centre;
    }
    sky__facts_of(s, &facts, o->number, o->copy);
    return facts;
}

/* A SET's bytes, where they go in the message. False when the host no longer has them. */
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
        sky_block_head head = sky__head_of(s, r);
        sky_head_encode(&head, data);
    } else {
        uint32_t number = sky_stripes_data_number(&s->stripes, chunks, o->number);
        there = number ? s->config.fetch(s->config.host, r->ask.context,
                                         (uint64_t)(number - 1) * s->config.chunk_bytes, data,
                                         m->data_bytes)
                       : sky__parity_make(s, r, o->number, data);
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
        m->type = SKY_WIRE_GET;
        m->id = r->id;
        m->id.number = o->number;
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
    o->deadline = overdue(s, now, s->up_free, o);
    if (o->deadline < s->earliest)
        s->earliest = o->deadline;
    /* What was lost once is asked for twice: a second loss would cost another round, and what is
     * lost is little. */
    o->echo = is_get(o->work) && o->unanswered > 0 && !o->echo;
    if (o->echo)
        again_append(s, op);
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
    sky_chunk_facts facts = places_facts(s, o);
    o->to = work == WORK_STAT ? s->requests[request].ask.satellite
                              : sky_session_place(s, &facts, sky__turns(s, now));
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
    case WORK_MOVE:
        *number = sky__move_span(s, r, unit).first;
        *copy = unit % s->config.replicas;
        return true;
    default:
        return true;
    }
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

/* What goes out next, and when at the soonest. Gets come first, as fast as their answers fit the
 * downlink: somebody waits for them. DROPs come before SETs, which need the room. */
static action next_action(const sky_session *s, sky_time *at) {
    bool get = s->gets.first != SKY__NONE && sky__operation_ready(s);
    bool set = s->puts.first != SKY__NONE && sky__operation_ready(s) && !s->puts_stalled;
    *at = s->up_free;
    if (s->again.first != SKY__NONE)
        return SEND_AGAIN;
    if (s->repairs_open > 0 && sky__operation_ready(s) && sky__repair_has_output(s))
        return SEND_REPAIR;
    if (get && s->down_free <= s->up_free)
        return SEND_GET;
    if (s->row_count > 0)
        return SEND_ROW;
    if (set)
        return SEND_SET;
    *at = later(s->up_free, s->down_free);
    return get ? SEND_GET : SEND_NOTHING;
}

static bool perform(sky_session *s, sky_time now, action what, sky_datagram *out) {
    switch (what) {
    case SEND_ROW:
        sky__row_send(s, now, out);
        return true;
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

static void chunk_done(sky_session *s, uint32_t op) {
    uint32_t request = s->operations[op].request;
    sky__operation_end(s, op);
    if (--s->requests[request].units_left == 0)
        sky__work_done(s, request);
}

/* An operation's chunk is not to be had where it was asked for: the next replica, the stripe, or
 * the request is over. */
static void chunk_lost(sky_session *s, sky_time now, uint32_t op, sky_status status) {
    sky__operation *o = &s->operations[op];
    uint32_t request = o->request;
    if (is_get(o->work) && o->work != WORK_LOOK && o->copy + 1 < s->config.replicas) {
        o->copy++;
        o->misses = o->corrupt = o->unanswered = 0;
        s->stat.other_copies++;
        sky_chunk_facts facts = places_facts(s, o);
        o->to = sky_session_place(s, &facts, sky__turns(s, now));
        again_append(s, op);
        return;
    }
    if (o->work == WORK_PIECE) {
        sky__repair_lost(s, op, status);
        return;
    }
    if (o->work == WORK_GET && sky__repair_begin(s, op, status))
        return;
    if (status == SKY_E_IO)
        sky__request_finish(s, request, SKY_E_IO, 0);
    else
        sky__request_lost(s, request, status);
}

void sky__suspect(sky_session *s, sky_satellite satellite, bool wrong) {
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->config.frame, satellite)];
    s->stat.suspects += p->wrong == 0 && wrong;
    p->wrong += wrong;
    p->silent += !wrong;
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
    sky__suspect(s, o->to, true);
    if (++o->corrupt >= CORRUPT_MAX)
        chunk_lost(s, now, op, SKY_E_CORRUPT);
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
    if (o->unanswered == 0)
        sky__loss_note(s, false);
    if (o->work == WORK_PIECE) {
        sky__repair_piece(s, now, op, m);
        return;
    }
    uint64_t at = (uint64_t)(o->unit - 1) * s->config.chunk_bytes;
    uint64_t begin = at > r->range_begin ? at : r->range_begin;
    uint64_t end = at + length < r->range_end ? at + length : r->range_end;
    account(s, now, m->spent_ns, o);
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

static void add_place(sky_satellite places[SKY__PLACES_MAX], uint32_t *count, sky_satellite place) {
    for (uint32_t i = 0; i < *count; i++) {
        if (sky_satellite_equal(places[i], place))
            return;
    }
    places[(*count)++] = place;
}

/* Where a chunk may be: at its place, if it is on its way still at the place before, where clocks
 * differ it may have left for the next one early; and if the block was moved and the chunk did not
 * hear of it, in its old home. */
uint32_t sky__places(const sky_session *s, sky_time now, const sky_chunk_facts *facts,
                     const sky__home *before, sky_satellite places[SKY__PLACES_MAX]) {
    uint64_t turns = sky__turns(s, now);
    uint32_t count = 0;
    sky_satellite place;
    add_place(places, &count, sky_session_place(s, facts, turns));
    if (sky_session_place_before(s, facts, turns, &place))
        add_place(places, &count, place);
    sky_time turn_in = sky_turn_begins(&s->config.frame->turning, turns + 1) - now;
    if (turn_in <= 2 * s->config.skew_ns)
        add_place(places, &count, sky_session_place(s, facts, turns + 1));
    if (before && before->set_ms) {
        sky_chunk_facts old = *facts;
        old.set_ms = before->set_ms;
        old.first = old.centre = before->centre;
        const sky_frame *f = s->config.frame;
        const sky_constellation *c = &f->constellation;
        old.first.plane = (facts->first.plane + c->planes - facts->centre.plane +
                           before->centre.plane - 1) %
                              c->planes +
                          1;
        old.first.slot = (facts->first.slot + c->slots - facts->centre.slot + before->centre.slot -
                          1) %
                             c->slots +
                         1;
        add_place(places, &count, sky_session_place(s, &old, turns));
        if (sky_session_place_before(s, &old, turns, &place))
            add_place(places, &count, place);
    }
    return count;
}

/* Not where we asked: ask at the other places in turn. When the first was asked twice and all
 * others between, the chunk is gone: whoever gives a chunk away drops it only when the next one
 * has it. False: it is. */
static bool ask_elsewhere(sky_session *s, sky_time now, uint32_t op) {
    sky__operation *o = &s->operations[op];
    sky_satellite places[SKY__PLACES_MAX];
    sky_chunk_facts facts = places_facts(s, o);
    bool moved_block = o->work == WORK_GET || o->work == WORK_PIECE;
    uint32_t count = sky__places(s, now, &facts,
                                 moved_block ? &s->requests[o->request].before : NULL, places);
    uint32_t asked = 0;
    while (asked < count && !sky_satellite_equal(o->to, places[asked]))
        asked++;
    bool moved = asked == count; /* since it was asked */
    o->misses++;
    if ((!moved && o->misses >= 2 * count - 1) || o->misses >= MISSES_MAX)
        return false;
    s->stat.second_places++;
    o->to = places[moved ? 0 : (asked + 1) % count];
    again_append(s, op);
    return true;
}

static void take_miss(sky_session *s, sky_time now, uint32_t op) {
    if (ask_elsewhere(s, now, op))
        return;
    if (s->operations[op].work == WORK_LOOK)
        sky__look_absent(s, op);
    else
        chunk_lost(s, now, op, SKY_MISS);
}

/* Some of the row may be on its way between two places. */
static void take_move_ack(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    sky__span span = sky__move_span(s, &s->requests[o->request], o->unit);
    uint32_t expected = (span.last - span.first) / s->servers + 1;
    s->stat.moved += m->moved < expected ? m->moved : expected;
    if (m->moved >= expected || !ask_elsewhere(s, now, op))
        chunk_done(s, op);
}

static void take_stat(sky_session *s, uint32_t op, const sky_message *m) {
    sky__request *r = &s->requests[s->operations[op].request];
    for (uint32_t i = 0; i < SKY_STAT_COUNT; i++)
        r->result.stat[i] = m->stat[i];
    chunk_done(s, op);
}

/* Only one who may hold a chunk may say that he gave it up; else a liar could have us drop what
 * others keep. What is not in the index is nobody's loss. */
static bool may_give_up(sky_session *s, sky_time now, sky_satellite who, const sky_chunk_id *id) {
    uint32_t block = sky_index_find(s->index, &id->key);
    if (block == SKY_BLOCK_NONE)
        return true;
    const sky__side *side = &s->sides[block];
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    if (id->version != (id->number ? side->version : side->head_version) ||
        id->number > info.chunk_count)
        return true;
    sky_chunk_id its;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_satellite places[SKY__PLACES_MAX];
    sky_session_chunk(s, block, id->number, &its, &facts, &bytes);
    uint32_t count = sky__places(s, now, &facts, id->number ? &side->before : NULL, places);
    for (uint32_t i = 0; i < count; i++) {
        if (sky_satellite_equal(who, places[i]))
            return true;
    }
    sky__suspect(s, who, true);
    return false;
}

static void take_set_ack(sky_session *s, sky_time now, sky_satellite from, uint32_t op,
                         const sky_message *m) {
    uint32_t request = s->operations[op].request;
    uint64_t generation = s->operations[op].generation;
    if (m->outcome == SKY_NOT_STORED) {
        sky__request_finish(s, request, SKY_E_FULL, 0);
        return;
    }
    if (m->outcome == SKY_STORED_EVICTED && may_give_up(s, now, from, &m->evicted))
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
    case WORK_LOOK:
        return (m->type == SKY_WIRE_CHUNK || m->type == SKY_WIRE_MISS) && is_current(s, op, m) &&
               m->id.number == 0 && sky_key_equal(&m->id.key, sky__look_key(r, o->unit));
    default:
        return (m->type == SKY_WIRE_CHUNK || (m->type == SKY_WIRE_MISS && is_current(s, op, m))) &&
               sky_chunk_id_equal(&id, &m->id);
    }
}

/* The operation an answer is to; SKY__NONE when there is none. What was asked last is answered by
 * whom it was asked: ids are easily guessed. */
static uint32_t find_operation(const sky_session *s, sky_satellite from, const sky_message *m) {
    uint32_t op = (uint32_t)(m->request & ((1u << OPERATION_BITS) - 1));
    if (op >= s->operation_fresh)
        return SKY__NONE;
    const sky__operation *o = &s->operations[op];
    uint64_t generation = m->request >> (OPERATION_BITS + ATTEMPT_BITS);
    uint64_t generations = UINT64_MAX >> (OPERATION_BITS + ATTEMPT_BITS);
    if (o->request == SKY__NONE || generation != (o->generation & generations) || o->attempt == 0 ||
        o->parked || (is_current(s, op, m) && !sky_satellite_equal(from, o->to)))
        return SKY__NONE;
    return answers(s, op, m) ? op : SKY__NONE;
}

static void take_gone(sky_session *s, sky_time now, const sky_datagram *in, const sky_message *m) {
    uint32_t block = sky_index_find(s->index, &m->id.key);
    if (in->from.plane == 0 || m->id.number == 0 || block == SKY_BLOCK_NONE ||
        s->sides[block].version != m->id.version || !may_give_up(s, now, in->from, &m->id) ||
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
    uint32_t op = find_operation(s, in->from, &m);
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
    else
        take_set_ack(s, now, in->from, op, &m);
}

/* Who has another copy does not wait long for one who is silent. A stripe does not wait either, but
 * goes on asking beside it (sky__repair_late). */
static uint32_t attempts_max(const sky_session *s, const sky__operation *o) {
    bool other = (o->work == WORK_GET || o->work == WORK_PIECE) && o->copy + 1 < s->config.replicas;
    uint32_t most = s->config.retries_max + PATIENT_ATTEMPTS;
    return other && most > 1 ? 1 : most;
}

/* Nobody answered: ask again, at the place the chunk has by now. */
static void expire(sky_session *s, sky_time now, uint32_t op) {
    sky__operation *o = &s->operations[op];
    s->stat.retries++;
    o->misses = 0; /* a silence between two MISSes: the chunk may have passed by meanwhile */
    sky__suspect(s, o->to, false);
    if (++o->unanswered > attempts_max(s, o)) {
        chunk_lost(s, now, op, SKY_E_IO);
        return;
    }
    if (o->work == WORK_GET || o->work == WORK_PIECE) {
        if (o->unanswered == 1)
            sky__loss_note(s, true);
        sky__repair_late(s, op);
    }
    if (o->work != WORK_STAT) {
        sky_chunk_facts facts = places_facts(s, o);
        o->to = sky_session_place(s, &facts, sky__turns(s, now));
    }
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
        if (o->deadline <= now)
            expire(s, now, op);
        else if (o->deadline < earliest)
            earliest = o->deadline;
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
