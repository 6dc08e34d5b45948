/* Segments of one folder, as one process and as several see them: what is published is found and
 * what is removed is not, whichever process asks; an older row of a key lasts until its successor
 * is synced; a place is used again only when it is free; and no bytes in a segment's file lead out
 * of it. */
#include "tier/disk/segments.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "io/file.h"
#include "tier/disk/disk_fixture.h"

/* The product's too. */
static unsigned syncs;

int fdatasync(int fd) {
    (void)fd;
    syncs++;
    return 0;
}

#define LIMIT       (UINT64_C(64) << 20)
#define ENTRY_BYTES (17u * SKY_SEGMENT_UNIT_BYTES) /* of 64 KiB with its header */

typedef struct {
    char *folder;
    int root;
    sky_disk_segments *s;
} fixture;

static sky_disk_segments *open_set(const fixture *f, uint64_t bytes_max) {
    sky_disk_segments *s;
    assert_int_equal(sky_disk_segments_create(bytes_max, &s), SKY_OK);
    sky_disk_segments_load(s, f->root, true);
    return s;
}

static fixture set_open(uint64_t bytes_max) {
    fixture f = {.folder = disk_folder_make()};
    f.root = open(f.folder, O_RDONLY | O_DIRECTORY);
    assert_true(f.root >= 0);
    f.s = open_set(&f, bytes_max);
    return f;
}

static void set_reopen(fixture *f) {
    sky_disk_segments_destroy(f->s);
    f->s = open_set(f, LIMIT);
}

static void set_close(fixture *f) {
    sky_disk_segments_destroy(f->s);
    close(f->root);
    disk_folder_drop(f->folder);
}

static sky_disk_place reserve(sky_disk_segments *s) {
    sky_disk_place p;
    int fd;
    assert_int_equal(sky_disk_segments_reserve(s, ENTRY_BYTES, &p, &fd), SKY_OK);
    sky_file_close(fd);
    p.checksum = 77;
    return p;
}

/* *old: what it replaced. */
static sky_disk_place put(sky_disk_segments *s, uint64_t n, sky_disk_place *old) {
    sky_disk_place p = reserve(s);
    sky_key key = sky_fixture_key(n);
    assert_int_equal(sky_disk_segments_publish(s, &key, &p, old), SKY_OK);
    return p;
}

static sky_status find(sky_disk_segments *s, uint64_t n, sky_disk_place *p) {
    sky_key key = sky_fixture_key(n);
    int fd;
    sky_status status = sky_disk_segments_find(s, &key, false, p, &fd);
    if (status == SKY_OK)
        sky_file_close(fd);
    return status;
}

static sky_status remove_key(sky_disk_segments *s, uint64_t n) {
    sky_key key = sky_fixture_key(n);
    uint64_t freed;
    sky_status status = sky_disk_segments_remove(s, &key, false, &freed);
    if (status == SKY_OK)
        assert_int_equal(freed, ENTRY_BYTES);
    return status;
}

static void what_is_published_is_found(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, found, places[40];
    for (uint64_t n = 0; n < 40; n++) {
        places[n] = put(f.s, n, &old);
        assert_false(sky_disk_in_segment(&old));
        for (uint64_t i = 0; i < n; i++)
            assert_true(places[i].segment != places[n].segment ||
                        places[i].base + ENTRY_BYTES <= places[n].base ||
                        places[n].base + ENTRY_BYTES <= places[i].base);
    }
    for (int round = 0; round < 2; round++) {
        for (uint64_t n = 0; n < 40; n++) {
            assert_int_equal(find(f.s, n, &found), SKY_OK);
            assert_int_equal(found.base, places[n].base);
            assert_int_equal(found.checksum, 77);
        }
        assert_int_equal(find(f.s, 40, &found), SKY_MISS);
        set_reopen(&f);
    }
    assert_int_equal(remove_key(f.s, 3), SKY_OK);
    assert_int_equal(remove_key(f.s, 3), SKY_MISS);
    set_reopen(&f);
    assert_int_equal(find(f.s, 3, &found), SKY_MISS);
    assert_int_equal(find(f.s, 4, &found), SKY_OK);
    set_close(&f);
}

