/* A block that lost a chunk is of no use, and its other chunks are in the way. How satellites find
 * out:
 *
 *   gossip  who gives up a chunk tells its four neighbours, they drop the block's other chunks and
 *           pass it on, a bounded number of hops, each block once
 *   sweep   a chunk's holder asks now and then whether the chunk after it is still where it should
 *           be; chunks form a ring, so each is asked for by somebody. Absent from all its places
 *           within a turn: it drops what it has of the block, and its own predecessor will find out
 *           in turn
 *
 *        evicted here                            hops 2       hops 1      hops 0
 *     ┌──────────────┐   PURGE to N, E, S, W    ┌────────┐   ┌────────┐   ┌────────┐
 *     │ gossip ring  │ ───────────────────────► │ drop,  │──►│ drop,  │──►│ drop   │
 *     └──────────────┘   many blocks in one,    │ pass on│   │ pass on│   └────────┘
 *                        at most every GAP_NS   └────────┘   └────────┘
 *
 * The first message after a silence leaves at once; those of the next GAP_NS leave together. So
 * what a satellite says of a full sky is bounded by time, not by what is evicted.
 *
 * Invariants: the ring keeps the last SKY_NODE_GOSSIP_MAX messages, sent on or not; what is in it
 * is taken again only when it may now go farther than before, and never goes back to its sender.
 * Nothing is sent that was not first put into the ring; a neighbour gets at most one PURGE in
 * GAP_NS; and a satellite takes no more messages than its credit allows, which grows by one in
 * GOSSIP_NS: a sender that invents them without end is counted, and nothing else.
 *
 * Surprises: a message is believed, for the worst it can do is a miss; pinned chunks and those of
 * blocks that outlive a loss stay nevertheless. */
#include <assert.h>

#include "satellite/node_state.h"

#define GOSSIP_NS  SKY_MS(1)
#define GAP_NS     SKY_MS(10)
#define WAYS       4u
#define WAY_GROUND 16u

typedef struct sky_node_slot slot;
typedef struct sky_gossip_message gossip_message;

/* ---- gossip messages ---- */

static sky_satellite neighbour_at(const sky_node *n, uint32_t way) {
    const sky_constellation *c = &n->config->constellation;
    sky_satellite s = n->self;
    switch (way) {
    case 0:
        s.plane = s.plane > 1 ? s.plane - 1 : c->planes;
        break;
    case 1:
        s.slot = s.slot < c->slots ? s.slot + 1 : 1;
        break;
    case 2:
        s.plane = s.plane < c->planes ? s.plane + 1 : 1;
        break;
    default:
        s.slot = s.slot > 1 ? s.slot - 1 : c->slots;
    }
    return s;
}

/* The neighbours to tell: not the one who told, and on a small torus nobody twice. */
static uint8_t ways_from(const sky_node *n, sky_satellite from) {
    uint8_t ways = 0;
    for (uint32_t way = 0; way < WAYS; way++) {
        sky_satellite to = neighbour_at(n, way);
        bool again = sky_satellite_equal(to, from) || sky_satellite_equal(to, n->self);
        for (uint32_t before = 0; before < way; before++)
            again |= sky_satellite_equal(to, neighbour_at(n, before));
        ways |= (uint8_t)(again ? 0 : 1u << way);
    }
    return ways;
}

static bool is_neighbour(const sky_node *n, sky_satellite s) {
    for (uint32_t way = 0; way < WAYS; way++) {
        if (sky_satellite_equal(s, neighbour_at(n, way)))
            return true;
    }
    return false;
}

static gossip_message *find_known(const sky_node *n, const sky_chunk_id *id) {
    for (uint32_t i = 0; i < n->gossip_count; i++) {
        if (sky_chunk_same_block(&n->gossip_ring[i].id, id))
            return &n->gossip_ring[i];
    }
    return NULL;
}

bool sky__gossip_known(const sky_node *n, const sky_chunk_id *id) {
    return find_known(n, id) != NULL;
}

/* Whom it is still to be told; the counts follow. */
static void tell_ways(sky_node *n, gossip_message *r, uint8_t ways) {
    n->gone_open -= (r->ways & WAY_GROUND) != 0;
    n->gossip_open -= (r->ways & (WAY_GROUND - 1)) != 0;
    r->ways = ways;
    n->gone_open += (ways & WAY_GROUND) != 0;
    n->gossip_open += (ways & (WAY_GROUND - 1)) != 0;
}

