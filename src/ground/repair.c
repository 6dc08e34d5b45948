/* Chunks made again: a stripe that lost a piece asks for as many others as it has data, rebuilds
 * what the get wants, and sends it back to where it should be.
 *
 *     chunk lost ──► repair of its stripe ──pieces──► rebuilt ──► delivered ──► SET again
 *                        │ too many lost
 *                        └──► the block is lost
 *
 * Where links lose, each stripe that a get reads whole is guarded: it keeps what is delivered, asks
 * for some parity at once, and is rebuilt as soon as enough is there, whichever pieces those are.
 * How much parity follows from the loss seen lately. So a loss costs bytes and no round trip.
 * Without parity it costs one: what is asked for again is asked for several times (scheduler.c).
 *
 *     piece  UNKNOWN ──► ASKED ──► HERE
 *                          └► LATE ─┴─► LOST (it says so), SILENT (after all attempts)
 *
 * Surprise: without a guard, pieces that were delivered before the loss was known are asked for
 * again. The session keeps nothing then, and a loss is rare. */
#include <assert.h>
#include <string.h>

#include "ground/session_state.h"

enum { PIECE_UNKNOWN, PIECE_ASKED, PIECE_LATE, PIECE_HERE, PIECE_LOST, PIECE_SILENT };

#define GUARDS_MAX        (SKY__REPAIRS_MAX * 3 / 4) /* the rest is for what is lost */
#define LOSS_SAFETY       2    /* what is rebuilt before it is overdue is not seen to be lost */
#define ROUND_MORE        0.01 /* of gets may need another round, and of pieces sent back, … */
#define RESTORES_MORE_MAX 3    /* … as far as so many more of each can do */
#define SILENCES_WAIT     2    /* before a stripe that keeps nothing is read again for one piece */

/* ---- how much is lost ---- */

/* Of data + m pieces, each lost with this probability, more than m are: how likely is that? */
static double more_lost(uint32_t data, uint32_t m, double loss) {
    double term = 1; /* of the binomial distribution: first, that none is lost */
    double sum = 0;
    for (uint32_t i = 0; i < data + m; i++)
        term *= 1 - loss;
    for (uint32_t i = 0; i <= m; i++) {
        sum += term;
        term *= (data + m - i) * loss / ((i + 1) * (1 - loss));
    }
    return 1 - sum;
}

/* Parity to ask for besides a stripe's data. */
static uint32_t spare_of(const sky_session *s, const sky_stripe *stripe, uint32_t data_chunks) {
    double loss = LOSS_SAFETY * s->core.loss.gets < 0.5 ? LOSS_SAFETY * s->core.loss.gets : 0.5;
    uint32_t stripes = data_chunks / s->core.stripes.data + 1;
    double most = ROUND_MORE / stripes;
    uint32_t m = 0;
    while (m < s->core.stripes.parity && more_lost(stripe->data, m, loss) > most)
        m++;
    return m;
}

/* ---- repairs ---- */

static uint8_t *piece_at(const sky_session *s, const sky__repair *p, uint32_t place) {
    return p->bytes + (size_t)place * s->core.config.chunk_bytes;
}

static uint32_t data_chunks_of(const sky_session *s, const sky__repair *p) {
    return sky__data_chunks(&s->core, p->of.info.payload_bytes);
}

static sky__repair *find_repair(sky_session *s, uint32_t request, uint32_t first) {
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++) {
        sky__repair *p = &s->repairs[i];
        if (p->open && p->request == request && p->stripe.first == first)
            return p;
    }
    return NULL;
}

static void repair_close(sky_session *s, sky__repair *p) {
    p->open = false;
    p->request = SKY__NONE;
    s->repairs_open--;
}

