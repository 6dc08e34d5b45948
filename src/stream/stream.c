/* The planner: what happened comes in, what to do goes out. See planner.h for the picture.
 *
 *   missing segments beyond the engine's reach    in the time but for the reserve
 *   then better forms for what is there           in all of the time
 *   then what the engine would reach in time      when the link is there sooner
 *
 * All three are planned anew for every request, so that a change of the link shows in the next one;
 * cut_requests() looks at those under way. */
#include "stream/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS       SKY_MS(10) /* how often what is under way is looked at */
#define RISK          0.01
#define FACTOR_WEIGHT 0.1
#define FACTOR_BUSY   1.1
#define DOUBT         1.25 /* of an engine, against a deadline */
#define PAUSE_SHARE   32   /* of the time for everything: pauses of the engine */
#define TELLING       256  /* less than this part of the largest says nothing of a link */

/* ---- what is there ---- */

static uint32_t first_missing(const sky_pacer *p) {
    uint32_t i = 0;
    while (i < p->count && sky__pacer_present(p, i))
        i++;
    return i;
}

/* Segments of the longest prefix that is there. */
static uint32_t leading_segments(const sky_pacer *p) {
    return p->options.window > 0 ? sky__aim_longest(p, 0) : first_missing(p);
}

/* ---- create ---- */

/* An engine that goes on from what is loaded would lack its rests. */
static bool parts_valid(const sky_segment *s, bool engine_alone) {
    for (uint32_t f = 0; f < s->form_count; f++)
        if (s->lead_bytes[f] == 0 || s->lead_bytes[f] > s->forms[f].bytes || s->rest_bytes[f] == 0)
            return false;
    return s->compute_ns == 0 || engine_alone;
}

static bool segment_valid(const sky_segment *s) {
    if (s->token_count == 0 || s->form_count > SKY_PACER_FORMS_MAX || s->compute_ns < 0)
        return false;
    for (uint32_t f = 0; f < s->form_count; f++) {
        const sky_form *form = &s->forms[f];
        if (form->bytes == 0 || !isfinite(form->loss) || form->loss < 0 || form->decode_ns < 0)
            return false;
        if (f > 0 && (form->bytes > form[-1].bytes || form->loss < form[-1].loss))
            return false;
    }
    return s->form_count > 0 || s->compute_ns > 0;
}

static sky_pacer_options with_defaults(const sky_pacer_options *options) {
    sky_pacer_options o = options ? *options : (sky_pacer_options){0};
    o.slices = o.slices ? o.slices : o.window > 0 ? 2 : 1;
    o.flights_max = o.flights_max ? o.flights_max : SKY_PACER_FLIGHTS_MAX;
    o.risk = o.risk > 0 ? o.risk : RISK;
    return o;
}

static bool arguments_valid(const sky_segment *segments, uint32_t count, const sky_link *links,
                            uint32_t link_count, const sky_pacer_options *o) {
    bool fine = count >= 1 && count <= SKY_PACER_SEGMENTS_MAX && link_count >= 1 &&
                link_count <= SKY_PACER_SOURCES_MAX && o->slices <= SKY_PACER_SLICES_MAX &&
                o->flights_max <= SKY_PACER_FLIGHTS_MAX && o->risk < 1 &&
                (o->window == 0 || o->slices == 2);
    for (uint32_t i = 0; fine && i < count; i++)
        fine = segment_valid(&segments[i]) &&
               (o->window == 0 || parts_valid(&segments[i], o->engine_alone));
    for (uint32_t i = 0; fine && i < link_count; i++)
        fine = links[i].rate >= 0;
    return fine;
}

