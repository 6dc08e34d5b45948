/* Proves: what a farther tier had is brought to all nearer ones, whole, and never over newer bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cache/cache_internal.h"
#include "cache/cache_state.h"
#include "cache/hierarchy_fixture.h"
#include "cache/promotion.h"
#include "io/clock.h"
#include "tier/disk/disk_fixture.h"
#include "tier/disk/format.h"
#include "tier/encoded/encoded.h"
#include "tier/tier_fixture.h"

static void misses_are_read_through_and_promoted(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[0], 1, 1);
    sky_setting_plant(s.far[1], 2, 2);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 1);
    assert_int_equal(sky_setting_get(s.cache, 2, 2, NULL), 2);
    assert_int_equal(sky_setting_get(s.cache, 3, 3, NULL), SKY_TIER_NONE);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 3, NULL), SKY_MISS);
    SKY_EVENTUALLY(sky_setting_near_has(s.cache, 1) && sky_setting_near_has(s.cache, 2));
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 0);
    assert_int_equal(sky_setting_get(s.cache, 2, 2, NULL), 0);
    sky_cache_close(s.cache);
}

/* A process that only reads leaves nearer what it read: the tiers between have it when a flush is
 * over, or the close. */
static void the_tiers_between_get_a_copy(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 3);
    sky_setting_plant(s.far[2], 1, 1);
    sky_setting_plant(s.far[2], 2, 2);
    sky_setting_plant(s.far[2], 3, 3);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 3);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_near_has(s.cache, 1));
    assert_true(sky_setting_far_holds(s.far[0], 1, 1) && sky_setting_far_holds(s.far[1], 1, 1));
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PREFETCH, 2, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 2, 2) && sky_setting_far_holds(s.far[1], 2, 2));
    assert_int_equal(sky_setting_get(s.cache, 3, 3, &(sky_call){.tiers = 1 | 4 | 8}), 3);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(!sky_setting_far_has(s.far[0], 3) && sky_setting_far_holds(s.far[1], 3, 3));
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_DROPPED), 0);
    sky_cache_close(s.cache);
}

/* What tier 0 has no room for is copied all the same. */
static void a_small_memory_is_no_obstacle(void **state) {
    (void)state;
    enum { LARGE = 100000 };
    static uint8_t data[LARGE], got[LARGE];
    sky_fixture_fill(data, LARGE, 1);
    sky_setting s = sky_setting_open("mem:64KiB", 2);
    sky_scripted_plant(s.far[1], sky_fixture_key(1), data, LARGE);
    sky_span span = {got, LARGE};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(s.cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.tier, 2);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    size_t bytes;
    const void *copy = sky_scripted_peek(s.far[0], &item.key, &bytes);
    assert_true(copy && bytes == LARGE && sky_fixture_holds(copy, LARGE, 1));
    sky_cache_close(s.cache);
}

static void damage_is_mended_from_farther_away(void **state) {
    (void)state;
    char *folders[2] = {disk_folder_make(), disk_folder_make()};
    char near[160], far[160];
    snprintf(near, sizeof near, "disk:%s", folders[0]);
    snprintf(far, sizeof far, "disk:%s", folders[1]);
    const char *urls[] = {"mem:1MiB", near, far};
    sky_cache *c;
    assert_int_equal(sky_cache_open(urls, 3, &c, NULL), SKY_OK);
    assert_int_equal(sky_setting_put(c, 1, 1, &(sky_call){.durable = true}), SKY_OK);
    sky_cache_close(c);
    sky_key key = sky_fixture_key(1);
    disk_entry_damage(folders[0], &key, SKY_DISK_HEADER_BYTES + 9);
    assert_int_equal(sky_cache_open(urls, 3, &c, NULL), SKY_OK);
    assert_int_equal(sky_setting_get(c, 1, 1, NULL), 2);
    sky_cache_close(c); /* at once: what is on its way still arrives */
    assert_int_equal(sky_cache_open(urls, 2, &c, NULL), SKY_OK);
    assert_int_equal(sky_setting_get(c, 1, 1, NULL), 1);
    sky_cache_close(c);
    disk_folder_drop(folders[0]);
    disk_folder_drop(folders[1]);
}

