/* Proves: a tensor that is none is refused, by the member that is wrong; and rows gathered from any
 * layout and scattered into any other are the same, with no byte touched between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/tensor.h"

#define ROOM (1u << 20)
static uint8_t room[2][ROOM];

/* ---- what is refused ---- */

static const uint32_t table[] = {7, 0, 3, 9, 3};

/* [page, head, 16 tokens, 2 × 8] of f16, tokens 5 … 50 of it */
static sky_tensor paged(void) {
    return (sky_tensor){.data = room[0],
                        .bytes = 10 * 2 * 16 * 32,
                        .element = SKY_ELEMENT_F16,
                        .heads = 2,
                        .dim = 8,
                        .first_token = 5,
                        .token_count = 45,
                        .token_bytes = 32,
                        .head_bytes = 16 * 32,
                        .element_bytes = 2,
                        .pages = table,
                        .page_count = 5,
                        .page_tokens = 16,
                        .page_bytes = 2 * 16 * 32};
}

static void expect_refused(const sky_tensor *t, const char *word) {
    sky_error why = {0};
    uint8_t rows[64 * 32];
    if (sky_tensor_check(t, &why) != SKY_E_PARAM)
        fail_msg("%s: not refused", word);
    if (!strstr(why.text, word))
        fail_msg("%s: nothing of %s", why.text, word);
    assert_int_equal(sky_tensor_check(t, NULL), SKY_E_PARAM);
    assert_int_equal(sky_tensor_read(t, t->first_token, 1, rows), SKY_E_PARAM);
    assert_int_equal(sky_tensor_write(t, t->first_token, 1, rows), SKY_E_PARAM);
}

#define REFUSED(word, change)                                                                      \
    do {                                                                                           \
        sky_tensor t = paged();                                                                    \
        change;                                                                                    \
        expect_refused(&t, word);                                                                  \
    } while (0)

static void what_is_no_tensor_is_refused(void **state) {
    (void)state;
    sky_tensor good = paged(), packed = sky_tensor_packed(room[0], SKY_ELEMENT_F32, 3, 5, 0, 7);
    assert_int_equal(sky_tensor_check(&good, NULL), SKY_OK);
    assert_int_equal(sky_tensor_check(&packed, NULL), SKY_OK);
    assert_int_equal(sky_tensor_check(NULL, NULL), SKY_E_PARAM);
    REFUSED("data", t.data = NULL);
    REFUSED("element is 0", t.element = 0);
    REFUSED("element is 5", t.element = SKY_ELEMENT_BYTE + 1);
    REFUSED("0 heads", t.heads = 0);
    REFUSED("0 dim", t.dim = 0);
    REFUSED("0 tokens", t.token_count = 0);
    REFUSED("tokens", t.first_token = UINT32_MAX - 43);
    REFUSED("row", t.heads = SKY_ROW_BYTES_MAX);
    REFUSED("row", t.dim = UINT32_MAX);
    REFUSED("page_tokens", t.page_tokens = 0);
    REFUSED("page_count", t.page_count = 3);
    REFUSED("page_count", t.first_token = 60); /* to a sixth page */
    REFUSED("twice", t.token_count = 61);
    REFUSED("page_bytes", t.page_bytes = 1006);
    REFUSED("page_bytes", t.page_bytes = 1025);
    REFUSED("page_bytes", t.page_bytes = 0);
    REFUSED("head_bytes", t.head_bytes = 15 * 32 + 14); /* into the next head's first row */
    REFUSED("head_bytes", t.head_bytes = 8);
    REFUSED("token_bytes", t.token_bytes = 14);
    REFUSED("token_bytes", t.token_bytes = 31);
    REFUSED("element_bytes", t.element_bytes = 1);
    REFUSED("element_bytes", t.element_bytes = 0);
    REFUSED("beyond", t.bytes -= 17); /* page 9's last element */
    REFUSED("beyond", t.page_bytes = SIZE_MAX / 9 - SIZE_MAX / 9 % 2 + 2);
    REFUSED("beyond", t.token_bytes = SIZE_MAX - 1);
    REFUSED("beyond", t.bytes = SIZE_MAX);
    sky_tensor last = paged();
    last.bytes -= 16; /* after the last element nothing is needed */
    assert_int_equal(sky_tensor_check(&last, NULL), SKY_OK);
}

