/* The transport's neighbours: keys, counters and ways. */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "transport/transport_state.h"

/* ---- ways ---- */

static uint64_t turns_at(const sky_transport *t, sky_time now) {
    return sky_turns(&t->config->frame->turning, now);
}

bool sky__is_station(const sky_transport *t, sky_satellite s) {
    const sky_constellation *c = &t->config->frame->constellation;
    if (sky__is_ground(s))
        return s.slot >= 1 && s.slot <= SKY_PACKET_GROUND_MAX;
    return s.plane <= c->planes && s.slot >= 1 && s.slot <= c->slots;
}

/* The shorter way round, signed: how many steps from `from` to `to`. */
static int32_t steps_between(uint32_t from, uint32_t to, uint32_t count) {
    uint32_t ahead = (to + count - from) % count;
    return ahead <= count / 2 ? (int32_t)ahead : (int32_t)ahead - (int32_t)count;
}

static uint32_t magnitude_of(int32_t v) {
    return (uint32_t)(v < 0 ? -v : v);
}

/* The window, and a column on either side: what moves is at the old place or the new one. */
static bool in_sight(const sky_frame *f, sky_satellite s, uint64_t turns) {
    const sky_placement *p = &f->placement;
    sky_satellite centre = sky_frame_centre(f, turns);
    if (!sky_strategy_row_of(p->strategy)->windowed)
        return sky__same(s, centre);
    return magnitude_of(steps_between(centre.plane, s.plane, f->constellation.planes)) <=
               p->window_planes / 2 &&
           magnitude_of(steps_between(centre.slot, s.slot, f->constellation.slots)) <=
               p->window_slots / 2 + 1;
}

static uint32_t step_on(uint32_t from, int32_t way, uint32_t count) {
    if (way == 0)
        return from;
    return way > 0 ? from % count + 1 : (from + count - 2) % count + 1;
}

/* Who stands `by` planes beside a plane. */
static uint32_t plane_beside(uint32_t plane, int32_t by, uint32_t count) {
    return (uint32_t)((int32_t)(plane - 1 + 2 * count) + by) % count + 1;
}

/* A way runs along a lane, so many planes beside the one it goes to: whatever is dead on one lane,
 * the others go round it. Each satellite on the way finds the next from the lane and its own place.
 *
 *   lane 1     . a──a──a──a .         The way to D first goes across to the lane, then along it,
 *   lane 0     O─o──o──o──o─D         then across to D. Where O is abreast of D it steps forward
 *   lane -1    . b──b──b──b .         or back a slot, unless all between them are lanes.
 *
 * In a true sky lane 0 is the shortest way over the lasers that hold. */
static int32_t lane_of(uint8_t way) {
    static const int32_t lanes[SKY_PACKET_WAYS] = {0, 1, -1, 2, -2};
    return lanes[way];
}

static sky_satellite neighbour_towards(const sky_frame *f, uint64_t turns, sky_satellite from,
                                       sky_satellite to, int32_t lane) {
    sky_satellite hop;
    if (lane == 0 && sky_frame_hop(f, from, to, turns, &hop))
        return hop;
    const sky_constellation *c = &f->constellation;
    int32_t planes = steps_between(from.plane, to.plane, c->planes);
    int32_t slots = steps_between(from.slot, to.slot, c->slots);
    bool next_door = magnitude_of(planes) + magnitude_of(slots) == 1;
    if (slots == 0 && lane != 0 && magnitude_of(planes) > magnitude_of(lane))
        return (sky_satellite){from.plane, step_on(from.slot, lane, c->slots)};
    if (slots != 0 && !next_door)
        planes = steps_between(from.plane, plane_beside(to.plane, lane, c->planes), c->planes);
    if (planes != 0)
        return (sky_satellite){step_on(from.plane, planes, c->planes), from.slot};
    return (sky_satellite){from.plane, step_on(from.slot, slots, c->slots)};
}

/* Where way `lane` crosses between ground and sky: overhead, or as far aside, up to where the
 * window ends, as the lane is; in windows of one plane a slot before or behind. */
static sky_satellite crossing_of(const sky_frame *f, uint64_t turns, int32_t aside) {
    sky_satellite s = sky_frame_centre(f, turns);
    int32_t most = (int32_t)f->placement.window_planes / 2;
    if (sky_strategy_row_of(f->placement.strategy)->aboard || aside == 0)
        return s;
    if (most == 0)
        return (sky_satellite){s.plane, step_on(s.slot, -aside, f->constellation.slots)};
    aside = aside > most ? most : aside < -most ? -most : aside;
    s.plane = plane_beside(s.plane, aside, f->constellation.planes);
    return s;
}

