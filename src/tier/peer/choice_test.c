/* Proves: where a key is put stays from release to release (golden values, made by another
 * program), hosts share keys alike, and one host less moves only its own; the nearest is the one of
 * the least round trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tier/peer/choice.h"

#define KEYS 3000u

static const char *const names[] = {"10.0.0.7:7700", "10.0.0.8:7700", "[::1]:7701"};

static sky_key key_of(uint32_t n) {
    sky_key key = {{0}};
    for (int i = 0; i < 4; i++)
        key.bytes[i] = (uint8_t)(n >> 8 * i);
    return key;
}

static void ids_of(uint64_t ids[SKY_PEER_HOSTS_MAX]) {
    for (size_t i = 0; i < 3; i++)
        ids[i] = sky_peer_id(names[i]);
}

static void owners_stay(void **state) {
    static const uint32_t golden[] = {2, 0, 1, 1, 2, 0, 0, 2, 0, 2, 2, 2, 1, 2, 2, 0};
    uint64_t ids[SKY_PEER_HOSTS_MAX] = {0};
    (void)state;
    ids_of(ids);
    for (uint32_t n = 0; n < sizeof golden / sizeof *golden; n++) {
        sky_key key = key_of(n);
        assert_int_equal(sky_peer_owner(ids, 7, &key), golden[n]);
    }
}

static void one_less_moves_only_its_own(void **state) {
    uint64_t ids[SKY_PEER_HOSTS_MAX] = {0};
    uint32_t counts[3] = {0};
    (void)state;
    ids_of(ids);
    for (uint32_t n = 0; n < KEYS; n++) {
        sky_key key = key_of(n);
        uint32_t owner = sky_peer_owner(ids, 7, &key), without = sky_peer_owner(ids, 5, &key);
        assert_true(owner == 1 ? without != 1 : without == owner);
        counts[owner]++;
    }
    for (size_t i = 0; i < 3; i++)
        assert_in_range(counts[i], KEYS / 3 - KEYS / 20, KEYS / 3 + KEYS / 20);
    sky_key key = key_of(1);
    assert_int_equal(sky_peer_owner(ids, 0, &key), SKY_PEER_NOBODY);
}

static void nearest_is_of_the_least_round_trip(void **state) {
    uint64_t trips[SKY_PEER_HOSTS_MAX] = {900, 300, 500, 300};
    (void)state;
    assert_int_equal(sky_peer_nearest(trips, 15), 1);
    assert_int_equal(sky_peer_nearest(trips, 13), 3);
    assert_int_equal(sky_peer_nearest(trips, 5), 2);
    assert_int_equal(sky_peer_nearest(trips, 0), SKY_PEER_NOBODY);
    assert_int_equal(sky_peer_round_trip(0, 800), 800);
    assert_int_equal(sky_peer_round_trip(800, 1600), 900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_stay),
        cmocka_unit_test(one_less_moves_only_its_own),
        cmocka_unit_test(nearest_is_of_the_least_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
