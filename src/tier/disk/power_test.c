/* The power fails while small durable puts, replacements and removals are under way, several of one
 * key at once too, by two processes, which end meanwhile and begin again: of what was written since
 * the last sync each sector is on the disk or not, as a draw says. What was acknowledged is there,
 * what it replaced is not, and a put that was not acknowledged leaves its predecessor, itself, or
 * nothing where there was none.
 *
 * fdatasync is this program's own: it notes what a segment holds, and is a moment to fail at. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "io/sync.h"
#include "tier/disk/disk_fixture.h"
#include "tier/disk/segment.h"

#define SEGMENTS    4
#define IMAGE_BYTES (SKY_SEGMENT_DATA_OFFSET + SKY_SEGMENT_UNITS_MIN * SKY_SEGMENT_UNIT_BYTES)
#define SECTOR      512
#define KEYS        6
#define OPS         250
#define BATCH       3
#define FAILURES    8 /* of one operation */
#define BYTES_MAX   20000u
#define QUERY       "?max=16MiB"

typedef struct {
    size_t bytes; /* 0: there is none */
    uint8_t data[IMAGE_BYTES];
} image;

typedef struct {
    image segments[SEGMENTS];
} disk;

static const char *folder; /* that is watched */
static sky_mutex mutex = SKY_MUTEX_INIT;
static disk synced;
static disk failures[FAILURES];
static size_t failure_count;
static sky_prng draws;

static void read_image(int fd, image *out) {
    ssize_t got = pread(fd, out->data, sizeof out->data, 0);
    assert_true(got >= 0);
    out->bytes = (size_t)got;
}

static void read_segment(unsigned number, image *out) {
    char path[300];
    snprintf(path, sizeof path, "%s/.segment-%u", folder, number);
    int fd = open(path, O_RDONLY);
    out->bytes = 0;
    if (fd < 0)
        return;
    read_image(fd, out);
    close(fd);
}

/* What a failure of the power leaves now. */
static void fail_power(void) {
    static image now;
    if (failure_count == FAILURES)
        return;
    disk *left = &failures[failure_count++];
    for (unsigned n = 0; n < SEGMENTS; n++) {
        image *out = &left->segments[n];
        const image *before = &synced.segments[n];
        read_segment(n, &now);
        out->bytes = now.bytes;
        for (size_t at = 0; at < now.bytes; at += SECTOR) {
            size_t length = now.bytes - at < SECTOR ? now.bytes - at : SECTOR;
            bool written = sky_prng_below(&draws, 2);
            const uint8_t *from = written ? now.data : before->data;
            memcpy(out->data + at, from + at, length);
        }
    }
}

static int note_sync(int fd) {
    char link[64], path[300], wanted[300];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    for (unsigned n = 0; folder && length > 0 && n < SEGMENTS; n++) {
        path[length] = '\0';
        snprintf(wanted, sizeof wanted, "%s/.segment-%u", folder, n);
        if (strcmp(path, wanted) != 0)
            continue;
        sky_mutex_lock(&mutex);
        fail_power();
        read_image(fd, &synced.segments[n]);
        sky_mutex_unlock(&mutex);
    }
    return 0;
}

int fdatasync(int fd) {
    return note_sync(fd);
}

int fsync(int fd) {
    return note_sync(fd);
}

/* ---- what may stand after a failure ---- */

typedef struct {
    uint64_t version; /* of the last acknowledged put; 0: none */
    bool removed;     /* since; a removal is not durable */
    uint64_t first;   /* of the puts that are under way */
    uint64_t coming;  /* of the last of them; 0: there is none */
    bool going;       /* a removal is under way */
} expected;

static size_t size_of(uint64_t version) {
    return 8 + (size_t)(version * 7919 % (BYTES_MAX - 8));
}

static void check_key(sky_tier *tier, uint64_t n, const expected *e) {
    static uint8_t buffer[BYTES_MAX];
    sky_span span = {buffer, sizeof buffer};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    uint64_t version = 0;
    sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
    bool stood = e->version != 0 && !e->removed;
    if (item.status != SKY_OK) {
        /* a removal is not durable, and its place may be used again */
        bool unfinished = item.status == SKY_E_CORRUPT && (e->coming != 0 || e->removed);
        if ((stood && !e->going) || (item.status != SKY_MISS && !unfinished))
            fail_msg("key %u: %s, and version %u was acknowledged", (unsigned)n,
                     sky_status_name(item.status), (unsigned)e->version);
        return;
    }
    memcpy(&version, buffer, 8);
    bool coming = version >= e->first && version <= e->coming;
    if ((version != e->version && !coming) || item.bytes != size_of(version) ||
        !sky_fixture_holds(buffer + 8, item.bytes - 8, version))
        fail_msg("key %u: version %u, and %u was acknowledged, %u under way", (unsigned)n,
                 (unsigned)version, (unsigned)e->version, (unsigned)e->coming);
}

static void check_failure(const disk *left, const expected *keys) {
    char *place = disk_folder_make(), path[300];
    for (unsigned n = 0; n < SEGMENTS; n++) {
        const image *i = &left->segments[n];
        snprintf(path, sizeof path, "%s/.segment-%u", place, n);
        int fd = i->bytes ? open(path, O_WRONLY | O_CREAT, 0600) : -1;
        if (fd < 0)
            continue;
        assert_int_equal(write(fd, i->data, i->bytes), (ssize_t)i->bytes);
        close(fd);
    }
    for (int round = 0; round < 2; round++) { /* and what the first one mended stays so */
        sky_tier *tier = disk_open(place, QUERY);
        for (uint64_t n = 0; n < KEYS; n++)
            check_key(tier, n, &keys[n]);
        disk_close(tier);
    }
    disk_folder_drop(place);
}

