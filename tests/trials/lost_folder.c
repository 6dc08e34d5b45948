/* A folder that is removed under a running process comes back with the next write; one that takes
 * no files says so, and no put under a name is acknowledged for nothing. */
#include "trial.h"

#include <sys/stat.h>

static char data[4000];

static void removed(void) {
    const char *const urls[] = {"mem:8MiB", "disk:lost.d"};
    const sky_call durable = {.durable = true};
    sky_cache *c = trial_open(urls, 2);
    must(trial_do(c, SKY_OP_PUT, 1, data, sizeof data, &durable) == SKY_OK);
    must(system("rm -rf lost.d; mkdir lost.d") == 0);
    for (int i = 10; i < 18; i++)
        must(trial_do(c, SKY_OP_PUT, i, data, sizeof data, &durable) == SKY_OK);
    must(sky_cache_metric(c, 1, SKY_METRIC_TIER_ENTRIES) == 8);
    sky_cache_close(c);
}

static void closed(void) {
    const char *const urls[] = {"mem:8MiB", "disk:closed.d"};
    must(mkdir("closed.d", 0755) == 0);
    if (geteuid() == 0) /* root may write anywhere */
        must(chmod(".", 0777) == 0 && chown("closed.d", 65534, 65534) == 0 &&
             setresuid(65534, 65534, 65534) == 0);
    sky_cache *c = trial_open(urls, 2);
    must(chmod("closed.d", 0555) == 0);
    must(trial_do(c, SKY_OP_PUT, 1, data, sizeof data, NULL) == SKY_E_DENIED);
    sky_span span = {data, sizeof data};
    sky_item block = {.key = {{7}}, .spans = &span, .span_count = 1};
    must(sky_run(c, SKY_OP_PUT, &block, 1, NULL) == SKY_OK && block.status == SKY_OK);
    uint64_t dropped = 0;
    must(sky_flush(c, SKY_TIME_NEVER, &dropped) == SKY_E_DENIED && dropped == 1);
    sky_tier_stat stat;
    must(sky_cache_metric(c, 1, SKY_METRIC_TIER_ERRORS) > 0);
    must(sky_cache_stat(c, 1, &stat) == SKY_OK);
    must(strstr(stat.note, "nothing is stored"));
    sky_cache_close(c);
}

int main(void) {
    removed();
    closed();
    return 0;
}
