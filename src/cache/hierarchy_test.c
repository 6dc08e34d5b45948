/* Proves that a hierarchy keeps what every tier promises, alone and in the compositions people use:
 * memory, disk, a sky, memory before disk, and memory before disk before a sky. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_internal.h"
#include "cache/cache_state.h"
#include "sim/sim_tier_fixture.h"
#include "tier/disk/disk_fixture.h"
#include "tier/tier_fixture.h"

/* A cache that looks like a tier. */
typedef struct {
    sky_tier tier;
    sky_cache *cache;
} wrapped;

static sky_cache *cache_of(sky_tier *tier) {
    return ((wrapped *)tier)->cache;
}

static sky_status wrapped_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                 const sky_call *call, sky_batch *out) {
    return sky_submit(cache_of(tier), op, items, item_count, call, out);
}

static void wrapped_cancelled(sky_tier *tier, sky_batch batch) {
    sky__cache_give_up(cache_of(tier), batch);
}

static void wrapped_release(sky_tier *tier, sky_lease lease) {
    sky_release(cache_of(tier), lease);
}

static sky_status wrapped_list(sky_tier *tier, sky_entry_fn each, void *context) {
    return sky_list(cache_of(tier), each, context);
}

static sky_status wrapped_verify(sky_tier *tier, sky_verify_report *out) {
    sky_verify_report report;
    sky_status status = sky_verify(cache_of(tier), &report);
    out->entries += report.entries;
    out->bytes += report.bytes;
    out->corrupt += report.corrupt;
    out->orphans += report.orphans;
    return status;
}

/* The tiers' numbers, added up. */
static void wrapped_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    for (size_t t = 0; t < sky_tier_count(cache_of(tier)); t++) {
        sky_tier_counts one;
        assert_int_equal(sky_cache_stat(cache_of(tier), t, out), SKY_OK);
        assert_int_equal(sky__cache_tier_counts(cache_of(tier), t, &one), SKY_OK);
        SKY_COUNTS_ADD(&counts->tier, &one);
    }
}

static void wrapped_close(sky_tier *tier) {
    sky_cache_close(cache_of(tier));
    free(tier);
}

static const sky_tier_ops wrapped_ops = {
    .submit = wrapped_submit,
    .cancelled = wrapped_cancelled,
    .release = wrapped_release,
    .list = wrapped_list,
    .verify = wrapped_verify,
    .stat = wrapped_stat,
    .close = wrapped_close,
};

/* What a composition is made of; NULL: no such tier. `folder` is filled in at open. */
typedef struct {
    const char *mem_url;
    const char *disk_query;
    bool sky;
    char *folder;
} recipe;

static void add(sky_cache *c,
                sky_status (*open)(const char *, const sky_tier_env *, sky_tier **, sky_error *),
                const char *url, const sky_tier_env *outer) {
    sky_tier_env env = sky__cache_env(c);
    env.clock = outer->clock;
    sky_tier *tier;
    sky_error error;
    if (open(url, &env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    sky__cache_add(c, tier);
}

static void add_sky(sky_cache *c, const sky_tier_env *outer) {
    const sky_scenario scenario = sky_fixture_fast_scenario();
    sky_tier_env env = sky__cache_env(c);
    env.clock = outer->clock;
    sky__cache_add(c, sky_fixture_open_sky(&scenario, &env));
}

static sky_tier *open_on(const recipe *r, const sky_tier_env *env) {
    wrapped *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->tier.ops = &wrapped_ops;
    assert_int_equal(sky__cache_create(NULL, &w->cache), SKY_OK);
    w->tier.batches = w->cache->batches;
    if (r->mem_url)
        add(w->cache, sky_memory_tier_open, r->mem_url, env);
    if (r->disk_query) {
        char url[160];
        snprintf(url, sizeof url, "disk:%s%s", r->folder, r->disk_query);
        add(w->cache, sky_disk_tier_open, url, env);
    }
    if (r->sky)
        add_sky(w->cache, env);
    assert_int_equal(sky__cache_start(w->cache), SKY_OK);
    return &w->tier;
}

static sky_tier *open_new(void *context, const sky_tier_env *env) {
    recipe *r = context;
    if (r->disk_query)
        r->folder = disk_folder_make();
    return open_on(r, env);
}

static void close_and_drop(void *context, sky_tier *tier) {
    recipe *r = context;
    tier->ops->close(tier);
    if (r->disk_query)
        disk_folder_drop(r->folder);
}

static sky_tier *open_again(void *context, sky_tier *tier, const sky_tier_env *env) {
    tier->ops->close(tier);
    return open_on(context, env);
}

/* Reopening memory and disk is not for the suite: it reads blocks without naming their parents, so
 * that their promoted copies stand alone and outlive a removal of the parent. cache_test names
 * them. */
static int conform(const char *name, const char *mem_url, const char *disk_query, bool sky) {
    recipe r = {mem_url, disk_query, sky, NULL};
    bool several = (mem_url != NULL) + (disk_query != NULL) + sky > 1;
    const sky_tier_fixture fixture = {.name = name,
                                      .context = &r,
                                      .open = open_new,
                                      .close = close_and_drop,
                                      .reopen = disk_query && !several ? open_again : NULL,
                                      .capacity_bytes = several ? 0
                                                        : sky   ? 11500000
                                                                : 8 << 20,
                                      .payload_bytes_max = 3 << 20,
                                      .items_max = 80,
                                      .leases = mem_url != NULL,
                                      .pins = true,
                                      .ttl = true,
                                      .adopts = true,
                                      .drops_orphans = !sky,
                                      .composite = several};
    return sky_tier_conformance(&fixture);
}

int main(void) {
    int failed = conform("hierarchy of memory", "mem:8MiB", NULL, false);
    failed += conform("hierarchy of disk", NULL, "?max=8MiB", false);
    failed += conform("hierarchy of a sky", NULL, NULL, true);
    failed += conform("hierarchy of memory and disk", "mem:8MiB", "?max=64MiB", false);
    failed += conform("hierarchy of memory, disk and sky", "mem:8MiB", "?max=64MiB", true);
    return failed;
}