/* From the ground: in the destination's lane, and never overhead but for lane 0. */
static sky_satellite gate_up(const sky_frame *f, uint64_t turns, sky_satellite to, int32_t lane) {
    uint32_t planes = f->constellation.planes;
    int32_t aside = steps_between(sky_frame_centre(f, turns).plane,
                                  plane_beside(to.plane, lane, planes), planes);
    return crossing_of(f, turns, lane == 0 ? 0 : aside == 0 ? lane : aside);
}

static sky__peer *peer_find(sky_transport *t, sky_satellite who);

/* A ground station that speaks to this satellite directly hears it directly. */
static bool heard_lately(sky_transport *t, sky_time now, sky_satellite who) {
    const sky__peer *p = peer_find(t, who);
    return p && p->heard && p->heard_at + t->config->age_ns_max > now;
}

/* To the ground: as far aside as the window is wide, and the rest of the lane on the way there. */
static sky_satellite gate_down(const sky_frame *f, uint64_t turns, int32_t *lane) {
    int32_t most = (int32_t)f->placement.window_planes / 2, aside = *lane;
    aside = aside > most ? most : aside < -most ? -most : aside;
    sky_satellite s = crossing_of(f, turns, *lane);
    *lane -= aside;
    return s;
}

static sky_satellite hop_to(sky_transport *t, sky_time now, uint64_t turns,
                            sky_satellite destination, uint8_t way) {
    const sky_frame *f = t->config->frame;
    sky_satellite self = t->config->self;
    int32_t lane = lane_of(way);
    if (sky__is_ground(self))
        return t->config->direct || in_sight(f, destination, turns)
                   ? destination
                   : gate_up(f, turns, destination, lane);
    if (!sky__is_ground(destination))
        return neighbour_towards(f, turns, self, destination, lane);
    if (in_sight(f, self, turns) || heard_lately(t, now, destination))
        return destination;
    sky_satellite down = gate_down(f, turns, &lane);
    return neighbour_towards(f, turns, self, down, lane);
}

sky_satellite sky__next_hop(sky_transport *t, sky_time now, sky_satellite destination,
                            uint8_t way) {
    return hop_to(t, now, turns_at(t, now), destination, way);
}

static uint32_t hops_between(const sky_frame *f, sky_satellite a, sky_satellite b) {
    return magnitude_of(steps_between(a.plane, b.plane, f->constellation.planes)) +
           magnitude_of(steps_between(a.slot, b.slot, f->constellation.slots));
}

/* Between two satellites: as light goes, and what each hop may be late by. A lane adds the planes
 * it is aside, there and back. */
static sky_time lane_ns(const sky_transport *t, uint64_t turns, sky_satellite a, sky_satellite b,
                        int32_t lane) {
    const sky_frame *f = t->config->frame;
    uint32_t planes = f->constellation.planes;
    sky_time late = t->config->jitter_ns;
    sky_satellite beside = {plane_beside(b.plane, lane, planes), b.slot};
    sky_time aside = sky_frame_link_ns(f, b, beside, turns) +
                     late * (sky_time)hops_between(f, b, beside);
    return sky_frame_link_ns(f, a, b, turns) + late * (sky_time)hops_between(f, a, b) + 2 * aside;
}

static sky_time way_ns(const sky_transport *t, uint64_t turns, sky_satellite destination,
                       uint8_t way) {
    const sky_frame *f = t->config->frame;
    sky_satellite a = t->config->self, b = destination;
    if (sky__is_ground(a))
        a = destination, b = t->config->self;
    if (!sky__is_ground(b)) /* never a zero of hops: pieces to oneself are not sent */
        return lane_ns(t, turns, a, b, lane_of(way));
    sky_satellite centre = sky_frame_centre(f, turns);
    if (in_sight(f, a, turns))
        return sky_frame_ground_ns(f, a, turns) + t->config->jitter_ns;
    return sky_frame_ground_ns(f, centre, turns) + lane_ns(t, turns, centre, a, lane_of(way)) +
           t->config->jitter_ns;
}

