/* Rows of levels, a unit of sixteen channels or several at a time: the text that AVX2 and NEON
 * share. The file that includes it has defined VEC_UNITS and, on vectors `vec` of so many units,
 *
 *   v_load v_store v_set v_add v_sub v_and v_or v_min v_shift_left_2 v_shift_left_3
 *   v_twice(p)                  sixteen bytes, in every unit
 *   v_look_up(table, index)     within a unit; index below 16
 *   v_reached(x, start)         −1 where x ≥ start
 *   v_select(where, x, y)       x where −1
 *   v_is_zero(x)                −1 where 0
 *   v_bits(where)               as an integer
 *   v_count(where)              how many
 *   v_spread(in, where)         bytes from memory onto the lanes where −1, anything elsewhere
 *   v_next(rest, high, less, &low, &high)    (high, rest) − less × high, as words
 *   v_halves(low, high, a, out) 2k − (a ? sgn k : 0) of words; a: −1 or 0
 *   v_eights(p)                 from 64-bit words
 *   spread(bytes, shift)        eight fields of `shift` bits, into bytes
 *
 * How a symbol is found: rows_avx512.c. */
#ifndef SKY_CODEC_ROWS_UNITS_H
#define SKY_CODEC_ROWS_UNITS_H

#include <string.h>

#include "base/bytes.h"
#include "codec/exact.h"
#include "codec/rows.h"

#define VEC_BYTES (VEC_UNITS * SKY_UNIT)

/* What the units of a vector look up. */
typedef struct {
    _Alignas(32) uint8_t quarter[3][VEC_BYTES]; /* [4a]: start of symbol 4 (j + 1); everywhere, when
                                                   a is 0 throughout */
    uint8_t third[3][VEC_BYTES];                /* [4a + i]: start of symbol 4i + 1 + j */
    uint8_t less[2][VEC_BYTES];                 /* by a: 256 − frequency */
    uint8_t start[2][VEC_BYTES];
    uint8_t level_low[VEC_BYTES]; /* (symbol − 7) << shift, its bytes */
    uint8_t level_high[VEC_BYTES];
    uint8_t symbol_max[VEC_BYTES];
    uint8_t shift[VEC_UNITS];
} vec_tables;

typedef struct {
    vec_tables vec[2][SKY_UNITS_MAX / VEC_UNITS];
} decode_tables;

_Static_assert(sizeof(decode_tables) <= sizeof(sky_tables), "tables are too large");

static void make_starts(vec_tables *t, uint32_t at, uint32_t a, const uint8_t *frequency) {
    uint8_t *start = t->start[a] + at;
    uint32_t sum = 0;
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
        start[s] = (uint8_t)(sum < 255 ? sum : 255);
        t->less[a][at + s] = (uint8_t)(256 - frequency[s]);
        sum += frequency[s];
    }
    for (uint32_t j = 0; j < 3; j++) {
        memset(t->quarter[j] + at + 4 * a, start[4 * j + 4], SKY_UNIT - 4 * a);
        for (uint32_t i = 0; i < 4; i++)
            t->third[j][at + 4 * a + i] = start[4 * i + 1 + j];
    }
}

static void make_unit(vec_tables *t, uint32_t at, uint32_t table, uint32_t shift, _Bool by_a) {
    _Bool signs = table >= SKY_BANK_EXACT + SKY_EXACT_TABLES;
    for (uint32_t a = 0; a < (by_a ? 2 : 1); a++) {
        make_starts(t, at, a, sky__bank[table][a]);
        if (signs) { /* slot 255 finds symbol 15, which stands for 10, the last there is */
            t->start[a][at + 15] = t->start[a][at + 10];
            t->less[a][at + 15] = t->less[a][at + 10];
        }
    }
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
        int32_t level = ((int32_t)s - SKY_SYMBOL_ZERO) * (1 << shift);
        t->level_low[at + s] = (uint8_t)level;
        t->level_high[at + s] = (uint8_t)((uint32_t)level >> 8);
    }
    memset(t->symbol_max + at, table == 0 ? SKY_SYMBOL_ZERO : signs ? 10 : SKY_ESCAPE, SKY_UNIT);
    t->shift[at / SKY_UNIT] = (uint8_t)shift;
}

static void prepare_units(sky_tables *tables, const sky_coder *rows) {
    decode_tables *t = (decode_tables *)tables;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < sky_rows_units(rows); u++)
            make_unit(&t->vec[half][u / VEC_UNITS], u % VEC_UNITS * SKY_UNIT, rows->table[half][u],
                      rows->shift[half][u], sky_rows_by_a(rows));
}

/* Of the low bytes that are left: how many of three starts x has reached, onto `base`. */
static inline vec count_reached(vec x, vec s0, vec s1, vec s2, vec base) {
    vec two = v_add(v_reached(x, s0), v_reached(x, s1));
    return v_sub(v_sub(base, v_reached(x, s2)), two);
}

/* Symbols of a vector; low and high bytes of its states become those after them, but for the bytes
 * from the stream. */
