/* Proves: a coded payload comes back bit for bit at level lossless and near it at level 4, any
 * range of it, from as few leading bytes as it needs and in as few turns, and lowered from 8 to 4
 * it is as near and as small; that no damage is taken for a payload; that a manager finds its
 * blocks on a disk that keeps them coded, or kept them so once, and stores those of another
 * calibration anew; that a disk that keeps several levels is as good as one for each; and that a
 * head of latent attention, too wide for the codec, is coded in parts. */
#include <math.h>
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

#include "base/bytes.h"
#include "base/hash.h"
#include "base/prng.h"
#include "codec/half.h"
#include "manager/coded.h"
#include "manager/engine_fixture.h"

#define LOSSLESS 1 /* as sky_call's level */
#define LEVEL_8  (SKY_LEVEL_8 + 1)
#define LEVEL_4  (SKY_LEVEL_4 + 1)
#define ARCHIVE  (SKY_LEVEL_ARCHIVE + 1)

typedef struct {
    sky_payload payload;
    sky_coded coded;
    uint8_t *data;  /* [payload_bytes] */
    uint8_t *code;  /* [coded_bytes_max] */
    uint64_t bytes; /* of it */
    uint8_t *back;  /* [payload_bytes] */
    void *work;
} block;

/* A full group after a window group, so that stored order and layout order differ. */
static const sky_layout two_groups = {
    .group_count = 2,
    .groups = {{SKY_LAYER_WINDOW, 32, 3, 2, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 64, 128},
               {SKY_LAYER_FULL, 0, 2, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F32, 128, 256}}};

/* Latent attention: one head, wider than the codec takes, of K and of V. */
static const sky_layout latent = {
    .group_count = 1,
    .groups = {{SKY_LAYER_FULL, 0, 2, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 2 * 576, 2 * 544}}};

/* Halves of a slow wave with some noise, bits of every kind at level lossless. */
static void fill(block *b, bool wild) {
    sky_prng prng;
    sky_prng_init(&prng, 7);
    for (uint32_t i = b->payload.header_bytes; i + 4 <= b->payload.payload_bytes; i += 2) {
        uint64_t r = sky_prng_u64(&prng);
        uint16_t half = wild ? (uint16_t)r : (uint16_t)(0x3000 + (r & 0xbff) + (r >> 16 & 0x8000));
        memcpy(b->data + i, &half, 2);
    }
}

/* Rows as a model has them: halves spread normally. */
static void fill_normal(block *b) {
    sky_prng prng;
    sky_prng_init(&prng, 11);
    for (uint32_t i = b->payload.header_bytes; i + 2 <= b->payload.payload_bytes; i += 2) {
        float sum = 0;
        for (int k = 0; k < 12; k++)
            sum += (float)(sky_prng_u64(&prng) >> 40) * 0x1p-24f;
        sky_store_u16(b->data + i, sky_f16_of_float(sum - 6));
    }
}

static void setup(block *b, const sky_layout *layout, uint32_t tokens, uint32_t first, bool wild) {
    *b = (block){.bytes = 0};
    assert_int_equal(sky_payload_init(&b->payload, layout, tokens), SKY_OK);
    assert_int_equal(sky_coded_init(&b->coded, &b->payload, NULL), SKY_OK);
    b->data = calloc(1, b->payload.payload_bytes);
    b->back = calloc(1, b->payload.payload_bytes);
    b->code = malloc(b->coded.codec.coded_bytes_max);
    b->work = aligned_alloc(64, (b->coded.codec.work_bytes + 63) / 64 * 64);
    sky_payload_header_write(&b->payload, first, b->data);
    fill(b, wild);
}

static void teardown(block *b) {
    sky_coded_deinit(&b->coded);
    free(b->data);
    free(b->back);
    free(b->code);
    free(b->work);
}

static void encode(block *b, uint8_t level) {
    const sky_block_codec *c = &b->coded.codec;
    assert_int_equal(
        c->encode(c->self, level, b->data, b->code, c->coded_bytes_max, &b->bytes, b->work),
        SKY_OK);
}

