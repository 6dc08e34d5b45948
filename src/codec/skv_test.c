/* Proves: a container gives back each stream by itself, levels mixed, streams left out; its header
 * is what docs/formats/skv.md says; any byte flipped, cut or added is refused, and so is a
 * stream that is another's, or neither K nor V; lowering equals encoding what was decoded,
 * and copies what is low enough. */
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
#include "codec/skv.h"

#define LAYERS 3
static const sky_skv_layer layers[LAYERS] = {
    {2, 32, 16, SKY_ELEMENT_F16, SKY_ELEMENT_BF16},
    {1, 40, 8, SKY_ELEMENT_F32, SKY_ELEMENT_F16},
    {3, 16, 16, SKY_ELEMENT_BF16, SKY_ELEMENT_F32},
};
static const sky_level levels[2 * LAYERS] = {
    SKY_LEVEL_8, SKY_LEVEL_LOSSLESS, SKY_LEVEL_4, SKY_LEVEL_COUNT, SKY_LEVEL_2, SKY_LEVEL_ARCHIVE};

static sky_skv_shape shape_of_all(void) {
    return (sky_skv_shape){12, 24, LAYERS, layers, {1, 2, 3}};
}

static sky_stream_shape stream_shape(uint32_t i) {
    const sky_skv_layer *l = &layers[i / 2];
    return (sky_stream_shape){i / 2, (sky_kv)(i & 1), i & 1 ? l->v_element : l->k_element,
                              12,    l->kv_heads,     i & 1 ? l->v_dim : l->k_dim,
                              24};
}

static uint8_t *make(size_t *bytes) {
    sky_skv_shape shape = shape_of_all();
    size_t bound = sky_skv_bound(&shape);
    uint8_t *dst = malloc(bound);
    void *work = fixture_work();
    sky_skv_writer w;
    memset(dst, 0xee, bound);
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, dst, bound), SKY_OK);
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        if (levels[i] == SKY_LEVEL_COUNT)
            continue; /* left out */
        sky_stream_shape s = stream_shape(i);
        void *in = fixture_elements(i, &s, NULL);
        sky_encode_options how = {.level = levels[i]};
        assert_int_equal(
            sky_skv_put(&w, i / 2, (sky_kv)(i & 1), &how, sky_stream_packed(&s, in), work), SKY_OK);
        assert_int_equal(
            sky_skv_put(&w, i / 2, (sky_kv)(i & 1), &how, sky_stream_packed(&s, in), work),
            SKY_E_PARAM);
        free(in);
    }
    assert_int_equal(sky_skv_end(&w, bytes), SKY_OK);
    assert_true(*bytes <= bound);
    free(work);
    return dst;
}

static void every_stream_decodes_alone(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *data = make(&bytes);
    void *memory = fixture_work();
    sky_skv skv;
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    assert_int_equal(skv.layer_count, LAYERS);
    assert_int_equal(skv.token_count, 12);
    assert_int_equal(skv.first_position, 24);
    assert_int_equal(skv.fingerprint[2], 3);
    assert_int_equal(sky_skv_verify(&skv), SKY_OK);
    uint64_t at = skv.header_bytes;
    for (uint32_t i = 2 * LAYERS; i-- > 0;) { /* backwards: none needs another */
        sky_skv_entry e;
        sky_stream_shape s, expected = stream_shape(i);
        assert_int_equal(sky_skv_entry_at(&skv, i / 2, (sky_kv)(i & 1), &e), SKY_OK);
        assert_int_equal(sky_skv_stream_shape(&skv, i / 2, (sky_kv)(i & 1), &s), SKY_OK);
        assert_memory_equal(&s, &expected, sizeof s);
        uint8_t *out = malloc(fixture_bytes(&s)), *again = malloc(fixture_bytes(&s));
        sky_status status = sky_skv_decode(&skv, NULL, i / 2, (sky_kv)(i & 1),
                                           sky_stream_packed(&s, out), memory);
        assert_int_equal(status, levels[i] == SKY_LEVEL_COUNT ? SKY_MISS : SKY_OK);
        if (status == SKY_OK) {
            assert_int_equal(e.level, levels[i]);
            assert_int_equal(sky_decode(NULL, &s, data + e.offset, e.bytes,
                                        sky_stream_packed(&s, again), memory),
                             SKY_OK);
            assert_memory_equal(out, again, fixture_bytes(&s));
        }
        at += e.bytes;
        free(out);
        free(again);
    }
    assert_int_equal(at, bytes);
    free(memory);
    free(data);
}

