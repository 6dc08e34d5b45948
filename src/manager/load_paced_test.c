/* Proves: from a tier that keeps several levels a deadline gets the best that it allows, and what
 * came of it when it does not come whole, with a window too, which costs nothing where there is
 * time; that a link that slows down under way changes what comes; that a level that is lost is no
 * other's business; that what is nearer comes when what is farther is too slow; that a slow tier is
 * tried again; that one of which little was asked is asked for more; and that others' batches make
 * nothing fail, nor this one spin; and that a request that fails holds up nobody.
 *
 * What a link cannot carry holds on any machine. What it can carry in time a busy one may spoil:
 * that is tried at times that double until it is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <skymem/codec.h>
#include <skymem/keys.h>

#include "base/hash.h"
#include "cache/cache_internal.h"
#include "io/sync.h"
#include "manager/blocks.h"
#include "manager/shaped_fixture.h"
#include "manager/world_fixture.h"
#include "tier/encoded/encoded.h"

#define BLOCK_TOKENS 64
#define BLOCKS       16
#define TOKENS       (BLOCKS * BLOCK_TOKENS + 1)
#define PLENTY       SKY_SECONDS(60)
#define LEVEL_8      (SKY_LEVEL_8 + 1)
#define LEVEL_4      (SKY_LEVEL_4 + 1)
#define LEVEL_2      (SKY_LEVEL_2 + 1)

static const sky_level_set three = {{LEVEL_8, LEVEL_4, LEVEL_2}, 3};

/* Two full layers, so that blocks are of one size: 128 KiB. */
static const sky_layout even = {
    .group_count = 1,
    .groups = {{SKY_LAYER_FULL, 0, 2, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 512, 512}}};

/* One layer in four has a window, which begins within a block: 192 and 64 KiB. */
static sky_layout windowed(uint32_t window_tokens) {
    return (sky_layout){
        .group_count = 2,
        .groups = {
            {SKY_LAYER_WINDOW, window_tokens, 1, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 512, 512},
            {SKY_LAYER_FULL, 0, 3, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 512, 512}}};
}

typedef struct {
    world w;
    shaped *far;
    uint64_t cold; /* the answer of a cold run */
} setting;

/* One tier behind a link, coded at these levels (count 0: not); all blocks are in it. */
static void setup_of(setting *s, sky_layout layout, const sky_level_set *ladder) {
    sky_cache *c;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    s->far = shaped_open(&env);
    sky_tier *tier = shaped_tier(s->far);
    if (ladder)
        assert_int_equal(sky_coded_tier_open(tier, ladder, &tier), SKY_OK);
    sky__cache_add(c, tier);
    assert_int_equal(sky__cache_start(c), SKY_OK);
    world_open_on(&s->w, layout, BLOCK_TOKENS, c);
    s->w.engine.tame = true;
    s->cold = world_cold(&s->w, TOKENS);
    assert_int_equal(world_save(&s->w, TOKENS), BLOCKS);
}

static void setup(setting *s, const sky_level_set *ladder) {
    setup_of(s, even, ladder);
}

static sky_lookup look(setting *s, sky_time within) {
    return world_look(&s->w, TOKENS, within ? sky_now() + within : 0);
}

/* What was given up has left the link. */
static void calm(setting *s) {
    do
        sky_poll(NULL, 0, sky_now() + SKY_MS(10));
    while (shaped_moved(s->far) > 0);
}

static uint32_t levels_sum(const sky_lookup *l) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= SKY_CODINGS_MAX; i++)
        sum += l->level_blocks[i];
    return sum;
}

