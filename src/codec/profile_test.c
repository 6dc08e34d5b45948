/* Proves: a profile written and read is the same profile; setters refuse what no coder could use,
 * and a profile that is sealed; any byte of a .skycal flipped, cut or added is refused; the order
 * of layers travels with it and changes no name; rows of another layer are told by their means; a
 * rounded profile takes fewer bytes, codes as the numbers in its file say, and has an id of its
 * own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "codec/codec_fixture.h"
#include "codec/half.h"
#include "codec/profile.h"

static sky_profile *make(void) {
    sky_stream_shape shape = {0, SKY_KV_K, SKY_ELEMENT_F32, 64, 2, 17, 0};
    return fixture_profile(&shape, SKY_ROPE_NEOX, true);
}

static uint8_t *write(const sky_profile *p, size_t *bytes) {
    *bytes = sky_profile_bytes(p);
    uint8_t *out = malloc(*bytes);
    assert_int_equal(sky_profile_write(p, out, *bytes - 1), SKY_E_DST_SMALL);
    assert_int_equal(sky_profile_write(p, out, *bytes), SKY_OK);
    return out;
}

static void written_and_read(sky_profile *p) {
    size_t bytes, again_bytes;
    sky_profile *q;
    uint8_t *data = write(p, &bytes);
    assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_OK);
    uint8_t *again = write(q, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(data, again, bytes);
    assert_true(sky_profile_id(p) != 0 && sky_profile_id(p) == sky_profile_id(q));
    assert_int_equal(sky_profile_layer_count(q), 1);
    sky_profile_layer layer;
    assert_int_equal(sky_profile_layer_get(q, 0, &layer), SKY_OK);
    assert_int_equal(layer.kv_heads, 2);
    assert_int_equal(sky_profile_layer_get(q, 1, &layer), SKY_E_PARAM);
    assert_int_equal(sky_profile_rope(q, 0)->pair_count, 4);
    assert_null(sky_profile_rope(q, 1));
    assert_null(sky_profile_rope(NULL, 0));
    assert_true(sky_profile_step(q, 0, SKY_KV_V, SKY_LEVEL_4, true) > 0);
    /* And it codes alike. */
    sky_stream_shape shape = {0, SKY_KV_K, SKY_ELEMENT_F32, 31, 2, 17, 5};
    void *in = fixture_elements(1, &shape, sky_profile_rope(p, 0));
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++) {
        sky_encode_options how = {.level = (sky_level)level};
        size_t a_bytes, b_bytes;
        uint8_t *a = fixture_encode(p, &shape, &how, in, &a_bytes);
        uint8_t *b = fixture_encode(q, &shape, &how, in, &b_bytes);
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a, b, a_bytes);
        free(a);
        free(b);
    }
    free(in);
    free(again);
    free(data);
    sky_profile_destroy(p);
    sky_profile_destroy(q);
}

static sky_status read_exact(const uint8_t *data, size_t bytes) {
    uint8_t *exact = malloc(bytes + 1);
    sky_profile *p = NULL;
    sky_error error = {0};
    memcpy(exact + 1, data, bytes);
    sky_status status = sky_profile_read(exact + 1, bytes, &p, &error);
    assert_int_equal(status != SKY_OK, error.text[0] != 0);
    sky_profile_destroy(p);
    free(exact);
    return status;
}

/* Put the right checksum under bytes that were changed. */
static void resign(uint8_t *data, size_t bytes) {
    sky_store_u64(data + bytes - 8, sky_checksum(data, bytes - 8, 0));
}

