/* Proves: what is stored does not depend on how an engine's memory looks. A block saved from rows,
 * heads or pages is the same bytes, and is restored into any other of them, whichever tier it came
 * from; and memory that is described wrongly is not touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager/world_fixture.h"

#define TOKENS 330 /* ten blocks of 32, and some: pages of 8 end in the middle of the window */
#define BLOCK  32

typedef void arranger(const made_up_engine *e, uint32_t set, sky_tensor *t);

/* No page begins or ends where a block does; but a head's tokens follow each other. */
static void in_odd_pages(const made_up_engine *e, uint32_t set, sky_tensor *t) {
    made_up_paged(e, set, t);
    t->page_tokens = MADE_UP_PAGE - 1;
}

static void apart(const made_up_engine *e, uint32_t set, sky_tensor *t) {
    (void)e, (void)set;
    t->token_bytes *= 3;
}

static arranger *const arrangements[] = {NULL, made_up_by_head, made_up_paged, in_odd_pages, apart};
enum { ARRANGEMENTS = sizeof arrangements / sizeof arrangements[0] };

static sky_lookup look(world *w, arranger *how, uint64_t answer, sky_time deadline) {
    w->engine.arrange = how;
    sky_lookup found = world_look(w, TOKENS, deadline);
    assert_true(made_up_engine_answer(&w->engine, w->prompt, found.hit_tokens, TOKENS) == answer);
    return found;
}

static void every_layout_saves_the_same_bytes(void **state) {
    (void)state;
    static world w;
    stored_block first[10];
    for (size_t i = 0; i < ARRANGEMENTS; i++) {
        world_open(&w, made_up_layout(2, 2, 100), BLOCK);
        world_cold(&w, TOKENS);
        w.engine.arrange = arrangements[i];
        assert_int_equal(world_save(&w, TOKENS), 10);
        for (uint32_t b = 0; b < 10; b++) {
            stored_block now = world_fetch(&w, TOKENS, BLOCK, b);
            if (i == 0) {
                first[b] = now;
                continue;
            }
            assert_int_equal(now.byte_count, first[b].byte_count);
            assert_memory_equal(now.bytes, first[b].bytes, now.byte_count);
            free(now.bytes);
        }
        world_close(&w);
    }
    for (uint32_t b = 0; b < 10; b++)
        free(first[b].bytes);
}

static void every_layout_restores_what_another_saved(void **state) {
    (void)state;
    for (uint32_t block = BLOCK; block <= 128; block += 96) { /* and longer than one extraction */
        for (size_t i = 0; i < ARRANGEMENTS * ARRANGEMENTS; i++) {
            static world w;
            world_open(&w, made_up_layout(2, 2, 100), block);
            uint64_t answer = world_cold(&w, TOKENS);
            w.engine.arrange = arrangements[i / ARRANGEMENTS];
            world_save(&w, TOKENS);
            sky_lookup found = look(&w, arrangements[i % ARRANGEMENTS], answer, 0);
            assert_int_equal(found.verdict, SKY_VERDICT_HIT);
            world_close(&w);
        }
    }
}

static void a_shorter_prefix_is_kept_in_any_layout(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRANGEMENTS; i++) {
        static world w;
        world_open(&w, made_up_layout(2, 0, 0), BLOCK);
        uint64_t answer = world_cold(&w, TOKENS);
        world_save(&w, TOKENS);
        stored_block b = world_fetch(&w, TOKENS, BLOCK, 7);
        b.bytes[5] ^= 1; /* its header */
        world_put_back(&w, &b, 7);
        sky_lookup found = look(&w, arrangements[i], answer, 0);
        assert_int_equal(found.block_count, 7);
        assert_int_equal(found.corrupt_blocks, 1);
        world_close(&w);
    }
}

/* ---- tiers ---- */

typedef struct {
    char folder[32];
    char url[96];
} place;

static place new_place(const char *rest) {
    place p = {"/tmp/skymem-layouts-XXXXXX", ""};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.url, sizeof p.url, "disk:%s?max=64MiB%s", p.folder, rest);
    return p;
}

static void remove_place(const place *p) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", p->folder);
    assert_int_equal(system(command), 0);
}

/* Of halves alone, so that streams are smaller than rows. */
static sky_layout halves(void) {
    return (sky_layout){
        .group_count = 2,
        .groups = {{SKY_LAYER_WINDOW, 100, 2, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 64, 128},
                   {SKY_LAYER_FULL, 0, 2, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 64, 32}}};
}

