/* Rows of levels, a unit of sixteen channels or several at a time: the text that AVX2 and NEON
 * share. The file that includes it has defined VEC_UNITS, VEC_BYTES, VEC_BIAS and, on vectors `vec`
 * of so many units,
 *
 *   v_load v_store v_set v_add v_sub v_and v_or v_min v_shift_left_2 v_shift_left_3
 *   v_twice(p)                  sixteen bytes, in every unit
 *   v_of_units(p)               sixteen bytes each
 *   v_sums(x)                   of the bytes before, in each unit; at most 255
 *   v_look_up(table, index)     within a unit; index below 16
 *   v_above(x, y)               −1 where x > y, for bytes below 128 or biased ones
 *   v_bias(x)                   x ⊕ VEC_BIAS, for comparisons of any bytes
 *   v_negative(x)               −1 where x, with a sign, is below 0
 *   v_select(where, x, y)       x where −1
 *   v_is_zero(x)                −1 where 0
 *   v_bits(where)               as an integer
 *   v_count(where)              how many
 *   v_spread(in, where)         bytes from memory onto the lanes where −1, anything elsewhere
 *   v_next(rest, high, less, &low, &high)    (high, rest) − less × high, as words
 *   v_halves(k, a)              2k − (a ? sgn k : 0) of bytes; a: −1 or 0
 *   v_halves_of_words(&low, &high, a)        the same of words whose bytes are apart
 *   v_eights(p)                 from 64-bit words
 *   spread(bytes, shift, field)          eight fields of `shift` bits, into bits `field`
 *   v_store_words(low, high, twice, out)     words whose bytes are apart, times two if so said,
 *                                            in the order of word_place
 *   v_store_bytes(x, twice, out)             the same of bytes with a sign
 *   word_place(i)               which of a vector's bytes is stored as word i
 *
 * and, for up to ORDER_MAX bytes in another order, an `order` with
 *
 *   order_init(order, from, count)           for each byte where it comes from
 *   order_or(order, at, in, begin, end, vecs, out)    that many vectors of them, from place `at`
 *                                            on, or'ed to `out` where they come from begin … end,
 *                                            multiples of ORDER_GRAIN
 *   order_or_two(order, at, low, high, begin, end, vecs, out_low, out_high)
 *
 * How a symbol is found: rows_avx512.c. */
#ifndef SKY_CODEC_ROWS_UNITS_H
#define SKY_CODEC_ROWS_UNITS_H

#include <string.h>

#include "base/bytes.h"
#include "codec/exact.h"
#include "codec/rows.h"

/* What is known of a row is constant inside: one body for each kind. */
#define INLINE     static inline __attribute__((always_inline))
#define VECS       (SKY_LANES / VEC_BYTES) /* of a step */
#define ORDER_VECS 8u /* of a plane, put in order at once; of two planes half as many */
/* Levels of classes that shift no further fit a byte: where there is a bit a they are kept in half
 * steps, else in whole ones and doubled when they are put in order. */
#define NARROW_SHIFT(by_a) ((by_a) ? 3u : 4u)

/* What is known of a row before it is decoded. */
typedef struct {
    bool by_a;    /* bit a selects tables and levels */
    bool stepped; /* the trellis runs */
    bool shifted; /* there are low bits */
    bool wide;    /* levels take two bytes */
} row_kind;

/* What the units of a vector look up. */
typedef struct {
    _Alignas(32) uint8_t quarter[3][VEC_BYTES]; /* [4a]: start of symbol 4 (j + 1); everywhere, when
                                                   a is 0 throughout; biased */
    uint8_t third[3][VEC_BYTES];                /* [4a + i]: start of symbol 4i + 1 + j; biased */
    uint8_t less[2][VEC_BYTES];                 /* by a: 256 − frequency */
    uint8_t start[2][VEC_BYTES];
    uint8_t level_low[VEC_BYTES]; /* (symbol − 7) << shift, its bytes */
    uint8_t level_high[VEC_BYTES];
    uint8_t symbol_max[VEC_BYTES];
    uint64_t field[VEC_UNITS]; /* low bits of eight bytes */
    uint32_t shift[VEC_UNITS];
} vec_tables;

typedef struct {
    vec_tables vec[2][SKY_UNITS_MAX / VEC_UNITS];
    order order[2];
    uint32_t narrow[2]; /* places before it have levels that fit a byte: whole units */
} decode_tables;

