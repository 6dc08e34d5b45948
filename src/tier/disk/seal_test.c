/* Proves: nothing that a sealed folder holds is in clear, not values, names or keys; what was
 * stored comes back, in whole and in part, and is listed under its own key; files that are changed,
 * renamed, swapped or brought from elsewhere are counted misses, whatever their checksums say; and
 * a wrong key, a missing one, and one for a folder in clear are errors that say what to do. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "io/secret.h"
#include "tier/disk/disk_fixture.h"
#include "tier/disk/seal.h"
#include "tier/disk/segment.h"

#define LARGE (700000u)
#define SMALL 1000u
static const char name[] = "the name of a thing";

typedef struct {
    char *folder;
    char keys[2][300];
} place;

static char *query_of(const place *p, int key) {
    static char query[400];
    snprintf(query, sizeof query, "?direct=off&seal=%s", p->keys[key]);
    return query;
}

static int set_up(void **state) {
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->folder = disk_folder_make();
    for (int i = 0; i < 2; i++) {
        snprintf(p->keys[i], sizeof p->keys[i], "%s.key%d", p->folder, i);
        assert_int_equal(sky_secret_make(p->keys[i], NULL), SKY_OK);
    }
    *state = p;
    return 0;
}

static int tear_down(void **state) {
    place *p = *state;
    for (int i = 0; i < 2; i++)
        unlink(p->keys[i]);
    disk_folder_drop(p->folder);
    free(p);
    return 0;
}

static void put_named(sky_tier *tier, uint64_t n, size_t bytes) {
    uint8_t *payload = malloc(bytes);
    assert_non_null(payload);
    sky_fixture_fill(payload, bytes, n);
    sky_span span = {payload, bytes};
    sky_item item = {.key = sky_fixture_key(n),
                     .name = name,
                     .name_bytes = strlen(name),
                     .spans = &span,
                     .span_count = 1};
    sky_fixture_run(tier, SKY_OP_PUT, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    free(payload);
}

/* ---- the files of a folder ---- */

static char paths[8][512];
static size_t path_count;

static int note_entry(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)st;
    if (flag == FTW_F && strlen(path + at->base) == 64 && path_count < 8)
        snprintf(paths[path_count++], sizeof paths[0], "%s", path);
    return 0;
}

/* All entries, in the order of their sizes. */
static size_t find_entries(const place *p) {
    path_count = 0;
    assert_int_equal(nftw(p->folder, note_entry, 16, FTW_PHYS), 0);
    return path_count;
}

static uint8_t *read_all(const char *path, size_t *bytes) {
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    uint8_t *data = malloc((size_t)st.st_size + 1);
    assert_non_null(data);
    assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
    close(fd);
    *bytes = (size_t)st.st_size;
    return data;
}

static void write_all(const char *path, const void *data, size_t bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static const char *forbidden;
static size_t forbidden_bytes, found_in_clear;

static int look_for(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)st, (void)at;
    size_t bytes;
    if (flag != FTW_F)
        return 0;
    uint8_t *data = read_all(path, &bytes);
    found_in_clear += memmem(data, bytes, forbidden, forbidden_bytes) != NULL;
    found_in_clear += memmem(path, strlen(path), forbidden, forbidden_bytes) != NULL;
    free(data);
    return 0;
}

static size_t in_clear(const place *p, const void *what, size_t bytes) {
    forbidden = what;
    forbidden_bytes = bytes;
    found_in_clear = 0;
    assert_int_equal(nftw(p->folder, look_for, 16, FTW_PHYS), 0);
    return found_in_clear;
}

static void nothing_lies_in_clear(void **state) {
    const place *p = *state;
    sky_key parent = sky_fixture_key(1), child = sky_fixture_key(2);
    uint8_t payload[SMALL];
    char hex[65];
    for (int round = 0; round < 4; round++) {
        bool sealed = round % 2;
        sky_fixture_durable = round / 2; /* in a segment */
        sky_tier *tier = disk_open(p->folder, sealed ? query_of(p, 0) : "");
        put_named(tier, 1, SMALL);
        assert_int_equal(sky_fixture_put(tier, child, &parent, SMALL, 2), SKY_OK);
        disk_close(tier);
        size_t files = sealed ? 0 : 1, names = sky_fixture_durable ? 0 : files;
        sky_fixture_durable = false;
        assert_int_equal(disk_count_files(p->folder, 'e'), round / 2 ? 0 : 2);
        for (uint64_t n = 1; n <= 2; n++) {
            sky_key key = sky_fixture_key(n);
            sky_fixture_fill(payload, SMALL, n);
            sky_key_hex(&key, hex);
            assert_int_equal(in_clear(p, payload, 64), files);
            assert_true((in_clear(p, key.bytes, sizeof key.bytes) > 0) == !sealed);
            assert_int_equal(in_clear(p, hex, 64), names);
        }
        assert_int_equal(in_clear(p, name, strlen(name)), files);
        char command[600]; /* the next round begins with an empty folder */
        snprintf(command, sizeof command, "rm -rf '%s'/* '%s'/.[a-z]*", p->folder, p->folder);
        assert_int_equal(system(command), 0);
    }
}

