/* Proves what a hierarchy does between its tiers: it reads through and promotes, writes behind, evicts
 * down, keeps deadlines when a tier hangs, leaves out a tier that fails, and never lets an older
 * payload come after a newer one or a removal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/sync.h"
#include "store/cache_internal.h"
#include "store/disk_fixture.h"
#include "store/hierarchy.h"
#include "store/scripted_fixture.h"
#include "store/tier_fixture.h"

#define PATIENCE  SKY_SECONDS(30)
#define NEAR_ONLY ((sky_call){.tiers = 1})
#define BYTES     5000

/* A hierarchy of a memory tier (if `mem`) and scripted ones. */
typedef struct {
    sky_cache *cache;
    sky_scripted *far[3];
} setting;

static setting open_setting(const char *mem, size_t far_count) {
    setting s = {0};
    assert_int_equal(sky_cache_create(&s.cache), SKY_OK);
    if (mem) {
        sky_tier_env env = sky_cache_env(s.cache, far_count == 0);
        sky_tier *tier;
        assert_int_equal(sky_memory_tier_open(mem, &env, &tier, NULL), SKY_OK);
        sky_cache_add(s.cache, tier);
    }
    for (size_t i = 0; i < far_count; i++) {
        s.far[i] = sky_scripted_open((uint8_t)(i + (mem != NULL)));
        sky_cache_add(s.cache, sky_scripted_tier(s.far[i]));
    }
    assert_int_equal(sky_cache_start(s.cache), SKY_OK);
    return s;
}

typedef struct {
    sky_item item;
    sky_span span;
    uint8_t data[BYTES];
} one;

static void make_one(one *o, uint64_t n) {
    memset(o, 0, sizeof *o);
    o->span = (sky_span){o->data, BYTES};
    o->item = (sky_item){.key = sky_fixture_key(n), .spans = &o->span, .span_count = 1};
}

static sky_status run_one(sky_cache *c, sky_op op, one *o, const sky_call *call) {
    sky_batch batch;
    assert_int_equal(sky_submit(c, op, &o->item, 1, call, &batch), SKY_OK);
    assert_int_equal(sky_wait(c, batch, sky_now() + PATIENCE), SKY_OK);
    return o->item.status;
}

static sky_status put(sky_cache *c, uint64_t n, uint64_t seed, const sky_call *call) {
    one o;
    make_one(&o, n);
    sky_fixture_fill(o.data, BYTES, seed);
    return run_one(c, SKY_OP_PUT, &o, call);
}

/* The tier that gave exactly the payload of `seed`; SKY_TIER_NONE for any other outcome. */
static uint8_t get(sky_cache *c, uint64_t n, uint64_t seed, const sky_call *call) {
    one o;
    make_one(&o, n);
    if (run_one(c, SKY_OP_GET, &o, call) != SKY_OK || o.item.bytes != BYTES)
        return SKY_TIER_NONE;
    return sky_fixture_holds(o.data, BYTES, seed) ? o.item.tier : SKY_TIER_NONE;
}

static sky_status do_op(sky_cache *c, sky_op op, uint64_t n, const sky_call *call) {
    one o;
    make_one(&o, n);
    return run_one(c, op, &o, call);
}

static bool near_has(sky_cache *c, uint64_t n) {
    return do_op(c, SKY_OP_HAS, n, &NEAR_ONLY) == SKY_OK;
}

static void nap(void) {
    sky_poll(NULL, 0, sky_now() + SKY_MS(1));
}

/* Wait until a condition holds; the test fails when it does not in time. */
#define EVENTUALLY(condition)                                                                      \
    for (sky_time until_ = sky_now() + PATIENCE; !(condition); nap())                              \
    assert_true(sky_now() < until_)

static void plant(sky_scripted *s, uint64_t n, uint64_t seed) {
    uint8_t data[BYTES];
    sky_fixture_fill(data, BYTES, seed);
    sky_scripted_plant(s, sky_fixture_key(n), data, BYTES);
}

