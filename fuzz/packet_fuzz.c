/* Fuzzes what takes datagrams: first as they come, then in pieces of up to 1,232 bytes with their
 * heads and tags made right, so that the transport behind the tag sees every frame a fuzzer can
 * think of, by every way over the grid. Once as a satellite, once as a ground. What it answers must
 * parse, and never be longer than a datagram; an ASK is answered as its host would. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CONTENT_MAX (SKY_PACKET_BYTES_MAX - SKY_PACKET_HEAD_BYTES - SKY_TAG_BYTES)

static const uint8_t key[SKY_SECRET_BYTES] = "a key";
static const sky_satellite stations[] = {{3, 4}, {0, 5}};

static void check_answer(sky_satellite self, const uint8_t *p, size_t bytes) {
    sky_packet_head h;
    sky_packet_frame f;
    size_t at = SKY_PACKET_HEAD_BYTES;
    assert(bytes <= SKY_PACKET_BYTES_MAX && sky_packet_head_decode(p, bytes, &h) == SKY_OK);
    if (h.origin.plane != self.plane || h.origin.slot != self.slot)
        return; /* relayed: what another said */
    sky_status status;
    while ((status = sky_packet_frame_next(p, bytes, &at, &f)) == SKY_OK) {
    }
    assert(status == SKY_MISS);
}

static void drain(sky_transport *t, sky_satellite self, sky_time now) {
    uint8_t out[SKY_PACKET_BYTES_MAX];
    sky_datagram d = {.data = out, .bytes_max = sizeof out};
    sky_datagram m;
    while (sky_transport_receive(t, &m)) {
        assert(m.bytes >= 1 && m.bytes <= m.bytes_max);
    }
    for (int i = 0; i < 256 && sky_transport_output(t, now, &d); i++)
        check_answer(self, d.data, d.bytes);
}

/* What a host does about an ASK. */
static void answer_token(sky_transport *t, sky_satellite self, sky_time now,
                         sky_satellite neighbour) {
    uint8_t out[SKY_PACKET_BYTES_MAX];
    sky_datagram d = {.data = out, .bytes_max = sizeof out};
    sky_packet_frame token;
    if (!sky_transport_token(t, &token) || token.type != SKY_FRAME_ASK)
        return;
    token.type = SKY_FRAME_PROOF;
    sky_transport_send_token(t, now, neighbour, &token, SKY_TRANSPORT_TOKEN_BYTES, &d);
    assert(d.bytes == SKY_TRANSPORT_TOKEN_BYTES);
    check_answer(self, d.data, d.bytes);
}

/* The first byte of each piece says who it is from and to, and when. Of its length only what is
 * left of a datagram's counts; how often that went into it says by which way it comes, and whether
 * from its origin straight. */
static size_t dress(sky_satellite self, uint32_t said, const uint8_t *content, size_t bytes,
                    uint64_t counter, sky_time now, uint8_t *out) {
    uint8_t choice = content[0];
    uint32_t more = said / CONTENT_MAX;
    sky_satellite from = choice & 2 ? (sky_satellite){0, 5} : (sky_satellite){3, 5};
    sky_satellite origin = choice & 4 ? (sky_satellite){0, 5} : (sky_satellite){2, 5};
    sky_packet_head h = {.suite = SKY_SUITE_PLAIN,
                         .ttl = choice >> 6,
                         .way = (uint8_t)(((choice & 1) + more) % SKY_PACKET_WAYS),
                         .from = from,
                         .to = self,
                         .origin = more / SKY_PACKET_WAYS & 1 ? from : origin,
                         .destination = choice & 8 ? (sky_satellite){1, 1} : self,
                         .epoch = 1 + (choice >> 4 & 1),
                         .counter = counter,
                         .sent = now};
    sky_cipher_key plain;
    sky_cipher_key_init(&plain, SKY_SUITE_PLAIN, key, "", 0);
    sky_packet_head_encode(&h, out);
    memcpy(out + SKY_PACKET_HEAD_BYTES, content + 1, bytes - 1);
    size_t tagged = SKY_PACKET_HEAD_BYTES + bytes - 1;
    sky_tag_make(NULL, &plain, h.counter, out, tagged, out + tagged);
    return tagged + SKY_TAG_BYTES;
}

static void feed(sky_transport *t, sky_satellite self, const uint8_t *data, size_t bytes) {
    uint8_t datagram[SKY_PACKET_BYTES_MAX];
    sky_time now = SKY_MS(1);
    uint64_t counter = 0;
    while (bytes >= 2) {
        uint32_t said = (uint32_t)data[0] << 8 | data[1];
        size_t length = 1 + said % CONTENT_MAX;
        data += 2, bytes -= 2;
        length = length < bytes ? length : bytes;
        if (length == 0)
            break;
        sky_datagram in = {.data = datagram};
        in.bytes = dress(self, said, data, length, ++counter, now, datagram);
        sky_satellite neighbour;
        if (sky_transport_input(t, now, &in, &neighbour))
            answer_token(t, self, now, neighbour);
        if (data[0] & 0x20)
            drain(t, self, now);
        now += SKY_MS(7);
        data += length, bytes -= length;
    }
    for (int i = 0; i < 64 && sky_transport_wake(t) != SKY_TIME_NEVER; i++) {
        now = sky_transport_wake(t) > now ? sky_transport_wake(t) : now + 1;
        sky_transport_input(t, now, NULL, NULL);
        drain(t, self, now);
    }
}

static void run(sky_satellite self, const uint8_t *data, size_t bytes) {
    static sky_frame frame;
    static uint8_t memory[1 << 20];
    if (!frame.servers) {
        sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
        sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
        sky_turning turning = {.rotation_ns = SKY_MS(50)};
        sky_status status = sky_frame_init(&frame, &c, &p, stations[0], &turning, NULL);
        assert(status == SKY_OK);
    }
    sky_transport_config config = {.frame = &frame,
                                   .self = self,
                                   .key = key,
                                   .suites = {.own = SKY_SUITE_PLAIN},
                                   .epoch = 1,
                                   .slack_ns = SKY_MS(1),
                                   .deadline_ns = SKY_SECONDS(1),
                                   .age_ns_max = SKY_MS(500),
                                   .skew_ns_max = SKY_MS(100),
                                   .message_bytes_max = 8192,
                                   .sending_max = 4,
                                   .receiving_max = 4,
                                   .window_max = 8,
                                   .peers_max = 2,
                                   .relay_max = 3};
    assert(sky_transport_bytes(&config) <= sizeof memory);
    sky_transport *t = sky_transport_init(&config, 0, memory, sizeof memory);
    sky_datagram m;
    bool room = sky_transport_begin(t, &m); /* so that acknowledgements mean something */
    assert(room);
    memset(m.data, 1, 3000);
    m.bytes = 3000;
    m.to = (sky_satellite){2, 5};
    sky_transport_send(t, 0, &m);
    sky_datagram raw = {.data = (uint8_t *)(uintptr_t)data, .bytes = bytes};
    sky_transport_input(t, 0, &raw, NULL);
    feed(t, self, data, bytes);
    sky_transport_deinit(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < sizeof stations / sizeof *stations; i++)
        run(stations[i], data, bytes);
    return 0;
}
