/* Proves: the table is sound as Prometheus wants it, its numbers stay, members lie in the order of
 * their rows, and a time is counted in the bucket whose bound is the first not below it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"

static bool ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

/* A help is read without the rows around it. */
static void assert_stands_alone(const char *help) {
    static const char *const first[] = {"Of ", "Their ", "From ", "Asked "}, *const within[] = {
                                                                                 "these",
                                                                                 "that they take"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_int_not_equal(strncmp(help, first[i], strlen(first[i])), 0);
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        assert_null(strstr(help, within[i]));
}

static void assert_sound(const sky_metric *m) {
    assert_int_equal(strspn(m->name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(m->name));
    assert_int_equal(strncmp(m->name, "skymem_", 7), 0);
    assert_int_equal(ends_with(m->name, "_total"), m->kind == SKY_METRIC_COUNTER);
    assert_int_equal(ends_with(m->name, "_seconds"), m->kind == SKY_METRIC_HISTOGRAM);
    assert_true(strcmp(m->unit, "bytes") != 0 || strstr(m->name, "_bytes"));
    assert_true(strlen(m->help) > 8 && ends_with(m->help, "."));
    assert_null(strpbrk(m->help, "\\\n"));
    assert_stands_alone(m->help);
    assert_true(m->label[0] || !m->value[0]);
    if (m->kind == SKY_METRIC_HISTOGRAM)
        assert_non_null(sky_metric_label_value(m->label, 0));
}

static void the_table_is_sound(void **state) {
    (void)state;
    for (size_t i = 0; i < sky_metric_count(); i++) {
        const sky_metric *m = sky_metric_at(i);
        assert_sound(m);
        for (size_t k = 0; k < i; k++) {
            const sky_metric *other = sky_metric_at(k);
            bool same_name = strcmp(m->name, other->name) == 0;
            assert_true(m->id != other->id);
            assert_true(strcmp(m->group, other->group) != 0 || strcmp(m->field, other->field) != 0);
            assert_true(!same_name || (m->kind == other->kind && strcmp(m->value, other->value) &&
                                       strcmp(m->label, other->label) == 0));
        }
    }
    assert_null(sky_metric_at(sky_metric_count()));
}

/* Names in JSON are the words of the names in Prometheus. */
static void datagrams_have_the_same_names_in_json(void **state) {
    (void)state;
    static const char *const fields[] = {"speculative_retries", "undeliverable", "over_share",
                                         "incomplete_dropped"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        size_t row = 0;
        while (row < sky_metric_count() && (strcmp(sky_metric_at(row)->group, "transport") != 0 ||
                                            strcmp(sky_metric_at(row)->field, fields[i]) != 0))
            row++;
        assert_true(row < sky_metric_count());
        assert_true(strstr(sky_metric_at(row)->name, fields[i]) ||
                    strcmp(sky_metric_at(row)->value, fields[i]) == 0);
    }
}

/* What programs were compiled with. */
static void numbers_stay(void **state) {
    (void)state;
    assert_int_equal(SKY_METRIC_CACHE_HITS, 1);
    assert_int_equal(SKY_METRIC_TIER_ENTRIES, 257);
    assert_int_equal(SKY_METRIC_TIER_LEASES, 278);
    assert_int_equal(SKY_METRIC_TIER_ANSWER, 513);
    assert_int_equal(SKY_METRIC_SESSION_PUTS, 769);
    assert_int_equal(SKY_METRIC_TRANSPORT_DATAGRAMS_SENT, 1025);
}

static void members_lie_in_the_order_of_rows(void **state) {
    (void)state;
    sky_tier_counts t = {.leases = 7, .errors = 3};
    sky_transport_counts p = {.unsupported = 9};
    assert_int_equal(((uint64_t *)&t)[SKY_METRIC_TIER_LEASES - SKY_METRIC_TIER_GROUP - 1], 7);
    assert_int_equal(((uint64_t *)&t)[SKY_METRIC_TIER_ERRORS - SKY_METRIC_TIER_GROUP - 1], 3);
    size_t last = SKY_METRIC_TRANSPORT_UNSUPPORTED - SKY_METRIC_TRANSPORT_GROUP - 1;
    assert_int_equal(((uint64_t *)&p)[last], 9);
    assert_int_equal(sizeof p, (last + 1) * sizeof(uint64_t));
}

static void every_member_is_added(void **state) {
    (void)state;
    sky_transport_counts sum = {.datagrams_sent = 1, .unsupported = 2, .over_share = 5};
    const sky_transport_counts more = {.datagrams_sent = 10, .unsupported = 20, .relayed = 3};
    SKY_COUNTS_ADD(&sum, &more);
    assert_int_equal(sum.datagrams_sent, 11);
    assert_int_equal(sum.unsupported, 22);
    assert_int_equal(sum.over_share, 5);
    assert_int_equal(sum.relayed, 3);
}

static size_t bucket_of(int64_t ns) {
    sky_histogram h = {.sum_ns = 0};
    sky_histogram_add(&h, ns);
    assert_int_equal(sky_histogram_count(&h), 1);
    assert_int_equal(h.sum_ns, ns > 0 ? ns : 0);
    size_t i = 0;
    while (h.buckets[i] == 0)
        i++;
    return i;
}

static void a_time_is_in_the_first_bucket_that_holds_it(void **state) {
    (void)state;
    assert_int_equal(sky_histogram_bound_ns(0), 256);
    assert_int_equal(sky_histogram_bound_ns(SKY_HISTOGRAM_BUCKETS - 2), UINT64_C(1) << 36);
    for (size_t i = 0; i + 1 < SKY_HISTOGRAM_BUCKETS; i++) {
        int64_t bound = (int64_t)sky_histogram_bound_ns(i);
        assert_int_equal(bucket_of(bound), i);
        assert_int_equal(bucket_of(bound + 1), i + 1);
    }
    assert_int_equal(bucket_of(-5), 0);
    assert_int_equal(bucket_of(0), 0);
    assert_int_equal(bucket_of(INT64_MAX), SKY_HISTOGRAM_BUCKETS - 1);
    assert_true(sky_histogram_bound_ns(SKY_HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
    assert_true(sky_histogram_bound_ns(SIZE_MAX) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(datagrams_have_the_same_names_in_json),
        cmocka_unit_test(numbers_stay),
        cmocka_unit_test(members_lie_in_the_order_of_rows),
        cmocka_unit_test(every_member_is_added),
        cmocka_unit_test(a_time_is_in_the_first_bucket_that_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
