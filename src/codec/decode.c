/* Decoding a stream as its bytes arrive.
 *
 *   pieces ─► carry ─► unit: header │ fineness of pairs │ head of the first token │ tile's first
 *                            bytes │ tile's head │ raw row │ pair of rows
 *
 * A stream is a sequence of units, each of at most UNIT_BYTES_MAX. A unit is decoded where it lies
 * when the piece holds the most it could take and some more (kernels read past what they need);
 * otherwise its bytes gather in `carry`, which is as long. What carry held too much of is read
 * again from the piece.
 *
 * Nothing in a stream is trusted: each unit checks itself against the bytes that are left, and the
 * work per stream is bounded by its shape, since every unit writes rows or begins a tile. */
#include <string.h>

#include "base/bytes.h"
#include "codec/decoder.h"
#include "codec/float_env.h"
#include "codec/half.h"

size_t sky_decoder_bytes(void) {
    return SKY_DECODER_BYTES;
}

/* ---- between tiles ---- */

static void next_tile(sky_decoder *d) {
    d->token = d->head = 0;
    d->at = sky__tiles_next(&d->tiles, &d->tile) ? AT_TILE : AT_END;
}

/* Every row of the tile before d->token is written. */
static void rows_written(sky_decoder *d) {
    if (d->tile.slice + 1 == d->tiles.slices.count)
        d->done_tokens = d->tile.token + d->token;
}

/* ---- units. Each takes `in` with `bytes` of the stream at it, more readable beyond, and tells how
 * many it used. ---- */

static sky_status take_profile(sky_decoder *d) {
    uint8_t flags = d->header.flags;
    sky_status status = SKY_OK;
    if (d->header.profile_id)
        status = d->profile ? sky__stream_profile(d->profile, &d->shape, &d->taken) : SKY_E_PARAM;
    if (status != SKY_OK || d->header.profile_id != d->taken.id)
        return SKY_E_PARAM;
    const sky_profile_stream *s = d->taken.stream;
    if (((flags & SKY_STREAM_ROPE) && !d->taken.rope) || ((flags & SKY_STREAM_MEAN) && !s->mean) ||
        ((flags & SKY_STREAM_PAIRS) && !s->g) || ((flags & SKY_STREAM_KLT) && !s->klt_g) ||
        ((flags & SKY_STREAM_TABLES) && !s->exact))
        return SKY_E_CORRUPT;
    return SKY_OK;
}

static void begin_tokens(sky_decoder *d) {
    if (d->header.flags & SKY_STREAM_FIRST_RAW)
        d->at = AT_FIRST_TOKEN;
    else
        next_tile(d);
}

static sky_status unit_header(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    sky_status status = sky__stream_header_read(in, bytes, &d->shape, &d->header);
    if (status == SKY_OK)
        status = take_profile(d);
    if (status != SKY_OK)
        return status;
    bool first = d->header.flags & SKY_STREAM_FIRST_RAW;
    d->tiles = sky__tiles_of(&d->shape, first);
    memset(d->fineness, SKY_FINENESS_USUAL, sizeof d->fineness);
    *used = SKY_STREAM_HEADER_BYTES;
    if (d->header.flags & SKY_STREAM_FINENESS)
        d->at = AT_FINENESS;
    else
        begin_tokens(d);
    return SKY_OK;
}

static uint32_t coded_tokens(const sky_decoder *d) {
    return d->shape.token_count - (d->header.flags & SKY_STREAM_FIRST_RAW ? 1 : 0);
}

static sky_status unit_fineness(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    *used = sky_fineness_bytes(coded_tokens(d));
    if (bytes < *used || !sky__fineness_read(in, sky_fineness_pairs(coded_tokens(d)), d->fineness))
        return SKY_E_CORRUPT;
    begin_tokens(d);
    return SKY_OK;
}

static sky_status unit_first_token(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    if (bytes < head_bytes(d))
        return SKY_E_CORRUPT;
    memcpy(row_at(d, 0, d->head), in, head_bytes(d));
    *used = head_bytes(d);
    if (++d->head == d->shape.kv_heads) {
        d->done_tokens = 1;
        next_tile(d);
    }
    return SKY_OK;
}

