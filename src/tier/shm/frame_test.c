/* Proves: frames keep their bytes (golden vectors), come back as they were, and nothing else is
 * taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tier/shm/frame.h"

static uint8_t bytes[SKY_SHM_FRAME_BYTES_MAX];

static sky_shm_frame again(const sky_shm_frame *f, size_t expected) {
    static sky_shm_frame out;
    uint8_t second[SKY_SHM_FRAME_BYTES_MAX];
    size_t used = sky_shm_encode(f, bytes);
    assert_int_equal(used, expected);
    assert_int_equal(sky_shm_decode(bytes, used, &out), SKY_OK);
    assert_int_equal(sky_shm_encode(&out, second), used);
    assert_memory_equal(second, bytes, used);
    for (size_t cut = 0; cut < used; cut++)
        assert_int_equal(sky_shm_decode(bytes, cut, &out), SKY_E_CORRUPT);
    bytes[used] = 0;
    assert_int_equal(sky_shm_decode(bytes, used + 1, &out), SKY_E_CORRUPT);
    assert_int_equal(sky_shm_decode(bytes, used, &out), SKY_OK);
    return out;
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
    sky_shm_frame f = {.kind = SKY_SHM_HELLO, .version = 1};
    again(&f, 24);
    assert_hex("01000000000000000000000001000000"
               "89534b5953484d31");
    f.count = SKY_TIERS_MAX;
    assert_int_equal(again(&f, 24).count, SKY_TIERS_MAX);
    strcpy(f.pool, "chat-2");
    f = again(&f, 30);
    assert_string_equal(f.pool, "chat-2");
    assert_hex("01000000060000000800000001000000"
               "89534b5953484d31636861742d32");
    bytes[24] = '/'; /* no name */
    assert_int_equal(sky_shm_decode(bytes, 30, &f), SKY_E_CORRUPT);
    f = (sky_shm_frame){.kind = SKY_SHM_HELLO, .version = 1, .count = SKY_TIERS_MAX + 1};
    assert_int_equal(sky_shm_decode(bytes, sky_shm_encode(&f, bytes), &f), SKY_E_CORRUPT);
    f = (sky_shm_frame){.kind = SKY_SHM_WELCOME,
                        .version = 1,
                        .arena_bytes = 128 << 20,
                        .segment_bytes = 64 << 20,
                        .client = 7};
    f = again(&f, 40);
    assert_true(f.arena_bytes == 128 << 20 && f.segment_bytes == 64 << 20 && f.client == 7);
    assert_hex("02000000000000000000000001000000"
               "000000080000000000000004000000000700000000000000");
    f = (sky_shm_frame){.kind = SKY_SHM_REFUSED, .status = SKY_E_DENIED};
    assert_int_equal(again(&f, 16).status, SKY_E_DENIED);
    assert_hex("030000000000000000000000f5ffffff");
    f = (sky_shm_frame){.kind = SKY_SHM_SEGMENT, .segment = 3, .generation = 0x0807};
    f = again(&f, 24);
    assert_true(f.segment == 3 && f.generation == 0x0807);
    assert_hex("0a0000000000000000000000030000000708000000000000");
    f = (sky_shm_frame){.kind = SKY_SHM_INDEX};
    (void)again(&f, 16);
    assert_hex("15000000000000000000000000000000");
    f = (sky_shm_frame){.kind = SKY_SHM_PAGE};
    (void)again(&f, 16);
    assert_hex("16000000000000000000000000000000");
    f = (sky_shm_frame){.kind = SKY_SHM_RELEASE, .count = 2, .leases = {5, 0x1122334455667788}};
    assert_true(again(&f, 32).leases[1] == 0x1122334455667788);
    assert_hex("06000000000000000200000000000000"
               "05000000000000008877665544332211");
    f = (sky_shm_frame){.kind = SKY_SHM_STAGED, .status = SKY_E_FULL, .stage_bytes = 4096};
    assert_int_equal(again(&f, 24).stage_bytes, 4096);
    f = (sky_shm_frame){.kind = SKY_SHM_CANCEL, .id = 9};
    assert_int_equal(again(&f, 16).id, 9);
}