static void what_is_only_reserved_is_not_there(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place p = reserve(f.s), q = reserve(f.s), old;
    assert_true(p.base != q.base);
    sky_disk_segments_release(f.s, &p);
    assert_int_equal(put(f.s, 1, &old).row, p.row);
    sky_disk_segments_release(f.s, &p); /* it is another's by now */
    set_reopen(&f);
    sky_disk_place found;
    uint32_t cursor = 0;
    sky_key key;
    assert_int_equal(find(f.s, 1, &found), SKY_OK);
    assert_true(sky_disk_segments_next(f.s, false, &cursor, &key));
    assert_false(sky_disk_segments_next(f.s, false, &cursor, &key));
    set_close(&f);
}

static bool replaced(sky_disk_segments *s) {
    sky_key key;
    uint32_t cursor = 0;
    return sky_disk_segments_next(s, true, &cursor, &key);
}

static void an_older_row_lasts_until_it_is_released(void **state) {
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        fixture f = set_open(LIMIT);
        sky_disk_place old, first = put(f.s, 1, &old), found;
        sky_disk_place second = put(f.s, 1, &old);
        sky_key key = sky_fixture_key(1);
        assert_int_equal(old.base, first.base);
        assert_true(sky_disk_segments_stand(f.s, &key, &second));
        assert_false(sky_disk_segments_stand(f.s, &key, &first));
        set_reopen(&f); /* killed before the release */
        assert_true(replaced(f.s));
        assert_int_equal(find(f.s, 1, &found), SKY_OK);
        assert_int_equal(found.base, second.base);
        sky_disk_segments_settle(f.s, &key, keep);
        assert_int_equal(find(f.s, 1, &found), SKY_OK);
        assert_int_equal(found.base, keep ? second.base : first.base);
        assert_false(replaced(f.s));
        sky_disk_place third = put(f.s, 1, &old);
        sky_disk_segments_release(f.s, &old);
        assert_false(replaced(f.s));
        set_reopen(&f);
        assert_false(replaced(f.s));
        assert_int_equal(find(f.s, 1, &found), SKY_OK);
        assert_int_equal(found.base, third.base);
        set_close(&f);
    }
}

static void a_removal_takes_all_rows(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, found;
    for (int i = 0; i < 4; i++)
        put(f.s, 1, &old);
    assert_int_equal(remove_key(f.s, 1), SKY_OK);
    assert_int_equal(find(f.s, 1, &found), SKY_MISS);
    sky_disk_segments_release(f.s, &old);
    set_reopen(&f);
    assert_int_equal(find(f.s, 1, &found), SKY_MISS);
    set_close(&f);
}

static void several_share_a_folder(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_segments *other = open_set(&f, LIMIT);
    sky_disk_place old, found, mine = put(f.s, 1, &old);
    assert_int_equal(find(other, 1, &found), SKY_MISS);
    assert_true(sky_disk_segments_refresh(other));
    assert_false(sky_disk_segments_refresh(other));
    assert_int_equal(find(other, 1, &found), SKY_OK);
    sky_disk_place theirs = put(other, 2, &old);
    assert_true(theirs.segment != mine.segment); /* each allocates in its own */
    put(f.s, 3, &old);
    assert_true(sky_disk_segments_refresh(other));
    assert_int_equal(find(other, 3, &found), SKY_OK);
    put(other, 1, &old); /* replaces what stands in another's */
    assert_int_equal(old.segment, mine.segment);
    assert_true(sky_disk_segments_refresh(f.s));
    assert_int_equal(find(f.s, 1, &found), SKY_OK);
    assert_int_equal(found.segment, theirs.segment);
    sky_disk_segments_release(other, &old);
    assert_int_equal(remove_key(other, 3), SKY_OK);
    assert_int_equal(find(f.s, 3, &found), SKY_MISS);
    assert_int_equal(remove_key(f.s, 1), SKY_OK);
    assert_int_equal(find(other, 1, &found), SKY_MISS);
    sky_disk_segments_destroy(other);
    set_reopen(&f);
    assert_int_equal(find(f.s, 1, &found), SKY_MISS);
    assert_int_equal(find(f.s, 2, &found), SKY_OK);
    assert_int_equal(find(f.s, 3, &found), SKY_MISS);
    set_close(&f);
}

/* A row that another process cleared may come back until a sync. A removal of its key begins with
 * one, since else an older row could outlive a newer one. */