static bool is_listed(void *context, const sky_entry *entry) {
    sky_key wanted = sky_fixture_key(1);
    *(int *)context += sky_key_equal(&entry->key, &wanted) && entry->name_bytes == strlen(name) &&
                       memcmp(entry->name, name, strlen(name)) == 0;
    return true;
}

static void what_was_stored_comes_back(void **state) {
    const place *p = *state;
    sky_key parent = sky_fixture_key(1), child = sky_fixture_key(2);
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, LARGE);
    assert_int_equal(sky_fixture_put(tier, child, &parent, SMALL, 2), SKY_OK);
    assert_non_null(strstr(sky_fixture_stat(tier).note, "sealed"));
    for (int again = 0; again < 3; again++) {
        assert_int_equal(sky_fixture_check(tier, parent, LARGE, 1), SKY_OK);
        assert_int_equal(sky_fixture_check(tier, child, SMALL, 2), SKY_OK);
        static uint8_t whole[LARGE], part[5000];
        sky_fixture_fill(whole, LARGE, 1);
        for (uint64_t from = 1; from + sizeof part < LARGE; from += 77777) {
            sky_span span = {part, sizeof part};
            sky_item item = {
                .key = parent, .range = {from, sizeof part}, .spans = &span, .span_count = 1};
            sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
            assert_int_equal(item.status, SKY_OK);
            assert_memory_equal(part, whole + from, sizeof part);
        }
        int listed = 0;
        assert_int_equal(tier->ops->list(tier, is_listed, &listed), SKY_OK);
        assert_int_equal(listed, 1);
        sky_verify_report report = {0};
        assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
        assert_int_equal(report.entries, 2);
        assert_int_equal(report.corrupt + report.orphans, 0);
        disk_close(tier);
        if (again == 1)
            disk_forget_catalogue(p->folder);
        tier = disk_open(p->folder, query_of(p, 0));
    }
    assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, parent), SKY_OK);
    assert_int_equal(sky_fixture_check(tier, child, SMALL, 2), SKY_MISS); /* it hung below */
    disk_close(tier);
}

/* ---- an adversary that knows all but the key ---- */

static void mend(uint8_t *file) {
    const size_t at = SKY_DISK_ACCESS_OFFSET - 8, last = SKY_DISK_HEADER_BYTES - 8;
    uint64_t sum = sky_checksum(file, at, 1);
    sky_store_u64(file + at, sum);
    sky_store_u64(file + last,
                  sky_checksum(file + SKY_DISK_ACCESS_OFFSET, SKY_DISK_ACCESS_BYTES - 8, sum));
}

static void assert_refused(const place *p, uint64_t n, const char *path) {
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    uint64_t before = sky_fixture_counts(tier).corrupt; /* the open may have met it already */
    sky_status status = sky_fixture_check(tier, sky_fixture_key(n), SMALL, n);
    assert_true(status == SKY_E_CORRUPT || (status == SKY_MISS && before == 1));
    assert_int_equal(sky_fixture_counts(tier).corrupt, 1);
    assert_int_equal(access(path, F_OK), -1);
    disk_close(tier);
}

static void changed_bytes_do_not_open(void **state) {
    const place *p = *state;
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, SMALL);
    disk_close(tier);
    assert_int_equal(find_entries(p), 1);
    size_t bytes;
    uint8_t *file = read_all(paths[0], &bytes);
    for (size_t at = 24; at < bytes; at += at < 160 ? 8 : 97) {
        uint8_t *changed = malloc(bytes);
        assert_non_null(changed);
        memcpy(changed, file, bytes);
        changed[at] ^= 4;
        mend(changed);
        bool access_record = at >= SKY_DISK_ACCESS_OFFSET && at < SKY_DISK_HEADER_BYTES;
        bool checksum = at >= SKY_DISK_ACCESS_OFFSET - 8 && at < SKY_DISK_ACCESS_OFFSET;
        write_all(paths[0], changed, bytes);
        if (!access_record && !checksum)
            assert_refused(p, 1, paths[0]);
        free(changed);
        write_all(paths[0], file, bytes);
        disk_forget_catalogue(p->folder);
    }
    tier = disk_open(p->folder, query_of(p, 0));
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), SMALL, 1), SKY_OK);
    disk_close(tier);
    free(file);
}

