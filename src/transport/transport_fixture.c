#include "transport/transport_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"

void sky_net_open(sky_net *n, sky_strategy strategy, uint64_t seed) {
    memset(n, 0, sizeof *n);
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550, .inclination_deg = 53};
    sky_placement p = {.strategy = strategy, .servers = 9};
    sky_turning turning = {.start_ms = 0, .rotation_ns = SKY_SECONDS(10)};
    sky_error error;
    assert_int_equal(sky_frame_init(&n->frame, &c, &p, (sky_satellite){3, 4}, &turning, &error),
                     SKY_OK);
    sky_prng_init(&n->prng, seed);
    n->flights = calloc(SKY_NET_FLIGHTS_MAX, sizeof *n->flights);
    assert_non_null(n->flights);
    memset(n->key, 7, sizeof n->key);
    n->now = SKY_SECONDS(1);
}

void sky_net_stop(sky_net *n, uint32_t station) {
    sky_net_station *s = &n->stations[station];
    if (s->transport)
        sky_transport_deinit(s->transport);
    free(s->memory);
    s->memory = NULL;
    s->transport = NULL;
}

void sky_net_close(sky_net *n) {
    for (uint32_t i = 0; i < n->station_count; i++) {
        sky_net_stop(n, i);
        sky_aead_destroy(n->stations[i].config.aead);
    }
    free(n->flights);
    sky_frame_deinit(&n->frame);
}

void sky_net_restart(sky_net *n, uint32_t station) {
    sky_net_station *s = &n->stations[station];
    sky_net_stop(n, station);
    s->config.epoch = (uint64_t)(n->now / 1000000) << 16 | station;
    size_t bytes = sky_transport_bytes(&s->config);
    s->memory = malloc(bytes);
    assert_non_null(s->memory);
    memset(s->memory, 0xa5, bytes); /* nothing may count on zeros */
    s->transport = sky_transport_init(&s->config, n->now, s->memory, bytes);
}

uint32_t sky_net_add(sky_net *n, sky_satellite self, sky_suite suite) {
    uint32_t i = n->station_count++;
    assert_true(i < SKY_NET_STATIONS_MAX);
    n->stations[i].config = (sky_transport_config){.frame = &n->frame,
                                                   .self = self,
                                                   .key = n->key,
                                                   .suites = {.own = suite},
                                                   .ground_bits_s = 1000000000,
                                                   .isl_bits_s = 10000000000,
                                                   .slack_ns = SKY_MS(1),
                                                   .deadline_ns = SKY_SECONDS(5),
                                                   .age_ns_max = SKY_SECONDS(2),
                                                   .skew_ns_max = SKY_MS(100),
                                                   .message_bytes_max = 8192,
                                                   .sending_max = 64,
                                                   .receiving_max = 64,
                                                   .window_max = 256,
                                                   .peers_max = 16,
                                                   .relay_max = 64};
    if (suite != SKY_SUITE_PLAIN)
        assert_int_equal(sky_aead_create(&n->stations[i].config.aead, NULL), SKY_OK);
    sky_net_restart(n, i);
    return i;
}

static void fill(uint8_t *data, size_t bytes, uint64_t number) {
    sky_prng p;
    sky_prng_init(&p, number);
    sky_store_u64(data, number);
    for (size_t i = 8; i < bytes; i++)
        data[i] = (uint8_t)sky_prng_u64(&p);
}

bool sky_net_send(sky_net *n, uint32_t station, sky_satellite to, uint64_t number, size_t bytes) {
    sky_datagram m;
    if (!sky_transport_begin(n->stations[station].transport, &m))
        return false;
    fill(m.data, bytes, number);
    m.to = to;
    m.bytes = bytes;
    sky_transport_send(n->stations[station].transport, n->now, &m);
    return true;
}

static void take_messages(sky_net_station *s) {
    static uint8_t expected[SKY_PACKET_MESSAGE_MAX];
    sky_datagram m;
    while (sky_transport_receive(s->transport, &m)) {
        uint64_t number = sky_load_u64(m.data);
        fill(expected, m.bytes, number);
        s->taken++;
        s->sum += number;
        s->taken_from = m.from;
        s->wrong += memcmp(expected, m.data, m.bytes) != 0;
    }
}

