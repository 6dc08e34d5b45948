/* A disk tier at its limits: a full disk, a folder it may only read or not even that, a limit
 * shared by two, and what must outlive a restart: order of use, pins, expiry. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sched.h>

#include <cmocka.h>

#include "tier/disk/disk_fixture.h"

#define BLOCK   (100u << 10)
#define SKIPPED 77
#define NOBODY  65534

static sky_status put(sky_tier *tier, uint64_t n, size_t bytes) {
    return sky_fixture_put(tier, sky_fixture_key(n), NULL, bytes, n);
}

static sky_status check(sky_tier *tier, uint64_t n, size_t bytes) {
    return sky_fixture_check(tier, sky_fixture_key(n), bytes, n);
}

static sky_status has(sky_tier *tier, uint64_t n) {
    return sky_fixture_one(tier, SKY_OP_HAS, sky_fixture_key(n));
}

/* Run in a process of its own; 0, SKIPPED, or what went wrong. */
static int in_child(int (*body)(const char *folder), const char *folder) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body(folder));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    return WEXITSTATUS(status);
}

static int with_a_file_size_limit(const char *folder) {
    struct rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return SKIPPED;
    sky_tier *tier = disk_open(folder, "");
    if (put(tier, 1, BLOCK) != SKY_OK || put(tier, 2, 2 << 20) != SKY_E_FULL)
        return 1;
    if (disk_count_files(folder, 't') != 0 || has(tier, 2) != SKY_MISS)
        return 2;
    sky_tier_counts stat = sky_fixture_counts(tier);
    if (stat.dropped != 1 || stat.puts != 1)
        return 3;
    disk_close(tier);
    return 0;
}

static void a_file_size_limit_is_a_full_disk(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    assert_int_equal(in_child(with_a_file_size_limit, folder), 0);
    disk_folder_drop(folder);
}

/* A file system of 2 MiB under a tier that may hold 1 GiB: it makes room among its own. */
static int on_a_small_disk(const char *folder) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=2m,mode=700") != 0)
        return SKIPPED;
    sky_tier *tier = disk_open(folder, "?max=1GiB");
    for (uint64_t n = 0; n < 60; n++)
        if (put(tier, n, BLOCK) != SKY_OK || check(tier, n, BLOCK) != SKY_OK)
            return 1;
    sky_tier_counts stat = sky_fixture_counts(tier);
    uint64_t entries = stat.entries;
    if (put(tier, 99, 3 << 20) != SKY_E_FULL || disk_count_files(folder, 't') != 0)
        return 2;
    stat = sky_fixture_counts(tier);
    if (stat.entries != entries || entries < 15)
        return 5; /* something went for what could not fit */
    if (stat.evictions < 40 || stat.dropped != 1 || stat.errors != 0)
        return 3;
    disk_close(tier);
    return umount(folder) == 0 ? 0 : 4;
}

static void a_full_disk_is_made_room_on(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    assert_int_equal(in_child(on_a_small_disk, folder), 0);
    disk_folder_drop(folder);
}

/* A file system out of files, not bytes. An entry whose folders are missing needs three. */
static int on_a_disk_of_few_files(const char *folder) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=2m,mode=700,nr_inodes=8") != 0)
        return SKIPPED;
    sky_tier *tier = disk_open(folder, ""); /* two are taken: the root and the ledger */
    if (put(tier, 1, 100) != SKY_OK || put(tier, 2, 100) != SKY_OK)
        return 1;
    if (put(tier, 3, 100) != SKY_E_FULL || sky_fixture_counts(tier).evictions != 0)
        return 2; /* both together would not make room for a file and two folders */
    if (check(tier, 1, 100) != SKY_OK || check(tier, 2, 100) != SKY_OK)
        return 3;
    disk_close(tier);
    if (umount(folder) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=2m,mode=700,nr_inodes=12") != 0)
        return 4;
    tier = disk_open(folder, "");
    for (uint64_t n = 1; n < 5; n++) /* one is left over after three, so two must go */
        if (put(tier, n, 100) != SKY_OK || check(tier, n, 100) != SKY_OK)
            return 5;
    if (sky_fixture_counts(tier).evictions != 2 || check(tier, 3, 100) != SKY_OK)
        return 6;
    disk_close(tier);
    return umount(folder) == 0 ? 0 : 7;
}

