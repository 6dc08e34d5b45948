/* Proves: a load whose layers come one by one has each where the engine wants it when it says so,
 * and not all before; what is late, damaged, gone or cancelled ends it with the engine empty and no
 * byte written afterwards; and a save that takes layers as they are made stores the same bytes as
 * one that extracts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/tensor.h"
#include "cache/cache_internal.h"
#include "io/sync.h"
#include "manager/shaped_fixture.h"
#include "manager/world_fixture.h"

#define TOKENS 330
#define BLOCK  32
#define LAYERS                                                                                     \
    10 /* five with a window, then five without: the other way round as they are stored */
#define NEVER SKY_TIME_NEVER

typedef struct {
    world w;
    shaped *far;               /* NULL: the only tier is memory */
    uint8_t *rows[2 * LAYERS]; /* as they were saved */
    uint64_t answer;
} setting;

static void keep_rows(setting *s) {
    s->answer = world_cold(&s->w, TOKENS);
    for (uint32_t i = 0; i < s->w.engine.row_sets; i++) {
        size_t bytes = TOKENS * sky__tensor_row_bytes(&s->w.engine.lent_rows[i]);
        s->rows[i] = malloc(bytes ? bytes : 1);
        memcpy(s->rows[i], s->w.engine.rows[i], bytes);
    }
}

static void setup_saved(setting *s) {
    assert_int_equal(world_look(&s->w, TOKENS, 0).verdict, SKY_VERDICT_MISS);
    s->answer = world_cold(&s->w, TOKENS);
    assert_int_equal(world_save(&s->w, TOKENS), 10);
    assert_int_equal(world_look(&s->w, TOKENS, 0).verdict, SKY_VERDICT_HIT); /* fills lent_rows */
    world_cold(&s->w, TOKENS);
    keep_rows(s);
}

static void setup(setting *s) {
    s->far = NULL;
    world_open(&s->w, made_up_layout(5, 5, 100), BLOCK);
    setup_saved(s);
}

/* One tier, behind a link. */
static void setup_far(setting *s) {
    sky_cache *c;
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    s->far = shaped_open(&env);
    sky__cache_add(c, shaped_tier(s->far));
    assert_int_equal(sky__cache_start(c), SKY_OK);
    world_open_on(&s->w, made_up_layout(5, 5, 100), BLOCK, c);
    setup_saved(s);
}

static void teardown(setting *s) {
    for (uint32_t i = 0; i < s->w.engine.row_sets; i++)
        free(s->rows[i]);
    world_close(&s->w);
}

static sky_lookup begin(setting *s) {
    sky_lookup found;
    assert_int_equal(sky_sequence_load_begin(s->w.sequence, s->w.prompt, TOKENS, &found), SKY_OK);
    assert_int_equal(found.hit_tokens, 320);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    return found;
}

/* A byte a second: nothing comes until the link is made faster. */
static void begin_slow(setting *s) {
    setup_far(s);
    shaped_rate(s->far, 1);
    begin(s);
}

/* The rows of a layer that the engine lent are those that were saved. */
static bool is_there(const setting *s, uint32_t layer) {
    bool there = true;
    for (uint32_t i = 2 * layer; i < 2 * layer + 2; i++) {
        const sky_tensor *t = &s->w.engine.lent_rows[i];
        size_t row_bytes = sky__tensor_row_bytes(t);
        uint8_t *rows = malloc(t->token_count * row_bytes);
        sky__tensor_gather(t, t->first_token, t->token_count, rows);
        there = there && memcmp(rows, s->rows[i] + t->first_token * row_bytes,
                                t->token_count * row_bytes) == 0;
        free(rows);
    }
    return there;
}

static bool none_is_there(const setting *s) {
    uint32_t i = 0;
    while (i < LAYERS && !is_there(s, i))
        i++;
    return i == LAYERS;
}

