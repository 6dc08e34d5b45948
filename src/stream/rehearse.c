/* Events in virtual time: a request crosses the link after those before it, the engine computes one
 * run after another, and the planner is asked at each event and when it wants to be woken. */
#include "stream/rehearse.h"

#include <math.h>

#define TIME_MOST     1e18 /* ns: thirty years */
#define SEGMENTS_MOST 256  /* longer ones stand for more: enough to see where they meet */
#define LOOKS_MOST    2000 /* of the planner at what is under way: all that it wants, up to 20 s */

typedef struct {
    sky_pacer *pacer;
    double bytes_per_ns, delay_ns, segment_ns;
    double look_ns; /* no sooner than this after the last event the planner looks again */
    struct {
        uint32_t request;
        uint64_t bytes;
        double asked_at;
    } queue[SKY_PACER_FLIGHTS_MAX]; /* in the order of asking */
    uint32_t queued;
    double link_free_at;   /* the last byte of what came */
    double engine_done_at; /* INFINITY: it does nothing */
} rehearsal;

static double first_arrival(const rehearsal *r) {
    if (r->queued == 0)
        return INFINITY;
    double from = fmax(r->link_free_at, r->queue[0].asked_at + r->delay_ns);
    return from + (double)r->queue[0].bytes / r->bytes_per_ns;
}

static void drop_request(rehearsal *r, uint32_t request) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->queued; i++)
        if (r->queue[i].request != request)
            r->queue[kept++] = r->queue[i];
    r->queued = kept;
}

/* False: it is over. */
static bool obey_all(rehearsal *r, double now) {
    sky_pace pace;
    while (sky_pacer_next(r->pacer, (sky_time)now, &pace)) {
        if (pace.kind == SKY_PACE_END)
            return false;
        if (pace.kind == SKY_PACE_CANCEL)
            drop_request(r, pace.request);
        else if (pace.kind == SKY_PACE_COMPUTE)
            r->engine_done_at = now + r->segment_ns * (pace.segment_end - pace.segment);
        else {
            r->queue[r->queued].request = pace.request;
            r->queue[r->queued].bytes = pace.bytes;
            r->queue[r->queued++].asked_at = now;
        }
    }
    return true;
}

/* Until it is over, from time 1 on: 0 means "never" to the planner. Returns when. */
static double run_events(rehearsal *r) {
    double now = 1;
    while (obey_all(r, now)) {
        double arrival = first_arrival(r), wake = (double)sky_pacer_wake(r->pacer, (sky_time)now);
        double next = fmin(fmin(arrival, r->engine_done_at), fmax(wake, now + r->look_ns));
        now = ceil(fmax(next, now + 1));
        if (now > TIME_MOST)
            return INFINITY;
        if (now >= arrival) {
            uint32_t request = r->queue[0].request;
            r->link_free_at = arrival;
            drop_request(r, request);
            sky_pacer_finished(r->pacer, (sky_time)now, request, SKY_OK);
        }
        if (now >= r->engine_done_at) {
            r->engine_done_at = INFINITY;
            sky_pacer_computed(r->pacer, (sky_time)now, true);
        }
    }
    return now - 1;
}

/* By the link alone. */
static double load_ns(const sky__rehearsal *q) {
    return q->delay_ns + q->bytes / q->bytes_per_s * 1e9;
}

static bool has_numbers(const sky__rehearsal *q, double bytes) {
    return q->tokens >= 1 && bytes >= 1 && load_ns(q) < TIME_MOST && q->token_ns >= 1 &&
           q->token_ns < UINT32_MAX && q->token_ns * q->tokens < TIME_MOST;
}

sky_status sky__rehearse(const sky__rehearsal *q, sky__rehearsed *out) {
    double blocks = fmin(ceil(q->tokens / SKY_BLOCK_TOKENS_DEFAULT), SEGMENTS_MOST);
    double tokens = q->tokens / blocks, bytes = q->bytes / blocks;
    sky_segment segments[SEGMENTS_MOST];
    if (!has_numbers(q, bytes))
        return SKY_E_PARAM;
    uint32_t count = (uint32_t)blocks, whole = (uint32_t)fmin(tokens, SKY_BLOCK_TOKENS_MAX);
    sky__engine_belief engine = sky__engine_believe((uint32_t)q->token_ns, 0, whole, count);
    for (uint32_t i = 0; i < count; i++)
        segments[i] = (sky_segment){.token_count = whole,
                                    .form_count = 1,
                                    .forms = {{.bytes = (uint64_t)bytes}},
                                    .compute_ns = engine.block_ns};
    const sky_pacer_options options = sky__pacer_options_of_load(&engine, whole);
    sky_link link;
    sky_link_init(&link, 0, 0);
    rehearsal r = {.bytes_per_ns = q->bytes_per_s / 1e9,
                   .delay_ns = q->delay_ns,
                   .segment_ns = q->token_ns * tokens,
                   .look_ns = fmin(load_ns(q), q->token_ns * q->tokens) / LOOKS_MOST,
                   .engine_done_at = INFINITY};
    sky_status status = sky_pacer_create(segments, count, &link, 1, &options, 1, &r.pacer);
    if (status != SKY_OK)
        return status;
    sky_pacer_report report;
    double end_ns = run_events(&r);
    sky_pacer_report_get(r.pacer, &report);
    *out = (sky__rehearsed){end_ns, report.computed * tokens};
    sky_pacer_destroy(r.pacer);
    return SKY_OK;
}