static void runs_keep_their_bytes(void **state) {
    (void)state;
    sky_shm_frame f = {
        .kind = SKY_SHM_RUN,
        .id = 0x01020304,
        .count = 1,
        .op = SKY_OP_PUT,
        .call.left_ns = 5,
        .call.at_ms = -1,
        .call.ttl_s = 60,
        .call.coding = 2,
        .call.wanted = 3,
        .call.durable = true,
        .orders = {{.key = {{0xaa, 0xbb}}, .at = 4096, .bytes = 10, .name_bytes = 3}}};
    f = again(&f, 40 + 84);
    assert_true(f.call.durable && !f.call.drop && f.call.at_ms == -1 && f.call.ttl_s == 60 &&
                f.call.wanted == 3);
    assert_true(f.orders[0].key.bytes[1] == 0xbb && f.orders[0].at == 4096);
    assert_true(f.orders[0].bytes == 10 && f.orders[0].name_bytes == 3);
    assert_hex("04000000040302010100000002000000"
               "0500000000000000ffffffffffffffff3c00000002030100"
               "aabb");
    f.count = SKY_SHM_ITEMS_MAX;
    again(&f, 40 + 84 * SKY_SHM_ITEMS_MAX);
    f = (sky_shm_frame){.kind = SKY_SHM_DONE,
                        .id = 1,
                        .count = 2,
                        .results = {{.status = SKY_OK,
                                     .ttl_s = 9,
                                     .bytes = 8,
                                     .at = 64,
                                     .lease = 65536,
                                     .coding = 1,
                                     .evict = SKY_EVICT_LAST,
                                     .pinned = true},
                                    {.status = SKY_MISS}}};
    f = again(&f, 16 + 2 * 34);
    assert_int_equal(f.results[0].evict, SKY_EVICT_LAST);
    assert_true(f.results[0].pinned && f.results[0].lease == 65536 && f.results[0].at == 64);
    assert_int_equal(f.results[1].status, SKY_MISS);
    assert_hex("05000000010000000200000000000000"
               "000000000900000008000000000000004000000000000000000001000000000001"
               "05"
               "01000000");
}

static void frames_of_blocks_keep_their_bytes(void **state) {
    (void)state;
    sky_shm_frame f = {.kind = SKY_SHM_REGISTER, .id = 2, .region_bytes = 4096};
    assert_int_equal(again(&f, 24).region_bytes, 4096);
    assert_hex("0e000000020000000000000000000000"
               "0010000000000000");
    f = (sky_shm_frame){.kind = SKY_SHM_REGISTERED, .status = SKY_E_FULL, .number = 3};
    assert_int_equal(again(&f, 24).number, 3);
    f = (sky_shm_frame){.kind = SKY_SHM_LAYOUT,
                        .id = 1,
                        .count = 1,
                        .region = 7,
                        .layout = {.key = {{0xaa}},
                                   .lease = 5,
                                   .shape = {2, 3, 4},
                                   .layer_axis = 1,
                                   .first = 23,
                                   .rows = {{.offset = 4096, .checksum = 9, .bytes = 80}}}};
    f = again(&f, 16 + 60 + 20);
    assert_true(f.region == 7 && f.layout.shape[2] == 4 && f.layout.rows[0].checksum == 9);
    assert_hex("10000000010000000100000007000000aa");
    f.layout.first = 0;
    f.layout.shape[0] = 64;
    f.count = SKY_SHM_ROWS_MAX;
    for (uint32_t i = 0; i < f.count; i++)
        f.layout.rows[i] = (sky_shm_row){.offset = i, .bytes = 1};
    again(&f, 16 + 60 + 20 * SKY_SHM_ROWS_MAX);
    f = (sky_shm_frame){
        .kind = SKY_SHM_BLOCK, .block_op = SKY_SHM_BLOCK_REMOVE, .key = {{0xbb}}, .lease = 0};
    assert_int_equal(again(&f, 56).block_op, SKY_SHM_BLOCK_REMOVE);
    f = (sky_shm_frame){.kind = SKY_SHM_ANSWERED, .id = 4, .status = SKY_E_BUSY};
    assert_int_equal(again(&f, 16).status, SKY_E_BUSY);
    f = (sky_shm_frame){.kind = SKY_SHM_REGION, .region = 6, .region_bytes = 8192};
    assert_int_equal(again(&f, 24).region, 6);
    f = (sky_shm_frame){.kind = SKY_SHM_REGION_GONE, .region = 6};
    again(&f, 16);
}

static bool is_layout(uint32_t a, uint32_t b, uint32_t c, uint32_t axis, uint32_t first) {
    sky_shm_frame out, f = {.kind = SKY_SHM_LAYOUT,
                            .count = 2,
                            .region = 1,
                            .layout = {.shape = {a, b, c},
                                       .layer_axis = axis,
                                       .first = first,
                                       .rows = {{.bytes = 1}, {.bytes = 1}}}};
    return sky_shm_decode(bytes, sky_shm_encode(&f, bytes), &out) == SKY_OK;
}

static void shapes_have_bounds(void **state) {
    (void)state;
    assert_true(is_layout(2, 1, 1, 0, 0) && is_layout(1024, 2, 2, 0, 4094));
    assert_true(is_layout(1, 4096, 1, 0, 0));
    assert_false(is_layout(2, 1, 1, 3, 0));          /* no such axis */
    assert_false(is_layout(1025, 1, 1, 0, 0));       /* layers */
    assert_false(is_layout(64, 65, 1, 0, 0));        /* buffers */
    assert_false(is_layout(65536, 65536, 1, 1, 0));  /* more than a word holds */
    assert_false(is_layout(UINT32_MAX, 2, 2, 1, 0)); /* the same */
    assert_false(is_layout(0, 1, 1, 0, 0));
    assert_false(is_layout(2, 1, 1, 0, 1)); /* behind the last */
    assert_false(is_layout(2, 1, 1, 0, UINT32_MAX));
    sky_shm_frame out,
        f = {.kind = SKY_SHM_BLOCK, .block_op = SKY_SHM_BLOCK_RELEASE, .key = {{0}}, .lease = 0};
    assert_int_equal(sky_shm_decode(bytes, sky_shm_encode(&f, bytes), &out), SKY_E_CORRUPT);
    f.lease = 1;
    assert_int_equal(sky_shm_decode(bytes, sky_shm_encode(&f, bytes), &out), SKY_OK);
    f.key.bytes[31] = 1;
    assert_int_equal(sky_shm_decode(bytes, sky_shm_encode(&f, bytes), &out), SKY_E_CORRUPT);
    f = (sky_shm_frame){.kind = SKY_SHM_REGION, .region_bytes = 1}; /* it has no number */
    assert_int_equal(sky_shm_decode(bytes, sky_shm_encode(&f, bytes), &out), SKY_E_CORRUPT);
}