/* Bytes of all blocks at a level, as a link sees them. */
static uint64_t bytes_at(setting *s, sky_coding coding) {
    sky_namespace ns;
    sky_key keys[BLOCKS];
    sky_manager_namespace(s->w.manager, &ns);
    sky_block_keys(&ns, s->w.prompt, TOKENS - 1, BLOCK_TOKENS, keys, BLOCKS);
    uint64_t payload_bytes = world_payload(&s->w, BLOCK_TOKENS).payload_bytes;
    uint8_t *back = malloc(payload_bytes);
    shaped_moved(s->far);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        sky_span span = {back, payload_bytes};
        sky_item item = {.key = keys[b], .spans = &span, .span_count = 1};
        const sky_call call = {.wanted = coding};
        assert_int_equal(sky_run(s->w.cache, SKY_OP_GET, &item, 1, &call), SKY_OK);
        assert_int_equal(item.status, SKY_OK);
        assert_int_equal(item.coding, coding);
    }
    free(back);
    return shaped_moved(s->far);
}

/* ---- levels ---- */

/* Seconds for the next try. */
static double slower(double seconds) {
    assert_true(seconds < 20);
    return 2 * seconds;
}

static void time_buys_levels(void **state) {
    (void)state;
    static setting s;
    setup(&s, &three);
    uint64_t best = bytes_at(&s, LEVEL_8), least = bytes_at(&s, LEVEL_2);
    assert_true(least < best / 2);

    sky_lookup found = look(&s, 0);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.level_blocks[LEVEL_8], BLOCKS);

    double all = 0.1; /* seconds that all take at level 8 */
    for (;; all = slower(all)) {
        shaped_rate(s.far, (double)best / all);
        found = look(&s, PLENTY);
        assert_int_equal(found.verdict, SKY_VERDICT_HIT);
        assert_int_equal(found.level_blocks[LEVEL_8], BLOCKS);

        found = look(&s, (sky_time)(all * 0.9e9));
        assert_int_equal(levels_sum(&found), found.block_count);
        assert_true(found.level_blocks[LEVEL_8] < BLOCKS);
        if (found.verdict == SKY_VERDICT_HIT)
            break;
    }
    assert_true(found.level_blocks[LEVEL_4] + found.level_blocks[LEVEL_2] > 0);

    calm(&s);
    found = look(&s, (sky_time)(all * 1e9 / BLOCKS / 20)); /* a twentieth of a block at level 8 */
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(found.bytes_loaded, 0);
    assert_int_equal(shaped_moved(s.far), 0);
    world_close(&s.w);
}

/* Nothing is known of the link, and the first lookup is in time all the same. */
static void the_first_lookup_begins_modestly(void **state) {
    (void)state;
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double all = 0.1; found.verdict != SKY_VERDICT_HIT; all = slower(all)) {
        static setting s;
        setup(&s, &three);
        uint64_t best = bytes_at(&s, LEVEL_8), least = bytes_at(&s, LEVEL_2);
        shaped_rate(s.far, (double)(best + least) / 2 / all);
        found = look(&s, (sky_time)(all * 1.4e9));
        assert_int_equal(levels_sum(&found), found.block_count);
        assert_true(found.level_blocks[LEVEL_8] < BLOCKS);
        world_close(&s.w);
    }
}

/* Nor of its delay, for which a link that is asked for two blocks at a time mostly waits: eight
 * round trips, where there is time for six, and yet all come, and many at the best level. */
static void fill_a_long_link(sky_layout layout) {
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double all = 0.1; found.level_blocks[LEVEL_8] < BLOCKS / 2; all = slower(all)) {
        static setting s;
        setup_of(&s, layout, &three);
        shaped_rate(s.far, (double)bytes_at(&s, LEVEL_8) / all);
        shaped_delay(s.far, (sky_time)(all * 1e9));
        found = look(&s, (sky_time)(all * 6e9));
        assert_int_equal(levels_sum(&found), found.block_count);
        world_close(&s.w);
    }
}

static void the_first_lookup_fills_a_long_link(void **state) {
    (void)state;
    fill_a_long_link(even);
    fill_a_long_link(windowed(BLOCK_TOKENS * 3 / 2));
}

