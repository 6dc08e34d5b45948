/* Proves: a child of fork() is told apart from its parent, and a grandchild from both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/fork.h"

/* The exit status of a child that runs `body`. */
static int in_child(int (*body)(uint64_t before)) {
    uint64_t before = sky_forks();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body(before));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int differs(uint64_t before) {
    return sky_forks() != before;
}

static int both_differ(uint64_t before) {
    return sky_forks() != before && in_child(differs);
}

static void children_are_counted(void **state) {
    (void)state;
    uint64_t first, again;
    assert_int_equal(sky_forks_watch(&first), SKY_OK);
    assert_int_equal(in_child(differs), 1);
    assert_int_equal(in_child(both_differ), 1);
    assert_int_equal(sky_forks_watch(&again), SKY_OK);
    assert_int_equal(again, first); /* the parent is what it was */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(children_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
