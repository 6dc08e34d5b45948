/* Checksums, apart from the hashes of hash.c: the codec's library needs these and no libsodium. */
#include "base/hash.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define XXH_STATIC_LINKING_ONLY
#include "base/checksum_avx2.h"
#include <xxhash.h>

#define COPY_BYTES 4096u /* checksummed while still in the core's nearest cache */
#define PAST_SHARE 4 /* of the last cache: larger copies go past it, as glibc's do from 2.38 on */

static_assert(sizeof(XXH3_state_t) + SKY_HASH_ALIGN <= sizeof(sky_checksum_state),
              "XXH3 state fits");

/* The same sums at another speed: checksum_avx2.c where this processor has what it is compiled for,
 * else the library. 512-bit vectors were measured to be no faster. */
#if defined(__x86_64__) && !defined(XXH_INLINE_ALL)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
#define CHOOSE(avx2, other) (has_avx2() ? (avx2) : (other))
#else
#define CHOOSE(avx2, other) (other)
#endif

uint64_t sky_checksum(const void *data, size_t bytes, uint64_t seed) {
    return CHOOSE(sky__checksum_avx2, XXH3_64bits_withSeed)(data, bytes, seed);
}

static XXH3_state_t *checksum_state(sky_checksum_state *s) {
    return sky__hash_state(s->opaque);
}

void sky_checksum_init(sky_checksum_state *s, uint64_t seed) {
    XXH3_INITSTATE(checksum_state(s));
    XXH3_64bits_reset_withSeed(checksum_state(s), seed);
}

static void checksum_add_plain(sky_checksum_state *s, const void *data, size_t bytes) {
    XXH3_64bits_update(checksum_state(s), data, bytes);
}

void sky_checksum_add(sky_checksum_state *s, const void *data, size_t bytes) {
    CHOOSE(sky__checksum_add_avx2, checksum_add_plain)(s, data, bytes);
}

static void checksum_copy_plain(sky_checksum_state *s, void *to, const void *from, size_t bytes,
                                bool past) {
    (void)past;
    const uint8_t *source = from;
    for (uint8_t *at = to; bytes > 0;) {
        const size_t piece = bytes < COPY_BYTES ? bytes : COPY_BYTES;
        memcpy(at, source, piece);
        checksum_add_plain(s, at, piece);
        at += piece;
        source += piece;
        bytes -= piece;
    }
}

/* Of the last cache that a processor shares with others; 0: not known. The C library's sysconf adds
 * those of an AMD processor up. */
static size_t cache_bytes(void) {
    size_t bytes = 0;
#if defined(__x86_64__)
    static const unsigned leaves[] = {0x8000001du, 4}; /* AMD's, Intel's */
    unsigned a, b, c, d;
    for (size_t i = 0; i < 2 && bytes == 0; i++)
        for (unsigned n = 0; __get_cpuid_count(leaves[i], n, &a, &b, &c, &d) && (a & 31) != 0; n++)
            bytes = (size_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) * (c + 1);
#endif
    return bytes;
}

static size_t past_bytes(void) {
    static atomic_size_t known; /* 0: not yet */
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes == 0) {
        bytes = cache_bytes() / PAST_SHARE;
        bytes = bytes > 0 ? bytes : SIZE_MAX;
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}

void sky_checksum_copy(sky_checksum_state *s, void *to, const void *from, size_t bytes,
                       size_t all_bytes) {
    CHOOSE(sky__checksum_copy_avx2, checksum_copy_plain)
    (s, to, from, bytes, all_bytes >= past_bytes());
}

uint64_t sky_checksum_end(const sky_checksum_state *s) {
    return XXH3_64bits_digest(sky__hash_state(s->opaque));
}
