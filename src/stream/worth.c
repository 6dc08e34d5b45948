/* Does it pay to keep a prefix? How long loading takes is rehearsed; the rest is arithmetic on what
 * its owner knows. docs/streaming.md has the formulas, codec/levels.h what levels cost. */
#include <skymem/stream.h>

#include <math.h>

#include "codec/levels.h"
#include "stream/rehearse.h"

#define GIB         1073741824.0
#define MONTH_HOURS 720.0

#define COST(name, bits, loss, step) {name, bits, loss},
static const sky_level_cost costs[SKY_WORTH_LEVELS] = {SKY_LEVELS(COST)};

const sky_level_cost *sky_level_costs(size_t *count) {
    if (count)
        *count = SKY_WORTH_LEVELS;
    return costs;
}

static bool question_valid(const sky_worth_question *q) {
    const double positive[] = {q->tokens, q->bytes_per_token, q->compute_ms, q->bandwidth};
    const double others[] = {q->rtt_ms,        q->reuses,        q->keep_hours,
                             q->storage_price, q->compute_price, q->transfer_price,
                             q->deadline_ms,   q->loss_max,      q->loading_compute_ms};
    bool valid = true;
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        valid &= isfinite(positive[i]) && positive[i] > 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        valid &= isfinite(others[i]) && others[i] >= 0;
    return valid;
}

/* A token's time while the others are loaded, which takes of the engine's cores and memory. */
static double loading_compute_ms(const sky_worth_question *q) {
    return q->loading_compute_ms > 0 ? q->loading_compute_ms : q->compute_ms;
}

/* With overlap the manager's planner says it, over this link. Where that takes for ever, or there
 * is next to nothing to load, the sooner of the two is taken alone. */
static void rehearse_meeting(const sky_worth_question *q, sky_worth_level *l) {
    const sky__rehearsal load = {.tokens = q->tokens,
                                 .bytes = l->bytes,
                                 .bytes_per_s = q->bandwidth / 8,
                                 .delay_ns = q->rtt_ms * 1e6,
                                 .token_ns = loading_compute_ms(q) * 1e6};
    double compute_ms = q->tokens * loading_compute_ms(q);
    sky__rehearsed both;
    l->computed_tokens = q->overlap && compute_ms < l->load_ms ? q->tokens : 0;
    l->first_token_ms = q->overlap ? fmin(compute_ms, l->load_ms) : l->load_ms;
    if (!q->overlap || sky__rehearse(&load, &both) != SKY_OK || !isfinite(both.end_ns))
        return;
    l->computed_tokens = both.computed_tokens;
    l->first_token_ms = both.end_ns / 1e6;
}

static double engine_price(const sky_worth_question *q, double ms) {
    return ms / 3.6e6 * q->compute_price;
}

static void judge_level(const sky_worth_question *q, const sky_level_cost *cost, double compute_ms,
                        sky_worth_level *l) {
    l->bytes = q->tokens * q->bytes_per_token * cost->bits / 16;
    l->load_ms = q->rtt_ms + l->bytes * 8 / q->bandwidth * 1e3;
    rehearse_meeting(q, l);
    double loaded = 1 - l->computed_tokens / q->tokens;
    double kept = l->bytes / GIB * q->storage_price * q->keep_hours / MONTH_HOURS;
    double once = engine_price(q, l->computed_tokens * loading_compute_ms(q)) +
                  l->bytes * loaded / GIB * q->transfer_price;
    double saved = engine_price(q, compute_ms) - once;
    l->cost_stored = kept + q->reuses * once;
    l->break_even_reuses = saved > 0 ? kept / saved : INFINITY;
    double left_ms = compute_ms - q->rtt_ms;
    l->break_even_bandwidth = left_ms > 0 ? l->bytes * 8 / left_ms * 1e3 : INFINITY;
    l->acceptable = cost->loss <= q->loss_max;
    l->in_time = q->deadline_ms == 0 || l->first_token_ms <= q->deadline_ms;
    l->cheaper = q->reuses > 0 && q->reuses >= l->break_even_reuses;
    l->faster = l->first_token_ms < compute_ms;
}

/* Sums of numbers that are each in order may be none. */
static bool level_finite(const sky_worth_level *l) {
    return l->bytes < 0x1p63 && isfinite(l->load_ms) && isfinite(l->first_token_ms) &&
           isfinite(l->computed_tokens) && isfinite(l->cost_stored);
}

/* With a deadline the best that keeps it; without, the soonest. */
static bool is_better_level(const sky_worth_question *q, const sky_worth_level *a,
                            const sky_worth_level *than) {
    if (a->in_time != than->in_time)
        return a->in_time;
    if (q->deadline_ms > 0 && a->in_time)
        return false; /* levels come best first */
    return a->first_token_ms < than->first_token_ms;
}

static const char *reason_for(const sky_worth *w, bool acceptable, bool faster) {
    if (w->store && !w->levels[w->level].in_time)
        return "it answers sooner and costs less than computing, but not by the deadline";
    if (w->store)
        return "it answers sooner and costs less than computing";
    if (!acceptable)
        return "no level loses as little as asked";
    if (!faster)
        return "of the levels that lose no more than asked, none loads faster than computing";
    return "what computing saves does not pay for the storage";
}

sky_status sky_worth_judge(const sky_worth_question *question, sky_worth *out) {
    const sky_worth_question *q = question;
    if (!q || !out || !question_valid(q))
        return SKY_E_PARAM;
    sky_worth w = {.compute_ms = q->tokens * q->compute_ms};
    w.cost_compute = q->reuses * engine_price(q, w.compute_ms);
    if (!isfinite(w.compute_ms) || !isfinite(w.cost_compute))
        return SKY_E_PARAM;
    bool acceptable = false, faster = false;
    for (uint32_t i = 0; i < SKY_WORTH_LEVELS; i++) {
        sky_worth_level *l = &w.levels[i];
        judge_level(q, &costs[i], w.compute_ms, l);
        if (!level_finite(l))
            return SKY_E_PARAM;
        acceptable |= l->acceptable;
        faster |= l->acceptable && l->faster;
        bool pays = l->acceptable && l->faster && l->cheaper;
        if (pays && (!w.store || is_better_level(q, l, &w.levels[w.level]))) {
            w.store = true;
            w.level = i;
        }
    }
    w.why = reason_for(&w, acceptable, faster);
    *out = w;
    return SKY_OK;
}