static void the_header_alone_tells_the_ranges(void **state) {
    (void)state;
    size_t bytes, need = 0;
    uint8_t *data = make(&bytes);
    sky_skv skv;
    assert_int_equal(sky_skv_open_header(data, 10, bytes, &skv, &need), SKY_PENDING);
    assert_int_equal(need, 64);
    assert_int_equal(sky_skv_open_header(data, 64, bytes, &skv, &need), SKY_PENDING);
    uint8_t *head = malloc(need);
    memcpy(head, data, need);
    assert_int_equal(sky_skv_open_header(head, need, bytes, &skv, &need), SKY_OK);
    sky_skv_entry e;
    assert_int_equal(sky_skv_entry_at(&skv, 1, SKY_KV_K, &e), SKY_OK);
    assert_int_equal(sky_skv_stream_check(&skv, 1, SKY_KV_K, data + e.offset, (size_t)e.bytes),
                     SKY_OK);
    assert_int_equal(sky_skv_stream_check(&skv, 0, SKY_KV_K, data + e.offset, (size_t)e.bytes),
                     SKY_E_CORRUPT);
    assert_int_equal(sky_skv_verify(&skv), SKY_E_PARAM); /* the streams are not here */
    free(head);
    free(data);
}

static sky_status open_and_verify(const uint8_t *data, size_t bytes) {
    uint8_t *exact = malloc(bytes + 1);
    memcpy(exact + 1, data, bytes);
    sky_skv skv;
    sky_status status = sky_skv_open(exact + 1, bytes, &skv);
    if (status == SKY_OK)
        status = sky_skv_verify(&skv);
    free(exact);
    return status;
}

static void every_flip_and_cut_is_refused(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *data = make(&bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit += bit < 8 * 400 ? 1 : 5) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        sky_status status = open_and_verify(data, bytes);
        assert_true(status == SKY_E_CORRUPT || (status == SKY_E_UNSUPPORTED && bit / 8 <= 5));
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal(open_and_verify(data, cut), SKY_E_CORRUPT);
    uint8_t *longer = calloc(1, bytes + 1);
    memcpy(longer, data, bytes);
    assert_int_equal(open_and_verify(longer, bytes + 1), SKY_E_CORRUPT);
    assert_int_equal(open_and_verify(data, bytes), SKY_OK);
    free(longer);
    free(data);
}

/* Write `stream` as what (0, K) holds, and put all checksums right. */
static void forge(uint8_t *data, const uint8_t *stream, size_t bytes) {
    size_t header = sky_skv_size_of_header(LAYERS), entry = sky_skv_entry_offset(LAYERS, 0);
    memcpy(data + header, stream, bytes);
    sky_store_u64(data + entry + 16, sky__skv_checksum(data + header, bytes, 0, 24));
    sky_store_u64(data + header - 8, sky_checksum(data, header - 8, 0));
}

