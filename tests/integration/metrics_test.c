/* Proves, over the shared libraries: what is put into and got from memory, a disk and an embedded
 * sky is counted in each of them, and Prometheus's text of it all is sound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

#define VALUES      3u
#define VALUE_BYTES 20000u
#define TEXT_BYTES  262144u

static void run_all(sky_cache *c, sky_op op, uint32_t tiers) {
    static uint8_t data[VALUES][VALUE_BYTES];
    sky_span spans[VALUES];
    sky_item items[VALUES] = {0};
    for (uint8_t i = 0; i < VALUES; i++) {
        if (op == SKY_OP_PUT)
            memset(data[i], i + 1, VALUE_BYTES);
        spans[i] = (sky_span){data[i], VALUE_BYTES};
        items[i] = (sky_item){.key = {{1, i}}, .spans = &spans[i], .span_count = 1};
    }
    assert_int_equal(sky_run(c, op, items, VALUES, &(sky_call){.tiers = tiers}), SKY_OK);
    for (size_t i = 0; i < VALUES; i++) {
        assert_int_equal(items[i].status, SKY_OK);
        assert_int_equal(data[i][VALUE_BYTES - 1], i + 1);
    }
}

static uint64_t whole(sky_cache *c, sky_metric_id metric) {
    return sky_cache_metric(c, SKY_TIER_NONE, metric);
}

static void check_text(sky_cache *c, const char *folder) {
    char *text = malloc(TEXT_BYTES), path[128], command[256];
    size_t bytes;
    assert_non_null(text);
    assert_int_equal(sky_cache_prometheus(c, text, TEXT_BYTES, &bytes), SKY_OK);
    assert_non_null(strstr(text, "skymem_session_puts_total{tier=\"2\",kind=\"sky\"} 3\n"));
    assert_non_null(strstr(text, "skymem_tier_answer_seconds_count{tier=\"1\",kind=\"disk\","
                                 "op=\"put\"} 3\n"));
    snprintf(path, sizeof path, "%s/text", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    free(text);
    snprintf(command, sizeof command, "python3 tests/cli/prometheus_check.py %s", path);
    assert_int_equal(system(command), 0);
}

static void mem_disk_and_sky_count(void **state) {
    (void)state;
    char folder[] = "/tmp/skymem-metrics-XXXXXX", disk[64], command[64];
    sky_cache *c;
    sky_error error;
    assert_non_null(mkdtemp(folder));
    snprintf(disk, sizeof disk, "disk:%s/disk", folder);
    const char *urls[] = {"mem:4MiB", disk, "sky:scenarios/constellation.yaml"};
    assert_int_equal(sky_skies_register(), SKY_OK);
    assert_int_equal(sky_cache_open(urls, 3, &c, &error), SKY_OK);
    run_all(c, SKY_OP_PUT, 0);
    assert_int_equal(sky_flush(c, sky_now() + SKY_SECONDS(60), NULL), SKY_OK);
    for (uint32_t tiers = 1; tiers <= 4; tiers *= 2)
        run_all(c, SKY_OP_GET, tiers);
    for (size_t t = 0; t < 3; t++) {
        uint64_t bytes = VALUES * VALUE_BYTES;
        assert_int_equal(sky_cache_metric(c, t, SKY_METRIC_TIER_ENTRIES), VALUES);
        assert_int_equal(sky_cache_metric(c, t, SKY_METRIC_TIER_PUTS), VALUES);
        assert_int_equal(sky_cache_metric(c, t, SKY_METRIC_TIER_HITS), VALUES);
        assert_int_equal(sky_cache_metric(c, t, SKY_METRIC_TIER_READ_BYTES), bytes);
        assert_int_equal(sky_cache_metric(c, t, SKY_METRIC_TIER_WRITTEN_BYTES), bytes);
        assert_int_equal(sky_cache_metric(c, t, SKY_METRIC_TIER_WRITE_BACKS), t > 0 ? VALUES : 0);
    }
    assert_int_equal(whole(c, SKY_METRIC_CACHE_HITS), 3 * VALUES);
    assert_int_equal(whole(c, SKY_METRIC_CACHE_MISSES), 0);
    assert_int_equal(sky_cache_metric(c, 2, SKY_METRIC_SESSION_HITS), VALUES);
    assert_int_equal(sky_cache_metric(c, 2, SKY_METRIC_SESSION_BYTES), VALUES * VALUE_BYTES);
    assert_int_equal(sky_cache_metric(c, 1, SKY_METRIC_SESSION_HITS), 0);
    check_text(c, folder);
    sky_cache_close(c);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mem_disk_and_sky_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
