/* A program that brings its own tier: memory over a folder of files.
 *
 *   cc own_tier.c -o own_tier $(pkg-config --cflags --libs skymem)
 *   ./own_tier /tmp/values
 */
#include "tier_dir.c"

static int fail(const char *what, sky_status status) {
    fprintf(stderr, "own_tier: %s: %s\n", what, sky_status_text(status));
    return 1;
}

int main(int argc, char **argv) {
    char url[512], value[] = "a value", got[sizeof value];
    snprintf(url, sizeof url, "dir:%s", argc > 1 ? argv[1] : "values");
    const char *const urls[] = {"mem:64MiB", url};
    sky_cache *cache;
    sky_error error;
    sky_status status = sky_tier_register("dir", &tier_dir);
    if (status != SKY_OK)
        return fail("register", status);
    if (sky_cache_open(urls, 2, &cache, &error) != SKY_OK) {
        fprintf(stderr, "own_tier: %s\n", error.text);
        return 1;
    }
    sky_item item = {.name = "greeting", .name_bytes = 8};
    const sky_namespace anybody = {0};
    (void)sky_name_key(&anybody, item.name, item.name_bytes, &item.key);
    item.spans = &(sky_span){value, sizeof value};
    item.span_count = 1;
    (void)sky_run(cache, SKY_OP_PUT, &item, 1, &(sky_call){.durable = true});
    if (item.status != SKY_OK)
        return fail("put", item.status);
    item.spans = &(sky_span){got, sizeof got};
    (void)sky_run(cache, SKY_OP_GET, &item, 1, &(sky_call){.tiers = 2}); /* not from memory */
    if (item.status != SKY_OK)
        return fail("get", item.status);
    sky_tier_stat stat;
    (void)sky_cache_stat(cache, 1, &stat);
    printf("%s: \"%s\", %llu values\n", stat.url, got,
           (unsigned long long)sky_cache_metric(cache, 1, SKY_METRIC_TIER_ENTRIES));
    sky_cache_close(cache);
    return 0;
}
