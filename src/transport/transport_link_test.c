/* Proves that what is forged, replayed, stale, foreign or damaged is counted, dropped, and never
 * answered; that stations of either suite understand each other, unless they are configured not to;
 * that tests/golden/datagram.txt has the bytes; and that tokens reach the host of who was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "transport/transport_fixture.h"
#include "wire/golden_fixture.h"

static const sky_satellite ground = {0, 1};
static const sky_satellite centre = {3, 4};

typedef struct {
    sky_net n;
    uint32_t g, s;
    sky_net_flight caught[64]; /* the last datagrams to the satellite */
    uint32_t caught_count;
} scene;

static bool catch_all(void *context, const sky_net_flight *f) {
    scene *x = context;
    if (f->to.plane)
        x->caught[x->caught_count++ % 64] = *f;
    return true;
}

static void scene_open(scene *x, sky_suite suite) {
    memset(x, 0, sizeof *x);
    sky_net_open(&x->n, SKY_PLACE_ROTATION_HOP, 1);
    x->g = sky_net_add(&x->n, ground, suite);
    x->s = sky_net_add(&x->n, centre, suite);
    x->n.pass = catch_all;
    x->n.pass_context = x;
}

/* Hand the satellite a datagram; it must neither believe it nor say anything. */
static void refuse(scene *x, const uint8_t *data, size_t bytes) {
    sky_net_station *s = &x->n.stations[x->s];
    uint8_t out[SKY_PACKET_BYTES_MAX];
    sky_datagram in = {.data = (uint8_t *)(uintptr_t)data, .bytes = bytes};
    sky_datagram d = {.data = out, .bytes_max = sizeof out};
    sky_satellite who = {9, 9};
    assert_false(sky_transport_input(s->transport, x->n.now, &in, &who));
    assert_int_equal(who.plane, 9);
    assert_false(sky_transport_output(s->transport, x->n.now, &d));
    assert_int_equal(sky_transport_wake(s->transport), SKY_TIME_NEVER);
}

static void every_flipped_bit_is_refused(void **state) {
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        scene x;
        scene_open(&x, suite);
        assert_true(sky_net_send(&x.n, x.g, centre, 1, 100));
        sky_net_run(&x.n, SKY_TIME_NEVER);
        assert_int_equal(x.caught_count, 1);
        sky_net_flight f = x.caught[0];
        x.n.now = SKY_SECONDS(1); /* a satellite that was there and did not get it yet */
        sky_net_restart(&x.n, x.s);
        x.n.now = f.at;
        for (size_t bit = 0; bit < f.bytes * 8; bit++) {
            f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            refuse(&x, f.data, f.bytes);
            f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t bytes = 0; bytes < f.bytes; bytes++)
            refuse(&x, f.data, bytes);
        sky_transport_stat t = sky_net_stat(&x.n, x.s);
        assert_int_equal(t.foreign + t.forged + t.stale, f.bytes * 9);
        assert_true(t.foreign > 0 && t.forged > 0 && t.stale > 0);
        assert_int_equal(t.datagrams_taken, 0);
        sky_datagram in = {.data = f.data, .bytes = f.bytes};
        assert_true(sky_transport_input(x.n.stations[x.s].transport, x.n.now, &in, NULL));
        sky_net_close(&x.n);
    }
}

static void a_foreign_key_is_no_key(void **state) {
    (void)state;
    scene x;
    scene_open(&x, SKY_SUITE_CHACHA);
    uint8_t other[SKY_SECRET_BYTES] = {1};
    x.n.stations[x.g].config.key = other;
    sky_net_restart(&x.n, x.g);
    assert_true(sky_net_send(&x.n, x.g, centre, 1, 3000));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    assert_int_equal(x.n.stations[x.s].taken, 0);
    assert_true(sky_net_stat(&x.n, x.s).forged >= 3);
    assert_int_equal(sky_net_stat(&x.n, x.s).datagrams_sent, 0);
    sky_net_close(&x.n);
}