/* Each turn is a block longer than the last one, and none was a measure of the link. */
static void a_conversation_that_grows_is_followed(void **state) {
    (void)state;
    uint32_t hits = 0;
    for (double delay = 0.03; hits < BLOCKS; delay = slower(delay)) {
        static setting s;
        setup(&s, &three);
        shaped_rate(s.far, 100e6);
        shaped_delay(s.far, (sky_time)(delay * 1e9));
        hits = 0;
        for (uint32_t blocks = 1; blocks <= BLOCKS; blocks++) {
            sky_time deadline = sky_now() + (sky_time)(delay * 5e9);
            sky_lookup found = world_look(&s.w, blocks * BLOCK_TOKENS + 1, deadline);
            hits += found.verdict == SKY_VERDICT_HIT && found.block_count == blocks;
        }
        world_close(&s.w);
    }
}

/* The link loses most of its rate when a quarter is there: the rest comes lower, in time. */
static void a_link_that_slows_down_is_asked_for_less(void **state) {
    (void)state;
    static setting s;
    setup(&s, &three);
    uint64_t best = bytes_at(&s, LEVEL_8);
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double all = 0.1; found.verdict != SKY_VERDICT_HIT || found.level_blocks[LEVEL_8] == 0;
         all = slower(all)) {
        shaped_rate(s.far, (double)best / all);
        look(&s, PLENTY); /* now it is known to be fast */
        shaped_rate_after(s.far, (double)best / all / 4, best / 4);
        found = look(&s, (sky_time)(all * 2.9e9));
        assert_int_equal(levels_sum(&found), found.block_count);
        assert_true(found.level_blocks[LEVEL_8] < BLOCKS);
    }
    world_close(&s.w);
}

/* The link stops when a third is there: that third goes to the engine. */
static void what_came_by_the_deadline_is_kept(void **state) {
    (void)state;
    static setting s;
    setup(&s, NULL);
    uint64_t all = BLOCKS * world_payload(&s.w, BLOCK_TOKENS).payload_bytes;
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double seconds = 0.1; found.block_count < BLOCKS / 3; seconds = slower(seconds)) {
        calm(&s);
        shaped_rate(s.far, 1e9);
        look(&s, PLENTY);
        shaped_rate_after(s.far, 1e4, all / 3 + 8192); /* which two steps take half a second for */
        found = look(&s, (sky_time)(seconds * 1e9));
        assert_true(found.block_count < BLOCKS);
        assert_int_equal(found.verdict,
                         found.block_count ? SKY_VERDICT_PARTIAL : SKY_VERDICT_RECOMPUTE);
        assert_int_equal(found.tier_blocks[0], found.block_count);
        assert_true(made_up_engine_answer(&s.w.engine, s.w.prompt, found.hit_tokens, TOKENS) ==
                    s.cold);
    }
    world_close(&s.w);
}

/* ---- a window ---- */

/* What a prefix of all blocks reads: as many as this without a deadline, and with a long one. */
static uint64_t bytes_of_all(setting *s) {
    calm(s);
    assert_int_equal(look(s, 0).verdict, SKY_VERDICT_HIT);
    return shaped_moved(s->far);
}

/* The rows that the engine holds now, of layers with a window the last ones. */
static uint64_t rows_checksum(const made_up_engine *e) {
    uint64_t sum = e->held_tokens;
    for (uint32_t set = 0; set < e->row_sets; set++) {
        uint32_t window = set < 2 ? e->layout.groups[0].window_tokens : e->held_tokens;
        uint32_t from = e->held_tokens > window ? e->held_tokens - window : 0;
        sum = sky_checksum(e->rows[set] + (size_t)from * 512, (e->held_tokens - from) * 512u, sum);
    }
    return sum;
}

/* The link takes a share of the time for all, but from the middle on it is so many times slower;
 * until something is had of it. */
