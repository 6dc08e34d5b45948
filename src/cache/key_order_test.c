/* Proves the table of key_order.h: for each pair of operations on one key whether the later one
 * waits, goes on when the earlier one is over, or outdates it; other keys do not matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/key_order.h"
#include "tier/tier_fixture.h"

/* The rows and columns of the table; copies of names and of blocks apart. */
typedef enum { READ, PUT, REMOVE, PIN, BLOCK_COPY, NAME_COPY, PROMOTION, KINDS } kind;

static sky__order_entry entry_of(kind k, uint64_t key) {
    static const sky__order_kind kinds[KINDS] = {
        SKY__ORDER_READ, SKY__ORDER_PUT,  SKY__ORDER_REMOVE,   SKY__ORDER_PIN,
        SKY__ORDER_COPY, SKY__ORDER_COPY, SKY__ORDER_PROMOTION};
    return (sky__order_entry){
        .key = sky_fixture_key(key), .kind = kinds[k], .named = k == NAME_COPY};
}

static sky__order *order_create(void) {
    sky__order *o = calloc(1, sizeof *o);
    assert_non_null(o);
    return o;
}

/* w: waits, o: outdates, '-': neither. By later (row) and earlier (column). */
static const char *const table[KINDS] = {"-www---", "-www-oo", "-www-oo", "-wwwww-",
                                         "-------", "-------", "-------"};

static void each_pair_is_as_the_table_says(void **state) {
    (void)state;
    for (kind later = READ; later < KINDS; later++) {
        for (kind earlier = PUT; earlier < KINDS; earlier++) {
            sky__order *o = order_create();
            sky__order_entry first = entry_of(earlier, 1), second = entry_of(later, 1);
            sky__order_entry other = entry_of(later, 2);
            char says = table[later][earlier];
            assert_true(sky__order_enter(o, &first));
            assert_int_equal(sky__order_enter(o, &second), says != 'w');
            assert_true(sky__order_enter(o, &other));
            assert_int_equal(first.outdated, says == 'o');
            assert_null(sky__order_next_ready(o));
            sky__order_leave(o, &first);
            assert_ptr_equal(sky__order_next_ready(o), says == 'w' ? &second : NULL);
            assert_null(sky__order_next_ready(o));
            sky__order_leave(o, &second);
            sky__order_leave(o, &other);
            assert_true(sky__order_quiet(o, &first.key) && sky__order_quiet(o, &other.key));
            free(o);
        }
    }
}

/* A write waits for the bytes it outdates while a tier is storing them. */
static void what_is_being_stored_is_waited_for(void **state) {
    (void)state;
    static const kind copies[] = {NAME_COPY, PROMOTION}, writes[] = {PUT, REMOVE};
    for (size_t i = 0; i < 4; i++) {
        sky__order *o = order_create();
        sky__order_entry copy = entry_of(copies[i / 2], 1), write = entry_of(writes[i % 2], 1);
        sky__order_enter(o, &copy);
        sky__order_work(o, &copy, true);
        assert_false(sky__order_enter(o, &write));
        assert_true(copy.outdated);
        sky__order_work(o, &copy, false);
        assert_ptr_equal(sky__order_next_ready(o), &write);
        sky__order_leave(o, &copy);
        sky__order_leave(o, &write);
        free(o);
    }
}

/* A put under a name of a key that was a block's comes after that block's copies. */
static void a_name_comes_after_a_block(void **state) {
    (void)state;
    sky__order *o = order_create();
    sky__order_entry copy = entry_of(BLOCK_COPY, 1), block = entry_of(PUT, 1),
                     name = entry_of(PUT, 1);
    name.named = true;
    assert_true(sky__order_enter(o, &copy));
    assert_true(sky__order_enter(o, &block));
    sky__order_leave(o, &block);
    assert_false(sky__order_enter(o, &name));
    sky__order_leave(o, &copy);
    assert_ptr_equal(sky__order_next_ready(o), &name);
    sky__order_leave(o, &name);
    free(o);
}

