/* Copies of a chunk that went with another satellite, made again.
 *
 *     A                                     B, where A's chunks have their other copies
 *     │ COPIES: a digest of what I hold that you should hold too ──► the same? nothing is said
 *     │ ◄── COPIES: it differs ─────────────────────────────────────┤
 *     │ HAS: which chunks of this row do you hold? ────────────────►│    64 in one question
 *     │ ◄── HAS-REPLY ──────────────────────────────────────────────┤
 *     │ MIGRATE, a copy: I keep mine ──────────────────────────────►│    a tenth of the link
 *
 * A round asks each satellite that should hold a copy of anything here, one after another, from a
 * grace after each turn on and then once a period: the turn says where everything should be now. In
 * a sky where nothing is missing a round costs a message for each pair of satellites, whatever they
 * hold. Nothing is repeated: what is lost on the way is found in the next round. The ground, which
 * had to read another copy, says MEND of those it missed. Who knows that a ground removed what it
 * is given answers that, and then the giver drops it too (removed.c).
 *
 *     held ──differs, MEND──► doubted: to ask ──HAS──► held ──not there──► doubted: lacking
 *       ▲                                                                        │
 *       └──────────────────────────────── MIGRATE, a copy ◄──────────────────────┘
 *
 * Invariants: what is sent is bounded by the gaps of the configuration, whatever others say; a copy
 * is taken from one that should hold it too, where it belongs, and never for another chunk's room;
 * a full satellite says nothing about what it lacks. So half a sky that starts again is filled at
 * the pace of a tenth of each link, and a full one does not begin to exchange chunks.
 *
 * Surprise: parity is not made again here. The pieces of a stripe are sealed one by one under the
 * tenant's key, which no satellite has: grounds do that (ground/repair.c). */
#include "base/bug.h"
#include "base/bytes.h"
#include "base/prng.h"
#include "satellite/node_state.h"

#define PEERS_A_ROUND   64 /* that are asked in half a period at least */
#define COPIES_A_SENDER 8  /* taken of each at once, and then in a period: rounds, and answers */

typedef struct sky_node_slot slot;

static bool node_mends(const sky_node *n) {
    return n->config->mend_period_ns > 0 && n->config->frame && n->copied_count > 0 &&
           !SKY_BUG("copies-not-mended", 1);
}

/* ---- where copies are ---- */

static uint32_t copies_of(const sky_node *n, const sky_chunk_id *id, const sky_chunk_facts *facts) {
    const sky_frame *f = n->config->frame;
    uint32_t most = id->number ? f->placement.servers : sky_frame_heads_max(f);
    return facts->copies < most ? facts->copies : most;
}

/* A chunk's facts as they are for another copy of it. */
static sky_chunk_facts facts_of_copy(const sky_node *n, const sky_chunk_id *id,
                                     const sky_chunk_facts *own, uint32_t copies, uint32_t copy) {
    const sky_frame *f = n->config->frame;
    sky_chunk_facts facts = *own;
    if (id->number == 0) {
        facts.centre = facts.first = facts.next = sky_frame_head(f, copy);
        return facts;
    }
    uint32_t after = id->number < facts.chunk_count ? id->number + 1 : 1;
    facts.first = sky_frame_first(f, facts.centre, sky_frame_server(f, id->number, copies, copy));
    facts.next = sky_frame_first(f, facts.centre, sky_frame_server(f, after, copies, copy));
    return facts;
}

static sky_satellite place_of_copy(const sky_node *n, const sky_chunk_id *id,
                                   const sky_chunk_facts *own, uint32_t copies, uint32_t copy) {
    const sky_chunk_facts facts = facts_of_copy(n, id, own, copies, copy);
    return sky__node_place(n, &facts);
}

/* The copy that belongs on a satellite now; `copies`: none. */
static uint32_t copy_on(const sky_node *n, const sky_chunk_id *id, const sky_chunk_facts *facts,
                        uint32_t copies, sky_satellite at) {
    uint32_t copy = 0;
    while (copy < copies && !sky_satellite_equal(place_of_copy(n, id, facts, copies, copy), at))
        copy++;
    return copy;
}

/* Held for good, and elsewhere too. */
static bool slot_watched(const slot *s) {
    return s->used && sky__copied(s) && !s->doomed &&
           (s->move == SKY__HELD || s->move == SKY__DOUBTED);
}