/* The number in the layout of the i-th layer as they are stored. */
static uint32_t stored(uint32_t i) {
    return (i + 5) % LAYERS;
}

static void end_well(setting *s) {
    sky_lookup found;
    assert_int_equal(sky_sequence_load_end(s->w.sequence, NEVER, &found), SKY_OK);
    assert_int_equal(found.verdict, SKY_VERDICT_HIT);
    assert_int_equal(found.hit_tokens, 320);
    assert_int_equal(found.tier_blocks[0], 10);
    assert_int_equal(s->w.engine.held_tokens, 320);
    assert_true(made_up_engine_answer(&s->w.engine, s->w.prompt, 320, TOKENS) == s->answer);
}

static void end_in_vain(setting *s, sky_time until) {
    sky_lookup found;
    assert_int_equal(sky_sequence_load_end(s->w.sequence, until, &found), SKY_OK);
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(found.hit_tokens, 0);
    assert_int_equal(s->w.engine.held_tokens, 0);
    assert_true(made_up_engine_answer(&s->w.engine, s->w.prompt, 0, TOKENS) == s->answer);
}

/* ---- loading ---- */

static void layers_come_one_after_the_other(void **state) {
    (void)state;
    static setting s;
    static void (*const arrangements[])(const made_up_engine *, uint32_t,
                                        sky_tensor *) = {NULL, made_up_by_head, made_up_paged};
    setup(&s);
    for (size_t a = 0; a < 3; a++) {
        s.w.engine.arrange = arrangements[a];
        begin(&s);
        for (uint32_t i = 0; i < LAYERS; i++) {
            assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(i), NEVER), SKY_OK);
            assert_true(is_there(&s, stored(i)));
            for (uint32_t later = i + 4; later < LAYERS;
                 later++) /* memory copies when it is asked */
                assert_false(is_there(&s, stored(later)));
        }
        end_well(&s);
    }
    teardown(&s);
}

static void layers_come_in_any_order_or_unasked(void **state) {
    (void)state;
    static setting s;
    setup(&s);
    begin(&s);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(LAYERS - 1), NEVER), SKY_OK);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_true(is_there(&s, i));
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, 0, 1), SKY_OK);
    end_well(&s);
    begin(&s);
    end_well(&s); /* nobody waited for any */
    teardown(&s);
}

static void what_is_late_comes_later(void **state) {
    (void)state;
    static setting s;
    begin_slow(&s);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(0), 1), SKY_E_DEADLINE);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(0), sky_now() + SKY_MS(20)),
                     SKY_E_DEADLINE);
    assert_true(none_is_there(&s));
    shaped_rate(s.far, 1e12);
    int fd = sky_sequence_event_fd(s.w.sequence);
    while (sky_sequence_load_wait(s.w.sequence, stored(0), 1) == SKY_E_DEADLINE)
        sky_poll(&fd, 1, NEVER);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(i), NEVER), SKY_OK);
        assert_true(is_there(&s, stored(i)));
    }
    end_well(&s);
    teardown(&s);
}

static void what_does_not_come_in_time_is_computed(void **state) {
    (void)state;
    static setting s;
    begin_slow(&s);
    end_in_vain(&s, sky_now() + SKY_MS(20));
    shaped_rate(s.far, 1e12);
    begin(&s);
    end_well(&s);
    teardown(&s);
}

/* Though all of it is there. */
static void what_is_given_up_is_not_taken(void **state) {
    (void)state;
    static setting s;
    setup(&s);
    begin(&s);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(i), NEVER), SKY_OK);
    end_in_vain(&s, 0);
    begin(&s);
    end_well(&s);
    teardown(&s);
}

static void a_layer_that_is_gone_ends_the_load(void **state) {
    (void)state;
    static setting s;
    setup(&s);
    begin(&s);
    world_remove(&s.w, TOKENS, BLOCK, 9);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(0), NEVER), SKY_OK);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(LAYERS - 1), NEVER), SKY_MISS);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(0), NEVER), SKY_MISS);
    end_in_vain(&s, NEVER);
    teardown(&s);
}