static void nothing_else_is_a_frame(void **state) {
    (void)state;
    sky_shm_frame out, f = {.kind = SKY_SHM_RUN, .count = 1, .op = SKY_OP_HAS};
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 0},  {0, 21},      {1, 1},       {8, 0},      {8, 2},   {9, 1},
                 {12, 1}, {12, 12},     {15, 0x80},   {36, 16},    {37, 16}, {38, 12},
                 {39, 1}, {40 + 76, 1}, {40 + 81, 5}, {40 + 83, 1}};
    size_t used = sky_shm_encode(&f, bytes);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t before = bytes[wrong[i].at];
        bytes[wrong[i].at] = wrong[i].value;
        bool taken = sky_shm_decode(bytes, used, &out) == SKY_OK;
        bytes[wrong[i].at] = before;
        if (taken)
            fail_msg("byte %zu may not be %u", wrong[i].at, wrong[i].value);
    }
    assert_int_equal(sky_shm_decode(bytes, used, &out), SKY_OK);
    f = (sky_shm_frame){.kind = SKY_SHM_HELLO, .version = 1};
    used = sky_shm_encode(&f, bytes);
    bytes[16] ^= 1;
    assert_int_equal(sky_shm_decode(bytes, used, &out), SKY_E_CORRUPT);
    f = (sky_shm_frame){.kind = SKY_SHM_DONE, .count = 1, .results = {{.status = SKY_OK}}};
    used = sky_shm_encode(&f, bytes);
    bytes[16] = 2; /* still under way */
    assert_int_equal(sky_shm_decode(bytes, used, &out), SKY_E_CORRUPT);
    bytes[16] = 99;
    assert_int_equal(sky_shm_decode(bytes, used, &out), SKY_E_CORRUPT);
}

static void entries_come_back(void **state) {
    (void)state;
    uint8_t list[2 * SKY_SHM_ENTRY_BYTES_MAX];
    char name[SKY_NAME_BYTES_MAX + 1], lengthy[SKY_NAME_BYTES_MAX];
    memset(lengthy, 'n', sizeof lengthy);
    const sky_entry in[2] = {{.key = {{1}},
                              .name = lengthy,
                              .name_bytes = sizeof lengthy,
                              .bytes = 5,
                              .set_ms = -6,
                              .used_ms = 7,
                              .hits = 8,
                              .coding = 9,
                              .pinned = true,
                              .evict = SKY_EVICT_SOON},
                             {.key = {{2}}, .parent = {{1}}, .bytes = 77}};
    sky_entry e;
    size_t used = 0, at = 0;
    for (size_t i = 0; i < 2; i++)
        assert_true(sky_shm_entry_encode(&in[i], list, sizeof list, &used));
    size_t before = used;
    assert_false(sky_shm_entry_encode(&in[0], list, used + 100, &used));
    assert_int_equal(used, before);
    assert_int_equal(sky_shm_entry_decode(list, used, &at, name, &e), SKY_OK);
    assert_true(e.name_bytes == sizeof lengthy && memcmp(e.name, lengthy, sizeof lengthy) == 0);
    assert_true(e.bytes == 5 && e.set_ms == -6 && e.used_ms == 7 && e.hits == 8 && e.pinned);
    assert_int_equal(e.evict, SKY_EVICT_SOON);
    assert_true(e.coding == 9 && e.name[e.name_bytes] == 0 && e.key.bytes[0] == 1);
    assert_int_equal(sky_shm_entry_decode(list, used, &at, name, &e), SKY_OK);
    assert_true(!e.name && !e.pinned && e.bytes == 77 && e.parent.bytes[0] == 1);
    assert_int_equal(sky_shm_entry_decode(list, used, &at, name, &e), SKY_MISS);
    for (size_t cut = at - 99; cut < used; cut++) {
        size_t from = at - 100;
        assert_int_equal(sky_shm_entry_decode(list, cut, &from, name, &e), SKY_E_CORRUPT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_keep_their_bytes),
        cmocka_unit_test(runs_keep_their_bytes),
        cmocka_unit_test(frames_of_blocks_keep_their_bytes),
        cmocka_unit_test(shapes_have_bounds),
        cmocka_unit_test(nothing_else_is_a_frame),
        cmocka_unit_test(entries_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
