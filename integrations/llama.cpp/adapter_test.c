/* Proves, on tiny models with random weights: a restored prefix gives the logits of a cold run to
 * the last bit, wherever a computed head and a loaded tail meet, while generating too, with full
 * attention and with windows of odd sizes, any prompt length and KV type; what cannot be cached is
 * refused with a sentence and answered; bad files and prompts end in an error. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "answer_fixture.h"
#include "meeting_fixture.h"
#include "tiny_model_fixture.h"

#define TOKENS_MAX 1400

static uint32_t prompt[TOKENS_MAX];

static void open_tiny(bench *b, const char *architecture, uint32_t window, const char *kv_type,
                      uint32_t block_tokens, uint32_t threads) {
    char path[256];
    tiny_model_write(architecture, window, 1, path, sizeof path);
    bench_open(b, &(sky_llama_options){.model_path = path, .threads = threads, .kv_type = kv_type},
               TOKENS_MAX, block_tokens);
    unlink(path);
    assert_null(sky_manager_refusal(b->manager));
}

static void restored_prefixes_answer_like_cold_runs(void **state) {
    (void)state;
    static const struct {
        const char *architecture;
        uint32_t window;
        const char *kv_type;
        uint32_t block_tokens, threads;
        bool far; /* two steps of the engine and more, else one and more */
    } models[] = {
        /* threads wait for each other: one model shows that their number does not matter */
        {"llama", 0, "f16", 128, 1, true},     {"llama", 0, "f32", 64, 1, false},
        {"gemma3", 64, "f16", 192, 1, false},  {"gemma3", 100, "f16", 128, 1, false},
        {"gemma3", 100, "f32", 256, 2, false}, {"gemma3", 512, "bf16", 128, 1, true},
    };
    enum { LENGTHS = 6 };
    static const uint32_t lengths[LENGTHS] = {1300, 1025, 777, 512, 257, 129};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        bench b;
        uint32_t block = models[i].block_tokens;
        size_t longest = models[i].far ? 0 : 2;
        uint32_t prefix = models[i].far ? 1152 : 768, most = lengths[longest];
        const uint32_t met[] = {0, prefix / 3, prefix / 3 * 2, prefix};
        open_tiny(&b, models[i].architecture, models[i].window, models[i].kv_type, block,
                  models[i].threads);
        answer cold[LENGTHS];
        for (size_t n = LENGTHS; n-- > longest;)
            cold[n] = bench_answer(&b, prompt, 0, lengths[n], 12);
        assert_int_equal(bench_save(&b, prompt, most), most / block);
        bench_expect_met(&b, prompt, most, prefix, met, 4, &cold[longest]);
        bench_expect_meetings(&b, prompt, most, block, prefix / 2 / block, &cold[longest]);
        for (size_t n = longest; n < LENGTHS; n++)
            bench_expect(&b, prompt, lengths[n], (lengths[n] - 1) / block * block, &cold[n]);
        /* From a shorter prompt to the longest: the window cells are there only in part. */
        bench_expect(&b, prompt, most, (most - 1) / block * block, &cold[longest]);
        bench_close(&b);
    }
}

/* Each restore finds the window cells of another prompt, cold or restored, longer or shorter. */
static void any_order_of_prompts_is_right(void **state) {
    (void)state;
    static const uint32_t lengths[] = {70, 200, 400, 640, 1000, 1300};
    bench b;
    open_tiny(&b, "gemma3", 64, NULL, 64, 1);
    answer cold[6];
    for (size_t i = 0; i < 6; i++)
        cold[i] = bench_answer(&b, prompt, 0, lengths[i], 6);
    bench_save(&b, prompt, 1300);
    uint32_t random = 1;
    for (int i = 0; i < 24; i++) {
        random = random * 1103515245u + 12345u;
        size_t n = (random >> 16) % 6;
        if (random >> 28 == 0)
            bench_answer(&b, prompt, 0, lengths[n], 2);
        bench_expect(&b, prompt, lengths[n], (lengths[n] - 1) / 64 * 64, &cold[n]);
    }
    bench_close(&b);
}

