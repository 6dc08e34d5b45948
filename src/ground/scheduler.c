#include "ground/scheduler.h"

#include <assert.h>
#include <stdlib.h>

#include <skymem/keys.h>

#include "base/bug.h"
#include "base/clock.h"

#define OPERATION_BITS 20 /* of a request id, from the lowest; */
#define ATTEMPT_BITS   8  /* … then these */
#define CORRUPT_MAX    4
#define ROUND_MORE     0.01 /* of gets may need another round */
#define SPECULATIVE    3    /* of one chunk in one round, at most */
#define NO_LINK_LOSES  0.5  /* so much: somebody is silent, and says no more for being asked more */
#define SURELY         3    /* so many expected to be lost, and one is, in 95 of 100 gets */

sky_status sky__scheduler_init(sky__scheduler *q, sky_session *session, const sky__clients *clients,
                               sky__core *core, sky__request_table *requests) {
    const sky_session_config *c = &core->config;
    *q = (sky__scheduler){.session = session,
                          .clients = clients,
                          .core = core,
                          .requests = requests,
                          .operation_free = SKY__NONE,
                          .again = {SKY__NONE, SKY__NONE},
                          .earliest = SKY_TIME_NEVER,
                          .answered_at = -1,
                          .host_asked = -SKY_SECONDS(60),
                          .farthest_ns = sky_frame_ground_ns_max(c->frame)};
    q->operations = calloc(c->operations_max, sizeof *q->operations);
    q->served_at = calloc(c->frame->satellite_count, sizeof *q->served_at);
    q->suspicions = calloc(c->frame->satellite_count, sizeof *q->suspicions);
    return q->operations && q->served_at && q->suspicions ? SKY_OK : SKY_E_NOMEM;
}

void sky__scheduler_deinit(sky__scheduler *q) {
    free(q->operations);
    free(q->served_at);
    free(q->suspicions);
}

static sky__request *request_of(const sky__scheduler *q, const sky__operation *o) {
    return &q->requests->rows[o->request];
}

/* ---- operations ---- */

bool sky__operation_ready(const sky__scheduler *q) {
    return q->operation_free != SKY__NONE || q->operation_fresh < q->core->config.operations_max;
}

/* Another in each session, so that answers to an earlier one of this ground are not taken. */
static uint64_t first_generation(const sky__scheduler *q) {
    return (q->core->config.session_id >> 8 & 0xfffff) << 16 | 1;
}

static uint32_t operation_take(sky__scheduler *q) {
    uint32_t op = q->operation_free;
    uint64_t generation = first_generation(q);
    if (op == SKY__NONE) {
        op = q->operation_fresh++;
    } else {
        q->operation_free = q->operations[op].after;
        generation = q->operations[op].generation + 1;
    }
    q->operations[op] = (sky__operation){
        .generation = generation, .before = SKY__NONE, .after = SKY__NONE, .repair = SKY__NONE};
    q->operations_open++;
    return op;
}

static void again_remove(sky__scheduler *q, uint32_t op) {
    sky__operation *o = &q->operations[op];
    if (!o->again)
        return;
    *(o->before == SKY__NONE ? &q->again.first : &q->operations[o->before].after) = o->after;
    *(o->after == SKY__NONE ? &q->again.last : &q->operations[o->after].before) = o->before;
    o->again = false;
}

static void again_add(sky__scheduler *q, uint32_t op) {
    sky__operation *o = &q->operations[op];
    if (o->again)
        return;
    o->again = true;
    o->before = q->again.last;
    o->after = SKY__NONE;
    *(o->before == SKY__NONE ? &q->again.first : &q->operations[o->before].after) = op;
    q->again.last = op;
}

void sky__operation_end(sky__scheduler *q, uint32_t op) {
    sky__operation *o = &q->operations[op];
    again_remove(q, op);
    q->parked -= o->parked;
    q->operations_open--;
    request_of(q, o)->operations--;
    o->request = SKY__NONE;
    o->after = q->operation_free;
    q->operation_free = op;
}

