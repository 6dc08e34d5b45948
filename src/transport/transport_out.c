/* What the transport sends: acknowledgements first, then what it relays, then pieces sent again,
 * then new ones.
 *
 * Two links, two paces: a satellite's way down and its lasers do not wait for each other. A pace
 * is a time: `free_at`, when the link has carried all it was given. A datagram may leave when that
 * is no more than burst_ns ahead.
 *
 * A message is cut as soon as it is sent, and lies from then on as the datagrams it will be:
 *
 *     | head | DATA frame, piece 0 | tag | head | DATA frame, piece 1 | tag | …
 *
 * Only heads and tags are written when they leave, and again when they leave again; the host hands
 * what lies here to the kernel as it is, all pieces of a message as one piece of memory. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "transport/transport_state.h"

#define EXCESS_DOUBLINGS 6
#define DOUBTFUL         4 /* waits in vain, of one station */
#define DEAD             16
#define DOUBTFUL_SHARE   4 /* of the window */
#define GAPS_MANY        64
#define INDEX_MASK       ((1u << SKY__T_INDEX_BITS) - 1)
#define CONTENT_MAX      (SKY_PACKET_BYTES_MAX - SKY_TAG_BYTES) /* head included */
#define BEFORE_PIECE     (SKY_PACKET_HEAD_BYTES + SKY_PACKET_FRAME_BYTES)
#define ACK_HEAD_BYTES   4

static uint32_t count_bits(uint32_t v) {
    return (uint32_t)__builtin_popcount(v);
}

/* A piece of a message as it leaves: head, frame and room for a tag. */
static uint8_t *datagram_of(const sky_transport *t, uint32_t i, uint32_t index) {
    return t->sending_bytes + i * t->sending_stride +
           (size_t)index * (BEFORE_PIECE + t->sending[i].stride + SKY_TAG_BYTES);
}

size_t sky__sending_bytes(const sky_transport_config *c) {
    uint32_t pieces = sky_packet_pieces(c->message_bytes_max);
    size_t bytes = pieces * (size_t)(BEFORE_PIECE + SKY_TAG_BYTES + 1) + c->message_bytes_max;
    return (bytes + 63) & ~(size_t)63; /* all pieces are as long as the longest: at most one more */
}

/* ---- lists ---- */

static sky__t_list *list_of(sky_transport *t, const sky__sending *s) {
    return &t->outlets[s->link].queues[s->queue];
}

static void sending_enqueue(sky_transport *t, uint32_t i) {
    sky__sending *s = &t->sending[i];
    sky__t_list *l = list_of(t, s);
    s->state = SENDING_QUEUED;
    s->before = l->last;
    s->after = SKY__T_NONE;
    if (l->last == SKY__T_NONE)
        l->first = i;
    else
        t->sending[l->last].after = i;
    l->last = i;
}

static void sending_unqueue(sky_transport *t, uint32_t i) {
    sky__sending *s = &t->sending[i];
    sky__t_list *l = list_of(t, s);
    if (s->before == SKY__T_NONE)
        l->first = s->after;
    else
        t->sending[s->before].after = s->after;
    if (s->after == SKY__T_NONE)
        l->last = s->before;
    else
        t->sending[s->after].before = s->before;
    s->state = SENDING_FLYING;
}

static void sending_finish(sky_transport *t, uint32_t i) {
    sky__sending *s = &t->sending[i];
    if (s->state == SENDING_QUEUED)
        sending_unqueue(t, i);
    t->flying -= count_bits(s->flying);
    s->state = SENDING_FREE;
    s->after = t->sending_free;
    t->sending_free = i;
}

/* A request that is lost costs a round before anything is lost of its answer: where of many answers
 * a piece is missing, the ground says it twice. */
static bool is_lossy(const sky_transport *t) {
    return sky__is_ground(t->config->self) && t->gaps > SKY__T_GAPS_ONE / GAPS_MANY;
}

