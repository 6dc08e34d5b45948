/* Rows of levels, sixteen channels at a time: the text that AVX2 and NEON share. The file that
 * includes it has defined, on vectors `v16` of sixteen bytes,
 *
 *   v_load v_store v_set v_add v_sub v_and v_or v_min v_shift_left_2 v_shift_left_3
 *   v_look_up(table, index)     index below 16
 *   v_reached(x, start)         −1 where x ≥ start
 *   v_select(where, x, y)       x where −1
 *   v_is_zero(x)                −1 where 0
 *   v_bits(where)               the sixteen in an integer
 *   v_count(where)              how many
 *   v_spread(in, where)         bytes from memory onto the lanes where −1, anything elsewhere
 *   v_load_states(words, &low, &high)        low and high bytes of sixteen words
 *   v_store_states(low, high, words)
 *   v_next(rest, high, less, &low, &high)    (high, rest) − less × high, as words
 *   v_halves(low, high, a, out) 2k − (a ? sgn k : 0) of words; a: −1 or 0
 *   spread(bytes, shift)        eight fields of `shift` bits, into bytes
 *
 * How a symbol is found: rows_avx512.c. */
#ifndef SKY_CODEC_ROWS_UNITS_H
#define SKY_CODEC_ROWS_UNITS_H

#include <string.h>

#include "base/bytes.h"
#include "codec/rows.h"

/* What a unit looks up. */
typedef struct {
    v16 quarter[3];  /* [4a]: start of symbol 4 (j + 1); everywhere, while a is 0 */
    v16 third[3];    /* [4a + i]: start of symbol 4i + 1 + j */
    v16 less[2];     /* by a: 256 − frequency */
    v16 start[2];    /* by a */
    v16 level_low;   /* (symbol − 7) << shift, low and high byte */
    v16 level_high;
    uint8_t symbol_max;
    uint8_t shift;
} unit_tables;

typedef struct {
    unit_tables unit[2][SKY_UNITS_MAX];
} decode_tables;

_Static_assert(sizeof(decode_tables) <= sizeof(sky_tables), "tables are too large");

static void make_unit(unit_tables *t, uint32_t table, uint32_t shift, _Bool by_a) {
    uint8_t start[2][SKY_SYMBOLS], less[2][SKY_SYMBOLS], low[SKY_SYMBOLS], high[SKY_SYMBOLS];
    uint8_t quarter[3][16] = {{0}}, third[3][16] = {{0}};
    _Bool signs = table >= SKY_BANK_EXACT + SKY_EXACT_TABLES;
    for (uint32_t a = 0; a < 2; a++) {
        uint32_t at = 0;
        for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
            start[a][s] = (uint8_t)(at < 255 ? at : 255);
            less[a][s] = (uint8_t)(256 - sky__bank[table][a][s]);
            at += sky__bank[table][a][s];
        }
        for (uint32_t j = 0; j < 3; j++) {
            quarter[j][4 * a] = start[a][4 * j + 4];
            for (uint32_t i = 0; i < 4; i++)
                third[j][4 * a + i] = start[a][4 * i + 1 + j];
        }
        if (signs) { /* slot 255 finds symbol 15, which stands for 10, the last there is */
            start[a][15] = start[a][10];
            less[a][15] = less[a][10];
        }
        t->less[a] = v_load(less[a]);
        t->start[a] = v_load(start[a]);
    }
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
        int32_t level = ((int32_t)s - SKY_SYMBOL_ZERO) * (1 << shift);
        low[s] = (uint8_t)level;
        high[s] = (uint8_t)((uint32_t)level >> 8);
    }
    for (uint32_t j = 0; j < 3; j++) {
        t->quarter[j] = by_a ? v_load(quarter[j]) : v_set(quarter[j][0]);
        t->third[j] = v_load(third[j]);
    }
    t->level_low = v_load(low);
    t->level_high = v_load(high);
    t->symbol_max = table == 0 ? SKY_SYMBOL_ZERO : signs ? 10 : SKY_ESCAPE;
    t->shift = (uint8_t)shift;
}

static void prepare_units(sky_tables *tables, const sky_coder *rows) {
    decode_tables *t = (decode_tables *)tables;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < sky_rows_units(rows); u++)
            make_unit(&t->unit[half][u], rows->table[half][u], rows->shift[half][u],
                      sky_rows_by_a(rows));
}