/* Get a range as a tier would: from the likely bytes, then from as many as it says. */
static sky_status get(block *b, uint8_t level, sky_range range, const sky_span *spans,
                      uint32_t span_count, uint64_t *moved, uint32_t *asked) {
    const sky_block_codec *c = &b->coded.codec;
    uint64_t have = c->likely_bytes(c->self, level, range), needed = 0;
    for (*asked = 1;; ++*asked) {
        bool whole = have > b->bytes;
        uint64_t bytes = whole ? b->bytes : have;
        uint8_t *part = malloc(bytes); /* exactly, so that reading on shows */
        memcpy(part, b->code, bytes);
        sky_status status = c->decode(c->self, part, bytes, whole, range, spans, span_count, moved,
                                      &needed, b->work);
        free(part);
        if (status != SKY_PENDING)
            return status;
        assert_true(needed > have && *asked < 16);
        have = needed;
    }
}

static void lossless_comes_back_bit_for_bit(void **state) {
    (void)state;
    for (int wild = 0; wild < 4; wild++) {
        block b;
        setup(&b, wild < 2 ? &two_groups : &latent, 16, 32, wild & 1);
        encode(&b, LOSSLESS);
        sky_span span = {b.back, b.payload.payload_bytes};
        uint64_t moved;
        uint32_t asked;
        assert_int_equal(get(&b, LOSSLESS, (sky_range){0, 0}, &span, 1, &moved, &asked), SKY_OK);
        assert_int_equal(moved, b.payload.payload_bytes);
        assert_memory_equal(b.back, b.data, b.payload.payload_bytes);
        teardown(&b);
    }
}

/* What an older block is read for: its full-attention layers, in one go. */
static void leading_ranges_take_leading_bytes(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 128, 128, false);
    encode(&b, LEVEL_4);
    uint64_t end = b.payload.group_offset[0]; /* where the window group begins */
    sky_span span = {b.back, end};
    uint64_t moved;
    uint32_t asked;
    assert_int_equal(get(&b, LEVEL_4, (sky_range){0, end}, &span, 1, &moved, &asked), SKY_OK);
    assert_int_equal(moved, end);
    uint64_t likely = b.coded.codec.likely_bytes(&b.coded, LEVEL_4, (sky_range){0, end});
    assert_true(likely < b.bytes);
    uint8_t *whole = malloc(b.payload.payload_bytes);
    sky_span all = {whole, b.payload.payload_bytes};
    assert_int_equal(get(&b, LEVEL_4, (sky_range){0, 0}, &all, 1, &moved, &asked), SKY_OK);
    assert_memory_equal(whole, b.back, end);
    free(whole);
    teardown(&b);
}

/* Without a calibration, which makes low levels longer than they are told to be. */
static void uncalibrated_rows_come_in_one_turn(void **state) {
    (void)state;
    static const sky_level levels[] = {SKY_LEVEL_8, SKY_LEVEL_4, SKY_LEVEL_2, SKY_LEVEL_ARCHIVE};
    for (uint32_t heads = 2; heads <= 32; heads *= 4) {
        block b;
        uint32_t bytes = heads * 32 * 2;
        sky_layout small = {.group_count = 1,
                            .groups = {{SKY_LAYER_FULL, 0, 4, heads, SKY_ELEMENT_F16,
                                        SKY_ELEMENT_F16, bytes, bytes}}};
        setup(&b, &small, 128, 128, false);
        fill_normal(&b);
        for (size_t i = 0; i < 4; i++) {
            sky_coding coding = (sky_coding)(levels[i] + 1);
            sky_range all = {0, b.payload.payload_bytes};
            sky_span span = {b.back, b.payload.payload_bytes};
            uint64_t moved;
            uint32_t asked;
            encode(&b, coding);
            assert_int_equal(get(&b, coding, all, &span, 1, &moved, &asked), SKY_OK);
            assert_int_equal(asked, 1);
            assert_true(b.coded.codec.likely_bytes(&b.coded, coding, all) < b.bytes * 3 / 2);
        }
        teardown(&b);
    }
}

static void lossless_floats_come_in_one_turn(void **state) {
    (void)state;
    block b;
    sky_layout floats = {
        .group_count = 1,
        .groups = {{SKY_LAYER_FULL, 0, 2, 1, SKY_ELEMENT_F32, SKY_ELEMENT_F32, 256, 256}}};
    setup(&b, &floats, 128, 128, false);
    encode(&b, LOSSLESS);
    sky_span span = {b.back, b.payload.payload_bytes};
    uint64_t moved;
    uint32_t asked;
    sky_range all = {0, b.payload.payload_bytes};
    assert_int_equal(get(&b, LOSSLESS, all, &span, 1, &moved, &asked), SKY_OK);
    assert_memory_equal(b.back, b.data, b.payload.payload_bytes);
    assert_int_equal(asked, 1);
    teardown(&b);
}