sky_status sky_pacer_create(const sky_segment *segments, uint32_t count, sky_link *links,
                            uint32_t link_count, const sky_pacer_options *options, sky_time now,
                            sky_pacer **out) {
    sky_pacer_options o = with_defaults(options);
    if (!arguments_valid(segments, count, links, link_count, &o))
        return SKY_E_PARAM;
    sky_pacer *p = calloc(1, sizeof *p + count * sizeof *p->state);
    if (!p)
        return SKY_E_NOMEM;
    p->segments = segments;
    p->count = p->aim = count;
    p->links = links;
    p->link_count = link_count;
    p->options = o;
    p->started_at = now;
    p->compute_factor = links[0].engine_factor > 0 ? links[0].engine_factor : 1;
    p->compute_known = !o.engine_unknown;
    p->complete_ns = SKY_TIME_NEVER;
    for (uint32_t i = 0; i < count; i++) {
        if (segments[i].form_count > 0 && segments[i].forms[0].bytes / TELLING > p->telling_bytes)
            p->telling_bytes = segments[i].forms[0].bytes / TELLING;
        p->choice |= segments[i].form_count > 1;
        memset(p->state[i].forms, SKY_PACER_FORM_NONE, sizeof p->state[i].forms);
        for (uint32_t f = 0; f < segments[i].form_count; f++)
            if (segments[i].forms[f].decode_ns > p->decoding_ns)
                p->decoding_ns = segments[i].forms[f].decode_ns;
    }
    for (uint32_t i = 0; i < link_count; i++) {
        p->sources[i].rate_at_start = links[i].rate;
        p->sources[i].starting = links[i].rate == 0 || links[i].unsettled;
    }
    if (o.deadline_ns > now)
        p->reserve_ns = (double)(o.deadline_ns - now) * sky_link_reserve(&links[0]);
    *out = p;
    return SKY_OK;
}

void sky_pacer_destroy(sky_pacer *pacer) {
    free(pacer);
}

/* Until when plans are made: a thirty-second of the time is left for what comes later than
 * promised, the host's own wake-ups among it. */
static double trusted_until(const sky_pacer *p, sky_time now) {
    sky_time until = p->options.deadline_ns - p->decoding_ns;
    sky_time spare = (until - now) / 32;
    return (double)(until - spare - TICK_NS);
}

/* ---- the engine ---- */

static bool can_compute(const sky_pacer *p, uint32_t segment) {
    return p->segments[segment].compute_ns > 0 && p->engine_joined && !p->engine_failed;
}

static double compute_ns(const sky_pacer *p, uint32_t segment) {
    return (double)p->segments[segment].compute_ns * p->compute_factor;
}

/* What is being computed. */
static double computing_ns(const sky_pacer *p) {
    double sum = 0;
    for (uint32_t i = p->computing_segment; i < p->computing_end; i++)
        sum += compute_ns(p, i);
    return sum;
}

/* It took, or has taken, until now; some time, whatever the clock says. */
static void clock_engine(sky_pacer *p, sky_time now) {
    double promised = computing_ns(p) / p->compute_factor;
    double factor = fmax((double)(now - p->compute_from), 1) / promised;
    p->compute_factor += (p->compute_known ? FACTOR_WEIGHT : 1) * (factor - p->compute_factor);
    p->compute_known = true;
}

/* An engine that has kept segments waiting may do so again: time for the sources to be asked for
 * two more, in their smallest form. */
static double rescue_ns(const sky_pacer *p) {
    const sky_segment *last = &p->segments[p->count - 1];
    if (p->compute_factor < FACTOR_BUSY || last->form_count == 0)
        return 0;
    double bytes = (double)last->forms[last->form_count - 1].bytes;
    return p->links[0].delay_ns + 2 * bytes / sky__pacer_rate(p) * 1e9;
}

/* Behind a hole nothing is of use, and there may be one at the deadline. */
static bool holes_cost(const sky_pacer *p) {
    return p->options.engine_alone && p->options.deadline_ns;
}

/* What the engine takes, or a quarter more where all depends on it. */
static double doubted_ns(const sky_pacer *p, uint32_t segment) {
    return (holes_cost(p) ? DOUBT : 1) * compute_ns(p, segment);
}

/* The first segment that is not there, not on its way, and not computed by `until`. */
static uint32_t engine_reach(const sky_pacer *p, sky_time now, double until) {
    double at = (double)now;
    if (p->computing) {
        double promised = (double)p->compute_from + computing_ns(p);
        at = fmax(promised, at + (at - promised)); /* overdue: as long again */
    }
    until -= rescue_ns(p);
    for (uint32_t i = 0; i < p->count; i++) {
        bool here = sky__pacer_present(p, i) || p->state[i].flights > 0;
        if (p->state[i].computed || (here && !p->options.engine_alone))
            continue;
        if (!p->computing || i < p->computing_segment || i >= p->computing_end)
            at += doubted_ns(p, i);
        if (!here && (!can_compute(p, i) || !p->compute_known || at > until))
            return i;
    }
    return p->count;
}

