/* Proves, on tiny models with random weights, with full attention and with a window: whatever goes
 * wrong with a store or an engine while the head of a prompt is computed, the answer is a cold
 * run's to the last bit, and as much is there as can be; and a context that is too short for what
 * is stored is no failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "meeting_fixture.h"
#include "tiny_model_fixture.h"

#define TOKENS 1100u
#define BLOCK  128u

static uint32_t prompt[TOKENS];

static void open_tiny(bench *b, uint32_t window, uint32_t context_tokens) {
    char path[256];
    tiny_model_write(window ? "gemma3" : "llama", window, 1, path, sizeof path);
    bench_open(b, &(sky_llama_options){.model_path = path, .threads = 1}, context_tokens, BLOCK);
    unlink(path);
}

static void trouble_while_it_computes_costs_no_right_answer(void **state) {
    (void)state;
    static const uint32_t windows[] = {0, 100};
    for (size_t i = 0; i < 2; i++) {
        bench b;
        open_tiny(&b, windows[i], TOKENS + 4);
        answer cold = bench_answer(&b, prompt, 0, TOKENS, 4);
        assert_int_equal(bench_save(&b, prompt, TOKENS), TOKENS / BLOCK);
        bench_expect_trouble(&b, prompt, TOKENS, BLOCK, &cold);
        bench_close(&b);
    }
}

/* An engine whose context has no room for all that is stored. */
static void a_context_that_is_too_short_is_no_failure(void **state) {
    (void)state;
    bench large, small;
    open_tiny(&large, 0, TOKENS + 4);
    open_tiny(&small, 0, 512);
    bench_share(&small, &large, BLOCK);
    bench_answer(&large, prompt, 0, TOKENS, 1);
    assert_int_equal(bench_save(&large, prompt, TOKENS), TOKENS / BLOCK);
    answer cold = bench_answer(&small, prompt, 0, 500, 4);
    sky_lookup found = bench_look(&small, prompt, TOKENS);
    assert_int_equal(found.hit_tokens, 0);
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    bench_expect(&small, prompt, 500, 3 * BLOCK, &cold); /* the same prompt, cut to what fits */
    bench_close(&small);
    bench_close(&large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trouble_while_it_computes_costs_no_right_answer),
        cmocka_unit_test(a_context_that_is_too_short_is_no_failure),
    };
    for (uint32_t i = 0; i < TOKENS; i++)
        prompt[i] = (i * 2654435761u >> 7) % 250 + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
