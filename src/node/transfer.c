/* The session's traffic: one operation per chunk under way.
 *
 *     free ──► asked or sent ──answer──► done, free
 *                  ▲    │ no answer in time, MISS at a place that has another, wrong bytes
 *                  └ again ┘
 *
 * A request id is  generation | attempt | operation  so that an answer to an earlier life of the
 * operation is told from one to this life, and a MISS to an earlier attempt from one to this.
 *
 * Pacing: every message advances `up_free` by its time on the uplink, every GET advances
 * `down_free` by its answer's time on the downlink. So the terminal's queues hold about one
 * message each and the time a chunk waits for the link is spent here, where it can be counted. */
#include <assert.h>
#include <stdlib.h>

#include "node/session_state.h"

#define OPERATION_BITS 20
#define ATTEMPT_BITS   8
#define MISSES_MAX     8
#define CORRUPT_MAX    4
#define SLACK_NS       SKY_MS(1)

static sky_time later(sky_time a, sky_time b) {
    return a > b ? a : b;
}

static uint64_t turns_at(const sky_session *s, sky_time now) {
    return sky_turns(&s->config.frame->turning, now);
}

/* ---- operations ---- */

static bool operation_ready(const sky_session *s) {
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
        .generation = generation, .before = SKY__NONE, .after = SKY__NONE};
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

static uint64_t answer_bytes(const sky_session *s, const sky__operation *o) {
    if (s->requests[o->request].ask.op == SKY_OP_PUT)
        return 0; /* a SET-ACK: small */
    return sky_message_data_offset(SKY_WIRE_CHUNK) + length_of(s, o);
}

static uint32_t *open_at(sky_session *s, sky_satellite at) {
    return &s->open_at[sky_frame_number(s->config.frame, at)];
}

static void operation_free(sky_session *s, uint32_t op) {
    sky__operation *o = &s->operations[op];
    again_remove(s, op);
    s->bytes_coming -= answer_bytes(s, o);
    (*open_at(s, o->to))--;
    o->request = SKY__NONE;
    o->after = s->operation_free;
    s->operation_free = op;
}

void sky__operations_abandon(sky_session *s, uint32_t request) {
    for (uint32_t op = 0; op < s->operation_fresh; op++) {
        if (s->operations[op].request == request)
            operation_free(s, op);
    }
}

static void redirect(sky_session *s, sky__operation *o, sky_satellite to) {
    (*open_at(s, o->to))--;
    o->to = to;
    (*open_at(s, to))++;
}

/* ---- time the window costs ---- */

sky_time sky__blocked_ns(const sky_session *s, sky_time now) {
    return s->blocked_ns + (s->blocked ? now - s->blocked_since : 0);
}

static void note_blocked(sky_session *s, sky_time now) {
    bool blocked = s->gets.first != SKY__NONE && !operation_ready(s);
    if (blocked && !s->blocked)
        s->blocked_since = now;
    else if (!blocked && s->blocked)
        s->blocked_ns += now - s->blocked_since;
    s->blocked = blocked;
}

/* Twice the time the answer takes if nothing is lost: light both ways (the sky may turn meanwhile,
 * and the satellite be farther off), those ahead of it at the satellite, those ahead of it on the
 * downlink. Doubled for each attempt in vain. */
static sky_time patience(const sky_session *s, sky_time now, const sky__operation *o) {
    uint32_t ahead = s->open_at[sky_frame_number(s->config.frame, o->to)];
    sky_time turned_ns = sky_frame_ground_ns(s->config.frame, o->to, turns_at(s, now) + 1);
    sky_time expected = 2 * (later(o->light_ns, turned_ns) + s->config.jitter_ns) +
                        s->config.processing_ns * (ahead + 1) +
                        sky_link_busy_ns(s->config.link_bits_s,
                                         s->bytes_coming + s->config.chunk_bytes);
    uint32_t doublings = o->unanswered < 10 ? o->unanswered : 10;
    return (2 * expected + SLACK_NS) << doublings;
}

/* ---- output ---- */

