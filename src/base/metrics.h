/* The members behind the table of skymem/metrics.h: a counter of each row, and histograms of times.
 *
 * To add a metric: one row there, and one increment of the member that the row names. A struct of
 * counts is as many uint64_t as its group has rows, in their order; so sums and printers loop.
 *
 * Concurrency: the owner of a struct says what guards it. Counters that nothing guards are
 * incremented by sky_count; histograms always are. */
#ifndef SKY_BASE_METRICS_H
#define SKY_BASE_METRICS_H

#include <skymem/metrics.h>

#define SKY__METRIC_MEMBER(id, field, ...) uint64_t field;
typedef struct {
    SKY_METRICS_CACHE(SKY__METRIC_MEMBER)
} sky_cache_counts;
typedef struct {
    SKY_METRICS_TIER(SKY__METRIC_MEMBER)
} sky_tier_counts;
typedef struct {
    SKY_METRICS_SESSION(SKY__METRIC_MEMBER)
} sky_session_counts;
typedef struct {
    SKY_METRICS_TRANSPORT(SKY__METRIC_MEMBER)
} sky_transport_counts;
#undef SKY__METRIC_MEMBER

#define SKY__TIMES_VALUES_MAX              8 /* values of a histogram's label */
#define SKY__METRIC_MEMBER(id, field, ...) sky_histogram field[SKY__TIMES_VALUES_MAX];
typedef struct {
    SKY_METRICS_TIMES(SKY__METRIC_MEMBER)
} sky_tier_times;
#undef SKY__METRIC_MEMBER

/* What a tier has counted; the last two are a sky's. */
typedef struct {
    sky_tier_counts tier;
    sky_session_counts session;
    sky_transport_counts transport;
} sky_counts;

/* Add to a counter that several threads increment. */
static inline void sky_count(uint64_t *counter, uint64_t more) {
    __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

static inline uint64_t sky_count_read(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Add each member of a struct of counts to another of its type. */
#define SKY_COUNTS_ADD(sum, more)                                                                  \
    sky__counts_add((uint64_t *)(sum), (const uint64_t *)(more),                                   \
                    sizeof *(sum) / sizeof(uint64_t) + 0 * sizeof((sum) == (more)))
static inline void sky__counts_add(uint64_t *sum, const uint64_t *more, size_t members) {
    for (size_t i = 0; i < members; i++)
        sum[i] += more[i];
}

/* Count a time. A negative one counts as 0. Threads: any */
void sky_histogram_add(sky_histogram *h, int64_t ns);
/* A copy that is read while others add: buckets are whole, and may be newer than the sum. */
void sky_histogram_read(const sky_histogram *h, sky_histogram *out);

/* The name of value i of a histogram's label ("get" of "op"); NULL: there is none. */
const char *sky_metric_label_value(const char *label, size_t i);

#endif
