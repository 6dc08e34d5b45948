/* Proves that popularity follows Zipf's law and is the same everywhere, that values can be
 * recomputed from any offset, and that quantiles are near the true ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sim/workload.h"

static void weights_follow_the_law(void **state) {
    (void)state;
    static const double exponents[] = {0, 0.5, 0.9, 1, 2.75, 10};
    for (size_t e = 0; e < 6; e++) {
        sky_zipf z;
        assert_int_equal(sky_zipf_init(&z, 1000, exponents[e]), SKY_OK);
        double sum = 0;
        for (uint32_t i = 0; i < 1000; i++) {
            sum += pow(i + 1.0, -exponents[e]);
            assert_true(fabs(z.cumulative[i] - sum) <= sum * 1e-14);
        }
        sky_zipf_deinit(&z);
    }
}

static void draws_follow_the_weights(void **state) {
    (void)state;
    enum { KEYS = 5, DRAWS = 100000 };
    sky_zipf z;
    assert_int_equal(sky_zipf_init(&z, KEYS, 1), SKY_OK);
    sky_prng prng;
    sky_prng_init(&prng, 7);
    int seen[KEYS] = {0};
    for (int i = 0; i < DRAWS; i++)
        seen[sky_zipf_draw(&z, &prng)]++;
    for (int i = 0; i < KEYS; i++) {
        double expected = DRAWS / (i + 1.0) / z.cumulative[KEYS - 1];
        assert_true(fabs(seen[i] - expected) < 5 * sqrt(expected));
    }
    sky_zipf_deinit(&z);
}

/* The sums are bit for bit these on every machine: the golden hashes of the simulator rest on
 * it. */
static void sums_are_the_same_everywhere(void **state) {
    (void)state;
    sky_zipf z;
    assert_int_equal(sky_zipf_init(&z, 200, 0.9), SKY_OK);
    static const struct {
        uint32_t key;
        uint64_t bits;
    } golden[] = {{0, 0x3ff0000000000000},
                  {1, 0x3ff892fdf7128332},
                  {99, 0x4019b4f8d60deef1},
                  {199, 0x401e3e0c5e684b0a}};
    for (size_t i = 0; i < 4; i++) {
        uint64_t bits;
        memcpy(&bits, &z.cumulative[golden[i].key], sizeof bits);
        assert_true(bits == golden[i].bits);
    }
    sky_zipf_deinit(&z);
}

static void values_are_known_from_any_offset(void **state) {
    (void)state;
    enum { BYTES = 4000 };
    sky_value v = {.seed = 1, .key = 2, .version = 3};
    uint8_t whole[BYTES];
    uint8_t part[BYTES];
    sky_value_fill(&v, 0, whole, BYTES);
    for (size_t offset = 0; offset < 40; offset++) {
        for (size_t bytes = 0; bytes < 600; bytes += 7) {
            sky_value_fill(&v, offset, part, bytes);
            assert_memory_equal(part, whole + offset, bytes);
            assert_true(sky_value_equal(&v, offset, whole + offset, bytes));
        }
    }
    for (size_t i = 0; i < BYTES; i += 11) {
        whole[i] ^= 0x10;
        assert_false(sky_value_equal(&v, 0, whole, BYTES));
        whole[i] ^= 0x10;
    }
}

static void values_differ_by_every_part_of_their_name(void **state) {
    (void)state;
    const sky_value a = {.seed = 1, .key = 2, .version = 3};
    const sky_value others[] = {{2, 2, 3}, {1, 3, 3}, {1, 2, 4}};
    uint8_t bytes[64];
    sky_value_fill(&a, 0, bytes, sizeof bytes);
    for (size_t i = 0; i < 3; i++)
        assert_false(sky_value_equal(&others[i], 0, bytes, sizeof bytes));
    sky_key key = sky_value_key(&a);
    sky_key versions = sky_value_key(&others[2]);
    sky_key other = sky_value_key(&others[1]);
    assert_memory_equal(key.bytes, versions.bytes, SKY_KEY_BYTES);
    assert_memory_not_equal(key.bytes, other.bytes, SKY_KEY_BYTES - 4);
    assert_int_equal(sky_value_key_number(&key), 2);
    assert_int_equal(sky_value_key_number(&other), 3);
}

