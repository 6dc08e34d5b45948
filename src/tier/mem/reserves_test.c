/* Proves: what is written to a reserve is put without a copy, is found only then, and stays when
 * the reserve is given back; without a put its room is free again; a reserve that is not filled, is
 * changed in length, or was put once is copied as any other memory; all reserves have an eighth of
 * the tier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "tier/mem/memory.h"
#include "tier/mem/reserves.h"
#include "tier/tier_fixture.h"

#define MIB ((uint64_t)1 << 20)

static const sky_tier_env no_env = {0};

static sky_tier *open_memory(const char *url) {
    sky_tier *tier = NULL;
    assert_int_equal(sky_memory_tier_open(url, &no_env, &tier, NULL), SKY_OK);
    return tier;
}

static uint64_t used_bytes(sky_tier *tier) {
    sky_tier_stat stat;
    sky_counts counts = {0};
    tier->ops->stat(tier, &stat, &counts);
    return counts.tier.bytes_used;
}

static sky_memory_reserve filled_reserve(sky_tier *tier, uint64_t bytes, uint64_t seed) {
    sky_memory_reserve r;
    assert_int_equal(sky_memory_reserve_take(tier, bytes, 4, &r), SKY_OK);
    sky_fixture_fill(r.data, bytes, seed);
    sky_memory_reserve_fill(tier, &r, sky_checksum(r.data, bytes, 0));
    return r;
}

static sky_status put_bytes(sky_tier *tier, uint64_t n, uint8_t *data, uint64_t bytes,
                            const char *name) {
    sky_span span = {data, bytes};
    sky_item item = {.key = sky_fixture_key(n),
                     .spans = &span,
                     .span_count = 1,
                     .name = name,
                     .name_bytes = name ? (uint16_t)strlen(name) : 0};
    sky_fixture_run(tier, SKY_OP_PUT, &item, 1, NULL);
    return item.status;
}

/* Where its payload lies. */
static const void *place_of(sky_tier *tier, uint64_t n) {
    sky_item item = {.key = sky_fixture_key(n)};
    sky_fixture_run(tier, SKY_OP_LEASE, &item, 1, NULL);
    if (item.status != SKY_OK)
        return NULL;
    tier->ops->release(tier, item.lease);
    return item.view.data;
}

static void verify_finds(sky_tier *tier, uint64_t entries) {
    sky_verify_report report = {0};
    assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    assert_int_equal(report.entries, entries);
    assert_int_equal(report.corrupt, 0);
}

static void nothing_is_copied(void **state) {
    const char *urls[] = {"mem:16MiB", "mem:16MiB?shared=yes"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        sky_tier *tier = open_memory(urls[i]);
        sky_memory_reserve r = filled_reserve(tier, MIB, 1);
        assert_null(place_of(tier, 1));
        assert_int_equal(put_bytes(tier, 1, r.data, MIB, "name"), SKY_OK);
        assert_ptr_equal(place_of(tier, 1), r.data);
        sky_memory_reserve_give(tier, &r);
        assert_ptr_equal(place_of(tier, 1), r.data);
        assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), MIB, 1), SKY_OK);
        verify_finds(tier, 1);
        assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(1)), SKY_OK);
        assert_int_equal(used_bytes(tier), 0);
        tier->ops->close(tier);
    }
}

/* Removed or replaced while the reserve is out: its bytes stay until that is given back. */
static void readers_come_before_room(void **state) {
    (void)state;
    sky_tier *tier = open_memory("mem:16MiB");
    sky_memory_reserve r = filled_reserve(tier, MIB, 2);
    assert_int_equal(put_bytes(tier, 2, r.data, MIB, NULL), SKY_OK);
    assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(2)), SKY_OK);
    assert_in_range(used_bytes(tier), MIB, 2 * MIB);
    sky_memory_reserve_give(tier, &r);
    assert_int_equal(used_bytes(tier), 0);
    tier->ops->close(tier);
}

