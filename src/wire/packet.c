#include "wire/packet.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

#define MAGIC          0x504d4b53u /* "SKMP" */
#define ACK_HEAD_BYTES 4
#define COUNTER_OFFSET 32

_Static_assert(SKY_PACKET_MESSAGE_MAX >= SKY_WIRE_BYTES_MAX + SKY_SEAL_BYTES,
               "the largest sealed message is 32 pieces at most");
_Static_assert(SKY_PACKET_HEAD_BYTES + ACK_HEAD_BYTES + SKY_PACKET_ACKS_MAX * SKY_PACKET_ACK_BYTES +
                       SKY_TAG_BYTES <=
                   SKY_PACKET_BYTES_MAX,
               "a full ACK fits a datagram");

static void store_station(uint8_t *p, sky_satellite s) {
    sky_store_u32(p, sky_packet_station(s));
}

static sky_satellite load_station(const uint8_t *p) {
    uint32_t name = sky_load_u32(p);
    if (name >> 31)
        return (sky_satellite){0, name & SKY_PACKET_GROUND_MAX};
    return (sky_satellite){name >> 16, name & UINT16_MAX};
}

/* Plane 0 without the bit of a ground station: it would be a second name for one. */
static bool is_station(const uint8_t *p) {
    return sky_load_u32(p) >> 16 != 0;
}

void sky_packet_head_encode(const sky_packet_head *h, uint8_t *dst) {
    sky_store_u32(dst, MAGIC);
    dst[4] = SKY_PACKET_VERSION;
    dst[5] = (uint8_t)h->suite;
    dst[6] = h->ttl;
    dst[7] = h->way;
    store_station(dst + 8, h->from);
    store_station(dst + 12, h->to);
    store_station(dst + 16, h->origin);
    store_station(dst + 20, h->destination);
    sky_store_u64(dst + 24, h->epoch);
    sky_store_u64(dst + COUNTER_OFFSET, h->counter);
    sky_store_u64(dst + 40, (uint64_t)h->sent);
}

void sky_packet_head_next(const uint8_t *written, uint64_t counter, uint8_t *dst) {
    memcpy(dst, written, SKY_PACKET_HEAD_BYTES);
    sky_store_u64(dst + COUNTER_OFFSET, counter);
}

sky_status sky_packet_head_decode(const uint8_t *p, size_t bytes, sky_packet_head *out) {
    if (bytes < SKY_PACKET_HEAD_BYTES + SKY_TAG_BYTES || bytes > SKY_PACKET_BYTES_MAX)
        return SKY_E_CORRUPT;
    if (sky_load_u32(p) != MAGIC)
        return SKY_E_CORRUPT;
    if (p[4] != SKY_PACKET_VERSION || p[5] >= SKY_SUITE_END)
        return SKY_E_UNSUPPORTED;
    uint64_t sent = sky_load_u64(p + 40);
    if (p[7] >= SKY_PACKET_WAYS || sent >= (uint64_t)SKY_TIME_NEVER || !is_station(p + 8) ||
        !is_station(p + 12) || !is_station(p + 16) || !is_station(p + 20))
        return SKY_E_CORRUPT;
    *out = (sky_packet_head){.suite = (sky_suite)p[5],
                             .ttl = p[6],
                             .way = p[7],
                             .from = load_station(p + 8),
                             .to = load_station(p + 12),
                             .origin = load_station(p + 16),
                             .destination = load_station(p + 20),
                             .epoch = sky_load_u64(p + 24),
                             .counter = sky_load_u64(p + COUNTER_OFFSET),
                             .sent = (sky_time)sent};
    return SKY_OK;
}

void sky_packet_link_key(const sky_packet_head *h, const uint8_t key[SKY_SECRET_BYTES],
                         sky_cipher_key *out) {
    uint8_t name[17];
    store_station(name, h->from);
    store_station(name + 4, h->to);
    sky_store_u64(name + 8, h->epoch);
    name[16] = (uint8_t)h->suite;
    sky_cipher_key_init(out, h->suite, key, name, sizeof name);
}

void sky_packet_data_encode(uint64_t number, uint32_t message_bytes, uint32_t index, uint8_t *dst) {
    dst[0] = SKY_FRAME_DATA;
    dst[1] = (uint8_t)index;
    dst[2] = (uint8_t)sky_packet_pieces(message_bytes);
    dst[3] = 0;
    sky_store_u32(dst + 4, message_bytes);
    sky_store_u64(dst + 8, number);
}

