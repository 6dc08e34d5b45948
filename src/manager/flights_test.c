/* Proves: one claim on a key is owned at a time, those that wait learn whether the block came, and
 * no way out (failure, giving up, cancel) leaves anybody waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/clock.h"
#include "manager/flights.h"

static sky_key key_of(uint8_t n) {
    return (sky_key){{[8] = n, [31] = n}};
}

static void one_owns_and_others_learn(void **state) {
    (void)state;
    sky__flights f;
    sky__flights_init(&f);
    sky__claim c[4] = {0};
    int event;
    assert_int_equal(sky_event_create(&event), SKY_OK);
    sky_key one = key_of(1), two = key_of(2);
    assert_int_equal(sky__flights_claim(&f, &c[0], &one, -1), SKY__CLAIM_OWNED);
    assert_int_equal(sky__flights_claim(&f, &c[0], &one, -1), SKY__CLAIM_OWNED);
    assert_int_equal(sky__flights_claim(&f, &c[1], &one, event), SKY__CLAIM_WAITING);
    assert_int_equal(sky__flights_claim(&f, &c[2], &one, -1), SKY__CLAIM_WAITING);
    assert_int_equal(sky__flights_claim(&f, &c[3], &two, -1), SKY__CLAIM_OWNED);
    sky__flights_release(&f, &c[2], false); /* waits no more */
    assert_int_equal(c[2].state, SKY__CLAIM_NONE);
    sky__flights_release(&f, &c[0], false);
    assert_int_equal(sky_poll(&event, 1, 0), 1);
    assert_int_equal(sky__flights_state(&f, &c[1]), SKY__CLAIM_FAILED);
    assert_int_equal(sky__flights_claim(&f, &c[1], &one, -1), SKY__CLAIM_OWNED);
    assert_int_equal(sky__flights_claim(&f, &c[0], &one, -1), SKY__CLAIM_WAITING);
    sky__flights_release(&f, &c[1], true);
    assert_int_equal(sky__flights_claim(&f, &c[0], &one, -1), SKY__CLAIM_DELIVERED);
    sky__flights_release(&f, &c[0], true);
    assert_int_equal(sky__flights_state(&f, &c[0]), SKY__CLAIM_DELIVERED);
    sky__flights_release(&f, &c[3], true);
    sky__flights_release(&f, &c[3], true); /* twice is once */
    sky__flights_deinit(&f);
    sky_event_close(event);
}

typedef struct {
    sky__flights *flights;
    atomic_bool over;
    atomic_uint bringing; /* at this moment */
    atomic_uint brought;
    atomic_bool here;
    bool wrong;
} crowd;

static void *want_block(void *argument) {
    crowd *c = argument;
    sky__claim claim = {0};
    sky_key key = key_of(9);
    while (!atomic_load(&c->here)) {
        sky__claim_state state = sky__flights_claim(c->flights, &claim, &key, -1);
        if (state == SKY__CLAIM_WAITING) {
            sky__flights_wait(c->flights, &claim, 1, &c->over);
        } else if (state == SKY__CLAIM_OWNED) {
            c->wrong |= atomic_fetch_add(&c->bringing, 1) > 0;
            bool came = atomic_fetch_add(&c->brought, 1) == 2; /* the first two fail */
            atomic_fetch_sub(&c->bringing, 1);
            atomic_store(&c->here, came);
            sky__flights_release(c->flights, &claim, came);
        }
    }
    sky__flights_release(c->flights, &claim, false);
    return NULL;
}

static void a_failure_passes_the_claim_on(void **state) {
    (void)state;
    sky__flights f;
    sky__flights_init(&f);
    crowd c = {.flights = &f};
    sky_thread threads[8];
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(sky_thread_start(&threads[i], "want", want_block, &c), SKY_OK);
    for (size_t i = 0; i < 8; i++)
        sky_thread_join(&threads[i]);
    assert_false(c.wrong);
    assert_true(atomic_load(&c.brought) >= 3);
    sky__flights_deinit(&f);
}

static void *wait_body(void *argument) {
    crowd *c = argument;
    sky__claim claim = {0};
    sky_key key = key_of(1);
    c->wrong = sky__flights_claim(c->flights, &claim, &key, -1) != SKY__CLAIM_WAITING;
    atomic_store(&c->bringing, 1);
    sky__flights_wait(c->flights, &claim, 1, &c->over);
    sky__flights_release(c->flights, &claim, false);
    return NULL;
}

static void a_cancel_ends_the_waiting(void **state) {
    (void)state;
    sky__flights f;
    sky__flights_init(&f);
    crowd c = {.flights = &f};
    sky__claim owner = {0};
    sky_key key = key_of(1);
    sky_thread thread;
    sky__flights_claim(&f, &owner, &key, -1);
    assert_int_equal(sky_thread_start(&thread, "wait", wait_body, &c), SKY_OK);
    while (atomic_load(&c.bringing) == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    atomic_store(&c.over, true);
    sky__flights_wake(&f);
    sky_thread_join(&thread);
    assert_false(c.wrong);
    assert_null(owner.waiting);
    sky__flights_release(&f, &owner, true);
    sky__flights_deinit(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owns_and_others_learn),
        cmocka_unit_test(a_failure_passes_the_claim_on),
        cmocka_unit_test(a_cancel_ends_the_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
