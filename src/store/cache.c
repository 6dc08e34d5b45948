/* sky_cache: opening and closing a hierarchy, and the public calls on it. The parts that do the
 * work are drawn in store/hierarchy.h. */
#include "store/cache_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/coded_tier.h"
#include "store/disk_folder.h"
#include "store/hierarchy.h"
#include "store/sky_udp.h"
#include "store/url.h"

#define CLOSE_NS        SKY_SECONDS(10)
#define PREFIX_KEYS_MAX 1024 /* asked at once */

/* ---- opening and closing ---- */

sky_status sky_cache_create(sky_cache **out) {
    sky_cache *c = calloc(1, sizeof *c);
    if (!c)
        return SKY_E_NOMEM;
    c->wake = -1;
    sky_mutex_init(&c->mutex);
    sky_condition_init(&c->quiet);
    sky_status status = sky_batches_create(NULL, &c->batches);
    if (status == SKY_OK)
        status = sky_event_create(&c->wake);
    if (status != SKY_OK) {
        sky_cache_close(c);
        return status;
    }
    *out = c;
    return SKY_OK;
}

sky_tier_env sky_cache_env(sky_cache *c, bool last) {
    assert(c->tier_count < SKY_TIERS_MAX);
    sky_rung *r = &c->tiers[c->tier_count];
    r->cache = c;
    sky_tier_env env = {.index = (uint8_t)c->tier_count};
    if (!last) {
        env.victim = sky_behind_victim;
        env.victim_context = r;
    }
    return env;
}

void sky_cache_add(sky_cache *c, sky_tier *tier) {
    assert(c->tier_count < SKY_TIERS_MAX);
    sky_rung *r = &c->tiers[c->tier_count];
    r->cache = c;
    r->tier = tier;
    r->lends = tier->ops->release != NULL;
    sky_mutex_lock(&c->mutex);
    c->tier_count++;
    sky_mutex_unlock(&c->mutex);
}

sky_status sky_cache_start(sky_cache *c) {
    assert(c->tier_count > 0);
    sky_tier_stat near;
    sky_cache_stat(c, 0, &near);
    uint64_t leased_max = c->tiers[0].lends ? near.bytes_max / 2 : UINT64_MAX;
    for (size_t t = 1; t < c->tier_count; t++) {
        sky_rung *r = &c->tiers[t];
        r->behind_bytes_max = leased_max;
        r->known = calloc(SKY_KNOWN_SLOTS, sizeof *r->known);
        if (!r->known)
            return SKY_E_NOMEM;
    }
    return sky_thread_start(&c->thread, "skymem-cache", sky_errands_run, c);
}

sky_status sky_cache_over_tiers(sky_tier *const *tiers, size_t tier_count, sky_cache **out) {
    sky_cache *c = NULL;
    sky_status status = sky_cache_create(&c);
    for (size_t t = 0; t < tier_count; t++) {
        if (c)
            sky_cache_add(c, tiers[t]);
        else
            tiers[t]->ops->close(tiers[t]);
    }
    if (status == SKY_OK)
        status = sky_cache_start(c);
    if (status != SKY_OK) {
        sky_cache_close(c);
        return status;
    }
    *out = c;
    return SKY_OK;
}

/* The URL without its levels, which the tier itself knows nothing of. ladder->count 0: none. */
static sky_status take_level(const sky_url *url, char *text, size_t text_bytes, sky_ladder *ladder,
                             sky_error *error) {
    const char *names = sky_url_value(url, "level");
    if (names && (strcmp(url->scheme, "mem") == 0 || sky_ladder_parse(names, ladder) != SKY_OK))
        return sky_fail(error, SKY_E_SYNTAX,
                        "%s:%.200s: level=%s: farther tiers than mem take lossless, 8, 6, 4, 3, "
                        "2.5, 2 or archive, or some of them with commas, each once",
                        url->scheme, url->path, names);
    int used = snprintf(text, text_bytes, "%s:%s", url->scheme, url->path);
    for (size_t i = 0, count = 0; i < url->query_count; i++) {
        if (strcmp(url->query[i].key, "level") == 0)
            continue;
        used += snprintf(text + used, text_bytes - (size_t)used, "%c%s=%s", count++ ? '&' : '?',
                         url->query[i].key, url->query[i].value);
    }
    return SKY_OK;
}

typedef sky_status (*opener)(const char *, const sky_tier_env *, sky_tier **, sky_error *);

/* NULL: there is no such scheme. */
static opener opener_of(const char *text, size_t scheme_bytes) {
    static const struct {
        const char *scheme;
        opener opens;
    } schemes[] = {
        {"mem", sky_memory_tier_open},
        {"disk", sky_disk_tier_open},
        {"sky", sky_sky_tier_open},
        {"sky+udp", sky_udp_tier_open},
    };
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strlen(schemes[i].scheme) == scheme_bytes &&
            memcmp(schemes[i].scheme, text, scheme_bytes) == 0)
            return schemes[i].opens;
    return NULL;
}