static void prompts_share_a_context(void **state) {
    (void)state;
    static const uint32_t windows[] = {0, 512};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        char path[256];
        tiny_model_write(windows[i] ? "gemma3" : "llama", windows[i], 1, path, sizeof path);
        const sky_llama_options options = {.model_path = path, .threads = 1};
        expect_slots(&options, prompt, 384, 500, 128, 12);
        sky_llama_options many = options;
        sky_llama *none = NULL;
        many.slots = SKY_LLAMA_SLOTS_MAX + 1;
        assert_int_equal(sky_llama_open(&many, &none, NULL), SKY_E_PARAM);
        assert_null(none);
        unlink(path);
    }
}

/* In a slot rows that left the window are gone for good: a save says so, unless it needs none. */
static void a_slot_saves_what_is_in_its_window(void **state) {
    (void)state;
    bench b;
    char path[256];
    sky_sequence *q;
    tiny_model_write("gemma3", 64, 1, path, sizeof path);
    bench_open(&b, &(sky_llama_options){.model_path = path, .threads = 1, .slots = 2}, 256, 32);
    unlink(path);
    b.engine = sky_llama_slot_engine(b.llama, 1);
    assert_int_equal(sky_sequence_open(b.manager, b.engine, &q), SKY_OK);
    bench_answer(&b, prompt, 0, 64, 1);
    uint32_t blocks;
    assert_int_equal(sky_sequence_save(q, prompt, 64, &blocks, NULL), SKY_OK);
    assert_int_equal(blocks, 2);
    bench_answer(&b, prompt, 64, 128, 1);
    assert_int_equal(sky_sequence_save(q, prompt, 128, &blocks, NULL), SKY_OK);
    assert_int_equal(blocks, 2);
    bench_answer(&b, prompt, 128, 250, 1);
    assert_int_equal(sky_sequence_save(q, prompt, 224, &blocks, NULL), SKY_E_PARAM);
    assert_int_equal(blocks, 0);
    sky_sequence_close(q);
    bench_close(&b);
}

static void layouts_are_what_the_models_have(void **state) {
    (void)state;
    bench b;
    sky_layout layout;
    open_tiny(&b, "llama", 0, NULL, 0, 1);
    sky_manager_layout(b.manager, &layout);
    assert_int_equal(layout.group_count, 1);
    assert_int_equal(layout.groups[0].kind, SKY_LAYER_FULL);
    assert_int_equal(layout.groups[0].layer_count, 7);
    assert_int_equal(layout.groups[0].k_row_bytes, 64);
    bench_close(&b);
    open_tiny(&b, "gemma3", 100, "f32", 0, 1);
    sky_manager_layout(b.manager, &layout);
    assert_int_equal(layout.group_count, 2);
    assert_int_equal(layout.groups[0].kind, SKY_LAYER_FULL);
    assert_int_equal(layout.groups[0].layer_count, 1);
    assert_int_equal(layout.groups[1].kind, SKY_LAYER_WINDOW);
    assert_int_equal(layout.groups[1].layer_count, 6);
    assert_int_equal(layout.groups[1].window_tokens, 100);
    assert_int_equal(layout.groups[1].v_row_bytes, 128);
    assert_int_equal(layout.groups[1].v_element, SKY_ELEMENT_F32);
    bench_close(&b);
}

static void a_fresh_process_and_a_grown_context_are_right_too(void **state) {
    (void)state;
    bench first, second;
    char path[256];
    tiny_model_write("gemma3", 100, 1, path, sizeof path);
    const sky_llama_options options = {.model_path = path, .threads = 1};
    bench_open(&first, &options, TOKENS_MAX, 64);
    answer cold = bench_answer(&first, prompt, 0, 1300, 12);
    bench_save(&first, prompt, 1300);
    bench_open(&second, &options, 300, 64);
    unlink(path);
    bench_share(&second, &first, 64);
    sky_lookup found = bench_look(&second, prompt, 1300); /* longer than the context */
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(sky_llama_reserve(second.llama, TOKENS_MAX, NULL), SKY_OK);
    bench_expect(&second, prompt, 1300, 1280, &cold);
    bench_close(&second);
    bench_close(&first);
}