static uint8_t class_in(sky_cache *c, uint64_t n, uint32_t tiers) {
    sky_one o;
    sky_one_make(&o, n);
    assert_int_equal(sky_one_run(c, SKY_OP_HAS, &o, &(sky_call){.tiers = tiers}), SKY_OK);
    return o.item.evict;
}

/* A copy is of the class of what it was made of: behind a put, nearer by a get and by a lease. */
static void a_copy_keeps_its_class(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[160];
    snprintf(url, sizeof url, "disk:%s", folder);
    const char *urls[] = {"mem:1MiB", url};
    static const uint8_t classes[] = {SKY_EVICT_NORMAL, SKY_EVICT_SOON, SKY_EVICT_LAST,
                                      SKY_EVICT_LAST};
    sky_cache *c;
    assert_int_equal(sky_cache_open(urls, 2, &c, NULL), SKY_OK);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(sky_setting_put(c, n, n, &(sky_call){.evict = classes[n]}), SKY_OK);
    assert_int_equal(sky_setting_flush(c), SKY_OK);
    for (uint64_t n = 0; n < 4; n++)
        assert_true(class_in(c, n, 1) == classes[n] && class_in(c, n, 2) == classes[n]);
    sky_cache_close(c);
    assert_int_equal(sky_cache_open(urls, 2, &c, NULL), SKY_OK);
    for (uint64_t n = 0; n < 3; n++)
        assert_int_equal(sky_setting_get(c, n, n, NULL), 1);
    sky_item lent = {.key = sky_fixture_key(3)};
    assert_int_equal(sky_run(c, SKY_OP_LEASE, &lent, 1, NULL), SKY_OK);
    assert_int_equal(lent.evict, SKY_EVICT_LAST);
    assert_int_equal(sky_release(c, lent.lease), SKY_OK);
    assert_int_equal(sky_setting_flush(c), SKY_OK);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(class_in(c, n, 1), classes[n]);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

/* Part of a payload is asked for; all of it is promoted, with the parent that the item names. */
static void a_promotion_is_whole_and_keeps_its_parent(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_setting_plant(s.far[0], 2, 2);
    sky_one o;
    for (uint64_t n = 1; n <= 2; n++) {
        sky_one_make(&o, n);
        o.item.range = (sky_range){100, 50};
        o.item.parent = n == 2 ? sky_fixture_key(1) : (sky_key){{0}};
        assert_int_equal(sky_one_run(s.cache, SKY_OP_GET, &o, NULL), SKY_OK);
        assert_int_equal(o.item.bytes, 50);
        SKY_EVENTUALLY(sky_setting_near_has(s.cache, n));
    }
    assert_int_equal(sky_setting_get(s.cache, 2, 2, &SKY_NEAR_ONLY), 0);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_REMOVE, 1, &SKY_NEAR_ONLY), SKY_OK);
    assert_false(sky_setting_near_has(s.cache, 2));
    sky_cache_close(s.cache);
}

/* Another process replaced it between the look at its size and the read. */
static void what_grew_meanwhile_is_fetched(void **state) {
    (void)state;
    enum { MORE = 3 * SKY_ONE_BYTES };
    static uint8_t grown[MORE];
    sky_fixture_fill(grown, MORE, 2);
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    sky_item item = {.key = sky_fixture_key(1)};
    sky_batch batch;
    assert_int_equal(sky_submit(s.cache, SKY_OP_LEASE, &item, 1, NULL, &batch), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    assert_true(sky_scripted_answer_one(s.far[0])); /* how large it is */
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    sky_scripted_plant(s.far[0], item.key, grown, MORE);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.view.bytes, MORE);
    assert_true(sky_fixture_holds(item.view.data, MORE, 2));
    sky_release(s.cache, item.lease);
    sky_cache_close(s.cache);
}

