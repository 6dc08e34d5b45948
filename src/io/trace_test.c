/* Proves: the file of a trace is whole JSON after each write, also in the middle and after a kill;
 * what could be somebody's trap or treasure is not opened; a child of fork() adds nothing; and off,
 * nothing is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/trace.h"

static char folder[] = "/tmp/skymem-trace-XXXXXX";

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    setenv("SKYMEM_LOG", "error", 1); /* its status says what is refused here */
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* How many events the file holds after its head; asserts that it is a JSON array of objects. */
static int events_in(const char *name) {
    char command[512];
    snprintf(command, sizeof command,
             "python3 -c 'import json, sys; e = json.load(open(sys.argv[1])); "
             "assert all(isinstance(x, dict) for x in e); "
             "assert e[0][\"args\"][\"name\"] == \"skymem\"; sys.exit(len(e) - 1)' %s",
             path_of(name));
    int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void write_events(int count) {
    sky_key key = {{1, 2, 3, 4}};
    for (int i = 0; i < count; i++) {
        sky_trace_event e = {.category = "test",
                             .tier = i % 2 ? "mem" : NULL,
                             .name = "get",
                             .why = i % 3 ? "promotion" : NULL,
                             .status = "SKY_OK",
                             .id = i % 5 ? sky_trace_id() : 0,
                             .key = &key,
                             .items = 1,
                             .bytes = UINT64_MAX};
        sky_trace_span(&e, 1000, 2000 + i);
    }
}

static void put_file(const char *name, const char *text) {
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

static void it_is_json_after_each_write(void **state) {
    (void)state;
    struct stat st;
    assert_false(sky_trace_on());
    assert_int_equal(sky_trace_now(), 0);
    write_events(3); /* nobody listens */
    assert_int_equal(sky_trace_open(path_of("a")), SKY_OK);
    assert_true(sky_trace_on());
    assert_int_equal(sky_trace_open(path_of("b")), SKY_E_BUSY);
    assert_int_equal(events_in("a"), 0);
    write_events(5); /* one thread's, four pairs */
    assert_int_equal(events_in("a"), 0);
    sky_trace_flush(SKY_SECONDS(1000));
    assert_int_equal(events_in("a"), 0);
    sky_trace_flush(0);
    assert_int_equal(events_in("a"), 9);
    sky_trace_thread("here");
    sky_trace_close();
    assert_false(sky_trace_on());
    assert_int_equal(events_in("a"), 10);
    assert_int_equal(stat(path_of("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(sky_trace_open(path_of("a")), SKY_OK); /* replaced */
    sky_trace_close();
    assert_int_equal(events_in("a"), 0);
    sky_trace_close();
}

static void a_full_buffer_is_written(void **state) {
    (void)state;
    struct stat st;
    assert_int_equal(sky_trace_open(path_of("full")), SKY_OK);
    write_events(2000);
    assert_true(events_in("full") >= 0);
    assert_int_equal(stat(path_of("full"), &st), 0);
    assert_true(st.st_size > 65536);
    sky_trace_close();
    assert_int_equal(events_in("full"), (2000 / 5 + 2 * (2000 - 2000 / 5)) & 0xff);
}

static void assert_holds(const char *name, const char *text) {
    char back[256] = "";
    FILE *file = fopen(path_of(name), "r");
    assert_non_null(file);
    assert_int_equal(fread(back, 1, sizeof back - 1, file), strlen(text));
    assert_string_equal(back, text);
    fclose(file);
}

#define FIRST                                                                                      \
    "[{\"name\":\"process_name\",\"cat\":\"skymem-trace\",\"ph\":\"M\",\"args\":{\"name\":"        \
    "\"skymem\"},\"tid\":0,\"pid\":"

/* What begins as a trace of somebody else's, or breaks off, stays as it was. */
static void only_our_traces_are_replaced(void **state) {
    (void)state;
    static const char *const theirs[] = {
        "[\n  1,\n  2\n]\n",
        "[\n{\"name\":\"get\"}\n]\n",
        "[\n]\n",
        "[",
        "{}",
        "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"chrome\"}}\n]\n",
        FIRST,
        FIRST "7",
        FIRST "7}",
        FIRST "7} \n]\n",
        FIRST "}\n]\n",
        FIRST "-7}\n]\n",
        FIRST "7,\"mine\":1}\n]\n",
        FIRST "7777777777777777777777777777777777777777}\n]\n",
        " " FIRST "7}\n]\n"};
    static const char *const ours[] = {"", FIRST "7}\n]\n", FIRST "4194304},\n{}\n]\n",
                                       FIRST "7},\n{\"broken"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        put_file("theirs", theirs[i]);
        assert_int_equal(sky_trace_open(path_of("theirs")), SKY_E_DENIED);
        assert_holds("theirs", theirs[i]);
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        put_file("ours", ours[i]);
        assert_int_equal(sky_trace_open(path_of("ours")), SKY_OK);
        sky_trace_close();
        assert_int_equal(events_in("ours"), 0);
    }
}

static void what_may_be_a_trap_is_not_opened(void **state) {
    (void)state;
    char other[128], many[5000];
    put_file("text", "precious");
    assert_int_equal(sky_trace_open(path_of("text")), SKY_E_DENIED);
    put_file("list", FIRST "7}\n]\n");
    snprintf(other, sizeof other, "%s", path_of("list"));
    assert_int_equal(symlink(other, path_of("link")), 0);
    assert_int_equal(sky_trace_open(path_of("link")), SKY_E_DENIED);
    assert_int_equal(link(other, path_of("second")), 0);
    assert_int_equal(sky_trace_open(other), SKY_E_DENIED);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(sky_trace_open(path_of("pipe")), SKY_E_DENIED);
    assert_int_equal(sky_trace_open("/dev/null"), SKY_E_DENIED);
    assert_int_equal(sky_trace_open(folder), SKY_E_IO);
    assert_int_equal(sky_trace_open(path_of("no/such")), SKY_E_IO);
    memset(many, 'a', sizeof many);
    many[sizeof many - 1] = 0;
    assert_int_equal(sky_trace_open(many), SKY_E_PARAM);
    assert_false(sky_trace_on());
    assert_holds("text", "precious");
}

/* Exits with the body's answer. */
static int in_a_child(int (*body)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int write_as_child(void) {
    write_events(5);
    sky_trace_flush(0);
    sky_trace_close();
    return 0;
}

static int open_as_child(void) {
    return sky_trace_open(path_of("mine")) == SKY_E_BUSY;
}

static int open_own(void) {
    char own[160];
    if (sky_trace_open(path_of("own-%p")) != SKY_OK)
        return 1;
    snprintf(own, sizeof own, "%s/own-%ld", folder, (long)getpid());
    return access(own, R_OK) != 0;
}

static int die_tracing(void) {
    if (sky_trace_open(path_of("dead")) != SKY_OK)
        return 1;
    write_events(5);
    sky_trace_flush(0);
    write_events(5);
    return kill(getpid(), SIGKILL);
}

static void processes_do_not_meddle(void **state) {
    (void)state;
    assert_int_equal(in_a_child(open_own), 0);
    assert_true(WIFSIGNALED(in_a_child(die_tracing)));
    assert_int_equal(events_in("dead"), 9);
    assert_int_equal(sky_trace_open(path_of("mine")), SKY_OK);
    write_events(5);
    assert_int_equal(in_a_child(write_as_child), 0);
    assert_int_not_equal(in_a_child(open_as_child), 0);
    sky_trace_close();
    assert_int_equal(events_in("mine"), 9);
}

/* Files may grow no further than so: writes beyond fail, or are cut short. */
static int run_out_of_room(void) {
    const struct rlimit room = {.rlim_cur = 70000, .rlim_max = 70000};
    signal(SIGXFSZ, SIG_IGN);
    if (sky_trace_open(path_of("whole")) != SKY_OK || setrlimit(RLIMIT_FSIZE, &room) != 0)
        return 1;
    for (int i = 0; i < 40; i++)
        write_events(50);
    return sky_trace_on();
}

static void a_full_disk_ends_it_whole(void **state) {
    (void)state;
    struct stat st;
    assert_int_equal(in_a_child(run_out_of_room), 0);
    assert_int_equal(stat(path_of("whole"), &st), 0);
    assert_true(st.st_size > 30000 && st.st_size <= 70000);
    (void)events_in("whole");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_json_after_each_write),
        cmocka_unit_test(a_full_buffer_is_written),
        cmocka_unit_test(only_our_traces_are_replaced),
        cmocka_unit_test(what_may_be_a_trap_is_not_opened),
        cmocka_unit_test(processes_do_not_meddle),
        cmocka_unit_test(a_full_disk_ends_it_whole),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