static sky_time light_ns(const sky_net *n, sky_satellite a, sky_satellite b) {
    uint64_t turns = sky_turns(&n->frame.turning, n->now);
    if (a.plane && b.plane)
        return sky_frame_link_ns(&n->frame, a, b, turns);
    return sky_frame_ground_ns(&n->frame, a.plane ? a : b, turns);
}

static void carry(sky_net *n, const sky_net_flight *f) {
    bool lost = sky_prng_unit(&n->prng) < n->loss;
    if (n->pass && !n->pass(n->pass_context, f))
        lost = true;
    uint32_t copies = lost ? 0 : 1 + (sky_prng_unit(&n->prng) < n->duplicate);
    n->hops++;
    for (uint32_t i = 0; i < copies; i++) {
        assert_true(n->flight_count < SKY_NET_FLIGHTS_MAX);
        sky_net_flight *to = &n->flights[n->flight_count++];
        *to = *f;
        to->at += (sky_time)sky_prng_below(&n->prng, (uint64_t)n->reorder_ns + 1);
    }
}

static void collect(sky_net *n, sky_net_station *s) {
    sky_net_flight f;
    sky_datagram d = {.data = f.data, .bytes_max = sizeof f.data};
    take_messages(s);
    while (sky_transport_output(s->transport, n->now, &d)) {
        assert_true(d.bytes <= SKY_PACKET_BYTES_MAX);
        f.from = d.from;
        f.to = d.to;
        f.bytes = d.bytes;
        f.at = n->now + light_ns(n, d.from, d.to);
        carry(n, &f);
    }
}

static sky_net_station *station_of(sky_net *n, sky_satellite who) {
    for (uint32_t i = 0; i < n->station_count; i++)
        if (sky_satellite_equal(n->stations[i].config.self, who))
            return &n->stations[i];
    return NULL;
}

/* The earliest flight to arrive and the earliest wish to be woken. */
static sky_time next_event(const sky_net *n, uint32_t *flight) {
    sky_time at = SKY_TIME_NEVER;
    *flight = UINT32_MAX;
    for (uint32_t i = 0; i < n->flight_count; i++)
        if (n->flights[i].at < at)
            at = n->flights[i].at, *flight = i;
    for (uint32_t i = 0; i < n->station_count; i++) {
        sky_time wake = n->stations[i].transport ? sky_transport_wake(n->stations[i].transport)
                                                 : SKY_TIME_NEVER;
        if (wake < at)
            at = wake, *flight = UINT32_MAX;
    }
    return at;
}

void sky_net_run(sky_net *n, sky_time until) {
    for (uint32_t i = 0; i < n->station_count; i++)
        if (n->stations[i].transport)
            collect(n, &n->stations[i]);
    uint32_t next;
    for (sky_time at; (at = next_event(n, &next)) < until;) {
        n->now = at > n->now ? at : n->now;
        if (next != UINT32_MAX) {
            sky_net_flight f = n->flights[next];
            n->flights[next] = n->flights[--n->flight_count];
            sky_net_station *s = station_of(n, f.to);
            sky_datagram d = {.data = f.data, .bytes = f.bytes};
            if (!s || !s->transport)
                continue;
            sky_transport_input(s->transport, n->now, &d, NULL);
            collect(n, s);
            continue;
        }
        for (uint32_t i = 0; i < n->station_count; i++) {
            sky_net_station *s = &n->stations[i];
            if (!s->transport || sky_transport_wake(s->transport) > n->now)
                continue;
            sky_transport_input(s->transport, n->now, NULL, NULL);
            collect(n, s);
        }
    }
    if (until != SKY_TIME_NEVER && until > n->now)
        n->now = until;
}

sky_transport_stat sky_net_stat(const sky_net *n, uint32_t station) {
    sky_transport_stat stat;
    sky_transport_stats(n->stations[station].transport, &stat);
    return stat;
}