static void prefetch_is_done_when_it_is_near(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[1], 1, 1);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PREFETCH, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, &SKY_NEAR_ONLY), 0);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PREFETCH, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PREFETCH, 2, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

/* What a get brought whole is stored from the caller's spans before the get ends; the far tier is
 * not read again. */
static void what_is_read_whole_is_read_once(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    for (uint64_t n = 1; n <= 3; n++)
        sky_setting_plant(s.far[1], n, n);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 2);
    assert_true(sky_setting_near_has(s.cache, 1));
    sky_scripted_attempt(s.far[1], true);
    assert_int_equal(sky_setting_get(s.cache, 2, 2, NULL), 2);
    assert_true(sky_setting_near_has(s.cache, 2));
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 1) && sky_setting_far_holds(s.far[0], 2, 2));
    assert_int_equal(sky_scripted_count(s.far[1], SKY_OP_GET), 1);
    assert_int_equal(sky_scripted_attempted(s.far[1]), 1);
    sky_one o;
    sky_one_make(&o, 3);
    sky_span hole[] = {{NULL, 10},
                       {o.data, SKY_ONE_BYTES - 10}}; /* not all of it is in the spans */
    o.item.spans = hole;
    o.item.span_count = 2;
    assert_int_equal(sky_one_run(s.cache, SKY_OP_GET, &o, NULL), SKY_OK);
    SKY_EVENTUALLY(sky_setting_near_has(s.cache, 3));
    assert_int_equal(sky_setting_get(s.cache, 3, 3, &SKY_NEAR_ONLY), 0);
    sky_cache_close(s.cache);
}

/* Memory is to have the best level, whatever a get asked for. */
static void what_is_read_at_one_level_is_read_again(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, &(sky_call){.wanted = 3}), 1);
    SKY_EVENTUALLY(sky_setting_near_has(s.cache, 1));
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_GET), 2);
    sky_cache_close(s.cache);
}

/* A removal, of the key or of any other, begins while the far tier reads: what it read may be gone
 * by now, and is looked at again. */
static void what_may_be_removed_is_not_stored(void **state) {
    (void)state;
    for (uint64_t removed = 1; removed <= 2; removed++) {
        sky_setting s = sky_setting_open("mem:1MiB", 1);
        sky_setting_plant(s.far[0], 1, 1);
        sky_scripted_hold(s.far[0], true);
        sky_one get, other;
        sky_batch b[2];
        sky_one_make(&get, 1);
        sky_one_make(&other, removed);
        assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &get.item, 1, NULL, &b[0]), SKY_OK);
        SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
        assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &other.item, 1, NULL, &b[1]), SKY_OK);
        SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 2);
        assert_true(sky_scripted_answer_one(s.far[0]));
        assert_int_equal(sky_wait(s.cache, b[0], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(get.item.status, SKY_OK);
        assert_false(sky_setting_near_has(s.cache, 3 - removed)); /* nor the one never there */
        sky_scripted_hold(s.far[0], false);
        assert_int_equal(sky_wait(s.cache, b[1], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
        assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), removed == 1 ? SKY_TIER_NONE : 0);
        sky_cache_close(s.cache);
    }
}

/* The far tier has answered a get of a part, and now holds back the read of its promotion. */
static sky_setting hold_a_promotion(void) {
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    o.item.range = (sky_range){1, SKY_ALL};
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_answer_one(s.far[0]));
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    return s;
}

