/* Proves: a prefix of more blocks than there are segments to plan with comes by a deadline as
 * another does: whole, with windows and from two tiers too; as far as it came when a link fails;
 * while the engine computes its head; and once for two sequences. What lies all in memory is not
 * planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <skymem/codec.h>
#include <skymem/keys.h>

#include "cache/cache_internal.h"
#include "io/sync.h"
#include "manager/blocks.h"
#include "manager/shaped_fixture.h"
#include "manager/world_fixture.h"
#include "tier/encoded/encoded.h"

#define BLOCKS (2 * SKY_PACER_SEGMENTS_MAX + 1)
#define TOKENS (BLOCKS + 1)     /* of one token each, and one is left to compute */
#define PLENTY SKY_SECONDS(600) /* also under valgrind */

typedef struct {
    world w;
    shaped *far;
    uint64_t cold; /* the answer of a cold run */
} setting;

#define NO_MEMORY UINT32_MAX

static void forget_in_memory(setting *s, uint32_t kept) {
    static sky_key keys[BLOCKS];
    sky_namespace ns;
    sky_manager_namespace(s->w.manager, &ns);
    sky_block_keys(&ns, s->w.prompt, BLOCKS, 1, keys, BLOCKS);
    for (uint32_t b = BLOCKS; b > kept; b--) {
        sky_item item = {.key = keys[b - 1]};
        assert_int_equal(sky_run(s->w.cache, SKY_OP_REMOVE, &item, 1, &(sky_call){.tiers = 1}),
                         SKY_OK);
    }
}

/* The far tier has all of it; memory before it keeps so many leading blocks, or there is none. */
static void setup_over(setting *s, sky_layout layout, const sky_level_set *ladder, uint32_t kept) {
    sky_cache *c;
    sky_tier *near;
    sky_error error;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    if (kept != NO_MEMORY) {
        assert_int_equal(sky_memory_tier_open("mem:64MiB", &env, &near, &error), SKY_OK);
        sky__cache_add(c, near);
    }
    s->far = shaped_open(&env);
    sky_tier *tier = shaped_tier(s->far);
    if (ladder)
        assert_int_equal(sky_coded_tier_open(tier, ladder, &tier), SKY_OK);
    sky__cache_add(c, tier);
    assert_int_equal(sky__cache_start(c), SKY_OK);
    world_open_on(&s->w, layout, 1, c);
    s->w.engine.tame = true;
    s->cold = world_cold(&s->w, TOKENS);
    assert_int_equal(world_save(&s->w, BLOCKS), BLOCKS);
    assert_int_equal(sky_flush(c, sky_now() + SKY_SECONDS(20), NULL), SKY_OK);
    if (kept != NO_MEMORY)
        forget_in_memory(s, kept);
    shaped_moved(s->far);
}

/* What comes gives the answer of a cold run. */
static sky_lookup look(setting *s, sky_time within, bool exact) {
    sky_lookup found = world_look(&s->w, TOKENS, within ? sky_now() + within : 0);
    uint64_t answer = made_up_engine_answer(&s->w.engine, s->w.prompt, found.hit_tokens, TOKENS);
    assert_true(!exact || answer == s->cold);
    return found;
}

/* What was given up has left the link. */
static void calm(setting *s) {
    do
        sky_poll(NULL, 0, sky_now() + SKY_MS(10));
    while (shaped_moved(s->far) > 0);
}

/* ---- tests ---- */

static void bring(sky_layout layout, const sky_level_set *ladder, uint32_t kept) {
    static setting s;
    setup_over(&s, layout, ladder, kept);
    sky_lookup found = look(&s, PLENTY, !ladder);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.block_count, BLOCKS);
    assert_int_equal(found.tier_blocks[0], kept < BLOCKS ? kept : BLOCKS);
    world_close(&s.w);
}

static void what_lies_in_memory_is_not_planned(void **state) {
    (void)state;
    static setting s;
    setup_over(&s, made_up_layout(2, 2, 100), NULL, BLOCKS);
    sky_lookup found = look(&s, PLENTY, true);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.tier_blocks[0], BLOCKS);
    assert_int_equal(s.w.manager->tiers[0].brought, 0); /* nothing was learnt of it as a link */
    world_close(&s.w);
}

