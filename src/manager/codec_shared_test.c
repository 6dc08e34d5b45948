/* Proves: managers over one cache with a level share its codec, also when one of them ends, and one
 * whose blocks are coded in another way is refused there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/manager.h>

#include "manager/engine_fixture.h"

#define TOKENS  100
#define BLOCKS  6 /* of 16 tokens, that a load can use */
#define LEVEL_4 (SKY_LEVEL_4 + 1)

static const sky_layout layout = {
    .group_count = 1,
    .groups = {{SKY_LAYER_FULL, 0, 1, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 128, 128}}};

typedef struct {
    char folder[32];
    sky_cache *cache;
    made_up_engine e;
    uint32_t tokens[TOKENS];
} place;

static void place_open(place *p, const char *tier) {
    char url[128];
    const char *urls[] = {url};
    sky_error error;
    snprintf(p->folder, sizeof p->folder, "/tmp/skymem-shared-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(url, sizeof url, tier, p->folder);
    if (sky_cache_open(urls, 1, &p->cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < TOKENS; i++)
        p->tokens[i] = 7 * i + 1;
    sky_layout l = layout;
    made_up_engine_init(&p->e, &l, 256);
    p->e.tame = true;
}

static void place_close(place *p) {
    char command[128];
    sky_cache_close(p->cache);
    snprintf(command, sizeof command, "rm -rf %s", p->folder);
    assert_int_equal(system(command), 0);
    made_up_engine_deinit(&p->e);
}

static sky_status create(place *p, uint8_t salt, uint32_t block_tokens, const sky_profile *profile,
                         sky_manager **out, sky_error *error) {
    const sky_manager_options options = {
        .block_tokens = block_tokens, .salt = {salt}, .profile = profile};
    sky_engine engine = made_up_engine_ops(&p->e);
    return sky_manager_create(p->cache, &engine, &options, out, error);
}

static sky_manager *manager(place *p, uint8_t salt, const sky_profile *profile) {
    sky_manager *m = NULL;
    assert_int_equal(create(p, salt, 16, profile, &m, NULL), SKY_OK);
    return m;
}

static sky_lookup visit(place *p, sky_manager *m) {
    sky_engine engine = made_up_engine_ops(&p->e);
    sky_sequence *sequence;
    sky_lookup found;
    assert_int_equal(sky_sequence_open(m, &engine, &sequence), SKY_OK);
    assert_int_equal(sky_sequence_load(sequence, p->tokens, TOKENS, 0, &found), SKY_OK);
    made_up_engine_answer(&p->e, p->tokens, found.hit_tokens, TOKENS);
    assert_int_equal(sky_sequence_save(sequence, p->tokens, TOKENS, NULL, NULL), SKY_OK);
    sky_sequence_close(sequence);
    return found;
}

/* What a manager stores, it finds at its level. */
static void expect_coded(place *p, sky_manager *m) {
    assert_int_equal(visit(p, m).hit_tokens, 0);
    assert_int_equal(visit(p, m).level_blocks[LEVEL_4], BLOCKS);
}

static void the_end_of_one_leaves_the_codec_to_the_other(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        static place p;
        place_open(&p, "disk:%s?level=4");
        sky_manager *m[] = {manager(&p, 1, NULL), manager(&p, 2, NULL)};
        sky_manager_destroy(m[order]);
        expect_coded(&p, m[1 - order]);
        sky_manager *third = manager(&p, 3, NULL);
        sky_manager_destroy(m[1 - order]);
        expect_coded(&p, third);
        sky_manager_destroy(third);
        place_close(&p);
    }
}

static void blocks_coded_in_another_way_are_refused(void **state) {
    (void)state;
    static place p;
    static sky_error error;
    place_open(&p, "disk:%s?level=4");
    sky_manager *first = manager(&p, 1, NULL), *second = NULL;
    assert_int_equal(create(&p, 1, 32, NULL, &second, &error), SKY_E_BUSY);
    assert_null(second);
    assert_non_null(strstr(error.text, "open a cache of its own"));
    expect_coded(&p, first);
    sky_manager_destroy(first);
    assert_int_equal(create(&p, 1, 32, NULL, &second, &error), SKY_OK);
    sky_manager_destroy(second);
    place_close(&p);
    place_open(&p, "disk:%s"); /* nothing is coded there */
    first = manager(&p, 1, NULL);
    assert_int_equal(create(&p, 1, 32, NULL, &second, &error), SKY_OK);
    sky_manager_destroy(second);
    sky_manager_destroy(first);
    place_close(&p);
}

static sky_profile *calibrate(float step) {
    const sky_profile_layer layer = {1, 64, 64, SKY_ROPE_OF_NONE};
    const sky_profile_shape shape = {.layer_count = 1, .layers = &layer};
    sky_profile *p;
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    for (int kv = SKY_KV_K; kv <= SKY_KV_V; kv++)
        for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
            assert_int_equal(sky_profile_set_step(p, 0, (sky_kv)kv, (sky_level)level, false, step),
                             SKY_OK);
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    return p;
}

/* Each sees that its blocks are of another calibration, even if the other's codec met them. */
static void either_sees_another_calibration(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        static place p;
        sky_profile *before = calibrate(0.25f), *now = calibrate(0.5f);
        place_open(&p, "disk:%s?level=4");
        sky_manager *m[] = {manager(&p, 1, before), NULL};
        expect_coded(&p, m[0]);
        assert_int_equal(create(&p, 1, 16, now, &m[1], NULL), SKY_E_BUSY);
        sky_manager_destroy(m[0]);
        for (int i = 0; i < 2; i++)
            m[i] = manager(&p, 1, now);
        assert_int_equal(visit(&p, m[which]).foreign_blocks, BLOCKS);
        assert_int_equal(visit(&p, m[which]).level_blocks[LEVEL_4], BLOCKS); /* stored again */
        for (int i = 0; i < 2; i++)
            sky_manager_destroy(m[i]);
        place_close(&p);
        sky_profile_destroy(before);
        sky_profile_destroy(now);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_one_leaves_the_codec_to_the_other),
        cmocka_unit_test(blocks_coded_in_another_way_are_refused),
        cmocka_unit_test(either_sees_another_calibration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
