/* Chunks made again: a stripe that lost a piece asks for as many others as it has data, rebuilds
 * what the get wants, and sends it back to where it should be.
 *
 *     chunk lost ──► repair of its stripe ──pieces──► rebuilt ──► delivered ──► SET again, once
 *                        │ too many lost
 *                        └──► the block is lost
 *
 * Surprise: pieces that were delivered before the loss was known are asked for again. The session
 * keeps nothing it delivers, and a loss is rare. */
#include <assert.h>
#include <string.h>

#include "node/session_state.h"

enum { PIECE_UNKNOWN, PIECE_ASKED, PIECE_HERE, PIECE_LOST };

static uint8_t *piece_at(const sky_session *s, const sky__repair *p, uint32_t place) {
    return p->bytes + (size_t)place * s->config.chunk_bytes;
}

static uint32_t data_chunks_of(const sky_session *s, const sky__repair *p) {
    return sky__data_chunks(s, p->info.payload_bytes);
}

static sky__repair *find(sky_session *s, uint32_t request, uint32_t first) {
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
    const sky__request *r = &s->requests[request];
    uint32_t chunks = sky__data_chunks(s, r->info.payload_bytes);
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++) {
        sky__repair *p = &s->repairs[i];
        if (p->open)
            continue;
        uint8_t *bytes = p->bytes;
        *p = (sky__repair){.request = request,
                           .id = r->id,
                           .facts = r->facts,
                           .info = r->info,
                           .before = r->before,
                           .stripe = sky_stripe_of(&s->stripes, chunks, number),
                           .open = true,
                           .bytes = bytes};
        s->repairs_open++;
        return p;
    }
    return NULL;
}

static bool hopeless(const sky__repair *p) {
    return p->stripe.pieces - p->lost < p->stripe.data;
}

static void mark_lost(sky__repair *p, uint32_t place) {
    if (p->state[place] == PIECE_ASKED)
        p->asked--;
    if (p->state[place] == PIECE_HERE)
        p->have--;
    if (p->state[place] != PIECE_LOST)
        p->lost++;
    p->state[place] = PIECE_LOST;
    p->ask_next = 0;
}

/* Too few pieces are left. Silence is an error, not a loss: the block stays. */
static void give_up(sky_session *s, sky__repair *p) {
    uint32_t request = p->request;
    bool silent = p->silent;
    repair_close(s, p);
    if (request == SKY__NONE)
        return;
    if (silent)
        sky__request_finish(s, request, SKY_E_IO, 0);
    else
        sky__request_lost(s, request, SKY_MISS);
}

/* The repair an operation asks a piece for; NULL when that is over. An answer may be later than all
 * that was needed: the repair's place has another by then, of another stripe. */
static sky__repair *repair_of(sky_session *s, const sky__operation *o) {
    sky__repair *p = &s->repairs[o->repair];
    bool its = p->open && p->request == o->request && o->number >= p->stripe.first &&
               o->number - p->stripe.first < p->stripe.pieces;
    return its ? p : NULL;
}

/* An operation's chunk is lost. True: a repair sees to it, or will when there is room for one; the
 * operation is over or parked. */
bool sky__repair_begin(sky_session *s, uint32_t op, sky_status status) {
    sky__operation *o = &s->operations[op];
    uint32_t request = o->request;
    if (s->stripes.parity == 0)
        return false;
    const sky__request *r = &s->requests[request];
    uint32_t chunks = sky__data_chunks(s, r->info.payload_bytes);
    sky_stripe stripe = sky_stripe_of(&s->stripes, chunks, o->number);
    sky__repair *p = find(s, request, stripe.first);
    if (!p)
        p = repair_open(s, request, o->number);
    if (!p) {
        if (!o->parked)
            s->parked++;
        o->parked = true;
        o->parked_for = status;
        o->deadline = SKY_TIME_NEVER;
        return true;
    }
    if (o->parked)
        s->parked--;
    o->parked = false;
    uint32_t place = o->number - p->stripe.first;
    mark_lost(p, place);
    p->wanted[place] = true;
    p->silent |= status == SKY_E_IO;
    if (hopeless(p)) {
        give_up(s, p);
        return true;
    }
    sky__operation_end(s, op);
    return true;
}

