/* Proves: an engine that computes the head of a prompt while a far tier brings the tail gives the
 * answer of a cold run wherever they meet, with windows and without; that neither waits for the
 * other longer than it must; that a tier that stalls, has lost blocks or has damaged them while the
 * engine computes costs no right answer, and an engine that fails or is given up none either.
 *
 * Where they meet is not left to any clock: the engine stops at a block and waits to be
 * interrupted, or the link carries nothing until the engine is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/tensor.h"
#include "cache/cache_internal.h"
#include "io/sync.h"
#include "manager/blocks.h"
#include "manager/shaped_fixture.h"
#include "manager/world_fixture.h"

#define BLOCK_TOKENS 64
#define BLOCKS       16
#define TOKENS       (BLOCKS * BLOCK_TOKENS + 1)
#define CARRIES      1e12
#define STALLS       1e-3 /* bytes a second */
#define NEVER        UINT32_MAX
#define DEAF_MS      120000u /* an engine has waited in vain for so many sleeps of 1 ms */

typedef struct {
    world w;
    shaped *far;
    uint64_t cold;        /* the answer of a cold run */
    uint32_t stops_at;    /* a block: the engine computes those before it, then waits */
    uint32_t opens_at;    /* … when it begins with this one or a later one the link carries all */
    uint32_t fails_at;    /* … and with this one it fails */
    uint32_t gives_up_at; /* … and here the request is cancelled */
} setting;

static sky_status before_advance(made_up_engine *e, uint32_t first, uint32_t count) {
    setting *s = e->context;
    uint32_t end = (first + count) / BLOCK_TOKENS;
    if (s->opens_at < end)
        shaped_rate(s->far, CARRIES);
    if (s->gives_up_at < end)
        sky_sequence_cancel(s->w.sequence);
    for (uint32_t i = 0; s->stops_at < end && !atomic_load(&e->interrupted); i++) {
        if (i == DEAF_MS)
            fail_msg("nobody interrupts an engine that waits for it at block %u", s->stops_at);
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    }
    return s->fails_at < end ? SKY_E_IO : SKY_OK;
}

/* One tier behind a link that carries nothing yet; all blocks are in it. */
static void setup(setting *s, sky_layout layout) {
    sky_cache *c;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    *s = (setting){.far = shaped_open(&env),
                   .stops_at = NEVER,
                   .opens_at = NEVER,
                   .fails_at = NEVER,
                   .gives_up_at = NEVER};
    sky__cache_add(c, shaped_tier(s->far));
    assert_int_equal(sky__cache_start(c), SKY_OK);
    world_open_on(&s->w, layout, BLOCK_TOKENS, c);
    s->cold = world_cold(&s->w, TOKENS);
    assert_int_equal(world_save(&s->w, TOKENS), BLOCKS);
    s->w.engine.advances = true;
    s->w.engine.before_advance = before_advance;
    s->w.engine.context = s;
    world_renew(&s->w, &(sky_manager_options){.block_tokens = BLOCK_TOKENS});
    shaped_rate(s->far, STALLS);
}

static void teardown(setting *s) {
    shaped_rate(s->far, CARRIES);
    world_close(&s->w);
}

/* The whole prefix is there and the answer is right; the engine computed so many blocks. */
static sky_lookup expect(setting *s, uint32_t computed_least, uint32_t computed_most) {
    sky_lookup l = world_expect(&s->w, TOKENS, s->cold);
    assert_int_equal(l.verdict, SKY_VERDICT_HIT);
    assert_int_equal(l.hit_tokens, BLOCKS * BLOCK_TOKENS);
    assert_in_range(l.computed_tokens, computed_least * BLOCK_TOKENS, computed_most * BLOCK_TOKENS);
    uint32_t loaded = 0;
    for (uint32_t t = 0; t < SKY_TIERS_MAX; t++)
        loaded += l.tier_blocks[t];
    assert_true(loaded + l.computed_tokens / BLOCK_TOKENS >= BLOCKS);
    return l;
}