static sky__repair *repair_open(sky_session *s, uint32_t request, uint32_t number) {
    const sky__request *r = &s->requests.rows[request];
    uint32_t chunks = sky__data_chunks(&s->core, r->of.info.payload_bytes);
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++) {
        sky__repair *p = &s->repairs[i];
        if (p->open)
            continue;
        uint8_t *bytes = p->bytes;
        *p = (sky__repair){.request = request,
                           .of = r->of,
                           .stripe = sky_stripe_of(&s->core.stripes, chunks, number),
                           .open = true,
                           .bytes = bytes};
        memset(p->ops, 0xff, sizeof p->ops);
        p->unknown = p->stripe.pieces;
        p->spare = spare_of(s, &p->stripe, chunks);
        s->repairs_open++;
        return p;
    }
    return NULL;
}

static bool repair_hopeless(const sky__repair *p) {
    return p->stripe.pieces - p->lost < p->stripe.data;
}

/* Counts follow the states. */
static void mark_piece(sky__repair *p, uint32_t place, uint8_t state) {
    const uint8_t was = p->state[place];
    p->unknown -= was == PIECE_UNKNOWN;
    p->asked += (uint32_t)(state == PIECE_ASKED) - (uint32_t)(was == PIECE_ASKED);
    p->have += (uint32_t)(state == PIECE_HERE) - (uint32_t)(was == PIECE_HERE);
    p->lost += (uint32_t)(state >= PIECE_LOST) - (uint32_t)(was >= PIECE_LOST);
    p->state[place] = state;
}

static void mark_lost(sky__repair *p, uint32_t place, sky_status status) {
    mark_piece(p, place, status == SKY_E_IO ? PIECE_SILENT : PIECE_LOST);
    p->ops[place] = SKY__NONE;
    p->silent |= status == SKY_E_IO;
}

/* Too few pieces are left. Silence is an error, not a loss: the block stays. */
static void give_up(sky_session *s, sky__repair *p) {
    uint32_t request = p->request;
    bool silent = p->silent ||
                  (request != SKY__NONE && s->requests.rows[request].work == WORK_MEND);
    repair_close(s, p);
    if (request == SKY__NONE)
        return;
    if (silent)
        sky__request_finish(s, request, SKY_E_IO, 0);
    else
        sky__request_lost(s, request);
}

/* The repair an operation asks a piece for; NULL when that is over. An answer may be later than all
 * that was needed: the repair's place has another by then, of another stripe. */
static sky__repair *repair_of(sky_session *s, const sky__operation *o) {
    if (o->repair == SKY__NONE)
        return NULL;
    sky__repair *p = &s->repairs[o->repair];
    bool its = p->open && p->request == o->request && o->id.number >= p->stripe.first &&
               o->id.number - p->stripe.first < p->stripe.pieces;
    return its ? p : NULL;
}

bool sky__repair_begin(sky_session *s, uint32_t op, sky_status status) {
    sky__operation *o = &s->scheduler.operations[op];
    uint32_t request = o->request;
    if (s->core.stripes.parity == 0)
        return false;
    const sky__request *r = &s->requests.rows[request];
    uint32_t chunks = sky__data_chunks(&s->core, r->of.info.payload_bytes);
    sky_stripe stripe = sky_stripe_of(&s->core.stripes, chunks, o->id.number);
    sky__repair *p = find_repair(s, request, stripe.first);
    if (!p)
        p = repair_open(s, request, o->id.number);
    if (!p) {
        if (!o->parked)
            s->scheduler.parked++;
        o->parked = true;
        o->parked_for = status;
        o->deadline = SKY_TIME_NEVER;
        return true;
    }
    if (o->parked)
        s->scheduler.parked--;
    o->parked = false;
    uint32_t place = o->id.number - p->stripe.first;
    if (p->state[place] != PIECE_HERE) /* else it was asked for here too, and came */
        mark_lost(p, place, status);
    p->wanted[place] = true;
    if (repair_hopeless(p)) {
        give_up(s, p);
        return true;
    }
    sky__operation_end(&s->scheduler, op);
    return true;
}

