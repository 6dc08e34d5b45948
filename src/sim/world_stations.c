/* Stations of a world whose links carry datagrams: the transport that real satellites and grounds
 * run, hosted in virtual time.
 *
 *     node or session ──message──► transport ──datagram──► [ world_links.c ] ──► transport ──► …
 *
 * A station's clock is its satellite's, standing still and off as that is. A satellite that crashes
 * starts a new epoch and has forgotten everyone's; one that holds nothing still relays.
 *
 * Surprise: the suite is the plain one, a checksum. What an adversary may do here is what noise,
 * replays and turned bits do; forging under a key is for the tests of the seals. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world_state.h"

#define GROUND_NUMBER   1 /* of the only ground station */
#define SLACK_NS        SKY_MS(5)
#define DEADLINE_NS     SKY_SECONDS(3)
#define AGE_NS          SKY_SECONDS(5)
#define BACKLOG_NS      SKY_MS(250) /* of messages waiting for the terminal */
#define SENDING_MIN     16
#define GROUND_SENDING  1024
#define SENDING         256
#define GROUND_PEERS    1024
#define NEIGHBOURS      4
#define WINDOW          1024
#define RELAY           256
#define LONG_AGO_NS     SKY_SECONDS(3600)
#define PURGE_BYTES_MAX (84 + SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES)

static uint32_t message_bytes_max(const sky_world *w) {
    uint32_t set = (uint32_t)sky_message_data_offset(SKY_WIRE_SET) + w->scenario.chunk_bytes;
    return set > PURGE_BYTES_MAX ? set : PURGE_BYTES_MAX;
}

/* As many as the terminal carries in BACKLOG_NS: what waits longer is better asked for again. */
static uint32_t ground_sending(const sky_world *w) {
    sky_time each = sky_link_busy_ns(w->grounds[0].bits_s, message_bytes_max(w));
    uint64_t count = each > 0 ? (uint64_t)(BACKLOG_NS / each) : GROUND_SENDING;
    return count < SENDING_MIN      ? SENDING_MIN
           : count < GROUND_SENDING ? (uint32_t)count
                                    : GROUND_SENDING;
}

sky_time sky__station_late_ns(const sky_world *w) {
    if (!w->scenario.links.datagrams)
        return 0;
    sky_time backlog = ground_sending(w) *
                       sky_link_busy_ns(w->grounds[0].bits_s, message_bytes_max(w));
    return 2 * sky_frame_ground_ns_max(&w->frame) + 4 * SLACK_NS + backlog;
}

/* A chunk of 512 bytes takes a datagram of 716 and an acknowledgement of 112. */
uint64_t sky__station_payload_bits_s(const sky_world *w, const sky__ground *g) {
    return w->scenario.links.datagrams ? g->bits_s / 4 * 3 : g->bits_s;
}

/* ---- life ---- */

static sky_time clock_of(const sky_world *w, uint32_t number) {
    return number == sky__ground_number(w) ? w->now : sky__clock(w, &w->sites[number]);
}

static sky_transport_config config_of(const sky_world *w, uint32_t number) {
    const sky_scenario *c = &w->scenario;
    bool ground = number == sky__ground_number(w);
    uint32_t sending = ground ? ground_sending(w) : SENDING;
    return (sky_transport_config){
        .frame = &w->frame,
        .self = ground ? (sky_satellite){0, GROUND_NUMBER} : sky_frame_satellite(&w->frame, number),
        .key = w->station_key,
        .suites = {.own = SKY_SUITE_PLAIN},
        .epoch = (uint64_t)(c->time.start_ms + w->now / SKY_MS(1)) << 16 |
                 (w->stat.crashes & UINT16_MAX),
        .ground_bits_s = w->grounds[0].bits_s,
        .isl_bits_s = c->links.isl_bits_s,
        .slack_ns = SLACK_NS,
        .jitter_ns = c->links.jitter_ns + w->light_extra_ns,
        .deadline_ns = DEADLINE_NS,
        .age_ns_max = AGE_NS,
        .skew_ns_max = 2 * c->faults.skew_ns + SKY_MS(1),
        .message_bytes_max = message_bytes_max(w),
        .sending_max = sending,
        .receiving_max = 2 * (ground ? GROUND_SENDING : SENDING),
        .window_max = WINDOW,
        .peers_max = ground
                         ? (w->frame.satellite_count < GROUND_PEERS ? w->frame.satellite_count + 1
                                                                    : GROUND_PEERS)
                         : NEIGHBOURS + 2,
        .relay_max = ground ? 1 : RELAY};
}