static const struct {
    uint32_t full, layers, window;
} shapes[] = {{2, 0, 0}, {2, 3, 200}, {0, 2, 128}, {1, 1, 1000}, {1, 2, 1}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static sky_layout shape(size_t i) {
    return made_up_layout(shapes[i].full, shapes[i].layers, shapes[i].window);
}

/* ---- where they meet ---- */

static void a_link_that_carries_nothing_is_not_waited_for(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        static setting s;
        setup(&s, shape(i));
        sky_lookup l = expect(&s, BLOCKS, BLOCKS);
        assert_int_equal(l.bytes_loaded, 0);
        teardown(&s);
    }
}

static void they_meet_where_the_link_begins_to_carry(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (uint32_t at = 0; at < BLOCKS; at += 3) {
            static setting s;
            setup(&s, shape(i));
            s.opens_at = s.stops_at = at;
            sky_lookup l = expect(&s, 0, at); /* a run that was interrupted is lost */
            assert_true(at == 0 || l.computed_tokens > 0);
            assert_true(l.bytes_loaded > 0);
            teardown(&s);
        }
}

static void an_engine_that_never_ends_is_not_waited_for(void **state) {
    (void)state;
    static setting s;
    setup(&s, shape(1));
    s.stops_at = 0;
    shaped_rate(s.far, CARRIES);
    shaped_delay(s.far, SKY_MS(30)); /* so that it begins */
    expect(&s, 0, 0);
    teardown(&s);
}

/* What is learnt of both serves the next load. */
static void loads_after_one_another_are_right(void **state) {
    (void)state;
    static const double rates[] = {STALLS, CARRIES, 3e6, STALLS, 1e6, CARRIES};
    static setting s;
    setup(&s, shape(1));
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        shaped_rate(s.far, rates[i]);
        expect(&s, rates[i] == STALLS ? 1 : 0, BLOCKS);
    }
    teardown(&s);
}

static void an_engine_that_cannot_advance_loads_all(void **state) {
    (void)state;
    static setting s;
    setup(&s, shape(1));
    shaped_rate(s.far, CARRIES);
    s.stops_at = 0;
    world_renew(&s.w, &(sky_manager_options){.block_tokens = BLOCK_TOKENS, .load_only = true});
    expect(&s, 0, 0);
    s.w.engine.advances = false;
    world_renew(&s.w, &(sky_manager_options){.block_tokens = BLOCK_TOKENS});
    expect(&s, 0, 0);
    teardown(&s);
}

/* The cache ends a call that takes a minute. What is late is asked for again while others came; one
 * that alone was asked for is not. */
static void what_is_late_is_asked_for_again(void **state) {
    (void)state;
    for (uint32_t late = 0; late < BLOCKS; late += 5) {
        static setting s;
        setup(&s, shape(0));
        shaped_rate(s.far, CARRIES);
        world_renew(&s.w, &(sky_manager_options){.block_tokens = BLOCK_TOKENS, .load_only = true});
        stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, late);
        free(b.bytes);
        shaped_refuse(s.far, SKY_OP_GET, &b.keys[late], SKY_E_DEADLINE);
        expect(&s, 0, 0);
        shaped_refuse(s.far, SKY_OP_GET, &b.keys[0], SKY_E_DEADLINE);
        assert_int_equal(world_look(&s.w, BLOCK_TOKENS + 1, 0).hit_tokens, 0);
        teardown(&s);
    }
}

/* What was still on its way when the load ended writes into the engine's rows no more, though the
 * link carries again. */
