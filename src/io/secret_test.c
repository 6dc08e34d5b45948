/* Proves that a key is read only from a plain file that nobody else can read or change, and only
 * whole; and that made keys are private and differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "io/secret.h"

static char folder[] = "/tmp/skymem-secret-XXXXXX";
static char path[64];

static int make_folder(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static sky_status read_text(const char *text, mode_t mode, sky_error *error) {
    uint8_t key[SKY_SECRET_FILE_BYTES];
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
    return sky_secret_read(path, key, error);
}

#define DIGITS "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"

static void only_whole_keys_are_read(void **state) {
    (void)state;
    sky_error error;
    uint8_t key[SKY_SECRET_FILE_BYTES];
    assert_int_equal(read_text(DIGITS, 0600, &error), SKY_OK);
    assert_int_equal(read_text(DIGITS "\n", 0400, &error), SKY_OK);
    assert_int_equal(sky_secret_read(path, key, &error), SKY_OK);
    assert_int_equal(key[1], 0x11);
    assert_int_equal(key[16], 0xff);
    static const char *const bad[] = {
        "",
        "\n",
        "001122",
        DIGITS "0",
        DIGITS "\n\n",
        DIGITS " ",
        (" " DIGITS),
        "g0112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_text(bad[i], 0600, &error), SKY_E_CORRUPT);
        assert_non_null(strstr(error.text, path));
    }
}

static void open_keys_are_refused(void **state) {
    (void)state;
    sky_error error;
    uint8_t key[SKY_SECRET_FILE_BYTES];
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0777};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(read_text(DIGITS, modes[i], &error), SKY_E_DENIED);
        assert_non_null(strstr(error.text, "chmod 600"));
    }
    assert_int_equal(sky_secret_read(folder, key, &error), SKY_E_CORRUPT);
    unlink(path);
    assert_int_equal(sky_secret_read(path, key, &error), SKY_E_IO);
    if (geteuid() == 0) { /* only root can give a file away */
        assert_int_equal(read_text(DIGITS, 0600, &error), SKY_OK);
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(sky_secret_read(path, key, &error), SKY_E_DENIED);
        unlink(path);
    }
}

static void made_keys_are_private_and_differ(void **state) {
    (void)state;
    uint8_t keys[2][SKY_SECRET_FILE_BYTES];
    struct stat st;
    sky_error error;
    for (int i = 0; i < 2; i++) {
        unlink(path);
        assert_int_equal(sky_secret_make(path, &error), SKY_OK);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(sky_secret_read(path, keys[i], &error), SKY_OK);
    }
    assert_memory_not_equal(keys[0], keys[1], sizeof keys[0]);
    assert_int_equal(sky_secret_make(path, &error), SKY_E_BUSY);
    assert_int_equal(sky_secret_make("/nowhere/at/all", &error), SKY_E_IO);
}

static void a_salt_is_a_key_that_is_not_zero(void **state) {
    (void)state;
    sky_error error;
    uint8_t salt[SKY_SALT_BYTES] = {1};
    assert_int_equal(
        read_text("0000000000000000000000000000000000000000000000000000000000000000", 0600, &error),
        SKY_OK);
    assert_int_equal(sky_salt_read(path, salt, &error), SKY_E_CORRUPT);
    assert_non_null(strstr(error.text, "openssl rand"));
    assert_int_equal(salt[0], 1);
    assert_int_equal(read_text(DIGITS, 0600, &error), SKY_OK);
    assert_int_equal(sky_salt_read(path, salt, &error), SKY_OK);
    assert_int_equal(salt[1], 0x11);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(sky_salt_read(path, salt, NULL), SKY_E_DENIED);
    assert_int_equal(sky_salt_read(NULL, salt, &error), SKY_E_PARAM);
}

/* Whether the mapping that holds `at` has a flag, by /proc/self/smaps: "dd", not dumped; "lo",
 * locked. */
static bool has_flag(const void *at, const char *flag) {
    char line[512];
    unsigned long from = 0, to = 0;
    bool found = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
            from = first;
            to = last;
        }
        if ((uintptr_t)at >= from && (uintptr_t)at < to && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    fclose(f);
    return found;
}

static void memory_for_keys_is_not_swapped_nor_dumped(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4032, 4033, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *memory = sky_secret_alloc(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t at = 0; at < sizes[i]; at++) {
            assert_int_equal(memory[at], 0);
            memory[at] = 0xff;
        }
        if (access("/proc/self/smaps", R_OK) == 0) {
            assert_true(has_flag(memory, " dd"));
            assert_true(has_flag(memory, " lo") || sizes[i] > 4032);
        }
        sky_secret_free(memory);
    }
    sky_secret_free(NULL);
    assert_null(sky_secret_alloc(SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whole_keys_are_read),
        cmocka_unit_test(open_keys_are_refused),
        cmocka_unit_test(made_keys_are_private_and_differ),
        cmocka_unit_test(a_salt_is_a_key_that_is_not_zero),
        cmocka_unit_test(memory_for_keys_is_not_swapped_nor_dumped),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