void sky__units_over(sky__scheduler *q, uint32_t request, uint32_t count) {
    sky__request *r = &q->requests->rows[request];
    r->units_left -= count;
    if (count > 0 && r->units_left == 0)
        q->clients->of[r->work]->done(q->session, request);
}

void sky__operation_done(sky__scheduler *q, uint32_t op) {
    uint32_t request = q->operations[op].request;
    sky__operation_end(q, op);
    if (!SKY_BUG("operation-kept", 50))
        sky__units_over(q, request, 1);
}

void sky__operations_abandon(sky__scheduler *q, uint32_t request) {
    for (uint32_t op = 0; q->requests->rows[request].operations > 0 && op < q->operation_fresh;
         op++) {
        if (q->operations[op].request == request)
            sky__operation_end(q, op);
    }
}

/* ---- time the window costs ---- */

sky_time sky__blocked_ns(const sky__scheduler *q) {
    return q->blocked_ns + (q->blocked ? q->core->now - q->blocked_since : 0);
}

void sky__note_blocked(sky__scheduler *q) {
    bool blocked = q->requests->reading.first != SKY__NONE && !sky__operation_ready(q);
    q->blocked_ns = sky__blocked_ns(q);
    q->blocked_since = q->core->now;
    q->blocked = blocked;
}

/* ---- losses ---- */

/* Of what a request asked for first, so many are lost, by the loss seen lately. */
static double lost_of(const sky__scheduler *q, const sky__request *r) {
    return q->core->loss.gets * (r->unit_last + 1);
}

/* When an answer that has just been asked for will be there; where some are surely lost, after one
 * more round. */
static sky_time expected_end(const sky__scheduler *q, const sky__operation *o) {
    bool surely = o->unanswered == 0 && lost_of(q, request_of(q, o)) > SURELY;
    return o->deadline + (surely ? o->deadline - o->sent : 0);
}

/* How often more to ask at once for what was asked for in vain. A second loss costs another round
 * trip, and what is lost is little: so it is asked for as often at once as leaves less than 1 get
 * in 100 to yet another round. But not where that round would be over before all else the get waits
 * for. */
static uint32_t speculative_of(const sky__scheduler *q, const sky__operation *o) {
    const sky__request *r = request_of(q, o);
    sky_time round_ns = o->deadline - o->sent;
    sky_time to_ask_ns = (r->unit_last + 1 - r->unit_next) *
                         sky_link_busy_ns(q->core->config.link_bits_s, o->answer_bytes);
    if (o->deadline + round_ns <= r->latest + to_ask_ns)
        return 0;
    if (q->core->loss.gets > NO_LINK_LOSES)
        return 1;
    double missing = lost_of(q, r);
    if (missing > r->operations)
        missing = r->operations;
    uint32_t more = 1;
    double still = (missing > 1 ? missing : 1) * q->core->loss.gets * q->core->loss.gets;
    for (; more < SPECULATIVE && still > ROUND_MORE; more++)
        still *= q->core->loss.gets;
    return more;
}

/* ---- output ---- */

void sky__send(sky__scheduler *q, const sky_message *m, sky_satellite to, sky_datagram *out) {
    out->from = SKY_GROUND;
    out->to = to;
    out->bytes = sky_message_encode(m, out->data, out->bytes_max);
    assert(out->bytes > 0);
    q->up_free = sky__later(q->up_free, q->core->now) +
                 sky_link_busy_ns(q->core->config.link_bits_s, out->bytes);
}

static uint64_t wire_id(const sky__scheduler *q, uint32_t op) {
    const sky__operation *o = &q->operations[op];
    uint64_t attempt = o->attempt & ((1u << ATTEMPT_BITS) - 1);
    return (o->generation << ATTEMPT_BITS | attempt) << OPERATION_BITS | op;
}