static void a_disk_out_of_files_is_made_room_on(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    assert_int_equal(in_child(on_a_disk_of_few_files, folder), 0);
    disk_folder_drop(folder);
}

static bool become_nobody(void) {
    return geteuid() != 0 || seteuid(NOBODY) == 0;
}

static int in_a_folder_of_another(const char *folder) {
    if (!become_nobody())
        return SKIPPED;
    sky_tier *tier = disk_open(folder, "");
    if (check(tier, 1, BLOCK) != SKY_OK || has(tier, 2) != SKY_MISS)
        return 1;
    sky_key key = sky_fixture_key(1);
    if (sky_fixture_one(tier, SKY_OP_PIN, key) != SKY_E_DENIED ||
        sky_fixture_one(tier, SKY_OP_PIN, sky_fixture_key(2)) != SKY_MISS)
        return 5;
    if (put(tier, 2, 10) != SKY_E_DENIED || put(tier, 1, 10) != SKY_E_DENIED ||
        sky_fixture_one(tier, SKY_OP_REMOVE, key) != SKY_E_DENIED)
        return 2;
    sky_tier_counts stat = sky_fixture_counts(tier);
    if (stat.dropped != 2 || stat.hits != 1 || !strstr(sky_fixture_stat(tier).note, "read-only"))
        return 3;
    sky_verify_report report = {0};
    if (tier->ops->verify(tier, &report) != SKY_OK || report.entries != 1)
        return 4;
    disk_close(tier);
    return 0;
}

/* What a tier stores is for its owner alone. */
static size_t open_count;

static int count_open(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)path, (void)flag, (void)at;
    open_count += (st->st_mode & 077) != 0;
    return 0;
}

static size_t count_open_to_others(const char *folder) {
    open_count = 0;
    assert_int_equal(nftw(folder, count_open, 16, FTW_PHYS), 0);
    return open_count;
}

/* Until its owner says otherwise. */
static void open_to_others(const char *folder, uint64_t n) {
    sky_key key = sky_fixture_key(n);
    char path[256];
    disk_entry_path(folder, &key, path);
    assert_int_equal(chmod(path, 0644), 0);
    for (int i = 0; i < 2; i++) {
        *strrchr(path, '/') = '\0';
        assert_int_equal(chmod(path, 0755), 0);
    }
}

static void a_folder_that_may_only_be_read_is_read(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    assert_int_equal(put(tier, 1, BLOCK), SKY_OK);
    disk_close(tier);
    assert_int_equal(count_open_to_others(folder), 0);
    open_to_others(folder, 1);
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(in_child(in_a_folder_of_another, folder), 0);
    chmod(folder, 0755);
    disk_folder_drop(folder);
}

static int refused(const char *url, sky_status wanted, const char *sentence) {
    sky_tier *tier;
    sky_error error = {0};
    if (sky_disk_tier_open(url, &(sky_tier_env){0}, &tier, &error) != wanted)
        return 1;
    return error.status == wanted && strstr(error.text, sentence) ? 0 : 2;
}

static int where_nothing_is_allowed(const char *folder) {
    char url[512];
    if (!become_nobody())
        return SKIPPED;
    snprintf(url, sizeof url, "disk:%s", folder); /* neither read nor written */
    if (refused(url, SKY_E_DENIED, "Permission denied"))
        return 1;
    snprintf(url, sizeof url, "disk:%s/below", folder);
    return refused(url, SKY_E_DENIED, "cannot make this folder") ? 2 : 0;
}

static int with_an_entry_of_another(const char *folder) {
    if (!become_nobody())
        return SKIPPED;
    sky_tier *tier = disk_open(folder, "");
    sky_verify_report report = {0};
    if (tier->ops->verify(tier, &report) != SKY_OK || report.corrupt != 1 || report.entries != 1)
        return 1;
    disk_close(tier);
    return 0;
}

/* It may be sound; verify cannot say so, and it stays. */
static void an_entry_that_may_not_be_read_is_told(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    for (uint64_t n = 1; n < 3; n++) {
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
        open_to_others(folder, n);
    }
    disk_close(tier);
    sky_key key = sky_fixture_key(2);
    char path[256];
    disk_entry_path(folder, &key, path);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(in_child(with_an_entry_of_another, folder), 0);
    assert_int_equal(disk_count_files(folder, 'e'), 2);
    disk_folder_drop(folder);
}