static sky_status unit_raw_row(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    if (bytes < head_bytes(d))
        return SKY_E_CORRUPT;
    memcpy(row_at(d, d->tile.token + d->token, d->tile.head + d->head), in, head_bytes(d));
    *used = head_bytes(d);
    if (++d->head < d->tile.heads)
        return SKY_OK;
    d->head = 0;
    d->token++;
    rows_written(d);
    if (d->token == d->tile.tokens)
        next_tile(d);
    return SKY_OK;
}

/* Strictly ascending, within the tile. */
static bool read_exceptions(sky_decoder *d, sky_reader *r) {
    uint32_t size = sky_element_bytes(d->shape.element), before = 0;
    for (uint32_t i = 0; i < d->exception_count; i++) {
        exception *x = &d->exceptions[i];
        x->token = sky_read_u16(r);
        x->channel = sky_read_u16(r);
        const uint8_t *element = sky_read_bytes(r, size);
        uint32_t place = (uint32_t)x->token << 16 | x->channel;
        if (!element || x->token >= d->tile.tokens || x->channel >= d->tile.width ||
            (i && place <= before))
            return false;
        memcpy(x->element, element, size);
        before = place;
    }
    return true;
}

/* Sort keys for each half, or one set for both. */
static void read_keys(sky_decoder *d, sky_reader *r, uint32_t sets) {
    uint8_t keys[SKY_WIDTH_MAX];
    uint32_t bytes = (d->tile.width + 1) / 2;
    for (uint32_t half = 0; half < sets; half++) {
        const uint8_t *in = sky_read_bytes(r, bytes);
        for (uint32_t i = 0; in && i < d->tile.width; i++)
            keys[i] = i % 2 ? in[i / 2] >> 4 : in[i / 2] & 15;
        if (in)
            sky__rows_order(&d->rows, half, keys);
        if (in && sets == 1)
            sky__rows_order(&d->rows, 1, keys);
    }
}

static bool read_classes(sky_decoder *d, sky_reader *r) {
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *classes = d->tile_flags & SKY_TILE_OWN_CLASSES
                                     ? sky_read_bytes(r, sky_rows_units(&d->rows))
                                     : sky__tile_classes(&d->taken, &d->shape, &d->tile,
                                                         (sky_level)d->header.level, !d->rows.plain,
                                                         half);
        if (!classes)
            return false;
        sky__rows_classes(&d->rows, half, classes);
    }
    return true;
}

static bool is_exact(const sky_decoder *d) {
    return d->header.level == SKY_LEVEL_LOSSLESS;
}

static size_t tile_head_bytes(const sky_decoder *d) {
    return sky__tile_head_bytes(&d->header, d->shape.element, d->tile.width, d->tile_flags,
                                d->exception_count);
}

/* Own order and classes together, or the profile's. */
static bool exact_flags_hold(const sky_decoder *d) {
    bool calibrated = d->header.flags & SKY_STREAM_TABLES;
    uint8_t expected = calibrated ? 0 : SKY_TILE_OWN_ORDER | SKY_TILE_OWN_CLASSES;
    return d->tile_flags == expected && d->exception_count == 0 && d->D == 1.0f;
}

static sky_status unit_tile(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    sky_reader r = sky_reader_over(in, bytes);
    d->tile_flags = sky_read_u8(&r);
    d->at = AT_RAW_ROW;
    *used = 1;
    if (!r.failed && d->tile_flags == SKY_TILE_RAW)
        return SKY_OK;
    uint8_t zero = sky_read_u8(&r);
    d->exception_count = sky_read_u16(&r);
    d->exception_next = 0;
    d->D = sky_float_of(sky_read_u32(&r));
    if (r.failed || (d->tile_flags & SKY_TILE_RAW) || d->tile_flags > SKY_TILE_FLAGS || zero ||
        d->exception_count > SKY_EXCEPTIONS_MAX || !(d->D >= 1e-36f && d->D <= 1e36f) ||
        (is_exact(d) && !exact_flags_hold(d)))
        return SKY_E_CORRUPT;
    sky__rows_init(&d->rows, d->tile.width, d->header.flags & SKY_STREAM_PLAIN);
    d->at = AT_TILE_HEAD;
    *used = SKY_TILE_HEAD_BYTES;
    return SKY_OK;
}

