/* Proves that a disk tier trusts only what its user, or root, can have written: folders, ledgers
 * and entries that others may change are refused, and no second name of a file is written
 * through. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tier/disk/disk_fixture.h"

#define SMALL    100
#define SOMEBODY 12345

static sky_status try_open(const char *folder, sky_error *error) {
    char url[512];
    sky_tier *tier = NULL;
    *error = (sky_error){0};
    snprintf(url, sizeof url, "disk:%s", folder);
    sky_status status = sky_disk_tier_open(url, &(sky_tier_env){0}, &tier, error);
    if (status == SKY_OK)
        disk_close(tier);
    return status;
}

/* Refused, with a sentence that names the file and says what to do. */
static void assert_refused(const char *folder, const char *file, const char *advice) {
    sky_error error;
    assert_int_equal(try_open(folder, &error), SKY_E_DENIED);
    if (!strstr(error.text, file) || !strstr(error.text, advice))
        fail_msg("%s", error.text);
}

/* A folder with entry 1, and the path of that. */
static char *make_store(char entry[256]) {
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_key key = sky_fixture_key(1);
    assert_int_equal(sky_fixture_put(tier, key, NULL, SMALL, 1), SKY_OK);
    disk_close(tier);
    disk_entry_path(folder, &key, entry);
    return folder;
}

static void a_folder_that_others_may_change_is_refused(void **state) {
    (void)state;
    sky_error error;
    char *folder = disk_folder_make();
    static const mode_t modes[] = {0770, 0707, 0720, 0702, 01777};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        assert_refused(folder, folder, "chmod go-w");
    }
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(try_open(folder, &error), SKY_OK);
    if (geteuid() == 0) { /* only root can give a folder away */
        assert_int_equal(chown(folder, SOMEBODY, SOMEBODY), 0);
        assert_refused(folder, folder, "belongs to user 12345");
    }
    disk_folder_drop(folder);
}

static void a_ledger_that_others_may_change_is_refused(void **state) {
    (void)state;
    char entry[256], ledger[512];
    char *folder = make_store(entry);
    snprintf(ledger, sizeof ledger, "%s/.ledger", folder);
    assert_int_equal(chmod(ledger, 0620), 0);
    assert_refused(folder, ".ledger", "chmod go-w");
    assert_int_equal(chmod(ledger, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(ledger, SOMEBODY, SOMEBODY), 0);
        assert_refused(folder, ".ledger", "belongs to user 12345");
    }
    disk_folder_drop(folder);
}

/* The ledger is written in place: by a second name, into somebody's file. */
static void nothing_is_written_through_a_hard_link(void **state) {
    (void)state;
    char entry[256], ledger[512], victim[512], text[16] = "";
    char *folder = make_store(entry);
    snprintf(ledger, sizeof ledger, "%s/.ledger", folder);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    FILE *f = fopen(victim, "w");
    assert_non_null(f);
    assert_int_equal(fputs("precious", f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(unlink(ledger), 0);
    assert_int_equal(link(victim, ledger), 0);
    assert_refused(folder, ".ledger", "remove it");
    f = fopen(victim, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "precious");
    disk_folder_drop(folder);
}

typedef enum { GROUP_MAY_WRITE, SECOND_NAME, SOMEBODYS, WAYS } way;

static bool spoil(const char *entry, way how) {
    char other[300];
    snprintf(other, sizeof other, "%s.other", entry);
    if (how == GROUP_MAY_WRITE)
        return chmod(entry, 0660) == 0;
    if (how == SECOND_NAME)
        return link(entry, other) == 0;
    return geteuid() == 0 && chown(entry, SOMEBODY, SOMEBODY) == 0;
}

/* Damage: a miss that is counted, and the name is free for another. */
static void an_entry_that_others_may_change_is_damage(void **state) {
    (void)state;
    for (way how = 0; how < WAYS; how++) {
        char entry[256];
        char *folder = make_store(entry);
        if (spoil(entry, how)) {
            sky_key key = sky_fixture_key(1);
            sky_tier *tier = disk_open(folder, "");
            assert_int_equal(sky_fixture_check(tier, key, SMALL, 1), SKY_E_CORRUPT);
            assert_int_equal(sky_fixture_counts(tier).corrupt, 1);
            assert_int_equal(access(entry, F_OK), -1);
            assert_int_equal(sky_fixture_put(tier, key, NULL, SMALL, 1), SKY_OK);
            assert_int_equal(sky_fixture_check(tier, key, SMALL, 1), SKY_OK);
            disk_close(tier);
        }
        disk_folder_drop(folder);
    }
}

/* The key is then known from the entry's own header alone. */
static void a_catalogue_that_others_may_change_is_ignored(void **state) {
    (void)state;
    char entry[256], catalogue[512];
    char *folder = make_store(entry);
    snprintf(catalogue, sizeof catalogue, "%s/.catalogue", folder);
    assert_int_equal(chmod(catalogue, 0666), 0);
    assert_int_equal(unlink(entry), 0);
    sky_tier *tier = disk_open(folder, "");
    assert_int_equal(sky_fixture_counts(tier).entries, 0);
    disk_close(tier);
    disk_folder_drop(folder);
}

int main(void) {
    umask(022);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_others_may_change_is_refused),
        cmocka_unit_test(a_ledger_that_others_may_change_is_refused),
        cmocka_unit_test(nothing_is_written_through_a_hard_link),
        cmocka_unit_test(an_entry_that_others_may_change_is_damage),
        cmocka_unit_test(a_catalogue_that_others_may_change_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
