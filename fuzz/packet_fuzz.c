/* Fuzzes what takes datagrams: first as they come, then in pieces of up to 1,232 bytes with their
 * heads and tags made right, so that the transport behind the tag sees every frame a fuzzer can
 * think of. What it answers must parse, and never be longer than a datagram. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CONTENT_MAX (SKY_PACKET_BYTES_MAX - SKY_PACKET_HEAD_BYTES - SKY_TAG_BYTES)

static const uint8_t key[SKY_SECRET_BYTES] = "a key";
static const sky_satellite self = {3, 4};

static void check_answer(const uint8_t *p, size_t bytes) {
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

static void drain(sky_transport *t, sky_time now) {
    uint8_t out[SKY_PACKET_BYTES_MAX];
    sky_datagram d = {.data = out, .bytes_max = sizeof out};
    sky_datagram m;
    while (sky_transport_receive(t, &m)) {
        assert(m.bytes >= 1 && m.bytes <= m.bytes_max);
    }
    for (int i = 0; i < 256 && sky_transport_output(t, now, &d); i++)
        check_answer(d.data, d.bytes);
}

/* The first byte of each piece says who it is from and to, and when. */
static size_t dress(const uint8_t *content, size_t bytes, uint64_t counter, sky_time now,
                    uint8_t *out) {
    uint8_t choice = content[0];
    sky_packet_head h = {.suite = SKY_SUITE_PLAIN,
                         .ttl = choice >> 6,
                         .way = choice & 1,
                         .from = {choice & 2 ? 0 : 3, 5},
                         .to = self,
                         .origin = {choice & 4 ? 0 : 2, 5},
                         .destination = choice & 8 ? (sky_satellite){1, 1} : self,
                         .epoch = 1 + (choice >> 4 & 1),
                         .counter = counter,
                         .sent = now};
    sky_cipher_key plain;
    sky_cipher_key_init(&plain, SKY_SUITE_PLAIN, key, "", 0);
    sky_packet_head_encode(&h, out);
    memcpy(out + SKY_PACKET_HEAD_BYTES, content + 1, bytes - 1);
    size_t tagged = SKY_PACKET_HEAD_BYTES + bytes - 1;
    sky_tag_make(&plain, h.counter, out, tagged, out + tagged);
    return tagged + SKY_TAG_BYTES;
}

static void feed(sky_transport *t, const uint8_t *data, size_t bytes) {
    uint8_t datagram[SKY_PACKET_BYTES_MAX];
    sky_time now = SKY_MS(1);
    uint64_t counter = 0;
    while (bytes >= 2) {
        size_t length = 1 + (size_t)(data[0] << 8 | data[1]) % CONTENT_MAX;
        data += 2, bytes -= 2;
        length = length < bytes ? length : bytes;
        if (length == 0)
            break;
        sky_datagram in = {.data = datagram};
        in.bytes = dress(data, length, ++counter, now, datagram);
        sky_transport_input(t, now, &in, NULL);
        if (data[0] & 0x20)
            drain(t, now);
        now += SKY_MS(7);
        data += length, bytes -= length;
    }
    for (int i = 0; i < 64 && sky_transport_wake(t) != SKY_TIME_NEVER; i++) {
        now = sky_transport_wake(t) > now ? sky_transport_wake(t) : now + 1;
        sky_transport_input(t, now, NULL, NULL);
        drain(t, now);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static sky_frame frame;
    static uint8_t memory[1 << 20];
    static sky_transport_config config;
    if (!frame.servers) {
        sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
        sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
        sky_turning turning = {.rotation_ns = SKY_MS(50)};
        sky_status status = sky_frame_init(&frame, &c, &p, self, &turning, NULL);
        assert(status == SKY_OK);
        config = (sky_transport_config){.frame = &frame,
                                        .self = self,
                                        .key = key,
                                        .suite = SKY_SUITE_PLAIN,
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
    }
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
    feed(t, data, bytes);
    return 0;
}