_Static_assert(sizeof(decode_tables) <= SKY_VECTOR_TABLES_BYTES, "tables are too large");

/* From positions to channels. */
static void make_order(order *o, const uint16_t *channel, uint32_t count) {
    uint8_t from[ORDER_MAX];
    if (count > ORDER_MAX)
        return;
    for (uint32_t i = 0; i < count; i++)
        from[channel[i] / VEC_BYTES * VEC_BYTES + word_place(channel[i] % VEC_BYTES)] = (uint8_t)i;
    order_init(o, from, count);
}

/* Starts and frequencies of a vector's tables, of both a's where that is asked for. What a = 1 has
 * is looked up four bytes on. */
static void make_starts(vec_tables *t, const uint8_t *tables, bool by_a) {
    static const uint8_t second[16] = {0, 0, 0, 0, 255, 255, 255, 255}, /* four */
        thirds[16] = {1, 5, 9, 13, 1, 5, 9, 13};
    vec start[2], ones = v_twice(second);
    for (uint32_t a = 0; a < (by_a ? 2 : 1); a++) {
        const uint8_t *frequency[VEC_UNITS];
        for (uint32_t u = 0; u < VEC_UNITS; u++)
            frequency[u] = sky__bank[tables[u]][a];
        vec f = v_of_units(frequency);
        start[a] = v_sums(f);
        v_store(t->less[a], v_sub(v_set(0), f));
        v_store(t->start[a], start[a]);
        start[a] = v_bias(start[a]);
    }
    if (!by_a)
        start[1] = start[0];
    for (uint32_t j = 0; j < 3; j++) {
        vec four = v_set((uint8_t)(4 * j + 4)), third = v_add(v_twice(thirds), v_set((uint8_t)j));
        v_store(t->quarter[j],
                v_select(ones, v_look_up(start[1], four), v_look_up(start[0], four)));
        v_store(t->third[j],
                v_select(ones, v_look_up(start[1], third), v_look_up(start[0], third)));
    }
}

static void make_unit(vec_tables *t, uint32_t at, uint32_t table, uint32_t shift) {
    bool signs = table >= SKY_BANK_EXACT + SKY_EXACT_TABLES;
    for (uint32_t a = 0; signs && a < 2; a++) {
        /* slot 255 finds symbol 15, which stands for 10, the last there is */
        t->start[a][at + 15] = t->start[a][at + 10];
        t->less[a][at + 15] = t->less[a][at + 10];
    }
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
        int32_t level = ((int32_t)s - SKY_SYMBOL_ZERO) * (1 << shift);
        t->level_low[at + s] = (uint8_t)level;
        t->level_high[at + s] = (uint8_t)((uint32_t)level >> 8);
    }
    memset(t->symbol_max + at, table == 0 ? SKY_SYMBOL_ZERO : signs ? 10 : SKY_ESCAPE, SKY_UNIT);
    t->shift[at / SKY_UNIT] = shift;
    t->field[at / SKY_UNIT] = 0x0101010101010101u * ((1u << shift) - 1);
}

static void prepare_units(sky_tables *tables, const sky_coder *rows) {
    decode_tables *t = (decode_tables *)tables;
    bool by_a = sky_rows_by_a(rows);
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t narrow = 0;
        for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
            vec_tables *v = &t->vec[half][u / VEC_UNITS];
            if (u % VEC_UNITS == 0)
                make_starts(v, &rows->table[half][u], by_a);
            make_unit(v, u % VEC_UNITS * SKY_UNIT, rows->table[half][u], rows->shift[half][u]);
            narrow += narrow == u && rows->shift[half][u] <= NARROW_SHIFT(by_a);
        }
        t->narrow[half] = narrow * SKY_UNIT;
        make_order(&t->order[half], rows->channel[half], rows->steps * SKY_LANES);
    }
}

/* ---- a row ---- */

/* base, less one for each start that is above x. */
INLINE vec count_reached(vec x, vec s0, vec s1, vec s2, vec base) {
    vec two = v_add(v_above(s0, x), v_above(s1, x));
    return v_add(v_add(base, v_above(s2, x)), two);
}

/* Symbols of a vector; low and high bytes of its states become those after them, but for the bytes
 * from the stream. */
