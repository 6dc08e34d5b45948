/* See stream.h. */
#include "codec/stream.h"

#include <string.h>

#include "base/bytes.h"

/* ---- header ---- */

bool sky__stream_shape_valid(const sky_stream_shape *s) {
    return s && sky_kv_valid(s->kv) && s->element >= SKY_ELEMENT_F16 &&
           s->element <= SKY_ELEMENT_BF16 && s->token_count >= 1 &&
           s->token_count <= SKY_STREAM_TOKENS_MAX && s->head_dim >= 1 &&
           s->head_dim <= SKY_HEAD_DIM_MAX && s->kv_heads >= 1 &&
           s->kv_heads <= SKY_ROW_ELEMENTS_MAX / s->head_dim;
}

bool sky__tensor_holds(const sky_tensor *t, const sky_stream_shape *s) {
    return sky_tensor_check(t, NULL) == SKY_OK && t->element == s->element &&
           t->heads == s->kv_heads && t->dim == s->head_dim && t->token_count == s->token_count &&
           sky__tensor_has_heads(t);
}

size_t sky_stream_rows_bytes(const sky_stream_shape *s) {
    if (!sky__stream_shape_valid(s))
        return 0;
    return (size_t)s->token_count * s->kv_heads * s->head_dim * sky_element_bytes(s->element);
}

void sky__stream_header_write(const sky_stream_header *header, const sky_stream_shape *shape,
                              uint8_t *out) {
    out[0] = header->flags & SKY_STREAM_FINENESS ? 2 : 1;
    out[1] = header->level;
    out[2] = header->flags;
    out[3] = (uint8_t)(shape->element | (uint32_t)shape->kv << 4);
    sky_store_u16(out + 4, (uint16_t)shape->token_count);
    sky_store_u16(out + 6, (uint16_t)shape->head_dim);
    sky_store_u32(out + 8, shape->kv_heads);
    sky_store_u32(out + 12, shape->first_position);
    sky_store_u64(out + 16, header->profile_id);
}

static sky_status header_parse(const uint8_t *in, size_t bytes, sky_stream_header *out) {
    if (bytes < SKY_STREAM_HEADER_BYTES || in[0] == 0)
        return SKY_E_CORRUPT;
    if (in[0] > SKY_STREAM_VERSION)
        return SKY_E_UNSUPPORTED;
    sky_stream_header h = {in[1], in[2], sky_load_u64(in + 16)};
    bool profiled = h.flags & SKY_STREAM_OF_PROFILE;
    uint8_t others = h.level == SKY_LEVEL_LOSSLESS
                         ? SKY_STREAM_FLAGS ^ SKY_STREAM_FIRST_RAW ^ SKY_STREAM_TABLES
                         : SKY_STREAM_TABLES; /* that this level has not */
    if (h.level >= SKY_LEVEL_COUNT || (h.flags & others) ||
        (in[0] == 2) != ((h.flags & SKY_STREAM_FINENESS) != 0) ||
        ((h.flags & SKY_STREAM_PAIRS) && (h.flags & SKY_STREAM_KLT)) ||
        (profiled && h.profile_id == 0))
        return SKY_E_CORRUPT;
    *out = h;
    return SKY_OK;
}

sky_status sky__stream_header_read(const uint8_t *in, size_t bytes, const sky_stream_shape *shape,
                                   sky_stream_header *out) {
    sky_stream_header h;
    uint8_t again[SKY_STREAM_HEADER_BYTES];
    sky_status status = header_parse(in, bytes, &h);
    if (status != SKY_OK)
        return status;
    sky__stream_header_write(&h, shape, again);
    if (memcmp(again, in, sizeof again) != 0)
        return SKY_E_CORRUPT;
    *out = h;
    return SKY_OK;
}

sky_status sky_stream_info_read(const void *data, size_t bytes, sky_stream_info *info) {
    sky_stream_header h;
    if (!data || !info)
        return SKY_E_PARAM;
    sky_status status = header_parse(data, bytes, &h);
    if (status != SKY_OK)
        return status;
    *info = (sky_stream_info){.level = (sky_level)h.level,
                              .plain = h.flags & SKY_STREAM_PLAIN,
                              .first_token_raw = h.flags & SKY_STREAM_FIRST_RAW,
                              .calibrated = h.profile_id != 0,
                              .profile_id = h.profile_id};
    return SKY_OK;
}

/* ---- profile ---- */

sky_status sky__stream_profile(const sky_profile *profile, const sky_stream_shape *shape,
                               sky_stream_profile *out) {
    *out = (sky_stream_profile){0};
    if (!profile)
        return SKY_OK;
    const sky_profile_stream *s = sky__profile_stream(profile, shape->layer, shape->kv);
    if (!profile->sealed || !s || s->heads != shape->kv_heads || s->dim != shape->head_dim)
        return SKY_E_PARAM;
    *out = (sky_stream_profile){s, sky__profile_rope_of(profile, shape->layer, shape->kv),
                                profile->id};
    return SKY_OK;
}

/* ---- tiles ---- */

sky_tiles sky__tiles_of(const sky_stream_shape *shape, bool first_raw) {
    return (sky_tiles){.slices = sky_slices_of(shape->kv_heads, shape->head_dim),
                       .heads = shape->kv_heads,
                       .dim = shape->head_dim,
                       .tokens = shape->token_count,
                       .token = first_raw};
}

