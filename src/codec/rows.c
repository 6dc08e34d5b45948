/* See rows.h. The scalar kernels: what every other must equal. */
#include "codec/rows.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/exact.h"

const uint8_t sky__trellis_next[16] = {0, 2, 4, 6, 5, 7, 1, 3, 2, 0, 6, 4, 7, 5, 3, 1};

void sky__rows_init(sky_coder *rows, uint32_t width, bool plain) {
    assert(width >= 1 && width <= SKY_WIDTH_MAX);
    memset(rows, 0, sizeof *rows);
    rows->width = width;
    rows->steps = sky_padded(width) / SKY_LANES;
    rows->plain = plain;
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        sky_rows_set_state(rows, lane, SKY_STATE_LOW);
}

void sky__rows_order(sky_coder *rows, uint32_t half, const uint8_t *keys) {
    uint16_t start[257] = {0}, *channel = rows->channel[half];
    uint32_t padded = rows->steps * SKY_LANES, pads = padded - rows->width;
    for (uint32_t i = 0; i < pads; i++)
        channel[i] = (uint16_t)(rows->width + i);
    for (uint32_t i = 0; i < rows->width; i++)
        start[(keys ? keys[i] : 0) + 1]++;
    for (uint32_t k = 0; k < 256; k++)
        start[k + 1] = (uint16_t)(start[k + 1] + start[k]);
    for (uint32_t i = 0; i < rows->width; i++)
        channel[pads + start[keys ? keys[i] : 0]++] = (uint16_t)i;
}

void sky__rows_classes(sky_coder *rows, uint32_t half, const uint8_t *classes) {
    rows->low_bytes[half] = 0;
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        rows->classes[half][u] = classes[u];
        rows->table[half][u] = (uint8_t)sky_class_table(classes[u]);
        rows->shift[half][u] = (uint8_t)sky_class_shift(classes[u]);
        rows->low_bytes[half] += 2 * sky_class_shift(classes[u]);
    }
}

void sky__rows_exact_classes(sky_coder *rows, uint32_t half, const uint8_t *classes,
                             uint32_t shift) {
    uint32_t first = SKY_BANK_EXACT + half * SKY_EXACT_TABLES;
    rows->exact = true;
    rows->low_bytes[half] = half ? 2 * shift * sky_rows_units(rows) : 0;
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        rows->classes[half][u] = classes[u];
        rows->table[half][u] = (uint8_t)(first + classes[u] % SKY_EXACT_TABLES);
        rows->shift[half][u] = (uint8_t)(half ? shift : 0);
    }
}

bool sky__rows_finished(const sky_coder *rows) {
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        if (sky_rows_state(rows, lane) != SKY_STATE_LOW)
            return false;
    return true;
}

/* ---- decoding ---- */

static void make_table(sky_slots *slots, uint32_t table) {
    for (uint32_t a = 0; a < 2; a++) {
        const uint8_t *frequency = sky__bank[table][a];
        uint8_t *symbol = slots->symbol[table][a];
        uint32_t at = 0;
        for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
            slots->start[table][a][s] = (uint8_t)at;
            memset(symbol + at, (int)s, frequency[s]);
            at += frequency[s];
        }
        if (table == 0)
            memset(symbol, SKY_SYMBOL_ZERO, 256);
    }
}

void sky__decode_prepare(sky_tables *tables, const sky_coder *rows) {
    sky_slots *slots = &tables->slots;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
            uint32_t table = rows->table[half][u];
            if (slots->made[table / 64] >> table % 64 & 1)
                continue;
            slots->made[table / 64] |= (uint64_t)1 << table % 64;
            make_table(slots, table);
        }
}

/* One unit's symbols. */
static inline const uint8_t *decode_unit(const sky_slots *restrict slots, uint32_t table,
                                         const uint8_t *restrict trellis, uint16_t *restrict state,
                                         const uint8_t *restrict in, uint8_t *restrict symbols) {
    const uint8_t *symbol = slots->symbol[table][0], *start = slots->start[table][0];
    const uint8_t *frequency = sky__bank[table][0];
    for (uint32_t i = 0; i < SKY_UNIT; i++) {
        uint32_t a = trellis[i] >> 2, x = state[i], slot = x & 255;
        uint32_t s = symbol[a * 256 + slot], at = a * SKY_SYMBOLS + s;
        x = frequency[at] * (x >> 8) + slot - start[at];
        uint32_t refill = x < SKY_STATE_LOW; /* as likely as not: no branch */
        x = x << 8 * refill | (*in & (0 - refill));
        in += refill;
        state[i] = (uint16_t)x;
        symbols[i] = (uint8_t)s;
    }
    return in;
}