static void expect_no_late_rows(setting *s) {
    static uint8_t rows[BLOCKS * BLOCK_TOKENS * 64], marks[sizeof rows];
    memset(marks, 0xA5, sizeof marks);
    for (uint32_t i = 0; i < s->w.engine.row_sets; i++)
        sky__tensor_scatter(&s->w.engine.lent_rows[i], 0, TOKENS - 1, marks);
    shaped_rate(s->far, CARRIES);
    free(world_fetch(&s->w, TOKENS - 1, BLOCK_TOKENS, 0).bytes); /* behind all that was asked for */
    for (uint32_t i = 0; i < s->w.engine.row_sets; i++) {
        const sky_tensor *t = &s->w.engine.lent_rows[i];
        size_t bytes = (size_t)(TOKENS - 1) * sky__tensor_row_bytes(t);
        assert_true(bytes <= sizeof rows);
        assert_int_equal(sky_tensor_read(t, 0, TOKENS - 1, rows), SKY_OK);
        assert_memory_equal(rows, marks, bytes);
    }
}

static void rows_that_come_after_the_meeting_are_dropped(void **state) {
    (void)state;
    static setting s;
    setup(&s, shape(0));
    expect(&s, BLOCKS, BLOCKS);
    expect_no_late_rows(&s);
    teardown(&s);
}

/* ---- how fast the engine is ---- */

/* What another process measured says how long to wait for tiers, and no more than a quarter of a
 * second; what this one has measured counts instead. */
static void a_kept_rate_is_believed_until_one_is_measured(void **state) {
    (void)state;
    static const struct {
        uint32_t token_ns;
        sky_time block_ns;
        uint32_t blocks;
        sky__engine_belief wanted;
    } rows[] = {
        {0, 0, 1, {SKY_MS(50), false, SKY_MS(50) / 32}},
        {0, 0, 1024, {SKY_MS(50), false, SKY_MS(25)}},
        {1000000, 0, 16, {SKY_MS(128), false, SKY_MS(64)}},
        {1, 0, 16, {128, false, 64}},
        {UINT32_MAX, 0, 1024, {128ll * UINT32_MAX, false, SKY_MS(250)}},
        {1, SKY_MS(128), 16, {SKY_MS(128), true, SKY_MS(64)}},
        {1, SKY_TIME_NEVER, 1024, {SKY_TIME_NEVER, true, SKY_MS(250)}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sky__engine_belief b = sky__engine_believe(rows[i].token_ns, rows[i].block_ns, 128,
                                                   rows[i].blocks);
        assert_int_equal(b.block_ns, rows[i].wanted.block_ns);
        assert_int_equal(b.measured, rows[i].wanted.measured);
        assert_int_equal(b.wait_ns, rows[i].wanted.wait_ns);
    }
}

/* Any rate gives the answer of a cold run, and a load that computes measures it. */
static void any_kept_rate_gives_the_right_answer(void **state) {
    (void)state;
    static const uint32_t kept[] = {1, 1000000, UINT32_MAX};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        static setting s;
        setup(&s, shape(1));
        world_renew(
            &s.w, &(sky_manager_options){.block_tokens = BLOCK_TOKENS, .engine_token_ns = kept[i]});
        assert_int_equal(sky_manager_engine_token_ns(s.w.manager), 0);
        expect(&s, BLOCKS, BLOCKS);
        uint32_t measured = sky_manager_engine_token_ns(s.w.manager);
        assert_true(measured > 0 && measured < UINT32_MAX);
        teardown(&s);
    }
    assert_int_equal(sky_manager_engine_token_ns(NULL), 0);
}

/* ---- against a deadline ---- */

/* The answer is the cold run's; what of the prefix is there. */
static sky_lookup expect_within(setting *s, sky_time within) {
    sky_lookup l = world_look(&s->w, TOKENS, sky_now() + within);
    assert_true(made_up_engine_answer(&s->w.engine, s->w.prompt, l.hit_tokens, TOKENS) == s->cold);
    assert_true(l.computed_tokens <= l.hit_tokens);
    return l;
}