INLINE vec decode_vec(const vec_tables *t, vec a, vec a4, bool by_a, vec *low, vec *high) {
    vec slot = *low, x = v_bias(slot), start[3];
    for (uint32_t j = 0; j < 3; j++)
        start[j] = by_a ? v_look_up(v_load(t->quarter[j]), a4) : v_load(t->quarter[j]);
    vec at = count_reached(x, start[0], start[1], start[2], v_add(a4, v_set(3)));
    vec base = v_or(v_shift_left_2(by_a ? v_and(at, v_set(3)) : at), v_set(3));
    vec symbol = count_reached(x, v_look_up(v_load(t->third[0]), at),
                               v_look_up(v_load(t->third[1]), at),
                               v_look_up(v_load(t->third[2]), at), base);
    vec less = v_look_up(v_load(t->less[0]), symbol);
    vec begin = v_look_up(v_load(t->start[0]), symbol);
    if (by_a) {
        less = v_select(a, v_look_up(v_load(t->less[1]), symbol), less);
        begin = v_select(a, v_look_up(v_load(t->start[1]), symbol), begin);
    }
    v_next(v_sub(slot, begin), *high, less, low, high);
    return v_min(symbol, v_load(t->symbol_max));
}

/* A byte for every state below 256. */
INLINE const uint8_t *refill(vec *low, vec *high, const uint8_t *in) {
    vec empty = v_is_zero(*high);
    vec bytes = v_spread(in, empty);
    *high = v_select(empty, *low, *high);
    *low = v_select(empty, bytes, *low);
    return in + v_count(empty);
}

typedef struct {
    _Alignas(32) uint8_t low[SKY_WIDTH_MAX]; /* of levels, by position */
    _Alignas(32) uint8_t high[SKY_WIDTH_MAX];
    _Alignas(32) uint8_t trellis[SKY_WIDTH_MAX]; /* before the row */
    uint32_t escapes[SKY_UNITS_MAX / VEC_UNITS];
} scratch;

/* Low bits of a vector; returns their end. */
INLINE const uint8_t *fields_of_vec(const vec_tables *t, const uint8_t *low, vec *out) {
    uint64_t fields[VEC_BYTES / 8];
    for (uint32_t g = 0; g < VEC_BYTES / 8; g++) {
        fields[g] = spread_field(low, t->shift[g / 2], t->field[g / 2]);
        low += t->shift[g / 2];
    }
    *out = v_eights(fields);
    return low;
}

/* As sky__exact_contexts, of levels of a byte. */
INLINE void store_contexts(vec k, uint8_t *next_row, uint8_t *next_half) {
    v_store(next_row, v_and(v_negative(v_add(k, v_set(SKY_EXACT_BIAS - 1))), v_set(4)));
    v_store(next_half, v_and(v_negative(v_add(k, v_set(SKY_EXACT_BIAS))), v_set(4)));
}

/* Levels of a vector, from symbols and low bits; steps its trellis, or sets bits a of the next row
 * and of `next_half`. Returns the low bits' end. */
INLINE const uint8_t *levels_of_vec(const vec_tables *t, vec symbol, vec state, vec a,
                                    const uint8_t *low, row_kind kind, uint8_t *trellis,
                                    uint8_t *next_half, uint8_t *n_low, uint8_t *n_high) {
    vec k = v_look_up(v_load(t->level_low), symbol), fields;
    if (next_half)
        store_contexts(k, trellis, next_half);
    if (kind.shifted) {
        low = fields_of_vec(t, low, &fields);
        k = v_or(k, fields);
    }
    if (kind.stepped) {
        vec parity = v_and(v_shift_left_3(k), v_set(8));
        v_store(trellis, v_look_up(v_twice(sky__trellis_next), v_or(state, parity)));
    }
    if (kind.wide) {
        vec high = v_look_up(v_load(t->level_high), symbol);
        if (kind.by_a)
            v_halves_of_words(&k, &high, a);
        v_store(n_high, high);
    } else if (kind.by_a) {
        k = v_halves(k, a);
    }
    v_store(n_low, k);
    return low;
}

