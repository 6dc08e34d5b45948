/* Proves that reserved memory is aligned, zero and usable to its last byte, and that what cannot be
 * had is refused. */
#include "io/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void reserved_pages_are_usable(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, (2u << 20) - 1, 2u << 20, (6u << 20) + 17};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *pages = NULL;
        assert_int_equal(sky_pages_reserve(sizes[i], &pages, NULL), SKY_OK);
        assert_int_equal((uintptr_t)pages % (2u << 20), 0);
        uint8_t *bytes = pages;
        assert_int_equal(bytes[0] | bytes[sizes[i] - 1], 0);
        bytes[0] = bytes[sizes[i] - 1] = 1;
        sky_pages_release(pages, sizes[i]);
    }
    sky_pages_release(NULL, 0);
}

static void large_reservations_cost_nothing_yet(void **state) {
    (void)state;
    void *pages;
    bool huge;
    size_t bytes = (size_t)64 << 30;
    assert_int_equal(sky_pages_reserve(bytes, &pages, &huge), SKY_OK);
    ((uint8_t *)pages)[bytes - 1] = 1;
    sky_pages_release(pages, bytes);
}

static void the_impossible_is_refused(void **state) {
    (void)state;
    void *pages = &pages;
    assert_int_equal(sky_pages_reserve(0, &pages, NULL), SKY_E_NOMEM);
    assert_int_equal(sky_pages_reserve(SIZE_MAX, &pages, NULL), SKY_E_NOMEM);
    assert_int_equal(sky_pages_reserve(SIZE_MAX / 2, &pages, NULL), SKY_E_NOMEM);
    assert_ptr_equal(pages, &pages);
    assert_true(sky_pages_machine_bytes() > 1u << 20);
}

/* Whole pages alone: what is before and behind in theirs stays. */
static void pages_given_back_are_zeros(void **state) {
    (void)state;
    const size_t page = 65536, from = page + 100, bytes = 3 * page; /* of any machine's size */
    void *pages;
    assert_int_equal(sky_pages_reserve(8 * page, &pages, NULL), SKY_OK);
    uint8_t *at = pages;
    memset(at, 7, 8 * page);
    sky_pages_give_back(at + from, 10); /* no page whole: nothing */
    assert_int_equal(at[from + 5], 7);
    sky_pages_give_back(at + from, bytes);
    assert_int_equal(at[from - 1], 7);
    assert_int_equal(at[2 * page], 0);
    assert_int_equal(at[4 * page - 1], 0);
    assert_int_equal(at[from + bytes], 7);
    sky_pages_release(pages, 8 * page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserved_pages_are_usable),
        cmocka_unit_test(large_reservations_cost_nothing_yet),
        cmocka_unit_test(the_impossible_is_refused),
        cmocka_unit_test(pages_given_back_are_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
