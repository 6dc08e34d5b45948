/* Proves: a rehearsal is what a link alone takes where the engine is too slow to matter, never much
 * more than the better of the two alone, never less than what both can do at once, the same each
 * time, and of days as soon done as of seconds; numbers that are no time or size are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "stream/rehearse.h"

/* 1 MB/s and 32 blocks of 128 tokens: the load takes 4 s. */
static const sky__rehearsal usual = {
    .tokens = 4096, .bytes = 4e6, .bytes_per_s = 1e6, .delay_ns = 1e6, .token_ns = 1e6};

static sky__rehearsed rehearse(const sky__rehearsal *r) {
    sky__rehearsed a, b;
    assert_int_equal(sky__rehearse(r, &a), SKY_OK);
    assert_int_equal(sky__rehearse(r, &b), SKY_OK);
    assert_true(a.end_ns == b.end_ns && a.computed_tokens == b.computed_tokens);
    return a;
}

static void a_link_alone_takes_its_time(void **state) {
    (void)state;
    sky__rehearsal r = usual;
    r.token_ns = 4e9; /* a block in nine minutes */
    sky__rehearsed out = rehearse(&r);
    assert_true(fabs(out.end_ns - (1e6 + 4e9)) < 1e6);
    assert_true(out.computed_tokens == 0);
}

static void a_dead_link_is_hardly_waited_for(void **state) {
    (void)state;
    sky__rehearsal r = usual;
    r.bytes_per_s = 1;
    sky__rehearsed out = rehearse(&r);
    assert_true(out.end_ns >= 4.096e9 && out.end_ns < 1.05 * 4.096e9);
    assert_true(out.computed_tokens == 4096);
}

static void both_are_sooner_than_either(void **state) {
    (void)state;
    sky__rehearsed out = rehearse(&usual);
    assert_true(out.end_ns < 0.65 * 4e9);
    assert_true(out.computed_tokens > 1500 && out.computed_tokens < 2500);
}

static void it_lies_between_what_is_possible_and_the_better_one(void **state) {
    (void)state;
    sky_prng random;
    sky_prng_init(&random, 1);
    for (int i = 0; i < 300; i++) {
        sky__rehearsal r = {.tokens = floor(256 + 8000 * sky_prng_unit(&random)),
                            .bytes_per_s = 1e5 * pow(1e4, sky_prng_unit(&random)),
                            .delay_ns = 4e7 * sky_prng_unit(&random),
                            .token_ns = 1e5 * pow(100, sky_prng_unit(&random))};
        r.bytes = r.tokens * 18432;
        double flow = r.bytes / r.bytes_per_s * 1e9, load = r.delay_ns + flow;
        double compute = r.token_ns * r.tokens;
        sky__rehearsed out = rehearse(&r);
        assert_true(out.end_ns <= 1.08 * fmin(load, compute) + 1.1e7);
        assert_true(out.end_ns >= 0.99 * flow * compute / (flow + compute));
        assert_true(out.computed_tokens >= 0 && out.computed_tokens <= r.tokens * 1.0001);
    }
}

/* Ten days of an engine. The planner wants to look 10^8 times, and this test would not end. */
static void a_load_of_days_does_not_take_days(void **state) {
    (void)state;
    sky__rehearsal r = {
        .tokens = 1e6, .bytes = 1e11, .bytes_per_s = 1e5, .delay_ns = 1e9, .token_ns = 864e6};
    sky__rehearsed out = rehearse(&r);
    double load = 1e15, compute = 864e12;
    assert_true(out.end_ns <= 1.08 * compute);
    assert_true(out.end_ns >= 0.99 * load * compute / (load + compute));
    assert_true(out.computed_tokens > 0 && out.computed_tokens < 1e6);
}

static void numbers_that_are_none_are_refused(void **state) {
    (void)state;
    const sky__rehearsal bad[] = {
        {.tokens = 0, .bytes = 4e6, .bytes_per_s = 1e6, .token_ns = 1e6},
        {.tokens = 4096, .bytes = 1, .bytes_per_s = 1e6, .token_ns = 1e6},
        {.tokens = 4096, .bytes = 4e6, .bytes_per_s = 1e-300, .token_ns = 1e6},
        {.tokens = 4096, .bytes = 4e6, .bytes_per_s = 1e6, .delay_ns = 1e300, .token_ns = 1e6},
        {.tokens = 4096, .bytes = 4e6, .bytes_per_s = 1e6, .token_ns = 1e300},
        {.tokens = 4096, .bytes = 4e6, .bytes_per_s = 1e6, .token_ns = 0},
        {.tokens = 4096, .bytes = 4e6, .bytes_per_s = 1e6, .token_ns = NAN},
        {.tokens = 1e300, .bytes = 4e6, .bytes_per_s = 1e6, .token_ns = 1e6},
    };
    sky__rehearsed out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sky__rehearse(&bad[i], &out), SKY_E_PARAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_alone_takes_its_time),
        cmocka_unit_test(a_dead_link_is_hardly_waited_for),
        cmocka_unit_test(both_are_sooner_than_either),
        cmocka_unit_test(it_lies_between_what_is_possible_and_the_better_one),
        cmocka_unit_test(a_load_of_days_does_not_take_days),
        cmocka_unit_test(numbers_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
