/* See classes.h. Symbol by symbol, all tables at once. */
#include <string.h>

#include "codec/classes.h"

static inline void add_symbol(const int16_t (*bits)[2], uint32_t tables, uint32_t count0,
                              uint32_t count1, uint64_t *restrict cost) {
    for (uint32_t t = 0; t < tables; t++)
        cost[t] += count0 * (uint64_t)bits[t][0] + count1 * (uint64_t)bits[t][1];
}

void sky__classes_costs(const sky_histogram *h, uint32_t shift, uint64_t *cost) {
    uint64_t all = 0, zeros = h->count[0][SKY_SYMBOL_ZERO] + (uint64_t)h->count[1][SKY_SYMBOL_ZERO];
    const sky_bank_bits *bits = &sky__bank_bits;
    memset(cost, 0, sky_classes_of_shift(shift) * sizeof *cost);
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
        uint32_t count0 = h->count[0][s], count1 = h->count[1][s];
        all += (uint64_t)count0 + count1;
        if (count0 + (uint64_t)count1 == 0)
            continue;
        if (shift)
            add_symbol(bits->wide[s], SKY_BANK_WIDE, count0, count1, cost);
        else
            add_symbol(bits->narrow[s], SKY_BANK_NARROW, count0, count1, cost);
    }
    for (uint32_t c = 0; shift && c < SKY_BANK_WIDE; c++)
        cost[c] += all * shift * 1024;
    if (!shift)
        cost[0] = zeros < all ? SKY_COST_NEVER : 0;
}