/* A block kept at a better level than its tier is asked for: the guess is far too short, and what
 * is lacking comes at once, not stream by stream. */
static void a_short_guess_is_mended_at_once(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 128, 128, false);
    encode(&b, LEVEL_8);
    sky_payload_section inner = sky_payload_section_at(&b.payload, 8); /* of the last group */
    const uint64_t ends[] = {b.payload.group_offset[0], inner.offset, b.payload.payload_bytes};
    for (size_t i = 0; i < 3; i++) {
        sky_span span = {b.back, ends[i]};
        uint64_t moved;
        uint32_t asked;
        assert_int_equal(get(&b, ARCHIVE, (sky_range){0, ends[i]}, &span, 1, &moved, &asked),
                         SKY_OK);
        assert_int_equal(moved, ends[i]);
        assert_in_range(asked, 2, 3); /* by the guess, the head, a container's own */
    }
    teardown(&b);
}

static void any_range_into_any_spans(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 16, 0, true);
    encode(&b, LOSSLESS);
    sky_prng prng;
    sky_prng_init(&prng, 3);
    for (int i = 0; i < 300; i++) {
        uint64_t offset = sky_prng_below(&prng, b.payload.payload_bytes);
        uint64_t bytes = 1 + sky_prng_below(&prng, b.payload.payload_bytes);
        uint64_t skip = sky_prng_below(&prng, bytes + 1), left = b.payload.payload_bytes - offset;
        uint64_t head = sky_prng_below(&prng, skip + 1);
        memset(b.back, 0xee, b.payload.payload_bytes);
        sky_span spans[] = {{b.back, head}, {NULL, skip - head}, {b.back + skip, bytes - skip}};
        uint64_t moved;
        uint32_t asked;
        assert_int_equal(get(&b, LOSSLESS, (sky_range){offset, bytes}, spans, 3, &moved, &asked),
                         SKY_OK);
        assert_int_equal(moved, bytes < left ? bytes : left);
        for (uint64_t at = 0; at < bytes; at++) {
            bool there = at < moved && (at < head || at >= skip);
            assert_int_equal(b.back[at], there ? b.data[offset + at] : 0xee);
        }
    }
    sky_span small = {b.back, 10};
    uint64_t moved;
    uint32_t asked;
    assert_int_equal(get(&b, LOSSLESS, (sky_range){5, 11}, &small, 1, &moved, &asked),
                     SKY_E_DST_SMALL);
    assert_int_equal(
        get(&b, LOSSLESS, (sky_range){b.payload.payload_bytes + 1, 1}, &small, 1, &moved, &asked),
        SKY_E_PARAM);
    teardown(&b);
}

static float half_to_float(const uint8_t *at) {
    return sky_float_of_f16(sky_load_u16(at));
}

static void a_level_stays_near(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 128, 0, false);
    encode(&b, LEVEL_4);
    assert_true(b.bytes < b.payload.payload_bytes / 2);
    sky_span span = {b.back, b.payload.payload_bytes};
    uint64_t moved;
    uint32_t asked;
    assert_int_equal(get(&b, LEVEL_4, (sky_range){0, 0}, &span, 1, &moved, &asked), SKY_OK);
    assert_memory_equal(b.back, b.data, b.payload.header_bytes);
    sky_payload_section s = sky_payload_section_at(&b.payload, 4); /* of halves */
    double error = 0, energy = 0;
    for (uint32_t i = 0; i < s.bytes; i += 2) {
        double x = (double)half_to_float(b.data + s.offset + i),
               y = (double)half_to_float(b.back + s.offset + i);
        error += (x - y) * (x - y);
        energy += x * x;
        if (i < s.row_bytes)
            assert_true(x == y); /* the context's first token travels as it is */
    }
    assert_true(error > 0 && error < energy * 0.03);
    teardown(&b);
}

static void no_damage_is_taken_for_a_payload(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 2, 4, true);
    encode(&b, LOSSLESS);
    sky_span span = {b.back, b.payload.payload_bytes};
    uint64_t moved, sound = b.bytes;
    uint32_t asked, passed = 0;
    for (uint64_t i = 0; i < sound; i++) {
        b.code[i] ^= (uint8_t)(1 + i % 255);
        sky_status status = get(&b, LOSSLESS, (sky_range){0, 0}, &span, 1, &moved, &asked);
        if (i >= 4) /* without its magic it is a value of another kind */
            passed += status == SKY_OK;
        if (i >= 4 && status == SKY_OK)
            assert_memory_equal(b.back, b.data, b.payload.payload_bytes);
        b.code[i] ^= (uint8_t)(1 + i % 255);
    }
    assert_true(passed < sound / 8); /* what pads */
    for (b.bytes = SKY_CODED_HEAD_BYTES; b.bytes < sound - 64; b.bytes += 7)
        assert_int_equal(get(&b, LOSSLESS, (sky_range){0, 0}, &span, 1, &moved, &asked),
                         SKY_E_CORRUPT);
    teardown(&b);
}

