/* Proves that messages arrive whole, once and in time over links that lose, double and reorder;
 * that they find their way over the grid; and that no origin takes the room of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "transport/transport_fixture.h"

static const sky_satellite ground = {0, 1};
static const sky_satellite centre = {3, 4};

/* ---- delivery ---- */

static void every_size_arrives(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        sky_net n;
        sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
        uint32_t g = sky_net_add(&n, ground, suite);
        uint32_t s = sky_net_add(&n, centre, suite);
        uint64_t sent = 0;
        for (size_t bytes = 8; bytes <= 8192; bytes += bytes < 2400 ? 37 : 811) {
            assert_true(sky_net_send(&n, g, centre, ++sent, bytes));
            assert_true(sky_net_send(&n, s, ground, sent, bytes));
            sky_net_run(&n, SKY_TIME_NEVER);
            assert_int_equal(n.stations[s].taken, sent);
            assert_int_equal(n.stations[g].taken, sent);
        }
        assert_int_equal(n.stations[s].wrong + n.stations[g].wrong, 0);
        assert_int_equal(n.stations[s].sum, sent * (sent + 1) / 2);
        assert_true(sky_satellite_equal(n.stations[s].taken_from, ground));
        sky_transport_stat t = sky_net_stat(&n, g);
        assert_int_equal(t.pieces_again + t.timeouts + t.given_up + t.duplicates, 0);
        assert_int_equal(sky_transport_wake(n.stations[g].transport), SKY_TIME_NEVER);
        assert_int_equal(sky_transport_wake(n.stations[s].transport), SKY_TIME_NEVER);
        sky_net_close(&n);
    }
}

/* A host that takes what is offered gets a long message as one row of datagrams of one length, and
 * small messages together in its own room. */
static void what_is_offered_lies_in_a_row(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    sky_transport *t = n.stations[g].transport;
    uint8_t room[SKY_PACKET_BYTES_MAX], *next = NULL;
    assert_true(sky_net_send(&n, g, centre, 1, 6301));
    assert_true(sky_net_send(&n, g, centre, 2, 100));
    assert_true(sky_net_send(&n, g, centre, 3, 90));
    sky_datagram_row row;
    for (uint32_t left = 6; left > 0; left -= row.count) {
        n.now = sky_transport_wake(t) > n.now ? sky_transport_wake(t) : n.now; /* its pace */
        assert_true(sky_transport_offer(t, n.now, room, &row));
        assert_true(row.data != room && (!next || row.data == next));
        assert_true(row.count <= left);
        assert_int_equal(row.bytes, SKY_PACKET_HEAD_BYTES + SKY_PACKET_FRAME_BYTES +
                                        sky_packet_stride(6301) + SKY_TAG_BYTES);
        next = row.data + row.count * row.bytes;
    }
    n.now = sky_transport_wake(t);
    assert_true(sky_transport_offer(t, n.now, room, &row));
    assert_true(row.data == room && row.count == 1);
    assert_int_equal(row.bytes,
                     SKY_PACKET_HEAD_BYTES + 2 * SKY_PACKET_FRAME_BYTES + 190 + SKY_TAG_BYTES);
    assert_false(sky_transport_offer(t, n.now, room, &row));
    sky_net_close(&n);
}

/* A piece and its echo may leave a host in one system call: they do not lie in one place. */
static void an_echo_lies_elsewhere(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    sky_transport *t = n.stations[g].transport;
    uint8_t room[SKY_PACKET_BYTES_MAX];
    sky_datagram_row d[3];
    assert_true(sky_net_send(&n, g, centre, 1, 100));
    for (int i = 0; i < 3; i++) {
        while (!sky_transport_offer(t, n.now, room, &d[i])) {
            n.now = sky_transport_wake(t);
            sky_transport_input(t, n.now, NULL, NULL);
        }
    }
    assert_ptr_equal(d[1].data, d[0].data); /* sent again long after */
    assert_ptr_equal(d[2].data, room);
    assert_memory_not_equal(d[1].data, d[2].data, SKY_PACKET_HEAD_BYTES);
    assert_int_equal(sky_net_stat(&n, g).speculative_retries, 1);
    sky_net_close(&n);
}

