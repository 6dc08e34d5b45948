/* See fit_units.h. k-means with clusters of fixed sizes: tables are the centres, and channels
 * change places, two at a time. The least cost is not found, a lower one than by sorting is. */
#include <string.h>

#include "codec/fit_units.h"

static uint64_t cost_in(const sky_fit_units *f, uint32_t channel, uint32_t unit) {
    return f->cost[channel][0][f->table[0][unit]] + f->cost[channel][1][f->table[1][unit]];
}

/* The best tables for the channels each unit has. */
static uint64_t choose_tables(sky_fit_units *f) {
    uint64_t sum[SKY_EXACT_TABLES], all = 0;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t u = 0; u < SKY_UNITS_MAX; u++) {
            uint32_t best = 0;
            memset(sum, 0, sizeof sum);
            for (uint32_t i = 0; i < f->width; i++)
                for (uint32_t t = 0; f->unit[i] == u && t < SKY_EXACT_TABLES; t++)
                    sum[t] += f->cost[i][half][t];
            for (uint32_t t = 1; t < SKY_EXACT_TABLES; t++)
                best = sum[t] < sum[best] ? t : best;
            f->table[half][u] = (uint8_t)best;
            all += sum[best];
        }
    return all;
}

/* Exchange every two channels that are better off in each other's unit; false: there are none. */
static bool exchange_channels(sky_fit_units *f) {
    bool any = false;
    for (uint32_t i = 0; i < f->width; i++)
        for (uint32_t j = i + 1; j < f->width; j++) {
            uint8_t a = f->unit[i], b = f->unit[j];
            if (cost_in(f, i, b) + cost_in(f, j, a) >= cost_in(f, i, a) + cost_in(f, j, b))
                continue;
            f->unit[i] = b;
            f->unit[j] = a;
            any = true;
        }
    return any;
}

/* Each exchange and each choice lowers the cost, a whole number, so this ends. */
uint64_t sky__fit_units(sky_fit_units *f) {
    uint64_t cost = choose_tables(f), before;
    do {
        before = cost;
        while (exchange_channels(f))
            ;
        cost = choose_tables(f);
    } while (cost < before);
    return cost;
}