/* Until the first byte of what is asked for now. */
static double delay_ns(const sky_pacer *p) {
    double least = INFINITY;
    for (uint32_t i = 0; i < p->link_count; i++)
        if (p->links[i].rate > 0)
            least = fmin(least, p->links[i].delay_ns);
    return isfinite(least) ? least : 0;
}

/* When these bytes, asked for now, would be usable. */
static double usable_at(const sky_pacer *p, sky_time now, uint64_t more) {
    double owed = (double)(sky__flight_owed(p, SKY_PACER_SOURCES_MAX) + more);
    return (double)now + delay_ns(p) + owed / sky__pacer_rate(p) * 1e9 + (double)p->decoding_ns;
}

/* How long requests that are overdue are still waited for: a source that has brought something is
 * expected to be silent for as long again as it is already. Another one is not waited for. */
static double silent_ns(const sky_pacer *p, sky_time now) {
    double most = 0;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        const sky_pacer_flight *f = &p->flights[i];
        if (f->request == 0 || !sky__flight_overdue(p, f, now))
            continue;
        const sky_pacer_source *s = &p->sources[f->source];
        if (s->bytes <= p->telling_bytes)
            return INFINITY;
        most = fmax(most, (double)(now - s->heard_at));
    }
    return most;
}

/* What the sources have carried since the engine left them its processors. */
static double rate_in_pause(const sky_pacer *p, sky_time now) {
    if (p->stepped_at == 0 || p->computing || now <= p->stepped_at)
        return 0;
    return (double)(p->bytes - p->stepped_bytes) / (double)(now - p->stepped_at) * 1e9;
}

/* Of what nobody has asked for yet: in its best form, or its soonest when there is no deadline. */
static double unasked_ns(const sky_pacer *p, double rate) {
    return p->options.deadline_ns ? sky__choose_best_ns(p, rate) : sky__choose_least_ns(p, 0, rate);
}

/* When the sources alone would have brought everything. What flows since the engine stopped needs
 * no delay any more. */
static double links_bring(const sky_pacer *p, sky_time now) {
    for (uint32_t i = 0; i < p->count; i++)
        if (!sky__pacer_present(p, i) && !sky__choose_any(p, i))
            return INFINITY;
    double rate = sky__pacer_rate(p), flows = rate_in_pause(p, now);
    double at = usable_at(p, now, 0) + unasked_ns(p, rate);
    if (flows > 0 && unasked_ns(p, flows) <= 0) {
        double owed = (double)sky__flight_owed(p, SKY_PACER_SOURCES_MAX);
        at = fmin(at, (double)now + owed / flows * 1e9 + (double)p->decoding_ns);
    }
    return at;
}

/* … and what is overdue is not believed. */
static double links_done(const sky_pacer *p, sky_time now) {
    return fmax(links_bring(p, now), (double)now + silent_ns(p, now));
}

/* Nothing is known of any source yet, and one as near as a disk shows what it is with its first
 * bytes, before the engine has taken its processors. What came while it had them says little of
 * what a source on the same host can do: so it leaves them to sources that nothing was known of
 * for a while after it has computed something, in all for a share of the time for everything. */
static bool engine_waits(const sky_pacer *p, sky_time now) {
    bool unknown = now - p->started_at < p->options.engine_wait;
    bool pauses = p->options.engine_wait > 0 && p->stepped_at > 0 && p->bytes == p->stepped_bytes;
    double all = 0;
    for (uint32_t i = 0; i < p->count; i++)
        all += compute_ns(p, i);
    pauses &= (double)(p->paused_ns + now - p->stepped_at) < all / PAUSE_SHARE;
    for (uint32_t i = 0; i < p->link_count; i++) {
        unknown &= p->links[i].rate == 0;
        pauses &= p->sources[i].rate_at_start == 0;
    }
    return (unknown || pauses) && (p->flight_count > 0 || p->last_request == 0);
}

/* How far to compute at once from here. Of M segments that take the sources L and the engine C the
 * engine gets M L / (L + C) until they meet; half of these leave room for an error. */
static uint32_t run_end(const sky_pacer *p, sky_time now, uint32_t first) {
    double compute = 0, missing = 0, load = links_done(p, now) - (double)now;
    uint32_t end = first;
    for (uint32_t i = first; i < p->count; i++)
        if (!sky__pacer_present(p, i) && can_compute(p, i)) {
            compute += compute_ns(p, i);
            missing++;
        }
    double share = isfinite(load) ? missing * load / (load + compute) : missing;
    uint32_t most = p->compute_known ? (uint32_t)fmin(share / 2, p->options.engine_run) : 1;
    double done = (double)now + doubted_ns(p, end++);
    while (end < first + most && end < p->count && !sky__pacer_present(p, end) &&
           can_compute(p, end)) {
        done += doubted_ns(p, end);
        if (p->options.deadline_ns && done > trusted_until(p, now))
            break; /* what is not done by then is lost */
        end++;
    }
    return end;
}