static void bad_links_are_mended(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        sky_net n;
        sky_net_open(&n, SKY_PLACE_ROTATION_HOP, seed);
        n.loss = seed % 2 ? 0.05 : 0.3;
        n.duplicate = 0.1;
        n.reorder_ns = SKY_MS(2);
        uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
        uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
        uint64_t sent = 0;
        while (sent < 300) {
            if (sky_net_send(&n, g, centre, sent + 1, 8 + sky_prng_below(&n.prng, 8185)))
                sent++;
            else
                sky_net_run(&n, n.now + SKY_MS(5));
        }
        sky_net_run(&n, SKY_TIME_NEVER);
        sky_transport_stat t = sky_net_stat(&n, g);
        assert_int_equal(n.stations[s].taken, 300);
        assert_int_equal(n.stations[s].sum, 300 * 301 / 2); /* each once */
        assert_int_equal(n.stations[s].wrong, 0);
        assert_int_equal(t.given_up, 0);
        assert_true(t.pieces_again > 0 && sky_net_stat(&n, s).duplicates > 0);
        sky_net_close(&n);
    }
}

/* Loses the pieces of an eight-piece message whose bits are set, the first time. */
static bool lose_some(void *context, const sky_net_flight *f) {
    uint32_t *bits = context;
    size_t at = SKY_PACKET_HEAD_BYTES;
    sky_packet_frame frame;
    if (sky_packet_frame_next(f->data, f->bytes, &at, &frame) != SKY_OK ||
        frame.type != SKY_FRAME_DATA || !(*bits >> frame.index & 1))
        return true;
    *bits &= ~(1u << frame.index);
    return false;
}

/* One piece lost costs one piece more, and one round trip and a little. */
static void only_what_is_missing_is_sent_again(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    sky_time light = sky_frame_ground_ns(&n.frame, centre, 0);
    uint32_t bits = 1u << 2 | 1u << 7;
    n.pass = lose_some;
    n.pass_context = &bits;
    sky_time began = n.now;
    assert_true(sky_net_send(&n, g, centre, 1, 8192));
    while (n.stations[s].taken == 0)
        sky_net_run(&n, n.now + SKY_MS(1) / 10);
    assert_int_equal(bits, 0);
    assert_int_equal(n.stations[s].wrong, 0);
    assert_int_equal(sky_net_stat(&n, g).pieces_again, 2);
    assert_int_equal(sky_net_stat(&n, g).timeouts, 0);
    assert_true(n.now - began < 3 * light + SKY_MS(1));
    /* Everything lost: the ephemeris says when. */
    bits = 1;
    began = n.now;
    assert_true(sky_net_send(&n, g, centre, 2, 100));
    while (n.stations[s].taken == 1)
        sky_net_run(&n, n.now + SKY_MS(1) / 10);
    assert_int_equal(sky_net_stat(&n, g).timeouts, 1);
    assert_true(n.now - began < 3 * light + SKY_MS(2));
    sky_net_close(&n);
}

typedef struct {
    uint32_t index; /* of the pieces that are lost */
    uint32_t times; /* how often yet */
} loss;

static bool lose_often(void *context, const sky_net_flight *f) {
    loss *l = context;
    size_t at = SKY_PACKET_HEAD_BYTES;
    sky_packet_frame frame;
    while (sky_packet_frame_next(f->data, f->bytes, &at, &frame) == SKY_OK) {
        if (frame.type != SKY_FRAME_DATA || frame.index != l->index || l->times == 0)
            continue;
        l->times--;
        return false;
    }
    return true;
}

/* What is lost once more when it is sent again costs no second round: it was sent twice, and not in
 * one datagram. */