/* Checksums alone do not make a stream the one that is meant: every field of its header must be. */
static void a_stream_of_another_place_or_shape_is_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t at, flip;
    } fields[] = {{1, 1}, {3, 1}, {3, 16}, {4, 1}, {6, 1}, {8, 2}, {12, 4}, {16, 1}};
    size_t bytes;
    uint8_t *data = make(&bytes);
    sky_skv skv;
    sky_skv_entry e;
    sky_stream_shape s;
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    sky_skv_entry_at(&skv, 0, SKY_KV_K, &e);
    sky_skv_stream_shape(&skv, 0, SKY_KV_K, &s);
    uint8_t *stream = malloc((size_t)e.bytes), *rows = malloc(fixture_bytes(&s));
    void *memory = fixture_work();
    memcpy(stream, data + e.offset, (size_t)e.bytes);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        stream[fields[i].at] ^= (uint8_t)fields[i].flip;
        forge(data, stream, (size_t)e.bytes);
        assert_int_equal(open_and_verify(data, bytes), SKY_E_CORRUPT);
        assert_true(sky_skv_decode(&skv, NULL, 0, SKY_KV_K, sky_stream_packed(&s, rows), memory) <
                    0);
        stream[fields[i].at] ^= (uint8_t)fields[i].flip;
    }
    forge(data, stream, (size_t)e.bytes);
    assert_int_equal(open_and_verify(data, bytes), SKY_OK);
    free(memory);
    free(rows);
    free(stream);
    free(data);
}

static void only_streams_of_the_place_are_put(void **state) {
    (void)state;
    size_t bytes, again_bytes;
    uint8_t *data = make(&bytes), *again = malloc(bytes);
    sky_skv_shape shape = shape_of_all();
    sky_skv skv;
    sky_skv_entry e;
    sky_skv_writer w;
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    sky_skv_entry_at(&skv, 0, SKY_KV_K, &e);
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, again, bytes), SKY_OK);
    for (uint32_t i = 1; i < 2 * LAYERS; i++)
        assert_int_equal(
            sky_skv_put_stream(&w, i / 2, (sky_kv)(i & 1), data + e.offset, (size_t)e.bytes),
            SKY_E_CORRUPT);
    assert_int_equal(sky_skv_put_stream(&w, LAYERS, SKY_KV_K, data + e.offset, (size_t)e.bytes),
                     SKY_E_PARAM);
    for (uint32_t i = 0; i < 2 * LAYERS; i++) { /* those that were refused passed nothing over */
        sky_skv_entry_at(&skv, i / 2, (sky_kv)(i & 1), &e);
        if (e.bytes)
            assert_int_equal(
                sky_skv_put_stream(&w, i / 2, (sky_kv)(i & 1), data + e.offset, (size_t)e.bytes),
                SKY_OK);
    }
    assert_int_equal(sky_skv_end(&w, &again_bytes), SKY_OK);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, data, bytes);
    free(again);
    free(data);
}

/* A kv that is neither K nor V would be another layer's place, or none. */
static void what_is_neither_k_nor_v_is_refused(void **state) {
    (void)state;
    static const sky_kv none[] = {(sky_kv)2, (sky_kv)5, (sky_kv)40, (sky_kv)200, (sky_kv)-1};
    size_t bytes, again_bytes;
    uint8_t *data = make(&bytes), *again = malloc(bytes);
    sky_skv_shape shape = shape_of_all();
    sky_skv skv;
    sky_skv_entry e;
    sky_stream_shape s;
    sky_skv_writer w;
    void *work = fixture_work();
    uint8_t rows[4096] = {0}; /* enough for any stream here */
    const sky_tensor src = {.data = rows};
    const sky_encode_options how = {.level = SKY_LEVEL_4};
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, again, bytes), SKY_OK);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            const uint8_t *stream = data + skv.header_bytes;
            assert_int_equal(sky_skv_put(&w, layer, none[i], &how, src, work), SKY_E_PARAM);
            assert_int_equal(sky_skv_put_stream(&w, layer, none[i], stream, 24), SKY_E_PARAM);
            assert_int_equal(sky_skv_entry_at(&skv, layer, none[i], &e), SKY_E_PARAM);
            assert_int_equal(sky_skv_stream_shape(&skv, layer, none[i], &s), SKY_E_PARAM);
            assert_int_equal(sky_skv_stream_check(&skv, layer, none[i], stream, 24), SKY_E_PARAM);
            assert_int_equal(sky_skv_decode(&skv, NULL, layer, none[i], src, work), SKY_E_PARAM);
        }
    assert_int_equal(sky_skv_end(&w, &again_bytes), SKY_OK); /* and nothing was written */
    assert_int_equal(again_bytes, skv.header_bytes);
    assert_int_equal(open_and_verify(again, again_bytes), SKY_OK);
    free(work);
    free(again);
    free(data);
}

