/* xxHash's own code, compiled here for AVX2. The library has it for SSE2 only, and the functions
 * that choose by processor are missing from Debian's libxxhash.a. */
#include "base/hash_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t sky__checksum_avx2(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

void sky__checksum_add_avx2(sky_checksum_state *s, const void *data, size_t bytes) {
    XXH3_64bits_update((XXH3_state_t *)(void *)s->opaque, data, bytes);
}