static sky_status open_tier(sky_cache *c, const char *text, bool last, sky_error *error) {
    size_t scheme_bytes = strcspn(text, ":");
    opener opens = opener_of(text, scheme_bytes);
    if (!opens && text[scheme_bytes])
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: no store is called '%.*s'; known: mem, disk, sky, sky+udp", text,
                        scheme_bytes < 40 ? (int)scheme_bytes : 40, text);
    sky_url url;
    char plain[sizeof url];
    sky_ladder ladder = {.count = 0};
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = take_level(&url, plain, sizeof plain, &ladder, error);
    if (status != SKY_OK)
        return status;
    sky_tier_env env = sky_cache_env(c, last);
    sky_tier *tier;
    status = opens(plain, &env, &tier, error);
    if (status == SKY_OK && ladder.count > 0 &&
        (status = sky_coded_tier_open(tier, &ladder, &tier)) != SKY_OK)
        sky_fail(error, status, "%.200s: %s", text, sky_status_text(status));
    if (status == SKY_OK)
        sky_cache_add(c, tier);
    return status;
}

/* Two tiers in one folder would take each other's entries for their own, and evict them. */
static sky_status refuse_twice(const char *const *urls, size_t count, sky_error *error) {
    sky_url last, other;
    if (sky_url_parse(urls[count - 1], &last, NULL) != SKY_OK || strcmp(last.scheme, "disk") != 0)
        return SKY_OK;
    for (size_t i = 0; i + 1 < count; i++)
        if (sky_url_parse(urls[i], &other, NULL) == SKY_OK && strcmp(other.scheme, "disk") == 0 &&
            sky_disk_folder_same(last.path, other.path))
            return sky_fail(error, SKY_E_PARAM,
                            "%.200s: another store of this hierarchy is in the same folder; name a "
                            "folder of its own",
                            urls[count - 1]);
    return SKY_OK;
}

sky_status sky_cache_open(const char *const *urls, size_t url_count, sky_cache **out,
                          sky_error *error) {
    assert(out);
    if (url_count == 0 || url_count > SKY_TIERS_MAX)
        return sky_fail(error, SKY_E_PARAM, "%zu stores given: 1 to %d make a hierarchy", url_count,
                        SKY_TIERS_MAX);
    for (size_t i = 0; i < url_count; i++)
        assert(urls && urls[i]);
    sky_cache *c;
    sky_status status = sky_cache_create(&c);
    if (status != SKY_OK)
        return sky_fail(error, status, "a cache could not start: %s", sky_status_text(status));
    for (size_t i = 0; status == SKY_OK && i < url_count; i++) {
        status = open_tier(c, urls[i], i + 1 == url_count, error);
        if (status == SKY_OK)
            status = refuse_twice(urls, i + 1, error);
    }
    if (status == SKY_OK) {
        status = sky_cache_start(c);
        if (status != SKY_OK)
            sky_fail(error, status, "the cache's thread could not start: %s",
                     sky_status_text(status));
    }
    if (status != SKY_OK) {
        sky_cache_close(c);
        return status;
    }
    *out = c;
    return SKY_OK;
}

static void stop_thread(sky_cache *c) {
    if (!c->thread.running)
        return;
    sky_flush(c, sky_now() + CLOSE_NS);
    sky_mutex_lock(&c->mutex);
    c->stopping = true;
    sky_jobs_give_up(c);
    sky_mutex_unlock(&c->mutex);
    sky_wake(c);
    sky_thread_join(&c->thread);
}

void sky_cache_close(sky_cache *c) {
    if (!c)
        return;
    stop_thread(c);
    if (c->batches)
        sky_batches_cancel_all(c->batches);
    sky_mutex_lock(&c->mutex);
    c->closed = true;
    sky_mutex_unlock(&c->mutex);
    for (size_t t = 0; t < c->tier_count; t++) {
        c->tiers[t].tier->ops->close(c->tiers[t].tier);
        free(c->tiers[t].known);
    }
    sky_batches_destroy(c->batches);
    sky_event_close(c->wake);
    sky_condition_deinit(&c->quiet);
    sky_mutex_deinit(&c->mutex);
    free(c);
}

/* ---- batches ---- */

sky_status sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                      const sky_call *call, sky_batch *out) {
    return sky_job_submit(c, op, items, item_count, call, false, out);
}

int sky_event_fd(const sky_cache *c) {
    return sky_batches_event_fd(c->batches);
}

size_t sky_drain(sky_cache *c, sky_batch *done, size_t max) {
    return sky_batches_drain(c->batches, done, max);
}

