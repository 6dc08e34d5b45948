/* Proves: computing at the head is never worse than computing anywhere else; whatever sources and
 * engine do, the planner asks only for what can be had, computes only on top of what is there, ends
 * once, and is right about what is there; what arrived of a request that is given up is kept;
 * another source is asked for what one, or the engine, is slow to give; that of a link that nothing
 * is known of the least is asked for first, and better when it is known; and that with a window a
 * shorter prefix is made for when all of it cannot come, and then only. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "stream/state.h"

enum { N = 8 };

static void fill(sky_segment *segments, uint32_t count, uint64_t bytes, sky_time compute_ns) {
    for (uint32_t i = 0; i < count; i++) {
        segments[i] = (sky_segment){.token_count = 128, .form_count = 3, .compute_ns = compute_ns};
        for (uint32_t f = 0; f < 3; f++)
            segments[i].forms[f] = (sky_form){bytes >> f, 0.001 * (1 << 2 * f) - 0.001, 0};
    }
}

/* ---- text at the head ---- */

/* When all is there, if the segments of `text` are computed and the others loaded in `order`. */
static double finish(const double *compute, double load, uint32_t text, const uint32_t *order,
                     uint32_t order_count) {
    double there[N], at = 0, engine = 0, ready = 0;
    for (uint32_t k = 0; k < order_count; k++)
        there[order[k]] = at += load;
    for (uint32_t i = 0; i < N; i++) {
        if (text & 1u << i)
            there[i] = engine = (engine > ready ? engine : ready) + compute[i];
        ready = there[i] > ready ? there[i] : ready;
    }
    return ready;
}

/* Against the kindest order for any set: what the engine needs first comes first. */
static void computing_at_the_head_is_never_worse(void **state) {
    (void)state;
    sky_prng random;
    sky_prng_init(&random, 1);
    for (int round = 0; round < 200; round++) {
        double compute[N], load = sky_prng_unit(&random) * 3, last = 0;
        for (uint32_t i = 0; i < N; i++) /* attention makes later tokens dearer */
            compute[i] = last += sky_prng_unit(&random);
        for (uint32_t text = 0; text < 1u << N; text++) {
            uint32_t order[N], backwards[N], loads = 0, head = 0;
            for (uint32_t i = 0; i < N; i++) {
                if (text & 1u << i)
                    head = head << 1 | 1;
                else
                    order[loads++] = i;
            }
            for (uint32_t k = 0; k < loads; k++)
                backwards[k] = N - 1 - k;
            double any = finish(compute, load, text, order, loads);
            assert_true(finish(compute, load, head, backwards, loads) <= any + 1e-9);
        }
    }
}

/* ---- one event after another ---- */

static sky_pacer *begin_over(double rate, const sky_segment *segments, uint32_t count,
                             sky_link *links, uint32_t link_count, sky_pacer_options options) {
    sky_pacer *p;
    for (uint32_t i = 0; i < link_count; i++)
        sky_link_init(&links[i], rate, SKY_MS(1));
    assert_int_equal(
        sky_pacer_create(segments, count, links, link_count, &options, SKY_MS(1000), &p), SKY_OK);
    return p;
}

static sky_pacer *begin(const sky_segment *segments, uint32_t count, sky_link *links,
                        uint32_t link_count, sky_pacer_options options) {
    return begin_over(1e6, segments, count, links, link_count, options);
}

static sky_pace expect(sky_pacer *p, sky_time now, sky_pace_kind kind) {
    sky_pace pace = {0};
    assert_true(sky_pacer_next(p, now, &pace));
    assert_int_equal(pace.kind, kind);
    return pace;
}

static void nothing_to_do(sky_pacer *p, sky_time now) {
    sky_pace pace;
    assert_false(sky_pacer_next(p, now, &pace));
}

static void finish_pacer(sky_pacer *p, sky_pacer_report *report) {
    sky_pacer_report_get(p, report);
    sky_pacer_destroy(p);
}