static void flips_and_cuts_are_refused(sky_profile *p) {
    size_t bytes;
    uint8_t *data = write(p, &bytes), *bad = malloc(bytes + 1);
    for (size_t bit = 0; bit < 8 * bytes; bit += bit < 8 * 300 ? 1 : 37) {
        memcpy(bad, data, bytes);
        bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
        sky_status status = read_exact(bad, bytes);
        assert_true(status == SKY_E_CORRUPT ||
                    (status == SKY_E_UNSUPPORTED && bit / 8 >= 4 && bit / 8 < 8));
        resign(bad, bytes);
        status = read_exact(bad, bytes); /* crafted: never worse than a status */
        assert_true(status == SKY_OK || status == SKY_E_CORRUPT || status == SKY_E_UNSUPPORTED);
    }
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal(read_exact(data, cut), SKY_E_CORRUPT);
    for (size_t cut = 24; cut < bytes; cut += 3) {
        memcpy(bad, data, cut);
        resign(bad, cut);
        assert_int_equal(read_exact(bad, cut), SKY_E_CORRUPT);
    }
    memcpy(bad, data, bytes);
    bad[bytes] = 0;
    resign(bad, bytes + 1);
    assert_int_equal(read_exact(bad, bytes + 1), SKY_E_CORRUPT);
    free(bad);
    free(data);
    sky_profile_destroy(p);
}

static sky_profile *rounded(sky_profile *p) {
    sky_profile *q;
    assert_int_equal(sky_profile_round(p, &q), SKY_OK);
    sky_profile_destroy(p);
    return q;
}

static void every_flip_and_cut_is_refused(void **state) {
    (void)state;
    flips_and_cuts_are_refused(make());
    flips_and_cuts_are_refused(rounded(make()));
}

static void setters_refuse_what_no_coder_could_use(void **state) {
    (void)state;
    sky_profile_layer layer = {1, 4, 6, SKY_ROPE_OF_NONE};
    sky_profile_shape shape = {.layer_count = 1, .layers = &layer};
    sky_profile *p;
    float x[36] = {NAN};
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    assert_int_equal(sky_profile_set_mean(p, 0, SKY_KV_K, x), SKY_E_PARAM);
    assert_int_equal(sky_profile_set_mean(p, 1, SKY_KV_K, x), SKY_E_PARAM);
    x[0] = 0;
    assert_int_equal(sky_profile_set_mean(p, 0, SKY_KV_K, x), SKY_OK);
    assert_int_equal(sky_profile_set_pairs(p, 0, SKY_KV_V, x), SKY_E_PARAM); /* no inverse */
    assert_int_equal(sky_profile_set_step(p, 0, SKY_KV_K, SKY_LEVEL_4, true, 0), SKY_E_PARAM);
    assert_int_equal(sky_profile_set_step(p, 0, SKY_KV_K, SKY_LEVEL_LOSSLESS, true, 1),
                     SKY_E_PARAM);
    assert_int_equal(sky_profile_fit(p, 0, SKY_KV_K, x, 1, 64), SKY_E_PARAM);
    sky_stream_shape stream = {0, SKY_KV_K, SKY_ELEMENT_F32, 1, 1, 4, 0};
    uint8_t dst[256];
    size_t bytes;
    void *work = fixture_work();
    sky_encode_options how = {.level = SKY_LEVEL_4};
    assert_int_equal(
        sky_encode(p, &stream, &how, sky_stream_packed(&stream, x), dst, sizeof dst, &bytes, work),
        SKY_E_PARAM); /* not sealed */
    free(work);
    sky_profile_destroy(p);

    layer.rope = 0;
    assert_int_equal(sky_profile_create(&shape, &p), SKY_E_PARAM); /* no such rope */
    sky_rope rope;
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 6, 10000, 1, NULL), SKY_OK);
    shape.rope_count = 1;
    shape.ropes = &rope;
    assert_int_equal(sky_profile_create(&shape, &p), SKY_E_PARAM); /* turns more than there is */
    layer = (sky_profile_layer){1, 513, 6, SKY_ROPE_OF_NONE};
    assert_int_equal(sky_profile_create(&shape, &p), SKY_E_PARAM);
    sky_profile_destroy(NULL);
}

