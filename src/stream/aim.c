/* How long a prefix to make for, where layers with a window make shorter ones need other rows.
 *
 *   lead there      # # # # # # . .        all 8: 2 leads and 2 rests are missing
 *   rest there      . . . . . . . .        the first 6: 2 rests        (window 2)
 *                           ^-^ these, if it is to be the first 6
 *
 * All is given up only when not even twice the rate of late brings the least of it in time. Nearer
 * to the rate makes contexts late that would not have been; farther off leaves no time for a
 * shorter prefix. How much shorter is then judged by the rate itself, without the reserve that the
 * first pass keeps: holding time back here lost more than it saved. What is there stays, whatever
 * the aim, and when the link has recovered the aim is all again. */
#include "stream/state.h"

#include <math.h>

#define IMPOSSIBLE UINT64_MAX
#define HOPE       2
#define LATELY_NS  1e8
#define AT_ONCE_NS SKY_MS(1)

/* ---- what a prefix lacks ---- */

static uint32_t least_form(const sky_pacer *p, uint32_t segment) {
    uint32_t f = p->segments[segment].form_count;
    while (f > 0 && !sky__pacer_offered(p, segment, f - 1))
        f--;
    return f > 0 ? f - 1 : SKY_PACER_FORM_NONE;
}

/* Bytes that are missing: of a segment in any prefix, and besides in one that ends near it. */
typedef struct {
    uint64_t lead;
    uint64_t rest;
} lack;

static lack lack_of(const sky_pacer *p, uint32_t segment) {
    const sky_segment *s = &p->segments[segment];
    if (p->state[segment].computed)
        return (lack){0}; /* the engine has all rows of it that a prefix needs */
    uint32_t held = p->state[segment].held, least = least_form(p, segment);
    const sky_pacer_flight *f = p->state[segment].flights > 0 ? sky__flight_of(p, segment) : NULL;
    bool none = least == SKY_PACER_FORM_NONE;
    lack l = {.rest = none ? IMPOSSIBLE : s->rest_bytes[least]};
    if (held == 0)
        l.lead = none ? IMPOSSIBLE : s->lead_bytes[least];
    if (held == 0 && !f && !none)
        l.rest = s->forms[least].bytes - s->lead_bytes[least]; /* with the lead, at once */
    if (held > 1)
        l.rest = 0;
    if (!f || f->slice < held)
        return l; /* one that refines can be given up */
    uint64_t owed = f->bytes > f->arrived ? f->bytes - f->arrived : 1;
    uint64_t again = none ? owed : sky__pacer_bytes(p, segment, least, f->slice, f->slice_end);
    uint64_t least_owed = owed < again ? owed : again;
    if (f->slice_end > 1)
        l.rest = 0;
    *(f->slice > 0 ? &l.rest : &l.lead) = least_owed;
    return l;
}

static void add_bytes(uint64_t bytes, double *sum, uint32_t *impossible) {
    if (bytes == IMPOSSIBLE)
        (*impossible)++;
    else
        *sum += (double)bytes;
}

static void take_away(uint64_t bytes, double *sum, uint32_t *impossible) {
    if (bytes == IMPOSSIBLE)
        (*impossible)--;
    else
        *sum -= (double)bytes;
}

uint32_t sky__aim_longest(const sky_pacer *p, double bytes) {
    double lead = 0, rest = 0;
    uint32_t impossible = 0, longest = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        lack l = lack_of(p, i);
        if (l.lead == IMPOSSIBLE)
            break;
        lead += (double)l.lead;
        add_bytes(l.rest, &rest, &impossible);
        if (i >= p->options.window)
            take_away(lack_of(p, i - p->options.window).rest, &rest, &impossible);
        if (impossible == 0 && lead + rest <= bytes)
            longest = i + 1;
    }
    return longest;
}

/* ---- what the sources can bring ---- */

/* Bytes that were on their way when the source was last heard of, and still are. */
static double owed_since(const sky_pacer *p, uint32_t source) {
    double owed = 0;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        const sky_pacer_flight *f = &p->flights[i];
        if (f->request != 0 && f->source == source && f->bytes > f->arrived &&
            f->asked_at < p->sources[source].heard_at + AT_ONCE_NS)
            owed += (double)(f->bytes - f->arrived);
    }
    return owed;
}

/* Bytes a second, as of late, and no more than can have come since it was last heard of. When the
 * aim changes what was asked for is given up, and the doubt stays until more is heard. */
static double rate_seen(const sky_pacer *p, uint32_t source, sky_time now) {
    const sky_pacer_source *s = &p->sources[source];
    const sky_link *link = &p->links[source];
    double silent = (double)(now - s->heard_at) - link->delay_ns;
    double rate = sky__link_rate(p, source);
    if (s->recent > 0)
        rate = fmin(s->recent, rate);
    double owed = silent > 0 ? owed_since(p, source) : 0;
    return owed > 0 ? fmin(rate, owed / silent * 1e9) : rate;
}

static double rate_of_late(const sky_pacer *p, sky_time now) {
    double rate = 0;
    for (uint32_t i = 0; i < p->link_count; i++)
        rate += rate_seen(p, i, now);
    return rate;
}

void sky__aim_heard(sky_pacer *p, sky_time now, uint32_t source, uint64_t bytes) {
    sky_pacer_source *s = &p->sources[source];
    double took = fmax((double)(now - s->heard_at) - p->links[source].delay_ns, 1);
    if (s->recent == 0 || s->starting)
        s->recent = sky__link_rate(p, source);
    s->recent += took / (took + LATELY_NS) * ((double)bytes / took * 1e9 - s->recent);
    s->heard_at = now;
}

/* As long as nothing is known of any source nobody knows what cannot come, but what none has. */
static bool is_starting(const sky_pacer *p) {
    bool starting = true;
    for (uint32_t i = 0; i < p->link_count; i++)
        starting &= p->sources[i].starting && p->sources[i].rate_at_start == 0;
    return starting;
}

static void aim_at(sky_pacer *p, sky_time now, uint32_t count) {
    for (uint32_t i = 0; i < p->link_count; i++)
        p->sources[i].recent = rate_seen(p, i, now);
    p->aim = count;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        sky_pacer_flight *f = &p->flights[i];
        if (f->request != 0 && f->segment >= count) {
            p->given_up += !f->refining;
            sky__flight_drop(p, now, f, true);
        }
    }
}

void sky__aim(sky_pacer *p, sky_time now, double time_ns) {
    if (p->options.deadline_ns == 0 || p->options.all_or_nothing || time_ns <= 0)
        return;
    double left_ns = (double)(p->options.deadline_ns - p->decoding_ns - now);
    double rate = is_starting(p) ? INFINITY : rate_of_late(p, now);
    bool enough = sky__aim_longest(p, HOPE * left_ns * rate * 1e-9) >= p->aim;
    if (enough && p->aim == p->count)
        return;
    uint32_t longest = sky__aim_longest(p, time_ns * rate * 1e-9);
    if (longest > sky__aim_longest(p, 0) && (!enough || longest > p->aim))
        aim_at(p, now, longest); /* for one that is there nothing has to be given up */
}
