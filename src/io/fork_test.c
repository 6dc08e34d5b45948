/* Proves: a child of fork() is told apart from its parent, and a grandchild from both; it drops
 * sockets of its parent, and no file that has their number now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>

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

static int ends[2];

static int is_socket(uint64_t before) {
    (void)before;
    struct stat st;
    return fstat(ends[0], &st) == 0 && S_ISSOCK(st.st_mode);
}

static int is_open(uint64_t before) {
    (void)before;
    return fcntl(ends[0], F_GETFD) >= 0;
}

static void sockets_are_dropped_in_children(void **state) {
    (void)state;
    uint64_t now;
    assert_int_equal(sky_forks_watch(&now), SKY_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(in_child(is_socket), 1);
    sky_fork_drop(ends[0]);
    assert_int_equal(in_child(is_socket), 0);
    assert_int_equal(in_child(is_open), 1);
    assert_int_equal(is_socket(0), 1); /* the parent's is what it was */
    sky_fork_keep(ends[0]);
    sky_fork_keep(-1);
    assert_int_equal(in_child(is_socket), 1);
    sky_fork_drop(ends[0]);
    assert_int_equal(dup2(ends[1], ends[0]), ends[0]); /* another file has its number */
    assert_int_equal(in_child(is_socket), 1);
    sky_fork_keep(ends[0]);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(children_are_counted),
                                       cmocka_unit_test(sockets_are_dropped_in_children)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
