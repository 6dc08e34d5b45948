/* Files and folders: whole reads with a limit, the map from errno, locks, names of a folder. */
#include "io/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A folder of the test's own, and a descriptor of it. */
static char place[256];
static int folder;

static const char *at(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", place, name);
    return path;
}

static int set_up(void **state) {
    (void)state;
    const char *base = sky_environment("TMPDIR");
    snprintf(place, sizeof place, "%s/skymem-file-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(place));
    assert_int_equal(sky_file_open(SKY_FOLDER_HERE, place, SKY_FILE_FOLDER, &folder), SKY_OK);
    return 0;
}

static bool remove_name(void *context, const char *name, char kind) {
    (void)context, (void)kind;
    if (sky_file_remove(folder, name) != SKY_OK)
        rmdir(at(name));
    return true;
}

static int tear_down(void **state) {
    (void)state;
    assert_int_equal(sky_folder_each(folder, ".", remove_name, NULL), SKY_OK);
    sky_file_close(folder);
    return rmdir(place);
}

static void write_bytes(const char *name, const char *bytes, size_t count) {
    int fd;
    assert_int_equal(sky_file_open(folder, name, SKY_FILE_WRITE | SKY_FILE_CREATE, &fd), SKY_OK);
    assert_int_equal(sky_file_write_at(fd, bytes, count, 0), SKY_OK);
    sky_file_close(fd);
}

static void whole_files_are_read_up_to_a_limit(void **state) {
    (void)state;
    static char bytes[10000];
    memset(bytes, 'x', sizeof bytes);
    char *data = NULL;
    size_t count = 0;
    for (size_t length = 0; length <= sizeof bytes; length += 2500) {
        assert_int_equal(truncate(at("f"), 0), length ? 0 : -1);
        write_bytes("f", bytes, length);
        assert_int_equal(sky_file_read_all(at("f"), length, &data, &count, NULL), SKY_OK);
        assert_int_equal(count, length);
        assert_memory_equal(data, bytes, length);
        assert_int_equal(data[length], 0);
        free(data);
    }
    sky_error error = {0};
    data = NULL;
    assert_int_equal(sky_file_read_all(at("f"), 9999, &data, &count, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "larger than 9999"));
    assert_int_equal(sky_file_read_all(at("g"), 9999, &data, &count, &error), SKY_E_IO);
    assert_non_null(strstr(error.text, "No such file"));
    assert_int_equal(sky_file_read_all(place, 9999, &data, &count, &error), SKY_E_IO);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0); /* nobody ever writes into it */
    assert_int_equal(sky_file_read_all(at("pipe"), 9999, &data, &count, &error), SKY_E_IO);
    assert_non_null(strstr(error.text, "not a plain file"));
    assert_int_equal(unlink(at("pipe")), 0);
    assert_int_equal(sky_file_read_all("/dev/zero", 9999, &data, &count, &error), SKY_E_IO);
    assert_null(data);
}

static unsigned mode_of(const char *name) {
    struct stat st;
    assert_int_equal(stat(at(name), &st), 0);
    return st.st_mode & 0777;
}

static void what_is_no_plain_file_is_told_at_once(void **state) {
    (void)state;
    const unsigned modes[] = {SKY_FILE_PLAIN, SKY_FILE_PLAIN | SKY_FILE_DIRECT,
                              SKY_FILE_PLAIN | SKY_FILE_WRITE | SKY_FILE_CREATE};
    int fd;
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(sky_folder_make(folder, "d"), SKY_OK);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(sky_file_open(folder, "pipe", modes[i], &fd), SKY_E_CORRUPT);
        assert_int_equal(sky_file_open(folder, "d", modes[i], &fd), SKY_E_CORRUPT);
    }
    assert_int_equal(sky_file_open(folder, "plain", modes[2], &fd), SKY_OK);
    assert_int_equal(mode_of("plain"), 0600);
    assert_int_equal(mode_of("d"), 0700);
    assert_false(sky_file_replaced(fd, folder, "plain"));
    write_bytes("other", "abc", 3);
    assert_int_equal(sky_file_rename(folder, "other", "plain"), SKY_OK);
    assert_true(sky_file_replaced(fd, folder, "plain"));
    assert_int_equal(sky_file_remove(folder, "plain"), SKY_OK);
    assert_false(sky_file_replaced(fd, folder, "plain"));
    sky_file_space space = {0};
    assert_int_equal(sky_file_space_left(fd, &space), SKY_OK);
    assert_true(space.bytes > 0 && space.files > 0);
    sky_file_close(fd);
    assert_int_equal(sky_folder_remove(folder, "d"), SKY_OK);
    assert_int_equal(sky_folder_remove(folder, "d"), SKY_MISS);
}

