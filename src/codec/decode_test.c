/* Proves: a stream decodes alike from pieces of any size, rows appear as their bytes arrive; any
 * byte flipped, cut off or added never reads or writes outside, and ends in a status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec_fixture.h"
#include "codec/profile.h"

typedef struct {
    sky_stream_shape shape;
    sky_profile *profile;
    uint8_t *stream;
    size_t bytes;
    uint8_t *whole; /* rows as decoded in one piece */
    void *memory;
} world;

static world make(sky_level level, uint32_t tokens, uint32_t heads, uint32_t dim, bool odd) {
    world w = {.shape = {0, SKY_KV_K, SKY_ELEMENT_F16, tokens, heads, dim, 300}};
    w.profile = fixture_profile(&w.shape, SKY_ROPE_NEOX, false);
    uint16_t *in = fixture_elements(8, &w.shape, sky_profile_rope(w.profile, 0));
    for (size_t i = 40; odd && i < fixture_bytes(&w.shape) / 2; i += 311)
        in[i] = i % 2 ? 0x7c00 : 0x5640; /* an infinity, or a hundred: exceptions and escapes */
    sky_encode_options how = {.level = level, .first_token_raw = tokens % 2};
    w.stream = fixture_encode(w.profile, &w.shape, &how, in, &w.bytes);
    w.whole = malloc(fixture_bytes(&w.shape));
    w.memory = fixture_work();
    assert_int_equal(sky_decode(w.profile, &w.shape, w.stream, w.bytes,
                                sky_stream_packed(&w.shape, w.whole), w.memory),
                     SKY_OK);
    free(in);
    return w;
}

static void drop(world *w) {
    sky_profile_destroy(w->profile);
    free(w->stream);
    free(w->whole);
    free(w->memory);
}

static void decode_in_pieces(const world *w, size_t piece) {
    uint8_t *out = malloc(fixture_bytes(&w->shape));
    sky_decoder *d;
    uint32_t tokens = 0;
    assert_int_equal(sky_decoder_init(w->memory, w->profile, &w->shape, w->bytes,
                                      sky_stream_packed(&w->shape, out), &d),
                     SKY_OK);
    for (size_t at = 0; at < w->bytes; at += piece) {
        size_t bytes = w->bytes - at < piece ? w->bytes - at : piece;
        uint8_t *exact = malloc(bytes); /* a read past the piece shows under a sanitizer */
        memcpy(exact, w->stream + at, bytes);
        sky_status status = sky_decoder_feed(d, exact, bytes);
        free(exact);
        assert_int_equal(status, at + bytes == w->bytes ? SKY_OK : SKY_PENDING);
        assert_true(sky_decoder_tokens(d) >= tokens);
        tokens = sky_decoder_tokens(d);
        assert_memory_equal(out, w->whole,
                            fixture_bytes(&w->shape) / w->shape.token_count * tokens);
    }
    assert_int_equal(tokens, w->shape.token_count);
    assert_memory_equal(out, w->whole, fixture_bytes(&w->shape));
    assert_int_equal(sky_decoder_feed(d, w->stream, 1), SKY_E_CORRUPT);
    free(out);
}

static void pieces_of_any_size_give_the_same_rows(void **state) {
    (void)state;
    static const size_t pieces[] = {1, 7, 63, 64, 65, 1000, 4096, 9000, 1u << 20};
    static const sky_level levels[] = {SKY_LEVEL_LOSSLESS, SKY_LEVEL_8, SKY_LEVEL_3};
    for (size_t l = 0; l < 3; l++) {
        world w = make(levels[l], 131, 3, 96, l == 2);
        for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
            decode_in_pieces(&w, pieces[i]);
        drop(&w);
    }
}

