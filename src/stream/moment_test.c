/* Proves: what the planner wants at one moment has an end, whatever forms weigh, decoding takes and
 * sources have shown; and a clock that stands still or goes back leaves it with numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "stream/planner.h"

enum { SEGMENTS = 12, STEPS = 300, AT_ONCE_MOST = 500 };

static sky_prng prng;

static uint32_t below(uint32_t bound) {
    return (uint32_t)sky_prng_below(&prng, bound);
}

/* Up to ten to the power of `digits`. */
static uint64_t any_size(uint32_t digits) {
    return (uint64_t)pow(10, digits * sky_prng_unit(&prng));
}

static void any_segment(sky_segment *s, bool computes) {
    *s = (sky_segment){.token_count = 1 + below(500), .form_count = 1 + below(4)};
    s->compute_ns = computes ? (sky_time)any_size(9) : 0;
    uint64_t bytes = any_size(10);
    double loss = 0;
    for (uint32_t f = 0; f < s->form_count; f++, bytes -= bytes / 3, loss += 0.1 * below(3))
        s->forms[f] = (sky_form){bytes, loss, below(2) ? (sky_time)any_size(8) : 0};
}

typedef struct {
    sky_pacer *p;
    uint32_t requests[SKY_PACER_FLIGHTS_MAX];
    uint32_t count;
    bool computing;
    bool over;
} driver;

static void obey(driver *d, sky_time now) {
    sky_pace pace;
    for (int n = 0; sky_pacer_next(d->p, now, &pace); n++) {
        assert_true(n < AT_ONCE_MOST);
        d->over |= pace.kind == SKY_PACE_END;
        d->computing |= pace.kind == SKY_PACE_COMPUTE;
        if (pace.kind == SKY_PACE_GET)
            d->requests[d->count++] = pace.request;
        for (uint32_t i = 0; pace.kind == SKY_PACE_CANCEL && i < d->count; i++)
            if (d->requests[i] == pace.request)
                d->requests[i--] = d->requests[--d->count];
    }
}

static void any_answer(driver *d, sky_time now) {
    if (d->count > 0 && below(3)) {
        uint32_t i = below(d->count), request = d->requests[i];
        if (below(2)) {
            sky_pacer_arrived(d->p, now, request, any_size(8), 0);
            return;
        }
        d->requests[i] = d->requests[--d->count];
        sky_pacer_finished(d->p, now, request, below(8) ? SKY_OK : SKY_MISS);
    } else if (d->computing && below(2)) {
        d->computing = false;
        sky_pacer_computed(d->p, now, true);
    }
}

/* A third of the steps the clock stands still, and sometimes it goes back. */
static sky_time any_step(void) {
    return below(3) ? (sky_time)any_size(8) * (below(20) ? 1 : -1) : 0;
}

static void run_context(sky_link *links, uint32_t link_count) {
    sky_segment segments[SEGMENTS];
    sky_time now = SKY_SECONDS(1000);
    bool computes = below(2);
    sky_pacer_options options = {.deadline_ns = now + (sky_time)any_size(11),
                                 .slices = 1 + below(3),
                                 .engine_alone = below(2),
                                 .engine_unknown = below(2),
                                 .no_hedging = below(2)};
    for (uint32_t i = 0; i < SEGMENTS; i++)
        any_segment(&segments[i], computes);
    driver d = {0};
    assert_int_equal(sky_pacer_create(segments, SEGMENTS, links, link_count, &options, now, &d.p),
                     SKY_OK);
    obey(&d, now);
    for (int step = 0; step < STEPS && !d.over; step++, obey(&d, now)) {
        now += any_step();
        any_answer(&d, now);
    }
    sky_pacer_destroy(d.p);
}

static void what_is_wanted_at_once_has_an_end(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 600; seed++) {
        sky_link links[SKY_PACER_SOURCES_MAX];
        sky_prng_init(&prng, seed);
        uint32_t count = 1 + below(SKY_PACER_SOURCES_MAX);
        for (uint32_t i = 0; i < count; i++) /* some are faster than anything is */
            sky_link_init(&links[i], below(3) ? (double)any_size(below(4) ? 9 : 19) : 0,
                          (sky_time)any_size(9));
        for (int context = 0; context < 3; context++)
            run_context(links, count);
        for (uint32_t i = 0; i < count; i++)
            assert_true(isfinite(links[i].rate) && links[i].rate >= 0 && links[i].delay_ns >= 0 &&
                        isfinite(links[i].engine_factor) && links[i].engine_factor >= 0);
    }
}

/* Decoding takes longer than loading, so that a smaller form is no sooner there; by its bytes it
 * would be, and it is late. */
static void what_is_given_up_is_not_asked_for_again(void **state) {
    (void)state;
    const sky_segment segment = {.token_count = 128,
                                 .form_count = 2,
                                 .forms = {{1000, 0, SKY_MS(50)}, {900, 0.1, SKY_MS(50)}}};
    const sky_pacer_options options = {.deadline_ns = SKY_MS(1040)};
    sky_link link;
    driver d = {0};
    sky_link_init(&link, 1e6, 0);
    assert_int_equal(sky_pacer_create(&segment, 1, &link, 1, &options, SKY_MS(1000), &d.p), SKY_OK);
    obey(&d, SKY_MS(1000));
    assert_int_equal(d.count, 1);
    assert_int_equal(d.requests[0], 2); /* the first was given up for it */
    sky_pacer_finished(d.p, SKY_MS(1002), 2, SKY_OK);
    assert_int_equal(sky_pacer_form(d.p, 0, 0), 1);
    sky_pacer_destroy(d.p);
}

/* By a clock that is too coarse for it. */
static void an_engine_may_take_no_time(void **state) {
    (void)state;
    sky_segment segments[2] = {{.token_count = 128, .compute_ns = SKY_MS(1)},
                               {.token_count = 128, .compute_ns = SKY_MS(1)}};
    const sky_pacer_options options = {.engine_unknown = true};
    sky_link link;
    driver d = {0};
    sky_link_init(&link, 0, 0);
    assert_int_equal(sky_pacer_create(segments, 2, &link, 1, &options, SKY_MS(1000), &d.p), SKY_OK);
    for (int i = 0; i < 2; i++) {
        obey(&d, SKY_MS(1000));
        assert_true(d.computing);
        d.computing = false;
        sky_pacer_computed(d.p, SKY_MS(1000), true);
    }
    obey(&d, SKY_MS(1000));
    assert_true(d.over);
    assert_true(link.engine_factor > 0 && link.engine_factor < 1);
    sky_pacer_destroy(d.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wanted_at_once_has_an_end),
        cmocka_unit_test(what_is_given_up_is_not_asked_for_again),
        cmocka_unit_test(an_engine_may_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