sky_status sky_wait(sky_cache *c, sky_batch batch, sky_time until) {
    return sky_batches_wait(c->batches, batch, until);
}

void sky_cancel(sky_cache *c, sky_batch batch) {
    sky_mutex_lock(&c->mutex);
    sky_job_give_up(c, batch);
    sky_mutex_unlock(&c->mutex);
    sky_wake(c);
    sky_batches_cancel(c->batches, batch);
}

void sky_release(sky_cache *c, sky_lease lease) {
    if (lease.id != 0 && c->tiers[0].lends)
        c->tiers[0].tier->ops->release(c->tiers[0].tier, lease);
}

sky_status sky_run(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                   const sky_call *call) {
    sky_batch batch;
    sky_status status = sky_job_submit(c, op, items, item_count, call, true, &batch);
    return status == SKY_OK ? sky_wait(c, batch, SKY_TIME_NEVER) : status;
}

size_t sky_prefix(sky_cache *c, const sky_key *keys, size_t key_count, const sky_call *call,
                  uint64_t *payload_bytes) {
    size_t present = 0;
    sky_item *items = malloc(PREFIX_KEYS_MAX * sizeof *items);
    while (items && present < key_count) {
        size_t left = key_count - present,
               at_once = left < PREFIX_KEYS_MAX ? left : PREFIX_KEYS_MAX;
        for (size_t i = 0; i < at_once; i++)
            items[i] = (sky_item){.key = keys[present + i]};
        for (size_t i = 1; i < at_once; i++)
            items[i].parent = keys[present + i - 1]; /* a tier may make use of their order */
        if (sky_run(c, SKY_OP_HAS, items, at_once, call) != SKY_OK)
            break;
        size_t found = 0;
        for (; found < at_once && items[found].status == SKY_OK; found++)
            if (payload_bytes)
                payload_bytes[present + found] = items[found].bytes;
        present += found;
        if (found < at_once)
            break;
    }
    free(items);
    return present;
}

static bool is_quiet(const sky_cache *c) {
    for (size_t t = 0; t < c->tier_count; t++)
        if (c->tiers[t].behind_count > 0)
            return false;
    return c->fetch_count == 0;
}

sky_status sky_flush(sky_cache *c, sky_time until) {
    sky_mutex_lock(&c->mutex);
    while (!is_quiet(c) && sky_condition_wait(&c->quiet, &c->mutex, until)) {
    }
    sky_status status = is_quiet(c) ? SKY_OK : SKY_E_DEADLINE;
    sky_mutex_unlock(&c->mutex);
    return status;
}

void sky_cache_codec_set(sky_cache *c, const sky_block_codec *codec) {
    for (size_t t = 0; t < c->tier_count; t++)
        sky_coded_tier_set(c->tiers[t].tier, codec);
}

/* ---- looking at all tiers ---- */

typedef struct {
    sky_entry_fn each;
    void *context;
    bool stopped;
} listing;

static bool list_one(void *context, const sky_entry *entry) {
    listing *l = context;
    l->stopped = !l->each(l->context, entry);
    return !l->stopped;
}

sky_status sky_list(sky_cache *c, sky_entry_fn each, void *context) {
    listing l = {each, context, false};
    sky_status first = SKY_OK;
    for (size_t t = 0; t < c->tier_count && !l.stopped; t++) {
        sky_status status = c->tiers[t].tier->ops->list(c->tiers[t].tier, list_one, &l);
        first = first == SKY_OK ? status : first;
    }
    return first;
}

sky_status sky_verify(sky_cache *c, sky_verify_report *out) {
    sky_verify_report sum = {0};
    sky_status first = SKY_OK;
    for (size_t t = 0; t < c->tier_count; t++) {
        sky_status status = c->tiers[t].tier->ops->verify(c->tiers[t].tier, &sum);
        first = first == SKY_OK ? status : first;
    }
    if (first == SKY_OK)
        *out = sum;
    return first;
}

size_t sky_tier_count(const sky_cache *c) {
    return c->tier_count;
}

sky_status sky_cache_stat(sky_cache *c, size_t tier, sky_tier_stat *out) {
    if (tier >= c->tier_count)
        return SKY_E_PARAM;
    sky_rung *r = &c->tiers[tier];
    sky_tier_stat stat = {0};
    r->tier->ops->stat(r->tier, &stat);
    sky_mutex_lock(&c->mutex);
    stat.dropped += r->dropped;
    stat.late += r->late;
    if (sky_rung_skipped(r)) {
        stat.failing = true;
        snprintf(stat.note, sizeof stat.note,
                 "skipped for %" PRId64 " ms after %" PRIu32 " failures in a row, the last: %s",
                 (r->retry_at - sky_now()) / 1000000, r->failures,
                 sky_status_text(r->last_failure));
    }
    sky_mutex_unlock(&c->mutex);
    *out = stat;
    return SKY_OK;
}