/* The message of an operation's next attempt. False when the host no longer has the bytes. */
static bool attempt_begin(sky__scheduler *q, uint32_t op, sky_message *m, sky_datagram *out) {
    sky__operation *o = &q->operations[op];
    const sky__client *client = sky__client_of(q, o);
    *m = (sky_message){.type = client->asks, .id = o->id, .last = o->id.number, .stride = 1};
    o->attempt++;
    if (client->compose && !client->compose(q->session, o, m, out))
        return false;
    m->request = wire_id(q, op);
    if (o->answer_bytes > 0)
        q->down_free = sky__later(q->down_free, q->core->now) +
                       sky_link_busy_ns(q->core->config.link_bits_s, o->answer_bytes);
    return true;
}

/* Send an operation's message to o->to. False when the host no longer has the bytes. */
static bool operation_send(sky__scheduler *q, uint32_t op, sky_datagram *out) {
    sky__operation *o = &q->operations[op];
    const sky__client *client = sky__client_of(q, o);
    sky_time now = q->core->now;
    sky_message m;
    if (!attempt_begin(q, op, &m, out))
        return false;
    if (o->attempt == 1 || !sky_satellite_equal(o->asked, o->to)) {
        o->asked = o->to;
        o->asked_since = o->attempt;
        o->asked_first = now;
    }
    o->sent = now;
    if (o->attempt == 1)
        o->first_sent = now;
    o->light_ns = sky_frame_ground_ns(q->core->config.frame, o->to, sky__rotations(q->core));
    sky__send(q, &m, o->to, out);
    o->deadline = sky__deadline_of(q, q->up_free, o);
    if (o->deadline < q->earliest)
        q->earliest = o->deadline;
    if (o->speculative > 0)
        o->speculative--, q->core->stat.speculative_retries++;
    else if (client->reads && o->unanswered > 0 && (!client->spreads || sky__copies_of(q, o) == 1))
        o->speculative = speculative_of(q, o);
    if (o->speculative > 0)
        again_add(q, op);
    sky__request *r = request_of(q, o);
    r->latest = sky__later(r->latest, expected_end(q, o));
    return true;
}

/* Ask one more copy. Its answer counts as any; what is waited for stays the same. */
static bool ask_aside(sky__scheduler *q, uint32_t op, sky_datagram *out) {
    sky__operation *o = &q->operations[op];
    sky_message m;
    if (!attempt_begin(q, op, &m, out))
        return false;
    sky__operation other = *o;
    sky__route_aside(q, &other);
    o->aside &= ~(1u << other.copy);
    sky__send(q, &m, other.to, out);
    (void)sky__deadline_of(q, q->up_free, &other); /* notes what that satellite has to serve */
    return true;
}

/* An operation of a request's work on one unit, not yet sent. */
static uint32_t operation_begin(sky__scheduler *q, uint32_t request, const sky__operation *what) {
    uint32_t op = operation_take(q);
    sky__operation *o = &q->operations[op];
    sky__request *r = &q->requests->rows[request];
    o->request = request;
    o->work = what->work;
    o->unit = what->unit;
    o->id = what->id;
    o->copy = what->copy;
    o->repair = what->repair;
    o->blocked_ns = sky__blocked_ns(q) - r->blocked_ns;
    sky__route_first(q, o);
    if (sky__client_of(q, o)->answers == SKY_WIRE_CHUNK) /* acknowledgements are small */
        o->answer_bytes = (uint32_t)sky_message_data_offset(SKY_WIRE_CHUNK) +
                          sky__chunk_length(q->core, r->of.info.payload_bytes, o->id.number);
    r->operations++;
    return op;
}

/* Of a sky that is down its satellites were not waited for one by one. */
static bool skips_unit(sky__scheduler *q, const sky__operation *o, bool given_up) {
    const sky__client *client = sky__client_of(q, o);
    bool silent = sky__is_silent(q, o->to) && !sky__is_down(q);
    return client->skipped && (given_up || silent) && client->skipped(q->session, o);
}