static bool far_holds(sky_scripted *s, uint64_t n, uint64_t seed) {
    sky_key key = sky_fixture_key(n);
    size_t bytes;
    const void *data = sky_scripted_peek(s, &key, &bytes);
    return data && bytes == BYTES && sky_fixture_holds(data, BYTES, seed);
}

static bool far_has(sky_scripted *s, uint64_t n) {
    sky_key key = sky_fixture_key(n);
    size_t bytes;
    return sky_scripted_peek(s, &key, &bytes) != NULL;
}

static sky_status flush(sky_cache *c) {
    return sky_flush(c, sky_now() + PATIENCE);
}

static sky_tier_stat stat_of(sky_cache *c, size_t tier) {
    sky_tier_stat s;
    assert_int_equal(sky_cache_stat(c, tier, &s), SKY_OK);
    return s;
}

/* ---- reading ---- */

static void near_hits_are_done_when_submit_returns(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    assert_int_equal(put(s.cache, 1, 1, NULL), SKY_OK);
    one o;
    make_one(&o, 1);
    sky_batch batch, done;
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    assert_int_equal(o.item.tier, 0);
    int fd = sky_event_fd(s.cache);
    assert_int_equal(sky_poll(&fd, 1, sky_now()), 1);
    assert_int_equal(sky_drain(s.cache, &done, 1), 1);
    assert_int_equal(done.id, batch.id);
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_GET), 0);
    sky_scripted_hold(s.far[0], false);
    sky_cache_close(s.cache);
}

static void misses_are_read_through_and_promoted(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    plant(s.far[0], 1, 1);
    plant(s.far[1], 2, 2);
    assert_int_equal(get(s.cache, 1, 1, NULL), 1);
    assert_int_equal(get(s.cache, 2, 2, NULL), 2);
    assert_int_equal(get(s.cache, 3, 3, NULL), SKY_TIER_NONE);
    assert_int_equal(do_op(s.cache, SKY_OP_GET, 3, NULL), SKY_MISS);
    EVENTUALLY(near_has(s.cache, 1) && near_has(s.cache, 2));
    assert_int_equal(get(s.cache, 1, 1, NULL), 0);
    assert_int_equal(get(s.cache, 2, 2, NULL), 0);
    sky_cache_close(s.cache);
}

/* Part of a payload is asked for; all of it is promoted, with the parent that the item names. */
static void a_promotion_is_whole_and_keeps_its_parent(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    plant(s.far[0], 1, 1);
    plant(s.far[0], 2, 2);
    one o;
    for (uint64_t n = 1; n <= 2; n++) {
        make_one(&o, n);
        o.item.range = (sky_range){100, 50};
        o.item.parent = n == 2 ? sky_fixture_key(1) : (sky_key){{0}};
        assert_int_equal(run_one(s.cache, SKY_OP_GET, &o, NULL), SKY_OK);
        assert_int_equal(o.item.bytes, 50);
        EVENTUALLY(near_has(s.cache, n));
    }
    assert_int_equal(get(s.cache, 2, 2, &NEAR_ONLY), 0);
    assert_int_equal(do_op(s.cache, SKY_OP_REMOVE, 1, &NEAR_ONLY), SKY_OK);
    assert_false(near_has(s.cache, 2));
    sky_cache_close(s.cache);
}

static void large_batches_are_split_and_all_answered(void **state) {
    (void)state;
    enum { ITEMS = 500 };
    setting s = open_setting("mem:1MiB", 2);
    sky_item *items = calloc(ITEMS, sizeof *items);
    assert_non_null(items);
    for (uint64_t n = 0; n < ITEMS; n++) {
        items[n].key = sky_fixture_key(n);
        if (n % 3)
            plant(s.far[n % 3 - 1], n, n);
    }
    assert_int_equal(sky_run(s.cache, SKY_OP_HAS, items, ITEMS, NULL), SKY_OK);
    for (uint64_t n = 0; n < ITEMS; n++) {
        assert_int_equal(items[n].status, n % 3 ? SKY_OK : SKY_MISS);
        assert_int_equal(items[n].tier, n % 3 ? n % 3 : SKY_TIER_NONE);
        assert_int_equal(items[n].bytes, n % 3 ? BYTES : 0);
    }
    free(items);
    sky_cache_close(s.cache);
}

