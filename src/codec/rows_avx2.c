/* Rows of levels by AVX2 and BMI2: the operations rows_units.h asks for, on ymm registers of two
 * units. Bytes are spread by pdep, which wants no table. */
#include <immintrin.h>
#include <string.h>

#include "codec/kernels_avx2.h"
#include "codec/order_avx2.h"

typedef __m256i vec;
#define VEC_UNITS 2
#define VEC_BYTES 32
#define VEC_BIAS  0x80 /* comparisons are of signed bytes */

static inline vec v_load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline vec v_twice(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
static inline vec v_of_units(const uint8_t *const p[2]) {
    vec first = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p[0]));
    return _mm256_inserti128_si256(first, _mm_loadu_si128((const __m128i *)(const void *)p[1]), 1);
}
static inline vec v_sums(vec x) {
    x = _mm256_adds_epu8(x, _mm256_bslli_epi128(x, 1));
    x = _mm256_adds_epu8(x, _mm256_bslli_epi128(x, 2));
    x = _mm256_adds_epu8(x, _mm256_bslli_epi128(x, 4));
    x = _mm256_adds_epu8(x, _mm256_bslli_epi128(x, 8));
    return _mm256_bslli_epi128(x, 1);
}
static inline void v_store(void *p, vec x) {
    _mm256_storeu_si256((__m256i *)p, x);
}
static inline vec v_set(uint8_t x) {
    return _mm256_set1_epi8((char)x);
}
static inline vec v_add(vec x, vec y) {
    return _mm256_add_epi8(x, y);
}
static inline vec v_sub(vec x, vec y) {
    return _mm256_sub_epi8(x, y);
}
static inline vec v_and(vec x, vec y) {
    return _mm256_and_si256(x, y);
}
static inline vec v_or(vec x, vec y) {
    return _mm256_or_si256(x, y);
}
static inline vec v_min(vec x, vec y) {
    return _mm256_min_epu8(x, y);
}
static inline vec v_shift_left_2(vec x) {
    return _mm256_slli_epi16(x, 2);
}
static inline vec v_shift_left_3(vec x) {
    return _mm256_slli_epi16(x, 3);
}
static inline vec v_look_up(vec table, vec index) {
    return _mm256_shuffle_epi8(table, index);
}
static inline vec v_bias(vec x) {
    return _mm256_xor_si256(x, v_set(VEC_BIAS));
}
static inline vec v_above(vec x, vec y) {
    return _mm256_cmpgt_epi8(x, y);
}
static inline vec v_negative(vec x) {
    return _mm256_cmpgt_epi8(_mm256_setzero_si256(), x);
}
static inline vec v_select(vec where, vec x, vec y) {
    return _mm256_blendv_epi8(y, x, where);
}
static inline vec v_is_zero(vec x) {
    return _mm256_cmpeq_epi8(x, _mm256_setzero_si256());
}
static inline uint32_t v_bits(vec where) {
    return (uint32_t)_mm256_movemask_epi8(where);
}
static inline uint32_t v_count(vec where) {
    return (uint32_t)__builtin_popcount(v_bits(where));
}

static inline uint64_t load_eight(const uint8_t *in) {
    uint64_t x;
    memcpy(&x, in, 8);
    return x;
}

/* Eight bytes each, through registers: stored apart and loaded whole they would have to wait. */
static inline vec v_eights(const uint64_t *x) {
    return _mm256_set_epi64x((long long)x[3], (long long)x[2], (long long)x[1], (long long)x[0]);
}

/* Each lane's byte is as many bytes on as lanes before it, in its unit, want one: a sum over lanes.
 */