static void what_is_sent_again_is_sent_twice(void **state) {
    (void)state;
    for (int small = 0; small < 2; small++) {
        sky_net n;
        sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
        uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
        uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
        sky_time light = sky_frame_ground_ns(&n.frame, centre, 0);
        loss l = {.index = small ? 0 : 2, .times = 2};
        n.pass = lose_often;
        n.pass_context = &l;
        sky_time began = n.now;
        assert_true(sky_net_send(&n, g, centre, 1, small ? 100 : 8192));
        while (n.stations[s].taken == 0)
            sky_net_run(&n, n.now + SKY_MS(1) / 10);
        assert_int_equal(l.times, 0);
        assert_true(n.now - began < 3 * light + SKY_MS(2));
        sky_net_run(&n, SKY_TIME_NEVER);
        assert_int_equal(n.stations[s].taken, 1);
        assert_int_equal(sky_net_stat(&n, g).pieces_again, 1);
        assert_int_equal(sky_net_stat(&n, g).speculative_retries, 1);
        sky_net_close(&n);
    }
}

/* A ground that hears gaps says its requests twice, until it has heard none for long; a satellite
 * answers as often as it is asked. */
static void requests_are_said_twice_where_much_is_lost(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    loss l = {.index = 1};
    n.pass = lose_often;
    n.pass_context = &l;
    static const uint32_t lost[] = {0, 10, 0}, clean[] = {0, 0, 600}, echoes[] = {0, 1, 0};
    for (uint64_t i = 0; i < 3; i++) {
        for (uint32_t answers = 0; answers < lost[i] + clean[i]; answers++) {
            l.times = answers < lost[i];
            assert_true(sky_net_send(&n, s, ground, 1, 4000));
            sky_net_run(&n, SKY_TIME_NEVER);
        }
        uint64_t before = sky_net_stat(&n, g).speculative_retries,
                 theirs = sky_net_stat(&n, s).speculative_retries;
        assert_true(sky_net_send(&n, g, centre, 2, 100));
        assert_true(sky_net_send(&n, s, ground, 3, 100));
        sky_net_run(&n, SKY_TIME_NEVER);
        assert_int_equal(sky_net_stat(&n, g).speculative_retries - before, echoes[i]);
        assert_int_equal(sky_net_stat(&n, s).speculative_retries, theirs);
        assert_int_equal(n.stations[s].taken, i + 1); /* once all the same */
    }
    sky_net_close(&n);
}

/* Loses the first datagram that the ground sends to `centre` from here on. */
static bool lose_an_acknowledgement(void *context, const sky_net_flight *f) {
    bool *lost = context;
    if (*lost || !sky_satellite_equal(f->to, centre))
        return true;
    *lost = true;
    return false;
}

/* What was delivered is remembered by sender: satellites of one slot in two planes whose messages
 * bear one number do not make each other forgotten. */
static void planes_are_told_apart(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t a = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    uint32_t b = sky_net_add(&n, (sky_satellite){2, 4}, SKY_SUITE_PLAIN);
    assert_int_equal(n.stations[b].config.epoch, n.stations[a].config.epoch + 1);
    assert_true(sky_net_send(&n, a, ground, 1, 100));
    sky_net_run(&n, SKY_TIME_NEVER);
    bool lost = false;
    n.pass = lose_an_acknowledgement;
    n.pass_context = &lost;
    sky_time farther = sky_frame_ground_ns(&n.frame, (sky_satellite){2, 4}, 0) -
                       sky_frame_ground_ns(&n.frame, centre, 0);
    assert_true(sky_net_send(&n, b, ground, 3, 100));
    sky_net_run(&n, n.now + farther - SKY_MS(1) / 2); /* b's comes right after */
    assert_true(sky_net_send(&n, a, ground, 2, 100)); /* the number is that of b's first */
    sky_net_run(&n, SKY_TIME_NEVER);
    assert_true(lost);
    assert_int_equal(sky_net_stat(&n, g).duplicates, 2); /* sent again, and that twice */
    assert_int_equal(n.stations[g].taken, 3);
    assert_int_equal(n.stations[g].sum, 1 + 2 + 3);
    sky_net_close(&n);
}