static void quantiles_are_near(void **state) {
    (void)state;
    static sky_latencies l;
    assert_true(sky_latencies_ms(&l, 0.5) == 0);
    for (sky_time us = 1; us <= 10000; us++)
        sky_latencies_add(&l, us * 1000);
    assert_true(fabs(sky_latencies_ms(&l, 0.5) - 5) < 5 * 0.001);
    assert_true(fabs(sky_latencies_ms(&l, 0.99) - 9.9) < 9.9 * 0.001);
    assert_true(sky_latencies_ms(&l, 1) >= 10);
    memset(&l, 0, sizeof l);
    sky_latencies_add(&l, 0);
    assert_true(sky_latencies_ms(&l, 0.5) == 0);
    sky_latencies_add(&l, INT64_MAX);
    assert_true(sky_latencies_ms(&l, 1) > 9e12);
}

/* Ranks from the binomial's own tables: 40th and 61st of 100 for the median (Conover, Practical
 * Nonparametric Statistics, 3.2), and that 367 are too few to bound a 99th percentile. */
static void bounds_are_order_statistics(void **state) {
    (void)state;
    static const struct {
        uint64_t count;
        double share;
        sky_time low, high; /* 0: none */
    } rows[] = {{100, 0.5, 40, 61},  {10, 0.5, 2, 9},       {5, 0.5, 0, 0},        {6, 0.5, 1, 6},
                {367, 0.99, 359, 0}, {368, 0.99, 360, 368}, {1000, 0.99, 983, 997}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static sky_latencies l;
        memset(&l, 0, sizeof l);
        for (uint64_t ns = 1; ns <= rows[i].count; ns++)
            sky_latencies_add(&l, (sky_time)ns);
        sky_quantile q = sky_latencies_quantile(&l, rows[i].share);
        assert_int_equal(q.low_ms * 1e6 + 0.5, rows[i].low);
        assert_int_equal(isinf(q.high_ms) ? 0 : q.high_ms * 1e6 + 0.5, rows[i].high);
        assert_true(q.low_ms <= q.ms && q.ms <= q.high_ms);
    }
}

/* Of 1,000 samples the true quantile is within the bounds in 95 % and more, and not in all. */
static void bounds_hold_as_often_as_they_say(void **state) {
    (void)state;
    static const double shares[] = {0.5, 0.99};
    sky_prng prng;
    sky_prng_init(&prng, 7);
    for (size_t s = 0; s < 2; s++) {
        int held = 0;
        for (int sample = 0; sample < 1000; sample++) {
            static sky_latencies l;
            memset(&l, 0, sizeof l);
            for (int i = 0; i < 400; i++)
                sky_latencies_add(&l, (sky_time)sky_prng_below(&prng, 1000000));
            sky_quantile q = sky_latencies_quantile(&l, shares[s]);
            held += q.low_ms <= shares[s] && shares[s] <= q.high_ms;
        }
        assert_in_range(held, 940, 985);
    }
}

/* Exponential gaps: the mean is that asked for, and e⁻² of them are longer than twice that. */
static void gaps_forget_what_was(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 1);
    double sum = 0;
    int longer = 0;
    for (int i = 0; i < 100000; i++) {
        sky_time gap = sky_gap_draw(&prng, SKY_MS(5));
        sum += (double)gap / 1e5;
        longer += gap > SKY_MS(10);
    }
    assert_true(fabs(sum / (double)SKY_MS(5) - 1) < 0.01);
    assert_true(fabs(longer / 1e5 - 0.1353) < 0.004);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_follow_the_law),
        cmocka_unit_test(draws_follow_the_weights),
        cmocka_unit_test(sums_are_the_same_everywhere),
        cmocka_unit_test(values_are_known_from_any_offset),
        cmocka_unit_test(values_differ_by_every_part_of_their_name),
        cmocka_unit_test(quantiles_are_near),
        cmocka_unit_test(bounds_are_order_statistics),
        cmocka_unit_test(bounds_hold_as_often_as_they_say),
        cmocka_unit_test(gaps_forget_what_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
