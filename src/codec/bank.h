/* Tables of the entropy coder: which symbols a class has, how often, and what they cost.
 *
 *   class byte c:   0          1 … 63        64 … 255
 *   shift r:        0          0             1 + (c − 64) / 24
 *   table:          0          c             64 + (c − 64) mod 24
 *
 * A level k splits into u = k >> r (floor) and r raw low bits. u in −7 … 7 is symbol u + 7, any
 * other level is symbol 15, the escape, and then travels whole as 16 bits. A table holds
 * frequencies of the 16 symbols, adding up to 256, for each of the trellis' two quantisers (bit
 * a). Slots run in symbol order: symbol s has the slots [start(s), start(s) + frequency(s)).
 *
 * Table 0 knows one symbol only, k = 0, with frequency 256: coding it costs nothing and leaves
 * the lane's state as it is. Its row in the bank is zeros, since 256 does not fit a byte. */
#ifndef SKY_CODEC_BANK_H
#define SKY_CODEC_BANK_H

#include <stdint.h>

#define SKY_SYMBOLS      16
#define SKY_ESCAPE       15
#define SKY_SYMBOL_ZERO  7
#define SKY_BANK_TABLES  152
#define SKY_BANK_EXACT   88 /* lossless: 32 tables of exponents, then 32 of signs and mantissas */
#define SKY_EXACT_TABLES 32
#define SKY_BANK_NARROW  64 /* tables that take no shift */
#define SKY_BANK_WIDE    24 /* that the other shifts share */
#define SKY_CLASSES      256
#define SKY_SHIFT_MAX    8
#define SKY_ESCAPE_BITS  16

extern const uint8_t sky__bank[SKY_BANK_TABLES][2][SKY_SYMBOLS];
/* Bits × 1024 of a symbol of frequency f; [0] is unused. */
extern const uint16_t sky__bank_cost[257];
/* Bits × 1024 of a symbol under a table that is not 0; an escape's where the table has it not. */
static inline uint32_t sky_symbol_bits(uint32_t table, uint32_t a, uint32_t symbol) {
    const uint8_t *frequency = sky__bank[table][a];
    uint32_t f = symbol < SKY_ESCAPE ? frequency[symbol] : 0;
    return f ? sky__bank_cost[f] : sky__bank_cost[frequency[SKY_ESCAPE]] + 1024u * SKY_ESCAPE_BITS;
}

/* The same of all symbols, made when the library is loaded and constant from then on: the codec has
 * no locks. Zeros for table 0. */
typedef struct {
    _Alignas(32) int16_t narrow[SKY_SYMBOLS][SKY_BANK_NARROW][2];
    _Alignas(32) int16_t wide[SKY_SYMBOLS][SKY_BANK_WIDE][2];
} sky_bank_bits;
extern sky_bank_bits sky__bank_bits;

static inline uint32_t sky_class_table(uint8_t class) {
    return class < SKY_BANK_NARROW ? class : SKY_BANK_NARROW + (class - SKY_BANK_NARROW) % 24u;
}
static inline uint32_t sky_class_shift(uint8_t class) {
    return class < SKY_BANK_NARROW ? 0 : 1 + (class - SKY_BANK_NARROW) / 24u;
}

/* The class of channels that have this one, where steps are finer by √2^`finer` (coarser if it is
 * negative). Class 0 stays: it knows nothing but zeros. */
uint8_t sky__class_finer(uint8_t class, int32_t finer);

/* Symbol of a level under a shift. */
static inline uint32_t sky_symbol_of(int32_t k, uint32_t shift) {
    int32_t u = k >> shift;
    return u >= -7 && u <= 7 ? (uint32_t)(u + 7) : SKY_ESCAPE;
}

extern const uint32_t sky__bank_reciprocal[257];

#endif