/* Squares of the differences between the payload and what the code says, over f16 rows. */
static double error_of(block *b, uint8_t level) {
    sky_span span = {b->back, b->payload.payload_bytes};
    uint64_t moved;
    uint32_t asked;
    assert_int_equal(get(b, level, (sky_range){0, 0}, &span, 1, &moved, &asked), SKY_OK);
    double sum = 0;
    for (uint32_t i = 0; i < b->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&b->payload, i);
        for (uint32_t at = s.offset; at + 2 <= s.offset + s.bytes; at += 2) {
            double off = (double)half_to_float(b->data + at) - (double)half_to_float(b->back + at);
            sum += off * off;
        }
    }
    return sum;
}

/* From 8 to 4 without the original: as small as from the original, nearly as near, the context's
 * first token still as it was; a code that is low enough stays, and damage gives nothing. */
static void a_code_can_be_lowered(void **state) {
    (void)state;
    block b;
    sky_layout halves = two_groups;
    halves.groups[1].v_element = SKY_ELEMENT_F16;
    setup(&b, &halves, 64, 0, false);
    const sky_block_codec *c = &b.coded.codec;
    encode(&b, LEVEL_4);
    uint64_t direct_bytes = b.bytes, bytes = 0;
    double direct = error_of(&b, LEVEL_4);
    encode(&b, LEVEL_8);
    double finer = error_of(&b, LEVEL_8);
    uint8_t *low = malloc(c->coded_bytes_max);
    assert_int_equal(
        c->lower(c->self, LEVEL_4, b.code, b.bytes, low, c->coded_bytes_max, &bytes, b.work),
        SKY_OK);
    assert_in_range(bytes, direct_bytes * 95 / 100, direct_bytes * 105 / 100);
    for (uint64_t at = 0; at < b.bytes; at += 1 + at / 50) {
        uint64_t none;
        b.code[at] ^= 4;
        sky_status status = c->lower(c->self, LEVEL_4, b.code, b.bytes, b.back,
                                     b.payload.payload_bytes, &none, b.work);
        assert_true(status != SKY_OK || at >= SKY_CODED_HEAD_BYTES);
        b.code[at] ^= 4;
        uint8_t *part = malloc(at ? at : 1); /* exactly, so that reading on shows */
        memcpy(part, b.code, at);
        assert_int_not_equal(
            c->lower(c->self, LEVEL_4, part, at, b.back, b.payload.payload_bytes, &none, b.work),
            SKY_OK);
        free(part);
    }
    memcpy(b.code, low, bytes);
    b.bytes = bytes;
    double lowered = error_of(&b, LEVEL_4);
    assert_true(finer < direct / 10 && lowered < 1.2 * direct);
    sky_payload_section s = sky_payload_section_at(&b.payload, 0);
    assert_memory_equal(b.back + s.offset, b.data + s.offset, s.row_bytes);
    assert_int_equal(
        c->lower(c->self, LEVEL_4, b.code, b.bytes, low, c->coded_bytes_max, &bytes, b.work),
        SKY_OK);
    assert_int_equal(bytes, b.bytes);
    free(low);
    teardown(&b);
}

/* A container is stored as it came by who keeps levels under keys of their own. */
static void other_values_are_read_as_they_are(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 2, 4, true);
    memset(b.code, 7, 300);
    memcpy(b.code, "SKVC", 4);
    b.bytes = 300;
    sky_span span = {b.back, b.payload.payload_bytes};
    uint64_t moved;
    uint32_t asked;
    assert_int_equal(get(&b, LOSSLESS, (sky_range){0, 0}, &span, 1, &moved, &asked), SKY_OK);
    assert_int_equal(moved, 300);
    assert_memory_equal(b.back, b.code, 300);
    teardown(&b);
}