static bool read_states(sky_decoder *d, sky_reader *r) {
    const uint8_t *restrict in = sky_read_bytes(r, SKY_STATE_BYTES);
    uint8_t *restrict low = d->rows.state[0], *restrict high = d->rows.state[1], zeros = 0;
    for (uint32_t i = 0; in && i < SKY_LANES; i++) {
        low[i] = in[2 * i];
        high[i] = in[2 * i + 1];
        zeros |= high[i] == 0; /* below SKY_STATE_LOW */
    }
    return in && !zeros;
}

static sky_status unit_exact_head(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    sky_reader r = sky_reader_over(in, bytes);
    uint32_t units = sky_rows_units(&d->rows), shift = sky_exact_shift(d->shape.element);
    sky__tile_exact(&d->taken, &d->shape, &d->tile, d->tile_flags == 0, &d->exact, &d->rows);
    if (d->tile_flags) {
        const uint8_t *usual = sky_read_bytes(&r, d->tile.width);
        if (!usual)
            return SKY_E_CORRUPT;
        memcpy(d->exact.usual, usual, d->tile.width);
        read_keys(d, &r, 1);
        for (uint32_t half = 0; half < 2; half++) {
            const uint8_t *classes = sky_read_bytes(&r, units);
            if (!classes)
                return SKY_E_CORRUPT;
            sky__rows_exact_classes(&d->rows, half, classes, shift);
        }
    }
    if (!read_states(d, &r))
        return SKY_E_CORRUPT;
    d->kernels->prepare(&d->tables, &d->rows);
    sky__exact_prepare(&d->exact, &d->rows);
    d->at = AT_EXACT_ROW;
    *used = bytes - r.left;
    return SKY_OK;
}

/* Of the tile's pairs. */
static const uint8_t *tile_fineness(const sky_decoder *d) {
    return d->fineness + (d->tile.token - (d->header.flags & SKY_STREAM_FIRST_RAW ? 1 : 0)) / 2;
}

/* Where tables of rows of a fineness lie. */
static sky_tables *tables_of(sky_decoder *d, uint32_t fineness) {
    uint32_t place = fineness ^ SKY_FINENESS_USUAL; /* the usual ones first */
    return (sky_tables *)(void *)((uint8_t *)&d->tables + place * d->kernels->tables_bytes);
}

static void prepare_tables(sky_decoder *d) {
    uint32_t used = sky__fineness_used(tile_fineness(d), sky_fineness_pairs(d->tile.tokens));
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        if (used >> s & 1) {
            if (d->header.flags & SKY_STREAM_FINENESS)
                sky__rows_use(&d->rows, s);
            d->kernels->prepare(tables_of(d, s), &d->rows);
        }
}

/* Go on with pairs of this fineness. */
static void use_fineness(sky_decoder *d, uint8_t fineness) {
    float D = d->D * sky__fineness_step[fineness];
    d->fineness_used = fineness;
    if (d->header.flags & SKY_STREAM_FINENESS)
        sky__rows_use(&d->rows, fineness);
    d->transform.scale[0] = D * SKY_SQRT_HALF;
    d->transform.scale[1] = D;
    d->kernels->scale(&d->transform, d->tile.tokens - d->token > 1 ? 0 : 1);
}