/* A queued message of which all pieces are out goes on to their echoes, or to waiting. */
static void pass_on(sky_transport *t, uint32_t i) {
    sky__sending *s = &t->sending[i];
    if (s->pending)
        return;
    s->pending = s->echo;
    t->stat.speculative_retries += count_bits(s->echo);
    s->echo = 0;
    if (!s->pending)
        sending_unqueue(t, i);
}

/* ---- messages ---- */

/* The oldest message that waits for a dead station is forgotten. */
static bool forget_one(sky_transport *t) {
    for (int link = 0; link < SKY__LINKS; link++) {
        uint32_t i = t->outlets[link].queues[SKY__T_DOUBTFUL].first;
        while (i != SKY__T_NONE && sky__unheard(t, t->now, t->sending[i].to) < DEAD)
            i = t->sending[i].after;
        if (i == SKY__T_NONE)
            continue;
        t->stat.given_up++;
        sending_finish(t, i);
        return true;
    }
    return false;
}

uint32_t sky_transport_under_way(const sky_transport *t) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->sending_fresh; i++)
        count += t->sending[i].state != SENDING_FREE &&
                 sky__unheard(t, t->now, t->sending[i].to) < DOUBTFUL;
    return count;
}

bool sky_transport_begin(sky_transport *t, sky_datagram *out) {
    if (t->sending_free == SKY__T_NONE && t->sending_fresh == t->config->sending_max &&
        !forget_one(t))
        return false;
    *out = (sky_datagram){.data = t->room, .bytes_max = t->config->message_bytes_max};
    return true;
}

/* The last, shorter piece is filled up with zeros: datagrams of one length leave a host in one
 * system call. Frames come last, for a seal may write between pieces. */
static void sending_cut(sky_transport *t, uint32_t i, const sky_datagram *m, sky_seal *seal) {
    const sky__sending *s = &t->sending[i];
    sky_pieces to = {.at = datagram_of(t, i, 0) + BEFORE_PIECE,
                     .bytes = s->stride,
                     .step = BEFORE_PIECE + s->stride + SKY_TAG_BYTES};
    if (seal)
        sky_seal_into(seal, t->room, m->bytes, m->chunk, &to);
    else
        sky_pieces_write(&to, 0, t->room, (uint32_t)m->bytes);
    uint32_t pieces = count_bits(s->all), zeros = pieces * s->stride - s->bytes;
    uint8_t *piece = to.at;
    for (uint32_t index = 0; index < pieces; index++, piece += to.step)
        sky_packet_data_encode(s->number, s->bytes, index, piece - SKY_PACKET_FRAME_BYTES);
    memset(piece - to.step + s->stride - zeros, 0, zeros);
}

void sky_transport_send_sealed(sky_transport *t, sky_time now, const sky_datagram *m,
                               sky_seal *seal) {
    sky_satellite to = m->to;
    if (sky__same(to, SKY_GROUND)) /* to no one in particular */
        to = t->ground;
    if (!sky__is_station(t, to) || sky__same(to, t->config->self)) {
        t->stat.undeliverable++;
        return;
    }
    uint32_t i = t->sending_free;
    if (i != SKY__T_NONE)
        t->sending_free = t->sending[i].after;
    else
        i = t->sending_fresh++;
    assert(m->data == t->room && (seal || !m->chunk));
    uint32_t bytes = (uint32_t)(seal ? sky_seal_message_bytes(m->data, m->bytes) : m->bytes);
    assert(bytes >= 1 && bytes <= t->config->message_bytes_max);
    uint32_t all = (uint32_t)((1ull << sky_packet_pieces(bytes)) - 1);
    uint8_t way = sky__usual_way(t, now, to);
    t->sending[i] = (sky__sending){.link = sky__route_to(t, now, to, way)->link,
                                   .way = way,
                                   .queue = sky__unheard(t, now, to) < DOUBTFUL ? SKY__T_FRESH
                                                                                : SKY__T_DOUBTFUL,
                                   .clean = true,
                                   .to = to,
                                   .number = ++t->number << SKY__T_INDEX_BITS | i,
                                   .bytes = bytes,
                                   .stride = sky_packet_stride(bytes),
                                   .all = all,
                                   .pending = all,
                                   .echo = all == 1 && is_lossy(t) ? all : 0,
                                   .begun = now,
                                   .deadline = SKY_TIME_NEVER};
    sending_cut(t, i, m, seal);
    t->stat.messages_sent++;
    if (now + t->config->deadline_ns < t->earliest_out)
        t->earliest_out = now + t->config->deadline_ns;
    sending_enqueue(t, i);
}