const sky__route *sky__route_find(sky_transport *t, sky_time now, sky_satellite destination,
                                  uint8_t way) {
    sky__route *r = &t->route;
    uint64_t turns = turns_at(t, now);
    bool fickle = sky__is_ground(destination);
    r->destination = destination;
    r->way = way;
    r->from = now;
    r->until = fickle ? now + 1 : sky_turn_begins(&t->config->frame->turning, turns + 1);
    r->hop = hop_to(t, now, turns, destination, way);
    r->link = sky__is_ground(t->config->self) || sky__is_ground(r->hop) ? SKY__LINK_GROUND
                                                                        : SKY__LINK_ISL;
    r->way_ns = way_ns(t, turns, destination, way);
    return r;
}

/* ---- habits ---- */

#define DOUBTS_MAX 3

static uint32_t habit_number(sky_satellite to) {
    return (31 * to.plane + to.slot) % SKY__T_HABITS;
}

static bool habit_holds(const sky__habit *h, sky_time now, sky_satellite to) {
    return sky__same(h->to, to) && now < h->until;
}

static sky__habit *habit_of(sky_transport *t, sky_time now, sky_satellite to) {
    sky__habit *h = &t->habits[habit_number(to)];
    if (!habit_holds(h, now, to))
        *h = (sky__habit){
            .to = to, .until = sky_turn_begins(&t->config->frame->turning, turns_at(t, now) + 1)};
    return h;
}

uint8_t sky__usual_way(const sky_transport *t, sky_time now, sky_satellite to) {
    const sky__habit *h = &t->habits[habit_number(to)];
    return habit_holds(h, now, to) ? h->way : 0;
}

void sky__way_doubted(sky_transport *t, sky_time now, sky_satellite to, uint8_t way) {
    sky__habit *h = habit_of(t, now, to);
    if (h->way == way && ++h->doubts >= DOUBTS_MAX) {
        h->way = (uint8_t)((way + 1) % SKY_PACKET_WAYS);
        h->doubts = 0;
    }
}

void sky__way_proven(sky_transport *t, sky_time now, sky_satellite to, uint8_t way) {
    sky__habit *h = &t->habits[habit_number(to)];
    if (!habit_holds(h, now, to))
        return;
    h->unheard = 0;
    if (h->way == way)
        h->doubts = 0;
}

uint32_t sky__unheard(const sky_transport *t, sky_time now, sky_satellite to) {
    const sky__habit *h = &t->habits[habit_number(to)];
    return habit_holds(h, now, to) ? h->unheard : 0;
}

uint32_t sky__usual_doublings(const sky_transport *t, sky_time now, sky_satellite to) {
    const sky__habit *h = &t->habits[habit_number(to)];
    return habit_holds(h, now, to) ? h->doublings : 0;
}

void sky__wait_in_vain(sky_transport *t, sky_time now, sky_satellite to, uint32_t doublings) {
    sky__habit *h = habit_of(t, now, to);
    h->unheard++;
    if (doublings >= h->doublings)
        h->doublings = (uint8_t)(doublings + 1);
}

void sky__wait_sufficed(sky_transport *t, sky_time now, sky_satellite to) {
    sky__habit *h = &t->habits[habit_number(to)];
    if (habit_holds(h, now, to))
        h->doublings = 0;
}

/* ---- peers ---- */

static sky__peer *peer_find(sky_transport *t, sky_satellite who) {
    uint32_t name = sky_packet_station(who);
    if (t->peer_names[t->peer_last] == name)
        return &t->peers[t->peer_last];
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peer_names[i] == name) {
            t->peer_last = i;
            return &t->peers[i];
        }
    }
    return NULL;
}

/* A place for one more; the one used least lately makes room, and is remembered by the floor. */
static sky__peer *peer_add(sky_transport *t, sky_satellite who) {
    uint32_t at = t->peer_count;
    if (at < t->config->peers_max) {
        t->peer_count++;
    } else {
        at = 0;
        for (uint32_t i = 1; i < t->peer_count; i++)
            if (t->peers[i].used < t->peers[at].used)
                at = i;
        if (t->peers[at].heard && t->peers[at].sent > t->floor)
            t->floor = t->peers[at].sent;
    }
    memset(&t->peers[at], 0, sizeof t->peers[at]);
    t->peer_names[at] = sky_packet_station(who);
    t->peer_last = at;
    return &t->peers[at];
}

/* ---- belief ---- */

static bool is_foreign(const sky_transport *t, const sky_packet_head *h) {
    return !sky__same(h->to, t->config->self) || sky__same(h->from, t->config->self) ||
           !sky__is_station(t, h->from) || !sky__is_station(t, h->origin) ||
           !sky__is_station(t, h->destination);
}

