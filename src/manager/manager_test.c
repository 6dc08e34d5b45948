/* Proves: blocks of another model, tenant or block length never hit, an engine that cannot be
 * cached says why and still answers, and prompts may come as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager/world_fixture.h"

static void text_is_tokenized_by_the_engine(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 1, 8), 4);
    const char *text = "on the sea of clouds";
    uint32_t tokens[32], blocks;
    for (size_t i = 0; i < strlen(text); i++)
        tokens[i] = (uint8_t)text[i];
    uint64_t bytes, answer = made_up_engine_answer(&w.engine, tokens, 0, 20);
    assert_int_equal(sky_sequence_save_text(w.sequence, text, &blocks, &bytes), SKY_OK);
    assert_int_equal(blocks, 5);
    sky_lookup found;
    assert_int_equal(sky_sequence_load_text(w.sequence, text, 0, &found), SKY_OK);
    assert_int_equal(found.hit_tokens, 16);
    assert_true(made_up_engine_answer(&w.engine, tokens, 16, 20) == answer);
    /* what is refused saved nothing, and says so; who does not ask is not told */
    blocks = 7, bytes = 7;
    assert_int_equal(sky_sequence_save_text(w.sequence, NULL, &blocks, &bytes), SKY_E_PARAM);
    assert_int_equal(blocks, 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(sky_sequence_save_text(NULL, text, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_text(w.sequence, text, NULL, NULL), SKY_OK);
    assert_int_equal(sky_sequence_load_text(NULL, text, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_text(w.sequence, NULL, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_text(w.sequence, text, 0, NULL), SKY_E_PARAM);
    world_close(&w);
}

static void another_model_or_tenant_never_hits(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 2, 50), 32);
    world_cold(&w, 330);
    world_save(&w, 330);
    sky_namespace first, second;
    sky_manager_namespace(w.manager, &first);
    for (int change = 0; change < 7; change++) {
        sky_manager_options options = {.block_tokens = 32};
        if (change == 1)
            options.salt[31] = 1;
        if (change == 2)
            options.block_tokens = 16;
        w.engine.fingerprint = change == 3;
        w.engine.layout.shard_rank = change == 5;
        w.engine.layout.shard_count = change == 4 || change == 5 ? 2 : change == 6;
        world_renew(&w, &options);
        sky_manager_namespace(w.manager, &second);
        bool same = change == 0 || change == 6; /* one part is the whole */
        assert_int_equal(memcmp(&first, &second, sizeof first) == 0, same);
        sky_lookup found = world_look(&w, 330, 0);
        assert_int_equal(found.verdict, same ? SKY_VERDICT_HIT : SKY_VERDICT_MISS);
    }
    world_close(&w);
}

static void an_engine_that_cannot_be_cached_still_answers(void **state) {
    (void)state;
    static world w;
    sky_layout layout = made_up_layout(1, 1, 50);
    made_up_engine_init(&w.engine, &layout, WORLD_TOKENS_MAX);
    w.engine.unsupported = true;
    const char *url = "mem:1MiB";
    assert_int_equal(sky_cache_open(&url, 1, &w.cache, NULL), SKY_OK);
    world_renew(&w, NULL);
    assert_string_equal(sky_manager_refusal(w.manager), "this engine is made up");
    uint64_t answer = world_cold(&w, 330);
    assert_int_equal(world_save(&w, 330), 0);
    sky_lookup found = world_expect(&w, 330, answer);
    assert_int_equal(found.verdict, SKY_VERDICT_MISS);
    assert_int_equal(w.engine.extract_calls + w.engine.restore_calls, 0);
    world_close(&w);
}

static void break_layout(sky_layout *l, size_t n) {
    sky_layer_group *window = &l->groups[0], *full = &l->groups[1];
    switch (n) {
    case 0:
        l->group_count = 0;
        break;
    case 1:
        l->group_count = SKY_LAYER_GROUPS_MAX + 1;
        break;
    case 2:
        full->kind = (sky_layer_kind)77;
        break;
    case 3:
        full->window_tokens = 5;
        break;
    case 4:
        window->window_tokens = 0;
        break;
    case 5:
        full->layer_count = 0;
        break;
    case 6:
        full->layer_count = SKY_LAYERS_MAX;
        break;
    case 7:
        window->k_element = (sky_element)99;
        break;
    case 8:
        full->k_row_bytes = 0;
        break;
    case 9:
        window->v_row_bytes = 1u << 30;
        break;
    case 10:
        full->v_row_bytes = 7;
        break;
    case 11:
        window->kind = SKY_LAYER_RECURRENT;
        break;
    case 12:
        l->shard_rank = 2;
        l->shard_count = 2;
        break;
    default:
        l->shard_rank = 1;
    }
}

static void a_bad_layout_is_refused_with_its_member(void **state) {
    (void)state;
    static const char *const says[] = {"layout: group_count is 0: 1 to 8",
                                       "group_count is 9",
                                       "groups[1].kind is 77",
                                       "groups[1].window_tokens is 5: 0 where layers are full",
                                       "groups[0].window_tokens is 0: at least 1",
                                       "groups[1].layer_count is 0",
                                       "1025 layers in all groups",
                                       "groups[0].k_element is 99",
                                       "groups[1].k_row_bytes is 0",
                                       "groups[0].v_row_bytes is 1073741824",
                                       "groups[1].v_row_bytes is 7: a multiple of 2",
                                       "groups[0] is recurrent",
                                       "shard_rank is 2 of 2",
                                       "shard_rank is 1 of 0"};
    for (size_t n = 0; n < sizeof says / sizeof *says; n++) {
        static world w;
        world_open(&w, made_up_layout(1, 1, 50), 32);
        sky_layout good = w.engine.layout;
        sky_engine engine = made_up_engine_ops(&w.engine);
        sky_manager *m;
        break_layout(&w.engine.layout, n);
        assert_int_equal(sky_manager_create(w.cache, &engine, NULL, &m, NULL), SKY_OK);
        assert_non_null(sky_manager_refusal(m));
        assert_non_null(strstr(sky_manager_refusal(m), says[n]));
        sky_manager_destroy(m);
        w.engine.layout = good;
        world_close(&w);
    }
}

static void blocks_longer_than_the_limit_are_an_error(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 1, 50), 10);
    sky_engine engine = made_up_engine_ops(&w.engine);
    sky_manager_options options = {.block_tokens = SKY_BLOCK_TOKENS_MAX + 1};
    sky_manager *manager = NULL;
    sky_error error;
    assert_int_equal(sky_manager_create(w.cache, &engine, &options, &manager, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "4097"));
    assert_null(manager);
    world_close(&w);
}

