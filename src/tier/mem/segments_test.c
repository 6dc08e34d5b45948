/* Proves: segments are there while an extent lies in them and no longer, side by side in one range,
 * and one that is made again bears another number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "io/shared.h"
#include "tier/mem/segments.h"

#define MIB ((uint64_t)1 << 20)

static void sizes_fit(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes, segment_bytes;
        uint32_t count;
    } cases[] = {{1, 4096, 1},
                 {65536, 65536, 1},
                 {65537, 131072, 1},
                 {64 * MIB, 64 * MIB, 1},
                 {64 * MIB + 1, 64 * MIB, 2},
                 {4096 * MIB, 64 * MIB, 64},
                 {4096 * MIB + 1, 128 * MIB, 33},
                 {(uint64_t)1 << 40, (uint64_t)16 << 30, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sky_segments s;
        assert_int_equal(sky_segments_init(&s, cases[i].bytes), SKY_OK);
        assert_int_equal(s.segment_bytes, cases[i].segment_bytes);
        assert_int_equal(s.count, cases[i].count);
        assert_true(s.region_bytes >= cases[i].bytes && s.count <= SKY_SEGMENTS_MAX);
        assert_int_equal(s.made_bytes, 0);
        sky_segments_deinit(&s);
    }
}

static void segments_come_and_go_with_their_extents(void **state) {
    (void)state;
    sky_segments s;
    assert_int_equal(sky_segments_init(&s, 256 * MIB), SKY_OK);
    assert_int_equal(sky_segments_take(&s, 64 * MIB - 100, 200), SKY_OK); /* across a bound */
    memset(s.region + 64 * MIB - 100, 0xab, 200);
    assert_int_equal(s.made_bytes, 128 * MIB);
    assert_true(s.segments[0].fd >= 0 && s.segments[1].fd >= 0 && s.segments[2].fd < 0);
    assert_int_equal(sky_segments_take(&s, 0, 64 * MIB - 100), SKY_OK);
    assert_int_equal(sky_segments_take(&s, 192 * MIB, 64 * MIB), SKY_OK);
    assert_int_equal(s.made_bytes, 192 * MIB);
    uint64_t before = s.segments[0].generation;
    sky_segments_give(&s, 64 * MIB - 100, 200);
    assert_int_equal(s.made_bytes, 128 * MIB);
    assert_true(s.segments[0].fd >= 0 && s.segments[1].fd < 0);
    assert_int_equal(s.segments[0].generation, before);
    sky_segments_give(&s, 0, 64 * MIB - 100);
    sky_segments_give(&s, 192 * MIB, 64 * MIB);
    assert_int_equal(s.made_bytes, 0);
    assert_int_equal(s.region[64 * MIB - 100], 0);
    assert_int_equal(sky_segments_take(&s, 1, 1), SKY_OK);
    assert_true(s.segments[0].generation > before);
    assert_int_equal(sky_shared_bytes(s.segments[0].fd), s.segment_bytes);
    sky_segments_deinit(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_fit),
        cmocka_unit_test(segments_come_and_go_with_their_extents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
