/* Proves: the text is the golden one, tests/golden/prometheus.txt; what a URL keeps secret is left
 * out and every label escaped; and a buffer that is too small is filled and no more.
 * `prometheus_test --write` writes the golden text again, after the table has got a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "cache/cache_internal.h"
#include "cache/cache_state.h"

#define GOLDEN     "tests/golden/prometheus.txt"
#define TEXT_BYTES 131072u

#define SECRETIVE "s3://name:word@host/a\"b\\c\n\xc3\xbc?secret=word#word"

static const char *url = SECRETIVE;

/* A sky that has counted 1, 2, 3 … */
static void counted_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    (void)tier;
    snprintf(out->url, sizeof out->url, "%s", url);
    uint64_t *members = (uint64_t *)counts;
    for (size_t i = 0; i < sizeof *counts / sizeof *members; i++)
        members[i] = i + 1;
}

static void counted_close(sky_tier *tier) {
    (void)tier;
}

static sky_time zero_now(const sky_clock *clock) {
    (void)clock;
    return 0;
}

static int64_t zero_wall_ms(const sky_clock *clock) {
    (void)clock;
    return 0;
}

static const sky_tier_ops counted_ops = {.stat = counted_stat, .close = counted_close};

static sky_cache *open_counted(sky_tier *tiers) {
    static const sky_clock zero = {zero_now, zero_wall_ms};
    sky_cache *c;
    assert_int_equal(sky__cache_create(&zero, &c), SKY_OK);
    for (size_t i = 0; i < 2; i++) {
        tiers[i] = (sky_tier){.ops = &counted_ops, .traits = i == 1 ? SKY_TIER_SKY : 0};
        sky__cache_add(c, &tiers[i]);
    }
    assert_int_equal(sky__cache_start_stepped(c), SKY_OK);
    sky_histogram_add(&c->times[1].answer[SKY_OP_GET], 300);
    sky_histogram_add(&c->times[1].answer[SKY_OP_GET], 1500000000);
    sky_histogram_add(&c->times[1].answer[SKY_OP_GET], INT64_C(100000000000));
    sky_histogram_add(&c->times[0].queue[0], 0);
    return c;
}

static char *text_of(sky_cache *c, size_t *bytes) {
    char *text = malloc(TEXT_BYTES);
    assert_non_null(text);
    assert_int_equal(sky_cache_prometheus(c, text, TEXT_BYTES, bytes), SKY_OK);
    assert_int_equal(strlen(text), *bytes);
    return text;
}

static void the_text_is_the_golden_one(void **state) {
    (void)state;
    sky_tier tiers[2];
    sky_cache *c = open_counted(tiers);
    size_t bytes;
    char *text = text_of(c, &bytes), line[1024];
    const char *at = text;
    FILE *golden = fopen(GOLDEN, "r");
    assert_non_null(golden);
    for (int number = 1; fgets(line, sizeof line, golden); number++) {
        size_t length = strlen(line);
        if (strncmp(at, line, length) != 0)
            fail_msg("%s:%d: %s is now %.*s", GOLDEN, number, line, (int)strcspn(at, "\n"), at);
        at += length;
    }
    assert_int_equal(*at, 0);
    fclose(golden);
    free(text);
    sky__cache_abandon(c);
}

static void secrets_of_a_url_stay_out(void **state) {
    (void)state;
    sky_tier tiers[2];
    sky_cache *c = open_counted(tiers);
    size_t bytes;
    char *text = text_of(c, &bytes);
    assert_null(strstr(text, "word"));
    assert_null(strstr(text, "name:"));
    assert_non_null(strstr(text, "where=\"//host/a\\\"b\\\\c%0A%C3%BC\"} 1\n"));
    free(text);
    sky__cache_abandon(c);
}

/* The place of a tier at `text`, as the label says it. */
static void assert_place(const char *text, const char *place) {
    char label[512];
    sky_tier tiers[2];
    url = text;
    sky_cache *c = open_counted(tiers);
    size_t bytes;
    char *page = text_of(c, &bytes);
    snprintf(label, sizeof label, ",where=\"%s\"} 1\n", place);
    if (!strstr(page, label))
        fail_msg("%s: %s", text, strstr(page, "where="));
    free(page);
    sky__cache_abandon(c);
    url = SECRETIVE;
}

static void a_place_has_a_user_only_with_an_authority(void **state) {
    (void)state;
    static const struct {
        const char *url, *place;
    } rows[] = {
        {"disk:/a@b/x", "/a@b/x"},
        {"disk:a@b/x", "a@b/x"},
        {"disk:/tmp/sd#1?max=1GiB", "/tmp/sd#1"},
        {"disk:~/x?a=b@c", "~/x"},
        {"mem:64MiB", "64MiB"},
        {"sky:seed", "seed"},
        {"plain", ""},
        {"s3://host/x", "//host/x"},
        {"s3://host/x?key=word#word", "//host/x"},
        {"s3://host#word", "//host"},
        {"s3://user@host/x", "//host/x"},
        {"s3://user:a/b@host", "//host"},
        {"s3://user:a@b/c@host/x", "//host/x"},
        {"s3://user:a:b@host/x", "//host/x"},
        {"s3://user:a/b?c#d@host/x", "//"},
        {"s3://user:a#b@host/x", "//"},
        {"s3://host/x?key=word@word", "//"},
        {"s3://user:word@", "//"},
        {"s3://", "//"},
    };
    char cut[400] = "s3://user:";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_place(rows[i].url, rows[i].place);
    memset(cut + strlen(cut), 'w', 300); /* the @ is past what a tier tells */
    snprintf(cut + 310, sizeof cut - 310, "@host");
    assert_place(cut, "//");
}

static void a_small_buffer_is_filled(void **state) {
    (void)state;
    sky_tier tiers[2];
    sky_cache *c = open_counted(tiers);
    size_t bytes, needed;
    char *text = text_of(c, &bytes), *part = malloc(bytes + 1);
    assert_non_null(part);
    assert_int_equal(sky_cache_prometheus(c, NULL, 0, &needed), SKY_E_DST_SMALL);
    assert_int_equal(needed, bytes);
    assert_int_equal(sky_cache_prometheus(c, part, bytes, &needed), SKY_E_DST_SMALL);
    assert_int_equal(needed, bytes);
    assert_int_equal(strlen(part), bytes - 1);
    assert_memory_equal(part, text, bytes - 1);
    assert_int_equal(sky_cache_prometheus(c, part, bytes + 1, &needed), SKY_OK);
    assert_string_equal(part, text);
    assert_int_equal(sky_cache_prometheus(c, NULL, 1, &needed), SKY_E_PARAM);
    assert_int_equal(sky_cache_prometheus(c, part, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_prometheus(NULL, part, 1, &needed), SKY_E_PARAM);
    free(part);
    free(text);
    sky__cache_abandon(c);
}

static int write_golden(void) {
    sky_tier tiers[2];
    sky_cache *c = open_counted(tiers);
    size_t bytes;
    char *text = text_of(c, &bytes);
    FILE *golden = fopen(GOLDEN, "w");
    bool written = golden && fwrite(text, 1, bytes, golden) == bytes && fclose(golden) == 0;
    free(text);
    sky__cache_abandon(c);
    return written ? 0 : 1;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_the_golden_one),
        cmocka_unit_test(secrets_of_a_url_stay_out),
        cmocka_unit_test(a_place_has_a_user_only_with_an_authority),
        cmocka_unit_test(a_small_buffer_is_filled),
    };
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        return write_golden();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