static const uint8_t *decode_symbols(sky_coder *rows, const sky_slots *slots, uint32_t half,
                                     const uint8_t *in, uint8_t *symbols) {
    uint16_t state[SKY_LANES];
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        state[lane] = (uint16_t)sky_rows_state(rows, lane);
    for (uint32_t at = 0; at < rows->steps * SKY_LANES; at += SKY_UNIT) {
        uint32_t table = rows->table[half][at / SKY_UNIT];
        if (table == 0)
            memset(symbols + at, SKY_SYMBOL_ZERO, SKY_UNIT);
        else
            in = decode_unit(slots, table, rows->trellis[half] + at, state + at % SKY_LANES, in,
                             symbols + at);
    }
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        sky_rows_set_state(rows, lane, state[lane]);
    return in;
}

/* Symbols and low bits to levels; true when an escape is among them. */
static bool levels_of(const sky_coder *rows, uint32_t half, const uint8_t *low,
                      const uint8_t *symbols, int32_t *k) {
    bool escapes = false;
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        uint32_t shift = rows->shift[half][u], at = u * SKY_UNIT;
        uint64_t fields[2] = {0, 0};
        for (uint32_t i = 0; i < 2 * shift; i++)
            fields[i / shift] |= (uint64_t)low[i] << 8 * (i % shift);
        low += 2 * shift;
        for (uint32_t i = 0; i < SKY_UNIT; i++) {
            uint32_t field = (uint32_t)(fields[i / 8] >> i % 8 * shift) & ((1u << shift) - 1);
            k[at + i] = ((int32_t)symbols[at + i] - SKY_SYMBOL_ZERO) * (1 << shift) +
                        (int32_t)field;
            escapes |= symbols[at + i] == SKY_ESCAPE;
        }
    }
    return escapes;
}

static const uint8_t *patch_escapes(const sky_coder *rows, const uint8_t *symbols,
                                    const uint8_t *in, int32_t *k) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++) {
        if (symbols[i] != SKY_ESCAPE)
            continue;
        k[i] = (int16_t)sky_load_u16(in);
        in += 2;
        if (k[i] > SKY_LEVEL_MAX || k[i] < -SKY_LEVEL_MAX)
            return NULL;
    }
    return in;
}

size_t sky__row_decode(sky_coder *rows, const sky_tables *tables, uint32_t half, const uint8_t *in,
                       int16_t *levels) {
    uint8_t symbols[SKY_WIDTH_MAX];
    int32_t k[SKY_WIDTH_MAX];
    const uint8_t *end = in + rows->low_bytes[half];
    end = decode_symbols(rows, &tables->slots, half, end, symbols);
    if (levels_of(rows, half, in, symbols, k))
        end = patch_escapes(rows, symbols, end, k);
    if (!end)
        return SIZE_MAX;
    uint8_t *trellis = rows->trellis[half];
    const uint16_t *channel = rows->channel[half];
    uint32_t count = rows->steps * SKY_LANES;
    for (uint32_t i = 0; i < count; i++) {
        int32_t a = -(trellis[i] >> 2), sign = (k[i] > 0) - (k[i] < 0);
        levels[channel[i]] = (int16_t)(2 * k[i] - (sign & a));
    }
    for (uint32_t i = 0; !rows->plain && i < count; i++)
        trellis[i] = sky__trellis_next[trellis[i] | (k[i] & 1) << 3];
    if (rows->exact && half == 0)
        sky__exact_contexts(rows, levels);
    return (size_t)(end - in);
}

/* ---- encoding ---- */

/* Starts of the symbols of each unit's table, by a. */
typedef struct {
    uint8_t start[2][SKY_UNITS_MAX][2][SKY_SYMBOLS];
} encode_starts;

static_assert(sizeof(encode_starts) <= sizeof(sky_encode_tables), "tables are too large");