static void a_forbidden_folder_is_told(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    assert_int_equal(chmod(folder, 0), 0);
    assert_int_equal(in_child(where_nothing_is_allowed, folder), 0);
    chmod(folder, 0755);
    disk_folder_drop(folder);
}

static void bad_urls_are_told(void **state) {
    (void)state;
    assert_int_equal(refused("disk:", SKY_E_SYNTAX, "disk:"), 0);
    assert_int_equal(refused("mem:1MiB", SKY_E_SYNTAX, "disk:PATH"), 0);
    assert_int_equal(refused("disk:/tmp/x?max=7KiB", SKY_E_SYNTAX, "at least 8KiB"), 0);
    assert_int_equal(refused("disk:/tmp/x?max=2000000TiB", SKY_E_SYNTAX, "at most 1048576TiB"), 0);
    assert_int_equal(refused("disk:/tmp/x?create=perhaps", SKY_E_SYNTAX, "yes or no"), 0);
    assert_int_equal(refused("disk:/tmp/x?direct=maybe", SKY_E_SYNTAX, "auto, on or off"), 0);
    assert_int_equal(refused("disk:/tmp/x?ttl=5000000000", SKY_E_SYNTAX, "ttl"), 0);
    assert_int_equal(refused("disk:/tmp/x?size=1", SKY_E_SYNTAX, "size"), 0);
    assert_int_equal(refused("disk:/dev/null", SKY_E_IO, "Not a directory"), 0);
    assert_int_equal(refused("disk:/dev/null?create=no", SKY_E_IO, "is not a folder"), 0);
    assert_int_equal(refused("disk:/dev/null/x", SKY_E_IO, "cannot make"), 0);
}

/* With create=no a folder must be there, and one that was never a cache is left as it is. */
static void what_only_looks_makes_nothing(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    char path[256];
    snprintf(path, sizeof path, "disk:%s/typo/deep?create=no", folder);
    assert_int_equal(refused(path, SKY_MISS, "no such folder"), 0);
    sky_tier *tier = disk_open(folder, "?create=no");
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(1), BLOCK, 1), SKY_MISS);
    assert_int_equal(put(tier, 1, BLOCK), SKY_E_DENIED);
    disk_close(tier);
    assert_int_equal(rmdir(folder), 0); /* it is still empty */
    tier = disk_open(folder, "?create=yes");
    assert_int_equal(put(tier, 1, BLOCK), SKY_OK);
    disk_close(tier);
    tier = disk_open(folder, "?max=1MiB&create=no&ttl=9");
    assert_int_equal(put(tier, 2, BLOCK), SKY_OK);
    const sky_tier_stat stat = sky_fixture_stat(tier);
    assert_string_equal(strchr(stat.url, '?'), "?max=1MiB&ttl=9");
    disk_close(tier);
    disk_folder_drop(folder);
}

static void order_and_pins_outlive_a_restart(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    const char *query = "?max=1100KiB"; /* ten blocks of 104 KiB */
    sky_tier *tier = disk_open(folder, query);
    for (uint64_t n = 0; n < 10; n++)
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
    assert_int_equal(sky_fixture_one(tier, SKY_OP_PIN, sky_fixture_key(1)), SKY_OK);
    usleep(2000); /* the order is kept in milliseconds */
    assert_int_equal(check(tier, 0, BLOCK), SKY_OK);
    disk_close(tier);
    tier = disk_open(folder, query);
    for (uint64_t n = 10; n < 18; n++)
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
    assert_int_equal(check(tier, 0, BLOCK), SKY_OK);
    assert_int_equal(check(tier, 1, BLOCK), SKY_OK);
    for (uint64_t n = 2; n < 10; n++)
        assert_int_equal(has(tier, n), SKY_MISS);
    assert_int_equal(sky_fixture_one(tier, SKY_OP_UNPIN, sky_fixture_key(1)), SKY_OK);
    disk_close(tier);
    tier = disk_open(folder, query);
    assert_int_equal(sky_fixture_one(tier, SKY_OP_UNPIN, sky_fixture_key(1)), SKY_E_PARAM);
    disk_close(tier);
    disk_folder_drop(folder);
}

