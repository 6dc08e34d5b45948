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

#include "base/bug.h"
#include "base/clock.h"
#include "ground/session_state.h"

/* ---- operations ---- */

bool sky__operation_ready(const sky_session *s) {
    return s->operation_free != SKY__NONE || s->operation_fresh < s->core.config.operations_max;
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

void sky__ask_again(sky_session *s, uint32_t op) {
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

uint32_t sky__length_of(const sky_session *s, const sky__operation *o) {
    return sky__chunk_length(&s->core, s->requests[o->request].info.payload_bytes, o->number);
}

/* What comes back takes time on the downlink; acknowledgements are small. */
static uint32_t answer_bytes(const sky_session *s, const sky__operation *o) {
    uint32_t head = (uint32_t)sky_message_data_offset(SKY_WIRE_CHUNK);
    if (o->work == WORK_LOOK || o->work == WORK_HEADS)
        return head + SKY_HEAD_BYTES;
    return o->work == WORK_GET || o->work == WORK_PIECE ? head + sky__length_of(s, o) : 0;
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

sky_time sky__blocked_ns(const sky_session *s) {
    return s->blocked_ns + (s->blocked ? s->core.now - s->blocked_since : 0);
}

void sky__note_blocked(sky_session *s) {
    bool blocked = s->gets.first != SKY__NONE && !sky__operation_ready(s);
    if (blocked && !s->blocked)
        s->blocked_since = s->core.now;
    else if (!blocked && s->blocked)
        s->blocked_ns += s->core.now - s->blocked_since;
    s->blocked = blocked;
}

/* ---- output ---- */

void sky__send(sky_session *s, const sky_message *m, sky_satellite to, sky_datagram *out) {
    out->from = SKY_GROUND;
    out->to = to;
    out->bytes = sky_message_encode(m, out->data, out->bytes_max);
    assert(out->bytes > 0);
    s->up_free = sky__later(s->up_free, s->core.now) +
                 sky_link_busy_ns(s->core.config.link_bits_s, out->bytes);
}

uint64_t sky__wire_id(const sky_session *s, uint32_t op) {
    const sky__operation *o = &s->operations[op];
    uint64_t attempt = o->attempt & ((1u << SKY__ATTEMPT_BITS) - 1);
    return (o->generation << SKY__ATTEMPT_BITS | attempt) << SKY__OPERATION_BITS | op;
}

/* Name and facts of what an operation is about. */
static void describe(const sky_session *s, const sky__operation *o, sky_message *m) {
    const sky__request *r = &s->requests[o->request];
    m->id = r->id;
    m->id.number = o->number;
    m->facts = r->facts;
    sky__facts_of(&s->core, &m->facts, o->number, o->copy);
    if (o->work == WORK_HEAD || o->work == WORK_REHEAD)
        m->id.version = r->head_version;
}

/* The facts by which an operation's places are computed. The last MOVE goes to where the chunks
 * were. */
sky_chunk_facts sky__places_facts(const sky_session *s, const sky__operation *o) {
    const sky__request *r = &s->requests[o->request];
    sky_chunk_facts facts = r->facts;
    if (o->work == WORK_LOOK ||
        o->work == WORK_HEADS) /* nothing is known of the block yet, nor needs to be */
        facts = sky__block_facts(&s->core, &r->info, false);
    if (o->work == WORK_MOVE && r->step == MOVE_GOES) {
        facts.set_ms = r->before.set_ms;
        facts.centre = r->before.centre;
    }
    sky__facts_of(&s->core, &facts, o->number, o->copy);
    return facts;
}

/* Units count the copies of all last places, those of the place before the last one first. */
static sky_satellite last_place(const sky_session *s, const sky_chunk_facts *facts, uint32_t unit) {
    uint64_t turns = sky__rotations(&s->core), back = 2 + unit / s->core.head_copies;
    return sky_session_place(s, facts, turns > back ? turns - back : 0);
}

uint32_t sky__operation_places(const sky_session *s, const sky__operation *o,
                               sky_satellite places[SKY__PLACES_MAX]) {
    const sky__request *r = &s->requests[o->request];
    bool moved_block = o->work == WORK_GET || o->work == WORK_PIECE || o->work == WORK_PROBE ||
                       o->work == WORK_CHECK || (o->work == WORK_MOVE && r->step == MOVE_GATHERS);
    places[0] = r->ask.satellite;
    if (o->work == WORK_STAT)
        return 1;
    sky_chunk_facts facts = sky__places_facts(s, o);
    uint32_t server = moved_block ? sky__server_of(&s->core, o->number, o->copy) : 0;
    uint32_t count = sky__places(&s->core, &facts, moved_block ? &r->before : NULL, server, places);
    if (o->work == WORK_HEADS && r->tracing) { /* of the last places, the one its unit means */
        places[0] = last_place(s, &facts, o->unit);
        return 1;
    }
    if (r->thorough && moved_block)
        sky__last_places(&s->core, &facts, places, &count);
    return count;
}

/* A chunk of a put's payload, where it goes in the message, or where the host has it. */
static bool fill_data(sky_session *s, const sky__request *r, uint32_t number, sky_message *m,
                      sky_datagram *out) {
    const sky_session_config *c = &s->core.config;
    uint64_t offset = (uint64_t)(number - 1) * c->chunk_bytes;
    uint8_t *room = out->data + sky_message_data_offset(SKY_WIRE_SET);
    if (c->sealed && c->lend)
        out->chunk = c->lend(c->host, r->ask.context, offset, m->data_bytes);
    if (out->chunk)
        m->data = NULL;
    return out->chunk || c->fetch(c->host, r->ask.context, offset, room, m->data_bytes);
}

/* Of a put, or of a block that moves. */
static bool is_named(const sky_session *s, const sky__request *r) {
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    return r->ask.op == SKY_OP_PUT ? r->ask.named
                                   : block != SKY_BLOCK_NONE && s->blocks.rows[block].named;
}

/* A SET's bytes. False when the host no longer has them. */
static bool fill(sky_session *s, const sky__operation *o, sky_message *m, sky_datagram *out) {
    const sky__request *r = &s->requests[o->request];
    uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET);
    m->type = SKY_WIRE_SET;
    m->data_bytes = sky__length_of(s, o);
    m->data = data;
    assert(out->bytes_max >= sky_message_bytes(m));
    bool there = true;
    uint32_t chunks = sky__data_chunks(&s->core, r->info.payload_bytes);
    if (o->number == 0) {
        sky_block_head head = sky__head_of(&s->core, &r->info, r->id.version, &r->before,
                                           is_named(s, r));
        sky_head_encode(&head, data);
    } else {
        uint32_t number = sky_stripes_data_number(&s->core.stripes, chunks, o->number);
        there = number ? fill_data(s, r, number, m, out) : sky__parity_make(s, r, o->number, data);
    }
    if (!s->core.config.sealed)
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
    case WORK_HEADS:
        m->type = SKY_WIRE_GET;
        m->id = (sky_chunk_id){.key = *sky__look_key(r, o->unit), .version = SKY_VERSION_ANY};
        return true;
    case WORK_MOVE:
    case WORK_CHECK:
        describe(s, o, m);
        span = sky__span_of(s, r, o->unit);
        m->type = o->work == WORK_MOVE ? SKY_WIRE_MOVE : SKY_WIRE_HAS;
        m->last = span.last;
        m->stride = s->core.servers;
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
static bool operation_send(sky_session *s, uint32_t op, sky_datagram *out) {
    sky__operation *o = &s->operations[op];
    sky_message m = {.type = SKY_WIRE_GET};
    o->attempt++;
    if (!compose(s, o, &m, out))
        return false;
    m.request = sky__wire_id(s, op);
    if (o->answer_bytes > 0)
        s->down_free = sky__later(s->down_free, s->core.now) +
                       sky_link_busy_ns(s->core.config.link_bits_s, o->answer_bytes);
    o->sent = s->core.now;
    if (o->attempt == 1)
        o->first_sent = s->core.now;
    o->light_ns = sky_frame_ground_ns(s->core.config.frame, o->to, sky__rotations(&s->core));
    sky__send(s, &m, o->to, out);
    o->deadline = sky__deadline_of(s, s->up_free, o);
    if (o->deadline < s->earliest)
        s->earliest = o->deadline;
    if (o->echoes > 0)
        o->echoes--, s->core.stat.echoes++;
    else if (sky__is_get(o->work) && o->unanswered > 0)
        o->echoes = sky__echoes(s, o);
    if (o->echoes > 0)
        sky__ask_again(s, op);
    sky__request *r = &s->requests[o->request];
    r->latest = sky__later(r->latest, sky__expected_end(s, o));
    return true;
}

/* An operation of a request's work on one unit, not yet sent. */
static uint32_t operation_begin(sky_session *s, uint32_t request, sky__work work, uint32_t unit,
                                uint32_t number, uint32_t copy) {
    uint32_t op = operation_take(s);
    sky__operation *o = &s->operations[op];
    o->request = request;
    o->work = work;
    o->unit = unit;
    o->number = number;
    o->copy = copy;
    o->blocked_ns = sky__blocked_ns(s) - s->requests[request].blocked_ns;
    bool any_copy = sky__is_get(work) && work != WORK_HEADS;
    o->to = any_copy ? sky__copy_first(s, o) : sky__place_to_ask(s, o);
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
        *number = sky_stripes_number(&s->core.stripes, unit);
        return true;
    case WORK_SET:
        *number = unit / s->core.config.replicas + 1;
        *copy = unit % s->core.config.replicas;
        return true;
    case WORK_HEADS:
        *copy = unit % s->core.head_copies;
        return true;
    case WORK_HEAD:
    case WORK_REHEAD:
        *copy = unit;
        return true;
    case WORK_MOVE:
    case WORK_CHECK:
        *number = sky__span_of(s, r, unit).first;
        *copy = unit % s->core.config.replicas;
        return true;
    case WORK_PROBE:
        *number = r->ask.probe;
        *copy = r->ask.probe_copy;
        return true;
    default:
        return true;
    }
}

void sky__chunk_done(sky_session *s, uint32_t op) {
    uint32_t request = s->operations[op].request;
    sky__operation_end(s, op);
    if (!SKY_BUG("operation-kept", 50) && --s->requests[request].units_left == 0)
        sky__work_done(s, request);
}

/* The next chunk of the first request of a list. */
static bool send_next(sky_session *s, sky__list *list, sky_datagram *out) {
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
    uint32_t op = operation_begin(s, request, r->work, unit, number, copy);
    if (r->work == WORK_GET && s->core.stripes.parity > 0)
        sky__repair_guard(s, op);
    if (!sky__may_ask(s, s->operations[op].to, !sky__is_get(r->work))) {
        if (sky__goes_without(s, &s->operations[op], false)) {
            sky__chunk_done(s, op);
            return false;
        }
        if (sky__is_get(r->work)) {
            sky__chunk_lost(s, op, SKY_E_IO);
            return false;
        }
    }
    if (operation_send(s, op, out))
        return true;
    sky__request_finish(s, request, SKY_E_CANCELLED, 0);
    return false;
}

bool sky__piece_ask(sky_session *s, uint32_t repair, uint32_t number, sky_datagram *out) {
    uint32_t request = s->repairs[repair].request;
    uint32_t op = operation_begin(s, request, WORK_PIECE, 0, number, 0);
    s->operations[op].repair = repair;
    s->repairs[repair].ops[number - s->repairs[repair].stripe.first] = op;
    return operation_send(s, op, out);
}

static bool send_again(sky_session *s, sky_datagram *out) {
    uint32_t op = s->again.first;
    again_remove(s, op);
    if (operation_send(s, op, out))
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
    if (s->bulk.count > 0)
        return SEND_ROW;
    if (set)
        return SEND_SET;
    *at = sky__later(s->up_free, s->down_free);
    return ask;
}

static bool perform(sky_session *s, action what, sky_datagram *out) {
    sky_message m;
    sky_satellite to;
    switch (what) {
    case SEND_ROW:
        if (!sky__bulk_next(&s->bulk, &s->blocks, &m, &to, out))
            return false;
        sky__send(s, &m, to, out);
        return true;
    case SEND_REPAIR:
        return sky__repair_output(s, out);
    case SEND_AGAIN:
        return send_again(s, out);
    case SEND_GET:
        return send_next(s, &s->gets, out);
    default:
        if (s->requests[s->puts.first].state == REQUEST_QUEUED &&
            (!sky__put_start(s, s->puts.first) || s->bulk.count > 0))
            return false; /* what makes room for it goes first */
        return send_next(s, &s->puts, out);
    }
}

bool sky_session_output(sky_session *s, sky_time now, sky_datagram *out) {
    bool sent = false;
    s->core.now = now;
    out->chunk = NULL;
    sky_time at;
    action what;
    if (s->parked > 0)
        sky__repairs_unpark(s);
    sky__mends_feed(s);
    while (!sent && (what = next_action(s, &at)) != SEND_NOTHING && at <= now)
        sent = perform(s, what, out);
    sky__note_blocked(s);
    return sent;
}

sky_time sky_session_wake(const sky_session *s) {
    sky_time at;
    sky_time wake = sky__mends_wake(s);
    wake = s->earliest < wake ? s->earliest : wake;
    if (next_action(s, &at) != SEND_NOTHING && at < wake)
        wake = at;
    return wake;
}
