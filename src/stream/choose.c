/* Which form the time allows. To minimise loss within a budget of time, each segment takes the form
 * that is least in  loss + price × time,  at the lowest price at which all fit: forms of equal
 * worth are bought everywhere alike, and what a few segments cannot use goes to the others.
 *
 * CacheGen takes one level for all that is left, so that up to a level's width of the budget is
 * not used; here it is at most a segment's. */
#include "stream/state.h"

#include <math.h>

#define PRICE_LEAST 1e-20 /* loss × tokens a nanosecond */
#define PRICE_MOST  1e6
#define HALVINGS    48

double sky__pacer_rate(const sky_pacer *p) {
    double rate = 0;
    for (uint32_t i = 0; i < p->link_count; i++)
        rate += sky__link_rate(p, i);
    return rate;
}

double sky__pacer_rate_sure(const sky_pacer *p, sky_time now) {
    double rate = 0;
    for (uint32_t i = 0; i < p->link_count; i++)
        rate += sky__link_rate_sure(p, i, now);
    return rate;
}

/* Transfer and decoding overlap between segments, so the slower of them counts. */
static double form_ns(const sky_pacer *p, uint32_t i, uint32_t form, uint32_t first_slice,
                      double rate) {
    const sky_form *f = &p->segments[i].forms[form];
    double share = p->options.window == 0
                       ? 1 - (double)first_slice / p->options.slices
                       : (double)sky__pacer_slice_bytes(p, i, form, first_slice) / (double)f->bytes;
    return share * fmax((double)f->bytes / rate * 1e9, (double)f->decode_ns);
}

static bool is_missing(const sky_pacer *p, uint32_t i) {
    return !sky__pacer_present(p, i) && p->state[i].flights == 0;
}

/* The best form in which one that is missing may be asked for. Else a form that was given up would
 * be asked for again at once, where its bytes are not what takes the time, and so on. */
static uint32_t first_form(const sky_pacer *p, uint32_t i) {
    uint32_t given_up = p->state[i].given_up;
    for (uint32_t f = given_up; f > 0 && f < p->segments[i].form_count; f++)
        if (sky__pacer_offered(p, i, f))
            return given_up;
    return 0;
}

/* SKY_PACER_FORM_NONE: leave it as it is, which only one that is there can. */
static uint32_t form_at(const sky_pacer *p, uint32_t i, double price, double rate, bool better) {
    const sky_segment *s = &p->segments[i];
    uint32_t best = SKY_PACER_FORM_NONE;
    double least = better ? sky__pacer_held_loss(p, i) * s->token_count : INFINITY;
    for (uint32_t f = better ? 0 : first_form(p, i); f < s->form_count; f++) {
        if (!sky__pacer_offered(p, i, f) ||
            (better && s->forms[f].loss >= sky__pacer_held_loss(p, i)))
            continue;
        double ns = form_ns(p, i, f, better ? 0 : p->state[i].held, rate);
        double worth = s->forms[f].loss * s->token_count + price * ns;
        if (worth < least) {
            least = worth;
            best = f;
        }
    }
    return best;
}

static bool is_eligible(const sky_pacer *p, uint32_t i, bool better) {
    return better ? i < p->aim && sky__pacer_present(p, i) && !p->state[i].computed &&
                        p->state[i].flights == 0
                  : is_missing(p, i);
}

static double total_ns(const sky_pacer *p, uint32_t first, double price, double rate, bool better) {
    double total = 0;
    for (uint32_t i = first; i < p->count; i++) {
        uint32_t f = is_eligible(p, i, better) ? form_at(p, i, price, rate, better)
                                               : SKY_PACER_FORM_NONE;
        if (f != SKY_PACER_FORM_NONE)
            total += form_ns(p, i, f, better ? 0 : p->state[i].held, rate);
    }
    return total;
}

/* The lowest price at which the total fits, and the highest at which it does not: one step of forms
 * lies between them. */