/* Against a deadline it stays out until the sources alone would not bring everything in time, in
 * its best form. */
static void join_engine(sky_pacer *p, sky_time now) {
    p->engine_joined |= !holes_cost(p) || p->aim < p->count ||
                        links_bring(p, now) > trusted_until(p, now);
}

static bool compute_next(sky_pacer *p, sky_time now, sky_pace *out) {
    uint32_t i = first_missing(p);
    if (p->computing || i == p->count || engine_waits(p, now))
        return false;
    for (uint32_t at = 0; p->options.engine_alone && at < i; at++)
        if (!p->state[at].computed)
            i = at;
    if (!can_compute(p, i))
        return false;
    double done = (double)now + compute_ns(p, i);
    if (p->options.deadline_ns && done > (double)p->options.deadline_ns)
        return false;
    if (links_done(p, now) < done)
        return false; /* all is here before that */
    p->paused_ns += now - (p->stepped_at > 0 ? p->stepped_at : p->started_at);
    p->computing = true;
    p->computing_segment = i;
    p->computing_end = run_end(p, now, i);
    p->compute_from = now;
    *out = (sky_pace){.kind = SKY_PACE_COMPUTE, .segment = i, .segment_end = p->computing_end};
    return true;
}

/* ---- requests ---- */

static bool request_segment(sky_pacer *p, sky_time now, uint32_t segment, uint32_t form,
                            uint32_t source, sky_pace *out) {
    const sky_pacer_flight *f = sky__flight_add(p, now, segment, form, source);
    *out = (sky_pace){.kind = SKY_PACE_GET,
                      .request = f->request,
                      .segment = segment,
                      .form = form,
                      .source = source,
                      .slice = f->slice,
                      .slice_end = f->slice_end,
                      .bytes = f->bytes};
    return true;
}

static double budget_ns(const sky_pacer *p, sky_time now, double rate) {
    double owed = (double)sky__flight_owed(p, SKY_PACER_SOURCES_MAX);
    return trusted_until(p, now) - (double)now - delay_ns(p) - owed / rate * 1e9;
}

/* With an engine from the end backwards: where they meet all is there. Where a hole costs all that
 * lies behind it, from where the engine gets to by the deadline, so that what both have is a
 * prefix. Without an engine from the front, for the same. */
static bool from_the_end(const sky_pacer *p) {
    return can_compute(p, 0) && !holes_cost(p);
}

/* What the engine is to compute by the deadline, before `reach`, is loaded all the same when it
 * might stop now and less would be there than without it: when the sources could just bring these
 * segments, or when they have brought more than it has computed. */
static bool choose_insured(const sky_pacer *p, sky_time now, uint32_t reach, double budget,
                           uint32_t *segment, uint32_t *form) {
    double rate = sky__pacer_rate_sure(p, now);
    double gap = sky__choose_least_ns(p, 0, rate) - sky__choose_least_ns(p, reach, rate);
    uint32_t computed = 0, loaded = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        computed += p->state[i].computed;
        loaded += !p->state[i].computed && (sky__pacer_present(p, i) || p->state[i].flights > 0);
    }
    double margin = reach > 0 ? gap / reach : 0;
    if (gap <= 0 || gap + margin <= budget || (gap > budget + margin && computed >= loaded))
        return false;
    uint32_t from_front = gap > budget + margin;
    return sky__choose_missing(p, 0, reach, !from_front, 0, rate, segment, form);
}

/* What the engine would compute anyway, at its best or, without a deadline, its soonest form, when
 * that is sooner. */
static bool choose_sooner(const sky_pacer *p, sky_time now, uint32_t *segment, uint32_t *form) {
    bool any = p->options.deadline_ns == 0;
    double rate = sky__pacer_rate(p);
    if (!sky__choose_missing(p, 0, p->count, can_compute(p, 0), any ? 0 : INFINITY, rate, segment,
                             form))
        return false;
    double at = usable_at(p, now,
                          sky__pacer_slice_bytes(p, *segment, *form, p->state[*segment].held));
    return engine_reach(p, now, at) <= *segment;
}