static void a_put_beats_a_promotion(void **state) {
    (void)state;
    sky_setting s = hold_a_promotion();
    assert_int_equal(sky_setting_put(s.cache, 1, 100, NULL), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (int i = 0; i < 20; i++, sky_setting_nap())
        assert_int_equal(sky_setting_get(s.cache, 1, 100, &SKY_NEAR_ONLY), 0);
    assert_true(sky_setting_far_holds(s.far[0], 1, 100));
    sky_cache_close(s.cache);
}

/* The promotion is already being stored in the nearest tier, which takes its time and would do the
 * put first. */
static void a_put_waits_for_what_is_being_stored(void **state) {
    (void)state;
    sky_setting s = sky_setting_open(NULL, 2);
    sky_setting_plant(s.far[1], 1, 1);
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    o.item.name = "name";
    o.item.name_bytes = 4;
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    while (sky_scripted_count(s.far[0], SKY_OP_PUT) == 0) /* hold it when it comes to the put */
        sky_scripted_hold(s.far[0], sky_scripted_count(s.far[0], SKY_OP_HAS) > 0);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    sky_fixture_fill(o.data, SKY_ONE_BYTES, 2);
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &o.item, 1, NULL, &batch), SKY_OK);
    for (int i = 0; i < 20; i++) {
        sky_setting_nap();
        sky_scripted_answer_later(s.far[0]);
    }
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 2));
    assert_true(sky_setting_far_holds(s.far[1], 1, 2));
    sky_cache_close(s.cache);
}

static void a_removal_beats_a_promotion(void **state) {
    (void)state;
    sky_setting s = hold_a_promotion();
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    for (int i = 0; i < 20; i++, sky_setting_nap())
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_HAS, 1, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

/* The far tier is removing a block, and the nearest one has, when the bytes of another come. They
 * are stored when the far tier still has them after that; what it removed with the block is not. */
static void what_was_below_a_removed_block_is_not_stored(void **state) {
    (void)state;
    for (int below = 0; below < 2; below++) {
        sky_setting s = hold_a_promotion();
        sky_setting_plant(s.far[0], 2, 2);
        assert_true(sky_scripted_answer_one(s.far[0])); /* how large it is */
        SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
        sky_one o;
        sky_batch batch;
        sky_one_make(&o, 2);
        assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
        SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 2);
        assert_true(sky_scripted_answer_one(s.far[0])); /* its bytes */
        for (int i = 0; i < 20; i++, sky_setting_nap())
            assert_false(sky_setting_near_has(s.cache, 1));
        if (below)
            sky_scripted_drop(s.far[0], sky_fixture_key(1));
        sky_scripted_hold(s.far[0], false);
        assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(o.item.status, SKY_OK);
        assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
        assert_int_equal(sky_setting_near_has(s.cache, 1), !below);
        sky_cache_close(s.cache);
    }
}

/* The copy for the tier between looks whether it is there, and is held back at that. */
static sky_setting hold_a_copy(void) {
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[1], 1, 1);
    sky_scripted_hold(s.far[0], true);
    sky_call call = {.tiers = 1 | 4};
    assert_int_equal(sky_setting_get(s.cache, 1, 1, &call), 2);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_REMOVE, 1, &SKY_NEAR_ONLY), SKY_OK);
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_answer_one(s.far[0])); /* it is not there */
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(o.item.tier, 2);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    return s;
}

static void a_write_of_the_tier_between_beats_a_copy(void **state) {
    (void)state;
    sky_setting s = hold_a_copy();
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 1);
    sky_fixture_fill(o.data, SKY_ONE_BYTES, 100);
    sky_call call = {.tiers = 2};
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &o.item, 1, &call, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 100));
    sky_cache_close(s.cache);
    s = hold_a_copy();
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 1));
    sky_cache_close(s.cache);
}

