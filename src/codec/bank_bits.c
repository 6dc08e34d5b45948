/* What a symbol costs under each table, in the order in which kernels add up. */
#include <pthread.h>

#include "codec/bank.h"

static sky_bank_bits shared;

static void make_bits(void) {
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
        for (uint32_t a = 0; a < 2; a++) {
            for (uint32_t t = 1; t < SKY_BANK_NARROW; t++)
                shared.narrow[s][t][a] = (int16_t)sky_symbol_bits(t, a, s);
            for (uint32_t t = 0; t < SKY_BANK_WIDE; t++)
                shared.wide[s][t][a] = (int16_t)sky_symbol_bits(SKY_BANK_NARROW + t, a, s);
        }
}

const sky_bank_bits *sky__bank_bits(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_bits);
    return &shared;
}
