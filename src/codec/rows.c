/* See rows.h. The scalar kernels: what every other must equal. */
#include "codec/rows.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/exact.h"
#include "codec/fineness.h"

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
    uint16_t start[257] = {0}, *channel = rows->channel[half], *place = rows->place[half];
    uint32_t padded = rows->steps * SKY_LANES, pads = padded - rows->width;
    for (uint32_t i = 0; i < pads; i++)
        channel[i] = (uint16_t)(rows->width + i);
    for (uint32_t i = 0; i < rows->width; i++)
        start[(keys ? keys[i] : 0) + 1]++;
    for (uint32_t k = 0; k < 256; k++)
        start[k + 1] = (uint16_t)(start[k + 1] + start[k]);
    for (uint32_t i = 0; i < rows->width; i++)
        channel[pads + start[keys ? keys[i] : 0]++] = (uint16_t)i;
    for (uint32_t i = 0; i < padded; i++)
        place[channel[i]] = (uint16_t)i;
}

static void use_classes(sky_coder *rows, uint32_t half, int32_t finer) {
    rows->low_bytes[half] = 0;
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        uint8_t class = sky__class_finer(rows->classes[half][u], finer);
        rows->table[half][u] = (uint8_t)sky_class_table(class);
        rows->shift[half][u] = (uint8_t)sky_class_shift(class);
        rows->low_bytes[half] += 2 * sky_class_shift(class);
    }
}

void sky__rows_classes(sky_coder *rows, uint32_t half, const uint8_t *classes) {
    memcpy(rows->classes[half], classes, sky_rows_units(rows));
    use_classes(rows, half, 0);
}

void sky__rows_use(sky_coder *rows, uint32_t fineness) {
    for (uint32_t half = 0; half < 2; half++)
        use_classes(rows, half, (int32_t)fineness - SKY_FINENESS_USUAL);
}

void sky__rows_keep(const sky_coder *rows, sky_rows_kept *kept) {
    memcpy(kept->table, rows->table, sizeof kept->table);
    memcpy(kept->shift, rows->shift, sizeof kept->shift);
    memcpy(kept->low_bytes, rows->low_bytes, sizeof kept->low_bytes);
}

void sky__rows_use_kept(sky_coder *rows, const sky_rows_kept *kept) {
    memcpy(rows->table, kept->table, sizeof kept->table);
    memcpy(rows->shift, kept->shift, sizeof kept->shift);
    memcpy(rows->low_bytes, kept->low_bytes, sizeof kept->low_bytes);
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

static sky_slot slot_of(uint32_t symbol, uint32_t rest, uint32_t frequency) {
    return symbol | rest << 8 | frequency << 16;
}

/* Four at a time: what a symbol has too many of is the next one's. */
static void make_slots(sky_slot *slots, const uint8_t *frequency) {
    sky_slot all[256 + 4], *of = all;
    for (uint32_t s = 0; s < SKY_SYMBOLS; of += frequency[s], s++)
        for (uint32_t i = 0, first = slot_of(s, 0, frequency[s]); i < frequency[s]; i += 4)
            for (uint32_t j = i; j < i + 4; j++)
                of[j] = first + (j << 8);
    memcpy(slots, all, 256 * sizeof *slots);
}

/* Table 0 leaves a state as it is. */
static void make_silent(sky_slot *slots) {
    for (uint32_t i = 0; i < 256; i++)
        slots[i] = slot_of(SKY_SYMBOL_ZERO, i, 256);
}

void sky__decode_prepare(sky_tables *tables, const sky_coder *rows) {
    sky_slots *slots = &tables->slots;
    uint32_t count = 0, more = 0, units = sky_rows_units(rows);
    bool wanted[SKY_BANK_TABLES] = {false};
    for (uint32_t i = 0; i < 2 * units; i++)
        wanted[rows->table[i / units][i % units]] = true;
    for (uint32_t table = 0; table < SKY_BANK_TABLES; table++) {
        count += slots->made[table] != 0;
        more += wanted[table] && !slots->made[table];
    }
    if (count + more > SKY_SLOT_TABLES) {
        memset(slots->made, 0, sizeof slots->made);
        count = 0;
    }
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < units; u++) {
            uint32_t table = rows->table[half][u];
            if (slots->made[table])
                continue;
            for (uint32_t a = 0; a < (sky_rows_by_a(rows) ? 2 : 1); a++)
                if (table == 0)
                    make_silent(slots->of[count][a]);
                else
                    make_slots(slots->of[count][a], sky__bank[table][a]);
            slots->made[table] = (uint8_t)++count;
        }
}

