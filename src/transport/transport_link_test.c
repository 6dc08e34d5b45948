/* Proves that what is forged, replayed, stale, foreign or damaged is counted, dropped, and never
 * answered; and that tokens reach the host of who was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "transport/transport_fixture.h"

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
        if (!sky_suite_works(suite))
            continue;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_foreign_key_is_no_key),
        cmocka_unit_test(replays_are_refused),
        cmocka_unit_test(tokens_reach_the_host_once),
        cmocka_unit_test(old_epochs_are_refused),
        cmocka_unit_test(who_was_forgotten_cannot_be_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
