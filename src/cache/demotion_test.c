/* Proves: what a disk is about to evict is on the next tier that lacks it before it goes, whole and
 * with its parent; it is off where that tier has it, bounded, counted, and never brings back what
 * was removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_internal.h"
#include "cache/cache_state.h"
#include "cache/demotion.h"
#include "cache/hierarchy_fixture.h"
#include "io/secret.h"
#include "tier/disk/disk_fixture.h"

#define LEVELS_MAX 3
#define BLOCKS     88 /* of three pages each in a folder; a level of 512 KiB keeps 42 */

typedef struct {
    sky_cache *cache;
    char *folders[LEVELS_MAX];
    size_t count;
} levels;

/* Memory of 64 KiB before disks with these queries. */
static levels open_levels(const char *const *queries, size_t count) {
    char texts[LEVELS_MAX][200];
    const char *urls[LEVELS_MAX + 1] = {"mem:64KiB"};
    levels l = {.count = count};
    for (size_t i = 0; i < count; i++) {
        l.folders[i] = disk_folder_make();
        snprintf(texts[i], sizeof texts[i], "disk:%s?%s", l.folders[i], queries[i]);
        urls[i + 1] = texts[i];
    }
    sky_error error;
    if (sky_cache_open(urls, count + 1, &l.cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return l;
}

static void close_levels(levels *l) {
    sky_cache_close(l->cache);
    for (size_t i = 0; i < l->count; i++)
        disk_folder_drop(l->folders[i]);
}

/* Put block n of a chain, and wait until nothing is on its way. */
static void put_block(sky_cache *c, uint64_t n) {
    sky_one o;
    sky_one_make(&o, n);
    sky_fixture_fill(o.data, SKY_ONE_BYTES, n);
    o.item.parent = n % 4 ? sky_fixture_key(n - 1) : (sky_key){{0}};
    assert_int_equal(sky_one_run(c, SKY_OP_PUT, &o, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(c), SKY_OK);
}

/* … with all blocks put, one after the other. */
static levels fill_levels(const char *const *queries, size_t count) {
    levels l = open_levels(queries, count);
    for (uint64_t n = 0; n < BLOCKS; n++)
        put_block(l.cache, n);
    return l;
}

static uint64_t metric(sky_cache *c, size_t tier, uint32_t id) {
    return sky_cache_metric(c, tier, id);
}

static bool tier_has(sky_cache *c, uint64_t n, uint32_t tiers) {
    return sky_setting_do(c, SKY_OP_HAS, n, &(sky_call){.tiers = tiers}) == SKY_OK;
}

/* It is found, whole; and what the read set going is over. */
static bool is_there(sky_cache *c, uint64_t n) {
    uint8_t tier = sky_setting_get(c, n, n, NULL);
    assert_int_equal(sky_setting_flush(c), SKY_OK);
    return tier != SKY_TIER_NONE;
}

static void evicted_blocks_are_on_the_next_disk(void **state) {
    (void)state;
    const char *const queries[] = {"max=512KiB", "max=4MiB&fill=evictions"};
    levels l = fill_levels(queries, 2);
    uint64_t evictions = metric(l.cache, 1, SKY_METRIC_TIER_EVICTIONS);
    assert_true(evictions >= BLOCKS - 44);
    assert_true(metric(l.cache, 2, SKY_METRIC_TIER_DEMOTED) >= evictions);
    assert_true(metric(l.cache, 2, SKY_METRIC_TIER_DEMOTED) < BLOCKS); /* not all that was put */
    assert_int_equal(metric(l.cache, 2, SKY_METRIC_TIER_WRITE_BACKS), 0);
    assert_int_equal(metric(l.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 0);
    for (uint64_t n = 0; n < BLOCKS; n++) {
        assert_true(tier_has(l.cache, n, 2) || tier_has(l.cache, n, 4));
        assert_true(is_there(l.cache, n));
    }
    close_levels(&l);
}

static void demoted_blocks_keep_their_class(void **state) {
    (void)state;
    const char *const queries[] = {"max=512KiB", "max=4MiB&fill=evictions"};
    levels l = open_levels(queries, 2);
    for (uint64_t n = 0; n < BLOCKS; n++) {
        const sky_call call = {.evict = n % 2 ? SKY_EVICT_SOON : SKY_EVICT_NORMAL};
        assert_int_equal(sky_setting_put(l.cache, n, n, &call), SKY_OK);
        assert_int_equal(sky_setting_flush(l.cache), SKY_OK);
    }
    size_t demoted = 0;
    for (uint64_t n = 0; n < BLOCKS; n++) {
        sky_item item = {.key = sky_fixture_key(n)};
        assert_int_equal(sky_run(l.cache, SKY_OP_HAS, &item, 1, &(sky_call){.tiers = 4}), SKY_OK);
        demoted += item.status == SKY_OK;
        if (item.status == SKY_OK)
            assert_int_equal(item.evict, n % 2 ? SKY_EVICT_SOON : SKY_EVICT_NORMAL);
    }
    assert_true(demoted > 20);
    close_levels(&l);
}

/* A removal of a block finds what hangs below it on the level that it was demoted to. */
static void demoted_blocks_keep_their_parents(void **state) {
    (void)state;
    const char *const queries[] = {"max=512KiB", "max=4MiB&fill=evictions"};
    levels l = fill_levels(queries, 2);
    assert_true(tier_has(l.cache, 0, 4) && tier_has(l.cache, 3, 4));
    assert_int_equal(sky_setting_do(l.cache, SKY_OP_REMOVE, 0, NULL), SKY_OK);
    for (uint64_t n = 0; n < 4; n++)
        assert_false(tier_has(l.cache, n, 0));
    assert_true(tier_has(l.cache, 4, 4));
    close_levels(&l);
}

static void three_levels_hand_down(void **state) {
    (void)state;
    const char *const queries[] = {"max=512KiB", "max=512KiB&fill=evictions",
                                   "max=4MiB&fill=evictions"};
    levels l = fill_levels(queries, 3);
    assert_true(metric(l.cache, 3, SKY_METRIC_TIER_DEMOTED) > 0);
    assert_int_equal(metric(l.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 0);
    assert_int_equal(metric(l.cache, 2, SKY_METRIC_TIER_DEMOTIONS_LOST), 0);
    for (uint64_t n = 0; n < BLOCKS; n++)
        assert_true(is_there(l.cache, n));
    close_levels(&l);
}

/* Each put goes to both disks: nothing is copied a second time. */
static void it_is_off_where_the_next_has_it(void **state) {
    (void)state;
    const char *const queries[] = {"max=512KiB", "max=4MiB"};
    levels l = fill_levels(queries, 2);
    assert_true(metric(l.cache, 1, SKY_METRIC_TIER_EVICTIONS) > 0);
    assert_int_equal(metric(l.cache, 2, SKY_METRIC_TIER_PUTS), BLOCKS);
    assert_int_equal(metric(l.cache, 2, SKY_METRIC_TIER_DEMOTED), 0);
    assert_int_equal(metric(l.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 0);
    close_levels(&l);
}

/* A folder that is full when it is opened hands down too. */
static void a_full_folder_is_opened_again(void **state) {
    (void)state;
    char *near = disk_folder_make(), *far = disk_folder_make(), near_url[160], far_url[200];
    snprintf(near_url, sizeof near_url, "disk:%s?max=512KiB", near);
    snprintf(far_url, sizeof far_url, "disk:%s?fill=evictions", far);
    const char *urls[] = {near_url, far_url};
    sky_cache *c;
    assert_int_equal(sky_cache_open(urls, 1, &c, NULL), SKY_OK);
    bool held[BLOCKS] = {false};
    for (uint64_t n = 0; n < 48; n++)
        put_block(c, n);
    for (uint64_t n = 0; n < BLOCKS; n++)
        held[n] = n >= 48 || tier_has(c, n, 1);
    sky_cache_close(c);
    assert_int_equal(sky_cache_open(urls, 2, &c, NULL), SKY_OK);
    assert_int_equal(sky_setting_do(c, SKY_OP_HAS, 47, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(c), SKY_OK);
    assert_true(metric(c, 1, SKY_METRIC_TIER_DEMOTED) > 0);
    for (uint64_t n = 48; n < BLOCKS; n++)
        put_block(c, n);
    for (uint64_t n = 0; n < BLOCKS; n++)
        assert_true(!held[n] || is_there(c, n));
    sky_cache_close(c);
    disk_folder_drop(near);
    disk_folder_drop(far);
}

/* A sealed folder knows its entries by hidden keys: the next level gets the real ones. */
static void a_sealed_level_tells_real_keys(void **state) {
    (void)state;
    char *keys = disk_folder_make(), key[160], query[240];
    snprintf(key, sizeof key, "%s/key", keys);
    assert_int_equal(sky_secret_make(key, NULL), SKY_OK);
    snprintf(query, sizeof query, "max=512KiB&seal=%s", key);
    const char *const queries[] = {query, "max=4MiB&fill=evictions"};
    levels l = fill_levels(queries, 2);
    assert_true(tier_has(l.cache, 0, 4) && !tier_has(l.cache, 0, 2));
    assert_int_equal(metric(l.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 0);
    for (uint64_t n = 0; n < BLOCKS; n++)
        assert_true(is_there(l.cache, n));
    close_levels(&l);
    disk_folder_drop(keys);
}

static void a_level_without_a_feeder_is_refused(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[200];
    snprintf(url, sizeof url, "disk:%s?fill=evictions", folder);
    const char *urls[] = {"mem:64KiB", url};
    sky_cache *c;
    sky_error error;
    assert_int_equal(sky_cache_open(urls, 2, &c, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "needs a nearer disk"));
    snprintf(url, sizeof url, "disk:%s?fill=all", folder);
    assert_int_equal(sky_cache_open(urls, 2, &c, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "fill is puts or evictions"));
    disk_folder_drop(folder);
}

/* ---- one layer of a block ---- */

#define LAYERS      26
#define LAYER_BYTES 40960
#define PAGES_MORE                                                                                 \
    (2 * 65536 + 4096) /* of an entry, where a layer begins and ends, and its header */

/* A block of several layers, no two of which hold the same bytes. */
static void make_layers(uint8_t *block) {
    for (uint64_t i = 0; i < LAYERS; i++)
        sky_fixture_fill(block + i * LAYER_BYTES, LAYER_BYTES, 1000 + i);
}

static void check_layer(sky_cache *c, size_t tier, uint64_t layer) {
    /* as an engine keeps it: keys and values apart, in pieces, between bytes of others */
    static uint8_t into[LAYER_BYTES + 64], got[LAYER_BYTES];
    const size_t half = LAYER_BYTES / 2;
    memset(into, 0xa5, sizeof into);
    const sky_span spans[] = {{into, 1000}, {into + 1016, half - 1000}, {into + half + 48, half}};
    sky_item item = {.key = sky_fixture_key(0),
                     .spans = spans,
                     .span_count = 3,
                     .range = {layer * LAYER_BYTES, LAYER_BYTES}};
    const sky_call call = {.tiers = 1u << tier};
    uint64_t before = metric(c, tier, SKY_METRIC_TIER_MEDIUM_READ_BYTES);
    assert_int_equal(sky_run(c, SKY_OP_GET, &item, 1, &call), SKY_OK);
    assert_int_equal(item.bytes, LAYER_BYTES);
    assert_int_equal(item.tier, tier);
    memcpy(got, into, 1000);
    memcpy(got + 1000, into + 1016, half - 1000);
    memcpy(got + half, into + half + 48, half);
    assert_true(sky_fixture_holds(got, LAYER_BYTES, 1000 + layer));
    for (size_t i = 0; i < 16; i++)
        assert_true(into[1000 + i] == 0xa5 && into[half + 16 + i] == 0xa5);
    uint64_t read = metric(c, tier, SKY_METRIC_TIER_MEDIUM_READ_BYTES) - before;
    assert_true(read >= LAYER_BYTES && read <= LAYER_BYTES + PAGES_MORE);
}

static void a_layer_reads_alone_from_any_level(void **state) {
    (void)state;
    const char *const queries[] = {"max=2MiB", "max=16MiB&fill=evictions"};
    levels l = open_levels(queries, 2);
    static uint8_t block[LAYERS * LAYER_BYTES];
    make_layers(block);
    sky_span span = {block, sizeof block};
    sky_item item = {.key = sky_fixture_key(0), .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(l.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(l.cache), SKY_OK);
    for (uint64_t i = 0; i < LAYERS; i++)
        check_layer(l.cache, 1, (i * 7) % LAYERS);
    for (uint64_t n = 1; tier_has(l.cache, 0, 2); n++)
        put_block(l.cache, n * 4); /* until it is evicted */
    for (uint64_t i = 0; i < LAYERS; i++)
        check_layer(l.cache, 2, (i * 7) % LAYERS);
    close_levels(&l);
}

/* What no other tier takes goes to a level that is filled by evictions after all; and what is
 * durable or has a name is written there too. */
static void what_nobody_takes_goes_there(void **state) {
    (void)state;
    const char *const queries[] = {"max=16KiB", "max=4MiB&fill=evictions"};
    levels l = open_levels(queries, 2);
    static uint8_t large[100000];
    sky_fixture_fill(large, sizeof large, 7);
    sky_span span = {large, sizeof large};
    sky_item item = {.key = sky_fixture_key(7), .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(l.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.tier, 2);
    assert_int_equal(sky_setting_put(l.cache, 8, 8, &(sky_call){.durable = true}), SKY_OK);
    assert_true(tier_has(l.cache, 8, 4));
    close_levels(&l);
}

/* ---- with tiers that do what the test says ---- */

static sky_victim victim_of(uint64_t n) {
    return (sky_victim){.key = sky_fixture_key(n), .bytes = SKY_ONE_BYTES};
}

static void the_tier_after_one_that_refuses(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 3);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_say(s.far[1], SKY_E_IO);
    const sky_victim v = victim_of(1);
    assert_int_equal(sky__demotion_offer(s.cache, 1, &v, 1), 1);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[2], 1, 1));
    assert_int_equal(metric(s.cache, 3, SKY_METRIC_TIER_DEMOTED), 1);
    assert_int_equal(metric(s.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 0);
    sky_scripted_say(s.far[2], SKY_E_FULL);
    sky_setting_plant(s.far[0], 2, 2);
    const sky_victim lost = victim_of(2), gone = victim_of(3);
    assert_int_equal(sky__demotion_offer(s.cache, 1, &lost, 1), 1);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(metric(s.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 1);
    sky_scripted_say(s.far[1], SKY_OK);
    assert_int_equal(sky__demotion_offer(s.cache, 1, &gone, 1), 1); /* evicted before its turn */
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(metric(s.cache, 1, SKY_METRIC_TIER_DEMOTIONS_LOST), 2);
    sky_cache_close(s.cache);
}

static void the_queue_is_bounded(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_scripted_hold(s.far[1], true);
    sky_victim v;
    for (uint64_t n = 0; n < SKY__DEMOTIONS_MAX + 10; n++) {
        v = victim_of(n);
        assert_int_equal(sky__demotion_offer(s.cache, 1, &v, 1), n < SKY__DEMOTIONS_MAX);
    }
    assert_int_equal(sky_flush(s.cache, sky_now() + SKY_MS(5), NULL), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[1], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(sky__demotion_offer(s.cache, 2, &v, 1), UINT32_MAX); /* the last tier */
    sky_cache_close(s.cache);
}

/* What fills the memory for copies may be writes that wait until the tier has evicted. */
static void one_block_of_a_tier_needs_no_room(void **state) {
    (void)state;
    const char *const queries[] = {"max=512KiB", "max=4MiB&fill=evictions"};
    levels l = open_levels(queries, 2);
    sky_mutex_lock(&l.cache->mutex);
    l.cache->private_bytes += SKY__PRIVATE_BYTES_MAX;
    sky_mutex_unlock(&l.cache->mutex);
    for (uint64_t n = 0; n < BLOCKS; n++)
        put_block(l.cache, n);
    assert_true(metric(l.cache, 1, SKY_METRIC_TIER_EVICTIONS) > 0);
    assert_true(metric(l.cache, 2, SKY_METRIC_TIER_DEMOTED) > 0);
    sky_mutex_lock(&l.cache->mutex);
    l.cache->private_bytes -= SKY__PRIVATE_BYTES_MAX;
    sky_mutex_unlock(&l.cache->mutex);
    close_levels(&l);
}

/* And the removal of another block does not lose this one. */
static void what_was_removed_stays_removed(void **state) {
    (void)state;
    for (int other = 0; other < 2; other++) {
        sky_setting s = sky_setting_open("mem:1MiB", 2);
        sky_setting_plant(s.far[0], 2, 2);
        sky_scripted_hold(s.far[0], true);
        const sky_victim v = victim_of(2);
        assert_int_equal(sky__demotion_offer(s.cache, 1, &v, 1), 1);
        SKY_EVENTUALLY(sky_scripted_count(s.far[0], SKY_OP_GET) == 1);
        sky_one o;
        sky_one_make(&o, other ? 9 : 2);
        sky_batch batch;
        assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &o.item, 1, NULL, &batch), SKY_OK);
        sky_scripted_hold(s.far[0], false);
        assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
        assert_int_equal(sky_setting_far_has(s.far[1], 2), other);
        sky_cache_close(s.cache);
    }
}

/* Closing with demotions under way waits for no tier that does not answer: the scripted one holds
 * the question. */
static void abandoned_demotions_end(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_hold(s.far[0], true);
    const sky_victim v = victim_of(1);
    assert_int_equal(sky__demotion_offer(s.cache, 1, &v, 1), 1);
    SKY_EVENTUALLY(sky_scripted_count(s.far[0], SKY_OP_GET) == 1);
    sky__cache_abandon(s.cache);
}

/* ---- reads without a trace ---- */

static void read_untouched(sky_cache *c, uint64_t n) {
    const sky_call call = {.no_touch = true};
    assert_int_not_equal(sky_setting_get(c, n, n, &call), SKY_TIER_NONE);
}

static void no_touch_is_no_use(void **state) {
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        char *folder = disk_folder_make(), url[160];
        snprintf(url, sizeof url, "disk:%s?max=64KiB", folder);
        const char *urls[] = {disk ? url : "mem:64KiB"};
        sky_cache *c;
        assert_int_equal(sky_cache_open(urls, 1, &c, NULL), SKY_OK);
        assert_int_equal(sky_setting_put(c, 0, 0, NULL), SKY_OK);
        assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
        for (uint64_t n = 2; metric(c, 0, SKY_METRIC_TIER_EVICTIONS) == 0; n++) {
            read_untouched(c, 0); /* would be the newest now */
            assert_int_equal(sky_setting_put(c, n, n, NULL), SKY_OK);
        }
        assert_false(tier_has(c, 0, 1));
        sky_cache_close(c);
        disk_folder_drop(folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evicted_blocks_are_on_the_next_disk),
        cmocka_unit_test(demoted_blocks_keep_their_class),
        cmocka_unit_test(demoted_blocks_keep_their_parents),
        cmocka_unit_test(three_levels_hand_down),
        cmocka_unit_test(it_is_off_where_the_next_has_it),
        cmocka_unit_test(a_full_folder_is_opened_again),
        cmocka_unit_test(a_sealed_level_tells_real_keys),
        cmocka_unit_test(a_level_without_a_feeder_is_refused),
        cmocka_unit_test(a_layer_reads_alone_from_any_level),
        cmocka_unit_test(what_nobody_takes_goes_there),
        cmocka_unit_test(the_tier_after_one_that_refuses),
        cmocka_unit_test(the_queue_is_bounded),
        cmocka_unit_test(one_block_of_a_tier_needs_no_room),
        cmocka_unit_test(what_was_removed_stays_removed),
        cmocka_unit_test(abandoned_demotions_end),
        cmocka_unit_test(no_touch_is_no_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
