/* Proves that a lease is returned once, by its owner only, that an id is never used again, and that
 * an owner's leases are returned all at once and nobody else's with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tier/leases.h"

static void a_lease_is_returned_once_by_its_owner(void **state) {
    (void)state;
    sky_leases *l;
    uint64_t what = 9;
    assert_int_equal(sky_leases_create(&l), SKY_OK);
    sky_lease lease = sky_leases_take(l, 77, 5);
    assert_true(lease.id > 0 && lease.id < UINT64_C(1) << 48);
    assert_int_equal(sky_leases_count(l), 1);
    assert_int_equal(sky_leases_give(l, lease, 6, &what), SKY_E_DENIED);
    assert_int_equal(sky_leases_give(l, lease, 0, &what), SKY_E_DENIED);
    assert_int_equal(what, 9);
    assert_int_equal(sky_leases_give(l, lease, 5, &what), SKY_OK);
    assert_int_equal(what, 77);
    assert_int_equal(sky_leases_give(l, lease, 5, &what), SKY_E_PARAM);
    sky_lease later = sky_leases_take(l, 78, 5); /* in the same row */
    assert_int_not_equal(later.id, lease.id);
    assert_int_equal(sky_leases_give(l, lease, 5, &what), SKY_E_PARAM);
    static const uint64_t wrong[] = {0, 1, 12345, UINT64_MAX, UINT64_C(1) << 48};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sky_leases_give(l, (sky_lease){wrong[i]}, 0, &what), SKY_E_PARAM);
    assert_int_equal(sky_leases_give(l, later, 5, &what), SKY_OK);
    assert_int_equal(sky_leases_count(l), 0);
    sky_leases_destroy(l);
}

/* How many were returned, each of which lends a number of the owner. */
static uint32_t end_owner(sky_leases *l, const uint64_t *owner) {
    uint32_t row = 0, count = 0;
    uint64_t what;
    for (; sky_leases_give_next(l, owner, &row, &what); count++)
        if (owner)
            assert_int_equal(what % 3, *owner);
    return count;
}

static void an_owner_ends_alone(void **state) {
    (void)state;
    sky_leases *l;
    assert_int_equal(sky_leases_create(&l), SKY_OK);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint64_t n = 0; n < SKY_LEASES_MAX; n++)
            (void)sky_leases_take(l, n, n % 3);
        assert_true(sky_leases_full(l));
        const uint64_t one = 1, two = 2, nobody = 7;
        assert_int_equal(end_owner(l, &one), 21845);
        assert_int_equal(end_owner(l, &one), 0);
        assert_int_equal(end_owner(l, &nobody), 0);
        assert_int_equal(end_owner(l, &two), 21845);
        assert_int_equal(sky_leases_count(l), 21846);
        assert_int_equal(end_owner(l, NULL), 21846);
        assert_int_equal(sky_leases_count(l), 0);
    }
    sky_leases_destroy(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_returned_once_by_its_owner),
        cmocka_unit_test(an_owner_ends_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
