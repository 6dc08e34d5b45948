/* Contexts over a link in virtual time. The link serves requests in the order they became ready,
 * one at a time at the trace's rate; a slow answer is ready later and lets others pass. */
#include "lab/stream/experiment.h"

#include <assert.h>
#include <string.h>

#define TICK_NS SKY_MS(4)

static const char *const names[SKY_POLICIES] = {"pacer", "cachegen-written", "cachegen-meant",
                                                "oracle"};

const char *sky_policy_name(sky_policy policy) {
    return (unsigned)policy < SKY_POLICIES ? names[policy] : "unknown";
}

double sky__experiment_rate(const sky_experiment *t, uint32_t s, sky_time at) {
    const sky_trace *trace = &t->traces[s];
    return trace->rates[(uint64_t)(at / trace->step_ns) % trace->count];
}

sky_time sky__experiment_arrival(const sky_experiment *t, sky_time from, double bytes) {
    sky_time step = t->traces[0].step_ns, give_up = from + SKY_SECONDS(600);
    for (sky_time at = from, next; at < give_up; at = next) {
        double rate = sky__experiment_rate(t, 0, at);
        next = (at / step + 1) * step;
        double can = rate * (double)(next - at) * 1e-9;
        if (can >= bytes)
            return at + (sky_time)(bytes / rate * 1e9);
        bytes -= can;
    }
    return give_up;
}

sky_time sky__experiment_wait(const sky_experiment *t, sky_time start, uint32_t segment) {
    sky_prng random;
    sky_prng_init(&random, t->seed + (uint64_t)start * SKY_PACER_SEGMENTS_MAX + segment);
    bool waits = sky_prng_unit(&random) < t->busy_share;
    return waits ? (sky_time)(sky_prng_unit(&random) * (double)t->busy_ns) : 0;
}

/* ---- the planner's world ---- */

typedef struct {
    sky_pace asked;
    sky_time ready_at;
    sky_time usable_at; /* all of it has arrived and is decoded by then; 0: not yet */
    double arrived;
} request;

typedef struct {
    const sky_experiment *experiment;
    sky_time start;
    sky_pacer *pacer;
    request requests[SKY_PACER_FLIGHTS_MAX];
    uint32_t request_count;
    sky_time engine_until; /* 0: idle */
    sky_time decoder_until;
    sky_prng *slow;
    bool over;
} world;

static void experiment_forget(world *w, uint32_t number) {
    for (uint32_t i = 0; i < w->request_count; i++) {
        if (w->requests[i].asked.request != number)
            continue;
        memmove(&w->requests[i], &w->requests[i + 1],
                (w->request_count - i - 1) * sizeof w->requests[0]);
        w->request_count--;
        return;
    }
}

static void experiment_obey(world *w, sky_time now, const sky_pace *pace) {
    switch (pace->kind) {
    case SKY_PACE_GET: {
        sky_time ready = now + w->experiment->delay_ns;
        if (sky_prng_unit(w->slow) < w->experiment->slow_share)
            ready += w->experiment->slow_ns;
        assert(w->request_count < SKY_PACER_FLIGHTS_MAX);
        w->requests[w->request_count++] = (request){.asked = *pace, .ready_at = ready};
        break;
    }
    case SKY_PACE_CANCEL:
        experiment_forget(w, pace->request);
        break;
    case SKY_PACE_COMPUTE:
        w->engine_until = now + sky__experiment_wait(w->experiment, w->start, pace->segment) +
                          w->experiment->segments[pace->segment].compute_ns;
        break;
    case SKY_PACE_END:
        w->over = true;
    }
}

/* One decoder, one after another. Returns when it is done. */
static sky_time experiment_decode(world *w, const sky_pace *asked, sky_time now) {
    sky_time from = w->decoder_until > now ? w->decoder_until : now;
    return w->decoder_until = from +
                              w->experiment->segments[asked->segment].forms[asked->form].decode_ns;
}

/* One tick of one source. */
static void experiment_serve(world *w, uint32_t source, sky_time now) {
    double can = sky__experiment_rate(w->experiment, source, now) * (double)TICK_NS * 1e-9;
    for (uint32_t i = 0; i < w->request_count && can > 0; i++) {
        request *r = &w->requests[i];
        double owed = (double)r->asked.bytes - r->arrived;
        if (r->asked.source != source || r->ready_at > now || owed <= 0)
            continue;
        double got = owed < can ? owed : can;
        r->arrived += got;
        can -= got;
        if (r->arrived >= (double)r->asked.bytes)
            r->usable_at = experiment_decode(w, &r->asked, now + TICK_NS);
    }
}

/* Of the slices that were asked for. */
static uint32_t slices_there(const sky_experiment *t, const request *r) {
    const sky_pace *a = &r->asked;
    if (t->options.window == 0)
        return (uint32_t)(r->arrived / (double)a->bytes * (a->slice_end - a->slice));
    return a->slice == 0 && a->slice_end > 1 &&
           r->arrived >= (double)t->segments[a->segment].lead_bytes[a->form];
}

static void experiment_report(world *w, sky_time now) {
    for (uint32_t i = 0; i < w->request_count; i++) {
        request r = w->requests[i];
        if (r.usable_at != 0 && r.usable_at <= now) {
            sky_pacer_finished(w->pacer, now, r.asked.request, SKY_OK);
            experiment_forget(w, r.asked.request);
            i--;
        } else if (r.arrived > 0) {
            sky_pacer_arrived(w->pacer, now, r.asked.request, (uint64_t)r.arrived,
                              slices_there(w->experiment, &r));
        }
    }
    if (w->engine_until != 0 && w->engine_until <= now) {
        w->engine_until = 0;
        sky_pacer_computed(w->pacer, now, true);
    }
}