static bool tell_all(void *context, const char *name, char kind) {
    (void)context, (void)name, (void)kind;
    return true;
}

/* In a folder's place it would lead out of ours. */
static void a_link_on_the_way_is_not_followed(void **state) {
    (void)state;
    int fd;
    sky_file_info info;
    assert_int_equal(sky_folder_make(folder, "inside"), SKY_OK);
    write_bytes("inside/f", "abc", 3);
    write_bytes("g", "abc", 3);
    assert_int_equal(symlink("inside", at("way")), 0);
    assert_int_equal(sky_file_open(folder, "way/f", SKY_FILE_READ, &fd), SKY_E_CORRUPT);
    unsigned new = SKY_FILE_PLAIN | SKY_FILE_WRITE | SKY_FILE_NEW;
    assert_int_equal(sky_file_open(folder, "way/n", new, &fd), SKY_E_CORRUPT);
    assert_int_equal(sky_file_open(folder, "way", SKY_FILE_FOLDER, &fd), SKY_E_CORRUPT);
    assert_int_equal(sky_file_stat(folder, "way/f", &info), SKY_E_CORRUPT);
    assert_int_equal(sky_file_remove(folder, "way/f"), SKY_E_CORRUPT);
    assert_int_equal(sky_file_rename(folder, "way/f", "f"), SKY_E_CORRUPT);
    assert_int_equal(sky_file_rename(folder, "g", "way/g"), SKY_E_CORRUPT);
    assert_int_equal(sky_folder_make(folder, "way/d"), SKY_E_CORRUPT);
    assert_int_equal(sky_folder_remove(folder, "way/d"), SKY_E_CORRUPT);
    assert_int_equal(sky_folder_each(folder, "way", tell_all, NULL), SKY_E_CORRUPT);
    assert_int_equal(sky_file_stat(folder, "inside/f", &info), SKY_OK);
    assert_int_equal(sky_file_remove(folder, "way"), SKY_OK); /* the link itself */
    assert_int_equal(sky_file_rename(folder, "g", "inside/g"), SKY_OK);
    assert_int_equal(sky_file_remove(folder, "inside/g"), SKY_OK);
    assert_int_equal(sky_file_remove(folder, "inside/f"), SKY_OK);
    assert_int_equal(sky_folder_remove(folder, "inside"), SKY_OK);
}

static void failures_have_one_status_each(void **state) {
    (void)state;
    int fd;
    sky_file_info info;
    write_bytes("f", "abc", 3);
    assert_int_equal(sky_file_open(folder, "none", SKY_FILE_READ, &fd), SKY_MISS);
    assert_int_equal(sky_file_open(folder, "f/below", SKY_FILE_READ, &fd), SKY_MISS);
    assert_int_equal(sky_file_open(folder, "f", SKY_FILE_WRITE | SKY_FILE_NEW, &fd), SKY_E_BUSY);
    assert_int_equal(symlink("f", at("link")), 0);
    assert_int_equal(sky_file_open(folder, "link", SKY_FILE_READ, &fd), SKY_E_CORRUPT);
    assert_int_equal(sky_file_stat(folder, "link", &info), SKY_OK);
    assert_false(info.regular);
    assert_int_equal(sky_file_stat(folder, "none", &info), SKY_MISS);
    assert_int_equal(sky_file_remove(folder, "none"), SKY_MISS);
    assert_int_equal(sky_file_rename(folder, "none", "f"), SKY_MISS);
    assert_int_equal(sky_errno_status(ENOSPC), SKY_E_FULL);
    assert_int_equal(sky_errno_status(EROFS), SKY_E_DENIED);
    assert_int_equal(sky_errno_status(EIO), SKY_E_IO);
    assert_int_equal(sky_errno_status(0), SKY_OK);
}

static void bytes_are_read_where_they_were_written(void **state) {
    (void)state;
    int fd;
    char bytes[16] = {0};
    size_t got;
    sky_file_info info;
    unsigned mode = SKY_FILE_WRITE | SKY_FILE_NEW;
    assert_int_equal(sky_file_open(folder, "f", mode, &fd), SKY_OK);
    assert_int_equal(sky_file_reserve(fd, 100), SKY_OK);
    assert_int_equal(sky_file_write_at(fd, "hello", 5, 97), SKY_OK);
    assert_int_equal(sky_file_sync(fd), SKY_OK);
    assert_int_equal(sky_file_stat_open(fd, &info), SKY_OK);
    assert_int_equal(info.bytes, 102);
    assert_true(info.regular && info.modified_ms > 1500000000000);
    assert_int_equal(sky_file_read_at(fd, bytes, sizeof bytes, 95, &got), SKY_OK);
    assert_int_equal(got, 7);
    assert_memory_equal(bytes, "\0\0hello", 7);
    assert_int_equal(sky_file_read_at(fd, bytes, sizeof bytes, 102, &got), SKY_OK);
    assert_int_equal(got, 0);
    assert_int_equal(sky_file_rename(folder, "f", "g"), SKY_OK);
    assert_int_equal(sky_file_stat(folder, "g", &info), SKY_OK);
    sky_file_close(fd);
}