/* The only row of a segment, made to fit the header that was changed. */
static void mend_row(uint8_t *segment) {
    sky_segment_row r;
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS; row++) {
        uint8_t *bytes = segment + sky_segment_row_at(row);
        if (sky_segment_row_decode(bytes, 0, row, SKY_SEGMENT_UNITS_MIN, &r) != SKY_OK)
            continue;
        r.checksum = sky_load_u64(segment + SKY_SEGMENT_DATA_OFFSET + SKY_DISK_ACCESS_OFFSET - 8);
        sky_segment_row_encode(&r, 0, row, bytes);
    }
}

static void changed_bytes_of_a_segment_do_not_open(void **state) {
    const place *p = *state;
    char path[300];
    size_t bytes;
    sky_fixture_durable = true;
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, SMALL);
    sky_fixture_durable = false;
    disk_close(tier);
    snprintf(path, sizeof path, "%s/.segment-0", p->folder);
    uint8_t *file = read_all(path, &bytes), *changed = malloc(bytes);
    assert_non_null(changed);
    const size_t end = SKY_DISK_HEADER_BYTES + SKY_DISK_ALIGN;
    for (size_t at = 24; at < end; at += at < 160 ? 8 : 97) {
        if (at >= SKY_DISK_ACCESS_OFFSET - 8 && at < SKY_DISK_HEADER_BYTES)
            continue; /* who can write there may change these */
        memcpy(changed, file, bytes);
        changed[SKY_SEGMENT_DATA_OFFSET + at] ^= 4;
        mend(changed + SKY_SEGMENT_DATA_OFFSET);
        mend_row(changed);
        write_all(path, changed, bytes);
        disk_forget_catalogue(p->folder);
        tier = disk_open(p->folder, query_of(p, 0));
        sky_status status = sky_fixture_check(tier, sky_fixture_key(1), SMALL, 1);
        assert_true(status == SKY_E_CORRUPT || status == SKY_MISS);
        assert_int_equal(sky_fixture_counts(tier).corrupt, 1);
        disk_close(tier);
    }
    write_all(path, file, bytes);
    disk_forget_catalogue(p->folder);
    tier = disk_open(p->folder, query_of(p, 0));
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), SMALL, 1), SKY_OK);
    disk_close(tier);
    free(changed);
    free(file);
}

static void swapped_files_do_not_open(void **state) {
    const place *p = *state;
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, SMALL);
    put_named(tier, 2, SMALL);
    disk_close(tier);
    assert_int_equal(find_entries(p), 2);
    size_t bytes;
    uint8_t *first = read_all(paths[0], &bytes), *second = read_all(paths[1], &bytes);
    uint8_t *mixed = malloc(bytes); /* the pages of one under the header of the other */
    assert_non_null(mixed);
    memcpy(mixed, first, SKY_DISK_HEADER_BYTES);
    memcpy(mixed + SKY_DISK_HEADER_BYTES, second + SKY_DISK_HEADER_BYTES,
           bytes - SKY_DISK_HEADER_BYTES);
    const uint8_t *const swapped[][2] = {{second, first}, {mixed, second}, {first, first}};
    static const unsigned refused[] = {2, 1, 1};
    for (size_t i = 0; i < 3; i++) {
        write_all(paths[0], swapped[i][0], bytes);
        write_all(paths[1], swapped[i][1], bytes);
        tier = disk_open(p->folder, query_of(p, 0));
        unsigned wrong = 0;
        for (uint64_t n = 1; n <= 2; n++)
            wrong += sky_fixture_check(tier, sky_fixture_key(n), SMALL, n) != SKY_OK;
        assert_int_equal(wrong, refused[i]);
        assert_int_equal(sky_fixture_counts(tier).corrupt, refused[i]);
        disk_close(tier);
        disk_forget_catalogue(p->folder);
    }
    free(first);
    free(second);
    free(mixed);
}

/* ---- keys ---- */

static void assert_no_open(const place *p, const char *query, sky_status status, const char *why) {
    char url[700];
    sky_error error = {0};
    sky_tier *tier;
    snprintf(url, sizeof url, "disk:%s%s", p->folder, query);
    assert_int_equal(sky_disk_tier_open(url, &(sky_tier_env){0}, &tier, &error), status);
    if (!strstr(error.text, why))
        fail_msg("%s", error.text);
}

