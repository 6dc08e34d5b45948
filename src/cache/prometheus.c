/* A cache's numbers as Prometheus's text, exposition format 0.0.4.
 *
 *   # HELP skymem_tier_hits_total Gets of a key that the tier answered.
 *   # TYPE skymem_tier_hits_total counter
 *   skymem_tier_hits_total{tier="0",kind="mem"} 7
 *
 * Of a URL only the scheme and the place are shown: queries, user names and passwords may be
 * secrets. Users stand only in a URL with an authority, `//user:password@host`. Bytes of a place
 * that are no printable ASCII are shown as %XX. */
#include <skymem/metrics.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/metrics.h"

typedef struct {
    char *text;
    size_t bytes_max;
    size_t bytes;     /* needed so far, whether there was room or not */
    const char *name; /* of the metric whose HELP was printed last */
} page;

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = p->bytes < p->bytes_max ? p->bytes_max - p->bytes : 0;
    int length = vsnprintf(room ? p->text + p->bytes : NULL, room, format, args);
    va_end(args);
    p->bytes += length > 0 ? (size_t)length : 0;
}

/* ---- labels ---- */

static void put_value(page *p, const char *value) {
    for (; *value; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte == '"' || byte == '\\')
            put(p, "\\%c", byte);
        else if (byte < 0x20 || byte > 0x7e)
            put(p, "%%%02X", byte);
        else
            put(p, "%c", byte);
    }
}

static void put_label(page *p, const char *before, const char *label, const char *value) {
    put(p, "%s%s=\"", before, label);
    put_value(p, value);
    put(p, "\"");
}

static void put_labels(page *p, const sky_metric_sample *s) {
    const char *before = "{";
    if (s->tier != SKY_TIER_NONE) {
        put(p, "{tier=\"%u\"", s->tier);
        put_label(p, ",", "kind", s->kind);
        before = ",";
    }
    if (s->metric->label[0])
        put_label(p, before, s->metric->label, s->value);
}

static bool has_labels(const sky_metric_sample *s) {
    return s->tier != SKY_TIER_NONE || s->metric->label[0];
}

/* ---- metrics ---- */

static void put_head(page *p, const char *name, const char *help, const char *type) {
    put(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Nanoseconds as seconds, exactly and without zeros at the end. */
static void put_seconds(page *p, uint64_t ns) {
    char digits[16];
    int length = snprintf(digits, sizeof digits, "%09" PRIu64, ns % 1000000000);
    while (length > 1 && digits[length - 1] == '0')
        length--;
    put(p, "%" PRIu64 ".%.*s", ns / 1000000000, length, digits);
}

static void put_histogram(page *p, const sky_metric_sample *s) {
    uint64_t count = 0;
    for (size_t i = 0; i < SKY_HISTOGRAM_BUCKETS; i++) {
        uint64_t bound = sky_histogram_bound_ns(i);
        count += s->histogram->buckets[i];
        put(p, "%s_bucket", s->metric->name);
        put_labels(p, s);
        put(p, "%sle=\"", has_labels(s) ? "," : "{");
        if (bound == UINT64_MAX)
            put(p, "+Inf");
        else
            put_seconds(p, bound);
        put(p, "\"} %" PRIu64 "\n", count);
    }
    put(p, "%s_sum", s->metric->name);
    put_labels(p, s);
    put(p, has_labels(s) ? "} " : " ");
    put_seconds(p, s->histogram->sum_ns);
    put(p, "\n%s_count", s->metric->name);
    put_labels(p, s);
    put(p, "%s%" PRIu64 "\n", has_labels(s) ? "} " : " ", count);
}

static bool put_sample(void *context, const sky_metric_sample *s) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    page *p = context;
    if (!p->name || strcmp(p->name, s->metric->name) != 0)
        put_head(p, s->metric->name, s->metric->help, types[s->metric->kind]);
    p->name = s->metric->name;
    if (s->histogram) {
        put_histogram(p, s);
        return true;
    }
    put(p, "%s", s->metric->name);
    put_labels(p, s);
    put(p, "%s%" PRIu64 "\n", has_labels(s) ? "} " : " ", s->number);
    return true;
}

/* ---- where tiers are ---- */

/* What follows the scheme, without a query; of an authority (`//user:password@host`) without what
 * may be a user name or a password. A password may hold any character, so everything up to the last
 * @ is left out, and all of it where an @ follows a ? or the text was cut off. */
static void place_of(const char *url, bool cut, char *out, size_t out_bytes) {
    const char *place = strchr(url, ':');
    place = place ? place + 1 : "";
    if (strncmp(place, "//", 2) != 0) {
        snprintf(out, out_bytes, "%.*s", (int)strcspn(place, "?"), place);
        return;
    }
    const char *at = strrchr(place, '@'), *end = place + strcspn(place, "?#");
    const char *host = at ? at + 1 : place + 2;
    bool unclear = cut || host > end;
    snprintf(out, out_bytes, "//%.*s", unclear ? 0 : (int)(end - host), host);
}

static void put_places(page *p, sky_cache *c) {
    put_head(p, "skymem_tier_info", "Where each tier is.", "gauge");
    for (size_t t = 0; t < sky_tier_count(c); t++) {
        sky_tier_stat stat;
        char place[sizeof stat.url], kind[sizeof stat.url];
        if (sky_cache_stat(c, t, &stat) != SKY_OK)
            return;
        bool cut = strlen(stat.url) == sizeof stat.url - 1;
        place_of(stat.url, cut, place, sizeof place);
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(stat.url, ":"), stat.url);
        put(p, "skymem_tier_info{tier=\"%zu\"", t);
        put_label(p, ",", "kind", kind);
        put_label(p, ",", "where", place);
        put(p, "} 1\n");
    }
}

sky_status sky_cache_prometheus(sky_cache *c, char *text, size_t text_bytes_max,
                                size_t *text_bytes) {
    if (!text_bytes || (!text && text_bytes_max > 0))
        return SKY_E_PARAM;
    page p = {.text = text, .bytes_max = text_bytes_max};
    sky_status status = sky_cache_metrics(c, put_sample, &p);
    if (status != SKY_OK)
        return status;
    put_places(&p, c);
    *text_bytes = p.bytes;
    return p.bytes < text_bytes_max ? SKY_OK : SKY_E_DST_SMALL;
}