static void a_damaged_block_ends_the_load_and_is_saved_again(void **state) {
    (void)state;
    static setting s;
    setup(&s);
    stored_block b = world_fetch(&s.w, TOKENS, BLOCK, 4);
    b.bytes[5] ^= 1; /* its header */
    world_put_back(&s.w, &b, 4);
    begin(&s);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(3), NEVER), SKY_E_CORRUPT);
    sky_lookup found;
    assert_int_equal(sky_sequence_load_end(s.w.sequence, NEVER, &found), SKY_OK);
    assert_int_equal(found.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(found.corrupt_blocks, 1);
    world_cold(&s.w, TOKENS);
    assert_int_equal(world_save(&s.w, TOKENS), 6);
    begin(&s);
    end_well(&s);
    teardown(&s);
}

static void *cancel_body(void *sequence) {
    sky_sequence_cancel(sequence);
    return NULL;
}

/* Before a wait and during one; nothing is written afterwards. */
static void a_cancelled_load_ends(void **state) {
    (void)state;
    for (int during = 0; during < 2; during++) {
        static setting s;
        sky_thread canceller;
        sky_lookup found;
        begin_slow(&s);
        if (during)
            assert_int_equal(sky_thread_start(&canceller, "cancel", cancel_body, s.w.sequence),
                             SKY_OK);
        else
            sky_sequence_cancel(s.w.sequence);
        assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(1), NEVER), SKY_E_CANCELLED);
        if (during)
            sky_thread_join(&canceller);
        assert_int_equal(sky_sequence_load_end(s.w.sequence, NEVER, &found), SKY_E_CANCELLED);
        assert_int_equal(s.w.engine.held_tokens, 0);
        shaped_rate(s.far, 1e12);
        assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found),
                         SKY_E_CANCELLED);
        assert_true(none_is_there(&s));
        teardown(&s);
    }
}

static void a_load_may_be_closed_under_way(void **state) {
    (void)state;
    static setting s;
    begin_slow(&s);
    teardown(&s); /* a leak, or a late write, shows under a sanitizer */
}

static void nothing_found_is_a_miss(void **state) {
    (void)state;
    static setting s;
    sky_lookup found;
    setup(&s);
    s.w.prompt[0]++;
    assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found), SKY_OK);
    assert_int_equal(found.hit_tokens, 0);
    assert_int_equal(sky_sequence_load_end(s.w.sequence, NEVER, &found), SKY_OK);
    assert_int_equal(found.verdict, SKY_VERDICT_MISS);
    assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found), SKY_OK);
    assert_int_equal(sky_sequence_load_end(s.w.sequence, 0, &found), SKY_OK);
    assert_int_equal(found.verdict, SKY_VERDICT_MISS);
    teardown(&s);
}

/* What lies coded comes whole, in begin; and is given up all the same. */
static void coded_blocks_come_at_once(void **state) {
    (void)state;
    static setting s;
    char folder[] = "/tmp/skymem-layers-XXXXXX", url[80], command[64];
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof url, "disk:%s?max=64MiB&level=lossless", folder);
    world_open_at(&s.w, made_up_layout(5, 5, 100), BLOCK, url);
    s.w.engine.tame = true;
    setup_saved(&s);
    begin(&s);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(sky_sequence_load_wait(s.w.sequence, i, 1), SKY_OK);
    end_well(&s);
    begin(&s);
    end_in_vain(&s, 0);
    teardown(&s);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* What an engine says that has no room: nothing is written, and the prompt is computed. */
static void say_nonsense(const made_up_engine *e, sky_state *state) {
    (void)e;
    for (size_t i = 0; i < state->tensor_count; i++)
        state->tensors[i].heads = state->tensors[i].dim = UINT32_MAX;
    state->tensors[0].element_bytes = 0;
}