/* An invertible matrix and its inverse, both triangular; `scale` stretches it. */
static void make_inverses(float scale, float f[16], float g[16]) {
    memset(f, 0, 16 * sizeof *f);
    memset(g, 0, 16 * sizeof *g);
    for (size_t i = 0; i < 4; i++) {
        g[5 * i] = scale;
        f[5 * i] = 1 / scale;
        if (i < 3)
            g[5 * i + 1] = scale / 3;
        for (size_t j = i + 1; j < 4; j++)
            f[4 * i + j] = -f[4 * i + j - 1] / 3;
    }
}

static void matrices_are_taken_where_one_is_the_inverse_of_the_other(void **state) {
    (void)state;
    sky_profile_layer layer = {1, 4, 4, SKY_ROPE_OF_NONE};
    sky_profile_shape shape = {.layer_count = 1, .layers = &layer};
    sky_profile *p;
    float f[16], g[16];
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    for (float scale = 1e-12f; scale < 1e13f; scale *= 7) {
        make_inverses(scale, f, g);
        assert_int_equal(sky_profile_set_klt(p, 0, SKY_KV_K, f, g), SKY_OK);
        f[6] *= 1.001f; /* more than rounding */
        assert_int_equal(sky_profile_set_klt(p, 0, SKY_KV_K, f, g), SKY_E_PARAM);
    }
    make_inverses(2, f, g);
    assert_int_equal(sky_profile_set_klt(p, 0, SKY_KV_K, g, g), SKY_E_PARAM);
    memset(f, 0, sizeof f);
    assert_int_equal(sky_profile_set_klt(p, 0, SKY_KV_K, f, f), SKY_E_PARAM);
    sky_profile_destroy(p);
}

static void a_stream_that_is_none_has_no_step_and_is_not_fitted(void **state) {
    (void)state;
    sky_profile_layer layer = {1, 4, 4, SKY_ROPE_OF_NONE};
    sky_profile_shape shape = {.layer_count = 1, .layers = &layer};
    sky_profile *p;
    float x[64] = {0};
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    for (uint32_t kv = 2; kv < 300; kv += 149) {
        assert_int_equal(sky_profile_set_step(p, 0, (sky_kv)kv, SKY_LEVEL_4, true, 1), SKY_E_PARAM);
        assert_int_equal(sky_profile_fit(p, 0, (sky_kv)kv, x, 16, 8), SKY_E_PARAM);
        assert_true(sky_profile_step(p, 0, (sky_kv)kv, SKY_LEVEL_4, true) == 0);
    }
    sky_profile_destroy(p);
}

static void what_is_read_is_what_was_written(void **state) {
    (void)state;
    written_and_read(make());
    written_and_read(rounded(make()));
}

/* One head of four channels, its mean and matrices as given. */
static sky_profile *make_numbers(const float mean[4], const float pairs[8]) {
    sky_profile_layer layer = {1, 4, 4, SKY_ROPE_OF_NONE};
    sky_profile_shape shape = {.layer_count = 1, .layers = &layer};
    sky_profile *p;
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    assert_int_equal(sky_profile_set_mean(p, 0, SKY_KV_K, mean), SKY_OK);
    assert_int_equal(sky_profile_set_pairs(p, 0, SKY_KV_K, pairs), SKY_OK);
    assert_int_equal(sky_profile_set_step(p, 0, SKY_KV_K, SKY_LEVEL_4, true, 0.1f), SKY_OK);
    float rows[16 * 4];
    for (uint32_t i = 0; i < 16 * 4; i++)
        rows[i] = (float)(i * 7 % 16) * (float)(1 + i % 4);
    assert_int_equal(sky_profile_fit(p, 0, SKY_KV_K, rows, 16, 16), SKY_OK);
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    return p;
}