static void damage_at_one_tier_is_read_from_the_next(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    plant(s.far[0], 1, 1);
    plant(s.far[1], 1, 1);
    plant(s.far[0], 2, 2);
    sky_scripted_say(s.far[0], SKY_E_CORRUPT);
    assert_int_equal(get(s.cache, 1, 1, NULL), 2);
    assert_int_equal(do_op(s.cache, SKY_OP_GET, 2, NULL), SKY_E_CORRUPT);
    sky_cache_close(s.cache);
}

static void tiers_not_in_the_mask_are_not_asked(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    plant(s.far[1], 1, 1);
    assert_int_equal(put(s.cache, 2, 2, &(sky_call){.tiers = 1 | 4}), SKY_OK);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_false(far_has(s.far[0], 2));
    assert_true(far_holds(s.far[1], 2, 2));
    assert_int_equal(do_op(s.cache, SKY_OP_GET, 1, &(sky_call){.tiers = 3}), SKY_MISS);
    assert_int_equal(get(s.cache, 1, 1, &(sky_call){.tiers = 4}), 2);
    one o;
    make_one(&o, 1);
    sky_batch batch = {7};
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, &(sky_call){.tiers = 8}, &batch),
                     SKY_E_PARAM);
    assert_int_equal(batch.id, 7);
    sky_cache_close(s.cache);
}

static void prefix_counts_the_leading_run(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_key keys[6];
    uint64_t bytes[6] = {0};
    for (uint64_t n = 0; n < 6; n++)
        keys[n] = sky_fixture_key(n);
    assert_int_equal(put(s.cache, 0, 0, &NEAR_ONLY), SKY_OK);
    plant(s.far[0], 1, 1);
    assert_int_equal(put(s.cache, 2, 2, &NEAR_ONLY), SKY_OK);
    plant(s.far[0], 4, 4);
    assert_int_equal(sky_prefix(s.cache, keys, 6, NULL, bytes), 3);
    assert_true(bytes[0] == BYTES && bytes[2] == BYTES && bytes[3] == 0);
    assert_int_equal(sky_prefix(s.cache, keys + 3, 3, NULL, NULL), 0);
    assert_int_equal(sky_prefix(s.cache, keys, 0, NULL, NULL), 0);
    sky_cache_close(s.cache);
}