static sky_status pacer_run(const sky_experiment *t, sky_time start, sky_link *links,
                            sky_prng *slow, sky_outcome *out) {
    world w = {.experiment = t, .start = start, .slow = slow};
    sky_pacer_options options = t->options;
    options.deadline_ns += options.deadline_ns ? start : 0;
    sky_status status = sky_pacer_create(t->segments, t->segment_count, links, t->source_count,
                                         &options, start, &w.pacer);
    if (status != SKY_OK)
        return status;
    for (sky_time now = start; !w.over; now += TICK_NS) {
        sky_pace pace;
        while (sky_pacer_next(w.pacer, now, &pace))
            experiment_obey(&w, now, &pace);
        for (uint32_t s = 0; s < t->source_count; s++)
            experiment_serve(&w, s, now);
        experiment_report(&w, now + TICK_NS);
    }
    sky_pacer_report_get(w.pacer, &out->report);
    sky_pacer_destroy(w.pacer);
    out->complete_at = out->report.complete_ns;
    out->loss = out->report.loss;
    out->bytes = out->report.bytes;
    return SKY_OK;
}

/* ---- experiments ---- */

static bool experiment_valid(const sky_experiment *t, sky_policy policy) {
    if (t->segment_count == 0 || t->segment_count > SKY_PACER_SEGMENTS_MAX || t->source_count < 1 ||
        t->source_count > SKY_PACER_SOURCES_MAX || t->contexts == 0)
        return false;
    for (uint32_t i = 0; i < t->source_count; i++)
        if (t->traces[i].count == 0 || t->traces[i].step_ns <= 0)
            return false;
    for (uint32_t i = 0; i < t->segment_count; i++)
        if (t->segments[i].form_count == 0 || t->segments[i].token_count == 0)
            return false;
    return policy == SKY_POLICY_PACER || t->options.deadline_ns > 0;
}

/* What contexts leave behind for the next. */
typedef struct {
    sky_link links[SKY_PACER_SOURCES_MAX];
    double baseline_rate;
    sky_prng slow;
} memory;

static sky_status context_run(const sky_experiment *t, sky_policy policy, sky_time start, memory *m,
                              sky_outcome *out) {
    *out = (sky_outcome){0};
    if (policy == SKY_POLICY_PACER)
        return pacer_run(t, start, m->links, &m->slow, out);
    if (policy == SKY_POLICY_ORACLE)
        sky__oracle_run(t, start, out);
    else
        sky__baseline_run(t, policy == SKY_POLICY_CACHEGEN_WRITTEN, start, &m->baseline_rate,
                          &m->slow, out);
    return SKY_OK;
}

static void experiment_count(const sky_experiment *t, sky_time start, const sky_outcome *o,
                             sky_experiment_result *r, uint64_t *bytes, uint64_t *wasted) {
    sky_outcome best = {.complete_at = start};
    sky_time deadline = t->options.deadline_ns ? start + t->options.deadline_ns : SKY_TIME_NEVER;
    if (t->options.deadline_ns)
        sky__oracle_run(t, start, &best);
    r->contexts++;
    r->computed_share += (double)o->report.computed / t->segment_count;
    r->leading_share += (double)o->report.leading / t->segment_count;
    r->given_up += o->report.given_up;
    r->hedged += o->report.hedged;
    *bytes += o->bytes;
    *wasted += o->report.bytes_wasted;
    if (o->complete_at > deadline || o->complete_at == SKY_TIME_NEVER) {
        r->late++;
        r->impossible += best.complete_at == SKY_TIME_NEVER;
        return;
    }
    r->loss += o->loss;
    r->loss_oracle += best.loss;
    r->complete_ms += (double)(o->complete_at - start) * 1e-6;
}

sky_status sky_experiment_run(const sky_experiment *experiment, sky_policy policy,
                              sky_experiment_result *out) {
    if (!experiment_valid(experiment, policy))
        return SKY_E_PARAM;
    memory m = {0};
    sky_experiment_result r = {0};
    uint64_t bytes = 0, wasted = 0;
    sky_prng_init(&m.slow, experiment->seed);
    for (uint32_t i = 0; i < experiment->source_count; i++)
        sky_link_init(&m.links[i], experiment->unknown ? 0 : experiment->traces[i].rates[0] + 1,
                      experiment->unknown ? 0 : experiment->delay_ns);
    m.baseline_rate = experiment->traces[0].rates[0] + 1;
    sky_time start = 0;
    for (uint32_t i = 0; i < experiment->contexts; i++) {
        sky_outcome outcome;
        sky_status status = context_run(experiment, policy, start, &m, &outcome);
        if (status != SKY_OK)
            return status;
        experiment_count(experiment, start, &outcome, &r, &bytes, &wasted);
        sky_time end = experiment->options.deadline_ns ? start + experiment->options.deadline_ns
                                                       : outcome.complete_at;
        start = (end > start ? end : start) + experiment->pause_ns + TICK_NS;
    }
    uint32_t in_time = r.contexts - r.late;
    r.computed_share /= r.contexts;
    r.leading_share /= r.contexts;
    r.wasted_share = bytes > 0 ? (double)wasted / (double)bytes : 0;
    r.loss /= in_time ? in_time : 1;
    r.loss_oracle /= in_time ? in_time : 1;
    r.complete_ms /= in_time ? in_time : 1;
    *out = r;
    return SKY_OK;
}