static inline size_t patch_escapes(sky_coder *rows, uint32_t half, const scratch *m,
                                   const uint8_t *in, int16_t *levels) {
    size_t used = 0;
    for (uint32_t v = 0; v < sky_rows_units(rows) / VEC_UNITS; v++)
        for (uint32_t left = m->escapes[v]; left; left &= left - 1, used += 2) {
            uint32_t i = v * VEC_BYTES + (uint32_t)__builtin_ctz(left);
            int32_t k = (int16_t)sky_load_u16(in + used), sign = (k > 0) - (k < 0);
            if (k > SKY_LEVEL_MAX || k < -SKY_LEVEL_MAX)
                return SIZE_MAX;
            uint32_t state = sky_rows_by_a(rows) ? m->trellis[i] : 0;
            levels[rows->channel[half][i]] = (int16_t)(2 * k - (int32_t)(state >> 2) * sign);
            if (rows->exact && half == 0)
                sky_exact_context(rows, i, k);
            if (!rows->plain)
                rows->trellis[half][i] = sky__trellis_next[state | (uint32_t)(k & 1) << 3];
        }
    return used;
}

/* Where a row's decoding is. */
typedef struct {
    vec low[VECS]; /* states */
    vec high[VECS];
    const uint8_t *in;       /* the next byte for a state */
    const uint8_t *low_bits; /* the next unit's */
} chain;

/* Levels at some places of a row, whole steps of it, but for escapes. */
INLINE void decode_steps(sky_coder *rows, const vec_tables *t, uint32_t half, uint32_t begin,
                         uint32_t end, row_kind kind, chain *c, scratch *m) {
    t += begin / VEC_BYTES;
    for (uint32_t step = begin; step < end; step += SKY_LANES) {
#pragma GCC unroll 4 /* states stay in registers */
        for (uint32_t j = 0; j < VECS; j++, t++) {
            uint32_t place = step + j * VEC_BYTES;
            uint8_t *trellis = rows->trellis[half] + place;
            vec state = v_set(0), a = v_set(0), a4 = v_set(0);
            if (kind.by_a) {
                state = v_load(trellis);
                v_store(m->trellis + place, state);
                a = v_above(state, v_set(3));
                a4 = v_and(state, v_set(4));
            }
            vec symbol = decode_vec(t, a, a4, kind.by_a, &c->low[j], &c->high[j]);
            m->escapes[place / VEC_BYTES] = v_bits(v_above(symbol, v_set(SKY_ESCAPE - 1)));
            uint8_t *next = kind.by_a && rows->exact && half == 0 ? rows->trellis[1] + place : NULL;
            c->low_bits = levels_of_vec(t, symbol, state, a, c->low_bits, kind, trellis, next,
                                        m->low + place, m->high + place);
        }
#pragma GCC unroll 4
        for (uint32_t j = 0; j < VECS; j++) /* last, as what waits keeps others from being begun */
            c->in = refill(&c->low[j], &c->high[j], c->in);
    }
}

/* All of a row but its escapes and order. Returns where the escapes begin. */
INLINE const uint8_t *decode_vecs(sky_coder *rows, const decode_tables *tables, uint32_t half,
                                  const uint8_t *in, row_kind kind, scratch *m) {
    const vec_tables *t = tables->vec[half];
    uint32_t count = rows->steps * SKY_LANES, narrow = kind.wide ? tables->narrow[half] : count;
    row_kind first = kind;
    first.wide = false;
    chain c = {.in = in + rows->low_bytes[half], .low_bits = in};
    for (uint32_t j = 0; j < VECS; j++) {
        c.low[j] = v_load(rows->state[0] + j * VEC_BYTES);
        c.high[j] = v_load(rows->state[1] + j * VEC_BYTES);
    }
    narrow -= kind.wide ? narrow % SKY_LANES : 0;
    decode_steps(rows, t, half, 0, narrow, first, &c, m);
    if (kind.wide)
        decode_steps(rows, t, half, narrow, count, kind, &c, m);
    for (uint32_t j = 0; j < VECS; j++) {
        v_store(rows->state[0] + j * VEC_BYTES, c.low[j]);
        v_store(rows->state[1] + j * VEC_BYTES, c.high[j]);
    }
    return c.in;
}

static void put_one_by_one(const uint16_t *channel, uint32_t narrow, uint32_t count, bool twice,
                           const scratch *m, int16_t *levels) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t byte = (m->low[i] ^ 0x80) - 0x80; /* with its sign */
        int32_t level = i < narrow ? byte : (int16_t)(m->low[i] | m->high[i] << 8);
        levels[channel[i]] = (int16_t)(twice ? 2 * level : level);
    }
}