/* It is sent, or not worth while: its satellite is silent. */
static bool operation_try(sky__scheduler *q, uint32_t op, sky_datagram *out) {
    const sky__operation *o = &q->operations[op];
    uint32_t request = o->request;
    bool reads = sky__client_of(q, o)->reads;
    if (!sky__may_ask(q, o->to, !reads)) {
        if (skips_unit(q, o, false)) {
            sky__operation_done(q, op);
            return false;
        }
        if (reads) {
            sky__operation_lost(q, op, SKY_E_IO);
            return false;
        }
    }
    if (!operation_send(q, op, out)) {
        q->clients->finish(q->session, request, SKY_E_CANCELLED, 0);
        return false;
    }
    if (reads && sky__is_silent(q, o->to) && sky__client_of(q, o)->late)
        sky__client_of(q, o)->late(q->session, op); /* a try; nobody waits for its answer */
    return true;
}

bool sky__send_unit(sky__scheduler *q, sky__list *list, sky_datagram *out) {
    uint32_t request = list->first;
    sky__request *r = &q->requests->rows[request];
    const sky__client *client = q->clients->of[r->work];
    sky__operation what = {
        .work = r->work, .unit = r->unit_next++, .id = r->of.id, .repair = SKY__NONE};
    bool wanted = !client->unit || client->unit(q->session, r, what.unit, &what);
    if (r->unit_next > r->unit_last) {
        sky__list_take(q->requests, list);
        r->listed = false;
    }
    if (!wanted) {
        sky__units_over(q, request, 1);
        return false;
    }
    uint32_t op = operation_begin(q, request, &what);
    if (client->begun)
        client->begun(q->session, op);
    return operation_try(q, op, out);
}

bool sky__send_piece(sky__scheduler *q, uint32_t request, uint32_t number, uint32_t repair,
                     uint32_t *op, sky_datagram *out) {
    sky__operation what = {
        .work = WORK_PIECE, .id = q->requests->rows[request].of.id, .repair = repair};
    what.id.number = number;
    *op = operation_begin(q, request, &what);
    return operation_send(q, *op, out);
}

bool sky__send_again(sky__scheduler *q, sky_datagram *out) {
    uint32_t op = q->again.first;
    bool aside = q->operations[op].aside != 0;
    if (!aside)
        again_remove(q, op);
    if (aside ? ask_aside(q, op, out) : operation_send(q, op, out))
        return true;
    q->clients->finish(q->session, q->operations[op].request, SKY_E_CANCELLED, 0);
    return false;
}

/* ---- input ---- */

static uint32_t attempt_of(uint64_t id) {
    return (uint32_t)(id >> OPERATION_BITS) & ((1u << ATTEMPT_BITS) - 1);
}

/* The message answers what was asked last and is still open, not an earlier attempt, and is no
 * second copy. */
static bool is_current(const sky__scheduler *q, uint32_t op, const sky_message *m) {
    return m->request == wire_id(q, op) && !q->operations[op].again;
}

/* The satellite that is asked now says it, in answer to this attempt or to one since which nobody
 * else was asked. One that takes longer than is waited for answers like that each time. */
static bool is_of_asked(const sky__scheduler *q, uint32_t op, const sky_message *m) {
    const sky__operation *o = &q->operations[op];
    uint32_t ago = (o->attempt - attempt_of(m->request)) & ((1u << ATTEMPT_BITS) - 1);
    return sky_satellite_equal(q->from, o->to) && sky_satellite_equal(o->asked, o->to) &&
           ago <= o->attempt - o->asked_since;
}

void sky__operation_lost(sky__scheduler *q, uint32_t op, sky_status status) {
    sky__operation *o = &q->operations[op];
    const sky__client *client = sky__client_of(q, o);
    if (client->reads) {
        o->denied |= (uint32_t)(status != SKY_E_IO) << o->copy;
        o->missed |= status == SKY_MISS;
        if (sky__route_next_copy(q, o)) {
            again_add(q, op);
            return;
        }
        bool all = client->single || o->denied == (1u << sky__copies_of(q, o)) - 1;
        if (!all && status == SKY_MISS) /* another copy may be there */
            status = SKY_E_IO;
    }
    if (client->lost)
        client->lost(q->session, op, status);
    else
        q->clients->finish(q->session, o->request, status, 0);
}