static void a_dead_link_ends_at_the_deadline(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    sky_pacer_report r;
    fill(segments, N, 10000, 0);
    sky_pacer *p = begin(segments, N, &link, 1,
                         (sky_pacer_options){.deadline_ns = SKY_MS(1100), .flights_max = 2});
    assert_int_equal(expect(p, SKY_MS(1000), SKY_PACE_GET).segment, 0); /* no engine: in front */
    assert_int_equal(expect(p, SKY_MS(1000), SKY_PACE_GET).segment, 1);
    nothing_to_do(p, SKY_MS(1000));
    assert_true(sky_pacer_wake(p, SKY_MS(1099)) == SKY_MS(1100));
    expect(p, SKY_MS(1100), SKY_PACE_CANCEL);
    expect(p, SKY_MS(1100), SKY_PACE_CANCEL);
    expect(p, SKY_MS(1100), SKY_PACE_END);
    nothing_to_do(p, SKY_MS(1101));
    assert_true(sky_pacer_wake(p, SKY_MS(1101)) == SKY_TIME_NEVER);
    sky_pacer_finished(p, SKY_MS(1102), 1, SKY_OK); /* late bytes change nothing */
    finish_pacer(p, &r);
    assert_int_equal(r.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(r.leading, 0);
    assert_true(r.complete_ns == SKY_TIME_NEVER);
}

/* What is there at the deadline is a prefix when nobody computes. */
static void a_deadline_hands_over_the_leading_part(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    sky_pacer_report r;
    fill(segments, N, 40000, 0);
    sky_pacer *p = begin(segments, N, &link, 1,
                         (sky_pacer_options){.deadline_ns = SKY_MS(1100), .flights_max = 1});
    for (uint32_t i = 0; i < 3; i++) {
        sky_pace got = expect(p, SKY_MS(1000 + 10 * i), SKY_PACE_GET);
        sky_pacer_finished(p, SKY_MS(1010 + 10 * i), got.request, SKY_OK);
    }
    sky_pace pace;
    while (sky_pacer_next(p, SKY_MS(1100), &pace)) {
    }
    assert_int_equal(pace.kind, SKY_PACE_END);
    finish_pacer(p, &r);
    assert_int_equal(r.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(r.leading, 3);
    assert_int_equal(r.loaded, 3);
}

static void a_form_that_is_gone_is_replaced_by_another(void **state) {
    (void)state;
    sky_segment segments[1];
    sky_link link;
    sky_pacer_report r;
    fill(segments, 1, 1000, 0);
    sky_pacer *p = begin(segments, 1, &link, 1, (sky_pacer_options){0});
    sky_pace first = expect(p, SKY_MS(1000), SKY_PACE_GET);
    assert_int_equal(first.form, 2); /* no deadline: the soonest */
    sky_pacer_finished(p, SKY_MS(1001), first.request, SKY_MISS);
    sky_pace second = expect(p, SKY_MS(1001), SKY_PACE_GET);
    assert_int_equal(second.form, 1);
    sky_pacer_finished(p, SKY_MS(1002), second.request, SKY_E_CORRUPT);
    sky_pace third = expect(p, SKY_MS(1002), SKY_PACE_GET);
    assert_int_equal(third.form, 0);
    sky_pacer_finished(p, SKY_MS(1003), third.request, SKY_OK);
    expect(p, SKY_MS(1003), SKY_PACE_END);
    assert_int_equal(sky_pacer_form(p, 0, 0), 0);
    finish_pacer(p, &r);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
}

static void what_no_source_has_is_computed_or_missing(void **state) {
    (void)state;
    for (int engine = 0; engine < 2; engine++) {
        sky_segment segments[2];
        sky_link link;
        sky_pacer_report r;
        fill(segments, 2, 1000, engine ? SKY_MS(100) : 0);
        sky_pacer *p = begin(segments, 2, &link, 1, (sky_pacer_options){0});
        sky_pace pace;
        sky_time now = SKY_MS(1000);
        for (; sky_pacer_next(p, now, &pace) && pace.kind != SKY_PACE_END; now += SKY_MS(1)) {
            if (pace.kind == SKY_PACE_GET) /* segment 0 is nowhere */
                sky_pacer_finished(p, now, pace.request, pace.segment ? SKY_OK : SKY_MISS);
            else if (pace.kind == SKY_PACE_COMPUTE)
                sky_pacer_computed(p, now += SKY_MS(100), true);
        }
        assert_int_equal(pace.kind, SKY_PACE_END);
        assert_int_equal(sky_pacer_is_computed(p, 0), engine);
        finish_pacer(p, &r);
        assert_int_equal(r.verdict, engine ? SKY_VERDICT_HIT : SKY_VERDICT_RECOMPUTE);
        assert_int_equal(r.leading, engine ? 2 : 0);
    }
}

/* The link stalls with half of a large form here: the other half is asked for in the smallest. */
static void what_arrived_of_a_request_given_up_is_kept(void **state) {
    (void)state;
    sky_segment segments[1];
    sky_link link;
    sky_pacer_report r;
    fill(segments, 1, 80000, 0);
    sky_pacer *p = begin(segments, 1, &link, 1,
                         (sky_pacer_options){.deadline_ns = SKY_MS(1200), .slices = 8});
    sky_pace large = expect(p, SKY_MS(1000), SKY_PACE_GET);
    assert_int_equal(large.form, 0);
    sky_pacer_arrived(p, SKY_MS(1030), large.request, 45000, 4);
    nothing_to_do(p, SKY_MS(1030));
    sky_time now = SKY_MS(1040);
    sky_pace pace;
    for (; !sky_pacer_next(p, now, &pace); now += SKY_MS(10))
        assert_true(now < SKY_MS(1200));
    assert_int_equal(pace.kind, SKY_PACE_CANCEL);
    assert_int_equal(pace.request, large.request);
    sky_pace rest = expect(p, now, SKY_PACE_GET);
    assert_int_equal(rest.slice, 4);
    assert_true(rest.form > 0);
    sky_pacer_finished(p, now + SKY_MS(5), rest.request, SKY_OK);
    for (uint32_t k = 0; k < 8; k++)
        assert_int_equal(sky_pacer_form(p, 0, k), k < 4 ? 0 : rest.form);
    finish_pacer(p, &r);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_int_equal(r.given_up, 1);
    assert_true(r.bytes_wasted > 0 && r.bytes_wasted < 10000);
}

/* All fit at the lowest level, and a better form of two: not of all, but of those. */
static void time_that_is_left_makes_some_better(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    sky_pacer_report r;
    fill(segments, N, 40000, 0);
    sky_pacer *p = begin(segments, N, &link, 1,
                         (sky_pacer_options){.deadline_ns = SKY_MS(1150), .flights_max = 1});
    sky_time now = SKY_MS(1000);
    for (sky_pace pace = {0}; pace.kind != SKY_PACE_END;) {
        if (!sky_pacer_next(p, now, &pace)) {
            now = sky_pacer_wake(p, now);
        } else if (pace.kind == SKY_PACE_GET) {
            now += (sky_time)pace.bytes * 1000; /* at 1 MB/s */
            sky_pacer_finished(p, now, pace.request, SKY_OK);
        }
    }
    finish_pacer(p, &r);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_int_equal(r.refined, 2);
    assert_true(now <= SKY_MS(1150));
}

static void a_silent_source_is_hedged(void **state) {
    (void)state;
    sky_segment segments[1];
    sky_link links[2];
    sky_pacer_report r;
    fill(segments, 1, 1000, 0);
    sky_pacer *p = begin(segments, 1, links, 2, (sky_pacer_options){0});
    sky_pace first = expect(p, SKY_MS(1000), SKY_PACE_GET);
    nothing_to_do(p, SKY_MS(1005));
    sky_pace second = expect(p, SKY_MS(1050), SKY_PACE_GET);
    assert_int_equal(second.segment, first.segment);
    assert_int_equal(second.form, first.form);
    assert_true(second.source != first.source);
    nothing_to_do(p, SKY_MS(1060)); /* once */
    sky_pacer_finished(p, SKY_MS(1060), second.request, SKY_OK);
    assert_int_equal(expect(p, SKY_MS(1060), SKY_PACE_CANCEL).request, first.request);
    expect(p, SKY_MS(1060), SKY_PACE_END);
    finish_pacer(p, &r);
    assert_int_equal(r.hedged, 1);
}

/* The engine alone is as fast as text, however silent the link. */
static void a_silent_link_costs_no_more_than_text(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    sky_pacer_report r;
    fill(segments, N, 100000, SKY_MS(20));
    sky_pacer *p = begin(segments, N, &link, 1, (sky_pacer_options){0});
    sky_time now = SKY_MS(1000), engine = 0;
    bool over = false;
    for (; !over; now += SKY_MS(1)) {
        sky_pace pace;
        while (sky_pacer_next(p, now, &pace)) {
            if (pace.kind == SKY_PACE_COMPUTE)
                engine = now + SKY_MS(20);
            over |= pace.kind == SKY_PACE_END;
        }
        if (engine == now + SKY_MS(1))
            sky_pacer_computed(p, now + SKY_MS(1), true);
    }
    finish_pacer(p, &r);
    assert_int_equal(r.computed, N);
    assert_true(r.complete_ns <= SKY_MS(1000 + 20 * N));
}

/* An engine that is late is expected to be late as long again; when that is too long, a source is
 * asked, though nothing but the clock says so; and the next context knows of it. */
static void an_engine_that_keeps_waiting_is_not_waited_for(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    sky_pacer_report r;
    fill(segments, N, 200000, SKY_MS(50));
    sky_pacer *p = begin(segments, N, &link, 1, (sky_pacer_options){.deadline_ns = SKY_MS(2000)});
    sky_time now = SKY_MS(1000), asked_at = 0;
    sky_pace pace = {0};
    for (; pace.kind != SKY_PACE_END; now = sky_pacer_wake(p, now))
        while (sky_pacer_next(p, now, &pace)) {
            if (pace.kind != SKY_PACE_GET)
                continue;
            asked_at = pace.segment == 0 ? now : asked_at;
            sky_pacer_finished(p, now, pace.request, SKY_OK);
        }
    assert_true(asked_at > SKY_MS(1100) && asked_at < SKY_MS(1500));
    finish_pacer(p, &r);
    assert_int_equal(r.leading, N);
    assert_true(link.engine_factor > 1.1);
}

/* ---- a window ---- */

/* Two parts of 10,000 bytes in the best form. */
static void fill_parts(sky_segment *segments, uint32_t count) {
    fill(segments, count, 20000, 0);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t f = 0; f < 3; f++)
            segments[i].lead_bytes[f] = segments[i].rest_bytes[f] = 10000u >> f;
}

typedef struct {
    sky_segment segments[N];
    sky_link link;
    sky_pacer *p;
    sky_time now;
    sky_pace asked; /* request 0: nothing */
    uint64_t bytes; /* that were asked for */
} windowed;

static void begin_windowed(windowed *w, uint32_t window, sky_time deadline) {
    fill_parts(w->segments, N);
    w->p = begin(
        w->segments, N, &w->link, 1,
        (sky_pacer_options){
            .deadline_ns = deadline, .window = window, .flights_max = 1, .no_refining = true});
    w->now = SKY_MS(1000);
    w->asked = (sky_pace){0};
    w->bytes = 0;
}

/* Answer `most` requests, one after the other, at so many bytes a second; 0 of them: until the aim
 * is lower. False: over. */
static bool answer(windowed *w, double rate, uint32_t most) {
    uint32_t aim = w->p->aim, answered = 0;
    sky_time since = w->now;
    for (sky_pace pace; w->now < SKY_MS(5000); w->now += SKY_MS(1)) {
        if (w->asked.request != 0 &&
            (double)(w->now - since) * 1e-9 * rate >= (double)w->asked.bytes) {
            sky_pacer_finished(w->p, w->now, w->asked.request, SKY_OK);
            w->asked.request = 0;
            answered++;
        }
        if (most > 0 ? answered == most : w->p->aim < aim)
            return true;
        while (sky_pacer_next(w->p, w->now, &pace)) {
            if (pace.kind == SKY_PACE_END)
                return false;
            assert_true(pace.kind == SKY_PACE_GET || pace.request == w->asked.request);
            w->asked = pace.kind == SKY_PACE_GET ? pace : (sky_pace){0};
            w->bytes += w->asked.bytes;
            since = w->now;
        }
    }
    fail_msg("it does not end");
    return false;
}

static void with_time_a_window_takes_what_it_needs(void **state) {
    (void)state;
    static windowed w;
    begin_windowed(&w, 2, SKY_MS(2000)); /* 100,000 bytes; 1,000,000 fit */
    assert_false(answer(&w, 1e6, UINT32_MAX));
    assert_int_equal(w.bytes, (N - 2) * 10000 + 2 * 20000);
    sky_pacer_report r;
    finish_pacer(w.p, &r);
    assert_int_equal(r.leading, N);
    assert_int_equal(r.bytes_wasted, 0);
}

/* At a fiftieth of the rate not all can come: the rest of what is there already does. */
static void a_slower_link_makes_for_a_shorter_prefix(void **state) {
    (void)state;
    static windowed w;
    begin_windowed(&w, 1, SKY_MS(1600));
    assert_true(answer(&w, 1e6, 5));
    assert_false(answer(&w, 2e4, UINT32_MAX));
    assert_true(w.now <= SKY_MS(1600));
    sky_pacer_report r;
    finish_pacer(w.p, &r);
    assert_in_range(r.leading, 1, N - 1);
    assert_int_equal(r.verdict, SKY_VERDICT_RECOMPUTE);
    assert_true(r.complete_ns == SKY_TIME_NEVER);
}

/* ... and all of it again when the link has recovered. */
static void a_link_that_recovers_brings_all(void **state) {
    (void)state;
    static windowed w;
    begin_windowed(&w, 1, SKY_MS(1600));
    assert_true(answer(&w, 1e6, 5));
    assert_true(answer(&w, 0, 0));
    assert_false(answer(&w, 4e6, UINT32_MAX));
    sky_pacer_report r;
    finish_pacer(w.p, &r);
    assert_int_equal(r.leading, N);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
}

static void what_is_gone_ends_the_prefix_before_it(void **state) {
    (void)state;
    static windowed w;
    begin_windowed(&w, 2, SKY_MS(9000));
    for (sky_pace pace = {0}; pace.kind != SKY_PACE_END; w.now += SKY_MS(1))
        while (sky_pacer_next(w.p, w.now, &pace) && pace.kind == SKY_PACE_GET)
            sky_pacer_finished(w.p, w.now, pace.request, pace.segment == 5 ? SKY_MISS : SKY_OK);
    sky_pacer_report r;
    finish_pacer(w.p, &r);
    assert_int_equal(r.leading, 5);
}

/* ---- a link that nothing is known of ---- */

/* A tenth of a second to and fro, then 10 MB/s: the last of six requests comes 5 ms behind the
 * first. Time is long enough for the best form of all. */
static void the_least_is_asked_for_until_the_link_is_known(void **state) {
    (void)state;
    enum { FIRST = 6 };
    sky_segment segments[N];
    sky_link link;
    sky_pacer_report r;
    fill(segments, N, 40000, 0);
    sky_pacer *p = begin_over(0, segments, N, &link, 1,
                              (sky_pacer_options){.deadline_ns = SKY_MS(3000)});
    uint32_t requests[FIRST], more = 0;
    for (uint32_t i = 0; i < FIRST; i++) {
        sky_pace asked = expect(p, SKY_MS(1000), SKY_PACE_GET);
        assert_int_equal(asked.form, 2);
        requests[i] = asked.request;
    }
    nothing_to_do(p, SKY_MS(1000));
    nothing_to_do(p, SKY_MS(1090)); /* nobody knows yet what would be late */
    for (uint32_t i = 0; i < FIRST; i++) {
        sky_pace pace;
        sky_pacer_finished(p, SKY_MS(1101 + i), requests[i], SKY_OK);
        while (sky_pacer_next(p, SKY_MS(1101 + i), &pace))
            more += pace.kind == SKY_PACE_GET && pace.segment >= FIRST;
    }
    assert_int_equal(more, N - FIRST);
    assert_true(link.rate > 0.5e6 && link.rate < 0.6e6); /* six in a round trip, so far */
    for (uint32_t request = requests[FIRST - 1] + 1; request <= p->last_request; request++)
        sky_pacer_finished(p, SKY_MS(1204), request, SKY_OK);
    for (sky_pace pace; sky_pacer_next(p, SKY_MS(3000), &pace);) {
    }
    finish_pacer(p, &r);
    assert_int_equal(r.leading, N);
    assert_true(r.refined > 0);
}

/* Bytes come as fast as they are taken away; the second answer is no faster than the first, and the
 * third shows that it came alone. */
static void a_link_without_delay_is_known_soon(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    fill(segments, N, 40000, 0);
    sky_pacer *p = begin_over(0, segments, N, &link, 1,
                              (sky_pacer_options){.deadline_ns = SKY_MS(3000)});
    for (uint32_t i = 0; i < 3; i++) {
        for (sky_pace pace; sky_pacer_next(p, SKY_MS(1000 + 10 * i), &pace);) {
        }
        assert_true(p->sources[0].starting);
        sky_pacer_finished(p, SKY_MS(1010 + 10 * i), i + 1, SKY_OK);
    }
    assert_false(p->sources[0].starting);
    assert_true(link.rate > 0.99e6 && link.rate < 1.01e6 && link.delay_ns < SKY_MS(1));
    sky_pacer_destroy(p);
}

/* Of two sources the one that nobody knows is tried, but not waited for. */
static void an_unknown_source_is_tried_beside_another(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link links[2];
    sky_pacer *p;
    fill(segments, N, 40000, 0);
    sky_link_init(&links[0], 1e6, SKY_MS(1));
    sky_link_init(&links[1], 0, 0);
    sky_pacer_options options = {.deadline_ns = SKY_MS(1500), .no_refining = true};
    assert_int_equal(sky_pacer_create(segments, N, links, 2, &options, SKY_MS(1000), &p), SKY_OK);
    uint32_t asked[2] = {0}, hedged = 0;
    bool over = false;
    for (sky_time now = SKY_MS(1000); !over; now += SKY_MS(10)) {
        for (sky_pace pace; sky_pacer_next(p, now, &pace) && !over;) {
            over = pace.kind == SKY_PACE_END;
            if (pace.kind != SKY_PACE_GET)
                continue;
            asked[pace.source]++;
            hedged += pace.source == 0 && pace.segment < 2;
            if (pace.source == 0) /* the other one is dead */
                sky_pacer_finished(p, now, pace.request, SKY_OK);
        }
    }
    sky_pacer_report r;
    finish_pacer(p, &r);
    assert_int_equal(asked[1], 2);
    assert_int_equal(hedged, 2);
    assert_int_equal(r.leading, N);
    assert_true(links[1].rate == 0 && r.complete_ns <= SKY_MS(1200));
}

/* Though an engine computes, and would always be sooner than what never brought anything. */
static void an_unknown_source_is_tried_beside_an_engine(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    for (int timed = 0; timed < 2; timed++) {
        fill(segments, N, 40000, SKY_MS(50));
        sky_pacer *p = begin_over(0, segments, N, &link, 1,
                                  (sky_pacer_options){.deadline_ns = timed ? SKY_MS(3000) : 0});
        sky_time now = SKY_MS(1000), engine = 0;
        for (sky_pace pace = {0}; pace.kind != SKY_PACE_END; now += SKY_MS(1)) {
            while (sky_pacer_next(p, now, &pace) && pace.kind != SKY_PACE_END) {
                if (pace.kind == SKY_PACE_COMPUTE)
                    engine = now + SKY_MS(50);
                else if (pace.kind == SKY_PACE_GET)
                    sky_pacer_finished(p, now + SKY_MS(1), pace.request, SKY_OK);
            }
            if (engine != 0 && now >= engine) {
                engine = 0;
                sky_pacer_computed(p, now, true);
            }
        }
        sky_pacer_report r;
        finish_pacer(p, &r);
        assert_int_equal(r.leading, N);
        assert_true(r.computed <= 1 && r.complete_ns < SKY_MS(1060));
    }
}

/* Two bursts of answers, the second twice as large as the first: the first answers of a burst are
 * no word of what the link carries. */
static void answers_that_come_together_are_judged_together(void **state) {
    (void)state;
    enum { MANY = 32 };
    sky_segment segments[MANY];
    sky_link link;
    fill(segments, MANY, 40000, 0);
    sky_pacer *p = begin_over(0, segments, MANY, &link, 1,
                              (sky_pacer_options){.deadline_ns = SKY_MS(3000)});
    uint32_t open[MANY], count = 0;
    for (sky_time now = SKY_MS(1000); now <= SKY_MS(1200); now += SKY_MS(100)) {
        for (uint32_t i = 0; i < count; i++)
            sky_pacer_finished(p, now, open[i], SKY_OK);
        assert_true(p->sources[0].starting);
        count = 0;
        for (sky_pace pace; sky_pacer_next(p, now, &pace);)
            if (pace.kind == SKY_PACE_GET)
                open[count++] = pace.request;
    }
    assert_true(count > 8 && link.rate > 1.1e6);
    sky_pacer_destroy(p);
}

/* One answer is no measure: the next context goes on asking for more than was shown. */
static void what_showed_little_is_found_out_later(void **state) {
    (void)state;
    sky_segment segments[N];
    sky_link link;
    fill(segments, N, 40000, 0);
    sky_pacer_options options = {.deadline_ns = SKY_MS(1300), .no_refining = true};
    sky_pacer *p = begin_over(0, segments, 1, &link, 1, options);
    sky_pacer_finished(p, SKY_MS(1100), expect(p, SKY_MS(1000), SKY_PACE_GET).request, SKY_OK);
    expect(p, SKY_MS(1100), SKY_PACE_END);
    sky_pacer_destroy(p);
    assert_true(link.unsettled && link.rate > 0.09e6 && link.rate < 0.11e6);

    assert_int_equal(sky_pacer_create(segments, N, &link, 1, &options, SKY_MS(1200), &p), SKY_OK);
    assert_true(p->sources[0].starting);
    sky_pacer_destroy(p);
}

static void refuses_what_is_no_plan(void **state) {
    (void)state;
    sky_segment segments[2];
    sky_link link;
    sky_pacer *p;
    sky_link_init(&link, 1e6, 0);
    fill(segments, 2, 1000, 0);
    assert_int_equal(sky_pacer_create(segments, 0, &link, 1, NULL, 0, &p), SKY_E_PARAM);
    assert_int_equal(sky_pacer_create(segments, 2, &link, 0, NULL, 0, &p), SKY_E_PARAM);
    sky_pacer_options options = {.slices = SKY_PACER_SLICES_MAX + 1};
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, &options, 0, &p), SKY_E_PARAM);
    segments[1].forms[1].bytes = 5000; /* more than the better one */
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, NULL, 0, &p), SKY_E_PARAM);
    fill(segments, 2, 1000, 0);
    segments[0].form_count = 0; /* neither forms nor text */
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, NULL, 0, &p), SKY_E_PARAM);
    options = (sky_pacer_options){.window = 1, .slices = 3};
    fill_parts(segments, 2);
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, &options, 0, &p), SKY_E_PARAM);
    options.slices = 0;
    segments[1].lead_bytes[2] = 0;
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, &options, 0, &p), SKY_E_PARAM);
    fill_parts(segments, 2);
    segments[0].compute_ns = 1;
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, &options, 0, &p), SKY_E_PARAM);
    fill(segments, 2, 1000, 0);
    link.rate = NAN;
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, NULL, 0, &p), SKY_E_PARAM);
    link.rate = -1;
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, NULL, 0, &p), SKY_E_PARAM);
    sky_pacer_destroy(NULL);
}

