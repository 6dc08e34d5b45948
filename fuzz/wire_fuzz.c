/* Fuzzes the message decoder and what stands behind it: a satellite that takes whatever
 * comes. An input is messages end to end, each as long as it says. The check in the head would keep
 * a fuzzer out, so it is made right first; a message that decodes must encode to the same bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "satellite/node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define HEAD_MIN 32

static void mend_check(uint8_t *message, size_t bytes) {
    uint32_t data_bytes = sky_load_u32(message + 12);
    if (data_bytes > bytes - HEAD_MIN)
        return;
    size_t head_bytes = message[5] == SKY_WIRE_PURGE ? bytes : bytes - data_bytes;
    uint64_t seed = sky_checksum(message, 24, 0);
    sky_store_u64(message + 24, sky_checksum(message + HEAD_MIN, head_bytes - HEAD_MIN, seed));
}

static void round_trip(const uint8_t *message, size_t bytes) {
    sky_message m;
    if (sky_message_decode(message, bytes, &m) != SKY_OK)
        return;
    sky_block_head head;
    uint8_t head_bytes[SKY_HEAD_BYTES];
    if (sky_head_decode(m.data, m.data_bytes, &head) == SKY_OK) {
        sky_head_encode(&head, head_bytes);
        assert(memcmp(head_bytes, m.data, sizeof head_bytes) == 0);
    }
    uint8_t *again = malloc(bytes);
    assert(again && sky_message_encode(&m, again, bytes) == bytes);
    assert(memcmp(again, message, bytes) == 0);
    free(again);
}

/* The frames of skies: with several servers, and with one. */
static const sky_frame *frame_of(bool single) {
    static sky_frame frames[2];
    const sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
    const sky_turning turning = {.rotation_ns = SKY_SECONDS(1)};
    const sky_placement p = {.strategy = SKY_PLACE_ROTATION, .servers = single ? 1 : 5};
    sky_frame *f = &frames[single];
    bool made = f->satellite_count > 0 ||
                sky_frame_init(f, &c, &p, (sky_satellite){3, 4}, &turning, NULL) == SKY_OK;
    assert(made);
    return made ? f : NULL;
}

/* The next message of an input: as long as it says, or all that is left. */
static size_t message_bytes(const uint8_t *at, size_t left) {
    uint32_t bytes = left >= HEAD_MIN ? sky_load_u32(at + 8) : 0;
    return bytes >= HEAD_MIN && bytes <= left ? bytes : left;
}

static void feed_satellite(uint8_t *messages, size_t bytes) {
    static uint8_t memory[1 << 16];
    static uint8_t answer[SKY_WIRE_BYTES_MAX];
    const sky_node_config config = {.constellation = {.planes = 5, .slots = 19},
                                    .turning = {.rotation_ns = SKY_SECONDS(1)},
                                    .migrate_timeout_ns = SKY_MS(10),
                                    .migrate_window = 4,
                                    .queue_max = 4,
                                    .chunk_bytes_max = 512,
                                    .memory_bytes = 4096,
                                    .gossip_hops = 2,
                                    .tell_ground = true,
                                    .sweep_period_ns = SKY_MS(200),
                                    .sweep_grace_ns = SKY_MS(50),
                                    .frame = frame_of(bytes & 2),
                                    .mend_period_ns = SKY_MS(400),
                                    .mend_grace_ns = SKY_MS(20),
                                    .mend_copy_gap_ns = SKY_MS(1)};
    assert(sky_node_bytes(&config) <= sizeof memory);
    sky_node node;
    sky_node_init(&node, &config, (sky_satellite){3, 4}, 0, memory, sizeof memory);
    sky_datagram out = {.data = answer, .bytes_max = sizeof answer};
    size_t at = 0;
    for (sky_time now = 0; now < SKY_SECONDS(3); now += SKY_MS(300)) {
        size_t one = message_bytes(messages + at, bytes - at);
        sky_satellite from = one % 2 ? (sky_satellite){3, 5} : SKY_GROUND;
        sky_datagram in = {.from = from, .to = {3, 4}, .data = messages + at, .bytes = one};
        sky_node_input(&node, now, &in);
        for (int i = 0; i < 16 && sky_node_output(&node, now, &out); i++)
            round_trip(out.data, out.bytes);
        at = at + one < bytes ? at + one : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes > SKY_WIRE_BYTES_MAX)
        return 0;
    uint8_t *message = malloc(bytes ? bytes : 1);
    assert(message);
    memcpy(message, data, bytes);
    round_trip(message, bytes);
    for (size_t at = 0, one; at + HEAD_MIN <= bytes; at += one) {
        one = message_bytes(message + at, bytes - at);
        mend_check(message + at, one);
        round_trip(message + at, one);
    }
    if (bytes >= HEAD_MIN)
        feed_satellite(message, bytes);
    free(message);
    return 0;
}