static void verdicts_have_names(void **state) {
    (void)state;
    assert_string_equal(sky_verdict_name(SKY_VERDICT_HIT), "hit");
    assert_string_equal(sky_verdict_name(SKY_VERDICT_PARTIAL), "partial");
    assert_string_equal(sky_verdict_name(SKY_VERDICT_MISS), "miss");
    assert_string_equal(sky_verdict_name(SKY_VERDICT_RECOMPUTE), "recompute");
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    static world w;
    world_open(&w, made_up_layout(1, 1, 8), 4);
    sky_engine engine = made_up_engine_ops(&w.engine);
    sky_engine_ops lacking = *engine.ops;
    lacking.prefill = NULL;
    const sky_engine incomplete = {&lacking, engine.self};
    sky_manager *none = NULL;
    sky_error error = {.text = ""};
    assert_int_equal(sky_manager_create(NULL, &engine, NULL, &none, &error), SKY_E_PARAM);
    assert_int_equal(sky_manager_create(w.cache, NULL, NULL, &none, &error), SKY_E_PARAM);
    assert_int_equal(sky_manager_create(w.cache, &engine, NULL, NULL, &error), SKY_E_PARAM);
    assert_int_equal(sky_manager_create(w.cache, &incomplete, NULL, &none, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "all its functions"));
    assert_null(none);
    uint32_t token = 1, blocks;
    uint64_t bytes;
    sky_lookup found;
    assert_int_equal(sky_sequence_load(w.sequence, NULL, 5, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load(w.sequence, &token, 1, 0, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load(NULL, &token, 1, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_text(w.sequence, NULL, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save(w.sequence, NULL, 5, &blocks, &bytes), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_text(NULL, "x", &blocks, &bytes), SKY_E_PARAM);
    assert_string_equal(sky_verdict_name((sky_verdict)77), "unknown");
    assert_non_null(sky_manager_refusal(NULL));
    sky_manager_destroy(NULL);
    sky_sequence_close(NULL);
    sky_sequence_cancel(NULL);
    sky_sequence *sequence = NULL;
    assert_int_equal(sky_sequence_open(NULL, &engine, &sequence), SKY_E_PARAM);
    assert_int_equal(sky_sequence_open(w.manager, &incomplete, &sequence), SKY_E_PARAM);
    w.engine.fingerprint = 1; /* another model */
    assert_int_equal(sky_sequence_open(w.manager, &engine, &sequence), SKY_E_PARAM);
    w.engine.fingerprint = 0;
    w.engine.layout.groups[0].layer_count++; /* the same, laid out in another way */
    assert_int_equal(sky_sequence_open(w.manager, &engine, &sequence), SKY_E_PARAM);
    w.engine.layout.groups[0].layer_count--;
    assert_null(sequence);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(text_is_tokenized_by_the_engine),
        cmocka_unit_test(another_model_or_tenant_never_hits),
        cmocka_unit_test(an_engine_that_cannot_be_cached_still_answers),
        cmocka_unit_test(a_bad_layout_is_refused_with_its_member),
        cmocka_unit_test(blocks_longer_than_the_limit_are_an_error),
        cmocka_unit_test(verdicts_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
