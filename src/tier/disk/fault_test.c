/* Damaged, cut, swapped and foreign files in a disk tier's folder: never wrong bytes, never a
 * crash; what is damaged is counted and dropped, what is foreign is left alone. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "tier/disk/disk_fixture.h"
#include "tier/disk/format.h"

#define SMALL      100
#define SMALL_FILE (SKY_DISK_HEADER_BYTES + SKY_DISK_ALIGN)

static size_t read_file(const char *path, uint8_t *bytes, size_t bytes_max) {
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t got = read(fd, bytes, bytes_max);
    assert_true(got >= 0);
    close(fd);
    return (size_t)got;
}

static void write_file(const char *path, const void *bytes, size_t count) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

static bool exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

/* One small entry with a name, and its file. */
typedef struct {
    char *folder;
    sky_tier *tier;
    sky_key key;
    char path[256];
    uint8_t file[SMALL_FILE];
} small;

static void small_open(small *s, const char *query) {
    s->folder = disk_folder_make();
    s->tier = disk_open(s->folder, query);
    s->key = sky_fixture_key(1);
    uint8_t payload[SMALL];
    sky_fixture_fill(payload, SMALL, 1);
    sky_span span = {payload, SMALL};
    sky_item item = {.key = s->key,
                     .parent = sky_fixture_key(0),
                     .name = "a name",
                     .name_bytes = 6,
                     .spans = &span,
                     .span_count = 1};
    sky_fixture_run(s->tier, SKY_OP_PUT, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    disk_entry_path(s->folder, &s->key, s->path);
    assert_int_equal(read_file(s->path, s->file, sizeof s->file), SMALL_FILE);
}

static void small_close(small *s) {
    disk_close(s->tier);
    disk_folder_drop(s->folder);
}

/* The file is damaged now: a get says so, counts it and drops it. */
static void assert_caught(small *s, size_t at) {
    uint64_t before = sky_fixture_counts(s->tier).corrupt;
    sky_status status = sky_fixture_check(s->tier, s->key, SMALL, 1);
    if (status != SKY_E_CORRUPT || sky_fixture_counts(s->tier).corrupt != before + 1 ||
        exists(s->path))
        fail_msg("byte %zu: %s, file %d", at, sky_status_name(status), exists(s->path));
}

static void every_flipped_byte_is_found(void **state) {
    (void)state;
    small s;
    small_open(&s, "?direct=off");
    for (size_t at = 0; at < SMALL_FILE; at++) {
        uint8_t was = s.file[at];
        s.file[at] = (uint8_t)(was ^ (1u << at % 8));
        write_file(s.path, s.file, SMALL_FILE);
        assert_caught(&s, at);
        s.file[at] = was;
    }
    write_file(s.path, s.file, SMALL_FILE);
    assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_OK);
    small_close(&s);
}

static void every_cut_is_found(void **state) {
    (void)state;
    small s;
    small_open(&s, "?direct=off");
    for (size_t length = 0; length < SMALL_FILE; length++) {
        write_file(s.path, s.file, length);
        assert_caught(&s, length);
    }
    uint8_t longer[SMALL_FILE + SKY_DISK_ALIGN] = {0};
    memcpy(longer, s.file, SMALL_FILE);
    for (size_t length = SMALL_FILE + 1; length <= sizeof longer; length += 455) {
        write_file(s.path, longer, length);
        assert_caught(&s, length);
    }
    small_close(&s);
}