/* The get takes over a piece: it asks for it itself, and wants it. */
static void take_over(sky_session *s, sky__repair *p, uint32_t op, uint8_t state) {
    uint32_t place = s->scheduler.operations[op].id.number - p->stripe.first;
    s->scheduler.operations[op].repair = (uint32_t)(p - s->repairs);
    p->ops[place] = op;
    p->wanted[place] = true;
    mark_piece(p, place, state);
}

/* A stripe that begins with this unit, and of which the get reads all. */
static sky__repair *guard_open(sky_session *s, uint32_t op, const sky_stripe *stripe,
                               uint32_t data_chunks) {
    const sky__operation *o = &s->scheduler.operations[op];
    if (o->id.number != stripe->first || s->repairs_open >= GUARDS_MAX ||
        o->unit + stripe->data - 1 > s->requests.rows[o->request].unit_last ||
        spare_of(s, stripe, data_chunks) == 0)
        return NULL;
    sky__repair *p = repair_open(s, o->request, o->id.number);
    p->guarded = true;
    for (uint32_t i = 0; i < stripe->data; i++) {
        p->wanted[i] = true;
        mark_piece(p, i, PIECE_ASKED);
    }
    return p;
}

void sky__repair_guard(sky_session *s, uint32_t op) {
    if (s->core.stripes.parity == 0)
        return;
    const sky__operation *o = &s->scheduler.operations[op];
    uint32_t chunks = sky__data_chunks(&s->core,
                                       s->requests.rows[o->request].of.info.payload_bytes);
    sky_stripe stripe = sky_stripe_of(&s->core.stripes, chunks, o->id.number);
    sky__repair *p = s->repairs_open > 0 ? find_repair(s, o->request, stripe.first) : NULL;
    if (!p)
        p = guard_open(s, op, &stripe, chunks);
    if (!p || !p->guarded)
        return;
    take_over(s, p, op, PIECE_ASKED);
    p->eligible = o->id.number - stripe.first + 1 == stripe.data;
}

void sky__repair_late(sky_session *s, uint32_t op) {
    const sky__operation *o = &s->scheduler.operations[op];
    if (s->core.stripes.parity == 0)
        return;
    sky__repair *p = repair_of(s, o);
    bool given_up = o->unanswered >= SILENCES_WAIT || sky__is_silent(&s->scheduler, o->to);
    if (!p && o->work == WORK_GET && given_up) {
        uint32_t chunks = sky__data_chunks(&s->core,
                                           s->requests.rows[o->request].of.info.payload_bytes);
        sky_stripe stripe = sky_stripe_of(&s->core.stripes, chunks, o->id.number);
        p = find_repair(s, o->request, stripe.first);
        if (!p)
            p = repair_open(s, o->request, o->id.number);
        if (p && p->state[o->id.number - stripe.first] == PIECE_UNKNOWN)
            take_over(s, p, op, PIECE_LATE);
    } else if (p && p->state[o->id.number - p->stripe.first] == PIECE_ASKED) {
        mark_piece(p, o->id.number - p->stripe.first, PIECE_LATE);
    }
}

void sky__repairs_unpark(sky_session *s) {
    for (uint32_t op = 0; s->scheduler.parked > 0 && op < s->scheduler.operation_fresh; op++) {
        if (s->repairs_open == SKY__REPAIRS_MAX)
            return;
        if (s->scheduler.operations[op].request == SKY__NONE || !s->scheduler.operations[op].parked)
            continue;
        uint32_t request = s->scheduler.operations[op].request;
        if (!sky__repair_begin(s, op, s->scheduler.operations[op].parked_for))
            sky__request_lost(s, request);
    }
}

void sky__repairs_abandon(sky_session *s, uint32_t request) {
    for (uint32_t i = 0; s->repairs_open > 0 && i < SKY__REPAIRS_MAX; i++) {
        if (s->repairs[i].open && s->repairs[i].request == request)
            repair_close(s, &s->repairs[i]);
    }
}