static uint32_t number_of(sky_satellite s) {
    return s.plane << 16 | s.slot;
}

/* Digests of chunks are added up: the order in which a satellite finds them does not matter. */
static uint64_t digest_of(const sky_chunk_id *id) {
    uint64_t x = sky_load_u64(id->key.bytes + SKY_KEY_BYTES - 8) ^ id->version;
    return sky_mix64(x + (id->number + 1) * 0x9e3779b97f4a7c15u);
}

/* Of what is here and should be there too. */
static uint64_t digest_for(const sky_node *n, sky_satellite peer) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->slot_fresh; i++) {
        const slot *s = &n->slots[i];
        if (!slot_watched(s))
            continue;
        uint32_t copies = copies_of(n, &s->id, &s->facts);
        if (copy_on(n, &s->id, &s->facts, copies, peer) < copies)
            sum += digest_of(&s->id);
    }
    return sum;
}

/* The first satellite after `last` that should hold anything that is here, and the digest of that;
 * plane 0: there is none. */
static sky_satellite peer_after(const sky_node *n, uint32_t last, uint64_t *digest) {
    sky_satellite next = {0, 0};
    for (uint32_t i = 0; i < n->slot_fresh; i++) {
        const slot *s = &n->slots[i];
        uint32_t copies = slot_watched(s) ? copies_of(n, &s->id, &s->facts) : 0;
        for (uint32_t copy = 0; copy < copies; copy++) {
            sky_satellite at = place_of_copy(n, &s->id, &s->facts, copies, copy);
            if (sky_satellite_equal(at, n->self) || number_of(at) <= last ||
                (next.plane && number_of(at) > number_of(next)))
                continue;
            *digest = sky_satellite_equal(at, next) ? *digest + digest_of(&s->id)
                                                    : digest_of(&s->id);
            next = at;
        }
    }
    return next;
}

/* ---- rounds ---- */

/* Not all at the same moment. */
static sky_time stagger_ns(const sky_node *n) {
    uint32_t at = n->self.plane * 31 + n->self.slot * 17;
    return n->config->mend_period_ns / 8 / 64 * (at % 64);
}

void sky__copies_turn(sky_node *n) {
    n->mend_peer = 0;
    n->mend_began = n->now > n->turn_began ? n->now : n->turn_began;
    n->mend_next = n->mend_began + n->config->mend_grace_ns + stagger_ns(n);
}

static bool turns_soon(const sky_node *n, sky_time now) {
    return n->turn_ends != SKY_TIME_NEVER && now >= n->turn_ends - n->config->mend_grace_ns / 2;
}

static bool round_output(sky_node *n, sky_time now, sky_datagram *out) {
    uint64_t digest = 0;
    if (turns_soon(n, now)) {
        n->mend_next = n->turn_ends;
        return false;
    }
    sky_satellite to = peer_after(n, n->mend_peer, &digest);
    if (to.plane == 0) {
        n->mend_peer = 0;
        n->mend_began = n->mend_began + n->config->mend_period_ns > now
                            ? n->mend_began + n->config->mend_period_ns
                            : now + n->config->mend_period_ns;
        n->mend_next = n->mend_began + stagger_ns(n);
        return false;
    }
    n->mend_peer = number_of(to);
    n->mend_next = now + n->config->mend_period_ns / (2 * PEERS_A_ROUND);
    n->stat.copies_asked++;
    const sky_message m = {.type = SKY_WIRE_COPIES, .digest = digest};
    sky__node_send(n, &m, to, out);
    return true;
}

/* ---- doubts ---- */

/* No bits: the chunk says that it has copies where the sky has room for one alone. */
static void doubt_slot(sky_node *n, slot *s, uint32_t to_ask, uint32_t lacking) {
    if ((to_ask | lacking) == 0)
        return;
    if (s->move != SKY__DOUBTED)
        sky__node_move_to(n, s, SKY__DOUBTED);
    s->to_ask |= (uint16_t)to_ask;
    s->lacking |= (uint16_t)lacking;
}