static inline vec v_spread(const uint8_t *in, vec where) {
    uint32_t first = (uint32_t)__builtin_popcount(v_bits(where) & 0xffff);
    vec bytes = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)in)), less = where;
    bytes = _mm256_inserti128_si256(bytes, _mm_loadu_si128((const __m128i *)(in + first)), 1);
    less = v_add(less, _mm256_bslli_epi128(less, 1));
    less = v_add(less, _mm256_bslli_epi128(less, 2));
    less = v_add(less, _mm256_bslli_epi128(less, 4));
    less = v_add(less, _mm256_bslli_epi128(less, 8));
    return v_look_up(bytes, _mm256_xor_si256(less, v_set(0xff)));
}

/* Words to low and high bytes: two shuffles and two unpacks, where masks, shifts and packs are six.
 */
static inline void set_apart(vec x, vec y, vec *low, vec *high) {
    static const uint8_t low_first[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    x = v_look_up(x, v_twice(low_first));
    y = v_look_up(y, v_twice(low_first));
    *low = _mm256_unpacklo_epi64(x, y);
    *high = _mm256_unpackhi_epi64(x, y);
}

/* The product waits for `less` alone: high bytes are unpacked by themselves, not taken from words
 * that wait for `rest`. */
static inline void v_next(vec rest, vec high, vec less, vec *low_out, vec *high_out) {
    const vec zero = _mm256_setzero_si256();
    vec x = _mm256_mullo_epi16(_mm256_unpacklo_epi8(high, zero), _mm256_unpacklo_epi8(less, zero));
    vec y = _mm256_mullo_epi16(_mm256_unpackhi_epi8(high, zero), _mm256_unpackhi_epi8(less, zero));
    x = _mm256_sub_epi16(_mm256_unpacklo_epi8(rest, high), x);
    y = _mm256_sub_epi16(_mm256_unpackhi_epi8(rest, high), y);
    set_apart(x, y, low_out, high_out);
}

static inline vec v_halves(vec k, vec a) {
    return v_add(v_add(k, k), _mm256_sign_epi8(a, k));
}
static inline vec unfold_halves(vec k, vec a) {
    return _mm256_add_epi16(_mm256_add_epi16(k, k), _mm256_sign_epi16(a, k));
}
static inline void v_halves_of_words(vec *low, vec *high, vec a) {
    vec x = unfold_halves(_mm256_unpacklo_epi8(*low, *high), _mm256_unpacklo_epi8(a, a));
    vec y = unfold_halves(_mm256_unpackhi_epi8(*low, *high), _mm256_unpackhi_epi8(a, a));
    set_apart(x, y, low, high);
}

/* Each lane of a vector is unpacked by itself, so eight bytes of one and eight of the other by
 * turns. */
static inline uint32_t word_place(uint32_t i) {
    return (i & 7) | (i & 8) << 1 | (i & 16) >> 1;
}
static inline void v_store_words(vec low, vec high, bool twice, int16_t *out) {
    vec x = _mm256_unpacklo_epi8(low, high), y = _mm256_unpackhi_epi8(low, high);
    v_store(out, twice ? _mm256_add_epi16(x, x) : x);
    v_store(out + 16, twice ? _mm256_add_epi16(y, y) : y);
}
static inline void v_store_bytes(vec bytes, bool twice, int16_t *out) {
    const vec zero = _mm256_setzero_si256();
    vec x = _mm256_unpacklo_epi8(zero, bytes), y = _mm256_unpackhi_epi8(zero, bytes);
    v_store(out, _mm256_srai_epi16(x, twice ? 7 : 8));
    v_store(out + 16, _mm256_srai_epi16(y, twice ? 7 : 8));
}

static inline uint64_t spread_field(const uint8_t *bytes, uint32_t shift, uint64_t field) {
    (void)shift;
    return _pdep_u64(load_eight(bytes), field);
}

#include "codec/rows_units.h"

void sky__decode_prepare_avx2(sky_tables *tables, const sky_coder *rows) {
    prepare_units(tables, rows);
}

size_t sky__row_decode_avx2(sky_coder *rows, const sky_tables *tables, uint32_t half,
                            const uint8_t *in, int16_t *levels) {
    return decode_row_of_units(rows, tables, half, in, levels);
}