/* A head whose checksum is right and whose lengths are not: nothing is fetched on its word. */
static void lengths_that_cannot_be_ask_for_nothing(void **state) {
    (void)state;
    block b;
    setup(&b, &two_groups, 2, 4, true);
    encode(&b, LOSSLESS);
    const sky_block_codec *c = &b.coded.codec;
    sky_store_u32(b.code + 16, UINT32_MAX);
    sky_store_u64(b.code + 56, sky_checksum(b.code, 56, 0));
    sky_span span = {b.back, b.payload.payload_bytes};
    uint64_t moved, needed;
    assert_int_equal(c->decode(c->self, b.code, b.bytes, false, (sky_range){0, 0}, &span, 1, &moved,
                               &needed, b.work),
                     SKY_E_CORRUPT);
    teardown(&b);
}

static void a_layout_without_a_shape_is_refused(void **state) {
    (void)state;
    sky_layout wide = two_groups;
    wide.groups[0].kv_heads = 0;          /* not told: one head, as wide as the row */
    wide.groups[0].k_row_bytes = 2 * 521; /* and no part of it goes with a part of 64 */
    sky_payload payload;
    sky_coded coded;
    assert_int_equal(sky_payload_init(&payload, &wide, 4), SKY_OK);
    assert_int_equal(sky_coded_init(&coded, &payload, NULL), SKY_E_UNSUPPORTED);
}

/* ---- in the product ---- */

#define PROMPT_TOKENS 100