/* Other shapes, levels and lengths beside each other: one of them ends long before the other. */
static void two_at_once_are_what_each_is_alone(void **state) {
    (void)state;
    world w[] = {make(SKY_LEVEL_LOSSLESS, 131, 3, 96, false),
                 make(SKY_LEVEL_LOSSLESS, 20, 3, 96, true),
                 make(SKY_LEVEL_LOSSLESS, 64, 1, 64, false), make(SKY_LEVEL_3, 131, 3, 96, true)};
    enum { WORLDS = sizeof w / sizeof w[0] };
    void *memory = aligned_alloc(64, 2 * SKY_DECODER_BYTES);
    assert_non_null(memory);
    for (int i = 0; i < WORLDS * WORLDS; i++) {
        const world *each[2] = {&w[i / WORLDS], &w[i % WORLDS]};
        sky_stream_in in[2];
        for (int j = 0; j < 2; j++) {
            void *out = malloc(fixture_bytes(&each[j]->shape));
            assert_non_null(out);
            in[j] = (sky_stream_in){each[j]->shape, each[j]->stream, each[j]->bytes,
                                    sky_stream_packed(&each[j]->shape, out)};
        }
        if (each[0]->shape.kv_heads == each[1]->shape.kv_heads)
            assert_int_equal(sky_decode_two(each[0]->profile, in, memory), SKY_OK);
        else
            assert_int_equal(sky_decode_two(each[0]->profile, in, memory), SKY_E_PARAM);
        for (int j = 0; j < 2; j++) {
            if (j == 0 || each[0]->shape.kv_heads == each[1]->shape.kv_heads)
                assert_memory_equal(in[j].dst.data, each[j]->whole, fixture_bytes(&each[j]->shape));
            free(in[j].dst.data);
        }
    }
    for (int i = 0; i < WORLDS; i++)
        drop(&w[i]);
    free(memory);
}

/* ---- pages ---- */

#define PAGES_MAX 131

/* [page, head, token, K and V] in pages of so many tokens, mixed; token `first` is the stream's
 * first. */
static sky_tensor in_pages(const sky_stream_shape *s, uint32_t page_tokens, uint32_t first,
                           uint32_t *pages, uint8_t *data) {
    sky_tensor t = sky_stream_packed(s, data);
    t.page_count = (first + s->token_count - 1) / page_tokens + 1;
    for (uint32_t i = 0; i < t.page_count; i++)
        pages[i] = t.page_count - 1 - ((i ^ 1) < t.page_count ? i ^ 1 : i);
    t.first_token = first;
    t.token_bytes = 2 * t.head_bytes;
    t.head_bytes = page_tokens * t.token_bytes;
    t.page_tokens = page_tokens;
    t.page_bytes = t.heads * t.head_bytes;
    t.bytes = t.page_count * t.page_bytes;
    t.pages = pages;
    return t;
}

/* The stream's rows are in the pages, and what lies between is as it was. */
static void expect_in_pages(const world *w, sky_tensor *t) {
    size_t bytes = fixture_bytes(&w->shape);
    uint8_t *rows = malloc(bytes);
    assert_int_equal(sky_tensor_read(t, t->first_token, t->token_count, rows), SKY_OK);
    assert_memory_equal(rows, w->whole, bytes);
    memset(rows, 0x5a, bytes);
    assert_int_equal(sky_tensor_write(t, t->first_token, t->token_count, rows), SKY_OK);
    for (size_t i = 0; i < t->bytes; i++)
        assert_int_equal(((uint8_t *)t->data)[i], 0x5a);
    free(rows);
}