bool sky__tiles_next(sky_tiles *t, sky_tile *out) {
    if (t->token >= t->tokens)
        return false;
    uint32_t left = t->tokens - t->token;
    uint32_t tokens = left < t->slices.segment_tokens ? left : t->slices.segment_tokens;
    uint32_t heads = sky_slice_heads(&t->slices, t->heads, t->slice);
    *out = (sky_tile){t->token, tokens,        t->slice, t->slice * t->slices.heads_max,
                      heads,    heads * t->dim};
    if (++t->slice == t->slices.count) {
        t->slice = 0;
        t->token += tokens;
    }
    return true;
}

size_t sky__tile_head_bytes(const sky_stream_header *header, sky_element element, uint32_t width,
                            uint8_t tile_flags, uint32_t exceptions) {
    size_t keys = (width + 1) / 2, bytes = SKY_STATE_BYTES;
    if (tile_flags & SKY_TILE_OWN_CLASSES)
        bytes += 2 * (size_t)(sky_padded(width) / SKY_UNIT);
    if (header->level == SKY_LEVEL_LOSSLESS) /* one set of keys, and usual exponents */
        return bytes + (tile_flags & SKY_TILE_OWN_ORDER ? width + keys : 0);
    if (tile_flags & SKY_TILE_OWN_ORDER)
        bytes += 2 * keys;
    if (!(header->flags & SKY_STREAM_MEAN))
        bytes += 2 * (size_t)width;
    return bytes + exceptions * (size_t)(4 + sky_element_bytes(element));
}

void sky__tile_transform(const sky_stream_profile *profile, const sky_stream_shape *shape,
                         uint8_t flags, const sky_tile *tile, bool encode, sky_transform *out) {
    const sky_profile_stream *s = profile->stream;
    uint32_t pairs = shape->head_dim / 2;
    out->element = shape->element;
    out->heads = tile->heads;
    out->dim = shape->head_dim;
    out->width = tile->width;
    out->padded = sky_padded(tile->width);
    out->rope = flags & SKY_STREAM_ROPE ? profile->rope : NULL;
    out->pairs = flags & SKY_STREAM_PAIRS;
    out->klt = flags & SKY_STREAM_KLT;
    out->matrix = NULL;
    out->matrix_pitch = (size_t)shape->kv_heads * pairs;
    if (out->pairs)
        out->matrix = (encode ? s->f : s->g) + tile->head * pairs;
    if (out->klt)
        out->matrix = (encode ? s->klt_f : s->klt_g) + tile->head * sky_klt_floats(shape->head_dim);
    memset(out->mean, 0, sizeof out->mean);
    if (flags & SKY_STREAM_MEAN)
        memcpy(out->mean, s->mean + (size_t)tile->head * shape->head_dim,
               tile->width * sizeof *out->mean);
}

void sky__tile_order(const sky_stream_profile *profile, const sky_stream_shape *shape,
                     const sky_tile *tile, sky_basis basis, sky_coder *rows) {
    const sky_profile_stream *s = profile->stream;
    sky_slices slices = sky_slices_of(shape->kv_heads, shape->head_dim);
    for (uint32_t half = 0; half < 2; half++) {
        if (s && s->sorted[basis]) {
            size_t padded = (size_t)s->units * SKY_UNIT, bytes = rows->steps * SKY_LANES * 2;
            const uint16_t *from = s->sorted[basis] + 2 * half * padded +
                                   (size_t)tile->slice * slices.padded_max;
            memcpy(rows->channel[half], from, bytes);
            memcpy(rows->place[half], from + padded, bytes);
            continue;
        }
        sky__rows_order(rows, half,
                        s && s->order[basis] ? s->order[basis] + half * (size_t)s->channels +
                                                   (size_t)tile->head * shape->head_dim
                                             : NULL);
    }
}

void sky__tile_exact(const sky_stream_profile *profile, const sky_stream_shape *shape,
                     const sky_tile *tile, bool calibrated, sky_exact *out, sky_coder *rows) {
    *out = (sky_exact){.element = shape->element,
                       .heads = tile->heads,
                       .dim = shape->head_dim,
                       .width = tile->width,
                       .padded = sky_padded(tile->width)};
    sky__rows_init(rows, tile->width, true);
    if (!calibrated)
        return;
    const sky_profile_stream *s = profile->stream;
    sky_slices slices = sky_slices_of(shape->kv_heads, shape->head_dim);
    const uint8_t *usual = s->exact + (size_t)tile->head * shape->head_dim,
                  *classes = s->exact + 2 * (size_t)s->channels +
                             (size_t)tile->slice * (slices.padded_max / SKY_UNIT);
    uint32_t rebias = shape->element == SKY_ELEMENT_F16 ? 112 : 0;
    for (uint32_t i = 0; i < tile->width; i++)
        out->usual[i] = (uint8_t)(usual[i] > rebias ? usual[i] - rebias : 0);
    sky__rows_order(rows, 0, usual + s->channels);
    memcpy(rows->channel[1], rows->channel[0], sizeof rows->channel[0]);
    memcpy(rows->place[1], rows->place[0], sizeof rows->place[0]);
    for (uint32_t half = 0; half < 2; half++) {
        sky__rows_exact_classes(rows, half, classes + half * (size_t)s->units,
                                sky_exact_shift(shape->element));
    }
}

const uint8_t *sky__tile_classes(const sky_stream_profile *profile, const sky_stream_shape *shape,
                                 const sky_tile *tile, sky_level level, bool dependent,
                                 uint32_t half) {
    if (!profile->stream)
        return NULL;
    const uint8_t *classes = sky__profile_classes(profile->stream, level, dependent, half);
    sky_slices slices = sky_slices_of(shape->kv_heads, shape->head_dim);
    return classes ? classes + (size_t)tile->slice * (slices.padded_max / SKY_UNIT) : NULL;
}