/* What was just written is in the page cache, and its path known; what is not there is never waited
 * for. */
static void resident_bytes_are_read_at_once(void **state) {
    (void)state;
    char bytes[3][4096], wanted[3 * 4096];
    sky_file_info info;
    int fd;
    for (size_t i = 0; i < sizeof wanted; i++)
        wanted[i] = (char)(i * 7 % 251);
    write_bytes("x", wanted, sizeof wanted);
    assert_int_equal(sky_file_open_own(folder, "x", SKY_FILE_READ, &fd, &info), SKY_OK);
    assert_int_equal(info.bytes, sizeof wanted);
    const sky_span parts[] = {{bytes[2], 4096}, {bytes[0], 4096}, {bytes[1], 96}};
    if (!sky_file_read_resident(fd, parts, 3, 0)) /* not every file system can say so */
        skip();
    assert_memory_equal(bytes[2], wanted, 4096);
    assert_memory_equal(bytes[0], wanted + 4096, 4096);
    assert_memory_equal(bytes[1], wanted + 8192, 96);
    assert_false(sky_file_read_resident(fd, parts, 3, 8192)); /* past the end */
    sky_file_close(fd);
    sky_status status = sky_file_open_own(folder, "x", SKY_FILE_READ | SKY_FILE_KNOWN, &fd, &info);
    assert_true(status == SKY_OK || status == SKY_E_UNSUPPORTED);
    if (status == SKY_OK)
        sky_file_close(fd);
    status = sky_file_open(folder, "absent", SKY_FILE_READ | SKY_FILE_KNOWN, &fd);
    assert_true(status == SKY_MISS || status == SKY_E_BUSY || status == SKY_E_UNSUPPORTED);
    assert_int_equal(chmod(at("x"), 0620), 0); /* another user may write to it */
    assert_int_equal(sky_file_open_own(folder, "x", SKY_FILE_READ, &fd, &info), SKY_E_CORRUPT);
}

static void one_holds_a_lock(void **state) {
    (void)state;
    int first, second;
    write_bytes("f", "", 0);
    assert_int_equal(sky_file_open(folder, "f", SKY_FILE_READ, &first), SKY_OK);
    assert_int_equal(sky_file_open(folder, "f", SKY_FILE_READ, &second), SKY_OK);
    assert_int_equal(sky_file_lock(first, 0), SKY_OK);
    assert_int_equal(sky_file_lock(second, 0), SKY_E_BUSY);
    sky_time start = sky_now();
    assert_int_equal(sky_file_lock(second, start + SKY_MS(20)), SKY_E_BUSY);
    assert_true(sky_now() - start >= SKY_MS(20));
    sky_file_unlock(first);
    assert_int_equal(sky_file_lock(second, 0), SKY_OK);
    assert_int_equal(sky_file_lock(first, 0), SKY_E_BUSY);
    sky_file_close(second); /* lets go as well */
    assert_int_equal(sky_file_lock(first, 0), SKY_OK);
    sky_file_close(first);
    sky_file_close(SKY_FILE_NONE);
}

static bool tell_kind(void *context, const char *name, char kind) {
    char *kinds = context;
    kinds[name[0] - 'a'] = kind;
    return name[0] != 'z';
}

static bool stop_at_once(void *context, const char *name, char kind) {
    (void)name, (void)kind;
    (*(int *)context)++;
    return false;
}

static int open_new(const char *name) {
    int fd;
    assert_int_equal(sky_file_open(folder, name, SKY_FILE_WRITE | SKY_FILE_CREATE, &fd), SKY_OK);
    return fd;
}