/* Of the low bytes that are left: how many of three starts x has reached, onto `base`. */
static inline v16 count_reached(v16 x, v16 s0, v16 s1, v16 s2, v16 base) {
    v16 two = v_add(v_reached(x, s0), v_reached(x, s1));
    return v_sub(v_sub(base, v_reached(x, s2)), two);
}

/* A unit's symbols; low and high bytes of its states become those after them, but for the bytes
 * from the stream. */
static inline v16 decode_unit(const unit_tables *t, v16 state, _Bool by_a, v16 *low, v16 *high) {
    v16 a4 = by_a ? v_and(state, v_set(4)) : v_set(0), slot = *low, start[3];
    for (uint32_t j = 0; j < 3; j++)
        start[j] = by_a ? v_look_up(t->quarter[j], a4) : t->quarter[j];
    v16 at = count_reached(slot, start[0], start[1], start[2], a4);
    v16 base = v_shift_left_2(by_a ? v_and(at, v_set(3)) : at);
    v16 symbol = count_reached(slot, v_look_up(t->third[0], at), v_look_up(t->third[1], at),
                               v_look_up(t->third[2], at), base);
    v16 less = v_look_up(t->less[0], symbol), begin = v_look_up(t->start[0], symbol);
    if (by_a) {
        v16 a = v_reached(a4, v_set(4));
        less = v_select(a, v_look_up(t->less[1], symbol), less);
        begin = v_select(a, v_look_up(t->start[1], symbol), begin);
    }
    v_next(v_sub(slot, begin), *high, less, low, high);
    return v_min(symbol, v_set(t->symbol_max));
}

/* A byte for every state below 256. */
static inline const uint8_t *refill(v16 *low, v16 *high, const uint8_t *in) {
    v16 empty = v_is_zero(*high);
    v16 bytes = v_spread(in, empty);
    *high = v_select(empty, *low, *high);
    *low = v_select(empty, bytes, *low);
    return in + v_count(empty);
}

typedef struct {
    _Alignas(16) int16_t n[SKY_WIDTH_MAX];      /* by position */
    _Alignas(16) uint8_t trellis[SKY_WIDTH_MAX]; /* before the row */
    uint32_t escapes[SKY_UNITS_MAX];
} scratch;

/* Levels of a unit, from symbols and low bits; steps its trellis. Returns the low bits' end. */
static inline const uint8_t *levels_of_unit(const unit_tables *t, v16 symbol, v16 state,
                                            const uint8_t *low, _Bool by_a, _Bool stepped,
                                            uint8_t *trellis, int16_t *n) {
    v16 k = v_look_up(t->level_low, symbol), a = v_set(0);
    if (t->shift) {
        uint64_t fields[2] = {spread(low, t->shift), spread(low + t->shift, t->shift)};
        k = v_or(k, v_load(fields));
        low += 2 * t->shift;
    }
    if (by_a)
        a = v_reached(v_and(state, v_set(4)), v_set(4));
    if (stepped) {
        v16 parity = v_and(v_shift_left_3(k), v_set(8));
        v_store(trellis, v_look_up(v_load(sky__trellis_next), v_or(state, parity)));
    }
    v_halves(k, v_look_up(t->level_high, symbol), a, n);
    return low;
}

static inline size_t patch_escapes(sky_coder *rows, uint32_t half, const scratch *m,
                                   const uint8_t *in, int16_t *levels) {
    size_t used = 0;
    for (uint32_t u = 0; u < sky_rows_units(rows); u++)
        for (uint32_t left = m->escapes[u]; left; left &= left - 1, used += 2) {
            uint32_t i = u * SKY_UNIT + (uint32_t)__builtin_ctz(left);
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
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        const unit_tables *t = &tables->unit[half][u];
        uint32_t position = u * SKY_UNIT;
        uint8_t *trellis = rows->trellis[half] + position;
        uint16_t *words = rows->state + position % SKY_LANES;
        v16 state = v_load(trellis), low, high;
        v_load_states(words, &low, &high);
        v16 symbol = decode_unit(t, state, by_a, &low, &high);
        at = refill(&low, &high, at);
        v_store_states(low, high, words);
        v_store(m.trellis + position, state);
        m.escapes[u] = v_bits(v_reached(symbol, v_set(SKY_ESCAPE)));
        low_bits = levels_of_unit(t, symbol, state, low_bits, by_a, stepped, trellis,
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
    return sky_rows_by_a(rows) ? decode_row(rows, t, half, in, 1, levels)
                               : decode_row(rows, t, half, in, 0, levels);
}

#endif