static void what_another_cleared_is_synced(void **state) {
    (void)state;
    for (int reloads = 0; reloads < 2; reloads++) {
        fixture f = set_open(LIMIT);
        sky_disk_segments *other = open_set(&f, LIMIT);
        sky_disk_place old, first = put(f.s, 1, &old), found = first;
        assert_int_equal(remove_key(f.s, 1), SKY_OK); /* syncs what was there before */
        put(f.s, 1, &old);
        assert_true(sky_disk_segments_refresh(other));
        assert_int_equal(remove_key(other, 1), SKY_OK);
        if (!reloads)
            assert_int_equal(find(f.s, 1, &found), SKY_MISS);
        for (uint64_t n = 2; reloads && found.segment == first.segment; n++)
            found = put(f.s, n, &old); /* the segment is full: its rows are read again */
        put(f.s, 1, &old);
        assert_int_equal(old.unit_count, 0);
        syncs = 0;
        assert_int_equal(remove_key(f.s, 1), SKY_OK);
        assert_true(syncs > 0);
        syncs = 0;
        const uint64_t another = UINT64_C(1) << 40;
        put(f.s, another, &old);
        assert_int_equal(remove_key(f.s, another), SKY_OK);
        assert_int_equal(syncs, 0);
        sky_disk_segments_destroy(other);
        set_close(&f);
    }
}

/* The row that a removal cleared, and that of the next value, may lie in two segments: a power
 * failure must not keep the second clearing alone, as the first value would come back. */
static void a_second_removal_syncs_the_first(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, first = put(f.s, 1, &old), found = first;
    uint64_t n = 1;
    while (found.segment == first.segment)
        found = put(f.s, ++n, &old);
    assert_int_equal(remove_key(f.s, n), SKY_OK); /* syncs both, as they are new */
    for (uint64_t i = 1; i <= 2; i++) {           /* the place is free, and another key takes it */
        assert_int_equal(remove_key(f.s, 1), SKY_OK);
        found = put(f.s, i, &old);
        assert_int_equal(found.segment, first.segment);
    }
    found = put(f.s, 1, &old);
    assert_int_not_equal(found.segment, first.segment);
    syncs = 0;
    assert_int_equal(remove_key(f.s, 1), SKY_OK);
    assert_true(syncs > 0);
    set_close(&f);
}

static uint64_t blocks_of(const fixture *f) {
    uint64_t bytes = 0;
    for (unsigned n = 0; n < SKY_SEGMENTS_MAX; n++) {
        char path[300];
        struct stat st;
        snprintf(path, sizeof path, "%s/.segment-%u", f->folder, n);
        if (stat(path, &st) == 0)
            bytes += (uint64_t)st.st_blocks * 512;
    }
    return bytes;
}

/* Freed by another: the one that allocates there looks before it makes a segment more. */
static void places_are_used_again(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_segments *other = open_set(&f, LIMIT);
    sky_disk_place old;
    for (uint64_t n = 0; n < 60; n++)
        put(f.s, n, &old);
    uint64_t before = blocks_of(&f);
    for (int round = 0; round < 5; round++) {
        sky_disk_segments_refresh(other);
        for (uint64_t n = 0; n < 60; n++)
            assert_int_equal(remove_key(n % 2 ? other : f.s, n), SKY_OK);
        for (uint64_t n = 0; n < 60; n++)
            put(f.s, n, &old);
    }
    assert_true(blocks_of(&f) <= before + (1 << 20));
    sky_disk_segments_destroy(other);
    set_close(&f);
}

/* What is free beyond a sixteenth of the limit goes back to the file system. */
static void free_places_give_their_blocks_back(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, found;
    enum { COUNT = 400 };
    for (uint64_t n = 0; n < COUNT; n++)
        put(f.s, n, &old);
    uint64_t full = blocks_of(&f);
    assert_true(full >= COUNT * (uint64_t)ENTRY_BYTES);
    set_reopen(&f); /* who removes them need not be who stored them */
    for (uint64_t n = 0; n < COUNT; n++)
        assert_int_equal(remove_key(f.s, n), SKY_OK);
    uint64_t empty = blocks_of(&f);
    if (empty < full) /* a file system that can */
        assert_true(empty < LIMIT / 16 + (2 << 20));
    for (uint64_t n = 0; n < COUNT; n++)
        put(f.s, n, &old);
    assert_int_equal(find(f.s, COUNT - 1, &found), SKY_OK);
    set_close(&f);
}