static void an_engine_that_errs_computes(void **state) {
    (void)state;
    static setting s;
    sky_lookup found;
    setup(&s);
    s.w.engine.change = say_nonsense;
    assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found), SKY_OK);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, 0, NEVER), SKY_E_CORRUPT);
    end_in_vain(&s, NEVER);
    teardown(&s);
}

/* All of it was there when begin returned; a cancel counts all the same. */
static void a_cancel_ends_what_came_at_once(void **state) {
    (void)state;
    static setting s;
    sky_lookup found;
    setup(&s);
    s.w.prompt[0]++;
    assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found), SKY_OK);
    sky_sequence_cancel(s.w.sequence);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, 0, NEVER), SKY_E_CANCELLED);
    assert_int_equal(sky_sequence_load_end(s.w.sequence, NEVER, &found), SKY_E_CANCELLED);
    assert_int_equal(s.w.engine.held_tokens, 0);
    teardown(&s);
}

/* Others have so many batches under way that no other is taken. */
static bool full;
sky_status __real_sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out);
sky_status __wrap_sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out);
sky_status __wrap_sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out) {
    return full ? SKY_E_BUSY : __real_sky_submit(c, op, items, item_count, call, out);
}

static void full_from_here_on(const made_up_engine *e, sky_state *state) {
    (void)e, (void)state;
    full = true;
}

static void others_batches_make_nothing_fail(void **state) {
    (void)state;
    static setting s;
    sky_lookup found;
    setup(&s);
    full = true; /* when it asks what is there */
    assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found), SKY_OK);
    assert_int_equal(found.hit_tokens, 0);
    full = false;
    assert_int_equal(sky_sequence_load_end(s.w.sequence, NEVER, &found), SKY_OK);
    s.w.engine.change = full_from_here_on; /* when it asks for layers */
    begin(&s);
    int fd = sky_sequence_event_fd(s.w.sequence);
    assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(0), 1), SKY_E_DEADLINE);
    full = false;
    assert_int_equal(sky_poll(&fd, 1, sky_now() + SKY_SECONDS(10)), 1);
    end_well(&s);
    teardown(&s);
}

/* ---- saving ---- */

static sky_tensor rows_of(const setting *s, uint32_t set, uint32_t first, uint32_t count) {
    const sky_layer_group *g = &s->w.engine.layout.groups[set / 2 >= 5];
    size_t row_bytes = set % 2 ? g->v_row_bytes : g->k_row_bytes;
    return sky_layer_packed(g, set % 2 ? SKY_KV_V : SKY_KV_K, s->rows[set] + first * row_bytes,
                            first, count);
}

static sky_status give(const setting *s, uint32_t layer, uint32_t first, uint32_t count) {
    sky_tensor k = rows_of(s, 2 * layer, first, count), v = rows_of(s, 2 * layer + 1, first, count);
    return sky_sequence_save_layer(s->w.sequence, layer, &k, &v);
}

static void layers_are_saved_as_they_are_made(void **state) {
    (void)state;
    static setting s;
    stored_block kept[10];
    uint32_t first, blocks;
    uint64_t bytes;
    setup(&s);
    for (uint32_t b = 0; b < 10; b++)
        kept[b] = world_fetch(&s.w, TOKENS, BLOCK, b);
    world_remove(&s.w, TOKENS, BLOCK, 3); /* and those after it */
    assert_int_equal(sky_sequence_save_begin(s.w.sequence, s.w.prompt, TOKENS, &first), SKY_OK);
    assert_int_equal(first, 3 * BLOCK);
    for (uint32_t i = LAYERS; i-- > 0;)
        assert_int_equal(give(&s, i, i % 2 ? first : 0, TOKENS - (i % 2 ? first : 0)), SKY_OK);
    assert_int_equal(sky_sequence_save_end(s.w.sequence, &blocks, &bytes), SKY_OK);
    assert_int_equal(blocks, 7);
    assert_int_equal(bytes, 7 * kept[0].byte_count);
    for (uint32_t b = 0; b < 10; b++) {
        stored_block now = world_fetch(&s.w, TOKENS, BLOCK, b);
        assert_memory_equal(now.bytes, kept[b].bytes, now.byte_count);
        free(now.bytes);
        free(kept[b].bytes);
    }
    assert_int_equal(sky_sequence_save_begin(s.w.sequence, s.w.prompt, TOKENS, &first), SKY_OK);
    assert_int_equal(first, TOKENS); /* all is there */
    assert_int_equal(sky_sequence_save_end(s.w.sequence, &blocks, NULL), SKY_OK);
    assert_int_equal(blocks, 0);
    teardown(&s);
}

