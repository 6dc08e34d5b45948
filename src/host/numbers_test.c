/* Proves: a store that is slow to tell its numbers holds up who asks for them, and nobody else; it
 * is asked once for one answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/host_fixture.h"
#include "host/slow_fixture.h"
#include "io/clock.h"
#include "io/sync.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)

static sky_host_fixture host;

/* ---- a store that waits before it tells its numbers ---- */

static _Atomic bool held;
static _Atomic int asked; /* how often */

static sky_status slow_usage(void *self, uint64_t *entries, uint64_t *bytes, uint64_t *bytes_max) {
    (void)self;
    *entries = 100 + (uint64_t)asked++;
    *bytes = *bytes_max = 0;
    while (held)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    return SKY_OK;
}

/* ---- the host ---- */

/* As skymemd's: it asks in all the ways there are. */
static char *numbers(void *context, sky_cache *cache, const sky_host_stat *stat) {
    (void)context, (void)stat;
    static const char line[] = "\nskymem_tier_entries{tier=\"1\",kind=\"slow\"} ";
    sky_tier_stat about;
    char page[65536], *made = malloc(300);
    size_t bytes;
    const uint64_t entries = sky_cache_metric(cache, 1, SKY_METRIC_TIER_ENTRIES);
    bool told = sky_cache_stat(cache, 1, &about) == SKY_OK &&
                sky_cache_prometheus(cache, page, sizeof page, &bytes) == SKY_OK;
    const char *at = told ? strstr(page, line) : NULL;
    if (made)
        snprintf(made, 300, "%s %d", about.url,
                 at && strtoull(at + strlen(line), NULL, 10) == entries);
    return made;
}

static int start(void **state) {
    (void)state;
    const char *urls[] = {"mem:8MiB", "slow:x"};
    sky_tier_driver slow = sky_slow_fixture_driver();
    slow.usage = slow_usage;
    if (sky_tier_register("slow", &slow) != SKY_OK)
        return 1;
    sky_host_fixture_prepare(&host, urls, 2);
    host.options.text = numbers;
    sky_host_fixture_run(&host);
    return 0;
}

static int stop(void **state) {
    (void)state;
    sky_host_fixture_stop(&host);
    return 0;
}

static sky_cache *open_cache(void) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache;
    snprintf(url, sizeof url, "shm:%s", host.socket_path);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    return cache;
}

/* ---- who asks ---- */

typedef struct {
    sky_thread thread;
    sky_cache *cache; /* NULL: it asks for the text */
    sky_status status;
    char *text;
    uint64_t entries;
} asker;

static void *ask(void *argument) {
    asker *a = argument;
    if (a->cache)
        a->entries = sky_cache_metric(a->cache, 0, SKY_METRIC_TIER_ENTRIES);
    else
        a->status = sky_host_text(host.socket_path, sky_now() + PATIENCE, &a->text);
    return NULL;
}

/* A get of a client while the store does not answer another. */
static sky_status get_meanwhile(sky_cache *cache, asker *a) {
    uint8_t data[5000];
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_call call = {.deadline_ns = 0};
    sky_fixture_fill(data, sizeof data, 1);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(sky_flush(cache, SKY_TIME_NEVER, NULL), SKY_OK);
    asked = 0;
    held = true;
    assert_int_equal(sky_thread_start(&a->thread, "asker", ask, a), SKY_OK);
    while (asked == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    call.deadline_ns = sky_now() + SKY_SECONDS(5);
    (void)sky_run(cache, SKY_OP_GET, &item, 1, &call);
    held = false;
    sky_thread_join(&a->thread);
    return item.status;
}

/* ---- tests ---- */

static void a_text_holds_up_nobody(void **state) {
    (void)state;
    sky_cache *cache = open_cache();
    asker a = {0};
    assert_int_equal(get_meanwhile(cache, &a), SKY_OK);
    sky_cache_close(cache);
    assert_int_equal(a.status, SKY_OK);
    assert_string_equal(a.text, "slow:x 1"); /* the same number in both */
    assert_int_equal(asked, 1);
    free(a.text);
}

/* The client's statistics wait for a second at most. */
static void numbers_hold_up_nobody(void **state) {
    (void)state;
    sky_cache *cache = open_cache(), *other = open_cache();
    asker a = {.cache = other};
    assert_int_equal(get_meanwhile(cache, &a), SKY_OK);
    assert_int_equal(asked, 1);
    const uint64_t entries = sky_cache_metric(other, 0, SKY_METRIC_TIER_ENTRIES);
    assert_int_equal(entries, 1 + 101); /* the arena's, and the store's second answer */
    assert_int_equal(asked, 2);
    sky_cache_close(other);
    sky_cache_close(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_text_holds_up_nobody),
                                       cmocka_unit_test(numbers_hold_up_nobody)};
    return cmocka_run_group_tests(tests, start, stop);
}