static void every_flipped_byte_in_a_segment_is_found(void **state) {
    (void)state;
    static const sky_call durable = {.durable = true};
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_key key = sky_fixture_key(1);
    uint8_t payload[SMALL];
    sky_fixture_fill(payload, SMALL, 1);
    sky_span span = {payload, SMALL};
    for (uint64_t at = 0; at < SMALL_FILE; at += at < 200 ? 7 : 61) {
        sky_item item = {.key = key, .spans = &span, .span_count = 1};
        uint64_t before = sky_fixture_counts(tier).corrupt;
        sky_fixture_run(tier, SKY_OP_PUT, &item, 1, &durable);
        assert_int_equal(item.status, SKY_OK);
        assert_int_equal(sky_fixture_check(tier, key, SMALL, 1), SKY_OK);
        disk_entry_damage(folder, &key, at);
        assert_int_equal(sky_fixture_check(tier, key, SMALL, 1), SKY_E_CORRUPT);
        assert_int_equal(sky_fixture_check(tier, key, SMALL, 1), SKY_MISS);
        assert_int_equal(sky_fixture_counts(tier).corrupt, before + 1);
    }
    assert_int_equal(disk_count_files(folder, 'e'), 0);
    disk_close(tier);
    disk_folder_drop(folder);
}

static bool direct_works(void) {
    small s;
    small_open(&s, "");
    bool works = strstr(sky_fixture_stat(s.tier).note, "O_DIRECT to write") != NULL;
    small_close(&s);
    return works;
}

static void damage_is_found_past_the_page_cache(void **state) {
    (void)state;
    small s;
    if (!direct_works())
        skip();
    small_open(&s, "?direct=on");
    for (size_t at = 3; at < SMALL_FILE; at += 511) {
        uint8_t was = s.file[at];
        s.file[at] ^= 0x10;
        write_file(s.path, s.file, SMALL_FILE);
        assert_caught(&s, at);
        s.file[at] = was;
    }
    small_close(&s);
}

static void damaged_headers_are_dropped_at_open(void **state) {
    (void)state;
    small s;
    small_open(&s, "?direct=off");
    for (size_t at = 0; at < SKY_DISK_HEADER_BYTES; at += 117) {
        disk_close(s.tier);
        uint8_t was = s.file[at];
        s.file[at] ^= 1;
        write_file(s.path, s.file, SMALL_FILE);
        disk_forget_catalogue(s.folder); /* else it is not looked at before it is read */
        s.tier = disk_open(s.folder, "?direct=off");
        sky_tier_counts stat = sky_fixture_counts(s.tier);
        assert_int_equal(stat.corrupt, 1);
        assert_int_equal(stat.entries, 0);
        assert_false(exists(s.path));
        assert_int_equal(sky_fixture_one(s.tier, SKY_OP_HAS, s.key), SKY_MISS);
        s.file[at] = was;
    }
    small_close(&s);
}

static void verify_drops_damage_and_what_hangs_below(void **state) {
    (void)state;
    small s;
    small_open(&s, "");
    sky_key root = sky_fixture_key(0), child = sky_fixture_key(2);
    assert_int_equal(sky_fixture_put(s.tier, root, NULL, 5000, 0), SKY_OK);
    assert_int_equal(sky_fixture_put(s.tier, child, &s.key, 5000, 2), SKY_OK);
    sky_verify_report report = {0};
    assert_int_equal(s.tier->ops->verify(s.tier, &report), SKY_OK);
    assert_int_equal(report.entries, 3);
    s.file[SKY_DISK_HEADER_BYTES + SMALL + 7] = 1; /* in the padding */
    write_file(s.path, s.file, SMALL_FILE);
    memset(&report, 0, sizeof report);
    assert_int_equal(s.tier->ops->verify(s.tier, &report), SKY_OK);
    assert_int_equal(report.corrupt, 1);
    assert_int_equal(report.orphans, 1);
    assert_int_equal(report.entries, 1);
    assert_int_equal(report.bytes, 5000);
    assert_int_equal(disk_count_files(s.folder, 'e'), 1);
    assert_int_equal(sky_fixture_counts(s.tier).corrupt, 1);
    small_close(&s);
}