static void one_holds_a_part(void **state) {
    (void)state;
    int one = open_new("a"), other = open_new("a"), copy;
    assert_int_equal(sky_file_lock_range(one, 64, 64, 0), SKY_OK);
    assert_int_equal(sky_file_lock_range(other, 100, 1, 0), SKY_E_BUSY);
    assert_int_equal(sky_file_lock_range(other, 100, 1, sky_now() + SKY_MS(5)), SKY_E_BUSY);
    assert_int_equal(sky_file_lock_range(other, 128, 64, 0), SKY_OK);
    assert_int_equal(sky_file_lock(other, 0), SKY_OK); /* of the whole file: something else */
    assert_int_equal(sky_file_copy(one, &copy), SKY_OK);
    sky_file_close(copy); /* the open file is still there, and so is its lock */
    assert_int_equal(sky_file_lock_range(other, 100, 1, 0), SKY_E_BUSY);
    sky_file_unlock_range(one, 64, 64);
    assert_int_equal(sky_file_lock_range(other, 100, 1, 0), SKY_OK);
    sky_file_close(one);
    sky_file_close(other);
}

static void blocks_are_given_back_and_taken(void **state) {
    (void)state;
    static uint8_t bytes[3 * 4096], back[sizeof bytes];
    int fd = open_new("a");
    size_t got;
    memset(bytes, 7, sizeof bytes);
    assert_int_equal(sky_file_write_at(fd, bytes, sizeof bytes, 0), SKY_OK);
    sky_status status = sky_file_punch(fd, 4096, 4096);
    assert_true(status == SKY_OK || status == SKY_E_UNSUPPORTED);
    memset(bytes + 4096, status == SKY_OK ? 0 : 7, 4096);
    status = sky_file_fill(fd, 4096, 4096);
    assert_true(status == SKY_OK || status == SKY_E_UNSUPPORTED);
    assert_int_equal(sky_file_read_at(fd, back, sizeof back, 0, &got), SKY_OK);
    assert_int_equal(got, sizeof back);
    assert_memory_equal(back, bytes, sizeof back);
    sky_file_info info;
    assert_int_equal(sky_file_stat_open(fd, &info), SKY_OK);
    assert_false(info.nameless);
    assert_int_equal(sky_file_remove(folder, "a"), SKY_OK);
    assert_int_equal(sky_file_stat_open(fd, &info), SKY_OK);
    assert_true(info.nameless);
    assert_int_equal(sky_folder_sync(folder), SKY_OK);
    sky_file_close(fd);
}

static void a_folder_tells_its_names(void **state) {
    (void)state;
    char kinds[27] = "..........................";
    write_bytes("a", "x", 1);
    assert_int_equal(sky_folder_make(folder, "b"), SKY_OK);
    assert_int_equal(sky_folder_make(folder, "b"), SKY_OK);
    assert_int_equal(symlink("a", at("c")), 0);
    assert_int_equal(sky_folder_each(folder, ".", tell_kind, kinds), SKY_OK);
    assert_string_equal(kinds, "fdo.......................");
    int calls = 0;
    assert_int_equal(sky_folder_each(folder, ".", stop_at_once, &calls), SKY_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(sky_folder_each(folder, "none", tell_kind, kinds), SKY_MISS);
    assert_int_equal(sky_folder_each(folder, "a", tell_kind, kinds), SKY_MISS);
}

static void folders_are_made_with_all_above(void **state) {
    (void)state;
    sky_error error = {0};
    assert_int_equal(sky_folder_make_all(at("d/e//f/"), &error), SKY_OK);
    assert_int_equal(sky_folder_make_all(at("d/e/f"), &error), SKY_OK);
    assert_int_equal(sky_folder_make_all("/", &error), SKY_OK);
    write_bytes("d/x", "", 0);
    assert_int_equal(sky_folder_make_all(at("d/x/y"), &error), SKY_E_IO);
    assert_non_null(strstr(error.text, "d/x/y: cannot make this folder"));
    assert_int_equal(sky_folder_make_all("", &error), SKY_E_PARAM);
    assert_int_equal(sky_file_remove(folder, "d/x"), SKY_OK);
    assert_int_equal(rmdir(at("d/e/f")), 0);
    assert_int_equal(rmdir(at("d/e")), 0);
}

static void processes_are_known(void **state) {
    (void)state;
    assert_true(sky_process_exists(sky_process_id()));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(sky_process_id() == (uint32_t)getpid() ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(sky_process_exists((uint32_t)child));
    assert_null(sky_environment("SKYMEM_SURELY_UNSET"));
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(whole_files_are_read_up_to_a_limit),
        test(what_is_no_plain_file_is_told_at_once),
        test(a_link_on_the_way_is_not_followed),
        test(failures_have_one_status_each),
        test(bytes_are_read_where_they_were_written),
        test(resident_bytes_are_read_at_once),
        test(one_holds_a_lock),
        test(one_holds_a_part),
        test(blocks_are_given_back_and_taken),
        test(a_folder_tells_its_names),
        test(folders_are_made_with_all_above),
        test(processes_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