/* A step goes in passes over all its states: those that look something up, one by one, only load
 * and store, and what is computed between them becomes vectors. Nothing branches on what is
 * decoded: every second state wants a byte. */
typedef struct {
    uint16_t state[SKY_LANES];
    uint16_t frequency[SKY_LANES];
    uint16_t rest[SKY_LANES];  /* symbol, slot − start << 8 */
    uint16_t wants[SKY_LANES]; /* a byte: 1 */
    uint16_t byte[SKY_LANES];
} states;

static inline void look_up(const sky_slot (*slots)[256], const uint8_t *trellis, bool by_a,
                           states *s, uint32_t at) {
    const uint16_t *restrict state = s->state + at;
    uint16_t *restrict frequency = s->frequency + at, *restrict rest = s->rest + at;
    for (uint32_t i = 0; i < SKY_UNIT; i++) {
        sky_slot slot = slots[by_a ? trellis[i] >> 2 : 0][state[i] & 255];
        frequency[i] = (uint16_t)(slot >> 16);
        rest[i] = (uint16_t)slot;
    }
}

static void next_states(states *restrict s, uint8_t *restrict symbols) {
    for (uint32_t i = 0; i < SKY_LANES; i++) {
        uint16_t high = s->state[i] >> 8,
                 x = (uint16_t)(s->frequency[i] * high + (s->rest[i] >> 8));
        s->state[i] = x;
        s->wants[i] = x < SKY_STATE_LOW;
        symbols[i] = (uint8_t)s->rest[i];
    }
}

static const uint8_t *take_bytes(states *restrict s, const uint8_t *restrict in) {
    for (uint32_t i = 0; i < SKY_LANES; i++) {
        s->byte[i] = *in;
        in += s->wants[i];
    }
    return in;
}

static void put_bytes(states *s) {
    for (uint32_t i = 0; i < SKY_LANES; i++) {
        uint16_t x = s->state[i], longer = (uint16_t)(x << 8 | s->byte[i]);
        s->state[i] = (uint16_t)(x ^ ((x ^ longer) & -s->wants[i]));
    }
}

static const uint8_t *decode_symbols(sky_coder *rows, const sky_slots *slots, uint32_t half,
                                     const uint8_t *in, uint8_t *symbols) {
    states s;
    bool by_a = sky_rows_by_a(rows);
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        s.state[lane] = (uint16_t)sky_rows_state(rows, lane);
    for (uint32_t at = 0; at < rows->steps * SKY_LANES; at += SKY_LANES) {
        for (uint32_t i = 0; i < SKY_LANES; i += SKY_UNIT) {
            uint32_t table = rows->table[half][(at + i) / SKY_UNIT];
            const sky_slot(*of)[256] = slots->of[slots->made[table] - 1];
            const uint8_t *trellis = rows->trellis[half] + at + i;
            if (by_a)
                look_up(of, trellis, true, &s, i);
            else
                look_up(of, trellis, false, &s, i);
        }
        next_states(&s, symbols + at);
        in = take_bytes(&s, in);
        put_bytes(&s);
    }
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        sky_rows_set_state(rows, lane, s.state[lane]);
    return in;
}

/* A row's low bits, a byte each. */
static void load_fields(const sky_coder *rows, uint32_t half, const uint8_t *low, uint8_t *fields) {
    for (uint32_t u = 0; u < sky_rows_units(rows); u++)
        for (uint32_t group = 0; group < 2; group++, fields += 8) {
            uint32_t shift = rows->shift[half][u];
            uint64_t eight = sky_spread_fields(sky_load_u64(low), shift);
            memcpy(fields, &eight, 8);
            low += shift;
        }
}

static void levels_of(const sky_coder *rows, uint32_t half, const uint8_t *restrict fields,
                      const uint8_t *restrict symbols, int16_t *restrict k) {
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        int16_t one = (int16_t)(1 << rows->shift[half][u]);
        for (uint32_t i = 0; i < SKY_UNIT; i++)
            k[i] = (int16_t)((symbols[i] - SKY_SYMBOL_ZERO) * one + fields[i]);
        fields += SKY_UNIT;
        symbols += SKY_UNIT;
        k += SKY_UNIT;
    }
}