static void a_layer_that_was_not_given_is_not_saved(void **state) {
    (void)state;
    static setting s;
    uint32_t first, blocks = 7;
    setup(&s);
    world_remove(&s.w, TOKENS, BLOCK, 0);
    assert_int_equal(sky_sequence_save_begin(s.w.sequence, s.w.prompt, TOKENS, &first), SKY_OK);
    for (uint32_t i = 1; i < LAYERS; i++)
        assert_int_equal(give(&s, i, 0, TOKENS), SKY_OK);
    assert_int_equal(give(&s, 9, 0, TOKENS), SKY_OK); /* twice */
    assert_int_equal(give(&s, 0, 1, TOKENS - 1), SKY_E_PARAM);
    assert_int_equal(give(&s, 0, 0, 319), SKY_E_PARAM);
    sky_tensor other = rows_of(&s, 0, 0, TOKENS), v = rows_of(&s, 1, 0, TOKENS);
    other.element = SKY_ELEMENT_BF16;
    assert_int_equal(sky_sequence_save_layer(s.w.sequence, 0, &other, &v), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_end(s.w.sequence, &blocks, NULL), SKY_E_PARAM);
    assert_int_equal(blocks, 0);
    assert_int_equal(world_look(&s.w, TOKENS, 0).verdict, SKY_VERDICT_MISS);
    assert_int_equal(sky_sequence_save_begin(s.w.sequence, s.w.prompt, TOKENS, &first), SKY_OK);
    teardown(&s); /* closed under way */
}

/* Also where there is nothing to do. */
static void a_cancelled_save_ends(void **state) {
    (void)state;
    static setting s;
    uint32_t first, blocks = 7;
    sky_lookup found;
    setup(&s);
    sky_sequence *q = s.w.sequence;
    world_remove(&s.w, TOKENS, BLOCK, 0);
    assert_int_equal(sky_sequence_save_begin(q, s.w.prompt, TOKENS, &first), SKY_OK);
    assert_int_equal(give(&s, 0, 0, TOKENS), SKY_OK);
    sky_sequence_cancel(q);
    assert_int_equal(give(&s, 1, 0, TOKENS), SKY_E_CANCELLED);
    assert_int_equal(sky_sequence_save_end(q, &blocks, NULL), SKY_E_CANCELLED);
    assert_int_equal(blocks, 0);
    assert_int_equal(sky_sequence_save_begin(q, s.w.prompt, 1, &first), SKY_E_CANCELLED);
    assert_int_equal(sky_sequence_save(q, s.w.prompt, 1, &blocks, NULL), SKY_E_CANCELLED);
    assert_int_equal(sky_sequence_load(q, s.w.prompt, 1, 0, &found), SKY_E_CANCELLED);
    teardown(&s);
}

