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
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t s = 0; s < SKY_SYMBOLS; s++)
            cost += h->count[a][s] * (uint64_t)sky_symbol_bits(index, a, s);
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
    const sky_coder *rows;
    uint32_t half;
    const sky_levels *levels;
    uint32_t used;                   /* finenesses that occur, a bit each */
    uint32_t unit;                   /* at hand */
    uint8_t shift[SKY_WINDOW_UNITS]; /* that suits usual rows */
    bool windows;                    /* there are some: rows are few enough */
    bool known[SKY_SHIFT_MAX + 1];   /* finer classes, of usual ones of this shift */
    uint8_t finer[SKY_FINENESS_COUNT][SKY_CLASSES];
    bool counted[SKY_FINENESS_COUNT][SKY_SHIFT_MAX + 1];
    uint64_t cost[SKY_FINENESS_COUNT][SKY_CLASSES];
    sky_windows window;
} half_costs;

static uint8_t class_of_fineness(uint32_t class, uint32_t fineness) {
    return sky__class_finer((uint8_t) class, (int32_t)fineness - SKY_FINENESS_USUAL);
}

static const uint16_t *unit_channels(const half_costs *c) {
    return c->rows->channel[c->half] + c->unit * SKY_UNIT;
}

/* As if steps were usual: of the mean magnitude. */
static void find_shifts(half_costs *c) {
    const sky_levels *l = c->levels;
    uint32_t padded = c->rows->steps * SKY_LANES, sums[SKY_WIDTH_MAX];
    uint64_t total[SKY_WINDOW_UNITS] = {0};
    for (uint32_t first = 0; first < l->rows; first += SKY_WINDOW_ROWS) {
        uint32_t left = l->rows - first;
        sky_levels part = {l->packed + first * l->pitch,
                           left < SKY_WINDOW_ROWS ? left : SKY_WINDOW_ROWS, l->pitch,
                           l->fineness ? l->fineness + first : NULL};
        c->kernels->sums(&part, padded, sums);
        for (uint32_t i = 0; i < padded; i++)
            total[i / SKY_UNIT] += sums[c->rows->channel[c->half][i]];
    }
    for (uint32_t u = 0; u < sky_rows_units(c->rows); u++)
        c->shift[u] = (uint8_t)sky__shift_for(total[u] >> 7, (uint64_t)l->rows * SKY_UNIT);
}

static void begin_costs(half_costs *c, const sky_coder *rows, uint32_t half,
                        const sky_levels *levels) {
    c->kernels = sky__kernels();
    c->rows = rows;
    c->half = half;
    c->levels = levels;
    c->used = levels->fineness ? sky__fineness_used(levels->fineness, levels->rows)
                               : 1u << SKY_FINENESS_USUAL;
    c->windows = levels->rows <= SKY_WINDOW_ROWS;
    memset(c->known, 0, sizeof c->known);
    find_shifts(c);
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        for (uint32_t u = 0; u < sky_rows_units(rows); u++)
            c->window.least[s][u] = (uint8_t)sky_class_shift(
                class_of_fineness(sky_class_first(c->shift[u]), s));
    if (c->windows)
        c->kernels->count(rows, half, levels, &c->window);
}

static void begin_unit(half_costs *c, uint32_t unit) {
    c->unit = unit;
    memset(c->counted, 0, sizeof c->counted);
}

/* Neighbouring bins become one, down to those of a symbol. */
static void fold_window(const uint16_t (*count)[2], uint32_t more, sky_histogram *h) {
    uint32_t bins = 1u << more, first = SKY_WINDOW_BINS / 2 - (SKY_SYMBOL_ZERO << more);
    for (uint32_t a = 0; a < 2; a++) {
        uint32_t all = 0, inside = 0;
        for (uint32_t b = 0; b <= SKY_WINDOW_BINS; b++)
            all += count[b][a];
        for (uint32_t s = 0; s < SKY_ESCAPE; s++) {
            uint32_t sum = 0;
            for (uint32_t b = 0; b < bins; b++)
                sum += count[first + s * bins + b][a];
            h->count[a][s] = sum;
            inside += sum;
        }
        h->count[a][SKY_ESCAPE] = all - inside;
    }
}