static sky_lookup look_over_a_failing_link(setting *s, double share, double slower_by) {
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    shaped_rate(s->far, 1e12);
    uint64_t all = bytes_of_all(s);
    for (double seconds = 0.2; found.block_count == 0; seconds = slower(seconds)) {
        double rate = (double)all / (seconds * share);
        shaped_rate(s->far, rate);
        look(s, PLENTY); /* now it is known */
        calm(s);
        shaped_rate_after(s->far, rate / slower_by, all / 2);
        sky_time deadline = sky_now() + (sky_time)(seconds * 1e9);
        found = world_look(&s->w, TOKENS, deadline);
        assert_true(sky_now() < deadline + SKY_SECONDS(1));
        assert_true(found.block_count < BLOCKS);
        assert_int_equal(found.verdict,
                         found.block_count ? SKY_VERDICT_PARTIAL : SKY_VERDICT_RECOMPUTE);
        assert_int_equal(levels_sum(&found), found.block_count);
        calm(s);
    }
    return found;
}

/* An engine may have room for more rows of a window than a prefix needs. */
static void make_room_for_more(const made_up_engine *e, sky_state *state) {
    for (uint32_t i = 0; e->restoring_tokens > 0 && i < e->row_sets; i++) {
        sky_tensor *t = &state->tensors[i];
        uint32_t first = t->first_token, more = first < 40 ? first : 40;
        sky_tensor all = sky_tensor_packed(t->data, t->element, t->heads, t->dim, first - more,
                                           t->token_count + more);
        e->lent_rows[i] = sky_tensor_slice(&all, first, t->token_count);
        *t = all;
    }
}

static void settle_for_less(bool room_for_more) {
    static setting s;
    setup_of(&s, windowed(BLOCK_TOKENS * 3 / 2), NULL);
    s.w.engine.change = room_for_more ? make_room_for_more : NULL;
    sky_lookup found = look_over_a_failing_link(&s, 0.25, 10);
    uint64_t rows = rows_checksum(&s.w.engine);
    assert_true(made_up_engine_answer(&s.w.engine, s.w.prompt, found.hit_tokens, TOKENS) == s.cold);
    shaped_rate(s.far, 1e12);
    sky_lookup again = world_look(&s.w, found.hit_tokens + 1, 0);
    assert_int_equal(again.hit_tokens, found.hit_tokens);
    assert_int_equal(again.bytes_loaded, found.bytes_loaded);
    assert_true(rows == rows_checksum(&s.w.engine));
    world_close(&s.w);
}

static void a_window_settles_for_less(void **state) {
    (void)state;
    settle_for_less(false);
    settle_for_less(true);
}

/* The same from a tier that reads all before it too; at one level, so that rows can be compared. */
static void a_window_settles_for_less_that_is_coded(void **state) {
    (void)state;
    static const sky_level_set one = {{LEVEL_4}, 1};
    static setting s;
    setup_of(&s, windowed(BLOCK_TOKENS * 3 / 4), &one);
    sky_lookup found = look_over_a_failing_link(&s, 0.5, 5);
    uint64_t rows = rows_checksum(&s.w.engine);
    shaped_rate(s.far, 1e12);
    world_look(&s.w, found.hit_tokens + 1, 0);
    assert_true(rows == rows_checksum(&s.w.engine));
    world_close(&s.w);
}

/* Nothing is known of the link, and at the lowest level all takes half as long again. */
static void the_first_lookup_settles_for_less(void **state) {
    (void)state;
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double seconds = 0.1; found.verdict != SKY_VERDICT_PARTIAL; seconds = slower(seconds)) {
        static setting s;
        setup_of(&s, windowed(BLOCK_TOKENS * 3 / 2), &three);
        double least = (double)bytes_at(&s, LEVEL_2) * (BLOCKS * 3 + 2) / (BLOCKS * 4);
        shaped_rate(s.far, least / (1.5 * seconds));
        found = look(&s, (sky_time)(seconds * 1e9));
        assert_int_equal(levels_sum(&found), found.block_count);
        assert_true(found.block_count < BLOCKS);
        world_close(&s.w);
    }
}