/* Over the oldest; one that is not yet told everywhere is given up. */
static void note_message(sky_node *n, const gossip_message *made, uint8_t ways) {
    gossip_message *r = &n->gossip_ring[n->gossip_place];
    n->gossip_place = (n->gossip_place + 1) % SKY_NODE_GOSSIP_MAX;
    if (n->gossip_count < SKY_NODE_GOSSIP_MAX) {
        n->gossip_count++;
        r->ways = 0; /* this memory was never used */
    }
    tell_ways(n, r, 0);
    *r = *made;
    tell_ways(n, r, ways);
}

/* What is held of a block goes. Returns how many. */
static uint32_t purge_block(sky_node *n, const sky_chunk_id *block) {
    const sky_chunk_id id = *block; /* it may lie in what goes */
    uint32_t purged = 0;
    for (slot *next, *s = sky__node_block_first(n, &id); s; s = next) {
        next = sky__node_block_next(n, s);
        if (s->facts.pinned || s->facts.spare)
            continue;
        sky__node_drop(n, s);
        purged++;
    }
    return purged;
}

/* A chunk of ours is gone, and the block with it. */
void sky__gossip_begin(sky_node *n, const sky_chunk_id *id, const sky_chunk_facts *facts) {
    if (facts->spare || id->number == 0)
        return;
    const gossip_message r = {
        .id = *id, .chunk_count = facts->chunk_count, .hops = n->config->gossip_hops};
    uint8_t ways = n->config->tell_ground ? WAY_GROUND : 0;
    bool single = facts->chunk_count == 1; /* no others to drop */
    if (r.hops > 0)
        n->stat.purged += purge_block(n, id);
    if (r.hops > 0 && !single)
        ways |= ways_from(n, n->self);
    if (ways && !find_known(n, id))
        note_message(n, &r, ways);
}

/* Who told it needs not be told. */
static uint8_t ways_but(const sky_node *n, sky_satellite teller, uint8_t ways) {
    for (uint32_t way = 0; way < WAYS; way++) {
        if (sky_satellite_equal(teller, neighbour_at(n, way)))
            ways &= (uint8_t) ~(1u << way);
    }
    return ways;
}

static void take_block(sky_node *n, sky_time now, sky_satellite from, const gossip_message *heard) {
    gossip_message *r = find_known(n, &heard->id);
    if (r && heard->hops <= r->hops) {
        tell_ways(n, r, ways_but(n, from, r->ways));
        return;
    }
    if (!sky__credit_take(&n->gossip_credit, now, GOSSIP_NS, SKY_NODE_GOSSIP_MAX)) {
        n->stat.gossip_refused++;
        return;
    }
    uint8_t ways = heard->hops > 0 ? ways_from(n, from) : 0;
    if (r) { /* it came by a detour first, and goes farther now */
        r->hops = heard->hops;
        tell_ways(n, r, ways | (r->ways & WAY_GROUND));
        return;
    }
    n->stat.purged += purge_block(n, &heard->id);
    note_message(n, heard, ways);
}

void sky__gossip_take(sky_node *n, sky_time now, const sky_datagram *in, const sky_message *m) {
    if (in->from.plane != 0 && !is_neighbour(n, in->from)) {
        n->stat.malformed++;
        return;
    }
    const uint32_t most = n->config->gossip_hops;
    if (most == 0)
        return;
    gossip_message r = {.id = m->id, .chunk_count = m->facts.chunk_count, .hops = m->hops};
    r.hops = r.hops < most ? r.hops : most;
    take_block(n, now, in->from, &r);
    for (uint32_t at = 0; at < m->data_bytes; at += SKY_LOST_BLOCK_BYTES) {
        sky_lost_block b;
        sky_lost_block_decode(m->data + at, &b);
        r = (gossip_message){.id = {b.key, b.version, 1},
                             .chunk_count = b.chunk_count,
                             .hops = b.hops < most ? b.hops : most};
        take_block(n, now, in->from, &r);
    }
}

static gossip_message *ring_at(const sky_node *n, uint32_t i) {
    uint32_t oldest = n->gossip_count < SKY_NODE_GOSSIP_MAX ? 0 : n->gossip_place;
    return &n->gossip_ring[(oldest + i) % SKY_NODE_GOSSIP_MAX];
}