static void doubt_all(sky_node *n, sky_satellite peer) {
    for (uint32_t i = 0; i < n->slot_fresh; i++) {
        slot *s = &n->slots[i];
        if (!slot_watched(s))
            continue;
        uint32_t copies = copies_of(n, &s->id, &s->facts);
        uint32_t copy = copy_on(n, &s->id, &s->facts, copies, peer);
        if (copy < copies)
            doubt_slot(n, s, 1u << copy, 0);
    }
}

static bool is_full(const sky_node *n) {
    return !n->slot_free && n->slot_fresh == n->slot_count;
}

/* Who sent COPIES; one who never did takes the place of the one that was quiet longest. */
static sky_node_sender *sender_of(sky_node *n, sky_time now, sky_satellite from) {
    sky_node_sender *quiet = &n->mend_senders[0];
    for (uint32_t i = 0; i < SKY_NODE_SENDERS_MAX; i++) {
        sky_node_sender *s = &n->mend_senders[i];
        if (s->number == number_of(from))
            return s;
        if (s->number == 0 || (quiet->number && s->credit < quiet->credit))
            quiet = s;
    }
    *quiet = (sky_node_sender){number_of(from), now - SKY_SECONDS(3600)};
    return quiet;
}

/* Each message costs a look at all that is held. No sender uses up what others may say, and all
 * together, whatever names they give themselves, are bounded too. */
static bool may_say_copies(sky_node *n, sky_time now, sky_satellite from) {
    const sky_time period = n->config->mend_period_ns;
    const uint32_t all = COPIES_A_SENDER * SKY_NODE_SENDERS_MAX;
    return sky__credit_take(&sender_of(n, now, from)->credit, now, period / COPIES_A_SENDER,
                            COPIES_A_SENDER) &&
           sky__credit_take(&n->mend_credit, now, period / all, all);
}

void sky__copies_take(sky_node *n, sky_time now, const sky_datagram *in, const sky_message *m) {
    if (in->from.plane == 0) {
        n->stat.malformed++;
        return;
    }
    if (n->config->mend_period_ns == 0 || !n->config->frame || !may_say_copies(n, now, in->from))
        return;
    if (m->differs) {
        doubt_all(n, in->from);
        return;
    }
    if (n->ack_count == SKY_NODE_ACKS_MAX || is_full(n) || digest_for(n, in->from) == m->digest)
        return;
    uint32_t i = n->ack_count++;
    n->acks[i].to = in->from;
    n->acks[i].request = m->request;
    n->acks[i].id = m->id;
    n->acks[i].type = SKY_WIRE_COPIES;
}

/* The ground missed other copies of one that is here. */
void sky__copies_mend(sky_node *n, slot *s) {
    if (!node_mends(n) || !slot_watched(s))
        return;
    uint32_t copies = copies_of(n, &s->id, &s->facts);
    uint32_t own = copy_on(n, &s->id, &s->facts, copies, n->self);
    if (own < copies)
        doubt_slot(n, s, ((1u << copies) - 1) & ~(1u << own), 0);
}

/* ---- questions and copies ---- */

static uint32_t lowest_bit(uint32_t bits) {
    uint32_t bit = 0;
    while (!(bits >> bit & 1))
        bit++;
    return bit;
}

static void settle_slot(sky_node *n, slot *s) {
    if (s->to_ask == 0 && s->lacking == 0)
        sky__node_move_to(n, s, SKY__HELD);
}

/* One question for all chunks of a row, which have their copies in the same place. */
static void ask_row(sky_node *n, slot *s, sky_datagram *out) {
    const uint32_t stride = n->config->frame->placement.servers, copy = lowest_bit(s->to_ask);
    uint32_t copies = copies_of(n, &s->id, &s->facts);
    sky_message m = {.type = SKY_WIRE_HAS, .id = s->id, .stride = stride, .last = s->id.number};
    m.request = s->request = (uint64_t)++n->sweep_request << 32 | (uint64_t)(s - n->slots);
    sky_satellite to = place_of_copy(n, &s->id, &s->facts, copies, copy);
    for (slot *next, *t = sky__node_block_first(n, &m.id); t; t = next) {
        next = sky__node_block_next(n, t);
        uint32_t ahead = t->id.number - m.id.number;
        if (t->move != SKY__DOUBTED || !(t->to_ask >> copy & 1) || t->id.number < m.id.number ||
            ahead % stride || ahead / stride >= SKY_ROW_MAX)
            continue;
        m.last = t->id.number > m.last ? t->id.number : m.last;
        t->to_ask &= (uint16_t) ~(1u << copy);
        settle_slot(n, t);
    }
    n->stat.copies_asked++;
    n->mend_copy_next += n->config->migrate_gap_ns;
    sky__node_send(n, &m, to, out);
}