static void send(sky_session *s, sky_time now, const sky_message *m, sky_satellite to,
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

/* Send an operation's message to o->to. False when the host no longer has the bytes. */
static bool operation_send(sky_session *s, sky_time now, uint32_t op, sky_datagram *out) {
    sky__operation *o = &s->operations[op];
    const sky__request *r = &s->requests[o->request];
    sky_message m = {.type = SKY_WIRE_GET};
    o->attempt++;
    m.request = wire_id(s, op);
    sky__chunk_facts(s, r, o->number, &m.id, &m.facts);
    if (r->ask.op == SKY_OP_PUT) {
        uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET);
        uint64_t offset = (uint64_t)(o->number - 1) * s->config.chunk_bytes;
        m.type = SKY_WIRE_SET;
        m.data_bytes = length_of(s, o);
        m.data = data;
        assert(out->bytes_max >= sky_message_bytes(&m));
        if (!s->config.fetch(s->config.host, r->ask.context, offset, data, m.data_bytes))
            return false;
        m.facts.checksum = sky_chunk_checksum(&m.id, data, m.data_bytes);
    } else {
        s->down_free = later(s->down_free, now) +
                       sky_link_busy_ns(s->config.link_bits_s, answer_bytes(s, o));
    }
    o->sent = now;
    if (o->attempt == 1)
        o->first_sent = now;
    o->light_ns = sky_frame_ground_ns(s->config.frame, o->to, turns_at(s, now));
    o->deadline = now + patience(s, now, o);
    if (o->deadline < s->earliest)
        s->earliest = o->deadline;
    send(s, now, &m, o->to, out);
    return true;
}

/* The next chunk of the first request of a list. */
static bool send_next(sky_session *s, sky_time now, sky__list *list, sky_datagram *out) {
    uint32_t request = list->first;
    sky__request *r = &s->requests[request];
    uint32_t op = operation_take(s);
    sky__operation *o = &s->operations[op];
    o->request = request;
    o->number = r->chunk_next++;
    o->blocked_ns = sky__blocked_ns(s, now) - r->blocked_ns;
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky__chunk_facts(s, r, o->number, &id, &facts);
    o->to = sky_session_place(s, &facts, turns_at(s, now));
    (*open_at(s, o->to))++;
    s->bytes_coming += answer_bytes(s, o);
    if (r->chunk_next > r->chunk_last)
        sky__chain_take(s, list);
    if (operation_send(s, now, op, out))
        return true;
    sky__request_finish(s, request, SKY_E_CANCELLED, 0);
    return false;
}

static bool send_again(sky_session *s, sky_time now, sky_datagram *out) {
    uint32_t op = s->again.first;
    again_remove(s, op);
    if (operation_send(s, now, op, out))
        return true;
    sky__request_finish(s, s->operations[op].request, SKY_E_CANCELLED, 0);
    return false;
}

/* DROP or PIN for the next server, at its place and then where it was before: its chunks may be in
 * both. */
static void send_row(sky_session *s, sky_time now, sky_datagram *out) {
    sky__row *row = &s->rows[s->row_first];
    uint32_t count = row->facts.chunk_count;
    sky_message m = {.type = row->type,
                     .id = row->id,
                     .facts.pinned = row->facts.pinned,
                     .stride = s->servers,
                     .last = count - (count - row->server) % s->servers};
    m.id.number = row->server;
    sky_chunk_facts facts = row->facts;
    facts.first = sky_frame_first(s->config.frame, facts.centre, row->server);
    uint64_t turns = turns_at(s, now);
    sky_satellite places[2] = {sky_session_place(s, &facts, turns)};
    bool two = sky_session_place_before(s, &facts, turns, &places[1]);
    send(s, now, &m, places[two && row->second], out);
    row->second = two && !row->second;
    if (row->second || ++row->server <= (count < s->servers ? count : s->servers))
        return;
    s->row_first = (s->row_first + 1) % s->row_max;
    s->row_count--;
}

typedef enum { SEND_NOTHING, SEND_ROW, SEND_AGAIN, SEND_GET, SEND_SET } action;

/* What goes out next, and when at the soonest. Gets come first, as fast as their answers fit the
 * downlink: somebody waits for them. DROPs come before SETs, which need the room. */