static void lowering_is_decoding_and_encoding(void **state) {
    (void)state;
    size_t bytes, lower_bytes;
    uint8_t *data = make(&bytes);
    sky_skv_shape shape = shape_of_all();
    sky_skv skv, low;
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    uint8_t *dst = malloc(sky_skv_bound(&shape));
    void *memory = aligned_alloc(64, (sky_skv_lower_bytes(&skv) + 63) / 64 * 64);
    sky_encode_options how = {.level = SKY_LEVEL_3};
    assert_int_equal(
        sky_skv_lower(&skv, NULL, &how, dst, sky_skv_bound(&shape), &lower_bytes, memory), SKY_OK);
    assert_int_equal(sky_skv_open(dst, lower_bytes, &low), SKY_OK);
    assert_int_equal(sky_skv_verify(&low), SKY_OK);
    assert_true(lower_bytes < bytes);
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        sky_skv_entry from, to;
        sky_stream_shape s = stream_shape(i);
        sky_skv_entry_at(&skv, i / 2, (sky_kv)(i & 1), &from);
        sky_skv_entry_at(&low, i / 2, (sky_kv)(i & 1), &to);
        assert_int_equal(from.bytes == 0, to.bytes == 0);
        if (from.bytes == 0)
            continue;
        assert_int_equal(to.level, from.level > SKY_LEVEL_3 ? from.level : SKY_LEVEL_3);
        if (from.level > SKY_LEVEL_3) {
            assert_memory_equal(data + from.offset, dst + to.offset, (size_t)to.bytes);
            continue;
        }
        void *rows = malloc(fixture_bytes(&s));
        size_t again_bytes;
        sky_skv_decode(&skv, NULL, i / 2, (sky_kv)(i & 1), sky_stream_packed(&s, rows), memory);
        uint8_t *again = fixture_encode(NULL, &s, &how, rows, &again_bytes);
        assert_int_equal(again_bytes, to.bytes);
        assert_memory_equal(again, dst + to.offset, again_bytes);
        free(again);
        free(rows);
    }
    free(memory);
    free(dst);
    free(data);
}