static void verify_drops_orphans(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_key absent = sky_fixture_key(9), child = sky_fixture_key(10);
    assert_int_equal(sky_fixture_put(tier, child, &absent, 10, 10), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(11), &child, 10, 11), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(12), NULL, 10, 12), SKY_OK);
    char path[256];
    disk_entry_path(folder, &child, path);
    strcpy(strrchr(path, '/'), "/.tmp-4000000000-1"); /* its writer is dead */
    write_file(path, "half", 4);
    sky_verify_report report = {0};
    assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    assert_int_equal(report.orphans, 3);
    assert_int_equal(report.entries, 1);
    assert_int_equal(disk_count_files(folder, 'e'), 1);
    assert_int_equal(disk_count_files(folder, 't'), 0);
    disk_close(tier);
    disk_folder_drop(folder);
}

static void another_keys_file_is_damage(void **state) {
    (void)state;
    small s;
    small_open(&s, "");
    sky_key other = sky_fixture_key(2);
    assert_int_equal(sky_fixture_put(s.tier, other, NULL, SMALL, 2), SKY_OK);
    char path[256];
    disk_entry_path(s.folder, &other, path);
    assert_int_equal(rename(path, s.path), 0);
    assert_caught(&s, 0);
    assert_int_equal(sky_fixture_check(s.tier, other, SMALL, 2), SKY_MISS);
    small_close(&s);
}

/* Bytes [from, from + bytes) of the payload: what a get of them comes to. */
static sky_status get_part(sky_tier *tier, sky_key key, uint64_t from, size_t bytes) {
    sky_span span = {malloc(bytes), bytes};
    assert_non_null(span.data);
    sky_item item = {.key = key, .spans = &span, .span_count = 1, .range = {from, bytes}};
    sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
    free(span.data);
    return item.status;
}

static void swapped_pages_are_damage(void **state) {
    (void)state;
    enum { PAGE = SKY_DISK_PAGE_BYTES_MIN, PAYLOAD = 3 * PAGE };
    static uint8_t file[SKY_DISK_HEADER_BYTES + PAYLOAD], page[PAGE];
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_key key = sky_fixture_key(1);
    assert_int_equal(sky_fixture_put(tier, key, NULL, PAYLOAD, 1), SKY_OK);
    char path[256];
    disk_entry_path(folder, &key, path);
    assert_int_equal(read_file(path, file, sizeof file), sizeof file);
    uint8_t *pages = file + SKY_DISK_HEADER_BYTES;
    memcpy(page, pages + PAGE, PAGE);
    memcpy(pages + PAGE, pages + 2 * PAGE, PAGE);
    memcpy(pages + 2 * PAGE, page, PAGE);
    write_file(path, file, sizeof file);
    assert_int_equal(get_part(tier, key, 10, PAGE - 10), SKY_OK); /* reads no more than it must */
    assert_int_equal(get_part(tier, key, 10, PAGE), SKY_E_CORRUPT);
    assert_false(exists(path));
    disk_close(tier);
    disk_folder_drop(folder);
}

/* Pages of 512 KiB, which are more than a piece that is moved at once. */
static void large_payloads_are_read_in_part_and_checked(void **state) {
    (void)state;
    const size_t bytes = (70u << 20) + 5, page = 512u << 10;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_key key = sky_fixture_key(1);
    assert_int_equal(sky_fixture_put(tier, key, NULL, bytes, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(tier, key, bytes, 1), SKY_OK);
    char path[256];
    disk_entry_path(folder, &key, path);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "\x55\xaa\x55", 3, (off_t)(SKY_DISK_HEADER_BYTES + 5 * page - 9)),
                     3);
    close(fd);
    assert_int_equal(get_part(tier, key, 5 * page, 3 * page + 1), SKY_OK);
    assert_int_equal(get_part(tier, key, bytes - 7, 7), SKY_OK);
    assert_int_equal(get_part(tier, key, 4 * page + 1, 10), SKY_E_CORRUPT);
    assert_false(exists(path));
    disk_close(tier);
    disk_folder_drop(folder);
}