/* The first pass is to be over while the reserve is still whole, so that a pause of the link as
 * long as that, whenever it comes, makes nothing late. */
static bool choose_missing(const sky_pacer *p, sky_time now, uint32_t *segment, uint32_t *form) {
    double rate = sky__pacer_rate_sure(p, now), budget = budget_ns(p, now, rate) - p->reserve_ns;
    uint32_t reach = engine_reach(p, now, trusted_until(p, now));
    if (holes_cost(p) && choose_insured(p, now, reach, budget, segment, form))
        return true;
    return sky__choose_missing(p, reach, p->count, from_the_end(p), fmax(budget, 0), rate, segment,
                               form);
}

/* A source that never brought anything: the engine would always be sooner. */
static bool choose_probe(const sky_pacer *p, uint32_t *segment, uint32_t *form) {
    for (uint32_t i = 0; i < p->link_count; i++)
        if (sky__flight_probes(p, i))
            return sky__choose_missing(p, 0, p->count, from_the_end(p), 0, sky__pacer_rate(p),
                                       segment, form);
    return false;
}

static bool request_next(sky_pacer *p, sky_time now, sky_pace *out) {
    uint32_t segment, form;
    if (!sky__flight_room(p, now))
        return false;
    bool found = choose_probe(p, &segment, &form) ||
                 (p->options.deadline_ns && choose_missing(p, now, &segment, &form));
    if (!found && p->options.deadline_ns && !p->options.no_refining) {
        double usual = sky__pacer_rate(p);
        found = sky__choose_better(p, budget_ns(p, now, usual), usual, &segment, &form);
        p->refined += found;
    }
    if (!found && !choose_sooner(p, now, &segment, &form)) {
        sky__link_starved(p);
        return false;
    }
    uint64_t bytes = sky__pacer_slice_bytes(p, segment, form, p->state[segment].held);
    return request_segment(p, now, segment, form, sky__flight_source(p, segment, form, bytes), out);
}

/* Time the smallest form of the rest of this flight would save, less what asking anew costs. */
static double saving_ns(const sky_pacer *p, const sky_pacer_flight *f, double rate) {
    const sky_segment *s = &p->segments[f->segment];
    uint32_t least = s->form_count;
    while (least > f->form + 1 && !sky__pacer_offered(p, f->segment, least - 1))
        least--;
    if (least <= f->form + 1)
        return 0;
    uint32_t done = f->slice + f->slices_done;
    double again = (double)sky__pacer_bytes(p, f->segment, least - 1, done, f->slice_end);
    return ((double)(f->bytes - f->arrived) - again) / rate * 1e9 - p->links[f->source].delay_ns;
}

/* Too little time for what is under way and the least of what is not: ask for less. */
static void cut_requests(sky_pacer *p, sky_time now) {
    if (!p->options.deadline_ns || p->flight_count == 0)
        return;
    double rate = sky__pacer_rate(p), most = 0;
    uint32_t reach = engine_reach(p, now, trusted_until(p, now));
    double slack = budget_ns(p, now, rate) - sky__choose_least_ns(p, reach, rate);
    if (slack >= 0)
        return;
    sky_pacer_flight *worst = NULL;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        sky_pacer_flight *f = &p->flights[i];
        if (f->request == 0 || first_missing(p) == p->count)
            continue;
        double saved = f->refining ? (double)(f->bytes - f->arrived) / rate * 1e9
                                   : saving_ns(p, f, rate);
        if (saved > most) {
            most = saved;
            worst = f;
        }
    }
    if (worst) {
        p->given_up += !worst->refining;
        if (!worst->refining)
            p->state[worst->segment].given_up = (uint8_t)(worst->form + 1);
        sky__flight_drop(p, now, worst, true);
    }
}

/* Ask a second source for what the first is slow to give. */
static bool hedge_next(sky_pacer *p, sky_time now, sky_pace *out) {
    if (p->options.no_hedging || p->flight_count >= p->options.flights_max)
        return false;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        sky_pacer_flight *f = &p->flights[i];
        if (f->request == 0 || f->refining || f->hedged || !sky__flight_overdue(p, f, now))
            continue;
        for (uint32_t s = 0; s < p->link_count; s++) {
            if (s == f->source || (p->state[f->segment].gone[s] & 1u << f->form))
                continue;
            f->hedged = true;
            p->hedged++;
            request_segment(p, now, f->segment, f->form, s, out);
            sky__flight_find(p, out->request)->hedged = true;
            return true;
        }
    }
    return false;
}