void sky_packet_ack_encode(uint32_t entries, uint8_t *dst) {
    assert(entries >= 1 && entries <= SKY_PACKET_ACKS_MAX);
    dst[0] = SKY_FRAME_ACK;
    dst[1] = (uint8_t)entries;
    dst[2] = dst[3] = 0;
}

void sky_packet_ack_entry_encode(uint64_t number, uint32_t bitmap, uint8_t *dst) {
    sky_store_u64(dst, number);
    sky_store_u32(dst + 8, bitmap);
}

void sky_packet_ack_entry_decode(const sky_packet_frame *ack, uint32_t entry, uint64_t *number,
                                 uint32_t *bitmap) {
    const uint8_t *p = ack->data + (size_t)entry * SKY_PACKET_ACK_BYTES;
    *number = sky_load_u64(p);
    *bitmap = sky_load_u32(p + 8);
}

void sky_packet_token_encode(sky_packet_frame_type type, uint64_t token, uint8_t *dst) {
    dst[0] = (uint8_t)type;
    dst[1] = dst[2] = dst[3] = 0;
    sky_store_u64(dst + 4, token);
}

/* `left` bytes from the frame's type on; returns how many it takes, 0: it is none. */
static size_t read_data(const uint8_t *p, size_t left, sky_packet_frame *out) {
    if (left < SKY_PACKET_FRAME_BYTES || p[3])
        return 0;
    uint32_t index = p[1], count = p[2], message_bytes = sky_load_u32(p + 4);
    if (message_bytes < 1 || message_bytes > SKY_PACKET_MESSAGE_MAX ||
        count != sky_packet_pieces(message_bytes) || index >= count)
        return 0;
    uint32_t offset = index * sky_packet_stride(message_bytes);
    uint32_t bytes = sky_packet_piece_bytes(message_bytes, index);
    if (bytes > left - SKY_PACKET_FRAME_BYTES)
        return 0;
    *out = (sky_packet_frame){.type = SKY_FRAME_DATA,
                              .number = sky_load_u64(p + 8),
                              .index = index,
                              .count = count,
                              .offset = offset,
                              .message_bytes = message_bytes,
                              .data = p + SKY_PACKET_FRAME_BYTES,
                              .data_bytes = bytes};
    return SKY_PACKET_FRAME_BYTES + bytes;
}

static size_t read_ack(const uint8_t *p, size_t left, sky_packet_frame *out) {
    if (left < ACK_HEAD_BYTES || p[2] || p[3])
        return 0;
    uint32_t entries = p[1], bytes = entries * SKY_PACKET_ACK_BYTES;
    if (entries < 1 || bytes > left - ACK_HEAD_BYTES)
        return 0;
    *out = (sky_packet_frame){
        .type = SKY_FRAME_ACK, .data = p + ACK_HEAD_BYTES, .data_bytes = bytes, .entries = entries};
    return ACK_HEAD_BYTES + bytes;
}

static size_t read_token(const uint8_t *p, size_t left, sky_packet_frame *out) {
    if (left < SKY_PACKET_TOKEN_BYTES || p[1] || p[2] || p[3])
        return 0;
    *out = (sky_packet_frame){.type = (sky_packet_frame_type)p[0], .number = sky_load_u64(p + 4)};
    return SKY_PACKET_TOKEN_BYTES;
}

static bool all_zero(const uint8_t *p, size_t bytes) {
    return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0; /* each is as the one before */
}

sky_status sky_packet_frame_next(const uint8_t *bytes, size_t byte_count, size_t *at,
                                 sky_packet_frame *out) {
    size_t end = byte_count - SKY_TAG_BYTES;
    if (*at >= end)
        return SKY_MISS;
    const uint8_t *p = bytes + *at;
    size_t taken = 0;
    if (p[0] == SKY_FRAME_PADDING)
        return all_zero(p, end - *at) ? SKY_MISS : SKY_E_CORRUPT;
    if (p[0] == SKY_FRAME_DATA)
        taken = read_data(p, end - *at, out);
    else if (p[0] == SKY_FRAME_ACK)
        taken = read_ack(p, end - *at, out);
    else if (p[0] == SKY_FRAME_ASK || p[0] == SKY_FRAME_PROOF)
        taken = read_token(p, end - *at, out);
    if (taken == 0)
        return SKY_E_CORRUPT;
    *at += taken;
    return SKY_OK;
}
