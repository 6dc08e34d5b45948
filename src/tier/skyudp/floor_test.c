/* Proves that what is kept comes back, that a clock which was set back is noticed, and that a file
 * of something else is not taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tier/skyudp/floor.h"

static char folder[64], path[96];

static int make(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/skymem-floor-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/floor", folder);
    return 0;
}

static int clean(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void what_is_kept_comes_back(void **state) {
    (void)state;
    int64_t kept = 7;
    sky_error error;
    assert_int_equal(sky_floor_read(path, 1000, &kept, &error), SKY_OK);
    assert_int_equal(kept, 0);
    assert_int_equal(sky_floor_write(path, 1800000000123, &error), SKY_OK);
    assert_int_equal(sky_floor_write(path, 1800000000456, &error), SKY_OK);
    assert_int_equal(sky_floor_read(path, 1800000000456, &kept, &error), SKY_OK);
    assert_int_equal(kept, 1800000000456);
    assert_int_equal(sky_floor_read(path, 1800000000456 - SKY_FLOOR_BEHIND_MS, &kept, &error),
                     SKY_OK);
    assert_int_equal(sky_floor_write("/none/such/floor", 1, &error), SKY_E_IO);
}

static void a_clock_set_back_is_noticed(void **state) {
    (void)state;
    int64_t kept;
    sky_error error;
    assert_int_equal(sky_floor_write(path, 1800000060000, &error), SKY_OK);
    assert_int_equal(sky_floor_read(path, 1800000000000, &kept, &error), SKY_E_DENIED);
    assert_non_null(strstr(error.text, "60 s behind"));
    assert_non_null(strstr(error.text, path));
}

static void another_file_is_none(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",     "x\n",    "-5\n",  "5",     "5 \n", "5\nmore", "12345678901234567890123456789\n",
        " 5\n", "  12\n", "+12\n", "007\n", "-0\n", "\n5\n",   "9999999999999999999\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t kept;
        sky_error error;
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        assert_int_equal(sky_floor_read(path, 1000, &kept, &error), SKY_E_CORRUPT);
    }
}

static void put(const char *where, const char *text) {
    FILE *f = fopen(where, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_file_that_others_may_write_is_refused(void **state) {
    (void)state;
    int64_t kept = 7;
    sky_error error;
    assert_int_equal(sky_floor_write(path, 1800000000000, &error), SKY_OK);
    assert_int_equal(chmod(path, 0622), 0);
    assert_int_equal(sky_floor_read(path, 1800000000000, &kept, &error), SKY_E_DENIED);
    assert_non_null(strstr(error.text, "lets other users change it"));
    assert_int_equal(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(sky_floor_read(path, 1800000000000, &kept, &error), SKY_E_DENIED);
        assert_non_null(strstr(error.text, "belongs to user 12345"));
    }
    unlink(path);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(sky_floor_read(path, 1800000000000, &kept, &error), SKY_E_CORRUPT);
    assert_int_equal(kept, 0);
}

/* A power cut leaves a part of the text, or none; anything else is somebody's. */
static void only_a_leftover_is_replaced(void **state) {
    (void)state;
    static const char *const leftovers[] = {"", "180", "1800000000000\n"}, *const others[] = {
                                                                               "notes\n", "180 \n",
                                                                               "1\n2\n"};
    char new[112];
    struct stat st;
    sky_error error;
    snprintf(new, sizeof new, "%s.new", path);
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        put(new, leftovers[i]);
        assert_int_equal(sky_floor_write(path, 5, &error), SKY_OK);
        assert_int_not_equal(stat(new, &st), 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        put(new, others[i]);
        assert_int_equal(sky_floor_write(path, 6, &error), SKY_E_CORRUPT);
        assert_non_null(strstr(error.text, "floor.new: not a file that a satellite left"));
        assert_int_equal(stat(new, &st), 0);
        assert_int_equal(st.st_size, strlen(others[i]));
    }
    unlink(new);
    assert_int_equal(symlink("floor", new), 0);
    assert_int_equal(sky_floor_write(path, 6, &error), SKY_E_CORRUPT);
    assert_int_equal(lstat(new, &st), 0);
    unlink(new);
}

/* Tells whether what is renamed was synced: a power cut in between cannot be tried here. */
static int synced, renamed_after;

int fdatasync(int fd) {
    synced++;
    return (int)syscall(SYS_fdatasync, fd);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    renamed_after = synced;
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

static void the_file_is_synced_before_its_rename(void **state) {
    (void)state;
    sky_error error;
    synced = renamed_after = 0;
    assert_int_equal(sky_floor_write(path, 5, &error), SKY_OK);
    assert_int_equal(renamed_after, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_kept_comes_back, make, clean),
        cmocka_unit_test_setup_teardown(a_clock_set_back_is_noticed, make, clean),
        cmocka_unit_test_setup_teardown(another_file_is_none, make, clean),
        cmocka_unit_test_setup_teardown(a_file_that_others_may_write_is_refused, make, clean),
        cmocka_unit_test_setup_teardown(only_a_leftover_is_replaced, make, clean),
        cmocka_unit_test_setup_teardown(the_file_is_synced_before_its_rename, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