/* ---- anything may happen ---- */

typedef struct {
    sky_prng random;
    sky_segment segments[N];
    sky_link links[2];
    sky_pacer *p;
    sky_pace open[SKY_PACER_FLIGHTS_MAX];
    uint32_t open_count, source_count;
    bool computing, engine;
    uint32_t ends;
    uint32_t window;
} chaos;

static uint32_t below(chaos *c, uint32_t bound) {
    return (uint32_t)sky_prng_below(&c->random, bound);
}

static void close_request(chaos *c, uint32_t i) {
    c->open[i] = c->open[--c->open_count];
}

static void obey(chaos *c, const sky_pace *pace) {
    switch (pace->kind) {
    case SKY_PACE_GET:
        assert_true(pace->segment < N && pace->form < 3 && pace->source < c->source_count);
        assert_true(c->open_count < SKY_PACER_FLIGHTS_MAX && pace->bytes > 0);
        assert_false(c->p->state[pace->segment].gone[pace->source] & 1u << pace->form);
        for (uint32_t i = 0; i < c->open_count; i++)
            assert_true(c->open[i].segment != pace->segment || c->open[i].source != pace->source);
        c->open[c->open_count++] = *pace;
        break;
    case SKY_PACE_CANCEL:
        for (uint32_t i = 0; i < c->open_count; i++)
            if (c->open[i].request == pace->request) {
                close_request(c, i);
                return;
            }
        fail_msg("a request is given up that is not under way");
        break;
    case SKY_PACE_COMPUTE:
        assert_true(c->engine && !c->computing);
        for (uint32_t i = 0; i < pace->segment; i++)
            assert_true(c->p->options.engine_alone ? c->p->state[i].computed
                                                   : sky__pacer_present(c->p, i));
        c->computing = true;
        break;
    case SKY_PACE_END:
        c->ends++;
    }
}