static void decode_into_pages(const world *w, uint32_t page_tokens, uint32_t first) {
    static uint8_t data[2][1 << 20];
    static uint32_t pages[2][2 * PAGES_MAX];
    static _Alignas(64) uint8_t two_memory[2 * SKY_DECODER_BYTES];
    sky_stream_in two[2];
    for (size_t i = 0; i < 2; i++) {
        two[i] = (sky_stream_in){
            w->shape, w->stream, w->bytes,
            in_pages(&w->shape, i ? page_tokens : 7, first, pages[i], data[i])};
        assert_true(two[i].dst.bytes <= sizeof data[i]);
        memset(data[i], 0x5a, sizeof data[i]);
    }
    assert_int_equal(sky_decode_two(w->profile, two, two_memory), SKY_OK);
    expect_in_pages(w, &two[0].dst);
    expect_in_pages(w, &two[1].dst);
    sky_decoder *d;
    assert_int_equal(sky_decoder_init(w->memory, w->profile, &w->shape, w->bytes, two[1].dst, &d),
                     SKY_OK);
    for (size_t at = 0; at < w->bytes; at += 900)
        assert_true(
            sky_decoder_feed(d, w->stream + at, w->bytes - at < 900 ? w->bytes - at : 900) >= 0);
    expect_in_pages(w, &two[1].dst);
    assert_int_equal(sky_decode(w->profile, &w->shape, w->stream, w->bytes, two[1].dst, w->memory),
                     SKY_OK);
    uint8_t *again = malloc(sky_encode_bound(&w->shape));
    size_t bytes;
    sky_stream_info info;
    assert_int_equal(sky_stream_info_read(w->stream, w->bytes, &info), SKY_OK);
    sky_encode_options how = {.level = info.level, .first_token_raw = info.first_token_raw};
    if (info.level == SKY_LEVEL_LOSSLESS) { /* the same rows: so the same stream */
        assert_int_equal(sky_encode(w->profile, &w->shape, &how, two[1].dst, again,
                                    sky_encode_bound(&w->shape), &bytes, w->memory),
                         SKY_OK);
        assert_int_equal(bytes, w->bytes);
        assert_memory_equal(again, w->stream, bytes);
    }
    free(again);
    expect_in_pages(w, &two[1].dst);
}

static void rows_go_into_pages(void **state) {
    (void)state;
    static const char *const kernels[] = {"scalar", "avx2", "avx512", "neon"};
    static const sky_level levels[] = {SKY_LEVEL_LOSSLESS, SKY_LEVEL_4, SKY_LEVEL_ARCHIVE};
    static const uint32_t page_tokens[] = {1, 2, 3, 16, 128, 200};
    for (size_t k = 0; k < 4; k++) {
        if (sky_codec_kernels_use(kernels[k]) != SKY_OK)
            continue;
        for (size_t l = 0; l < 6; l++) {
            world w = make(levels[l / 2], l % 2 ? 131 : 64, 3, 96, l == 2);
            for (size_t i = 0; i < 6; i++)
                decode_into_pages(&w, page_tokens[i], i % 2 ? 0 : 13);
            drop(&w);
        }
    }
    assert_int_equal(sky_codec_kernels_use(NULL), SKY_OK);
}

static void pages_that_are_none_are_not_written(void **state) {
    (void)state;
    static uint8_t data[1 << 20];
    static uint32_t pages[2 * PAGES_MAX];
    world w = make(SKY_LEVEL_4, 131, 3, 96, false);
    memset(data, 0x5a, sizeof data);
    for (int i = 0; i < 4; i++) {
        sky_tensor t = in_pages(&w.shape, 16, 0, pages, data);
        pages[4] = i == 0 ? UINT32_MAX : i == 1 ? pages[3] : pages[4];
        t.page_count -= i == 2;
        t.token_count -= i == 3;
        assert_int_equal(sky_decode(w.profile, &w.shape, w.stream, w.bytes, t, w.memory),
                         SKY_E_PARAM);
    }
    for (size_t i = 0; i < sizeof data; i++)
        assert_int_equal(data[i], 0x5a);
    drop(&w);
}

static void tokens_come_before_the_end(void **state) {
    (void)state;
    world w = make(SKY_LEVEL_4, 128, 1, 256, false);
    uint8_t *out = malloc(fixture_bytes(&w.shape));
    sky_decoder *d;
    assert_int_equal(sky_decoder_init(w.memory, w.profile, &w.shape, w.bytes,
                                      sky_stream_packed(&w.shape, out), &d),
                     SKY_OK);
    assert_int_equal(sky_decoder_feed(d, w.stream, w.bytes / 2), SKY_PENDING);
    assert_in_range(sky_decoder_tokens(d), 50, 66);
    free(out);
    drop(&w);
}

