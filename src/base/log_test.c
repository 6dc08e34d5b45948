/* Proves: a line says its level and its text, what is below the threshold says nothing, and a log
 * file is never waited for. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void a_long_line_is_cut_and_still_ends(void **state) {
    (void)state;
    char text[4096];
    hear(a_long_one, text, sizeof text);
    assert_int_equal(strlen(text), strlen("skymem: error: ") + 1023 + 1);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void one_of_somebody_elses_words(void) {
    sky_log(SKY_LOG_ERROR, "disk:%s: gone", "a\nskymem: error: all is lost\x1b[2J\xff");
}

static void a_line_stays_one_line(void **state) {
    (void)state;
    char text[4096];
    hear(one_of_somebody_elses_words, text, sizeof text);
    assert_string_equal(text, "skymem: error: disk:a\\x0askymem: error: all is lost\\x1b[2J\\xff"
                              ": gone\n");
}

static void read_file(const char *path, char *out, size_t bytes_max) {
    FILE *from = fopen(path, "re");
    assert_non_null(from);
    out[fread(out, 1, bytes_max - 1, from)] = 0;
    fclose(from);
}

/* What a program says with this in its environment, which is read at its first line. */
static void start_with(const char *wanted) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60); /* a log that waits for a reader fails this test instead of blocking it */
        setenv("SKYMEM_LOG", wanted, 1);
        one_of_each();
        exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void start_with_nonsense(void) {
    start_with("debugging");
}

static void the_environment_names_level_and_file(void **state) {
    (void)state;
    char path[] = "/tmp/skymem-log-XXXXXX", wanted[64], text[4096];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(wanted, sizeof wanted, "info,%s", path);
    start_with(wanted);
    start_with(wanted); /* appended */
    read_file(path, text, sizeof text);
    unlink(path);
    const char *first = strstr(text, "Z ["), *error = strstr(text, "] error: disk is broken\n");
    assert_true(first == text + strlen("2026-11-23T02:00:00.000") && error > first);
    assert_non_null(strstr(text, "] warning: slow\n"));
    assert_null(strstr(text, "detail"));
    assert_non_null(strstr(error + 1, "] error: disk is broken\n"));
    hear(start_with_nonsense, text, sizeof text);
    assert_non_null(strstr(text, "SKYMEM_LOG=debugging: must be error, warning, info or debug"));
    assert_non_null(strstr(text, "skymem: warning: slow\n"));
    assert_null(strstr(text, "detail"));
}

static char setting[80];

static void start_with_setting(void) {
    start_with(setting);
}

static void levels_are_a_threshold(void **state) {
    (void)state;
    char text[4096];
    strcpy(setting, "error");
    hear(start_with_setting, text, sizeof text);
    assert_string_equal(text, "skymem: error: disk is broken\n");
    strcpy(setting, "debug");
    hear(start_with_setting, text, sizeof text);
    assert_string_equal(text, "skymem: error: disk is broken\n"
                              "skymem: warning: slow\n"
                              "skymem: debug: detail 7\n");
}