void sky_transport_send(sky_transport *t, sky_time now, const sky_datagram *m) {
    sky_transport_send_sealed(t, now, m, NULL);
}

/* From the last piece to the acknowledgement, at the longest. */
static sky_time ack_timeout(const sky_transport *t, sky_time now, sky__sending *s) {
    sky_time beyond = sky__later(t->config->slack_ns, t->excess_ns + 4 * t->deviation_ns);
    uint32_t usual = sky__usual_doublings(t, now, s->to);
    usual -= usual > 0; /* the first in vain may be a loss */
    uint32_t doublings = s->timeouts > usual ? s->timeouts : usual;
    s->doublings = doublings < EXCESS_DOUBLINGS ? doublings : EXCESS_DOUBLINGS;
    return 2 * s->way_ns + (beyond << s->doublings);
}

/* What an acknowledgement took beyond light: as TCP takes its round trips (RFC 6298). */
static void excess_sample(sky_transport *t, sky_time excess) {
    sky_time off = excess - t->excess_ns;
    t->excess_ns += off / 8;
    t->deviation_ns += ((off < 0 ? -off : off) - t->deviation_ns) / 4;
}

/* Pieces that are not coming back: send them again, and few of them twice: what is lost again costs
 * another round. */
static void send_again(sky_transport *t, uint32_t i, sky__t_queue queue) {
    sky__sending *s = &t->sending[i];
    t->stat.pieces_again += count_bits(s->flying);
    t->flying -= count_bits(s->flying);
    if (2 * count_bits(s->flying) <= count_bits(s->all) || s->all == 1)
        s->echo = s->flying;
    s->pending |= s->flying;
    s->flying = 0;
    s->clean = false;
    s->deadline = SKY_TIME_NEVER;
    if (s->state == SENDING_FLYING) {
        s->queue = queue;
        sending_enqueue(t, i);
    }
}

void sky__acknowledged(sky_transport *t, sky_time now, sky_satellite from, uint64_t number,
                       uint32_t bitmap) {
    uint32_t i = (uint32_t)(number & INDEX_MASK);
    sky__sending *s = &t->sending[i];
    if (i >= t->sending_fresh || s->state == SENDING_FREE || s->number != number ||
        !sky__same(s->to, from))
        return;
    sky__way_proven(t, now, from, s->way);
    t->flying -= count_bits(s->flying & bitmap);
    s->flying &= ~bitmap;
    s->pending &= ~bitmap;
    s->echo &= ~bitmap;
    s->acked |= bitmap & s->all;
    if (s->acked == s->all) {
        if (s->clean) {
            excess_sample(t, sky__later(0, now - s->sent - 2 * s->way_ns));
            sky__wait_sufficed(t, now, from);
        }
        sending_finish(t, i);
        return;
    }
    if (s->state == SENDING_QUEUED)
        pass_on(t, i);
    /* The other end had not heard of the rest when it said this: either lost, or sent since. */
    if (s->state == SENDING_FLYING && now >= s->sent + 2 * s->way_ns)
        send_again(t, i, SKY__T_AGAIN);
}

/* Nothing was heard of some pieces. When the station did not answer an earlier message either, it
 * may be dead: this one, and whatever else it was sent, lets others pass. */