/* ---- operations ---- */

/* Of as many keys, or all of one. */
static void put_some(sky_tier *tier, expected *keys, uint64_t first, bool one, uint64_t *version) {
    static uint8_t bytes[BATCH][BYTES_MAX];
    sky_item items[BATCH];
    sky_span spans[BATCH];
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t n = (first + (one ? 0 : i)) % KEYS;
        expected *e = &keys[n];
        e->first = e->coming ? e->first : *version + 1;
        e->coming = ++*version;
        memcpy(bytes[i], version, 8);
        sky_fixture_fill(bytes[i] + 8, size_of(*version) - 8, *version);
        spans[i] = (sky_span){bytes[i], size_of(*version)};
        items[i] = (sky_item){.key = sky_fixture_key(n), .spans = &spans[i], .span_count = 1};
    }
    sky_fixture_run(tier, SKY_OP_PUT, items, BATCH, &(sky_call){.durable = true});
    for (uint64_t i = 0; i < BATCH; i++)
        assert_int_equal(items[i].status, SKY_OK);
}

static void acknowledge(expected *keys) {
    for (uint64_t n = 0; n < KEYS; n++) {
        expected *e = &keys[n];
        if (e->coming || e->going)
            *e = (expected){.version = e->coming ? e->coming : e->version, .removed = e->going};
    }
}

static void check_failures(const expected *keys) {
    sky_mutex_lock(&mutex);
    size_t count = failure_count;
    sky_mutex_unlock(&mutex);
    const char *watched = folder;
    folder = NULL;
    for (size_t i = 0; i < count; i++)
        check_failure(&failures[i], keys);
    folder = watched;
    failure_count = 0;
}

static void what_was_acknowledged_is_there(void **state) {
    (void)state;
    char *place = disk_folder_make();
    expected keys[KEYS] = {0};
    uint64_t version = 0;
    sky_prng random;
    sky_prng_init(&random, 11);
    sky_prng_init(&draws, 12);
    folder = place;
    sky_tier *tiers[] = {disk_open(place, QUERY), disk_open(place, QUERY)};
    for (int i = 0; i < OPS; i++) {
        uint64_t n = sky_prng_below(&random, KEYS);
        sky_tier **one = &tiers[sky_prng_below(&random, 2)], *tier = *one;
        if (sky_prng_below(&random, 4) > 0) {
            put_some(tier, keys, n, sky_prng_below(&random, 2), &version);
        } else if (keys[n].version != 0 && !keys[n].removed) {
            keys[n].going = true;
            assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(n)), SKY_OK);
        }
        check_failures(keys);
        acknowledge(keys);
        sky_mutex_lock(&mutex);
        fail_power();
        sky_mutex_unlock(&mutex);
        check_failures(keys);
        if (sky_prng_below(&random, 4) == 0) { /* what this process did is not synced by its end */
            disk_close(tier);
            *one = disk_open(place, QUERY);
        }
    }
    folder = NULL;
    disk_close(tiers[0]);
    disk_close(tiers[1]);
    disk_folder_drop(place);
}

/* The file that an entry in a segment replaced is there still, as when the power fails before the
 * sync of that. */
static void a_file_outlasts_what_is_not_whole(void **state) {
    (void)state;
    static uint8_t bytes[SKY_DISK_HEADER_BYTES + SKY_DISK_ALIGN];
    const sky_key key = sky_fixture_key(1);
    for (uint64_t at = SKY_DISK_HEADER_BYTES; at < sizeof bytes; at += 997) {
        char *place = disk_folder_make(), path[256];
        bool whole = at == SKY_DISK_HEADER_BYTES;
        disk_entry_path(place, &key, path);
        sky_tier *tier = disk_open(place, "");
        assert_int_equal(sky_fixture_put(tier, key, NULL, SKY_DISK_ALIGN, 1), SKY_OK);
        int fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, bytes, sizeof bytes), (ssize_t)sizeof bytes);
        close(fd);
        usleep(2000); /* which is newer the time tells */
        sky_fixture_durable = true;
        assert_int_equal(sky_fixture_put(tier, key, NULL, SKY_DISK_ALIGN, 2), SKY_OK);
        sky_fixture_durable = false;
        assert_int_equal(access(path, F_OK), -1);
        disk_close(tier);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, bytes, sizeof bytes), (ssize_t)sizeof bytes);
        close(fd);
        if (!whole)
            disk_entry_damage(place, &key, at);
        disk_forget_catalogue(place);
        tier = disk_open(place, "");
        assert_int_equal(sky_fixture_check(tier, key, SKY_DISK_ALIGN, whole ? 2 : 1), SKY_OK);
        assert_int_equal(disk_count_files(place, 'e'), !whole);
        disk_close(tier);
        disk_folder_drop(place);
    }
}

int main(void) {
    setenv("SKYMEM_IO", "threads", 1); /* io_uring does not ask fdatasync */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_is_there),
        cmocka_unit_test(a_file_outlasts_what_is_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