static void prefetch_is_done_when_it_is_near(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    plant(s.far[1], 1, 1);
    assert_int_equal(do_op(s.cache, SKY_OP_PREFETCH, 1, NULL), SKY_OK);
    assert_int_equal(get(s.cache, 1, 1, &NEAR_ONLY), 0);
    assert_int_equal(do_op(s.cache, SKY_OP_PREFETCH, 1, NULL), SKY_OK);
    assert_int_equal(do_op(s.cache, SKY_OP_PREFETCH, 2, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

static void leases_come_from_the_near_tier(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    plant(s.far[0], 1, 1);
    one o;
    make_one(&o, 1);
    assert_int_equal(run_one(s.cache, SKY_OP_LEASE, &o, NULL), SKY_OK);
    assert_int_equal(o.item.view.bytes, BYTES);
    assert_true(sky_fixture_holds(o.item.view.data, BYTES, 1));
    sky_release(s.cache, o.item.lease);
    sky_release(s.cache, (sky_lease){0});
    assert_int_equal(do_op(s.cache, SKY_OP_LEASE, 2, NULL), SKY_MISS);
    sky_scripted_hold(s.far[0], true);
    sky_call call = {.deadline_ns = sky_now() + SKY_MS(30)};
    assert_int_equal(do_op(s.cache, SKY_OP_LEASE, 3, &call), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[0], false);
    sky_cache_close(s.cache);
    s = open_setting(NULL, 1);
    plant(s.far[0], 1, 1);
    assert_int_equal(do_op(s.cache, SKY_OP_LEASE, 1, NULL), SKY_E_UNSUPPORTED);
    sky_cache_close(s.cache);
}

/* ---- tiers that hang or fail ---- */

static void a_hanging_tier_costs_the_deadline(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    assert_int_equal(put(s.cache, 1, 1, &NEAR_ONLY), SKY_OK);
    one here, there;
    make_one(&here, 1);
    make_one(&there, 2);
    sky_item items[2] = {here.item, there.item};
    sky_time start = sky_now();
    sky_call call = {.deadline_ns = start + SKY_MS(60)};
    assert_int_equal(sky_run(s.cache, SKY_OP_GET, items, 2, &call), SKY_OK);
    assert_true(sky_now() - start >= SKY_MS(60) && sky_now() - start < SKY_SECONDS(5));
    assert_int_equal(items[0].status, SKY_OK);
    assert_true(sky_fixture_holds(here.data, BYTES, 1));
    assert_int_equal(items[1].status, SKY_E_DEADLINE);
    memset(there.data, 0x5a, BYTES);
    plant(s.far[0], 2, 2); /* and now it answers, too late */
    sky_scripted_hold(s.far[0], false);
    nap();
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(there.data[i], 0x5a);
    assert_true(stat_of(s.cache, 1).late > 0);
    sky_cache_close(s.cache);
}

static void a_cancelled_batch_lets_go_of_its_buffers(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    one o;
    make_one(&o, 1);
    sky_batch batch, done;
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    sky_cancel(s.cache, batch);
    assert_int_equal(o.item.status, SKY_E_CANCELLED);
    memset(o.data, 0x5a, BYTES);
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(o.data[i], 0x5a);
    assert_int_equal(sky_drain(s.cache, &done, 1), 0);
    sky_cancel(s.cache, batch);
    sky_cancel(s.cache, (sky_batch){0});
    sky_cache_close(s.cache);
}

static void a_failing_tier_is_left_out_and_tried_again(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    plant(s.far[1], 1, 1);
    plant(s.far[0], 2, 2);
    sky_scripted_say(s.far[0], SKY_E_IO);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(get(s.cache, 1, 1, &(sky_call){.tiers = 6}), 2);
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_GET), 3);
    sky_tier_stat stat = stat_of(s.cache, 1);
    assert_true(stat.failing);
    assert_non_null(strstr(stat.note, "3 failures"));
    assert_false(stat_of(s.cache, 2).failing);
    assert_int_equal(do_op(s.cache, SKY_OP_GET, 2, NULL), SKY_E_IO);
    assert_int_equal(put(s.cache, 3, 3, NULL), SKY_OK);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_int_equal(stat_of(s.cache, 1).dropped, 1);
    assert_true(far_holds(s.far[1], 3, 3));
    sky_scripted_say(s.far[0], SKY_OK);
    EVENTUALLY(!stat_of(s.cache, 1).failing);
    assert_int_equal(get(s.cache, 2, 2, NULL), 1);
    sky_cache_close(s.cache);
}

/* ---- writing ---- */

static void puts_are_written_behind(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 20; n++)
        assert_int_equal(put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(sky_flush(s.cache, sky_now() + SKY_MS(5)), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 20; n++)
        assert_true(far_holds(s.far[0], n, n) && far_holds(s.far[1], n, n));
    assert_int_equal(stat_of(s.cache, 1).dropped, 0);
    sky_cache_close(s.cache);
}

static void a_full_queue_drops_and_counts(void **state) {
    (void)state;
    setting s = open_setting("mem:100KiB", 1);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 20; n++) /* 50 KiB of 5000 bytes are queued */
        assert_int_equal(put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(stat_of(s.cache, 1).dropped, 10);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 10; n++)
        assert_true(far_holds(s.far[0], n, n));
    sky_cache_close(s.cache);
}