static void all_of_it_comes(void **state) {
    (void)state;
    static const sky_level_set two = {{SKY_LEVEL_8 + 1, SKY_LEVEL_2 + 1}, 2};
    bring(made_up_layout(2, 0, 0), NULL, NO_MEMORY);
    bring(made_up_layout(2, 2, 1), NULL, NO_MEMORY);
    bring(made_up_layout(2, 2, 2), NULL, NO_MEMORY);
    bring(made_up_layout(2, 2, 100), NULL, NO_MEMORY);
    bring(made_up_layout(2, 0, 0), &two, NO_MEMORY);
    bring(made_up_layout(2, 0, 0), NULL, BLOCKS);
}

/* A segment may have blocks of both. */
static void it_comes_from_two_tiers(void **state) {
    (void)state;
    bring(made_up_layout(2, 0, 0), NULL, 1000);
    bring(made_up_layout(2, 2, 100), NULL, 1000);
}

/* The link slows down when two thirds are there. */
static void what_came_of_it_is_kept(void **state) {
    (void)state;
    for (uint32_t window = 0; window <= 10; window += 10) {
        static setting s;
        setup_over(&s, made_up_layout(2, window ? 2 : 0, window), NULL, NO_MEMORY);
        sky_payload payload = world_payload(&s.w, 1);
        double bytes = BLOCKS * (double)sky_payload_lead_bytes(&payload);
        sky_lookup found = {.verdict = SKY_VERDICT_MISS};
        for (double all = 0.3; found.block_count <= SKY_PACER_SEGMENTS_MAX; all *= 2) {
            assert_true(all < 20); /* seconds: a busy machine is waited for */
            shaped_rate(s.far, bytes / all);
            look(&s, PLENTY, true); /* now it is known */
            calm(&s);
            shaped_rate_after(s.far, bytes / all / 20, (uint64_t)bytes / 3 * 2);
            found = look(&s, (sky_time)(all * 3e9), true);
            assert_true(found.block_count < BLOCKS);
            calm(&s);
        }
        world_close(&s.w);
    }
}

/* Without a deadline. */
static void the_engine_computes_the_head(void **state) {
    (void)state;
    static setting s;
    setup_over(&s, made_up_layout(2, 2, 100), NULL, NO_MEMORY);
    s.w.engine.advances = true;
    world_renew(&s.w, &(sky_manager_options){.block_tokens = 1});
    shaped_rate(s.far, 1e5); /* all takes it four seconds */
    sky_lookup found = look(&s, 0, true);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_true(found.computed_tokens > 0);
    world_close(&s.w);
}

/* Another sequence of the manager, on a thread. */
typedef struct {
    sky_sequence *sequence;
    const uint32_t *prompt;
    sky_lookup found;
    sky_status status;
} rival;

static void *rival_body(void *argument) {
    rival *r = argument;
    r->status = sky_sequence_load(r->sequence, r->prompt, TOKENS, sky_now() + PLENTY, &r->found);
    return NULL;
}

static void two_sequences_read_it_once(void **state) {
    (void)state;
    static setting s;
    sky_thread thread;
    made_up_engine engine;
    rival r = {.prompt = s.w.prompt};
    setup_over(&s, made_up_layout(2, 0, 0), NULL, 0);
    double all = (double)BLOCKS * (double)world_payload(&s.w, 1).payload_bytes;
    made_up_engine_init(&engine, &s.w.engine.layout, WORLD_TOKENS_MAX);
    sky_engine other = made_up_engine_ops(&engine);
    assert_int_equal(sky_sequence_open(s.w.manager, &other, &r.sequence), SKY_OK);
    shaped_rate(s.far, all);
    assert_int_equal(sky_thread_start(&thread, "rival", rival_body, &r), SKY_OK);
    assert_int_equal(look(&s, PLENTY, true).block_count, BLOCKS);
    sky_thread_join(&thread);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(r.found.block_count, BLOCKS);
    assert_true((double)shaped_moved(s.far) < 1.25 * all);
    sky_sequence_close(r.sequence);
    made_up_engine_deinit(&engine);
    world_close(&s.w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_in_memory_is_not_planned),
        cmocka_unit_test(all_of_it_comes),
        cmocka_unit_test(it_comes_from_two_tiers),
        cmocka_unit_test(what_came_of_it_is_kept),
        cmocka_unit_test(the_engine_computes_the_head),
        cmocka_unit_test(two_sequences_read_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
