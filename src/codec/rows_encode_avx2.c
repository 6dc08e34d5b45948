/* Encoding rows of levels by AVX2 and BMI2: what rows.c does, the same bytes. A vector of bytes is
 * two units, a step two vectors.
 *
 * Two passes over a row: levels come into the coder's order and split into symbol, low bits and
 * escapes; then the states take the symbols, last step first. Dividing a state by a frequency is a
 * multiplication by floor(65536 / f) (65535 for 1), which gives the quotient or one less.
 *
 * A symbol's top bit is a: a shuffle gives 0 for an index with that bit, so that the tables of both
 * a's are looked up and or'ed. Bytes for the stream are packed by pext, eight lanes at a time, to
 * the upper end of eight bytes, which are stored in front of what is there: a row has room below.
 */
#include <immintrin.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/kernels_avx2.h"
#include "codec/order_avx2.h"

#define VEC_BYTES 32u
#define VECS_MAX  (SKY_WIDTH_MAX / VEC_BYTES)
#define VECS      (SKY_LANES / VEC_BYTES) /* of a step */

/* Of one vector, by unit. Symbols that have no slot look up what the escape has. */
typedef struct {
    __m256i frequency[2]; /* by a */
    __m256i start[2];
    __m256i reciprocal_low[2];
    __m256i reciprocal_high[2];
    __m256i escapes[2]; /* −1: coded as an escape */
    __m256i silent;     /* −1: of table 0, which leaves states alone */
    __m256i factor;     /* words: times it, and shifted by 16, is shifted by shift + 2 */
    uint64_t field[2];  /* low bits of eight bytes */
} vec_tables;

typedef struct {
    vec_tables vec[2][VECS_MAX];
    order order[2];
} encode_tables;

_Static_assert(sizeof(encode_tables) <= sizeof(sky_encode_tables), "tables are too large");

static void make_symbols(vec_tables *t, uint32_t at, uint32_t a, const uint8_t *frequency) {
    uint32_t start = 256;
    for (uint32_t s = SKY_SYMBOLS; s-- > 0;) {
        uint32_t f = frequency[s], i = at + s, from = f ? i : at + SKY_ESCAPE;
        start -= f;
        if (f || s == SKY_ESCAPE) {
            uint32_t r = sky__bank_reciprocal[f] >> 8;
            r = r < 65535 ? r : 65535;
            ((uint8_t *)&t->frequency[a])[i] = (uint8_t)f;
            ((uint8_t *)&t->start[a])[i] = (uint8_t)start;
            ((uint8_t *)&t->reciprocal_low[a])[i] = (uint8_t)r;
            ((uint8_t *)&t->reciprocal_high[a])[i] = (uint8_t)(r >> 8);
        } else {
            ((uint8_t *)&t->frequency[a])[i] = ((uint8_t *)&t->frequency[a])[from];
            ((uint8_t *)&t->start[a])[i] = ((uint8_t *)&t->start[a])[from];
            ((uint8_t *)&t->reciprocal_low[a])[i] = ((uint8_t *)&t->reciprocal_low[a])[from];
            ((uint8_t *)&t->reciprocal_high[a])[i] = ((uint8_t *)&t->reciprocal_high[a])[from];
        }
        ((int8_t *)&t->escapes[a])[i] = s == SKY_ESCAPE || !f ? -1 : 0;
    }
}

static void make_unit(vec_tables *t, uint32_t u, uint32_t table, uint32_t shift) {
    for (uint32_t a = 0; a < 2; a++)
        make_symbols(t, u * SKY_UNIT, a, sky__bank[table][a]);
    ((__m128i *)&t->silent)[u] = _mm_set1_epi8(table == 0 ? -1 : 0);
    ((__m128i *)&t->factor)[u] = _mm_set1_epi16((short)(1 << (14 - shift)));
    t->field[u] = 0x0101010101010101u * ((1u << shift) - 1);
}

