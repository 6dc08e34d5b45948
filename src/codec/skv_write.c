/* Writing a container, and lowering one to a coarser level. See skv.h. */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "codec/skv.h"
#include "codec/stream.h"

static bool shape_valid(const sky_skv_shape *shape) {
    if (!shape || !shape->layers || !shape->layer_count || shape->layer_count > SKY_LAYERS_MAX ||
        !shape->token_count || shape->token_count > SKY_STREAM_TOKENS_MAX)
        return false;
    for (uint32_t i = 0; i < shape->layer_count; i++)
        if (!sky__skv_layer_valid(&shape->layers[i]))
            return false;
    return true;
}

size_t sky_skv_header_bytes(const sky_skv_shape *shape) {
    return shape_valid(shape) ? sky_skv_size_of_header(shape->layer_count) : 0;
}

size_t sky_skv_bound(const sky_skv_shape *shape) {
    size_t bytes = sky_skv_header_bytes(shape);
    for (uint32_t i = 0; bytes && i < 2 * shape->layer_count; i++) {
        sky_stream_shape s = sky__skv_shape(&shape->layers[i / 2], i, shape->token_count,
                                            shape->first_position);
        bytes += sky_encode_bound(&s);
    }
    return bytes;
}

/* ---- writing ---- */

static void write_entry(sky_skv_writer *w, uint32_t index, size_t bytes, uint8_t level) {
    uint8_t *out = w->dst + sky_skv_entry_offset(w->shape.layer_count, index);
    memset(out, 0, SKY_SKV_ENTRY_BYTES);
    sky_store_u64(out, w->at);
    sky_store_u32(out + 8, (uint32_t)bytes);
    out[12] = level;
    if (bytes)
        sky_store_u64(out + 16,
                      sky__skv_checksum(w->dst + w->at, bytes, index, w->shape.first_position));
    w->at += bytes;
    w->next = index + 1;
}

static void write_head(const sky_skv_shape *shape, uint64_t profile_id, uint8_t *out) {
    sky_store_u32(out, SKY_SKV_MAGIC);
    sky_store_u16(out + 4, SKY_SKV_VERSION);
    sky_store_u16(out + 6, (uint16_t)shape->layer_count);
    sky_store_u32(out + 8, shape->token_count);
    sky_store_u32(out + 12, shape->first_position);
    sky_store_u64(out + 16, profile_id);
    memcpy(out + 24, shape->fingerprint, 32);
    sky_store_u32(out + 56, (uint32_t)sky_skv_size_of_header(shape->layer_count));
    sky_store_u32(out + 60, 0);
    for (uint32_t i = 0; i < shape->layer_count; i++) {
        uint8_t *to = out + SKY_SKV_HEAD_BYTES + (size_t)i * SKY_SKV_LAYER_BYTES;
        const sky_skv_layer *l = &shape->layers[i];
        sky_store_u32(to, l->kv_heads);
        sky_store_u16(to + 4, (uint16_t)l->k_dim);
        sky_store_u16(to + 6, (uint16_t)l->v_dim);
        to[8] = (uint8_t)l->k_element;
        to[9] = (uint8_t)l->v_element;
        sky_store_u16(to + 10, 0);
    }
}

sky_status sky_skv_begin(sky_skv_writer *writer, const sky_skv_shape *shape,
                         const sky_profile *profile, void *dst, size_t dst_bytes_max) {
    size_t header = sky_skv_header_bytes(shape);
    if (!header || !writer || !dst)
        return SKY_E_PARAM;
    if (dst_bytes_max < header)
        return SKY_E_DST_SMALL;
    *writer = (sky_skv_writer){*shape, profile, dst, dst_bytes_max, header, 0};
    write_head(shape, sky_profile_id(profile), dst);
    return SKY_OK;
}

/* The stream's shape, if its turn is not over. */
static sky_status shape_at(const sky_skv_writer *w, uint32_t layer, sky_kv kv,
                           sky_stream_shape *shape) {
    uint32_t index = 2 * layer + (uint32_t)kv;
    if (!w || layer >= w->shape.layer_count || !sky_kv_valid(kv) || index < w->next)
        return SKY_E_PARAM;
    *shape = sky__skv_shape(&w->shape.layers[layer], index, w->shape.token_count,
                            w->shape.first_position);
    return SKY_OK;
}