static void the_next_turn_hits_what_was_generated(void **state) {
    (void)state;
    bench b;
    open_tiny(&b, "gemma3", 100, NULL, 64, 1);
    uint32_t talk[TOKENS_MAX];
    memcpy(talk, prompt, sizeof talk);
    answer first = bench_answer(&b, talk, 0, 264, 57);
    memcpy(talk + 264, first.tokens, 56 * sizeof *talk);
    answer on = bench_answer(&b, talk, 320, 360, 12); /* on top of what is there */
    assert_int_equal(bench_save(&b, talk, 320), 5);
    bench_expect(&b, talk, 360, 320, &on);
    bench_close(&b);
}

static void another_model_or_kv_type_never_hits(void **state) {
    (void)state;
    bench b, other;
    char path[256];
    open_tiny(&b, "llama", 0, "f16", 64, 1);
    bench_answer(&b, prompt, 0, 300, 1);
    assert_int_equal(bench_save(&b, prompt, 300), 4);
    for (int change = 0; change < 3; change++) {
        tiny_model_write("llama", 0, change == 1 ? 2 : 1, path, sizeof path);
        bench_open(&other,
                   &(sky_llama_options){.model_path = path, .kv_type = change == 2 ? "f32" : "f16"},
                   TOKENS_MAX, 64);
        unlink(path);
        bench_share(&other, &b, 64);
        assert_int_equal(bench_look(&other, prompt, 300).hit_tokens, change == 0 ? 256 : 0);
        bench_close(&other);
    }
    bench_close(&b);
}

static void what_cannot_be_cached_is_answered(void **state) {
    (void)state;
    char path[256];
    tiny_model_write("gemma3", 64, 1, path, sizeof path);
    const sky_llama_options settings[] = {
        {.model_path = path, .flash_attention_off = true},
        {.model_path = path, .kv_type = "q8_0"},
    };
    static const char *const sentences[] = {"flash attention is off", "quantised"};
    for (size_t i = 0; i < 2; i++) {
        bench b;
        bench_open(&b, &settings[i], TOKENS_MAX, 64);
        assert_non_null(sky_manager_refusal(b.manager));
        assert_non_null(strstr(sky_manager_refusal(b.manager), sentences[i]));
        answer cold = bench_answer(&b, prompt, 0, 300, 8);
        assert_int_equal(bench_save(&b, prompt, 300), 0);
        bench_expect(&b, prompt, 300, 0, &cold);
        bench_close(&b);
    }
    unlink(path);
}

/* llama.cpp turns the keys of such a model by the size of the context, which is in no key. */
static void rows_of_another_context_are_not_restored(void **state) {
    (void)state;
    char path[256];
    bench small, large;
    tiny_model_write("longrope", 0, 1, path, sizeof path);
    const sky_llama_options options = {.model_path = path};
    bench_open(&small, &options, 600, 64);
    bench_answer(&small, prompt, 0, 600, 1);
    bench_save(&small, prompt, 600);
    bench_open(&large, &options, TOKENS_MAX, 64);
    unlink(path);
    answer cold = bench_answer(&large, prompt, 0, 600, 8);
    bench_share(&large, &small, 64);
    bench_expect(&large, prompt, 600, 0, &cold);
    assert_non_null(strstr(sky_manager_refusal(large.manager), "size of the context"));
    bench_close(&large);
    bench_close(&small);
}

static void the_engine_does_not_lend_what_it_does_not_hold(void **state) {
    (void)state;
    bench b;
    open_tiny(&b, "gemma3", 100, NULL, 64, 1);
    bench_answer(&b, prompt, 0, 600, 1);
    bench_save(&b, prompt, 600);
    assert_int_equal(bench_look(&b, prompt, 600).hit_tokens, 576);
    sky_tensor rows[14];
    sky_state into = {rows, 14};
    const sky_engine_ops *ops = b.engine->ops;
    void *self = b.engine->self;
    assert_int_equal(ops->extract(self, 476, 100, &into), SKY_OK);
    assert_int_equal(ops->extract(self, 475, 100, &into), SKY_E_PARAM); /* before the window */
    assert_int_equal(ops->extract(self, 500, 77, &into), SKY_E_PARAM);  /* past the end */
    assert_int_equal(ops->extract(self, 400, 101, &into), SKY_E_PARAM); /* longer than the window */
    assert_int_equal(ops->prefill(self, prompt, 575, 1), SKY_E_PARAM);  /* a cropped window */
    assert_int_equal(ops->prefill(self, prompt, 577, 1), SKY_E_PARAM);
    assert_int_equal(ops->restore_end(self, true), SKY_E_PARAM);
    bench_close(&b);
}

