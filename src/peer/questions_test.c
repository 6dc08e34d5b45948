/* Proves: a host that verifies its cache for a client answers that client's lookups meanwhile, and
 * stops when it has to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/sync.h"
#include "peer/peer_fixture.h"
#include "tier/peer/peer.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)

/* A verification of any length: until it may end, or is cancelled. */
static atomic_int begun, may_end, cancelled;

sky_status __wrap_sky_verify(sky_cache *cache, sky_verify_report *report);
void __wrap_sky_verify_cancel(sky_cache *cache);

sky_status __wrap_sky_verify(sky_cache *cache, sky_verify_report *report) {
    (void)cache;
    *report = (sky_verify_report){.entries = 7};
    atomic_store(&begun, 1);
    while (!atomic_load(&may_end) && !atomic_load(&cancelled))
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    return atomic_load(&cancelled) ? SKY_E_CANCELLED : SKY_OK;
}

void __wrap_sky_verify_cancel(sky_cache *cache) {
    (void)cache;
    atomic_store(&cancelled, 1);
}

typedef struct {
    sky_peer_fixture host;
    sky_tier *tier;
    sky_thread asker;
    sky_status status;
    sky_verify_report report;
} trial;

static void *ask(void *argument) {
    trial *t = argument;
    t->status = t->tier->ops->verify(t->tier, &t->report);
    return NULL;
}

/* One connection, over which the host is asked whether all is whole. */
static void start(trial *t) {
    static const sky_tier_env env;
    const char *url = "mem:1MiB";
    char text[256];
    *t = (trial){0};
    atomic_store(&begun, 0);
    atomic_store(&may_end, 0);
    atomic_store(&cancelled, 0);
    sky_peer_fixture_start(&t->host, &url, 1, false);
    sky_peer_fixture_url(&t->host, "connections=1", text);
    assert_int_equal(sky_peer_tier_open(text, &env, &t->tier, NULL), SKY_OK);
    assert_int_equal(sky_thread_start(&t->asker, "asker", ask, t), SKY_OK);
    for (sky_time until = sky_now() + PATIENCE; !atomic_load(&begun);) {
        assert_true(sky_now() < until);
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    }
}

static void lookups_do_not_wait_for_it(void **state) {
    trial t;
    (void)state;
    start(&t);
    assert_int_equal(sky_fixture_one(t.tier, SKY_OP_HAS, sky_fixture_key(1)), SKY_MISS);
    assert_int_equal(sky_fixture_put(t.tier, sky_fixture_key(1), NULL, 100, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(t.tier, sky_fixture_key(1), 100, 1), SKY_OK);
    atomic_store(&may_end, 1);
    sky_thread_join(&t.asker);
    assert_int_equal(t.status, SKY_OK);
    assert_int_equal(t.report.entries, 7);
    assert_int_equal(atomic_load(&cancelled), 0);
    t.tier->ops->close(t.tier);
    sky_peer_fixture_stop(&t.host);
}

static void a_server_that_stops_ends_it(void **state) {
    trial t;
    (void)state;
    start(&t);
    sky_peer_fixture_stop(&t.host);
    assert_int_equal(atomic_load(&cancelled), 1);
    sky_thread_join(&t.asker);
    assert_int_equal(t.status, SKY_E_IO);
    t.tier->ops->close(t.tier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookups_do_not_wait_for_it),
        cmocka_unit_test(a_server_that_stops_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