static const float plain_mean[4] = {0.1f, -3.14159265f, 0, 1000.3f};
static const float plain_pairs[8] = {0.1f, 0.3f, -0.7f, 1.1f, 1.7f, 1e-9f, 0.01f, 0.9f};

static void a_rounded_profile_has_the_f16s_of_the_other(void **state) {
    (void)state;
    sky_profile *p = make_numbers(plain_mean, plain_pairs), *q, *again;
    assert_int_equal(sky_profile_round(p, &q), SKY_OK);
    const sky_profile_stream *a = sky__profile_stream(p, 0, SKY_KV_K),
                             *b = sky__profile_stream(q, 0, SKY_KV_K);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(b->mean[i] == sky_float_of_f16(sky_f16_of_float(plain_mean[i])));
        assert_true(a->mean[i] == plain_mean[i]);
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_true(b->g[i] == sky_float_of_f16(sky_f16_of_float(a->g[i])));
    for (uint32_t i = 0; i < 2; i++) { /* f is the inverse of what is used */
        float one = b->f[i] * b->g[i] + b->f[2 + i] * b->g[4 + i];
        assert_true(fabsf(one - 1) < 1e-6f);
    }
    assert_memory_equal(a->order[0], b->order[0], 8);
    /* the layers' order is new; mean, matrices and the full matrix' order keys are shorter */
    assert_int_equal(sky_profile_bytes(q), sky_profile_bytes(p) + 4 - 2 * 4 - 2 * 8 - 2 * 4);
    assert_true(sky_profile_id(p) != sky_profile_id(q));
    /* What is f16 already stays, and is called what the same numbers in four bytes are called. */
    assert_int_equal(sky_profile_round(q, &again), SKY_OK);
    assert_true(sky_profile_id(again) == sky_profile_id(q));
    float pairs[8];
    for (uint32_t i = 0; i < 8; i++)
        pairs[i] = b->g[i % 4 * 2 + i / 4];
    sky_profile *whole = make_numbers(b->mean, pairs);
    assert_true(sky_profile_id(whole) == sky_profile_id(q));
    sky_profile_destroy(whole);
    sky_profile_destroy(again);
    sky_profile_destroy(q);
    sky_profile_destroy(p);
}

static uint32_t short_parts(const float mean[4], const float pairs[8]) {
    sky_profile *p = rounded(make_numbers(mean, pairs));
    uint32_t parts = sky__profile_stream(p, 0, SKY_KV_K)->short_parts;
    const float *kept = sky__profile_stream(p, 0, SKY_KV_K)->mean;
    assert_int_equal(memcmp(kept, mean, 4 * sizeof *mean) != 0, (parts & SKY_SHORT_MEAN) != 0);
    sky_profile_destroy(p);
    assert_true(parts & SKY_SHORT_ORDER);
    return parts & ~(uint32_t)SKY_SHORT_ORDER;
}

static void what_f16_cannot_hold_stays_f32(void **state) {
    (void)state;
    static const float large[4] = {0.1f, 65520, 0, 0}, small[4] = {1e-5f, 1e-6f, 0, 0};
    float pairs[8];
    assert_int_equal(short_parts(plain_mean, plain_pairs), SKY_SHORT_MEAN | SKY_SHORT_PAIRS);
    assert_int_equal(short_parts(large, plain_pairs), SKY_SHORT_PAIRS);
    assert_int_equal(short_parts(small, plain_pairs), SKY_SHORT_PAIRS);
    for (uint32_t i = 0; i < 8; i++)
        pairs[i] = plain_pairs[i] * (i < 4 ? 1 : 1e-6f); /* the second matrix alone is small */
    assert_int_equal(short_parts(plain_mean, pairs), SKY_SHORT_MEAN);
    memcpy(pairs, plain_pairs, sizeof pairs);
    pairs[0] = pairs[1] = pairs[2] = 1;
    pairs[3] = 1.0001f; /* an inverse, but not when it is rounded */
    assert_int_equal(short_parts(plain_mean, pairs), SKY_SHORT_MEAN);
    sky_profile *p = make(), *q;
    p->sealed = false;
    assert_int_equal(sky_profile_round(p, &q), SKY_E_PARAM);
    assert_int_equal(sky_profile_round(NULL, &q), SKY_E_PARAM);
    sky_profile_destroy(p);
}