/* As an engine does that loads what is stored and saves what is new, layer by layer. */
static void both_at_once(void **state) {
    (void)state;
    static setting s;
    uint32_t first, blocks;
    sky_lookup found;
    setup(&s);
    world_remove(&s.w, TOKENS, BLOCK, 8);
    assert_int_equal(sky_sequence_load_begin(s.w.sequence, s.w.prompt, TOKENS, &found), SKY_OK);
    assert_int_equal(found.hit_tokens, 8 * BLOCK);
    assert_int_equal(sky_sequence_save_begin(s.w.sequence, s.w.prompt, TOKENS, &first), SKY_OK);
    assert_int_equal(first, 8 * BLOCK);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_int_equal(sky_sequence_load_wait(s.w.sequence, stored(i), NEVER), SKY_OK);
        assert_int_equal(give(&s, stored(i), first, TOKENS - first), SKY_OK);
    }
    assert_int_equal(sky_sequence_load_end(s.w.sequence, NEVER, &found), SKY_OK);
    assert_int_equal(found.verdict, SKY_VERDICT_PARTIAL);
    assert_int_equal(sky_sequence_save_end(s.w.sequence, &blocks, NULL), SKY_OK);
    assert_int_equal(blocks, 2);
    assert_int_equal(world_expect(&s.w, TOKENS, s.answer).verdict, SKY_VERDICT_HIT);
    teardown(&s);
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    static setting s;
    uint32_t n;
    sky_lookup found;
    setup(&s);
    sky_sequence *q = s.w.sequence;
    assert_int_equal(sky_sequence_load_begin(NULL, s.w.prompt, TOKENS, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_begin(q, NULL, TOKENS, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_begin(q, s.w.prompt, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_begin(q, s.w.prompt, TOKENS, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_wait(q, 0, 1), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_wait(NULL, 0, 1), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_end(q, 1, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_end(NULL, 1, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_event_fd(NULL), -1);
    begin(&s);
    assert_int_equal(sky_sequence_load_begin(q, s.w.prompt, TOKENS, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load(q, s.w.prompt, TOKENS, 0, &found), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save(q, s.w.prompt, TOKENS, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_wait(q, LAYERS, 1), SKY_E_PARAM);
    assert_int_equal(sky_sequence_load_end(q, 1, NULL), SKY_E_PARAM);
    end_well(&s);
    assert_int_equal(sky_sequence_save_begin(NULL, s.w.prompt, TOKENS, &n), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_begin(q, NULL, TOKENS, &n), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_begin(q, s.w.prompt, TOKENS, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_end(q, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(give(&s, 0, 0, TOKENS), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_begin(q, s.w.prompt, TOKENS, &n), SKY_OK);
    assert_int_equal(sky_sequence_save_begin(q, s.w.prompt, TOKENS, &n), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save(q, s.w.prompt, TOKENS, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_layer(q, 0, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_sequence_save_end(q, NULL, NULL), SKY_OK);
    teardown(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_come_one_after_the_other),
        cmocka_unit_test(layers_come_in_any_order_or_unasked),
        cmocka_unit_test(what_is_late_comes_later),
        cmocka_unit_test(what_does_not_come_in_time_is_computed),
        cmocka_unit_test(what_is_given_up_is_not_taken),
        cmocka_unit_test(a_layer_that_is_gone_ends_the_load),
        cmocka_unit_test(a_damaged_block_ends_the_load_and_is_saved_again),
        cmocka_unit_test(a_cancelled_load_ends),
        cmocka_unit_test(a_load_may_be_closed_under_way),
        cmocka_unit_test(nothing_found_is_a_miss),
        cmocka_unit_test(coded_blocks_come_at_once),
        cmocka_unit_test(an_engine_that_errs_computes),
        cmocka_unit_test(a_cancel_ends_what_came_at_once),
        cmocka_unit_test(others_batches_make_nothing_fail),
        cmocka_unit_test(layers_are_saved_as_they_are_made),
        cmocka_unit_test(a_layer_that_was_not_given_is_not_saved),
        cmocka_unit_test(a_cancelled_save_ends),
        cmocka_unit_test(both_at_once),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
