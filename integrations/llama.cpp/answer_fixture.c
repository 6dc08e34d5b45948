/* See answer_fixture.h. */
#include "answer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void close_manager(bench *b) {
    sky_sequence_close(b->sequence);
    sky_manager_destroy(b->manager);
    b->sequence = NULL;
    b->manager = NULL;
}

void bench_manager(bench *b, const sky_manager_options *options) {
    sky_error error = {0};
    close_manager(b);
    if (sky_manager_create(b->cache, b->engine, options, &b->manager, &error) != SKY_OK ||
        sky_sequence_open(b->manager, b->engine, &b->sequence) != SKY_OK)
        fail_msg("%s", error.text);
}

void bench_block_tokens(bench *b, uint32_t block_tokens) {
    bench_manager(b, &(sky_manager_options){.block_tokens = block_tokens});
}

void bench_share(bench *b, const bench *owner, uint32_t block_tokens) {
    close_manager(b);
    sky_cache_close(b->cache);
    b->cache = owner->cache;
    b->shares = true;
    bench_block_tokens(b, block_tokens);
}

void bench_open(bench *b, const sky_llama_options *options, uint32_t context_tokens,
                uint32_t block_tokens) {
    sky_error error = {0};
    const char *url = "mem:192MiB";
    *b = (bench){0};
    if (sky_llama_open(options, &b->llama, &error) != SKY_OK ||
        sky_llama_reserve(b->llama, context_tokens, &error) != SKY_OK ||
        sky_cache_open(&url, 1, &b->cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    b->engine = sky_llama_engine(b->llama);
    bench_block_tokens(b, block_tokens);
}

void bench_close(bench *b) {
    close_manager(b);
    if (!b->shares)
        sky_cache_close(b->cache);
    sky_llama_close(b->llama);
}

/* Token i of an answer, from the logits of the last prefill. */
static void note_choice(const bench *b, answer *a, uint32_t i) {
    uint32_t vocabulary;
    const float *logits = sky_llama_logits(b->llama, &vocabulary);
    assert_non_null(logits);
    a->logits[i] = sky_content_hash(logits, vocabulary * sizeof *logits, 0);
    a->tokens[i] = sky_llama_greedy(b->llama);
}

answer bench_answer(bench *b, const uint32_t *tokens, uint32_t first_token, uint32_t token_count,
                    uint32_t generated) {
    answer a = {.count = generated};
    const sky_engine_ops *ops = b->engine->ops;
    assert_int_equal(
        ops->prefill(b->engine->self, tokens + first_token, first_token, token_count - first_token),
        SKY_OK);
    for (uint32_t i = 0; i < generated; i++) {
        note_choice(b, &a, i);
        if (i + 1 < generated)
            assert_int_equal(ops->prefill(b->engine->self, &a.tokens[i], token_count + i, 1),
                             SKY_OK);
    }
    return a;
}

void expect_same(const answer *a, const answer *b) {
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->logits[i] != b->logits[i])
            fail_msg("the logits of generated token %u are not the same (tokens %u and %u)", i,
                     a->tokens[i], b->tokens[i]);
        assert_int_equal(a->tokens[i], b->tokens[i]);
    }
}

uint32_t bench_save(bench *b, const uint32_t *tokens, uint32_t token_count) {
    uint32_t blocks;
    uint64_t bytes;
    assert_int_equal(sky_sequence_save(b->sequence, tokens, token_count, &blocks, &bytes), SKY_OK);
    return blocks;
}

sky_lookup bench_look(bench *b, const uint32_t *tokens, uint32_t token_count) {
    sky_lookup found;
    assert_int_equal(sky_sequence_load(b->sequence, tokens, token_count, 0, &found), SKY_OK);
    assert_int_equal(found.corrupt_blocks, 0);
    return found;
}

void bench_expect(bench *b, const uint32_t *tokens, uint32_t token_count, uint32_t hit_tokens,
                  const answer *cold) {
    sky_lookup found = bench_look(b, tokens, token_count);
    assert_int_equal(found.hit_tokens, hit_tokens);
    answer warm = bench_answer(b, tokens, hit_tokens, token_count, cold->count);
    expect_same(&warm, cold);
}

/* ---- a head that is computed, and a tail that is loaded ---- */

#define ROW_SETS_MAX 256u

/* Rows of one layer, K or V, kept by the test. */
typedef struct {
    uint8_t *data;
    uint32_t row_bytes;
} kept_rows;

/* Those of all layers, of the first tokens of a prompt. */
typedef struct {
    kept_rows sets[ROW_SETS_MAX];
    uint32_t set_count;
    uint32_t tokens;
} kept;

static uint32_t list_sets(const bench *b, kept_rows *sets) {
    sky_layout layout;
    uint32_t count = 0;
    sky_manager_layout(b->manager, &layout);
    for (uint32_t g = 0; g < layout.group_count; g++)
        for (uint32_t i = 0; i < 2 * layout.groups[g].layer_count; i++)
            sets[count++] = (kept_rows){NULL, i % 2 ? layout.groups[g].v_row_bytes
                                                    : layout.groups[g].k_row_bytes};
    assert_true(count <= ROW_SETS_MAX);
    return count;
}