void sky__encode_prepare(sky_encode_tables *tables, const sky_coder *rows) {
    encode_starts *t = (encode_starts *)tables;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < sky_rows_units(rows); u++)
            for (uint32_t a = 0; a < 2; a++) {
                const uint8_t *frequency = sky__bank[rows->table[half][u]][a];
                uint32_t at = 0;
                for (uint32_t s = 0; s < SKY_SYMBOLS; at += frequency[s], s++)
                    t->start[half][u][a][s] = (uint8_t)at;
            }
}

/* A row in the coder's order: levels, and symbols, those without a slot as escapes. */
typedef struct {
    int16_t k[SKY_WIDTH_MAX];
    uint8_t a[SKY_WIDTH_MAX];
    uint8_t symbol[SKY_WIDTH_MAX];
} split_row;

static void split(const sky_coder *rows, uint32_t half, const int16_t *packed, split_row *out) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++) {
        int32_t value = packed[rows->channel[half][i]];
        uint32_t unit = i / SKY_UNIT, a = (uint32_t)(value & 1);
        uint32_t symbol = sky_symbol_of(value >> 1, rows->shift[half][unit]);
        out->k[i] = (int16_t)(value >> 1);
        out->a[i] = (uint8_t)a;
        out->symbol[i] = (uint8_t)(sky__bank[rows->table[half][unit]][a][symbol] ? symbol
                                                                                 : SKY_ESCAPE);
    }
}

static uint8_t *encode_escapes(const sky_coder *rows, uint32_t half, const split_row *row,
                               uint8_t *end) {
    for (uint32_t i = rows->steps * SKY_LANES; i-- > 0;) {
        if (row->symbol[i] != SKY_ESCAPE || rows->table[half][i / SKY_UNIT] == 0)
            continue;
        end -= 2;
        sky_store_u16(end, (uint16_t)row->k[i]);
    }
    return end;
}

static inline uint8_t *encode_symbol(uint16_t *state, uint32_t f, uint32_t start, uint8_t *end) {
    uint32_t x = *state, full = x >= f << 8; /* as likely as not: no branch */
    end[-1] = (uint8_t)x;
    end -= full;
    x >>= 8 * full;
    uint32_t quotient = (uint32_t)((uint64_t)x * sky__bank_reciprocal[f] >> 24);
    *state = (uint16_t)((quotient << 8) + (x - quotient * f) + start);
    return end;
}

static uint8_t *encode_symbols(sky_coder *rows, const encode_starts *t, uint32_t half,
                               const split_row *row, uint8_t *end) {
    uint16_t state[SKY_LANES];
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        state[lane] = (uint16_t)sky_rows_state(rows, lane);
    for (uint32_t i = rows->steps * SKY_LANES; i-- > 0;) {
        uint32_t unit = i / SKY_UNIT, table = rows->table[half][unit];
        if (table != 0)
            end = encode_symbol(&state[i % SKY_LANES], sky__bank[table][row->a[i]][row->symbol[i]],
                                t->start[half][unit][row->a[i]][row->symbol[i]], end);
    }
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        sky_rows_set_state(rows, lane, state[lane]);
    return end;
}

static uint8_t *encode_low_bits(const sky_coder *rows, uint32_t half, const int16_t *k,
                                uint8_t *end) {
    for (uint32_t u = sky_rows_units(rows); u-- > 0;) {
        uint32_t shift = rows->shift[half][u];
        for (uint32_t group = 2; shift && group-- > 0;) {
            uint64_t fields = 0;
            for (uint32_t i = 0; i < 8; i++)
                fields |= (uint64_t)((uint32_t)k[u * SKY_UNIT + group * 8 + i] &
                                     ((1u << shift) - 1))
                          << i * shift;
            end -= shift;
            for (uint32_t i = 0; i < shift; i++)
                end[i] = (uint8_t)(fields >> 8 * i);
        }
    }
    return end;
}

uint8_t *sky__row_encode(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                         const int16_t *packed, uint8_t *end) {
    split_row row;
    split(rows, half, packed, &row);
    end = encode_escapes(rows, half, &row, end);
    end = encode_symbols(rows, (const encode_starts *)tables, half, &row, end);
    return encode_low_bits(rows, half, row.k, end);
}
