/* Proves: operations are spread over the lanes by what they carry, whatever their keys are, those
 * on one key stay on one lane, and how long a host may be silent depends on what it is asked. */
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

static sky__peer_ride take(sky__peer *p, sky_op op, uint32_t number, uint64_t bytes) {
    const sky_item item = item_of(number, bytes);
    return sky__peer_route_take(p, op, &item);
}

static uint32_t lane_of(const sky__peer *p, sky__peer_ride ride) {
    return p->routes[ride.route].lane;
}

/* Keys do not choose: eight of any kind are four for each of two lanes. */
static void payloads_are_spread_evenly(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    sky__peer_ride rides[8];
    uint32_t of_lane[2] = {0};
    for (uint32_t i = 0; i < 8; i++) {
        rides[i] = take(p, i % 2 ? SKY_OP_GET : SKY_OP_PUT, 2 * i, 8 << 20);
        of_lane[p->routes[rides[i].route].lane]++;
    }
    assert_int_equal(of_lane[0], 4);
    assert_int_equal(of_lane[1], 4);
    for (uint32_t i = 0; i < 8; i++)
        sky__peer_route_give(p, &rides[i]);
    assert_int_equal(p->loads[0], 0);
    assert_int_equal(p->loads[1], 0);
    free(p);
}

/* A large payload keeps its lane busy, and small ones go over the other. */
static void bytes_count(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    uint32_t large = lane_of(p, take(p, SKY_OP_GET, 0, 8 << 20));
    for (uint32_t i = 1; i < 100; i++)
        assert_int_not_equal(lane_of(p, take(p, SKY_OP_PUT, i, 4096)), large);
    for (uint32_t i = 100; i < 200; i++)
        assert_int_not_equal(lane_of(p, take(p, SKY_OP_HAS, i, 8 << 20)), large);
    free(p);
}

/* What is asked about a key goes over one lane, however busy that is, until all of it is over. */
static void operations_on_a_key_stay_in_order(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    sky__peer_ride put = take(p, SKY_OP_PUT, 7, 8 << 20), gets[10];
    uint32_t lane = lane_of(p, put);
    for (int i = 0; i < 10; i++) {
        gets[i] = take(p, SKY_OP_GET, 7, 8 << 20);
        assert_int_equal(lane_of(p, gets[i]), lane);
    }
    for (int i = 0; i < 10; i++)
        sky__peer_route_give(p, &gets[i]);
    sky__peer_ride removal = take(p, SKY_OP_REMOVE, 7, 0);
    assert_int_equal(lane_of(p, removal), lane);
    sky__peer_route_give(p, &put);
    sky__peer_route_give(p, &removal);
    (void)take(p, SKY_OP_GET, 8, 1 << 20);
    assert_int_not_equal(lane_of(p, take(p, SKY_OP_GET, 7, 4096)), lane);
    free(p);
}

/* A key that is always asked for weighs what is under way, and not all that ever was. */
static void what_is_over_weighs_nothing(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    sky__peer_ride one = take(p, SKY_OP_GET, 7, 8 << 20);
    const uint64_t load = one.load;
    uint32_t lane = lane_of(p, one);
    for (int i = 0; i < 100; i++) { /* the next begins before the last is over */
        sky__peer_ride next = take(p, SKY_OP_GET, 7, 8 << 20);
        sky__peer_route_give(p, &one);
        one = next;
    }
    assert_int_equal(p->loads[lane], load);
    assert_int_equal(p->loads[!lane], 0);
    free(p);
}

/* Spans that claim more than there can be do not upset the counts. */
static void claims_are_bounded(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(2);
    sky__peer_ride ride = take(p, SKY_OP_GET, 1, UINT64_MAX);
    assert_true(p->loads[0] <= 2 * (uint64_t)SKY_PAYLOAD_BYTES_MAX);
    sky__peer_route_give(p, &ride);
    assert_int_equal(p->loads[0], 0);
    free(p);
}

/* Behind a put that may wait for the host's room, its silence says less. */
static void silence_behind_a_large_put_says_less(void **state) {
    (void)state;
    sky__peer *p = peer_of_lanes(1);
    sky__peer_lane *l = calloc(1, sizeof *l);
    sky__peer_job has = {.op = SKY_OP_HAS}, put = {.op = SKY_OP_PUT};
    assert_non_null(l);
    l->peer = p;
    sky_peers_file hosts = {0};
    p->file = &hosts;
    p->patience.silent_ns = 10;
    l->heard_at = 5;
    assert_true(sky__peer_silent_at(l) == SKY_TIME_NEVER);
    l->flights[0] = (sky__peer_flight){.job = &has, .count = 1, .made_at = 100};
    l->flights[1] = (sky__peer_flight){.job = &put, .count = 2, .made_at = 90};
    l->flights[1].bytes[0] = SKY_PEER_SMALL_PUT;
    assert_true(sky__peer_silent_at(l) == 110);
    l->flights[1].bytes[1] = 1;
    assert_true(sky__peer_silent_at(l) == 140);
    p->file = NULL; /* nobody else can be asked */
    assert_true(sky__peer_silent_at(l) == SKY_TIME_NEVER);
    l->flights[1].job = NULL;
    assert_true(sky__peer_silent_at(l) == 140);
    l->heard_at = 120; /* of anything */
    assert_true(sky__peer_silent_at(l) == 160);
    has.op = SKY_OP_AWAIT;
    assert_true(sky__peer_silent_at(l) == SKY_TIME_NEVER);
    free(l);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_spread_evenly),
        cmocka_unit_test(bytes_count),
        cmocka_unit_test(operations_on_a_key_stay_in_order),
        cmocka_unit_test(what_is_over_weighs_nothing),
        cmocka_unit_test(claims_are_bounded),
        cmocka_unit_test(silence_behind_a_large_put_says_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