static void numbers_in_two_bytes_are_finite_and_of_a_later_version(void **state) {
    (void)state;
    static const uint16_t bad_numbers[] = {0x7c00, 0xfc00, 0x7e00};
    sky_profile *p = rounded(make_numbers(plain_mean, plain_pairs)), *q;
    size_t bytes, flags_at = 48 + 16, mean_at = flags_at + 4 + 14 * 4;
    uint8_t *data = write(p, &bytes);
    assert_int_equal(sky_load_u32(data + 4), 3);
    assert_int_equal(sky_load_u32(data + flags_at) & 0xffff, 1 + 2 + 8 + 16 + 32 + 64 + 128);
    size_t v_flags_at = bytes - 8 - 4 - 14 * 4 - 4; /* of values, which have nothing */
    assert_int_equal(sky_load_u32(data + v_flags_at), 0);
    for (uint32_t part = 32; part < 256; part *= 2) { /* what is short is there */
        sky_store_u32(data + v_flags_at, part);
        resign(data, bytes);
        assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_E_CORRUPT);
    }
    sky_store_u32(data + v_flags_at, 0);
    assert_int_equal(sky_load_u16(data + mean_at), sky_f16_of_float(plain_mean[0]));
    for (uint32_t i = 0; i < 3; i++) {
        sky_store_u16(data + mean_at, bad_numbers[i]);
        resign(data, bytes);
        assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_E_CORRUPT);
    }
    sky_store_u16(data + mean_at, 0);
    for (uint32_t version = 1; version < 3; version++) {
        sky_store_u32(data + 4, version);
        resign(data, bytes);
        assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_E_CORRUPT);
    }
    sky_error error;
    sky_store_u32(data + 4, 5);
    assert_int_equal(sky_profile_read(data, bytes, &q, &error), SKY_E_UNSUPPORTED);
    assert_string_equal(error.text, "calibration of version 5; this program reads 1 to 4");
    free(data);
    sky_profile_destroy(p);
}

/* Weights are whole numbers of one unit, and make a file of version 4, rounded or not. */
static void weights_of_tokens_are_kept(void **state) {
    (void)state;
    sky_profile *open, *q, *again;
    float weights[16] = {0.5f, -1.27f, 0.011f}, bad[16] = {NAN};
    size_t bytes, size;
    sky_profile_layer layer = {2, 8, 8, SKY_ROPE_OF_NONE};
    sky_profile_shape shape = {1, &layer, 0, NULL, {0}};
    assert_int_equal(sky_profile_create(&shape, &open), SKY_OK);
    assert_int_equal(sky_profile_set_weights(open, 0, SKY_KV_V, bad), SKY_E_PARAM);
    assert_int_equal(sky_profile_set_weights(open, 1, SKY_KV_V, weights), SKY_E_PARAM);
    assert_int_equal(sky_profile_set_weights(open, 0, SKY_KV_V, weights), SKY_OK);
    assert_int_equal(sky_profile_seal(open), SKY_OK);
    assert_int_equal(sky_profile_round(open, &q), SKY_OK);
    uint8_t *data = write(q, &bytes);
    assert_int_equal(sky_load_u32(data + 4), 4);
    assert_int_equal(sky_profile_read(data, bytes, &again, NULL), SKY_OK);
    assert_int_equal(again->id, q->id);
    assert_int_equal(again->streams[1].weights[0], 50);
    assert_int_equal(again->streams[1].weights[1], -127);
    assert_int_equal(again->streams[1].weights[2], 1);
    assert_null(again->streams[0].weights);
    for (uint32_t version = 1; version < 4; version++) { /* which have no weights */
        sky_store_u32(data + 4, version);
        resign(data, bytes);
        sky_profile *none;
        assert_int_equal(sky_profile_read(data, bytes, &none, NULL), SKY_E_CORRUPT);
    }
    free(data);
    data = write(open, &size);
    assert_int_equal(sky_load_u32(data + 4), 4);
    free(data);
    sky_profile_destroy(open);
    sky_profile_destroy(q);
    sky_profile_destroy(again);
}

