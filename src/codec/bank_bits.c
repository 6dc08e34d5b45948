/* What a symbol costs under each table, in the order in which kernels add up. */
#include "codec/bank.h"

sky_bank_bits sky__bank_bits;

__attribute__((constructor)) static void make_bits(void) {
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
        for (uint32_t a = 0; a < 2; a++) {
            for (uint32_t t = 1; t < SKY_BANK_NARROW; t++)
                sky__bank_bits.narrow[s][t][a] = (int16_t)sky_symbol_bits(t, a, s);
            for (uint32_t t = 0; t < SKY_BANK_WIDE; t++)
                sky__bank_bits.wide[s][t][a] = (int16_t)sky_symbol_bits(SKY_BANK_NARROW + t, a, s);
        }
}