/* Some vectors of the output. Low bytes that are narrow levels bring their signs with them. */
INLINE void put_vecs(const order *o, uint32_t at, uint32_t vecs, uint32_t narrow, uint32_t count,
                     row_kind kind, const scratch *m, int16_t *levels) {
    vec low[ORDER_VECS], high[ORDER_VECS];
    for (uint32_t j = 0; j < vecs; j++)
        low[j] = v_set(0);
    order_or(o, at, m->low, 0, narrow, vecs, low);
    for (uint32_t j = 0; kind.wide && j < vecs; j++)
        high[j] = v_negative(low[j]);
    if (kind.wide)
        order_or_two(o, at, m->low, m->high, narrow, count, vecs, low, high);
    for (uint32_t j = 0; j < vecs; j++)
        if (kind.wide)
            v_store_words(low[j], high[j], !kind.by_a, levels + at + j * VEC_BYTES);
        else
            v_store_bytes(low[j], !kind.by_a, levels + at + j * VEC_BYTES);
}

INLINE void put_in_order(const order *o, uint32_t narrow, uint32_t count, row_kind kind,
                         const scratch *m, int16_t *levels) {
    narrow -= kind.wide ? narrow % ORDER_GRAIN : 0;
    uint32_t at = 0, vecs = kind.wide ? ORDER_VECS / 2 : ORDER_VECS;
    for (; at + vecs * VEC_BYTES <= count; at += vecs * VEC_BYTES)
        put_vecs(o, at, vecs, narrow, count, kind, m, levels);
    for (; at < count; at += SKY_LANES)
        put_vecs(o, at, VECS, narrow, count, kind, m, levels);
}

INLINE size_t decode_row(sky_coder *rows, const decode_tables *tables, uint32_t half,
                         const uint8_t *in, row_kind kind, int16_t *levels) {
    scratch m;
    const uint8_t *end = decode_vecs(rows, tables, half, in, kind, &m);
    uint32_t count = rows->steps * SKY_LANES, narrow = kind.wide ? tables->narrow[half] : count;
    if (kind.by_a && rows->exact && half == 0)
        sky_exact_pads(rows);
    if (count <= ORDER_MAX)
        put_in_order(&tables->order[half], narrow, count, kind, &m, levels);
    else
        put_one_by_one(rows->channel[half], narrow, count, !kind.by_a, &m, levels);
    size_t used = (size_t)(end - in), more = patch_escapes(rows, half, &m, end, levels);
    return more == SIZE_MAX ? SIZE_MAX : used + more;
}

/* One body for each kind, in which it is constant; apart, or they would share one frame and what is
 * kept in registers. */
#define DECODE(name, ...)                                                                          \
    static __attribute__((noinline)) size_t name(sky_coder *rows, const decode_tables *t,          \
                                                 uint32_t half, const uint8_t *in,                 \
                                                 int16_t *levels) {                                \
        return decode_row(rows, t, half, in, (row_kind){__VA_ARGS__}, levels);                     \
    }
DECODE(decode_rounded, false, false, false, false)
DECODE(decode_rounded_shifted, false, false, true, false)
DECODE(decode_rounded_wide, false, false, true, true)
DECODE(decode_by_a, true, !rows->plain, false, false)
DECODE(decode_by_a_shifted, true, !rows->plain, true, false)
DECODE(decode_by_a_wide, true, !rows->plain, true, true)
#undef DECODE

static inline size_t decode_row_of_units(sky_coder *rows, const sky_tables *tables, uint32_t half,
                                         const uint8_t *in, int16_t *levels) {
    const decode_tables *t = (const decode_tables *)tables;
    bool wide = t->narrow[half] < rows->steps * SKY_LANES, shifted = rows->low_bytes[half] != 0;
    if (sky_rows_by_a(rows))
        return (wide      ? decode_by_a_wide
                : shifted ? decode_by_a_shifted
                          : decode_by_a)(rows, t, half, in, levels);
    return (wide      ? decode_rounded_wide
            : shifted ? decode_rounded_shifted
                      : decode_rounded)(rows, t, half, in, levels);
}

#endif