static void replays_are_refused(void **state) {
    (void)state;
    scene x;
    scene_open(&x, SKY_SUITE_CHACHA);
    for (uint64_t i = 0; i < 5; i++)
        assert_true(sky_net_send(&x.n, x.g, centre, i, 8000));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    uint32_t caught = x.caught_count;
    assert_true(caught >= 35 && caught <= 64);
    for (uint32_t i = 0; i < caught; i++)
        refuse(&x, x.caught[i].data, x.caught[i].bytes);
    assert_int_equal(sky_net_stat(&x.n, x.s).replayed, caught);
    assert_int_equal(x.n.stations[x.s].taken, 5);
    /* Nor by a satellite that lost its memory: they were sent before it started. */
    sky_net_restart(&x.n, x.s);
    for (uint32_t i = 0; i < caught; i++)
        refuse(&x, x.caught[i].data, x.caught[i].bytes);
    assert_int_equal(sky_net_stat(&x.n, x.s).stale, caught);
    sky_net_close(&x.n);
}

/* What is asked about an address is the host's to answer, once, and of the latest datagram only. */
static void tokens_reach_the_host_once(void **state) {
    (void)state;
    scene x;
    scene_open(&x, SKY_SUITE_CHACHA);
    sky_transport *g = x.n.stations[x.g].transport, *s = x.n.stations[x.s].transport;
    uint8_t room[SKY_PACKET_BYTES_MAX];
    sky_datagram d = {.data = room, .bytes_max = sizeof room};
    sky_packet_frame f = {.type = SKY_FRAME_PROOF, .number = 0x1122334455667788};
    const sky_packet_frame nothing = {.type = SKY_FRAME_PADDING};
    sky_satellite who;
    assert_false(sky_transport_token(s, &f));
    sky_transport_send_token(g, x.n.now, centre, &f, SKY_TRANSPORT_TOKEN_BYTES, &d);
    assert_int_equal(d.bytes, SKY_TRANSPORT_TOKEN_BYTES);
    assert_true(sky_transport_input(s, x.n.now, &d, &who));
    f.number = 0;
    assert_true(sky_satellite_equal(who, ground) && sky_transport_token(s, &f));
    assert_int_equal(f.type, SKY_FRAME_PROOF);
    assert_true(f.number == 0x1122334455667788);
    refuse(&x, d.data, d.bytes); /* and nothing was to be said to the first either */
    sky_transport_send_token(g, x.n.now, centre, &nothing, 500, &d);
    assert_int_equal(d.bytes, 500);
    assert_true(sky_transport_input(s, x.n.now, &d, &who));
    assert_false(sky_transport_token(s, &f));
    sky_transport_stat t = sky_net_stat(&x.n, x.s);
    assert_int_equal(t.malformed, 0);
    assert_int_equal(t.datagrams_taken, 2);
    sky_net_close(&x.n);
}

static void old_epochs_are_refused(void **state) {
    (void)state;
    scene x;
    scene_open(&x, SKY_SUITE_CHACHA);
    assert_true(sky_net_send(&x.n, x.g, centre, 1, 100));
    x.n.loss = 1;
    sky_net_run(&x.n, x.n.now + SKY_MS(1)); /* caught, never arrived */
    x.n.loss = 0;
    sky_net_flight old = x.caught[0];
    sky_net_restart(&x.n, x.g);
    assert_true(sky_net_send(&x.n, x.g, centre, 2, 100));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    assert_int_equal(x.n.stations[x.s].taken, 1);
    refuse(&x, old.data, old.bytes);
    assert_int_equal(sky_net_stat(&x.n, x.s).stale, 1);
    /* And what is merely late. */
    assert_true(sky_net_send(&x.n, x.g, centre, 3, 100));
    x.n.loss = 1;
    sky_net_run(&x.n, x.n.now + SKY_MS(1));
    sky_net_flight late = x.caught[(x.caught_count - 1) % 64];
    x.n.now += SKY_SECONDS(3);
    refuse(&x, late.data, late.bytes);
    assert_int_equal(sky_net_stat(&x.n, x.s).stale, 2);
    sky_net_close(&x.n);
}