static const uint8_t *patch_escapes(const sky_coder *rows, const uint8_t *symbols,
                                    const uint8_t *in, int16_t *k) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i += 8) {
        uint64_t eight = sky_load_u64(symbols + i), ones = eight & eight >> 1;
        for (ones &= ones >> 2 & 0x0101010101010101; ones; ones &= ones - 1, in += 2) {
            int16_t level = (int16_t)sky_load_u16(in);
            if (level > SKY_LEVEL_MAX || level < -SKY_LEVEL_MAX)
                return NULL;
            k[i + (uint32_t)__builtin_ctzll(ones) / 8] = level;
        }
    }
    return in;
}

/* In half steps: 2k, one less in magnitude where bit a is set. */
static void halve_steps(const int16_t *restrict k, const uint8_t *restrict trellis, uint32_t count,
                        int16_t *restrict n) {
    for (uint32_t i = 0; i < count; i++) {
        int16_t a = (int16_t) - (trellis[i] >> 2), sign = (int16_t)((k[i] > 0) - (k[i] < 0));
        n[i] = (int16_t)(2 * k[i] - (sign & a));
    }
}

/* sky__trellis_next, without looking it up. */
static void step_trellis(const int16_t *restrict k, uint32_t count, uint8_t *restrict trellis) {
    for (uint32_t i = 0; i < count; i++) {
        uint8_t t = trellis[i], parity = (uint8_t)k[i];
        trellis[i] = (uint8_t)(((t ^ t << 1) & 4) | ((t ^ parity) << 1 & 2) | t >> 2);
    }
}

size_t sky__row_decode(sky_coder *rows, const sky_tables *tables, uint32_t half, const uint8_t *in,
                       int16_t *levels) {
    uint8_t symbols[SKY_WIDTH_MAX], fields[SKY_WIDTH_MAX];
    int16_t k[SKY_WIDTH_MAX], n[SKY_WIDTH_MAX];
    const uint8_t *end = in + rows->low_bytes[half];
    uint32_t count = rows->steps * SKY_LANES;
    load_fields(rows, half, in, fields);
    end = decode_symbols(rows, &tables->slots, half, end, symbols);
    levels_of(rows, half, fields, symbols, k);
    end = patch_escapes(rows, symbols, end, k);
    if (!end)
        return SIZE_MAX;
    halve_steps(k, rows->trellis[half], count, n);
    if (!rows->plain)
        step_trellis(k, count, rows->trellis[half]);
    const uint16_t *place = rows->place[half];
    for (uint32_t i = 0; i < count; i++)
        levels[i] = n[place[i]];
    if (rows->exact && half == 0)
        sky__exact_contexts(rows, k);
    return (size_t)(end - in);
}

/* ---- encoding ---- */

/* What a state needs to know of a symbol. Those without a slot are the escape's. */
typedef struct {
    uint32_t reciprocal;
    uint8_t frequency;
    uint8_t less; /* 256 − frequency */
    uint8_t start;
} encode_symbol;

typedef struct {
    encode_symbol symbol[2 * SKY_SYMBOLS]; /* by 16a + symbol */
    uint32_t escapes;                      /* the same as bits */
} encode_unit;

typedef struct {
    encode_unit unit[2][SKY_UNITS_MAX];
} encode_units;

static_assert(sizeof(encode_units) <= sizeof(sky_encode_tables), "tables are too large");

static uint32_t make_symbols(const uint8_t *frequency, encode_symbol *symbols) {
    uint32_t start = 256, escapes = 0;
    for (uint32_t s = SKY_SYMBOLS; s-- > 0;) {
        uint32_t f = frequency[s];
        start -= f;
        if (f)
            symbols[s] = (encode_symbol){sky__bank_reciprocal[f], (uint8_t)f, (uint8_t)(256 - f),
                                         (uint8_t)start};
        else
            symbols[s] = symbols[SKY_ESCAPE];
        escapes |= (uint32_t)(f == 0 || s == SKY_ESCAPE) << s;
    }
    return escapes;
}

void sky__encode_prepare(sky_encode_tables *tables, const sky_coder *rows) {
    encode_units *t = (encode_units *)tables;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
            const uint8_t(*frequency)[SKY_SYMBOLS] = sky__bank[rows->table[half][u]];
            encode_unit *unit = &t->unit[half][u];
            unit->escapes = make_symbols(frequency[0], unit->symbol);
            unit->escapes |= make_symbols(frequency[1], unit->symbol + SKY_SYMBOLS) << SKY_SYMBOLS;
        }
}

