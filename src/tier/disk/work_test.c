/* Proves: what is given up before its turn changes nothing on a disk, and lookups get theirs
 * however many changes there are. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/clock.h"
#include "tier/batch.h"
#include "tier/disk/disk.h"
#include "tier/disk/disk_fixture.h"

#define PUTS      8u
#define PUT_BYTES (4u << 20)
#define TRIES     20
#define REMOVALS  4096u

static bool is_over(sky_tier *tier, sky_batch batch) {
    return sky_tier_wait(tier, batch, sky_now()) == SKY_OK;
}

/* Wait until the tier's thread has begun all changes. */
static void await_begun(sky_tier *tier) {
    sky_disk *d = (sky_disk *)(void *)tier; /* its first member */
    for (size_t waiting = 1; waiting > 0; sched_yield()) {
        sky_mutex_lock(&d->queue_mutex);
        waiting = d->changes.count;
        sky_mutex_unlock(&d->queue_mutex);
    }
}

/* The change waits behind puts that take a while. False: they were over too soon. */
static bool give_up_behind_puts(sky_tier *tier, sky_op op, sky_item *puts, sky_key key) {
    sky_item item = {.key = key};
    sky_batch writing = sky_fixture_submit(tier, SKY_OP_PUT, puts, PUTS, NULL);
    sky_batch changing = sky_fixture_submit(tier, op, &item, 1, NULL);
    await_begun(tier);
    bool waits = !is_over(tier, changing);
    if (waits)
        sky_tier_cancel(tier, changing);
    bool early = waits && !is_over(tier, writing);
    if (early || !waits)
        assert_int_equal(sky_tier_wait(tier, writing, SKY_TIME_NEVER), SKY_OK);
    return early && item.status == SKY_E_CANCELLED;
}

static void a_change_that_is_given_up_is_not_made(void **state) {
    (void)state;
    static const sky_op ops[] = {SKY_OP_REMOVE, SKY_OP_PIN};
    static uint8_t bytes[PUT_BYTES];
    const sky_span span = {bytes, sizeof bytes};
    const sky_key key = sky_fixture_key(PUTS);
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_item puts[PUTS], looked = {.key = key};
    for (unsigned i = 0; i < PUTS; i++)
        puts[i] = (sky_item){.key = sky_fixture_key(i), .spans = &span, .span_count = 1};
    sky_fixture_durable = true;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        bool given_up = false;
        for (int i = 0; i < TRIES && !given_up; i++) {
            assert_int_equal(sky_fixture_put(tier, key, NULL, 100, 1), SKY_OK);
            given_up = give_up_behind_puts(tier, ops[o], puts, key);
        }
        assert_true(given_up);
        assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, puts[0].key), SKY_OK); /* after it */
        sky_fixture_run(tier, SKY_OP_HAS, &looked, 1, NULL);
        assert_int_equal(looked.status, SKY_OK);
        assert_false(looked.pinned);
    }
    sky_fixture_durable = false;
    disk_close(tier);
    disk_folder_drop(folder);
}

static void lookups_are_answered_between_removals(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "");
    sky_item *removals = calloc(REMOVALS, sizeof *removals), looked = {.key = sky_fixture_key(0)};
    assert_non_null(removals);
    for (size_t i = 0; i < REMOVALS; i++)
        removals[i].key = sky_fixture_key(i);
    sky_batch removing = sky_fixture_submit(tier, SKY_OP_REMOVE, removals, REMOVALS, NULL);
    while (sky_batches_unfinished(tier->batches, removing) == REMOVALS)
        sched_yield();
    sky_batch looking = sky_fixture_submit(tier, SKY_OP_HAS, &looked, 1, NULL);
    sky_batch over[2]; /* in the order in which they ended */
    for (size_t count = 0; count < 2; sched_yield())
        count += sky_tier_drain(tier, over + count, 2 - count);
    assert_int_equal(over[0].id, looking.id);
    assert_int_equal(over[1].id, removing.id);
    assert_int_equal(looked.status, SKY_MISS);
    free(removals);
    disk_close(tier);
    disk_folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_that_is_given_up_is_not_made),
        cmocka_unit_test(lookups_are_answered_between_removals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