/* Nothing is read that is not needed, however long the link takes in all. */
static void with_time_a_window_costs_nothing(void **state) {
    (void)state;
    static const sky_level_set one = {{LEVEL_4}, 1};
    const sky_level_set *const ladders[] = {NULL, &one};
    for (size_t i = 0; i < 2; i++) {
        static setting s;
        setup_of(&s, windowed(BLOCK_TOKENS * 3 / 2), ladders[i]);
        uint64_t all = bytes_of_all(&s);
        shaped_rate(s.far, (double)all / 0.2);
        for (int round = 0; round < 2; round++) { /* before and after the link is known */
            assert_int_equal(look(&s, PLENTY).verdict, SKY_VERDICT_HIT);
            assert_int_equal(shaped_moved(s.far), all);
        }
        world_close(&s.w);
    }
}

/* ---- */

/* Level 8 of the first block goes, and in a tier that drops what only it makes reachable, level 8
 * of all. */
static void a_lost_level_leaves_the_others(void **state) {
    (void)state;
    static setting s;
    setup(&s, &three);
    sky_namespace ns;
    sky_key key;
    sky_manager_namespace(s.w.manager, &ns);
    sky_block_keys(&ns, s.w.prompt, BLOCK_TOKENS, BLOCK_TOKENS, &key, 1);
    sky_item item = {.key = key};
    sky_batch batch;
    sky_tier *memory = shaped_memory(s.far);
    assert_int_equal(sky_tier_submit(memory, SKY_OP_REMOVE, &item, 1, NULL, &batch), SKY_OK);
    assert_int_equal(sky_tier_wait(memory, batch, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    sky_lookup found = look(&s, 0);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.level_blocks[LEVEL_4], BLOCKS);
    found = look(&s, PLENTY);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.level_blocks[LEVEL_8], 0);
    assert_true(found.level_blocks[LEVEL_4] > 0);
    world_close(&s.w);
}

/* ---- slow tiers ---- */

/* A shaped tier behind those that the cache has, and the prompt in all of them. */
static void fill_behind(setting *s, sky_cache *c) {
    sky_tier_env env = sky__cache_env(c);
    s->far = shaped_open(&env);
    sky__cache_add(c, shaped_tier(s->far));
    assert_int_equal(sky__cache_start(c), SKY_OK);
    world_open_on(&s->w, even, BLOCK_TOKENS, c);
    s->cold = world_cold(&s->w, TOKENS);
    assert_int_equal(world_save(&s->w, TOKENS), BLOCKS);
    assert_int_equal(sky_flush(c, sky_now() + SKY_SECONDS(20), NULL), SKY_OK);
}

/* Blocks up to the middle are in the first tier, all in the second. */
static void setup_two(setting *s) {
    sky_cache *c;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    sky__cache_add(c, shaped_tier(shaped_open(&env)));
    fill_behind(s, c);
    sky_namespace ns;
    sky_key keys[BLOCKS];
    sky_manager_namespace(s->w.manager, &ns);
    sky_block_keys(&ns, s->w.prompt, TOKENS - 1, BLOCK_TOKENS, keys, BLOCKS);
    sky_item item = {.key = keys[BLOCKS / 2]};
    const sky_call first = {.tiers = 1};
    assert_int_equal(sky_run(c, SKY_OP_REMOVE, &item, 1, &first), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
}

static void the_nearer_prefix_comes_when_the_farther_is_too_slow(void **state) {
    (void)state;
    static setting s;
    setup_two(&s);
    shaped_rate(s.far, 1e6); /* a block takes 0.13 s */
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double seconds = 0.1; found.block_count < BLOCKS / 2; seconds = slower(seconds)) {
        found = look(&s, (sky_time)(seconds * 1e9));
        assert_true(found.block_count < BLOCKS);
        assert_true(made_up_engine_answer(&s.w.engine, s.w.prompt, found.hit_tokens, TOKENS) ==
                    s.cold);
    }
    assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
    world_close(&s.w);
}

/* What a nearer tier gives is no word of the farther one. */
static void a_farther_tier_is_not_waited_for_again(void **state) {
    (void)state;
    static setting s;
    setup_two(&s);
    shaped_delay(s.far, SKY_SECONDS(3));
    for (int round = 0; round < 2; round++) {
        sky_time began = sky_now();
        sky_lookup found = look(&s, SKY_SECONDS(2));
        assert_int_equal(found.block_count, BLOCKS / 2);
        assert_true((sky_now() - began >= SKY_SECONDS(2)) == (round == 0));
    }
    world_close(&s.w);
}

