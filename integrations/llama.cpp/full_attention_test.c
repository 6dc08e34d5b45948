/* Proves, on a real model whose layers all attend to everything, with two heads for K and V:
 * answers on top of restored blocks are a cold run's to the last bit, wherever a computed head and
 * a loaded tail meet, and while prompts share a context; a restore reads each row once; a
 * calibration comes along. Skipped without Qwen2.5-Coder 0.5B, which make check and make models
 * fetch. */
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

#define NAME      "qwen2.5-coder-0.5b"
#define GENERATED 6
/* 24 layers, K and V, two heads of 64 f16. */
#define TOKEN_BYTES (24u * 2 * 2 * 64 * 2)

static real_model model = {.threads = 1}; /* as quick where others want the same cores */

static void restored_prefixes_answer_like_cold_runs(void **state) {
    (void)state;
    bench b;
    real_model_open(&model, &b, NULL, 768);
    real_model_expect_calibration(&b, "share/calibration/" NAME ".skycal");
    answer cold = bench_answer(&b, model.prompt, 0, 672, GENERATED);
    assert_int_equal(bench_save(&b, model.prompt, 672), 5);
    bench_expect_met(&b, model.prompt, 672, 640, &(uint32_t){256}, 1, &cold);
    bench_expect_meetings(&b, model.prompt, 672, 128, 3, &cold);
    bench_expect(&b, model.prompt, 672, 640, &cold);
    sky_lookup found = bench_look(&b, model.prompt, 672);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_in_range(found.bytes_loaded, 640 * TOKEN_BYTES, 640 * TOKEN_BYTES + 8 * 1024);
    bench_close(&b);
}

static void prompts_share_a_context(void **state) {
    (void)state;
    const sky_llama_options options = {.model_path = model.path, .threads = model.threads};
    expect_slots(&options, model.prompt, 128, 144, 128, GENERATED);
}

int main(void) {
    if (!real_model_find(&model, NAME)) {
        fprintf(stderr, "skipped: no " NAME "; make models fetches it\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_prefixes_answer_like_cold_runs),
        cmocka_unit_test(prompts_share_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