static inline vec decode_vec(const vec_tables *t, vec state, _Bool by_a, vec *low, vec *high) {
    vec a4 = by_a ? v_and(state, v_set(4)) : v_set(0), slot = *low, start[3];
    for (uint32_t j = 0; j < 3; j++)
        start[j] = by_a ? v_look_up(v_load(t->quarter[j]), a4) : v_load(t->quarter[j]);
    vec at = count_reached(slot, start[0], start[1], start[2], a4);
    vec base = v_shift_left_2(by_a ? v_and(at, v_set(3)) : at);
    vec symbol = count_reached(slot, v_look_up(v_load(t->third[0]), at),
                               v_look_up(v_load(t->third[1]), at),
                               v_look_up(v_load(t->third[2]), at), base);
    vec less = v_look_up(v_load(t->less[0]), symbol);
    vec begin = v_look_up(v_load(t->start[0]), symbol);
    if (by_a) {
        vec a = v_reached(a4, v_set(4));
        less = v_select(a, v_look_up(v_load(t->less[1]), symbol), less);
        begin = v_select(a, v_look_up(v_load(t->start[1]), symbol), begin);
    }
    v_next(v_sub(slot, begin), *high, less, low, high);
    return v_min(symbol, v_load(t->symbol_max));
}

/* A byte for every state below 256. */
static inline const uint8_t *refill(vec *low, vec *high, const uint8_t *in) {
    vec empty = v_is_zero(*high);
    vec bytes = v_spread(in, empty);
    *high = v_select(empty, *low, *high);
    *low = v_select(empty, bytes, *low);
    return in + v_count(empty);
}

typedef struct {
    _Alignas(32) int16_t n[SKY_WIDTH_MAX];       /* by position */
    _Alignas(32) uint8_t trellis[SKY_WIDTH_MAX]; /* before the row */
    uint32_t escapes[SKY_UNITS_MAX / VEC_UNITS];
} scratch;

/* Levels of a vector, from symbols and low bits; steps its trellis. Returns the low bits' end. */
static inline const uint8_t *levels_of_vec(const vec_tables *t, vec symbol, vec state,
                                           const uint8_t *low, _Bool by_a, _Bool stepped,
                                           uint8_t *trellis, int16_t *n) {
    vec k = v_look_up(v_load(t->level_low), symbol), a = v_set(0);
    uint64_t fields[VEC_BYTES / 8];
    for (uint32_t g = 0; g < VEC_BYTES / 8; g++) {
        uint32_t shift = t->shift[g / 2];
        fields[g] = spread(low, shift);
        low += shift;
    }
    k = v_or(k, v_eights(fields));
    if (by_a)
        a = v_reached(v_and(state, v_set(4)), v_set(4));
    if (stepped) {
        vec parity = v_and(v_shift_left_3(k), v_set(8));
        v_store(trellis, v_look_up(v_twice(sky__trellis_next), v_or(state, parity)));
    }
    v_halves(k, v_look_up(v_load(t->level_high), symbol), a, n);
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
            levels[rows->channel[half][i]] = (int16_t)(2 * k - (m->trellis[i] >> 2) * sign);
            if (!rows->plain)
                rows->trellis[half][i] = sky__trellis_next[m->trellis[i] | (k & 1) << 3];
        }
    return used;
}

static inline size_t decode_row(sky_coder *rows, const decode_tables *tables, uint32_t half,
                                const uint8_t *in, _Bool by_a, int16_t *levels) {
    scratch m;
    const uint8_t *low_bits = in, *at = in + rows->low_bytes[half];
    _Bool stepped = by_a && !rows->plain;
    for (uint32_t v = 0; v < sky_rows_units(rows) / VEC_UNITS; v++) {
        const vec_tables *t = &tables->vec[half][v];
        uint32_t position = v * VEC_BYTES, lane = position % SKY_LANES;
        uint8_t *trellis = rows->trellis[half] + position;
        vec state = v_load(trellis), low = v_load(rows->state[0] + lane);
        vec high = v_load(rows->state[1] + lane);
        vec symbol = decode_vec(t, state, by_a, &low, &high);
        at = refill(&low, &high, at);
        v_store(rows->state[0] + lane, low);
        v_store(rows->state[1] + lane, high);
        v_store(m.trellis + position, state);
        m.escapes[v] = v_bits(v_reached(symbol, v_set(SKY_ESCAPE)));
        low_bits = levels_of_vec(t, symbol, state, low_bits, by_a, stepped, trellis,
                                 m.n + position);
    }
    const uint16_t *channel = rows->channel[half];
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++)
        levels[channel[i]] = m.n[i];
    size_t used = (size_t)(at - in), more = patch_escapes(rows, half, &m, at, levels);
    return more == SIZE_MAX ? SIZE_MAX : used + more;
}

static inline size_t decode_row_of_units(sky_coder *rows, const sky_tables *tables, uint32_t half,
                                         const uint8_t *in, int16_t *levels) {
    const decode_tables *t = (const decode_tables *)tables;
    if (!sky_rows_by_a(rows))
        return decode_row(rows, t, half, in, 0, levels);
    size_t used = decode_row(rows, t, half, in, 1, levels);
    if (rows->exact && half == 0 && used != SIZE_MAX)
        sky__exact_contexts(rows, levels);
    return used;
}

#endif