/* As every profile is that was read. */
static void what_is_sealed_stays_as_it_is(void **state) {
    (void)state;
    size_t bytes, again_bytes;
    sky_profile *p = make(), *q;
    uint8_t *data = write(p, &bytes);
    float x[2 * 17 * 17] = {0};
    sky_profile *both[2] = {p};
    assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_OK);
    both[1] = q;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sky_profile_set_mean(both[i], 0, SKY_KV_K, x), SKY_E_PARAM);
        assert_int_equal(sky_profile_set_pairs(both[i], 0, SKY_KV_K, x), SKY_E_PARAM);
        assert_int_equal(sky_profile_set_klt(both[i], 0, SKY_KV_K, x, x), SKY_E_PARAM);
        assert_int_equal(sky_profile_set_step(both[i], 0, SKY_KV_K, SKY_LEVEL_4, true, 1),
                         SKY_E_PARAM);
        assert_int_equal(sky_profile_fit(both[i], 0, SKY_KV_K, x, 16, 8), SKY_E_PARAM);
        assert_int_equal(sky_profile_seal(both[i]), SKY_OK);
        uint8_t *again = write(both[i], &again_bytes);
        assert_int_equal(bytes, again_bytes);
        assert_memory_equal(data, again, bytes);
        free(again);
        sky_profile_destroy(both[i]);
    }
    free(data);
}

/* Three layers of V with means of their own, which the model has in the order 2, 0, 1. */
static sky_profile *make_ordered(const uint32_t *order) {
    sky_profile_layer layers[3] = {
        {2, 8, 8, SKY_ROPE_OF_NONE}, {2, 8, 8, SKY_ROPE_OF_NONE}, {2, 8, 8, SKY_ROPE_OF_NONE}};
    sky_profile_shape shape = {.layer_count = 3, .layers = layers};
    sky_profile *p;
    assert_int_equal(sky_profile_create(&shape, &p), SKY_OK);
    for (uint32_t layer = 0; layer < 3; layer++) {
        float mean[16];
        for (uint32_t i = 0; i < 16; i++)
            mean[i] = i % 3 == layer ? 1 : -1;
        assert_int_equal(sky_profile_set_mean(p, layer, SKY_KV_V, mean), SKY_OK);
    }
    if (order)
        assert_int_equal(sky_profile_set_order(p, order), SKY_OK);
    assert_int_equal(sky_profile_seal(p), SKY_OK);
    return p;
}