static sky_lookup look_up_with(const sky_profile *profile, const char *folder, const char *level,
                               made_up_engine *e, const uint32_t *tokens, bool save) {
    char url[128];
    const char *urls[] = {url};
    snprintf(url, sizeof url, "disk:%s?max=64MiB%s", folder, level);
    sky_cache *cache;
    sky_manager *manager;
    sky_error error;
    sky_lookup found;
    sky_engine engine = made_up_engine_ops(e);
    sky_sequence *sequence;
    const sky_manager_options options = {.block_tokens = 16, .profile = profile};
    if (sky_cache_open(urls, 1, &cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    assert_int_equal(sky_manager_create(cache, &engine, &options, &manager, &error), SKY_OK);
    assert_int_equal(sky_sequence_open(manager, &engine, &sequence), SKY_OK);
    assert_int_equal(sky_sequence_load(sequence, tokens, PROMPT_TOKENS, 0, &found), SKY_OK);
    made_up_engine_answer(e, tokens, found.hit_tokens, PROMPT_TOKENS);
    uint32_t saved;
    uint64_t bytes;
    if (save)
        assert_int_equal(sky_sequence_save(sequence, tokens, PROMPT_TOKENS, &saved, &bytes),
                         SKY_OK);
    sky_sequence_close(sequence);
    sky_manager_destroy(manager);
    sky_cache_close(cache);
    return found;
}

static sky_lookup look_up(const char *folder, const char *level, made_up_engine *e,
                          const uint32_t *tokens, bool save) {
    return look_up_with(NULL, folder, level, e, tokens, save);
}

/* A calibration of two_groups, with steps of its own. */
static sky_profile *calibrate(float step) {
    sky_profile_layer layers[5];
    for (uint32_t i = 0; i < 5; i++) {
        layers[i] = i < 3 ? (sky_profile_layer){2, 16, 32, SKY_ROPE_OF_NONE}
                          : (sky_profile_layer){1, 64, 64, SKY_ROPE_OF_NONE};
    }
    const sky_profile_shape shape = {.layer_count = 5, .layers = layers};
    sky_profile *p;
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    for (uint32_t i = 0; i < 5; i++)
        for (int kv = SKY_KV_K; kv <= SKY_KV_V; kv++)
            for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
                assert_int_equal(
                    sky_profile_set_step(p, i, (sky_kv)kv, (sky_level)level, false, step), SKY_OK);
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    return p;
}

/* A model that is calibrated anew, or not any more, finds nothing of what was coded before, says so
 * and stores it again; at several levels too. */
static void blocks_of_another_calibration_are_a_miss_and_stored_anew(void **state) {
    (void)state;
    static const char *const levels[] = {"&level=4", "&level=8,4,2"};
    sky_profile *first = calibrate(0.25f), *second = calibrate(0.5f);
    const sky_profile *const turns[] = {first, second, NULL, first};
    uint32_t tokens[PROMPT_TOKENS];
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++)
        tokens[i] = 7 * i + 1;
    for (size_t l = 0; l < 2; l++) {
        char folder[] = "/tmp/skymem-coded-XXXXXX";
        assert_non_null(mkdtemp(folder));
        made_up_engine e;
        sky_layout layout = two_groups;
        made_up_engine_init(&e, &layout, 256);
        e.tame = true;
        for (size_t t = 0; t < sizeof turns / sizeof *turns; t++) {
            const sky_profile *own = turns[t];
            sky_lookup found = look_up_with(own, folder, levels[l], &e, tokens, true);
            bool coded_by_another = t > 0 && turns[t - 1]; /* without one it is for all */
            assert_int_equal(found.foreign_blocks, coded_by_another ? 6 : 0);
            assert_int_equal(found.corrupt_blocks, 0);
            assert_int_equal(found.verdict,
                             t == 0 || coded_by_another ? SKY_VERDICT_MISS : SKY_VERDICT_HIT);
            found = look_up_with(own, folder, levels[l], &e, tokens, true);
            assert_int_equal(found.verdict, SKY_VERDICT_HIT);
            assert_int_equal(found.hit_tokens, 96);
            assert_int_equal(found.foreign_blocks, 0);
        }
        made_up_engine_deinit(&e);
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s", folder);
        assert_int_equal(system(command), 0);
    }
    sky_profile_destroy(first);
    sky_profile_destroy(second);
}

static void a_disk_keeps_blocks_coded(void **state) {
    (void)state;
    char folder[] = "/tmp/skymem-coded-XXXXXX";
    assert_non_null(mkdtemp(folder));
    uint32_t tokens[PROMPT_TOKENS];
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++)
        tokens[i] = 7 * i + 1;
    made_up_engine e;
    sky_layout layout = two_groups;
    made_up_engine_init(&e, &layout, 256);
    assert_int_equal(look_up(folder, "&level=lossless", &e, tokens, true).hit_tokens, 0);
    uint64_t cold = e.logits;
    sky_lookup warm = look_up(folder, "&level=lossless", &e, tokens, false);
    assert_int_equal(warm.hit_tokens, 96);
    assert_int_equal(warm.corrupt_blocks, 0);
    assert_true(e.logits == cold);
    /* Its rows are noise, which lossless cannot make smaller: a level can, and it shows. */
    tokens[0]++;
    assert_int_equal(look_up(folder, "&level=4", &e, tokens, true).hit_tokens, 0);
    cold = e.logits;
    warm = look_up(folder, "&level=4", &e, tokens, false);
    assert_int_equal(warm.hit_tokens, 96);
    assert_int_equal(warm.corrupt_blocks, 0);
    assert_true(e.logits != cold);
    made_up_engine_deinit(&e);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static sky_cache *open_disk(const char *folder, const char *name, const char *level,
                            const sky_block_codec *codec) {
    char url[160];
    const char *urls[] = {url};
    snprintf(url, sizeof url, "disk:%s/%s?max=64MiB%s%s", folder, name, level ? "&level=" : "",
             level ? level : "");
    sky_cache *cache;
    sky_error error;
    if (sky_cache_open(urls, 1, &cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    sky_cache_codec_set(cache, codec);
    return cache;
}

/* A folder, a prompt and an engine for who comes back to them with other settings. */
typedef struct {
    char folder[32];
    uint32_t tokens[PROMPT_TOKENS];
    made_up_engine e;
} visit;

static void visit_begin(visit *v) {
    sky_layout layout = two_groups;
    snprintf(v->folder, sizeof v->folder, "/tmp/skymem-coded-XXXXXX");
    assert_non_null(mkdtemp(v->folder));
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++)
        v->tokens[i] = 7 * i + 1;
    made_up_engine_init(&v->e, &layout, 256);
    v->e.tame = true;
}

static void visit_end(visit *v) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", v->folder);
    assert_int_equal(system(command), 0);
    made_up_engine_deinit(&v->e);
}

/* Level 4, none, level 4: the same blocks and the same answer, and nothing is stored over them. */
static void blocks_kept_at_a_level_are_read_without_one(void **state) {
    (void)state;
    visit v;
    visit_begin(&v);
    look_up(v.folder, "&level=4", &v.e, v.tokens, true);
    sky_lookup coded = look_up(v.folder, "&level=4", &v.e, v.tokens, true);
    uint64_t answer = v.e.logits;
    assert_int_equal(coded.hit_tokens, 96);
    for (int visits = 0; visits < 2; visits++) {
        sky_lookup plain = look_up(v.folder, "", &v.e, v.tokens, true);
        assert_int_equal(plain.verdict, SKY_VERDICT_HIT);
        assert_int_equal(plain.hit_tokens, 96);
        assert_int_equal(plain.corrupt_blocks, 0);
        assert_int_equal(plain.foreign_blocks, 0);
        assert_int_equal(plain.level_blocks[LEVEL_4], 6);
        assert_true(plain.bytes_loaded < coded.bytes_loaded);
        assert_true(v.e.logits == answer);
    }
    sky_lookup again = look_up(v.folder, "&level=4", &v.e, v.tokens, true);
    assert_int_equal(again.level_blocks[LEVEL_4], 6);
    assert_true(v.e.logits == answer);
    visit_end(&v);
}

/* New blocks after those that lie coded are stored as they come, and both are read at once. */
static void coded_blocks_and_others_make_one_prefix(void **state) {
    (void)state;
    visit v;
    visit_begin(&v);
    look_up(v.folder, "&level=4", &v.e, v.tokens, true);
    v.tokens[40]++; /* of block 2 */
    sky_lookup partly = look_up(v.folder, "", &v.e, v.tokens, true);
    uint64_t answer = v.e.logits;
    assert_int_equal(partly.hit_tokens, 32);
    sky_lookup all = look_up(v.folder, "", &v.e, v.tokens, true);
    assert_int_equal(all.hit_tokens, 96);
    assert_int_equal(all.level_blocks[LEVEL_4], 2);
    assert_int_equal(all.level_blocks[0], 4);
    assert_true(v.e.logits == answer);
    visit_end(&v);
}

/* One byte of a block, as it lies in the folder, is another one. */
static void damage(visit *v, uint32_t number) {
    made_up_engine *e = &v->e;
    sky_cache *cache = open_disk(v->folder, ".", NULL, NULL);
    sky_engine engine = made_up_engine_ops(e);
    const sky_manager_options options = {.block_tokens = 16};
    sky_manager *manager;
    sky_namespace ns;
    sky_key keys[6];
    uint8_t *bytes = malloc(1u << 20);
    sky_span span = {bytes, 1u << 20};
    assert_int_equal(sky_manager_create(cache, &engine, &options, &manager, NULL), SKY_OK);
    sky_manager_namespace(manager, &ns);
    sky_block_keys(&ns, v->tokens, PROMPT_TOKENS, 16, keys, 6);
    sky_item item = {.key = keys[number], .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    span.bytes = item.bytes;
    bytes[20] ^= 1; /* of its head, which every range needs */
    item.parent = keys[number - 1];
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    free(bytes);
    sky_manager_destroy(manager);
    sky_cache_close(cache);
}

static void a_damaged_code_ends_the_prefix_without_a_level_too(void **state) {
    (void)state;
    visit v;
    visit_begin(&v);
    look_up(v.folder, "&level=4", &v.e, v.tokens, true);
    damage(&v, 3);
    sky_lookup found = look_up(v.folder, "", &v.e, v.tokens, true);
    assert_int_equal(found.corrupt_blocks, 1);
    assert_int_equal(found.foreign_blocks, 0);
    assert_int_equal(found.hit_tokens, 48);
    found = look_up(v.folder, "", &v.e, v.tokens, true); /* stored anew */
    assert_int_equal(found.corrupt_blocks, 0);
    assert_int_equal(found.hit_tokens, 96);
    visit_end(&v);
}

static void without_a_level_another_calibration_is_no_damage_either(void **state) {
    (void)state;
    visit v;
    visit_begin(&v);
    sky_profile *own = calibrate(0.25f), *other = calibrate(0.5f);
    look_up_with(own, v.folder, "&level=4", &v.e, v.tokens, true);
    sky_lookup found = look_up_with(other, v.folder, "", &v.e, v.tokens, true);
    assert_int_equal(found.foreign_blocks, 6);
    assert_int_equal(found.corrupt_blocks, 0);
    assert_int_equal(found.hit_tokens, 0);
    found = look_up_with(other, v.folder, "", &v.e, v.tokens, false); /* stored anew */
    assert_int_equal(found.hit_tokens, 96);
    assert_int_equal(found.level_blocks[0], 6);
    sky_profile_destroy(own);
    sky_profile_destroy(other);
    visit_end(&v);
}

/* ---- several levels ---- */

static sky_item run_one(sky_cache *cache, sky_op op, block *b, void *data, sky_coding wanted) {
    sky_span span = {data, b->payload.payload_bytes};
    sky_item item = {.key = {{9}}, .spans = &span, .span_count = data ? 1 : 0};
    const sky_call call = {.wanted = wanted, .durable = true};
    assert_int_equal(sky_run(cache, op, &item, 1, &call), SKY_OK);
    return item;
}

typedef struct {
    uint32_t entries, codings;
    uint64_t bytes;
    bool others;
} inventory;

static bool take_stock(void *context, const sky_entry *entry) {
    inventory *i = context;
    const sky_key key = {{9}};
    i->entries++;
    i->codings |= 1u << entry->coding;
    i->bytes += entry->bytes;
    i->others |= memcmp(&key, &entry->key, sizeof key) != 0;
    return true;
}

static inventory stock_of(sky_cache *cache) {
    inventory i = {0};
    assert_int_equal(sky_list(cache, take_stock, &i), SKY_OK);
    return i;
}

static void a_disk_of_three_levels_is_three_disks(void **state) {
    (void)state;
    static const char *const names[] = {"8", "4", "2"};
    char folder[] = "/tmp/skymem-coded-XXXXXX";
    assert_non_null(mkdtemp(folder));
    block b;
    setup(&b, &two_groups, 64, 64, false);
    uint8_t *alone = malloc(b.payload.payload_bytes);
    uint64_t bytes = 0;
    uint32_t codings = 0;
    sky_cache *all = open_disk(folder, "all", "2,8,4", &b.coded.codec);
    assert_int_equal(run_one(all, SKY_OP_PUT, &b, b.data, 0).status, SKY_OK);
    for (int reopened = 0; reopened < 2; reopened++) {
        for (size_t i = 0; i < 3; i++) {
            sky_level level;
            assert_int_equal(sky_level_parse(names[i], &level), SKY_OK);
            sky_coding coding = (sky_coding)(level + 1);
            sky_cache *one = open_disk(folder, names[i], names[i], &b.coded.codec);
            if (!reopened) {
                assert_int_equal(run_one(one, SKY_OP_PUT, &b, b.data, 0).status, SKY_OK);
                bytes += stock_of(one).bytes;
                codings |= stock_of(one).codings;
            }
            assert_int_equal(run_one(one, SKY_OP_GET, &b, alone, 0).coding, coding);
            sky_item item = run_one(all, SKY_OP_GET, &b, b.back, coding);
            assert_int_equal(item.status, SKY_OK);
            assert_int_equal(item.coding, coding);
            assert_int_equal(item.bytes, b.payload.payload_bytes);
            assert_memory_equal(b.back, alone, b.payload.payload_bytes);
            sky_cache_close(one);
        }
        inventory i = stock_of(all);
        assert_int_equal(i.entries, 3);
        assert_int_equal(i.bytes, bytes); /* the same codes, not one byte more */
        assert_int_equal(i.codings, codings);
        assert_false(i.others);
        assert_int_equal(run_one(all, SKY_OP_HAS, &b, NULL, 0).bytes, b.payload.payload_bytes);
        sky_cache_close(all);
        all = open_disk(folder, "all", "8,4,2", &b.coded.codec);
    }
    assert_int_equal(run_one(all, SKY_OP_REMOVE, &b, NULL, 0).status, SKY_OK);
    sky_cache_close(all);
    all = open_disk(folder, "all", NULL, NULL);
    assert_int_equal(stock_of(all).entries, 0);
    sky_cache_close(all);
    free(alone);
    teardown(&b);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless_comes_back_bit_for_bit),
        cmocka_unit_test(leading_ranges_take_leading_bytes),
        cmocka_unit_test(uncalibrated_rows_come_in_one_turn),
        cmocka_unit_test(lossless_floats_come_in_one_turn),
        cmocka_unit_test(a_short_guess_is_mended_at_once),
        cmocka_unit_test(any_range_into_any_spans),
        cmocka_unit_test(a_level_stays_near),
        cmocka_unit_test(a_code_can_be_lowered),
        cmocka_unit_test(no_damage_is_taken_for_a_payload),
        cmocka_unit_test(other_values_are_read_as_they_are),
        cmocka_unit_test(lengths_that_cannot_be_ask_for_nothing),
        cmocka_unit_test(a_layout_without_a_shape_is_refused),
        cmocka_unit_test(a_disk_keeps_blocks_coded),
        cmocka_unit_test(blocks_kept_at_a_level_are_read_without_one),
        cmocka_unit_test(coded_blocks_and_others_make_one_prefix),
        cmocka_unit_test(a_damaged_code_ends_the_prefix_without_a_level_too),
        cmocka_unit_test(without_a_level_another_calibration_is_no_damage_either),
        cmocka_unit_test(blocks_of_another_calibration_are_a_miss_and_stored_anew),
        cmocka_unit_test(a_disk_of_three_levels_is_three_disks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