/* Newer bytes are on their way to the tier between when the copy is to be queued. */
static void a_copy_is_not_queued_behind_a_write(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[1], 1, 1);
    sky_scripted_hold(s.far[1], true);
    sky_one get, put;
    sky_batch b[2];
    sky_one_make(&get, 1);
    sky_one_make(&put, 1);
    sky_fixture_fill(put.data, SKY_ONE_BYTES, 100);
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &get.item, 1, NULL, &b[0]), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_held(s.far[1]) == 1);
    sky_scripted_hold(s.far[0], true);
    sky_call call = {.tiers = 2};
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &put.item, 1, &call, &b[1]), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    sky_scripted_hold(s.far[1], false);
    assert_int_equal(sky_wait(s.cache, b[0], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    sky_scripted_answer_later(s.far[0]);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, b[1], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 100));
    sky_cache_close(s.cache);
}

/* Memory over a disk folder, coded or not, on a clock of ours. */
static sky_cache *open_over(const char *folder, bool coded, const sky_clock *clock) {
    sky_cache *c;
    sky_tier *mem, *disk;
    sky_error error;
    char url[512];
    snprintf(url, sizeof url, "disk:%s", folder);
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    sky_tier_env env = sky__cache_env(c);
    env.clock = clock;
    assert_int_equal(sky_memory_tier_open("mem:1MiB", &env, &mem, &error), SKY_OK);
    sky__cache_add(c, mem);
    env = sky__cache_env(c);
    env.clock = clock;
    assert_int_equal(sky_disk_tier_open(url, &env, &disk, &error), SKY_OK);
    if (coded)
        assert_int_equal(sky_coded_tier_open(disk, &(sky_level_set){{1}, 1}, &disk), SKY_OK);
    sky__cache_add(c, disk);
    assert_int_equal(sky__cache_start(c), SKY_OK);
    return c;
}

static void plant_for_100_s(const char *folder) {
    sky_tier *disk = disk_open(folder, "");
    uint8_t byte = 9;
    sky_span span = {&byte, 1};
    for (uint64_t n = 1; n <= 3; n++) {
        sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        sky_fixture_run(disk, SKY_OP_PUT, &item, 1, &(sky_call){.ttl_s = n < 3 ? 100 : 0});
        assert_int_equal(item.status, SKY_OK);
    }
    disk_close(disk);
}