/* A link is busy with what it was given: 100 messages take as long as their bits. */
static void the_pace_is_kept(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    sky_time began = n.now;
    for (uint64_t i = 0; i < 60; i++)
        assert_true(sky_net_send(&n, g, centre, i, 8000));
    sky_net_run(&n, SKY_TIME_NEVER);
    sky_transport_stat t = sky_net_stat(&n, g);
    assert_int_equal(n.stations[s].taken, 60);
    assert_int_equal(t.pieces_again, 0);
    sky_time least = sky_link_busy_ns(1000000000, t.bytes_sent);
    assert_true(n.now - began >= least && n.now - began < least + SKY_MS(10));
    sky_net_close(&n);
}

static void the_dead_are_given_up(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    for (uint64_t i = 0; i < 20; i++) /* more pieces than the window holds */
        assert_true(sky_net_send(&n, g, (sky_satellite){3, 5}, i, 8192));
    for (uint64_t i = 0; i < 20; i++)
        assert_true(sky_net_send(&n, g, centre, i, 8192));
    sky_time began = n.now;
    sky_net_run(&n, SKY_TIME_NEVER);
    assert_int_equal(sky_net_stat(&n, g).given_up, 20);
    assert_int_equal(n.stations[s].taken, 20);
    assert_true(n.now - began < SKY_SECONDS(6));
    assert_int_equal(sky_transport_wake(n.stations[g].transport), SKY_TIME_NEVER);
    sky_net_close(&n);
}

/* ---- ways ---- */

/* All 45 satellites of planes 2 to 4, slots 1 to 15. */
static void add_grid(sky_net *n) {
    for (uint32_t plane = 2; plane <= 4; plane++)
        for (uint32_t slot = 1; slot <= 15; slot++)
            sky_net_add(n, (sky_satellite){plane, slot}, SKY_SUITE_PLAIN);
}

static void messages_find_their_way(void **state) {
    (void)state;
    for (int hop = 0; hop < 2; hop++) {
        sky_net n;
        sky_net_open(&n, hop ? SKY_PLACE_HOP : SKY_PLACE_ROTATION_HOP, 1);
        n.loss = 0.02;
        add_grid(&n);
        uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
        uint32_t far = 10; /* (2, 11): a plane and 7 slots from the centre */
        sky_satellite at = n.stations[far].config.self;
        assert_true(sky_net_send(&n, g, at, 1, 5000));
        sky_net_run(&n, SKY_TIME_NEVER);
        assert_int_equal(n.stations[far].taken, 1);
        assert_true(sky_satellite_equal(n.stations[far].taken_from, ground));
        assert_true(n.hops >= 2 * 5 + 1);
        assert_true(sky_net_send(&n, far, ground, 2, 5000));
        assert_true(sky_net_send(&n, far, (sky_satellite){4, 8}, 3, 5000));
        sky_net_run(&n, SKY_TIME_NEVER);
        assert_int_equal(n.stations[g].taken, 1);
        assert_int_equal(n.stations[30 + 7].taken, 1);
        assert_true(sky_satellite_equal(n.stations[30 + 7].taken_from, at));
        uint64_t relayed = 0, wrong = 0;
        for (uint32_t i = 0; i < n.station_count; i++) {
            relayed += sky_net_stat(&n, i).relayed;
            wrong += n.stations[i].wrong + sky_net_stat(&n, i).undeliverable;
        }
        assert_true(relayed > 0);
        assert_int_equal(wrong, 0);
        sky_net_close(&n);
    }
}

static bool is_among(sky_satellite s, const sky_satellite *of, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (sky_satellite_equal(s, of[i]))
            return true;
    }
    return false;
}

