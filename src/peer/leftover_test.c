/* Proves that nothing is left of what is over: of several hosts none waits on for a block that
 * another one has, and a child of fork keeps no port. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "io/clock.h"
#include "io/sync.h"
#include "peer/peer_fixture.h"
#include "tier/tier_fixture.h"

#define HOSTS    2
#define PATIENCE SKY_SECONDS(60)

static uint64_t waiting_at(const sky_peer_fixture *hosts) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < HOSTS; i++)
        sum += sky_cache_metric(hosts[i].cache, SKY_TIER_NONE, SKY_METRIC_CACHE_AWAITED);
    return sum;
}

static void wait_for(const sky_peer_fixture *hosts, uint64_t waits) {
    sky_time until = sky_now() + PATIENCE;
    while (waiting_at(hosts) != waits) {
        assert_true(sky_now() < until);
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    }
}

static sky_cache *open_all(const sky_peer_fixture *hosts) {
    char path[64], url[256];
    const char *urls[] = {url};
    sky_cache *cache;
    snprintf(path, sizeof path, "/tmp/skymem-leftover-%d", getpid());
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (uint32_t i = 0; i < HOSTS; i++)
        fprintf(out, "%s plain\n", sky_peer_address(hosts[i].server));
    assert_int_equal(fclose(out), 0);
    snprintf(url, sizeof url, "skymem://?peers=%s%s", path, sky_peer_fixture_query());
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    unlink(path);
    return cache;
}

/* An announcement goes to all hosts, and the put to one of them. */
static void who_has_it_ends_the_wait_of_all(void **state) {
    const char *url = "mem:16MiB";
    sky_peer_fixture hosts[HOSTS];
    uint8_t data[1000] = {1};
    sky_span span = {data, sizeof data};
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++)
        sky_peer_fixture_start(&hosts[i], &url, 1, false);
    sky_cache *maker = open_all(hosts), *reader = open_all(hosts);
    for (uint64_t n = 0; n < 4; n++) {
        sky_item made = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        sky_item wanted = {.key = made.key};
        const sky_call call = {.deadline_ns = sky_now() + PATIENCE};
        sky_batch batch;
        assert_int_equal(sky_run(maker, SKY_OP_ANNOUNCE, &made, 1, NULL), SKY_OK);
        assert_int_equal(sky_submit(reader, SKY_OP_AWAIT, &wanted, 1, &call, &batch), SKY_OK);
        wait_for(hosts, HOSTS);
        assert_int_equal(sky_run(maker, SKY_OP_PUT, &made, 1, NULL), SKY_OK);
        assert_int_equal(sky_wait(reader, batch, sky_now() + PATIENCE), SKY_OK);
        assert_int_equal(wanted.status, SKY_OK);
        wait_for(hosts, 0);
    }
    sky_cache_close(reader);
    sky_cache_close(maker);
    for (uint32_t i = 0; i < HOSTS; i++)
        sky_peer_fixture_stop(&hosts[i]);
}

static void a_child_keeps_no_port(void **state) {
    const char *url = "mem:1MiB";
    sky_peer_fixture host;
    char address[64];
    sky_error error = {0};
    int runs[2]; /* the child says that it does */
    char byte = 0;
    (void)state;
    assert_int_equal(pipe(runs), 0);
    sky_peer_fixture_start(&host, &url, 1, false);
    snprintf(address, sizeof address, "%s", sky_peer_address(host.server));
    pid_t child = fork();
    if (child == 0) {
        if (write(runs[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    assert_true(child > 0);
    assert_int_equal(read(runs[0], &byte, 1), 1);
    sky_peer_stop(host.server);
    const sky_peer_options options = {
        .struct_bytes = sizeof options, .address = address, .plain = true};
    sky_status status = sky_peer_serve(host.cache, &options, &host.server, &error);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(runs[0]);
    close(runs[1]);
    if (status != SKY_OK)
        fail_msg("%s", error.text);
    sky_peer_fixture_stop(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_it_ends_the_wait_of_all),
        cmocka_unit_test(a_child_keeps_no_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