static void a_durable_put_is_done_when_all_have_it(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    sky_call durable = {.durable = true};
    assert_int_equal(put(s.cache, 1, 1, &durable), SKY_OK);
    assert_true(far_holds(s.far[0], 1, 1) && far_holds(s.far[1], 1, 1) && near_has(s.cache, 1));
    sky_scripted_say(s.far[1], SKY_E_FULL);
    assert_int_equal(put(s.cache, 2, 2, &durable), SKY_E_FULL);
    sky_scripted_say(s.far[1], SKY_OK);
    sky_scripted_hold(s.far[0], true);
    durable.deadline_ns = sky_now() + SKY_MS(30);
    assert_int_equal(put(s.cache, 3, 3, &durable), SKY_E_DEADLINE);
    sky_cache_close(s.cache);
}

static void what_one_tier_refuses_the_next_takes(void **state) {
    (void)state;
    setting s = open_setting("mem:64KiB", 2);
    enum { LARGE = 100000 };
    uint8_t *data = malloc(LARGE);
    assert_non_null(data);
    sky_fixture_fill(data, LARGE, 9);
    sky_span span = {data, LARGE};
    sky_item item = {.key = sky_fixture_key(9), .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(s.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.tier, 1);
    memset(data, 0, LARGE);
    assert_int_equal(flush(s.cache), SKY_OK);
    for (size_t i = 0; i < 2; i++) {
        size_t bytes;
        const void *stored = sky_scripted_peek(s.far[i], &item.key, &bytes);
        assert_true(stored && bytes == LARGE && sky_fixture_holds(stored, LARGE, 9));
    }
    sky_scripted_say(s.far[0], SKY_E_FULL);
    sky_scripted_say(s.far[1], SKY_E_FULL);
    assert_int_equal(sky_run(s.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_E_FULL);
    free(data);
    sky_cache_close(s.cache);
}

static sky_status put_named(sky_cache *c, uint64_t n, uint64_t seed) {
    one o;
    make_one(&o, n);
    o.item.name = "name";
    o.item.name_bytes = 4;
    sky_fixture_fill(o.data, BYTES, seed);
    return run_one(c, SKY_OP_PUT, &o, NULL);
}

/* The value of a name changes; a tier that did not get the new one must not keep the old one. */
static void a_dropped_write_leaves_no_older_value(void **state) {
    (void)state;
    setting s = open_setting("mem:100KiB", 1);
    assert_int_equal(put_named(s.cache, 1, 1), SKY_OK);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_true(far_holds(s.far[0], 1, 1));
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 10; n < 20; n++) /* the queue is full */
        assert_int_equal(put(s.cache, n, n, NULL), SKY_OK);
    assert_int_equal(put_named(s.cache, 1, 2), SKY_OK);
    assert_int_equal(stat_of(s.cache, 1).dropped, 1);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_false(far_has(s.far[0], 1));
    assert_int_equal(get(s.cache, 1, 2, NULL), 0);
    sky_cache_close(s.cache);
}

static void without_memory_the_first_tier_takes_it(void **state) {
    (void)state;
    setting s = open_setting(NULL, 2);
    sky_scripted_hold(s.far[1], true);
    assert_int_equal(put(s.cache, 1, 1, NULL), SKY_OK);
    assert_true(far_holds(s.far[0], 1, 1));
    sky_scripted_hold(s.far[1], false);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_true(far_holds(s.far[1], 1, 1));
    plant(s.far[1], 2, 2);
    assert_int_equal(get(s.cache, 2, 2, NULL), 1);
    EVENTUALLY(far_holds(s.far[0], 2, 2));
    sky_cache_close(s.cache);
}

static void victims_go_down_unless_they_are_there(void **state) {
    (void)state;
    setting s = open_setting("mem:100KiB", 2);
    enum { PUTS = 30 };
    for (uint64_t n = 0; n < PUTS; n++)
        assert_int_equal(put(s.cache, n, n, &NEAR_ONLY), SKY_OK);
    assert_int_equal(flush(s.cache), SKY_OK);
    uint64_t down = 0;
    for (uint64_t n = 0; n < PUTS; n++) {
        bool near = near_has(s.cache, n);
        assert_int_equal(far_holds(s.far[0], n, n), !near);
        assert_false(far_has(s.far[1], n));
        down += !near;
    }
    assert_true(down >= PUTS / 3);
    size_t puts = sky_scripted_count(s.far[0], SKY_OP_PUT);
    for (uint64_t n = 100; n < 100 + PUTS; n++) { /* written behind first, so not again */
        assert_int_equal(put(s.cache, n, n, NULL), SKY_OK);
        assert_int_equal(flush(s.cache), SKY_OK);
    }
    assert_true(sky_scripted_count(s.far[0], SKY_OP_PUT) <= puts + 2 * PUTS - down);
    sky_cache_close(s.cache);
}

/* ---- order ---- */

static void a_newer_put_wins_in_every_tier(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t seed = 0; seed < 10; seed++)
        assert_int_equal(put(s.cache, 1, seed, NULL), SKY_OK);
    EVENTUALLY(sky_scripted_held(s.far[0]) == 1); /* one at a time, and the newest after it */
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_PUT), 1);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_true(sky_scripted_count(s.far[0], SKY_OP_PUT) <= 2);
    assert_true(far_holds(s.far[0], 1, 9));
    sky_cache_close(s.cache);
}

