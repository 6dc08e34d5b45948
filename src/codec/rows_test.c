/* Proves: rows of levels come back from their bytes, with escapes, low bits and the trellis, in
 * any order of channels and any classes; states end where they began; size is near the classes'
 * cost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/classes.h"

#define ROWS 40

static uint32_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Levels of both halves, small ones most often, some far out; a as the trellis runs. */
static void make_levels(uint64_t seed, const sky_coder *rows, int16_t *packed) {
    uint32_t padded = rows->steps * SKY_LANES;
    for (uint32_t i = 0; i < padded; i++)
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t state = 0;
            for (uint32_t t = 0; t < ROWS; t++) {
                uint32_t wide = next(&seed) % (1u << i % 11), k = next(&seed) % (wide + 2);
                int32_t level = next(&seed) & 1 ? (int32_t)k : -(int32_t)k;
                if (next(&seed) % 400 == 0)
                    level = next(&seed) & 1 ? SKY_LEVEL_MAX : -SKY_LEVEL_MAX;
                if (i >= rows->width)
                    level = 0;
                packed[(t * 2 + half) * padded + i] = (int16_t)(2 * level +
                                                                (rows->plain
                                                                     ? 0
                                                                     : (int32_t)(state >> 2)));
                state = sky__trellis_next[state | (uint32_t)(level & 1) << 3];
            }
        }
}

static void set_up(uint64_t seed, sky_coder *rows, const int16_t *packed, bool best) {
    uint8_t keys[SKY_WIDTH_MAX], classes[SKY_UNITS_MAX];
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < rows->width; i++)
            keys[i] = (uint8_t)(next(&seed) % 7 + i % 11 * 20);
        sky__rows_order(rows, half, keys);
        sky_levels l = {packed + half * (size_t)rows->steps * SKY_LANES, ROWS,
                        2 * (size_t)rows->steps * SKY_LANES, NULL};
        sky__classes_choose(rows, half, &l, classes);
        for (uint32_t u = 0; !best && u < SKY_UNITS_MAX; u++)
            classes[u] = (uint8_t)(next(&seed) % 255 + 1);
        sky__rows_classes(rows, half, classes);
    }
}

static void code(uint64_t seed, uint32_t width, bool plain, bool best) {
    sky_coder rows;
    sky__rows_init(&rows, width, plain);
    uint32_t padded = rows.steps * SKY_LANES;
    int16_t *packed = malloc(2 * ROWS * padded * sizeof *packed);
    size_t max = 2 * ROWS * (size_t)padded * 8;
    uint8_t *bytes = calloc(1, max + 64), *at = bytes + max;
    sky_tables *tables = aligned_alloc(64, sizeof *tables);
    memset(tables, 0, sizeof *tables);
    sky_encode_tables encode;
    uint64_t cost = 0;
    make_levels(seed, &rows, packed);
    set_up(seed, &rows, packed, best);
    for (uint32_t half = 0; half < 2; half++)
        cost += sky__classes_cost(
            &rows, half, &(sky_levels){packed + half * padded, ROWS, 2 * (size_t)padded, NULL});
    sky__encode_prepare(&encode, &rows);
    for (uint32_t r = 2 * ROWS; r-- > 0;) {
        uint8_t *row = sky__row_encode(&rows, &encode, r & 1, packed + r * (size_t)padded, at);
        assert_true((size_t)(at - row) <= sky_rows_bytes_max(&rows, r & 1));
        at = row;
    }
    double spent = 8.0 * (double)(bytes + max - at);
    assert_true(fabs(spent - (double)cost / 1024) < 8 * 64 + 0.002 * spent);

    sky__decode_prepare(tables, &rows);
    for (uint32_t r = 0; r < 2 * ROWS; r++) {
        int16_t levels[SKY_WIDTH_MAX];
        at += sky__row_decode(&rows, tables, r & 1, at, levels);
        for (uint32_t i = 0; i < padded; i++) {
            int32_t k = packed[r * padded + i] >> 1, a = packed[r * padded + i] & 1;
            assert_int_equal(levels[i], 2 * k - a * ((k > 0) - (k < 0)));
        }
    }
    assert_ptr_equal(at, bytes + max);
    assert_true(sky__rows_finished(&rows));
    free(tables);
    free(bytes);
    free(packed);
}

static void rows_come_back(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 16, 63, 64, 65, 200, 256, 512};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (uint32_t how = 0; how < 4; how++)
            code(i * 7 + how + 1, widths[i], how & 1, how & 2);
}

static void order_is_by_key_and_stable(void **state) {
    (void)state;
    static const uint8_t keys[5] = {9, 200, 9, 0, 255};
    static const uint16_t expected[5] = {3, 0, 2, 1, 4};
    sky_coder rows;
    sky__rows_init(&rows, 5, true);
    sky__rows_order(&rows, 0, keys);
    for (uint32_t i = 0; i < 59; i++)
        assert_int_equal(rows.channel[0][i], 5 + i);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(rows.channel[0][59 + i], expected[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(order_is_by_key_and_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
