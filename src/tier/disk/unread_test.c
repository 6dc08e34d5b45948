/* Proves: a segment that cannot be read hides nothing and loses nothing. A key that may stand in it
 * is no miss, nothing is stored or removed meanwhile that it would outlive, its room is not given
 * out, it is not made again; and once it is read again, or was removed, all goes on.
 *
 * pread is this program's own: it fails for parts of segments. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tier/disk/disk_fixture.h"
#include "tier/disk/segments.h"

#define BYTES 3000
#define LIMIT (UINT64_C(64) << 20)

typedef enum { NOTHING, TABLES, HEADS } part;

static atomic_int unreadable = NOTHING;

static bool is_segment(int fd) {
    char link[64], path[300];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return strstr(path, "/.segment-") != NULL;
}

/* Stands before the C library's. Of the head only its count of changes can be read. */
ssize_t pread(int fd, void *data, size_t bytes, off_t at) {
    bool head = at == 0, table = at == SKY_SEGMENT_HEAD_BYTES && bytes > SKY_SEGMENT_ROW_BYTES;
    part failing = (part)atomic_load(&unreadable);
    if (((failing == TABLES && table) || (failing == HEADS && head)) && is_segment(fd)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, data, bytes, at);
}

static sky_status put(sky_tier *tier, uint64_t n, uint64_t version, bool durable) {
    sky_fixture_durable = durable;
    sky_status status = sky_fixture_put(tier, sky_fixture_key(n), NULL, BYTES, version);
    sky_fixture_durable = false;
    return status;
}

static sky_status check(sky_tier *tier, uint64_t n, uint64_t version) {
    return sky_fixture_check(tier, sky_fixture_key(n), BYTES, version);
}

/* Key 1 in a segment, key 2 in a file; the segment cannot be read when the folder is opened. */
static sky_tier *open_unread(char *folder, part failing) {
    sky_tier *tier = disk_open(folder, "");
    assert_int_equal(put(tier, 1, 1, true), SKY_OK);
    assert_int_equal(put(tier, 2, 1, false), SKY_OK);
    disk_close(tier);
    atomic_store(&unreadable, failing);
    return disk_open(folder, "");
}

static void nothing_is_absent_stored_or_removed(void **state) {
    (void)state;
    for (part failing = TABLES; failing <= HEADS; failing++) {
        char *folder = disk_folder_make();
        sky_tier *tier = open_unread(folder, failing);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(check(tier, 1, 1), SKY_E_IO);
            assert_int_equal(sky_fixture_one(tier, SKY_OP_HAS, sky_fixture_key(3)), SKY_E_IO);
            assert_int_equal(check(tier, 2, 1), SKY_OK);
            for (int durable = 0; durable < 2; durable++)
                assert_int_equal(put(tier, 1, 2, durable), SKY_E_IO);
            for (uint64_t n = 1; n < 4; n++)
                assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(n)),
                                 SKY_E_IO);
            sky_verify_report report = {0};
            assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
        }
        assert_int_equal(sky_fixture_counts(tier).corrupt, 0);
        assert_int_equal(disk_count_files(folder, 'e'), 1);
        atomic_store(&unreadable, NOTHING);
        assert_int_equal(check(tier, 1, 1), SKY_OK);
        assert_int_equal(check(tier, 3, 1), SKY_MISS);
        assert_int_equal(put(tier, 1, 2, true), SKY_OK);
        disk_close(tier);
        tier = disk_open(folder, "");
        assert_int_equal(check(tier, 1, 2), SKY_OK);
        assert_int_equal(check(tier, 2, 1), SKY_OK);
        disk_close(tier);
        disk_folder_drop(folder);
    }
}

static void one_that_was_removed_is_waited_for_no_longer(void **state) {
    (void)state;
    for (part failing = TABLES; failing <= HEADS; failing++) {
        char *folder = disk_folder_make(), path[300];
        sky_tier *tier = open_unread(folder, failing);
        assert_int_equal(put(tier, 1, 2, true), SKY_E_IO);
        snprintf(path, sizeof path, "%s/.segment-0", folder);
        assert_int_equal(remove(path), 0);
        assert_int_equal(check(tier, 1, 1), SKY_MISS);
        atomic_store(&unreadable, NOTHING); /* a new one can be read */
        assert_int_equal(put(tier, 1, 2, true), SKY_OK);
        disk_close(tier);
        tier = disk_open(folder, "");
        assert_int_equal(check(tier, 1, 2), SKY_OK);
        disk_close(tier);
        disk_folder_drop(folder);
    }
}