/* ---- rebuilding ---- */

static void rebuild_piece(sky_session *s, const sky__repair *p, uint32_t lost, uint8_t *out) {
    const uint8_t *pieces[SKY_STRIPE_PIECES_MAX];
    uint8_t at[SKY_STRIPE_PIECES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->stripe.pieces && count < p->stripe.data; i++) {
        if (p->state[i] != PIECE_HERE)
            continue;
        pieces[count] = piece_at(s, p, i);
        at[count++] = (uint8_t)i;
    }
    uint32_t longest = sky__chunk_length(&s->core, p->of.info.payload_bytes, p->stripe.first);
    bool solved = sky_stripe_rebuild(p->stripe.data, lost, pieces, at, longest, s->stripe_bytes,
                                     out);
    assert(solved);
    (void)solved;
}

/* Hand a rebuilt chunk to the get. False: the host gave up, and the request is over. */
static bool hand_over(sky_session *s, const sky__repair *p, uint32_t place) {
    uint32_t request = p->request;
    sky__request *r = &s->requests.rows[request];
    uint32_t number = p->stripe.first + place;
    uint32_t data = sky_stripes_data_number(&s->core.stripes, data_chunks_of(s, p), number);
    uint64_t at = (uint64_t)(data - 1) * s->core.config.chunk_bytes;
    uint64_t end = at + sky__chunk_length(&s->core, p->of.info.payload_bytes, number);
    uint64_t from = at > r->get.begin ? at : r->get.begin;
    uint64_t to = end < r->get.end ? end : r->get.end;
    s->core.stat.rebuilt++;
    r->result.time.ended = s->core.now;
    r->result.time.session_ns = s->core.now - r->result.time.began;
    r->result.time.light_ns = r->result.time.link_ns = r->result.time.processing_ns = 0;
    if (s->core.config.deliver(s->core.config.host, r->ask.context, from - r->get.begin,
                               piece_at(s, p, place) + (from - at), (size_t)(to - from)))
        return true;
    sky__request_finish(s, request, SKY_E_CANCELLED, 0);
    return false;
}

/* What is still asked for is not needed. */
static void end_operations(sky_session *s, sky__repair *p) {
    for (uint32_t i = 0; i < p->stripe.pieces; i++) {
        uint32_t op = p->ops[i];
        if (op == SKY__NONE)
            continue;
        if (s->scheduler.operations[op].unanswered == 0 &&
            sky__overdue(&s->scheduler, s->core.now + SKY__SLACK_NS, &s->scheduler.operations[op]))
            sky__loss_note(&s->core, true, true);
        sky__operation_end(&s->scheduler, op);
        p->ops[i] = SKY__NONE;
    }
}

static bool lost_parity(const sky__repair *p) {
    bool lost = false;
    for (uint32_t i = p->stripe.data; i < p->stripe.pieces; i++)
        lost |= p->state[i] == PIECE_LOST;
    return lost;
}

/* From all of the data, which is there by now. */
static void make_parity(const sky_session *s, const sky__repair *p) {
    const uint8_t *pieces[SKY_STRIPE_PIECES_MAX];
    uint32_t longest = sky__chunk_length(&s->core, p->of.info.payload_bytes, p->stripe.first);
    for (uint32_t i = 0; i < p->stripe.data; i++)
        pieces[i] = piece_at(s, p, i);
    for (uint32_t i = p->stripe.data; i < p->stripe.pieces; i++) {
        if (p->state[i] == PIECE_LOST)
            sky_stripe_parity(p->stripe.data, i - p->stripe.data, pieces, longest,
                              piece_at(s, p, i));
    }
}

