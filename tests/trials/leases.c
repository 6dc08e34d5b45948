/* A store of the program's own lends without a copy, and takes pins; a thread that ends with 1,000
 * leases costs nothing but one call. */
#include "trial.h"

#include <pthread.h>
#include <skymem/metrics.h>

#include "tier_heap.c"

enum { LEASES = 1000, BYTES = 20000 };

static void *borrower(void *cache) {
    sky_key key = {{1}};
    for (int i = 0; i < LEASES; i++) {
        sky_item item = {.key = key};
        const sky_call call = {.owner = 42};
        must(sky_run(cache, SKY_OP_LEASE, &item, 1, &call) == SKY_OK && item.status == SKY_OK);
        must(item.view.bytes == BYTES && ((char *)item.view.data)[BYTES - 1] == 'x');
        must(sky_release(cache, item.lease) == SKY_E_DENIED);
    }
    return NULL; /* and returns none of them */
}

static sky_status one(sky_cache *c, sky_op op, unsigned char n, const void *data) {
    sky_span span = {(void *)(size_t)data, BYTES};
    sky_item item = {.key = {{n}}, .spans = &span, .span_count = data ? 1 : 0};
    must(sky_run(c, op, &item, 1, NULL) == SKY_OK);
    return item.status;
}

int main(void) {
    static char data[BYTES];
    memset(data, 'x', BYTES);
    must(sky_tier_register("heap", &tier_heap) == SKY_OK);
    const char *const urls[] = {"heap:100000"};
    sky_cache *c = trial_open(urls, 1);
    sky_tier_stat stat;
    must(sky_cache_stat(c, 0, &stat) == SKY_OK && stat.traits & SKY_TIER_LEASES);
    must(one(c, SKY_OP_PUT, 1, data) == SKY_OK);
    pthread_t thread;
    must(pthread_create(&thread, NULL, borrower, c) == 0 && pthread_join(thread, NULL) == 0);
    must(sky_cache_metric(c, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) == LEASES);
    uint64_t released;
    must(sky_release_owner(c, 42, &released) == SKY_OK && released == LEASES);
    must(sky_cache_metric(c, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) == 0);
    must(one(c, SKY_OP_PIN, 1, NULL) == SKY_OK);
    for (unsigned char n = 2; n < 20; n++)
        must(one(c, SKY_OP_PUT, n, data) == SKY_OK);
    must(one(c, SKY_OP_HAS, 1, NULL) == SKY_OK); /* the oldest, but pinned */
    must(one(c, SKY_OP_HAS, 2, NULL) == SKY_MISS);
    sky_cache_close(c);
    return 0;
}