static sky_status unit_tile_head(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    sky_reader r = sky_reader_over(in, bytes);
    uint8_t flags = d->header.flags;
    if (!read_exceptions(d, &r))
        return SKY_E_CORRUPT;
    sky__tile_transform(&d->taken, &d->shape, flags, &d->tile, false, &d->transform);
    for (uint32_t i = 0; !(flags & SKY_STREAM_MEAN) && i < d->tile.width; i++)
        d->transform.mean[i] = sky_float_of_f16(sky_read_u16(&r));
    if (d->tile_flags & SKY_TILE_OWN_ORDER)
        read_keys(d, &r, 2);
    else
        sky__tile_order(&d->taken, &d->shape, &d->tile,
                        flags & SKY_STREAM_KLT ? SKY_BASIS_KLT : SKY_BASIS_PAIR, &d->rows);
    if (!read_classes(d, &r) || !read_states(d, &r))
        return SKY_E_CORRUPT;
    d->kernels->angles(&d->transform, d->shape.first_position + d->tile.token);
    prepare_tables(d);
    use_fineness(d, *tile_fineness(d));
    d->at = AT_ROWS;
    *used = bytes - r.left;
    return SKY_OK;
}

static void patch_exceptions(sky_decoder *d, uint32_t token_end) {
    uint32_t size = sky_element_bytes(d->shape.element);
    for (; d->exception_next < d->exception_count; d->exception_next++) {
        const exception *x = &d->exceptions[d->exception_next];
        if (x->token >= token_end)
            return;
        memcpy(row_at(d, d->tile.token + x->token, d->tile.head + x->channel / d->shape.head_dim) +
                   x->channel % d->shape.head_dim * size,
               x->element, size);
    }
}

/* Both rows of a pair of tokens. */
static size_t pair_bytes_max(const sky_decoder *d) {
    return sky_rows_bytes_max(&d->rows, 0) + sky_rows_bytes_max(&d->rows, 1);
}

static sky_status end_tokens(sky_decoder *d, uint32_t tokens, size_t used) {
    d->token += tokens;
    patch_exceptions(d, d->token);
    if (tokens)
        rows_written(d);
    if (used == SIZE_MAX)
        return SKY_E_CORRUPT;
    if (d->token < d->tile.tokens) {
        if (d->at == AT_ROWS && tile_fineness(d)[d->token / 2] != d->fineness_used)
            use_fineness(d, tile_fineness(d)[d->token / 2]);
        return SKY_OK;
    }
    if (!sky__rows_finished(&d->rows))
        return SKY_E_CORRUPT;
    next_tile(d);
    return SKY_OK;
}

/* What a pair may take, more than the stream has where its end is in carry: more than `bytes` is
 * damage, whatever lies there. */
static size_t room_at(const sky_decoder *d, const uint8_t *in, size_t bytes) {
    return bytes == d->left ? (size_t)(d->carry + sizeof d->carry - SLACK - in) : bytes;
}

/* Of so many tokens, at least two, how many pairs from here on have one fineness. */
static uint32_t like_pairs(const sky_decoder *d, uint32_t tokens) {
    const uint8_t *fineness = tile_fineness(d) + d->token / 2;
    uint32_t pairs = 1;
    while (2 * pairs + 2 <= tokens && fineness[pairs] == *fineness)
        pairs++;
    return pairs;
}

static sky_pairs_job begin_pairs(sky_decoder *d, const uint8_t *in, size_t bytes) {
    uint32_t left = d->tile.tokens - d->token;
    ptrdiff_t stride;
    uint32_t run = run_at(d, d->tile.token + d->token,
                          left < 2 * SKY_PAIRS_MAX ? left : 2 * SKY_PAIRS_MAX, &stride);
    return (sky_pairs_job){.rows = &d->rows,
                           .tables = tables_of(d, d->fineness_used),
                           .t = &d->transform,
                           .turn_on = d->token > 0,
                           .pairs = like_pairs(d, run),
                           .in = in,
                           .bytes = bytes,
                           .room = room_at(d, in, bytes),
                           .pair_bytes_max = pair_bytes_max(d),
                           .out = row_at(d, d->tile.token + d->token, d->tile.head),
                           .token_bytes = stride,
                           .head_bytes = d->row_head_bytes};
}

static sky_status end_pairs(sky_decoder *d, const sky_pairs_job *job) {
    return end_tokens(d, 2 * job->pairs, job->used);
}