void sky__copies_answer(sky_node *n, const sky_datagram *in, const sky_message *m) {
    const slot *first = &n->slots[(uint32_t)m->request]; /* looked at by who calls */
    const uint32_t stride = n->config->frame ? n->config->frame->placement.servers : 1;
    uint32_t copies = node_mends(n) ? copies_of(n, &first->id, &first->facts) : 0;
    uint32_t copy = copies ? copy_on(n, &first->id, &first->facts, copies, in->from) : 0;
    if (copy >= copies || !slot_watched(first) || first->request != m->request ||
        !sky_chunk_id_equal(&first->id, &m->id)) {
        n->stat.malformed++;
        return;
    }
    n->slots[(uint32_t)m->request].request = 0;
    sky_chunk_id id = m->id;
    for (uint32_t i = 0; i < SKY_ROW_MAX; i++) {
        id.number = m->id.number + i * stride;
        if (id.number > first->facts.chunk_count)
            break;
        slot *s = m->present >> i & 1 ? NULL : sky__node_find(n, &id);
        if (s && slot_watched(s) && s->facts.set_ms == first->facts.set_ms)
            doubt_slot(n, s, 0, 1u << copy);
        if (m->id.number == 0)
            break;
    }
}

static void give_copy(sky_node *n, slot *s, sky_datagram *out) {
    uint32_t copy = lowest_bit(s->lacking), copies = copies_of(n, &s->id, &s->facts);
    s->request = ++n->migrate_request;
    const sky_message m = {.type = SKY_WIRE_MIGRATE,
                           .request = s->request,
                           .id = s->id,
                           .facts = facts_of_copy(n, &s->id, &s->facts, copies, copy),
                           .copy = true,
                           .data = sky__node_data(n, s),
                           .data_bytes = s->data_bytes};
    n->stat.mended++;
    n->stat.mended_bytes += s->data_bytes;
    n->mend_copy_next += n->config->mend_copy_gap_ns;
    s->lacking &= (uint16_t) ~(1u << copy);
    settle_slot(n, s);
    sky__node_send(n, &m, sky__node_place(n, &m.facts), out);
}

bool sky__copies_refused(sky_node *n, const sky_datagram *in, const sky_message *m, slot *s) {
    uint32_t copies = slot_watched(s) && node_mends(n) ? copies_of(n, &s->id, &s->facts) : 0;
    if (s->request != m->request || copy_on(n, &s->id, &s->facts, copies, in->from) == copies)
        return false;
    s->request = 0;
    if (s->facts.pinned)
        return true;
    sky__removed_note(n, &s->id, false);
    n->stat.swept++;
    sky__node_remove(n, s);
    return true;
}

bool sky__copies_may_give(const sky_node *n, sky_satellite giver, const sky_message *m) {
    if (n->config->mend_period_ns == 0 || !n->config->frame || m->facts.copies < 2)
        return false;
    uint32_t copies = copies_of(n, &m->id, &m->facts);
    return sky_satellite_equal(sky__node_place(n, &m->facts), n->self) &&
           copy_on(n, &m->id, &m->facts, copies, n->self) < copies &&
           copy_on(n, &m->id, &m->facts, copies, giver) < copies;
}

bool sky__copies_output(sky_node *n, sky_time now, sky_datagram *out) {
    if (!node_mends(n))
        return false;
    if (n->doubted.count > 0 && n->mend_copy_next <= now) {
        slot *s = sky__slot_at(n, n->doubted.first);
        n->mend_copy_next = now;
        if (s->lacking)
            give_copy(n, s, out);
        else
            ask_row(n, s, out);
        return true;
    }
    return n->mend_next <= now && round_output(n, now, out);
}

sky_time sky__copies_wake(const sky_node *n) {
    if (!node_mends(n))
        return SKY_TIME_NEVER;
    if (n->doubted.count > 0 && n->mend_copy_next < n->mend_next)
        return n->mend_copy_next;
    return n->mend_next;
}