static void pages_twice_are_found_wherever_they_stand(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    static uint32_t pages[COUNT];
    sky_tensor t = {.data = room[0],
                    .bytes = SIZE_MAX / 4,
                    .element = SKY_ELEMENT_BYTE,
                    .heads = 1,
                    .dim = 1,
                    .token_count = COUNT,
                    .token_bytes = 1,
                    .head_bytes = 1,
                    .element_bytes = 1,
                    .pages = pages,
                    .page_count = COUNT,
                    .page_tokens = 1,
                    .page_bytes = 1};
    for (uint32_t i = 0; i < COUNT; i++)
        pages[i] = (uint32_t)(i * UINT64_C(1431655) % UINT32_MAX); /* far apart, and mixed */
    assert_int_equal(sky_tensor_check(&t, NULL), SKY_OK);
    for (uint32_t i = 1; i < COUNT; i += 371) {
        uint32_t kept = pages[i];
        pages[i] = pages[COUNT - i];
        assert_int_equal(sky_tensor_check(&t, NULL), i == COUNT - i ? SKY_OK : SKY_E_PARAM);
        pages[i] = kept;
    }
    pages[0] = UINT32_MAX; /* the last number there is */
    assert_int_equal(sky_tensor_check(&t, NULL), SKY_OK);
    pages[1] = UINT32_MAX;
    assert_int_equal(sky_tensor_check(&t, NULL), SKY_E_PARAM);
}

/* A table of pages far apart costs one look at each where they lie beyond the tensor's bytes.
 * Looking for doubles in it would take minutes. */
