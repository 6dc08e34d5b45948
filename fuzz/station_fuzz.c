/* Fuzzes what a satellite on a real socket makes of where grounds say they are. Two addresses of
 * one adversary send it datagrams of up to four grounds, under right tags: what caught a ground's
 * datagrams can send them from anywhere. Tokens come back from where they were sent, from the other
 * address, or made up. No address gets more bytes than came from it before it sent its own token
 * back. Chance (tokens, the satellite's epoch) differs from run to run and must not matter. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <skymem-sky/satellite.h>

#include "base/bytes.h"
#include "io/secret.h"
#include "tier/skyudp/station.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define PLACES      2
#define CONTENT_MAX (SKY_PACKET_BYTES_MAX - SKY_PACKET_HEAD_BYTES - SKY_TAG_BYTES)
#define STEPS_MAX   200
#define START_MS    1800000000000

typedef struct {
    sky_udp *socket;
    uint64_t to, from; /* bytes */
    bool proven;
    uint64_t asked;                     /* the last token that was sent there; 0: none */
    uint8_t last[SKY_PACKET_BYTES_MAX]; /* what it sent last */
    size_t last_bytes;
} place;

typedef struct {
    sky_scenario scenario;
    char folder[32], path[64], key[64];
    uint8_t secret[SKY_SECRET_BYTES];
    sky_aead *aead;
    sky_address satellite;
    place places[PLACES];
} site;

typedef struct {
    const uint8_t *at, *end;
} input;

static const sky_satellite self = {1, 1};
static sky_time time_now;

static sky_time clock_now(const sky_clock *clock) {
    (void)clock;
    return time_now;
}

static int64_t clock_wall(const sky_clock *clock) {
    (void)clock;
    return START_MS + time_now / SKY_MS(1);
}

