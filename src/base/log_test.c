/* Proves: a line says its level and its text, and what is below the threshold says nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* What `say` writes to stderr. */
static void hear(void (*say)(void), char *out, size_t bytes_max) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    int kept = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    say();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(pipe_ends[1]);
    ssize_t bytes = read(pipe_ends[0], out, bytes_max - 1);
    close(pipe_ends[0]);
    assert_true(bytes >= 0);
    out[bytes] = 0;
}

static void one_of_each(void) {
    sky_log(SKY_LOG_ERROR, "%s is broken", "disk");
    sky_log(SKY_LOG_WARNING, "slow");
    sky_log(SKY_LOG_DEBUG, "detail %d", 7);
}

static void a_long_one(void) {
    sky_log(SKY_LOG_ERROR, "%02000d", 0);
}

static void levels_are_a_threshold(void **state) {
    (void)state;
    char text[4096];
    sky_log_level_set(SKY_LOG_ERROR);
    hear(one_of_each, text, sizeof text);
    assert_string_equal(text, "skymem: error: disk is broken\n");
    sky_log_level_set(SKY_LOG_DEBUG);
    hear(one_of_each, text, sizeof text);
    assert_string_equal(text, "skymem: error: disk is broken\n"
                              "skymem: warning: slow\n"
                              "skymem: debug: detail 7\n");
}

static void a_long_line_is_cut_and_still_ends(void **state) {
    (void)state;
    char text[4096];
    hear(a_long_one, text, sizeof text);
    assert_int_equal(strlen(text), strlen("skymem: error: ") + 1023 + 1);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_a_threshold),
        cmocka_unit_test(a_long_line_is_cut_and_still_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
