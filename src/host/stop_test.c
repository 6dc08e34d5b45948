/* Proves that a host that stops ends the checks that clients asked for, those that wait
 * for their turn included, instead of waiting for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/opener.h"
#include "host/host_fixture.h"
#include "io/clock.h"
#include "io/local.h"
#include "tier/shm/raw_fixture.h"
#include "tier/tier.h"

#define CLIENTS 3

/* A store whose check never ends by itself. */
static sky_tier_env held_env;
static sky_tier_ops held_ops;
static atomic_int checks;

static sky_status held_verify(sky_tier *tier, sky_verify_report *out) {
    (void)tier;
    (void)out;
    atomic_fetch_add(&checks, 1);
    while (!sky_tier_verify_cancelled(&held_env))
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    return SKY_E_CANCELLED;
}

static sky_status held_open(const char *url, const sky_tier_env *env, sky_tier **out,
                            sky_error *error) {
    (void)url;
    held_env = *env;
    sky_status status = sky_memory_tier_open("mem:1MiB", env, out, error);
    if (status == SKY_OK) {
        held_ops = *(*out)->ops;
        held_ops.verify = held_verify;
        (*out)->ops = &held_ops;
    }
    return status;
}

typedef struct {
    const char *socket_path;
    sky_thread thread;
    sky_status status;
} client;

static void *check_all(void *argument) {
    client *c = argument;
    char text[80];
    const char *url = text;
    sky_cache *cache;
    sky_verify_report report;
    snprintf(text, sizeof text, "shm:%s", c->socket_path);
    c->status = sky_cache_open(&url, 1, &cache, NULL);
    if (c->status != SKY_OK)
        return NULL;
    c->status = sky_verify(cache, &report);
    sky_cache_close(cache);
    return NULL;
}

static void checks_end_with_the_host(void **state) {
    (void)state;
    static const char *const urls[] = {"mem:1MiB", "held:here"};
    sky_host_fixture host;
    client clients[CLIENTS];
    assert_int_equal(sky__opener_set("held", held_open, SKY_VERSION_NUMBER), SKY_OK);
    sky_host_fixture_start(&host, urls, 2);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.socket_path = host.socket_path};
        assert_int_equal(sky_thread_start(&clients[i].thread, "client", check_all, &clients[i]),
                         SKY_OK);
    }
    while (atomic_load(&checks) == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    sky_host_fixture_stop(&host); /* else it waits for ever */
    for (size_t i = 0; i < CLIENTS; i++) {
        sky_thread_join(&clients[i].thread);
        assert_int_not_equal(clients[i].status, SKY_OK);
    }
    assert_int_equal(atomic_load(&checks), 1); /* the others never began */
}

/* It asked for a check, and is gone when the host is to stop. */
static void a_check_that_nobody_waits_for_ends_too(void **state) {
    (void)state;
    static const char *const urls[] = {"mem:1MiB", "held:here"};
    const sky_shm_frame ask = {.kind = SKY_SHM_ASK, .question = SKY_SHM_VERIFY};
    sky_host_fixture host;
    sky_local_peer peer;
    int fd;
    atomic_store(&checks, 0);
    sky_host_fixture_start(&host, urls, 2);
    assert_int_equal(sky_local_connect(host.socket_path, &fd, &peer), SKY_OK);
    sky_raw_greet(fd);
    sky_raw_say(fd, &ask, -1);
    while (atomic_load(&checks) == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    sky_raw_close(fd);
    char *text; /* after this the host knows that it is gone */
    assert_int_equal(sky_host_text(host.socket_path, sky_now() + SKY_SECONDS(60), &text), SKY_OK);
    free(text);
    sky_host_fixture_stop(&host); /* else it waits for ever */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(checks_end_with_the_host),
                                       cmocka_unit_test(a_check_that_nobody_waits_for_ends_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
