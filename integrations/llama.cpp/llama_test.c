/* Proves, on the real model: answers on top of restored blocks are a cold run's to the last bit
 * while generating too, for 1,024 and 2,048 tokens, odd lengths and a hit of 5 blocks of 16; a
 * restore of 2,048 tokens reads 13.5 MiB; a manager lets a computed head and a loaded tail meet
 * before the window and inside; the next turn hits what was generated; f32 KV never meets f16
 * blocks; four prompts in one context get the logits that each gets alone. Skipped without a model:
 * SKYMEM_MODEL, or the path in $SKYMEM_BUILD/model.path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meeting_fixture.h"
#include "real_model_fixture.h"

#define GENERATED 24

static real_model model = {.threads = 1}; /* several tests run at once */
static uint32_t *const prompt = model.prompt;

static void restored_prefixes_answer_like_cold_runs(void **state) {
    (void)state;
    static const uint32_t lengths[] = {2080, 1056, 333};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    bench b;
    real_model_open(&model, &b, NULL, REAL_TOKENS_MAX);
    answer cold[COUNT];
    for (size_t i = COUNT; i-- > 0;)
        cold[i] = bench_answer(&b, prompt, 0, lengths[i], GENERATED);
    assert_int_equal(bench_save(&b, prompt, lengths[0]), 16);
    for (size_t i = 0; i < COUNT; i++)
        bench_expect(&b, prompt, lengths[i], (lengths[i] - 1) / 128 * 128, &cold[i]);

    sky_lookup found = bench_look(&b, prompt, 2080);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    /* 3 full layers of 2,048 tokens and 15 window layers of 512, K and V rows of 512 bytes. */
    assert_true(found.bytes_loaded >= (3 * 2048 + 15 * 512) * 1024);
    assert_true(found.bytes_loaded < (3 * 2048 + 15 * 512) * 1024 + 16 * 1024);

    /* A head that is computed and a tail that is loaded, outside and inside of the window. */
    static const uint32_t met[] = {128, 512, 896};
    for (size_t i = 0; i < sizeof met / sizeof *met; i++)
        bench_expect_met(&b, prompt, lengths[1], 1024, met[i], &cold[1]);

    /* Five blocks shared, then another text. */
    memmove(prompt + 640, prompt + 1000, 500 * sizeof *prompt);
    answer other = bench_answer(&b, prompt, 0, 1140, GENERATED);
    bench_expect(&b, prompt, 1140, 640, &other);
    bench_close(&b);
}

/* Where head and tail meet is the manager's choice here: after three blocks of eight, before the
 * window, after six, inside of it, and not at all. */
static void a_manager_lets_them_meet(void **state) {
    (void)state;
    bench b;
    real_model_open(&model, &b, NULL, 1152);
    real_model_expect_calibration(&b, "share/calibration/gemma-3-270m.skycal");
    answer cold = bench_answer(&b, prompt, 0, 1056, GENERATED);
    bench_expect_meetings(&b, prompt, 1056, 128, 3, &cold);
    bench_close(&b);
}

static void the_next_turn_hits_what_was_generated(void **state) {
    (void)state;
    bench b;
    real_model_open(&model, &b, NULL, 512);
    answer first = bench_answer(&b, prompt, 0, 200, 57);
    uint32_t next[32];
    memcpy(next, prompt + 300, sizeof next);
    memcpy(prompt + 200, first.tokens, 56 * sizeof *prompt);
    memcpy(prompt + 256, next, sizeof next);
    answer on = bench_answer(&b, prompt, 256, 288, GENERATED); /* on top of what is there */
    assert_int_equal(bench_save(&b, prompt, 256), 2);
    bench_expect(&b, prompt, 288, 256, &on);
    bench_close(&b);
}

static void f32_and_f16_blocks_never_meet(void **state) {
    (void)state;
    bench half, full;
    real_model_open(&model, &half, "f16", 768);
    real_model_open(&model, &full, "f32", 768);
    bench_share(&full, &half, 128);
    bench_answer(&half, prompt, 0, 700, 1);
    assert_int_equal(bench_save(&half, prompt, 700), 5);
    assert_int_equal(bench_look(&full, prompt, 700).verdict, SKY_VERDICT_MISS);
    answer cold = bench_answer(&full, prompt, 0, 700, GENERATED);
    assert_int_equal(bench_save(&full, prompt, 700), 5);
    bench_expect(&full, prompt, 700, 640, &cold);
    bench_close(&full);
    bench_close(&half);
}

static void prompts_share_a_context(void **state) {
    (void)state;
    bench b;
    real_model_open(&model, &b, NULL, 512); /* for the prompt */
    bench_close(&b);
    const sky_llama_options options = {.model_path = model.path, .threads = model.threads};
    expect_slots(&options, prompt, 256, 340, 128, GENERATED);
}

int main(void) {
    if (!real_model_find(&model, NULL)) {
        fprintf(stderr, "skipped: no model; set SKYMEM_MODEL, or fetch one with make demo\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_prefixes_answer_like_cold_runs),
        cmocka_unit_test(a_manager_lets_them_meet),
        cmocka_unit_test(the_next_turn_hits_what_was_generated),
        cmocka_unit_test(f32_and_f16_blocks_never_meet),
        cmocka_unit_test(prompts_share_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
