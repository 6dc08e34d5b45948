/* Proves, on the real model: answers on top of restored blocks are a cold run's to the last bit
 * while generating too, for 1,024 and 2,048 tokens, odd lengths and a hit of 5 blocks of 16; a
 * restore of 2,048 tokens reads 13.5 MiB; the next turn hits what was generated; f32 KV never meets
 * f16 blocks; four prompts in one context get the logits that each gets alone. Skipped without a
 * model: SKYMEM_MODEL, or the path in $SKYMEM_BUILD/model.path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "answer_fixture.h"

#define TOKENS_MAX 2304
#define GENERATED  24

static char model_path[4096];
static uint32_t prompt[TOKENS_MAX];

static bool find_model(void) {
    const char *given = getenv("SKYMEM_MODEL"), *build = getenv("SKYMEM_BUILD");
    if (given)
        snprintf(model_path, sizeof model_path, "%s", given);
    if (!given && build) {
        char note[4096];
        snprintf(note, sizeof note, "%s/model.path", build);
        FILE *f = fopen(note, "r");
        if (f && fgets(model_path, sizeof model_path, f))
            model_path[strcspn(model_path, "\n")] = 0;
        if (f)
            fclose(f);
    }
    return model_path[0] && access(model_path, R_OK) == 0;
}

/* A text that does not repeat itself: numbers, in words. */
static void make_prompt(bench *b) {
    static const char *const words[] = {"zero", "one", "two",   "three", "four",
                                        "five", "six", "seven", "eight", "nine"};
    char text[20000];
    size_t used = 0;
    uint64_t random = 3;
    while (used < sizeof text - 32) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        used += (size_t)snprintf(text + used, 32, "%s %s%s", words[(random >> 33) % 10],
                                 words[(random >> 43) % 10], (random >> 53) % 8 ? " " : ".\n");
    }
    static uint32_t tokens[20000];
    size_t count;
    assert_int_equal(b->engine->ops->tokenize(b->engine->self, text, used, tokens, 20000, &count),
                     SKY_OK);
    assert_true(count >= TOKENS_MAX);
    memcpy(prompt, tokens, sizeof prompt);
}

static void open_model(bench *b, const char *kv_type, uint32_t context_tokens) {
    bench_open(b, &(sky_llama_options){.model_path = model_path, .kv_type = kv_type},
               context_tokens, 128);
    assert_null(sky_manager_refusal(b->manager));
    make_prompt(b);
}

static void restored_prefixes_answer_like_cold_runs(void **state) {
    (void)state;
    static const uint32_t lengths[] = {2080, 1056, 333};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    bench b;
    open_model(&b, NULL, TOKENS_MAX);
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

static void the_next_turn_hits_what_was_generated(void **state) {
    (void)state;
    bench b;
    open_model(&b, NULL, 512);
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
    open_model(&half, "f16", 768);
    open_model(&full, "f32", 768);
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
    open_model(&b, NULL, 512); /* for the prompt */
    bench_close(&b);
    const sky_llama_options options = {.model_path = model_path};
    expect_slots(&options, prompt, 256, 340, 128, GENERATED);
}

int main(void) {
    if (!find_model()) {
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