static void timed_out(sky_transport *t, sky_time now, uint32_t i) {
    sky__sending *s = &t->sending[i];
    bool lost = sky__unheard(t, now, s->to) < DOUBTFUL;
    t->stat.timeouts++;
    s->timeouts++;
    sky__wait_in_vain(t, now, s->to, s->doublings);
    if (s->acked == 0)
        sky__way_doubted(t, now, s->to, s->way);
    s->way = (uint8_t)((s->way + 1) % SKY_PACKET_WAYS);
    send_again(t, i, lost || s->acked ? SKY__T_AGAIN : SKY__T_DOUBTFUL);
}

void sky__look_after_messages(sky_transport *t, sky_time now) {
    sky_time earliest = SKY_TIME_NEVER;
    for (uint32_t i = 0; i < t->sending_fresh; i++) {
        sky__sending *s = &t->sending[i];
        if (s->state == SENDING_FREE)
            continue;
        sky_time end = s->begun + t->config->deadline_ns;
        if (end <= now) {
            t->stat.given_up++;
            sending_finish(t, i);
            continue;
        }
        if (s->deadline <= now)
            timed_out(t, now, i);
        sky_time next = s->deadline < end ? s->deadline : end;
        earliest = next < earliest ? next : earliest;
    }
    t->earliest_out = earliest;
}

/* ---- datagrams ---- */

/* A datagram being filled, or a row of them. */
typedef struct {
    sky_packet_head head;
    uint8_t *data;
    size_t bytes; /* of each, without its tag */
    uint32_t count;
} filling;

static void sending_begin(sky_transport *t, sky_time now, sky_satellite to, uint8_t way,
                          uint8_t *data, filling *f) {
    uint32_t hops = sky_frame_hops_max(t->config->frame) + SKY_TRANSPORT_HOPS_MORE;
    hops = hops < SKY_TRANSPORT_HOPS_MAX ? hops : SKY_TRANSPORT_HOPS_MAX;
    *f = (filling){.head = {.ttl = (uint8_t)hops,
                            .to = sky__route_to(t, now, to, way)->hop,
                            .way = way,
                            .origin = t->config->self,
                            .destination = to},
                   .data = data,
                   .bytes = SKY_PACKET_HEAD_BYTES,
                   .count = 1};
}

/* All acknowledgements there are for the station of the first. */
static void put_acks(sky__outlet *o, filling *f) {
    uint8_t *at = f->data + f->bytes;
    uint32_t taken = 0, kept = 0;
    for (uint32_t i = 0; i < o->ack_count; i++) {
        const sky__ack *a = &o->acks[i];
        if (taken < SKY_PACKET_ACKS_MAX && sky__same(a->to, f->head.destination))
            sky_packet_ack_entry_encode(
                a->number, a->bitmap, at + ACK_HEAD_BYTES + (size_t)taken++ * SKY_PACKET_ACK_BYTES);
        else
            o->acks[kept++] = *a;
    }
    o->ack_count = kept;
    sky_packet_ack_encode(taken, at);
    f->bytes += ACK_HEAD_BYTES + (size_t)taken * SKY_PACKET_ACK_BYTES;
}

static sky_time busy_ns(const sky_transport *t, const sky__outlet *o, size_t bytes) {
    const sky_transport_config *c = t->config;
    bool ground = o == &t->outlets[SKY__LINK_GROUND];
    return sky_link_busy_ns(ground ? c->ground_bits_s : c->isl_bits_s, bytes);
}

/* Datagrams that may leave now over a link that may carry one. */
static uint32_t outlet_paced(const sky_transport *t, sky_time now, const sky__outlet *o,
                             size_t bytes) {
    sky_time busy = busy_ns(t, o, bytes);
    if (busy == 0)
        return UINT32_MAX;
    sky_time more = (now + t->config->burst_ns - sky__later(o->free_at, now)) / busy;
    return more < UINT32_MAX - 1 ? (uint32_t)more + 1 : UINT32_MAX;
}

/* Pieces of a message are about to leave, one behind the other, at most so many: which, and when to
 * wonder where they are. Echoes leave one by one. */
