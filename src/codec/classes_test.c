/* Proves: the cheapest class is the cheapest of all, a class that cannot say a level costs without
 * end, sort keys rise with magnitude, and many escapes are noticed, also where steps differ. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/classes.h"
#include "codec/fineness.h"

enum { ROWS = 50, WIDTH = 64 };

static void make(int16_t *packed, int32_t scale) {
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        packed[i] = (int16_t)(2 * ((int32_t)(i * 2654435761u >> 20) % (2 * scale + 1) - scale));
}

static void the_cheapest_is_found(void **state) {
    (void)state;
    int16_t packed[ROWS * WIDTH];
    sky_coder rows;
    sky__rows_init(&rows, WIDTH, true);
    sky__rows_order(&rows, 0, NULL);
    for (int32_t scale = 0; scale < 200; scale += 1 + scale / 2) {
        sky_levels levels = {packed, ROWS, WIDTH, NULL};
        uint8_t classes[SKY_UNITS_MAX];
        make(packed, scale);
        uint64_t total = sky__classes_choose(&rows, 0, &levels, classes), least = 0;
        for (uint32_t u = 0; u < 4; u++) {
            uint64_t best = UINT64_MAX;
            for (uint32_t c = 0; c < SKY_CLASSES; c++) {
                sky_histogram h = {{{0}}};
                sky__histogram_add(&h, &levels, rows.channel[0] + u * SKY_UNIT,
                                   sky_class_shift((uint8_t)c));
                uint64_t cost = sky__class_cost(&h, (uint8_t)c);
                best = cost < best ? cost : best;
            }
            least += best;
        }
        assert_true(total >= least && total <= least + least / 25); /* not every shift is tried */
        sky__rows_classes(&rows, 0, classes);
        assert_int_equal(sky__classes_cost(&rows, 0, &levels), total);
        assert_false(sky__classes_misfit(&rows, 0, &levels));
        if (scale == 0)
            assert_int_equal(total, 0);
    }
    /* Classes of zeros for levels that are none. */
    sky__rows_classes(&rows, 0, (const uint8_t[SKY_UNITS_MAX]){0});
    sky_levels levels = {packed, ROWS, WIDTH, NULL};
    assert_true(sky__classes_cost(&rows, 0, &levels) == UINT64_MAX);
    assert_true(sky__classes_misfit(&rows, 0, &levels));
    sky__rows_classes(&rows, 0, (const uint8_t[SKY_UNITS_MAX]){1, 1, 1, 1});
    assert_true(sky__classes_misfit(&rows, 0, &levels));
}

/* Rows whose steps are half as large have levels twice as large, and other classes. */
static void classes_follow_fineness(void **state) {
    (void)state;
    int16_t packed[ROWS * WIDTH];
    uint8_t classes[SKY_UNITS_MAX], fineness[ROWS];
    sky_coder rows;
    sky_levels levels = {packed, ROWS, WIDTH, NULL};
    sky__rows_init(&rows, WIDTH, true);
    sky__rows_order(&rows, 0, NULL);
    make(packed, 14); /* what shift 1 has symbols for, and no more */
    memset(classes, SKY_BANK_NARROW + 12, sizeof classes);
    sky__rows_classes(&rows, 0, classes);
    assert_false(sky__classes_misfit(&rows, 0, &levels));
    for (uint32_t t = 0; t < ROWS; t++) {
        fineness[t] = t % 3 ? SKY_FINENESS_USUAL : SKY_FINENESS_USUAL + 2;
        for (uint32_t i = 0; t % 3 == 0 && i < WIDTH; i++)
            packed[t * WIDTH + i] = (int16_t)(2 * packed[t * WIDTH + i]);
    }
    assert_true(sky__classes_misfit(&rows, 0, &levels));
    levels.fineness = fineness;
    assert_false(sky__classes_misfit(&rows, 0, &levels));
    for (uint32_t i = 0; i < WIDTH; i++)
        packed[i] = 2 * 4000;
    assert_true(sky__classes_misfit(&rows, 0, &levels));
}

