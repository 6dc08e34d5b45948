/* See classes.h. */
#include "codec/classes.h"

#include <string.h>

#include "codec/fineness.h"
#include "codec/kernels.h"

void sky__histogram_add(sky_histogram *h, const sky_levels *levels, const uint16_t *channels,
                        uint32_t shift) {
    for (uint32_t t = 0; t < levels->rows; t++) {
        const int16_t *row = levels->packed + t * levels->pitch;
        for (uint32_t i = 0; i < SKY_UNIT; i++)
            sky__histogram_add_one(h, row[channels[i]], shift);
    }
}

/* Bits × 1024 of the symbols alone, all that occur. */
static uint64_t table_cost(const sky_histogram *h, uint32_t index) {
    uint64_t cost = 0;
    for (uint32_t a = 0; a < 2; a++) {
        const uint8_t *frequency = sky__bank[index][a];
        for (uint32_t s = 0; s < SKY_SYMBOLS; s++) {
            uint32_t f = s < SKY_ESCAPE ? frequency[s] : 0;
            uint32_t bits = f ? sky__bank_cost[f]
                              : sky__bank_cost[frequency[SKY_ESCAPE]] + 1024u * SKY_ESCAPE_BITS;
            cost += h->count[a][s] * (uint64_t)bits;
        }
    }
    return cost;
}

uint64_t sky__class_cost(const sky_histogram *h, uint8_t class) {
    uint64_t all = 0, zeros = h->count[0][SKY_SYMBOL_ZERO] + (uint64_t)h->count[1][SKY_SYMBOL_ZERO];
    for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
        all += h->count[0][s] + (uint64_t)h->count[1][s];
    if (class == 0)
        return zeros < all ? UINT64_MAX : 0;
    return table_cost(h, sky_class_table(class)) + all * sky_class_shift(class) * 1024;
}

uint8_t sky__class_best(const sky_histogram *h, uint32_t shift, uint64_t *cost) {
    uint64_t costs[SKY_BANK_NARROW];
    uint32_t best = 0;
    sky__kernels()->costs(h, shift, costs);
    for (uint32_t c = 1; c < sky_classes_of_shift(shift); c++)
        if (costs[c] < costs[best])
            best = c;
    *cost = costs[best];
    return (uint8_t)(sky_class_first(shift) + best);
}

uint64_t sky__class_exact_cost(const sky_histogram *h, uint32_t half, uint32_t class) {
    return table_cost(h, SKY_BANK_EXACT + half * SKY_EXACT_TABLES + class);
}

uint8_t sky__class_exact(const sky_histogram *h, uint32_t half) {
    uint64_t best_cost = UINT64_MAX;
    uint32_t best = 0;
    for (uint32_t c = 0; c < SKY_EXACT_TABLES; c++) {
        uint64_t cost = sky__class_exact_cost(h, half, c);
        if (cost < best_cost) {
            best_cost = cost;
            best = c;
        }
    }
    return (uint8_t)best;
}

/* ---- rows of several finenesses: a class costs what its finer and coarser ones cost ---- */

/* Costs of one unit's rows of each fineness, by class, of shifts that were asked for. */
typedef struct {
    const sky_codec_kernels *kernels;
    const sky_levels *levels;
    const uint16_t *channels;
    uint32_t used; /* finenesses that occur, a bit each */
    bool counted[SKY_FINENESS_COUNT][SKY_SHIFT_MAX + 1];
    uint64_t cost[SKY_FINENESS_COUNT][SKY_CLASSES];
} unit_costs;

/* For one half. */
static void begin_costs(unit_costs *c, const sky_levels *levels) {
    c->kernels = sky__kernels();
    c->levels = levels;
    c->used = sky__fineness_used(levels->fineness, levels->rows);
}

static void begin_unit(unit_costs *c, const uint16_t *channels) {
    c->channels = channels;
    memset(c->counted, 0, sizeof c->counted);
}