/* That is certain when the first place was asked twice and all others between, because a satellite
 * that hands a chunk over drops it only when the next one has it. */
bool sky__ask_elsewhere(sky__scheduler *q, uint32_t op) {
    const uint32_t misses_max = SKY__PLACES_MAX + 3;
    sky__operation *o = &q->operations[op];
    if (o->id.number == 0 && o->denied)
        return false; /* one answer is enough of a head's second copy */
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__places_to_ask(q, o, places);
    uint32_t asked = 0;
    while (asked < count && !sky_satellite_equal(o->to, places[asked]))
        asked++;
    bool moved = asked == count; /* since it was asked */
    o->misses++;
    uint32_t most = request_of(q, o)->thorough ? count + 1 : 2 * count - 1;
    if ((!moved && o->misses >= most) || o->misses >= misses_max)
        return false;
    sky_satellite next = places[moved ? 0 : (asked + 1) % count];
    if (sky__rather_another(q, o, next) || (o->unanswered > 0 && sky__is_silent(q, next)))
        return false;
    q->core->stat.second_places++;
    o->to = next;
    again_add(q, op);
    return true;
}

void sky__operation_missed(sky__scheduler *q, uint32_t op) {
    if (!sky__ask_elsewhere(q, op))
        sky__operation_lost(q, op, sky__hides(q, &q->operations[op]) ? SKY_E_IO : SKY_MISS);
}

bool sky__is_genuine(const sky__scheduler *q, const sky_message *m) {
    return q->core->config.sealed
               ? q->opened
               : sky_chunk_checksum(&m->id, m->data, m->data_bytes) == m->facts.checksum;
}

static bool is_whole(const sky__scheduler *q, const sky__operation *o, const sky_message *m) {
    uint32_t payload_bytes = request_of(q, o)->of.info.payload_bytes;
    return m->data_bytes == sky__chunk_length(q->core, payload_bytes, o->id.number) &&
           sky__is_genuine(q, m);
}

void sky__operation_wrong(sky__scheduler *q, uint32_t op, const sky_message *m) {
    sky__operation *o = &q->operations[op];
    q->core->stat.corrupt++;
    if (!is_current(q, op, m))
        return;
    sky__suspect(q, o->to);
    if (++o->corrupt >= CORRUPT_MAX)
        sky__operation_lost(q, op, SKY_E_CORRUPT);
    else
        again_add(q, op); /* it may have been the link */
}

/* Is it an answer of the kind an operation waits for, about the right thing? */
static bool answers_operation(const sky__scheduler *q, uint32_t op, const sky_message *m) {
    const sky__operation *o = &q->operations[op];
    const sky__client *client = sky__client_of(q, o);
    bool any = m->type == SKY_WIRE_CHUNK || m->type == SKY_WIRE_SET_ACK ||
               m->type == SKY_WIRE_STAT_REPLY; /* attempt will do; a MISS may be out of date */
    if (m->type != client->answers &&
        !(m->type == SKY_WIRE_MISS && client->answers == SKY_WIRE_CHUNK))
        return false;
    if (!any && !is_of_asked(q, op, m))
        return false;
    sky_chunk_id id = o->id;
    if (id.version == SKY_VERSION_ANY)
        id.version = m->id.version;
    return m->type == SKY_WIRE_STAT_REPLY || sky_chunk_id_equal(&id, &m->id);
}

/* The operation a message is about, whichever attempt of it; SKY__NONE when there is none. */
static uint32_t named_operation(const sky__scheduler *q, const sky_message *m) {
    uint32_t op = (uint32_t)(m->request & ((1u << OPERATION_BITS) - 1));
    if (op >= q->operation_fresh)
        return SKY__NONE;
    const sky__operation *o = &q->operations[op];
    uint64_t generation = m->request >> (OPERATION_BITS + ATTEMPT_BITS);
    uint64_t generations = UINT64_MAX >> (OPERATION_BITS + ATTEMPT_BITS);
    if (o->request == SKY__NONE || generation != (o->generation & generations) || o->attempt == 0)
        return SKY__NONE;
    return op;
}

