/* Requests under way: how many, from where, and which are slower than their source usually is.
 *
 * How many: enough that the link never waits for the next question (twice what it carries in a
 * round trip) and no more, because what is asked for early is chosen early. Three times, as long as
 * a link of which nothing was known may carry more than it has shown; fewer find that out a round
 * trip later. A request that is overdue does not count: one slow answer must not hold up the
 * others. */
#include "stream/state.h"

#include <assert.h>
#include <math.h>

#define USUAL_TIMES      2
#define USUAL_LEAST      2
#define STARTING_TIMES   3
#define STARTING_LEAST   6
#define OVERDUE_NS_MIN   SKY_MS(10)
#define OVERDUE_NS_FIRST SKY_SECONDS(1) /* of a source that never brought anything … */
#define OVERDUE_NS_RIVAL SKY_MS(100)    /* … where there is another */
#define QUEUE_NS         SKY_MS(10)     /* to have under way, where there is no choice of forms */
#define TRIED_AT_ONCE    2              /* of such a one, though another may be sooner */

sky_pacer_flight *sky__flight_find(sky_pacer *p, uint32_t request) {
    for (uint32_t i = 0; request != 0 && i < SKY_PACER_FLIGHTS_MAX; i++)
        if (p->flights[i].request == request)
            return &p->flights[i];
    return NULL;
}

const sky_pacer_flight *sky__flight_of(const sky_pacer *p, uint32_t segment) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (p->flights[i].request != 0 && p->flights[i].segment == segment)
            return &p->flights[i];
    return NULL;
}

uint64_t sky__flight_owed(const sky_pacer *p, uint32_t source) {
    uint64_t owed = 0;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        const sky_pacer_flight *f = &p->flights[i];
        if (f->request != 0 && (source == SKY_PACER_SOURCES_MAX || f->source == source))
            owed += f->bytes > f->arrived ? f->bytes - f->arrived : 0;
    }
    return owed;
}

sky_pacer_flight *sky__flight_add(sky_pacer *p, sky_time now, uint32_t segment, uint32_t form,
                                  uint32_t source) {
    sky_pacer_flight *f = p->flights;
    while (f->request != 0)
        f++;
    assert(f < p->flights + SKY_PACER_FLIGHTS_MAX);
    bool refining = sky__pacer_present(p, segment);
    uint32_t slice = refining ? 0 : p->state[segment].held;
    uint32_t slice_end = sky__pacer_slice_end(p, segment, form);
    *f = (sky_pacer_flight){
        .request = ++p->last_request,
        .segment = segment,
        .form = form,
        .source = source,
        .slice = slice,
        .slice_end = slice_end,
        .bytes = sky__pacer_bytes(p, segment, form, slice, slice_end),
        .ahead = sky__flight_owed(p, source),
        .before = p->sources[source].bytes,
        .asked_at = now,
        .last_at = now,
        .refining = refining,
    };
    sky_pacer_source *s = &p->sources[source];
    if (s->flights++ == 0) {
        s->busy_since = s->heard_at = now;
        s->window_at = 0;
    }
    p->state[segment].flights++;
    p->flight_count++;
    return f;
}

void sky__flight_drop(sky_pacer *p, sky_time now, sky_pacer_flight *flight, bool tell) {
    sky_pacer_source *s = &p->sources[flight->source];
    if (tell) {
        assert(p->cancel_count < sizeof p->cancels / sizeof *p->cancels);
        p->cancels[p->cancel_count++] = flight->request;
    }
    flight->request = 0;
    p->state[flight->segment].flights--;
    p->flight_count--;
    if (--s->flights == 0) {
        sky_time busy = now - s->busy_since - (sky_time)p->links[flight->source].delay_ns;
        s->busy_ns += busy > 0 ? busy : 0;
    }
}

bool sky__flight_overdue(const sky_pacer *p, const sky_pacer_flight *f, sky_time now) {
    const sky_link *link = &p->links[f->source];
    if (f->arrived >= f->bytes)
        return false; /* being decoded */
    if (link->rate == 0)
        return now - f->asked_at > (p->link_count > 1 ? OVERDUE_NS_RIVAL : OVERDUE_NS_FIRST);
    double patience = 2 * link->delay_ns + 4 * link->delay_deviation +
                      2 * (double)f->ahead / sky__link_rate(p, f->source) * 1e9;
    sky_time life = f->last_at > f->asked_at ? f->last_at : f->asked_at;
    return (double)(now - life) > fmax(patience, OVERDUE_NS_MIN);
}

/* Where there is a choice of forms what is asked for early is chosen early. */
uint32_t sky__flight_starting(const sky_pacer *p, uint32_t source) {
    uint32_t at_once = p->links[source].at_once;
    return at_once ? at_once : p->choice ? STARTING_LEAST : p->options.flights_max;
}

bool sky__flight_probes(const sky_pacer *p, uint32_t source) {
    uint32_t most = p->link_count > 1 ? TRIED_AT_ONCE : sky__flight_starting(p, source);
    return p->links[source].rate == 0 && p->sources[source].flights < most;
}

bool sky__flight_room(const sky_pacer *p, sky_time now) {
    if (p->flight_count >= p->options.flights_max)
        return false;
    double owed = 0, wanted = 0;
    uint32_t alive = 0, alive_least = 0;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        const sky_pacer_flight *f = &p->flights[i];
        if (f->request == 0 || sky__flight_overdue(p, f, now))
            continue;
        alive++;
        owed += (double)(f->bytes - f->arrived);
    }
    for (uint32_t i = 0; i < p->link_count; i++) {
        alive_least += p->sources[i].starting ? sky__flight_starting(p, i) : USUAL_LEAST;
        wanted += (p->sources[i].starting ? STARTING_TIMES : USUAL_TIMES) * sky__link_rate(p, i) *
                  p->links[i].delay_ns * 1e-9;
        wanted += p->choice ? 0 : sky__link_rate(p, i) * QUEUE_NS * 1e-9;
    }
    return alive < alive_least || owed < wanted;
}

uint32_t sky__flight_source(const sky_pacer *p, uint32_t segment, uint32_t form, uint64_t bytes) {
    uint32_t best = SKY_PACER_SOURCES_MAX;
    double soonest = INFINITY;
    for (uint32_t i = 0; i < p->link_count; i++) {
        if (p->state[segment].gone[i] & 1u << form)
            continue;
        double ns = (double)(sky__flight_owed(p, i) + bytes) / sky__link_rate(p, i) * 1e9 +
                    p->links[i].delay_ns;
        if (sky__flight_probes(p, i))
            ns = 0; /* else it would never be known */
        if (ns < soonest) {
            soonest = ns;
            best = i;
        }
    }
    return best;
}