/* Nobody waits for the deadline, which is an hour away. */
static void what_a_link_cannot_bring_in_time_is_computed(void **state) {
    (void)state;
    static setting s;
    for (size_t i = 0; i < SHAPES; i++) {
        setup(&s, shape(i));
        sky_lookup l = expect_within(&s, SKY_SECONDS(3600));
        assert_int_equal(l.verdict, SKY_VERDICT_HIT);
        assert_int_equal(l.computed_tokens, BLOCKS * BLOCK_TOKENS);
        teardown(&s);
        for (uint32_t at = 1; at < BLOCKS; at += 3) {
            setup(&s, shape(i));
            s.opens_at = at;
            l = expect_within(&s, SKY_SECONDS(3600));
            assert_int_equal(l.verdict, SKY_VERDICT_HIT);
            assert_true(l.computed_tokens > 0);
            teardown(&s);
        }
    }
}

/* At the deadline the engine has computed some blocks and is at the next, and nothing came. */
static void what_was_computed_by_the_deadline_is_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (uint32_t at = 0; at < BLOCKS; at += 5) {
            static setting s;
            setup(&s, shape(i));
            s.stops_at = at;
            sky_lookup l = expect_within(&s, SKY_MS(300));
            assert_in_range(l.hit_tokens, 0, at * BLOCK_TOKENS);
            assert_int_equal(l.computed_tokens, l.hit_tokens);
            assert_int_equal(l.verdict, l.hit_tokens ? SKY_VERDICT_PARTIAL : SKY_VERDICT_RECOMPUTE);
            teardown(&s);
        }
}

/* A block is damaged, and the engine fails before it: a shorter prefix than was asked for, of a
 * head that was computed and what lies behind it, with the rows of windows that it needs. */
static void a_computed_head_begins_a_shorter_prefix(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (uint32_t bad = 3; bad < BLOCKS; bad += 4) {
            static setting s;
            setup(&s, shape(i));
            shaped_rate(s.far, CARRIES);
            stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, bad);
            b.bytes[0] ^= 1;
            world_put_back(&s.w, &b, bad);
            shaped_rate(s.far, STALLS);
            s.opens_at = s.fails_at = 2;
            sky_lookup l = expect_within(&s, SKY_SECONDS(3600));
            assert_int_equal(l.hit_tokens, bad * BLOCK_TOKENS);
            assert_in_range(l.computed_tokens, BLOCK_TOKENS, 2 * BLOCK_TOKENS);
            assert_int_equal(l.corrupt_blocks, 1);
            assert_int_equal(l.verdict, SKY_VERDICT_PARTIAL);
            teardown(&s);
        }
}

/* Damaged blocks, an engine that fails, and a request that is given up. */
static void trouble_before_a_deadline_costs_no_right_answer(void **state) {
    (void)state;
    for (uint32_t bad = 0; bad < BLOCKS; bad += 5) {
        static setting s;
        sky_lookup l;
        setup(&s, shape(0));
        shaped_rate(s.far, CARRIES);
        stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, bad);
        b.bytes[0] ^= 1;
        world_put_back(&s.w, &b, bad);
        shaped_rate(s.far, STALLS);
        s.opens_at = bad / 2;
        (void)expect_within(&s, SKY_SECONDS(3600));
        s.fails_at = bad;
        shaped_rate(s.far, STALLS);
        (void)expect_within(&s, SKY_MS(100));
        s.fails_at = s.opens_at = NEVER;
        s.gives_up_at = s.stops_at = bad;
        shaped_rate(s.far, STALLS);
        world_renew(&s.w, &(sky_manager_options){.block_tokens = BLOCK_TOKENS});
        sky_status status = sky_sequence_load(s.w.sequence, s.w.prompt, TOKENS,
                                              sky_now() + SKY_SECONDS(3600), &l);
        assert_int_equal(status, SKY_E_CANCELLED);
        assert_int_equal(s.w.engine.held_tokens, 0);
        teardown(&s);
    }
}