void sky__encode_prepare_avx2(sky_encode_tables *tables, const sky_coder *rows) {
    encode_tables *t = (encode_tables *)tables;
    uint32_t count = rows->steps * SKY_LANES;
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t u = 0; u < sky_rows_units(rows); u++)
            make_unit(&t->vec[half][u / 2], u % 2, rows->table[half][u], rows->shift[half][u]);
        uint8_t from[ORDER_MAX];
        for (uint32_t i = 0; count <= ORDER_MAX && i < count; i++)
            from[i] = (uint8_t)rows->channel[half][i];
        if (count <= ORDER_MAX)
            order_init(&t->order[half], from, count);
    }
}

/* ---- first pass ---- */

typedef struct {
    _Alignas(32) uint8_t low[SKY_WIDTH_MAX]; /* of the row as it came, 2k + a, by channel */
    _Alignas(32) uint8_t high[SKY_WIDTH_MAX];
    _Alignas(32) uint8_t symbols[SKY_WIDTH_MAX]; /* by position, and 128 a */
    uint8_t fields[SKY_WIDTH_MAX + 8];           /* all low bits */
    uint32_t escapes[VECS_MAX];
} scratch;

static inline __m256i load_vector(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Low and high bytes of 32 words that lie in a row. */
static inline __m256i bytes_of(__m256i x, __m256i y) {
    const __m256i bytes = _mm256_set1_epi16(0x00ff);
    __m256i packed = _mm256_packus_epi16(_mm256_and_si256(x, bytes), _mm256_and_si256(y, bytes));
    return _mm256_permute4x64_epi64(packed, 0xd8);
}

/* Take a row's bytes apart. Does each value fit one? */
static inline bool take_apart(const int16_t *packed, uint32_t count, scratch *m) {
    const __m256i middle = _mm256_set1_epi16(128);
    __m256i outside = _mm256_setzero_si256();
    for (uint32_t i = 0; i < count; i += VEC_BYTES) {
        __m256i x = load_vector(packed + i), y = load_vector(packed + i + 16);
        _mm256_store_si256((__m256i *)(m->low + i), bytes_of(x, y));
        _mm256_store_si256((__m256i *)(m->high + i),
                           bytes_of(_mm256_srli_epi16(x, 8), _mm256_srli_epi16(y, 8)));
        outside = _mm256_or_si256(
            outside, _mm256_or_si256(_mm256_add_epi16(x, middle), _mm256_add_epi16(y, middle)));
    }
    return _mm256_testz_si256(outside, _mm256_set1_epi16((short)0xff00));
}

/* 32 values in the coder's order, as words 0 … 7 and 8 … 15 of each unit. */
typedef struct {
    __m256i x;
    __m256i y;
} words;

static inline words one_by_one(const uint16_t *channel, const int16_t *packed) {
    int16_t in_order[VEC_BYTES];
    for (uint32_t i = 0; i < VEC_BYTES; i++)
        in_order[i] = packed[channel[i]];
    __m256i a = load_vector(in_order), b = load_vector(in_order + 16);
    return (words){_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
}

/* Those of a step. */
static inline void in_order(const order *o, uint32_t place, uint32_t count, bool narrow,
                            const scratch *m, words out[VECS]) {
    __m256i low[VECS], high[VECS];
    order_step(o, place, m->low, count, low);
    if (!narrow)
        order_step(o, place, m->high, count, high);
    for (uint32_t j = 0; j < VECS; j++) {
        __m256i h = narrow ? _mm256_cmpgt_epi8(_mm256_setzero_si256(), low[j]) : high[j];
        out[j] = (words){_mm256_unpacklo_epi8(low[j], h), _mm256_unpackhi_epi8(low[j], h)};
    }
}

static inline __m256i symbols_of(__m256i value, __m256i factor) {
    __m256i u = _mm256_mulhi_epi16(_mm256_add_epi16(value, value), factor);
    u = _mm256_add_epi16(u, _mm256_set1_epi16(SKY_SYMBOL_ZERO));
    return _mm256_min_epu16(u, _mm256_set1_epi16(SKY_ESCAPE));
}

static inline __m256i look_up(const __m256i table[2], __m256i symbol) {
    const __m256i top = _mm256_set1_epi8(-128);
    return _mm256_or_si256(_mm256_shuffle_epi8(table[0], symbol),
                           _mm256_shuffle_epi8(table[1], _mm256_xor_si256(symbol, top)));
}

static inline uint64_t eight_of(__m256i x, int i) {
    __m128i half = i < 2 ? _mm256_castsi256_si128(x) : _mm256_extracti128_si256(x, 1);
    return (uint64_t)(i % 2 ? _mm_extract_epi64(half, 1) : _mm_cvtsi128_si64(half));
}

/* Low bits of a vector's levels; returns their end. */
static inline uint8_t *put_fields(const vec_tables *t, words w, uint8_t *out) {
    const __m256i bytes = _mm256_set1_epi16(0x00ff);
    __m256i x = _mm256_and_si256(_mm256_srli_epi16(w.x, 1), bytes);
    __m256i k = _mm256_packus_epi16(x, _mm256_and_si256(_mm256_srli_epi16(w.y, 1), bytes));
    for (int g = 0; g < 4; g++) {
        uint64_t field = t->field[g / 2];
        sky_store_u64(out, _pext_u64(eight_of(k, g), field));
        out += (uint32_t)__builtin_popcountll(field) / 8;
    }
    return out;
}

/* Symbols, escapes and low bits of a vector; returns the low bits' end. */
static inline uint8_t *split_vec(const vec_tables *t, words w, bool shifted, uint32_t v, scratch *m,
                                 uint8_t *fields) {
    __m256i symbol = _mm256_packus_epi16(symbols_of(w.x, t->factor), symbols_of(w.y, t->factor));
    __m256i a = _mm256_packs_epi16(_mm256_slli_epi16(w.x, 15), _mm256_slli_epi16(w.y, 15));
    symbol = _mm256_or_si256(symbol, a); /* −32768 is packed to −128 */
    _mm256_store_si256((__m256i *)(m->symbols + v * VEC_BYTES), symbol);
    __m256i escapes = _mm256_andnot_si256(t->silent, look_up(t->escapes, symbol));
    m->escapes[v] = (uint32_t)_mm256_movemask_epi8(escapes);
    return shifted ? put_fields(t, w, fields) : fields;
}

/* The first pass; returns how many bytes low bits take. */
static inline size_t split_row(const sky_coder *rows, const encode_tables *t, uint32_t half,
                               const int16_t *packed, scratch *m) {
    uint32_t count = rows->steps * SKY_LANES;
    bool by_order = count <= ORDER_MAX, narrow = by_order && take_apart(packed, count, m);
    bool shifted = rows->low_bytes[half] != 0;
    uint8_t *fields = m->fields;
    for (uint32_t v = 0; v < rows->steps * VECS; v += VECS) {
        words w[VECS];
        const uint16_t *channel = rows->channel[half] + v * VEC_BYTES;
        if (by_order)
            in_order(&t->order[half], v * VEC_BYTES, count, narrow, m, w);
        for (uint32_t j = 0; j < VECS; j++) {
            if (!by_order)
                w[j] = one_by_one(channel + j * VEC_BYTES, packed);
            fields = split_vec(&t->vec[half][v + j], w[j], shifted, v + j, m, fields);
        }
    }
    return (size_t)(fields - m->fields);
}

static uint8_t *put_escapes(const sky_coder *rows, uint32_t half, const scratch *m,
                            const int16_t *packed, uint8_t *end) {
    for (uint32_t v = rows->steps * VECS; v-- > 0;)
        for (uint32_t left = m->escapes[v]; left;) {
            uint32_t i = 31 - (uint32_t)__builtin_clz(left);
            left ^= 1u << i;
            end -= 2;
            sky_store_u16(end, (uint16_t)(packed[rows->channel[half][v * VEC_BYTES + i]] >> 1));
        }
    return end;
}

/* ---- second pass ---- */

/* x by f: the quotient, and in *rest what remains. */
static inline __m256i divide_lanes(__m256i x, __m256i f, __m256i reciprocal, __m256i *rest) {
    __m256i quotient = _mm256_mulhi_epu16(x, reciprocal);
    __m256i above = _mm256_sub_epi16(x, _mm256_mullo_epi16(quotient, f));
    *rest = _mm256_min_epu16(above, _mm256_sub_epi16(above, f));
    __m256i exact = _mm256_cmpeq_epi16(above, *rest); /* −1, or one more is due */
    return _mm256_add_epi16(_mm256_add_epi16(quotient, _mm256_set1_epi16(1)), exact);
}

/* Bytes where −1, in front of `end`. */
static inline uint8_t *put_bytes(__m256i bytes, __m256i where, uint8_t *end) {
    for (int g = 4; g-- > 0;) {
        uint64_t mask = eight_of(where, g), packed = _pext_u64(eight_of(bytes, g), mask);
        uint32_t bits = (uint32_t)__builtin_popcountll(mask);
        sky_store_u64(end - 8, packed << (64 - bits) % 64);
        end -= bits / 8;
    }
    return end;
}

static inline uint8_t *encode_vec(const vec_tables *t, __m256i symbol, __m256i *low, __m256i *high,
                                  uint8_t *end) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i f = look_up(t->frequency, symbol), start = look_up(t->start, symbol);
    __m256i r0 = look_up(t->reciprocal_low, symbol), r1 = look_up(t->reciprocal_high, symbol);
    __m256i full = _mm256_cmpeq_epi8(_mm256_max_epu8(*high, f), *high);
    full = _mm256_andnot_si256(t->silent, full);
    end = put_bytes(*low, full, end);
    __m256i l = _mm256_blendv_epi8(*low, *high, full), h = _mm256_andnot_si256(full, *high);
    __m256i rest_x, rest_y;
    __m256i x = divide_lanes(_mm256_unpacklo_epi8(l, h), _mm256_unpacklo_epi8(f, zero),
                             _mm256_unpacklo_epi8(r0, r1), &rest_x);
    __m256i y = divide_lanes(_mm256_unpackhi_epi8(l, h), _mm256_unpackhi_epi8(f, zero),
                             _mm256_unpackhi_epi8(r0, r1), &rest_y);
    l = _mm256_add_epi8(_mm256_packus_epi16(rest_x, rest_y), start);
    *low = _mm256_blendv_epi8(l, *low, t->silent);
    *high = _mm256_blendv_epi8(_mm256_packus_epi16(x, y), *high, t->silent);
    return end;
}

uint8_t *sky__row_encode_avx2(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                              const int16_t *packed, uint8_t *end) {
    const encode_tables *t = (const encode_tables *)tables;
    __m256i low[VECS], high[VECS];
    scratch m;
    size_t field_bytes = split_row(rows, t, half, packed, &m);
    end = put_escapes(rows, half, &m, packed, end);
    for (uint32_t j = 0; j < VECS; j++) {
        low[j] = load_vector(rows->state[0] + j * VEC_BYTES);
        high[j] = load_vector(rows->state[1] + j * VEC_BYTES);
    }
    for (uint32_t v = rows->steps * VECS; v > 0;)
        for (uint32_t j = VECS; j-- > 0;) {
            v--;
            end = encode_vec(&t->vec[half][v], load_vector(m.symbols + v * VEC_BYTES), &low[j],
                             &high[j], end);
        }
    for (uint32_t j = 0; j < VECS; j++) {
        _mm256_store_si256((__m256i *)(rows->state[0] + j * VEC_BYTES), low[j]);
        _mm256_store_si256((__m256i *)(rows->state[1] + j * VEC_BYTES), high[j]);
    }
    end -= field_bytes;
    memcpy(end, m.fields, field_bytes);
    return end;
}
