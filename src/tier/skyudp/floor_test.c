/* Proves that what is kept comes back, that a clock which was set back is noticed, and that a file
 * of something else is not taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
        "", "x\n", "-5\n", "5", "5 \n", "5\nmore", "12345678901234567890123456789\n"};
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_kept_comes_back, make, clean),
        cmocka_unit_test_setup_teardown(a_clock_set_back_is_noticed, make, clean),
        cmocka_unit_test_setup_teardown(another_file_is_none, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