/* When there is room for a repair again. */
void sky__repairs_unpark(sky_session *s) {
    for (uint32_t op = 0; s->parked > 0 && op < s->operation_fresh; op++) {
        if (s->repairs_open == SKY__REPAIRS_MAX)
            return;
        if (s->operations[op].request == SKY__NONE || !s->operations[op].parked)
            continue;
        uint32_t request = s->operations[op].request;
        if (!sky__repair_begin(s, op, s->operations[op].parked_for))
            sky__request_lost(s, request, SKY_MISS);
    }
}

void sky__repairs_abandon(sky_session *s, uint32_t request) {
    for (uint32_t i = 0; s->repairs_open > 0 && i < SKY__REPAIRS_MAX; i++) {
        if (s->repairs[i].open && s->repairs[i].request == request)
            repair_close(s, &s->repairs[i]);
    }
}

/* ---- rebuilding ---- */

static void rebuild(sky_session *s, const sky__repair *p, uint32_t lost, uint8_t *out) {
    const uint8_t *pieces[SKY_STRIPE_PIECES_MAX];
    uint8_t at[SKY_STRIPE_PIECES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->stripe.pieces && count < p->stripe.data; i++) {
        if (p->state[i] != PIECE_HERE)
            continue;
        pieces[count] = piece_at(s, p, i);
        at[count++] = (uint8_t)i;
    }
    uint32_t longest = sky__chunk_length(s, p->info.payload_bytes, p->stripe.first);
    bool solved = sky_stripe_rebuild(p->stripe.data, lost, pieces, at, longest, s->stripe_bytes,
                                     out);
    assert(solved);
    (void)solved;
}

/* Hand a rebuilt chunk to the get. False: the host gave up, and the request is over. */
static bool hand_over(sky_session *s, sky_time now, const sky__repair *p, uint32_t place) {
    uint32_t request = p->request;
    sky__request *r = &s->requests[request];
    uint32_t number = p->stripe.first + place;
    uint32_t data = sky_stripes_data_number(&s->stripes, data_chunks_of(s, p), number);
    uint64_t at = (uint64_t)(data - 1) * s->config.chunk_bytes;
    uint64_t end = at + sky__chunk_length(s, p->info.payload_bytes, number);
    uint64_t from = at > r->range_begin ? at : r->range_begin;
    uint64_t to = end < r->range_end ? end : r->range_end;
    s->stat.rebuilt++;
    r->result.time.ended = now;
    r->result.time.session_ns = now - r->result.time.began;
    r->result.time.light_ns = r->result.time.link_ns = r->result.time.processing_ns = 0;
    if (s->config.deliver(s->config.host, r->ask.context, from - r->range_begin,
                          piece_at(s, p, place) + (from - at), (size_t)(to - from)))
        return true;
    sky__request_finish(s, request, SKY_E_CANCELLED, 0);
    return false;
}

/* All pieces are here: rebuild, deliver, and keep what is rebuilt for healing. */
static void complete(sky_session *s, sky_time now, sky__repair *p) {
    uint32_t request = p->request;
    uint32_t made = 0;
    for (uint32_t i = 0; i < p->stripe.data; i++) {
        if (!p->wanted[i])
            continue;
        rebuild(s, p, i, piece_at(s, p, i));
        made++;
    }
    for (uint32_t i = 0; i < p->stripe.data; i++) {
        if (p->wanted[i] && !hand_over(s, now, p, i))
            return; /* the request is over, and this repair with it */
    }
    p->request = SKY__NONE;
    p->heal = made;
    sky__request *r = &s->requests[request];
    r->units_left -= made;
    if (r->units_left == 0)
        sky__work_done(s, request);
}