static void put_bytes_of_class(sky_tier *tier, uint64_t n, uint8_t evict, size_t bytes) {
    static uint8_t data[BLOCK];
    sky_span span = {data, bytes};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_fill(data, bytes, n);
    sky_fixture_run(tier, SKY_OP_PUT, &item, 1, &(sky_call){.evict = evict});
    assert_int_equal(item.status, SKY_OK);
}

static void put_class(sky_tier *tier, uint64_t n, uint8_t evict) {
    put_bytes_of_class(tier, n, evict, BLOCK);
}

static uint8_t class_of(sky_tier *tier, sky_op op, uint64_t n) {
    static uint8_t data[BLOCK];
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_run(tier, op, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    return item.evict;
}

/* Also after a restart, by the catalogue and by the entries' headers. */
static void classes_say_what_is_evicted_first(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?max=1MiB"); /* room for 9 */
    put_class(tier, 1, SKY_EVICT_LAST);
    put_class(tier, 2, SKY_EVICT_NORMAL);
    put_class(tier, 3, SKY_EVICT_SOON);
    for (int round = 0; round < 2; round++) {
        disk_close(tier);
        if (round == 1)
            disk_forget_catalogue(folder);
        tier = disk_open(folder, "?max=1MiB");
        for (int op = 0; op < 2; op++) {
            assert_int_equal(class_of(tier, op ? SKY_OP_GET : SKY_OP_HAS, 1), SKY_EVICT_LAST);
            assert_int_equal(class_of(tier, op ? SKY_OP_GET : SKY_OP_HAS, 2), SKY_EVICT_NORMAL);
            assert_int_equal(class_of(tier, op ? SKY_OP_GET : SKY_OP_HAS, 3), SKY_EVICT_SOON);
        }
    }
    for (uint64_t n = 4; has(tier, 3) == SKY_OK && n < 20; n++)
        put_class(tier, n, SKY_EVICT_NORMAL);
    assert_int_equal(has(tier, 3), SKY_MISS);
    assert_int_equal(has(tier, 2), SKY_OK);
    for (uint64_t n = 20; n < 40; n++)
        put_class(tier, n, SKY_EVICT_NORMAL);
    assert_int_equal(has(tier, 2), SKY_MISS);
    assert_int_equal(class_of(tier, SKY_OP_GET, 1), SKY_EVICT_LAST);
    for (uint64_t n = 40; n < 60; n++) /* at most half of the limit: the oldest are normal */
        put_class(tier, n, SKY_EVICT_LAST);
    for (uint64_t n = 60; n < 80; n++)
        put_class(tier, n, SKY_EVICT_NORMAL);
    assert_int_equal(has(tier, 79), SKY_OK);
    assert_int_equal(has(tier, 78), SKY_OK);
    disk_close(tier);
    disk_folder_drop(folder);
}

/* Of what an entry takes besides its byte, and of the entries there may be, half is for others. */
static void small_entries_leave_half_to_others(void **state) {
    (void)state;
    static const struct {
        const char *query;
        uint64_t room; /* for so many of them */
    } limits[] = {{"?max=2MiB&direct=off", 256}, {"?max=60MiB&direct=off", 1024}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const uint64_t room = limits[i].room, others = room / 2;
        char *folder = disk_folder_make();
        sky_tier *tier = disk_open(folder, limits[i].query);
        for (uint64_t n = 0; n < room; n++)
            put_bytes_of_class(tier, n, SKY_EVICT_LAST, 1);
        for (uint64_t n = room; n < room + others; n++)
            put_bytes_of_class(tier, n, SKY_EVICT_NORMAL, 1);
        assert_int_equal(sky_fixture_counts(tier).entries, room);
        for (uint64_t n = 0; n < room; n++)
            assert_int_equal(has(tier, n), n < others ? SKY_MISS : SKY_OK);
        for (uint64_t n = room; n < room + others; n++)
            assert_int_equal(has(tier, n), SKY_OK);
        disk_close(tier);
        disk_folder_drop(folder);
    }
}

/* Put, or pin, entries of a byte each from `n` on; entry 0 leads to entry 1. */
static void run_small(sky_tier *tier, sky_op op, uint64_t n, size_t count) {
    uint8_t byte = 0;
    sky_span span = {&byte, 1};
    sky_item *items = calloc(count, sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < count; i++) {
        items[i] = (sky_item){.key = sky_fixture_key(n + i), .spans = &span, .span_count = 1};
        if (n + i == 1)
            items[i].parent = sky_fixture_key(0);
    }
    sky_fixture_run(tier, op, items, count, NULL);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(items[i].status, SKY_OK);
    free(items);
}

/* Opened again with fewer places than there are entries: what is pinned stays, and what leads to
 * it, however old; and all that is pinned, if there is more of it than there are places. */
static void fewer_places_leave_what_is_pinned(void **state) {
    (void)state;
    enum { PLACES = 1024, ENTRIES = PLACES + 8 };
    const char *large = "?max=128MiB&direct=off", *small = "?max=1MiB&direct=off";
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, large);
    run_small(tier, SKY_OP_PUT, 0, 2);
    run_small(tier, SKY_OP_PIN, 1, 1);
    usleep(2000); /* the others are newer */
    run_small(tier, SKY_OP_PUT, 2, ENTRIES - 2);
    disk_close(tier);
    tier = disk_open(folder, small);
    assert_int_equal(disk_count_files(folder, 'e'), PLACES);
    assert_int_equal(has(tier, 0), SKY_OK);
    assert_int_equal(has(tier, 1), SKY_OK);
    disk_close(tier);
    tier = disk_open(folder, large);
    run_small(tier, SKY_OP_PUT, ENTRIES, 8);
    for (uint64_t n = 2; n < ENTRIES + 8; n++)
        if (has(tier, n) == SKY_OK)
            run_small(tier, SKY_OP_PIN, n, 1);
    disk_close(tier);
    tier = disk_open(folder, small);
    assert_int_equal(disk_count_files(folder, 'e'), PLACES + 7);
    assert_int_equal(has(tier, 0), SKY_MISS); /* it leads to one of them, but is none */
    disk_close(tier);
    disk_folder_drop(folder);
}

