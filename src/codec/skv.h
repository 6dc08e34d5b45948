/* The container's bytes: docs/formats/skv.md.
 *
 *   | head 64 | layers, 12 each | directory, 24 each: layer 0 K, V, … | checksum 8 | streams … |
 *
 * Invariant: streams follow each other in the directory's order without gaps, the first right after
 * the header, the last ends the container; so a directory that says anything else is damage. */
#ifndef SKY_CODEC_SKV_H
#define SKY_CODEC_SKV_H

#include <skymem/codec.h>

#define SKY_SKV_MAGIC       0x43564b53u /* "SKVC" */
#define SKY_SKV_VERSION     1
#define SKY_SKV_HEAD_BYTES  64u
#define SKY_SKV_LAYER_BYTES 12u
#define SKY_SKV_ENTRY_BYTES 24u

static inline size_t sky_skv_size_of_header(uint32_t layer_count) {
    return SKY_SKV_HEAD_BYTES + 8 +
           (size_t)layer_count * (SKY_SKV_LAYER_BYTES + 2 * SKY_SKV_ENTRY_BYTES);
}

/* Where the directory's entry `index` (2 × layer + kv) lies. */
static inline size_t sky_skv_entry_offset(uint32_t layer_count, uint32_t index) {
    return SKY_SKV_HEAD_BYTES + (size_t)layer_count * SKY_SKV_LAYER_BYTES +
           (size_t)index * SKY_SKV_ENTRY_BYTES;
}

bool sky__skv_layer_valid(const sky_skv_layer *layer);
sky_stream_shape sky__skv_shape(const sky_skv_layer *layer, uint32_t index, uint32_t token_count,
                                uint32_t first_position);
uint64_t sky__skv_checksum(const void *stream, size_t bytes, uint32_t index,
                           uint32_t first_position);

#endif