/* It takes longer to the first byte than there is time: that is not tried every time. */
static void a_tier_that_is_too_far_is_not_waited_for_again(void **state) {
    (void)state;
    static setting s;
    setup(&s, &three);
    shaped_delay(s.far, SKY_SECONDS(3));
    for (int round = 0; round < 3; round++) {
        sky_time began = sky_now();
        sky_lookup found = look(&s, SKY_SECONDS(2));
        assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
        assert_true((sky_now() - began >= SKY_SECONDS(2)) == (round != 1));
    }
    assert_int_equal(look(&s, PLENTY).verdict, SKY_VERDICT_HIT); /* with more time it is */
    world_close(&s.w);
}

/* What was asked for with too little time says nothing against a tier that has time. */
static void short_deadlines_shut_nothing_out(void **state) {
    (void)state;
    static setting s;
    setup(&s, NULL);
    shaped_delay(s.far, SKY_MS(1500));
    static const sky_time too_short[] = {SKY_MS(100), SKY_MS(350), SKY_MS(1200)};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(look(&s, too_short[i]).verdict, SKY_VERDICT_RECOMPUTE);
        calm(&s);
    }
    assert_true(look(&s, SKY_MS(2300)).block_count > 0);
    world_close(&s.w);
}

static void a_tier_that_became_fast_is_found_out(void **state) {
    (void)state;
    static setting s;
    setup(&s, NULL);
    shaped_rate(s.far, 2e6); /* a block takes 66 ms */
    sky_lookup found = {.verdict = SKY_VERDICT_MISS};
    for (double seconds = 0.1; found.block_count == 0; seconds = slower(seconds)) {
        found = look(&s, (sky_time)(seconds * 1e9));
        assert_true(found.block_count < BLOCKS); /* it was believed to be fast */
        calm(&s);
    }
    found = look(&s, SKY_MS(40));
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE); /* it is known to be slow */
    assert_int_equal(shaped_moved(s.far), 0);
    shaped_rate(s.far, 1e10);
    for (double seconds = 0.04; found.verdict != SKY_VERDICT_HIT; seconds = slower(seconds / 1.7))
        found = look(&s, (sky_time)(seconds * 1e9));
    assert_true(made_up_engine_answer(&s.w.engine, s.w.prompt, found.hit_tokens, TOKENS) == s.cold);
    world_close(&s.w);
}

/* ---- others ---- */

sky_status __real_sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out);
sky_status __wrap_sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out);

/* The first get of this key cannot be submitted; while `of` loads on, another claims the key. */
static struct {
    sky_manager *of; /* NULL: submits are left alone */
    sky_key key;
    uint32_t refusals, claims;
    sky__claim_state claimed; /* what the other's claim became */
} refusing;

sky_status __wrap_sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out) {
    if (refusing.of && op == SKY_OP_GET && refusing.refusals == 0 &&
        sky_key_equal(&items[0].key, &refusing.key)) {
        refusing.refusals++;
        return SKY_E_NOMEM;
    }
    if (refusing.of && op == SKY_OP_GET && refusing.refusals > 0 && refusing.claims++ == 0) {
        sky__claim claim = {.state = SKY__CLAIM_NONE};
        sky__flights *flights = &refusing.of->flights;
        refusing.claimed = sky__flights_claim(flights, &claim, &refusing.key, -1);
        sky__flights_release(flights, &claim, false);
    }
    return __real_sky_submit(c, op, items, item_count, call, out);
}

/* All blocks are in the far tier alone, behind memory that keeps what comes. */
static void setup_shared(setting *s, sky_key *keys) {
    sky_cache *c;
    sky_tier *near;
    sky_error error;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    assert_int_equal(sky_memory_tier_open("mem:64MiB", &env, &near, &error), SKY_OK);
    sky__cache_add(c, near);
    fill_behind(s, c);
    sky_namespace ns;
    sky_manager_namespace(s->w.manager, &ns);
    sky_block_keys(&ns, s->w.prompt, TOKENS - 1, BLOCK_TOKENS, keys, BLOCKS);
    for (uint32_t b = BLOCKS; b > 0; b--) {
        sky_item item = {.key = keys[b - 1]};
        assert_int_equal(sky_run(c, SKY_OP_REMOVE, &item, 1, &(sky_call){.tiers = 1}), SKY_OK);
    }
}

