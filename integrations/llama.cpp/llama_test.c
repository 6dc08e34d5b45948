/* Proves, on the real model: answers on top of restored blocks are a cold run's to the last bit
 * while generating too, for 768 tokens, an odd length and a hit of the first 5 blocks; a restore
 * reads each row of full layers and of windows once; a manager lets a computed head and a loaded
 * tail meet before the window and inside; the next turn hits what was generated; f32 KV never meets
 * f16 blocks; four prompts in one context get the logits that each gets alone. Longer prompts are
 * cli/demo_test's. Skipped without a model: SKYMEM_MODEL, or the path in $SKYMEM_BUILD/model.path.
 */
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

#define GENERATED 8

static real_model model = {.threads = 1}; /* several tests run at once */
static uint32_t *const prompt = model.prompt;

static void restored_prefixes_answer_like_cold_runs(void **state) {
    (void)state;
    static const uint32_t lengths[] = {800, 333}, met[] = {128, 384, 640};
    bench b;
    real_model_open(&model, &b, NULL, 1152);
    real_model_expect_calibration(&b, "share/calibration/gemma-3-270m.skycal");
    answer cold[2];
    for (size_t i = 2; i-- > 0;)
        cold[i] = bench_answer(&b, prompt, 0, lengths[i], GENERATED);
    assert_int_equal(bench_save(&b, prompt, lengths[0]), 6);

    /* A head that is computed and a tail that is loaded, outside and inside of the window; then
     * where they meet is the manager's choice: after two blocks of six, before the window, after
     * four, inside of it, and not at all. */
    bench_expect_met(&b, prompt, lengths[0], 768, met, 3, &cold[0]);
    bench_expect_meetings(&b, prompt, lengths[0], 128, 2, &cold[0]);
    for (size_t i = 0; i < 2; i++)
        bench_expect(&b, prompt, lengths[i], (lengths[i] - 1) / 128 * 128, &cold[i]);

    sky_lookup found = bench_look(&b, prompt, lengths[0]);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    /* 3 full layers of 768 tokens and 15 window layers of 512, K and V rows of 512 bytes. */
    assert_in_range(found.bytes_loaded, (3 * 768 + 15 * 512) * 1024,
                    (3 * 768 + 15 * 512) * 1024 + 16 * 1024);

    /* Five blocks shared, more than a window, then another text. */
    memmove(prompt + 640, prompt + 1000, 64 * sizeof *prompt);
    answer other = bench_answer(&b, prompt, 0, 704, GENERATED);
    bench_expect(&b, prompt, 704, 640, &other);
    bench_close(&b);
}

static void the_next_turn_hits_what_was_generated(void **state) {
    (void)state;
    bench b;
    real_model_open(&model, &b, NULL, 512);
    answer first = bench_answer(&b, prompt, 0, 240, 17);
    uint32_t next[32];
    memcpy(next, prompt + 300, sizeof next);
    memcpy(prompt + 240, first.tokens, 16 * sizeof *prompt);
    memcpy(prompt + 256, next, sizeof next);
    answer on = bench_answer(&b, prompt, 256, 288, GENERATED); /* on top of what is there */
    assert_int_equal(bench_save(&b, prompt, 256), 2);
    bench_expect(&b, prompt, 288, 256, &on);
    bench_close(&b);
}

static void f32_and_f16_blocks_never_meet(void **state) {
    (void)state;
    bench half, full;
    real_model_open(&model, &half, "f16", 512);
    real_model_open(&model, &full, "f32", 512);
    bench_share(&full, &half, 128);
    bench_answer(&half, prompt, 0, 300, 1);
    assert_int_equal(bench_save(&half, prompt, 300), 2);
    assert_int_equal(bench_look(&full, prompt, 300).verdict, SKY_VERDICT_MISS);
    answer cold = bench_answer(&full, prompt, 0, 300, GENERATED);
    assert_int_equal(bench_save(&full, prompt, 300), 2);
    bench_expect(&full, prompt, 300, 256, &cold);
    bench_close(&full);
    bench_close(&half);
}

static void prompts_share_a_context(void **state) {
    (void)state;
    bench b;
    real_model_open(&model, &b, NULL, 512); /* for the prompt */
    bench_close(&b);
    const sky_llama_options options = {.model_path = model.path, .threads = model.threads};
    expect_slots(&options, prompt, 128, 160, 128, GENERATED);
}

int main(void) {
    if (!real_model_find(&model, NULL)) {
        fprintf(stderr, "skipped: no model; set SKYMEM_MODEL, or fetch one with make demo\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_prefixes_answer_like_cold_runs),
        cmocka_unit_test(the_next_turn_hits_what_was_generated),
        cmocka_unit_test(f32_and_f16_blocks_never_meet),
        cmocka_unit_test(prompts_share_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