/* Entries of one unit, of which a segment takes no more than it has rows. */
static void segments_without_rows_do_not_pile_up(void **state) {
    (void)state;
    const uint64_t limit = UINT64_C(512) << 20;
    fixture f = set_open(limit);
    sky_status status = SKY_OK;
    uint64_t n = 0;
    for (; status == SKY_OK; n++) {
        sky_disk_place p, old;
        sky_key key = sky_fixture_key(n);
        int fd;
        status = sky_disk_segments_reserve(f.s, SKY_SEGMENT_UNIT_BYTES, &p, &fd);
        if (status != SKY_OK)
            break;
        sky_file_close(fd);
        assert_int_equal(sky_disk_segments_publish(f.s, &key, &p, &old), SKY_OK);
    }
    assert_int_equal(status, SKY_E_FULL);
    assert_true(n >= 4 * SKY_SEGMENT_ROWS);
    assert_true(blocks_of(&f) < n * SKY_SEGMENT_UNIT_BYTES + limit / 16 + limit / 32);
    set_close(&f);
}

static void what_is_too_large_or_too_little_is_refused(void **state) {
    (void)state;
    fixture f = set_open(UINT64_C(8) << 20);
    sky_disk_place p;
    int fd;
    assert_int_equal(sky_disk_segments_reserve(f.s, ENTRY_BYTES, &p, &fd), SKY_E_UNSUPPORTED);
    set_reopen(&f);
    assert_int_equal(sky_disk_segments_reserve(
                         f.s, SKY_DISK_HEADER_BYTES + SKY_SEGMENT_PAYLOAD_MAX + 1, &p, &fd),
                     SKY_E_UNSUPPORTED);
    sky_disk_segments_load(f.s, f.root, false);
    assert_int_equal(sky_disk_segments_reserve(f.s, ENTRY_BYTES, &p, &fd), SKY_E_UNSUPPORTED);
    set_close(&f);
}

/* Nothing is stored in a segment that nobody will find again: it is forgotten, and another made. */
static void a_segment_that_was_removed_is_noticed(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, p, found;
    char path[300];
    sky_key key = sky_fixture_key(2);
    put(f.s, 1, &old);
    p = reserve(f.s);
    snprintf(path, sizeof path, "%s/.segment-0", f.folder);
    assert_int_equal(remove(path), 0);
    assert_int_equal(find(f.s, 1, &found), SKY_MISS);
    assert_int_equal(sky_disk_segments_publish(f.s, &key, &p, &old), SKY_E_IO);
    sky_disk_place again = reserve(f.s);
    assert_int_equal(sky_disk_segments_publish(f.s, &key, &p, &old), SKY_E_IO);
    sky_disk_segments_release(f.s, &p); /* a place of before */
    assert_int_equal(sky_disk_segments_publish(f.s, &key, &again, &old), SKY_OK);
    set_reopen(&f);
    assert_int_equal(find(f.s, 2, &found), SKY_OK);
    assert_int_equal(truncate(path, 4096), 0);
    put(f.s, 3, &old); /* elsewhere */
    set_reopen(&f);
    assert_int_equal(find(f.s, 3, &found), SKY_OK);
    set_close(&f);
}

/* Of two processes that put one key, neither looking at the other, the last put stands. */
static void the_last_of_two_writers_stands(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old_a, old_b, found;
    put(f.s, 1, &old_a);
    sky_disk_segments *b = open_set(&f, LIMIT);
    for (int i = 0; i < 5; i++) { /* both are at it: rows are written, then old ones cleared */
        put(b, 1, &old_b);
        sky_disk_place last = put(f.s, 1, &old_a);
        sky_disk_segments_release(b, &old_b);
        sky_disk_segments_release(f.s, &old_a);
        assert_int_equal(find(f.s, 1, &found), SKY_OK);
        assert_int_equal(found.sequence, last.sequence);
        assert_int_equal(find(b, 1, &found), SKY_MISS); /* its own went: others are looked at */
        sky_disk_segments_refresh(b);
        assert_int_equal(find(b, 1, &found), SKY_OK);
        assert_int_equal(found.sequence, last.sequence);
    }
    assert_int_equal(remove_key(b, 1), SKY_OK);
    sky_disk_segments_destroy(b);
    set_reopen(&f);
    assert_int_equal(find(f.s, 1, &found), SKY_MISS);
    set_close(&f);
}