/* An answer to the last attempt must come from the satellite that was asked: ids are easy to
 * guess. */
static bool is_answer(const sky__scheduler *q, uint32_t op, const sky_message *m) {
    const sky__operation *o = &q->operations[op];
    bool stranger = is_current(q, op, m) && !sky_satellite_equal(q->from, o->to);
    return !o->parked && !stranger && answers_operation(q, op, m);
}

static void take_answer(sky__scheduler *q, uint32_t op, const sky_message *m) {
    sky__operation *o = &q->operations[op];
    const sky__client *client = sky__client_of(q, o);
    if (m->type == SKY_WIRE_MISS) {
        sky__operation_missed(q, op);
        return;
    }
    if (client->carries && client->reads && !is_whole(q, o, m)) {
        sky__operation_wrong(q, op, m);
        return;
    }
    if (client->carries && client->reads && is_current(q, op, m)) {
        q->heard_due = sky__later(q->heard_due, o->due);
        q->heard_at = q->core->now;
    }
    if (client->carries && o->unanswered == 0)
        sky__loss_note(q->core, client->reads, false);
    client->taken(q->session, op, m);
}

bool sky__scheduler_input(sky__scheduler *q, const sky_datagram *in, sky_message *m) {
    q->opened = in->opened;
    q->from = in->from;
    if (sky_message_decode(in->data, in->bytes, m) != SKY_OK) {
        q->core->stat.malformed++;
        return false;
    }
    uint32_t op = named_operation(q, m);
    sky__answered(q, in->from);
    if (op != SKY__NONE && !is_answer(q, op, m))
        op = SKY__NONE;
    if (op != SKY__NONE) {
        sky__answer_timed(q, &q->operations[op], attempt_of(m->request) == 1, is_current(q, op, m));
        sky__served(q, &q->operations[op], is_current(q, op, m));
    }
    if (m->type == SKY_WIRE_GONE)
        return true;
    if (op == SKY__NONE)
        q->core->stat.stray++;
    else
        take_answer(q, op, m);
    return false;
}

/* No answer came: ask again, at the place that the chunk has by now. */
static void expire_operation(sky__scheduler *q, uint32_t op) {
    sky__operation *o = &q->operations[op];
    const sky__client *client = sky__client_of(q, o);
    q->core->stat.retries++;
    o->misses = 0; /* a silence between two MISSes: the chunk may have passed by meanwhile */
    sky__unanswered(q, o);
    o->unanswered++;
    bool given_up = sky__is_given_up(q, o);
    if (skips_unit(q, o, given_up)) {
        sky__operation_done(q, op);
        return;
    }
    if (given_up) {
        sky__operation_lost(q, op, SKY_E_IO);
        return;
    }
    if (client->carries && o->unanswered == 1)
        sky__loss_note(q->core, client->reads, true);
    if (client->late)
        client->late(q->session, op);
    uint32_t waited = o->copy;
    sky__route_again(q, o);
    if (client->spreads && o->unanswered == 1)
        o->aside = sky__copies_aside(q, o, waited);
    again_add(q, op);
}

/* `earliest` is a lower bound. A walk over all operations makes it exact, about once in the time
 * that an answer is waited for, not at each answer. */
void sky__scheduler_expire(sky__scheduler *q) {
    sky_time earliest = SKY_TIME_NEVER, now = q->core->now;
    if (q->earliest > now)
        return;
    for (uint32_t op = 0; op < q->operation_fresh; op++) {
        const sky__operation *o = &q->operations[op];
        if (o->request == SKY__NONE || o->again || o->parked)
            continue;
        sky_time next = o->deadline <= now ? sky__undecided_until(q, now, o) : o->deadline;
        if (next <= now)
            expire_operation(q, op);
        else if (next < earliest)
            earliest = next;
    }
    q->earliest = earliest;
}