static void something_happens(chaos *c, sky_time now) {
    uint32_t i = c->open_count ? below(c, c->open_count) : 0;
    uint32_t what = below(c, 8);
    if (c->computing && what == 0) {
        c->computing = false;
        sky_pacer_computed(c->p, now, below(c, 20) > 0);
    } else if (c->open_count && what < 3) {
        uint32_t request = c->open[i].request;
        close_request(c, i);
        sky_pacer_finished(c->p, now, request, below(c, 4) ? SKY_OK : SKY_MISS);
    } else if (c->open_count && what < 6) {
        sky_pacer_arrived(c->p, now, c->open[i].request, below(c, 200000), below(c, 12));
    } else if (what == 6) {
        sky_pacer_arrived(c->p, now, 1 + below(c, 40), below(c, 9), 1); /* maybe an old one */
    }
}

/* Segments of the longest prefix that is there, looked at one by one. */
static uint32_t leading_of(const chaos *c) {
    uint32_t leading = 0;
    for (uint32_t n = 1; n <= N; n++) {
        bool there = true;
        for (uint32_t i = 0; i < n; i++) {
            const sky_pacer_segment *s = &c->p->state[i];
            uint32_t needed = c->window > 0 && i + c->window < n ? 1 : c->p->options.slices;
            there = there && (s->computed || s->held >= needed);
        }
        leading = there ? n : leading;
    }
    return leading;
}