static void a_request_that_failed_keeps_no_claim(void **state) {
    (void)state;
    static setting s;
    sky_key keys[BLOCKS];
    setup_shared(&s, keys);
    refusing.key = keys[1];
    refusing.of = s.w.manager;
    sky_lookup found = look(&s, PLENTY);
    refusing.of = NULL;
    assert_int_equal(refusing.refusals, 1);
    assert_true(refusing.claims > 0);
    assert_int_equal(refusing.claimed, SKY__CLAIM_OWNED);
    assert_true(made_up_engine_answer(&s.w.engine, s.w.prompt, found.hit_tokens, TOKENS) == s.cold);
    assert_int_equal(look(&s, 0).verdict, SKY_VERDICT_HIT);
    world_close(&s.w);
}

static sky_item others[SKY_BATCHES_MAX];

/* Batches that somebody else has not drained: they are done, and take their places. */
static void leave_undrained(sky_cache *c, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sky_batch batch;
        others[i] = (sky_item){.key = {{1}}};
        assert_int_equal(sky_submit(c, SKY_OP_HAS, &others[i], 1, NULL, &batch), SKY_OK);
    }
}

static void a_cache_full_of_others_batches_is_asked_again(void **state) {
    (void)state;
    static setting s;
    setup(&s, NULL);
    leave_undrained(s.w.cache, SKY_BATCHES_MAX - 1); /* one request at a time */
    sky_lookup found = look(&s, PLENTY);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_true(made_up_engine_answer(&s.w.engine, s.w.prompt, found.hit_tokens, TOKENS) == s.cold);
    world_close(&s.w);
}

static uint64_t times_asleep(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return (uint64_t)usage.ru_nvcsw;
}

static void others_batches_wake_nobody(void **state) {
    (void)state;
    static setting s;
    setup(&s, NULL);
    uint64_t all = BLOCKS * world_payload(&s.w, BLOCK_TOKENS).payload_bytes;
    shaped_rate(s.far, (double)all / 0.4);
    leave_undrained(s.w.cache, 1);
    uint64_t before = times_asleep();
    sky_lookup found = look(&s, PLENTY);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_true(times_asleep() - before < (uint64_t)(found.load_ns / SKY_MS(4)));
    world_close(&s.w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_buys_levels),
        cmocka_unit_test(the_first_lookup_begins_modestly),
        cmocka_unit_test(the_first_lookup_fills_a_long_link),
        cmocka_unit_test(a_conversation_that_grows_is_followed),
        cmocka_unit_test(a_link_that_slows_down_is_asked_for_less),
        cmocka_unit_test(what_came_by_the_deadline_is_kept),
        cmocka_unit_test(a_window_settles_for_less),
        cmocka_unit_test(a_window_settles_for_less_that_is_coded),
        cmocka_unit_test(the_first_lookup_settles_for_less),
        cmocka_unit_test(with_time_a_window_costs_nothing),
        cmocka_unit_test(a_lost_level_leaves_the_others),
        cmocka_unit_test(the_nearer_prefix_comes_when_the_farther_is_too_slow),
        cmocka_unit_test(a_farther_tier_is_not_waited_for_again),
        cmocka_unit_test(a_tier_that_is_too_far_is_not_waited_for_again),
        cmocka_unit_test(short_deadlines_shut_nothing_out),
        cmocka_unit_test(a_tier_that_became_fast_is_found_out),
        cmocka_unit_test(a_request_that_failed_keeps_no_claim),
        cmocka_unit_test(a_cache_full_of_others_batches_is_asked_again),
        cmocka_unit_test(others_batches_wake_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