/* ---- tiers that go wrong meanwhile ---- */

static void a_link_that_stops_is_computed_towards(void **state) {
    (void)state;
    for (uint64_t bytes = 100; bytes < 40000; bytes *= 3) {
        static setting s;
        setup(&s, shape(1));
        shaped_rate(s.far, CARRIES);
        shaped_rate_after(s.far, STALLS, bytes);
        expect(&s, 1, BLOCKS);
        teardown(&s);
    }
}

/* Found when it is looked up, damaged when it comes; or gone by then, as good as. */
static void a_damaged_block_is_computed_through(void **state) {
    (void)state;
    for (uint32_t bad = 0; bad < BLOCKS; bad += 5) {
        static setting s;
        setup(&s, shape(0));
        shaped_rate(s.far, CARRIES);
        stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, bad);
        b.bytes[0] ^= 1;
        world_put_back(&s.w, &b, bad);
        sky_lookup l;
        do /* on a slow machine the engine may have computed it before it came */
            l = expect(&s, bad + 1, BLOCKS);
        while (l.corrupt_blocks == 0);
        assert_int_equal(l.corrupt_blocks, 1);
        assert_int_equal(world_save(&s.w, TOKENS), BLOCKS - bad); /* it is mended */
        l = expect(&s, 0, BLOCKS);
        assert_int_equal(l.corrupt_blocks, 0);
        teardown(&s);
    }
}

static sky_status meet_another_calibration(made_up_engine *e, uint32_t first, uint32_t count) {
    setting *s = e->context;
    atomic_fetch_add(s->w.manager->coded.foreign, first + count == BLOCK_TOKENS);
    return SKY_OK;
}

/* The last block turns out to be coded with another calibration while the link carries nothing: so
 * are those that the engine computed without a look at their copies, and all are stored again. */
static void unseen_blocks_before_another_calibration_are_stored_again(void **state) {
    (void)state;
    for (int foreign = 0; foreign < 2; foreign++) {
        static setting s;
        setup(&s, shape(0));
        shaped_rate(s.far, CARRIES);
        stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, BLOCKS - 1);
        shaped_rate(s.far, STALLS);
        shaped_refuse(s.far, SKY_OP_GET, &b.keys[BLOCKS - 1], SKY_MISS);
        if (foreign)
            s.w.engine.before_advance = meet_another_calibration;
        sky_lookup l = expect(&s, BLOCKS, BLOCKS);
        assert_int_equal(l.foreign_blocks, foreign ? BLOCKS : 0);
        assert_int_equal(world_save(&s.w, TOKENS), foreign ? BLOCKS : 0);
        free(b.bytes);
        teardown(&s);
    }
}

/* … once: who may hold it may have been kept from its processors. Nobody else can bring it, as the
 * engine fails. */
static void a_block_that_nobody_answered_for_is_asked_for_again(void **state) {
    (void)state;
    for (uint32_t silent = 0; silent < BLOCKS; silent += 5) {
        static setting s;
        setup(&s, shape(0));
        shaped_rate(s.far, CARRIES);
        stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, silent);
        s.fails_at = 0;
        shaped_refuse(s.far, SKY_OP_GET, &b.keys[silent], SKY_E_UNAVAILABLE);
        expect(&s, 0, 0);
        free(b.bytes);
        teardown(&s);
    }
}

/* ---- engines that go wrong, and requests that are given up ---- */

static void an_engine_that_fails_leaves_the_loading(void **state) {
    (void)state;
    for (uint32_t at = 0; at < BLOCKS; at += 5) {
        static setting s;
        setup(&s, shape(1));
        s.opens_at = s.fails_at = at;
        expect(&s, 0, at);
        teardown(&s);
    }
}

