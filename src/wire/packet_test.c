/* Proves that heads and frames come back as they were written, that every length of message is cut
 * into pieces that make it up again, and that what breaks a rule of the format is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/packet.h"

static const sky_packet_head head = {.suite = SKY_SUITE_CHACHA,
                                     .ttl = 9,
                                     .way = SKY_PACKET_WAYS - 1,
                                     .from = {1, 2},
                                     .to = {3, 4},
                                     .origin = {0, SKY_PACKET_GROUND_MAX},
                                     .destination = {4096, 4095},
                                     .epoch = 0x123456789abcdef0,
                                     .counter = 77,
                                     .sent = 1234567890123};

static void heads_come_back(void **state) {
    (void)state;
    uint8_t p[SKY_PACKET_BYTES_MAX + 1] = {0};
    sky_packet_head h;
    sky_packet_head_encode(&head, p);
    assert_int_equal(sky_packet_head_decode(p, 64, &h), SKY_OK);
    assert_int_equal(h.suite, head.suite);
    assert_int_equal(h.ttl, 9);
    assert_int_equal(h.way, 4);
    assert_int_equal(h.from.plane, 1);
    assert_int_equal(h.to.slot, 4);
    assert_true(h.origin.plane == 0 && h.origin.slot == SKY_PACKET_GROUND_MAX);
    assert_int_equal(h.destination.plane, 4096);
    assert_true(h.epoch == head.epoch && h.counter == 77 && h.sent == head.sent);
    static const uint8_t expected[] = {0x53, 0x4b, 0x4d, 0x50, 5, 2, 9, 4, 2, 0, 1, 0};
    assert_memory_equal(p, expected, sizeof expected);
    assert_int_equal(sky_packet_head_decode(p, SKY_PACKET_BYTES_MAX, &h), SKY_OK);
    assert_int_equal(sky_packet_head_decode(p, SKY_PACKET_BYTES_MAX + 1, &h), SKY_E_CORRUPT);
    for (size_t bytes = 0; bytes < 64; bytes++)
        assert_int_equal(sky_packet_head_decode(p, bytes, &h), SKY_E_CORRUPT);
    static const size_t strict[] = {0, 1, 2, 3, 7, 47}; /* magic, way, the time's sign */
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++) {
        uint8_t was = p[strict[i]];
        p[strict[i]] = 0x99;
        assert_int_equal(sky_packet_head_decode(p, 64, &h), SKY_E_CORRUPT);
        p[strict[i]] = was;
    }
    for (uint32_t value = 0; value < 256; value++) { /* of the version, then of the suite */
        p[4] = (uint8_t)value;
        assert_int_equal(sky_packet_head_decode(p, 64, &h),
                         value == SKY_PACKET_VERSION ? SKY_OK : SKY_E_UNSUPPORTED);
        p[4] = SKY_PACKET_VERSION;
        p[5] = (uint8_t)value;
        assert_int_equal(sky_packet_head_decode(p, 64, &h),
                         value < SKY_SUITE_END ? SKY_OK : SKY_E_UNSUPPORTED);
        p[5] = SKY_SUITE_CHACHA;
    }
    p[7] = SKY_PACKET_WAYS;
    assert_int_equal(sky_packet_head_decode(p, 64, &h), SKY_E_CORRUPT);
    p[7] = 0;
    for (size_t at = 8; at < 24; at += 4) { /* slot 2 of plane 0, which is no ground station */
        sky_packet_head_encode(&head, p);
        assert_int_equal(sky_packet_head_decode(p, 64, &h), SKY_OK);
        p[at + 2] = p[at + 3] = 0;
        assert_int_equal(sky_packet_head_decode(p, 64, &h), SKY_E_CORRUPT);
    }
}

static void pieces_make_up_the_message(void **state) {
    (void)state;
    for (uint32_t bytes = 1; bytes <= SKY_PACKET_MESSAGE_MAX; bytes += bytes < 3000 ? 1 : 7) {
        uint32_t pieces = sky_packet_pieces(bytes), sum = 0;
        assert_true(pieces >= 1 && pieces <= SKY_PACKET_PIECES_MAX);
        assert_true(sky_packet_stride(bytes) <= SKY_PACKET_PIECE_MAX);
        for (uint32_t i = 0; i < pieces; i++) {
            uint32_t piece = sky_packet_piece_bytes(bytes, i);
            assert_true(piece >= 1 && piece <= sky_packet_stride(bytes));
            assert_int_equal(i * sky_packet_stride(bytes), sum);
            sum += piece;
        }
        assert_int_equal(sum, bytes);
    }
    assert_int_equal(sky_packet_pieces(SKY_PACKET_MESSAGE_MAX), SKY_PACKET_PIECES_MAX);
}

