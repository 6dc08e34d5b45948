/* Proves: channels of two kinds, mixed, are put into units of their own; no unit gains or loses a
 * channel; the cost returned is that of the units and tables, and at most the sorted ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "codec/fit_units.h"

static uint64_t cost_of(const sky_fit_units *f) {
    uint64_t cost = 0;
    for (uint32_t i = 0; i < f->width; i++)
        for (uint32_t half = 0; half < 2; half++)
            cost += f->cost[i][half][f->table[half][f->unit[i]]];
    return cost;
}

/* In order, from place `pads` on, as channels are coded. */
static sky_fit_units *make(uint32_t width, uint32_t pads) {
    sky_fit_units *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->width = width;
    for (uint32_t i = 0; i < width; i++)
        f->unit[i] = (uint8_t)((pads + i) / SKY_UNIT);
    return f;
}

static void kinds_part(void **state) {
    (void)state;
    sky_fit_units *f = make(64, 0);
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t t = 0; t < SKY_EXACT_TABLES; t++)
                f->cost[i][half][t] = t == (i % 2 ? 5u : 9u) ? 10 : 30;
    for (uint32_t i = 0; i < 64; i += 17) /* one of each unit knows better, so that it has a bent */
        f->cost[i][0][i % 2 ? 9 : 5] = 400;
    uint64_t cost = sky__fit_units(f);
    assert_int_equal(cost, cost_of(f));
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(f->table[1][f->unit[i]], i % 2 ? 5 : 9);
    free(f);
}

static void random_costs(uint32_t width, uint32_t pads) {
    sky_fit_units *f = make(width, pads);
    uint32_t before[SKY_UNITS_MAX] = {0}, after[SKY_UNITS_MAX] = {0};
    uint64_t random = 7, sorted = 0;
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t t = 0; t < SKY_EXACT_TABLES; t++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                f->cost[i][half][t] = random >> 44;
            }
    for (uint32_t u = 0; u < SKY_UNITS_MAX; u++)
        for (uint32_t half = 0; half < 2; half++) {
            uint64_t best = UINT64_MAX;
            for (uint32_t t = 0; t < SKY_EXACT_TABLES; t++) {
                uint64_t sum = 0;
                for (uint32_t i = 0; i < width; i++)
                    sum += f->unit[i] == u ? f->cost[i][half][t] : 0;
                best = sum < best ? sum : best;
            }
            sorted += best;
        }
    for (uint32_t i = 0; i < width; i++)
        before[f->unit[i]]++;
    uint64_t cost = sky__fit_units(f);
    for (uint32_t i = 0; i < width; i++)
        after[f->unit[i]]++;
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(cost, cost_of(f));
    assert_true(width < 2 * SKY_UNIT ? cost <= sorted : cost < sorted);
    free(f);
}

static void units_keep_their_size(void **state) {
    (void)state;
    random_costs(256, 0);
    random_costs(80, 48);
    random_costs(SKY_WIDTH_MAX, 0);
    random_costs(1, 63);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_part),
        cmocka_unit_test(units_keep_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
