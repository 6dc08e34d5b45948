/* What a cache and its tiers are, and what they have counted. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache_internal.h"
#include "cache/request_state.h"
#include "cache/tier_slot.h"

#define GROUP_BITS 8 /* of a metric's id: its place in its group, from 1 */

/* ---- reading ---- */

typedef struct {
    sky_tier_stat stat;
    sky_counts counts;
} tier_view;

/* What a thread has read within sky__cache_read_once. */
typedef struct {
    const sky_cache *cache;
    bool has[SKY_TIERS_MAX];
    tier_view tiers[SKY_TIERS_MAX];
} reading;

static _Thread_local reading *kept_reading; /* NULL: it reads again each time */

/* A tier's own counts, and those that the cache keeps of it. */
static void ask_tier(sky_cache *c, size_t tier, sky_tier_stat *stat, sky_counts *out) {
    sky__slot *s = &c->slots[tier];
    sky_tier_counts *t = &out->tier;
    *stat = (sky_tier_stat){0};
    memset(out, 0, sizeof *out);
    s->tier->ops->stat(s->tier, stat, out);
    stat->traits = s->tier->traits;
    sky_mutex_lock(&c->mutex);
    t->dropped += s->counts.dropped;
    t->late += s->counts.late;
    t->write_backs = s->counts.write_backs;
    t->demoted = s->counts.demoted;
    t->demotions_lost += s->counts.demotions_lost;
    if (tier + 1 == c->slot_count) /* nothing is demoted from here */
        t->demotions_lost = 0;
    t->write_backs_queued = s->write_back_count;
    t->write_back_bytes = s->write_back_bytes;
    t->active = s->active_count;
    t->failures = s->failures;
    for (const sky__sub *sub = s->waiting.first; sub; sub = sub->next)
        t->queued++;
    for (const sky__sub *sub = s->waiting_background.first; sub; sub = sub->next)
        t->queued_background++;
    if (sky__slot_skipped(c, s)) {
        stat->failing = true;
        snprintf(stat->note, sizeof stat->note,
                 "skipped for %" PRId64 " ms after %" PRIu32 " failures in a row, the last: %s",
                 (s->retry_at - sky__cache_now(c)) / 1000000, s->failures,
                 sky_status_text(s->last_failure));
    }
    sky_mutex_unlock(&c->mutex);
}

static void read_tier(sky_cache *c, size_t tier, sky_tier_stat *stat, sky_counts *out) {
    reading *r = kept_reading;
    if (!r || r->cache != c) {
        ask_tier(c, tier, stat, out);
        return;
    }
    tier_view *v = &r->tiers[tier];
    if (!r->has[tier])
        ask_tier(c, tier, &v->stat, &v->counts);
    r->has[tier] = true;
    *stat = v->stat;
    *out = v->counts;
}

void sky__cache_read_once(sky_cache *c, void (*body)(void *context), void *context) {
    reading *before = kept_reading, *r = calloc(1, sizeof *r);
    if (r)
        r->cache = c;
    kept_reading = r; /* without memory each is read again */
    body(context);
    kept_reading = before;
    free(r);
}

static sky_cache_counts read_cache(sky_cache *c, uint64_t near_hits) {
    sky_cache_counts counts;
    const uint64_t *from = (const uint64_t *)&c->counts;
    for (size_t i = 0; i < sizeof counts / sizeof *from; i++)
        ((uint64_t *)&counts)[i] = sky_count_read(&from[i]);
    if (sky__near_answers(c))
        counts.hits += near_hits;
    sky_mutex_lock(&c->mutex);
    counts.promotions_active = c->promotion_count;
    counts.private_bytes = c->private_bytes;
    counts.leases = sky_leases_count(c->leases);
    counts.announced = atomic_load(&c->arrivals.count);
    counts.awaited = atomic_load(&c->arrivals.waiter_count);
    for (const sky__request *r = c->requests; r; r = r->next)
        counts.requests_active++;
    sky_mutex_unlock(&c->mutex);
    return counts;
}

sky_status sky__cache_tier_counts(sky_cache *c, size_t tier, sky_tier_counts *out) {
    sky_status status = sky__cache_check(c);
    if (status != SKY_OK || tier >= c->slot_count)
        return status != SKY_OK ? status : SKY_E_PARAM;
    sky_tier_stat stat;
    sky_counts counts;
    read_tier(c, tier, &stat, &counts);
    *out = counts.tier;
    return SKY_OK;
}

uint64_t sky__cache_put_count(sky_cache *c) {
    uint64_t puts = 0;
    for (size_t t = 0; sky__cache_check(c) == SKY_OK && t < c->slot_count; t++)
        puts += sky_tier_put_count(c->slots[t].tier);
    return puts;
}

sky_cache_counts *sky__cache_counts(sky_cache *c) {
    return c ? &c->counts : NULL;
}

sky_status sky_cache_stat(sky_cache *c, size_t tier, sky_tier_stat *out) {
    if (!out || (c && tier >= c->slot_count))
        return SKY_E_PARAM;
    sky_status status = sky__cache_check(c);
    sky_counts counts;
    if (status == SKY_OK)
        read_tier(c, tier, out, &counts);
    return status;
}

/* ---- all numbers ---- */

typedef struct {
    const sky_cache *cache;
    sky_metric_fn each;
    void *context;
    sky_cache_counts counts;
    size_t tier_count;
    tier_view tiers[SKY_TIERS_MAX];
} view;

static void read_all(sky_cache *c, view *v) {
    v->cache = c;
    v->tier_count = c->slot_count;
    for (size_t t = 0; t < c->slot_count; t++) {
        read_tier(c, t, &v->tiers[t].stat, &v->tiers[t].counts);
    }
    v->counts = read_cache(c, v->tiers[0].counts.tier.hits);
}