/* The table of neighbours is full of others: who comes back is known again, but not what he said
 * before. */
static void who_was_forgotten_cannot_be_replayed(void **state) {
    (void)state;
    scene x;
    scene_open(&x, SKY_SUITE_CHACHA);
    x.n.stations[x.s].config.peers_max = 2;
    sky_net_restart(&x.n, x.s);
    assert_true(sky_net_send(&x.n, x.g, centre, 1, 100));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    sky_net_flight old = x.caught[0];
    for (uint32_t i = 2; i < 5; i++) {
        uint32_t other = sky_net_add(&x.n, (sky_satellite){0, i}, SKY_SUITE_CHACHA);
        assert_true(sky_net_send(&x.n, other, centre, 1, 100));
        sky_net_run(&x.n, SKY_TIME_NEVER);
    }
    assert_int_equal(x.n.stations[x.s].taken, 4);
    refuse(&x, old.data, old.bytes);
    assert_int_equal(sky_net_stat(&x.n, x.s).stale, 1);
    assert_true(sky_net_send(&x.n, x.g, centre, 2, 100));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    assert_int_equal(x.n.stations[x.s].taken, 5);
    sky_net_close(&x.n);
}

/* The satellite of a scene takes these suites from now on. */
static void take_suites(scene *x, sky_suites suites) {
    x->n.stations[x->s].config.suites = suites;
    sky_net_restart(&x->n, x->s);
}

/* One message up and its acknowledgement down, between stations that send by these suites; does it
 * arrive? */
static bool understand(sky_suites up, sky_suites down) {
    scene x;
    scene_open(&x, up.own);
    x.n.stations[x.g].config.suites = up;
    sky_net_restart(&x.n, x.g);
    take_suites(&x, down);
    assert_true(sky_net_send(&x.n, x.g, centre, 1, 3000));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    sky_transport_stat s = sky_net_stat(&x.n, x.s), g = sky_net_stat(&x.n, x.g);
    bool arrived = x.n.stations[x.s].taken == 1;
    assert_int_equal(arrived, s.unsupported == 0);
    assert_int_equal(s.unsupported, s.foreign);
    assert_true(arrived || s.datagrams_sent == 0);
    bool answered = g.unsupported == 0 && g.given_up == 0;
    sky_net_close(&x.n);
    return arrived && answered;
}

static void either_suite_is_understood(void **state) {
    (void)state;
    for (sky_suite a = SKY_SUITE_AES; a < SKY_SUITE_END; a++) {
        for (sky_suite b = SKY_SUITE_AES; b < SKY_SUITE_END; b++) {
            sky_suites any_a = {.own = a, .both = true}, one_a = {.own = a};
            sky_suites any_b = {.own = b, .both = true}, one_b = {.own = b};
            assert_true(understand(any_a, any_b));
            assert_int_equal(understand(any_a, one_b), a == b);
            assert_int_equal(understand(one_a, any_b), a == b);
            assert_int_equal(understand(one_a, one_b), a == b);
        }
    }
}

/* Who holds the sky's key and speaks by another suite than that station did in the same epoch:
 * refused before a key is derived, and the station is heard as before. */