/* The ground hears of each at once: it counts on what is gone. */
static void tell_ground(sky_node *n, sky_datagram *out) {
    uint32_t i = 0;
    while (!(ring_at(n, i)->ways & WAY_GROUND))
        i++;
    gossip_message *r = ring_at(n, i);
    tell_ways(n, r, r->ways & (WAY_GROUND - 1));
    const sky_message m = {.type = SKY_WIRE_GONE, .id = r->id};
    sky__node_send(n, &m, n->ground, out);
}

/* All that a neighbour does not know, as far as it fits one PURGE. */
static bool tell_neighbour(sky_node *n, uint32_t way, sky_datagram *out) {
    sky_message m = {.type = SKY_WIRE_PURGE};
    const size_t offset = sky_message_data_offset(SKY_WIRE_PURGE);
    const size_t room = (out->bytes_max - offset) / SKY_LOST_BLOCK_BYTES;
    const uint32_t most = 1 + (uint32_t)(room < SKY_LOST_BLOCKS_MAX ? room : SKY_LOST_BLOCKS_MAX);
    uint32_t told = 0;
    for (uint32_t i = 0; i < n->gossip_count && told < most; i++) {
        gossip_message *r = ring_at(n, i);
        if (!(r->ways & 1u << way))
            continue;
        tell_ways(n, r, (uint8_t)(r->ways & ~(1u << way)));
        const sky_lost_block b = {r->id.key, r->id.version, r->chunk_count, r->hops - 1};
        if (told++ > 0) {
            sky_lost_block_encode(&b, out->data + offset + m.data_bytes);
            m.data_bytes += SKY_LOST_BLOCK_BYTES;
            continue;
        }
        m.id = r->id;
        m.facts.chunk_count = b.chunk_count;
        m.hops = b.hops;
    }
    if (told == 0)
        return false;
    m.data = out->data + offset;
    n->stat.gossip++;
    n->stat.gossip_bytes += sky_message_bytes(&m);
    sky__node_send(n, &m, neighbour_at(n, way), out);
    return true;
}

bool sky__gossip_output(sky_node *n, sky_time now, sky_datagram *out) {
    if (n->gone_open > 0) {
        tell_ground(n, out);
        return true;
    }
    while (n->gossip_open > 0 && n->gossip_next <= now) {
        bool said = tell_neighbour(n, n->gossip_way++, out);
        if (n->gossip_way == WAYS || n->gossip_open == 0) { /* what is left over waits */
            n->gossip_way = 0;
            n->gossip_next = now + GAP_NS;
        }
        if (said)
            return true;
    }
    return false;
}

sky_time sky__gossip_wake(const sky_node *n) {
    if (n->gone_open > 0)
        return 0;
    return n->gossip_open > 0 ? n->gossip_next : SKY_TIME_NEVER;
}

/* ---- sweeps ---- */

static sky_chunk_id chunk_after(const slot *s) {
    sky_chunk_id id = s->id;
    id.number = id.number < s->facts.chunk_count ? id.number + 1 : 1;
    return id;
}

#define PLACES_MAX (SKY_LAST_STEPS + 1)

/* Where the chunk after may be, the likeliest first: at its place, and where it belonged in the
 * last steps of the centre, as a satellite that was out of reach keeps it. */
static uint32_t places_after(const sky_node *n, const slot *s, sky_satellite places[PLACES_MAX]) {
    const sky_node_config *c = n->config;
    sky_chunk_facts facts = s->facts;
    facts.first = facts.next;
    places[0] = sky__node_place(n, &facts);
    uint32_t count = 1 + sky_chunk_last_places(&c->constellation, &c->turning, &facts, n->turns,
                                               places + 1);
    if (count == 1) /* in a wide window it belongs in one place for more steps than these */
        count += sky_chunk_place_before(&c->constellation, &c->turning, &facts, n->turns,
                                        &places[1]);
    return count;
}

/* The places are asked one after the other, and then the first again. A satellite that gives a
 * chunk away drops it only when the next one has it. So when all say that they do not have it, it
 * is gone, and not just late on its way. */
static sky_satellite ask_after_at(const sky_node *n, const slot *s) {
    sky_satellite places[PLACES_MAX];
    uint32_t count = places_after(n, s, places);
    return places[s->doubts < count ? s->doubts : 0];
}