/* A row of each half, from sums to differences. Returns the bytes they took; SIZE_MAX: damage */
static size_t decode_rows(sky_decoder *d, uint32_t count, const uint8_t *in, size_t bytes,
                          int16_t (*levels)[SKY_WIDTH_MAX]) {
    size_t at = 0;
    for (uint32_t half = 0; half < count; half++) {
        size_t took = d->kernels->row_decode(&d->rows, tables_of(d, d->fineness_used), half,
                                             in + at, levels[half]);
        if (took > bytes - at)
            return SIZE_MAX;
        at += took;
    }
    return at;
}

/* As kernels.h says of pairs_decode. */
static void decode_pairs(sky_decoder *d, sky_pairs_job *job) {
    size_t at = 0, took;
    uint32_t pairs = 0;
    do {
        took = decode_rows(d, 2, job->in + at, job->bytes - at, d->levels + 2 * pairs);
        at += took;
        pairs += took != SIZE_MAX;
    } while (took != SIZE_MAX && pairs < job->pairs && at + job->pair_bytes_max <= job->bytes);
    job->pairs = pairs;
    job->used = took == SIZE_MAX ? SIZE_MAX : at;
    d->kernels->restore_pairs(
        job->t, d->levels,
        &(sky_pairs_out){pairs, job->turn_on, job->out, job->token_bytes, job->head_bytes});
}

/* A tile's last token, when it has no partner. */
static sky_status decode_single(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    uint8_t *const out[2] = {row_at(d, d->tile.token + d->token, d->tile.head), NULL};
    *used = decode_rows(d, 1, in, bytes, d->levels);
    if (*used == SIZE_MAX)
        return SKY_E_CORRUPT;
    if (d->token > 0)
        d->kernels->turn_on(&d->transform);
    if (d->tile.tokens > 1)
        d->kernels->scale(&d->transform, 1);
    d->kernels->restore(&d->transform, d->levels[0], NULL, out, d->row_head_bytes);
    return end_tokens(d, 1, *used);
}

static sky_status unit_rows(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    if (d->token + 1 == d->tile.tokens)
        return decode_single(d, in, bytes, used);
    sky_pairs_job job = begin_pairs(d, in, bytes);
    if (d->kernels->pairs_decode)
        d->kernels->pairs_decode(&job, 1);
    else
        decode_pairs(d, &job);
    *used = job.used;
    return end_pairs(d, &job);
}

/* Both rows of a token, and f32's low bits. */
static size_t exact_bytes_max(const sky_decoder *d) {
    return pair_bytes_max(d) + 2 * (size_t)d->tile.width;
}

static sky_exact_job begin_exact(sky_decoder *d, const uint8_t *in, size_t bytes) {
    ptrdiff_t stride;
    uint32_t run = run_at(d, d->tile.token + d->token, d->tile.tokens - d->token, &stride);
    return (sky_exact_job){.rows = &d->rows,
                           .tables = &d->tables,
                           .exact = &d->exact,
                           .tokens = run,
                           .in = in,
                           .bytes = bytes,
                           .room = room_at(d, in, bytes),
                           .token_bytes_max = exact_bytes_max(d),
                           .out = row_at(d, d->tile.token + d->token, d->tile.head),
                           .token_bytes = stride,
                           .head_bytes = d->row_head_bytes};
}

/* As kernels.h says of exact_decode, one token. */
static void decode_exact(sky_decoder *d, sky_exact_job *job) {
    size_t low_bytes = d->shape.element == SKY_ELEMENT_F32 ? 2 * (size_t)d->tile.width : 0;
    size_t at = decode_rows(d, 2, job->in, job->bytes, d->levels);
    job->tokens = 0;
    job->used = SIZE_MAX;
    if (at != SIZE_MAX && low_bytes <= job->bytes - at &&
        d->kernels->join(&d->exact, d->levels[0], d->levels[1], low_bytes ? job->in + at : NULL,
                         job->out, job->head_bytes)) {
        job->tokens = 1;
        job->used = at + low_bytes;
    }
}