void sky__repair_piece(sky_session *s, sky_time now, uint32_t op, const sky_message *m) {
    sky__repair *p = repair_of(s, &s->operations[op]);
    if (!p) {
        sky__operation_end(s, op);
        return;
    }
    uint32_t place = s->operations[op].number - p->stripe.first;
    uint32_t longest = sky__chunk_length(s, p->info.payload_bytes, p->stripe.first);
    memset(piece_at(s, p, place), 0, longest);
    memcpy(piece_at(s, p, place), m->data, m->data_bytes);
    sky__operation_end(s, op);
    p->asked -= p->state[place] == PIECE_ASKED; /* it may have been given up, or come before */
    p->lost -= p->state[place] == PIECE_LOST;
    p->have += p->state[place] != PIECE_HERE;
    p->state[place] = PIECE_HERE;
    if (p->have == p->stripe.data)
        complete(s, now, p);
}

void sky__repair_lost(sky_session *s, uint32_t op, sky_status status) {
    sky__repair *p = repair_of(s, &s->operations[op]);
    if (p) {
        mark_lost(p, s->operations[op].number - p->stripe.first);
        p->silent |= status == SKY_E_IO;
    }
    sky__operation_end(s, op);
    if (p && hopeless(p))
        give_up(s, p);
}

/* ---- output: pieces to ask for, chunks to send back ---- */

static bool to_ask(const sky__repair *p) {
    return p->open && p->request != SKY__NONE && p->have + p->asked < p->stripe.data;
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

static bool ask(sky_session *s, sky_time now, uint32_t repair, sky_datagram *out) {
    sky__repair *p = &s->repairs[repair];
    while (p->state[p->ask_next] != PIECE_UNKNOWN)
        p->ask_next++;
    assert(p->ask_next < p->stripe.pieces); /* else it would be hopeless */
    p->state[p->ask_next] = PIECE_ASKED;
    p->asked++;
    return sky__piece_ask(s, now, repair, p->stripe.first + p->ask_next, out);
}

/* Said once and not listened for: if it is lost, the next get repairs again. */
static void heal(sky_session *s, sky_time now, sky__repair *p, sky_datagram *out) {
    uint32_t place = 0;
    while (!p->wanted[place])
        place++;
    p->wanted[place] = false;
    sky_message m = {.type = SKY_WIRE_SET, .id = p->id, .facts = p->facts};
    m.id.number = p->stripe.first + place;
    m.data = piece_at(s, p, place);
    m.data_bytes = sky__chunk_length(s, p->info.payload_bytes, m.id.number);
    m.facts.checksum = sky_chunk_checksum(&m.id, m.data, m.data_bytes);
    sky__facts_of(s, &m.facts, m.id.number, 0);
    s->stat.healed++;
    sky__send(s, now, &m, sky_session_place(s, &m.facts, sky__turns(s, now)), out);
    if (--p->heal == 0)
        repair_close(s, p);
}

bool sky__repair_output(sky_session *s, sky_time now, sky_datagram *out) {
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++) {
        sky__repair *p = &s->repairs[i];
        if (to_ask(p))
            return ask(s, now, i, out);
        if (p->open && p->request == SKY__NONE) {
            heal(s, now, p, out);
            return true;
        }
    }
    return false;
}

/* ---- parity of a put ---- */

/* The stripe's data are read once more for each parity piece: nothing is kept between messages. */
bool sky__parity_make(sky_session *s, const sky__request *r, uint32_t number, uint8_t *out) {
    uint32_t chunks = sky__data_chunks(s, r->info.payload_bytes);
    sky_stripe stripe = sky_stripe_of(&s->stripes, chunks, number);
    const uint8_t *pieces[SKY_STRIPE_PIECES_MAX];
    uint32_t longest = sky__chunk_length(s, r->info.payload_bytes, stripe.first);
    for (uint32_t i = 0; i < stripe.data; i++) {
        uint8_t *piece = s->stripe_bytes + (size_t)i * s->config.chunk_bytes;
        uint32_t data = sky_stripes_data_number(&s->stripes, chunks, stripe.first + i);
        uint32_t bytes = sky__chunk_length(s, r->info.payload_bytes, stripe.first + i);
        memset(piece + bytes, 0, longest - bytes);
        if (!s->config.fetch(s->config.host, r->ask.context,
                             (uint64_t)(data - 1) * s->config.chunk_bytes, piece, bytes))
            return false;
        pieces[i] = piece;
    }
    sky_stripe_parity(stripe.data, number - stripe.first - stripe.data, pieces, longest, out);
    return true;
}
