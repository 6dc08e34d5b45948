#include "numbers.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_FIRST 65536u

/* ---- JSON ---- */

/* The bound of the bucket in which the share of all times ends; UINT64_MAX beyond the last. */
static uint64_t quantile_ns(const sky_histogram *h, double share) {
    double rest = share * (double)sky_histogram_count(h);
    size_t i = 0;
    while (i + 1 < SKY_HISTOGRAM_BUCKETS && rest > (double)h->buckets[i])
        rest -= (double)h->buckets[i++];
    return sky_histogram_bound_ns(i);
}

static json_t *bound_json(uint64_t ns) {
    return ns == UINT64_MAX ? json_null() : json_real((double)ns / 1e9);
}

static json_t *histogram_json(const sky_histogram *h) {
    return json_pack("{s:I, s:f, s:o, s:o}", "count", (json_int_t)sky_histogram_count(h), "sum_s",
                     (double)h->sum_ns / 1e9, "p50_s", bound_json(quantile_ns(h, 0.5)), "p99_s",
                     bound_json(quantile_ns(h, 0.99)));
}

/* The object of a name in another, made when it is not there. */
static json_t *object_in(json_t *object, const char *name) {
    if (!json_object_get(object, name))
        json_object_set_new(object, name, json_object());
    return json_object_get(object, name);
}

typedef struct {
    json_t *cache;
    json_t *const *tiers;
} objects;

static bool add_number(void *context, const sky_metric_sample *s) {
    const objects *o = context;
    const sky_metric *m = s->metric;
    json_t *object = s->tier == SKY_TIER_NONE ? o->cache : o->tiers[s->tier];
    if (strcmp(m->group, "cache") != 0 && strcmp(m->group, "tier") != 0)
        object = object_in(object, m->group);
    if (s->histogram)
        json_object_set_new(object_in(object, m->field), s->value, histogram_json(s->histogram));
    else
        json_object_set_new(object, m->field, json_integer((json_int_t)s->number));
    return true;
}

json_t *numbers_json(sky_cache *cache, json_t *const tiers[SKY_TIERS_MAX]) {
    objects o = {json_object(), tiers};
    (void)sky_cache_metrics(cache, add_number, &o);
    return o.cache;
}

/* ---- for people ---- */

typedef struct {
    const cli_store *store;
    cli_table *table;
} listing;

/* Shown in the table of tiers, or a limit rather than a count. */
static bool stands_above(const sky_metric *m) {
    static const sky_metric_id above[] = {
        SKY_METRIC_TIER_ENTRIES,   SKY_METRIC_TIER_BYTES_USED, SKY_METRIC_TIER_BYTES_MAX,
        SKY_METRIC_TIER_EVICTIONS, SKY_METRIC_TIER_CORRUPT,    SKY_METRIC_TIER_ERRORS,
        SKY_METRIC_SESSION_BYTES,
    };
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (m->id == (uint32_t)above[i])
            return true;
    return false;
}

static void time_text(uint64_t ns, char out[24]) {
    if (ns == UINT64_MAX)
        snprintf(out, 24, "more than 68 s");
    else if (ns < 1000000)
        snprintf(out, 24, "%.3g us", (double)ns / 1e3);
    else
        snprintf(out, 24, "%.3g ms", (double)ns / 1e6);
}

static bool list_number(void *context, const sky_metric_sample *s) {
    const listing *l = context;
    const sky_metric *m = s->metric;
    char half[24], most[24], size[24];
    if ((!s->histogram && s->number == 0) || stands_above(m))
        return true;
    cli_table_cell(l->table, "%s", s->tier == SKY_TIER_NONE ? "" : l->store->names[s->tier]);
    cli_table_cell(l->table, "%s%s%s", m->field, s->value[0] ? " " : "", s->value);
    if (s->histogram) {
        time_text(quantile_ns(s->histogram, 0.5), half);
        time_text(quantile_ns(s->histogram, 0.99), most);
        cli_table_cell(l->table, "%llu", (unsigned long long)sky_histogram_count(s->histogram));
        cli_table_cell(l->table, "half within %s, 99 of 100 within %s", half, most);
        return true;
    }
    if (strcmp(m->unit, "bytes") == 0)
        cli_table_cell(l->table, "%s", cli_bytes_text(s->number, size));
    else
        cli_table_cell(l->table, "%llu", (unsigned long long)s->number);
    cli_table_cell(l->table, "%s", m->help);
    return true;
}

void numbers_print(const cli_store *store) {
    static const char *const head[] = {"TIER", "COUNTED", "NUMBER", "WHAT IT IS"};
    cli_table table = {.columns = "llrl"};
    listing l = {store, &table};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&table, "%s", head[i]);
    (void)sky_cache_metrics(store->cache, list_number, &l);
    printf("\n");
    cli_table_print(&table, stdout);
}

/* ---- Prometheus ---- */

int numbers_prometheus(const cli *c, const cli_store *store) {
    size_t room = TEXT_BYTES_FIRST, bytes = 0;
    char *text = malloc(room);
    sky_status status = text ? sky_cache_prometheus(store->cache, text, room, &bytes) : SKY_E_NOMEM;
    while (status == SKY_E_DST_SMALL) { /* numbers may have grown since */
        room = bytes + TEXT_BYTES_FIRST;
        free(text);
        text = malloc(room);
        status = text ? sky_cache_prometheus(store->cache, text, room, &bytes) : SKY_E_NOMEM;
    }
    if (status == SKY_OK)
        fwrite(text, 1, bytes, stdout);
    free(text);
    return status == SKY_OK ? CLI_OK : cli_failed(c, "the numbers: %s", sky_status_text(status));
}