static void whatever_happens_it_ends_and_tells_the_truth(void **state) {
    (void)state;
    static chaos c;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        c = (chaos){0};
        sky_prng_init(&c.random, seed);
        c.engine = below(&c, 2);
        c.source_count = 1 + below(&c, 2);
        fill(c.segments, N, 1000 + below(&c, 100000), c.engine ? SKY_MS(1 + below(&c, 50)) : 0);
        sky_pacer_options options = {.slices = 1 + below(&c, 8), .flights_max = 1 + below(&c, 16)};
        options.deadline_ns = below(&c, 2) ? SKY_MS(1001 + below(&c, 400)) : 0;
        options.engine_wait = c.engine ? SKY_MS(below(&c, 2) * 10) : 0;
        options.window = c.window = below(&c, 4);
        options.engine_alone = c.engine && (c.window > 0 || below(&c, 2));
        if (c.window > 0) {
            sky_time compute_ns = c.segments[0].compute_ns;
            fill_parts(c.segments, N);
            for (uint32_t i = 0; i < N; i++)
                c.segments[i].compute_ns = compute_ns;
            options.slices = 2;
        }
        double rate = below(&c, 4) ? 1e6 : 0;
        c.p = begin_over(rate, c.segments, N, c.links, c.source_count, options);
        sky_time now = SKY_MS(1000);
        for (uint32_t step = 0; c.ends == 0 && step < 5000; step++) {
            sky_pace pace;
            for (uint32_t i = 0; sky_pacer_next(c.p, now, &pace); i++) {
                assert_true(i < 100);
                obey(&c, &pace);
            }
            assert_int_equal(c.p->flight_count, c.open_count);
            now += below(&c, 5000000);
            something_happens(&c, now);
        }
        assert_int_equal(c.ends, 1);
        sky_pacer_report r;
        sky_pacer_report_get(c.p, &r);
        uint32_t leading = leading_of(&c);
        assert_int_equal(r.leading, leading);
        assert_int_equal(r.verdict, leading == N ? SKY_VERDICT_HIT : SKY_VERDICT_RECOMPUTE);
        assert_true((r.complete_ns != SKY_TIME_NEVER) == (leading == N));
        sky_pacer_destroy(c.p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computing_at_the_head_is_never_worse),
        cmocka_unit_test(a_dead_link_ends_at_the_deadline),
        cmocka_unit_test(a_deadline_hands_over_the_leading_part),
        cmocka_unit_test(a_form_that_is_gone_is_replaced_by_another),
        cmocka_unit_test(what_no_source_has_is_computed_or_missing),
        cmocka_unit_test(what_arrived_of_a_request_given_up_is_kept),
        cmocka_unit_test(time_that_is_left_makes_some_better),
        cmocka_unit_test(a_silent_source_is_hedged),
        cmocka_unit_test(a_silent_link_costs_no_more_than_text),
        cmocka_unit_test(an_engine_that_keeps_waiting_is_not_waited_for),
        cmocka_unit_test(with_time_a_window_takes_what_it_needs),
        cmocka_unit_test(a_slower_link_makes_for_a_shorter_prefix),
        cmocka_unit_test(a_link_that_recovers_brings_all),
        cmocka_unit_test(what_is_gone_ends_the_prefix_before_it),
        cmocka_unit_test(the_least_is_asked_for_until_the_link_is_known),
        cmocka_unit_test(a_link_without_delay_is_known_soon),
        cmocka_unit_test(an_unknown_source_is_tried_beside_another),
        cmocka_unit_test(an_unknown_source_is_tried_beside_an_engine),
        cmocka_unit_test(answers_that_come_together_are_judged_together),
        cmocka_unit_test(what_showed_little_is_found_out_later),
        cmocka_unit_test(refuses_what_is_no_plan),
        cmocka_unit_test(whatever_happens_it_ends_and_tells_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