static void keep_rows(bench *b, uint32_t tokens, kept *out) {
    static sky_tensor rows[ROW_SETS_MAX];
    out->tokens = tokens;
    out->set_count = list_sets(b, out->sets);
    sky_state state = {rows, out->set_count};
    for (uint32_t i = 0; i < out->set_count; i++)
        assert_non_null(out->sets[i].data = malloc((size_t)tokens * out->sets[i].row_bytes));
    for (uint32_t t = 0; t < tokens; t += 64) {
        assert_int_equal(b->engine->ops->extract(b->engine->self, t, 64, &state), SKY_OK);
        for (uint32_t i = 0; i < out->set_count; i++) {
            uint8_t *to = out->sets[i].data + (size_t)t * out->sets[i].row_bytes;
            assert_int_equal(sky_tensor_read(&rows[i], t, 64, to), SKY_OK);
        }
    }
}

static void write_rows(const sky_tensor *to, const kept_rows *from, uint32_t first, uint32_t end) {
    size_t bytes = from->row_bytes;
    first = to->first_token > first ? to->first_token : first;
    if (first < end)
        assert_int_equal(sky_tensor_write(to, first, end - first, from->data + first * bytes),
                         SKY_OK);
}

static void expect_met(bench *b, const uint32_t *tokens, uint32_t token_count, const kept *from,
                       uint32_t computed, const answer *cold) {
    static sky_tensor rows[ROW_SETS_MAX];
    const sky_engine_ops *ops = b->engine->ops;
    void *self = b->engine->self;
    uint32_t half = computed / 128 * 64;
    sky_state state = {rows, from->set_count};
    assert_int_equal(ops->restore_begin(self, from->tokens, &state), SKY_OK);
    if (half > 0)
        assert_int_equal(ops->advance(self, tokens, 0, half), SKY_OK);
    for (uint32_t i = 0; i < from->set_count; i++)
        write_rows(&rows[i], &from->sets[i], computed, from->tokens);
    if (computed > 0) {
        assert_int_equal(ops->place_advanced(self, computed), SKY_E_PARAM);
        assert_int_equal(ops->advance(self, tokens + half, half, computed - half), SKY_OK);
        assert_int_equal(ops->place_advanced(self, computed), SKY_OK);
    }
    assert_int_equal(ops->restore_end(self, true), SKY_OK);
    answer met = bench_answer(b, tokens, from->tokens, token_count, cold->count);
    expect_same(&met, cold);
}

void bench_expect_met(bench *b, const uint32_t *tokens, uint32_t token_count, uint32_t prefix,
                      const uint32_t *computed, size_t computed_count, const answer *cold) {
    static kept rows;
    keep_rows(b, prefix, &rows);
    for (size_t i = 0; i < computed_count; i++)
        expect_met(b, tokens, token_count, &rows, computed[i], cold);
    for (uint32_t i = 0; i < rows.set_count; i++)
        free(rows.sets[i].data);
}

/* ---- slots ---- */

#define SLOTS             4u
#define SLOT_TOKENS_MAX   1024u
#define SLOT_TOKENS_APART 16u

/* A prompt in a slot of its own. */
typedef struct {
    const sky_engine *engine;
    sky_sequence *sequence;
    uint32_t prompt[SLOT_TOKENS_MAX];
    answer alone;
    answer among;
} slot;

static void compute(const slot *s, const uint32_t *tokens, uint32_t first, uint32_t count) {
    assert_int_equal(s->engine->ops->prefill(s->engine->self, tokens, first, count), SKY_OK);
}

static void slots_answer(bench *b, slot *slots, uint32_t common, uint32_t token_count,
                         uint32_t generated) {
    for (uint32_t n = 0; n < SLOTS; n++) {
        slot *s = &slots[n];
        sky_lookup found;
        s->engine = sky_llama_slot_engine(b->llama, n);
        assert_int_equal(sky_sequence_open(b->manager, s->engine, &s->sequence), SKY_OK);
        assert_int_equal(sky_sequence_load(s->sequence, s->prompt, token_count, 0, &found), SKY_OK);
        assert_int_equal(found.hit_tokens, n == 0 ? 0 : common);
        compute(s, s->prompt + found.hit_tokens, found.hit_tokens, token_count - found.hit_tokens);
        s->among.count = generated;
        note_choice(b, &s->among, 0);
        assert_int_equal(sky_sequence_save(s->sequence, s->prompt, token_count, NULL, NULL),
                         SKY_OK);
    }
    for (uint32_t i = 1; i < generated; i++)
        for (uint32_t n = 0; n < SLOTS; n++) {
            compute(&slots[n], &slots[n].among.tokens[i - 1], token_count + i - 1, 1);
            note_choice(b, &slots[n].among, i);
        }
}

void expect_slots(const sky_llama_options *options, const uint32_t *tokens, uint32_t common,
                  uint32_t token_count, uint32_t block_tokens, uint32_t generated) {
    static slot slots[SLOTS];
    bench b;
    sky_llama_options many = *options;
    many.slots = SLOTS;
    assert_true(token_count <= SLOT_TOKENS_MAX);
    bench_open(&b, options, token_count + generated, block_tokens);
    assert_null(sky_llama_slot_engine(b.llama, 1));
    for (uint32_t n = 0; n < SLOTS; n++) {
        memcpy(slots[n].prompt, tokens, common * sizeof *tokens);
        memcpy(slots[n].prompt + common, tokens + common + n * SLOT_TOKENS_APART,
               (token_count - common) * sizeof *tokens);
        slots[n].alone = bench_answer(&b, slots[n].prompt, 0, token_count, generated);
    }
    bench_close(&b);
    bench_open(&b, &many, token_count + generated, block_tokens);
    slots_answer(&b, slots, common, token_count, generated);
    for (uint32_t n = 0; n < SLOTS; n++) {
        expect_same(&slots[n].among, &slots[n].alone);
        sky_sequence_close(slots[n].sequence);
    }
    bench_close(&b);
}