static sky_status unit_exact_row(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    sky_exact_job job = begin_exact(d, in, bytes);
    if (d->kernels->exact_decode)
        d->kernels->exact_decode(&job, 1);
    else
        decode_exact(d, &job);
    *used = job.used;
    return end_tokens(d, job.tokens, job.used);
}

static sky_status decode_unit(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *used) {
    switch (d->at) {
    case AT_HEADER:
        return unit_header(d, in, bytes, used);
    case AT_FINENESS:
        return unit_fineness(d, in, bytes, used);
    case AT_FIRST_TOKEN:
        return unit_first_token(d, in, bytes, used);
    case AT_TILE:
        return unit_tile(d, in, bytes, used);
    case AT_TILE_HEAD:
        return is_exact(d) ? unit_exact_head(d, in, bytes, used)
                           : unit_tile_head(d, in, bytes, used);
    case AT_RAW_ROW:
        return unit_raw_row(d, in, bytes, used);
    case AT_ROWS:
        return unit_rows(d, in, bytes, used);
    case AT_EXACT_ROW:
        return unit_exact_row(d, in, bytes, used);
    case AT_END:
        break;
    }
    return SKY_E_CORRUPT;
}

/* The most bytes the unit at hand takes, no more than the stream has. */
static size_t unit_bytes_max(const sky_decoder *d) {
    size_t most = UNIT_BYTES_MAX;
    if (d->at == AT_HEADER)
        most = SKY_STREAM_HEADER_BYTES;
    else if (d->at == AT_FINENESS)
        most = sky_fineness_bytes(coded_tokens(d));
    else if (d->at == AT_FIRST_TOKEN || d->at == AT_RAW_ROW)
        most = head_bytes(d);
    else if (d->at == AT_TILE)
        most = SKY_TILE_HEAD_BYTES;
    else if (d->at == AT_TILE_HEAD)
        most = tile_head_bytes(d);
    else if (d->at == AT_ROWS)
        most = pair_bytes_max(d);
    else if (d->at == AT_EXACT_ROW)
        most = exact_bytes_max(d);
    return most < d->left ? most : d->left;
}

/* ---- pieces ---- */

/* sky_decoder_init of a stream of any length, but for where it goes: none at all is damage, where
 * its bytes are there. */
static sky_status decoder_begin(void *memory, const sky_profile *profile,
                                const sky_stream_shape *shape, size_t stream_bytes,
                                sky_decoder **out) {
    sky_decoder *d = memory;
    if (!memory || (uintptr_t)memory % 64 != 0 || !sky__stream_shape_valid(shape))
        return SKY_E_PARAM;
    d->kernels = sky__kernels();
    d->profile = profile;
    d->taken = (sky_stream_profile){0};
    d->shape = *shape;
    d->at = AT_HEADER;
    d->failed = SKY_OK;
    d->left = stream_bytes;
    d->carried = 0;
    d->token = d->head = 0;
    d->done_tokens = 0;
    d->fineness_used = SKY_FINENESS_USUAL;
    memset(d->tables.slots.made, 0, sizeof d->tables.slots.made);
    *out = d;
    return SKY_OK;
}

static sky_status aim_at(sky_decoder *d, const sky_tensor *dst) {
    if (!sky__tensor_holds(dst, &d->shape))
        return SKY_E_PARAM;
    for (uint32_t i = 0; i < d->shape.token_count; i++)
        d->row_at[i] = sky__tensor_row(dst, dst->first_token + i);
    d->row_head_bytes = dst->head_bytes;
    return SKY_OK;
}

sky_status sky_decoder_init(void *memory, const sky_profile *profile, const sky_stream_shape *shape,
                            size_t stream_bytes, sky_tensor dst, sky_decoder **out) {
    sky_decoder *d;
    if (!out || stream_bytes == 0 || stream_bytes > SKY_STREAM_BYTES_MAX)
        return SKY_E_PARAM;
    sky_status status = decoder_begin(memory, profile, shape, stream_bytes, &d);
    if (status == SKY_OK)
        status = aim_at(d, &dst);
    if (status == SKY_OK)
        *out = d;
    return status;
}