static void pages_beyond_the_bytes_are_refused_at_once(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    static uint32_t pages[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        pages[i] = i << 12;
    const sky_tensor t = {.data = room[0],
                          .bytes = sizeof room[0],
                          .element = SKY_ELEMENT_BYTE,
                          .heads = 1,
                          .dim = 1,
                          .token_count = COUNT,
                          .token_bytes = 1,
                          .head_bytes = 1,
                          .element_bytes = 1,
                          .pages = pages,
                          .page_count = COUNT,
                          .page_tokens = 1,
                          .page_bytes = 1};
    sky_error why;
    assert_int_equal(sky_tensor_check(&t, &why), SKY_E_PARAM);
    assert_non_null(strstr(why.text, "beyond"));
}

/* Where the header says that an element is. */
static uint8_t *element_at(const sky_tensor *t, uint32_t token, uint32_t head, uint32_t i) {
    size_t at = head * t->head_bytes + i * t->element_bytes;
    if (t->pages)
        at += t->pages[token / t->page_tokens] * t->page_bytes +
              token % t->page_tokens * t->token_bytes;
    else
        at += (token - t->first_token) * t->token_bytes;
    return (uint8_t *)t->data + at;
}

/* Numbers of any kind: what is taken for a tensor has all its elements in its memory, each in bytes
 * of its own. */
static void what_is_a_tensor_is_sound(void **state) {
    (void)state;
    sky_prng r;
    uint32_t pages[6], accepted = 0;
    sky_prng_init(&r, 5);
    for (int trial = 0; trial < 200000; trial++) {
        sky_tensor t = sky_tensor_packed(
            room[0], (sky_element)(1 + sky_prng_below(&r, 4)), 1 + (uint32_t)sky_prng_below(&r, 3),
            1 + (uint32_t)sky_prng_below(&r, 3), (uint32_t)sky_prng_below(&r, 5),
            1 + (uint32_t)sky_prng_below(&r, 4));
        t.element_bytes = sky_prng_below(&r, 9);
        t.head_bytes = sky_prng_below(&r, 25);
        t.token_bytes = sky_prng_below(&r, 49);
        t.bytes = sky_prng_below(&r, 200);
        t.page_bytes = sky_prng_below(&r, 73);
        t.page_tokens = (uint32_t)sky_prng_below(&r, 5);
        t.page_count = (uint32_t)sky_prng_below(&r, 7);
        t.pages = sky_prng_below(&r, 2) ? pages : NULL;
        for (size_t i = 0; i < 6; i++)
            pages[i] = (uint32_t)sky_prng_below(&r, 6);
        if (sky_tensor_check(&t, NULL) != SKY_OK)
            continue;
        memset(room[0], 0, 256);
        accepted++;
        for (uint32_t token = t.first_token; token < t.first_token + t.token_count; token++)
            for (uint32_t h = 0; h < t.heads; h++)
                for (uint32_t i = 0; i < t.dim; i++)
                    for (uint32_t b = 0; b < sky_element_bytes(t.element); b++) {
                        uint8_t *at = element_at(&t, token, h, i) + b;
                        assert_true(at < room[0] + t.bytes && *at == 0);
                        *at = 1;
                    }
    }
    assert_in_range(accepted, 1000, 200000);
}

/* ---- layouts by chance ---- */

static uint32_t pages_of[2][64];

/* Dimensions in any order, with gaps of any length between. */
static sky_tensor by_chance(sky_prng *r, sky_element element, uint32_t heads, uint32_t dim,
                            uint32_t first_token, uint32_t token_count, uint32_t which) {
    sky_tensor t = sky_tensor_packed(room[which], element, heads, dim, first_token, token_count);
    size_t size = sky_element_bytes(element), span = size, *strides[4];
    bool in_pages = sky_prng_below(r, 2);
    t.page_tokens = in_pages ? 1 + (uint32_t)sky_prng_below(r, 20) : 0;
    uint32_t page_count = in_pages ? (first_token + token_count - 1) / t.page_tokens + 1 : 0;
    strides[0] = &t.element_bytes;
    strides[1] = &t.head_bytes;
    strides[2] = &t.token_bytes;
    strides[3] = &t.page_bytes;
    uint32_t counts[] = {dim, heads, in_pages ? t.page_tokens : token_count, page_count};
    for (uint32_t left = in_pages ? 4 : 3; left > 0; left--) {
        uint32_t at = sky_prng_below(r, 3) ? 0 : (uint32_t)sky_prng_below(r, left);
        *strides[at] = span + (sky_prng_below(r, 2) ? 0 : sky_prng_below(r, 4) * size);
        span += *strides[at] * (counts[at] - 1);
        memmove(strides + at, strides + at + 1, (3 - at) * sizeof *strides);
        memmove(counts + at, counts + at + 1, (3 - at) * sizeof *counts);
    }
    for (uint32_t i = 0; i < page_count; i++)
        pages_of[which][i] = i;
    for (uint32_t i = page_count; i > 1; i--) {
        uint32_t j = (uint32_t)sky_prng_below(r, i), swap = pages_of[which][j];
        pages_of[which][j] = pages_of[which][i - 1];
        pages_of[which][i - 1] = swap;
    }
    for (uint32_t i = 0; in_pages && i < first_token / t.page_tokens; i++)
        pages_of[which][i] = (uint32_t)sky_prng_u64(r); /* nobody looks at these */
    t.pages = in_pages ? pages_of[which] : NULL;
    t.page_count = page_count;
    t.bytes = span;
    assert_true(span <= ROOM);
    return t;
}

/* The tensor's tokens from `first` on are these rows, and all else is `fill`. */
static void expect_rows(const sky_tensor *t, uint32_t first, uint32_t count, const uint8_t *rows,
                        uint8_t fill) {
    size_t size = sky_element_bytes(t->element);
    for (uint32_t token = first; token < first + count; token++)
        for (uint32_t h = 0; h < t->heads; h++)
            for (uint32_t i = 0; i < t->dim; i++, rows += size) {
                uint8_t *at = element_at(t, token, h, i);
                assert_memory_equal(at, rows, size);
                memset(at, fill, size);
            }
    for (size_t i = 0; i < t->bytes; i++)
        assert_int_equal(((uint8_t *)t->data)[i], fill);
}

/* The pieces are the rows, in order, and no more than they may be. */
static void expect_pieces(const sky_tensor *t, uint32_t first, uint32_t count,
                          const uint8_t *rows) {
    size_t max = sky__tensor_pieces_max(t, count), at = 0;
    sky_span *pieces = malloc(max * sizeof *pieces);
    uint32_t n = sky__tensor_pieces(t, first, count, pieces);
    assert_true(n <= max);
    for (uint32_t i = 0; i < n; i++) {
        assert_memory_equal(pieces[i].data, rows + at, pieces[i].bytes);
        at += pieces[i].bytes;
        assert_true(i == 0 || (uint8_t *)pieces[i - 1].data + pieces[i - 1].bytes !=
                                  (uint8_t *)pieces[i].data);
    }
    assert_int_equal(at, count * sky__tensor_row_bytes(t));
    free(pieces);
}

static void rows_are_the_same_in_any_layout(void **state) {
    (void)state;
    sky_prng r;
    static uint8_t rows[64 * 1024], again[64 * 1024];
    sky_prng_init(&r, 12);
    for (int trial = 0; trial < 2000; trial++) {
        sky_element element = (sky_element)(1 + sky_prng_below(&r, 4));
        uint32_t heads = 1 + (uint32_t)sky_prng_below(&r, 4);
        uint32_t dim = 1 + (uint32_t)sky_prng_below(&r, 6);
        uint32_t start = (uint32_t)sky_prng_below(&r, 20);
        uint32_t count = 1 + (uint32_t)sky_prng_below(&r, 40);
        sky_tensor a = by_chance(&r, element, heads, dim, start, count, 0);
        sky_tensor b = by_chance(&r, element, heads, dim, start, count, 1);
        uint32_t first = start + (uint32_t)sky_prng_below(&r, count);
        uint32_t some = 1 + (uint32_t)sky_prng_below(&r, start + count - first);
        size_t bytes = some * sky__tensor_row_bytes(&a);
        memset(room[0], 0xaa, a.bytes);
        memset(room[1], 0xbb, b.bytes);
        for (size_t i = 0; i < bytes; i++)
            rows[i] = (uint8_t)sky_prng_u64(&r);
        assert_int_equal(sky_tensor_write(&a, first, some, rows), SKY_OK);
        expect_pieces(&a, first, some, rows);
        sky_tensor slice = sky_tensor_slice(&a, first, some);
        assert_int_equal(sky_tensor_read(&slice, first, some, again), SKY_OK);
        assert_memory_equal(rows, again, bytes);
        assert_int_equal(sky_tensor_write(&b, first, some, again), SKY_OK);
        expect_rows(&a, first, some, rows, 0xaa);
        expect_rows(&b, first, some, rows, 0xbb);
    }
}

static void tokens_that_are_not_there_are_refused(void **state) {
    (void)state;
    sky_tensor t = paged();
    static uint8_t rows[64 * 32];
    memset(room[0], 0x11, sizeof room[0]);
    memset(rows, 0x22, sizeof rows);
    assert_int_equal(sky_tensor_write(&t, 4, 1, rows), SKY_E_PARAM);
    assert_int_equal(sky_tensor_write(&t, 5, 46, rows), SKY_E_PARAM);
    assert_int_equal(sky_tensor_write(&t, 49, 2, rows), SKY_E_PARAM);
    assert_int_equal(sky_tensor_write(&t, 50, UINT32_MAX, rows), SKY_E_PARAM);
    assert_int_equal(sky_tensor_write(&t, 5, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_tensor_read(&t, 5, 1, NULL), SKY_E_PARAM);
    expect_rows(&t, 5, 0, rows, 0x11);
    assert_int_equal(sky_tensor_write(&t, 49, 1, rows), SKY_OK);
    expect_rows(&t, 49, 1, rows, 0x11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_tensor_is_refused),
        cmocka_unit_test(pages_twice_are_found_wherever_they_stand),
        cmocka_unit_test(pages_beyond_the_bytes_are_refused_at_once),
        cmocka_unit_test(what_is_a_tensor_is_sound),
        cmocka_unit_test(rows_are_the_same_in_any_layout),
        cmocka_unit_test(tokens_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
