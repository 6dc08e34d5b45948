/* Reading a container. See skv.h; writing: skv_write.c. */
#include "codec/skv.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "codec/stream.h"

bool sky__skv_layer_valid(const sky_skv_layer *l) {
    uint32_t dim = l->k_dim > l->v_dim ? l->k_dim : l->v_dim;
    return l->kv_heads >= 1 && l->k_dim >= 1 && l->v_dim >= 1 && dim <= SKY_HEAD_DIM_MAX &&
           l->kv_heads <= SKY_ROW_ELEMENTS_MAX / dim && l->k_element >= SKY_ELEMENT_F16 &&
           l->k_element <= SKY_ELEMENT_BF16 && l->v_element >= SKY_ELEMENT_F16 &&
           l->v_element <= SKY_ELEMENT_BF16;
}

sky_stream_shape sky__skv_shape(const sky_skv_layer *l, uint32_t index, uint32_t token_count,
                                uint32_t first_position) {
    sky_kv kv = (sky_kv)(index & 1);
    return (sky_stream_shape){.layer = index / 2,
                              .kv = kv,
                              .element = kv == SKY_KV_K ? l->k_element : l->v_element,
                              .token_count = token_count,
                              .kv_heads = l->kv_heads,
                              .head_dim = kv == SKY_KV_K ? l->k_dim : l->v_dim,
                              .first_position = first_position};
}

uint64_t sky__skv_checksum(const void *stream, size_t bytes, uint32_t index,
                           uint32_t first_position) {
    return sky_checksum(stream, bytes, (uint64_t)first_position << 32 | index);
}

/* ---- opening ---- */

static sky_skv_layer layer_read(const uint8_t *in) {
    return (sky_skv_layer){.kv_heads = sky_load_u32(in),
                           .k_dim = sky_load_u16(in + 4),
                           .v_dim = sky_load_u16(in + 6),
                           .k_element = (sky_element)in[8],
                           .v_element = (sky_element)in[9]};
}

static sky_skv_entry entry_read(const uint8_t *in) {
    return (sky_skv_entry){.offset = sky_load_u64(in),
                           .bytes = sky_load_u32(in + 8),
                           .level = (sky_level)in[12],
                           .checksum = sky_load_u64(in + 16)};
}

static sky_status head_read(const uint8_t *in, sky_skv *skv) {
    if (sky_load_u32(in) != SKY_SKV_MAGIC || sky_load_u16(in + 4) == 0)
        return SKY_E_CORRUPT;
    if (sky_load_u16(in + 4) > SKY_SKV_VERSION)
        return SKY_E_UNSUPPORTED;
    skv->layer_count = sky_load_u16(in + 6);
    skv->token_count = sky_load_u32(in + 8);
    skv->first_position = sky_load_u32(in + 12);
    skv->profile_id = sky_load_u64(in + 16);
    memcpy(skv->fingerprint, in + 24, 32);
    if (skv->layer_count == 0 || skv->layer_count > SKY_LAYERS_MAX || skv->token_count == 0 ||
        skv->token_count > SKY_STREAM_TOKENS_MAX || sky_load_u32(in + 60) != 0 ||
        sky_load_u32(in + 56) != sky_skv_size_of_header(skv->layer_count))
        return SKY_E_CORRUPT;
    skv->header_bytes = sky_load_u32(in + 56);
    return SKY_OK;
}

/* Streams without gaps up to the end, which is set when it was not known; an absent one says
 * nothing else. */
static bool directory_holds(sky_skv *skv) {
    uint64_t at = skv->header_bytes;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        const uint8_t *in = skv->data + sky_skv_entry_offset(skv->layer_count, i);
        sky_skv_entry e = entry_read(in);
        if (e.offset != at || (uint32_t)e.level >= SKY_LEVEL_COUNT || in[13] || in[14] || in[15] ||
            (e.bytes == 0 && (in[12] || e.checksum)) ||
            (e.bytes && e.bytes < SKY_STREAM_HEADER_BYTES))
            return false;
        at += e.bytes;
    }
    if (skv->bytes == 0)
        skv->bytes = at;
    return at == skv->bytes;
}

sky_status sky_skv_open_header(const void *data, size_t bytes, uint64_t total_bytes, sky_skv *out,
                               size_t *header_bytes) {
    if ((!data && bytes > 0) || !out || !header_bytes)
        return SKY_E_PARAM;
    if (bytes < SKY_SKV_HEAD_BYTES) {
        *header_bytes = SKY_SKV_HEAD_BYTES;
        return total_bytes && total_bytes < SKY_SKV_HEAD_BYTES ? SKY_E_CORRUPT : SKY_PENDING;
    }
    sky_skv skv = {.data = data, .held_bytes = bytes, .bytes = total_bytes};
    sky_status status = head_read(data, &skv);
    if (status != SKY_OK)
        return status;
    if (total_bytes && skv.header_bytes > total_bytes)
        return SKY_E_CORRUPT;
    *header_bytes = skv.header_bytes;
    if (skv.header_bytes > bytes)
        return SKY_PENDING;
    if (sky_load_u64(skv.data + skv.header_bytes - 8) !=
        sky_checksum(data, skv.header_bytes - 8, 0))
        return SKY_E_CORRUPT;
    for (uint32_t i = 0; i < skv.layer_count; i++) {
        const uint8_t *in = skv.data + SKY_SKV_HEAD_BYTES + (size_t)i * SKY_SKV_LAYER_BYTES;
        sky_skv_layer layer = layer_read(in);
        if (!sky__skv_layer_valid(&layer) || in[10] || in[11])
            return SKY_E_CORRUPT;
    }
    if (!directory_holds(&skv))
        return SKY_E_CORRUPT;
    *out = skv;
    return SKY_OK;
}