/* What a class costs for rows of several finenesses, counted level by level. */
static uint64_t plain_cost(const sky_levels *l, const uint16_t *channels, uint8_t class) {
    uint64_t total = 0;
    for (uint32_t t = 0; t < l->rows; t++) {
        sky_levels row = {l->packed + t * l->pitch, 1, 0, NULL};
        uint8_t of = sky__class_finer(class, (int32_t)l->fineness[t] - SKY_FINENESS_USUAL);
        sky_histogram h = {0};
        sky__histogram_add(&h, &row, channels, sky_class_shift(of));
        uint64_t cost = sky__class_cost(&h, of);
        if (cost == UINT64_MAX)
            return cost;
        total += cost;
    }
    return total;
}

/* Of tiles, and of more rows than windows hold; levels of all sizes, by the trellis. */
static void the_cheapest_is_found_of_each_fineness(void **state) {
    (void)state;
    enum { MANY = SKY_WINDOW_ROWS + 3 };
    static int16_t packed[MANY * WIDTH];
    static uint8_t fineness[MANY];
    sky_coder rows;
    sky__rows_init(&rows, WIDTH, false);
    sky__rows_order(&rows, 0, NULL);
    for (uint32_t round = 0; round < 16; round++) {
        int32_t scale = round < 13 ? 1 << round : 0;
        sky_levels levels = {packed, round % 5 == 4 ? MANY : ROWS, WIDTH, fineness};
        uint8_t classes[SKY_UNITS_MAX];
        uint64_t least = 0;
        for (uint32_t t = 0; t < levels.rows; t++)
            fineness[t] = (uint8_t)(round % 4 ? t * 7 % 11 % 4 : round / 4 % 4);
        for (uint32_t i = 0; i < levels.rows * WIDTH; i++) {
            uint32_t x = i * 2654435761u >> 12;
            int32_t k = (int32_t)(x % (2 * (uint32_t)scale + 1)) - scale;
            packed[i] = (int16_t)(2 * (k < -8191 ? -8191 : k > 8191 ? 8191 : k) + (int32_t)(x & 1));
        }
        uint64_t total = sky__classes_choose(&rows, 0, &levels, classes), chosen = 0;
        for (uint32_t u = 0; u < 4; u++) {
            const uint16_t *channels = rows.channel[0] + u * SKY_UNIT;
            uint64_t best = UINT64_MAX;
            for (uint32_t c = 0; c < SKY_CLASSES; c += levels.rows == MANY ? 7 : 1) {
                uint64_t cost = plain_cost(&levels, channels, (uint8_t)c);
                best = cost < best ? cost : best;
            }
            least += best;
            chosen += plain_cost(&levels, channels, classes[u]);
        }
        assert_true(total == chosen && total <= least + least / 25);
        uint8_t others[SKY_UNITS_MAX];
        memset(others, 1 + (int)round * 16, sizeof others);
        sky__rows_classes(&rows, 0, others);
        uint64_t spent = 0;
        for (uint32_t u = 0; u < 4; u++)
            spent += plain_cost(&levels, rows.channel[0] + u * SKY_UNIT, others[u]);
        uint64_t saved = sky__classes_saved(&rows, 0, &levels);
        assert_true(spent < total ? saved < total : saved >= spent - total);
    }
}

static void keys_rise_with_magnitude(void **state) {
    (void)state;
    uint32_t sums[100];
    uint8_t keys[100];
    for (uint32_t i = 0; i < 100; i++)
        sums[i] = i * i * i;
    sky__order_keys(sums, 100, 15, keys);
    assert_int_equal(keys[0], 0);
    assert_int_equal(keys[99], 15);
    for (uint32_t i = 1; i < 100; i++)
        assert_true(keys[i] >= keys[i - 1]);
    sums[0] = UINT32_MAX;
    sky__order_keys(sums, 1, 255, keys);
    assert_int_equal(keys[0], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_is_found),
        cmocka_unit_test(classes_follow_fineness),
        cmocka_unit_test(the_cheapest_is_found_of_each_fineness),
        cmocka_unit_test(keys_rise_with_magnitude),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