/* The number of a random station that is not dead, the ground or off the edge of the grid. */
static uint32_t draw_living(sky_net *n, const sky_satellite *dead, uint32_t count) {
    for (;;) {
        uint32_t i = (uint32_t)sky_prng_below(&n->prng, n->station_count);
        sky_satellite self = n->stations[i].config.self;
        bool inside = self.plane == 0 || (self.slot > 1 && self.slot < 10);
        if (inside && !is_among(self, dead, count))
            return i;
    }
}

/* Two dead satellites cut nobody off, and three whoever is not between them: of the ways some go
 * round. The ground sees planes 2 to 4, slots 2 to 6. */
static void dead_satellites_are_gone_round(void **state) {
    (void)state;
    uint32_t lost = 0;
    for (uint32_t round = 0; round < 50; round++) {
        sky_net n;
        sky_net_open(&n, SKY_PLACE_ROTATION_HOP, round);
        for (uint32_t plane = 1; plane <= 5; plane++)
            for (uint32_t slot = 1; slot <= 10; slot++)
                sky_net_add(&n, (sky_satellite){plane, slot}, SKY_SUITE_PLAIN);
        sky_net_add(&n, ground, SKY_SUITE_PLAIN);
        uint32_t dead_count = 2 + round % 2;
        sky_satellite dead[3];
        for (uint32_t i = 0; i < dead_count; i++) {
            uint32_t station = draw_living(&n, dead, i);
            if (n.stations[station].config.self.plane == 0)
                station = 0;
            dead[i] = n.stations[station].config.self;
            sky_net_stop(&n, station);
        }
        uint32_t from = draw_living(&n, dead, dead_count), to = from;
        while (to == from)
            to = draw_living(&n, dead, dead_count);
        for (uint64_t number = 1; number <= 4; number++)
            assert_true(sky_net_send(&n, from, n.stations[to].config.self, number, 5000));
        sky_net_run(&n, SKY_TIME_NEVER);
        lost += n.stations[to].taken < 4;
        assert_true(n.stations[to].taken == 4 || dead_count == 3);
        sky_net_close(&n);
    }
    assert_true(lost <= 1);
}

/* What nobody answers is sent again, but does not keep the window from those who do. */
static void the_dead_do_not_hold_up_the_living(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t alive = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    n.stations[g].config.window_max = 16;
    sky_net_restart(&n, g);
    for (uint64_t i = 0; i < 20; i++)
        assert_true(sky_net_send(&n, g, (sky_satellite){3, 5}, i + 1, 8000));
    for (uint64_t i = 0; i < 20; i++)
        assert_true(sky_net_send(&n, g, centre, 100 + i, 8000));
    sky_net_run(&n, n.now + SKY_SECONDS(2));
    assert_int_equal(n.stations[alive].taken, 20);
    sky_net_close(&n);
}

/* Nor the room for messages: what waits for the dead is forgotten for what goes to others, long
 * before its deadline. */
static void the_dead_make_room(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t alive = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    n.stations[g].config.window_max = 64;
    n.stations[g].config.sending_max = 32;
    sky_net_restart(&n, g);
    uint64_t number = 1;
    while (sky_net_send(&n, g, (sky_satellite){3, 5}, number, 8000))
        number++;
    assert_int_equal(number, 33);
    sky_net_run(&n, n.now + SKY_MS(500)); /* of 5 s */
    assert_int_equal(sky_net_stat(&n, g).given_up, 0);
    for (uint64_t i = 0; i < 28; i++) /* some are on their way */
        assert_true(sky_net_send(&n, g, centre, 100 + i, 8000));
    sky_net_run(&n, n.now + SKY_MS(100));
    assert_int_equal(n.stations[alive].taken, 28);
    sky_net_close(&n);
}