/* Decode damaged bytes from memory of exactly their size into rows of exactly their size. */
static sky_status decode_damaged(const world *w, const uint8_t *stream, size_t bytes) {
    uint8_t *exact = malloc(bytes + 1), *out = malloc(fixture_bytes(&w->shape));
    memcpy(exact + 1, stream, bytes);
    sky_status status = sky_decode(w->profile, &w->shape, exact + 1, bytes,
                                   sky_stream_packed(&w->shape, out), w->memory);
    free(out);
    free(exact);
    return status;
}

static void damage_is_survived(void **state) {
    (void)state;
    static const sky_level levels[] = {SKY_LEVEL_LOSSLESS, SKY_LEVEL_8, SKY_LEVEL_3};
    for (size_t l = 0; l < 3; l++) {
        world w = make(levels[l], 31, 1, 48, true);
        uint8_t *bad = malloc(2 * w.bytes);
        size_t refused = 0;
        for (size_t bit = 0; bit < 8 * w.bytes; bit += 3) {
            memcpy(bad, w.stream, w.bytes);
            bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
            sky_status status = decode_damaged(&w, bad, w.bytes);
            assert_true(status == SKY_OK || status < 0);
            refused += status != SKY_OK;
            if (bit / 8 < SKY_STREAM_HEADER_BYTES)
                assert_true(status != SKY_OK || bit / 8 == 1 || bit / 8 == 2);
        }
        assert_true(levels[l] == SKY_LEVEL_LOSSLESS || refused > w.bytes);
        for (size_t bytes = 0; bytes < w.bytes; bytes++)
            assert_int_equal(decode_damaged(&w, w.stream, bytes), SKY_E_CORRUPT);
        memcpy(bad, w.stream, w.bytes);
        memcpy(bad + w.bytes, w.stream, w.bytes);
        assert_int_equal(decode_damaged(&w, bad, w.bytes + 1), SKY_E_CORRUPT);
        assert_int_equal(decode_damaged(&w, bad, 2 * w.bytes), SKY_E_CORRUPT);
        free(bad);
        drop(&w);
    }
}

static void another_profile_or_shape_is_refused(void **state) {
    (void)state;
    world w = make(SKY_LEVEL_4, 16, 2, 32, false);
    sky_stream_shape other = w.shape;
    uint8_t *out = malloc(2 * fixture_bytes(&w.shape));
    sky_profile *interleaved = fixture_profile(&w.shape, SKY_ROPE_INTERLEAVED, false);
    assert_int_equal(sky_decode(interleaved, &w.shape, w.stream, w.bytes,
                                sky_stream_packed(&w.shape, out), w.memory),
                     SKY_E_PARAM);
    assert_int_equal(
        sky_decode(NULL, &w.shape, w.stream, w.bytes, sky_stream_packed(&w.shape, out), w.memory),
        SKY_E_PARAM);
    other.token_count = 17;
    assert_int_equal(
        sky_decode(w.profile, &other, w.stream, w.bytes, sky_stream_packed(&other, out), w.memory),
        SKY_E_CORRUPT);
    other = w.shape;
    other.first_position++;
    assert_int_equal(
        sky_decode(w.profile, &other, w.stream, w.bytes, sky_stream_packed(&other, out), w.memory),
        SKY_E_CORRUPT);
    w.stream[0] = 3;
    assert_int_equal(sky_decode(w.profile, &w.shape, w.stream, w.bytes,
                                sky_stream_packed(&w.shape, out), w.memory),
                     SKY_E_UNSUPPORTED);
    sky_profile_destroy(interleaved);
    free(out);
    drop(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_size_give_the_same_rows),
        cmocka_unit_test(two_at_once_are_what_each_is_alone),
        cmocka_unit_test(rows_go_into_pages),
        cmocka_unit_test(pages_that_are_none_are_not_written),
        cmocka_unit_test(tokens_come_before_the_end),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(another_profile_or_shape_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
