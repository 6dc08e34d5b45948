/* Proves: whatever the tables, states and bytes, each set of kernels decodes rows as the scalar
 * ones do; and whatever rows, shape, level and profile, it makes the same stream of them, and the
 * same rows of that and of a damaged one: so all that a set of kernels does for a stream.
 *
 * Rows:    how u8, width u16, 2 × 32 classes, 64 states u16, then the bytes of rows.
 * Streams: how u8 of at least 128; 15 bytes of shape, level, profile and damage, see shape_of and
 *          streams; then elements. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/kernels.h"
#include "made_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct {
    sky_coder rows;
    sky_tables tables;
} coder;

#define HEAD    (3 + 2 * SKY_UNITS_MAX + 2 * SKY_LANES)
#define ROWS    4
#define STREAMS 128 /* of the first byte */

static const char *const others[] = {"avx512", "avx2", "neon"};
#define OTHERS (sizeof others / sizeof others[0])

static void set_up(const uint8_t *data, coder *c) {
    bool exact = data[0] & 2;
    sky__rows_init(&c->rows, 1 + sky_load_u16(data + 1) % SKY_WIDTH_MAX, exact || data[0] & 1);
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *classes = data + 3 + half * SKY_UNITS_MAX;
        uint8_t keys[SKY_WIDTH_MAX];
        for (uint32_t i = 0; i < SKY_WIDTH_MAX; i++)
            keys[i] = (uint8_t)(i * data[0]);
        sky__rows_order(&c->rows, half, keys);
        if (exact)
            sky__rows_exact_classes(&c->rows, half, classes, data[0] & 4 ? 8 : 5);
        else
            sky__rows_classes(&c->rows, half, classes);
    }
    for (uint32_t lane = 0; lane < SKY_LANES; lane++) {
        uint32_t state = sky_load_u16(data + 3 + 2 * SKY_UNITS_MAX + 2 * lane);
        sky_rows_set_state(&c->rows, lane, state < SKY_STATE_LOW ? SKY_STATE_LOW : state);
    }
    memset(&c->tables, 0, sizeof c->tables);
}

static void decode_rows(const char *name, const uint8_t *head, const uint8_t *in) {
    static coder a, b;
    static _Alignas(64) int16_t expected[SKY_WIDTH_MAX], levels[SKY_WIDTH_MAX];
    if (sky_codec_kernels_use(name) != SKY_OK)
        return;
    const sky_codec_kernels *kernels = sky__kernels();
    set_up(head, &a);
    set_up(head, &b);
    sky__decode_prepare(&a.tables, &a.rows);
    kernels->prepare(&b.tables, &b.rows);
    for (uint32_t row = 0; row < ROWS; row++) {
        size_t took = sky__row_decode(&a.rows, &a.tables, row & 1, in, expected);
        if (kernels->row_decode(&b.rows, &b.tables, row & 1, in, levels) != took)
            abort();
        if (took == SIZE_MAX)
            return;
        if (memcmp(levels, expected, a.rows.steps * SKY_LANES * sizeof *levels) != 0 ||
            memcmp(&a.rows, &b.rows, sizeof a.rows) != 0)
            abort();
        in += took;
    }
}

static void rows_of_noise(const uint8_t *data, size_t bytes) {
    uint8_t head[HEAD] = {0}, *in = calloc(ROWS, 8192);
    if (!in)
        return;
    memcpy(head, data, bytes < HEAD ? bytes : HEAD);
    if (bytes > HEAD)
        memcpy(in, data + HEAD, bytes - HEAD < ROWS * 4096 ? bytes - HEAD : ROWS * 4096);
    for (size_t i = 0; i < OTHERS; i++)
        decode_rows(others[i], head, in);
    free(in);
}

/* ---- streams ---- */

#define STREAM_HEAD 16

typedef struct {
    sky_stream_shape shape;
    sky_encode_options how;
    sky_profile *profile;
    size_t head_bytes;
    size_t rows_bytes;
    uint8_t *rows;
    uint8_t *stream;
    size_t stream_bytes;
    void *work; /* of two decoders */
} world;

static bool shape_of(const uint8_t *head, world *w) {
    uint32_t dim = 1 + sky_load_u16(head + 4) % SKY_HEAD_DIM_MAX, heads = 1 + head[6] % 8;
    w->shape = (sky_stream_shape){.kv = (sky_kv)(head[1] & 1),
                                  .element = (sky_element)(1 + (head[1] >> 1) % 3),
                                  .token_count = 1 + head[7] % 70,
                                  .kv_heads = heads,
                                  .head_dim = dim,
                                  .first_position = sky_load_u32(head + 8)};
    w->how = (sky_encode_options){.level = (sky_level)(head[2] & 7),
                                  .first_token_raw = head[2] >> 3 & 1,
                                  .step_scale = head[3] ? (float)head[3] / 32 : 0};
    w->how.plain = w->how.level != SKY_LEVEL_LOSSLESS && (head[2] >> 4 & 1);
    w->head_bytes = (size_t)dim * sky_element_bytes(w->shape.element);
    w->rows_bytes = w->head_bytes * heads * w->shape.token_count;
    return (size_t)heads * dim <= 1024;
}