/* Two tiers are two processes as far as the folder is concerned. */
static void two_tiers_keep_one_limit(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    const char *query = "?max=2MiB";
    sky_tier *a = disk_open(folder, query), *b = disk_open(folder, query);
    for (uint64_t n = 0; n < 60; n++)
        assert_int_equal(put(n % 3 ? a : b, n, BLOCK), SKY_OK);
    assert_true(disk_count_files(folder, 'e') <= 19);
    assert_true(disk_count_files(folder, 'e') >= 17);
    assert_int_equal(check(a, 59, BLOCK), SKY_OK); /* whoever stored it */
    assert_int_equal(check(b, 59, BLOCK), SKY_OK);
    assert_int_equal(check(a, 58, BLOCK), SKY_OK);
    assert_int_equal(has(b, 57), SKY_OK);
    assert_int_equal(sky_fixture_one(a, SKY_OP_REMOVE, sky_fixture_key(59)), SKY_OK);
    assert_int_equal(check(b, 59, BLOCK), SKY_MISS);
    assert_int_equal(has(b, 59), SKY_MISS);
    assert_int_equal(sky_fixture_counts(b).corrupt, 0);
    disk_close(a);
    disk_close(b);
    disk_folder_drop(folder);
}

static void a_pin_holds_for_the_other_process_too(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    const char *query = "?max=1100KiB";
    sky_tier *a = disk_open(folder, query);
    assert_int_equal(put(a, 0, BLOCK), SKY_OK);
    sky_tier *b = disk_open(folder, query);
    assert_int_equal(sky_fixture_one(a, SKY_OP_PIN, sky_fixture_key(0)), SKY_OK);
    for (uint64_t n = 1; n < 25; n++)
        assert_int_equal(put(b, n, BLOCK), SKY_OK);
    assert_int_equal(check(b, 0, BLOCK), SKY_OK);
    disk_close(a);
    disk_close(b);
    disk_folder_drop(folder);
}