/* ---- events ---- */

static void note_complete(sky_pacer *p, sky_time now) {
    if (p->complete_ns == SKY_TIME_NEVER && leading_segments(p) == p->count)
        p->complete_ns = now;
}

/* Other requests for a segment that have nothing left to give. */
static void drop_useless(sky_pacer *p, sky_time now, uint32_t segment) {
    const sky_pacer_segment *s = &p->state[segment];
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        sky_pacer_flight *f = &p->flights[i];
        if (f->request == 0 || f->segment != segment)
            continue;
        bool useful = false;
        for (uint32_t k = f->slice; k < f->slice_end; k++)
            useful |= f->form < s->forms[k];
        if (s->computed || !useful)
            sky__flight_drop(p, now, f, true);
    }
}

/* Slices of the flight up to `count` are there. */
static void hold_slices(sky_pacer *p, sky_pacer_flight *f, uint32_t count) {
    sky_pacer_segment *s = &p->state[f->segment];
    for (uint32_t k = f->slices_done; k < count && f->slice + k < f->slice_end; k++) {
        uint8_t *form = &s->forms[f->slice + k];
        if (f->form < *form)
            *form = (uint8_t)f->form;
        f->slices_done = k + 1;
    }
    while (s->held < p->options.slices && s->forms[s->held] != SKY_PACER_FORM_NONE)
        s->held++;
}

static void take_bytes(sky_pacer *p, sky_time now, sky_pacer_flight *f, uint64_t bytes) {
    if (bytes <= f->arrived)
        return;
    p->bytes += bytes - f->arrived;
    sky__link_heard(p, now, f, bytes - f->arrived);
    sky__aim_heard(p, now, f->source, bytes - f->arrived);
    f->arrived = bytes;
    f->last_at = now;
}

void sky_pacer_arrived(sky_pacer *p, sky_time now, uint32_t request, uint64_t bytes,
                       uint32_t slices) {
    sky_pacer_flight *f = sky__flight_find(p, request);
    if (!f)
        return;
    take_bytes(p, now, f, bytes < f->bytes ? bytes : f->bytes);
    uint32_t asked = f->slice_end - f->slice;
    hold_slices(p, f,
                slices < asked ? slices : asked - 1); /* the last one is there when it finishes */
}

void sky_pacer_finished(sky_pacer *p, sky_time now, uint32_t request, sky_status status) {
    sky_pacer_flight *f = sky__flight_find(p, request);
    if (!f)
        return;
    uint32_t segment = f->segment;
    if (status == SKY_OK) {
        take_bytes(p, now, f, f->bytes);
        hold_slices(p, f, p->options.slices);
    } else {
        p->state[segment].gone[f->source] |= (uint16_t)(1u << f->form);
    }
    sky__flight_drop(p, now, f, false);
    drop_useless(p, now, segment);
    note_complete(p, now);
}

void sky_pacer_computed(sky_pacer *p, sky_time now, bool ok) {
    if (!p->computing)
        return; /* nothing was asked for */
    p->computing = false;
    p->engine_failed |= !ok;
    if (!ok || p->ended)
        return;
    clock_engine(p, now);
    p->stepped_at = now;
    p->stepped_bytes = p->bytes;
    for (uint32_t i = p->computing_segment; i < p->computing_end; i++) {
        p->state[i].computed = true;
        drop_useless(p, now, i);
    }
    note_complete(p, now);
}

/* ---- what to do ---- */

/* Late, though the link carried enough for everything in its smallest form: the plan was to blame.
 */
static bool late_by_choice(const sky_pacer *p) {
    uint64_t least = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const sky_segment *s = &p->segments[i];
        bool lead = p->options.window > 0 && i + p->options.window < p->count;
        if (!p->state[i].computed && s->form_count > 0)
            least += lead ? s->lead_bytes[s->form_count - 1] : s->forms[s->form_count - 1].bytes;
    }
    return p->complete_ns == SKY_TIME_NEVER && p->bytes >= least;
}