sky_status sky_skv_open(const void *data, size_t bytes, sky_skv *out) {
    size_t header_bytes;
    if (bytes == 0)
        return SKY_E_CORRUPT;
    sky_status status = sky_skv_open_header(data, bytes, bytes, out, &header_bytes);
    return status == SKY_PENDING ? SKY_E_CORRUPT : status;
}

/* ---- looking ---- */

sky_status sky_skv_layer_at(const sky_skv *skv, uint32_t layer, sky_skv_layer *out) {
    if (!skv || !out || layer >= skv->layer_count)
        return SKY_E_PARAM;
    *out = layer_read(skv->data + SKY_SKV_HEAD_BYTES + (size_t)layer * SKY_SKV_LAYER_BYTES);
    return SKY_OK;
}

sky_status sky_skv_entry_at(const sky_skv *skv, uint32_t layer, sky_kv kv, sky_skv_entry *out) {
    if (!skv || !out || layer >= skv->layer_count || !sky_kv_valid(kv))
        return SKY_E_PARAM;
    *out = entry_read(skv->data + sky_skv_entry_offset(skv->layer_count, 2 * layer + (uint32_t)kv));
    return SKY_OK;
}

sky_status sky_skv_stream_shape(const sky_skv *skv, uint32_t layer, sky_kv kv,
                                sky_stream_shape *out) {
    sky_skv_layer l;
    sky_status status = out && sky_kv_valid(kv) ? sky_skv_layer_at(skv, layer, &l) : SKY_E_PARAM;
    if (status == SKY_OK)
        *out = sky__skv_shape(&l, 2 * layer + (uint32_t)kv, skv->token_count, skv->first_position);
    return status;
}

/* ---- streams ---- */

sky_status sky_skv_stream_check(const sky_skv *skv, uint32_t layer, sky_kv kv, const void *stream,
                                size_t bytes) {
    sky_skv_entry e;
    sky_stream_shape shape;
    sky_stream_header header;
    sky_status status = stream ? sky_skv_entry_at(skv, layer, kv, &e) : SKY_E_PARAM;
    if (status != SKY_OK)
        return status;
    if (bytes != e.bytes || sky__skv_checksum(stream, bytes, 2 * layer + (uint32_t)kv,
                                              skv->first_position) != e.checksum)
        return SKY_E_CORRUPT;
    sky_skv_stream_shape(skv, layer, kv, &shape);
    status = sky__stream_header_read(stream, bytes, &shape, &header);
    if (status == SKY_OK &&
        (header.level != e.level || (header.profile_id && header.profile_id != skv->profile_id)))
        return SKY_E_CORRUPT;
    return status;
}

/* A stream's bytes, checked. */
static sky_status stream_of(const sky_skv *skv, uint32_t layer, sky_kv kv, const uint8_t **stream,
                            size_t *bytes) {
    sky_skv_entry e;
    sky_status status = sky_skv_entry_at(skv, layer, kv, &e);
    if (status != SKY_OK)
        return status;
    if (e.bytes == 0)
        return SKY_MISS;
    if (e.offset + e.bytes > skv->held_bytes)
        return SKY_E_PARAM;
    *stream = skv->data + e.offset;
    *bytes = (size_t)e.bytes;
    return sky_skv_stream_check(skv, layer, kv, *stream, *bytes);
}

sky_status sky_skv_decode(const sky_skv *skv, const sky_profile *profile, uint32_t layer, sky_kv kv,
                          sky_tensor dst, void *work) {
    const uint8_t *stream;
    size_t bytes;
    sky_stream_shape shape;
    sky_status status = stream_of(skv, layer, kv, &stream, &bytes);
    if (status != SKY_OK)
        return status;
    status = sky_skv_stream_shape(skv, layer, kv, &shape);
    return status == SKY_OK ? sky_decode(profile, &shape, stream, bytes, dst, work) : status;
}

sky_status sky_skv_verify(const sky_skv *skv) {
    if (!skv)
        return SKY_E_PARAM;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        const uint8_t *stream;
        size_t bytes;
        sky_status status = stream_of(skv, i / 2, (sky_kv)(i & 1), &stream, &bytes);
        if (status < 0)
            return status;
    }
    return SKY_OK;
}