/* A row in the coder's order: 2k + a, and 16a + symbol. */
typedef struct {
    int16_t value[SKY_WIDTH_MAX];
    uint8_t symbol[SKY_WIDTH_MAX];
} split_row;

static void split_halves(const sky_coder *rows, uint32_t half, const int16_t *packed,
                         split_row *row) {
    for (uint32_t i = 0; i < rows->steps * SKY_LANES; i++)
        row->value[i] = packed[rows->channel[half][i]];
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        const int16_t *restrict value = row->value + u * SKY_UNIT;
        uint8_t *restrict symbol = row->symbol + u * SKY_UNIT;
        uint32_t shift = rows->shift[half][u] + 1;
        for (uint32_t i = 0; i < SKY_UNIT; i++) {
            uint16_t s = (uint16_t)((value[i] >> shift) + SKY_SYMBOL_ZERO);
            s = s < SKY_ESCAPE ? s : SKY_ESCAPE;
            symbol[i] = (uint8_t)((value[i] & 1) << 4 | s);
        }
    }
}

static uint8_t *encode_escapes(const sky_coder *rows, const encode_units *t, uint32_t half,
                               const split_row *row, uint8_t *end) {
    for (uint32_t u = sky_rows_units(rows); u-- > 0;) {
        const uint8_t *symbol = row->symbol + u * SKY_UNIT;
        uint32_t escapes = t->unit[half][u].escapes, met = 0;
        for (uint32_t i = 0; i < SKY_UNIT; i++)
            met |= 1u << symbol[i];
        for (uint32_t i = SKY_UNIT; (met & escapes) && rows->table[half][u] && i-- > 0;) {
            if (!(escapes >> symbol[i] & 1))
                continue;
            end -= 2;
            sky_store_u16(end, (uint16_t)(row->value[u * SKY_UNIT + i] >> 1));
        }
    }
    return end;
}

/* One unit's symbols, the last first. As in decoding, nothing branches on them. */
static inline uint8_t *encode_symbols(const encode_symbol *symbols, const uint8_t *symbol,
                                      uint16_t *restrict state, uint8_t *end) {
    for (uint32_t i = SKY_UNIT; i-- > 0;) {
        const encode_symbol *s = &symbols[symbol[i]];
        uint32_t x = state[i], high = x >> 8, full = high >= s->frequency;
        end[-1] = (uint8_t)x;
        end -= full;
        x = full ? high : x;
        /* 256 q + (x − q f), q the quotient by f */
        uint32_t quotient = (uint32_t)((uint64_t)x * s->reciprocal >> 24);
        state[i] = (uint16_t)(quotient * s->less + x + s->start);
    }
    return end;
}

static uint8_t *encode_states(sky_coder *rows, const encode_units *t, uint32_t half,
                              const split_row *row, uint8_t *end) {
    uint16_t state[SKY_LANES];
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        state[lane] = (uint16_t)sky_rows_state(rows, lane);
    for (uint32_t u = sky_rows_units(rows); u-- > 0;)
        if (rows->table[half][u] != 0)
            end = encode_symbols(t->unit[half][u].symbol, row->symbol + u * SKY_UNIT,
                                 state + u * SKY_UNIT % SKY_LANES, end);
    for (uint32_t lane = 0; lane < SKY_LANES; lane++)
        sky_rows_set_state(rows, lane, state[lane]);
    return end;
}

static uint8_t *encode_low_bits(const sky_coder *rows, uint32_t half, const int16_t *value,
                                uint8_t *end) {
    for (uint32_t u = sky_rows_units(rows); rows->low_bytes[half] && u-- > 0;) {
        uint32_t shift = rows->shift[half][u];
        for (uint32_t group = 2; shift && group-- > 0;) {
            const int16_t *eight = value + u * SKY_UNIT + group * 8;
            uint64_t fields = 0;
            for (uint32_t i = 8; i-- > 0;)
                fields = fields << shift | ((uint64_t)(eight[i] >> 1) & ((1u << shift) - 1));
            end -= shift;
            for (uint32_t i = 0; i < shift; i++)
                end[i] = (uint8_t)(fields >> 8 * i);
        }
    }
    return end;
}

uint8_t *sky__row_encode(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                         const int16_t *packed, uint8_t *end) {
    const encode_units *t = (const encode_units *)tables;
    split_row row;
    split_halves(rows, half, packed, &row);
    end = encode_escapes(rows, t, half, &row, end);
    end = encode_states(rows, t, half, &row, end);
    return encode_low_bits(rows, half, row.value, end);
}