/* One comes by a get, one by a prefetch; the third has no end. */
static void copies_live_no_longer_than_theirs(bool coded) {
    char *folder = disk_folder_make();
    plant_for_100_s(folder);
    sky_fixture_clock clock = SKY_FIXTURE_CLOCK(50000);
    sky_cache *c = open_over(folder, coded, &clock.clock);
    uint8_t byte = 0;
    sky_span span = {&byte, 1};
    for (uint64_t n = 1; n <= 3; n += 2) {
        sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        assert_int_equal(sky_run(c, SKY_OP_GET, &item, 1, NULL), SKY_OK);
        assert_int_equal(item.tier, 1);
        assert_in_range(item.ttl_s, n < 3 ? 20 : 0, n < 3 ? 50 : 0);
    }
    assert_int_equal(sky_setting_do(c, SKY_OP_PREFETCH, 2, NULL), SKY_OK);
    for (uint64_t n = 1; n <= 3; n++)
        SKY_EVENTUALLY(sky_setting_near_has(c, n));
    clock.ahead_ms = 102000;
    for (uint64_t n = 1; n <= 3; n++)
        assert_int_equal(sky_setting_do(c, SKY_OP_HAS, n, &SKY_NEAR_ONLY),
                         n < 3 ? SKY_MISS : SKY_OK);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

static void a_copy_lives_no_longer_than_what_it_was_made_of(void **state) {
    (void)state;
    copies_live_no_longer_than_theirs(false);
    copies_live_no_longer_than_theirs(true);
}

/* A clock that removes a block when it is asked: the nearest tier's first call of a thread is
 * timed, so that this is just before what was promoted is stored. */
typedef struct {
    sky_clock clock;
    sky_cache *cache;
    bool armed;
    sky_one removal, child;
    sky_batch batch;
} moment;

static sky_time moment_now(const sky_clock *clock) {
    moment *m = (moment *)(uintptr_t)clock;
    bool armed = m->armed;
    m->armed = false;
    if (armed)
        assert_int_equal(sky_submit(m->cache, SKY_OP_REMOVE, &m->removal.item, 1, NULL, &m->batch),
                         SKY_OK);
    return sky_now();
}

static int64_t moment_wall(const sky_clock *clock) {
    return moment_now(clock) / 1000000;
}

static void *store_child(void *argument) {
    moment *m = argument;
    uint64_t since = sky__order_writes(&m->cache->order, &m->child.item.key);
    m->armed = true;
    (void)sky__promotion_store(m->cache, &m->child.item, &(sky_call){.tiers = 0}, 1, since, 0);
    assert_false(m->armed);
    return NULL;
}

static sky_status near_answer(sky_cache *c, sky_op op, sky_one *o) {
    sky_batch batch;
    assert_int_equal(sky_submit(c, op, &o->item, 1, &SKY_NEAR_ONLY, &batch), SKY_OK);
    assert_int_equal(sky_wait(c, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    return o->item.status;
}

static void what_is_removed_meanwhile_takes_along_what_is_stored_below(void **state) {
    (void)state;
    moment m = {.clock = {moment_now, moment_wall}};
    sky_tier *near;
    sky_thread thread;
    assert_int_equal(sky__cache_create(&m.clock, &m.cache), SKY_OK);
    sky_tier_env env = sky__cache_env(m.cache);
    assert_int_equal(sky_memory_tier_open("mem:1MiB", &env, &near, NULL), SKY_OK);
    sky__cache_add(m.cache, near);
    sky__cache_add(m.cache, sky_scripted_tier(sky_scripted_open(1)));
    assert_int_equal(sky__cache_start_stepped(m.cache), SKY_OK);
    sky_one_make(&m.removal, 1);
    assert_int_equal(near_answer(m.cache, SKY_OP_PUT, &m.removal), SKY_OK);
    sky_one_make(&m.child, 2);
    m.child.item.parent = m.removal.item.key;
    m.child.item.bytes = SKY_ONE_BYTES;
    assert_int_equal(sky_thread_start(&thread, "store", store_child, &m), SKY_OK);
    sky_thread_join(&thread);
    SKY_EVENTUALLY((sky__cache_step(m.cache), sky_wait(m.cache, m.batch, sky_now()) == SKY_OK));
    assert_int_equal(m.removal.item.status, SKY_OK);
    assert_int_equal(near_answer(m.cache, SKY_OP_HAS, &m.child), SKY_MISS);
    sky__cache_abandon(m.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misses_are_read_through_and_promoted),
        cmocka_unit_test(the_tiers_between_get_a_copy),
        cmocka_unit_test(a_small_memory_is_no_obstacle),
        cmocka_unit_test(damage_is_mended_from_farther_away),
        cmocka_unit_test(a_write_of_the_tier_between_beats_a_copy),
        cmocka_unit_test(a_copy_is_not_queued_behind_a_write),
        cmocka_unit_test(a_copy_keeps_its_class),
        cmocka_unit_test(a_promotion_is_whole_and_keeps_its_parent),
        cmocka_unit_test(prefetch_is_done_when_it_is_near),
        cmocka_unit_test(what_grew_meanwhile_is_fetched),
        cmocka_unit_test(what_is_read_whole_is_read_once),
        cmocka_unit_test(what_is_read_at_one_level_is_read_again),
        cmocka_unit_test(what_may_be_removed_is_not_stored),
        cmocka_unit_test(a_put_beats_a_promotion),
        cmocka_unit_test(a_put_waits_for_what_is_being_stored),
        cmocka_unit_test(a_removal_beats_a_promotion),
        cmocka_unit_test(what_was_below_a_removed_block_is_not_stored),
        cmocka_unit_test(a_copy_lives_no_longer_than_what_it_was_made_of),
        cmocka_unit_test(what_is_removed_meanwhile_takes_along_what_is_stored_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