static uint8_t next(input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- once ---- */

static sky_udp *open_socket(void) {
    static const sky_udp_options options = {.datagram_bytes_max = SKY_PACKET_BYTES_MAX,
                                            .buffer_bytes = 1 << 20};
    sky_address any;
    sky_udp *u = NULL;
    sky_status status = sky_address_parse("127.0.0.1:0", &any, NULL);
    assert(status == SKY_OK);
    status = sky_udp_open(&any, &options, &u, NULL);
    assert(status == SKY_OK);
    return u;
}

static site sky;

static void clean(void) {
    unlink(sky.key);
    rmdir(sky.folder);
}

static void build(site *s) {
    char text[400];
    snprintf(s->folder, sizeof s->folder, "/tmp/skymem-fuzz-XXXXXX");
    const char *made = mkdtemp(s->folder);
    sky_udp *u = open_socket(); /* a port that is free, away from the last ones */
    s->satellite = sky_udp_address(u);
    sky_udp_close(u);
    snprintf(s->path, sizeof s->path, "%s/sky.yaml", s->folder);
    snprintf(s->key, sizeof s->key, "%s/k", s->folder);
    sky_status status = made ? sky_satellite_key_make(s->key, NULL) : SKY_E_IO;
    assert(status == SKY_OK);
    atexit(clean);
    status = sky_secret_read(s->key, s->secret, NULL);
    assert(status == SKY_OK);
    int length = snprintf(text, sizeof text,
                          "constellation: {planes: 3, slots: 5}\ntime: {start: "
                          "2026-01-01T00:00:00Z}\nudp: {base: 127.0.0.1:%u, key: k, tenant: k, "
                          "cipher: chacha, far: false}\n",
                          sky_address_port(&s->satellite));
    sky_error error = {0};
    status = sky_scenario_parse(text, (size_t)length, s->path, &s->scenario, &error);
    assert(status == SKY_OK);
    sky_station_key(&s->scenario, s->secret, s->secret);
    status = sky_aead_create(&s->aead, &error);
    assert(status == SKY_OK);
    for (int i = 0; i < PLACES; i++)
        s->places[i].socket = open_socket();
}

/* ---- the adversary ---- */

/* A datagram of a ground's with these frames. */
static size_t dress(sky_station *station, uint32_t slot, const uint8_t *frames, size_t bytes,
                    uint8_t out[SKY_PACKET_BYTES_MAX]) {
    static uint64_t counter;
    sky_packet_head h = {.suite = SKY_SUITE_CHACHA,
                         .ttl = 1,
                         .from = {0, slot},
                         .to = self,
                         .origin = {0, slot},
                         .destination = self,
                         .epoch = 1,
                         .counter = ++counter,
                         .sent = sky_station_now(station)};
    sky_cipher_key key;
    sky_packet_link_key(&h, sky.secret, &key);
    sky_packet_head_encode(&h, out);
    memcpy(out + SKY_PACKET_HEAD_BYTES, frames, bytes);
    sky_tag_make(sky.aead, &key, h.counter, out, SKY_PACKET_HEAD_BYTES + bytes,
                 out + SKY_PACKET_HEAD_BYTES + bytes);
    return SKY_PACKET_HEAD_BYTES + bytes + SKY_TAG_BYTES;
}

static void send_from(place *p, const uint8_t *data, size_t bytes) {
    uint8_t *room = sky_udp_room(p->socket);
    if (bytes == 0) /* nothing was caught yet */
        return;
    memcpy(room, data, bytes);
    sky_udp_put(p->socket, &sky.satellite, room, bytes);
    sky_udp_flush(p->socket);
    p->from += bytes;
    memmove(p->last, data, bytes);
    p->last_bytes = bytes;
}

/* What came back, and what is asked in it. */
static void look(place *p) {
    uint8_t *data;
    size_t bytes;
    const sky_address *from;
    while (sky_udp_receive(p->socket)) {
        while (sky_udp_next(p->socket, &data, &bytes, &from)) {
            sky_packet_frame f;
            size_t at = SKY_PACKET_HEAD_BYTES;
            p->to += bytes;
            if (sky_packet_frame_next(data, bytes, &at, &f) == SKY_OK && f.type == SKY_FRAME_ASK)
                p->asked = f.number;
        }
    }
    assert(p->proven || p->to <= p->from);
}

static void turn(sky_station *station) {
    for (bool more = true; more;)
        more = sky_station_take(station, sky_station_now(station));
    sky_datagram m;
    while (sky_transport_receive(sky_station_transport(station), &m)) {
    }
    sky_station_send(station, sky_station_now(station));
    for (int i = 0; i < PLACES; i++)
        look(&sky.places[i]);
}

/* A message for a ground, as large as it takes to need more than a few datagrams. */
static void answer(sky_station *station, uint32_t slot, size_t bytes) {
    sky_datagram m;
    sky_transport *t = sky_station_transport(station);
    if (!sky_transport_begin(t, &m) || bytes > m.bytes_max)
        return;
    memset(m.data, 7, bytes);
    m.bytes = bytes;
    m.to = (sky_satellite){0, slot};
    sky_transport_send(t, sky_station_now(station), &m);
}

static void prove(sky_station *station, place *p, uint32_t slot, uint64_t token, bool own) {
    uint8_t frame[SKY_PACKET_TOKEN_BYTES] = {SKY_FRAME_PROOF}, out[SKY_PACKET_BYTES_MAX];
    sky_store_u64(frame + 4, token);
    p->proven |= own && token;
    send_from(p, out, dress(station, slot, frame, sizeof frame, out));
}

static void step(sky_station *station, input *in) {
    uint8_t choice = next(in), out[SKY_PACKET_BYTES_MAX], frames[CONTENT_MAX] = {0};
    place *p = &sky.places[choice & 1], *other = &sky.places[~choice & 1];
    uint32_t slot = 1 + (choice >> 1 & 3);
    size_t bytes = 4 * (size_t)next(in);
    uint64_t made_up = 0;
    switch (choice >> 3 & 7) {
    case 0: /* padding */
        send_from(p, out, dress(station, slot, frames, bytes, out));
        break;
    case 1:
        prove(station, p, slot, p->asked, true);
        break;
    case 2:
        prove(station, p, slot, other->asked, false);
        break;
    case 3:
        for (int i = 0; i < 8; i++)
            made_up = made_up << 8 | next(in);
        prove(station, p, slot, made_up, false);
        break;
    case 4: /* any frames */
        for (size_t i = 0; i < bytes; i++)
            frames[i] = next(in);
        send_from(p, out, dress(station, slot, frames, bytes, out));
        break;
    case 5: /* what was caught */
        send_from(p, other->last, other->last_bytes);
        break;
    case 6:
        answer(station, slot, 1 + 6 * bytes);
        break;
    default:
        time_now += SKY_MS(1) * (sky_time)bytes;
    }
    turn(station);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const sky_clock clock = {clock_now, clock_wall};
    input in = {data, data + bytes};
    if (!sky.path[0])
        build(&sky);
    for (int i = 0; i < PLACES; i++) {
        place *p = &sky.places[i];
        *p = (place){.socket = p->socket};
    }
    time_now += SKY_SECONDS(10); /* whatever was sent before is too old */
    sky_station *station = NULL;
    sky_station_options options = {
        .scenario = &sky.scenario, .path = sky.path, .self = self, .clock = &clock};
    sky_status status = sky_station_open(&options, &station, NULL);
    assert(status == SKY_OK);
    time_now += SKY_MS(10);
    for (int i = 0; i < STEPS_MAX && in.at < in.end; i++)
        step(station, &in);
    for (int i = 0; i < 40; i++) {
        time_now += SKY_MS(50);
        turn(station);
    }
    sky_station_close(station);
    return 0;
}
