/* Proves that what strangers say of copies leaves a satellite working. The work itself is proved in
 * ground/session_copies_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5};

/* Copies in a sky with one server, which are its own: a chunk has one place there. */
static void copies_that_have_no_place_are_not_looked_for(void **state) {
    (void)state;
    bench b;
    sky_frame frame;
    bench_open(&b, 8);
    const sky_placement one = {.strategy = SKY_PLACE_ROTATION, .servers = 1};
    const sky_constellation *c = &b.config.constellation;
    sky_constellation sky = {.planes = c->planes, .slots = c->slots, .altitude_km = 550};
    assert_int_equal(sky_frame_init(&frame, &sky, &one, here, &b.config.turning, NULL), SKY_OK);
    b.config.frame = &frame;
    b.config.mend_period_ns = SKY_SECONDS(100);
    sky_node_init(&b.node, &b.config, here, 0, b.memory, b.bytes);
    sky_message m = bench_set(SKY_WIRE_SET, 1, here);
    m.facts.centre = here;
    m.facts.window_planes = m.facts.window_slots = 1;
    m.facts.copies = 16;
    bench_tell(&b, 0, &m);
    assert_true(bench_hear(&b, BENCH_SERVE_NS, &m));
    m = (sky_message){.type = SKY_WIRE_MEND, .id = bench_name(1, 1), .stride = 1, .last = 1};
    bench_tell(&b, BENCH_SERVE_NS, &m);
    bench_silent(&b, BENCH_SERVE_NS);
    assert_int_equal(b.node.doubted.count, 0);
    sky_frame_deinit(&frame);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_that_have_no_place_are_not_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