static void without_a_put_the_room_is_free_again(void **state) {
    (void)state;
    sky_tier *tier = open_memory("mem:16MiB");
    sky_memory_reserve r = filled_reserve(tier, MIB, 3);
    assert_in_range(used_bytes(tier), MIB, 2 * MIB);
    sky_memory_reserve_give(tier, &r);
    assert_int_equal(used_bytes(tier), 0);
    verify_finds(tier, 0);
    tier->ops->close(tier);
}

/* These are puts as any other. */
static void what_is_not_a_whole_reserve_is_copied(void **state) {
    (void)state;
    sky_tier *tier = open_memory("mem:16MiB");
    sky_memory_reserve r;
    assert_int_equal(sky_memory_reserve_take(tier, MIB, 0, &r), SKY_OK);
    sky_fixture_fill(r.data, MIB, 4);
    assert_int_equal(put_bytes(tier, 4, r.data, MIB, NULL), SKY_OK); /* not filled yet */
    assert_ptr_not_equal(place_of(tier, 4), r.data);
    sky_memory_reserve_fill(tier, &r, sky_checksum(r.data, MIB, 0));
    assert_int_equal(put_bytes(tier, 5, r.data, MIB / 2, NULL), SKY_OK);
    assert_ptr_not_equal(place_of(tier, 5), r.data);
    assert_int_equal(put_bytes(tier, 6, r.data, MIB, "longer than its room"), SKY_OK);
    assert_ptr_not_equal(place_of(tier, 6), r.data);
    assert_int_equal(put_bytes(tier, 7, r.data, MIB, NULL), SKY_OK);
    assert_ptr_equal(place_of(tier, 7), r.data);
    assert_int_equal(put_bytes(tier, 8, r.data, MIB, NULL), SKY_OK); /* a second time */
    assert_ptr_not_equal(place_of(tier, 8), r.data);
    sky_memory_reserve_give(tier, &r);
    verify_finds(tier, 5);
    tier->ops->close(tier);
}

static void reserves_are_bounded(void **state) {
    sky_memory_reserve some[SKY__MEMORY_RESERVES_MAX + 1];
    uint32_t count = 0;
    (void)state;
    sky_tier *tier = open_memory("mem:16MiB");
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(1), NULL, 13 * MIB, 1), SKY_OK);
    while (sky_memory_reserve_take(tier, MIB - 64, 0, &some[count]) == SKY_OK)
        count++;
    assert_int_equal(count, 2);
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), 13 * MIB, 1), SKY_OK);
    while (count > 0)
        sky_memory_reserve_give(tier, &some[--count]);
    while (sky_memory_reserve_take(tier, 64, 0, &some[count]) == SKY_OK)
        count++;
    assert_int_equal(count, SKY__MEMORY_RESERVES_MAX);
    while (count > 0)
        sky_memory_reserve_give(tier, &some[--count]);
    assert_int_equal(sky_memory_reserve_take(tier, 3 * MIB, 0, some), SKY_E_FULL);
    assert_int_equal(sky_memory_reserve_take(tier, UINT64_MAX, 0, some), SKY_E_FULL);
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), 13 * MIB, 1), SKY_OK);
    tier->ops->close(tier);
}

/* Nothing evicts a reserve, whatever is put meanwhile. */
static void a_full_tier_keeps_reserves(void **state) {
    (void)state;
    sky_tier *tier = open_memory("mem:8MiB");
    sky_memory_reserve r = filled_reserve(tier, MIB / 2, 9);
    for (uint64_t n = 10; n < 30; n++)
        assert_int_equal(sky_fixture_put(tier, sky_fixture_key(n), NULL, MIB, n), SKY_OK);
    assert_int_equal(put_bytes(tier, 9, r.data, MIB / 2, NULL), SKY_OK);
    for (uint64_t n = 10; n < 30; n++)
        assert_int_equal(sky_fixture_put(tier, sky_fixture_key(n), NULL, MIB, n), SKY_OK);
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(9), MIB / 2, 9), SKY_OK);
    sky_memory_reserve_give(tier, &r);
    tier->ops->close(tier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(readers_come_before_room),
        cmocka_unit_test(without_a_put_the_room_is_free_again),
        cmocka_unit_test(what_is_not_a_whole_reserve_is_copied),
        cmocka_unit_test(reserves_are_bounded),
        cmocka_unit_test(a_full_tier_keeps_reserves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
