/* Proves: every table's frequencies add up to 256 and can say every level; costs and reciprocals
 * are those of their formulas; classes name tables and shifts as documented. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdbool.h>

#include "codec/bank.h"

static void tables_add_up(void **state) {
    (void)state;
    for (uint32_t t = 1; t < SKY_BANK_TABLES; t++)
        for (uint32_t a = 0; a < 2; a++) {
            uint32_t sum = 0;
            for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
                sum += sky__bank[t][a][s];
            assert_int_equal(sum, 256);
            bool signs = t >= SKY_BANK_EXACT + SKY_EXACT_TABLES;
            for (uint32_t s = 0; signs && s < SKY_SYMBOLS; s++)
                assert_int_equal(sky__bank[t][a][s] > 0,
                                 s >= 3 && s < 11); /* all eight, no other */
            assert_true(signs || sky__bank[t][a][SKY_ESCAPE] > 0);
        }
}

static void costs_and_reciprocals_are_right(void **state) {
    (void)state;
    for (uint32_t f = 1; f <= 256; f++) {
        assert_int_equal(sky__bank_cost[f], lround(-1024 * log2(f / 256.0)));
        for (uint32_t x = 0; x < 65536; x += x % 251 ? 1 : 13)
            assert_int_equal((uint64_t)x * sky__bank_reciprocal[f] >> 24, x / f);
    }
}

static uint32_t bits_of(uint32_t table, uint32_t a, uint32_t s) {
    uint32_t f = s < SKY_ESCAPE ? sky__bank[table][a][s] : 0;
    if (table == 0)
        return 0;
    return f ? sky__bank_cost[f]
             : sky__bank_cost[sky__bank[table][a][SKY_ESCAPE]] + 1024 * SKY_ESCAPE_BITS;
}

static void bits_are_costs_by_symbol(void **state) {
    const sky_bank_bits *bits = &sky__bank_bits;
    (void)state;
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
        for (uint32_t a = 0; a < 2; a++) {
            for (uint32_t t = 0; t < SKY_BANK_NARROW; t++)
                assert_int_equal(bits->narrow[s][t][a], bits_of(t, a, s));
            for (uint32_t t = 0; t < SKY_BANK_WIDE; t++)
                assert_int_equal(bits->wide[s][t][a], bits_of(SKY_BANK_NARROW + t, a, s));
        }
}

static void classes_name_tables_and_shifts(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 256; c++) {
        uint32_t table = sky_class_table((uint8_t)c), shift = sky_class_shift((uint8_t)c);
        assert_true(table < SKY_BANK_EXACT && shift <= SKY_SHIFT_MAX);
        assert_int_equal(shift == 0, table < SKY_BANK_NARROW);
    }
    assert_int_equal(sky_class_shift(255), SKY_SHIFT_MAX);
    assert_int_equal(sky_symbol_of(-7, 0), 0);
    assert_int_equal(sky_symbol_of(8, 0), SKY_ESCAPE);
    assert_int_equal(sky_symbol_of(-1, 3), 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_add_up),
        cmocka_unit_test(costs_and_reciprocals_are_right),
        cmocka_unit_test(bits_are_costs_by_symbol),
        cmocka_unit_test(classes_name_tables_and_shifts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