/* ---- segments alone ---- */

static sky_disk_segments *open_set(int root) {
    sky_disk_segments *s;
    assert_int_equal(sky_disk_segments_create(LIMIT, &s), SKY_OK);
    sky_disk_segments_load(s, root, true);
    return s;
}

static sky_status reserve(sky_disk_segments *s, sky_disk_place *p) {
    int fd;
    sky_status status = sky_disk_segments_reserve(s, SKY_SEGMENT_UNIT_BYTES, p, &fd);
    if (status == SKY_OK)
        close(fd);
    return status;
}

static sky_status publish(sky_disk_segments *s, uint64_t n, sky_disk_place *p) {
    sky_disk_place old;
    sky_key key = sky_fixture_key(n);
    return sky_disk_segments_publish(s, &key, p, &old);
}

static sky_status find(sky_disk_segments *s, uint64_t n, sky_disk_place *p) {
    sky_key key = sky_fixture_key(n);
    int fd;
    sky_status status = sky_disk_segments_find(s, &key, false, p, &fd);
    if (status == SKY_OK)
        close(fd);
    return status;
}

/* A process leaves a segment alone whose rows it could not read, at open or when it takes over. */
static void room_of_what_is_unread_is_not_given_out(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        char *folder = disk_folder_make();
        int root = open(folder, O_RDONLY | O_DIRECTORY);
        sky_disk_place first, p, found;
        sky_disk_segments *s = open_set(root);
        assert_int_equal(reserve(s, &first), SKY_OK);
        assert_int_equal(publish(s, 1, &first), SKY_OK);
        sky_disk_segments_destroy(s);
        atomic_store(&unreadable, known ? NOTHING : TABLES);
        s = open_set(root);
        atomic_store(&unreadable, TABLES);
        for (uint64_t i = 0; i < 4; i++)
            if (reserve(s, &p) == SKY_OK) {
                assert_true(p.segment != first.segment || p.row != first.row);
                assert_int_equal(publish(s, 1, &p), SKY_E_IO);
            }
        assert_false(sky_disk_segments_known(s));
        atomic_store(&unreadable, NOTHING);
        assert_true(sky_disk_segments_known(s));
        assert_int_equal(find(s, 1, &found), SKY_OK);
        assert_int_equal(found.sequence, first.sequence);
        assert_int_equal(reserve(s, &p), SKY_OK);
        assert_int_equal(publish(s, 1, &p), SKY_OK);
        assert_true(p.sequence > first.sequence);
        sky_disk_segments_destroy(s);
        close(root);
        disk_folder_drop(folder);
    }
}

/* What another process added there, after it was read once. */
static void news_that_cannot_be_read_are_no_miss(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    int root = open(folder, O_RDONLY | O_DIRECTORY);
    sky_disk_place p, found;
    sky_disk_segments *s = open_set(root);
    assert_int_equal(reserve(s, &p), SKY_OK);
    sky_disk_segments *other = open_set(root);
    assert_int_equal(publish(s, 1, &p), SKY_OK);
    atomic_store(&unreadable, TABLES);
    assert_true(sky_disk_segments_refresh(other));
    assert_int_equal(find(other, 1, &found), SKY_E_IO);
    atomic_store(&unreadable, NOTHING);
    assert_true(sky_disk_segments_refresh(other));
    assert_int_equal(find(other, 1, &found), SKY_OK);
    assert_false(sky_disk_segments_refresh(other));
    sky_disk_segments_destroy(other);
    sky_disk_segments_destroy(s);
    close(root);
    disk_folder_drop(folder);
}

static int set_up(void **state) {
    (void)state;
    atomic_store(&unreadable, NOTHING);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_absent_stored_or_removed, set_up),
        cmocka_unit_test_setup(one_that_was_removed_is_waited_for_no_longer, set_up),
        cmocka_unit_test_setup(room_of_what_is_unread_is_not_given_out, set_up),
        cmocka_unit_test_setup(news_that_cannot_be_read_are_no_miss, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
