/* Proves: what happens in a hierarchy is counted once and where it happened: hits, misses, bytes,
 * write-backs, promotions, drops, queues and times; that reading all takes one look at each row of
 * the table; and that a number of nothing is 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "base/metrics.h"
#include "cache/hierarchy_fixture.h"

static uint64_t whole(sky_cache *c, sky_metric_id metric) {
    return sky_cache_metric(c, SKY_TIER_NONE, metric);
}

static void gets_are_counted_where_they_were_answered(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[1], 2, 2);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 0);
    assert_int_equal(sky_setting_get(s.cache, 2, 2, NULL), 2);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 9, NULL), SKY_MISS);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(whole(s.cache, SKY_METRIC_CACHE_HITS), 4);
    assert_int_equal(whole(s.cache, SKY_METRIC_CACHE_MISSES), 1);
    assert_int_equal(whole(s.cache, SKY_METRIC_CACHE_PROMOTIONS), 1);
    assert_int_equal(whole(s.cache, SKY_METRIC_CACHE_PROMOTIONS_LOST), 0);
    assert_int_equal(whole(s.cache, SKY_METRIC_CACHE_PROMOTIONS_ACTIVE), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_HITS), 3);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_READ_BYTES), 3 * SKY_ONE_BYTES);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_WRITTEN_BYTES),
                     2 * SKY_ONE_BYTES);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_WRITE_BACKS), 2);
    assert_int_equal(sky_cache_metric(s.cache, 2, SKY_METRIC_TIER_WRITE_BACKS), 1);
    sky_cache_close(s.cache);
}

static void a_queue_shows_while_it_is_there(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 12; n++)
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    SKY_EVENTUALLY(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_ACTIVE) == 4);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_QUEUED_BACKGROUND), 8);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_QUEUED_CALLER), 0);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_WRITE_BACKS_QUEUED), 12);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_WRITE_BACK_BYTES),
                     12 * SKY_ONE_BYTES);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_WRITE_BACKS_QUEUED), 0);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_WRITE_BACK_BYTES), 0);
    assert_int_equal(sky_cache_metric(s.cache, 1, SKY_METRIC_TIER_ACTIVE), 0);
    sky_cache_close(s.cache);
}

typedef struct {
    uint64_t answers[2], waits[2]; /* by tier */
    uint32_t samples, stop_after;
    const char *last_name;
} tally;

static uint64_t count_of(const sky_histogram *h) {
    uint64_t count = 0;
    for (size_t i = 0; i < SKY_HISTOGRAM_BUCKETS; i++)
        count += h->buckets[i];
    return count;
}

static bool take(void *context, const sky_metric_sample *s) {
    tally *t = context;
    assert_true((s->histogram != NULL) == (s->metric->kind == SKY_METRIC_HISTOGRAM));
    if (s->metric->id == SKY_METRIC_TIER_ANSWER && strcmp(s->value, "get") == 0)
        t->answers[s->tier] = count_of(s->histogram);
    if (s->metric->id == SKY_METRIC_TIER_QUEUE && strcmp(s->value, "caller") == 0)
        t->waits[s->tier] = count_of(s->histogram);
    return ++t->samples != t->stop_after;
}

static void times_are_counted_by_tier_and_operation(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    for (uint64_t n = 0; n < 5; n++)
        sky_setting_plant(s.far[0], n, n);
    for (uint64_t n = 0; n < 5; n++)
        assert_int_equal(sky_setting_get(s.cache, n, n, &(sky_call){.tiers = 2}), 1);
    for (int i = 0; i < 600; i++)
        assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 77, &SKY_NEAR_ONLY), SKY_MISS);
    tally t = {.samples = 0};
    assert_int_equal(sky_cache_metrics(s.cache, take, &t), SKY_OK);
    assert_int_equal(t.answers[1], 5);
    assert_int_equal(t.waits[1], 5);
    assert_true(t.answers[0] >= 2 && t.answers[0] <= 10); /* one of 256, of more calls than these */
    tally some = {.stop_after = 3};
    assert_int_equal(sky_cache_metrics(s.cache, take, &some), SKY_OK);
    assert_int_equal(some.samples, 3);
    sky_cache_close(s.cache);
}

/* Rows that were looked at, by the linker's --wrap. */
const sky_metric *__real_sky_metric_at(size_t i);
const sky_metric *__wrap_sky_metric_at(size_t i);
static size_t looks;

const sky_metric *__wrap_sky_metric_at(size_t i) {
    looks++;
    return __real_sky_metric_at(i);
}

/* All numbers take one look at each row, and one number takes none. */
static void reading_takes_one_look_at_a_row(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    tally t = {.samples = 0};
    assert_int_equal(sky_cache_metrics(s.cache, take, &t), SKY_OK); /* settles their order */
    looks = 0;
    assert_int_equal(sky_cache_metrics(s.cache, take, &t), SKY_OK);
    assert_int_equal(looks, sky_metric_count());
    looks = 0;
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_PUTS), 0);
    assert_int_equal(looks, 0);
    sky_cache_close(s.cache);
}

static void nothing_counts_as_0(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    tally t = {.samples = 0};
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_PUTS), 1);
    assert_int_equal(sky_cache_metric(s.cache, 2, SKY_METRIC_TIER_PUTS), 0);
    assert_int_equal(sky_cache_metric(s.cache, SKY_TIER_NONE, SKY_METRIC_TIER_PUTS), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_CACHE_HITS), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_SESSION_PUTS), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_ANSWER), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, SKY_METRIC_TIER_GROUP), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, (sky_metric_id)255), 0);
    assert_int_equal(sky_cache_metric(s.cache, 0, (sky_metric_id)5000), 0);
    assert_int_equal(sky_cache_metric(NULL, 0, SKY_METRIC_TIER_PUTS), 0);
    assert_int_equal(sky_cache_metrics(NULL, take, &t), SKY_E_PARAM);
    assert_int_equal(sky_cache_metrics(s.cache, NULL, NULL), SKY_E_PARAM);
    sky_cache_close(s.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_are_counted_where_they_were_answered),
        cmocka_unit_test(a_queue_shows_while_it_is_there),
        cmocka_unit_test(times_are_counted_by_tier_and_operation),
        cmocka_unit_test(reading_takes_one_look_at_a_row),
        cmocka_unit_test(nothing_counts_as_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