static void a_removal_beats_what_is_queued(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 12; n++) /* four are on their way, eight wait */
        assert_int_equal(put(s.cache, n, n, NULL), SKY_OK);
    one first, last;
    make_one(&first, 0);
    make_one(&last, 11);
    sky_batch batches[2];
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &first.item, 1, NULL, &batches[0]), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &last.item, 1, NULL, &batches[1]), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sky_wait(s.cache, batches[i], sky_now() + PATIENCE), SKY_OK);
    assert_int_equal(first.item.status, SKY_OK);
    assert_int_equal(last.item.status, SKY_OK);
    assert_int_equal(flush(s.cache), SKY_OK);
    for (uint64_t n = 0; n < 12; n++)
        assert_int_equal(do_op(s.cache, SKY_OP_HAS, n, NULL),
                         n == 0 || n == 11 ? SKY_MISS : SKY_OK);
    assert_false(far_has(s.far[0], 0) || far_has(s.far[0], 11));
    assert_int_equal(do_op(s.cache, SKY_OP_REMOVE, 0, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

static void a_removal_takes_a_queued_name_back(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    one o;
    for (uint64_t n = 0; n < 6; n++) {
        make_one(&o, n);
        o.item.name = "name";
        o.item.name_bytes = 4;
        assert_int_equal(run_one(s.cache, SKY_OP_PUT, &o, NULL), SKY_OK);
    }
    make_one(&o, 5);
    sky_batch batch;
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + PATIENCE), SKY_OK);
    assert_int_equal(flush(s.cache), SKY_OK);
    assert_false(far_has(s.far[0], 5));
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_PUT), 5);
    sky_cache_close(s.cache);
}

/* The far tier has answered a get, and now holds back the read of its promotion. */
static setting hold_a_promotion(void) {
    setting s = open_setting("mem:1MiB", 1);
    plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    one o;
    sky_batch batch;
    make_one(&o, 1);
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    EVENTUALLY(sky_scripted_answer_one(s.far[0]));
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    return s;
}