static void count_rows(unit_costs *c, uint32_t fineness, uint32_t shift) {
    const sky_levels *l = c->levels;
    sky_histogram h = {0};
    for (uint32_t t = 0; t < l->rows; t++)
        if (l->fineness[t] == fineness)
            sky__histogram_add(&h, &(sky_levels){l->packed + t * l->pitch, 1, 0, NULL}, c->channels,
                               shift);
    c->kernels->costs(&h, shift, c->cost[fineness] + sky_class_first(shift));
    c->counted[fineness][shift] = true;
}

static uint64_t finer_cost(unit_costs *c, uint32_t fineness, uint8_t of) {
    uint32_t shift = sky_class_shift(of);
    if (!c->counted[fineness][shift])
        count_rows(c, fineness, shift);
    return c->cost[fineness][of];
}

/* SKY_COST_NEVER or more: it cannot say them. */
static uint64_t counted_cost(unit_costs *c, uint8_t class) {
    uint64_t total = 0;
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        if (c->used >> s & 1)
            total += finer_cost(c, s, sky__class_finer(class, (int32_t)s - SKY_FINENESS_USUAL));
    return total;
}

/* As if steps were usual: of the mean magnitude. */
static uint32_t usual_shift(const sky_levels *levels, const uint16_t *channels) {
    static const uint8_t part[SKY_FINENESS_COUNT] = {181, 128, 91, 64}; /* of 128 */
    uint64_t sum = 0;
    for (uint32_t t = 0; t < levels->rows; t++)
        for (uint32_t i = 0; i < SKY_UNIT; i++) {
            int32_t k = levels->packed[t * levels->pitch + channels[i]] >> 1;
            sum += (uint64_t)(k < 0 ? -k : k) * part[levels->fineness[t]];
        }
    return sky__shift_for(sum >> 7, (uint64_t)levels->rows * SKY_UNIT);
}

static uint8_t choose_finer(unit_costs *c, uint64_t *cost) {
    uint32_t shift = usual_shift(c->levels, c->channels);
    uint32_t last = shift < SKY_SHIFT_MAX ? shift + 1 : shift;
    uint32_t end = sky_class_first(last) + sky_classes_of_shift(last);
    uint8_t best = 0;
    *cost = UINT64_MAX;
    for (uint32_t class = sky_class_first(shift); class < end; class ++) {
        uint64_t bits = counted_cost(c, (uint8_t) class);
        if (bits < *cost) {
            *cost = bits;
            best = (uint8_t) class;
        }
    }
    return best;
}

uint64_t sky__classes_cost(const sky_coder *rows, uint32_t half, const sky_levels *levels) {
    uint64_t total = 0;
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        sky_histogram h = {0};
        uint8_t class = rows->classes[half][u];
        sky__histogram_add(&h, levels, rows->channel[half] + u * SKY_UNIT, sky_class_shift(class));
        uint64_t cost = sky__class_cost(&h, class);
        if (cost == UINT64_MAX)
            return UINT64_MAX;
        total += cost;
    }
    return total;
}

uint32_t sky__shift_for(uint64_t sum, uint64_t count) {
    uint32_t shift = 0;
    while (shift < SKY_SHIFT_MAX && sum >= count << (shift + 1))
        shift++;
    return shift;
}

static uint8_t choose_unit(const sky_levels *levels, const uint16_t *channels, uint64_t *cost) {
    uint64_t sum = 0;
    for (uint32_t t = 0; t < levels->rows; t++)
        for (uint32_t i = 0; i < SKY_UNIT; i++) {
            int32_t k = levels->packed[t * levels->pitch + channels[i]] >> 1;
            sum += (uint64_t)(k < 0 ? -k : k);
        }
    uint32_t shift = sky__shift_for(sum, (uint64_t)levels->rows * SKY_UNIT);
    uint8_t best = 0;
    *cost = UINT64_MAX;
    for (uint32_t r = shift; r <= shift + 1 && r <= SKY_SHIFT_MAX; r++) {
        sky_histogram h = {0};
        uint64_t bits;
        sky__histogram_add(&h, levels, channels, r);
        uint8_t class = sky__class_best(&h, r, &bits);
        if (bits < *cost) {
            *cost = bits;
            best = class;
        }
    }
    return best;
}

