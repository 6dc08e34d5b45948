/* Rows of levels by NEON: the operations rows_units.h asks for. */
#include <arm_neon.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/kernels_neon.h"

typedef uint8x16_t vec;
#define VEC_UNITS 1
#define VEC_BYTES 16
#define VEC_BIAS  0

static inline vec v_load(const void *p) {
    return vld1q_u8((const uint8_t *)p);
}
static inline vec v_twice(const void *p) {
    return v_load(p);
}
static inline vec v_of_units(const uint8_t *const p[1]) {
    return v_load(p[0]);
}
static inline vec v_sums(vec x) {
    const vec zero = vdupq_n_u8(0);
    x = vqaddq_u8(x, vextq_u8(zero, x, 15));
    x = vqaddq_u8(x, vextq_u8(zero, x, 14));
    x = vqaddq_u8(x, vextq_u8(zero, x, 12));
    x = vqaddq_u8(x, vextq_u8(zero, x, 8));
    return vextq_u8(zero, x, 15);
}
static inline void v_store(void *p, vec x) {
    vst1q_u8((uint8_t *)p, x);
}
static inline vec v_set(uint8_t x) {
    return vdupq_n_u8(x);
}
static inline vec v_add(vec x, vec y) {
    return vaddq_u8(x, y);
}
static inline vec v_sub(vec x, vec y) {
    return vsubq_u8(x, y);
}
static inline vec v_and(vec x, vec y) {
    return vandq_u8(x, y);
}
static inline vec v_or(vec x, vec y) {
    return vorrq_u8(x, y);
}
static inline vec v_min(vec x, vec y) {
    return vminq_u8(x, y);
}
static inline vec v_shift_left_2(vec x) {
    return vshlq_n_u8(x, 2);
}
static inline vec v_shift_left_3(vec x) {
    return vshlq_n_u8(x, 3);
}
static inline vec v_look_up(vec table, vec index) {
    return vqtbl1q_u8(table, vandq_u8(index, vdupq_n_u8(0x8f)));
}
static inline vec v_bias(vec x) {
    return x;
}
static inline vec v_above(vec x, vec y) {
    return vcgtq_u8(x, y);
}
static inline vec v_negative(vec x) {
    return vcltzq_s8(vreinterpretq_s8_u8(x));
}
static inline vec v_select(vec where, vec x, vec y) {
    return vbslq_u8(where, x, y);
}
static inline vec v_is_zero(vec x) {
    return vceqzq_u8(x);
}
static inline uint32_t v_bits(vec where) {
    static const uint8_t powers[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    vec bits = vandq_u8(where, vld1q_u8(powers));
    return vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}
static inline uint32_t v_count(vec where) {
    return vaddvq_u8(vandq_u8(where, vdupq_n_u8(1)));
}

/* Each lane's byte is as many bytes on as lanes before it want one: a sum over lanes. */
static inline vec v_spread(const uint8_t *in, vec where) {
    const vec zero = vdupq_n_u8(0);
    vec one = vandq_u8(where, vdupq_n_u8(1)), sum = one;
    sum = vaddq_u8(sum, vextq_u8(zero, sum, 15));
    sum = vaddq_u8(sum, vextq_u8(zero, sum, 14));
    sum = vaddq_u8(sum, vextq_u8(zero, sum, 12));
    sum = vaddq_u8(sum, vextq_u8(zero, sum, 8));
    return vqtbl1q_u8(vld1q_u8(in), vsubq_u8(sum, one));
}

static inline void v_next(vec rest, vec high, vec less, vec *low_out, vec *high_out) {
    uint16x8_t x = vreinterpretq_u16_u8(vzip1q_u8(rest, high));
    uint16x8_t y = vreinterpretq_u16_u8(vzip2q_u8(rest, high));
    x = vmlsl_u8(x, vget_low_u8(high), vget_low_u8(less));
    y = vmlsl_u8(y, vget_high_u8(high), vget_high_u8(less));
    *low_out = vuzp1q_u8(vreinterpretq_u8_u16(x), vreinterpretq_u8_u16(y));
    *high_out = vuzp2q_u8(vreinterpretq_u8_u16(x), vreinterpretq_u8_u16(y));
}

/* a is −1 or 0: twice k, one less above zero, one more below. */
static inline vec v_halves(vec k_bytes, vec a) {
    int8x16_t k = vreinterpretq_s8_u8(k_bytes);
    vec above = vandq_u8(vcgtzq_s8(k), a), below = vandq_u8(vcltzq_s8(k), a);
    return vsubq_u8(vaddq_u8(vaddq_u8(k_bytes, k_bytes), above), below);
}
static inline uint16x8_t unfold_halves(vec k_bytes, vec a_bytes) {
    int16x8_t k = vreinterpretq_s16_u8(k_bytes);
    uint16x8_t a = vreinterpretq_u16_u8(a_bytes), twice = vreinterpretq_u16_s16(vaddq_s16(k, k));
    uint16x8_t above = vandq_u16(vcgtzq_s16(k), a), below = vandq_u16(vcltzq_s16(k), a);
    return vsubq_u16(vaddq_u16(twice, above), below);
}
static inline void v_halves_of_words(vec *low, vec *high, vec a) {
    vec x = vreinterpretq_u8_u16(unfold_halves(vzip1q_u8(*low, *high), vzip1q_u8(a, a)));
    vec y = vreinterpretq_u8_u16(unfold_halves(vzip2q_u8(*low, *high), vzip2q_u8(a, a)));
    *low = vuzp1q_u8(x, y);
    *high = vuzp2q_u8(x, y);
}
static inline uint32_t word_place(uint32_t i) {
    return i;
}
static inline void v_store_words(vec low, vec high, bool twice, int16_t *out) {
    int16x8_t x = vreinterpretq_s16_u8(vzip1q_u8(low, high));
    int16x8_t y = vreinterpretq_s16_u8(vzip2q_u8(low, high));
    vst1q_s16(out, twice ? vaddq_s16(x, x) : x);
    vst1q_s16(out + 8, twice ? vaddq_s16(y, y) : y);
}
static inline void v_store_bytes(vec bytes, bool twice, int16_t *out) {
    v_store_words(bytes, v_negative(bytes), twice, out);
}

static inline vec v_eights(const uint64_t *x) {
    return vreinterpretq_u8_u64(vld1q_u64(x));
}

static inline uint64_t spread_field(const uint8_t *bytes, uint32_t shift, uint64_t field) {
    (void)field;
    return sky_spread_fields(sky_load_u64(bytes), shift);
}

/* A look-up of 64 bytes gives 0 for what lies beyond, so those of all parts are or'ed. */
#define ORDER_MAX   256u
#define ORDER_GRAIN 64u

typedef struct {
    uint8_t from[ORDER_MAX];
} order;

static inline void order_init(order *o, const uint8_t *from, uint32_t count) {
    memcpy(o->from, from, count);
}

static inline void order_or(const order *o, uint32_t at, const uint8_t *in, uint32_t begin,
                            uint32_t end, uint32_t vecs, vec *out) {
    for (uint32_t j = 0; j < vecs; j++) {
        vec from = v_load(o->from + at + 16 * j);
        for (uint32_t part = begin; part < end; part += 64)
            out[j] = vorrq_u8(
                out[j], vqtbl4q_u8(vld1q_u8_x4(in + part), v_sub(from, v_set((uint8_t)part))));
    }
}

static inline void order_or_two(const order *o, uint32_t at, const uint8_t *low,
                                const uint8_t *high, uint32_t begin, uint32_t end, uint32_t vecs,
                                vec *out_low, vec *out_high) {
    order_or(o, at, low, begin, end, vecs, out_low);
    order_or(o, at, high, begin, end, vecs, out_high);
}

#include "codec/rows_units.h"

void sky__decode_prepare_neon(sky_tables *tables, const sky_coder *rows) {
    prepare_units(tables, rows);
}

size_t sky__row_decode_neon(sky_coder *rows, const sky_tables *tables, uint32_t half,
                            const uint8_t *in, int16_t *levels) {
    return decode_row_of_units(rows, tables, half, in, levels);
}