static void a_pipe_is_no_log_file(void **state) {
    (void)state;
    char folder[] = "/tmp/skymem-log-XXXXXX", path[40], text[4096];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    snprintf(setting, sizeof setting, "info,%s", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    hear(start_with_setting, text, sizeof text); /* nobody reads it */
    assert_non_null(strstr(text, "/pipe: the log must be a regular file or a device\n"));
    assert_non_null(strstr(text, "skymem: warning: slow\n"));
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    hear(start_with_setting, text, sizeof text);
    assert_non_null(strstr(text, "/pipe: the log must be a regular file or a device\n"));
    assert_int_equal(read(reader, text, sizeof text), 0);
    close(reader);
    unlink(path);
    rmdir(folder);
    strcpy(setting, "info,/dev/null");
    hear(start_with_setting, text, sizeof text);
    assert_string_equal(text, "");
}

/* Set by the tests of files: which one, and what the warning says. */
static char folder[] = "/tmp/skymem-log-XXXXXX", file_path[64];

static void is_refused(const char *why) {
    char text[4096];
    struct stat before, after;
    snprintf(setting, sizeof setting, "info,%s", file_path);
    bool there = stat(file_path, &before) == 0;
    hear(start_with_setting, text, sizeof text);
    assert_non_null(strstr(text, why));
    assert_non_null(strstr(text, "skymem: warning: slow\n"));
    assert_int_equal(stat(file_path, &after) == 0, there);
    if (there)
        assert_int_equal(before.st_size, after.st_size);
}

static void a_log_file_is_the_users_own(void **state) {
    (void)state;
    char own[64], text[4096];
    struct stat st;
    assert_non_null(mkdtemp(folder));
    snprintf(own, sizeof own, "%s/own", folder);
    snprintf(file_path, sizeof file_path, "%s/other", folder);
    mode_t mask = umask(0);
    snprintf(setting, sizeof setting, "info,%s", own);
    hear(start_with_setting, text, sizeof text);
    umask(mask);
    assert_string_equal(text, "");
    assert_int_equal(stat(own, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(symlink("nothing", file_path), 0);
    is_refused("No such file");
    unlink(file_path);
    assert_int_equal(symlink("own", file_path), 0);
    is_refused("/other: it is a link");
    unlink(file_path);
    assert_int_equal(link(own, file_path), 0);
    is_refused("/other: it has more than one name");
    unlink(file_path);
    if (geteuid() == 0) {
        int fd = open(file_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        assert_true(fd >= 0 && fchown(fd, 12345, 12345) == 0);
        close(fd);
        is_refused("/other: it belongs to another user");
        unlink(file_path);
    }
    assert_int_equal(symlink("/dev/null", file_path), 0);
    snprintf(setting, sizeof setting, "info,%s", file_path);
    hear(start_with_setting, text, sizeof text);
    assert_string_equal(text, "");
    unlink(file_path);
    unlink(own);
    rmdir(folder);
}

/* With standard error in a file, to which /dev/stderr is a link. */
static void the_log_may_be_standard_error(void **state) {
    (void)state;
    char path[] = "/tmp/skymem-log-XXXXXX", text[4096];
    int fd = mkstemp(path), kept = dup(STDERR_FILENO);
    assert_true(fd >= 0 && kept >= 0);
    dup2(fd, STDERR_FILENO);
    start_with("info,/dev/stderr");
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(fd);
    read_file(path, text, sizeof text);
    unlink(path);
    assert_non_null(strstr(text, "Z ["));
    assert_non_null(strstr(text, "] warning: slow\n"));
}

static void keep_line(void *context, sky_log_level level, const char *text) {
    snprintf(context, 256, "%d %s", (int)level, text);
}

static void a_program_takes_the_lines(void **state) {
    (void)state;
    char heard[256] = "", kept[256] = "";
    const sky_log_sink sink = {keep_line, kept, SKY_LOG_INFO}, none = {NULL, kept, SKY_LOG_INFO};
    sky_log_to(&sink);
    assert_true(sky_log_wanted(SKY_LOG_INFO) && !sky_log_wanted(SKY_LOG_DEBUG));
    hear(one_of_each, heard, sizeof heard);
    assert_string_equal(heard, "");
    assert_string_equal(kept, "1 slow");
    sky_log(SKY_LOG_DEBUG, "not wanted");
    assert_string_equal(kept, "1 slow");
    sky_log_to(&none); /* one without a function is none */
    hear(one_of_each, heard, sizeof heard);
    assert_non_null(strstr(heard, "disk is broken"));
    sky_log_to(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_names_level_and_file), /* before a line of our own */
        cmocka_unit_test(a_pipe_is_no_log_file),
        cmocka_unit_test(a_log_file_is_the_users_own),
        cmocka_unit_test(the_log_may_be_standard_error),
        cmocka_unit_test(levels_are_a_threshold),
        cmocka_unit_test(a_line_stays_one_line),
        cmocka_unit_test(a_long_line_is_cut_and_still_ends),
        cmocka_unit_test(a_program_takes_the_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