static void llama_cpps_own_restore_stands_beside_ours(void **state) {
    (void)state;
    bench b;
    open_tiny(&b, "gemma3", 100, NULL, 64, 1);
    answer cold = bench_answer(&b, prompt, 0, 600, 12);
    bench_save(&b, prompt, 600);
    bench_answer(&b, prompt, 0, 576, 1);
    void *blob;
    size_t bytes;
    assert_int_equal(sky_llama_state_save(b.llama, &blob, &bytes), SKY_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sky_llama_state_restore(b.llama, blob, bytes, 576), SKY_OK);
        answer bare = bench_answer(&b, prompt, 576, 600, 1);
        assert_true(bare.logits[0] == cold.logits[0]);
        bench_expect(&b, prompt, 600, 576, &cold);
    }
    free(blob);
    bench_close(&b);
}

static void prompts_that_do_not_fit_are_an_error(void **state) {
    (void)state;
    bench b;
    sky_error error;
    open_tiny(&b, "llama", 0, NULL, 64, 1);
    const sky_engine_ops *ops = b.engine->ops;
    static const uint32_t zeros[4097];
    uint32_t context = sky_llama_context_tokens(b.llama), strange = TINY_VOCABULARY, token;
    size_t count;
    assert_true(context >= TOKENS_MAX && context < 4096);
    assert_int_equal(ops->prefill(b.engine->self, zeros, 0, context + 1), SKY_E_FULL);
    assert_int_equal(ops->prefill(b.engine->self, zeros, 0, 0), SKY_E_PARAM);
    assert_int_equal(ops->prefill(b.engine->self, &strange, 0, 1), SKY_E_PARAM);
    assert_null(sky_llama_logits(b.llama, NULL));
    assert_int_equal(sky_llama_reserve(b.llama, 4097, &error), SKY_E_FULL);
    assert_non_null(strstr(error.text, "4097 tokens do not fit"));
    assert_int_equal(ops->tokenize(b.engine->self, "a", 1, &token, 1, &count), SKY_E_UNSUPPORTED);
    bench_close(&b);
}

/* ---- files ---- */

