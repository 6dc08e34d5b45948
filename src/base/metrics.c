#include "base/metrics.h"

#include <string.h>

#define BOUND_LOG2_MIN 8u /* 256 ns */

/* clang-format off */
#define ROW(group, id, field, name, label, value, kind, unit, help) \
    {SKY_METRIC_##id, SKY_METRIC_##kind, group, #field, name, label, value, unit, help},
#define CACHE_ROW(...) ROW("cache", __VA_ARGS__)
#define TIER_ROW(...) ROW("tier", __VA_ARGS__)
#define SESSION_ROW(...) ROW("session", __VA_ARGS__)
#define TRANSPORT_ROW(...) ROW("transport", __VA_ARGS__)
static const sky_metric rows[] = {
    SKY_METRICS_CACHE(CACHE_ROW)
    SKY_METRICS_TIER(TIER_ROW)
    SKY_METRICS_TIMES(TIER_ROW)
    SKY_METRICS_SESSION(SESSION_ROW)
    SKY_METRICS_TRANSPORT(TRANSPORT_ROW)
};
/* clang-format on */

static const char *const ops[] = {"has",      "get", "put",   "remove",
                                  "prefetch", "pin", "unpin", "lease"};
static const char *const whose[] = {"caller", "background"};

size_t sky_metric_count(void) {
    return sizeof rows / sizeof *rows;
}

const sky_metric *sky_metric_at(size_t i) {
    return i < sky_metric_count() ? &rows[i] : NULL;
}

const char *sky_metric_label_value(const char *label, size_t i) {
    if (strcmp(label, "op") == 0)
        return i < sizeof ops / sizeof *ops ? ops[i] : NULL;
    if (strcmp(label, "for") == 0)
        return i < sizeof whose / sizeof *whose ? whose[i] : NULL;
    return i == 0 ? "" : NULL;
}

uint64_t sky_histogram_bound_ns(size_t bucket) {
    return bucket < SKY_HISTOGRAM_BUCKETS - 1 ? UINT64_C(1) << (BOUND_LOG2_MIN + bucket)
                                              : UINT64_MAX;
}

/* The first bucket whose bound is not below the time. */
static size_t bucket_of(uint64_t ns) {
    uint64_t above = ns > 0 ? (ns - 1) >> BOUND_LOG2_MIN : 0;
    size_t bucket = above == 0 ? 0 : 64u - (size_t)__builtin_clzll(above);
    return bucket < SKY_HISTOGRAM_BUCKETS ? bucket : SKY_HISTOGRAM_BUCKETS - 1;
}

void sky_histogram_add(sky_histogram *h, int64_t ns) {
    uint64_t took = ns > 0 ? (uint64_t)ns : 0;
    sky_count(&h->sum_ns, took);
    sky_count(&h->buckets[bucket_of(took)], 1);
}

void sky_histogram_read(const sky_histogram *h, sky_histogram *out) {
    for (size_t i = 0; i < SKY_HISTOGRAM_BUCKETS; i++)
        out->buckets[i] = sky_count_read(&h->buckets[i]);
    out->sum_ns = sky_count_read(&h->sum_ns);
}