/* A process that holds an entry may write to it: its place is not used again meanwhile. */
static void a_held_place_is_left_alone(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, held, found;
    sky_key key = sky_fixture_key(1);
    int fd;
    held = put(f.s, 1, &old);
    sky_disk_segments *b = open_set(&f, LIMIT);
    assert_int_equal(sky_disk_segments_find(b, &key, false, &found, &fd), SKY_OK);
    assert_int_equal(sky_file_lock_range(fd, found.base, SKY_DISK_HEADER_BYTES, 0), SKY_OK);
    assert_int_equal(remove_key(f.s, 1), SKY_OK);
    for (uint64_t n = 2; n < 80; n++) { /* more than one segment holds */
        sky_disk_place p = put(f.s, n, &old);
        assert_false(p.segment == held.segment && p.base < held.base + ENTRY_BYTES &&
                     held.base < p.base + ENTRY_BYTES);
    }
    sky_file_close(fd);
    sky_disk_segments_destroy(b);
    set_close(&f);
}

/* A removal that cannot clear an older row is no removal. */
static void a_row_that_cannot_be_cleared_is_not_forgotten(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place first, old, found;
    char path[300];
    first = put(f.s, 1, &old);
    put(f.s, 1, &old);
    snprintf(path, sizeof path, "%s/.segment-0", f.folder);
    int fd = open(path, O_RDWR);
    assert_int_equal(
        sky_file_lock_range(fd, sky_segment_row_at(first.row), SKY_SEGMENT_ROW_BYTES, 0), SKY_OK);
    sky_disk_segments_release(f.s, &old);
    assert_int_equal(remove_key(f.s, 1), SKY_E_BUSY);
    assert_int_equal(find(f.s, 1, &found), SKY_OK);
    close(fd);
    assert_int_equal(remove_key(f.s, 1), SKY_OK);
    set_reopen(&f);
    assert_int_equal(find(f.s, 1, &found), SKY_MISS);
    set_close(&f);
}

/* Entries so small that rows run out first: the blocks behind them go back, and there are more
 * segments. */
static void small_entries_do_not_run_out(void **state) {
    (void)state;
    fixture f = set_open(UINT64_C(512) << 20);
    sky_disk_place p, old;
    int fd;
    for (uint64_t n = 0; n < 6 * SKY_SEGMENT_ROWS; n++) {
        sky_key key = sky_fixture_key(n);
        assert_int_equal(sky_disk_segments_reserve(f.s, SKY_SEGMENT_UNIT_BYTES, &p, &fd), SKY_OK);
        sky_file_close(fd);
        p.checksum = 77;
        assert_int_equal(sky_disk_segments_publish(f.s, &key, &p, &old), SKY_OK);
    }
    set_close(&f);
}

static void write_at(const fixture *f, unsigned number, uint64_t at, const void *data,
                     size_t bytes) {
    char path[300];
    snprintf(path, sizeof path, "%s/.segment-%u", f->folder, number);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, bytes, (off_t)at), (ssize_t)bytes);
    close(fd);
}

/* As a crash leaves it while it is made. */
static void an_unfinished_segment_is_made_again(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    write_at(&f, 0, 4096, "x", 1);
    set_reopen(&f);
    sky_disk_place old, found;
    assert_int_equal(put(f.s, 1, &old).segment, 0);
    set_reopen(&f);
    assert_int_equal(find(f.s, 1, &found), SKY_OK);
    set_close(&f);
}

/* Sound rows that overlap, repeat a key, or say nonsense; then noise. All of it is loaded, listed,
 * looked up, removed and written over. */
