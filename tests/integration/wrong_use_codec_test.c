/* Proves, over the shared libraries: functions of codec.h and stream.h that are given NULL, or
 * numbers out of range, answer as their headers say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/codec.h>
#include <skymem/stream.h>

#include "refusal.h"

#define TOKENS 4
#define DIM    8
#define BYTES  8192

static const sky_stream_shape shape = {0, SKY_KV_V, SKY_ELEMENT_F32, TOKENS, 1, DIM, 0};
static const sky_encode_options options = {.level = SKY_LEVEL_4};
static float rows_in[TOKENS * DIM], rows_out[TOKENS * DIM];
#define ROWS(at, token_bytes, dim)                                                                 \
    {                                                                                              \
        at, sizeof rows_in, SKY_ELEMENT_F32, 1, dim, 0, TOKENS, token_bytes, 4 * DIM, 4, NULL, 0,  \
            0, 0                                                                                   \
    }
static const sky_tensor in = ROWS(rows_in, 4 * DIM, DIM), no_in = ROWS(NULL, 4 * DIM, DIM),
                        odd_in = ROWS(rows_in, 4 * DIM - 1, DIM);
static const sky_tensor out = ROWS(rows_out, 4 * DIM, DIM), no_out = ROWS(NULL, 4 * DIM, DIM),
                        odd_out = ROWS(rows_out, 4 * DIM, DIM / 2);
static _Alignas(64) uint8_t work[2 * SKY_DECODER_BYTES], stream[BYTES], container[BYTES];

static void levels_and_ropes(void **state) {
    (void)state;
    sky_level level;
    sky_rope rope;
    float factors[DIM / 2] = {1, 1, 1, -1}, kept[TOKENS * DIM];
    const refusal rows[] = {
        REFUSED(sky_level_parse(NULL, &level)),
        REFUSED(sky_level_parse("4", NULL)),
        REFUSED(sky_rope_init(NULL, SKY_ROPE_NEOX, DIM, 1e4, 1, NULL)),
        REFUSED(sky_rope_init(&rope, SKY_ROPE_NEOX, DIM, NAN, 1, NULL)),
        REFUSED(sky_rope_init(&rope, SKY_ROPE_NEOX, DIM, 1e4, 1, factors)),
    };
    ALL_REFUSED(rows);
    assert_null(sky_level_name((sky_level)99));
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, DIM, 1e4, 1, NULL), SKY_OK);
    memcpy(kept, rows_in, sizeof kept);
    sky_rope_apply(NULL, false, 0, rows_in, TOKENS, 1, DIM);
    sky_rope_apply(&rope, false, 0, NULL, TOKENS, 1, DIM);
    sky_rope_apply(&rope, false, 0, rows_in, 2 * TOKENS, 1, DIM / 2);
    rope.pair_count = UINT32_MAX;
    sky_rope_apply(&rope, false, 0, rows_in, TOKENS, 1, DIM);
    assert_memory_equal(rows_in, kept, sizeof kept);
}

static void no_profile(void **state) {
    (void)state;
    const sky_profile_layer layer = {1, DIM, DIM, SKY_ROPE_OF_NONE};
    const sky_profile_shape one = {.layer_count = 1, .layers = &layer};
    const sky_profile_shape no_layers = {.layer_count = 1};
    const sky_profile_shape no_ropes = {.layer_count = 1, .layers = &layer, .rope_count = 1};
    sky_profile *p = NULL;
    sky_profile_layer got;
    sky_profile_match match;
    uint8_t print[32];
    assert_int_equal(sky_profile_create(&one, &p), SKY_OK);
    const refusal rows[] = {
        REFUSED(sky_profile_create(NULL, &p)),
        REFUSED(sky_profile_create(&one, NULL)),
        REFUSED(sky_profile_create(&no_layers, &p)),
        REFUSED(sky_profile_create(&no_ropes, &p)),
        REFUSED(sky_profile_set_mean(NULL, 0, SKY_KV_V, rows_in)),
        REFUSED(sky_profile_set_mean(p, 0, SKY_KV_V, NULL)),
        REFUSED(sky_profile_set_pairs(NULL, 0, SKY_KV_V, rows_in)),
        REFUSED(sky_profile_set_pairs(p, 0, SKY_KV_V, NULL)),
        REFUSED(sky_profile_set_klt(NULL, 0, SKY_KV_V, rows_in, rows_in)),
        REFUSED(sky_profile_set_klt(p, 0, SKY_KV_V, NULL, NULL)),
        REFUSED(sky_profile_set_step(NULL, 0, SKY_KV_V, SKY_LEVEL_4, false, 1)),
        REFUSED(sky_profile_set_order(NULL, NULL)),
        REFUSED(sky_profile_set_order(p, NULL)),
        REFUSED(sky_profile_fit(NULL, 0, SKY_KV_V, rows_in, TOKENS, 2)),
        REFUSED(sky_profile_fit(p, 0, SKY_KV_V, NULL, TOKENS, 2)),
        REFUSED(sky_profile_seal(NULL)),
        REFUSED(sky_profile_layer_get(NULL, 0, &got)),
        REFUSED(sky_profile_layer_get(p, 0, NULL)),
        REFUSED(sky_profile_write(NULL, stream, BYTES)),
        REFUSED(sky_profile_write(p, NULL, BYTES)),
        REFUSED(sky_profile_read(NULL, 5, &p, NULL)),
        REFUSED(sky_profile_read("x", 1, NULL, NULL)),
        REFUSED(sky_profile_match_rows(NULL, &shape, in, &match)),
        REFUSED(sky_profile_match_rows(p, NULL, in, &match)),
        REFUSED(sky_profile_match_rows(p, &shape, no_in, &match)),
        REFUSED(sky_profile_match_rows(p, &shape, in, NULL)),
    };
    ALL_REFUSED(rows);
    sky_profile_fingerprint(NULL, print);
    sky_profile_fingerprint(p, NULL);
    assert_int_equal(sky_profile_id(NULL), 0);
    assert_int_equal(sky_profile_layer_count(NULL), 0);
    assert_int_equal(sky_profile_model_layer(NULL, 0), SKY_LAYER_NONE);
    assert_int_equal(sky_profile_layer_of(NULL, 0), SKY_LAYER_NONE);
    assert_int_equal(sky_profile_bytes(NULL), 0);
    sky_profile_destroy(p);
    sky_profile_destroy(NULL);
}

static void streams_are_not_encoded(void **state) {
    (void)state;
    size_t n;
    sky_encode_options no_level = options;
    no_level.level = (sky_level)99;
    const refusal rows[] = {
        REFUSED(sky_encode(NULL, NULL, &options, in, stream, BYTES, &n, work)),
        REFUSED(sky_encode(NULL, &shape, NULL, in, stream, BYTES, &n, work)),
        REFUSED(sky_encode(NULL, &shape, &no_level, in, stream, BYTES, &n, work)),
        REFUSED(sky_encode(NULL, &shape, &options, no_in, stream, BYTES, &n, work)),
        REFUSED(sky_encode(NULL, &shape, &options, odd_in, stream, BYTES, &n, work)),
        REFUSED(sky_encode(NULL, &shape, &options, in, NULL, BYTES, &n, work)),
        REFUSED(sky_encode(NULL, &shape, &options, in, stream, BYTES, NULL, work)),
        REFUSED(sky_encode(NULL, &shape, &options, in, stream, BYTES, &n, NULL)),
        REFUSED(sky_encode(NULL, &shape, &options, in, stream, BYTES, &n, work + 1)),
    };
    ALL_REFUSED(rows);
    assert_int_equal(sky_stream_rows_bytes(NULL), 0);
    assert_int_equal(sky_encode_bound(NULL), 0);
}

static void streams_are_not_decoded(void **state) {
    (void)state;
    size_t n;
    sky_stream_info info;
    sky_decoder *d;
    assert_int_equal(sky_encode(NULL, &shape, &options, in, stream, BYTES, &n, work), SKY_OK);
    const sky_stream_in none[2] = {{shape, stream, n, out}, {shape, NULL, n, out}};
    const refusal rows[] = {
        REFUSED(sky_stream_info_read(NULL, n, &info)),
        REFUSED(sky_stream_info_read(stream, n, NULL)),
        REFUSED(sky_decode(NULL, NULL, stream, n, out, work)),
        REFUSED(sky_decode(NULL, &shape, NULL, n, out, work)),
        REFUSED(sky_decode(NULL, &shape, stream, n, no_out, work)),
        REFUSED(sky_decode(NULL, &shape, stream, n, odd_out, work)),
        REFUSED(sky_decode(NULL, &shape, stream, n, out, NULL)),
        REFUSED(sky_decode_two(NULL, NULL, work)),
        REFUSED(sky_decode_two(NULL, none, work)),
        REFUSED(sky_decode_two(NULL, none, NULL)),
        REFUSED(sky_decoder_init(NULL, NULL, &shape, n, out, &d)),
        REFUSED(sky_decoder_init(work, NULL, NULL, n, out, &d)),
        REFUSED(sky_decoder_init(work, NULL, &shape, 0, out, &d)),
        REFUSED(sky_decoder_init(work, NULL, &shape, SIZE_MAX, out, &d)),
        REFUSED(sky_decoder_init(work, NULL, &shape, n, no_out, &d)),
        REFUSED(sky_decoder_init(work, NULL, &shape, n, out, NULL)),
        REFUSED(sky_decoder_feed(NULL, stream, n)),
    };
    ALL_REFUSED(rows);
    assert_int_equal(sky_decode(NULL, &shape, stream, 0, out, work), SKY_E_CORRUPT);
    assert_int_equal(sky_decoder_init(work, NULL, &shape, n, out, &d), SKY_OK);
    assert_int_equal(sky_decoder_feed(d, NULL, n), SKY_E_PARAM);
    assert_int_equal(sky_decoder_feed(d, stream, n), SKY_OK);
    assert_int_equal(sky_decoder_tokens(NULL), 0);
}

static void containers_are_not_written(void **state) {
    (void)state;
    const sky_skv_layer layer = {1, DIM, DIM, SKY_ELEMENT_F32, SKY_ELEMENT_F32};
    const sky_skv_shape whole = {.token_count = TOKENS, .layer_count = 1, .layers = &layer};
    const sky_skv_shape no_layers = {.token_count = TOKENS, .layer_count = 1};
    sky_skv_writer w, unbegun = {.at = 0};
    size_t n;
    assert_int_equal(sky_skv_begin(&w, &whole, NULL, container, BYTES), SKY_OK);
    const refusal rows[] = {
        REFUSED(sky_skv_begin(NULL, &whole, NULL, container, BYTES)),
        REFUSED(sky_skv_begin(&w, NULL, NULL, container, BYTES)),
        REFUSED(sky_skv_begin(&w, &no_layers, NULL, container, BYTES)),
        REFUSED(sky_skv_begin(&w, &whole, NULL, NULL, BYTES)),
        REFUSED(sky_skv_put(NULL, 0, SKY_KV_V, &options, in, work)),
        REFUSED(sky_skv_put(&unbegun, 0, SKY_KV_V, &options, in, work)),
        REFUSED(sky_skv_put(&w, 0, SKY_KV_V, NULL, in, work)),
        REFUSED(sky_skv_put(&w, 0, SKY_KV_V, &options, no_in, work)),
        REFUSED(sky_skv_put_stream(NULL, 0, SKY_KV_V, stream, 24)),
        REFUSED(sky_skv_put_stream(&w, 0, SKY_KV_V, NULL, 24)),
        REFUSED(sky_skv_end(NULL, &n)),
        REFUSED(sky_skv_end(&unbegun, &n)),
        REFUSED(sky_skv_end(&w, NULL)),
    };
    ALL_REFUSED(rows);
    assert_int_equal(sky_skv_header_bytes(NULL), 0);
    assert_int_equal(sky_skv_bound(NULL), 0);
    assert_int_equal(sky_skv_put(&w, 0, SKY_KV_V, &options, in, work), SKY_OK);
    assert_int_equal(sky_skv_end(&w, &n), SKY_OK);
}

static void containers_are_not_read(void **state) {
    containers_are_not_written(state); /* leaves one that is whole */
    sky_skv skv;
    sky_skv_layer layer;
    sky_skv_entry entry;
    sky_stream_shape s;
    sky_encode_options no_level = options;
    size_t n, bytes;
    assert_int_equal(sky_skv_open_header(container, BYTES, 0, &skv, &bytes), SKY_OK);
    bytes = (size_t)skv.bytes;
    no_level.level = (sky_level)99;
    const refusal rows[] = {
        REFUSED(sky_skv_open(NULL, bytes, &skv)),
        REFUSED(sky_skv_open(container, bytes, NULL)),
        REFUSED(sky_skv_open_header(NULL, bytes, 0, &skv, &n)),
        REFUSED(sky_skv_open_header(container, bytes, 0, &skv, NULL)),
        REFUSED(sky_skv_layer_at(NULL, 0, &layer)),
        REFUSED(sky_skv_layer_at(&skv, 0, NULL)),
        REFUSED(sky_skv_entry_at(NULL, 0, SKY_KV_V, &entry)),
        REFUSED(sky_skv_entry_at(&skv, 0, SKY_KV_V, NULL)),
        REFUSED(sky_skv_stream_shape(NULL, 0, SKY_KV_V, &s)),
        REFUSED(sky_skv_stream_shape(&skv, 0, SKY_KV_V, NULL)),
        REFUSED(sky_skv_stream_check(NULL, 0, SKY_KV_V, stream, 24)),
        REFUSED(sky_skv_stream_check(&skv, 0, SKY_KV_V, NULL, 24)),
        REFUSED(sky_skv_verify(NULL)),
        REFUSED(sky_skv_decode(NULL, NULL, 0, SKY_KV_V, out, work)),
        REFUSED(sky_skv_decode(&skv, NULL, 0, SKY_KV_V, no_out, work)),
        REFUSED(sky_skv_decode(&skv, NULL, 0, SKY_KV_V, out, NULL)),
        REFUSED(sky_skv_lower(NULL, NULL, &options, stream, BYTES, &n, work)),
        REFUSED(sky_skv_lower(&skv, NULL, NULL, stream, BYTES, &n, work)),
        REFUSED(sky_skv_lower(&skv, NULL, &no_level, stream, BYTES, &n, work)),
        REFUSED(sky_skv_lower(&skv, NULL, &options, NULL, BYTES, &n, work)),
        REFUSED(sky_skv_lower(&skv, NULL, &options, stream, BYTES, NULL, work)),
        REFUSED(sky_skv_lower(&skv, NULL, &options, stream, BYTES, &n, NULL)),
    };
    ALL_REFUSED(rows);
    assert_int_equal(sky_skv_lower_bytes(NULL), 0);
    assert_int_equal(sky_skv_lower_bound(NULL, SKY_LEVEL_4), 0);
    assert_int_equal(sky_skv_lower_bound(&skv, (sky_level)99), 0);
    assert_int_equal(sky_skv_verify(&skv), SKY_OK);
}

static void no_worth(void **state) {
    (void)state;
    sky_worth_question q = {.tokens = 1, .bytes_per_token = 1, .compute_ms = 1, .bandwidth = NAN};
    sky_worth w;
    const refusal rows[] = {
        REFUSED(sky_worth_judge(NULL, &w)),
        REFUSED(sky_worth_judge(&q, NULL)),
        REFUSED(sky_worth_judge(&q, &w)),
    };
    ALL_REFUSED(rows);
    assert_string_equal(sky_level_costs(NULL)->name, "lossless");
}

int main(void) {
    for (size_t i = 0; i < TOKENS * DIM; i++)
        rows_in[i] = (float)(i % 7) - 3;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_ropes),
        cmocka_unit_test(no_profile),
        cmocka_unit_test(streams_are_not_encoded),
        cmocka_unit_test(streams_are_not_decoded),
        cmocka_unit_test(containers_are_not_written),
        cmocka_unit_test(containers_are_not_read),
        cmocka_unit_test(no_worth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