static uint32_t take_pieces(sky_transport *t, sky_time now, uint32_t i, uint32_t most,
                            uint32_t *index) {
    sky__sending *s = &t->sending[i];
    sky__outlet *o = &t->outlets[s->link];
    *index = (uint32_t)__builtin_ctz(s->pending);
    uint64_t fresh = (uint64_t)(s->pending & ~s->flying) >> *index;
    uint32_t count = (uint32_t)__builtin_ctzll(~fresh), window = t->config->window_max - t->flying;
    count = count < most ? count : most;
    count = count < window ? count : window;
    uint32_t echo = count == 0;
    count += echo;
    uint32_t pieces = (uint32_t)((1ull << count) - 1) << *index;
    s->pending &= ~pieces;
    t->flying += echo ? 0 : count;
    s->flying |= pieces;
    s->sent = now;
    s->way_ns = sky__route_to(t, now, s->to, s->way)->way_ns;
    sky_time others = (count - 1) * busy_ns(t, o, BEFORE_PIECE + s->stride + SKY_TAG_BYTES);
    s->deadline = sky__later(now, o->free_at) + others + ack_timeout(t, now, s);
    if (s->deadline < t->earliest_out)
        t->earliest_out = s->deadline;
    pass_on(t, i);
    return count;
}

static uint32_t next_message(const sky_transport *t, const sky__outlet *o) {
    if (t->flying >= t->config->window_max)
        return SKY__T_NONE;
    bool all = t->flying * DOUBTFUL_SHARE < t->config->window_max;
    for (int queue = 0; queue < (all ? SKY__T_QUEUES : SKY__T_DOUBTFUL); queue++) {
        if (o->queues[queue].first != SKY__T_NONE)
            return o->queues[queue].first;
    }
    return SKY__T_NONE;
}

/* A message of one piece that still fits into a datagram to the same station; an echo must not
 * share that of its first. */
static bool sending_joins(const sky_transport *t, uint32_t i, const filling *f) {
    return i != SKY__T_NONE && t->sending[i].all == 1 && t->sending[i].flying == 0 &&
           sky__same(t->sending[i].to, f->head.destination) &&
           f->bytes + SKY_PACKET_FRAME_BYTES + t->sending[i].bytes <= CONTENT_MAX;
}

/* Pieces where they lie; or in the host's room an echo, or as many messages of one piece each as
 * fit and go to the same station. */
static void put_pieces(sky_transport *t, sky_time now, sky__outlet *o, uint32_t most, filling *f) {
    uint32_t i = next_message(t, o), index;
    const sky__sending *s = &t->sending[i];
    bool is_echo = s->flying & s->pending & -s->pending; /* its first may not have left the host */
    f->bytes = BEFORE_PIECE + s->stride;
    uint32_t pace = outlet_paced(t, now, o, f->bytes + SKY_TAG_BYTES);
    f->count = take_pieces(t, now, i, pace < most ? pace : most, &index);
    uint8_t *piece = datagram_of(t, i, index);
    i = s->all == 1 ? next_message(t, o) : SKY__T_NONE;
    if (!is_echo && !sending_joins(t, i, f)) {
        f->data = piece;
        return;
    }
    memcpy(f->data, piece, f->bytes);
    for (; sending_joins(t, i, f); i = next_message(t, o)) {
        take_pieces(t, now, i, 1, &index);
        size_t bytes = SKY_PACKET_FRAME_BYTES + t->sending[i].bytes;
        memcpy(f->data + f->bytes, datagram_of(t, i, 0) + SKY_PACKET_HEAD_BYTES, bytes);
        f->bytes += bytes;
    }
}

static void send_on(sky_transport *t, sky_time now, sky__outlet *o, filling *f) {
    sky__relayed *r = &o->relayed[o->relay_first];
    o->relay_first = (o->relay_first + 1) % t->config->relay_max;
    o->relay_count--;
    sky_packet_head_decode(r->data, r->bytes, &f->head);
    o->shares[sky__share_of(f->head.origin)]--;
    f->head.ttl--;
    f->head.to = sky__next_hop(t, now, f->head.destination, f->head.way);
    f->bytes = r->bytes - SKY_TAG_BYTES;
    f->data = r->data;
    t->stat.relayed++;
}