static void hostile_rows_lead_nowhere(void **state) {
    (void)state;
    sky_prng random;
    sky_prng_init(&random, 5);
    for (int round = 0; round < 60; round++) {
        fixture f = set_open(LIMIT);
        sky_disk_place old, found;
        put(f.s, 1, &old);
        for (int i = 0; i < 40; i++) {
            uint8_t bytes[SKY_SEGMENT_ROW_BYTES];
            uint32_t row = (uint32_t)sky_prng_below(&random, SKY_SEGMENT_ROWS);
            sky_segment_row r = {.key = sky_fixture_key(sky_prng_below(&random, 8)),
                                 .sequence = sky_prng_below(&random, 20),
                                 .unit = (uint32_t)sky_prng_below(&random, 80),
                                 .unit_count = (uint32_t)sky_prng_below(&random, 40)};
            if (i == 39 && round % 2)
                r.sequence = SKY_SEGMENT_SEQUENCE_MAX;
            sky_segment_row_encode(&r, 0, row, bytes);
            if (i % 4 == 0)
                bytes[sky_prng_below(&random, sizeof bytes)] ^= 1;
            write_at(&f, 0, sky_segment_row_at(row), bytes, sizeof bytes);
        }
        set_reopen(&f);
        sky_key key;
        uint32_t cursor = 0;
        while (sky_disk_segments_next(f.s, true, &cursor, &key))
            sky_disk_segments_settle(f.s, &key, round % 3 == 0);
        for (cursor = 0; sky_disk_segments_next(f.s, false, &cursor, &key);) {
            int fd;
            assert_int_equal(sky_disk_segments_find(f.s, &key, false, &found, &fd), SKY_OK);
            sky_file_close(fd);
            assert_true(found.base >= SKY_SEGMENT_DATA_OFFSET &&
                        found.base + (uint64_t)found.unit_count * SKY_SEGMENT_UNIT_BYTES <=
                            sky_segment_file_bytes(SKY_SEGMENT_UNITS_MIN));
        }
        int fd;
        sky_status status = sky_disk_segments_reserve(f.s, ENTRY_BYTES, &found, &fd);
        assert_true(status == SKY_OK || status == SKY_E_UNSUPPORTED);
        if (status == SKY_OK) {
            key = sky_fixture_key(3);
            assert_int_equal(sky_disk_segments_publish(f.s, &key, &found, &old), SKY_OK);
            sky_file_close(fd);
        }
        for (uint64_t n = 0; n < 8; n++) {
            uint64_t freed;
            key = sky_fixture_key(n);
            sky_disk_segments_remove(f.s, &key, true, &freed);
            assert_int_equal(find(f.s, n, &found), SKY_MISS);
        }
        set_close(&f);
    }
}

static void what_is_no_segment_is_passed_over(void **state) {
    (void)state;
    fixture f = set_open(LIMIT);
    sky_disk_place old, found;
    uint8_t mark[SKY_SEGMENT_MARK_BYTES];
    char path[300];
    put(f.s, 1, &old);
    sky_segment_head_encode(1, 8192, mark); /* says more than the file has */
    write_at(&f, 1, 0, mark, sizeof mark);
    snprintf(path, sizeof path, "%s/.segment-2", f.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.segment-3", f.folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/.segment-4", f.folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    set_reopen(&f);
    assert_int_equal(find(f.s, 1, &found), SKY_OK);
    for (uint64_t n = 0; n < 40; n++)
        put(f.s, n, &old);
    set_reopen(&f);
    for (uint64_t n = 0; n < 40; n++)
        assert_int_equal(find(f.s, n, &found), SKY_OK);
    set_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_published_is_found),
        cmocka_unit_test(what_is_only_reserved_is_not_there),
        cmocka_unit_test(an_older_row_lasts_until_it_is_released),
        cmocka_unit_test(a_removal_takes_all_rows),
        cmocka_unit_test(several_share_a_folder),
        cmocka_unit_test(what_another_cleared_is_synced),
        cmocka_unit_test(a_second_removal_syncs_the_first),
        cmocka_unit_test(places_are_used_again),
        cmocka_unit_test(free_places_give_their_blocks_back),
        cmocka_unit_test(segments_without_rows_do_not_pile_up),
        cmocka_unit_test(what_is_too_large_or_too_little_is_refused),
        cmocka_unit_test(the_last_of_two_writers_stands),
        cmocka_unit_test(a_held_place_is_left_alone),
        cmocka_unit_test(a_row_that_cannot_be_cleared_is_not_forgotten),
        cmocka_unit_test(small_entries_do_not_run_out),
        cmocka_unit_test(a_segment_that_was_removed_is_noticed),
        cmocka_unit_test(an_unfinished_segment_is_made_again),
        cmocka_unit_test(hostile_rows_lead_nowhere),
        cmocka_unit_test(what_is_no_segment_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
