/* In the terms of RFC 8452: GHASH of reversed blocks is POLYVAL, whose product is without a shift
 *
 *   dot(a, b) = a · b · x^−128    modulo x^128 + x^127 + x^126 + x^121 + 1
 *
 * so blocks are reversed as they are loaded, and H becomes mulX(reverse(H)). Products of 128 bits
 * by Karatsuba: lo, hi and the product of the sums of halves, from which the middle comes at the
 * end: sums of products are reduced once. */
#include "wire/gmac.h"

#include <assert.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define LANES 4
#define USES  __attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul,aes,vaes")))
#define INNER USES static inline __attribute__((always_inline))

/* Not every compiler knows these by name. */
static bool has_instructions(void) {
    unsigned a, b, c = 0, d;
    bool ok = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1u << 9 && c & 1u << 10;
    return ok && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

/* Asked once: under a hypervisor the question takes as long as the tags of a thousand datagrams. */
bool sky_gmac_works(void) {
    static atomic_int known; /* 1: it does, 2: it does not */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        answer = has_instructions() ? 1 : 2;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 1;
}

/* ---- AES-256 ---- */

INNER __m128i spread(__m128i v, __m128i t) {
    v = _mm_xor_si128(v, _mm_slli_si128(v, 4));
    v = _mm_xor_si128(v, _mm_slli_si128(v, 8));
    return _mm_xor_si128(v, t);
}

/* Two round keys from the two before them. */
#define EXPAND(i, constant)                                                                        \
    r[i] = spread(r[(i)-2],                                                                        \
                  _mm_shuffle_epi32(_mm_aeskeygenassist_si128(r[(i)-1], constant), 0xff));         \
    r[(i) + 1] = spread(r[(i)-1], _mm_shuffle_epi32(_mm_aeskeygenassist_si128(r[i], 0), 0xaa))

USES static void expand(sky_gmac_key *k, const uint8_t *secret) {
    __m128i r[16];
    r[0] = _mm_loadu_si128((const void *)secret);
    r[1] = _mm_loadu_si128((const void *)(secret + 16));
    EXPAND(2, 0x01);
    EXPAND(4, 0x02);
    EXPAND(6, 0x04);
    EXPAND(8, 0x08);
    EXPAND(10, 0x10);
    EXPAND(12, 0x20);
    EXPAND(14, 0x40); /* one more than there is */
    memcpy(k->round_keys, r, sizeof k->round_keys);
}

INNER __m512i round_key(const sky_gmac_key *k, int i) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)k->round_keys[i]));
}

INNER __m512i encrypt(const sky_gmac_key *k, __m512i x) {
    x = _mm512_xor_si512(x, round_key(k, 0));
    for (int i = 1; i < 14; i++)
        x = _mm512_aesenc_epi128(x, round_key(k, i));
    return _mm512_aesenclast_epi128(x, round_key(k, 14));
}

/* ---- products ---- */

INNER __m512i reversed(__m512i x) {
    const __m128i order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order));
}

INNER __m512i halves_swapped(__m512i x) {
    return _mm512_shuffle_epi32(x, 0x4e);
}

/* In each lane: lo + middle · x^64 + hi · x^128, times x^−128. */
INNER __m512i reduce(__m512i lo, __m512i middle, __m512i hi) {
    const __m512i p = _mm512_set1_epi64((long long)0xc200000000000000u);
    lo = _mm512_xor_si512(lo, _mm512_bslli_epi128(middle, 8));
    hi = _mm512_xor_si512(hi, _mm512_bsrli_epi128(middle, 8));
    lo = _mm512_xor_si512(halves_swapped(lo), _mm512_clmulepi64_epi128(lo, p, 0x00));
    lo = _mm512_xor_si512(halves_swapped(lo), _mm512_clmulepi64_epi128(lo, p, 0x00));
    return _mm512_xor_si512(lo, hi);
}

INNER __m512i dot(__m512i a, __m512i b) {
    __m512i middle = _mm512_xor_si512(_mm512_clmulepi64_epi128(a, b, 0x01),
                                      _mm512_clmulepi64_epi128(a, b, 0x10));
    return reduce(_mm512_clmulepi64_epi128(a, b, 0x00), middle,
                  _mm512_clmulepi64_epi128(a, b, 0x11));
}

/* Sums of products, four in each, lane by lane. */
typedef struct {
    __m512i lo, sums, hi;
} products;