static action next_action(const sky_session *s, sky_time *at) {
    bool get = s->gets.first != SKY__NONE && operation_ready(s);
    bool set = s->puts.first != SKY__NONE && operation_ready(s) && !s->puts_stalled;
    *at = s->up_free;
    if (s->again.first != SKY__NONE)
        return SEND_AGAIN;
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
        send_row(s, now, out);
        return true;
    case SEND_AGAIN:
        return send_again(s, now, out);
    case SEND_GET:
        return send_next(s, now, &s->gets, out);
    default:
        if (s->requests[s->puts.first].state == REQUEST_QUEUED &&
            !sky__put_start(s, now, s->puts.first))
            return false;
        return send_next(s, now, &s->puts, out);
    }
}

bool sky_session_output(sky_session *s, sky_time now, sky_datagram *out) {
    bool sent = false;
    sky_time at;
    action what;
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
    sky__request *r = &s->requests[request];
    operation_free(s, op);
    if (--r->chunks_left > 0)
        return;
    if (r->ask.op == SKY_OP_PUT)
        sky__put_commit(s, request);
    else
        sky__request_finish(s, request, SKY_OK, r->range_end - r->range_begin);
}

/* The message answers what was asked last and is still open, not an earlier attempt, and is no
 * second copy. */
static bool is_current(const sky_session *s, uint32_t op, const sky_message *m) {
    return m->request == wire_id(s, op) && !s->operations[op].again;
}

static void take_chunk(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    sky__operation *o = &s->operations[op];
    const sky__request *r = &s->requests[o->request];
    uint32_t length = length_of(s, o);
    if (m->data_bytes != length ||
        sky_chunk_checksum(&m->id, m->data, m->data_bytes) != m->facts.checksum) {
        s->stat.corrupt++;
        if (!is_current(s, op, m))
            return; /* copies of one damaged answer are one piece of evidence */
        if (++o->corrupt >= CORRUPT_MAX)
            sky__request_lost(s, o->request, SKY_E_CORRUPT);
        else
            again_append(s, op); /* it may have been the link */
        return;
    }
    uint64_t at = (uint64_t)(o->number - 1) * s->config.chunk_bytes;
    uint64_t begin = at > r->range_begin ? at : r->range_begin;
    uint64_t end = at + length < r->range_end ? at + length : r->range_end;
    account(s, now, m->spent_ns, o);
    if (s->config.deliver(s->config.host, r->ask.context, begin - r->range_begin,
                          m->data + (begin - at), (size_t)(end - begin)))
        chunk_done(s, op);
    else
        sky__request_finish(s, o->request, SKY_E_CANCELLED, 0);
}

/* Where a chunk may be: at its place, if it is on its way still at the place before, and where
 * clocks differ it may have left for the next one early. */
#define PLACES_MAX 3
static uint32_t places_of(const sky_session *s, sky_time now, const sky_chunk_facts *facts,
                          sky_satellite places[PLACES_MAX]) {
    uint64_t turns = turns_at(s, now);
    uint32_t count = 0;
    places[count++] = sky_session_place(s, facts, turns);
    if (sky_session_place_before(s, facts, turns, &places[count]))
        count++;
    sky_time turn_in = sky_turn_begins(&s->config.frame->turning, turns + 1) - now;
    sky_satellite next = sky_session_place(s, facts, turns + 1);
    if (turn_in <= 2 * s->config.skew_ns && !sky_satellite_equal(next, places[0]))
        places[count++] = next;
    return count;
}

/* Not where we asked: ask at the other places in turn. When the first was asked twice and all
 * others between, the chunk is gone: whoever gives a chunk away drops it only when the next one
 * has it. */