/* Decode the units that lie in [in, in + bytes) whole; *at tells how far. */
static sky_status decode_in_place(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *at) {
    while (d->at != AT_END && bytes - *at >= unit_bytes_max(d) + SLACK) {
        size_t used;
        sky_status status = decode_unit(d, in + *at, bytes - *at - SLACK, &used);
        if (status != SKY_OK)
            return status;
        *at += used;
        d->left -= used;
    }
    return SKY_OK;
}

/* Gather one unit in carry and decode it; SKY_PENDING when there is not enough of it yet. */
static sky_status decode_carried(sky_decoder *d, const uint8_t *in, size_t bytes, size_t *at) {
    size_t most = unit_bytes_max(d), before = d->carried, used;
    size_t wanted = most > before ? most - before : 0;
    size_t fresh = wanted < bytes - *at ? wanted : bytes - *at;
    if (fresh)
        memcpy(d->carry + before, in + *at, fresh);
    *at += fresh;
    d->carried += fresh;
    if (d->carried < most)
        return SKY_PENDING;
    sky_status status = decode_unit(d, d->carry, most, &used);
    if (status != SKY_OK)
        return status;
    d->left -= used;
    if (used >= before) { /* the rest is in the piece */
        *at -= d->carried - used;
        d->carried = 0;
    } else {
        d->carried -= used;
        memmove(d->carry, d->carry + used, d->carried);
    }
    return SKY_OK;
}

sky_status sky_decoder_feed(sky_decoder *d, const void *data, size_t bytes) {
    if (!d || (!data && bytes > 0))
        return SKY_E_PARAM;
    size_t at = 0;
    sky_status status = d->failed;
    const fenv_t before = sky_floats_begin();
    if (status == SKY_OK && bytes > d->left - d->carried)
        status = SKY_E_CORRUPT;
    while (status == SKY_OK && d->at != AT_END) {
        if (!d->carried)
            status = decode_in_place(d, data, bytes, &at);
        if (status == SKY_OK && d->at != AT_END)
            status = decode_carried(d, data, bytes, &at);
    }
    if (status == SKY_OK && d->left)
        status = SKY_E_CORRUPT; /* bytes after the last row */
    if (status < 0)
        d->failed = status;
    sky_floats_restore(&before);
    return status;
}

uint32_t sky_decoder_tokens(const sky_decoder *d) {
    return d ? d->done_tokens : 0;
}

/* ---- streams that are all there ---- */

/* One of them. */
typedef struct {
    sky_decoder *d;
    const uint8_t *in; /* d->left bytes */
    bool carried;      /* they are in d->carry */
    sky_status status;
} reading;

static bool reading_is_unfinished(const reading *r) {
    return r->status == SKY_OK && r->d->at != AT_END;
}

/* The end of a stream is decoded in carry, where there is room to read past it. Returns the bytes
 * there are for the unit at hand. */
static size_t have_unit(reading *r) {
    sky_decoder *d = r->d;
    if (!r->carried && d->left < unit_bytes_max(d) + SLACK) {
        memcpy(d->carry, r->in, d->left);
        r->in = d->carry;
        r->carried = true;
    }
    return r->carried ? d->left : d->left - SLACK;
}

static void reading_account(reading *r, sky_status status, size_t used) {
    r->status = status;
    if (status != SKY_OK)
        return;
    r->in += used;
    r->d->left -= used;
}

static void read_unit(reading *r) {
    size_t used, bytes = have_unit(r);
    sky_status status = decode_unit(r->d, r->in, bytes, &used);
    reading_account(r, status, used);
}

/* Does a kernel take the unit at hand together with another stream's like it? */
static bool pairs_up(const sky_decoder *d) {
    return (d->at == AT_EXACT_ROW && d->kernels->exact_decode) ||
           (d->at == AT_ROWS && d->kernels->pairs_decode && d->token + 1 < d->tile.tokens);
}

