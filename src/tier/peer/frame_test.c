/* Proves: frames keep their bytes (golden vectors), come back as they were, and nothing else is
 * taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "tier/peer/frame.h"

static uint8_t bytes[SKY_PEER_FRAME_BYTES_MAX];
static sky_peer_frame made, read;

/* Encode `made`, which must take `expected` bytes, and decode it into `read`. */
static void again(size_t expected) {
    static uint8_t second[SKY_PEER_FRAME_BYTES_MAX];
    size_t used = sky_peer_encode(&made, bytes), step = used > 200 ? 97 : 1;
    assert_int_equal(used, expected);
    assert_int_equal(sky_peer_decode(bytes, used, &read), SKY_OK);
    assert_int_equal(sky_peer_encode(&read, second), used);
    assert_memory_equal(second, bytes, used);
    for (size_t cut = 0; cut < used; cut += step)
        assert_int_equal(sky_peer_decode(bytes, cut, &read), SKY_E_CORRUPT);
    if (used < sizeof bytes) {
        bytes[used] = 0;
        assert_int_equal(sky_peer_decode(bytes, used + 1, &read), SKY_E_CORRUPT);
    }
    assert_int_equal(sky_peer_decode(bytes, used, &read), SKY_OK);
}

static void assert_hex(const char *hex) {
    for (size_t i = 0; hex[2 * i]; i++) {
        char byte[3];
        snprintf(byte, sizeof byte, "%02x", bytes[i]);
        assert_memory_equal(byte, hex + 2 * i, 2);
    }
}

static void frames_keep_their_bytes(void **state) {
    (void)state;
    made = (sky_peer_frame){.kind = SKY_PEER_READY};
    again(16);
    assert_hex("01000000000000000000000000000000");
    made = (sky_peer_frame){
        .kind = SKY_PEER_WELCOME, .payload_bytes_max = 128 << 20, .connection = 7};
    again(32);
    assert_true(read.payload_bytes_max == 128 << 20 && read.connection == 7);
    assert_hex("02000000000000000000000000000000"
               "00000008000000000700000000000000");
    made = (sky_peer_frame){.kind = SKY_PEER_CANCEL, .id = 9};
    again(16);
    assert_int_equal(read.id, 9);
    assert_hex("05000000090000000000000000000000");
    made = (sky_peer_frame){.kind = SKY_PEER_ASK, .id = 3, .question = SKY_PEER_VERIFY};
    again(16);
    assert_hex("06000000030000000000000002000000");
    made = (sky_peer_frame){.kind = SKY_PEER_TOLD,
                            .id = 3,
                            .question = SKY_PEER_LIST,
                            .told = SKY_E_IO,
                            .numbers = {1, 2, 3, 4},
                            .text_bytes = 500};
    again(16 + 44);
    assert_true(read.told == SKY_E_IO && read.numbers[3] == 4 && read.text_bytes == 500);
    assert_hex("07000000030000000000000001000000"
               "f9ffffff01000000000000000200000000000000");
}

static void puts_keep_their_bytes(void **state) {
    (void)state;
    made = (sky_peer_frame){
        .kind = SKY_PEER_RUN,
        .id = 0x01020304,
        .count = 2,
        .op = SKY_OP_PUT,
        .call.left_ns = 5,
        .call.at_ms = -1,
        .call.ttl_s = 60,
        .call.coding = 2,
        .call.wanted = 3,
        .call.durable = true,
        .orders = {{.key = {{0xaa, 0xbb}}, .bytes = 10, .name_bytes = 3, .name = "k\0z"},
                   {.key = {{0xcc}}, .parent = {{0xdd}}, .bytes = SKY_PAYLOAD_BYTES_MAX}}};
    again(16 + 24 + 2 * 90 + 3);
    assert_true(read.call.durable && !read.call.drop && read.call.at_ms == -1 &&
                read.call.ttl_s == 60);
    assert_true(read.call.coding == 2 && read.call.wanted == 3 && read.op == SKY_OP_PUT);
    assert_int_equal(read.orders[0].name_bytes, 3);
    assert_memory_equal(read.orders[0].name, "k\0z", 3);
    assert_null(read.orders[1].name);
    assert_int_equal(read.orders[1].bytes, SKY_PAYLOAD_BYTES_MAX);
    assert_hex("03000000040302010200000002000000"
               "0500000000000000ffffffffffffffff3c00000002030100aabb");
}