/* Elements are the input's, over and over, with something of the place added, so that a short one
 * is not all alike. */
static void fill(const uint8_t *data, size_t bytes, world *w) {
    size_t size = sky_element_bytes(w->shape.element);
    for (size_t i = 0; i < w->rows_bytes; i++) {
        uint8_t x = bytes ? data[i % bytes] : 0;
        w->rows[i] = i % size + 2 < size ? (uint8_t)(i * 167 >> 3) : x;
    }
}

static sky_status decode(const world *w, const char *name, const uint8_t *stream, uint8_t *rows) {
    if (sky_codec_kernels_use(name) != SKY_OK)
        abort();
    memset(rows, 0, w->rows_bytes);
    return sky_decode(w->profile, &w->shape, stream, w->stream_bytes,
                      sky_stream_packed(&w->shape, rows), w->work);
}

/* The stream as it is and the damaged one, each alone and both at once. */
static void compare_decode(const world *w, const char *name, const uint8_t *damaged,
                           uint8_t *const rows[4]) {
    sky_status whole = decode(w, "scalar", w->stream, rows[0]);
    sky_status status = decode(w, "scalar", damaged, rows[1]);
    if (whole != SKY_OK || decode(w, name, w->stream, rows[2]) != SKY_OK ||
        decode(w, name, damaged, rows[3]) != status ||
        memcmp(rows[0], rows[2], w->rows_bytes) != 0 ||
        (status == SKY_OK && memcmp(rows[1], rows[3], w->rows_bytes) != 0))
        abort();
    sky_stream_in two[2] = {
        {w->shape, w->stream, w->stream_bytes, sky_stream_packed(&w->shape, rows[2])},
        {w->shape, damaged, w->stream_bytes, sky_stream_packed(&w->shape, rows[3])}};
    memset(rows[2], 0, w->rows_bytes);
    memset(rows[3], 0, w->rows_bytes);
    if (sky_decode_two(w->profile, two, w->work) != status ||
        memcmp(rows[0], rows[2], w->rows_bytes) != 0 ||
        (status == SKY_OK && memcmp(rows[1], rows[3], w->rows_bytes) != 0))
        abort();
}

static void compare_encode(const world *w, const char *name, size_t bound, uint8_t *again) {
    sky_tensor in = sky_stream_packed(&w->shape, w->rows);
    size_t bytes;
    if (sky_codec_kernels_use(name) != SKY_OK ||
        sky_encode(w->profile, &w->shape, &w->how, in, again, bound, &bytes, w->work) != SKY_OK)
        abort();
    if (bytes != w->stream_bytes || memcmp(again, w->stream, bytes) != 0)
        abort();
}

/* Encode rows of the input; damage a stream by the input. */
static void streams(const uint8_t *head, const uint8_t *data, size_t bytes, world *w) {
    size_t bound = sky_encode_bound(&w->shape);
    uint8_t *again = malloc(bound), *rows[4];
    sky_tensor in = sky_stream_packed(&w->shape, w->rows);
    for (size_t i = 0; i < 4; i++)
        rows[i] = malloc(w->rows_bytes);
    w->stream = malloc(bound);
    if (sky_codec_kernels_use("scalar") != SKY_OK ||
        sky_encode(w->profile, &w->shape, &w->how, in, w->stream, bound, &w->stream_bytes,
                   w->work) != SKY_OK)
        abort();
    for (size_t i = 0; i < OTHERS; i++) {
        if (sky_codec_kernels_use(others[i]) != SKY_OK)
            continue;
        compare_encode(w, others[i], bound, again);
        uint32_t place = SKY_STREAM_HEADER_BYTES + sky_load_u16(head + 12);
        for (size_t j = 0; j < head[14] % 8 && place < w->stream_bytes; j++, place += 1 + head[15])
            again[place] = j < bytes ? data[j] : (uint8_t)j;
        compare_decode(w, others[i], again, rows);
    }
    for (size_t i = 0; i < 4; i++)
        free(rows[i]);
    free(w->stream);
    free(again);
}

static void streams_of(const uint8_t *data, size_t bytes) {
    world w;
    if (bytes < STREAM_HEAD || !shape_of(data, &w))
        return;
    uint32_t knows = data[1] >> 3 & MADE_ALL;
    if (w.shape.head_dim > 128)
        knows &= ~(uint32_t)MADE_KLT;
    sky_profile_layer layer = {w.shape.kv_heads, w.shape.head_dim, w.shape.head_dim, 0};
    w.profile = data[2] & 32 ? made_profile(&layer, 1, (sky_rope_kind)((data[2] >> 6) % 3),
                                            w.shape.head_dim / 4 * 2, knows, 1u << w.how.level)
                             : NULL;
    w.rows = malloc(w.rows_bytes);
    w.work = aligned_alloc(64, 2 * SKY_DECODER_BYTES);
    fill(data + STREAM_HEAD, bytes - STREAM_HEAD, &w);
    streams(data, data + STREAM_HEAD, bytes - STREAM_HEAD, &w);
    sky_profile_destroy(w.profile);
    free(w.rows);
    free(w.work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes && data[0] & STREAMS)
        streams_of(data, bytes);
    else
        rows_of_noise(data, bytes);
    return 0;
}