/* Pipes and folders where files of ours belong: none is waited for. */
static void what_is_no_file_is_damage(void **state) {
    (void)state;
    small s;
    char path[512];
    small_open(&s, "");
    assert_int_equal(remove(s.path), 0);
    assert_int_equal(mkfifo(s.path, 0600), 0);
    assert_caught(&s, 0);
    assert_int_equal(sky_fixture_put(s.tier, s.key, NULL, SMALL, 1), SKY_OK);
    assert_int_equal(remove(s.path), 0);
    assert_int_equal(mkdir(s.path, 0700), 0);
    assert_caught(&s, 1);
    assert_int_equal(mkdir(s.path, 0700), 0);
    snprintf(path, sizeof path, "%s/x", s.path);
    write_file(path, "foreign", 7);
    assert_caught(&s, 2); /* it was set aside */
    assert_int_equal(mkdir(s.path, 0700), 0);
    assert_int_equal(sky_fixture_put(s.tier, s.key, NULL, SMALL, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_OK);
    assert_int_equal(sky_fixture_counts(s.tier).errors, 0);
    disk_close(s.tier);
    snprintf(path, sizeof path, "%s/.catalogue", s.folder);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(remove(path), 0);
        assert_int_equal(i ? mkfifo(path, 0600) : mkdir(path, 0700), 0);
        s.tier = disk_open(s.folder, "");
        assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_OK);
        disk_close(s.tier);
        struct stat st;
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISREG(st.st_mode));
    }
    snprintf(path, sizeof path, "%s/.ledger", s.folder);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    char url[512];
    sky_error error = {0};
    snprintf(url, sizeof url, "disk:%s", s.folder);
    assert_int_equal(sky_disk_tier_open(url, &(sky_tier_env){0}, &s.tier, &error), SKY_E_CORRUPT);
    assert_non_null(strstr(error.text, ".ledger: not a plain file"));
    disk_folder_drop(s.folder);
}

static void nothing_is_left_of_the_probe(void **state) {
    (void)state;
    char *folder = disk_folder_make(), path[512];
    disk_close(disk_open(folder, ""));
    snprintf(path, sizeof path, "%s/00", folder);
    assert_false(exists(path));
    assert_int_equal(disk_count_files(folder, 't'), 0);
    disk_folder_drop(folder);
}

static void foreign_files_are_left_alone(void **state) {
    (void)state;
    static const char *const names[] = {
        "README", "zz", "ab", ".hidden", "00/x", "00/11/22", "00/11/00112233", "00/11/.tmp-x"};
    char *folder = disk_folder_make(), path[512], hex[65];
    snprintf(path, sizeof path, "%s/00", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/00/11", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names - 1; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        write_file(path, "foreign", 7);
    }
    memset(hex, '7', 64);
    hex[64] = 0; /* a key's name, but in another key's folder */
    snprintf(path, sizeof path, "%s/00/11/%s", folder, hex);
    write_file(path, "foreign", 7);
    memcpy(hex, "0011", 4); /* a folder that bears a key's name */
    snprintf(path, sizeof path, "%s/00/11/%s", folder, hex);
    assert_int_equal(mkdir(path, 0755), 0);
    memcpy(hex, "001122", 6); /* and a link */
    snprintf(path, sizeof path, "%s/00/11/%s", folder, hex);
    assert_int_equal(symlink("/etc/passwd", path), 0);

    sky_tier *tier = disk_open(folder, "");
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(1), NULL, 10, 1), SKY_OK);
    sky_verify_report report = {0};
    assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    assert_int_equal(report.entries, 1);
    assert_int_equal(report.corrupt, 0);
    assert_int_equal(report.orphans, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names - 1; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_true(exists(path));
    }
    snprintf(path, sizeof path, "%s/00/11/%s", folder, hex);
    assert_true(exists(path));
    disk_close(tier);
    disk_folder_drop(folder);
}