/* Where there is one plane nobody is aside, least of all the sender himself. */
static void one_plane_has_no_aside(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    sky_frame_deinit(&n.frame);
    sky_constellation ring = {.planes = 1, .slots = 12, .altitude_km = 550, .inclination_deg = 53};
    sky_placement p = {
        .strategy = SKY_PLACE_ROTATION, .servers = 3, .window_planes = 1, .window_slots = 3};
    sky_turning turning = {.rotation_ns = SKY_SECONDS(10)};
    assert_int_equal(sky_frame_init(&n.frame, &ring, &p, (sky_satellite){1, 1}, &turning, NULL),
                     SKY_OK);
    n.loss = 0.1;
    for (uint32_t slot = 1; slot <= ring.slots; slot++)
        sky_net_add(&n, (sky_satellite){1, slot}, SKY_SUITE_PLAIN);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(sky_net_send(&n, i % 12, (sky_satellite){1, (i + 5) % 12 + 1}, i + 1, 5000));
        sky_net_run(&n, SKY_TIME_NEVER);
    }
    uint64_t taken = 0, timeouts = 0;
    for (uint32_t i = 0; i < n.station_count; i++) {
        assert_int_equal(sky_net_stat(&n, i).foreign, 0);
        taken += n.stations[i].taken;
        timeouts += sky_net_stat(&n, i).timeouts;
    }
    assert_int_equal(taken, 20);
    assert_true(timeouts > 0);
    sky_net_close(&n);
}

/* A message in a circle ends: nobody is at the place it is for, and each hop costs it one. */
static void what_finds_nobody_ends(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t a = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    sky_net_add(&n, (sky_satellite){3, 5}, SKY_SUITE_PLAIN);
    n.stations[1].config.relay_max = 1;
    sky_net_restart(&n, 1);
    assert_true(sky_net_send(&n, a, (sky_satellite){3, 7}, 1, 8192));
    sky_net_run(&n, SKY_TIME_NEVER);
    assert_int_equal(sky_net_stat(&n, a).given_up, 1);
    assert_true(sky_net_stat(&n, 1).relayed > 0);
    sky_net_close(&n);
}

/* ---- room ---- */

static bool lose_first_pieces(void *context, const sky_net_flight *f) {
    size_t at = SKY_PACKET_HEAD_BYTES;
    sky_packet_frame frame;
    (void)context;
    return sky_packet_frame_next(f->data, f->bytes, &at, &frame) != SKY_OK ||
           frame.type != SKY_FRAME_DATA || frame.count == 1 || frame.index > 0;
}

/* Pieces of one origin's messages only, and never the last. */
static bool not_the_last(void *context, const sky_net_flight *f) {
    sky_packet_head h;
    sky_packet_frame frame;
    size_t at = SKY_PACKET_HEAD_BYTES;
    const sky_satellite *who = context;
    return sky_packet_head_decode(f->data, f->bytes, &h) != SKY_OK ||
           !sky_satellite_equal(h.origin, *who) ||
           sky_packet_frame_next(f->data, f->bytes, &at, &frame) != SKY_OK ||
           frame.type != SKY_FRAME_DATA || frame.index + 1 < frame.count;
}

/* A ground that leaves half messages lying, more than there is room for, costs another nothing. */
static void who_fills_the_room_makes_room(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 8);
    sky_satellite flooder = {0, 9}, at = {3, 4};
    uint32_t s = sky_net_add(&n, at, SKY_SUITE_PLAIN);
    uint32_t a = sky_net_add(&n, flooder, SKY_SUITE_PLAIN);
    uint32_t b = sky_net_add(&n, (sky_satellite){0, 5}, SKY_SUITE_PLAIN);
    n.stations[s].config.receiving_max = 16;
    sky_net_restart(&n, s);
    n.pass = not_the_last;
    n.pass_context = &flooder;
    uint64_t number = 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            sky_net_send(&n, a, at, number++, 8000);
        assert_true(sky_net_send(&n, b, at, number++, 8000));
        sky_net_run(&n, n.now + SKY_MS(20));
    }
    assert_int_equal(n.stations[s].taken, 20); /* the other's, and nothing of the flooder's */
    assert_true(sky_net_stat(&n, s).incomplete_dropped > 0);
    assert_int_equal(sky_net_stat(&n, b).timeouts, 0);
    sky_net_close(&n);
}