/* Only what is coded anew needs the profile it was made with. */
static void what_is_low_enough_is_copied_without_its_profile(void **state) {
    (void)state;
    static const sky_skv_layer layer = {2, 17, 17, SKY_ELEMENT_F16, SKY_ELEMENT_F16};
    const sky_skv_shape shape = {31, 5, 1, &layer, {9}};
    const sky_stream_shape k = {0, SKY_KV_K, SKY_ELEMENT_F16, 31, 2, 17, 5};
    size_t bound = sky_skv_bound(&shape), bytes, again_bytes;
    uint8_t *data = malloc(bound), *again = malloc(bound);
    void *in = fixture_elements(1, &k, NULL), *work = fixture_work();
    sky_profile *profile = fixture_profile(&k, SKY_ROPE_NONE, false);
    sky_encode_options how = {.level = SKY_LEVEL_4};
    sky_skv_writer w;
    sky_skv skv;
    assert_int_equal(sky_skv_begin(&w, &shape, profile, data, bound), SKY_OK);
    assert_int_equal(sky_skv_put(&w, 0, SKY_KV_K, &how, sky_stream_packed(&k, in), work), SKY_OK);
    assert_int_equal(sky_skv_end(&w, &bytes), SKY_OK);
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    assert_int_equal(skv.profile_id, sky_profile_id(profile));
    void *memory = aligned_alloc(64, (sky_skv_lower_bytes(&skv) + 63) / 64 * 64);
    assert_int_equal(sky_skv_lower_bound(&skv, SKY_LEVEL_4), bytes);
    assert_int_equal(sky_skv_lower(&skv, NULL, &how, again, bytes - 1, &again_bytes, memory),
                     SKY_E_DST_SMALL);
    assert_int_equal(sky_skv_lower(&skv, NULL, &how, again, bytes, &again_bytes, memory), SKY_OK);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, data, bytes);
    how.level = SKY_LEVEL_3;
    bound = sky_skv_lower_bound(&skv, SKY_LEVEL_3);
    assert_int_equal(bound, skv.header_bytes + sky_encode_bound(&k)); /* V is not there */
    assert_int_equal(sky_skv_lower(&skv, NULL, &how, again, bound, &again_bytes, memory),
                     SKY_E_PARAM);
    assert_int_equal(sky_skv_lower(&skv, profile, &how, again, bound, &again_bytes, memory),
                     SKY_OK);
    assert_true(again_bytes < bytes);
    how.level = SKY_LEVEL_4;
    data[bytes - 1] ^= 1;
    assert_int_equal(sky_skv_lower(&skv, NULL, &how, again, bytes, &again_bytes, memory),
                     SKY_E_CORRUPT);
    sky_profile_destroy(profile);
    free(memory);
    free(work);
    free(in);
    free(again);
    free(data);
}

/* A directory of nothing is a small file, whatever the shapes in it. */
static void what_is_not_there_needs_no_room(void **state) {
    (void)state;
    static const sky_skv_layer layer = {128, 512, 512, SKY_ELEMENT_F32, SKY_ELEMENT_F32};
    const sky_skv_shape shape = {512, 0, 1, &layer, {0}};
    uint8_t data[256];
    size_t bytes;
    sky_skv_writer w;
    sky_skv skv;
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, data, sizeof data), SKY_OK);
    assert_int_equal(sky_skv_end(&w, &bytes), SKY_OK);
    assert_int_equal(sky_skv_open(data, bytes, &skv), SKY_OK);
    assert_int_equal(sky_skv_lower_bound(&skv, SKY_LEVEL_2), bytes);
    assert_true(sky_skv_lower_bytes(&skv) <= SKY_DECODER_BYTES + 64);
}

static void shapes_that_mean_nothing_are_refused(void **state) {
    (void)state;
    sky_skv_shape shape = shape_of_all();
    uint8_t dst[64];
    sky_skv_writer w;
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, dst, sizeof dst), SKY_E_DST_SMALL);
    shape.token_count = 0;
    assert_int_equal(sky_skv_bound(&shape), 0);
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, dst, sizeof dst), SKY_E_PARAM);
    shape = shape_of_all();
    shape.layer_count = 0;
    assert_int_equal(sky_skv_header_bytes(&shape), 0);
    sky_skv_layer odd = layers[0];
    odd.v_dim = 513;
    shape = (sky_skv_shape){12, 24, 1, &odd, {0}};
    assert_int_equal(sky_skv_begin(&w, &shape, NULL, dst, sizeof dst), SKY_E_PARAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stream_decodes_alone),
        cmocka_unit_test(the_header_alone_tells_the_ranges),
        cmocka_unit_test(every_flip_and_cut_is_refused),
        cmocka_unit_test(a_stream_of_another_place_or_shape_is_refused),
        cmocka_unit_test(only_streams_of_the_place_are_put),
        cmocka_unit_test(what_is_neither_k_nor_v_is_refused),
        cmocka_unit_test(lowering_is_decoding_and_encoding),
        cmocka_unit_test(what_is_low_enough_is_copied_without_its_profile),
        cmocka_unit_test(what_is_not_there_needs_no_room),
        cmocka_unit_test(shapes_that_mean_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
