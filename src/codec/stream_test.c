/* Proves: headers say what they were given and refuse any other shape; tiles cover every head of
 * every token once, in order, within their size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/stream.h"

static void headers_come_back(void **state) {
    (void)state;
    sky_stream_shape shape = {3, SKY_KV_V, SKY_ELEMENT_BF16, 77, 5, 96, 123456}, other = shape;
    sky_stream_header in = {SKY_LEVEL_3, SKY_STREAM_MEAN | SKY_STREAM_PLAIN, 42}, out = {0};
    uint8_t bytes[SKY_STREAM_HEADER_BYTES];
    sky__stream_header_write(&in, &shape, bytes);
    assert_int_equal(sky__stream_header_read(bytes, sizeof bytes, &shape, &out), SKY_OK);
    assert_true(out.level == in.level && out.flags == in.flags && out.profile_id == 42);
    assert_int_equal(sky__stream_header_read(bytes, 23, &shape, &out), SKY_E_CORRUPT);
    other.element = SKY_ELEMENT_F16;
    assert_int_equal(sky__stream_header_read(bytes, 24, &other, &out), SKY_E_CORRUPT);
    other = shape;
    other.kv_heads = 6;
    assert_int_equal(sky__stream_header_read(bytes, 24, &other, &out), SKY_E_CORRUPT);
    bytes[2] |= 128; /* a flag nobody knows */
    assert_int_equal(sky__stream_header_read(bytes, 24, &shape, &out), SKY_E_CORRUPT);
    in.flags = SKY_STREAM_KLT | SKY_STREAM_PAIRS;
    sky__stream_header_write(&in, &shape, bytes);
    assert_int_equal(sky__stream_header_read(bytes, 24, &shape, &out), SKY_E_CORRUPT);
    in = (sky_stream_header){SKY_LEVEL_3, SKY_STREAM_MEAN, 0}; /* of no profile */
    sky__stream_header_write(&in, &shape, bytes);
    assert_int_equal(sky__stream_header_read(bytes, 24, &shape, &out), SKY_E_CORRUPT);
}

static void tiles_cover_everything_once(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        sky_stream_shape shape = {.token_count = 1 + i * 131 % 512,
                                  .kv_heads = 1 + i * 7 % 40,
                                  .head_dim = 1 + i * 97 % 512};
        bool first = i & 1;
        sky_tiles tiles = sky__tiles_of(&shape, first);
        sky_tile tile;
        uint32_t token = first, head = 0, last = 0;
        while (sky__tiles_next(&tiles, &tile)) {
            assert_int_equal(tile.token, token);
            assert_int_equal(tile.head, head);
            assert_int_equal(tile.width, tile.heads * shape.head_dim);
            assert_true(tile.width <= SKY_WIDTH_MAX);
            assert_true(tile.tokens * sky_padded(tile.width) <= SKY_TILE_ELEMENTS);
            assert_true(head == 0 || tile.tokens == last);
            last = tile.tokens;
            head += tile.heads;
            if (head == shape.kv_heads) {
                head = 0;
                token += tile.tokens;
            }
        }
        assert_int_equal(token, shape.token_count);
        assert_int_equal(head, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_come_back),
        cmocka_unit_test(tiles_cover_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