static void end_load(sky_pacer *p, sky_time now) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (p->flights[i].request != 0)
            sky__flight_drop(p, now, &p->flights[i], true);
    for (uint32_t i = 0; i < p->link_count; i++)
        sky__link_end(p, now, i);
    if (p->computing && (double)(now - p->compute_from) > computing_ns(p))
        clock_engine(p, now);
    p->links[0].engine_factor = p->compute_factor;
    if (p->options.deadline_ns)
        sky__link_judge(&p->links[0], p->options.risk, late_by_choice(p));
    p->ending = true;
}

/* Nothing more need happen: the deadline has passed, or all is there and nothing better is wanted.
 * That nothing more can happen shows when there is nothing to ask for: sky_pacer_next. */
static bool is_over(const sky_pacer *p, sky_time now) {
    bool refines = p->options.deadline_ns && !p->options.no_refining;
    bool late = p->options.deadline_ns && now >= p->options.deadline_ns;
    return late || (!refines && first_missing(p) == p->count);
}

static bool tell_cancel(sky_pacer *p, sky_pace *out) {
    if (p->cancel_count == 0)
        return false;
    *out = (sky_pace){.kind = SKY_PACE_CANCEL, .request = p->cancels[--p->cancel_count]};
    return true;
}

bool sky_pacer_next(sky_pacer *p, sky_time now, sky_pace *out) {
    if (tell_cancel(p, out))
        return true;
    if (p->ended)
        return false;
    if (!p->ending && p->options.window > 0)
        sky__aim(p, now, trusted_until(p, now) - (double)now - delay_ns(p));
    if (!p->ending && is_over(p, now))
        end_load(p, now);
    if (!p->ending) {
        join_engine(p, now);
        cut_requests(p, now);
        if (p->cancel_count == 0 &&
            (compute_next(p, now, out) || hedge_next(p, now, out) || request_next(p, now, out)))
            return true;
        if (p->cancel_count == 0 && p->flight_count == 0 && !p->computing)
            end_load(p, now); /* neither a source nor the engine has more to give in time */
    }
    if (tell_cancel(p, out))
        return true;
    p->ended = p->ending;
    if (p->ended)
        *out = (sky_pace){.kind = SKY_PACE_END};
    return p->ended;
}

sky_time sky_pacer_wake(const sky_pacer *p, sky_time now) {
    if (p->ended)
        return SKY_TIME_NEVER;
    sky_time deadline = p->options.deadline_ns ? p->options.deadline_ns : SKY_TIME_NEVER;
    sky_time tick = p->flight_count > 0 || p->computing ? now + TICK_NS : SKY_TIME_NEVER;
    return tick < deadline ? tick : deadline;
}

/* ---- report ---- */

static uint64_t useful_bytes(const sky_pacer *p, uint32_t segment) {
    const sky_pacer_segment *s = &p->state[segment];
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < s->held && !s->computed && segment < p->aim; k++)
        bytes += sky__pacer_bytes(p, segment, s->forms[k], 0, k + 1) -
                 sky__pacer_bytes(p, segment, s->forms[k], 0, k);
    return bytes;
}

void sky_pacer_report_get(const sky_pacer *p, sky_pacer_report *out) {
    sky_pacer_report r = {.leading = leading_segments(p),
                          .bytes = p->bytes,
                          .given_up = p->given_up,
                          .hedged = p->hedged,
                          .refined = p->refined,
                          .complete_ns = p->complete_ns};
    double tokens = 0;
    uint64_t useful = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        useful += useful_bytes(p, i);
        if (!sky__pacer_present(p, i) || i >= p->aim)
            continue;
        r.computed += p->state[i].computed;
        r.loaded += !p->state[i].computed;
        r.loss += sky__pacer_held_loss(p, i) * p->segments[i].token_count;
        tokens += p->segments[i].token_count;
    }
    r.loss = tokens > 0 ? r.loss / tokens : 0;
    r.bytes_wasted = p->bytes > useful ? p->bytes - useful : 0;
    r.verdict = r.leading == p->count ? SKY_VERDICT_HIT : SKY_VERDICT_RECOMPUTE;
    *out = r;
}

uint8_t sky_pacer_form(const sky_pacer *p, uint32_t segment, uint32_t slice) {
    bool none = segment >= p->count || slice >= p->options.slices;
    return none || p->state[segment].computed ? SKY_PACER_FORM_NONE
                                              : p->state[segment].forms[slice];
}

bool sky_pacer_is_computed(const sky_pacer *p, uint32_t segment) {
    return segment < p->count && p->state[segment].computed;
}