typedef struct {
    double fits;
    double below;
    double total_ns; /* at `fits` */
} price;

static price price_for(const sky_pacer *p, uint32_t first, double budget_ns, double rate,
                       bool better) {
    double total = total_ns(p, first, 0, rate, better);
    if (total <= budget_ns)
        return (price){0, 0, total};
    double low = PRICE_LEAST, high = PRICE_MOST;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = sqrt(low) * sqrt(high); /* exact everywhere, unlike exp and log */
        if (total_ns(p, first, middle, rate, better) <= budget_ns)
            high = middle;
        else
            low = middle;
    }
    return (price){high, low, total_ns(p, first, high, rate, better)};
}

static bool next_missing(const sky_pacer *p, uint32_t first, uint32_t end, bool backwards,
                         uint32_t *segment) {
    for (uint32_t n = first; n < end; n++) {
        uint32_t i = backwards ? end - 1 - (n - first) : n;
        if (is_missing(p, i) && sky__choose_any(p, i)) {
            *segment = i;
            return true;
        }
    }
    return false;
}

bool sky__choose_missing(const sky_pacer *p, uint32_t first, uint32_t end, bool backwards,
                         double budget_ns, double rate, uint32_t *segment, uint32_t *form) {
    uint32_t i;
    if (!next_missing(p, first, end, backwards, &i))
        return false;
    price at = price_for(p, first, budget_ns, rate, false);
    uint32_t fits = form_at(p, i, at.fits, rate, false), held = p->state[i].held;
    uint32_t better = form_at(p, i, at.below, rate, false); /* if the others leave room for it */
    double spare = budget_ns - at.total_ns + form_ns(p, i, fits, held, rate);
    *segment = i;
    *form = form_ns(p, i, better, held, rate) <= spare ? better : fits;
    return true;
}

/* At this price, the one that is worth most a nanosecond and takes no longer than that. */
static bool best_better(const sky_pacer *p, double at, double most_ns, double rate,
                        uint32_t *segment, uint32_t *form) {
    double most = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t f = is_eligible(p, i, true) ? form_at(p, i, at, rate, true) : SKY_PACER_FORM_NONE;
        if (f == SKY_PACER_FORM_NONE || form_ns(p, i, f, 0, rate) > most_ns)
            continue;
        double gain = sky__pacer_held_loss(p, i) - p->segments[i].forms[f].loss;
        gain *= p->segments[i].token_count / form_ns(p, i, f, 0, rate);
        if (gain > most) {
            most = gain;
            *segment = i;
            *form = f;
        }
    }
    return most > 0;
}

static bool any_missing(const sky_pacer *p) {
    bool any = false;
    for (uint32_t i = 0; i < p->count; i++)
        any |= is_missing(p, i);
    return any;
}

/* Segments alike want the same form at any price, so of those that not all fit as many are taken as
 * do; but not while the engine still has some to compute, which it may be late with: then the time
 * that nobody uses is what they are loaded in. */
bool sky__choose_better(const sky_pacer *p, double budget_ns, double rate, uint32_t *segment,
                        uint32_t *form) {
    price at = price_for(p, 0, budget_ns, rate, true);
    bool fits = at.total_ns <= budget_ns; /* also when there is no time at all */
    return (fits && best_better(p, at.fits, INFINITY, rate, segment, form)) ||
           (!any_missing(p) && best_better(p, at.below, budget_ns, rate, segment, form));
}

double sky__choose_least_ns(const sky_pacer *p, uint32_t first, double rate) {
    return total_ns(p, first, PRICE_MOST, rate, false);
}

double sky__choose_best_ns(const sky_pacer *p, double rate) {
    return total_ns(p, 0, 0, rate, false);
}

bool sky__choose_any(const sky_pacer *p, uint32_t segment) {
    return form_at(p, segment, 0, 1, false) != SKY_PACER_FORM_NONE;
}
