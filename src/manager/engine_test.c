/* Proves: an engine that says what cannot be, in its rows, its statuses or its number of tokens,
 * costs an error or a computed prompt, and the next call is right again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager/world_fixture.h"

static int lie; /* which of those below */

/* ---- rows ---- */

static void change_rows(const made_up_engine *e, sky_state *state) {
    static sky_tensor other[8];
    sky_tensor *rows = &state->tensors[1];
    (void)e;
    if (lie == 0)
        state->tensor_count = 0;
    else if (lie == 1)
        state->tensor_count++;
    else if (lie == 2)
        state->tensors = other;
    else if (lie == 3)
        *rows = (sky_tensor){0};
    else if (lie == 4)
        rows->data = NULL;
    else if (lie == 5)
        rows->token_count--;
    else if (lie == 6)
        rows->first_token++;
    else if (lie == 7)
        rows->first_token = UINT32_MAX;
    else if (lie == 8)
        state->tensors[3].first_token++; /* of a window */
}
enum { ROW_LIES = 9 };

static void rows_that_are_not_those_asked_for_are_not_saved(void **state) {
    (void)state;
    for (lie = 0; lie < ROW_LIES; lie++) {
        static world w;
        uint32_t blocks = 77;
        world_open(&w, made_up_layout(1, 1, 100), 32);
        world_cold(&w, 330);
        w.engine.change = change_rows;
        assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 330, &blocks, NULL),
                         SKY_E_CORRUPT);
        assert_int_equal(blocks, 0);
        w.engine.change = NULL;
        assert_int_equal(world_look(&w, 330, 0).verdict, SKY_VERDICT_MISS);
        world_close(&w);
    }
}

static void wrong_room_for_a_prefix_is_not_written_to(void **state) {
    (void)state;
    for (lie = 0; lie < ROW_LIES; lie++) {
        static world w;
        world_open(&w, made_up_layout(1, 1, 100), 32);
        uint64_t answer = world_cold(&w, 330);
        world_save(&w, 330);
        w.engine.change = change_rows;
        assert_int_equal(world_expect(&w, 330, answer).verdict, SKY_VERDICT_RECOMPUTE);
        w.engine.change = NULL;
        assert_int_equal(world_expect(&w, 330, answer).verdict, SKY_VERDICT_HIT);
        world_close(&w);
    }
}

/* ---- statuses and tokens ---- */

static sky_engine_ops real;
static sky_status extract_says, begin_says, end_says;

static sky_status lying_extract(void *self, uint32_t first, uint32_t count, sky_state *out) {
    sky_status status = real.extract(self, first, count, out);
    return extract_says ? extract_says : status;
}

static sky_status lying_begin(void *self, uint32_t count, sky_state *out) {
    sky_status status = real.restore_begin(self, count, out);
    return begin_says ? begin_says : status;
}

static sky_status lying_end(void *self, bool commit) {
    sky_status status = real.restore_end(self, commit && !end_says);
    return end_says ? end_says : status;
}

static sky_status lying_tokenize(void *self, const char *text, size_t text_bytes, uint32_t *tokens,
                                 size_t token_count_max, size_t *token_count) {
    sky_status status = real.tokenize(self, text, text_bytes, tokens, token_count_max, token_count);
    switch (lie) {
    case 0:
        *token_count = token_count_max + 1;
        return SKY_OK;
    case 1:
        *token_count = SIZE_MAX; /* of 4 bytes each: more than an address reaches */
        return SKY_E_DST_SMALL;
    case 2:
        *token_count = token_count_max;
        return SKY_E_DST_SMALL;
    case 3:
        *token_count = token_count_max + 1; /* each time */
        return SKY_E_DST_SMALL;
    case 4:
        return (sky_status)66;
    default:
        return status;
    }
}

static void open_lying(world *w) {
    static sky_engine_ops ops;
    world_open(w, made_up_layout(1, 1, 100), 32);
    sky_engine engine = made_up_engine_ops(&w->engine);
    real = ops = *engine.ops;
    ops.extract = lying_extract;
    ops.restore_begin = lying_begin;
    ops.restore_end = lying_end;
    ops.tokenize = lying_tokenize;
    engine.ops = &ops;
    sky_sequence_close(w->sequence);
    assert_int_equal(sky_sequence_open(w->manager, &engine, &w->sequence), SKY_OK);
}

static void a_status_that_is_none_is_a_failure(void **state) {
    (void)state;
    static const sky_status none[] = {SKY_MISS, SKY_PENDING, (sky_status)3, (sky_status)-99};
    static world w;
    open_lying(&w);
    uint64_t answer = world_cold(&w, 330);
    for (size_t i = 0; i < 4; i++) {
        extract_says = none[i];
        assert_int_equal(sky_sequence_save(w.sequence, w.prompt, 330, NULL, NULL), SKY_E_IO);
    }
    extract_says = SKY_OK;
    world_save(&w, 330);
    for (size_t i = 0; i < 8; i++) {
        *(i < 4 ? &begin_says : &end_says) = none[i % 4];
        assert_int_equal(world_expect(&w, 330, answer).verdict, SKY_VERDICT_RECOMPUTE);
        begin_says = end_says = SKY_OK;
    }
    assert_int_equal(world_expect(&w, 330, answer).verdict, SKY_VERDICT_HIT);
    world_close(&w);
}

static void a_number_of_tokens_that_cannot_be_is_an_error(void **state) {
    (void)state;
    static const sky_status expected[] = {SKY_E_CORRUPT, SKY_E_CORRUPT, SKY_E_CORRUPT,
                                          SKY_E_CORRUPT, SKY_E_IO,      SKY_OK};
    static world w;
    sky_lookup found;
    open_lying(&w);
    for (lie = 0; lie < 6; lie++)
        assert_int_equal(sky_sequence_load_text(w.sequence, "a text", 0, &found), expected[lie]);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_not_those_asked_for_are_not_saved),
        cmocka_unit_test(wrong_room_for_a_prefix_is_not_written_to),
        cmocka_unit_test(a_status_that_is_none_is_a_failure),
        cmocka_unit_test(a_number_of_tokens_that_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
