/* The public face of base/hash.h: what adapters fingerprint models with. */
#include <skymem/keys.h>

#include "base/hash.h"

void sky_digest(const sky_span *pieces, size_t piece_count, uint8_t out[32]) {
    sky_blake2b h;
    if (!out || (!pieces && piece_count > 0))
        return;
    for (size_t i = 0; i < piece_count; i++)
        if (!pieces[i].data && pieces[i].bytes > 0)
            return;
    sky_blake2b_init(&h, NULL);
    for (size_t i = 0; i < piece_count; i++)
        sky_blake2b_add(&h, pieces[i].data, pieces[i].bytes);
    sky_blake2b_end(&h, out);
}

void sky_digest_each(bool (*next)(void *context, sky_span *piece), void *context, uint8_t out[32]) {
    sky_blake2b h;
    sky_span piece = {0};
    if (!next || !out)
        return;
    sky_blake2b_init(&h, NULL);
    while (next(context, &piece))
        if (piece.data)
            sky_blake2b_add(&h, piece.data, piece.bytes);
    sky_blake2b_end(&h, out);
}

uint64_t sky_content_hash(const void *data, size_t bytes, uint64_t seed) {
    return data || bytes == 0 ? sky_checksum(data, bytes, seed) : 0;
}