/* What is not here of the data, as far as it is of use. */
static void make_data(sky_session *s, const sky__repair *p, bool mends) {
    bool parity = lost_parity(p), all = parity || mends;
    for (uint32_t i = 0; i < p->stripe.data; i++) {
        if ((all || p->wanted[i]) && p->state[i] != PIECE_HERE)
            rebuild_piece(s, p, i, piece_at(s, p, i));
    }
    if (parity)
        make_parity(s, p);
}

static uint32_t restores_more(const sky_session *s) {
    return sky__sends_more(&s->core, ROUND_MORE, RESTORES_MORE_MAX);
}

/* Enough pieces are here: rebuild, deliver, and keep what is to be put back. */
static void complete_repair(sky_session *s, sky__repair *p) {
    uint32_t request = p->request;
    bool mends = s->requests.rows[request].work == WORK_MEND;
    uint32_t made = mends;
    end_operations(s, p);
    make_data(s, p, mends);
    for (uint32_t i = 0; i < p->stripe.data && !mends; i++) {
        made += p->wanted[i];
        s->requests.rows[request].get.unheard |= p->wanted[i] && p->state[i] != PIECE_LOST;
    }
    for (uint32_t i = 0; i < p->stripe.data && !mends; i++) {
        if (p->wanted[i] && !hand_over(s, p, i))
            return; /* the request is over, and this repair with it */
    }
    for (uint32_t i = 0; i < p->stripe.pieces; i++) {
        p->wanted[i] = p->state[i] == PIECE_LOST && /* a silent one may still have its own */
                       (p->wanted[i] || mends || i >= p->stripe.data);
        p->to_restore += p->wanted[i];
    }
    p->request = SKY__NONE;
    p->sends_more = restores_more(s);
    if (p->to_restore == 0)
        repair_close(s, p);
    sky__units_over(&s->scheduler, request, made);
}

void sky__repair_columns(sky_session *s, uint32_t request, uint32_t first,
                         const sky__columns *columns) {
    sky__repair *p = repair_open(s, request, first);
    uint32_t data = p->stripe.data, parity = p->stripe.pieces - data;
    for (uint32_t i = 0; i < p->stripe.pieces; i++) {
        uint32_t column = i < data ? parity + i : i - data;
        if (!(columns->bits[column / 64] >> column % 64 & 1))
            continue;
        p->wanted[i] = true;
        mark_piece(p, i, PIECE_LOST);
    }
    if (repair_hopeless(p))
        give_up(s, p);
}

void sky__repair_check(sky_session *s, sky__repair *p, uint32_t request) {
    bool runs = s->requests.rows[request].state == REQUEST_RUNNING;
    if (runs && p->open && p->request == request && p->have >= p->stripe.data)
        complete_repair(s, p);
}

static void keep_piece(const sky_session *s, sky__repair *p, uint32_t place, const sky_message *m) {
    uint32_t longest = sky__chunk_length(&s->core, p->of.info.payload_bytes, p->stripe.first);
    memset(piece_at(s, p, place) + m->data_bytes, 0, longest - m->data_bytes);
    memcpy(piece_at(s, p, place), m->data, m->data_bytes);
    mark_piece(p, place, PIECE_HERE); /* it may have been given up, or come before */
    p->ops[place] = SKY__NONE;
}

sky__repair *sky__repair_keep(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    sky__repair *p = repair_of(s, o);
    if (!p)
        return NULL;
    keep_piece(s, p, o->id.number - p->stripe.first, m);
    p->wanted[o->id.number - p->stripe.first] = false;
    return p;
}

static void repair_piece(sky_session *s, uint32_t op, const sky_message *m) {
    sky__repair *p = repair_of(s, &s->scheduler.operations[op]);
    if (!p) {
        sky__operation_end(&s->scheduler, op);
        return;
    }
    uint32_t request = p->request;
    keep_piece(s, p, s->scheduler.operations[op].id.number - p->stripe.first, m);
    sky__operation_end(&s->scheduler, op);
    sky__repair_check(s, p, request);
}

