/* Proves: a thread always gets the same stripe and threads that ask one after the other get
 * different ones; who holds all stripes is alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tier/mem/stripes.h"

typedef struct {
    sky__stripes *stripes;
    sky__stripe *seen[2];
    bool torn;
} worker;

static uint64_t shared[2]; /* equal, but while it is changed */

static void *look_body(void *argument) {
    worker *w = argument;
    for (int i = 0; i < 2000; i++) {
        sky__stripe *s = sky__stripe_lock(w->stripes);
        w->seen[i % 2] = s;
        w->torn |= shared[0] != shared[1];
        sky__stripe_unlock(s);
        if (i % 50 == 0) {
            sky__stripes_lock_all(w->stripes);
            shared[0]++;
            shared[1]++;
            sky__stripes_unlock_all(w->stripes);
        }
    }
    return NULL;
}

static void threads_have_stripes_of_their_own(void **state) {
    (void)state;
    sky__stripes stripes = {0};
    sky__stripes_deinit(&stripes);
    assert_int_equal(sky__stripes_init(&stripes), SKY_OK);
    assert_true(stripes.count >= 2 && (stripes.count & (stripes.count - 1)) == 0);
    worker workers[2] = {{.stripes = &stripes}, {.stripes = &stripes}};
    sky_thread threads[2];
    shared[0] = shared[1] = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(sky_thread_start(&threads[i], "look", look_body, &workers[i]), SKY_OK);
    for (int i = 0; i < 2; i++) {
        sky_thread_join(&threads[i]);
        assert_ptr_equal(workers[i].seen[0], workers[i].seen[1]);
        assert_false(workers[i].torn);
    }
    assert_ptr_not_equal(workers[0].seen[0], workers[1].seen[0]);
    assert_int_equal(shared[0], 80);
    assert_int_equal(sky_thread_number(), sky_thread_number());
    sky__stripes_deinit(&stripes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_have_stripes_of_their_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