/* Both had the folder open all the time; who closes last writes the catalogue. */
static void pins_and_unpins_of_another_are_heeded(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    const char *query = "?max=1100KiB";
    sky_key first = sky_fixture_key(0), second = sky_fixture_key(1);
    sky_tier *a = disk_open(folder, query);
    assert_int_equal(put(a, 0, BLOCK), SKY_OK);
    assert_int_equal(put(a, 1, BLOCK), SKY_OK);
    assert_int_equal(sky_fixture_one(a, SKY_OP_PIN, second), SKY_OK);
    disk_close(a);
    a = disk_open(folder, query);
    sky_tier *b = disk_open(folder, query);
    assert_int_equal(check(a, 0, BLOCK), SKY_OK); /* a use to be recorded when it closes */
    assert_int_equal(check(b, 1, BLOCK), SKY_OK);
    assert_int_equal(sky_fixture_one(b, SKY_OP_PIN, first), SKY_OK);
    assert_int_equal(sky_fixture_one(b, SKY_OP_UNPIN, second), SKY_OK);
    assert_int_equal(sky_fixture_one(a, SKY_OP_UNPIN, second), SKY_E_PARAM);
    for (uint64_t n = 2; n < 25; n++)
        assert_int_equal(put(a, n, BLOCK), SKY_OK);
    assert_int_equal(check(a, 0, BLOCK), SKY_OK);
    assert_int_equal(check(a, 1, BLOCK), SKY_MISS);
    disk_close(b);
    disk_close(a);
    a = disk_open(folder, query);
    assert_int_equal(sky_fixture_one(a, SKY_OP_UNPIN, first), SKY_OK);
    disk_close(a);
    disk_folder_drop(folder);
}

/* The first is held by the pin of its child. */
static void what_cannot_fit_evicts_nothing(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?max=1100KiB");
    sky_key root = sky_fixture_key(0);
    assert_int_equal(put(tier, 0, 3 * BLOCK), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(1), &root, 2 * BLOCK, 1), SKY_OK);
    assert_int_equal(sky_fixture_one(tier, SKY_OP_PIN, sky_fixture_key(1)), SKY_OK);
    for (uint64_t n = 2; n < 5; n++)
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
    assert_int_equal(put(tier, 9, 7 * BLOCK), SKY_E_FULL);
    assert_int_equal(sky_fixture_counts(tier).evictions, 0);
    assert_int_equal(sky_fixture_one(tier, SKY_OP_UNPIN, sky_fixture_key(1)), SKY_OK);
    assert_int_equal(put(tier, 9, 7 * BLOCK), SKY_OK);
    assert_int_equal(check(tier, 9, 7 * BLOCK), SKY_OK);
    disk_close(tier);
    disk_folder_drop(folder);
}

static sky_time puts_take(sky_tier *tier, uint64_t first) {
    sky_time start = sky_now();
    for (uint64_t n = first; n < first + 30; n++)
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
    return sky_now() - start;
}

static void a_ledger_held_by_another_costs_little(void **state) {
    (void)state;
    char *folder = disk_folder_make(), path[256];
    sky_tier *tier = disk_open(folder, "?max=2MiB");
    sky_time free_ns = puts_take(tier, 0);
    snprintf(path, sizeof path, "%s/.ledger", folder);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    sky_time held_ns = puts_take(tier, 100);
    assert_true(held_ns < 3 * free_ns + SKY_SECONDS(1)); /* not 50 ms for each of 60 tries */
    assert_int_equal(check(tier, 129, BLOCK), SKY_OK);
    assert_true(sky_fixture_counts(tier).bytes_used <= 2 << 20);
    close(fd);
    disk_close(tier);
    tier = disk_open(folder, "?max=2MiB");
    assert_int_equal(sky_fixture_counts(tier).entries, disk_count_files(folder, 'e'));
    disk_close(tier);
    disk_folder_drop(folder);
}

/* The last of the chain is the only leaf, and must not make room for its own child. */
static void a_chain_too_long_keeps_its_beginning(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?max=1100KiB");
    sky_status last = SKY_OK;
    for (uint64_t n = 0; n < 11; n++) {
        sky_key parent = sky_fixture_key(n - 1);
        last = sky_fixture_put(tier, sky_fixture_key(n), n ? &parent : NULL, BLOCK, n);
        assert_int_equal(last, n < 10 ? SKY_OK : SKY_E_FULL);
    }
    for (uint64_t n = 0; n < 10; n++)
        assert_int_equal(check(tier, n, BLOCK), SKY_OK);
    disk_close(tier);
    disk_folder_drop(folder);
}