static void expect_no_model(const char *path, sky_status status, const char *words) {
    sky_llama *llama = NULL;
    sky_error error = {0};
    assert_int_equal(sky_llama_open(&(sky_llama_options){.model_path = path}, &llama, &error),
                     status);
    assert_null(llama);
    assert_non_null(strstr(error.text, path));
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

/* The first `bytes` bytes of a model, with one of them changed. */
static void rewrite(const char *path, size_t bytes, size_t at, uint8_t value) {
    uint8_t *content = calloc(1, bytes);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    bytes = fread(content, 1, bytes, f);
    if (at < bytes)
        content[at] = value;
    assert_int_equal(ftruncate(fileno(f), (off_t)bytes), 0);
    rewind(f);
    assert_int_equal(fwrite(content, 1, bytes, f), bytes);
    fclose(f);
    free(content);
}

static void files_that_are_no_model_are_an_error(void **state) {
    (void)state;
    char path[256];
    expect_no_model("/no/such/model.gguf", SKY_E_IO, "No such file");
    expect_no_model("/", SKY_E_SYNTAX, "not a GGUF");
    static const size_t sizes[] = {0, 3, 4, 100, 2000, 300000};
    static const char *const words[] = {"not a GGUF", "not a GGUF", "damaged",
                                        "damaged",    "damaged",    "ends at byte"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tiny_model_write("llama", 0, 1, path, sizeof path);
        rewrite(path, sizes[i], SIZE_MAX, 0);
        expect_no_model(path, SKY_E_SYNTAX, words[i]);
        unlink(path);
    }
    tiny_model_write("llama", 0, 1, path, sizeof path);
    rewrite(path, 1u << 24, 0, 'g');
    expect_no_model(path, SKY_E_SYNTAX, "not a GGUF");
    unlink(path);
    tiny_model_write("no-such-architecture", 0, 1, path, sizeof path);
    expect_no_model(path, SKY_E_UNSUPPORTED, "refuses the model");
    unlink(path);
}

/* Nobody will ever write to it. */
static void a_fifo_is_no_model_at_once(void **state) {
    (void)state;
    char folder[] = "/tmp/skymem-fifo-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    expect_no_model(path, SKY_E_SYNTAX, "not a GGUF");
    alarm(0);
    unlink(path);
    rmdir(folder);
}

static void a_kv_type_that_is_none_is_an_error(void **state) {
    (void)state;
    sky_llama *llama = NULL;
    sky_error error;
    const sky_llama_options options = {.model_path = "/none", .kv_type = "f17"};
    assert_int_equal(sky_llama_open(&options, &llama, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "f17"));
}

/* From another thread, at whatever moment it comes. */
static void *interrupt_engine(void *argument) {
    const sky_engine *engine = argument;
    engine->ops->interrupt(engine->self);
    return NULL;
}

static void an_interrupted_engine_answers_on(void **state) {
    (void)state;
    bench b;
    open_tiny(&b, "gemma3", 100, "f16", 128, 1);
    const sky_engine_ops *ops = b.engine->ops;
    void *self = b.engine->self;
    static sky_tensor rows[64];
    sky_layout layout;
    sky_manager_layout(b.manager, &layout);
    sky_state out = {rows, 2 * (layout.groups[0].layer_count + layout.groups[1].layer_count)};
    answer cold = bench_answer(&b, prompt, 0, 1300, 4);
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        assert_int_equal(ops->restore_begin(self, 1280, &out), SKY_OK);
        assert_int_equal(ops->advance(self, prompt, 0, 64), SKY_OK);
        assert_int_equal(pthread_create(&thread, NULL, interrupt_engine, (void *)b.engine), 0);
        sky_status status = ops->advance(self, prompt + 64, 64, 1216);
        pthread_join(thread, NULL);
        assert_true(status == SKY_OK || status == SKY_E_CANCELLED);
        assert_int_equal(ops->advance(self, prompt, 0, 64), SKY_E_CANCELLED); /* until it begins */
        answer again = bench_answer(&b, prompt, 0, 1300, 4); /* prefill is not interrupted */
        expect_same(&again, &cold);
    }
    bench_expect_met(&b, prompt, 1300, 1280, &(uint32_t){640}, 1, &cold);
    bench_close(&b);
}

int main(void) {
    uint64_t random = 5;
    for (uint32_t i = 0; i < TOKENS_MAX; i++)
        prompt[i] = (uint32_t)((random = random * 6364136223846793005u + 1442695040888963407u) >>
                               33) %
                    TINY_VOCABULARY;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_prefixes_answer_like_cold_runs),
        cmocka_unit_test(an_interrupted_engine_answers_on),
        cmocka_unit_test(any_order_of_prompts_is_right),
        cmocka_unit_test(prompts_share_a_context),
        cmocka_unit_test(a_slot_saves_what_is_in_its_window),
        cmocka_unit_test(layouts_are_what_the_models_have),
        cmocka_unit_test(a_fresh_process_and_a_grown_context_are_right_too),
        cmocka_unit_test(the_next_turn_hits_what_was_generated),
        cmocka_unit_test(another_model_or_kv_type_never_hits),
        cmocka_unit_test(what_cannot_be_cached_is_answered),
        cmocka_unit_test(rows_of_another_context_are_not_restored),
        cmocka_unit_test(the_engine_does_not_lend_what_it_does_not_hold),
        cmocka_unit_test(llama_cpps_own_restore_stands_beside_ours),
        cmocka_unit_test(prompts_that_do_not_fit_are_an_error),
        cmocka_unit_test(files_that_are_no_model_are_an_error),
        cmocka_unit_test(a_fifo_is_no_model_at_once),
        cmocka_unit_test(a_kv_type_that_is_none_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
