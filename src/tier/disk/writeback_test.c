/* Proves: when the kernel loses written bytes, no put whose bytes they may be is acknowledged,
 * whichever sync fails for it; what such a put replaced stands again; and later puts go on.
 *
 * pwrite and fdatasync are this program's own. As in Linux each error goes once to each open file
 * that was there before. How many an open file has had stands in its offset, which
 * nothing else uses, and which copies of a descriptor share. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/sync.h"
#include "tier/disk/disk_fixture.h"

#define BYTES     3000
#define ROUND     SKY_MS(1)
#define WAIT_LONG SKY_SECONDS(60)

static atomic_int losses;
static atomic_bool hold_syncs;
static atomic_int held_syncs;

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    if (lseek(fd, 0, SEEK_CUR) == 0) /* those of before are not its own */
        lseek(fd, 1 + atomic_load(&losses), SEEK_SET);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

int fdatasync(int fd) {
    atomic_fetch_add(&held_syncs, 1);
    while (atomic_load(&hold_syncs))
        sky_poll(NULL, 0, sky_now() + ROUND);
    atomic_fetch_sub(&held_syncs, 1);
    off_t told = lseek(fd, 0, SEEK_CUR), all = 1 + atomic_load(&losses);
    if (told <= 0 || told == all)
        return 0;
    lseek(fd, all, SEEK_SET);
    errno = EIO;
    return -1;
}

typedef struct {
    uint8_t bytes[BYTES];
    sky_span span;
    sky_item item;
    sky_batch batch;
} put;

static void put_begin(sky_tier *tier, put *p, uint64_t n, uint64_t version) {
    sky_fixture_fill(p->bytes, BYTES, version);
    p->span = (sky_span){p->bytes, BYTES};
    p->item = (sky_item){.key = sky_fixture_key(n), .spans = &p->span, .span_count = 1};
    const sky_call call = {.durable = true};
    assert_int_equal(sky_tier_submit(tier, SKY_OP_PUT, &p->item, 1, &call, &p->batch), SKY_OK);
}

static sky_status put_end(sky_tier *tier, const put *p) {
    assert_int_equal(sky_tier_wait(tier, p->batch, sky_now() + WAIT_LONG), SKY_OK);
    return p->item.status;
}

static sky_status put_one(sky_tier *tier, uint64_t n, uint64_t version) {
    put p;
    put_begin(tier, &p, n, version);
    return put_end(tier, &p);
}

static sky_status check(sky_tier *tier, uint64_t n, uint64_t version) {
    return sky_fixture_check(tier, sky_fixture_key(n), BYTES, version);
}

static void await_sync(void) {
    while (atomic_load(&held_syncs) == 0)
        sky_poll(NULL, 0, sky_now() + ROUND);
}

static void await_entry(sky_tier *tier, uint64_t n, uint64_t version) {
    while (check(tier, n, version) != SKY_OK)
        sky_poll(NULL, 0, sky_now() + ROUND);
}

/* Of two puts the first is under sync when the bytes of both are lost, and fails. */
static void lost_bytes_are_told_to_all_whose_they_may_be(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    static put first, second;
    assert_int_equal(put_one(tier, 2, 20), SKY_OK);
    assert_int_equal(put_one(tier, 3, 30), SKY_OK);
    uint64_t used = sky_fixture_counts(tier).bytes_used;
    atomic_store(&hold_syncs, true);
    put_begin(tier, &first, 1, 11);
    await_sync();
    put_begin(tier, &second, 2, 21);
    await_entry(tier, 2, 21); /* it is written, and waits for the next sync */
    atomic_fetch_add(&losses, 1);
    atomic_store(&hold_syncs, false);
    assert_int_equal(put_end(tier, &first), SKY_E_IO);
    assert_int_equal(put_end(tier, &second), SKY_E_IO);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(check(tier, 1, 11), SKY_MISS);
        assert_int_equal(check(tier, 2, 20), SKY_OK); /* as acknowledged */
        assert_int_equal(check(tier, 3, 30), SKY_OK);
        assert_int_equal(sky_fixture_counts(tier).bytes_used, used);
        disk_close(tier);
        tier = disk_open(folder, "");
    }
    assert_int_equal(put_one(tier, 1, 12), SKY_OK);
    assert_int_equal(put_one(tier, 2, 22), SKY_OK);
    assert_int_equal(check(tier, 1, 12), SKY_OK);
    assert_int_equal(check(tier, 2, 22), SKY_OK);
    disk_close(tier);
    disk_folder_drop(folder);
}

/* A file that was replaced goes only when the sync says so. */
static void what_was_replaced_stands_again(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    static put p;
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(1), NULL, BYTES, 10), SKY_OK);
    assert_int_equal(put_one(tier, 2, 20), SKY_OK);
    assert_int_equal(disk_count_files(folder, 'e'), 1);
    for (uint64_t version = 11; version < 13; version++) {
        atomic_store(&hold_syncs, true);
        put_begin(tier, &p, 1, version);
        await_sync();
        atomic_fetch_add(&losses, 1);
        atomic_store(&hold_syncs, false);
        assert_int_equal(put_end(tier, &p), SKY_E_IO);
        assert_int_equal(check(tier, 1, 10), SKY_OK);
    }
    assert_int_equal(put_one(tier, 1, 13), SKY_OK);
    assert_int_equal(check(tier, 1, 13), SKY_OK);
    assert_int_equal(disk_count_files(folder, 'e'), 0);
    disk_close(tier);
    disk_folder_drop(folder);
}

int main(void) {
    setenv("SKYMEM_IO", "threads", 1); /* io_uring does not ask fdatasync */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_bytes_are_told_to_all_whose_they_may_be),
        cmocka_unit_test(what_was_replaced_stands_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