/* All under way at once: what follows a block that did not fit must not drive out what leads to it.
 * What was there before makes room. */
static void a_batch_too_long_keeps_its_beginning(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?max=550KiB"); /* five blocks of 104 KiB */
    for (uint64_t n = 100; n < 104; n++)
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
    uint8_t *bytes = malloc(BLOCK);
    assert_non_null(bytes);
    sky_fixture_fill(bytes, BLOCK, 7);
    sky_span span = {bytes, BLOCK};
    sky_item items[20] = {0};
    for (uint64_t n = 0; n < 20; n++) {
        items[n] = (sky_item){.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        if (n > 0)
            items[n].parent = sky_fixture_key(n - 1);
    }
    sky_fixture_run(tier, SKY_OP_PUT, items, 20, NULL);
    for (uint64_t n = 0; n < 20; n++) {
        assert_int_equal(items[n].status, n < 5 ? SKY_OK : SKY_E_FULL);
        assert_int_equal(sky_fixture_check(tier, sky_fixture_key(n), BLOCK, 7),
                         n < 5 ? SKY_OK : SKY_MISS);
    }
    assert_int_equal(sky_fixture_counts(tier).evictions, 4);
    free(bytes);
    disk_close(tier);
    disk_folder_drop(folder);
}

/* A block nobody can reach may lie where there is room, and drives nothing out. */
static void an_orphan_evicts_nothing(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?max=550KiB");
    sky_key absent = sky_fixture_key(50);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(put(tier, n, BLOCK), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(51), &absent, BLOCK, 1), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(52), &absent, BLOCK, 1), SKY_E_FULL);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(check(tier, n, BLOCK), SKY_OK);
    assert_int_equal(put(tier, 50, BLOCK), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(52), &absent, BLOCK, 1), SKY_OK);
    disk_close(tier);
    disk_folder_drop(folder);
}

static void a_durable_put_is_synced(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?ttl=3600");
    uint8_t bytes[5000];
    sky_fixture_fill(bytes, sizeof bytes, 1);
    sky_span span = {bytes, sizeof bytes};
    sky_item items[3];
    for (uint64_t n = 0; n < 3; n++)
        items[n] = (sky_item){.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_run(tier, SKY_OP_PUT, items, 3, &(sky_call){.durable = true});
    for (uint64_t n = 0; n < 3; n++) {
        assert_int_equal(items[n].status, SKY_OK);
        assert_int_equal(items[n].bytes, sizeof bytes);
        assert_int_equal(sky_fixture_check(tier, sky_fixture_key(n), sizeof bytes, 1), SKY_OK);
    }
    disk_close(tier);
    disk_folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_size_limit_is_a_full_disk),
        cmocka_unit_test(a_full_disk_is_made_room_on),
        cmocka_unit_test(a_disk_out_of_files_is_made_room_on),
        cmocka_unit_test(a_folder_that_may_only_be_read_is_read),
        cmocka_unit_test(an_entry_that_may_not_be_read_is_told),
        cmocka_unit_test(a_forbidden_folder_is_told),
        cmocka_unit_test(bad_urls_are_told),
        cmocka_unit_test(what_only_looks_makes_nothing),
        cmocka_unit_test(order_and_pins_outlive_a_restart),
        cmocka_unit_test(classes_say_what_is_evicted_first),
        cmocka_unit_test(small_entries_leave_half_to_others),
        cmocka_unit_test(fewer_places_leave_what_is_pinned),
        cmocka_unit_test(two_tiers_keep_one_limit),
        cmocka_unit_test(a_pin_holds_for_the_other_process_too),
        cmocka_unit_test(pins_and_unpins_of_another_are_heeded),
        cmocka_unit_test(what_cannot_fit_evicts_nothing),
        cmocka_unit_test(a_ledger_held_by_another_costs_little),
        cmocka_unit_test(a_chain_too_long_keeps_its_beginning),
        cmocka_unit_test(a_batch_too_long_keeps_its_beginning),
        cmocka_unit_test(an_orphan_evicts_nothing),
        cmocka_unit_test(a_durable_put_is_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