static void another_key_opens_nothing(void **state) {
    const place *p = *state;
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, SMALL);
    disk_close(tier);
    assert_no_open(p, query_of(p, 1), SKY_E_DENIED, "sealed under another key");
    assert_no_open(p, "", SKY_E_DENIED, "is sealed: name its key");
    assert_no_open(p, "?seal=/nowhere/key", SKY_E_IO, "/nowhere/key");
    assert_int_equal(chmod(p->keys[0], 0644), 0);
    assert_no_open(p, query_of(p, 0), SKY_E_DENIED, "chmod 600");
    assert_int_equal(chmod(p->keys[0], 0600), 0);
    char path[600];
    snprintf(path, sizeof path, "%s/.seal", p->folder);
    assert_int_equal(truncate(path, 40), 0);
    assert_no_open(p, query_of(p, 0), SKY_E_CORRUPT, ".seal: damaged");
}

static void a_process_without_descriptors_blames_no_other_user(void **state) {
    const place *p = *state;
    sky_error error = {0};
    sky_disk_seal *seal;
    struct rlimit before, few;
    disk_close(disk_open(p->folder, query_of(p, 0)));
    int root = open(p->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* all below it are taken */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)root + 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    sky_status status = sky_disk_seal_open(root, p->folder, p->keys[0], &seal, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(root);
    assert_int_equal(status, SKY_E_IO);
    assert_non_null(strstr(error.text, "too many files are open"));
    assert_null(strstr(error.text, "user"));
}

static void a_folder_in_clear_does_not_become_sealed(void **state) {
    const place *p = *state;
    sky_tier *tier = disk_open(p->folder, "");
    put_named(tier, 1, SMALL);
    disk_close(tier);
    assert_no_open(p, query_of(p, 0), SKY_E_PARAM, "is not sealed");
    char path[600];
    snprintf(path, sizeof path, "%s/.ledger", p->folder);
    assert_int_equal(truncate(path, 0), 0); /* it says nothing: the entries do */
    assert_no_open(p, query_of(p, 0), SKY_E_PARAM, "is not sealed");
    tier = disk_open(p->folder, "");
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), SMALL, 1), SKY_OK);
    disk_close(tier);
}

static bool never(void *context, const sky_entry *entry) {
    (void)context;
    (void)entry;
    fail_msg("a sealed entry was listed");
    return true;
}

/* Without its seal a folder's entries are not read, and not thrown away. */
static void entries_wait_for_a_lost_seal(void **state) {
    const place *p = *state;
    char seal[600], kept[600], catalogue[600];
    snprintf(seal, sizeof seal, "%s/.seal", p->folder);
    snprintf(kept, sizeof kept, "%s.kept", p->folder);
    snprintf(catalogue, sizeof catalogue, "%s/.catalogue", p->folder);
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, SMALL);
    disk_close(tier);
    assert_int_equal(rename(seal, kept), 0);
    unlink(catalogue);
    tier = disk_open(p->folder, "");
    assert_int_equal(tier->ops->list(tier, never, NULL), SKY_OK);
    sky_verify_report report = {0};
    assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    assert_int_equal(report.entries, 0);
    disk_close(tier);
    unlink(catalogue);
    assert_int_equal(rename(kept, seal), 0);
    tier = disk_open(p->folder, query_of(p, 0));
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), SMALL, 1), SKY_OK);
    disk_close(tier);
}

static void a_lost_folder_is_sealed_again(void **state) {
    const place *p = *state;
    char command[300];
    sky_tier *tier = disk_open(p->folder, query_of(p, 0));
    put_named(tier, 1, SMALL);
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    assert_int_equal(system(command), 0);
    put_named(tier, 2, SMALL);
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(2), SMALL, 2), SKY_OK);
    disk_close(tier);
    tier = disk_open(p->folder, query_of(p, 0));
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(2), SMALL, 2), SKY_OK);
    disk_close(tier);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(nothing_lies_in_clear),
        test(what_was_stored_comes_back),
        test(entries_wait_for_a_lost_seal),
        test(changed_bytes_do_not_open),
        test(changed_bytes_of_a_segment_do_not_open),
        test(swapped_files_do_not_open),
        test(another_key_opens_nothing),
        test(a_process_without_descriptors_blames_no_other_user),
        test(a_folder_in_clear_does_not_become_sealed),
        test(a_lost_folder_is_sealed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
