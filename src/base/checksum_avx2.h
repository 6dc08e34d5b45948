/* XXH3 with 256-bit vectors; checksum.c calls these where the processor has them. */
#ifndef SKYMEM_BASE_CHECKSUM_AVX2_H
#define SKYMEM_BASE_CHECKSUM_AVX2_H

#include <stdbool.h>

#include "base/hash.h"

uint64_t sky__checksum_avx2(const void *data, size_t bytes, uint64_t seed);
void sky__checksum_add_avx2(sky_checksum_state *s, const void *data, size_t bytes);
/* past: past the caches, where `to` is aligned to 16 bytes */
void sky__checksum_copy_avx2(sky_checksum_state *s, void *to, const void *from, size_t bytes,
                             bool past);

#endif