INNER void add_product(products *p, __m512i x, __m512i power, __m512i power_sums) {
    __m512i x_sums = _mm512_xor_si512(x, halves_swapped(x));
    p->lo = _mm512_xor_si512(p->lo, _mm512_clmulepi64_epi128(x, power, 0x00));
    p->sums = _mm512_xor_si512(p->sums, _mm512_clmulepi64_epi128(x_sums, power_sums, 0x00));
    p->hi = _mm512_xor_si512(p->hi, _mm512_clmulepi64_epi128(x, power, 0x11));
}

/* Lane i of the result is the sum of the lanes of x[i]. */
INNER __m512i lanes_added(__m512i a, __m512i b, __m512i c, __m512i d) {
    __m512i ab = _mm512_xor_si512(_mm512_shuffle_i32x4(a, b, 0x44),
                                  _mm512_shuffle_i32x4(a, b, 0xee));
    __m512i cd = _mm512_xor_si512(_mm512_shuffle_i32x4(c, d, 0x44),
                                  _mm512_shuffle_i32x4(c, d, 0xee));
    return _mm512_xor_si512(_mm512_shuffle_i32x4(ab, cd, 0x88), _mm512_shuffle_i32x4(ab, cd, 0xdd));
}

/* ---- keys ---- */

INNER __m512i first_powers(__m128i h) {
    __m512i x = _mm512_castsi128_si512(h), h1 = x, h2 = dot(x, x);
    __m512i h3 = dot(h2, h1), h4 = dot(h2, h2), h5 = dot(h4, h1);
    x = _mm512_inserti32x4(h5, _mm512_castsi512_si128(h4), 1);
    x = _mm512_inserti32x4(x, _mm512_castsi512_si128(h3), 2);
    return _mm512_inserti32x4(x, _mm512_castsi512_si128(h2), 3);
}

USES void sky_gmac_key_init(sky_gmac_key *k, const uint8_t secret[SKY_GMAC_SECRET_BYTES]) {
    uint64_t h[2];
    expand(k, secret);
    __m512i zero = reversed(encrypt(k, _mm512_setzero_si512()));
    _mm_storeu_si128((void *)h, _mm512_castsi512_si128(zero));
    uint64_t carry = 0 - (h[1] >> 63); /* times x, and reduced */
    h[1] = (h[1] << 1 | h[0] >> 63) ^ (carry & 0xc200000000000000u);
    h[0] = h[0] << 1 ^ (carry & 1);
    memcpy(k->h, h, sizeof k->h);
    __m512i powers = first_powers(_mm_loadu_si128((const void *)h));
    __m512i step = _mm512_shuffle_i32x4(powers, powers, 0x55); /* H^4 */
    for (uint32_t g = 0; g < SKY_GMAC_GROUPS; g++, powers = dot(powers, step))
        _mm512_store_si512(k->powers[g], powers);
}

/* ---- tags ---- */

/* The lengths are the last block; half of it is zero. A lane is a datagram here. */
INNER void add_lengths(const sky_gmac_key *k, size_t bytes, __m512i *middle, __m512i *hi) {
    __m128i lengths = _mm_set_epi64x((long long)bytes * 8, 0);
    __m128i h = _mm_loadu_si128((const void *)k->h);
    __m128i m = _mm_clmulepi64_si128(lengths, h, 0x01), u = _mm_clmulepi64_si128(lengths, h, 0x11);
    *middle = _mm512_xor_si512(*middle, _mm512_broadcast_i32x4(m));
    *hi = _mm512_xor_si512(*hi, _mm512_broadcast_i32x4(u));
}

/* One group of n datagrams; `at` is that of the first. */
INNER void add_group(products p[LANES], int n, const uint8_t *at, size_t step, __mmask64 mask,
                     __m512i power) {
    __m512i power_sums = _mm512_xor_si512(power, halves_swapped(power));
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        __m512i x = _mm512_maskz_loadu_epi8(mask, at + (size_t)i * step);
        add_product(&p[i], reversed(x), power, power_sums);
    }
}

INNER __mmask64 first_bytes(size_t n) {
    return n < 64 ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
}

/* From the end to the beginning: what was written last, the head, has time to settle. Blocks that
 * fill no group are in front, where the first powers that are left meet them. */
