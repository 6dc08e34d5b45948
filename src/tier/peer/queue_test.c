/* Proves: operations are spread over the lanes by what they carry, whatever their keys are, and
 * those on one key stay on one lane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tier/peer/peer_state.h"

static sky_span span;

static sky_item item_of(uint32_t number, uint64_t bytes) {
    sky_item item = {.spans = &span, .span_count = 1};
    span = (sky_span){NULL, bytes};
    memcpy(item.key.bytes, &number, sizeof number);
    return item;
}

static sky__peer *peer_of_lanes(uint32_t lanes) {
    sky__peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->lane_count = lanes;
    return p;
}

static uint32_t take(sky__peer *p, sky_op op, uint32_t number, uint64_t bytes) {
    const sky_item item = item_of(number, bytes);
    return sky__peer_route_take(p, op, &item);
}

/* Keys do not choose: eight of any kind are four for each of two lanes. */
static void payloads_are_spread_evenly(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    uint32_t routes[8], of_lane[2] = {0};
    for (uint32_t i = 0; i < 8; i++) {
        routes[i] = take(p, i % 2 ? SKY_OP_GET : SKY_OP_PUT, 2 * i, 8 << 20);
        of_lane[p->routes[routes[i]].lane]++;
    }
    assert_int_equal(of_lane[0], 4);
    assert_int_equal(of_lane[1], 4);
    for (uint32_t i = 0; i < 8; i++)
        sky__peer_route_give(p, routes[i]);
    assert_int_equal(p->loads[0], 0);
    assert_int_equal(p->loads[1], 0);
    free(p);
}

/* A large payload keeps its lane busy, and small ones go over the other. */
static void bytes_count(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    uint32_t large = p->routes[take(p, SKY_OP_GET, 0, 8 << 20)].lane;
    for (uint32_t i = 1; i < 100; i++)
        assert_int_not_equal(p->routes[take(p, SKY_OP_PUT, i, 4096)].lane, large);
    for (uint32_t i = 100; i < 200; i++)
        assert_int_not_equal(p->routes[take(p, SKY_OP_HAS, i, 8 << 20)].lane, large);
    free(p);
}

/* What is asked about a key goes over one lane, however busy that is, until all of it is over. */
static void operations_on_a_key_stay_in_order(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    uint32_t first = take(p, SKY_OP_PUT, 7, 8 << 20);
    uint32_t lane = p->routes[first].lane;
    for (int i = 0; i < 10; i++)
        assert_int_equal(p->routes[take(p, SKY_OP_GET, 7, 8 << 20)].lane, lane);
    for (int i = 0; i < 10; i++)
        sky__peer_route_give(p, first);
    assert_int_equal(p->routes[take(p, SKY_OP_REMOVE, 7, 0)].lane, lane);
    sky__peer_route_give(p, first);
    sky__peer_route_give(p, first);
    (void)take(p, SKY_OP_GET, 8, 1 << 20);
    assert_int_not_equal(p->routes[take(p, SKY_OP_GET, 7, 4096)].lane, lane);
    free(p);
}

/* Spans that claim more than there can be do not upset the counts. */
static void claims_are_bounded(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    uint32_t route = take(p, SKY_OP_GET, 1, UINT64_MAX);
    assert_true(p->loads[0] <= 2 * (uint64_t)SKY_PAYLOAD_BYTES_MAX);
    sky__peer_route_give(p, route);
    assert_int_equal(p->loads[0], 0);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_spread_evenly),
        cmocka_unit_test(bytes_count),
        cmocka_unit_test(operations_on_a_key_stay_in_order),
        cmocka_unit_test(claims_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