/* What came after the put comes after its copy, whenever that is made. */
static void a_copy_takes_the_place_of_its_put(void **state) {
    (void)state;
    sky__order *o = order_create();
    sky__order_entry put = entry_of(PUT, 1), pin = entry_of(PIN, 1), copy = entry_of(BLOCK_COPY, 1);
    assert_true(sky__order_enter(o, &put));
    assert_false(sky__order_enter(o, &pin));
    sky__order_follow(&copy, &put);
    sky__order_leave(o, &put);
    assert_null(sky__order_next_ready(o));
    sky__order_leave(o, &copy);
    assert_ptr_equal(sky__order_next_ready(o), &pin);
    sky__order_leave(o, &pin);
    free(o);
}

/* A put waits for a pin, which promotes the value and makes copies of it: these are older than the
 * put. It waits for what is being stored, and outdates the rest. */
static void a_promotion_for_a_pin_is_older_than_what_waits_for_the_pin(void **state) {
    (void)state;
    sky__order *o = order_create();
    sky__order_entry pin = entry_of(PIN, 1), put = entry_of(PUT, 1);
    sky__order_entry promotion = entry_of(PROMOTION, 1), stored = entry_of(NAME_COPY, 1),
                     queued = entry_of(NAME_COPY, 1);
    assert_true(sky__order_enter(o, &pin));
    assert_false(sky__order_enter(o, &put));
    sky__order_follow(&promotion, &pin);
    sky__order_follow(&stored, &promotion);
    sky__order_follow(&queued, &promotion);
    sky__order_work(o, &stored, true);
    sky__order_leave(o, &promotion);
    sky__order_leave(o, &pin);
    assert_null(sky__order_next_ready(o));
    assert_false(queued.outdated);
    sky__order_work(o, &stored, false);
    assert_ptr_equal(sky__order_next_ready(o), &put);
    assert_true(queued.outdated);
    sky__order_leave(o, &stored);
    sky__order_leave(o, &queued);
    sky__order_leave(o, &put);
    assert_true(sky__order_quiet(o, &put.key));
    free(o);
}

static void changes_are_seen_until_they_are_over(void **state) {
    (void)state;
    sky__order *o = order_create();
    sky__order_entry put = entry_of(PUT, 1), remove = entry_of(REMOVE, 1);
    sky_key one = sky_fixture_key(1), two = sky_fixture_key(2);
    sky__order_enter(o, &put);
    sky__order_enter(o, &remove);
    assert_true(sky__order_changing(o, &one) && !sky__order_changing(o, &two));
    assert_true(!sky__order_quiet(o, &one) && sky__order_quiet(o, &two));
    sky__order_leave(o, &put);
    assert_true(sky__order_changing(o, &one) && !sky__order_quiet(o, &one));
    assert_ptr_equal(sky__order_next_ready(o), &remove);
    sky__order_leave(o, &remove);
    assert_false(sky__order_changing(o, &one));
    assert_true(sky__order_quiet(o, &one));
    free(o);
}

/* What is stored may lie below what is removed. */
static void a_removal_waits_for_promotions_that_store(void **state) {
    (void)state;
    sky__order *o = order_create();
    sky__order_entry one = entry_of(PROMOTION, 1), two = entry_of(PROMOTION, 2);
    sky__order_entry before = entry_of(REMOVE, 3), put = entry_of(PUT, 4),
                     remove = entry_of(REMOVE, 4);
    sky__order_enter(o, &one);
    sky__order_enter(o, &two);
    assert_true(sky__order_enter(o, &before));
    sky__order_leave(o, &before);
    sky__order_fill(o, &one);
    sky__order_fill(o, &two);
    assert_true(sky__order_enter(o, &put));
    assert_false(sky__order_enter(o, &remove));
    sky__order_leave(o, &put);
    sky__order_leave(o, &one);
    assert_null(sky__order_next_ready(o));
    sky__order_leave(o, &two);
    assert_ptr_equal(sky__order_next_ready(o), &remove);
    sky__order_leave(o, &remove);
    free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_is_as_the_table_says),
        cmocka_unit_test(what_is_being_stored_is_waited_for),
        cmocka_unit_test(a_name_comes_after_a_block),
        cmocka_unit_test(a_copy_takes_the_place_of_its_put),
        cmocka_unit_test(a_promotion_for_a_pin_is_older_than_what_waits_for_the_pin),
        cmocka_unit_test(a_removal_waits_for_promotions_that_store),
        cmocka_unit_test(changes_are_seen_until_they_are_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