/* Nobody can compute what is damaged then: the blocks before it stay, and are not read again. */
static void an_engine_that_fails_before_damage_keeps_what_came(void **state) {
    (void)state;
    enum { BAD = 10 };
    for (uint32_t at = 0; at < BAD; at += 4) {
        static setting s;
        setup(&s, shape(0));
        shaped_rate(s.far, CARRIES);
        stored_block b = world_fetch(&s.w, TOKENS - 1, BLOCK_TOKENS, BAD);
        size_t block_bytes = b.byte_count;
        b.bytes[0] ^= 1;
        world_put_back(&s.w, &b, BAD);
        s.opens_at = s.fails_at = at;
        shaped_rate(s.far, STALLS);
        shaped_moved(s.far);
        sky_lookup l = world_expect(&s.w, TOKENS, s.cold);
        assert_true(shaped_moved(s.far) <= BLOCKS * block_bytes);
        assert_int_equal(l.hit_tokens, BAD * BLOCK_TOKENS);
        assert_in_range(l.computed_tokens, 0, at * BLOCK_TOKENS);
        assert_int_equal(l.corrupt_blocks, 1);
        assert_int_equal(world_save(&s.w, TOKENS), BLOCKS - BAD); /* it is mended */
        teardown(&s);
    }
}

static void rows_that_cannot_be_placed_are_no_answer(void **state) {
    (void)state;
    static setting s;
    sky_lookup l;
    setup(&s, shape(1));
    s.w.engine.place_fails = true;
    assert_int_equal(sky_sequence_load(s.w.sequence, s.w.prompt, TOKENS, 0, &l), SKY_E_NOMEM);
    assert_int_equal(s.w.engine.held_tokens, 0);
    expect(&s, BLOCKS, BLOCKS);
    teardown(&s);
}

static void a_cancel_ends_both(void **state) {
    (void)state;
    for (uint32_t at = 0; at < BLOCKS; at += 5) {
        static setting s;
        sky_lookup l;
        setup(&s, shape(0));
        s.gives_up_at = s.stops_at = at;
        assert_int_equal(sky_sequence_load(s.w.sequence, s.w.prompt, TOKENS, 0, &l),
                         SKY_E_CANCELLED);
        assert_int_equal(s.w.engine.held_tokens, 0);
        assert_true(s.w.engine.interrupted);
        expect_no_late_rows(&s);
        teardown(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_carries_nothing_is_not_waited_for),
        cmocka_unit_test(they_meet_where_the_link_begins_to_carry),
        cmocka_unit_test(an_engine_that_never_ends_is_not_waited_for),
        cmocka_unit_test(loads_after_one_another_are_right),
        cmocka_unit_test(an_engine_that_cannot_advance_loads_all),
        cmocka_unit_test(what_is_late_is_asked_for_again),
        cmocka_unit_test(a_kept_rate_is_believed_until_one_is_measured),
        cmocka_unit_test(any_kept_rate_gives_the_right_answer),
        cmocka_unit_test(what_a_link_cannot_bring_in_time_is_computed),
        cmocka_unit_test(what_was_computed_by_the_deadline_is_kept),
        cmocka_unit_test(a_computed_head_begins_a_shorter_prefix),
        cmocka_unit_test(trouble_before_a_deadline_costs_no_right_answer),
        cmocka_unit_test(rows_that_come_after_the_meeting_are_dropped),
        cmocka_unit_test(a_link_that_stops_is_computed_towards),
        cmocka_unit_test(a_damaged_block_is_computed_through),
        cmocka_unit_test(unseen_blocks_before_another_calibration_are_stored_again),
        cmocka_unit_test(a_block_that_nobody_answered_for_is_asked_for_again),
        cmocka_unit_test(an_engine_that_fails_leaves_the_loading),
        cmocka_unit_test(an_engine_that_fails_before_damage_keeps_what_came),
        cmocka_unit_test(rows_that_cannot_be_placed_are_no_answer),
        cmocka_unit_test(a_cancel_ends_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