/* A head's room, an ACK of two, a DATA of five bytes, a PROOF, padding, a tag's room. */
static size_t compose(uint8_t *p) {
    size_t at = SKY_PACKET_HEAD_BYTES;
    memset(p, 0, 160);
    sky_packet_ack_encode(2, p + at);
    sky_packet_ack_entry_encode(0x1122334455667788, 0xf0, p + at + 4);
    sky_packet_ack_entry_encode(5, SKY_PACKET_WHOLE, p + at + 16);
    at += 28;
    sky_packet_data_encode(42, 5, 0, p + at);
    memcpy(p + at + SKY_PACKET_FRAME_BYTES, "hello", 5);
    at += SKY_PACKET_FRAME_BYTES + 5;
    sky_packet_token_encode(SKY_FRAME_PROOF, 0x99aabbccddeeff00, p + at);
    return at + SKY_PACKET_TOKEN_BYTES + 3 + SKY_TAG_BYTES;
}

static void frames_come_back(void **state) {
    (void)state;
    uint8_t p[160];
    size_t bytes = compose(p), at = SKY_PACKET_HEAD_BYTES;
    sky_packet_frame f;
    uint64_t number;
    uint32_t bitmap;
    assert_int_equal(sky_packet_frame_next(p, bytes, &at, &f), SKY_OK);
    assert_int_equal(f.type, SKY_FRAME_ACK);
    assert_int_equal(f.entries, 2);
    sky_packet_ack_entry_decode(&f, 0, &number, &bitmap);
    assert_true(number == 0x1122334455667788 && bitmap == 0xf0);
    sky_packet_ack_entry_decode(&f, 1, &number, &bitmap);
    assert_true(number == 5 && bitmap == SKY_PACKET_WHOLE);
    assert_int_equal(sky_packet_frame_next(p, bytes, &at, &f), SKY_OK);
    assert_int_equal(f.type, SKY_FRAME_DATA);
    assert_true(f.number == 42 && f.message_bytes == 5 && f.index == 0 && f.count == 1);
    assert_int_equal(f.data_bytes, 5);
    assert_memory_equal(f.data, "hello", 5);
    assert_int_equal(sky_packet_frame_next(p, bytes, &at, &f), SKY_OK);
    assert_int_equal(f.type, SKY_FRAME_PROOF);
    assert_true(f.number == 0x99aabbccddeeff00);
    assert_int_equal(sky_packet_frame_next(p, bytes, &at, &f), SKY_MISS);
}

static sky_status walk(const uint8_t *p, size_t bytes) {
    sky_packet_frame f;
    sky_status status;
    size_t at = SKY_PACKET_HEAD_BYTES;
    while ((status = sky_packet_frame_next(p, bytes, &at, &f)) == SKY_OK) {
    }
    return status;
}

static void broken_frames_are_refused(void **state) {
    (void)state;
    uint8_t p[160];
    size_t bytes = compose(p);
    static const size_t frames[] = {SKY_PACKET_HEAD_BYTES, SKY_PACKET_HEAD_BYTES + 28,
                                    SKY_PACKET_HEAD_BYTES + 28 + SKY_PACKET_FRAME_BYTES + 5};
    static const struct {
        size_t offset;
        uint8_t value;
        enum { IN_ACK, IN_DATA, IN_PROOF } where;
    } breaks[] = {{0, 3, IN_ACK},   {0, 99, IN_ACK},  {1, 0, IN_ACK},   {1, 97, IN_ACK},
                  {2, 1, IN_ACK},   {3, 1, IN_ACK},   {1, 1, IN_DATA},  {2, 0, IN_DATA},
                  {2, 2, IN_DATA},  {3, 1, IN_DATA},  {4, 0, IN_DATA},  {4, 35, IN_DATA},
                  {6, 1, IN_DATA},  {7, 1, IN_DATA},  {0, 5, IN_PROOF}, {1, 1, IN_PROOF},
                  {2, 1, IN_PROOF}, {3, 1, IN_PROOF}, {0, 2, IN_PROOF}};
    assert_int_equal(walk(p, bytes), SKY_MISS);
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        uint8_t *at = p + frames[breaks[i].where] + breaks[i].offset;
        uint8_t was = *at;
        *at = breaks[i].value;
        assert_int_equal(walk(p, bytes), SKY_E_CORRUPT);
        *at = was;
    }
    p[bytes - SKY_TAG_BYTES - 1] = 1; /* in the padding */
    assert_int_equal(walk(p, bytes), SKY_E_CORRUPT);
    compose(p);
    for (size_t cut = 4; cut < bytes - SKY_PACKET_HEAD_BYTES - SKY_TAG_BYTES; cut++) {
        sky_status status = walk(p, bytes - cut);
        assert_true(status == SKY_E_CORRUPT || status == SKY_MISS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_come_back),
        cmocka_unit_test(pieces_make_up_the_message),
        cmocka_unit_test(frames_come_back),
        cmocka_unit_test(broken_frames_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