/* Something to send over this link, pace aside. */
static bool has_any(const sky_transport *t, const sky__outlet *o) {
    return o->ack_count > 0 || o->relay_count > 0 || next_message(t, o) != SKY__T_NONE;
}

/* At most so many. */
static bool outlet_offer(sky_transport *t, sky_time now, uint8_t *room, uint32_t most,
                         sky_datagram_row *out) {
    sky__outlet *o = t->outlets;
    int link = 0;
    while (link < SKY__LINKS && (o->free_at > now + t->config->burst_ns || !has_any(t, o)))
        o++, link++;
    if (link == SKY__LINKS)
        return false;
    filling f = {.data = room, .count = 1};
    if (o->ack_count > 0) {
        sending_begin(t, now, o->acks[0].to, o->acks[0].way, room, &f);
        put_acks(o, &f);
    } else if (o->relay_count > 0) {
        send_on(t, now, o, &f);
    } else {
        const sky__sending *s = &t->sending[next_message(t, o)];
        sending_begin(t, now, s->to, s->way, room, &f);
        put_pieces(t, now, o, most, &f);
    }
    sky__link_stamp(t, now, &f.head, f.data, f.bytes, f.count);
    *out = (sky_datagram_row){
        .to = f.head.to, .data = f.data, .bytes = f.bytes + SKY_TAG_BYTES, .count = f.count};
    o->free_at = sky__later(o->free_at, now) + out->count * busy_ns(t, o, out->bytes);
    t->stat.datagrams_sent += out->count;
    t->stat.bytes_sent += out->count * out->bytes;
    return true;
}

bool sky_transport_offer(sky_transport *t, sky_time now, uint8_t *room, sky_datagram_row *out) {
    return outlet_offer(t, now, room, SKY_PACKET_PIECES_MAX, out);
}

void sky_transport_send_token(sky_transport *t, sky_time now, sky_satellite neighbour,
                              const sky_packet_frame *token, size_t bytes, sky_datagram *out) {
    sky_packet_head head = {.to = neighbour, .origin = t->config->self, .destination = neighbour};
    uint8_t *frame = out->data + SKY_PACKET_HEAD_BYTES;
    assert(bytes >= SKY_TRANSPORT_TOKEN_BYTES && bytes <= out->bytes_max);
    memset(frame, 0, bytes - SKY_PACKET_HEAD_BYTES);
    sky_packet_token_encode(token->type, token->number, frame);
    sky__link_stamp(t, now, &head, out->data, bytes - SKY_TAG_BYTES, 1);
    out->from = t->config->self;
    out->to = neighbour;
    out->bytes = bytes;
    t->stat.datagrams_sent++;
    t->stat.bytes_sent += bytes;
}

bool sky_transport_output(sky_transport *t, sky_time now, sky_datagram *out) {
    sky_datagram_row one;
    assert(out->bytes_max >= SKY_PACKET_BYTES_MAX);
    if (!outlet_offer(t, now, out->data, 1, &one))
        return false;
    if (one.data != out->data)
        memcpy(out->data, one.data, one.bytes);
    out->from = t->config->self;
    out->to = one.to;
    out->bytes = one.bytes;
    return true;
}

/* With a burst allowed, half of it is waited for: a host wakes for many datagrams, not for each. */
sky_time sky_transport_wake(const sky_transport *t) {
    sky_time wake = t->earliest_in < t->earliest_out ? t->earliest_in : t->earliest_out;
    for (int link = 0; link < SKY__LINKS; link++) {
        const sky__outlet *o = &t->outlets[link];
        sky_time at = o->free_at - t->config->burst_ns / 2;
        if (has_any(t, o) && at < wake)
            wake = at;
    }
    return wake;
}
