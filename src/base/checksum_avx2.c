/* xxHash's own code, compiled here for AVX2. The library has it for SSE2 only, and the functions
 * that choose by processor are missing from Debian's libxxhash.a.
 *
 * A copy with its checksum is our own loop over the same state, so that each byte is loaded once.
 * The state keeps the last 1 to 256 bytes in its buffer until more come or it ends, and behind them
 * the end of the 64 bytes before, which the last stripe may need. */
#include "base/checksum_avx2.h"

#include <assert.h>
#include <immintrin.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define STRIPE      ((size_t)XXH_STRIPE_LEN) /* 64 bytes, two vectors */
#define BUFFER      ((size_t)XXH3_INTERNALBUFFER_SIZE)
#define AHEAD       2048u /* bytes loaded into the cache before they are copied: 512 is slower */
#define SMALL_BYTES 1024u /* not worth more than the library's way */
#define PAST_ALIGN  16u   /* of what is written past the caches */

uint64_t sky__checksum_avx2(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

void sky__checksum_add_avx2(sky_checksum_state *s, const void *data, size_t bytes) {
    XXH3_64bits_update(sky__hash_state(s->opaque), data, bytes);
}

typedef struct {
    __m256i half[2];
} stripe;

static inline stripe load_stripe(const void *from) {
    const uint8_t *at = from;
    return (stripe){{_mm256_loadu_si256((const __m256i *)(const void *)at),
                     _mm256_loadu_si256((const __m256i *)(const void *)(at + 32))}};
}

static inline void store_stripe(void *to, stripe s) {
    uint8_t *at = to;
    _mm256_storeu_si256((__m256i *)(void *)at, s.half[0]);
    _mm256_storeu_si256((__m256i *)(void *)(at + 32), s.half[1]);
}

/* Past the caches. Places that a caller's spans have are seldom aligned to more than PAST_ALIGN. */
static inline void stream_stripe(void *to, stripe s) {
    for (int i = 0; i < 2; i++) {
        __m128i *at = (__m128i *)to + 2 * i;
        _mm_stream_si128(at, _mm256_castsi256_si128(s.half[i]));
        _mm_stream_si128(at + 1, _mm256_extracti128_si256(s.half[i], 1));
    }
}

/* acc += swapped data + low * high of (data xor secret), each in 64 bits. */
static inline stripe add_stripe(stripe acc, stripe data, const uint8_t *secret) {
    const stripe key = load_stripe(secret);
    for (int i = 0; i < 2; i++) {
        const __m256i mixed = _mm256_xor_si256(data.half[i], key.half[i]);
        const __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
        const __m256i swapped = _mm256_shuffle_epi32(data.half[i], _MM_SHUFFLE(1, 0, 3, 2));
        acc.half[i] = _mm256_add_epi64(product, _mm256_add_epi64(acc.half[i], swapped));
    }
    return acc;
}

/* acc = (acc xor acc >> 47 xor secret) * prime, each in 64 bits. */
static inline stripe scramble_sum(stripe acc, const uint8_t *secret) {
    const __m256i prime = _mm256_set1_epi32((int)XXH_PRIME32_1);
    const stripe key = load_stripe(secret);
    for (int i = 0; i < 2; i++) {
        const __m256i a = acc.half[i];
        const __m256i mixed = _mm256_xor_si256(_mm256_xor_si256(a, _mm256_srli_epi64(a, 47)),
                                               key.half[i]);
        const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
        acc.half[i] = _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
    }
    return acc;
}

/* Copy `count` stripes, one at least, into `to` (NULL: not) and into the sum, and keep the last. */
static void take_stripes(XXH3_state_t *x, uint8_t *to, const uint8_t *from, size_t count,
                         bool past) {
    const uint8_t *secret = x->extSecret ? x->extSecret : x->customSecret;
    stripe acc = load_stripe(x->acc), data;
    size_t turn = x->nbStripesSoFar;
    for (; count > 0; count--, from += STRIPE) {
        data = load_stripe(from);
        _mm_prefetch((const char *)from + AHEAD, _MM_HINT_T0);
        if (to && past)
            stream_stripe(to, data);
        else if (to)
            store_stripe(to, data);
        to += to ? STRIPE : 0;
        acc = add_stripe(acc, data, secret + 8 * turn);
        if (++turn == x->nbStripesPerBlock) {
            acc = scramble_sum(acc, secret + x->secretLimit);
            turn = 0;
        }
    }
    store_stripe(x->acc, acc);
    store_stripe(x->buffer + BUFFER - STRIPE, data);
    x->nbStripesSoFar = turn;
    if (past)
        _mm_sfence(); /* else a lock or flag that is set next could be seen before these bytes */
}

static void copy_small(XXH3_state_t *x, uint8_t *to, const uint8_t *from, size_t bytes) {
    memcpy(to, from, bytes);
    XXH3_64bits_update(x, to, bytes);
}

void sky__checksum_copy_avx2(sky_checksum_state *s, void *data, const void *src, size_t bytes,
                             bool past) {
    XXH3_state_t *x = sky__hash_state(s->opaque);
    uint8_t *to = data;
    const uint8_t *from = src;
    if (bytes <= SMALL_BYTES) {
        copy_small(x, to, from, bytes);
        return;
    }
    if (x->bufferedSize > 0) {
        const size_t head = BUFFER - x->bufferedSize; /* as much as the library only keeps */
        copy_small(x, to, from, head);
        assert(x->bufferedSize == BUFFER);
        take_stripes(x, NULL, x->buffer, BUFFER / STRIPE, false);
        x->bufferedSize = 0;
        to += head;
        from += head;
        bytes -= head;
    }
    const size_t stripes = (bytes - 1) / STRIPE, tail = bytes - stripes * STRIPE;
    take_stripes(x, to, from, stripes, past && (uintptr_t)to % PAST_ALIGN == 0);
    x->totalLen += stripes * STRIPE;
    copy_small(x, to + stripes * STRIPE, from + stripes * STRIPE, tail);
}