static bool tell_times(const view *v, const sky_metric *metric, size_t place, size_t tier,
                       sky_metric_sample *sample) {
    const sky_histogram(*times)[SKY__TIMES_VALUES_MAX] = (const void *)&v->cache->times[tier];
    bool go_on = true;
    for (size_t i = 0; go_on && sky_metric_label_value(metric->label, i); i++) {
        sky_histogram h;
        sky_histogram_read(&times[place][i], &h);
        sample->value = sky_metric_label_value(metric->label, i);
        sample->histogram = &h;
        go_on = sky_histogram_count(&h) == 0 || v->each(v->context, sample);
    }
    return go_on;
}

static uint32_t group_of(uint32_t metric) {
    return metric >> GROUP_BITS << GROUP_BITS;
}

/* Rows of a group that are single numbers. */
static size_t number_rows(uint32_t group) {
    switch (group) {
    case SKY_METRIC_CACHE_GROUP:
        return sizeof(sky_cache_counts) / sizeof(uint64_t);
    case SKY_METRIC_TIER_GROUP:
        return sizeof(sky_tier_counts) / sizeof(uint64_t);
    case SKY_METRIC_SESSION_GROUP:
        return sizeof(sky_session_counts) / sizeof(uint64_t);
    case SKY_METRIC_TRANSPORT_GROUP:
        return sizeof(sky_transport_counts) / sizeof(uint64_t);
    default:
        return 0;
    }
}

/* The members of a tier's group; NULL: it has none of this group. */
static const uint64_t *members_of(const tier_view *t, uint32_t group) {
    if (group == SKY_METRIC_TIER_GROUP)
        return (const uint64_t *)&t->counts.tier;
    if (!(t->stat.traits & SKY_TIER_SKY))
        return NULL;
    if (group == SKY_METRIC_SESSION_GROUP)
        return (const uint64_t *)&t->counts.session;
    return group == SKY_METRIC_TRANSPORT_GROUP ? (const uint64_t *)&t->counts.transport : NULL;
}

static bool tell_row(const view *v, const sky_metric *metric) {
    uint32_t group = group_of(metric->id);
    size_t place = metric->id - group - 1;
    sky_metric_sample sample = {
        .metric = metric, .tier = SKY_TIER_NONE, .kind = "", .value = metric->value};
    if (group == SKY_METRIC_CACHE_GROUP) {
        sample.number = ((const uint64_t *)&v->counts)[place];
        return v->each(v->context, &sample);
    }
    bool go_on = true;
    for (size_t t = 0; go_on && t < v->tier_count; t++) {
        sample.tier = (uint8_t)t;
        sample.kind = v->cache->slots[t].kind;
        if (group == SKY_METRIC_TIMES_GROUP) {
            go_on = tell_times(v, metric, place, t, &sample);
            continue;
        }
        const uint64_t *members = members_of(&v->tiers[t], group);
        sample.number = members ? members[place] : 0;
        go_on = !members || v->each(v->context, &sample);
    }
    return go_on;
}

/* Rows in the order in which they go out: those of one name follow each other. It is made by the
 * first call; threads that make it at once write the same. */
#define ONE_ROW(...) +1
enum {
    ROWS = SKY_METRICS_CACHE(ONE_ROW) SKY_METRICS_TIER(ONE_ROW) SKY_METRICS_TIMES(ONE_ROW)
        SKY_METRICS_SESSION(ONE_ROW) SKY_METRICS_TRANSPORT(ONE_ROW)
};
static _Atomic uint16_t row_order[ROWS];
static _Atomic bool rows_are_ordered;

static void order_rows(void) {
    bool placed[ROWS] = {false};
    size_t count = 0;
    if (atomic_load(&rows_are_ordered))
        return;
    for (size_t first = 0; first < ROWS; first++) {
        const char *name = sky_metric_at(first)->name;
        if (placed[first])
            continue;
        for (size_t i = first; i < ROWS; i++) {
            if (strcmp(sky_metric_at(i)->name, name) != 0)
                continue;
            atomic_store(&row_order[count++], (uint16_t)i);
            placed[i] = true;
        }
    }
    atomic_store(&rows_are_ordered, true);
}

sky_status sky_cache_metrics(sky_cache *c, sky_metric_fn each, void *context) {
    sky_status status = each ? sky__cache_check(c) : SKY_E_PARAM;
    view *v = status == SKY_OK ? calloc(1, sizeof *v) : NULL;
    if (!v)
        return status != SKY_OK ? status : SKY_E_NOMEM;
    v->each = each;
    v->context = context;
    read_all(c, v);
    order_rows();
    bool go_on = true;
    for (size_t i = 0; go_on && i < ROWS; i++)
        go_on = tell_row(v, sky_metric_at(atomic_load(&row_order[i])));
    free(v);
    return SKY_OK;
}

uint64_t sky_cache_metric(sky_cache *c, size_t tier, sky_metric_id metric) {
    uint32_t group = group_of((uint32_t)metric);
    size_t place = (uint32_t)metric - group - 1;
    bool whole = group == SKY_METRIC_CACHE_GROUP && tier == SKY_TIER_NONE;
    if (sky__cache_check(c) != SKY_OK || place >= number_rows(group) ||
        (!whole && tier >= c->slot_count))
        return 0;
    tier_view t;
    read_tier(c, whole ? 0 : tier, &t.stat, &t.counts);
    if (whole) {
        sky_cache_counts counts = read_cache(c, t.counts.tier.hits);
        return ((const uint64_t *)&counts)[place];
    }
    const uint64_t *members = members_of(&t, group);
    return members ? members[place] : 0;
}