/* An answer takes time, so one that comes in none shows that our clock stands still: the turn that
 * we go by may be long over, and the chunk where it belongs in the next. */
static bool clock_stands(const sky_node *n, const slot *s) {
    return n->now == s->asked;
}

/* Worth asking about: its block is set, nothing of it is on the move, and it would be missed. */
static bool slot_sweepable(const sky_node *n, sky_time now, const slot *s) {
    int64_t ripe_ms = sky_turning_ms(&n->config->turning, now - n->config->sweep_ripe_ns);
    return s->used && s->move == SKY__HELD && !s->facts.spare && !s->facts.pinned &&
           s->id.number > 0 && s->facts.chunk_count > 1 && s->facts.set_ms <= ripe_ms;
}

static void next_is(sky_node *n, slot *s, bool present) {
    s->doubts = present ? 0 : (uint8_t)(s->doubts + 1);
    if (present)
        return;
    sky_satellite places[PLACES_MAX];
    bool more = s->doubts <= places_after(n, s, places);
    if (more) { /* at once: what is asked for in another turn is elsewhere */
        uint32_t i = (uint32_t)(s - n->slots);
        n->sweep_at = i > 0 ? i - 1 : n->slot_fresh - 1;
        n->sweep_next = 0;
        return;
    }
    const sky_chunk_id id = s->id;
    const sky_chunk_facts facts = s->facts;
    n->stat.swept += purge_block(n, &id);
    sky__gossip_begin(n, &id, &facts);
}

/* So that a round takes a period, however few of those looked at are asked for: a chunk is asked
 * for once in it, and looking costs the same whatever is held. */
static sky_time sweep_gap(const sky_node *n, uint32_t looked) {
    sky_time gap = n->config->sweep_period_ns / n->slot_fresh;
    return (gap > 0 ? gap : 1) * looked;
}

/* The next chunk of the round; where the one after it lies here too no message is needed. */
bool sky__sweep_output(sky_node *n, sky_time now, sky_datagram *out) {
    const sky_time grace = n->config->sweep_grace_ns;
    bool turns = n->turn_ends != SKY_TIME_NEVER && now >= n->turn_ends - grace / 2;
    if (now < n->turn_began + grace ||
        turns) { /* much is on the move, or will be by other clocks */
        n->sweep_next = (turns ? n->turn_ends : n->turn_began) + grace;
        return false;
    }
    for (uint32_t looked = 0; looked < n->slot_fresh; looked++) {
        n->sweep_at = n->sweep_at + 1 < n->slot_fresh ? n->sweep_at + 1 : 0;
        slot *s = &n->slots[n->sweep_at];
        if (!slot_sweepable(n, now, s))
            continue;
        n->sweep_next = now + sweep_gap(n, looked + 1);
        sky_chunk_id id = chunk_after(s);
        sky_satellite to = ask_after_at(n, s);
        if (sky_satellite_equal(to, n->self)) {
            next_is(n, s, sky__node_find(n, &id) != NULL);
            return false;
        }
        s->request = (uint64_t)++n->sweep_request << 32 | (uint64_t)(s - n->slots);
        s->asked = now;
        sky_message m = {
            .type = SKY_WIRE_HAS, .request = s->request, .id = id, .stride = 1, .last = id.number};
        n->stat.sweeps++;
        sky__node_send(n, &m, to, out);
        return true;
    }
    n->sweep_next = now + n->config->sweep_period_ns;
    return false;
}

void sky__sweep_answer(sky_node *n, const sky_datagram *in, const sky_message *m) {
    uint32_t i = (uint32_t)m->request;
    slot *s = i < n->slot_fresh ? &n->slots[i] : NULL;
    if (s && s->used && sky__copied(s)) {
        sky__copies_answer(n, in, m);
        return;
    }
    if (!s || !s->used || s->move != SKY__HELD || s->request != m->request ||
        !sky_satellite_equal(in->from, ask_after_at(n, s))) {
        n->stat.malformed++;
        return;
    }
    sky_chunk_id id = chunk_after(s);
    bool present = m->present & 1;
    s->request = 0;
    if (sky_chunk_id_equal(&id, &m->id) && (present || !clock_stands(n, s)))
        next_is(n, s, present);
}