static void a_put_beats_a_promotion(void **state) {
    (void)state;
    setting s = hold_a_promotion();
    assert_int_equal(put(s.cache, 1, 100, NULL), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(flush(s.cache), SKY_OK);
    for (int i = 0; i < 20; i++, nap())
        assert_int_equal(get(s.cache, 1, 100, &NEAR_ONLY), 0);
    assert_true(far_holds(s.far[0], 1, 100));
    sky_cache_close(s.cache);
}

static void a_removal_beats_a_promotion(void **state) {
    (void)state;
    setting s = hold_a_promotion();
    one o;
    sky_batch batch;
    make_one(&o, 1);
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    for (int i = 0; i < 20; i++, nap())
        assert_int_equal(do_op(s.cache, SKY_OP_HAS, 1, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

static void pins_concern_every_tier(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    plant(s.far[0], 1, 1);
    assert_int_equal(do_op(s.cache, SKY_OP_PIN, 1, NULL), SKY_OK);
    assert_int_equal(do_op(s.cache, SKY_OP_UNPIN, 1, NULL), SKY_OK);
    assert_int_equal(do_op(s.cache, SKY_OP_PIN, 2, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

/* ---- looking, opening and closing ---- */

static bool count_entry(void *context, const sky_entry *entry) {
    size_t *counts = context;
    counts[entry->tier]++;
    return counts[2] == 0; /* stop in the last tier */
}

static void all_tiers_are_listed_and_verified(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 2);
    for (uint64_t n = 0; n < 3; n++)
        assert_int_equal(put(s.cache, n, n, &(sky_call){.durable = true}), SKY_OK);
    size_t counts[3] = {0};
    assert_int_equal(sky_list(s.cache, count_entry, counts), SKY_OK);
    assert_true(counts[0] == 3 && counts[1] == 3 && counts[2] == 1);
    sky_verify_report report;
    assert_int_equal(sky_verify(s.cache, &report), SKY_OK);
    assert_int_equal(report.entries, 9);
    assert_int_equal(report.bytes, 9 * BYTES);
    assert_int_equal(sky_tier_count(s.cache), 3);
    sky_tier_stat stat;
    assert_int_equal(sky_cache_stat(s.cache, 3, &stat), SKY_E_PARAM);
    sky_cache_close(s.cache);
}

static void bad_hierarchies_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *url;
        sky_status status;
        const char *says;
    } bad[] = {{"mem", SKY_E_SYNTAX, "SCHEME:PATH"},
               {"tape:/dev/st0", SKY_E_SYNTAX, "'tape'"},
               {"mem:lots", SKY_E_SYNTAX, "mem:lots"},
               {"mem:1MiB?colour=red", SKY_E_SYNTAX, "colour"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *urls[] = {"mem:1MiB", bad[i].url};
        sky_cache *c = NULL;
        sky_error error = {0};
        assert_int_equal(sky_cache_open(urls, 2, &c, &error), bad[i].status);
        assert_int_equal(error.status, bad[i].status);
        assert_non_null(strstr(error.text, bad[i].says));
        assert_null(c);
    }
    sky_cache *c;
    const char *many[SKY_TIERS_MAX + 1];
    for (size_t i = 0; i <= SKY_TIERS_MAX; i++)
        many[i] = "mem:1MiB";
    assert_int_equal(sky_cache_open(many, 0, &c, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_open(many, SKY_TIERS_MAX + 1, &c, NULL), SKY_E_PARAM);
    sky_cache_close(NULL);
}

static void memory_and_disk_keep_what_was_put(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[160];
    snprintf(url, sizeof url, "disk:%s?max=8MiB", folder);
    const char *urls[] = {"mem:1MiB", url};
    sky_cache *c;
    sky_error error;
    if (sky_cache_open(urls, 2, &c, &error) != SKY_OK)
        fail_msg("%s", error.text);
    for (uint64_t n = 0; n < 40; n++)
        assert_int_equal(put(c, n, n, NULL), SKY_OK);
    sky_cache_close(c); /* writes behind what is queued */
    assert_int_equal(sky_cache_open(urls, 2, &c, &error), SKY_OK);
    for (uint64_t n = 0; n < 40; n++)
        assert_int_equal(get(c, n, n, NULL), 1);
    EVENTUALLY(get(c, 39, 39, NULL) == 0);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

static void closing_ends_what_hangs(void **state) {
    (void)state;
    setting s = open_setting("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    one o[3];
    static const sky_op ops[] = {SKY_OP_GET, SKY_OP_PREFETCH, SKY_OP_LEASE};
    sky_batch batch;
    for (uint64_t i = 0; i < 3; i++) {
        make_one(&o[i], i);
        assert_int_equal(sky_submit(s.cache, ops[i], &o[i].item, 1, NULL, &batch), SKY_OK);
    }
    EVENTUALLY(sky_scripted_held(s.far[0]) == 3);
    sky_cache_close(s.cache);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(o[i].item.status, SKY_E_CANCELLED);
}

/* ---- threads ---- */

typedef struct {
    sky_cache *cache;
    uint64_t seed;
    unsigned wrong;
} worker;

static sky_status work_once(worker *w, uint64_t n, uint64_t what) {
    one o;
    make_one(&o, n);
    sky_fixture_fill(o.data, BYTES, n);
    sky_call call = {.deadline_ns = what % 5 == 0 ? sky_now() + SKY_MS(1) : 0};
    static const sky_op ops[] = {SKY_OP_PUT, SKY_OP_GET,      SKY_OP_GET, SKY_OP_HAS,
                                 SKY_OP_GET, SKY_OP_PREFETCH, SKY_OP_GET, SKY_OP_REMOVE};
    sky_op op = ops[what % 8];
    if (op == SKY_OP_GET)
        memset(o.data, 0, BYTES);
    if (sky_run(w->cache, op, &o.item, 1, &call) != SKY_OK)
        return SKY_E_IO;
    bool read = op == SKY_OP_GET && o.item.status == SKY_OK;
    return read && !sky_fixture_holds(o.data, BYTES, n) ? SKY_E_CORRUPT : SKY_OK;
}

static void *work(void *argument) {
    worker *w = argument;
    for (uint64_t i = 0; i < 400; i++) {
        w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
        w->wrong += work_once(w, w->seed >> 33 & 31, w->seed >> 40) != SKY_OK;
    }
    return NULL;
}

static void threads_share_a_hierarchy(void **state) {
    (void)state;
    setting s = open_setting("mem:100KiB", 2);
    sky_thread threads[4];
    worker workers[4];
    for (uint64_t i = 0; i < 4; i++) {
        workers[i] = (worker){.cache = s.cache, .seed = i + 1};
        assert_int_equal(sky_thread_start(&threads[i], "worker", work, &workers[i]), SKY_OK);
    }
    for (size_t i = 0; i < 4; i++)
        sky_thread_join(&threads[i]);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(workers[i].wrong, 0);
    assert_int_equal(flush(s.cache), SKY_OK);
    sky_cache_close(s.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_hits_are_done_when_submit_returns),
        cmocka_unit_test(misses_are_read_through_and_promoted),
        cmocka_unit_test(a_promotion_is_whole_and_keeps_its_parent),
        cmocka_unit_test(large_batches_are_split_and_all_answered),
        cmocka_unit_test(damage_at_one_tier_is_read_from_the_next),
        cmocka_unit_test(tiers_not_in_the_mask_are_not_asked),
        cmocka_unit_test(prefix_counts_the_leading_run),
        cmocka_unit_test(prefetch_is_done_when_it_is_near),
        cmocka_unit_test(leases_come_from_the_near_tier),
        cmocka_unit_test(a_hanging_tier_costs_the_deadline),
        cmocka_unit_test(a_cancelled_batch_lets_go_of_its_buffers),
        cmocka_unit_test(a_failing_tier_is_left_out_and_tried_again),
        cmocka_unit_test(puts_are_written_behind),
        cmocka_unit_test(a_full_queue_drops_and_counts),
        cmocka_unit_test(a_durable_put_is_done_when_all_have_it),
        cmocka_unit_test(what_one_tier_refuses_the_next_takes),
        cmocka_unit_test(a_dropped_write_leaves_no_older_value),
        cmocka_unit_test(without_memory_the_first_tier_takes_it),
        cmocka_unit_test(victims_go_down_unless_they_are_there),
        cmocka_unit_test(a_newer_put_wins_in_every_tier),
        cmocka_unit_test(a_removal_beats_what_is_queued),
        cmocka_unit_test(a_removal_takes_a_queued_name_back),
        cmocka_unit_test(a_put_beats_a_promotion),
        cmocka_unit_test(a_removal_beats_a_promotion),
        cmocka_unit_test(pins_concern_every_tier),
        cmocka_unit_test(all_tiers_are_listed_and_verified),
        cmocka_unit_test(bad_hierarchies_are_refused),
        cmocka_unit_test(memory_and_disk_keep_what_was_put),
        cmocka_unit_test(closing_ends_what_hangs),
        cmocka_unit_test(threads_share_a_hierarchy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