/* Go on to the stream's entry, leaving out those before. */
static void writer_advance(sky_skv_writer *w, const sky_stream_shape *shape) {
    while (w->next < 2 * shape->layer + (uint32_t)shape->kv)
        write_entry(w, w->next, 0, 0);
}

sky_status sky_skv_put(sky_skv_writer *w, uint32_t layer, sky_kv kv,
                       const sky_encode_options *options, sky_tensor src, void *work) {
    sky_stream_shape shape;
    size_t bytes;
    sky_status status = shape_at(w, layer, kv, &shape);
    if (status == SKY_OK)
        status = sky_encode(w->profile, &shape, options, src, w->dst + w->at,
                            w->dst_bytes_max - w->at, &bytes, work);
    if (status != SKY_OK)
        return status;
    writer_advance(w, &shape);
    write_entry(w, w->next, bytes, (uint8_t)options->level);
    return SKY_OK;
}

sky_status sky_skv_put_stream(sky_skv_writer *w, uint32_t layer, sky_kv kv, const void *stream,
                              size_t bytes) {
    sky_stream_shape shape;
    sky_stream_header header;
    sky_status status = stream ? shape_at(w, layer, kv, &shape) : SKY_E_PARAM;
    if (status == SKY_OK)
        status = sky__stream_header_read(stream, bytes, &shape, &header);
    if (status == SKY_OK && header.profile_id && header.profile_id != sky_profile_id(w->profile))
        status = SKY_E_PARAM;
    if (status != SKY_OK)
        return status;
    if (bytes > w->dst_bytes_max - w->at || bytes > UINT32_MAX)
        return SKY_E_DST_SMALL;
    writer_advance(w, &shape);
    memcpy(w->dst + w->at, stream, bytes);
    write_entry(w, w->next, bytes, header.level);
    return SKY_OK;
}

sky_status sky_skv_end(sky_skv_writer *w, size_t *dst_bytes) {
    if (!w || !w->dst || !dst_bytes)
        return SKY_E_PARAM;
    while (w->next < 2 * w->shape.layer_count)
        write_entry(w, w->next, 0, 0);
    size_t header = sky_skv_size_of_header(w->shape.layer_count);
    sky_store_u64(w->dst + header - 8, sky_checksum(w->dst, header - 8, 0));
    *dst_bytes = w->at;
    return SKY_OK;
}

/* ---- lowering ---- */

static bool entry_is_lowered(const sky_skv_entry *e, sky_level level) {
    return e->bytes && e->level < level;
}

/* | working memory, for decoder and encoder in turn | layers | rows of the largest stream | */
static size_t layers_bytes(const sky_skv *skv) {
    return (skv->layer_count * sizeof(sky_skv_layer) + 63) / 64 * 64;
}

static_assert(SKY_DECODER_BYTES == SKY_ENCODE_WORK_BYTES, "one room for both");

size_t sky_skv_lower_bytes(const sky_skv *skv) {
    size_t most = 0;
    if (!skv)
        return 0;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_stream_shape s;
        sky_skv_entry e;
        sky_skv_stream_shape(skv, i / 2, (sky_kv)(i & 1), &s);
        sky_skv_entry_at(skv, i / 2, (sky_kv)(i & 1), &e);
        if (e.bytes && sky_stream_rows_bytes(&s) > most)
            most = sky_stream_rows_bytes(&s);
    }
    return SKY_DECODER_BYTES + layers_bytes(skv) + most;
}