static void take_miss(sky_session *s, sky_time now, uint32_t op) {
    sky__operation *o = &s->operations[op];
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky_satellite places[PLACES_MAX];
    sky__chunk_facts(s, &s->requests[o->request], o->number, &id, &facts);
    uint32_t count = places_of(s, now, &facts, places);
    uint32_t asked = 0;
    while (asked < count && !sky_satellite_equal(o->to, places[asked]))
        asked++;
    bool moved = asked == count; /* since it was asked */
    o->misses++;
    if ((!moved && o->misses >= 2 * count - 1) || o->misses >= MISSES_MAX) {
        sky__request_lost(s, o->request, SKY_MISS);
        return;
    }
    s->stat.second_places++;
    redirect(s, o, places[moved ? 0 : (asked + 1) % count]);
    again_append(s, op);
}

static void take_set_ack(sky_session *s, uint32_t op, const sky_message *m) {
    uint32_t request = s->operations[op].request;
    uint64_t generation = s->operations[op].generation;
    if (m->outcome == SKY_NOT_STORED) {
        sky__request_finish(s, request, SKY_E_FULL, 0);
        return;
    }
    if (m->outcome == SKY_STORED_EVICTED)
        sky__evicted(s, &m->evicted); /* may end this very put */
    if (s->operations[op].request == request && s->operations[op].generation == generation)
        chunk_done(s, op);
}

/* The operation an answer is to; SKY__NONE when there is none. */
static uint32_t find_operation(const sky_session *s, const sky_message *m) {
    uint32_t op = (uint32_t)(m->request & ((1u << OPERATION_BITS) - 1));
    if (op >= s->operation_fresh)
        return SKY__NONE;
    const sky__operation *o = &s->operations[op];
    uint64_t generation = m->request >> (OPERATION_BITS + ATTEMPT_BITS);
    uint64_t generations = UINT64_MAX >> (OPERATION_BITS + ATTEMPT_BITS);
    if (o->request == SKY__NONE || generation != (o->generation & generations) || o->attempt == 0)
        return SKY__NONE;
    const sky__request *r = &s->requests[o->request];
    sky_chunk_id id = r->id;
    id.number = o->number;
    bool put = r->ask.op == SKY_OP_PUT;
    bool expected = put ? m->type == SKY_WIRE_SET_ACK
                        : m->type == SKY_WIRE_CHUNK ||
                              (m->type == SKY_WIRE_MISS && is_current(s, op, m));
    return expected && sky_chunk_id_equal(&id, &m->id) ? op : SKY__NONE;
}

static void take(sky_session *s, sky_time now, const sky_datagram *in) {
    sky_message m;
    if (sky_message_decode(in->data, in->bytes, &m) != SKY_OK) {
        s->stat.malformed++;
        return;
    }
    uint32_t op = find_operation(s, &m);
    if (op == SKY__NONE)
        s->stat.stray++;
    else if (m.type == SKY_WIRE_CHUNK)
        take_chunk(s, now, op, &m);
    else if (m.type == SKY_WIRE_MISS)
        take_miss(s, now, op);
    else
        take_set_ack(s, op, &m);
}

/* Nobody answered: ask again, at the place the chunk has by now. */
static void expire(sky_session *s, sky_time now, uint32_t op) {
    sky__operation *o = &s->operations[op];
    s->stat.retries++;
    if (++o->unanswered > s->config.retries_max) {
        sky__request_finish(s, o->request, SKY_E_IO, 0);
        return;
    }
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky__chunk_facts(s, &s->requests[o->request], o->number, &id, &facts);
    redirect(s, o, sky_session_place(s, &facts, turns_at(s, now)));
    again_append(s, op);
}

/* `earliest` is a bound, not exact: it is made so by a walk over all operations, which happens
 * about once per patience, not once per answer. */
static void expire_all(sky_session *s, sky_time now) {
    sky_time earliest = SKY_TIME_NEVER;
    for (uint32_t op = 0; op < s->operation_fresh; op++) {
        const sky__operation *o = &s->operations[op];
        if (o->request == SKY__NONE || o->again)
            continue;
        if (o->deadline <= now)
            expire(s, now, op);
        else if (o->deadline < earliest)
            earliest = o->deadline;
    }
    s->earliest = earliest;
}

void sky_session_input(sky_session *s, sky_time now, const sky_datagram *in) {
    if (in)
        take(s, now, in);
    if (s->earliest <= now)
        expire_all(s, now);
    note_blocked(s, now);
}