INNER void add_all(const sky_gmac_key *k, products p[LANES], int n, const uint8_t *data,
                   size_t bytes) {
    size_t step = bytes + SKY_GMAC_TAG_BYTES;
    size_t blocks = (bytes + 15) / 16, groups = blocks / 4, rest = blocks % 4;
    const uint8_t *at = data + 16 * rest; /* of the groups; the last may lack some bytes */
    if (groups > 0) {
        const uint8_t *last = at + 64 * (groups - 1);
        add_group(p, n, last, step, first_bytes((size_t)(data + bytes - last)),
                  _mm512_load_si512(k->powers[0]));
    }
    for (size_t g = 1; g < groups; g++)
        add_group(p, n, at + 64 * (groups - 1 - g), step, ~(__mmask64)0,
                  _mm512_load_si512(k->powers[g]));
    if (rest > 0) {
        __m512i power = _mm512_maskz_loadu_epi64((__mmask8)((1u << 2 * rest) - 1),
                                                 k->powers[groups] + 64 - 16 * rest);
        add_group(p, n, data, step, first_bytes(groups ? 16 * rest : bytes), power);
    }
}

/* | 4 zeros | counter + lane, 8 | 0 0 0 1 | in each lane. */
INNER __m512i first_counters(uint64_t counter) {
    const __m512i lanes = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    __m512i counters = _mm512_add_epi64(lanes, _mm512_maskz_set1_epi64(0x55, (long long)counter));
    const __m512i ones = _mm512_broadcast_i32x4(_mm_set_epi64x(0x100000000000000, 0));
    return _mm512_or_si512(_mm512_bslli_epi128(counters, 4), ones);
}

INNER void tag_some(const sky_gmac_key *k, uint64_t counter, int n, const uint8_t *data,
                    size_t bytes, uint8_t *tags) {
    products p[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i++)
        p[i].lo = p[i].sums = p[i].hi = _mm512_setzero_si512();
    __m512i masks = encrypt(k, first_counters(counter));
    add_all(k, p, n, data, bytes);
    __m512i lo = lanes_added(p[0].lo, p[1].lo, p[2].lo, p[3].lo);
    __m512i hi = lanes_added(p[0].hi, p[1].hi, p[2].hi, p[3].hi);
    __m512i middle = lanes_added(p[0].sums, p[1].sums, p[2].sums, p[3].sums);
    middle = _mm512_xor_si512(middle, _mm512_xor_si512(lo, hi));
    add_lengths(k, bytes, &middle, &hi);
    uint8_t out[LANES * SKY_GMAC_TAG_BYTES];
    _mm512_storeu_si512(out, _mm512_xor_si512(reversed(reduce(lo, middle, hi)), masks));
    for (int i = 0; i < n; i++)
        memcpy(tags + (size_t)i * (bytes + SKY_GMAC_TAG_BYTES), out + i * SKY_GMAC_TAG_BYTES,
               SKY_GMAC_TAG_BYTES);
}

USES static void tag_four(const sky_gmac_key *k, uint64_t counter, const uint8_t *data,
                          size_t bytes, uint8_t *tags) {
    tag_some(k, counter, 4, data, bytes, tags);
}

USES static void tag_two(const sky_gmac_key *k, uint64_t counter, const uint8_t *data, size_t bytes,
                         uint8_t *tags) {
    tag_some(k, counter, 2, data, bytes, tags);
}

USES static void tag_one(const sky_gmac_key *k, uint64_t counter, const uint8_t *data, size_t bytes,
                         uint8_t *tags) {
    tag_some(k, counter, 1, data, bytes, tags);
}

void sky_gmac_row(const sky_gmac_key *k, uint64_t counter, const uint8_t *data, size_t bytes,
                  uint32_t count, uint8_t *tags) {
    assert(bytes <= SKY_GMAC_BYTES_MAX - 16);
    while (count > 0) {
        uint32_t n = count >= 4 ? 4 : count >= 2 ? 2 : 1;
        (n == 4 ? tag_four : n == 2 ? tag_two : tag_one)(k, counter, data, bytes, tags);
        data += n * (bytes + SKY_GMAC_TAG_BYTES);
        tags += n * (bytes + SKY_GMAC_TAG_BYTES);
        counter += n;
        count -= n;
    }
}

#else

bool sky_gmac_works(void) {
    return false;
}

void sky_gmac_key_init(sky_gmac_key *k, const uint8_t secret[SKY_GMAC_SECRET_BYTES]) {
    (void)k, (void)secret;
    assert(0 && "not on this machine");
}

void sky_gmac_row(const sky_gmac_key *k, uint64_t counter, const uint8_t *data, size_t bytes,
                  uint32_t count, uint8_t *tags) {
    (void)k, (void)counter, (void)data, (void)bytes, (void)count, (void)tags;
    assert(0 && "not on this machine");
}

#endif