static void a_damaged_catalogue_is_made_anew(void **state) {
    (void)state;
    small s;
    uint8_t bytes[4096];
    char path[512];
    small_open(&s, "");
    snprintf(path, sizeof path, "%s/.catalogue", s.folder);
    disk_close(s.tier);
    size_t count = read_file(path, bytes, sizeof bytes);
    assert_true(count > 0);
    for (size_t at = 0; at <= count; at += 5) { /* flipped here, then cut here */
        uint8_t was = bytes[at % count];
        bytes[at % count] ^= 4;
        write_file(path, bytes, at % 2 ? count : at);
        s.tier = disk_open(s.folder, "");
        sky_tier_counts stat = sky_fixture_counts(s.tier);
        assert_int_equal(stat.entries, 1);
        assert_int_equal(stat.bytes_used, SMALL_FILE);
        assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_OK);
        disk_close(s.tier);
        bytes[at % count] = was;
    }
    s.tier = disk_open(s.folder, "");
    small_close(&s);
}

/* Its checksum is right, and what it says of one entry is not: larger, smaller, of another time. */
static void a_catalogue_of_nonsense_is_not_believed(void **state) {
    (void)state;
    enum { HEAD = 24, SET = 72, EXPIRY = 80, BYTES = 96 };
    static const struct {
        size_t at;
        uint64_t value;
        size_t width;
    } odd[] = {{BYTES, 7, 4},        {BYTES, 4000000000, 4}, {BYTES, SMALL + 1, 4},
               {SET, UINT64_MAX, 8}, {EXPIRY, 1, 8},         {EXPIRY, UINT64_MAX, 8},
               {SET, 1, 8}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        small s;
        uint8_t bytes[4096], into[SMALL + 99];
        char path[512];
        small_open(&s, "");
        disk_close(s.tier);
        snprintf(path, sizeof path, "%s/.catalogue", s.folder);
        size_t count = read_file(path, bytes, sizeof bytes);
        for (size_t b = 0; b < odd[i].width; b++)
            bytes[HEAD + odd[i].at + b] = (uint8_t)(odd[i].value >> 8 * b);
        sky_store_u64(bytes + count - 8, sky_checksum(bytes, count - 8, 0));
        write_file(path, bytes, count);
        s.tier = disk_open(s.folder, "");
        assert_int_equal(sky_fixture_counts(s.tier).bytes_used, SMALL_FILE);
        for (int n = 0; n < 3; n++) { /* as whoever asks for the size first, and again */
            sky_item has = {.key = s.key};
            sky_fixture_run(s.tier, SKY_OP_HAS, &has, 1, NULL);
            assert_int_equal(has.status, SKY_OK);
            sky_span span = {into, has.bytes < sizeof into ? has.bytes : sizeof into};
            sky_item get = {.key = s.key, .spans = &span, .span_count = 1};
            sky_fixture_run(s.tier, SKY_OP_GET, &get, 1, NULL);
            assert_true(get.status == SKY_OK || (n == 0 && get.status == SKY_E_DST_SMALL));
        }
        assert_true(sky_fixture_holds(into, SMALL, 1));
        small_close(&s);
    }
}

/* Into another store, where a folder of ours belongs: nothing is written, read or removed there. */
static void a_link_leads_nowhere(void **state) {
    (void)state;
    small s, other;
    char path[512], away[512];
    small_open(&s, "");
    small_open(&other, "");
    snprintf(away, sizeof away, "%.*s", (int)(strlen(other.folder) + 3), other.path);
    snprintf(path, sizeof path, "%.*s", (int)(strlen(s.folder) + 3), s.path);
    assert_int_equal(sky_fixture_one(s.tier, SKY_OP_REMOVE, s.key), SKY_OK);
    sky_verify_report report = {0};
    assert_int_equal(s.tier->ops->verify(s.tier, &report), SKY_OK); /* its folders go */
    assert_int_equal(symlink(away, path), 0);
    assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_E_CORRUPT);
    assert_int_equal(sky_fixture_put(s.tier, s.key, NULL, SMALL, 2), SKY_E_CORRUPT);
    assert_int_equal(sky_fixture_one(s.tier, SKY_OP_REMOVE, s.key), SKY_E_CORRUPT);
    assert_int_equal(s.tier->ops->verify(s.tier, &report), SKY_OK);
    assert_int_equal(sky_fixture_check(other.tier, other.key, SMALL, 1), SKY_OK);
    assert_int_equal(remove(path), 0);
    assert_int_equal(sky_fixture_put(s.tier, s.key, NULL, SMALL, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_OK);
    small_close(&s);
    small_close(&other);
}

