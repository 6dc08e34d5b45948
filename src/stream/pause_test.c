/* Proves: an engine that takes the processors of its sources stops for them, so that what it
 * computes is bounded; a link that brings nothing makes that hardly longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream/planner.h"

enum { SHARED = 4, STEP_MS = 1000, LOAD_MS = 50 };

/* An engine of which nothing is known takes STEP_MS for a segment. The link brings one in LOAD_MS,
 * `slower` times that while the engine computes, after `stall_ms` in which it brings nothing.
 * Returns when all is there, in ms. */
static double share_processors(double slower, uint32_t stall_ms, uint32_t wait_ms,
                               sky_pacer_report *out) {
    const sky_pacer_options options = {.engine_alone = true,
                                       .engine_unknown = true,
                                       .engine_run = SHARED,
                                       .engine_wait = SKY_MS(wait_ms)};
    sky_segment segments[SHARED];
    sky_link link;
    uint32_t queue[SHARED + 1] = {0}, first = 0, asked = 0;
    for (uint32_t i = 0; i < SHARED; i++)
        segments[i] = (sky_segment){.token_count = 128,
                                    .form_count = 1,
                                    .forms = {{.bytes = 1600000}},
                                    .compute_ns = SKY_MS(LOAD_MS)};
    sky_pacer *p;
    sky_link_init(&link, 0, 0);
    assert_int_equal(sky_pacer_create(segments, SHARED, &link, 1, &options, SKY_MS(1000), &p),
                     SKY_OK);
    double brought = 0;
    sky_pace pace = {0};
    sky_time done_at = 0;
    for (uint32_t ms = 0; pace.kind != SKY_PACE_END; ms++) {
        sky_time now = SKY_MS(1000 + ms);
        assert_true(ms < 2 * SHARED * STEP_MS);
        brought += ms < stall_ms || first == asked ? 0 : done_at ? 1 / slower : 1;
        if (brought >= LOAD_MS) {
            brought -= LOAD_MS;
            sky_pacer_finished(p, now, queue[first++], SKY_OK);
        }
        if (done_at && now >= done_at) {
            done_at = 0;
            sky_pacer_computed(p, now, true);
        }
        while (sky_pacer_next(p, now, &pace) && pace.kind != SKY_PACE_END) {
            if (pace.kind == SKY_PACE_GET)
                queue[asked++] = pace.request;
            if (pace.kind == SKY_PACE_COMPUTE)
                done_at = now + SKY_MS(STEP_MS) * (pace.segment_end - pace.segment);
            assert_true(asked <= SHARED);
        }
    }
    sky_pacer_report_get(p, out);
    sky_pacer_destroy(p);
    return (double)(out->complete_ns - SKY_MS(1000)) / SKY_MS(1);
}

/* What came while the engine had the processors is no word of what can come without it: after each
 * step it leaves them to the link for a moment, and goes on only if that brings nothing. */
static void an_engine_that_starves_the_link_stops_for_it(void **state) {
    (void)state;
    static const double slower[] = {8, 15, 30, 100, 1000};
    sky_pacer_report r;
    for (size_t i = 0; i < sizeof slower / sizeof *slower; i++)
        for (uint32_t stall_ms = 0; stall_ms <= STEP_MS; stall_ms += 200) {
            double took = share_processors(slower[i], stall_ms, 6, &r);
            assert_int_equal(r.leading, SHARED);
            assert_int_equal(r.computed, 1);
            assert_true(took <= STEP_MS + SHARED * LOAD_MS);
        }
}

/* … which a link that brings nothing makes a thirty-second longer, the wait for it included. */
static void a_dead_link_stops_the_engine_hardly(void **state) {
    (void)state;
    sky_pacer_report r;
    for (uint32_t wait_ms = 0; wait_ms <= SHARED * STEP_MS / 32; wait_ms += 25) {
        double took = share_processors(1, UINT32_MAX, wait_ms, &r);
        assert_int_equal(r.computed, SHARED);
        assert_true(took <= SHARED * STEP_MS * 1.035);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_that_starves_the_link_stops_for_it),
        cmocka_unit_test(a_dead_link_stops_the_engine_hardly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