static void unit_histogram(const half_costs *c, uint32_t fineness, uint32_t shift,
                           sky_histogram *h) {
    const sky_levels *l = c->levels;
    uint32_t least = c->window.least[fineness][c->unit];
    memset(h, 0, sizeof *h);
    if (c->windows && shift >= least && shift <= least + 2)
        fold_window(c->window.count[fineness][c->unit], shift - least, h);
    else
        for (uint32_t t = 0; t < l->rows; t++)
            if (!l->fineness || l->fineness[t] == fineness)
                sky__histogram_add(h, &(sky_levels){l->packed + t * l->pitch, 1, 0, NULL},
                                   unit_channels(c), shift);
}

static void count_shift(half_costs *c, uint32_t fineness, uint32_t shift) {
    sky_histogram h;
    if (c->counted[fineness][shift])
        return;
    unit_histogram(c, fineness, shift, &h);
    c->kernels->costs(&h, shift, c->cost[fineness] + sky_class_first(shift));
    c->counted[fineness][shift] = true;
}

/* SKY_COST_NEVER or more: it cannot say them. */
static uint64_t class_cost(half_costs *c, uint8_t class) {
    uint64_t total = 0;
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++) {
        uint8_t of = class_of_fineness(class, s);
        if (!(c->used >> s & 1))
            continue;
        count_shift(c, s, sky_class_shift(of));
        total += c->cost[s][of];
    }
    return total;
}

/* Add what classes of a shift cost for rows of one fineness. Shape: total [of the shift] */
static void add_costs(half_costs *c, uint32_t fineness, uint32_t shift, uint64_t *total) {
    uint32_t first = sky_class_first(shift), count = sky_classes_of_shift(shift);
    const uint8_t *finer = c->finer[fineness] + first;
    uint32_t last = sky_class_shift(finer[count - 1]);
    for (uint32_t r = sky_class_shift(finer[0]); r <= last; r++)
        count_shift(c, fineness, r);
    for (uint32_t i = 0; i < count; i++)
        total[i] += c->cost[fineness][finer[i]];
}

/* The cheapest of a shift, if it is cheaper than what was. */
static void try_shift(half_costs *c, uint32_t shift, uint8_t *best, uint64_t *cost) {
    uint64_t total[SKY_BANK_NARROW] = {0};
    uint32_t first = sky_class_first(shift), count = sky_classes_of_shift(shift);
    for (uint32_t s = 0; !c->known[shift] && s < SKY_FINENESS_COUNT; s++)
        for (uint32_t i = 0; i < count; i++)
            c->finer[s][first + i] = class_of_fineness(first + i, s);
    c->known[shift] = true;
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        if (c->used >> s & 1)
            add_costs(c, s, shift, total);
    for (uint32_t i = 0; i < count; i++)
        if (total[i] < *cost) {
            *cost = total[i];
            *best = (uint8_t)(first + i);
        }
}

static uint8_t cheapest_class(half_costs *c, uint64_t *cost) {
    uint32_t shift = c->shift[c->unit];
    uint8_t best = 0;
    *cost = UINT64_MAX;
    try_shift(c, shift, &best, cost);
    if (shift < SKY_SHIFT_MAX)
        try_shift(c, shift + 1, &best, cost);
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

uint64_t sky__classes_choose(const sky_coder *rows, uint32_t half, const sky_levels *levels,
                             uint8_t *classes) {
    uint64_t total = 0, cost;
    half_costs c;
    begin_costs(&c, rows, half, levels);
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        begin_unit(&c, u);
        classes[u] = cheapest_class(&c, &cost);
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

/* Rows of one fineness: a class whose shift suits them is compared with others of the same. */
static uint64_t cheapest_cost(half_costs *c, uint32_t shift) {
    uint64_t best;
    sky_histogram h;
    if (!c->levels->fineness)
        unit_histogram(c, SKY_FINENESS_USUAL, shift, &h);
    if (c->levels->fineness || shift_misfits(&h, shift))
        cheapest_class(c, &best);
    else
        sky__class_best(&h, shift, &best);
    return best;
}

uint64_t sky__classes_saved(const sky_coder *rows, uint32_t half, const sky_levels *levels) {
    uint64_t saved = 0;
    half_costs c;
    begin_costs(&c, rows, half, levels);
    for (uint32_t u = 0; u < sky_rows_units(rows); u++) {
        uint8_t class = rows->classes[half][u];
        begin_unit(&c, u);
        uint64_t cost = class_cost(&c, class);
        if (cost >= SKY_COST_NEVER)
            return UINT64_MAX;
        uint64_t best = cheapest_cost(&c, sky_class_shift(class));
        saved += best < cost ? cost - best : 0;
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