static void gets_and_answers_keep_their_bytes(void **state) {
    (void)state;
    made = (sky_peer_frame){
        .kind = SKY_PEER_RUN,
        .count = 1,
        .op = SKY_OP_GET,
        .orders = {{.key = {{0xaa}}, .offset = 4096, .bytes = SKY_ALL, .room = 65536}}};
    again(16 + 24 + 90);
    assert_true(read.orders[0].offset == 4096 && read.orders[0].room == 65536);
    assert_true(read.orders[0].bytes == SKY_ALL);
    made = (sky_peer_frame){
        .kind = SKY_PEER_DONE,
        .id = 1,
        .count = 2,
        .payloads = true,
        .results = {{.ttl_s = 9, .bytes = 8, .coding = 1, .evict = 1, .pinned = true},
                    {.status = SKY_MISS}}};
    again(16 + 1 + 2 * 18);
    assert_int_equal(read.results[0].evict, SKY_EVICT_SOON);
    assert_true(read.payloads && read.results[0].pinned && read.results[1].status == SKY_MISS);
    assert_hex("04000000010000000200000000000000"
               "01"
               "000000000900000008000000000000000103"
               "010000000000000000000000000000000000");
    made = (sky_peer_frame){.kind = SKY_PEER_RUN, .count = SKY_PEER_ITEMS_MAX, .op = SKY_OP_HAS};
    again(16 + 24 + 90 * SKY_PEER_ITEMS_MAX); /* a lookup of a thousand keys is one frame */
}

/* Change one field of an encoded frame: is it refused? */
static void assert_refused(size_t at, uint64_t value, size_t width) {
    static uint8_t changed[SKY_PEER_FRAME_BYTES_MAX];
    size_t used = sky_peer_encode(&made, bytes);
    assert_int_equal(sky_peer_decode(bytes, used, &read), SKY_OK);
    memcpy(changed, bytes, used);
    for (size_t i = 0; i < width; i++)
        changed[at + i] = (uint8_t)(value >> 8 * i);
    assert_int_equal(sky_peer_decode(changed, used, &read), SKY_E_CORRUPT);
}

static void what_encode_does_not_write_is_refused(void **state) {
    (void)state;
    made = (sky_peer_frame){.kind = SKY_PEER_READY};
    assert_refused(0, 0, 4);
    assert_refused(0, 8, 4);
    assert_refused(8, 1, 4);
    assert_refused(12, 1, 4);
    made = (sky_peer_frame){.kind = SKY_PEER_RUN, .count = 1, .op = SKY_OP_HAS};
    assert_refused(8, 0, 4);
    assert_refused(8, SKY_PEER_ITEMS_MAX + 1, 4);
    assert_refused(12, SKY_OP_LEASE, 4);
    assert_refused(36, 16, 1);          /* coding */
    assert_refused(38, 12, 2);          /* flags */
    assert_refused(40 + 64, 1, 8);      /* an offset, which a lookup has not */
    assert_refused(40 + 64 + 24, 1, 2); /* a name */
    made.op = SKY_OP_PUT;
    assert_refused(40 + 64 + 8 + 4, 1, 4); /* a payload over 4 GiB */
    assert_refused(40 + 64 + 16, 1, 8);    /* room */
    assert_refused(40 + 64 + 24, SKY_NAME_BYTES_MAX + 1, 2);
    made.op = SKY_OP_GET;
    made.count = SKY_PEER_PAYLOAD_ITEMS_MAX;
    assert_refused(40 + 64 + 24, 1, 2);
    made.count++;
    assert_int_equal(sky_peer_decode(bytes, sky_peer_encode(&made, bytes), &read), SKY_E_CORRUPT);
    made = (sky_peer_frame){.kind = SKY_PEER_DONE, .count = 1, .results = {{.status = SKY_MISS}}};
    assert_refused(16, 2, 1);
    assert_refused(17, SKY_PENDING, 4);
    assert_refused(17, 99, 4);
    assert_refused(17 + 8, 1, 8);  /* bytes of a miss */
    assert_refused(17 + 17, 6, 1); /* no class */
    made = (sky_peer_frame){.kind = SKY_PEER_TOLD, .question = SKY_PEER_LIST};
    assert_refused(12, 0, 4);
    assert_refused(12, 4, 4);
    assert_refused(16 + 36 + 4, 1, 4); /* a text over 4 GiB */
    made.question = SKY_PEER_VERIFY;
    assert_refused(16 + 36, 1, 8); /* a text, which only a listing has */
    made.question = SKY_PEER_STAT;
    assert_refused(16 + 36, 1, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_keep_their_bytes),
        cmocka_unit_test(puts_keep_their_bytes),
        cmocka_unit_test(gets_and_answers_keep_their_bytes),
        cmocka_unit_test(what_encode_does_not_write_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