static sky_status lower_stream(const sky_skv *skv, sky_skv_writer *w, uint32_t index,
                               const sky_encode_options *options, uint8_t *rows, void *work) {
    uint32_t layer = index / 2;
    sky_kv kv = (sky_kv)(index & 1);
    sky_skv_entry e;
    sky_stream_shape shape;
    sky_stream_info info;
    sky_skv_entry_at(skv, layer, kv, &e);
    sky_skv_stream_shape(skv, layer, kv, &shape);
    if (e.offset + e.bytes > skv->held_bytes)
        return SKY_E_PARAM;
    sky_status status = sky_skv_stream_check(skv, layer, kv, skv->data + e.offset, (size_t)e.bytes);
    if (status == SKY_OK)
        status = sky_stream_info_read(skv->data + e.offset, (size_t)e.bytes, &info);
    if (status != SKY_OK)
        return status;
    if (!entry_is_lowered(&e, options->level))
        return sky_skv_put_stream(w, layer, kv, skv->data + e.offset, (size_t)e.bytes);
    const sky_tensor packed = sky_stream_packed(&shape, rows);
    status = sky_decode(w->profile, &shape, skv->data + e.offset, (size_t)e.bytes, packed, work);
    sky_encode_options how = *options;
    how.first_token_raw = info.first_token_raw || options->first_token_raw;
    return status == SKY_OK ? sky_skv_put(w, layer, kv, &how, packed, work) : status;
}

size_t sky_skv_lower_bound(const sky_skv *skv, sky_level level) {
    if (!skv || !sky_level_name(level))
        return 0;
    size_t bytes = skv->header_bytes;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_stream_shape s;
        sky_skv_entry e;
        sky_skv_stream_shape(skv, i / 2, (sky_kv)(i & 1), &s);
        sky_skv_entry_at(skv, i / 2, (sky_kv)(i & 1), &e);
        bytes += entry_is_lowered(&e, level) ? sky_encode_bound(&s) : (size_t)e.bytes;
    }
    return bytes;
}

/* A container that is at the level already. */
static sky_status copy_whole(const sky_skv *skv, void *dst, size_t dst_bytes_max,
                             size_t *dst_bytes) {
    sky_status status = sky_skv_verify(skv);
    if (status == SKY_OK && dst_bytes_max < skv->bytes)
        status = SKY_E_DST_SMALL;
    if (status != SKY_OK)
        return status;
    memcpy(dst, skv->data, (size_t)skv->bytes);
    *dst_bytes = (size_t)skv->bytes;
    return SKY_OK;
}

static bool any_lowered(const sky_skv *skv, sky_level level) {
    bool any = false;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_skv_entry e;
        sky_skv_entry_at(skv, i / 2, (sky_kv)(i & 1), &e);
        any |= entry_is_lowered(&e, level);
    }
    return any;
}

sky_status sky_skv_lower(const sky_skv *skv, const sky_profile *profile,
                         const sky_encode_options *options, void *dst, size_t dst_bytes_max,
                         size_t *dst_bytes, void *work) {
    if (!skv || !options || !sky_level_name(options->level) || !dst || !dst_bytes || !work ||
        (uintptr_t)work % 64 != 0)
        return SKY_E_PARAM;
    if (!any_lowered(skv, options->level))
        return copy_whole(skv, dst, dst_bytes_max, dst_bytes);
    sky_skv_layer *layers = (void *)((uint8_t *)work + SKY_DECODER_BYTES);
    uint8_t *rows = (uint8_t *)layers + layers_bytes(skv);
    sky_skv_shape shape = {skv->token_count, skv->first_position, skv->layer_count, layers, {0}};
    sky_skv_writer w;
    memcpy(shape.fingerprint, skv->fingerprint, sizeof shape.fingerprint);
    for (uint32_t i = 0; i < skv->layer_count; i++)
        sky_skv_layer_at(skv, i, &layers[i]);
    sky_status status = sky_skv_begin(&w, &shape, profile, dst, dst_bytes_max);
    for (uint32_t i = 0; status == SKY_OK && i < 2 * skv->layer_count; i++) {
        sky_skv_entry e;
        sky_skv_entry_at(skv, i / 2, (sky_kv)(i & 1), &e);
        if (e.bytes)
            status = lower_stream(skv, &w, i, options, rows, work);
    }
    return status == SKY_OK ? sky_skv_end(&w, dst_bytes) : status;
}