/* Its checksum is right: someone means harm. */
/* Somebody removes the folder under a running process, or puts another one in its place: the next
 * write goes on with what is there. */
static void a_lost_folder_is_made_anew(void **state) {
    (void)state;
    small s;
    small_open(&s, "");
    char command[300], entry[256];
    for (int again = 0; again < 2; again++) {
        snprintf(command, sizeof command, again ? "rm -rf %s && mkdir %s" : "rm -rf %s", s.folder,
                 s.folder);
        assert_int_equal(system(command), 0);
        assert_int_equal(sky_fixture_check(s.tier, s.key, SMALL, 1), SKY_MISS);
        for (uint64_t n = 10; n < 14; n++)
            assert_int_equal(sky_fixture_put(s.tier, sky_fixture_key(n), NULL, SMALL, n), SKY_OK);
        for (uint64_t n = 10; n < 14; n++)
            assert_int_equal(sky_fixture_check(s.tier, sky_fixture_key(n), SMALL, n), SKY_OK);
        sky_key key = sky_fixture_key(13);
        disk_entry_path(s.folder, &key, entry);
        assert_true(exists(entry));
        assert_int_equal(sky_fixture_counts(s.tier).entries, 4);
    }
    disk_close(s.tier);
    s.tier = disk_open(s.folder, "");
    assert_int_equal(sky_fixture_check(s.tier, sky_fixture_key(12), SMALL, 12), SKY_OK);
    small_close(&s);
}

/* What a segment took before is not acknowledged in one that nobody can find. */
static void a_lost_segment_is_made_anew(void **state) {
    (void)state;
    char *folder = disk_folder_make(), command[300];
    sky_fixture_durable = true;
    sky_tier *tier = disk_open(folder, "");
    for (uint64_t n = 0; n < 3; n++) {
        assert_int_equal(sky_fixture_put(tier, sky_fixture_key(n), NULL, SMALL, n), SKY_OK);
        snprintf(command, sizeof command, n == 1 ? "rm -rf %s && mkdir %s" : "rm -rf %s", folder,
                 folder);
        assert_int_equal(system(command), 0);
        assert_int_equal(sky_fixture_check(tier, sky_fixture_key(n), SMALL, n), SKY_MISS);
    }
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(4), NULL, SMALL, 4), SKY_OK);
    sky_fixture_durable = false;
    assert_int_equal(disk_count_files(folder, 'e'), 0);
    disk_close(tier);
    tier = disk_open(folder, "");
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(4), SMALL, 4), SKY_OK);
    assert_int_equal(sky_fixture_counts(tier).entries, 1);
    disk_close(tier);
    disk_folder_drop(folder);
}

/* In a process of a user who may not write there; 0: all as it should be. */
static int use_a_closed_folder(const char *folder) {
    sky_tier *tier = disk_open(folder, "");
    if (!strstr(sky_fixture_stat(tier).note, "nothing is stored"))
        return 1;
    if (sky_fixture_put(tier, sky_fixture_key(7), NULL, SMALL, 7) != SKY_E_DENIED)
        return 2;
    if (sky_fixture_counts(tier).errors != 1)
        return 3;
    if (sky_fixture_check(tier, sky_fixture_key(1), SMALL, 1) != SKY_OK)
        return 4;
    if (chmod(folder, 0755) != 0)
        return 5;
    if (sky_fixture_put(tier, sky_fixture_key(7), NULL, SMALL, 7) != SKY_OK)
        return 6;
    if (strstr(sky_fixture_stat(tier).note, "nothing is stored"))
        return 7;
    disk_close(tier);
    return 0;
}

