/* Proves: no bytes make the container's reader or the stream decoder read or write outside, run on
 * or return anything but a status; what opens tells consistent ranges. With and without a profile,
 * and with checksums put right, which would stop nearly every mutation at the door. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "codec/skv.h"
#include "made_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Decode in pieces whose size the stream itself gives, from memory of exactly their size. */
static void decode(const sky_profile *profile, const sky_stream_shape *shape, const uint8_t *stream,
                   size_t bytes) {
    size_t piece = bytes > 30 ? (size_t)stream[30] * 16 + 1 : 1000;
    uint8_t *rows = malloc(sky_stream_rows_bytes(shape));
    void *memory = aligned_alloc(64, SKY_DECODER_BYTES);
    sky_decoder *decoder;
    sky_tensor out = sky_stream_packed(shape, rows);
    sky_status status = sky_decoder_init(memory, profile, shape, bytes, out, &decoder);
    for (size_t at = 0; at < bytes && status >= 0; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        uint8_t *exact = malloc(n);
        memcpy(exact, stream + at, n);
        status = sky_decoder_feed(decoder, exact, n);
        free(exact);
    }
    if (status == SKY_OK && sky_decoder_tokens(decoder) != shape->token_count)
        abort();
    free(memory);
    free(rows);
}

/* Everything of a container that opens. */
static void read_container(const sky_skv *skv, const sky_profile *profile) {
    uint64_t at = skv->header_bytes;
    sky_status verified = sky_skv_verify(skv);
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_kv kv = (sky_kv)(i & 1);
        sky_skv_entry e;
        sky_stream_shape shape;
        if (sky_skv_entry_at(skv, i / 2, kv, &e) != SKY_OK || e.offset != at)
            abort();
        sky_skv_stream_shape(skv, i / 2, kv, &shape);
        const uint8_t *stream = skv->data + e.offset;
        if (e.bytes && verified == SKY_OK &&
            sky_skv_stream_check(skv, i / 2, kv, stream, (size_t)e.bytes) != SKY_OK)
            abort();
        /* The checksum is not asked: damage inside is what is looked for. */
        if (e.bytes && sky_stream_rows_bytes(&shape) < 1u << 20)
            decode(profile, &shape, stream, (size_t)e.bytes);
        at += e.bytes;
    }
    if (at != skv->bytes)
        abort();
}

/* Put the checksums right of what the directory names. */
static void repair(uint8_t *data, size_t bytes) {
    if (bytes < SKY_SKV_HEAD_BYTES)
        return;
    uint32_t layers = sky_load_u16(data + 6), position = sky_load_u32(data + 12);
    size_t header = sky_skv_size_of_header(layers);
    if (header > bytes)
        return;
    for (uint32_t i = 0; i < 2 * layers; i++) {
        uint8_t *entry = data + sky_skv_entry_offset(layers, i);
        uint64_t offset = sky_load_u64(entry), stream = sky_load_u32(entry + 8);
        if (stream && offset >= header && offset <= bytes && stream <= bytes - offset)
            sky_store_u64(entry + 16,
                          sky__skv_checksum(data + offset, (size_t)stream, i, position));
    }
    sky_store_u64(data + header - 8, sky_checksum(data, header - 8, 0));
}

/* A profile of the container's shape, which its streams are made to name; NULL: it needs none. */
static sky_profile *profile_for(const sky_skv *skv, uint8_t *data) {
    sky_profile_layer layers[4];
    uint32_t knows = MADE_ALL & ~(uint32_t)MADE_WEIGHTS, levels = 0; /* decoding needs none */
    bool needed = skv->profile_id != 0;
    for (uint32_t i = 0; needed && i < skv->layer_count; i++) {
        sky_skv_layer l;
        needed = skv->layer_count <= 4 && sky_skv_layer_at(skv, i, &l) == SKY_OK &&
                 l.kv_heads * (l.k_dim > l.v_dim ? l.k_dim : l.v_dim) <= 1024;
        if (!needed)
            break;
        for (int kv = 0; kv < 2; kv++) {
            sky_skv_entry e;
            sky_skv_entry_at(skv, i, (sky_kv)kv, &e);
            levels |= 1u << e.level;
        }
        layers[i] = (sky_profile_layer){l.kv_heads, l.k_dim, l.v_dim, 0};
        if (l.k_dim > 128 || l.v_dim > 128)
            knows &= ~(uint32_t)MADE_KLT;
    }
    if (!needed)
        return NULL;
    sky_profile *p = made_profile(layers, skv->layer_count,
                                  skv->first_position & 1 ? SKY_ROPE_INTERLEAVED : SKY_ROPE_NEOX,
                                  layers[0].k_dim / 4 * 2, knows, levels);
    sky_store_u64(data + 16, sky_profile_id(p));
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_skv_entry e;
        sky_skv_entry_at(skv, i / 2, (sky_kv)(i & 1), &e);
        if (e.bytes && sky_load_u64(data + e.offset + 16))
            sky_store_u64(data + e.offset + 16, sky_profile_id(p));
    }
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_skv skv;
    if (sky_skv_open(data, bytes, &skv) == SKY_OK)
        read_container(&skv, NULL);
    uint8_t *copy = malloc(bytes + 1); /* none is no error */
    memcpy(copy, data, bytes);
    repair(copy, bytes);
    if (sky_skv_open(copy, bytes, &skv) == SKY_OK) {
        sky_profile *profile = profile_for(&skv, copy);
        repair(copy, bytes);
        if (sky_skv_open(copy, bytes, &skv) != SKY_OK)
            abort();
        read_container(&skv, profile);
        sky_profile_destroy(profile);
    }
    free(copy);
    return 0;
}