static void add_stat(sky_transport_stat *sum, const sky_transport *t) {
    sky_transport_stat s;
    sky_transport_stats(t, &s);
    SKY_COUNTS_ADD(sum, &s);
}

/* NULL: no memory, and what was for it is as good as lost. */
static sky_transport *transport_of(sky_world *w, uint32_t number) {
    sky__station *s = &w->stations[number];
    if (s->transport)
        return s->transport;
    s->config = config_of(w, number);
    size_t bytes = sky_transport_bytes(&s->config);
    s->memory = malloc(bytes);
    if (s->memory)
        s->transport = sky_transport_init(&s->config, s->since, s->memory, bytes);
    return s->transport;
}

static void end_station(sky_world *w, sky__station *s) {
    if (!s->transport)
        return;
    add_stat(&w->stat.transport, s->transport);
    sky_transport_deinit(s->transport);
    free(s->memory);
    s->transport = NULL;
    s->memory = NULL;
}

sky_status sky__stations_init(sky_world *w) {
    if (!w->scenario.links.datagrams)
        return SKY_OK;
    uint32_t count = w->frame.satellite_count + 1;
    w->stations = calloc(count, sizeof *w->stations);
    if (!w->stations)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        w->stations[i].since = -LONG_AGO_NS;
    return SKY_OK;
}

void sky__stations_deinit(sky_world *w) {
    for (uint32_t i = 0; w->stations && i <= w->frame.satellite_count; i++)
        end_station(w, &w->stations[i]);
    free(w->stations);
}

void sky__station_restart(sky_world *w, uint32_t number) {
    if (!w->stations)
        return;
    end_station(w, &w->stations[number]);
    w->stations[number].since = clock_of(w, number);
    sky_schedule_set(&w->schedule, number, SKY_TIME_NEVER);
}

void sky__stations_stat(const sky_world *w, sky_transport_stat *out) {
    for (uint32_t i = 0; w->stations && i <= w->frame.satellite_count; i++) {
        if (w->stations[i].transport)
            add_stat(out, w->stations[i].transport);
    }
}

/* ---- what comes and goes ---- */

void sky__station_hears(sky_world *w, uint32_t number, const sky_datagram *d) {
    sky_transport *t = transport_of(w, number);
    if (t)
        sky_transport_input(t, clock_of(w, number), d, NULL);
}

bool sky__station_receive(sky_world *w, uint32_t number, sky_datagram *out) {
    sky_transport *t = w->stations[number].transport;
    return t && sky_transport_receive(t, out);
}

/* True: it has said everything. */
static bool hand_over(sky_world *w, sky_transport *t, sky_time clock, sky__output output,
                      void *sender, const sky__site *liar) {
    sky_datagram m;
    while (sky_transport_begin(t, &m)) {
        if (!output(w, sender, &m))
            return true;
        if (!liar || sky__byzantine_alter(w, liar, &m))
            sky_transport_send(t, clock, &m);
    }
    return false;
}

/* True: all that may leave now has left. */
static bool launch_datagrams(sky_world *w, sky_transport *t, sky_time clock) {
    for (;;) {
        uint8_t *buffer = sky__buffer_take(w);
        if (!buffer)
            return false;
        sky_datagram d = {.data = buffer, .bytes_max = w->large.bytes};
        if (!sky_transport_output(t, clock, &d)) {
            sky__buffer_give(w, buffer);
            return true;
        }
        if (d.data != buffer) /* it lies in the transport's own memory */
            memcpy(buffer, d.data, d.bytes);
        d.data = buffer;
        sky__set_out(w, &d);
    }
}

bool sky__station_send(sky_world *w, uint32_t number, sky__output output, void *sender,
                       const sky__site *liar, sky_time *wake_at) {
    sky_transport *t = transport_of(w, number);
    sky_time clock = clock_of(w, number);
    *wake_at = clock + SKY__RETRY_NS;
    if (!t)
        return false;
    bool drained = !sender || hand_over(w, t, clock, output, sender, liar);
    if (launch_datagrams(w, t, clock))
        *wake_at = sky_transport_wake(t);
    return drained;
}

void sky__station_wake(sky_world *w, uint32_t number) {
    if (w->stations && w->stations[number].transport)
        sky_transport_input(w->stations[number].transport, clock_of(w, number), NULL, NULL);
}

sky_time sky__station_wake_at(const sky_world *w, uint32_t number) {
    if (!w->stations || !w->stations[number].transport)
        return SKY_TIME_NEVER;
    return sky_transport_wake(w->stations[number].transport);
}