static void read_exact_rows(reading r[2]) {
    size_t most[2] = {have_unit(&r[0]), have_unit(&r[1])};
    sky_exact_job jobs[2] = {begin_exact(r[0].d, r[0].in, most[0]),
                             begin_exact(r[1].d, r[1].in, most[1])};
    r->d->kernels->exact_decode(jobs, 2);
    for (uint32_t i = 0; i < 2; i++)
        reading_account(&r[i], end_tokens(r[i].d, jobs[i].tokens, jobs[i].used), jobs[i].used);
}

static void read_pairs(reading r[2]) {
    size_t bytes[2] = {have_unit(&r[0]), have_unit(&r[1])};
    sky_pairs_job jobs[2] = {begin_pairs(r[0].d, r[0].in, bytes[0]),
                             begin_pairs(r[1].d, r[1].in, bytes[1])};
    r->d->kernels->pairs_decode(jobs, 2);
    for (uint32_t i = 0; i < 2; i++)
        reading_account(&r[i], end_pairs(r[i].d, &jobs[i]), jobs[i].used);
}

/* As long as both go on: rows of both together, anything else of the one that stands at it. */
static void read_two(reading r[2]) {
    while (reading_is_unfinished(&r[0]) && reading_is_unfinished(&r[1])) {
        if (!pairs_up(r[0].d))
            read_unit(&r[0]);
        else if (!pairs_up(r[1].d) || r[0].d->at != r[1].d->at)
            read_unit(&r[1]);
        else if (r[0].d->at == AT_ROWS)
            read_pairs(r);
        else
            read_exact_rows(r);
    }
}

static reading reading_begin(const sky_profile *profile, const sky_stream_in *stream,
                             void *memory) {
    reading r = {.in = stream->data, .status = SKY_E_PARAM};
    if (stream->data)
        r.status = decoder_begin(memory, profile, &stream->shape, stream->bytes, &r.d);
    if (r.status == SKY_OK)
        r.status = aim_at(r.d, &stream->dst);
    return r;
}

static reading begin_to(const sky_profile *profile, const sky__stream_to *stream, void *memory) {
    reading r = {.in = stream->data};
    r.status = decoder_begin(memory, profile, &stream->shape, stream->bytes, &r.d);
    if (r.status == SKY_OK) {
        memcpy(r.d->row_at, stream->rows, stream->shape.token_count * sizeof *stream->rows);
        r.d->row_head_bytes = stream->head_bytes;
    }
    return r;
}

static sky_status reading_end(reading *r) {
    while (reading_is_unfinished(r))
        read_unit(r);
    return r->status == SKY_OK && r->d->left ? SKY_E_CORRUPT /* bytes after the last row */
                                             : r->status;
}

/* Read one or both. */
static sky_status read_all(reading *r, uint32_t count) {
    const fenv_t before = sky_floats_begin();
    if (count == 2)
        read_two(r);
    sky_status first = reading_end(&r[0]), second = count == 2 ? reading_end(&r[1]) : SKY_OK;
    sky_floats_restore(&before);
    return first != SKY_OK ? first : second;
}

sky_status sky_decode(const sky_profile *profile, const sky_stream_shape *shape, const void *data,
                      size_t bytes, sky_tensor dst, void *memory) {
    if (!shape)
        return SKY_E_PARAM;
    sky_stream_in stream = {*shape, data, bytes, dst};
    reading r = reading_begin(profile, &stream, memory);
    return read_all(&r, 1);
}

sky_status sky_decode_two(const sky_profile *profile, const sky_stream_in streams[2], void *work) {
    uint8_t *memory = work;
    if (!streams || !work)
        return SKY_E_PARAM;
    reading r[2] = {reading_begin(profile, &streams[0], memory),
                    reading_begin(profile, &streams[1], memory + SKY_DECODER_BYTES)};
    return read_all(r, 2);
}

sky_status sky__decode_rows(const sky_profile *profile, const sky__stream_to *streams,
                            uint32_t count, void *work) {
    reading r[2] = {begin_to(profile, &streams[0], work)};
    if (count > 1)
        r[1] = begin_to(profile, &streams[1], (uint8_t *)work + SKY_DECODER_BYTES);
    return read_all(r, count);
}