uint64_t sky__classes_choose(const sky_coder *rows, uint32_t half, const sky_levels *levels,
                             uint8_t *classes) {
    uint64_t total = 0, cost;
    unit_costs costs;
    if (levels->fineness)
        begin_costs(&costs, levels);
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        const uint16_t *channels = rows->channel[half] + u * SKY_UNIT;
        if (levels->fineness) {
            begin_unit(&costs, channels);
            classes[u] = choose_finer(&costs, &cost);
        } else
            classes[u] = choose_unit(levels, channels, &cost);
        total += cost;
    }
    return total;
}

/* Would another shift suit these symbols better? Escapes are many, or the symbols hardly move. */
static bool shift_misfits(const sky_histogram *h, uint32_t shift) {
    uint64_t escapes = h->count[0][SKY_ESCAPE] + (uint64_t)h->count[1][SKY_ESCAPE];
    uint64_t sum = 0, all = 0;
    for (uint32_t s = 0; s < SKY_ESCAPE; s++) {
        uint64_t n = h->count[0][s] + (uint64_t)h->count[1][s];
        sum += n * (s < SKY_SYMBOL_ZERO ? SKY_SYMBOL_ZERO - s : s - SKY_SYMBOL_ZERO);
        all += n;
    }
    return escapes * 32 > all || (shift && sum * 2 < all);
}

/* What the cheapest class would save; UINT64_MAX when the unit's class cannot say it. */
static uint64_t saved_finer(unit_costs *c, uint8_t class) {
    uint64_t best, cost = counted_cost(c, class);
    if (cost >= SKY_COST_NEVER)
        return UINT64_MAX;
    choose_finer(c, &best);
    return best < cost ? cost - best : 0;
}

static uint64_t saved_unit(const sky_levels *levels, const uint16_t *channels, uint8_t class) {
    uint32_t shift = sky_class_shift(class);
    uint64_t best, cost;
    sky_histogram h = {0};
    sky__histogram_add(&h, levels, channels, shift);
    cost = sky__class_cost(&h, class);
    if (cost == UINT64_MAX)
        return UINT64_MAX;
    if (shift_misfits(&h, shift))
        choose_unit(levels, channels, &best);
    else
        sky__class_best(&h, shift, &best);
    return best < cost ? cost - best : 0;
}

uint64_t sky__classes_saved(const sky_coder *rows, uint32_t half, const sky_levels *levels) {
    uint64_t saved = 0;
    unit_costs costs;
    if (levels->fineness)
        begin_costs(&costs, levels);
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        const uint16_t *channels = rows->channel[half] + u * SKY_UNIT;
        uint8_t class = rows->classes[half][u];
        if (levels->fineness)
            begin_unit(&costs, channels);
        uint64_t more = levels->fineness ? saved_finer(&costs, class)
                                         : saved_unit(levels, channels, class);
        if (more == UINT64_MAX)
            return UINT64_MAX;
        saved += more;
    }
    return saved;
}

/* 8 log2(x + 1), rounded down, the fraction linear. */
static uint32_t log_of(uint32_t x) {
    uint64_t v = (uint64_t)x + 1;
    uint32_t whole = 63 - (uint32_t)__builtin_clzll(v);
    return 8 * whole + (uint32_t)((v << 3 >> whole) & 7);
}

void sky__order_keys(const uint32_t *sums, uint32_t width, uint32_t key_max, uint8_t *keys) {
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < width; i++) {
        uint32_t v = log_of(sums[i]);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    for (uint32_t i = 0; i < width; i++)
        keys[i] = (uint8_t)((log_of(sums[i]) - low) * (key_max + 1) / (high - low + 1));
}

void sky__magnitudes_add(const sky_levels *levels, uint32_t width, uint32_t *sums) {
    for (uint32_t t = 0; t < levels->rows; t++)
        for (uint32_t i = 0; i < width; i++) {
            int32_t k = levels->packed[t * levels->pitch + i] >> 1;
            sums[i] += (uint32_t)(k < 0 ? -k : k);
        }
}