static void an_epoch_keeps_its_suite(void **state) {
    (void)state;
    scene x;
    scene_open(&x, SKY_SUITE_AES);
    take_suites(&x, (sky_suites){.own = SKY_SUITE_AES, .both = true});
    assert_true(sky_net_send(&x.n, x.g, centre, 1, 100));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    sky_net_flight f = x.caught[0];
    sky_packet_head h;
    sky_cipher_key key;
    assert_int_equal(sky_packet_head_decode(f.data, f.bytes, &h), SKY_OK);
    h.suite = SKY_SUITE_CHACHA;
    h.counter += 100;
    sky_packet_head_encode(&h, f.data);
    sky_packet_link_key(&h, x.n.key, &key);
    size_t tagged = f.bytes - SKY_TAG_BYTES;
    sky_tag_make(x.n.stations[x.g].config.aead, &key, h.counter, f.data, tagged, f.data + tagged);
    refuse(&x, f.data, f.bytes);
    assert_int_equal(sky_net_stat(&x.n, x.s).forged, 1);
    assert_true(sky_net_send(&x.n, x.g, centre, 2, 100));
    sky_net_run(&x.n, SKY_TIME_NEVER);
    assert_int_equal(x.n.stations[x.s].taken, 2);
    sky_net_close(&x.n);
}

/* ---- the bytes ---- */

/* The golden accepts: the first datagram of a ground's that has 100 bytes to say. */
static sky_net_flight make_golden(scene *x, sky_suite suite) {
    scene_open(x, suite);
    assert_true(sky_net_send(&x->n, x->g, centre, 7, 100));
    sky_net_run(&x->n, x->n.now + SKY_MS(1));
    assert_int_equal(x->caught_count, 1);
    x->n.now = SKY_SECONDS(1); /* to a satellite that was there and did not get it yet */
    take_suites(x, (sky_suites){.own = SKY_SUITE_AES, .both = true});
    x->n.now = x->caught[0].at;
    return x->caught[0];
}

/* A name begins with its suite's, or with the count that a reject goes into. */
static void check_golden(const sky_golden *g) {
    scene x;
    sky_suite suite = strncmp(g->name, "aes", 3) == 0 ? SKY_SUITE_AES : SKY_SUITE_CHACHA;
    sky_net_flight made = make_golden(&x, suite);
    sky_datagram d = {.data = (uint8_t *)(uintptr_t)g->bytes, .bytes = g->byte_count};
    if (g->accept) {
        assert_int_equal(made.bytes, g->byte_count);
        assert_memory_equal(made.data, g->bytes, g->byte_count);
        assert_true(sky_transport_input(x.n.stations[x.s].transport, x.n.now, &d, NULL));
    } else {
        refuse(&x, g->bytes, g->byte_count);
    }
    sky_transport_stat t = sky_net_stat(&x.n, x.s);
    bool unsupported = strncmp(g->name, "unsupported", 11) == 0;
    assert_int_equal(t.unsupported, unsupported);
    assert_int_equal(t.foreign, unsupported || strncmp(g->name, "foreign", 7) == 0);
    assert_int_equal(t.forged, strncmp(g->name, "forged", 6) == 0);
    assert_int_equal(t.foreign + t.forged + t.datagrams_taken, 1);
    sky_net_close(&x.n);
}

static void golden_vectors_hold(void **state) {
    (void)state;
    sky_golden g;
    sky_golden_open(&g, "tests/golden/datagram.txt");
    while (sky_golden_next(&g))
        check_golden(&g);
    assert_int_equal(g.accepted, SKY_SUITE_END - SKY_SUITE_AES);
    assert_true(g.rejected >= 20);
}

/* `transport_link_test print` writes the golden accepts: for when datagrams get a new version. */
static int print_golden(void) {
    for (sky_suite suite = SKY_SUITE_AES; suite < SKY_SUITE_END; suite++) {
        scene x;
        sky_net_flight f = make_golden(&x, suite);
        sky_golden_print(sky_suite_name(suite), f.data, f.bytes);
        sky_net_close(&x.n);
    }
    return 0;
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "print") == 0)
        return print_golden();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_foreign_key_is_no_key),
        cmocka_unit_test(replays_are_refused),
        cmocka_unit_test(tokens_reach_the_host_once),
        cmocka_unit_test(old_epochs_are_refused),
        cmocka_unit_test(who_was_forgotten_cannot_be_replayed),
        cmocka_unit_test(either_suite_is_understood),
        cmocka_unit_test(an_epoch_keeps_its_suite),
        cmocka_unit_test(golden_vectors_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