/* From files, from streams that are decoded on the way, with and without a deadline. */
static void restore_from(const char *rest) {
    for (size_t i = 0; i < ARRANGEMENTS; i++) {
        static world w;
        place p = new_place(rest);
        world_open_at(&w, halves(), BLOCK, p.url);
        w.engine.tame = true;
        w.engine.arrange = arrangements[ARRANGEMENTS - 1 - i];
        uint64_t answer = world_cold(&w, TOKENS);
        assert_int_equal(world_save(&w, TOKENS), 10);
        assert_int_equal(sky_flush(w.cache, sky_now() + SKY_SECONDS(20), NULL), SKY_OK);
        for (uint32_t n = 0; n < 2; n++) {
            sky_time deadline = n ? sky_now() + SKY_SECONDS(60) : 0;
            sky_lookup found = look(&w, arrangements[i], answer, deadline);
            assert_int_equal(found.verdict, SKY_VERDICT_HIT);
            assert_true(found.level_blocks[strstr(rest, "level") != NULL] >=
                        9); /* one is no smaller */
        }
        world_close(&w);
        remove_place(&p);
    }
}

static void files_are_restored_into_any_layout(void **state) {
    (void)state;
    restore_from("");
    restore_from("&direct=on");
}

static void streams_are_decoded_into_any_layout(void **state) {
    (void)state;
    restore_from("&level=lossless");
}

/* ---- what is described wrongly ---- */

static int lie;

static void wrong(const made_up_engine *e, sky_state *state) {
    sky_tensor *t = &state->tensors[1];
    (void)e;
    switch (lie) {
    case 0:
        e->pages[t->first_token / MADE_UP_PAGE + 1] = 1u << 30;
        break;
    case 1:
        e->pages[t->first_token / MADE_UP_PAGE + 1] = e->pages[t->first_token / MADE_UP_PAGE];
        break;
    case 2:
        t->page_count = (t->first_token + t->token_count - 1) / MADE_UP_PAGE;
        break;
    case 3:
        t->token_bytes /= 2;
        t->token_bytes -= 2;
        break;
    case 4:
        t->page_bytes = SIZE_MAX / 2;
        break;
    case 5:
        t->element = t->element == SKY_ELEMENT_F16 ? SKY_ELEMENT_BF16 : SKY_ELEMENT_F16;
        break;
    case 6:
        t->dim++;
        break;
    case 7:
        t->element_bytes *= 2; /* fits, but no head's elements would lie together */
        t->token_bytes *= 2;
        t->head_bytes *= 2;
        t->page_bytes *= 2;
        break;
    default:
        break;
    }
}
enum { LIES = 8 };

/* check_gaps is not reached, so all that was lent must be as it was. */
static void expect_untouched(const made_up_engine *e, const uint8_t *lent, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(e->lent[1][i], lent[i]);
}

static void wrong_descriptions_are_refused_before_a_byte_moves(void **state) {
    (void)state;
    for (lie = 0; lie < LIES; lie++) {
        static world w;
        world_open(&w, made_up_layout(2, 2, 100), BLOCK);
        uint64_t answer = world_cold(&w, TOKENS);
        w.engine.arrange = made_up_paged;
        w.engine.change = wrong;
        assert_int_equal(sky_sequence_save(w.sequence, w.prompt, TOKENS, NULL, NULL),
                         SKY_E_CORRUPT);
        w.engine.change = NULL;
        world_save(&w, TOKENS);
        size_t bytes = (size_t)LENT_ROWS * WORLD_TOKENS_MAX * 12;
        uint8_t *poison = malloc(bytes);
        assert_non_null(poison);
        memset(poison, 0xee, bytes);
        w.engine.change = wrong;
        assert_int_equal(world_look(&w, TOKENS, 0).verdict, SKY_VERDICT_RECOMPUTE);
        expect_untouched(&w.engine, poison, bytes);
        free(poison);
        w.engine.change = NULL;
        assert_int_equal(look(&w, made_up_paged, answer, 0).verdict, SKY_VERDICT_HIT);
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_saves_the_same_bytes),
        cmocka_unit_test(every_layout_restores_what_another_saved),
        cmocka_unit_test(a_shorter_prefix_is_kept_in_any_layout),
        cmocka_unit_test(files_are_restored_into_any_layout),
        cmocka_unit_test(streams_are_decoded_into_any_layout),
        cmocka_unit_test(wrong_descriptions_are_refused_before_a_byte_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