/* One origin's datagrams do not take all the room there is for what is to go on. */
static void nobody_has_a_relay_for_itself(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 9);
    sky_satellite at = {3, 4}, far = {3, 10};
    uint32_t s = sky_net_add(&n, at, SKY_SUITE_PLAIN);
    uint32_t a = sky_net_add(&n, (sky_satellite){0, 9}, SKY_SUITE_PLAIN);
    uint32_t b = sky_net_add(&n, (sky_satellite){0, 5}, SKY_SUITE_PLAIN);
    n.stations[s].config.isl_bits_s = 1000; /* what came stays for long */
    n.stations[s].config.relay_max = 9;
    sky_net_restart(&n, s);
    for (uint64_t number = 1; number <= 16; number++)
        sky_net_send(&n, a, far, number, 1000);
    sky_net_run(&n, n.now + SKY_MS(20));
    sky_transport_stat flooded = sky_net_stat(&n, s);
    assert_true(flooded.over_share >= 16 - 7 && flooded.over_share == flooded.undeliverable);
    sky_net_send(&n, b, far, 17, 1000);
    sky_net_run(&n, n.now + SKY_MS(4)); /* once there, and not yet again */
    assert_int_equal(sky_net_stat(&n, s).datagrams_taken, flooded.datagrams_taken + 1);
    assert_int_equal(sky_net_stat(&n, s).over_share, flooded.over_share);
    sky_net_close(&n);
}

/* Halves of messages, without end: memory is bounded, and whole ones still pass. */
static void halves_do_not_fill_the_memory(void **state) {
    (void)state;
    sky_net n;
    sky_net_open(&n, SKY_PLACE_ROTATION_HOP, 1);
    uint32_t g = sky_net_add(&n, ground, SKY_SUITE_PLAIN);
    uint32_t s = sky_net_add(&n, centre, SKY_SUITE_PLAIN);
    n.stations[s].config.receiving_max = 4;
    sky_net_restart(&n, s);
    n.pass = lose_first_pieces;
    for (uint64_t i = 0; i < 60; i++)
        assert_true(sky_net_send(&n, g, centre, i, 4000));
    sky_net_run(&n, n.now + SKY_MS(50));
    assert_int_equal(n.stations[s].taken, 0);
    assert_true(sky_net_stat(&n, s).incomplete_dropped >= 50);
    assert_true(sky_net_send(&n, g, centre, 77, 1000));
    sky_net_run(&n, n.now + SKY_MS(100));
    assert_int_equal(n.stations[s].taken, 1);
    sky_net_run(&n, SKY_TIME_NEVER);
    assert_int_equal(sky_net_stat(&n, g).given_up, 60);
    sky_net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives),
        cmocka_unit_test(what_is_offered_lies_in_a_row),
        cmocka_unit_test(an_echo_lies_elsewhere),
        cmocka_unit_test(bad_links_are_mended),
        cmocka_unit_test(only_what_is_missing_is_sent_again),
        cmocka_unit_test(what_is_sent_again_is_sent_twice),
        cmocka_unit_test(requests_are_said_twice_where_much_is_lost),
        cmocka_unit_test(planes_are_told_apart),
        cmocka_unit_test(the_pace_is_kept),
        cmocka_unit_test(the_dead_are_given_up),
        cmocka_unit_test(messages_find_their_way),
        cmocka_unit_test(dead_satellites_are_gone_round),
        cmocka_unit_test(one_plane_has_no_aside),
        cmocka_unit_test(the_dead_do_not_hold_up_the_living),
        cmocka_unit_test(the_dead_make_room),
        cmocka_unit_test(what_finds_nobody_ends),
        cmocka_unit_test(halves_do_not_fill_the_memory),
        cmocka_unit_test(who_fills_the_room_makes_room),
        cmocka_unit_test(nobody_has_a_relay_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