static void repair_lost(sky_session *s, uint32_t op, sky_status status) {
    sky__repair *p = repair_of(s, &s->scheduler.operations[op]);
    if (p) {
        mark_lost(p, s->scheduler.operations[op].id.number - p->stripe.first, status);
    }
    sky__operation_end(&s->scheduler, op);
    if (p && repair_hopeless(p))
        give_up(s, p);
}

/* ---- output: pieces to ask for, chunks to send back ---- */

static bool to_ask(const sky__repair *p) {
    return p->open && p->request != SKY__NONE && (!p->guarded || p->eligible) && p->unknown > 0 &&
           p->have + p->asked < p->stripe.data + p->spare;
}

bool sky__repair_has_output(const sky_session *s) {
    if (s->repairs_open == 0)
        return false;
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++) {
        const sky__repair *p = &s->repairs[i];
        if ((p->open && p->request == SKY__NONE) || to_ask(p))
            return true;
    }
    return false;
}

static bool is_with_silent(const sky_session *s, const sky__repair *p, uint32_t place) {
    sky_chunk_facts facts = p->of.facts;
    sky__facts_of(&s->core, &facts, p->stripe.first + place, 0);
    return sky__is_silent(&s->scheduler, sky__place_now(&s->core, &facts));
}

/* The next piece to ask for: those that the silent have come last. */
static uint32_t next_piece(const sky_session *s, const sky__repair *p) {
    uint32_t first = p->stripe.pieces;
    for (uint32_t place = 0; place < p->stripe.pieces; place++) {
        if (p->state[place] != PIECE_UNKNOWN)
            continue;
        if (!is_with_silent(s, p, place))
            return place;
        first = place < first ? place : first;
    }
    return first;
}

static bool ask_piece(sky_session *s, uint32_t repair, sky_datagram *out) {
    sky__repair *p = &s->repairs[repair];
    uint32_t place = next_piece(s, p);
    mark_piece(p, place, PIECE_ASKED);
    return sky__send_piece(&s->scheduler, p->request, p->stripe.first + place, repair,
                           &p->ops[place], out);
}

/* Not acknowledged: where links lose it is sent several times, and if all are lost the next get or
 * patrol repairs again. */
static void restore_piece(sky_session *s, sky__repair *p, sky_datagram *out) {
    uint32_t place = 0;
    while (!p->wanted[place])
        place++;
    sky_message m = {.type = SKY_WIRE_SET, .id = p->of.id, .facts = p->of.facts};
    m.id.number = p->stripe.first + place;
    m.data = piece_at(s, p, place);
    m.data_bytes = sky__chunk_length(&s->core, p->of.info.payload_bytes, m.id.number);
    m.facts.checksum = sky_chunk_checksum(&m.id, m.data, m.data_bytes);
    sky__facts_of(&s->core, &m.facts, m.id.number, 0);
    s->bulk.sent = true;
    sky__send(&s->scheduler, &m, sky__place_now(&s->core, &m.facts), out);
    if (p->sends_more-- > 0)
        return;
    s->core.stat.repaired_chunks++;
    p->wanted[place] = false;
    p->sends_more = restores_more(s);
    if (--p->to_restore == 0)
        repair_close(s, p);
}

bool sky__repair_output(sky_session *s, sky_datagram *out) {
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++) {
        sky__repair *p = &s->repairs[i];
        if (to_ask(p))
            return ask_piece(s, i, out);
        if (p->open && p->request == SKY__NONE) {
            restore_piece(s, p, out);
            return true;
        }
    }
    return false;
}

const sky__client sky__piece_client = {.asks = SKY_WIRE_GET,
                                       .answers = SKY_WIRE_CHUNK,
                                       .reads = true,
                                       .carries = true,
                                       .moved = true,
                                       .taken = repair_piece,
                                       .late = sky__repair_late,
                                       .lost = repair_lost};