/* Is it a datagram of this sky, in a version and a suite that this station takes? */
static bool is_ours(sky_transport *t, const uint8_t *bytes, size_t byte_count,
                    sky_packet_head *head) {
    sky_status status = sky_packet_head_decode(bytes, byte_count, head);
    if (status == SKY_OK && !sky_suites_take(t->config->suites, head->suite))
        status = SKY_E_UNSUPPORTED;
    t->stat.unsupported += status == SKY_E_UNSUPPORTED;
    bool ours = status == SKY_OK && !is_foreign(t, head);
    t->stat.foreign += !ours;
    return ours;
}

/* By the clock, and by what is known of the sender's start. */
static bool is_stale(const sky_transport *t, sky_time now, const sky__peer *p,
                     const sky_packet_head *h) {
    if (h->sent > now + t->config->skew_ns_max || h->sent + t->config->age_ns_max < now)
        return true;
    if (p && p->heard)
        return h->epoch < p->epoch || (h->epoch > p->epoch && h->sent < p->sent);
    return h->sent < t->floor;
}

static bool was_seen(const sky__peer *p, uint64_t counter) {
    if (counter > p->counter)
        return false;
    uint64_t bit = counter % SKY__T_SEEN_BITS;
    return p->counter - counter >= SKY__T_SEEN_BITS || (p->seen[bit / 64] >> bit % 64 & 1);
}

/* The bits between the last highest and the new one are of counters not seen. */
static void note_seen(sky__peer *p, uint64_t counter) {
    if (counter > p->counter) {
        if (counter - p->counter >= SKY__T_SEEN_BITS)
            memset(p->seen, 0, sizeof p->seen);
        else
            for (uint64_t c = p->counter + 1; c < counter; c++)
                p->seen[c % SKY__T_SEEN_BITS / 64] &= ~(1ull << c % 64);
        p->counter = counter;
    }
    p->seen[counter % SKY__T_SEEN_BITS / 64] |= 1ull << counter % 64;
}

/* The tag is right: remember the sender, and that this datagram came. */
static void peer_believe(sky_transport *t, sky_time now, sky__peer *p, const sky_packet_head *h) {
    if (!p)
        p = peer_add(t, h->from);
    if (!p->heard || p->epoch != h->epoch) {
        p->heard = true;
        p->epoch = h->epoch;
        p->key_in = t->scratch;
        p->counter = 0;
        memset(p->seen, 0, sizeof p->seen);
    }
    note_seen(p, h->counter);
    p->used = p->heard_at = now;
    if (h->sent > p->sent)
        p->sent = h->sent;
}

bool sky__link_accept(sky_transport *t, sky_time now, const uint8_t *bytes, size_t byte_count,
                      sky_packet_head *head) {
    if (!is_ours(t, bytes, byte_count, head))
        return false;
    sky__peer *p = peer_find(t, head->from);
    if (is_stale(t, now, p, head)) {
        t->stat.stale++;
        return false;
    }
    bool known = p && p->heard && p->epoch == head->epoch;
    if (known && was_seen(p, head->counter)) {
        t->stat.replayed++;
        return false;
    }
    if (!known)
        sky_packet_link_key(head, t->config->key, &t->scratch);
    const sky_cipher_key *key = known ? &p->key_in : &t->scratch;
    size_t tagged = byte_count - SKY_TAG_BYTES;
    /* A station keeps its suite as long as its epoch. */
    if (key->suite != head->suite ||
        !sky_tag_check(t->config->aead, key, head->counter, bytes, tagged, bytes + tagged)) {
        t->stat.forged++;
        return false;
    }
    peer_believe(t, now, p, head);
    return true;
}

void sky__link_stamp(sky_transport *t, sky_time now, sky_packet_head *head, uint8_t *row,
                     size_t byte_count, uint32_t count) {
    sky__peer *p = peer_find(t, head->to);
    if (!p)
        p = peer_add(t, head->to);
    head->suite = t->config->suites.own;
    head->from = t->config->self;
    head->epoch = t->config->epoch;
    if (!p->told) {
        sky_packet_link_key(head, t->config->key, &p->key_out);
        p->told = true;
    }
    p->used = now;
    head->counter = t->counter + 1;
    head->sent = now > 0 ? now : 0;
    sky_packet_head_encode(head, row);
    for (uint32_t i = 1; i < count; i++)
        sky_packet_head_next(row, head->counter + i, row + i * (byte_count + SKY_TAG_BYTES));
    for (uint8_t *at = row; count > 0; count--, at += byte_count + SKY_TAG_BYTES)
        sky_tag_make(t->config->aead, &p->key_out, ++t->counter, at, byte_count, at + byte_count);
}
