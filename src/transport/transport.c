/* The transport's memory, its ends towards the host, and what arrives. See transport.h for the
 * picture; transport_out.c sends. */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "transport/transport_state.h"

#define GAPS_SAMPLES 256 /* messages the share of those with gaps remembers */

/* ---- memory ---- */

static size_t align_up(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

static size_t message_stride(const sky_transport_config *c) {
    return align_up(c->message_bytes_max);
}

static uint32_t bucket_count(const sky_transport_config *c) {
    uint32_t n = 16;
    while (n < c->receiving_max)
        n *= 2;
    return n;
}

/* Walk over the parts of the memory; with `t` they are put to use, without only counted. */
static size_t lay_out(const sky_transport_config *c, uint8_t *memory, sky_transport *t) {
    size_t at = 0;
#define PART(field, count)                                                                         \
    do {                                                                                           \
        if (t)                                                                                     \
            t->field = (void *)(memory + at);                                                      \
        at += align_up((size_t)(count) * sizeof *((sky_transport *)0)->field);                     \
    } while (0)
    at += align_up(sizeof(sky_transport));
    PART(peers, c->peers_max);
    PART(peer_names, c->peers_max);
    PART(sending, c->sending_max);
    PART(sending_bytes, c->sending_max * sky__sending_bytes(c));
    PART(room, message_stride(c));
    for (int link = 0; link < SKY__LINKS; link++) {
        PART(outlets[link].acks, SKY__T_ACKS_MAX);
        PART(outlets[link].relayed, c->relay_max);
    }
    PART(receiving, c->receiving_max);
    PART(receiving_bytes, c->receiving_max * message_stride(c));
    PART(buckets, bucket_count(c));
    PART(done, SKY__T_DONE_MAX);
#undef PART
    return at;
}

size_t sky_transport_bytes(const sky_transport_config *config) {
    return 64 + lay_out(config, NULL, NULL);
}

static bool makes_sense(const sky_transport_config *c) {
    return c->sending_max >= 1 && c->sending_max <= 1u << SKY__T_INDEX_BITS &&
           c->receiving_max >= 1 && c->message_bytes_max >= 1 &&
           c->message_bytes_max <= SKY_PACKET_MESSAGE_MAX && c->peers_max >= 2 &&
           c->relay_max >= 1 && c->window_max >= 1 && c->suites.own < SKY_SUITE_END &&
           (c->aead || c->suites.own == SKY_SUITE_PLAIN);
}

sky_transport *sky_transport_init(const sky_transport_config *config, sky_time now, void *memory,
                                  size_t bytes) {
    assert(makes_sense(config) && bytes >= sky_transport_bytes(config));
    uint8_t *base = (uint8_t *)align_up((uintptr_t)memory);
    sky_transport *t = (void *)base;
    memset(t, 0, sizeof *t);
    lay_out(config, base, t);
    t->config = config;
    t->sending_stride = sky__sending_bytes(config);
    t->floor = config->floor > now ? config->floor : now;
    t->number = config->epoch;
    t->sending_free = t->receiving_free = t->delivered = SKY__T_NONE;
    t->whole = (sky__t_list){SKY__T_NONE, SKY__T_NONE};
    t->earliest_in = t->earliest_out = SKY_TIME_NEVER;
    for (int link = 0; link < SKY__LINKS; link++)
        for (int queue = 0; queue < SKY__T_QUEUES; queue++)
            t->outlets[link].queues[queue] = t->whole;
    t->bucket_mask = bucket_count(config) - 1;
    memset(t->peer_names, 0, config->peers_max * sizeof *t->peer_names);
    memset(t->buckets, 0, (t->bucket_mask + 1) * sizeof *t->buckets);
    memset(t->done, 0, SKY__T_DONE_MAX * sizeof *t->done);
    assert(sky__is_station(t, config->self));
    return t;
}

void sky_transport_deinit(sky_transport *t) {
    for (uint32_t i = 0; i < t->peer_count; i++) {
        sky_cipher_key_wipe(&t->peers[i].key_in);
        sky_cipher_key_wipe(&t->peers[i].key_out);
    }
    sky_cipher_key_wipe(&t->scratch);
}

void sky_transport_stats(const sky_transport *t, sky_transport_stat *out) {
    *out = t->stat;
}

/* ---- messages coming in: the table ---- */

/* A sender's messages follow each other, and so do their places in a table: near in time is near
 * in memory. */
static uint32_t place_of(sky_satellite from, uint64_t number) {
    uint32_t sender = sky_packet_station(from) * 0x9e3779b9u;
    return (sender >> 16) + (uint32_t)(number >> SKY__T_INDEX_BITS); /* low bits know no plane */
}

static uint8_t *bytes_of(const sky_transport *t, uint32_t i) {
    return t->receiving_bytes + (size_t)i * message_stride(t->config);
}

static uint32_t *bucket_of(const sky_transport *t, sky_satellite from, uint64_t number) {
    return &t->buckets[place_of(from, number) & t->bucket_mask]; /* index + 1 */
}

static uint32_t receiving_find(const sky_transport *t, sky_satellite from, uint64_t number) {
    for (uint32_t link = *bucket_of(t, from, number); link; link = t->receiving[link - 1].chain) {
        const sky__receiving *r = &t->receiving[link - 1];
        if (r->number == number && sky__same(r->from, from))
            return link - 1;
    }
    return SKY__T_NONE;
}

static void receiving_free(sky_transport *t, uint32_t i) {
    sky__receiving *r = &t->receiving[i];
    uint32_t *at = bucket_of(t, r->from, r->number);
    while (*at != i + 1)
        at = &t->receiving[*at - 1].chain;
    *at = r->chain;
    r->state = RECEIVING_FREE;
    t->shares[sky__share_of(r->from)]--;
    r->next = t->receiving_free;
    t->receiving_free = i;
}

/* Goes `a` before `b`? Of an origin that has more, or of one the half that no piece came for
 * longest. */
static bool goes_before(const sky_transport *t, const sky__receiving *a, const sky__receiving *b) {
    uint32_t more = t->shares[sky__share_of(a->from)], less = t->shares[sky__share_of(b->from)];
    return more > less || (more == less && a->last < b->last);
}

/* Half a message goes, rather than a new one be refused. */
static uint32_t receiving_spare(const sky_transport *t) {
    uint32_t spare = SKY__T_NONE;
    for (uint32_t i = 0; i < t->receiving_fresh; i++)
        if (t->receiving[i].state == RECEIVING_PART &&
            (spare == SKY__T_NONE || goes_before(t, &t->receiving[i], &t->receiving[spare])))
            spare = i;
    return spare;
}

static uint32_t receiving_take(sky_transport *t, sky_satellite from, const sky_packet_frame *f) {
    if (t->receiving_free == SKY__T_NONE && t->receiving_fresh == t->config->receiving_max) {
        uint32_t spare = receiving_spare(t);
        if (spare == SKY__T_NONE)
            return SKY__T_NONE;
        t->stat.incomplete_dropped++;
        receiving_free(t, spare);
    }
    uint32_t i = t->receiving_free;
    if (i != SKY__T_NONE)
        t->receiving_free = t->receiving[i].next;
    else
        i = t->receiving_fresh++;
    uint32_t *bucket = bucket_of(t, from, f->number);
    t->receiving[i] = (sky__receiving){.state = RECEIVING_PART,
                                       .from = from,
                                       .number = f->number,
                                       .bytes = f->message_bytes,
                                       .all = (uint32_t)((1ull << f->count) - 1),
                                       .chain = *bucket};
    *bucket = i + 1;
    t->shares[sky__share_of(from)]++;
    return i;
}

/* ---- pieces ---- */

static void send_ack(sky_transport *t, sky_time now, sky_satellite to, uint64_t number,
                     uint32_t bitmap, uint8_t way) {
    sky__outlet *o = &t->outlets[sky__route_to(t, now, to, way)->link];
    if (o->ack_count < SKY__T_ACKS_MAX) /* else: it will be sent again, and acknowledged then */
        o->acks[o->ack_count++] = (sky__ack){to, number, bitmap, way};
}

/* After so long without a piece the others are not just slower. */
static sky_time quiet_ns(const sky_transport *t) {
    return t->config->jitter_ns + t->config->slack_ns / 4 + 1;
}

static sky__done *done_of(const sky_transport *t, sky_satellite from, uint64_t number) {
    return &t->done[place_of(from, number) & (SKY__T_DONE_MAX - 1)];
}

static bool is_done(const sky_transport *t, sky_satellite from, uint64_t number) {
    const sky__done *d = done_of(t, from, number);
    return d->number == number && sky__same(d->from, from);
}

static void message_whole(sky_transport *t, sky_time now, uint32_t i) {
    sky__receiving *r = &t->receiving[i];
    r->state = RECEIVING_WHOLE;
    r->next = SKY__T_NONE;
    if (t->whole.first == SKY__T_NONE)
        t->whole.first = i;
    else
        t->receiving[t->whole.last].next = i;
    t->whole.last = i;
    t->stat.messages_taken++;
    if (r->all > 1)
        t->gaps += (r->gap ? SKY__T_GAPS_ONE / GAPS_SAMPLES : 0) - t->gaps / GAPS_SAMPLES;
    if (sky__is_ground(r->from))
        t->ground = r->from;
    *done_of(t, r->from, r->number) = (sky__done){r->from, r->number};
    send_ack(t, now, r->from, r->number, SKY_PACKET_WHOLE, r->way);
}

static void take_piece(sky_transport *t, sky_time now, sky_satellite from, uint8_t way,
                       const sky_packet_frame *f) {
    uint32_t i = receiving_find(t, from, f->number);
    bool part = i != SKY__T_NONE && t->receiving[i].state == RECEIVING_PART;
    if (!part && is_done(t, from, f->number)) {
        t->stat.duplicates++;
        send_ack(t, now, from, f->number, SKY_PACKET_WHOLE, way);
        return;
    }
    if (f->message_bytes > t->config->message_bytes_max ||
        (i != SKY__T_NONE && t->receiving[i].bytes != f->message_bytes)) {
        t->stat.malformed++;
        return;
    }
    if (i == SKY__T_NONE)
        i = receiving_take(t, from, f);
    if (i == SKY__T_NONE) /* the host does not keep up */
        return;
    sky__receiving *r = &t->receiving[i];
    t->stat.duplicates += r->have >> f->index & 1;
    if (r->state == RECEIVING_WHOLE)
        return;
    memcpy(bytes_of(t, i) + f->offset, f->data, f->data_bytes);
    r->have |= 1u << f->index;
    r->way = way;
    r->last = now;
    r->told = false;
    if (r->have == r->all)
        message_whole(t, now, i);
    else if (now + quiet_ns(t) < t->earliest_in)
        t->earliest_in = now + quiet_ns(t);
}

static void take_frames(sky_transport *t, sky_time now, const sky_packet_head *h,
                        const uint8_t *bytes, size_t byte_count) {
    size_t at = SKY_PACKET_HEAD_BYTES;
    sky_packet_frame f;
    sky_status status;
    while ((status = sky_packet_frame_next(bytes, byte_count, &at, &f)) == SKY_OK) {
        for (uint32_t e = 0; f.type == SKY_FRAME_ACK && e < f.entries; e++) {
            uint64_t number;
            uint32_t bitmap;
            sky_packet_ack_entry_decode(&f, e, &number, &bitmap);
            sky__acknowledged(t, now, h->origin, number, bitmap);
        }
        if (f.type == SKY_FRAME_DATA)
            take_piece(t, now, h->origin, h->way, &f);
        if ((f.type == SKY_FRAME_ASK || f.type == SKY_FRAME_PROOF) && sky__same(h->origin, h->from))
            t->token = f;
    }
    t->stat.malformed += status != SKY_MISS;
}

static sky__link link_of_relay(sky_transport *t, sky_time now, const sky_packet_head *h) {
    return sky__is_ground(sky__next_hop(t, now, h->destination, h->way)) ? SKY__LINK_GROUND
                                                                         : SKY__LINK_ISL;
}

/* For somebody else: it waits for its link. What changes on the way is written when it leaves. */
static void relay_datagram(sky_transport *t, sky_time now, const sky_packet_head *h,
                           const uint8_t *bytes, size_t byte_count) {
    sky__outlet *o = &t->outlets[link_of_relay(t, now, h)];
    uint32_t *share = &o->shares[sky__share_of(h->origin)];
    uint32_t room = t->config->relay_max - o->relay_count;
    bool over_share = *share >= 2 * room;
    if (sky__is_ground(t->config->self) || h->ttl == 0 || over_share) {
        t->stat.undeliverable++;
        t->stat.over_share += over_share;
        return;
    }
    ++*share;
    uint32_t i = (o->relay_first + o->relay_count++) % t->config->relay_max;
    o->relayed[i].bytes = (uint32_t)byte_count;
    memcpy(o->relayed[i].data, bytes, byte_count);
}

/* Messages of which a piece is missing: say so after some quiet, forget them after long quiet. */
static void look_after_pieces(sky_transport *t, sky_time now) {
    sky_time earliest = SKY_TIME_NEVER;
    for (uint32_t i = 0; i < t->receiving_fresh; i++) {
        sky__receiving *r = &t->receiving[i];
        if (r->state != RECEIVING_PART)
            continue;
        if (!r->told && r->last + quiet_ns(t) <= now) {
            send_ack(t, now, r->from, r->number, r->have, r->way);
            r->told = r->gap = true;
        }
        sky_time next = r->last + (r->told ? t->config->age_ns_max : quiet_ns(t));
        if (next <= now) {
            t->stat.incomplete_dropped++;
            receiving_free(t, i);
        } else if (next < earliest) {
            earliest = next;
        }
    }
    t->earliest_in = earliest;
}

/* ---- the host's side ---- */

bool sky_transport_believe(sky_transport *t, sky_time now, const sky_datagram *in) {
    sky_packet_head h;
    return sky__link_accept(t, now, in->data, in->bytes, &h);
}

static void take_datagram(sky_transport *t, sky_time now, const sky_datagram *in,
                          const sky_packet_head *h, sky_satellite *neighbour) {
    t->now = now;
    t->token.type = SKY_FRAME_PADDING;
    t->stat.datagrams_taken++;
    t->stat.bytes_taken += in->bytes;
    if (neighbour)
        *neighbour = h->from;
    if (sky__same(h->destination, t->config->self))
        take_frames(t, now, h, in->data, in->bytes);
    else
        relay_datagram(t, now, h, in->data, in->bytes);
}

void sky_transport_take(sky_transport *t, sky_time now, const sky_datagram *in,
                        sky_satellite *neighbour) {
    sky_packet_head h;
    sky_status status = sky_packet_head_decode(in->data, in->bytes, &h);
    assert(status == SKY_OK); /* it was believed */
    (void)status;
    take_datagram(t, now, in, &h, neighbour);
}

bool sky_transport_input(sky_transport *t, sky_time now, const sky_datagram *in,
                         sky_satellite *neighbour) {
    sky_packet_head h;
    t->now = now;
    bool believed = in && sky__link_accept(t, now, in->data, in->bytes, &h);
    if (believed)
        take_datagram(t, now, in, &h, neighbour);
    if (t->earliest_in <= now)
        look_after_pieces(t, now);
    if (t->earliest_out <= now)
        sky__look_after_messages(t, now);
    return believed;
}

bool sky_transport_token(const sky_transport *t, sky_packet_frame *out) {
    if (t->token.type == SKY_FRAME_PADDING)
        return false;
    *out = t->token;
    return true;
}

bool sky_transport_receive(sky_transport *t, sky_datagram *out) {
    if (t->delivered != SKY__T_NONE)
        receiving_free(t, t->delivered);
    uint32_t i = t->delivered = t->whole.first;
    if (i == SKY__T_NONE)
        return false;
    const sky__receiving *r = &t->receiving[i];
    t->whole.first = r->next;
    *out = (sky_datagram){.from = r->from,
                          .to = t->config->self,
                          .data = bytes_of(t, i),
                          .bytes = r->bytes,
                          .bytes_max = message_stride(t->config)};
    return true;
}