static void the_order_of_layers_is_kept_and_not_part_of_the_name(void **state) {
    (void)state;
    static const uint32_t order[] = {2, 0, 1}, twice[] = {2, 0, 2}, beyond[] = {0, 1, 3};
    sky_profile *plain = make_ordered(NULL), *p = make_ordered(order), *q;
    assert_int_equal(sky_profile_id(plain), sky_profile_id(p));
    size_t bytes;
    uint8_t *data = write(p, &bytes);
    assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_OK);
    assert_int_equal(sky_profile_id(p), sky_profile_id(q));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sky_profile_model_layer(plain, i), i);
        assert_int_equal(sky_profile_model_layer(q, i), order[i]);
        assert_int_equal(sky_profile_layer_of(q, order[i]), i);
    }
    assert_int_equal(sky_profile_model_layer(q, 3), SKY_LAYER_NONE);
    assert_int_equal(sky_profile_layer_of(q, 3), SKY_LAYER_NONE);
    assert_int_equal(sky_profile_set_order(p, order), SKY_E_PARAM); /* sealed */
    sky_profile_destroy(q);
    sky_profile *open;
    sky_profile_layer layer = {1, 4, 4, SKY_ROPE_OF_NONE}, layers[3] = {layer, layer, layer};
    sky_profile_shape shape = {.layer_count = 3, .layers = layers};
    assert_int_equal(sky_profile_create(&shape, &open), SKY_OK);
    assert_int_equal(sky_profile_set_order(open, twice), SKY_E_PARAM);
    assert_int_equal(sky_profile_set_order(open, beyond), SKY_E_PARAM);
    sky_profile_destroy(open);
    sky_store_u32(data + bytes - 12, 2); /* no order: a layer twice, and the checksum holds */
    resign(data, bytes);
    assert_int_equal(sky_profile_read(data, bytes, &q, NULL), SKY_E_CORRUPT);
    free(data);
    sky_profile_destroy(plain);
    sky_profile_destroy(p);
}

static void rows_are_matched_to_the_layer_they_come_from(void **state) {
    (void)state;
    sky_profile *p = make_ordered(NULL);
    float rows[4][16];
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t i = 0; i < 16; i++)
            rows[t][i] = (i % 3 == 1 ? 1.0f : -1.0f) + (t % 2 ? 0.5f : -0.5f);
    sky_stream_shape shape = {2, SKY_KV_V, SKY_ELEMENT_F32, 4, 2, 8, 0};
    sky_tensor in = sky_stream_packed(&shape, rows);
    sky_profile_match match;
    assert_int_equal(sky_profile_match_rows(p, &shape, in, &match), SKY_OK);
    assert_int_equal(match.layer, 1);
    assert_true(match.distance < 1e-9 && match.own_distance > 10);
    shape.layer = 1;
    assert_int_equal(sky_profile_match_rows(p, &shape, in, &match), SKY_OK);
    assert_true(match.own_distance == match.distance);
    shape.kv = SKY_KV_K;
    assert_int_equal(sky_profile_match_rows(p, &shape, in, &match), SKY_E_PARAM);
    shape = (sky_stream_shape){0, SKY_KV_V, SKY_ELEMENT_F32, 4, 1, 8, 0};
    in = sky_stream_packed(&shape, rows);
    assert_int_equal(sky_profile_match_rows(p, &shape, in, &match), SKY_OK);
    assert_int_equal(match.layer, SKY_LAYER_NONE); /* of another shape */
    shape.kv_heads = 2;
    rows[2][3] = NAN;
    in = sky_stream_packed(&shape, rows);
    assert_int_equal(sky_profile_match_rows(p, &shape, in, &match), SKY_OK);
    assert_int_equal(match.layer, SKY_LAYER_NONE); /* of no numbers */
    assert_true(match.distance == INFINITY && match.own_distance == INFINITY);
    sky_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(every_flip_and_cut_is_refused),
        cmocka_unit_test(setters_refuse_what_no_coder_could_use),
        cmocka_unit_test(matrices_are_taken_where_one_is_the_inverse_of_the_other),
        cmocka_unit_test(the_order_of_layers_is_kept_and_not_part_of_the_name),
        cmocka_unit_test(rows_are_matched_to_the_layer_they_come_from),
        cmocka_unit_test(a_rounded_profile_has_the_f16s_of_the_other),
        cmocka_unit_test(what_f16_cannot_hold_stays_f32),
        cmocka_unit_test(numbers_in_two_bytes_are_finite_and_of_a_later_version),
        cmocka_unit_test(weights_of_tokens_are_kept),
        cmocka_unit_test(what_is_sealed_stays_as_it_is),
        cmocka_unit_test(a_stream_that_is_none_has_no_step_and_is_not_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