static void a_folder_that_takes_nothing_says_so(void **state) {
    (void)state;
    enum { NOBODY = 65534 };
    char *folder = disk_folder_make();
    bool root = geteuid() == 0;
    if (root)
        assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (root && setresuid(NOBODY, NOBODY, NOBODY) != 0)
            _exit(100);
        sky_tier *tier = disk_open(folder, "");
        bool stored = sky_fixture_put(tier, sky_fixture_key(1), NULL, SMALL, 1) == SKY_OK;
        disk_close(tier);
        _exit(stored && chmod(folder, 0555) == 0 ? use_a_closed_folder(folder) : 101);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    disk_folder_drop(folder);
}

static void write_ledger(const char *path, uint64_t changes, uint64_t bytes_used) {
    uint8_t ledger[32];
    memcpy(ledger, "SKYLEDG1", 8);
    sky_store_u64(ledger + 8, changes);
    sky_store_u64(ledger + 16, bytes_used);
    sky_store_u64(ledger + 24, sky_checksum(ledger, 24, 0));
    write_file(path, ledger, sizeof ledger);
}

static void a_ledger_of_nonsense_is_mended(void **state) {
    (void)state;
    static const uint64_t odd[] = {UINT64_MAX, INT64_MAX, UINT64_C(1) << 62, 0};
    small s;
    small_open(&s, "?max=64KiB");
    char path[512];
    snprintf(path, sizeof path, "%s/.ledger", s.folder);
    for (size_t i = 0; i < 16; i++) {
        write_ledger(path, odd[i % 4], odd[i / 4]);
        for (uint64_t n = 2; n < 22; n++)
            assert_int_equal(sky_fixture_put(s.tier, sky_fixture_key(n), NULL, SMALL, n), SKY_OK);
        assert_true(sky_fixture_counts(s.tier).bytes_used <= 65536);
        assert_true(sky_fixture_counts(s.tier).entries >= 7);
    }
    small_close(&s);
}

static void a_damaged_ledger_is_mended(void **state) {
    (void)state;
    small s;
    small_open(&s, "?max=64KiB");
    char path[512];
    snprintf(path, sizeof path, "%s/.ledger", s.folder);
    for (size_t length = 0; length < 40; length += 8) {
        write_file(path, "nonsense nonsense nonsense nonsense nons", length);
        for (uint64_t n = 2; n < 22; n++)
            assert_int_equal(sky_fixture_put(s.tier, sky_fixture_key(n), NULL, SMALL, n), SKY_OK);
        sky_tier_counts stat = sky_fixture_counts(s.tier);
        assert_true(stat.bytes_used <= 65536);
        assert_true(stat.entries >= 7);
    }
    small_close(&s);
}

int main(void) {
    const struct CMUnitTest many_files[] = {
        cmocka_unit_test(every_flipped_byte_is_found),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(every_flipped_byte_in_a_segment_is_found),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_is_found_past_the_page_cache),
        cmocka_unit_test(damaged_headers_are_dropped_at_open),
        cmocka_unit_test(verify_drops_damage_and_what_hangs_below),
        cmocka_unit_test(verify_drops_orphans),
        cmocka_unit_test(another_keys_file_is_damage),
        cmocka_unit_test(swapped_pages_are_damage),
        cmocka_unit_test(large_payloads_are_read_in_part_and_checked),
        cmocka_unit_test(what_is_no_file_is_damage),
        cmocka_unit_test(a_link_leads_nowhere),
        cmocka_unit_test(nothing_is_left_of_the_probe),
        cmocka_unit_test(foreign_files_are_left_alone),
        cmocka_unit_test(a_damaged_catalogue_is_made_anew),
        cmocka_unit_test(a_catalogue_of_nonsense_is_not_believed),
        cmocka_unit_test(a_lost_folder_is_made_anew),
        cmocka_unit_test(a_lost_segment_is_made_anew),
        cmocka_unit_test(a_folder_that_takes_nothing_says_so),
        cmocka_unit_test(a_damaged_ledger_is_mended),
        cmocka_unit_test(a_ledger_of_nonsense_is_mended),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* 16,000 files: spare the disk */
    return failed + cmocka_run_group_tests(many_files, NULL, NULL);
}
